//! A target with several folders: its files go one after the other to the disk that is best for
//! them, and a disk that fails, is full or does not respond is left.

use std::collections::BTreeMap;
use std::path::Path;

use catchment_fixtures::SmallDisk;
use catchment_frame::FileReader;
use catchment_model::Entry;
use catchment_ports::StoreFaults;
use catchment_recorder::{RecorderConfig, RunSummary, Snapshot, State, TargetConfig};
use catchment_storage::{Run, RunOptions, Verdict, audit, verify};
use tempfile::NamedTempFile;

use super::support;
use super::support::detector::{Detector, small_frames};
use super::support::stepped::{MS, Stepped};

const A: &str = "a";
const B: &str = "b";

fn config() -> RecorderConfig {
    let mut config = support::config("".as_ref(), 2);
    config.frame.bytes = 64 << 10;
    config.write.file_bytes = 1 << 20;
    config.write.preallocate_bytes = 1 << 20;
    config.targets = vec![TargetConfig::folders("disks", vec![A.into(), B.into()])];
    config
}

/// The numbers of the files in each folder.
fn files(recorder: &Stepped) -> BTreeMap<String, Vec<u32>> {
    let mut files: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for (path, bytes) in recorder.frame_files() {
        let folder = path.parent().expect("a folder").display().to_string();
        let reader = FileReader::open(bytes).expect("opens");
        assert_eq!(reader.header().target.as_deref(), Some("disks"));
        files.entry(folder).or_default().push(reader.header().file_index);
    }
    files
}

/// All frames are in the two folders, once, and they balance together.
fn check(recorder: &Stepped, last: &Snapshot) {
    let (is_intact, report) = recorder.read_folders(&[A, B]);
    assert!(is_intact && report.verdict == Verdict::Balanced, "{report:?}");
    let total = last.ledger.total();
    assert_eq!(
        report.recomputed.total()[Entry::FragmentsRecorded],
        total[Entry::FragmentsRecorded]
    );
    let mut all: Vec<u32> = files(recorder).into_values().flatten().collect();
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..all.len() as u32), "{all:?}");
}

fn is_current(recorder: &Stepped, folder: &str) -> bool {
    let snapshot = recorder.snapshot();
    let folders = &snapshot.targets[0].folders;
    folders.iter().any(|one| one.path == Path::new(folder) && one.is_current)
}

#[test]
fn files_go_in_turn_to_the_disk_with_more_free_space() {
    let mut recorder = Stepped::begin(&config());
    recorder.send(2_000);
    let free = recorder.snapshot().targets[0].folders.clone();
    assert!(free.iter().all(|folder| folder.spare_bytes.is_some_and(|bytes| bytes < 1 << 30)));
    let last = recorder.end();
    assert_eq!(last.ledger.total()[Entry::FragmentsDurable], 4_000);
    check(&recorder, &last);
    let files = files(&recorder);
    let [first, second] = [A, B].map(|folder| files[folder].len());
    assert!(first > 4 && first.abs_diff(second) <= 1, "{files:?}");
}

#[test]
fn a_disk_that_fails_is_left_and_named_and_tried_again_later() {
    let mut recorder = Stepped::begin(&config());
    recorder.send_until(|recorder| is_current(recorder, A));
    recorder.disks[0].set_faults(StoreFaults { write_errors: 1_000_000, ..StoreFaults::default() });
    recorder.send_until(|recorder| is_current(recorder, B));
    recorder.send(1_000);
    let snapshot = recorder.snapshot();
    assert_eq!(snapshot.state, State::Recording);
    assert!(snapshot.warnings.iter().any(|one| one.contains("recording goes on in another")));
    let away = snapshot.targets[0].folders[0].away.clone();
    assert!(away.is_some_and(|reason| reason.starts_with("cannot write a/")));
    let lost = recorder.count(Entry::FragmentsDiscardedDisk);
    recorder.disks[0].set_faults(StoreFaults::default());
    recorder.send_until(|recorder| is_current(recorder, A));
    let last = recorder.end();
    assert_eq!(last.ledger.total()[Entry::FragmentsDiscardedDisk], lost, "only what was in flight");
    check(&recorder, &last);
}

#[test]
fn a_full_disk_is_left_without_loss() {
    let mut recorder = Stepped::begin(&config());
    recorder.send_until(|recorder| is_current(recorder, A));
    let full_ns = Some((0, u64::MAX));
    recorder.disks[0].set_faults(StoreFaults { full_ns, ..StoreFaults::default() });
    recorder.send_until(|recorder| is_current(recorder, B));
    recorder.send(3_000);
    assert!(is_current(&recorder, B));
    let last = recorder.end();
    assert!(!last.ledger.balance().lost_data());
    check(&recorder, &last);
}

#[test]
fn a_disk_that_does_not_respond_is_left_in_the_middle_of_a_frame_and_loses_nothing() {
    let mut recorder = Stepped::begin(&config());
    recorder.send_until(|recorder| is_current(recorder, A));
    recorder.send(20);
    recorder.disks[0].set_faults(StoreFaults { hangs: 1_000_000, ..StoreFaults::default() });
    recorder.send_until(|recorder| is_current(recorder, B));
    recorder.send(3_000);
    let count = |entry| recorder.count(entry);
    assert_eq!(count(Entry::FragmentsDiscardedDisk) + count(Entry::FragmentsDiscardedMemory), 0);
    assert!(count(Entry::FragmentsRecorded) > 4_000);
    let balance = recorder.snapshot().ledger.balance();
    assert!(balance.fragments_in_flight > 0, "those that the disk has: {balance:?}");
    let away = recorder.snapshot().targets[0].folders[0].away.clone();
    assert!(away.is_some_and(|reason| reason.contains("completed nothing for a second")));
    // What hangs does so for two minutes at most.
    recorder.disks[0].set_faults(StoreFaults::default());
    recorder.pass(121_000);
    recorder.send_until(|recorder| is_current(recorder, A));
    let last = recorder.end();
    let total = last.ledger.total();
    assert_eq!(total[Entry::FragmentsDurable], total[Entry::FragmentsReceived]);
    check(&recorder, &last);
}

#[test]
fn a_folder_in_which_no_file_can_be_made_is_left() {
    let mut recorder = Stepped::begin(&config());
    recorder.disks[1].set_faults(StoreFaults { open_errors: 1_000_000, ..StoreFaults::default() });
    recorder.send(2_000);
    let last = recorder.end();
    assert!(!last.ledger.balance().lost_data());
    assert_eq!(files(&recorder).keys().collect::<Vec<_>>(), [A]);
    assert!(last.targets[0].folders[1].away.is_some());
    check(&recorder, &last);
}

/// A recorder with one folder.
fn alone() -> Stepped {
    let mut config = config();
    config.targets = vec![TargetConfig::folder("disk", A.into())];
    Stepped::begin(&config)
}

/// For how many milliseconds the disk of the first folder is waited for, when it was last looked.
fn waits_ms(recorder: &Stepped) -> u64 {
    recorder.snapshot().targets[0].folders[0].waits_ns / MS
}

#[test]
fn a_folder_says_for_how_long_its_disk_completes_nothing_also_if_it_is_the_only_one() {
    let mut recorder = alone();
    recorder.send(200);
    recorder.disk.set_faults(StoreFaults { hangs: 1_000_000, ..StoreFaults::default() });
    recorder.send_until(|recorder| recorder.disk.writes() > 0);
    recorder.pass(3_000);
    let before = waits_ms(&recorder);
    assert!(before >= 2_900, "{before}");
    recorder.pass(1_000);
    assert!(waits_ms(&recorder) >= before + 900);
    recorder.disk.set_faults(StoreFaults::default());
    recorder.pass(121_000);
    assert_eq!(waits_ms(&recorder), 0);
    assert!(!recorder.end().ledger.balance().lost_data());
}

#[test]
fn an_end_of_a_file_that_hangs_is_waited_for_while_the_next_one_is_written() {
    let mut recorder = alone();
    recorder.disk.set_faults(StoreFaults { finish_hangs: 1_000_000, ..StoreFaults::default() });
    recorder.send_until(|recorder| waits_ms(recorder) > 2_000);
    let (before, recorded) = (waits_ms(&recorder), recorder.count(Entry::FragmentsRecorded));
    recorder.send(1_000);
    assert!(waits_ms(&recorder) >= before + 900);
    assert!(recorder.count(Entry::FragmentsRecorded) > recorded);
    recorder.disk.set_faults(StoreFaults::default());
    recorder.pass(121_000);
    assert_eq!(waits_ms(&recorder), 0);
    assert!(!recorder.end().ledger.balance().lost_data());
}

/// A recorder with a folder on each of two small disks.
fn on(disks: &[SmallDisk; 2]) -> RecorderConfig {
    let mut config = small_frames(disks[0].path(), None);
    config.write.file_bytes = 2 << 20;
    config.write.preallocate_bytes = 2 << 20;
    let folders = disks.iter().map(|disk| disk.path().to_owned()).collect();
    config.targets = vec![TargetConfig::folders("disks", folders)];
    config
}

fn two_disks(images: &[NamedTempFile; 2]) -> Option<[SmallDisk; 2]> {
    let [first, second] = images.each_ref().map(|image| SmallDisk::ext4(image.path(), 96 << 20));
    Some([first?, second?])
}

fn images() -> [NamedTempFile; 2] {
    [(); 2].map(|()| NamedTempFile::new().expect("a file"))
}

/// Sends until the folder is or is not the one that is written to.
fn send_until(detector: &mut Detector, folder: usize, is_current: bool) {
    while detector.recorder.snapshot().targets[0].folders[folder].is_current != is_current {
        detector.send(20);
    }
}

fn recorded(detector: &Detector) -> u64 {
    detector.recorder.snapshot().ledger.total()[Entry::FragmentsRecorded]
}

/// Both folders together have all that was recorded, and it is durable.
fn check_summary(summary: &RunSummary, disks: &[SmallDisk; 2]) {
    let name = summary.folder.file_name().expect("a name");
    let paths = disks.each_ref().map(|disk| disk.path().join(name));
    let run = Run::open_folders(&paths, RunOptions::default()).expect("opens");
    assert!(run.ended() && run.closed() && run.damage().is_empty(), "{:?}", run.damage());
    let report = audit(&run).expect("an audit");
    assert!(verify(&run, |_| {}).is_intact() && report.is_balanced(), "{report:?}");
    let recorded = report.recomputed.total()[Entry::FragmentsRecorded];
    let total = summary.last.ledger.total();
    assert_eq!(
        (recorded, recorded),
        (total[Entry::FragmentsRecorded], total[Entry::FragmentsDurable])
    );
    // One folder alone lacks files, and says where they may be.
    let folders = paths.iter().map(|path| Run::open(path).expect("opens"));
    assert!(folders.into_iter().any(|run| run.damage().iter().any(|one| one.contains("disks"))));
}

#[test]
fn a_run_on_two_disks_is_read_as_one() {
    let images = images();
    let Some(disks) = two_disks(&images) else { return };
    let mut detector = Detector::start(on(&disks));
    for _ in 0..3 {
        send_until(&mut detector, 0, false);
        send_until(&mut detector, 1, false);
    }
    let summary = detector.stop();
    assert!(!summary.last.ledger.balance().lost_data());
    check_summary(&summary, &disks);
}

#[test]
fn a_disk_that_fills_up_is_left_until_there_is_room() {
    let images = images();
    let Some(disks) = two_disks(&images) else { return };
    let mut detector = Detector::start(on(&disks));
    send_until(&mut detector, 0, true);
    disks[0].fill();
    send_until(&mut detector, 0, false);
    detector.send(500);
    disks[0].make_room();
    send_until(&mut detector, 0, true);
    assert!(!detector.recorder.snapshot().ledger.balance().lost_data());
    check_summary(&detector.stop(), &disks);
}

#[test]
fn a_frozen_disk_is_left_and_loses_nothing() {
    let images = images();
    let Some(disks) = two_disks(&images) else { return };
    let mut detector = Detector::start(on(&disks));
    send_until(&mut detector, 0, true);
    let Some(frozen) = disks[0].freeze() else { return };
    // What the disk has been given stays in flight.
    detector.send_on(100);
    detector.wait(|recorder| !recorder.snapshot().targets[0].folders[0].is_current);
    let before = recorded(&detector);
    detector.send_on(300);
    detector.wait(|recorder| recorder.snapshot().ledger.total()[Entry::FragmentsRecorded] > before);
    let snapshot = detector.recorder.snapshot();
    assert!(snapshot.targets[0].folders[0].away.is_some(), "{:?}", snapshot.warnings);
    drop(frozen);
    let summary = detector.stop();
    assert!(!summary.last.ledger.balance().lost_data());
    check_summary(&summary, &disks);
}
