//! Disks that become full, and files that vanish: a full disk is full of data, and what is lost
//! with a file is counted.

use std::path::Path;

use crate::support;
use catchment_disk::{FaultPlan, free_bytes};
use catchment_fixtures::SmallDisk;
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
