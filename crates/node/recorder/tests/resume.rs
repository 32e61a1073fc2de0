//! Power cuts in memory: a recorder goes on with the run of the one before, and a front-end that
//! lives through all of it finds each of its fragments in the files, once.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use catchment_agent::{Agent, Ingress, Waker};
use catchment_fixtures::Random;
use catchment_frame::Position;
use catchment_model::{Entry, RunId};
use catchment_ports::{MemoryFiles, MemoryStore, QueueIngress, Queues, StoreTimes, VirtualClock};
use catchment_recorder::{
    Assembly, AssemblyParts, Bind, Endpoint, RecorderConfig, RecorderError, SourceConfig,
    TargetConfig, TargetStore,
};
use catchment_sender::{
    Action, Connection, Fragment, Push, SenderConfig, SenderSession, SourceConfig as LogConfig,
};
use catchment_storage::{Interrupted, Resumable, Run, RunPlace, Verdict, audit, verify};
use catchment_wire::event_link::AbandonReason;

use super::support;
use super::support::stepped::MS;

const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
const SOURCES: [&str; 3] = ["a", "b", "c"];
const FOLDERS: [&str; 2] = ["run", "second"];
const SESSION: u64 = 0x5eed;
const LIVES: u64 = 4;
const STEPS_MAX: u64 = 60_000;
/// What a connection's buffer holds.
const SOCKET_BYTES: usize = 1 << 18;

struct Bound<'a>(&'a Queues);

impl Bind for Bound<'_> {
    fn bind(&mut self, ports: &[Endpoint<'_>]) -> Result<Box<dyn Ingress>, RecorderError> {
        let queues = ports.iter().map(|_| self.0.add(1_000)).collect();
        Ok(Box::new(QueueIngress::new(self.0, queues, 64)))
    }
}

fn config(seed: u64) -> RecorderConfig {
    let mut config = support::config("".as_ref(), 1);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let source = |name: &&str| SourceConfig {
        fragment_bytes_max: 1 << 16,
        ..SourceConfig::over_session(format!("camera/{name}"), address)
    };
    config.sources = SOURCES.iter().map(source).collect();
    config.memory_bytes = 128 << 20;
    config.frame.bytes = 100_000;
    config.frame.time_ns = 20 * MS;
    config.write.sync_interval_ns = 15 * MS;
    config.write.buffer_bytes = 64 << 10;
    config.write.preallocate_bytes = 256 << 10;
    config.write.file_time_ns = seed.is_multiple_of(2).then_some(120 * MS);
    config.build.timeout_ns = 3_600_000 * MS;
    if seed.is_multiple_of(3) {
        config.targets = FOLDERS.map(|name| TargetConfig::folder(name, "".into())).into();
    }
    config
}

fn content(source: usize, key: u64) -> Vec<u8> {
    let mut random = Random::new(key << 8 | source as u64);
    let bytes = random.index(2_000);
    random.bytes(bytes)
}

/// A front-end, and the recorders that come and go.
struct Rig {
    seed: u64,
    config: RecorderConfig,
    random: Random,
    clock: VirtualClock,
    files: MemoryFiles,
    sender: SenderSession,
    connections: BTreeMap<Connection, usize>,
    /// By source: the key that is sent next, and how many fragments were abandoned.
    next: [u64; 3],
    abandoned: [u64; 3],
    life: Option<Life>,
}

/// A recorder.
struct Life {
    queues: Queues,
    agents: Vec<Box<dyn Agent>>,
    assembly: Assembly,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let log = |name: &&str| LogConfig {
            name: (*name).to_owned(),
            fragment_bytes_max: 1 << 16,
            ..LogConfig::default()
        };
        let sender = SenderConfig {
            name: "camera".to_owned(),
            sources: SOURCES.iter().map(log).collect(),
            buffer_bytes: 3 << 20,
            ..SenderConfig::default()
        };
        Self {
            seed,
            config: config(seed),
            random: Random::new(seed),
            clock: VirtualClock::at(BEGIN_NS),
            files: MemoryFiles::default(),
            sender: SenderSession::new(sender, SESSION, seed).expect("a configuration"),
            connections: BTreeMap::new(),
            next: [0; 3],
            abandoned: [0; 3],
            life: None,
        }
    }

    /// The folders of the run's targets.
    fn folders(&self) -> &'static [&'static str] {
        &FOLDERS[..self.config.targets().len()]
    }

    fn begin(&mut self, from: Option<&Resumable>) {
        let (queues, config) = (Queues::default(), &self.config);
        let times = StoreTimes {
            operation_ns_max: (1 + self.random.below(10)) * MS,
            open_ns_max: 2 * MS,
            allocate_bytes: config.write.preallocate_bytes,
            sync_interval_ns: config.write.sync_interval_ns,
            ..StoreTimes::default()
        };
        let buffers = (config.write.buffer_count, config.write.buffer_bytes);
        let mut targets = Vec::new();
        for folder in self.folders() {
            let store =
                MemoryStore::new((self.clock.clone(), self.random.next_u64()), buffers, times);
            let store = store.on(&self.files).sized(folder.as_ref(), 1 << 30);
            let entropy = Box::new(Random::new(self.random.next_u64()));
            let folders = vec![(PathBuf::from(folder), store)];
            targets.push(TargetStore {
                folders,
                nodes: Vec::new(),
                entropy,
                waker: Waker::default(),
            });
        }
        let parts = AssemblyParts {
            trends: None,
            run: RunId([7; 16]),
            name: FOLDERS[0].to_owned(),
            targets,
            entropy: || Box::new(Random::new(9)),
            frames: Waker::default(),
            encoders: Waker::default(),
            is_paused: false,
            now_ns: self.clock.now_ns(),
        };
        let create = |store: &mut MemoryStore, path: PathBuf| store.create(&path);
        let mut bind = Bound(&queues);
        let assembly = match from {
            Some(from) => Assembly::resume(config, parts, from, &mut bind, create),
            None => Assembly::new(config, parts, &mut bind, create),
        };
        let mut assembly = assembly.expect("it begins");
        let agents = std::mem::take(&mut assembly.agents).into_iter().map(|(_, agent)| agent);
        self.life = Some(Life { queues, agents: agents.collect(), assembly });
    }

    /// The front-end makes fragments, sometimes none of a source, and sometimes abandons others.
    fn make(&mut self) {
        for source in 0..SOURCES.len() {
            let count = 1 + self.random.below(3);
            let log = self.sender.source(source as u32);
            if self.random.below(50) == 0
                && log.abandon(count, AbandonReason::BUFFER, None) == Ok(Push::Accepted)
            {
                self.abandoned[source] += count;
            }
            for _ in 0..self.random.below(4) {
                let bytes = content(source, self.next[source]);
                let fragment = Fragment::new(self.next[source], &bytes);
                match self.sender.push(source as u32, fragment).expect("it is allowed") {
                    Push::Accepted => self.next[source] += 1,
                    _ => break,
                }
            }
        }
    }

    /// A millisecond passes.
    fn step(&mut self) {
        self.clock.advance_to(self.clock.now_ns() + MS);
        for _ in 0..4 {
            self.pump();
            let now_ns = self.clock.now_ns();
            if let Some(life) = &mut self.life {
                life.agents.retain_mut(|agent| !agent.work(now_ns).ended);
            }
        }
    }

    /// Moves what the front-end and the recorder have for each other.
    fn pump(&mut self) {
        let now_ns = self.clock.now_ns();
        while let Some(action) = self.sender.work(now_ns).action {
            match (action, &self.life) {
                (Action::Connect(connection), Some(life)) => {
                    let number = life.queues.connect(0, SOCKET_BYTES);
                    self.connections.insert(connection, number);
                    self.sender.opened(now_ns, connection);
                }
                (Action::Connect(connection), None) => {
                    self.sender.closed(now_ns, connection, "nobody listens");
                }
                (Action::Close, life) => {
                    for number in std::mem::take(&mut self.connections).into_values() {
                        life.iter().for_each(|life| life.queues.close(number));
                    }
                }
                (action, _) => panic!("seed {}: {action:?}", self.seed),
            }
        }
        let Some(life) = &self.life else { return };
        let open: Vec<_> = self.connections.iter().map(|(one, number)| (*one, *number)).collect();
        for (connection, number) in open {
            if !self.connections.contains_key(&connection) {
                continue;
            }
            let slices = self.sender.transmit(now_ns, connection).0;
            let bytes: Vec<u8> = slices.into_iter().flatten().copied().collect();
            match life.queues.write(number, &bytes) {
                Some(sent) => self.sender.sent(connection, sent),
                None => {
                    self.connections.remove(&connection);
                    self.sender.closed(now_ns, connection, "the recorder has closed it");
                    continue;
                }
            }
            let answers = life.queues.read_answers(number);
            if !answers.is_empty() {
                let received = self.sender.received(now_ns, &answers);
                received.unwrap_or_else(|fault| panic!("seed {}: {fault}", self.seed));
            }
        }
    }

    /// The power fails, and another recorder finds what is left.
    fn cut_power(&mut self) {
        self.life = None;
        let now_ns = self.clock.now_ns();
        for connection in std::mem::take(&mut self.connections).into_keys() {
            self.sender.closed(now_ns, connection, "the power failed");
        }
        self.files.crash(&mut self.random);
        // What was told to be durable is in the files.
        let durable: Vec<u64> = self.sender.sources().map(|one| one.status().durable).collect();
        let root = self.written();
        let place = |folder: &&str| RunPlace {
            folders: vec![root.path().join(folder)],
            is_required: true,
            trusts_lists: false,
            is_dealt: false,
        };
        let places: Vec<RunPlace> = self.folders().iter().map(place).collect();
        let found = Interrupted::find(&places).and_then(Interrupted::take);
        let from = found.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        for (source, durable) in (0..).zip(durable) {
            let known = from.positions.of(source, Position::LINK, SESSION).unwrap_or(0);
            assert!(known >= durable, "seed {}: {known} of {durable}", self.seed);
        }
        for (path, _) in self.files.all() {
            self.files.remove(&path);
        }
        for folder in self.folders() {
            for entry in std::fs::read_dir(root.path().join(folder)).expect("reads") {
                let path = entry.expect("an entry").path();
                let bytes = std::fs::read(&path).expect("reads");
                let own = path.strip_prefix(root.path()).expect("within").to_owned();
                self.files.replace(&own, bytes);
            }
        }
        (0..self.random.below(300)).for_each(|_| self.step());
        self.begin(Some(&from));
    }

    /// The files on a real disk.
    fn written(&self) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for folder in self.folders() {
            std::fs::create_dir_all(root.path().join(folder)).expect("makes");
        }
        for (path, bytes) in self.files.all() {
            std::fs::write(root.path().join(path), bytes).expect("writes");
        }
        root
    }

    fn until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) {
        for _ in 0..STEPS_MAX {
            if reached(self) {
                return;
            }
            self.step();
        }
        panic!("seed {}: {what}: {:?}", self.seed, self.sender.state());
    }

    /// All sources come to the same key, all is durable, and the run ends.
    fn end(&mut self) {
        let end = self.next.iter().copied().max().expect("sources") + 1;
        while self.next.iter().any(|&next| next < end) {
            for source in 0..SOURCES.len() {
                while self.next[source] < end {
                    let bytes = content(source, self.next[source]);
                    let fragment = Fragment::new(self.next[source], &bytes);
                    match self.sender.push(source as u32, fragment).expect("it is allowed") {
                        Push::Accepted => self.next[source] += 1,
                        _ => break,
                    }
                }
            }
            self.step();
        }
        self.until("all is durable", |rig| rig.sender.unconfirmed() == 0);
        self.life.as_ref().expect("a recorder").assembly.stop();
        self.until("the run ends", |rig| {
            rig.life.as_ref().is_some_and(|life| life.agents.is_empty())
        });
    }

    /// Each folder has all fragments, once, and balances.
    fn check(&self) {
        let (root, seed) = (self.written(), self.seed);
        for folder in self.folders() {
            let run = check_run(&root.path().join(folder), self.next[0], seed);
            let ledger = run.recorded_ledger().expect("reads").expect("of the whole run");
            let counted = ledger.sources.iter().map(|one| one[Entry::FragmentsAbandoned]);
            assert!(counted.eq(self.abandoned), "seed {seed}: {:?}", self.abandoned);
        }
    }
}

fn check_run(folder: &Path, keys: u64, seed: u64) -> Run {
    let run = Run::open(folder).expect("opens");
    let (report, audit) = (verify(&run, |_| {}), audit(&run).expect("an audit"));
    assert!(report.is_intact(), "seed {seed}: {report:?}");
    assert_eq!(audit.verdict, Verdict::Balanced, "seed {seed}: {audit:?}");
    let events = support::fragments(&run);
    assert!(events.keys().copied().eq(0..keys), "seed {seed}: {} of {keys}", events.len());
    for (key, of_sources) in events {
        for source in 0..SOURCES.len() {
            let found = of_sources.get(&(source as u32));
            assert!(found == Some(&content(source, key)), "seed {seed}: event {key}, {source}");
        }
    }
    // A life whose first file never was durable told nobody its epoch, which another one has.
    let epochs: Vec<u32> = run.files().map(|file| file.header.epoch).collect();
    assert!(epochs.is_sorted(), "seed {seed}: {epochs:?}");
    let last = epochs.last().copied().map_or(0, u64::from);
    assert!((1..LIVES).contains(&last), "seed {seed}: {epochs:?}");
    run
}

#[test]
fn nothing_is_lost_and_nothing_is_there_twice_over_four_lives() {
    for seed in 0..16 {
        let mut rig = Rig::new(seed);
        rig.begin(None);
        for life in 0..LIVES {
            // Something of the first life is durable: otherwise there is no run to go on with.
            let most = 1 + rig.random.below(400);
            let mut passed = 0;
            while passed < most
                || life == 0 && rig.sender.sources().all(|one| one.status().durable == 0)
            {
                rig.make();
                rig.step();
                passed += 1;
                assert!(passed < STEPS_MAX, "seed {seed}: {:?}", rig.sender.state());
            }
            if life + 1 < LIVES {
                rig.cut_power();
            }
        }
        rig.end();
        rig.check();
    }
}
