//! One session of a front-end: its logs, and what its sender is told.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::ANSWER_BYTES_MAX;
use catchment_builder::SourceNote;
use catchment_model::{Entry, RunId};
use catchment_net::LinkAccess;
use catchment_wire::event_link::Data;
use catchment_wire::session::{
    Answer, Bye, ByeReason, CONTROL_BYTES_MAX, Encoder, Fault, Grant, Grants, Hello, LogPing,
    LogPositions, Ping, Positions, Records, Welcome,
};

use crate::admission::{Opening, check_held};
use crate::commander::Commander;
use crate::front_ends::{FrontEnds, Stage};
use crate::ingest::Ingest;
use crate::link_log::{Log, Outside, Taken};
use crate::link_reserve::Skew;
use crate::live_link::LiveLink;
use crate::sessions::{DURABLE_EVERY_NS, POSITIONS_EVERY_NS};

/// Bytes of the longest message of items: the most that the specification has. A longer message
/// than a connection's buffer costs no memory, since it is taken while it comes.
pub(crate) const MESSAGE_BYTES_MAX: u32 = *catchment_wire::session::MESSAGE_BYTES_MAX.end();
/// How long events wait for a source whose connection fell silent without a word, and where it
/// ended without one: then its process is gone, or it is back at once.
const WAIT_ENDED_NS: u64 = 1_000_000_000;
/// The records of one message of grants, and of positions.
const GRANTS_MAX: usize = 255;
const POSITIONS_MAX: usize = 675;
/// A session is given up at so many framing faults between which nothing was taken.
const FAULTS_MAX: u32 = 3;
/// For how long after a ping that said so a buffer counts as full.
const FULL_NS: u64 = 10_000_000_000;

/// A session. It outlives its connections.
pub(crate) struct Session {
    pub(crate) name: String,
    /// Its hello, and the token in it.
    pub(crate) opening: Opening,
    pub(crate) token: Box<str>,
    /// The number that its sender drew.
    pub(crate) number: u64,
    /// What its data connections must show.
    pub(crate) ticket: [u8; 16],
    pub(crate) logs: Vec<Log>,
    /// How far they may be out of order.
    pub(crate) skew: Skew,
    /// The names of the logs, by which a resume is known.
    pub(crate) names: Vec<String>,
    /// Its connections, by endpoint.
    pub(crate) control: Option<usize>,
    pub(crate) data: Vec<Option<usize>>,
    /// The account of what belongs to no log alone.
    pub(crate) account: usize,
    /// The rest of the answer to its hello: the welcome, and the grants that follow it.
    pub(crate) welcome: Option<Welcome>,
    pub(crate) grants: Vec<Grant>,
    /// Why it ends: its last message.
    pub(crate) ended: Option<Ended>,
    pub(crate) commander: Commander,
    /// Where its logs were when its sender had stopped for the run.
    stop_at: Option<Vec<u64>>,
    run_number: u64,
    /// The run before, if it went on from there: its sender may not know of another one.
    pub(crate) told: RunId,
    /// How long events wait for its sources.
    pub(crate) wait: Wait,
    /// Whether the channels of others wait for its own, as for those of a connection that is held.
    is_waited: bool,
    /// The ping that was not answered; 0: none.
    pub(crate) cookie: u64,
    /// By log, the positions that were sent last.
    pub(crate) sent: Vec<(u64, u64)>,
    /// When that was, and whether more is durable since.
    positions_ns: u64,
    has_settled: bool,
    /// Framing faults since any item was taken, and the items that were taken at the last.
    faults: (u32, u128),
    /// For how long one of its buffers still counts as full of what is not durable.
    full_ns: u64,
    /// The run that has ended of which it held items, and how many.
    held: (RunId, u64),
    /// The log that has just said that a setting has changed.
    setting: Option<u32>,
}

/// How long events wait for the sources of a session, as far as its connections say.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// They are attached. If they end without a word, events wait for so long.
    Attached { then_ns: u64 },
    /// They have ended. Events wait for so long.
    Ended { ns: u64 },
    /// Events do not wait.
    Over,
}

/// Why a session or a connection ends.
pub(crate) struct Ended {
    /// None if the connection is closed without a message.
    pub(crate) bye: Option<Bye>,
    text: String,
}

impl Ended {
    pub(crate) fn new(reason: ByeReason, retry_ms: u32, detail: u64, text: String) -> Self {
        Self { bye: Some(Bye { reason, retry_ms, detail }), text }
    }

    pub(crate) fn silently() -> Self {
        Self { bye: None, text: String::new() }
    }

    pub(crate) fn done() -> Self {
        Self::new(ByeReason::DONE, 0, 0, String::new())
    }

    pub(crate) fn in_order() -> Self {
        Self::new(ByeReason::ENDING, 1_000, 0, "the run has ended".to_owned())
    }

    /// Its sender has to report what it holds of the run, and opens it again.
    pub(crate) fn run_ended() -> Self {
        Self::new(ByeReason::ENDING, 1, 0, "the run has ended".to_owned())
    }

    /// What a session that goes on has to know is in a welcome only.
    pub(crate) fn next_run() -> Self {
        Self::new(ByeReason::ENDING, 1, 0, "another run begins".to_owned())
    }

    pub(crate) fn no_token() -> Self {
        let text = "no token of the role source that admits this name".to_owned();
        Self::new(ByeReason::TOKEN, 0, 0, text)
    }

    pub(crate) fn needs_tls() -> Self {
        let text = "this listener takes no such connection in the clear: connect under TLS";
        Self::new(ByeReason::TLS_REQUIRED, 0, 0, text.to_owned())
    }

    pub(crate) fn too_many(what: &str, most: u32) -> Self {
        let text = format!("a session has at most {most} {what}");
        Self::new(ByeReason::TOO_MANY, 1_000, most.into(), text)
    }

    pub(crate) fn silent(ns: u64) -> Self {
        let ms = ns / 1_000_000;
        Self::new(ByeReason::SILENT, 1, ms, format!("nothing came for {ms} ms"))
    }

    pub(crate) fn malformed(message: u32, fault: &Fault) -> Self {
        Self::new(ByeReason::MALFORMED, 1_000, message.into(), fault.to_string())
    }

    /// The same, of a sender that is not to come again.
    pub(crate) fn given_up(message: u32, fault: &Fault) -> Self {
        Self::new(ByeReason::MALFORMED, 0, message.into(), fault.to_string())
    }

    /// Appends it as the last message of its side.
    pub(crate) fn write(&self, written: &mut u32, answer: &mut Vec<u8>) {
        if let Some(bye) = &self.bye {
            append(answer, written, |out, number| {
                Encoder::begin(out, number, bye).finish(&self.text, &[])
            });
        }
    }
}

/// Appends one message of control to an answer.
fn append(answer: &mut Vec<u8>, written: &mut u32, encode: impl FnOnce(&mut [u8], u32) -> usize) {
    let begin = answer.len();
    answer.resize(begin + CONTROL_BYTES_MAX as usize, 0);
    let bytes = encode(&mut answer[begin..], *written);
    answer.truncate(begin + bytes);
    *written = written.wrapping_add(1);
}

impl Session {
    /// A session that was admitted, and has no connection yet.
    pub(crate) fn new(
        (hello, token, run_number): (&Hello, &str, u64),
        names: Vec<String>,
        logs: Vec<Log>,
        opening: Opening,
    ) -> Self {
        let destinations = logs.iter().filter_map(|log| log.destination.ok());
        let account = destinations.map(|one| one.account as usize).min().unwrap_or(0);
        Self {
            name: hello.name.as_str().to_owned(),
            opening,
            token: token.into(),
            told: RunId([0; 16]),
            number: hello.session,
            ticket: [0; 16],
            logs,
            skew: Skew::default(),
            names,
            control: None,
            data: Vec::new(),
            account,
            welcome: None,
            grants: Vec::new(),
            ended: None,
            commander: Commander::new(hello, run_number),
            stop_at: None,
            run_number,
            wait: Wait::Attached { then_ns: WAIT_ENDED_NS },
            is_waited: false,
            cookie: 0,
            sent: Vec::new(),
            positions_ns: 0,
            has_settled: false,
            faults: (0, 0),
            full_ns: 0,
            held: (RunId([0; 16]), 0),
            setting: None,
        }
    }

    /// Why it ends by a framing fault in that message, and whether it is given up, since nothing
    /// was taken between this fault and those before.
    pub(crate) fn malformed(&mut self, message: u32, fault: &Fault) -> (Ended, bool) {
        self.forgive();
        let (faults, taken) = &mut self.faults;
        *faults = faults.saturating_add(1);
        *taken = self.logs.iter().map(|log| u128::from(log.taken)).sum();
        match self.faults.0 >= FAULTS_MAX {
            true => (Ended::given_up(message, fault), true),
            false => (Ended::malformed(message, fault), false),
        }
    }

    /// Whether it ends by a framing fault, which its sender has not been told yet.
    #[inline]
    pub(crate) fn is_malformed(&self) -> bool {
        let bye = self.ended.as_ref().and_then(|ended| ended.bye.as_ref());
        bye.is_some_and(|bye| bye.reason == ByeReason::MALFORMED)
    }

    /// Forgets its framing faults if something was taken since. Returns whether it does.
    pub(crate) fn forgive(&mut self) -> bool {
        let taken = || self.logs.iter().map(|log| u128::from(log.taken)).sum::<u128>();
        let forgives = self.faults.0 > 0 && taken() > self.faults.1;
        if forgives {
            self.faults.0 = 0;
        }
        forgives
    }

    /// How many items more its sender holds of a run that has ended than it had said before.
    pub(crate) fn holds(&mut self, run: RunId, items: u64) -> u64 {
        let before = if self.held.0 == run { self.held.1 } else { 0 };
        self.held = (run, items.max(before));
        items.saturating_sub(before)
    }

    /// So much time has passed. Returns whether one of its buffers is full of what is not durable,
    /// if that is new.
    pub(crate) fn pass_full(&mut self, passed_ns: u64) -> Option<bool> {
        let is_full = |log: &Log| {
            let unread = log.made.saturating_sub(log.taken);
            log.is_full && log.taken - log.durable > unread
        };
        let was_full = self.full_ns > 0;
        self.full_ns = match self.logs.iter().any(is_full) {
            true => FULL_NS,
            false => self.full_ns.saturating_sub(passed_ns),
        };
        let is_full = self.full_ns > 0;
        (is_full != was_full).then_some(is_full)
    }

    /// Whether its token still stands.
    pub(crate) fn is_admitted(&self, access: &LinkAccess) -> bool {
        access.admits(&self.token, &self.name)
    }

    /// Whether its sender has been gone for longer than events wait for it, and has sent nothing
    /// for this run: another one may deliver its sources.
    pub(crate) fn is_gone(&self) -> bool {
        self.control.is_none() && matches!(self.wait, Wait::Over) && self.is_outside()
    }

    /// Whether none of its logs has an item of the run. One that was refused has none in any.
    fn is_outside(&self) -> bool {
        let mut logs = self.logs.iter().filter(|log| log.destination.is_ok());
        logs.all(|log| log.outside_until == u64::MAX)
    }

    /// Counts what its sender held when its process ended, as far as that is known.
    pub(crate) fn count_lost(&self, ingest: &mut Ingest) {
        for log in &self.logs {
            if let Ok(destination) = log.destination {
                let lost = log.made.saturating_sub(log.taken);
                ingest.count(destination.account as usize, Entry::FragmentsLostSender, lost);
            }
        }
    }

    /// Says something about all its sources to the builder.
    pub(crate) fn say(&self, ingest: &mut Ingest, note: SourceNote) {
        self.logs.iter().for_each(|log| log.say(ingest, note));
    }

    /// Another session takes its place, which says itself that it has begun. Only what that does
    /// not deliver is gone: between two words of one source its events would close, and what the
    /// new session has of them would be late.
    pub(crate) fn leave_to(&self, ingest: &mut Ingest, next: &Self) {
        let source = |log: &Log| log.destination.ok().map(|one| one.source);
        let goes_on: BTreeSet<u32> = next.logs.iter().filter_map(source).collect();
        let is_gone = |log: &&Log| source(log).is_some_and(|source| !goes_on.contains(&source));
        let gone = self.logs.iter().filter(is_gone);
        gone.for_each(|log| log.say(ingest, SourceNote::Gone));
    }

    /// It goes on.
    pub(crate) fn attach(&mut self, ingest: &mut Ingest) {
        self.wait = Wait::Attached { then_ns: WAIT_ENDED_NS };
        self.set_waited(ingest, false);
        self.say(ingest, SourceNote::Attached);
    }

    /// Its sender ends it in order: nothing more will come.
    pub(crate) fn leave(&mut self) {
        self.wait = Wait::Attached { then_ns: 0 };
        self.ended.get_or_insert(Ended::done());
    }

    /// It is to end without a word of its sender, which is thought to be there: it is waited for
    /// then.
    pub(crate) fn end_silent(&mut self, ended: Ended, then_ns: u64) {
        if self.ended.is_none() {
            self.wait = Wait::Attached { then_ns };
            self.ended = Some(ended);
        }
    }

    /// Its connections have ended.
    pub(crate) fn detach(&mut self, ingest: &mut Ingest) {
        if let Wait::Attached { then_ns } = self.wait {
            self.wait = Wait::Ended { ns: then_ns };
            self.set_waited(ingest, true);
            self.say(ingest, SourceNote::Waited);
            if then_ns > 0 {
                self.awaited(ingest).for_each(|link| _ = link.waits.fetch_add(1, Relaxed));
            }
            self.pass_time(ingest, 0);
        }
    }

    /// So much time has passed in which connections were read.
    pub(crate) fn pass_time(&mut self, ingest: &mut Ingest, passed_ns: u64) {
        let Wait::Ended { ns } = self.wait else { return };
        let waited_ns = passed_ns.min(ns);
        let links = self.awaited(ingest);
        links.for_each(|link| _ = link.waited_ns.fetch_add(waited_ns, Relaxed));
        self.wait = Wait::Ended { ns: ns - waited_ns };
        if ns == waited_ns {
            self.wait = Wait::Over;
            self.set_waited(ingest, false);
            self.say(ingest, SourceNote::Gone);
        }
    }

    /// The counts of its sources for which others wait.
    fn awaited<'a>(&self, ingest: &'a Ingest) -> impl Iterator<Item = &'a LiveLink> {
        let logs = self.logs.iter().filter(|log| log.is_required);
        logs.filter_map(|log| ingest.link(log.destination.ok()?.account as usize))
    }

    /// A channel link does not promise, so that nothing can be said of it to the builder but that
    /// its connection is held.
    pub(crate) fn set_waited(&mut self, ingest: &Ingest, is_waited: bool) {
        if std::mem::replace(&mut self.is_waited, is_waited) == is_waited {
            return;
        }
        for log in self.logs.iter().filter(|log| log.samples.is_some()) {
            let destination = log.destination.iter();
            destination.for_each(|one| ingest.set_held(one.account as usize, is_waited));
        }
    }

    /// Goes on as the session that it was before the run, or in it. None of its connections has to
    /// be made again.
    pub(crate) fn follow(&mut self, ingest: &mut Ingest, former: Self) {
        let Self { logs, sent, commander, .. } = former;
        (self.ticket, self.cookie) = (former.ticket, former.cookie);
        (self.faults, self.full_ns, self.held) = (former.faults, former.full_ns, former.held);
        (self.control, self.data) = (former.control, former.data);
        (self.sent, self.commander) = (sent, commander.enter());
        for (log, former) in self.logs.iter_mut().zip(logs) {
            log.follow(former);
            // Which are of the run says a mark, or the first ping of a sender that is prepared.
            log.outside_until = u64::MAX;
        }
        self.logs.iter_mut().for_each(|log| log.begin(ingest, self.number));
        if self.control.is_none() {
            self.wait = Wait::Over;
            self.say(ingest, SourceNote::Gone);
        }
    }

    /// What came outside a run since it was asked last.
    pub(crate) fn take_outside(&mut self) -> Outside {
        let taken = self.logs.iter_mut().map(|log| std::mem::take(&mut log.outside));
        taken.fold(Outside::default(), |all, one| Outside {
            count: all.count + one.count,
            bytes: all.bytes + one.bytes,
        })
    }

    /// Takes all its connections from it.
    pub(crate) fn take_endpoints(&mut self) -> Vec<usize> {
        (self.welcome, self.ended, self.cookie) = (None, None, 0);
        self.grants.clear();
        self.skew.give_up();
        let data = self.data.iter_mut().filter_map(Option::take);
        data.chain(self.control.take()).collect()
    }

    /// Its connections break: what was not taken completely comes again.
    pub(crate) fn interrupt(&mut self, ingest: &mut Ingest) {
        for log in &mut self.logs {
            log.interrupt(ingest);
        }
    }

    /// Where what a data connection brought is counted if it belongs to no log.
    pub(crate) fn account_of(&self, connection: Option<u16>) -> usize {
        let mut logs = self.logs.iter().filter(|log| Some(log.connection) == connection);
        let destination = logs.find_map(|log| log.destination.ok());
        destination.map_or(self.account, |destination| destination.account as usize)
    }

    /// A data connection is held, or no longer: all its sources wait with it.
    pub(crate) fn set_held(&self, ingest: &Ingest, connection: u16, is_held: bool) {
        let logs = self.logs.iter().filter(|log| log.connection == connection);
        let destinations = logs.filter_map(|log| log.destination.ok());
        destinations.for_each(|one| ingest.set_held(one.account as usize, is_held));
    }

    /// Takes the items of a message of `used` bytes, of which some may have been taken when it was
    /// held.
    #[inline]
    pub(crate) fn take(
        &mut self,
        ingest: &mut Ingest,
        connection: u16,
        data: &Data<'_>,
        (used, was_held): (usize, bool),
    ) -> Result<Taken, Fault> {
        let number = match *data {
            Data::Fragments(ref message, ..) => message.log,
            Data::Part(ref part, _) => part.log,
            Data::Mark(ref mark, _) => mark.log,
            Data::Heartbeat(records) => {
                for heartbeat in records.iter() {
                    self.log(heartbeat.log, connection)?.take_heartbeat(ingest, &heartbeat)?;
                }
                self.heard(ingest, connection);
                return Ok(Taken::Continue(()));
            }
            Data::Attach(_) => return Ok(Taken::Continue(())),
        };
        let of_run = (self.run_number, self.commander.is_to_stop());
        let log = self.log(number, connection)?;
        let Ok(destination) = log.destination else {
            return Err(Fault::UnknownLog { got: number });
        };
        let taken = match *data {
            Data::Fragments(ref message, records, body) => {
                log.take_fragments(ingest, destination, (message, records, body), was_held)?
            }
            Data::Part(ref part, body) => {
                log.take_part(ingest, destination, (part, body), was_held)?
            }
            Data::Mark(ref mark, _) => {
                let changes_setting = log.changes_setting(mark);
                log.take_mark(ingest, mark, of_run)?;
                self.setting = changes_setting.then_some(number);
                Taken::Continue(())
            }
            Data::Heartbeat(_) | Data::Attach(_) => Taken::Continue(()),
        };
        if taken.is_continue() {
            let counts = ingest.counts(destination.account as usize);
            counts[Entry::PacketsReceived] += 1;
            counts[Entry::PacketBytesReceived] += used as u64;
            counts[Entry::PacketsAccepted] += 1;
        }
        Ok(taken)
    }

    /// Says which setting has changed, with the text of the mark that was just taken.
    pub(crate) fn tell_setting(&mut self, front_ends: &FrontEnds, text: &str) {
        let Some(log) = self.setting.take().map(|log| log as usize) else { return };
        let source = self.names.get(log).map_or("", String::as_str);
        let behind = self.logs.get(log).and_then(Log::last_key);
        front_ends.setting_changed(&self.name, (source, behind), text);
    }

    /// A message without items says that all sources of its connection are there: one that has
    /// nothing to send is not silent.
    fn heard(&self, ingest: &mut Ingest, connection: u16) {
        let logs = self.logs.iter().filter(|log| log.connection == connection);
        for destination in logs.filter_map(|log| log.destination.ok()) {
            let counts = ingest.counts(destination.account as usize);
            counts[Entry::PacketsReceived] += 1;
            counts[Entry::PacketsAccepted] += 1;
        }
    }

    /// The log with that number, if it is on that connection and was not refused.
    #[inline]
    pub(crate) fn log(&mut self, number: u32, connection: u16) -> Result<&mut Log, Fault> {
        let log = self.logs.get_mut(number as usize);
        let log = log.filter(|log| log.connection == connection && log.destination.is_ok());
        log.ok_or(Fault::UnknownLog { got: number })
    }

    /// Takes a ping.
    pub(crate) fn pinged(
        &mut self,
        front_ends: &FrontEnds,
        ping: &Ping,
        logs: Records<'_, LogPing>,
    ) -> Result<(), Fault> {
        for LogPing { log, made, flags, .. } in logs.iter() {
            let fault = Fault::UnknownLog { got: log };
            let log = self.logs.get_mut(log as usize).ok_or(fault)?;
            check_held(log.taken, made)?;
            log.made = log.made.max(made);
            log.is_full = flags & LogPing::FULL != 0;
        }
        self.cookie = ping.cookie;
        if self.commander.is_prepared_to_start(&self.name, front_ends) {
            // Where a log marks the begin, its mark says so.
            let logs = self.logs.iter_mut().filter(|log| !log.marks);
            logs.for_each(|log| log.outside_until = log.made);
        }
        if self.commander.stage() == Stage::Stopped && self.stop_at.is_none() {
            self.stop_at = Some(self.logs.iter().map(|log| log.made).collect());
        }
        Ok(())
    }

    /// Its sender has answered a command.
    pub(crate) fn answered(&mut self, front_ends: &FrontEnds, answer: Answer, text: &str) {
        self.commander.answered(&self.name, front_ends, answer, text);
        if self.commander.stage() != Stage::Stopped {
            self.stop_at = None;
        }
    }

    /// Whether all that its sender had made when it had stopped for the run was taken.
    pub(crate) fn is_drained(&self) -> bool {
        let is_taken = |(log, &made): (&Log, &u64)| log.destination.is_err() || log.taken >= made;
        self.stop_at.as_ref().is_some_and(|made| self.logs.iter().zip(made).all(is_taken))
    }

    /// Whether its sender holds nothing of the run that ends, as far as it has said. One that
    /// nobody has commanded has no end of the run to report, unless it is away.
    pub(crate) fn has_ended_run(&self) -> bool {
        let (takes_commands, stage) = (self.commander.takes_commands(), self.commander.stage());
        let is_commanded = takes_commands && stage != Stage::Free;
        // Where logs mark the begin, a sender that has started may hold all of the run's items.
        let has_begun = takes_commands && !matches!(stage, Stage::Free | Stage::Prepared);
        self.is_drained()
            || !has_begun && self.is_outside()
            || !is_commanded && self.control.is_some()
    }

    /// All items of a log below `durable` are.
    pub(crate) fn decided(&mut self, log: usize, session: u64, durable: u64) {
        let is_own = session == self.number;
        if let Some(log) = self.logs.get_mut(log).filter(|_| is_own) {
            let before = log.durable;
            log.durable = durable.min(log.taken).max(before);
            self.has_settled |= log.durable > before;
        }
    }

    /// What was taken outside a run is counted, and so it is durable.
    pub(crate) fn settle(&mut self) {
        self.logs.iter_mut().for_each(|log| log.durable = log.taken);
    }

    /// Whether its sender knows that all is durable, or cannot be told.
    pub(crate) fn is_settled(&self) -> bool {
        let is_told = |(log, &(_, durable)): (&Log, &(u64, u64))| durable == log.taken;
        self.control.is_none() || self.logs.iter().zip(&self.sent).all(is_told)
    }

    /// Whether its sender, which can be told, holds what was taken and is not durable.
    pub(crate) fn has_undecided(&self) -> bool {
        self.control.is_some() && self.logs.iter().any(|log| log.durable < log.taken)
    }

    /// Whether there is something to tell its sender.
    #[inline]
    pub(crate) fn has_answer(&mut self, now_ns: u64) -> bool {
        let every_ns = if self.has_settled { DURABLE_EVERY_NS } else { POSITIONS_EVERY_NS };
        let is_due = now_ns.saturating_sub(self.positions_ns) >= every_ns;
        if is_due {
            (self.positions_ns, self.has_settled) = (now_ns, false);
        }
        self.welcome.is_some()
            || !self.grants.is_empty()
            || self.cookie != 0
            || self.ended.is_some()
            || self.commander.is_due()
            || is_due && self.has_moved()
    }

    fn has_moved(&self) -> bool {
        let positions = self.logs.iter().map(|log| (log.taken, log.durable));
        positions.ne(self.sent.iter().copied())
    }

    /// Appends its messages, as many as one answer holds. Returns whether the last one is among
    /// them.
    pub(crate) fn write_answer(
        &mut self,
        (epoch, received, unread): (u32, [u64; 16], u16),
        run: ([u8; 16], u64),
        written: &mut u32,
        answer: &mut Vec<u8>,
    ) -> bool {
        if let Some(welcome) = self.welcome.take() {
            append(answer, written, |out, number| {
                Encoder::begin(out, number, &welcome).finish("", &[])
            });
        }
        while !self.grants.is_empty() && has_room(answer) {
            let now = self.grants.len().min(GRANTS_MAX);
            append(answer, written, |out, number| {
                let mut message = Encoder::begin(out, number, &Grants {});
                self.grants.drain(..now).for_each(|grant| assert!(message.push(&grant), "fits"));
                message.finish("", &[])
            });
        }
        if !self.grants.is_empty() {
            return false;
        }
        if has_room(answer) && self.commander.is_due() {
            append(answer, written, |out, number| self.commander.write((out, number), run));
        }
        while has_room(answer) && (self.cookie != 0 || self.has_moved()) {
            let cookie = std::mem::take(&mut self.cookie);
            let positions = Positions { cookie, epoch, unread, received };
            append(answer, written, |out, number| self.positions(out, number, &positions));
        }
        match self.ended.take() {
            Some(ended) if has_room(answer) => {
                ended.write(written, answer);
                true
            }
            ended => {
                self.ended = ended;
                false
            }
        }
    }

    /// A message with the positions that have moved, as many as it holds.
    fn positions(&mut self, out: &mut [u8], number: u32, positions: &Positions) -> usize {
        let mut message = Encoder::begin(out, number, positions);
        let logs = (0..).zip(&self.logs).zip(&mut self.sent);
        let moved = logs.filter(|((_, log), sent)| **sent != (log.taken, log.durable));
        for ((number, log), sent) in moved.take(POSITIONS_MAX) {
            let Log { taken, durable, .. } = *log;
            assert!(message.push(&LogPositions { log: number, flags: 0, taken, durable }), "fits");
            *sent = (taken, durable);
        }
        message.finish("", &[])
    }
}

/// Whether an answer holds another message.
fn has_room(answer: &[u8]) -> bool {
    answer.len() + CONTROL_BYTES_MAX as usize <= ANSWER_BYTES_MAX
}
