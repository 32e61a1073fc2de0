//! Sixteen builders that share five storage nodes over twenty runs, one behind the other without a
//! pause. A builder is a recorder with a front-end; nodes are in network namespaces; 37 processes.
//!
//! `cargo xtask test-long` runs it, as root, on a machine with `ip`, and shows what it prints.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use catchment_storage::{Run, RunOptions, verify};

use super::killed::{Away, streams_in};
use super::recorder;
use crate::support::{catchment, free_ports, interrupt};

const BUILDERS: usize = 16;
const NODES: u8 = 5;
const RUNS: usize = 20;
/// Of a front-end, with [`BYTES`] each, at [`RATE`]: 11 MB/s.
const EVENTS: u64 = 220;
const BYTES: &str = "100000";
const RATE: &str = "110";

fn configure(folder: &Path, nodes: &[String]) -> String {
    let address = format!("127.0.0.1:{}", free_ports(1));
    let text = format!(
        r#"
[memory]
budget = "192 MiB"
[frame]
codec = "none"
[trends]
enabled = false
[[targets]]
name = "nodes"
kind = "store"
nodes = {nodes:?}
hold_bytes = "16 MiB"
[[listen]]
address = "{address}"
[[sources]]
name = "dummy-0"
via = "link"
"#
    );
    std::fs::create_dir(folder).unwrap();
    std::fs::write(folder.join("node.toml"), text).unwrap();
    address
}

fn front_end(folder: &Path, address: &str) -> Child {
    let events = EVENTS.to_string();
    let options = ["--rate", RATE, "--events", &events, "--bytes", BYTES];
    let mut command = catchment(folder, &["emulate", "midas-dummy", "--to", address]);
    command.args(options).stdout(Stdio::null()).spawn().unwrap()
}

fn threads(process: &Child) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap().count()
}

fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files.map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
#[ignore = "3 min, and as root: cargo xtask test-long runs it"]
fn builders_share_nodes_over_restarts_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let nodes: Vec<Away> = (0..NODES)
        .map(|node| {
            Away::new(10 + node, folder.path().join(format!("node-{node}")), &["stored".as_ref()])
        })
        .collect();
    let addresses: Vec<String> = nodes.iter().map(|node| node.listens().to_string()).collect();
    let folders: Vec<PathBuf> =
        (0..NODES).map(|node| folder.path().join(format!("node-{node}/stored"))).collect();
    let mut bytes = vec![0; nodes.len()];
    let mut most_threads = 0;
    let builders: Vec<(PathBuf, String)> = (0..BUILDERS)
        .map(|builder| {
            let folder = folder.path().join(format!("builder-{builder}"));
            let address = configure(&folder, &addresses);
            (folder, address)
        })
        .collect();
    for _ in 0..RUNS {
        let recorders: Vec<Child> = builders.iter().map(|(folder, _)| recorder(folder)).collect();
        let front_ends: Vec<Child> =
            builders.iter().map(|(folder, address)| front_end(folder, address)).collect();
        for mut front_end in front_ends {
            assert!(front_end.wait().unwrap().success(), "all of it is durable");
        }
        let processes = recorders.iter().chain(nodes.iter().map(|node| &node.store));
        most_threads = processes.map(threads).fold(most_threads, usize::max);
        for recorder in recorders {
            assert_eq!(interrupt(recorder), Some(0));
        }
        let streams = streams_in(&folders);
        assert_eq!(streams.len(), BUILDERS);
        for (name, paths) in streams {
            let run = Run::open_folders(&paths, RunOptions::default()).unwrap();
            assert!(run.ended() && run.closed() && verify(&run, |_| {}).is_intact(), "{name}");
            assert_eq!((run.event_count(), run.lost_data()), (EVENTS, false), "{name}");
            for path in &paths {
                let node = folders.iter().position(|folder| path.starts_with(folder)).unwrap();
                bytes[node] += bytes_in(path);
                std::fs::remove_dir_all(path).unwrap();
            }
        }
    }
    let mean = bytes.iter().sum::<u64>() as f64 / f64::from(NODES);
    let worst = bytes.iter().map(|&one| (one as f64 / mean - 1.0).abs()).fold(0.0, f64::max);
    println!(
        "{RUNS} runs of {BUILDERS} builders: {bytes:?} bytes by node, {:.1} % from the mean at most; \
         at most {most_threads} threads of a recorder or node",
        worst * 100.0
    );
    assert!(bytes.iter().all(|&one| one > 0), "{bytes:?}");
    for node in nodes {
        assert_eq!(node.end(), Some(0));
    }
}
