//! A recorder that is killed goes on with the run of which a storage node has all frames.

use super::*;

/// Sends a thousand fragments in each life, and calls `next` while they are sent, once a part of
/// them is durable: without any at the node a new run would begin.
fn send_in_lives(front_end: &Frontend, lives: u64, mut next: impl FnMut(u64)) {
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

fn kill(mut recorder: Child) {
    recorder.kill().unwrap();
    recorder.wait().unwrap();
}

/// The only run of the catalogue there.
fn only_row(folder: &Path) -> Value {
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

#[test]
fn a_run_with_a_folder_beside_a_storage_node_does_not_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let also = "[[targets]]\nname = \"here\"\nfolder = \"runs\"\n";
    let url = configure(folder.path(), node, node, also);
    let store = Store::start(folder.path(), node);
    let first = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 300, |_| {});
    wait_durable(&front_end, 300);
    kill(first);
    let second = recorder(folder.path());
    // All that it had sent is durable.
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(second), Some(0));
    let text = stdout(folder.path(), &["catalog", "ls", "--json"], 0);
    let rows: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(rows["runs"].as_array().map(Vec::len), Some(2), "{rows}");
    store.end();
}
