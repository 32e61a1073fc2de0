//! Front-ends between runs. Listeners stand as long as the node runs: a run takes them over with
//! their connections and sessions when it is armed, and gives them back when it has ended.
//!
//! ```text
//! receive-N of a run <-- settle_in -- Standby -- leave --> standby-N, between runs
//!                     -- leave -->            <-- settle_in --
//! ```
//!
//! The threads between runs work until a run that is armed binds its ports, so that senders are
//! answered while it is prepared.
//!
//! Both are the same agent (`receive.rs`) with the same sessions (`sessions/border.rs`). Between
//! runs it keeps nothing: fragments are counted by their front-end's name, and durable at once.
//!
//! A thread that receives connections without sessions beside those with sessions is not taken
//! over: its front-ends connect again.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Arrival, Egress, Flow, Ingress, Received};
use catchment_model::RunId;
use catchment_net::{Network, Readiness, TcpPort, TcpReceiver, TlsRule};
use catchment_runner::{Idle, Plan, SystemEntropy, ThreadEvents, Threads};
use catchment_telemetry::Clock;
use catchment_wire::Transport;
use catchment_wire::session::Service;
use parking_lot::Mutex;

use crate::config::RecorderConfig;
use crate::front_ends::FrontEnds;
use crate::live::Live;
use crate::recorder::RecorderError;
use crate::sessions::{OfRun, Sessions};
use crate::sockets::Sockets;
use crate::wiring::{self, Endpoint};

/// Where listeners and sessions are at home. Cheap to clone.
#[derive(Clone, Default)]
pub struct Standby(Arc<Shared>);

#[derive(Default)]
struct Shared {
    front_ends: Arc<FrontEnds>,
    /// What nobody works with now.
    parcels: Mutex<Vec<Parcel>>,
    /// The threads that work between runs, while there are some.
    working: Mutex<Option<Working>>,
    /// Whether the node ends.
    ends: AtomicBool,
}

/// Threads that work with listeners. Dropping it ends them.
struct Working {
    stop: Arc<AtomicBool>,
    threads: Threads,
}

/// The listeners of one thread, with their connections.
struct Parcel {
    place: Place,
    tcp: Option<TcpReceiver>,
    /// By port.
    sessions: Vec<Sessions>,
}

/// Which listeners: those of a recorder's receive agent, by its number, at these addresses, for
/// whom they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    agent: usize,
    ports: Vec<Port>,
}

/// What a connection was accepted for: another one would be refused, or misread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Port {
    service: Service,
    listeners: Vec<(SocketAddr, Vec<Network>, TlsRule)>,
}

/// A thread's place in a [`Standby`].
pub(crate) struct Home {
    standby: Standby,
    place: Place,
}

/// Listeners that are lent: they go home when they are dropped, if their sessions did.
pub(crate) struct Lent {
    tcp: Option<TcpReceiver>,
    home: Option<Home>,
}

impl Standby {
    /// The front-ends that are connected, or were.
    pub fn front_ends(&self) -> &Arc<FrontEnds> {
        &self.0.front_ends
    }

    /// Listens for front-ends until it is dropped, for no run. Those that a run has left go on.
    ///
    /// # Errors
    /// A thread that cannot be started. Addresses that cannot be bound are named in
    /// [`Standing::unheard`].
    pub fn stand(&self, config: &RecorderConfig) -> Result<Standing, RecorderError> {
        self.0.front_ends.enter(config, false);
        let placed = config.with_placeholder();
        let config = placed.as_ref().unwrap_or(config);
        let live = Arc::new(Live::new(config));
        let (clock, stop) = (Clock::start(), Arc::new(AtomicBool::new(false)));
        let events = Arc::new(Unheard);
        let threads = Threads::new(clock, Arc::clone(&live.threads), events);
        let mut sockets = Sockets::new(config, &live);
        sockets.add_connections(config.connections_admitted_max());
        // Dropping it at an error ends the threads that were started.
        let mut working = Working { stop, threads };
        let (unheard, addresses) = (Vec::new(), Vec::new());
        let (standby, stop) = (self.clone(), Arc::clone(&working.stop));
        let mut standing = Standing { unheard, addresses, standby, stop };
        for outside in wiring::outside(config, &live)? {
            let of_run = || OfRun {
                is_standby: true,
                run: RunId([0; 16]),
                number: 0,
                epoch: 0,
                entropy: Box::new(SystemEntropy),
                access: config.accesses(),
                live: Arc::clone(&live),
            };
            let Some(place) = Place::of(outside.agent, &outside.endpoints) else { continue };
            let tcp = match sockets.listeners(self, &place) {
                Ok(tcp) => tcp,
                Err(error) => {
                    let of = place.addresses().map(|address| address.to_string());
                    standing.unheard.push((of.collect::<Vec<_>>().join(", "), error.to_string()));
                    continue;
                }
            };
            let ports = 0..outside.endpoints.len();
            standing.addresses.extend(ports.flat_map(|port| tcp.addresses_of(port)));
            let (agent, readiness) = (outside.agent, tcp.readiness());
            let receive = outside.receive(tcp, &of_run, self.home(place), &standing.stop);
            let plan = plan(format!("standby-{agent}"), readiness);
            let what = "a thread that listens between runs";
            let system = |source| RecorderError::System { what, source };
            working.threads.spawn(receive, plan).map_err(system)?;
        }
        *self.0.working.lock() = Some(working);
        // What is left is nobody's by this configuration.
        self.clear();
        Ok(standing)
    }

    /// Ends the threads that work between runs: they leave their listeners.
    pub(crate) fn rest(&self) {
        let working = self.0.working.lock().take();
        drop(working);
    }

    /// The node ends: from now on, sessions end with what works with them.
    pub fn end(&self) {
        self.0.ends.store(true, Relaxed);
    }

    pub(crate) fn home(&self, place: Place) -> Home {
        Home { standby: self.clone(), place }
    }

    /// Lends the listeners at a place, if they are there. Others at one of its addresses are
    /// closed. Who works with them between runs ends.
    pub(crate) fn take(&self, place: &Place) -> Option<TcpReceiver> {
        self.rest();
        let mut parcels = self.0.parcels.lock();
        let is_other = |parcel: &Parcel| parcel.place != *place && parcel.place.shares(place);
        parcels.retain(|parcel| !is_other(parcel));
        parcels.iter_mut().find(|parcel| parcel.place == *place)?.tcp.take()
    }

    /// Closes the listeners at these addresses, which nobody works with.
    pub(crate) fn free(&self, addresses: &[SocketAddr]) {
        self.rest();
        let is_one = |parcel: &Parcel| parcel.place.has_one_of(addresses);
        self.0.parcels.lock().retain(|parcel| !is_one(parcel));
    }

    /// Closes the listeners that nobody works with.
    pub fn clear(&self) {
        let parcels = std::mem::take(&mut *self.0.parcels.lock());
        drop(parcels);
    }
}

impl Place {
    /// That of a receive agent's ports; none if it has no sessions, or other connections, too.
    pub(crate) fn of(agent: usize, ports: &[Endpoint<'_>]) -> Option<Self> {
        let connections = || ports.iter().filter(|port| port.transport.is_connections());
        let is_session = |port: &Endpoint<'_>| port.transport == Transport::Sessions;
        let is_one = connections().count() > 0 && connections().all(is_session);
        let port = |port: &Endpoint<'_>| {
            let further = port.further.iter();
            let further = further.map(|one| (one.address, one.from.clone(), one.access.tls));
            let own = (port.address, port.from.to_vec(), port.tls);
            let listeners = std::iter::once(own).chain(further).collect();
            Port { service: port.service, listeners }
        };
        let ports = connections().map(port).collect();
        is_one.then_some(Self { agent, ports })
    }

    /// The ports of a receiver.
    pub(crate) fn tcp_ports(&self) -> Vec<TcpPort> {
        let port = |port: &Port| TcpPort {
            addresses: port.listeners.iter().map(|&(address, ..)| address).collect(),
            takes_tls: true,
        };
        self.ports.iter().map(port).collect()
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.ports.iter().flat_map(|port| port.listeners.iter().map(|&(address, ..)| address))
    }

    /// Whether only one of the two can be bound.
    fn shares(&self, other: &Self) -> bool {
        self.agent == other.agent || self.has_one_of(&other.addresses().collect::<Vec<_>>())
    }

    fn has_one_of(&self, addresses: &[SocketAddr]) -> bool {
        self.addresses().any(|one| one.port() > 0 && addresses.contains(&one))
    }
}

impl Home {
    /// Whether sessions can go on there.
    pub(crate) fn is_open(&self) -> bool {
        !self.standby.0.ends.load(Relaxed)
    }

    /// The sessions whose listeners were lent.
    pub(crate) fn take_sessions(&self) -> Vec<Sessions> {
        let mut parcels = self.standby.0.parcels.lock();
        let found = parcels.iter().position(|parcel| parcel.place == self.place);
        found.map(|index| parcels.swap_remove(index).sessions).unwrap_or_default()
    }

    pub(crate) fn put_sessions(self, sessions: Vec<Sessions>) {
        let Self { standby, place } = self;
        standby.0.parcels.lock().push(Parcel { place, tcp: None, sessions });
    }
}

impl Lent {
    pub(crate) fn new(tcp: TcpReceiver, home: Option<Home>) -> Self {
        Self { tcp: Some(tcp), home }
    }
}

impl Deref for Lent {
    type Target = TcpReceiver;

    fn deref(&self) -> &TcpReceiver {
        self.tcp.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut TcpReceiver {
        self.tcp.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(Home { standby, place }) = &self.home else { return };
        let mut parcels = standby.0.parcels.lock();
        if let Some(parcel) = parcels.iter_mut().find(|parcel| parcel.place == *place) {
            parcel.tcp = self.tcp.take();
        }
    }
}

impl Egress for Lent {
    fn answer(&mut self, endpoint: usize, write: &mut dyn FnMut(&mut Vec<u8>)) {
        (**self).answer(endpoint, write);
    }

    fn close(&mut self, endpoint: usize) {
        (**self).close(endpoint);
    }
}

impl Ingress for Lent {
    fn poll(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        (**self).poll(sink)
    }

    fn end(&mut self, f: &mut dyn FnMut(usize, &[u8]) -> bool) {
        (**self).end(f);
    }

    fn lingers(&self) -> bool {
        (**self).lingers()
    }

    fn take_error(&mut self) -> Option<(Option<usize>, String)> {
        (**self).take_error()
    }
}

/// Listeners between runs, and the threads that work with them. Dropping it leaves them to the next
/// run.
#[derive(Debug)]
pub struct Standing {
    unheard: Vec<(String, String)>,
    addresses: Vec<SocketAddr>,
    standby: Standby,
    /// That of its threads.
    stop: Arc<AtomicBool>,
}

impl Standing {
    /// The addresses without a listener, and why.
    pub fn unheard(&self) -> &[(String, String)] {
        &self.unheard
    }

    /// Where it listens, with ports that the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // A run may have ended them, and others work by now.
        let is_own = |working: &mut Working| Arc::ptr_eq(&working.stop, &self.stop);
        let working = self.standby.0.working.lock().take_if(is_own);
        drop(working);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // A panic was printed when it happened; front-ends connect again.
        let _joined = self.threads.join();
    }
}

fn plan(name: String, readiness: Readiness) -> Plan {
    let (idle, park, may_be_left) = (Idle::default(), Box::new(readiness), false);
    Plan { name, cpu: None, priority: None, idle, park, may_be_left }
}

/// Threads that are late cost nothing here.
struct Unheard;

impl ThreadEvents for Unheard {
    fn unpinned(&self, _name: &str, _error: &dyn std::fmt::Display) {}

    fn failed(&self, _name: &str) {}
}

impl std::fmt::Debug for Standby {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standby").finish_non_exhaustive()
    }
}
