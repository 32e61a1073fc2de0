//! The observable state of a running recorder.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use catchment_builder::{Astray, Offsets};
use catchment_frame::RunLocation;
use catchment_model::units::counted;
use catchment_model::{Entry, Ledger, RunId, SourceId, SourceLedger};
use catchment_net::SocketGauge;
use catchment_telemetry::{FillLevel, LiveLedger, ThreadTime, ThreadTimes};
use parking_lot::Mutex;
use serde::Serialize;

use crate::beginning::Beginning;
use crate::config::RecorderConfig;
use crate::counts::{Counters, Counts};
use crate::front_ends::FrontEnds;
use crate::link_positions::LinkPositions;
use crate::live_folder::FolderSnapshot;
use crate::live_link::{LinkCounts, LiveLink};
use crate::live_offsets::LiveOffsets;
use crate::live_progress::LinkProgress;
use crate::live_target::LiveTarget;
use crate::live_warnings::PastWarning;
use crate::run_line::ShownLine;
use crate::senders::{SenderPair, Stranger};
use crate::spill_counts::SpillReport;
use crate::store_nodes::NodeShare;
use crate::target_config::{Place, TargetConfig, Variant, thread_name};

/// The state of a recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Sockets are open, files are written.
    Recording,
    /// Files cannot be written: events are built, discarded and counted until they can; or wait in
    /// memory, for a folder with a spill that takes nothing either.
    Fault {
        /// The failure, with the path and the system's message.
        reason: String,
    },
    /// The run has ended and its last file is closed.
    Stopped,
}

/// The state that the threads of a recorder write and displays read.
pub(crate) struct Live {
    /// What happens before frames are made.
    pub(crate) ledger: LiveLedger,
    /// What becomes of frames.
    pub(crate) targets: Vec<LiveTarget>,
    pub(crate) threads: Arc<ThreadTimes>,
    pub(crate) fills: Mutex<Vec<Arc<FillLevel>>>,
    pub(crate) counters: Counters,
    pub(crate) link_positions: LinkPositions,
    pub(crate) front_ends: Arc<FrontEnds>,
    /// Where the recorder began.
    pub(crate) beginning: Beginning,
    /// Whether events are built by time, and then which source may name their groups.
    pub(crate) is_by_time: bool,
    pub(crate) reference: Option<SourceId>,
    /// Whether the run is to end.
    pub(crate) is_ending: AtomicBool,
    // Indexed by the numbers of the ledger.
    alignment: Vec<LiveAlignment>,
    shown: Vec<ShownLine>,
    pub(crate) links: Vec<LiveLink>,
    pub(crate) offsets: LiveOffsets,
    /// Whether events that begin now are discarded because the run is paused.
    pub(crate) paused: AtomicBool,
    /// Set when no further arrival can belong to the ending run.
    pub(crate) past_end: AtomicBool,
    /// Whether the builders of an ending run wait for nothing: their fragments form whole events.
    pub(crate) settled: AtomicBool,
    /// Whether the pause is to end between two events, once packets of the sources had time to
    /// arrive.
    pub(crate) begin: AtomicBool,
    /// Whether the builders know that new events belong to the run.
    pub(crate) recording: AtomicBool,
    // For sources and links, indexed by the numbers of the ledger.
    pub(crate) names: Vec<String>,
    reasons: Arc<[Vec<&'static str>]>,
    // Likewise; none if there is no socket yet, or no longer one.
    gauges: Mutex<Vec<Option<SocketGauge>>>,
    state: Mutex<Reported>,
}

/// Observes a recorder, also while it ends and after it has ended.
#[derive(Clone, Debug)]
pub struct Observer(pub(crate) Arc<Live>);

impl Observer {
    /// The recorder's present state.
    pub fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    /// The front-ends of the run.
    pub fn front_ends(&self) -> &FrontEnds {
        &self.0.front_ends
    }

    /// How full each source's and each link's buffer in the kernel is, 0 to 1, in the ledger's
    /// order; none if unknown, as when the run has ended. It costs a system call for each, and is
    /// therefore not part of a snapshot.
    pub fn socket_fills(&self) -> Vec<Option<f64>> {
        let gauges = self.0.gauges.lock();
        gauges.iter().map(|gauge| gauge.as_ref().and_then(SocketGauge::fill)).collect()
    }
}

pub(crate) struct Reported {
    state: State,
    /// Whether a thread has failed: nothing that happens later mends that.
    has_failed: bool,
    pub(crate) warnings: Vec<String>,
    pub(crate) past_warnings: Vec<PastWarning>,
    faults: u64,
    last_fault: Option<String>,
    malformed: Option<MalformedPacket>,
    /// Senders to a source that its `from` does not name: the first and the last.
    rejected_senders: BTreeMap<u32, (IpAddr, IpAddr)>,
    /// Two senders to a source's port.
    senders: BTreeMap<u32, SenderPair>,
    /// The numbers of their turns and of foreign fragments when they were last shown.
    turns: BTreeMap<u32, (u64, u64)>,
}

impl Reported {
    fn set_state(&mut self, state: State) {
        if let State::Fault { reason } = &state {
            self.faults += u64::from(!matches!(self.state, State::Fault { .. }));
            self.last_fault = Some(reason.clone());
        }
        if !self.has_failed {
            self.state = state;
        }
    }
}

/// The beginning of a packet that was dropped, for diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MalformedPacket {
    /// The source at whose port it arrived.
    pub source: SourceId,
    /// The fault.
    pub reason: String,
    /// Its first bytes, at most 64.
    pub first_bytes: Vec<u8>,
}

/// A recorder at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Recording, in fault or stopped.
    pub state: State,
    /// How often recording went into fault.
    pub faults: u64,
    /// The reason of the newest fault, also after it is over.
    pub last_fault: Option<String>,
    /// The ledger, source by source.
    pub ledger: Ledger,
    /// The names of the reasons for malformed packets, which the ledger counts by their index, of
    /// each source and each link.
    pub reasons: Arc<[Vec<&'static str>]>,
    /// Counts beside the ledger.
    pub counts: Counts,
    /// How the numbers of each source and link fit those of the others, in the ledger's order.
    pub alignment: Vec<Alignment>,
    /// What befell the connections of each, in the same order.
    pub links: Vec<LinkCounts>,
    /// How far the items of each are, in the same order.
    pub progress: Vec<LinkProgress>,
    /// How far the times of each source are from those of its events; empty unless events are built
    /// by time.
    pub offsets: Vec<Offsets>,
    /// How much faster each of their clocks is than the events' time; none where that is not known,
    /// or within what jitter lets expect.
    pub drifts_ppm: Vec<Option<f64>>,
    /// The last sender of foreign fragments to each source's port, by the source's number.
    pub strangers: BTreeMap<usize, Stranger>,
    /// Every bounded queue and pool for which the run waits, in bytes.
    pub fills: Vec<Fill>,
    /// CPU time of every thread.
    pub threads: Vec<ThreadTime>,
    /// The files of the run so far, of the first target that has files.
    pub files: Vec<PathBuf>,
    /// The places that get the run's frames.
    pub targets: Vec<TargetSnapshot>,
    /// How writes reach the disk: `io_uring direct` and the like.
    pub engine: &'static str,
    /// Warnings for the operator, in plain words.
    pub warnings: Vec<String>,
    /// The number of these, from the first on, whose text is constant; the others contain counts
    /// that grow.
    pub lasting_warnings: usize,
    /// Warnings whose cause is over.
    pub past_warnings: Vec<PastWarning>,
    /// The malformed packet that was last kept for diagnosis.
    pub malformed: Option<MalformedPacket>,
}

/// A target at one moment.
#[derive(Clone, Debug)]
pub struct TargetSnapshot {
    /// Its name.
    pub name: String,
    /// Whether the run needs it.
    pub required: bool,
    /// Where its frames go.
    pub place: Place,
    /// Recording, or in fault.
    pub state: State,
    /// Why its storage node, or a folder with a spill, takes nothing now: frames wait for it in
    /// memory, or go to its spill.
    pub away: Option<String>,
    /// The run's ledger, as this target has it.
    pub ledger: Ledger,
    /// Counts of frames, files and writes.
    pub counts: Counts,
    /// Bytes of columns that wait for it.
    pub queue: Fill,
    /// Its folders, if it has any.
    pub folders: Vec<FolderSnapshot>,
    /// Its storage nodes, if it has any.
    pub nodes: Vec<NodeShare>,
    /// What it has spilled in this run, if it has a spill.
    pub spill: Option<SpillReport>,
}

impl TargetSnapshot {
    /// Whether its spill has the frames that it does not take now: nothing waits for it in memory
    /// alone, but for the newest.
    pub fn is_spilling(&self) -> bool {
        self.away.is_some() && self.spill.is_some_and(|spill| spill.takes())
    }
}

/// How the numbers of a source or link fit those of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// Whether they do not fit, so that its fragments are discarded.
    pub out_of_step: bool,
    /// How they differ from the others', where that is known.
    pub astray: Option<Astray>,
    /// Whether most of its fragments are in no event, so that they open none.
    pub is_flooding: bool,
    /// Whether the thread that receives from it is held up: its silence is not its own.
    pub unread: bool,
    /// Its fragments that wait for the others to reach or confirm their numbers.
    pub parked_fragments: u64,
    /// Whether its own sender is the one of two whose fragments carry the flag.
    pub other_sender: bool,
    /// How often its sender sent again after another one whose fragments could not be distinguished
    /// from its own.
    pub sender_turns: u64,
}

/// The same, in the form that the build agent writes.
#[derive(Debug, Default)]
struct LiveAlignment {
    out_of_step: AtomicBool,
    astray: Mutex<Option<Astray>>,
    is_flooding: AtomicBool,
    unread: AtomicBool,
    parked_fragments: AtomicU64,
    other_sender: AtomicBool,
    sender_turns: AtomicU64,
}

/// How full a queue or pool is, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fill {
    /// Its name.
    pub name: String,
    /// Its present level.
    pub level: u64,
    /// The highest level so far.
    pub highest: u64,
    /// Its capacity.
    pub capacity: u64,
}

impl From<&FillLevel> for Fill {
    fn from(fill: &FillLevel) -> Self {
        Self {
            name: fill.name().to_owned(),
            level: fill.level(),
            highest: fill.highest(),
            capacity: fill.capacity(),
        }
    }
}

impl Live {
    /// For the sources and links of a recorder with a new run.
    pub(crate) fn new(config: &RecorderConfig) -> Self {
        let (sources, targets) = (config.ledger_count(), config.targets().len());
        Self::begin(config, Beginning::new_run(sources, targets))
    }

    /// For those of a recorder that begins there.
    pub(crate) fn begin(config: &RecorderConfig, beginning: Beginning) -> Self {
        let (names, of_targets) = (config.ledger_names(), config.targets());
        let targets = of_targets.iter().zip(Variant::of(config)).zip(&beginning.targets);
        let target = |((target, variant), begins): ((&TargetConfig, Variant), &_)| {
            LiveTarget::new(config, target, variant, begins)
        };
        let ledger = LiveLedger::new(names.len());
        ledger.add_all(&beginning.common);
        ledger.add_all(&beginning.lost);
        Self {
            ledger,
            targets: targets.map(target).collect(),
            alignment: names.iter().map(|_| LiveAlignment::default()).collect(),
            shown: names.iter().map(|_| ShownLine::default()).collect(),
            links: names.iter().map(|_| LiveLink::default()).collect(),
            offsets: LiveOffsets::default(),
            gauges: Mutex::new(vec![None; names.len()]),
            threads: Arc::default(),
            fills: Mutex::default(),
            counters: Counters::default(),
            link_positions: LinkPositions::new(config, &beginning),
            front_ends: match &config.standby {
                Some(standby) => Arc::clone(standby.front_ends()),
                None => Arc::new(FrontEnds::new(config)),
            },
            beginning,
            is_by_time: config.is_by_time(),
            reference: config.reference().map(|source| SourceId(source as u32)),
            is_ending: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            past_end: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            begin: AtomicBool::new(false),
            recording: AtomicBool::new(false),
            names,
            reasons: config.ledger_reasons().into(),
            state: Mutex::new(Reported {
                state: State::Recording,
                has_failed: false,
                warnings: Vec::new(),
                past_warnings: Vec::new(),
                faults: 0,
                last_fault: None,
                malformed: None,
                rejected_senders: BTreeMap::new(),
                senders: BTreeMap::new(),
                turns: BTreeMap::new(),
            }),
        }
    }

    /// Whether a file of each required folder states the epoch, durably: before that nobody is
    /// welcomed in it.
    pub(crate) fn has_epoch(&self) -> bool {
        let mut required = self.targets.iter().filter(|target| target.required && target.keeps());
        required.all(|target| target.has_epoch.load(Acquire))
    }

    /// Pauses the run, or ends the pause now, even if it was to end between two events.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.begin.store(false, Relaxed);
        self.paused.store(is_paused, Relaxed);
    }

    pub(crate) fn set_alignment(&self, source: SourceId, alignment: Alignment) {
        let live = &self.alignment[source.index()];
        live.out_of_step.store(alignment.out_of_step, Relaxed);
        let mut astray = live.astray.lock();
        let before = (*astray).filter(|_| alignment.out_of_step);
        *astray = alignment.astray.map(|now| now.since(*astray)).or(before);
        live.is_flooding.store(alignment.is_flooding, Relaxed);
        live.unread.store(alignment.unread, Relaxed);
        live.parked_fragments.store(alignment.parked_fragments, Relaxed);
        live.other_sender.store(alignment.other_sender, Relaxed);
    }

    pub(crate) fn add_fill(&self, fill: Arc<FillLevel>) {
        self.fills.lock().push(fill);
    }

    /// Sets the probe of the buffer of a source's socket.
    pub(crate) fn set_gauge(&self, source: usize, gauge: SocketGauge) {
        self.gauges.lock()[source] = Some(gauge);
    }

    /// Ends all probes of sockets: once this returns, no probe holds a socket open.
    pub(crate) fn forget_gauges(&self) {
        self.gauges.lock().fill(None);
    }

    pub(crate) fn set_state(&self, state: State) {
        self.reported().set_state(state);
    }

    /// A thread has failed: the run stays in fault, and its target, if it was one's.
    pub(crate) fn fail(&self, thread: &str) {
        let reason = format!("the thread {thread} failed; stop the run and repair it");
        if let Some(target) = self.of_thread(thread) {
            *self.targets[target].state.lock() = State::Fault { reason: reason.clone() };
        }
        let mut reported = self.reported();
        reported.set_state(State::Fault { reason });
        reported.has_failed = true;
    }

    /// A target's thread has not ended with the run.
    pub(crate) fn set_left(&self, thread: &str, reason: &str) {
        // What a folder lacks that hangs is in its spill.
        if let Some(target) = self.of_thread(thread)
            && self.targets[target].spill.is_none()
        {
            self.set_target_state(target, State::Fault { reason: reason.to_owned() });
        }
    }

    fn of_thread(&self, thread: &str) -> Option<usize> {
        let mut names =
            (0..).zip(&self.targets).map(|(number, target)| thread_name(number, &target.name));
        names.position(|name| name == thread)
    }

    /// Sets a target's state. The run is in fault when a source is recorded in none of its required
    /// targets.
    pub(crate) fn set_target_state(&self, target: usize, state: State) {
        let of_target = &self.targets[target];
        if let State::Fault { reason } = &state
            && self.targets.len() > 1
        {
            self.warn_once(format!("target {}: {reason}", of_target.name));
        }
        // Held throughout, so that no target's thread reports what another has overtaken.
        let mut reported = self.reported();
        *of_target.state.lock() = state;
        let nowhere = |source: &usize| {
            !self.needed().any(|target| target.variant.has_whole(*source) && target.records())
        };
        let state = (0..self.names.len()).find(nowhere).and_then(|source| {
            let target = self.needed().find(|target| target.variant.has_whole(source))?;
            Some(target.state.lock().clone())
        });
        reported.set_state(state.unwrap_or(State::Recording));
    }

    /// The targets whose state is the run's: the required folders or, without any, the required
    /// targets that keep nothing.
    fn needed(&self) -> impl Iterator<Item = &LiveTarget> {
        let has_folder = self.targets.iter().any(|target| target.required && target.keeps());
        self.targets.iter().filter(move |target| target.required && target.keeps() == has_folder)
    }

    /// Whether other targets that are needed record all that a target gets.
    pub(crate) fn others_record(&self, target: usize) -> bool {
        let own = &self.targets[target];
        let others = || self.needed().filter(|other| !std::ptr::eq(*other, own));
        let of = |source| others().any(|other| other.variant.has_whole(source) && other.records());
        (0..self.names.len()).filter(|&source| own.variant.has(source)).all(of)
    }

    /// The target whose line is the run's for a source: of those needed that have all of it the one
    /// that has lost least of it, and the first of equal ones. It may be behind the one whose line
    /// was the run's before.
    fn line(&self, source: SourceId) -> Option<&LiveTarget> {
        let with_it = self.needed().filter(|target| target.variant.has_whole(source.index()));
        with_it.min_by_key(|target| target.lost(source))
    }

    /// Whether positions wait for a target's next frame, which is one of these sources and links.
    pub(crate) fn wants_frame(&self, sources: impl Iterator<Item = SourceId> + Clone) -> bool {
        self.targets.iter().any(|target| {
            let mut waits = [&target.wants_frame, &target.is_passed_over].into_iter();
            waits.any(|one| one.load(Relaxed))
                && sources.clone().any(|source| target.variant.has(source.index()))
        })
    }

    /// The run's ledger.
    pub(crate) fn total(&self) -> Ledger {
        let mut total = self.ledger.snapshot();
        let sources = total.sources.iter_mut().zip(&self.shown);
        for (number, (source, shown)) in (0..).map(SourceId).zip(sources) {
            let mut line = SourceLedger::default();
            if let Some(of_target) = self.line(number) {
                Entry::ALL.iter().for_each(|&entry| {
                    line[entry] = of_target.ledger.read(number, entry);
                });
            }
            source.add(&shown.show(line, self.durable(number)));
        }
        total
    }

    /// Fragments that the best of the targets has recorded, of each source, and not made durable.
    pub(crate) fn unsure(&self) -> u64 {
        let of = |source| {
            let count = |entry| self.line(source).map_or(0, |line| line.ledger.read(source, entry));
            count(Entry::FragmentsRecorded).saturating_sub(count(Entry::FragmentsDurable))
        };
        (0..self.names.len() as u32).map(SourceId).map(of).sum()
    }

    /// A lower bound for the fragments that are durable in all targets that are needed.
    fn durable(&self, source: SourceId) -> u64 {
        let needed = || self.needed().filter(|target| target.variant.has(source.index()));
        let lost = |target: &LiveTarget| target.ledger.read(source, Entry::FragmentsDiscardedDisk);
        let all_lost: u64 = needed().map(lost).sum();
        let of = |target: &LiveTarget| {
            let durable = target.ledger.read(source, Entry::FragmentsDurable);
            durable.saturating_sub(all_lost - lost(target).min(all_lost))
        };
        needed().map(of).min().unwrap_or(0)
    }

    /// Counts beside the ledger.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.counters.read();
        // Of what happens to frames, as the target has it to which most of it happens.
        let mut of_targets = Counts::default();
        self.needed().for_each(|target| of_targets.raise(&target.counters.read()));
        counts.add(&of_targets);
        // One that completes no write holds up the run.
        let of =
            |count: fn(&Counts) -> u64| self.needed().map(|one| count(&one.counters.read())).sum();
        counts.writes_begun = of(|counts| counts.writes_begun);
        counts.writes_completed = of(|counts| counts.writes_completed);
        counts
    }

    pub(crate) fn show_malformed(&self, packet: MalformedPacket) {
        self.reported().malformed = Some(packet);
    }

    /// Notes a sender that a source's `from` does not allow.
    pub(crate) fn show_rejected_sender(&self, source: SourceId, sender: IpAddr) {
        let mut reported = self.reported();
        reported.rejected_senders.entry(source.0).or_insert((sender, sender)).1 = sender;
    }

    /// Notes two senders to a source's port, at most one of which is the source. None if there is
    /// only one.
    pub(crate) fn show_senders(&self, source: SourceId, pair: Option<SenderPair>) {
        let Reported { senders, turns, .. } = &mut *self.reported();
        let Some(pair) = pair else {
            senders.remove(&source.0);
            return;
        };
        senders.insert(source.0, pair);
        // If fragments are found to be foreign, they are counted instead of the turns.
        let foreign = self.ledger.read(source, Entry::FragmentsForeign);
        let (turns_before, foreign_before) =
            turns.insert(source.0, (pair.turns, foreign)).unwrap_or_default();
        if foreign == foreign_before {
            let turns = pair.turns.saturating_sub(turns_before);
            self.alignment[source.index()].sender_turns.fetch_add(turns, Relaxed);
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let reported = self.reported();
        let fills = self.fills.lock();
        // What is full of another target holds up nothing.
        let buffers = self.needed().flat_map(LiveTarget::disks).map(|disk| disk.buffers());
        let fills = fills.iter().map(|fill| &**fill).chain(buffers).map(Fill::from).collect();
        let disk = self.needed().flat_map(LiveTarget::disks).next();
        let read = |live: &LiveAlignment| Alignment {
            out_of_step: live.out_of_step.load(Relaxed),
            astray: *live.astray.lock(),
            is_flooding: live.is_flooding.load(Relaxed),
            unread: live.unread.load(Relaxed),
            parked_fragments: live.parked_fragments.load(Relaxed),
            other_sender: live.other_sender.load(Relaxed),
            sender_turns: live.sender_turns.load(Relaxed),
        };
        let ledger = self.total();
        let mut warnings = reported.warnings.clone();
        warnings.extend(self.targets.iter().flat_map(LiveTarget::refusals));
        let lasting_warnings = warnings.len();
        let rejected_senders = reported.rejected_senders.iter().take(WARNINGS_MAX);
        warnings.extend(
            rejected_senders.filter_map(|(&source, &who)| self.refused(source, who, &ledger)),
        );
        let alignment: Vec<Alignment> = self.alignment.iter().map(read).collect();
        let strangers = strangers(&reported.senders, &alignment, &ledger);
        let (offsets, drifts_ppm) = self.offsets.read();
        let of_strangers = strangers.iter().take(WARNINGS_MAX).filter_map(|(&source, stranger)| {
            let words = stranger.words(self.names.get(source)?);
            if stranger.in_turn_with.is_some() {
                return Some(words);
            }
            let count = ledger.sources.get(source)?[Entry::FragmentsForeign];
            Some(format!("{words} ({})", counted(count, "fragment")))
        });
        warnings.extend(of_strangers);
        Snapshot {
            state: reported.state.clone(),
            faults: reported.faults,
            last_fault: reported.last_fault.clone(),
            ledger,
            reasons: Arc::clone(&self.reasons),
            counts: self.counts(),
            alignment,
            links: self.links.iter().map(LiveLink::read).collect(),
            progress: self.links.iter().map(|link| link.progress.read()).collect(),
            offsets,
            drifts_ppm,
            strangers,
            fills,
            threads: self.threads.read(),
            files: self.targets.iter().find_map(LiveTarget::files).unwrap_or_default(),
            targets: self.targets.iter().map(|target| target.snapshot(&self.ledger)).collect(),
            engine: disk.map_or("", |disk| disk.engine()),
            warnings,
            lasting_warnings,
            past_warnings: reported.past_warnings.clone(),
            malformed: reported.malformed.clone(),
        }
    }

    /// The warning about senders that may not send to a source.
    fn refused(&self, source: u32, who: (IpAddr, IpAddr), ledger: &Ledger) -> Option<String> {
        let source = source as usize;
        let count = ledger.sources.get(source)?[Entry::PacketsRefused];
        let name = self.names.get(source)?;
        let (first, last) = who;
        let others =
            if first == last { String::new() } else { format!(" and others, lately {last},") };
        let packets = if count == 1 { "packet" } else { "packets" };
        Some(format!(
            "source {name}: {count} {packets} from {first}{others} refused: not in its `from`"
        ))
    }

    pub(crate) fn reported(&self) -> parking_lot::MutexGuard<'_, Reported> {
        self.state.lock()
    }
}

/// The senders of foreign fragments: of two senders to a port the one whose fragments do not fit;
/// or both, while they send in turn and the fragments of both fit.
fn strangers(
    senders: &BTreeMap<u32, SenderPair>,
    alignment: &[Alignment],
    ledger: &Ledger,
) -> BTreeMap<usize, Stranger> {
    let has_foreign = |source: usize| {
        ledger.sources.get(source).is_some_and(|one| one[Entry::FragmentsForeign] > 0)
    };
    let stranger = |(&source, pair): (&u32, &SenderPair)| {
        let source = source as usize;
        let &SenderPair { own, own_is_flagged, other, ids, in_turn, .. } = pair;
        let alignment = alignment.get(source).copied().unwrap_or_default();
        let (sender, ids) =
            if alignment.other_sender == own_is_flagged { (other, ids) } else { (own, None) };
        match has_foreign(source) {
            true => Some((source, Stranger { sender, ids, in_turn_with: None })),
            false if in_turn && ids.is_none() => {
                Some((source, Stranger { sender: other, ids: None, in_turn_with: Some(own) }))
            }
            false => None,
        }
    };
    senders.iter().filter_map(stranger).collect()
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The run's identity.
    pub run: RunId,
    /// The run's folder.
    pub folder: PathBuf,
    /// Where its frames were sent, and what is there.
    pub locations: Vec<RunLocation>,
    /// The names of its sources and links, in the ledger's order.
    pub names: Vec<String>,
    /// The time from the start to the close of the last file.
    pub seconds: f64,
    /// The state of the recorder after everything was closed.
    pub last: Snapshot,
}

pub(crate) const WARNINGS_MAX: usize = 100;
