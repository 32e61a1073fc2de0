//! Repair: a file left by a killed writer or a bad disk becomes a closed file.

use crate::common;
use crate::golden_v1_3::with_metadata;
use catchment_fixtures::Random;
use catchment_frame::{
    Codec, ColumnInfo, ColumnKind, Dtype, FileReader, FrameInfo, FrameKind, Origin, RepairPlan,
    Schema, SkippedReason, crc32c, frame_ledger, repair, sequences_missing, verify_frame,
};
use catchment_model::{Entry, Ledger};
use common::{Model, assert_holds, some_model};

fn apply(bytes: &[u8], plan: &RepairPlan) -> Vec<u8> {
    let mut repaired = bytes.to_vec();
    if let Some(closing) = &plan.closing {
        repaired.resize(closing.offset as usize, 0);
        repaired.extend_from_slice(&closing.bytes);
        assert_eq!(repaired.len() as u64, closing.file_bytes());
    }
    if let Some(header) = &plan.file_header {
        repaired[..header.len()].copy_from_slice(header);
    }
    repaired
}

/// The ledger of a model's first frames.
fn ledger_of(model: &Model, frame_count: usize) -> Ledger {
    let whole = Model { frames: model.frames[..frame_count].to_vec(), ..model.clone() };
    let encoded = whole.encode();
    let file = FileReader::open(&encoded.closed).expect("opens");
    let mut ledger = Ledger::new(model.header.schema.sources.len());
    for frame in 0..frame_count {
        let (added, problems) = frame_ledger(&file, frame);
        assert!(problems.is_empty());
        ledger.add(&added);
    }
    for source in &mut ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
    ledger
}

#[test]
fn a_killed_writers_file_is_closed_with_the_ledger_of_its_frames() {
    let model = some_model(21, 5, 9, Codec::Lz4);
    let encoded = model.encode();
    // Preallocated zeros, and a frame of which only the columns were written.
    let mut bytes = encoded.unclosed.clone();
    let last = encoded.frames[4];
    bytes[last.offset as usize..last.offset as usize + last.header_bytes as usize].fill(0);
    bytes.resize(bytes.len() + (1 << 20), 0);

    let plan = repair(&bytes, None).expect("plans");
    assert_eq!(plan.frames, encoded.frames[..4]);
    assert_eq!(plan.ledger, ledger_of(&model, 4));
    assert_eq!(plan.closing.as_ref().expect("work to do").offset, last.offset);
    assert!(plan.flags.repaired && plan.flags.data_lost);
    assert!(!plan.flags.run_ended && !plan.flags.ledger_of_file);
    assert!(matches!(plan.skipped[0].reason, SkippedReason::NoHeader));

    let repaired = apply(&bytes, &plan);
    let file = FileReader::open(&repaired).expect("opens");
    assert!(file.closed() && file.verify_index().is_empty());
    assert_holds(&file, &model, 4);
    assert_eq!(file.ledger().expect("a ledger"), Some(&plan.ledger));
    assert_eq!(file.flags(), Some(plan.flags));
    let again = repair(&repaired, None).expect("plans");
    assert!(again.closing.is_none() && again.file_header.is_none() && again.damaged.is_empty());
}

#[test]
fn bad_data_are_flagged_by_repair_and_a_flag_that_contradicts_the_total_is_named() {
    let mut model = some_model(23, 2, 9, Codec::Lz4);
    for (entry, bad) in [(None, false), (Some(Entry::FragmentsBadTag), true)] {
        if let Some(entry) = entry {
            let mut events = common::some_events(&mut Random::new(24), 2, 9);
            let increment = events.increment.as_mut().expect("an increment");
            increment.sources[1][entry] = 1;
            model.frames.push(events.frame(&model.header.schema, Codec::Lz4));
        }
        let encoded = model.encode();
        let plan = repair(&encoded.unclosed, None).expect("plans");
        assert_eq!(plan.flags.data_bad, bad);
        let repaired = apply(&encoded.unclosed, &plan);
        let file = FileReader::open(&repaired).expect("opens");
        assert_eq!(file.flags(), Some(plan.flags));
        assert!(file.verify_index().is_empty());
    }
    model.flags.data_bad = true;
    let closed = model.encode().closed;
    let problems = FileReader::open(&closed).expect("opens").verify_index();
    let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(text.contains("data_bad is 1"), "{text}");
}

#[test]
fn the_ledger_of_whole_frames_is_the_recorders_total() {
    let model = some_model(22, 4, 9, Codec::None);
    assert_eq!(ledger_of(&model, 4), model.ledger);
    let plan = repair(&model.encode().unclosed, None).expect("plans");
    assert_eq!(plan.ledger, model.ledger);
    assert!(plan.skipped.is_empty() && plan.damaged.is_empty());
}

#[test]
fn preallocated_zeros_alone_are_no_loss() {
    let mut model = some_model(23, 2, 4, Codec::None);
    for frame in &mut model.frames {
        frame.columns.clear();
        frame.rows = 0;
    }
    let mut bytes = model.encode().unclosed;
    bytes.resize(bytes.len() + (3 << 20), 0);
    let plan = repair(&bytes, None).expect("plans");
    assert!(matches!(plan.skipped[0].reason, SkippedReason::Zeros));
    assert!(!plan.flags.data_lost);
}

#[test]
fn a_later_files_ledger_goes_on_from_the_file_before() {
    let mut model = some_model(24, 2, 4, Codec::None);
    model.header.file_index = 3;
    let bytes = model.encode().unclosed;
    let plan = repair(&bytes, None).expect("plans");
    assert!(plan.flags.ledger_of_file);
    assert_eq!(plan.ledger, model.ledger);

    let before = model.ledger.clone();
    let plan = repair(&bytes, Some(&before)).expect("plans");
    assert!(!plan.flags.ledger_of_file);
    let mut twice = before.clone();
    twice.add(&before);
    assert_eq!(plan.ledger, twice);
}

#[test]
fn a_file_cut_anywhere_is_repaired() {
    let model = some_model(25, 4, 5, Codec::Lz4);
    let encoded = model.encode();
    let first = encoded.frames[0].offset as usize;
    let mut random = Random::new(1);
    let mut cuts: Vec<usize> =
        (0..150).map(|_| first + random.index(encoded.closed.len() - first)).collect();
    cuts.extend(encoded.frames.iter().map(|frame| (frame.offset + frame.frame_bytes) as usize));
    for cut in cuts {
        let bytes = &encoded.closed[..cut];
        let plan = repair(bytes, None).expect("plans");
        let whole = encoded.frames.iter().filter(|f| f.offset + f.frame_bytes <= cut as u64);
        let repaired = apply(bytes, &plan);
        let file = FileReader::open(&repaired).expect("opens");
        assert!(file.closed());
        assert_holds(&file, &model, whole.count());
    }
}

#[test]
fn damage_within_is_named_and_the_rest_is_kept() {
    let model = some_model(26, 4, 8, Codec::None);
    let encoded = model.encode();
    let mut bytes = encoded.closed.clone();
    // A column, a whole frame, the TOC's header, and the file header.
    let column = *encoded.entries[0].iter().find(|e| e.id == 6).expect("payload of board-0");
    bytes[(encoded.frames[0].offset + column.offset) as usize + 3] ^= 0x40;
    bytes[encoded.frames[2].offset as usize + 60] ^= 0x01;
    bytes[encoded.unclosed.len() + 130] ^= 0x01;
    let plan = repair(&bytes, None).expect("plans");
    assert_eq!(plan.frames.len(), 3);
    assert_eq!(plan.frames_missing, 1);
    assert_eq!(plan.damaged.len(), 1);
    assert!(plan.damaged[0].to_string().starts_with("frame 0, column 6: checksum"));
    assert!(plan.flags.data_lost);
    let repaired = apply(&bytes, &plan);
    let file = FileReader::open(&repaired).expect("opens");
    assert!(file.closed());
    assert_eq!(verify_frame(&file, 0).len(), 1);
    assert!(verify_frame(&file, 1).is_empty() && verify_frame(&file, 2).is_empty());
}

#[test]
fn a_damaged_file_header_is_restored_from_the_tocs_copy() {
    let model = some_model(27, 2, 5, Codec::None);
    let encoded = model.encode();
    let mut bytes = encoded.closed.clone();
    bytes[..4_096].fill(0);
    let file = FileReader::open(&bytes).expect("opens");
    assert!(file.header_problem().is_some());
    assert_holds(&file, &model, 2);
    let plan = repair(&bytes, None).expect("plans");
    assert!(plan.closing.is_none());
    assert_eq!(apply(&bytes, &plan), encoded.closed);
}

#[test]
fn columns_that_contradict_each_other_are_named() {
    let mut model = some_model(28, 1, 6, Codec::None);
    let payload = model.frames[0].columns.iter_mut().find(|column| column.id == 9);
    let payload = payload.expect("payload of board-1");
    payload.raw.pop();
    payload.rows -= 1;
    let encoded = model.encode();
    let file = FileReader::open(&encoded.closed).expect("opens");
    let problems = verify_frame(&file, 0);
    assert_eq!(
        problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["frame 0, column 9: its bytes are not the sum of the lengths"]
    );
}

/// The file as begun by a program of that minor version.
fn of_minor(mut file: Vec<u8>, minor: u16) -> Vec<u8> {
    let used = 64 + u32::from_le_bytes(file[16..20].try_into().expect("four")) as usize;
    file[10..12].copy_from_slice(&minor.to_le_bytes());
    file[20..24].fill(0);
    let crc = crc32c(&file[..used]);
    file[20..24].copy_from_slice(&crc.to_le_bytes());
    file
}

/// The minor version in a closed file's trailer.
fn trailer_minor(closed: &[u8]) -> u16 {
    let at = closed.len() - 4_096 + 10;
    u16::from_le_bytes(closed[at..at + 2].try_into().expect("two"))
}

#[test]
fn the_toc_of_a_1_2_file_with_bad_data_is_kept_where_only_its_trailer_is_lost() {
    let mut model = some_model(29, 2, 9, Codec::Lz4);
    // Version 1.2 had no flag for it.
    model.ledger.sources[1][Entry::FragmentsBadTag] = 1;
    let closed = model.encode().closed;
    let longer = [&*closed, &[7; 4_096]].concat();
    let shorter = closed[..closed.len() - 4_096].to_vec();
    for bytes in [longer, shorter] {
        let old = of_minor(bytes.clone(), 2);
        let plan = repair(&old, None).expect("plans");
        assert!(plan.flags.run_ended && !plan.flags.repaired, "{:?}", plan.flags);
        let repaired = apply(&old, &plan);
        let file = FileReader::open(&repaired).expect("opens");
        assert!(file.closed() && file.verify_index().is_empty());
        assert_eq!(file.ledger().expect("a ledger"), Some(&model.ledger));
        assert_eq!((repaired.len(), trailer_minor(&repaired)), (closed.len(), 2));
        // A TOC of version 1.3 without the flag contradicts itself.
        let plan = repair(&bytes, None).expect("plans");
        assert!(plan.flags.repaired && !plan.flags.run_ended);
        assert_eq!(trailer_minor(&apply(&bytes, &plan)), 3);
    }
}

#[test]
fn a_toc_without_the_positions_that_frames_may_have_is_not_announced_as_1_3() {
    let mut model = some_model(30, 2, 9, Codec::Lz4);
    let plain = repair(&model.encode().unclosed, None).expect("plans");
    assert_eq!(trailer_minor(&plain.closing.expect("a TOC").bytes), 3);
    let mut schema = Schema::clone(&model.header.schema);
    let kind = ColumnKind::Unknown("source_positions".into());
    schema.columns.push(ColumnInfo::new(1_000, kind, Dtype::Record));
    model.header.schema = schema.into();
    let unclosed = model.encode().unclosed;
    let repaired = apply(&unclosed, &repair(&unclosed, None).expect("plans"));
    assert_eq!(trailer_minor(&repaired), 2);
    // Nor if that TOC loses its trailer.
    let cut = &repaired[..repaired.len() - 4_096];
    assert_eq!(apply(cut, &repair(cut, None).expect("plans")), repaired);
}

#[test]
fn repair_keeps_the_variant_of_frames() {
    let mut model = some_model(31, 2, 9, Codec::Lz4);
    model.origins = vec![Origin { variant: 3, ..Origin::SINGLE }; 2];
    let encoded = model.encode();
    let header = model.header.encode();
    let of_variant = |variant: u32| {
        let header = with_metadata(&header, |metadata| metadata["variant"] = variant.into());
        [&header, &encoded.unclosed[encoded.frames[0].offset as usize..]].concat()
    };
    for (variant, problems) in [(3, 0), (4, 1)] {
        let unclosed = of_variant(variant);
        let repaired = apply(&unclosed, &repair(&unclosed, None).expect("plans"));
        let file = FileReader::open(&repaired).expect("opens");
        assert!(file.closed() && file.frames().iter().all(|frame| frame.info.origin.variant == 3));
        // A different variant in the file is damage, but loses no column.
        assert!((0..2).all(|frame| verify_frame(&file, frame).len() == problems));
        assert!(file.verify_index().is_empty());
    }
}

#[test]
fn a_skipped_frame_stands_for_as_many_numbers_as_it_has_rows() {
    let frame = |kind, sequence, rows| FrameInfo { kind, sequence, rows, ..FrameInfo::EMPTY };
    let (events, skipped) = (FrameKind::Events, FrameKind::SKIPPED);
    for (frames, missing) in [
        (vec![frame(events, 0, 9), frame(events, 1, 9), frame(events, 4, 9)], 2),
        (vec![frame(events, 0, 9), frame(skipped, 1, 3), frame(events, 4, 9)], 0),
        (vec![frame(events, 4, 9), frame(skipped, 1, 2), frame(events, 0, 9)], 1),
        (vec![frame(skipped, 0, 0), frame(events, 1, 9)], 0),
        // Some of them are there as well.
        (vec![frame(skipped, 0, 5), frame(events, 2, 9), frame(events, 7, 9)], 2),
        (vec![frame(events, 0, 9), frame(skipped, 1, u64::MAX)], 0),
    ] {
        assert_eq!(sequences_missing(frames.iter()), missing, "{frames:?}");
    }
}

#[test]
fn damage_in_one_column_hides_no_contradiction_and_the_other_way_round() {
    let mut model = some_model(32, 1, 6, Codec::None);
    model.frames[0].keys.0 += 1;
    let encoded = model.encode();
    let mut bytes = encoded.unclosed.clone();
    for id in [0, 6] {
        let column = encoded.entries[0].iter().find(|entry| entry.id == id).expect("a column");
        bytes[(encoded.frames[0].offset + column.offset) as usize + 3] ^= 0x40;
    }
    let named = |problems: &[catchment_frame::FrameError]| {
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let plan = repair(&bytes, None).expect("plans");
    let found = named(&plan.damaged);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("frame 0, column 0: checksum"), "{found:?}");
    assert!(found[1].starts_with("frame 0, column 6: checksum"), "{found:?}");
    // The keys can be read again, and do not match the header.
    let column = encoded.entries[0].iter().find(|entry| entry.id == 0).expect("keys");
    bytes[(encoded.frames[0].offset + column.offset) as usize + 3] ^= 0x40;
    let file = FileReader::open(&bytes).expect("opens");
    let plan = repair(&bytes, None).expect("plans");
    let found = named(&verify_frame(&file, 0));
    assert_eq!((found.len(), &found), (2, &named(&plan.damaged)), "{found:?}");
    assert!(found[0].starts_with("frame 0, column 6: checksum"), "{found:?}");
    assert!(found[1].contains("key_first"), "{found:?}");
}
