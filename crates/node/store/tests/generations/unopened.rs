//! What is left of a stream when its node is killed, or its disk fails and its sender is gone: it
//! is closed once nobody has opened it for long enough.

use catchment_agent::{Agent, Entropy};
use catchment_frame::FileList;
use catchment_ports::{MemoryStore, QueueIngress, Queues};
use catchment_storage::Closing;
use catchment_store::{Assembly, AssemblyParts, NodeSnapshot};

use super::*;

/// How long a stream without a sender is kept in the tests' nodes, and a step of their time.
const CLOSE_AFTER_NS: u64 = 60_000_000_000;
const STEP_NS: u64 = 50_000_000;

/// Leaves three durable frames in a file that is not closed, as a node does that is killed.
/// Returns the stream's folder.
fn killed_node(folder: &Path) -> PathBuf {
    let node = Node::start(store_config(&folder.join("killed"), any())).unwrap();
    let mut sender = Sender::admitted(node.address(), 1, 0, 8);
    let generation = sender.generation();
    sender.attach(node.address());
    (0..3).for_each(|sequence| sender.frame(sequence, generation));
    sender.wait_durable(3);
    let [from, to] = ["killed/stored", "stored"].map(|one| folder.join(one).join(NAME));
    wait_while(|| !from.join(FILE_LIST_NAME).exists());
    std::fs::create_dir_all(&to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    assert!(!is_closed(&to));
    to
}

fn is_closed(stream: &Path) -> bool {
    Run::open(stream).is_ok_and(|run| run.closed())
}

/// A node whose time is the test's, and to which no recorder comes.
struct Stepped {
    now_ns: u64,
    assembly: Assembly<MemoryStore>,
    agent: Box<dyn Agent>,
}

impl Stepped {
    fn start(folder: &Path) -> Self {
        let queues = Queues::default();
        let port = queues.add(0);
        let parts = AssemblyParts {
            ingress: Box::new(QueueIngress::new(&queues, vec![port], 1)),
            entropy: Box::new(|| Box::new(Random::new(1)) as Box<dyn Entropy>),
            store: Box::new(|_: &Path| -> MemoryStore { panic!("no stream is opened") }),
        };
        let config = store_config(folder, any());
        assert_eq!(config.close_after_ns, CLOSE_AFTER_NS);
        let (assembly, agent) = Assembly::new(config, parts);
        Self { now_ns: 1_000_000_000, assembly, agent }
    }

    fn pass(&mut self, ns: u64) -> NodeSnapshot {
        let until_ns = self.now_ns + ns;
        while self.now_ns < until_ns {
            self.now_ns += STEP_NS;
            self.agent.work(self.now_ns);
            assert!(self.assembly.carry_out(self.now_ns).is_empty());
        }
        self.assembly.observer().snapshot()
    }
}

#[test]
fn what_a_killed_node_has_left_is_closed_in_time_and_goes_on_when_its_sender_comes_late() {
    let folder = tempfile::tempdir().unwrap();
    let stream = killed_node(folder.path());
    let mut node = Stepped::start(folder.path());
    let seen = node.pass(CLOSE_AFTER_NS - STEP_NS);
    assert!(!is_closed(&stream) && seen.streams.is_empty(), "its sender may come back");
    let seen = node.pass(4 * STEP_NS);
    let run = Run::open(&stream).unwrap();
    assert!(run.closed() && !run.ended());
    assert_eq!(stored(folder.path()), [0, 1, 2]);
    let list = FileList::decode(&std::fs::read(stream.join(FILE_LIST_NAME)).unwrap()).unwrap();
    assert!(list.files[&0].closed_bytes.is_some() && list.ended.is_none(), "{list:?}");
    let [shown] = &seen.streams[..] else { panic!("{:?}", seen.streams) };
    assert!(shown.is_given_up && !shown.has_ended && shown.durable == 3, "{shown:?}");
    // The next node has nothing to do.
    let seen = Stepped::start(folder.path()).pass(2 * CLOSE_AFTER_NS);
    assert!(seen.streams.is_empty() && seen.close_error.is_none(), "{seen:?}");
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let mut late = Sender::admitted(node.address(), 2, 0, 8);
    assert_eq!(late.grant.unwrap().next, 3);
    let generation = late.generation();
    late.attach(node.address());
    late.frame(3, generation);
    late.send(&Data::Close(Close { log: 0, sequence: 4 }));
    late.wait_durable(5);
    drop(late);
    node.stop().unwrap();
    assert_eq!(stored(folder.path()), [0, 1, 2, 3]);
    assert!(Run::open(&stream).unwrap().ended());
}

#[test]
fn a_stream_that_lacks_a_file_is_left_as_it_is_and_named_until_the_file_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let stream = killed_node(folder.path());
    // Its first file is on a disk that is not there now.
    let [first, second] = ["run-00000.catch", "run-00001.catch"].map(|file| stream.join(file));
    std::fs::rename(&first, &second).unwrap();
    let before = std::fs::read(&second).unwrap();
    let mut node = Stepped::start(folder.path());
    let seen = node.pass(2 * CLOSE_AFTER_NS);
    let error = "run: file 0 of the run is missing, so that its files are left as they are";
    assert_eq!((seen.close_error.as_deref(), seen.streams.len()), (Some(error), 0));
    assert!(std::fs::read(&second).unwrap() == before);
    std::fs::rename(&second, &first).unwrap();
    let seen = node.pass(2 * CLOSE_AFTER_NS);
    assert!(seen.close_error.is_none() && seen.streams[0].is_given_up, "{seen:?}");
    assert!(is_closed(&stream));
    assert_eq!(stored(folder.path()), [0, 1, 2]);
}

#[test]
fn a_node_without_one_of_its_disks_cuts_nothing_and_goes_on_once_the_disk_is_back() {
    for dealt in [0, StreamLog::DEALT] {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, away] = ["first", "second", "away"].map(|one| folder.path().join(one));
        let start = |folders: &[&PathBuf]| {
            let folders = folders.iter().map(|&folder| folder.clone()).collect();
            Node::start(StoreConfig { folders, ..store_config(folder.path(), any()) }).unwrap()
        };
        let part = (dealt > 0).then_some(DealtPart { number: 0, count: 2, first_item: 0 });
        // Each life of the node begins a file. The second one is moved to another disk.
        for begin in [0, 3] {
            let node = start(&[&first]);
            let mut sender = Sender::admitted_with(node.address(), 1, (0, 8), dealt);
            sender.attach_with(node.address(), part);
            for item in begin..begin + 3 {
                let number = u64::from(item);
                sender.item(number, sender.generation(), if dealt > 0 { item } else { 0 });
            }
            sender.wait_durable(u64::from(begin) + 3);
            drop(sender);
            node.stop().unwrap();
        }
        let [own, moved] = [&first, &second].map(|one| one.join(NAME).join("run-00001.catch"));
        std::fs::create_dir_all(second.join(NAME)).unwrap();
        std::fs::rename(own, &moved).unwrap();
        let before = std::fs::read(&moved).unwrap();
        std::fs::rename(&first, &away).unwrap();
        let node = start(&[&first, &second]);
        for (made, flags) in [(8, dealt), (1 << 62, dealt | StreamLog::ASKS)] {
            let connect = || Sender::connect_with(node.address(), 2, (0, made), flags);
            let is_decided = |one: &Sender| one.grant.is_some() || one.why.contains("is missing");
            let refused = std::iter::repeat_with(connect).find(is_decided).unwrap();
            assert_eq!(refused.refused(), Some(ByeReason::LATER), "{flags}");
            assert!(refused.why.starts_with("file 0 of the run is missing"), "{}", refused.why);
        }
        node.stop().unwrap();
        assert!(std::fs::read(&moved).unwrap() == before && only(&second.join(NAME)) == moved);
        std::fs::remove_dir_all(&first).unwrap();
        std::fs::rename(&away, &first).unwrap();
        let node = start(&[&first, &second]);
        let sender = Sender::admitted_with(node.address(), 3, (0, 8), dealt);
        assert_eq!(sender.grant.unwrap().next, 6);
        drop(sender);
        node.stop().unwrap();
        let [first, second] = [first, second].map(|one| numbers(&one.join(NAME)));
        assert_eq!((first, second), (vec![0, 1, 2], vec![3, 4, 5]));
    }
}

#[test]
fn a_stream_whose_disk_has_failed_is_closed_when_its_sender_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let control = FaultControl::default();
    let mut config = store_config(folder.path(), any());
    config.disk.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    config.close_after_ns = 10_000_000;
    let node = Node::start(config).unwrap();
    let mut sender = Sender::admitted(node.address(), 1, 0, 8);
    let generation = sender.generation();
    sender.attach(node.address());
    sender.frame(0, generation);
    sender.wait_durable(1);
    control.fail_writes(Some(libc::EIO));
    sender.frame(1, generation);
    sender.read_until(|one| one.bye.is_some());
    assert_eq!(sender.refused(), Some(ByeReason::LATER));
    drop(sender);
    let stream = folder.path().join("stored").join(NAME);
    wait_while(|| !is_closed(&stream));
    assert_eq!(stored(folder.path()), [0]);
    let seen = node.stop().unwrap();
    assert!(seen.streams[0].is_given_up && seen.close_error.is_none(), "{seen:?}");
}

#[test]
fn a_run_that_ends_behind_the_last_frame_of_an_earlier_node_has_one_file_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let start = || Node::start(store_config(folder.path(), any())).unwrap();
    let node = start();
    let mut sender = Sender::admitted(node.address(), 1, 0, 8);
    let generation = sender.generation();
    sender.attach(node.address());
    (0..3).for_each(|sequence| sender.frame(sequence, generation));
    sender.wait_durable(3);
    drop(sender);
    node.stop().unwrap();
    let stream = folder.path().join("stored").join(NAME);
    assert!(is_closed(&stream) && !Run::open(&stream).unwrap().ended());
    let end = || {
        let node = start();
        let mut sender = Sender::admitted(node.address(), 1, generation, 8);
        assert_eq!(sender.grant.unwrap().next, 3);
        sender.attach(node.address());
        sender.send(&Data::Close(Close { log: 0, sequence: 3 }));
        sender.wait_durable(4);
        drop(sender);
        node.stop().unwrap();
        let run = Run::open(&stream).unwrap();
        assert_eq!((run.ended(), run.files().len()), (true, 2));
        let report = audit(&run).unwrap();
        assert_eq!((report.closing, report.verdict), (Closing::Ended, Verdict::Balanced));
        assert_eq!(stored(folder.path()), [0, 1, 2]);
    };
    end();
    // As of a node that was killed before its list said so.
    let list = stream.join(FILE_LIST_NAME);
    let text = std::fs::read_to_string(&list).unwrap();
    let lines = text.split_inclusive('\n').filter(|line| !line.contains("\"ended\""));
    let before: String = lines.collect();
    assert!(before.len() < text.len());
    std::fs::write(&list, before).unwrap();
    end();
    assert_eq!(std::fs::read_to_string(&list).unwrap(), text);
}
