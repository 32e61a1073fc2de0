//! Whoever reads a damaged run is told what it lacks, and no half of a file has the name of a whole
//! one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use support::{json, output, stderr, stdout};

/// 12 s of a thousand channels in several files.
fn generated(folder: &Path, codec: &str) -> Vec<PathBuf> {
    let cut = ["--frame", "4 s", "--file-bytes", "16 MB", "--codec", codec];
    stdout(folder, &[&["generate", "--out", "run", "--seconds", "12"], &cut[..]].concat(), 0);
    let entries = std::fs::read_dir(folder.join("run")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "catch")).collect();
    files.sort();
    assert!(files.len() > 1, "{files:?}");
    files
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn all_that_read_a_run_say_what_is_missing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = generated(folder.path(), "lz4");
    std::fs::remove_file(&files[1]).unwrap();
    let channel = "L1:SLOW-0000";
    for arguments in [
        &["read", "run", "--channel", channel, "--output", "slow.csv"][..],
        &["refs", "run", "--channel", channel, "--output", "refs.json"],
        &["reframe", "run", "--out", "reframed", "--frame", "8 s"],
        &["reduce", "run", "--out", "reduced", "--channel", channel],
        &["trend", "run"],
    ] {
        let printed = stderr(folder.path(), arguments, 3);
        assert!(
            printed.contains("left out: file 1 of the run is missing"),
            "{arguments:?}: {printed}"
        );
    }
    // And so do the copies, which are whole in themselves.
    for copy in ["reframed", "reduced"] {
        let printed = stdout(folder.path(), &["inspect", copy], 0);
        assert!(
            printed.contains("data were lost") && !printed.contains("nothing was lost"),
            "{printed}"
        );
    }
}

#[test]
fn what_one_folder_of_a_run_lacks_is_read_from_another() {
    let folder = tempfile::tempdir().unwrap();
    let files = generated(folder.path(), "lz4");
    std::fs::create_dir(folder.path().join("mirror")).unwrap();
    for file in &files {
        std::fs::copy(file, folder.path().join("mirror").join(file.file_name().unwrap())).unwrap();
    }
    let read = ["read", "run", "--channel", "L1:SLOW-*", "--output", "whole.csv"];
    stdout(folder.path(), &read, 0);
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::remove_file(folder.path().join("mirror").join(files[1].file_name().unwrap())).unwrap();
    let read = ["read", "run", "mirror", "--channel", "L1:SLOW-*", "--output", "both.csv"];
    assert_eq!(stderr(folder.path(), &read, 0), "");
    let [both, whole] = ["both.csv", "whole.csv"].map(|name| folder.path().join(name));
    assert!(std::fs::read(both).unwrap() == std::fs::read(whole).unwrap());
    let inspected = json(folder.path(), &["inspect", "mirror", "run", "--json"], 0);
    assert_eq!(inspected["paths"], serde_json::json!(["mirror", "run"]));
    assert_eq!(inspected["channel_frames"], 3);
    assert_eq!(inspected["problems"].as_array().unwrap().len(), 2);
    let printed =
        stderr(folder.path(), &["read", "run", "mirror", "--follow", "--channel", "L1:SLOW-*"], 1);
    assert!(printed.contains("following is of one folder of a run"), "{printed}");
}

/// Damages a column of the last file, and returns its channel.
fn damage(folder: &Path, files: &[PathBuf]) -> String {
    let mut bytes = std::fs::read(files.last().unwrap()).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle..middle + 4_096].iter_mut().for_each(|byte| *byte ^= 1);
    std::fs::write(files.last().unwrap(), bytes).unwrap();
    let verified = stdout(folder, &["inspect", "run", "--verify"], 1);
    let damaged = verified.split_whitespace().find(|word| word.starts_with("L1:"));
    let channel = damaged.expect("a channel is named");
    channel.trim_matches(|c: char| !c.is_alphanumeric()).to_owned()
}

#[test]
fn a_damaged_column_is_a_gap_in_what_is_made_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let files = generated(folder.path(), "lz4");
    let channel = damage(folder.path(), &files);
    for arguments in [
        &["reframe", "run", "--out", "copied"][..],
        &["reframe", "run", "--out", "reframed", "--frame", "6 s", "--codec", "zstd:1"],
        &["reduce", "run", "--out", "reduced", "--channel", "L1:*"],
        &["trend", "run"],
    ] {
        let printed = stderr(folder.path(), arguments, 3);
        assert!(printed.starts_with("catchment: left out: run/run-"), "{arguments:?}: {printed}");
        assert!(printed.contains(&format!("channel {channel}: ")), "{arguments:?}: {printed}");
    }
    for copy in ["copied", "reframed", "reduced"] {
        let printed = stdout(folder.path(), &["inspect", copy, "--verify"], 0);
        assert!(
            printed.contains("data were lost") && !printed.contains("nothing was lost"),
            "{printed}"
        );
    }
    // The trends that there are now are not made worse.
    let printed = stderr(folder.path(), &["trend", "run", "--replace"], 1);
    assert!(printed.contains("may have rows of these samples, and stay"), "{printed}");
}

#[test]
fn a_command_that_fails_midway_leaves_nothing_in_the_way_of_the_next_try() {
    let folder = tempfile::tempdir().unwrap();
    generated(folder.path(), "lz4");
    let before = names(folder.path());
    for arguments in [
        &["reframe", "run", "--out", "new"][..],
        &["reduce", "run", "--out", "new", "--channel", "L1:FAST-*"],
        &["generate", "--out", "new", "--seconds", "12"],
    ] {
        let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_catchment")]).args(arguments);
        let failed = shell.current_dir(folder.path()).output().unwrap();
        let printed = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(1), "{printed}");
        assert_eq!(names(folder.path()), before, "{arguments:?}: {printed}");
    }
    // What was there before stays, whatever it is.
    std::fs::create_dir(folder.path().join("new")).unwrap();
    let printed = stderr(folder.path(), &["reframe", "run", "--out", "new"], 2);
    assert!(printed.contains("new is there already") && folder.path().join("new").exists());
}

#[test]
fn output_that_could_not_be_finished_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let files = generated(folder.path(), "lz4");
    let before = names(folder.path());
    let channel = damage(folder.path(), &files);
    let channel = channel.as_str();
    for (format, name) in [
        ("csv", "out.csv"),
        ("raw", "out.raw"),
        ("npy", "out"),
        ("parquet", "out.parquet"),
        ("arrow", "out.arrow"),
    ] {
        let arguments = ["read", "run", "--channel", channel, "--format", format, "--output", name];
        let failed = output(folder.path(), &arguments);
        assert_eq!(failed.status.code(), Some(1), "{format}: {failed:?}");
        assert_eq!(names(folder.path()), before, "{format}");
    }
}

#[test]
fn repair_says_samples_of_channels_and_of_trends() {
    let folder = tempfile::tempdir().unwrap();
    let files = generated(folder.path(), "lz4");
    stdout(folder.path(), &["trend", "run"], 0);
    // As a recorder that was killed leaves them: without the trailer.
    let second = folder.path().join("run/trends/second");
    let trend = names(&second).into_iter().find(|name| name.ends_with(".catch")).unwrap();
    for path in [files.last().unwrap(), &second.join(trend)] {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 64).unwrap();
    }
    let printed = stdout(folder.path(), &["repair", "run"], 0);
    assert!(!printed.contains("events"), "{printed}");
    for line in printed.lines() {
        assert!(line.ends_with(" samples") && !line.contains(" 0 "), "{printed}");
    }
    assert!(printed.lines().any(|line| line.contains("trends")), "{printed}");
}
