//! Spilled frames on their way to storage nodes: few of them are in memory.

use std::collections::VecDeque;

use catchment_frame::{EntryNames, decode_ledger};
use catchment_model::Entry;

use super::{Next, Spill, add};
use crate::store_feed::{Feed, Held, Outgoing};
use crate::store_nodes::StoreNodes;
use crate::target_ledger::TargetLedger;

/// Frames that were spilled, and how far they are sent.
pub(crate) struct Backlog {
    pub(crate) spill: Spill,
    /// Read for the only node, and not sent to their end.
    pub(crate) frames: VecDeque<Outgoing>,
    /// The number of the next one to be read.
    next: u64,
    /// Fragments of frames that were read, by source: each counts once, up to that number.
    fragments: Vec<u64>,
    counted: u64,
}

/// Nothing more is spilled.
pub(crate) struct AllRead;

impl Backlog {
    pub(crate) fn new(spill: Spill) -> Self {
        let next = spill.forwarded_below();
        Self { spill, frames: VecDeque::new(), next, fragments: Vec::new(), counted: 0 }
    }

    /// Goes on at that number; with the frame before it, if some of it is sent already.
    pub(crate) fn go_on_at(&mut self, next: u64, within: Option<Outgoing>) {
        self.frames.clear();
        self.frames.extend(within);
        self.next = next;
    }

    /// Drops what is sent, and reads what comes next. False if there is nothing more to send.
    pub(crate) fn advance(&mut self, feed: &mut Feed, say: &mut dyn FnMut(String)) -> bool {
        let sent = feed.sent_frames().min(self.frames.len());
        self.frames.drain(..sent);
        feed.released(sent);
        if self.frames.is_empty() && !feed.is_within_frame() {
            match self.read(say) {
                Ok(frame) => self.frames.extend(frame),
                Err(AllRead) => return false,
            }
        }
        true
    }

    /// Reads the next frame for the only node, or for a folder. What cannot be read is stood for,
    /// so that the rest can follow. None if it cannot be read now.
    ///
    /// # Errors
    /// There is nothing more to be read.
    pub(crate) fn read(
        &mut self,
        say: &mut dyn FnMut(String),
    ) -> Result<Option<Outgoing>, AllRead> {
        let frame = match self.spill.read(self.next) {
            Next::Frame(frame) => {
                self.count(&frame);
                *frame
            }
            Next::Missing(until) => {
                let stand_in = self.spill.stand_in(self.next, until);
                let lost = until - self.next;
                self.count_lost(until, lost, say);
                stand_in
            }
            Next::Later(why) => {
                say(format!("a spilled frame cannot be read now: {why}"));
                return Ok(None);
            }
            Next::End => self.closing().ok_or(AllRead)?,
        };
        self.next = frame.end();
        self.spill.counts.frame_read(frame.bytes());
        Ok(Some(frame))
    }

    /// Removes the folder, all of which was forwarded. What stays in it is warned of.
    pub(crate) fn finish(self, ledger: &TargetLedger) {
        match self.spill.finish() {
            Ok(None) => {}
            Ok(Some(warning)) => ledger.warn_once(warning),
            Err(error) => ledger.warn_once(format!("cannot remove the spill: {error}")),
        }
    }

    /// The frame that is made of a run that has ended, behind all others, until it is read.
    fn closing(&self) -> Option<Outgoing> {
        let frame = self.spill.closing(&self.fragments)?;
        (self.next < frame.end()).then_some(frame)
    }

    /// Fragments of frames that were read, by source.
    pub(super) fn fragments(&self) -> &[u64] {
        &self.fragments
    }

    fn count(&mut self, frame: &Outgoing) {
        let (number, end) = (frame.info.sequence, frame.end());
        if number >= self.counted {
            let sources = self.spill.header.schema.sources.len();
            let records = frame.ledger.as_deref().unwrap_or_default();
            let ledger = decode_ledger(records, &EntryNames::default(), sources);
            let counts = ledger.unwrap_or_default().sources;
            let counts = counts.iter().map(|source| source[Entry::FragmentsRecorded]);
            add(&mut self.fragments, &counts.collect::<Vec<u64>>());
            self.counted = end;
        }
    }

    /// The number of the frame that is read next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Deals what is read to several nodes, in the order of numbers, as long as they take it and
    /// little is under way. Returns how many frames.
    pub(crate) fn deal(&mut self, nodes: &mut StoreNodes, say: &mut dyn FnMut(String)) -> usize {
        let mut dealt = 0;
        while !self.is_read() && nodes.may_take_spilled() {
            let Some(frame) = self.read_dealt(say) else { break };
            nodes.deal(Held { tag: None, frame });
            dealt += 1;
        }
        dealt
    }

    /// The next frame for several nodes: gaps between numbers are frames that some of these have.
    pub(super) fn read_dealt(&mut self, say: &mut dyn FnMut(String)) -> Option<Outgoing> {
        loop {
            match self.spill.read(self.next) {
                Next::Frame(frame) => {
                    self.count(&frame);
                    self.next = frame.end();
                    self.spill.counts.frame_read(frame.bytes());
                    return Some(*frame);
                }
                Next::Missing(until) => {
                    self.pass(until, say);
                }
                Next::Later(why) => {
                    say(format!("a spilled frame cannot be read now: {why}"));
                    return None;
                }
                Next::End => {
                    self.pass(self.spill.files_end(), say);
                    let closing = self.closing();
                    self.next = closing.as_ref().map_or(self.next, Outgoing::end);
                    return closing;
                }
            }
        }
    }

    /// Goes on at that number: what is lost below it is counted.
    fn pass(&mut self, until: u64, say: &mut dyn FnMut(String)) {
        let lost = match self.next < until {
            true => self.spill.lost_between(self.next, until),
            false => 0,
        };
        if lost > 0 {
            self.count_lost(until, lost, say);
        }
        self.next = self.next.max(until);
    }

    /// Counts, once, that so many frames from the next one on, below `until`, cannot be read.
    fn count_lost(&mut self, until: u64, lost: u64, say: &mut dyn FnMut(String)) {
        let uncounted = self.spill.count_lost(self.next, until);
        let call = self.spill.counts.call();
        let are_removed = self.spill.is_removed_between(self.next, until);
        drop(call);
        self.spill.counts.lost(uncounted.min(lost), are_removed);
        say(format!(
            "{lost} spilled frames from number {} on cannot be read in {}, and are not sent",
            self.next,
            self.spill.folder().display()
        ));
    }

    /// Whether all that is spilled was read, for several nodes.
    pub(crate) fn is_read(&self) -> bool {
        self.next >= self.spill.read_end()
    }

    /// All that is spilled below that number is durable at several nodes, or cannot be sent.
    pub(crate) fn dealt_below(&self, nodes: &StoreNodes) -> u64 {
        let numbers = nodes.spilled().map(|frame| frame.info.sequence);
        numbers.fold(self.next, u64::min)
    }
}
