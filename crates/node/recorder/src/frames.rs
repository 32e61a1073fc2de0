//! The frames agent: from cuts to encoded columns, and on to the targets.
//!
//! One frame is under way at a time. It is offered to the targets, each of which takes it when it
//! has a file and room for it, or refuses it; then its columns are encoded, by the encode agents,
//! and passed on in order. A column is encoded once, whoever takes it, and its memory (chunks, or
//! a buffer) is free when the last target has copied it. The agent never blocks: it returns, and
//! the build agent, the encode agents or a target wake it.

use std::sync::Arc;

use catchment_agent::{Agent, Waker, Work};
use catchment_builder::{ColumnCut, Cut};
use catchment_encoder::{Buffers, Coding, Column as _, Encode, Level, PoolConfig};
use catchment_frame::{
    ColumnCoding, ColumnKind, EventColumns, FrameInfo, FrameKind, Hole, Origin, Position,
    Positions, Schema, stored_space,
};
use catchment_model::{Ledger, SourceId};
use catchment_telemetry::FillLevel;
use catchment_trends::Seconds;
use catchment_writer::{
    EncodedColumn, EventFrame, EventSource, Frame, FrameEncoder, FrameMaker, FrameUnderWay, Next,
};
use crossbeam_channel::{Receiver, Sender, TryRecvError};

use crate::beginning::Beginning;
use crate::build::FrameCut;
use crate::channel_frames::ChannelFrames;
use crate::column_bytes::{ChunkBytes, ColumnBytes};
use crate::config::{RecorderConfig, SourceConfig};
use crate::frame_counts::{ChannelCounts, SourceCounts};
use crate::judge::{Judge, Judged};
use crate::live::Live;
use crate::live_target::LiveTarget;
use crate::pool::ChunkPool;
use crate::tape::{Decided, SourceCount, SourcePosition};
use crate::target_queue::{Admitted, TargetQueue};
use crate::throttle::CompressionThrottle;
use crate::trend_agent::{FrameSeconds, TrendFeed};
use crate::wiring::Channels;

/// The longest time to the next cycle while nothing happens.
const IDLE_NS: u64 = 5_000_000;
/// Columns passed on in one cycle.
const CYCLE_COLUMNS: u64 = 256;
/// How long the run's end waits for targets that are best effort once the others have ended.
const LATE_NS: u64 = 10_000_000_000;
/// The share of the CPUs assumed to be free before the first frame is encoded.
const FREE_CPU_AT_START: f32 = 0.25;

/// The parts of the wiring that the frames agent receives.
pub(crate) struct Sources {
    pub(crate) events: Option<Arc<ChunkPool>>,
    pub(crate) channels: Option<Channels>,
    /// By group, events before channels: the payload that waits.
    pub(crate) waiting: Vec<Arc<FillLevel>>,
    pub(crate) trends: Option<TrendFeed>,
}

/// The parts of which a frames agent is made.
pub(crate) struct FramesParts {
    pub(crate) schema: Arc<Schema>,
    /// Cuts arrive from the build agent, and their memory returns to it.
    pub(crate) cuts: Receiver<FrameCut>,
    pub(crate) done: Sender<FrameCut>,
    pub(crate) sources: Sources,
    pub(crate) queues: Vec<TargetQueue>,
    /// Wakes one of the encode agents, and this one.
    pub(crate) encoders: Waker,
    pub(crate) owner: Waker,
}

/// A column that was compressed less than asked.
pub(crate) struct Lowered {
    pub(crate) id: u32,
    /// The number of its source in the ledger.
    pub(crate) source: usize,
    /// Raw bytes.
    pub(crate) bytes: u64,
}

/// A column before it is encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnHead {
    pub(crate) id: u32,
    pub(crate) rows: u64,
    pub(crate) bytes_max: u64,
}

/// What targets know of a frame before they have its columns.
#[derive(Clone, Debug)]
pub(crate) struct FrameHead {
    pub(crate) schema: Arc<Schema>,
    /// Its header. The file is set by each target.
    pub(crate) info: FrameInfo,
    /// Its columns, with those that each target adds.
    pub(crate) columns: usize,
    /// The most bytes that its columns take, except for the little by which compression can enlarge
    /// them.
    pub(crate) bytes_max: u64,
    /// What is known of each column but those that each target adds; empty if all targets get all.
    pub(crate) list: Vec<ColumnHead>,
    /// By source, as far as they are known before its columns are encoded.
    pub(crate) counts: Vec<SourceCounts>,
    /// Of a frame of channels, by channel; empty if all targets get all.
    pub(crate) channels: Arc<[ChannelCounts]>,
    /// Keys in it: events, or slices.
    pub(crate) keys: u64,
    /// The ledger's counts since the frame before, but for those of targets.
    pub(crate) increment: Ledger,
    /// Positions of link sources that have moved since the frame before.
    pub(crate) positions: Arc<[Position]>,
    /// The columns of increments and of positions, if the run has these, which each target adds,
    /// and how they are encoded.
    pub(crate) ledger: u32,
    pub(crate) position_column: Option<u32>,
    pub(crate) small: Coding,
    /// Whether it is the run's last one, which has no rows.
    pub(crate) is_last: bool,
}

impl FrameHead {
    /// A frame that stands for this one where it is not: it has only increments.
    pub(crate) fn as_skipped(&self) -> Self {
        let rows = if self.info.kind == FrameKind::SKIPPED { self.info.rows } else { 1 };
        let info = FrameInfo { kind: FrameKind::SKIPPED, rows, ..self.info };
        let (list, columns) = (Vec::new(), self.columns_of_target());
        Self { info, columns, bytes_max: 0, list, keys: 0, is_last: false, ..self.clone() }
    }

    /// How many columns each target adds.
    pub(crate) fn columns_of_target(&self) -> usize {
        1 + usize::from(self.position_column.is_some())
    }

    /// Has a skipped frame stand for the next frame, too, with its counts and increments.
    pub(crate) fn join(&mut self, next: &Self) {
        let next = next.as_skipped();
        self.info = joined(self.info, next.info);
        for (sum, more) in self.counts.iter_mut().zip(next.counts) {
            sum.fragments += more.fragments;
            sum.bytes += more.bytes;
            sum.missing += more.missing;
        }
        self.increment.add(&next.increment);
        if !next.positions.is_empty() {
            let mut both = Positions::default();
            both.add(&self.positions);
            both.add(&next.positions);
            self.positions = both.records().into();
        }
    }
}

/// The header of a skipped frame that stands for what two neighbours stand for.
pub(crate) fn joined(first: FrameInfo, next: FrameInfo) -> FrameInfo {
    FrameInfo {
        rows: first.rows + next.rows,
        time_first_ns: first.time_first_ns.min(next.time_first_ns),
        time_last_ns: first.time_last_ns.max(next.time_last_ns),
        key_first: first.key_first.min(next.key_first),
        key_last: first.key_last.max(next.key_last),
        ..first
    }
}

/// An encoded column, which any number of targets may have.
pub(crate) type SharedColumn = Arc<EncodedColumn<ColumnBytes>>;

/// Makes frames of one group's cuts.
pub(crate) trait CutFrames: Send {
    /// Makes a frame from a cut and takes its payload.
    fn frame(&mut self, cut: &mut Cut) -> Frame<ColumnBytes>;

    /// Finds what is wrong with the fragments of a cut, by column; before a frame is made of it.
    fn judge(&mut self, _cut: &mut Cut) -> Vec<(usize, Judged)> {
        Vec::new()
    }

    /// The ledger's number of the source of a cut's column.
    fn source_of(&self, index: usize) -> usize;

    /// How small columns are encoded.
    fn small_coding(&self) -> Coding;
}

/// The maker of a group's frames, and how much compression there is time for.
struct Throttled {
    frames: Box<dyn CutFrames>,
    throttle: CompressionThrottle,
}

/// The frame under way.
struct Current {
    group: usize,
    head: Arc<FrameHead>,
    payload_bytes: u64,
    columns: FrameUnderWay<ColumnBytes>,
    /// A column for which a target has no room yet.
    ready: Option<SharedColumn>,
    lowered: Vec<Lowered>,
    /// The seconds of its channels.
    seconds: Vec<(usize, Seconds)>,
    /// Since when its columns are encoded; none before the targets have taken it.
    begun_ns: Option<u64>,
}

/// The frames agent's state.
pub(crate) struct Frames {
    now_ns: u64,
    live: Arc<Live>,
    cuts: Receiver<FrameCut>,
    done: Sender<FrameCut>,
    encoder: FrameEncoder<ColumnBytes>,
    /// By group.
    makers: Vec<Throttled>,
    maker: Arc<FrameMaker>,
    ledger: u32,
    position_column: Option<u32>,
    /// The newest closed key, number of settled frames and closed slice that a frame has.
    stated: [Position; 3],
    trends: Option<TrendFeed>,
    /// The last frame's values of its channels' seconds.
    seconds: Option<FrameSeconds>,
    /// When encoding of the last frame began, and how long it took.
    last_ns: Option<(u64, u64)>,
    /// The number of the next frame.
    sequence: u64,
    /// The ledger when the last frame was made.
    counted: Ledger,
    current: Option<Current>,
    targets: Vec<TargetQueue>,
    /// Whether any target gets some columns only.
    lists: bool,
    /// Whether the targets have the run's last frame.
    has_ended: bool,
    /// When the required targets had ended.
    ended_ns: Option<u64>,
}

/// The outcome of one step of a cycle.
enum Step {
    Done,
    Wait,
    Ended,
}

impl Frames {
    pub(crate) fn new(config: &RecorderConfig, parts: FramesParts, live: &Arc<Live>) -> Self {
        let FramesParts { schema, cuts, done, sources, queues, encoders, owner } = parts;
        let codings = &config.frame.codings;
        let compresses = |source: &SourceConfig| codings.of(&source.name) != ColumnCoding::NONE;
        let small = match config.sources.iter().any(compresses) {
            true => Coding::Lz4,
            false => Coding::None,
        };
        let maker = Arc::new(FrameMaker::new(&schema, true, |info| match info.kind {
            ColumnKind::FragmentPayload | ColumnKind::Channel => codings.of_column(&schema, info),
            ColumnKind::ChannelSpans => ColumnCoding::NONE,
            _ => ColumnCoding::Fixed(small),
        }));
        let events = sources.events.map(|pool| {
            let maker = Arc::clone(&maker);
            let judge = Judge::of(&config.sources);
            let holes = Vec::new();
            Box::new(EventFrames { maker, pool, small, judge, holes }) as Box<dyn CutFrames>
        });
        let first_link = config.sources.len();
        let trends = sources.trends.is_some();
        let slice_ns = config.links.first().map_or(1, |link| link.slice_ns);
        let channels = sources.channels.map(|wired| {
            let frames = ChannelFrames::new(&maker, wired, first_link, slice_ns, trends);
            Box::new(frames) as Box<dyn CutFrames>
        });
        let bytes_max = config.encode_bytes();
        let buffers = Buffers::lending(bytes_max, config.encoded_bytes_max());
        let pool = PoolConfig { bytes_max, buffers, encoders, owner };
        let needed = channels.is_some() || config.frame.codings.compresses();
        let encoder = FrameEncoder::new(needed.then_some(pool));
        // The value until it is known.
        encoder.set_free_cpu_share(FREE_CPU_AT_START);
        let makers = events.into_iter().chain(channels);
        let throttled =
            |(frames, waiting)| Throttled { frames, throttle: CompressionThrottle::new(waiting) };
        let ledger = EventColumns::of(&schema).ledger_increment;
        Self {
            now_ns: 0,
            live: Arc::clone(live),
            cuts,
            done,
            encoder,
            makers: makers.zip(sources.waiting).map(throttled).collect(),
            ledger: ledger.expect("a column of every schema of a recorder"),
            position_column: schema.column(None, &ColumnKind::SourcePositions),
            stated: [Position::CLOSED, Position::SYNCED, Position::CLOSED_SLICES].map(|what| {
                let newest = live.beginning.positions.newest(0, what);
                newest.copied().unwrap_or(Position::of_run(what, 0))
            }),
            maker,
            trends: sources.trends,
            seconds: None,
            last_ns: None,
            sequence: live.beginning.sequence,
            counted: live.beginning.common.clone(),
            current: None,
            lists: live.targets.iter().any(|target| target.variant.selected.is_some()),
            targets: queues,
            has_ended: false,
            ended_ns: None,
        }
    }

    /// An agent that encodes columns, if any are encoded.
    pub(crate) fn encoder(&self) -> Option<Encode<ColumnBytes>> {
        self.encoder.agent()
    }

    fn step(&mut self) -> Step {
        if let Some(current) = self.current.take() {
            return self.advance(current);
        }
        if !self.feed_trends() {
            return Step::Wait;
        }
        match self.cuts.try_recv() {
            Ok(mut cut) => {
                let current = self.make(&mut cut);
                // If the build agent has enough of them, the memory is dropped.
                let _returned = self.done.try_send(cut);
                self.targets.iter_mut().for_each(|target| target.begin(&current.head));
                self.current = Some(current);
                Step::Done
            }
            Err(TryRecvError::Empty) => Step::Wait,
            Err(TryRecvError::Disconnected) if !self.has_ended => {
                self.end();
                Step::Done
            }
            // The targets' last counts are in the trends.
            Err(TryRecvError::Disconnected) if self.have_targets_ended() => Step::Ended,
            Err(TryRecvError::Disconnected) => Step::Wait,
        }
    }

    /// Whether all targets have ended. A target that is best effort may be late, and is then left
    /// to itself: its disk may not answer for hours.
    fn have_targets_ended(&mut self) -> bool {
        let mut of_required = self.targets.iter().filter(|target| target.required());
        if !of_required.all(TargetQueue::has_ended) {
            return false;
        }
        let ended_ns = *self.ended_ns.get_or_insert(self.now_ns);
        let late = self.targets.iter().filter(|target| !target.has_ended());
        if self.now_ns < ended_ns + LATE_NS {
            return late.count() == 0;
        }
        late.for_each(TargetQueue::leave);
        true
    }

    /// Makes a frame from a cut; only the cut's memory remains.
    fn make(&mut self, frame_cut: &mut FrameCut) -> Current {
        let positions = self.positions(frame_cut);
        let FrameCut { cut, group, decided, .. } = frame_cut;
        // Before the snapshot: they are this frame's increments.
        for SourceCount { source, entry, count } in decided.counts.drain(..) {
            self.live.ledger.add(source, entry, count);
        }
        let group = *group;
        let mut counts = self.count(group, cut);
        let maker = &mut self.makers[group].frames;
        for (index, judged) in maker.judge(cut) {
            counts[maker.source_of(index)].judged = judged;
        }
        let of_columns = cut
            .columns
            .iter()
            .filter(|_| self.lists)
            .map(|column| ChannelCounts { bytes: column.payload_bytes, missing: column.missing });
        let channels: Arc<[ChannelCounts]> = of_columns.collect();
        let (keys, payload_bytes) = (cut.keys.len() as u64, cut.payload_bytes);
        let maker = &mut self.makers[group].frames;
        let Frame { info, columns } = maker.frame(cut);
        let Beginning { stream, epoch, .. } = self.live.beginning;
        let origin = Origin { stream, epoch, ..info.origin };
        let info = FrameInfo { sequence: self.sequence, origin, ..info };
        self.sequence += 1;
        let now = self.live.ledger.snapshot();
        let increment = now.since(&self.counted);
        self.counted = now;
        let heads = columns.iter().map(|column| ColumnHead {
            id: column.form.id,
            rows: column.form.rows,
            bytes_max: stored_space(column.bytes.raw_bytes() as u64),
        });
        let head = FrameHead {
            schema: Arc::clone(self.maker.schema()),
            info,
            columns: columns.len() + 1 + usize::from(self.position_column.is_some()),
            bytes_max: heads.clone().map(|column| column.bytes_max).sum(),
            list: if self.lists { heads.collect() } else { Vec::new() },
            counts,
            channels: if info.kind == FrameKind::Channels { channels } else { Arc::default() },
            keys,
            increment,
            positions,
            ledger: self.ledger,
            position_column: self.position_column,
            small: maker.small_coding(),
            is_last: false,
        };
        Current {
            group,
            lowered: Vec::new(),
            head: Arc::new(head),
            payload_bytes,
            columns: FrameUnderWay::new(columns),
            ready: None,
            seconds: Vec::new(),
            begun_ns: None,
        }
    }

    /// The positions that a frame states, of the next number.
    fn positions(&mut self, cut: &FrameCut) -> Arc<[Position]> {
        if self.position_column.is_none() {
            return Arc::default();
        }
        let of_source = |&SourcePosition { source, session, decided, key }: &SourcePosition| {
            let record = |what, position| Position { source: source.0, what, session, position };
            let key = (key > 0).then(|| record(Position::KEY, key));
            [Some(record(Position::LINK, decided)), key].into_iter().flatten()
        };
        let mut positions: Vec<Position> =
            cut.decided.positions.iter().flat_map(of_source).collect();
        let live = &self.live.link_positions;
        // Cuts of channels have no closed key, and those of events no closed slice.
        let Decided { closed_key, closed_slice, .. } = cut.decided;
        let has_moved =
            self.stated[0].position < closed_key || self.stated[2].position < closed_slice;
        if has_moved || closed_key == 0 && !positions.is_empty() {
            // What is in a spill alone is durable, and not in its place yet. In this order: it was
            // shown there before it was settled.
            let settled = live.frames_settled();
            let required = self.live.targets.iter().filter(|target| target.required);
            let spilled = required.map(LiveTarget::spilled_from).min().unwrap_or(u64::MAX);
            let now = [closed_key, settled.min(spilled), closed_slice];
            for (stated, now) in self.stated.iter_mut().zip(now) {
                if stated.position < now {
                    stated.position = now;
                    positions.push(*stated);
                }
            }
        }
        live.made(self.sequence + 1, &positions);
        positions.into()
    }

    /// What a frame has and lacks of each source and link.
    fn count(&self, group: usize, cut: &Cut) -> Vec<SourceCounts> {
        let mut counts = vec![SourceCounts::default(); self.counted.sources.len()];
        for (index, column) in cut.columns.iter().enumerate() {
            let counts = &mut counts[self.makers[group].frames.source_of(index)];
            counts.fragments += column.fragments;
            counts.bytes += column.payload_bytes;
            counts.missing += column.missing;
            counts.bad_sender += column.bad_sender;
            counts.bad_tag += column.bad_tag;
            counts.not_expected += column.not_expected;
        }
        counts
    }

    /// Continues with the frame under way.
    fn advance(&mut self, mut current: Current) -> Step {
        if current.begun_ns.is_none() {
            match TargetQueue::admitted(&mut self.targets) {
                None => {
                    self.current = Some(current);
                    return Step::Wait;
                }
                // No target has a file for it, and each has counted it.
                Some(Admitted { takes: false, .. }) => return Step::Done,
                Some(Admitted { begins_file, .. }) => self.begin(&mut current, begins_file),
            }
        }
        let step = self.pass_on(&mut current);
        match step {
            None => self.finish(current),
            Some(_) => self.current = Some(current),
        }
        step.unwrap_or(Step::Done)
    }

    /// Begins to encode a frame.
    fn begin(&mut self, current: &mut Current, begins_file: bool) {
        if begins_file {
            self.maker.begin_file();
        }
        if let Some((begun_ns, took_ns)) = self.last_ns {
            // The share of the time in which nothing was encoded.
            let busy = took_ns as f32 / self.now_ns.saturating_sub(begun_ns).max(1_000) as f32;
            self.encoder.set_free_cpu_share(1.0 - busy);
        }
        self.makers[current.group].throttle.begin(current.payload_bytes);
        current.begun_ns = Some(self.now_ns);
    }

    /// Passes the next column on to the targets; none when they have all.
    fn pass_on(&mut self, current: &mut Current) -> Option<Step> {
        if current.ready.is_none() {
            let maker = &mut self.makers[current.group];
            match self.encoder.next(&mut current.columns, maker.throttle.level()) {
                Next::Column(mut column) => {
                    current.look_at(&column, &*maker.frames);
                    if column.done.is_encoded() {
                        // Its chunks are needed no more.
                        column.done.column = ColumnBytes::Own(Vec::new());
                    }
                    current.ready = Some(Arc::new(column));
                }
                Next::Encoding => return Some(Step::Wait),
                Next::Failed(_) => unreachable!("a recorder's columns are there"),
                Next::End => return None,
            }
        }
        let column = current.ready.take()?;
        if !self.targets.iter().all(|target| target.has_room(&column)) {
            current.ready = Some(column);
            return Some(Step::Wait);
        }
        self.targets.iter_mut().for_each(|target| target.put(&column));
        Some(Step::Done)
    }

    /// The targets have all columns of a frame.
    fn finish(&mut self, current: Current) {
        let Current { head, lowered, seconds: channels, begun_ns, .. } = current;
        self.targets.iter_mut().for_each(|target| target.end(&lowered));
        self.last_ns = begun_ns.map(|begun_ns| (begun_ns, self.now_ns.saturating_sub(begun_ns)));
        if head.info.kind == FrameKind::Channels {
            let until_ns = head.info.time_last_ns;
            self.seconds = (!channels.is_empty()).then_some(FrameSeconds { channels, until_ns });
        }
    }

    /// Passes the seconds of the last frame on to the trend agent. Returns false if the trend agent
    /// is behind; the caller then waits with the next frame. If there is no time for compression,
    /// of events or of channels, there is no time to wait either.
    fn feed_trends(&mut self) -> bool {
        let (Some(trends), Some(seconds)) = (&self.trends, self.seconds.take()) else {
            return true;
        };
        let has_time = self.makers.iter().all(|maker| maker.throttle.has_time());
        self.seconds = trends.offer(seconds, has_time);
        self.seconds.is_none()
    }

    /// Gives the targets the run's last frame, which has no rows and the ledger's counts since the
    /// one before.
    fn end(&mut self) {
        let mut current = self.make(&mut FrameCut::default());
        let mut columns = Vec::new();
        while let Next::Column(column) = self.encoder.next(&mut current.columns, Level::AsAsked) {
            columns.push(Arc::new(column));
        }
        self.targets.iter_mut().for_each(|target| target.end_run(&current.head, columns.clone()));
        self.live.link_positions.made_all();
        self.has_ended = true;
    }
}

impl Current {
    /// Keeps what is known of a column now that it is encoded.
    fn look_at(&mut self, column: &EncodedColumn<ColumnBytes>, maker: &dyn CutFrames) {
        let ColumnBytes::Chunks(chunks) = &column.done.column else { return };
        if column.done.lowered {
            let (id, source) = (column.form.id, maker.source_of(chunks.index));
            self.lowered.push(Lowered { id, source, bytes: chunks.bytes() });
        }
        if chunks.watch.is_some() {
            self.seconds.push((chunks.index, column.done.seen.seconds.clone()));
        }
    }
}

impl Agent for Frames {
    /// Makes frames until the build agent has ended.
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
        let mut done = 0;
        while done < CYCLE_COLUMNS {
            match self.step() {
                Step::Done => done += 1,
                Step::Wait => return Work::until(done, now_ns + IDLE_NS),
                Step::Ended => return Work::ended(),
            }
        }
        Work::again(done)
    }
}

/// Makes frames of events.
struct EventFrames {
    maker: Arc<FrameMaker>,
    pool: Arc<ChunkPool>,
    small: Coding,
    judge: Judge,
    /// Of the current cut, by column.
    holes: Vec<Vec<Hole>>,
}

impl CutFrames for EventFrames {
    fn judge(&mut self, cut: &mut Cut) -> Vec<(usize, Judged)> {
        self.judge.judge(cut, &self.pool, &mut self.holes)
    }

    fn source_of(&self, index: usize) -> usize {
        index
    }

    fn small_coding(&self) -> Coding {
        self.small
    }

    fn frame(&mut self, cut: &mut Cut) -> Frame<ColumnBytes> {
        let is_said = |column: &ColumnCut| column.fragments > 0 || column.expected.is_some();
        let said = cut.columns.iter_mut().enumerate().filter(|(_, column)| is_said(column));
        let sources = said.map(|(index, column)| EventSource {
            source: SourceId(index as u32),
            payload: ChunkBytes::take(index, column, &self.pool),
            validity: column.validity.take().map(Into::into),
            expected: column.expected.take().map(Into::into),
            lengths: if column.fragments > 0 { &column.lengths } else { &[] },
            holes: self.holes.get(index).map_or(&[], Vec::as_slice),
            times: &column.times,
            pieces: &column.pieces,
        });
        let frame = EventFrame {
            sources: sources.collect(),
            keys: &cut.keys,
            times_ns: &cut.times_ns,
            flags: &cut.flags,
            increments: None,
        };
        self.maker.events(frame).expect("columns of every schema of events")
    }
}
