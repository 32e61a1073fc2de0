//! A recorder and two storage nodes as processes, the nodes in network namespaces: the recorder and
//! a node are killed at random, the network of a node goes down for longer than a connection may
//! be silent, and the disk of one of them fills up.
//!
//! `cargo xtask test-long` runs it, as root, on a machine with `ip`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_fixtures::{Random, SmallDisk, wait_while};
use catchment_frontend::{Closed, Frontend, Push, SourceConfig, SourceStatus};
use catchment_storage::{Run, RunOptions, Verdict, audit, verify};
use serde_json::Value;

use super::{configure_store_in, recorder_text};
use crate::front_ends::{LONG, SOURCES, content, fragments};
use crate::life::Node;
use crate::network::Network;
use crate::support::interrupt;

const LIVES: u64 = 10;
/// Keys between two mishaps, at most and at least one.
const KEYS: u64 = 500;
/// Keys that the front-end may be ahead of what is durable: its ring holds as many.
const AHEAD: u64 = 1_000;
/// A connection may be silent for 3 s.
const DOWN: Duration = Duration::from_secs(5);
/// 64 MiB, without which the node makes no file, and 320 MiB for its parts of all runs, which stay.
const DISK: &str = "size=384m";

/// What happens in each life of the recorder, in random order.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    RecorderIsKilled,
    NodeIsKilled,
    NetworkIsDown,
    DiskIsFull,
}

/// A storage node in a namespace of its own. It is killed when this is dropped.
pub(super) struct Away {
    folder: PathBuf,
    pub(super) store: Child,
    network: Network,
}

impl Away {
    pub(super) fn new(number: u8, folder: PathBuf, folders: &[&Path]) -> Self {
        let network = Network::new(number);
        std::fs::create_dir(&folder).unwrap();
        configure_store_in(&folder, folders, at(&network), "without_protection = true");
        let store = Self::start(&network, &folder);
        Self { folder, store, network }
    }

    pub(super) fn listens(&self) -> SocketAddr {
        at(&self.network)
    }

    /// Starts it, and waits until it is there.
    fn start(network: &Network, folder: &Path) -> Child {
        let mut command = network.command();
        let mut store = command.args(["store", "store.toml"]).current_dir(folder).spawn().unwrap();
        wait_while(|| {
            assert_eq!(store.try_wait().unwrap(), None);
            TcpStream::connect(at(network)).is_err()
        });
        store
    }

    fn kill_and_start(&mut self) {
        self.store.kill().unwrap();
        self.store.wait().unwrap();
        self.store = Self::start(&self.network, &self.folder);
    }

    /// Ends it in order. Returns its exit code.
    pub(super) fn end(mut self) -> Option<i32> {
        interrupt(&mut self.store)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        // It may have ended.
        self.store.kill().ok();
        self.store.wait().ok();
    }
}

fn at(network: &Network) -> SocketAddr {
    format!("{}.2:7100", network.here).parse().unwrap()
}

/// By name, the folders with files of the streams that are in those.
pub(super) fn streams_in(folders: &[PathBuf]) -> BTreeMap<String, Vec<PathBuf>> {
    let mut streams: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // A node may have no file of a stream that was opened there.
        let files = std::fs::read_dir(&path).into_iter().flatten().map(|file| file.unwrap().path());
        let has_files = || files.into_iter().any(|file| file.extension() == Some("catch".as_ref()));
        if !name.starts_with('.') && has_files() {
            streams.entry(name).or_default().push(path);
        }
    }
    streams
}

/// A front-end whose items are fragments alone, with keys from 0: a position is a key.
struct Sending {
    front_end: Frontend,
    /// Keys below that may be sent.
    allowed: AtomicU64,
    is_over: AtomicBool,
}

impl Sending {
    fn to(url: &str) -> Self {
        let mut builder = Frontend::builder(url, "detector").buffer(12 << 20);
        for name in SOURCES {
            builder = builder
                .source_of(SourceConfig { name: name.to_owned(), ..SourceConfig::default() });
        }
        let front_end = builder.fragment_bytes_max(1 << 20).wait(LONG).connect().unwrap();
        Self { front_end, allowed: AtomicU64::new(0), is_over: AtomicBool::new(false) }
    }

    /// Sends what is allowed, from a thread for each source, as long as `act` takes.
    fn during(&self, act: impl FnOnce()) {
        std::thread::scope(|scope| {
            for index in 0..SOURCES.len() {
                scope.spawn(move || self.send(index));
            }
            // Also when it panics.
            let _over = Over(&self.is_over);
            act();
        });
    }

    fn send(&self, index: usize) {
        let is_over = || self.is_over.load(Relaxed);
        for key in 0.. {
            let bytes = content(index, key);
            let source = &self.front_end.sources()[index];
            let is_held_up = || {
                key >= self.allowed.load(Relaxed)
                    || source.try_send(key, &bytes).unwrap() == Push::Full
            };
            wait_while(|| !is_over() && is_held_up());
            if is_over() {
                return;
            }
        }
    }

    fn statuses(&self) -> [SourceStatus; 3] {
        std::array::from_fn(|index| self.front_end.sources()[index].status())
    }

    /// Lets it go on, up to so many keys beyond what is durable or was given up.
    fn go_on(&self, keys: u64) {
        let released = self.statuses().map(|status| status.released);
        let released = released.into_iter().min().unwrap_or_default();
        self.allowed.fetch_max(released + keys, Relaxed);
    }

    /// Waits until all sources have come there by what `position` says.
    fn wait_for(&self, key: u64, position: impl Fn(&SourceStatus) -> u64) {
        wait_while(|| self.statuses().iter().any(|status| position(status) < key));
    }
}

/// Sets it when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What things happen to.
struct World {
    nodes: [Away; 2],
    /// That of the first one.
    disk: SmallDisk,
    folder: PathBuf,
    /// The recorder's file.
    text: String,
    recorder: Option<Node>,
}

impl World {
    /// All that happens in a life of a recorder and the next.
    fn live(&mut self, random: &mut Random, sending: &Sending) {
        let mut left = vec![
            Mishap::RecorderIsKilled,
            Mishap::NodeIsKilled,
            Mishap::NetworkIsDown,
            Mishap::DiskIsFull,
        ];
        while !left.is_empty() {
            let mishap = left.swap_remove(random.index(left.len()));
            // In each life of the recorder some are durable.
            let until = sending.allowed.load(Relaxed) + 1 + random.below(KEYS);
            wait_while(|| {
                sending.go_on(AHEAD);
                sending.statuses().iter().any(|status| status.durable < until)
            });
            let number = random.index(2);
            println!("key {until}, node {number}: {mishap:?}");
            match mishap {
                Mishap::RecorderIsKilled => self.kill(sending),
                Mishap::NodeIsKilled => self.nodes[number].kill_and_start(),
                Mishap::NetworkIsDown => {
                    let (network, begin) = (&self.nodes[number].network, Instant::now());
                    network.set("down");
                    wait_while(|| begin.elapsed() < DOWN);
                    network.set("up");
                }
                Mishap::DiskIsFull => self.fill(sending),
            }
        }
    }

    /// Kills the recorder, and has another one go on with the run, with what the front-end holds.
    fn kill(&mut self, sending: &Sending) {
        drop(self.recorder.take());
        // Some of it while there is no recorder.
        let made = sending.allowed.load(Relaxed);
        sending.wait_for(made, |status| status.made);
        self.recorder = Some(Node::start(&self.folder, &self.text, &[]));
        sending.wait_for(made, |status| status.durable);
    }

    /// Takes all room of the first node while it writes. The other one has everything meanwhile,
    /// and this one its part later.
    fn fill(&self, sending: &Sending) {
        let recorder = self.recorder.as_ref().expect("it runs");
        let until = |is_so: &dyn Fn(&Value) -> bool| {
            // Slowly: it is a while before the node knows, and the recorder.
            recorder.until(|state| {
                sending.go_on(AHEAD / 10);
                is_so(state)
            })
        };
        until(&|state| is_there(state, 0) && stored(state, 0) > 0);
        self.disk.fill();
        let state = until(&|state| node(state, 0)["away"].is_string());
        println!("{}", node(&state, 0)["away"]);
        let [full, other] = [0, 1].map(|index| stored(&state, index));
        until(&|state| stored(state, 1) > other);
        self.disk.make_room();
        until(&|state| stored(state, 0) > full);
    }
}

fn node(state: &Value, index: usize) -> &Value {
    &state["targets"][0]["nodes"][index]
}

fn is_there(state: &Value, index: usize) -> bool {
    node(state, index)["is_connected"] == true && node(state, index)["away"].is_null()
}

fn stored(state: &Value, index: usize) -> u64 {
    node(state, index)["frames_durable"].as_u64().unwrap_or(0)
}

#[test]
#[ignore = "3 min, and as root: cargo xtask test-long runs it"]
fn recorders_and_nodes_are_killed_cut_off_and_full_and_nothing_acknowledged_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::in_memory(DISK).expect("root may mount");
    let small = disk.path().join("stored");
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let folders = [small.clone(), second.join("stored")];
    let nodes = [Away::new(5, first, &[&small]), Away::new(6, second, &["stored".as_ref()])];
    let [one, two] = nodes.each_ref().map(Away::listens);
    let target = format!("nodes = [\"{one}\", \"{two}\"]\nhold_bytes = \"8 MiB\"");
    let (text, url) = recorder_text(&target);
    let text = format!("[control]\nrequests_per_second = 1000000\ndrain = \"1 h\"\n{text}");
    let recorder = Some(Node::start(folder.path(), &text, &[]));
    let at = folder.path().to_owned();
    let mut world = World { nodes, disk, folder: at, text, recorder };
    let sending = Sending::to(&url);
    let mut random = Random::new(39);
    sending.during(|| {
        (0..LIVES).for_each(|_| world.live(&mut random, &sending));
        sending.wait_for(sending.allowed.load(Relaxed), |status| status.durable);
    });
    let World { nodes, disk: _disk, recorder, .. } = world;
    let recorder = recorder.expect("it runs");
    // A node that is left out is not told of the run's end.
    recorder.until(|state| (0..2).all(|index| is_there(state, index)));
    let keys = sending.allowed.load(Relaxed);
    assert_eq!(sending.front_end.close(LONG), Closed::default());
    recorder.signal(libc::SIGINT);
    assert_eq!(recorder.ended().code(), Some(0));
    // Nodes close what killed recorders, or they themselves, have left.
    let are_closed = || {
        let closed = |paths: &Vec<PathBuf>| {
            Run::open_folders(paths, RunOptions::default()).is_ok_and(|run| run.closed())
        };
        streams_in(&folders).values().all(closed)
    };
    wait_while(|| !are_closed());
    check(&folders, keys);
    for node in nodes {
        assert_eq!(node.end(), Some(0));
    }
}

/// Each fragment of keys below that number is once in the run, with the bytes that were sent: each
/// recorder went on with it.
fn check(folders: &[PathBuf], keys: u64) {
    let streams = streams_in(folders);
    assert_eq!(streams.len(), 1, "runs");
    for (name, paths) in streams {
        let run = Run::open_folders(&paths, RunOptions::default()).unwrap();
        let verified = verify(&run, |_| {});
        assert!(verified.is_intact(), "{name}: {verified:?}");
        let report = audit(&run).unwrap();
        let (events, parts) = (run.event_count(), paths.len());
        println!("{name}: {events} events in {parts} folders, {:?}", report.verdict);
        assert!(report.verdict == Verdict::Balanced && run.ended(), "{name}: {report:?}");
        let mut recorded = BTreeSet::new();
        for (key, of_sources) in fragments(&run) {
            for (source, bytes) in of_sources.iter().enumerate() {
                let Some(bytes) = bytes else { continue };
                assert!(*bytes == content(source, key), "{name}: event {key}, source {source}");
                assert!(recorded.insert((key, source)), "event {key}, source {source}, twice");
            }
        }
        let mut sent =
            (0..keys).flat_map(|key| (0..SOURCES.len()).map(move |source| (key, source)));
        assert_eq!(sent.find(|one| !recorded.contains(one)), None, "was durable");
    }
}
