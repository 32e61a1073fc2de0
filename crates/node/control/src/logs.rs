//! Structured logs: to stderr as text or JSON, and the last 10,000 lines in memory for the page.
//!
//! A subscriber of our own, since neither spans nor filters are needed: one level for this
//! program's messages, only warnings from other crates. A repeated message is written once in ten
//! seconds with its count.
//!
//! Its own thread writes them: a stopped terminal, or an unread pipe, blocks no thread that logs.
//! Lines that find its queue full are counted, and the count is written later.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use catchment_model::{printable, printable_json};
use catchment_telemetry::utc_now;
use parking_lot::Mutex;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::api::LogLine;
use crate::queued::Queued;

/// Lines kept for the page.
pub const LINES_MAX: usize = 10_000;
/// Bytes of a line's text.
const TEXT_BYTES_MAX: usize = 4_096;
/// A message repeated within this time is not written again.
const REPEATED_WITHIN: Duration = Duration::from_secs(10);
/// The most lines that wait to be written.
const QUEUE_MAX: usize = 1_000;
/// The most messages whose repetition is tracked.
const WATCHED_MAX: usize = 1_000;

/// How lines are written to stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Time, level, part, message, fields; if stderr is the journal, without the time and with the
    /// level in journald's form.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// Not at all.
    #[serde(skip)]
    None,
}

/// The last lines.
#[derive(Debug)]
pub struct Logs {
    lines: Mutex<VecDeque<Arc<LogLine>>>,
    count: AtomicU64,
    /// The queue of the writing thread, if lines are written; the page has all of them without it.
    queue: Option<Queued<String>>,
    /// Lines that were not written because too many were waiting.
    dropped: Arc<AtomicU64>,
}

impl Logs {
    /// The process's logs. The first call determines how lines are written.
    pub fn start(format: Format, level: Level) -> Arc<Self> {
        static LOGS: OnceLock<Arc<Logs>> = OnceLock::new();
        let logs = LOGS.get_or_init(|| {
            let dropped: Arc<AtomicU64> = Arc::default();
            let (shared, mut reported) = (Arc::clone(&dropped), 0);
            let write = move |line: Option<String>| {
                let line = line.unwrap_or_default();
                write_line(&line, (shared.load(Relaxed), &mut reported), std::io::stderr());
            };
            let queue = match format {
                Format::None => None,
                Format::Text | Format::Json => Queued::start("control-log", QUEUE_MAX, write).ok(),
            };
            let (lines, count) = (Mutex::default(), AtomicU64::new(0));
            let logs = Arc::new(Self { lines, count, queue, dropped });
            let journal = std::env::var_os("JOURNAL_STREAM").is_some();
            let repeated = Mutex::default();
            let writer = Writer { logs: Arc::clone(&logs), format, level, journal, repeated };
            // Another subscriber is already set, and the page has no lines.
            tracing::subscriber::set_global_default(writer).ok();
            logs
        });
        Arc::clone(logs)
    }

    /// Lines of at least that level whose text contains `search`, older than `before`: the newest
    /// `limit` of them, oldest first.
    pub(crate) fn find(
        &self,
        least: Level,
        search: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Vec<LogLine> {
        let wanted = |line: &&Arc<LogLine>| {
            let level: Level = line.level.parse().unwrap_or(Level::ERROR);
            let older = before.is_none_or(|before| line.number < before);
            older && level <= least && contains(line, search)
        };
        // Not searched under the lock: a thread that logs would wait.
        let lines = self.lines.lock().clone();
        let found = lines.iter().rev().filter(wanted).take(limit);
        let mut found: Vec<_> = found.map(|line| LogLine::clone(line)).collect();
        found.reverse();
        found
    }

    /// Lines since that number, for streams; and the number for the next request.
    pub(crate) fn since(&self, number: u64) -> (Vec<LogLine>, u64) {
        let lines = self.lines.lock();
        let found = lines.iter().rev().take_while(|line| line.number >= number);
        let mut found: Vec<_> = found.map(|line| LogLine::clone(line)).collect();
        found.reverse();
        (found, self.count.load(Relaxed))
    }

    /// The total number of lines.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Lines that were not written to stderr.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Waits until all lines are written, at most that long.
    pub(crate) fn flush(&self, within: Duration) {
        if let Some(queue) = &self.queue {
            queue.flush(within);
        }
    }

    fn push(&self, mut line: LogLine) {
        let mut lines = self.lines.lock();
        line.number = self.count.fetch_add(1, Relaxed);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(Arc::new(line));
    }
}

fn contains(line: &LogLine, search: &str) -> bool {
    let search = search.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&search);
    search.is_empty()
        || has(&line.message)
        || has(&line.target)
        || line.fields.iter().any(|(name, value)| has(name) || has(value))
}

/// Writes a line, preceded by the number of lines dropped since the last report. A closed stderr is
/// ignored.
fn write_line(line: &str, (dropped, reported): (u64, &mut u64), mut to: impl std::io::Write) {
    if dropped > *reported {
        writeln!(to, "{} lines were not written: too many waited", dropped - *reported).ok();
        *reported = dropped;
    }
    to.write_all(line.as_bytes()).ok();
}

/// Makes lines of events.
struct Writer {
    logs: Arc<Logs>,
    format: Format,
    level: Level,
    journal: bool,
    repeated: Mutex<HashMap<(String, String), (Instant, u64)>>,
}

impl Subscriber for Writer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("catchment");
        *metadata.level() <= if ours { self.level } else { Level::WARN }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = LogLine {
            number: 0,
            time: utc_now().to_string(),
            level: metadata.level().as_str().to_lowercase(),
            target: metadata.target().to_owned(),
            message: String::new(),
            fields: BTreeMap::new(),
        };
        event.record(&mut Fields(&mut line));
        let Some(times) = self.fresh(&line) else { return };
        if times > 0 {
            line.fields.insert("repeated".into(), times.to_string());
        }
        self.write(&line);
        self.logs.push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Writer {
    /// How many repetitions have not been written since the message was last written; none while it
    /// is too soon to write it again.
    fn fresh(&self, line: &LogLine) -> Option<u64> {
        let mut repeated = self.repeated.lock();
        let now = Instant::now();
        let key = (line.target.clone(), format!("{} {:?}", line.message, line.fields));
        if let Some((at, times)) = repeated.get_mut(&key) {
            if now.duration_since(*at) < REPEATED_WITHIN {
                *times += 1;
                return None;
            }
            *at = now;
            return Some(std::mem::take(times));
        }
        if repeated.len() >= WATCHED_MAX {
            repeated.retain(|_, (at, _)| now.duration_since(*at) < REPEATED_WITHIN);
        }
        if repeated.len() < WATCHED_MAX {
            repeated.insert(key, (now, 0));
        }
        Some(0)
    }

    fn write(&self, line: &LogLine) {
        let mut text = match self.format {
            Format::None => return,
            Format::Json => {
                printable_json(&serde_json::to_string(line).unwrap_or_default()).into_owned()
            }
            Format::Text => text(line, self.journal),
        };
        text.push('\n');
        if !self.logs.queue.as_ref().is_some_and(|queue| queue.put(text)) {
            self.logs.dropped.fetch_add(1, Relaxed);
        }
    }
}

fn text(line: &LogLine, journal: bool) -> String {
    let priority = match line.level.as_str() {
        "error" => 3,
        "warn" => 4,
        "info" => 6,
        _ => 7,
    };
    let mut text = match journal {
        true => format!("<{priority}>"),
        false => format!("{} {:5} ", line.time, line.level),
    };
    text += &line.message;
    for (name, value) in &line.fields {
        text += &format!(" {name}={value:?}");
    }
    // A line break in a message must not look like another line, and names must not control a
    // terminal.
    printable(&text).into_owned()
}

struct Fields<'a>(&'a mut LogLine);

impl Fields<'_> {
    fn put(&mut self, field: &Field, mut value: String) {
        value.truncate(value.floor_char_boundary(TEXT_BYTES_MAX));
        if field.name() == "message" {
            self.0.message = value;
        } else if self.0.fields.len() < 32 {
            self.0.fields.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_dropped_are_told_once_before_the_next() {
        let (mut reported, mut out) = (0, Vec::new());
        for line in ["first\n", "second\n"] {
            write_line(line, (3, &mut reported), &mut out);
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "3 lines were not written: too many waited\nfirst\nsecond\n");
    }

    #[test]
    fn a_name_in_a_message_forges_no_line_and_moves_no_cursor() {
        let line = LogLine {
            number: 0,
            time: "2026-11-25T00:00:00Z".into(),
            level: "warn".into(),
            target: "catchment".into(),
            message: "a\x1b[2J\n2026-11-25T00:00:00Z error fake\u{202e}".into(),
            fields: BTreeMap::from([("source".into(), "b\u{9b}\n".into())]),
        };
        let expected = r#"2026-11-25T00:00:00Z warn  a\u{1b}[2J\n2026-11-25T00:00:00Z error fake\u{202e} source="b\u{9b}\n""#;
        assert_eq!(text(&line, false), expected);
    }
}
