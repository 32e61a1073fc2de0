//! The frames of a folder that has a spill: each is held, with all its columns, until it is durable
//! in a file of the folder or in the spill. They count as recorded and durable then.
//!
//! The oldest are spilled when they have waited for so long that the folder's disk hangs, or when
//! they take half of the queue; and, if the folder has failed or spilled frames are on their way to
//! it, sooner. A frame that could not be written, or for which no file can be made, is not lost: it
//! is written again, or waits.
//!
//! ```text
//! durable in the folder | spilled              | held
//! ..  40  41            | 42 .. 57   58 .. 63  | 64  65  66 <- the frames agent
//!                              ^ next to be copied into a file, read back from the spill
//! ```
//!
//! Files of the spill are removed when all their frames are durable in the folder, whichever way
//! they came there. If the folder hangs at the run's end, what is held is spilled, with the run's
//! last frame: the run ends, and what is spilled is forwarded later (spill/folder.rs).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::FolderStore;
use catchment_frame::{EntryNames, decode_ledger};
use catchment_model::{Entry, Ledger};
use crossbeam_channel::TryRecvError;

use super::{CurrentFrame, IDLE_NS, Step, Target};
use crate::config::RecorderConfig;
use crate::frames::{FrameHead, SharedColumn};
use crate::in_files::InFiles;
use crate::spill::Backlog;
use crate::store_feed::{Held, HeldColumn, Outgoing};
use crate::store_nodes::AWAY_NS;
use crate::store_target::{RETRY_NS, STUCK_NS, SpillParts, settle};
use crate::target_ledger::{FrameTag, TargetLedger};
use crate::target_queue::{Answer, Item};

/// Items taken from the queue in one cycle.
const CYCLE_ITEMS: u64 = 256;

/// What is held, and what is spilled.
pub(super) struct Holding {
    parts: SpillParts,
    /// What was spilled, once something was.
    backlog: Option<Backlog>,
    /// Oldest first. The newest may still get columns.
    held: VecDeque<Held>,
    /// The number of the next frame that is copied into a file.
    next: u64,
    /// One above the last number of all frames so far, and of those before this recorder.
    end: u64,
    begins: u64,
    /// The head of the newest frame, a model for those that are read back.
    head: Option<Arc<FrameHead>>,
    /// How long the oldest frame may be held, and since when it is.
    patience_ns: u64,
    waits_ns: u64,
    /// What is durable in the folder, and since when, or since the run is to end.
    durable: u64,
    durable_ns: u64,
    /// Since when nothing of what waits has become durable in the folder.
    stuck_ns: u64,
    /// When the spill is tried again.
    spill_at_ns: u64,
    /// Whether more may come from the frames agent; whether the run's last frame is held, or there
    /// is none.
    is_fed: bool,
    has_last: bool,
}

impl Holding {
    pub(super) fn new(
        config: &RecorderConfig,
        parts: SpillParts,
        ledger: &mut TargetLedger,
    ) -> Self {
        ledger.hold();
        let begins = ledger.begins();
        Self {
            parts,
            backlog: None,
            held: VecDeque::new(),
            next: begins,
            end: begins,
            begins,
            head: None,
            patience_ns: config.spill_wait_ns(),
            waits_ns: 0,
            durable: begins,
            durable_ns: 0,
            stuck_ns: 0,
            spill_at_ns: 0,
            is_fed: true,
            has_last: false,
        }
    }

    /// A frame is copied into a file from now on.
    pub(super) fn goes_to_file(&mut self, head: &FrameHead) {
        self.next = head.info.numbers().1.saturating_add(1);
    }

    /// Whether something is spilled that is not durable in the folder.
    fn is_forwarding(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| !backlog.spill.is_empty())
    }

    /// The next frame for a file; none if it is not there yet.
    fn next_frame(&mut self, ledger: &TargetLedger) -> Option<CurrentFrame> {
        let like = self.head.as_ref()?;
        let first = self.held.front().map_or(self.end, |held| held.frame.info.sequence);
        if self.next < first
            && let Some(backlog) = &mut self.backlog
        {
            backlog.go_on_at(self.next, None);
            match backlog.read(&mut |text| ledger.warn_once(text)) {
                Ok(frame) => return frame.map(|frame| CurrentFrame::held(&frame, like)),
                Err(_all_read) => self.next = first,
            }
        }
        let index = self.held.partition_point(|held| held.frame.end() <= self.next);
        let frame = &self.held.get(index)?.frame;
        frame.ledger.is_some().then(|| CurrentFrame::held(frame, like))
    }
}

impl CurrentFrame {
    /// A frame that has all its columns and counts.
    fn held(frame: &Outgoing, like: &FrameHead) -> Self {
        let sources = like.counts.len();
        let records = frame.ledger.as_deref().unwrap_or_default();
        // They were encoded here, or read from a frame that was checked.
        let increment = decode_ledger(records, &EntryNames::default(), sources);
        let increment = increment.expect("counts that were encoded here");
        let head = Arc::new(FrameHead {
            info: frame.info,
            columns: frame.columns.len(),
            bytes_max: frame.bytes() + frame.bytes() / 1024,
            list: Vec::new(),
            counts: Vec::new(),
            increment: Ledger::new(0),
            positions: Arc::default(),
            is_last: false,
            ..like.clone()
        });
        let columns: Vec<SharedColumn> =
            frame.columns.iter().map(|one| Arc::clone(&one.column)).collect();
        let whole = Self::whole(head, &columns);
        let tag = FrameTag { increment, ..whole.tag };
        Self { tag, is_begun: true, ..whole }
    }
}

impl<S: FolderStore> Target<S> {
    /// Takes what waits in the queue, counts what has become durable, and spills what waits for too
    /// long. Returns how much was done.
    pub(super) fn look_after_held(&mut self) -> u64 {
        if self.holding.is_none() {
            return 0;
        }
        let done = self.hold_items() + self.settle_held() + self.spill_waiting();
        self.doubt_folder();
        self.show_folder();
        done
    }

    /// Shows whether the folder hangs: nothing becomes durable there, although frames are spilled.
    fn show_folder(&mut self) {
        let Some(holding) = &self.holding else { return };
        let stuck_ns = self.now_ns.saturating_sub(holding.stuck_ns);
        let hangs = holding.is_forwarding() && stuck_ns >= holding.patience_ns;
        self.files.ledger().look_at_spill(hangs);
    }

    /// From which number on the folder may show frames that are not durable there, if it may.
    fn doubted_from(&mut self) -> Option<u64> {
        let durable = self.holding.as_ref()?.durable;
        let shows_more = self.files.ledger().held().is_some_and(InFiles::is_doubted);
        (shows_more || self.files.is_unconfirmed()).then_some(durable)
    }

    /// Has the spill say it if the folder may show frames that are not durable there: whoever
    /// forwards them to it would believe in what it reads.
    fn doubt_folder(&mut self) {
        let doubt = self.doubted_from();
        let Some(holding) = &mut self.holding else { return };
        let Holding { backlog, spill_at_ns, .. } = &mut **holding;
        if let Some(backlog) = backlog
            && let Some(from) = doubt
            && self.now_ns >= *spill_at_ns
            && let Err(error) = backlog.spill.set_doubt(from)
        {
            *spill_at_ns = self.now_ns + RETRY_NS;
            let text = format!("the spill does not say that the folder has failed: {error}");
            self.files.ledger().warn_once(text);
        }
    }

    fn hold_items(&mut self) -> u64 {
        for taken in 0..CYCLE_ITEMS {
            match self.input.next() {
                Ok(Item::Begin(head)) => {
                    let begins_file =
                        self.holding.as_ref().is_some_and(|one| one.end == one.begins);
                    self.hold_skipped(&head);
                    self.hold(head);
                    self.input.answer(Answer::Takes { begins_file });
                }
                Ok(Item::NotTaken(frames)) => self.files.ledger().not_taken(&frames),
                Ok(Item::Column(column)) => self.hold_column(column),
                Ok(Item::End(lowered)) => self.hold_end(&lowered),
                Ok(Item::Last(head, columns)) => {
                    self.last = Some((self.files.ledger().carry(&head), columns));
                }
                Err(TryRecvError::Empty) => return taken,
                Err(TryRecvError::Disconnected) => {
                    let now_ns = self.now_ns;
                    for holding in self.holding.iter_mut().filter(|holding| holding.is_fed) {
                        (holding.is_fed, holding.durable_ns) = (false, now_ns);
                        // If the frames agent panicked, the newest frame has no end.
                        let newest = holding.held.pop_back_if(|held| held.frame.ledger.is_none());
                        for held in newest.iter() {
                            holding.end = held.frame.info.sequence;
                        }
                    }
                    return taken;
                }
            }
        }
        CYCLE_ITEMS
    }

    fn hold(&mut self, head: Arc<FrameHead>) {
        let Some(holding) = &mut self.holding else { return };
        let held = Held::begin(Arc::clone(&head), self.files.ledger());
        holding.head = Some(head);
        holding.end = held.frame.end();
        if holding.held.is_empty() {
            holding.waits_ns = self.now_ns;
        }
        holding.held.push_back(held);
    }

    /// Holds what stands for frames before that one, if some are missing: of a run that goes on.
    fn hold_skipped(&mut self, head: &FrameHead) {
        if let Some(skipped) = self.files.ledger().next_skipped(head) {
            self.hold(Arc::new(skipped));
            self.hold_end(&[]);
        }
    }

    fn hold_column(&mut self, column: SharedColumn) {
        let Some(holding) = &mut self.holding else { return };
        let is_oldest = holding.held.len() == 1;
        let Some(held) = holding.held.back_mut() else {
            unreachable!("columns follow a frame's beginning")
        };
        if is_oldest {
            self.input.copied(Arc::clone(&column));
        }
        held.frame.columns.push(HeldColumn { column, is_counted: !is_oldest });
    }

    /// The newest frame has its columns, but for those of the target's own.
    fn hold_end(&mut self, lowered: &[u64]) {
        let newest = self.holding.as_mut().and_then(|holding| holding.held.back_mut());
        let Some(held) = newest else { unreachable!("a frame's end follows its beginning") };
        let (own, ledger) = held.own(lowered, &mut self.encoder);
        held.frame.columns.extend(own.map(|column| HeldColumn { column, is_counted: false }));
        held.frame.ledger = Some(ledger);
    }

    /// Goes back to the first frame that could not be written, before another one gets to a file.
    pub(super) fn step_back(&mut self) {
        let Some(holding) = &mut self.holding else { return };
        if let Some(failed) = self.files.ledger().held().and_then(InFiles::take_failed) {
            holding.next = holding.next.min(failed);
            self.offered = None;
        }
    }

    /// Counts and drops what is durable in the folder. Returns how many frames.
    fn settle_held(&mut self) -> u64 {
        let Some(holding) = &mut self.holding else { return 0 };
        let Some(in_files) = self.files.ledger().held() else { return 0 };
        let durable = in_files.durable();
        if holding.durable < durable {
            (holding.durable, holding.durable_ns) = (durable, self.now_ns);
            holding.stuck_ns = self.now_ns;
        }
        if holding.held.is_empty() && !holding.is_forwarding() {
            holding.stuck_ns = self.now_ns;
        }
        let is_durable = |held: &&Held| held.frame.end() <= durable;
        let count = holding.held.iter().take_while(is_durable).count();
        if count > 0 {
            settle(self.files.ledger(), holding.held.iter().take(count));
        }
        if let Some(backlog) = &mut holding.backlog {
            let ledger = self.files.ledger();
            let warnings = backlog.spill.remove_below(durable, self.now_ns);
            warnings.into_iter().for_each(|text| ledger.warn_once(text));
            ledger.moved(Entry::FragmentsForwarded, &backlog.spill.take_forwarded());
            ledger.spill_removed(&backlog.spill.take_removed());
        }
        self.drop_oldest(count)
    }

    /// The oldest frames are held no longer. The next one does not count in the queue.
    fn drop_oldest(&mut self, count: usize) -> u64 {
        let Some(holding) = self.holding.as_mut().filter(|_| count > 0) else { return 0 };
        let mut dropped: Vec<Held> = holding.held.drain(..count).collect();
        let frames = dropped.iter_mut().chain(holding.held.front_mut());
        for one in frames.flat_map(|held| &mut held.frame.columns) {
            if std::mem::take(&mut one.is_counted) {
                self.input.copied(Arc::clone(&one.column));
            }
        }
        holding.waits_ns = self.now_ns;
        count as u64
    }

    /// Spills the oldest frames if they have waited for too long, or are too many.
    fn spill_waiting(&mut self) -> u64 {
        let has_failed = self.files.ledger().is_in_fault();
        let Some(holding) = &self.holding else { return 0 };
        let is_behind = has_failed || holding.is_forwarding();
        let patience_ns = if is_behind { AWAY_NS } else { holding.patience_ns };
        let is_late = self.now_ns.saturating_sub(holding.waits_ns) >= patience_ns;
        let is_due = is_late || self.input.is_half_full();
        if holding.held.is_empty() || !is_due || self.now_ns < holding.spill_at_ns {
            return 0;
        }
        self.spill_oldest()
    }

    fn spill_oldest(&mut self) -> u64 {
        let doubt = self.doubted_from();
        let Some(holding) = &mut self.holding else { return 0 };
        let Holding { parts, backlog, held, .. } = &mut **holding;
        let spilled = parts.spill(backlog, held, doubt, self.files.ledger());
        let count = spilled.unwrap_or_else(|count| {
            holding.spill_at_ns = self.now_ns + RETRY_NS;
            count
        });
        self.drop_oldest(count)
    }

    /// Takes the next frame for a file, or continues the run's end when all are durable there.
    pub(super) fn next_held(&mut self) -> Step {
        let wait = Step::Wait(self.now_ns + IDLE_NS);
        let Some(holding) = &mut self.holding else { return wait };
        self.offered = holding.next_frame(self.files.ledger());
        if self.offered.is_some() {
            return Step::Done;
        }
        if holding.is_fed || !holding.held.is_empty() || holding.is_forwarding() {
            return wait;
        }
        if !holding.has_last {
            self.hold_last();
            return Step::Done;
        }
        self.end()
    }

    /// Holds the run's last frame, if the ledger has counts that no frame has.
    fn hold_last(&mut self) {
        self.holding.iter_mut().for_each(|holding| holding.has_last = true);
        let Some((head, columns)) = self.last.take() else { return };
        if self.files.ledger().needs_last(&head) {
            self.hold_skipped(&head);
            self.hold(head);
            if let Some(held) = self.holding.as_mut().and_then(|one| one.held.back_mut()) {
                let columns = columns.into_iter();
                // They were in no queue.
                let columns = columns.map(|column| HeldColumn { column, is_counted: false });
                held.frame.columns.extend(columns);
            }
            self.hold_end(&[]);
        }
    }

    /// Whether the run ends without the folder because it hangs: nothing has become durable there
    /// for [`STUCK_NS`]. All that it lacks is in the spill, with the run's last frame, and is
    /// forwarded when the target has ended.
    pub(super) fn is_spilled_whole(&mut self) -> bool {
        let Some(holding) = self.holding.as_ref().filter(|holding| !holding.is_fed) else {
            return false;
        };
        let is_late = self.now_ns.saturating_sub(holding.durable_ns) >= STUCK_NS;
        let is_waiting = holding.is_forwarding() || !holding.held.is_empty();
        if !is_late || !is_waiting || self.now_ns < holding.spill_at_ns {
            return false;
        }
        if !holding.has_last {
            self.hold_last();
        }
        while self.spill_oldest() > 0 {}
        let moved = self.files.ledger().moved_at_end();
        let Some(holding) = &mut self.holding else { return false };
        let is_whole = holding.held.is_empty() && holding.is_forwarding();
        let Some(backlog) = holding.backlog.as_mut().filter(|_| is_whole) else { return false };
        // Whoever opens the folder's files later is not told of a sync that fails until then.
        let doubted = backlog.spill.set_doubt(holding.durable);
        let (spill, end) = (&mut backlog.spill, holding.end);
        if let Err(error) = doubted.and_then(|()| spill.set_run_end(end, moved)) {
            // The folder's files end as those of a recorder that has died.
            let text = format!("the spill does not say how the run ended: {error}");
            self.files.ledger().warn_once(text);
        }
        self.files.ledger().of_target().is_left.store(true, Relaxed);
        true
    }

    /// The target has ended: leaves what is spilled to the forwarder, or removes the spill if
    /// nothing is.
    pub(super) fn end_holding(&mut self) {
        self.doubt_folder();
        let Some(holding) = &mut self.holding else { return };
        let Some(backlog) = holding.backlog.take() else { return };
        let ledger = self.files.ledger();
        if backlog.spill.is_empty() {
            return backlog.finish(ledger);
        }
        let below = holding.durable;
        ledger.left_in_spill(backlog.spill.hand_over(below));
    }
}
