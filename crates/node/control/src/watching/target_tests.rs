//! What is said of targets that take nothing, and of their spills.

use std::time::{Duration, Instant};

use catchment_recorder::{
    Counts, Fill, HandedOver, SpillConfig, SpillReport, SpillState, TargetConfig,
};
use catchment_watch::{Alarm, AlarmState, Level};

use super::tests::{Rig, config, reading, target};
use super::*;

const FULL: &str = "cannot write /data/00000.catch: No space left on device (os error 28)";

/// A run of one target, `raid`, with a spill, which has recorded for some time.
fn spilling() -> Rig {
    let mut config = config();
    let spill = Some(SpillConfig { folder: "/spill".into(), bytes_max: 100_000 });
    config.targets = vec![TargetConfig { spill, ..TargetConfig::folder("raid", "runs".into()) }];
    let mut rig = Rig::of(&config);
    rig.snapshot.targets = vec![target("raid", true)];
    rig.snapshot.targets[0].spill = Some(SpillReport::default());
    rig.spills = vec![api::Spill {
        target: "raid".into(),
        folder: "/spill".into(),
        bytes_max: 100_000,
        ..api::Spill::default()
    }];
    (0..20).for_each(|_| records(&mut rig));
    assert_eq!(rig.verdict, "recording good data");
    rig
}

/// What a second of a run adds, in the folder or in the spill.
fn records(rig: &mut Rig) {
    rig.snapshot.counts.events_recorded += 1;
    rig.snapshot.targets[0].counts.bytes_written += 1_000;
    if rig.snapshot.targets[0].is_spilling() {
        rig.spills[0].bytes_spilled += 1_000;
    }
    receives(rig);
}

/// Data arrive for a second, and wait.
fn receives(rig: &mut Rig) {
    rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 1;
    rig.snapshot.ledger.sources[0][Entry::PacketBytesReceived] += 1_000;
    rig.look(1, 0);
}

/// The alarms that are on, with their texts.
fn alarms(rig: &Rig) -> Vec<(String, String)> {
    let is_on = |alarm: &Alarm| alarm.state != AlarmState::Cleared;
    let alarms = rig.watching.alarms_seen().into_iter().filter(is_on);
    alarms.map(|alarm| (alarm.name, alarm.text)).collect()
}

#[test]
fn what_a_spill_takes_is_recorded_and_target_reason_and_room_are_named() {
    let mut rig = spilling();
    rig.snapshot.targets[0].away = Some(FULL.to_owned());
    rig.spills[0].bytes_waiting = 10_000;
    (0..30).for_each(|_| records(&mut rig));
    let why = "disk full: make room; /spill has room for 90 s at this rate";
    let words = format!("target raid takes nothing, its frames go to its spill: {why}");
    assert_eq!((rig.level, &rig.verdict), (Level::Held, &words));
    let target = &rig.targets[0];
    assert_eq!((&*target.state, target.reason.as_deref()), ("spilling", Some(FULL)));
    let spilling = format!("Target raid takes nothing now, its frames go to its spill: {why}");
    let full = "Disk is full: make room, and it is written again by itself";
    let said = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let mut alarms = alarms(&rig);
    alarms.sort();
    let room = "The spill of raid is full in 90 s at this rate, and then frames wait in memory";
    let expected =
        [said("disk_space", full), said("spill_space", room), said("target_spilling", &spilling)];
    assert_eq!(alarms, expected);
    assert_eq!(reading(&rig, "fault"), Some(0.0));
}

#[test]
fn writes_that_hang_hold_no_data_in_memory_once_a_spill_has_them() {
    let mut rig = spilling();
    let hangs = |counts: &mut Counts| counts.writes_begun += 2;
    hangs(&mut rig.snapshot.counts);
    hangs(&mut rig.snapshot.targets[0].counts);
    // Frames that wait for the spill.
    (0..4).for_each(|_| receives(&mut rig));
    assert_eq!(rig.level, Level::Held, "{}", rig.verdict);
    rig.snapshot.targets[0].away = Some("nothing becomes durable in its folder".to_owned());
    (0..20).for_each(|_| records(&mut rig));
    assert_eq!(rig.level, Level::Held, "{}", rig.verdict);
    assert!(rig.verdict.contains("nothing becomes durable in its folder; /spill has room for"));
}

#[test]
fn a_spill_that_takes_nothing_either_leaves_frames_in_memory() {
    let mut rig = spilling();
    rig.snapshot.targets[0].away = Some(FULL.to_owned());
    let spill = SpillReport { is_refusing: true, ..SpillReport::default() };
    rig.snapshot.targets[0].spill = Some(spill);
    // Of each second's 1,000 bytes 500 are left when they are encoded, and held.
    let fill = |name: &str, capacity| Fill { name: name.into(), level: 0, highest: 0, capacity };
    rig.snapshot.fills = vec![fill("segments", 40_000)];
    rig.snapshot.targets[0].queue = fill("raid", 12_000);
    for _ in 0..4 {
        rig.snapshot.targets[0].queue.level += 500;
        receives(&mut rig);
    }
    let seconds = rig.lasts.memory_seconds.unwrap();
    assert!((50.0..70.0).contains(&seconds), "20 s of what is held, and 40 s: {seconds}");
    let begin = "frames for target raid wait in memory, which lasts for about ";
    assert_eq!(rig.level, Level::Held);
    assert!(rig.verdict.starts_with(begin), "{}", rig.verdict);
    assert!(rig.verdict.ends_with(" s at this rate: disk full: make room"), "{}", rig.verdict);
    assert_eq!(rig.targets[0].state, "away");
    (0..20).for_each(|_| receives(&mut rig));
    assert_eq!(rig.level, Level::NotRecording, "{}", rig.verdict);
    let names: Vec<String> = alarms(&rig).into_iter().map(|(name, _)| name).collect();
    for (name, is_on) in [
        ("nothing_recorded", true),
        ("target_away", true),
        ("memory_space", false),
        ("target_fault", false),
        ("target_spilling", false),
    ] {
        assert_eq!(names.iter().any(|one| one == name), is_on, "{names:?}");
    }
    // Its disk hangs.
    let spill = SpillReport { waits_ns: 6 * S, ..SpillReport::default() };
    rig.snapshot.targets[0].spill = Some(spill);
    receives(&mut rig);
    assert_eq!(rig.targets[0].state, "away");
}

#[test]
fn what_a_run_has_left_in_its_spill_is_shown_until_it_counts_among_what_is_left() {
    let mut rig = spilling();
    let at = Instant::now();
    let handed_over = Some(HandedOver { frames: 3, bytes: 100, at });
    rig.snapshot.targets[0].spill = Some(SpillReport { handed_over, ..SpillReport::default() });
    let shown = |looked, frames_waiting, bytes_waiting| {
        let counts = SpillReport { frames_waiting, bytes_waiting, ..SpillReport::default() };
        let left = SpillState {
            target: "raid".to_owned(),
            folder: "/spill".into(),
            node: "/raid".to_owned(),
            bytes_max: 1_000,
            counts,
            looked,
            problems: Vec::new(),
        };
        let spill = targets::spills(vec![left], Some(&rig.snapshot)).remove(0);
        (spill.frames_waiting, spill.bytes_waiting)
    };
    let before = at.checked_sub(Duration::from_nanos(1));
    assert_eq!([shown(None, 0, 0), shown(before, 2, 50)], [(3, 100), (5, 150)]);
    assert_eq!([shown(Some(at), 5, 150), shown(Some(at), 0, 0)], [(5, 150), (0, 0)]);
}

#[test]
fn a_required_target_that_fails_is_told_and_one_that_is_behind_is_not() {
    let mut rig = Rig::new();
    let names = [("raid", true), ("copy", true), ("mirror", false)];
    rig.snapshot.targets = names.map(|(name, required)| target(name, required)).into();
    let records = |rig: &mut Rig| {
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 1;
        rig.snapshot.counts.events_recorded += 1;
        for target in &mut rig.snapshot.targets {
            let written = if target.name == "mirror" { 1_000 } else { 3_000 };
            target.counts.bytes_written += written;
            target.ledger.sources[0][Entry::FragmentsRecorded] += written;
            target.ledger.sources[0][Entry::FragmentsNotTaken] += 3_000 - written;
        }
        rig.look(1, 0);
    };
    (0..20).for_each(|_| records(&mut rig));
    assert_eq!(rig.verdict, "recording good data");
    let speeds: Vec<_> =
        rig.targets.iter().map(|target| target.bytes_written_per_second as u64).collect();
    assert_eq!(speeds, [3_000, 3_000, 1_000]);
    let line = [("fragments_recorded", 20_000), ("fragments_not_taken", 40_000)];
    let line = BTreeMap::from(line.map(|(name, count)| (name.to_owned(), count)));
    assert_eq!((&rig.targets[2].ledger, &rig.sources[0].targets["mirror"]), (&line, &line));
    let alarm = |rig: &Rig| {
        let alarms = rig.watching.alarms_seen().into_iter();
        alarms.filter(|alarm| alarm.name == "target_fault").map(|alarm| alarm.text).next()
    };
    assert_eq!(alarm(&rig), None);
    let reason = "cannot write /data/x: it hangs".to_owned();
    rig.snapshot.targets[2].state = RecorderState::Fault { reason: reason.clone() };
    records(&mut rig);
    assert_eq!((rig.verdict.as_str(), alarm(&rig)), ("recording good data", None));
    rig.snapshot.targets[1].state = RecorderState::Fault { reason: reason.clone() };
    records(&mut rig);
    assert_eq!(rig.verdict, format!("recording good data; target copy: {reason}"));
    assert_eq!((&*rig.targets[1].state, &rig.targets[1].reason), ("fault", &Some(reason)));
    let text =
        "Target copy cannot be written: what it does not take is discarded there, and counted";
    assert_eq!(alarm(&rig).as_deref(), Some(text));
    rig.snapshot.targets[1].state = RecorderState::Recording;
    records(&mut rig);
    assert_eq!(rig.verdict, "recording good data");
}
