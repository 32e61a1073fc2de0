//! Reading runs back.

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::time::Duration;

use crate::common;
use catchment_frame::{Codec, FrameInfo, Numbering, Origin};
use catchment_model::SourceId;
use catchment_storage::{
    FileProblem, Follow, Followed, ReframeOptions, Run, SelectEvents, StorageError, Verdict, audit,
    reframe, repair, verify,
};
use common::{Made, Recipe, change_frames, change_header, fragment, key, time_ns};

#[test]
fn every_fragment_of_every_file_reads_back_with_its_key() {
    for codec in [Codec::None, Codec::Lz4] {
        let missing = |source, event| source == 1 && event % 3 == 0 || source == 2 && event < 5;
        let made = Recipe { codec, missing, ..Recipe::default() }.make();
        let run = Run::open(made.path()).expect("opens");
        assert!(run.closed() && run.ended() && run.problems().is_empty());
        assert_eq!((run.files().len(), run.frames().len(), run.event_count()), (2, 3, 16));
        for event in 0..16 {
            let (frame, row) = run.find(key(event)).expect("reads").expect("is there");
            assert_eq!(run.events(frame).expect("reads").times_ns()[row], time_ns(event));
            assert_eq!(run.find(key(event) + 1).expect("reads"), None);
            for source in 0..3 {
                let column = run.fragments(frame, SourceId(source)).expect("reads");
                let expected = (!missing(source, event)).then(|| fragment(source, event));
                assert_eq!(column.fragment(row), expected.as_deref());
            }
        }
        let counts = run.event_counts().expect("reads");
        assert_eq!((counts.events, counts.incomplete), (16, 6));
    }
}

#[test]
fn a_range_of_keys_comes_frame_by_frame_without_the_others() {
    let made = Recipe::default().make();
    let run = Run::open(made.path()).expect("opens");
    let between = |first, last| {
        let select = SelectEvents { keys: first..=last, ..SelectEvents::default() };
        run.fragments_in(SourceId(1), select)
    };
    let parts: Result<Vec<_>, _> = between(key(3), key(12)).collect();
    let parts = parts.expect("reads");
    assert_eq!(parts.iter().map(|part| part.frame).collect::<Vec<_>>(), [0, 1, 2]);
    let keys: Vec<_> = parts.iter().flat_map(|part| part.keys()).copied().collect();
    assert_eq!(keys, (3..=12).map(key).collect::<Vec<_>>());
    let bytes: Vec<_> = parts.iter().flat_map(|part| part.payload()).copied().collect();
    assert_eq!(bytes, (3..=12).flat_map(|event| fragment(1, event)).collect::<Vec<_>>());
    assert_eq!(between(key(16), u64::MAX).count(), 0);
    assert_eq!(between(key(4), key(3)).count(), 0);
}

#[test]
fn events_are_selected_by_time_by_frame_and_by_key_at_once() {
    // Frames of events 0..5, 5..12 and 12..16.
    let made = Recipe::default().make();
    let run = Run::open(made.path()).expect("opens");
    let select = |events: Option<Range<u64>>, frames| SelectEvents {
        time_ns: events.map(|events| time_ns(events.start)..time_ns(events.end)),
        frames,
        ..SelectEvents::default()
    };
    for (select, frames, events) in [
        (SelectEvents::default(), vec![0, 1, 2], 0..16),
        // The end time is not in the range, the start time is.
        (select(Some(3..5), 0..9), vec![0], 3..5),
        (select(Some(4..6), 0..9), vec![0, 1], 4..6),
        (select(Some(11..12), 0..9), vec![1], 11..12),
        (select(None, 1..2), vec![1], 5..12),
        (select(None, 2..9), vec![2], 12..16),
        (select(Some(3..14), 1..2), vec![1], 5..12),
        (select(Some(3..5), 1..3), vec![], 0..0),
        (select(Some(16..99), 0..9), vec![], 0..0),
        (select(Some(7..7), 0..9), vec![], 0..0),
        (SelectEvents { keys: key(10)..=key(13), ..select(Some(0..13), 1..3) }, vec![1, 2], 10..13),
    ] {
        assert_eq!(run.frames_in(&select), frames, "{select:?}");
        let parts: Result<Vec<_>, _> = run.fragments_in(SourceId(1), select.clone()).collect();
        let keys: Vec<_> = parts.expect("reads").iter().flat_map(|p| p.keys().to_vec()).collect();
        assert_eq!(keys, events.map(key).collect::<Vec<_>>(), "{select:?}");
    }
    let none = run.rows_in(3, &SelectEvents::default());
    assert!(matches!(none, Err(StorageError::NoFrame { index: 3, count: 3 })));
}

#[test]
fn frames_out_of_time_are_not_read() {
    let made = Recipe { files: vec![vec![100, 100, 100]], ..Recipe::default() }.make();
    let run = Run::open_with_cache(made.path(), 0).expect("opens");
    let read = |time_ns: Range<u64>| {
        let before = run.bytes_read();
        let select = SelectEvents { time_ns: Some(time_ns), ..SelectEvents::default() };
        let parts = run.fragments_in(SourceId(0), select).inspect(|part| assert!(part.is_ok()));
        (parts.count(), run.bytes_read() - before)
    };
    let (_, of_all) = read(0..u64::MAX);
    let (parts, of_one) = read(time_ns(110)..time_ns(120));
    assert_eq!(parts, 1);
    assert!((1..of_all / 2).contains(&of_one), "{of_one} of {of_all} bytes");
    let (parts, of_two) = read(time_ns(90)..time_ns(110));
    assert_eq!(parts, 2);
    assert!((of_one + 1..of_all).contains(&of_two), "{of_two} of {of_all} bytes");
    assert_eq!(read(0..time_ns(0)), (0, 0));
}

#[test]
fn only_required_sources_are_said_to_be_missing() {
    let missing = |source, event| event == 6 && source > 0;
    let made = Recipe { missing, ..Recipe::default() }.make();
    let run = Run::open(made.path()).expect("opens");
    let (frame, row) = run.find(key(6)).expect("reads").expect("is there");
    assert_eq!(run.missing(frame, row).expect("reads"), [SourceId(1)]);
    assert!(run.fragments(frame, SourceId(2)).expect("reads").fragment(row).is_none());
    assert!(run.missing(frame, row + 1).expect("reads").is_empty());
}

#[test]
fn a_single_file_of_a_run_opens_alone() {
    let made = Recipe::default().make();
    let run = Run::open(&made.files[1]).expect("opens");
    assert_eq!((run.event_count(), run.header().file_index), (4, 1));
    assert_eq!(run.find(key(12)).expect("reads"), Some((0, 0)));
    assert_eq!(run.find(key(0)).expect("reads"), None);
}

#[test]
fn an_unclosed_run_reads_as_far_as_it_was_written() {
    let made = Recipe { unclosed: true, ..Recipe::default() }.make();
    let run = Run::open(made.path()).expect("opens");
    assert!(!run.closed() && !run.ended());
    assert_eq!(run.event_count(), 16);
    assert!(run.recorded_ledger().expect("reads").is_none());
}

#[test]
fn a_frame_that_stands_in_two_files_is_read_and_counted_once() {
    let files = vec![vec![5, 7], vec![4], vec![3, 2]];
    let made = Recipe { repeats: true, files, ..Recipe::default() }.make();
    let run = Run::open(made.path()).expect("opens");
    assert_eq!((run.event_count(), run.frames().len()), (21, 5));
    let keys = |frame| run.events(frame).expect("reads").keys().to_vec();
    let keys: Vec<u64> = (0..5).flat_map(keys).collect();
    assert_eq!(keys, (0..21).map(key).collect::<Vec<u64>>());
    let report = audit(&run).expect("audits");
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    assert!(verify(&run, |_| ()).is_intact());
}

#[test]
fn of_frames_of_one_number_that_differ_in_a_range_the_whole_one_is_read_and_the_other_named() {
    let longer = |info: FrameInfo| FrameInfo { time_last_ns: info.time_last_ns + 1, ..info };
    let recipe = || {
        let files = vec![vec![5, 7], vec![4], vec![3, 2]];
        Recipe { repeats: true, files, ..Recipe::default() }
    };
    // Either the repeated frames are damaged, or the first ones.
    for (recipe, read) in [
        (Recipe { info_repeated: longer, ..recipe() }, [(0, 1), (1, 1)]),
        (Recipe { info: longer, ..recipe() }, [(1, 0), (2, 0)]),
    ] {
        let made = recipe.make();
        let run = Run::open(made.path()).expect("opens");
        assert_eq!((run.event_count(), run.frames().len()), (21, 5));
        let frames: Vec<_> = run.frames().iter().map(|frame| (frame.file, frame.index)).collect();
        assert_eq!(frames[1..3], read);
        let report = verify(&run, |_| ());
        let differing: Vec<_> = report
            .problems
            .iter()
            .filter(|one| one.problem.contains("has the same number"))
            .collect();
        assert_eq!(differing.len(), 2, "{report:?}");
        for (problem, (file, frame)) in differing.iter().zip(read) {
            let named = format!("those of frame {frame} of {}", made.files[file].display());
            assert!(problem.problem.contains(&named), "{problem:?}");
        }
    }
    // In files before 1.3, and if each file numbers its own, they are different frames.
    let made = Recipe { info_repeated: longer, ..recipe() }.make();
    made.files.iter().for_each(|file| change_header(file, 2, |_| ()));
    assert_eq!(Run::open(made.path()).expect("opens").frames().len(), 7);
    let numbering = Numbering::File;
    let made = Recipe { numbering, info_repeated: longer, ..recipe() }.make();
    assert_eq!(Run::open(made.path()).expect("opens").frames().len(), 7);
}

#[test]
fn a_whole_copy_in_a_later_file_is_given_in_the_place_of_the_damaged_first() {
    let made = Recipe { files: vec![vec![2, 2, 2], vec![2, 2]], ..Recipe::default() }.make();
    let mut copy = Vec::new();
    change_frames(&made.files[0], |frames| copy = frames[1].clone());
    change_frames(&made.files[1], |frames| frames.push(copy));
    let lengths = made.frames[0][1].1.iter().max_by_key(|entry| entry.stored_bytes);
    made.damage(0, made.offset(0, 1, lengths.expect("columns").id));
    let keys = |path: &Path| -> Vec<u64> {
        let run = Run::open(path).expect("opens");
        let keys = |frame| run.events(frame).expect("reads").keys().to_vec();
        (0..run.frames().len()).flat_map(keys).collect()
    };
    let expected: Vec<u64> = (0..10).map(key).collect();
    assert_eq!(keys(made.path()), expected);
    let run = Run::open(made.path()).expect("opens");
    let frames: Vec<_> = run.frames().iter().map(|frame| (frame.file, frame.index)).collect();
    assert_eq!(frames, [(0, 0), (1, 2), (0, 2), (1, 0), (1, 1)]);
    let at = |&(file, index): &(usize, usize)| run.frame_at(file, index);
    assert_eq!(frames.iter().map(at).collect::<Vec<_>>(), [0, 1, 2, 3, 4].map(Some));
    assert_eq!((run.frame_at(0, 1), run.channel_frame_at(0, 0)), (None, None));
    assert_eq!(audit(&run).expect("audits").verdict, Verdict::Balanced);
    // Followers and rewriters of the run also get it in its place.
    let anew = tempfile::tempdir().expect("a folder");
    let options = ReframeOptions::default();
    reframe(&run, anew.path(), "anew", &options, |_| ControlFlow::Continue(())).expect("writes");
    assert_eq!(keys(anew.path()), expected);
    let mut follow = Follow::new(run, Duration::ZERO).expect("one folder");
    let mut came = Vec::new();
    while let Some(frame) = follow.try_next().expect("reads") {
        came.push(frame);
    }
    assert_eq!(came, [0, 1, 2, 3, 4].map(Followed::Events));
}

/// Damages a copy of a frame.
type Damage = fn(&Made, usize, usize);

#[test]
fn a_damaged_copy_of_a_frame_does_not_hide_a_whole_one() {
    let payload: Damage = |made, file, frame| {
        let (_, entries) = &made.frames[file][frame];
        let largest = entries.iter().max_by_key(|entry| entry.stored_bytes).expect("columns");
        made.damage(file, made.offset(file, frame, largest.id));
    };
    let header: Damage = |made, file, frame| {
        made.damage(file, made.frames[file][frame].0.offset + 128 + 12);
    };
    let all: Damage = |made, file, frame| {
        let (summary, _) = &made.frames[file][frame];
        let mut bytes = std::fs::read(&made.files[file]).expect("reads");
        bytes[summary.offset as usize..(summary.offset + summary.frame_bytes) as usize].fill(0);
        std::fs::write(&made.files[file], bytes).expect("writes");
    };
    for damage in [payload, header, all] {
        // Frame 1 is after frame 0 in file 0, and first in file 1.
        for [bad, whole] in [[(0, 1), (1, 0)], [(1, 0), (0, 1)]] {
            let made = Recipe { repeats: true, ..Recipe::default() }.make();
            damage(&made, bad.0, bad.1);
            let run = Run::open(made.path()).expect("opens");
            assert_eq!((run.event_count(), run.frames().len()), (16, 3));
            let keys = |frame| run.events(frame).expect("reads").keys().to_vec();
            let keys: Vec<u64> = (0..3).flat_map(keys).collect();
            assert_eq!(keys, (0..16).map(key).collect::<Vec<u64>>());
            for (frame, source) in (0..3).flat_map(|frame| [(frame, 0), (frame, 2)]) {
                run.fragments(frame, SourceId(source)).expect("reads");
            }
            let copy_path = made.files[whole.0].display().to_string();
            let says = |text: &str| {
                text.contains(&format!("; frame {} of {copy_path} is a whole copy", whole.1))
            };
            let report = verify(&run, |_| ());
            assert!(!report.is_intact(), "a damaged frame is damage");
            assert!(report.problems.iter().any(|one| says(&one.problem)), "{report:?}");
            // The second copy is not examined if the first is whole.
            let copies = if bad == (0, 1) { 1 } else { 0 };
            let report = audit(&run).expect("audits");
            assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
            assert_eq!(report.damaged_copies.len(), copies);
            let report = repair(made.path()).expect("repairs");
            assert_eq!(report.damaged_copies.len(), copies);
            assert!(report.damaged_copies.iter().all(|one| says(&one.to_string())));
            assert!(copies == 0 || report.found_damage());
        }
    }
    // Of two damaged ones the first is read, as far as it goes.
    let made = Recipe { repeats: true, ..Recipe::default() }.make();
    payload(&made, 0, 1);
    payload(&made, 1, 0);
    let run = Run::open(made.path()).expect("opens");
    assert_eq!((run.frames().len(), run.damaged_copies()), (3, &[][..]));
    assert!((0..3).all(|frame| run.events(frame).is_ok()));
}

#[test]
fn a_frame_that_was_sent_again_in_another_epoch_is_read_once() {
    let info_repeated = |info: FrameInfo| {
        let origin = Origin { epoch: 3, first_slice: 7, slice_count: 2, ..info.origin };
        FrameInfo { origin, ..info }
    };
    let files = vec![vec![5, 7], vec![4]];
    let made = Recipe { repeats: true, files, info_repeated, ..Recipe::default() }.make();
    let run = Run::open(made.path()).expect("opens");
    assert_eq!((run.event_count(), run.frames().len()), (16, 3));
    assert_eq!(audit(&run).expect("audits").verdict, Verdict::Balanced);
    assert!(verify(&run, |_| ()).is_intact());
}

#[test]
fn a_missing_file_a_blank_one_and_a_broken_one_are_named_and_the_rest_reads() {
    let made = Recipe { files: vec![vec![2], vec![2], vec![2]], ..Recipe::default() }.make();
    std::fs::remove_file(&made.files[1]).expect("deletes");
    std::fs::write(made.path().join("run-00003.catch"), vec![0; 8192]).expect("writes");
    std::fs::write(made.path().join("run-00004.catch"), b"no frame file").expect("writes");
    std::fs::write(made.path().join("notes.txt"), b"not looked at").expect("writes");
    let run = Run::open(made.path()).expect("opens");
    assert_eq!(run.event_count(), 4);
    let problems = run.problems();
    let has = |wanted: fn(&FileProblem) -> bool| problems.iter().any(wanted);
    assert_eq!(problems.len(), 3);
    assert!(has(|problem| matches!(problem, FileProblem::Missing { index: 1, .. })));
    assert!(has(|problem| matches!(problem, FileProblem::Blank { .. }) && !problem.is_damage()));
    assert!(has(|problem| matches!(problem, FileProblem::Unreadable { .. })));
}

#[test]
fn files_of_another_run_are_an_error_that_names_them() {
    let made = Recipe::default().make();
    let mut header = common::header(3, 2);
    header.run.0[0] ^= 1;
    let foreign = made.path().join("stranger.catch");
    std::fs::write(&foreign, header.encode()).expect("writes");
    match Run::open(made.path()) {
        Err(StorageError::ForeignFile { path, .. }) => assert_eq!(path, foreign),
        other => panic!("{other:?}"),
    }
    std::fs::write(&foreign, common::header(4, 2).encode()).expect("writes");
    assert!(matches!(Run::open(made.path()), Err(StorageError::SchemaDiffers { .. })));
    let mut header = common::header(3, 1);
    header.file_id += 10;
    std::fs::write(&foreign, header.encode()).expect("writes");
    assert!(matches!(Run::open(made.path()), Err(StorageError::IndexTwice { index: 1, .. })));
}

#[test]
fn a_file_that_is_there_twice_is_read_once_and_one_that_contradicts_it_is_refused() {
    let made = Recipe::default().make();
    // By name it comes before the file that it is a copy of.
    let copy = made.path().join("a copy.catch");
    std::fs::copy(&made.files[0], &copy).expect("copies");
    let run = Run::open(made.path()).expect("opens");
    assert_eq!((run.files().len(), run.event_count()), (2, 16));
    assert_eq!(run.files().next().expect("a file").path, made.files[0]);
    let [FileProblem::Copy { path, of }] = run.problems() else { panic!("{:?}", run.problems()) };
    assert_eq!((path, of), (&copy, &made.files[0]));
    assert!(run.damage().is_empty());
    // All frames of a truncated copy are in the file.
    let whole = std::fs::read(&copy).expect("reads");
    let (second, _) = &made.frames[0][1];
    std::fs::write(&copy, &whole[..second.offset as usize]).expect("writes");
    let mut run = Run::open(made.path()).expect("opens");
    assert!(matches!(run.problems(), [FileProblem::Copy { .. }]));
    assert_eq!((run.event_count(), run.refresh().expect("reads").files), (16, 0));
    // The second frame in place of the first does not belong to the file.
    let mut other = whole.clone();
    let (first, _) = &made.frames[0][0];
    other.drain(first.offset as usize..second.offset as usize);
    std::fs::write(&copy, other).expect("writes");
    let error = Run::open(made.path()).expect_err("refused").to_string();
    let expected = "are both file 0 of their run, one a copy of the other, but they have other frames; \
                    move one of them elsewhere";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn a_fifo_is_refused_and_among_the_files_of_a_run_it_is_none_of_them() {
    use std::os::unix::ffi::OsStrExt as _;
    let made = Recipe::default().make();
    let fifo = made.path().join("run-00007.catch");
    let name = std::ffi::CString::new(fifo.as_os_str().as_bytes()).expect("a name");
    // SAFETY: the name ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let error = Run::open(&fifo).expect_err("refused").to_string();
    assert!(error.ends_with("run-00007.catch: expected a regular file, got a FIFO"), "{error}");
    let run = Run::open(made.path()).expect("opens");
    assert_eq!((run.event_count(), run.problems().len()), (16, 0));
    assert_eq!(catchment_storage::repair(made.path()).expect("repairs").files.len(), 2);
    catchment_storage::remove_leftovers(made.path()).expect("is left");
    assert!(fifo.exists());
}

#[test]
fn nothing_to_read_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(matches!(Run::open(folder.path()), Err(StorageError::NoFiles { .. })));
    let absent = Run::open(folder.path().join("absent"));
    assert!(matches!(&absent, Err(error @ StorageError::Disk(_)) if !error.is_damage()));
    let path = folder.path().join("a.catch");
    std::fs::write(&path, b"something else").expect("writes");
    let error = Run::open(&path).expect_err("is no frame file");
    assert!(error.is_damage() && error.to_string().contains("a.catch"), "{error}");
    std::fs::write(&path, []).expect("writes");
    assert!(matches!(Run::open(&path), Err(StorageError::Blank { .. })));
}

#[test]
fn a_damaged_column_is_named_and_costs_nothing_else() {
    let made = Recipe::default().make();
    // Columns of source 1: lengths 7, validity 8, payload 9.
    made.damage(0, made.offset(0, 1, 9));
    let run = Run::open(made.path()).expect("opens");
    let error = run.fragments(1, SourceId(1)).expect_err("is damaged");
    assert!(error.is_damage());
    let text = error.to_string();
    for part in ["run-00000.catch", "frame 1", "fragment_payload", "board-1", "checksum"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(run.fragments(1, SourceId(0)).is_ok() && run.fragments(2, SourceId(1)).is_ok());
}

#[test]
fn many_threads_read_one_run_with_a_cache_that_holds_nothing() {
    let missing = |source, event| source == 0 && event % 2 == 0;
    let made = Recipe { missing, codec: Codec::Lz4, ..Recipe::default() }.make();
    let run = Run::open_with_cache(made.path(), 0).expect("opens");
    std::thread::scope(|scope| {
        for source in 0..3 {
            let run = &run;
            scope.spawn(move || {
                for event in 0..16 {
                    let (frame, row) = run.find(key(event)).expect("reads").expect("is there");
                    let column = run.fragments(frame, SourceId(source)).expect("reads");
                    let expected = (!missing(source, event)).then(|| fragment(source, event));
                    assert_eq!(column.fragment(row), expected.as_deref());
                }
            });
        }
    });
}
