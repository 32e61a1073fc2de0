//! Files of a later minor version: longer headers, entries and records, unknown kinds. This version
//! reads the parts it knows.

use crate::common;
use catchment_fixtures::Column;
use catchment_frame::{
    Codec, ColumnEntry, Dtype, FileReader, FrameInfo, FrameKind, OpenOptions, crc32c, frame_ledger,
    verify_frame, write_frame,
};
use common::{Model, assert_holds, some_model};

const FIXED_BYTES: usize = 192;
const ENTRY_BYTES: usize = 80;

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize
}

fn right_checksum(bytes: &mut [u8], covered: usize, crc_at: usize) {
    put(bytes, crc_at, &[0; 4]);
    let crc = crc32c(&bytes[..covered]);
    put(bytes, crc_at, &crc.to_le_bytes());
}

/// The frame with a longer fixed part and longer entries. There must be room before its columns.
fn lengthen_header(frame: &mut [u8]) {
    let count = u32::from_le_bytes(frame[24..28].try_into().expect("four bytes")) as usize;
    let old = frame[..128 + 64 * count].to_vec();
    let header_bytes = FIXED_BYTES + ENTRY_BYTES * count;
    frame[128..header_bytes].fill(0xaa);
    for index in 0..count {
        let entry = &old[128 + 64 * index..][..64];
        put(frame, FIXED_BYTES + ENTRY_BYTES * index, entry);
    }
    put(frame, 8, &(header_bytes as u32).to_le_bytes());
    put(frame, 20, &(FIXED_BYTES as u16).to_le_bytes());
    put(frame, 22, &(ENTRY_BYTES as u16).to_le_bytes());
    right_checksum(frame, header_bytes, 12);
}

/// Every record with `more` bytes after it.
fn lengthen(records: &[u8], record_bytes: usize, more: usize) -> Vec<u8> {
    let longer = records.chunks(record_bytes).flat_map(|record| {
        let mut record = record.to_vec();
        record.resize(record_bytes + more, 0xbb);
        record
    });
    longer.collect()
}

/// The TOC again, as a later version might write it: longer records, one more column.
fn later_toc(toc: &[u8], info: FrameInfo, offset: u64) -> Vec<u8> {
    let column = |index: usize| {
        let entry = 128 + 64 * index;
        let start = number(toc, entry + 16);
        (toc[start..start + number(toc, entry + 24)].to_vec(), toc[entry + 4])
    };
    let frames = lengthen(&column(0).0, 80, 16);
    let lists = lengthen(&column(3).0, 48, 8);
    let mut index = lengthen(&column(2).0, 32, 8);
    for record in index.chunks_mut(40) {
        let start = number(record, 8) / 48 * 56;
        let count = u32::from_le_bytes(record[16..20].try_into().expect("four")) as usize;
        put(record, 4, &crc32c(&lists[start..start + 56 * count]).to_le_bytes());
        put(record, 8, &(start as u64).to_le_bytes());
        put(record, 20, &56u16.to_le_bytes());
    }
    let mut blocks = lengthen(&column(1).0, 16, 4);
    assert_eq!(blocks.len(), 20, "a small file has one block");
    put(&mut blocks, 8, &crc32c(&index).to_le_bytes());

    let entry = |id: u32, raw: usize, rows: usize, codec: u8| ColumnEntry {
        id,
        codec: Codec::from_number(codec.into()),
        dtype: Dtype::Record,
        flags: 1 << 31,
        crc32c: 0,
        offset: 0,
        stored_bytes: 0,
        raw_bytes: raw as u64,
        rows: rows as u64,
        start_ns: 0,
        first_sample: 0,
    };
    let copied = |index: usize| {
        let (stored, codec) = column(index);
        let raw = number(toc, 128 + 64 * index + 32);
        let rows = number(toc, 128 + 64 * index + 40);
        (entry(index as u32 + 1, raw, rows, codec), stored)
    };
    let columns = [
        (entry(99, 3, 1, 0), b"new".to_vec()),
        (entry(1, frames.len(), frames.len() / 96, 0), frames),
        (entry(2, blocks.len(), blocks.len() / 20, 0), blocks),
        (entry(3, index.len(), index.len() / 40, 0), index),
        (entry(4, lists.len(), lists.len() / 56, 0), lists),
        copied(4),
        copied(5),
    ];
    let columns: Vec<_> = columns.iter().map(|(entry, bytes)| (*entry, bytes.as_slice())).collect();
    write_frame(info, offset, &columns).0
}

fn later_file() -> (Model, Vec<u8>) {
    let mut model = some_model(31, 4, 6, Codec::Lz4);
    // Room for longer directories: the first column of each frame is long, and is shortened below.
    for frame in &mut model.frames {
        frame.columns.insert(0, Column::opaque(70_000, Codec::None, vec![0; 1_024]));
    }
    let encoded = model.encode();
    let mut bytes = encoded.closed.clone();
    for frame in &encoded.frames {
        let start = frame.offset as usize;
        let frame_bytes = &mut bytes[start..start + frame.frame_bytes as usize];
        let entry = 128;
        // The long column is emptied.
        let offset = number(frame_bytes, entry + 16) + 1_024;
        put(frame_bytes, entry + 12, &crc32c(b"").to_le_bytes());
        put(frame_bytes, entry + 16, &(offset as u64).to_le_bytes());
        for field in [24, 32, 40] {
            put(frame_bytes, entry + field, &[0; 8]);
        }
        lengthen_header(frame_bytes);
    }
    for frame in &mut model.frames {
        frame.columns[0].raw.clear();
    }
    // The second frame becomes one of an unknown kind.
    let unknown = encoded.frames[1].offset as usize;
    bytes[unknown + 16] = 200;
    let header_bytes = FIXED_BYTES + ENTRY_BYTES * encoded.entries[1].len();
    right_checksum(&mut bytes[unknown..], header_bytes, 12);
    bytes[10] = 3;
    let used = 64 + u32::from_le_bytes(bytes[16..20].try_into().expect("four")) as usize;
    right_checksum(&mut bytes, used, 20);
    bytes.truncate(encoded.unclosed.len());
    (model, bytes)
}

#[test]
fn longer_headers_and_entries_and_unknown_kinds_are_read_over() {
    let (model, bytes) = later_file();
    let file = FileReader::open(&bytes).expect("opens");
    assert!(file.skipped().is_empty());
    assert_holds(&file, &model, 4);
    assert_eq!(file.frames()[1].info.kind, FrameKind::Unknown(200));
    assert!((0..4).all(|frame| verify_frame(&file, frame).is_empty()));
    let (ledger, problems) = frame_ledger(&file, 1);
    assert!(problems.is_empty() && ledger.balance() == Default::default());
}

#[test]
fn longer_records_and_more_columns_in_the_toc_are_read_over() {
    let (model, walked) = later_file();
    // The TOC of the file as it is now, by repair, then the same with longer records.
    let plan = catchment_frame::repair(&walked, None).expect("plans");
    let closing = plan.closing.expect("an unclosed file");
    let (toc, trailer) = closing.bytes.split_at(closing.bytes.len() - 4_096);
    let info = FrameInfo {
        kind: FrameKind::Toc,
        flags: 1 << 15 | 1,
        file_id: common::FILE_ID,
        sequence: 4,
        time_first_ns: 0,
        time_last_ns: 0,
        key_first: 0,
        key_last: 0,
        rows: 4,
        origin: catchment_frame::Origin::SINGLE,
    };
    let later = later_toc(toc, info, closing.offset);
    let mut trailer = trailer.to_vec();
    let file_bytes = closing.offset + later.len() as u64 + 4_096;
    put(&mut trailer, 10, &3u16.to_le_bytes());
    put(&mut trailer, 24, &file_bytes.to_le_bytes());
    put(&mut trailer, 40, &(later.len() as u64).to_le_bytes());
    right_checksum(&mut trailer, 64, 12);
    let bytes = [walked, later, trailer].concat();

    let file = FileReader::open(&bytes).expect("opens");
    assert!(file.closed(), "{:?}", file.condition());
    assert!(file.flags().expect("flags").run_ended);
    assert!(file.verify_index().is_empty());
    assert_eq!(file.ledger().expect("a ledger"), Some(&plan.ledger));
    assert_holds(&file, &model, 4);
    // Entries come from the lists here, not from the frames' own headers.
    let by_walking = OpenOptions { ignore_toc: true, ..OpenOptions::default() };
    let by_walking = FileReader::open_with(&bytes, &by_walking).expect("opens");
    for column in &model.frames[3].columns {
        let found = file.find(3, column.id).expect("found").expect("there");
        let walked = by_walking.find(3, column.id).expect("found").expect("there");
        assert_eq!(found, walked);
    }
}
