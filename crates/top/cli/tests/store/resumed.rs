//! A recorder that is killed goes on with the run of which a storage node has all frames, alone or
//! beside folders.

use super::*;

/// A target in a folder, beside those of a storage node.
pub(super) const FOLDER: &str = "[[targets]]\nname = \"here\"\nfolder = \"runs\"\n";

/// Sends a thousand fragments in each life, and calls `next` while they are sent, once a part of
/// them is durable: without any at the node a new run would begin.
pub(super) fn send_in_lives(front_end: &Frontend, lives: u64, mut next: impl FnMut(u64)) {
    let of_all = |count: fn(SourceStatus) -> u64| -> Vec<u64> {
        front_end.sources().iter().map(|source| count(source.status())).collect()
    };
    for life in 1..=lives {
        // What was made before may be durable by way of the life before.
        let made = of_all(|status: SourceStatus| status.made);
        send_these(front_end, (life - 1) * 1_000..life * 1_000, |_| {
            if life < lives {
                let durable = || of_all(|status: SourceStatus| status.durable);
                wait_while(|| durable().iter().zip(&made).any(|(durable, made)| durable <= made));
                next(life);
            }
        });
    }
}

pub(super) fn kill(mut recorder: Child) {
    recorder.kill().unwrap();
    recorder.wait().unwrap();
}

/// The only run of the catalogue there.
pub(super) fn only_row(folder: &Path) -> Value {
    let text = stdout(folder, &["catalog", "ls", "--json"], 0);
    let rows: Value = serde_json::from_str(&text).unwrap();
    let [row] = &rows["runs"].as_array().expect("runs")[..] else { panic!("one run: {rows}") };
    row.clone()
}

#[test]
fn a_recorder_that_is_killed_five_times_goes_on_with_its_run_at_a_storage_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, "");
    let mut store = Store::start(folder.path(), node);
    let mut recorder = Some(recorder(folder.path()));
    let front_end = front_end(&url);
    send_in_lives(&front_end, 6, |life| {
        kill(recorder.take().expect("the one before"));
        if life == 3 {
            // The node has died, too.
            store.kill();
            store = Store::start(folder.path(), node);
        }
        recorder = Some(super::recorder(folder.path()));
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder.expect("the last one")), Some(0));
    let stored = only(&folder.path().join("stored"));
    let run = check(&stored, 6_000);
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
    let none = [Entry::FragmentsLostRestart, Entry::FragmentsDiscardedRestart];
    assert_eq!(none.map(|entry| ledger[entry]), [0; 2]);
    let mut epochs: Vec<u32> = run.files().map(|file| file.header.epoch).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    epochs.dedup();
    assert_eq!(epochs.len(), 6, "{epochs:?}");
    let row = only_row(folder.path());
    assert_eq!((&row["state"], &row["events"]), (&"complete".into(), &6_000.into()));
    let [at] = &locations(folder.path())[..] else { panic!("one location") };
    let frames = verify(&run, |_| {}).frames;
    assert_eq!((&at["kind"], &at["frames"]), (&"node".into(), &frames.into()));
    assert_eq!(at["first_frame"], 0);
    store.end();
}

#[test]
fn a_run_whose_storage_node_does_not_answer_is_kept_and_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, "");
    let mut store = Store::start(folder.path(), node);
    let first = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 300, |_| {});
    wait_durable(&front_end, 300);
    kill(first);
    store.kill();
    let refused = stderr(folder.path(), &["run", "node.toml"], 1);
    assert!(refused.contains("run 1, which was interrupted, cannot go on now"), "{refused}");
    assert!(refused.contains(&format!("storage node {node}: ")), "{refused}");
    let store = Store::start(folder.path(), node);
    let again = recorder(folder.path());
    send_these(&front_end, 300..500, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(again), Some(0));
    check(&only(&folder.path().join("stored")), 500);
    assert_eq!(only_row(folder.path())["state"], "complete");
    store.end();
}

/// The run's files in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|one| one == "catch")).collect();
    files.sort();
    files
}

/// Waits until so many events are in the run's files there, closed or not.
fn wait_events(folder: &Path, events: u64) {
    wait_while(|| !Run::open(folder).is_ok_and(|run| run.event_count() >= events));
}

/// All of these folders have the whole run of that many keys, under the same numbers.
fn check_all<const COUNT: usize>(folders: [&Path; COUNT], keys: u64) {
    let numbers = folders.map(|folder| {
        let run = check(folder, keys);
        let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
        let none = [Entry::FragmentsLostRestart, Entry::FragmentsDiscardedRestart];
        assert_eq!(none.map(|entry| ledger[entry]), [0; 2]);
        let infos = run.frames().iter().map(|frame| frame.summary.info);
        infos.map(|info| (info.sequence, info.origin.epoch)).collect::<Vec<_>>()
    });
    assert!(numbers.iter().all(|of_one| *of_one == numbers[0]), "{numbers:?}");
}

#[test]
fn a_recorder_that_is_killed_five_times_goes_on_in_its_folder_and_at_a_storage_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, FOLDER);
    let mut store = Store::start(folder.path(), node);
    let mut recorder = Some(recorder(folder.path()));
    let front_end = front_end(&url);
    send_in_lives(&front_end, 6, |life| {
        if life == 3 {
            // The node dies first.
            store.kill();
        }
        kill(recorder.take().expect("the one before"));
        if life == 3 {
            store = Store::start(folder.path(), node);
        }
        recorder = Some(super::recorder(folder.path()));
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder.expect("the last one")), Some(0));
    assert_eq!(only_row(folder.path())["state"], "complete");
    let here = crate::support::only_run(folder.path());
    check_all([&here, &only(&folder.path().join("stored"))], 6_000);
    store.end();
}

#[test]
fn a_storage_node_that_was_away_gets_what_the_folder_has_before_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, FOLDER);
    let mut store = Store::start(folder.path(), node);
    let first = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 500, |_| {});
    wait_durable(&front_end, 500);
    store.kill();
    send_these(&front_end, 500..1_000, |_| {});
    let here = crate::support::only_run(folder.path());
    wait_events(&here, 1_000);
    kill(first);
    let store = Store::start(folder.path(), node);
    let second = recorder(folder.path());
    send_these(&front_end, 1_000..1_500, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(second), Some(0));
    assert_eq!(only_row(folder.path())["state"], "complete");
    let text = stdout(folder.path(), &["catalog", "show", "1"], 0);
    assert!(text.contains("; node got ") && text.contains(" from here"), "{text}");
    check_all([&here, &only(&folder.path().join("stored"))], 1_500);
    store.end();
}

#[test]
fn what_a_storage_node_has_beyond_a_folder_is_cut_off_and_one_that_has_nothing_gets_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let first = free_ports(2);
    let nodes = [first, first + 1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    // Without it nothing is durable for a front-end: it sends again whatever is lost.
    let target = "[[targets]]\nname = \"other\"\nkind = \"store\"\naddress = ";
    let absent = format!("{target}\"{}\"\n", nodes[1]);
    let url = configure(folder.path(), nodes[0], nodes[0], &format!("{FOLDER}{absent}"));
    configure_store(&other, nodes[1]);
    let store = Store::start(folder.path(), nodes[0]);
    let first = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 1_000, |_| {});
    let here = crate::support::only_run(folder.path());
    let stored = only(&folder.path().join("stored"));
    wait_events(&here, 1_000);
    wait_events(&stored, 1_000);
    assert_eq!(front_end.sources()[0].status().durable, 0);
    kill(first);
    // A power cut takes the last half of the folder's frames.
    let mut files = files(&here);
    let of_file = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        let frames = FileReader::open(&bytes).unwrap().frames().to_vec();
        frames.into_iter().map(|frame| (path.clone(), frame.offset)).collect::<Vec<_>>()
    };
    let frames: Vec<(PathBuf, u64)> = files.iter().flat_map(of_file).collect();
    let (torn, offset) = &frames[frames.len() / 2];
    std::fs::File::options().write(true).open(torn).unwrap().set_len(offset + 100).unwrap();
    files.retain(|path| path > torn);
    files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let late = Store::start(&other, nodes[1]);
    let second = recorder(folder.path());
    send_these(&front_end, 1_000..1_500, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(second), Some(0));
    assert_eq!(only_row(folder.path())["state"], "complete");
    check_all([&here, &stored, &only(&other.join("stored"))], 1_500);
    let kept = std::fs::read_dir(&stored).unwrap().map(|file| file.unwrap().path());
    let is_kept = |path: PathBuf| path.extension().is_some_and(|one| one == "superseded");
    assert!(kept.into_iter().any(is_kept), "what was cut off is kept");
    store.end();
    late.end();
}

/// Configures two storage nodes, both of which a run needs, and no folder. Returns where the files
/// of the second one are, the nodes, and where front-ends connect.
fn two_nodes(folder: &Path) -> (PathBuf, [SocketAddr; 2], String) {
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    let first = free_ports(2);
    let nodes = [first, first + 1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let target = "[[targets]]\nname = \"other\"\nkind = \"store\"\naddress = ";
    let url = configure(folder, nodes[0], nodes[0], &format!("{target}\"{}\"\n", nodes[1]));
    configure_store(&other, nodes[1]);
    (other, nodes, url)
}

#[test]
fn a_recorder_that_is_killed_five_times_goes_on_at_two_storage_nodes_without_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (other, nodes, url) = two_nodes(folder);
    let store = Store::start(folder, nodes[0]);
    let mut second = Store::start(&other, nodes[1]);
    let mut recorder = Some(recorder(folder));
    let front_end = front_end(&url);
    send_in_lives(&front_end, 6, |life| {
        if life == 3 {
            // It dies first: the other one has more.
            second.kill();
            wait_frames(folder);
        }
        kill(recorder.take().expect("the one before"));
        if life == 3 {
            second = Store::start(&other, nodes[1]);
        }
        recorder = Some(super::recorder(folder));
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder.expect("the last one")), Some(0));
    assert_eq!(only_row(folder)["state"], "complete");
    check_all([&only(&folder.join("stored")), &only(&other.join("stored"))], 6_000);
    store.end();
    second.end();
}

/// Waits until the first node has more frames than it has now.
fn wait_frames(folder: &Path) {
    let stored = only(&folder.join("stored"));
    let frames = || Run::open(&stored).map_or(0, |run| run.frames().len());
    let before = frames();
    wait_while(|| frames() <= before);
}

#[test]
fn of_two_storage_nodes_without_a_folder_one_that_has_nothing_gets_all_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (other, nodes, url) = two_nodes(folder);
    let store = Store::start(folder, nodes[0]);
    let first = recorder(folder);
    let front_end = front_end(&url);
    send(&front_end, 1_000, |_| {});
    let stored = only(&folder.join("stored"));
    wait_events(&stored, 1_000);
    assert_eq!(front_end.sources()[0].status().durable, 0);
    kill(first);
    let late = Store::start(&other, nodes[1]);
    let second = recorder(folder);
    send_these(&front_end, 1_000..1_500, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(second), Some(0));
    assert_eq!(only_row(folder)["state"], "complete");
    check_all([&stored, &only(&other.join("stored"))], 1_500);
    store.end();
    late.end();
}

#[test]
fn a_run_of_which_a_storage_node_has_lost_durable_frames_does_not_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (other, nodes, url) = two_nodes(folder);
    let store = Store::start(folder, nodes[0]);
    let mut second = Store::start(&other, nodes[1]);
    let first = recorder(folder);
    let front_end = front_end(&url);
    send(&front_end, 1_000, |_| {});
    wait_durable(&front_end, 1_000);
    kill(first);
    second.kill();
    std::fs::remove_dir_all(other.join("stored")).unwrap();
    second = Store::start(&other, nodes[1]);
    let stored = only(&folder.join("stored"));
    // A new run begins, and what the other node has of the first one stays.
    let again = recorder(folder);
    assert_eq!(interrupt(again), Some(0));
    assert_eq!(Run::open(&stored).unwrap().event_count(), 1_000);
    drop(front_end);
    store.end();
    second.end();
}

#[test]
fn a_run_of_which_nothing_is_at_its_storage_node_goes_on_from_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, "");
    let first = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 300, |_| {});
    kill(first);
    let store = Store::start(folder.path(), node);
    let second = recorder(folder.path());
    send_these(&front_end, 300..500, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(second), Some(0));
    assert_eq!(only_row(folder.path())["state"], "complete");
    let run = check(&only(&folder.path().join("stored")), 500);
    assert!(run.files().all(|file| file.header.epoch > 0));
    store.end();
}

#[test]
fn a_run_goes_on_at_a_storage_node_once_its_spill_was_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, SPILL);
    let mut store = Store::start(folder.path(), node);
    let first = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 500, |_| {});
    wait_durable(&front_end, 500);
    // Nothing is spilled.
    kill(first);
    let second = recorder(folder.path());
    send_these(&front_end, 500..1_000, |_| {});
    wait_durable(&front_end, 1_000);
    store.kill();
    send_these(&front_end, 1_000..1_500, |_| {});
    wait_durable(&front_end, 1_500);
    kill(second);
    let spilled = only(&folder.path().join("spill"));
    let store = Store::start(folder.path(), node);
    let third = recorder(folder.path());
    assert!(!spilled.exists(), "it was forwarded before the run went on");
    send_these(&front_end, 1_500..2_000, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(third), Some(0));
    check(&only(&folder.path().join("stored")), 2_000);
    assert_eq!(only_row(folder.path())["state"], "complete");
    store.end();
}

#[test]
fn a_best_effort_node_gets_nothing_more_of_a_run_that_goes_on_and_the_next_one_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let node = free();
    configure_store(folder, node);
    let target = "[[targets]]\nname = \"node\"\nkind = \"store\"\nrole = \"best-effort\"";
    let control = "[control]\nrequests_per_second = 1000000\ndrain = \"1 h\"\n";
    let (text, url) = text_with(control, &format!("{FOLDER}{target}\naddress = \"{node}\"\n"));
    let store = Store::start(folder, node);
    let first = Node::start(folder, &text, &[]);
    let sending = front_end(&url);
    send(&sending, 500, |_| {});
    wait_durable(&sending, 500);
    let (here, stored) = (crate::support::only_run(folder), only(&folder.join("stored")));
    wait_events(&stored, 1);
    drop(first);
    // As of a sender that is gone.
    wait_while(|| !Run::open(&stored).is_ok_and(|run| run.closed()));
    let before = Run::open(&stored).unwrap().event_count();
    let second = Node::start(folder, &text, &[]);
    let state = second.until(|state| state["targets"][1]["state"] == "fault");
    let reason = state["targets"][1]["reason"].as_str().expect("a reason");
    assert!(reason.contains("is not asked what it has of it"), "{reason}");
    send_these(&sending, 500..1_000, |_| {});
    assert_eq!(sending.close(LONG), Closed::default());
    assert_eq!(second.ctl(&["stop"])["status"], "done");
    check(&here, 1_000);
    assert_eq!(Run::open(&stored).unwrap().event_count(), before);
    assert_eq!(second.ctl(&["start"])["status"], "done");
    let sending = front_end(&url);
    send(&sending, 500, |_| {});
    let is_other = |path: &PathBuf| *path != stored && !path.ends_with(".catchment-store");
    let next = || {
        let all = std::fs::read_dir(folder.join("stored")).unwrap().map(|one| one.unwrap().path());
        all.filter(is_other).find(|path| Run::open(path).is_ok_and(|run| run.event_count() > 0))
    };
    wait_while(|| next().is_none());
    assert_eq!(sending.close(LONG), Closed::default());
    second.signal(libc::SIGINT);
    second.ended();
    store.end();
}
