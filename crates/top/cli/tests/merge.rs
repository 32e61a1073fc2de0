//! Several folders of a run: audited together, and merged into one.

use std::path::{Path, PathBuf};

use catchment_storage::{Run, Select, TrendKind, audit, verify};

use crate::support::{json, output, stderr, stdout};

/// A run of four files, and a copy of its folder.
fn copied(folder: &Path) {
    let command = ["generate", "--out", "generated", "--seconds", "4", "--frame", "500 ms"];
    stdout(folder, &command, 0);
    stdout(folder, &["reframe", "generated", "--out", "run", "--file-time", "1 s"], 0);
    std::fs::create_dir(folder.join("copy")).unwrap();
    for path in files(&folder.join("run")) {
        std::fs::copy(&path, folder.join("copy").join(path.file_name().unwrap())).unwrap();
    }
    assert_eq!(files(&folder.join("copy")).len(), 4);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|one| one == "catch")).collect();
    files.sort();
    files
}

#[test]
fn folders_of_which_each_lacks_a_file_are_audited_and_merged_as_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    copied(folder);
    std::fs::remove_file(&files(&folder.join("run"))[1]).unwrap();
    std::fs::remove_file(&files(&folder.join("copy"))[2]).unwrap();
    assert_eq!(output(folder, &["audit", "run"]).status.code(), Some(1));
    let audited = stdout(folder, &["audit", "run", "copy"], 0);
    assert!(audited.starts_with("run and copy (ended in order)"), "{audited}");
    assert!(
        audited.contains(
            "6 frames, 2 in no other, lacks 2 that are in others; not complete by itself"
        ),
        "{audited}"
    );
    assert!(audited.contains("in more than one folder: 4 frames"), "{audited}");
    for lacking in ["  run: file 1 of", "  copy: file 2 of"] {
        let line = format!("{lacking} the run is missing; another folder has what it lacks");
        assert!(audited.contains(&line), "{audited}");
    }

    let said = stdout(folder, &["merge", "run", "copy", "--to", "merged/", "--one-file"], 0);
    assert!(said.contains("merged: 8 frames in 1 file(s)"), "{said}");
    assert!(said.contains("from 6 files; copies of frames that were left: 4"), "{said}");
    assert_eq!(files(&folder.join("merged")).len(), 1);
    assert!(!folder.join("merged.part").exists());
    let run = Run::open(folder.join("merged")).unwrap();
    assert!(verify(&run, |_| ()).is_intact() && audit(&run).unwrap().is_balanced());
    let both = ["run", "copy"].map(|name| folder.join(name));
    let both = Run::open_folders(&both, Default::default()).unwrap();
    let all: Vec<_> = (0..run.channels().len()).collect();
    let [read, expected] = [&run, &both].map(|run| run.read_many(&all, &Select::All).unwrap());
    assert!(read == expected);
    stdout(folder, &["audit", "merged"], 0);

    // Nothing is written over.
    let again = stderr(folder, &["merge", "run", "copy", "--to", "merged"], 2);
    assert!(again.contains("merged is there already"), "{again}");
    let summary =
        json(folder, &["merge", "run", "copy", "--to", "files", "--file-time", "2 s", "--json"], 0);
    assert_eq!((&summary["files"], &summary["frames"]), (&2.into(), &8.into()), "{summary}");
    assert_eq!((&summary["files_read"], &summary["copies_left"]), (&6.into(), &4.into()));
}

#[test]
fn a_folder_without_its_first_file_is_merged_with_the_missing_frames_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    copied(folder);
    let first = files(&folder.join("run")).remove(0);
    std::fs::write(first, []).unwrap();
    let errors = stderr(folder, &["merge", "run", "--to", "merged"], 3);
    assert!(errors.contains("missing in all that was given: 2 frames (0 to 1)"), "{errors}");
    assert_eq!(output(folder, &["audit", "merged"]).status.code(), Some(1));
}

#[test]
fn trends_of_which_each_folder_has_a_part_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    copied(folder);
    for run in ["run", "copy"] {
        stdout(folder, &["trend", run], 0);
    }
    let open = |name: &str| Run::open(folder.join(name)).unwrap();
    let whole = open("run");
    let channel = whole.channels()[0].name.clone();
    let trends = |run: &Run| {
        [TrendKind::Second, TrendKind::Minute]
            .map(|kind| run.trend(&channel, kind, &Select::All).unwrap().expect("a trend"))
    };
    let expected = trends(&whole);
    assert!(expected.iter().all(|trend| !trend.n.is_empty()));
    drop(whole);
    std::fs::remove_dir_all(folder.join("run/trends/minute")).unwrap();
    std::fs::remove_dir_all(folder.join("copy/trends/second")).unwrap();
    let report = json(folder, &["merge", "run", "copy", "--to", "merged", "--json"], 0);
    let merged = trends(&open("merged"));
    assert_eq!(merged, expected);
    assert!(
        report["trend_rows"].as_u64() >= Some((expected[0].n.len() + expected[1].n.len()) as u64)
    );
}

#[test]
fn what_is_damaged_or_missing_in_all_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    copied(folder);
    // The middle of a file is in a column.
    let damage = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 4;
        bytes[middle] ^= 0x55;
        std::fs::write(path, bytes).unwrap();
    };
    damage(&files(&folder.join("run"))[0]);
    let summary = json(folder, &["merge", "run", "copy", "--to", "intact", "--json"], 0);
    assert_eq!(summary["replaced"].as_array().unwrap().len(), 1, "{summary}");
    assert!(verify(&Run::open(folder.join("intact")).unwrap(), |_| ()).is_intact());
    damage(&files(&folder.join("copy"))[0]);
    let errors = stderr(folder, &["merge", "run", "copy", "--to", "damaged"], 3);
    assert!(errors.contains("damaged, and copied as it is: run/"), "{errors}");
    assert!(errors.contains(": frame 0, channel L1:FAST-"), "{errors}");
    assert!(errors.contains("1 frame with damage that no copy is without"), "{errors}");
    // Every other channel of the frame can be read, and what is damaged is found.
    let merged = Run::open(folder.join("damaged")).unwrap();
    let problems = verify(&merged, |_| ()).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let whole = |name: &str| merged.channel(name).unwrap().read(&Select::All).is_ok();
    let all = merged.channels().iter().filter(|info| whole(&info.name)).count();
    assert_eq!(all, merged.channels().len() - 1);
    for name in ["run", "copy"] {
        std::fs::remove_file(&files(&folder.join(name))[3]).unwrap();
    }
    let errors = stderr(folder, &["merge", "run", "copy", "--to", "cut"], 3);
    assert!(errors.contains("THE RUN IS NOT COMPLETE"), "{errors}");
    assert!(!Run::open(folder.join("cut")).unwrap().ended());
}

#[test]
fn an_end_that_only_the_other_folder_has_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    copied(folder);
    let cut = |name: &str| {
        let path = files(&folder.join(name)).pop().unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(bytes - 8).unwrap();
    };
    // All frames are in both: the first one is that of the ledger.
    cut("run");
    let errors = stderr(folder, &["merge", "run", "copy", "--to", "one"], 3);
    assert!(errors.contains("THE RUN IS NOT COMPLETE: its end is in copy/"), "{errors}");
    assert!(errors.contains(", and not in run, which has"), "{errors}");
    cut("copy");
    let errors = stderr(folder, &["merge", "run", "copy", "--to", "none"], 3);
    assert!(errors.contains("THE RUN IS NOT COMPLETE: its end is in none of these"), "{errors}");
}

#[test]
fn folders_of_two_runs_are_refused_and_nothing_is_left_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["one", "other"] {
        let command = ["generate", "--out", name, "--seconds", "1", "--frame", "500 ms"];
        stdout(folder, &command, 0);
    }
    for command in [&["audit", "one", "other"][..], &["merge", "one", "other", "--to", "both"]] {
        let errors = stderr(folder, command, 1);
        assert!(errors.contains(" is of run ") && errors.contains("but one/"), "{errors}");
    }
    let left = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(left, 2);
}
