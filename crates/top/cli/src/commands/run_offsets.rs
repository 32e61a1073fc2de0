//! `catchment run --measure-offsets`: how far each source's times are from those of its events, and
//! the settings that this suggests.

use catchment_builder::Offsets;
use catchment_config::High;
use catchment_console::{Out, Table};
use catchment_model::units::{Time, grouped};
use catchment_recorder::{Snapshot, SourceConfig};
use catchment_session::Recording;
use serde::Serialize;

/// What was measured in a run.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    sources: Vec<Source>,
    /// The window that holds 99.9 % of each source's fragments with the offsets below; none if no
    /// source's times agree with others'.
    window_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Source {
    name: String,
    /// Fragments in events.
    count: u64,
    mean_ns: Option<i64>,
    /// Between these are 99.9 % of them.
    low_ns: Option<i64>,
    high_ns: Option<i64>,
    /// How far it is from most events, if that is beyond their window.
    beyond_ns: Option<i64>,
    /// How much faster its clock is than the events' time; none where that is not known, or within
    /// what jitter lets expect.
    drift_ppm: Option<f64>,
    /// As configured.
    time_offset_ns: i64,
    /// The one to be configured; none if the source's times do not agree with the others'.
    suggested_ns: Option<i64>,
}

impl Measured {
    pub(super) fn of(recording: &Recording, high: &High) -> Self {
        let Snapshot { offsets: all, drifts_ppm, .. } = &recording.summary.last;
        let suggested = Offsets::suggest(all);
        let suggestions = suggested.changes_ns.iter().zip(&suggested.beyond_ns);
        let drifts = drifts_ppm.iter().copied().chain(std::iter::repeat(None));
        let sources = all.iter().zip(drifts).zip(suggestions).zip(&high.recorder.sources);
        let source = |((measured, suggestion), source): ((_, _), &SourceConfig)| {
            let (offsets, drift_ppm): (&Offsets, Option<f64>) = measured;
            let (change_ns, beyond_ns): (&Option<i64>, &Option<i64>) = suggestion;
            let (low_ns, high_ns) = offsets.range_ns(1).unzip();
            let time_offset_ns = source.clock.offset_ns;
            Source {
                name: source.name.clone(),
                count: offsets.count,
                mean_ns: offsets.mean_ns(),
                low_ns,
                high_ns,
                beyond_ns: *beyond_ns,
                drift_ppm,
                time_offset_ns,
                suggested_ns: change_ns.map(|change_ns| time_offset_ns.saturating_add(change_ns)),
            }
        };
        Self { sources: sources.map(source).collect(), window_ns: suggested.window_ns }
    }

    pub(super) fn say(&self, out: &mut Out) -> anyhow::Result<()> {
        let mut table = Table::new(&[
            "source",
            "in events",
            "mean",
            "99.9 % within",
            "beyond the window",
            "drift",
            "suggested time_offset",
        ]);
        let ns = |ns: Option<i64>| ns.map_or("-".to_owned(), |ns| format!("{ns} ns"));
        for source in &self.sources {
            let within = match (source.low_ns, source.high_ns) {
                (Some(low_ns), Some(high_ns)) => format!("{low_ns} to {high_ns} ns"),
                _ => "-".to_owned(),
            };
            let suggested = match source.suggested_ns {
                Some(_) => ns(source.suggested_ns),
                None => "no peak".to_owned(),
            };
            table.row([
                source.name.clone(),
                grouped(source.count),
                ns(source.mean_ns),
                within,
                ns(source.beyond_ns),
                source.drift_ppm.map_or("-".to_owned(), ppm),
                suggested,
            ]);
        }
        out.say("")?;
        table.lines().into_iter().try_for_each(|line| out.say(line))?;
        match self.window_ns {
            Some(ns) => out.say(format_args!("Suggested build.time.window: {}.", Time(ns)))?,
            None => out.say("No window is suggested: the times of no source agree.")?,
        }
        self.say_drift(out)
    }

    /// Which clock drifts fastest, and what that means.
    fn say_drift(&self, out: &mut Out) -> anyhow::Result<()> {
        let drifts = self.sources.iter().filter_map(|one| Some((&one.name, one.drift_ppm?)));
        let fastest = drifts.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()));
        let Some((name, drift_ppm)) = fastest else { return Ok(()) };
        let drift = ppm(drift_ppm);
        // Of a microsecond.
        let milliseconds = 1e3 / drift_ppm.abs();
        let step = if milliseconds < 10_000.0 { 1.0 } else { 1e3 };
        let after = Time((milliseconds / step).round() as u64 * step as u64 * 1_000_000);
        out.say(format_args!(
            "The clock of {name} drifts fastest, by {drift}: it is out of a window of 1 us after \
             {after}. Drift is not followed."
        ))?;
        Ok(())
    }
}

/// With three digits, down to 0.0001 ppm.
fn ppm(drift_ppm: f64) -> String {
    let digits = (2.0 - drift_ppm.abs().log10().floor()).clamp(0.0, 4.0) as usize;
    format!("{drift_ppm:+.digits$} ppm")
}
