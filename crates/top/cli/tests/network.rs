//! A front-end behind a real network that goes down for ten seconds under load: a namespace's veth.
//!
//! `cargo xtask test-long` runs these, as root, on a machine with `ip`.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use catchment_emulator::DummyContent;
use catchment_fixtures::wait_while;
use catchment_frontend::{Closed, Frontend};
use catchment_model::{Entry, SourceId, SourceLedger};
use catchment_recorder::{Fill, Recorder, RecorderConfig, SourceConfig};
use catchment_storage::{Run, Verdict, audit};

/// 30 MB/s for 20 s: the front-end's ring holds 2 s of it.
const EVENTS: u64 = 20_000;
const RATE: u64 = 1_000;
const BYTES: usize = 30_000;
const ROUNDS: usize = 5;
const S: u64 = 1_000_000_000;
const LONG: Duration = Duration::from_secs(600);

/// A network of two: this machine, and a namespace.
pub(crate) struct Network {
    name: String,
    pub(crate) here: String,
}

impl Network {
    pub(crate) fn new(number: u8) -> Self {
        let network = Self { name: format!("catchment{number}"), here: format!("10.213.{number}") };
        let Self { name, here } = &network;
        network.delete();
        ip(&format!("netns add {name}"));
        ip(&format!("link add {name}a type veth peer name {name}b netns {name}"));
        ip(&format!("addr add {here}.1/24 dev {name}a"));
        ip(&format!("link set {name}a up"));
        ip(&format!("-n {name} addr add {here}.2/24 dev {name}b"));
        ip(&format!("-n {name} link set {name}b up"));
        network
    }

    /// Bounds it to 10 Gb/s each way.
    pub(crate) fn bound(&self) {
        let Self { name, .. } = self;
        for device in [format!("dev {name}a"), format!("dev {name}b")] {
            let inside = if device.ends_with('b') { format!("-n {name} ") } else { String::new() };
            let bucket = "root tbf rate 10gbit burst 5mb latency 10ms";
            run("tc", &format!("{inside}qdisc add {device} {bucket}"));
        }
    }

    pub(crate) fn set(&self, state: &str) {
        ip(&format!("link set {}a {state}", self.name));
    }

    fn delete(&self) {
        // There is none of an earlier test, but where that was killed.
        let delete = ["netns", "delete", &self.name];
        let _none = Command::new("ip").args(delete).stderr(Stdio::null()).status();
    }

    /// A front-end in the namespace, which sends so many events, of so many bytes, at a rate.
    pub(crate) fn front_end(&self, recorder: SocketAddr, [events, bytes, rate]: [u64; 3]) -> Child {
        let to = recorder.to_string();
        let [events, bytes, rate] = [events, bytes, rate].map(|number| number.to_string());
        self.command()
            .args(["emulate", "midas-dummy", "--to", &to, "--rate", &rate, "--events", &events])
            .args(["--bytes", &bytes, "--seed", "1"])
            .stdout(Stdio::null())
            .spawn()
            .expect("ip is there")
    }

    /// Does something in the namespace, on a thread of its own; threads that it starts are there.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/var/run/netns/{}", self.name)).expect("of ip");
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                // SAFETY: takes the descriptor of an open file, and moves this thread alone.
                let moved = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(moved, 0);
                work()
            });
            inside.join().expect("no panic")
        })
    }

    /// The program in the namespace, without its arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, env!("CARGO_BIN_EXE_catchment")]);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.delete();
    }
}

fn ip(arguments: &str) {
    run("ip", arguments);
}

fn run(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status();
    assert!(status.expect("it is there").success(), "{program} {arguments}");
}

fn config(folder: &Path, network: &Network, resume_ns: u64) -> RecorderConfig {
    let address: SocketAddr = format!("{}.1:0", network.here).parse().unwrap();
    let sources = ["near", "dummy-0"].map(|name| SourceConfig::over_session(name, address));
    let mut config = RecorderConfig::new(folder.to_owned(), sources.to_vec());
    config.memory_bytes = 256 << 20;
    config.frame.time_ns = 50_000_000;
    config.write.sync_interval_ns = 20_000_000;
    config.access.resume_ns = resume_ns;
    config
}

/// Records a near front-end, and one behind a network that goes down for 10 s. Returns what became
/// of the far one's fragments, and its events of which the bytes are right.
fn record(number: u8, resume_ns: u64) -> (SourceLedger, u64) {
    let network = Network::new(number);
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path(), &network, resume_ns)).unwrap();
    let address = recorder.addresses()[0];
    let near = Frontend::connect(&format!("catchment+tcp://{address}"), "near").unwrap();
    let mut far = network.front_end(address, [EVENTS, BYTES as u64, RATE]);
    // Its first event waits for the near one.
    let is_waiting = |fill: &Fill| fill.name == "segments" && fill.level > 0;
    wait_while(|| !recorder.snapshot().fills.iter().any(is_waiting));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in 0..EVENTS {
                let due = Duration::from_micros(key * 1_000_000 / RATE);
                std::thread::sleep(due.saturating_sub(begin.elapsed()));
                near.send(key, &key.to_le_bytes()).unwrap();
            }
        });
        wait_while(|| begin.elapsed() < Duration::from_secs(3));
        network.set("down");
        wait_while(|| begin.elapsed() < Duration::from_secs(13));
        network.set("up");
    });
    assert!(far.wait().unwrap().success(), "all of it is durable");
    let rate = EVENTS as f64 * BYTES as f64 / 1e6 / begin.elapsed().as_secs_f64();
    println!("resume {} s: {rate:.1} MB/s, 10 s without a network included", resume_ns / S);
    assert_eq!(near.close(LONG), Closed::default());
    let summary = recorder.stop().unwrap();
    let run = Run::open(&summary.folder).unwrap();
    let verdict = audit(&run).unwrap().verdict;
    assert!(matches!(verdict, Verdict::Balanced | Verdict::DataLost), "{verdict:?}");
    let content = DummyContent::new(1, 0, BYTES);
    let mut whole = 0;
    for frame in 0..run.frames().len() {
        let column = run.fragments(frame, SourceId(1)).unwrap();
        for (row, &key) in column.events().keys().iter().enumerate() {
            if let Some(bytes) = column.fragment(row) {
                assert!(bytes[..] == *content.fragment(key), "event {key}");
                whole += 1;
            }
        }
    }
    let ledger = summary.last.ledger;
    assert_eq!(ledger.sources[0][Entry::FragmentsRecorded], EVENTS);
    assert!(ledger.sources[1][Entry::LinkResumes] > 0, "it was cut");
    (ledger.sources[1].clone(), whole)
}

#[test]
#[ignore = "2 min, and as root: cargo xtask test-long runs it"]
fn within_the_wait_events_are_whole() {
    for _ in 0..ROUNDS {
        let (far, whole) = record(1, 15 * S);
        assert_eq!((whole, far[Entry::FragmentsRecorded]), (EVENTS, EVENTS));
    }
}

#[test]
#[ignore = "2 min, and as root: cargo xtask test-long runs it"]
fn behind_the_wait_fragments_are_late_and_counted_as_that() {
    for _ in 0..ROUNDS {
        let (far, whole) = record(2, 5 * S);
        let late = far[Entry::FragmentsLate];
        assert!(late > 0 && whole == far[Entry::FragmentsRecorded], "{late} late");
        assert_eq!(whole + late, EVENTS);
        assert_eq!(far[Entry::FragmentsReceived], EVENTS);
    }
}
