//! The catalogue without a database: what each of its answers must be.
//!
//! [`CatalogModel`] keeps in memory what it is told, and follows the rules of the catalogue with no
//! thought of locks, transactions and kills; what the files of runs say it reads from these. This
//! crate's tests hold [`Catalog`] to it over random histories, and so does the simulator, which has
//! the model in every run. No program uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use catchment_model::ledger::BAD_DATA;
use catchment_model::{Entry, RunId, Utc};

use crate::catalog::{Catalog, NumberRequest, RunEnd};
use crate::configurations::{Configuration, ConfigurationText, sha256};
use crate::error::CatalogError;
use crate::facts::{self, Facts};
use crate::files::FrameSpan;
use crate::forwarded::SpillForwarded;
use crate::lock::LiveRun;
use crate::pending::{Over, RunKnown};
use crate::remarks::Remark;
use crate::row::{Quality, RunDetail, RunRow, RunState, Totals};
use crate::schema::Paths;
use crate::search::Search;
use crate::{REMARKS_MAX, RUN_NUMBER_MAX, SEARCH_LIMIT_MAX};

/// A catalogue as the process of a recorder uses it: the real one, or the model.
///
/// # Errors
/// Of all methods: as those of [`Catalog`].
pub trait CatalogPort {
    /// The right to record a run: a process has it until it ends.
    type Live;

    /// The number of that run.
    fn number(live: &Self::Live) -> u64;
    /// A process opens the catalogue, as [`Catalog::open`].
    fn reopen(&mut self) -> Result<(), CatalogError>;
    /// [`Catalog::next_run_number`].
    fn take(&mut self, request: &NumberRequest<'_>) -> Result<Self::Live, CatalogError>;
    /// [`LiveRun::without_catalog`].
    fn take_without(&mut self, wanted: Option<u64>) -> Result<Self::Live, CatalogError>;
    /// [`Catalog::enter`].
    fn enter(&mut self, live: &Self::Live, known: &RunKnown) -> Result<(), CatalogError>;
    /// [`RunKnown::keep`].
    fn keep(&mut self, live: &Self::Live, known: &RunKnown) -> Result<(), CatalogError>;
    /// [`Catalog::resume`].
    fn resume(&mut self, number: u64) -> Result<Self::Live, CatalogError>;
    /// The process of a run ends, however it does.
    fn die(&mut self, live: Self::Live);
}

impl CatalogPort for Catalog {
    type Live = LiveRun;

    fn number(live: &LiveRun) -> u64 {
        live.number()
    }

    fn reopen(&mut self) -> Result<(), CatalogError> {
        *self = Self::open(&self.paths.data)?;
        Ok(())
    }

    fn take(&mut self, request: &NumberRequest<'_>) -> Result<LiveRun, CatalogError> {
        self.next_run_number(request)
    }

    fn take_without(&mut self, wanted: Option<u64>) -> Result<LiveRun, CatalogError> {
        LiveRun::without_catalog(&self.paths.data, wanted)
    }

    fn enter(&mut self, live: &LiveRun, known: &RunKnown) -> Result<(), CatalogError> {
        Self::enter(self, live, known)
    }

    fn keep(&mut self, live: &LiveRun, known: &RunKnown) -> Result<(), CatalogError> {
        known.keep(&self.paths.data, live)
    }

    fn resume(&mut self, number: u64) -> Result<LiveRun, CatalogError> {
        Self::resume(self, number)
    }

    fn die(&mut self, live: LiveRun) {
        drop(live);
    }
}

/// The catalogue of a data folder, in memory.
#[derive(Clone, Debug)]
pub struct CatalogModel {
    paths: Paths,
    /// The highest number that was given.
    pub(crate) highest: u64,
    configurations: Vec<ConfigurationText>,
    /// As they are entered: a run whose process is gone may still be recording here.
    runs: BTreeMap<u64, RunDetail>,
    spans: BTreeMap<u64, Vec<FrameSpan>>,
    /// The runs that have a process.
    live: BTreeSet<u64>,
    /// Runs whose files the next process that opens the catalogue looks at, if they are over.
    left: BTreeSet<u64>,
    /// What waits for the next process that opens the catalogue, by the names of its files.
    pending: BTreeMap<String, (u64, RunKnown)>,
}

impl CatalogPort for CatalogModel {
    type Live = u64;

    fn number(live: &u64) -> u64 {
        *live
    }

    fn reopen(&mut self) -> Result<(), CatalogError> {
        self.settle();
        let is_gone = |run: &RunRow| !run.state.is_final() && !self.live.contains(&run.number);
        let gone = self.runs.values().map(|detail| &detail.run).filter(|run| is_gone(run));
        for (number, state) in gone.map(|run| (run.number, run.state)).collect::<Vec<_>>() {
            let run = self.row(number)?;
            run.reason = state.abandoned().1.map(str::to_owned);
            run.state = state.abandoned().0;
            if state == RunState::Recording {
                // An error is reported when the run is read.
                let _scanned = self.scan(number);
            }
            self.left.remove(&number);
        }
        for number in std::mem::take(&mut self.left) {
            let _scanned = self.scan(number);
        }
        Ok(())
    }

    fn take(&mut self, request: &NumberRequest<'_>) -> Result<u64, CatalogError> {
        let number = self.take_without(request.wanted)?;
        let run = RunRow {
            configuration: self.version(request.configuration, request.who, request.now),
            comment: request.comment.to_owned(),
            emulated: request.emulated,
            ..RunRow::starting(number, request.who, request.now)
        };
        let remarks = request.remark.cloned().into_iter().collect();
        self.runs.insert(number, RunDetail { run, remarks, ..RunDetail::default() });
        Ok(number)
    }

    fn take_without(&mut self, wanted: Option<u64>) -> Result<u64, CatalogError> {
        let fits = |wanted: &u64| (self.highest + 1..=RUN_NUMBER_MAX).contains(wanted);
        self.highest = wanted.filter(fits).unwrap_or(self.highest + 1);
        self.live.insert(self.highest);
        Ok(self.highest)
    }

    fn enter(&mut self, live: &u64, known: &RunKnown) -> Result<(), CatalogError> {
        self.put(*live, known)?;
        self.pending.remove(&live.to_string());
        Ok(())
    }

    fn keep(&mut self, live: &u64, known: &RunKnown) -> Result<(), CatalogError> {
        self.pending.insert(live.to_string(), (*live, known.clone()));
        Ok(())
    }

    fn resume(&mut self, number: u64) -> Result<u64, CatalogError> {
        self.settle();
        if self.live.contains(&number) {
            let what = "another process that is starting a run";
            return Err(CatalogError::InUse { path: self.paths.database(), what });
        }
        let run = self.row(number)?;
        if !matches!(run.state, RunState::Interrupted | RunState::Recording) {
            return Err(CatalogError::NoRun { number });
        }
        (run.state, run.reason, run.ended) = (RunState::Recording, None, None);
        self.live.insert(number);
        self.left.remove(&number);
        Ok(number)
    }

    fn die(&mut self, live: u64) {
        self.live.remove(&live);
    }
}

/// What people and programs say of runs, and what they ask.
///
/// # Errors
/// Of all methods: as those of [`Catalog`].
impl CatalogModel {
    /// Of a data folder that has no runs yet.
    pub fn new(folder: impl AsRef<Path>) -> Self {
        Self {
            paths: Paths::new(folder.as_ref()),
            highest: 0,
            configurations: Vec::new(),
            runs: BTreeMap::new(),
            spans: BTreeMap::new(),
            live: BTreeSet::new(),
            left: BTreeSet::new(),
            pending: BTreeMap::new(),
        }
    }

    /// The process of a run is killed.
    pub fn kill(&mut self, live: u64) {
        self.live.remove(&live);
        self.left.insert(live);
    }

    /// [`Catalog::run`].
    pub fn run(&self, number: u64) -> Result<RunDetail, CatalogError> {
        let detail = self.runs.get(&number).ok_or(CatalogError::NoRun { number })?;
        Ok(RunDetail { run: self.seen(detail), ..detail.clone() })
    }

    /// [`Catalog::search`].
    pub fn search(&self, search: &Search) -> Vec<RunRow> {
        let found = self.runs.values().rev().filter(|detail| fits(search, detail));
        let rows = found.map(|detail| self.seen(detail));
        let rows = rows.filter(|run| search.state.is_none_or(|state| run.state == state));
        rows.take(search.limit.unwrap_or(SEARCH_LIMIT_MAX)).collect()
    }

    /// The configurations with their texts, the oldest first.
    pub fn configurations(&self) -> &[ConfigurationText] {
        &self.configurations
    }

    /// [`Catalog::frames`].
    pub fn frames(&self, number: u64) -> Vec<FrameSpan> {
        self.spans.get(&number).cloned().unwrap_or_default()
    }

    /// [`Catalog::in_spill`].
    pub fn in_spill(&self, id: RunId, spill: &str, name: &str) -> Option<RunDetail> {
        let is_there = |detail: &&RunDetail| {
            let mut there = detail.locations.iter().filter(|one| one.kind.name() == "spill");
            detail.run.id == Some(id) && there.any(|one| one.address == spill && one.name == name)
        };
        let found = self.runs.values().rev().find(is_there)?;
        self.run(found.run.number).ok()
    }

    /// [`Catalog::set_comment`].
    pub fn set_comment(&mut self, number: u64, comment: &str) -> Result<(), CatalogError> {
        comment.clone_into(&mut self.row(number)?.comment);
        Ok(())
    }

    /// [`Catalog::set_quality`].
    pub fn set_quality(&mut self, number: u64, quality: Quality) -> Result<(), CatalogError> {
        self.row(number)?.quality = quality;
        Ok(())
    }

    /// [`Catalog::add_remark`], of a run that has room for it.
    pub fn add_remark(&mut self, number: u64, remark: &Remark) -> Result<(), CatalogError> {
        say(&mut self.detail(number)?.remarks, remark);
        Ok(())
    }

    /// [`Catalog::put_configuration`], of a text.
    pub fn put_configuration(&mut self, text: &str, who: &str, now: Utc) -> u64 {
        self.version(text, who, now).expect("a text")
    }

    /// [`Catalog::enter_forwarded`].
    pub fn enter_forwarded(
        &mut self,
        number: u64,
        forwarded: &SpillForwarded<'_>,
    ) -> Result<(), CatalogError> {
        let detail = self.detail(number)?;
        replace(&mut detail.locations, forwarded.locations);
        let [spilled, there] =
            [Entry::FragmentsSpilled, Entry::FragmentsForwarded].map(Entry::name);
        let (mut sum, mut sum_there) = (0, 0);
        for one in detail.targets.iter_mut().filter(|one| one.target == forwarded.target) {
            let of = |name: &str| one.entries.get(name).copied().unwrap_or(0);
            let more = forwarded.fragments.get(&*one.source).copied().unwrap_or(0);
            let now =
                if forwarded.is_whole { of(spilled) } else { of(spilled).min(of(there) + more) };
            (sum, sum_there) = (sum + of(spilled), sum_there + now);
            if now > 0 {
                one.entries.insert(there.to_owned(), now);
            }
        }
        if sum_there > 0 && detail.ledger.contains(&(spilled.to_owned(), sum)) {
            detail.ledger.retain(|(name, _)| name != there);
            detail.ledger.push((there.to_owned(), sum_there));
            detail.ledger.sort_by_key(|(name, _)| Entry::from_name(name).map(|one| one as usize));
        }
        if detail.remarks.len() < REMARKS_MAX {
            forwarded.remark.into_iter().for_each(|remark| say(&mut detail.remarks, remark));
        }
        Ok(())
    }

    /// [`Catalog::scan`].
    pub fn scan(&mut self, number: u64) -> Result<(), CatalogError> {
        let RunRow { folder, id, state, .. } = self.run(number)?.run;
        let Some(folder) = folder else { return Ok(()) };
        let is_live = self.live.contains(&number);
        let facts = Facts::read(&self.paths.data.join(&folder), &folder, is_live)?;
        if id.is_some_and(|id| id != facts.id) {
            return Err(CatalogError::OtherRun { number, got: facts.id.to_string() });
        }
        self.put_facts(number, &facts, (state, state))?;
        let run = self.row(number)?;
        run.ended = run.ended.or(facts.ended.filter(|_| state.is_final()));
        run.emulated = facts.emulated;
        if facts.complete && run.state == RunState::Interrupted {
            (run.state, run.reason) = (RunState::Complete, None);
        }
        Ok(())
    }

    /// [`crate::rebuild`], of folders that each have a run of their own, under its own number.
    pub fn rebuild(&mut self) -> Result<(), CatalogError> {
        let mut found = BTreeMap::new();
        for (name, path) in facts::run_folders(&self.paths.data)? {
            let Ok(facts) = Facts::read(&path, &name, true) else { continue };
            let known = self.runs.values().find(|detail| detail.run.id == Some(facts.id));
            found.insert(known.map_or(facts.number, |detail| detail.run.number), facts);
        }
        for number in self.runs.keys().copied().collect::<Vec<_>>() {
            // Its files are elsewhere, or it has none.
            if !found.contains_key(&number) {
                *self.row(number)? = self.run(number)?.run;
            }
        }
        for (number, facts) in &found {
            self.highest = self.highest.max(*number);
            self.rebuild_run(*number, facts)?;
        }
        Ok(())
    }

    fn rebuild_run(&mut self, number: u64, facts: &Facts) -> Result<(), CatalogError> {
        let run = RunRow::starting(number, "", facts.started);
        let new = RunDetail { run, ..RunDetail::default() };
        let mut run = self.runs.entry(number).or_insert(new).run.clone();
        let was = run.state;
        // What its recorder has ended is not recorded any more, though its process be there.
        let has_end = facts.complete || matches!(was, RunState::Complete | RunState::Fault);
        let is_live = !has_end && self.live.contains(&number);
        let abandoned = RunState::Recording.abandoned();
        (run.state, run.reason) = match was {
            _ if is_live => (RunState::Recording, None),
            RunState::Fault => (was, run.reason),
            _ if facts.complete => (RunState::Complete, None),
            RunState::Interrupted => (was, run.reason),
            _ => (abandoned.0, abandoned.1.map(str::to_owned)),
        };
        run.ended = run.ended.or(facts.ended).filter(|_| !is_live);
        run.started = run.started.or(Some(facts.started));
        (run.id, run.folder) = (Some(facts.id), Some(facts.folder.clone()));
        run.number_in_files = (facts.number != number).then_some(facts.number);
        run.emulated = facts.emulated;
        let of_files = self.version(&facts.configuration, &run.who, run.taken);
        run.configuration = of_files.or(run.configuration);
        let state = run.state;
        *self.row(number)? = run;
        self.put_facts(number, facts, (was, state))
    }

    /// What waits is entered, unless another run has its number.
    fn settle(&mut self) {
        for (number, known) in std::mem::take(&mut self.pending).into_values() {
            let _refused = self.put(number, &known);
            if known.over.is_some() && known.begun.is_some() && !self.live.contains(&number) {
                self.left.insert(number);
            }
        }
    }

    fn put(&mut self, number: u64, known: &RunKnown) -> Result<(), CatalogError> {
        let id = known.begun.as_ref().map(|begun| begun.id);
        let there = self.runs.get(&number).map(|detail| &detail.run);
        if let Some(got) = there.and_then(|run| run.id).filter(|got| id != Some(*got)) {
            return Err(CatalogError::OtherRun { number, got: got.to_string() });
        }
        let version = there.and_then(|run| run.configuration);
        let version =
            version.or_else(|| self.version(&known.configuration, &known.who, known.taken));
        let folder = known.begun.as_ref().map(|begun| self.paths.folder_name(&begun.folder));
        let run = RunRow { emulated: known.emulated, ..RunRow::starting(number, "", known.taken) };
        let detail = RunDetail { run, ..RunDetail::default() };
        let detail = self.runs.entry(number).or_insert(detail);
        let run = &mut detail.run;
        let is_over = match run.state {
            RunState::Complete | RunState::Fault => true,
            // By its recorder, and not because that is gone.
            RunState::Failed => run.ended.is_some(),
            _ => false,
        };
        // What waited may be older than what is there.
        let is_old = is_over && known.over.is_none();
        for (there, known) in [(&mut run.who, &known.who), (&mut run.comment, &known.comment)] {
            if there.is_empty() {
                there.clone_from(known);
            }
        }
        run.configuration = version;
        if let Some(begun) = &known.begun {
            (run.id, run.folder, run.started) = (id, folder, Some(begun.started));
            if !is_old {
                (run.state, run.reason) = (RunState::Recording, None);
            }
        }
        self.highest = self.highest.max(number);
        known.remarks.iter().for_each(|remark| say(&mut detail.remarks, remark));
        if !is_old || detail.locations.is_empty() {
            replace(&mut detail.locations, &known.locations);
        }
        replace(&mut detail.targets, &known.targets);
        let (ended, state, reason) = match &known.over {
            None => return Ok(()),
            Some(Over::Failed { why, at }) => (at, RunState::Failed, Some(why)),
            Some(Over::Ended(RunEnd { ended, fault, totals })) => {
                put_totals(detail, totals, totals.loss_count());
                let state = if fault.is_some() { RunState::Fault } else { RunState::Complete };
                (ended, state, fault.as_ref())
            }
        };
        let run = &mut detail.run;
        (run.ended, run.state, run.reason) = (Some(*ended), state, reason.cloned());
        Ok(())
    }

    /// What a run's files say, in place of what was there; but its recorder's ledger of a run that
    /// it ended, and whose files lack the end. `before` and after: its states.
    fn put_facts(
        &mut self,
        number: u64,
        facts: &Facts,
        (before, state): (RunState, RunState),
    ) -> Result<(), CatalogError> {
        let mut spans = facts.spans.clone();
        spans.sort_by_key(|span| (span.file, span.kind.name(), span.first));
        self.spans.insert(number, spans);
        let detail = self.detail(number)?;
        detail.file_rows.clone_from(&facts.files);
        replace(&mut detail.locations, &facts.locations);
        let has_own = matches!(before, RunState::Complete | RunState::Fault)
            && !detail.ledger.is_empty()
            && !facts.complete;
        let mut totals = facts.totals.clone();
        if has_own {
            totals.ledger = None;
        }
        put_totals(detail, &totals, facts.loss_count(state));
        Ok(())
    }

    /// The version of a configuration, which is added if it is new; of none, none.
    fn version(&mut self, text: &str, who: &str, now: Utc) -> Option<u64> {
        if !text.is_empty() && !self.configurations.iter().any(|known| known.text == text) {
            let version = self.configurations.len() as u64 + 1;
            let (sha256, bytes) = (sha256(text), text.len() as u64);
            let about = Configuration { version, sha256, bytes, created: now, who: who.to_owned() };
            self.configurations.push(ConfigurationText { about, text: text.to_owned() });
        }
        let known = self.configurations.iter().find(|known| known.text == text);
        known.map(|known| known.about.version)
    }

    fn detail(&mut self, number: u64) -> Result<&mut RunDetail, CatalogError> {
        self.runs.get_mut(&number).ok_or(CatalogError::NoRun { number })
    }

    fn row(&mut self, number: u64) -> Result<&mut RunRow, CatalogError> {
        self.detail(number).map(|detail| &mut detail.run)
    }

    /// A run as it is told: one whose process is gone says so.
    fn seen(&self, detail: &RunDetail) -> RunRow {
        let mut run = detail.run.clone();
        let is_bad = |name: &str| BAD_DATA.iter().any(|entry| entry.name() == name);
        let bad = detail.ledger.iter().filter(|(name, _)| is_bad(name)).map(|(_, count)| count);
        run.bad_count = run.fragments.map(|_| bad.sum());
        if !run.state.is_final() && !self.live.contains(&run.number) {
            let (state, reason) = run.state.abandoned();
            (run.state, run.reason) = (state, reason.map(str::to_owned));
        }
        run
    }
}

/// What a run came to; of a ledger that is not known, what was known before.
fn put_totals(detail: &mut RunDetail, totals: &Totals, loss_count: Option<u64>) {
    let run = &mut detail.run;
    (run.events, run.bytes) = (Some(totals.events), Some(totals.bytes));
    (run.frames, run.files) = (Some(totals.frames), Some(totals.files));
    if let Some(ledger) = &totals.ledger {
        let sum = ledger.total();
        (run.fragments, run.loss_count) = (Some(sum[Entry::FragmentsRecorded]), loss_count);
        let entries = sum.iter().filter(|(_, count)| *count > 0);
        detail.ledger = entries.map(|(entry, count)| (entry.name().to_owned(), count)).collect();
    }
}

/// Unless none are known.
fn replace<T: Clone>(all: &mut Vec<T>, by: &[T]) {
    if !by.is_empty() {
        *all = by.to_vec();
    }
}

/// The same thing twice is said once.
fn say(remarks: &mut Vec<Remark>, remark: &Remark) {
    if let Err(at) = remarks.binary_search(remark) {
        remarks.insert(at, remark.clone());
    }
}

/// Whether a run, as it is entered, is looked for, whatever has become of it.
fn fits(search: &Search, detail: &RunDetail) -> bool {
    let run = &detail.run;
    let began = run.started.unwrap_or(run.taken);
    let ended = run.ended.unwrap_or(if run.state.is_final() { began } else { Utc(u64::MAX) });
    let id = run.id.map(|id| id.to_string());
    let texts = [Some(&run.comment), Some(&run.who), run.folder.as_ref(), id.as_ref()];
    let texts = texts.into_iter().chain([run.reason.as_ref()]).flatten();
    let remarks = detail.remarks.iter().flat_map(|remark| [&remark.text, &remark.who]);
    let texts: Vec<String> = texts.chain(remarks).map(|text| text.to_lowercase()).collect();
    let has = |word: &str| {
        texts.iter().any(|text| text.contains(&word.to_lowercase()))
            || word.parse() == Ok(run.number)
    };
    search.from.is_none_or(|from| run.number >= from)
        && search.before.is_none_or(|before| run.number < before)
        && search.since.is_none_or(|since| ended >= since)
        && search.until.is_none_or(|until| began < until)
        && search.quality.is_none_or(|quality| run.quality == quality)
        && search.who.as_ref().is_none_or(|who| run.who == *who)
        && search.text.split_whitespace().all(has)
}
