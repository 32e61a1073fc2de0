//! A recorder that is killed, and started again: it goes on with its run, and front-ends lose
//! nothing.

use std::net::TcpListener;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use catchment_fixtures::{Random, wait_while};
use catchment_frontend::{Closed, Frontend, KeyKind, SourceConfig};
use catchment_model::{Entry, Ledger};
use catchment_storage::{Run, Verdict, audit, verify};

use crate::front_ends::{LONG, SOURCES, content, fragments};
use crate::life::{Node, get};
use crate::support::{free, interrupt, json, only_run, started, stderr};

/// Kills of a recorder, and keys between them.
const KILLS: u64 = 5;
const KEYS: u64 = 1_000;

/// A configuration with three sources of one front-end, and its address.
fn configure(folder: &Path, rule: &str, more: &str) -> String {
    // Nobody else is given it while none of the recorders in turn has it.
    let address = free();
    let sources =
        SOURCES.map(|name| format!("[[sources]]\nname = \"detector/{name}\"\nvia = \"link\"\n"));
    let text = format!(
        r#"
[memory]
budget = "256 MiB"
[build]
timeout = "1 h"
{rule}
[frame]
time = "50 ms"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "4 MiB"
file_bytes = "40 MiB"
[[listen]]
address = "{address}"
{more}
{}"#,
        sources.concat()
    );
    std::fs::write(folder.join("node.toml"), text).unwrap();
    format!("catchment+tcp://{address}")
}

fn recorder(folder: &Path) -> Child {
    // It says nothing more to the pipe.
    started(folder, &["run", "node.toml"], "Recording").0
}

fn kill(mut recorder: Child) {
    recorder.kill().unwrap();
    recorder.wait().unwrap();
}

fn front_end(url: &str, key_kind: KeyKind) -> Frontend {
    let builder = Frontend::builder(url, "detector").buffer(12 << 20);
    let source = |name: &str| {
        let name = name.to_owned();
        SourceConfig { name, key_kind, marks: true, ..SourceConfig::default() }
    };
    let builder = SOURCES.iter().fold(builder, |it, name| it.source_of(source(name)));
    builder.fragment_bytes_max(1 << 20).wait(LONG).connect().expect("the recorder is there")
}

/// The run has the fragments of these keys, each once, and its books balance.
fn check(run: &Run, keys: std::ops::Range<u64>, apart: u64) -> Ledger {
    let report = audit(run).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    assert!(verify(run, |_| {}).is_intact());
    let events = fragments(run);
    assert!(events.keys().copied().eq(keys.map(|key| key * apart)), "{} events", events.len());
    for (key, of_sources) in events {
        for (source, bytes) in of_sources.iter().enumerate() {
            let expected = content(source, key / apart);
            assert!(bytes.as_ref() == Some(&expected), "event {key}, source {source}");
        }
    }
    run.recorded_ledger().unwrap().expect("of the whole run")
}

/// Sends fragments from a thread for each source, while the recorder is killed and started again;
/// returns the last one.
fn kill_under_load(folder: &Path, front_end: &Frontend, mut recorder: Child, apart: u64) -> Child {
    let mut random = Random::new(folder.as_os_str().len() as u64);
    let sent = AtomicU64::new(0);
    let end = (KILLS + 1) * KEYS;
    std::thread::scope(|scope| {
        for (index, source) in front_end.sources().iter().enumerate() {
            let sent = &sent;
            scope.spawn(move || {
                for key in 0..end {
                    source.send(key * apart, &content(index, key)).unwrap();
                    if index == 0 {
                        sent.store(key, Relaxed);
                    }
                }
            });
        }
        for life in 1..=KILLS {
            let until = life * KEYS + random.below(KEYS / 2);
            wait_while(|| sent.load(Relaxed) < until);
            kill(recorder);
            recorder = self::recorder(folder);
        }
        recorder
    })
}

/// A recorder that builds by this rule is killed five times, with keys so far apart.
fn is_killed_five_times(rule: &str, key_kind: KeyKind, apart: u64) {
    let folder = tempfile::tempdir().unwrap();
    let url = configure(folder.path(), rule, "");
    let recorder = recorder(folder.path());
    let front_end = front_end(&url, key_kind);
    let recorder = kill_under_load(folder.path(), &front_end, recorder, apart);
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder), Some(0));
    let run = Run::open(only_run(folder.path())).unwrap();
    let ledger = check(&run, 0..(KILLS + 1) * KEYS, apart).total();
    assert_eq!(ledger[Entry::FragmentsRecorded], 3 * (KILLS + 1) * KEYS);
    let none = [Entry::FragmentsLostRestart, Entry::FragmentsDiscardedRestart];
    assert_eq!(none.map(|entry| ledger[entry]), [0; 2]);
    let last = run.files().last().unwrap();
    assert_eq!(u64::from(last.header.epoch), KILLS);
    assert!(run.ended() && run.closed());
    let rows = json(folder.path(), &["catalog", "ls", "--json"], 0);
    let rows = rows["runs"].as_array().expect("runs");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["state"], &rows[0]["events"]), (&"complete".into(), &6_000.into()));
}

#[test]
fn a_recorder_that_is_killed_five_times_goes_on_with_its_run_and_loses_nothing() {
    is_killed_five_times("", KeyKind::Number, 1);
}

#[test]
fn by_time_it_goes_on_with_its_run_and_loses_nothing_either() {
    is_killed_five_times("match = \"time\"\ntime.window = \"100 ns\"", KeyKind::Time, 1_000);
}

#[test]
fn a_run_that_cannot_go_on_for_now_is_kept_and_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let url = configure(folder.path(), "", "");
    let first = recorder(folder.path());
    let front_end = front_end(&url, KeyKind::Number);
    let send = |keys: std::ops::Range<u64>| {
        for (index, source) in front_end.sources().iter().enumerate() {
            keys.clone().for_each(|key| source.send(key, &content(index, key)).unwrap());
        }
    };
    send(0..300);
    // The mark that begins the run, and a fragment.
    wait_while(|| front_end.sources()[0].status().durable < 2);
    kill(first);
    // Another program has its port.
    let address = url.trim_start_matches("catchment+tcp://");
    let other = TcpListener::bind(address).unwrap();
    let refused = stderr(folder.path(), &["run", "node.toml"], 1);
    assert!(refused.contains("run 1, which was interrupted, cannot go on now"), "{refused}");
    assert!(refused.contains("arm again within"), "{refused}");
    drop(other);
    let again = recorder(folder.path());
    send(300..500);
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(again), Some(0));
    check(&Run::open(only_run(folder.path())).unwrap(), 0..500, 1);
}

#[test]
fn the_alarm_of_an_interrupted_run_is_over_once_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let more = "[run]\nresume = \"1 h\"\n[control]\nrequests_per_second = 1000000\n";
    let url = configure(folder.path(), "", more);
    let text = std::fs::read_to_string(folder.path().join("node.toml")).unwrap();
    let first = Node::start(folder.path(), &text, &[]);
    let front_end = front_end(&url, KeyKind::Number);
    for (index, source) in front_end.sources().iter().enumerate() {
        (0..100).for_each(|key| source.send(key, &content(index, key)).unwrap());
    }
    wait_while(|| front_end.sources()[0].status().durable < 2);
    drop(first);
    let second = Node::start(folder.path(), &text, &[]);
    let state = || {
        let list = get(&format!("{}/api/v1/alarms", second.url)).1;
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let mut alarms = list["alarms"].as_array().unwrap().iter();
        let found = alarms.find(|alarm| alarm["name"] == "run_interrupted");
        found.map(|alarm| alarm["state"].as_str().unwrap().to_owned())
    };
    second.until(|state| state["run"]["number"] == 1 && state["state"] == "recording");
    // It is not raised at all if the run goes on before the catalogue is read.
    wait_while(|| state().is_some_and(|state| state != "cleared"));
}

/// A run that was killed, and of which nothing was written for so long, when the next recorder
/// begins; returns the states of the runs, newest first, and what that recorder logs.
fn is_resumed_after(age: Duration) -> (Vec<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    is_killed(folder.path(), age);
    let text = std::fs::read_to_string(folder.path().join("node.toml")).unwrap();
    let second = Node::start(folder.path(), &text, &[]);
    second.until(|state| state["state"] == "recording");
    states_and_log(folder.path())
}

/// A run that was killed, and to which nothing has been written for so long.
fn is_killed(folder: &Path, age: Duration) {
    let url = configure(folder, "", "[run]\nresume = \"1 h\"\n");
    let first = recorder(folder);
    let front_end = front_end(&url, KeyKind::Number);
    for (index, source) in front_end.sources().iter().enumerate() {
        (0..100).for_each(|key| source.send(key, &content(index, key)).unwrap());
    }
    wait_while(|| front_end.sources()[0].status().durable < 2);
    kill(first);
    let written = SystemTime::now() - age;
    let entries = std::fs::read_dir(only_run(folder)).unwrap();
    for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(written).unwrap();
    }
    // What writes the catalogue gives back the blocks that the run had taken ahead.
    json(folder, &["catalog", "set", "1", "--quality", "good", "--json"], 0);
}

/// The states of the runs, newest first, and what the node logged.
fn states_and_log(folder: &Path) -> (Vec<String>, String) {
    let rows = json(folder, &["catalog", "ls", "--json"], 0);
    let states = rows["runs"].as_array().unwrap().iter();
    let states = states.map(|row| row["state"].as_str().unwrap().to_owned()).collect();
    (states, std::fs::read_to_string(folder.join("node.log")).unwrap())
}

#[test]
fn a_run_goes_on_only_if_it_was_written_to_within_run_resume() {
    let (states, logged) = is_resumed_after(Duration::from_secs(1_800));
    assert_eq!(states, ["recording"], "{logged}");
    let (states, logged) = is_resumed_after(Duration::from_secs(7_200));
    assert_eq!(states, ["recording", "interrupted"], "{logged}");
    assert!(logged.contains("the run was interrupted too long ago to go on"), "{logged}");
    assert!(!logged.contains("the interrupted run goes on"), "{logged}");
}

#[test]
fn on_a_node_that_waits_for_commands_an_interrupted_run_goes_on_without_one() {
    let manual = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("node.toml")).unwrap();
        Node::prepared(folder, &text, |command| {
            command.arg("--manual");
        })
    };
    let folder = tempfile::tempdir().unwrap();
    is_killed(folder.path(), Duration::ZERO);
    let second = manual(folder.path());
    second.until(|state| state["state"] == "recording" && state["run"]["number"] == 1);
    let (states, logged) = states_and_log(folder.path());
    assert_eq!(states, ["recording"], "{logged}");
    drop(second);

    // One that is too old stays interrupted, and no other begins.
    let folder = tempfile::tempdir().unwrap();
    is_killed(folder.path(), Duration::from_secs(7_200));
    let second = manual(folder.path());
    wait_while(|| !states_and_log(folder.path()).1.contains("interrupted too long ago to go on"));
    assert_eq!(second.ctl(&["state"])["state"], "idle");
    second.ctl(&["start"]);
    let (states, logged) = states_and_log(folder.path());
    assert_eq!(states, ["recording", "interrupted"], "{logged}");
}
