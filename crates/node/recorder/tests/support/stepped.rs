//! A recorder whose agents a test steps in virtual time, with its files in memory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use catchment_agent::{Agent, Ingress, Waker};
use catchment_fixtures::Random;
use catchment_model::{Entry, RunId};
use catchment_ports::{
    MemoryFiles, MemoryStore, QueueIngress, Queues, StoreTimes, StoreWatch, VirtualClock,
};
use catchment_recorder::{
    Assembly, AssemblyParts, Bind, Endpoint, Observer, RecorderConfig, RecorderError, Snapshot,
    TargetStore,
};
use catchment_storage::{AuditReport, Run, RunOptions, audit, verify};
use catchment_wire::hadtu::ByteOrder;
use catchment_wire::session::{CONTROL, Control, parse};

use super::front_end::{self, Opening};
use super::packet;

const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
pub const MS: u64 = 1_000_000;
const DISK_BYTES: u64 = 1 << 30;
/// How long the agents are stepped at most, for something to come about.
const STEPS_MAX: u64 = 100_000;
/// Calls of an agent in a millisecond.
const CALLS: u64 = 8;
const FOLDER: &str = "run";
/// That of a second target.
pub const SECOND: &str = "second";

/// The agents, and what they work with.
pub struct Stepped {
    clock: VirtualClock,
    agents: Vec<(String, Box<dyn Agent>)>,
    /// The agent that is held up.
    pub held_up: Option<&'static str>,
    assembly: Assembly,
    queues: Queues,
    observer: Observer,
    /// What the disk has.
    pub files: MemoryFiles,
    /// What the disk does wrong.
    pub disk: StoreWatch,
    /// The disks of all targets.
    pub disks: Vec<StoreWatch>,
    /// A source that sends nothing.
    pub silent: Option<u32>,
    sources: u32,
    next_event: u32,
    sent: u64,
}

struct Bound<'a>(&'a Queues);

impl Bind for Bound<'_> {
    fn bind(&mut self, ports: &[Endpoint<'_>]) -> Result<Box<dyn Ingress>, RecorderError> {
        let queues = ports.iter().map(|_| self.0.add(1_000)).collect();
        Ok(Box::new(QueueIngress::new(self.0, queues, 64)))
    }
}

impl Stepped {
    /// A recorder that has begun.
    pub fn begin(config: &RecorderConfig) -> Self {
        let queues = Queues::default();
        Self::with_ports(config, false, &mut Bound(&queues), &queues)
    }

    /// A recorder that is paused, and whose ports are others than this rig's: it sends nothing.
    pub fn begin_paused(config: &RecorderConfig, ports: &mut impl Bind) -> Self {
        Self::with_ports(config, true, ports, &Queues::default())
    }

    fn with_ports(
        config: &RecorderConfig,
        is_paused: bool,
        ports: &mut impl Bind,
        queues: &Queues,
    ) -> Self {
        let clock = VirtualClock::at(BEGIN_NS);
        let times = StoreTimes {
            operation_ns_max: MS,
            open_ns_max: 2 * MS,
            allocate_bytes: config.write.preallocate_bytes,
            sync_interval_ns: config.write.sync_interval_ns,
            ..StoreTimes::default()
        };
        let buffers = (config.write.buffer_count, config.write.buffer_bytes);
        let (mut stores, mut disks) = (Vec::new(), Vec::new());
        let files = MemoryFiles::default();
        for (number, (target, folder)) in (1..).zip(config.targets().iter().zip([FOLDER, SECOND])) {
            let mut store = |folder: &Path| {
                let seed = disks.len() as u64 + 1;
                let store = MemoryStore::new((clock.clone(), seed), buffers, times).on(&files);
                let store = store.sized(folder, DISK_BYTES);
                disks.push(store.watch());
                (folder.to_owned(), store)
            };
            // A folder of several has a disk of its own.
            let folders = match target.place.folders() {
                [] | [_] => vec![store(folder.as_ref())],
                several => several.iter().map(|folder| store(folder)).collect(),
            };
            let (entropy, waker) = (Box::new(Random::new(number + 1)), Waker::default());
            stores.push(TargetStore { folders, nodes: Vec::new(), entropy, waker });
        }
        let disk = disks[0].clone();
        let parts = AssemblyParts {
            trends: None,
            run: RunId([7; 16]),
            name: "run".to_owned(),
            targets: stores,
            entropy: || Box::new(Random::new(9)),
            frames: Waker::default(),
            encoders: Waker::default(),
            is_paused,
            now_ns: BEGIN_NS,
        };
        let create = |store: &mut MemoryStore, path: PathBuf| store.create(&path);
        let mut assembly = Assembly::new(config, parts, ports, create).expect("it begins");
        let (agents, observer) = (std::mem::take(&mut assembly.agents), assembly.observer());
        let sources = config.sources.len() as u32;
        let (silent, next_event, sent) = (None, 1, 0);
        Self {
            clock,
            agents,
            held_up: None,
            assembly,
            queues: queues.clone(),
            observer,
            files,
            disk,
            disks,
            silent,
            sources,
            next_event,
            sent,
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        self.observer.snapshot()
    }

    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// One entry of the ledger, of all sources.
    pub fn count(&self, entry: Entry) -> u64 {
        self.snapshot().ledger.total()[entry]
    }

    /// Lets a millisecond pass, and calls each agent a few times: one gives another work.
    fn step(&mut self) {
        self.clock.advance_to(self.clock.now_ns() + MS);
        let now_ns = self.clock.now_ns();
        for _ in 0..CALLS {
            let held_up = self.held_up;
            self.agents.retain_mut(|(name, agent)| {
                held_up == Some(name.as_str()) || !agent.work(now_ns).ended
            });
        }
    }

    /// Steps the agents for so many milliseconds.
    pub fn pass(&mut self, milliseconds: u64) {
        (0..milliseconds).for_each(|_| self.step());
    }

    /// Steps the agents until that is so, while an event comes each millisecond.
    pub fn send_until(&mut self, reached: impl Fn(&Self) -> bool) {
        for _ in 0..STEPS_MAX {
            if reached(self) {
                return;
            }
            self.send(1);
        }
        panic!("{:?}", self.snapshot());
    }

    /// Sends events of all sources, one each millisecond.
    pub fn send(&mut self, events: u32) {
        for _ in 0..events {
            let payload = Random::new(self.next_event.into()).noise(4_000);
            for source in (0..self.sources).filter(|&source| self.silent != Some(source)) {
                let packet = packet(source, ByteOrder::Big, &[(self.next_event, &payload)]);
                assert!(self.queues.send(source as usize, packet), "the recorder keeps up");
                self.sent += 1;
            }
            self.next_event += 1;
            self.step();
        }
    }

    /// Sends a packet of one fragment from there, without letting time pass.
    pub fn send_from(&mut self, sender: SocketAddr, source: usize, packet: Vec<u8>) {
        assert!(self.queues.send_from(Some(sender), source, packet), "the recorder keeps up");
        self.sent += 1;
    }

    /// Sends what is no packet from there.
    pub fn send_broken_from(&mut self, sender: SocketAddr, source: usize) {
        let packet = b"no packet".to_vec();
        assert!(self.queues.send_from(Some(sender), source, packet), "the recorder keeps up");
    }

    /// Opens a session of a front-end of one source, and returns its data connection.
    pub fn open_session(&mut self, name: &str) -> usize {
        self.open_session_of(name, &[("", 0, 0)])
    }

    /// The same, of a front-end of these logs.
    pub fn open_session_of(&mut self, name: &str, logs: &[(&str, u64, u64)]) -> usize {
        self.open_session_with(name, logs, (0, 1)).0
    }

    /// The same, of one that asks for that skew and has its logs on so many data connections in
    /// turn. Returns the first of them, and the skew that it was granted.
    pub fn open_session_with(
        &mut self,
        name: &str,
        logs: &[(&str, u64, u64)],
        of_hello: (u64, u16),
    ) -> (usize, u64) {
        let answer = self.say_hello(&Opening::of(name, 7, logs), of_hello);
        let message = parse(&answer, 0, CONTROL).expect("sound").expect("whole");
        let Ok(Some(Control::Welcome(welcome))) = Control::read(&message) else {
            panic!("{answer:?}")
        };
        let data = self.queues.connect(0, 1 << 20);
        self.write(data, &front_end::attach(welcome.session, welcome.ticket));
        (data, welcome.skew_bytes)
    }

    /// Says hello on a new connection. Returns what is answered behind the preamble.
    pub fn say_hello(&mut self, opening: &Opening<'_>, of_hello: (u64, u16)) -> Vec<u8> {
        let control = self.queues.connect(0, 1 << 20);
        self.write(control, &front_end::hello_of(opening, (0, 0), of_hello));
        self.pass(2);
        self.queues.read_answers(control).split_off(16)
    }

    /// What was answered on a connection since that was asked last.
    pub fn read_answers(&self, connection: usize) -> Vec<u8> {
        self.queues.read_answers(connection)
    }

    /// Sends bytes over a connection; how many it takes.
    pub fn try_write(&mut self, connection: usize, bytes: &[u8]) -> usize {
        self.queues.write(connection, bytes).expect("it is open")
    }

    /// Sends bytes over a connection.
    pub fn write(&mut self, connection: usize, bytes: &[u8]) {
        assert_eq!(self.queues.write(connection, bytes), Some(bytes.len()), "it is read");
    }

    /// Bytes that were sent over a connection and not taken yet.
    pub fn left(&self, connection: usize) -> usize {
        self.queues.left(connection)
    }

    /// As [`Assembly::begin_between_events`].
    pub fn begin_between_events(&self) {
        self.assembly.begin_between_events();
    }

    /// Says that so many fragments were sent otherwise than by this rig.
    pub fn sent(&mut self, fragments: u64) {
        self.sent += fragments;
    }

    /// Ends the run, and returns what the recorder said last. Every fragment is accounted for.
    pub fn end(&mut self) -> Snapshot {
        self.assembly.stop();
        for _ in 0..STEPS_MAX {
            self.step();
            if self.agents.is_empty() {
                break;
            }
        }
        let last = self.snapshot();
        assert!(self.agents.is_empty(), "it has not ended: {last:?}");
        let balance = last.ledger.balance();
        assert!(balance.holds() && balance.fragments_in_flight == 0, "{balance:?}");
        assert_eq!(last.ledger.total()[Entry::FragmentsReceived], self.sent);
        last
    }

    /// The run's frame files, and what each holds.
    pub fn frame_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let is_frames = |(path, _): &(PathBuf, _)| path.extension() == Some("catch".as_ref());
        self.files.all().into_iter().filter(is_frames).collect()
    }

    /// The list of the run's files.
    pub fn list(&self) -> String {
        let path = Path::new(FOLDER).join("files.jsonl");
        let found = self.files.all().into_iter().find(|(other, _)| *other == path);
        found.map_or_else(String::new, |(_, text)| String::from_utf8(text).expect("text"))
    }

    /// Opens the run as a reader does, and checks it; whether every byte is whole.
    pub fn read(&self) -> (bool, AuditReport) {
        self.read_in(FOLDER)
    }

    /// As [`Stepped::read`], of the target with that folder.
    pub fn read_in(&self, of_target: &str) -> (bool, AuditReport) {
        self.read_folders(&[of_target])
    }

    /// As [`Stepped::read`], of several folders together.
    pub fn read_folders(&self, folders: &[&str]) -> (bool, AuditReport) {
        let root = tempfile::tempdir().expect("a folder");
        let paths: Vec<_> = folders.iter().map(|folder| root.path().join(folder)).collect();
        paths.iter().for_each(|path| std::fs::create_dir_all(path).expect("makes"));
        for (path, bytes) in self.files.all() {
            if folders.iter().any(|folder| path.starts_with(folder)) {
                std::fs::write(root.path().join(path), bytes).expect("writes");
            }
        }
        let run = Run::open_folders(&paths, RunOptions::default()).expect("opens");
        (verify(&run, |_| {}).is_intact(), audit(&run).expect("an audit"))
    }
}
