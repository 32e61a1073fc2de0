use catchment_fixtures::{Random, hadtu_sources};
use catchment_frame::{EntryNames, FrameInfo, Numbering, Schema};
use catchment_model::RunId;
use catchment_ports::{MemoryStore, StoreFaults, StoreTimes, StoreWatch, VirtualClock};
use crossbeam_channel::{Sender, bounded};

use super::*;
use crate::state::{NodeState, StreamKey};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const BUFFER_BYTES: usize = 64 << 10;
/// Of a frame without columns.
const FRAME_BYTES: u64 = 4 << 10;

/// All that is begun hangs.
fn hangs() -> StoreFaults {
    StoreFaults { hangs: 1_000_000, ..StoreFaults::default() }
}

/// The writer of a stream, whose disks are in memory, and time the test's.
struct Rig {
    clock: VirtualClock,
    writer: Writer<MemoryStore>,
    input: Sender<Item>,
    node: NodeState,
    state: Arc<StreamState>,
    disks: Vec<StoreWatch>,
    sent: u64,
}

impl Rig {
    fn new(folders: usize, is_dealt: bool) -> Self {
        let clock = VirtualClock::at(100 * S);
        let paths: Vec<PathBuf> = (0..folders).map(|n| format!("/d{n}").into()).collect();
        let node = NodeState::new(1 << 20, &paths);
        let times = StoreTimes {
            operation_ns_max: MS,
            open_ns_max: MS,
            sync_interval_ns: 20 * MS,
            ..StoreTimes::default()
        };
        let store = |seed| MemoryStore::new((clock.clone(), seed), (8, BUFFER_BYTES), times);
        let stores: Vec<MemoryStore> = (1..=folders as u64).map(store).collect();
        let disks = stores.iter().map(MemoryStore::watch).collect();
        let (parts, input, state) =
            parts(stores, &paths, (node.folders.clone(), is_dealt), clock.now_ns());
        Self { clock, writer: Writer::new(parts), input, node, state, disks, sent: 0 }
    }

    /// Frames without columns come.
    fn send(&mut self, frames: u64) {
        for sequence in self.sent..self.sent + frames {
            self.input.send(frame(&self.node, sequence, self.clock.now_ns())).unwrap();
        }
        self.sent += frames;
    }

    /// Time passes, in steps of a millisecond.
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.clock.advance_to(self.clock.now_ns() + MS);
            assert!(!self.writer.work(self.clock.now_ns()).ended, "{:?}", self.state.fault);
        }
    }

    /// Time passes until that is so. What hangs does so for two minutes at most.
    fn pass_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..10 * 60_000 {
            if is_so(self) {
                return;
            }
            self.pass(1);
        }
        panic!("{:?}", self.node.snapshot());
    }

    fn durable(&self) -> u64 {
        self.state.durable.load(Relaxed)
    }

    /// The folder in which frames are written now.
    fn current(&self) -> usize {
        self.writer.files.current.as_ref().expect("a file").id.store
    }

    /// Why nothing can be written to a folder.
    fn fault(&self, folder: usize) -> Option<String> {
        self.node.snapshot().folders[folder].fault.clone()
    }
}

/// The parts of a stream's writer with these disks, and what gives it frames; its header has come.
pub(crate) fn parts<S>(
    stores: Vec<S>,
    paths: &[PathBuf],
    (folders, is_dealt): (Vec<Arc<FolderState>>, bool),
    now_ns: u64,
) -> (WriterParts<S>, Sender<Item>, Arc<StreamState>) {
    let name = "run".to_owned();
    let key = StreamKey { name, run: [7; 16], stream: 0, variant: 0, is_dealt };
    let state = Arc::new(StreamState::new(key, 0));
    let (input, items) = bounded(1_000);
    input.send(Item::Header(Box::new(header()))).unwrap();
    let parts = WriterParts {
        stores,
        disks: Disks::new(paths, 1 << 30, ROOM_BYTES, now_ns),
        listed: vec![0; paths.len()],
        folders,
        is_spread: paths.len() > 1,
        input: items,
        state: Arc::clone(&state),
        entropy: Box::new(Random::new(9)),
        next_index: 0,
        lacks_end: false,
        ledger: Ledger::new(0),
        buffer_bytes: BUFFER_BYTES,
        file_bytes: 1 << 30,
        sync_interval_ns: 20 * MS,
        sync_bytes: u64::MAX,
    };
    (parts, input, state)
}

/// A frame without columns.
pub(crate) fn frame(node: &NodeState, sequence: u64, taken_ns: u64) -> Item {
    Item::Frame(Box::new(StoredFrame {
        info: FrameInfo { sequence, ..FrameInfo::EMPTY },
        columns: Vec::new(),
        ledger: Ledger::new(1),
        end: sequence + 1,
        taken_ns,
        _memory: node.memory.reserve(1).unwrap(),
    }))
}

fn header() -> FileHeader {
    FileHeader {
        run: RunId([7; 16]),
        run_number: 1,
        file_index: 0,
        file_id: 0,
        created_ns: 0,
        writer: String::new(),
        config: String::new(),
        emulated: false,
        schema: Schema::events(hadtu_sources(1, |_| true)).into(),
        ledger_entries: EntryNames::default(),
        locator: true,
        numbering: Numbering::Run,
        variant: 0,
        target: None,
        part: None,
        stream: 0,
        epoch: 0,
        superseded: Vec::new(),
        base: None,
    }
}

#[test]
fn so_many_bytes_begin_a_sync_and_no_two_are_under_way() {
    for (frames, syncs) in [(u64::MAX >> 12, 0), (20, 1), (1, 1)] {
        let mut rig = Rig::new(1, false);
        rig.writer.sync_interval_ns = u64::MAX;
        rig.writer.sync_bytes = frames * FRAME_BYTES;
        rig.send(19);
        rig.pass(100);
        assert_eq!(rig.durable(), if frames == 1 { 19 } else { 0 }, "{frames}");
        rig.send(1);
        rig.pass(100);
        assert_eq!(rig.durable(), 20 * syncs, "{frames}");
        assert_eq!(rig.disks[0].syncs_max(), syncs);
    }
}

#[test]
fn a_stream_whose_only_disk_hangs_waits_after_5_s_until_the_disk_answers() {
    for is_dealt in [true, false] {
        let mut rig = Rig::new(1, is_dealt);
        rig.send(3);
        rig.pass_until(|rig| rig.durable() == 3);
        rig.disks[0].set_faults(hangs());
        rig.send(1);
        rig.pass(4_900);
        assert_eq!((rig.state.waits(), rig.fault(0)), (false, None));
        rig.disks[0].set_faults(StoreFaults::default());
        rig.pass(200);
        // Who deals it its frames is told; another sender has no other node for them.
        assert_eq!((rig.state.waits(), rig.durable()), (is_dealt, 3));
        let why = rig.fault(0).expect("the node says so in any case");
        assert!(why.contains("/d0 has not completed a write, a sync or a close for 5 s"), "{why}");
        assert_eq!(*rig.state.hang.lock(), Some(why));
        rig.pass_until(|rig| rig.durable() == 4);
        assert_eq!((rig.state.waits(), rig.fault(0)), (false, None));
        assert_eq!(rig.node.snapshot().folders[0].failures, 1);
        rig.send(1);
        rig.pass_until(|rig| rig.durable() == 5);
    }
}

#[test]
fn a_stream_waits_while_no_file_is_made() {
    let mut rig = Rig::new(1, true);
    rig.disks[0].set_faults(hangs());
    rig.send(1);
    rig.pass(5_100);
    assert!(rig.state.waits() && rig.durable() == 0);
    rig.disks[0].set_faults(StoreFaults::default());
    rig.pass_until(|rig| rig.durable() == 1);
    assert!(!rig.state.waits());
}

#[test]
fn of_several_disks_one_that_hangs_is_left_and_the_others_go_on() {
    let mut rig = Rig::new(2, false);
    rig.send(3);
    rig.pass_until(|rig| rig.durable() == 3);
    let (first, frames) = (rig.current(), |rig: &Rig| rig.state.frames.load(Relaxed));
    let (other, before) = (1 - first, rig.node.snapshot().folders[first].bytes);
    rig.disks[first].set_faults(hangs());
    // What the disk has been given stays there.
    rig.send(1);
    rig.pass(1_100);
    rig.send(20);
    rig.pass_until(|rig| frames(rig) == 23);
    assert_eq!(rig.current(), other);
    assert_eq!(rig.node.snapshot().folders[first].bytes, before);
    assert!(rig.fault(first).is_some() && rig.fault(other).is_none());
    // Nothing behind it is durable before it is.
    rig.pass(2_000);
    assert_eq!(rig.durable(), 3);
    rig.disks[first].set_faults(StoreFaults::default());
    rig.pass_until(|rig| rig.durable() == 24);
    assert_eq!((frames(&rig), rig.state.waits()), (24, false));
    rig.pass_until(|rig| rig.fault(first).is_none());
}
