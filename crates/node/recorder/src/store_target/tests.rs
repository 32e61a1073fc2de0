//! A target whose node is not there, in virtual time.

use std::io;
use std::path::Path;

use catchment_agent::{Dial, Waker};
use catchment_encoder::{Coding, Element, Level};
use catchment_fixtures::Random;
use catchment_frame::{EventColumns, FrameInfo, FrameKind};
use catchment_model::{Entry, Ledger, RunId};
use catchment_sender::{StreamConfig, StreamSession};
use catchment_wire::session::{
    Bye, ByeReason, Connection, Encoder, Grant, GrantAnswer, Grants, LogPositions, NONE, Positions,
    Preamble, RunState, Service, Welcome,
};
use catchment_writer::{ColumnForm, FrameColumn, FrameUnderWay, Next, ledger_column};
use parking_lot::Mutex;

use super::*;
use crate::config::{RecorderConfig, SourceConfig};
use crate::file::OfRun;
use crate::frame_counts::SourceCounts;
use crate::live::Live;
use crate::schema::schema;
use crate::spill::{Found, Identity, SpillConfig, StreamLock};
use crate::spill_counts::SpillReport;
use crate::store_link::StoreLink;
use crate::target_config::{NodeConfig, Place, TargetConfig};
use crate::target_queue::{QueueParts, TargetQueue, target_queue};

#[path = "shares.rs"]
mod shares;

const SECOND_NS: u64 = 1_000_000_000;

/// A node that refuses all connections.
#[derive(Default)]
struct Nobody(bool);

impl Dial for Nobody {
    fn connect(&mut self, _: usize) {
        self.0 = true;
    }

    fn take_outcome(&mut self, _: usize) -> Option<io::Result<()>> {
        std::mem::take(&mut self.0).then(|| Err(io::ErrorKind::ConnectionRefused.into()))
    }

    fn write(&mut self, _: usize, _: &[&[u8]]) -> io::Result<usize> {
        Err(io::ErrorKind::NotConnected.into())
    }

    fn read(&mut self, _: usize, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::NotConnected.into())
    }

    fn close(&mut self, _: usize) {}
}

/// What a node that is there has said, and that was not read yet.
#[derive(Default)]
struct Peer {
    is_there: bool,
    outcomes: [bool; 2],
    control: Vec<u8>,
    messages: u32,
    durable: u64,
    /// Whether it says nothing, though it has broken off nothing either.
    is_silent: bool,
}

impl Peer {
    fn say(&mut self, encode: impl FnOnce(&mut [u8], u32) -> usize) {
        let mut message = [0; 512];
        let end = encode(&mut message, self.messages);
        self.control.extend_from_slice(&message[..end]);
        self.messages += 1;
    }

    /// Admits the session, which goes on behind what is durable.
    fn admit(&mut self) {
        let preamble = Preamble {
            session_min: 1,
            session_max: 1,
            service: Service::Storage,
            service_min: 1,
            service_max: 1,
            connection: Connection::Control,
        };
        (self.control, self.messages) = (preamble.encode().to_vec(), 0);
        let welcome = Welcome {
            session: 1,
            run: [7; 16],
            ticket: [2; 16],
            run_number: 0,
            stream: 0,
            epoch: 0,
            state: RunState::Recording,
            features: 0,
            command: 0,
            ping_ms: 500,
            silence_ms: 2_500,
            skew_bytes: 0,
            message_bytes_max: 65_536,
            log_count: 1,
        };
        self.say(|out, number| Encoder::begin(out, number, &welcome).finish("", &[]));
        let mut service = [0; 32];
        service[0] = 1;
        let grant = Grant {
            log: 0,
            answer: GrantAnswer::Joins,
            reason: ByeReason::DONE,
            next: self.durable,
            durable: self.durable,
            source: NONE,
            service,
        };
        self.say(|out, number| {
            let mut grants = Encoder::begin(out, number, &Grants {});
            assert!(grants.push(&grant));
            grants.finish("", &[])
        });
    }

    /// It has read all that was sent.
    fn positions(&mut self) {
        let positions = Positions { cookie: 0, epoch: 0, unread: 0, received: [u64::MAX; 16] };
        let log = LogPositions { log: 0, flags: 0, taken: self.durable, durable: self.durable };
        self.say(|out, number| {
            let mut message = Encoder::begin(out, number, &positions);
            assert!(message.push(&log));
            message.finish("", &[])
        });
    }

    fn bye(&mut self, reason: ByeReason) {
        let bye = Bye { reason, retry_ms: 0, detail: 0 };
        self.say(|out, number| Encoder::begin(out, number, &bye).finish("", &[]));
    }
}

/// The way to such a node.
struct ToPeer(Arc<Mutex<Peer>>);

impl Dial for ToPeer {
    fn connect(&mut self, number: usize) {
        let mut peer = self.0.lock();
        peer.outcomes[number] = true;
        if number == 0 {
            peer.admit();
        }
    }

    fn take_outcome(&mut self, number: usize) -> Option<io::Result<()>> {
        let mut peer = self.0.lock();
        if peer.is_silent {
            return None;
        }
        let result = match peer.is_there {
            true => Ok(()),
            false => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        std::mem::take(&mut peer.outcomes[number]).then_some(result)
    }

    fn write(&mut self, _: usize, slices: &[&[u8]]) -> io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }

    fn read(&mut self, number: usize, buffer: &mut [u8]) -> io::Result<usize> {
        let mut peer = self.0.lock();
        if number != 0 {
            return Ok(0);
        }
        if !peer.is_there {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let bytes = buffer.len().min(peer.control.len());
        for (to, byte) in buffer.iter_mut().zip(peer.control.drain(..bytes)) {
            *to = byte;
        }
        Ok(bytes)
    }

    fn close(&mut self, _: usize) {}
}

/// A target, and the frames agent's end of its queue.
struct Both {
    live: Arc<Live>,
    queue: [TargetQueue; 1],
    target: StoreTarget,
    head: FrameHead,
}

impl Both {
    fn new(target: TargetConfig, end_wait_ns: u64) -> Self {
        Self::at(target, end_wait_ns, vec![Box::new(Nobody::default())])
    }

    /// Two nodes share the frames.
    fn shared() -> (Self, [Arc<Mutex<Peer>>; 2]) {
        Self::shared_as(TargetConfig::folder("node", "".into()))
    }

    fn shared_as(target: TargetConfig) -> (Self, [Arc<Mutex<Peer>>; 2]) {
        let peers =
            [(); 2].map(|()| Arc::new(Mutex::new(Peer { is_there: true, ..Peer::default() })));
        let to = |peer: &Arc<Mutex<Peer>>| Box::new(ToPeer(Arc::clone(peer))) as Box<dyn Dial>;
        (Self::at(target, SECOND_NS, peers.iter().map(to).collect()), peers)
    }

    fn at(target: TargetConfig, end_wait_ns: u64, dials: Vec<Box<dyn Dial>>) -> Self {
        let is_dealt = dials.len() > 1;
        let addresses = (1..=dials.len()).map(|port| format!("nobody:{port}")).collect();
        let place = Place::Node(NodeConfig { addresses, ..NodeConfig::at("") });
        let target = TargetConfig { place, trends: false, ..target };
        let source = SourceConfig::new("source".to_owned(), ([127, 0, 0, 1], 0).into());
        let mut config = RecorderConfig::new("".into(), vec![source]);
        config.targets = vec![target.clone()];
        let live = Arc::new(Live::new(&config));
        let schema = Arc::new(schema(&config).unwrap());
        let parts = QueueParts {
            live: Arc::clone(&live),
            number: 0,
            selection: None,
            target: Waker::default(),
            frames: Waker::default(),
        };
        let (queue, input) = target_queue(&config, parts);
        let run = RunId([7; 16]);
        let of_session = StreamConfig {
            name: "run".to_owned(),
            program: "test".to_owned(),
            token: String::new(),
            run: run.0,
            stream: 0,
            variant: 0,
            buffer_bytes: 1 << 20,
            first: 0,
            is_dealt,
        };
        let header = OfRun::of(&config).header(run, &schema, 0);
        let link = |(port, dial)| {
            let session = StreamSession::new(of_session.clone(), 1, 2).unwrap();
            StoreLink::new(dial, session, format!("nobody:{port}"))
        };
        let links = (1..).zip(dials).map(link).collect();
        let spill = target.spill.map(|config| SpillParts {
            config,
            identity: Identity {
                node: target.place.node().unwrap().shown(),
                name: "run".to_owned(),
                run,
                stream: 0,
                variant: 0,
                begins: 0,
            },
            header: Vec::new(),
            counts: Arc::clone(live.targets[0].spill.as_ref().unwrap()),
            entropy: Box::new(Random::new(1)),
        });
        let head = FrameHead {
            ledger: EventColumns::of(&schema).ledger_increment.unwrap(),
            schema,
            // Rows would need columns: what is spilled is checked when it is read back.
            info: FrameInfo::EMPTY,
            columns: 1,
            bytes_max: 0,
            list: Vec::new(),
            channels: Arc::default(),
            counts: vec![SourceCounts { fragments: 3, ..SourceCounts::default() }],
            keys: 3,
            increment: Ledger::new(1),
            positions: Arc::default(),
            position_column: None,
            small: Coding::None,
            is_last: false,
        };
        let mut parts = StoreParts { run, links, hold_bytes: 1 << 20, spill, end_wait_ns };
        parts.set_header(&header, "node");
        let target = StoreTarget::new(input, TargetLedger::new(&live, 0), parts, 0);
        Self { live, queue: [queue], target, head }
    }

    fn head(&self, sequence: u64) -> Arc<FrameHead> {
        let info = FrameInfo { sequence, ..self.head.info };
        Arc::new(FrameHead { info, ..self.head.clone() })
    }

    /// Offers a frame without columns. Returns whether the target takes it.
    fn offer(&mut self, sequence: u64, now_ns: u64) -> bool {
        self.offer_with(sequence, now_ns, &[])
    }

    fn offer_with(&mut self, sequence: u64, now_ns: u64, columns: &[SharedColumn]) -> bool {
        let head = self.head(sequence);
        self.queue[0].begin(&head);
        self.target.work(now_ns);
        let takes = TargetQueue::admitted(&mut self.queue).is_some_and(|all| all.takes);
        columns.iter().for_each(|column| self.queue[0].put(column));
        self.queue[0].end(&[]);
        self.target.work(now_ns);
        takes
    }

    fn end(&mut self, sequence: u64) {
        let head = self.head(sequence);
        let (form, records) = ledger_column(head.ledger, &head.increment, &head.increment);
        self.queue[0].end_run(&head, vec![column(form, records)]);
    }
}

/// A column that is stored as it is.
fn column(form: ColumnForm, bytes: Vec<u8>) -> SharedColumn {
    let bytes = ColumnBytes::Own(bytes);
    let column = FrameColumn::small(form, Element::Bytes, Coding::None, bytes);
    let mut frame = FrameUnderWay::new(vec![column]);
    match FrameEncoder::new(None).next(&mut frame, Level::AsAsked) {
        Next::Column(column) => Arc::new(column),
        _ => panic!("there is a column"),
    }
}

fn spilling(folder: &Path) -> TargetConfig {
    let spill = SpillConfig { folder: folder.to_owned(), bytes_max: 1 << 30 };
    TargetConfig { spill: Some(spill), ..TargetConfig::folder("node", "".into()) }
}

#[test]
fn a_run_that_takes_long_to_end_is_spilled_whole_while_its_node_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Both::new(spilling(folder.path()), SECOND_NS / 2);
    let mut now_ns = SECOND_NS;
    assert!(run.offer(0, now_ns));
    run.live.is_ending.store(true, Relaxed);
    // What the pipeline still has comes for longer than the end waits for the node.
    for sequence in 1..100 {
        now_ns += SECOND_NS;
        run.target.work(now_ns);
        assert!(run.offer(sequence, now_ns), "{:?}", run.target.refusal);
    }
    run.end(100);
    while !run.target.work(now_ns).ended {
        now_ns += SECOND_NS / 10;
        assert!(now_ns < 200 * SECOND_NS, "it ends");
    }
    let total = run.live.targets[0].total(&run.live.ledger).total();
    let counts = [Entry::FragmentsDurable, Entry::FragmentsDiscardedDisk].map(|one| total[one]);
    // Those of the last frame, too: it is there, since it says what was spilled.
    assert_eq!((counts, &run.target.refusal), ([303, 0], &None));
    drop(run);
    let Found::Stream(lock) = StreamLock::find(&folder.path().join("run")).unwrap() else {
        panic!("it is left to the forwarder")
    };
    assert!(lock.end.is_some());
}

#[test]
fn frames_that_were_not_taken_at_the_end_are_stood_for_before_the_last_one() {
    let best_effort = TargetConfig { required: false, ..TargetConfig::folder("node", "".into()) };
    let mut run = Both::new(best_effort, SECOND_NS);
    assert!(run.offer(0, SECOND_NS));
    let fill = Arc::clone(&run.live.targets[0].queue);
    fill.put(1 << 40);
    assert!(!run.offer(1, SECOND_NS) && !run.offer(2, SECOND_NS));
    run.end(3);
    run.target.work(SECOND_NS);
    let held = run.target.nodes.held().map(|held| held.frame.info);
    let held: Vec<_> = held.map(|info| (info.sequence, info.kind == FrameKind::SKIPPED)).collect();
    assert_eq!(held, [(0, false), (1, true), (3, false)]);
    assert_eq!(run.target.close, Some(4));
}

#[test]
fn frames_wait_for_several_nodes_that_are_away_and_are_counted_when_none_comes() {
    let target = TargetConfig::folder("node", "".into());
    let nobody = || Box::new(Nobody::default()) as Box<dyn Dial>;
    let mut run = Both::at(target, SECOND_NS, vec![nobody(), nobody()]);
    for sequence in 0..10 {
        assert!(run.offer(sequence, SECOND_NS * (sequence + 1)));
    }
    // Neither gets what is held for the other.
    assert_eq!(run.target.nodes.all.iter().map(|node| node.held.len()).collect::<Vec<_>>(), [5, 5]);
    let away = run.live.targets[0].away.lock().clone().expect("none takes anything");
    assert!(away.contains("nobody:1: ") && away.contains("nobody:2: "), "{away}");
    run.live.is_ending.store(true, Relaxed);
    run.end(10);
    let mut now_ns = 10 * SECOND_NS;
    while !run.target.work(now_ns).ended {
        now_ns += SECOND_NS / 10;
        assert!(now_ns < 20 * SECOND_NS, "it ends");
    }
    let total = run.live.targets[0].total(&run.live.ledger).total();
    let counts = [Entry::FragmentsDurable, Entry::FragmentsDiscardedDisk].map(|one| total[one]);
    assert_eq!(counts, [0, 30]);
    let refusal = run.target.refusal.as_ref().expect("it says why");
    assert!(refusal.contains("nobody:1, nobody:2"), "{refusal}");
}

/// Offers a frame a second. Returns how many were spilled so far.
fn spilled(run: &mut Both) -> u64 {
    let spill = Arc::clone(run.live.targets[0].spill.as_ref().unwrap());
    for _ in 0..20 {
        let now_ns = run.target.now_ns + SECOND_NS;
        assert!(run.offer(run.target.end, now_ns));
    }
    spill.read().frames_spilled
}

#[test]
fn a_spill_whose_header_cannot_be_written_is_made_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Both::new(spilling(folder.path()), SECOND_NS);
    // In the way of the file.
    let header = folder.path().join("run/STREAM.header");
    std::fs::create_dir_all(&header).unwrap();
    assert_eq!(spilled(&mut run), 0);
    std::fs::remove_dir(&header).unwrap();
    assert!(spilled(&mut run) > 0);
}

#[test]
fn a_file_of_another_with_the_name_of_the_next_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Both::new(spilling(folder.path()), SECOND_NS);
    let other = folder.path().join("run/spill-00000-0.catch");
    std::fs::create_dir_all(other.parent().unwrap()).unwrap();
    std::fs::write(&other, "somebody's").unwrap();
    assert!(spilled(&mut run) > 0);
    assert_eq!(std::fs::read_to_string(other).unwrap(), "somebody's");
}

impl Both {
    /// Time passes, in which nodes that are there say how far they are.
    fn pass(&mut self, peers: &[Arc<Mutex<Peer>>; 2], ns: u64) -> bool {
        let until_ns = self.target.now_ns + ns;
        while self.target.now_ns < until_ns {
            for (peer, node) in peers.iter().zip(&self.target.nodes.all) {
                let mut peer = peer.lock();
                if peer.is_there && !peer.is_silent && node.link.session.is_open() {
                    peer.positions();
                }
            }
            if self.target.work(self.target.now_ns + SECOND_NS / 20).ended {
                return true;
            }
        }
        false
    }

    /// Frames that are held for each node.
    fn held(&self) -> [usize; 2] {
        [0, 1].map(|index| self.target.nodes.all[index].held.len())
    }

    fn warnings(&self) -> String {
        self.live.snapshot().warnings.join("\n")
    }

    fn has_failed(&self) -> bool {
        let state = &self.live.snapshot().targets[0].state;
        matches!(state, State::Fault { .. })
    }

    /// All frames that are held for a node become durable there.
    fn store(&mut self, peer: &Mutex<Peer>, index: usize) {
        peer.lock().durable = self.target.nodes.all[index].end_item(0);
    }
}

#[test]
fn a_node_that_breaks_off_again_and_again_leaves_its_frames_to_others() {
    let (mut run, peers) = Both::shared();
    run.pass(&peers, SECOND_NS);
    let now_ns = run.target.now_ns;
    assert!(run.offer(0, now_ns));
    let index = run.target.nodes.of_oldest().unwrap();
    // It is back within a second each time, and stores nothing.
    for _ in 0..20 {
        peers[index].lock().is_there = false;
        run.pass(&peers, SECOND_NS / 20);
        peers[index].lock().is_there = true;
        run.target.nodes.all[index].link.session.hurry(run.target.now_ns);
        run.pass(&peers, SECOND_NS / 5);
        assert!(run.target.nodes.all[index].link.session.is_open(), "{}", run.warnings());
    }
    assert_eq!((run.held()[index], run.held()[1 - index]), (0, 1), "{}", run.warnings());
}

#[test]
fn a_node_that_stores_nothing_leaves_its_frames_to_others_at_the_end() {
    let (mut run, peers) = Both::shared();
    run.pass(&peers, SECOND_NS);
    let now_ns = run.target.now_ns;
    assert!(run.offer(0, now_ns));
    let index = run.target.nodes.of_oldest().unwrap();
    run.live.is_ending.store(true, Relaxed);
    run.end(1);
    assert!(!run.pass(&peers, 59 * SECOND_NS) && run.held()[index] > 0);
    run.pass(&peers, 2 * SECOND_NS);
    assert_eq!((run.held()[index], &run.target.refusal), (0, &None), "{}", run.warnings());
    let other = 1 - index;
    run.store(&peers[other], other);
    run.pass(&peers, SECOND_NS);
    assert_eq!(run.held(), [0, 0]);
    let total = run.live.targets[0].total(&run.live.ledger).total();
    let counts = [Entry::FragmentsDurable, Entry::FragmentsDiscardedDisk].map(|one| total[one]);
    assert_eq!(counts, [3, 0]);
    // Nobody acknowledges the end: nothing is lost by that.
    let has_ended = run.pass(&peers, 70 * SECOND_NS);
    assert!(has_ended && !run.has_failed(), "{}", run.warnings());
    assert!(run.warnings().contains("has not acknowledged the run's end"), "{}", run.warnings());
}

/// All frames are durable, and no node is there any more when the run is to end.
fn ending_without_nodes() -> (Both, [Arc<Mutex<Peer>>; 2]) {
    let (mut run, peers) = Both::shared();
    run.pass(&peers, SECOND_NS);
    let now_ns = run.target.now_ns;
    assert!(run.offer(0, now_ns));
    let index = run.target.nodes.of_oldest().unwrap();
    run.store(&peers[index], index);
    run.pass(&peers, SECOND_NS);
    assert_eq!(run.held(), [0, 0]);
    peers.iter().for_each(|peer| peer.lock().is_there = false);
    run.pass(&peers, 2 * SECOND_NS);
    run.live.is_ending.store(true, Relaxed);
    run.end(1);
    (run, peers)
}

#[test]
fn a_node_that_comes_back_while_the_run_is_being_closed_is_told_its_end() {
    let (mut run, peers) = ending_without_nodes();
    assert!(!run.pass(&peers, SECOND_NS / 2), "no node has been told");
    peers[0].lock().is_there = true;
    run.target.nodes.all[0].link.session.hurry(run.target.now_ns);
    assert!(!run.pass(&peers, 5 * SECOND_NS), "{}", run.warnings());
    peers[0].lock().durable += 1;
    run.pass(&peers, SECOND_NS / 10);
    peers[0].lock().bye(ByeReason::DONE);
    assert!(run.pass(&peers, SECOND_NS) && !run.has_failed(), "{}", run.warnings());
}

#[test]
fn a_run_of_which_all_is_durable_ends_when_no_node_comes_back_to_be_told() {
    let (mut run, peers) = ending_without_nodes();
    assert!(run.pass(&peers, 5 * SECOND_NS) && !run.has_failed(), "{}", run.warnings());
    assert!(run.warnings().contains("has not acknowledged the run's end"), "{}", run.warnings());
}

#[test]
fn the_last_of_several_nodes_may_end_for_a_reason_when_all_is_durable() {
    let (mut run, peers) = Both::shared();
    run.pass(&peers, SECOND_NS);
    let now_ns = run.target.now_ns;
    assert!(run.offer(0, now_ns));
    run.live.is_ending.store(true, Relaxed);
    run.end(1);
    run.pass(&peers, SECOND_NS);
    for index in [0, 1] {
        run.store(&peers[index], index);
    }
    run.pass(&peers, SECOND_NS);
    assert_eq!(run.held(), [0, 0]);
    // One acknowledges the end, and the other one cannot.
    peers[0].lock().durable += 1;
    run.pass(&peers, SECOND_NS);
    peers[0].lock().bye(ByeReason::DONE);
    run.pass(&peers, SECOND_NS);
    assert!(run.target.nodes.all[0].has_ended);
    peers[1].lock().bye(ByeReason::NAME);
    let has_ended = run.pass(&peers, SECOND_NS);
    assert!(has_ended && !run.has_failed(), "{}", run.warnings());
    assert!(run.warnings().contains("all frames are durable"), "{}", run.warnings());
}

impl Both {
    fn spill(&self) -> SpillReport {
        self.live.targets[0].spill.as_ref().expect("it has one").read()
    }

    /// Offers so many frames, one a second.
    fn offer_frames(&mut self, peers: &[Arc<Mutex<Peer>>; 2], count: u64) {
        for _ in 0..count {
            let now_ns = self.target.now_ns;
            assert!(self.offer(self.target.end, now_ns), "{}", self.warnings());
            self.pass(peers, SECOND_NS);
        }
    }

    /// The numbers of spilled frames that are under way.
    fn under_way(&self) -> Vec<u64> {
        self.target.nodes.spilled().map(|frame| frame.info.sequence).collect()
    }
}

#[test]
fn of_several_nodes_each_must_be_away_before_a_frame_is_spilled_and_one_gets_all_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut run, peers) = Both::shared_as(spilling(folder.path()));
    run.pass(&peers, SECOND_NS);
    peers[0].lock().is_there = false;
    for _ in 0..4 {
        run.offer_frames(&peers, 1);
        run.store(&peers[1], 1);
    }
    run.pass(&peers, SECOND_NS);
    assert_eq!((run.held(), run.spill()), ([0, 0], SpillReport::default()), "the other takes them");
    peers[1].lock().is_there = false;
    run.offer_frames(&peers, 8);
    let spilled = run.spill();
    assert!(spilled.frames_spilled >= 4 && spilled.frames_forwarded == 0, "{spilled:?}");
    // One frame at first, the oldest; more once it is durable there.
    peers[0].lock().is_there = true;
    run.pass(&peers, 4 * SECOND_NS);
    assert_eq!((run.under_way(), run.held()[1]), (vec![4], 0));
    run.offer_frames(&peers, 2);
    run.store(&peers[0], 0);
    run.pass(&peers, SECOND_NS);
    let all: Vec<u64> = run.under_way();
    assert!(!all.is_empty() && all.iter().copied().eq(5..5 + all.len() as u64), "{all:?}");
    run.store(&peers[0], 0);
    run.pass(&peers, SECOND_NS);
    run.store(&peers[0], 0);
    run.pass(&peers, SECOND_NS);
    let after = run.spill();
    assert_eq!((after.frames_waiting, after.frames_forwarded), (0, after.frames_spilled));
    // What comes goes to nodes at once.
    run.offer_frames(&peers, 2);
    assert_eq!((run.held()[0], run.spill().frames_spilled), (2, after.frames_spilled));
    run.store(&peers[0], 0);
    run.pass(&peers, SECOND_NS);
    let total = run.live.targets[0].total(&run.live.ledger).total();
    let counts = [Entry::FragmentsRecorded, Entry::FragmentsDurable].map(|one| total[one]);
    assert_eq!(counts, [3 * 16; 2], "each is counted once");
    let moved = [Entry::FragmentsSpilled, Entry::FragmentsForwarded].map(|one| total[one]);
    assert_eq!(moved, [3 * after.frames_spilled; 2]);
}

#[test]
fn what_several_nodes_have_of_a_spill_is_noted_where_the_run_ends_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let (mut run, peers) = Both::shared_as(spilling(folder.path()));
    peers.iter().for_each(|peer| peer.lock().is_there = false);
    run.offer_frames(&peers, 6);
    peers[1].lock().is_there = true;
    run.pass(&peers, 4 * SECOND_NS);
    assert_eq!(run.under_way(), [0]);
    run.store(&peers[1], 1);
    run.pass(&peers, SECOND_NS);
    assert_eq!(run.under_way().first(), Some(&1));
    peers[1].lock().is_there = false;
    run.live.is_ending.store(true, Relaxed);
    run.end(6);
    assert!(run.pass(&peers, 20 * SECOND_NS) && !run.has_failed(), "{}", run.warnings());
    assert_eq!(run.spill().frames_lost, 0);
    drop(run);
    let Found::Stream(lock) = StreamLock::find(&folder.path().join("run")).unwrap() else {
        panic!("it is left to the forwarder")
    };
    assert_eq!((lock.below, lock.end.is_some()), (Some(1), true));
}
