//! The build agent: from descriptors to frames.
//!
//! A duty cycle: move descriptors from the receive agents' rings into the builder, let it close
//! events, take the frames that it cuts, pass them on to the frames agent, and free the memory of
//! payload that was written or discarded. Frames that the frames agent cannot take yet are kept
//! here; the chunk pool bounds their payload.
//!
//! Event sources and channel links each have a builder and a pool of their own (a [`Pipeline`]),
//! and the same cycle.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{Agent, Waker, Work};
use catchment_builder::{
    BuilderConfig, BuilderStatus, Cut, Discard, Fragment, Jump, Restart, SourceNote, SourceRole,
    Span, TooLarge,
};
use catchment_model::units::Bytes;
use catchment_model::{Entry, SourceId};
use catchment_telemetry::FillLevel;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use rtrb::Consumer;

use crate::live::{Alignment, Live};
use crate::match_rule::RuledBuilder;
use crate::pool::{ChunkPool, ChunkUse, Held, is_chain};
use crate::run_gate::RunGate;
use crate::tape::{Decided, Tape};
use crate::unread::Unread;

/// The time to the next cycle when there was no work. Descriptors gather meanwhile, which makes the
/// cycle cheaper.
const IDLE_NS: u64 = 1_000_000;
/// Frames kept for reuse: after a stall, as many as waited then need no new memory.
const REUSE_MAX: usize = 64;
/// How often displays get new counts of events.
const STATUS_INTERVAL_NS: u64 = 100_000_000;

/// Descriptors from one receive agent, and how full their ring is.
pub(crate) type Ring = (Consumer<Fragment>, Arc<FillLevel>);

/// A cut on its way to the frames agent.
#[derive(Debug, Default)]
pub(crate) struct FrameCut {
    /// It has no rows if it is for positions alone.
    pub(crate) cut: Cut,
    /// The pipeline that it comes from.
    pub(crate) group: usize,
    /// What it decides of link sources.
    pub(crate) decided: Decided,
}

/// What a pipeline builds, for displays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Events of the sources.
    Events,
    /// Channels of the links.
    Channels,
}

impl Kind {
    /// The warning when most senders restart their numbering.
    fn restarted(self, Restart { from, to }: Restart) -> String {
        let (what, unit) = match self {
            Self::Events => ("the sources' event numbers", ""),
            Self::Channels => ("the links' time", "slice "),
        };
        let (far, way) = (from.abs_diff(to), if to < from { "back" } else { "ahead" });
        format!(
            "{what} restarted at {unit}{to} after {from}, {far} {way}: nothing in between counts \
             as missing"
        )
    }
}

/// The warning when the event numbers of all sources jump ahead by the same distance.
fn jumped(Jump { from, to, sources }: Jump) -> String {
    let skipped = to - from;
    format!("event numbers jumped ahead by {skipped} on all {sources} sources, from key {from}")
}

/// The warning when events do not wait for a front-end's source any more that is there.
fn given_up(live: &Live, source: SourceId) -> String {
    let name = &live.names[source.index()];
    format!(
        "events do not wait for source {name:?}: for build.timeout it sent neither fragments nor \
         low-water keys of events that are open, nor that it is idle"
    )
}

/// The warning when events do not wait for a source that was held with its connection.
fn skewed(live: &Live, source: SourceId) -> String {
    let name = &live.names[source.index()];
    format!(
        "events did not wait for source {name:?}: there was no memory for what its connection \
         brings; its front-end sends others further ahead of it than listen.skew_bytes and memory \
         allow, or all memory waits for targets or for it (fragments_skew)"
    )
}

fn show_events(live: &Live, status: &BuilderStatus) {
    let counters = &live.counters;
    counters.events_open.store(status.open_events, Relaxed);
    counters.events_complete.store(status.events_complete, Relaxed);
    counters.events_incomplete.store(status.events_incomplete, Relaxed);
    counters.events_timed_out.store(status.events_timed_out, Relaxed);
    counters.events_overtaken.store(status.events_overtaken, Relaxed);
    counters.events_absent.store(status.events_absent, Relaxed);
    counters.fragments_unconfigured.store(status.fragments_of_no_source, Relaxed);
    let before = counters.events_capped.swap(status.events_capped, Relaxed);
    if before == 0 && status.events_capped > 0 {
        live.warn_once(
            "events are longer than build.time.span_max, and end there (events_capped): what \
             follows opens other events, or is in none"
                .to_owned(),
        );
    }
}

/// The build agent's state.
pub(crate) struct Build {
    pub(crate) live: Arc<Live>,
    pub(crate) gate: RunGate,
    pub(crate) pipelines: Vec<Pipeline>,
    /// Cuts on their way to the frames agent; none once the last has been passed on.
    pub(crate) frames: Option<Sender<FrameCut>>,
    /// Cuts that the frames agent has turned into frames, whose memory is reused.
    pub(crate) done: Receiver<FrameCut>,
    /// Wakes the frames agent.
    pub(crate) waker: Waker,
    pub(crate) status_due_ns: u64,
    pub(crate) discarded: Vec<Discard>,
}

/// A builder with its input and output.
pub(crate) struct Pipeline {
    pub(crate) kind: Kind,
    pub(crate) builder: RuledBuilder,
    pub(crate) rings: Vec<Ring>,
    pub(crate) chunk_use: ChunkUse,
    pub(crate) pausable: Pausable,
    pub(crate) unread: Unread,
    pub(crate) tape: Tape,
    /// Sources of which is said that events do not wait for them.
    pub(crate) given_up: BTreeSet<u32>,
    /// Until all sources that it names have come again.
    pub(crate) restarted: Option<Restarted>,
    pub(crate) pool: Arc<ChunkPool>,
    /// The lane of chunks and the source of the ledger for each of the builder's sources.
    pub(crate) lanes: Vec<(u32, SourceId)>,
    /// Payload bytes between the builder and the targets.
    pub(crate) waiting_fill: Arc<FillLevel>,
    pub(crate) waiting: VecDeque<FrameCut>,
    pub(crate) reuse: Vec<Cut>,
    /// The ranges that frames have released, while they are processed.
    pub(crate) released: Vec<Span>,
    pub(crate) finished: bool,
    pub(crate) event_bytes_max: u64,
    /// Whether an event that was too large has been reported.
    pub(crate) refused: bool,
    /// The number of restarts of its numbering when they were last reported.
    pub(crate) restarts: u64,
    /// The same for jumps ahead.
    pub(crate) jumps: u64,
    /// Descriptors taken from one ring in a cycle.
    pub(crate) cycle_fragments: usize,
    /// Whether the last cycle took all descriptors that the rings had.
    pub(crate) has_emptied_rings: bool,
}

impl Agent for Build {
    /// Builds until all receive agents have ended and all frames are passed on.
    fn work(&mut self, now_ns: u64) -> Work {
        if now_ns >= self.status_due_ns {
            self.show_status(now_ns, false);
            self.status_due_ns = now_ns + STATUS_INTERVAL_NS;
        }
        self.gate.apply(now_ns, &mut self.pipelines);
        let mut work = 0;
        for pipeline in &mut self.pipelines {
            work += pipeline.cycle(now_ns, &self.live, &mut self.discarded);
        }
        work += self.pass_on() + self.take_back();
        for pipeline in &mut self.pipelines {
            work += pipeline.take_released();
            pipeline.chunk_use.give_back(&pipeline.pool);
            pipeline.look(now_ns);
        }
        self.gate.settle(&self.pipelines);
        if self.pipelines.iter().all(|one| one.finished && one.waiting.is_empty()) {
            self.show_status(now_ns, true);
            self.frames = None;
            self.waker.wake();
            return Work::ended();
        }
        if work == 0 { Work::until(0, now_ns + IDLE_NS) } else { Work::again(work as u64) }
    }
}

impl Build {
    fn show_status(&mut self, now_ns: u64, is_last: bool) {
        let counters = &self.live.counters;
        for pipeline in &mut self.pipelines {
            let status = pipeline.builder.status();
            if let Some(restart) = status.last_restart
                && status.restarts_followed
                    > std::mem::replace(&mut pipeline.restarts, status.restarts_followed)
            {
                self.live.warn_once(pipeline.kind.restarted(restart));
            }
            if let Some(jump) = status.last_jump
                && status.jumps > std::mem::replace(&mut pipeline.jumps, status.jumps)
            {
                self.live.warn_once(jumped(jump));
            }
            if let Some(TooLarge { key, bytes }) =
                status.last_too_large.filter(|_| !pipeline.refused)
            {
                pipeline.refused = true;
                let (bytes, most) = (Bytes(bytes), Bytes(pipeline.event_bytes_max));
                self.live.warn_once(format!(
                    "event {key} has {bytes}, more than build.event_bytes_max, {most}: such events \
                     are discarded (fragments_discarded_too_large)"
                ));
            }
            // A link is out of step if any of its channels is: they share one clock.
            let lanes: Vec<_> = pipeline.lanes.iter().zip(&status.sources).collect();
            for of_source in lanes.chunk_by(|((_, one), _), ((_, other), _)| one == other) {
                let (_, source) = *of_source[0].0;
                let alignment = Alignment {
                    unread: pipeline.unread.has(source),
                    out_of_step: of_source.iter().any(|(_, status)| status.out_of_step),
                    astray: of_source.iter().find_map(|(_, status)| status.astray),
                    is_flooding: of_source.iter().any(|(_, status)| status.is_flooding),
                    parked_fragments: of_source.iter().map(|(_, status)| status.parked).sum(),
                    other_sender: of_source.iter().any(|(_, status)| status.other_sender),
                    ..Alignment::default()
                };
                self.live.set_alignment(source, alignment);
                // Of one that is held something else is said.
                let is_held = pipeline.pausable.held.is_held(source.0);
                if !is_held && of_source.iter().any(|(_, status)| status.given_up) {
                    self.live.warn_once(given_up(&self.live, source));
                    pipeline.given_up.insert(source.0);
                } else if pipeline.given_up.remove(&source.0) {
                    self.live.end_warnings(&given_up(&self.live, source), now_ns);
                }
            }
            self.live.offsets.show(pipeline.builder.offsets(), status.base_key, is_last);
            match pipeline.kind {
                Kind::Events => show_events(&self.live, &status),
                Kind::Channels => {
                    counters.slices_open.store(status.open_events, Relaxed);
                    counters.slices_complete.store(status.events_complete, Relaxed);
                    counters.slices_incomplete.store(status.events_incomplete, Relaxed);
                    counters.slices_absent.store(status.events_absent, Relaxed);
                }
            }
        }
    }

    fn pass_on(&mut self) -> usize {
        let Some(frames) = &self.frames else { return 0 };
        let pipelines = self.pipelines.iter_mut().enumerate();
        let passed: usize =
            pipelines.map(|(group, pipeline)| pipeline.pass_on(group, frames)).sum();
        if passed > 0 {
            self.waker.wake();
        }
        passed
    }

    fn take_back(&mut self) -> usize {
        let mut taken = 0;
        while let Ok(FrameCut { cut, group, .. }) = self.done.try_recv() {
            let pipeline = &mut self.pipelines[group];
            if pipeline.reuse.len() < REUSE_MAX {
                pipeline.reuse.push(cut);
            }
            taken += 1;
        }
        taken
    }
}

impl Pipeline {
    /// Takes descriptors, closes the events that can be closed, and cuts frames. Returns the work
    /// done.
    fn cycle(&mut self, now_ns: u64, live: &Live, discarded: &mut Vec<Discard>) -> usize {
        self.builder.resume(now_ns);
        let rings = &self.rings;
        // Before: what the threads have passed on by now is taken, unless there is too much.
        self.unread.look(now_ns, |thread| ended(&rings[thread].0));
        let mut work = self.take_descriptors(now_ns);
        if !self.finished && work == 0 && self.rings.iter().all(|(ring, _)| ended(ring)) {
            self.builder.finish(now_ns);
            self.finished = true;
        }
        // Where nothing is on its way to the targets, memory waits for open events alone. A source
        // that promises and is held beside another one then cannot bring what they wait for.
        let has_frames = self.waiting_fill.level() > 0 || !self.waiting.is_empty();
        self.pausable.hold(&mut self.builder, (now_ns, has_frames), &self.lanes);
        self.unread.hold(&mut self.builder, (now_ns, self.has_emptied_rings), &self.lanes);
        self.builder.poll(now_ns);
        self.pausable.show(&self.builder, &self.lanes);
        self.account(live, discarded);
        while let Some(mut cut) = self.builder.cut(now_ns, self.reuse.pop()) {
            self.account(live, discarded);
            self.count_restarted(live, &cut);
            resolve_chains(&mut cut, &self.pool);
            self.waiting_fill.put(cut.payload_bytes);
            for (column, &(lane, _)) in cut.columns.iter().zip(&self.lanes) {
                self.chunk_use.framed(lane, column.payload_bytes);
            }
            // The run's end closes events whatever they wait for.
            if !self.finished {
                self.pausable.count_skew(live, &self.builder, (&cut, &self.lanes));
            }
            let decided = self.tape.cut(now_ns, &self.builder, &cut);
            self.waiting.push_back(FrameCut { cut, group: 0, decided });
            work += 1;
        }
        self.account(live, discarded);
        // A frame that is on its way has what a target wants to say.
        let sources = self.lanes.iter().map(|&(_, source)| source);
        let is_wanted = !has_frames && !self.finished && live.wants_frame(sources);
        let why = (self.finished, is_wanted);
        if let Some(decided) = self.tape.cut_alone(now_ns, why, &self.builder) {
            let cut = Cut::default();
            self.waiting.push_back(FrameCut { cut, group: 0, decided });
            work += 1;
        }
        work
    }

    /// Says for which sources the next event waits, and whether it is calm: when all memory is
    /// given back that this cycle has freed, since who asks may then find some.
    fn look(&mut self, now_ns: u64) {
        debug_assert!(self.chunk_use.has_given_back(), "what is freed is free before it is calm");
        let has_frames = self.waiting_fill.level() > 0 || !self.waiting.is_empty();
        let is_calm = !has_frames && self.builder.row_count() == 0;
        self.pausable.look(&mut self.builder, (now_ns, is_calm), &self.lanes);
    }

    /// Whether all sources that are sending, or were sending when the last of them fell silent,
    /// have reached the same key, a link with all its channels: events wait for none of them.
    pub(crate) fn is_settled(&self) -> bool {
        let sources = self.builder.status().sources;
        let mut sending = sources.iter().filter(|source| !source.silent && !source.out_of_step);
        let first = sending.clone().find_map(|source| source.newest_key);
        sending.all(|source| {
            !source.is_awaited && source.newest_key.is_none_or(|key| Some(key) == first)
        })
    }

    /// Whether each receive agent has passed on all that stood in its endpoints at that time.
    pub(crate) fn is_passed_on_since(&self, since_ns: u64) -> bool {
        self.unread.is_emptied_since(since_ns, |thread| ended(&self.rings[thread].0))
    }

    fn take_descriptors(&mut self, now_ns: u64) -> usize {
        let mut taken = 0;
        self.has_emptied_rings = true;
        for (ring, fill) in &mut self.rings {
            let slots = ring.slots();
            let available = slots.min(self.cycle_fragments);
            self.has_emptied_rings &= available == slots;
            if available == 0 {
                continue;
            }
            let Ok(chunk) = ring.read_chunk(available) else { continue };
            let (first, second) = chunk.as_slices();
            for part in [first, second] {
                // A fragment without bytes is in no chunk.
                for fragment in part.iter().filter(|fragment| fragment.bytes > 0) {
                    let &Fragment { offset, bytes, .. } = fragment;
                    let (lane, _) = self.lanes[fragment.source as usize];
                    self.chunk_use.arrived(&self.pool, lane, offset, bytes);
                }
                let mut rest = part;
                while !rest.is_empty() {
                    let (builder, pausable) = (&mut self.builder, &mut self.pausable);
                    let fragments = self.tape.take(&mut rest, |source, note| {
                        if let Some(note) = pausable.note(source, note) {
                            builder.note(now_ns, source, note);
                        }
                    });
                    self.pausable.take(fragments);
                    self.builder.push(now_ns, fragments);
                }
            }
            chunk.commit_all();
            fill.take((available * size_of::<Fragment>()) as u64);
            taken += available;
        }
        taken
    }

    /// Adds the builder's counts to the ledger, but for those of link sources that go with a cut,
    /// and frees the payload that it discarded.
    fn account(&mut self, live: &Live, discarded: &mut Vec<Discard>) {
        let Self { lanes, tape, .. } = self;
        self.builder.counts(|lane, entry, count| {
            if !tape.keep(lane.index(), entry, count) {
                live.ledger.add(lanes[lane.index()].1, entry, count);
            }
        });
        self.builder.discarded(discarded);
        for discard in discarded.drain(..) {
            self.tape.discarded(&discard);
            self.pool.forget_holes(discard.offset);
            self.chunk_use.done(&self.pool, discard.offset, u64::from(discard.bytes));
        }
    }

    /// Counts what senders that cannot send again had sent while no recorder was there.
    fn count_restarted(&mut self, live: &Live, cut: &Cut) {
        let Some(Restarted { closed_key, waiting }) = &mut self.restarted else { return };
        // Numbers that begin again say nothing of what is between.
        let has_begun_again = self.builder.status().restarts_followed > 0;
        waiting.retain(|&source| {
            let column = &cut.columns[source];
            let is_there = |row: &usize| {
                let is_set = |bits: &Vec<u8>| bits[row / 8] & 1 << (row % 8) != 0;
                column.fragments > 0 && column.validity.as_ref().is_none_or(is_set)
            };
            let Some(row) = (0..cut.keys.len()).find(is_there) else { return true };
            if !has_begun_again {
                let lost = cut.keys[row].saturating_sub(*closed_key);
                live.ledger.add(self.lanes[source].1, Entry::FragmentsLostRestart, lost);
            }
            false
        });
        if waiting.is_empty() {
            self.restarted = None;
        }
    }

    fn pass_on(&mut self, group: usize, frames: &Sender<FrameCut>) -> usize {
        let mut passed = 0;
        while let Some(cut) = self.waiting.pop_front() {
            match frames.try_send(FrameCut { group, ..cut }) {
                Ok(()) => passed += 1,
                Err(TrySendError::Full(cut)) => {
                    self.waiting.push_front(cut);
                    break;
                }
                // The frames agent ends only after this one, or by a panic, which the join reports.
                Err(TrySendError::Disconnected(_)) => self.waiting.clear(),
            }
        }
        passed
    }

    /// Frees the chunks of the ranges that frames have released; returns the number of ranges.
    fn take_released(&mut self) -> usize {
        let released = self.pool.take_released(std::mem::take(&mut self.released));
        for &span in &released {
            self.chunk_use.released(&self.pool, span);
        }
        self.waiting_fill.take(released.iter().map(|span| span.bytes).sum());
        self.released = released;
        let count = self.released.len();
        self.released.clear();
        count
    }
}

/// Required sources of a run that goes on, whose senders cannot send again: those that have not
/// come since.
pub(crate) struct Restarted {
    /// The key below which all events were closed.
    pub(crate) closed_key: u64,
    pub(crate) waiting: Vec<usize>,
}

impl Restarted {
    /// Of a builder with these settings; none if its run is new, or all can send again.
    pub(crate) fn of(builder: &BuilderConfig) -> Option<Self> {
        let closed_key = builder.continues.as_ref()?.closed_key;
        let is_one = |&source: &usize| {
            let sends_again = builder.positions.get(source).is_some_and(|&is_link| is_link);
            builder.sources[source] == SourceRole::Required && !sends_again
        };
        let waiting: Vec<usize> = (0..builder.sources.len()).filter(is_one).collect();
        (!waiting.is_empty()).then_some(Self { closed_key, waiting })
    }
}

/// The sources that wait if there is no room: receive agents read how many of their fragments are
/// in no event, and the builder learns which of them are held.
pub(crate) struct Pausable {
    /// By the builder's source: fragments taken in this cycle. Empty if no source waits.
    taken: Vec<u32>,
    waits: Vec<bool>,
    promises: Vec<bool>,
    held: Arc<Held>,
    /// Whether the next event waits for it. Looked at while some source that promises is held.
    awaited: Vec<bool>,
    /// The key below which events were closed before they waited for it while it is held. What it
    /// lacks of them is not for that: they may have closed while its connection was silent.
    held_from: Vec<u64>,
    /// Sources that stand behind what there was no memory for, and in which calm that was.
    behind: Vec<(usize, u64)>,
    /// Times in which nothing was on its way to the targets, and whether the last of them lasts.
    calms: u64,
    is_calm: bool,
}

impl Pausable {
    pub(crate) fn new(config: &BuilderConfig, held: Arc<Held>) -> Self {
        let waits = config.pausable.clone();
        let count = if waits.contains(&true) { waits.len() } else { 0 };
        let promises = (0..count).map(|source| config.promising.get(source) == Some(&true));
        let (taken, promises, awaited) = (vec![0; count], promises.collect(), vec![false; count]);
        let (held_from, behind) = (vec![u64::MAX; count], Vec::new());
        let (calms, is_calm) = (0, false);
        Self { taken, promises, waits, held, awaited, held_from, behind, calms, is_calm }
    }

    /// Takes note of what is said of a source, and returns what the builder is told now. That it
    /// stands behind is told at the end of the cycle, unless its connection ends before that, or
    /// another one begins: what that brings was not behind anything.
    fn note(&mut self, source: usize, note: SourceNote) -> Option<SourceNote> {
        use SourceNote::{Attached, Behind, Gone, Session, Waited};
        match note {
            Behind(calm) => {
                self.behind.push((source, calm));
                return None;
            }
            Attached | Session { .. } | Waited | Gone => {
                self.behind.retain(|(other, _)| *other != source);
            }
            _ => {}
        }
        Some(note)
    }

    #[inline]
    fn take(&mut self, fragments: &[Fragment]) {
        if !self.taken.is_empty() {
            let waits = fragments.iter().filter(|one| self.waits[one.source as usize]);
            waits.for_each(|one| self.taken[one.source as usize] += 1);
        }
    }

    /// Tells the builder which sources wait for room. While no frames are on their way, not those
    /// that promise and that the next event waits for: it has to close, so that there is room.
    fn hold(
        &self,
        builder: &mut RuledBuilder,
        (now_ns, has_frames): (u64, bool),
        lanes: &[(u32, SourceId)],
    ) {
        let may_wait =
            |source: usize| !self.promises[source] || has_frames || !self.awaited[source];
        let waits = |&source: &usize| self.waits[source] && may_wait(source);
        for source in (0..self.taken.len()).filter(waits) {
            if self.held.is_held(lanes[source].1.0) {
                builder.hold(now_ns, source);
            }
        }
    }

    /// Counts the rows of a cut that lack sources which nobody waited for any more while they were
    /// held.
    fn count_skew(
        &self,
        live: &Live,
        builder: &RuledBuilder,
        (cut, lanes): (&Cut, &[(u32, SourceId)]),
    ) {
        let lacks = |source: &usize| self.promises[*source] && cut.columns[*source].missing > 0;
        let is_held = |source: &usize| self.held.is_held(lanes[*source].1.0);
        for source in (0..self.taken.len()).filter(lacks).filter(is_held) {
            // By time nobody says which sources an event waits for.
            let from = if live.is_by_time { 0 } else { self.held_from[source] };
            let column = &cut.columns[source];
            let is_behind = |(row, key): &(usize, &u64)| {
                **key >= from && column.lacks(*row) && !builder.has_passed(source, **key)
            };
            let count = cut.keys.iter().enumerate().filter(is_behind).count() as u64;
            live.links[lanes[source].1.index()].fragments_skew.fetch_add(count, Relaxed);
            if count > 0 {
                live.warn_once(skewed(live, lanes[source].1));
            }
        }
    }

    /// Says for which sources the next event waits, where some are held; and whether memory may
    /// come free before one more closes: not if it is calm. The next event closes without those
    /// that stand behind what there is no memory for in the same calm.
    fn look(
        &mut self,
        builder: &mut RuledBuilder,
        (now_ns, is_calm): (u64, bool),
        lanes: &[(u32, SourceId)],
    ) {
        if is_calm != self.is_calm {
            (self.is_calm, self.calms) = (is_calm, self.calms + u64::from(is_calm));
            self.held.show_calm(if is_calm { self.calms } else { 0 });
        }
        let Self { promises, held, awaited, held_from, behind, .. } = self;
        let promising = (0..awaited.len()).filter(|&source| promises[source]);
        let is_held = promising.clone().any(|source| held.is_held(lanes[source].1.0));
        if !is_held {
            held_from.fill(u64::MAX);
            return behind.clear();
        }
        awaited.fill(false);
        builder.awaited(|source| awaited[source] = true);
        let released_key = builder.released_key();
        for source in promising {
            let SourceId(number) = lanes[source].1;
            held.show_awaited(number, awaited[source]);
            held_from[source] = match (held.is_held(number), awaited[source]) {
                (true, true) => held_from[source].min(released_key),
                (true, false) => held_from[source],
                (false, _) => u64::MAX,
            };
        }
        for (source, calm) in behind.drain(..) {
            if is_calm && calm == self.calms && awaited[source] {
                builder.note(now_ns, source, SourceNote::Behind(calm));
            }
        }
    }

    fn show(&mut self, builder: &RuledBuilder, lanes: &[(u32, SourceId)]) {
        // Channels of a link are neighbours, and wait together.
        let mut first = 0;
        for of_one in lanes[..self.taken.len()].chunk_by(|(_, one), (_, other)| one == other) {
            let sources = first..first + of_one.len();
            first = sources.end;
            if !self.waits[sources.start] {
                continue;
            }
            let taken = self.taken[sources.clone()].iter_mut().map(std::mem::take).sum();
            let parked = sources.map(|source| builder.parked(source)).max().unwrap_or(0);
            self.held.built(of_one[0].1.0, taken, parked);
        }
    }
}

/// Resolves the chains of chunks in a cut into ranges of bytes.
fn resolve_chains(cut: &mut Cut, pool: &ChunkPool) {
    for column in &mut cut.columns {
        if column.spans.iter().any(|span| is_chain(span.offset)) {
            let ranges = column.spans.iter().flat_map(|&span| pool.ranges(span));
            column.spans = ranges.collect();
        }
    }
}

fn ended(ring: &Consumer<Fragment>) -> bool {
    // Whether the producer is gone is read first: the second read then sees all that it pushed
    // before.
    ring.is_abandoned() && ring.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_whose_connection_ends_or_begins_is_behind_nothing_that_came_before() {
        let (taken, waits, promises) = (vec![0; 2], vec![true; 2], vec![true; 2]);
        let (held, awaited, behind) = (Arc::new(Held::new(2, None)), vec![false; 2], Vec::new());
        let (held_from, calms, is_calm) = (vec![u64::MAX; 2], 3, true);
        let mut pausable =
            Pausable { taken, waits, promises, held, awaited, held_from, behind, calms, is_calm };
        let ends = [
            SourceNote::Attached,
            SourceNote::Waited,
            SourceNote::Gone,
            SourceNote::Session { key_bits: 64 },
        ];
        for note in ends {
            assert_eq!(pausable.note(0, SourceNote::Behind(3)), None, "it is told later");
            assert_eq!(pausable.note(1, SourceNote::Behind(3)), None);
            // A promise says nothing of what it waits for.
            let promise = SourceNote::LowWater(7);
            assert_eq!(pausable.note(0, promise), Some(promise));
            assert_eq!(pausable.behind, [(0, 3), (1, 3)]);
            assert_eq!(pausable.note(0, note), Some(note));
            assert_eq!(pausable.behind, [(1, 3)]);
            pausable.behind.clear();
        }
    }
}
