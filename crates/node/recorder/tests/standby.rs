//! Front-ends between runs: their sessions go on into a run and behind it, and what they send while
//! there is none is counted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use catchment_fixtures::{sender_to, wait_while};
use catchment_frontend::{Frontend, Reading, Setting};
use catchment_model::Entry;
use catchment_recorder::{
    Accept, Recorder, RecorderConfig, RecorderError, Report, RunSummary, Scalar, SourceConfig,
    Stage, Standby, Standing,
};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::event_link::{CommandKind, Heartbeat, MarkKind};
use catchment_wire::hadtu::ByteOrder;
use catchment_wire::session::{AnswerKind, ByeReason, GrantAnswer, Hello, NONE, RunState};
use tempfile::TempDir;

use crate::support::front_end::{FrontEnd, Opening, parts};
use crate::support::{self, packet};

mod accept;

const LONG: Duration = Duration::from_secs(600);
const LOGS: [(&str, u64, u64); 1] = [("", 0, 0)];

struct Rig {
    _folder: TempDir,
    config: RecorderConfig,
    standby: Standby,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let mut config = support::config(folder.path(), 1);
        // Beside a port of datagrams, so that connections have other numbers in a run.
        config.sources.push(SourceConfig::over_session("camera".to_owned(), address));
        config.sources[0].role = catchment_builder::SourceRole::Optional;
        config.write.sync_interval_ns = 20_000_000;
        config.frame.time_ns = 20_000_000;
        let standby = Standby::default();
        config.standby = Some(standby.clone());
        Self { _folder: folder, config, standby }
    }

    /// Ends a run, and listens from then on: in between, nobody answers.
    fn end(&self, recorder: Recorder) -> (RunSummary, Standing) {
        (recorder.stop().unwrap(), self.standby.stand(&self.config).unwrap())
    }

    fn outside(&self) -> u64 {
        self.standby.front_ends().list()["camera"].fragments_outside_run
    }

    fn is_connected(&self) -> bool {
        self.standby.front_ends().list()["camera"].is_connected
    }
}

fn connect(address: SocketAddr, flags: u8) -> FrontEnd {
    connect_by(address, &Opening::of("camera", 7, &LOGS), flags)
}

fn connect_by(address: SocketAddr, opening: &Opening<'_>, flags: u8) -> FrontEnd {
    let mut front_end = FrontEnd::connect_as(address, opening, (flags, 0));
    front_end.attach(address);
    front_end
}

/// Sends fragments whose keys are their sequences, and waits until they are durable. In a run, the
/// board sends the same keys.
fn send(front_end: &mut FrontEnd, keys: std::ops::Range<u64>, board: Option<&UdpSocket>) {
    send_behind(front_end, 0, keys, board);
}

/// The same behind so many marks: the sequences are that much above the keys.
fn send_behind(
    front_end: &mut FrontEnd,
    marks: u64,
    keys: std::ops::Range<u64>,
    board: Option<&UdpSocket>,
) {
    for key in keys.clone() {
        front_end.send(0, marks + key, &[(key, &key.to_le_bytes())]);
        if let Some(board) = board {
            board.send(&packet(0, ByteOrder::Little, &[(key as u32, b"board")])).unwrap();
        }
    }
    while front_end.durable(0) < marks + keys.end {
        front_end.promise(&[(0, Heartbeat::LOW_WATER, marks + keys.end, keys.end)]);
        front_end.ping();
    }
}

/// The board's socket.
fn board(recorder: &Recorder) -> UdpSocket {
    sender_to(recorder.addresses()[0])
}

/// Answers the command of that number, which is of that kind.
fn obey(front_end: &mut FrontEnd, (number, kind): (u64, CommandKind)) {
    front_end.read_until(|one| one.commands.len() as u64 >= number);
    let (command, ..) = front_end.commands[number as usize - 1];
    assert_eq!((command.number, CommandKind(command.kind)), (number, kind));
    let is_prepare = kind == CommandKind::PREPARE;
    let answer = if is_prepare { AnswerKind::Agreed } else { AnswerKind::Done };
    front_end.answer(number, answer, "");
    if is_prepare {
        front_end.ping_made(&[front_end.taken(0)]);
    } else {
        // Behind a stop, a ping says what was made for the run.
        front_end.ping();
    }
}

/// Does something long beside a front-end that is alive.
fn beside<T: Send>(front_end: &mut FrontEnd, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        while !thread.is_finished() {
            front_end.promise(&[]);
            front_end.ping();
        }
        thread.join().unwrap()
    })
}

fn keys(summary: &RunSummary) -> Vec<u64> {
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    support::fragments(&run).keys().copied().collect()
}

#[test]
fn a_session_goes_on_over_three_runs_and_what_comes_between_is_in_none() {
    let rig = Rig::new();
    let mut standing = rig.standby.stand(&rig.config).unwrap();
    assert!(standing.unheard().is_empty());
    let address = standing.addresses()[0];
    let mut front_end = connect(address, Hello::ANSWERS);
    let welcome = front_end.welcome.unwrap();
    assert_eq!((welcome.run, welcome.state), ([0; 16], RunState::None));
    assert_eq!(front_end.grants[0].answer, GrantAnswer::Waits);
    let front_ends = rig.standby.front_ends();
    for run in 0..3 {
        let key = run * 100;
        send(&mut front_end, key..key + 10, None);
        wait_while(|| rig.outside() < (run + 1) * 10);
        drop(standing);
        let recorder =
            beside(&mut front_end, || Recorder::start_paused(rig.config.clone()).unwrap());
        assert_eq!(recorder.addresses()[1], address, "the listener is the same");
        front_ends.go_to(Stage::Prepared);
        obey(&mut front_end, (run * 3 + 1, CommandKind::PREPARE));
        front_ends.go_to(Stage::Running);
        obey(&mut front_end, (run * 3 + 2, CommandKind::START));
        beside(&mut front_end, || recorder.begin_between_events());
        send(&mut front_end, key + 10..key + 100, Some(&board(&recorder)));
        front_ends.go_to(Stage::Stopped);
        obey(&mut front_end, (run * 3 + 3, CommandKind::STOP));
        let summary;
        (summary, standing) = beside(&mut front_end, || rig.end(recorder));
        assert_eq!(keys(&summary), (key + 10..key + 100).collect::<Vec<_>>());
        assert!(!summary.last.ledger.balance().lost_data());
        assert_eq!(standing.addresses(), [address]);
    }
    front_end.ping();
    assert!(rig.is_connected() && front_end.bye.is_none());
    assert_eq!(rig.outside(), 30);
    drop(front_end);
    // Nobody has heard a word: it is missed.
    wait_while(|| rig.is_connected());
    assert!(front_ends.list()["camera"].is_missed());
    rig.standby.end();
}

/// The bytes of a long fragment that are still to be sent.
struct Rest(Vec<u8>);

impl Rest {
    /// Sends the first bytes of a fragment in two parts, up to the middle of the second one.
    fn begin(front_end: &mut FrontEnd, key: u64) -> Self {
        let messages = parts(front_end.next_message(), 0, key, key, &[7; 300_000], 150_000);
        front_end.passed_messages(2);
        let read = front_end.data_read;
        front_end.send_bytes(&messages[..200_000]);
        front_end.ping_until(|one| one.data_read >= read + 200_000);
        Self(messages[200_000..].to_vec())
    }

    /// Does something long, while bytes trickle: a connection on which nothing comes is closed.
    fn beside<T: Send>(&mut self, front_end: &mut FrontEnd, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(work);
            while !thread.is_finished() {
                if self.0.len() > 1 {
                    front_end.send_bytes(&[self.0.remove(0)]);
                }
                front_end.ping();
            }
            thread.join().unwrap()
        })
    }
}

#[test]
fn a_fragment_of_which_a_part_came_outside_the_run_is_not_of_the_run() {
    let rig = Rig::new();
    let standing = rig.standby.stand(&rig.config).unwrap();
    let mut front_end = connect(standing.addresses()[0], Hello::ANSWERS);
    let front_ends = rig.standby.front_ends();
    let mut rest = Rest::begin(&mut front_end, 0);
    drop(standing);
    let recorder = rest.beside(&mut front_end, || {
        let recorder = Recorder::start_paused(rig.config.clone()).unwrap();
        recorder.begin_between_events();
        recorder
    });
    front_end.send_bytes(&rest.0);
    front_end.ping_until(|one| one.taken(0) == 1);
    front_ends.go_to(Stage::Running);
    obey(&mut front_end, (1, CommandKind::PREPARE));
    obey(&mut front_end, (2, CommandKind::START));
    send(&mut front_end, 1..20, Some(&board(&recorder)));
    front_ends.go_to(Stage::Stopped);
    obey(&mut front_end, (3, CommandKind::STOP));
    let mut rest = Rest::begin(&mut front_end, 20);
    let (summary, _standing) = rest.beside(&mut front_end, || rig.end(recorder));
    assert_eq!(keys(&summary), (1..20).collect::<Vec<_>>());
    assert!(summary.last.ledger.balance().holds());
    front_end.send_bytes(&rest.0);
    send(&mut front_end, 21..22, None);
    wait_while(|| rig.outside() < 3);
    assert_eq!(rig.outside(), 3);
    assert!(front_end.bye.is_none());
    rig.standby.end();
}

/// A front-end that is connected between runs.
fn connected(rig: &Rig) -> (FrontEnd, SocketAddr, Standing) {
    connected_by(rig, &Opening::of("camera", 7, &LOGS))
}

fn connected_by(rig: &Rig, opening: &Opening<'_>) -> (FrontEnd, SocketAddr, Standing) {
    let standing = rig.standby.stand(&rig.config).unwrap();
    let address = standing.addresses()[0];
    (connect_by(address, opening, Hello::ANSWERS), address, standing)
}

/// Has a front-end prepare and start in a run that is armed.
fn begin(rig: &Rig, front_end: &mut FrontEnd, recorder: &Recorder) {
    rig.standby.front_ends().go_to(Stage::Running);
    obey(front_end, (1, CommandKind::PREPARE));
    obey(front_end, (2, CommandKind::START));
    beside(front_end, || recorder.begin_between_events());
}

#[test]
fn what_a_front_end_that_is_away_holds_at_the_end_of_the_run_is_not_outside_of_it() {
    let rig = Rig::new();
    let (mut front_end, address, standing) = connected(&rig);
    drop(standing);
    let recorder = beside(&mut front_end, || Recorder::start_paused(rig.config.clone()).unwrap());
    begin(&rig, &mut front_end, &recorder);
    send(&mut front_end, 0..20, Some(&board(&recorder)));
    let run = recorder.run().0;
    drop(front_end);
    wait_while(|| rig.is_connected());
    let (_summary, _standing) = rig.end(recorder);
    let logs = [("", 20, 50)];
    let opening = Opening { run, ..Opening::of("camera", 7, &logs) };
    let front_end = FrontEnd::connect_as(address, &opening, (Hello::ANSWERS, 2));
    let [grant] = front_end.grants[..] else { panic!("{:?}", front_end.bye) };
    // It counts what it holds as held at the end of the run: none of it is confirmed.
    assert_eq!((grant.answer, grant.next, grant.durable), (GrantAnswer::RunEnded, 50, 20));
    assert_eq!(rig.outside(), 0);
    rig.standby.end();
}

#[test]
fn a_front_end_that_has_not_stopped_is_told_that_the_run_has_ended() {
    let rig = Rig::new();
    let (mut front_end, _, standing) = connected(&rig);
    drop(standing);
    let recorder = beside(&mut front_end, || Recorder::start_paused(rig.config.clone()).unwrap());
    begin(&rig, &mut front_end, &recorder);
    send(&mut front_end, 0..20, Some(&board(&recorder)));
    let (_summary, _standing) = rig.end(recorder);
    assert_eq!(front_end.read_bye().0.reason, ByeReason::ENDING);
    rig.standby.end();
}

#[test]
fn a_mark_ends_the_run_only_while_that_is_being_stopped() {
    let rig = Rig::new();
    let marking = Opening { marks: true, ..Opening::of("camera", 7, &LOGS) };
    let (mut front_end, _, standing) = connected_by(&rig, &marking);
    drop(standing);
    let recorder = beside(&mut front_end, || Recorder::start_paused(rig.config.clone()).unwrap());
    begin(&rig, &mut front_end, &recorder);
    let (run, board) = (rig.config.run_number, board(&recorder));
    front_end.mark(0, 0, (MarkKind::Begin, run));
    send_behind(&mut front_end, 1, 0..20, Some(&board));
    // By mistake, or again in a run that was resumed.
    front_end.mark(0, 21, (MarkKind::End, run));
    send_behind(&mut front_end, 2, 20..40, Some(&board));
    rig.standby.front_ends().go_to(Stage::Stopped);
    front_end.read_until(|one| one.commands.len() == 3);
    front_end.mark(0, 42, (MarkKind::End, run));
    front_end.ping_until(|one| one.taken(0) == 43);
    for key in 40..45_u32 {
        board.send(&packet(0, ByteOrder::Little, &[(key, b"board")])).unwrap();
    }
    obey(&mut front_end, (3, CommandKind::STOP));
    let (summary, _standing) = beside(&mut front_end, || rig.end(recorder));
    assert_eq!(keys(&summary), (0..40).collect::<Vec<_>>());
    let ledger = &summary.last.ledger;
    let beyond = [Entry::FragmentsOutsideRun, Entry::FragmentsDiscardedPaused];
    assert_eq!(beyond.map(|entry| ledger.sources[0][entry]).iter().sum::<u64>(), 5);
    assert_eq!(ledger.total()[Entry::FragmentsMissing], 0);
    assert_eq!(summary.last.links[1].marks_ignored, 1);
    assert!(front_end.bye.is_none());
    rig.standby.end();
}

#[test]
fn a_front_end_that_has_started_and_whose_begin_was_not_taken_may_hold_items_of_the_run() {
    let rig = Rig::new();
    let marking = Opening { marks: true, ..Opening::of("camera", 7, &LOGS) };
    let (mut front_end, _, standing) = connected_by(&rig, &marking);
    drop(standing);
    let recorder = beside(&mut front_end, || Recorder::start_paused(rig.config.clone()).unwrap());
    begin(&rig, &mut front_end, &recorder);
    let (_summary, _standing) = rig.end(recorder);
    // It opens its session again, and is told then what it holds of the run.
    assert_eq!(front_end.read_bye().0.reason, ByeReason::ENDING);
    rig.standby.end();
}

#[test]
fn who_comes_back_in_a_run_that_began_meanwhile_sends_for_it_at_once() {
    let rig = Rig::new();
    let (mut front_end, address, standing) = connected(&rig);
    send(&mut front_end, 0..10, None);
    wait_while(|| rig.outside() < 10);
    drop(front_end);
    wait_while(|| rig.is_connected());
    drop(standing);
    let recorder = Recorder::start(rig.config.clone()).unwrap();
    let logs = [("", 10, 15)];
    let opening = Opening::of("camera", 7, &logs);
    let mut front_end = FrontEnd::connect_as(address, &opening, (Hello::ANSWERS, 0));
    let welcome = front_end.welcome.unwrap();
    assert_eq!((welcome.run, welcome.state), (recorder.run().0, RunState::Recording));
    front_end.attach(address);
    for key in 10..15_u64 {
        front_end.send(0, key, &[(key, &key.to_le_bytes())]);
    }
    send(&mut front_end, 15..30, Some(&board(&recorder)));
    let (summary, _standing) = beside(&mut front_end, || rig.end(recorder));
    assert_eq!(keys(&summary), (15..30).collect::<Vec<_>>());
    wait_while(|| rig.outside() < 15);
    assert_eq!(rig.outside(), 15, "made before it came back");
    rig.standby.end();
}

#[test]
fn what_was_abandoned_outside_a_run_is_no_loss_of_it() {
    let rig = Rig::new();
    let (mut front_end, _, standing) = connected(&rig);
    front_end.mark(0, 0, (MarkKind::Abandoned, 0));
    front_end.ping_until(|one| one.taken(0) == 1);
    drop(standing);
    let recorder = beside(&mut front_end, || Recorder::start_paused(rig.config.clone()).unwrap());
    front_end.mark(0, 1, (MarkKind::Abandoned, 0));
    front_end.ping_until(|one| one.taken(0) == 2);
    begin(&rig, &mut front_end, &recorder);
    send(&mut front_end, 2..20, Some(&board(&recorder)));
    rig.standby.front_ends().go_to(Stage::Stopped);
    obey(&mut front_end, (3, CommandKind::STOP));
    let (summary, _standing) = beside(&mut front_end, || rig.end(recorder));
    assert_eq!(keys(&summary), (2..20).collect::<Vec<_>>());
    assert!(!summary.last.ledger.balance().lost_data());
    assert_eq!(rig.outside(), 2);
    rig.standby.end();
}

#[test]
fn whether_a_front_end_is_required_is_asked_in_each_run() {
    let rig = Rig::new();
    let (mut front_end, _, standing) = connected(&rig);
    let is_required = || rig.standby.front_ends().list()["camera"].is_required;
    assert!(is_required());
    drop(standing);
    let mut config = rig.config.clone();
    config.sources[1].role = catchment_builder::SourceRole::Optional;
    let _recorder = beside(&mut front_end, || Recorder::start_paused(config).unwrap());
    front_end.ping();
    assert!(!is_required());
    rig.standby.end();
}

#[test]
fn a_run_that_cannot_be_armed_leaves_sessions_where_they_were() {
    let rig = Rig::new();
    let (mut front_end, _, standing) = connected(&rig);
    drop(standing);
    let mut config = rig.config.clone();
    config.folder.push("file");
    std::fs::write(&config.folder, "not a folder").unwrap();
    let (failed, _standing) = beside(&mut front_end, || {
        (Recorder::start_paused(config).err(), rig.standby.stand(&rig.config).unwrap())
    });
    assert!(matches!(failed, Some(RecorderError::Folder { .. })), "{failed:?}");
    send(&mut front_end, 0..10, None);
    assert!(rig.is_connected() && front_end.bye.is_none());
    rig.standby.end();
}

#[test]
fn who_may_not_connect_any_more_does_not_stay_connected() {
    let rig = Rig::new();
    let (_front_end, _, standing) = connected(&rig);
    drop(standing);
    let mut config = rig.config.clone();
    config.sources[1].from = vec!["192.0.2.0/24".parse().unwrap()];
    let _standing = rig.standby.stand(&config).unwrap();
    assert!(!rig.is_connected());
    rig.standby.end();
}

#[test]
fn who_takes_no_commands_opens_its_session_again_in_the_run() {
    let rig = Rig::new();
    let standing = rig.standby.stand(&rig.config).unwrap();
    let address = standing.addresses()[0];
    let mut front_end = connect(address, 0);
    send(&mut front_end, 0..10, None);
    wait_while(|| rig.outside() < 10);
    drop(standing);
    let recorder = Recorder::start(rig.config.clone()).unwrap();
    assert_eq!(front_end.read_bye().0.reason, ByeReason::ENDING);
    let logs = [("", 10, 10)];
    let opening = Opening::of("camera", 7, &logs);
    let mut front_end = FrontEnd::connect(address, &opening);
    assert_eq!(front_end.welcome.unwrap().run, recorder.run().0);
    front_end.attach(address);
    send(&mut front_end, 10..30, Some(&board(&recorder)));
    let (summary, standing) = beside(&mut front_end, || rig.end(recorder));
    assert_eq!(keys(&summary), (10..30).collect::<Vec<_>>());
    send(&mut front_end, 30..40, None);
    assert!(front_end.bye.is_none(), "behind the run it goes on");
    rig.standby.end();
    drop(standing);
    assert_eq!(front_end.read_bye().0.reason, ByeReason::ENDING);
}

#[test]
fn a_skew_that_was_granted_between_runs_is_kept_or_its_sender_opens_again() {
    let logs = [("", 0, 0), ("b", 0, 0)];
    let opening = Opening::of("camera", 7, &logs);
    // What is asked for, and what the run's listener grants at most: memory lacks, or the
    // configuration is another one.
    for (skew_bytes, most_bytes) in [(1 << 20, 1 << 30), (1 << 30, 1 << 30), (1 << 20, 64 << 10)] {
        let is_kept = skew_bytes < most_bytes;
        let mut rig = Rig::new();
        let address = rig.config.sources[1].address;
        rig.config.sources.push(SourceConfig::over_session("camera/b".to_owned(), address));
        rig.config.access.skew_bytes = 1 << 30;
        let standing = rig.standby.stand(&rig.config).unwrap();
        let address = standing.addresses()[0];
        let said = (Hello::ANSWERS, 0);
        let mut front_end = FrontEnd::connect_asking(address, &opening, said, skew_bytes);
        assert_eq!(front_end.welcome.unwrap().skew_bytes, skew_bytes);
        front_end.attach(address);
        drop(standing);
        rig.config.access.skew_bytes = most_bytes;
        if is_kept {
            let start = || Recorder::start_paused(rig.config.clone()).unwrap();
            let recorder = beside(&mut front_end, start);
            begin(&rig, &mut front_end, &recorder);
            assert!(front_end.bye.is_none());
            recorder.stop().unwrap();
        } else {
            let recorder = Recorder::start(rig.config.clone()).unwrap();
            assert_eq!(front_end.read_bye().0.reason, ByeReason::ENDING);
            let front_end = FrontEnd::connect_asking(address, &opening, said, skew_bytes);
            let granted_bytes = front_end.welcome.unwrap().skew_bytes;
            let is_less = match most_bytes {
                65_536 => granted_bytes == most_bytes,
                _ => (1 << 20..most_bytes).contains(&granted_bytes),
            };
            assert!(is_less, "{granted_bytes}");
            recorder.stop().unwrap();
        }
        rig.standby.end();
    }
}

#[test]
fn a_run_takes_the_listeners_from_those_that_work_with_them_until_then() {
    let rig = Rig::new();
    // Nobody drops it.
    let (mut front_end, address, standing) = connected(&rig);
    send(&mut front_end, 0..10, None);
    let recorder = beside(&mut front_end, || Recorder::start_paused(rig.config.clone()).unwrap());
    assert_eq!(recorder.addresses()[1], address);
    begin(&rig, &mut front_end, &recorder);
    send(&mut front_end, 10..20, Some(&board(&recorder)));
    rig.standby.front_ends().go_to(Stage::Stopped);
    obey(&mut front_end, (3, CommandKind::STOP));
    let (summary, next) = beside(&mut front_end, || rig.end(recorder));
    assert_eq!(keys(&summary), (10..20).collect::<Vec<_>>());
    // What it left is others' by now.
    drop(standing);
    send(&mut front_end, 20..30, None);
    assert!(rig.is_connected() && front_end.bye.is_none());
    drop(next);
    rig.standby.end();
}

#[test]
fn what_was_counted_between_runs_is_not_taken_again_in_the_run() {
    let rig = Rig::new();
    let standing = rig.standby.stand(&rig.config).unwrap();
    let address = standing.addresses()[0];
    let mut front_end = connect(address, 0);
    send(&mut front_end, 0..10, None);
    wait_while(|| rig.outside() < 10);
    drop(standing);
    let recorder = Recorder::start(rig.config.clone()).unwrap();
    // It has not read that these are durable.
    let logs = [("", 0, 10)];
    let opening = Opening::of("camera", 7, &logs);
    assert_eq!(front_end.read_bye().0.reason, ByeReason::ENDING);
    let mut front_end = FrontEnd::connect(address, &opening);
    let [grant] = front_end.grants[..] else { panic!("{:?}", front_end.bye) };
    assert_eq!((grant.answer, grant.next, grant.durable), (GrantAnswer::Joins, 10, 10));
    front_end.attach(address);
    send(&mut front_end, 10..30, Some(&board(&recorder)));
    let (summary, _standing) = beside(&mut front_end, || rig.end(recorder));
    assert_eq!(keys(&summary), (10..30).collect::<Vec<_>>());
    assert_eq!(rig.outside(), 10);
    rig.standby.end();
}

#[test]
fn the_source_of_a_front_end_that_is_gone_between_runs_is_free_for_another_one() {
    let mut rig = Rig::new();
    rig.config.sources[1].name = "detector/left".to_owned();
    let standing = rig.standby.stand(&rig.config).unwrap();
    let address = standing.addresses()[0];
    let logs = [("left", 0, 0)];
    let all = Opening::of("detector", 7, &logs);
    let one = Opening::of("detector/left", 8, &LOGS);
    let front_end = FrontEnd::connect(address, &all);
    let refused = FrontEnd::connect(address, &one);
    assert_eq!(refused.bye.as_ref().unwrap().0.reason, ByeReason::NAME_IN_USE);
    drop(front_end);
    wait_while(|| FrontEnd::connect(address, &one).bye.is_some());
    // Where it comes back, its source is another one's.
    wait_while(|| rig.standby.front_ends().list()["detector/left"].is_connected);
    let front_end = FrontEnd::connect(address, &all);
    assert_eq!(front_end.grants[0].answer, GrantAnswer::Refused);
    drop((front_end, standing));
    rig.standby.end();
}

#[test]
fn the_rust_client_stays_over_three_runs_and_is_set_between_them() {
    let rig = Rig::new();
    let mut standing = rig.standby.stand(&rig.config).unwrap();
    let url = format!("catchment+tcp://{}", standing.addresses()[0]);
    let camera = Frontend::builder(&url, "camera").wait(LONG).connect().unwrap();
    let status = || camera.sources()[0].status();
    let gain = Setting {
        value: Reading::F64(0.0),
        unit: "dB".to_owned(),
        bounds: None,
        is_writable: true,
    };
    camera.reports().setting("gain", gain).unwrap();
    let front_ends = rig.standby.front_ends();
    let go_to = |stage| {
        front_ends.go_to(stage);
        wait_while(|| front_ends.arrived().is_none());
        assert_eq!(front_ends.arrived(), Some(Ok(())));
    };
    // All that it has sent is durable.
    let send = |keys: std::ops::Range<u64>, board: Option<&UdpSocket>| {
        for key in keys {
            camera.send(key, &key.to_le_bytes()).unwrap();
            if let Some(board) = board {
                let packet = packet(0, ByteOrder::Little, &[(key as u32, b"board")]);
                board.send(&packet).unwrap();
            }
        }
        wait_while(|| status().released < status().made);
    };
    for run in 0..3_u64 {
        let first = run * 1_000;
        send(first..first + 10, None);
        let value = Scalar::F64(run as f64 + 0.5);
        let change = front_ends.change("camera", "gain", (value.clone(), "shifter")).unwrap();
        wait_while(|| front_ends.outcome("camera", change).is_none());
        assert_eq!(front_ends.outcome("camera", change), Some(Ok(())));
        let set = || match front_ends.list()["camera"].reports.get("gain") {
            Some(Report::Setting { value, .. }) => Some(value.clone()),
            _ => None,
        };
        wait_while(|| set().as_ref() != Some(&value));
        drop(standing);
        let recorder = Recorder::start_paused(rig.config.clone()).unwrap();
        go_to(Stage::Prepared);
        recorder.begin_between_events();
        go_to(Stage::Running);
        assert_eq!(set(), Some(value), "what it has reported is known in the run");
        send(first + 10..first + 100, Some(&board(&recorder)));
        go_to(Stage::Stopped);
        let summary;
        (summary, standing) = rig.end(recorder);
        assert_eq!(keys(&summary), (first + 10..first + 100).collect::<Vec<_>>());
        assert!(!summary.last.ledger.balance().lost_data());
    }
    wait_while(|| rig.outside() < 30);
    assert_eq!((rig.outside(), status().sent_again), (30, 0));
    assert!(camera.close(LONG).is_confirmed());
    wait_while(|| rig.is_connected());
    assert!(!front_ends.list()["camera"].is_missed(), "it said that it goes");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let mut rig = Rig::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    rig.config.sources[1].address = address;
    let standing = rig.standby.stand(&rig.config).unwrap();
    let [(unheard, why)] = standing.unheard() else { panic!("{:?}", standing.unheard()) };
    assert_eq!(*unheard, address.to_string());
    assert!(why.contains(unheard), "{why}");
    drop((standing, taken));
    assert!(rig.standby.stand(&rig.config).unwrap().unheard().is_empty());
}
