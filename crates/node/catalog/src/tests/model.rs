//! The catalogue held to its model over random histories: two programs have it open; recorders
//! begin, end, fail and lose their processes, some at any step of what they do; people say what
//! they think; what could not be entered waits for the next who opens it; and it is made again from
//! the files. After each step the catalogue answers every question as the model does.

use std::fmt::Debug;

use catchment_fixtures::Random;

use super::crash::{ended_child, spawn};
use super::*;
use crate::model::{CatalogModel, CatalogPort};
use crate::schema::Paths;
use crate::{Quality, RunRow, RunState, Search, SpillForwarded, numbers, rebuild};

/// The process of a recorder. Two of one seed do the same, each with a catalogue of its own.
struct Recorder<C: CatalogPort> {
    random: Random,
    live: Option<C::Live>,
    known: RunKnown,
    has_files: bool,
}

impl<C: CatalogPort> Recorder<C> {
    fn new(seed: u64) -> Self {
        let (random, known) = (Random::new(seed), RunKnown::default());
        Self { random, live: None, known, has_files: false }
    }

    /// One that has an interrupted run go on.
    fn resumed(seed: u64, live: C::Live, run: &RunRow, data: &Path) -> Self {
        let folder = run.folder.as_ref().map(|name| data.join(name));
        let has_files = folder.as_ref().is_some_and(|folder| folder.exists());
        let begun = run.id.zip(folder).zip(run.started);
        let known = RunKnown {
            who: run.who.clone(),
            comment: run.comment.clone(),
            emulated: run.emulated,
            taken: run.taken,
            begun: begun.map(|((id, folder), started)| Begun { id, folder, started }),
            ..RunKnown::default()
        };
        Self { live: Some(live), known, has_files, ..Self::new(seed) }
    }

    /// What it does next. One of the two writes the files.
    fn act(&mut self, catalog: &mut C, data: &Path, writes: bool) -> Result<(), CatalogError> {
        let (random, known) = (&mut self.random, &mut self.known);
        let Some(live) = &self.live else {
            self.live = Some(take_number(catalog, random, known)?);
            return Ok(());
        };
        let number = C::number(live);
        let (id, name) = (RunId([number as u8; 16]), format!("run-{number}"));
        let now = random.below(60);
        match (known.begun.is_some(), known.over.is_some(), random.below(6)) {
            (false, false, 0) => {
                known.over = Some(Over::Failed { why: "no socket".into(), at: second(now) });
            }
            (false, false, 1..5) => {
                known.begun = Some(Begun { id, folder: data.join(name), started: second(now) });
                known.locations = pick(random, &[None, Some(1)]).map_or(Vec::new(), spill);
            }
            (true, false, 0 | 1) => {
                let files = Files {
                    id,
                    frames: 1 + random.below(3),
                    ended: random.chance(500),
                    in_flight: random.below(3),
                    emulated: known.emulated,
                    ..Files::of(&name, 0, number)
                };
                if writes && !self.has_files {
                    files.write(data);
                }
                self.has_files = true;
            }
            (true, false, 2 | 3) => {
                let fault = random.chance(300).then(|| "disk full".to_owned());
                let mut end = RunEnd { fault, ..ended(now, random.below(9)) };
                known.remarks.push(remark(now, "stop", pick(random, WORDS)));
                if random.chance(500) {
                    (known.locations, known.targets) = (spill(now), spilled());
                    let ledger = end.totals.ledger.as_mut().expect("it has one");
                    ledger.sources[0][Entry::FragmentsSpilled] = pick(random, &[7, 8]);
                    ledger.sources[0][Entry::FragmentsWithHoles] = random.below(2);
                }
                known.over = Some(Over::Ended(end));
            }
            _ => {}
        }
        match random.chance(650) {
            true => catalog.enter(live, known),
            false => catalog.keep(live, known),
        }
    }
}

fn take_number<C: CatalogPort>(
    catalog: &mut C,
    random: &mut Random,
    known: &mut RunKnown,
) -> Result<C::Live, CatalogError> {
    let said = random.chance(300).then(|| remark(random.below(9), "start", pick(random, WORDS)));
    *known = RunKnown {
        who: pick(random, PEOPLE).to_owned(),
        comment: pick(random, WORDS).to_owned(),
        configuration: pick(random, CONFIGURATIONS).to_owned(),
        emulated: random.chance(200),
        taken: second(random.below(60)),
        remarks: said.into_iter().collect(),
        ..RunKnown::default()
    };
    let wanted = random.chance(300).then(|| random.below(40));
    let request = NumberRequest {
        who: &known.who,
        comment: &known.comment,
        remark: known.remarks.first(),
        configuration: &known.configuration,
        emulated: known.emulated,
        wanted,
        now: known.taken,
    };
    match random.chance(750) {
        true => catalog.take(&request),
        false => catalog.take_without(wanted),
    }
}

/// What a recorder's process does, which may be killed. It says its number after each act.
pub(super) fn record(seed: u64, data: &Path) {
    let mut catalog = Catalog::open(data).unwrap();
    let mut recorder = Recorder::new(seed);
    for _ in 0..ACTS {
        recorder.act(&mut catalog, data, true).unwrap();
        println!("number {}", recorder.live.as_ref().unwrap().number());
    }
}

struct History {
    folder: tempfile::TempDir,
    random: Random,
    open: Vec<Catalog>,
    model: CatalogModel,
    recorders: Vec<(Recorder<Catalog>, Recorder<CatalogModel>)>,
}

impl History {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = CatalogModel::new(folder.path());
        let (random, open, recorders) = (Random::new(seed), Vec::new(), Vec::new());
        let mut history = Self { folder, random, open, model, recorders };
        history.open_both();
        history
    }

    fn open_both(&mut self) {
        self.open = [(); 2].map(|()| Catalog::open(self.folder.path()).unwrap()).into();
    }

    fn step(&mut self) {
        let which = self.random.index(2);
        match self.random.below(20) {
            0..3 if self.recorders.len() < 3 => {
                let seed = self.random.next_u64();
                self.recorders.push((Recorder::new(seed), Recorder::new(seed)));
            }
            0..9 => self.act(which),
            9 => self.end_process(),
            10..13 => self.say(which),
            13 => self.forward(which),
            14 | 15 => self.resume(which),
            16 => {
                same(self.open[which].reopen(), self.model.reopen());
            }
            17 | 18 => self.kill(),
            _ => {
                self.open.clear();
                rebuild(self.folder.path(), |_, _| ()).unwrap();
                self.model.rebuild().unwrap();
                self.open_both();
                self.model.reopen().unwrap();
            }
        }
    }

    fn act(&mut self, which: usize) {
        let index = self.random.index(self.recorders.len());
        let Some((real, twin)) = self.recorders.get_mut(index) else { return };
        let data = self.folder.path();
        let did = real.act(&mut self.open[which], data, true);
        same(did, twin.act(&mut self.model, data, false));
        assert_eq!(real.live.as_ref().map(LiveRun::number), twin.live);
    }

    /// A process ends, whatever it has entered.
    fn end_process(&mut self) {
        if !self.recorders.is_empty() {
            let index = self.random.index(self.recorders.len());
            let (_, twin) = self.recorders.swap_remove(index);
            twin.live.into_iter().for_each(|live| self.model.die(live));
        }
    }

    /// Somebody says something of a run, which may not be there.
    fn say(&mut self, which: usize) {
        let (random, catalog) = (&mut self.random, &mut self.open[which]);
        let model = &mut self.model;
        let (number, now) = (random.below(model.highest + 3), random.below(60));
        let word = pick(random, WORDS);
        match random.below(5) {
            0 => same(catalog.set_comment(number, word), model.set_comment(number, word)),
            1 => {
                let quality = pick(random, &[Quality::Good, Quality::Bad, Quality::Test]);
                same(catalog.set_quality(number, quality), model.set_quality(number, quality))
            }
            2 => {
                let said = remark(now / 20, "remark", word);
                same(catalog.add_remark(number, &said), model.add_remark(number, &said))
            }
            3 => {
                let (text, who) = (pick(random, &CONFIGURATIONS[1..]), pick(random, PEOPLE));
                let version = catalog.put_configuration(text, who, second(now));
                assert_eq!(version.unwrap(), model.put_configuration(text, who, second(now)));
            }
            _ => same(catalog.scan(number), model.scan(number)),
        }
    }

    /// What a run had left in a spill is forwarded, all of it or some.
    fn forward(&mut self, which: usize) {
        let mut runs = self.model.search(&Search::default());
        runs.retain(|run| !self.model.run(run.number).unwrap().targets.is_empty());
        let random = &mut self.random;
        let Some(run) = runs.get(random.index(runs.len())) else { return };
        let said = remark(3, "remark", "forwarded");
        let forwarded = SpillForwarded {
            target: pick(random, &["disk", "store"]),
            locations: &pick(random, &[None, Some(3)]).map_or(Vec::new(), |at| locations(Some(at))),
            fragments: [("veto", random.below(4))].into(),
            is_whole: random.chance(300),
            remark: random.chance(500).then_some(&said),
        };
        let entered = self.open[which].enter_forwarded(run.number, &forwarded);
        same(entered, self.model.enter_forwarded(run.number, &forwarded));
    }

    /// Somebody has a run go on.
    fn resume(&mut self, which: usize) {
        let (number, seed) = (self.random.below(self.model.highest + 2), self.random.next_u64());
        match (self.open[which].resume(number), self.model.resume(number)) {
            (Ok(real), Ok(twin)) => {
                let (run, data) = (self.model.run(number).unwrap().run, self.folder.path());
                let real = Recorder::resumed(seed, real, &run, data);
                self.recorders.push((real, Recorder::resumed(seed, twin, &run, data)));
            }
            (real, model) => same(real.map(|live| live.number()), model),
        }
    }

    /// Another process does something, and is killed at some step unless it ends before. What it
    /// did last is done or not, and nothing else.
    fn kill(&mut self) {
        let (seed, bits) = (self.random.next_u64() >> 32, self.random.below(12));
        let step = self.random.below(1 << bits) as i64;
        let data = self.folder.path().to_owned();
        let mut possible = Vec::new();
        if self.random.chance(150) {
            self.open.clear();
            let (_, is_killed) = ended_child(spawn("rebuild", step, &data));
            let mut rebuilt = self.model.clone();
            rebuilt.rebuild().unwrap();
            possible.extend(is_killed.then(|| self.model.clone()));
            possible.push(rebuilt);
        } else {
            let (said, is_killed) = ended_child(spawn(&format!("record-{seed}"), step, &data));
            let after = |acts: usize| {
                let (mut model, mut recorder) = (self.model.clone(), Recorder::new(seed));
                model.reopen().unwrap();
                (0..acts).for_each(|_| recorder.act(&mut model, &data, false).unwrap());
                recorder.live.into_iter().for_each(|live| match is_killed {
                    true => model.kill(live),
                    false => model.die(live),
                });
                model
            };
            possible.push(after(said.len()));
            if is_killed {
                let next = after(said.len() + 1);
                // A number may be given, and nobody has been told it.
                let mut given = possible[0].clone();
                given.highest = next.highest;
                possible.extend([given, next]);
            }
        }
        self.open_both();
        possible.iter_mut().for_each(|model| model.reopen().unwrap());
        let differ: Vec<_> =
            possible.iter().map(|model| compare(&self.open[0], model, &data)).collect();
        let Some(fits) = differ.iter().position(Result::is_ok) else {
            panic!("seed {seed}, killed at {step}: {differ:#?}")
        };
        self.model = possible.swap_remove(fits);
    }

    fn search(&mut self) -> Search {
        let (random, highest) = (&mut self.random, self.model.highest);
        let states =
            [RunState::Starting, RunState::Recording, RunState::Complete, RunState::Interrupted];
        let number = |random: &mut Random| random.chance(200).then(|| random.below(highest + 2));
        let time = |random: &mut Random| random.chance(200).then(|| second(random.below(60)));
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

    fn check(&mut self) {
        let which = self.random.index(2);
        let told = compare(&self.open[which], &self.model, self.folder.path());
        told.unwrap_or_else(|why| panic!("{why}"));
        for _ in 0..3 {
            let search = self.search();
            let found = self.model.search(&search);
            assert_eq!(self.open[which].search(&search).unwrap(), found, "{search:?}");
            let limit = search.limit.unwrap_or(2);
            let (page, next) =
                self.open[which].page(&Search { limit: Some(limit), ..search.clone() }).unwrap();
            let all = self.model.search(&Search { limit: None, ..search });
            assert_eq!(page, all[..limit.min(all.len())]);
            assert_eq!(next.is_some(), all.len() > limit);
        }
    }
}

/// Whether all that a catalogue tells is what the model does.
fn compare(catalog: &Catalog, model: &CatalogModel, data: &Path) -> Result<(), String> {
    let rows = model.search(&Search::default());
    equal("the runs", catalog.search(&Search::default()), rows.clone())?;
    for number in rows.iter().map(|run| run.number) {
        let detail = model.run(number).unwrap();
        equal("a run", catalog.run(number), detail.clone())?;
        equal("its frames", catalog.frames(number), model.frames(number))?;
        let id = detail.run.id.unwrap_or(RunId([0; 16]));
        let in_spill = model.in_spill(id, SPILL, "run-b");
        equal("a run in a spill", catalog.in_spill(id, SPILL, "run-b"), in_spill)?;
    }
    let versions = catalog.configurations().unwrap().into_iter().rev();
    let texts = versions.map(|about| catalog.configuration(about.version));
    let configurations = model.configurations().to_vec();
    equal("the configurations", texts.collect(), configurations)?;
    equal("the highest number", Ok(numbers::read(&Paths::new(data))), model.highest)
}

fn equal<T: PartialEq + Debug>(
    what: &str,
    got: Result<T, CatalogError>,
    expected: T,
) -> Result<(), String> {
    match got {
        Ok(got) if got == expected => Ok(()),
        got => Err(format!("{what}: {got:#?}, not {expected:#?}")),
    }
}

/// Both give the same answer, or refuse with the same words.
fn same<T: PartialEq + Debug>(real: Result<T, CatalogError>, model: Result<T, CatalogError>) {
    let words = |error: CatalogError| error.to_string();
    assert_eq!(real.map_err(words), model.map_err(words));
}

fn pick<T: Copy>(random: &mut Random, among: &[T]) -> T {
    among[random.index(among.len())]
}

/// A spill in which frames wait, beside the folder and the node.
fn spill(frames: u64) -> Vec<RunLocation> {
    let mut all = locations(Some(frames));
    let (kind, address) = (LocationKind::Spill, SPILL.to_owned());
    all.push(RunLocation { kind, address, ..all[1].clone() });
    all
}

/// Eight fragments of the store's two sources were spilled.
fn spilled() -> Vec<TargetSource> {
    let entries = [("fragments_spilled".to_owned(), 4)];
    let of_store = |one: &TargetSource| one.target == "store";
    let mut all = targets();
    all.iter_mut().filter(|one| of_store(one)).for_each(|one| one.entries.extend(entries.clone()));
    all
}

const SPILL: &str = "/spill";
const PEOPLE: &[&str] = &["anna", "Björn"];
const WORDS: &[&str] = &["Cosmics, HV on", "laser", "GRÜSSE aus Ulm", "50 %"];
const CONFIGURATIONS: &[&str] = &["", "[run]\n", "[run]\nname = \"b\"\n"];
/// What a recorder that may be killed does, at most.
const ACTS: usize = 6;
const STEPS: usize = 60;

fn hold(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut history = History::new(seed);
        for step in 1..STEPS {
            // Shown if a check fails.
            println!("seed {seed}, step {step}");
            history.step();
            history.check();
        }
        let data = history.folder.path();
        let read_only = Catalog::open_read_only(data).unwrap();
        compare(&read_only, &history.model, data).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn every_history_is_told_as_the_model_tells_it() {
    hold(0..12);
}

#[test]
#[ignore = "minutes: the same with more histories"]
fn many_histories_are_told_as_the_model_tells_them() {
    hold(1_000..2_000);
}
