//! A recorder and two storage nodes as processes, the nodes in network namespaces: the recorder and
//! a node are killed at random, the network of a node goes down for longer than a connection may
//! be silent, and one of the folders is full.
//!
//! `cargo xtask test-long` runs it, as root, on a machine with `ip`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_fixtures::{Random, SmallDisk, wait_while};
use catchment_frontend::Closed;
use catchment_storage::{Run, RunOptions, audit, verify};

use super::{configure_store_in, front_end, recorder, recorder_text, send_these};
use crate::front_ends::{LONG, SOURCES, content, fragments};
use crate::network::Network;
use crate::support::interrupt;

const LIVES: u64 = 10;
/// Keys between two mishaps.
const KEYS: u64 = 500;
/// A connection may be silent for 3 s.
const DOWN: Duration = Duration::from_secs(5);

/// What happens in each life of the recorder, in random order.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    RecorderIsKilled,
    NodeIsKilled,
    NetworkIsDown,
}

/// A storage node in a namespace of its own.
pub(super) struct Away {
    network: Network,
    folder: PathBuf,
    pub(super) store: Child,
}

impl Away {
    pub(super) fn new(number: u8, folder: PathBuf, folders: &[&Path]) -> Self {
        let network = Network::new(number);
        std::fs::create_dir(&folder).unwrap();
        configure_store_in(&folder, folders, at(&network), "without_protection = true");
        let store = Self::start(&network, &folder);
        Self { network, folder, store }
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
}

fn at(network: &Network) -> SocketAddr {
    format!("{}.2:7100", network.here).parse().unwrap()
}

/// By name, the folders of the streams that are in those.
pub(super) fn streams_in(folders: &[PathBuf]) -> BTreeMap<String, Vec<PathBuf>> {
    let mut streams: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && !name.starts_with('.') {
            streams.entry(name).or_default().push(path);
        }
    }
    streams
}

#[test]
#[ignore = "3 min, and as root: cargo xtask test-long runs it"]
fn recorders_and_nodes_are_killed_cut_off_and_full_and_nothing_acknowledged_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::in_memory("size=24m").expect("root may mount");
    let small = disk.path().join("stored");
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let stored = Path::new("stored");
    let mut nodes =
        [Away::new(3, first.clone(), &[stored, &small]), Away::new(4, second.clone(), &[stored])];
    let [one, two] = nodes.each_ref().map(Away::listens);
    let target = format!("nodes = [\"{one}\", \"{two}\"]\nhold_bytes = \"8 MiB\"");
    let (text, url) = recorder_text(&target);
    std::fs::write(folder.path().join("node.toml"), text).unwrap();
    let mut running = recorder(folder.path());
    let front_end = front_end(&url);
    let mut random = Random::new(39);
    let mishaps = [Mishap::RecorderIsKilled, Mishap::NodeIsKilled, Mishap::NetworkIsDown];
    let keys = LIVES * mishaps.len() as u64 * KEYS;
    send_these(&front_end, 0..keys, |sent: &AtomicU64| {
        let mut reached = 0;
        for _ in 0..LIVES {
            let mut left = mishaps.to_vec();
            while !left.is_empty() {
                let mishap = left.swap_remove(random.index(left.len()));
                let until = reached + random.below(KEYS);
                wait_while(|| sent.load(Relaxed) < until);
                reached += KEYS;
                let node = &mut nodes[random.index(2)];
                println!("{mishap:?}, after key {until}, {}", node.network.here);
                match mishap {
                    Mishap::RecorderIsKilled => {
                        running.kill().unwrap();
                        running.wait().unwrap();
                        running = recorder(folder.path());
                    }
                    Mishap::NodeIsKilled => node.kill_and_start(),
                    Mishap::NetworkIsDown => {
                        let begin = Instant::now();
                        node.network.set("down");
                        wait_while(|| begin.elapsed() < DOWN);
                        node.network.set("up");
                    }
                }
            }
        }
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(running), Some(0));
    let folders = [first.join("stored"), small, second.join("stored")];
    // Nodes close what killed recorders have left.
    let are_closed = || {
        let closed = |paths: &Vec<PathBuf>| {
            Run::open_folders(paths, RunOptions::default()).is_ok_and(|run| run.closed())
        };
        streams_in(&folders).values().all(closed)
    };
    wait_while(|| !are_closed());
    check(&folders, keys);
    for node in nodes {
        assert_eq!(interrupt(node.store), Some(0));
    }
}

/// Every fragment of keys below that number is in one of the runs, with the bytes that were sent,
/// and in none twice.
fn check(folders: &[PathBuf], keys: u64) {
    let mut recorded = BTreeSet::new();
    let streams = streams_in(folders);
    assert_eq!(streams.len() as u64, LIVES + 1, "a run for each life");
    for (name, paths) in streams {
        let run = Run::open_folders(&paths, RunOptions::default()).unwrap();
        let verified = verify(&run, |_| {});
        assert!(verified.is_intact(), "{name}: {verified:?}");
        let books = paths.iter().map(|path| audit(&Run::open(path).unwrap()).unwrap().verdict);
        println!("{name}: {} events, {:?}", run.event_count(), books.collect::<Vec<_>>());
        for (key, of_sources) in fragments(&run) {
            for (source, bytes) in of_sources.iter().enumerate() {
                let Some(bytes) = bytes else { continue };
                assert!(*bytes == content(source, key), "{name}: event {key}, source {source}");
                recorded.insert((key, source));
            }
        }
    }
    let sent = (0..keys).flat_map(|key| (0..SOURCES.len()).map(move |source| (key, source)));
    let missing: Vec<_> = sent.filter(|one| !recorded.contains(one)).collect();
    assert!(missing.is_empty(), "{} fragments, from {:?}", missing.len(), missing.first());
}
