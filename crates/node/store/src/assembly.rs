//! The agents of a storage node with ports of the caller's choice, for callers that step them in
//! one thread and in virtual time. They are made by the same code as those that a
//! [`Node`](crate::Node) has on threads. What a node does with the folders of its streams it does
//! here, too: they are real ones, and what stands in a caller's stores is there when an order is
//! carried out.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, Entropy, FolderStore, Ingress, Waker};
use catchment_disk::DiskError;
use crossbeam_channel::{Receiver, Sender, bounded};

use crate::config::StoreConfig;
use crate::host::{Begun, HasEnded, Host, HostDisks};
use crate::node::{Manager, ORDERS_MAX};
use crate::receive::{Answer, Order, Receive, ReceiveParts};
use crate::state::{NodeObserver, NodeState};
use crate::writer::Writer;

/// The inputs of an [`Assembly`] beside its configuration.
pub struct AssemblyParts<S> {
    /// What recorders send.
    pub ingress: Box<dyn Ingress>,
    /// Makes a source of random bits.
    pub entropy: Box<dyn FnMut() -> Box<dyn Entropy>>,
    /// Makes the store of a stream's folder.
    pub store: Box<dyn FnMut(&Path) -> S>,
}

/// The agents of a storage node, and what it does for them.
pub struct Assembly<S: FolderStore + 'static> {
    manager: Manager<Stepped<S>>,
    orders: Receiver<Order>,
    answers: Sender<Answer>,
    state: Arc<NodeState>,
    stop: Arc<AtomicBool>,
}

/// The writer of a stream. It writes until it is dropped.
pub struct SteppedWriter {
    /// Its name: that of its stream, behind `write-`.
    pub name: String,
    /// The agent.
    pub agent: Box<dyn Agent>,
    /// Set when it has something to do.
    pub woken: Arc<AtomicBool>,
}

impl<S: FolderStore + 'static> Assembly<S> {
    /// Makes a node, and the agent that takes what recorders send.
    pub fn new(config: StoreConfig, parts: AssemblyParts<S>) -> (Self, Box<dyn Agent>) {
        let AssemblyParts { ingress, mut entropy, store } = parts;
        let state = Arc::new(NodeState::new(config.memory_bytes, &config.folders));
        let stop = Arc::new(AtomicBool::new(false));
        let (orders, ordered) = bounded(ORDERS_MAX);
        let (answers, answers_out) = bounded(ORDERS_MAX);
        let receive = Receive::new(ReceiveParts {
            ingress,
            entropy: entropy(),
            state: Arc::clone(&state),
            orders,
            answers: answers_out,
            stop: Arc::clone(&stop),
            close_after_ns: config.close_after_ns,
            access: config.access.clone(),
        });
        let host = Stepped { now_ns: 0, entropy, store, begun: Vec::new() };
        let manager = Manager::new(config, host, Arc::clone(&state));
        let assembly = Self { manager, orders: ordered, answers, state, stop };
        (assembly, Box::new(receive))
    }

    /// Whether the agent has ordered something.
    pub fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Does what was ordered, and returns the writers that are to be called from now on.
    pub fn carry_out(&mut self, now_ns: u64) -> Vec<SteppedWriter> {
        self.manager.host.now_ns = now_ns;
        for order in self.orders.try_iter() {
            let answer = self.manager.carry_out(order);
            // An agent that has ended wants no answer.
            let _is_wanted = self.answers.try_send(answer).is_ok();
        }
        std::mem::take(&mut self.manager.host.begun)
    }

    /// Sees the node.
    pub fn observer(&self) -> NodeObserver {
        NodeObserver(Arc::clone(&self.state))
    }

    /// Tells the agents to end, as [`Node::stop`](crate::Node::stop) does.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }
}

/// Writers that a caller steps.
struct Stepped<S> {
    now_ns: u64,
    entropy: Box<dyn FnMut() -> Box<dyn Entropy>>,
    store: Box<dyn FnMut(&Path) -> S>,
    begun: Vec<SteppedWriter>,
}

impl<S: FolderStore + 'static> Host for Stepped<S> {
    type Store = S;
    type Park = Arc<AtomicBool>;

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn entropy(&mut self) -> Box<dyn Entropy> {
        (self.entropy)()
    }

    fn disks(
        &mut self,
        folders: &[PathBuf],
        _config: &StoreConfig,
    ) -> Result<HostDisks<Self>, DiskError> {
        let stores = folders.iter().map(|folder| (self.store)(folder)).collect();
        let park = Arc::new(AtomicBool::new(false));
        let woken = Arc::clone(&park);
        let waker = Waker::new(move || woken.store(true, Relaxed));
        Ok(HostDisks { stores, waker, park })
    }

    fn begin(
        &mut self,
        stream: &str,
        writer: Writer<S>,
        woken: Arc<AtomicBool>,
    ) -> io::Result<HasEnded> {
        let (begun, has_ended) = Begun::new(writer);
        let (name, agent) = (format!("write-{stream}"), Box::new(begun));
        self.begun.push(SteppedWriter { name, agent, woken });
        Ok(has_ended)
    }

    fn end(&mut self) -> Option<String> {
        // A writer that panics takes its caller with it.
        None
    }
}
