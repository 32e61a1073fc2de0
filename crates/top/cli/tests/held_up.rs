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

/// Events, and how many of them in a second: the budget holds those of 12 s.
const EVENTS: u64 = 75_000;
const RATE: u64 = 5_000;
const BYTES: usize = 1_000;
/// The same behind a network: 80 MB/s.
const FAR: [u64; 3] = [100_000, 10_000, 8_000];

/// A front-end, which thread 0 receives, and a board that sends datagrams to thread 1.
fn configure(folder: &Path) -> (String, UdpSocket) {
    let local = (Ipv4Addr::LOCALHOST, 0);
    let listener = TcpListener::bind(local).unwrap().local_addr().unwrap();
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
    packet(ByteOrder::Little, &header, &[key as u8; BYTES])
}

/// Records what both send while a thread is held up. Returns what became of it.
fn record(thread: &str) -> [SourceLedger; 2] {
    let folder = tempfile::tempdir().unwrap();
    let (url, board) = configure(folder.path());
    let (recorder, mut lines) = started(folder.path(), &["run", "node.toml"], "Recording");
    let drain = std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let camera = Frontend::connect(&url, "camera").unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in 1..=EVENTS {
                let due = Duration::from_micros(key * 1_000_000 / RATE);
                std::thread::sleep(due.saturating_sub(begin.elapsed()));
                camera.send(key, &[key as u8; BYTES]).unwrap();
                board.send(&packet_of(key)).unwrap();
            }
        });
        std::thread::sleep(Duration::from_secs(2));
        hold_up(&recorder, thread);
    });
    assert_eq!(camera.close(LONG), Closed::default());
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
    let [camera, board] = record("receive-0");
    assert_eq!(recorded(&camera), [EVENTS, 0, 0]);
    assert_eq!(recorded(&board), [EVENTS, 0, 0]);
}

#[test]
#[ignore = "20 s: cargo xtask test-long runs it"]
fn of_datagrams_what_the_socket_cannot_keep_is_lost_and_counted() {
    let [camera, board] = record("receive-1");
    assert_eq!(recorded(&camera), [EVENTS, 0, 0]);
    let [recorded, missing, late] = recorded(&board);
    let dropped = board[Entry::PacketsDroppedByKernel];
    assert!(dropped > 0, "50 MB in 10 s are more than a socket keeps");
    assert_eq!((recorded + dropped, missing, late), (EVENTS, dropped, 0));
}

#[test]
#[ignore = "20 s, and as root: cargo xtask test-long runs it"]
fn behind_a_network_of_ten_gigabits_a_front_end_loses_nothing_either() {
    let network = Network::new(3);
    network.bound();
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind((network.here.clone() + ".1", 0)).unwrap().local_addr();
    let address = address.unwrap();
    let text = format!(
        "[memory]\nbudget = \"512 MiB\"\n[[listen]]\naddress = \"{address}\"\n\
         without_protection = true\n[[sources]]\nname = \"dummy-0\"\nvia = \"link\"\n"
    );
    std::fs::write(folder.path().join("node.toml"), text).unwrap();
    let (recorder, mut lines) = started(folder.path(), &["run", "node.toml"], "Recording");
    let drain = std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let mut far = network.front_end(address, FAR);
    std::thread::sleep(Duration::from_secs(2));
    hold_up(&recorder, "receive-0");
    assert!(far.wait().unwrap().success(), "all of it is durable");
    let ledgers = end(folder.path(), recorder);
    let _bytes = drain.join().unwrap();
    assert_eq!(recorded(&ledgers[0]), [FAR[0], 0, 0]);
}
