//! Python's side: a virtual environment with the pinned tools, and the installed package.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{Step, Steps, succeed};
use crate::repository::Repository;

/// The pinned tools, and what the benches compare with.
const REQUIREMENTS: [&str; 2] = ["xtask/requirements.txt", "bench/requirements.txt"];

/// Python's sources, for the formatter and the linter.
const SOURCES: [&str; 6] =
    ["crates/top/python", "bench", "clients", "packaging", "docs/spec", "examples"];

/// The environment `.venv` in the repository.
pub struct Python<'a> {
    repository: &'a Repository,
    folder: PathBuf,
    /// The step that made it.
    ready: Step,
}

impl<'a> Python<'a> {
    /// Makes the environment, or takes the one that has the same tools already.
    pub fn prepare(repository: &'a Repository, steps: &Steps) -> Result<Self> {
        let folder = repository.root.join(".venv");
        let python = Self { repository, folder, ready: Step::NONE };
        let mut wanted = String::new();
        for file in REQUIREMENTS {
            wanted += &std::fs::read_to_string(repository.root.join(file))?;
        }
        let installed = python.folder.join("installed.txt");
        if std::fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
            return Ok(python);
        }
        let ready = steps.time("python: make .venv and install the tools", &[], || {
            let mut make = Command::new(interpreter()?);
            make.args(["-m", "venv", "--clear"]).arg(&python.folder);
            succeed(&mut make).context("no virtual environment (Debian: package python3-venv)")?;
            let files = REQUIREMENTS.iter().flat_map(|file| ["--requirement", file]);
            succeed(python.pip().arg("install").args(files))?;
            Ok(std::fs::write(&installed, &wanted)?)
        });
        Ok(Self { ready, ..python })
    }

    /// The step that made the environment.
    pub fn ready(&self) -> Step {
        self.ready
    }

    /// Builds and installs the package, as a user would, but for the profile: that of the tests.
    pub fn install(&self, steps: &Steps) -> Step {
        let mut install = self.pip();
        install.args(["install", ".", "--config-settings", "build-args=--profile dev"]);
        steps.run("python: pip install .", &[self.ready], &mut install)
    }

    /// Runs Python's tests against the package that was installed, and `program`.
    pub fn test(&self, steps: &Steps, installed: Step, (program, built): (&Path, Step)) {
        let mut pytest = self.tool("pytest");
        pytest.env("CATCHMENT_PROGRAM", program);
        steps.run("python: pytest", &[installed, built], &mut pytest);
    }

    /// Checks form, lints and types.
    pub fn check(&self, steps: &Steps) {
        let mut format = self.tool("ruff");
        format.args(["format", "--check"]).args(SOURCES);
        steps.run("python: ruff format", &[self.ready], &mut format);
        let mut lint = self.tool("ruff");
        steps.run("python: ruff check", &[self.ready], lint.arg("check").args(SOURCES));
        steps.run("python: mypy", &[self.ready], &mut self.tool("mypy"));
    }

    /// The interpreter, for the benches.
    pub fn interpreter(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    fn pip(&self) -> Command {
        let mut command = self.tool("python");
        command.args(["-m", "pip", "--disable-pip-version-check", "--quiet"]);
        command
    }

    fn tool(&self, name: &str) -> Command {
        self.repository.command(self.folder.join("bin").join(name))
    }
}

/// A Python of version 3.11 or newer: `$PYTHON`, or the first that is found.
fn interpreter() -> Result<String> {
    let chosen = std::env::var("PYTHON").ok();
    let names = ["python3", "python3.11", "python3.12", "python3.13", "python3.14"];
    let candidates: Vec<String> = match chosen {
        Some(name) => vec![name],
        None => names.map(str::to_owned).to_vec(),
    };
    for name in &candidates {
        let test = "import sys; sys.exit(sys.version_info < (3, 11))";
        let new_enough = Command::new(name).args(["-c", test]).status();
        if new_enough.is_ok_and(|status| status.success()) {
            return Ok(name.clone());
        }
    }
    bail!("no Python of version 3.11 or newer: tried {}", candidates.join(", "))
}
