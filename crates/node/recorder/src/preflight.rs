//! Counts arriving data while no run is open, so that a missing detector is noticed before a run
//! begins.
//!
//! Nothing is decoded or kept, and the sockets are closed before a run opens its own. These counts
//! are in no ledger, since they belong to no run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use catchment_agent::{Agent, Arrival, Flow, Ingress, Work};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_runner::{Idle, Plan, ThreadEvents, Threads};
use catchment_telemetry::Clock;

use crate::allow_list::AllowList;
use crate::config::RecorderConfig;
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

/// Open sockets of all sources and links, and a thread that counts. Dropping it closes them.
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
        let sources = config.sources.iter().map(|one| (one.address, &one.from));
        let (addresses, allowed): (Vec<SocketAddr>, Vec<AllowList>) = sources
            .chain(config.links.iter().map(|one| (one.address, &one.from)))
            .map(|(address, from)| (address, AllowList::new(from)))
            .unzip();
        let receiver_config =
            ReceiverConfig { socket_buffer_bytes: SOCKET_BYTES, ..ReceiverConfig::default() };
        let mut receiver = UdpReceiver::bind(&addresses, receiver_config)?;
        for (socket, _) in allowed.iter().enumerate().filter(|(_, list)| list.restricts()) {
            receiver.name_senders(socket);
        }
        let arrivals = Arrivals {
            counters: addresses.iter().map(|_| Default::default()).collect(),
            addresses: (0..addresses.len()).map(|socket| receiver.local_addr(socket)).collect(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let plan = Plan {
            name: "preflight".into(),
            cpu: None,
            priority: None,
            idle: Idle { nap: GATHER, ..Idle::default() },
            park: Box::new(receiver.readiness()),
        };
        let count = Count {
            ingress: receiver,
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
        let _failed = self.threads.join();
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
    allowed: Vec<AllowList>,
    arrivals: Arrivals,
    stop: Arc<AtomicBool>,
}

impl<I: Ingress> Agent for Count<I> {
    fn work(&mut self, now_ns: u64) -> Work {
        let (counters, allowed) = (&self.arrivals.counters, &self.allowed);
        let received = self.ingress.poll(|Arrival { endpoint, sender, bytes }| {
            if allowed[endpoint].allows(sender) {
                counters[endpoint].0.fetch_add(1, Relaxed);
                counters[endpoint].1.fetch_add(bytes.len() as u64, Relaxed);
            }
            Flow::Taken
        });
        self.ingress.take_drops(|endpoint, drops| {
            counters[endpoint].0.fetch_add(drops, Relaxed);
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
