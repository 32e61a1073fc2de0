//! Several folders of one run: their audit together, and the files that are merged of them.

use std::ops::ControlFlow;
use std::path::Path;

use catchment_frame::{
    Codec, ColumnEntry, ColumnKind, Dtype, FileReader, FrameInfo, Numbering, OpenOptions, Origin,
};
use catchment_model::{Entry, SourceId};
use catchment_storage::{
    AuditReport, Closing, MergeReport, MissingFrames, Problem, Run, RunOptions, Select,
    StorageError, Verdict, WriteOptions, audit, merge, recompute, repair, verify,
};

use crate::books::with_total;
use crate::common::{Made, Recipe, change_frames, header};
use crate::several::{channels_apart, check_events, fast, faulty, files_in, open, recipe, whole};
use crate::signal::CHANNELS;

const FILES: &[&[u64]] = &[&[3, 4, 2], &[5, 1, 6, 3]];

/// A run of which nothing is missing.
fn complete() -> Recipe {
    Recipe { missing: |_, _| false, ..recipe(FILES) }
}

fn lacking(skipped: fn(u64) -> Option<Entry>) -> Made {
    Recipe { skipped, ..complete() }.make()
}

fn audited(folders: &[&Made]) -> AuditReport {
    audit(&open(folders)).expect("an audit")
}

/// Merges folders into a new one.
fn merged(run: &Run) -> (tempfile::TempDir, MergeReport) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = WriteOptions::small();
    let go_on = |_| ControlFlow::Continue(());
    let report = merge(run, folder.path(), "merged", &options, go_on).expect("merges");
    (folder, report)
}

fn opened(folder: &tempfile::TempDir) -> Run {
    Run::open(folder.path()).expect("opens")
}

/// The id of a column of a source.
fn column(source: u32, kind: &ColumnKind) -> u32 {
    header(3, 0).schema.column(Some(SourceId(source)), kind).expect("a column")
}

#[test]
fn an_audit_says_what_each_folder_has_and_balances_all_of_them() {
    let one = lacking(|frame| (frame % 3 == 1).then_some(Entry::FragmentsNotTaken));
    let other = lacking(|frame| (frame % 3 == 2).then_some(Entry::FragmentsDiscardedDisk));
    let report = audited(&[&one, &other]);
    assert_eq!((report.verdict, report.closing), (Verdict::Balanced, Closing::Ended), "{report:?}");
    assert_eq!((report.frames, report.frames_repeated, report.frames_missing), (7, 3, 0));
    let counts = |index: usize| {
        let folder = &report.folders[index];
        (folder.files, folder.frames, folder.frames_alone, folder.frames_lacking)
    };
    assert_eq!((counts(0), counts(1)), ((2, 5, 2, 2), (2, 5, 2, 2)));
    let verdicts: Vec<_> = report.folders.iter().map(|folder| folder.verdict).collect();
    assert_eq!(verdicts, [Some(Verdict::Balanced), Some(Verdict::DataLost)]);
    assert_eq!(report.recorded.as_ref(), Some(&complete().make().ledger));
    // One folder alone has no others to be compared with.
    assert!(audited(&[&one]).folders.is_empty());
}

#[test]
fn a_folder_whose_ledger_contradicts_its_files_is_named_whatever_the_others_have() {
    let wrong = with_total(&complete(), |total| total.sources[1][Entry::FragmentsReceived] += 1);
    let report = audited(&[&complete().make(), &wrong]);
    assert_eq!(report.verdict, Verdict::NotBalanced);
    let [right, wrong] = &report.folders[..] else { panic!("{report:?}") };
    assert_eq!(
        (right.verdict, wrong.verdict),
        (Some(Verdict::Balanced), Some(Verdict::NotBalanced))
    );
    let [difference] = &wrong.differences[..] else { panic!("{wrong:?}") };
    assert_eq!(difference.entry, "fragments_received");
    assert_eq!(difference.recorded, difference.recomputed + 1);
}

#[test]
fn a_file_that_is_missing_in_one_folder_is_no_loss_and_in_all_it_is() {
    let (one, other) = (complete().make(), complete().make());
    std::fs::remove_file(&one.files[0]).expect("deletes");
    for folders in [[&one, &other], [&other, &one]] {
        let report = audited(&folders);
        assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
        assert_eq!((report.elsewhere.len(), report.incomplete.len()), (1, 0));
        let [Problem { file, problem, .. }] = &report.elsewhere[..] else { panic!("{report:?}") };
        assert_eq!((file.as_path(), &**problem), (one.path(), "file 0 of the run is missing"));
    }
    std::fs::remove_file(&other.files[0]).expect("deletes");
    let report = audited(&[&one, &other]);
    assert_eq!((report.verdict, report.frames_missing), (Verdict::Incomplete, 3));
    assert_eq!(report.missing, [MissingFrames { stream: 0, first: 0, last: 2 }]);
}

#[test]
fn files_that_other_folders_have_are_merged_with_their_increments() {
    let recipe =
        || Recipe { files: vec![vec![3, 4], vec![2, 5], vec![1], vec![6, 3]], ..complete() };
    for [of_one, of_other] in [[1, 2], [2, 1], [0, 1], [1, 0]] {
        let (one, other) = (recipe().make(), recipe().make());
        std::fs::remove_file(&one.files[of_one]).expect("deletes");
        std::fs::remove_file(&other.files[of_other]).expect("deletes");
        let source = open(&[&one, &other]);
        assert_eq!(audit(&source).expect("an audit").verdict, Verdict::Balanced);
        let (folder, report) = merged(&source);
        let run = opened(&folder);
        // No frame is added for what is not counted in its place.
        assert_eq!((report.write.frames, report.frames_missing), (7, 0), "{report:?}");
        assert_eq!(recompute(&run), (one.ledger.clone(), Vec::new()));
        assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&one.ledger));
        let report = audit(&run).expect("an audit");
        assert_eq!((report.verdict, report.closing), (Verdict::Balanced, Closing::Ended));
    }
}

#[test]
fn a_folder_without_its_first_file_is_merged_and_says_which_frames_are_missing() {
    for is_emptied in [false, true] {
        let made = complete().make();
        match is_emptied {
            true => std::fs::write(&made.files[0], []).expect("writes"),
            false => std::fs::remove_file(&made.files[0]).expect("deletes"),
        }
        let source = open(&[&made]);
        assert_eq!((source.frames_missing(), verify(&source, |_| ()).frames_missing), (3, 3));
        let (folder, report) = merged(&source);
        assert_eq!((report.frames_missing, report.write.frames), (3, 4));
        assert_eq!(report.missing, [MissingFrames { stream: 0, first: 0, last: 2 }]);
        assert!(report.data_lost);
        assert_eq!(audit(&opened(&folder)).expect("an audit").verdict, Verdict::Incomplete);
    }
    // A file that is opened alone is a part of a run.
    let made = complete().make();
    assert_eq!(Run::open(&made.files[1]).expect("opens").frames_missing(), 0);
}

/// Damages the total in the last file's table of contents.
fn damage_total(made: &Made) {
    let last = made.files.len() - 1;
    let file = std::fs::read(&made.files[last]).expect("reads");
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight"));
    let toc = number(file.len() - 4096 + 32) as usize;
    let entries = (0..8).map(|index| toc + 128 + 64 * index);
    let total = entries.into_iter().find(|&at| number(at) as u32 == 5).expect("a total");
    made.damage(last, toc as u64 + number(total + 16) + 8);
}

#[test]
fn of_a_damaged_total_the_one_of_another_folder_is_taken_or_the_sum_of_the_frames() {
    let (damaged, whole) = (complete().make(), complete().make());
    damage_total(&damaged);
    assert!(open(&[&damaged]).recorded_ledger().is_err(), "it is damaged");
    for folders in [[&damaged, &whole], [&whole, &damaged]] {
        let source = open(&folders);
        assert_eq!(source.ledger_path(), whole.path());
        let report = audit(&source).expect("an audit");
        assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
        let [Problem { file, problem, .. }] = &report.elsewhere[..] else { panic!("{report:?}") };
        assert_eq!(file, damaged.files.last().expect("a file"));
        assert!(problem.contains("the TOC, column 5"), "{problem}");
        let (folder, report) = merged(&source);
        assert!(report.ended && report.replaced.is_empty(), "{report:?}");
        let recorded = opened(&folder).recorded_ledger().expect("reads");
        assert_eq!(recorded.as_ref(), Some(&whole.ledger));
    }
    for folders in [&[&damaged][..], &[&damaged, &damaged]] {
        let source = open(folders);
        let report = audit(&source).expect("an audit");
        assert_eq!((report.verdict, report.closing), (Verdict::DataLost, Closing::Ended));
        assert!(report.recorded.is_none() && report.recomputed == whole.ledger);
        assert!(report.problems[0].problem.contains("the TOC, column 5"), "{report:?}");
        let (folder, report) = merged(&source);
        let [line] = &report.replaced[..] else { panic!("{report:?}") };
        assert!(line.ends_with("; the ledger is the sum of the frames"), "{line}");
        let run = opened(&folder);
        assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&whole.ledger));
        assert_eq!(audit(&run).expect("an audit").verdict, Verdict::Balanced);
    }
    // The table of contents still says that the run ended.
    assert_eq!(repair(damaged.path()).expect("repairs").closed(), 1);
    let report = audited(&[&damaged]);
    assert_eq!((report.verdict, report.closing), (Verdict::Balanced, Closing::Ended));
}

#[test]
fn a_folder_with_the_most_rows_that_lost_a_file_is_compared_by_what_its_frames_count() {
    // Five frames of the other are there, three of which are in the file that is gone.
    let other = lacking(|frame| (frame == 6 || frame == 5).then_some(Entry::FragmentsNotTaken));
    let one = Recipe { files: vec![vec![3], vec![4], vec![2, 5, 1, 6, 3]], ..complete() }.make();
    std::fs::remove_file(&one.files[1]).expect("deletes");
    let report = audited(&[&other, &one]);
    assert_eq!(open(&[&other, &one]).ledger_path(), one.path());
    assert_eq!((report.verdict, report.frames_missing), (Verdict::Balanced, 0), "{report:?}");
    assert_eq!(report.folders[1].verdict, Some(Verdict::Incomplete));
}

#[test]
fn an_unreadable_frame_is_counted_by_the_whole_copy_of_another_folder() {
    let (one, other) = (complete().make(), complete().make());
    let lengths = column(0, &ColumnKind::FragmentLengths);
    one.damage(0, one.offset(0, 1, lengths));
    assert_ne!(audited(&[&one]).verdict, Verdict::Balanced);
    let report = audited(&[&one, &other]);
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    let [copy] = &report.damaged_copies[..] else { panic!("{report:?}") };
    assert_eq!((&copy.file, &copy.whole_file), (&one.files[0], &other.files[0]));
}

#[test]
fn frames_of_several_folders_are_merged_in_order_each_once() {
    let (whole, fast, faulty) = (whole(), fast(), faulty());
    for folders in [[&fast, &faulty], [&faulty, &fast], [&faulty, &whole]] {
        let source = open(&folders);
        let (folder, report) = merged(&source);
        let run = opened(&folder);
        check_events(&run, 0..24);
        assert_eq!((report.write.frames, report.files, report.frames_missing), (7, 5, 0));
        assert_eq!(report.copies_left, if std::ptr::eq(folders[1], &whole) { 5 } else { 3 });
        assert!(report.ended && report.replaced.is_empty() && report.write.left_out.is_empty());
        let sequences = run.frames().iter().map(|frame| frame.summary.info.sequence);
        assert!(sequences.eq(0..7));
        assert!(verify(&run, |_| ()).is_intact() && run.closed());
        assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&whole.ledger));
        assert_eq!(recompute(&run), (whole.ledger.clone(), Vec::new()));
        let report = audit(&run).expect("an audit");
        assert_eq!((report.closing, report.is_balanced()), (Closing::Ended, true), "{report:?}");
    }
}

#[test]
fn columns_are_copied_as_they_are_stored() {
    let skipped = |frame| (frame == 1).then_some(Entry::FragmentsNotTaken);
    let made = Recipe { codec: Codec::Lz4, ..complete() }.make();
    let other = Recipe { codec: Codec::Lz4, skipped, ..complete() }.make();
    let (folder, _) = merged(&open(&[&other, &made]));
    let increments = header(3, 0).schema.column(None, &ColumnKind::LedgerIncrement);
    let stored = |entries: &[ColumnEntry]| {
        let of = |entry: &ColumnEntry| {
            (entry.id, entry.codec, entry.crc32c, entry.stored_bytes, entry.raw_bytes, entry.rows)
        };
        let entries = entries.iter().filter(|entry| Some(entry.id) != increments);
        let mut stored: Vec<_> = entries.map(of).collect();
        stored.sort_by_key(|one| one.0);
        stored
    };
    let of_sources = made.frames.iter().flatten().map(|(_, entries)| stored(entries));
    let path =
        files_in(folder.path()).into_iter().find(|path| path.extension() == Some("catch".as_ref()));
    let bytes = std::fs::read(path.expect("a file")).expect("reads");
    let reader = FileReader::open_with(&bytes[..], &OpenOptions::default()).expect("opens");
    let copied =
        (0..reader.frames().len()).map(|frame| stored(&reader.columns(frame).expect("reads")));
    let copied: Vec<_> = copied.collect();
    assert!(copied.iter().flatten().any(|one| one.1 == Codec::Lz4));
    assert_eq!(copied, of_sources.collect::<Vec<_>>());
}

#[test]
fn an_intact_copy_is_taken_of_a_frame_that_is_there_twice() {
    let (one, other) = (whole(), whole());
    one.damage(0, one.offset(0, 1, column(0, &ColumnKind::FragmentPayload)));
    other.damage(1, other.offset(1, 2, column(2, &ColumnKind::FragmentLengths)));
    for folders in [[&one, &other], [&other, &one]] {
        let (folder, report) = merged(&open(&folders));
        let run = opened(&folder);
        check_events(&run, 0..24);
        assert!(verify(&run, |_| ()).is_intact() && report.write.left_out.is_empty());
        assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&one.ledger));
        // Copies of the folder that was not given first are looked at where the first is damaged.
        let [line] = &report.replaced[..] else { panic!("{report:?}") };
        assert!(line.contains(&folders[0].path().display().to_string()), "{line}");
        assert!(line.contains("was copied"), "{line}");
    }
}

/// Two parts of a target that have the second frame both; the run ends without the second.
fn parts(recipe: fn() -> Recipe) -> [Made; 2] {
    let has: [fn(u64) -> bool; 2] =
        [|one| [0, 1, 4, 5].contains(&one), |one| one % 4 != 0 && one != 5];
    let of = |number: u32| Recipe {
        files: vec![FILES.concat()],
        part: Some((number, has[number as usize])),
        ended: number == 0,
        ..recipe()
    };
    [0, 1].map(|number| of(number).make())
}

#[test]
fn parts_are_merged_in_order_and_an_intact_copy_is_taken() {
    let whole = whole();
    for damaged in [None, Some(ColumnKind::FragmentPayload), Some(ColumnKind::FragmentLengths)] {
        let [one, two] = parts(|| recipe(FILES));
        if let Some(kind) = &damaged {
            one.damage(0, one.offset(0, 1, column(0, kind)));
        }
        let (folder, report) = merged(&open(&[&one, &two]));
        let run = opened(&folder);
        check_events(&run, 0..24);
        assert!(run.frames().iter().map(|frame| frame.summary.info.sequence).eq(0..7));
        assert_eq!((report.write.frames, report.copies_left), (7, 1));
        assert!(report.ended && report.write.left_out.is_empty(), "{report:?}");
        assert_eq!(report.replaced.len(), usize::from(damaged.is_some()), "{report:?}");
        assert!(verify(&run, |_| ()).is_intact() && run.closed());
        assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&whole.ledger));
        assert_eq!(recompute(&run), (whole.ledger.clone(), Vec::new()));
    }
}

#[test]
fn what_one_part_lacks_is_counted_alike_wherever_it_is_said() {
    // It has the frames 1, 2, 3 and 6, and none before them.
    let [_, two] = parts(complete);
    let ranges = [(0, 0), (4, 5)].map(|(first, last)| MissingFrames { stream: 0, first, last });
    let run = Run::open(two.path()).expect("opens");
    let report = audited(&[&two]);
    assert_eq!(
        (run.frames_missing(), report.frames_missing, &*report.missing),
        (3, 3, &ranges[..])
    );
    assert_eq!(verify(&run, |_| ()).frames_missing, 3);
    let (folder, report) = merged(&run);
    assert_eq!((report.frames_missing, &*report.missing), (3, &ranges[..]));
    // The merged run is that of no part: of its beginning the missing first file tells.
    assert!(!verify(&opened(&folder), |_| ()).is_intact());
}

#[test]
fn an_unreadable_frame_of_a_part_is_counted_by_the_whole_copy_of_another() {
    let [one, two] = parts(complete);
    one.damage(0, one.offset(0, 1, column(0, &ColumnKind::FragmentLengths)));
    let report = audited(&[&one, &two]);
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    let [copy] = &report.damaged_copies[..] else { panic!("{report:?}") };
    assert_eq!((&copy.file, &copy.whole_file), (&one.files[0], &two.files[0]));
}

#[test]
fn a_run_has_ended_where_one_part_says_so_and_lost_what_any_part_has_lost() {
    let [one, two] = parts(complete);
    for folders in [[&one, &two], [&two, &one]] {
        let report = audited(&folders);
        assert_eq!((report.verdict, report.closing), (Verdict::Balanced, Closing::Ended));
    }
    // A fragment of the frame 3, which the part that was left out has.
    let [one, two] =
        parts(|| Recipe { missing: |source, event| source == 0 && event == 9, ..complete() });
    let report = audited(&[&one, &two]);
    assert!(report.flagged_lost && report.closing == Closing::Ended, "{report:?}");
}

/// Which fragments of a source can be read; the other events' are not looked at.
fn readable(run: &Run, source: u32) -> Vec<bool> {
    let read = |frame| run.fragments(frame, SourceId(source)).is_ok();
    (0..run.frames().len()).map(read).collect()
}

#[test]
fn a_frame_of_which_no_copy_is_whole_is_merged_with_its_damage() {
    for kind in [ColumnKind::FragmentPayload, ColumnKind::FragmentLengths] {
        let one = complete().make();
        one.damage(0, one.offset(0, 1, column(0, &kind)));
        for folders in [&[&one][..], &[&one, &one]] {
            let source = open(folders);
            let (folder, report) = merged(&source);
            let run = opened(&folder);
            assert_eq!((report.write.frames, report.frames_damaged), (7, 1), "{report:?}");
            let [line] = &report.damaged[..] else { panic!("{report:?}") };
            let named = format!("run-00000.catch: frame 1, {} of source", kind.name());
            assert!(line.contains(&named), "{line}");
            assert!(report.write.left_out.is_empty() && report.data_lost);
            // As good as its source: every other column is there, and this one is named.
            assert_eq!((run.event_count(), run.lost_data()), (24, true));
            assert_eq!(readable(&run, 0), [true, false, true, true, true, true, true]);
            assert_eq!(readable(&run, 1), [true; 7]);
            let problems = verify(&run, |_| ()).problems;
            let here = (Some(1), Some(kind.name()));
            assert!(!problems.is_empty(), "the damage is found");
            assert!(problems.iter().all(|one| (one.frame, one.column.as_deref()) == here));
            let recorded = |run: &Run| run.recorded_ledger().expect("reads");
            assert_eq!(recorded(&run), recorded(&source));
            assert_eq!(recompute(&run).0, recompute(&source).0);
            let [merged, before] = [&run, &source].map(|run| audit(run).expect("an audit"));
            // An audit reads no payload: it goes by what the file says of itself.
            let verdict = match kind {
                ColumnKind::FragmentPayload => Verdict::DataLost,
                _ => before.verdict,
            };
            assert_eq!((merged.verdict, merged.closing), (verdict, Closing::Ended));
        }
    }
}

#[test]
fn damage_within_a_large_column_is_found_by_its_blocks_in_the_merged_run_too() {
    let made = Recipe { files: vec![vec![3, 20_000], vec![20_000]], ..complete() }.make();
    let payload = column(1, &ColumnKind::FragmentPayload);
    let at = [(0, 1), (1, 0)].map(|(file, frame)| {
        let mut entries = made.frames[file][frame].1.iter();
        let entry = entries.find(|entry| entry.id == payload).expect("the column");
        let begin = made.offset(file, frame, payload);
        made.damage(file, begin + 70_000);
        (file, begin + entry.stored_bytes.next_multiple_of(64))
    });
    // Of the second one, the table is damaged, too.
    made.damage(at[1].0, at[1].1);
    let source = Run::open(made.path()).expect("opens");
    let (folder, report) = merged(&source);
    assert_eq!((report.frames_damaged, report.write.frames), (2, 3), "{report:?}");
    for run in [&source, &opened(&folder)] {
        let part = |frame, row| run.fragment_part(frame, SourceId(1), row, 0..100);
        // The first row is before the damaged block, which only a table of blocks tells.
        assert!(part(1, 0).is_ok() && part(2, 0).is_err(), "the first rows");
        assert!(part(1, 5_000).is_err() && part(2, 5_000).is_err(), "within the block");
    }
}

#[test]
fn columns_that_are_whole_in_different_copies_are_put_together() {
    let (one, other) = (whole(), whole());
    one.damage(0, one.offset(0, 1, column(0, &ColumnKind::FragmentPayload)));
    other.damage(0, other.offset(0, 1, column(2, &ColumnKind::FragmentPayload)));
    for folders in [[&one, &other], [&other, &one]] {
        let (folder, report) = merged(&open(&folders));
        let run = opened(&folder);
        check_events(&run, 0..24);
        assert!(verify(&run, |_| ()).is_intact());
        assert_eq!((report.frames_damaged, report.damaged.len()), (0, 0), "{report:?}");
        let [line] = &report.replaced[..] else { panic!("{report:?}") };
        assert!(line.contains("frame 1 of ") && line.contains("1 column copied from"), "{line}");
        assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&one.ledger));
        assert!(audit(&run).expect("an audit").is_balanced());
    }
}

#[test]
fn increments_that_are_damaged_stay_so() {
    let increments = header(3, 0).schema.column(None, &ColumnKind::LedgerIncrement);
    let one = recipe(FILES).make();
    one.damage(0, one.offset(0, 1, increments.expect("a column")));
    let source = open(&[&one]);
    let (folder, report) = merged(&source);
    let run = opened(&folder);
    check_events(&run, 0..24);
    assert_eq!((report.frames_damaged, report.write.frames), (1, 7), "{report:?}");
    assert!(report.damaged[0].contains("frame 1, ledger_increment"), "{report:?}");
    assert_eq!(recompute(&run).0, recompute(&source).0);
    assert!(!verify(&run, |_| ()).is_intact());
    let [merged, before] = [&run, &source].map(|run| audit(run).expect("an audit").verdict);
    assert_eq!(merged, before);
}

#[test]
fn a_frame_of_which_nothing_can_be_had_is_counted_as_lost() {
    // The payload of the first source in the second frame.
    let entry = |entry: ColumnEntry| match (entry.raw_bytes, entry.dtype) {
        (86, Dtype::U8) => ColumnEntry { dtype: Dtype::U64, ..entry },
        _ => entry,
    };
    let one = Recipe { entry, ..complete() }.make();
    let recorded = |run: &Run| run.recorded_ledger().expect("reads").expect("a total").total();
    let source = open(&[&one]);
    let (folder, report) = merged(&source);
    let run = opened(&folder);
    let [line] = &report.write.left_out[..] else { panic!("{report:?}") };
    assert!(line.contains("so the frame with the number 1 as a whole"), "{line}");
    assert!(report.data_lost && verify(&run, |_| ()).is_intact());
    let (before, after) = (recorded(&source), recorded(&run));
    // Four events of three sources.
    assert_eq!(after[Entry::FragmentsDiscardedDisk], 12);
    assert_eq!(after[Entry::FragmentsRecorded] + 12, before[Entry::FragmentsRecorded]);
    let report = audit(&run).expect("an audit");
    assert_eq!((report.verdict, report.events), (Verdict::DataLost, 20), "{report:?}");
    assert_eq!(run.find(crate::common::key(3)).expect("reads"), None);
}

#[test]
fn what_is_missing_in_all_folders_is_named_and_its_run_is_not_complete() {
    let (one, other) = (complete().make(), complete().make());
    for made in [&one, &other] {
        std::fs::remove_file(&made.files[0]).expect("deletes");
    }
    let (folder, report) = merged(&open(&[&one, &other]));
    assert_eq!((report.frames_missing, report.write.frames), (3, 4));
    assert_eq!(report.missing, [MissingFrames { stream: 0, first: 0, last: 2 }]);
    assert!(report.data_lost && report.ended);
    let run = opened(&folder);
    assert!(run.lost_data());
    assert_eq!(audit(&run).expect("an audit").verdict, Verdict::Incomplete);
    // The end is missing, too.
    let (one, other) = (complete().make(), complete().make());
    for made in [&one, &other] {
        std::fs::remove_file(&made.files[1]).expect("deletes");
    }
    let (folder, report) = merged(&open(&[&one, &other]));
    assert!(!report.ended);
    assert_eq!(audit(&opened(&folder)).expect("an audit").closing, Closing::Killed);
}

#[test]
fn a_file_without_a_table_of_contents_is_merged_as_far_as_it_goes() {
    let unclosed = Recipe { unclosed: true, ..recipe(&[&[3, 4, 2], &[5, 1, 6]]) }.make();
    let fast = fast();
    for folders in [&[&unclosed][..], &[&unclosed, &fast], &[&fast, &unclosed]] {
        let source = open(folders);
        let (folder, report) = merged(&source);
        let run = opened(&folder);
        assert!(run.closed() && !run.ended() && !report.ended);
        let end = source.end_elsewhere();
        assert_eq!(end, (folders.len() > 1).then(|| &*fast.files[1]));
        check_events(&run, 0..if folders.len() > 1 { 24 } else { 21 });
        assert_eq!(recompute(&run), recompute(&source));
        assert!(verify(&run, |_| ()).is_intact());
    }
}

#[test]
fn a_run_that_is_being_recorded_is_not_merged() {
    let made = Recipe { unclosed: true, ..complete() }.make();
    let recorder = std::fs::File::open(&made.files[1]).expect("opens");
    recorder.try_lock().expect("nobody else has it");
    let folder = tempfile::tempdir().expect("a folder");
    let go_on = |_| ControlFlow::Continue(());
    let source = Run::open(made.path()).expect("opens");
    let error = merge(&source, folder.path(), "merged", &WriteOptions::small(), go_on);
    let error = error.expect_err("is refused");
    assert!(matches!(&error, StorageError::BeingRecorded { path } if path == &made.files[1]));
    assert!(files_in(folder.path()).is_empty());
}

#[test]
fn streams_of_nodes_that_took_turns_are_merged_by_their_keys() {
    let of_stream =
        |info: FrameInfo| FrameInfo { origin: Origin { stream: 1, ..Origin::SINGLE }, ..info };
    let recipe = || Recipe { missing: |_, _| false, ..recipe(&[&[3, 4, 2, 5, 1, 6, 3]]) };
    let (one, other) = (recipe().make(), Recipe { info: of_stream, ..recipe() }.make());
    // Each has the frames that the other has not.
    for (made, rest) in [(&one, 0), (&other, 1)] {
        let mut number = 0;
        change_frames(&made.files[0], |frames| {
            frames.retain_mut(|frame| {
                number += 1;
                frame[48..56].copy_from_slice(&((number - 1) / 2u64).to_le_bytes());
                (number - 1) % 2 == rest
            });
        });
    }
    let source = open(&[&one, &other]);
    assert_eq!((source.event_count(), source.frames_missing()), (24, 0));
    let report = audit(&source).expect("an audit");
    let streams: Vec<_> =
        report.folders.iter().map(|one| (one.stream, one.frames_lacking)).collect();
    assert_eq!((streams, report.frames_repeated), (vec![(0, 0), (1, 0)], 0));
    let (folder, report) = merged(&source);
    assert_eq!((report.write.frames, report.copies_left, report.frames_missing), (7, 0, 0));
    let run = opened(&folder);
    let keys = |run: &Run| {
        let frames = 0..run.frames().len();
        let keys = frames.flat_map(|frame| run.events(frame).expect("reads").keys().to_vec());
        keys.collect::<Vec<u64>>()
    };
    assert_eq!(keys(&run), keys(&source));
    assert!(keys(&run).is_sorted() && verify(&run, |_| ()).is_intact());
    assert_eq!(recompute(&run), recompute(&source));
}

#[test]
fn repeated_frames_of_one_folder_are_merged_once() {
    let made = Recipe { repeats: true, ..complete() }.make();
    let source = Run::open(made.path()).expect("opens");
    let (folder, report) = merged(&source);
    assert_eq!((report.write.frames, report.copies_left), (7, 1));
    let run = opened(&folder);
    assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&made.ledger));
    assert!(audit(&run).expect("an audit").is_balanced());
    // Where each file has numbers of its own, they stay so.
    let made = Recipe { numbering: Numbering::File, ..complete() }.make();
    let (folder, report) = merged(&Run::open(made.path()).expect("opens"));
    assert_eq!((report.write.frames, opened(&folder).event_count()), (7, 24));
}

#[test]
fn channels_of_several_folders_are_merged() {
    let (made, copies) = channels_apart();
    let source = Run::open_folders(&copies, RunOptions::default()).expect("opens");
    let (folder, report) = merged(&source);
    let (run, whole) = (opened(&folder), Run::open(made.path()).expect("opens"));
    assert_eq!((report.frames_missing, run.channel_frames().len()), (0, 32));
    assert!(verify(&run, |_| ()).is_intact());
    for (name, _) in CHANNELS {
        let [read, expected] = [&run, &whole].map(|run| run.channel(name).expect("is there"));
        let [read, expected] = [read, expected].map(|one| one.read(&Select::All).expect("reads"));
        assert_eq!(read, expected, "{name}");
    }
}

#[test]
fn nothing_that_is_there_is_written_over() {
    let made = whole();
    let source = Run::open(made.path()).expect("opens");
    let go_on = |_| ControlFlow::Continue(());
    let before = std::fs::read(&made.files[0]).expect("reads");
    let error = merge(&source, made.path(), "merged", &WriteOptions::small(), go_on);
    error.expect_err("the names are there");
    assert_eq!(std::fs::read(&made.files[0]).expect("reads"), before);
    assert_eq!(names(made.path()), ["run-00000.catch", "run-00001.catch"]);
    // A merge that is stopped leaves no file under its name.
    let folder = tempfile::tempdir().expect("a folder");
    let stop = |_| ControlFlow::Break(());
    let error = merge(&source, folder.path(), "merged", &WriteOptions::small(), stop);
    assert!(matches!(error, Err(StorageError::Stopped)));
    assert!(names(folder.path()).iter().all(|name| !name.contains("catch")));
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = files_in(folder)
        .into_iter()
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}
