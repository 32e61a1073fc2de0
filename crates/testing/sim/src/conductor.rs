//! Run control: the node's state machine (`core/run`), which commands the recorder and, through it,
//! the front-ends, for operators who ask for something at any moment.
//!
//! It has two devices, as the node has them: the recorder, and behind it the front-ends. What takes
//! the node's threads a wait is here looked at again every few milliseconds.

use catchment_recorder::{Move, Stage, Way};
use catchment_run::{
    Action, Answer, Command, Control, DeviceSpec, Failed, Order, Request, RequestId, State, Status,
};

use crate::case::Case;
use crate::fault::{Fault, Faults};
use crate::plan::{BEGIN_NS, DURATION_NS, MS, S};
use crate::recorder::Recorder;
use crate::sessions::{self, SenderPlan};
use crate::settings::AskedChange;

/// What operators ask for, and when.
pub type Requests = Vec<(u64, Command)>;

/// In half of the runs with front-ends there is run control. Who starts a run mostly arms it
/// before; with the fault `commands` others ask for anything at any moment, also two at once.
pub fn draw(case: &Case, senders: &mut [SenderPlan]) -> Option<Requests> {
    let mut chance = case.chance("run control");
    if senders.is_empty() || chance.chance(500) {
        return None;
    }
    sessions::teach(case, senders);
    let mut requests = Vec::new();
    let armed_ns = BEGIN_NS + chance.below(300 * MS);
    let mut start_ns = armed_ns;
    if chance.chance(800) {
        // Front-ends come meanwhile, and are prepared before others start.
        requests.push((armed_ns, Command::Arm));
        // Without faults the detector begins behind it, so that all is recorded.
        let is_early = case.faults == Faults::NONE;
        start_ns += chance.below(if is_early { 80 * MS } else { 900 * MS });
    }
    requests.push((start_ns, Command::Start));
    if case.faults.has(Fault::Refuse) || case.faults.has(Fault::Commands) {
        // A run that was refused, or ended, is followed by another one.
        requests.push((start_ns + 2 * S + chance.below(4 * S), Command::Start));
    }
    if case.faults.has(Fault::Commands) {
        for _ in 0..1 + chance.below(6) {
            let at_ns = BEGIN_NS + chance.below(DURATION_NS);
            for _ in 0..1 + chance.below(2) {
                let command = COMMANDS[chance.index(COMMANDS.len())];
                requests.push((at_ns, command));
            }
        }
    }
    Some(requests)
}

/// What was asked of a run, for the oracle. Times are those at which it was.
#[derive(Clone, Debug, Default)]
pub struct RunLog {
    /// Where front-ends were to be; nowhere from the begin of a recorder on.
    pub goals: Vec<(u64, Option<Stage>)>,
    /// When front-ends were to start, from the order to the answer, and whether they have.
    pub starts: Vec<(u64, u64, bool)>,
    /// When the recorder was ordered to record.
    pub started_ns: Option<u64>,
    /// The changes of settings that were asked for.
    pub changes: Vec<AskedChange>,
    /// What the run was told to be done of them: front-end, setting, value.
    pub made: Vec<(String, String, String)>,
}

/// The control of a node.
pub(crate) struct Conductor {
    control: Control,
    /// What front-ends are at, and since when.
    moving: Option<(Order, Move, u64)>,
    /// The order by which the recorder ends.
    ending: Option<Order>,
    requests: u64,
}

/// What the world has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Begin a recorder.
    Begin,
    /// Nothing, until that time at the latest; at all: none.
    Wait(Option<u64>),
}

impl Conductor {
    /// That of a node that starts.
    pub(crate) fn new(now_ns: u64) -> Self {
        let specs = vec![
            DeviceSpec { timeout_ns, ..DeviceSpec::new(RECORDER, "recorder") },
            DeviceSpec { timeout_ns, ..DeviceSpec::new(FRONT_ENDS, "front-ends") },
        ];
        let control = Control::new(specs, 60 * S, 0);
        let mut node = Self { control, moving: None, ending: None, requests: 0 };
        node.request(now_ns, Command::Configure);
        node.work(now_ns, None);
        node
    }

    /// Somebody asks for something. Returns what is answered, in words.
    pub(crate) fn request(&mut self, now_ns: u64, command: Command) -> String {
        self.requests += 1;
        let id = RequestId::new(format!("request-{}", self.requests)).expect("an id");
        let who = ["ada", "grace"][(self.requests % 2) as usize].to_owned();
        let (device, comment, configuration, run) = (None, None, None, None);
        let request = Request { id, command, device, who, comment, configuration, run };
        match self.control.request(now_ns, request) {
            Answer::Refused(refusal) => format!("{command}: {refusal}"),
            Answer::Started(_) | Answer::Done(_) | Answer::Repeat(_) => command.to_string(),
        }
    }

    /// Has the run end; false if that has to be asked for again.
    pub(crate) fn end(&mut self, now_ns: u64, recorder: Option<&mut Recorder>) -> bool {
        // A start that fails may arm another recorder.
        if self.control.under_way().is_some() {
            return false;
        }
        let Some(recorder) = recorder else { return true };
        let command = match self.control.state() {
            State::Recording | State::Paused => Command::Stop,
            State::Armed => Command::Disarm,
            State::Idle | State::Configured | State::Safe | State::Fault => {
                stop(now_ns, recorder);
                return true;
            }
        };
        self.request(now_ns, command);
        true
    }

    /// A recorder has begun: who comes from here on knows that its run has not.
    pub(crate) fn recorder_began(now_ns: u64, recorder: &mut Recorder) {
        recorder.observer.front_ends().go_to(Stage::Prepared);
        let goals = &mut recorder.life.control.goals;
        goals.extend([(now_ns, None), (now_ns, Some(Stage::Prepared))]);
        recorder.life.pauses.push((now_ns, true));
    }

    /// Whether the run is paused, for the verdict; none while none records.
    pub(crate) fn is_paused(&self) -> Option<bool> {
        match self.control.devices()[0].state {
            State::Recording => Some(false),
            State::Paused => Some(true),
            _ => None,
        }
    }

    /// Does what is due.
    pub(crate) fn work(&mut self, now_ns: u64, mut recorder: Option<&mut Recorder>) -> Asked {
        loop {
            let orders = self.control.poll(now_ns);
            let had_orders = !orders.is_empty();
            for order in orders {
                let is_begin = order.path == RECORDER && order.action == Action::Arm;
                if is_begin && recorder.is_none() {
                    self.reply(now_ns, &order, Ok(()));
                    return Asked::Begin;
                }
                match order.path {
                    RECORDER => self.order_recorder(now_ns, order, recorder.as_deref_mut()),
                    _ => self.order_front_ends(now_ns, order, recorder.as_deref_mut()),
                }
            }
            let has_replied = self.look(now_ns, recorder.as_deref_mut());
            if !had_orders && !has_replied {
                break;
            }
        }
        let soon_ns = self.moving.as_ref().map(|_| now_ns + LOOK_EVERY_NS);
        let deadline_ns = self.control.next_deadline_ns().map(|at_ns| at_ns.max(now_ns + 1));
        Asked::Wait(soon_ns.into_iter().chain(deadline_ns).min())
    }

    /// The recorder has ended.
    pub(crate) fn recorder_ended(&mut self, now_ns: u64) {
        if let Some(order) = self.ending.take() {
            self.reply(now_ns, &order, Ok(()));
        }
        // Nobody is there who could go anywhere.
        if let Some((order, ..)) = self.moving.take() {
            self.reply(now_ns, &order, Ok(()));
        }
    }

    fn reply(&mut self, now_ns: u64, order: &Order, done: Result<(), Failed>) {
        let done = done.map(|()| order.action.target());
        // A late one changes nothing.
        let _taken = self.control.reply(now_ns, order.path, order.token, done);
    }

    fn order_recorder(&mut self, now_ns: u64, order: Order, recorder: Option<&mut Recorder>) {
        let Some(recorder) = recorder else { return self.reply(now_ns, &order, Ok(())) };
        match order.action {
            Action::Configure | Action::Arm => {}
            Action::Start => {
                recorder.assembly.begin_between_events();
                recorder.life.control.started_ns.get_or_insert(now_ns);
                recorder.life.pauses.push((now_ns, false));
            }
            Action::Pause | Action::Resume => {
                let is_paused = order.action == Action::Pause;
                recorder.assembly.pause(is_paused);
                recorder.life.pauses.push((now_ns, is_paused));
            }
            Action::Stop | Action::Disarm | Action::Reset | Action::Safe | Action::Shutdown => {
                stop(now_ns, recorder);
                self.ending = Some(order);
                return;
            }
        }
        self.reply(now_ns, &order, Ok(()));
    }

    fn order_front_ends(&mut self, now_ns: u64, order: Order, recorder: Option<&mut Recorder>) {
        let (to, back) = match order.action {
            Action::Arm => ((Stage::Prepared, PREPARE_NS), Some(Stage::Stopped)),
            Action::Start => ((Stage::Running, AT_WORK_NS), Some(Stage::Stopped)),
            Action::Pause => ((Stage::Paused, AT_WORK_NS), Some(Stage::Running)),
            Action::Resume => ((Stage::Running, AT_WORK_NS), Some(Stage::Paused)),
            Action::Stop | Action::Disarm => ((Stage::Stopped, STOP_NS), None),
            Action::Reset | Action::Safe | Action::Shutdown => ((Stage::Stopped, 0), None),
            Action::Configure => return self.reply(now_ns, &order, Ok(())),
        };
        let Some(recorder) = recorder else { return self.reply(now_ns, &order, Ok(())) };
        let way = Way { to, back: back.map(|stage| (stage, STOP_NS)) };
        let moving = Move::begin(recorder.observer.front_ends(), way, now_ns);
        recorder.life.control.goals.push((now_ns, Some(to.0)));
        self.moving = Some((order, moving, now_ns));
    }

    /// Looks how far front-ends are. Returns whether they are where they are to be, or have failed.
    fn look(&mut self, now_ns: u64, recorder: Option<&mut Recorder>) -> bool {
        let Some((order, moving, since_ns)) = &mut self.moving else { return false };
        let Some(recorder) = recorder else { return false };
        let before = moving.to();
        let moved = moving.look(recorder.observer.front_ends(), now_ns);
        if moving.to() != before {
            recorder.life.control.goals.push((now_ns, Some(moving.to())));
        }
        let Some(moved) = moved else { return false };
        if matches!(order.action, Action::Arm | Action::Start) {
            recorder.life.control.starts.push((*since_ns, now_ns, moved.is_ok()));
        }
        let order = order.clone();
        self.moving = None;
        let state = match order.action {
            Action::Pause => State::Recording,
            Action::Resume => State::Paused,
            _ => State::Configured,
        };
        let ends = matches!(order.action, Action::Stop | Action::Disarm | Action::Safe);
        let moved = if ends { Ok(()) } else { moved };
        self.reply(now_ns, &order, moved.map_err(|reason| Failed { reason, state }));
        true
    }

    /// The commands that have ended since this was last asked, in words.
    pub(crate) fn ended(&mut self) -> Vec<String> {
        let words = |result: catchment_run::CommandResult| {
            let reason = result.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let status = if result.status == Status::Done { "is done" } else { "has failed" };
            format!("{} {status}{reason}", result.command)
        };
        self.control.take_finished().into_iter().map(words).collect()
    }
}

/// Ends a run.
pub(crate) fn stop(now_ns: u64, recorder: &mut Recorder) {
    recorder.assembly.stop();
    // A recorder that restarts at the run's end may be stopped twice: the first counts.
    recorder.life.stopped_ns.get_or_insert(now_ns);
}

fn timeout_ns(_action: Action) -> u64 {
    3_600 * S
}

const RECORDER: &str = "node/recorder";
const FRONT_ENDS: &str = "node/front_ends";
/// What operators ask for beside the start and the end of a run.
const COMMANDS: [Command; 8] = [
    Command::Pause,
    Command::Pause,
    Command::Resume,
    Command::Resume,
    Command::Arm,
    Command::Start,
    Command::Stop,
    Command::Disarm,
];
/// How long front-ends may prepare, be at work on another command, and stop.
const PREPARE_NS: u64 = 8 * S;
const AT_WORK_NS: u64 = 5 * S;
const STOP_NS: u64 = 5 * S;
/// How often it is asked how far front-ends are.
const LOOK_EVERY_NS: u64 = 5 * MS;
