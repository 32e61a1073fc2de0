//! Sixteen builders that share five storage nodes over twenty runs, one behind the other without a
//! pause. A builder is a recorder with a front-end, and some have a board beside it that sends
//! datagrams; nodes are in network namespaces; 37 processes.
//!
//! `cargo xtask test-long` runs it, as root, on a machine with `ip`, and shows what it prints.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use catchment_model::{Entry, SourceLedger};
use catchment_storage::{Run, RunOptions, Verdict, audit, verify};
use catchment_wire::hadtu::{ByteOrder, SUB_EVENT_DECODING, SubEventHeader};

use super::killed::{Away, streams_in};
use super::recorder;
use crate::support::{catchment, free_ports, interrupt, packet};

const BUILDERS: usize = 16;
/// The first builders, which have a board, too.
const BOARDS: usize = 4;
const NODES: u8 = 5;
const RUNS: usize = 20;
/// Of a front-end, with [`BYTES`] each, at [`RATE`]: 11 MB/s.
const EVENTS: u64 = 220;
const BYTES: &str = "100000";
const RATE: u64 = 110;
/// Of a datagram of a board.
const BOARD_BYTES: usize = 1_000;
/// How far a node may be from the mean of all, over all runs.
const BALANCE: f64 = 0.10;
/// Threads of a process that data pass through.
const DATA_THREADS_MAX: usize = 6;

/// A recorder's folder, and where its sources send to.
struct Builder {
    folder: PathBuf,
    address: String,
    board: Option<UdpSocket>,
}

impl Builder {
    fn new(folder: PathBuf, nodes: &[String], has_board: bool) -> Self {
        let first = free_ports(2);
        let [address, board] = [first, first + 1].map(|port| format!("127.0.0.1:{port}"));
        let source = format!("[[sources]]\nname = \"board\"\naddress = \"{board}\"\n");
        let source = if has_board { source } else { String::new() };
        let text = format!(
            r#"
[memory]
budget = "192 MiB"
[receive]
threads = 1
[build]
timeout = "30 s"
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
{source}"#
        );
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("node.toml"), text).unwrap();
        let board = has_board.then(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(board).unwrap();
            socket
        });
        Self { folder, address, board }
    }

    fn front_end(&self) -> Child {
        let (rate, events) = (RATE.to_string(), EVENTS.to_string());
        let options = ["--rate", &rate, "--events", &events, "--bytes", BYTES];
        let emulate = ["emulate", "midas-dummy", "--to", &self.address];
        let mut command = catchment(&self.folder, &emulate);
        command.args(options).stdout(Stdio::null()).spawn().unwrap()
    }

    /// Sends the datagrams of a run, if it has a board.
    fn send(&self) {
        let Some(board) = &self.board else { return };
        let begin = Instant::now();
        for key in 0..EVENTS {
            let due = Duration::from_micros(key * 1_000_000 / RATE);
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            let header = SubEventHeader {
                id: 0x8000,
                error: false,
                trigger_number: key as u32,
                trigger_tag: 0,
                decoding: SUB_EVENT_DECODING,
            };
            board.send(&packet(ByteOrder::Little, &header, &[key as u8; BOARD_BYTES])).unwrap();
        }
    }
}

fn builders(folder: &Path, nodes: &[Away]) -> Vec<Builder> {
    let nodes: Vec<String> = nodes.iter().map(|node| node.listens().to_string()).collect();
    let folder = |builder| folder.join(format!("builder-{builder}"));
    (0..BUILDERS).map(|one| Builder::new(folder(one), &nodes, one < BOARDS)).collect()
}

/// The threads of a process, by name, but for the kernel's, with the CPU seconds of each.
fn threads(process: &Child) -> Vec<(String, f64)> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    // One may end meanwhile.
    let stats =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    let of_stat = |stat: String| {
        let (before, after) = stat.rsplit_once(')').unwrap();
        let mut words = after.split_ascii_whitespace().skip(11);
        let mut ticks = || words.next().unwrap().parse::<f64>().unwrap();
        (before.split_once('(').unwrap().1.to_owned(), (ticks() + ticks()) / 100.0)
    };
    stats.map(of_stat).filter(|(name, _)| !name.starts_with("iou-")).collect()
}

/// How many of them data pass through: the others control, and wait.
fn data_threads(threads: &[(String, f64)]) -> usize {
    let is_control = |name: &str| name == "catchment" || name.starts_with("control");
    threads.iter().filter(|(name, _)| !is_control(name)).count()
}

/// CPU seconds of the nodes' threads, by name.
fn seconds_by_thread(nodes: &[Away]) -> BTreeMap<String, f64> {
    let mut of_threads = BTreeMap::new();
    for (name, seconds) in nodes.iter().flat_map(|node| threads(&node.store)) {
        *of_threads.entry(name).or_default() += seconds;
    }
    of_threads
}

/// CPU seconds of all processes that this one had and has waited for.
fn ended_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` can be written to, and zeros are one.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files.map(|file| file.metadata().unwrap().len()).sum()
}

/// Checks a builder's run. Returns whether it has a board, and the datagrams that were lost.
fn check(name: &str, paths: &[PathBuf]) -> (bool, u64) {
    let run = Run::open_folders(paths, RunOptions::default()).unwrap();
    assert!(run.ended() && run.closed() && verify(&run, |_| {}).is_intact(), "{name}");
    let verdict = audit(&run).unwrap().verdict;
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run");
    let counts = |source: &SourceLedger| {
        [Entry::FragmentsRecorded, Entry::FragmentsMissing, Entry::FragmentsLate]
            .map(|entry| source[entry])
    };
    assert_eq!(counts(&ledger.sources[0]), [EVENTS, 0, 0], "{name}");
    let lost = ledger.sources.get(1).map(|board| {
        let [recorded, missing, late] = counts(board);
        assert_eq!((recorded + missing, late), (EVENTS, 0), "{name}: {board:?}");
        missing
    });
    let expected = if lost.unwrap_or(0) > 0 { Verdict::DataLost } else { Verdict::Balanced };
    assert_eq!((run.event_count(), verdict), (EVENTS, expected), "{name}");
    (lost.is_some(), lost.unwrap_or(0))
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
    let folders: Vec<PathBuf> =
        (0..NODES).map(|node| folder.path().join(format!("node-{node}/stored"))).collect();
    let builders = builders(folder.path(), &nodes);
    let (mut bytes, mut lost, mut most) = (vec![0; nodes.len()], 0, (0, 0));
    let (begin, before) = (Instant::now(), ended_seconds());
    for _ in 0..RUNS {
        let recorders: Vec<Child> = builders.iter().map(|one| recorder(&one.folder)).collect();
        let mut front_ends: Vec<Child> = builders.iter().map(Builder::front_end).collect();
        std::thread::scope(|scope| {
            builders.iter().for_each(|builder| drop(scope.spawn(|| builder.send())));
            assert!(front_ends[0].wait().unwrap().success(), "all of it is durable");
            assert_eq!(recorders.len() + front_ends.len() + nodes.len(), 37);
            let front_ends = &front_ends[1..];
            let nodes = nodes.iter().map(|node| &node.store);
            for process in recorders.iter().chain(front_ends).chain(nodes) {
                let threads = threads(process);
                let of_data = data_threads(&threads);
                assert!(of_data <= DATA_THREADS_MAX, "{threads:?}");
                most = (most.0.max(of_data), most.1.max(threads.len()));
            }
        });
        for front_end in &mut front_ends {
            assert!(front_end.wait().unwrap().success(), "all of it is durable");
        }
        for recorder in recorders {
            // Whether a board's datagram was lost, it says, too.
            assert!(matches!(interrupt(recorder), Some(0 | 3)));
        }
        let streams = streams_in(&folders);
        let checked = streams.iter().map(|(name, paths)| check(name, paths));
        let checked: Vec<(bool, u64)> = checked.collect();
        let boards = checked.iter().filter(|(has_board, _)| *has_board).count();
        assert_eq!((checked.len(), boards), (BUILDERS, BOARDS));
        lost += checked.iter().map(|(_, lost)| lost).sum::<u64>();
        for path in streams.values().flatten() {
            let node = folders.iter().position(|folder| path.starts_with(folder)).unwrap();
            bytes[node] += bytes_in(path);
            std::fs::remove_dir_all(path).unwrap();
        }
    }
    let of_builders = ended_seconds() - before;
    let of_threads = seconds_by_thread(&nodes);
    for node in nodes {
        assert_eq!(node.end(), Some(0));
    }
    let (all, seconds) = (ended_seconds() - before, begin.elapsed().as_secs_f64());
    let mean = bytes.iter().sum::<u64>() as f64 / f64::from(NODES);
    let worst = bytes.iter().map(|&one| (one as f64 / mean - 1.0).abs()).fold(0.0, f64::max);
    println!(
        "{RUNS} runs of {BUILDERS} builders in {seconds:.0} s: {bytes:?} bytes by node, {:.1} % \
         from the mean at most; {lost} datagrams of {BOARDS} boards lost",
        worst * 100.0
    );
    println!(
        "at most {} threads of a process for data, {} with those that control it; CPU {all:.0} s: \
         {of_builders:.0} s of recorders and front-ends, {:.0} s of nodes ({of_threads:.1?})",
        most.0,
        most.1,
        all - of_builders
    );
    assert!(worst <= BALANCE, "{bytes:?}");
}
