//! Disks that become full or take no more files, and files that vanish or are cut: a full disk is
//! full of data, what can be recorded is, and what is lost with a file is counted.

use std::path::Path;
use std::process::Command;

use crate::support;
use catchment_disk::{FaultPlan, free_bytes};
use catchment_fixtures::{SmallDisk, wait_while};
use catchment_frame::FILE_LIST_NAME;
use catchment_model::Entry;
use catchment_recorder::{RecorderConfig, State};
use catchment_storage::{Run, Verdict};
use support::detector::{Detector, assert_readable, in_fault, small_frames};
use support::total;

/// Files of 16 MiB, preallocated as by default.
fn files_of_16_mib(folder: &Path, plan: Option<FaultPlan>) -> RecorderConfig {
    let mut config = small_frames(folder, plan);
    config.write.preallocate_bytes = 1 << 30;
    config.write.file_bytes = 16 << 20;
    config
}

/// Records until the disk is full, then for a while more: how many bytes of frames there are.
fn fill(mut detector: Detector) -> u64 {
    detector.send_until(in_fault);
    let snapshot = detector.recorder.snapshot();
    let State::Fault { reason } = &snapshot.state else { panic!("in fault") };
    assert!(reason.contains("No space left"), "{reason}");
    let bytes = snapshot.counts.bytes_written;
    detector.send(50);
    let summary = detector.stop();
    assert!(in_fault(&summary.last.state));
    assert_readable(&summary, Verdict::DataLost);
    let run = Run::open(&summary.folder).unwrap();
    assert!(run.ended(), "its last file has its table of contents");
    let books = run.recorded_ledger().unwrap().unwrap().total();
    let discarded = total(&summary, Entry::FragmentsDiscardedDisk);
    assert_eq!(books[Entry::FragmentsDiscardedDisk], discarded, "with the whole loss");
    bytes
}

#[test]
fn a_full_disk_is_full_of_frames() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::default();
    let space = 64 << 20;
    plan.control.set_space(Some(space));
    let bytes = fill(Detector::start(files_of_16_mib(folder.path(), Some(plan))));
    assert!(bytes > space / 100 * 95, "{bytes} of {space}");
}

#[test]
fn a_full_ext4_disk_is_full_of_frames_but_for_what_is_kept() {
    let image = tempfile::NamedTempFile::new().unwrap();
    let Some(disk) = SmallDisk::ext4(image.path(), 96 << 20) else { return };
    let free = free_bytes(disk.path()).unwrap();
    let mut config = files_of_16_mib(disk.path(), None);
    config.trends = true;
    let bytes = fill(Detector::start(config));
    let left = free_bytes(disk.path()).unwrap();
    println!("{bytes} bytes of frames where {free} were free, {left} are left");
    assert!(bytes > free / 100 * 90, "{bytes} of {free}");
    assert!(left > 500_000, "there is room for the catalogue: {left}");
}

/// Records while nothing can be made in the run's folder, and then on; the open file takes what
/// comes, and nothing is lost.
fn goes_on_in_the_open_file(folder: &Path, refuse: impl FnOnce(&Path), allow: impl FnOnce(&Path)) {
    let mut config = small_frames(folder, None);
    config.write.file_bytes = 1 << 20;
    let mut detector = Detector::start(config);
    let run_folder = detector.recorder.folder().to_owned();
    wait_while(|| !run_folder.join(FILE_LIST_NAME).exists());
    refuse(&run_folder);
    let is_refused =
        |detector: &Detector| detector.recorder.snapshot().counts.next_file_refused == 1;
    while !is_refused(&detector) {
        detector.send(20);
    }
    detector.send(300);
    let during = detector.recorder.snapshot();
    allow(&run_folder);
    assert_eq!((during.state, during.faults), (State::Recording, 0));
    let warning = during.warnings.iter().find(|warning| warning.contains("recording goes on in"));
    assert!(warning.is_some_and(|text| text.contains("cannot create")), "{:?}", during.warnings);
    while is_refused(&detector) {
        detector.send(20);
    }
    let summary = detector.stop();
    assert_eq!(total(&summary, Entry::FragmentsDiscardedDisk), 0);
    assert!(summary.last.files.len() >= 2, "{:?}", summary.last.files);
    assert_readable(&summary, Verdict::Balanced);
}

#[test]
fn a_disk_without_inodes_takes_the_data_in_the_open_file() {
    let image = tempfile::NamedTempFile::new().unwrap();
    let Some(disk) = SmallDisk::ext4(image.path(), 64 << 20) else { return };
    goes_on_in_the_open_file(disk.path(), |_| disk.use_up_inodes(), |_| disk.free_inodes());
}

#[test]
fn a_folder_that_takes_no_more_files_costs_nothing() {
    let change = |flag: &str, folder: &Path| {
        Command::new("chattr")
            .arg(flag)
            .arg(folder)
            .output()
            .is_ok_and(|done| done.status.success())
    };
    let folder = tempfile::tempdir().unwrap();
    if !change("+i", folder.path()) {
        println!("skipped: no folder can be made immutable here");
        return;
    }
    assert!(change("-i", folder.path()));
    goes_on_in_the_open_file(
        folder.path(),
        |folder| assert!(change("+i", folder)),
        |folder| assert!(change("-i", folder)),
    );
}

#[test]
fn a_list_of_files_whose_place_is_taken_by_a_folder_is_reported_and_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small_frames(folder.path(), None);
    config.write.file_bytes = 1 << 20;
    let mut detector = Detector::start(config);
    let list = detector.recorder.folder().join(FILE_LIST_NAME);
    wait_while(|| !list.exists());
    std::fs::remove_file(&list).unwrap();
    std::fs::create_dir(&list).unwrap();
    while detector.recorder.snapshot().counts.file_list_refused == 0 {
        detector.send(20);
    }
    let during = detector.recorder.snapshot();
    assert_eq!(during.state, State::Recording);
    let expected = format!("cannot write {}: Is a directory", list.display());
    assert!(during.warnings.iter().any(|text| text.contains(&expected)), "{:?}", during.warnings);
    std::fs::remove_dir(&list).unwrap();
    detector.wait(|recorder| recorder.snapshot().counts.file_list_refused == 0);
    let summary = detector.stop();
    assert_eq!(summary.last.state, State::Stopped);
    assert!(!summary.last.ledger.balance().lost_data());
}

#[test]
fn a_file_that_is_truncated_while_it_is_written_is_left_and_what_was_in_it_is_counted() {
    for kept_bytes in [0, 1 << 20] {
        let folder = tempfile::tempdir().unwrap();
        let mut detector = Detector::start(small_frames(folder.path(), None));
        detector.send(200);
        let path = detector.recorder.snapshot().files[0].clone();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(kept_bytes).unwrap();
        // Also where the file has grown again before anybody looks.
        while kept_bytes == 0 && detector.recorder.snapshot().faults == 0 {
            detector.send(20);
        }
        detector.wait(|recorder| recorder.snapshot().faults == 1);
        let removed = detector.recorder.snapshot().ledger.total()[Entry::FragmentsRemoved];
        assert!(removed >= 400, "{removed}");
        detector.send_until(|state| *state == State::Recording);
        detector.send(40);
        let summary = detector.stop();
        assert_eq!(total(&summary, Entry::FragmentsRemoved), removed);
        assert!(total(&summary, Entry::FragmentsRecorded) > removed);
        assert!(summary.last.ledger.balance().lost_data());
        assert!(summary.last.files.len() == 2, "{:?}", summary.last.files);
        let expected = format!("{} was truncated while it was being written", path.display());
        assert!(summary.last.warnings.contains(&expected), "{:?}", summary.last.warnings);
    }
}

#[test]
fn a_run_whose_folder_is_removed_counts_what_is_lost_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut detector = Detector::start(small_frames(folder.path(), None));
    detector.send(40);
    let recorded = detector.recorder.snapshot().ledger.total()[Entry::FragmentsRecorded];
    assert!(recorded > 0);
    std::fs::remove_dir_all(detector.recorder.folder()).unwrap();
    detector.wait(|recorder| recorder.snapshot().faults == 1);
    detector.send_until(|state| *state == State::Recording);
    detector.send(40);
    let summary = detector.stop();
    assert_eq!(summary.last.state, State::Stopped);
    assert_eq!(total(&summary, Entry::FragmentsRemoved), recorded);
    assert!(summary.last.ledger.balance().lost_data());
    let run = Run::open(&summary.folder).unwrap();
    assert!(run.ended() && !run.problems().is_empty());
    let books = run.recorded_ledger().unwrap().unwrap().total();
    assert_eq!(books[Entry::FragmentsRemoved], recorded);
}

#[test]
fn a_run_whose_folder_was_removed_when_it_ends_has_lost_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut detector = Detector::start(small_frames(folder.path(), None));
    detector.send(40);
    std::fs::remove_dir_all(detector.recorder.folder()).unwrap();
    let summary = detector.stop();
    let recorded = total(&summary, Entry::FragmentsRecorded);
    assert!(recorded > 0 && total(&summary, Entry::FragmentsRemoved) == recorded);
    assert!(summary.last.ledger.balance().lost_data() && summary.last.faults > 0);
}

#[test]
fn a_run_whose_folder_is_moved_is_in_fault_and_loses_nothing_that_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut detector = Detector::start(small_frames(folder.path(), None));
    detector.send(40);
    let recorded = detector.recorder.snapshot().ledger.total()[Entry::FragmentsRecorded];
    let moved = folder.path().join("moved");
    std::fs::rename(detector.recorder.folder(), &moved).unwrap();
    detector.wait(|recorder| recorder.snapshot().faults == 1);
    detector.send_until(|state| *state == State::Recording);
    let summary = detector.stop();
    assert_eq!(total(&summary, Entry::FragmentsRemoved), 0);
    let run = Run::open(&moved).unwrap();
    let before = run.recorded_ledger().unwrap().unwrap().total();
    assert!(before[Entry::FragmentsReceived] >= recorded, "it was closed where it is");
}
