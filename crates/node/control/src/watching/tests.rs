//! What is made of a recorder's counters, in virtual time.

use catchment_model::Ledger;
use catchment_recorder::{Alignment, Counts, SourceConfig};
use catchment_watch::{Alarm, AlarmState};

use super::quantities::known_quantities;
use super::*;

struct Rig {
    watching: Watching,
    snapshot: Snapshot,
    paused: bool,
    free_bytes: u64,
    now_ns: u64,
    /// As they were at the last look.
    verdict: String,
    sources: Vec<api::SourceState>,
}

impl Rig {
    fn new() -> Self {
        let watching = Watching::new(&config(), &[]).unwrap();
        let snapshot = Snapshot {
            state: RecorderState::Recording,
            faults: 0,
            ledger: Ledger::new(1),
            counts: Counts::default(),
            alignment: vec![Alignment::default(); 1],
            fills: Vec::new(),
            threads: Vec::new(),
            files: Vec::new(),
            engine: "none",
            warnings: Vec::new(),
            malformed: None,
        };
        let (free_bytes, verdict) = (100_000_000, String::new());
        let (now_ns, sources) = (S, Vec::new());
        Self { watching, snapshot, paused: false, free_bytes, now_ns, verdict, sources }
    }

    /// Looks twice a second; that many bytes are written between two looks.
    fn look(&mut self, seconds: u64, written: u64) -> Option<f64> {
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
                    false => Run::Recording { since_ns: S },
                },
                fault: None,
                addresses: &[],
                socket_fills: &[Some(0.5)],
                disk: Some(machine::Space {
                    free_bytes: self.free_bytes,
                    total_bytes: 100_000_000,
                }),
                devices: &[],
            });
            hours_left = meaning.hours_left;
            self.verdict = meaning.verdict.text;
            self.sources = meaning.sources;
        }
        hours_left
    }

    fn disk_space(&self) -> Option<Alarm> {
        self.watching.alarms_seen().into_iter().find(|alarm| alarm.name == "disk_space")
    }
}

fn config() -> RecorderConfig {
    let source = SourceConfig {
        name: "a".into(),
        group: "all".into(),
        address: ([127, 0, 0, 1], 0).into(),
        sub_event_id: None,
        from: Vec::new(),
        role: SourceRole::Required,
        payload: None,
    };
    RecorderConfig::new("runs".into(), vec![source])
}

#[test]
fn a_disk_that_is_full_has_no_hours_left_for_as_long_as_it_is_full() {
    let mut rig = Rig::new();
    assert!(rig.look(20, 2_000_000).is_some_and(|hours| hours > 0.0 && hours < 1.0));
    let reason = std::io::Error::from_raw_os_error(libc::ENOSPC);
    rig.snapshot.state = RecorderState::Fault { reason: format!("cannot write x: {reason}") };
    // What is free is too little for a frame, but it is not nothing.
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
        // Not the first look, which compares with nothing.
        rig.look(u64::from(second == 0), 0);
        rig.snapshot.ledger.sources[0][Entry::PacketsReceived] += 1;
        rig.snapshot.counts.events_recorded += 1;
        rig.snapshot.alignment[0] = Alignment { out_of_step: second < 10, parked_fragments: 7 };
        rig.look(1, 1_000);
        let source = &rig.sources[0];
        let status = if second < 10 { "out_of_step" } else { "good" };
        assert_eq!((&*source.status, source.parked_fragments), (status, 7), "{second}");
        let alarms = rig.watching.alarms_seen();
        let alarm = alarms.iter().find(|alarm| alarm.name == "source_out_of_step");
        match second {
            0 => assert!(alarm.is_none()),
            9 => {
                let text =
                    "a is out of step: its numbers are not the others', its data are discarded";
                assert_eq!(alarm.map(|alarm| &*alarm.text), Some(text));
                let text = "recording with loss: a out of step: its numbers are not the others'";
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
            rig.watching.change(&config(), &[]).unwrap();
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
    let fill = catchment_recorder::Fill { name: "write".into(), level: 1, highest: 1, capacity: 2 };
    rig.snapshot.fills.push(fill);
    rig.look(20, 2_000_000);
    let mut read: Vec<String> = rig.watching.readings.kinds().collect();
    // Nobody may keep this machine's clock.
    if !read.iter().any(|name| name == "clock.offset_seconds") {
        read.push("clock.offset_seconds".into());
    }
    let known = known_quantities().into_iter().map(|known| known.name);
    // Those of devices are held to the schemas that a node serves.
    let mut known: Vec<_> = known.filter(|name| !name.starts_with("device.")).collect();
    known.sort();
    read.sort();
    assert_eq!(read, known);
    for rule in default_rules(S) {
        assert!(known.contains(&rule.quantity.kind()), "{}", rule.quantity);
    }
    // Counts and entries that are zero are there, too.
    let value = |name: &str| {
        let mut found = None;
        let quantity = catchment_watch::Quantity::new(name).unwrap();
        catchment_watch::Readings::each(&rig.watching.readings, &quantity, &mut |_, value| {
            found = Some(value);
        });
        found
    };
    assert_eq!(value("bytes_written"), Some(80_000_000.0));
    assert_eq!(value("events_incomplete"), Some(0.0));
    assert_eq!(value("source.a.fragments_late"), Some(0.0));
}

#[test]
fn how_long_the_disk_lasts_stays_while_nothing_is_written() {
    let mut rig = Rig::new();
    rig.look(20, 2_000_000);
    rig.snapshot.state = RecorderState::Fault { reason: "cannot sync x: it hangs".into() };
    let hours = rig.look(1, 0).expect("hours");
    assert_eq!(rig.look(600, 0), Some(hours));
    assert_eq!(rig.disk_space().expect("an alarm").state, AlarmState::Active);
    // What is written again counts by itself, without the time in which nothing was.
    rig.snapshot.state = RecorderState::Recording;
    let after = rig.look(2, 200_000).expect("hours");
    assert!((9.0..11.0).contains(&(after / hours)), "{after} {hours}");
    rig.paused = true;
    let paused = rig.look(600, 0).expect("hours");
    assert_eq!((rig.look(600, 0), paused < 1.5), (Some(paused), true));
    assert_eq!(rig.disk_space().expect("an alarm").state, AlarmState::Active);
}
