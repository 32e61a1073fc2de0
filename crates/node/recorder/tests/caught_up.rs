//! A recorder of a port is killed that had two required folders, of which one lacks frames that
//! the other has: what neither can be sent again is in both when the run goes on.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use catchment_fixtures::{sender_to, wait_while};
use catchment_frame::{ColumnKind, FileReader, FrameSummary};
use catchment_model::{Entry, SourceId};
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, TargetConfig};
use catchment_storage::{Resumable, Run, RunOptions, audit, verify};
use catchment_wire::hadtu::ByteOrder;

use super::support;

/// Where the recorder that is killed records.
const FOLDER: &str = "CATCHMENT_TEST_CAUGHT_UP";
const ADDRESS: &str = "address";
/// If it is in the root, the second folder gets the first source alone.
const SELECTED: &str = "selected";
const NAMES: [&str; 2] = ["first", "second"];
/// Frames that the second folder lacks.
const LACKS: usize = 2;

fn config(folder: &Path) -> RecorderConfig {
    let mut config = support::config(folder, 2);
    config.frame.time_ns = 20_000_000;
    // Nothing is known to be durable.
    config.write.sync_interval_ns = 3_600_000_000_000;
    config.targets = NAMES.map(|name| TargetConfig::folder(name, folder.join(name))).into();
    if folder.join(SELECTED).exists() {
        config.targets[1].sources = Some(vec!["s0".to_owned()]);
    }
    config
}

/// The process that is killed; as a test of its own it does nothing.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let recorder = Recorder::start(config(&folder)).expect("starts");
    let written = folder.join("address.part");
    let addresses: Vec<_> = recorder.addresses().iter().map(ToString::to_string).collect();
    std::fs::write(&written, addresses.join(" ")).expect("writes");
    std::fs::rename(written, folder.join(ADDRESS)).expect("is named");
    loop {
        std::thread::park();
    }
}

/// The process with the recorder, which is killed in any case.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn started(folder: &Path) -> Victim {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "caught_up::child", "--nocapture"]).env(FOLDER, folder);
    Victim(command.stdout(Stdio::null()).spawn().expect("starts"))
}

/// A run that was killed, of which one folder lacks frames.
struct Killed {
    root: tempfile::TempDir,
    /// Of the run, in each folder.
    folders: [PathBuf; 2],
    /// How many sources each has.
    sources: [usize; 2],
    /// The events that one folder has whole, and how many of them the other one has.
    events: u64,
    common: u64,
}

impl Killed {
    /// That folder is behind; the second one may be of a selection.
    fn new(behind: usize, is_selected: bool) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        if is_selected {
            std::fs::write(root.path().join(SELECTED), "").expect("writes");
        }
        let child = started(root.path());
        wait_while(|| !root.path().join(ADDRESS).exists());
        let addresses = std::fs::read_to_string(root.path().join(ADDRESS)).expect("reads");
        let addresses = addresses.split(' ').map(|one| one.parse().expect("an address"));
        let senders: Vec<_> = addresses.map(|one: SocketAddr| sender_to(one)).collect();
        let runs = NAMES.map(|name| root.path().join(name));
        let run_in = |folder: &PathBuf| {
            let mut entries = folder.read_dir().ok()?.map(|entry| entry.expect("an entry").path());
            entries
                .find(|path| path.is_dir() && path.file_name().is_some_and(|n| n != ".catchment"))
        };
        let frames = |folder: &PathBuf| {
            run_in(folder).and_then(|run| Run::open(run).ok()).map_or(0, |run| run.frames().len())
        };
        let mut number = 0;
        wait_while(|| {
            send(&senders, number);
            number += 1;
            runs.iter().any(|folder| frames(folder) < 3 * LACKS)
        });
        drop(child);
        let folders = runs.each_ref().map(|folder| run_in(folder).expect("a run"));
        // Each of them writes at its own pace: which frames are cut off is said by the other one.
        let paths = folders.each_ref().map(|folder| only_file(folder));
        let last = frames_in(&paths[1 - behind]).into_iter().rfind(|frame| frame.info.rows > 0);
        let kept = last.expect("a frame").info.sequence - LACKS as u64;
        // The last frame that it has stays incomplete.
        let frames = frames_in(&paths[behind]);
        let first = frames.iter().find(|frame| frame.info.sequence > kept);
        let cut = first.or(frames.last()).expect("a frame").offset;
        let path = &paths[behind];
        File::options()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(cut + 100))
            .expect("cuts");
        let events = folders.each_ref().map(|folder| {
            let run = Run::open(folder).expect("opens");
            run.event_counts().expect("reads").events
        });
        let (events, common) = (events[1 - behind], events[behind]);
        assert!(common > 0 && events > common, "{common} of {events}");
        let sources = [2, if is_selected { 1 } else { 2 }];
        Self { root, folders, sources, events, common }
    }

    fn name(&self) -> String {
        self.folders[0].file_name().expect("a name").to_string_lossy().into_owned()
    }

    fn found(&self) -> Resumable {
        Recorder::interrupted(&config(self.root.path()), &self.name()).expect("it can go on")
    }

    /// The run goes on with a hundred events, and ends.
    fn go_on(&self, from: &Resumable) -> RunSummary {
        let recorder = Recorder::resume(config(self.root.path()), from).expect("it goes on");
        let senders: Vec<_> = recorder.addresses().iter().map(|&one| sender_to(one)).collect();
        let first = 1_000_000;
        for number in first..first + 100 {
            send(&senders, number);
        }
        recorder.stop().expect("stops")
    }

    /// Each folder has the first `kept` events of the recorder that died and balances by itself,
    /// and folders that have the same together have all once.
    fn check(&self, kept: u64, last: &RunSummary) {
        for (folder, &sources) in self.folders.iter().zip(&self.sources) {
            let run = Run::open(folder).expect("opens");
            assert!(verify(&run, |_| {}).is_intact());
            let report = audit(&run).expect("an audit");
            assert!(report.problems.is_empty() && report.differences.is_empty(), "{report:?}");
            assert!(report.recomputed.balance().holds(), "{report:?}");
            assert_eq!(report.frames_missing, 0);
            self.check_events((&run, sources), kept);
        }
        for target in &last.last.targets {
            assert!(target.ledger.balance().holds(), "{target:?}");
        }
        if self.sources == [2, 2] {
            let both = Run::open_folders(&self.folders, RunOptions::default()).expect("opens");
            self.check_events((&both, 2), kept);
        }
    }

    /// No event is there twice, which `fragments` checks.
    fn check_events(&self, (run, sources): (&Run, usize), kept: u64) {
        let events = support::fragments(run);
        let keys: Vec<u64> = events.keys().copied().collect();
        assert!(keys[..kept as usize].iter().copied().eq(keys[0]..keys[0] + kept), "{keys:?}");
        assert_eq!(events.len() as u64, kept + 100);
        assert!(events.values().all(|one| one.len() == sources));
    }
}

fn send(senders: &[std::net::UdpSocket], number: u32) {
    for (source, sender) in (0..).zip(senders) {
        let packet = support::packet(source, ByteOrder::Big, &[(number, &[number as u8; 100])]);
        sender.send(&packet).expect("sends");
    }
}

fn frames_in(path: &Path) -> Vec<FrameSummary> {
    let bytes = std::fs::read(path).expect("reads");
    let reader = FileReader::open(&bytes[..]).expect("opens");
    reader.frames().to_vec()
}

fn only_file(folder: &Path) -> PathBuf {
    let files = folder.read_dir().expect("lists").map(|entry| entry.expect("an entry").path());
    let is_frames = |path: &PathBuf| path.extension().is_some_and(|one| one == "catch");
    let begun =
        |path: &PathBuf| std::fs::read(path).is_ok_and(|it| FileReader::open(&it[..]).is_ok());
    let files: Vec<_> = files.filter(is_frames).filter(begun).collect();
    let [file] = &files[..] else { panic!("one file: {files:?}") };
    file.clone()
}

#[test]
fn no_event_that_a_folder_had_whole_is_lost_and_none_is_there_twice() {
    let killed = Killed::new(1, false);
    let from = killed.found();
    let [holder, own] = [0, 1].map(|place: usize| &from.places[place]);
    assert_eq!((holder.events, own.events), (killed.events, killed.events));
    assert_eq!((own.caught_up.place, from.cut_off.as_ref()), (0, None));
    assert!(own.caught_up.frames >= LACKS as u64, "{:?}", own.caught_up);
    let last = killed.go_on(&from);
    killed.check(killed.events, &last);
    let counts = last.last.targets[1].counts;
    assert_eq!(counts.frames_caught_up, own.caught_up.frames);
    assert_eq!(counts.bytes_caught_up, own.caught_up.bytes);
    assert_eq!(last.last.targets[0].counts.frames_caught_up, 0);
    assert_eq!(last.last.ledger.total()[Entry::FragmentsDiscardedDisk], 0);
    assert!(!last.last.warnings.iter().any(|one| one.contains("were cut off")));
}

#[test]
fn a_damaged_frame_of_the_folder_that_has_more_is_said_and_the_run_goes_on_before_it() {
    let killed = Killed::new(1, false);
    // The first of the frames that the other one lacks.
    let path = only_file(&killed.folders[0]);
    let mut bytes = std::fs::read(&path).expect("reads");
    let reader = FileReader::open(&bytes[..]).expect("opens");
    let schema = &reader.header().schema;
    let payload = schema.column(Some(SourceId(0)), &ColumnKind::FragmentPayload).expect("it has");
    let mut rows = 0;
    let at = reader.frames().iter().enumerate().find_map(|(index, frame)| {
        let is_first = rows == killed.common && frame.info.rows > 0;
        rows += frame.info.rows;
        let entry = is_first.then(|| reader.find(index, payload).expect("reads").expect("has it"));
        entry.map(|entry| frame.offset + entry.offset)
    });
    let at = at.expect("a frame") as usize;
    drop(reader);
    bytes[at] ^= 0x55;
    std::fs::write(&path, bytes).expect("writes");

    let from = killed.found();
    assert!(from.cut_off.as_ref().is_some_and(|why| why.contains("cannot be read as a whole")));
    assert!(from.places.iter().all(|place| place.caught_up.frames == 0));
    let last = killed.go_on(&from);
    killed.check(killed.common, &last);
    assert!(last.last.warnings.iter().any(|one| one.contains("were cut off: frame ")));
}

#[test]
fn a_folder_of_some_sources_gets_what_it_lacks_of_them_from_one_that_has_all() {
    let killed = Killed::new(1, true);
    let from = killed.found();
    assert_eq!((from.places[1].events, from.cut_off.as_ref()), (killed.events, None));
    assert!(from.places[1].caught_up.frames >= LACKS as u64);
    let last = killed.go_on(&from);
    killed.check(killed.events, &last);
}

#[test]
fn a_folder_that_has_some_sources_of_another_cannot_give_it_what_it_lacks() {
    let killed = Killed::new(0, true);
    let from = killed.found();
    assert!(from.cut_off.as_ref().is_some_and(|why| why.contains("other sources or channels")));
    assert!(from.places.iter().all(|place| place.caught_up.frames == 0));
    let last = killed.go_on(&from);
    killed.check(killed.common, &last);
}
