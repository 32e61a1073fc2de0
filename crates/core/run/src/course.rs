//! A command's way through the devices.
//!
//! ```text
//!             all did it
//!   Forward ─────────────────────────────────────► end
//!      │ one failed                                 ▲
//!      ├─ it begins something ─► Back ──────────────┤   others go back; who cannot: safe
//!      └─ it ends something: who failed: safe; the others go on
//!
//!   Waiting ─► Forward      a shutdown waits for what devices are at
//!   any     ─► AtOnce       a shutdown's time is over: all at once to safe
//! ```
//!
//! Forward and Back go through the steps of a table, each with the devices one after the other.
//! Nothing moves on while a device has an order; every order has a deadline; every step comes once
//! to every device: so every command ends.

use crate::control::{Control, Failed, Order, Purpose};
use crate::device::DeviceSpec;
use crate::request::{CommandResult, REQUESTS_REMEMBERED, Reason, Request, RequestId, Status};
use crate::state::{Action, BACK_STEPS, Back, Command, State, back};

/// A command under way.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    pub(crate) request: Request,
    pub(crate) result: CommandResult,
    pub(crate) mode: Mode,
    /// How many of the mode's steps have come to how many devices.
    steps_done: usize,
    /// When a shutdown's time is over.
    at_once_ns: Option<u64>,
}

/// Where a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Waiting,
    Forward,
    Back,
    AtOnce,
}

/// A device, as control believes it to be.
#[derive(Clone, Debug)]
pub struct Device {
    /// What it is.
    pub spec: DeviceSpec,
    /// Its state.
    pub state: State,
    /// Why it is in *safe* or *fault*, or why it did not do what it last was asked to.
    pub reason: Option<Reason>,
    /// The state in which it reported a fault: it may go on there.
    suspended: Option<State>,
    /// It failed by itself and its run has not been stopped for it yet.
    must_stop: bool,
    pending: Option<Pending>,
    /// Where it was before the command under way.
    before: State,
    /// Whether that command gave it another configuration.
    reconfigured: bool,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    token: u64,
    action: Action,
    deadline_ns: u64,
}

impl Course {
    pub(crate) fn command(&self) -> Command {
        self.request.command
    }

    /// All of it that decides what comes next.
    #[cfg(test)]
    pub(crate) fn decisive(&self) -> impl std::fmt::Debug + use<> {
        (self.command(), self.mode, self.steps_done, self.result.reason.is_some())
    }

    pub(crate) fn at_once_ns(&self) -> Option<u64> {
        self.at_once_ns.filter(|_| self.mode != Mode::AtOnce)
    }

    /// The next step, and to which of so many devices it comes; none: it was the last.
    fn next_step(&mut self, devices: usize) -> Option<(Action, usize)> {
        let steps = match self.mode {
            Mode::Back => BACK_STEPS,
            _ => self.command().steps(self.request.configuration.is_some()),
        };
        let (step, place) = (self.steps_done / devices, self.steps_done % devices);
        let action = *steps.get(step)?;
        self.steps_done += 1;
        Some((action, if action.sinks_first() { place } else { devices - 1 - place }))
    }
}

impl Device {
    pub(crate) fn new(spec: DeviceSpec) -> Self {
        Self {
            spec,
            state: State::Idle,
            reason: None,
            suspended: None,
            must_stop: false,
            pending: None,
            before: State::Idle,
            reconfigured: false,
        }
    }

    /// All of it that decides what comes next.
    #[cfg(test)]
    pub(crate) fn decisive(&self) -> impl std::fmt::Debug + use<> {
        let doing = self.pending.map(|pending| pending.action);
        (self.state, self.suspended, doing, self.before, self.must_stop, self.reconfigured)
    }

    pub(crate) fn waits_for(&self, token: u64) -> bool {
        self.pending.is_some_and(|pending| pending.token == token)
    }

    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.pending.map(|pending| pending.deadline_ns)
    }

    /// Its state, or that in which it reported a fault: what it has open is still open.
    pub(crate) fn runs_as(&self) -> State {
        match self.state {
            State::Fault => self.suspended.unwrap_or(State::Fault),
            state => state,
        }
    }

    /// Whether it takes a step in a command's way forward.
    fn goes_forward(&self, action: Action, configures: bool) -> bool {
        let state = match action {
            Action::Stop | Action::Disarm => self.runs_as(),
            _ => self.state,
        };
        let again = action == Action::Configure && state == State::Configured;
        action.begins_in(state) && (configures || !again)
    }

    /// Whether it takes a step on the way back.
    fn goes_back(&self, action: Action) -> bool {
        // What was given another configuration is not where it was until it has the old one again.
        let restores = match action {
            Action::Disarm => self.state == State::Armed && self.before == State::Armed,
            Action::Configure => {
                self.state == State::Configured
                    && matches!(self.before, State::Configured | State::Armed)
            }
            _ => false,
        };
        let restores = restores && self.reconfigured;
        restores || back(self.state, self.before) == Back::By(action)
    }
}

impl Control {
    /// Lets time pass: orders whose deadline has come have failed.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        let now_ns = self.now_ns;
        if self.course.as_ref().and_then(Course::at_once_ns).is_some_and(|end| end <= now_ns) {
            self.at_once("the time for the shutdown was over");
        }
        for index in 0..self.devices.len() {
            if let Some(pending) = self.devices[index].pending
                && pending.deadline_ns <= now_ns
            {
                let timeout_ns = self.timeout_ns(index, pending.action);
                self.withdraw(index);
                let text = format!("no answer within {} s", timeout_ns as f64 / 1e9);
                self.failed(index, pending, &text, None);
            }
        }
        self.advance();
    }

    /// Devices that are ending something have their whole time from now on.
    pub(crate) fn prolong(&mut self) {
        for index in 0..self.devices.len() {
            let Some(pending) = self.devices[index].pending else { continue };
            if pending.action.ends_something() && pending.action != Action::Safe {
                let timeout_ns = self.timeout_ns(index, pending.action);
                let deadline_ns = self.now_ns.saturating_add(timeout_ns);
                self.devices[index].pending = Some(Pending { deadline_ns, ..pending });
            }
        }
    }

    /// Begins a command that was found legal.
    pub(crate) fn begin(&mut self, request: Request) {
        let mut mode = Mode::Forward;
        if let Some(mut course) = self.course.take() {
            let text = format!("given up: {} by {}", request.command, request.who);
            let given_up = Reason::new(None, None, &text, self.now_ns);
            let reason = course.result.reason.get_or_insert(given_up);
            self.failure.get_or_insert_with(|| reason.clone());
            self.keep(course, false);
            // What was not handed out yet is not done at all.
            for order in std::mem::take(&mut self.orders) {
                let mut devices = self.devices.iter_mut();
                if let Some(device) = devices.find(|device| device.waits_for(order.token)) {
                    device.pending = None;
                }
            }
            mode = Mode::Waiting;
        }
        if !self.devices.iter().any(|device| device.state.is_broken()) {
            self.failure = None;
        }
        for device in &mut self.devices {
            device.before = device.state;
            device.reconfigured = false;
            if !device.state.is_broken() && device.pending.is_none() {
                device.reason = None;
            }
        }
        let ends = request.command == Command::Shutdown;
        let result = request.result(Status::UnderWay, self.state(), self.now_ns);
        let at_once_ns = ends.then(|| self.now_ns.saturating_add(self.drain_ns));
        self.course = Some(Course { request, result, mode, steps_done: 0, at_once_ns });
        self.advance();
    }

    /// A reply to the order that the device has.
    pub(crate) fn take_reply(&mut self, index: usize, reply: Result<State, Failed>) {
        let Some(pending) = self.devices[index].pending else { return };
        self.withdraw(index);
        let target = pending.action.target();
        let back = self.course.as_ref().is_some_and(|course| course.mode == Mode::Back);
        match reply {
            Ok(state) if state == target => {
                let device = &mut self.devices[index];
                if device.state.is_broken() && state != State::Safe {
                    device.reason = None;
                }
                device.state = state;
                device.suspended = None;
                device.must_stop = false;
                if pending.action == Action::Configure && back {
                    device.reconfigured = false;
                }
            }
            Ok(state) => {
                let text = format!("it says that it is {state} and not {target}");
                self.failed(index, pending, &text, Some(state));
            }
            Err(Failed { reason, state }) => self.failed(index, pending, &reason, Some(state)),
        }
    }

    /// A device could not do what it was ordered to. `state`: the one that it is in; none:
    /// unknown.
    fn failed(&mut self, index: usize, pending: Pending, text: &str, state: Option<State>) {
        let device = &mut self.devices[index];
        let reason = Reason::new(Some(device.spec.path), Some(pending.action), text, self.now_ns);
        match &mut device.reason {
            // Why it could not be made safe comes behind why it had to be.
            Some(first) if pending.action == Action::Safe => {
                let both = format!("{}; then safe: {}", first.text, reason.text);
                *first = Reason::new(first.device, first.action, &both, first.since_ns);
            }
            Some(_) if device.state.is_broken() => {}
            other => *other = Some(reason.clone()),
        }
        if let Some(course) = &mut self.course {
            course.result.reason.get_or_insert(reason);
        }
        if pending.action == Action::Safe {
            device.state = State::Fault;
            device.suspended = None;
            return;
        }
        if let Some(state) = state {
            device.state = state;
            device.suspended = None;
        }
        let Some(course) = &self.course else { return };
        let lost = match course.mode {
            // Its state is unknown.
            _ if state.is_none() => true,
            Mode::Forward => !course.command().rolls_back(),
            Mode::Back => device.state != device.before || device.reconfigured,
            Mode::Waiting | Mode::AtOnce => false,
        };
        if lost && (state.is_none() || !device.state.is_broken()) {
            self.issue(index, Action::Safe, Purpose::Safe);
        }
    }

    /// A device reported *fault* or *safe*.
    pub(crate) fn broke(&mut self, index: usize, state: State, text: &str) {
        let device = &mut self.devices[index];
        let reason = Reason::new(Some(device.spec.path), None, text, self.now_ns);
        if device.pending.is_some_and(|pending| pending.action.ends_something()) {
            // It is on its way out of whatever it is in: its reply says where it arrived.
            device.reason.get_or_insert(reason);
            return;
        }
        if device.state.is_broken() {
            device.state = state;
            if state == State::Safe {
                device.suspended = None;
            }
            return;
        }
        device.suspended = Some(device.state).filter(|_| state == State::Fault);
        device.must_stop = device.spec.stops_run;
        device.state = state;
        device.reason = Some(reason.clone());
        self.failure.get_or_insert_with(|| reason.clone());
        self.withdraw(index);
        if let Some(course) = &mut self.course
            && course.command().rolls_back()
        {
            course.result.reason.get_or_insert(reason);
        }
    }

    /// A device says that it is well again, in the state in which it reported its fault.
    pub(crate) fn recover(&mut self, index: usize, state: State) -> bool {
        let device = &mut self.devices[index];
        let well = self.course.is_none()
            && device.state == State::Fault
            && device.suspended == Some(state);
        if well {
            device.state = state;
            device.suspended = None;
            device.must_stop = false;
            let first = device.reason.take();
            let still = self.devices.iter().find(|device| device.state.is_broken());
            match still {
                None => self.failure = None,
                Some(other) if self.failure == first => self.failure = other.reason.clone(),
                Some(_) => {}
            }
        }
        well
    }

    /// Moves on as far as it goes without an answer.
    pub(crate) fn advance(&mut self) {
        loop {
            if self.devices.iter().any(|device| device.pending.is_some()) {
                return;
            }
            let Some(course) = &self.course else {
                if self.stop_for_a_fault() {
                    continue;
                }
                return;
            };
            let failed = course.result.reason.is_some();
            match course.mode {
                Mode::AtOnce => self.finish(),
                Mode::Waiting => self.turn(Mode::Forward),
                Mode::Forward if failed && course.command().rolls_back() => {
                    self.turn(Mode::Back);
                    self.give_up_strays();
                }
                Mode::Forward | Mode::Back => self.next_step(),
            }
        }
    }

    /// Orders the next device that takes one of the steps that are left to do it, or ends.
    fn next_step(&mut self) {
        let count = self.devices.len();
        while let Some(course) = &mut self.course
            && let Some((action, index)) = course.next_step(count)
        {
            let is_back = course.mode == Mode::Back;
            let names_one = course.request.configuration.is_some();
            let configures = names_one || course.command() == Command::Configure;
            let device = &mut self.devices[index];
            let takes_it = match is_back {
                true => device.goes_back(action),
                false => device.goes_forward(action, configures),
            };
            if takes_it {
                device.reconfigured |= action == Action::Configure && !is_back;
                let purpose = if is_back { Purpose::Back } else { Purpose::Forward };
                return self.issue(index, action, purpose);
            }
        }
        self.finish();
    }

    /// Makes those safe that no step leads back.
    fn give_up_strays(&mut self) {
        for index in 0..self.devices.len() {
            let device = &mut self.devices[index];
            if back(device.state, device.before) == Back::NoWay {
                let text = format!("no way back from {} to {}", device.state, device.before);
                let reason = Reason::new(Some(device.spec.path), None, &text, self.now_ns);
                device.reason.get_or_insert(reason);
                self.issue(index, Action::Safe, Purpose::Safe);
            }
        }
    }

    fn turn(&mut self, mode: Mode) {
        if let Some(course) = &mut self.course {
            (course.mode, course.steps_done) = (mode, 0);
        }
    }

    /// Orders all devices to be safe now, whatever they are at.
    pub(crate) fn at_once(&mut self, why: &str) {
        let Some(course) = &mut self.course else { return };
        if course.mode == Mode::AtOnce {
            return;
        }
        let reason = Reason::new(None, None, why, self.now_ns);
        course.result.reason.get_or_insert_with(|| reason.clone());
        self.turn(Mode::AtOnce);
        for index in 0..self.devices.len() {
            self.withdraw(index);
            if self.devices[index].state != State::Safe {
                self.devices[index].reason.get_or_insert_with(|| reason.clone());
                self.issue(index, Action::Safe, Purpose::Safe);
            }
        }
    }

    /// Ends the run that a device's fault makes impossible. Says whether it began to.
    fn stop_for_a_fault(&mut self) -> bool {
        let mut broken = self.devices.iter_mut().filter(|device| device.must_stop);
        let Some(device) = broken.next().filter(|_| !self.ended) else { return false };
        device.must_stop = false;
        let comment = device.reason.as_ref().map(|reason| reason.to_string());
        let comment = comment.map(|text| format!("{} failed: {text}", device.spec.kind));
        let runs = self.devices.iter().map(Device::runs_as);
        let command = match runs.max_by_key(|state| (state.in_run(), *state == State::Armed)) {
            Some(state) if state.in_run() => Command::Stop,
            Some(State::Armed) => Command::Disarm,
            _ => return true,
        };
        self.own_requests += 1;
        let id = RequestId::own(self.own_requests);
        let who = "catchment".to_owned();
        let (device, configuration, run) = (None, None, None);
        self.begin(Request { id, command, device, who, comment, configuration, run });
        true
    }

    /// The command under way is at its end.
    fn finish(&mut self) {
        let Some(course) = self.course.take() else { return };
        let command = course.command();
        let is_any_broken = self.devices.iter().any(|device| device.state.is_broken());
        let failed = course.result.reason.is_some();
        let well = !failed || !(command.rolls_back() || is_any_broken);
        if well || !command.rolls_back() {
            self.common = command.leads_to();
        }
        let common = self.common;
        for device in &mut self.devices {
            device.suspended = device.suspended.filter(|state| *state == common);
            (device.before, device.reconfigured) = (State::Idle, false);
        }
        if well && !is_any_broken {
            self.failure = None;
        } else if let Some(reason) = &course.result.reason {
            self.failure.get_or_insert_with(|| reason.clone());
        }
        self.ended |= command == Command::Shutdown;
        self.keep(course, well);
    }

    /// Remembers how a command ended.
    fn keep(&mut self, course: Course, well: bool) {
        let mut result = course.result;
        result.status = if well { Status::Done } else { Status::Failed };
        result.state = self.state();
        result.ended_ns = Some(self.now_ns);
        self.memory.keep(result.clone());
        if self.finished.len() >= REQUESTS_REMEMBERED {
            self.finished.remove(0);
        }
        self.finished.push(result);
    }

    fn issue(&mut self, index: usize, action: Action, purpose: Purpose) {
        let deadline_ns = self.now_ns.saturating_add(self.timeout_ns(index, action));
        let device = &mut self.devices[index];
        self.last_token += 1;
        let token = self.last_token;
        device.pending = Some(Pending { token, action, deadline_ns });
        let path = device.spec.path;
        self.orders.push(Order { path, action, purpose, token, deadline_ns });
    }

    fn timeout_ns(&self, index: usize, action: Action) -> u64 {
        (self.devices[index].spec.timeout_ns)(action).max(self.patience_ns)
    }

    /// Takes back the order that a device has, and does not hand it out if it was not yet.
    fn withdraw(&mut self, index: usize) {
        if let Some(pending) = self.devices[index].pending.take() {
            self.orders.retain(|order| order.token != pending.token);
        }
    }
}
