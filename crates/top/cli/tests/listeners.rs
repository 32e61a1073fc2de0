//! A node with several listeners.

use std::collections::BTreeMap;
use std::path::Path;

use catchment_fixtures::wait_while;
use catchment_frontend::{Builder, Frontend};
use catchment_model::SourceId;
use catchment_storage::{Run, Verdict, audit};
use serde_json::{Value, json};

use crate::front_ends::LONG;
use crate::life::Node;
use crate::support::free_ports;

/// A node with a listener in the clear and one under TLS, and two sources of front-ends.
fn configuration(port: u16) -> String {
    let source = |name| format!("[[sources]]\nname = \"{name}\"\nvia = \"link\"\n");
    format!(
        r#"
[control]
start = "manual"
requests_per_second = 1000000
drain = "1 h"
[memory]
budget = "256 MiB"
[build]
timeout = "1 h"
[frame]
time = "50 ms"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "1 MiB"
[[listen]]
address = "127.0.0.1:{port}"
[[listen]]
address = "127.0.0.1:{}"
tls = "all"
{}"#,
        port + 1,
        ["left", "right"].map(source).concat()
    )
}

/// What is shown of front-ends under that path.
fn properties(node: &Node, path: &str) -> Value {
    let devices = node.ctl(&["devices"]);
    let mut devices = devices["devices"].as_array().unwrap().iter();
    devices.find(|one| one["path"] == path).map_or(Value::Null, |one| one["properties"].clone())
}

/// By key, what both sources sent.
fn fragments(folder: &Path) -> BTreeMap<u64, [Vec<u8>; 2]> {
    let run = Run::open(folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let mut events: BTreeMap<u64, [Vec<u8>; 2]> = BTreeMap::new();
    for (frame, source) in (0..run.frames().len()).flat_map(|one| [(one, 0), (one, 1)]) {
        let column = run.fragments(frame, SourceId(source)).unwrap();
        for (row, &key) in column.events().keys().iter().enumerate() {
            let bytes = column.fragment(row).unwrap().to_vec();
            events.entry(key).or_default()[source as usize] = bytes;
        }
    }
    events
}

#[test]
fn front_ends_of_one_run_come_in_the_clear_and_under_tls() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_ports(2));
    let node = Node::start(folder.path(), &configuration(port), &[]);
    node.ctl(&["configure"]);
    let [clear, secured] = [port, port + 1].map(|port| format!("127.0.0.1:{port}"));
    wait_while(|| properties(&node, "node/front_ends")["listeners"] == "");
    let shown = properties(&node, "node/front_ends")["listeners"].clone();
    assert_eq!(shown, format!("{clear} (in the clear); {secured} (under TLS)"));
    let certificate = folder.path().join("runs/.catchment/tls/certificate.pem");
    let under_tls = |name: &str, address: &str| -> Builder {
        let builder = Frontend::builder(&format!("catchment://{address}"), name);
        builder.certificate(&certificate).wait(LONG)
    };
    let in_the_clear = |name: &str, address: &str| {
        Frontend::builder(&format!("catchment+tcp://{address}"), name).wait(LONG)
    };
    let refuse = |count: u64| {
        let refused = in_the_clear("right", &secured).connect().unwrap_err().to_string();
        assert!(refused.contains("connect under TLS"), "{refused}");
        // What is shown is looked at twice a second.
        let shown = || properties(&node, "node/front_ends/right")["connections_refused"].clone();
        wait_while(|| shown() != count);
    };
    refuse(1);
    // TLS is taken where it need not be, too.
    let left = under_tls("left", &clear).connect().unwrap();
    assert!(left.close(LONG).is_confirmed());

    let left = in_the_clear("left", &clear).connect().unwrap();
    let right = under_tls("right", &secured).connect().unwrap();
    let started = node.ctl(&["start"]);
    assert_eq!((&started["status"], &started["run"]), (&json!("done"), &json!(1)));
    refuse(2);
    for key in 0..1_000_u64 {
        left.send(key, &key.to_le_bytes()).unwrap();
        right.send(key, &[key as u8; 100]).unwrap();
    }
    for one in [&left, &right] {
        let status = || one.sources()[0].status();
        wait_while(|| status().released < status().made);
    }
    let refused = || {
        let sources = node.ctl(&["sources"]);
        let mut sources = sources["sources"].as_array().unwrap().iter();
        let right = sources.find(|one| one["name"] == "right").unwrap();
        right["ledger"]["packets_refused"] == 1
    };
    wait_while(|| !refused());
    assert_eq!(node.ctl(&["stop"])["status"], "done");
    let run = node.ctl(&["run", "1"]);
    assert_eq!((&run["state"], &run["loss_count"]), (&json!("complete"), &json!(0)));
    let events = fragments(&folder.path().join("runs").join(run["folder"].as_str().unwrap()));
    assert!(events.keys().copied().eq(0..1_000));
    for (key, [of_left, of_right]) in events {
        assert_eq!((of_left, of_right), (key.to_le_bytes().to_vec(), vec![key as u8; 100]));
    }
    // Both go on behind the run, each at its listener.
    assert!(left.close(LONG).is_confirmed() && right.close(LONG).is_confirmed());
}
