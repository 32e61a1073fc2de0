//! Disks that fail: recording goes into fault loudly, nothing crashes, what was written stays
//! readable, discards are counted, and recording goes on when the disk is well again.

use std::ops::Range;
use std::path::Path;

use crate::support;
use catchment_disk::{EngineChoice, FaultPlan};
use catchment_fixtures::SmallDisk;
use catchment_frame::FileReader;
use catchment_model::Entry;
use catchment_recorder::{
    Recorder, RecorderConfig, Snapshot, SpillConfig, State, TargetConfig, TargetSnapshot,
};
use catchment_storage::{Run, Verdict, verify};
use support::detector::{Detector, assert_readable, in_fault, small_frames};
use support::{config, total};

#[test]
fn a_full_disk_discards_countedly_and_recording_goes_on_when_there_is_space() {
    let Some(disk) = SmallDisk::in_memory("size=12m") else { return };
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 6 << 20]).unwrap();
    let mut detector = Detector::start(small_frames(disk.path(), None));
    detector.send_until(in_fault);
    let State::Fault { reason } = detector.recorder.snapshot().state else { panic!("in fault") };
    assert!(reason.contains("space") || reason.contains("full"), "{reason}");
    detector.send(50);
    std::fs::remove_file(&filler).unwrap();
    detector.send_until(|state| *state == State::Recording);
    let before = detector.recorder.snapshot().counts.frames_recorded;
    detector.send(20);
    detector.wait(|recorder| recorder.snapshot().counts.frames_recorded > before);
    let summary = detector.stop();
    assert!(total(&summary, Entry::FragmentsDiscardedDisk) > 0);
    assert!(summary.last.files.len() >= 2, "{:?}", summary.last.files);
    assert_readable(&summary, Verdict::DataLost);
}

#[test]
fn a_run_that_is_stopped_in_fault_has_its_losses_in_its_last_file() {
    // 8 MiB, and a page for the list of files.
    let Some(disk) = SmallDisk::in_memory("size=8196k") else { return };
    let mut detector = Detector::start(small_frames(disk.path(), None));
    detector.send_until(in_fault);
    detector.send(300);
    let summary = detector.stop();
    assert!(in_fault(&summary.last.state));
    let discarded = total(&summary, Entry::FragmentsDiscardedDisk);
    assert!(discarded > 0);
    assert_readable(&summary, Verdict::DataLost);
    let run = Run::open(&summary.folder).unwrap();
    let books = run.recorded_ledger().unwrap().unwrap().total();
    assert_eq!(books[Entry::FragmentsDiscardedDisk], discarded);
}

#[test]
fn a_failed_write_costs_its_file_the_rest_and_the_next_file_goes_on() {
    let check = |write_error, engine| {
        let folder = tempfile::tempdir().unwrap();
        let plan = FaultPlan { write_errors: vec![write_error], ..FaultPlan::default() };
        let mut config = small_frames(folder.path(), Some(plan));
        config.write.engine = engine;
        let mut detector = Detector::start(config);
        while detector.recorder.snapshot().faults == 0 {
            detector.send(20);
        }
        detector.send_until(|state| *state == State::Recording);
        detector.send(40);
        let summary = detector.stop();
        let recorded = total(&summary, Entry::FragmentsRecorded);
        let discarded = total(&summary, Entry::FragmentsDiscardedDisk);
        assert_eq!(recorded + discarded, total(&summary, Entry::FragmentsReceived));
        assert!(discarded > 0 && recorded > 0);
        assert_readable(&summary, Verdict::DataLost);
    };
    // Beside each other, since each waits a second until it tries the next file.
    std::thread::scope(|scope| {
        for write_error in [(3, libc::EIO), (17, libc::ENOSPC), (18, libc::EIO)] {
            for engine in [EngineChoice::Auto, EngineChoice::Portable] {
                scope.spawn(move || check(write_error, engine));
            }
        }
    });
}

#[test]
fn a_folder_with_a_spill_has_each_frame_once_and_in_order_whichever_writes_fail() {
    let check = |errors: Range<u64>| {
        let folder = tempfile::tempdir().unwrap();
        let write_errors = errors.clone().map(|write| (write, libc::EIO)).collect();
        let plan = FaultPlan { write_errors, ..FaultPlan::default() };
        let (runs, spill) = (folder.path().join("runs"), folder.path().join("spill"));
        let mut config = with_spill(&runs, &spill, 1 << 30, Some(plan));
        (config.write.file_bytes, config.write.sync_interval_ns) = (1 << 20, 2_000_000);
        let mut detector = Detector::start(config);
        (0..30).for_each(|_| detector.send_on(20));
        // Otherwise it may be that what was spilled is forwarded after the run's end.
        detector.wait(|recorder| {
            let snapshot = recorder.snapshot();
            let total = snapshot.targets[0].ledger.total();
            let is_moved = total[Entry::FragmentsForwarded] == total[Entry::FragmentsSpilled];
            is_moved && snapshot.ledger.balance().fragments_in_flight == 0
        });
        let summary = detector.stop();
        let received = total(&summary, Entry::FragmentsReceived);
        let books = [Entry::FragmentsRecorded, Entry::FragmentsDurable];
        assert_eq!(books.map(|entry| total(&summary, entry)), [received; 2], "{errors:?}");
        assert_in_order(&summary.folder, &format!("{errors:?}"));
        assert_readable(&summary, Verdict::Balanced);
    };
    // The last ones of a file, and with them those of the next, which was begun by then.
    std::thread::scope(|scope| {
        for first in (16..40).step_by(3) {
            for count in [1, 3, 12] {
                scope.spawn(move || check(first..first + count));
            }
        }
    });
}

/// The frames of a run's files have all numbers, in their order.
fn assert_in_order(folder: &Path, what: &str) {
    let run = Run::open(folder).unwrap();
    let mut numbers = Vec::new();
    for file in run.files() {
        let bytes = std::fs::read(file.path).unwrap();
        let reader = FileReader::open(&bytes).unwrap();
        numbers.extend(reader.frames().iter().map(|frame| frame.info.sequence));
    }
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{what}: {numbers:?}");
}

/// The same in `runs`, with a spill of so many bytes beside it.
fn with_spill(
    runs: &Path,
    spill: &Path,
    bytes_max: u64,
    plan: Option<FaultPlan>,
) -> RecorderConfig {
    let mut config = small_frames(runs, plan);
    let spill = SpillConfig { folder: spill.to_owned(), bytes_max };
    let runs = TargetConfig::folder("local", config.folder.clone());
    config.targets = vec![TargetConfig { spill: Some(spill), ..runs }];
    config
}

#[test]
fn a_full_folder_with_a_spill_loses_nothing_and_gets_all_of_it_when_there_is_space() {
    let image = tempfile::NamedTempFile::new().unwrap();
    let disks = [SmallDisk::in_memory("size=12m"), SmallDisk::ext4(image.path(), 24 << 20)];
    for disk in disks.into_iter().flatten() {
        let spill = tempfile::tempdir().unwrap();
        let mut config = with_spill(disk.path(), spill.path(), 1 << 30, None);
        config.write.file_bytes = 1 << 20;
        let mut detector = Detector::start(config);
        let forwarded = |recorder: &Recorder| {
            let total = recorder.snapshot().targets[0].ledger.total();
            [Entry::FragmentsForwarded, Entry::FragmentsSpilled].map(|entry| total[entry])
        };
        for _ in 0..2 {
            detector.send(20);
            disk.fill();
            while detector.recorder.snapshot().targets[0].away.is_none() {
                detector.send_on(20);
            }
            detector.send_on(100);
            // The spill has what the folder has no room for.
            detector.wait(|one| is_settled(&one.snapshot()));
            let during = detector.recorder.snapshot();
            assert!(during.targets[0].is_spilling(), "{:?}", during.targets[0]);
            assert_eq!(during.state, State::Recording);
            let [forwarded_before, spilled] = forwarded(&detector.recorder);
            assert!(spilled > forwarded_before, "{spilled}");
            disk.make_room();
            detector.wait(|recorder| {
                let [forwarded, spilled] = forwarded(recorder);
                forwarded == spilled && recorder.snapshot().targets[0].away.is_none()
            });
        }
        detector.send(20);
        let summary = detector.stop();
        let received = total(&summary, Entry::FragmentsReceived);
        let books = [Entry::FragmentsRecorded, Entry::FragmentsDurable];
        assert_eq!(books.map(|entry| total(&summary, entry)), [received; 2]);
        assert_eq!(total(&summary, Entry::FragmentsDiscardedDisk), 0);
        assert_eq!(summary.last.faults, 0, "{:?}", summary.last.last_fault);
        assert_in_order(&summary.folder, "in order");
        assert_readable(&summary, Verdict::Balanced);
    }
}

/// Whether all that was received is recorded, in the folder or in the spill, or lost.
fn is_settled(snapshot: &Snapshot) -> bool {
    snapshot.ledger.balance().fragments_in_flight == 0
}

#[test]
fn a_folder_with_a_spill_is_in_fault_once_both_are_full_and_nothing_is_lost_by_that() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::default();
    let control = plan.control.clone();
    let (runs, spill) = (folder.path().join("runs"), folder.path().join("spill"));
    let mut config = with_spill(&runs, &spill, 4 << 20, Some(plan));
    config.write.file_bytes = 1 << 20;
    let mut detector = Detector::start(config);
    let send_until = |detector: &mut Detector, reached: fn(&Snapshot) -> bool| {
        while !reached(&detector.recorder.snapshot()) {
            detector.send_on(60);
            // So that memory is never spent.
            detector.wait(|one| is_settled(&one.snapshot()) || reached(&one.snapshot()));
        }
    };
    control.set_space(Some(0));
    send_until(&mut detector, |snapshot| snapshot.targets[0].away.is_some());
    detector.wait(|one| is_settled(&one.snapshot()));
    let during = detector.recorder.snapshot();
    assert_eq!((&during.state, during.faults), (&State::Recording, 0));
    assert!(during.targets[0].is_spilling(), "{:?}", during.targets[0]);
    send_until(&mut detector, |snapshot| in_fault(&snapshot.state));
    let during = detector.recorder.snapshot();
    assert!(during.last_fault.is_some_and(|reason| reason.contains("disk full: ")));
    assert!(during.targets[0].away.is_some() && !during.targets[0].is_spilling());
    control.set_space(None);
    detector.wait(|one| {
        let snapshot = one.snapshot();
        let is_well = snapshot.state == State::Recording && snapshot.targets[0].away.is_none();
        is_well && is_settled(&snapshot)
    });
    let summary = detector.stop();
    assert_eq!(summary.last.faults, 1);
    assert_readable(&summary, Verdict::Balanced);
}

#[test]
fn a_spill_that_is_full_spends_the_memory_and_what_comes_then_is_discarded_countedly() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::default();
    let control = plan.control.clone();
    let (runs, spill) = (folder.path().join("runs"), folder.path().join("spill"));
    let mut config = with_spill(&runs, &spill, 2 << 20, Some(plan));
    config.write.buffer_count = 4;
    config.memory_bytes = 8 << 20;
    let mut detector = Detector::start(config);
    detector.send(10);
    control.stall(true);
    let discarded = |recorder: &Recorder| {
        recorder.snapshot().ledger.total()[Entry::FragmentsDiscardedMemory] > 0
    };
    while !discarded(&detector.recorder) {
        detector.send_on(20);
    }
    let snapshot = detector.recorder.snapshot();
    assert_eq!(snapshot.state, State::Recording, "a slow disk is no fault");
    let is_full = |text: &String| text.contains("the spill is full");
    detector.wait(|recorder| recorder.snapshot().warnings.iter().any(is_full));
    let bytes = snapshot.targets[0].spill.unwrap().bytes_waiting;
    assert!(bytes <= 2 << 20, "{bytes}");
    let waits = |target: &TargetSnapshot| target.away.is_some() && !target.is_spilling();
    detector.wait(|recorder| waits(&recorder.snapshot().targets[0]));
    assert_eq!(detector.recorder.snapshot().state, State::Recording);
    control.stall(false);
    // Events of which one source's fragment was discarded stay open until the run's end.
    detector.wait(|recorder| {
        let snapshot = recorder.snapshot();
        let total = snapshot.targets[0].ledger.total();
        let is_moved = total[Entry::FragmentsForwarded] == total[Entry::FragmentsSpilled];
        is_moved && snapshot.counts.events_recorded == snapshot.counts.events_complete
    });
    detector.send_on(20);
    let summary = detector.stop();
    let books = [Entry::FragmentsReceived, Entry::FragmentsRecorded, Entry::FragmentsDurable];
    let [received, recorded, durable] = books.map(|entry| total(&summary, entry));
    assert_eq!(recorded + total(&summary, Entry::FragmentsDiscardedMemory), received);
    assert_eq!((durable, summary.last.ledger.balance().fragments_lost), (recorded, 0));
    assert!(total(&summary, Entry::FragmentsSpilled) > 0);
    assert_in_order(&summary.folder, "in order");
    assert_readable(&summary, Verdict::DataLost);
}

#[test]
fn a_first_write_that_fails_leaves_no_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan { write_errors: vec![(0, libc::EIO)], ..FaultPlan::default() };
    let mut detector = Detector::start(small_frames(folder.path(), Some(plan)));
    detector.wait(|recorder| recorder.snapshot().faults == 1);
    detector.send_until(|state| *state == State::Recording);
    detector.send(30);
    let summary = detector.stop();
    assert_eq!(summary.last.files.len(), 1, "{:?}", summary.last.files);
    assert!(summary.last.files[0].is_file());
    assert!(total(&summary, Entry::FragmentsRecorded) > 0);
    let run = Run::open(&summary.folder).unwrap();
    assert!(verify(&run, |_| {}).is_intact());
}

#[test]
fn a_failed_sync_begins_a_new_file_and_what_was_written_stays() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan { sync_errors: vec![(0, libc::EIO)], ..FaultPlan::default() };
    let mut config = small_frames(folder.path(), Some(plan));
    config.write.sync_interval_ns = 1_000_000;
    let mut detector = Detector::start(config);
    while detector.recorder.snapshot().faults == 0 {
        detector.send(20);
    }
    detector.send_until(|state| *state == State::Recording);
    detector.send(40);
    let summary = detector.stop();
    assert!(
        total(&summary, Entry::FragmentsDurable) < total(&summary, Entry::FragmentsRecorded),
        "what the sync that failed was for is not durable"
    );
    assert!(in_fault(&summary.last.state), "and that is said");
    let run = Run::open(&summary.folder).unwrap();
    assert!(verify(&run, |_| {}).is_intact());
}

#[test]
fn a_run_that_is_stopped_while_no_file_can_be_opened_has_its_losses_in_its_last_file() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan { write_errors: vec![(17, libc::EIO)], ..FaultPlan::default() };
    let control = plan.control.clone();
    let mut detector = Detector::start(small_frames(folder.path(), Some(plan)));
    control.refuse_opens(Some(libc::EROFS));
    detector.send_until(in_fault);
    detector.send(100);
    let summary = detector.stop();
    assert!(in_fault(&summary.last.state));
    let discarded = total(&summary, Entry::FragmentsDiscardedDisk);
    assert!(discarded > 0);
    assert_readable(&summary, Verdict::DataLost);
    let run = Run::open(&summary.folder).unwrap();
    let books = run.recorded_ledger().unwrap().unwrap().total();
    assert_eq!(books[Entry::FragmentsDiscardedDisk], discarded);
}

#[test]
fn a_run_does_not_start_where_it_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not-a-folder");
    std::fs::write(&file, "").unwrap();
    let error = Recorder::start(config(&file, 1)).unwrap_err().to_string();
    assert!(error.contains("not-a-folder"), "{error}");
}

#[test]
fn a_disk_that_stalls_spends_the_memory_and_what_comes_then_is_discarded_countedly() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::default();
    let control = plan.control.clone();
    let mut config = small_frames(folder.path(), Some(plan));
    config.write.buffer_count = 4;
    config.memory_bytes = 8 << 20;
    let mut detector = Detector::start(config);
    detector.send(10);
    control.stall(true);
    let spent = |recorder: &Recorder| {
        recorder.snapshot().ledger.total()[Entry::FragmentsDiscardedMemory] > 0
    };
    while !spent(&detector.recorder) {
        detector.send_on(20);
    }
    assert_eq!(detector.recorder.snapshot().state, State::Recording, "a slow disk is no fault");
    control.stall(false);
    let recorded = |r: &Recorder| r.snapshot().ledger.total()[Entry::FragmentsRecorded];
    let before = recorded(&detector.recorder);
    while recorded(&detector.recorder) < before + 200 {
        detector.send_on(5);
    }
    let summary = detector.stop();
    assert!(total(&summary, Entry::FragmentsDiscardedMemory) > 0);
    assert_eq!(summary.last.ledger.balance().fragments_lost, 0, "nothing was the network's");
    assert_readable(&summary, Verdict::DataLost);
}

#[test]
fn files_are_switched_by_size_and_by_time_and_nothing_is_lost() {
    for by_time in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = small_frames(folder.path(), None);
        if by_time {
            config.write.file_time_ns = Some(100_000_000);
        } else {
            config.write.file_bytes = 2 << 20;
        }
        let mut detector = Detector::start(config);
        while detector.recorder.snapshot().files.len() < 4 {
            detector.send(20);
        }
        let summary = detector.stop();
        assert!(!summary.last.ledger.balance().lost_data());
        let durable = total(&summary, Entry::FragmentsDurable);
        assert_eq!(durable, total(&summary, Entry::FragmentsRecorded));
        assert_readable(&summary, Verdict::Balanced);
        let bytes = summary.last.files.iter().map(|file| std::fs::metadata(file).unwrap().len());
        assert!(by_time || bytes.max().unwrap() <= (2 << 20) + (256 << 10));
    }
}
