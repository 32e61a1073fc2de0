//! `catchment refs`: what it leaves out and says; what it writes is read in test_references.py.

use std::path::Path;

use crate::support;
use catchment_frame::{ChannelInfo, Dtype, Schema};
use catchment_model::SampleRate;
use catchment_storage::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, NewRun, Run, RunWriter, WriteOptions,
};
use serde_json::Value;
use support::{json, stdout};

const NS_PER_S: u64 = 1_000_000_000;

/// Writes a run with four samples of 1 Hz of each channel from its second on.
fn write_run(folder: &Path, channels: &[(&str, u64)]) {
    let rate = SampleRate::new(1, 1).unwrap();
    let infos = channels.iter().map(|(name, _)| ChannelInfo::new(*name, Dtype::I16, rate));
    let schema = Schema::channels(Vec::new(), infos.collect()).unwrap();
    let ids: Vec<u32> = schema.columns.iter().filter_map(ChannelInfo::of).map(|i| i.id).collect();
    let new = NewRun::new(folder, "run", schema).unwrap();
    let mut writer = RunWriter::create(new, WriteOptions::small()).unwrap();
    for (&id, &(_, second)) in ids.iter().zip(channels) {
        let samples = ColumnData::Raw(&[7; 8]);
        let columns = vec![ChannelColumn { id, first_sample: second, spans: &[], samples }];
        let (start_ns, end_ns) = (second * NS_PER_S, (second + 4) * NS_PER_S);
        let frame = ChannelFrame { start_ns, end_ns, columns, keys: (0, 0), increments: None };
        writer.write_channels(frame).unwrap();
    }
    writer.finish(Ending { run_ended: true, ..Ending::default() }).unwrap();
}

#[test]
fn channels_that_would_spoil_the_references_are_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // The last second that int64 holds begins at 9223372036.
    let channels =
        [("X1:A", 5), (".", 5), ("..", 5), ("X1:LATE", 9_223_372_035), ("X1:LAST", 9_223_372_032)];
    write_run(&path.join("run"), &channels);
    let shown = json(path, &["refs", "run", "--json"], 3);
    let left_out: Vec<&str> =
        shown["left_out"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(
        left_out,
        [
            ".: a Zarr array cannot have this name",
            "..: a Zarr array cannot have this name",
            "X1:LATE: its times are 2^63 ns or more, beyond what int64 holds",
        ]
    );
    let text = std::fs::read_to_string(path.join("run.refs.json")).unwrap();
    let references: Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = references["refs"].as_object().unwrap().keys().collect();
    assert!(keys.iter().all(|key| !key.starts_with("..") && !key.starts_with("./")), "{keys:?}");
    for name in ["X1:A", "X1:LAST"] {
        assert!(keys.contains(&&format!("{name}/.zarray")), "{keys:?}");
    }
}

#[test]
fn what_is_printed_says_how_the_file_is_opened_and_what_goes_to_the_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_run(&path.join("run"), &[("X1:A", 5)]);
    let printed = stdout(path, &["refs", "run", "--output", "here.json"], 0);
    assert!(printed.starts_with("here.json: 1 channel, 1 chunk where they stand"), "{printed}");
    assert!(printed.contains(r#"{"storage_options": {"fo": "here.json"}, "consolidated": False}"#));
    assert!(!printed.contains("copy"), "{printed}");
    let prefixed = ["refs", "run", "--output", "here.json", "--prefix", "s3://b/"];
    let printed = stdout(path, &prefixed, 0);
    let copy = "copy the run's .catch files and here.json.data to s3://b/, names unchanged";
    assert!(printed.contains(copy), "{printed}");
    let help = stdout(path, &["refs", "--help"], 0);
    assert!(help.contains("xarray.open_dataset(\"reference://\", engine=\"zarr\""), "{help}");
    assert!(help.contains("copy the .catch files and FILE.data to that URL"), "{help}");
}

#[test]
fn a_column_that_is_damaged_where_it_stands_is_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_run(&path.join("run"), &[("X1:A", 5), ("X1:B", 5)]);
    let (file, at) = {
        let run = Run::open(path.join("run")).unwrap();
        let piece = run.channel("X1:B").unwrap().pieces().unwrap()[0];
        let frame = &run.channel_frames()[piece.frame];
        let file = run.files().nth(frame.file).unwrap().path.to_owned();
        (file, frame.summary.offset + piece.entry.offset)
    };
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[at as usize] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let shown = json(path, &["refs", "run", "--json"], 3);
    let left_out = shown["left_out"].as_array().unwrap();
    assert_eq!((left_out.len(), &shown["channels"]), (1, &1.into()), "{shown}");
    let why = left_out[0].as_str().unwrap();
    assert!(why.starts_with("X1:B: ") && why.contains("checksum"), "{why}");
    assert_eq!(shown["bytes_checked"], 8);
    let text = std::fs::read_to_string(path.join("run.refs.json")).unwrap();
    assert!(text.contains("X1:A") && !text.contains("X1:B"), "{text}");
    // Where nothing is left that is no success.
    let printed = stdout(path, &["refs", "run", "--channel", "X1:B"], 1);
    assert!(printed.is_empty(), "{printed}");
    let help = stdout(path, &["refs", "--help"], 0);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("Programs that read FILE check nothing"), "{help}");
}

#[test]
fn an_audit_counts_frames_of_channels() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_run(&path.join("run"), &[("X1:A", 5), ("X1:B", 5), ("X1:C", 5)]);
    let report = json(path, &["audit", "run", "--json"], 0);
    assert_eq!((&report["frames"], &report["channels"]), (&3.into(), &3.into()));
    let printed = stdout(path, &["audit", "run"], 0);
    assert!(printed.contains("\n  3 channels in 3 frames\n"), "{printed}");
}
