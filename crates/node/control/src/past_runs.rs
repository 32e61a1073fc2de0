//! Plot data from before this program began: the trends of the recorder's counters, in the folder
//! of every run.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use catchment_catalog::{RunRow, RunState, Search};
use catchment_model::{Entry, SourceLedger, Utc};
use catchment_storage::{Run, Select, StorageError, TrendKind};
use catchment_watch::{RATES_NS, lost};

use crate::history::{DAY_NS, Past, Point, TEN_MINUTES_NS};
use crate::shared::NodeShared;

/// The most runs that are read, the newest first: a day of twenty-minute runs.
const RUNS_MAX: usize = 72;

/// How often the catalogue is queried, and the time in between.
const ASKED_MAX: usize = 60;
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Reads them on a separate thread: disks may be slow, and plots can wait.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn recall(shared: &Arc<NodeShared>) -> std::io::Result<()> {
    let (shared, now_ns) = (Arc::clone(shared), shared.started_ns);
    let thread = std::thread::Builder::new().name("control-past".into());
    thread.spawn(move || recall_into(&shared, now_ns))?;
    Ok(())
}

fn recall_into(shared: &NodeShared, now_ns: u64) {
    note_interrupted(shared);
    let since = Utc(now_ns.saturating_sub(DAY_NS));
    let search = Search { since: Some(since), limit: Some(RUNS_MAX), ..Search::default() };
    let Some(runs) = find(shared, &search) else { return };
    for (row, folder) in &runs {
        let read = Run::open(folder).and_then(|run| recall_run(&shared.past, &run, row, now_ns));
        if let Err(error) = read {
            tracing::debug!(run = row.number, %error, "the plots do without a run before");
        }
    }
}

/// The runs to read. The catalogue may be in use when the program begins: then it is queried again,
/// since nothing waits for this. The obstacle is reported elsewhere.
fn find(shared: &NodeShared, search: &Search) -> Option<Vec<(RunRow, PathBuf)>> {
    for _ in 0..ASKED_MAX {
        if let Ok(runs) = shared.catalog.search(search) {
            return Some(runs);
        }
        std::thread::sleep(ASK_AGAIN);
    }
    None
}

/// Checks whether the last run ended in order, and reports it if not.
fn note_interrupted(shared: &NodeShared) {
    let search =
        Search { until: Some(Utc(shared.started_ns)), limit: Some(1), ..Search::default() };
    let Some(runs) = find(shared, &search) else { return };
    let Some((row, folder)) = runs.first() else { return };
    if row.state == RunState::Interrupted {
        // The run may have been resumed since the catalogue was read.
        let _resumed = shared.interrupted.compare_exchange(0, row.number, Relaxed, Relaxed);
        tracing::warn!(run = row.number, folder = %folder.display(),
            "the run was interrupted: its program ended before it did");
    }
}

fn recall_run(past: &Past, run: &Run, row: &RunRow, now_ns: u64) -> Result<(), StorageError> {
    let started_ns = row.started.map_or(0, |Utc(ns)| ns);
    let kinds = [(TrendKind::Second, TEN_MINUTES_NS), (TrendKind::Minute, DAY_NS)];
    for (kind, back_ns) in kinds {
        let since_ns = now_ns.saturating_sub(back_ns);
        let points = points(run, kind, (since_ns, now_ns), started_ns)?;
        match kind {
            TrendKind::Second => past.recall_seconds(&points),
            TrendKind::Minute => past.recall_minutes(&points),
        }
    }
    Ok(())
}

/// Rates per row of the trend: the growth of counters over the same time as live rates, or over a
/// minute.
fn points(
    run: &Run,
    kind: TrendKind,
    (since_ns, now_ns): (u64, u64),
    started_ns: u64,
) -> Result<Vec<(u64, Point)>, StorageError> {
    let unit_ns = kind.period_ns();
    let whole = started_ns >= since_ns;
    let select = Select::TimeNs(since_ns..now_ns);
    let mut rows: BTreeMap<u64, Counts> = BTreeMap::new();
    let mut read = |name: &str, put: &dyn Fn(&mut Counts, u64)| {
        let trend = run.trend(&format!("catchment:{name}"), kind, &select)?.unwrap_or_default();
        for (start_ns, highest) in trend.start_ns.iter().zip(&trend.max) {
            // Counters only grow, and a float holds them exactly up to 2^53.
            put(rows.entry(start_ns / unit_ns).or_default(), *highest as u64);
        }
        Ok::<(), StorageError>(())
    };
    read("events_recorded", &|counts, count| counts.events = count)?;
    read("bytes_written", &|counts, count| counts.bytes_written = count)?;
    for &entry in Entry::ALL {
        read(entry.name(), &|counts, count| counts.ledger[entry] = count)?;
    }
    // For a run that began before the requested time, the first row only gives the base of the
    // next.
    let mut before = VecDeque::from_iter(whole.then_some((started_ns, [0; 4])));
    let over_ns = RATES_NS.max(unit_ns);
    let mut points = Vec::with_capacity(rows.len());
    for (row, counts) in rows {
        let end_ns = (row + 1).saturating_mul(unit_ns);
        if end_ns > now_ns {
            // This program itself observes rows that end after its start.
            break;
        }
        let now = counts.totals();
        // The newest of the old enough ones, or otherwise the oldest.
        while before.get(1).is_some_and(|(then_ns, _)| then_ns + over_ns <= end_ns) {
            before.pop_front();
        }
        if let Some((begin_ns, then)) = before.front() {
            let seconds = end_ns.saturating_sub(*begin_ns).max(1_000_000_000) as f64 / 1e9;
            let rate = |index: usize| now[index].saturating_sub(then[index]) as f64 / seconds;
            points.push((row, std::array::from_fn(rate)));
        }
        before.push_back((end_ns, now));
    }
    Ok(points)
}

/// Counters at the end of a row.
#[derive(Default)]
struct Counts {
    events: u64,
    bytes_written: u64,
    ledger: SourceLedger,
}

impl Counts {
    /// In the order of a [`Point`]. Here the loss is computed from the sum of all sources.
    fn totals(&self) -> [u64; 4] {
        let received = self.ledger[Entry::PacketBytesReceived];
        [self.events, received, self.bytes_written, lost(&self.ledger)]
    }
}
