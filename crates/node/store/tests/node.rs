//! A recorder and a storage node in one process: what front-ends send is in the node's files, once,
//! whatever breaks on the way there.

mod access;
mod dealt;
mod generations;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catchment_disk::{DiskConfig, FaultControl, FaultPlan};
use catchment_fixtures::{Random, free, wait_while};
use catchment_frame::{ColumnCoding, FILE_LIST_NAME, FileListLine};
use catchment_frontend::{Closed, Frontend};
use catchment_model::{Entry, Ledger, SourceId};
use catchment_recorder::{
    LinkAccess, NodeConfig, Place, Recorder, RecorderConfig, RunSummary, SourceConfig, State,
    TargetConfig, TlsRule,
};
use catchment_storage::{Run, RunOptions, Verdict, audit, repair, verify};
use catchment_store::{Node, StoreConfig};

mod spill;

const LONG: Duration = Duration::from_secs(600);
const SOURCES: u64 = 2;

/// The bytes of a fragment that a test can tell from all others.
fn content(source: u64, key: u64) -> Vec<u8> {
    let mut random = Random::new(key << 8 | source);
    let bytes = if key.is_multiple_of(500) { 300_000 } else { random.index(3_000) };
    random.bytes(bytes)
}

fn store_config(folder: &Path, address: SocketAddr) -> StoreConfig {
    let disk = DiskConfig {
        buffer_bytes: 256 << 10,
        preallocate_bytes: 1 << 20,
        sync_interval_ns: 10_000_000,
        ..DiskConfig::default()
    };
    StoreConfig {
        address,
        access: LinkAccess::default(),
        folders: vec![folder.join("stored")],
        memory_bytes: 32 << 20,
        file_bytes: 2 << 20,
        disk,
        sync_bytes: u64::MAX,
        close_after_ns: 60_000_000_000,
    }
}

fn node_target(address: SocketAddr) -> TargetConfig {
    let place = Place::Node(NodeConfig::at(address.to_string()));
    TargetConfig { place, trends: false, ..TargetConfig::folder("node", "".into()) }
}

fn recorder(folder: &Path, targets: Vec<TargetConfig>) -> (Recorder, Frontend) {
    let source = |number| {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        SourceConfig::over_session(format!("detector/{number}"), address)
    };
    let sources = (0..SOURCES).map(source).collect();
    let mut config = RecorderConfig::new(folder.join("runs"), sources);
    config.memory_bytes = 256 << 20;
    config.frame.time_ns = 10_000_000;
    // Several for each file of the node, on a busy machine too.
    config.frame.bytes = 512 << 10;
    // So that a fragment's bytes can be found on their way.
    config.frame.codings = ColumnCoding::NONE.into();
    config.build.timeout_ns = 3_600_000_000_000;
    config.targets = targets;
    let recorder = Recorder::start(config).unwrap();
    let address = recorder.addresses()[0];
    let builder = Frontend::builder(&format!("catchment+tcp://{address}"), "detector");
    let builder =
        (0..SOURCES).fold(builder.buffer(12 << 20), |it, source| it.source(&source.to_string()));
    let front_end = builder.fragment_bytes_max(1 << 20).wait(LONG).connect().unwrap();
    (recorder, front_end)
}

/// Sends the fragments of keys below that number, as far as `act` lets them go.
fn send_to(front_end: &Frontend, keys: u64, act: impl FnOnce(&AtomicU64)) {
    send_while(front_end, |allowed| {
        act(allowed);
        allowed.store(keys, Relaxed);
    });
}

/// Sends fragments of keys from 0 on as long as `act` allows them, and how many it did.
fn send_while(front_end: &Frontend, act: impl FnOnce(&AtomicU64)) -> u64 {
    let (allowed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (source, to) in (0..).zip(front_end.sources()) {
            let (allowed, is_over) = (&allowed, &is_over);
            scope.spawn(move || {
                for key in 0.. {
                    wait_while(|| key >= allowed.load(Relaxed) && !is_over.load(Acquire));
                    if key >= allowed.load(Relaxed) {
                        break;
                    }
                    to.send(key, &content(source, key)).unwrap();
                }
            });
        }
        act(&allowed);
        is_over.store(true, Release);
    });
    allowed.into_inner()
}

fn send(front_end: &Frontend, keys: u64) {
    send_to(front_end, keys, |_| {});
}

/// Waits until the front-end has been told that fragments of keys below that number are durable.
fn wait_durable(front_end: &Frontend, keys: u64) {
    wait_while(|| front_end.sources().iter().any(|source| source.status().durable < keys));
}

fn only(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path());
    // The mark of several folders is beside it.
    let all: Vec<PathBuf> = entries.filter(|path| !path.ends_with(".catchment-store")).collect();
    let [one] = &all[..] else { panic!("expected one folder, got {all:?}") };
    one.clone()
}

/// The run has the fragments of keys below that number, each once, and its ledger balances.
fn check(folder: &Path, keys: u64) -> Run {
    check_run(Run::open(folder).unwrap(), keys)
}

fn check_run(run: Run, keys: u64) -> Run {
    if run.paths().len() == 1 {
        let report = audit(&run).unwrap();
        assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    }
    let verified = verify(&run, |_| {});
    assert!(verified.is_intact(), "{verified:?}");
    let mut events = BTreeMap::new();
    for frame in 0..run.frames().len() {
        for source in 0..SOURCES {
            let column = run.fragments(frame, SourceId(source as u32)).unwrap();
            for (row, &key) in column.events().keys().iter().enumerate() {
                let bytes = column.fragment(row).expect("it is there").to_vec();
                assert!(events.insert((key, source), bytes).is_none(), "{key} stands twice");
            }
        }
    }
    assert_eq!(events.len() as u64, SOURCES * keys);
    for ((key, source), bytes) in events {
        assert!(key < keys && bytes == content(source, key), "event {key}, source {source}");
    }
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
    let counts = [Entry::FragmentsRecorded, Entry::FragmentsDurable].map(|entry| ledger[entry]);
    assert_eq!(counts, [SOURCES * keys; 2]);
    assert!(run.ended() && run.closed());
    run
}

/// Ends both; the recorder's own counts say that all is durable at the node.
fn end(recorder: Recorder, front_end: Frontend, keys: u64) -> RunSummary {
    assert_eq!(front_end.close(LONG), Closed::default());
    let summary = recorder.stop().unwrap();
    let target = &summary.last.targets[0];
    let total = target.ledger.total();
    let counts = [Entry::FragmentsRecorded, Entry::FragmentsDurable].map(|entry| total[entry]);
    assert_eq!(counts, [SOURCES * keys; 2], "{:?}", target.state);
    assert!(target.ledger.balance().holds());
    summary
}

/// What stands between the two. It can break all connections, and change a byte.
struct Proxy {
    address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
    connections: Arc<AtomicU64>,
    /// Whether the next fragment of event 500 is changed.
    changes: Arc<AtomicBool>,
    /// Whether connections are closed as they come.
    ends: Arc<AtomicBool>,
}

impl Proxy {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (open, connections) = (Arc::default(), Arc::default());
        let (changes, ends) = (Arc::default(), Arc::default());
        let proxy = Self { address, open, connections, changes, ends };
        let (open, count) = (Arc::clone(&proxy.open), Arc::clone(&proxy.connections));
        let (changes, ends) = (Arc::clone(&proxy.changes), Arc::clone(&proxy.ends));
        std::thread::spawn(move || {
            for incoming in listener.incoming() {
                if ends.load(Relaxed) {
                    continue;
                }
                let (Ok(here), Ok(there)) = (incoming, TcpStream::connect(to)) else { continue };
                let copy = |end: &TcpStream| end.try_clone().unwrap();
                open.lock().unwrap().extend([copy(&here), copy(&there)]);
                let (from, into) = (copy(&there), copy(&here));
                let changes = Arc::clone(&changes);
                std::thread::spawn(move || pass_on(here, there, Some(&changes)));
                std::thread::spawn(move || pass_on(from, into, None));
                count.fetch_add(1, Relaxed);
            }
        });
        proxy
    }

    /// Breaks all connections.
    fn cut(&self) {
        for end in self.open.lock().unwrap().drain(..) {
            let _gone = end.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, changes: Option<&AtomicBool>) {
    // One of them is not over the border of a buffer.
    let parts = [500, 501].map(|key| content(0, key));
    let parts = parts.each_ref().map(|known| &known[known.len() / 2..][..64]);
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes) = from.read(&mut buffer) {
        if let Some(changes) = changes.filter(|changes| changes.load(Relaxed)) {
            let at = buffer[..bytes].windows(64).position(|bytes| parts.contains(&bytes));
            if let Some(at) = at.filter(|_| changes.swap(false, Relaxed)) {
                buffer[at] ^= 1;
            }
        }
        if bytes == 0 || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _gone = to.shutdown(Shutdown::Both);
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[test]
fn a_run_stands_at_a_storage_node_as_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let here = TargetConfig::folder("here", folder.path().join("runs"));
    let targets = vec![node_target(node.address()), here];
    let (recorder, front_end) = recorder(folder.path(), targets);
    send(&front_end, 2_000);
    let summary = end(recorder, front_end, 2_000);
    let there = check(&only(&folder.path().join("stored")), 2_000);
    let here = check(&summary.folder, 2_000);
    assert!(there.files().len() > 1, "files are left as they grow");
    let frames = |run: &Run| {
        run.frames().iter().map(|frame| frame.summary.info.sequence).collect::<Vec<_>>()
    };
    assert_eq!(frames(&there), frames(&here));
    let done = node.stop().unwrap();
    assert_eq!(done.frames_taken, verify(&there, |_| {}).frames);
    assert_eq!((done.frames_corrupt, done.faults, done.waiting_bytes), (0, 0, 0));
    assert!(done.streams.len() == 1 && done.streams[0].has_ended, "{done:?}");
}

#[test]
fn a_connection_that_is_cut_is_resumed_and_nothing_is_lost_or_there_twice() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let proxy = Proxy::start(node.address());
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(proxy.address)]);
    send_to(&front_end, 6_000, |allowed| {
        for cut in 1..=5 {
            wait_while(|| node.snapshot().sessions_opened < cut);
            let taken = node.snapshot().frames_taken;
            allowed.store(cut * 1_000, Relaxed);
            // Some of these have come over the connection that is cut.
            wait_while(|| node.snapshot().frames_taken == taken);
            proxy.cut();
        }
    });
    end(recorder, front_end, 6_000);
    check(&only(&folder.path().join("stored")), 6_000);
    let done = node.stop().unwrap();
    assert!(done.sessions_opened > 5 && done.frames_repeated == 0, "{done:?}");
}

#[test]
fn a_frame_that_is_changed_on_its_way_is_refused_counted_and_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let proxy = Proxy::start(node.address());
    proxy.changes.store(true, Relaxed);
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(proxy.address)]);
    send(&front_end, 1_000);
    end(recorder, front_end, 1_000);
    assert!(!proxy.changes.load(Relaxed), "a byte was changed");
    check(&only(&folder.path().join("stored")), 1_000);
    assert_eq!(node.stop().unwrap().frames_corrupt, 1);
}

#[test]
fn a_node_that_ends_and_is_started_again_goes_on_in_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), free())).unwrap();
    let address = node.address();
    let mut node = Some(node);
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(address)]);
    send_to(&front_end, 4_000, |allowed| {
        for life in 1..=3 {
            allowed.store(life * 1_000, Relaxed);
            let taken = || front_end.sources()[0].status().taken;
            wait_while(|| taken() < life * 1_000 - 500);
            node.take().map(Node::stop).expect("it runs").unwrap();
            node = Some(Node::start(store_config(folder.path(), address)).unwrap());
        }
    });
    end(recorder, front_end, 4_000);
    node.map(Node::stop).expect("it runs").unwrap();
    let stored = only(&folder.path().join("stored"));
    check(&stored, 4_000);
    let generation = std::fs::read_to_string(stored.join("generation")).unwrap();
    assert!(generation.trim().parse::<u64>().unwrap() > 0);
}

#[test]
fn after_each_fault_of_its_disk_a_stream_goes_on_behind_what_was_durable() {
    let folder = tempfile::tempdir().unwrap();
    let control = FaultControl::default();
    let plan = FaultPlan { control: control.clone(), seed: 7, ..FaultPlan::default() };
    let plan = FaultPlan { short_writes_per_million: 100_000, delay_polls_max: 3, ..plan };
    let mut config = store_config(folder.path(), any());
    config.disk.faults = Some(plan);
    let node = Node::start(config).unwrap();
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(node.address())]);
    let faults: [fn(&FaultControl, Option<i32>); 4] = [
        FaultControl::fail_writes,
        FaultControl::fail_syncs,
        FaultControl::fail_finishes,
        FaultControl::fail_writes,
    ];
    send_to(&front_end, 5_000, |allowed| {
        for (fault, number) in faults.into_iter().zip(1..) {
            let before = node.snapshot().disk_faults;
            fault(&control, Some(if number == 4 { libc::ENOSPC } else { libc::EIO }));
            // Enough for a file, and more.
            allowed.store(number * 1_000, Relaxed);
            wait_while(|| node.snapshot().disk_faults == before);
            fault(&control, None);
        }
    });
    end(recorder, front_end, 5_000);
    check(&only(&folder.path().join("stored")), 5_000);
    assert!(node.stop().unwrap().disk_faults >= 4);
}

#[test]
fn writes_that_are_cut_short_twice_in_a_row_or_interrupted_leave_whole_frames() {
    let folder = tempfile::tempdir().unwrap();
    let control = FaultControl::default();
    let plan = FaultPlan { control: control.clone(), ..FaultPlan::default() };
    // Of each five attempts two are cut short, and a signal comes at two, so that the last one ends
    // what these began.
    let short_writes = (0..10_000).filter(|attempt| attempt % 5 < 2).collect();
    let interrupted = (0..10_000).filter(|attempt| matches!(attempt % 5, 2 | 3));
    let write_errors = interrupted.map(|attempt| (attempt, libc::EINTR)).collect();
    let mut config = store_config(folder.path(), any());
    config.disk.faults = Some(FaultPlan { short_writes, write_errors, ..plan });
    let node = Node::start(config).unwrap();
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(node.address())]);
    send(&front_end, 2_000);
    end(recorder, front_end, 2_000);
    let done = node.stop().unwrap();
    assert!(control.writes() > 100 && done.disk_faults == 0, "{done:?}");
    check(&only(&folder.path().join("stored")), 2_000);
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_write_leaves_no_half_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan { short_writes: vec![40], ..FaultPlan::default() };
    let mut config = store_config(folder.path(), any());
    // Half of it is written, and there is no room for the rest.
    config.disk.faults = Some(FaultPlan { write_errors: vec![(41, libc::ENOSPC)], ..plan });
    let node = Node::start(config).unwrap();
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(node.address())]);
    send(&front_end, 2_000);
    end(recorder, front_end, 2_000);
    assert!(node.stop().unwrap().disk_faults >= 1);
    check(&only(&folder.path().join("stored")), 2_000);
}

#[test]
fn a_stream_that_goes_on_in_its_file_does_not_wait_though_no_other_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let control = FaultControl::default();
    let mut config = store_config(folder.path(), any());
    config.disk.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    let node = Node::start(config).unwrap();
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(node.address())]);
    let all_durable = |keys: u64| {
        wait_while(|| {
            let now = node.snapshot();
            assert!(now.streams.iter().all(|stream| stream.trouble.is_none()), "{now:?}");
            front_end.sources().iter().any(|source| source.status().durable < keys)
        });
    };
    send_to(&front_end, 10_000, |allowed| {
        allowed.store(100, Relaxed);
        all_durable(100);
        control.refuse_opens(Some(libc::EACCES));
        allowed.store(2_000, Relaxed);
        all_durable(2_000);
        wait_while(|| node.snapshot().folders[0].fault.is_none());
        assert_eq!(node.snapshot().folders[0].failures, 1);
        control.refuse_opens(None);
        // It is tried again for the next frame.
        wait_while(|| {
            allowed.fetch_add(1, Relaxed);
            node.snapshot().folders[0].fault.is_some()
        });
    });
    end(recorder, front_end, 10_000);
    check(&only(&folder.path().join("stored")), 10_000);
    node.stop().unwrap();
}

/// A node with two folders, the first of which has faults.
fn two_folders(folder: &Path, file_bytes: u64) -> (Node, FaultControl) {
    let control = FaultControl::default();
    // It has the most, and is chosen.
    control.set_space(Some(1 << 60));
    let plan = FaultPlan { control: control.clone(), ..FaultPlan::default() };
    let mut config = store_config(folder, any());
    config.folders = ["first", "second"].map(|name| folder.join(name)).to_vec();
    config.file_bytes = file_bytes;
    config.disk.faults = Some(plan);
    (Node::start(config).unwrap(), control)
}

/// The run in both of its folders, and how many of its files are in the second.
fn in_both(folder: &Path) -> (Run, usize) {
    let of = |name| only(&folder.join(name));
    let run = Run::open_folders(&[of("first"), of("second")], RunOptions::default()).unwrap();
    let second = run.files().filter(|file| file.path.starts_with(folder.join("second")));
    let count = second.count();
    (run, count)
}

#[test]
fn a_disk_that_fails_is_left_and_its_streams_go_on_in_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (node, control) = two_folders(folder.path(), 2 << 20);
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(node.address())]);
    send_to(&front_end, 4_000, |allowed| {
        allowed.store(1_000, Relaxed);
        wait_while(|| node.snapshot().streams.iter().all(|stream| stream.durable == 0));
        // It is not mended.
        control.fail_writes(Some(libc::EIO));
        allowed.store(3_000, Relaxed);
        wait_while(|| node.snapshot().disk_faults == 0);
    });
    end(recorder, front_end, 4_000);
    let (run, in_second) = in_both(folder.path());
    check_run(run, 4_000);
    assert!(in_second > 0);
    node.stop().unwrap();
}

#[test]
fn a_file_of_which_nothing_is_kept_is_no_file_that_a_reader_of_both_folders_misses() {
    let folder = tempfile::tempdir().unwrap();
    let (node, control) = two_folders(folder.path(), 2 << 20);
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(node.address())]);
    // The first file cannot be closed, and the next one is begun by then.
    control.fail_finishes(Some(libc::EIO));
    send(&front_end, 4_000);
    end(recorder, front_end, 4_000);
    assert!(node.stop().unwrap().disk_faults >= 1);
    let list = std::fs::read(only(&folder.path().join("first")).join(FILE_LIST_NAME)).unwrap();
    let removed = FileListLine::Removed { index: 1 }.encode();
    assert!(String::from_utf8(list).unwrap().contains(&removed), "it was begun");
    let (run, in_second) = in_both(folder.path());
    check_run(run, 4_000);
    assert!(in_second > 0);
}

#[test]
fn a_folder_in_which_nothing_can_be_ended_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    // One file, so that nothing is made in a folder that is gone.
    let (node, control) = two_folders(folder.path(), 1 << 30);
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(node.address())]);
    let (first, away) = (folder.path().join("first"), folder.path().join("away"));
    send_to(&front_end, 4_000, |allowed| {
        allowed.store(1_000, Relaxed);
        // Something is durable there, in a file that is open.
        wait_while(|| node.snapshot().streams.iter().all(|stream| stream.durable == 0));
        std::fs::rename(&first, &away).unwrap();
        control.fail_writes(Some(libc::EIO));
        allowed.store(3_000, Relaxed);
        wait_while(|| node.snapshot().disk_faults == 0);
    });
    end(recorder, front_end, 4_000);
    node.stop().unwrap();
    std::fs::rename(&away, &first).unwrap();
    repair(only(&first)).unwrap();
    let (run, in_second) = in_both(folder.path());
    let verified = verify(&run, |_| {});
    assert!(in_second > 0 && verified.is_intact(), "{in_second}: {verified:?}");
    let mut keys = Vec::new();
    for frame in 0..run.frames().len() {
        for source in 0..SOURCES as u32 {
            let column = run.fragments(frame, SourceId(source)).unwrap();
            keys.extend(column.events().keys().iter().map(|&key| (source, key)));
        }
    }
    keys.sort_unstable();
    let expected = (0..SOURCES as u32).flat_map(|source| (0..4_000).map(move |key| (source, key)));
    assert!(keys.into_iter().eq(expected), "each fragment is there once");
}

#[test]
fn a_best_effort_node_that_is_not_there_costs_the_others_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let free = free();
    let here = TargetConfig::folder("here", folder.path().join("runs"));
    let node = TargetConfig { required: false, ..node_target(free) };
    let (recorder, front_end) = recorder(folder.path(), vec![here, node]);
    send(&front_end, 500);
    let summary = end(recorder, front_end, 500);
    check(&summary.folder, 500);
    let of_node = &summary.last.targets[1];
    assert!(matches!(of_node.state, State::Fault { .. }), "{:?}", of_node.state);
    let total = of_node.ledger.total();
    assert_eq!(total[Entry::FragmentsRecorded], 0);
    assert!(of_node.ledger.balance().holds(), "{total:?}");
}

#[test]
fn a_recorder_gets_in_although_strangers_hold_connections() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let connect = |_| TcpStream::connect(node.address()).unwrap();
    let _strangers: Vec<TcpStream> = (0..70).map(connect).collect();
    let (recorder, front_end) = recorder(folder.path(), vec![node_target(node.address())]);
    send(&front_end, 500);
    end(recorder, front_end, 500);
    check(&only(&folder.path().join("stored")), 500);
    assert_eq!(node.stop().unwrap().last_error, None);
}

#[test]
fn streams_that_have_ended_are_closed_when_others_need_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    // One more than can be open: a node keeps those that have ended for a while.
    for run in 0..65 {
        let folder = folder.path().join(run.to_string());
        let (recorder, front_end) = recorder(&folder, vec![node_target(node.address())]);
        send(&front_end, 1);
        end(recorder, front_end, 1);
    }
    let counts = node.stop().unwrap();
    assert_eq!((counts.sessions_opened, counts.refusals.len()), (65, 0), "{:?}", counts.refusals);
    let stored = std::fs::read_dir(folder.path().join("stored")).unwrap();
    for run in stored {
        check(&run.unwrap().path(), 1);
    }
}
