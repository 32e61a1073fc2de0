//! A storage node under control: what its API, its metrics and its alarms say of what recorders
//! send.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use catchment_control::{
    Configuration, ConfigurationFault, Configure, LogFormat, LogLevel, Logs, Node, Role, TokenFile,
    metrics_document, own_folder,
};
use catchment_disk::{DiskConfig, FaultControl, FaultPlan};
use catchment_recorder::{
    FrameFeed, NodeConfig, Place, RecorderConfig, SourceConfig, TargetConfig,
};
use catchment_store::StoreConfig;
use serde_json::{Value, json};

use crate::support::{Client, settings};

struct Fixed(StoreConfig);

impl Configure for Fixed {
    fn read(&self) -> Result<String, String> {
        Ok(String::new())
    }

    fn check(&self, _text: &str) -> Result<Configuration, ConfigurationFault> {
        Ok(Configuration::of_store(self.0.clone(), Vec::new(), String::new()))
    }
}

pub(crate) fn config(folder: &Path) -> StoreConfig {
    let disk = DiskConfig {
        buffer_bytes: 256 << 10,
        preallocate_bytes: 1 << 20,
        sync_interval_ns: 10_000_000,
        ..DiskConfig::default()
    };
    StoreConfig {
        address: ([127, 0, 0, 1], 0).into(),
        access: Default::default(),
        folders: vec![folder.join("first")],
        memory_bytes: 32 << 20,
        file_bytes: 1 << 20,
        disk,
        sync_bytes: u64::MAX,
        close_after_ns: 60_000_000_000,
    }
}

pub(crate) fn start(config: StoreConfig) -> (Node, Client) {
    let logs = Logs::start(LogFormat::None, LogLevel::DEBUG);
    let node = Node::start(settings(), Arc::new(Fixed(config)), logs).unwrap();
    let client = Client::new(&node.url().unwrap());
    (node, client)
}

pub(crate) fn feed(node: NodeConfig) -> FrameFeed {
    let source = SourceConfig::new("frames".to_owned(), ([127, 0, 0, 1], 0).into());
    let place = Place::Node(node);
    let target = TargetConfig { place, trends: false, ..TargetConfig::folder("node", "".into()) };
    let config = RecorderConfig::new("".into(), vec![source]);
    let config = RecorderConfig { memory_bytes: 256 << 20, targets: vec![target], ..config };
    FrameFeed::start(&config).unwrap()
}

pub(crate) fn at(address: SocketAddr) -> NodeConfig {
    NodeConfig::at(address.to_string())
}

/// Puts a frame of 100 kB.
pub(crate) fn put(feed: &mut FrameFeed) {
    feed.put(10, &vec![7; 100_000].into()).unwrap();
}

fn names(alarms: &Value) -> Vec<&str> {
    let all = alarms["alarms"].as_array().into_iter().flatten();
    all.filter(|alarm| alarm["ended"].is_null())
        .filter_map(|alarm| alarm["name"].as_str())
        .collect()
}

fn raised(client: &Client, name: &str) -> Value {
    client.until_of("/api/v1/alarms", |alarms| names(alarms).contains(&name))
}

/// What stands between the two, until it is cut: then nobody is there.
struct Link {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Link {
    fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let link = Self { address, is_cut: Arc::default(), open: Arc::default() };
        let (is_cut, open) = (Arc::clone(&link.is_cut), Arc::clone(&link.open));
        std::thread::spawn(move || {
            for incoming in listener.incoming() {
                let mut open = open.lock().unwrap();
                if is_cut.load(Relaxed) {
                    return;
                }
                let (here, there) = (incoming.unwrap(), TcpStream::connect(node).unwrap());
                let copy = |end: &TcpStream| end.try_clone().unwrap();
                open.extend([copy(&here), copy(&there)]);
                let (from, into) = (copy(&there), copy(&here));
                std::thread::spawn(move || pass_on(here, there));
                std::thread::spawn(move || pass_on(from, into));
            }
        });
        link
    }

    fn cut(&self) {
        let mut open = self.open.lock().unwrap();
        self.is_cut.store(true, Relaxed);
        for end in open.drain(..) {
            let _gone = end.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _gone = to.shutdown(Shutdown::Both);
}

#[test]
fn a_stream_is_shown_from_its_first_frame_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = start(config(folder.path()));
    let idle = client.state();
    assert_eq!(idle["verdict"]["text"], "storing nothing: no recorder sends");
    assert_eq!((&idle["state"], &idle["run"]), (&json!("idle"), &Value::Null));
    assert_eq!(idle["store"]["address"], node.store_address().unwrap().to_string());
    let mut feed = feed(at(node.store_address().unwrap()));
    for _ in 0..20 {
        put(&mut feed);
    }
    let state = client.until(|state| state["store"]["streams"][0]["durable"] == 20);
    assert_eq!(
        (&state["state"], &state["verdict"]["level"]),
        (&json!("recording"), &json!("good"))
    );
    assert_eq!(state["verdict"]["text"], "storing 1 stream");
    let stream = &state["store"]["streams"][0];
    assert_eq!((&stream["name"], &stream["state"]), (&json!(feed.name()), &json!("open")));
    assert!(stream["recorder"].as_str().unwrap().contains(" at 127.0.0.1:"), "{stream}");
    assert!(stream["bytes_written"].as_u64() > Some(2_000_000), "{stream}");
    assert!(stream["syncs"]["count"].as_u64() > Some(0), "{stream}");
    assert!(stream["syncs"]["longest_seconds"].as_f64() > Some(0.0), "{stream}");
    let of_folder = &state["store"]["folders"][0];
    assert_eq!(of_folder["bytes_written"], stream["bytes_written"]);
    assert!(of_folder["free_bytes"].as_u64() > Some(0) && of_folder["fault"].is_null());
    let metrics = client.get("/metrics").text;
    assert!(metrics.contains("catchment_store_frames_total{fate=\"taken\"} 20\n"), "{metrics}");
    let page = metrics_document();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let name: String = line.chars().take_while(|c| !" {".contains(*c)).collect();
        assert!(page.contains(&format!("`{name}`")), "{name} is not documented");
    }
    let last = feed.finish().unwrap();
    assert_eq!(last.targets[0].state, catchment_recorder::State::Recording, "no fault");
    client.until(|state| state["store"]["streams"][0]["state"] == "ended");
    let alarms = client.get("/api/v1/alarms").json();
    assert!(names(&alarms).is_empty(), "{alarms}");
    drop(client);
    node.shutdown();
    let ended = node.wait();
    assert!(ended.failed.is_none() && ended.stored.unwrap().streams[0].has_ended);
}

#[test]
fn it_takes_no_command_but_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = start(config(folder.path()));
    let offers = client.state()["commands"].clone();
    assert_eq!(offers.as_array().unwrap().len(), 1);
    assert_eq!(offers[0]["name"], "shutdown");
    let refused = client.command("1", "start");
    assert_eq!(refused.status, 409);
    assert!(refused.text.contains("a storage node has no runs"), "{}", refused.text);
    client.post("/api/v1/commands", &json!({ "request": "2", "command": "shutdown" }));
    let ended = node.wait();
    assert!(ended.failed.is_none() && ended.stored.is_some());
}

#[test]
fn a_stream_that_breaks_off_and_a_stranger_are_alarms() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = start(config(folder.path()));
    let address = node.store_address().unwrap();
    let link = Link::to(address);
    let mut feed = feed(at(link.address));
    put(&mut feed);
    client.until(|state| state["store"]["streams"][0]["durable"] == 1);
    link.cut();
    let state = client.until(|state| state["store"]["streams"][0]["state"] == "broken_off");
    assert_eq!(state["verdict"]["text"], "storing nothing: streams broke off");
    let alarms = raised(&client, "stream_broken_off");
    assert!(alarms.to_string().contains(feed.name()), "{alarms}");
    // A program that takes it for something else.
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
    client.until(|state| state["store"]["refusals"]["malformed"] == 1);
    assert_eq!(client.state()["store"]["faults"], 1);
    raised(&client, "sessions_refused");
    feed.finish().unwrap();
}

#[test]
fn a_token_of_another_role_is_refused_counted_and_an_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.access.needs_token = true;
    let file = TokenFile::in_folder(&own_folder(&config.folders[0]));
    let tokens = [("camera", Role::Source), ("recorder", Role::Node), ("admin", Role::Admin)]
        .map(|(name, role)| file.add(name, role).unwrap());
    let (node, client) = start(config);
    let client = client.token(&tokens[2]);
    let shows = |token: &str| {
        let path = folder.path().join("token");
        std::fs::write(&path, token).unwrap();
        let address = node.store_address().unwrap();
        feed(NodeConfig { token_file: Some(path), ..at(address) })
    };
    let refused = shows(&tokens[0]);
    let state = client.until(|state| state["store"]["refusals"]["token"] == 1);
    assert!(state["store"]["tokens"] == true && state["store"]["streams"] == json!([]));
    raised(&client, "sessions_refused");
    refused.finish().unwrap();
    let mut admitted = shows(&tokens[1]);
    put(&mut admitted);
    client.until(|state| state["store"]["streams"][0]["durable"] == 1);
    admitted.finish().unwrap();
}

#[test]
fn a_folder_that_fails_and_one_that_is_full_are_alarms_until_they_work() {
    let folder = tempfile::tempdir().unwrap();
    let control = FaultControl::default();
    let mut config = config(folder.path());
    let plan = FaultPlan { control: control.clone(), ..FaultPlan::default() };
    config.disk.faults = Some(plan);
    let (node, client) = start(config);
    let mut feed = feed(at(node.store_address().unwrap()));
    put(&mut feed);
    client.until(|state| state["store"]["streams"][0]["durable"] == 1);
    control.set_space(Some(0));
    control.fail_writes(Some(libc::ENOSPC));
    put(&mut feed);
    let state = client.until(|state| state["store"]["streams"][0]["state"] == "waits");
    assert_eq!(state["store"]["folders"][0]["failures"], 1);
    let state = client.until(|state| state["verdict"]["text"] == "no folder can be written");
    assert_eq!(state["state"], "fault");
    for name in ["folder_fault", "stream_waits", "disk_space"] {
        raised(&client, name);
    }
    control.set_space(None);
    control.fail_writes(None);
    client.until(|state| state["store"]["streams"][0]["durable"] == 2);
    client.until(|state| state["verdict"]["text"] == "storing 1 stream");
    client.until_of("/api/v1/alarms", |alarms| names(alarms).is_empty());
    feed.finish().unwrap();
}
