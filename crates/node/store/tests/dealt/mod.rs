//! A recorder whose frames several storage nodes share, and nodes that several recorders share.

use catchment_recorder::NodeShare;
use catchment_storage::{Closing, FileProblem, recompute};

use super::*;

mod spilled;

const NODES: [&str; 2] = ["one", "two"];

fn start(folder: &Path, name: &str, address: SocketAddr) -> Node {
    Node::start(store_config(&folder.join(name), address)).unwrap()
}

/// A target at all of these, to each of which some frames go in a row.
fn shared(addresses: &[SocketAddr]) -> TargetConfig {
    let addresses = addresses.iter().map(SocketAddr::to_string).collect();
    let place = Place::Node(NodeConfig { addresses, ..NodeConfig::at("") });
    TargetConfig { place, hold_bytes: Some(8 << 20), ..node_target(any()) }
}

/// The run's folder at each node.
fn stored(folder: &Path) -> [PathBuf; 2] {
    NODES.map(|name| only(&folder.join(name).join("stored")))
}

/// The run in the folders of both nodes has each fragment once, and its ledger balances.
fn check_both(folder: &Path, keys: u64) -> Run {
    let run = Run::open_folders(&stored(folder), RunOptions::default()).unwrap();
    assert!(run.problems().is_empty() && !run.lost_data(), "{:?}", run.problems());
    assert_eq!(run.frames_missing(), 0);
    let (ledger, problems) = recompute(&run);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(run.recorded_ledger().unwrap(), Some(ledger));
    check_run(run, keys)
}

fn shares(recorder: &Recorder) -> Vec<NodeShare> {
    recorder.snapshot().targets[0].nodes.clone()
}

#[test]
fn frames_are_shared_by_two_nodes_and_read_as_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = NODES.map(|name| start(folder.path(), name, any()));
    let addresses = nodes.each_ref().map(Node::address);
    let (recorder, front_end) = recorder(folder.path(), vec![shared(&addresses)]);
    wait_while(|| !shares(&recorder).iter().all(|node| node.is_connected));
    send(&front_end, 6_000);
    let summary = end(recorder, front_end, 6_000);
    let nodes = nodes.map(|node| node.stop().unwrap());
    let run = check_both(folder.path(), 6_000);
    let frames: u64 = nodes.iter().map(|node| node.frames_taken).sum();
    assert_eq!(frames, verify(&run, |_| {}).frames, "none is there twice");
    // For a node whose disk is busy for a second the other one stands in.
    if summary.last.warnings.iter().any(|text| text.contains("go to others")) {
        println!("not compared: a disk was slow, {:?}", summary.last.warnings);
        return;
    }
    let target = &summary.last.targets[0];
    for (number, (node, share)) in (0..).zip(nodes.iter().zip(&target.nodes)) {
        assert_eq!((node.frames_taken, node.faults), (share.frames_durable, 0));
        assert_eq!((share.bytes_held, &share.away), (0, &None));
        assert!(node.streams[0].has_ended && share.bytes_durable > 0, "{share:?}");
        let of_node = run.files().filter(|file| file.folder == number);
        let frames: usize = of_node.map(|file| file.frames).sum();
        assert_eq!(frames as u64, node.frames_taken);
    }
    // One folder is a part, which says what is missing.
    let part = Run::open(&stored(folder.path())[1]).unwrap();
    let [FileProblem::MissingPart { target, number: 0, count: 2 }] = part.problems() else {
        panic!("{:?}", part.problems())
    };
    assert_eq!(target, "node");
    assert!(part.lost_data() && part.event_count() < 6_000);
}

#[test]
fn a_node_that_ends_is_left_out_and_takes_part_again_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = NODES.map(|name| start(folder.path(), name, free()));
    let addresses = [one.address(), two.address()];
    let (recorder, front_end) = recorder(folder.path(), vec![shared(&addresses)]);
    let mut two = Some(two);
    send_to(&front_end, 12_000, |allowed| {
        for life in 1..=3 {
            let begin = (life - 1) * 4_000;
            wait_while(|| !shares(&recorder).iter().all(|node| node.is_connected));
            let before = shares(&recorder)[1].frames_durable;
            allowed.store(begin + 2_000, Relaxed);
            wait_while(|| shares(&recorder)[1].frames_durable == before);
            two.take().map(Node::stop).expect("it runs").unwrap();
            // What it had not acknowledged is durable elsewhere.
            allowed.store(begin + 4_000, Relaxed);
            wait_durable(&front_end, begin + 4_000);
            wait_while(|| shares(&recorder)[1].away.is_none());
            two = Some(start(folder.path(), NODES[1], addresses[1]));
        }
    });
    end(recorder, front_end, 12_000);
    let nodes = [Some(one), two].map(|node| node.expect("it runs").stop().unwrap());
    check_both(folder.path(), 12_000);
    assert!(nodes.iter().all(|node| node.faults == 0 && node.frames_unfit == 0), "{nodes:?}");
}

#[test]
fn a_node_whose_only_disk_hangs_is_left_out_and_takes_part_again_when_the_disk_answers() {
    let folder = tempfile::tempdir().unwrap();
    let one = start(folder.path(), NODES[0], any());
    let control = FaultControl::default();
    let mut config = store_config(&folder.path().join(NODES[1]), any());
    config.disk.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    let two = Node::start(config).unwrap();
    let addresses = [one.address(), two.address()];
    let (recorder, front_end) = recorder(folder.path(), vec![shared(&addresses)]);
    let keys = send_while(&front_end, |allowed| {
        wait_while(|| !shares(&recorder).iter().all(|node| node.is_connected));
        allowed.store(2_000, Relaxed);
        wait_while(|| shares(&recorder)[1].frames_durable == 0);
        control.stall(true);
        allowed.store(6_000, Relaxed);
        let waits =
            |node: &NodeShare| node.away.as_ref().is_some_and(|(_, why)| why.contains("can write"));
        wait_while(|| !waits(&shares(&recorder)[1]));
        let trouble = two.snapshot().streams[0].trouble.clone().expect("the node says why");
        assert!(trouble.contains("has not completed a write, a sync or a close"), "{trouble}");
        // What it has not acknowledged is durable elsewhere.
        wait_durable(&front_end, 6_000);
        let before = shares(&recorder)[1].frames_durable;
        control.stall(false);
        // The first frame that is durable there shows that it is back.
        allowed.store(10_000, Relaxed);
        wait_while(|| {
            allowed.fetch_add(1, Relaxed);
            shares(&recorder)[1].frames_durable == before
        });
    });
    end(recorder, front_end, keys);
    let nodes = [one, two].map(|node| node.stop().unwrap());
    check_both(folder.path(), keys);
    assert!(nodes.iter().all(|node| node.faults == 0 && node.frames_unfit == 0), "{nodes:?}");
}

#[test]
fn a_run_ends_without_a_node_that_is_gone_and_nothing_of_it_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = NODES.map(|name| start(folder.path(), name, any()));
    // The connections of the second one break, whatever is on its way, and are made no more.
    let proxy = Proxy::start(two.address());
    let addresses = [one.address(), proxy.address];
    let (recorder, front_end) = recorder(folder.path(), vec![shared(&addresses)]);
    wait_while(|| !shares(&recorder).iter().all(|node| node.is_connected));
    send_to(&front_end, 6_000, |allowed| {
        allowed.store(3_000, Relaxed);
        wait_while(|| two.snapshot().frames_taken < 3);
        proxy.ends.store(true, Relaxed);
        proxy.cut();
    });
    end(recorder, front_end, 6_000);
    // What it was sent and could not acknowledge it may have, too.
    let two = two.stop().unwrap();
    assert!(!two.streams[0].has_ended);
    one.stop().unwrap();
    // It was not told of the end either: its part, the last one, says nothing of that.
    let report = audit(&check_both(folder.path(), 6_000)).unwrap();
    assert_eq!((report.verdict, report.closing), (Verdict::Balanced, Closing::Ended), "{report:?}");
}

#[test]
fn a_node_that_refuses_the_run_leaves_it_to_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = NODES.map(|name| start(folder.path(), name, free()));
    let addresses = [one.address(), two.address()];
    let (recorder, front_end) = recorder(folder.path(), vec![shared(&addresses)]);
    let mut two = Some(two);
    send_to(&front_end, 4_000, |allowed| {
        wait_while(|| !shares(&recorder).iter().all(|node| node.is_connected));
        allowed.store(2_000, Relaxed);
        wait_while(|| shares(&recorder)[1].frames_durable == 0);
        two.take().map(Node::stop).expect("it runs").unwrap();
        // What it has acknowledged is gone there: it is never taken back.
        std::fs::rename(folder.path().join("two"), folder.path().join("before")).unwrap();
        two = Some(start(folder.path(), NODES[1], addresses[1]));
        let refused =
            |node: &NodeShare| node.away.as_ref().is_some_and(|(_, why)| why.contains("left out"));
        wait_while(|| !refused(&shares(&recorder)[1]));
    });
    end(recorder, front_end, 4_000);
    two.map(Node::stop).expect("it runs").unwrap();
    one.stop().unwrap();
    let folders = ["one", "before"].map(|name| only(&folder.path().join(name).join("stored")));
    check_run(Run::open_folders(&folders, RunOptions::default()).unwrap(), 4_000);
}

#[test]
fn several_recorders_share_several_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = NODES.map(|name| start(folder.path(), name, any()));
    let addresses = nodes.each_ref().map(Node::address);
    let names: Vec<PathBuf> = std::thread::scope(|scope| {
        let run = |number: u32| {
            let folder = folder.path().join(number.to_string());
            move || {
                let (recorder, front_end) = recorder(&folder, vec![shared(&addresses)]);
                // Then each has a folder of the run, with files or without.
                wait_while(|| !shares(&recorder).iter().all(|node| node.is_connected));
                send(&front_end, 2_000);
                let summary = end(recorder, front_end, 2_000);
                PathBuf::from(summary.folder.file_name().unwrap())
            }
        };
        let runs: Vec<_> = (0..3).map(|number| scope.spawn(run(number))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for node in nodes {
        let done = node.stop().unwrap();
        assert_eq!((done.faults, done.frames_corrupt, done.waiting_bytes), (0, 0, 0));
    }
    for name in names {
        let folders = NODES.map(|node| folder.path().join(node).join("stored").join(&name));
        let run = Run::open_folders(&folders, RunOptions::default()).unwrap();
        check_run(run, 2_000);
    }
}
