//! Forwarding to several storage nodes, which share the frames: those that are there get them.
//!
//! A node counts what it gets, and says how many items it has before it gets more. Nodes are not
//! asked which frames they have. What they had acknowledged when the stream was left is not read
//! again. If a program was killed after it forwarded part of a file, two nodes may get the same
//! frame: it has one identity, and readers take one.

use std::sync::Arc;

use catchment_sender::SenderState;

use super::forward::{Progress, STUCK};
use super::{Backlog, Spill};
use crate::store_link::{Happened, StoreLink};
use crate::store_nodes::{LiveNode, NodeShare, StoreNode, StoreNodes};

/// Bytes of which a share is under way to each node.
pub(crate) const HOLD_BYTES: u64 = 64 << 20;

/// A stream that is forwarded.
pub(super) struct Dealt {
    backlog: Backlog,
    nodes: StoreNodes,
    live: Vec<Arc<LiveNode>>,
    progress: Progress,
    /// Whether a node has acknowledged the run's end.
    has_end: bool,
    /// Why a session has ended.
    why: Option<String>,
}

impl Dealt {
    pub(super) fn new(spill: Spill, links: Vec<StoreLink>) -> Self {
        let live: Vec<Arc<LiveNode>> =
            links.iter().map(|link| Arc::new(LiveNode::new(&link.address))).collect();
        let (run, stream) = (spill.identity().run, spill.identity().stream);
        let mut nodes = StoreNodes::new(links, &live, HOLD_BYTES, (run, stream));
        nodes.rewind();
        let (backlog, progress) = (Backlog::new(spill), Progress::default());
        Self { backlog, nodes, live, progress, has_end: false, why: None }
    }

    pub(super) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// What each node has got.
    pub(super) fn shares(&self) -> Vec<NodeShare> {
        self.live.iter().map(|node| node.read()).collect()
    }

    /// Why no node takes anything now, if so.
    pub(super) fn away(&self) -> Option<String> {
        self.nodes.away().map(|why| format!("storage nodes {why}"))
    }

    /// What is left of it, and the number below which all is durable.
    pub(super) fn into_spill(self) -> (Spill, u64) {
        let below = self.backlog.dealt_below(&self.nodes);
        (self.backlog.spill, below)
    }

    /// Sends what there is to send. Returns how much was done, and the outcome at the end.
    pub(super) fn forward(
        &mut self,
        now_ns: u64,
        say: &mut dyn FnMut(String),
    ) -> (usize, Option<Result<(), String>>) {
        let indexes = 0..self.nodes.all.len();
        let mut moved: usize = indexes.map(|index| self.talk(index, now_ns, say)).sum();
        // That one of them is left out is no problem, as long as another takes its frames.
        let _dealt_again = self.nodes.look(now_ns);
        moved += self.backlog.deal(&mut self.nodes, say);
        let below = self.backlog.dealt_below(&self.nodes);
        self.backlog.spill.remove_below(below, now_ns).into_iter().for_each(say);
        let is_sent = self.backlog.is_read()
            && self.nodes.spilled().next().is_none()
            && !self.backlog.spill.keeps_forwarded();
        moved += self.send(is_sent);
        if is_sent && self.has_all_ended(now_ns) {
            return (moved, Some(Ok(())));
        }
        let durable = self.nodes.durable();
        let is_refused = self.nodes.all.iter().all(|node| node.has_ended);
        if is_refused || self.progress.is_stuck(now_ns, durable) {
            let why = self.why.take().or_else(|| self.away());
            return (moved, Some(Err(why.unwrap_or_else(|| STUCK.to_owned()))));
        }
        (moved, None)
    }

    /// Takes what a node says, and does what its session asks for.
    fn talk(&mut self, index: usize, now_ns: u64, say: &mut dyn FnMut(String)) -> usize {
        let node = &mut self.nodes.all[index];
        let mut moved = node.link.receive(now_ns);
        node.link.take_trouble().into_iter().for_each(say);
        if let Some(next) = node.link.attached() {
            node.go_on_at(next);
        }
        let sent = match node.link.session.is_open() {
            true => node.link.feed.sent_frames(),
            false => node.held.len(),
        };
        let count = node.durable_frames(sent);
        for _ in 0..count {
            self.nodes.drop_oldest(index, true);
        }
        let node = &mut self.nodes.all[index];
        node.link.feed.released(count);
        let (written, happened) = node.link.act();
        moved += written;
        if let Some(Happened::Ended(why)) = happened {
            node.has_ended = true;
            let address = &node.link.address;
            self.why = why.map(|why| format!("storage node {address}: {why}")).or(self.why.take());
        }
        moved
    }

    /// Sends what was dealt, and what is said at the end, if all frames are durable.
    fn send(&mut self, is_sent: bool) -> usize {
        let run_end = self.backlog.spill.run_end();
        let mut moved = 0;
        for node in &mut self.nodes.all {
            let close = run_end.filter(|_| is_sent).map(|end| node.end_item(end));
            if let Some(close) = close.filter(|_| node.link.session.is_open()) {
                node.link.session.made(close + 1);
                if node.link.session.durable() > close {
                    self.has_end = true;
                    node.link.session.finish();
                }
            }
            if is_sent && run_end.is_none() {
                node.link.session.finish();
            }
            moved += node.link.send(&node.held, close);
        }
        moved
    }

    /// Whether nothing is waited for. A node that is left out closes its files as those of a
    /// recorder that is gone; that the run has ended is said by another.
    fn has_all_ended(&self, now_ns: u64) -> bool {
        let is_said = self.has_end || self.backlog.spill.run_end().is_none();
        let mut all = self.nodes.all.iter();
        let is_away = |node: &StoreNode| matches!(node.link.session.state(), SenderState::Away(_));
        is_said && all.all(|node| node.has_ended || is_away(node) && node.is_left_out(now_ns))
    }
}
