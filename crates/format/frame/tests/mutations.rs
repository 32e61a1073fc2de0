//! Thousands of seeded mutations of the golden files: every result is right, or an error.

#![expect(clippy::disallowed_methods, reason = "golden files are read from the repository")]

use std::collections::HashMap;
use std::path::Path;

use catchment_fixtures::Random;
use catchment_frame::{FileReader, crc32c, fuzz_file};

const NAMES: [&str; 11] = [
    "v1.0/events-raw",
    "v1.0/events-lz4-missing",
    "v1.0/events-unclosed",
    "v1.1/channels-for",
    "v1.1/channels-pcodec",
    "v1.1/channels-bitshuffle-zstd",
    "v1.1/typed-shuffle-lz4",
    "v1.1/unfinished",
    "v1.3/blocks-lz4",
    "v1.3/positions",
    "v1.3/reserved",
];

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(folder.join(name).with_extension("catch")).expect("the golden file")
}

/// Changes some bytes, cuts, repeats or moves a piece.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let length = bytes.len();
    match random.index(8) {
        0 => bytes.truncate(random.index(length)),
        1 => {
            let (from, to) = (random.index(length / 64) * 64, random.index(length / 64) * 64);
            let count = 64.min(length - from.max(to));
            bytes.copy_within(from..from + count, to);
        }
        2 => {
            let at = random.index(length / 4_096) * 4_096;
            let block = bytes[at..(at + 4_096).min(length)].to_vec();
            let to = random.index(length / 4_096) * 4_096;
            bytes.splice(to..to, block);
        }
        3 => {
            let at = random.index(length / 8) * 8;
            let number = [0, 1, u64::MAX, 1 << 63, 1 << 31, 4_096][random.index(6)];
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        _ => {
            for _ in 0..=random.index(6) {
                // Most bytes are padding: headers are more interesting.
                let at = if random.index(2) == 0 {
                    random.index(length / 4_096) * 4_096 + random.index(512)
                } else {
                    random.index(length)
                };
                bytes[at.min(length - 1)] = random.next_u64() as u8;
            }
        }
    }
}

/// Makes the checksums of file header, frame headers and trailer right, wherever these are still
/// recognisable.
fn right_checksums(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
    };
    for at in (0..bytes.len().saturating_sub(127)).step_by(4_096) {
        let (crc_at, covered) = match &bytes[at..at + 8] {
            b"CTMFRAME" => (12, number(bytes, at + 8)),
            b"CTMCLOSE" => (12, 64),
            b"CTMCHECK" => (8, 64),
            _ if at == 0 => (20, 64 + number(bytes, 16)),
            _ => continue,
        };
        if covered < 64 || covered > bytes.len() - at {
            continue;
        }
        bytes[at + crc_at..at + crc_at + 4].fill(0);
        let crc = crc32c(&bytes[at..at + covered]);
        bytes[at + crc_at..at + crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

#[test]
fn mutated_files_with_right_checksums_are_read_without_panic() {
    let mut random = Random::new(0x5eed_0001);
    for name in NAMES {
        let whole = golden(name);
        for _ in 0..700 {
            let mut bytes = whole.clone();
            mutate(&mut bytes, &mut random);
            right_checksums(&mut bytes);
            fuzz_file(&bytes);
        }
    }
}

#[test]
fn what_is_read_from_a_mutated_file_is_what_was_written() {
    let mut random = Random::new(0x5eed_0002);
    for name in NAMES {
        let whole = golden(name);
        let mut written = HashMap::new();
        let file = FileReader::open(&whole).expect("opens");
        for frame in 0..file.frames().len() {
            for entry in file.columns(frame).expect("a directory") {
                let mut column = Vec::new();
                // A qualified column is refused.
                if file.read_column(frame, &entry, &mut column).is_ok() {
                    written.insert((file.frames()[frame].info.sequence, entry.id), column);
                }
            }
        }
        let mut column = Vec::new();
        for round in 0..700 {
            let mut bytes = whole.clone();
            mutate(&mut bytes, &mut random);
            let Ok(file) = FileReader::open(&bytes) else { continue };
            for (frame, summary) in file.frames().iter().enumerate() {
                for entry in file.columns(frame).unwrap_or_default() {
                    if file.read_column(frame, &entry, &mut column).is_ok() {
                        let expected = written.get(&(summary.info.sequence, entry.id));
                        assert_eq!(expected, Some(&column), "{name}, round {round}");
                    }
                }
            }
        }
    }
}
