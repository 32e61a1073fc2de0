//! A receive thread that is held up for ten seconds, by a tracer.
//!
//! `cargo xtask test-long` runs these, as root, on a machine with `ip` and `tc`.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use catchment_frontend::{Closed, Frontend, KeyKind, SourceConfig};
use catchment_model::{Entry, SourceLedger};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::hadtu::{ByteOrder, SUB_EVENT_DECODING, SubEventHeader};

use crate::by_time::{Boards, config};
use crate::front_ends::LONG;
use crate::network::Network;
use crate::support::{free_ports, interrupt, only_run, packet, started};

/// What the front-end sends, and each board beside it in datagrams of `BOARD_BYTES`. The budget
/// holds that of 12 s.
#[derive(Clone, Copy)]
struct Load {
    events: u64,
    /// Events per second.
    rate: u64,
    /// Of a fragment of the front-end.
    bytes: usize,
}

const NEAR: Load = Load { events: 75_000, rate: 5_000, bytes: 1_000 };
/// Behind a network: 30 MB/s.
const FAR: Load = Load { events: 45_000, rate: 3_000, bytes: 10_000 };
const BOARD_BYTES: usize = 1_000;
const _: () = assert!(12 * FAR.rate as usize * (FAR.bytes + BOARD_BYTES) < 512 << 20);
const _: () = assert!(12 * NEAR.rate as usize * (NEAR.bytes + 2 * BOARD_BYTES) < 512 << 20);
/// The time of event 0, where events are built by time.
const FIRST_NS: u64 = 1_000_000_000_000;

/// By what events are built, and so what the boards are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Number,
    /// There are two boards with clocks.
    Time,
}

/// Sends what the boards have of an event.
type SendEvent = Box<dyn FnMut(u64) + Send>;

impl Rule {
    /// A front-end, which thread 0 receives, and a board that sends datagrams to thread 1; by time,
    /// another one that sends to thread 0. Returns the configuration, and the recorder's address
    /// for the front-end.
    fn configure(self, folder: &Path, host: Ipv4Addr) -> (String, String, SendEvent) {
        let listener = TcpListener::bind((host, 0)).unwrap().local_addr().unwrap();
        let protection = if host.is_loopback() { "" } else { "without_protection = true" };
        let more = format!(
            r#"
receive.threads = 2
write = {{ buffer_bytes = "1 MiB", preallocate_bytes = "4 MiB" }}
[[listen]]
address = "{listener}"
{protection}
[[sources]]
name = "camera"
via = "link"
"#
        );
        let (path, boards) = match self {
            Self::Number => configure_by_number(folder, &more),
            Self::Time => configure_by_time(folder, &more),
        };
        (path, format!("catchment+tcp://{listener}"), boards)
    }

    /// The front-end's key of an event.
    fn key(self, event: u64, load: Load) -> u64 {
        match self {
            Self::Number => event,
            Self::Time => FIRST_NS + event * 1_000_000_000 / load.rate,
        }
    }

    fn key_kind(self) -> KeyKind {
        match self {
            Self::Number => KeyKind::Number,
            Self::Time => KeyKind::Time,
        }
    }
}

fn configure_by_number(folder: &Path, more: &str) -> (String, SendEvent) {
    let local = (Ipv4Addr::LOCALHOST, 0);
    let board = UdpSocket::bind(local).unwrap().local_addr().unwrap();
    let text = format!(
        "memory.budget = \"512 MiB\"\nbuild.timeout = \"1 s\"\n{more}\
         [[sources]]\nname = \"board\"\naddress = \"{board}\"\n"
    );
    std::fs::write(folder.join("node.toml"), text).unwrap();
    let socket = UdpSocket::bind(local).unwrap();
    socket.connect(board).unwrap();
    ("node.toml".to_owned(), Box::new(move |key| assert!(socket.send(&packet_of(key)).is_ok())))
}

fn configure_by_time(folder: &Path, more: &str) -> (String, SendEvent) {
    let port = free_ports(2);
    let path = config(folder, port, 2, more);
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("60 s", "1 s").replace("256 MiB", "512 MiB");
    std::fs::write(&path, text).unwrap();
    let mut boards = Boards::new(&path, port, 2);
    // Their clocks count 8 ns.
    let send = move |key: u64| (0..2).for_each(|one| boards.send(one, key / 8, BOARD_BYTES));
    (path, Box::new(send))
}

/// Holds up a thread of a process for ten seconds.
fn hold_up(process: &Child, name: &str) {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    let mut tasks = tasks.map(|task| task.unwrap().path());
    let is_it = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let task = tasks.find(is_it).expect("a thread of that name");
    let id: i32 = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the process is our child; no address of it is read or written.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, id, none, none), 0);
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, id, none, none), 0);
        assert_eq!(libc::waitpid(id, std::ptr::null_mut(), libc::__WALL), id);
    }
    std::thread::sleep(Duration::from_secs(10));
    // SAFETY: as above.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_DETACH, id, none, none) }, 0);
}

/// Ends the recorder's run, whose books balance. Returns them.
fn end(folder: &Path, recorder: Child) -> Vec<SourceLedger> {
    // It says whether data were lost.
    let _code = interrupt(recorder);
    let run = Run::open(only_run(folder)).unwrap();
    let verdict = audit(&run).unwrap().verdict;
    assert!(matches!(verdict, Verdict::Balanced | Verdict::DataLost), "{verdict:?}");
    run.recorded_ledger().unwrap().expect("of the whole run").sources
}

fn packet_of(key: u64) -> Vec<u8> {
    let header = SubEventHeader {
        id: 0x8000,
        error: false,
        trigger_number: key as u32,
        trigger_tag: 0,
        decoding: SUB_EVENT_DECODING,
    };
    packet(ByteOrder::Little, &header, &[key as u8; BOARD_BYTES])
}

/// Records what all send while a thread is held up: the front-end from here, or from behind a
/// network. Returns what became of it, by source.
fn record(thread: &str, load: Load, rule: Rule, network: Option<&Network>) -> Vec<SourceLedger> {
    let folder = tempfile::tempdir().unwrap();
    let host =
        network.map_or(Ipv4Addr::LOCALHOST, |one| (one.here.clone() + ".1").parse().unwrap());
    let (path, url, mut send_boards) = rule.configure(folder.path(), host);
    let (recorder, mut lines) = started(folder.path(), &["run", &path], "Recording");
    let drain = std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let source = SourceConfig { key_kind: rule.key_kind(), ..SourceConfig::default() };
    let builder = || Frontend::builder(&url, "camera").source_of(source.clone());
    let connect = || builder().connect().unwrap();
    let camera = network.map_or_else(connect, |network| network.inside(connect));
    let begin = Instant::now();
    let paced = |send: &mut dyn FnMut(u64)| {
        for event in 1..=load.events {
            let due = Duration::from_micros(event * 1_000_000 / load.rate);
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            send(rule.key(event, load));
        }
    };
    std::thread::scope(|scope| {
        // The boards go on while the front-end waits for room in its ring.
        let mut send = |key| camera.send(key, &vec![key as u8; load.bytes]).unwrap();
        scope.spawn(move || paced(&mut send));
        scope.spawn(|| paced(&mut *send_boards));
        std::thread::sleep(Duration::from_secs(2));
        hold_up(&recorder, thread);
    });
    assert_eq!(camera.close(LONG), Closed::default());
    let rate = load.events as f64 * load.bytes as f64 / 1e6 / begin.elapsed().as_secs_f64();
    println!("{thread} held up for 10 s: {rate:.1} MB/s of the front-end until durable");
    let ledgers = end(folder.path(), recorder);
    let _bytes = drain.join().unwrap();
    ledgers
}

/// All events of a source are recorded, and none of it is late.
#[track_caller]
fn is_whole(ledger: &SourceLedger, load: Load) {
    assert_eq!(recorded(ledger), [load.events, 0, 0], "{ledger:?}");
}

/// Of datagrams to a thread that was held up, what its socket could not keep is lost and counted.
#[track_caller]
fn is_in_its_events(ledger: &SourceLedger, load: Load) {
    let dropped = ledger[Entry::PacketsDroppedByKernel];
    assert!(dropped > 0, "50 MB in 10 s are more than a socket keeps");
    assert_eq!(recorded(ledger), [load.events - dropped, dropped, 0], "{ledger:?}");
}

fn recorded(ledger: &SourceLedger) -> [u64; 3] {
    [Entry::FragmentsRecorded, Entry::FragmentsMissing, Entry::FragmentsLate]
        .map(|entry| ledger[entry])
}

#[test]
#[ignore = "20 s: cargo xtask test-long runs it"]
fn no_event_is_closed_for_a_front_end_that_nobody_reads() {
    let ledgers = record("receive-0", NEAR, Rule::Number, None);
    ledgers.iter().for_each(|ledger| is_whole(ledger, NEAR));
}

#[test]
#[ignore = "20 s: cargo xtask test-long runs it"]
fn no_event_is_closed_for_a_front_end_and_a_board_that_nobody_reads_by_time() {
    let ledgers = record("receive-0", NEAR, Rule::Time, None);
    ledgers[..2].iter().for_each(|ledger| is_whole(ledger, NEAR));
    is_in_its_events(&ledgers[2], NEAR);
}

#[test]
#[ignore = "20 s each: cargo xtask test-long runs it"]
fn of_datagrams_what_the_socket_cannot_keep_is_lost_and_counted() {
    for rule in [Rule::Number, Rule::Time] {
        let mut ledgers = record("receive-1", NEAR, rule, None);
        is_in_its_events(&ledgers.remove(1), NEAR);
        ledgers.iter().for_each(|ledger| is_whole(ledger, NEAR));
    }
}

#[test]
#[ignore = "20 s, and as root: cargo xtask test-long runs it"]
fn behind_a_network_of_ten_gigabits_no_event_is_closed_for_a_front_end_either() {
    let network = Network::new(3);
    network.bound();
    let ledgers = record("receive-0", FAR, Rule::Number, Some(&network));
    ledgers.iter().for_each(|ledger| is_whole(ledger, FAR));
}
