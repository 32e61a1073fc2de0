//! Columns of `for` in version 1. The file is never rewritten: its contents must always decode.

use catchment_codec::{Codec, decode_column};

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn columns_of_version_1_decode() {
    let mut columns = 0;
    for line in include_str!("golden/for-v1.txt").lines().filter(|line| !line.starts_with('#')) {
        let [name, raw, stored] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("a name, raw bytes and stored bytes: {line:.60}")
        };
        let (raw, stored) = (bytes(raw), bytes(stored));
        let mut out = Vec::new();
        decode_column(Codec::For, &stored, raw.len() as u64, &mut out).expect(name);
        assert!(out == raw, "{name}");
        columns += 1;
    }
    assert_eq!(columns, 9);
}
