//! Incomplete runs: missing files, files that lost their TOC, trailer or header.

use std::path::Path;

use crate::common;
use catchment_frame::{FILE_LIST_NAME, FileListLine};
use catchment_model::RunId;
use catchment_storage::{
    Closing, Extent, FileProblem, Outcome, Run, StorageError, Verdict, audit, repair, verify,
};
use common::{Made, Recipe};

/// Three files of two frames each.
fn three() -> Recipe {
    Recipe { files: vec![vec![2, 2], vec![2, 2], vec![2, 2]], ..Recipe::default() }
}

/// Writes the list as the recorder of these files does.
fn list(made: &Made, begun: u32, closed: u32, ended: bool) {
    let mut text = FileListLine::Run(RunId([9; 16])).encode();
    for index in 0..begun {
        let file_id = 0xf11e_0000 + u64::from(index);
        text.push_str(&FileListLine::Begun { index, file_id }.encode());
    }
    for index in 0..closed {
        let bytes = std::fs::metadata(&made.files[index as usize]).expect("a file").len();
        text.push_str(&FileListLine::Closed { index, bytes }.encode());
    }
    if ended {
        text.push_str(&FileListLine::Ended { files: begun }.encode());
    }
    std::fs::write(made.path().join(FILE_LIST_NAME), text).expect("writes");
}

/// The results of verification and audit: the problems, the extent, and the verdict.
fn judged(path: &Path) -> (Vec<String>, Extent, Verdict) {
    let run = Run::open(path).expect("opens");
    let (report, audited) = (verify(&run, |_| ()), audit(&run).expect("audits"));
    assert_eq!(audited.extent, report.extent);
    assert_eq!(report.is_intact(), report.problems.is_empty());
    let problems = report.problems.into_iter().map(|problem| problem.problem).collect();
    (problems, report.extent, audited.verdict)
}

#[test]
fn files_that_are_missing_first_last_or_between_are_named() {
    for missing in [vec![0], vec![1], vec![2], vec![1, 2], vec![0, 1]] {
        let made = three().make();
        list(&made, 3, 3, true);
        assert_eq!(judged(made.path()), (vec![], Extent::Ended, Verdict::Balanced));
        missing.iter().for_each(|&file| std::fs::remove_file(&made.files[file]).expect("deletes"));
        let (problems, _, verdict) = judged(made.path());
        assert_eq!((problems.len(), verdict), (missing.len(), Verdict::Incomplete), "{problems:?}");
        for (problem, index) in problems.iter().zip(&missing) {
            assert!(
                problem.starts_with(&format!("file {index} of the run is missing")),
                "{problem}"
            );
        }
    }
}

#[test]
fn a_run_that_was_killed_is_told_apart_from_one_whose_files_are_missing() {
    let made = Recipe { unclosed: true, ..three() }.make();
    list(&made, 3, 2, false);
    let killed = (vec![], Extent::Interrupted, Verdict::DataLost);
    assert_eq!(judged(made.path()), killed);
    repair(made.path()).expect("repairs");
    assert_eq!(judged(made.path()), killed);
    // The list now has the last file as closed, and one that loses its trailer is not whole.
    let bytes = std::fs::read(&made.files[2]).expect("reads");
    std::fs::write(&made.files[2], &bytes[..bytes.len() - 4096]).expect("writes");
    assert_eq!(judged(made.path()).2, Verdict::Incomplete);
    // Its last file is gone.
    std::fs::remove_file(&made.files[2]).expect("deletes");
    let (problems, extent, verdict) = judged(made.path());
    assert_eq!(problems, ["file 2 of the run is missing: files.jsonl names 3"]);
    assert_eq!((extent, verdict), (Extent::Interrupted, Verdict::Incomplete));
    // A recorder that was killed before it had written the next file's header had no more than
    // these.
    list(&made, 2, 2, false);
    assert_eq!(judged(made.path()), killed);
}

#[test]
fn what_lies_behind_the_last_file_of_a_run_without_a_list_cannot_be_known() {
    let made = three().make();
    assert_eq!(judged(made.path()), (vec![], Extent::Ended, Verdict::Balanced));
    assert_eq!(judged(&made.files[1]).1, Extent::Part);
    std::fs::remove_file(&made.files[2]).expect("deletes");
    assert_eq!(judged(made.path()), (vec![], Extent::Unknown, Verdict::DataLost));
}

#[test]
fn a_list_that_cannot_be_read_or_is_another_runs_is_a_problem() {
    let made = three().make();
    let path = made.path().join(FILE_LIST_NAME);
    let other = FileListLine::Run(RunId([8; 16])).encode();
    for (text, expected) in [
        ("{}\n", "files.jsonl: no line of it is a file-list header"),
        (&*other, "files.jsonl: it is the list of run 08080808080808080808080808080808"),
        (
            "{\"catchment_files\":7}\n",
            "files.jsonl: it has version 7; this program reads version 1",
        ),
    ] {
        std::fs::write(&path, text).expect("writes");
        assert_eq!(
            judged(made.path()),
            (vec![expected.into()], Extent::Ended, Verdict::Incomplete)
        );
    }
    // Its writer was stopped before it wrote a line.
    for text in ["", "{\"catchment_fi"] {
        std::fs::write(&path, text).expect("writes");
        assert_eq!(judged(made.path()), (vec![], Extent::Ended, Verdict::Balanced));
    }
}

#[test]
fn a_list_that_was_removed_while_the_run_was_recorded_names_what_came_after() {
    let made = three().make();
    let bytes = std::fs::metadata(&made.files[2]).expect("a file").len();
    let lines = [
        FileListLine::Run(RunId([9; 16])),
        FileListLine::Closed { index: 1, bytes: 7 },
        FileListLine::Closed { index: 1, bytes },
        FileListLine::Begun { index: 2, file_id: 0xf11e_0002 },
        FileListLine::Ended { files: 3 },
    ];
    let text: String = lines.iter().map(FileListLine::encode).collect();
    std::fs::write(made.path().join(FILE_LIST_NAME), text).expect("writes");
    assert_eq!(judged(made.path()), (vec![], Extent::Ended, Verdict::Balanced));
}

#[test]
fn every_byte_of_a_trailer_counts_with_a_list_and_without() {
    let made = Recipe { files: vec![vec![2, 2]], ..Recipe::default() }.make();
    let whole = std::fs::read(&made.files[0]).expect("reads");
    for with_list in [false, true] {
        std::fs::write(&made.files[0], &whole).expect("writes");
        if with_list {
            list(&made, 1, 1, true);
        }
        for byte in whole.len() - 4096..whole.len() - 4096 + 64 {
            for flip in [0x01, 0xff] {
                let mut bytes = whole.clone();
                bytes[byte] ^= flip;
                std::fs::write(&made.files[0], &bytes).expect("writes");
                for path in [made.path(), &made.files[0]] {
                    let (problems, _, verdict) = judged(path);
                    assert!(problems[0].contains("railer"), "byte {byte}: {problems:?}");
                    assert_eq!(verdict, Verdict::Incomplete, "byte {byte}");
                }
            }
        }
    }
}

#[test]
fn a_file_that_lost_only_its_trailer_gets_it_again_and_its_toc_stays() {
    let made = three().make();
    list(&made, 3, 3, true);
    let whole = std::fs::read(&made.files[2]).expect("reads");
    let trailer = whole.len() - 4096;
    let flipped = {
        let mut bytes = whole.clone();
        bytes[trailer + 20] ^= 0x10;
        bytes
    };
    let longer = [&whole[..], b"behind"].concat();
    for bytes in [&flipped[..], &whole[..trailer], &whole[..trailer + 100], &longer] {
        std::fs::write(&made.files[2], bytes).expect("writes");
        assert_eq!(judged(made.path()).2, Verdict::Incomplete);
        assert_eq!(repair(made.path()).expect("repairs").files[2].outcome, Outcome::Closed);
        assert_eq!(std::fs::read(&made.files[2]).expect("reads"), whole);
        assert_eq!(judged(made.path()), (vec![], Extent::Ended, Verdict::Balanced));
    }
    // If the TOC is damaged too, nothing is taken from it.
    let mut bytes = flipped.clone();
    bytes[trailer - made.toc_bytes(&whole) + 130] ^= 1;
    std::fs::write(&made.files[2], bytes).expect("writes");
    repair(made.path()).expect("repairs");
    let run = Run::open(made.path()).expect("opens");
    assert_eq!((run.event_count(), audit(&run).expect("audits").closing), (12, Closing::Repaired));
}

#[test]
fn a_file_that_was_cut_and_repaired_is_not_taken_for_whole() {
    for file in [1, 2] {
        let made = three().make();
        list(&made, 3, 3, true);
        let bytes = std::fs::metadata(&made.files[file]).expect("is there").len();
        // All its frames are cut off but the first, at its border and in the middle of the second.
        let run = Run::open(&made.files[file]).expect("opens");
        let second = run.frames()[1].summary.offset;
        drop(run);
        for left in [second, second + 100] {
            let whole = std::fs::read(&made.files[file]).expect("reads");
            std::fs::write(&made.files[file], &whole[..left as usize]).expect("writes");
            repair(made.path()).expect("repairs");
            let now = std::fs::metadata(&made.files[file]).expect("is there").len();
            let (problems, extent, verdict) = judged(made.path());
            let expected = format!(
                "it was closed with {bytes} bytes, and repair closed the {now} that were left of it"
            );
            assert!(problems.contains(&expected), "{problems:?}");
            assert_eq!((extent, verdict), (Extent::Ended, Verdict::Incomplete));
            std::fs::write(&made.files[file], whole).expect("writes");
        }
    }
}

#[test]
fn a_file_with_its_own_bytes_behind_it_has_its_frames_once() {
    let made = three().make();
    let whole = std::fs::read(&made.files[2]).expect("reads");
    std::fs::write(&made.files[2], [&whole[..], &whole].concat()).expect("writes");
    assert_eq!(judged(made.path()).2, Verdict::Incomplete);
    repair(made.path()).expect("repairs");
    assert_eq!(Run::open(made.path()).expect("opens").event_count(), 12);
    assert_eq!(judged(made.path()), (vec![], Extent::Ended, Verdict::Balanced));
}

#[test]
fn bytes_behind_the_trailer_and_a_trailer_that_is_gone_are_found() {
    let made = Recipe { files: vec![vec![2, 2]], ..Recipe::default() }.make();
    let whole = std::fs::read(&made.files[0]).expect("reads");
    let with = |bytes: &[u8]| {
        std::fs::write(&made.files[0], bytes).expect("writes");
        (judged(made.path()), judged(&made.files[0]))
    };
    for more in [&b"x"[..], &[7; 4096], &[0, 0, 1]] {
        let ((problems, _, verdict), of_file) = with(&[&whole, more].concat());
        let expected = format!(
            "it was closed, but {} bytes stand behind the trailer, which ends at {}",
            more.len(),
            whole.len()
        );
        assert_eq!((problems, verdict), (vec![expected], Verdict::Incomplete));
        assert_eq!(of_file.2, Verdict::Incomplete);
    }
    // Half a trailer.
    assert_eq!(with(&whole[..whole.len() - 4090]).0.2, Verdict::Incomplete);
    // A TOC whose header is not one.
    let toc = whole.len() - 4096 - made.toc_bytes(&whole);
    for byte in [0, 9, 13, 40] {
        let mut bytes = whole.clone();
        bytes[toc + byte] ^= 0x10;
        let ((problems, ..), _) = with(&bytes);
        assert!(problems.iter().any(|problem| problem.contains("TOC")), "{byte}: {problems:?}");
    }
    // Zeros are left by a killed recorder that had not yet cut its file: only the list shows
    // otherwise.
    let zeros = [&whole[..], &[0; 8192]].concat();
    assert_eq!(with(&zeros).0.0, Vec::<String>::new());
    std::fs::write(&made.files[0], &whole).expect("writes");
    list(&made, 1, 1, true);
    let ((problems, ..), of_file) = with(&zeros);
    assert!(problems[0].starts_with("it was closed with"), "{problems:?}");
    assert_eq!(of_file.2, Verdict::Incomplete);
    // Neither TOC nor trailer.
    let end = made.frames[0][1].0.offset + made.frames[0][1].0.frame_bytes;
    let ((problems, ..), _) = with(&whole[..end as usize]);
    assert!(problems[0].ends_with("now: its TOC and trailer are missing"), "{problems:?}");
}

#[test]
fn another_file_in_the_place_of_one_of_the_run_is_named() {
    let made = three().make();
    list(&made, 3, 3, true);
    let text = std::fs::read_to_string(made.path().join(FILE_LIST_NAME)).expect("reads");
    let changed = text.replace("00000000f11e0001", "00000000f11eabcd");
    std::fs::write(made.path().join(FILE_LIST_NAME), changed).expect("writes");
    let (problems, _, verdict) = judged(made.path());
    let expected = "it is not the file that files.jsonl names: its id is 00000000f11e0001, not \
                    00000000f11eabcd";
    assert_eq!((problems, verdict), (vec![expected.into()], Verdict::Incomplete));
}

/// Zeros where a file's header was.
fn behead(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("reads");
    bytes[..4096].fill(0);
    std::fs::write(path, &bytes).expect("writes");
    bytes
}

#[test]
fn a_lost_header_is_made_again_from_another_file_of_the_run() {
    for (with_list, one_file) in [(false, false), (true, false), (false, true)] {
        let made = Recipe { unclosed: true, ..three() }.make();
        let before = common::header(3, 2).encode();
        behead(&made.files[2]);
        if with_list {
            list(&made, 3, 2, false);
        }
        let run = Run::open(made.path()).expect("opens");
        assert_eq!(run.event_count(), 8);
        let said = run.problems().iter().map(ToString::to_string).collect::<Vec<_>>().concat();
        assert!(said.contains("but 2 whole frames stand behind it: keep the file"), "{said}");
        assert!(run.problems().iter().any(FileProblem::is_damage));
        assert_eq!(judged(made.path()).2, Verdict::Incomplete);
        let path = if one_file { &made.files[2] } else { made.path() };
        let report = repair(path).expect("repairs");
        let file = report.files.last().expect("a file");
        assert_eq!((&file.outcome, file.frames, file.events), (&Outcome::Closed, 2, 4));
        assert_eq!(file.header_from.as_deref(), Some(&*made.files[0]));
        assert!(report.found_damage());
        let run = Run::open(made.path()).expect("opens");
        assert_eq!((run.event_count(), run.problems().len(), run.closed()), (12, 0, true));
        assert!(verify(&run, |_| ()).is_intact());
        let header = run.files().last().expect("a file").header.clone();
        let created_ns = made.frames[2][0].0.info.time_first_ns;
        let expected = catchment_frame::FileHeader { created_ns, ..common::header(3, 2) };
        assert_eq!(header, expected);
        let after = std::fs::read(&made.files[2]).expect("reads");
        assert_eq!(after[4096..before.len()], before[4096..]);
    }
}

#[test]
fn a_file_that_was_not_cut_has_its_header_in_its_toc_and_a_frame_in_its_place_goes_back() {
    for (is_gone, is_whole) in [(true, true), (false, true), (true, false)] {
        let made = Recipe { files: vec![vec![2, 2, 2]], ..Recipe::default() }.make();
        let path = &made.files[0];
        let before = std::fs::read(path).expect("reads");
        let mut bytes = before.clone();
        // A writer that was killed before it cut its file leaves zeros, here more than are looked
        // at together. The disk has put the second frame at the beginning.
        bytes.resize(bytes.len() + (3 << 20), 0);
        let frame = made.frames[0][1].0;
        assert_eq!((frame.frame_bytes, made.frames[0][0].0.offset), (4_096, 4_096));
        let place = frame.offset as usize..(frame.offset + frame.frame_bytes) as usize;
        bytes.copy_within(place.clone(), 0);
        if is_gone {
            bytes[place.clone()].fill(0);
        }
        if !is_whole {
            let largest = made.frames[0][1].1.iter().max_by_key(|entry| entry.stored_bytes);
            bytes[largest.expect("columns").offset as usize] ^= 1;
        }
        std::fs::write(path, &bytes).expect("writes");
        let report = repair(made.path()).expect("repairs");
        let file = &report.files[0];
        assert_eq!((&file.outcome, file.frames, file.events), (&Outcome::Closed, 3, 6));
        assert_eq!(file.header_from.as_ref(), Some(path));
        let after = std::fs::read(path).expect("reads");
        // One that is not whole is written nowhere.
        let is_there = after[place.clone()] == before[place.clone()];
        assert_eq!((is_there, file.damaged.is_empty()), (is_whole, is_whole), "{file:?}");
        assert!(!is_whole || after == before);
    }
}

#[test]
fn a_file_whose_header_cannot_be_had_again_is_never_called_deletable() {
    // No other file of the run.
    let made = Recipe { files: vec![vec![2, 2]], unclosed: true, ..Recipe::default() }.make();
    let bytes = behead(&made.files[0]);
    for path in [made.path(), &made.files[0]] {
        let error = Run::open(path).expect_err("there is no header");
        assert!(matches!(error, StorageError::Frame { .. }) && error.is_damage());
        assert!(error.to_string().contains("2 whole frames"), "{error}");
        let report = repair(path).expect("reads");
        let file = &report.files[0];
        let Outcome::Unreadable(why) = &file.outcome else { panic!("{file:?}") };
        assert!(why.contains("2 whole frames with 4 events stand behind it"), "{why}");
        assert!(why.contains("no other file of the run"), "{why}");
        assert_eq!((file.frames, file.events, report.found_damage()), (2, 4, true));
    }
    assert_eq!(std::fs::read(&made.files[0]).expect("reads"), bytes);
    // A name without an index, and one with an impossible index.
    let made = Recipe { unclosed: true, ..three() }.make();
    for (name, expected) in [
        ("somewhere.catch", "neither a list of files nor its name says which file"),
        ("run-00000.catch", "neither a list of files nor its name says which file"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(&made.files[0], folder.path().join("a.catch")).expect("copies");
        std::fs::copy(&made.files[2], folder.path().join(name)).expect("copies");
        behead(&folder.path().join(name));
        let report = repair(folder.path()).expect("reads");
        let Outcome::Unreadable(why) = &report.files[1].outcome else { panic!("{report:?}") };
        assert!(why.contains(expected), "{why}");
    }
    // Its frames come after those of the file that the name places after it.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(&made.files[1], folder.path().join("run-00001.catch")).expect("copies");
    std::fs::copy(&made.files[2], folder.path().join("x-00000.catch")).expect("copies");
    behead(&folder.path().join("x-00000.catch"));
    let report = repair(folder.path()).expect("reads");
    let Outcome::Unreadable(why) = &report.files[1].outcome else { panic!("{report:?}") };
    assert!(why.ends_with("its name says that it is file 0, and its frames are others"), "{why}");
    // The list has another file at that index.
    let made = Recipe { unclosed: true, ..three() }.make();
    list(&made, 3, 2, false);
    std::fs::remove_file(&made.files[1]).expect("removes");
    let path = made.path().join(FILE_LIST_NAME);
    let text = std::fs::read_to_string(&path).expect("reads");
    std::fs::write(&path, text.replace("00000000f11e0002", "00000000f11eabcd")).expect("writes");
    behead(&made.files[2]);
    let report = repair(made.path()).expect("reads");
    let Outcome::Unreadable(why) = &report.files[1].outcome else { panic!("{report:?}") };
    assert!(why.ends_with("it is file 2, for which files.jsonl has another id"), "{why}");
}

#[test]
fn a_header_of_another_schema_is_not_taken() {
    let made = Recipe { files: vec![vec![2, 2]], unclosed: true, ..Recipe::default() }.make();
    behead(&made.files[0]);
    let other = made.path().join("run-00001.catch");
    std::fs::write(&other, common::header(1, 1).encode()).expect("writes");
    let report = repair(made.path()).expect("reads");
    let lost = report.files.iter().find(|file| file.path == made.files[0]).expect("a file");
    let Outcome::Unreadable(why) = &lost.outcome else { panic!("{lost:?}") };
    assert!(why.ends_with("run-00001.catch does not describe"), "{why}");
}

#[test]
fn only_zeros_throughout_are_a_file_that_was_never_begun() {
    let made = three().make();
    let ahead = made.path().join("run-00003.catch");
    std::fs::write(&ahead, vec![0; 3 << 20]).expect("writes");
    let run = Run::open(made.path()).expect("opens");
    assert!(matches!(run.problems(), [FileProblem::Blank { .. }]));
    let mut bytes = vec![0; 3 << 20];
    bytes[(3 << 20) - 1] = 1;
    std::fs::write(&ahead, bytes).expect("writes");
    let run = Run::open(made.path()).expect("opens");
    assert!(matches!(run.problems(), [FileProblem::Unreadable { .. }]));
    let report = repair(made.path()).expect("reads");
    assert!(matches!(report.files[3].outcome, Outcome::Unreadable(_)), "{report:?}");
}

#[test]
fn a_file_that_was_emptied_is_none_that_was_never_begun() {
    let made = three().make();
    list(&made, 3, 3, true);
    let bytes = std::fs::metadata(&made.files[2]).expect("is there").len();
    for (contents, now) in [(vec![], "is empty"), (vec![0; 8_192], "has nothing but zeros")] {
        std::fs::write(&made.files[2], &contents).expect("writes");
        let report = repair(made.path()).expect("repairs");
        let why = format!("it was closed with {bytes} bytes, and {now} now");
        assert_eq!(report.files[2].outcome, Outcome::Unreadable(why));
        let of_file = repair(&made.files[2]).expect("repairs");
        assert_eq!(of_file.files[0].outcome, report.files[2].outcome);
    }
    // Without the list this cannot be known.
    std::fs::remove_file(made.path().join(FILE_LIST_NAME)).expect("removes");
    assert_eq!(repair(made.path()).expect("repairs").files[2].outcome, Outcome::Blank);
}

#[test]
fn repair_and_reading_agree_which_file_is_the_copy() {
    // The copy comes first by name, and is not closed.
    let made = three().make();
    let whole = std::fs::read(&made.files[2]).expect("reads");
    let copy = made.path().join("a copy.catch");
    let cut = &whole[..made.frames[2][1].0.offset as usize];
    std::fs::write(&copy, cut).expect("writes");
    let run = Run::open(made.path()).expect("opens");
    let [FileProblem::Copy { path, of }] = run.problems() else { panic!("{:?}", run.problems()) };
    assert_eq!((path, of), (&copy, &made.files[2]));
    let report = repair(made.path()).expect("repairs");
    assert_eq!(report.closed(), 0);
    let outcome = Outcome::Copy { of: made.files[2].clone() };
    assert_eq!((&report.files[3].path, &report.files[3].outcome), (&copy, &outcome));
    assert_eq!(std::fs::read(&copy).expect("reads"), cut);
}

#[test]
fn repair_leaves_copies_alone() {
    let made = Recipe { unclosed: true, ..three() }.make();
    let copy = made.path().join("x copy.catch");
    std::fs::copy(&made.files[2], &copy).expect("copies");
    let before = std::fs::read(&copy).expect("reads");
    let report = repair(made.path()).expect("repairs");
    let outcomes: Vec<_> = report.files.iter().map(|file| &file.outcome).collect();
    let copied = Outcome::Copy { of: made.files[2].clone() };
    let expected = [&Outcome::Intact, &Outcome::Intact, &Outcome::Closed, &copied];
    assert_eq!(outcomes, expected);
    assert_eq!(std::fs::read(&copy).expect("reads"), before);
    let run = Run::open(made.path()).expect("opens");
    assert!(run.recorded_ledger().expect("reads").is_some_and(|ledger| ledger == made.ledger));
    assert_eq!(audit(&run).expect("audits").closing, Closing::Repaired);
}
