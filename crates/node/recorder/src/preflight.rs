//! Counts arriving data while no run is open, so that a missing detector is noticed before a run
//! begins.
//!
//! Nothing is decoded or kept, and the sockets are closed before a run opens its own. These counts
//! are in no ledger, since they belong to no run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use catchment_agent::{Agent, Flow, Ingress, Work};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_runner::{Idle, Plan, ThreadEvents, Threads};
use catchment_telemetry::Clock;
use catchment_wire::Transport;

use crate::config::{RecorderConfig, SourceConfig};
use crate::receive::AllowList;
use crate::recorder::RecorderError;

/// How long datagrams gather before they are counted: a few times a second is enough and costs
/// little. Datagrams that a full socket drops meanwhile are counted, too.
const GATHER: Duration = Duration::from_millis(20);
const SOCKET_BYTES: usize = 1 << 20;
const IDLE_NS: u64 = 100_000_000;

/// The data that arrived for one source or link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Datagrams, those that the kernel dropped included.
    pub packets: u64,
    /// Bytes of the others.
    pub bytes: u64,
}

/// Open sockets of all sources and links that send datagrams, and a thread that counts. Dropping it
/// closes them. Ports for connections stay closed: data sent to them would be lost.
#[derive(Debug)]
pub struct Preflight {
    arrivals: Arrivals,
    stop: Arc<AtomicBool>,
    threads: Threads,
}

/// The counts of a [`Preflight`]; cheap to clone.
#[derive(Clone, Debug)]
pub struct Arrivals {
    counters: Arc<[(AtomicU64, AtomicU64)]>,
    addresses: Arc<[SocketAddr]>,
}

impl Preflight {
    /// Opens the sockets, with the networks from which each accepts datagrams, and begins to count.
    ///
    /// # Errors
    /// An address that cannot be bound, or a thread that cannot be started.
    pub fn start(config: &RecorderConfig) -> Result<Self, RecorderError> {
        let by_datagrams = |one: &SourceConfig| one.protocol.transport() == Transport::Datagrams;
        let sources = config.sources.iter().map(|one| (one.address, &one.from, by_datagrams(one)));
        let links = config.links.iter().map(|one| (one.address, &one.from, !one.is_session()));
        let mut addresses = Vec::new();
        let (mut own, mut bound, mut allowed) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (address, from, is_bound)) in sources.chain(links).enumerate() {
            addresses.push(address);
            if is_bound {
                own.push(number);
                bound.push(address);
                allowed.push(AllowList::new(from));
            }
        }
        let receiver_config =
            ReceiverConfig { socket_buffer_bytes: SOCKET_BYTES, ..ReceiverConfig::default() };
        let mut receiver = UdpReceiver::bind(&bound, receiver_config)?;
        for (socket, &number) in own.iter().enumerate() {
            addresses[number] = receiver.local_addr(socket);
            if allowed[socket].restricts() {
                receiver.name_senders(socket);
            }
        }
        let arrivals = Arrivals {
            counters: addresses.iter().map(|_| Default::default()).collect(),
            addresses: addresses.into(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let plan = Plan {
            name: "preflight".into(),
            cpu: None,
            priority: None,
            idle: Idle { nap: GATHER, ..Idle::default() },
            park: Box::new(receiver.readiness()),
            may_be_left: false,
        };
        let count = Count {
            ingress: receiver,
            numbers: own,
            allowed,
            arrivals: arrivals.clone(),
            stop: Arc::clone(&stop),
        };
        let mut threads = Threads::new(Clock::start(), Arc::default(), Arc::new(Unheard));
        let what = "a thread that counts what arrives";
        let system = |source| RecorderError::System { what, source };
        threads.spawn(count, plan).map_err(system)?;
        Ok(Self { arrivals, stop, threads })
    }

    /// A handle to the counts, also later ones.
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.clone()
    }
}

impl Drop for Preflight {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // Nothing in it can panic; if it did, only its counts would be lost.
        let _joined = self.threads.join();
    }
}

impl Arrivals {
    /// The counts since the sockets were opened: sources first, then links, in the order of the
    /// configuration.
    pub fn now(&self) -> Vec<Arrived> {
        let arrived = |(packets, bytes): &(AtomicU64, AtomicU64)| Arrived {
            packets: packets.load(Relaxed),
            bytes: bytes.load(Relaxed),
        };
        self.counters.iter().map(arrived).collect()
    }

    /// Where they arrive, with ports that the system chose; in the same order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Counts until told to stop.
struct Count<I> {
    ingress: I,
    /// Of each socket, the number of its source or link.
    numbers: Vec<usize>,
    allowed: Vec<AllowList>,
    arrivals: Arrivals,
    stop: Arc<AtomicBool>,
}

impl<I: Ingress> Agent for Count<I> {
    fn work(&mut self, now_ns: u64) -> Work {
        let (counters, numbers) = (&self.arrivals.counters, &self.numbers);
        let allowed = &self.allowed;
        let received = self.ingress.poll(&mut |arrival| {
            if allowed[arrival.endpoint].allows(arrival.sender) {
                let (packets, bytes) = &counters[numbers[arrival.endpoint]];
                packets.fetch_add(arrival.datagrams().count() as u64, Relaxed);
                bytes.fetch_add(arrival.bytes().len() as u64, Relaxed);
            }
            Flow::Taken
        });
        self.ingress.take_drops(&mut |socket, drops| {
            counters[numbers[socket]].0.fetch_add(drops, Relaxed);
        });
        if self.stop.load(Relaxed) {
            return Work::ended();
        }
        match received.more {
            true => Work::again(received.arrivals),
            false => Work::until(received.arrivals, now_ns + IDLE_NS),
        }
    }
}

/// While no run is open there is nothing to report; a run's own threads will.
struct Unheard;

impl ThreadEvents for Unheard {
    fn unpinned(&self, _name: &str, _error: &dyn std::fmt::Display) {}

    fn failed(&self, _name: &str) {}
}
