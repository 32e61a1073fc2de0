//! Disks that fail: recording goes into fault loudly, nothing crashes, what was written stays
//! readable, discards are counted, and recording goes on when the disk is well again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::support;
use catchment_disk::{EngineChoice, FaultControl, FaultPlan};
use catchment_fixtures::{SmallDisk, wait_while};
use catchment_frame::FileReader;
use catchment_model::Entry;
use catchment_recorder::{
    EnterForwarded, Forwarded, Forwarding, Recorder, RecorderConfig, RunSummary, Snapshot,
    SpillConfig, State, TargetConfig, TargetSnapshot,
};
use catchment_storage::{Run, Verdict, audit, recompute, verify};
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
        detector.wait(is_in_folder);
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

/// How a disk does not confirm what was written.
#[derive(Clone, Copy, Debug)]
enum Unconfirmed {
    /// Syncs fail from that one on, so many.
    Syncs(u64, u64),
    /// The ends of files fail until so many were begun.
    Ends(usize),
}

#[test]
fn a_folder_with_a_spill_has_each_frame_confirmed_and_readers_get_it_once() {
    let check = |fault: Unconfirmed| {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = FaultPlan::default();
        if let Unconfirmed::Syncs(first, count) = fault {
            plan.sync_errors = (first..first + count).map(|sync| (sync, libc::EIO)).collect();
        }
        let control = plan.control.clone();
        let (runs, spill) = (folder.path().join("runs"), folder.path().join("spill"));
        let mut config = with_spill(&runs, &spill, 1 << 30, Some(plan));
        (config.write.file_bytes, config.write.sync_interval_ns) = (1 << 20, 2_000_000);
        if let Unconfirmed::Ends(_) = fault {
            // As a rule files are left before they are synced.
            config.write.sync_interval_ns = 500_000_000;
            control.fail_finishes(Some(libc::EIO));
        }
        let mut detector = Detector::start(config);
        (0..20).for_each(|_| detector.send_on(20));
        while !is_told_of_a_fault(&detector.recorder.snapshot()) {
            detector.send(5);
        }
        if let Unconfirmed::Ends(files) = fault {
            detector.wait(|recorder| recorder.snapshot().files.len() >= files);
            control.fail_finishes(None);
        }
        detector.send_on(20);
        detector.wait(is_in_folder);
        check_confirmed(&detector.stop(), &format!("{fault:?}"))
    };
    // The frames of one file, of several, and what is written again.
    let syncs = [(0, 1), (1, 1), (3, 1), (8, 1), (15, 1), (2, 2), (5, 3)];
    let syncs = syncs.map(|(first, count)| Unconfirmed::Syncs(first, count));
    let all = syncs.into_iter().chain([2, 3, 5].map(Unconfirmed::Ends));
    let again: usize = std::thread::scope(|scope| {
        let checks: Vec<_> = all.map(|fault| scope.spawn(move || check(fault))).collect();
        checks.into_iter().map(|check| check.join().unwrap()).sum()
    });
    assert!(again > 0, "some are there twice");
}

fn is_told_of_a_fault(snapshot: &Snapshot) -> bool {
    let is_of_fault = |text: &String| text.contains("cannot sync") || text.contains("cannot close");
    snapshot.warnings.iter().any(is_of_fault)
}

#[test]
fn what_is_spilled_stays_until_the_folder_confirms_that_it_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let (config, control) = short_files_with_spill(folder.path());
    let mut detector = Detector::start(config);
    detector.send(20);
    control.fail_syncs(Some(libc::EIO));
    detector.send_on(50);
    // It has waited for long enough.
    detector.wait(|recorder| moved(&recorder.snapshot())[0] > 0);
    let files = detector.recorder.snapshot().files.len();
    // They are written again, in vain.
    detector.wait(|recorder| recorder.snapshot().files.len() > files + 1);
    let during = detector.recorder.snapshot();
    assert_eq!((moved(&during)[1], &during.state), (0, &State::Recording));
    assert!(during.targets[0].is_spilling(), "{:?}", during.targets[0]);
    control.fail_syncs(None);
    detector.wait(|one| is_in_folder(one) && one.snapshot().targets[0].away.is_none());
    detector.send_on(20);
    detector.wait(is_in_folder);
    let summary = detector.stop();
    assert!(total(&summary, Entry::FragmentsSpilled) > 0);
    assert!(check_confirmed(&summary, "spilled") > 0);
}

#[test]
fn what_a_folder_shows_at_the_end_without_having_confirmed_it_is_forwarded_nevertheless() {
    let folder = tempfile::tempdir().unwrap();
    let (config, control) = short_files_with_spill(folder.path());
    let mut detector = Detector::start(config.clone());
    detector.send(20);
    control.fail_syncs(Some(libc::EIO));
    detector.send_on(50);
    detector.wait(|recorder| is_told_of_a_fault(&recorder.snapshot()));
    // All that the folder has not confirmed is in the spill then.
    let summary = detector.stop();
    let enter: EnterForwarded = Arc::new(|_: &Forwarded| Ok(true));
    let forwarding = Forwarding::start(&config, &Arc::default(), &enter).unwrap();
    wait_while(|| std::fs::read_dir(folder.path().join("spill")).unwrap().next().is_some());
    drop(forwarding);
    let received = total(&summary, Entry::FragmentsReceived);
    assert!(check_read_once(&summary.folder, received, "forwarded") > 0);
}

/// A target in `runs` with a spill in `spill`, in short files that are synced often, and its disk.
fn short_files_with_spill(folder: &Path) -> (RecorderConfig, FaultControl) {
    let plan = FaultPlan::default();
    let control = plan.control.clone();
    let (runs, spill) = (folder.join("runs"), folder.join("spill"));
    let mut config = with_spill(&runs, &spill, 1 << 30, Some(plan));
    (config.write.file_bytes, config.write.sync_interval_ns) = (1 << 20, 2_000_000);
    (config, control)
}

/// Fragments that were spilled, and forwarded.
fn moved(snapshot: &Snapshot) -> [u64; 2] {
    let total = snapshot.targets[0].ledger.total();
    [Entry::FragmentsSpilled, Entry::FragmentsForwarded].map(|entry| total[entry])
}

/// Whether all that was received is recorded, and nothing is in the spill any more.
fn is_in_folder(recorder: &Recorder) -> bool {
    let snapshot = recorder.snapshot();
    let [spilled, forwarded] = moved(&snapshot);
    spilled == forwarded && is_settled(&snapshot)
}

/// Nothing is unconfirmed, and each frame is read once. Returns how many are there twice.
fn check_confirmed(summary: &RunSummary, what: &str) -> usize {
    let received = total(summary, Entry::FragmentsReceived);
    let books = [Entry::FragmentsRecorded, Entry::FragmentsDurable, Entry::FragmentsUnconfirmed];
    let books = books.map(|entry| total(summary, entry));
    assert_eq!(books, [received, received, 0], "{what}");
    assert_readable(summary, Verdict::Balanced);
    check_read_once(&summary.folder, received, what)
}

/// A run has all numbers, and so many fragments of two sources: also if a power cut takes the
/// frames that were written again. Returns how many of these there are.
fn check_read_once(folder: &Path, received: u64, what: &str) -> usize {
    let run = Run::open(folder).unwrap();
    let audited = audit(&run).unwrap();
    assert!(audited.problems.is_empty(), "{what}: {audited:?}");
    let numbers = run.frames().iter().map(|frame| frame.summary.info.sequence);
    assert!(numbers.eq(0..run.frames().len() as u64), "{what}");
    let (mut newest, mut again, mut again_bytes) = (BTreeMap::new(), Vec::new(), 0);
    for file in run.files() {
        let bytes = std::fs::read(file.path).unwrap();
        let reader = FileReader::open(&bytes).unwrap();
        for frame in reader.frames() {
            // Of a short frame not what stands behind it.
            let half = frame.frame_bytes / 2;
            let here = (file.path.to_owned(), frame.offset + half, half.min(4_096));
            let before = newest.insert(frame.info.sequence, here);
            again_bytes += frame.frame_bytes * u64::from(before.is_some());
            again.extend(before);
        }
    }
    // Readers look which copy is whole in up to 1 GiB of repeated frames, the last ones included.
    for (path, offset, bytes) in again.iter().filter(|_| again_bytes < 1 << 29) {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&vec![0; *bytes as usize], *offset).unwrap();
    }
    let torn = Run::open(folder).unwrap();
    let (ledger, problems) = recompute(&torn);
    assert!(problems.is_empty(), "{what}: {problems:?}");
    for (events, recorded) in [
        (run.event_count(), audited.recomputed.total()[Entry::FragmentsRecorded]),
        (torn.event_count(), ledger.total()[Entry::FragmentsRecorded]),
    ] {
        assert_eq!((events, recorded), (received / 2, received), "{what}");
    }
    again.len()
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
