//! A target whose node is not there, in virtual time.

use std::io;
use std::path::Path;

use catchment_agent::{Dial, Waker};
use catchment_encoder::{Coding, Element, Level};
use catchment_fixtures::Random;
use catchment_frame::{EventColumns, FrameInfo, FrameKind};
use catchment_model::{Entry, Ledger, RunId};
use catchment_sender::{StreamConfig, StreamSession};
use catchment_writer::{FrameColumn, FrameUnderWay, Next, ledger_column};

use super::*;
use crate::config::{RecorderConfig, SourceConfig};
use crate::file::OfRun;
use crate::frame_counts::SourceCounts;
use crate::live::Live;
use crate::schema::schema;
use crate::spill::{Found, StreamLock};
use crate::store_link::StoreLink;
use crate::target_config::{NodeConfig, Place, TargetConfig};
use crate::target_queue::{QueueParts, TargetQueue, target_queue};

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

/// A target, and the frames agent's end of its queue.
struct Both {
    live: Arc<Live>,
    queue: [TargetQueue; 1],
    target: StoreTarget,
    head: FrameHead,
}

impl Both {
    fn new(target: TargetConfig, end_wait_ns: u64) -> Self {
        Self::at(&["nobody:1"], target, end_wait_ns)
    }

    /// With a node at each of these addresses.
    fn at(addresses: &[&str], target: TargetConfig, end_wait_ns: u64) -> Self {
        let addresses: Vec<String> = addresses.iter().map(|&one| one.to_owned()).collect();
        let node = NodeConfig { addresses: addresses.clone(), ..NodeConfig::at("") };
        let place = Place::Node(node);
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
            is_dealt: addresses.len() > 1,
        };
        let link = |address: String| {
            let session = StreamSession::new(of_session.clone(), 1, 2).unwrap();
            let mut link = StoreLink::new(Box::new(Nobody::default()), session, address);
            link.header = OfRun::of(&config).header(run, &schema, 0).encode();
            link
        };
        let links = addresses.into_iter().map(link).collect();
        let spill = target.spill.map(|config| SpillParts {
            config,
            identity: Identity {
                node: "nobody:1".to_owned(),
                name: "run".to_owned(),
                run,
                stream: 0,
                variant: 0,
                begins: 0,
            },
            counts: Arc::clone(live.targets[0].spill.as_ref().unwrap()),
            entropy: Box::new(Random::new(1)),
        });
        let head = FrameHead {
            ledger: EventColumns::of(&schema).ledger_increment.unwrap(),
            schema,
            info: FrameInfo { rows: 3, key_last: 2, ..FrameInfo::EMPTY },
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
        let parts = StoreParts { run, links, hold_bytes: 1 << 20, spill, end_wait_ns };
        let target = StoreTarget::new(input, TargetLedger::new(&live, 0), parts, 0);
        Self { live, queue: [queue], target, head }
    }

    fn head(&self, sequence: u64) -> Arc<FrameHead> {
        let info = FrameInfo { sequence, ..self.head.info };
        Arc::new(FrameHead { info, ..self.head.clone() })
    }

    /// Offers a frame without columns. Returns whether the target takes it.
    fn offer(&mut self, sequence: u64, now_ns: u64) -> bool {
        let head = self.head(sequence);
        self.queue[0].begin(&head);
        self.target.work(now_ns);
        let takes = TargetQueue::admitted(&mut self.queue).is_some_and(|all| all.takes);
        self.queue[0].end(&[]);
        self.target.work(now_ns);
        takes
    }

    fn end(&mut self, sequence: u64) {
        let head = self.head(sequence);
        let (form, records) = ledger_column(head.ledger, &head.increment, &head.increment);
        let bytes = ColumnBytes::Own(records);
        let column = FrameColumn::small(form, Element::Bytes, Coding::None, bytes);
        let mut frame = FrameUnderWay::new(vec![column]);
        let Next::Column(column) = FrameEncoder::new(None).next(&mut frame, Level::AsAsked) else {
            panic!("there is a column")
        };
        self.queue[0].end_run(&head, vec![Arc::new(column)]);
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
    assert_eq!((counts, &run.target.refusal), ([300, 0], &None));
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
    let mut run = Both::at(&["nobody:1", "nobody:2"], target, SECOND_NS);
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
