//! The receive agent: from datagrams and connections to fragments in chunks.
//!
//! For every message: decode it, copy each fragment to the end of its source's chunk, and pass on
//! a 24-byte descriptor (`ingest.rs`). The cycle here is the same for every protocol; the
//! [`Intake`] finds the fragments in messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, Arrival, Flow, Ingress, Piece, Received, Work};
use catchment_model::Entry;
use catchment_net::Network;

use crate::intake::Intake;
use crate::sessions::Sessions;
use crate::wiring::Endpoint;

/// The longest time to the next cycle while nothing arrives; the agent notices a stop within this
/// time.
const IDLE_NS: u64 = 20_000_000;
/// The same while senders hold what may be durable soon.
const UNDECIDED_NS: u64 = 2_000_000;
/// The same while the agent is stopping.
const STOPPING_NS: u64 = 1_000_000;
/// The time to the next cycle while the ring of descriptors is full, or a connection waits for
/// memory.
const NO_ROOM_NS: u64 = 200_000;
/// After the stop, sockets count as drained once they have been empty for this long, if all sources
/// have reached the same event and it is whole. Otherwise a sender has stalled, and the sockets
/// must have been empty for the builder's time-out, after which no event waits.
const DRAIN_QUIET_NS: u64 = 50_000_000;
/// How often the drop counts of the ingress are read.
const REFRESH_DROPS_EVERY_NS: u64 = 1_000_000_000;
/// How long sources that continue to send can delay the stop, once what stood in the sockets by
/// then is taken: a recorder that has fallen behind may need longer for that.
const DRAIN_MAX_NS: u64 = 1_500_000_000;
/// How long senders of sessions may take to read why their session ends.
const LINGER_NS: u64 = 1_500_000_000;
/// How long senders of sessions are told what is durable after the last descriptor.
const ANSWERED_WITHIN_NS: u64 = 10_000_000_000;

/// Receives from its share of the endpoints.
pub(crate) struct Receive {
    ingress: Box<dyn Ingress>,
    intake: Intake,
    /// Who may send to each port.
    allowed: Vec<AllowList>,
    /// Who sent a datagram to each port last.
    senders: Vec<Option<SocketAddr>>,
    stop: Arc<AtomicBool>,
    timeout_ns: u64,
    drops_asked_ns: u64,
    stage: Stage,
    /// Whether it has worked.
    has_begun: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Receiving,
    /// There is no run.
    Outside,
    /// The stop was requested: since when, since when nothing has arrived, and how much of what had
    /// arrived by then is not taken yet.
    Draining {
        since_ns: u64,
        quiet_ns: Option<u64>,
        left_bytes: u64,
    },
    /// The present contents of the endpoints are the last to be taken, unless they show that a
    /// sender continues.
    Last {
        since_ns: u64,
    },
    /// Only descriptors remain to be passed on.
    PassingOn,
    /// All are passed on; senders of sessions are told what is durable.
    Answering {
        until_ns: u64,
    },
    /// They have been told that the run has ended, and may still be reading.
    Lingering {
        until_ns: u64,
    },
}

impl Receive {
    /// The ports of the ingress are in the intake's order; `allowed` has the permitted senders of
    /// each.
    pub(crate) fn new(
        ingress: Box<dyn Ingress>,
        intake: Intake,
        allowed: Vec<AllowList>,
        stop: &Arc<AtomicBool>,
        timeout_ns: u64,
    ) -> Self {
        let (stop, stage) = (Arc::clone(stop), Stage::Receiving);
        let senders = vec![None; allowed.len()];
        let (drops_asked_ns, has_begun) = (0, false);
        Self {
            ingress,
            intake,
            allowed,
            senders,
            stop,
            timeout_ns,
            drops_asked_ns,
            stage,
            has_begun,
        }
    }

    /// The same, for the time between runs: sessions alone.
    pub(crate) fn outside(mut self) -> Self {
        self.stage = Stage::Outside;
        self
    }

    /// Takes what has arrived, as far as there is room for its descriptors. Also returns how many
    /// pieces came from permitted senders: datagrams that arrived together are one.
    fn take(&mut self) -> (Received, u64) {
        let Self { intake, allowed, senders, stage, .. } = self;
        let is_over = matches!(stage, Stage::Answering { .. } | Stage::Lingering { .. });
        let mut accepted = 0;
        let received = self.ingress.poll(&mut |Arrival { endpoint, sender, piece }| {
            if !intake.has_room(endpoint) {
                return if intake.put_off(endpoint) { Flow::Held } else { Flow::Paused };
            }
            match piece {
                Piece::Datagrams(_) if is_over => {}
                Piece::Datagrams(datagrams) if allowed[endpoint].allows(sender) => {
                    if senders[endpoint] != sender {
                        senders[endpoint] = sender;
                        intake.sender_changed(endpoint, sender);
                    }
                    accepted += 1;
                    return intake.datagrams(endpoint, datagrams);
                }
                Piece::Datagrams(datagrams) => {
                    datagrams.for_each(|bytes| reject(intake, endpoint, sender, bytes.len()));
                }
                // What it brings would be in no file.
                Piece::Opened { port, .. } if is_over && !intake.is_listener(port) => {
                    return Flow::Refused;
                }
                Piece::Opened { port, listener } if allowed[port].at(listener).allows(sender) => {
                    intake.open(endpoint, (port, listener), sender);
                }
                Piece::Opened { port, .. } => {
                    reject(intake, port, sender, 0);
                    return Flow::Refused;
                }
                Piece::Secured => intake.secured(endpoint),
                Piece::Bytes(bytes) => {
                    let flow = intake.message(endpoint, bytes);
                    let is_held = flow == Flow::Held && !intake.is_outside_run(endpoint);
                    let is_taken = matches!(flow, Flow::Used(_) | Flow::Into);
                    accepted += u64::from(is_held || is_taken);
                    return flow;
                }
                Piece::Incoming(source) => {
                    let (flow, bytes) = intake.receive(endpoint, source);
                    accepted += u64::from(bytes > 0);
                    return flow;
                }
                Piece::Closed { left } => intake.close(endpoint, left),
            }
            Flow::Taken
        });
        self.ingress.take_drops(&mut |port, drops| {
            let account = intake.account_of(port);
            intake.ingest().count(account, Entry::PacketsDroppedByKernel, drops);
        });
        if let Some((endpoint, error)) = self.ingress.take_error() {
            let source = endpoint.and_then(|endpoint| intake.source_of(endpoint));
            intake.ingest().warn_once(match source {
                Some(source) => format!("source {source}: receiving: {error}"),
                None => format!("receiving: {error}"),
            });
        }
        (received, accepted)
    }

    /// The stage of the stop after a cycle that accepted `accepted` pieces.
    fn next_stage(&mut self, now_ns: u64, received: &Received, accepted: u64) -> Stage {
        if !self.stop.load(Relaxed) {
            return Stage::Receiving;
        }
        let (since_ns, quiet_ns, left_bytes) = match self.stage {
            // The system may have said more than there is.
            Stage::Draining { since_ns, quiet_ns, .. } if received.arrivals == 0 => {
                (since_ns, quiet_ns, 0)
            }
            Stage::Draining { since_ns, quiet_ns, left_bytes } => {
                (since_ns, quiet_ns, left_bytes.saturating_sub(received.bytes))
            }
            _ => (now_ns, None, self.ingress.waiting_bytes()),
        };
        let quiet_ns = if accepted > 0 { None } else { quiet_ns.or(Some(now_ns)) };
        let quiet_for_ns = quiet_ns.map_or(0, |quiet| now_ns - quiet);
        let quiet = quiet_for_ns >= DRAIN_QUIET_NS
            && (quiet_for_ns >= self.timeout_ns || self.intake.is_settled());
        if quiet || left_bytes == 0 && self.is_over(now_ns, since_ns) {
            return Stage::Last { since_ns };
        }
        Stage::Draining { since_ns, quiet_ns, left_bytes }
    }

    /// Tells senders of sessions what is durable, until all is, or will not be in time.
    fn answer(&mut self, now_ns: u64, until_ns: u64) -> Work {
        let (received, _) = self.take();
        self.intake.answer(&mut *self.ingress);
        self.intake.ingest().pass_on();
        let is_settled = self.intake.sessions().all(|one| one.is_settled());
        if now_ns < until_ns && !is_settled {
            return Work::until(received.arrivals, now_ns + STOPPING_NS);
        }
        // In fault, they begin again.
        if is_settled && self.intake.leave() { Work::ended() } else { self.say_bye(now_ns) }
    }

    fn say_bye(&mut self, now_ns: u64) -> Work {
        self.intake.sessions().for_each(Sessions::say_bye);
        self.intake.answer(&mut *self.ingress);
        self.stage = Stage::Lingering { until_ns: now_ns + LINGER_NS };
        Work::again(1)
    }

    /// Takes what comes between runs, until the next one.
    fn stand_by(&mut self, now_ns: u64) -> Work {
        let (Received { arrivals, more, .. }, _) = self.take();
        self.intake.answer(&mut *self.ingress);
        self.intake.ingest().pass_on();
        match self.stop.load(Relaxed) {
            true if self.intake.leave() => Work::ended(),
            true => self.say_bye(now_ns),
            false if more => Work::again(arrivals),
            false => Work::until(arrivals, now_ns + IDLE_NS),
        }
    }

    /// Lets the senders of sessions read their last answers.
    fn linger(&mut self, now_ns: u64, until_ns: u64) -> Work {
        self.take();
        self.intake.answer(&mut *self.ingress);
        let is_open = self.intake.sessions().any(|one| one.has_connections());
        let is_over = !is_open && !self.ingress.lingers();
        match is_over || now_ns >= until_ns {
            true => Work::ended(),
            false => Work::until(0, now_ns + STOPPING_NS),
        }
    }

    /// Whether reception ends, whatever still arrives. The stop was at `since_ns`.
    fn is_over(&mut self, now_ns: u64, since_ns: u64) -> bool {
        now_ns - since_ns >= DRAIN_MAX_NS || self.intake.ingest().is_past_end()
    }
}

impl Agent for Receive {
    /// Receives until a stop is requested and the endpoints are empty, or have not become empty in
    /// time. The end of the ring tells the build agent.
    fn work(&mut self, now_ns: u64) -> Work {
        self.has_begun = true;
        self.intake.begin_cycle(now_ns, self.stop.load(Relaxed));
        match self.stage {
            Stage::PassingOn if !self.intake.ingest().pass_on() => {
                return Work::blocked_until(1, now_ns + NO_ROOM_NS);
            }
            Stage::PassingOn if self.intake.sessions().next().is_none() => return Work::ended(),
            Stage::PassingOn => {
                self.intake.ingest().end();
                self.stage = Stage::Answering { until_ns: now_ns + ANSWERED_WITHIN_NS };
                return Work::again(1);
            }
            Stage::Answering { until_ns } => return self.answer(now_ns, until_ns),
            Stage::Lingering { until_ns } => return self.linger(now_ns, until_ns),
            Stage::Outside => return self.stand_by(now_ns),
            _ => {}
        }
        // No later datagram reports the last drops of an endpoint.
        let mut last = matches!(self.stage, Stage::Last { .. });
        if last || now_ns.saturating_sub(self.drops_asked_ns) >= REFRESH_DROPS_EVERY_NS {
            self.ingress.refresh_drops();
            self.drops_asked_ns = now_ns;
        }
        let (received, accepted) = self.take();
        self.intake.answer(&mut *self.ingress);
        let Received { arrivals, more, held, paused, .. } = received;
        if let Stage::Last { since_ns } = self.stage
            && accepted > 0
            && !self.is_over(now_ns, since_ns)
        {
            // It arrived after the poll that found nothing: the rest of its event may follow.
            self.stage = Stage::Draining { since_ns, quiet_ns: None, left_bytes: 0 };
            last = false;
        }
        if !self.intake.ingest().pass_on() {
            return Work::blocked_until(received.arrivals, now_ns + NO_ROOM_NS);
        }
        if paused {
            return Work::again(arrivals);
        }
        // What a connection holds back for want of memory, or of a run, is not waited for.
        if !more {
            self.intake.ingest().has_emptied_endpoints();
        }
        if last {
            let Self { ingress, intake, .. } = self;
            // What has arrived of connections and was not taken is counted; but sessions go on in
            // the next run with what was not.
            ingress.end(&mut |endpoint, left| {
                let is_closed = !intake.is_of_session(endpoint);
                if is_closed {
                    intake.close(endpoint, left);
                }
                is_closed
            });
            intake.end();
            self.stage = Stage::PassingOn;
            return Work::again(1);
        }
        self.stage = self.next_stage(now_ns, &received, accepted);
        match self.stage {
            _ if more => Work::again(arrivals),
            _ if held => Work::until(arrivals, now_ns + NO_ROOM_NS),
            // Senders whose rings are full send nothing that would wake this thread.
            Stage::Receiving if self.intake.sessions().any(|one| one.has_undecided()) => {
                Work::until(arrivals, now_ns + UNDECIDED_NS)
            }
            Stage::Receiving => Work::until(arrivals, now_ns + IDLE_NS),
            Stage::Draining { .. } => Work::until(arrivals, now_ns + STOPPING_NS),
            _ => Work::again(1),
        }
    }
}

impl Drop for Receive {
    /// If the run did not come about, its sessions go on where they were.
    fn drop(&mut self) {
        if !self.has_begun {
            self.intake.leave();
        }
    }
}

/// Counts what came from a sender that may not send to that port.
#[cold]
fn reject(intake: &mut Intake, port: usize, sender: Option<SocketAddr>, bytes: usize) {
    let account = intake.account_of(port);
    intake.ingest().reject(account, sender.map(|sender| sender.ip()), bytes);
}

/// The networks that an endpoint takes datagrams or connections from; without any, it takes them
/// from everybody.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowList {
    own: Box<[Network]>,
    /// Those of its listeners beyond the first.
    further: Box<[Self]>,
}

impl AllowList {
    pub(crate) fn new(networks: &[Network]) -> Self {
        Self { own: networks.into(), further: Box::default() }
    }

    /// That of an endpoint.
    pub(crate) fn of(endpoint: &Endpoint<'_>) -> Self {
        let further = endpoint.further.iter().map(|listener| Self::new(&listener.from));
        Self { further: further.collect(), ..Self::new(endpoint.from) }
    }

    /// That of one of its listeners.
    fn at(&self, listener: usize) -> &Self {
        listener.checked_sub(1).map_or(self, |further| &self.further[further])
    }

    /// Whether senders must be known.
    pub(crate) fn restricts(&self) -> bool {
        !self.own.is_empty()
    }

    /// Whether a datagram of that sender is taken. One that is not known is allowed nothing where
    /// senders must be known.
    #[inline]
    pub(crate) fn allows(&self, sender: Option<SocketAddr>) -> bool {
        let within =
            |sender: SocketAddr| self.own.iter().any(|network| network.contains(sender.ip()));
        !self.restricts() || sender.is_some_and(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_networks_everybody_may_send_and_with_them_nobody_else() {
        let address = |text: &str| Some(SocketAddr::new(text.parse().ok()?, 5_000));
        assert!(AllowList::default().allows(None));
        let networks = ["10.0.0.0/8", "127.0.0.2"].map(|text| text.parse().unwrap());
        let list = AllowList::new(&networks);
        for (sender, allowed) in [("10.9.8.7", true), ("127.0.0.2", true), ("127.0.0.3", false)] {
            assert_eq!(list.allows(address(sender)), allowed, "{sender}");
        }
        assert!(!list.allows(None));
    }
}
