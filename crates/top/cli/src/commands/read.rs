//! `catchment read`: events and fragments out of a run.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use catchment_model::{EventFlags, SourceId};
use catchment_storage::Run;

use crate::config::near_matches;
use crate::npy::Npy;
use crate::output::{Exit, Out, UsageError, progress};

/// Reads the table of events, or one source's fragments, from a file or a run's folder.
///
/// A fragment is given as it came: for HADES its 16-byte sub-event header first. Arrow is not written
/// yet; Python reads runs without a copy (`import catchment`).
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A .catch file or a run's folder
    path: PathBuf,
    /// The fragments of this source, by name or number; without it the table of events
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Only events whose number is at least FIRST and below END: 100..200, 100.. or ..200
    #[arg(long, value_name = "FIRST..END", value_parser = keys, default_value = "..")]
    events: Range<u64>,
    /// How it is written
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
    /// The file to write; for --source with npy the beginning of three names (.keys.npy,
    /// .offsets.npy, .payload.npy). Without it: stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A line per event; fragments in hexadecimal
    Csv,
    /// NumPy arrays
    Npy,
    /// The bytes of the fragments, one behind the other
    Raw,
}

fn keys(text: &str) -> Result<Range<u64>, String> {
    let wrong = || "expected FIRST..END such as 100..200, 100.. or ..200".to_owned();
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str, default: u64| {
        if text.is_empty() { Ok(default) } else { text.parse().map_err(|_| wrong()) }
    };
    Ok(number(first, 0)?..number(end, u64::MAX)?)
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let run = Run::open(&arguments.path)?;
    let written = match (&arguments.source, arguments.format) {
        (None, Format::Raw) => {
            anyhow::bail!(UsageError("--format raw is for --source: events have no bytes".into()))
        }
        (_, Format::Npy) if arguments.output.is_none() => {
            anyhow::bail!(UsageError("--format npy needs --output FILE".into()))
        }
        (None, Format::Csv) => events_csv(&run, &arguments, out)?,
        (None, Format::Npy) => events_npy(&run, &arguments, out)?,
        (Some(name), Format::Npy) => fragments_npy(&run, source(&run, name)?, &arguments, out)?,
        (Some(name), format) => fragments(&run, source(&run, name)?, format, &arguments, out)?,
    };
    if out.json && arguments.output.is_some() {
        let files: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        out.object(&serde_json::json!({ "files": files }))?;
    }
    Ok(Exit::Done)
}

/// A source by its name or its number.
fn source(run: &Run, name: &str) -> anyhow::Result<SourceId> {
    let sources = run.sources();
    if let Some(index) = sources.iter().position(|source| source.name == name) {
        return Ok(SourceId(index as u32));
    }
    match name.parse::<u32>() {
        Ok(number) if (number as usize) < sources.len() => Ok(SourceId(number)),
        _ => {
            let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
            let near = near_matches(name, &names).join(" or ");
            let hint =
                if near.is_empty() { String::new() } else { format!("; did you mean {near}?") };
            let count = sources.len();
            Err(UsageError(format!("no source {name:?} among the run's {count}{hint}")).into())
        }
    }
}

/// Where text and raw bytes go.
enum Sink<'a> {
    File(BufWriter<File>),
    Stdout(&'a mut Out),
}

impl<'a> Sink<'a> {
    fn open(output: Option<&Path>, out: &'a mut Out) -> anyhow::Result<Self> {
        let Some(path) = output else { return Ok(Self::Stdout(out)) };
        let file =
            File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self::File(BufWriter::with_capacity(1 << 20, file)))
    }

    fn bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes),
            Self::Stdout(out) => out.bytes(bytes),
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Self::File(mut file) => file.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

/// The rows of a frame that the range asks for.
fn rows(events: &catchment_storage::FrameEvents, keys: &Range<u64>) -> Vec<Range<usize>> {
    if keys.is_empty() { Vec::new() } else { events.rows_between(keys.start, keys.end - 1) }
}

fn events_csv(run: &Run, arguments: &Arguments, out: &mut Out) -> anyhow::Result<Vec<PathBuf>> {
    let bar = progress(out, "reading", run.frames().len() as u64);
    let mut sink = Sink::open(arguments.output.as_deref(), out)?;
    sink.bytes(b"event,time_ns,flags\n")?;
    for frame in 0..run.frames().len() {
        let events = run.events(frame)?;
        let mut text = String::new();
        for row in rows(&events, &arguments.events).into_iter().flatten() {
            let (key, time) = (events.keys()[row], events.times_ns()[row]);
            writeln!(text, "{key},{time},{}", EventFlags(events.flags()[row]))?;
        }
        sink.bytes(text.as_bytes())?;
        bar.inc(1);
    }
    sink.finish()?;
    bar.finish_and_clear();
    Ok(arguments.output.iter().cloned().collect())
}

fn events_npy(run: &Run, arguments: &Arguments, out: &mut Out) -> anyhow::Result<Vec<PathBuf>> {
    let bar = progress(out, "reading", run.frames().len() as u64);
    let path = arguments.output.as_deref().expect("checked before");
    let mut npy =
        Npy::create(path, "[('event', '<u8'), ('time_ns', '<u8'), ('flags', '<u4')]", 20)?;
    for frame in 0..run.frames().len() {
        let events = run.events(frame)?;
        for row in rows(&events, &arguments.events).into_iter().flatten() {
            npy.bytes(&events.keys()[row].to_le_bytes())?;
            npy.bytes(&events.times_ns()[row].to_le_bytes())?;
            npy.bytes(&events.flags()[row].to_le_bytes())?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(vec![npy.finish()?])
}

/// Three arrays: fragment *i* is `payload[offsets[i]:offsets[i + 1]]` and belongs to `keys[i]`.
fn fragments_npy(
    run: &Run,
    source: SourceId,
    arguments: &Arguments,
    out: &mut Out,
) -> anyhow::Result<Vec<PathBuf>> {
    let bar = progress(out, "reading", run.frames().len() as u64);
    let base = arguments.output.as_deref().expect("checked before");
    let named = |suffix: &str| {
        let mut name = base.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let mut keys = Npy::create(&named(".keys.npy"), "'<u8'", 8)?;
    let mut offsets = Npy::create(&named(".offsets.npy"), "'<u8'", 8)?;
    let mut payload = Npy::create(&named(".payload.npy"), "'|u1'", 1)?;
    let mut end = 0_u64;
    offsets.numbers(&[0])?;
    for frame in 0..run.frames().len() {
        let column = run.fragments(frame, source)?;
        for row in rows(column.events(), &arguments.events).into_iter().flatten() {
            let Some(fragment) = column.fragment(row) else { continue };
            end += fragment.len() as u64;
            keys.numbers(&[column.events().keys()[row]])?;
            offsets.numbers(&[end])?;
            payload.bytes(fragment)?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(vec![keys.finish()?, offsets.finish()?, payload.finish()?])
}

fn fragments(
    run: &Run,
    source: SourceId,
    format: Format,
    arguments: &Arguments,
    out: &mut Out,
) -> anyhow::Result<Vec<PathBuf>> {
    let bar = progress(out, "reading", run.frames().len() as u64);
    let mut sink = Sink::open(arguments.output.as_deref(), out)?;
    if format == Format::Csv {
        sink.bytes(b"event,bytes,fragment\n")?;
    }
    for frame in 0..run.frames().len() {
        let column = run.fragments(frame, source)?;
        let mut text = String::new();
        for row in rows(column.events(), &arguments.events).into_iter().flatten() {
            let Some(fragment) = column.fragment(row) else { continue };
            if format == Format::Raw {
                sink.bytes(fragment)?;
                continue;
            }
            write!(text, "{},{},", column.events().keys()[row], fragment.len())?;
            for byte in fragment {
                write!(text, "{byte:02x}")?;
            }
            text.push('\n');
        }
        sink.bytes(text.as_bytes())?;
        bar.inc(1);
    }
    sink.finish()?;
    bar.finish_and_clear();
    Ok(arguments.output.iter().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_events_are_read_as_in_rust_and_python() {
        assert_eq!(keys("100..200"), Ok(100..200));
        assert_eq!(keys("100.."), Ok(100..u64::MAX));
        assert_eq!(keys(".."), Ok(0..u64::MAX));
        for bad in ["", "5", "a..b", "1-2", "1...2"] {
            assert!(keys(bad).is_err(), "{bad}");
        }
    }
}
