//! Verification, audit and repair.

use crate::common;
use crate::folders::seal;
use catchment_frame::{Codec, ColumnEntry, ColumnKind, Dtype, FrameInfo, TocBuilder, TocFlags};
use catchment_model::{Entry, Ledger};
use catchment_storage::{
    Closing, Outcome, Run, Verdict, audit, ledger_so_far, recompute, repair, verify,
};
use common::{Made, Recipe};

fn audited(made: &Made) -> catchment_storage::AuditReport {
    audit(&Run::open(made.path()).expect("opens")).expect("audits")
}

/// Replaces the total in the last file's TOC.
pub fn with_total(recipe: &Recipe, change: impl Fn(&mut Ledger)) -> Made {
    let mut made = recipe.make();
    let last = made.files.len() - 1;
    let bytes = std::fs::read(&made.files[last]).expect("reads");
    let header = common::header(recipe.sources, last as u32).encode();
    let mut toc = catchment_frame::TocBuilder::new(&header);
    for (summary, entries) in &made.frames[last] {
        toc.add_frame(*summary, entries);
    }
    let end = made.frames[last].last().map(|(f, _)| f.offset + f.frame_bytes).expect("a frame");
    change(&mut made.ledger);
    let flags = catchment_frame::TocFlags { run_ended: true, ..Default::default() };
    let mut changed = bytes[..end as usize].to_vec();
    changed.extend_from_slice(&toc.finish(end, &made.ledger, flags));
    std::fs::write(&made.files[last], changed).expect("writes");
    made
}

#[test]
fn a_whole_run_verifies_and_progress_ends_at_its_bytes() {
    let made = Recipe { codec: Codec::Lz4, ..Recipe::default() }.make();
    let run = Run::open(made.path()).expect("opens");
    let mut last = None;
    let report = verify(&run, |progress| last = Some(progress));
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.files, report.frames, report.frames_missing), (2, 3, 0));
    let last = last.expect("progress");
    assert_eq!((last.done_bytes, last.total_bytes), (report.bytes, report.bytes));
}

/// The results of verification and audit for frames with such headers, which both name.
fn problems(recipe: &Recipe) -> Vec<String> {
    let made = recipe.make();
    let report = verify(&Run::open(made.path()).expect("opens"), |_| ());
    let found: Vec<String> = report.problems.iter().map(|one| one.problem.clone()).collect();
    assert_eq!(report.is_intact(), found.is_empty());
    let audited: Vec<String> =
        audited(&made).problems.iter().map(|one| one.problem.clone()).collect();
    assert_eq!(audited, found);
    found
}

#[test]
fn header_ranges_that_are_not_those_of_the_rows_are_found() {
    let recipe = || Recipe { files: vec![vec![6]], ..Recipe::default() };
    assert_eq!(problems(&recipe()), Vec::<String>::new());
    let changes: [(&str, common::Change); 5] = [
        ("key_first", |info| FrameInfo { key_first: info.key_first + 1, ..info }),
        ("key_last", |info| FrameInfo { key_last: info.key_last + 1, ..info }),
        ("key_last", |info| FrameInfo { key_last: info.key_first - 1, ..info }),
        ("time_first_ns", |info| FrameInfo { time_first_ns: 0, ..info }),
        ("time_last_ns", |info| FrameInfo { time_last_ns: info.time_last_ns - 1, ..info }),
    ];
    for (field, info) in changes {
        let closed = Recipe { info, ..recipe() };
        let found = problems(&closed);
        assert!(found.len() == 1 && found[0].contains(field), "{field}: {found:?}");
        // Repair examines the frames of a file that it closes.
        let made = Recipe { unclosed: true, ..closed }.make();
        let report = repair(made.path()).expect("repairs");
        assert!(report.found_damage() && report.files[0].damaged[0].contains(field), "{report:?}");
    }
}

#[test]
fn frames_of_events_without_a_column_that_they_must_have_are_found() {
    for (kind, name) in [
        (ColumnKind::EventKey, "event_key"),
        (ColumnKind::EventTime, "event_time"),
        (ColumnKind::EventFlags, "event_flags"),
    ] {
        let found =
            problems(&Recipe { files: vec![vec![6]], without: Some(kind), ..Recipe::default() });
        assert_eq!(found, [format!("a frame with rows has no {name}")]);
    }
}

#[test]
fn a_run_with_a_number_missing_between_its_frames_is_not_intact() {
    let info = |info: FrameInfo| FrameInfo { sequence: info.sequence * 2, ..info };
    let recipe = || Recipe { files: vec![vec![2, 2]], info, ..Recipe::default() };
    let report = verify(&Run::open(recipe().make().path()).expect("opens"), |_| ());
    assert_eq!((report.problem_count, report.frames_missing), (0, 1));
    assert!(!report.is_intact());
    // In a run being recorded, frames in progress may still arrive.
    let made = Recipe { unclosed: true, ..recipe() }.make();
    let recorder = std::fs::File::open(&made.files[0]).expect("opens");
    recorder.try_lock().expect("nobody else has it");
    assert!(verify(&Run::open(made.path()).expect("opens"), |_| ()).is_intact());
}

#[test]
fn a_list_of_the_toc_that_contradicts_the_frames_is_found() {
    let made = Recipe { files: vec![vec![2, 2]], ..Recipe::default() }.make();
    let bytes = std::fs::read(&made.files[0]).expect("reads");
    let end = made.frames[0].last().map(|(f, _)| f.offset + f.frame_bytes).expect("a frame");
    let with_lists = |change: fn(usize, &mut Vec<ColumnEntry>)| {
        let mut toc = TocBuilder::new(&common::header(3, 0).encode());
        for (index, (summary, entries)) in made.frames[0].iter().enumerate() {
            let mut entries = entries.clone();
            change(index, &mut entries);
            toc.add_frame(*summary, &entries);
        }
        let flags = TocFlags { run_ended: true, ..TocFlags::default() };
        let mut file = bytes[..end as usize].to_vec();
        file.extend_from_slice(&toc.finish(end, &made.ledger, flags));
        std::fs::write(&made.files[0], file).expect("writes");
        verify(&Run::open(made.path()).expect("opens"), |_| ())
    };
    assert!(with_lists(|_, _| ()).is_intact());
    // A frame that is missing from a column's list, and a position that belongs to another column.
    for change in [
        (|index, entries: &mut Vec<ColumnEntry>| {
            if index == 1 {
                entries.remove(0);
            }
        }) as fn(usize, &mut Vec<ColumnEntry>),
        |index, entries| {
            if index == 0 {
                entries[0].offset = entries[1].offset;
            }
        },
    ] {
        let report = with_lists(change);
        let problems: Vec<_> = report.problems.iter().map(|one| &one.problem).collect();
        assert!(problems.iter().any(|one| one.contains("list of column 0")), "{problems:?}");
        // Repair rebuilds the TOC from the frames.
        assert_eq!(repair(made.path()).expect("repairs").closed(), 1);
        assert!(verify(&Run::open(made.path()).expect("opens"), |_| ()).is_intact());
    }
}

#[test]
fn every_damaged_column_is_found_by_file_frame_and_source() {
    let made = Recipe::default().make();
    let damaged = [(0, 0, 0u32), (0, 1, 9), (1, 0, 4)];
    for (file, frame, column) in damaged {
        made.damage(file, made.offset(file, frame, column));
    }
    let run = Run::open(made.path()).expect("opens");
    let report = verify(&run, |_| ());
    assert!(!report.is_intact());
    assert_eq!(report.problem_count, 3);
    let expected = [
        (0, 0, "event_key", None),
        (0, 1, "fragment_payload", Some("board-1")),
        (1, 0, "fragment_lengths", Some("board-0")),
    ];
    for (problem, (file, frame, column, source)) in report.problems.iter().zip(expected) {
        assert_eq!(problem.file, made.files[file]);
        assert_eq!(problem.frame, Some(frame));
        assert_eq!(problem.column.as_deref(), Some(column));
        assert_eq!(problem.source.as_deref(), source);
    }
}

#[test]
fn a_run_without_loss_balances() {
    for codec in [Codec::None, Codec::Lz4] {
        let made = Recipe { codec, ..Recipe::default() }.make();
        let report = audited(&made);
        assert_eq!((report.verdict, report.closing), (Verdict::Balanced, Closing::Ended));
        assert_eq!(report.recomputed, made.ledger);
        assert_eq!(report.recorded.as_ref(), Some(&made.ledger));
        assert_eq!(report.events, 16);
    }
}

#[test]
fn the_books_of_a_killed_run_are_had_as_far_as_its_files_go() {
    let so_far = |made: &Made, frames_max| {
        ledger_so_far(&Run::open(made.path()).expect("opens"), frames_max).expect("reads")
    };
    let whole = Recipe::default().make();
    assert_eq!(so_far(&whole, 0).as_ref(), Some(&whole.ledger));
    let killed = Recipe { unclosed: true, ..Recipe::default() }.make();
    assert_eq!(so_far(&killed, 100).as_ref(), Some(&killed.ledger));
    // Too many to read: this file has no checkpoint, but the previous one has a ledger.
    let before = std::fs::read(&killed.files[0]).expect("reads");
    let before = catchment_frame::FileReader::open(&before[..]).expect("opens");
    assert_eq!(so_far(&killed, 0).as_ref(), before.ledger().expect("reads"));
    assert_eq!(repair(killed.path()).expect("repairs").closed(), 1);
    assert_eq!(so_far(&killed, 0).as_ref(), Some(&killed.ledger));
}

#[test]
fn increments_of_a_last_frame_without_events_count() {
    let made = Recipe { files: vec![vec![4, 0]], ..Recipe::default() }.make();
    let run = Run::open(made.path()).expect("opens");
    assert_eq!(run.frames().len(), 1);
    assert_eq!(audited(&made).verdict, Verdict::Balanced);
}

#[test]
fn a_gap_of_a_required_source_is_a_loss_and_of_an_optional_one_is_not() {
    let made = Recipe { missing: |source, event| source == 2 && event > 3, ..Recipe::default() };
    assert_eq!(audited(&made.make()).verdict, Verdict::Balanced);
    let made = Recipe { missing: |source, event| source == 1 && event > 3, ..Recipe::default() };
    let report = audited(&made.make());
    assert_eq!(report.verdict, Verdict::DataLost);
    assert!(report.flagged_lost && report.differences.is_empty());
    assert_eq!(report.recomputed.sources[1][Entry::FragmentsMissing], 12);
    assert_eq!(report.balance.fragments_lost, 12);
}

#[test]
fn a_total_that_is_not_what_the_columns_say_is_named_by_source_and_entry() {
    let made = with_total(&Recipe::default(), |ledger| {
        ledger.sources[1][Entry::FragmentsRecorded] += 1;
        ledger.sources[1][Entry::FragmentsReceived] += 1;
    });
    let report = audited(&made);
    assert_eq!(report.verdict, Verdict::NotBalanced);
    let found: Vec<_> = report.differences.iter().map(|d| (d.source.as_str(), d.entry)).collect();
    let name = |entry: Entry| entry.name();
    let expected =
        [Entry::FragmentsReceived, Entry::FragmentsRecorded].map(|e| ("board-1", name(e)));
    assert_eq!(found, expected);
    assert_eq!(report.differences[0].recorded, report.differences[0].recomputed + 1);
}

#[test]
fn fragments_that_vanished_within_the_recorder_do_not_balance() {
    let made = Recipe { in_flight: 2, ..Recipe::default() }.make();
    let report = audited(&made);
    assert_eq!(report.verdict, Verdict::NotBalanced);
    assert_eq!((report.open.len(), report.open[0].fragments), (3, 2));
    assert!(report.differences.is_empty());
}

#[test]
fn a_lost_frame_does_not_balance_and_a_lost_file_is_named() {
    let made = Recipe { files: vec![vec![2], vec![2], vec![2]], ..Recipe::default() }.make();
    std::fs::remove_file(&made.files[1]).expect("deletes");
    let report = audited(&made);
    assert_eq!((report.verdict, report.frames_missing), (Verdict::Incomplete, 1));
    assert!(report.problems[0].problem.contains("file 1"), "{:?}", report.problems);
    assert_eq!(report.incomplete, report.problems);
}

#[test]
fn what_is_in_flight_is_a_loss_once_the_recorder_is_gone() {
    let made = Recipe { in_flight: 2, unclosed: true, ..Recipe::default() }.make();
    let recorder = std::fs::File::open(&made.files[1]).expect("opens");
    recorder.try_lock().expect("nobody else has it");
    let report = audited(&made);
    assert_eq!((report.verdict, report.closing), (Verdict::Balanced, Closing::Recording));
    assert_eq!((report.open[0].fragments, report.fragments_in_flight()), (2, 6));
    assert!(report.recorded.is_none());
    drop(recorder);
    let report = audited(&made);
    assert_eq!((report.verdict, report.closing), (Verdict::DataLost, Closing::Killed));
    assert_eq!(report.fragments_in_flight(), 6);
}

#[test]
fn a_hole_between_frames_is_a_loss_only_once_the_recorder_is_gone() {
    let recipe = Recipe { files: vec![vec![3, 3, 3]], unclosed: true, ..Recipe::default() };
    let made = recipe.make();
    let mut bytes = std::fs::read(&made.files[0]).expect("reads");
    bytes[made.frames[0][1].0.offset as usize..][..64].fill(0);
    std::fs::write(&made.files[0], bytes).expect("writes");
    let recorder = std::fs::File::open(&made.files[0]).expect("opens");
    recorder.try_lock().expect("nobody else has it");
    let report = audited(&made);
    assert_eq!((report.verdict, report.frames_missing), (Verdict::Balanced, 0), "{report:?}");
    drop(recorder);
    let report = audited(&made);
    assert_eq!((report.verdict, report.frames_missing), (Verdict::DataLost, 1));
}

#[test]
fn nobody_can_say_of_a_killed_run_that_it_lost_nothing() {
    let made = Recipe { unclosed: true, ..Recipe::default() }.make();
    let report = audited(&made);
    assert_eq!((report.verdict, report.closing), (Verdict::DataLost, Closing::Killed));
    assert_eq!(report.fragments_in_flight(), 0);
    repair(made.path()).expect("repairs");
    let report = audited(&made);
    assert_eq!((report.verdict, report.closing), (Verdict::DataLost, Closing::Repaired));
}

#[test]
fn a_file_that_was_made_ahead_and_is_held_says_that_the_run_goes_on() {
    let made = Recipe { in_flight: 2, unclosed: true, ..Recipe::default() }.make();
    let ahead = std::fs::File::create(made.path().join("run-00002.catch")).expect("creates");
    ahead.try_lock().expect("nobody else has it");
    assert_eq!(audited(&made).closing, Closing::Recording);
    drop(ahead);
    assert_eq!(audited(&made).closing, Closing::Killed);
}

#[test]
fn a_frame_that_was_under_way_is_no_damage_and_one_that_was_whole_is() {
    let recipe = Recipe { files: vec![vec![3, 3]], unclosed: true, ..Recipe::default() };
    let made = recipe.make();
    let last = made.frames[0][1].0;
    let whole = std::fs::read(&made.files[0]).expect("reads");
    // Its columns exist, but its header, which is written last, does not.
    let mut under_way = whole.clone();
    under_way[last.offset as usize..][..64].fill(0);
    std::fs::write(&made.files[0], under_way).expect("writes");
    let report = verify(&Run::open(made.path()).expect("opens"), |_| ());
    assert!(report.is_intact() && report.unclosed == made.files, "{report:?}");
    let report = audited(&made);
    assert_eq!((report.verdict, report.problems.len()), (Verdict::DataLost, 0));
    assert!(report.under_way_bytes > 0);
    // Its header exists and the file ends within it.
    let cut = (last.offset + last.frame_bytes - 1) as usize;
    std::fs::write(&made.files[0], &whole[..cut]).expect("writes");
    assert!(!verify(&Run::open(made.path()).expect("opens"), |_| ()).is_intact());
    assert_eq!(audited(&made).verdict, Verdict::DataLost);
}

#[test]
fn repair_names_a_frame_that_was_under_way_and_calls_it_no_damage() {
    let recipe = Recipe { files: vec![vec![3, 3]], unclosed: true, ..Recipe::default() };
    let made = recipe.make();
    let last = made.frames[0][1].0;
    let mut bytes = std::fs::read(&made.files[0]).expect("reads");
    bytes[last.offset as usize..][..64].fill(0);
    std::fs::write(&made.files[0], bytes).expect("writes");
    let report = repair(made.path()).expect("repairs");
    assert!(report.files[0].under_way_bytes > 0, "{report:?}");
    assert_eq!((report.files[0].skipped_bytes, report.found_damage()), (0, false));
    // The contents of that frame are lost nevertheless.
    assert_eq!(audited(&made).verdict, Verdict::DataLost);
}

#[test]
fn all_that_an_ended_run_recorded_is_durable_whatever_its_toc_could_know() {
    let unsynced = |ledger: &mut Ledger| {
        ledger.sources.iter_mut().for_each(|source| source[Entry::FragmentsDurable] -= 1);
    };
    let made = with_total(&Recipe::default(), unsynced);
    let run = Run::open(made.path()).expect("opens");
    let recorded = run.recorded_ledger().expect("reads").expect("is closed");
    let total = recorded.total();
    assert_eq!(total[Entry::FragmentsDurable], total[Entry::FragmentsRecorded]);
    assert_eq!(recorded, recompute(&run).0);
    assert_eq!(ledger_so_far(&run, 0).expect("reads").as_ref(), Some(&recorded));
    assert_eq!(audited(&made).recorded, Some(recorded));
    // A run that continues in another file has only the synced data when this one was closed.
    let first = Run::open(&made.files[0]).expect("opens");
    let then = first.recorded_ledger().expect("reads").expect("is closed");
    let said = first.files().next().expect("a file").flags.expect("a TOC");
    assert!(!said.run_ended && then.total()[Entry::FragmentsDurable] > 0);
}

#[test]
fn one_file_of_several_is_not_held_to_the_total() {
    let made = Recipe { in_flight: 2, ..Recipe::default() }.make();
    for file in &made.files {
        let report = audit(&Run::open(file).expect("opens")).expect("audits");
        assert_eq!((report.verdict, report.closing), (Verdict::Balanced, Closing::Part));
    }
}

#[test]
fn repair_closes_the_open_file_and_leaves_the_others_alone() {
    let made = Recipe { in_flight: 1, unclosed: true, ..Recipe::default() }.make();
    let first = std::fs::read(&made.files[0]).expect("reads");
    let frames_end = {
        let (last, _) = made.frames[1].last().expect("a frame");
        (last.offset + last.frame_bytes) as usize
    };
    let before = std::fs::read(&made.files[1]).expect("reads");
    let report = repair(made.path()).expect("repairs");
    assert_eq!((report.files.len(), report.closed(), report.found_damage()), (2, 1, false));
    assert_eq!(report.files[0].outcome, Outcome::Intact);
    let file = &report.files[1];
    assert_eq!((&file.outcome, file.frames, file.events), (&Outcome::Closed, 1, 4));
    assert!(file.bytes_after < file.bytes_before);
    assert_eq!(std::fs::read(&made.files[0]).expect("reads"), first);
    let after = std::fs::read(&made.files[1]).expect("reads");
    assert_eq!(after[..frames_end], before[..frames_end]);
    assert_eq!(after.len() as u64, file.bytes_after);

    let run = Run::open(made.path()).expect("opens");
    assert!(run.closed() && !run.ended());
    assert!(verify(&run, |_| ()).is_intact());
    // The total of the whole run, although only its last file was repaired.
    assert_eq!(run.recorded_ledger().expect("reads"), Some(recompute(&run).0));
    let audited = audit(&run).expect("audits");
    // Fragments in flight when the recorder was killed are now lost.
    assert_eq!((audited.verdict, audited.closing), (Verdict::DataLost, Closing::Repaired));
    assert_eq!(repair(made.path()).expect("repairs").closed(), 0);
}

#[test]
fn repair_does_not_call_a_file_with_impossible_sizes_intact() {
    // A writer refuses the number itself: it replaces this one afterwards, with right checksums.
    const SIZE: u64 = 0x5a5b_5c5d;
    let of_payload = |entry: ColumnEntry| match entry.dtype {
        Dtype::U8 => ColumnEntry { raw_bytes: SIZE, rows: SIZE, ..entry },
        _ => entry,
    };
    let made = Recipe { entry: of_payload, ..Recipe::default() }.make();
    for path in &made.files {
        let mut bytes = std::fs::read(path).expect("reads");
        for at in (0..bytes.len() - 8).step_by(4) {
            if bytes[at..at + 8] == SIZE.to_le_bytes() {
                bytes[at..at + 8].copy_from_slice(&(1_u64 << 63).to_le_bytes());
            }
        }
        seal(&mut bytes);
        std::fs::write(path, bytes).expect("writes");
    }
    let before = std::fs::read(&made.files[0]).expect("reads");
    let report = repair(made.path()).expect("repairs");
    for file in &report.files {
        assert_eq!(file.outcome, Outcome::Damaged);
        let says = |line: &String| {
            line.contains(
                "raw_bytes is 9223372036854775808, expected at most 0x7E000000 (2,016 MiB)",
            )
        };
        assert!(file.damaged.iter().any(says), "{file:?}");
    }
    assert!(report.found_damage());
    assert_eq!(std::fs::read(&made.files[0]).expect("reads"), before, "nothing is changed");
}

#[test]
fn repair_keeps_the_frames_around_a_damaged_one() {
    let recipe = Recipe { files: vec![vec![3, 3, 3]], unclosed: true, ..Recipe::default() };
    let made = recipe.make();
    made.damage(0, made.frames[0][1].0.offset + 20);
    let report = repair(made.path()).expect("repairs");
    let file = &report.files[0];
    assert_eq!((file.frames, file.events, file.frames_missing), (2, 6, 1));
    assert_eq!(file.skipped_bytes, made.frames[0][1].0.frame_bytes);
    assert!(report.found_damage());
    let report = audited(&made);
    assert_eq!((report.verdict, report.frames_missing), (Verdict::DataLost, 1));
    assert!(report.flagged_lost);
}

#[test]
fn repair_of_a_file_cut_in_its_last_frame_keeps_those_before() {
    let recipe = Recipe { files: vec![vec![3, 3]], unclosed: true, ..Recipe::default() };
    let made = recipe.make();
    let cut = made.frames[0][1].0.offset + made.frames[0][1].0.frame_bytes - 1;
    let bytes = std::fs::read(&made.files[0]).expect("reads");
    std::fs::write(&made.files[0], &bytes[..cut as usize]).expect("writes");
    let report = repair(&made.files[0]).expect("repairs");
    assert_eq!((report.files[0].frames, report.files[0].events), (1, 3));
    assert!(report.found_damage());
    assert!(Run::open(&made.files[0]).expect("opens").closed());
}

#[test]
fn repair_leaves_files_without_a_header_alone() {
    let made = Recipe { unclosed: true, ..Recipe::default() }.make();
    let blank = made.path().join("run-00002.catch");
    let other = made.path().join("run-00003.catch");
    std::fs::write(&blank, vec![0; 8192]).expect("writes");
    std::fs::write(&other, b"something else").expect("writes");
    let report = repair(made.path()).expect("repairs");
    let outcomes: Vec<_> = report.files.iter().map(|file| &file.outcome).collect();
    assert!(matches!(
        outcomes[..],
        [Outcome::Intact, Outcome::Closed, Outcome::Blank, Outcome::Unreadable(_)]
    ));
    assert_eq!(std::fs::read(&blank).expect("reads"), vec![0; 8192]);
    assert_eq!(std::fs::read(&other).expect("reads"), b"something else");
}

#[test]
fn reports_are_json() {
    let made = Recipe { missing: |source, _| source == 1, ..Recipe::default() }.make();
    let json = serde_json::to_value(audited(&made)).expect("serialises");
    assert_eq!(json["verdict"], "data_lost");
    assert_eq!(json["closing"], "ended");
    assert_eq!(json["recomputed"][1]["fragments_missing"], 16);
    assert_eq!(json["sources"][1], "board-1");
    let run = Run::open(made.path()).expect("opens");
    let json = serde_json::to_value(verify(&run, |_| ())).expect("serialises");
    assert_eq!(json["problem_count"], 0);
}
