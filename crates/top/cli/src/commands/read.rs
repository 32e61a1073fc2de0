//! `catchment read`: events, fragments and channels out of a run.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use catchment_console::{Exit, Out, Stop, UsageError, complain, progress};
use catchment_frame::ColumnKind;
use catchment_model::units::{counted, grouped};
use catchment_model::{Moment, ParseUtcError, SourceId, TimeScale};
use catchment_storage::{Follow, Followed, Pattern, Run, RunOptions, Select, SelectEvents};

use crate::export::Sink;
use crate::export::arrow::Kind;
use crate::export::channels::Channels;
use crate::export::events::{Fragments, Output as Events};
use crate::export::part::Part;
use crate::left_out::report_damage;
use crate::names;

/// Reads the table of events, one source's fragments, or channels, from a file or a run's folder.
///
/// A fragment is written as received: for HADES with its 16-byte sub-event header. Channels are
/// written raw, as they were recorded, in all formats: where a channel has a scale and an offset, a
/// physical value is raw * scale + offset. Both stand in the metadata of Parquet and Arrow files
/// and in `catchment inspect RUN --channels --json`; numpy() in Python and `catchment refs` give
/// physical values. Only the columns that are asked for are read. With --json the names of the
/// files that --output made are printed as an object.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A .catch file or a run's folder; or several folders of one run, which are read as one
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Where the run is that has the payload, if events were built again without it and the run is
    /// not where the files say
    #[arg(long, value_name = "RUN")]
    base: Option<PathBuf>,
    /// The fragments of this source, by name or number; without it the table of events
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Channels of one rate, by name or pattern; may be repeated
    #[arg(long, alias = "channels", value_name = "CHANNEL", conflicts_with = "source")]
    channel: Vec<Pattern>,
    /// Only events whose number is at least FIRST and below END: 100..200, 100.. or ..200
    #[arg(long, value_name = "FIRST..END", value_parser = range, conflicts_with = "channel")]
    events: Option<Range<u64>>,
    /// Only samples from START on and before END: nanoseconds of the channel's time scale, or dates
    /// such as 2026-11-21 or 2026-11-21T07:42:23.125, which are those of that scale; with Z or an
    /// offset (+01:00) UTC. Of events: those whose first fragment arrived then, UTC
    #[arg(long, value_name = "START..END", value_parser = time_range)]
    time: Option<TimeRange>,
    /// Only frames from FIRST on and before END, as `inspect --frames` numbers those of events and
    /// those of channels
    // Their numbers move when a file in the middle of a run grows.
    #[arg(long, value_name = "FIRST..END", value_parser = range, conflicts_with = "follow")]
    frames: Option<Range<u64>>,
    /// With npy: this field of the source's records alone, as an array with a row for each event
    /// that has one (.keys.npy, .FIELD.npy, .holes.npy)
    #[arg(long, value_name = "FIELD", requires = "source")]
    field: Option<String>,
    /// The output format
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
    /// The file to write; with npy the beginning of several names (--source: .keys.npy, .valid.npy,
    /// .offsets.npy, .payload.npy and, where bytes may be missing, .holes.npy, where an event may
    /// have several fragments, .pieces.npy, by time .times.npy, and with groups .expected.npy;
    /// --channel: .times.npy, .samples.npy). Without it:
    /// stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Follow a run that is being written, until it ends or Ctrl-C
    #[arg(long)]
    follow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A line per event or sample; fragments in hexadecimal, bytes and fragment empty where an
    /// event has none of the source
    Csv,
    /// NumPy arrays; of a source also whether an event has a fragment of it
    Npy,
    /// The bytes of fragments or samples, concatenated
    Raw,
    /// An Apache Parquet file
    Parquet,
    /// An Apache Arrow IPC file
    Arrow,
}

/// Start and end, each optional, before their time scale is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeRange {
    start: Option<Moment>,
    end: Option<Moment>,
}

impl TimeRange {
    fn in_scale(self, scale: TimeScale) -> anyhow::Result<Range<u64>> {
        let ns = |moment: Option<Moment>, open| moment.map_or(open, |m| m.in_scale(scale));
        let (start, end) = (ns(self.start, 0), ns(self.end, u64::MAX));
        if start > end {
            let message = format!("--time START..END: {start} ns is behind {end} ns of {scale}");
            anyhow::bail!(UsageError(message));
        }
        Ok(start..end)
    }
}

fn time_range(text: &str) -> Result<TimeRange, String> {
    let (start, end) = text.split_once("..").ok_or("expected START..END, START.. or ..END")?;
    let moment = |text: &str| match text.is_empty() {
        true => Ok(None),
        false => text.parse().map(Some).map_err(|error: ParseUtcError| error.to_string()),
    };
    Ok(TimeRange { start: moment(start)?, end: moment(end)? })
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || "expected FIRST..END such as 100..200, 100.. or ..200".to_owned();
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str, default: u64| {
        if text.is_empty() { Ok(default) } else { text.parse().map_err(|_| wrong()) }
    };
    let range = number(first, 0)?..number(end, u64::MAX)?;
    if range.start > range.end {
        return Err(format!("FIRST..END, and {} is behind {}", range.start, range.end));
    }
    Ok(range)
}

pub(crate) fn run(mut arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let options = RunOptions { base: arguments.base.take(), ..RunOptions::default() };
    let run = Run::open_folders(&arguments.paths, options)?;
    let exit = report_damage(&run);
    let to_file = matches!(arguments.format, Format::Npy | Format::Parquet | Format::Arrow);
    let what = format!("--format {:?}", arguments.format).to_lowercase();
    if to_file && arguments.output.is_none() {
        anyhow::bail!(UsageError(format!("{what} needs --output FILE")));
    }
    if to_file && arguments.follow {
        anyhow::bail!(UsageError(format!("{what} is no stream: --follow takes csv or raw")));
    }
    if arguments.format == Format::Raw && arguments.source.is_none() && arguments.channel.is_empty()
    {
        let message = "--format raw is for --source and --channel: events have no bytes";
        anyhow::bail!(UsageError(message.into()));
    }
    if arguments.field.is_some() && arguments.format != Format::Npy {
        anyhow::bail!(UsageError("--field is for --format npy".into()));
    }
    let json = out.json;
    if json && arguments.output.is_none() {
        let message = "--json needs --output FILE: what is read is written as --format says";
        anyhow::bail!(UsageError(message.into()));
    }
    if arguments.channel.is_empty() {
        refuse_what_has_no_events(&run, arguments.source.as_deref())?;
    }
    // What is followed is looked at while it grows.
    let part = match &arguments.output {
        Some(output) if !arguments.follow => Some(Part::of(output)?),
        _ => None,
    };
    if let Some(part) = &part {
        arguments.output = Some(part.path.clone());
    }
    let (mut written, with_holes) = if arguments.channel.is_empty() {
        read_events(run, &arguments, out)?
    } else {
        (read_channels(run, &arguments, out)?, 0)
    };
    if with_holes > 0 {
        let (count, says) = (counted(with_holes, "fragment"), says_holes(arguments.format));
        complain(format_args!("{count} with holes: zeros stand for bytes that never came{says}"));
    }
    if written.is_empty() {
        written.extend(arguments.output.clone());
    }
    if let Some(part) = part {
        written = part.finish(written)?;
    }
    if json && arguments.output.is_some() {
        let files: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        let mut object = serde_json::json!({ "files": files });
        if with_holes > 0 {
            object["fragments_with_holes"] = with_holes.into();
        }
        out.object(&object)?;
    }
    Ok(exit)
}

/// Refuses to read events of a run that has channels alone, or of a link.
fn refuse_what_has_no_events(run: &Run, source_name: Option<&str>) -> anyhow::Result<()> {
    let id = source_name.map(|name| source(run, name)).transpose()?;
    id.map_or(Ok(()), |id| run.check_stored(id))?;
    let schema = &run.header().schema;
    let has_fragments = |id| schema.column(Some(id), &ColumnKind::FragmentLengths).is_some();
    let mut ids = (0..run.sources().len() as u32).map(SourceId);
    let what = match id {
        Some(id) if !has_fragments(id) => {
            format!("{} is a link, which delivers channels", run.sources()[id.index()].name)
        }
        None if !run.channels().is_empty() && !ids.any(has_fragments) => {
            format!("{} has channels and no events", run.path().display())
        }
        _ => return Ok(()),
    };
    let names: Vec<&str> = run.channels().iter().map(|info| info.name.as_str()).collect();
    let shown = names[..names.len().min(NAMES_SHOWN)].join(", ");
    let more = match names.len() - names.len().min(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {} more, which `inspect --channels` lists", grouped(more as u64)),
    };
    anyhow::bail!(UsageError(format!("{what}: choose some by --channel: {shown}{more}")))
}

/// Where a format says which bytes these are.
fn says_holes(format: Format) -> &'static str {
    match format {
        Format::Csv => "; the column holes has their begins and ends",
        Format::Npy => "; .holes.npy has them",
        Format::Raw => ", and raw bytes do not say which: csv and npy do",
        Format::Parquet | Format::Arrow => "; the column SOURCE.holes has their begins and ends",
    }
}

/// Returns the files that were written, and how many fragments had holes.
fn read_events(
    run: Run,
    arguments: &Arguments,
    out: &mut Out,
) -> anyhow::Result<(Vec<PathBuf>, u64)> {
    let source = arguments.source.as_deref().map(|name| source(&run, name)).transpose()?;
    let select = events_of(arguments)?;
    let wanted = run.frames_in(&select);
    let bar = progress(out, "reading", wanted.len() as u64);
    let output = arguments.output.as_deref();
    let path = || output.expect("a format that needs a file has one");
    let fragments = source.map(|id| Fragments::of(&run, id));
    if let Some((id, field)) = source.zip(arguments.field.as_deref()) {
        let mut events = Events::field(&run, id, (field, path()))?;
        let mut with_holes = 0;
        for frame in wanted {
            with_holes += write_rows(&run, frame, &select, (source, &mut events))?.1;
            bar.inc(1);
        }
        bar.finish_and_clear();
        return Ok((events.finish()?, with_holes));
    }
    let mut events = match (fragments, arguments.format) {
        (None, Format::Csv | Format::Raw) => Events::event_lines(Sink::open(output, out)?)?,
        (None, Format::Npy) => Events::event_records(path())?,
        (Some(of), Format::Npy) => Events::fragment_arrays(of, path())?,
        (Some(of), Format::Csv) => Events::fragment_lines(of, Sink::open(output, out)?)?,
        (Some(of), Format::Raw) => Events::FragmentBytes(of.source(), Sink::open(output, out)?),
        (of, format) => {
            let named = of.map(|of| (of, run.sources()[of.source().index()].name.as_str()));
            Events::table(named, path(), kind(format))?
        }
    };
    let mut with_holes = 0;
    if arguments.follow {
        follow(run, |run, followed| {
            let Followed::Events(frame) = followed else { return Ok(()) };
            with_holes += write_rows(run, frame, &select, (source, &mut events))?.1;
            events.flush()
        })?;
    } else {
        let mut count = 0;
        for frame in wanted {
            let written = write_rows(&run, frame, &select, (source, &mut events))?;
            (count, with_holes) = (count + written.0, with_holes + written.1);
            bar.inc(1);
        }
        if count == 0 {
            complain(events_there_are(&run));
        }
    }
    bar.finish_and_clear();
    Ok((events.finish()?, with_holes))
}

/// The events of a run, for a selection that matched none of them.
fn events_there_are(run: &Run) -> String {
    let infos = || run.frames().iter().map(|frame| frame.summary.info);
    let (Some(first), Some(last)) =
        (infos().map(|info| info.key_first).min(), infos().map(|info| info.key_last).max())
    else {
        return "there are no events in this run".to_owned();
    };
    let from = infos().map(|info| info.time_first_ns).min().unwrap_or_default();
    let to = infos().map(|info| info.time_last_ns).max().unwrap_or_default();
    format!(
        "no event is in that range: there are {} from number {first} to {last}, of {from} ns to {to} \
         ns UTC, in {} frames",
        grouped(run.event_count()),
        grouped(run.frames().len() as u64)
    )
}

/// Writes the selected events of a frame. Returns their number, and how many of the source's
/// fragments have holes. Fragments of a frame without such events are not read.
fn write_rows(
    run: &Run,
    frame: usize,
    select: &SelectEvents,
    (source, events): (Option<SourceId>, &mut Events<'_>),
) -> anyhow::Result<(usize, u64)> {
    let rows = run.rows_in(frame, select)?;
    if rows.is_empty() {
        return Ok((0, 0));
    }
    events.rows(run, frame, &rows)?;
    let holes = source.map(|id| run.fragment_holes(frame, id)).transpose()?.unwrap_or_default();
    let is_read = |row: u64| rows.iter().any(|rows| rows.contains(&(row as usize)));
    let of_rows = holes.chunk_by(|one, other| one.row == other.row);
    let with_holes = of_rows.filter(|holes| is_read(holes[0].row)).count();
    Ok((rows.iter().map(Range::len).sum(), with_holes as u64))
}

/// The selected events.
fn events_of(arguments: &Arguments) -> anyhow::Result<SelectEvents> {
    let all = SelectEvents::default();
    let time_ns = arguments.time.map(|time| time.in_scale(TimeScale::Utc)).transpose()?;
    Ok(SelectEvents {
        keys: arguments.events.as_ref().map_or(all.keys, |keys| match keys.end.checked_sub(1) {
            Some(last) => keys.start..=last,
            None => RangeInclusive::new(1, 0),
        }),
        time_ns,
        frames: arguments.frames.as_ref().map_or(all.frames, indices_of),
    })
}

/// The selected samples, in steps.
fn samples_of(
    arguments: &Arguments,
    run: &Run,
    channels: &Channels,
) -> anyhow::Result<Vec<Select>> {
    let time = arguments.time.map(|time| time.in_scale(channels.time_scale())).transpose()?;
    Ok(match (time, &arguments.frames) {
        (None, None) => vec![Select::All],
        (Some(time), None) => vec![Select::TimeNs(time)],
        (None, Some(frames)) => vec![Select::Frames(indices_of(frames))],
        (Some(time), Some(frames)) => {
            let (frames, samples) = (indices_of(frames), channels.samples_at(&time));
            let there = frames.start..frames.end.min(run.channel_frames().len());
            there.map(|frame| Select::FrameSamples(frame, samples.clone())).collect()
        }
    })
}

fn indices_of(frames: &Range<u64>) -> Range<usize> {
    frames.start as usize..frames.end as usize
}

fn read_channels(run: Run, arguments: &Arguments, out: &mut Out) -> anyhow::Result<Vec<PathBuf>> {
    let channels = Channels::of(&run, names::channels(&run, &arguments.channel)?)?;
    let output = arguments.output.as_deref();
    let path = || output.expect("a format that needs a file has one");
    let selects = if arguments.follow { vec![] } else { samples_of(arguments, &run, &channels)? };
    selects.iter().try_for_each(|select| channels.check(&run, select))?;
    let mut written = match arguments.format {
        Format::Csv => channels.csv(Sink::open(output, out)?)?,
        Format::Raw => channels.raw(Sink::open(output, out)?)?,
        Format::Npy => channels.npy(path())?,
        format => channels.arrow(path(), kind(format))?,
    };
    if arguments.follow {
        let time = arguments.time.map(|time| time.in_scale(channels.time_scale())).transpose()?;
        let samples = time.map_or(0..u64::MAX, |time| channels.samples_at(&time));
        follow(run, |run, followed| {
            let Followed::Channels(frame) = followed else { return Ok(()) };
            let select = Select::FrameSamples(frame, samples.clone());
            channels.check(run, &select)?;
            channels.read(run, &select, &mut written)?;
            written.flush()
        })?;
    } else {
        let mut count = 0;
        for select in &selects {
            count += channels.read(&run, select, &mut written)?;
        }
        if count == 0 {
            complain(channels.there_is(&run)?);
        }
    }
    written.finish()
}

/// Hands out frames as they are written, until the run has ended or a signal arrives.
fn follow(
    run: Run,
    mut take: impl FnMut(&Run, Followed) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stop = Stop::listen()?;
    let mut follow = Follow::new(run, POLL)?;
    while !stop.asked() {
        match follow.next_within(LOOK_EVERY)? {
            Some(frame) => take(follow.run(), frame)?,
            None if follow.ended() => break,
            None => {}
        }
    }
    Ok(())
}

fn kind(format: Format) -> Kind {
    if format == Format::Parquet { Kind::Parquet } else { Kind::Ipc }
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
            Err(names::unknown("source", name, &names))
        }
    }
}

/// Channels that are named where none was chosen.
const NAMES_SHOWN: usize = 3;
/// Poll interval of a run that is followed.
const POLL: Duration = Duration::from_millis(20);
/// The longest delay of Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_in_rust_and_python() {
        assert_eq!(range("100..200"), Ok(100..200));
        assert_eq!(range("100.."), Ok(100..u64::MAX));
        assert_eq!(range(".."), Ok(0..u64::MAX));
        for bad in ["", "5", "a..b", "1-2", "1...2", "5..2"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }
    #[test]
    fn times_are_numbers_or_dates_and_open_ends_are_none() {
        let at = |text: &str, scale| {
            time_range(text).expect("a range").in_scale(scale).expect("not reversed")
        };
        assert_eq!(at("5..7", TimeScale::Tai), 5..7);
        assert_eq!(at("..", TimeScale::Tai), 0..u64::MAX);
        let day = 1_795_219_200_000_000_000;
        assert_eq!(at("2026-11-21..9999-12-31", TimeScale::Tai), day..u64::MAX);
        assert_eq!(at("..2026-11-21T00:00:00.5Z", TimeScale::Tai), 0..day + 37_500_000_000);
        assert_eq!(at("2026-11-21T00:00Z..", TimeScale::Utc).start, day);
        let reversed = time_range("2026-11-22..2026-11-21").expect("two times");
        assert!(reversed.in_scale(TimeScale::Tai).is_err_and(|error| error.is::<UsageError>()));
        for bad in ["", "5", "a..", "..tomorrow", "2026-11-21"] {
            assert!(time_range(bad).is_err(), "{bad}");
        }
    }
}
