//! Steps: child processes that must succeed, with the time that each took.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Runs steps one after the other. One that fails does not keep the others from running, unless
/// they need what it makes: one run tells all.
#[derive(Default)]
pub struct Steps {
    done: Vec<(String, Outcome)>,
}

/// A step that was done, for those that need it.
#[derive(Clone, Copy, Debug)]
pub struct Step(Option<usize>);

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
    /// Runs `command` with this process's output; it fails unless it exits with 0.
    pub fn run(&mut self, name: &str, needs: &[Step], command: &mut Command) -> Step {
        self.time(name, needs, || succeed(command))
    }

    /// Does `work` as a step, if all that it needs have passed.
    pub fn time(&mut self, name: &str, needs: &[Step], work: impl FnOnce() -> Result<()>) -> Step {
        let missing = needs.iter().filter_map(|&Step(index)| self.done.get(index?));
        let mut missing = missing.filter(|(_, outcome)| !matches!(outcome, Outcome::Passed(_)));
        let outcome = match missing.next() {
            Some((needed, _)) => {
                println!("== {name}: not run, it needs `{needed}`");
                Outcome::NotRun(needed.clone())
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
        self.done.push((name.to_owned(), outcome));
        Step(Some(self.done.len() - 1))
    }

    /// Prints what came of every step and how long it took.
    ///
    /// # Errors
    /// Any step failed or was not run.
    pub fn finish(self, command: &str) -> Result<()> {
        println!("== {command}");
        self.lines().iter().for_each(|line| println!("{line}"));
        let count = |counts: fn(&Outcome) -> bool| {
            self.done.iter().filter(|(_, outcome)| counts(outcome)).count()
        };
        let failed = count(|outcome| matches!(outcome, Outcome::Failed(..)));
        let not_run = count(|outcome| matches!(outcome, Outcome::NotRun(_)));
        if failed + not_run == 0 {
            return Ok(());
        }
        bail!("{command}: of {} steps {failed} failed and {not_run} were not run", self.done.len())
    }

    fn lines(&self) -> Vec<String> {
        let mut total = Duration::ZERO;
        let line = |(name, outcome): &(String, Outcome)| {
            let (word, time, why) = match outcome {
                Outcome::Passed(time) => ("passed", Some(time), String::new()),
                Outcome::Failed(time, error) => ("FAILED", Some(time), format!(": {error}")),
                Outcome::NotRun(needed) => ("not run", None, format!(": it needs `{needed}`")),
            };
            total += time.copied().unwrap_or_default();
            let time = time.map(|time| format!("{:.1} s", time.as_secs_f64()));
            format!("{word:<8} {:>10}  {name}{why}", time.unwrap_or_default())
        };
        let mut lines: Vec<String> = self.done.iter().map(line).collect();
        lines.push(format!("{:<8} {:>10}  in all", "", format!("{:.1} s", total.as_secs_f64())));
        lines
    }
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
mod tests {
    use super::*;

    /// What came of each step, without its time.
    fn said(steps: &Steps) -> Vec<String> {
        let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = steps.lines().into_iter().map(words);
        let untimed = |line: String| {
            let (before, after) = line.split_once(" s ").unwrap_or((&line, ""));
            let word = before.rsplit_once(' ').map_or("", |(word, _)| word);
            if after.is_empty() { line.clone() } else { format!("{word} {after}").trim().into() }
        };
        lines.map(untimed).collect()
    }

    #[test]
    fn what_needs_nothing_of_a_failed_step_runs_and_the_rest_is_told() {
        let mut steps = Steps::default();
        let page = steps.time("page", &[Step::NONE], || Ok(()));
        let program = steps.run("program", &[], &mut Command::new("false"));
        let tests = steps.time("tests", &[page, program], || panic!("it needs the program"));
        let more = steps.time("more", &[tests], || panic!("it needs the tests"));
        let mut ran = false;
        let types = steps.time("types", &[page], || {
            ran = true;
            Ok(())
        });
        steps.time("all", &[types, more, program], || panic!("it needs more"));
        assert!(ran);
        assert_eq!(
            said(&steps),
            [
                "passed page",
                "FAILED program: exit status: 1: \"false\"",
                "not run tests: it needs `program`",
                "not run more: it needs `tests`",
                "passed types",
                "not run all: it needs `more`",
                "in all",
            ]
        );
        let error = steps.finish("test").unwrap_err().to_string();
        assert_eq!(error, "test: of 6 steps 1 failed and 3 were not run");
    }

    #[test]
    fn steps_that_all_pass_are_no_error() {
        let mut steps = Steps::default();
        let first = steps.run("first", &[], &mut Command::new("true"));
        steps.time("second", &[first], || Ok(()));
        assert_eq!(said(&steps), ["passed first", "passed second", "in all"]);
        steps.finish("test").unwrap();
    }

    #[test]
    fn the_gate_goes_on_after_a_failure_and_fails_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let make = folder.path().join("make");
        // Everything but the check passes.
        let script = "#!/bin/sh\necho \"$1\" >> \"$CALLS\"\n[ \"$1\" != check ]\n";
        std::fs::write(&make, script).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&make, std::fs::Permissions::from_mode(0o755)).unwrap();
        let calls = folder.path().join("calls");
        let path = std::env::var("PATH").unwrap();
        let gate = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/run");
        let mut run = Command::new(gate);
        run.env("PATH", format!("{}:{path}", folder.path().display())).env("CALLS", &calls);
        let told = run.output().unwrap();
        assert_eq!(std::fs::read_to_string(calls).unwrap(), "check\nfuzz\ntest\n");
        assert_eq!(told.status.code(), Some(1));
        let text = String::from_utf8(told.stdout).unwrap();
        assert!(text.contains("FAILED") && text.contains("make check"), "{text}");
        assert_eq!(text.matches("passed").count(), 2, "{text}");
    }
}
