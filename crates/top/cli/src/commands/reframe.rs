//! `catchment reframe`: other frames, files and codecs for the same data.

use std::path::{Path, PathBuf};

use catchment_builder::{Floods, TimeConfig, WindowKind};
use catchment_config::edit::{InlineTable, Value, set, without};
use catchment_config::{Size, Time};
use catchment_console::{Exit, Out, Stop, UsageError, progress};
use catchment_model::near_matches;
use catchment_model::units::{Bytes, Offset};
use catchment_storage::{
    Codings, ColumnCoding, Pattern, Rebuilt, ReframeOptions, Run, RunOptions, WriteOptions,
    WriteReport, reframe,
};

use crate::export::part::NewFolder;
use crate::left_out::{report_damage, report_left_out};

/// Rewrites a run's data bit for bit: in longer or shorter frames, in one file or several, with
/// another codec, or, by time, in other events. The run itself is not changed; events that are
/// built again refer to it for their payload. A damaged column of a channel becomes a gap in the
/// new run and is reported; exit code 3.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A .catch file or a run's folder
    path: PathBuf,
    /// The new run's folder; it must not be there
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Time of data in a frame of channels: "64 s"; default: unchanged
    #[arg(long, value_name = "TIME")]
    frame: Option<Time>,
    /// Bytes of a frame of events; default: unchanged
    #[arg(long, value_name = "SIZE")]
    frame_bytes: Option<Size>,
    /// Another codec for all columns: none, lz4, zstd:3, bitshuffle+lz4, shuffle+zstd:1, pcodec,
    /// for, portable (other programs read it, too), auto; default: unchanged
    #[arg(long)]
    codec: Option<ColumnCoding>,
    #[command(flatten)]
    again: Again,
    /// Of events that are built again: copy the payload, too
    #[arg(long, requires = "again")]
    copy: bool,
    /// Where the run is that has the payload, if events were built again without it and the run is
    /// not where the files say
    #[arg(long, value_name = "RUN")]
    base: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// How events by time are built again; what is not given is as recorded.
#[derive(Debug, clap::Args)]
#[group(id = "again", multiple = true, conflicts_with = "frame_bytes")]
struct Again {
    /// Build events by time again, with this window. The new files have index columns alone: they
    /// name this run, relative to their folder, as the base that has the payload
    #[arg(long, value_name = "TIME")]
    window: Option<Time>,
    /// Build events again: within the window of an event's first fragment, or of its last one
    #[arg(long, value_name = "first|gap", value_parser = ["first", "gap"])]
    kind: Option<String>,
    /// Build events again: only these sources may open an event (as build.time.openers); repeatable
    #[arg(long, value_name = "PATTERN")]
    openers: Vec<String>,
    /// Build events again: an event needs fragments of at least this many openers
    #[arg(long, value_name = "COUNT")]
    coincidence: Option<u32>,
    /// Build events again with another `time_offset` of these sources ("trigger=-300 ns");
    /// repeatable
    #[arg(long, value_name = "PATTERN=TIME", value_parser = time_offset)]
    offset: Vec<(String, Offset)>,
}

/// How files are cut.
#[derive(Debug, clap::Args)]
pub(crate) struct Files {
    /// Size of a file, in bytes
    #[arg(long, value_name = "SIZE", default_value = "16 GiB")]
    file_bytes: Size,
    /// Time of data in a file
    #[arg(long, value_name = "TIME")]
    file_time: Option<Time>,
}

impl Again {
    fn is_given(&self) -> bool {
        let Self { window, kind, openers, coincidence, offset } = self;
        window.is_some()
            || kind.is_some()
            || coincidence.is_some()
            || !openers.is_empty()
            || !offset.is_empty()
    }
}

impl Files {
    pub(crate) fn options(&self) -> WriteOptions {
        WriteOptions {
            file_bytes: self.file_bytes.0,
            file_time_ns: self.file_time.map(|time| time.0),
            ..WriteOptions::default()
        }
    }
}

/// The new run's name: that of its folder.
pub(crate) fn name_of(out: &Path) -> String {
    out.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Says what was written; JSON has `more`, too.
pub(crate) fn say(
    folder: &Path,
    report: &WriteReport,
    more: &[(&str, serde_json::Value)],
    out: &mut Out,
) -> anyhow::Result<()> {
    if out.json {
        let mut object = serde_json::json!({
            "folder": folder,
            "files": report.files.len(),
            "frames": report.frames,
            "raw_bytes": report.raw_bytes,
            "stored_bytes": report.stored_bytes,
            "file_bytes": report.file_bytes,
        });
        more.iter().for_each(|(key, value)| object[key] = value.clone());
        return Ok(out.object(&object)?);
    }
    out.line(format!(
        "{}: {} frames in {} file(s), {} raw in {} on disk",
        folder.display(),
        report.frames,
        report.files.len(),
        Bytes(report.raw_bytes),
        Bytes(report.file_bytes)
    ))?;
    Ok(())
}

/// How the run's events are built again: what is not given is as its configuration has it.
fn rebuilt(run: &Run, again: &Again, copy: bool) -> anyhow::Result<Rebuilt> {
    let refused = |why: String| UsageError(format!("events built again: {why}"));
    let by_time = |text: &str| {
        let checked = catchment_config::check(run.path(), text);
        let high = checked.map_err(|error| refused(error.to_string()))?.recorder;
        let time = high.time_config();
        let time = time.ok_or_else(|| refused("the run's events are not by time".into()))?;
        Ok::<_, UsageError>((high, time))
    };
    // Such runs could have keys that only the other rule has now.
    let recorded = without(run.config(), "build", &["window_events", "reorder_events"]);
    let mut config = recorded.clone();
    let mut put = |key, value: Value| {
        config = set(&config, "build.time", key, value).map_err(|_| {
            refused("the run's events are not by time, or its recorder did not say how".into())
        })?;
        Ok::<_, UsageError>(())
    };
    if let Some(window) = again.window {
        put("window", format!("{} ns", window.0).into())?;
    }
    if let Some(kind) = &again.kind {
        put("kind", kind.as_str().into())?;
    }
    if !again.openers.is_empty() {
        put("openers", again.openers.iter().map(String::as_str).collect())?;
    }
    if let Some(coincidence) = again.coincidence {
        put("coincidence", i64::from(coincidence).into())?;
    }
    let (recorder, before) = by_time(&recorded)?;
    let sources: Vec<&str> = recorder.sources.iter().map(|source| &*source.name).collect();
    let openers = again.openers.iter().map(|pattern| ("--openers", pattern));
    let offsets = again.offset.iter().map(|(pattern, _)| ("--offset", pattern));
    openers
        .chain(offsets)
        .try_for_each(|(option, pattern)| check_fits((option, pattern), &sources, run.path()))?;
    if !again.offset.is_empty() {
        let recorded = recorder.build.time.offsets.iter();
        let recorded = recorded.map(|rule| (rule.sources.as_str(), rule.offset_ns));
        let new = again.offset.iter().map(|(sources, offset)| (&**sources, offset.0));
        let rule = |(sources, ns): (&str, i64)| {
            let offset = format!("{ns} ns");
            InlineTable::from_iter([("sources", sources), ("offset", &*offset)])
        };
        put("offsets", recorded.chain(new).map(rule).collect())?;
    }
    let (recorder, time) = by_time(&config)?;
    let roles: Vec<_> = recorder.sources.iter().map(|source| source.role).collect();
    let floods = Floods::new(&time, time.opener_count(&roles), recorder.build.timeout_ns);
    let clocks = time.clocks.iter().zip(&before.clocks);
    let shifts_ns = clocks.map(|(now, then)| now.offset_ns - then.offset_ns).collect();
    let variant = variant_of(&time, again, run.header().variant);
    let before_ns = before.before_ns;
    Ok(Rebuilt { time, floods, before_ns, shifts_ns, config, variant, copy })
}

/// Checks that a pattern is one, and fits a source that the run's configuration names.
fn check_fits(
    (option, text): (&str, &str),
    sources: &[&str],
    run: &Path,
) -> Result<(), UsageError> {
    let refused = |why: String| Err(UsageError(format!("{option} {text:?}: {why}")));
    match text.parse::<Pattern>() {
        Err(error) => refused(error.to_string()),
        Ok(pattern) if sources.iter().any(|name| pattern.fits(name)) => Ok(()),
        Ok(_) => {
            let near = near_matches(text, sources).join(" or ");
            let hint = if near.is_empty() { near } else { format!("; did you mean {near}?") };
            let named = sources[..sources.len().min(NAMED_MAX)].join(", ");
            let more = match sources.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let run = run.display();
            refused(format!(
                "it fits no source of {run}; the configuration in its files names {named}{more}\
                 {hint}"
            ))
        }
    }
}

/// The number of the set of data that events are from now on: one for each window and kind. Where
/// anything else has changed, of this run or of the one that it was built from, the number of the
/// window is one that no window has, made of all that can be given.
fn variant_of(time: &TimeConfig, again: &Again, of_run: u32) -> u32 {
    const WINDOWS: u32 = 1_000_000_001;
    const BY_GAP: u32 = 1 << 30;
    let by_gap = if time.kind == WindowKind::Gap { BY_GAP } else { 0 };
    let Again { openers, coincidence, offset, .. } = again;
    let is_other = !openers.is_empty() || coincidence.is_some() || !offset.is_empty();
    let was_other = of_run >> 31 > 0 && of_run % BY_GAP >= WINDOWS;
    if !is_other && !was_other {
        // A window has less than 30 bits.
        return 1 << 31 | by_gap | time.window_ns as u32;
    }
    let opens = (0..time.clocks.len()).map(|source| u8::from(time.opens(source)));
    let offsets = time.clocks.iter().flat_map(|clock| clock.offset_ns.to_le_bytes());
    let bytes = time.window_ns.to_le_bytes().into_iter().chain(time.coincidence.to_le_bytes());
    // FNV-1a.
    let mixed = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = bytes.chain(opens).chain(offsets).fold(0x811c_9dc5, mixed);
    1 << 31 | by_gap | (WINDOWS + hash % (BY_GAP - WINDOWS))
}

fn time_offset(text: &str) -> Result<(String, Offset), String> {
    let wrong = || format!("expected sources and an offset: \"trigger=-300 ns\", got {text:?}");
    let (sources, offset) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((sources.to_owned(), offset.parse().map_err(|_| wrong())?))
}

/// Sources that are named where none fits.
const NAMED_MAX: usize = 20;

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let options = RunOptions { base: arguments.base.clone(), ..RunOptions::default() };
    let run = Run::open_with(&arguments.path, options)?;
    let exit = report_damage(&run);
    let again = arguments.again.is_given();
    let options = ReframeOptions {
        frame_ns: arguments.frame.map(|time| time.0),
        frame_bytes: arguments.frame_bytes.map(|size| size.0),
        codings: arguments.codec.map(Codings::new),
        rebuilt: again.then(|| rebuilt(&run, &arguments.again, arguments.copy)).transpose()?,
        write: arguments.files.options(),
    };
    let (folder, stop) = (NewFolder::make(&arguments.out)?, Stop::listen()?);
    let bar = progress(out, "reframing", 0);
    let report = reframe(&run, &arguments.out, &name_of(&arguments.out), &options, |done| {
        bar.set_length(done.frames_total as u64);
        bar.set_position(done.frames as u64);
        stop.go_on()
    })?;
    folder.keep();
    bar.finish_and_clear();
    say(&arguments.out, &report, &[], out)?;
    Ok(exit.and(report_left_out(&report.left_out)))
}
