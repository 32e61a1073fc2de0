//! Builders that share storage nodes over several runs, one behind the other without a pause:
//! sixteen with five nodes, in 37 processes, and two with one. A builder is a recorder with a
//! front-end, and some have a board beside it that sends datagrams; nodes are in namespaces of the
//! network.
//!
//! What was recorded is checked when all runs are over, if the disk has room for them: in between,
//! that would be a pause of seconds before each restart.
//!
//! `cargo xtask test-long` runs it, as root, on a machine with `ip`, and shows what it prints.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use catchment_disk::free_bytes;
use catchment_model::{Entry, SourceLedger};
use catchment_storage::{Run, RunOptions, Verdict, audit, verify};
use catchment_wire::hadtu::{ByteOrder, SUB_EVENT_DECODING, SubEventHeader};
use tempfile::TempDir;

use super::killed::{Away, streams_in};
use super::recorder;
use crate::support::{catchment, free_ports, interrupt, packet};

/// Of a fragment of a front-end.
const BYTES: u64 = 100_000;
/// What a front-end has for each run, at its rate.
const SECONDS: u64 = 2;
/// Of a datagram of a board.
const BOARD_BYTES: usize = 1_000;
/// Room that the disk has if runs are kept until all are over: the largest case takes 7 GB.
const ROOM_BYTES: u64 = 20_000_000_000;
/// How far a node may be from the mean of all, over all runs.
const BALANCE: f64 = 0.10;
/// Threads of a process that data pass through.
const DATA_THREADS_MAX: usize = 6;

/// Who sends to whom.
#[derive(Clone, Copy)]
struct Shape {
    builders: usize,
    /// The first builders, which have a board, too.
    boards: usize,
    nodes: u8,
    runs: usize,
    /// Events per second of a builder, with [`BYTES`] each.
    rate: u64,
}

impl Shape {
    /// Of a builder, in each run.
    fn events(&self) -> u64 {
        SECONDS * self.rate
    }

    fn processes(&self) -> usize {
        2 * self.builders + usize::from(self.nodes)
    }
}

/// A recorder's folder, and where its sources send to.
struct Builder {
    shape: Shape,
    folder: PathBuf,
    address: String,
    board: Option<UdpSocket>,
}

impl Builder {
    fn new(shape: Shape, folder: PathBuf, nodes: &[String], has_board: bool) -> Self {
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
        Self { shape, folder, address, board }
    }

    fn front_end(&self) -> Child {
        let of_each = [self.shape.rate, self.shape.events(), BYTES].map(|one| one.to_string());
        let [rate, events, bytes] = &of_each;
        let options = ["--rate", rate, "--events", events, "--bytes", bytes];
        let emulate = ["emulate", "midas-dummy", "--to", &self.address];
        let mut command = catchment(&self.folder, &emulate);
        command.args(options).stdout(Stdio::null()).spawn().unwrap()
    }

    /// Sends the datagrams of a run, if it has a board.
    fn send(&self) {
        let Some(board) = &self.board else { return };
        let begin = Instant::now();
        for key in 0..self.shape.events() {
            let due = Duration::from_micros(key * 1_000_000 / self.shape.rate);
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
fn check(events: u64, name: &str, paths: &[PathBuf]) -> (bool, u64) {
    let run = Run::open_folders(paths, RunOptions::default()).unwrap();
    let verified = verify(&run, |_| {});
    assert!(verified.is_intact(), "{name}: {verified:?}");
    assert!(run.ended() && run.closed(), "{name}: ended at {:?}", run.end_elsewhere());
    let verdict = audit(&run).unwrap().verdict;
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run");
    let counts = |source: &SourceLedger| {
        [Entry::FragmentsRecorded, Entry::FragmentsMissing, Entry::FragmentsLate]
            .map(|entry| source[entry])
    };
    assert_eq!(counts(&ledger.sources[0]), [events, 0, 0], "{name}");
    let lost = ledger.sources.get(1).map(|board| {
        let [recorded, missing, late] = counts(board);
        assert_eq!((recorded + missing, late), (events, 0), "{name}: {board:?}");
        missing
    });
    let expected = if lost.unwrap_or(0) > 0 { Verdict::DataLost } else { Verdict::Balanced };
    assert_eq!((run.event_count(), verdict), (events, expected), "{name}");
    (lost.is_some(), lost.unwrap_or(0))
}

/// Nodes, and the builders that share them.
struct World {
    shape: Shape,
    nodes: Vec<Away>,
    /// Where these store.
    folders: Vec<PathBuf>,
    builders: Vec<Builder>,
    /// Of data, and of all, of one process at most.
    threads_most: [usize; 2],
    folder: TempDir,
}

/// When all recorders of a run recorded, when all that front-ends have was durable, and when all
/// recorders had ended.
struct Times {
    recording: Instant,
    durable: Instant,
    ended: Instant,
}

/// What was found in runs.
struct Found {
    /// By node.
    bytes: Vec<u64>,
    /// Datagrams.
    lost: u64,
}

impl World {
    fn new(shape: Shape) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |kind, number| folder.path().join(format!("{kind}-{number}"));
        let new = |node: u8| Away::new(10 + node, at("node", node.into()), &["stored".as_ref()]);
        let nodes: Vec<Away> = (0..shape.nodes).map(new).collect();
        let folders = (0..nodes.len()).map(|node| at("node", node).join("stored")).collect();
        let listen: Vec<String> = nodes.iter().map(|node| node.listens().to_string()).collect();
        let builder = |one| Builder::new(shape, at("builder", one), &listen, one < shape.boards);
        let builders = (0..shape.builders).map(builder).collect();
        Self { shape, nodes, folders, builders, threads_most: [0; 2], folder }
    }

    /// One run of each builder.
    fn record(&mut self) -> Times {
        let builders = &self.builders;
        let recorders: Vec<Child> = std::thread::scope(|scope| {
            let start = |builder: &Builder| recorder(&builder.folder);
            let starts: Vec<_> =
                builders.iter().map(|builder| scope.spawn(move || start(builder))).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        let recording = Instant::now();
        let mut front_ends: Vec<Child> = builders.iter().map(Builder::front_end).collect();
        let processes = recorders.len() + front_ends.len() + self.nodes.len();
        assert_eq!(processes, self.shape.processes());
        std::thread::scope(|scope| {
            builders.iter().for_each(|builder| drop(scope.spawn(|| builder.send())));
            assert!(front_ends[0].wait().unwrap().success(), "all of it is durable");
            let nodes = self.nodes.iter().map(|node| &node.store);
            for process in recorders.iter().chain(&front_ends[1..]).chain(nodes) {
                let threads = threads(process);
                let of_data = data_threads(&threads);
                assert!(of_data <= DATA_THREADS_MAX, "{threads:?}");
                let [data, all] = self.threads_most;
                self.threads_most = [data.max(of_data), all.max(threads.len())];
            }
        });
        for front_end in &mut front_ends {
            assert!(front_end.wait().unwrap().success(), "all of it is durable");
        }
        let durable = Instant::now();
        std::thread::scope(|scope| {
            let end = |recorder: Child| scope.spawn(move || interrupt(recorder));
            let ends: Vec<_> = recorders.into_iter().map(end).collect();
            for end in ends {
                // Whether a board's datagram was lost, it says, too.
                assert!(matches!(end.join().unwrap(), Some(0 | 3)));
            }
        });
        Times { recording, durable, ended: Instant::now() }
    }

    /// Checks what so many runs of each builder have left, and deletes it.
    fn take(&self, runs: usize) -> Found {
        let streams = streams_in(&self.folders);
        let events = self.shape.events();
        let checked = streams.iter().map(|(name, paths)| {
            // A node that has nothing of a run is an empty folder beside the others.
            let all = self.folders.iter().map(|folder| folder.join(name));
            let empty: Vec<PathBuf> = all.filter(|path| !paths.contains(path)).collect();
            empty.iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
            let checked = check(events, name, &[&paths[..], &empty].concat());
            empty.iter().for_each(|path| std::fs::remove_dir_all(path).unwrap());
            checked
        });
        let checked: Vec<(bool, u64)> = checked.collect();
        let boards = checked.iter().filter(|(has_board, _)| *has_board).count();
        let Shape { builders, boards: expected, .. } = self.shape;
        assert_eq!((checked.len(), boards), (runs * builders, runs * expected));
        let mut bytes = vec![0; self.folders.len()];
        for path in streams.values().flatten() {
            let node = self.folders.iter().position(|folder| path.starts_with(folder)).unwrap();
            bytes[node] += bytes_in(path);
            std::fs::remove_dir_all(path).unwrap();
        }
        Found { bytes, lost: checked.iter().map(|(_, lost)| lost).sum() }
    }
}

/// What is printed of times: the mean, and the longest.
fn times(times: &[Duration]) -> String {
    let most = times.iter().max().copied().unwrap_or_default();
    let mean = times.iter().sum::<Duration>() / times.len().max(1) as u32;
    format!("{:.0} ms, at most {:.0} ms", mean.as_secs_f64() * 1e3, most.as_secs_f64() * 1e3)
}

/// Has builders record their runs, checks these, and prints how it went. Returns the bytes by node.
fn share(shape: Shape) -> Vec<u64> {
    let Shape { builders, boards, nodes, runs, rate, .. } = shape;
    let mut world = World::new(shape);
    let has_room = free_bytes(world.folder.path()).unwrap() >= ROOM_BYTES;
    let (mut found, mut last) = (Vec::new(), None::<Times>);
    let (mut ends, mut pauses, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    let (begin, before) = (Instant::now(), ended_seconds());
    for _ in 0..runs {
        let start = Instant::now();
        pauses.extend(last.take().map(|last| start - last.ended));
        let run = world.record();
        starts.push(run.recording - start);
        ends.push(run.ended - run.durable);
        last = Some(run);
        if !has_room {
            found.push(world.take(1));
        }
    }
    let (seconds, of_builders) = (begin.elapsed().as_secs_f64(), ended_seconds() - before);
    let of_threads = seconds_by_thread(&world.nodes);
    for node in std::mem::take(&mut world.nodes) {
        assert_eq!(node.end(), Some(0));
    }
    let all = ended_seconds() - before;
    if has_room {
        found.push(world.take(runs));
    }
    let of_node = |node: usize| found.iter().map(|one| one.bytes[node]).sum::<u64>();
    let bytes: Vec<u64> = (0..nodes.into()).map(of_node).collect();
    let lost: u64 = found.iter().map(|one| one.lost).sum();
    println!(
        "{runs} runs of {builders} builders of {} MB/s to {nodes} nodes in {seconds:.0} s: \
         {bytes:?} bytes by node; {lost} datagrams of {boards} boards lost",
        rate * BYTES / 1_000_000
    );
    let checks = match has_room {
        true => "checked behind all runs",
        false => "checked between runs, for want of room on the disk",
    };
    println!(
        "from the last durable fragment to the end of all recorders {}; to the start of the next \
         {}; until all of these record {}; {checks}",
        times(&ends),
        times(&pauses),
        times(&starts)
    );
    let [of_data, threads] = world.threads_most;
    println!(
        "at most {of_data} threads of a process for data, {threads} with those that control it; \
         CPU {all:.0} s: {of_builders:.0} s of recorders and front-ends, {:.0} s of nodes \
         ({of_threads:.1?})",
        all - of_builders
    );
    bytes
}

#[test]
#[ignore = "3 min, and as root: cargo xtask test-long runs it"]
fn builders_share_nodes_over_restarts_and_lose_nothing() {
    let shape = Shape { builders: 16, boards: 4, nodes: 5, runs: 20, rate: 110 };
    assert_eq!(shape.processes(), 37);
    let bytes = share(shape);
    let mean = bytes.iter().sum::<u64>() as f64 / bytes.len() as f64;
    let worst = bytes.iter().map(|&one| (one as f64 / mean - 1.0).abs()).fold(0.0, f64::max);
    println!("{:.1} % from the mean at most", worst * 100.0);
    assert!(worst <= BALANCE, "{bytes:?}");
}

#[test]
#[ignore = "30 s, and as root: cargo xtask test-long runs it"]
fn two_builders_share_a_node_at_15_and_at_35_mb_per_second_each() {
    for rate in [150, 350] {
        share(Shape { builders: 2, boards: 0, nodes: 1, runs: 5, rate });
    }
}
