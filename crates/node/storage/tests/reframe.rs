//! Runs written anew: other frames, files and codecs, the same data.

mod common;
mod signal;

use std::path::Path;

use catchment_frame::Codec;
use catchment_model::SourceId;
use catchment_storage::{
    Codings, ReframeOptions, Run, Select, Verdict, WriteOptions, audit, reframe, verify,
};
use common::Recipe;
use signal::Signal;

const NS: u64 = 1_000_000_000;

/// Key, time, flags and fragments of an event.
type Event = (u64, u64, u32, Vec<Option<Vec<u8>>>);

/// Everything that a run holds.
#[derive(Debug, PartialEq)]
struct Contents {
    channels: Vec<Vec<catchment_storage::Segment>>,
    events: Vec<Event>,
    ledger: catchment_model::Ledger,
}

fn contents(path: &Path) -> Contents {
    let run = Run::open(path).expect("opens");
    let places: Vec<_> = (0..run.channels().len()).collect();
    let channels = run.read_many(&places, &Select::All).expect("reads");
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
    let report = reframe(&run, folder.path(), "anew", options, |done| last = Some(done));
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
    reframe(&run, folder.path(), "anew", &ReframeOptions::default(), |_| {}).expect("writes");
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

#[test]
fn a_source_that_is_damaged_is_an_error_that_names_the_column() {
    let made = Signal::default().write();
    let run = Run::open(made.path()).expect("opens");
    let channel = run.channel("slow").expect("is there");
    let frame = run.channel_frames()[channel.pieces().expect("reads")[3].frame];
    let path = run.files().nth(frame.file).expect("a file").path.to_owned();
    let id = channel.info().id;
    signal::damage_column(&path, frame.index, id);
    for frame_ns in [None, Some(60 * NS)] {
        let run = Run::open(made.path()).expect("opens");
        let folder = tempfile::tempdir().expect("a folder");
        let options = ReframeOptions { frame_ns, ..ReframeOptions::default() };
        let error = reframe(&run, folder.path(), "anew", &options, |_| {}).expect_err("is damaged");
        assert!(error.is_damage() && error.to_string().contains("slow"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 0);
    }
}
