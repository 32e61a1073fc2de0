//! A receive thread that is held up for ten seconds, by a tracer.
//!
//! `cargo xtask test-long` runs these, as root, on a machine with `ip` and `tc`.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use catchment_frontend::{Closed, Frontend};
use catchment_model::{Entry, SourceLedger};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::hadtu::{ByteOrder, SUB_EVENT_DECODING, SubEventHeader};

use crate::front_ends::LONG;
use crate::network::Network;
use crate::support::{interrupt, only_run, packet, started};

/// What the front-end sends, and the board beside it in datagrams of `BOARD_BYTES`. The budget
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

/// A front-end, which thread 0 receives, and a board that sends datagrams to thread 1.
fn configure(folder: &Path, host: Ipv4Addr) -> (String, UdpSocket) {
    let local = (Ipv4Addr::LOCALHOST, 0);
    let listener = TcpListener::bind((host, 0)).unwrap().local_addr().unwrap();
    let protection = if host.is_loopback() { "" } else { "without_protection = true" };
    let board = UdpSocket::bind(local).unwrap().local_addr().unwrap();
    let text = format!(
        r#"
[memory]
budget = "512 MiB"
[receive]
threads = 2
[build]
timeout = "1 s"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "4 MiB"
[[listen]]
address = "{listener}"
{protection}
[[sources]]
name = "camera"
via = "link"
[[sources]]
name = "board"
address = "{board}"
"#
    );
    std::fs::write(folder.join("node.toml"), text).unwrap();
    let socket = UdpSocket::bind(local).unwrap();
    socket.connect(board).unwrap();
    (format!("catchment+tcp://{listener}"), socket)
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

/// Records what both send while a thread is held up: the front-end from here, or from behind a
/// network. Returns what became of it.
fn record(thread: &str, load: Load, network: Option<&Network>) -> [SourceLedger; 2] {
    let folder = tempfile::tempdir().unwrap();
    let host =
        network.map_or(Ipv4Addr::LOCALHOST, |one| (one.here.clone() + ".1").parse().unwrap());
    let (url, board) = configure(folder.path(), host);
    let (recorder, mut lines) = started(folder.path(), &["run", "node.toml"], "Recording");
    let drain = std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let connect = || Frontend::connect(&url, "camera").unwrap();
    let camera = network.map_or_else(connect, |network| network.inside(connect));
    let begin = Instant::now();
    let paced = |send: &dyn Fn(u64)| {
        for key in 1..=load.events {
            let due = Duration::from_micros(key * 1_000_000 / load.rate);
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            send(key);
        }
    };
    std::thread::scope(|scope| {
        // The board goes on while the front-end waits for room in its ring.
        scope.spawn(|| paced(&|key| camera.send(key, &vec![key as u8; load.bytes]).unwrap()));
        scope.spawn(|| paced(&|key| assert!(board.send(&packet_of(key)).is_ok())));
        std::thread::sleep(Duration::from_secs(2));
        hold_up(&recorder, thread);
    });
    assert_eq!(camera.close(LONG), Closed::default());
    let rate = load.events as f64 * load.bytes as f64 / 1e6 / begin.elapsed().as_secs_f64();
    println!("{thread} held up for 10 s: {rate:.1} MB/s of the front-end until durable");
    let ledgers = end(folder.path(), recorder);
    let _bytes = drain.join().unwrap();
    [ledgers[0].clone(), ledgers[1].clone()]
}

fn recorded(ledger: &SourceLedger) -> [u64; 3] {
    [Entry::FragmentsRecorded, Entry::FragmentsMissing, Entry::FragmentsLate]
        .map(|entry| ledger[entry])
}

#[test]
#[ignore = "20 s: cargo xtask test-long runs it"]
fn no_event_is_closed_for_a_front_end_that_nobody_reads() {
    let [camera, board] = record("receive-0", NEAR, None);
    assert_eq!(recorded(&camera), [NEAR.events, 0, 0]);
    assert_eq!(recorded(&board), [NEAR.events, 0, 0]);
}

#[test]
#[ignore = "20 s: cargo xtask test-long runs it"]
fn of_datagrams_what_the_socket_cannot_keep_is_lost_and_counted() {
    let [camera, board] = record("receive-1", NEAR, None);
    assert_eq!(recorded(&camera), [NEAR.events, 0, 0]);
    let [recorded, missing, late] = recorded(&board);
    let dropped = board[Entry::PacketsDroppedByKernel];
    assert!(dropped > 0, "50 MB in 10 s are more than a socket keeps");
    assert_eq!((recorded + dropped, missing, late), (NEAR.events, dropped, 0));
}

#[test]
#[ignore = "20 s, and as root: cargo xtask test-long runs it"]
fn behind_a_network_of_ten_gigabits_no_event_is_closed_for_a_front_end_either() {
    let network = Network::new(3);
    network.bound();
    let [camera, board] = record("receive-0", FAR, Some(&network));
    assert_eq!(recorded(&camera), [FAR.events, 0, 0]);
    assert_eq!(recorded(&board), [FAR.events, 0, 0]);
}
