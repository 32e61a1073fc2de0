//! `catchment soak`: a node and an emulator as processes of their own, for as long as the emulator
//! sends. Files are verified and deleted as they are closed, so that the disk does not fill up.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_console::{Exit, Out, Stop, complain};
use catchment_model::{Entry, SourceId};
use catchment_recorder::{Place, RecorderConfig};
use catchment_storage::{Run, verify};
use serde::Serialize;
use serde_json::Value;

use crate::control_node::own_seconds;
use crate::process::Process;
use crate::report::{Report, Section, bytes, percent, table};

/// Records what an emulator sends, verifies the files and deletes them as they are closed.
#[derive(Debug, clap::Args)]
pub struct SoakArguments {
    /// The configuration file of the node. Runs that its folders had before are left alone
    config: PathBuf,
    /// Verify one file in COUNT
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    verify_every: u64,
    /// For how long the emulator sends, unless its own options say
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=525_600))]
    minutes: Option<u64>,
    /// Where soak-CONFIG.json, soak-CONFIG.md and the logs of both processes go
    #[arg(long, value_name = "FOLDER", default_value = "bench/results")]
    out: PathBuf,
    /// What `catchment emulate` is to do, behind `--`; its first word is CONFIG unless it is given
    #[arg(last = true, value_name = "OPTIONS OF EMULATE")]
    emulate: Vec<OsString>,
}

impl SoakArguments {
    /// What its files are called: by the configuration, of which there are several.
    fn name(&self) -> String {
        let config = self.config.file_stem().unwrap_or_default();
        format!("soak-{}", config.to_string_lossy())
    }
}

/// What both processes used, once a minute.
#[derive(Clone, Copy, Debug, Serialize)]
struct Look {
    seconds: f64,
    memory_bytes: u64,
    descriptors: u64,
    node_cpu_percent: f64,
    emulator_cpu_percent: f64,
    files: u64,
    file_bytes: u64,
}

/// The first event of the run.
#[derive(Clone, Debug, Serialize)]
struct First {
    key: u64,
    sources: usize,
    present: usize,
    holes: usize,
}

#[derive(Debug, Serialize)]
struct Figures {
    seconds: f64,
    emulator: Value,
    /// Entries that are not 0, summed over the sources.
    ledger: BTreeMap<&'static str, u64>,
    balanced: bool,
    lost_data: bool,
    first: Option<First>,
    files: u64,
    file_bytes: u64,
    verified: u64,
    problems: Vec<String>,
    looks: Vec<Look>,
}

/// The run's files, as far as they are closed.
struct Files {
    folders: Vec<PathBuf>,
    /// Folders that were there before.
    earlier: BTreeSet<PathBuf>,
    verify_every: u64,
    count: u64,
    bytes: u64,
    verified: u64,
    problems: Vec<String>,
    /// Files with problems.
    kept: BTreeSet<PathBuf>,
    first: Option<First>,
}

/// Runs both processes until the emulator has ended, and writes what became of it.
///
/// # Errors
/// A process that does not start or end in order, or files that cannot be read or deleted.
pub fn run(arguments: &SoakArguments, out: &mut Out) -> anyhow::Result<Exit> {
    let high = catchment_config::load(&arguments.config)?;
    let mut files = Files::new(folders(&high.recorder), arguments.verify_every)?;
    let stop = Stop::listen()?;
    fs::create_dir_all(&arguments.out)?;
    let (mut node, mut emulator) = start(arguments, &files)?;
    let (begin, mut looks) = (Instant::now(), Vec::new());
    let mut next = Duration::ZERO;
    while !emulator.has_ended()? {
        if stop.asked() {
            emulator.interrupt();
        }
        anyhow::ensure!(!node.has_ended()?, "the node has ended: {}", node.logged());
        if begin.elapsed() >= next {
            next += LOOK_EVERY;
            looks.push(look(begin, (&node, &emulator), &files)?);
        }
        if !files.take(false)? {
            std::thread::sleep(REST);
        }
    }
    let sent = emulator.wait()?;
    let sent: Value = serde_json::from_str(&sent).context("what the emulator says at its end")?;
    let mut last = look(begin, (&node, &node), &files)?;
    // The emulator has ended.
    last.emulator_cpu_percent = 0.0;
    looks.push(last);
    node.interrupt();
    node.wait()?;
    let seconds = begin.elapsed().as_secs_f64();
    let run = Run::open(files.last_run()?.context("the node left no run")?)?;
    let ledger = run.recorded_ledger()?.context("the node left no ledger")?;
    let (balance, total) = (ledger.balance(), ledger.total());
    let entries = Entry::ALL.iter().map(|&entry| (entry.name(), total[entry]));
    let entries = entries.filter(|(_, count)| *count > 0);
    drop(run);
    while files.take(true)? {}
    files.remove()?;
    let Files { first, count, bytes, verified, problems, .. } = files;
    let figures = Figures {
        seconds,
        emulator: sent,
        ledger: entries.collect(),
        balanced: balance.holds(),
        lost_data: balance.lost_data(),
        first,
        files: count,
        file_bytes: bytes,
        verified,
        problems,
        looks,
    };
    if !figures.balanced {
        complain(format_args!("the ledger does not balance: {balance:?}"));
    }
    figures.problems.iter().for_each(complain);
    let is_whole = figures.balanced && figures.problems.is_empty();
    report(arguments.name(), &figures)?.finish(&arguments.out, out)?;
    Ok(match (is_whole, figures.lost_data) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Loss,
        (true, false) => Exit::Done,
    })
}

/// Starts the node, and the emulator once that records.
fn start(arguments: &SoakArguments, files: &Files) -> anyhow::Result<(Process, Process)> {
    let here = Path::new(".");
    let log = |of: &str| arguments.out.join(format!("{}-{of}.log", arguments.name()));
    // With text it would say a line each second, which nobody reads here.
    let mut words: Vec<OsString> =
        vec!["run".into(), "--no-resume".into(), "--json".into(), arguments.config.clone().into()];
    let mut node = Process::start(&words, here, log("node"))?;
    files.wait_for_run(&mut node)?;
    words = vec!["emulate".into(), "--json".into()];
    if arguments.emulate.first().is_none_or(|first| first.to_string_lossy().starts_with('-')) {
        words.push(arguments.config.clone().into());
    }
    words.extend(arguments.emulate.iter().cloned());
    if let Some(minutes) = arguments.minutes {
        words.extend(["--seconds".into(), (minutes * 60).to_string().into()]);
    }
    let emulator = Process::start(&words, here, log("emulator"))?;
    Ok((node, emulator))
}

/// Where a node's runs are.
fn folders(recorder: &RecorderConfig) -> Vec<PathBuf> {
    let folders = recorder.targets.iter().flat_map(|target| match &target.place {
        Place::Folders(folders) => folders.clone(),
        Place::Node(_) | Place::None => Vec::new(),
    });
    let folders: Vec<PathBuf> = folders.collect();
    if folders.is_empty() { vec![recorder.folder.clone()] } else { folders }
}

fn look(
    begin: Instant,
    (node, emulator): (&Process, &Process),
    files: &Files,
) -> anyhow::Result<Look> {
    let seconds = begin.elapsed().as_secs_f64();
    let cpu = |process: &Process| {
        Ok::<_, anyhow::Error>(own_seconds(process.id())? * 100.0 / seconds.max(1.0))
    };
    let status = fs::read_to_string(format!("/proc/{}/status", node.id()))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(Look {
        seconds,
        memory_bytes: resident.context("/proc/PID/status has no VmRSS")? * 1_024,
        descriptors: fs::read_dir(format!("/proc/{}/fd", node.id()))?.count() as u64,
        node_cpu_percent: cpu(node)?,
        // An emulator that has just ended used nothing.
        emulator_cpu_percent: cpu(emulator).unwrap_or_default(),
        files: files.count,
        file_bytes: files.bytes,
    })
}

impl Files {
    fn new(folders: Vec<PathBuf>, verify_every: u64) -> anyhow::Result<Self> {
        let mut files = Self {
            folders,
            earlier: BTreeSet::new(),
            verify_every,
            count: 0,
            bytes: 0,
            verified: 0,
            problems: Vec::new(),
            kept: BTreeSet::new(),
            first: None,
        };
        files.earlier = files.runs()?.into_iter().collect();
        Ok(files)
    }

    /// The folders of runs that were not there before, in order.
    fn runs(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut runs = Vec::new();
        for folder in self.folders.iter().filter(|folder| folder.exists()) {
            let found = sorted(folder)?.into_iter().filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("run-") && path.is_dir() && !self.earlier.contains(path)
            });
            runs.extend(found);
        }
        Ok(runs)
    }

    fn last_run(&self) -> anyhow::Result<Option<PathBuf>> {
        Ok(self.runs()?.pop())
    }

    /// Waits until the node has begun a run.
    fn wait_for_run(&self, node: &mut Process) -> anyhow::Result<()> {
        while self.runs()?.is_empty() {
            anyhow::ensure!(!node.has_ended()?, "the node does not start: {}", node.logged());
            std::thread::sleep(REST);
        }
        Ok(())
    }

    /// Verifies and deletes the next file that is closed; the last one of a run only when all have
    /// ended. Files with problems stay. Whether there was one.
    fn take(&mut self, all: bool) -> anyhow::Result<bool> {
        for run in self.runs()? {
            let is_new = |path: &PathBuf| {
                path.extension().is_some_and(|end| end == "catch") && !self.kept.contains(path)
            };
            let mut files: Vec<PathBuf> = sorted(&run)?.into_iter().filter(is_new).collect();
            if !all {
                files.pop();
            }
            for path in files {
                let problems = self.problems.len();
                match Run::open(&path) {
                    Ok(file) if file.files().all(|file| file.closed && !file.locked) => {
                        self.check(&path, &file)?;
                    }
                    // One that is being made cannot be read yet.
                    _ if !all => continue,
                    Ok(_) => self.problems.push(format!("{}: was not closed", path.display())),
                    Err(error) => self.problems.push(error.to_string()),
                }
                if self.problems.len() > problems {
                    self.kept.insert(path);
                } else {
                    fs::remove_file(&path)
                        .with_context(|| format!("cannot delete {}", path.display()))?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check(&mut self, path: &Path, file: &Run) -> anyhow::Result<()> {
        if self.first.is_none() && !file.frames().is_empty() {
            self.first = Some(First::of(file)?);
        }
        self.bytes += fs::metadata(path)?.len();
        if self.count.is_multiple_of(self.verify_every) {
            let report = verify(file, |_| {});
            self.verified += 1;
            let problems = report.problems.iter();
            self.problems.extend(
                problems.map(|problem| format!("{}: {}", problem.file.display(), problem.problem)),
            );
        }
        self.count += 1;
        Ok(())
    }

    /// Deletes the folders of the runs whose files are gone.
    fn remove(&self) -> anyhow::Result<()> {
        let is_kept = |run: &PathBuf| self.kept.iter().any(|path| path.starts_with(run));
        for run in self.runs()?.into_iter().filter(|run| !is_kept(run)) {
            fs::remove_dir_all(&run).with_context(|| format!("cannot delete {}", run.display()))?;
        }
        Ok(())
    }
}

impl First {
    fn of(file: &Run) -> anyhow::Result<Self> {
        let key = file.events(0)?.keys().first().copied().context("a frame without events")?;
        let (mut present, mut holes) = (0, 0);
        for source in 0..file.sources().len() {
            let source = SourceId(source as u32);
            present += usize::from(file.validity(0, source)?.is_set(0));
            holes += file.fragment_holes(0, source)?.iter().filter(|hole| hole.row == 0).count();
        }
        Ok(Self { key, sources: file.sources().len(), present, holes })
    }
}

fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<PathBuf> = entries.collect::<std::io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

fn report(name: String, figures: &Figures) -> anyhow::Result<Report> {
    let ledger = table(
        &figures.ledger,
        &[("ledger", &|(name, _)| (*name).to_string()), ("count", &|(_, count)| count.to_string())],
    );
    let looks = table(
        &figures.looks,
        &[
            ("minutes", &|look| format!("{:.1}", look.seconds / 60.0)),
            ("memory", &|look| bytes(look.memory_bytes as f64)),
            ("descriptors", &|look| look.descriptors.to_string()),
            ("node", &|look| percent(look.node_cpu_percent)),
            ("emulator", &|look| percent(look.emulator_cpu_percent)),
            ("files", &|look| look.files.to_string()),
            ("bytes", &|look| bytes(look.file_bytes as f64)),
        ],
    );
    let first = figures.first.as_ref().map(|first| {
        format!(
            "The first event, {}: {} of {} sources, {} holes.",
            first.key, first.present, first.sources, first.holes
        )
    });
    let text = format!(
        "{:.0} s; {} files of {} in all, {} of them verified: {} problems. The ledger {}.",
        figures.seconds,
        figures.files,
        bytes(figures.file_bytes as f64),
        figures.verified,
        figures.problems.len(),
        if figures.balanced { "balances" } else { "does not balance" },
    );
    let mut section = Section::new("What was recorded", ledger).note(text);
    if let Some(first) = first {
        section = section.note(first);
    }
    section = section.note(format!("The emulator says: `{}`.", figures.emulator));
    let looks = Section::new("What the node used", looks)
        .note("CPU: percent of one core since the start; the emulator is a separate process.");
    let figures = serde_json::to_value(figures)?;
    let sections = vec![section, looks];
    Ok(Report { name, command: "soak".into(), quick: false, sections, figures })
}

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long nothing is done where no file has been closed.
const REST: Duration = Duration::from_millis(200);
