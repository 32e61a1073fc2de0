//! What control promises, one thing at a time.

use catchment_run::{
    Action, Answer, COMMENT_BYTES_MAX, Command, Control, DeviceSpec, Failed, Order, Purpose,
    REASON_BYTES_MAX, Refusal, Reply, Request, RequestId, State, Status, transition,
};

const S: u64 = 1_000_000_000;
const PATHS: [&str; 4] = ["node/write", "node/build", "node/receive", "node/emulator"];

fn request(id: &str, command: Command) -> Request {
    Request {
        id: RequestId::new(id).expect("an id"),
        command,
        device: None,
        who: "ada".into(),
        comment: None,
        configuration: None,
        run: None,
    }
}

struct Rig {
    control: Control,
    now_ns: u64,
    /// Every order that was handed out, as text.
    log: Vec<String>,
    requests: u32,
}

impl Rig {
    fn new() -> Self {
        Self::of(|spec| spec)
    }

    fn of(change: impl Fn(DeviceSpec) -> DeviceSpec) -> Self {
        let specs = PATHS.map(|path| change(DeviceSpec::new(path, "device"))).to_vec();
        let control = Control::new(specs, 20 * S, 0);
        Self { control, now_ns: 0, log: Vec::new(), requests: 0 }
    }

    fn ask(&mut self, command: Command) -> Answer {
        self.requests += 1;
        self.control.request(self.now_ns, request(&self.requests.to_string(), command))
    }

    fn orders(&mut self) -> Vec<Order> {
        let orders = self.control.poll(self.now_ns);
        let name = |order: &Order| {
            let back = if order.purpose == Purpose::Back { " back" } else { "" };
            format!("{} {}{back}", &order.path["node/".len()..], order.action)
        };
        self.log.extend(orders.iter().map(name));
        orders
    }

    fn reply(&mut self, order: &Order, reply: Result<State, Failed>) -> Reply {
        self.control.reply(self.now_ns, order.path, order.token, reply)
    }

    /// Devices do what they are ordered to, except those that `fails` picks.
    fn run(&mut self, fails: impl Fn(&Order) -> Option<State>) {
        loop {
            let orders = self.orders();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                let reply = match fails(&order) {
                    None => Ok(order.action.target()),
                    Some(state) => Err(Failed { reason: "the port is taken".into(), state }),
                };
                assert_eq!(self.reply(&order, reply), Reply::Taken);
            }
        }
    }

    fn go(&mut self, command: Command) {
        assert!(matches!(self.ask(command), Answer::Started(_)), "{command}");
        self.run(|_| None);
        self.log.clear();
    }

    fn states(&self) -> Vec<State> {
        self.control.devices().iter().map(|device| device.state).collect()
    }

    fn status(&self) -> Status {
        let id = RequestId::new(self.requests.to_string()).expect("an id");
        self.control.result(&id).expect("it was asked").status
    }
}

#[test]
fn the_table_of_transitions_is_what_the_contract_says() {
    let mut legal = Vec::new();
    for &state in State::ALL {
        let commands = Command::ALL.iter().filter(|&&command| transition(state, command).is_ok());
        let names: Vec<&str> = commands.map(|command| command.name()).collect();
        legal.push(format!("{state}: {}", names.join(" ")));
    }
    assert_eq!(
        legal,
        [
            "idle: configure start shutdown",
            "configured: configure arm start shutdown",
            "armed: start disarm shutdown",
            "recording: pause stop shutdown",
            "paused: resume stop shutdown",
            "safe: stop reset shutdown",
            "fault: stop reset shutdown",
        ]
    );
    let illegal = transition(State::Idle, Command::Pause).expect_err("nothing to pause");
    assert_eq!(illegal.to_string(), "cannot pause while idle: nothing is being recorded");
    let illegal = transition(State::Fault, Command::Start).expect_err("broken");
    assert_eq!(illegal.to_string(), "cannot start while fault: it must be reset first");
}

#[test]
fn start_reaches_sinks_first_and_stop_reaches_sources_first() {
    let mut rig = Rig::new();
    rig.ask(Command::Start);
    rig.run(|_| None);
    let expected: Vec<String> = ["configure", "arm", "start"]
        .iter()
        .flat_map(|step| PATHS.map(|path| format!("{} {step}", &path["node/".len()..])))
        .collect();
    assert_eq!(rig.log, expected);
    assert_eq!(rig.control.state(), State::Recording);
    rig.log.clear();
    rig.ask(Command::Stop);
    rig.run(|_| None);
    assert_eq!(rig.log, ["emulator stop", "receive stop", "build stop", "write stop"]);
    assert_eq!((rig.control.state(), rig.status()), (State::Configured, Status::Done));
}

#[test]
fn a_failed_start_takes_the_others_back_and_says_why() {
    let mut rig = Rig::new();
    rig.ask(Command::Start);
    rig.run(|order| {
        let fails = order.action == Action::Arm && order.path == "node/receive";
        fails.then_some(State::Configured)
    });
    assert_eq!(rig.states(), [State::Idle; 4]);
    assert_eq!(
        rig.log[7..][..3],
        ["build disarm back", "write disarm back", "emulator reset back"]
    );
    assert_eq!(rig.status(), Status::Failed);
    let reason = rig.control.reason().expect("a reason").to_string();
    assert_eq!(reason, "node/receive: arm: the port is taken");
    let mut devices = rig.control.devices().iter();
    let device = devices.find(|one| one.spec.path == "node/receive").expect("a device");
    assert_eq!(device.reason.as_ref().expect("kept").text, "the port is taken");
    rig.go(Command::Start);
    assert_eq!(rig.control.reason(), None);
}

#[test]
fn a_hanging_device_is_made_safe_and_its_late_reply_changes_nothing() {
    let mut rig = Rig::new();
    rig.go(Command::Start);
    rig.ask(Command::Stop);
    let hanging = rig.orders().remove(0);
    assert_eq!(rig.control.next_deadline_ns(), Some(hanging.deadline_ns));
    rig.now_ns = hanging.deadline_ns - 1;
    assert!(rig.orders().is_empty());
    rig.now_ns += 1;
    assert_eq!(rig.reply(&hanging, Ok(State::Configured)), Reply::Late);
    rig.run(|_| None);
    use State::{Configured, Safe};
    assert_eq!(rig.states(), [Configured, Configured, Configured, Safe]);
    assert_eq!(rig.control.state(), Safe);
    assert_eq!(rig.control.legal(), [Command::Reset, Command::Shutdown]);
    assert_eq!(rig.control.reason().expect("kept").text, "no answer within 10 s");
    assert!(!rig.control.report(rig.now_ns, hanging.path, State::Configured, ""));
    assert_eq!(rig.reply(&hanging, Ok(State::Configured)), Reply::Late);
    rig.go(Command::Reset);
    assert_eq!((rig.states(), rig.control.reason()), (vec![State::Idle; 4], None));
}

#[test]
fn a_stop_that_waits_for_people_is_given_time_and_a_shutdown_is_not() {
    let mut rig = Rig::new();
    rig.go(Command::Start);
    rig.ask(Command::Stop);
    let waiting = rig.orders().remove(0);
    for _ in 0..100 {
        rig.now_ns += 9 * S;
        rig.control.give_time(rig.now_ns);
        assert!(rig.orders().is_empty());
    }
    assert_eq!(rig.reply(&waiting, Ok(State::Configured)), Reply::Taken);
    rig.run(|_| None);
    assert_eq!((rig.states(), rig.status()), (vec![State::Configured; 4], Status::Done));
    rig.go(Command::Start);
    rig.ask(Command::Stop);
    rig.orders();
    rig.ask(Command::Shutdown);
    for _ in 0..3 {
        rig.now_ns += 9 * S;
        rig.control.give_time(rig.now_ns);
    }
    rig.run(|_| None);
    assert!(rig.control.ended());
}

#[test]
fn a_full_disk_heals_by_itself_or_the_run_is_stopped() {
    let mut rig = Rig::new();
    rig.go(Command::Start);
    assert!(rig.control.report(1, "node/write", State::Fault, "disk full"));
    assert_eq!(rig.control.state(), State::Fault);
    assert_eq!(rig.control.reason().expect("a reason").to_string(), "node/write: disk full");
    assert!(rig.control.report(2, "node/write", State::Recording, ""));
    assert_eq!((rig.control.state(), rig.control.reason()), (State::Recording, None));
    assert!(rig.control.report(3, "node/write", State::Fault, "disk full"));
    assert!(rig.control.legal().contains(&Command::Stop));
    rig.ask(Command::Stop);
    rig.run(|_| None);
    assert_eq!((rig.states(), rig.status()), (vec![State::Configured; 4], Status::Done));
    assert!(!rig.control.legal().contains(&Command::Stop));
}

#[test]
fn a_device_without_which_there_is_no_run_stops_it() {
    let mut rig = Rig::of(|spec| DeviceSpec { stops_run: true, ..spec });
    rig.go(Command::Start);
    rig.control.take_finished();
    assert!(rig.control.report(1, "node/build", State::Fault, "the thread ended"));
    let busy = rig.control.under_way().expect("control stops it");
    let busy = busy.request;
    assert_eq!((busy.command, busy.who.as_str()), (Command::Stop, "catchment"));
    assert!(busy.comment.expect("why").contains("the thread ended"));
    rig.run(|_| None);
    assert_eq!(rig.states(), [State::Configured; 4]);
    let finished = rig.control.take_finished();
    assert_eq!((finished.len(), finished[0].status), (1, Status::Done));
}

#[test]
fn a_repeated_request_is_done_once_and_answered_alike() {
    let mut rig = Rig::new();
    let start = request("same", Command::Start);
    let Answer::Started(started) = rig.control.request(0, start.clone()) else { panic!("refused") };
    assert_eq!(rig.control.request(0, start.clone()), Answer::Repeat(started));
    rig.control.note_run(17);
    rig.run(|_| None);
    let Answer::Repeat(done) = rig.control.request(5, start.clone()) else { panic!("again") };
    assert_eq!((done.status, done.run, done.ended_ns), (Status::Done, Some(17), Some(0)));
    let other = Request { command: Command::Stop, ..start.clone() };
    let answer = rig.control.request(5, other);
    assert!(matches!(answer, Answer::Refused(Refusal::IdUsed { .. })));
    assert!(rig.orders().is_empty());
    // A refusal is remembered, too: a retry must not pause a run that has since begun.
    let refused = request("early", Command::Resume);
    let first = rig.control.request(6, refused.clone());
    rig.go(Command::Pause);
    assert_eq!(rig.control.request(7, refused), first);
    let long = Request { comment: Some("x".repeat(COMMENT_BYTES_MAX + 1)), ..start };
    assert!(matches!(rig.control.request(8, long), Answer::Refused(Refusal::TooLong { .. })));
}

#[test]
fn a_command_that_is_meant_for_another_run_is_refused_and_a_retry_of_it_too() {
    let mut rig = Rig::new();
    rig.go(Command::Start);
    rig.control.set_run(Some(6));
    let stop = Request { run: Some(5), ..request("stale", Command::Stop) };
    let Answer::Refused(refusal) = rig.control.request(1, stop.clone()) else { panic!("done") };
    assert_eq!(refusal.to_string(), "stop is meant for run 5, but the current run is 6");
    assert!(rig.orders().is_empty());
    // Also a shutdown, which may otherwise always be asked for.
    let shutdown = Request { run: Some(5), ..request("end", Command::Shutdown) };
    assert!(matches!(rig.control.request(2, shutdown), Answer::Refused(Refusal::OtherRun { .. })));
    // A refusal is remembered: whatever the numbers are by then.
    rig.control.set_run(Some(5));
    assert_eq!(rig.control.request(3, stop.clone()), Answer::Refused(refusal));
    let own = Request { run: Some(5), ..request("own", Command::Stop) };
    assert!(matches!(rig.control.request(4, own.clone()), Answer::Started(_)));
    rig.run(|_| None);
    rig.control.set_run(None);
    let late = Request { id: RequestId::new("late").expect("an id"), ..stop };
    let Answer::Refused(refusal) = rig.control.request(5, late) else { panic!("done") };
    assert_eq!(refusal.to_string(), "stop is meant for run 5, but there is no current run");
    // What was done is answered alike, though its run has ended.
    let Answer::Repeat(done) = rig.control.request(6, own) else { panic!("again") };
    assert_eq!(done.status, Status::Done);
}

#[test]
fn one_command_at_a_time_and_the_refusal_says_who_is_waited_for() {
    let mut rig = Rig::new();
    rig.ask(Command::Start);
    let Answer::Refused(refusal) = rig.ask(Command::Stop) else { panic!("two at a time") };
    assert_eq!(refusal.to_string(), "start by ada is under way, waiting for node/write");
}

#[test]
fn a_shutdown_gives_up_what_is_under_way_and_ends_in_time_even_if_nobody_answers() {
    let mut rig = Rig::new();
    rig.ask(Command::Start);
    rig.orders();
    let given_up = RequestId::new("1").expect("an id");
    assert!(matches!(rig.ask(Command::Shutdown), Answer::Started(_)));
    let result = rig.control.result(&given_up).expect("remembered");
    assert_eq!(result.status, Status::Failed);
    assert_eq!(result.reason.expect("why").text, "given up: shutdown by ada");
    let mut ended_ns = 0;
    while let Some(deadline_ns) = rig.control.next_deadline_ns() {
        rig.now_ns = deadline_ns;
        ended_ns = deadline_ns;
        rig.orders();
    }
    assert!(rig.control.ended());
    assert!(ended_ns <= 21 * S, "{ended_ns}");
    let Answer::Refused(Refusal::Ended) = rig.ask(Command::Start) else { panic!("it ended") };
}

#[test]
fn a_shutdown_drains_in_order() {
    let mut rig = Rig::new();
    rig.go(Command::Start);
    rig.ask(Command::Shutdown);
    rig.run(|_| None);
    assert!(rig.control.ended());
    let devices = ["emulator", "receive", "build", "write"];
    let order =
        ["stop", "shutdown"].into_iter().flat_map(|to| devices.map(|one| format!("{one} {to}")));
    assert!(rig.log.iter().cloned().eq(order), "{:?}", rig.log);
}

#[test]
fn a_start_with_a_configuration_configures_anew_and_goes_back_to_the_one_before() {
    let mut rig = Rig::new();
    rig.go(Command::Configure);
    rig.go(Command::Arm);
    let mut start = request("new", Command::Start);
    start.configuration = Some(3);
    rig.control.request(0, start);
    rig.run(|order| {
        let fails = order.action == Action::Start && order.path == "node/build";
        fails.then_some(State::Armed)
    });
    assert_eq!(rig.states(), [State::Armed; 4]);
    // What did not start was armed with the new configuration: it is not where it was, either.
    assert!(rig.log.contains(&"write configure back".to_owned()), "{:?}", rig.log);
    assert!(rig.log.contains(&"receive configure back".to_owned()), "{:?}", rig.log);
}

#[test]
fn a_device_that_does_not_take_its_old_configuration_back_is_made_safe() {
    let mut rig = Rig::new();
    rig.go(Command::Configure);
    rig.ask(Command::Configure);
    rig.run(|order| {
        let source_fails = order.path == "node/emulator";
        let stays = order.path == "node/write" && order.purpose == Purpose::Back;
        (source_fails || stays)
            .then_some(State::Configured)
            .filter(|_| order.action == Action::Configure)
    });
    use State::{Configured, Safe};
    assert_eq!(rig.states(), [Safe, Configured, Configured, Safe]);
}

#[test]
fn no_device_goes_without_the_others() {
    let mut rig = Rig::new();
    rig.go(Command::Start);
    let mut of = |id: &str, device: &str| {
        let stop = Request { device: Some(device.into()), ..request(id, Command::Stop) };
        let Answer::Refused(refusal) = rig.control.request(0, stop) else { panic!("done") };
        refusal.to_string()
    };
    assert_eq!(of("a", "node/write"), "node/write does not stop alone");
    assert_eq!(of("b", "node/nowhere"), "there is no device node/nowhere");
    assert_eq!(rig.control.state(), State::Recording);
}

#[test]
fn impossible_request_ids_are_refused() {
    for text in ["", "a b", "ä", &"a".repeat(129)] {
        assert!(RequestId::new(text).is_err(), "{text}");
    }
}

#[test]
fn a_patient_control_waits_longer_for_every_step() {
    let specs = vec![DeviceSpec::new("node/write", "writer")];
    let mut control = Control::new(specs, 20 * S, 60 * S);
    control.request(0, request("1", Command::Configure));
    assert_eq!(control.next_deadline_ns(), Some(60 * S));
}

#[test]
fn reasons_are_cut_to_what_is_kept() {
    let mut rig = Rig::new();
    let long = "ä".repeat(REASON_BYTES_MAX);
    assert!(rig.control.report(0, "node/write", State::Fault, &long));
    assert_eq!(rig.control.reason().expect("a reason").text.len(), REASON_BYTES_MAX);
}
