//! A front-end of which nothing comes any more, or that reads nothing, though nobody has closed its
//! connections, in virtual time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use catchment_model::Entry;
use catchment_recorder::{RecorderConfig, SourceConfig};
use catchment_storage::Verdict;
use catchment_wire::event_link::Heartbeats;
use catchment_wire::session::{Bye, ByeReason, CONTROL, Control, Encoder, LogPing, Ping, parse};

use crate::support;
use crate::support::front_end::{Opening, fragments};
use crate::support::stepped::{MS, Stepped};

/// How long events wait for a front-end that fell silent, from its last byte on: `link.resume`.
const RESUME_MS: u64 = 10_000;
/// How often each of them says something.
const EACH_MS: u64 = 100;
/// What comes of both, in so many events.
const OF_BOTH: u64 = 10;

fn config() -> RecorderConfig {
    let mut config = support::detector::small_frames("".as_ref(), None);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let source = |name: &str| SourceConfig::over_session(name, address);
    config.sources = vec![source("near"), source("far")];
    config.access.resume_ns = RESUME_MS * MS;
    config
}

/// A front-end of one source, whose keys are its sequences.
struct FrontEnd {
    control: usize,
    data: usize,
    pings: u32,
    messages: u32,
    /// What came on control and is not read.
    answers: Vec<u8>,
}

impl FrontEnd {
    /// `made`: how many fragments it had before, in the same session.
    fn open(run: &mut Stepped, name: &str, made: u64) -> Self {
        let data = run.open_session_of(name, &[("", 0, made)]);
        // Its control connection was opened right before. The first messages are hello and its
        // table there, and attach here.
        Self { control: data - 1, data, pings: 2, messages: 1, answers: Vec::new() }
    }

    /// Sends a fragment, and a ping.
    fn send(&mut self, run: &mut Stepped, key: u64) {
        run.write(self.data, &fragments(self.messages, 0, key, &[(key, &[key as u8])]));
        run.sent(1);
        self.messages += 1;
        self.ping(run);
    }

    /// Says that it is there, and has nothing.
    fn beat(&mut self, run: &mut Stepped) {
        let mut beat = [0; 64];
        let bytes = Encoder::begin(&mut beat, self.messages, &Heartbeats {}).finish("", &[]);
        run.write(self.data, &beat[..bytes]);
        self.messages += 1;
        self.ping(run);
    }

    fn ping(&mut self, run: &mut Stepped) {
        let mut ping = [0; 64];
        let cookie = u64::from(self.pings);
        let bytes = Encoder::begin(&mut ping, self.pings, &Ping { cookie }).finish("", &[]);
        run.write(self.control, &ping[..bytes]);
        self.pings += 1;
    }

    /// The bye that has come to its machine, if there is one.
    fn bye(&mut self, run: &Stepped) -> Option<Bye> {
        self.answers.extend_from_slice(&run.read_answers(self.control));
        let mut rest = &self.answers[..];
        let mut bye = None;
        // The number of a message stands at the end of its header.
        while let Some(number) = rest.get(12..16) {
            let number = u32::from_le_bytes(number.try_into().expect("four bytes"));
            let message = parse(rest, number, CONTROL).expect("sound").expect("whole");
            if let Ok(Some(Control::Bye(one, _))) = Control::read(&message) {
                bye = Some(one);
            }
            rest = &rest[message.used..];
        }
        self.answers.clear();
        bye
    }
}

/// Lets a front-end fall silent while another one goes on, until the time of its resume is nearly
/// over. Returns the other one, and the keys that only it has sent.
fn fall_silent(run: &mut Stepped) -> (FrontEnd, std::ops::Range<u64>) {
    let [mut near, mut far] = ["near", "far"].map(|name| FrontEnd::open(run, name, 0));
    for key in 0..OF_BOTH {
        near.send(run, key);
        far.send(run, key);
        run.pass(EACH_MS);
        assert!(far.bye(run).is_none() && near.bye(run).is_none());
    }
    let (mut passed_ms, mut key, mut told) = (EACH_MS, OF_BOTH, None);
    while passed_ms < RESUME_MS - 2 * EACH_MS {
        near.send(run, key);
        key += 1;
        run.pass(EACH_MS);
        passed_ms += EACH_MS;
        assert!(near.bye(run).is_none());
        if let Some(bye) = far.bye(run) {
            assert_eq!(bye.reason, ByeReason::SILENT);
            assert!((2_500..=3_000).contains(&bye.detail), "{bye:?}");
            assert!(told.replace(passed_ms).is_none());
        }
    }
    let told_ms = told.expect("it is told");
    assert!((2_500..=3_000).contains(&told_ms), "after {told_ms} ms");
    let now = run.snapshot();
    assert_eq!((now.counts.events_complete, now.counts.events_incomplete), (OF_BOTH, 0));
    let [of_near, of_far] = &now.links[..] else { panic!("two sources") };
    assert_eq!((of_near.waits, of_far.waits), (0, 1));
    assert!(of_far.waited_ms >= passed_ms - told_ms - EACH_MS, "{of_far:?}");
    (near, OF_BOTH..key)
}

#[test]
fn a_half_open_front_end_is_told_within_three_seconds_and_goes_on_within_its_resume() {
    let mut run = Stepped::begin(&config());
    let (mut near, missed) = fall_silent(&mut run);
    let mut far = FrontEnd::open(&mut run, "far", missed.end);
    for key in missed.clone() {
        far.send(&mut run, key);
    }
    for key in missed.end..missed.end + OF_BOTH {
        near.send(&mut run, key);
        far.send(&mut run, key);
        run.pass(EACH_MS);
        assert!(far.bye(&run).is_none() && near.bye(&run).is_none());
    }
    let last = run.end();
    let events = missed.end + OF_BOTH;
    assert_eq!((last.counts.events_complete, last.counts.events_incomplete), (events, 0));
    assert_eq!(last.ledger.sources[1][Entry::LinkResumes], 1);
    assert!(!last.ledger.balance().lost_data(), "{:?}", last.ledger.balance());
    let (is_intact, audit) = run.read();
    assert!(is_intact && audit.verdict == Verdict::Balanced, "{audit:?}");
}

#[test]
fn behind_its_resume_nothing_waits_for_a_half_open_front_end() {
    let mut run = Stepped::begin(&config());
    let (mut near, missed) = fall_silent(&mut run);
    for key in missed.end..missed.end + 5 {
        near.send(&mut run, key);
        run.pass(EACH_MS);
    }
    let now = run.snapshot();
    assert!(now.counts.events_incomplete > 0, "{:?}", now.counts);
    let last = run.end();
    assert_eq!(last.ledger.sources[1][Entry::FragmentsMissing], missed.end + 5 - OF_BOTH);
    assert_eq!(last.ledger.sources[0][Entry::FragmentsMissing], 0);
    assert_eq!(run.read().1.verdict, Verdict::DataLost);
}

#[test]
fn one_that_says_nothing_and_is_there_is_given_up_after_the_time_out_and_not_before_its_word() {
    let mut run = Stepped::begin(&config());
    let [mut near, mut far] = ["near", "far"].map(|name| FrontEnd::open(&mut run, name, 0));
    let closed = |run: &Stepped| {
        let counts = run.snapshot().counts;
        counts.events_complete + counts.events_incomplete
    };
    for key in 0..40 {
        near.send(&mut run, key);
        match key {
            0..OF_BOTH => far.send(&mut run, key),
            _ => far.beat(&mut run),
        }
        run.pass(EACH_MS);
        // The default of the time-out is 1 s.
        match key {
            OF_BOTH..18 => assert_eq!(closed(&run), OF_BOTH),
            24.. => assert!(closed(&run) > OF_BOTH, "{key}"),
            _ => {}
        }
    }
    assert_eq!((near.bye(&run), far.bye(&run)), (None, None));
    let last = run.end();
    assert_eq!(last.ledger.sources[1][Entry::FragmentsMissing], 40 - OF_BOTH);
}

#[test]
fn who_has_the_name_of_another_session_is_told_for_how_long_that_one_has_been_silent() {
    let mut run = Stepped::begin(&config());
    let mut far = FrontEnd::open(&mut run, "far", 0);
    far.send(&mut run, 0);
    run.pass(1_000);
    let answer = run.say_hello(&Opening::of("far", 8, &[("", 0, 0)]), (0, 1));
    let message = parse(&answer, 0, CONTROL).expect("sound").expect("whole");
    let Ok(Some(Control::Bye(bye, _))) = Control::read(&message) else { panic!("{answer:?}") };
    assert_eq!((bye.reason, bye.retry_ms), (ByeReason::NAME_IN_USE, 500));
    // Silence is counted 20 times a second.
    assert!((900..=1_002).contains(&bye.detail), "{bye:?}");
    run.end();
}

#[test]
fn noise_is_one_framing_fault_however_long_the_front_end_reads_no_answer() {
    let mut run = Stepped::begin(&config());
    let mut far = FrontEnd::open(&mut run, "far", 0);
    far.send(&mut run, 0);
    run.pass(EACH_MS);
    // Its position was answered. Until that is read, it can be told nothing else.
    for connection in [far.data, far.control] {
        run.write(connection, &[0x5A; 40]);
    }
    run.pass(EACH_MS);
    let refused = |run: &Stepped| run.snapshot().ledger.sources[1][Entry::PacketsRefused];
    assert_eq!((far.bye(&run), refused(&run)), (None, 1));
    run.pass(EACH_MS);
    let bye = far.bye(&run).expect("it is told");
    // It is not given up, as at a third fault.
    assert_eq!((bye.reason, bye.retry_ms, refused(&run)), (ByeReason::MALFORMED, 1_000, 1));
    let last = run.end();
    assert_eq!(last.ledger.sources[1][Entry::FragmentsRecorded], 1);
}

#[test]
fn a_front_end_that_says_it_made_more_than_memory_holds_is_not_believed() {
    let mut run = Stepped::begin(&config());
    let mut far = FrontEnd::open(&mut run, "far", 0);
    far.send(&mut run, 0);
    run.pass(EACH_MS);
    assert_eq!(far.bye(&run), None);
    let mut ping = [0; 128];
    let mut lie = Encoder::begin(&mut ping, far.pings, &Ping { cookie: 0 });
    assert!(lie.push(&LogPing { log: 0, flags: 0, made: 1 << 62, held_bytes: 0 }));
    let bytes = lie.finish("", &[]);
    run.write(far.control, &ping[..bytes]);
    run.pass(EACH_MS);
    assert_eq!(far.bye(&run).map(|bye| bye.reason), Some(ByeReason::MALFORMED));
    let last = run.end();
    let of_it = &last.ledger.sources[1];
    assert_eq!((of_it[Entry::FragmentsRecorded], of_it[Entry::FragmentsLostSender]), (1, 0));
}
