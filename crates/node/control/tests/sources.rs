//! The view of sources and links: how full their buffers are, and what they sent last.

use std::sync::atomic::AtomicBool;

use crate::support::{Client, Test, settings};
use catchment_emulator::{ChannelContent, EmulatedLink, EmulatorLive, LinkEmulator};
use catchment_emulator::{EmulatedChannel, LinkEmulatorConfig};
use catchment_fixtures::wait_while;
use catchment_frame::Dtype;
use catchment_model::SampleRate;
use catchment_recorder::{ChannelConfig, LinkConfig};
use catchment_watch::{Condition, Quantity, Rule};
use serde_json::Value;

/// A source as the node shows it now.
fn source(client: &Client, name: &str) -> Value {
    let sources = client.get("/api/v1/sources").json();
    let all = sources["sources"].as_array().unwrap();
    all.iter().find(|source| source["name"] == name).unwrap().clone()
}

#[test]
fn a_sources_fill_is_shown_while_it_has_a_socket_and_alarms_can_look_at_it() {
    let above = Condition::Above { threshold: -1.0, clear_at: -1.0 };
    let rule = Rule::new("filling", Quantity::new("source.s1.fill").unwrap(), above);
    let test = Test::with(settings(), |fixed| fixed.rules = vec![rule]);
    let client = test.client();
    client.until(|state| state["sources"]["count"] == 3);
    assert!(source(&client, "s1")["fill"].is_null());
    client.command("1", "start");
    client.until(|state| state["run"]["events"].as_u64() > Some(10));
    let mut seen = source(&client, "s1");
    while seen["fill"].is_null() {
        seen = source(&client, "s1");
    }
    let fill = seen["fill"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&fill), "{seen}");
    assert_eq!(seen["from"], serde_json::json!([]));
    loop {
        let alarms = client.get("/api/v1/alarms").json();
        let mut alarms = alarms["alarms"].as_array().unwrap().iter();
        if alarms.any(|alarm| alarm["name"] == "filling" && alarm["source"] == "s1") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    client.command("2", "stop");
    wait_while(|| !source(&client, "s1")["fill"].is_null());
}

fn channels() -> Vec<EmulatedChannel> {
    let channel = |name: &str, dtype, hz| EmulatedChannel {
        name: name.into(),
        dtype,
        shape: Vec::new(),
        rate: SampleRate::new(hz, 1).unwrap(),
        unit: "ct".into(),
    };
    vec![channel("X:FAST", Dtype::F32, 4_096), channel("X:SLOW", Dtype::I16, 16)]
}

fn link() -> LinkConfig {
    let channels = channels().into_iter().map(|channel| ChannelConfig {
        unit: channel.unit,
        ..ChannelConfig::new(channel.name, channel.dtype, channel.rate)
    });
    LinkConfig::new("link", ([127, 0, 0, 1], 0).into(), channels.collect())
}

/// Sends ten seconds of data at once.
fn send(to: &str) -> ChannelContent {
    let channels = channels();
    let links = EmulatedLink::dealt(channels.len(), &[to.parse().unwrap()]);
    let config = LinkEmulatorConfig { channels, links, multiple: None, ..Default::default() };
    let config =
        LinkEmulatorConfig { slices: Some(40), first_slice: Some(7_000_000_000), ..config };
    let emulator = LinkEmulator::new(config).unwrap();
    emulator.run(&AtomicBool::new(false), &EmulatorLive::default()).unwrap();
    emulator.content().clone()
}

/// The sample's values are the channel's, as many as requested, and lead up to the end of a frame.
fn assert_latest(sample: &Value, content: &ChannelContent, number: u32, shown: u64) {
    let channel = &sample["channel"];
    assert_eq!((channel["samples"].as_u64(), channel["unit"].as_str()), (Some(shown), Some("ct")));
    let first = channel["first_sample"].as_u64().unwrap();
    let hz = channels()[number as usize].rate.first_sample_at(1_000_000_000);
    assert_eq!((first + shown) % hz, 0, "the end of a frame of a second");
    let values = sample["array"]["values"].as_array().unwrap();
    assert_eq!(values.len() as u64, shown);
    for (value, sample) in values.iter().zip(first..) {
        // With the precision of JSON.
        let value = value.as_f64().unwrap() as f32;
        assert_eq!(value, content.value(number, sample) as f32, "sample {sample}");
    }
    assert_eq!(sample["array"]["shape"], serde_json::json!([shown]));
    let counted = sample["histogram"]["counts"].as_array().unwrap();
    let counted: u64 = counted.iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!((counted, sample["histogram"]["what"].as_str()), (hz, Some("value")));
}

#[test]
fn a_sample_of_a_link_is_its_channels_latest_values() {
    let test = Test::with(settings(), |fixed| fixed.links = vec![link()]);
    let client = test.client();
    client.until(|state| state["sources"]["count"] == 4);
    assert_eq!(client.get("/api/v1/sources/link/sample").status, 404, "no run yet");
    client.command("1", "start");
    let content = send(source(&client, "link")["address"].as_str().unwrap());
    // Some whole frames of it are on disk.
    let sample = loop {
        let sample = client.settled("/api/v1/sources/link/sample");
        if sample.status == 200 {
            break sample.json();
        }
        assert_eq!(sample.status, 404, "{}", sample.text);
    };
    assert_latest(&sample, &content, 0, 1_024);
    assert_eq!(sample["event"], Value::Null);
    assert_eq!(sample["channel"]["channels"], serde_json::json!(["X:FAST", "X:SLOW"]));
    assert_eq!(
        (sample["bytes"].as_str().unwrap().len(), &sample["total_bytes"]),
        (8_192, &4_096.into())
    );
    let slow = client.settled("/api/v1/sources/link/sample?channel=X:SLOW");
    let slow = slow.json();
    assert_latest(&slow, &content, 1, 16);
    assert_eq!(slow["channel"]["channels"], serde_json::json!([]));
    assert_eq!(slow["channel"]["channel_count"], 2);
    assert_eq!(slow["array"]["dtype"], "i16");
    let ask = |path: &str| client.settled(&format!("/api/v1/sources/{path}")).status;
    assert_eq!(ask("link/sample?channel=X:NONE"), 404);
    assert_eq!(ask("s0/sample?channel=X:FAST"), 400);
    assert_eq!(ask("link/sample?chanel=X:FAST"), 400);
    client.command("2", "stop");
}

#[test]
fn emulated_links_are_started_and_ended_with_the_run_and_nothing_of_them_is_lost() {
    for sources in [0, 2] {
        let test = Test::with(settings(), |fixed| {
            fixed.sources = sources;
            fixed.links = vec![link()];
            fixed.emulated = channels();
        });
        let client = test.client();
        client.until(|state| state["sources"]["count"] == sources + 1);
        for number in 1..3_u64 {
            let begun = client.command(&format!("start-{number}"), "start").json();
            assert_eq!(begun["status"], "done", "{begun}");
            client.until(|state| state["run"]["number"] == number);
            wait_while(|| {
                source(&client, "link")["ledger"]["fragments_recorded"].as_u64() < Some(1)
            });
            let ended = client.command(&format!("stop-{number}"), "stop").json();
            assert_eq!(ended["status"], "done", "{ended}");
            // Final with the node's next update; until then the ledger is open.
            let ledger = loop {
                let ledger = client.get(&format!("/api/v1/runs/{number}/ledger")).json();
                if !ledger["balanced"].is_null() {
                    break ledger;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            };
            assert_eq!(ledger["balanced"], true, "{ledger}");
            let link = ledger["sources"]["link"].as_object().unwrap();
            assert_eq!(link["fragments_received"], link["fragments_recorded"], "{ledger}");
            assert!(!link.keys().any(|entry| entry.contains("missing")), "{ledger}");
        }
        let emulator = client.get("/api/v1/devices/node/emulator").json();
        let properties = &emulator["properties"];
        let counts = [&properties["source_count"], &properties["link_count"]];
        assert_eq!(counts, [&Value::from(sources), &Value::from(1)]);
        assert!(properties["event_count"].as_u64() > Some(0), "{emulator}");
        assert_eq!(properties["rate_hz"].is_null(), sources == 0);
        let path = "/api/v1/devices/node/emulator/properties";
        let set = client.ask("PATCH", path, Some("{\"seed\": 7}"));
        assert_eq!(set.status, 200, "{}", set.text);
        let seed = || {
            let emulator = client.get("/api/v1/devices/node/emulator").json();
            emulator["properties"]["seed"].clone()
        };
        // With the node's next update.
        wait_while(|| seed() != 7);
    }
}

#[test]
fn an_emulator_that_fails_is_told_of_at_the_end_with_its_reason() {
    let mut test = Test::with(settings(), |fixed| {
        // Only a program that requests it may send to a whole network.
        fixed.address = ([127, 255, 255, 255], 0).into();
    });
    let client = test.client();
    assert_eq!(client.command("1", "start").json()["status"], "done");
    wait_while(|| !test.node().emulation_ended());
    let ended = test.node.take().unwrap().wait();
    let failed = ended.failed.expect("a reason");
    assert!(failed.starts_with("the emulator: ") && failed.contains("denied"), "{failed}");
    assert!(ended.sent.is_none() && ended.last.is_some());
}
