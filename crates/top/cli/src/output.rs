//! What a command says: on stdout for people or programs, on stderr when it failed.

use std::io::{self, IsTerminal, Write};

pub(crate) use catchment_model::units::{counted, grouped};
use catchment_storage::Run;
use serde::Serialize;

/// What a command ends with; the number is the process's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It could not.
    Failed = 1,
    /// What was asked makes no sense.
    Usage = 2,
    /// It did, but data were lost.
    Loss = 3,
}

impl Exit {
    /// What two parts of a command come to: the worse one.
    pub(crate) fn and(self, other: Self) -> Self {
        if self == Self::Done { other } else { self }
    }
}

/// An option or argument that makes no sense; exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Stdout. Once its reader has gone (`catchment audit RUN | head`, or a terminal that was closed),
/// what follows is dropped: the command still ends with the exit code that it earned.
pub(crate) struct Out {
    stream: Box<dyn Write>,
    gone: bool,
    /// One JSON object instead of text.
    pub(crate) json: bool,
    /// Somebody is looking.
    pub(crate) terminal: bool,
    /// Colours are welcome.
    pub(crate) colour: bool,
}

impl Out {
    pub(crate) fn stdout(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            stream: Box::new(io::BufWriter::new(io::stdout())),
            gone: false,
            json,
            terminal,
            colour: terminal && !plain,
        }
    }

    /// One that nobody reads.
    #[cfg(test)]
    pub(crate) fn nowhere(json: bool) -> Self {
        let stream = Box::new(io::sink());
        Self { stream, gone: false, json, terminal: false, colour: false }
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        let result = self.stream.write_all(bytes);
        self.forgive(result)
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl std::fmt::Display) -> io::Result<()> {
        self.bytes(format!("{line}\n").as_bytes())
    }

    /// Writes one line for people; nothing when a program reads.
    pub(crate) fn say(&mut self, line: impl std::fmt::Display) -> io::Result<()> {
        if self.json { Ok(()) } else { self.line(line) }
    }

    /// Writes the object that a program asked for.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        Ok(self.line(text)?)
    }

    /// Hands over what was written so far.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        let result = self.stream.flush();
        self.forgive(result)
    }

    fn forgive(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if self.has_no_reader(&error) => {
                self.gone = true;
                self.stream = Box::new(io::sink());
                Ok(())
            }
            other => other,
        }
    }

    fn has_no_reader(&self, error: &io::Error) -> bool {
        // What a terminal that was closed answers, and a disk that fails.
        let closed = self.terminal && error.raw_os_error() == Some(libc::EIO);
        closed || error.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Says on stderr why a command failed. A stderr that is closed is nobody to tell.
pub(crate) fn complain(message: impl std::fmt::Display) {
    writeln!(io::stderr(), "catchment: {message}").ok();
}

/// Reports what of a run is missing or damaged, as far as opening it shows: what is read lacks
/// that. Of a run that is being recorded, nothing is missing yet.
pub(crate) fn report_damage(run: &Run) -> Exit {
    let damage = if run.being_recorded() { Vec::new() } else { run.damage() };
    report_left_out(&damage)
}

/// Reports what was left out, a line for each, of many the first ones and how many more.
pub(crate) fn report_left_out(lines: &[String]) -> Exit {
    let shown = shortened(lines);
    shown.for_each(|line| complain(format_args!("left out: {line}")));
    if lines.is_empty() { Exit::Done } else { Exit::Loss }
}

/// The first of many lines, and how many more there are.
pub(crate) fn shortened(lines: &[String]) -> impl Iterator<Item = String> {
    let shown = if lines.len() > LINES_MAX + 1 { LINES_MAX } else { lines.len() };
    let more = lines.len() - shown;
    let more = (more > 0).then(|| format!("and {} more", grouped(more as u64)));
    lines[..shown].iter().cloned().chain(more)
}

/// Lines of what was left out that are shown; those who read JSON get all.
const LINES_MAX: usize = 20;

/// An error and its causes, without those that it names itself.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// A table of text: the first column left, the others right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|&cell| cell.into()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Lines for a terminal.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        self.all()
            .map(|row| {
                let cells = row.iter().zip(&widths).enumerate().map(|(index, (cell, &width))| {
                    if index == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                });
                format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
            })
            .collect()
    }

    /// Lines for a Markdown page.
    pub(crate) fn markdown(&self) -> Vec<String> {
        let line = |row: &Vec<String>| format!("| {} |", row.join(" | "));
        let mut lines = vec![line(&self.head)];
        let rule = (0..self.head.len()).map(|index| if index == 0 { "---" } else { "--:" });
        lines.push(format!("| {} |", rule.collect::<Vec<_>>().join(" | ")));
        lines.extend(self.rows.iter().map(line));
        lines
    }

    fn all(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.head).chain(&self.rows)
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.head.len()];
        for row in self.all() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

/// A bar of progress on stderr; invisible where that is no terminal.
pub(crate) fn progress(out: &Out, what: &'static str, total: u64) -> indicatif::ProgressBar {
    if out.json {
        return indicatif::ProgressBar::hidden();
    }
    let style = indicatif::ProgressStyle::with_template("{msg} [{bar:30}] {percent} %  {eta} left")
        .expect("a template that tests show to be right")
        .progress_chars("##.");
    indicatif::ProgressBar::new(total).with_style(style).with_message(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_table_stand_below_one_another() {
        let mut table = Table::new(&["group", "MB/s"]);
        table.row(["small", "7"]);
        table.row(["large ones", "12,345"]);
        assert_eq!(
            table.lines(),
            ["  group         MB/s", "  small            7", "  large ones  12,345"]
        );
        assert_eq!(table.markdown()[1], "| --- | --: |");
    }

    #[test]
    fn of_many_lines_the_first_are_shown_and_how_many_more() {
        let lines = |count: usize| (0..count).map(|line| line.to_string()).collect::<Vec<_>>();
        assert_eq!(shortened(&lines(21)).count(), 21, "one more is no shorter");
        let shown: Vec<_> = shortened(&lines(1_020)).collect();
        assert_eq!(
            (shown.len(), shown[19].as_str(), shown[20].as_str()),
            (21, "19", "and 1,000 more")
        );
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn the_progress_bar_has_a_template_that_parses() {
        let out = Out::nowhere(false);
        progress(&out, "reading", 10).finish_and_clear();
    }
}
