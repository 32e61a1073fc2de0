//! Repair: what a killed writer or a bad disk left becomes a closed file.

use crate::common;
use catchment_fixtures::Random;
use catchment_frame::{
    Codec, FileReader, RepairPlan, SkippedReason, frame_ledger, repair, verify_frame,
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
