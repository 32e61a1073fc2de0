//! Results from a recorder's counters, in virtual time.

use std::collections::BTreeSet;

use catchment_model::Ledger;
use catchment_recorder::{
    Alignment, Counts, Fill, FolderSnapshot, FrontEnd, Place, RecorderConfig, Report, SourceConfig,
    SpillReport, TargetSnapshot,
};
use catchment_watch::{Alarm, AlarmState};

use super::quantities::known_quantities;
use super::*;

/// The configuration of a node that has only a recorder.
fn of_recorder(recorder: RecorderConfig) -> Configuration {
    Configuration {
        number: None,
        resume_ns: 0,
        recorder,
        emulator: None,
        link_emulator: None,
        store: None,
        rules: Vec::new(),
        control: String::new(),
    }
}

pub(super) struct Rig {
    pub(super) watching: Watching,
    pub(super) snapshot: Snapshot,
    pub(super) front_ends: BTreeMap<String, FrontEnd>,
    pub(super) unheard: Vec<(String, String)>,
    pub(super) spills: Vec<api::Spill>,
    pub(super) paused: bool,
    pub(super) free_bytes: u64,
    pub(super) now_ns: u64,
    pub(super) fault: Option<&'static str>,
    /// As they were at the last update.
    pub(super) verdict: String,
    pub(super) level: catchment_watch::Level,
    pub(super) sources: Vec<api::SourceState>,
    pub(super) targets: Vec<api::Target>,
    pub(super) lasts: Lasts,
    pub(super) changes: Vec<catchment_watch::Change>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::of(&config())
    }

    pub(super) fn of(config: &RecorderConfig) -> Self {
        let watching = Watching::new(&of_recorder(config.clone()), 0.05).unwrap();
        let snapshot = Snapshot {
            state: RecorderState::Recording,
            faults: 0,
            last_fault: None,
            ledger: Ledger::new(config.sources.len()),
            counts: Counts::default(),
            alignment: vec![Alignment::default(); config.sources.len()],
            links: Vec::new(),
            progress: Vec::new(),
            offsets: Vec::new(),
            drifts_ppm: Vec::new(),
            strangers: BTreeMap::new(),
            fills: Vec::new(),
            threads: Vec::new(),
            targets: Vec::new(),
            files: Vec::new(),
            engine: "none",
            warnings: Vec::new(),
            lasting_warnings: 0,
            past_warnings: Vec::new(),
            malformed: None,
            reasons: Default::default(),
        };
        Self {
            watching,
            snapshot,
            front_ends: BTreeMap::new(),
            unheard: Vec::new(),
            spills: Vec::new(),
            paused: false,
            free_bytes: 100_000_000,
            now_ns: S,
            fault: None,
            verdict: String::new(),
            level: catchment_watch::Level::NotRecording,
            sources: Vec::new(),
            targets: Vec::new(),
            lasts: Lasts::default(),
            changes: Vec::new(),
        }
    }

    /// Updates twice a second; that many bytes are written between two updates.
    pub(super) fn look(&mut self, seconds: u64, written: u64) -> Option<f64> {
        let mut hours_left = None;
        for _ in 0..2 * seconds {
            self.now_ns += S / 2;
            self.snapshot.counts.bytes_written += written;
            self.free_bytes = self.free_bytes.saturating_sub(written);
            let meaning = self.watching.look(&Moment {
                now_ns: self.now_ns,
                run: Some((1, S)),
                snapshot: Some(&self.snapshot),
                flow: match self.paused {
                    true => Run::Paused { who: "ada", since: "10:00" },
                    false => Run::Recording { since_ns: self.now_ns - S },
                },
                fault: self.fault,
                addresses: &[],
                arrivals: None,
                interrupted_run: 0,
                front_ends: &self.front_ends,
                unheard: &self.unheard,
                spills: &self.spills,
                socket_fills: &[Some(0.5)],
                disk: Some(machine::Space {
                    free_bytes: self.free_bytes,
                    total_bytes: 100_000_000,
                    file_system: 1,
                }),
                devices: &[],
            });
            hours_left = meaning.lasts.disk_hours;
            self.lasts = meaning.lasts;
            self.verdict = meaning.verdict.text;
            self.sources = meaning.sources;
            self.targets = meaning.targets;
            self.level = meaning.verdict.level;
            self.changes.extend(meaning.changes);
        }
        hours_left
    }

    pub(super) fn disk_space(&self) -> Option<Alarm> {
        self.watching.alarms_seen().into_iter().find(|alarm| alarm.name == "disk_space")
    }
}

pub(super) fn config() -> RecorderConfig {
    RecorderConfig::new("runs".into(), vec![source("a", "all")])
}

fn source(name: &str, group: &str) -> SourceConfig {
    SourceConfig { group: group.into(), ..SourceConfig::new(name, ([127, 0, 0, 1], 0).into()) }
}

fn fill(name: &str) -> Fill {
    Fill { name: name.into(), level: 1, highest: 1, capacity: 2 }
}

pub(super) fn target(name: &str, required: bool) -> TargetSnapshot {
    TargetSnapshot {
        away: None,
        name: name.into(),
        required,
        place: Place::None,
        state: RecorderState::Recording,
        ledger: Ledger::new(1),
        counts: Counts::default(),
        queue: fill(name),
        folders: vec![FolderSnapshot::default()],
        nodes: Vec::new(),
        spill: None,
    }
}

/// The reading for a rule.
pub(super) fn reading(rig: &Rig, name: &str) -> Option<f64> {
    let mut found = None;
    let quantity = catchment_watch::Quantity::new(name).unwrap();
    rig.watching.readings.each(&quantity, &mut |_, value| {
        found = Some(value);
    });
    found
}

#[test]
fn ninety_silent_sources_are_one_alarm_for_each_group_and_one_action_with_a_list() {
    let small = (0..60).map(|number| source(&format!("small-{number:02}"), "small"));
    let large = (0..30).map(|number| source(&format!("large-{number:02}"), "large"));
    let mut rig = Rig::of(&RecorderConfig::new("runs".into(), small.chain(large).collect()));
    let rules = default_rules(S, 0.05).into_iter();
    let rules = rules.map(|rule| Rule { actions: vec!["mail".into()], ..rule });
    rig.watching.alarms = Alarms::new(rules.collect()).unwrap();
    let sends = |rig: &mut Rig, sources: std::ops::Range<usize>| {
        for source in sources {
            rig.snapshot.ledger.sources[source][Entry::PacketsReceived] += 1;
        }
        rig.snapshot.counts.events_recorded += 1;
        rig.look(1, 1_000);
    };
    (0..5).for_each(|_| sends(&mut rig, 0..90));
    // Two of the small ones continue; the others end within a second of each other.
    sends(&mut rig, 0..45);
    (0..7).for_each(|_| sends(&mut rig, 0..2));
    let alarms = rig.watching.alarms_seen();
    let texts: Vec<&str> = alarms.iter().map(|alarm| alarm.text.as_str()).collect();
    assert_eq!(alarms.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("All 30 sources in large are silent: large-00, "), "{texts:?}");
    let begin = "58 of 60 sources in small are silent: small-02, small-03, small-04 and 55 more";
    assert!(texts[1].starts_with(begin), "{texts:?}");
    assert_eq!(alarms[1].sources.len(), 58);
    assert_eq!(reading(&rig, "sources_silent"), Some(88.0));
    let groups = crate::actions::together(&rig.changes);
    assert_eq!(groups.len(), 1, "{groups:?}");
    let json: serde_json::Value = serde_json::from_str(&groups[0].json()).unwrap();
    assert_eq!(
        (json["kind"].as_str(), json["alarms"].as_array().unwrap().len()),
        (Some("raised"), 2)
    );
    assert_eq!(json["alarms"][1]["sources"].as_array().unwrap().len(), 58);
    assert_eq!(json["alarm"], json["alarms"][0]);
}

#[test]
fn most_data_lost_is_heavy_loss_and_a_critical_alarm_and_a_little_is_neither() {
    let mut rig = Rig::new();
    let second = |rig: &mut Rig, recorded: u64, missing: u64| {
        let ledger = &mut rig.snapshot.ledger.sources[0];
        ledger[Entry::PacketsReceived] += recorded + 1;
        ledger[Entry::FragmentsReceived] += recorded;
        ledger[Entry::FragmentsRecorded] += recorded;
        ledger[Entry::FragmentsMissingUnrecorded] += missing;
        rig.snapshot.counts.events_recorded += recorded;
        rig.look(1, 1_000);
    };
    let loss = |rig: &Rig| rig.watching.alarms_seen().into_iter().find(|one| one.name == "loss");
    (0..60).for_each(|_| second(&mut rig, 1_000, 0));
    assert_eq!((rig.level, loss(&rig)), (catchment_watch::Level::Good, None));
    (0..20).for_each(|_| second(&mut rig, 1_000, 1));
    assert_eq!(rig.level, catchment_watch::Level::Loss);
    let text = "recording with loss, 0.100 % of the data: \
        a: 20 lost in the last minute (missing fragments of lost events)";
    assert_eq!(rig.verdict, text);
    let alarm = loss(&rig).expect("an alarm");
    assert_eq!(alarm.severity, catchment_watch::Severity::Warning);
    assert_eq!(alarm.text, "Losing 0.100 % of the data");
    (0..12).for_each(|_| second(&mut rig, 90, 910));
    assert_eq!(rig.level, catchment_watch::Level::HeavyLoss);
    assert!(rig.verdict.starts_with("losing 91 % of the data: a: 10,"), "{}", rig.verdict);
    let alarm = loss(&rig).expect("an alarm");
    assert_eq!(alarm.severity, catchment_watch::Severity::Critical);
    assert_eq!(alarm.text, "Losing 91 % of the data");
    assert_eq!(reading(&rig, "sources_with_loss"), Some(1.0));
    // Afterwards it is loss for a minute, but not heavy loss.
    (0..12).for_each(|_| second(&mut rig, 1_000, 0));
    assert_eq!(rig.level, catchment_watch::Level::Loss);
    assert_eq!(reading(&rig, "loss_share"), Some(0.0));
}

#[test]
fn bad_data_are_no_good_data_and_an_alarm_for_what_they_are() {
    let of = |name: &str| source(name, "small");
    let mut rig = Rig::of(&RecorderConfig::new("runs".into(), vec![of("a"), of("b")]));
    let second = |rig: &mut Rig, broken: u64, strayed: u64| {
        for (index, ledger) in rig.snapshot.ledger.sources.iter_mut().enumerate() {
            ledger[Entry::PacketsReceived] += 100;
            ledger[Entry::FragmentsReceived] += 100;
            ledger[Entry::FragmentsRecorded] += 100;
            if index == 1 {
                ledger[Entry::FragmentsBadSender] += broken;
                ledger[Entry::FragmentsBadTag] += strayed;
            }
        }
        rig.snapshot.counts.events_recorded += 100;
        rig.look(1, 1_000);
    };
    let alarm =
        |rig: &Rig, name: &str| rig.watching.alarms_seen().into_iter().find(|one| one.name == name);
    (0..20).for_each(|_| second(&mut rig, 0, 0));
    assert_eq!(rig.verdict, "recording good data");
    (0..12).for_each(|_| second(&mut rig, 4, 0));
    assert_eq!(rig.level, catchment_watch::Level::BadData);
    let begin = "recording, but 2.0 % of the data are bad: b: 4";
    assert!(rig.verdict.starts_with(begin), "{}", rig.verdict);
    assert_eq!(rig.sources[0].status, "bad_data");
    assert_eq!(rig.sources[0].bad["fragments_bad_sender"], 48);
    assert_eq!(rig.sources[1].status, "good");
    let marked = alarm(&rig, "bad_sender").expect("an alarm");
    assert!(marked.text.starts_with("b marks its data as broken: 3."), "{}", marked.text);
    assert_eq!((alarm(&rig, "bad_tag"), alarm(&rig, "bad_data")), (None, None));
    (0..12).for_each(|_| second(&mut rig, 0, 100));
    assert_eq!(rig.level, catchment_watch::Level::HeavyBadData);
    assert!(rig.verdict.starts_with("recording bad data, 50 % of all: b: 1,"), "{}", rig.verdict);
    assert!(alarm(&rig, "bad_tag").is_some());
    let heavy = alarm(&rig, "bad_data").expect("an alarm");
    assert_eq!(heavy.text, "50 % of the recorded data are bad");
    assert_eq!(heavy.severity, catchment_watch::Severity::Critical);
    let bad = bad_data(&rig.snapshot);
    assert_eq!((bad.count, bad.by_entry["fragments_bad_tag"]), (48 + 1_200, 1_200));
    (0..70).for_each(|_| second(&mut rig, 0, 0));
    assert_eq!(rig.verdict, "recording good data");
}

#[test]
fn a_stranger_is_named_and_no_loss() {
    let mut rig = Rig::new();
    for second in 0..40 {
        let ledger = &mut rig.snapshot.ledger.sources[0];
        ledger[Entry::PacketsReceived] += 200;
        ledger[Entry::FragmentsReceived] += 200;
        ledger[Entry::FragmentsRecorded] += 100;
        ledger[Entry::FragmentsForeign] += 100;
        rig.snapshot.counts.events_recorded += 100;
        let sender = "10.1.2.3:4567".parse().unwrap();
        let ids = Some((0x8000, 0x8003));
        let stranger = catchment_recorder::Stranger { sender, ids, in_turn_with: None };
        rig.snapshot.strangers.insert(0, stranger);
        rig.look(1, 1_000);
        if second > 20 {
            let text = "recording good data; packets from 10.1.2.3:4567 do not belong to a: \
                their id is 0x8000, not 0x8003";
            assert_eq!((rig.level, &*rig.verdict), (catchment_watch::Level::Good, text));
            assert_eq!(reading(&rig, "loss_share"), Some(0.0));
        }
    }
    let alarms = rig.watching.alarms_seen();
    let alarm = alarms.iter().find(|one| one.name == "stranger").expect("an alarm");
    assert!(alarm.text.starts_with("Somebody else sends to the port of a: 9"), "{}", alarm.text);
}

#[test]
fn two_who_send_in_turn_are_named_and_alarmed_where_all_that_they_send_fits() {
    let mut rig = Rig::new();
    for second in 0..40 {
        let ledger = &mut rig.snapshot.ledger.sources[0];
        ledger[Entry::PacketsReceived] += 200;
        ledger[Entry::FragmentsReceived] += 200;
        ledger[Entry::FragmentsRecorded] += 200;
        rig.snapshot.alignment[0].sender_turns += 100;
        rig.snapshot.counts.events_recorded += 100;
        let [sender, own] = ["10.1.2.3:4567", "10.1.2.9:22"].map(|text| text.parse().unwrap());
        let stranger = catchment_recorder::Stranger { sender, ids: None, in_turn_with: Some(own) };
        rig.snapshot.strangers.insert(0, stranger);
        rig.look(1, 1_000);
        if second > 20 {
            let text = "recording good data; two send to a in turn, 10.1.2.9:22 and 10.1.2.3:4567: \
                one is a stranger, or it has two addresses";
            assert_eq!((rig.level, &*rig.verdict), (catchment_watch::Level::Good, text));
        }
    }
    let alarms = rig.watching.alarms_seen();
    let alarm = alarms.iter().find(|one| one.name == "stranger").expect("an alarm");
    assert!(alarm.text.starts_with("Somebody else sends to the port of a: 9"), "{}", alarm.text);
}

#[test]
fn data_that_come_after_a_pause_are_awaited_from_its_end_on() {
    let mut rig = Rig::new();
    let second = |rig: &mut Rig, recorded| {
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 100;
        rig.snapshot.counts.events_recorded += recorded;
        rig.look(1, 1_000);
    };
    (0..10).for_each(|_| second(&mut rig, 100));
    rig.paused = true;
    (0..13).for_each(|_| second(&mut rig, 0));
    rig.paused = false;
    second(&mut rig, 0);
    let text = "the run was resumed 0 s ago, the first data are on their way";
    assert_eq!(rig.verdict, text);
    second(&mut rig, 100);
    assert_eq!(rig.verdict, "recording good data");
}

#[test]
fn sources_that_sent_to_a_run_are_sending_when_it_has_just_ended() {
    let mut rig = Rig::new();
    for _ in 0..5 {
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 100;
        rig.look(1, 1_000);
    }
    let look = |rig: &mut Rig, packets| {
        rig.now_ns += S / 2;
        let meaning = rig.watching.look(&Moment {
            now_ns: rig.now_ns,
            run: None,
            snapshot: None,
            flow: Run::Configured,
            fault: None,
            addresses: &[],
            arrivals: Some(vec![Arrived { packets, bytes: packets }]),
            interrupted_run: 0,
            front_ends: &BTreeMap::new(),
            unheard: &[],
            spills: &[],
            socket_fills: &[None],
            disk: None,
            devices: &[],
        });
        (meaning.verdict.text, meaning.sources[0].status.clone())
    };
    let sending = ("no run: 1 of 1 sources are sending".to_owned(), "good".to_owned());
    assert_eq!(look(&mut rig, 0), sending);
    // It is silent for longer than that.
    for _ in 0..12 {
        look(&mut rig, 0);
    }
    let silent = "no run: 0 of 1 sources are sending; nothing from a".to_owned();
    assert_eq!(look(&mut rig, 0), (silent, "silent".to_owned()));
    look(&mut rig, 1);
    assert_eq!(look(&mut rig, 1), sending);
}

#[test]
fn what_the_last_events_lack_is_no_heavy_loss_when_nothing_comes_any_more() {
    let mut rig = Rig::new();
    let look = |rig: &mut Rig, received: u64, missing: u64| {
        let ledger = &mut rig.snapshot.ledger.sources[0];
        ledger[Entry::PacketsReceived] += received;
        ledger[Entry::FragmentsReceived] += received;
        ledger[Entry::FragmentsMissing] += missing;
        rig.snapshot.counts.events_recorded += received;
        rig.look(1, 1_000);
        reading(rig, "loss_share").unwrap_or(0.0)
    };
    for _ in 0..20 {
        assert!(look(&mut rig, 989, 11) <= 0.0111);
    }
    // All sources stop, and the gaps of the last events are counted a second later.
    let shares: Vec<f64> = [11, 11].into_iter().map(|missing| look(&mut rig, 0, missing)).collect();
    assert!(shares.iter().all(|share| (0.01..0.015).contains(share)), "{shares:?}");
    for _ in 0..8 {
        assert!(look(&mut rig, 0, 0) < 0.015);
    }
    assert_eq!(look(&mut rig, 0, 0), 0.0);
    // If everything is dropped before it is read, everything is lost.
    for _ in 0..11 {
        let ledger = &mut rig.snapshot.ledger.sources[0];
        ledger[Entry::PacketsDroppedByKernel] += 1_000;
        look(&mut rig, 0, 1_000);
    }
    assert_eq!(reading(&rig, "loss_share"), Some(1.0));
}

#[test]
fn dead_time_is_all_of_it_where_nothing_can_be_written_and_none_of_it_at_a_start() {
    let mut rig = Rig::new();
    // Data that arrived before the start were discarded on purpose.
    rig.snapshot.ledger.sources[0][Entry::FragmentsDiscardedPaused] += 1_000;
    rig.look(10, 1_000);
    assert_eq!(reading(&rig, "dead_time"), Some(0.0));
    rig.snapshot.state = RecorderState::Fault { reason: "no room".into() };
    for _ in 0..11 {
        // A frame each second, with two updates.
        rig.snapshot.ledger.sources[0][Entry::FragmentsDiscardedDisk] += 1_000;
        rig.look(1, 0);
    }
    assert_eq!(reading(&rig, "dead_time"), Some(1.0));
    rig.snapshot.state = RecorderState::Recording;
    rig.look(10, 1_000);
    assert_eq!(reading(&rig, "dead_time"), Some(0.0));
}

#[test]
fn what_came_and_was_discarded_is_not_twice_among_what_should_be_recorded() {
    let mut rig = Rig::new();
    let ledger = &mut rig.snapshot.ledger.sources[0];
    ledger[Entry::FragmentsReceived] = 1_000;
    ledger[Entry::FragmentsDiscardedDisk] = 1_000;
    assert_eq!(loss(&rig.snapshot).share, 1.0);
    let ledger = &mut rig.snapshot.ledger.sources[0];
    ledger[Entry::FragmentsDiscardedDisk] = 100;
    ledger[Entry::FragmentsRecorded] = 900;
    ledger[Entry::FragmentsMissing] = 1_000;
    assert_eq!(loss(&rig.snapshot).share, 0.55);
}

#[test]
fn a_full_disk_says_what_to_do_and_the_path_comes_last() {
    let mut rig = Rig::new();
    for _ in 0..10 {
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 1;
        rig.snapshot.counts.events_recorded += 1;
        rig.look(1, 1_000);
    }
    let reason = "node/recorder/write: cannot write /data/00000.catch: \
        No space left on device (os error 28)";
    rig.snapshot.state = RecorderState::Fault { reason: reason.into() };
    rig.fault = Some(reason);
    rig.look(1, 0);
    assert_eq!(rig.verdict, "disk full: make room, and recording resumes by itself");
}

#[test]
fn a_disk_that_is_full_has_no_hours_left_for_as_long_as_it_is_full() {
    let mut rig = Rig::new();
    assert!(rig.look(20, 2_000_000).is_some_and(|hours| hours > 0.0 && hours < 1.0));
    let reason = std::io::Error::from_raw_os_error(libc::ENOSPC);
    rig.snapshot.state = RecorderState::Fault { reason: format!("cannot write x: {reason}") };
    // The free space is too little for a frame, but not zero.
    assert_eq!(rig.look(600, 0), Some(0.0));
    let alarm = rig.disk_space().expect("an alarm");
    assert_eq!((alarm.state, alarm.value), (AlarmState::Active, Some(0.0)));
}

#[test]
fn a_disk_that_is_full_is_not_recording_at_the_first_look_at_it() {
    let mut rig = Rig::new();
    for _ in 0..10 {
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 1;
        rig.snapshot.counts.events_recorded += 1;
        rig.look(1, 1_000);
    }
    assert_eq!(rig.verdict, "recording good data");
    rig.snapshot.state = RecorderState::Fault { reason: "no room".into() };
    rig.snapshot.ledger.sources[0][Entry::FragmentsDiscardedDisk] += 1;
    rig.look(1, 0);
    assert_eq!(rig.verdict, "data arrive but cannot be written to the disk");
}

#[test]
fn a_source_that_never_sent_is_silent_for_as_long_as_the_run_lasts() {
    let mut rig = Rig::new();
    rig.look(18, 0);
    let alarms = rig.watching.alarms_seen();
    let silent = alarms.iter().find(|alarm| alarm.name == "source_silent").expect("an alarm");
    assert_eq!(silent.text, "a is silent: no packet for 18 s");
}

#[test]
fn a_source_out_of_step_is_shown_and_named() {
    let mut rig = Rig::new();
    for second in 0..20 {
        // Not the first update, which has nothing to compare with.
        rig.look(u64::from(second == 0), 0);
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 1;
        rig.snapshot.counts.events_recorded += 1;
        let (fits, is_bad) = (&mut rig.snapshot.alignment[0], second < 10);
        (fits.out_of_step, fits.is_flooding, fits.parked_fragments) = (is_bad, is_bad, 7);
        rig.look(1, 1_000);
        let source = &rig.sources[0];
        let status = if is_bad { "out_of_step" } else { "good" };
        assert_eq!((&*source.status, source.parked_fragments), (status, 7), "{second}");
        let alarms = rig.watching.alarms_seen();
        let alarm = |name: &str| alarms.iter().find(|alarm| alarm.name == name);
        match second {
            0 => assert!(alarm("source_out_of_step").is_none()),
            9 => {
                let text =
                    "a is out of step: its numbers or clock do not fit, its data are in no event";
                assert_eq!(alarm("source_out_of_step").map(|alarm| &*alarm.text), Some(text));
                assert!(alarm("source_flooding").is_some());
                let text = "recording with loss: a out of step: its numbers or clock do not fit; \
                            what it sends is in no event";
                assert_eq!(rig.verdict, text);
            }
            _ => {}
        }
    }
    assert_eq!(rig.verdict, "recording good data");
}

#[test]
fn a_reload_in_a_run_is_no_silence_of_its_sources() {
    let mut rig = Rig::new();
    for second in 0..40 {
        if second == 20 {
            rig.watching.change(&of_recorder(config())).unwrap();
        }
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 1;
        rig.look(1, 1_000);
        let alarms = rig.watching.alarms_seen();
        assert!(alarms.iter().all(|alarm| alarm.name != "source_silent"), "{alarms:?}");
    }
}

#[test]
fn what_rules_can_look_at_is_what_is_read() {
    let mut rig = Rig::new();
    rig.snapshot.fills.push(fill("write"));
    rig.snapshot.targets = vec![target("raid", true), target("mirror", false)];
    rig.snapshot.targets[0].spill = Some(SpillReport::default());
    let alarm = ("hot".to_owned(), Report::Alarm(Some("31 degrees".to_owned())));
    let mut camera = FrontEnd::default();
    (camera.is_required, camera.held_at_run_end) = (true, 7);
    camera.refusal = Some(("prepare", "the cooling is off".to_owned()));
    (camera.given_up, camera.reports) = (Some("sequence 4".to_owned()), [alarm].into());
    rig.front_ends.insert("camera".to_owned(), camera);
    rig.unheard.push(("[::1]:7100".to_owned(), "it is in use".to_owned()));
    rig.spills.push(api::Spill { target: "far".to_owned(), ..api::Spill::default() });
    rig.look(20, 2_000_000);
    let alarms = rig.watching.alarms_seen();
    for text in [
        "Front-end camera (hot) raises an alarm: 31 degrees",
        "Front-end camera refuses a command: prepare: the cooling is off",
        "Front-end camera has gone away",
        "Front-end camera sends what is malformed, and was given up: sequence 4",
        "Front-end camera held 7 items of a run that had ended: they are in no file",
        "The node does not listen for front-ends at [::1]:7100: it is in use",
    ] {
        assert!(alarms.iter().any(|alarm| alarm.text == text), "{alarms:?}");
    }
    let (of_store, rules_of_store) = super::store_tests::read();
    let mut read: BTreeSet<String> = rig.watching.readings.kinds().chain(of_store).collect();
    // This machine's clock may not be synchronised.
    read.insert("clock.offset_seconds".into());
    let known = known_quantities().into_iter().map(|known| known.name);
    // Those of devices are compared with the schemas that a node serves.
    let known: BTreeSet<_> = known.filter(|name| !name.starts_with("device.")).collect();
    assert_eq!(read, known);
    for rule in default_rules(S, 0.05).into_iter().chain(rules_of_store) {
        assert!(known.contains(&rule.quantity.kind()), "{}", rule.quantity);
    }
    // Zero counts and entries are present, too.
    assert_eq!(reading(&rig, "bytes_written"), Some(80_000_000.0));
    assert_eq!(reading(&rig, "events_incomplete"), Some(0.0));
    assert_eq!(reading(&rig, "source.a.fragments_late"), Some(0.0));
}

#[test]
fn how_long_the_disk_lasts_stays_while_nothing_is_written() {
    let mut rig = Rig::new();
    rig.look(20, 2_000_000);
    rig.snapshot.state = RecorderState::Fault { reason: "cannot sync x: it hangs".into() };
    let hours = rig.look(1, 0).expect("hours");
    assert_eq!(rig.look(600, 0), Some(hours));
    assert_eq!(rig.disk_space().expect("an alarm").state, AlarmState::Active);
    // Later writes count on their own, without the time in which nothing was written.
    rig.snapshot.state = RecorderState::Recording;
    let after = rig.look(2, 200_000).expect("hours");
    assert!((9.0..11.0).contains(&(after / hours)), "{after} {hours}");
    rig.paused = true;
    let paused = rig.look(600, 0).expect("hours");
    assert_eq!((rig.look(600, 0), paused < 1.5), (Some(paused), true));
    assert_eq!(rig.disk_space().expect("an alarm").state, AlarmState::Active);
}

#[test]
fn a_disk_that_freezes_is_told_within_two_seconds_of_the_write_that_waits() {
    let mut rig = Rig::new();
    // A frame and its writes between two updates; the disk never completes the last write.
    let records = |rig: &mut Rig, completes: bool| {
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 100;
        rig.snapshot.counts.writes_begun += 2;
        if completes {
            rig.snapshot.counts.events_recorded += 100;
            rig.snapshot.counts.writes_completed = rig.snapshot.counts.writes_begun;
        }
        rig.look(1, 0);
    };
    (0..10).for_each(|_| records(&mut rig, true));
    assert_eq!(rig.verdict, "recording good data");
    // One write is always in progress, and all of them complete.
    for _ in 0..10 {
        records(&mut rig, true);
        rig.snapshot.counts.writes_begun += 1;
    }
    assert_eq!(rig.verdict, "recording good data");
    (0..2).for_each(|_| records(&mut rig, false));
    assert_eq!(rig.level, catchment_watch::Level::Held);
    let text = "data are only held in memory: the disk has completed no write for 1 s";
    assert_eq!(rig.verdict, text);
    (0..2).for_each(|_| records(&mut rig, false));
    assert_eq!(rig.level, catchment_watch::Level::NotRecording, "{}", rig.verdict);
    // It comes back.
    records(&mut rig, true);
    assert_eq!(rig.verdict, "recording good data");
}
