//! Several folders of one run, read as one.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use catchment_model::{Entry, SourceId};
use catchment_storage::{
    FileProblem, Follow, ReframeOptions, Run, RunOptions, Select, StorageError, audit, recompute,
    reframe, verify,
};
use serde_json::json;

use crate::common::{Made, Recipe, change_frames, change_header, fragment, key, time_ns};
use crate::signal::{CHANNELS, Signal};

/// A run of seven frames, and of 24 events, in that many frames per file.
pub fn recipe(files: &[&[u64]]) -> Recipe {
    let missing = |source, event| source == 1 && event % 3 == 0 || source == 2 && event < 5;
    let files = files.iter().map(|frames| frames.to_vec()).collect();
    Recipe { files, missing, ..Recipe::default() }
}

pub fn whole() -> Made {
    recipe(&[&[3, 4, 2], &[5, 1, 6, 3]]).make()
}

/// Lacks the frames 1 and 4.
pub fn fast() -> Made {
    let skipped = |frame| (frame % 3 == 1).then_some(Entry::FragmentsNotTaken);
    Recipe { skipped, ..recipe(&[&[3, 4, 2], &[5, 1, 6, 3]]) }.make()
}

/// Lacks the frames 2 and 5, and has others in each file.
pub fn faulty() -> Made {
    let skipped = |frame| (frame % 3 == 2).then_some(Entry::FragmentsDiscardedDisk);
    Recipe { skipped, ..recipe(&[&[3], &[4, 2, 5, 1, 6], &[3]]) }.make()
}

pub fn open(folders: &[&Made]) -> Run {
    let paths: Vec<&Path> = folders.iter().map(|made| made.path()).collect();
    Run::open_folders(&paths, RunOptions::default()).expect("opens")
}

fn refusal(paths: &[&Path]) -> StorageError {
    Run::open_folders(paths, RunOptions::default()).expect_err("is refused")
}

/// Checks that a run has these events, each once, with their fragments.
pub fn check_events(run: &Run, events: impl Iterator<Item = u64>) {
    let missing = recipe(&[]).missing;
    let mut expected = events.peekable();
    for frame in 0..run.frames().len() {
        let read = run.events(frame).expect("reads");
        for (row, &row_key) in read.keys().iter().enumerate() {
            let event = expected.next().expect("no more events");
            assert_eq!((row_key, read.times_ns()[row]), (key(event), time_ns(event)));
            assert_eq!(run.find(row_key).expect("reads"), Some((frame, row)));
            for source in 0..3 {
                let column = run.fragments(frame, SourceId(source)).expect("reads");
                let fragment = (!missing(source, event)).then(|| fragment(source, event));
                assert_eq!(column.fragment(row), fragment.as_deref());
            }
        }
    }
    assert_eq!(expected.next(), None);
}

/// The folder from which each frame is read.
fn folders_of(run: &Run) -> Vec<usize> {
    let folders: Vec<usize> = run.files().map(|file| file.folder).collect();
    run.frames().iter().map(|frame| folders[frame.file]).collect()
}

#[test]
fn every_frame_is_read_once_from_the_first_folder_that_has_it() {
    let (whole, fast, faulty) = (whole(), fast(), faulty());
    for (folders, from) in
        [([&fast, &faulty], [0, 1, 0, 0, 1, 0, 0]), ([&faulty, &fast], [0, 0, 1, 0, 0, 1, 0])]
    {
        let run = open(&folders);
        assert_eq!(run.paths(), folders.map(|made| made.path().to_owned()));
        assert_eq!(run.path(), folders[0].path());
        check_events(&run, 0..24);
        assert_eq!(folders_of(&run), from);
        assert_eq!((run.event_count(), run.frames_missing()), (24, 0));
        assert!(run.ended() && run.closed() && run.at_rest().expect("lists"));
        assert!(run.problems().is_empty() && verify(&run, |_| ()).is_intact());
        let counts = run.event_counts().expect("reads");
        assert_eq!((counts.events, counts.incomplete), (24, 8));
        let files: Vec<usize> = run.files().map(|file| file.frames).collect();
        let mut there = 0;
        for (file, frames) in files.into_iter().enumerate() {
            for index in 0..frames {
                let Some(at) = run.frame_at(file, index) else { continue };
                assert_eq!((run.frames()[at].file, run.frames()[at].index), (file, index));
                there += 1;
            }
        }
        assert_eq!(there, 7);
    }
    check_events(&open(&[&whole]), 0..24);
}

#[test]
fn a_frame_that_one_folder_has_is_recorded_in_the_ledger_of_all() {
    let (whole, fast, faulty) = (whole(), fast(), faulty());
    for (folders, of) in [
        // 19 and 16 rows.
        ([&fast, &faulty], &fast),
        ([&faulty, &fast], &fast),
        ([&faulty, &whole], &whole),
    ] {
        let run = open(&folders);
        assert_eq!(run.ledger_path(), of.path());
        let recorded = run.recorded_ledger().expect("reads").expect("a total");
        assert_eq!(recorded, whole.ledger);
        assert_eq!(recompute(&run), (whole.ledger.clone(), Vec::new()));
        assert!(recorded.balance().holds());
        assert_eq!(run.lost_data(), whole.ledger.balance().lost_data());
    }
}

#[test]
fn what_no_folder_has_stays_as_the_ledger_has_it() {
    let lacks = |skipped| Recipe { skipped, ..recipe(&[&[3, 4, 2], &[5, 1, 6, 3]]) }.make();
    let one = lacks(|frame| (frame == 1).then_some(Entry::FragmentsNotTaken));
    let other = lacks(|frame| (frame == 1 || frame == 2).then_some(Entry::FragmentsDiscardedDisk));
    let run = open(&[&other, &one]);
    assert_eq!(run.ledger_path(), one.path());
    assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&one.ledger));
    check_events(&run, (0..3).chain(7..24));
    // The one that lacks more is alone in saying that a disk failed.
    let run = open(&[&other]);
    assert!(run.lost_data());
}

#[test]
fn a_disk_that_failed_is_no_loss_if_another_folder_has_its_frames() {
    let all = |files: &[&[u64]]| Recipe { missing: |_, _| false, ..recipe(files) };
    let faulty = |skipped| Recipe { skipped, ..all(&[&[3, 4, 2], &[5, 1, 6, 3]]) }.make();
    let one = faulty(|frame| (frame == 4).then_some(Entry::FragmentsDiscardedDisk));
    let other = faulty(|frame| (frame == 0).then_some(Entry::FragmentsDiscardedDisk));
    assert!(open(&[&one]).lost_data() && open(&[&other]).lost_data());
    let run = open(&[&one, &other]);
    assert!(!run.lost_data());
    let ledger = run.recorded_ledger().expect("reads").expect("a total");
    assert_eq!(ledger, all(&[&[3, 4, 2], &[5, 1, 6, 3]]).make().ledger);
}

#[test]
fn frames_of_a_folder_without_an_end_are_counted_with_what_another_has() {
    // Frame 6 of the longer folder is gone with its TOC.
    let fast = fast();
    let unclosed = Recipe { unclosed: true, ..recipe(&[&[3, 4, 2], &[5, 1, 6]]) }.make();
    let run = open(&[&unclosed, &fast]);
    assert_eq!(run.ledger_path(), unclosed.path());
    check_events(&run, 0..24);
    assert!(!run.ended() && run.recorded_ledger().expect("reads").is_none());
    let (ledger, problems) = recompute(&run);
    assert!(problems.is_empty() && ledger.balance().holds());
    let whole = whole().ledger;
    let recorded = |ledger: &catchment_model::Ledger| ledger.total()[Entry::FragmentsRecorded];
    assert_eq!(recorded(&ledger), recorded(&whole));
}

/// A copy of a run's files.
fn copy_of(made: &Made) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for file in &made.files {
        let name = file.file_name().expect("a name");
        std::fs::copy(file, copy.path().join(name)).expect("copies");
    }
    copy
}

#[test]
fn a_copy_of_a_folder_adds_nothing_and_has_what_the_folder_lost() {
    let made = whole();
    let copy = copy_of(&made);
    let paths = [made.path(), copy.path()];
    let open = || Run::open_folders(&paths, RunOptions::default()).expect("opens");
    for minor in [3, 2] {
        // Before 1.3, numbers do not identify frames.
        for path in made.files.iter().chain(&files_in(copy.path())) {
            change_header(path, minor, |_| ());
        }
        check_events(&open(), 0..24);
        assert_eq!(open().recorded_ledger().expect("reads").as_ref(), Some(&made.ledger));
        let kept = std::fs::read(&made.files[0]).expect("reads");
        std::fs::remove_file(&made.files[0]).expect("deletes");
        let run = open();
        check_events(&run, 0..24);
        if minor == 3 {
            let [FileProblem::Missing { index: 0, folder: Some(folder), .. }] = run.problems()
            else {
                panic!("{:?}", run.problems());
            };
            assert_eq!((&**folder, run.damage().len()), (made.path(), 1));
            assert!(run.damage()[0].contains(&format!("in {}", made.path().display())));
            assert_eq!(run.ledger_path(), copy.path());
        }
        assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&made.ledger));
        std::fs::write(&made.files[0], kept).expect("writes");
    }
    // Given twice, it is the same.
    let twice = [made.path(), made.path()];
    check_events(&Run::open_folders(&twice, RunOptions::default()).expect("opens"), 0..24);
}

pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().expect("lists");
    entries.map(|entry| entry.expect("lists").path()).collect()
}

#[test]
fn folders_that_are_not_of_one_run_are_refused() {
    let (made, other) = (whole(), whole());
    for path in &other.files {
        change_header(path, 3, |metadata| metadata["run"] = json!("07".repeat(16)));
    }
    let error = refusal(&[made.path(), other.path()]);
    let StorageError::ForeignFile { path, first, .. } = &error else { panic!("{error}") };
    assert_eq!((path, first), (&other.files[0], &made.files[0]));
    let other = Recipe { sources: 2, ..Recipe::default() }.make();
    let error = refusal(&[made.path(), other.path()]);
    assert!(matches!(error, StorageError::SchemaDiffers { .. }), "{error}");
    let empty = tempfile::tempdir().expect("a folder");
    for paths in [[made.path(), empty.path()], [empty.path(), made.path()]] {
        let error = refusal(&paths);
        assert!(matches!(&error, StorageError::NoFiles { path, .. } if path == empty.path()));
    }
    let none = empty.path().join("none");
    let error = refusal(&[made.path(), &none]);
    let (path, system) = error.system().expect("the system's");
    assert_eq!((path, system.kind()), (&*none, std::io::ErrorKind::NotFound));
    // Frames before 1.3 have no identity: only copies of files are known as the same.
    let (old, fast) = (whole(), fast());
    for path in old.files.iter().chain(&fast.files) {
        change_header(path, 2, |_| ());
    }
    let error = refusal(&[old.path(), fast.path()]);
    assert!(matches!(error, StorageError::IndexTwice { index: 0, .. }), "{error}");
}

#[test]
fn damage_in_one_folder_is_named_and_the_other_order_reads_around_it() {
    let (one, other) = (whole(), whole());
    let payload = 6;
    one.damage(0, one.offset(0, 1, payload));
    let run = open(&[&one, &other]);
    let error = run.fragments(1, SourceId(0)).expect_err("is damaged");
    let StorageError::Column { path, frame: 1, .. } = &error else { panic!("{error}") };
    assert_eq!(path, &one.files[0]);
    let report = verify(&run, |_| ());
    let [problem] = &report.problems[..] else { panic!("{report:?}") };
    assert_eq!(problem.file, one.files[0]);
    let copy = format!("frame 1 of {} is a whole copy", other.files[0].display());
    assert!(problem.problem.contains(&copy), "{problem:?}");
    assert_eq!((report.files, report.frames), (4, 14));
    check_events(&open(&[&other, &one]), 0..24);
}

#[test]
fn a_frame_whose_header_is_gone_is_read_from_the_other_folder() {
    let one = Recipe { unclosed: true, ..recipe(&[&[3, 4, 2, 5, 1, 6, 3]]) }.make();
    one.damage(0, one.frames[0][2].0.offset);
    assert_eq!(open(&[&one]).frames_missing(), 1);
    let run = open(&[&one, &whole()]);
    check_events(&run, 0..24);
    assert_eq!((run.frames_missing(), folders_of(&run)[2]), (0, 1));
    assert_eq!(run.damage().len(), 1);
}

#[test]
fn frames_of_one_number_that_differ_are_read_once_and_named() {
    let (one, other) = (whole(), whole());
    change_frames(&other.files[0], |frames| {
        // One number of the range of keys.
        frames[1][80] ^= 1;
    });
    let run = open(&[&one, &other]);
    assert_eq!(run.frames().len(), 7);
    let report = verify(&run, |_| ());
    let differs = |problem: &&catchment_storage::Problem| {
        problem.file == other.files[0] && problem.problem.contains("has the same number 1")
    };
    assert_eq!(report.problems.iter().filter(differs).count(), 1, "{report:?}");
}

#[test]
fn a_copy_in_other_frames_is_refused() {
    let one = whole();
    let run = Run::open(one.path()).expect("opens");
    let folder = tempfile::tempdir().expect("a folder");
    let options = ReframeOptions { frame_bytes: Some(1), ..ReframeOptions::default() };
    let go_on = |_| std::ops::ControlFlow::Continue(());
    reframe(&run, folder.path(), "anew", &options, go_on).expect("writes");
    let error = refusal(&[one.path(), folder.path()]);
    assert!(matches!(error, StorageError::OtherFrame { .. }), "{error}");
}

#[test]
fn what_is_of_one_folder_is_refused_for_several() {
    let (one, other) = (fast(), faulty());
    let run = || open(&[&one, &other]);
    let is_refused =
        |error: &StorageError| matches!(error, StorageError::OneFolder { folders: 2, .. });
    let error = Follow::new(run(), Duration::ZERO).expect_err("is refused");
    assert!(is_refused(&error), "{error}");
    assert_eq!(error.to_string(), "following is of one folder of a run: 2 folders were given");
    let target = tempfile::tempdir().expect("a folder");
    let go_on = |_| ControlFlow::Continue(());
    let options = ReframeOptions::default();
    let error = reframe(&run(), target.path(), "again", &options, go_on).expect_err("is refused");
    assert!(is_refused(&error), "{error}");
}

#[test]
fn folders_that_grow_are_refreshed_and_each_frame_stays_once() {
    let all: &[&[u64]] = &[&[3, 4, 2, 5, 1, 6, 3]];
    let (one, other) = (recipe(all).make(), recipe(all).make());
    let grow = |made: &Made, whole: &[u8], frames: usize| {
        let mut bytes = whole.to_vec();
        if let Some((next, _)) = made.frames[0].get(frames) {
            bytes.truncate(next.offset as usize);
            bytes.resize(bytes.len() + (1 << 20), 0);
        }
        std::fs::write(&made.files[0], bytes).expect("writes");
    };
    let [whole_one, whole_other] =
        [&one, &other].map(|made| std::fs::read(&made.files[0]).expect("reads"));
    grow(&one, &whole_one, 2);
    grow(&other, &whole_other, 1);
    let mut run = open(&[&one, &other]);
    check_events(&run, 0..7);
    grow(&other, &whole_other, 4);
    assert_eq!(run.refresh().expect("reads").frames, 3);
    check_events(&run, 0..14);
    assert_eq!(folders_of(&run), [0, 0, 1, 1]);
    grow(&one, &whole_one, 3);
    assert_eq!(run.refresh().expect("reads").frames, 1);
    check_events(&run, 0..14);
    assert_eq!(folders_of(&run), [0, 0, 0, 1]);
    grow(&one, &whole_one, 7);
    grow(&other, &whole_other, 7);
    assert_eq!(run.refresh().expect("reads").closed, 2);
    check_events(&run, 0..24);
    // A new file of one folder moves those of the next.
    let more = one.path().join("run-00001.catch");
    std::fs::copy(&one.files[0], &more).expect("copies");
    assert_eq!(run.refresh().expect("reads").files, 0, "it is a copy");
    std::fs::remove_file(more).expect("deletes");
    check_events(&run, 0..24);
}

#[test]
fn a_folder_of_a_target_that_has_no_file_yet_is_read_once_it_has_one() {
    let made = recipe(&[&[3, 4, 2], &[5, 1, 6, 3]]).make();
    for file in &made.files {
        change_header(file, 3, |header| header["target"] = json!("disks"));
    }
    let (aside, other) = (made.path().join("aside"), tempfile::tempdir().expect("a folder"));
    std::fs::rename(&made.files[1], &aside).expect("renames");
    let paths = [other.path(), made.path()];
    let mut run = Run::open_folders(&paths, RunOptions::default()).expect("opens");
    check_events(&run, 0..9);
    std::fs::copy(aside, other.path().join("run-00001.catch")).expect("copies");
    assert_eq!(run.refresh().expect("reads").files, 1);
    check_events(&run, 0..24);
    assert_eq!(run.paths(), paths);
}

/// A run of channels, and two folders each of which lacks other frames of it.
pub fn channels_apart() -> (crate::signal::Made, [tempfile::TempDir; 2]) {
    let made = Signal { gap: true, ..Signal::default() }.write();
    let copies = [(0, 3), (1, 3)].map(|(first, step)| {
        let copy = tempfile::tempdir().expect("a folder");
        let mut frame = 0;
        for path in sorted(files_in(made.path())) {
            let to = copy.path().join(path.file_name().expect("a name"));
            std::fs::copy(&path, &to).expect("copies");
            if to.extension().is_some_and(|extension| extension == "catch") {
                change_frames(&to, |frames| {
                    frames.retain(|_| {
                        frame += 1;
                        (frame - 1) % step != first
                    });
                });
            }
        }
        copy
    });
    (made, copies)
}

#[test]
fn channels_are_read_across_folders() {
    let (made, copies) = channels_apart();
    let whole = Run::open(made.path()).expect("opens");
    assert!(copies.iter().all(|copy| Run::open(copy.path()).expect("opens").frames_missing() > 0));
    let run = Run::open_folders(&copies, RunOptions::default()).expect("opens");
    assert_eq!((run.frames_missing(), run.channel_frames().len()), (0, 32));
    let half = whole.channel_frames()[11].summary.info.time_first_ns + 1_000_000_000;
    for (name, _) in CHANNELS {
        let [read, expected] = [&run, &whole].map(|run| run.channel(name).expect("is there"));
        for select in [Select::All, Select::TimeNs(0..half), Select::TimeNs(half..u64::MAX)] {
            let read = read.read(&select).expect("reads");
            assert_eq!(read, expected.read(&select).expect("reads"), "{name} {select:?}");
        }
        assert_eq!(read.time_range().expect("reads"), expected.time_range().expect("reads"));
    }
    let all: Vec<usize> = (0..CHANNELS.len()).collect();
    let [read, expected] =
        [&run, &whole].map(|run| run.read_many(&all, &Select::All).expect("reads"));
    assert_eq!(read, expected);
}

pub fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths
}

/// Makes a run's folder that of one of two storage nodes to which a target's frames were dealt;
/// `first_items`: how many items it had before each file.
fn deal(made: &Made, number: u32, first_items: [u64; 2]) {
    for (path, first_item) in made.files.iter().zip(first_items) {
        change_header(path, 3, |metadata| {
            metadata["target"] = json!(format!("far:{number}"));
            metadata["part"] = json!({ "number": number, "count": 2, "first_item": first_item });
        });
    }
}

#[test]
fn parts_of_a_target_are_one_place_in_which_copies_count_once() {
    let (one, two) = (whole(), whole());
    let expected = whole().ledger;
    let lost = expected.balance().lost_data();
    deal(&one, 0, [0, 3]);
    deal(&two, 1, [0, 3]);
    // Both have all frames, but each alone says that the other's may be missing.
    for (made, other) in [(&one, 1), (&two, 0)] {
        let run = open(&[made]);
        let [FileProblem::MissingPart { target, number, count: 2 }] = run.problems() else {
            panic!("{:?}", run.problems())
        };
        assert_eq!((&**target, *number, run.lost_data()), ("far", other, true));
    }
    // A folder without files may be that of a node that got none.
    let empty = tempfile::tempdir().expect("a folder");
    let with_empty = Run::open_folders(&[one.path(), empty.path()], RunOptions::default());
    assert!(with_empty.expect("opens").problems().is_empty());
    for folders in [[&one, &two], [&two, &one]] {
        let run = open(&folders);
        check_events(&run, 0..24);
        assert!(run.problems().is_empty(), "{:?}", run.problems());
        assert_eq!((run.lost_data(), run.ended(), run.closed()), (lost, true, true));
        assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&expected));
        assert_eq!(recompute(&run), (expected.clone(), Vec::new()));
        assert!(verify(&run, |_| {}).is_intact());
    }
    // One that was left out at the end was not told of it, and is not closed.
    let cut = std::fs::OpenOptions::new().write(true).open(&two.files[1]).expect("opens");
    let keep = two.frames[1].last().expect("a frame").0.offset;
    cut.set_len(keep).expect("cuts");
    let run = open(&[&one, &two]);
    check_events(&run, 0..24);
    assert!(run.ended() && !run.closed() && run.frames_missing() == 0);
    assert_eq!(recompute(&run).0, expected);
}

#[test]
fn a_frame_that_one_part_has_twice_counts_once() {
    let expected = whole().ledger;
    // As an item that was sent again, which the node's ledger has once, and as two items: left out
    // in between, the node got the frame anew when it was back.
    for (counts_repeated, before) in [(false, 2), (true, 3)] {
        let twice = |number| {
            let parts = recipe(&[&[3, 4, 2], &[5, 1, 6, 3]]);
            let made = Recipe { repeats: true, counts_repeated, ..parts }.make();
            assert_eq!(made.ledger == expected, !counts_repeated);
            deal(&made, number, [0, before]);
            made
        };
        let (first, second, once) = (twice(0), twice(1), whole());
        deal(&once, 1, [0, 3]);
        for folders in [&[&first][..], &[&first, &once], &[&once, &first], &[&first, &second]] {
            let run = open(folders);
            check_events(&run, 0..24);
            assert_eq!(run.recorded_ledger().expect("reads").as_ref(), Some(&expected));
            assert_eq!(recompute(&run).0, expected);
            let report = audit(&run).expect("audits");
            assert!(report.differences.is_empty(), "{:?}", report.differences);
        }
    }
}

#[test]
fn of_a_frame_that_two_parts_have_a_damaged_item_costs_nothing() {
    let (one, two) = (whole(), whole());
    deal(&one, 0, [0, 3]);
    deal(&two, 1, [0, 3]);
    for made in [&one, &two] {
        for entry in &made.frames[0][1].1 {
            let offset = made.offset(0, 1, entry.id);
            made.damage(0, offset);
            for folders in [[&one, &two], [&two, &one]] {
                let run = open(&folders);
                check_events(&run, 0..24);
                let report = audit(&run).expect("audits");
                assert!(report.problems.is_empty(), "{entry:?}: {report:?}");
                let (differences, open) = (&report.differences, &report.open);
                assert!(differences.is_empty() && open.is_empty(), "{entry:?}: {report:?}");
                assert!(report.is_balanced(), "{entry:?}: {report:?}");
                let damaged: Vec<_> = run.damaged_copies().iter().map(|one| &one.file).collect();
                // Part 0 is first, in whatever order the folders are given.
                assert_eq!(damaged, [&one.files[0]][..usize::from(std::ptr::eq(made, &one))]);
            }
            // As it was.
            made.damage(0, offset);
        }
    }
}

#[test]
fn of_a_frame_in_a_file_that_was_not_closed_the_whole_copy_of_another_folder_is_read() {
    let torn = Recipe { unclosed: true, ..recipe(&[&[3, 4, 2, 5, 1, 6, 3]]) }.make();
    let (payload, whole) = (6, whole());
    for frame in [1, 5] {
        torn.damage(0, torn.offset(0, frame, payload));
    }
    let run = open(&[&torn, &whole]);
    check_events(&run, 0..24);
    assert_eq!(folders_of(&run), [0, 1, 0, 0, 0, 1, 0]);
    let mut damaged: Vec<_> = run.damaged_copies().iter().map(|one| one.frame).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, [1, 5]);
    assert_eq!(audit(&run).expect("audits").damaged_copies.len(), 2);
    // What no folder has whole is an error, as in one folder.
    whole.damage(0, whole.offset(0, 1, payload));
    assert!(open(&[&torn, &whole]).fragments(1, SourceId(0)).is_err());
}
