//! `catchment run --measure-offsets`: how far each source's times are from those of its events, and
//! the settings that this suggests.

use catchment_builder::Offsets;
use catchment_config::High;
use catchment_console::{Out, Table};
use catchment_model::units::{Time, grouped};
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
    /// As configured.
    time_offset_ns: i64,
    /// The one to be configured; none if the source's times do not agree with the others'.
    suggested_ns: Option<i64>,
}

impl Measured {
    pub(super) fn of(recording: &Recording, high: &High) -> Self {
        let all = &recording.summary.last.offsets;
        let suggested = Offsets::suggest(all);
        let suggestions = suggested.changes_ns.iter().zip(&suggested.beyond_ns);
        let sources = all.iter().zip(suggestions).zip(&high.recorder.sources);
        type Suggestion<'a> = (&'a Option<i64>, &'a Option<i64>);
        let source = |((offsets, of_it), source): ((&Offsets, Suggestion<'_>), _)| {
            let (change_ns, beyond_ns) = of_it;
            let source: &catchment_recorder::SourceConfig = source;
            let (low_ns, high_ns) = offsets.range_ns(1).unzip();
            let time_offset_ns = source.clock.offset_ns;
            Source {
                name: source.name.clone(),
                count: offsets.count,
                mean_ns: offsets.mean_ns(),
                low_ns,
                high_ns,
                beyond_ns: *beyond_ns,
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
                suggested,
            ]);
        }
        out.say("")?;
        table.lines().into_iter().try_for_each(|line| out.say(line))?;
        match self.window_ns {
            Some(ns) => out.say(format_args!("Suggested build.time.window: {}.", Time(ns)))?,
            None => out.say("No window is suggested: the times of no source agree.")?,
        }
        Ok(())
    }
}
