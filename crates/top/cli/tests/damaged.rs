//! Whoever reads a damaged run is told what it lacks, and no half of a file has the name of a whole
//! one.

mod support;

use std::path::{Path, PathBuf};

use support::{output, stderr, stdout};

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
        let told = stderr(folder.path(), arguments, 3);
        assert!(told.contains("left out: file 1 of the run is missing"), "{arguments:?}: {told}");
    }
    // And so do the copies, which are whole in themselves.
    for copy in ["reframed", "reduced"] {
        let told = stdout(folder.path(), &["inspect", copy], 0);
        assert!(told.contains("data were lost") && !told.contains("nothing was lost"), "{told}");
    }
}

#[test]
fn output_that_could_not_be_finished_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let files = generated(folder.path(), "lz4");
    let before = names(folder.path());
    // A bit of the last frame's first channel.
    let mut bytes = std::fs::read(files.last().unwrap()).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle..middle + 4_096].iter_mut().for_each(|byte| *byte ^= 1);
    std::fs::write(files.last().unwrap(), bytes).unwrap();
    let verified = stdout(folder.path(), &["inspect", "run", "--verify"], 1);
    let damaged = verified.split_whitespace().find(|word| word.starts_with("L1:"));
    let channel = damaged.expect("a channel is named").trim_matches(|c: char| !c.is_alphanumeric());
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
