//! `[[accept]]`: front-ends that nobody configured by name.
//!
//! Between runs a front-end with a name that fits an entry is *admitted*, within the bounds of the
//! entry. Its sources are of the next run if it is connected when that is armed: they stand in the
//! run's configuration then, as if somebody had written them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catchment_builder::SourceRole;
use catchment_frame::Pattern;
use catchment_wire::session::{ByeReason, DATA_CONNECTIONS_MAX};

use crate::check::require;
use crate::config::{ConfigError, RecorderConfig, SourceConfig};
use crate::link_session::Ended;

/// Between a configuration and the tables of the sources that were admitted to a run.
pub const ADMITTED: &str = "\n# Admitted by [[accept]] when the run was armed.\n";

/// How many new front-ends may have the whole configuration checked between two looks of a thread
/// at its connections, which are at least 50 ms apart.
pub(crate) const CHECKS_PER_LOOK: u32 = 4;
/// When a front-end comes again that the next run admits, and one for which there was no check.
const NEXT_RUN_MS: u32 = 500;
const NEXT_LOOK_MS: u32 = 100;

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
    config: Option<Arc<RecorderConfig>>,
    /// Whether there is a run, armed or begun.
    in_run: bool,
    by_front_end: BTreeMap<String, Admitted>,
    /// Those of their sources that are required.
    required: BTreeSet<String>,
    /// The text of the last configuration between runs.
    text: String,
    /// Rises with each change of these.
    version: u64,
}

/// What a hello comes to.
pub(crate) enum Asked {
    /// None if nobody is admitted.
    Known(Option<Box<Admission>>),
    /// The whole configuration is to be checked first.
    Checks(Box<Check>),
}

/// A front-end that would be admitted, and what is to be checked for that: without the lock under
/// which [`Admissions`] are, since it takes as long as a configuration is large.
pub(crate) struct Check {
    front_end: String,
    names: Vec<String>,
    config: Arc<RecorderConfig>,
    /// The sources of the other front-ends that were admitted.
    others: Vec<AdmittedSource>,
    /// The index of the entry.
    accept: usize,
    version: u64,
}

/// A front-end that was admitted.
pub(crate) struct Admitted {
    accept: usize,
    sources: Vec<String>,
    /// Whether it was checked with the present configuration.
    is_checked: bool,
}

/// That a front-end is admitted.
pub(crate) struct Admission {
    /// What each of its sources is, but for its name.
    pub(crate) source: SourceConfig,
    pub(crate) before: Before,
}

/// What there was of a front-end before it was admitted.
pub(crate) enum Before {
    /// The same.
    Same,
    /// Nothing.
    Nothing,
    /// It was admitted with other sources.
    Other(Admitted),
}

impl Accept {
    /// Whether a source that it admits can have a name that fits a pattern. Of a plain name that is
    /// known: it is that of a front-end, or begins with it.
    pub(crate) fn may_admit(&self, pattern: &Pattern) -> bool {
        let text = pattern.as_str();
        let mut borders = text.match_indices('/').map(|(at, _)| at).chain([text.len()]);
        !pattern.is_name() && text.contains(['*', '?', '[', '{', '\\'])
            || borders.any(|at| self.senders.fits(&text[..at]))
    }
}

impl RecorderConfig {
    /// Checks that a run would have something to record, and a source that opens its events.
    ///
    /// # Errors
    /// No source or link is configured, and no front-end was admitted; or too few of the sources
    /// that are here may open events.
    pub fn check_run(&self) -> Result<(), ConfigError> {
        let expected = "a source or a link, or a connected front-end that [[accept]] admits";
        let got = match self.accept.is_empty() {
            true => "none",
            false => "none: they can connect once `catchment ctl configure` has opened the ports",
        };
        require(self.ledger_count() > 0, "sources", expected, got)?;
        if self.sources.is_empty() { Ok(()) } else { self.check_rule_of(false) }
    }

    /// This configuration with a placeholder source, where front-ends are admitted and no
    /// configured source has a listener: a listener needs one. No hello can name it.
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
    /// nothing are forgotten, and so are the names that are configured from now on.
    pub(crate) fn enter(&mut self, config: &RecorderConfig, in_run: bool) {
        let configured: BTreeSet<&str> = config.sources.iter().map(|one| &*one.name).collect();
        let has = |name: &String| configured.contains(name.as_str());
        let is_same = in_run || self.text == config.text;
        self.by_front_end.retain(|front_end, one| match in_run {
            true => one.sources.iter().all(has),
            false => {
                let entry = entry_of(config, front_end);
                one.accept = entry.unwrap_or(one.accept);
                one.is_checked &= is_same;
                one.sources.retain(|name| !has(name));
                entry.is_some() && !one.sources.is_empty()
            }
        });
        if !in_run {
            self.text.clone_from(&config.text);
        }
        self.in_run = in_run;
        // Where front-ends connect for each run, nobody can be admitted between two.
        let may_admit = config.standby.is_some() && !config.accept.is_empty();
        let standby = None;
        self.config = may_admit.then(|| Arc::new(RecorderConfig { standby, ..config.clone() }));
        self.find_required();
    }

    /// Forgets those that are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.by_front_end.retain(|front_end, _| is_there(front_end));
        self.find_required();
    }

    /// Whether a front-end of that name is admitted between runs; none if nobody is.
    pub(crate) fn fits(&self, front_end: &str) -> Option<bool> {
        Some(entry_of(self.config.as_deref()?, front_end).is_some())
    }

    /// Whether a front-end was admitted.
    pub(crate) fn has(&self, front_end: &str) -> bool {
        self.by_front_end.contains_key(front_end)
    }

    /// Whether a front-end with sources of these names, which are not configured, is admitted. One
    /// that is admitted with these names already costs nothing, any other one of `checks_left`, and
    /// is [admitted](Self::admit) when it was checked.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn ask(
        &self,
        front_end: &str,
        names: &[String],
        checks_left: &mut u32,
    ) -> Result<Asked, Ended> {
        let Some(config) = &self.config else { return Ok(Asked::Known(None)) };
        let index = entry_of(config, front_end).ok_or_else(|| no_entry(front_end))?;
        let is_same =
            |one: &Admitted| one.accept == index && one.sources == names && one.is_checked;
        if self.by_front_end.get(front_end).is_some_and(is_same) {
            let (source, before) = (source_of(config, index), Before::Same);
            return Ok(Asked::Known(Some(Box::new(Admission { source, before }))));
        }
        if self.in_run {
            // Its configuration has the sources of the others already.
            return Err(next_run(front_end));
        }
        self.check_bounds(config, (front_end, index), names)?;
        if *checks_left == 0 {
            return Err(others_first(front_end));
        }
        *checks_left -= 1;
        let check = Check {
            front_end: front_end.to_owned(),
            names: names.to_vec(),
            config: Arc::clone(config),
            others: self.sources(|other| other != front_end),
            accept: index,
            version: self.version,
        };
        Ok(Asked::Checks(Box::new(check)))
    }

    /// Admits a front-end that was checked.
    ///
    /// # Errors
    /// Something has changed meanwhile: it is to come again.
    pub(crate) fn admit(&mut self, check: Check) -> Result<Admission, Ended> {
        let Check { front_end, names, config, accept, version, .. } = check;
        if version != self.version {
            return Err(others_first(&front_end));
        }
        let source = source_of(&config, accept);
        let admitted = Admitted { accept, sources: names, is_checked: true };
        let before = self.by_front_end.insert(front_end, admitted);
        self.find_required();
        Ok(Admission { source, before: before.map_or(Before::Nothing, Before::Other) })
    }

    /// Checks that the entry of that index admits one more front-end, with these sources.
    fn check_bounds(
        &self,
        config: &RecorderConfig,
        (front_end, index): (&str, usize),
        names: &[String],
    ) -> Result<(), Ended> {
        let entry = &config.accept[index];
        if names.len() > entry.sources {
            let (most, got) = (entry.sources, names.len());
            let text = format!("accept[{index}] admits {most} sources of a front-end, got {got}");
            return Err(Ended::new(ByeReason::TOO_MANY, 0, most as u64, text));
        }
        let is_other =
            |(name, one): &(&String, &Admitted)| *name != front_end && one.accept == index;
        if self.by_front_end.iter().filter(is_other).count() >= entry.front_ends {
            let most = entry.front_ends;
            let text = format!(
                "accept[{index}] admits {most} front-ends, and has them; those that are gone are \
                 forgotten when a run begins, or by reset"
            );
            return Err(Ended::new(ByeReason::TOO_MANY, 1_000, most as u64, text));
        }
        Ok(())
    }

    /// Undoes that a front-end was admitted: none of its sources can be taken.
    pub(crate) fn undo(&mut self, front_end: &str, before: Before) {
        match before {
            Before::Same => return,
            Before::Nothing => drop(self.by_front_end.remove(front_end)),
            Before::Other(other) => {
                self.by_front_end.insert(front_end.to_owned(), other);
            }
        }
        self.find_required();
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

    /// Those of their sources that are required.
    pub(crate) fn required(&self) -> &BTreeSet<String> {
        &self.required
    }

    /// To be called with each change.
    fn find_required(&mut self) {
        self.version += 1;
        let accept = self.config.as_ref().map(|config| &config.accept);
        let is_required = |one: &&Admitted| {
            let entry = accept.and_then(|accept| accept.get(one.accept));
            entry.is_some_and(|entry| entry.source.role == SourceRole::Required)
        };
        let required = self.by_front_end.values().filter(is_required);
        self.required = required.flat_map(|one| one.sources.iter().cloned()).collect();
    }
}

impl Check {
    /// Checks the whole configuration as it would be with the front-end.
    ///
    /// # Errors
    /// It would be none.
    pub(crate) fn run(&self) -> Result<(), Ended> {
        let Self { front_end, names, config, others, accept, .. } = self;
        let of_others = others.iter().map(|one| (&one.name, one.accept));
        let own = names.iter().map(|name| (name, *accept));
        let all = of_others.chain(own).map(|(name, accept)| SourceConfig {
            name: name.clone(),
            ..config.accept[accept].source.clone()
        });
        let sources = config.sources.iter().cloned().chain(all).collect();
        let with_it = RecorderConfig { sources, ..(**config).clone() };
        with_it.check_values().map_err(|error| {
            let text = format!("with {front_end:?}, {error}");
            Ended::new(ByeReason::DOES_NOT_FIT, 0, with_it.memory_bytes_min(), text)
        })
    }
}

/// What each source of a front-end is that this entry admits, but for its name.
fn source_of(config: &RecorderConfig, accept: usize) -> SourceConfig {
    let source = &config.accept[accept].source;
    let fragment_bytes_max = config.fragment_bytes_max(source);
    SourceConfig { fragment_bytes_max, ..source.clone() }
}

/// That a front-end is to come again, at the next look.
fn others_first(front_end: &str) -> Ended {
    let text = format!("others are being admitted before {front_end:?}");
    Ended::new(ByeReason::LATER, NEXT_LOOK_MS, 0, text)
}

/// That a front-end is not of the run that is armed, or has begun.
pub(crate) fn next_run(front_end: &str) -> Ended {
    let text = format!("{front_end:?} is not of this run, and admitted when it has ended");
    Ended::new(ByeReason::LATER, NEXT_RUN_MS, 0, text)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front_ends::{FrontEnd, FrontEnds};
    use crate::standby::Standby;

    /// A configuration with these sources that admits others named `cam*`.
    fn config(names: &[&str]) -> RecorderConfig {
        let source = |name: &str| {
            let source = SourceConfig::over_session(name, "127.0.0.1:7300".parse().unwrap());
            SourceConfig { fragment_bytes_max: 1 << 16, ..source }
        };
        let sources = names.iter().map(|name| source(name)).collect();
        let mut config = RecorderConfig::new("run".into(), sources);
        config.standby = Some(Standby::default());
        let (senders, front_ends, sources) = ("cam*".parse().unwrap(), 16, 1);
        config.accept = vec![Accept { senders, front_ends, sources, source: source("any") }];
        config
    }

    fn admits(admissions: &mut Admissions, name: &str, checks_left: &mut u32) -> bool {
        match admissions.ask(name, &[name.to_owned()], checks_left) {
            Ok(Asked::Checks(check)) => check.run().and_then(|()| admissions.admit(*check)).is_ok(),
            known => known.is_ok(),
        }
    }

    #[test]
    fn only_a_front_end_that_is_new_costs_a_check() {
        let mut admissions = Admissions::default();
        admissions.enter(&config(&[]), false);
        let mut left = 2;
        for name in ["cam1", "cam2", "cam1", "cam2"] {
            assert!(admits(&mut admissions, name, &mut left), "{name}");
        }
        assert_eq!(left, 0);
        assert!(!admits(&mut admissions, "cam3", &mut left), "it comes later");
        left = 1;
        assert!(admits(&mut admissions, "cam3", &mut left));
        // Behind a run of two of them.
        admissions.enter(&config(&["cam1", "cam2"]), true);
        admissions.enter(&config(&[]), false);
        assert!(admits(&mut admissions, "cam2", &mut left) && left == 0);
        assert!(!admits(&mut admissions, "cam3", &mut left), "it was not of the run");
        // With another configuration, they are checked again.
        let other = RecorderConfig { text: "other".to_owned(), ..config(&[]) };
        admissions.enter(&other, false);
        assert!(!admits(&mut admissions, "cam2", &mut left));
        left = 1;
        assert!(admits(&mut admissions, "cam2", &mut left) && left == 0);
    }

    #[test]
    fn a_front_end_that_was_admitted_and_is_gone_is_away_until_a_run_begins_without_it() {
        let front_ends = FrontEnds::default();
        front_ends.enter(&config(&["fixed"]), false);
        for name in ["cam1", "fixed"] {
            front_ends.tell(name, |one| one.is_connected = true);
        }
        let admitted = front_ends.admit("cam1", &["cam1".to_owned()], &mut 1);
        assert!(admitted.is_ok_and(|admission| admission.is_some()));
        let presence = || {
            let list = front_ends.list();
            ["cam1", "fixed"].map(|name| list.get(name).map(FrontEnd::presence))
        };
        assert_eq!(presence(), [Some("here"); 2]);
        // It is of a run, and goes meanwhile.
        front_ends.enter(&config(&["fixed", "cam1"]), true);
        for name in ["cam1", "fixed"] {
            front_ends.tell(name, FrontEnd::leave);
        }
        assert_eq!(presence(), [Some("away"), Some("expected")]);
        // Behind the run it still counts for its entry.
        front_ends.enter(&config(&["fixed"]), false);
        assert_eq!(presence()[0], Some("away"));
        front_ends.enter(&config(&["fixed"]), true);
        assert_eq!(presence()[0], None);
    }

    #[test]
    fn a_front_end_for_which_something_changed_while_it_was_checked_comes_again() {
        let mut admissions = Admissions::default();
        admissions.enter(&config(&[]), false);
        let ask = |admissions: &Admissions, name: &str| match admissions.ask(
            name,
            &[name.to_owned()],
            &mut 1,
        ) {
            Ok(Asked::Checks(check)) => *check,
            _ => panic!("{name} is new"),
        };
        // Two that come at once are checked without each other: together they may not fit.
        let (one, other) = (ask(&admissions, "cam1"), ask(&admissions, "cam2"));
        assert!(one.run().is_ok() && other.run().is_ok());
        assert!(admissions.admit(one).is_ok());
        let later = admissions.admit(other).err().and_then(|ended| ended.bye).unwrap();
        assert_eq!((later.reason, later.retry_ms), (ByeReason::LATER, NEXT_LOOK_MS));
        assert!(!admissions.has("cam2"));
        // A run that is armed meanwhile has not got it.
        let late = ask(&admissions, "cam3");
        admissions.enter(&config(&["cam1"]), true);
        assert!(late.run().is_ok() && admissions.admit(late).is_err());
        assert!(admissions.has("cam1") && !admissions.has("cam3"));
    }

    #[test]
    fn a_front_end_that_comes_while_a_run_is_armed_is_told_to_come_later() {
        let mut admissions = Admissions::default();
        admissions.enter(&config(&[]), false);
        let mut left = 9;
        assert!(admits(&mut admissions, "cam1", &mut left));
        // The threads between runs still work.
        admissions.enter(&config(&["cam1"]), true);
        assert!(admits(&mut admissions, "cam1", &mut left), "it is of the run");
        assert!(!admits(&mut admissions, "cam2", &mut left));
        assert_eq!(left, 8, "no configuration with a name twice was checked");
        admissions.enter(&config(&[]), false);
        assert!(admits(&mut admissions, "cam2", &mut left));
    }

    #[test]
    fn a_name_that_is_configured_is_admitted_no_more_and_keeps_nobody_out() {
        let mut admissions = Admissions::default();
        admissions.enter(&config(&[]), false);
        let mut left = 9;
        assert!(admits(&mut admissions, "cam1", &mut left));
        assert!(admissions.required().contains("cam1"));
        admissions.enter(&config(&["cam1"]), false);
        assert!(!admissions.has("cam1") && admissions.required().is_empty());
        assert!(admissions.sources(|_| true).is_empty());
        assert!(admits(&mut admissions, "cam2", &mut left));
    }
}
