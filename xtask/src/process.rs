//! Steps: child processes that must succeed, with the time that each took.

use std::fs::{DirEntry, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Runs steps, of several threads if need be. One that fails does not keep the others from running,
/// unless they need what it makes: one run tells all.
pub struct Steps {
    start: Instant,
    done: Mutex<Vec<(String, Outcome)>>,
    /// Where steps that run beside each other print: each is shown in one piece, at its end.
    prints: Option<PathBuf>,
}

/// A step that was done, for those that need it.
#[derive(Clone, Copy, Debug)]
pub struct Step(Option<usize>);

/// How long a step among others may take: several times what the longest takes on a small machine.
/// Without an end, one test that stands still would have none of the others told.
const STEP: Duration = Duration::from_secs(40 * 60);

enum Outcome {
    Passed(Duration),
    Failed(Duration, String),
    /// It needs another that did not pass.
    NotRun(String),
}

impl Step {
    /// One for which there was nothing to do.
    pub const NONE: Self = Self(None);
}

impl Steps {
    /// For steps that run one after the other.
    pub fn in_turn() -> Self {
        Self { start: Instant::now(), done: Mutex::default(), prints: None }
    }

    /// For steps of which some run beside each other; what they print is kept in `folder`.
    pub fn beside(folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { prints: Some(folder), ..Self::in_turn() })
    }

    /// Runs `command`; it fails unless it exits with 0.
    pub fn run(&self, name: &str, needs: &[Step], command: &mut Command) -> Step {
        self.time(name, needs, || match &self.prints {
            Some(folder) => in_one_piece(name, command, folder),
            None => succeed(command),
        })
    }

    /// Does `work` as a step, if all that it needs have passed.
    pub fn time(&self, name: &str, needs: &[Step], work: impl FnOnce() -> Result<()>) -> Step {
        let outcome = match self.missing(needs) {
            Some(needed) => {
                println!("== {name}: not run, it needs `{needed}`");
                Outcome::NotRun(needed)
            }
            None => {
                println!("== {name}");
                let start = Instant::now();
                match work() {
                    Ok(()) => Outcome::Passed(start.elapsed()),
                    Err(error) => {
                        println!("== {name}: FAILED: {error:#}");
                        Outcome::Failed(start.elapsed(), format!("{error:#}"))
                    }
                }
            }
        };
        let mut done = self.done();
        done.push((name.to_owned(), outcome));
        Step(Some(done.len() - 1))
    }

    /// What of `needs` has not passed, if anything.
    fn missing(&self, needs: &[Step]) -> Option<String> {
        let done = self.done();
        let mut needed = needs.iter().filter_map(|&Step(index)| done.get(index?));
        let missing = needed.find(|(_, outcome)| !matches!(outcome, Outcome::Passed(_)));
        missing.map(|(name, _)| name.clone())
    }

    fn done(&self) -> MutexGuard<'_, Vec<(String, Outcome)>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints what came of every step and how long it took.
    ///
    /// # Errors
    /// Any step failed or was not run.
    pub fn finish(self, command: &str) -> Result<()> {
        println!("== {command}");
        self.lines().iter().for_each(|line| println!("{line}"));
        let done = self.done();
        let count = |counts: fn(&Outcome) -> bool| {
            done.iter().filter(|(_, outcome)| counts(outcome)).count()
        };
        let failed = count(|outcome| matches!(outcome, Outcome::Failed(..)));
        let not_run = count(|outcome| matches!(outcome, Outcome::NotRun(_)));
        if failed + not_run == 0 {
            return Ok(());
        }
        bail!("{command}: of {} steps {failed} failed and {not_run} were not run", done.len())
    }

    fn lines(&self) -> Vec<String> {
        let line = |(name, outcome): &(String, Outcome)| {
            let (word, time, why) = match outcome {
                Outcome::Passed(time) => ("passed", Some(time), String::new()),
                Outcome::Failed(time, error) => ("FAILED", Some(time), format!(": {error}")),
                Outcome::NotRun(needed) => ("not run", None, format!(": it needs `{needed}`")),
            };
            format!("{word:<8} {:>11}  {name}{why}", time.map(minutes).unwrap_or_default())
        };
        let mut lines: Vec<String> = self.done().iter().map(line).collect();
        lines.push(format!("{:<8} {:>11}  in all", "", minutes(&self.start.elapsed())));
        lines
    }
}

/// `3 min 07 s`.
pub fn minutes(time: &Duration) -> String {
    format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
}

/// Runs `command` with its output in a file of `folder`, and shows that at its end.
fn in_one_piece(name: &str, command: &mut Command, folder: &Path) -> Result<()> {
    let name_of_file = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let path = folder.join(name_of_file).with_extension("txt");
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    let result = succeed_in(STEP, command.stdout(file.try_clone()?).stderr(file));
    let mut out = std::io::stdout().lock();
    writeln!(out, "== {name}: its output")?;
    out.write_all(&std::fs::read(&path)?)?;
    result
}

/// Runs `command` and fails unless it exits with 0 within that time. At its end the command and all
/// that it has started are killed: what they printed says where they stand.
fn succeed_in(time: Duration, command: &mut Command) -> Result<()> {
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begin.elapsed() < time => std::thread::sleep(Duration::from_millis(20)),
            None => {
                kill(&mut child)?;
                bail!("it stands still, or takes longer than {}: {command:?}", minutes(&time));
            }
        }
    };
    ensure!(status.success(), "{status}: {command:?}");
    Ok(())
}

/// Kills a child and all that it has started.
fn kill(child: &mut Child) -> Result<()> {
    let all = family(child.id()).into_iter().map(|process| process.to_string());
    // Some of them may have ended meanwhile, which fails.
    Command::new("kill").arg("-KILL").args(all).status()?;
    child.wait()?;
    Ok(())
}

/// That process and those that descend from it.
fn family(process: u32) -> Vec<u32> {
    // It may have ended meanwhile. Each of its threads has the children that it started.
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let of_thread = |thread: DirEntry| std::fs::read_to_string(thread.path().join("children")).ok();
    let children: Vec<String> = threads.flatten().filter_map(of_thread).collect();
    let children = children.iter().flat_map(|children| children.split_whitespace());
    let children = children.filter_map(|child| child.parse().ok());
    std::iter::once(process).chain(children.flat_map(family)).collect()
}

/// Runs `command` and fails unless it exits with 0.
pub fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{status}: {command:?}");
    Ok(())
}

/// What `command` prints to standard output; fails unless it exits with 0.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{}: {command:?}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} prints no UTF-8"))
}

#[cfg(test)]
mod tests;
