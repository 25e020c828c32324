module crc

go 1.20
