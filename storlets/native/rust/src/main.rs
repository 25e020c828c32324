//! The CRC-32 of standard input, in one pass.

use std::io::{self, Read, Write};

fn main() -> io::Result<()> {
    let table = table();
    let mut data = vec![0; 1 << 16];
    let mut value = u32::MAX;
    let mut source = io::stdin().lock();
    loop {
        let size = source.read(&mut data)?;
        if size == 0 {
            break;
        }
        for byte in &data[..size] {
            value = table[((value ^ u32::from(*byte)) & 0xff) as usize] ^ (value >> 8);
        }
    }
    writeln!(io::stdout(), "{:08x}", !value)
}

fn table() -> [u32; 256] {
    let mut table = [0; 256];
    for (byte, entry) in table.iter_mut().enumerate() {
        let mut value = byte as u32;
        for _ in 0..8 {
            value = if value & 1 != 0 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
        }
        *entry = value;
    }
    table
}
