//! The output of a command: on stdout for people or programs, on stderr when it failed.

use std::error::Error;
use std::io::{self, IsTerminal, Write};

use catchment_model::printable::NAME_BYTES_MAX;
use catchment_model::{printable, printable_json, printable_lines};
use serde::Serialize;

/// The end of a command; the number is the process's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did its work.
    Done = 0,
    /// It could not.
    Failed = 1,
    /// The arguments make no sense.
    Usage = 2,
    /// It did, but data were lost, or some are bad.
    Loss = 3,
}

impl Exit {
    /// The end of two parts of a command: the worse one.
    pub fn and(self, other: Self) -> Self {
        if self == Self::Done { other } else { self }
    }
}

/// Stdout. Once its reader has gone (`catchment audit RUN | head`, or a terminal that was closed),
/// what follows is dropped: the command still ends with the exit code that it earned.
pub struct Out {
    stream: Box<dyn Write>,
    gone: bool,
    /// One JSON object instead of text.
    pub json: bool,
    /// Stdout is a terminal.
    pub terminal: bool,
    /// Colours are allowed.
    pub colour: bool,
}

impl Out {
    /// The process's stdout; `json` is whether a program reads.
    pub fn stdout(json: bool) -> Self {
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

    /// An output into `stream`, for tests.
    #[cfg(test)]
    fn into(stream: impl Write + 'static, terminal: bool) -> Self {
        Self { stream: Box::new(stream), gone: false, json: false, terminal, colour: false }
    }

    /// An output that is discarded, for tests.
    pub fn nowhere(json: bool) -> Self {
        let stream = Box::new(io::sink());
        Self { stream, gone: false, json, terminal: false, colour: false }
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// The system cannot write, for another reason than that the reader has gone.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        let result = self.stream.write_all(bytes);
        self.forgive(result)
    }

    /// Writes a text of several lines as it is; to a terminal, without what that would obey.
    ///
    /// # Errors
    /// The system cannot write, for another reason than that the reader has gone.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        if self.terminal {
            self.bytes(printable_lines(text).as_bytes())
        } else {
            self.bytes(text.as_bytes())
        }
    }

    /// Writes one line. Control characters, which names out of files may have, are escaped.
    ///
    /// # Errors
    /// The system cannot write, for another reason than that the reader has gone.
    pub fn line(&mut self, line: impl std::fmt::Display) -> io::Result<()> {
        let mut line = printable(&line.to_string()).into_owned();
        line.push('\n');
        self.bytes(line.as_bytes())
    }

    /// Writes one line for people; nothing when a program reads.
    ///
    /// # Errors
    /// The system cannot write, for another reason than that the reader has gone.
    pub fn say(&mut self, line: impl std::fmt::Display) -> io::Result<()> {
        if self.json { Ok(()) } else { self.line(line) }
    }

    /// Writes the object that a program asked for.
    ///
    /// # Errors
    /// The system cannot write, for another reason than that the reader has gone.
    pub fn object(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut text = printable_json(&serde_json::to_string_pretty(value)?).into_owned();
        text.push('\n');
        self.bytes(text.as_bytes())
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// The system cannot write, for another reason than that the reader has gone.
    pub fn flush(&mut self) -> io::Result<()> {
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

/// Prints on stderr why a command failed, as one line. A closed stderr is ignored.
pub fn complain(message: impl std::fmt::Display) {
    writeln!(io::stderr(), "catchment: {}", printable(&message.to_string())).ok();
}

/// An error and its causes, without those that it names itself.
pub fn chain(error: impl AsRef<dyn Error>) -> String {
    let mut error = error.as_ref();
    let mut text = error.to_string();
    while let Some(cause) = error.source() {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        error = cause;
    }
    text
}

/// A table of text: the first column left, the others right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The columns' names.
    pub head: Vec<String>,
    /// Each row's cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|&cell| cell.into()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Lines for a terminal. Cells are escaped, and cut where one would widen the whole column
    /// beyond what a name may have.
    pub fn lines(&self) -> Vec<String> {
        let shown = |row: &Vec<String>| row.iter().map(|cell| shown(cell)).collect();
        let rows: Vec<Vec<String>> = self.all().map(shown).collect();
        let widths = widths(&rows);
        rows.iter()
            .map(|row| {
                let cells = row.iter().zip(&widths).enumerate().map(|(index, (cell, &width))| {
                    if index == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                });
                format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
            })
            .collect()
    }

    /// Lines for a Markdown page.
    pub fn markdown(&self) -> Vec<String> {
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
}

fn shown(cell: &str) -> String {
    let cell = printable(cell);
    match cell.char_indices().nth(NAME_BYTES_MAX) {
        Some((end, _)) => format!("{}...", &cell[..end]),
        None => cell.into_owned(),
    }
}

/// Of columns: the longest cell's characters.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths = vec![0; rows[0].len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// A bar of progress on stderr; invisible where that is no terminal.
pub fn progress(out: &Out, message: &'static str, total: u64) -> indicatif::ProgressBar {
    if out.json {
        return indicatif::ProgressBar::hidden();
    }
    let style = indicatif::ProgressStyle::with_template("{msg} [{bar:30}] {percent} %  {eta} left")
        .expect("a template that tests show to be right")
        .progress_chars("##.");
    indicatif::ProgressBar::new(total).with_style(style).with_message(message)
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
    fn names_out_of_files_do_not_reach_a_terminal_as_they_are() {
        let name = "a\x1b[2J\u{202e}\n2026-11-25T00:00:00Z error fake";
        let (mut reader, writer) = io::pipe().unwrap();
        let mut out = Out::into(writer, true);
        out.line(name).unwrap();
        out.object(&[name, "\u{9b}\u{e0041}"]).unwrap();
        out.text("key = 1\n# \x1b[2J\n").unwrap();
        drop(out);
        let mut printed = String::new();
        io::Read::read_to_string(&mut reader, &mut printed).unwrap();
        let is_obeyed = |c: char| c != '\n' && catchment_model::printable::is_control(c);
        assert!(!printed.contains(is_obeyed), "{printed:?}");
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], r"a\u{1b}[2J\u{202e}\n2026-11-25T00:00:00Z error fake");
        let json: Vec<String> = serde_json::from_str(&lines[1..5].concat()).unwrap();
        assert_eq!(json, [name, "\u{9b}\u{e0041}"], "programs get the names as they are");
        assert_eq!(lines[5..], ["key = 1", r"# \u{1b}[2J"]);
    }

    #[test]
    fn a_long_name_does_not_widen_a_table_without_end() {
        let mut table = Table::new(&["name", "x"]);
        table.row(["n".repeat(10_000), "\x1b".into()]);
        let lines = table.lines();
        assert_eq!(lines[1], format!("  {}...  \\u{{1b}}", "n".repeat(255)));
        assert_eq!(lines[0].len(), lines[1].len());
    }

    #[test]
    fn the_progress_bar_has_a_template_that_parses() {
        let out = Out::nowhere(false);
        progress(&out, "reading", 10).finish_and_clear();
    }
}
