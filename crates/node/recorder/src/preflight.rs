//! Counts what arrives while no run is open: whether a detector is there is seen before a run
//! begins.
//!
//! Nothing is decoded or kept, and the sockets are closed before a run opens its own. What is
//! counted here stands in no ledger, since it belongs to no run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use catchment_net::{ReceiverConfig, UdpReceiver};

use crate::config::RecorderConfig;
use crate::recorder::RecorderError;

/// How long datagrams gather before they are looked at: a few times a second is enough, and costs
/// little. What a full socket drops meanwhile is counted, too.
const GATHER_US: u64 = 20_000;
const SOCKET_BYTES: usize = 1 << 20;
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// What has arrived for one source or link.
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
    thread: Option<JoinHandle<()>>,
}

/// What a [`Preflight`] has counted; cheap to clone.
#[derive(Clone, Debug)]
pub struct Arrivals {
    counters: Arc<[(AtomicU64, AtomicU64)]>,
    addresses: Arc<[SocketAddr]>,
}

impl Preflight {
    /// Opens the sockets, with the networks that each takes datagrams from, and begins to count.
    ///
    /// # Errors
    /// An address that cannot be had, or no thread.
    pub fn start(config: &RecorderConfig) -> Result<Self, RecorderError> {
        let sources = config.sources.iter().map(|one| (one.address, &one.from));
        let doors: Vec<_> =
            sources.chain(config.links.iter().map(|one| (one.address, &one.from))).collect();
        let addresses: Vec<SocketAddr> = doors.iter().map(|(address, _)| *address).collect();
        let receiver_config = ReceiverConfig {
            coalesce_us: GATHER_US,
            socket_buffer_bytes: SOCKET_BYTES,
            ..ReceiverConfig::default()
        };
        let mut receiver = UdpReceiver::bind(&addresses, receiver_config)?;
        for (socket, (_, from)) in doors.iter().enumerate() {
            receiver.restrict(socket, from);
        }
        let arrivals = Arrivals {
            counters: doors.iter().map(|_| Default::default()).collect(),
            addresses: (0..doors.len()).map(|socket| receiver.local_addr(socket)).collect(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (counted, stopped) = (arrivals.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("preflight".into());
        let thread = thread.spawn(move || count(receiver, &counted, &stopped));
        let what = "a thread that counts what arrives";
        let thread = thread.map_err(|source| RecorderError::System { what, source })?;
        Ok(Self { arrivals, stop, thread: Some(thread) })
    }

    /// What has been counted, also later.
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.clone()
    }
}

impl Drop for Preflight {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing that could panic; if it did, nothing was lost but its counts.
            let _ended = thread.join();
        }
    }
}

impl Arrivals {
    /// Since the sockets were opened: sources first, then links, as they are configured.
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

fn count(mut receiver: UdpReceiver, arrivals: &Arrivals, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let work = receiver.poll(IDLE_WAIT, |socket, datagram| {
            let (packets, bytes) = &arrivals.counters[socket];
            packets.fetch_add(1, Relaxed);
            bytes.fetch_add(datagram.len() as u64, Relaxed);
        });
        if work.is_err() {
            // Nobody can wait for the sockets any more: they look silent, and the run's own will
            // say why.
            return;
        }
        receiver.take_drops(|socket, drops| {
            arrivals.counters[socket].0.fetch_add(drops, Relaxed);
        });
        receiver.take_refused(|_, _| ());
    }
}
