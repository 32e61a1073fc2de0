//! The catalogue held to a model over random histories: two programs have it open, runs begin, end,
//! fail and lose their processes, people say what they think, and ends wait outside for the next
//! who opens it. After each step both programs tell of every run, and find, what the model does.

use std::collections::BTreeMap;

use catchment_fixtures::Random;

use super::*;
use crate::{Quality, RunState, Search};

/// The runs as they are stored, and whose processes there are.
#[derive(Default)]
struct Model {
    highest: u64,
    texts: Vec<&'static str>,
    runs: BTreeMap<u64, Told>,
    live: BTreeMap<u64, LiveRun>,
    /// What waits for the next who opens the catalogue.
    waiting: BTreeMap<u64, RunEnd>,
}

/// What is told of a run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    state: RunState,
    reason: Option<String>,
    who: String,
    comment: String,
    configuration: Option<u64>,
    quality: Quality,
    taken: Utc,
    begun: Option<(RunId, String, Utc)>,
    ended: Option<Utc>,
    events: Option<u64>,
    loss_count: Option<u64>,
    remarks: Vec<Remark>,
}

impl Told {
    fn of(detail: RunDetail) -> Self {
        let RunDetail { run, mut remarks, .. } = detail;
        remarks.sort();
        let begun = run.id.zip(run.folder).zip(run.started);
        Self {
            state: run.state,
            reason: run.reason,
            who: run.who,
            comment: run.comment,
            configuration: run.configuration,
            quality: run.quality,
            taken: run.taken,
            begun: begun.map(|((id, folder), started)| (id, folder, started)),
            ended: run.ended,
            events: run.events,
            loss_count: run.loss_count,
            remarks,
        }
    }

    fn end(&mut self, end: &RunEnd) {
        (self.state, self.reason) = match &end.fault {
            Some(fault) => (RunState::Fault, Some(fault.clone())),
            None => (RunState::Complete, None),
        };
        (self.ended, self.events) = (Some(end.ended), Some(end.totals.events));
        self.loss_count = end.totals.loss_count();
    }

    fn remark(&mut self, remark: Remark) {
        if let Err(at) = self.remarks.binary_search(&remark) {
            self.remarks.insert(at, remark);
        }
    }

    /// As it is seen when its process is gone.
    fn abandoned(mut self) -> Self {
        if !self.state.is_final() {
            let (state, reason) = self.state.abandoned();
            (self.state, self.reason) = (state, reason.map(str::to_owned));
        }
        self
    }

    fn has(&self, number: u64, word: &str) -> bool {
        let (id, folder) = self
            .begun
            .as_ref()
            .map_or_else(Default::default, |(id, folder, _)| (id.to_string(), folder.clone()));
        let reason = self.reason.clone().unwrap_or_default();
        let own = [&self.comment, &self.who, &folder, &id, &reason];
        let said = self.remarks.iter().flat_map(|remark| [&remark.text, &remark.who]);
        own.into_iter().chain(said).any(|text| text.to_lowercase().contains(&word.to_lowercase()))
            || word.parse() == Ok(number)
    }
}

impl Model {
    fn told(&self, number: u64) -> Told {
        let stored = self.runs[&number].clone();
        if self.live.contains_key(&number) { stored } else { stored.abandoned() }
    }

    /// Somebody opens the catalogue to write.
    fn open(&mut self) {
        for (number, end) in std::mem::take(&mut self.waiting) {
            self.runs.get_mut(&number).unwrap().end(&end);
        }
        for number in self.runs.keys().copied().collect::<Vec<u64>>() {
            let told = self.told(number);
            self.runs.insert(number, told);
        }
    }

    fn found(&self, search: &Search) -> Vec<u64> {
        let fits = |number: u64, run: &Told| {
            let began = run.begun.as_ref().map_or(run.taken, |(.., started)| *started);
            let ended =
                run.ended.unwrap_or(if run.state.is_final() { began } else { Utc(u64::MAX) });
            search.from.is_none_or(|from| number >= from)
                && search.before.is_none_or(|before| number < before)
                && search.since.is_none_or(|since| ended >= since)
                && search.until.is_none_or(|until| began < until)
                && search.quality.is_none_or(|quality| run.quality == quality)
                && search.who.as_ref().is_none_or(|who| run.who == *who)
                && search.state.is_none_or(|state| self.told(number).state == state)
                && search.text.split_whitespace().all(|word| run.has(number, word))
        };
        let found = self.runs.iter().rev().filter(|&(&number, run)| fits(number, run));
        found.map(|(number, _)| *number).take(search.limit.unwrap_or(usize::MAX)).collect()
    }

    fn take(&mut self, catalog: &mut Catalog, random: &mut Random, now: u64) {
        let text = pick(random, &["", "[run]\n", "[run]\nname = \"b\"\n"]);
        let said = random.chance(300).then(|| remark(now, "start", pick(random, WORDS)));
        let request = NumberRequest {
            who: pick(random, PEOPLE),
            comment: pick(random, WORDS),
            remark: said.as_ref(),
            configuration: text,
            wanted: random.chance(300).then(|| random.below(self.highest + 4)),
            now: second(now),
            ..NumberRequest::default()
        };
        let live = catalog.next_run_number(&request).unwrap();
        self.highest =
            request.wanted.filter(|&wanted| wanted > self.highest).unwrap_or(self.highest + 1);
        assert_eq!(live.number(), self.highest);
        if !text.is_empty() && !self.texts.contains(&text) {
            self.texts.push(text);
        }
        let version =
            self.texts.iter().position(|known| *known == text).map(|index| index as u64 + 1);
        let run = Told {
            who: request.who.to_owned(),
            comment: request.comment.to_owned(),
            configuration: version,
            taken: request.now,
            remarks: said.into_iter().collect(),
            ..Told::default()
        };
        self.runs.insert(live.number(), run);
        self.live.insert(live.number(), live);
    }

    /// Something becomes of a run that has a process.
    fn proceed(&mut self, catalog: &mut Catalog, (random, data): (&mut Random, &Path), now: u64) {
        let numbers: Vec<u64> = self.live.keys().copied().collect();
        let Some(&number) = numbers.get(random.index(numbers.len().max(1))) else { return };
        let (live, run) = (&self.live[&number], self.runs.get_mut(&number).unwrap());
        match (run.state, random.below(4)) {
            (RunState::Starting, 0) => {
                fail_run(catalog, live, "no socket");
                (run.state, run.reason) = (RunState::Failed, Some("no socket".to_owned()));
                run.ended = Some(second(1));
            }
            (RunState::Starting, 1 | 2) => {
                let (id, folder) = (RunId([number as u8; 16]), format!("run-{number}"));
                begin_run(catalog, live, id, &data.join(&folder), second(now)).unwrap();
                (run.state, run.begun) = (RunState::Recording, Some((id, folder, second(now))));
            }
            (RunState::Recording, choice @ 0..3) => {
                let fault = random.chance(300).then(|| "disk full".to_owned());
                let end = RunEnd { fault, ..ended(now, random.below(9)) };
                match choice {
                    0 => {
                        let (id, folder, started) = run.begun.clone().unwrap();
                        let begun = Some(Begun { id, folder: data.join(folder), started });
                        let over = Some(Over::Ended(end.clone()));
                        let known = RunKnown { begun, over, ..RunKnown::default() };
                        known.keep(data, live).unwrap();
                        self.waiting.insert(number, end);
                    }
                    _ => {
                        end_run(catalog, live, &end);
                        run.end(&end);
                    }
                }
            }
            _ => {}
        }
        // Its process ends, whatever it has entered.
        if random.chance(500) || self.waiting.contains_key(&number) {
            self.live.remove(&number);
        }
    }

    /// Somebody says something of a run, which may not be there.
    fn say(&mut self, catalog: &mut Catalog, random: &mut Random, now: u64) {
        let number = random.below(self.highest + 3);
        let run = self.runs.get_mut(&number);
        let is_there = run.is_some();
        let mut none = Told::default();
        let run = run.unwrap_or(&mut none);
        let word = pick(random, WORDS);
        let said = match random.below(3) {
            0 => {
                word.clone_into(&mut run.comment);
                catalog.set_comment(number, word)
            }
            1 => {
                run.quality = pick(random, &[Quality::Good, Quality::Bad, Quality::Test]);
                catalog.set_quality(number, run.quality)
            }
            _ => {
                // The same thing twice is said once.
                let said = remark(now / 3, "remark", word);
                run.remark(said.clone());
                catalog.add_remark(number, &said)
            }
        };
        match said {
            Ok(()) => assert!(is_there, "run {number}"),
            Err(CatalogError::NoRun { number: got }) => assert!(!is_there && got == number),
            Err(error) => panic!("run {number}: {error}"),
        }
    }

    /// Somebody has a run go on.
    fn resume(&mut self, catalog: &mut Catalog, random: &mut Random) {
        let number = random.below(self.highest + 2).max(1);
        let goes_on = self.runs.contains_key(&number)
            && !self.live.contains_key(&number)
            && self.told(number).state == RunState::Interrupted;
        match catalog.resume(number) {
            Ok(live) => {
                assert!(goes_on, "run {number}");
                let run = self.runs.get_mut(&number).unwrap();
                (run.state, run.reason, run.ended) = (RunState::Recording, None, None);
                self.live.insert(number, live);
            }
            Err(CatalogError::NoRun { .. } | CatalogError::InUse { .. }) => assert!(!goes_on),
            Err(error) => panic!("run {number}: {error}"),
        }
    }

    fn search(&self, random: &mut Random, now: u64) -> Search {
        let states =
            [RunState::Starting, RunState::Recording, RunState::Complete, RunState::Interrupted];
        let number =
            |random: &mut Random| random.chance(200).then(|| random.below(self.highest + 2));
        let time = |random: &mut Random| random.chance(200).then(|| second(random.below(now + 1)));
        let words = [pick(random, WORDS), pick(random, WORDS), "3"];
        Search {
            text: words[..random.index(4)].join(" "),
            from: number(random),
            before: number(random),
            since: time(random),
            until: time(random),
            quality: random.chance(100).then_some(Quality::Good),
            state: random.chance(200).then(|| pick(random, &states)),
            who: random.chance(200).then(|| pick(random, PEOPLE).to_owned()),
            limit: random.chance(300).then(|| 1 + random.index(4)),
        }
    }

    fn check(&self, catalog: &Catalog, (random, now): (&mut Random, u64), about: &str) {
        for &number in self.runs.keys() {
            assert_eq!(
                Told::of(catalog.run(number).unwrap()),
                self.told(number),
                "{about}, {number}"
            );
        }
        for _ in 0..3 {
            let search = self.search(random, now);
            let rows = catalog.search(&search).unwrap();
            let found: Vec<u64> = rows.iter().map(|run| run.number).collect();
            assert_eq!(found, self.found(&search), "{about}: {search:?}");
        }
        let configurations = catalog.configurations().unwrap();
        assert_eq!(configurations.len(), self.texts.len(), "{about}");
    }
}

fn pick<T: Copy>(random: &mut Random, among: &[T]) -> T {
    among[random.index(among.len())]
}

const PEOPLE: &[&str] = &["anna", "Björn"];
const WORDS: &[&str] = &["Cosmics, HV on", "laser", "GRÜSSE aus Ulm", "50 %"];

#[test]
fn every_history_is_told_as_the_model_tells_it() {
    for seed in 0..25 {
        let folder = tempfile::tempdir().unwrap();
        let (mut random, mut model) = (Random::new(seed), Model::default());
        let mut open = [(); 2].map(|()| Catalog::open(folder.path()).unwrap());
        for step in 1..60 {
            let which = random.index(2);
            let catalog = &mut open[which];
            match random.below(10) {
                0 | 1 => model.take(catalog, &mut random, step),
                2..5 => model.proceed(catalog, (&mut random, folder.path()), step),
                5 | 6 => model.say(catalog, &mut random, step),
                // A process that resumes a run opens the catalogue for it.
                7 => {
                    *catalog = Catalog::open(folder.path()).unwrap();
                    model.open();
                    model.resume(catalog, &mut random);
                }
                8 => {
                    *catalog = Catalog::open(folder.path()).unwrap();
                    model.open();
                }
                _ => {}
            }
            model.check(
                &open[random.index(2)],
                (&mut random, step),
                &format!("seed {seed}, step {step}"),
            );
        }
        let read_only = Catalog::open_read_only(folder.path()).unwrap();
        model.check(&read_only, (&mut random, 60), &format!("seed {seed}, to read only"));
    }
}
