//! The storage nodes of a target, and which of them gets a frame.
//!
//! One node gets all frames, and its items have the frames' numbers. Several share them: they are
//! *dealt*, some megabytes in a row to one node, the next to that with the fewest bytes which it
//! has not acknowledged, so that each gets what it takes. A node's items are counted then, since
//! its frames have gaps in their numbers.
//!
//! A node by which nothing has become durable for [`AWAY_NS`] since its session broke, whether it
//! is back or not, or since it said that it can write nothing, is left out: what it has not
//! acknowledged goes to others, behind what they have, under its own numbers. Some of it may be
//! there already: readers take one of two copies. When it is back, it says how many items it has,
//! and takes part again: with one frame, and with more once that is durable.
//!
//! Where no node takes anything and there is a spill, frames are *withdrawn* from all of them: they
//! wait for the spill, as do those that come. What is spilled is dealt again in the order of
//! numbers, a few rows at a time, and what waits behind it follows when all of that is dealt.
//!
//! ```text
//! node 0   0 1 2 | 6 7 8 | 9 .. 11 | 3 4 5 | 12 ..
//! node 1   3 4 5 : left out, which acknowledged none of these; then back from 20 on
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use catchment_frame::{DealtPart, FileFrames, FileHeader};
use catchment_model::RunId;
use catchment_sender::SenderState;
use catchment_storage::PartLeft;
use parking_lot::Mutex;

use crate::beginning::TargetBeginning;
use crate::frames::SharedColumn;
use crate::store_feed::{Held, HeldColumn, Outgoing};
use crate::store_link::StoreLink;
use crate::store_target::SpillParts;

/// How long a node that takes nothing keeps frames that others could take; where there is a spill,
/// how long one that still has spilled frames to take leaves others in memory.
pub(crate) const AWAY_NS: u64 = 1_000_000_000;
/// Bytes of frames that go to one of several nodes in a row, at most.
const DEAL_BYTES_MAX: u64 = 8 << 20;
/// The share of what is held that goes to a node in a row: each has several such rows under way.
const DEAL_SHARE: u64 = 8;
/// Above the number of any item: what a node has may have been sent by another session.
pub(crate) const ITEMS_MAX: u64 = 1 << 62;
/// Spilled frames that are under way to several nodes at once, at most.
const SPILLED_MAX: usize = 1024;

/// How storage nodes are reached, and where frames go that they do not take.
pub(crate) struct StoreParts {
    pub(crate) run: RunId,
    /// Of each node.
    pub(crate) links: Vec<StoreLink>,
    /// What is held for them at most.
    pub(crate) hold_bytes: u64,
    pub(crate) spill: Option<SpillParts>,
    /// How long the run's end waits while the node is blocked.
    pub(crate) end_wait_ns: u64,
}

impl StoreParts {
    /// Sets the header of the stream's files. Those of one of several nodes are a part, and say so.
    pub(crate) fn set_header(&mut self, header: &FileHeader, target: &str) {
        let count = self.links.len() as u32;
        for (link, number) in self.links.iter_mut().zip(0..) {
            link.header = match count {
                0 | 1 => header.encode(),
                _ => header_of_part(header, target, DealtPart { number, count, first_item: 0 }),
            };
        }
        if let Some(spill) = &mut self.spill {
            let target = (count > 1).then(|| target.to_owned()).or_else(|| header.target.clone());
            spill.header = FileHeader { target, ..header.clone() }.encode();
        }
    }
}

/// The header of the files of one of several nodes.
pub(crate) fn header_of_part(header: &FileHeader, target: &str, part: DealtPart) -> Vec<u8> {
    let target = format!("{target}:{}", part.number);
    FileHeader { target: Some(target), part: Some(part), ..header.clone() }.encode()
}

/// What is shown of one of a target's nodes.
#[derive(Debug, Default)]
pub(crate) struct LiveNode {
    pub(crate) address: String,
    is_connected: AtomicBool,
    frames_durable: AtomicU64,
    bytes_durable: AtomicU64,
    bytes_held: AtomicU64,
    numbers: Mutex<Option<(u64, u64)>>,
    files: Mutex<Vec<FileFrames>>,
    away: Mutex<Option<(u64, String)>>,
}

/// One of a target's storage nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeShare {
    /// Host and port.
    pub address: String,
    /// Whether frames can be sent to it.
    pub is_connected: bool,
    /// Frames that it has acknowledged as durable.
    pub frames_durable: u64,
    /// Stored bytes of these.
    pub bytes_durable: u64,
    /// Stored bytes of frames that are for it, and that it has not acknowledged.
    pub bytes_held: u64,
    /// The lowest and the highest number of frames that are durable there.
    pub numbers: Option<(u64, u64)>,
    /// Which frames are in which of the files that it has closed, as it said last.
    pub files: Vec<FileFrames>,
    /// Since when it takes nothing, in nanoseconds of the clock of the data, and why.
    pub away: Option<(u64, String)>,
}

impl LiveNode {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), ..Self::default() }
    }

    /// That of a node which has all frames of a run that goes on, or none.
    pub(crate) fn behind(address: &str, begins: &TargetBeginning) -> Self {
        let last = begins.end.checked_sub(1);
        Self {
            frames_durable: AtomicU64::new(begins.frames),
            bytes_durable: AtomicU64::new(begins.bytes),
            numbers: Mutex::new(last.map(|last| (0, last))),
            ..Self::new(address)
        }
    }

    /// That of one of several nodes of a run that goes on.
    pub(crate) fn behind_part(address: &str, part: &PartLeft) -> Self {
        Self {
            frames_durable: AtomicU64::new(part.frames),
            bytes_durable: AtomicU64::new(part.bytes),
            numbers: Mutex::new(part.numbers),
            ..Self::new(address)
        }
    }

    pub(crate) fn read(&self) -> NodeShare {
        NodeShare {
            address: self.address.clone(),
            is_connected: self.is_connected.load(Relaxed),
            frames_durable: self.frames_durable.load(Relaxed),
            bytes_durable: self.bytes_durable.load(Relaxed),
            bytes_held: self.bytes_held.load(Relaxed),
            numbers: *self.numbers.lock(),
            files: self.files.lock().clone(),
            away: self.away.lock().clone(),
        }
    }

    /// A frame with numbers from `first` to one below `end` is durable there.
    fn has_durable(&self, first: u64, end: u64) {
        let mut numbers = self.numbers.lock();
        let (lowest, highest) = numbers.unwrap_or((u64::MAX, 0));
        *numbers = Some((lowest.min(first), highest.max(end.saturating_sub(1))));
    }
}

/// A storage node, and the frames that are held for it.
pub(crate) struct StoreNode {
    pub(crate) link: StoreLink,
    /// In the order in which they are sent.
    pub(crate) held: VecDeque<Held>,
    /// Stored bytes of these.
    bytes_held: u64,
    /// Of one of several: the sequence of its next item.
    next_item: Option<u64>,
    /// Whether that is known only once it has said what it has, since its items went to others.
    is_rewound: bool,
    /// Whether something became durable there since it was left out last.
    is_proven: bool,
    /// Whether its session has ended.
    pub(crate) has_ended: bool,
    /// Why it takes nothing now, and since when.
    away: Option<(u64, String)>,
    /// Since when that was so and nothing became durable there, while something is held for it.
    stalled_ns: Option<u64>,
    /// Whether nothing became durable there at the run's end, until something does.
    is_stuck: bool,
    /// When it got a row last, in rows dealt.
    dealt: u64,
    live: Arc<LiveNode>,
}

impl StoreNode {
    /// Holds a frame, which is sent behind those that are held.
    fn hold(&mut self, mut held: Held) {
        match &mut self.next_item {
            None => self.link.session.made(held.frame.end()),
            Some(next) => {
                held.frame.item = Some(*next);
                *next += 1;
                if !self.is_rewound {
                    self.link.session.made(*next);
                }
            }
        }
        self.bytes_held += held.frame.bytes();
        self.held.push_back(held);
    }

    /// The oldest frame is held no longer.
    fn pop(&mut self) -> Option<Held> {
        let held = self.held.pop_front()?;
        self.bytes_held -= held.frame.bytes();
        Some(held)
    }

    /// Whether it is one of several.
    pub(crate) fn is_dealt(&self) -> bool {
        self.next_item.is_some()
    }

    /// The only one has all frames of the stream below that number, be they from a spill.
    pub(crate) fn has_all_below(&self, number: u64) {
        if number > 0 {
            self.live.has_durable(0, number);
        }
    }

    /// How many of the oldest frames are durable there and need not be sent. `sent` are sent since
    /// it was connected.
    pub(crate) fn durable_frames(&self, sent: usize) -> usize {
        // Which items these are is known once it has said how many it has.
        if self.is_rewound {
            return 0;
        }
        let durable = self.link.session.durable();
        let is_durable =
            |held: &&Held| held.frame.ledger.is_some() && held.frame.item_end() <= durable;
        self.held.iter().take(sent).take_while(is_durable).count()
    }

    /// The index among those that are held of the frame with which it goes on at that sequence.
    pub(crate) fn go_on_at(&mut self, next: u64) {
        if std::mem::take(&mut self.is_rewound) {
            // What is held now was never sent to it.
            self.link.session.rewind();
            let items = self.held.iter_mut().zip(next..);
            items.for_each(|(held, item)| held.frame.item = Some(item));
            let end = next + self.held.len() as u64;
            self.next_item = Some(end);
            self.link.session.made(end);
        }
        self.link.go_on(self.held.partition_point(|held| held.frame.item_end() <= next));
    }

    /// The sequence of the stream's end there.
    pub(crate) fn end_item(&self, end: u64) -> u64 {
        self.next_item.unwrap_or(end)
    }

    /// Takes note of whether it takes nothing, and of the files that it has closed.
    fn look(&mut self, now_ns: u64) {
        if let Some(files) = self.link.closed_files() {
            *self.live.files.lock() = files;
        }
        let session = &self.link.session;
        let is_one = !self.is_dealt();
        let why = match session.state() {
            SenderState::Away(why) => Some(format!("it is away: {why}")),
            SenderState::Open if session.waits() => Some("it can write nothing now".to_owned()),
            // It may be back, or not.
            SenderState::Opening => self.away.as_ref().map(|(_, why)| why.clone()),
            SenderState::Ended(Some(why)) if !is_one => Some(format!("it is left out: {why}")),
            _ => None,
        };
        self.live.is_connected.store(session.is_open(), Relaxed);
        self.live.bytes_held.store(self.bytes_held, Relaxed);
        let since_ns = self.away.as_ref().map_or(now_ns, |(since_ns, _)| *since_ns);
        let away = why.map(|why| (since_ns, why));
        if away != self.away {
            *self.live.away.lock() = away.clone();
            self.away = away;
        }
        // That it is back does not say that it stores anything.
        match &self.away {
            Some((since_ns, _)) => {
                self.stalled_ns.get_or_insert(*since_ns);
            }
            None if self.held.is_empty() => self.stalled_ns = None,
            None => {}
        }
    }

    pub(crate) fn away(&self) -> Option<&str> {
        self.away.as_ref().map(|(_, why)| &**why)
    }

    /// Whether others get what it has not acknowledged.
    pub(crate) fn is_left_out(&self, now_ns: u64) -> bool {
        let is_late = |since_ns| now_ns.saturating_sub(since_ns) >= AWAY_NS;
        self.has_ended || self.stalled_ns.is_some_and(is_late)
    }

    /// Whether it gets frames before others that do not.
    fn takes(&self) -> bool {
        let is_there = self.away.is_none() && !self.has_ended;
        is_there && !self.is_stuck && (self.is_proven || self.held.is_empty())
    }
}

/// Bytes that go to one of so many nodes in a row.
fn row_bytes_max(hold_bytes: u64, count: u64) -> u64 {
    (hold_bytes / (DEAL_SHARE * count)).clamp(1, DEAL_BYTES_MAX)
}

/// Bytes of spilled frames that are dealt to so many nodes until they are durable there: one frame
/// may be above that.
pub(crate) fn dealt_again_bytes(hold_bytes: u64, nodes: usize) -> u64 {
    row_bytes_max(hold_bytes, nodes as u64) * nodes as u64
}

/// The nodes of a target; at least one.
pub(crate) struct StoreNodes {
    pub(crate) all: Vec<StoreNode>,
    /// The one that gets the present row, and how many bytes that has, of so many at most.
    current: usize,
    row_bytes: u64,
    row_bytes_max: u64,
    /// Rows dealt.
    dealt: u64,
    /// The one that has the frame of which columns still come; none if that one waits.
    unfinished: Option<usize>,
    /// Frames that no node gets before those that are spilled, in the order of their numbers.
    waiting: VecDeque<Held>,
    /// Whether frames that come wait, too.
    is_waiting: bool,
}

impl StoreNodes {
    /// `hold_bytes` is the most that is held for all of them. Targets of other runs and streams
    /// begin with other nodes.
    pub(crate) fn new(
        links: Vec<StoreLink>,
        live: &[Arc<LiveNode>],
        hold_bytes: u64,
        (run, stream): (RunId, u32),
    ) -> Self {
        let count = links.len() as u64;
        let first = run.0.iter().fold(u64::from(stream), |sum, &byte| sum + u64::from(byte));
        let node = |(index, (link, live)): (u64, (StoreLink, &Arc<LiveNode>))| StoreNode {
            link,
            held: VecDeque::new(),
            bytes_held: 0,
            next_item: (count > 1).then_some(0),
            is_rewound: false,
            is_proven: true,
            has_ended: false,
            away: None,
            stalled_ns: None,
            is_stuck: false,
            // Among equals the one is next whose last row was the longest ago.
            dealt: (index + count - first % count) % count,
            live: Arc::clone(live),
        };
        let all: Vec<StoreNode> = (0..).zip(links.into_iter().zip(live)).map(node).collect();
        let row_bytes_max = row_bytes_max(hold_bytes, count);
        let row_bytes = row_bytes_max;
        Self {
            all,
            current: 0,
            row_bytes,
            row_bytes_max,
            dealt: count,
            unfinished: Some(0),
            waiting: VecDeque::new(),
            is_waiting: false,
        }
    }

    /// The only one, if there is one.
    pub(crate) fn only(&mut self) -> Option<&mut StoreNode> {
        match &mut self.all[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    pub(crate) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Frames that are held, and are in no spill.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Held> {
        let at_nodes = self.all.iter().flat_map(|node| &node.held);
        at_nodes.filter(|held| held.tag.is_some()).chain(&self.waiting)
    }

    /// Spilled frames that are under way to several nodes.
    pub(crate) fn spilled(&self) -> impl Iterator<Item = &Outgoing> {
        let held = self.all.iter().flat_map(|node| &node.held);
        held.filter(|held| held.tag.is_none()).map(|held| &held.frame)
    }

    /// The frames that may be spilled: those of the only node, or those that wait.
    pub(crate) fn spillable(&self) -> &VecDeque<Held> {
        if self.are_several() { &self.waiting } else { &self.all[0].held }
    }

    /// The oldest of those that wait waits no longer.
    pub(crate) fn pop_waiting(&mut self) -> Option<Held> {
        self.waiting.pop_front()
    }

    /// Whether frames wait for the spill, or for what is in it.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Whether one of them takes frames now.
    pub(crate) fn may_take(&self) -> bool {
        self.all.iter().any(StoreNode::takes)
    }

    /// Whether one of them takes a spilled frame now: few of these are in memory.
    pub(crate) fn may_take_spilled(&self) -> bool {
        let bytes_max = self.row_bytes_max * self.all.len() as u64;
        let (mut count, mut bytes) = (0, 0);
        for frame in self.spilled() {
            (count, bytes) = (count + 1, bytes + frame.bytes());
        }
        count < SPILLED_MAX && bytes < bytes_max && self.may_take()
    }

    /// Each node says how many items it has before it gets any: another session may have sent some.
    pub(crate) fn rewind(&mut self) {
        for node in &mut self.all {
            node.is_rewound = true;
            node.link.session.made(ITEMS_MAX);
        }
    }

    /// What is held for the nodes, and in no spill, waits from now on, as does what comes.
    pub(crate) fn withdraw(&mut self, now_ns: u64) {
        self.is_waiting = true;
        for node in &mut self.all {
            // It gets one frame at first.
            node.is_proven = false;
            if node.held.iter().all(|held| held.tag.is_none()) {
                continue;
            }
            // A connection that is there would go on with what waits.
            node.link.interrupt(now_ns, "nothing becomes durable there");
            node.look(now_ns);
            node.is_rewound = true;
            let held = std::mem::take(&mut node.held).into_iter();
            let (own, spilled): (Vec<Held>, Vec<Held>) = held.partition(|one| one.tag.is_some());
            node.bytes_held = spilled.iter().map(|one| one.frame.bytes()).sum();
            node.held = spilled.into();
            self.waiting.extend(own);
        }
        self.waiting.make_contiguous().sort_by_key(|held| held.frame.info.sequence);
        self.unfinished = None;
    }

    /// What is spilled is dealt: what waits follows, and what comes.
    pub(crate) fn deal_waiting(&mut self) {
        self.is_waiting = false;
        for held in std::mem::take(&mut self.waiting) {
            self.deal(held);
        }
    }

    /// Holds a frame whose columns come later, for the node that gets the present row.
    pub(crate) fn begin(&mut self, held: Held) {
        if !self.is_waiting {
            return self.deal(held);
        }
        self.unfinished = None;
        self.waiting.push_back(held);
    }

    /// Holds a frame for the node that gets the present row.
    pub(crate) fn deal(&mut self, held: Held) {
        let to = self.next_node();
        if held.frame.ledger.is_none() {
            self.unfinished = Some(to);
        }
        self.row_bytes = self.row_bytes.saturating_add(held.frame.bytes());
        self.all[to].hold(held);
    }

    /// The frame that still gets columns, whose node gets as many bytes more.
    pub(crate) fn unfinished(&mut self, bytes: u64) -> Option<&mut Held> {
        let held = match self.unfinished {
            Some(index) => {
                let node = &mut self.all[index];
                node.bytes_held += bytes;
                self.row_bytes = self.row_bytes.saturating_add(bytes);
                &mut node.held
            }
            None => &mut self.waiting,
        };
        held.iter_mut().rev().find(|held| held.frame.ledger.is_none())
    }

    /// The frame that still gets columns gets these, which count nowhere.
    pub(crate) fn add(&mut self, columns: impl Iterator<Item = SharedColumn>) {
        for column in columns {
            let bytes = column.done.stored_bytes() as u64;
            if let Some(held) = self.unfinished(bytes) {
                held.frame.columns.push(HeldColumn { column, is_counted: false });
            }
        }
    }

    /// It has all of them, and adds that to the ledger.
    pub(crate) fn finish(&mut self, ledger: Vec<u8>) {
        if let Some(held) = self.unfinished(0) {
            held.frame.ledger = Some(ledger);
        }
    }

    /// The node that gets the next frame.
    fn next_node(&mut self) -> usize {
        if !self.are_several() {
            return 0;
        }
        if self.row_bytes >= self.row_bytes_max || !self.all[self.current].takes() {
            let rank = |node: &StoreNode| {
                let is_away = node.away.is_some();
                (node.has_ended, is_away, node.is_stuck, !node.takes(), node.bytes_held, node.dealt)
            };
            let all = self.all.iter().enumerate();
            self.current = all.min_by_key(|(_, node)| rank(node)).map_or(0, |(index, _)| index);
            self.row_bytes = 0;
            self.all[self.current].dealt = self.dealt;
            self.dealt += 1;
        }
        self.current
    }

    /// Takes note of which nodes take nothing, and deals what is held for those that are left out
    /// to others. Returns warnings of that.
    pub(crate) fn look(&mut self, now_ns: u64) -> Vec<String> {
        self.all.iter_mut().for_each(|node| node.look(now_ns));
        let mut warnings = Vec::new();
        if !self.are_several() {
            return warnings;
        }
        for index in 0..self.all.len() {
            let node = &self.all[index];
            let is_there = |one: &StoreNode| one.away.is_none() && !one.is_left_out(now_ns);
            let has_others = self.all.iter().any(is_there);
            if node.held.is_empty() || !has_others || !node.is_left_out(now_ns) {
                continue;
            }
            warnings.push(self.deal_again(index, now_ns));
        }
        warnings
    }

    /// What is held for nodes by which nothing becomes durable goes to those that hold nothing, if
    /// there are some that were not such themselves. Returns warnings of that.
    pub(crate) fn deal_stuck(&mut self, now_ns: u64) -> Vec<String> {
        let has_room = |node: &StoreNode| {
            node.held.is_empty() && node.away.is_none() && !node.has_ended && !node.is_stuck
        };
        if !self.all.iter().any(has_room) {
            return Vec::new();
        }
        let stuck = (0..self.all.len()).filter(|&index| !self.all[index].held.is_empty());
        let stuck: Vec<usize> = stuck.collect();
        stuck.iter().for_each(|&index| self.all[index].is_stuck = true);
        stuck.into_iter().map(|index| self.deal_again(index, now_ns)).collect()
    }

    /// What is held for a node goes to others.
    fn deal_again(&mut self, index: usize, now_ns: u64) -> String {
        let node = &mut self.all[index];
        let why = match node.away() {
            Some(why) => why,
            None if node.has_ended => "its session has ended",
            None => "nothing becomes durable there",
        };
        let why = why.to_owned();
        // A connection that is there would go on with what goes elsewhere.
        node.link.interrupt(now_ns, &why);
        node.look(now_ns);
        (node.is_rewound, node.is_proven) = (true, false);
        let count = node.held.len();
        let text = format!(
            "storage node {}: {why}; {count} frames that it has not acknowledged go to others",
            node.link.address
        );
        while let Some(held) = self.all[index].pop() {
            self.deal(held);
        }
        text
    }

    /// The oldest frame of a node is held no longer; `is_durable`: it is durable there.
    pub(crate) fn drop_oldest(&mut self, index: usize, is_durable: bool) -> Option<Held> {
        let node = &mut self.all[index];
        let held = node.pop()?;
        if is_durable {
            (node.is_proven, node.is_stuck, node.stalled_ns) = (true, false, None);
            node.live.frames_durable.fetch_add(1, Relaxed);
            node.live.bytes_durable.fetch_add(held.frame.bytes(), Relaxed);
            node.live.has_durable(held.frame.info.sequence, held.frame.end());
        }
        Some(held)
    }

    /// The oldest frame that is held, and is in no spill.
    pub(crate) fn oldest(&mut self) -> Option<&mut Outgoing> {
        let is_own = |held: &&mut Held| held.tag.is_some();
        let fronts = self.all.iter_mut().filter_map(|node| node.held.iter_mut().find(is_own));
        let fronts = fronts.chain(self.waiting.front_mut());
        fronts.map(|held| &mut held.frame).min_by_key(|frame| frame.info.sequence)
    }

    /// The node of the oldest frame that is held for one.
    pub(crate) fn of_oldest(&self) -> Option<usize> {
        let fronts = self.all.iter().enumerate();
        let fronts = fronts.filter_map(|(index, node)| Some((index, node.held.front()?)));
        fronts.min_by_key(|(_, held)| held.frame.info.sequence).map(|(index, _)| index)
    }

    /// The sum of what is durable at each, in items: it grows.
    pub(crate) fn durable(&self) -> u64 {
        self.all.iter().map(|node| node.link.session.durable()).fold(0, u64::saturating_add)
    }

    /// Why none of them takes anything now, if so.
    pub(crate) fn away(&self) -> Option<String> {
        match &self.all[..] {
            [only] => only.away().map(str::to_owned),
            all => {
                let words =
                    |node: &StoreNode| Some(format!("{}: {}", node.link.address, node.away()?));
                let all: Option<Vec<String>> = all.iter().map(words).collect();
                all.map(|all| all.join("; "))
            }
        }
    }

    /// Where they are.
    pub(crate) fn addresses(&self) -> String {
        let all: Vec<&str> = self.all.iter().map(|node| &*node.link.address).collect();
        all.join(", ")
    }
}
