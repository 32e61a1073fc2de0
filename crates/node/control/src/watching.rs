//! Interprets the recorder's counters: rates, the verdict, the sources, the flow, and alarms.

use std::collections::{BTreeMap, VecDeque};

use catchment_model::{Entry, SourceLedger};
use catchment_recorder::{
    ABANDON_REASONS, Alignment, Arrived, FrontEnd, LinkCounts, LinkProgress, Snapshot,
    State as RecorderState,
};
use catchment_watch::{
    Alarms, Limits, LossGrowth, NodeCounter, RATES_NS, Rates, ReadingTable, Rule, RuleError, Run,
    RunCounts, RunSeen, RunWatch, SourceCounter, SourceFlow, Stage, Verdict, bottleneck,
    default_rules, is_bad, is_loss, store_rules,
};

use crate::configuration::Configuration;
use crate::machine;
use crate::{api, front_ends};

mod fault;
pub(crate) mod forecasts;
mod offsets;
pub(crate) mod quantities;
mod readings;
mod share;
mod sources;
mod store;
pub(crate) mod targets;

use forecasts::{Forecasts, Lasts};
use share::{bad_data, loss, of_strangers};
use sources::{Source, described, grouped_readings, lost_first, rank};
use store::StoreFigures;

const S: u64 = 1_000_000_000;
/// The time from which the remaining time of the disk is computed.
const DISK_NS: u64 = 60 * S;
/// The ticks of half a second from which dead time is computed.
const DEAD_TICKS: usize = 20;
/// The time after which a source is silent.
const SILENT_NS: u64 = 5 * S;
/// The rule on sources whose numbers or clocks do not fit.
const OUT_OF_STEP: &str = "source_out_of_step";
/// The rule on targets whose spills take their frames.
const SPILLING: &str = "target_spilling";

/// Watches one configuration's sources, run after run.
pub(crate) struct Watching {
    sources: Vec<Source>,
    limits: Limits,
    /// The share from which on loss is heavy.
    heavy_loss_share: f64,
    /// The configuration of the next run, if it differs.
    next: Option<(Vec<Source>, Limits)>,
    rules: Vec<Rule>,
    alarms: Alarms,
    run: Option<u64>,
    of_run: RunFigures,
    /// When each source was last heard, during a run or before one.
    heard_ns: Vec<Option<u64>>,
    readings: ReadingTable,
    /// Figures of a storage node.
    store: Option<StoreFigures>,
    /// What front-ends say of the things that are wrong, and why targets take nothing.
    sentences: front_ends::Sentences,
}

/// Figures of one run: its counters begin at zero, and earlier data do not count.
struct RunFigures {
    watch: RunWatch,
    forecasts: Forecasts,
    /// What each target writes.
    targets: Rates,
    threads: Rates,
    thread_names: Vec<String>,
    dead: VecDeque<bool>,
    /// The discarded total when it last grew, and the time of that.
    discarded: (u64, u64),
    offsets: offsets::Recent,
}

impl RunFigures {
    fn new() -> Self {
        Self {
            watch: RunWatch::default(),
            forecasts: Forecasts::default(),
            targets: Rates::new(RATES_NS),
            threads: Rates::new(RATES_NS),
            thread_names: Vec::new(),
            dead: VecDeque::new(),
            discarded: (0, 0),
            offsets: offsets::Recent::default(),
        }
    }
}

/// The inputs at one moment.
pub(crate) struct Moment<'a> {
    pub(crate) now_ns: u64,
    /// The open run, and since when it is open.
    pub(crate) run: Option<(u64, u64)>,
    pub(crate) snapshot: Option<&'a Snapshot>,
    pub(crate) flow: Run<'a>,
    /// The reason for its fault or safe state, if any.
    pub(crate) fault: Option<&'a str>,
    pub(crate) addresses: &'a [std::net::SocketAddr],
    /// The arrivals for each source and link if there is no run.
    pub(crate) arrivals: Option<Vec<Arrived>>,
    /// The fill levels of the sources' buffers in the kernel.
    pub(crate) socket_fills: &'a [Option<f64>],
    pub(crate) disk: Option<machine::Space>,
    pub(crate) devices: &'a [api::Device],
    pub(crate) front_ends: &'a BTreeMap<String, FrontEnd>,
    /// Where nobody listens for them, and why.
    pub(crate) unheard: &'a [(String, String)],
    pub(crate) spills: &'a [api::Spill],
    /// The last run before this program, if it was interrupted and that was found out just now;
    /// otherwise 0.
    pub(crate) interrupted_run: u64,
}

/// The results.
pub(crate) struct Meaning {
    pub(crate) verdict: Verdict,
    pub(crate) rates: api::Rates,
    pub(crate) loss: api::Loss,
    pub(crate) bad: api::Loss,
    pub(crate) dead_time: f64,
    pub(crate) lasts: Lasts,
    pub(crate) flow: Vec<api::Flow>,
    pub(crate) targets: Vec<api::Target>,
    pub(crate) sources: Vec<api::SourceState>,
    pub(crate) counts: api::SourceCounts,
    pub(crate) store: Option<api::Store>,
    /// How a connection to it failed last, and which stream it could not close.
    pub(crate) store_errors: Vec<String>,
    pub(crate) changes: Vec<catchment_watch::Change>,
}

impl Watching {
    /// Watches what this configuration describes, with its rules besides the default ones: a rule
    /// of the same name replaces the default.
    ///
    /// # Errors
    /// An impossible rule.
    pub(crate) fn new(
        configuration: &Configuration,
        heavy_loss_share: f64,
    ) -> Result<Self, RuleError> {
        let (sources, limits, frame_ns) = described(&configuration.recorder, heavy_loss_share);
        let rules = rules_of(configuration, frame_ns, heavy_loss_share);
        Ok(Self {
            readings: grouped_readings(&sources),
            store: None,
            sentences: BTreeMap::new(),
            heard_ns: vec![None; sources.len()],
            sources,
            limits,
            heavy_loss_share,
            next: None,
            alarms: Alarms::new(rules.clone())?,
            rules,
            run: None,
            of_run: RunFigures::new(),
        })
    }

    /// From the next run on, watches the recordings of that configuration. Its rules apply at once;
    /// alarms and their acknowledgements stay while their rule does.
    ///
    /// # Errors
    /// An impossible rule; nothing changes.
    pub(crate) fn change(&mut self, configuration: &Configuration) -> Result<(), RuleError> {
        let heavy_loss_share = self.heavy_loss_share;
        let (sources, limits, frame_ns) = described(&configuration.recorder, heavy_loss_share);
        let rules = rules_of(configuration, frame_ns, heavy_loss_share);
        if rules != self.rules {
            self.alarms.change(rules.clone())?;
            self.rules = rules;
        }
        match self.run {
            None => self.watch_sources(sources, limits),
            Some(_) => self.next = Some((sources, limits)),
        }
        Ok(())
    }

    /// The alarms.
    pub(crate) fn alarms(&mut self) -> &mut Alarms {
        &mut self.alarms
    }

    /// All alarms, the worst first.
    pub(crate) fn alarms_seen(&self) -> Vec<catchment_watch::Alarm> {
        let mut alarms = self.alarms.list();
        alarms.iter_mut().for_each(|alarm| self.complete(alarm));
        alarms
    }

    /// Adds what is said of the thing that an alarm is about.
    fn complete(&self, alarm: &mut catchment_watch::Alarm) {
        let thing = alarm.source.clone().unwrap_or_default();
        if let Some(sentence) = self.sentences.get(&(alarm.name.as_str(), thing)) {
            alarm.text = format!("{}: {sentence}", alarm.text);
        }
    }

    /// Updates everything.
    pub(crate) fn look(&mut self, moment: &Moment<'_>) -> Meaning {
        let number = moment.run.map(|(number, _)| number);
        if number != self.run {
            self.run = number;
            let offsets = std::mem::take(&mut self.of_run.offsets);
            self.of_run = RunFigures::new();
            if number.is_none() {
                // The snapshot stays that of the run that has ended.
                self.of_run.offsets = offsets;
            }
            if let Some((sources, limits)) = self.next.take() {
                self.watch_sources(sources, limits);
            }
        }
        let recording = matches!(moment.flow, Run::Recording { .. });
        if let Some(snapshot) = moment.snapshot.filter(|_| number.is_some()) {
            self.count(moment.now_ns, snapshot);
        }
        if let Some(arrivals) = moment.arrivals.as_ref().filter(|_| number.is_none()) {
            self.count_arrivals(moment.now_ns, arrivals);
        }
        let counts_arrivals = number.is_some() || moment.arrivals.is_some();
        self.note_dead(moment);
        self.note_heard(moment);
        let [losses, bad] = match recording {
            true => self.of_run.watch.recent(moment.now_ns, self.limits.loss_ns),
            false => Default::default(),
        };
        let rates = self.node_rates(counts_arrivals);
        let lasts = self.of_run.forecast(moment, self.limits.recorded_ns);
        let mut sources = self.source_states(moment, &losses, &bad);
        let silent = self.silent(moment);
        let counts = api::SourceCounts {
            count: sources.len() as u64,
            silent,
            with_loss: sources.iter().filter(|source| !source.loss.is_empty()).count() as u64,
            with_bad_data: sources.iter().filter(|source| !source.bad.is_empty()).count() as u64,
        };
        let flow = self.flow(moment.snapshot, &rates);
        let targets = targets::list(moment, &self.of_run.targets);
        let dead_time =
            self.of_run.dead.iter().filter(|dead| **dead).count() as f64 / DEAD_TICKS as f64;
        let [loss_share, bad_share] = self.of_run.watch.shares(moment.now_ns);
        let lately = Lately { dead_time, lasts: &lasts, loss_share, bad_share, silent };
        readings::read(&mut self.readings, moment, &rates, &lately, &sources, &losses);
        self.sentences = front_ends::read(&mut self.readings, moment.front_ends, moment.unheard);
        let astray = |source: &api::SourceState| {
            Some(((OUT_OF_STEP, source.name.clone()), source.astray.clone()?))
        };
        self.sentences.extend(sources.iter().filter_map(astray));
        let spilling = targets::spilling(moment, &targets, &lasts);
        let sentence = |(name, why): &(String, String)| ((SPILLING, name.clone()), why.clone());
        self.sentences.extend(spilling.iter().map(sentence));
        self.sentences.extend(lasts.sentence());
        let mut changes = self.alarms.observe(moment.now_ns, recording, &self.readings);
        changes.iter_mut().for_each(|change| self.complete(&mut change.alarm));
        sources.sort_by_key(|source| (rank(source), lost_first(source), source.index));
        Meaning {
            verdict: self.verdict(moment, &spilling, &lasts),
            loss: moment.snapshot.map(loss).unwrap_or_default(),
            bad: moment.snapshot.map(bad_data).unwrap_or_default(),
            rates,
            dead_time,
            lasts,
            flow,
            targets,
            sources,
            counts,
            store: None,
            store_errors: Vec::new(),
            changes,
        }
    }

    fn watch_sources(&mut self, sources: Vec<Source>, limits: Limits) {
        self.readings = grouped_readings(&sources);
        self.heard_ns = vec![None; sources.len()];
        (self.sources, self.limits) = (sources, limits);
    }

    fn count(&mut self, now_ns: u64, snapshot: &Snapshot) {
        let counts = &snapshot.counts;
        let built = counts.events_complete + counts.events_incomplete;
        let slices = counts.slices_complete + counts.slices_incomplete;
        let sources = 0..snapshot.ledger.sources.len();
        let strangers: Vec<u64> = sources.map(|source| of_strangers(snapshot, source)).collect();
        self.of_run.watch.count(
            now_ns,
            &RunCounts {
                ledger: &snapshot.ledger,
                built: if built > 0 { built } else { slices },
                recorded: counts.events_recorded + counts.slices_recorded,
                bytes_written: counts.bytes_written,
                writes: targets::writes(snapshot),
                of_strangers: &strangers,
            },
        );
        self.of_run.targets.push(now_ns, &targets::counters(snapshot));
        self.of_run.thread_names =
            snapshot.threads.iter().map(|thread| thread.name.clone()).collect();
        let times: Vec<u64> = snapshot.threads.iter().map(|thread| thread.cpu_ns).collect();
        self.of_run.threads.push(now_ns, &times);
        self.of_run.offsets.push(now_ns, &snapshot.offsets);
    }

    /// The same without a run: packets and bytes; nothing is built or recorded.
    fn count_arrivals(&mut self, now_ns: u64, arrivals: &[Arrived]) {
        let arrivals = arrivals.iter().map(|source| (source.packets, source.bytes));
        self.of_run.watch.count_arrivals(now_ns, arrivals);
    }

    /// When sources were heard, which is known beyond the figures of a run, and when a pause ended.
    fn note_heard(&mut self, moment: &Moment<'_>) {
        for (index, heard_ns) in self.heard_ns.iter_mut().enumerate() {
            let age_ns = self.of_run.watch.heard_age_ns(index, moment.now_ns);
            let grown_ns = age_ns.map(|age_ns| moment.now_ns.saturating_sub(age_ns));
            *heard_ns = (*heard_ns).max(grown_ns);
        }
        let is_paused = matches!(moment.flow, Run::Paused { .. });
        self.of_run.watch.note_paused(moment.now_ns, is_paused);
    }

    /// How long ago a source was last heard: in a run that records, since its beginning; otherwise
    /// also before it, since the figures of a run that has just ended are out of date.
    fn heard_age_ns(&self, moment: &Moment<'_>, index: usize) -> Option<u64> {
        match moment.flow {
            Run::Recording { .. } | Run::Paused { .. } => {
                self.of_run.watch.heard_age_ns(index, moment.now_ns)
            }
            _ => {
                let heard_ns = self.heard_ns.get(index).copied().flatten()?;
                Some(moment.now_ns.saturating_sub(heard_ns))
            }
        }
    }

    fn note_dead(&mut self, moment: &Moment<'_>) {
        let discarded = moment.snapshot.map_or(0, |snapshot| {
            let total = snapshot.ledger.total();
            total[Entry::FragmentsDiscardedDisk] + total[Entry::FragmentsDiscardedMemory]
        });
        let mut is_dead = discarded > self.of_run.discarded.0;
        if is_dead {
            self.of_run.discarded = (discarded, moment.now_ns);
        }
        // Frames that cannot be written are discarded one by one.
        let failed = |snapshot: &Snapshot| matches!(snapshot.state, RecorderState::Fault { .. });
        if self.of_run.discarded.0 > 0 && moment.snapshot.is_some_and(failed) {
            is_dead |=
                moment.now_ns.saturating_sub(self.of_run.discarded.1) <= self.limits.recorded_ns;
        }
        let paused = matches!(moment.flow, Run::Paused { .. });
        let recording = matches!(moment.flow, Run::Recording { .. });
        if self.of_run.dead.len() == DEAD_TICKS {
            self.of_run.dead.pop_front();
        }
        self.of_run.dead.push_back(paused || (recording && is_dead));
    }

    fn node_rates(&self, running: bool) -> api::Rates {
        let rates = self.of_run.watch.rates();
        let rate = |counter: NodeCounter| {
            rates.per_second(counter as usize).filter(|_| running).unwrap_or(0.0)
        };
        api::Rates {
            events_per_second: rate(NodeCounter::Built),
            packets_per_second: rate(NodeCounter::Packets),
            bytes_per_second: rate(NodeCounter::Bytes),
            bytes_written_per_second: rate(NodeCounter::BytesWritten),
            loss_per_second: rate(NodeCounter::Lost),
        }
    }

    /// The number of required sources that have sent nothing for too long.
    fn silent(&self, moment: &Moment<'_>) -> u64 {
        let Some((_, started_ns)) = moment.run else { return 0 };
        let age_ns = |index| self.of_run.watch.heard_age_ns(index, moment.now_ns);
        let since_ns = moment.now_ns.saturating_sub(started_ns);
        let is_silent = |(index, source): &(usize, &Source)| {
            source.required
                && age_ns(*index).unwrap_or(since_ns) > SILENT_NS
                && !alignment(moment, *index).unread
        };
        self.sources.iter().enumerate().filter(is_silent).count() as u64
    }

    fn verdict<'a>(
        &'a self,
        moment: &Moment<'a>,
        spilling: &[(String, String)],
        lasts: &Lasts,
    ) -> Verdict {
        let words: Vec<Option<String>> =
            (0..self.sources.len()).map(|index| astray(moment, index)).collect();
        let flow_of = |(index, source): (usize, &'a Source)| SourceFlow {
            name: &source.name,
            required: source.required,
            received_age_ns: self.heard_age_ns(moment, index),
            out_of_step: is_out_of_step(moment, index),
            astray: words[index].as_deref(),
            unread: alignment(moment, index).unread,
        };
        let sources: Vec<_> = self.sources.iter().enumerate().map(flow_of).collect();
        let spilling = spilling.iter().map(|(name, why)| {
            format!("target {name} takes nothing, its frames go to its spill: {why}")
        });
        let spilling: Vec<String> = spilling.collect();
        let notices = [targets::failed(moment), self.strangers(moment)].concat();
        let (away, refused) = (targets::away(moment, lasts), targets::refused(moment));
        let in_fault = |one: &Snapshot| matches!(one.state, RecorderState::Fault { .. });
        let seen = RunSeen {
            run: moment.flow,
            fault: (moment.fault, moment.fault.and_then(fault::advice)),
            cannot_write: moment.snapshot.is_some_and(in_fault),
            sources: &sources,
            away: &away,
            spilling: &spilling,
            refused: &refused,
            notices: &notices,
        };
        self.of_run.watch.verdict(moment.now_ns, &seen, &self.limits)
    }

    /// Senders of foreign data to sources' ports, if recent.
    fn strangers(&self, moment: &Moment<'_>) -> Vec<String> {
        let is_recording = matches!(moment.flow, Run::Recording { .. });
        let Some(snapshot) = moment.snapshot.filter(|_| is_recording) else { return Vec::new() };
        let lately = |source: &usize| {
            let counter = SourceCounter::OfStrangers.of(*source);
            let age_ns = self.of_run.watch.rates().since_grown_ns(counter, moment.now_ns);
            age_ns.is_some_and(|age_ns| age_ns <= self.limits.loss_ns)
        };
        let strangers = snapshot.strangers.iter().filter(|(source, _)| lately(source));
        strangers
            .filter_map(|(&source, stranger)| Some(stranger.words(&self.sources.get(source)?.name)))
            .collect()
    }

    fn source_states(
        &self,
        moment: &Moment<'_>,
        losses: &[LossGrowth],
        bad: &[LossGrowth],
    ) -> Vec<api::SourceState> {
        let running = moment.run.is_some() || moment.arrivals.is_some();
        let (offsets, drifts_ppm) = moment
            .snapshot
            .map_or((&[][..], &[][..]), |one| (&one.offsets[..], &one.drifts_ppm[..]));
        let recent = self.of_run.offsets.of(offsets);
        let offsets = offsets::offsets(&recent, drifts_ppm, &self.sources);
        let state = |(index, source): (usize, &Source)| {
            let counts = moment.snapshot.and_then(|one| one.ledger.sources.get(index));
            let rate = |counter: SourceCounter| {
                let rate = self.of_run.watch.rates().per_second(counter.of(index));
                rate.filter(|_| running).unwrap_or(0.0)
            };
            let age_ns = self.heard_age_ns(moment, index);
            let of_it = |all: &[LossGrowth]| all.iter().any(|one| one.source == index);
            let status = match age_ns {
                _ if !running => "off",
                None => "never",
                Some(age_ns) if age_ns > SILENT_NS => "silent",
                Some(_) if is_out_of_step(moment, index) => "out_of_step",
                Some(_) if of_it(losses) => "loss",
                Some(_) if of_it(bad) => "bad_data",
                Some(_) => "good",
            };
            let nonzero = |wanted: fn(Entry) -> bool| -> BTreeMap<String, u64> {
                let all = counts.into_iter().flat_map(SourceLedger::iter);
                let some = all.filter(|(entry, count)| *count > 0 && wanted(*entry));
                some.map(|(entry, count)| (entry.name().to_owned(), count)).collect()
            };
            api::SourceState {
                name: source.name.clone(),
                index: index as u64,
                group: source.group.clone(),
                kind: source.kind.into(),
                status: status.into(),
                required: source.required,
                from: source.from.clone(),
                address: moment.addresses.get(index).map(ToString::to_string).unwrap_or_default(),
                packets_per_second: rate(SourceCounter::Packets),
                bytes_per_second: rate(SourceCounter::Bytes),
                loss_per_second: rate(SourceCounter::Lost),
                loss: nonzero(is_loss),
                bad: nonzero(is_bad),
                fill: moment.socket_fills.get(index).copied().flatten(),
                parked_fragments: alignment(moment, index).parked_fragments,
                astray: astray(moment, index),
                link: link_of(moment, index),
                offsets: offsets.get(index).cloned().flatten(),
                last_packet_seconds: age_ns.map(|age_ns| age_ns as f64 / 1e9),
                ledger: nonzero(|_| true),
                targets: targets::of_source(moment.snapshot, index),
            }
        };
        self.sources.iter().enumerate().map(state).collect()
    }

    fn flow(&self, snapshot: Option<&Snapshot>, rates: &api::Rates) -> Vec<api::Flow> {
        const STAGES: [(&str, &[&str]); 5] = [
            ("receive", &["receive-"]),
            ("build", &["build"]),
            ("encode", &["frames", "encode-", "trends"]),
            ("write", &["write"]),
            ("disk", &["disk-"]),
        ];
        let written = rates.bytes_written_per_second;
        let through = [rates.bytes_per_second, rates.bytes_per_second, written, written, written];
        let mut flow: Vec<api::Flow> = STAGES
            .iter()
            .zip(through)
            .map(|((name, threads), bytes_per_second)| {
                let fills = snapshot.iter().flat_map(|one| &one.fills);
                let fills = fills.filter(|fill| stage_of(&fill.name) == *name);
                let queues = fills.map(targets::queue).collect();
                let busy = self.busy(threads);
                api::Flow {
                    name: (*name).into(),
                    busy,
                    queues,
                    bytes_per_second,
                    bottleneck: false,
                }
            })
            .collect();
        let recorded = NodeCounter::BytesRecorded as usize;
        let recorded = self.of_run.watch.rates().per_second(recorded).unwrap_or(0.0);
        let stage = |one: &api::Flow| Stage {
            fill: one.queues.iter().map(fill).fold(0.0, f64::max),
            input_per_second: rates.bytes_per_second,
            output_per_second: recorded,
        };
        let stages: Vec<Stage> = flow.iter().map(stage).collect();
        if let Some(index) = bottleneck(&stages) {
            flow[index].bottleneck = true;
        }
        flow
    }

    /// The busiest thread of a stage: a thread that is always at work is the limit, whatever the
    /// others do.
    fn busy(&self, names: &[&str]) -> f64 {
        let of_stage = |name: &String| names.iter().any(|begin| name.starts_with(begin));
        let threads =
            self.of_run.thread_names.iter().enumerate().filter(|(_, name)| of_stage(name));
        let busy = threads.filter_map(|(index, _)| self.of_run.threads.per_second(index));
        busy.map(|ns| ns / 1e9).fold(0.0, f64::max).min(1.0)
    }
}

/// Conditions over the last seconds.
struct Lately<'a> {
    dead_time: f64,
    lasts: &'a Lasts,
    loss_share: f64,
    bad_share: f64,
    /// Required sources that are silent.
    silent: u64,
}

/// The rules of a configuration, and the default ones that it does not name.
fn rules_of(configuration: &Configuration, frame_ns: u64, heavy_loss_share: f64) -> Vec<Rule> {
    let rules = &configuration.rules;
    let usual = match configuration.store {
        Some(_) => store_rules(),
        None => default_rules(frame_ns, heavy_loss_share),
    };
    let mut all = rules.clone();
    for usual in usual {
        if rules.iter().all(|rule| rule.name != usual.name) {
            all.push(usual);
        }
    }
    all
}

/// How a source's numbers fit those of the others, in a run.
fn alignment(moment: &Moment<'_>, index: usize) -> Alignment {
    let snapshot = moment.snapshot.filter(|_| moment.run.is_some());
    snapshot.and_then(|one| one.alignment.get(index)).copied().unwrap_or_default()
}

/// Whether the numbers or the clock of a source do not fit to the others'.
fn is_out_of_step(moment: &Moment<'_>, index: usize) -> bool {
    let alignment = alignment(moment, index);
    alignment.out_of_step || alignment.astray.is_some()
}

/// How they differ, in plain words.
fn astray(moment: &Moment<'_>, index: usize) -> Option<String> {
    Some(alignment(moment, index).astray?.to_string())
}

fn link_of(moment: &Moment<'_>, index: usize) -> api::LinkState {
    let LinkCounts { waits, waited_ms, marks_ignored, fragments_skew, abandoned } =
        moment.snapshot.and_then(|one| one.links.get(index)).copied().unwrap_or_default();
    let LinkProgress { made, taken, durable, release, delay } =
        moment.snapshot.and_then(|one| one.progress.get(index)).copied().unwrap_or_default();
    let abandoned = ABANDON_REASONS.iter().zip(abandoned).filter(|(_, count)| *count > 0);
    let ms = |ns: u64| ns as f64 / 1e6;
    api::LinkState {
        waits,
        waited_ms,
        marks_ignored,
        fragments_skew,
        abandoned: abandoned.map(|(reason, count)| ((*reason).to_owned(), count)).collect(),
        made,
        taken,
        durable,
        release: release.map(str::to_owned),
        until_durable_ms_median: delay.map(|delay| ms(delay.median_ns)),
        until_durable_ms_p99: delay.map(|delay| ms(delay.p99_ns)),
    }
}

fn fill(queue: &api::Queue) -> f64 {
    queue.level_bytes as f64 / queue.capacity_bytes.max(1) as f64
}

/// The stage that empties a queue.
fn stage_of(queue: &str) -> &'static str {
    match queue {
        name if name.starts_with("write buffers") => "disk",
        name if name.contains("descriptors") || name.contains("segments") => "build",
        name if name.contains("encod") => "encode",
        _ => "write",
    }
}

#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod target_tests;
#[cfg(test)]
mod tests;
