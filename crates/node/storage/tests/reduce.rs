//! Reduced data sets: channels selected, some of them decimated.

use std::ops::ControlFlow;

use crate::common;
use crate::signal;
use catchment_frame::{ChannelInfo, Dtype, Schema, Span};
use catchment_model::SampleRate;
use catchment_storage::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, NewRun, ReduceOptions, Run, RunWriter, Select,
    Selection, StorageError, Verdict, WriteOptions, audit, reduce, verify,
};
use signal::Signal;

const NS: u64 = 1_000_000_000;
const START_S: u64 = 1_795_219_200;
const FRAMES: u64 = 40;

/// A sine of 1 Hz, in integers of up to 1,000.
fn sine(folder: &std::path::Path) {
    write(folder, |sample| (std::f64::consts::TAU * (sample % 256) as f64 / 256.0).sin(), 1_000.0);
}

/// A wave at 256 Hz in frames of 4 s, as floats and times a number as integers; frame 20 lacks its
/// samples 100 to 149.
fn write(folder: &std::path::Path, wave: impl Fn(u64) -> f64, times: f64) {
    let rate = SampleRate::new(256, 1).expect("a rate");
    let channels =
        vec![ChannelInfo::new("f32", Dtype::F32, rate), ChannelInfo::new("i16", Dtype::I16, rate)];
    let schema = Schema::channels(Vec::new(), channels).expect("a schema");
    let ids: Vec<_> = schema.columns.iter().filter_map(ChannelInfo::of).map(|c| c.id).collect();
    let run = NewRun::new(folder, "sine", schema).expect("a run");
    let mut writer = RunWriter::create(run, WriteOptions::small()).expect("begins");
    for frame in 0..FRAMES {
        let (start_ns, end_ns) = ((START_S + 4 * frame) * NS, (START_S + 4 * frame + 4) * NS);
        let first_sample = rate.first_sample_at(start_ns);
        let gap = frame == 20;
        let rows = (0..1_024u64).filter(|row| !gap || !(100..150).contains(row));
        let values: Vec<f64> = rows.map(|row| wave(first_sample + row)).collect();
        let floats: Vec<u8> = values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
        let ints = values.iter().flat_map(|v| ((v * times).round() as i16).to_le_bytes());
        let ints: Vec<u8> = ints.collect();
        let spans = [Span { row: 100, sample: first_sample + 150 }];
        let spans = if gap { &spans[..] } else { &[] };
        let column =
            |id, bytes| ChannelColumn { id, first_sample, spans, samples: ColumnData::Raw(bytes) };
        let columns = vec![column(ids[0], &floats), column(ids[1], &ints)];
        let (keys, increments) = ((0, 0), None);
        let frame = ChannelFrame { start_ns, end_ns, columns, keys, increments };
        writer.write_channels(frame).expect("writes");
    }
    writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends");
}

fn selection(pattern: &str, rate: Option<&str>) -> Selection {
    let rate = rate.map(|text| text.parse().expect("a rate"));
    Selection { pattern: pattern.parse().unwrap(), rate }
}

#[test]
fn a_decimated_sine_is_the_sine_at_the_new_times_and_gaps_stay_gaps() {
    let (source, target) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let target = target.expect("a folder");
    sine(source.path());
    let run = Run::open(source.path()).expect("opens");
    let select = vec![selection("*", Some("32"))];
    for frame_ns in [None, Some(7 * NS), Some(3_600 * NS)] {
        let folder = target.path().join(format!("{frame_ns:?}"));
        let options =
            ReduceOptions { select: select.clone(), frame_ns, ..ReduceOptions::default() };
        let report = reduce(&run, &folder, "reduced", &options, go_on).expect("writes");
        assert_eq!((report.decimated.len(), report.saturated), (2, 0));
        let reduced = Run::open(&folder).expect("opens");
        assert!(verify(&reduced, |_| {}).is_intact() && reduced.ended());
        assert_eq!(audit(&reduced).expect("reads").verdict, Verdict::Balanced);
        for (name, scale) in [("f32", 1.0), ("i16", 1_000.0)] {
            let channel = reduced.channel(name).expect("is there");
            assert_eq!((channel.info().dtype, channel.info().rate.num()), (Dtype::F32, 32));
            let segments = channel.read(&Select::All).expect("reads");
            assert_eq!(segments.len(), 2, "before and behind the gap");
            // Half of the filter's support is missing at each of the four ends.
            let samples: u64 = segments.iter().map(|segment| segment.samples).sum();
            assert!((FRAMES * 128 - 4 * 30..FRAMES * 128).contains(&samples), "{samples}");
            for segment in segments {
                let (values, _) = segment.bytes.as_chunks::<4>();
                for (row, bytes) in values.iter().enumerate() {
                    let sample = segment.first_sample + row as u64;
                    let phase = std::f64::consts::TAU * (sample % 32) as f64 / 32.0;
                    let got = f64::from(f32::from_le_bytes(*bytes));
                    let error = (got - scale * phase.sin()).abs();
                    assert!(error < 2e-3 * scale, "{name} {sample}: {got}");
                }
            }
        }
    }
}

#[test]
fn integers_that_pass_their_limits_are_set_to_them_and_counted() {
    let (source, target) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let target = target.expect("a folder");
    // A square wave of full scale: the filter overshoots at every edge.
    write(source.path(), |sample| if sample / 32 % 2 == 0 { 1.0 } else { -1.0 }, 32_767.0);
    let run = Run::open(source.path()).expect("opens");
    let reduced = |keep_dtype: bool| {
        let folder = target.path().join(keep_dtype.to_string());
        let select = vec![selection("i16", Some("32"))];
        let options = ReduceOptions { select, keep_dtype, ..ReduceOptions::default() };
        let report = reduce(&run, &folder, "reduced", &options, go_on).expect("writes");
        let reduced = Run::open(&folder).expect("opens");
        let segments = reduced.channel("i16").expect("is there").read(&Select::All);
        let bytes: Vec<u8> =
            segments.expect("reads").into_iter().flat_map(|segment| segment.bytes).collect();
        (report.saturated, bytes)
    };
    let (none, floats) = reduced(false);
    let (saturated, integers) = reduced(true);
    let floats: Vec<f32> =
        floats.as_chunks().0.iter().map(|one| f32::from_le_bytes(*one)).collect();
    let integers: Vec<i16> =
        integers.as_chunks().0.iter().map(|one| i16::from_le_bytes(*one)).collect();
    assert_eq!(floats.len(), integers.len());
    let limits = f32::from(i16::MIN)..=f32::from(i16::MAX);
    let beyond = floats.iter().filter(|value| !limits.contains(&value.round_ties_even()));
    assert_eq!((none, saturated), (0, beyond.count() as u64));
    assert!(saturated > 100, "{saturated}");
    for (float, integer) in floats.iter().zip(&integers) {
        let expected = float.round_ties_even().clamp(*limits.start(), *limits.end());
        assert!((expected - f32::from(*integer)).abs() <= 1.0, "{float} became {integer}");
    }
}

#[test]
fn channels_that_are_not_above_the_rate_are_kept_as_they_are() {
    let made = Signal { gap: true, ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let folder = tempfile::tempdir().expect("a folder");
    let select = vec![selection("*o*", None), selection("fast", None), selection("m*", Some("1"))];
    let options = ReduceOptions { select, ..ReduceOptions::default() };
    let report = reduce(&run, folder.path(), "reduced", &options, go_on).expect("writes");
    assert!(report.decimated.is_empty());
    let reduced = Run::open(folder.path()).expect("opens");
    let names: Vec<_> = reduced.channels().iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["fast", "slow", "odd", "minute"]);
    for name in names {
        let read = |run: &Run| run.channel(name).expect("is there").read(&Select::All);
        assert_eq!(read(&reduced).expect("reads"), read(&run).expect("reads"));
    }
    assert_ne!(reduced.header().run, run.header().run);
}

#[test]
fn what_cannot_be_reduced_is_said_and_leaves_no_file() {
    let made = Signal::default().write();
    let run = Run::open(made.path()).expect("opens");
    let folder = tempfile::tempdir().expect("a folder");
    for select in [
        vec![selection("nothing*", None)],
        // 256 to 100 is not a whole factor.
        vec![selection("fast", Some("100"))],
    ] {
        let options = ReduceOptions { select, ..ReduceOptions::default() };
        let error = reduce(&run, folder.path(), "reduced", &options, go_on).expect_err("cannot");
        assert!(matches!(error, StorageError::Unwritable { .. }), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 0);
}

#[test]
fn a_damaged_column_is_a_gap_that_is_named() {
    let made = Signal { coding: "lz4", ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let damaged = ["fast", "slow"].map(|name| {
        let channel = run.channel(name).expect("is there");
        let piece = channel.pieces().expect("reads")[5];
        let frame = run.channel_frames()[piece.frame];
        let path = run.files().nth(frame.file).expect("a file").path.to_owned();
        signal::damage_column(&path, frame.index, channel.info().id);
        channel.info().rate.time_ns(piece.first_sample)
            ..channel.info().rate.time_ns(piece.end_sample())
    });
    let run = Run::open(made.path()).expect("opens");
    let folder = tempfile::tempdir().expect("a folder");
    let select = vec![selection("*", None), selection("fast", Some("64"))];
    let options = ReduceOptions { select, ..ReduceOptions::default() };
    let report = reduce(&run, folder.path(), "reduced", &options, go_on).expect("writes");
    let [fast, slow] = &report.write.left_out[..] else { panic!("{:?}", report.write.left_out) };
    assert!(fast.contains("frame 5, channel fast") && slow.contains("frame 5, channel slow"));
    let reduced = Run::open(folder.path()).expect("opens");
    assert!(reduced.lost_data());
    for (name, damaged) in ["fast", "slow"].iter().zip(damaged) {
        let channel = reduced.channel(name).expect("is there");
        assert!(
            channel.read(&Select::TimeNs(damaged.clone())).expect("reads").is_empty(),
            "{name}"
        );
        let [before, after] = &channel.read(&Select::All).expect("reads")[..] else {
            panic!("{name}: one gap")
        };
        let end = channel.info().rate.time_ns(before.first_sample + before.samples);
        // Next to the gap the filter lacks neighbours.
        let edge_ns = NS;
        assert!(
            end + edge_ns >= damaged.start && after.start_ns <= damaged.end + edge_ns,
            "{name}"
        );
    }
}

#[test]
fn samples_whose_times_do_not_fit_64_bits_are_left_out_and_named() {
    let (source, target) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let target = target.expect("a folder");
    sine(source.path());
    let paths: Vec<_> =
        Run::open(source.path()).expect("opens").files().map(|file| file.path.to_owned()).collect();
    for path in &paths {
        // Samples numbered at 256 Hz are four hundred thousand million seconds at about 1 Hz.
        common::change_header(path, 3, |metadata| {
            let columns = metadata["schema"]["columns"].as_array_mut().expect("columns");
            let column = columns.iter_mut().find(|column| column["name"] == "f32");
            column.expect("is there")["rate"] = serde_json::json!([1u64 << 40, (1u64 << 40) - 1]);
        });
    }
    let run = Run::open(source.path()).expect("opens");
    let options = ReduceOptions { select: vec![selection("*", None)], ..ReduceOptions::default() };
    let report = reduce(&run, target.path(), "reduced", &options, go_on).expect("writes");
    let left_out = &report.write.left_out;
    assert_eq!(left_out.len() as u64, FRAMES, "{left_out:?}");
    assert!(left_out.iter().all(|line| line.contains("channel f32") && line.contains("64 bits")));
    let reduced = Run::open(target.path()).expect("opens");
    assert!(reduced.lost_data());
    let read = |run: &Run, name| run.channel(name).expect("is there").read(&Select::All);
    assert_eq!(read(&reduced, "i16").expect("reads"), read(&run, "i16").expect("reads"));
    assert!(read(&reduced, "f32").expect("reads").is_empty());
}

fn go_on(_: catchment_storage::Done) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
