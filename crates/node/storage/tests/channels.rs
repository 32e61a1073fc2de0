//! Channels written, and read back whole and in part.

use crate::common;
use crate::signal;
use catchment_disk::{DirectReader, ReadFile};
use catchment_frame::{Codec, Span};
use catchment_storage::{Piece, Run, Segment, Select, StorageError};
use signal::{Signal, sample_bytes};

const NS: u64 = 1_000_000_000;

/// The bytes of a channel's samples.
fn expected(channel: usize, samples: std::ops::Range<u64>) -> Vec<u8> {
    samples.flat_map(|sample| sample_bytes(channel, sample)).collect()
}

fn check(channel: usize, segment: &Segment, samples: std::ops::Range<u64>) {
    assert_eq!(segment.first_sample, samples.start);
    assert_eq!(segment.samples, samples.end - samples.start);
    assert_eq!(segment.bytes, expected(channel, samples));
}

#[test]
fn a_channel_reads_as_one_piece_across_frames_and_files() {
    for codec in signal::CODINGS {
        let made = Signal { coding: codec, ..Signal::default() }.write();
        let run = Run::open(made.path()).expect("opens");
        assert!(run.closed() && run.files().len() > 1);
        assert_eq!(run.channels().len(), signal::CHANNELS.len());
        for (index, (name, rate)) in signal::CHANNELS.iter().enumerate() {
            let channel = run.channel(name).expect("is there");
            let segments = channel.read(&Select::All).expect("reads");
            assert_eq!(segments.len(), 1, "{name}");
            let rate: catchment_model::SampleRate = rate.parse().expect("a rate");
            let first = rate.first_sample_at(made.start_ns);
            let end = rate.first_sample_at(made.end_ns);
            check(index, &segments[0], first..end);
            assert_eq!(segments[0].start_ns, rate.time_ns(first));
            let time = channel.time_range().expect("reads").expect("has samples");
            assert_eq!(time, rate.time_ns(first)..rate.time_ns(end));
        }
        assert!(run.channel("none").is_none());
    }
}

#[test]
fn a_range_of_time_samples_or_frames_gives_exactly_these() {
    let made = Signal::default().write();
    let run = Run::open(made.path()).expect("opens");
    let channel = run.channel("fast").expect("is there");
    let rate = channel.info().rate;
    let first = rate.first_sample_at(made.start_ns);
    for (from, to) in [(0, 1), (100, 101), (255, 257), (1_000, 1_030), (300, 2_500)] {
        let segments = channel.read(&Select::Samples(first + from..first + to)).expect("reads");
        assert_eq!(segments.len(), 1);
        check(0, &segments[0], first + from..first + to);
    }
    // Half a sample before and after: the one in the middle, and nothing else.
    let sample = first + 777;
    let time = rate.time_ns(sample) - 1_000..rate.time_ns(sample) + 1_000;
    let segments = channel.read(&Select::TimeNs(time)).expect("reads");
    check(0, &segments[0], sample..sample + 1);
    let frames = channel.read(&Select::Frames(1..3)).expect("reads");
    let samples = |seconds: u64| rate.first_sample_at(made.start_ns + seconds * NS);
    check(0, &frames[0], samples(4)..samples(12));
    assert!(channel.read(&Select::TimeNs(0..made.start_ns)).expect("reads").is_empty());
    assert!(channel.read(&Select::Samples(5..5)).expect("reads").is_empty());
    assert!(channel.read(&Select::Frames(100..101)).expect("reads").is_empty());
}

#[test]
fn gaps_come_as_gaps_within_a_frame_and_between_frames() {
    // Frame 1 has a gap of 10 samples; frame 2 lacks the channel.
    let made = Signal { gap: true, ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let channel = run.channel("fast").expect("is there");
    let rate = channel.info().rate;
    let at = |seconds: u64| rate.first_sample_at(made.start_ns + seconds * NS);
    let segments = channel.read(&Select::All).expect("reads");
    assert_eq!(segments.len(), 3, "{:?}", segments.iter().map(|s| s.first_sample));
    check(0, &segments[0], at(0)..at(4) + 100);
    check(0, &segments[1], at(4) + 110..at(8));
    check(0, &segments[2], at(12)..at(made.seconds()));
    let inside = channel.read(&Select::Samples(at(4) + 90..at(4) + 112)).expect("reads");
    assert_eq!(inside.len(), 2);
    check(0, &inside[0], at(4) + 90..at(4) + 100);
    check(0, &inside[1], at(4) + 110..at(4) + 112);
    assert!(channel.read(&Select::Samples(at(4) + 100..at(4) + 110)).expect("reads").is_empty());
    let pieces = channel.pieces().expect("reads");
    assert_eq!(pieces[2].row, 100);
    // The other channels have none.
    assert_eq!(run.channel("slow").expect("is there").read(&Select::All).expect("reads").len(), 1);
}

#[test]
fn many_channels_read_together_are_what_they_are_alone() {
    for coding in signal::CODINGS {
        let made = Signal { coding, gap: true, ..Signal::default() }.write();
        let run = Run::open(made.path()).expect("opens");
        let indices: Vec<_> = (0..run.channels().len()).rev().collect();
        let half = Select::TimeNs(made.start_ns + 3 * NS..made.start_ns + 10 * NS + 7);
        for select in [Select::All, half] {
            let together = run.read_many(&indices, &select).expect("reads");
            for (index, segments) in indices.iter().zip(&together) {
                let alone = run.channel_at(*index).expect("is there").read(&select);
                assert_eq!(*segments, alone.expect("reads"));
            }
        }
        assert!(matches!(run.read_many(&[99], &Select::All), Err(StorageError::NoChannel { .. })));
    }
}

#[test]
fn nothing_is_read_that_was_not_asked_for() {
    let made = Signal::default().write();
    let run = Run::open(made.path()).expect("opens");
    let channel = run.channel("fast").expect("is there");
    let count = |select: &Select| {
        let before = run.bytes_read();
        let segments = channel.read(select).expect("reads");
        let bytes: usize = segments.iter().map(|segment| segment.bytes.len()).sum();
        (run.bytes_read() - before, bytes as u64)
    };
    // The first one also reads the lists of the TOCs: kilobytes, however many channels there are.
    let (read, bytes) = count(&Select::All);
    assert!((bytes..bytes + 16_384 * run.files().len() as u64).contains(&read), "{read} {bytes}");
    let (read, bytes) = count(&Select::All);
    assert_eq!(read, bytes);
    let first = channel.info().rate.first_sample_at(made.start_ns);
    // A short column is read as a whole when a part of it is first requested: that checks it.
    let (read, bytes) = count(&Select::Samples(first + 10..first + 60));
    assert_eq!((read, bytes), (256 * 4 * 4, 50 * 4));
    let (read, bytes) = count(&Select::Samples(first + 20..first + 70));
    assert_eq!((read, bytes), (50 * 4, 50 * 4));
}

/// Bytes of a frame of four seconds of the channel `wide`: 1 MiB.
fn wide(seed: u32) -> Vec<u8> {
    (0..1_u32 << 18).flat_map(|n| (n ^ seed).wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// Whether these bytes are only on the disk, and can be read from there directly.
fn is_cold(file: &ReadFile, offset: u64) -> bool {
    let direct = DirectReader::take().is_some_and(|mut reader| reader.can_read(file));
    let cold = direct && file.is_cached(offset) == Some(false);
    if !cold {
        eprintln!(
            "nothing to test: temporary files are in memory, or cannot be read past the cache"
        );
    }
    cold
}

#[test]
fn the_first_read_passes_the_page_cache_and_the_second_fills_it() {
    let bytes = wide(1);
    let (folder, offset) = signal::write_wide(&[bytes.clone(), wide(2)]);
    let run = Run::open(folder.path()).expect("opens");
    let file = ReadFile::open(run.files().next().expect("a file").path).expect("opens");
    // Each offset is queried once: a query begins to read there.
    let eighth = |eighth: u64| offset + bytes.len() as u64 / 8 * eighth;
    if !is_cold(&file, eighth(1)) {
        return;
    }
    let read = || {
        let before = run.bytes_read();
        let channel = run.channel("wide").expect("is there");
        let segments = channel.read(&Select::Frames(0..1)).expect("reads");
        assert!(segments[0].bytes == bytes);
        assert!(run.bytes_read() - before >= bytes.len() as u64);
    };
    read();
    assert_eq!(file.is_cached(eighth(3)), Some(false));
    read();
    assert_eq!(file.is_cached(eighth(5)), Some(true));
    read();
}

#[test]
fn many_threads_read_past_the_page_cache_what_was_written() {
    let frames: Vec<_> = (0..12).map(wide).collect();
    let (folder, offset) = signal::write_wide(&frames);
    let run = Run::open(folder.path()).expect("opens");
    let path = run.files().next().expect("a file").path.to_owned();
    let file = ReadFile::open(&path).expect("opens");
    is_cold(&file, offset + 300_000);
    let channel = run.channel("wide").expect("is there");
    // Not the last: its end is near that of the file.
    let segments = channel.read(&Select::Frames(0..11)).expect("reads");
    assert!(segments[0].bytes == frames[..11].concat());

    // Damage in the fifth, with everything only on the disk again.
    let id = channel.info().id;
    signal::damage_column(&path, 5, id);
    signal::forget(&path);
    let run = Run::open(folder.path()).expect("opens");
    is_cold(&file, offset + 300_000);
    match run.channel("wide").expect("is there").read(&Select::Frames(0..11)) {
        Err(StorageError::Column { frame, channel, .. }) => {
            assert_eq!((frame, channel.as_deref()), (5, Some("wide")));
        }
        other => panic!("{:?}", other.map(|segments| segments.len())),
    }
}

#[test]
fn an_encoded_column_is_read_once_however_many_gaps_it_has() {
    let made = Signal { gap: true, coding: "bitshuffle+lz4", ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let channel = run.channel("fast").expect("is there");
    let pieces = channel.pieces().expect("reads");
    let mut columns: Vec<_> =
        pieces.iter().map(|piece| (piece.frame, piece.entry.stored_bytes)).collect();
    columns.dedup();
    assert!(columns.len() < pieces.len());
    channel.read(&Select::All).expect("reads");
    let before = run.bytes_read();
    channel.read(&Select::All).expect("reads");
    let stored: u64 = columns.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(run.bytes_read() - before, stored);
}

#[test]
fn what_is_asked_for_again_comes_from_memory_and_is_the_same() {
    for coding in signal::CODINGS {
        let made = Signal { gap: true, coding, ..Signal::default() }.write();
        let run = Run::open(made.path()).expect("opens");
        let channel = run.channel("fast").expect("is there");
        let first = channel.info().rate.first_sample_at(made.start_ns);
        let encoded = |piece: &Piece| piece.entry.codec != Codec::None;
        let is_encoded = channel.pieces().expect("reads").iter().all(encoded);
        let ranges = [(0, 1), (2_000, 2_100), (1_000, 3_500), (1_100, 1_150), (0, 9_000)];
        // Small or whole reads, requested once, twice and three times, before the others and after.
        for turn in 0..3 {
            for &(from, to) in &ranges {
                let wanted = Select::Samples(first + from..first + to);
                for segment in channel.read(&wanted).expect("reads") {
                    let end = segment.first_sample + segment.samples;
                    check(0, &segment, segment.first_sample..end);
                }
            }
            let before = run.bytes_read();
            let all = channel.read(&Select::All).expect("reads");
            assert_eq!(all.len(), 3);
            let from_memory = run.bytes_read() == before;
            // Data that only this requests are kept the second time.
            let expected = is_encoded && turn > 1;
            assert!(turn == 1 || from_memory == expected, "{coding}, turn {turn}");
        }

        // Without memory for it, or in a reopened run, it is read again.
        let run = Run::open_with_cache(made.path(), 0).expect("opens");
        let channel = run.channel("fast").expect("is there");
        for _ in 0..3 {
            let before = run.bytes_read();
            assert_eq!(channel.read(&Select::All).expect("reads").len(), 3);
            assert!(run.bytes_read() > before);
        }
    }
}

#[test]
fn a_damaged_column_is_refused_however_often_it_is_asked_for() {
    let made = Signal { coding: "bitshuffle+lz4", ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let piece = run.channel("fast").expect("is there").pieces().expect("reads")[0];
    let frame = run.channel_frames()[piece.frame];
    let path = run.files().nth(frame.file).expect("a file").path.to_owned();
    signal::damage_column(&path, frame.index, piece.entry.id);
    let run = Run::open(made.path()).expect("opens");
    let channel = run.channel("fast").expect("is there");
    let one = piece.first_sample..piece.first_sample + 1;
    for select in [Select::Samples(one), Select::Frames(0..1)] {
        for _ in 0..4 {
            let read = channel.read(&select);
            assert!(matches!(read, Err(StorageError::Column { frame: 0, .. })), "{read:?}");
        }
    }
}

#[test]
fn frames_with_the_same_samples_are_read_one_by_one() {
    // As left by a recorder after a clock was set back.
    let (folder, mut writer) = Signal::default().begin();
    signal::write_one(&mut writer, &[], 1).expect("can be");
    signal::write_one(&mut writer, &[Span { row: 4, sample: 1 << 40 }], 2).expect_err("too late");
    signal::write_one(&mut writer, &[], 2).expect("can be");
    writer.finish(catchment_storage::Ending::default()).expect("ends");
    let run = Run::open(folder.path()).expect("opens");
    let channel = run.channel("fast").expect("is there");
    let pieces = channel.pieces().expect("reads");
    assert_eq!(pieces.len(), 2);
    for (piece, byte) in pieces.iter().zip([1, 2]) {
        let samples = piece.first_sample + 2..piece.first_sample + 5;
        let select = Select::FrameSamples(piece.frame, samples.clone());
        let read = channel.read(&select).expect("reads");
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].first_sample, read[0].samples), (samples.start, 3));
        assert_eq!(read[0].bytes, [byte; 12]);
    }
    let none = Select::FrameSamples(usize::MAX, 0..u64::MAX);
    assert!(channel.read(&none).expect("reads").is_empty());
}

#[test]
fn damage_to_one_column_is_named_and_costs_no_other() {
    let made = Signal::default().write();
    let run = Run::open(made.path()).expect("opens");
    let piece = run.channel("slow").expect("is there").pieces().expect("reads")[1];
    let frame = run.channel_frames()[piece.frame];
    let path = run.files().nth(frame.file).expect("a file").path.to_owned();
    let id = run.channel("slow").expect("is there").info().id;
    drop(run);
    signal::damage_column(&path, frame.index, id);
    let run = Run::open(made.path()).expect("opens");
    match run.channel("slow").expect("is there").read(&Select::All) {
        Err(StorageError::Column { path: got, frame: index, channel, .. }) => {
            assert_eq!((got, index, channel.as_deref()), (path, frame.index, Some("slow")));
        }
        other => panic!("{other:?}"),
    }
    let rest = Select::Frames(0..1);
    run.channel("slow").expect("is there").read(&rest).expect("the other frames read");
    run.channel("fast").expect("is there").read(&Select::All).expect("other channels read");
    let report = catchment_storage::verify(&run, |_| {});
    assert_eq!(report.problem_count, 1);
    assert_eq!(report.problems[0].channel.as_deref(), Some("slow"));
}

#[test]
fn spans_that_cannot_be_are_not_written() {
    let mut writer = Signal::default().begin().1;
    for spans in [
        [Span { row: 0, sample: 1 << 40 }],
        [Span { row: 5, sample: 0 }],
        [Span { row: 1 << 30, sample: 1 << 40 }],
    ] {
        let error = signal::write_one(&mut writer, &spans, 0).expect_err("cannot be");
        assert!(matches!(error, StorageError::Unwritable { .. }), "{error}");
    }
    signal::write_one(&mut writer, &[], 0).expect("can be");
}

#[test]
fn a_whole_copy_in_a_later_file_is_given_in_the_place_of_the_damaged_first() {
    let made = Signal { frames: 16, coding: "lz4", ..Signal::default() }.write();
    let read = || {
        let run = Run::open(made.path()).expect("opens");
        let indices: Vec<_> = (0..run.channels().len()).collect();
        run.read_many(&indices, &Select::All).expect("reads")
    };
    let whole = read();
    let run = Run::open(made.path()).expect("opens");
    let paths: Vec<_> = run.files().map(|file| file.path.to_owned()).collect();
    let slow = run.channel("slow").expect("is there").info().id;
    drop(run);
    let mut copy = Vec::new();
    common::change_frames(&paths[0], |frames| copy = frames[1].clone());
    common::change_frames(&paths[1], |frames| frames.push(copy));
    signal::damage_column(&paths[0], 1, slow);
    assert_eq!(read(), whole);
    let run = Run::open(made.path()).expect("opens");
    let times = run.channel_frames().iter().map(|frame| frame.summary.info.time_first_ns);
    assert!(times.is_sorted() && run.damaged_copies().len() == 1);
    assert_eq!((run.channel_frame_at(0, 1), run.channel_frame_at(1, 6)), (None, Some(1)));
}
