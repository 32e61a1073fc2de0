//! How a session opens: the sender describes itself and its logs, the recorder answers with what
//! it grants. docs/spec/session.md, section 4.

use catchment_wire::channel_link;
use catchment_wire::event_link::{self, SourceGrant};
use catchment_wire::session::{
    self as wire, Control, Fault, Fields, Grant, GrantAnswer, Hello, Logs, Preamble, Release,
    RunState, Service, Text, Welcome,
};

use crate::SenderConfig;
use crate::commands::Commands;
use crate::control::Outbox;
use crate::log::Log;
use crate::source::Source;

/// What a welcome has granted.
pub(crate) struct Agreed {
    pub run: [u8; 16],
    pub stream: u32,
    pub epoch: u32,
    pub ticket: [u8; 16],
    pub ping_ns: u64,
    pub silence_ns: u64,
    pub skew_bytes: u64,
    pub message_bytes_max: usize,
    pub run_number: u64,
    pub state: RunState,
    /// The run is paused, and the sender stops in a pause: no items are sent.
    pub is_paused: bool,
}

/// How far an opening is.
#[derive(Default)]
pub(crate) struct Opening {
    has_hello: bool,
    has_welcome: bool,
    /// Logs that were answered.
    granted: usize,
    /// Of each log that was described, the lowest sequence held and the items so far.
    offered: Vec<(u64, u64)>,
}

impl Opening {
    pub fn new(logs: usize) -> Self {
        Self { offered: Vec::with_capacity(logs), ..Self::default() }
    }

    /// It begins again, from the preamble on.
    pub fn begin(&mut self) {
        self.offered.clear();
        (self.has_hello, self.has_welcome, self.granted) = (false, false, 0);
    }

    /// Puts its next message into the outbox: the hello, then some of the logs.
    pub fn describe(
        &mut self,
        outbox: &mut Outbox,
        config: &SenderConfig,
        logs: &[Log],
        hello: impl FnOnce() -> Hello,
    ) {
        if !self.has_hello {
            self.has_hello = true;
            outbox.preamble(&preamble(config.service, wire::Connection::Control));
            outbox.send(&Control::Hello(hello(), &config.token));
        }
        let begin = self.offered.len();
        let end = logs.len().min(begin + LOGS_PER_MESSAGE);
        if begin == end {
            return;
        }
        let records = logs[begin..end].iter().map(|log| {
            let (first, made) = log.held();
            self.offered.push((first, made));
            let name = Text::new(&log.source.config().name).expect("the configuration is checked");
            let (service, connection) = (log.source.service(), log.connection);
            wire::Log { log: log.number, connection, first, made, service, name }
        });
        outbox.records(&Logs {}, records);
    }

    /// Takes the welcome. Returns false if it comes from a recorder whose stream has gone on
    /// elsewhere: one that was believed dead.
    pub fn take_welcome(
        &mut self,
        welcome: &Welcome,
        session: u64,
        logs: usize,
        agreed: &mut Agreed,
    ) -> Result<bool, Fault> {
        if self.has_welcome {
            return Err(Fault::Connection { got: <Welcome as wire::Fixed>::TYPE });
        }
        exactly("log_count", welcome.log_count.into(), logs as u64)?;
        exactly("session", welcome.session, session)?;
        let is_same = welcome.run == agreed.run && welcome.stream == agreed.stream;
        if is_same && welcome.epoch < agreed.epoch {
            return Ok(false);
        }
        self.has_welcome = true;
        *agreed = Agreed {
            run: welcome.run,
            stream: welcome.stream,
            epoch: welcome.epoch,
            ticket: welcome.ticket,
            ping_ns: u64::from(welcome.ping_ms) * 1_000_000,
            silence_ns: u64::from(welcome.silence_ms) * 1_000_000,
            skew_bytes: welcome.skew_bytes,
            message_bytes_max: welcome.message_bytes_max as usize,
            run_number: welcome.run_number,
            state: welcome.state,
            is_paused: false,
        };
        Ok(true)
    }

    /// Takes the answer to the next log. Returns how many items that log gives up, since its run
    /// has ended.
    pub fn take_grant(
        &mut self,
        grant: &Grant,
        logs: &mut [Log],
        release: Release,
    ) -> Result<u64, Fault> {
        let Some(&(first, made)) = self.offered.get(self.granted).filter(|_| self.has_welcome)
        else {
            return Err(Fault::Connection { got: <wire::Grants as wire::Fixed>::TYPE });
        };
        exactly("log", grant.log.into(), self.granted as u64)?;
        let log = &mut logs[self.granted];
        self.granted += 1;
        if grant.answer == GrantAnswer::Refused {
            let reason = format!("the recorder refuses the source: {}", grant.reason);
            log.is_refused = true;
            log.source.end(&reason.into());
            return Ok(0);
        }
        let is_ended = grant.answer == GrantAnswer::RunEnded;
        within("next", grant.next, if is_ended { made } else { first }, made)?;
        log.grant(SourceGrant::read(&grant.service)?.fragment_bytes_max);
        let items = if is_ended { log.give_up(grant.next, grant.durable) } else { 0 };
        log.resume(grant.next);
        // More room is told for all logs together.
        let _released = log.settle(grant.next, grant.durable, release == Release::Taken);
        Ok(items)
    }

    /// Whether all logs are answered.
    pub fn is_complete(&self, logs: usize) -> bool {
        self.granted == logs
    }
}

impl Default for Agreed {
    fn default() -> Self {
        Self {
            run: [0; 16],
            stream: 0,
            epoch: 0,
            ticket: [0; 16],
            ping_ns: 500_000_000,
            silence_ns: 2_500_000_000,
            skew_bytes: 0,
            message_bytes_max: *wire::MESSAGE_BYTES_MAX.start() as usize,
            run_number: 0,
            state: RunState::None,
            is_paused: false,
        }
    }
}

/// The first message of a session that holds what `logs` hold.
pub(crate) fn hello(
    config: &SenderConfig,
    session: u64,
    run: [u8; 16],
    commands: &Commands,
    logs: &[Log],
    data_connections: usize,
) -> Hello {
    let name = Text::new(&config.name).expect("the configuration is checked");
    let program = Text::new(&config.program).expect("the configuration is checked");
    let is_shared = logs.len() > data_connections;
    let holds_run = logs.iter().any(Log::holds_run);
    let sources = logs.iter().map(|log| &log.source);
    Hello {
        session,
        run: if holds_run { run } else { [0; 16] },
        features: 0,
        buffer_bytes: sources.map(Source::ring_bytes).sum(),
        skew_bytes: if is_shared { config.skew_bytes } else { 0 },
        buffer_ms: config.buffer_ms,
        log_count: logs.len() as u32,
        data_connections: data_connections as u16,
        release: config.release,
        flags: Hello::ANSWERS | if config.stops_in_pause { Hello::STOPS_IN_PAUSE } else { 0 },
        stage: commands.stage,
        stage_run: commands.stage_run,
        command: commands.last,
        name,
        program,
    }
}

/// A connection's first bytes.
pub(crate) fn preamble(service: Service, connection: wire::Connection) -> Preamble {
    let version = match service {
        Service::Channels => channel_link::VERSION,
        _ => event_link::VERSION,
    };
    Preamble {
        session_min: wire::VERSION,
        session_max: wire::VERSION,
        service,
        service_min: version,
        service_max: version,
        connection,
    }
}

/// Checks a value that the session knows bounds of.
pub(crate) fn within(field: &'static str, got: u64, min: u64, max: u64) -> Result<(), Fault> {
    if (min..=max).contains(&got) { Ok(()) } else { Err(Fault::Bound { field, min, max, got }) }
}

fn exactly(field: &'static str, got: u64, expected: u64) -> Result<(), Fault> {
    within(field, got, expected, expected)
}

/// Logs of a message: as many as fit.
const LOGS_PER_MESSAGE: usize = 127;
