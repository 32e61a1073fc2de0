//! Several targets: what the API, the metrics and the alarms say of each.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use catchment_disk::{FaultControl, FaultPlan};
use catchment_fixtures::free;
use catchment_net::{SharedTokens, Tokens};
use catchment_recorder::{NodeConfig, Place, SpillConfig, TargetConfig};
use serde_json::{Value, json};

use crate::support::{Client, Test, settings};

fn best_effort(target: TargetConfig) -> TargetConfig {
    TargetConfig { required: false, ..target }
}

fn count(target: &Value, entry: &str) -> u64 {
    target["ledger"][entry].as_u64().unwrap_or_default()
}

/// A node with a folder, and with a spill for a storage node that is not there.
fn spilling() -> (Test, SocketAddr) {
    // Nobody listens there.
    let address = free();
    let test = Test::with(settings(), |fixed| {
        let spill = SpillConfig { folder: fixed.folder.join("spill"), bytes_max: 1 << 30 };
        let node = TargetConfig { spill: Some(spill), ..node(address) };
        fixed.targets = vec![TargetConfig::folder("raid", fixed.folder.clone()), node];
    });
    (test, address)
}

#[test]
fn spilled_frames_of_which_somebody_removes_the_files_are_counted_and_raise_an_alarm() {
    let (test, _) = spilling();
    let client = test.client();
    client.command("1", "start");
    client.until(|state| state["spills"][0]["frames_waiting"].as_u64() > Some(0));
    let paths = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|one| one.unwrap().path());
    for file in paths(test.folder.path().join("spill")).flat_map(paths) {
        if file.extension().is_some_and(|found| found == "catch") {
            std::fs::remove_file(file).unwrap();
        }
    }
    client.command("2", "stop");
    let lost = |state: &Value| state["spills"][0]["frames_lost"].as_u64() > Some(0);
    let spill = client.until(lost)["spills"][0].clone();
    assert_eq!(spill["frames_lost"], spill["frames_removed"], "{spill}");
    client.until_of("/api/v1/alarms", |alarms| {
        let alarms = alarms["alarms"].as_array().unwrap();
        alarms.iter().any(|one| one["name"] == "spill_lost" && one["source"] == "node")
    });
    let metrics = client.get("/metrics").text;
    let lost = "catchment_spill_lost_frames_total{target=\"node\",reason=\"removed\"} ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(lost));
    assert!(count.is_some_and(|count| count != "0"), "{metrics}");
}

#[test]
fn a_spill_shows_what_waits_in_it_during_a_run_and_afterwards() {
    let (test, address) = spilling();
    let foreign = test.folder.path().join("spill/foreign");
    std::fs::create_dir_all(&foreign).unwrap();
    let client = test.client();
    client.command("1", "start");
    let waits = |state: &Value| state["spills"][0]["frames_waiting"].as_u64() > Some(0);
    let state =
        client.until(|state| waits(state) && count(&state["targets"][1], "fragments_durable") > 0);
    let spill = &state["spills"][0];
    assert_eq!((&spill["target"], &spill["node"]), (&json!("node"), &json!(address.to_string())));
    assert!(spill["frames_spilled"].as_u64() > Some(0), "{spill}");
    // By target and source.
    let sources = client.until_of("/api/v1/sources", |list| {
        let sources = list["sources"].as_array().unwrap();
        sources.iter().all(|one| one["targets"]["node"]["fragments_spilled"].as_u64() > Some(0))
    });
    let of_source = &sources["sources"][0]["targets"];
    assert!(of_source["node"]["fragments_forwarded"].is_null(), "{of_source}");
    assert!(of_source["raid"]["fragments_spilled"].is_null(), "{of_source}");
    let metrics = client.get("/metrics").text;
    assert!(metrics.contains("catchment_spill_waiting_frames{target=\"node\"}"), "{metrics}");
    client.until(|state| state["targets"][1]["nodes"][0]["away"].is_string());
    let metrics = client.get("/metrics").text;
    let of_node = |name: &str| {
        let start = format!("catchment_target_node_{name}{{target=\"node\",node=\"{address}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&start));
        value.unwrap_or_else(|| panic!("no {start} in {metrics}")).parse::<f64>().unwrap()
    };
    assert_eq!((of_node("durable_frames_total"), of_node("connected")), (0.0, 0.0));
    assert!(of_node("away_seconds") > 0.0);
    // Where its frames are sent is known from the beginning.
    let run = client.get("/api/v1/runs/1").json();
    let at = |index: usize, key: &str| run["locations"][index][key].clone();
    let kinds = [0, 1, 2].map(|index| at(index, "kind"));
    assert_eq!(kinds, [json!("folder"), json!("node"), json!("spill")]);
    assert_eq!((at(1, "address"), at(1, "frames")), (json!(address.to_string()), Value::Null));
    // It does not wait for the node.
    client.command("2", "stop");
    let of_spill = |state: &Value| state["spills"][0]["problems"].to_string();
    let state = client.until(|state| waits(state) && of_spill(state).contains("foreign"));
    assert!(state["warnings"].to_string().contains("foreign is left alone"), "{state}");
    let has_ended = |run: &Value| run["locations"][2]["frames"].as_u64() > Some(0);
    let run = client.until_of("/api/v1/runs/1", has_ended);
    assert_eq!(run["locations"][0]["files"], json!([[0, 0]]), "{run}");
    assert_eq!(run["locations"][1]["frames"], 0, "{run}");
    // What became of fragments there is known by source, too.
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of_targets = run["targets"].as_array().unwrap();
    let found = of_targets.iter().map(|one| [text(&one["target"]), text(&one["source"])]);
    let names = sources["sources"].as_array().unwrap().iter().map(|one| text(&one["name"]));
    let expected =
        names.flat_map(|name| ["node", "raid"].map(|target| [target.into(), name.clone()]));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected.collect::<BTreeSet<_>>(), "{run}");
    assert!(of_targets[0]["entries"]["fragments_spilled"].as_u64() > Some(0), "{run}");
    assert!(foreign.is_dir());
}

#[test]
fn each_target_has_its_state_its_speed_its_queue_and_its_line_of_the_ledger() {
    let test = Test::with(settings(), |fixed| {
        let mirror = TargetConfig::folder("mirror", fixed.folder.join("mirror"));
        let none = TargetConfig { place: Place::None, ..TargetConfig::folder("none", "".into()) };
        let raid = TargetConfig::folder("raid", fixed.folder.clone());
        fixed.targets = vec![raid, best_effort(mirror), best_effort(none)];
    });
    let client = test.client();
    client.command("1", "start");
    let state = client.until(|state| {
        let [raid, mirror, none] = [0, 1, 2].map(|at| &state["targets"][at]);
        let durable = |target| count(target, "fragments_durable") > 0;
        let is_fast = mirror["bytes_written_per_second"].as_f64() > Some(0.0);
        durable(raid) && durable(mirror) && is_fast && count(none, "fragments_not_taken") > 0
    });
    let folders = [Some(test.folder.path().to_owned()), Some(test.folder.path().join("mirror"))];
    let targets = state["targets"].as_array().unwrap();
    for (target, name) in targets.iter().zip(["raid", "mirror", "none"]) {
        assert_eq!((&target["name"], &target["required"]), (&json!(name), &json!(name == "raid")));
        assert_eq!((&target["state"], &target["reason"]), (&json!("recording"), &Value::Null));
        assert!(target["queue"]["capacity_bytes"].as_u64() > Some(0), "{target}");
        assert_eq!(target["buffers"].is_null(), name == "none", "{target}");
    }
    for (target, folder) in targets.iter().zip(folders.into_iter().chain([None])) {
        assert_eq!(target["folder"], json!(folder));
    }
    let sources = client.until_of("/api/v1/sources", |list| {
        let sources = list["sources"].as_array().unwrap();
        let has = |source: &Value| {
            source["targets"]["mirror"]["fragments_durable"].as_u64() > Some(0)
                && source["targets"]["none"]["fragments_not_taken"].as_u64() > Some(0)
        };
        sources.len() == 3 && sources.iter().all(has)
    });
    assert!(sources["sources"][0]["targets"]["none"]["fragments_recorded"].is_null());
    // A series is named once.
    let metrics = client.get("/metrics").text;
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let series: Vec<&str> = lines.map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert!(series.contains(&"catchment_target_buffer_bytes{target=\"mirror\"}"), "{metrics}");
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len(), "{metrics}");
    client.command("2", "stop");
    let state = client.until(|state| state["targets"][0]["state"] == "ended");
    let [raid, mirror, none] = [0, 1, 2].map(|at| &state["targets"][at]);
    let recorded = count(raid, "fragments_recorded");
    assert_eq!(recorded, count(raid, "fragments_durable"));
    let of_mirror = count(mirror, "fragments_recorded") + count(mirror, "fragments_not_taken");
    assert_eq!((of_mirror, count(none, "fragments_not_taken")), (recorded, recorded), "{state}");
    assert_eq!(mirror["bytes_written_per_second"], 0.0);
}

#[test]
fn a_required_target_that_fails_is_named_while_the_other_records() {
    let test = Test::with(settings(), |fixed| {
        let second = TargetConfig::folder("second", fixed.folder.join("second"));
        fixed.targets = vec![TargetConfig::folder("first", fixed.folder.clone()), second];
    });
    let client = test.client();
    client.command("1", "start");
    client.until(|state| count(&state["targets"][1], "fragments_recorded") > 0);
    let folder = |name: &str| test.folder.path().join(name);
    std::fs::rename(folder("second"), folder("gone")).unwrap();
    std::fs::remove_dir_all(folder("gone")).unwrap();
    let state = client.until(|state| state["verdict"].to_string().contains("target second: "));
    let [first, second] = [0, 1].map(|at| &state["targets"][at]);
    assert_eq!((&first["state"], &second["state"]), (&json!("recording"), &json!("fault")));
    assert_eq!(state["state"], "recording", "{state}");
    assert!(second["reason"].is_string(), "{state}");
    assert!(state["warnings"].to_string().contains("target second: "), "{state}");
    client.until_of("/api/v1/alarms", |alarms| {
        let alarms = alarms["alarms"].as_array().unwrap();
        alarms.iter().any(|one| one["name"] == "target_fault" && one["source"] == "second")
    });
}

#[test]
fn a_disk_that_hangs_is_named_with_its_target_and_folder_until_it_answers() {
    let control = FaultControl::default();
    let test = Test::with(settings(), |fixed| {
        fixed.targets = vec![TargetConfig::folder("raid", fixed.folder.clone())];
        fixed.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    });
    let client = test.client();
    client.command("1", "start");
    client.until(|state| count(&state["targets"][0], "fragments_durable") > 0);
    control.stall(true);
    let folder = test.folder.path().display();
    let waits_seconds = |state: &Value| {
        let of_folder = &state["targets"][0]["folders"][0];
        assert_eq!(of_folder["path"], folder.to_string());
        of_folder["waits_seconds"].as_f64().expect("a number")
    };
    client.until(|state| waits_seconds(state) > 2.0);
    let series =
        format!("catchment_target_folder_waits_seconds{{target=\"raid\",folder=\"{folder}\"}} ");
    let metrics = client.get("/metrics").text;
    let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
    assert!(value.and_then(|value| value.parse().ok()) > Some(2.0), "{metrics}");
    let alarm = |states: &'static [&'static str]| {
        let source = format!("raid ({folder})");
        move |alarms: &Value| {
            let mut alarms = alarms["alarms"].as_array().into_iter().flatten();
            let is_it = |one: &Value| one["name"] == "target_waits" && one["source"] == source;
            alarms.any(|one| is_it(one) && states.iter().any(|state| one["state"] == *state))
        }
    };
    client.until_of("/api/v1/alarms", alarm(&["active"]));
    control.stall(false);
    client.until(|state| waits_seconds(state) < 1.0);
    client.until_of("/api/v1/alarms", alarm(&["cleared"]));
}

#[test]
fn a_folder_that_fails_is_no_fault_while_its_spill_takes_all_and_both_are_named() {
    let control = FaultControl::default();
    let test = Test::with(settings(), |fixed| {
        let spill = SpillConfig { folder: fixed.folder.join("spill"), bytes_max: 1 << 30 };
        let raid = TargetConfig::folder("raid", fixed.folder.clone());
        fixed.targets = vec![TargetConfig { spill: Some(spill), ..raid }];
        fixed.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    });
    let client = test.client();
    client.command("1", "start");
    client.until(|state| count(&state["targets"][0], "fragments_durable") > 0);
    control.fail_writes(Some(libc::EIO));
    let state = client.until(|state| {
        let waits = state["spills"][0]["frames_waiting"].as_u64() > Some(0);
        waits && state["targets"][0]["state"] == "spilling"
    });
    let reason = state["targets"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("Input/output error"), "{reason}");
    let events = |state: &Value| state["run"]["events"].as_u64().expect("a run");
    let before = events(&state);
    // It stays so although other files are tried.
    client.until(|state| {
        assert_eq!((&state["state"], &state["reason"]), (&json!("recording"), &Value::Null));
        assert_eq!(state["targets"][0]["state"], "spilling");
        events(state) > before + 100 && state["spills"][0]["room_seconds"].is_number()
    });
    let spill = test.folder.path().join("spill");
    let why = "disk error: look at the disk and its cables";
    let words = format!("its frames go to its spill: {why}; {} has room for ", spill.display());
    client.until(|state| {
        let verdict = state["verdict"].to_string();
        state["verdict"]["level"] == "held" && verdict.contains(&words)
    });
    let alarms = client.until_of("/api/v1/alarms", |alarms| {
        let mut alarms = alarms["alarms"].as_array().into_iter().flatten();
        alarms.any(|one| one["name"] == "target_spilling" && one["source"] == "raid")
    });
    assert!(alarms.to_string().contains(&words), "{alarms}");
    for untrue in ["nothing_recorded", "target_fault", "target_away"] {
        assert!(!alarms.to_string().contains(untrue), "{alarms}");
    }
    let metrics = client.get("/metrics").text;
    for line in ["catchment_target_spilling{target=\"raid\"} 1", "catchment_recorder_fault 0"] {
        assert!(metrics.lines().any(|one| one == line), "{metrics}");
    }
    control.fail_writes(None);
    client.until(|state| {
        let is_back = state["targets"][0]["state"] == "recording";
        is_back && state["spills"][0]["frames_waiting"] == 0
    });
    assert_eq!(client.command("2", "stop").json()["status"], "done");
}

#[test]
fn a_best_effort_folder_that_cannot_be_made_is_in_fault_and_costs_the_run_nothing() {
    let test = Test::with(settings(), |fixed| {
        let file = fixed.folder.join("file");
        std::fs::write(&file, "no folder").unwrap();
        let second = TargetConfig::folder("second", file.join("runs"));
        fixed.targets =
            vec![TargetConfig::folder("first", fixed.folder.clone()), best_effort(second)];
    });
    let client = test.client();
    client.command("1", "start");
    let state = client.until(|state| count(&state["targets"][1], "fragments_not_taken") > 0);
    let second = &state["targets"][1];
    assert_eq!((&second["state"], &state["state"]), (&json!("fault"), &json!("recording")));
    assert!(second["reason"].as_str().unwrap().contains("it gets no frames"), "{second}");
    client.until(|state| state["verdict"]["level"] == "good");
    let alarms = client.get("/api/v1/alarms").text;
    assert!(!alarms.contains("target_fault"), "{alarms}");
}

fn node(address: SocketAddr) -> TargetConfig {
    let place = Place::Node(NodeConfig::at(address.to_string()));
    TargetConfig { place, trends: false, ..TargetConfig::folder("node", "".into()) }
}

/// The target `node` is away with that reason, an alarm, and in the verdict.
fn is_away(client: &Client, why: &str) -> Value {
    let state = client.until(|state| {
        let reason = state["targets"][1]["reason"].as_str();
        let shown =
            state["targets"][1]["state"] == "away" && reason.is_some_and(|one| one.contains(why));
        let words = state["verdict"].to_string();
        shown && words.contains("frames for target node wait in memory") && words.contains(why)
    });
    assert_ne!(state["verdict"]["level"], "good", "{state}");
    client.until_of("/api/v1/alarms", |alarms| {
        let mut alarms = alarms["alarms"].as_array().into_iter().flatten();
        alarms.any(|one| one["name"] == "target_away" && one["source"] == "node")
    });
    state
}

/// The run ended; the target `node` lacks everything, and says why.
fn has_lost_all(client: &Client, why: &str) {
    assert_eq!(client.command("stop", "stop").json()["status"], "done");
    let state = client.until(|state| state["targets"][1]["state"] == "fault");
    let [here, node] = [0, 1].map(|at| &state["targets"][at]);
    assert!(node["reason"].as_str().unwrap().contains(why), "{node}");
    let lost = count(node, "fragments_discarded_disk");
    assert_eq!((lost, count(node, "fragments_recorded")), (count(here, "fragments_recorded"), 0));
    assert!(lost > 0, "{state}");
}

#[test]
fn a_required_node_that_is_gone_is_an_alarm_and_the_verdict_is_not_good() {
    let free = free();
    let test = Test::with(settings(), |fixed| {
        fixed.targets = vec![TargetConfig::folder("here", fixed.folder.clone()), node(free)];
    });
    let client = test.client();
    client.command("1", "start");
    let state = is_away(&client, "Connection refused");
    assert_eq!(state["targets"][1]["node"], free.to_string());
    client.until(|state| count(&state["targets"][0], "fragments_recorded") > 0);
    has_lost_all(&client, "at the run's end it is away: Connection refused");
}

#[test]
fn a_run_whose_node_is_full_ends_although_frames_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let control = FaultControl::default();
    control.set_space(Some(0));
    let mut config = crate::stores::config(folder.path());
    let plan = FaultPlan { control: control.clone(), ..FaultPlan::default() };
    config.disk.faults = Some(plan);
    let full = catchment_store::Node::start(config).unwrap();
    let test = Test::with(settings(), |fixed| {
        // Frames wait as soon as one is held.
        let node = TargetConfig { hold_bytes: Some(1), ..node(full.address()) };
        fixed.targets = vec![TargetConfig::folder("here", fixed.folder.clone()), node];
    });
    let client = test.client();
    client.command("1", "start");
    is_away(&client, "it can write nothing now");
    has_lost_all(&client, "at the run's end it can write nothing now");
}

#[test]
fn a_required_node_that_refuses_the_run_is_an_alarm_and_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = crate::stores::config(folder.path());
    // It knows no tokens, and admits nobody.
    config.access.needs_token = true;
    config.access.tokens = Some(SharedTokens(Arc::new(Nobody)));
    let store = catchment_store::Node::start(config).unwrap();
    let test = Test::with(settings(), |fixed| {
        let node = node(store.address());
        fixed.targets = vec![TargetConfig::folder("here", fixed.folder.clone()), node];
    });
    let client = test.client();
    client.command("1", "start");
    let state = client.until(|state| {
        state["verdict"]["text"].to_string().contains("target node does not get the data")
    });
    assert_eq!(state["verdict"]["level"], "loss", "{state}");
    client.until_of("/api/v1/alarms", |alarms| {
        let mut alarms = alarms["alarms"].as_array().into_iter().flatten();
        alarms.any(|one| one["name"] == "target_fault" && one["source"] == "node")
    });
    has_lost_all(&client, "no token of the role node that admits this stream");
}

struct Nobody;

impl Tokens for Nobody {
    fn admits(&self, _token: &str, _sender: &str) -> bool {
        false
    }
}
