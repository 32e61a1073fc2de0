//! Features of version 1.3 that are specified and not read: runs with them are refused, others are
//! read.

use std::path::Path;

use catchment_frame::{Codec, FileReader, FrameError, FrameInfo, Numbering, Origin, verify_frame};
use catchment_storage::{FileProblem, Outcome, Run, StorageError, repair, verify};
use serde_json::json;

use crate::common::{Recipe, change_frames, change_header};

/// The error of opening a run.
fn refusal(path: &Path) -> StorageError {
    Run::open(path).expect_err("is refused")
}

#[test]
fn a_run_with_superseded_frames_is_refused_and_other_records_of_them_are_no_matter() {
    let info = |info: FrameInfo| FrameInfo {
        origin: Origin { stream: 2, epoch: 1, ..Origin::SINGLE },
        ..info
    };
    // Frames 0 and 1 in the first file, 2 in the second.
    let made = Recipe { info, ..Recipe::default() }.make();
    let say = |file: usize, stream: u32, epoch: u32, sequence: u64| {
        let record = json!([{"stream": stream, "epoch": epoch, "sequence": sequence}]);
        change_header(&made.files[file], 3, |metadata| metadata["superseded"] = record);
    };
    for (stream, epoch, sequence) in [(1, 9, 0), (2, 1, 0), (2, 9, 3)] {
        say(1, stream, epoch, sequence);
        assert_eq!(Run::open(made.path()).expect("opens").event_count(), 16);
    }
    // One file's statement applies to the others.
    say(1, 2, 2, 1);
    let error = refusal(made.path());
    let StorageError::Superseded { path, stream: 2, sequence: 1 } = &error else {
        panic!("{error}");
    };
    assert_eq!(path, &made.files[0]);
    assert!(error.to_string().contains("frame 1 of stream 2 is superseded"), "{error}");
    assert!(matches!(refusal(&made.files[1]), StorageError::Superseded { sequence: 2, .. }));
    assert!(Run::open(&made.files[0]).is_ok());
}

#[test]
fn of_several_variants_one_is_read() {
    // In a folder, the files of variant 0 are read, and the other one is named.
    let made = Recipe::default().make();
    change_header(&made.files[1], 3, |metadata| metadata["variant"] = json!(4));
    let run = Run::open(made.path()).expect("opens");
    assert_eq!(run.event_count(), 12);
    let [FileProblem::Unreadable { path, error }] = run.problems() else { panic!("one problem") };
    assert_eq!(path, &made.files[1]);
    assert!(matches!(error, FrameError::Variant { got: 4, expected: 0, .. }), "{error}");
    let info =
        |info: FrameInfo| FrameInfo { origin: Origin { variant: 1, ..Origin::SINGLE }, ..info };
    let made = Recipe { info, ..Recipe::default() }.make();
    let error = refusal(made.path());
    assert!(
        error.to_string().contains("variant is 1, and variant 0 of the run is read"),
        "{error}"
    );
}

#[test]
fn a_frame_of_another_variant_than_its_file_is_damage_though_the_toc_has_none() {
    let made = Recipe { files: vec![vec![2, 3]], ..Recipe::default() }.make();
    change_frames(&made.files[0], |frames| {
        frames[1][124..128].copy_from_slice(&7u32.to_le_bytes());
    });
    let report = verify(&Run::open(made.path()).expect("opens"), |_| ());
    let [problem] = &report.problems[..] else { panic!("{report:?}") };
    assert_eq!(problem.frame, Some(1));
    assert!(problem.problem.contains("variant is 7, expected the file header's"), "{problem:?}");
    // In a file of that variant it is the other frame.
    change_header(&made.files[0], 3, |metadata| metadata["variant"] = json!(7));
    let bytes = std::fs::read(&made.files[0]).expect("reads");
    let reader = FileReader::open(&bytes[..]).expect("opens");
    assert_eq!([0, 1].map(|frame| verify_frame(&reader, frame).len()), [1, 0]);
}

#[test]
fn the_golden_file_of_what_is_specified_for_later_reads() {
    let golden = "../../format/frame/tests/golden/v1.3/reserved.catch";
    let run = Run::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(golden)).expect("opens");
    assert_eq!((run.frames().len(), run.event_count(), run.frames_missing()), (2, 16, 0));
    assert!(verify(&run, |_| ()).is_intact());
}

#[test]
fn a_frame_that_was_written_again_with_another_codec_is_read_once_in_files_of_1_3() {
    let recipe = || Recipe {
        repeats: true,
        codec_repeated: Some(Codec::Lz4),
        files: vec![vec![40, 50], vec![30]],
        ..Recipe::default()
    };
    let frames = |path: &Path| Run::open(path).expect("opens").frames().len();
    let made = recipe().make();
    assert_eq!(frames(made.path()), 3);
    // In a file before 1.3, and if each file numbers its frames separately, it may be another.
    change_header(&made.files[1], 2, |_| ());
    assert_eq!(frames(made.path()), 4);
    let made = Recipe { numbering: Numbering::File, ..recipe() }.make();
    assert_eq!(frames(made.path()), 4);
}

#[test]
fn numbers_that_begin_anew_in_each_file_are_compared_within_it() {
    let info = |info: FrameInfo| FrameInfo { sequence: info.sequence * 3, ..info };
    let files = || vec![vec![1, 1], vec![1, 1]];
    for (numbering, missing) in [(Numbering::Run, 6), (Numbering::File, 4)] {
        let made = Recipe { numbering, files: files(), info, ..Recipe::default() }.make();
        assert_eq!(Run::open(made.path()).expect("opens").frames_missing(), missing);
    }
}

#[test]
fn a_header_is_made_again_as_the_other_files_have_it_or_not_at_all() {
    let behead = |path: &Path| {
        let mut bytes = std::fs::read(path).expect("reads");
        bytes[..4096].fill(0);
        std::fs::write(path, bytes).expect("writes");
    };
    let recipe = || Recipe { files: vec![vec![2], vec![2], vec![2]], ..Recipe::default() };
    let (mut refused, restored) = (recipe().make(), recipe().make());
    for file in &refused.files {
        change_header(file, 3, |metadata| metadata["stages"] = json!([{"name": "sum"}]));
    }
    // A closed file's header is read from its TOC; this one no longer has one.
    let cut = |path: &Path| {
        let bytes = std::fs::read(path).expect("reads");
        std::fs::write(path, &bytes[..bytes.len() - 4096]).expect("writes");
    };
    let last = refused.files.pop().expect("a file");
    cut(&last);
    behead(&last);
    let before = std::fs::read(&last).expect("reads");
    let report = repair(refused.path()).expect("reads");
    let of_last = report.files.iter().find(|file| file.path == last).expect("is there");
    let Outcome::Unreadable(why) = &of_last.outcome else { panic!("{of_last:?}") };
    assert!(why.contains("\"stages\", which this program does not write"), "{why}");
    assert_eq!(std::fs::read(&last).expect("reads"), before);
    // A header of version 1.2 is rebuilt as one.
    for file in &restored.files {
        change_header(file, 2, |_| ());
    }
    cut(&restored.files[2]);
    behead(&restored.files[2]);
    repair(restored.path()).expect("repairs");
    let bytes = std::fs::read(&restored.files[2]).expect("reads");
    assert_eq!(u16::from_le_bytes([bytes[10], bytes[11]]), 2);
    let run = Run::open(restored.path()).expect("opens");
    assert_eq!((run.event_count(), run.problems().len()), (6, 0));
}
