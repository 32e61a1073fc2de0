//! What becomes of a run's files when the disk refuses some of them, or somebody cuts them: the
//! recorder's agents, stepped in virtual time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::support;
use catchment_frame::{FileReader, FrameKind, frame_ledger};
use catchment_model::{Entry, Ledger};
use catchment_ports::StoreFaults;
use catchment_recorder::{RecorderConfig, Snapshot, SourceConfig, State};
use catchment_storage::Verdict;
use support::front_end::fragments;
use support::stepped::{MS, Stepped};

const ALWAYS: u64 = 1_000_000;
const NO_NEXT_FILE: StoreFaults = StoreFaults { open_errors: ALWAYS, ..NO_FAULTS };
const NO_FAULTS: StoreFaults = StoreFaults {
    write_errors: 0,
    sync_errors: 0,
    open_errors: 0,
    finish_errors: 0,
    text_errors: 0,
    hangs: 0,
    finish_hangs: 0,
    torn_writes: 0,
    misdirected_writes: 0,
    full_ns: None,
};

/// Small frames in files of 1 MiB.
fn config() -> RecorderConfig {
    let mut config = support::detector::small_frames("".as_ref(), None);
    config.frame.bytes = 64 << 10;
    config.write.buffer_bytes = 64 << 10;
    config.write.preallocate_bytes = 256 << 10;
    config.write.file_bytes = 1 << 20;
    config
}

/// Files of 16 MiB, two seconds of what is sent: longer than from one look at the disk to the next.
fn long_files() -> RecorderConfig {
    let mut config = config();
    config.write.file_bytes = 16 << 20;
    config
}

fn warned(snapshot: &Snapshot, text: &str) -> bool {
    snapshot.warnings.iter().any(|warning| warning.contains(text))
}

#[test]
fn where_the_next_file_cannot_be_made_the_open_one_takes_the_data() {
    for by_time in [false, true] {
        let mut config = config();
        if by_time {
            config.write.file_time_ns = Some(200_000_000);
            config.write.file_bytes = 1 << 30;
        }
        let mut run = Stepped::begin(&config);
        run.send(20);
        run.disk.set_faults(NO_NEXT_FILE);
        run.send_until(|run| run.snapshot().counts.next_file_refused == 1);
        run.send(3_000);
        let during = run.snapshot();
        assert_eq!((during.state.clone(), during.faults), (State::Recording, 0));
        assert!(warned(&during, "recording goes on in run/run-00000.catch"), "{during:?}");
        assert_eq!((during.counts.next_file_refused, run.frame_files().len()), (1, 1));
        // It is tried again, once a second.
        run.disk.set_faults(NO_FAULTS);
        run.send_until(|run| run.snapshot().counts.next_file_refused == 0);
        run.send(500);
        let last = run.end();
        assert_eq!(last.ledger.total()[Entry::FragmentsDiscardedDisk], 0);
        assert!(!last.ledger.balance().lost_data(), "{:?}", last.ledger.balance());
        assert!(run.frame_files().len() > 1);
        let (is_intact, audit) = run.read();
        assert!(is_intact && audit.verdict == Verdict::Balanced, "{audit:?}");
    }
}

#[test]
fn a_run_that_ends_while_no_next_file_can_be_made_is_whole() {
    let mut run = Stepped::begin(&config());
    run.disk.set_faults(NO_NEXT_FILE);
    run.send_until(|run| run.snapshot().counts.next_file_refused == 1);
    run.send(700);
    let last = run.end();
    assert!(!last.ledger.balance().lost_data() && last.faults == 0, "{last:?}");
    assert_eq!(run.frame_files().len(), 1);
    let (is_intact, audit) = run.read();
    assert!(is_intact && audit.verdict == Verdict::Balanced, "{audit:?}");
}

#[test]
fn a_file_that_goes_on_and_then_fails_is_left_and_what_comes_is_discarded_and_counted() {
    let mut run = Stepped::begin(&config());
    run.disk.set_faults(NO_NEXT_FILE);
    run.send_until(|run| run.snapshot().counts.next_file_refused == 1);
    run.disk.set_faults(StoreFaults { write_errors: ALWAYS, ..NO_NEXT_FILE });
    run.send_until(|run| matches!(run.snapshot().state, State::Fault { .. }));
    run.send(300);
    assert!(run.count(Entry::FragmentsDiscardedDisk) > 0);
    run.disk.set_faults(NO_FAULTS);
    run.send_until(|run| run.snapshot().state == State::Recording);
    run.send(100);
    let last = run.end();
    assert_eq!(last.counts.next_file_refused, 0);
    let (is_intact, audit) = run.read();
    assert!(is_intact && audit.verdict == Verdict::DataLost, "{audit:?}");
}

#[test]
fn a_folder_that_takes_nothing_is_in_fault_until_something_is_written_there() {
    let in_fault = |run: &Stepped| matches!(run.snapshot().state, State::Fault { .. });
    let mut run = Stepped::begin(&config());
    run.send(100);
    run.disk.set_faults(StoreFaults { write_errors: ALWAYS, ..NO_FAULTS });
    run.send_until(in_fault);
    // Each second another file is made.
    for _ in 0..3_500 {
        run.send(1);
        assert!(in_fault(&run));
    }
    run.disk.set_faults(NO_FAULTS);
    run.send_until(|run| run.snapshot().state == State::Recording);
    run.send(100);
    assert_eq!((run.end().faults, in_fault(&run)), (1, false));
    let (is_intact, audit) = run.read();
    assert!(is_intact && audit.verdict == Verdict::DataLost, "{audit:?}");
}

/// Truncates the second file once it holds more than that many bytes.
fn truncate_second_file(run: &mut Stepped, filled_bytes: usize, kept_bytes: u64) -> PathBuf {
    run.send_until(|run| run.frame_files().len() == 2);
    run.send_until(|run| {
        run.frame_files()[1].1.iter().filter(|byte| **byte != 0).count() > filled_bytes
    });
    let path = run.frame_files()[1].0.clone();
    run.files.truncate(&path, kept_bytes);
    path
}

fn assert_truncation_is_reported(run: &Stepped, last: &Snapshot, path: &Path) {
    assert!(last.ledger.balance().lost_data());
    let text = format!("{} was truncated while it was being written", path.display());
    assert!(warned(last, &text), "{:?}", last.warnings);
    let (is_intact, audit) = run.read();
    assert!(!is_intact && audit.verdict != Verdict::Balanced, "{audit:?}");
}

#[test]
fn a_file_that_is_truncated_is_left_and_what_was_recorded_in_it_is_counted() {
    for kept_bytes in [0, 300 << 10] {
        let mut run = Stepped::begin(&long_files());
        let path = truncate_second_file(&mut run, 400 << 10, kept_bytes);
        let recorded = run.count(Entry::FragmentsRecorded);
        run.send_until(|run| run.snapshot().faults == 1);
        let removed = run.count(Entry::FragmentsRemoved);
        assert!(0 < removed && removed < run.count(Entry::FragmentsRecorded), "{removed}");
        run.send_until(|run| run.snapshot().state == State::Recording);
        run.send(400);
        let last = run.end();
        assert!(last.ledger.total()[Entry::FragmentsRecorded] > recorded);
        assert_eq!(last.ledger.total()[Entry::FragmentsRemoved], removed, "once");
        assert_truncation_is_reported(&run, &last, &path);
    }
}

#[test]
fn a_file_that_is_truncated_just_before_the_next_one_is_counted_when_it_is_closed() {
    for kept_bytes in [0, 100 << 10] {
        let mut run = Stepped::begin(&config());
        let path = truncate_second_file(&mut run, 300 << 10, kept_bytes);
        run.send_until(|run| run.count(Entry::FragmentsRemoved) > 0);
        // It was no look that found it: the next file was there before.
        assert!(run.frame_files().len() > 2);
        assert_eq!((run.snapshot().state, run.snapshot().faults), (State::Recording, 0));
        let removed = run.count(Entry::FragmentsRemoved);
        run.send(400);
        let last = run.end();
        assert_eq!(last.ledger.total()[Entry::FragmentsRemoved], removed, "once");
        assert!(removed < last.ledger.total()[Entry::FragmentsRecorded] / 2);
        assert_truncation_is_reported(&run, &last, &path);
    }
}

#[test]
fn a_file_that_goes_on_is_left_before_its_table_of_contents_fills_the_memory() {
    let mut config = config();
    config.write.file_bytes = 1 << 30;
    config.sizes.toc_bytes_max = 16 << 10;
    let mut run = Stepped::begin(&config);
    run.send(20);
    run.disk.set_faults(NO_NEXT_FILE);
    run.send_until(|run| run.snapshot().counts.next_file_refused == 1);
    let frames = run.snapshot().counts.frames_recorded;
    run.send_until(|run| matches!(run.snapshot().state, State::Fault { .. }));
    let during = run.snapshot();
    let State::Fault { reason } = during.state else { unreachable!("it is in fault") };
    let expected = "run/run-00000.catch has all the frames that memory can list";
    assert!(reason.starts_with(expected), "{reason}");
    let times = during.counts.frames_recorded as f64 / frames as f64;
    assert!((6.0..10.0).contains(&times), "{times}");
    run.send(100);
    assert!(run.count(Entry::FragmentsDiscardedDisk) > 0);
    run.disk.set_faults(NO_FAULTS);
    run.send_until(|run| run.snapshot().state == State::Recording);
    run.send(100);
    run.end();
    let (is_intact, audit) = run.read();
    assert!(is_intact && audit.verdict == Verdict::DataLost, "{audit:?}");
}

#[test]
fn a_file_that_is_removed_is_left_and_what_was_recorded_in_it_is_counted() {
    let mut run = Stepped::begin(&long_files());
    run.send_until(|run| run.frame_files().len() == 2);
    run.send(30);
    let path = run.frame_files()[1].0.clone();
    run.files.remove(&path);
    run.send_until(|run| run.snapshot().faults == 1);
    let removed = run.count(Entry::FragmentsRemoved);
    assert!(0 < removed && removed < run.count(Entry::FragmentsRecorded), "{removed}");
    run.send_until(|run| run.snapshot().state == State::Recording);
    let last = run.end();
    assert!(last.ledger.balance().lost_data());
    assert!(warned(&last, "was removed while it was being written"));
}

/// A front-end's source, in files that no sync makes durable before they are closed, and that are
/// closed after that time.
fn unsynced(file_time_ns: Option<u64>) -> RecorderConfig {
    let mut config = support::detector::small_frames("".as_ref(), None);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    config.sources = vec![SourceConfig::over_session("camera", address)];
    config.write.sync_interval_ns = 3_600_000 * MS;
    config.write.file_time_ns = file_time_ns;
    config
}

fn pass_until(run: &mut Stepped, reached: impl Fn(&Stepped) -> bool) {
    for _ in 0..5_000 {
        if reached(run) {
            return;
        }
        run.pass(1);
    }
    panic!("{:?}", run.snapshot());
}

/// Records three fragments of such a source, and refuses one whose key does not rise.
fn record_three_of_four(run: &mut Stepped, data: usize) {
    run.write(data, &fragments(1, 0, 0, &[(0, &[1]), (1, &[2]), (0, &[3]), (2, &[4])]));
    run.sent(4);
    pass_until(run, |run| run.count(Entry::FragmentsRecorded) == 3);
    assert_eq!(run.count(Entry::FragmentsDiscardedOrder), 1);
}

/// The file that has rows of events.
fn file_with_rows(run: &Stepped) -> PathBuf {
    let has_rows = |bytes: Vec<u8>| {
        let reader = FileReader::open(bytes).expect("opens");
        let mut frames = reader.frames().iter();
        frames.any(|frame| frame.info.kind == FrameKind::Events && frame.info.rows > 0)
    };
    let mut with_rows = run.frame_files().into_iter().filter(|(_, bytes)| has_rows(bytes.clone()));
    let (path, _) = with_rows.next().expect("one has them");
    assert!(with_rows.next().is_none());
    path
}

/// The sum of what the frames of the files count.
fn sum_of_frames(run: &Stepped) -> Ledger {
    let mut sum = Ledger::new(1);
    for (_, bytes) in run.frame_files() {
        let reader = FileReader::open(bytes).expect("opens");
        (0..reader.frames().len()).for_each(|frame| sum.add(&frame_ledger(&reader, frame).0));
    }
    sum
}

#[test]
fn what_only_an_unconfirmed_file_records_or_counts_is_counted_in_the_next_one() {
    let mut run = Stepped::begin(&unsynced(Some(200 * MS)));
    let data = run.open_session("camera");
    record_three_of_four(&mut run, data);
    let faults = StoreFaults { sync_errors: ALWAYS, finish_errors: ALWAYS, ..NO_FAULTS };
    run.disk.set_faults(faults);
    pass_until(&mut run, |run| run.count(Entry::FragmentsUnconfirmed) > 0);
    run.disk.set_faults(NO_FAULTS);
    let counts = [Entry::FragmentsUnconfirmed, Entry::FragmentCountsUnconfirmed];
    assert_eq!(counts.map(|entry| run.count(entry)), [3, 1]);
    let last = run.end();
    assert!(last.ledger.balance().lost_data() && last.ledger.balance().fragments_removed == 3);
    // While the file is there, the frames count what the recorder does.
    let mut expected = last.ledger;
    expected.sources[0][Entry::FragmentsDurable] = 0;
    assert_eq!(sum_of_frames(&run), expected);
    // A power cut takes it, and the others still account for each fragment.
    let path = file_with_rows(&run);
    run.files.remove(&path);
    let left = sum_of_frames(&run);
    assert_eq!(left.total()[Entry::FragmentsDiscardedOrder], 0, "it stood in the file alone");
    assert_eq!((left.total()[Entry::FragmentsRecorded], left.total().counted_out()), (0, 4));
}

#[test]
fn the_last_frames_of_a_file_are_durable_whatever_becomes_of_its_close() {
    let mut run = Stepped::begin(&unsynced(Some(200 * MS)));
    let data = run.open_session("camera");
    record_three_of_four(&mut run, data);
    run.disk.set_faults(StoreFaults { finish_errors: ALWAYS, ..NO_FAULTS });
    pass_until(&mut run, |run| run.snapshot().faults > 1);
    let counts = [Entry::FragmentsDurable, Entry::FragmentsUnconfirmed];
    assert_eq!(counts.map(|entry| run.count(entry)), [3, 0]);
    run.disk.set_faults(NO_FAULTS);
    let total = run.end().ledger.total();
    assert_eq!(counts.map(|entry| total[entry]), [3, 0]);
}

#[test]
fn what_only_a_removed_file_counts_is_counted_in_the_next_one() {
    // As the only file of its run, and beside others.
    for others in [false, true] {
        let mut run = Stepped::begin(&unsynced(others.then_some(200 * MS)));
        let data = run.open_session("camera");
        record_three_of_four(&mut run, data);
        let path = file_with_rows(&run);
        run.files.remove(&path);
        pass_until(&mut run, |run| run.count(Entry::FragmentsRemoved) > 0);
        run.end();
        let left = sum_of_frames(&run).total();
        let counts = [Entry::FragmentsRemoved, Entry::FragmentCountsUnconfirmed];
        assert_eq!(counts.map(|entry| left[entry]), [3, 1], "others: {others}");
    }
}

#[test]
fn a_list_of_files_that_cannot_be_written_is_reported_and_tried_again() {
    let mut run = Stepped::begin(&config());
    run.disk.set_faults(StoreFaults { text_errors: ALWAYS, ..NO_FAULTS });
    run.send_until(|run| run.snapshot().counts.file_list_refused == 1);
    run.send_until(|run| run.frame_files().len() >= 3);
    let during = run.snapshot();
    assert!(warned(&during, "list of files cannot be written; recording goes on"), "{during:?}");
    assert_eq!((during.state, run.list()), (State::Recording, String::new()));
    run.disk.set_faults(NO_FAULTS);
    // No line comes by itself: files are long.
    for _ in 0..3_000 {
        if run.snapshot().counts.file_list_refused == 0 {
            break;
        }
        run.pass(1);
    }
    assert_eq!(run.snapshot().counts.file_list_refused, 0);
    assert!(run.list().lines().count() >= 5, "{}", run.list());
    let last = run.end();
    assert!(!last.ledger.balance().lost_data() && last.faults == 0);
    let (is_intact, audit) = run.read();
    assert!(is_intact && audit.verdict == Verdict::Balanced, "{audit:?}");
}

#[test]
fn a_list_of_files_that_is_refused_to_the_end_is_a_warning() {
    let mut run = Stepped::begin(&config());
    run.disk.set_faults(StoreFaults { text_errors: ALWAYS, ..NO_FAULTS });
    run.send(30);
    let last = run.end();
    assert!(warned(&last, "the run's list of files is not complete"), "{:?}", last.warnings);
}

#[test]
fn a_list_of_files_that_is_refused_and_then_written_at_the_end_is_complete() {
    let mut run = Stepped::begin(&config());
    run.disk.set_faults(StoreFaults { text_errors: ALWAYS, ..NO_FAULTS });
    run.send_until(|run| run.snapshot().counts.file_list_refused == 1);
    // It is not tried again before the run ends.
    run.disk.set_faults(NO_FAULTS);
    let last = run.end();
    assert!(!warned(&last, "the run's list of files is not complete"), "{:?}", last.warnings);
    assert_eq!(last.counts.file_list_refused, 0);
    assert!(run.list().lines().last().is_some_and(|line| line.contains("ended")), "{}", run.list());
}
