use super::*;
use catchment_recorder::{Alignment, Counts};

pub(crate) fn moment(seconds: f64, packets: u64, cpu_ns: u64) -> Moment {
    let mut ledger = Ledger::new(3);
    for source in &mut ledger.sources {
        source[Entry::PacketsReceived] = packets;
        source[Entry::FragmentsReceived] = packets * 10;
        source[Entry::PacketBytesReceived] = packets * 1_000;
    }
    let counts = Counts { events_complete: packets * 10, ..Counts::default() };
    let fill = Fill { name: "segments".into(), level: 30, highest: 50, capacity: 100 };
    let snapshot = Snapshot {
        state: State::Recording,
        faults: 0,
        last_fault: None,
        ledger,
        counts,
        alignment: vec![Alignment::default(); 3],
        links: Vec::new(),
        progress: Vec::new(),
        offsets: Vec::new(),
        drifts_ppm: Vec::new(),
        strangers: Default::default(),
        fills: vec![fill],
        threads: Vec::new(),
        targets: Vec::new(),
        files: Vec::new(),
        engine: "direct",
        warnings: vec!["small sockets".into()],
        lasting_warnings: 1,
        past_warnings: Vec::new(),
        malformed: None,
        reasons: Default::default(),
    };
    Moment { seconds, snapshot, threads: vec![ThreadTime { name: "build".into(), cpu_ns }] }
}

fn subject() -> Subject {
    let group = |name: &str, sources| Group { name: name.into(), sources };
    Subject {
        name: "run-1".into(),
        groups: vec![group("small", vec![0, 1]), group("large", vec![2])],
        seconds_planned: Some(20.0),
    }
}

fn pace(before: &Moment, now: &Moment) -> Pace {
    let mut pace = Pace::new();
    pace.push(before);
    pace.push(now);
    pace
}

#[test]
fn threads_that_end_before_the_others_take_no_rates_along() {
    let [mut before, now] = [moment(1.0, 100, 0), moment(1.5, 300, 100_000_000)];
    before.threads.push(ThreadTime { name: "emulate".into(), cpu_ns: 7 });
    assert_eq!(pace(&before, &now).threads(&now), "build 20 %");
}

#[test]
fn rates_are_those_between_two_moments() {
    let (before, now) = (moment(1.0, 100, 0), moment(1.5, 300, 100_000_000));
    let pace = pace(&before, &now);
    let lines = text(&subject(), &pace, &now, false);
    assert_eq!(lines[0], "run-1  recording  1.5 s of 20 s");
    let all = lines.join("\n");
    assert!(all.contains("  small        2        800"), "{all}");
    assert!(all.contains("  all          3"), "{all}");
    assert!(all.contains("build 20 %"), "{all}");
    assert!(
        all.contains("segments         [########----............]  30 %  highest  50 %"),
        "{all}"
    );
    assert!(all.contains("warning  small sockets"), "{all}");
    assert!(!all.contains("losses"), "{all}");
    assert!(line(&pace, &now).starts_with("1.5 s  recording  4.00 k events/s  0 incomplete"));
}

#[test]
fn a_loss_is_red_and_named() {
    let before = moment(1.0, 100, 0);
    let mut now = moment(2.0, 100, 0);
    now.snapshot.ledger.sources[2][Entry::FragmentsMissing] = 4;
    now.snapshot.state = State::Fault { reason: "no space left".into() };
    let all = text(&subject(), &pace(&before, &now), &now, true).join("\n");
    assert!(all.contains("\x1b[31mFAULT: no space left\x1b[0m"), "{all}");
    assert!(all.contains("losses   missing from events 4"), "{all}");
}

#[test]
fn what_a_front_end_dropped_or_never_sent_is_not_the_networks() {
    let mut ledger = Ledger::new(2);
    let counts = [
        (Entry::FragmentsMissing, 440),
        (Entry::FragmentsAbandoned, 40),
        (Entry::FragmentsNotSent, 390),
    ];
    counts.into_iter().for_each(|(entry, count)| ledger.sources[1][entry] = count);
    let words = "fragments_abandoned 40, fragments_not_sent 390, missing from events 10";
    assert_eq!(loss_reasons(&ledger), words);
    // Of events that were not recorded either, nothing is missing.
    ledger.sources[1][Entry::FragmentsMissing] = 30;
    assert_eq!(loss_reasons(&ledger), "fragments_abandoned 30");
}

#[test]
fn only_gaps_in_the_numbers_of_packets_are_the_networks() {
    let mut ledger = Ledger::new(3);
    // A board whose clock is off: all that it sent is recorded, beside the events.
    ledger.sources[0][Entry::FragmentsMissing] = 901;
    ledger.sources[0][Entry::FragmentsUnmatched] = 900;
    // What is beside the events of another source is none of it.
    ledger.sources[1][Entry::FragmentsUnmatched] = 5_000;
    let words = "missing from events 901 (up to 900 are recorded, in rows of their own)";
    assert_eq!(loss_reasons(&ledger), words);
    ledger.sources[2][Entry::FragmentsMissing] = 30;
    ledger.sources[2][Entry::PacketsMissing] = 3;
    let words = "packets lost on the network 3, missing from events 931 (up to 900 are recorded, \
                 in rows of their own)";
    assert_eq!(loss_reasons(&ledger), words);
}

#[test]
fn what_trends_lack_is_a_warning_and_no_loss() {
    let before = moment(1.0, 100, 0);
    let mut now = moment(2.0, 100, 0);
    assert!(trend_warnings(&now.snapshot.counts).is_empty());
    now.snapshot.counts.trend_samples_late = 1_600;
    now.snapshot.counts.trend_rows_lost = 7;
    let all = text(&subject(), &pace(&before, &now), &now, false).join("\n");
    assert!(all.contains("warning  trends lack 1,600 samples that are recorded"), "{all}");
    assert!(all.contains("warning  trends lack 7 rows"), "{all}");
    assert!(!all.contains("losses"), "{all}");
}

#[test]
fn colours_take_no_room_in_a_line_that_is_cut() {
    assert_eq!(cut("\x1b[31mabcdef\x1b[0mgh", 4), "\x1b[31mabcd\x1b[0m");
    assert_eq!(cut("abc", 4), "abc");
}
