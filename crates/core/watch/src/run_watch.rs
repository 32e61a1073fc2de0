//! What the counters of one run say of the flow of its data, look after look, and the verdict from
//! that.

use catchment_model::{Entry, Ledger};

use crate::loss::{LossGrowth, LossWatch, is_bad, is_loss};
use crate::rates::Rates;
use crate::share::{LossShare, lost};
use crate::verdict::{Flow, Limits, Loss, Run, SourceFlow, Untaken, Verdict, verdict};

const S: u64 = 1_000_000_000;
/// The time over which rates are computed.
pub const RATES_NS: u64 = 5 * S;
/// The time over which losses and bad data are followed.
const LOSS_NS: u64 = 60 * S;

/// Watches one run: its counters begin at zero, and earlier data do not count.
#[derive(Clone, Debug)]
pub struct RunWatch {
    rates: Rates,
    share: LossShare,
    losses: LossWatch,
    bad: LossWatch,
    /// Whether it was paused at the last look, and when a pause last ended.
    paused: (bool, Option<u64>),
    /// The number of completed writes at the last look, and since when writes have been in progress
    /// without any completing.
    writes: (u64, Option<u64>),
}

/// The counters of a run at one moment.
#[derive(Clone, Copy, Debug)]
pub struct RunCounts<'a> {
    /// Its ledger.
    pub ledger: &'a Ledger,
    /// Events, or slices where there are no events, that were put together.
    pub built: u64,
    /// Events and slices that were recorded.
    pub recorded: u64,
    /// Bytes written to disk.
    pub bytes_written: u64,
    /// Writes that were begun, and those that have completed.
    pub writes: (u64, u64),
    /// By source: fragments that others sent to its port.
    pub of_strangers: &'a [u64],
}

/// What is known of a run beside its counters: as in [`Flow`].
#[derive(Clone, Copy, Debug)]
pub struct RunSeen<'a> {
    /// Whether a run is on.
    pub run: Run<'a>,
    /// What is broken, and what to do about it.
    pub fault: (Option<&'a str>, Option<&'a str>),
    /// Whether files cannot be written at this moment.
    pub cannot_write: bool,
    /// The sources, in the ledger's order.
    pub sources: &'a [SourceFlow<'a>],
    /// Required targets that take nothing now, and those that do not get what is recorded.
    pub away: &'a [Untaken<'a>],
    /// See [`Flow::spilling`].
    pub spilling: &'a [String],
    /// See [`Flow::refused`].
    pub refused: &'a [Untaken<'a>],
    /// What is to be known and makes nothing worse.
    pub notices: &'a [String],
}

/// Counters of the node, by their index in [`RunWatch::rates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCounter {
    /// [`RunCounts::built`].
    Built,
    /// Packets received.
    Packets,
    /// Bytes of these.
    Bytes,
    /// [`RunCounts::bytes_written`].
    BytesWritten,
    /// What was lost ([`lost`]).
    Lost,
    /// [`RunCounts::recorded`].
    Recorded,
    /// Bytes of fragments recorded.
    BytesRecorded,
}

/// Counters of each source, behind those of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceCounter {
    /// Packets received.
    Packets,
    /// Bytes of these.
    Bytes,
    /// What was lost ([`lost`]).
    Lost,
    /// Fragments that others sent to its port.
    OfStrangers,
}

impl SourceCounter {
    /// The index of a source's counter in [`RunWatch::rates`].
    pub fn of(self, source: usize) -> usize {
        NODE_COUNTERS + source * SOURCE_COUNTERS + self as usize
    }
}

impl Default for RunWatch {
    fn default() -> Self {
        Self {
            rates: Rates::new(RATES_NS),
            share: LossShare::new(),
            losses: LossWatch::new(LOSS_NS, is_loss),
            bad: LossWatch::new(LOSS_NS, is_bad),
            paused: (false, None),
            writes: (0, None),
        }
    }
}

impl RunWatch {
    /// The counters as they are now.
    pub fn count(&mut self, now_ns: u64, counts: &RunCounts<'_>) {
        let RunCounts { ledger, built, recorded, bytes_written, writes, of_strangers } = *counts;
        let total = ledger.total();
        let mut counters = vec![
            built,
            total[Entry::PacketsReceived],
            total[Entry::PacketBytesReceived],
            bytes_written,
            ledger.sources.iter().map(lost).sum(),
            recorded,
            total[Entry::FragmentBytesRecorded],
        ];
        debug_assert_eq!(counters.len(), NODE_COUNTERS);
        for (index, source) in ledger.sources.iter().enumerate() {
            counters.push(source[Entry::PacketsReceived]);
            counters.push(source[Entry::PacketBytesReceived]);
            counters.push(lost(source));
            counters.push(of_strangers.get(index).copied().unwrap_or(0));
        }
        self.note_writes(now_ns, writes);
        self.rates.push(now_ns, &counters);
        self.share.push(now_ns, ledger);
        self.losses.push(now_ns, ledger);
        self.bad.push(now_ns, ledger);
    }

    /// What arrives while there is no run: packets and bytes, by source.
    pub fn count_arrivals(&mut self, now_ns: u64, arrivals: impl Iterator<Item = (u64, u64)>) {
        let mut counters = vec![0; NODE_COUNTERS];
        for (packets, bytes) in arrivals {
            counters[NodeCounter::Packets as usize] += packets;
            counters[NodeCounter::Bytes as usize] += bytes;
            counters.extend([packets, bytes, 0, 0]);
        }
        self.rates.push(now_ns, &counters);
    }

    /// Whether the run is paused now. After [`RunWatch::count`].
    pub fn note_paused(&mut self, now_ns: u64, is_paused: bool) {
        if std::mem::replace(&mut self.paused.0, is_paused) && !is_paused {
            self.paused.1 = Some(now_ns);
        }
    }

    /// A write that was in progress at the last look, and still is, holds data in memory.
    fn note_writes(&mut self, now_ns: u64, (begun, completed): (u64, u64)) {
        let (before, since_ns) = self.writes;
        let waits = begun > completed && completed == before;
        self.writes = (completed, waits.then(|| since_ns.unwrap_or(now_ns)));
    }

    /// The rates of [`NodeCounter`]s and [`SourceCounter`]s.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// How long ago a source was last heard in the run.
    pub fn heard_age_ns(&self, source: usize, now_ns: u64) -> Option<u64> {
        self.rates.since_grown_ns(SourceCounter::Packets.of(source), now_ns)
    }

    /// The share of what should have been recorded lately that was lost, and that of what was
    /// recorded that is bad.
    pub fn shares(&self, now_ns: u64) -> [f64; 2] {
        [self.share.lost_at(now_ns), self.share.bad_at(now_ns)]
    }

    /// What was lost, and what was bad, not longer ago than that: the worst first.
    pub fn recent(&self, now_ns: u64, within_ns: u64) -> [Vec<LossGrowth>; 2] {
        [&self.losses, &self.bad].map(|watch| watch.recent(now_ns, within_ns))
    }

    /// The verdict on what was counted last.
    pub fn verdict(&self, now_ns: u64, seen: &RunSeen<'_>, limits: &Limits) -> Verdict {
        let is_recording = matches!(seen.run, Run::Recording { .. });
        let named = |loss: LossGrowth| {
            let source = seen.sources.get(loss.source)?;
            Some(Loss { source: source.name, entry: loss.entry, count: loss.count })
        };
        let of_run =
            if is_recording { self.recent(now_ns, limits.loss_ns) } else { Default::default() };
        let [losses, bad] = of_run.map(|all| all.into_iter().filter_map(named).collect::<Vec<_>>());
        let [loss_share, bad_share] = self.shares(now_ns);
        let age_ns = |since_ns: u64| now_ns.saturating_sub(since_ns);
        let grown = |counter: NodeCounter| self.rates.since_grown_ns(counter as usize, now_ns);
        let flow = Flow {
            run: seen.run,
            fault: seen.fault.0,
            fault_advice: seen.fault.1,
            cannot_write: seen.cannot_write,
            received_age_ns: grown(NodeCounter::Packets),
            recorded_age_ns: grown(NodeCounter::Recorded),
            held_age_ns: self.writes.1.map(age_ns),
            resumed_age_ns: self.paused.1.map(age_ns),
            sources: seen.sources,
            losses: &losses,
            loss_share,
            bad: &bad,
            bad_share,
            away: seen.away,
            spilling: seen.spilling,
            refused: seen.refused,
            notices: seen.notices,
        };
        verdict(&flow, limits)
    }
}

const NODE_COUNTERS: usize = 7;
const SOURCE_COUNTERS: usize = 4;
