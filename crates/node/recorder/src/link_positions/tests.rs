//! Positions of link sources through all agents behind the rings, stepped in virtual time: notes
//! and fragments go into a ring as a receive agent puts them there, and files are in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use catchment_agent::{Agent, Ingress, Waker};
use catchment_builder::{Fragment, IncompletePolicy, NoteKind, SourceNote};
use catchment_fixtures::Random;
use catchment_frame::{FileReader, FrameKind, Position, frame_ledger};
use catchment_model::{Entry, Ledger, RunId, SourceId};
use catchment_ports::{
    MemoryFiles, MemoryStore, QueueIngress, Queues, StoreFaults, StoreTimes, StoreWatch,
    VirtualClock,
};
use catchment_storage::{Run, Verdict, audit, verify};
use catchment_telemetry::FillLevel;
use catchment_wire::event_link::EventLink;
use catchment_wire::hadtu::Hadtu;
use rtrb::{Producer, RingBuffer};

use crate::agents::{AgentParts, Agents, TargetPart, Wakers, Way};
use crate::beginning::{Beginning, FileBeginning};
use crate::config::{RecorderConfig, SourceConfig};
use crate::file::{FileMaker, FirstFile, RunIdentity};
use crate::link_positions::LinkPositions;
use crate::live::Live;
use crate::recorder::RecorderError;
use crate::sessions::OfRun;
use crate::target_config::{Place, TargetConfig};
use crate::wiring::{Bind, Endpoint, Wiring};

const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
const MS: u64 = 1_000_000;
const FRAME_MS: u64 = 20;
const SYNC_MS: u64 = 50;
const STEPS_MAX: u64 = 20_000;
const SOURCES: u32 = 2;
/// What a source's session is called.
const SESSION: u64 = 0x5eed_0000;

struct NoSockets(Queues);

impl Bind for NoSockets {
    fn bind(&mut self, _ports: &[Endpoint<'_>]) -> Result<Box<dyn Ingress>, RecorderError> {
        Ok(Box::new(QueueIngress::new(&self.0, Vec::new(), 64)))
    }
}

/// A log as its sender has it.
#[derive(Clone, Copy, Default)]
struct Log {
    session: u64,
    made: u64,
}

struct Rig {
    clock: VirtualClock,
    agents: Vec<Box<dyn Agent>>,
    live: Arc<Live>,
    ring: Option<Producer<Fragment>>,
    files: MemoryFiles,
    disks: Vec<StoreWatch>,
    logs: Vec<Log>,
    key: u64,
    /// By source: what was durable when it was last looked at.
    durable: Vec<(u64, u64)>,
}

/// Link sources, in so many required folders.
fn config(folders: usize) -> RecorderConfig {
    let source = |number: u32| SourceConfig {
        protocol: Arc::new(EventLink::SESSIONS),
        ..SourceConfig::new(format!("link-{number}"), ([127, 0, 0, 1], 0).into())
    };
    let mut config = RecorderConfig::new("run".into(), (0..SOURCES).map(source).collect());
    config.memory_bytes = 256 << 20;
    config.frame.time_ns = FRAME_MS * MS;
    config.write.sync_interval_ns = SYNC_MS * MS;
    config.write.buffer_bytes = 64 << 10;
    config.write.preallocate_bytes = 256 << 10;
    config.build.timeout_ns = 100 * MS;
    let target = |number: usize| TargetConfig::folder(format!("t{number}"), folder(number));
    config.targets = (0..folders).map(target).collect();
    config
}

fn folder(number: usize) -> PathBuf {
    format!("run-{number}").into()
}

impl Rig {
    fn begin(config: &RecorderConfig) -> Self {
        Self::begin_on(config, MS)
    }

    /// On disks on which an operation takes at most that time.
    fn begin_on(config: &RecorderConfig, operation_ns_max: u64) -> Self {
        let clock = VirtualClock::at(BEGIN_NS);
        let live = Arc::new(Live::new(config));
        let stop = Arc::new(AtomicBool::new(false));
        let mut bind = NoSockets(Queues::default());
        let of_run = || OfRun {
            is_standby: false,
            run: RunId([1; 16]),
            number: 1,
            epoch: 0,
            entropy: Box::new(Random::new(1)),
            access: config.accesses(),
            live: Arc::clone(&live),
        };
        let mut wired = Wiring::of(config, &live, &stop, &of_run, &mut bind).expect("it is wired");
        // The test is the receive agent.
        wired.receives.clear();
        let (ring, consumer) = RingBuffer::new(1 << 16);
        wired.pipelines[0].rings = vec![(consumer, Arc::new(FillLevel::new("ring", 1 << 24)))];
        let times = StoreTimes {
            operation_ns_max,
            open_ns_max: 2 * MS,
            allocate_bytes: config.write.preallocate_bytes,
            sync_interval_ns: config.write.sync_interval_ns,
            ..StoreTimes::default()
        };
        let buffers = (config.write.buffer_count, config.write.buffer_bytes);
        let (files, mut disks) = (MemoryFiles::default(), Vec::new());
        let part = |(number, target): (usize, &TargetConfig)| {
            let waker = Waker::default();
            if target.place == Place::None {
                return TargetPart { waker, way: Way::Nowhere };
            }
            let store = MemoryStore::new((clock.clone(), number as u64 + 1), buffers, times);
            let mut store = store.on(&files).sized(&folder(number), 1 << 30);
            disks.push(store.watch());
            let (folders, name) = (vec![folder(number)], "run".to_owned());
            let target = target.name.clone();
            let begins = FileBeginning::default();
            let identity = RunIdentity { run: RunId([7; 16]), folders, name, target, begins };
            let id = store.create(&FileMaker::first_path(&identity, 0));
            let entropy = Box::new(Random::new(number as u64 + 9));
            let stores = vec![store];
            let first = FirstFile { stores, disk: 0, id, entropy, spill: None };
            TargetPart { waker, way: Way::Files(identity, first) }
        };
        let targets = config.targets().iter().enumerate().map(part).collect();
        let live_of_agents = Arc::clone(&live);
        let (trends, wakers) = (None, Wakers::default());
        let parts = AgentParts { wired, live: live_of_agents, stop, targets, trends, wakers };
        let Agents { build, frames, encoders, targets, .. } =
            Agents::new(config, parts, BEGIN_NS).expect("agents");
        let mut agents: Vec<Box<dyn Agent>> = vec![Box::new(build), Box::new(frames)];
        agents.extend(targets.into_iter().map(|(_, agent)| agent));
        agents.extend(encoders.into_iter().map(|agent| Box::new(agent) as Box<dyn Agent>));
        Self {
            clock,
            agents,
            live,
            ring: Some(ring),
            files,
            disks,
            logs: vec![Log::default(); config.sources.len()],
            key: 0,
            durable: vec![(0, 0); config.sources.len()],
        }
    }

    fn put(&mut self, one: Fragment) {
        self.ring.as_mut().expect("the run goes on").push(one).expect("the ring has room");
    }

    /// A session of a source begins with an item of that sequence.
    fn attach(&mut self, source: u32, session: u64, sequence: u64) {
        self.logs[source as usize] = Log { session, made: sequence };
        self.put(Fragment::note(source, NoteKind::Session, session, sequence));
    }

    /// Marks of a source.
    fn pass(&mut self, source: u32, count: u64) {
        self.logs[source as usize].made += count;
        self.put(Fragment::passed(source, count, None));
    }

    fn send_one(&mut self, source: u32, key: u64) {
        if !self.live.link_positions.has_links() {
            self.live.ledger.add(SourceId(source), Entry::FragmentsReceived, 1);
        }
        self.logs[source as usize].made += 1;
        self.put(Fragment::new(source, key, 0, 0));
    }

    /// Events of all sources, one each millisecond.
    fn send(&mut self, events: u64) {
        for _ in 0..events {
            (0..self.logs.len() as u32).for_each(|source| self.send_one(source, self.key));
            self.key += 1;
            self.step();
        }
    }

    /// A millisecond passes. What is durable never falls, and is no more than was made.
    fn step(&mut self) {
        self.clock.advance_to(self.clock.now_ns() + MS);
        let now_ns = self.clock.now_ns();
        for _ in 0..4 {
            self.agents.retain_mut(|agent| !agent.work(now_ns).ended);
        }
        let Self { live, logs, durable, .. } = self;
        live.link_positions.read(&mut |source, session, position| {
            let (log, before) = (logs[source.index()], &mut durable[source.index()]);
            assert!(before.0 != session || before.1 <= position, "{before:?}, {position}");
            assert!(log.session != session || position <= log.made, "{position}");
            *before = (session, position);
        });
    }

    fn pass_ms(&mut self, milliseconds: u64) {
        (0..milliseconds).for_each(|_| self.step());
    }

    /// Steps until all that was made is durable.
    fn until_durable(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.durable == self.made() {
                return;
            }
            self.step();
        }
        panic!("{:?} is durable", self.durable);
    }

    /// By source: the session, and what was made in it.
    fn made(&self) -> Vec<(u64, u64)> {
        self.logs.iter().map(|log| (log.session, log.made)).collect()
    }

    fn end(&mut self) {
        self.ring = None;
        for _ in 0..STEPS_MAX {
            if self.agents.is_empty() {
                break;
            }
            let links = &self.live.link_positions;
            assert!(!links.has_links() || !links.are_final());
            self.step();
        }
        assert!(self.agents.is_empty() && self.live.link_positions.are_final());
        self.step();
        let balance = self.live.total().balance();
        assert!(balance.holds() && balance.fragments_in_flight == 0, "{balance:?}");
    }

    /// The files of a folder, in their order, without those that were never begun.
    fn files_in(&self, number: usize) -> Vec<FileReader<Vec<u8>>> {
        let is_file = |path: &Path| {
            path.starts_with(folder(number)) && path.extension() == Some("catch".as_ref())
        };
        let files = self.files.all().into_iter().filter(|(path, _)| is_file(path));
        files.filter_map(|(_, bytes)| FileReader::open(bytes).ok()).collect()
    }
}

/// Whether a folder's run is whole and balances, as a reader finds it.
fn assert_balanced(rig: &Rig, number: usize, verdict: Verdict) {
    let root = tempfile::tempdir().expect("a folder");
    for (path, bytes) in rig.files.all() {
        std::fs::create_dir_all(root.path().join(folder(number))).expect("makes");
        if path.starts_with(folder(number)) {
            std::fs::write(root.path().join(path), bytes).expect("writes");
        }
    }
    let run = Run::open(root.path().join(folder(number))).expect("opens");
    let (report, audit) = (verify(&run, |_| {}), audit(&run).expect("an audit"));
    assert!(report.is_intact() && audit.verdict == verdict, "{report:?} {audit:?}");
}

/// By frame of these files: whether it has rows, and the positions of logs that it states. No
/// position falls, and tables have the newest.
fn stated(files: &[FileReader<Vec<u8>>]) -> Vec<(bool, Vec<Position>)> {
    let (mut all, mut newest) = (Vec::new(), catchment_frame::Positions::default());
    for file in files {
        assert!(file.closed());
        for (index, frame) in file.frames().iter().enumerate() {
            let positions = file.positions(index).expect("positions");
            let mut with = newest.clone();
            with.add(&positions);
            let kept = |one: &&Position| with.records().contains(one);
            assert!(positions.iter().all(|one| kept(&one)), "no position falls");
            newest = with;
            let links = positions.into_iter().filter(|one| one.what == Position::LINK);
            let has_rows = frame.info.rows > 0 && frame.info.kind == FrameKind::Events;
            all.push((has_rows, links.collect()));
        }
        let (frames, listed) = file.listed_positions().expect("reads").expect("column 7");
        assert_eq!((frames, &listed[..]), (file.frames().len(), newest.records()));
        assert!(file.verify_index().is_empty());
    }
    all
}

const ALWAYS: u64 = 1_000_000;

#[test]
fn each_frame_states_what_it_decides_and_tables_state_the_newest() {
    let mut config = config(1);
    config.write.file_time_ns = Some(300 * MS);
    let mut rig = Rig::begin(&config);
    rig.attach(0, SESSION, 100);
    rig.attach(1, SESSION + 1, 0);
    rig.pass(0, 3);
    rig.send(1_000);
    rig.until_durable();
    rig.end();
    let files = rig.files_in(0);
    assert!(files.len() > 2);
    let (mut rows, frames) = (0, stated(&files));
    let counts = files.iter().flat_map(|file| file.frames().iter().map(|frame| frame.info.rows));
    for ((_, positions), count) in frames.iter().zip(counts) {
        rows += count;
        for &Position { source, session, position, .. } in positions {
            assert_eq!(session, SESSION + u64::from(source));
            assert_eq!(position, if source == 0 { 103 + rows } else { rows });
        }
    }
    assert_eq!(rows, 1_000);
    assert_balanced(&rig, 0, Verdict::Balanced);
}

#[test]
fn positions_alone_are_a_frame_without_rows() {
    let mut rig = Rig::begin(&config(1));
    rig.attach(0, SESSION, 7);
    rig.attach(1, SESSION, 0);
    rig.until_durable();
    rig.pass_ms(10 * FRAME_MS);
    rig.pass(0, 5);
    rig.until_durable();
    assert_eq!(rig.durable[0], (SESSION, 12));
    rig.end();
    let frames = stated(&rig.files_in(0));
    // The logs as they were attached, then the marks; nothing while nothing moved.
    assert!(frames.len() == 2 && frames.iter().all(|(has_rows, _)| !has_rows), "{frames:?}");
    assert_eq!(frames[0].1.len(), 2);
    assert_balanced(&rig, 0, Verdict::Balanced);
}

#[test]
fn so_many_bytes_begin_a_sync_and_no_two_are_under_way() {
    const BYTES: u64 = 64 << 10;
    let mut config = config(1);
    config.write.sync_interval_ns = 3_600_000 * MS;
    for (sync_bytes, syncs) in [(None, 0), (Some(BYTES), 1), (Some(4 << 10), 1)] {
        config.write.sync_bytes = sync_bytes;
        // A sync may take longer than a frame.
        let mut rig = Rig::begin_on(&config, 2 * FRAME_MS * MS);
        rig.attach(0, SESSION, 0);
        rig.attach(1, SESSION, 0);
        let mut durable_after = None;
        for _ in 0..3_000 {
            let written = rig.live.counts().bytes_written;
            rig.send(1);
            if rig.durable[0].1 > 0 {
                durable_after.get_or_insert(written);
            }
        }
        assert_eq!(rig.disks[0].syncs_max(), syncs, "{sync_bytes:?}");
        assert_eq!(durable_after.is_some(), sync_bytes.is_some());
        assert!(durable_after >= sync_bytes, "{durable_after:?} of {sync_bytes:?}");
        // What came while one was under way waits for the next one.
        assert!(sync_bytes != Some(4 << 10) || rig.durable[0].1 > 2_000, "{:?}", rig.durable);
        rig.end();
        assert_balanced(&rig, 0, Verdict::Balanced);
    }
}

#[test]
fn what_was_being_written_when_a_sync_began_is_durable_with_another_one() {
    let mut config = config(1);
    config.write.sync_bytes = Some(4 << 10);
    for events in 100..140 {
        let mut rig = Rig::begin_on(&config, 2 * FRAME_MS * MS);
        rig.attach(0, SESSION, 0);
        rig.attach(1, SESSION, 0);
        rig.send(events);
        // Nothing comes any more, and long before a checkpoint is written that is synced, too.
        rig.pass_ms(40 * FRAME_MS);
        assert_eq!(rig.durable, rig.made(), "{events} events");
        rig.end();
    }
}

#[test]
fn without_link_sources_nothing_states_positions() {
    let mut config = config(1);
    config.sources.iter_mut().for_each(|source| source.protocol = Arc::new(Hadtu));
    let mut rig = Rig::begin(&config);
    rig.send(100);
    rig.end();
    for file in rig.files_in(0) {
        assert_eq!(file.listed_positions().expect("reads"), None);
        assert_eq!(file.header().schema.columns.len(), 4 + 3 * SOURCES as usize);
        assert!(file.frames().iter().all(|frame| frame.info.rows > 0));
    }
}

#[test]
fn what_is_durable_is_so_in_each_required_target() {
    let mut rig = Rig::begin(&config(2));
    rig.attach(0, SESSION, 0);
    rig.attach(1, SESSION, 0);
    rig.send(200);
    let faults =
        StoreFaults { write_errors: ALWAYS, open_errors: ALWAYS, ..StoreFaults::default() };
    rig.disks[1].set_faults(faults);
    rig.send(300);
    let during = rig.durable.clone();
    rig.send(300);
    assert_eq!((&rig.durable, rig.logs[0].made), (&during, 800));
    assert!((100..=250).contains(&during[0].1), "{during:?}");
    // The folder that could not be written has counted out what it lacks.
    rig.disks[1].set_faults(StoreFaults::default());
    rig.pass_ms(1_500);
    rig.send(100);
    rig.until_durable();
    rig.end();
    let frames = [0, 1].map(|number| stated(&rig.files_in(number)));
    let last = frames.map(|all| all.into_iter().rev().find(|(_, links)| !links.is_empty()));
    assert_eq!(last[0], last[1]);
    assert_balanced(&rig, 0, Verdict::Balanced);
    assert_balanced(&rig, 1, Verdict::DataLost);
}

#[test]
fn a_new_session_counts_once_the_old_one_is_decided() {
    let mut rig = Rig::begin(&config(1));
    rig.attach(0, SESSION, 0);
    rig.attach(1, SESSION, 0);
    rig.send(100);
    rig.until_durable();
    // Events wait for the other source.
    let key = rig.key;
    (key..key + 10).for_each(|key| rig.send_one(0, key));
    rig.attach(0, SESSION + 9, 40);
    (key + 10..key + 20).for_each(|key| rig.send_one(0, key));
    rig.pass_ms(60);
    assert_eq!(rig.durable[0], (SESSION, 100));
    (key..key + 5).for_each(|key| rig.send_one(1, key));
    rig.pass_ms(80);
    assert_eq!(rig.durable[0], (SESSION, 105));
    (key + 5..key + 20).for_each(|key| rig.send_one(1, key));
    rig.until_durable();
    assert_eq!(rig.durable[0], (SESSION + 9, 50));
    rig.end();
    let frames = stated(&rig.files_in(0));
    let of_old = frames.iter().flat_map(|(_, links)| links).filter(|one| one.source == 0);
    let of_old = of_old.filter(|one| one.session == SESSION).map(|one| one.position).max();
    assert_eq!(of_old, Some(110));
}

#[test]
fn after_a_crash_the_files_have_all_that_was_said_to_be_durable() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut config = config(1);
        config.write.file_time_ns = (seed % 2 == 0).then_some(150 * MS);
        let mut rig = Rig::begin_on(&config, (1 + random.below(40)) * MS);
        rig.attach(0, SESSION, 0);
        rig.attach(1, SESSION, 0);
        if seed % 3 == 0 {
            let write_errors = 5 + random.below(20);
            rig.disks[0].set_faults(StoreFaults { write_errors, ..StoreFaults::default() });
        }
        for _ in 0..random.below(12) {
            rig.send(random.below(60));
            let sources = 1 + random.below(u64::from(SOURCES)) as u32;
            (0..sources).for_each(|source| rig.send_one(source, rig.key));
            rig.key += 1;
            rig.pass(random.below(2) as u32, 1);
            rig.pass_ms(random.below(40));
        }
        rig.files.crash(&mut random);
        let mut newest = [0; SOURCES as usize];
        for file in rig.files_in(0) {
            for frame in 0..file.frames().len() {
                // A column that had not reached the disk says nothing.
                let positions = file.positions(frame).unwrap_or_default();
                for one in positions.iter().filter(|one| one.what == Position::LINK) {
                    newest[one.source as usize] = one.position;
                }
            }
        }
        for (durable, newest) in rig.durable.iter().zip(newest) {
            assert!(
                durable.1 <= newest,
                "seed {seed}: {durable:?} was said, the files have {newest}"
            );
        }
    }
}

#[test]
fn what_no_required_folder_gets_is_durable_once_it_is_decided() {
    let mut config = config(2);
    // One required target keeps nothing; the other source's data go to a best-effort folder alone.
    (config.targets[0].place, config.targets[0].sources) =
        (Place::None, Some(vec!["link-0".into()]));
    config.targets[1].required = false;
    let mut rig = Rig::begin(&config);
    rig.disks[0].set_faults(StoreFaults { write_errors: ALWAYS, ..StoreFaults::default() });
    rig.attach(0, SESSION, 0);
    rig.attach(1, SESSION, 0);
    rig.send(100);
    rig.pass_ms(2 * FRAME_MS);
    assert_eq!(rig.durable, [(SESSION, 100); 2]);
}

#[test]
fn the_increments_of_the_frames_so_far_balance_behind_each_frame() {
    let mut late = 0;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut config = config(1);
        if seed % 2 == 0 {
            config.build.incomplete = IncompletePolicy::Drop;
        }
        config.sources.push(SourceConfig { name: "link-2".into(), ..config.sources[0].clone() });
        let mut rig = Rig::begin(&config);
        (0..3).for_each(|source| rig.attach(source, SESSION, 0));
        // Of the keys before the first one it is not known that they were numbered.
        rig.send(1);
        let mut faults = 0;
        for _ in 0..30 {
            rig.send(random.below(30));
            // The last source is behind, sometimes for longer than events wait.
            let keys = rig.key..rig.key + random.below(40);
            for key in keys.clone() {
                (0..2).for_each(|source| rig.send_one(source, key));
                if random.below(8) == 0 {
                    rig.logs[0].made += 1;
                    rig.put(Fragment::passed(0, 1, Some(Entry::FragmentsDiscardedUnfinished)));
                    faults += 1;
                }
            }
            // Its connection brings messages: it is silent, and not cut off.
            rig.put(Fragment::said(2, SourceNote::Quiet));
            rig.pass_ms(random.below(300));
            keys.clone().filter(|_| random.below(5) > 0).for_each(|key| rig.send_one(2, key));
            // Keys that no source delivers.
            rig.key = keys.end + random.below(3);
        }
        rig.end();
        assert_eq!(rig.durable, rig.made());
        let (mut sum, mut closed) = (Ledger::new(config.sources.len()), 0);
        for file in rig.files_in(0) {
            for frame in 0..file.frames().len() {
                let (own, problems) = frame_ledger(&file, frame);
                sum.add(&own);
                assert!(problems.is_empty());
                let balance = sum.balance();
                assert_eq!(balance.fragments_in_flight, 0, "seed {seed}, frame {frame}: {sum:?}");
                let stated = file.positions(frame).expect("positions").into_iter();
                let stated = stated.filter(|one| one.what == Position::CLOSED);
                closed = stated.map(|one| one.position).max().unwrap_or(closed);
                for source in &sum.sources {
                    let keys = [
                        Entry::FragmentsRecorded,
                        Entry::FragmentsDiscardedIncomplete,
                        Entry::FragmentsMissing,
                        Entry::FragmentsMissingUnrecorded,
                    ];
                    let keys: u64 = keys.iter().map(|&entry| source[entry]).sum();
                    assert_eq!(keys, closed, "seed {seed}, frame {frame}: {source:?}");
                }
            }
        }
        let total = sum.total();
        assert_eq!(
            total[Entry::FragmentsReceived],
            rig.logs.iter().map(|log| log.made).sum::<u64>()
        );
        assert_eq!(total[Entry::FragmentsDiscardedUnfinished], faults);
        late += total[Entry::FragmentsLate];
    }
    assert!(late > 100, "{late}");
}

#[test]
fn a_required_target_that_gets_one_source_states_that_one_alone_and_holds_up_all() {
    let mut config = config(2);
    config.targets[1].sources = Some(vec!["link-1".into()]);
    let mut rig = Rig::begin(&config);
    rig.attach(0, SESSION, 0);
    rig.attach(1, SESSION, 0);
    rig.send(100);
    let faults =
        StoreFaults { write_errors: ALWAYS, open_errors: ALWAYS, ..StoreFaults::default() };
    rig.disks[1].set_faults(faults);
    rig.send(400);
    // A run that is resumed goes on behind the last frame that both have.
    assert!(rig.durable.iter().all(|durable| durable.1 < 150), "{:?}", rig.durable);
    rig.disks[1].set_faults(StoreFaults::default());
    rig.pass_ms(1_500);
    rig.send(100);
    rig.until_durable();
    rig.end();
    let own = stated(&rig.files_in(1));
    let mut links = own.iter().flat_map(|(_, links)| links).peekable();
    assert!(links.peek().is_some() && links.all(|one| one.source == 1));
    assert!(stated(&rig.files_in(0)).iter().any(|(_, links)| links.len() == 2));
}

#[test]
fn nothing_is_durable_behind_a_frame_that_a_required_target_lacks_which_does_not_get_its_source() {
    let mut config = config(2);
    // The first gets both sources, the second only the other one.
    config.targets[1].sources = Some(vec!["link-1".to_owned()]);
    let positions = LinkPositions::new(&config, &Beginning::of(&config, None));
    let at = |source, position| Position { source, what: Position::LINK, session: 5, position };
    let durable = |wanted: u32| {
        let mut durable = None;
        positions.read(&mut |source, _, position| {
            durable = (source == SourceId(wanted)).then_some(position).or(durable);
        });
        durable
    };
    positions.settled(0, 1, &[at(0, 10), at(1, 20)]);
    assert_eq!((durable(0), durable(1)), (None, None));
    positions.settled(0, 2, &[at(0, 11)]);
    positions.settled(1, 1, &[at(1, 20)]);
    // A run that is resumed now goes on behind the first frame.
    assert_eq!((durable(0), durable(1)), (Some(10), Some(20)));
    positions.settled(0, 4, &[at(0, 13)]);
    positions.settled(1, 3, &[at(1, 22)]);
    // What the second frame has is known to be there, and no more.
    assert_eq!(durable(0), Some(11));
    positions.settled(1, 4, &[]);
    assert_eq!(durable(0), Some(13));
}
