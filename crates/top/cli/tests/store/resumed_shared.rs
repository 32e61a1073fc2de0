//! A recorder that is killed goes on with the run whose frames several storage nodes share, alone
//! or beside a folder.

use super::resumed::{FOLDER, kill, only_row, send_in_lives};
use super::*;

/// Storage nodes, of which each has a folder for its configuration.
struct Nodes {
    folder: PathBuf,
    at: Vec<SocketAddr>,
    stores: Vec<Option<Store>>,
    /// Where front-ends connect.
    url: String,
}

impl Nodes {
    /// Starts that many, and writes the file of a recorder of these.
    fn start(folder: &Path, count: u16, more: &str) -> Self {
        let first = free_ports(count);
        let at = (first..).take(count.into());
        let at: Vec<SocketAddr> = at.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let addresses: Vec<String> = at.iter().map(SocketAddr::to_string).collect();
        // Rows of frames are an eighth of what may be held for each.
        let (text, url) =
            recorder_text(&format!("nodes = {addresses:?}\nhold_bytes = \"4 MiB\"\n{more}"));
        std::fs::write(folder.join("node.toml"), text).unwrap();
        let stores = at.iter().map(|_| None).collect();
        let mut nodes = Self { folder: folder.to_owned(), at, stores, url };
        for index in 0..count.into() {
            std::fs::create_dir(nodes.own(index)).unwrap();
            configure_store(&nodes.own(index), nodes.at[index]);
            nodes.begin(index);
        }
        nodes
    }

    /// The folder of one.
    fn own(&self, index: usize) -> PathBuf {
        self.folder.join(format!("node-{index}"))
    }

    fn begin(&mut self, index: usize) {
        self.stores[index] = Some(Store::start(&self.own(index), self.at[index]));
    }

    fn kill(&mut self, index: usize) {
        self.stores[index].take().expect("it runs").kill();
    }

    /// The folders of the only run, but for nodes that have nothing of it.
    fn stored(&self) -> Vec<PathBuf> {
        let all = (0..self.at.len()).map(|index| self.own(index).join("stored"));
        all.filter(|stored| stored.exists()).map(|stored| only(&stored)).collect()
    }

    /// Checks the run of that many keys, and ends the nodes.
    fn check(self, folders: &[PathBuf], keys: u64) -> Run {
        let run = check_run(Run::open_folders(folders, RunOptions::default()).unwrap(), keys);
        assert!(run.problems().is_empty() && !run.lost_data(), "{:?}", run.problems());
        assert_eq!((run.event_count(), run.frames_missing()), (keys, 0));
        let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
        let none = [Entry::FragmentsLostRestart, Entry::FragmentsDiscardedRestart];
        assert_eq!(none.map(|entry| ledger[entry]), [0; 2]);
        assert_eq!(only_row(&self.folder)["state"], "complete");
        self.stores.into_iter().flatten().for_each(|store| _ = store.end());
        run
    }
}

/// Files of what was cut off.
fn superseded(folders: &[PathBuf]) -> usize {
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|one| one == "superseded")).count()
}

#[test]
fn a_recorder_that_is_killed_six_times_goes_on_at_three_nodes_that_share_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = Nodes::start(folder.path(), 3, "");
    let mut recorder = Some(super::recorder(folder.path()));
    let front_end = front_end(&nodes.url);
    send_in_lives(&front_end, 7, |life| {
        match life {
            // What it has not acknowledged is a hole: the others have frames behind it.
            2..=3 => nodes.kill(life as usize - 1),
            // What it has not acknowledged goes to others, and a part of it may be there, too. They
            // have it before the recorder is killed: if frames that stand there behind others with
            // higher numbers were to be cut off, a new run would begin.
            5 => {
                nodes.kill(2);
                wait_durable(&front_end, 5_000);
                nodes.begin(2);
            }
            _ => {}
        }
        kill(recorder.take().expect("the one before"));
        if (2..=3).contains(&life) {
            nodes.begin(life as usize - 1);
        }
        recorder = Some(super::recorder(folder.path()));
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder.expect("the last one")), Some(0));
    let stored = nodes.stored();
    println!("{} files of what was cut off", superseded(&stored));
    let run = nodes.check(&stored, 7_000);
    let epochs: std::collections::BTreeSet<u32> =
        run.files().map(|file| file.header.epoch).collect();
    assert_eq!(epochs.len(), 7, "{epochs:?}");
    let frames: u64 =
        locations(folder.path()).iter().map(|at| at["frames"].as_u64().unwrap()).sum();
    assert!(frames >= verify(&run, |_| {}).frames, "{frames}");
}

#[test]
fn a_run_of_which_one_node_does_not_answer_is_kept_and_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = Nodes::start(folder.path(), 2, "");
    let first = super::recorder(folder.path());
    let front_end = front_end(&nodes.url);
    send(&front_end, 1_000, |_| {});
    wait_durable(&front_end, 1_000);
    kill(first);
    nodes.kill(1);
    let refused = stderr(folder.path(), &["run", "node.toml"], 1);
    assert!(refused.contains("run 1, which was interrupted, cannot go on now"), "{refused}");
    assert!(refused.contains(&format!("storage node {}: ", nodes.at[1])), "{refused}");
    nodes.begin(1);
    let again = super::recorder(folder.path());
    send_these(&front_end, 1_000..1_500, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(again), Some(0));
    let stored = nodes.stored();
    nodes.check(&stored, 1_500);
}

#[test]
fn a_recorder_goes_on_in_its_folder_and_at_two_nodes_that_share_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = Nodes::start(folder.path(), 2, FOLDER);
    let mut recorder = Some(super::recorder(folder.path()));
    let front_end = front_end(&nodes.url);
    send_in_lives(&front_end, 4, |life| {
        if life == 2 {
            // The folder has what it does not get.
            nodes.kill(1);
        }
        kill(recorder.take().expect("the one before"));
        if life == 2 {
            nodes.begin(1);
        }
        recorder = Some(super::recorder(folder.path()));
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder.expect("the last one")), Some(0));
    let (stored, here) = (nodes.stored(), crate::support::only_run(folder.path()));
    let run = nodes.check(&stored, 4_000);
    let there = run.frames().iter().map(|frame| frame.summary.info.sequence);
    let run = super::check(&here, 4_000);
    assert!(there.eq(run.frames().iter().map(|frame| frame.summary.info.sequence)));
}

#[test]
fn a_run_goes_on_at_two_nodes_once_what_was_spilled_for_them_is_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = Nodes::start(folder.path(), 2, SPILL);
    let first = super::recorder(folder.path());
    let front_end = front_end(&nodes.url);
    send(&front_end, 1_000, |_| {});
    wait_durable(&front_end, 1_000);
    (0..2).for_each(|index| nodes.kill(index));
    send_these(&front_end, 1_000..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    kill(first);
    let spilled = only(&folder.path().join("spill"));
    (0..2).for_each(|index| nodes.begin(index));
    let second = super::recorder(folder.path());
    assert!(!spilled.exists(), "it was forwarded before the run went on");
    send_these(&front_end, 2_000..3_000, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(second), Some(0));
    let stored = nodes.stored();
    nodes.check(&stored, 3_000);
}
