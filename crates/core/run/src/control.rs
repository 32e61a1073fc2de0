//! The control of a line of devices, as seen from outside.

use crate::course::{Course, Device};
use crate::device::{DeviceSpec, TIMEOUT_NS_MAX};
use crate::request::{Answer, CommandResult, Memory, Reason, Refusal, Request, RequestId, Status};
use crate::state::{Action, Command, Illegal, State, transition};

/// The longest that a shutdown may be given: one hour.
pub const DRAIN_NS_MAX: u64 = TIMEOUT_NS_MAX;

/// Brings devices from state to state, all or none.
///
/// Time is the caller's: nanoseconds of any clock that does not go back (if it does, it is taken to
/// stand still). Call [`Control::poll`] after every other call and at
/// [`Control::next_deadline_ns`].
#[derive(Clone, Debug)]
pub struct Control {
    // Those that data reach last come first.
    pub(crate) devices: Vec<Device>,
    /// The state that all were last brought to.
    pub(crate) common: State,
    /// Why it is not in the state that was requested.
    pub(crate) failure: Option<Reason>,
    pub(crate) course: Option<Course>,
    pub(crate) orders: Vec<Order>,
    pub(crate) finished: Vec<CommandResult>,
    pub(crate) memory: Memory,
    pub(crate) drain_ns: u64,
    /// The shortest time-out of every device for each step.
    pub(crate) patience_ns: u64,
    pub(crate) now_ns: u64,
    pub(crate) last_token: u64,
    pub(crate) own_requests: u64,
    /// The run that is armed or recorded.
    pub(crate) run: Option<u64>,
    pub(crate) ended: bool,
}

/// What a device is to do now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Who.
    pub path: &'static str,
    /// What.
    pub action: Action,
    /// What for.
    pub purpose: Purpose,
    /// To be given back with the reply; no two orders have the same.
    pub token: u64,
    /// A reply at this time or later is late and changes nothing.
    pub deadline_ns: u64,
}

/// What an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The command itself.
    Forward,
    /// Going back since another device failed. [`Action::Configure`] then means the configuration
    /// before the one that the command brought.
    Back,
    /// Taking the device out of service since it failed.
    Safe,
}

/// A device that could not do what it was ordered to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failed {
    /// Why, in plain words.
    pub reason: String,
    /// The state that it is in now.
    pub state: State,
}

/// What became of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Reply {
    /// It counted.
    Taken,
    /// It came too late, or for no order at all: nothing changed.
    Late,
    /// There is no such device.
    NoDevice,
}

/// The command that devices are at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// What was asked for, and by whom.
    pub request: Request,
    /// Since when.
    pub since_ns: u64,
    /// Who has not answered yet.
    pub waiting_for: Vec<&'static str>,
}

impl Control {
    /// All devices are idle; those that data reach last come first. `drain_ns`: how long a shutdown
    /// may take before devices are ended at once, at most an hour. `patience_ns`: how long every
    /// device may take for each step at least, at most an hour.
    pub fn new(specs: Vec<DeviceSpec>, drain_ns: u64, patience_ns: u64) -> Self {
        assert!(!specs.is_empty(), "there must be a device");
        Self {
            devices: specs.into_iter().map(Device::new).collect(),
            common: State::Idle,
            failure: None,
            course: None,
            orders: Vec::new(),
            finished: Vec::new(),
            memory: Memory::default(),
            drain_ns: drain_ns.min(DRAIN_NS_MAX),
            patience_ns: patience_ns.min(TIMEOUT_NS_MAX),
            now_ns: 0,
            last_token: 0,
            own_requests: 0,
            run: None,
            ended: false,
        }
    }

    /// Somebody asks for a command. Executed at most once for each request id.
    ///
    /// A shutdown is taken while another command is under way: that one is given up and counts as
    /// failed, and what devices are at is waited for.
    pub fn request(&mut self, now_ns: u64, request: Request) -> Answer {
        self.tick(now_ns);
        if let Err(refusal) = request.check() {
            return Answer::Refused(refusal);
        }
        if let Some(before) = self.result(&request.id) {
            return repeat(before, &request);
        }
        if self.ended {
            return Answer::Refused(Refusal::Ended);
        }
        if let Err(refusal) = self.admit(&request) {
            let mut result = request.result(Status::Refused, self.state(), self.now_ns);
            result.refusal = Some(refusal.clone());
            self.memory.keep(result);
            return Answer::Refused(refusal);
        }
        let id = request.id.clone();
        self.begin(request);
        match self.result(&id) {
            Some(result) if result.status == Status::UnderWay => Answer::Started(result),
            Some(result) => Answer::Done(result),
            None => unreachable!("what was begun is under way or remembered"),
        }
    }

    /// A device answers an order. A successful one says the state that it is in now.
    pub fn reply(
        &mut self,
        now_ns: u64,
        path: &str,
        token: u64,
        reply: Result<State, Failed>,
    ) -> Reply {
        self.tick(now_ns);
        let Some(index) = self.find(path) else { return Reply::NoDevice };
        if !self.devices[index].waits_for(token) {
            return Reply::Late;
        }
        self.take_reply(index, reply);
        self.advance();
        Reply::Taken
    }

    /// A device says by itself that it is in another state: *fault* or *safe* always count, any
    /// other state only from a device that reported a fault in just that state and is well again.
    /// Says whether it counted.
    pub fn report(&mut self, now_ns: u64, path: &str, state: State, reason: &str) -> bool {
        self.tick(now_ns);
        let Some(index) = self.find(path).filter(|_| !self.ended) else { return false };
        if !state.is_broken() {
            return self.recover(index, state);
        }
        self.broke(index, state, reason);
        self.advance();
        true
    }

    /// What devices are to do now. Orders whose time has passed have failed before.
    pub fn poll(&mut self, now_ns: u64) -> Vec<Order> {
        self.tick(now_ns);
        std::mem::take(&mut self.orders)
    }

    /// The time at which [`Control::poll`] must be called at the latest.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let orders = self.devices.iter().filter_map(Device::deadline_ns);
        orders.chain(self.course.as_ref().and_then(Course::at_once_ns)).min()
    }

    /// Devices that are ending something wait for what people must do, such as making room: they
    /// have their whole time from now on. A shutdown's own time stays as it is.
    pub fn give_time(&mut self, now_ns: u64) {
        self.tick(now_ns);
        self.prolong();
    }

    /// Says which run the command under way begins or ends, for its result.
    pub fn note_run(&mut self, run: u64) {
        if let Some(course) = &mut self.course {
            course.result.run = Some(run);
        }
    }

    /// Names the run that is armed or recorded, for requests that are meant for one run.
    pub fn set_run(&mut self, run: Option<u64>) {
        self.run = run;
    }

    /// The node's state: *fault* or *safe* if any device is, otherwise what all were brought to.
    pub fn state(&self) -> State {
        let any = |state| self.devices.iter().any(|device| device.state == state);
        match () {
            () if any(State::Fault) => State::Fault,
            () if any(State::Safe) => State::Safe,
            () => self.common,
        }
    }

    /// What went wrong first, until another command begins and no device is in *safe* or *fault*.
    pub fn reason(&self) -> Option<&Reason> {
        let now = self.course.as_ref().and_then(|course| course.result.reason.as_ref());
        let broken = self.devices.iter().find(|device| device.state.is_broken());
        let broken = broken.and_then(|device| device.reason.as_ref());
        self.failure.as_ref().or(now).or(broken)
    }

    /// The commands that may be given now.
    pub fn legal(&self) -> Vec<Command> {
        let is_free = |command| match &self.course {
            None => !self.ended,
            Some(course) => command == Command::Shutdown && course.command() != command,
        };
        let commands = Command::ALL.iter().copied();
        commands.filter(|&command| is_free(command) && self.allowed(command).is_ok()).collect()
    }

    /// The command under way.
    pub fn under_way(&self) -> Option<UnderWay> {
        let course = self.course.as_ref()?;
        let busy = self.devices.iter().filter(|device| device.deadline_ns().is_some());
        Some(UnderWay {
            request: course.request.clone(),
            since_ns: course.result.began_ns,
            waiting_for: busy.map(|device| device.spec.path).collect(),
        })
    }

    /// What became of a request, if it is among the last 10,000.
    pub fn result(&self, id: &RequestId) -> Option<CommandResult> {
        let running = self.course.as_ref().filter(|course| course.request.id == *id);
        match running {
            Some(course) => Some(CommandResult { state: self.state(), ..course.result.clone() }),
            None => self.memory.find(id).cloned(),
        }
    }

    /// The commands that ended since this was last asked, those of control itself among them (who:
    /// `catchment`). At most 10,000 are kept.
    pub fn take_finished(&mut self) -> Vec<CommandResult> {
        std::mem::take(&mut self.finished)
    }

    /// The devices, those that data reach last first.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Whether the node was shut down.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether a request that was not seen before may begin.
    fn admit(&self, request: &Request) -> Result<(), Refusal> {
        let command = request.command;
        if let Some(device) = request.device.clone() {
            return Err(match self.find(&device) {
                None => Refusal::NoDevice { device },
                Some(_) => Refusal::NotAlone { device, command },
            });
        }
        if let Some(busy) = self.under_way()
            && (command != Command::Shutdown || busy.request.command == Command::Shutdown)
        {
            let Request { id: request, command, who, .. } = busy.request;
            let waiting_for = busy.waiting_for;
            return Err(Refusal::UnderWay { request, command, who, waiting_for });
        }
        if let Some(run) = request.run.filter(|&run| self.run != Some(run)) {
            return Err(Refusal::OtherRun { command, run, current: self.run });
        }
        self.allowed(command).map_err(Refusal::Illegal)
    }

    /// Whether the state allows a command.
    fn allowed(&self, command: Command) -> Result<(), Illegal> {
        let state = self.state();
        transition(state, command)?;
        let must_record = command == Command::Stop && state.is_broken();
        if must_record && !self.devices.iter().any(|device| device.runs_as().in_run()) {
            return Err(Illegal { state, command });
        }
        Ok(())
    }

    fn find(&self, path: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.spec.path == path)
    }
}

/// The answer to a request whose id was seen before.
fn repeat(before: CommandResult, request: &Request) -> Answer {
    if (before.command, &before.device) != (request.command, &request.device) {
        let CommandResult { request, command, .. } = before;
        return Answer::Refused(Refusal::IdUsed { request, command });
    }
    match before.refusal {
        Some(refusal) => Answer::Refused(refusal),
        None => Answer::Repeat(before),
    }
}
