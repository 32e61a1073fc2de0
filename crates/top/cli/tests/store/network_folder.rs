//! Folders on a network file system, for which a FUSE file system of the test stands in: a folder
//! that hangs is named, and nothing is lost; one that fails is named with its reason. As root, with
//! `/dev/fuse`; without, the tests say so and pass.

use std::path::PathBuf;

use catchment_fixtures::SmallDisk;
use catchment_network_folder::{NetworkFolder, Operation, Refused};

use super::spilled::spilled;
use super::*;

/// Small files, and a wait at the end for as long as it takes.
pub(super) const TABLES: &str = r#"
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

pub(super) fn target(name: &str, folders: &[PathBuf]) -> String {
    format!("[[targets]]\nname = \"{name}\"\nfolders = {folders:?}\n")
}

fn until_alarm(node: &Node, name: &str) {
    let is_it = |alarm: &Value| alarm["name"] == name && alarm["ended"].is_null();
    wait_while(|| !node.ctl(&["alarms"])["alarms"].as_array().unwrap().iter().any(is_it));
}

/// Looks until `ctl state` prints a line with these beginning and part.
fn until_printed(folder: &Path, node: &Node, begin: &str, part: &str) {
    let is_it = |line: &str| line.starts_with(begin) && line.contains(part);
    wait_while(|| {
        let text = stdout(folder, &["ctl", "--url", &node.url, "state"], 0);
        !text.lines().any(is_it)
    });
}

/// For how long the first folder of the only target has not answered.
fn waits(state: &Value) -> f64 {
    state["targets"][0]["folders"][0]["waits_seconds"].as_f64().expect("a number")
}

pub(super) fn end(node: Node, code: i32) {
    node.signal(libc::SIGINT);
    assert_eq!(node.ended().code(), Some(code));
}

#[test]
fn writes_and_syncs_that_hang_are_named_and_lose_nothing() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs = remote.path().join("runs");
    let (node, front_end) = start(folder.path(), &target("remote", std::slice::from_ref(&runs)));
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    let stalled = remote.stall(Operation::Write);
    // More than the front-end may hold until it is durable.
    send_these(&front_end, 2_000..12_000, |_| {
        wait_while(|| remote.waiting(Operation::Write) == 0);
        // On a busy machine a sync from before may be what is waited for at first, and complete:
        // each is looked for by itself.
        node.until(|state| waits(state) >= 5.0);
        until_alarm(&node, "target_waits");
        let begin = format!("  {}: ", runs.display());
        until_printed(folder.path(), &node, &begin, "has not completed for ");
        let state = node.ctl(&["state"]);
        assert_eq!((&state["state"], &state["loss"]["count"]), (&"recording".into(), &0.into()));
        drop(stalled);
        node.until(|state| waits(state) < 1.0);
    });
    wait_durable(&front_end, 12_000);
    let stalled = remote.stall(Operation::Sync);
    send_these(&front_end, 12_000..14_000, |_| {
        wait_while(|| remote.waiting(Operation::Sync) == 0);
        node.until(|state| waits(state) >= 1.0);
        drop(stalled);
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    check(&only(&runs), 14_000);
}

#[test]
fn closes_that_hang_do_not_delay_the_next_files_and_are_named() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs = remote.path().join("runs");
    let (node, front_end) = start(folder.path(), &target("remote", std::slice::from_ref(&runs)));
    let stalled = remote.stall(Operation::Close);
    // A file that is left is synced before it is closed: what comes behind it is not held up.
    send_these(&front_end, 0..8_000, |_| {
        wait_while(|| remote.waiting(Operation::Close) == 0);
        node.until(|state| state["run"]["files"].as_u64() >= Some(3));
        node.until(|state| waits(state) >= 1.0);
        drop(stalled);
    });
    wait_durable(&front_end, 8_000);
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    check(&only(&runs), 8_000);
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

#[test]
fn a_quota_that_is_used_up_in_the_middle_of_a_write_sends_files_to_another_folder() {
    let refused = Refused { blocks: true, ..Refused::default() };
    let Some(remote) = NetworkFolder::mount(refused) else { return };
    // It has less room than the other one, which is chosen.
    let Some(small) = SmallDisk::in_memory("size=256m") else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs = [remote.path().join("runs"), small.path().join("runs")];
    let (node, front_end) = start(folder.path(), &target("both", &runs));
    let folders = |state: &Value| state["targets"][0]["folders"].clone();
    node.until(|state| folders(state)[0]["is_current"] == true);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    // In no block, so that one write is cut short.
    remote.limit(Some(1_000_001));
    let mut sent = 2_000;
    let mut away = Value::Null;
    while !away.is_string() {
        send_these(&front_end, sent..sent + 500, |_| {});
        sent += 500;
        away = folders(&node.ctl(&["state"]))[0]["away"].clone();
    }
    assert!(away.as_str().unwrap().contains("No space left on device"), "{away}");
    send_these(&front_end, sent..sent + 4_000, |_| {});
    sent += 4_000;
    wait_durable(&front_end, sent);
    let _closed = front_end.close(LONG);
    node.signal(libc::SIGINT);
    let code = node.ended().code();
    let runs = runs.each_ref().map(|runs| only(runs));
    let run = Run::open_folders(&runs, RunOptions::default()).unwrap();
    let report = audit(&run).unwrap();
    // What was being written there is lost, and counted.
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
    let discarded = ledger[Entry::FragmentsDiscardedDisk];
    assert_eq!(ledger[Entry::FragmentsRecorded] + discarded, 3 * sent);
    let lost = discarded + ledger[Entry::FragmentsUnconfirmed];
    assert_eq!(report.verdict == Verdict::Balanced, lost == 0, "{report:?}");
    assert_eq!(code, Some(if lost > 0 { 3 } else { 0 }), "{lost} lost");
    // The file there has no room for its end, and may have a part of a frame.
    let mut found = 0;
    for (key, of_sources) in fragments(&run) {
        for (source, bytes) in of_sources.iter().enumerate() {
            let Some(bytes) = bytes else { continue };
            assert!(*bytes == content(source, key), "event {key}, source {source}");
            found += 1;
        }
    }
    assert!(found + lost >= 3 * sent, "{found} fragments, {lost} lost: {report:?}");
}

#[test]
fn a_spill_whose_disk_hangs_is_named_and_everything_comes_to_the_node() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (address, spill) = (free(), remote.path().join("spill"));
    configure_store(folder.path(), address);
    let target = format!(
        "[[targets]]\nname = \"node\"\nkind = \"store\"\naddress = \"{address}\"\n\
         spill = {spill:?}\nspill_bytes = \"1 GiB\"\n"
    );
    let (node, front_end) = start(folder.path(), &target);
    let stalled = remote.stall(Operation::Sync);
    send_these(&front_end, 0..2_000, |_| {
        wait_while(|| remote.waiting(Operation::Sync) == 0);
        node.until(|state| {
            assert_eq!(state["loss"]["count"], 0, "{state}");
            state["spills"][0]["waits_seconds"].as_f64().expect("a number") >= 5.0
        });
        wait_while(|| node.metric("catchment_spill_waits_seconds{target=\"node\"}") < 5.0);
        let source = Value::from(format!("node ({})", spill.display()));
        wait_while(|| {
            let alarms = node.ctl(&["alarms"])["alarms"].clone();
            let is_it = |one: &Value| one["name"] == "target_waits" && one["source"] == source;
            !alarms.as_array().unwrap().iter().any(is_it)
        });
        until_printed(folder.path(), &node, "Spill of node", "its disk has not answered for ");
        drop(stalled);
    });
    wait_durable(&front_end, 2_000);
    // What the node shows is half a second old.
    node.until(|state| state["spills"][0]["frames_waiting"].as_u64() > Some(0));
    let store = Store::start(folder.path(), address);
    let state = node.until(|state| state["spills"][0]["frames_waiting"] == 0);
    assert_eq!(state["spills"][0]["frames_lost"], 0);
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    store.end();
    check(&only(&folder.path().join("stored")), 2_000);
}

/// A target with a spill, which holds less than what is sent while it hangs.
pub(super) fn target_with_spill(runs: &Path) -> String {
    target("remote", &[runs.to_owned()]) + "hold_bytes = \"4 MiB\"\n" + SPILL + "\n"
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
        // All of it is, while the folder still hangs: where a file is closed, what was written is
        // durable before, and the next file takes what follows. Then only what a folder on a busy
        // machine does not take in time is spilled.
        wait_durable(&front_end, 12_000);
        let spills = operation != Operation::Close;
        let expected = if spills { "spilling" } else { "recording" };
        let state = node.until(|state| state["targets"][0]["state"] == expected);
        assert!(remote.waiting(operation) > 0);
        assert!(spilled(&state, "frames_spilled") > 0 || !spills);
        assert_eq!(state["state"], "recording");
        if spills {
            let target = "Target remote (required): spilling, ";
            until_printed(folder.path(), &node, target, "nothing becomes");
        }
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
        assert!((moved[0] > 0 || !spills) && moved[0] == moved[1], "{moved:?}");
        let left = std::fs::read_dir(folder.path().join("spill"));
        assert_eq!(left.map_or(0, Iterator::count), 0);
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
    // If all was forwarded soon enough, the run has gone on.
    end(next, 0);
    check_forwarded(&runs.join(&name), 6_000);
}

/// That a run of so many events is closed and balances, and each frame is in it once and in order.
pub(super) fn check_forwarded(folder: &Path, events: u64) {
    let run = Run::open(folder).unwrap();
    let verified = verify(&run, |_| {});
    assert!(run.closed() && verified.is_intact(), "{verified:?}");
    assert_eq!((run.event_count(), run.frames_missing()), (events, 0));
    let report = audit(&run).unwrap();
    assert!(report.balance.holds() && report.differences.is_empty(), "{report:?}");
    let numbers = numbers(run.path());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    let recorded = fragments(&run);
    for (source, key) in (0..3).flat_map(|source| (0..events).map(move |key| (source, key))) {
        let bytes = recorded.get(&key).and_then(|event| event[source].as_ref());
        assert!(bytes == Some(&content(source, key)), "event {key}, source {source}");
    }
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
    let is_spilling = |state: &Value| {
        assert_eq!((&state["state"], &state["loss"]["count"]), (&"recording".into(), &0.into()));
        state["targets"][0]["state"] == "spilling"
    };
    send_these(&front_end, 2_000..6_000, |_| {
        node.until(is_spilling);
    });
    // The spill has it, which counts as recorded.
    wait_durable(&front_end, 6_000);
    node.until(|state| state["run"]["events"] == 6_000);
    until_alarm(&node, "target_spilling");
    assert!(is_spilling(&node.ctl(&["state"])));
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

/// The run has each fragment once and whole, in frames that stand in the order of their numbers.
fn check_in_order(run: &Path, keys: u64) {
    let run = check(run, keys);
    assert!(run.problems().is_empty() && !run.lost_data(), "{:?}", run.problems());
    assert_eq!(run.frames_missing(), 0);
    let numbers = numbers(run.path());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
}

#[test]
fn a_folder_with_a_spill_that_is_full_in_the_middle_of_a_run_gets_everything_when_it_has_room() {
    let refused = Refused { blocks: true, ..Refused::default() };
    let Some(remote) = NetworkFolder::mount(refused) else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs = remote.path().join("runs");
    let (node, front_end) = start(folder.path(), &target_with_spill(&runs));
    let mut sent = 0;
    // A write is cut short in the middle of a block, in each time.
    for room in [1_000_001, 3_000_001] {
        send_these(&front_end, sent..sent + 2_000, |_| {});
        sent += 2_000;
        wait_durable(&front_end, sent);
        remote.limit(Some(room));
        send_these(&front_end, sent..sent + 4_000, |_| {
            let state = node.until(|state| state["targets"][0]["state"] == "spilling");
            assert_eq!(state["state"], "recording");
            let reason = state["targets"][0]["reason"].as_str().unwrap();
            assert!(reason.contains("No space left on device"), "{reason}");
            until_alarm(&node, "disk_space");
            until_alarm(&node, "target_spilling");
        });
        sent += 4_000;
        // The spill has it, and nothing is lost.
        wait_durable(&front_end, sent);
        let state = node.until(|state| spilled(state, "frames_waiting") > 0);
        assert_eq!(state["loss"]["count"], 0);
        remote.limit(None);
        node.until(|state| state["targets"][0]["state"] == "recording" && is_forwarded(state));
    }
    send_these(&front_end, sent..sent + 1_000, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    check_in_order(&only(&runs), sent + 1_000);
    assert!(nothing_waits(&folder.path().join("spill")));
}

#[test]
fn a_spill_that_is_full_has_front_ends_wait_until_its_folder_is_back() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs = remote.path().join("runs");
    let targets = target_with_spill(&runs).replace("1 GiB", "16 MiB");
    let (node, front_end) = start(folder.path(), &targets);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    let stalled = remote.stall(Operation::Write);
    // Memory, the spill and the front-end's ring hold less than that.
    send_these(&front_end, 2_000..22_000, |sent| {
        let is_full = |state: &Value| state["warnings"].to_string().contains("the spill is full");
        let state = node.until(is_full);
        assert_eq!((&state["state"], &state["loss"]["count"]), (&"recording".into(), &0.into()));
        until_alarm(&node, "spill_full");
        until_alarm(&node, "target_away");
        let bytes = spilled(&state, "bytes_waiting");
        assert!(bytes <= 16 << 20, "{bytes}");
        assert!(sent.load(Relaxed) < 21_000);
        drop(stalled);
    });
    wait_durable(&front_end, 22_000);
    node.until(is_forwarded);
    let alarms = || node.ctl(&["alarms"])["alarms"].clone();
    let is_on = |one: &Value| one["name"] == "spill_full" && one["ended"].is_null();
    wait_while(|| alarms().as_array().unwrap().iter().any(is_on));
    assert_eq!(front_end.close(LONG), Closed::default());
    end(node, 0);
    check_in_order(&only(&runs), 22_000);
}

#[test]
fn a_node_ends_although_its_folder_hangs_and_the_spill_is_full() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (spill, runs) = (folder.path().join("spill"), remote.path().join("runs"));
    // The catalogue is in the first folder, which answers.
    let second = target_with_spill(&runs).replace("1 GiB", "16 MiB");
    let targets = target("local", &["runs".into()]) + &second;
    let (text, url) = text_with(&TABLES.replace("1 h", "3 s"), &targets);
    let node = Node::start(folder.path(), &text, &[]);
    node.until(|state| state["state"] == "recording");
    let front_end = front_end(&url);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    let stalled = remote.stall(Operation::Write);
    let is_full = || node.ctl(&["state"])["warnings"].to_string().contains("the spill is full");
    let statuses = || front_end.sources().iter().map(|source| source.status());
    let mut sent = 2_000;
    while !is_full() {
        // The front-end's ring has room for them.
        send_these(&front_end, sent..sent + 1_000, |_| {});
        sent += 1_000;
        wait_while(|| statuses().any(|one| one.durable < one.made) && !is_full());
    }
    assert_eq!(node.ctl(&["state"])["state"], "recording");
    node.signal(libc::SIGINT);
    let log = folder.path().join("node.log");
    wait_while(|| !std::fs::read_to_string(&log).unwrap().contains("a device's thread hangs"));
    assert!(remote.waiting(Operation::Write) > 0);
    // Marks are made and durable, too.
    let keys = statuses().map(|one| (one.durable + sent).saturating_sub(one.made)).min().unwrap();
    // Nothing ends a process that waits for a file system.
    drop(stalled);
    assert_eq!(node.ended().code(), Some(1));
    drop(front_end);
    let name = only(&folder.path().join("runs")).file_name().unwrap().to_owned();
    let next = Node::start(folder.path(), &text, &[]);
    // If it ended slowly enough, the folder has got everything by then.
    wait_while(|| spill.join(&name).exists());
    end(next, 0);
    // What was durable is in both folders.
    for runs in [folder.path().join("runs"), runs] {
        let run = Run::open(runs.join(&name)).unwrap();
        let verified = verify(&run, |_| {});
        assert!(verified.is_intact(), "{verified:?}");
        let events = fragments(&run);
        for (source, key) in
            (0..3).flat_map(|source| (0..keys.max(2_000)).map(move |key| (source, key)))
        {
            let bytes = events.get(&key).and_then(|event| event[source].as_ref());
            assert!(bytes == Some(&content(source, key)), "event {key}, source {source}");
        }
    }
}

#[test]
fn one_program_after_another_is_killed_while_it_forwards_to_a_folder_and_each_frame_is_there_once()
{
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (spill, runs) = (folder.path().join("spill"), remote.path().join("runs"));
    // Files of it are removed one by one as they are forwarded.
    let targets = target_with_spill(&runs).replace("1 GiB", "256 MiB");
    let (text, url) = text_with(TABLES, &targets);
    let first = Node::start(folder.path(), &text, &[]);
    first.until(|state| state["state"] == "recording");
    let front_end = front_end(&url);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    let mut stalled = remote.stall(Operation::Write);
    send_these(&front_end, 2_000..12_000, |_| {});
    wait_durable(&front_end, 12_000);
    first.until(|state| spilled(state, "frames_waiting") > 0);
    first.signal(libc::SIGKILL);
    drop(stalled);
    first.ended();
    drop(front_end);
    let name = only(&spill).file_name().unwrap().to_owned();
    let run = runs.join(&name);
    // In the middle of a file, or of its sync, or of its end.
    for operation in [Operation::Write, Operation::Sync, Operation::Close, Operation::Write] {
        let before = bytes_in(&run);
        let next = Node::start(folder.path(), &text, &[]);
        wait_while(|| bytes_in(&run) == before && spill.join(&name).exists());
        stalled = remote.stall(operation);
        // If this comes late, all is forwarded.
        wait_while(|| remote.waiting(operation) == 0 && spill.join(&name).exists());
        next.signal(libc::SIGKILL);
        drop(stalled);
        next.ended();
    }
    let last = Node::start(folder.path(), &text, &[]);
    wait_while(|| spill.join(&name).exists());
    let state = last.ctl(&["state"]);
    assert_eq!(spilled(&state, "frames_lost"), 0);
    end(last, 0);
    check_forwarded(&run, 12_000);
}

/// Bytes of a folder's files.
fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}
