module crc

go 1.19
