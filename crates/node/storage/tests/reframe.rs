//! Rewritten runs: other frames, files and codecs, the same data.

use std::ops::ControlFlow;
use std::path::Path;

use crate::common;
use crate::signal;
use catchment_frame::{Codec, ColumnKind, Hole};
use catchment_model::SourceId;
use catchment_storage::{
    Codings, Ending, ReframeOptions, Run, Select, StorageError, Verdict, WriteOptions, audit,
    reframe, verify,
};
use common::Recipe;
use signal::Signal;

const NS: u64 = 1_000_000_000;

/// Key, time, flags and fragments of an event.
type Event = (u64, u64, u32, Vec<Option<Vec<u8>>>);

/// Everything in a run.
#[derive(Debug, PartialEq)]
struct Contents {
    channels: Vec<Vec<catchment_storage::Segment>>,
    events: Vec<Event>,
    ledger: catchment_model::Ledger,
}

fn contents(path: &Path) -> Contents {
    let run = Run::open(path).expect("opens");
    let indices: Vec<_> = (0..run.channels().len()).collect();
    let channels = run.read_many(&indices, &Select::All).expect("reads");
    let mut all = Vec::new();
    for frame in 0..run.frames().len() {
        let events = run.events(frame).expect("reads");
        for row in 0..events.len() {
            let fragment = |source| {
                let column = run.fragments(frame, SourceId(source)).expect("reads");
                column.fragment(row).map(<[u8]>::to_vec)
            };
            let fragments = (0..run.sources().len() as u32).map(fragment).collect();
            all.push((events.keys()[row], events.times_ns()[row], events.flags()[row], fragments));
        }
    }
    assert!(verify(&run, |_| {}).is_intact());
    let audit = audit(&run).expect("reads");
    assert_ne!(audit.verdict, Verdict::NotBalanced, "{audit:?}");
    Contents { channels, events: all, ledger: catchment_storage::recompute(&run).0 }
}

fn check(source: &Path, options: &ReframeOptions) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = Run::open(source).expect("opens");
    let mut last = None;
    let report = reframe(&run, folder.path(), "anew", options, |done| {
        last = Some(done);
        ControlFlow::Continue(())
    });
    let report = report.expect("writes");
    assert_eq!(last.map(|done| done.frames), last.map(|done| done.frames_total));
    assert_eq!(contents(folder.path()), contents(source), "{options:?}");
    let written = Run::open(folder.path()).expect("opens");
    assert_eq!((written.header().run, written.ended()), (run.header().run, run.ended()));
    (report.files.len(), report.frames as usize)
}

#[test]
fn channels_in_other_frames_files_and_codecs_are_bit_for_bit_the_same() {
    for gap in [false, true] {
        let made = Signal { gap, coding: "lz4", ..Signal::default() }.write();
        for frame_s in [None, Some(4), Some(1), Some(7), Some(60)] {
            for codings in [None, Some("none"), Some("bitshuffle+lz4")] {
                let codings = codings.map(|text| Codings::new(text.parse().expect("a coding")));
                let frame_ns = frame_s.map(|seconds: u64| seconds * NS);
                let options = ReframeOptions { frame_ns, codings, ..ReframeOptions::default() };
                let (files, frames) = check(made.path(), &options);
                assert_eq!(files, 1);
                match frame_s {
                    None | Some(4) => assert_eq!(frames, 32),
                    Some(1) => assert_eq!(frames, 128),
                    Some(_) => assert!(frames < 32, "{frames}"),
                }
            }
        }
        let write = WriteOptions { file_time_ns: Some(20 * NS), ..WriteOptions::small() };
        let (files, _) = check(made.path(), &ReframeOptions { write, ..ReframeOptions::default() });
        assert_eq!(files, 7);
    }
}

#[test]
fn a_frame_that_stays_as_it_is_keeps_its_codec_and_its_stored_bytes() {
    let made = Signal { coding: "zstd:3", ..Signal::default() }.write();
    let folder = tempfile::tempdir().expect("a folder");
    let run = Run::open(made.path()).expect("opens");
    reframe(&run, folder.path(), "anew", &ReframeOptions::default(), go_on).expect("writes");
    let anew = Run::open(folder.path()).expect("opens");
    let of = |run: &Run| -> Vec<_> {
        let channel = run.channel("fast").expect("is there");
        let pieces = channel.pieces().expect("reads");
        pieces.iter().map(|p| (p.entry.codec, p.entry.crc32c, p.entry.stored_bytes)).collect()
    };
    assert_eq!(of(&run), of(&anew));
    assert!(of(&anew).iter().all(|(codec, _, _)| *codec == Codec::Zstd));
}

#[test]
fn holes_stay_in_their_fragments_in_other_frames() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = root.join("../../format/frame/tests/golden/v1.3/holes.catch");
    // By key, offset and bytes.
    let holes = |path: &Path| -> Vec<(u64, u64, u64)> {
        let run = Run::open(path).expect("opens");
        let of_frame = |frame| {
            let (events, source) = (run.events(frame).expect("reads"), SourceId(1));
            let holes = run.fragment_holes(frame, source).expect("reads");
            let column = run.fragments(frame, source).expect("reads");
            assert_eq!(column.holes(0..events.len()), holes);
            let of = |hole: &Hole| (events.keys()[hole.row as usize], hole.offset, hole.bytes);
            holes.iter().map(of).collect::<Vec<_>>()
        };
        (0..run.frames().len()).flat_map(of_frame).collect()
    };
    assert_eq!(holes(&golden).len(), 4);
    for frame_bytes in [1, 300, 1 << 20] {
        let options =
            ReframeOptions { frame_bytes: Some(frame_bytes), ..ReframeOptions::default() };
        check(&golden, &options);
        let folder = tempfile::tempdir().expect("a folder");
        let run = Run::open(&golden).expect("opens");
        reframe(&run, folder.path(), "anew", &options, go_on).expect("writes");
        assert_eq!(holes(folder.path()), holes(&golden), "{frame_bytes}");
    }
}

#[test]
fn events_in_other_frames_are_the_same_with_the_same_books() {
    let missing = |source, event| source == 1 && event % 3 == 0 || source == 2 && event < 9;
    for codec in [Codec::None, Codec::Lz4] {
        let files = vec![vec![5, 7, 1, 20], vec![4, 0, 9]];
        let made = Recipe { files, codec, missing, ..Recipe::default() }.make();
        for frame_bytes in [None, Some(1), Some(200), Some(1_000_000)] {
            let options = ReframeOptions { frame_bytes, ..ReframeOptions::default() };
            let (_, frames) = check(made.path(), &options);
            match frame_bytes {
                None => assert!((6..=7).contains(&frames), "{frames}"),
                Some(1) => assert!(frames >= 46),
                Some(200) => assert!((7..46).contains(&frames), "{frames}"),
                Some(_) => assert!(frames <= 2, "{frames}"),
            }
        }
    }
}

/// Damages the third column of `slow`, and returns the samples in it.
fn damage_slow(made: &signal::Made) -> std::ops::Range<u64> {
    let run = Run::open(made.path()).expect("opens");
    let channel = run.channel("slow").expect("is there");
    let piece = channel.pieces().expect("reads")[3];
    let frame = run.channel_frames()[piece.frame];
    let path = run.files().nth(frame.file).expect("a file").path.to_owned();
    signal::damage_column(&path, frame.index, channel.info().id);
    piece.first_sample..piece.end_sample()
}

#[test]
fn a_damaged_column_of_a_channel_is_a_gap_that_is_named() {
    for coding in ["none", "lz4"] {
        let made = Signal { coding, gap: true, ..Signal::default() }.write();
        let whole = contents(made.path());
        let gap = damage_slow(&made);
        for (frame_s, codings) in
            [(None, None), (None, Some("zstd:1")), (Some(60), None), (Some(1), None)]
        {
            let run = Run::open(made.path()).expect("opens");
            let folder = tempfile::tempdir().expect("a folder");
            let codings = codings.map(|text| Codings::new(text.parse().expect("a coding")));
            let frame_ns = frame_s.map(|seconds: u64| seconds * NS);
            let options = ReframeOptions { frame_ns, codings, ..ReframeOptions::default() };
            let report = reframe(&run, folder.path(), "anew", &options, go_on).expect("writes");
            let [line] = &report.left_out[..] else { panic!("{:?}", report.left_out) };
            assert!(line.contains("frame 3, channel slow"), "{line}");
            let anew = Run::open(folder.path()).expect("opens");
            assert!(anew.lost_data() && anew.ended());
            let found = contents(folder.path());
            for (index, (found, whole)) in found.channels.iter().zip(&whole.channels).enumerate() {
                if anew.channels()[index].name != "slow" {
                    assert_eq!(found, whole);
                    continue;
                }
                let [before, after] = &found[..] else { panic!("{} pieces", found.len()) };
                let [all] = &whole[..] else { panic!("{} pieces", whole.len()) };
                assert_eq!(before.first_sample + before.samples, gap.start);
                assert_eq!(after.first_sample, gap.end);
                assert!(all.bytes.starts_with(&before.bytes) && all.bytes.ends_with(&after.bytes));
            }
        }
    }
}

#[test]
fn damaged_events_are_an_error_that_names_the_column_and_leaves_no_file() {
    let made = Recipe { files: vec![vec![5, 7]], ..Recipe::default() }.make();
    let path =
        Run::open(made.path()).expect("opens").files().next().expect("a file").path.to_owned();
    let run = Run::open(made.path()).expect("opens");
    let id = run.header().schema.column(Some(SourceId(1)), &ColumnKind::FragmentPayload);
    signal::damage_column(&path, 1, id.expect("a column"));
    let run = Run::open(made.path()).expect("opens");
    let folder = tempfile::tempdir().expect("a folder");
    let options = ReframeOptions::default();
    let error = reframe(&run, folder.path(), "anew", &options, go_on).expect_err("is damaged");
    let text = error.to_string();
    assert!(text.contains("frame 1, fragment_payload of source"), "{text}");
    assert!(text.contains("catchment read --frames"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 0);
}

#[test]
fn where_a_clock_was_set_back_frames_of_another_length_are_refused_in_plain_words() {
    let signal = Signal { frames: 0, ..Signal::default() };
    let (folder, mut writer) = signal.begin();
    for frame in [0, 1, 2, 1, 2, 3] {
        signal.write_frame(&mut writer, frame).expect("writes");
    }
    writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends");
    let run = Run::open(folder.path()).expect("opens");
    let anew = tempfile::tempdir().expect("a folder");
    let longer = ReframeOptions { frame_ns: Some(60 * NS), ..ReframeOptions::default() };
    let error = reframe(&run, anew.path(), "anew", &longer, go_on).expect_err("cannot");
    assert!(error.to_string().contains("do not follow each other in time"), "{error}");
    assert!(error.to_string().contains("without --frame"), "{error}");
    assert_eq!(std::fs::read_dir(anew.path()).expect("lists").count(), 0);
    check(folder.path(), &ReframeOptions::default());
}

/// A run whose first frame claims to cover 292 years.
fn with_a_wide_frame() -> signal::Made {
    let made = Signal { frames: 8, ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let path = run.files().next().expect("a file").path.to_owned();
    drop(run);
    common::change_frames(&path, |frames| {
        frames[0][56..64].fill(0);
        frames[0][64..72].copy_from_slice(&i64::MAX.to_le_bytes());
    });
    made
}

#[test]
fn stretches_of_a_frame_in_which_it_has_no_samples_take_no_time() {
    let made = with_a_wide_frame();
    let options = ReframeOptions { frame_ns: Some(2 * NS), ..ReframeOptions::default() };
    assert_eq!(check(made.path(), &options), (1, 16));
}

#[test]
fn it_can_be_stopped_while_it_cuts_a_frame() {
    let made = with_a_wide_frame();
    let run = Run::open(made.path()).expect("opens");
    let folder = tempfile::tempdir().expect("a folder");
    let options = ReframeOptions { frame_ns: Some(2 * NS), ..ReframeOptions::default() };
    let mut calls = 0;
    let stop = |done: catchment_storage::Done| {
        calls += 1;
        let within = done.frames == 0 && calls == 3;
        if within { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = reframe(&run, folder.path(), "anew", &options, stop).expect_err("was stopped");
    assert!(matches!(error, StorageError::Stopped), "{error}");
}

#[test]
fn whoever_stops_it_finds_no_file() {
    let made = Signal::default().write();
    let run = Run::open(made.path()).expect("opens");
    let folder = tempfile::tempdir().expect("a folder");
    let options = ReframeOptions::default();
    let stop = |done: catchment_storage::Done| match done.frames {
        3 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let error = reframe(&run, folder.path(), "anew", &options, stop).expect_err("was stopped");
    assert!(matches!(error, StorageError::Stopped), "{error}");
}

fn go_on(_: catchment_storage::Done) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
