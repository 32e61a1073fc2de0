//! What is made of the counters of a storage node.

use catchment_store::{NodeSnapshot, StoreConfig, StoreFolder, StreamSnapshot};
use catchment_watch::{Level, store_rules};

use super::*;
use crate::storing::StoreSeen;

struct Rig {
    watching: Watching,
    seen: StoreSeen,
    now_ns: u64,
}

impl Rig {
    /// Two folders of one disk, and a recorder that sends.
    fn new() -> Self {
        let config = StoreConfig {
            address: ([127, 0, 0, 1], 0).into(),
            access: Default::default(),
            folders: vec!["a".into(), "b".into()],
            memory_bytes: 1 << 20,
            file_bytes: 1 << 20,
            disk: Default::default(),
            sync_bytes: u64::MAX,
            close_after_ns: S,
        };
        let configuration = Configuration::of_store(config, Vec::new(), String::new());
        let folder = |path: &str| StoreFolder { path: path.into(), ..StoreFolder::default() };
        let stream = StreamSnapshot {
            name: "run-1".into(),
            is_attached: true,
            recorder: Some("catchment at 10.0.0.1:1".into()),
            ..StreamSnapshot::default()
        };
        let snapshot = NodeSnapshot {
            folders: vec![folder("a"), folder("b")],
            streams: vec![stream],
            ..NodeSnapshot::default()
        };
        let space =
            machine::Space { free_bytes: 7_200_000_000, total_bytes: 1 << 40, file_system: 1 };
        let seen = StoreSeen {
            address: ([127, 0, 0, 1], 7_100).into(),
            needs_tls: false,
            needs_token: false,
            memory_bytes: 1 << 20,
            snapshot,
            spaces: vec![(Some(space), None); 2],
        };
        let watching = Watching::new(&configuration, 0.05).unwrap();
        Self { watching, seen, now_ns: S }
    }

    fn look(&mut self, seconds: u64) -> Meaning {
        let mut looked = None;
        for _ in 0..2 * seconds {
            self.now_ns += S / 2;
            looked = Some(self.watching.look_at_store(self.now_ns, &self.seen, &[]));
        }
        looked.expect("some seconds")
    }

    fn stream(&mut self) -> &mut StreamSnapshot {
        &mut self.seen.snapshot.streams[0]
    }

    fn alarms(&self) -> Vec<String> {
        let active = self.watching.alarms_seen().into_iter();
        active.filter(|alarm| alarm.ended_ns.is_none()).map(|alarm| alarm.text).collect()
    }
}

/// What is read of a storage node in trouble, and its rules.
pub(super) fn read() -> (Vec<String>, Vec<Rule>) {
    let mut rig = Rig::new();
    rig.seen.snapshot.folders[0].bytes = 1;
    rig.look(1);
    rig.seen.snapshot.folders[0].bytes = 1_000_000;
    rig.look(1);
    (rig.watching.readings.kinds().collect(), store_rules())
}

#[test]
fn folders_of_one_disk_share_its_room() {
    let mut rig = Rig::new();
    for _ in 0..120 {
        rig.seen.snapshot.folders[0].bytes += 500_000;
        rig.look(1);
        rig.seen.snapshot.folders[1].bytes += 500_000;
        rig.look(1);
    }
    let meaning = rig.look(1);
    // A megabyte in two seconds, of 7.2 GB.
    let hours = meaning.lasts.disk_hours.unwrap();
    assert!((3.9..4.2).contains(&hours), "{hours}");
    assert_eq!((meaning.verdict.level, &*meaning.verdict.text), (Level::Good, "storing 1 stream"));
    assert!(rig.alarms().is_empty(), "{:?}", rig.alarms());
    // Nothing is written: the number neither grows with each look nor stands as if it were.
    let lasts = rig.look(120).lasts;
    let last = lasts.disk_hours.unwrap();
    assert!((3.5..4.8).contains(&last), "{last}");
    assert_eq!(lasts.hours_shown(), None);
}

#[test]
fn how_long_the_disks_last_is_not_known_without_a_folder_that_works() {
    let mut rig = Rig::new();
    for _ in 0..60 {
        rig.seen.snapshot.folders[0].bytes += 500_000;
        rig.look(1);
    }
    assert!(rig.look(1).lasts.disk_hours.is_some());
    for folder in &mut rig.seen.snapshot.folders {
        folder.fault = Some("cannot write: an error".into());
    }
    let meaning = rig.look(10);
    assert_eq!(meaning.lasts.disk_hours, None);
    let alarms = rig.alarms();
    assert!(alarms.iter().all(|alarm| !alarm.contains("full")), "{alarms:?}");
}

#[test]
fn what_fails_or_waits_or_breaks_off_is_an_alarm_and_in_the_verdict() {
    let mut rig = Rig::new();
    rig.look(1);
    rig.seen.snapshot.folders[0].fault = Some("cannot write a/x: an error".into());
    let meaning = rig.look(10);
    assert_eq!(meaning.verdict.level, Level::Good);
    assert_eq!(meaning.verdict.reasons, ["a is not used: cannot write a/x: an error"]);
    assert_eq!(rig.alarms(), ["Folder a cannot be written: cannot write a/x: an error"]);
    // No folder has room for the next file: the one that is open there is written.
    rig.seen.snapshot.folders[1].fault = Some("disk full: b has no room".into());
    let meaning = rig.look(1);
    let verdict = (meaning.verdict.level, &*meaning.verdict.text);
    assert_eq!(verdict, (Level::Held, "storing 1 stream; no folder takes the next file"));
    rig.seen.snapshot.folders[1].fault = None;
    // The other one, too.
    rig.seen.spaces[1].1 = Some(std::time::Duration::from_secs(30));
    rig.stream().trouble = Some("it waits".into());
    let meaning = rig.look(10);
    let verdict = (meaning.verdict.level, &*meaning.verdict.text);
    assert_eq!(verdict, (Level::NotRecording, "no folder can be written"));
    assert!(meaning.verdict.reasons.contains(&"run-1: it waits".to_owned()));
    let alarms = rig.alarms();
    for text in [
        "All 2 folders cannot be written: a, b",
        "Stream run-1 cannot be written: its recorder holds its frames",
    ] {
        assert!(alarms.iter().any(|alarm| alarm == text), "{alarms:?}");
    }
    rig.seen.snapshot.folders[0].fault = None;
    rig.seen.spaces[1].1 = None;
    rig.stream().trouble = None;
    rig.stream().is_attached = false;
    let meaning = rig.look(20);
    let verdict = (meaning.verdict.level, &*meaning.verdict.text);
    assert_eq!(verdict, (Level::NotRecording, "storing nothing: streams broke off"));
    assert_eq!(rig.alarms(), ["Stream run-1 broke off: its recorder is gone and has not ended it"]);
    // It is closed: nothing of it is left to be done, whether or not it could be written.
    rig.stream().is_given_up = true;
    for trouble in [None, Some("it waits".to_owned())] {
        rig.stream().trouble = trouble;
        let meaning = rig.look(20);
        assert_eq!(meaning.store.unwrap().streams[0].state, "cut_off");
        assert!(rig.alarms().is_empty(), "{:?}", rig.alarms());
    }
    rig.stream().has_ended = true;
    rig.seen.snapshot.close_error = Some("run-0: file 1 is missing".to_owned());
    let meaning = rig.look(20);
    assert_eq!(meaning.verdict.text, "storing nothing: no recorder sends");
    let error = "a stream that nobody sends cannot be closed: run-0: file 1 is missing";
    assert_eq!(meaning.store_errors, [error]);
    assert!(rig.alarms().is_empty(), "{:?}", rig.alarms());
}

#[test]
fn a_disk_that_is_not_mounted_is_named_and_so_is_who_cannot_open_a_stream() {
    let mut rig = Rig::new();
    rig.seen.snapshot.streams.clear();
    let away = &mut rig.seen.snapshot.folders[1];
    (away.fault, away.is_absent) = (Some("is its disk mounted?".into()), true);
    let meaning = rig.look(1);
    let text = "storing nothing: no recorder sends; b is not used: is its disk mounted?";
    assert_eq!(meaning.verdict.text, text);
    let free: Vec<bool> =
        meaning.store.unwrap().folders.iter().map(|one| one.free_bytes.is_some()).collect();
    assert_eq!(free, [true, false], "what is free on another disk is not that of its own");
    assert_eq!(rig.alarms(), ["Folder b cannot be written: is its disk mounted?"]);
    rig.seen.snapshot.open_error = Some("run-1 cannot be opened: why".into());
    let text = rig.look(1).verdict.text;
    assert!(text.starts_with("storing nothing: run-1 cannot be opened: why; b is not"), "{text}");
}

#[test]
fn refusals_and_little_space_are_alarms() {
    let mut rig = Rig::new();
    rig.look(10);
    rig.seen.snapshot.sessions_refused = 1;
    rig.seen.snapshot.refusals.insert("later".into(), 1);
    rig.look(1);
    assert!(rig.alarms().is_empty(), "who is to come later is not refused");
    rig.seen.snapshot.sessions_refused = 2;
    rig.seen.snapshot.refusals.insert("token".into(), 1);
    rig.seen.snapshot.frames_corrupt = 1;
    for (space, _) in &mut rig.seen.spaces {
        *space = space.map(|space| machine::Space { free_bytes: 1_000_000, ..space });
    }
    rig.look(2);
    let alarms = rig.alarms();
    for text in ["Connections are refused", "Frames are refused", "All 2 folders have less than"] {
        assert!(alarms.iter().any(|alarm| alarm.starts_with(text)), "{alarms:?}");
    }
}
