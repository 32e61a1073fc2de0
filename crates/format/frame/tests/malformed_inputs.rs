//! Inconsistent files. Every inconsistency gives a precise error, takes no more memory than the
//! file's own bytes can expand to, and leaves the rest readable. Checksums are made right, so that
//! they stop nothing.

mod common;

use catchment_fixtures::{Column, CountedReads, CountingAllocator, Random};
use catchment_frame::{
    Codec, Dtype, FileReader, FrameError, FrameSummary, OpenOptions, crc32c, fuzz_file, repair,
};
use common::{Encoded, Model, header, some_model};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Reads everything and asserts that no allocation exceeds what the file can expand to: the
/// search's window, 255 times its bytes for LZ4 columns, and room for tables.
fn read_all(bytes: &[u8]) {
    let limit = (1 << 20).max(bytes.len() * 4);
    let largest = ALLOCATOR.largest_bytes(|| fuzz_file(bytes));
    assert!(largest <= limit, "an allocation of {largest} bytes for a file of {}", bytes.len());
}

fn put(bytes: &mut [u8], at: usize, number: u64, count: usize) {
    bytes[at..at + count].copy_from_slice(&number.to_le_bytes()[..count]);
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Makes the checksum at `crc_at` of `covered` bytes from `start` right.
fn right_checksum(bytes: &mut [u8], start: usize, covered: usize, crc_at: usize) {
    let end = (start + covered).min(bytes.len());
    bytes[start + crc_at..start + crc_at + 4].fill(0);
    let crc = crc32c(&bytes[start..end]);
    bytes[start + crc_at..start + crc_at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn file() -> (Model, Encoded) {
    let mut model = some_model(11, 2, 5, Codec::Lz4);
    let raw = Column::opaque(900, Codec::Lz4, vec![5; 3_000]);
    model.frames[0].columns.push(raw);
    let raw =
        Column { dtype: Dtype::U64, rows: 10, ..Column::opaque(901, Codec::None, vec![5; 80]) };
    model.frames[0].columns.push(raw);
    let encoded = model.encode();
    (model, encoded)
}

#[test]
fn file_headers_that_lie_are_refused() {
    let good = header(2).encode();
    let used = 64 + u32_at(&good, 16);
    let cases: &[(&str, usize, u64, usize)] = &[
        ("it begins with", 0, 0, 1),
        ("version 2.3", 8, 2, 2),
        ("header_bytes is 0,", 12, 0, 4),
        ("header_bytes is 4097,", 12, 4_097, 4),
        ("header_bytes is 4294963200,", 12, 0xffff_f000, 4),
        ("metadata_bytes is 4294967295, expected within header_bytes", 16, 0xffff_ffff, 4),
        ("metadata: ", 16, 0, 4),
        ("metadata: ", 64, 0xff, 1),
    ];
    for &(message, at, number, count) in cases {
        let mut bytes = good.clone();
        put(&mut bytes, at, number, count);
        let covered = (64 + u32_at(&bytes, 16)).min(bytes.len());
        right_checksum(&mut bytes, 0, covered, 20);
        let error = FileReader::open(&bytes).expect_err(message).to_string();
        assert!(error.contains(message), "{error} does not say {message:?}");
        read_all(&bytes);
    }
    for length in 0..used {
        assert!(matches!(FileReader::open(&good[..length]), Err(FrameError::Truncated { .. })));
    }
    let mut bytes = good.clone();
    bytes[70] ^= 1;
    assert!(matches!(FileReader::open(&bytes), Err(FrameError::Checksum { .. })));
}

#[test]
fn metadata_that_are_not_what_they_should_be_are_refused() {
    let required =
        r#""run":"00112233445566778899aabbccddeeff","run_number":1,"file_index":0,"created_ns":1"#;
    let deep = "[".repeat(1_000_000);
    let cases = [
        (format!("{{{required}"), "EOF"),
        (format!("{{{required},\"later\":{deep}"), "EOF"),
        (format!("{{{required},\"config\":{deep}"), "invalid type"),
        (format!("{{{required},\"schema\":{deep}"), "invalid type"),
        ("{}".to_owned(), "missing field `run`"),
        (required.replace("00112233", "zz").replacen('"', "{\"", 1) + "}", "32 hexadecimal digits"),
        (
            format!(
                "{{{required},\"schema\":{{\"sources\":[{{\"id\":4000000000,\"name\":\"\"}}]}}}}"
            ),
            "source at index 0 has id 4000000000",
        ),
        (
            format!(
                "{{{required},\"schema\":{{\"columns\":[{{\"id\":1,\"kind\":\"event_key\",\"dtype\":\"u8\"}}]}}}}"
            ),
            "which is u64, not u8",
        ),
        (
            format!(
                "{{{required},\"schema\":{{\"columns\":[{{\"id\":1,\"kind\":\"x\",\"dtype\":\"y\",\"source\":0}}]}}}}"
            ),
            "there are 0 sources",
        ),
        (format!("{{{required},\"schema\":{{\"columns\":7}}}}"), "invalid type"),
    ];
    for (json, message) in cases {
        let mut bytes = header(0).encode();
        bytes.truncate(64);
        bytes.extend_from_slice(json.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4_096), 0);
        let header_bytes = bytes.len() as u64;
        put(&mut bytes, 12, header_bytes, 4);
        put(&mut bytes, 16, json.len() as u64, 4);
        right_checksum(&mut bytes, 0, 64 + json.len(), 20);
        let error = FileReader::open(&bytes).expect_err(message).to_string();
        assert!(error.contains(message), "{error} does not say {message:?}");
    }
}

#[test]
fn frame_headers_that_lie_are_passed_over_and_said() {
    let cases: &[(&str, usize, u64, usize)] = &[
        ("no frame header", 0, 0, 1),
        ("header_bytes is 0, expected what the counts give", 8, 0, 4),
        ("header_bytes is 4294967295, expected what", 8, 0xffff_ffff, 4),
        ("fixed_bytes is 127, expected at least 128", 20, 127, 2),
        ("entry_bytes is 0, expected at least 64", 22, 0, 2),
        ("expected what the counts give", 24, 0xffff_ffff, 4),
        ("frame_bytes is 0, expected", 32, 0, 8),
        ("frame_bytes is 4097, expected", 32, 4_097, 8),
        ("frame_bytes is 1152921504606846976, expected", 32, 1 << 60, 8),
        ("the file ends within a frame of 1073741824 bytes", 32, 1 << 30, 8),
        ("a frame of another file", 40, 1, 8),
        ("checksum is", 12, 0, 4),
    ];
    let (model, encoded) = file();
    let FrameSummary { offset, header_bytes, frame_bytes, .. } = encoded.frames[0];
    for &(message, at, number, count) in cases {
        let mut bytes = encoded.unclosed.clone();
        if at != 12 {
            put(&mut bytes, offset as usize + at, number, count);
            right_checksum(&mut bytes, offset as usize, header_bytes as usize, 12);
        } else {
            bytes[offset as usize + 12] ^= 1;
        }
        let file = FileReader::open(&bytes).expect("opens");
        assert_eq!(file.frames(), &encoded.frames[1..], "{message}");
        assert_eq!((file.skipped()[0].offset, file.skipped()[0].bytes), (offset, frame_bytes));
        let said = file.skipped()[0].reason.to_string();
        assert!(said.contains(message), "{said} does not say {message:?}");
        assert_eq!(file.header(), &model.header);
        read_all(&bytes);
    }
}

#[test]
fn directory_entries_that_lie_make_their_column_unreadable_and_no_other() {
    const BIG: u64 = 1 << 60;
    // Column 900 is LZ4, 901 is raw u64.
    let cases: &[(u32, &str, usize, u64, usize)] = &[
        (900, "offset is 9223372036854775808, expected", 16, 1 << 63, 8),
        (900, "offset is 18446744073709551552, expected", 16, u64::MAX - 63, 8),
        (900, "offset is 1, expected a multiple of 64", 16, 1, 8),
        (900, "offset is 64, expected behind the header", 16, 64, 8),
        (900, "offset is 128, expected behind the header", 16, 128, 8),
        (900, "stored_bytes is 1152921504606846976, expected within the frame", 24, BIG, 8),
        (
            900,
            "raw_bytes is 1152921504606846976, expected at most 0x7E000000 (2,016 MiB)",
            32,
            BIG,
            8,
        ),
        (900, "raw_bytes is 1073741824, expected at most 255 * stored_bytes", 32, 1 << 30, 8),
        (900, "LZ4 raw size is 3000, expected raw_bytes", 32, 2_999, 8),
        (900, "codec 99 cannot be decoded", 4, 99, 2),
        (900, "cannot be decoded: Zstandard", 4, 2, 2),
        (900, "raw_bytes is 3000, expected stored_bytes", 4, 0, 2),
        (900, "checksum is", 12, 0, 4),
        (901, "raw_bytes is 80, expected what rows, dtype and shape give", 40, 9_999, 8),
        (901, "raw_bytes is 80, expected what rows, dtype and shape give", 40, BIG + 10, 8),
        (901, "raw_bytes is 1073741824, expected what rows, dtype", 32, 1 << 30, 8),
        (4, "dtype is 4, expected the schema's", 6, 4, 2),
        (4, "raw_bytes is 20, expected what rows", 40, 6, 8),
    ];
    let (model, encoded) = file();
    for &(id, message, at, number, count) in cases {
        let frame = encoded.frames[0].offset as usize;
        let index = encoded.entries[0].iter().position(|entry| entry.id == id).expect("a column");
        let mut bytes = encoded.unclosed.clone();
        put(&mut bytes, frame + 128 + 64 * index + at, number, count);
        right_checksum(&mut bytes, frame, encoded.frames[0].header_bytes as usize, 12);
        let counted = CountedReads::new(&bytes);
        let file = FileReader::open(&counted).expect("opens");
        let mut out = Vec::new();
        for (index, frame) in model.frames.iter().enumerate() {
            for column in &frame.columns {
                let result = file.read(index, column.id, &mut out);
                if (index, column.id) != (0, id) {
                    assert!(result.expect("another column"));
                    assert_eq!(out, column.raw);
                    continue;
                }
                let error = result.expect_err(message).to_string();
                assert!(error.starts_with(&format!("frame 0, column {id}: ")), "{error}");
                assert!(error.contains(message), "{error} does not say {message:?}");
            }
        }
        assert!(counted.read_bytes_max() <= 1 << 20);
        read_all(&bytes);
    }
}

#[test]
fn an_lz4_block_that_lies_is_an_error_of_its_column() {
    let (_, encoded) = file();
    let entry = *encoded.entries[0].iter().find(|entry| entry.id == 900).expect("a column");
    let frame = encoded.frames[0].offset as usize;
    let index = encoded.entries[0].iter().position(|e| e.id == 900).expect("a column");
    let start = frame + entry.offset as usize;
    let mut random = Random::new(4);
    for _ in 0..2_000 {
        let mut bytes = encoded.unclosed.clone();
        for _ in 0..=random.index(4) {
            let at = start + 4 + random.index(entry.stored_bytes as usize - 4);
            bytes[at] = random.next_u64() as u8;
        }
        let crc = crc32c(&bytes[start..start + entry.stored_bytes as usize]);
        put(&mut bytes, frame + 128 + 64 * index + 12, u64::from(crc), 4);
        right_checksum(&mut bytes, frame, encoded.frames[0].header_bytes as usize, 12);
        let file = FileReader::open(&bytes).expect("opens");
        let mut out = Vec::new();
        // With its checksum made right, a block can decode to other bytes, but never to more.
        match file.read(0, 900, &mut out) {
            Ok(found) => assert!(found && out.len() == 3_000),
            Err(error) => assert!(error.to_string().starts_with("frame 0, column 900: ")),
        }
    }
}

#[test]
fn a_toc_that_lies_is_not_believed_and_the_file_is_walked() {
    let (model, encoded) = file();
    let toc = encoded.unclosed.len();
    let column = |index: usize, field: usize| {
        let at = toc + 128 + 64 * index + field;
        u64::from_le_bytes(encoded.closed[at..at + 8].try_into().unwrap()) as usize
    };
    // Index of the column in the TOC, offset in its bytes, number, its length.
    let cases: &[(usize, usize, u64, usize)] = &[
        (0, 0, 1 << 63, 8),      // A frame beyond the file.
        (0, 0, 1, 8),            // Not on a border.
        (0, 0, 0, 8),            // On the file header.
        (0, 8, 1 << 62, 8),      // A frame of 4 EiB.
        (0, 8, 0, 8),            // An empty frame.
        (0, 80, 4_096, 8),       // Frames in no order.
        (0, 72, 0xffff_ffff, 4), // A header longer than its frame.
        (1, 4, 0xffff_ffff, 4),  // A block of 4 G records.
        (2, 8, 1 << 62, 8),      // A list beyond the file.
        (2, 16, 0xffff_ffff, 4), // A list of 4 G records.
        (2, 20, 0, 2),           // Records without bytes.
        (2, 20, 1, 2),           // Records that are too short.
        (3, 0, 0xffff_ffff, 4),  // A list that names a frame that there is not.
        (3, 4, 9, 2),            // An unknown codec: column 0 of frame 0.
        (3, 16, 1 << 63, 8),     // A column beyond the file.
        (3, 32, 1 << 60, 8),     // A column of 1 EiB.
    ];
    for &(index, at, number, count) in cases {
        let mut bytes = encoded.closed.clone();
        let start = toc + column(index, 16);
        put(&mut bytes, start + at, number, count);
        right_toc_checksums(&mut bytes, toc, index);
        let file = FileReader::open(&bytes).expect("opens");
        assert_eq!(file.frames(), encoded.frames, "{index} {at} {number}");
        let mut out = Vec::new();
        let mut unreadable = 0;
        for (index, frame) in model.frames.iter().enumerate() {
            for column in &frame.columns {
                match file.read(index, column.id, &mut out) {
                    Ok(found) => assert!(found && out == column.raw),
                    Err(error) => {
                        assert!(error.to_string().starts_with("frame 0, column 0: "), "{error}");
                        unreadable += 1;
                    }
                }
            }
        }
        assert!(unreadable <= usize::from(index == 3), "{index} {at}: {unreadable} unreadable");
        read_all(&bytes);
    }
}

/// Makes the checksums over a TOC's column right that has been changed: lists' and index blocks',
/// then the columns' in the directory, then the header's.
fn right_toc_checksums(bytes: &mut [u8], toc: usize, changed: usize) {
    let number = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
    };
    let column = |bytes: &[u8], index: usize| {
        let entry = toc + 128 + 64 * index;
        (toc + number(bytes, entry + 16), number(bytes, entry + 24))
    };
    let (blocks, _) = column(bytes, 1);
    let (index, _) = column(bytes, 2);
    if changed == 3 {
        // Column 0's list is the first.
        let (lists, _) = column(bytes, 3);
        let list_bytes = u32_at(bytes, index + 16) * 48;
        let crc = crc32c(&bytes[lists..lists + list_bytes]);
        put(bytes, index + 4, u64::from(crc), 4);
    }
    if changed >= 2 {
        let records = u32_at(bytes, blocks + 4);
        let crc = crc32c(&bytes[index..index + 32 * records]);
        put(bytes, blocks + 8, u64::from(crc), 4);
    }
    for index in 0..6 {
        let (start, length) = column(bytes, index);
        let crc = crc32c(&bytes[start..start + length]);
        put(bytes, toc + 128 + 64 * index + 12, u64::from(crc), 4);
    }
    let header_bytes = u32_at(bytes, toc + 8);
    right_checksum(bytes, toc, header_bytes, 12);
}

#[test]
fn directories_of_tocs_and_trailers_that_lie_are_not_believed() {
    let (_, encoded) = file();
    let (toc, end) = (encoded.unclosed.len(), encoded.closed.len());
    let mut lies: Vec<(usize, u64, usize)> = Vec::new();
    for index in 0..6 {
        for field in [16, 24, 32, 40] {
            for number in [0, 1, 64, 1 << 30, 1 << 32, 1 << 60, u64::MAX] {
                lies.push((toc + 128 + 64 * index + field, number, 8));
            }
        }
    }
    for field in [16, 24, 32, 40] {
        for number in [0, 1, 4_096, end as u64, 1 << 60, u64::MAX] {
            lies.push((end - 4_096 + field, number, 8));
        }
    }
    lies.push((toc + 16, 1, 2)); // An events frame as TOC.
    for (at, number, count) in lies {
        let mut bytes = encoded.closed.clone();
        put(&mut bytes, at, number, count);
        right_checksum(&mut bytes, toc, 128 + 6 * 64, 12);
        right_checksum(&mut bytes, end - 4_096, 64, 12);
        let file = FileReader::open(&bytes).expect("opens");
        // An events frame in the place of the TOC is one more frame.
        assert_eq!(&file.frames()[..2], encoded.frames, "{at}");
        let mut out = Vec::new();
        assert!(file.read(0, 900, &mut out).expect("a column"));
        read_all(&bytes);
    }
}

#[test]
fn a_ledger_of_sources_that_there_are_not_is_refused() {
    let mut model = Model::new(1);
    model.ledger.sources.resize(5_000, Default::default());
    model.ledger.sources[4_999][catchment_model::Entry::FragmentsLate] = 1;
    let encoded = model.encode();
    let file = FileReader::open(&encoded.closed).expect("opens");
    let error = file.ledger().expect_err("no such source").to_string();
    assert_eq!(
        error,
        "the TOC, column 5: a ledger record's source is 4999, expected a source of the schema"
    );
}

#[test]
fn ten_thousand_false_headers_do_not_make_the_walk_slow() {
    let (_, encoded) = file();
    let mut bytes = encoded.unclosed.clone();
    // Headers that each claim everything after them, up to 64 MiB, with wrong checksums.
    let first = bytes.len();
    bytes.resize(first + 10_000 * 4_096, 0);
    let end = bytes.len();
    for at in (first..end).step_by(4_096) {
        let columns = ((end - at) / 64).saturating_sub(2) as u64;
        bytes[at..at + 8].copy_from_slice(b"CTMFRAME");
        put(&mut bytes, at + 8, 128 + 64 * columns, 4);
        put(&mut bytes, at + 12, 0x1234, 4);
        put(&mut bytes, at + 16, 1, 2);
        put(&mut bytes, at + 20, 128, 2);
        put(&mut bytes, at + 22, 64, 2);
        put(&mut bytes, at + 24, columns, 4);
        put(&mut bytes, at + 32, (end - at) as u64, 8);
        put(&mut bytes, at + 40, common::FILE_ID, 8);
    }
    let counted = CountedReads::new(&bytes);
    let options = OpenOptions { search_bytes_max: u64::MAX, ..OpenOptions::default() };
    let file = FileReader::open_with(&counted, &options).expect("opens");
    assert_eq!(file.frames().len(), 2);
    let limit = 4 * bytes.len() as u64 + (64 << 20);
    assert!(counted.bytes_read() < limit, "{} bytes read", counted.bytes_read());
}

#[test]
fn random_bytes_are_errors_and_nothing_worse() {
    let (_, encoded) = file();
    let mut random = Random::new(99);
    for round in 0..300 {
        let length = random.index(20_000);
        let noise: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        read_all(&noise);
        let mut bytes = encoded.closed.clone();
        let start = if round % 2 == 0 { 4_096 } else { encoded.unclosed.len() };
        let end = (start + length).min(bytes.len());
        bytes[start..end].copy_from_slice(&noise[..end - start]);
        read_all(&bytes);
        let plan = repair(&bytes, None).expect("the header is whole");
        assert!(plan.frames.len() <= 2);
    }
}
