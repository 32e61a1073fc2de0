//! `test-long`: what takes longer than the gate allows, step by step, and the page of its results,
//! bench/results/test-long.md. A step that runs replaces its section of the page, and no other.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::commands::build;
use crate::process::{Step, Steps, minutes, output};
use crate::repository::Repository;

/// One of the steps.
struct Long {
    /// On the command line, and as the title of its section.
    name: &'static str,
    what: &'static str,
    work: Work,
}

/// What a step runs.
enum Work {
    /// Tests of the program that the gate leaves out, by a part of their names.
    Tests(&'static str),
    /// What is recorded for as long as a run: `soak` with a configuration and options.
    Soak(&'static str, &'static str),
    /// Another command of this program.
    Itself(&'static str),
}

/// All steps, in their order. Seeds are those that no run had before.
const STEPS: [Long; 12] = [
    Long { name: "network", what: "A network that goes down.", work: Work::Tests("network::") },
    Long {
        name: "held-up",
        what: "A receive thread that is held up.",
        work: Work::Tests("held_up::"),
    },
    Long {
        name: "killed",
        what: "Recorders and storage nodes that are killed.",
        work: Work::Tests("store::killed::"),
    },
    Long {
        name: "shared",
        what: "Sixteen builders and five storage nodes, two builders and one.",
        work: Work::Tests("store::shared::"),
    },
    Long {
        name: "trains",
        what: "European XFEL's typical run of trains.",
        work: Work::Soak(
            "bench/trains.toml",
            "--verify-every 4 -- xfel-trains --to 127.0.0.1:20310 --rate 1.14 --events 2668",
        ),
    },
    Long {
        name: "front-end",
        what: "Half an hour of a front-end at its highest rate.",
        work: Work::Soak(
            "bench/links.toml",
            "--verify-every 10 --minutes 30 -- \
             midas-dummy --to 127.0.0.1:20330 --rate max --bytes 100000",
        ),
    },
    Long {
        name: "mutants",
        what: "Planted defects, each of which must be found.",
        work: Work::Itself("sim-mutants"),
    },
    Long {
        name: "seeds",
        what: "Seeds of the simulator.",
        work: Work::Itself("sim --seeds 20000"),
    },
    Long {
        name: "seeds-two-targets",
        what: "Seeds with two targets in each run.",
        work: Work::Itself("sim --two-targets --seeds 3000"),
    },
    Long {
        name: "seeds-by-time",
        what: "Seeds with events by time.",
        work: Work::Itself("sim --time --seeds 3000"),
    },
    Long {
        name: "seeds-of-stores",
        what: "Seeds of recorders and storage nodes.",
        work: Work::Itself("sim --stores --seeds 3000"),
    },
    Long {
        name: "fuzz",
        what: "Each fuzz target for ten minutes.",
        work: Work::Itself("fuzz --seconds 600"),
    },
];

/// Runs the steps of these names, or all. What fails keeps no other step from running.
pub fn run(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        let known = STEPS.map(|step| step.name).join(", ");
        bail!("test-long has no step `{unknown}`, but {known}");
    }
    let is_meant = |step: &&Long| names.is_empty() || names.iter().any(|name| name == step.name);
    let chosen: Vec<&Long> = STEPS.iter().filter(is_meant).collect();
    let repository = Repository::open()?;
    let (steps, folder) = (Steps::in_turn(), repository.target.join("steps"));
    std::fs::create_dir_all(&folder)?;
    let mut built = Step::NONE;
    if chosen.iter().any(|step| matches!(step.work, Work::Soak(..))) {
        let mut build = build(&repository, "catchment");
        built = steps.run("rust: build the program", &[], &mut build);
    }
    for step in chosen {
        let needs = if matches!(step.work, Work::Soak(..)) { built } else { Step::NONE };
        steps.time(step.name, &[needs], || {
            let (words, mut command) = step.command(&repository)?;
            let (source, start) = (source(&repository)?, Instant::now());
            let (text, result) = run_shown(&mut command)?;
            std::fs::write(folder.join(format!("test-long-{}.txt", step.name)), &text)?;
            let text = text.replace(&*repository.root.to_string_lossy(), ".");
            let section = Section {
                name: step.name.to_owned(),
                text: step.section(&words, &outcome(&result, start.elapsed(), &source), &text),
            };
            write_page(&repository.root.join(PAGE), section)?;
            result
        });
    }
    steps.finish("test-long")
}

impl Long {
    /// The command, as one would type it and to be run.
    fn command(&self, repository: &Repository) -> Result<(String, Command)> {
        let with = |mut command: Command, words: &str| {
            command.args(words.split(' ')).current_dir(&repository.root);
            command
        };
        Ok(match self.work {
            Work::Tests(part) => {
                let words = format!(
                    "test --locked -p catchment-cli --test all {part} -- --ignored --nocapture \
                     --test-threads=1"
                );
                (format!("cargo {words}"), with(repository.cargo(), &words))
            }
            Work::Soak(config, options) => {
                let words = format!("soak {config} {options}");
                (format!("catchment {words}"), with(Command::new(repository.program()), &words))
            }
            Work::Itself(words) => {
                let program = repository.command(std::env::current_exe()?);
                (format!("cargo xtask {words}"), with(program, words))
            }
        })
    }

    /// Whether what carries the figures begins with this line.
    fn begins(&self, line: &str) -> bool {
        match self.work {
            Work::Tests(_) => line.starts_with("running "),
            Work::Soak(..) => line == "What was recorded",
            Work::Itself("sim-mutants") => line.starts_with("| planted defect"),
            Work::Itself(words) if words.starts_with("fuzz") => line == "== fuzz",
            Work::Itself(_) => line.contains(" seeds in "),
        }
    }

    fn section(&self, words: &str, outcome: &str, text: &str) -> String {
        let most = match self.work {
            // The table of all of them.
            Work::Itself("sim-mutants") => usize::MAX,
            _ => LINES_MAX,
        };
        let mut section = format!("{}\n\n`{words}`: {outcome}\n\n", self.what);
        for line in figures(text, |line| self.begins(line), most) {
            section += format!("    {line}").trim_end();
            section.push('\n');
        }
        section
    }
}

fn outcome(result: &Result<()>, time: Duration, source: &str) -> String {
    let word = if result.is_ok() { "passed" } else { "FAILED" };
    format!("{word} after {}; {source}.", minutes(&time))
}

/// The lines of an output that carry figures: from the last one that begins them on, or its last
/// ones. Of many the first and the last, which says how it ended.
fn figures(text: &str, begins: impl Fn(&str) -> bool, most: usize) -> Vec<String> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let from = lines.iter().rposition(|line| begins(line));
    let from = from.unwrap_or(lines.len().saturating_sub(most));
    let lines = &lines[from..];
    let owned = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    if lines.len() <= most {
        return owned(lines);
    }
    let (first, last) = (&lines[..most - LAST_LINES], &lines[lines.len() - LAST_LINES..]);
    let left_out = format!("... {} lines", lines.len() - most);
    [owned(first), vec![left_out], owned(last)].concat()
}

/// What is tested, and when: the commit and the time.
fn source(repository: &Repository) -> Result<String> {
    let git = |arguments: &[&str]| {
        output(Command::new("git").arg("-C").arg(&repository.root).args(arguments))
    };
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    // Results are what the steps change.
    let not_results = [".", ":!bench/results"];
    let changed = git(&[&["status", "--porcelain", "--"][..], &not_results].concat())?;
    let changed = if changed.trim().is_empty() { "" } else { " with changes" };
    let time = output(Command::new("date").args(["-u", "+%F %H:%M UTC"]))?;
    Ok(format!("commit {}{changed}, {}", commit.trim(), time.trim()))
}

/// The machine, in the words of the benches.
fn machine() -> Result<String> {
    let read = |path: &str| std::fs::read_to_string(path).context(path.to_owned());
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?.trim_start();
        Some(line.trim_start_matches(':').trim().to_owned())
    };
    let cpu = value(&read("/proc/cpuinfo")?, "model name");
    let memory = value(&read("/proc/meminfo")?, "MemTotal");
    let memory = memory.and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok());
    let memory = memory.context("/proc/meminfo says no MemTotal")? / f64::from(1 << 20);
    let cpus = std::thread::available_parallelism()?;
    let cpu = cpu.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let system = read("/proc/sys/kernel/osrelease")?;
    Ok(format!("{cpus} CPUs ({cpu}), {memory:.0} GiB, linux {}", system.trim()))
}

/// Runs a command and shows what it prints meanwhile: that, and whether it passed.
fn run_shown(command: &mut Command) -> Result<(String, Result<()>)> {
    let (mut reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    // The command has ends of the pipe, too: without them it ends with the child.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut text, mut block) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let count = reader.read(&mut block)?;
        if count == 0 {
            break;
        }
        text.extend_from_slice(&block[..count]);
        let mut out = std::io::stdout().lock();
        out.write_all(&block[..count])?;
        out.flush()?;
    }
    let status = child.wait()?;
    let passed = || {
        ensure!(status.success(), "{status}: {command:?}");
        Ok(())
    };
    Ok((String::from_utf8_lossy(&text).into_owned(), passed()))
}

/// A step's part of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Section {
    name: String,
    text: String,
}

fn write_page(path: &Path, section: Section) -> Result<()> {
    let former = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        former => former.with_context(|| path.display().to_string())?,
    };
    std::fs::write(path, page(&former, &machine()?, section))
        .with_context(|| path.display().to_string())
}

/// The page with a section in its place. Where another machine made the page, the section says its
/// own.
fn page(former: &str, machine: &str, mut section: Section) -> String {
    let (head, sections) = former.split_once("\n## ").unwrap_or((former, ""));
    let made_on = head.lines().find_map(|line| line.strip_prefix("Machine: "));
    let machine = format!("{machine}.");
    let made_on = made_on.unwrap_or(&machine);
    if made_on != machine {
        section.text = format!("Machine: {machine}\n\n{}", section.text);
    }
    let mut all: Vec<Section> = sections
        .split("\n## ")
        .filter_map(|text| text.split_once("\n\n"))
        .map(|(name, text)| Section { name: name.to_owned(), text: text.to_owned() })
        .filter(|other| other.name != section.name)
        .collect();
    all.push(section);
    // What is no step any more goes.
    let index = |name: &str| STEPS.iter().position(|step| step.name == name);
    all.retain(|section| index(&section.name).is_some());
    all.sort_by_key(|section| index(&section.name));
    let mut page = format!("# make test-long\n\nMachine: {made_on}\n\n{EXPLAINED}");
    for Section { name, text } in all {
        page += &format!("\n## {name}\n\n{}\n", text.trim_end());
    }
    page
}

const PAGE: &str = "bench/results/test-long.md";
const EXPLAINED: &str = "One step alone: `make test-long ARGS=NAME`. Each says the commit and the \
                         time at which it began.\n";
/// Lines of an output on the page, and how many of them are its last ones.
const LINES_MAX: usize = 40;
const LAST_LINES: usize = 10;

#[cfg(test)]
mod tests;
