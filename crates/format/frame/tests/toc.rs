//! Finding columns through the TOC reads only what is needed.

use std::collections::BTreeMap;
use std::io;

use crate::common;
use catchment_fixtures::{CountedReads, Random};
use catchment_frame::{
    Codec, ColumnEntry, ColumnInfo, ColumnKind, Dtype, FileReader, FrameInfo, FrameKind,
    FrameSummary, ReadAt, TocBuilder, TocFlags, crc32c,
};
use catchment_model::Ledger;
use common::header;

/// A long file of which only some ranges exist.
struct Sparse {
    bytes: u64,
    ranges: BTreeMap<u64, Vec<u8>>,
}

impl ReadAt for Sparse {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (start, range) = self.ranges.range(..=offset).next_back().expect("the header is at 0");
        let at = (offset - start) as usize;
        assert!(at < range.len(), "a read at {offset}, where nothing needs to be read");
        let count = buffer.len().min(range.len() - at);
        buffer[..count].copy_from_slice(&range[at..at + count]);
        Ok(count)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

const COLUMNS: u32 = 10_000;
const FRAMES: u64 = 60;
const FRAME_BYTES: u64 = 1 << 30;

/// 60 GiB: 60 frames of 10,000 columns each, with the bytes of one column in one frame.
fn long_file(column: u32, frame: u64, content: &[u8]) -> Sparse {
    // Few columns in the schema: this test is about the TOC.
    let mut header = header(1);
    std::sync::Arc::make_mut(&mut header.schema).columns.push(ColumnInfo {
        name: "X1:CHANNEL".into(),
        unit: "V".into(),
        ..ColumnInfo::new(column, ColumnKind::Unknown("later".into()), Dtype::U8)
    });
    let head = header.encode();
    let mut toc = TocBuilder::new(&head);
    let entry = |id: u32| ColumnEntry {
        id,
        codec: Codec::None,
        dtype: Dtype::U8,
        flags: 0,
        crc32c: crc32c(content),
        offset: 1 << 20 | u64::from(id) << 12,
        stored_bytes: content.len() as u64,
        raw_bytes: content.len() as u64,
        rows: content.len() as u64,
        start_ns: 0,
        first_sample: 0,
    };
    let entries: Vec<_> = (100..100 + COLUMNS).map(entry).collect();
    for index in 0..FRAMES {
        let info = FrameInfo {
            kind: FrameKind::Channels,
            flags: 0,
            file_id: header.file_id,
            sequence: index,
            time_first_ns: index,
            time_last_ns: index,
            key_first: index,
            key_last: index,
            rows: 1,
            origin: catchment_frame::Origin::SINGLE,
        };
        let summary = FrameSummary {
            offset: head.len() as u64 + index * FRAME_BYTES,
            frame_bytes: FRAME_BYTES,
            header_bytes: 128 + 64 * COLUMNS,
            header_crc32c: 0,
            column_count: COLUMNS,
            info,
        };
        toc.add_frame(summary, &entries);
    }
    let toc_offset = head.len() as u64 + FRAMES * FRAME_BYTES;
    let tail = toc.finish(toc_offset, &Ledger::new(1), TocFlags::default());
    let bytes = toc_offset + tail.len() as u64;
    let content_at = head.len() as u64 + frame * FRAME_BYTES + entry(column).offset;
    let ranges = [(0, head), (content_at, content.to_vec()), (toc_offset, tail)];
    Sparse { bytes, ranges: ranges.into() }
}

#[test]
fn one_of_ten_thousand_columns_is_found_by_reading_kilobytes() {
    let file = CountedReads::new(long_file(7_777, 41, b"these bytes"));
    let toc_bytes: usize = file.inner.ranges.values().map(Vec::len).sum();
    assert!(toc_bytes > 1 << 20, "the TOC itself is a megabyte: {toc_bytes}");
    let reader = FileReader::open(&file).expect("opens");
    assert!(reader.closed());
    assert_eq!(reader.frames().len(), 60);
    let opened = file.bytes_read();
    assert!(opened < 24_000, "opening read {opened} bytes");

    let mut out = Vec::new();
    assert!(reader.read(41, 7_777, &mut out).expect("reads"));
    assert_eq!(out, b"these bytes");
    let found = file.bytes_read() - opened;
    // A block of the index (4 KiB), a list (at most 60 * 48 B), the column.
    assert!(found <= 4_096 + 60 * 48 + 11, "finding and reading read {found} bytes");

    let before = file.bytes_read();
    assert!(reader.find(40, 7_777).expect("finds").is_some());
    assert_eq!(file.bytes_read(), before, "the list is kept");
    assert!(reader.find(40, 99).expect("finds").is_none());
    assert!(reader.find(40, 100 + COLUMNS).expect("finds").is_none());
    assert!(reader.find(60, 100).is_err());
}

#[test]
fn what_the_toc_says_of_all_frames_is_in_its_own_header() {
    let file = long_file(7_777, 0, b"x");
    let tail = file.ranges.values().next_back().expect("a TOC");
    let number = |at: usize| u64::from_le_bytes(tail[at..at + 8].try_into().unwrap());
    assert_eq!((number(56), number(64), number(72), number(80), number(88)), (0, 59, 0, 59, 60));
}

#[test]
fn headers_and_index_of_a_thousand_channels_take_less_than_a_hundredth_of_8_mib_frames() {
    let header = common::channels::channel_header(1, true);
    let head = header.encode();
    let mut toc = TocBuilder::new(&head);
    let mut random = Random::new(9);
    let (mut offset, mut overhead) = (head.len() as u64, head.len() as u64);
    let header_bytes = 128 + 64 * 1_000;
    const FRAMES: u64 = 256;
    for index in 0..FRAMES {
        let mut at = header_bytes;
        let entry = |id: u32| {
            // Columns of 8 kB that compress a little differently each time.
            let stored_bytes = 8_000 + random.index(400) as u64;
            let offset = at;
            at += stored_bytes.next_multiple_of(64);
            ColumnEntry {
                id,
                codec: Codec::Blosc,
                dtype: Dtype::I16,
                flags: 0,
                crc32c: random.next_u64() as u32,
                offset,
                stored_bytes,
                raw_bytes: 20_480,
                rows: 10_240,
                start_ns: 1_700_000_000_000_000_000 + 625_000_000 * index,
                first_sample: 16_384 * 1_700_000_000 + 10_240 * index,
            }
        };
        let entries: Vec<_> = (0..1_000).map(entry).collect();
        let info = FrameInfo {
            kind: FrameKind::Channels,
            flags: 0,
            file_id: header.file_id,
            sequence: index,
            time_first_ns: index,
            time_last_ns: index + 1,
            key_first: 0,
            key_last: 0,
            rows: 10_240_000,
            origin: catchment_frame::Origin::SINGLE,
        };
        let summary = FrameSummary {
            offset,
            frame_bytes: at.next_multiple_of(4_096).max(8 << 20),
            header_bytes: header_bytes as u32,
            header_crc32c: random.next_u64() as u32,
            column_count: 1_000,
            info,
        };
        toc.add_frame(summary, &entries);
        offset += summary.frame_bytes;
        overhead += header_bytes;
        if (index + 1) % 64 == 0 {
            let (bytes, _) = toc.checkpoint(offset, &Ledger::new(1));
            offset += bytes.len() as u64;
            overhead += bytes.len() as u64;
        }
    }
    let tail = toc.finish(offset, &Ledger::new(1), TocFlags::default()).len() as u64;
    let (overhead, all) = (overhead + tail, offset + tail);
    assert!(overhead * 100 < all, "{overhead} of {all} bytes");
}
