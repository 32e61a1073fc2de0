//! Folders on a network file system, for which a FUSE file system of the test stands in: a folder
//! that hangs is named, and nothing is lost; one that fails is named with its reason. As root, with
//! `/dev/fuse`; without, the tests say so and pass.

use std::path::PathBuf;

use catchment_network_folder::{NetworkFolder, Operation, Refused};

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
