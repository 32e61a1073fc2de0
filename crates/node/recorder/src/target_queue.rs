//! The queue between the frames agent and a target.
//!
//! A frame is offered to a target by its head, and a target that the run needs answers whether it
//! takes it: only then does it get the frame's columns. Columns in its queue are bounded in bytes,
//! but for one that alone has more; where the queue is full, the frames agent waits.
//!
//! A target that the run does not need is not asked and not waited for: it gets a frame if there is
//! room for all of it in its queue, or if nothing waits there, and otherwise what is to be said of
//! the frames that it did not get.

use std::sync::Arc;

use catchment_agent::Waker;
use catchment_telemetry::FillLevel;
use crossbeam_channel::{Receiver, Sender, TryRecvError};

use crate::config::RecorderConfig;
use crate::frames::{FrameHead, SharedColumn};
use crate::live::Live;
use crate::target_config::TargetConfig;

/// What a target gets, in order.
pub(crate) enum Item {
    /// A frame, which the target answers.
    Begin(Arc<FrameHead>),
    /// The next column of a frame that the target takes.
    Column(SharedColumn),
    /// The end of its columns. By source: raw bytes that were compressed less than asked.
    End(Arc<[u64]>),
    /// Frames that the target does not get, together.
    NotTaken(Box<FrameHead>),
    /// The run's last frame with all its columns, which is written if there is anything to say.
    Last(Arc<FrameHead>, Vec<SharedColumn>),
}

/// Columns in the queue of a target that is waited for: many are small.
const COLUMNS_MAX: usize = 256;
/// Frames' worth of columns in the queue of another.
const FRAMES_MAX: usize = 64;

/// The frames agent's end of a queue.
pub(crate) struct TargetQueue {
    /// None once the target has the run's last frame.
    items: Option<Sender<Item>>,
    answers: Receiver<Answer>,
    /// Bytes of columns that wait.
    fill: Arc<FillLevel>,
    /// Whether frames wait for it.
    required: bool,
    /// Wakes the target.
    waker: Waker,
    live: Arc<Live>,
    /// The target's number.
    number: usize,
    answer: Option<Answer>,
    /// Frames that it has not got.
    not_taken: Option<Box<FrameHead>>,
}

/// A target's end of its queue.
pub(crate) struct TargetInput {
    items: Receiver<Item>,
    answers: Sender<Answer>,
    fill: Arc<FillLevel>,
    pub(crate) required: bool,
    /// Wakes the frames agent.
    frames: Waker,
}

/// Whether a target takes the frame that it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It does; whether the frame is the first of a file.
    Takes { begins_file: bool },
    /// It has no place for it, and has counted it.
    Refuses,
}

/// What all targets have answered together.
pub(crate) struct Admitted {
    /// Whether any of them takes the frame.
    pub(crate) takes: bool,
    /// Whether the frame is the first of a file.
    pub(crate) begins_file: bool,
}

/// The sizes of a queue.
pub(crate) struct QueueConfig {
    /// Columns of the largest frame.
    pub(crate) frame_columns_max: usize,
    /// Whether frames wait for the target.
    pub(crate) required: bool,
}

impl QueueConfig {
    pub(crate) fn of(config: &RecorderConfig, target: &TargetConfig) -> Self {
        Self { frame_columns_max: config.frame_columns_max(), required: target.required }
    }
}

/// A queue, with what wakes the target, and the frames agent.
pub(crate) fn target_queue(
    config: &QueueConfig,
    (live, number): (&Arc<Live>, usize),
    (waker, frames): (Waker, Waker),
) -> (TargetQueue, TargetInput) {
    let &QueueConfig { frame_columns_max, required } = config;
    let columns = if required { COLUMNS_MAX } else { FRAMES_MAX * (frame_columns_max + 2) };
    // Beside columns there are an end, a beginning and the frames that were not taken.
    let (items_in, items) = crossbeam_channel::bounded(columns + 4);
    let (answers_in, answers) = crossbeam_channel::bounded(1);
    let fill = Arc::clone(&live.targets[number].queue);
    let input =
        TargetInput { items, answers: answers_in, fill: Arc::clone(&fill), required, frames };
    let queue = TargetQueue {
        items: Some(items_in),
        answers,
        fill,
        required,
        waker,
        live: Arc::clone(live),
        number,
        answer: None,
        not_taken: None,
    };
    (queue, input)
}

impl TargetQueue {
    /// Offers a frame.
    pub(crate) fn begin(&mut self, head: &Arc<FrameHead>) {
        self.answer = None;
        if !self.required {
            let is_taken = self.has_room_for(head);
            self.answer = Some(match is_taken {
                true => Answer::Takes { begins_file: false },
                false => Answer::Refuses,
            });
            if !is_taken {
                // The target itself may learn of it much later.
                self.live.targets[self.number].count_not_taken(&head.counts);
                match &mut self.not_taken {
                    Some(before) => before.join(head),
                    before => *before = Some(Box::new(head.as_skipped())),
                }
                return;
            }
            self.send_not_taken();
        }
        self.send(Item::Begin(Arc::clone(head)));
    }

    /// Whether all of a frame has room.
    fn has_room_for(&self, head: &FrameHead) -> bool {
        let Some(items) = &self.items else { return false };
        let room = items.capacity().unwrap_or(0).saturating_sub(items.len());
        self.fits(head.bytes_max) && room >= head.columns + 4
    }

    /// Whether so many bytes of columns have room, if anything waits.
    fn fits(&self, bytes: u64) -> bool {
        let waiting = self.fill.level();
        waiting == 0 || waiting + bytes <= self.fill.capacity()
    }

    fn send_not_taken(&mut self) {
        if let Some(frames) = self.not_taken.take() {
            self.send(Item::NotTaken(frames));
        }
    }

    /// The targets' answers to the frame that was offered last, once all have answered.
    pub(crate) fn admitted(targets: &mut [Self]) -> Option<Admitted> {
        let mut all = Admitted { takes: false, begins_file: false };
        for target in targets {
            if target.answer.is_none() {
                target.answer = target.answers.try_recv().ok();
            }
            match target.answer? {
                Answer::Takes { begins_file } => {
                    all.takes = true;
                    all.begins_file |= begins_file;
                }
                Answer::Refuses => {}
            }
        }
        Some(all)
    }

    fn takes(&self) -> bool {
        matches!(self.answer, Some(Answer::Takes { .. }))
    }

    /// Whether a column has room, or is not for this target.
    pub(crate) fn has_room(&self, column: &SharedColumn) -> bool {
        let is_full = self.items.as_ref().is_none_or(|items| items.len() >= COLUMNS_MAX);
        !self.required || !self.takes() || self.fits(bytes_of(column)) && !is_full
    }

    /// Gives the target a column, if it takes the frame.
    pub(crate) fn put(&mut self, column: &SharedColumn) {
        if self.takes() {
            self.fill.put(bytes_of(column));
            self.send(Item::Column(Arc::clone(column)));
        }
    }

    /// The target has all columns of the frame, if it takes it.
    pub(crate) fn end(&mut self, lowered: &Arc<[u64]>) {
        if self.takes() {
            self.send(Item::End(Arc::clone(lowered)));
        }
    }

    /// Gives the target the run's last frame.
    pub(crate) fn end_run(&mut self, head: &Arc<FrameHead>, columns: Vec<SharedColumn>) {
        self.send_not_taken();
        self.send(Item::Last(Arc::clone(head), columns));
        self.items = None;
        self.waker.wake();
    }

    /// Whether the target has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.answers.try_recv(), Err(TryRecvError::Disconnected))
    }

    fn send(&self, item: Item) {
        // A target ends after the run's last frame, or by a panic, which the join reports.
        let _sent = self.items.as_ref().map(|items| items.try_send(item));
        self.waker.wake();
    }
}

impl Drop for TargetInput {
    fn drop(&mut self) {
        self.frames.wake();
    }
}

impl TargetInput {
    /// The next item.
    ///
    /// # Errors
    /// There is none now, or there will be none.
    pub(crate) fn next(&self) -> Result<Item, TryRecvError> {
        self.items.try_recv()
    }

    /// Answers the frame that was offered last, if somebody waits for that.
    pub(crate) fn answer(&self, answer: Answer) {
        if !self.required {
            return;
        }
        // The frames agent waits for it, unless it has panicked.
        let _answered = self.answers.try_send(answer);
        self.frames.wake();
    }

    /// The target has copied a column.
    pub(crate) fn copied(&self, column: SharedColumn) {
        self.fill.take(bytes_of(&column));
        drop(column);
        self.frames.wake();
    }
}

/// What a column takes in a queue.
fn bytes_of(column: &SharedColumn) -> u64 {
    column.done.stored_bytes() as u64
}
