//! `[[accept]]`: front-ends that nobody configured by name.
//!
//! Between runs a front-end with a name that fits an entry is *admitted*, within the bounds of the
//! entry. Its sources are of the next run if it is connected when that is armed: they stand in the
//! run's configuration then, as if somebody had written them.

use std::collections::BTreeMap;

use catchment_builder::SourceRole;
use catchment_frame::Pattern;
use catchment_wire::session::{ByeReason, DATA_CONNECTIONS_MAX};

use crate::check::require;
use crate::config::{ConfigError, RecorderConfig, SourceConfig};
use crate::link_session::Ended;

/// Between a configuration and the tables of the sources that were admitted to a run.
pub const ADMITTED: &str = "\n# Admitted by [[accept]] when the run was armed.\n";

/// Which front-ends are admitted.
#[derive(Clone, Debug)]
pub struct Accept {
    /// The pattern of their names.
    pub senders: Pattern,
    /// How many there may be.
    pub front_ends: usize,
    /// How many sources each may have.
    pub sources: usize,
    /// What each of these sources is, but for its name.
    pub source: SourceConfig,
}

/// A source of a front-end that was admitted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdmittedSource {
    /// Its name.
    pub name: String,
    /// The index of the entry that admitted it.
    pub accept: usize,
}

/// The front-ends that were admitted, and what admits others.
#[derive(Default)]
pub(crate) struct Admissions {
    /// None if nothing does.
    config: Option<Box<RecorderConfig>>,
    by_front_end: BTreeMap<String, Admitted>,
}

struct Admitted {
    accept: usize,
    sources: Vec<String>,
}

impl RecorderConfig {
    /// Checks that a run would have something to record.
    ///
    /// # Errors
    /// No source or link is configured, and no front-end was admitted.
    pub fn check_run(&self) -> Result<(), ConfigError> {
        let expected = "a source or a link, or a connected front-end that [[accept]] admits";
        require(self.ledger_count() > 0, "sources", expected, "none")
    }

    /// With a source for listeners that none has yet: no hello can name it.
    pub(crate) fn with_placeholder(&self) -> Option<Self> {
        let accept = self.accept.first()?;
        let has_one = self.sources.iter().any(SourceConfig::is_link);
        let (name, role) = ("\0".to_owned(), SourceRole::Optional);
        let placeholder = SourceConfig { name, role, ..accept.source.clone() };
        let sources = self.sources.iter().cloned().chain([placeholder]).collect();
        (!has_one).then(|| Self { sources, ..self.clone() })
    }

    /// The connections of all front-ends that may be admitted.
    pub(crate) fn connections_admitted_max(&self) -> usize {
        let data_max = usize::from(DATA_CONNECTIONS_MAX);
        self.accept.iter().map(|one| one.front_ends * (1 + one.sources.min(data_max))).sum()
    }
}

impl Admissions {
    /// A run of that configuration begins, or there is none from now on. Those of whom it has
    /// nothing are forgotten.
    pub(crate) fn enter(&mut self, config: &RecorderConfig, in_run: bool) {
        let has = |name: &String| config.sources.iter().any(|source| source.name == *name);
        self.by_front_end.retain(|front_end, one| match in_run {
            true => one.sources.iter().all(has),
            false => {
                let entry = entry_of(config, front_end);
                one.accept = entry.unwrap_or(one.accept);
                entry.is_some()
            }
        });
        // Where front-ends connect for each run, nobody can be admitted between two.
        let may_admit = config.standby.is_some() && !config.accept.is_empty();
        let standby = None;
        self.config = may_admit.then(|| Box::new(RecorderConfig { standby, ..config.clone() }));
    }

    /// Forgets those that are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.by_front_end.retain(|front_end, _| is_there(front_end));
    }

    /// Whether a front-end of that name is admitted between runs; none if nobody is.
    pub(crate) fn fits(&self, front_end: &str) -> Option<bool> {
        Some(entry_of(self.config.as_deref()?, front_end).is_some())
    }

    /// Whether a front-end was admitted.
    pub(crate) fn has(&self, front_end: &str) -> bool {
        self.by_front_end.contains_key(front_end)
    }

    /// Admits a front-end with sources of these names, which are not configured. Returns what each
    /// of them is; none if nobody is admitted.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn admit(
        &mut self,
        front_end: &str,
        names: &[String],
    ) -> Result<Option<SourceConfig>, Ended> {
        let Some(config) = self.config.as_deref() else { return Ok(None) };
        let index = entry_of(config, front_end).ok_or_else(|| no_entry(front_end))?;
        let entry = &config.accept[index];
        if names.len() > entry.sources {
            let (most, got) = (entry.sources, names.len());
            let text = format!("accept[{index}] admits {most} sources of a front-end, got {got}");
            return Err(Ended::new(ByeReason::TOO_MANY, 0, most as u64, text));
        }
        let others = || self.by_front_end.iter().filter(|(name, _)| *name != front_end);
        if others().filter(|(_, one)| one.accept == index).count() >= entry.front_ends {
            let most = entry.front_ends;
            let text = format!(
                "accept[{index}] admits {most} front-ends, and has them; those that are gone are \
                 forgotten when a run begins, or by reset"
            );
            return Err(Ended::new(ByeReason::TOO_MANY, 1_000, most as u64, text));
        }
        let source = |(name, accept): (&String, usize)| SourceConfig {
            name: name.clone(),
            ..config.accept[accept].source.clone()
        };
        let of_others =
            others().flat_map(|(_, one)| one.sources.iter().map(|name| (name, one.accept)));
        let all = of_others.chain(names.iter().map(|name| (name, index))).map(source);
        let sources = config.sources.iter().cloned().chain(all).collect();
        let with_it = RecorderConfig { sources, ..config.clone() };
        with_it.check_values().map_err(|error| {
            let text = format!("with {front_end:?}, {error}");
            Ended::new(ByeReason::DOES_NOT_FIT, 0, with_it.memory_bytes_min(), text)
        })?;
        let fragment_bytes_max = config.fragment_bytes_max(&entry.source);
        let admitted = Admitted { accept: index, sources: names.to_vec() };
        let source = SourceConfig { fragment_bytes_max, ..entry.source.clone() };
        self.by_front_end.insert(front_end.to_owned(), admitted);
        Ok(Some(source))
    }

    /// The sources of the front-ends that are there, by name.
    pub(crate) fn sources(&self, is_there: impl Fn(&str) -> bool) -> Vec<AdmittedSource> {
        let there = self.by_front_end.iter().filter(|(front_end, _)| is_there(front_end));
        let of = |one: &Admitted| {
            let source = |name: &String| AdmittedSource { name: name.clone(), accept: one.accept };
            one.sources.iter().map(source).collect::<Vec<_>>()
        };
        let mut sources: Vec<AdmittedSource> = there.flat_map(|(_, one)| of(one)).collect();
        sources.sort_unstable();
        sources
    }

    /// The names of those that are required.
    pub(crate) fn required(&self, config: &RecorderConfig) -> Vec<String> {
        let is_required = |one: &&Admitted| {
            let entry = config.accept.get(one.accept);
            entry.is_some_and(|entry| entry.source.role == SourceRole::Required)
        };
        let required = self.by_front_end.values().filter(is_required);
        required.flat_map(|one| one.sources.iter().cloned()).collect()
    }
}

/// That a front-end is refused for its name.
pub(crate) fn no_entry(front_end: &str) -> Ended {
    let text = format!("{front_end:?} is not configured, and no [[accept]] fits that name");
    Ended::new(ByeReason::NAME, 0, 0, text)
}

/// The index of the first entry that fits a front-end.
fn entry_of(config: &RecorderConfig, front_end: &str) -> Option<usize> {
    config.accept.iter().position(|entry| entry.senders.fits(front_end))
}
