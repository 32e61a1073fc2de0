//! Runs made of runs with the real binary: `generate`, `reframe` and `reduce`.

use std::path::Path;

use crate::support;
use catchment_emulator::{ChannelContent, ligo_1000};
use catchment_frame::{ChannelInfo, Dtype, Schema};
use catchment_model::SampleRate;
use catchment_storage::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, NewRun, ReduceOptions, Run, RunWriter,
    Segment, Select, Selection, WriteOptions, audit, reduce, verify,
};
use serde_json::Value;
use support::{json, stderr};

const NS: u64 = 1_000_000_000;
const START_NS: u64 = 1_795_219_200 * NS;

/// Generates four seconds of a thousand channels in frames of a second.
fn generate(folder: &Path, more: &[&str]) -> Value {
    let start = START_NS.to_string();
    let timing = ["--seconds", "4", "--frame", "1 s", "--start", &start, "--codec", "lz4"];
    let generate = ["generate", "ligo-1000", "--out", "run", "--json"];
    json(folder, &[&generate[..], &timing[..], more].concat(), 0)
}

fn open(path: &Path) -> Run {
    let run = Run::open(path).unwrap();
    assert!(run.ended() && verify(&run, |_| {}).is_intact());
    assert!(audit(&run).unwrap().is_balanced());
    run
}

/// All that there is of all channels.
fn contents(run: &Run) -> Vec<Vec<Segment>> {
    let indices: Vec<_> = (0..run.channels().len()).collect();
    run.read_many(&indices, &Select::All).unwrap()
}

#[test]
fn what_is_generated_at_a_multiple_of_real_time_is_what_it_says_and_no_sooner() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let summary = generate(folder, &["--multiple", "5"]);
    assert!(summary["seconds"].as_f64() >= Some(4.0 / 5.0), "{summary}");
    assert_eq!((&summary["frames"], &summary["start_ns"]), (&4.into(), &START_NS.into()));
    let run = open(&folder.join("run"));
    let channels = ligo_1000();
    let content = ChannelContent::new(1, &channels);
    let mut raw_bytes = 0;
    for ((index, channel), segments) in (0..).zip(&channels).zip(contents(&run)) {
        let [segment] = &segments[..] else { panic!("{}: {segments:?}", channel.name) };
        assert_eq!((segment.start_ns, segment.samples), (START_NS, channel.rate.num() * 4));
        assert!(content.verify(index, segment.first_sample, &segment.bytes), "{}", channel.name);
        raw_bytes += segment.bytes.len();
    }
    assert_eq!(summary["raw_bytes"], raw_bytes);
    for wrong in ["0", "fast"] {
        let errors = stderr(folder, &["generate", "--out", "other", "--multiple", wrong], 2);
        assert!(errors.contains("a number of times real time"), "{errors}");
    }
}

#[test]
fn a_reframed_run_is_bit_for_bit_the_same_in_other_frames_files_and_codecs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    generate(folder, &[]);
    let whole = contents(&open(&folder.join("run")));
    for (name, options, frames, files) in [
        ("longer", &["--frame", "2 s", "--codec", "shuffle+zstd:1"][..], 2, 1),
        ("shorter", &["--frame", "500 ms", "--file-time", "2 s"][..], 8, 2),
    ] {
        let command = [&["reframe", "run", "--out", name, "--json"][..], options].concat();
        let summary = json(folder, &command, 0);
        let run = open(&folder.join(name));
        assert_eq!((&summary["frames"], run.channel_frames().len()), (&frames.into(), frames));
        assert_eq!(summary["files"], files, "{summary}");
        assert_eq!(run.files().count(), files);
        assert!(contents(&run) == whole, "{name}");
    }
    let again = stderr(folder, &["reframe", "run", "--out", "longer"], 2);
    assert!(again.contains("longer is there already"), "{again}");
}

#[test]
fn a_reduced_run_has_the_chosen_channels_at_the_lower_rate() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    generate(folder, &[]);
    let (source, reduced) = (open(&folder.join("run")), folder.join("reduced"));
    let chosen = ["--channel", "L1:SLOW-000?=32 Hz", "--channel", "L1:STATE-0001"];
    let command = ["reduce", "run", "--out", "reduced", "--frame", "2 s", "--keep-type", "--json"];
    assert_eq!(json(folder, &[&command[..], &chosen[..]].concat(), 0)["frames"], 2);
    let run = open(&reduced);
    let mut names: Vec<_> = (0..10).map(|number| format!("L1:SLOW-{number:04}")).collect();
    names.push("L1:STATE-0001".to_owned());
    assert!(run.channels().iter().map(|info| &info.name).eq(&names));

    // The same as by the library, which has tests of its own.
    let select = [("L1:SLOW-000?", Some("32 Hz")), ("L1:STATE-0001", None)].map(|(name, rate)| {
        Selection { pattern: name.parse().unwrap(), rate: rate.map(|rate| rate.parse().unwrap()) }
    });
    let options = ReduceOptions {
        select: select.into(),
        frame_ns: Some(2 * NS),
        keep_dtype: true,
        write: WriteOptions::small(),
        ..ReduceOptions::default()
    };
    let by_library = folder.join("by-library");
    reduce(&source, &by_library, "by-library", &options, |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    assert!(contents(&run) == contents(&open(&by_library)));

    let all = |run: &Run, name: &str| run.channel(name).unwrap().read(&Select::All).unwrap();
    assert_eq!(all(&run, &names[10]), all(&source, &names[10]));
    for name in &names[..10] {
        let (before, after) = (source.channel(name).unwrap(), run.channel(name).unwrap());
        assert_eq!((after.info().rate.num(), after.info().dtype), (32, before.info().dtype));
        let [segment] = &all(&run, name)[..] else { panic!("{name}: more than a segment") };
        // The filter lacks neighbours at the ends.
        assert!((60..128).contains(&segment.samples), "{name}: {}", segment.samples);
        assert!(segment.start_ns > START_NS && segment.start_ns < START_NS + NS);
    }
}

#[test]
fn a_reduced_channel_says_what_the_filter_left_out_of_it_and_that_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    generate(folder, &[]);
    let reduce = |out: &str, channel: &str, code: i32| {
        json(folder, &["reduce", "run", "--out", out, "--channel", channel, "--json"], code)
    };
    let reduced = reduce("half", "L1:SLOW-0000=32 Hz", 0);
    let of_it = &reduced["decimated"][0];
    let after = of_it["samples_after"].as_u64().unwrap();
    let all = open(&folder.join("half")).channel("L1:SLOW-0000").unwrap().read(&Select::All);
    assert_eq!(after, all.unwrap().iter().map(|segment| segment.samples).sum::<u64>());
    let rate = of_it["rate_before_hz"].as_f64().unwrap();
    let left_out = of_it["samples_before"].as_f64().unwrap() / rate - after as f64 / 32.0;
    assert!(left_out > 1.0 && of_it["seconds_left_out"] == left_out, "{of_it}");

    // Four seconds are shorter than the filter at 1 Hz.
    assert_eq!(reduce("none", "L1:SLOW-0000=1 Hz", 3)["decimated"][0]["samples_after"], 0);
    let command = ["reduce", "run", "--out", "none-2", "--channel", "L1:SLOW-0000=1 Hz"];
    let said = stderr(folder, &command, 3);
    assert!(said.contains("left out: L1:SLOW-0000: nothing is left at 1 Hz"), "{said}");
}

#[test]
fn a_channel_that_never_delivered_is_no_loss_of_reduce() {
    let folder = tempfile::tempdir().unwrap();
    let channel = |name| ChannelInfo::new(name, Dtype::I16, SampleRate::new(64, 1).unwrap());
    let channels = vec![channel("X1:ALIVE"), channel("X1:SILENT")];
    let schema = Schema::channels(Vec::new(), channels).unwrap();
    let run = NewRun::new(folder.path().join("run"), "run", schema).unwrap();
    let mut writer = RunWriter::create(run, WriteOptions::small()).unwrap();
    let alive = writer.run().schema.columns.iter().find_map(ChannelInfo::of).unwrap();
    let raw: Vec<u8> = (0..64 * 8i16).flat_map(|n| (n % 50).to_le_bytes()).collect();
    let samples = ColumnData::Raw(&raw);
    let first_sample = alive.rate.first_sample_at(START_NS);
    let columns = vec![ChannelColumn { id: alive.id, first_sample, spans: &[], samples }];
    let (start_ns, end_ns) = (START_NS, START_NS + 8 * NS);
    let frame = ChannelFrame { start_ns, end_ns, columns, keys: (0, 0), increments: None };
    writer.write_channels(frame).unwrap();
    writer.finish(Ending { run_ended: true, ..Ending::default() }).unwrap();
    let command = ["reduce", "run", "--out", "half", "--channel", "X1:*=32 Hz", "--json"];
    let reduced = json(folder.path(), &command, 0);
    let counts = |index: usize| {
        let one = &reduced["decimated"][index];
        (one["samples_before"].as_u64().unwrap(), one["samples_after"].as_u64().unwrap())
    };
    assert_eq!((counts(0).0, counts(1)), (512, (0, 0)));
    assert!(counts(0).1 > 0);
}

#[test]
fn data_that_would_end_behind_all_times_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for start in ["9223372036854775807", "9223372035854775807", "18446744073709551615"] {
        let command = ["generate", "--out", "run", "--seconds", "2", "--start", start];
        let errors = stderr(folder.path(), &command, 2);
        assert!(errors.contains("end behind 9223372036854775807 ns (2262-04-11)"), "{errors}");
        assert!(!folder.path().join("run").exists());
    }
    let last = (i64::MAX as u64 - 2 * NS).to_string();
    json(
        folder.path(),
        &["generate", "--out", "run", "--seconds", "2", "--start", &last, "--json"],
        0,
    );
}

#[test]
fn a_rule_that_fits_no_channel_is_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--rule", "L1:FAST-*=for", "--rule", "L1:SLOW=lz4"];
    let command = [&["generate", "--out", "run"][..], &options[..]].concat();
    let errors = stderr(folder.path(), &command, 2);
    assert!(errors.contains("no channel matches \"L1:SLOW\" (the input has 1000)"), "{errors}");
    assert!(!folder.path().join("run").exists());
}
