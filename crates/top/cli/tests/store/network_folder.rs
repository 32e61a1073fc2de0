//! Folders on a network file system, for which a FUSE file system of the test stands in: a folder
//! that hangs is named, and nothing is lost; one that fails is named with its reason. As root, with
//! `/dev/fuse`; without, the tests say so and pass.

use std::path::PathBuf;

use catchment_network_folder::{NetworkFolder, Operation, Refused};

use super::spilled::spilled;
use super::*;

/// Small files, and a wait at the end for as long as it takes.
const TABLES: &str = r#"
[control]
requests_per_second = 1000000
drain = "1 h"
[write]
buffer_bytes = "256 KiB"
preallocate_bytes = "1 MiB"
file_bytes = "4 MiB"
sync_interval = "20 ms"
"#;

/// A recorder with these targets, and a front-end that is connected to it.
fn start(folder: &Path, targets: &str) -> (Node, Frontend) {
    let (text, url) = text_with(TABLES, targets);
    let node = Node::start(folder, &text, &[]);
    node.until(|state| state["state"] == "recording");
    (node, front_end(&url))
}

fn target(name: &str, folders: &[PathBuf]) -> String {
    format!("[[targets]]\nname = \"{name}\"\nfolders = {folders:?}\n")
}

fn until_alarm(node: &Node, name: &str) {
    let is_it = |alarm: &Value| alarm["name"] == name && alarm["ended"].is_null();
    wait_while(|| !node.ctl(&["alarms"])["alarms"].as_array().unwrap().iter().any(is_it));
}

fn end(node: Node, code: i32) {
    node.signal(libc::SIGINT);
    assert_eq!(node.ended().code(), Some(code));
}

#[test]
fn of_two_targets_the_one_whose_syncs_fail_is_named_and_the_other_has_everything() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs = ["runs".into(), remote.path().join("runs")];
    let targets = target("local", &runs[..1]) + &target("remote", &runs[1..]);
    let (node, front_end) = start(folder.path(), &targets);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    remote.fail(Operation::Sync, Some(libc::EIO));
    let mut failed = Value::Null;
    send_these(&front_end, 2_000..6_000, |_| {
        let state = node.until(|state| state["targets"][1]["state"] == "fault");
        until_alarm(&node, "target_fault");
        failed = state["targets"].clone();
        // Until then the front-end holds what the run needs to be durable in both.
        remote.fail(Operation::Sync, None);
        node.until(|state| state["targets"][1]["state"] == "recording");
    });
    assert_eq!((&failed[0]["state"], &failed[1]["name"]), (&"recording".into(), &"remote".into()));
    let reason = failed[1]["reason"].as_str().unwrap();
    assert!(reason.contains(runs[1].to_str().unwrap()), "{reason}");
    assert!(reason.contains("Input/output error"), "{reason}");
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    check(&only(&folder.path().join("runs")), 6_000);
    // What the other one lacks is counted there.
    let run = Run::open(only(&runs[1])).unwrap();
    let report = audit(&run).unwrap();
    assert!(report.balance.holds() && report.differences.is_empty(), "{report:?}");
    let there = fragments(&run);
    for (source, key) in (0..3).flat_map(|source| (0..2_000).map(move |key| (source, key))) {
        // It was durable in both.
        let bytes = there.get(&key).and_then(|event| event[source].as_ref());
        assert!(bytes == Some(&content(source, key)), "event {key}, source {source}");
    }
    let found = there.values().flatten().flatten().count() as u64;
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
    let lacking = [
        Entry::FragmentsDiscardedDisk,
        Entry::FragmentsNotTaken,
        // Some of them may be there.
        Entry::FragmentsUnconfirmed,
    ];
    let lacking: u64 = lacking.map(|entry| ledger[entry]).iter().sum();
    assert!(found + lacking >= 3 * 6_000, "{found} fragments, {lacking} counted: {report:?}");
}

#[test]
fn a_folder_without_direct_writes_and_preallocation_is_named_and_has_everything() {
    let Some(remote) = NetworkFolder::mount(Refused { direct: true, blocks: true }) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let runs = remote.path().join("runs");
    remote.halve_writes(true);
    let (node, front_end) = start(folder.path(), &target("remote", std::slice::from_ref(&runs)));
    send_these(&front_end, 0..4_000, |_| {});
    wait_durable(&front_end, 4_000);
    let text = |state: &Value| state["warnings"].to_string();
    let at = format!("target remote: the file system of {} ", runs.display());
    let state = node.until(|state| text(state).contains("does not preallocate"));
    for what in ["refuses direct writes (O_DIRECT)", "does not preallocate (fallocate)"] {
        assert!(text(&state).contains(&(at.clone() + what)), "{}", text(&state));
    }
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    check(&only(&runs), 4_000);
}

#[test]
fn a_storage_node_whose_folder_hangs_and_fails_has_everything_once() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (address, stored) = (free(), remote.path().join("stored"));
    configure_store_in(folder.path(), &[&stored], address, "");
    let store = Store::start(folder.path(), address);
    let target =
        format!("[[targets]]\nname = \"node\"\nkind = \"store\"\naddress = \"{address}\"\n");
    let (node, front_end) = start(folder.path(), &target);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    let stalled = remote.stall(Operation::Write);
    send_these(&front_end, 2_000..8_000, |_| {
        wait_while(|| remote.waiting(Operation::Write) == 0);
        drop(stalled);
    });
    wait_durable(&front_end, 8_000);
    remote.fail(Operation::Sync, Some(libc::EIO));
    send_these(&front_end, 8_000..14_000, |_| {
        // Not its alarm: that waits 3 s anew after each session that is opened again.
        node.until(|state| state["targets"][0]["nodes"][0]["away"].is_string());
        remote.fail(Operation::Sync, None);
    });
    wait_durable(&front_end, 14_000);
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    store.end();
    check(&only(&stored), 14_000);
}

/// A target with a spill, which holds less than what is sent while it hangs.
fn target_with_spill(runs: &Path) -> String {
    // The thread that writes trends would hang, too, and with it the run's end.
    let more = "trends = false\nhold_bytes = \"4 MiB\"\n";
    target("remote", &[runs.to_owned()]) + more + SPILL + "\n"
}

/// The numbers of the frames in a run's files, in the order of these.
fn numbers(run: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(run).unwrap().map(|file| file.unwrap().path());
    let mut paths: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|one| one == "catch")).collect();
    paths.sort();
    let of_file = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        let reader = FileReader::open(&bytes).unwrap();
        reader.frames().iter().map(|frame| frame.info.sequence).collect::<Vec<u64>>()
    };
    paths.iter().flat_map(of_file).collect()
}

fn is_forwarded(state: &Value) -> bool {
    let is_moved = spilled(state, "frames_forwarded") == spilled(state, "frames_spilled");
    spilled(state, "frames_waiting") == 0 && is_moved
}

#[test]
fn a_folder_that_hangs_for_longer_than_memory_lasts_gets_everything_in_order_from_its_spill() {
    for operation in [Operation::Write, Operation::Sync, Operation::Close] {
        let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let runs = remote.path().join("runs");
        let (node, front_end) = start(folder.path(), &target_with_spill(&runs));
        send_these(&front_end, 0..2_000, |_| {});
        wait_durable(&front_end, 2_000);
        let stalled = remote.stall(operation);
        send_these(&front_end, 2_000..12_000, |_| {
            wait_while(|| remote.waiting(operation) == 0);
        });
        // All of it is, while the folder still hangs.
        wait_durable(&front_end, 12_000);
        let state = node.until(|state| spilled(state, "frames_waiting") > 0);
        assert!(remote.waiting(operation) > 0);
        assert_eq!(state["targets"][0]["state"], "recording");
        drop(stalled);
        let state = node.until(is_forwarded);
        assert_eq!(spilled(&state, "frames_lost"), 0);
        send_these(&front_end, 12_000..13_000, |_| {});
        assert_eq!(front_end.close(LONG), Closed::default());
        end(node, 0);
        let run = check(&only(&runs), 13_000);
        assert!(run.problems().is_empty() && !run.lost_data(), "{:?}", run.problems());
        let numbers = numbers(run.path());
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
        let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
        let moved = [Entry::FragmentsSpilled, Entry::FragmentsForwarded].map(|one| ledger[one]);
        assert!(moved[0] > 0 && moved[0] == moved[1], "{moved:?}");
        assert_eq!(std::fs::read_dir(folder.path().join("spill")).unwrap().count(), 0);
    }
}

#[test]
fn what_a_killed_recorder_has_spilled_for_a_folder_is_forwarded_into_the_run_by_the_next_one() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (spill, runs) = (folder.path().join("spill"), remote.path().join("runs"));
    let (text, url) = text_with(TABLES, &target_with_spill(&runs));
    let first = Node::start(folder.path(), &text, &[]);
    first.until(|state| state["state"] == "recording");
    let front_end = front_end(&url);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    let stalled = remote.stall(Operation::Write);
    send_these(&front_end, 2_000..6_000, |_| {});
    wait_durable(&front_end, 6_000);
    first.until(|state| spilled(state, "frames_waiting") > 0);
    // It ends when the folder lets go of it.
    first.signal(libc::SIGKILL);
    drop(stalled);
    first.ended();
    drop(front_end);
    let name = only(&spill).file_name().unwrap().to_owned();
    let next = Node::start(folder.path(), &text, &[]);
    wait_while(|| spill.join(&name).exists());
    let state = next.until(is_forwarded_by_next);
    assert_eq!(spilled(&state, "frames_lost"), 0);
    let run = Run::open(runs.join(&name)).unwrap();
    let verified = verify(&run, |_| {});
    assert!(run.closed() && !run.ended() && verified.is_intact(), "{verified:?}");
    assert_eq!((run.event_count(), run.frames_missing()), (6_000, 0));
    let report = audit(&run).unwrap();
    assert!(report.balance.holds() && report.differences.is_empty(), "{report:?}");
    let numbers = numbers(run.path());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    let events = fragments(&run);
    for (source, key) in (0..3).flat_map(|source| (0..6_000).map(move |key| (source, key))) {
        let bytes = events.get(&key).and_then(|event| event[source].as_ref());
        assert!(bytes == Some(&content(source, key)), "event {key}, source {source}");
    }
    end(next, 0);
}

/// That frames of an earlier run were forwarded, and none waits.
fn is_forwarded_by_next(state: &Value) -> bool {
    spilled(state, "frames_forwarded") > 0 && spilled(state, "frames_waiting") == 0
}

#[test]
fn what_a_folder_with_a_spill_fails_to_write_is_written_again() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs = remote.path().join("runs");
    let (node, front_end) = start(folder.path(), &target_with_spill(&runs));
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    remote.fail(Operation::Write, Some(libc::EIO));
    send_these(&front_end, 2_000..6_000, |_| {
        node.until(|state| state["targets"][0]["state"] == "fault");
    });
    // The spill has it.
    wait_durable(&front_end, 6_000);
    remote.fail(Operation::Write, None);
    node.until(|state| state["targets"][0]["state"] == "recording" && is_forwarded(state));
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    let run = Run::open(only(&runs)).unwrap();
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    assert_eq!((run.event_count(), run.frames_missing()), (6_000, 0));
    assert!(!run.lost_data() && run.ended());
}

#[test]
fn a_run_ends_while_its_folder_hangs_and_what_is_spilled_follows() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs = remote.path().join("runs");
    // The catalogue is in the first folder, which answers.
    let targets = target("local", &["runs".into()]) + &target_with_spill(&runs);
    let (node, front_end) = start(folder.path(), &targets);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    let stalled = remote.stall(Operation::Write);
    send_these(&front_end, 2_000..4_000, |_| {});
    wait_durable(&front_end, 4_000);
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(node.ctl(&["stop"])["status"], "done");
    let spill = folder.path().join("spill");
    assert!(!nothing_waits(&spill) && remote.waiting(Operation::Write) > 0);
    drop(stalled);
    wait_while(|| std::fs::read_dir(&spill).unwrap().count() > 0);
    // What is forwarded after the end is not in the run's ledger.
    let run = check(&only(&runs), 4_000);
    assert!(run.problems().is_empty() && !run.lost_data(), "{:?}", run.problems());
    end(node, 0);
}
