//! The control of a tree of devices, as seen from outside.

use crate::course::{Course, Device, Mode};
use crate::device::{DeviceError, DevicePath, DeviceSpec, check};
use crate::request::{Answer, CommandResult, Memory, Reason, Refusal, Request, RequestId, Status};
use crate::state::{Action, Command, Illegal, State, transition};

/// The longest that a shutdown may be given: one hour.
pub const DRAIN_NS_MAX: u64 = crate::device::TIMEOUT_NS_MAX;

/// Brings devices from state to state, all or none.
///
/// Time is the caller's: nanoseconds of any clock that does not go back (if it does, it is taken to
/// stand still). Call [`Control::poll`] after every other call and at
/// [`Control::next_deadline_ns`].
#[derive(Clone, Debug)]
pub struct Control {
    // The devices that data reach last come first.
    pub(crate) devices: Vec<Device>,
    /// The state that the tree was last brought to.
    pub(crate) common: State,
    /// Why it is not in the state that was requested.
    pub(crate) failure: Option<Reason>,
    pub(crate) course: Option<Course>,
    pub(crate) orders: Vec<Order>,
    pub(crate) finished: Vec<CommandResult>,
    pub(crate) memory: Memory,
    pub(crate) drain_ns: u64,
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
    pub path: DevicePath,
    /// What.
    pub action: Action,
    /// What for.
    pub purpose: Purpose,
    /// To be given back with the reply; no two orders have the same.
    pub token: u64,
    /// The request that it serves.
    pub request: RequestId,
    /// The version of the configuration that the request named.
    pub configuration: Option<u64>,
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
    /// The request.
    pub request: RequestId,
    /// The command.
    pub command: Command,
    /// The device that it is for, if not for all.
    pub device: Option<DevicePath>,
    /// Who asked.
    pub who: String,
    /// Why.
    pub comment: Option<String>,
    /// The version of the configuration that was asked for.
    pub configuration: Option<u64>,
    /// Since when.
    pub since_ns: u64,
    /// Who has not answered yet.
    pub waiting_for: Vec<DevicePath>,
    /// Whether it failed and is being undone.
    pub undoing: bool,
}

/// A device at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// Where it stands.
    pub path: DevicePath,
    /// What it is.
    pub kind: String,
    /// Its state.
    pub state: State,
    /// Why it is in *safe* or *fault*, or why it did not do what it last was asked to.
    pub reason: Option<Reason>,
    /// What it is doing.
    pub doing: Option<Action>,
    /// The commands that may be given to it alone now.
    pub commands: Vec<Command>,
}

impl Control {
    /// All devices are idle. `drain_ns`: how long a shutdown may take before devices are ended at
    /// once, at most an hour.
    ///
    /// # Errors
    /// The devices are none, too many, the same, or have impossible time-outs.
    pub fn new(mut specs: Vec<DeviceSpec>, drain_ns: u64) -> Result<Self, DeviceError> {
        check(&specs)?;
        specs.sort_by(|one, other| (one.order, &one.path).cmp(&(other.order, &other.path)));
        Ok(Self {
            devices: specs.into_iter().map(Device::new).collect(),
            common: State::Idle,
            failure: None,
            course: None,
            orders: Vec::new(),
            finished: Vec::new(),
            memory: Memory::default(),
            drain_ns: drain_ns.min(DRAIN_NS_MAX),
            now_ns: 0,
            last_token: 0,
            own_requests: 0,
            run: None,
            ended: false,
        })
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
        path: &DevicePath,
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
    pub fn report(&mut self, now_ns: u64, path: &DevicePath, state: State, reason: &str) -> bool {
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
        self.legal_of(None)
    }

    /// The command under way.
    pub fn under_way(&self) -> Option<UnderWay> {
        let course = self.course.as_ref()?;
        let busy = self.devices.iter().filter(|device| device.deadline_ns().is_some());
        let request = course.request.clone();
        Some(UnderWay {
            request: request.id,
            command: request.command,
            device: request.device,
            who: request.who,
            comment: request.comment,
            configuration: request.configuration,
            since_ns: course.result.began_ns,
            waiting_for: busy.map(|device| device.spec.path.clone()).collect(),
            undoing: course.mode == Mode::Back,
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

    /// One device.
    pub fn device(&self, path: &DevicePath) -> Option<DeviceStatus> {
        self.find(path).map(|index| self.status(index))
    }

    /// All devices, those that data reach last first.
    pub fn devices(&self) -> Vec<DeviceStatus> {
        (0..self.devices.len()).map(|index| self.status(index)).collect()
    }

    /// Whether the node was shut down.
    pub fn ended(&self) -> bool {
        self.ended
    }

    fn status(&self, index: usize) -> DeviceStatus {
        let device = &self.devices[index];
        DeviceStatus {
            path: device.spec.path.clone(),
            kind: device.spec.kind.clone(),
            state: device.state,
            reason: device.reason.clone(),
            doing: device.doing(),
            commands: self.legal_of(Some(index)),
        }
    }

    fn legal_of(&self, device: Option<usize>) -> Vec<Command> {
        let busy = |command| match &self.course {
            None => false,
            Some(course) => command != Command::Shutdown || course.command() == command,
        };
        let commands = Command::ALL.iter().copied();
        let given = commands.filter(|&command| match device {
            None => true,
            Some(index) => self.devices[index].takes_alone(command),
        });
        given
            .filter(|&command| {
                !self.ended && !busy(command) && self.allowed(command, device).is_ok()
            })
            .collect()
    }

    /// Whether a request that was not seen before may begin.
    fn admit(&self, request: &Request) -> Result<(), Refusal> {
        let command = request.command;
        let device = match &request.device {
            None => None,
            Some(path) => match self.find(path) {
                None => return Err(Refusal::NoDevice { device: path.clone() }),
                Some(index) if !self.devices[index].takes_alone(command) => {
                    return Err(Refusal::NotAlone { device: path.clone(), command });
                }
                found => found,
            },
        };
        if let Some(busy) = self.under_way()
            && (command != Command::Shutdown || busy.command == Command::Shutdown)
        {
            let UnderWay { request, command, who, waiting_for, .. } = busy;
            return Err(Refusal::UnderWay { request, command, who, waiting_for });
        }
        if let Some(run) = request.run.filter(|&run| self.run != Some(run)) {
            return Err(Refusal::OtherRun { command, run, current: self.run });
        }
        self.allowed(command, device).map_err(Refusal::Illegal)
    }

    /// Whether the state allows a command.
    fn allowed(&self, command: Command, device: Option<usize>) -> Result<(), Illegal> {
        let state = device.map_or_else(|| self.state(), |index| self.devices[index].state);
        transition(state, command)?;
        let path = device.map(|index| &self.devices[index].spec.path);
        let mut scope = self.devices.iter().filter(|device| device.stands_in(path));
        let must_record = command == Command::Stop && state.is_broken();
        if must_record && !scope.any(|device| device.runs_as().in_run()) {
            return Err(Illegal { state, command });
        }
        Ok(())
    }

    fn find(&self, path: &DevicePath) -> Option<usize> {
        self.devices.iter().position(|device| device.spec.path == *path)
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
