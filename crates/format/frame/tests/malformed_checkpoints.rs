//! Inconsistent checkpoints and locators with right checksums: the walk finds the frames, nothing
//! loops, and no more memory is used than the bytes referred to can expand to.

use crate::common;
use catchment_frame::{Codec, FileReader, FrameSummary, crc32c, fuzz_file, locator_offset};
use common::{Encoded, assert_holds, some_model};

fn put(bytes: &mut [u8], at: u64, number: u64) {
    bytes[at as usize..at as usize + 8].copy_from_slice(&number.to_le_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize
}

fn right_checksum(bytes: &mut [u8], start: usize, covered: usize, crc_at: usize) {
    bytes[start + crc_at..start + crc_at + 4].fill(0);
    let crc = crc32c(&bytes[start..start + covered]);
    bytes[start + crc_at..start + crc_at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Makes the checksums of slots, and of checkpoints with their columns, right.
fn right_checksums(bytes: &mut [u8], encoded: &Encoded) {
    for generation in [1, 2] {
        let at = locator_offset(encoded.frames[0].offset, generation) as usize;
        right_checksum(bytes, at, 64, 8);
    }
    for checkpoint in &encoded.checkpoints {
        let start = checkpoint.offset as usize;
        let header_bytes = u32_at(bytes, start + 8);
        for entry in (start + 128..start + header_bytes).step_by(64) {
            let at = start + number(bytes, entry + 16);
            let end = at + number(bytes, entry + 24);
            if at <= end && end <= bytes.len() {
                let crc = crc32c(&bytes[at..end]);
                bytes[entry + 12..entry + 16].copy_from_slice(&crc.to_le_bytes());
            }
        }
        right_checksum(bytes, start, header_bytes, 12);
    }
}

type Lie<'a> = dyn Fn(&mut [u8]) + 'a;

#[test]
fn locators_and_checkpoints_that_lie_are_not_believed() {
    let mut model = some_model(81, 9, 5, Codec::Lz4);
    model.header.locator = true;
    model.checkpoint_every = 3;
    let encoded = model.encode();
    let first = encoded.frames[0].offset;
    let length = encoded.unclosed.len() as u64;
    let [oldest, middle, newest]: [FrameSummary; 3] =
        encoded.checkpoints.clone().try_into().expect("three checkpoints");
    let slot = locator_offset(first, 3);
    let list = newest.offset + number(&encoded.unclosed, newest.offset as usize + 128 + 16) as u64;
    let frame_entry = |field: u64| newest.offset + 128 + field;
    let lies: [&Lie<'_>; 19] = [
        // The locator points to no checkpoint, beyond the file, between borders, to a frame.
        &|bytes| put(bytes, slot + 32, 0),
        &|bytes| put(bytes, slot + 32, u64::MAX),
        &|bytes| put(bytes, slot + 32, length),
        &|bytes| put(bytes, slot + 32, newest.offset + 64),
        &|bytes| put(bytes, slot + 32, encoded.frames[4].offset),
        &|bytes| put(bytes, slot + 32, first - 4_096),
        &|bytes| put(bytes, slot + 40, newest.frame_bytes + 4_096),
        &|bytes| put(bytes, slot + 24, u64::MAX),
        // The chain goes to itself, forwards, into the header, to a frame, past a link.
        &|bytes| put(bytes, newest.offset + 96, newest.offset),
        &|bytes| put(bytes, oldest.offset + 96, newest.offset),
        &|bytes| put(bytes, oldest.offset + 96, 4_096),
        &|bytes| put(bytes, newest.offset + 96, encoded.frames[1].offset),
        &|bytes| put(bytes, newest.offset + 96, u64::MAX),
        // A list of frames that are after the checkpoint, from another one, or too many.
        &|bytes| put(bytes, list, newest.offset),
        &|bytes| put(bytes, list, encoded.frames[0].offset),
        &|bytes| put(bytes, list + 8, u64::MAX),
        &|bytes| put(bytes, frame_entry(40), u64::MAX),
        &|bytes| put(bytes, frame_entry(32), 80 << 32),
        &|bytes| put(bytes, newest.offset + 88, 1 << 40),
    ];
    for (index, lie) in lies.iter().enumerate() {
        let mut bytes = encoded.unclosed.clone();
        lie(&mut bytes);
        right_checksums(&mut bytes, &encoded);
        let file = FileReader::open(&bytes).expect("opens");
        assert_eq!(file.frames(), encoded.frames, "lie {index}");
        assert_holds(&file, &model, 9);
        fuzz_file(&bytes);
    }
    // A skipped link loses its frames for the reader, not for repair's walk.
    let mut bytes = encoded.unclosed.clone();
    put(&mut bytes, newest.offset + 96, oldest.offset);
    right_checksums(&mut bytes, &encoded);
    let plan = catchment_frame::repair(&bytes, None).expect("plans");
    assert_eq!(plan.frames, encoded.frames);
    assert!(middle.offset < newest.offset);
}

#[test]
fn a_locator_without_room_is_none() {
    let mut model = some_model(82, 2, 5, Codec::None);
    model.header.locator = true;
    let mut bytes = model.encode().unclosed;
    // The header claims to end before the slots: they are then padding, and the walk continues.
    let header_bytes = u32_at(&bytes, 12) - 8_192;
    bytes[12..16].copy_from_slice(&(header_bytes as u32).to_le_bytes());
    let used = 64 + u32_at(&bytes, 16);
    right_checksum(&mut bytes, 0, used, 20);
    let file = FileReader::open(&bytes).expect("opens");
    assert!(!file.header().locator);
    assert_eq!(file.frames().len(), 2);
}
