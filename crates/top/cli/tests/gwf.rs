//! `catchment convert` between runs and GWF files: what comes back, and what damage costs.

use crate::support;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use catchment_frame::{ChannelInfo, Dtype, Schema};
use catchment_interop::gwf::{
    Compress, FrameStart, GwfWriter, Series, SeriesKind, VectorType, WriteOptions,
};
use catchment_model::{SampleRate, TimeScale};
use catchment_storage::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, NewRun, Run, RunWriter, Select,
    WriteOptions as RunOptions,
};
use serde_json::{Value, json};

/// Converts, asserts the exit code and returns the report.
fn convert(folder: &Path, arguments: &[&str], code: i32) -> Value {
    let arguments = [&["convert"], arguments, &["--json"]].concat();
    serde_json::from_str(&support::stdout(folder, &arguments, code)).expect("JSON")
}

/// What was left out, and the beginnings that are expected.
fn assert_left_out(report: &Value, expected: &[&str]) {
    let left_out: Vec<&str> =
        report["left_out"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(left_out.len(), expected.len(), "{left_out:#?}");
    for (text, expected) in left_out.iter().zip(expected) {
        assert!(text.starts_with(expected), "{text:?}, expected {expected:?}");
    }
}

const NS_PER_S: u64 = 1_000_000_000;
/// In GPS time. A multiple of 60.
const START_S: u32 = 1_400_000_040;

fn channel(name: &str, dtype: Dtype, num: u64, den: u64, scale: TimeScale) -> ChannelInfo {
    let info = ChannelInfo::new(name, dtype, SampleRate::new(num, den).unwrap());
    ChannelInfo { unit: "V".into(), time_scale: scale, ..info }
}

/// The samples of those numbers: each is its number, in as many bytes as it has.
fn samples(info: &ChannelInfo, numbers: std::ops::Range<u64>) -> Vec<u8> {
    let bytes = info.sample_bytes() as usize;
    numbers.flat_map(|number| number.to_le_bytes()[..bytes].to_vec()).collect()
}

/// Writes a run of these channels with a frame for each of these ranges of seconds.
fn write_run(folder: &Path, channels: &[ChannelInfo], frames: &[std::ops::Range<u64>]) {
    let schema = Schema::channels(Vec::new(), channels.to_vec()).unwrap();
    let infos: Vec<ChannelInfo> = schema.columns.iter().filter_map(ChannelInfo::of).collect();
    let new = NewRun::new(folder, "run", schema).unwrap();
    let mut writer = RunWriter::create(new, RunOptions::small()).unwrap();
    for seconds in frames {
        let (start_ns, end_ns) = (seconds.start * NS_PER_S, seconds.end * NS_PER_S);
        let numbers = |info: &ChannelInfo| {
            info.rate.first_sample_at(start_ns)..info.rate.first_sample_at(end_ns)
        };
        let bytes: Vec<_> = infos.iter().map(|info| samples(info, numbers(info))).collect();
        let columns = infos.iter().zip(&bytes).map(|(info, bytes)| ChannelColumn {
            id: info.id,
            first_sample: numbers(info).start,
            spans: &[],
            samples: ColumnData::Raw(bytes),
        });
        let columns = columns.collect();
        let frame = ChannelFrame { start_ns, end_ns, columns, keys: (0, 0), increments: None };
        writer.write_channels(frame).unwrap();
    }
    writer.finish(Ending { run_ended: true, ..Ending::default() }).unwrap();
}

/// By name: what a channel is, and its samples by the number of each piece's first.
type Contents = BTreeMap<String, (ChannelInfo, Vec<(u64, Vec<u8>)>)>;

fn read_run(folder: PathBuf) -> Contents {
    let run = Run::open(folder).unwrap();
    let mut contents = Contents::new();
    for info in run.channels() {
        let segments = run.channel(&info.name).unwrap().read(&Select::All).unwrap();
        let pieces = segments.into_iter().map(|segment| (segment.first_sample, segment.bytes));
        // Absent means 1 and 0; ids may differ.
        let (scale, offset) = (info.scale.unwrap_or(1.0), info.offset.unwrap_or(0.0));
        let info = ChannelInfo { id: 0, scale: Some(scale), offset: Some(offset), ..info.clone() };
        contents.insert(info.name.clone(), (info, pieces.collect()));
    }
    contents
}

fn joined(pieces: &[(u64, Vec<u8>)]) -> Vec<u8> {
    pieces.iter().flat_map(|(_, bytes)| bytes).copied().collect()
}

#[test]
fn a_run_that_became_gwf_files_comes_back_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for scale in [TimeScale::Tai, TimeScale::Utc, TimeScale::Gps] {
        let channel = |name, dtype, num, den| channel(name, dtype, num, den, scale);
        let scaled = |name, scale, offset| ChannelInfo {
            scale: Some(scale),
            offset: Some(offset),
            ..channel(name, Dtype::I16, 16, 1)
        };
        let channels = [
            channel("X1:FAST", Dtype::F32, 256, 1),
            channel("X1:TENTH", Dtype::F64, 1, 10),
            channel("X1:MINUTE", Dtype::I64, 1, 60),
            channel("X1:THIRDS", Dtype::F32, 10, 3),
            channel("X1:HALVES", Dtype::U8, 121, 2),
            channel("X1:ODD", Dtype::U16, 7_919, 97),
            channel("X1:DECIMALS", Dtype::U16, 5_000, 617),
            scaled("X1:SCALED", 0.001, -3.25),
            scaled("X1:NEARLY", 1.000_000_000_1, 0.0),
            scaled("X1:EXACT", 0.25, 1.5),
        ];
        let from = TimeScale::Gps.convert_ns(scale, u64::from(START_S) * NS_PER_S) / NS_PER_S + 7;
        let run = format!("run-{scale}");
        write_run(&path.join(&run), &channels, &[from..from + 50, from + 50..from + 191]);
        let before = read_run(path.join(&run));
        for frame in ["64", "7", "1000"] {
            let (out, again) = (format!("out-{scale}-{frame}"), format!("again-{scale}-{frame}"));
            let summary = convert(path, &[&run, &out, "--frame-seconds", frame], 0);
            assert_left_out(&summary, &[]);
            assert_eq!(summary["channels_scaled"], 3);
            let summary = convert(path, &[&out, &again], 0);
            assert_left_out(&summary, &[]);
            assert_eq!(summary["notes"], json!([]));
            let after = read_run(path.join(&again));
            assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
            for (name, (info, pieces)) in &before {
                let (info_after, pieces_after) = &after[name];
                assert_eq!(info_after, info, "{frame} s");
                assert_eq!(pieces_after[0].0, pieces[0].0, "{scale} {name} {frame} s");
                let same = joined(pieces_after) == joined(pieces);
                assert!(same, "{scale} {name} {frame} s: other samples");
            }
        }
    }
}

/// Writes a GWF file with frames of 4 s from [`START_S`] on: in each frame of the list these
/// series.
fn write_gwf(path: &Path, frames: &[Vec<Series<'_>>]) {
    let options = WriteOptions { compress: Compress::Raw, ..WriteOptions::new("test") };
    let mut writer = GwfWriter::new(Vec::new(), options).unwrap();
    for (number, series) in frames.iter().enumerate() {
        let start = FrameStart::new(START_S + 4 * number as u32, 4.0);
        writer.frame(&start, series).unwrap();
    }
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

/// Four seconds at 16 Hz, of that byte.
fn series(name: &'static str, bytes: &'static [u8; 64]) -> Series<'static> {
    Series::new(name, VectorType::U8, 1.0 / 16.0, bytes)
}

#[test]
fn slow_channels_decide_the_time_scale_where_files_do_not_state_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let slow = |start_s| Series { start_s, ..Series::new("X1:SLOW", VectorType::U8, 10.0, b"s") };
    // A multiple of 10 s in GPS time, TAI or UTC; and in none of them.
    for (start_s, scale, seconds) in [
        (0.0, TimeScale::Gps, u64::from(START_S)),
        (1.0, TimeScale::Tai, u64::from(START_S) + 1 + 315_964_819),
        (8.0, TimeScale::Utc, u64::from(START_S) + 8 + 315_964_782),
    ] {
        let (gwf, run) = (format!("{scale}.gwf"), format!("run-{scale}"));
        write_gwf(&path.join(&gwf), &[vec![series("X1:A", &[1; 64]), slow(start_s)]]);
        let summary = convert(path, &[&gwf, &run], 0);
        assert_eq!(summary["samples"], 65);
        let contents = read_run(path.join(&run));
        let (info, pieces) = &contents["X1:SLOW"];
        assert_eq!(info.time_scale, scale);
        assert_eq!(pieces, &[(seconds / 10, b"s".to_vec())]);
        let (info, pieces) = &contents["X1:A"];
        assert_eq!(info.time_scale, scale);
        let start_ns = TimeScale::Gps.convert_ns(scale, u64::from(START_S) * NS_PER_S);
        assert_eq!(pieces, &[(start_ns / NS_PER_S * 16, vec![1; 64])]);
    }
    // The one that is on no grid costs itself, and one that is on another grid than the rest.
    let other = Series { name: "X1:TAI", ..slow(1.0) };
    let frame =
        vec![series("X1:A", &[1; 64]), slow(2.0), Series { name: "X1:B", ..slow(0.0) }, other];
    write_gwf(&path.join("odd.gwf"), &[frame]);
    let summary = convert(path, &["odd.gwf", "odd"], 3);
    let expected = [
        "X1:SLOW: its samples at 1/10 Hz begin at GPS 1400000042, which is no multiple",
        "X1:TAI: its samples at 1/10 Hz begin at GPS 1400000041, which is no multiple",
    ];
    assert_left_out(&summary, &expected);
    let contents = read_run(path.join("odd"));
    assert_eq!(contents.keys().collect::<Vec<_>>(), ["X1:A", "X1:B"]);
    assert_eq!(contents["X1:A"].1[0].1, vec![1; 64]);
}

#[test]
fn a_damaged_vector_costs_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let frames = [[1; 64], [2; 64], [3; 64], [4; 64]].map(|bytes: [u8; 64]| {
        let bytes: &'static [u8; 64] = Box::leak(Box::new(bytes));
        vec![series("X1:A", bytes), series("X1:B", bytes)]
    });
    write_gwf(&path.join("whole.gwf"), &frames);
    let whole = std::fs::read(path.join("whole.gwf")).unwrap();
    // In each frame X1:A comes first.
    let vector =
        |bytes: &[u8], of: u8| bytes.windows(64).position(|window| window == [of; 64]).unwrap();
    for (of, left) in [(1, [2, 3, 4]), (3, [1, 2, 4])] {
        let mut bytes = whole.clone();
        let at = vector(&bytes, of);
        bytes[at] ^= 4;
        std::fs::write(path.join("a.gwf"), &bytes).unwrap();
        let run = format!("run-{of}");
        let summary = convert(path, &["a.gwf", &run], 3);
        let second = 1_400_000_036 + 4 * u32::from(of);
        let expected =
            format!("X1:A: 1 vectors that cannot be read, from GPS {second} on: FrVect at");
        assert_left_out(&summary, &[&expected]);
        assert_eq!(summary["samples"], 7 * 64);
        let contents = read_run(path.join(&run));
        let bytes = |of: &[u8]| of.iter().flat_map(|byte| [*byte; 64]).collect::<Vec<u8>>();
        assert_eq!(joined(&contents["X1:A"].1), bytes(&left));
        assert_eq!(joined(&contents["X1:B"].1), bytes(&[1, 2, 3, 4]));
        // What is missing is a gap.
        let first = contents["X1:A"].1[0].0;
        let begin = u64::from(START_S) * 16 + 64 * u64::from(of == 1);
        assert_eq!(first, begin);
    }
    // One of which nothing can be read costs that channel.
    let mut bytes = whole;
    for of in 1..=4 {
        let at = vector(&bytes, of);
        bytes[at] ^= 4;
    }
    std::fs::write(path.join("none.gwf"), &bytes).unwrap();
    let summary = convert(path, &["none.gwf", "run"], 3);
    assert_left_out(
        &summary,
        &["X1:A: 4 vectors that cannot be read, from GPS 1400000040 on: FrVect"],
    );
    assert_eq!(joined(&read_run(path.join("run"))["X1:B"].1).len(), 4 * 64);
}

#[test]
fn a_channel_that_changes_costs_the_vectors_that_differ() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let one = series("X1:A", &[1; 64]);
    let frames = [
        vec![one, series("X1:B", &[2; 64])],
        vec![Series { dx_s: 1.0 / 8.0, ..one }, series("X1:B", &[2; 64])],
        vec![Series { unit: "V", ..one }, series("X1:B", &[2; 64])],
        vec![Series { samples_kind: VectorType::I16, ..one }, series("X1:B", &[2; 64])],
        vec![one, Series { start_s: -1.0, ..series("X1:B", &[2; 64]) }],
        vec![Series { kind: SeriesKind::Adc { bias: 1.0, slope: 2.0 }, ..one }],
    ];
    write_gwf(&path.join("a.gwf"), &frames);
    let summary = convert(path, &["a.gwf", "run"], 3);
    let expected = [
        "a.gwf: X1:A is there twice, as Adc and as Proc: 5 vectors of the latter",
        "X1:B: 1 vectors that do not fit, from GPS 1400000056 on: samples from GPS 1400000055 on",
    ];
    // FrAdcData stands first in the FrTOC, so that its 64 samples are the channel.
    assert_left_out(&summary, &expected);
    assert_eq!(read_run(path.join("run"))["X1:A"].1.len(), 1);

    write_gwf(&path.join("b.gwf"), &frames[..5]);
    let summary = convert(path, &["b.gwf", "other"], 3);
    let expected = [
        "X1:A: 3 vectors that do not fit, from GPS 1400000044 on: the rate is 8 Hz, before 16 Hz",
        "X1:B: 1 vectors that do not fit, from GPS 1400000056 on: samples from GPS 1400000055 on",
    ];
    assert_left_out(&summary, &expected);
    let contents = read_run(path.join("other"));
    assert_eq!(joined(&contents["X1:A"].1), [1; 128]);
    assert_eq!(joined(&contents["X1:B"].1), [2; 256]);
}

#[test]
fn a_channel_that_no_run_can_hold_costs_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let good = series("X1:GOOD", &[1; 64]);
    let adc = |bias, slope| SeriesKind::Adc { bias, slope };
    let frames = [vec![
        good,
        Series { name: "X1:BIAS", kind: adc(f32::NAN, 1.0), ..good },
        Series { name: "X1:SLOPE", kind: adc(0.0, f32::INFINITY), ..good },
        Series { name: "X1:RATE", dx_s: 0.1234, ..good },
        Series { name: "X1:EARLY", start_s: -1e10, ..good },
        Series { name: "X1:FAR", start_s: 1e15, ..good },
    ]];
    write_gwf(&path.join("a.gwf"), &frames);
    let summary = convert(path, &["a.gwf", "run"], 3);
    let expected = [
        "X1:BIAS: column 2: offset",
        "X1:SLOPE: column 2: scale",
        "X1:EARLY: its samples begin -10000000000 s behind the frame's start",
        "X1:FAR: its samples begin 1000000000000000 s behind the frame's start",
        "X1:RATE: the sample spacing of 0.1234 s",
    ];
    assert_left_out(&summary, &expected);
    assert_eq!(joined(&read_run(path.join("run"))["X1:GOOD"].1), [1; 64]);
}

#[test]
fn numbers_at_the_end_of_all_numbers_are_no_danger() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // At 2^32 Hz the last second of GPS time in frames ends with sample 2^64 - 1.
    let mut writer = GwfWriter::new(Vec::new(), WriteOptions::new("test")).unwrap();
    let late = Series {
        start_s: 0.999_999_999,
        ..Series::new("X1:LATE", VectorType::U8, 1.0 / 4_294_967_296.0, &[7; 100])
    };
    let good = Series::new("X1:GOOD", VectorType::U8, 1.0 / 4.0, &[7; 4]);
    writer.frame(&FrameStart::new(u32::MAX, 1.0), &[good, late]).unwrap();
    std::fs::write(path.join("a.gwf"), writer.finish().unwrap()).unwrap();
    let summary = convert(path, &["a.gwf", "run"], 3);
    let expected =
        "X1:LATE: 1 vectors that do not fit, from GPS 4294967295 on: samples are numbered";
    assert_left_out(&summary, &[expected]);
    assert_eq!(joined(&read_run(path.join("run"))["X1:GOOD"].1), [7; 4]);
}

#[test]
fn samples_behind_their_frames_end_cost_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // Eight seconds of samples in a frame of four.
    let long = Series::new("X1:LONG", VectorType::U8, 1.0 / 16.0, &[3; 128]);
    write_gwf(&path.join("a.gwf"), &[vec![series("X1:A", &[1; 64])], vec![long]]);
    convert(path, &["a.gwf", "run"], 0);
    let contents = read_run(path.join("run"));
    assert_eq!(joined(&contents["X1:LONG"].1), [3; 128]);
    assert_eq!(joined(&contents["X1:A"].1), [1; 64]);

    // Where another frame follows they would stand in the way of its samples, also from far ahead.
    let short = series("X1:LONG", &[4; 64]);
    let far = Series { start_s: 1e6, ..short };
    write_gwf(&path.join("b.gwf"), &[vec![short], vec![long], vec![far], vec![short]]);
    let summary = convert(path, &["b.gwf", "other"], 3);
    let expected = "X1:LONG: 2 vectors that do not fit, from GPS 1400000044 on: samples reach";
    assert_left_out(&summary, &[expected]);
    let contents = read_run(path.join("other"));
    assert_eq!(joined(&contents["X1:LONG"].1), [4; 128]);
    let first = u64::from(START_S) * 16;
    let pieces: Vec<u64> = contents["X1:LONG"].1.iter().map(|(first, _)| *first).collect();
    assert_eq!(pieces, [first, first + 12 * 16]);
}

#[test]
fn a_frame_that_cannot_be_costs_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut writer = GwfWriter::new(Vec::new(), WriteOptions::new("test")).unwrap();
    let one = series("X1:A", &[1; 64]);
    writer.frame(&FrameStart::new(START_S, 4.0), &[one]).unwrap();
    writer.frame(&FrameStart::new(START_S + 4, 1e300), &[one]).unwrap();
    std::fs::write(path.join("a.gwf"), writer.finish().unwrap()).unwrap();
    let summary = convert(path, &["a.gwf", "run"], 3);
    assert_left_out(
        &summary,
        &["a.gwf: frame 1 begins at GPS 1400000044.000000000 and lasts 1000"],
    );
    assert_eq!(joined(&read_run(path.join("run"))["X1:A"].1), [1; 64]);
}

#[test]
fn auxiliary_validity_is_counted_and_framecpps_complex_samples_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let golden = "../../format/interop/tests/golden/gwframe-0.8.gwf";
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(golden);
    let summary = convert(path, &[golden.to_str().unwrap(), "run"], 3);
    let expected = [
        "X1:ADC-1: dataValid of 1 vectors, 4 samples, that is not 0",
        "X1:ADC-32: dataValid of 1 vectors, 32 samples, that is not 0",
        "X1:ADC-BAD: dataValid of 1 vectors, 97 samples, that is not 0",
    ];
    assert_left_out(&summary, &expected);
    let contents = read_run(path.join("run"));
    assert_eq!(contents.len(), 10);
    assert_eq!(contents["X1:COMPLEX128-WALK"].0.dtype, Dtype::C128);
    // The samples themselves are kept, also those that are not valid.
    assert_eq!(joined(&contents["X1:ADC-32"].1).len(), 97 * 32 * 2);
    assert!(Run::open(path.join("run")).unwrap().files().all(|file| file.flags.unwrap().data_lost));
}

#[test]
fn a_channel_that_gwf_cannot_hold_costs_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let good = channel("X1:GOOD", Dtype::I16, 4, 1, TimeScale::Gps);
    let channels = [
        ChannelInfo { name: "X1:TINY".into(), scale: Some(1e-60), ..good.clone() },
        ChannelInfo { name: "X1:HUGE".into(), offset: Some(1e60), ..good.clone() },
        ChannelInfo { name: "X1:NUL\0".into(), ..good.clone() },
        ChannelInfo { name: "X1:UNIT".into(), unit: "V\0".into(), ..good.clone() },
        ChannelInfo { name: "X".repeat(65_535), ..good.clone() },
        good,
    ];
    // The last seconds have numbers that GWF's 32 bits do not hold.
    let end = 1 << 32;
    let start = u64::from(START_S);
    write_run(&path.join("run"), &channels, &[start..start + 8, end - 1..end, end..end + 4]);
    let summary = convert(path, &["run", "out"], 3);
    let expected = [
        "X1:TINY: GWF cannot hold scale",
        "X1:HUGE: GWF cannot hold scale",
        "a channel: name is \"X1:NUL\\0\", expected a text without NUL",
        "X1:UNIT: unit is \"V\\0\", expected a text without NUL",
        "a channel: name is 65535, expected at most 65534 bytes",
        "X1:GOOD: 16 samples of times after GPS 4294967295, which GWF cannot hold",
    ];
    assert_left_out(&summary, &expected);
    assert_eq!(summary["samples"], 9 * 4);
    convert(path, &["out", "again"], 0);
    assert_eq!(joined(&read_run(path.join("again"))["X1:GOOD"].1).len(), 9 * 4 * 2);
}
