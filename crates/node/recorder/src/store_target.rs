//! A target that is a storage node, or several that share its frames (store_nodes.rs): frames go
//! there over the network, and count as recorded and durable when the node says that they are
//! durable.
//!
//! Each frame is held, with its encoded columns, until then: a connection that breaks, or a node
//! that is restarted, gets the rest again. What is held counts in the target's queue, whose bound
//! is `targets.hold_bytes` (a best-effort target: `queue_bytes`): where it is spent, a required
//! target has frames wait, as a slow disk has. The oldest frame does not count, so that one that
//! is larger than the bound goes, too.
//!
//! A required target may have a spill (spilling.rs): frames that the node does not take for
//! `AWAY_NS`, or that take half of the bound, are written there, oldest first, and count as
//! recorded and durable once they are synced. They go to the node before those that are held, and
//! in the order of their numbers. A spill that is full, or whose disk fails, is no spill until it
//! has room. If several nodes share the frames, it gets some only where none of them takes any.
//!
//! ```text
//! durable at the node | spilled              | held
//! ..  40  41          | 42 .. 57   58 .. 63  | 64  65  66 <- the frames agent
//!                            ^ sent: files that the node has whole are removed
//! ```
//!
//! Without a spill, a node that is away is ridden out in memory; if others share the frames, they
//! get what is held for it. One that refuses the stream (a token, another run of that name) is a
//! fault, if none is left: what is held is discarded and counted, and so is what comes.
//!
//! Once the run is to end, the target waits as long as the node gets on. It gives up what is held,
//! and names why, when the node has been *blocked* for `end_wait_ns`: it cannot be reached, or says
//! that it can write nothing. One that can be reached and says no such thing has [`END_NS`] from
//! the last frame that became durable. With a spill that has room, the run ends at once, and what
//! is spilled is forwarded later (spill/forward.rs).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{Agent, FileId, Work};
use catchment_model::Entry;
use catchment_writer::{FrameEncoder, StoreFile};
use crossbeam_channel::TryRecvError;

use crate::column_bytes::ColumnBytes;
use crate::frames::{FrameHead, SharedColumn};
use crate::live::State;
use crate::settlement::BegunFrame;
use crate::spill::Backlog;
use crate::store_feed::{Held, HeldColumn, Outgoing};
use crate::store_link::Happened;
use crate::store_nodes::{StoreNodes, StoreParts};
use crate::target_ledger::TargetLedger;
use crate::target_queue::{Answer, Item, TargetInput};

mod spilling;

pub(crate) use spilling::{IN_MEMORY, RETRY_NS, STUCK_NS, SpillParts};

/// The longest time to the next cycle while nothing happens.
const IDLE_NS: u64 = 5_000_000;
/// Bytes of spilled frames sent in one cycle.
const CYCLE_BYTES: usize = 4 << 20;
/// Items taken from the queue in one cycle.
const CYCLE_ITEMS: usize = 256;
/// How long the end of a run waits for a node by which nothing becomes durable.
const END_NS: u64 = 60_000_000_000;
/// The node's place in the settlement, which knows files.
const PLACE: StoreFile = StoreFile { store: 0, id: FileId(0) };

/// That a node takes nothing.
struct Blocked {
    since_ns: u64,
    /// What was durable then.
    durable: u64,
}

/// A target's state.
pub(crate) struct StoreTarget {
    now_ns: u64,
    input: TargetInput,
    ledger: TargetLedger,
    /// With what is held. The newest frame may still get columns.
    nodes: StoreNodes,
    spill: Option<SpillParts>,
    /// What was spilled, once something was.
    backlog: Option<Backlog>,
    /// Whether the link sends spilled frames, and held ones afterwards.
    sends_backlog: bool,
    /// When the spill is tried again.
    spill_at_ns: u64,
    /// Since when the oldest frame that is held waits.
    waits_ns: u64,
    /// Whether the columns of a frame that was refused are on their way.
    discards: bool,
    last: Option<(Arc<FrameHead>, Vec<SharedColumn>)>,
    encoder: FrameEncoder<ColumnBytes>,
    /// The number after those of all frames so far.
    end: u64,
    /// The number of the stream's end, once all frames are there.
    close: Option<u64>,
    /// Since when the run is to end, or when something became durable later.
    durable_ns: Option<u64>,
    /// What was durable at the node when it was last asked.
    durable: u64,
    end_wait_ns: u64,
    /// Why the node takes nothing now.
    away: Option<String>,
    /// Since when that is so, but for moments in which nothing became durable.
    blocked: Option<Blocked>,
    /// Why the node takes nothing more.
    refusal: Option<String>,
    /// Whether more may come from the frames agent.
    is_fed: bool,
}

impl StoreTarget {
    /// `end` is the number of the first frame.
    pub(crate) fn new(
        input: TargetInput,
        ledger: TargetLedger,
        node: StoreParts,
        end: u64,
    ) -> Self {
        let live = &ledger.of_target().nodes;
        let of_run = (node.run, ledger.stream());
        let mut nodes = StoreNodes::new(node.links, live, node.hold_bytes, of_run);
        if end > 0 && nodes.are_several() {
            nodes.rewind();
        }
        Self {
            now_ns: 0,
            input,
            ledger,
            nodes,
            spill: node.spill,
            backlog: None,
            sends_backlog: false,
            spill_at_ns: 0,
            waits_ns: 0,
            discards: false,
            last: None,
            encoder: FrameEncoder::new(None),
            end,
            close: None,
            durable_ns: None,
            durable: 0,
            end_wait_ns: node.end_wait_ns,
            away: None,
            blocked: None,
            refusal: None,
            is_fed: true,
        }
    }

    /// Takes what waits in the queue. Returns how many items.
    fn take_items(&mut self) -> usize {
        for taken in 0..CYCLE_ITEMS {
            match self.input.next() {
                Ok(Item::Begin(head)) => self.begin(head),
                Ok(Item::NotTaken(frames)) => self.ledger.not_taken(&frames),
                Ok(Item::Column(column)) if self.discards => self.input.copied(column),
                Ok(Item::End(_)) if self.discards => self.discards = false,
                Ok(Item::Column(column)) => self.take_column(column),
                Ok(Item::End(lowered)) => self.end_frame(&lowered),
                Ok(Item::Last(head, columns)) => {
                    self.last = Some((self.ledger.carry(&head), columns));
                }
                Err(TryRecvError::Empty) => return taken,
                Err(TryRecvError::Disconnected) => {
                    self.end_stream();
                    return taken;
                }
            }
        }
        CYCLE_ITEMS
    }

    fn begin(&mut self, head: Arc<FrameHead>) {
        if self.refusal.is_some() {
            self.ledger.refused(&head);
            self.input.answer(Answer::Refuses);
            // Its columns come if nobody waits for the answer.
            self.discards = !self.input.required;
            return;
        }
        let begins_file = self.end == 0;
        self.hold_skipped(&head);
        self.hold(head);
        self.input.answer(Answer::Takes { begins_file });
    }

    /// Holds what stands for frames before that one, if some are missing.
    fn hold_skipped(&mut self, head: &FrameHead) {
        if let Some(skipped) = self.ledger.next_skipped(head) {
            self.hold(Arc::new(skipped));
            self.end_frame(&[]);
        }
    }

    fn hold(&mut self, head: Arc<FrameHead>) {
        let held = Held::begin(head, &mut self.ledger);
        self.end = held.frame.end();
        if self.nodes.held().next().is_none() {
            self.waits_ns = self.now_ns;
        }
        self.nodes.begin(held);
    }

    fn take_column(&mut self, column: SharedColumn) {
        let is_oldest = self.nodes.held().nth(1).is_none();
        let Some(held) = self.nodes.unfinished(column.done.stored_bytes() as u64) else {
            unreachable!("columns follow a frame's beginning")
        };
        if is_oldest {
            self.input.copied(Arc::clone(&column));
        }
        held.frame.columns.push(HeldColumn { column, is_counted: !is_oldest });
    }

    /// The newest frame has its columns, but for those of the target's own.
    fn end_frame(&mut self, lowered: &[u64]) {
        let Some(held) = self.nodes.unfinished(0) else {
            unreachable!("a frame's end follows its beginning")
        };
        let (own, ledger) = held.own(lowered, &mut self.encoder);
        self.nodes.add(own);
        self.nodes.finish(ledger);
    }

    /// All frames are there: the last one follows if the ledger has counts that no frame has.
    fn end_stream(&mut self) {
        self.is_fed = false;
        if self.close.is_some() || self.refusal.is_some() {
            return;
        }
        if let Some((head, columns)) = self.last.take()
            && self.ledger.needs_last(&head)
        {
            self.hold_skipped(&head);
            self.hold(head);
            self.nodes.add(columns.into_iter());
            self.end_frame(&[]);
        }
        self.close = Some(self.end);
    }

    /// Does what the sessions ask for, and moves bytes. Returns how many bytes.
    fn talk(&mut self) -> usize {
        let mut moved = 0;
        for index in 0..self.nodes.all.len() {
            let link = &mut self.nodes.all[index].link;
            moved += link.receive(self.now_ns);
            if let Some(trouble) = link.take_trouble() {
                self.ledger.warn_once(trouble);
            }
            if let Some(next) = link.attached() {
                self.ledger.end_warnings(&format!("storage node {}: ", link.address));
                self.go_on_at(index, next);
            }
            self.release(index);
            let (written, happened) = self.nodes.all[index].link.act();
            moved += written;
            match happened {
                Some(Happened::Away(Some(why))) => {
                    let address = &self.nodes.all[index].link.address;
                    let text = match self.spill {
                        _ if self.nodes.are_several() => "others get what it does not take",
                        None => "frames are held in memory until it is back",
                        Some(_) => "frames are held in memory and in the spill until it is back",
                    };
                    self.ledger.warn_once(format!("storage node {address}: {why}; {text}"));
                }
                Some(Happened::Ended(why)) => self.session_ended(index, why),
                _ => {}
            }
        }
        for text in self.nodes.look(self.now_ns) {
            self.ledger.warn_once(text);
        }
        if self.nodes.are_several() {
            moved += self.deal_spilled();
        }
        moved + self.send()
    }

    fn send(&mut self) -> usize {
        let mut moved = 0;
        while self.sends_backlog
            && let Some(node) = self.nodes.only().filter(|node| node.link.session.is_open())
            && let Some(backlog) = &mut self.backlog
        {
            let ledger = &self.ledger;
            let mut warn = |text| ledger.warn_once(text);
            if !backlog.advance(&mut node.link.feed, &mut warn) {
                self.sends_backlog = false;
                let next = backlog.next();
                node.link.feed.go_to(node.held.partition_point(|held| held.frame.end() <= next));
                break;
            }
            match node.link.send(&backlog.frames, None) {
                0 => return moved,
                sent => moved += sent,
            }
            if moved >= CYCLE_BYTES {
                return moved;
            }
        }
        let close = self.close.filter(|_| !self.sends_backlog && self.may_close());
        for node in &mut self.nodes.all {
            let close = close.map(|end| node.end_item(end));
            if let Some(close) = close {
                node.link.session.made(close + 1);
            }
            moved += node.link.send(&node.held, close);
        }
        moved
    }

    /// Whether the end of the stream can be said once the frames there are: no node that has ended
    /// it gets frames of others, or of the spill.
    fn may_close(&self) -> bool {
        !self.nodes.are_several() || self.nodes.held().next().is_none() && !self.is_forwarding()
    }

    /// Whether something is spilled that nodes do not have.
    fn is_forwarding(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| !backlog.spill.is_empty())
    }

    /// A node goes on at that sequence.
    fn go_on_at(&mut self, index: usize, next: u64) {
        let node = &mut self.nodes.all[index];
        if node.is_dealt() {
            return node.go_on_at(next);
        }
        let first = node.held.front().map_or(self.end, |held| held.frame.info.sequence);
        self.sends_backlog = self.backlog.is_some() && next < first;
        if let Some(backlog) = self.backlog.as_mut().filter(|_| self.sends_backlog) {
            backlog.go_on_at(next, None);
            return node.link.go_on(0);
        }
        node.go_on_at(next);
    }

    /// Gives back what a node says is durable.
    fn release(&mut self, index: usize) {
        let durable = self.nodes.durable();
        if self.durable < durable {
            // Spilled frames, too, say that the node gets on.
            self.durable = durable;
            self.durable_ns = self.durable_ns.map(|_| self.now_ns);
        }
        if let Some(backlog) = self.backlog.as_mut().filter(|_| !self.nodes.are_several()) {
            let warnings = backlog.spill.remove_below(durable, self.now_ns);
            warnings.into_iter().for_each(|text| self.ledger.warn_once(text));
            self.ledger.moved(Entry::FragmentsForwarded, &backlog.spill.take_forwarded());
            self.ledger.spill_removed(&backlog.spill.take_removed());
            self.nodes.all[index].has_all_below(durable.min(self.end));
        }
        let node = &self.nodes.all[index];
        let sent = match node.link.session.is_open() {
            true if self.sends_backlog => 0,
            true => node.link.feed.sent_frames(),
            // What it has durable need not be sent again.
            false => node.held.len(),
        };
        let count = node.durable_frames(sent);
        if count > 0 {
            self.settle_oldest(index, count);
            for _ in 0..count {
                self.drop_oldest(index, true);
            }
            self.nodes.all[index].link.feed.released(count);
            self.waits_ns = self.now_ns;
        }
        let may_close = self.may_close();
        let node = &mut self.nodes.all[index];
        let close = self.close.filter(|_| may_close).map(|end| node.end_item(end));
        if close.is_some_and(|close| node.link.session.durable() > close) {
            node.link.session.finish();
        }
    }

    /// The oldest frames of a node are durable there.
    fn settle_oldest(&mut self, index: usize, count: usize) {
        let _at_node = settle(&mut self.ledger, self.nodes.all[index].held.iter().take(count));
    }

    /// The oldest frame of a node is held no longer; `is_durable`: it is durable there.
    fn drop_oldest(&mut self, index: usize, is_durable: bool) -> Option<Outgoing> {
        let mut frame = self.nodes.drop_oldest(index, is_durable)?.frame;
        self.is_dropped(&mut frame);
        Some(frame)
    }

    /// A frame is held no longer. The oldest of all does not count from now on.
    fn is_dropped(&mut self, frame: &mut Outgoing) {
        let oldest = self.nodes.oldest();
        let frames = [Some(frame), oldest].into_iter().flatten();
        for one in frames.flat_map(|one| &mut one.columns) {
            if std::mem::take(&mut one.is_counted) {
                self.input.copied(Arc::clone(&one.column));
            }
        }
    }

    fn wake_at_ns(&self) -> u64 {
        let all = self.nodes.all.iter().map(|node| node.link.wake_at_ns());
        all.min().unwrap_or(u64::MAX)
    }

    /// Whether a node takes frames.
    fn is_open(&self) -> bool {
        self.nodes.all.iter().any(|node| node.link.session.is_open())
    }

    fn session_ended(&mut self, index: usize, why: Option<String>) {
        self.nodes.all[index].has_ended = true;
        let others_go_on = self.nodes.all.iter().any(|node| !node.has_ended);
        let is_stored = self.nodes.are_several() && self.is_stored();
        match why {
            Some(why) if others_go_on || is_stored => {
                let address = &self.nodes.all[index].link.address;
                let rest = match is_stored {
                    true => "all frames are durable",
                    false => "others get its frames",
                };
                self.ledger.warn_once(format!("storage node {address}: {why}; {rest}"));
            }
            _ if others_go_on => {}
            Some(why) => self.give_up(&why),
            _ if self.nodes.held().next().is_none() => {}
            _ => self.give_up("the session has ended"),
        }
    }

    /// Whether the run has ended and all its frames are durable at nodes.
    fn is_stored(&self) -> bool {
        self.close.is_some() && self.nodes.held().next().is_none() && !self.is_forwarding()
    }

    /// No node takes anything more: what is held, and what comes, is discarded and counted.
    fn give_up(&mut self, why: &str) {
        if self.refusal.is_some() {
            return;
        }
        // What the spill takes is not lost.
        if self.spill.is_some() && self.nodes.are_several() {
            self.nodes.withdraw(self.now_ns);
        }
        while self.spill.is_some() && self.spill_oldest() > 0 {}
        let reason = format!("storage node {}: {why}", self.nodes.addresses());
        self.ledger.set_state(State::Fault { reason: reason.clone() });
        // Columns of the newest may still come.
        self.discards = self.nodes.held().any(|held| held.frame.ledger.is_none());
        while let Some(mut held) = self.nodes.pop_waiting() {
            held.tag.iter().for_each(|tag| self.ledger.failed(tag));
            self.is_dropped(&mut held.frame);
        }
        // What is spilled stays.
        while self.nodes.held().next().is_some()
            && let Some(index) = self.nodes.of_oldest()
        {
            if let Some(tag) = self.nodes.all[index].held.front().and_then(|one| one.tag.as_ref()) {
                self.ledger.failed(tag);
            }
            self.drop_oldest(index, false);
        }
        self.nodes.all.iter_mut().for_each(|node| node.link.feed.close());
        self.ledger.set_away(None);
        self.refusal = Some(reason);
    }

    /// Takes note of whether all nodes take nothing, and shows it.
    fn look_at_nodes(&mut self) {
        let (now_ns, durable) = (self.now_ns, self.nodes.durable());
        self.blocked.take_if(|blocked| blocked.durable < durable);
        let away = self.nodes.away();
        if away.is_some() {
            self.blocked.get_or_insert(Blocked { since_ns: now_ns, durable });
        }
        if away != self.away {
            let shown = away.clone().filter(|_| self.refusal.is_none());
            self.ledger.set_away(shown.map(|why| match self.nodes.are_several() {
                true => why,
                false => format!("{}: {why}", self.nodes.addresses()),
            }));
            self.away = away;
        }
    }

    /// Whether the run has ended for this target.
    fn is_over(&mut self) -> bool {
        if self.refusal.is_some() {
            return !self.is_fed;
        }
        if self.have_ended() || self.is_spilled_whole() {
            return true;
        }
        let Some(durable_ns) = self.durable_ns else {
            if self.ledger.is_ending() {
                self.durable_ns = Some(self.now_ns);
                let nodes = self.nodes.all.iter_mut();
                nodes.for_each(|node| node.link.session.hurry(self.now_ns));
            }
            return false;
        };
        // Nothing waits for the node: the spill has what was there, and more is to come.
        let is_waiting = self.nodes.held().any(|held| held.frame.ledger.is_some());
        if !is_waiting && self.close.is_none() {
            return false;
        }
        let passed_ns = |since_ns| self.now_ns.saturating_sub(since_ns);
        let blocked_ns = self.blocked.as_ref().map_or(0, |blocked| passed_ns(blocked.since_ns));
        let is_blocked = blocked_ns.min(passed_ns(durable_ns)) >= self.end_wait_ns;
        let why = match &self.away {
            Some(away) if is_blocked => format!("at the run's end {away}"),
            _ if passed_ns(durable_ns) >= END_NS => {
                "nothing more became durable there within 60 s of the run's end".to_owned()
            }
            _ => return false,
        };
        if !self.deal_stuck() {
            self.nodes.all.iter_mut().for_each(|node| node.link.session.finish());
            match self.nodes.are_several() && self.is_stored() {
                true => self.warn_not_ended(&why),
                false => self.give_up(&why),
            }
        }
        false
    }

    /// Nodes by which nothing becomes durable leave what they hold to others, if some hold nothing:
    /// these get as much time.
    fn deal_stuck(&mut self) -> bool {
        let warnings = self.nodes.deal_stuck(self.now_ns);
        if warnings.is_empty() {
            return false;
        }
        warnings.into_iter().for_each(|text| self.ledger.warn_once(text));
        self.durable_ns = Some(self.now_ns);
        true
    }

    /// All frames are durable, and some nodes have not acknowledged the end.
    fn warn_not_ended(&self, why: &str) {
        for node in self.nodes.all.iter().filter(|node| !node.has_ended) {
            let address = &node.link.address;
            let text = "all frames are durable, and it has not acknowledged the run's end";
            self.ledger.warn_once(format!("storage node {address}: {why}; {text}"));
        }
    }

    /// Whether the sessions have ended. One of several nodes that is left out when all frames are
    /// durable is not waited for if another one has acknowledged the end: it closes its files as
    /// those of a recorder that is gone. Without one no file would say that the run has ended.
    fn have_ended(&self) -> bool {
        let may_be_left_out = self.nodes.are_several() && self.is_stored() && self.is_end_known();
        let mut all = self.nodes.all.iter();
        all.all(|one| one.has_ended || may_be_left_out && one.is_left_out(self.now_ns))
    }

    /// Whether a node has acknowledged the run's end.
    fn is_end_known(&self) -> bool {
        let Some(end) = self.close else { return false };
        self.nodes.all.iter().any(|node| node.link.session.durable() > node.end_item(end))
    }
}

/// These frames are durable at their place, or in the spill. Returns their fragments, by source.
pub(crate) fn settle<'a>(
    ledger: &mut TargetLedger,
    frames: impl Iterator<Item = &'a Held>,
) -> Vec<u64> {
    let mut fragments = Vec::new();
    for Held { tag, frame } in frames {
        // One that was spilled is settled.
        let Some(tag) = tag else { continue };
        let info = tag.head.info;
        ledger.recorded(tag, &info, frame.bytes());
        let begun: &BegunFrame = &tag.begun;
        ledger.settle(|one| {
            one.recorded(begun, PLACE, 0);
            one.closed(PLACE);
        });
        fragments.resize(tag.counts.len(), 0);
        for (sum, counts) in fragments.iter_mut().zip(&tag.counts) {
            *sum += counts.fragments;
        }
    }
    ledger.durable(&fragments);
    fragments
}

impl Agent for StoreTarget {
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
        self.ledger.look(now_ns);
        if self.ledger.of_target().is_left.swap(false, Relaxed) {
            self.input.leave_chunks();
            self.give_up("it is behind at the run's end");
        }
        let items = self.take_items();
        let moved = self.talk() + self.spill_waiting();
        self.look_at_nodes();
        if self.is_over() {
            self.ledger.settle(|one| one.end());
            self.end_spill();
            return Work::ended();
        }
        match items + moved {
            0 => Work::until(0, self.wake_at_ns().min(now_ns + IDLE_NS)),
            done => Work::again(done as u64),
        }
    }
}

#[cfg(test)]
mod tests;
