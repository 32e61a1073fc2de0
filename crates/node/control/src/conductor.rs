//! The control thread: a duty cycle that owns the state machine.
//!
//! It takes requests, passes orders to devices and returns their answers, reads the recorder's
//! counters twice a second, and publishes the result. It never waits for a device, a client or the
//! network.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_model::Utc;
use catchment_recorder::{Arrivals, Forwarding};
use catchment_run::{
    Action, Answer, Command, CommandResult, Control, Order, Purpose, Request, RequestId, State,
    Status,
};
use catchment_telemetry::{Clock, Priority};
use catchment_watch::Run;
use crossbeam_channel::{Receiver, select_biased};
use tokio::sync::oneshot;

use crate::actions::Actions;
use crate::api;
use crate::configuration::{Configuration, Version};
use crate::devices::{Active, Devices, Done, Job, Origin, RECORDER};
use crate::problem::Problem;
use crate::properties::{self, EmulatorPatch};
use crate::security::guard::Who;
use crate::shared::{self, Ask, NodeShared, Reply};
use crate::systemd::Manager;
use crate::watching::targets::held_up;
use crate::watching::{Meaning, Moment, Watching};

use self::ending::remark_of;

mod admitted;
mod alarms;
pub(crate) mod ending;
mod forwarding;
mod reports;
mod view;

/// How long the thread waits for work.
const IDLE_WAIT: Duration = Duration::from_millis(50);
/// How often it reads the recorder's counters.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a command may take before the client is told that it is in progress.
const ANSWER_WITHIN: Duration = Duration::from_millis(800);
/// How long the end may take beyond the drain time: hanging devices are abandoned, actions and the
/// server ended.
const END_WITHIN: Duration = Duration::from_secs(30);
/// The prefix of the id of the request for the first run, which no client made.
pub(crate) const FIRST: &str = "first-";
/// Clients that wait for a command's end.
const WAITING_MAX: usize = 1_000;

/// Messages from other threads.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// End the run and the node.
    pub(crate) shutdown: AtomicBool,
    /// It has ended.
    pub(crate) ended: AtomicBool,
}

/// A client that waits for a command's end.
struct Waiting {
    request: RequestId,
    until: Instant,
    reply: Reply<api::CommandResult>,
}

/// The control thread's state.
pub(crate) struct Conductor {
    pub(crate) shared: Arc<NodeShared>,
    pub(crate) clock: Clock,
    pub(crate) asks: Receiver<Ask>,
    pub(crate) control: Control,
    pub(crate) devices: Devices,
    pub(crate) actions: Actions,
    pub(crate) watching: Watching,
    pub(crate) configuration: Arc<Configuration>,
    /// What earlier runs have left in the targets' spills is forwarded, whether a run is on or not.
    pub(crate) forwarding: Option<Forwarding>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) manager: Manager,
    pub(crate) schemas: shared::Schemas,
    pub(crate) state: ConductorState,
}

/// State that only the control thread uses.
#[derive(Default)]
pub(crate) struct ConductorState {
    waiting: Vec<Waiting>,
    next_look: Option<Instant>,
    alarms_changed: u64,
    alarms_seen: Vec<catchment_watch::Alarm>,
    /// Who paused the run, and when.
    paused: Option<(String, String)>,
    /// The audit log's lines of unfinished commands.
    noted: Vec<api::AuditLine>,
    reported: Option<String>,
    /// The configuration named by a command, while it is tried.
    tried: Option<Version>,
    /// The configuration that was armed, which is started: another may have been read since.
    armed: Option<Arc<Configuration>>,
    /// The previous configuration.
    before: Option<Version>,
    /// Whether the first run begins when a front-end was admitted.
    awaits_front_end: bool,
    /// Why the run cannot end yet.
    held_up: Option<String>,
    shutdown_asked: bool,
    stopping_said: bool,
    second: u64,
}

impl Conductor {
    /// Publishes the node for the first time, before any request can arrive.
    pub(crate) fn first_look(&mut self) {
        self.look(self.clock.now_ns());
    }

    /// Runs until the node is shut down.
    pub(crate) fn run(mut self) {
        Priority::Control.apply();
        let results = self.devices.results.clone();
        while !self.control.ended() {
            let mut ask = None;
            let mut done = None;
            select_biased! {
                recv(results) -> answer => done = answer.ok(),
                recv(self.asks) -> asked => ask = asked.ok(),
                default(IDLE_WAIT) => {}
            }
            let now_ns = self.clock.now_ns();
            if let Some(done) = done {
                self.take_reply(now_ns, done);
            }
            if let Some(ask) = ask {
                ask(&mut self, now_ns);
            }
            self.apply_signals(now_ns);
            let under_way = self.control.under_way();
            if under_way.is_some_and(|one| one.request.command == Command::Shutdown) {
                self.say_stopping();
            }
            self.pass_orders(now_ns);
            self.take_finished();
            self.look_when_due();
            self.answer_waiting();
            self.manager.alive(Instant::now());
        }
        self.take_finished();
        self.look(self.clock.now_ns());
        self.answer_waiting();
        self.say_stopping();
        self.actions.end(&self.shared);
        self.devices.end();
        self.signals.ended.store(true, Relaxed);
    }

    /// Notifies the service manager, once, that the end has begun and how long it may take.
    fn say_stopping(&mut self) {
        if !std::mem::replace(&mut self.state.stopping_said, true) {
            let most = self.shared.settings.drain + END_WITHIN;
            let micros = most.as_micros();
            self.manager.say(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={micros}"));
        }
    }

    /// Takes a command, with the version of the configuration that it names, if that can be used. A
    /// repeated one needs none.
    pub(crate) fn command(
        &mut self,
        now_ns: u64,
        asked: &api::CommandRequest,
        named: Option<Result<Version, Problem>>,
        who: &Who,
    ) -> Result<shared::Answer<api::CommandResult>, Problem> {
        let request = self.request(asked, who)?;
        if self.shared.storing.is_some() && request.command != Command::Shutdown {
            let detail =
                "a storage node has no runs: it stores what recorders send, until shutdown";
            return Err(Problem::conflict(detail));
        }
        let id = request.id.clone();
        if self.control.result(&id).is_none()
            && let Some(named) = named
        {
            // Tried first: what cannot be applied begins nothing.
            let named = named?;
            self.fits(&named.configuration)?;
            self.state.tried = Some(named);
        }
        let current = self.current_run();
        self.control.set_run(current);
        match self.control.request(now_ns, request) {
            Answer::Started(_) | Answer::Done(_) => self.note_begun(who, asked),
            Answer::Repeat(_) => {}
            Answer::Refused(refusal) => {
                self.state.tried = None;
                let legal = self.control.legal().into_iter().map(Command::name);
                let legal: Vec<serde_json::Value> = legal.map(Into::into).collect();
                let comment = self.keep_comment(now_ns, asked, current, who);
                return Err(Problem::conflict(format!("{refusal}{comment}"))
                    .with("state", self.control.state().name())
                    .with("run", current)
                    .with("legal", legal));
            }
        }
        self.wait(id)
    }

    /// The result of a command.
    pub(crate) fn result_of(&self, request: &str) -> Result<api::CommandResult, Problem> {
        let found = RequestId::new(request).ok().and_then(|id| self.control.result(&id));
        let found = found.map(|result| self.result(result));
        found.ok_or_else(|| Problem::not_found("such request"))
    }

    /// The number of the run that is armed or recorded.
    fn current_run(&self) -> Option<u64> {
        self.devices.run_status.active().filter(|active| !active.ended).map(|active| active.number)
    }

    fn request(&self, asked: &api::CommandRequest, who: &Who) -> Result<Request, Problem> {
        let command = Command::from_name(&asked.command).ok_or_else(|| {
            let known: Vec<&str> = Command::ALL.iter().map(|command| command.name()).collect();
            let (known, got) = (known.join(", "), &asked.command);
            Problem::unprocessable(format!("command: expected one of {known}, got {got:?}"))
                .with("field", "command")
        })?;
        let id = RequestId::new(asked.request.clone());
        let id = id.map_err(|error| Problem::unprocessable(error.to_string()))?;
        if let Some(device) = asked.device.as_ref().filter(|device| !is_path(device)) {
            let detail = format!("device: expected a path such as {RECORDER}, got {device:?}");
            return Err(Problem::unprocessable(detail).with("field", "device"));
        }
        let device = asked.device.clone();
        let comment = asked.comment.clone();
        let (configuration, run) = (asked.configuration, asked.run);
        let takes_one = matches!(command, Command::Configure | Command::Arm | Command::Start);
        if configuration.is_some() && !takes_one {
            let detail =
                format!("configuration: expected with configure, arm or start, not {command}");
            return Err(Problem::unprocessable(detail).with("field", "configuration"));
        }
        let who = who.name.clone();
        Ok(Request { id, command, device, who, comment, configuration, run })
    }

    /// Whether a configuration can be applied without a restart of the program.
    fn fits(&self, other: &Configuration) -> Result<(), Problem> {
        if other.store.is_some() != self.configuration.store.is_some() {
            let detail = "a storage node in place of a recorder, or the other way round, needs a \
                new start of the program";
            return Err(Problem::conflict(detail));
        }
        if other.emulates() != self.configuration.emulates() {
            let detail = "a configuration that emulates, where the one before did not, or the other \
                way round, needs a new start of the program";
            return Err(Problem::conflict(detail));
        }
        if other.recorder.has_front_ends() != self.configuration.recorder.has_front_ends() {
            let detail = "a configuration with front-ends, where the one before had none, or the \
                other way round, needs a new start of the program";
            return Err(Problem::conflict(detail));
        }
        if other.recorder.folder != self.configuration.recorder.folder {
            let detail = "another run.folder needs a new start of the program";
            return Err(Problem::conflict(detail));
        }
        Ok(())
    }

    /// Answers when the command has ended, or when that takes long.
    fn wait(&mut self, request: RequestId) -> Result<shared::Answer<api::CommandResult>, Problem> {
        if self.state.waiting.len() >= WAITING_MAX {
            return Err(Problem::conflict("too many wait for commands"));
        }
        let (reply, answer) = oneshot::channel();
        let until = Instant::now() + ANSWER_WITHIN;
        self.state.waiting.push(Waiting { request, until, reply });
        Ok(answer)
    }

    fn answer_waiting(&mut self) {
        let now = Instant::now();
        for index in (0..self.state.waiting.len()).rev() {
            let one = &self.state.waiting[index];
            let result = self.control.result(&one.request);
            let over = result.as_ref().is_none_or(|result| result.status != Status::UnderWay);
            if !over && now < one.until && !self.control.ended() {
                continue;
            }
            let one = self.state.waiting.swap_remove(index);
            let result = result.map(|result| self.result(result));
            let forgotten = || Problem::not_found("such request");
            one.reply.send(result.ok_or_else(forgotten)).ok();
        }
    }

    fn result(&self, result: CommandResult) -> api::CommandResult {
        let ended_ns = result.ended_ns.unwrap_or_else(|| self.clock.now_ns());
        let status = match result.status {
            Status::UnderWay => "under_way",
            Status::Done => "done",
            Status::Failed | Status::Refused => "failed",
        };
        let refusal = result.refusal.as_ref().map(ToString::to_string);
        let is_under_way = result.status == Status::UnderWay;
        let waits = self.state.held_up.clone().filter(|_| is_under_way);
        api::CommandResult {
            request: result.request.to_string(),
            command: result.command.name().into(),
            status: status.into(),
            state: result.state.name().into(),
            reason: result.reason.as_ref().map(ToString::to_string).or(refusal).or(waits),
            run: result.run,
            who: result.who,
            time: Utc(result.began_ns).to_string(),
            seconds: ended_ns.saturating_sub(result.began_ns) as f64 / 1e9,
        }
    }

    /// Keeps the origin of a command until it has ended.
    fn note_begun(&mut self, who: &Who, asked: &api::CommandRequest) {
        self.state.noted.push(api::AuditLine {
            what: asked.command.clone(),
            request: Some(asked.request.clone()),
            comment: asked.comment.clone(),
            ..crate::shared::line(who)
        });
    }

    /// Writes the outcome of a command to the audit log.
    fn note_finished(&mut self, result: &CommandResult) {
        let request = result.request.to_string();
        let mut noted = self.state.noted.iter();
        let found = noted.position(|line| line.request.as_ref() == Some(&request));
        // A command without a request comes from the node itself.
        let own = || api::AuditLine {
            what: result.command.name().into(),
            request: Some(request.clone()),
            ..crate::shared::line(&Who { name: result.who.clone(), ..crate::node::signal() })
        };
        let line = found.map_or_else(own, |index| self.state.noted.swap_remove(index));
        let status = if result.status == Status::Done { "done" } else { "failed" };
        let reason = result.reason.as_ref().map(|reason| format!(": {reason}"));
        let result = format!("{status}{}", reason.unwrap_or_default());
        let time = Utc(self.clock.now_ns()).to_string();
        self.shared.audit.write(api::AuditLine { time, result, ..line });
    }

    fn apply_signals(&mut self, now_ns: u64) {
        if self.signals.shutdown.load(Relaxed) && !self.state.shutdown_asked {
            self.state.shutdown_asked = true;
            let asked = api::CommandRequest {
                request: format!("signal-{now_ns}"),
                command: Command::Shutdown.name().into(),
                ..api::CommandRequest::default()
            };
            let who = crate::node::signal();
            if let Ok(request) = self.request(&asked, &who) {
                self.shared.note(&who, asked.command.clone(), "asked");
                match self.control.request(now_ns, request) {
                    Answer::Started(_) | Answer::Done(_) => self.note_begun(&who, &asked),
                    // Another command was faster.
                    Answer::Repeat(_) | Answer::Refused(_) => {
                        self.shared.note(&who, asked.command, "refused: it is ending");
                    }
                }
            }
        }
    }

    fn pass_orders(&mut self, now_ns: u64) {
        loop {
            let orders = self.control.poll(now_ns);
            if orders.is_empty() {
                return;
            }
            for order in orders {
                let job = self.job(order);
                if let Some(done) = self.devices.give(job) {
                    self.take_reply(now_ns, done);
                }
            }
        }
    }

    fn take_reply(&mut self, now_ns: u64, done: Done) {
        let Done { path, token, result } = done;
        if self.control.reply(now_ns, path, token, result) != catchment_run::Reply::Taken {
            tracing::debug!(device = path, "a device's answer came too late");
        }
    }

    /// An order with the configuration and the origin of its command.
    fn job(&mut self, order: Order) -> Job {
        let forward = order.purpose == Purpose::Forward;
        if forward && let Some(tried) = self.state.tried.take() {
            let (number, text) = self.shared.present();
            let configuration = Arc::clone(&self.configuration);
            self.state.before = Some(Version { configuration, number, text });
            self.adopt(tried);
        }
        let configuration = match &self.state.before {
            Some(before) if order.purpose == Purpose::Back => Arc::clone(&before.configuration),
            _ => Arc::clone(&self.configuration),
        };
        let configuration = match order.action {
            Action::Start => self.state.armed.clone().unwrap_or(configuration),
            Action::Arm => Arc::clone(self.state.armed.insert(configuration)),
            _ => configuration,
        };
        let under_way = self.control.under_way();
        let goes_back = under_way.as_ref().filter(|_| order.purpose == Purpose::Back);
        let failed = goes_back.and_then(|one| self.control.result(&one.request.id)?.reason);
        let why_back = failed.map(|reason| reason.to_string());
        let since_ns = under_way.as_ref().map_or(0, |one| one.since_ns);
        let mut origin = under_way.map(Origin::of).unwrap_or_default();
        if order.action == Action::Stop
            && let Some(why) = &why_back
        {
            // The run had begun, and ends at once.
            origin.remark = remark_of(since_ns, Command::Start, "catchment", why);
        }
        Job { order, configuration, origin, why_back }
    }

    fn take_finished(&mut self) {
        if let (Some(active), Some(under_way)) =
            (self.devices.run_status.active(), self.control.under_way())
        {
            use Command::{Arm, Configure, Start};
            // Until a new run is open, the previous run is shown.
            let begins = matches!(under_way.request.command, Configure | Arm | Start);
            if !(begins && active.ended) {
                self.control.note_run(active.number);
            }
        }
        for result in self.control.take_finished() {
            self.state.tried = None;
            if let Some(before) = self.state.before.take()
                && result.status == Status::Failed
            {
                // A failed command leaves nothing behind.
                self.adopt(before);
            }
            self.note_first(&result);
            match result.command {
                Command::Pause if result.status == Status::Done => {
                    let at = Utc(self.clock.now_ns()).to_string();
                    self.state.paused = Some((result.who.clone(), at[11..16].to_owned() + " UTC"));
                }
                Command::Stop | Command::Reset | Command::Start => self.state.reported = None,
                _ => {}
            }
            let reason = result.reason.as_ref().map(ToString::to_string).unwrap_or_default();
            let (command, state) = (result.command.name(), result.state.name());
            match result.status {
                Status::Failed => {
                    tracing::error!(command, who = result.who, state, reason, "a command failed");
                }
                _ => tracing::info!(command, who = result.who, state, "a command is done"),
            }
            self.note_finished(&result);
            // RunStatus is set before waiting clients get their answers.
            self.state.next_look = None;
        }
    }

    /// Updates the view twice a second, and before the answer to a change, so that a client that
    /// reads it afterwards sees the change.
    pub(crate) fn look_when_due(&mut self) {
        let now = Instant::now();
        if self.state.next_look.is_none_or(|next| now >= next) {
            self.state.next_look = Some(now + LOOK_EVERY);
            self.look(self.clock.now_ns());
        }
    }

    fn look(&mut self, now_ns: u64) {
        if let Some(storing) = self.shared.storing.clone() {
            let (devices, schemas) = self.device_list();
            let meaning = self.watching.look_at_store(now_ns, &storing.seen(), &devices);
            return self.publish(now_ns, (None, None), (meaning, devices, schemas));
        }
        let active = self.devices.run_status.active();
        let open = active.as_ref().filter(|active| !active.ended);
        let (arrivals, cannot_receive) =
            match self.devices.run_status.arrivals().filter(|_| open.is_none()) {
                Some(Ok(arrivals)) => (Some(arrivals), None),
                Some(Err(why)) => (None, Some(why)),
                None => (None, None),
            };
        self.take_reports(now_ns, open);
        self.watch_recorded();
        self.begin_if_admitted(now_ns);
        let (devices, schemas) = self.device_list();
        let snapshot = active.as_ref().map(|active| Arc::new(active.observer.snapshot()));
        let socket_fills = open.map(|active| active.observer.socket_fills()).unwrap_or_default();
        let reason = self.control.reason().map(ToString::to_string);
        let under_way = self.control.under_way().map(|one| one.request.command);
        let hangs = open.is_some_and(|active| active.ending);
        let doing = under_way.map(|command| format!("{command} is under way"));
        let doing = doing.or_else(|| hangs.then(|| "the run's end is under way".to_owned()));
        let spills = self.spills(snapshot.as_deref());
        let ends = open.zip(snapshot.as_deref()).filter(|_| hangs);
        let why = ends.and_then(|(active, one)| held_up(active.number, one, &spills));
        let (doing, is_held_up) = (why.clone().or(doing), why.is_some());
        self.note_held_up(now_ns, why);
        let state = self.control.state();
        let of_run = self.recorder_state();
        let empty = (String::new(), String::new());
        let (who, since) = self.state.paused.as_ref().unwrap_or(&empty);
        // Data that arrive while a run ends say nothing about it any more, even if ending takes
        // longer than the command for it.
        use Command::{Disarm, Reset, Shutdown, Stop};
        let ends = |command| matches!(command, Stop | Disarm | Reset | Shutdown);
        let ending = hangs || under_way.is_some_and(ends);
        let flow = match (open.filter(|_| !ending), of_run) {
            (Some(_), State::Paused) => Run::Paused { who, since },
            (Some(_), State::Armed) if doing.is_none() => Run::Armed,
            (None, State::Configured) if doing.is_none() && arrivals.is_some() => Run::Configured,
            (None, State::Configured) if doing.is_none() && cannot_receive.is_some() => {
                Run::CannotReceive(cannot_receive.as_deref().unwrap_or_default())
            }
            (None, State::Idle) if doing.is_none() => Run::Unconfigured,
            (Some(active), State::Recording | State::Fault) => {
                Run::Recording { since_ns: now_ns.saturating_sub(active.recorded_since_ns) }
            }
            _ => Run::None(doing.as_deref()),
        };
        let addresses = active.as_ref().map(|active| &active.addresses[..]);
        let meaning = self.watching.look(&Moment {
            now_ns,
            run: open.map(|active| (active.number, active.recorded_since_ns)),
            snapshot: snapshot.as_deref(),
            flow,
            fault: reason.as_deref().filter(|_| state.is_broken() && !is_held_up),
            addresses: arrivals.as_ref().map(Arrivals::addresses).or(addresses).unwrap_or_default(),
            arrivals: arrivals.as_ref().map(Arrivals::now),
            socket_fills: &socket_fills,
            disk: self.shared.disk.space(),
            devices: &devices,
            front_ends: &self.devices.run_status.watched_front_ends(),
            unheard: &self.devices.run_status.unheard(),
            spills: &spills,
            interrupted_run: self.interrupted_run(now_ns),
        });
        self.publish(now_ns, (active, snapshot), (meaning, devices, schemas));
    }

    /// Does what alarms ask for, and shows the node.
    fn publish(
        &mut self,
        now_ns: u64,
        (active, snapshot): (Option<Active>, Option<Arc<catchment_recorder::Snapshot>>),
        (meaning, devices, schemas): (Meaning, Vec<api::Device>, shared::Schemas),
    ) {
        self.act(&meaning);
        let second = now_ns / 1_000_000_000;
        if second != self.state.second {
            self.state.second = second;
            let rates = &meaning.rates;
            self.shared.past.push(
                now_ns,
                [
                    rates.events_per_second,
                    rates.bytes_per_second,
                    rates.bytes_written_per_second,
                    rates.loss_per_second,
                ],
            );
        }
        let view = self.view(now_ns, active, snapshot, (meaning, devices, schemas));
        self.shared.show(view);
    }

    /// Checks values for properties of a device; gives the changes, and the text of the
    /// configuration in which they are to be made.
    pub(crate) fn patch(
        &self,
        path: &str,
        values: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<(EmulatorPatch, String), Problem> {
        let found =
            properties::of(path, &self.configuration, &self.devices.run_status, &self.shared)
                .ok_or_else(|| Problem::not_found(format_args!("device {path}")))?;
        self.at_rest()?;
        let patch = EmulatorPatch::of(&found, values).map_err(Problem::unprocessable)?;
        Ok((patch, self.shared.present().1))
    }

    /// Takes the configuration with changed properties of a device, if that is changed still which
    /// had the text `before`. The next run enters the new text as a version.
    pub(crate) fn change(
        &mut self,
        path: &str,
        changed: Option<(Version, String)>,
        who: &Who,
    ) -> Result<api::Device, Problem> {
        self.at_rest()?;
        if let Some((changed, before)) = changed {
            if self.shared.present().1 != before {
                return Err(Problem::conflict(
                    "the configuration was changed meanwhile: try again",
                ));
            }
            self.fits(&changed.configuration)?;
            self.adopt(changed);
        }
        tracing::info!(device = path, who = who.name, "properties are changed");
        self.state.next_look = None;
        let device = self.device_list().0.into_iter().find(|device| device.path == path);
        device.ok_or_else(|| Problem::not_found(format_args!("device {path}")))
    }

    /// Takes a configuration for the next run; returns the parts that are not applied.
    pub(crate) fn configure(&mut self, version: Version) -> Result<Vec<String>, Problem> {
        self.at_rest()?;
        self.fits(&version.configuration)?;
        let mut notes = Vec::new();
        if version.configuration.control != self.configuration.control {
            let note = "[control] has changed: it counts when the program is started anew";
            notes.push(note.to_owned());
        }
        if version.configuration.store.is_some() {
            let note = "the rules of alarms are read again; the rest of a storage node's file \
                counts when the program is started anew";
            notes.push(note.to_owned());
        }
        if self.devices.run_status.active().is_some_and(|active| !active.ended) {
            let note = "the run that is open goes on as it began; the next one has the new \
                configuration";
            notes.push(note.to_owned());
        }
        self.adopt(version);
        Ok(notes)
    }

    /// The configuration with which a command began must not change under it, nor be undone with
    /// it.
    fn at_rest(&self) -> Result<(), Problem> {
        let detail = |command| format!("{command} is under way: try again when it is done");
        let busy = self.control.under_way();
        busy.map_or(Ok(()), |busy| Err(Problem::conflict(detail(busy.request.command))))
    }

    fn adopt(&mut self, version: Version) {
        let Version { configuration, number, text } = version;
        let changed = self.watching.change(&configuration);
        if let Err(error) = changed {
            // The check of the configuration has already checked the rules.
            tracing::error!(%error, "the alarms' rules stay as they were");
        }
        let is_same = self.configuration.recorder.targets == configuration.recorder.targets;
        self.configuration = configuration;
        self.shared.set_present(number, text);
        if !is_same {
            self.forward();
        }
    }
}

/// Whether a text could be the path of a device.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = |name: &str| name.contains(|c| c != '.') && name.chars().all(plain);
    text.split('/').all(is_name)
}
