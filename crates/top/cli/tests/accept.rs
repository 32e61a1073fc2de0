//! Front-ends that nobody configured by name.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use catchment_fixtures::wait_while;
use catchment_frontend::Frontend;
use catchment_model::{Entry, SourceId};
use catchment_storage::{Run, Verdict, audit};
use serde_json::{Value, json};

use crate::front_ends::LONG;
use crate::life::Node;
use crate::support::{free_ports, output, stderr};

/// A node that admits front-ends with names of detectors, and knows none.
fn configuration(port: u16, start: &str) -> String {
    format!(
        r#"
[control]
start = "{start}"
requests_per_second = 1000000
drain = "1 h"
[run]
resume = "1 h"
[memory]
budget = "512 MiB"
[build]
timeout = "1 h"
[frame]
time = "50 ms"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "1 MiB"
[[listen]]
address = "127.0.0.1:{port}"
[[accept]]
senders = "detector-*"
front_ends = 4
sources = 2
group = "guests"
"#
    )
}

fn front_end(port: u16, name: &str, wait: Duration) -> Frontend {
    let builder = Frontend::builder(&format!("catchment+tcp://127.0.0.1:{port}"), name);
    builder.wait(wait).connect().unwrap()
}

/// Sends these keys, and waits until all are durable.
fn send(front_ends: &[&Frontend], keys: std::ops::Range<u64>) {
    for key in keys {
        for one in front_ends {
            one.send(key, &key.to_le_bytes()).unwrap();
        }
    }
    for one in front_ends {
        let status = || one.sources()[0].status();
        wait_while(|| status().released < status().made);
    }
}

/// What is shown of a front-end.
fn properties(node: &Node, name: &str) -> Value {
    let (devices, path) = (node.ctl(&["devices"]), format!("node/front_ends/{name}"));
    let mut devices = devices["devices"].as_array().unwrap().iter();
    devices.find(|one| one["path"] == path.as_str()).cloned().unwrap_or_default()
}

/// Waits until these front-ends are connected.
fn until_connected(node: &Node, names: &[&str]) {
    for name in names {
        wait_while(|| {
            let device = properties(node, name);
            device.is_null() || !device["reason"].is_null()
        });
    }
}

/// The names of a run's sources, and its events by key: how many fragments each has.
fn recorded(folder: &Path) -> (Vec<String>, BTreeMap<u64, usize>) {
    let run = Run::open(folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let mut events: BTreeMap<u64, usize> = BTreeMap::new();
    let names: Vec<String> = run.sources().iter().map(|one| one.name.clone()).collect();
    for frame in 0..run.frames().len() {
        for source in 0..names.len() as u32 {
            let column = run.fragments(frame, SourceId(source)).unwrap();
            for (row, &key) in column.events().keys().iter().enumerate() {
                let fragment = column.fragment(row);
                assert!(fragment.as_ref().is_none_or(|bytes| **bytes == key.to_le_bytes()));
                *events.entry(key).or_default() += usize::from(fragment.is_some());
            }
        }
    }
    (names, events)
}

/// Ends a run; returns its folder.
fn stop(node: &Node, number: u64, folder: &Path) -> std::path::PathBuf {
    assert_eq!(node.ctl(&["stop"])["status"], "done");
    let run = node.ctl(&["run", &number.to_string()]);
    assert_eq!((&run["state"], &run["loss_count"]), (&json!("complete"), &json!(0)), "{run}");
    folder.join("runs").join(run["folder"].as_str().unwrap())
}

#[test]
fn front_ends_that_nobody_configured_are_recorded_by_name() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_ports(1));
    let node = Node::start(folder.path(), &configuration(port, "manual"), &[]);
    node.ctl(&["configure"]);
    let failed = output(folder.path(), &["ctl", "--url", &node.url, "start"]);
    let failed = String::from_utf8(failed.stderr).unwrap();
    let expected = "expected a source or a link, or a connected front-end that [[accept]] admits";
    assert!(failed.contains(expected), "{failed}");
    let refused = Frontend::builder(&format!("catchment+tcp://127.0.0.1:{port}"), "camera");
    let refused = refused.wait(LONG).connect().unwrap_err().to_string();
    assert!(refused.contains("\"camera\" is not configured, and no [[accept]] fits"), "{refused}");

    let two = front_end(port, "detector-2", LONG);
    let one = front_end(port, "detector-1", LONG);
    until_connected(&node, &["detector-1", "detector-2"]);
    let shown = properties(&node, "detector-1")["properties"].clone();
    assert_eq!((&shown["admitted"], &shown["required"]), (&json!(true), &json!(true)), "{shown}");
    let started = node.ctl(&["start"]);
    assert_eq!((&started["status"], &started["run"]), (&json!("done"), &json!(1)), "{started}");
    send(&[&one, &two], 0..500);
    let sources = node.ctl(&["sources"]);
    let mut names: Vec<&str> = Vec::new();
    for source in sources["sources"].as_array().unwrap() {
        assert_eq!(source["group"], "guests");
        names.push(source["name"].as_str().unwrap());
    }
    names.sort_unstable();
    assert_eq!(names, ["detector-1", "detector-2"]);
    // It comes during the run, and is told so.
    let three = front_end(port, "detector-3", Duration::ZERO);
    let is_told = || three.status().contains("is not of this run");
    wait_while(|| !is_told());
    send(&[&one, &two], 500..600);
    let (names, events) = recorded(&stop(&node, 1, folder.path()));
    assert_eq!(names, ["detector-1", "detector-2"]);
    assert!(events.into_iter().eq((0..600).map(|key| (key, 2))));

    until_connected(&node, &["detector-1", "detector-2", "detector-3"]);
    let started = node.ctl(&["start"]);
    assert_eq!((&started["status"], &started["run"]), (&json!("done"), &json!(2)), "{started}");
    send(&[&one, &two, &three], 1_000..1_500);
    let (names, events) = recorded(&stop(&node, 2, folder.path()));
    assert_eq!(names, ["detector-1", "detector-2", "detector-3"]);
    assert!(events.into_iter().eq((1_000..1_500).map(|key| (key, 3))));

    // Who has gone is not of the next run, which is as the others in the catalogue.
    until_connected(&node, &["detector-1", "detector-2", "detector-3"]);
    assert!(two.close(LONG).is_confirmed());
    wait_while(|| properties(&node, "detector-2")["reason"].is_null());
    assert_eq!(properties(&node, "detector-2")["properties"]["presence"], "away");
    assert_eq!(properties(&node, "detector-1")["properties"]["presence"], "here");
    assert_eq!(node.ctl(&["start"])["run"], 3);
    assert!(properties(&node, "detector-2").is_null(), "it is forgotten");
    send(&[&one, &three], 2_000..2_100);
    let third = stop(&node, 3, folder.path());
    let (names, events) = recorded(&third);
    assert_eq!(names, ["detector-1", "detector-3"]);
    assert!(events.into_iter().eq((2_000..2_100).map(|key| (key, 2))));
    let text = Run::open(&third).unwrap().files().next().unwrap().header.config.clone();
    assert!(text.contains("# Admitted by [[accept]] when the run was armed."), "{text}");
    assert!(one.close(LONG).is_confirmed() && three.close(LONG).is_confirmed());
}

#[test]
fn a_run_of_admitted_front_ends_begins_when_one_is_there_and_survives_a_kill() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_ports(1));
    let text = configuration(port, "auto");
    let node = Node::start(folder.path(), &text, &[]);
    let one = front_end(port, "detector-1", LONG);
    node.until(|state| state["run"]["number"] == 1 && state["state"] == "recording");
    send(&[&one], 0..300);
    std::thread::scope(|scope| {
        // It is killed while it receives, and goes on with the text of the run's files.
        scope.spawn(|| send(&[&one], 300..3_000));
        wait_while(|| one.sources()[0].status().released < 600);
        drop(node);
        let node = Node::start(folder.path(), &text, &[]);
        let state = node.until(|state| state["state"] == "recording");
        assert_eq!(state["run"]["number"], 1, "{state}");
        wait_while(|| one.sources()[0].status().released < 3_000);
        let sources = node.ctl(&["sources"]);
        assert_eq!(sources["sources"][0]["name"], "detector-1", "{sources}");
        let ended = stop(&node, 1, folder.path());
        let (names, events) = recorded(&ended);
        assert_eq!(names, ["detector-1"]);
        assert!(events.into_iter().eq((0..3_000).map(|key| (key, 1))));
        let run = Run::open(&ended).unwrap();
        assert_eq!(run.files().last().unwrap().header.epoch, 1);
        let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
        assert_eq!(ledger[Entry::FragmentsRecorded], 3_000);
    });
    assert!(one.close(LONG).is_confirmed());
}

#[test]
fn a_run_that_nobody_controls_admits_nobody() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.toml"), "[[listen]]\n[[accept]]\nsenders = \"*\"\n")
        .unwrap();
    let refused = stderr(folder.path(), &["run", "run.toml"], 2);
    assert!(refused.contains("[[accept]] is for a node: expected [control], or --listen"));
}
