//! Checkpoints: unfinished files are opened by reading kilobytes; whatever is wrong with them, the
//! walk finds the same frames.

mod common;

use catchment_frame::{
    Codec, ColumnInfo, ColumnKind, Dtype, FileReader, FrameInfo, FrameKind, OpenOptions,
    TocBuilder, locator_offset, repair, write_frame,
};
use catchment_model::Ledger;
use common::channels::{channel_header, channel_model};
use common::{Column, Counted, Encoded, Frame, Model, Random, assert_holds, some_model};

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
        let info = FrameInfo {
            kind: FrameKind::Events,
            flags: 0,
            file_id: header.file_id,
            sequence,
            time_first_ns: sequence,
            time_last_ns: sequence,
            key_first: sequence,
            key_last: sequence,
            rows: 1,
        };
        let (bytes, summary, entries) = write_frame(info, file.len() as u64, &columns);
        toc.add_frame(summary, &entries);
        file.extend_from_slice(&bytes);
        if (sequence + 1) % 64 == 0 {
            let summary = common::add_checkpoint(&mut file, &mut toc, sequence + 1, &ledger);
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
    let file = Counted::new(&bytes);
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

    // The same frames and places as by walking.
    let by_walking = walked(&bytes);
    assert_eq!(reader.frames(), by_walking.frames());
    let (all, walked) = (reader.places(1_007), by_walking.places(1_007));
    assert_eq!(all.expect("places"), walked.expect("places"));
    assert_eq!(reader.columns(4_999).expect("a directory").len(), 20);
}

#[test]
fn frames_behind_the_newest_checkpoint_are_walked() {
    for frames in 0..9 {
        let (model, encoded) = model_with(frames, 3);
        let file = FileReader::open(&encoded.unclosed).expect("opens");
        assert_holds(&file, &model, frames);
        assert_eq!(file.frames(), encoded.frames);
        let ledger = file.ledger_at_checkpoint().expect("a ledger");
        let listed = (frames / 3 * 3, model.ledger.clone());
        assert_eq!(ledger, (frames >= 3).then_some(listed));
        assert!(file.verify_index().is_empty());
        for frame in 0..frames {
            assert!(file.verify_frame(frame).is_empty());
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
    assert_eq!(file.verify_frame(1).len(), 1);
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
        // A list of frames that is damaged.
        &|bytes| bytes[newest.offset as usize + 512] ^= 1,
        // Slots that are swapped, and of another file.
        &|bytes| {
            let (first, second) = (slots[0].min(slots[1]), slots[0].max(slots[1]));
            let (head, tail) = bytes.split_at_mut(second);
            head[first..first + 4_096].swap_with_slice(&mut tail[..4_096]);
        },
        &|bytes| bytes[slots[0] + 16] ^= 1,
    ];
    for (place, break_it) in breaks.iter().enumerate() {
        let mut bytes = encoded.unclosed.clone();
        break_it(&mut bytes);
        let file = FileReader::open(&bytes).expect("opens");
        assert_holds(&file, &model, 9);
        assert_eq!(file.frames(), encoded.frames, "break {place}");
    }
}

#[test]
fn any_flipped_bit_of_checkpoints_and_locator_leaves_all_frames_readable() {
    let (model, encoded) = model_with(4, 2);
    let header_bytes = encoded.frames[0].offset;
    let mut places: Vec<u64> = (header_bytes - 8_192..header_bytes - 8_192 + 64).collect();
    places.extend(header_bytes - 4_096..header_bytes - 4_096 + 64);
    for checkpoint in &encoded.checkpoints {
        places.extend(checkpoint.offset..checkpoint.offset + checkpoint.frame_bytes);
    }
    let mut random = Random(7);
    for place in places {
        let mut bytes = encoded.unclosed.clone();
        bytes[place as usize] ^= 1 << random.below(8);
        let file = FileReader::open(&bytes).expect("opens");
        assert_eq!(file.frames(), encoded.frames, "byte {place}");
        // A list that is damaged is passed over for the frame's own header.
        if random.below(20) == 0 {
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
    // A checkpoint behind the last frame gives way.
    let (_, encoded) = model_with(6, 3);
    let plan = repair(&encoded.unclosed, None).expect("plans");
    let closing = plan.closing.expect("not closed");
    assert_eq!(closing.offset, encoded.checkpoints[1].offset);
    let mut bytes = encoded.unclosed.clone();
    bytes.truncate(closing.offset as usize);
    bytes.extend_from_slice(&closing.bytes);
    assert!(FileReader::open(&bytes).expect("opens").closed());
    // Should that TOC be damaged in turn, the locator does not mislead.
    bytes[closing.offset as usize + 40] ^= 1;
    let file = FileReader::open(&bytes).expect("opens");
    assert_eq!(file.frames(), encoded.frames);
}

#[test]
fn a_file_cut_at_every_byte_keeps_every_whole_frame() {
    let (mut model, _) = channel_model(62, 5, true, Codec::Lz4);
    model.checkpoint_every = 2;
    for frame in &mut model.frames {
        // The fast channels alone would make the file too long for so many cuts.
        frame.columns.retain(|column| column.raw.len() < 600);
    }
    let encoded = model.encode();
    let first = encoded.frames[0].offset as usize;
    let mut last = None;
    for cut in first..=encoded.closed.len() {
        let bytes = &encoded.closed[..cut];
        let ends = encoded.frames.iter().map(|frame| frame.offset + frame.frame_bytes);
        let whole = ends.filter(|&end| end <= cut as u64).count();
        let file = FileReader::open(bytes).expect("opens");
        assert_eq!(file.frames(), &encoded.frames[..whole], "cut at {cut}");
        // Whatever was cut off, repair gives one and the same file for the same frames.
        if last != Some(whole) || cut % 997 == 0 {
            let plan = repair(bytes, None).expect("plans");
            assert_eq!(plan.frames, encoded.frames[..whole]);
            last = Some(whole);
            let Some(closing) = plan.closing else { continue };
            let mut repaired = bytes[..(closing.offset as usize).min(cut)].to_vec();
            repaired.extend_from_slice(&closing.bytes);
            let file = FileReader::open(&repaired).expect("opens");
            assert!(file.closed());
            assert_holds(&file, &model, whole);
        }
    }
}

#[test]
fn a_long_file_cut_anywhere_keeps_every_whole_frame() {
    let bytes = long_file(300);
    let all = walked(&bytes).frames().to_vec();
    let mut random = Random(63);
    for _ in 0..60 {
        let cut = all[0].offset as usize + random.below(bytes.len() - all[0].offset as usize);
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
    let counted = Counted::new(&bytes);
    let reader = FileReader::open(&counted).expect("opens");
    let columns = file.columns(0).expect("a directory").len() as u64;
    let before = counted.bytes_read();
    let fast = reader.channel_columns().channels[0].id;
    assert_eq!(reader.places(fast).expect("places").len(), 2);
    assert_eq!(counted.bytes_read() - before, columns * 32 + 2 * 64);
    let before = counted.bytes_read();
    let increments = reader.channel_columns().ledger_increment.expect("increments");
    assert_eq!(reader.places(increments).expect("places").len(), 2);
    assert_eq!(counted.bytes_read() - before, columns * 32 + 2 * 48);
}
