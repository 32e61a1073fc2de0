//! Rates, losses, the verdict and the bottleneck.

use catchment_model::{Entry, Ledger};
use catchment_watch::{
    Flow, Level, Limits, Loss, LossWatch, Rates, Run, SourceFlow, Stage, Untaken, bottleneck,
    is_bad, is_loss, verdict, words_of_entry, words_of_time,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

#[test]
fn a_rate_is_of_the_window_and_not_of_all_time() {
    let mut rates = Rates::new(10 * S);
    assert_eq!(rates.per_second(0), None);
    let mut count = 1_000_000;
    for step in 0..200 {
        rates.push(step * S / 2, &[count]);
        count += if step < 100 { 50 } else { 500 };
    }
    let rate = rates.per_second(0).expect("a rate");
    assert!((rate - 1_000.0).abs() < 1e-9, "{rate}");
    assert_eq!(rates.grown(0), 10_000);
    assert_eq!(rates.since_grown_ns(0, 100 * S), Some(S / 2));
}

#[test]
fn a_counter_that_falls_began_anew() {
    let mut rates = Rates::new(10 * S);
    rates.push(0, &[500]);
    rates.push(S, &[600]);
    rates.push(2 * S, &[40]);
    assert_eq!(rates.grown(0), 140);
    assert_eq!(rates.per_second(0), Some(70.0));
}

#[test]
fn another_number_of_counters_begins_all_anew_and_time_does_not_go_back() {
    let mut rates = Rates::new(S);
    rates.push(5 * S, &[1, 2]);
    rates.push(4 * S, &[2, 2]);
    assert_eq!((rates.per_second(0), rates.grown(0)), (None, 1));
    rates.push(6 * S, &[7]);
    assert_eq!((rates.len(), rates.grown(0), rates.grown(1)), (1, 0, 0));
    assert_eq!(rates.per_second(1), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn rates_agree_with_a_list_of_all_that_was_seen(
        steps in prop::collection::vec((0_u64..3_000, 0_u64..1_000, any::<bool>()), 2..200),
    ) {
        let window_ns = 10 * S;
        let mut rates = Rates::new(window_ns);
        let (mut now_ns, mut counter, mut total) = (0, 0, 0);
        let mut seen = Vec::new();
        for (wait_ms, more, anew) in steps {
            now_ns += wait_ms * MS;
            if !seen.is_empty() {
                // A restart shows only if the counter is lower than before.
                let restarts = anew && more < counter;
                counter = if restarts { more } else { counter + more };
                total += more;
            }
            seen.push((now_ns, total));
            rates.push(now_ns, &[counter]);
        }
        // It is counted from something seen before the window began, and from the last such thing
        // but for what came within a twentieth of the window after it.
        let begin_ns = now_ns.saturating_sub(window_ns).max(seen[0].0);
        let before = |time_ns: u64| time_ns <= begin_ns;
        let passed = |time_ns: u64| {
            seen.iter().any(|other| other.0 >= time_ns + window_ns / 20 && before(other.0))
        };
        let base = seen.iter().filter(|(time_ns, _)| before(*time_ns) && !passed(*time_ns));
        let allowed: Vec<u64> = base.map(|(_, then)| total - then).collect();
        prop_assert!(allowed.contains(&rates.grown(0)), "{} of {allowed:?}", rates.grown(0));
    }
}

#[test]
fn losses_are_named_by_source_and_kind_the_worst_first_until_they_are_old() {
    let mut watch = LossWatch::new(60 * S, is_loss);
    let mut ledger = Ledger::new(3);
    ledger.sources[2][Entry::FragmentsLate] = 4;
    watch.push(S, &ledger);
    assert_eq!(watch.recent(S, 60 * S).len(), 1, "what was lost before one looked shows");
    ledger.sources[0][Entry::FragmentsMissing] = 9;
    ledger.sources[1][Entry::FragmentsRecorded] = 100;
    ledger.sources[1][Entry::FragmentsDuplicate] = 100;
    watch.push(30 * S, &ledger);
    let recent = watch.recent(31 * S, 60 * S);
    let found: Vec<_> = recent.iter().map(|loss| (loss.source, loss.entry, loss.count)).collect();
    assert_eq!(found, [(0, Entry::FragmentsMissing, 9), (2, Entry::FragmentsLate, 4)]);
    assert_eq!(recent[0].age_ns, S);
    for second in 31..95 {
        watch.push(second * S, &ledger);
    }
    assert!(watch.recent(94 * S, 60 * S).is_empty());
}

const SOURCES: [SourceFlow<'static>; 2] = [
    SourceFlow {
        name: "rich-03",
        required: true,
        received_age_ns: Some(100 * MS),
        out_of_step: false,
        astray: None,
        unread: false,
    },
    SourceFlow {
        name: "spare",
        required: false,
        received_age_ns: None,
        out_of_step: false,
        astray: None,
        unread: false,
    },
];

fn good() -> Flow<'static> {
    Flow {
        run: Run::Recording { since_ns: 600 * S },
        fault: None,
        fault_advice: None,
        cannot_write: false,
        received_age_ns: Some(100 * MS),
        recorded_age_ns: Some(900 * MS),
        held_age_ns: None,
        resumed_age_ns: None,
        sources: &SOURCES,
        losses: &[],
        loss_share: 0.0,
        bad: &[],
        bad_share: 0.0,
        away: &[],
        spilling: &[],
        refused: &[],
        notices: &[],
    }
}

fn judge(flow: &Flow<'_>) -> (Level, String) {
    let verdict = verdict(flow, &Limits::of_frames(S));
    (verdict.level, verdict.text)
}

fn not(text: &str) -> (Level, String) {
    (Level::NotRecording, text.to_owned())
}

#[test]
fn data_that_reach_the_disk_are_good_whoever_is_only_optional() {
    assert_eq!(judge(&good()), (Level::Good, "recording good data".to_owned()));
}

#[test]
fn losses_are_named_three_at_most() {
    let loss = |source| Loss { source, entry: Entry::FragmentsMissing, count: 12 };
    let losses = [loss("a"), loss("b"), loss("a"), loss("c"), loss("d")];
    let few = Flow { losses: &losses[..3], ..good() };
    let text = "recording with loss: a: 12 lost in the last minute (missing fragments); \
        b: 12 lost in the last minute (missing fragments)";
    assert_eq!(judge(&few), (Level::Loss, text.to_owned()));
    let now = Flow { loss_share: 0.000_34, ..few };
    assert!(judge(&now).1.starts_with("recording with loss, 0.034 % of the data: a: 12"));
    let many = verdict(&Flow { losses: &losses, ..good() }, &Limits::of_frames(S));
    assert!(many.text.ends_with("(missing fragments); 1 more source"), "{}", many.text);
    assert_eq!(many.reasons.len(), 4);
}

#[test]
fn loss_of_a_large_share_is_no_loss_like_another() {
    let losses = [Loss { source: "a", entry: Entry::FragmentsMissingUnrecorded, count: 2_248_410 }];
    let flow = |loss_share| Flow { losses: &losses, loss_share, ..good() };
    assert_eq!(judge(&flow(0.049)).0, Level::Loss);
    let heavy = verdict(&flow(0.91), &Limits::of_frames(S));
    assert_eq!((heavy.level, heavy.loss_share), (Level::HeavyLoss, Some(0.91)));
    let reason = "a: 2,248,410 lost in the last minute (missing fragments of lost events)";
    assert_eq!(heavy.text, format!("losing 91 % of the data: {reason}"));
    assert_eq!(heavy.reasons, [reason]);
    let limits = Limits { heavy_loss_share: 0.95, ..Limits::of_frames(S) };
    assert_eq!(verdict(&flow(0.91), &limits).level, Level::Loss);
    // What was lost a while ago is loss for a minute, and no longer heavy.
    assert_eq!(judge(&flow(0.0)).0, Level::Loss);
    let young = Flow { run: Run::Recording { since_ns: 30 * S }, ..flow(0.0) };
    assert!(judge(&young).1.contains("2,248,410 lost in this run ("), "{}", judge(&young).1);
    assert!(Level::Loss < Level::HeavyLoss && Level::HeavyLoss < Level::NotRecording);
}

#[test]
fn bad_data_are_not_good_and_from_the_share_of_heavy_loss_on_as_bad_as_that() {
    let bad = |source, entry| Loss { source, entry, count: 3_709 };
    let (broken, strayed) = (Entry::FragmentsBadSender, Entry::FragmentsBadTag);
    let all = [bad("small-05", broken), bad("small-05", strayed), bad("small-06", strayed)];
    let flow = |bad_share| Flow { bad: &all, bad_share, ..good() };
    let few = verdict(&flow(0.02), &Limits::of_frames(S));
    assert_eq!((few.level, few.bad_share), (Level::BadData, Some(0.02)));
    let reasons = [
        "small-05: 3,709 bad in the last minute (fragments marked broken by their sender)",
        "small-06: 3,709 bad in the last minute (fragments of another trigger)",
    ];
    assert_eq!(few.reasons, reasons);
    let text = format!("recording, but 2.0 % of the data are bad: {}", reasons.join("; "));
    assert_eq!(few.text, text);
    assert_eq!(judge(&flow(0.05)).0, Level::HeavyBadData);
    assert!(judge(&flow(0.5)).1.starts_with("recording bad data, 50 % of all: small-05: 3,709"));
    // When it is over it is said for a minute.
    assert!(judge(&flow(0.0)).1.starts_with("recording, but some data are bad: small-05: 3,709"));
    // Loss and bad data are both named, the worse one first.
    let losses = [Loss { source: "a", entry: Entry::FragmentsMissing, count: 12 }];
    let both = Flow { losses: &losses, loss_share: 0.01, ..flow(0.02) };
    let both = verdict(&both, &Limits::of_frames(S));
    assert_eq!((both.level, both.reasons.len()), (Level::Loss, 3));
    assert!(both.reasons[0].starts_with("a: 12 lost"), "{:?}", both.reasons);
    let heavy = judge(&Flow { losses: &losses, loss_share: 0.01, ..flow(0.5) });
    assert_eq!(heavy.0, Level::HeavyBadData);
    assert!(Level::Good < Level::BadData && Level::HeavyBadData < Level::HeavyLoss);
}

#[test]
fn a_source_of_which_some_data_are_lost_and_some_are_bad_is_named_once() {
    let of = |source, entry| Loss { source, entry, count: 12 };
    let losses = [of("a", Entry::FragmentsMissing), of("b", Entry::FragmentsMissing)];
    let bad = [of("a", Entry::FragmentsBadTag), of("c", Entry::FragmentsBadTag)];
    let flow = Flow { losses: &losses, bad: &bad, loss_share: 0.01, bad_share: 0.01, ..good() };
    let verdict = verdict(&flow, &Limits::of_frames(S));
    let text = "recording with loss, 1.0 % of the data: \
                a: 12 lost in the last minute (missing fragments); \
                b: 12 lost in the last minute (missing fragments); \
                c: 12 bad in the last minute (fragments of another trigger)";
    assert_eq!(verdict.text, text);
    assert_eq!(verdict.reasons.len(), 4);
    assert!(verdict.reasons[2].starts_with("a: 12 bad"), "{:?}", verdict.reasons);
}

#[test]
fn packets_of_strangers_are_named_and_the_data_are_good_all_the_same() {
    let notices = ["packets from 10.1.2.3:4567 do not belong to small-00".to_owned()];
    let flow = Flow { notices: &notices, ..good() };
    let text = format!("recording good data; {}", notices[0]);
    assert_eq!(judge(&flow), (Level::Good, text));
    assert_eq!(verdict(&flow, &Limits::of_frames(S)).reasons, notices);
}

#[test]
fn what_was_recorded_before_a_pause_is_not_awaited_after_it() {
    let resumed = |ago_ns| Flow {
        recorded_age_ns: Some(13 * S + ago_ns),
        resumed_age_ns: Some(ago_ns),
        ..good()
    };
    let text = "the run was resumed 1 s ago, the first data are on their way";
    assert_eq!(judge(&resumed(S)), not(text));
    let text = "data arrive but nothing has reached the disk since the run was resumed 6 s ago";
    assert_eq!(judge(&resumed(6 * S)), not(text));
    let recorded = Flow { recorded_age_ns: Some(S), ..resumed(2 * S) };
    assert_eq!(judge(&recorded).0, Level::Good);
}

#[test]
fn the_page_calls_losses_what_the_node_calls_them() {
    // The memory of a `LossWatch` is stated for so many.
    let count =
        |is_watched: fn(Entry) -> bool| Entry::ALL.iter().filter(|&&e| is_watched(e)).count();
    assert_eq!((count(is_loss), count(is_bad)), (28, 4));
    let page = include_str!("../../../../web/src/words.ts");
    for &entry in Entry::ALL.iter().filter(|entry| is_loss(**entry) || is_bad(**entry)) {
        let line = format!("  {}: \"{}\",", entry.name(), words_of_entry(entry));
        assert!(page.contains(&line), "{line}");
    }
}

#[test]
fn a_required_source_that_is_silent_is_a_loss_and_comes_before_others() {
    let silent = SourceFlow { received_age_ns: Some(8 * S), ..SOURCES[0] };
    let never = SourceFlow { name: "tof-1", received_age_ns: None, ..SOURCES[0] };
    let losses = [Loss { source: "rich-03", entry: Entry::FragmentsMissing, count: 3 }];
    let flow = Flow { sources: &[silent, never], losses: &losses, ..good() };
    let text = "recording with loss: tof-1 silent for 10 min; rich-03 silent for 8 s";
    assert_eq!(judge(&flow), (Level::Loss, text.to_owned()));
}

#[test]
fn a_source_that_nobody_reads_is_not_silent() {
    let unread = SourceFlow { received_age_ns: Some(8 * S), unread: true, ..SOURCES[0] };
    let flow = Flow { sources: &[unread, SOURCES[1]], ..good() };
    let text = "rich-03 not read: the receive thread is held up";
    assert_eq!(judge(&flow), (Level::Held, text.to_owned()));
    let flow = Flow { sources: &[unread, unread, SOURCES[1]], ..flow };
    let text = "rich-03 and 1 more not read: the receive thread is held up";
    assert_eq!(judge(&flow), (Level::Held, text.to_owned()));
    let hiccup = SourceFlow { received_age_ns: Some(900 * MS), ..unread };
    assert_eq!(judge(&Flow { sources: &[hiccup], ..flow }).0, Level::Good);
    let losses = [Loss { source: "rich-03", entry: Entry::FragmentsMissing, count: 3 }];
    assert_eq!(judge(&Flow { losses: &losses, ..flow }).0, Level::Loss);
}

#[test]
fn a_source_out_of_step_is_a_loss_and_named_for_that() {
    let strayed = SourceFlow { out_of_step: true, ..SOURCES[0] };
    let losses = [Loss { source: "rich-03", entry: Entry::FragmentsOutOfRange, count: 3 }];
    let flow = Flow { sources: &[strayed, SOURCES[1]], losses: &losses, ..good() };
    let begin = "recording with loss: rich-03 out of step: ";
    let text = format!("{begin}its numbers or clock do not fit; what it sends is in no event");
    assert_eq!(judge(&flow), (Level::Loss, text));
    let clock = [SourceFlow { astray: Some("its clock is 3.0 s behind"), ..strayed }];
    let flow = Flow { sources: &clock, ..flow };
    let text = format!("{begin}its clock is 3.0 s behind; what it sends is in no event");
    assert_eq!(judge(&flow), (Level::Loss, text.clone()));
    // Where events wait for it, and nothing is recorded, it is named, too.
    let stuck = Flow { recorded_age_ns: Some(9 * S), ..flow };
    let reasons = verdict(&stuck, &Limits::of_frames(S)).reasons;
    assert!(reasons.iter().any(|reason| text.ends_with(reason.as_str())), "{reasons:?}");
    // Once it sends no more it is silent, and not out of step as well.
    let silent = SourceFlow { received_age_ns: Some(8 * S), ..strayed };
    let flow = Flow { sources: &[silent], ..flow };
    let text = "recording with loss: rich-03 silent for 8 s";
    assert_eq!(judge(&flow), (Level::Loss, text.to_owned()));
}

#[test]
fn a_node_that_waits_says_which_of_its_sources_are_sending() {
    let source = |name, required, age_s: Option<u64>| SourceFlow {
        name,
        required,
        received_age_ns: age_s.map(|age_s| age_s * S),
        out_of_step: false,
        astray: None,
        unread: false,
    };
    let seen = [
        source("rich-01", true, Some(1)),
        source("rich-02", true, None),
        source("tof-01", true, Some(9)),
        source("spare", false, None),
    ];
    let flow = Flow { run: Run::Armed, sources: &seen, received_age_ns: Some(S), ..good() };
    let configured = Flow { run: Run::Configured, ..flow };
    let text = "no run: 1 of 3 sources are sending; nothing from rich-02, tof-01";
    assert_eq!(judge(&configured), not(text));
    let text = "armed, not started: 1 of 3 sources are sending; nothing from rich-02, tof-01";
    assert_eq!(judge(&flow), not(text));
    assert_eq!(
        judge(&Flow { sources: &seen[..1], ..flow }),
        not("armed, not started: 1 of 1 sources are sending")
    );
    let none = [seen[1]; 5];
    let text = "armed, not started: 0 of 5 sources are sending; nothing from rich-02, rich-02, \
                rich-02 and 2 more";
    assert_eq!(judge(&Flow { sources: &none, ..flow }), not(text));
}

#[test]
fn every_way_of_not_recording_says_why() {
    let flow = Flow { run: Run::None(None), ..good() };
    assert_eq!(judge(&flow), not("no run"));
    let flow = Flow { run: Run::Unconfigured, ..good() };
    assert_eq!(judge(&flow), not("no run: configure one to see what is sending"));
    let flow = Flow { run: Run::CannotReceive("port 5000 is taken"), ..good() };
    assert_eq!(judge(&flow), not("no run, and none can begin: port 5000 is taken"));
    let flow = Flow { run: Run::None(Some("start is under way")), ..good() };
    assert_eq!(judge(&flow), not("not recording: start is under way"));
    let flow = Flow { run: Run::Paused { who: "ada", since: "03:12" }, ..good() };
    assert_eq!(judge(&flow), not("paused by ada since 03:12"));
    let flow = Flow { received_age_ns: Some(12 * S), ..good() };
    assert_eq!(judge(&flow), not("no data from any source for 12 s"));
    let flow = Flow { recorded_age_ns: Some(8 * S), ..good() };
    assert_eq!(judge(&flow), not("data arrive but nothing reaches the disk for 8 s"));
    let young = Flow { run: Run::Recording { since_ns: 3 * S }, recorded_age_ns: None, ..good() };
    assert_eq!(judge(&young), not("recording began 3 s ago, the first data are on their way"));
    let flow = Flow { received_age_ns: None, ..young };
    assert_eq!(judge(&flow), not("recording began 3 s ago, no data yet"));
    let flow = Flow { received_age_ns: None, recorded_age_ns: None, ..good() };
    assert_eq!(judge(&flow), not("no data from any source since recording began 10 min ago"));
    let flow = Flow { recorded_age_ns: None, ..good() };
    let text = "data arrive but nothing has reached the disk since recording began 10 min ago";
    assert_eq!(judge(&flow), not(text));
}

#[test]
fn a_fault_comes_first_where_nothing_is_recorded_and_stands_beside_good_data() {
    let flow = Flow { fault: Some("disk full"), recorded_age_ns: Some(8 * S), ..good() };
    let bad = verdict(&flow, &Limits::of_frames(S));
    assert_eq!((bad.level, bad.text.as_str()), (Level::NotRecording, "fault: disk full"));
    assert_eq!(bad.reasons, ["data arrive but nothing reaches the disk for 8 s"]);
    let fine = verdict(&Flow { fault: Some("disk full"), ..good() }, &Limits::of_frames(S));
    assert_eq!((fine.level, fine.reasons.len()), (Level::Good, 1));
    let flow = Flow { run: Run::Paused { who: "ada", since: "03:12" }, ..flow };
    assert_eq!(judge(&flow), not("paused by ada since 03:12"));
}

#[test]
fn what_to_do_about_a_fault_comes_first_and_its_path_last() {
    let fault = Some("node/recorder/write: cannot write /data/x.catch: No space left on device");
    let fault_advice = Some("disk full: make room, and recording resumes by itself");
    let flow = Flow { fault, fault_advice, cannot_write: true, ..good() };
    let bad = verdict(&flow, &Limits::of_frames(S));
    assert_eq!(bad.text, "disk full: make room, and recording resumes by itself");
    assert_eq!(bad.reasons[0], "data arrive but cannot be written to the disk");
    assert!(bad.reasons[1].contains("/data/x.catch"));
    assert_eq!(bad.reasons.len(), 2);
}

#[test]
fn a_disk_that_refuses_is_not_recording_from_the_first_moment() {
    let losses = [Loss { source: "rich-03", entry: Entry::FragmentsDiscardedDisk, count: 3 }];
    let full = Some("No space left on device");
    let flow = Flow { fault: full, cannot_write: true, losses: &losses, ..good() };
    let bad = verdict(&flow, &Limits::of_frames(S));
    assert_eq!(bad.level, Level::NotRecording);
    assert_eq!(bad.text, "fault: No space left on device");
    assert_eq!(bad.reasons, ["data arrive but cannot be written to the disk"]);
    let young = Flow { run: Run::Recording { since_ns: S }, recorded_age_ns: None, ..flow };
    assert_eq!(judge(&young), not("fault: No space left on device"));
    let nameless = Flow { fault: None, ..flow };
    assert_eq!(judge(&nameless), not("data arrive but cannot be written to the disk"));
    let flow = Flow { recorded_age_ns: Some(8 * S), ..nameless };
    assert_eq!(judge(&flow), not("data arrive but nothing reaches the disk for 8 s"));
}

#[test]
fn a_disk_that_completes_no_write_holds_data_in_memory_before_nothing_is_recorded() {
    let held = |age_ns| Flow { recorded_age_ns: Some(2 * S), held_age_ns: Some(age_ns), ..good() };
    assert_eq!(judge(&held(900 * MS)).0, Level::Good, "a slow write");
    let text = "data are only held in memory: the disk has completed no write for 1 s";
    assert_eq!(judge(&held(S)), (Level::Held, text.to_owned()));
    // Long frames make no difference: nothing is to be written while they fill.
    let long = verdict(&held(4 * S), &Limits::of_frames(64 * S));
    assert_eq!(long.level, Level::Held);
    let flow = Flow { recorded_age_ns: Some(4 * S), ..held(3 * S) };
    assert_eq!(judge(&flow), not("data arrive but nothing reaches the disk for 4 s"));
    // A loss is worse, and says both.
    let losses = [Loss { source: "rich-03", entry: Entry::FragmentsMissing, count: 3 }];
    let lost = verdict(&Flow { losses: &losses, ..held(S) }, &Limits::of_frames(S));
    assert_eq!((lost.level, lost.reasons[1].as_str()), (Level::Loss, text));
    let flow = Flow { run: Run::Paused { who: "ada", since: "03:12" }, ..held(S) };
    assert_eq!(judge(&flow), not("paused by ada since 03:12"));
}

#[test]
fn long_frames_are_waited_for() {
    let flow = Flow { recorded_age_ns: Some(25 * S), ..good() };
    assert_eq!(verdict(&flow, &Limits::of_frames(10 * S)).level, Level::Good);
    assert_eq!(verdict(&flow, &Limits::of_frames(8 * S)).level, Level::NotRecording);
}

#[test]
fn times_are_said_as_people_say_them() {
    let said: Vec<String> =
        [0, 119, 120, 7_199, 7_200, 90_000].map(|seconds| words_of_time(seconds * S)).into();
    assert_eq!(said, ["0 s", "119 s", "2 min", "119 min", "2 h 0 min", "25 h 0 min"]);
}

#[test]
fn the_slow_stage_limits_and_of_full_queues_the_last() {
    let stage = |fill, input_per_second, output_per_second| Stage {
        fill,
        input_per_second,
        output_per_second,
    };
    assert_eq!(bottleneck(&[]), None);
    assert_eq!(bottleneck(&[stage(0.1, 9.0, 5.0), stage(0.0, 5.0, 5.0)]), None);
    // A queue that empties is no sign of a slow stage.
    assert_eq!(bottleneck(&[stage(0.5, 5.0, 9.0)]), None);
    let slow_build = [stage(0.0, 9.0, 9.0), stage(0.4, 9.0, 7.0), stage(0.1, 7.0, 7.0)];
    assert_eq!(bottleneck(&slow_build), Some(1));
    let slow_disk = [stage(0.99, 9.0, 5.0), stage(0.995, 5.0, 5.0), stage(0.99, 5.0, 5.0)];
    assert_eq!(bottleneck(&slow_disk), Some(2));
    assert_eq!(bottleneck(&[stage(f64::NAN, 1.0, 0.0)]), None);
}

#[test]
fn a_required_target_that_is_away_or_refuses_is_never_good() {
    let node = Untaken { target: "node", why: "n:7100: it is away: no route", lasts_seconds: None };
    let flow = Flow { away: &[node], ..good() };
    let words = "frames for target node wait in memory: n:7100: it is away: no route";
    assert_eq!(judge(&flow), (Level::Held, words.to_owned()));
    let lasts = Untaken { lasts_seconds: Some(40.7), ..node };
    let text = "frames for target node wait in memory, which lasts for about 40 s at this rate: \
                n:7100: it is away: no route";
    assert_eq!(judge(&Flow { away: &[lasts], ..good() }), (Level::Held, text.to_owned()));
    // What a spill takes is recorded, and yet not where it is to be.
    let spilling = ["target raid: its frames go to its spill".to_owned()];
    let held = Flow { spilling: &spilling, ..good() };
    assert_eq!(judge(&held), (Level::Held, spilling[0].clone()));
    // Where it is the only one, nothing reaches a disk soon.
    let verdict = verdict(&Flow { recorded_age_ns: Some(8 * S), ..flow }, &Limits::of_frames(S));
    assert_eq!(verdict.level, Level::NotRecording);
    assert_eq!(verdict.reasons, [words]);
    let refuses = Untaken { target: "node", why: "no token", lasts_seconds: None };
    assert_eq!(
        judge(&Flow { refused: &[refuses], ..good() }),
        (
            Level::Loss,
            "recording with loss: target node does not get the data: no token".to_owned()
        )
    );
}
