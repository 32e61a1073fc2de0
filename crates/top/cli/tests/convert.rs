//! `catchment convert` with the real binary: GWF files into a run and back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use catchment_frame::{ChannelInfo, Dtype, Schema};
use catchment_interop::gwf::{
    Compress, FrameStart, GwfFile, GwfWriter, Series, SeriesKind, VectorType, WriteOptions,
};
use catchment_model::{SampleRate, TimeScale};
use catchment_storage::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, NewRun, Run, RunWriter, Select,
    WriteOptions as RunOptions,
};
use serde_json::Value;

fn convert(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catchment"));
    command.arg("convert").args(arguments).current_dir(folder);
    command.output().expect("the binary starts")
}

/// Converts, asserts the exit code and returns the report.
fn report(folder: &Path, arguments: &[&str], code: i32) -> Value {
    let output = convert(folder, &[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}\n{errors}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{text}"))
}

fn error(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = convert(folder, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// A multiple of 60, so that a sample per minute begins there.
const START_S: u32 = 1_400_000_040;

/// What a channel is, and how its samples are made.
struct Made {
    name: &'static str,
    unit: &'static str,
    kind: VectorType,
    series: SeriesKind,
    /// Samples and seconds: the rate.
    rate: (u32, u32),
}

fn channels() -> Vec<Made> {
    let proc = SeriesKind::Proc;
    let adc = SeriesKind::Adc { bias: 1.5, slope: -0.25 };
    let made = |name, unit, kind, series, rate| Made { name, unit, kind, series, rate };
    vec![
        made("L1:FAST", "strain", VectorType::F32, proc, (256, 1)),
        made("L1:ADC", "count", VectorType::I16, adc, (16, 1)),
        made("L1:STATE", "", VectorType::U32, proc, (1, 1)),
        made("H1:IQ", "count", VectorType::C64, proc, (4, 1)),
        made("H1:SIXTY", "m", VectorType::F64, proc, (60, 1)),
        made("H1:MINUTE", "m", VectorType::F64, proc, (1, 60)),
    ]
}

impl Made {
    /// The samples from one second to another, both since [`START_S`].
    fn samples(&self, from_s: u32, to_s: u32) -> Vec<u8> {
        let (num, den) = self.rate;
        let numbers = (from_s * num).div_ceil(den)..(to_s * num).div_ceil(den);
        let words = self.kind.bytes().div_ceil(8) as u32;
        let bytes = numbers.flat_map(|n| (0..words).map(move |word| n * 7 + word));
        // Any bits do, but for floats not those of NaN; small numbers are none.
        bytes
            .flat_map(|n| u64::from(n).to_le_bytes()[..self.kind.bytes().min(8)].to_vec())
            .collect()
    }
}

/// Writes a file with frames of those lengths, from that second on.
fn write(path: &Path, from_s: u32, frames: &[u32], made: &[Made]) {
    let options = WriteOptions { compress: Compress::Raw, ..WriteOptions::new("test") };
    let mut writer = GwfWriter::new(Vec::new(), options).unwrap();
    let mut at = from_s;
    for seconds in frames {
        let samples: Vec<_> = made.iter().map(|one| one.samples(at, at + seconds)).collect();
        let series = made.iter().zip(&samples).filter(|(_, samples)| !samples.is_empty());
        let series: Vec<Series<'_>> = series
            .map(|(one, samples)| Series {
                unit: one.unit,
                kind: one.series,
                start_s: f64::from((at * one.rate.0).div_ceil(one.rate.1) * one.rate.1)
                    / f64::from(one.rate.0)
                    - f64::from(at),
                ..Series::new(
                    one.name,
                    one.kind,
                    f64::from(one.rate.1) / f64::from(one.rate.0),
                    samples,
                )
            })
            .collect();
        writer.frame(&FrameStart::new(START_S + at, f64::from(*seconds)), &series).unwrap();
        at += seconds;
    }
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

/// Every channel's samples in GWF files, by the GPS nanosecond where they begin, joined.
fn read_gwf(files: &[PathBuf]) -> BTreeMap<String, Vec<(u64, Vec<u8>)>> {
    let mut all: BTreeMap<String, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
    for path in files {
        let file = GwfFile::open(std::fs::read(path).unwrap()).unwrap();
        file.verify().unwrap();
        let mut samples = Vec::new();
        for (index, channel) in file.channels().iter().enumerate() {
            for (vector, frame) in file.frames().iter().enumerate() {
                let Some(info) = file.read(index, vector, &mut samples).unwrap() else { continue };
                let start = f64::from(frame.gps_s) + f64::from(frame.gps_ns) * 1e-9 + info.start_s;
                let end = (start + info.samples as f64 * info.dx_s) * 1e9;
                let pieces = all.entry(channel.name.clone()).or_default();
                match pieces.last_mut() {
                    Some((last, joined)) if *last == (start * 1e9) as u64 => {
                        joined.extend_from_slice(&samples);
                        *last = end as u64;
                    }
                    _ => pieces.push((end as u64, samples.clone())),
                }
            }
        }
    }
    all
}

fn files(report: &Value, folder: &Path) -> Vec<PathBuf> {
    let names = report["files"].as_array().unwrap().iter();
    names.map(|name| folder.join(name.as_str().unwrap())).collect()
}

#[test]
fn gwf_files_become_a_run_and_the_run_becomes_gwf_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = channels();
    // Frames of several lengths, files in no order.
    write(&path.join("b.gwf"), 40, &[1, 1, 1, 1, 16], &made);
    write(&path.join("a.gwf"), 0, &[8, 32], &made);
    write(&path.join("c.gwf"), 60, &[120], &made);
    let summary = report(path, &["b.gwf", "a.gwf", "c.gwf", "run"], 0);
    assert_eq!(summary["channels"], 6);
    assert_eq!(summary["samples"], 180 * (256 + 16 + 1 + 4 + 60) + 3);

    let run = Run::open(path.join("run")).unwrap();
    for one in &made {
        let channel = run.channel(one.name).unwrap();
        let info = channel.info();
        assert_eq!(info.time_scale, TimeScale::Gps);
        assert_eq!((info.rate.num(), info.rate.den()), (one.rate.0.into(), one.rate.1.into()));
        assert_eq!(info.unit, one.unit);
        let calibration = (one.name == "L1:ADC").then_some((-0.25, 1.5));
        assert_eq!(info.scale.zip(info.offset), calibration, "{}", one.name);
        let segments = channel.read(&Select::All).unwrap();
        let [segment] = &segments[..] else { panic!("{}: {} pieces", one.name, segments.len()) };
        assert_eq!(segment.start_ns, u64::from(START_S) * 1_000_000_000);
        assert_eq!(segment.bytes, one.samples(0, 180), "{}", one.name);
    }

    for (number, (frame, zlib)) in [("64", "0"), ("7", "2"), ("200", "9")].iter().enumerate() {
        let out = format!("out-{number}");
        let arguments = ["run", &out, "--frame-seconds", frame, "--zlib", zlib];
        let summary = report(path, &arguments, 0);
        assert_eq!(summary["samples"], 180 * (256 + 16 + 1 + 4 + 60) + 3);
        let files = files(&summary, path);
        let first = files[0].file_name().unwrap().to_str().unwrap();
        assert!(first.starts_with("HL-CATCHMENT-1400000040-"), "{first}");
        let read = read_gwf(&files);
        assert_eq!(read.len(), made.len());
        for one in &made {
            let pieces = &read[one.name];
            assert_eq!(pieces.len(), 1, "{}", one.name);
            assert_eq!(pieces[0].1, one.samples(0, 180), "{}", one.name);
        }
        // And into the same run again.
        let again = format!("again-{number}");
        report(path, &[&out, &again], 0);
        let again = Run::open(path.join(again)).unwrap();
        for (channel, other) in run.channels().iter().zip(again.channels()) {
            let other = again.channel(&channel.name).unwrap_or_else(|| panic!("{other:?}"));
            let channel = run.channel(&channel.name).unwrap();
            assert_eq!(channel.info().scale, other.info().scale);
            assert_eq!(channel.read(&Select::All).unwrap(), other.read(&Select::All).unwrap());
        }
    }
    let parts = std::fs::read_dir(path.join("out-0")).unwrap();
    let names: Vec<_> = parts.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_str().unwrap().starts_with('.')), "{names:?}");
}

#[test]
fn gaps_stay_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = channels();
    write(&path.join("a.gwf"), 0, &[10], &made);
    write(&path.join("b.gwf"), 25, &[5], &made[..2]); // Two channels go on before the others.
    write(&path.join("c.gwf"), 30, &[30], &made);
    report(path, &["a.gwf", "b.gwf", "c.gwf", "run"], 0);
    let run = Run::open(path.join("run")).unwrap();
    let segments = run.channel("L1:FAST").unwrap().read(&Select::All).unwrap();
    let pieces: Vec<_> = segments.iter().map(|segment| segment.samples / 256).collect();
    assert_eq!(pieces, [10, 35]);

    let summary = report(path, &["run", "out"], 0);
    let names: Vec<_> = files(&summary, path);
    let names: Vec<_> =
        names.iter().map(|name| name.file_name().unwrap().to_str().unwrap()).collect();
    // A frame of 64 s has them all, but for the gap; so it is cut where a channel begins or ends.
    assert_eq!(names, ["HL-CATCHMENT-1400000040-10.gwf", "HL-CATCHMENT-1400000065-35.gwf"]);
    assert_eq!(summary["frames"], 3);
    let read = read_gwf(&files(&summary, path));
    let bytes = |name: &str| read[name].iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>();
    assert_eq!(bytes("L1:FAST"), [made[0].samples(0, 10), made[0].samples(25, 60)]);
    assert_eq!(bytes("H1:SIXTY"), [made[4].samples(0, 10), made[4].samples(30, 60)]);
}

#[test]
fn what_no_gwf_frame_can_hold_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = &channels()[..1];
    write(&path.join("a.gwf"), 0, &[4], made);
    // From the middle of a second on: a gap of half a second.
    let half = made[0].samples(4, 6);
    let mut writer = GwfWriter::new(Vec::new(), WriteOptions::new("test")).unwrap();
    let series = Series {
        unit: "strain",
        ..Series::new("L1:FAST", VectorType::F32, 1.0 / 256.0, &half[512..])
    };
    let start = FrameStart { gps_ns: 500_000_000, ..FrameStart::new(START_S + 4, 1.5) };
    writer.frame(&start, &[series]).unwrap();
    std::fs::write(path.join("b.gwf"), writer.finish().unwrap()).unwrap();
    report(path, &["a.gwf", "b.gwf", "run"], 0);
    let summary = report(path, &["run", "out"], 3);
    assert_eq!(summary["samples"], 5 * 256);
    assert_eq!(summary["left_out"][0], "L1:FAST: 128 samples in seconds that are not whole");
}

#[test]
fn channels_are_chosen_by_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(&path.join("a.gwf"), 0, &[4], &channels());
    report(path, &["a.gwf", "run", "--channels", "L1:*", "--channels", "H1:IQ"], 0);
    let run = Run::open(path.join("run")).unwrap();
    assert_eq!(run.channels().len(), 4);
    let summary =
        report(path, &["run", "out", "--channels", "L1:FAST", "--description", "FAST_ONE"], 0);
    assert!(summary["files"][0].as_str().unwrap().ends_with("L-FAST_ONE-1400000040-4.gwf"));
    report(path, &["run", "other", "--channel", "H1:*"], 0);
    // A pattern that fits nothing is a mistake, also beside one that fits.
    for (from, to, count) in [("run", "none", 4), ("a.gwf", "none", 6)] {
        let options = [from, to, "--channel", "L1:*", "--channel", "L1:FASTER"];
        let message = error(path, &options, 2);
        let expected = format!("no channel matches \"L1:FASTER\" (the input has {count}); did you");
        assert!(message.contains(&expected) && message.contains("L1:FAST"), "{message}");
        assert!(!path.join("none").exists());
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = channels();
    write(&path.join("a.gwf"), 0, &[4, 4], &made);
    write(&path.join("overlap.gwf"), 6, &[4], &made);
    std::fs::write(path.join("none.gwf"), b"no frames at all").unwrap();
    let message = error(path, &["a.gwf", "overlap.gwf", "run"], 1);
    assert!(
        message.contains("frames overlap: overlap.gwf has one from GPS 1400000046 on"),
        "{message}"
    );
    let message = error(path, &["none.gwf", "run"], 1);
    assert!(message.contains("not a GWF file"), "{message}");
    error(path, &["a.gwf"], 2);
    error(path, &["missing.gwf", "run"], 1);
    error(path, &["a.gwf", "run", "--frame-seconds", "0"], 2);
    error(path, &["a.gwf", "run", "--site", "L1"], 2);

    // A rate that is none, of the only channel.
    let mut writer = GwfWriter::new(Vec::new(), WriteOptions::new("test")).unwrap();
    let odd = Series::new("X1:ODD", VectorType::U8, 0.1234, &[1, 2, 3]);
    writer.frame(&FrameStart::new(START_S, 1.0), &[odd]).unwrap();
    std::fs::write(path.join("odd.gwf"), writer.finish().unwrap()).unwrap();
    let message = error(path, &["odd.gwf", "run"], 1);
    assert!(message.contains("X1:ODD: the sample spacing of 0.1234 s"), "{message}");
    assert!(!path.join("run").exists());

    // What is there stays.
    report(path, &["a.gwf", "run"], 0);
    error(path, &["a.gwf", "run"], 2);
    report(path, &["run", "out"], 0);
    let before = std::fs::read(path.join("out/HL-CATCHMENT-1400000040-8.gwf")).unwrap();
    let message = error(path, &["run", "out"], 1);
    assert!(message.contains("is there already"), "{message}");
    assert_eq!(std::fs::read_dir(path.join("out")).unwrap().count(), 1);
    assert_eq!(std::fs::read(path.join("out/HL-CATCHMENT-1400000040-8.gwf")).unwrap(), before);
}

#[test]
fn a_cut_file_gives_its_whole_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = channels();
    write(&path.join("a.gwf"), 0, &[4, 4], &made);
    let bytes = std::fs::read(path.join("a.gwf")).unwrap();
    let frames = GwfFile::open(&bytes).unwrap().frames().to_vec();
    std::fs::write(path.join("a.gwf"), &bytes[..frames[1].position as usize + 2_000]).unwrap();
    let summary = report(path, &["a.gwf", "run"], 3);
    assert!(
        summary["left_out"][0].as_str().unwrap().starts_with("the end of a.gwf: "),
        "{summary}"
    );
    let run = Run::open(path.join("run")).unwrap();
    let segments = run.channel("L1:FAST").unwrap().read(&Select::All).unwrap();
    assert_eq!(segments[0].bytes, made[0].samples(0, 4));
}

#[test]
fn flags_and_words_that_a_run_has_no_place_for_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let bytes = [7_u8; 16];
    let mut writer = GwfWriter::new(Vec::new(), WriteOptions::new("test")).unwrap();
    for (at, data_quality) in [(0, 0), (1, 5), (2, 0), (3, 8)] {
        let series = Series {
            comment: if at == 2 { "the laser was off" } else { "" },
            ..Series::new("L1:A", VectorType::U8, 1.0 / 16.0, &bytes)
        };
        let start = FrameStart { data_quality, ..FrameStart::new(START_S + at, 1.0) };
        writer.frame(&start, &[series]).unwrap();
    }
    std::fs::write(path.join("a.gwf"), writer.finish().unwrap()).unwrap();
    let summary = report(path, &["a.gwf", "run"], 3);
    assert_eq!(summary["samples"], 64);
    let left_out = serde_json::json!(["dataQuality of 2 frames that is not 0: bits 0xd"]);
    assert_eq!(summary["left_out"], left_out);
    assert_eq!(summary["notes"], serde_json::json!(["L1:A: comments of 1 vectors"]));
    // What could not be kept is flagged in the run.
    assert!(Run::open(path.join("run")).unwrap().files().all(|file| file.flags.unwrap().data_lost));
}

#[test]
fn units_come_back_letter_by_letter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut made = channels();
    for (one, unit) in made.iter_mut().zip(["", "m/s^2", "µm / √Hz", " ct ", "NONE", "s"]) {
        one.unit = unit;
    }
    write(&path.join("a.gwf"), 0, &[60], &made);
    report(path, &["a.gwf", "one"], 0);
    let summary = report(path, &["one", "out"], 0);
    report(path, &[summary["files"][0].as_str().unwrap(), "two"], 0);
    for run in ["one", "two"] {
        let run = Run::open(path.join(run)).unwrap();
        for one in &made {
            assert_eq!(run.channel(one.name).unwrap().info().unit, one.unit, "{}", one.name);
        }
    }
}

#[test]
fn a_damaged_column_is_said_and_the_rest_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = channels();
    write(&path.join("a.gwf"), 0, &[24], &made);
    write(&path.join("b.gwf"), 24, &[24], &made);
    write(&path.join("c.gwf"), 48, &[24], &made);
    let summary = report(
        path,
        &["a.gwf", "b.gwf", "c.gwf", "run", "--frame-seconds", "24", "--codec", "none"],
        0,
    );
    let file = &files(&summary, path)[0];
    // A bit of the second frame's column of L1:FAST.
    let run = Run::open(path.join("run")).unwrap();
    let piece = run.channel("L1:FAST").unwrap().pieces().unwrap()[1];
    let at = run.channel_frames()[1].summary.offset + piece.entry.offset + 1_000;
    drop(run);
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at as usize] ^= 4;
    std::fs::write(file, &bytes).unwrap();

    let summary = report(path, &["run", "out", "--frame-seconds", "16"], 3);
    let left_out = summary["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 1, "{summary}");
    let shown = left_out[0].as_str().unwrap();
    assert!(shown.starts_with("L1:FAST: frame 1 of the run: "), "{shown}");
    let read = read_gwf(&files(&summary, path));
    let bytes = |name: &str| read[name].iter().flat_map(|(_, bytes)| bytes).copied();
    assert!(bytes("L1:FAST").eq([made[0].samples(0, 24), made[0].samples(48, 72)].concat()));
    assert!(bytes("H1:SIXTY").eq(made[4].samples(0, 72)));
}

#[test]
fn a_file_of_the_run_that_cannot_be_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(&path.join("a.gwf"), 0, &[4], &channels());
    let summary = report(path, &["a.gwf", "run"], 0);
    let name = files(&summary, path)[0].file_name().unwrap().to_str().unwrap().to_owned();
    let next = name.replace("00000.catch", "00001.catch");
    assert_ne!(next, name);
    std::fs::write(path.join("run").join(&next), vec![0xa5; 8_192]).unwrap();
    let summary = report(path, &["run", "out"], 3);
    let shown = summary["left_out"][0].as_str().unwrap();
    assert!(shown.contains(&next), "{shown}");
    assert_eq!(summary["files"].as_array().unwrap().len(), 1);
}

#[test]
fn a_disk_that_ends_leaves_no_half_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = &channels()[..1];
    write(&path.join("a.gwf"), 0, &[64; 16], made);
    report(path, &["a.gwf", "run"], 0);
    // No file may be longer than 256 blocks of 512 bytes: that is how a full disk looks.
    let limited = |arguments: &[&str]| {
        let script = "trap '' XFSZ; ulimit -f 256; exec \"$0\" convert \"$@\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_catchment")]).args(arguments);
        let output = command.current_dir(path).output().expect("a shell starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}\n{errors}");
        errors
    };
    let left = |folder: &str| -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(path.join(folder)) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let shown = limited(&["run", "out", "--zlib", "0", "--file-seconds", "1024"]);
    assert!(shown.contains("large") && shown.contains(".gwf.part"), "{shown}");
    assert_eq!(left("out"), Vec::<String>::new());
    limited(&["a.gwf", "other", "--codec", "none"]);
    assert!(!path.join("other").exists(), "nothing is in the way of the next try");
}

/// Writes a run of a channel of 4 Hz with a frame for each of these seconds, in TAI.
fn write_run(folder: &Path, seconds: &[u64]) {
    write_run_in(TimeScale::Tai, folder, seconds);
}

fn write_run_in(time_scale: TimeScale, folder: &Path, seconds: &[u64]) {
    let rate = SampleRate::new(4, 1).unwrap();
    let channel = ChannelInfo::new("X1:A", Dtype::I16, rate);
    let channels = vec![ChannelInfo { time_scale, ..channel }];
    let schema = Schema::channels(Vec::new(), channels).unwrap();
    let id = schema.columns.iter().find_map(ChannelInfo::of).unwrap().id;
    let new = NewRun::new(folder, "run", schema).unwrap();
    let mut writer = RunWriter::create(new, RunOptions::small()).unwrap();
    for second in seconds {
        let (start_ns, bytes) = (second * 1_000_000_000, [7; 8]);
        let samples = ColumnData::Raw(&bytes);
        let columns = vec![ChannelColumn { id, first_sample: second * 4, spans: &[], samples }];
        let (end_ns, keys) = (start_ns + 1_000_000_000, (0, 0));
        let frame = ChannelFrame { start_ns, end_ns, columns, keys, increments: None };
        writer.write_channels(frame).unwrap();
    }
    writer.finish(Ending { run_ended: true, ..Ending::default() }).unwrap();
}

#[test]
fn samples_of_a_clock_that_was_never_set_are_said_and_years_without_samples_cost_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let set = u64::from(START_S) + 315_964_819;
    // Up to a second that GPS time begins in, and 44 years later, and then back again.
    write_run(&path.join("both"), &[100, 101, 315_964_818, set, set + 1, 102]);
    let summary = report(path, &["both", "out"], 3);
    let left_out = summary["left_out"].as_array().unwrap();
    let expected = "X1:A: 16 samples of times before 1980-01-06, when GPS time begins";
    assert_eq!(left_out, &[Value::from(expected)]);
    assert_eq!((&summary["samples"], &summary["frames"]), (&8.into(), &1.into()), "{summary}");

    write_run(&path.join("early"), &[100, 101]);
    let summary = report(path, &["early", "nothing"], 3);
    let expected = "X1:A: 8 samples of times before 1980-01-06, when GPS time begins";
    assert_eq!(summary["left_out"][0], expected);
    assert_eq!((&summary["samples"], &summary["frames"]), (&0.into(), &0.into()), "{summary}");
}

#[test]
fn seconds_that_were_recorded_twice_are_left_out_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let first = u64::from(START_S) + 315_964_819;
    write_run(&path.join("back"), &[0, 1, 2, 3, 1, 2, 3, 4, 5].map(|second| first + second));
    let summary = report(path, &["back", "out"], 3);
    let expected = "X1:A: 24 samples in seconds that were recorded twice: a clock was set back";
    assert_eq!(summary["left_out"], Value::from(vec![expected]), "{summary}");
    assert_eq!(summary["samples"], 12, "{summary}");
}

#[test]
fn a_leap_second_in_utc_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // 2016-12-31T23:59:60 UTC is GPS 1167264017, in the second frame of 64 s.
    let seconds: Vec<u64> = (1_483_228_719..1_483_228_819).collect();
    write_run_in(TimeScale::Utc, &path.join("leap"), &seconds);
    let summary = error(path, &["leap", "out"], 1);
    assert!(summary.contains("lies a leap second"), "{summary}");
    assert!(!path.join("out").exists());
    write_run_in(TimeScale::Utc, &path.join("before"), &seconds[..80]);
    assert_eq!(report(path, &["before", "out"], 0)["samples"], 320);
}

#[test]
fn a_file_shorter_than_a_frame_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_run(&folder.path().join("run"), &[1_000_000_000]);
    let summary = error(folder.path(), &["run", "out", "--file-seconds", "3"], 2);
    assert!(summary.contains("--file-seconds 3 is less than --frame-seconds 64"), "{summary}");
}
