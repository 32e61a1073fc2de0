//! The queue between the frames agent and a target.
//!
//! A frame is offered to a target by its head, and a required target answers whether it takes it:
//! only then does it get the frame's columns. Columns in its queue are bounded in bytes, but for
//! one that alone has more; where the queue is full, the frames agent waits.
//!
//! A best-effort target is not asked and not waited for: it gets a frame if there is room for all
//! of it in its queue, or if nothing waits there. Otherwise it receives one summary of the frames
//! that it missed. While it is behind, columns wait for it in memory of the queue's own: in chunks
//! they would take the place of payload that arrives.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::Waker;
use catchment_encoder::{Done, Stored};
use catchment_frame::Position;
use catchment_telemetry::FillLevel;
use catchment_writer::EncodedColumn;
use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};

use crate::column_bytes::ColumnBytes;
use crate::config::RecorderConfig;
use crate::frame_counts::SourceCounts;
use crate::frames::{FrameHead, Lowered, SharedColumn};
use crate::live::Live;
use crate::live_target::LiveTarget;
use crate::selection::Selection;

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

/// Columns in the queue of a required target: many are small.
const COLUMNS_MAX: usize = 256;
/// Columns in the queue of a best-effort target, if they are those of a few frames.
const BEST_EFFORT_COLUMNS_MIN: usize = 8_192;
const BEST_EFFORT_FRAMES_MIN: usize = 4;

/// The frames agent's end of a queue.
pub(crate) struct TargetQueue {
    /// None once the target has the run's last frame.
    items: Option<Sender<Item>>,
    answers: Receiver<Answer>,
    /// Bytes of columns that wait.
    fill: Arc<FillLevel>,
    /// Bytes that may wait in chunks for a target that is best effort.
    chunk_bytes_max: u64,
    /// Whether frames wait for it.
    required: bool,
    /// Wakes the target.
    waker: Waker,
    live: Arc<Live>,
    /// The target's number.
    number: usize,
    answer: Option<Answer>,
    /// What it gets of each frame; none: all of it.
    selection: Option<Selection>,
    /// The frame that it was offered last.
    offered: Option<Arc<FrameHead>>,
    /// Frames that it has not got.
    not_taken: Option<Box<FrameHead>>,
}

/// A target's end of its queue.
pub(crate) struct TargetInput {
    items: Receiver<Item>,
    answers: Sender<Answer>,
    fill: Arc<FillLevel>,
    /// Items of a run that has ended without the target.
    kept: VecDeque<Item>,
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

/// The parts of which a queue is made.
pub(crate) struct QueueParts {
    pub(crate) live: Arc<Live>,
    /// The target's number.
    pub(crate) number: usize,
    /// What it gets of each frame; none: all of it.
    pub(crate) selection: Option<Selection>,
    /// Wakes the target.
    pub(crate) target: Waker,
    /// Wakes the frames agent.
    pub(crate) frames: Waker,
}

/// A target's queue.
pub(crate) fn target_queue(
    config: &RecorderConfig,
    parts: QueueParts,
) -> (TargetQueue, TargetInput) {
    let QueueParts { live, number, selection, target, frames } = parts;
    let required = live.targets[number].required;
    let of_frame = config.frame_columns_max() + 2;
    let columns = match required {
        true => COLUMNS_MAX,
        false => (BEST_EFFORT_FRAMES_MIN * of_frame).max(BEST_EFFORT_COLUMNS_MIN),
    };
    // Beside columns there are an end, a beginning and the frames that were not taken.
    let (items_in, items) = crossbeam_channel::bounded(columns + 4);
    let (answers_in, answers) = crossbeam_channel::bounded(1);
    let fill = Arc::clone(&live.targets[number].queue);
    let input = TargetInput {
        items,
        answers: answers_in,
        fill: Arc::clone(&fill),
        kept: VecDeque::new(),
        required,
        frames,
    };
    let queue = TargetQueue {
        items: Some(items_in),
        answers,
        fill,
        chunk_bytes_max: config.target_queue_bytes(),
        required,
        waker: target,
        live,
        number,
        answer: None,
        selection,
        offered: None,
        not_taken: None,
    };
    (queue, input)
}

impl TargetQueue {
    /// Offers a frame.
    pub(crate) fn begin(&mut self, head: &Arc<FrameHead>) {
        let moves_links = head.positions.iter().any(|one| one.what == Position::LINK);
        let head = self.head_of(head);
        self.answer = None;
        let selection = self.selection.as_ref();
        if selection.is_some_and(|selection| !selection.has_frames(head.info.kind)) {
            // These positions are durable once the target has a frame behind this one.
            if self.required && moves_links {
                self.of_target().is_passed_over.store(true, Relaxed);
            }
            return self.pass_over(&head);
        }
        if !self.required {
            if !self.has_room_for(&head) {
                // The target itself may learn of it much later.
                self.of_target().count(&head.counts, SourceCounts::of_not_taken);
                return self.pass_over(&head);
            }
            self.answer = Some(Answer::Takes { begins_file: false });
        }
        self.send_not_taken();
        self.send(Item::Begin(Arc::clone(&head)));
        self.offered = Some(head);
    }

    /// A frame as it is there.
    fn head_of(&self, head: &Arc<FrameHead>) -> Arc<FrameHead> {
        self.selection.as_ref().map_or_else(|| Arc::clone(head), |selection| selection.head(head))
    }

    /// A column as it is there; none if the target does not get it.
    fn column_of(&self, column: &SharedColumn) -> Option<SharedColumn> {
        match &self.selection {
            None => Some(Arc::clone(column)),
            Some(selection) => selection.column(column),
        }
    }

    /// The target does not get a frame.
    fn pass_over(&mut self, head: &FrameHead) {
        self.answer = Some(Answer::Refuses);
        match &mut self.not_taken {
            Some(before) => before.join(head),
            before => *before = Some(Box::new(head.as_skipped())),
        }
    }

    /// Whether all of a frame has room.
    fn has_room_for(&self, head: &FrameHead) -> bool {
        let Some(items) = &self.items else { return false };
        let room = items.capacity().unwrap_or(0).saturating_sub(items.len());
        self.fits(head.bytes_max) && room >= head.columns + 4
    }

    /// Whether so many bytes of columns have room, if anything waits.
    fn fits(&self, bytes: u64) -> bool {
        let waiting = self.fill.content();
        waiting == 0 || waiting + bytes <= self.fill.capacity()
    }

    fn send_not_taken(&mut self) {
        if let Some(frames) = self.not_taken.take() {
            self.of_target().is_passed_over.store(false, Relaxed);
            self.send(Item::NotTaken(frames));
        }
    }

    /// The targets' answers to the frame that was offered last, once all have answered. One whose
    /// agent has failed has not got it.
    pub(crate) fn admitted(targets: &mut [Self]) -> Option<Admitted> {
        let mut all = Admitted { takes: false, begins_file: false };
        for target in targets {
            if target.answer.is_none() {
                target.answer = match target.answers.try_recv() {
                    Ok(answer) => Some(answer),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => {
                        // Nobody takes what waits.
                        target.items = None;
                        if let Some(head) = target.offered.take() {
                            target.of_target().count(&head.counts, SourceCounts::of_discarded);
                        }
                        Some(Answer::Refuses)
                    }
                };
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

    pub(crate) fn required(&self) -> bool {
        self.required
    }

    fn of_target(&self) -> &LiveTarget {
        &self.live.targets[self.number]
    }

    /// The run ends without the target, which is late.
    pub(crate) fn leave(&self) {
        self.of_target().is_left.store(true, Relaxed);
        self.waker.wake();
    }

    fn takes(&self) -> bool {
        matches!(self.answer, Some(Answer::Takes { .. }))
    }

    /// Whether a column has room, or need not wait for it.
    pub(crate) fn has_room(&self, column: &SharedColumn) -> bool {
        let is_full = self.items.as_ref().is_none_or(|items| items.len() >= COLUMNS_MAX);
        // What waits for an agent that has failed will never be less.
        let fits = || self.fits(bytes_of(column)) && !is_full;
        !self.required || !self.takes() || fits() || self.has_ended()
    }

    /// Gives the target a column, if it takes the frame.
    pub(crate) fn put(&mut self, column: &SharedColumn) {
        if !self.takes() {
            return;
        }
        let Some(column) = self.column_of(column) else { return };
        self.fill.put(bytes_of(&column));
        let waiting = self.fill.content();
        let is_behind = !self.required && waiting > self.chunk_bytes_max;
        let is_in_bounds = waiting <= self.fill.capacity();
        let moved = (is_behind && is_in_bounds).then(|| out_of_chunks(&column));
        self.send(Item::Column(moved.flatten().unwrap_or(column)));
    }

    /// The target has all columns of the frame, if it takes it.
    pub(crate) fn end(&mut self, lowered: &[Lowered]) {
        if self.takes() {
            let selection = self.selection.as_ref();
            let has = |one: &&Lowered| selection.is_none_or(|all| all.has_column(one.id));
            let mut by_source = vec![0; self.live.ledger.source_count()];
            for one in lowered.iter().filter(has) {
                by_source[one.source] += one.bytes;
            }
            self.send(Item::End(by_source.into()));
        }
    }

    /// Gives the target the run's last frame.
    pub(crate) fn end_run(&mut self, head: &Arc<FrameHead>, mut columns: Vec<SharedColumn>) {
        self.send_not_taken();
        columns.retain(|column| self.column_of(column).is_some());
        self.send(Item::Last(self.head_of(head), columns));
        self.items = None;
        self.waker.wake();
    }

    /// Whether the target has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.answers.try_recv(), Err(TryRecvError::Disconnected))
    }

    fn send(&self, item: Item) {
        // An agent that has failed, which is reported, takes nothing any more.
        if let Some(Err(TrySendError::Full(_))) =
            self.items.as_ref().map(|items| items.try_send(item))
        {
            unreachable!("there is room for what goes with the columns");
        }
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
    pub(crate) fn next(&mut self) -> Result<Item, TryRecvError> {
        match self.kept.pop_front() {
            Some(item) => Ok(item),
            None => self.items.try_recv(),
        }
    }

    /// Keeps what waits outside of the chunks, whose memory the next run needs.
    pub(crate) fn leave_chunks(&mut self) {
        let own = |item| match item {
            Item::Column(column) => Item::Column(out_of_chunks(&column).unwrap_or(column)),
            item => item,
        };
        let items: Vec<Item> = self.items.try_iter().map(own).collect();
        self.kept.extend(items);
    }

    /// Whether columns take half of what may wait.
    pub(crate) fn is_half_full(&self) -> bool {
        self.fill.content() > self.fill.capacity() / 2
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
    column.done.memory_bytes() as u64
}

/// A column with bytes of its own, if its bytes are in chunks.
pub(crate) fn out_of_chunks(column: &SharedColumn) -> Option<SharedColumn> {
    let EncodedColumn { form, raw_bytes, ref done } = **column;
    let (ColumnBytes::Chunks(_), Stored::Column) = (&done.column, &done.stored) else {
        return None;
    };
    let mut bytes = Vec::with_capacity(done.stored_bytes());
    let pieces = (0..).map_while(|index| done.stored_piece(index));
    pieces.for_each(|piece| bytes.extend_from_slice(piece));
    let done = Done {
        checksums: done.checksums.clone(),
        lowered: done.lowered,
        coding: done.coding,
        ..Done::as_it_is(ColumnBytes::Own(bytes))
    };
    Some(Arc::new(EncodedColumn { form, raw_bytes, done }))
}

#[cfg(test)]
mod tests {
    use catchment_encoder::{Coding, Element, Level};
    use catchment_frame::{Dtype, EventColumns, FrameInfo, FrameKind, Schema};
    use catchment_model::{Entry, Ledger, SampleRate, SourceId};
    use catchment_writer::{FrameColumn, FrameEncoder, FrameUnderWay, Next, ledger_column};

    use super::*;
    use crate::config::SourceConfig;
    use crate::links::{ChannelConfig, LinkConfig};
    use crate::schema::schema;
    use crate::target_config::TargetConfig;

    /// A target of a recorder with one source, and a frame of three fragments.
    fn required() -> (Arc<Live>, TargetQueue, TargetInput, FrameHead) {
        let source = SourceConfig::new("source".to_owned(), ([127, 0, 0, 1], 0).into());
        let config = RecorderConfig::new("".into(), vec![source]);
        let live = Arc::new(Live::new(&config));
        let schema = Arc::new(schema(&config).expect("a schema"));
        let (queue, input, head) = required_of(&config, &live, schema, None);
        (live, queue, input, head)
    }

    fn required_of(
        config: &RecorderConfig,
        live: &Arc<Live>,
        schema: Arc<Schema>,
        selection: Option<Selection>,
    ) -> (TargetQueue, TargetInput, FrameHead) {
        let parts = QueueParts {
            live: Arc::clone(live),
            number: 0,
            selection,
            target: Waker::default(),
            frames: Waker::default(),
        };
        let (queue, input) = target_queue(config, parts);
        let head = FrameHead {
            ledger: EventColumns::of(&schema).ledger_increment.expect("a column"),
            schema,
            info: FrameInfo { rows: 3, key_last: 2, ..FrameInfo::EMPTY },
            columns: 1,
            bytes_max: 0,
            list: Vec::new(),
            channels: Arc::default(),
            counts: vec![SourceCounts { fragments: 3, ..SourceCounts::default() }],
            keys: 3,
            increment: Ledger::new(config.ledger_count()),
            positions: Arc::default(),
            position_column: None,
            small: Coding::None,
            is_last: false,
        };
        (queue, input, head)
    }

    fn column(head: &FrameHead) -> SharedColumn {
        let (form, records) = ledger_column(head.ledger, &head.increment, &head.increment);
        let bytes = ColumnBytes::Own(records);
        let column = FrameColumn::small(form, Element::Bytes, Coding::None, bytes);
        let mut frame = FrameUnderWay::new(vec![column]);
        match FrameEncoder::new(None).next(&mut frame, Level::AsAsked) {
            Next::Column(column) => Arc::new(column),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_target_that_gets_nothing_of_frames_that_move_links_asks_for_one_of_its_own() {
        let source = SourceConfig::new("source".to_owned(), ([127, 0, 0, 1], 0).into());
        let mut config = RecorderConfig::new("".into(), vec![source]);
        let channel = ChannelConfig::new("c0", Dtype::I16, SampleRate::new(16, 1).unwrap());
        config.links = vec![LinkConfig::new("link", ([127, 0, 0, 1], 0).into(), vec![channel])];
        let target = TargetConfig::folder("target".to_owned(), "run".into());
        config.targets = vec![TargetConfig { sources: Some(vec!["source".into()]), ..target }];
        let (live, schema) = (Arc::new(Live::new(&config)), schema(&config).expect("a schema"));
        let schema = Arc::new(schema);
        let selection = Selection::new(&live.targets[0].variant, &schema, 1);
        let (mut queue, input, mut head) = required_of(&config, &live, schema, Some(selection));
        let wants = || [0, 1].map(|source| live.wants_frame([SourceId(source)].into_iter()));

        head.info.kind = FrameKind::Channels;
        queue.begin(&Arc::new(head.clone()));
        assert_eq!(wants(), [false, false]);
        let (what, session, position) = (Position::LINK, 5, 10);
        head.positions = [Position { source: 1, what, session, position }].into();
        queue.begin(&Arc::new(head.clone()));
        assert_eq!(wants(), [true, false]);
        head.info.kind = FrameKind::Events;
        queue.begin(&Arc::new(head));
        assert_eq!(wants(), [false, false]);
        drop(input);
    }

    #[test]
    fn a_target_whose_agent_has_failed_holds_up_nobody() {
        let (live, queue, input, head) = required();
        let (mut targets, head) = ([queue], Arc::new(head));
        targets[0].begin(&head);
        assert!(TargetQueue::admitted(&mut targets).is_none());
        input.answer(Answer::Takes { begins_file: true });
        assert!(TargetQueue::admitted(&mut targets).is_some_and(|all| all.takes));
        // It fails while its queue is full.
        targets[0].fill.put(1 << 40);
        assert!(!targets[0].has_room(&column(&head)));
        drop(input);
        assert!(targets[0].has_room(&column(&head)));
        targets[0].put(&column(&head));
        targets[0].end(&[]);
        targets[0].begin(&head);
        assert!(TargetQueue::admitted(&mut targets).is_some_and(|all| !all.takes));
        let counted = live.total().total();
        assert_eq!(counted[Entry::FragmentsDiscardedDisk], 3);
    }
}
