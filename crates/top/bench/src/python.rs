//! The benches' Python side: formats that have no Rust library, and plots.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::Value;

/// A Python, and the formats that it has the packages for.
pub(crate) struct Python {
    program: PathBuf,
    scripts: PathBuf,
    /// Each format's packages and versions; none where one is missing.
    pub(crate) formats: BTreeMap<String, Option<String>>,
}

impl Python {
    /// The Python of this machine, with the formats that it can measure.
    ///
    /// # Errors
    /// In one line, why nothing is measured in Python.
    pub(crate) fn find() -> Result<Self, String> {
        let mut python = Self::locate()?;
        let task = serde_json::json!({"task": "check"});
        let formats = python.ask("ligo/read_others.py", &task).map_err(|e| format!("{e:#}"))?;
        python.formats = serde_json::from_value(formats).map_err(|e| e.to_string())?;
        Ok(python)
    }

    /// Draws the figures that a bench wrote as JSON; returns the files that it drew.
    ///
    /// # Errors
    /// In one line, why nothing was drawn.
    pub(crate) fn draw(json: &Path) -> Result<Vec<PathBuf>, String> {
        let task = serde_json::json!({"path": json});
        let drawn = Self::locate()?.ask("plot.py", &task).map_err(|e| format!("{e:#}"))?;
        serde_json::from_value(drawn).map_err(|e| e.to_string())
    }

    /// `$CATCHMENT_PYTHON`, the repository's environment, or the system's Python.
    ///
    /// # Errors
    /// In one line, why nothing is measured in Python.
    pub(crate) fn locate() -> Result<Self, String> {
        let scripts = PathBuf::from(SCRIPTS);
        if !scripts.is_dir() {
            return Err(format!("{SCRIPTS} is not here (run the bench in the repository)"));
        }
        let environment = Path::new(".venv/bin/python");
        let program = match std::env::var_os("CATCHMENT_PYTHON") {
            Some(program) => program.into(),
            None if environment.exists() => environment.to_owned(),
            None => PathBuf::from("python3"),
        };
        Ok(Self { program, scripts, formats: BTreeMap::new() })
    }

    /// The formats that can be measured.
    pub(crate) fn able(&self) -> Vec<&str> {
        let able = self.formats.iter().filter(|(_, packages)| packages.is_some());
        able.map(|(name, _)| name.as_str()).collect()
    }

    /// Whether that format can be measured.
    pub(crate) fn can(&self, format: &str) -> bool {
        self.able().contains(&format)
    }

    /// Those that cannot, in words.
    pub(crate) fn missing(&self) -> Option<String> {
        let missing = self.formats.iter().filter(|(_, packages)| packages.is_none());
        let names: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| {
            let program = self.program.display();
            format!("not measured, {program} lacks their packages: {}", names.join("; "))
        })
    }

    /// Runs a script with a task on stdin, and takes its answer from stdout.
    pub(crate) fn ask(&self, script: &str, task: &Value) -> anyhow::Result<Value> {
        let script = self.scripts.join(script);
        let mut command = Command::new(&self.program);
        command.arg(&script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().with_context(|| format!("cannot run {}", self.program.display()))?;
        let mut input = child.stdin.take().expect("stdin was asked for");
        // A script that ends early leaves its input unread, and its reason on stderr.
        input.write_all(task.to_string().as_bytes()).ok();
        drop(input);
        let output = child.wait_with_output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        let last = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
        anyhow::ensure!(output.status.success(), "{}: {last}", script.display());
        // Packages may print when they are imported: the answer is the last line.
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = text.lines().last().unwrap_or_default();
        serde_json::from_str(answer).with_context(|| format!("{} gave no answer", script.display()))
    }
}

const SCRIPTS: &str = "bench";
