//! Several nodes, and a spill for the time in which none of them takes anything.

use catchment_disk::ReadFile;
use catchment_frame::FileReader;
use catchment_recorder::{EnterForwarded, Forwarded, Forwarding, SpillConfig};

use super::*;

fn spilling(addresses: &[SocketAddr], folder: &Path) -> TargetConfig {
    let spill = SpillConfig { folder: folder.join("spill"), bytes_max: 1 << 30 };
    TargetConfig { spill: Some(spill), ..shared(addresses) }
}

fn forwarding(target: &TargetConfig) -> Forwarding {
    let source = SourceConfig::over_session("a".to_owned(), any());
    let mut config = RecorderConfig::new("".into(), vec![source]);
    config.targets = vec![target.clone()];
    let enter: EnterForwarded = Arc::new(|_: &Forwarded| Ok(true));
    Forwarding::start(&config, &Arc::default(), &enter).unwrap()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder.join("spill")).unwrap().next().is_none()
}

#[test]
fn a_run_whose_nodes_come_and_go_together_is_whole_at_both() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = NODES.map(|name| start(folder.path(), name, free()));
    let addresses = nodes.each_ref().map(Node::address);
    let (recorder, front_end) = recorder(folder.path(), vec![spilling(&addresses, folder.path())]);
    let mut nodes = nodes.map(Some);
    let spill = || recorder.snapshot().targets[0].spill.unwrap();
    send_to(&front_end, 9_000, |allowed| {
        for life in 1..=3 {
            wait_while(|| !shares(&recorder).iter().all(|node| node.is_connected));
            let before = spill();
            allowed.store(life * 3_000 - 2_000, Relaxed);
            wait_durable(&front_end, life * 3_000 - 2_000);
            for node in &mut nodes {
                node.take().map(Node::stop).expect("it runs").unwrap();
            }
            allowed.store(life * 3_000, Relaxed);
            // None takes it: it is in the spill.
            wait_durable(&front_end, life * 3_000);
            assert!(spill().frames_spilled > before.frames_spilled, "{:?}", spill());
            // One of them is enough.
            let first = life as usize % 2;
            nodes[first] = Some(start(folder.path(), NODES[first], addresses[first]));
            wait_while(|| spill().frames_waiting > 0);
            nodes[1 - first] = Some(start(folder.path(), NODES[1 - first], addresses[1 - first]));
        }
    });
    assert_eq!((spill().frames_forwarded, spill().frames_lost), (spill().frames_spilled, 0));
    let summary = end(recorder, front_end, 9_000);
    let total = summary.last.targets[0].ledger.total();
    assert!(total[Entry::FragmentsSpilled] > 0, "{total:?}");
    assert_eq!(total[Entry::FragmentsForwarded], total[Entry::FragmentsSpilled]);
    for node in nodes {
        let node = node.expect("it runs").stop().unwrap();
        assert_eq!((node.faults, node.frames_unfit), (0, 0), "{node:?}");
    }
    check_both(folder.path(), 9_000);
    assert!(is_empty(folder.path()));
}

#[test]
fn a_run_that_ends_without_its_nodes_is_forwarded_to_those_that_are_there_later() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = NODES.map(|name| start(folder.path(), name, free()));
    let addresses = nodes.each_ref().map(Node::address);
    let target = spilling(&addresses, folder.path());
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    let mut nodes = Some(nodes);
    send_to(&front_end, 6_000, |allowed| {
        wait_while(|| !shares(&recorder).iter().all(|node| node.is_connected));
        allowed.store(2_000, Relaxed);
        wait_while(|| !shares(&recorder).iter().all(|node| node.frames_durable > 0));
        for node in nodes.take().into_iter().flatten() {
            node.stop().unwrap();
        }
    });
    let summary = end(recorder, front_end, 6_000);
    assert_eq!(summary.last.state, State::Stopped);
    let spill = summary.last.targets[0].spill.expect("it has one");
    // While they were there, a slow one may have had some by way of the spill.
    assert!(spill.frames_spilled > spill.frames_forwarded, "{spill:?}");
    // What is forwarded in part, and left, is gone on with.
    let one = start(folder.path(), NODES[0], addresses[0]);
    let first = forwarding(&target);
    wait_while(|| one.snapshot().frames_taken == 0);
    drop(first);
    let two = start(folder.path(), NODES[1], addresses[1]);
    let last = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    let state = last.snapshot().remove(0);
    assert_eq!((state.counts.frames_lost, state.counts.frames_waiting), (0, 0), "{state:?}");
    assert!(state.problems.is_empty(), "{state:?}");
    for node in [one, two] {
        node.stop().unwrap();
    }
    check_both(folder.path(), 6_000);
}

#[test]
fn a_file_removed_between_two_programs_is_counted_once_and_all_others_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let addresses = NODES.map(|_| free());
    let mut target = spilling(&addresses, folder.path());
    target.spill.as_mut().unwrap().bytes_max = 32 << 20;
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    send(&front_end, 4_000);
    wait_durable(&front_end, 4_000);
    end(recorder, front_end, 4_000);
    let list = std::fs::read_dir(only(&folder.path().join("spill"))).unwrap();
    let mut files: Vec<PathBuf> = list.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == "catch"));
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    let (frames, rows) = {
        let reader = FileReader::open(ReadFile::open(&files[1]).unwrap()).unwrap();
        let rows = reader.frames().iter().map(|frame| frame.info.rows).sum::<u64>();
        (reader.frames().len() as u64, rows)
    };
    std::fs::remove_file(&files[1]).unwrap();
    // Neither node is there yet: what was counted is not counted again by the next program.
    let first = forwarding(&target);
    wait_while(|| first.snapshot()[0].counts.frames_removed == 0);
    drop(first);
    let nodes = [0, 1].map(|node| start(folder.path(), NODES[node], addresses[node]));
    let last = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    assert_eq!(last.snapshot()[0].counts.frames_lost, 0);
    drop(last);
    for node in nodes {
        node.stop().unwrap();
    }
    let run = Run::open_folders(&stored(folder.path()), RunOptions::default()).unwrap();
    assert_eq!((run.event_count(), run.frames_missing()), (4_000 - rows, frames));
}
