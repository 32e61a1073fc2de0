//! A recorder that spills what its storage node cannot take: what front-ends send is in the node's
//! files, once, whatever happens between.

use std::os::unix::fs::FileExt;

use catchment_frame::FileReader;
use catchment_recorder::{
    EnterForwarded, Forwarded, Forwarding, SpillConfig, SpillReport, SpillState,
};

use super::*;

fn spilling(address: SocketAddr, folder: &Path, bytes_max: u64) -> TargetConfig {
    let spill = SpillConfig { folder: folder.join("spill"), bytes_max };
    TargetConfig { spill: Some(spill), ..node_target(address) }
}

fn forwarding(target: &TargetConfig) -> Forwarding {
    let source = SourceConfig::over_session("a".to_owned(), any());
    let mut config = RecorderConfig::new("".into(), vec![source]);
    config.targets = vec![target.clone()];
    let enter: EnterForwarded = Arc::new(|_: &Forwarded| Ok(true));
    Forwarding::start(&config, &Arc::default(), &enter).unwrap()
}

fn state(forwarding: &Forwarding) -> SpillState {
    forwarding.snapshot().remove(0)
}

/// A run of so many keys, all of which is spilled: the node is not there.
fn spilled_run(folder: &Path, target: &TargetConfig, keys: u64) -> RunSummary {
    let (recorder, front_end) = recorder(folder, vec![target.clone()]);
    send(&front_end, keys);
    wait_durable(&front_end, keys);
    let summary = end(recorder, front_end, keys);
    let of_target = &summary.last.targets[0];
    let spill = of_target.spill.expect("it has one");
    assert!(spill.frames_spilled > 0 && spill.frames_forwarded == 0, "{spill:?}");
    assert_eq!(summary.last.state, State::Stopped);
    summary
}

/// The frame files in the spill's only stream.
fn spilled_files(folder: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(only(&folder.join("spill"))).unwrap();
    let mut files: Vec<PathBuf> = list.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == "catch"));
    files.sort();
    files
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder.join("spill")).unwrap().next().is_none()
}

/// Fragments of each source that were spilled, and forwarded.
fn moved(ledger: &Ledger) -> [[u64; 2]; SOURCES as usize] {
    let of = |source: usize| {
        let entries = [Entry::FragmentsSpilled, Entry::FragmentsForwarded];
        entries.map(|entry| ledger.sources[source][entry])
    };
    std::array::from_fn(of)
}

#[test]
fn a_run_whose_node_is_away_is_durable_in_the_spill_and_goes_to_the_node_when_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 1 << 30);
    let (recorder, front_end) = recorder(folder.path(), vec![target]);
    send(&front_end, 2_000);
    // Nobody else has them.
    wait_durable(&front_end, 2_000);
    for file in spilled_files(folder.path()) {
        let run = Run::open(&file).unwrap();
        assert!(!run.frames().is_empty() && verify(&run, |_| {}).is_intact(), "{file:?}");
    }
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let spill = || recorder.snapshot().targets[0].spill.unwrap();
    wait_while(|| spill().frames_waiting > 0);
    assert_eq!(spill().frames_forwarded, spill().frames_spilled);
    assert_eq!(spill().bytes_waiting, 0);
    wait_while(|| moved(&recorder.snapshot().targets[0].ledger) != [[2_000; 2]; 2]);
    end(recorder, front_end, 2_000);
    let run = check(&only(&folder.path().join("stored")), 2_000);
    // The last frame says so.
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run");
    assert_eq!(moved(&ledger), [[2_000; 2]; 2]);
    assert!(is_empty(folder.path()));
    assert_eq!(node.stop().unwrap().frames_repeated, 0);
}

#[test]
fn a_run_ends_without_its_node_and_is_forwarded_later_as_one_that_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 1 << 30);
    spilled_run(folder.path(), &target, 2_000);
    let forwarding = forwarding(&target);
    wait_while(|| state(&forwarding).counts.frames_waiting == 0);
    let waiting = state(&forwarding).counts;
    let why = format!("storage node {address}: ");
    wait_while(|| !state(&forwarding).problems.iter().any(|text| text.starts_with(&why)));
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    wait_while(|| !is_empty(folder.path()));
    check(&only(&folder.path().join("stored")), 2_000);
    let after = state(&forwarding);
    assert_eq!(after.counts.frames_forwarded, waiting.frames_waiting);
    assert_eq!((after.counts.frames_waiting, after.counts.bytes_waiting), (0, 0));
    assert!(after.problems.is_empty(), "{after:?}");
    node.stop().unwrap();
}

#[test]
fn what_waits_in_a_spill_is_that_of_all_runs_whether_one_is_forwarded_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 1 << 30);
    let spilled = [500, 1_000].map(|keys| {
        let summary = spilled_run(folder.path(), &target, keys);
        let spill = summary.last.targets[0].spill.expect("it has one");
        // It has left them to the forwarder, which there is not yet.
        let left = spill.handed_over.expect("they wait");
        assert_eq!((spill.frames_waiting, left.frames), (0, spill.frames_spilled));
        left.frames
    });
    let forwarding = forwarding(&target);
    // One at a time is forwarded, the other waits for its turn.
    wait_while(|| state(&forwarding).looked.is_none());
    assert_eq!(state(&forwarding).counts.frames_waiting, spilled.iter().sum::<u64>());
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    wait_while(|| !is_empty(folder.path()));
    wait_while(|| state(&forwarding).counts.frames_waiting > 0);
    assert_eq!(state(&forwarding).counts.bytes_waiting, 0);
    node.stop().unwrap();
}

#[test]
fn a_node_that_comes_and_goes_gets_spilled_and_new_frames_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), free())).unwrap();
    let address = node.address();
    let target = spilling(address, folder.path(), 1 << 30);
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    let spilled = || recorder.snapshot().targets[0].spill.unwrap().frames_spilled;
    let mut node = Some(node);
    send_to(&front_end, 8_000, |allowed| {
        for life in 1..=3 {
            allowed.store(life * 2_000, Relaxed);
            wait_while(|| node.as_ref().is_some_and(|node| node.snapshot().frames_taken == 0));
            node.take().map(Node::stop).expect("it runs").unwrap();
            let before = spilled();
            allowed.store(life * 2_000 + 500, Relaxed);
            wait_while(|| spilled() == before);
            node = Some(Node::start(store_config(folder.path(), address)).unwrap());
        }
    });
    end(recorder, front_end, 8_000);
    // What was still in the spill at the end.
    let forwarding = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    check(&only(&folder.path().join("stored")), 8_000);
    assert_eq!(state(&forwarding).counts.frames_lost, 0);
    node.map(Node::stop).expect("it runs").unwrap();
}

#[test]
fn a_node_whose_disk_is_full_is_spilled_for_until_it_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let control = FaultControl::default();
    let mut config = store_config(folder.path(), any());
    config.disk.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    let node = Node::start(config).unwrap();
    let target = spilling(node.address(), folder.path(), 1 << 30);
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    send_to(&front_end, 4_000, |allowed| {
        allowed.store(1_000, Relaxed);
        wait_durable(&front_end, 1_000);
        control.fail_writes(Some(libc::ENOSPC));
        allowed.store(3_000, Relaxed);
        // In the spill: the node has no room.
        wait_durable(&front_end, 3_000);
        control.fail_writes(None);
    });
    end(recorder, front_end, 4_000);
    let _forwarding = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    check(&only(&folder.path().join("stored")), 4_000);
    node.stop().unwrap();
}

#[test]
fn a_node_whose_disk_makes_nothing_durable_is_spilled_for_until_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let control = FaultControl::default();
    let plan = FaultPlan { control: control.clone(), seed: 3, ..FaultPlan::default() };
    let mut config = store_config(folder.path(), any());
    config.disk.faults = Some(FaultPlan { short_writes_per_million: 200_000, ..plan });
    let node = Node::start(config).unwrap();
    let target = spilling(node.address(), folder.path(), 1 << 30);
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    send_to(&front_end, 4_000, |allowed| {
        allowed.store(1_000, Relaxed);
        wait_durable(&front_end, 1_000);
        // What is written is cut off again each time.
        control.fail_syncs(Some(libc::EIO));
        control.fail_finishes(Some(libc::EIO));
        allowed.store(3_000, Relaxed);
        wait_durable(&front_end, 3_000);
        // What is durable is in the spill; the node may be slower than that to try and fail.
        let waiting = || recorder.snapshot().targets[0].spill.unwrap().frames_waiting;
        wait_while(|| waiting() == 0 || node.snapshot().disk_faults == 0);
        control.fail_syncs(None);
        control.fail_finishes(None);
    });
    end(recorder, front_end, 4_000);
    let forwarding = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    check(&only(&folder.path().join("stored")), 4_000);
    assert_eq!(state(&forwarding).counts.frames_lost, 0);
    node.stop().unwrap();
}

#[test]
fn a_spill_that_is_full_is_no_spill_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 2 << 20);
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    let mut node = None;
    send_to(&front_end, 4_000, |allowed| {
        allowed.store(3_000, Relaxed);
        let is_full = |text: &String| text.contains("the spill is full");
        wait_while(|| !recorder.snapshot().warnings.iter().any(is_full));
        let spill = recorder.snapshot().targets[0].spill.unwrap();
        assert!(spill.bytes_waiting <= 2 << 20 && spill.frames_spilled > 0, "{spill:?}");
        node = Some(Node::start(store_config(folder.path(), address)).unwrap());
    });
    end(recorder, front_end, 4_000);
    let _forwarding = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    check(&only(&folder.path().join("stored")), 4_000);
    node.map(Node::stop).expect("it runs").unwrap();
}

#[test]
fn what_was_given_up_is_counted_and_what_was_spilled_is_forwarded_as_no_whole_run() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 2 << 20);
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    send(&front_end, 3_000);
    let is_full = |text: &String| text.contains("the spill is full");
    wait_while(|| !recorder.snapshot().warnings.iter().any(is_full));
    let summary = recorder.stop().unwrap();
    let of_target = &summary.last.targets[0];
    let total = of_target.ledger.total();
    let [recorded, discarded] =
        [Entry::FragmentsRecorded, Entry::FragmentsDiscardedDisk].map(|entry| total[entry]);
    assert!(recorded > 0 && discarded > 0 && of_target.ledger.balance().holds(), "{total:?}");
    let mut config = store_config(folder.path(), address);
    config.close_after_ns = 10_000_000;
    let node = Node::start(config).unwrap();
    let forwarding = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    let stored = only(&folder.path().join("stored"));
    wait_while(|| !Run::open(&stored).is_ok_and(|run| run.closed()));
    let run = Run::open(&stored).unwrap();
    assert!(!run.ended() && verify(&run, |_| {}).is_intact());
    let ledger = catchment_storage::recompute(&run).0.total();
    assert_eq!(ledger[Entry::FragmentsRecorded], recorded);
    drop(forwarding);
    node.stop().unwrap();
    drop(front_end);
}

#[test]
fn folders_and_files_of_others_are_left_alone_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 1 << 30);
    spilled_run(folder.path(), &target, 500);
    let spill = folder.path().join("spill");
    let own = only(&spill);
    let others = ["notes/spill-00000.catch", "bad/STREAM.lock", "list.txt"];
    for other in others {
        let path = spill.join(other);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "somebody's").unwrap();
    }
    // A file of somebody else in the stream's own folder.
    std::fs::write(own.join("mine.txt"), "mine").unwrap();
    let forwarding = forwarding(&target);
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    wait_while(|| {
        let problems = state(&forwarding).problems.join("\n");
        !["notes is left alone", "bad is left alone", "list.txt", "mine.txt"]
            .iter()
            .all(|part| problems.contains(part))
    });
    for other in others {
        assert_eq!(std::fs::read_to_string(spill.join(other)).unwrap(), "somebody's");
    }
    assert_eq!(std::fs::read_to_string(own.join("mine.txt")).unwrap(), "mine");
    assert!(spilled_files_in(&own).is_empty());
    check(&only(&folder.path().join("stored")), 500);
    node.stop().unwrap();
}

fn spilled_files_in(folder: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    list.filter(|path| path.extension().is_some_and(|found| found == "catch")).collect()
}

#[test]
fn a_spill_for_one_node_is_never_sent_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let target = spilling(free(), folder.path(), 1 << 30);
    spilled_run(folder.path(), &target, 500);
    let files = spilled_files(folder.path());
    let other = Node::start(store_config(folder.path(), any())).unwrap();
    let forwarding = forwarding(&spilling(other.address(), folder.path(), 1 << 30));
    wait_while(|| !state(&forwarding).problems.iter().any(|text| text.contains("is for the node")));
    drop(forwarding);
    assert_eq!((spilled_files(folder.path()), other.stop().unwrap().sessions_opened), (files, 0));
}

#[test]
fn a_node_that_has_lost_what_it_had_is_sent_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), free())).unwrap();
    let address = node.address();
    let target = spilling(address, folder.path(), 1 << 30);
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    let mut node = Some(node);
    send_to(&front_end, 2_000, |allowed| {
        allowed.store(1_000, Relaxed);
        wait_durable(&front_end, 1_000);
        // At the node: what was spilled before it was there is forwarded.
        wait_while(|| recorder.snapshot().targets[0].spill.unwrap().frames_waiting > 0);
        node.take().map(Node::stop).expect("it runs").unwrap();
    });
    end(recorder, front_end, 2_000);
    std::fs::remove_dir_all(folder.path().join("stored")).unwrap();
    let files = spilled_files(folder.path());
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let forwarding = forwarding(&target);
    wait_while(|| !state(&forwarding).problems.iter().any(|text| text.contains("are missing")));
    drop(forwarding);
    assert_eq!((spilled_files(folder.path()), node.stop().unwrap().frames_taken), (files, 0));
}

/// Changes some bytes of a file.
fn damage(path: &Path, offset: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0xA5; 64], offset).unwrap();
}

/// Each key that is in the node's files, once for each source.
fn keys_at_node(folder: &Path) -> Vec<u64> {
    let run = Run::open(only(&folder.join("stored"))).unwrap();
    let verified = verify(&run, |_| {});
    assert!(verified.is_intact(), "{verified:?}");
    let mut keys = Vec::new();
    for frame in 0..run.frames().len() {
        let column = run.fragments(frame, SourceId(0)).unwrap();
        for (row, &key) in column.events().keys().iter().enumerate() {
            assert_eq!(column.fragment(row).expect("it is there"), content(0, key));
            keys.push(key);
        }
    }
    assert!(keys.is_sorted_by(|one, next| one < next));
    keys
}

#[test]
fn what_is_damaged_in_a_spill_is_counted_and_kept_and_all_else_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 32 << 20);
    spilled_run(folder.path(), &target, 4_000);
    let files = spilled_files(folder.path());
    assert!(files.len() >= 3, "{files:?}");
    let frames = |path: &Path| {
        let reader = FileReader::open(catchment_disk::ReadFile::open(path).unwrap()).unwrap();
        reader.frames().to_vec()
    };
    let (first, second) = (frames(&files[0]), frames(&files[1]));
    // A header, which the table of contents stands in for, and the bytes of a column.
    damage(&files[0], first[0].offset);
    let column = second[0].offset + second[0].frame_bytes / 2;
    damage(&files[1], column);
    // A file's header: all of its frames can be read.
    damage(&files[2], 0);
    let forwarding = forwarding(&target);
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    wait_while(|| state(&forwarding).counts.files_damaged < 2);
    wait_while(|| !state(&forwarding).problems.iter().any(|text| text.contains("stays, with")));
    let after = state(&forwarding);
    assert!(spilled_files(folder.path()).is_empty());
    assert_eq!(after.counts.frames_lost, 1, "{after:?}");
    let lost = 4_000 - keys_at_node(folder.path()).len() as u64;
    assert_eq!(lost, second[0].info.rows);
    for file in &files[1..3] {
        assert!(file.with_extension("damaged").exists(), "{file:?}");
    }
    let text = after.problems.join("\n");
    assert!(text.contains("cannot be read") && text.contains("is kept as"), "{text}");
    node.stop().unwrap();
}

#[test]
fn frames_whose_file_somebody_has_removed_are_lost_and_counted_and_all_others_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 32 << 20);
    let (recorder, front_end) = recorder(folder.path(), vec![target]);
    send(&front_end, 4_000);
    wait_durable(&front_end, 4_000);
    let files = spilled_files(folder.path());
    assert!(files.len() >= 3, "{files:?}");
    let frames = {
        let reader = FileReader::open(catchment_disk::ReadFile::open(&files[1]).unwrap()).unwrap();
        reader.frames().to_vec()
    };
    std::fs::remove_file(&files[1]).unwrap();
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let spill = || recorder.snapshot().targets[0].spill.unwrap();
    wait_while(|| spill().frames_waiting > 0);
    let lost = frames.len() as u64;
    let after = spill();
    assert_eq!((after.frames_lost, after.frames_removed), (lost, lost));
    assert_eq!(after.frames_forwarded, after.frames_spilled - lost);
    let warnings = recorder.snapshot().warnings.join("\n");
    assert!(warnings.contains("was removed"), "{warnings}");
    let rows = frames.iter().map(|frame| frame.info.rows).sum::<u64>();
    let summary = end(recorder, front_end, 4_000);
    assert_eq!(moved(&summary.last.targets[0].ledger), [[4_000, 4_000 - rows]; 2]);
    assert_eq!(summary.last.targets[0].spill.unwrap().files_damaged, 0, "nothing is kept aside");
    assert_eq!(keys_at_node(folder.path()).len() as u64, 4_000 - rows);
    node.stop().unwrap();
}

#[test]
fn what_is_removed_from_a_spill_is_counted_when_its_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let target = spilling(free(), folder.path(), 1 << 30);
    let (recorder, front_end) = recorder(folder.path(), vec![target]);
    send(&front_end, 500);
    wait_durable(&front_end, 500);
    for file in spilled_files(folder.path()) {
        std::fs::remove_file(file).unwrap();
    }
    let summary = end(recorder, front_end, 500);
    let spill = summary.last.targets[0].spill.expect("it has one");
    assert!(spill.frames_removed > 0 && spill.frames_lost == spill.frames_removed, "{spill:?}");
    assert_eq!((spill.frames_waiting, spill.frames_forwarded), (0, 0), "{spill:?}");
    let warnings = summary.last.warnings.join("\n");
    assert!(warnings.contains("were removed"), "{warnings}");
}

#[test]
fn no_frame_becomes_durable_in_a_file_of_the_spill_that_somebody_has_removed() {
    let folder = tempfile::tempdir().unwrap();
    let target = spilling(free(), folder.path(), 1 << 30);
    let (recorder, front_end) = recorder(folder.path(), vec![target]);
    send_to(&front_end, 1_000, |allowed| {
        allowed.store(500, Relaxed);
        wait_durable(&front_end, 500);
        for file in spilled_files(folder.path()) {
            std::fs::remove_file(file).unwrap();
        }
    });
    wait_durable(&front_end, 1_000);
    end(recorder, front_end, 1_000);
    let files = spilled_files(folder.path());
    let rows = files.iter().map(|path| {
        let reader = FileReader::open(catchment_disk::ReadFile::open(path).unwrap()).unwrap();
        reader.frames().iter().map(|frame| frame.info.rows).sum::<u64>()
    });
    assert!(rows.sum::<u64>() >= 500);
}

#[test]
fn files_removed_after_a_run_are_counted_once_and_all_other_frames_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 32 << 20);
    let summary = spilled_run(folder.path(), &target, 4_000);
    let files = spilled_files(folder.path());
    assert!(files.len() >= 3, "{files:?}");
    let (mut frames, mut rows) = (0, 0);
    // The first one, and one behind others.
    for path in [&files[0], &files[2]] {
        let reader = FileReader::open(catchment_disk::ReadFile::open(path).unwrap()).unwrap();
        frames += reader.frames().len() as u64;
        rows += reader.frames().iter().map(|frame| frame.info.rows).sum::<u64>();
        std::fs::remove_file(path).unwrap();
    }
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let forwarding = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    let after = state(&forwarding).counts;
    assert_eq!((after.frames_lost, after.frames_removed), (frames, frames), "{after:?}");
    let spilled = summary.last.targets[0].spill.expect("it has one").frames_spilled;
    assert_eq!(after.frames_forwarded, spilled - frames);
    assert_eq!(keys_at_node(folder.path()).len() as u64, 4_000 - rows);
    node.stop().unwrap();
}

#[test]
fn a_file_removed_in_a_run_is_not_counted_again_when_its_stream_is_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 32 << 20);
    let (recorder, front_end) = recorder(folder.path(), vec![target.clone()]);
    send(&front_end, 4_000);
    wait_durable(&front_end, 4_000);
    let files = spilled_files(folder.path());
    assert!(files.len() >= 3, "{files:?}");
    let reader = FileReader::open(catchment_disk::ReadFile::open(&files[1]).unwrap()).unwrap();
    let rows = reader.frames().iter().map(|frame| frame.info.rows).sum::<u64>();
    drop(reader);
    std::fs::remove_file(&files[1]).unwrap();
    let summary = end(recorder, front_end, 4_000);
    let of_target = &summary.last.targets[0];
    let spill = of_target.spill.expect("it has one");
    assert!(spill.frames_removed > 0 && spill.frames_lost == spill.frames_removed, "{spill:?}");
    for source in &of_target.ledger.sources {
        assert_eq!(source[Entry::FragmentsRemoved], rows);
    }
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let forwarding = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    assert_eq!(state(&forwarding).counts.frames_lost, 0);
    node.stop().unwrap();
}

#[test]
fn frames_torn_at_the_end_stop_nothing_before_or_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 32 << 20);
    spilled_run(folder.path(), &target, 4_000);
    let files = spilled_files(folder.path());
    let (torn, path) = {
        let reader = FileReader::open(catchment_disk::ReadFile::open(&files[0]).unwrap()).unwrap();
        (reader.frames().to_vec(), files[0].clone())
    };
    // As after a power cut: no table of contents, and headers that never reached the disk.
    let [.., one, two] = &torn[..] else { panic!("several frames") };
    let end = two.offset + two.frame_bytes;
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(end).unwrap();
    for frame in [one, two] {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![0; frame.header_bytes as usize], frame.offset).unwrap();
    }
    let forwarding = forwarding(&target);
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    wait_while(|| !state(&forwarding).problems.iter().any(|text| text.contains("stays, with")));
    assert_eq!(state(&forwarding).counts.frames_lost, 2);
    let lost = 4_000 - keys_at_node(folder.path()).len() as u64;
    assert_eq!(lost, one.info.rows + two.info.rows);
    assert!(path.with_extension("damaged").exists());
    node.stop().unwrap();
}

#[test]
fn a_file_that_the_system_does_not_read_is_no_damage_and_is_sent_once_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 32 << 20);
    spilled_run(folder.path(), &target, 4_000);
    let files = spilled_files(folder.path());
    let aside = folder.path().join("aside");
    std::fs::rename(&files[1], &aside).unwrap();
    // What is no file cannot be opened as one.
    std::fs::create_dir(&files[1]).unwrap();
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let before = forwarding(&target);
    wait_while(|| !state(&before).problems.iter().any(|text| text.contains("is not forwarded")));
    // Nothing of it is forwarded, and it waits.
    let counts = state(&before).counts;
    assert!(counts.frames_waiting > 0 && counts.bytes_waiting > 0, "{counts:?}");
    let nothing = SpillReport::default();
    let SpillReport { waits_ns, frames_waiting, bytes_waiting, handed_over, .. } = counts;
    let waits = SpillReport { waits_ns, frames_waiting, bytes_waiting, handed_over, ..nothing };
    assert_eq!(counts, waits);
    drop(before);
    assert_eq!((spilled_files(folder.path()), node.snapshot().frames_taken), (files.clone(), 0));
    std::fs::remove_dir(&files[1]).unwrap();
    std::fs::rename(&aside, &files[1]).unwrap();
    let _forwarding = forwarding(&target);
    wait_while(|| !is_empty(folder.path()));
    check(&only(&folder.path().join("stored")), 4_000);
    node.stop().unwrap();
}

#[test]
fn a_first_file_of_which_nothing_can_be_read_holds_up_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let address = free();
    let target = spilling(address, folder.path(), 32 << 20);
    spilled_run(folder.path(), &target, 4_000);
    let files = spilled_files(folder.path());
    let frames = {
        let reader = FileReader::open(catchment_disk::ReadFile::open(&files[0]).unwrap()).unwrap();
        reader.frames().to_vec()
    };
    let bytes = std::fs::metadata(&files[0]).unwrap().len();
    std::fs::write(&files[0], vec![0; bytes as usize]).unwrap();
    let forwarding = forwarding(&target);
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    wait_while(|| !state(&forwarding).problems.iter().any(|text| text.contains("stays, with")));
    let after = state(&forwarding).counts;
    assert_eq!((after.frames_lost, after.files_damaged), (frames.len() as u64, 1));
    let lost = 4_000 - keys_at_node(folder.path()).len() as u64;
    assert_eq!(lost, frames.iter().map(|frame| frame.info.rows).sum::<u64>());
    assert!(files[0].with_extension("damaged").exists());
    node.stop().unwrap();
}
