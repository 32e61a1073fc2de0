//! A node and its front-ends between runs.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use catchment_fixtures::wait_while;
use catchment_frontend::{
    Callbacks, CommandKind, Frontend, KeyKind, Reading, Setting, SourceConfig,
};
use catchment_model::{Entry, SourceId};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::event_link::{self, Presence, SourceLog};
use catchment_wire::session::{
    self, CONTROL_BYTES_MAX, Connection, Encoder, Hello, Log, Logs, Preamble, Release, Service,
    Stage, Text,
};
use serde_json::{Value, json};

use crate::front_ends::{LONG, Wire};
use crate::life::Node;
use crate::support::{catchment, free, only_run, stderr};

/// A node that begins nothing by itself, with one source of front-ends.
fn configuration(source: &str, address: SocketAddr) -> String {
    configuration_of(&[source], address, "")
}

/// The same, with more of how events are built.
fn configuration_of(sources: &[&str], address: SocketAddr, build: &str) -> String {
    let source = |name: &&str| format!("[[sources]]\nname = \"{name}\"\nvia = \"link\"\n");
    let sources: String = sources.iter().map(source).collect();
    format!(
        r#"
[control]
start = "manual"
requests_per_second = 1000000
drain = "1 h"
[memory]
budget = "256 MiB"
[run]
edge = "1 h"
[build]
timeout = "1 h"
{build}
[frame]
time = "50 ms"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "1 MiB"
[[listen]]
address = "{address}"
{sources}"#
    )
}

fn device(node: &Node, name: &str) -> Value {
    let devices = node.ctl(&["devices"]);
    let path = format!("node/front_ends/{name}");
    let mut devices = devices["devices"].as_array().unwrap().iter();
    devices.find(|one| one["path"] == path.as_str()).cloned().unwrap_or_default()
}

/// Waits until a device of a front-end is so.
#[track_caller]
fn until_device(node: &Node, name: &str, reached: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    wait_while(|| {
        found = device(node, name);
        !reached(&found)
    });
    found
}

#[track_caller]
fn until_alarm(node: &Node, text: &str, is_raised: bool) {
    wait_while(|| {
        let alarms = node.ctl(&["alarms"]);
        let mut alarms = alarms["alarms"].as_array().unwrap().iter();
        let is_this = |alarm: &&Value| alarm["text"].as_str().unwrap().starts_with(text);
        alarms.any(|alarm| is_this(&alarm) && alarm["ended"].is_null()) != is_raised
    });
}

fn keys(folder: &Path) -> Vec<u64> {
    let run = Run::open(folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let keys = |frame| run.fragments(frame, SourceId(0)).unwrap().events().keys().to_vec();
    (0..run.frames().len()).flat_map(keys).collect()
}

#[test]
fn a_front_end_stays_over_three_runs_and_is_set_between_them() {
    let (folder, address) = (tempfile::tempdir().unwrap(), free());
    let node = Node::start(folder.path(), &configuration("camera", address), &[]);
    node.ctl(&["configure"]);
    let url = format!("catchment+tcp://{address}");
    let camera = Frontend::builder(&url, "camera").wait(LONG).connect().unwrap();
    let gain = |value: f64| Setting {
        value: Reading::F64(value),
        unit: "dB".to_owned(),
        bounds: None,
        is_writable: true,
    };
    camera.reports().setting("gain", gain(0.0)).unwrap();
    // All that it has sent is durable.
    let send = |keys: std::ops::Range<u64>| {
        keys.clone().for_each(|key| camera.send(key, &key.to_le_bytes()).unwrap());
        wait_while(|| camera.sources()[0].status().released < camera.sources()[0].status().made);
    };
    for run in 1..=3_u64 {
        let first = run * 1_000;
        send(first..first + 10);
        until_device(&node, "camera", |one| {
            one["state"] == "idle" && one["properties"].get("gain").is_some()
        });
        node.ctl(&["set", "node/front_ends/camera", &format!("gain={run}.5")]);
        assert_eq!(camera.reports().reading("gain"), Some(Reading::F64(run as f64 + 0.5)));
        let started = node.ctl(&["start"]);
        assert_eq!((&started["status"], &started["run"]), (&json!("done"), &json!(run)));
        send(first + 10..first + 100);
        assert_eq!(node.ctl(&["stop"])["status"], "done");
        let shown = node.ctl(&["run", &run.to_string()]);
        assert_eq!((&shown["state"], &shown["loss_count"]), (&json!("complete"), &json!(0)));
        let run_folder = folder.path().join("runs").join(shown["folder"].as_str().unwrap());
        let recorded = keys(&run_folder);
        assert!(recorded.iter().copied().eq(first + 10..first + 100), "{recorded:?}");
        let remarks = shown["remarks"].to_string();
        for remark in [format!("camera: gain = {run}.5"), format!("gain = {run}.5 dB")] {
            assert!(remarks.contains(&remark), "{remarks}");
        }
    }
    send(9_000..9_010);
    // Marks of the three runs are among its items, and no fragments.
    let is_counted = |one: &Value| one["properties"]["fragments_outside_run"] == 40;
    let bytes = until_device(&node, "camera", is_counted);
    assert_eq!(bytes["properties"]["fragment_bytes_outside_run"], 320, "{bytes}");
    let metric = "catchment_front_end_fragments_outside_run_total{front_end=\"camera\"}";
    wait_while(|| node.metric(metric) < 40.0);
    assert_eq!(camera.sources()[0].status().sent_again, 0, "nothing broke");
    assert!(camera.close(LONG).is_confirmed());
    // It said so: nobody misses it.
    until_device(&node, "camera", |one| one["reason"] == "it is not connected");
    assert_eq!(device(&node, "camera")["state"], "idle");
}

#[test]
fn a_run_begins_and_ends_at_keys_that_its_front_ends_have_in_common() {
    edges(KeyKind::Number, "", |key| key);
}

#[test]
fn by_time_a_run_begins_and_ends_at_events_that_its_front_ends_have_in_common() {
    let build = "match = \"time\"\ntime.window = \"100 ns\"";
    edges(KeyKind::Time, build, |event| 1_000_000_000_000 + event * 1_000_000);
}

/// Two front-ends, one of which is ahead of the other when a run begins, and when it ends.
fn edges(key_kind: KeyKind, build: &str, key_of: impl Fn(u64) -> u64) {
    let (folder, address) = (tempfile::tempdir().unwrap(), free());
    let configuration = configuration_of(&["left", "right"], address, build);
    let node = Node::start(folder.path(), &configuration, &[]);
    node.ctl(&["configure"]);
    let url = format!("catchment+tcp://{address}");
    let source = || SourceConfig { key_kind, marks: true, ..SourceConfig::default() };
    let connect =
        |name| Frontend::builder(&url, name).source_of(source()).wait(LONG).connect().unwrap();
    let [left, right] = ["left", "right"].map(connect);
    let send = |front_end: &Frontend, keys: std::ops::Range<u64>| {
        keys.for_each(|key| front_end.send(key_of(key), &key.to_le_bytes()).unwrap());
    };
    for run in 1..=2_u64 {
        let first = run * 1_000;
        send(&left, first..first + 10);
        send(&right, first..first + 7);
        let started = node.ctl(&["start"]);
        assert_eq!((&started["status"], &started["run"]), (&json!("done"), &json!(run)));
        send(&left, first + 10..first + 100);
        send(&right, first + 13..first + 97);
        assert_eq!(node.ctl(&["stop"])["status"], "done");
        let shown = node.ctl(&["run", &run.to_string()]);
        assert_eq!((&shown["state"], &shown["loss_count"]), (&json!("complete"), &json!(0)));
        let run_folder = folder.path().join("runs").join(shown["folder"].as_str().unwrap());
        let recorded = keys(&run_folder);
        assert!(recorded.iter().copied().eq((first + 13..first + 97).map(&key_of)), "{recorded:?}");
        let total = audit(&Run::open(&run_folder).unwrap()).unwrap().recorded.unwrap();
        let outside = |source: usize| total.sources[source][Entry::FragmentsOutsideRun];
        assert_eq!((outside(0), outside(1)), (3 + 3, 0));
        assert_eq!(total.total()[Entry::FragmentsMissing], 0);
    }
    for front_end in [left, right] {
        assert_eq!(front_end.sources()[0].status().sent_again, 0, "nothing broke");
        assert!(front_end.close(LONG).is_confirmed());
    }
}

/// A front-end in a process of its own.
fn dummy(folder: &Path, address: SocketAddr) -> Child {
    let arguments = [
        "emulate",
        "midas-dummy",
        "--to",
        &address.to_string(),
        "--rate",
        "10",
        "--events",
        "9999",
        "--index",
        "3",
    ];
    catchment(folder, &arguments).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_front_end_that_dies_between_runs_is_an_alarm_by_name() {
    let (folder, address) = (tempfile::tempdir().unwrap(), free());
    let node = Node::start(folder.path(), &configuration("dummy-3", address), &[]);
    node.ctl(&["configure"]);
    let mut child = dummy(folder.path(), address);
    until_device(&node, "dummy-3", |one| one["reason"].is_null() && !one.is_null());
    child.kill().unwrap();
    child.wait().unwrap();
    let text = "Front-end dummy-3 has gone away";
    until_alarm(&node, text, true);
    until_device(&node, "dummy-3", |one| one["state"] == "safe");
    let mut child = dummy(folder.path(), address);
    until_alarm(&node, text, false);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_front_end_that_goes_away_while_it_records_is_an_alarm_by_name_required_or_not() {
    let (folder, address) = (tempfile::tempdir().unwrap(), free());
    let text = configuration_of(&["needed", "extra"], address, "");
    // An optional one that is gone is waited for once, for as long as that.
    let text = text.replace("timeout = \"1 h\"", "timeout = \"2 s\"");
    let text = text.replace("\"extra\"\n", "\"extra\"\nrole = \"optional\"\n");
    let node = Node::start(folder.path(), &text, &[]);
    node.ctl(&["configure"]);
    let wires = [(); 2].map(|()| Wire::to(address));
    let connect = |(wire, name): (&Wire, &str)| {
        let url = format!("catchment+tcp://{}", wire.address);
        Frontend::builder(&url, name).wait(LONG).connect().unwrap()
    };
    let [needed, _extra] = [(&wires[0], "needed"), (&wires[1], "extra")].map(connect);
    let send = |keys: std::ops::Range<u64>| {
        keys.for_each(|key| needed.send(key, &key.to_le_bytes()).unwrap());
        wait_while(|| needed.sources()[0].status().released < needed.sources()[0].status().made);
    };
    assert_eq!(node.ctl(&["start"])["status"], "done");
    send(0..10);
    let is_gone =
        |one: &Value, state| one["reason"] == "it is not connected" && one["state"] == state;
    wires[1].kill();
    until_device(&node, "extra", |one| is_gone(one, "idle"));
    let extra_is_gone = "Front-end extra has gone away: the run goes on without it";
    until_alarm(&node, extra_is_gone, true);
    // The run goes on without it.
    send(10..20);
    wires[0].kill();
    until_device(&node, "needed", |one| is_gone(one, "safe"));
    until_alarm(&node, "Front-end needed has gone away", true);
    let alarms = node.ctl(&["alarms"])["alarms"].to_string();
    assert!(!alarms.contains("\"name\":\"loss\""), "{alarms}");
    assert_eq!(node.ctl(&["state"])["state"], "recording");
    assert_eq!(node.ctl(&["stop"])["status"], "done");
    let shown = node.ctl(&["run", "1"]);
    assert_eq!((&shown["events"], &shown["loss_count"]), (&json!(20), &json!(0)), "{shown}");
    until_alarm(&node, extra_is_gone, false);
}

#[test]
fn a_start_that_a_front_end_refuses_is_a_failed_run_that_names_its_folder() {
    let (folder, address) = (tempfile::tempdir().unwrap(), free());
    let node = Node::start(folder.path(), &configuration("camera", address), &[]);
    node.ctl(&["configure"]);
    let refuses: Callbacks = Box::new(|command| match command.kind == CommandKind::PREPARE.0 {
        true => Err("the shutter is stuck".to_owned()),
        false => Ok(()),
    });
    let builder = Frontend::builder(&format!("catchment+tcp://{address}"), "camera");
    let camera = builder.callbacks(refuses).wait(LONG).connect().unwrap();
    let refused = stderr(folder.path(), &["ctl", "--url", &node.url, "start"], 1);
    assert!(refused.contains("the shutter is stuck"), "{refused}");
    let run = node.ctl(&["run", "1"]);
    assert_eq!((&run["state"], &run["files"]), (&json!("failed"), &json!(1)), "{run}");
    let why = run["reason"].as_str().unwrap();
    assert!(why.contains("the front-end camera refuses prepare: the shutter is stuck"), "{run}");
    let named = folder.path().join("runs").join(run["folder"].as_str().unwrap());
    assert_eq!(named, only_run(folder.path()));
    assert_eq!(Run::open(&named).unwrap().event_count(), 0);
    assert!(camera.close(LONG).is_confirmed());
}

#[test]
fn a_run_that_ends_at_once_since_a_front_end_refuses_to_start_says_who_and_why() {
    let (folder, address) = (tempfile::tempdir().unwrap(), free());
    let node = Node::start(folder.path(), &configuration("camera", address), &[]);
    node.ctl(&["configure"]);
    let refuses: Callbacks = Box::new(|command| match command.kind == CommandKind::START.0 {
        true => Err("the shutter is stuck".to_owned()),
        false => Ok(()),
    });
    let builder = Frontend::builder(&format!("catchment+tcp://{address}"), "camera");
    let camera = builder.callbacks(refuses).wait(LONG).connect().unwrap();
    assert_eq!(node.ctl(&["arm"])["status"], "done");
    stderr(folder.path(), &["ctl", "--url", &node.url, "start"], 1);
    let why = "the front-end camera refuses start: the shutter is stuck";
    let run = node.ctl(&["run", "1"]);
    assert!(run["remarks"].to_string().contains(why), "{run}");
    assert!(camera.close(LONG).is_confirmed());
}

#[test]
fn a_port_that_another_program_has_is_an_alarm_and_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let taken = TcpListener::bind(address).unwrap();
    let node = Node::start(folder.path(), &configuration("dummy-3", address), &[]);
    node.ctl(&["configure"]);
    let text = format!("The node does not listen for front-ends at {address}: ");
    until_alarm(&node, &text, true);
    drop(taken);
    until_alarm(&node, &text, false);
    let mut child = dummy(folder.path(), address);
    until_device(&node, "dummy-3", |one| one["reason"].is_null() && !one.is_null());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The first bytes of a sender `camera` that holds so many items of a run.
fn opening(run: [u8; 16], made: u64) -> Vec<u8> {
    let (session_min, session_max) = (session::VERSION, session::VERSION);
    let (service, connection) = (Service::Events, Connection::Control);
    let (service_min, service_max) = (event_link::VERSION, event_link::VERSION);
    let preamble =
        Preamble { session_min, session_max, service, service_min, service_max, connection };
    let hello = Hello {
        session: 7,
        run,
        features: 0,
        buffer_bytes: 1 << 26,
        skew_bytes: 0,
        buffer_ms: 0,
        log_count: 1,
        data_connections: 1,
        release: Release::Durable,
        flags: 0,
        stage: Stage::None,
        stage_run: 0,
        command: 0,
        name: Text::new("camera").unwrap(),
        program: Text::new("test").unwrap(),
    };
    let source = SourceLog {
        fragment_bytes_max: 1 << 20,
        groups: 0,
        flags: 0,
        key_kind: KeyKind::Number,
        key_bits: 64,
        presence: Presence::Configured,
        dtype: 0,
        begin: u64::MAX,
    };
    let mut service = [0; 40];
    session::Fields::write(&source, &mut service);
    let name = Text::new("").unwrap();
    let log = Log { log: 0, connection: 0, first: 0, made, service, name };
    let mut bytes = preamble.encode().to_vec();
    let mut out = vec![0; CONTROL_BYTES_MAX as usize];
    let length = Encoder::begin(&mut out, 0, &hello).finish("", &[]);
    bytes.extend_from_slice(&out[..length]);
    let mut logs = Encoder::begin(&mut out, 1, &Logs {});
    assert!(logs.push(&log));
    let length = logs.finish("", &[]);
    bytes.extend_from_slice(&out[..length]);
    bytes
}

#[test]
fn what_a_front_end_held_of_a_run_that_had_ended_is_an_alarm_and_a_remark_of_that_run() {
    let (folder, address) = (tempfile::tempdir().unwrap(), free());
    let node = Node::start(folder.path(), &configuration("camera", address), &[]);
    for command in ["configure", "start", "stop"] {
        assert_eq!(node.ctl(&[command])["status"], "done", "{command}");
    }
    let id = node.ctl(&["run", "1"])["id"].as_str().unwrap().to_owned();
    let byte = |at: usize| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&opening(std::array::from_fn(byte), 7)).unwrap();
    until_alarm(&node, "Front-end camera held 7 items of a run that had ended", true);
    let remark = "camera held 7 items when it ended: they are not in it";
    wait_while(|| !node.ctl(&["run", "1"])["remarks"].to_string().contains(remark));
    until_device(&node, "camera", |one| one["properties"]["held_at_run_end"] == 7);
    // It is a thing of the past once another run is armed.
    assert_eq!(node.ctl(&["start"])["status"], "done");
    until_alarm(&node, "Front-end camera held", false);
    assert_eq!(node.ctl(&["stop"])["status"], "done");
}
