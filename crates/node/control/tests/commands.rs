//! Runs from start to stop over HTTP: states, run numbers, pauses, idempotence, failures.

use crate::support;
use crate::support::{Test, settings};
use catchment_control::{devices_with, known_quantities};
use serde_json::{Value, json};

fn recorded(state: &serde_json::Value) -> u64 {
    state["run"]["events"].as_u64().unwrap_or_default()
}

#[test]
fn the_first_answer_of_a_node_says_what_it_is() {
    // With no other step between the start and the query.
    for _ in 0..20 {
        let state = Test::start().node().state();
        assert_eq!((state.state.as_str(), state.verdict.level.as_str()), ("idle", "not_recording"));
    }
}

#[test]
fn a_run_goes_from_idle_to_recording_and_is_in_the_catalogue() {
    let test = Test::start();
    let client = test.client();
    let idle = client.until(|state| state["state"] == "idle");
    assert_eq!(idle["verdict"]["level"], "not_recording");
    let begun = client.command("a-1", "start").json();
    assert_eq!((&begun["status"], &begun["run"]), (&json!("done"), &json!(1)), "{begun}");
    let good = client.until(|state| state["verdict"]["level"] == "good");
    assert_eq!(good["state"], "recording");
    assert!(good["rates"]["events_per_second"].as_f64().unwrap() > 0.0);
    let names: Vec<_> =
        good["commands"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["pause", "stop", "shutdown"]);
    let stopped = client.command("a-2", "stop").json();
    assert_eq!((&stopped["status"], &stopped["state"]), (&json!("done"), &json!("configured")));
    let runs = client.get("/api/v1/runs").json();
    let run = &runs["runs"][0];
    assert_eq!((&run["number"], &run["state"]), (&json!(1), &json!("complete")), "{runs}");
    assert!(run["events"].as_u64().unwrap() > 0);
    assert_eq!(run["loss_count"], 0, "{}", client.get("/api/v1/runs/1/ledger").text);
    let ledger = client.get("/api/v1/runs/1/ledger").json();
    let totals = &ledger["totals"];
    assert_eq!(totals["fragments_received"], totals["fragments_recorded"], "{ledger}");
    assert_eq!(ledger["balanced"], true, "{ledger}");
    let sources: Vec<_> = ledger["sources"].as_object().unwrap().keys().collect();
    assert_eq!(sources, ["s0", "s1", "s2"]);
    assert_eq!(client.get("/api/v1/runs/1/configuration").text, "rate = 200");
    assert_eq!(client.get("/api/v1/runs/2").status, 404);
}

#[test]
fn a_pause_discards_countedly_and_is_no_loss() {
    let test = Test::start();
    let client = test.client();
    client.command("1", "start");
    client.until(|state| recorded(state) > 0);
    assert_eq!(client.command("2", "pause").json()["state"], "paused");
    let paused = client.until(|state| state["dead_time"].as_f64() > Some(0.0));
    assert!(paused["verdict"]["text"].as_str().unwrap().starts_with("paused by local since"));
    let before = recorded(&client.until(|state| {
        let counts = client.get("/metrics").text;
        let line = counts
            .lines()
            .find(|line| line.starts_with("catchment_fragments_discarded_paused_total"));
        state["state"] == "paused" && line.is_some_and(|line| !line.ends_with(" 0"))
    }));
    assert_eq!(client.command("3", "resume").json()["state"], "recording");
    client.until(|state| recorded(state) > before);
    client.command("4", "stop");
    let run = client.get("/api/v1/runs/1").json();
    assert_eq!((&run["state"], &run["loss_count"]), (&json!("complete"), &json!(0)), "{run}");
    let ledger = client.get("/api/v1/runs/1/ledger").json();
    assert!(ledger["totals"]["fragments_discarded_paused"].as_u64().unwrap() > 0);
}

#[test]
fn a_request_is_done_once_and_answered_alike() {
    let test = Test::start();
    let client = test.client();
    let first = client.command("same", "start").json();
    let second = client.command("same", "start").json();
    assert_eq!(first["run"], second["run"]);
    assert_eq!(first["time"], second["time"]);
    let other = client.command("same", "stop");
    assert_eq!(other.status, 409, "{}", other.text);
    client.command("end", "stop");
    assert_eq!(client.command("same", "start").json()["run"], 1, "still the first run");
    assert_eq!(client.get("/api/v1/runs").json()["runs"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/api/v1/commands/unknown").status, 404);
}

#[test]
fn a_stop_that_is_meant_for_one_run_never_ends_another() {
    let test = Test::start();
    let client = test.client();
    client.command("1", "start");
    client.command("2", "stop");
    assert_eq!(client.command("3", "start").json()["run"], 2);
    // The dialog of a user who opened it while run 1 was being recorded.
    for command in ["stop", "pause", "shutdown"] {
        let stale = client.command_for(&format!("stale-{command}"), command, 1);
        assert_eq!(stale.status, 409, "{}", stale.text);
        let problem = stale.json();
        let expected = format!("{command} is meant for run 1, but the current run is 2");
        assert_eq!((&problem["detail"], &problem["run"]), (&json!(expected), &json!(2)));
    }
    assert_eq!(client.state()["state"], "recording");
    assert_eq!(client.get("/api/v1/runs/2").json()["state"], "recording");
    let stopped = client.command_for("4", "stop", 2).json();
    assert_eq!((&stopped["status"], &stopped["run"]), (&json!("done"), &json!(2)), "{stopped}");
    // The same request gets the same answer, although its run has ended; a different one is
    // refused.
    assert_eq!(client.command_for("4", "stop", 2).json(), stopped);
    let late = client.command_for("5", "stop", 2).json();
    assert_eq!(late["detail"], "stop is meant for run 2, but there is no current run");
    assert_eq!(late["run"], json!(null));
    // An armed run is also the current one.
    assert_eq!(client.command("6", "arm").json()["run"], 3);
    assert_eq!(client.command_for("7", "start", 2).status, 409);
    assert_eq!(client.command_for("8", "start", 3).json()["run"], 3);
}

#[test]
fn what_the_state_does_not_allow_is_refused_with_the_reason() {
    let test = Test::start();
    let client = test.client();
    for (request, command) in [("1", "stop"), ("2", "pause"), ("3", "resume"), ("4", "reset")] {
        let answer = client.command(request, command);
        assert_eq!(answer.status, 409, "{}", answer.text);
        let problem = answer.json();
        assert_eq!(problem["state"], "idle");
        assert!(problem["detail"].as_str().unwrap().contains("while idle"), "{problem}");
        assert!(problem["legal"].as_array().unwrap().contains(&json!("start")));
    }
    assert_eq!(answer_state(&client.command("5a", "configure")), "configured");
    assert_eq!(answer_state(&client.command("5", "arm")), "armed");
    assert_eq!(client.state()["verdict"]["level"], "not_recording");
    assert_eq!(answer_state(&client.command("6", "disarm")), "configured");
    let run = client.get("/api/v1/runs/1").json();
    assert_eq!(run["state"], "failed", "a run that never began keeps its number: {run}");
    assert_eq!(client.command("7", "start").json()["run"], 2);
}

fn answer_state(answer: &support::Answer) -> String {
    answer.json()["state"].as_str().unwrap_or(&answer.text).to_owned()
}

#[test]
fn a_start_that_fails_leaves_nothing_half_and_says_why() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let test = Test::with(support::settings(), |fixed| fixed.address = address);
    let client = test.client();
    let answer = client.command("1", "start");
    let problem = client.get("/api/v1/commands/1").json();
    assert_eq!(problem["status"], "failed", "{}", answer.text);
    let reason = problem["reason"].as_str().unwrap();
    assert!(reason.contains("node/recorder") && reason.contains(&address.to_string()), "{reason}");
    let state = client.until(|state| state["under_way"].is_null());
    assert_eq!(state["state"], "idle", "{state}");
    assert!(state["reason"].as_str().unwrap().contains(&address.to_string()));
    let devices = client.get("/api/v1/devices").json();
    for device in devices["devices"].as_array().unwrap() {
        assert_eq!(device["state"], "idle", "{device}");
    }
    let run = client.get("/api/v1/runs/1").json();
    assert_eq!(run["state"], "failed");
    assert!(run["reason"].as_str().unwrap().contains(&address.to_string()), "{run}");
    drop(taken);
    assert_eq!(client.command("2", "start").json()["run"], 2, "a number is never used again");
}

#[test]
fn properties_have_schemas_and_those_that_can_be_set_are_set() {
    let test = Test::start();
    let client = test.client();
    client.until(|state| state["state"] == "idle");
    let list = client.get("/api/v1/devices").json();
    for device in list["devices"].as_array().unwrap() {
        let schema = client.get(device["schema"].as_str().unwrap()).json();
        let described = schema["properties"].as_object().unwrap();
        let values = device["properties"].as_object().unwrap();
        assert!(values.keys().eq(described.keys()), "{device} {schema}");
        // Alarms can use numbers and truth values, and nothing else.
        let name = device["path"].as_str().unwrap().rsplit('/').next().unwrap();
        for (property, about) in described {
            let can_be = devices_with(property).contains(&name);
            assert_eq!(can_be, about["type"] != "string", "{name} {property} {about}");
        }
    }
    let known = known_quantities().into_iter();
    for known in known.filter(|known| known.name.starts_with("device.")) {
        let property = known.name.rsplit('.').next().unwrap().to_owned();
        for device in devices_with(&property) {
            let of = |one: &&Value| one["path"].as_str().unwrap().ends_with(device);
            let Some(found) = list["devices"].as_array().unwrap().iter().find(of) else {
                assert!(["front_ends", "store"].contains(&device), "{device} is missing");
                continue;
            };
            assert!(!found["properties"][&property].is_null(), "{device} {property}");
        }
    }
    let path = "/api/v1/devices/node/emulator/properties";
    let set = |body: &str| client.ask("PATCH", path, Some(body));
    assert_eq!(set(r#"{"rate_hz": 50}"#).json()["properties"]["rate_hz"], 50.0);
    for (body, status) in [
        (r#"{"rate_hz": -1}"#, 422),
        (r#"{"rate_hz": "x"}"#, 422),
        (r#"{"event_count": 1}"#, 422),
        (r#"{"colour": 1}"#, 422),
        ("[]", 422),
        ("{", 400),
    ] {
        assert_eq!(set(body).status, status, "{body}");
    }
    assert_eq!(client.ask("PATCH", "/api/v1/devices/node/x/properties", Some("{}")).status, 404);
    // A run can be repeated from the data stored with it.
    client.command("1", "start");
    client.command("2", "stop");
    assert_eq!(client.get("/api/v1/runs/1/configuration").text.trim(), "rate = 50");
}

#[test]
fn configurations_are_versions_that_can_be_compared_and_run_again() {
    let test = Test::start();
    let client = test.client();
    let add = |text: &str| client.post("/api/v1/configurations", &json!({ "text": text }));
    let second = add("rate = 100\n");
    assert_eq!((second.status, &second.json()["version"]), (201, &json!(2)), "{}", second.text);
    assert_eq!(add("rate = 100\n").json()["version"], 2, "the same text is the same version");
    let fault = add("rate = 100\nrate = x\n");
    assert_eq!((fault.status, &fault.json()["line"]), (422, &json!(2)), "{}", fault.text);
    let difference = client.get("/api/v1/configurations/1/diff/2").text;
    assert!(difference.contains("-rate = 200") && difference.contains("+rate = 100"));
    let body = json!({ "request": "1", "command": "start", "configuration": 2 });
    let mut answer = client.post("/api/v1/commands", &body);
    while answer.status == 202 {
        answer = client.get("/api/v1/commands/1");
    }
    assert_eq!(answer.json()["status"], "done", "{}", answer.text);
    assert_eq!(client.get("/api/v1/runs/1").json()["configuration"], 2);
    client.command("2", "stop");
    let none = json!({ "request": "3", "command": "start", "configuration": 99 });
    assert_eq!(client.post("/api/v1/commands", &none).status, 404);
    assert_eq!(client.state()["state"], "configured");
}

#[test]
fn versions_that_are_posted_have_a_bound_and_those_that_are_there_can_be_run() {
    let test = Test::start();
    let client = test.client();
    let add = |text: &str| client.post("/api/v1/configurations", &json!({ "text": text }));
    assert_eq!(add("rate = 100").status, 201);
    // Nearly the largest body.
    let large = |more: usize| format!("rate = {}1", "0".repeat(4_000_000 + more));
    let answers = (0..18).map(|more| add(&large(more)));
    let refused: Vec<_> = answers.filter(|answer| answer.status != 201).collect();
    assert_eq!(refused.len(), 18 - (64 << 20) / 4_000_000);
    let problem = &refused[0];
    assert_eq!(problem.status, 409, "{}", problem.text);
    assert!(problem.text.contains("at most 67108864 bytes in all"), "{}", problem.text);
    let body = json!({ "request": "1", "command": "start", "configuration": 2 });
    assert!([200, 202].contains(&client.post("/api/v1/commands", &body).status));
    let run = client.until(|state| state["run"]["events"].as_u64() > Some(0));
    assert_eq!(run["run"]["number"], 1);
    client.command("2", "stop");
}

#[test]
fn a_configuration_that_could_not_be_had_leaves_the_one_before() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let test = Test::with(support::settings(), |fixed| fixed.address = address);
    let client = test.client();
    client.post("/api/v1/configurations", &json!({ "text": "rate = 100" }));
    let with = |request: &str, command: &str| {
        let body = json!({ "request": request, "command": command, "configuration": 2 });
        client.post("/api/v1/commands", &body)
    };
    with("1", "start");
    client.until(|state| state["under_way"].is_null() && state["state"] == "idle");
    let present = || client.get("/api/v1/configurations").json()["present"].clone();
    assert_eq!(present(), 1);
    // Only commands that begin something accept one.
    for command in ["pause", "stop", "reset"] {
        let answer = with(command, command);
        assert_eq!((answer.status, &answer.json()["field"]), (422, &json!("configuration")));
    }
    assert_eq!(present(), 1);
}

#[test]
fn a_comment_that_a_terminal_would_obey_is_refused() {
    let test = Test::start();
    let client = test.client();
    let said = |comment: &str| {
        let body = json!({ "request": "1", "command": "start", "comment": comment });
        client.post("/api/v1/commands", &body)
    };
    let refused = said("bell\u{7}");
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("comment")));
    assert_eq!(client.command("2", "configure").json()["status"], "done");
    assert_eq!(client.command("3", "arm").json()["status"], "done");
    said("two lines\nof text");
    client.until(|state| state["run"]["comment"] == "two lines\nof text");
    // It is shown before it is in the catalogue.
    client.until_of("/api/v1/runs/1", |run| run["comment"] == "two lines\nof text");
}

#[test]
fn a_node_without_a_run_says_which_sources_are_sending_and_makes_way_for_the_run() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = catchment_fixtures::free();
    let test = Test::with(settings(), |fixed| {
        (fixed.elsewhere, fixed.address) = (true, address);
    });
    let client = test.client();
    let source = |name: &str| {
        let listed = client.get("/api/v1/sources").json();
        let mut all = listed["sources"].as_array().unwrap().iter();
        all.find(|source| source["name"] == name).unwrap().clone()
    };
    assert_eq!(source("s0")["status"], "off");
    let text = |state: &Value| state["verdict"]["text"].as_str().unwrap().to_owned();
    // Twice, since the sockets are closed for the run and opened again after it.
    for (round, command) in [(0, "configure"), (1, "stop")] {
        let done = client.command(&format!("{command}-{round}"), command).json();
        assert_eq!((&done["status"], &done["state"]), (&json!("done"), &json!("configured")));
        let none = "no run: 0 of 3 sources are sending; nothing from s0, s1, s2";
        client.until(|state| text(state) == none);
        // In the second round it has been heard before.
        assert_eq!(source("s0")["status"], ["never", "silent"][round]);
        client.until(|state| {
            socket.send_to(&[0; 64], address).unwrap();
            text(state) == "no run: 1 of 3 sources are sending; nothing from s1, s2"
        });
        assert_eq!(
            (&source("s0")["status"], &source("s1")["status"]),
            (&json!("good"), &json!("never"))
        );
        let begun = client.command(&format!("start-{round}"), "start").json();
        assert_eq!(begun["status"], "done", "{begun}");
        client.until(|state| state["run"]["number"] == round + 1);
        let counted = &source("s0")["ledger"]["packets_received"];
        assert_eq!(counted, &Value::Null, "what came before a run is not in its books");
    }
}

#[test]
fn a_node_that_cannot_listen_says_why_before_anybody_starts_a_run() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let test = Test::with(settings(), |fixed| {
        (fixed.elsewhere, fixed.address) = (true, address);
    });
    let client = test.client();
    let text = |state: &Value| state["verdict"]["text"].as_str().unwrap().to_owned();
    client.until(|state| text(state) == "no run: configure one to see what is sending");
    assert_eq!(client.command("1", "configure").json()["status"], "done");
    client.until(|state| {
        let text = text(state);
        text.starts_with("no run, and none can begin: ")
            && text.contains(&format!("{address}"))
            && text.contains("ddress already in use")
    });
    // It is tried again with the next command.
    drop(taken);
    assert_eq!(client.command("2", "configure").json()["status"], "done");
    client.until(|state| text(state).starts_with("no run: 0 of 3 sources are sending"));
}

#[test]
fn an_armed_node_says_which_sources_are_sending() {
    let test = Test::start();
    let client = test.client();
    assert_eq!(client.command("1", "configure").json()["status"], "done");
    assert_eq!(client.command("2", "arm").json()["status"], "done");
    let text = |state: &Value| state["verdict"]["text"].as_str().unwrap().to_owned();
    client.until(|state| text(state).contains("armed, not started: 0 of 3 sources are sending"));
    let listed = client.get("/api/v1/sources").json();
    let address = listed["sources"][0]["address"].as_str().unwrap().to_owned();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.until(|state| {
        socket.send_to(&[0; 64], &address).unwrap();
        text(state).contains("armed, not started: 1 of 3 sources are sending")
    });
}

#[test]
fn what_is_said_with_commands_and_of_runs_is_kept_and_never_replaced() {
    let test = Test::start();
    let client = test.client();
    let give = |command: &str, comment: &str| {
        let body = json!({ "request": comment, "command": command, "comment": comment });
        let answer = client.command_with(comment, body);
        assert_eq!(answer.json()["status"], "done", "{}", answer.text);
    };
    for (command, comment) in
        [("start", "cosmics"), ("pause", "crane"), ("resume", "crane-gone"), ("stop", "no-beam")]
    {
        give(command, comment);
    }
    let change = |body: Value| client.ask("PATCH", "/api/v1/runs/1", Some(&body.to_string()));
    assert_eq!(change(json!({ "remark": "s1 was noisy" })).status, 200);
    let changed = change(json!({ "remark": "do not use", "quality": "bad" })).json();
    let remarks_of = |run: &Value| -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let remarks = run["remarks"].as_array().unwrap().iter();
        remarks.map(|one| (text(&one["who"]), text(&one["kind"]), text(&one["text"]))).collect()
    };
    let expected = [
        ("start", "cosmics"),
        ("pause", "crane"),
        ("resume", "crane-gone"),
        ("stop", "no-beam"),
        ("remark", "s1 was noisy"),
        ("remark", "do not use"),
    ];
    let expected = expected.map(|(kind, text)| ("local".into(), kind.into(), text.into()));
    assert_eq!(remarks_of(&changed), expected);
    assert_eq!((&changed["comment"], &changed["quality"]), (&json!("cosmics"), &json!("bad")));
    for (refused, status) in [
        (json!({ "remark": "" }), 422),
        (json!({ "remark": "bell\u{7}" }), 422),
        // Nothing is replaced any more.
        (json!({ "comment": "another" }), 422),
    ] {
        assert_eq!(change(refused.clone()).status, status, "{refused}");
    }
    assert_eq!(remarks_of(&client.get("/api/v1/runs/1").json()), expected);
    assert!(client.get("/api/v1/runs").json()["runs"][0]["remarks"].is_null());
    let found = client.get("/api/v1/runs?search=noisy").json();
    assert_eq!(found["runs"][0]["number"], 1, "{found}");

    // A run that is armed and started has both, and one that ends with the program has the reason.
    for (command, comment) in [("arm", "ready"), ("start", "beam")] {
        give(command, comment);
    }
    client.until(|state| state["run"]["comment"] == "beam");
    let body = json!({ "request": "end", "command": "shutdown", "comment": "power cut" });
    // A node that has ended may not have answered.
    std::thread::spawn(move || client.post("/api/v1/commands", &body)).join().ok();
    let mut test = test;
    test.node.take().unwrap().wait();
    let catalog = catchment_catalog::Catalog::open_read_only(test.folder.path()).unwrap();
    let detail = catalog.run(2).unwrap();
    let said = detail.remarks.iter().map(|one| (one.kind.as_str(), one.text.as_str()));
    let said: Vec<_> = said.collect();
    assert_eq!(said, [("arm", "ready"), ("start", "beam"), ("shutdown", "power cut")]);
}

#[test]
fn a_reload_counts_from_the_next_run_on() {
    let test = Test::start();
    let client = test.client();
    client.command("1", "start");
    client.until(|state| recorded(state) > 0);
    std::fs::write(test.folder.path().join("test.toml"), "rate = 300").unwrap();
    let reloaded = client.post("/api/v1/reload", &json!({})).json();
    assert_eq!(reloaded["configuration"], 2, "{reloaded}");
    assert!(reloaded["notes"][0].as_str().unwrap().contains("the next one"));
    let seconds = client.state()["run"]["seconds"].as_f64();
    client.until(|state| state["run"]["seconds"].as_f64() > seconds);
    client.command("2", "stop");
    client.command("3", "start");
    client.command("4", "stop");
    assert_eq!(client.get("/api/v1/runs/1").json()["configuration"], 1);
    assert_eq!(client.get("/api/v1/runs/2").json()["configuration"], 2);
    std::fs::write(test.folder.path().join("test.toml"), "rate = no").unwrap();
    assert_eq!(client.post("/api/v1/reload", &json!({})).status, 422);
}

#[test]
fn a_source_that_falls_silent_changes_the_verdict_and_raises_an_alarm() {
    let test = Test::with(support::settings(), |fixed| fixed.kill = Some((1, 100)));
    let client = test.client();
    client.command("1", "start");
    let bad = client.until(|state| {
        // A third of the data.
        state["verdict"]["level"] == "heavy_loss" && state["sources"]["silent"] == 1
    });
    assert!(bad["verdict"]["text"].as_str().unwrap().contains("s1"), "{bad}");
    let sources = client.get("/api/v1/sources").json();
    assert_eq!(sources["sources"][0]["name"], "s1", "worst first: {sources}");
    let silent = |alarm: &&Value| alarm["name"] == "source_silent" && alarm["source"] == "s1";
    let of_s1 = |alarms: &Value| alarms["alarms"].as_array().unwrap().iter().find(silent).cloned();
    let alarm = of_s1(&client.until_of("/api/v1/alarms", |alarms| of_s1(alarms).is_some()));
    let alarm = alarm.expect("it was there");
    assert_eq!(alarm["state"], "active");
    let path = format!("/api/v1/alarms/{}/acknowledge", alarm["id"].as_str().unwrap());
    let acknowledged = client.post(&path, &json!({ "comment": "known" }));
    assert_eq!(acknowledged.json()["acknowledged_by"], "local", "{}", acknowledged.text);
    assert_eq!(client.post(&path, &json!({})).status, 409);
    assert_eq!(client.post("/api/v1/alarms/99/acknowledge", &json!({})).status, 404);
    let all = client.post("/api/v1/alarms/acknowledge", &json!({ "comment": "seen" }));
    let done = all.json()["alarms"].as_array().unwrap().clone();
    assert!(done.iter().all(|one| one["name"] != "source_silent"), "{done:?}");
    let alarms = client.get("/api/v1/alarms").json();
    let waiting = |alarm: &&Value| ["active", "latched"].iter().any(|one| alarm["state"] == *one);
    let waiting = alarms["alarms"].as_array().unwrap().iter().filter(waiting).count();
    assert!(waiting == 0 || !done.is_empty(), "{alarms}");
    assert_eq!(client.post("/api/v1/alarms/acknowledge", &json!({ "ids": ["x"] })).status, 422);
}

#[test]
fn a_sample_shows_what_was_recorded_last() {
    let test = Test::start();
    let client = test.client();
    client.until(|state| state["sources"]["count"] == 3);
    assert_eq!(client.get("/api/v1/sources/s1/sample").status, 404, "no run yet");
    client.command("1", "start");
    client.until(|state| recorded(state) > 10);
    let sample = client.settled("/api/v1/sources/s1/sample");
    assert_eq!(sample.status, 200, "{}", sample.text);
    let sample = sample.json();
    let bytes = sample["total_bytes"].as_u64().unwrap();
    assert_eq!(sample["bytes"].as_str().unwrap().len() as u64, bytes.min(4_096) * 2);
    assert_eq!(sample["histogram"]["what"], "payload_bytes");
    assert_eq!(client.get("/api/v1/sources/none/sample").status, 404);
}

#[test]
fn the_catalogue_can_be_made_again_while_the_node_is_asked() {
    let test = Test::start();
    let client = test.client();
    client.command("1", "start");
    client.command("2", "stop");
    let say = |remark: &str| {
        let body = json!({ "remark": remark }).to_string();
        let answer = client.ask("PATCH", "/api/v1/runs/1", Some(&body));
        assert_eq!(answer.status, 200, "{}", answer.text);
    };
    say("before");
    let report = catchment_catalog::rebuild(test.folder.path(), |_, _| ()).unwrap();
    assert_eq!((report.runs, report.problems), (1, vec![]));
    say("after");
    let remarks = client.get("/api/v1/runs/1").json()["remarks"].clone();
    assert_eq!((&remarks[0]["text"], &remarks[1]["text"]), (&json!("before"), &json!("after")));
}
