//! The tables of a bench: on the screen, as JSON and as Markdown.

use std::path::{Path, PathBuf};

use anyhow::Context;
use catchment_console::{Out, Table};
use catchment_model::units::Bytes;
use serde::Serialize;

use crate::Bench;
use crate::machine::Machine;

/// A bench's results.
#[derive(Debug)]
pub(crate) struct Report {
    /// Of its files.
    pub(crate) name: String,
    /// What makes it, on the command line.
    pub(crate) command: String,
    pub(crate) quick: bool,
    pub(crate) sections: Vec<Section>,
    /// The same figures for programs.
    pub(crate) figures: serde_json::Value,
}

/// One table with the notes that a reader of it needs.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) notes: Vec<String>,
    pub(crate) table: Table,
}

#[derive(Serialize)]
struct Object<'a> {
    bench: &'a str,
    quick: bool,
    machine: &'a Machine,
    measured_unix_seconds: u64,
    figures: &'a serde_json::Value,
}

impl Section {
    /// A section without notes.
    pub(crate) fn new(title: impl Into<String>, table: Table) -> Self {
        Self { title: title.into(), notes: Vec::new(), table }
    }

    /// With one more note.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// A column of a table: its head, and what stands in it of a row.
pub(crate) type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

/// A table of these rows.
pub(crate) fn table<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> Table {
    let head: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let mut table = Table::new(&head);
    for row in rows {
        table.row(columns.iter().map(|(_, cell)| cell(&row)));
    }
    table
}

/// Whole percent.
pub(crate) fn percent(percent: f64) -> String {
    format!("{percent:.0} %")
}

/// Bytes, or bytes per second.
pub(crate) fn bytes(bytes: f64) -> String {
    Bytes(bytes as u64).to_string()
}

/// Whether a target was reached. A short bench shows that it works; its figures are no result.
pub(crate) fn met(quick: bool, met: bool) -> String {
    String::from(if quick { "" } else { ["missed", "met"][usize::from(met)] })
}

impl Report {
    /// What a bench measured, and its tables.
    ///
    /// # Errors
    /// Figures that JSON does not have.
    pub(crate) fn new(
        name: &'static str,
        bench: &Bench<'_>,
        sections: Vec<Section>,
        figures: &impl Serialize,
    ) -> anyhow::Result<Self> {
        let figures = serde_json::to_value(figures)?;
        let quick = if bench.quick { " --quick" } else { "" };
        let command = format!("bench {name}{quick}");
        Ok(Self { name: name.into(), command, quick: bench.quick, sections, figures })
    }

    /// Prints the tables and writes `NAME.json` and `NAME.md` (`NAME-quick` for a quick one).
    pub(crate) fn finish(&self, folder: &Path, out: &mut Out) -> anyhow::Result<()> {
        let machine = Machine::this();
        let seconds = catchment_telemetry::utc_now().0 / 1_000_000_000;
        let object = Object {
            bench: &self.name,
            quick: self.quick,
            machine: &machine,
            measured_unix_seconds: seconds,
            figures: &self.figures,
        };
        let stem = self.stem();
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let json = serde_json::to_string_pretty(&object)? + "\n";
        let paths = [
            write(folder, &stem, "json", &json)?,
            write(folder, &stem, "md", &self.markdown(&machine))?,
        ];
        if out.json {
            return Ok(out.object(&object)?);
        }
        for section in &self.sections {
            out.line("")?;
            out.line(&section.title)?;
            for line in section.table.lines().iter().chain(&section.notes) {
                out.line(line)?;
            }
        }
        out.line("")?;
        out.line(&machine)?;
        for path in paths {
            out.line(format_args!("written: {}", path.display()))?;
        }
        Ok(())
    }

    /// Where the figures are for programs.
    pub(crate) fn json_path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.stem()))
    }

    fn stem(&self) -> String {
        format!("{}{}", self.name, if self.quick { "-quick" } else { "" })
    }

    fn markdown(&self, machine: &Machine) -> String {
        let mut text = format!("# catchment {}\n\nMachine: {machine}.\n", self.command);
        for section in &self.sections {
            text += &format!("\n## {}\n\n", section.title);
            for line in section.table.markdown() {
                text += &(line + "\n");
            }
            for note in &section.notes {
                text += &format!("\n{note}\n");
            }
        }
        text
    }
}

fn write(folder: &Path, stem: &str, extension: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(format!("{stem}.{extension}"));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_written_twice() {
        let mut table = Table::new(&["rate", "lost"]);
        table.row(["1 kHz", "0 %"]);
        let section = Section::new("Rates", table).note("Median of 3.");
        let figures = serde_json::json!([1, 2]);
        let report = Report {
            name: "hades".into(),
            command: "bench hades".into(),
            quick: true,
            sections: vec![section],
            figures,
        };
        let folder = tempfile::tempdir().unwrap();
        report.finish(folder.path(), &mut Out::nowhere(true)).unwrap();
        let json = std::fs::read(folder.path().join("hades-quick.json")).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&object["figures"][1], &object["quick"]), (&2.into(), &true.into()));
        let page = std::fs::read_to_string(folder.path().join("hades-quick.md")).unwrap();
        assert!(page.contains("| rate | lost |\n| --- | --: |\n| 1 kHz | 0 % |\n\nMedian of 3."));
    }
}
