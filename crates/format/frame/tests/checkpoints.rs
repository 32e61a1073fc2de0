//! Checkpoints: unfinished files are opened by reading kilobytes; whatever is wrong with the
//! checkpoints, the walk finds the same frames.

use std::collections::BTreeMap;

use crate::common;
use catchment_fixtures::{Column, CountedReads, Frame, Random};
use catchment_frame::{
    Codec, ColumnEntry, ColumnInfo, ColumnKind, Dtype, FileHeader, FileReader, FrameError,
    FrameInfo, FrameKind, FrameLayout, OpenOptions, Part, ReadAt, Skipped, SkippedReason,
    TocBuilder, crc32c, encode_locator, locator_offset, repair, verify_frame, write_frame,
};
use catchment_model::Ledger;
use common::channels::{channel_header, channel_model};
use common::{Encoded, Model, assert_holds, some_model};

fn walked(bytes: &[u8]) -> FileReader<&[u8]> {
    let options = OpenOptions { ignore_checkpoints: true, ..OpenOptions::default() };
    FileReader::open_with(bytes, &options).expect("opens")
}

fn model_with(frames: usize, every: usize) -> (Model, Encoded) {
    let mut model = some_model(61, frames, 5, Codec::Lz4);
    model.header.locator = true;
    model.checkpoint_every = every;
    let encoded = model.encode();
    (model, encoded)
}

/// A file of `count` frames with 20 columns each, and a checkpoint after every 64.
fn long_file(count: u64) -> Vec<u8> {
    let mut header = channel_header(1, true);
    let later = |id| ColumnInfo::new(id, ColumnKind::Unknown("later".into()), Dtype::Opaque);
    std::sync::Arc::make_mut(&mut header.schema).columns.extend((1_000..1_020).map(later));
    let mut file = header.encode();
    let header_bytes = file.len() as u64;
    let mut toc = TocBuilder::new(&file);
    let ledger = Ledger::new(1);
    let mut generation = 0;
    let columns: Vec<Column> =
        (1_000..1_020).map(|id| Column::opaque(id, Codec::None, vec![7; 500])).collect();
    let model = Model {
        frames: vec![Frame { columns, rows: 1, ..Frame::default() }],
        ..Model { header: header.clone(), ..Model::new(1) }
    };
    let entries = model.encode().entries.remove(0);
    let columns: Vec<_> = entries.iter().map(|entry| (*entry, &[7; 500][..])).collect();
    for sequence in 0..count {
        let info = frame_info(header.file_id, sequence);
        let (bytes, summary, entries) = write_frame(info, file.len() as u64, &columns);
        toc.add_frame(summary, &entries);
        file.extend_from_slice(&bytes);
        if (sequence + 1) % 64 == 0 {
            let summary = common::add_checkpoint(&mut file, &mut toc, &ledger);
            generation += 1;
            common::write_locator(&mut file, &header, generation, Some(&summary));
        }
    }
    assert!(locator_offset(header_bytes, generation) < header_bytes);
    file
}

#[test]
fn an_unfinished_file_of_thousands_of_frames_is_opened_by_reading_kilobytes() {
    let bytes = long_file(5_000);
    assert!(bytes.len() > 60_000_000);
    let file = CountedReads::new(&bytes);
    let reader = FileReader::open(&file).expect("opens");
    assert!(!reader.closed());
    assert_eq!(reader.frames().len(), 5_000);
    assert!(reader.skipped().is_empty());
    // 78 checkpoints of 8 KiB, and the last 8 frames' headers.
    let opened = file.bytes_read();
    assert!(opened < 800_000, "opening read {opened} bytes");

    // Finding reads a block of the index and one list of the checkpoint that has the frame.
    let mut out = Vec::new();
    assert!(reader.read(1_234, 1_007, &mut out).expect("reads"));
    assert_eq!(out, [7; 500]);
    let found = file.bytes_read() - opened;
    assert!(found <= 20 * 32 + 64 * 48 + 500, "finding and reading read {found} bytes");
    let before = file.bytes_read();
    assert!(reader.find(1_235, 1_007).expect("finds").is_some());
    assert_eq!(file.bytes_read(), before, "the list is kept");

    // The same frames and entries as by walking.
    let by_walking = walked(&bytes);
    assert_eq!(reader.frames(), by_walking.frames());
    let (all, walked) = (reader.column_entries(1_007), by_walking.column_entries(1_007));
    assert_eq!(all.expect("entries"), walked.expect("entries"));
    assert_eq!(reader.columns(4_999).expect("a directory").len(), 20);
}

/// A frame of one event, whose time and key are its number.
fn frame_info(file_id: u64, sequence: u64) -> FrameInfo {
    FrameInfo {
        kind: FrameKind::Events,
        flags: 0,
        file_id,
        sequence,
        time_first_ns: sequence,
        time_last_ns: sequence,
        key_first: sequence,
        key_last: sequence,
        rows: 1,
        origin: catchment_frame::Origin::SINGLE,
    }
}

/// A file of which only these pieces exist, by their offsets; the rest is a hole.
struct Sparse {
    pieces: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
}

impl ReadAt for Sparse {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(self.bytes.saturating_sub(offset) as usize);
        buffer[..count].fill(0);
        let end = offset + count as u64;
        for (&start, piece) in self.pieces.range(..end) {
            let (from, to) = (start.max(offset), (start + piece.len() as u64).min(end));
            if from < to {
                let piece = &piece[(from - start) as usize..(to - start) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
            }
        }
        Ok(count)
    }

    fn bytes(&self) -> std::io::Result<u64> {
        Ok(self.bytes)
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        let mut pieces = self.pieces.iter();
        let piece = pieces.find(|(start, piece)| **start + piece.len() as u64 > offset)?;
        Some(offset.max(*piece.0))
    }
}

/// An unfinished file of 5,000 frames of 20 MiB, with a checkpoint after every 64. Before the
/// newest checkpoint there are holes, except for the checkpoints and column 1,007 of frame 1,234.
fn huge_file() -> (Sparse, FileHeader) {
    let mut header = channel_header(1, true);
    let later = |id| ColumnInfo::new(id, ColumnKind::Unknown("later".into()), Dtype::Opaque);
    std::sync::Arc::make_mut(&mut header.schema).columns.extend((1_000..1_020).map(later));
    let encoded = header.encode();
    let header_bytes = encoded.len() as u64;
    let (mut toc, ledger) = (TocBuilder::new(&encoded), Ledger::new(1));
    let column = vec![7; 1 << 20];
    let entry = ColumnEntry {
        id: 0,
        codec: Codec::None,
        dtype: Dtype::Opaque,
        flags: 0,
        crc32c: crc32c(&column),
        offset: 0,
        stored_bytes: column.len() as u64,
        raw_bytes: column.len() as u64,
        rows: column.len() as u64,
        start_ns: 0,
        first_sample: 0,
    };
    let mut file = Sparse { pieces: BTreeMap::from([(0, encoded)]), bytes: header_bytes };
    let mut generation = 0;
    for sequence in 0..5_000 {
        let info = frame_info(header.file_id, sequence);
        let mut layout = FrameLayout::begin(info, 20);
        let offsets = (1_000..1_020).map(|id| layout.push(ColumnEntry { id, ..entry }));
        let offset_1007 = offsets.collect::<Vec<_>>()[7];
        let mut frame_header = vec![0; layout.header_space()];
        let summary = layout.finish(file.bytes, &mut frame_header);
        toc.add_frame(summary, layout.entries());
        if sequence >= 5_000 / 64 * 64 {
            file.pieces.insert(file.bytes, frame_header);
        } else if sequence == 1_234 {
            file.pieces.insert(file.bytes + offset_1007, column.clone());
        }
        file.bytes += summary.frame_bytes;
        if (sequence + 1) % 64 == 0 {
            let (bytes, checkpoint) = toc.checkpoint(file.bytes, &ledger);
            file.pieces.insert(file.bytes, bytes);
            file.bytes += checkpoint.frame_bytes;
            generation += 1;
            let slot = encode_locator(header.file_id, generation, &checkpoint);
            let at = locator_offset(header_bytes, generation) as usize;
            let header = file.pieces.get_mut(&0).expect("the file header");
            header[at..at + slot.len()].copy_from_slice(&slot);
        }
    }
    (file, header)
}

#[test]
fn an_unfinished_file_of_100_gb_is_opened_by_a_hundred_reads() {
    let (file, header) = huge_file();
    assert!(file.bytes > 100_000_000_000);
    let file = CountedReads::new(file);
    let reader = FileReader::open(&file).expect("opens");
    assert!(!reader.closed() && reader.skipped().is_empty());
    assert_eq!((reader.header(), reader.frames().len()), (&header, 5_000));
    assert!((0..).zip(reader.frames()).all(|(number, frame)| frame.info.sequence == number));
    // 78 checkpoints of 8 KiB, the last 8 frames' headers, file header, locator and trailer: as
    // many as for a file of 60 MB with as many frames.
    let (bytes, reads) = (file.bytes_read(), file.reads());
    assert!(bytes < 800_000 && reads <= 100, "opening read {bytes} bytes in {reads} reads");

    // A column of a frame in the middle is found by its checkpoint alone.
    let mut out = Vec::new();
    assert!(reader.read(1_234, 1_007, &mut out).expect("reads"));
    assert!(out == vec![7; 1 << 20]);
    let found = file.bytes_read() - bytes - out.len() as u64;
    let reads = file.reads() - reads;
    assert!(found < 5_000 && reads <= 4, "finding read {found} bytes in {reads} reads");
}

#[test]
fn what_was_allocated_behind_the_last_frame_and_never_written_is_not_read() {
    let (mut file, _) = huge_file();
    let (end, allocated) = (file.bytes, 1_u64 << 30);
    file.bytes += allocated;
    let file = CountedReads::new(file);
    let reader = FileReader::open(&file).expect("opens");
    assert_eq!(reader.frames().len(), 5_000);
    let [Skipped { offset, reason: SkippedReason::Zeros, .. }] = reader.skipped() else {
        panic!("{:?}", reader.skipped());
    };
    assert_eq!(*offset, end);
    let (bytes, reads) = (file.bytes_read(), file.reads());
    assert!(bytes < 800_000 && reads <= 110, "opening read {bytes} bytes in {reads} reads");

    // Data after a hole are found.
    let (mut file, _) = huge_file();
    let last = *file.pieces.last_key_value().expect("a frame's header").0;
    let header = file.pieces.remove(&last).expect("is there");
    let hole = 200 << 20;
    file.bytes += hole;
    file.pieces.insert(last + 12_288, vec![1; 5_000]);
    file.pieces.insert(last + hole, header);
    let reader = FileReader::open(CountedReads::new(file)).expect("opens");
    assert_eq!((reader.frames().len(), reader.frames()[4_999].offset), (5_000, last + hole));
    assert!(matches!(reader.skipped(), [Skipped { reason: SkippedReason::NoHeader, .. }]));
}

#[test]
fn frames_behind_the_newest_checkpoint_are_walked() {
    for frames in 0..9 {
        let (model, encoded) = model_with(frames, 3);
        let file = FileReader::open(&encoded.unclosed).expect("opens");
        assert_holds(&file, &model, frames);
        assert_eq!(file.frames(), encoded.frames);
        assert_eq!(file.next_frame_offset(), encoded.unclosed.len() as u64);
        let ledger = file.ledger_at_checkpoint().expect("a ledger");
        let listed = (frames / 3 * 3, model.ledger.clone());
        assert_eq!(ledger, (frames >= 3).then_some(listed));
        assert!(file.verify_index().is_empty());
        for frame in 0..frames {
            assert!(verify_frame(&file, frame).is_empty());
        }
        // Closed, the file does not need them.
        let file = FileReader::open(&encoded.closed).expect("opens");
        assert!(file.closed());
        assert_holds(&file, &model, frames);
        assert_eq!(file.ledger_at_checkpoint().expect("no error"), None);
    }
}

#[test]
fn a_damaged_frame_header_costs_nothing_behind_a_checkpoint() {
    let (model, encoded) = model_with(6, 3);
    let mut bytes = encoded.unclosed.clone();
    bytes[encoded.frames[1].offset as usize + 70] ^= 1;
    assert_eq!(walked(&bytes).frames().len(), 5);
    let file = FileReader::open(&bytes).expect("opens");
    // The entries come from the checkpoint's lists, by the schema's order.
    let mut sorted = model.clone();
    sorted.frames[1].columns.sort_by_key(|column| column.id);
    assert_holds(&file, &sorted, 6);
    assert_eq!(verify_frame(&file, 1).len(), 1);
}

type Break<'a> = dyn Fn(&mut [u8]) + 'a;

#[test]
fn whatever_is_wrong_with_checkpoints_the_walk_finds_the_frames() {
    let (model, encoded) = model_with(9, 3);
    let header_bytes = encoded.frames[0].offset;
    let newest = encoded.checkpoints[2];
    let slots = [1, 2].map(|generation| locator_offset(header_bytes, generation) as usize);
    let breaks: [&Break<'_>; 8] = [
        // The newest slot; both slots; the newest, a middle and the oldest checkpoint.
        &|bytes| bytes[slots[0] + 33] ^= 1,
        &|bytes| {
            bytes[slots[0] + 33] ^= 1;
            bytes[slots[1] + 3] ^= 1;
        },
        &|bytes| bytes[newest.offset as usize + 60] ^= 1,
        &|bytes| bytes[encoded.checkpoints[1].offset as usize + 97] ^= 1,
        &|bytes| bytes[encoded.checkpoints[0].offset as usize] ^= 1,
        // A damaged list of frames.
        &|bytes| bytes[newest.offset as usize + 512] ^= 1,
        // Slots that are swapped, and slots of another file.
        &|bytes| {
            let (first, second) = (slots[0].min(slots[1]), slots[0].max(slots[1]));
            let (head, tail) = bytes.split_at_mut(second);
            head[first..first + 4_096].swap_with_slice(&mut tail[..4_096]);
        },
        &|bytes| bytes[slots[0] + 16] ^= 1,
    ];
    for (index, break_it) in breaks.iter().enumerate() {
        let mut bytes = encoded.unclosed.clone();
        break_it(&mut bytes);
        let file = FileReader::open(&bytes).expect("opens");
        assert_holds(&file, &model, 9);
        assert_eq!(file.frames(), encoded.frames, "break {index}");
    }
}

#[test]
fn any_flipped_bit_of_checkpoints_and_locator_leaves_all_frames_readable() {
    let (model, encoded) = model_with(4, 2);
    let header_bytes = encoded.frames[0].offset;
    let mut offsets: Vec<u64> = (header_bytes - 8_192..header_bytes - 8_192 + 64).collect();
    offsets.extend(header_bytes - 4_096..header_bytes - 4_096 + 64);
    for checkpoint in &encoded.checkpoints {
        offsets.extend(checkpoint.offset..checkpoint.offset + checkpoint.frame_bytes);
    }
    let mut random = Random::new(7);
    for offset in offsets {
        let mut bytes = encoded.unclosed.clone();
        bytes[offset as usize] ^= 1 << random.index(8);
        let file = FileReader::open(&bytes).expect("opens");
        assert_eq!(file.frames(), encoded.frames, "byte {offset}");
        // A damaged list is replaced by the frame's own header.
        if random.index(20) == 0 {
            assert_holds(&file, &model, 4);
        }
    }
}

#[test]
fn a_repaired_file_has_the_same_frames_with_checkpoints_and_without() {
    let (model, encoded) = model_with(7, 3);
    let plain = Model { checkpoint_every: 0, ..model.clone() };
    let without = repair(&plain.encode().unclosed, None).expect("plans");
    let with = repair(&encoded.unclosed, None).expect("plans");
    assert_eq!(with.ledger, without.ledger);
    assert_eq!(with.frames, encoded.frames);
    assert!(with.skipped.is_empty() && with.damaged.is_empty());
    // A checkpoint after the last frame is overwritten.
    let (_, encoded) = model_with(6, 3);
    let plan = repair(&encoded.unclosed, None).expect("plans");
    let closing = plan.closing.expect("not closed");
    assert_eq!(closing.offset, encoded.checkpoints[1].offset);
    let mut bytes = encoded.unclosed.clone();
    bytes.truncate(closing.offset as usize);
    bytes.extend_from_slice(&closing.bytes);
    assert!(FileReader::open(&bytes).expect("opens").closed());
    // If that TOC is damaged in turn, the locator does not mislead.
    bytes[closing.offset as usize + 40] ^= 1;
    let file = FileReader::open(&bytes).expect("opens");
    assert_eq!(file.frames(), encoded.frames);
}

#[test]
fn a_file_cut_at_every_byte_is_repaired_to_every_whole_frame() {
    let (mut model, _) = channel_model(62, 3, true, Codec::Lz4);
    model.checkpoint_every = 2;
    for frame in &mut model.frames {
        // With the fast channels the file would be too long for so many cuts.
        frame.columns.retain(|column| column.raw.len() < 600);
    }
    let encoded = model.encode();
    assert_eq!((encoded.frames.len(), encoded.checkpoints.len()), (3, 1));
    for cut in 0..=encoded.closed.len() {
        let bytes = &encoded.closed[..cut];
        let file = match FileReader::open(bytes) {
            Ok(file) => file,
            Err(error) => {
                assert_header_cut_off(&error, bytes, &encoded.closed);
                let refused = repair(bytes, None).expect_err("has no header");
                assert_eq!(refused.to_string(), error.to_string());
                continue;
            }
        };
        let ends = encoded.frames.iter().map(|frame| frame.offset + frame.frame_bytes);
        let whole = ends.filter(|&end| end <= cut as u64).count();
        assert_eq!(file.frames(), &encoded.frames[..whole], "cut at {cut}");
        // Whatever was cut off, repair gives the same file for the same frames.
        let plan = repair(bytes, None).expect("plans");
        assert_eq!(plan.frames, encoded.frames[..whole], "cut at {cut}");
        assert_eq!(plan.closing.is_none(), cut == encoded.closed.len());
        let Some(closing) = plan.closing else { continue };
        let mut repaired = bytes.to_vec();
        repaired.resize(closing.offset as usize, 0);
        repaired.extend_from_slice(&closing.bytes);
        let file = FileReader::open(&repaired).expect("opens");
        assert!(file.closed() && file.verify_index().is_empty(), "cut at {cut}");
        assert_holds(&file, &model, whole);
    }
}

/// Asserts that a file could not be opened because it ends within its header's text, and that the
/// error says what was needed and what is there.
fn assert_header_cut_off(error: &FrameError, bytes: &[u8], whole: &[u8]) {
    let text_bytes = u32::from_le_bytes(whole[16..20].try_into().expect("four bytes"));
    let needed = if bytes.len() < 64 { 64 } else { 64 + u64::from(text_bytes) };
    assert!((bytes.len() as u64) < needed, "a whole header: {error}");
    let FrameError::Truncated { part: Part::FileHeader, offset: 0, expected, got } = *error else {
        panic!("cut at {}: {error}", bytes.len())
    };
    assert_eq!((expected, got), (needed, bytes.len() as u64));
}

#[test]
fn a_long_file_cut_anywhere_keeps_every_whole_frame() {
    let bytes = long_file(300);
    let all = walked(&bytes).frames().to_vec();
    let mut random = Random::new(63);
    for _ in 0..60 {
        let cut = all[0].offset as usize + random.index(bytes.len() - all[0].offset as usize);
        let whole = all.iter().filter(|f| f.offset + f.frame_bytes <= cut as u64).count();
        let file = FileReader::open(&bytes[..cut]).expect("opens");
        assert_eq!(file.frames(), &all[..whole], "cut at {cut}");
        let plan = repair(&bytes[..cut], None).expect("plans");
        assert_eq!(plan.frames, all[..whole]);
    }
}

#[test]
fn lists_with_start_times_are_longer_and_those_without_are_not() {
    let (model, _) = channel_model(64, 2, false, Codec::None);
    let bytes = model.encode().closed;
    let file = FileReader::open(&bytes).expect("opens");
    let counted = CountedReads::new(&bytes);
    let reader = FileReader::open(&counted).expect("opens");
    let columns = file.columns(0).expect("a directory").len() as u64;
    let before = counted.bytes_read();
    let fast = reader.channel_columns().channels[0].id;
    assert_eq!(reader.column_entries(fast).expect("entries").len(), 2);
    assert_eq!(counted.bytes_read() - before, columns * 32 + 2 * 64);
    let before = counted.bytes_read();
    let increments = reader.channel_columns().ledger_increment.expect("increments");
    assert_eq!(reader.column_entries(increments).expect("entries").len(), 2);
    assert_eq!(counted.bytes_read() - before, columns * 32 + 2 * 48);
}
