//! Steps: child processes that must succeed, with the time that each took.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Runs steps one after the other; the first that fails ends them.
#[derive(Default)]
pub struct Steps {
    times: Vec<(String, Duration)>,
}

impl Steps {
    /// Runs `command` with this process's output and fails unless it exits with 0.
    pub fn run(&mut self, name: &str, command: &mut Command) -> Result<()> {
        self.time(name, || succeed(command))
    }

    /// Does `work` as a step.
    pub fn time(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("== {name}");
        let start = Instant::now();
        work().with_context(|| format!("step `{name}`"))?;
        self.times.push((name.to_owned(), start.elapsed()));
        Ok(())
    }

    /// Prints what was done and how long it took.
    pub fn finish(self, command: &str) {
        println!("== {command}: done");
        for (name, time) in &self.times {
            println!("{:8.1} s  {name}", time.as_secs_f64());
        }
        let total: Duration = self.times.iter().map(|(_, time)| *time).sum();
        println!("{:8.1} s  in all", total.as_secs_f64());
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
