//! `catchment inspect`: what stands in a file or a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use catchment_console::{Exit, Out, Table, progress};
use catchment_model::Ledger;
use catchment_model::units::{Bytes, Count, counted, grouped};
use catchment_session::{Balance, entries, loss_reasons, malformed_reasons};
use catchment_storage::{ColumnStorage, Extent, FileInfo, Run, RunOptions, VerifyReport, verify};
use serde_json::{Value, json};

/// Shows header, files, frames, sources and ledger of a run. --verify reads everything and exits
/// with 1 if anything is broken or missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A run's folder, or a .catch file; or several folders of one run, which are read as one
    #[arg(value_name = "FILE|RUN", required = true)]
    paths: Vec<PathBuf>,
    /// Where the run is that has the payload, if events were built again without it and the run is
    /// not where the files say
    #[arg(long, value_name = "RUN")]
    base: Option<PathBuf>,
    /// Check every checksum, and that columns fit each other
    #[arg(long)]
    verify: bool,
    /// Show every frame
    #[arg(long)]
    frames: bool,
    /// Show every source: what is recorded of it, and how its payload is stored
    #[arg(long)]
    sources: bool,
    /// Show every channel: type, rate, time, and how its columns are stored
    #[arg(long)]
    channels: bool,
    /// Show only the configuration of the run
    #[arg(long)]
    config: bool,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let options = RunOptions { base: arguments.base, ..RunOptions::default() };
    let run = Run::open_folders(&arguments.paths, options)?;
    if arguments.config && !out.json {
        out.text(run.config())?;
        return Ok(Exit::Done);
    }
    let verified = arguments.verify.then(|| verify_with_bar(&run, out));
    let intact = verified.as_ref().is_none_or(VerifyReport::is_intact);
    if out.json {
        out.object(&object(&run, verified.as_ref())?)?;
    } else {
        say_run(&run, out)?;
        if arguments.sources {
            say_sources(&run, out)?;
        }
        if arguments.channels {
            say_channels(&run, out)?;
        }
        if arguments.frames {
            say_frames(&run, out)?;
        }
        if let Some(report) = &verified {
            say_verified(report, out)?;
        }
    }
    Ok(if intact { Exit::Done } else { Exit::Failed })
}

fn verify_with_bar(run: &Run, out: &Out) -> VerifyReport {
    let bar = progress(out, "verifying", 0);
    let report = verify(run, |at| {
        bar.set_length(at.total_bytes);
        bar.set_position(at.done_bytes);
    });
    bar.finish_and_clear();
    report
}

fn say_run(run: &Run, out: &mut Out) -> anyhow::Result<()> {
    let header = run.header();
    for path in run.paths() {
        out.line(path.display())?;
    }
    out.line(format_args!("  run      {} (number {})", header.run, header.run_number))?;
    out.line(format_args!("  written  by {}", header.writer))?;
    if let Some(base) = run.base_path() {
        out.line(format_args!("  base     {} has the payload", base.display()))?;
    }
    if header.emulated {
        out.line("  EMULATED these are no detector's data")?;
    }
    let groups = groups(run);
    let groups: Vec<String> =
        groups.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let absent = run.sources().iter().filter(|source| !source.stored).count();
    let stored = run.sources().len() - absent;
    let not_stored = |count: usize| match count {
        0 => String::new(),
        count => format!(", {} not stored here", grouped(count as u64)),
    };
    let absent = not_stored(absent);
    out.line(format_args!("  sources  {stored} ({}){absent}", groups.join(", ")))?;
    if !run.channels().is_empty() {
        let frames = run.channel_frames();
        let start = frames.iter().map(|frame| frame.summary.info.time_first_ns).min().unwrap_or(0);
        let end = frames.iter().map(|frame| frame.summary.info.time_last_ns).max().unwrap_or(0);
        out.line(format_args!(
            "  channels {} in {} frames over {:.1} s{}",
            grouped(run.channels().len() as u64),
            grouped(frames.len() as u64),
            end.saturating_sub(start) as f64 / 1e9,
            not_stored(run.channels_not_stored().len())
        ))?;
    }
    let seconds = seconds(run);
    let events = run.event_count();
    out.line(format_args!(
        "  events   {} in {} frames over {seconds:.1} s, {}/s",
        grouped(events),
        grouped(run.frames().len() as u64),
        Count(if seconds > 0.0 { events as f64 / seconds } else { 0.0 })
    ))?;
    for (group, stored) in stored_groups(run)? {
        out.line(format_args!("  stored   {group}: {}", stored_text(&stored)))?;
    }
    for file in run.files() {
        let (bytes, state) = (Bytes(file.bytes), closing(&file));
        out.line(format_args!("  file     {} {bytes}, {state}", file.path.display()))?;
    }
    for problem in run.problems() {
        out.line(format_args!("  problem  {problem}"))?;
    }
    say_ledger(run, out)
}

fn say_ledger(run: &Run, out: &mut Out) -> anyhow::Result<()> {
    match run.recorded_ledger()? {
        None => out.line("  ledger   none: the run is not closed; audit recomputes it")?,
        Some(ledger) => {
            if run.paths().len() > 1 {
                out.line(format_args!("  ledger   of {}", run.ledger_path().display()))?;
            }
            let total = ledger.total();
            let balance = ledger.balance();
            for (entry, count) in total.iter().filter(|&(_, count)| count > 0) {
                out.line(format_args!("  {:<32} {:>18}", entry.name(), grouped(count)))?;
            }
            say_malformed(run, &ledger, out)?;
            let reasons = loss_reasons(&ledger);
            // Only the end of the run has all that came in behind it.
            let judged = run.ended();
            if !judged {
                let in_flight = balance.fragments_in_flight;
                out.line(format_args!("  {in_flight} fragments in flight: not the run's end"))?;
            }
            out.line(match (balance.holds(), reasons.is_empty()) {
                (false, _) if judged => "  THE LEDGER DOES NOT BALANCE".to_owned(),
                // A copy has no ledger of what its original run lacked.
                (_, true) if judged && run.lost_data() => {
                    "  data were lost, here or in the run that this was made from".to_owned()
                }
                (_, true) if judged => "  nothing was lost".to_owned(),
                (_, true) => "  no other loss is counted".to_owned(),
                (_, false) => format!("  lost: {reasons}"),
            })?;
        }
    }
    Ok(())
}

/// The malformed packets by the reasons of their sources' protocols.
fn say_malformed(run: &Run, ledger: &Ledger, out: &mut Out) -> anyhow::Result<()> {
    for (source, counts) in run.sources().iter().zip(&ledger.sources) {
        for (reason, count) in malformed_reasons(source, counts) {
            out.line(format_args!("    malformed from {}: {reason} {count}", source.name))?;
        }
    }
    Ok(())
}

fn say_sources(run: &Run, out: &mut Out) -> anyhow::Result<()> {
    let heads = ["source", "number", "group", "protocol", "required", "recorded", "raw", "stored"];
    let mut table = Table::new(&[&heads[..], &["codecs"]].concat());
    let ledger = run.recorded_ledger()?;
    for (index, source) in run.sources().iter().enumerate() {
        let stored = run.stored_payload(index)?.unwrap_or_default();
        let counts = ledger.as_ref().and_then(|ledger| ledger.sources.get(source.id as usize));
        let recorded = counts.map(|counts| counts[catchment_model::Entry::FragmentsRecorded]);
        table.row([
            source.name.clone(),
            source.id.to_string(),
            source.group.clone(),
            source.protocol.clone(),
            match (source.stored, source.required) {
                (false, _) => "not stored",
                (true, true) => "yes",
                (true, false) => "no",
            }
            .to_owned(),
            recorded.map_or("-".to_owned(), grouped),
            Bytes(stored.raw_bytes).to_string(),
            Bytes(stored.stored_bytes).to_string(),
            codings_text(&stored.codings),
        ]);
    }
    table.lines().iter().try_for_each(|line| out.line(line))?;
    Ok(())
}

fn say_channels(run: &Run, out: &mut Out) -> anyhow::Result<()> {
    let heads = ["channel", "type", "rate", "unit", "samples", "gaps", "raw", "stored", "codecs"];
    let mut table = Table::new(&heads);
    for index in 0..run.channels().len() {
        let stored = Stored::of(run, index)?;
        let info = &run.channels()[index];
        let shape = if info.shape.is_empty() { String::new() } else { format!("{:?}", info.shape) };
        table.row([
            info.name.clone(),
            format!("{}{shape}", info.dtype.name()),
            info.rate.to_string(),
            info.unit.clone(),
            grouped(stored.samples),
            stored.gaps.to_string(),
            Bytes(stored.raw_bytes).to_string(),
            Bytes(stored.stored_bytes).to_string(),
            codings_text(&stored.codecs),
        ]);
    }
    table.lines().iter().try_for_each(|line| out.line(line))?;
    Ok(())
}

/// A channel's samples and their storage, from the index.
#[derive(Default, serde::Serialize)]
struct Stored {
    samples: u64,
    gaps: u64,
    raw_bytes: u64,
    stored_bytes: u64,
    /// Columns by what made them.
    codecs: BTreeMap<String, u64>,
}

impl Stored {
    fn of(run: &Run, index: usize) -> anyhow::Result<Self> {
        let Some(channel) = run.channel_at(index) else { return Ok(Self::default()) };
        let ColumnStorage { raw_bytes, stored_bytes, codings: codecs } =
            run.stored(channel.info().id)?;
        let mut stored = Self { samples: 0, gaps: 0, raw_bytes, stored_bytes, codecs };
        let mut end = None;
        for piece in channel.pieces()? {
            stored.samples += piece.samples;
            stored.gaps += u64::from(end.is_some_and(|end| end != piece.first_sample));
            end = Some(piece.end_sample());
        }
        Ok(stored)
    }
}

/// `bitshuffle+lz4`, or `bitshuffle+lz4 12, none 3` where columns differ.
fn codings_text(codings: &BTreeMap<String, u64>) -> String {
    let single = codings.len() == 1;
    let text = |(coding, count): (&String, &u64)| match single {
        true => coding.clone(),
        false => format!("{coding} {count}"),
    };
    codings.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn say_frames(run: &Run, out: &mut Out) -> anyhow::Result<()> {
    let heads = ["frame", "kind", "file", "offset", "bytes", "columns", "rows", "first", "last"];
    let mut table = Table::new(&heads);
    let kinds = [("events", run.frames()), ("channels", run.channel_frames())];
    for (kind, frames) in kinds {
        for (index, frame) in frames.iter().enumerate() {
            let (summary, info) = (&frame.summary, &frame.summary.info);
            table.row([
                index.to_string(),
                kind.to_owned(),
                frame.file.to_string(),
                summary.offset.to_string(),
                summary.frame_bytes.to_string(),
                summary.column_count.to_string(),
                info.rows.to_string(),
                info.key_first.to_string(),
                info.key_last.to_string(),
            ]);
        }
    }
    table.lines().iter().try_for_each(|line| out.line(line))?;
    Ok(())
}

fn say_verified(report: &VerifyReport, out: &mut Out) -> anyhow::Result<()> {
    out.line(format_args!(
        "  verified {} columns of {} frames in {} file(s), {}: {}",
        grouped(report.columns),
        grouped(report.frames),
        report.files,
        Bytes(report.bytes),
        match (report.problem_count, report.frames_missing) {
            (0, 0) => "all intact",
            (0, _) => "INCOMPLETE: frames are missing",
            _ => "NOT INTACT",
        }
    ))?;
    for path in &report.unclosed {
        let file = path.display();
        out.line(format_args!("  unclosed {file}: read up to its last whole frame"))?;
    }
    match report.extent {
        Extent::Ended | Extent::Growing | Extent::Part => {}
        Extent::Interrupted => out.line(
            "  the run was interrupted: what reached its recorder after the last frame is lost",
        )?,
        Extent::Unknown => out.line(format_args!("  {UNKNOWN_EXTENT}"))?,
    }
    for problem in report.problems.iter().take(20) {
        let location: Vec<String> = [
            Some(problem.file.display().to_string()),
            problem.frame.map(|frame| format!("frame {frame}")),
            problem.column.as_ref().map(|kind| match &problem.channel {
                // Its kind is "channel".
                Some(name) => format!("{kind} {name}"),
                None => kind.clone(),
            }),
            problem.source.as_ref().map(|source| format!("source {source}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        out.line(format_args!("  broken   {}: {}", location.join(", "), problem.problem))?;
    }
    if report.frames_missing > 0 {
        let frames = counted(report.frames_missing, "frame");
        out.line(format_args!("  missing  {frames}, by the numbers of those that are there"))?;
    }
    Ok(())
}

fn object(run: &Run, verified: Option<&VerifyReport>) -> anyhow::Result<Value> {
    let header = run.header();
    let ledger = run.recorded_ledger()?;
    let sources: anyhow::Result<Vec<Value>> = run
        .sources()
        .iter()
        .enumerate()
        .map(|(index, source)| {
            let stored = run.stored_payload(index)?.map(|stored| {
                json!({
                    "raw_bytes": stored.raw_bytes, "stored_bytes": stored.stored_bytes,
                    "codecs": stored.codings,
                })
            });
            let counts = ledger.as_ref().and_then(|ledger| ledger.sources.get(source.id as usize));
            Ok(json!({
                "name": source.name, "group": source.group, "protocol": source.protocol,
                "required": source.required, "ledger": counts.map(entries), "stored": stored,
                "malformed_reasons": counts.map(|counts| malformed_reasons(source, counts)),
            }))
        })
        .collect();
    let channels: anyhow::Result<Vec<Value>> = (0..run.channels().len())
        .map(|index| {
            let info = &run.channels()[index];
            Ok(json!({
                "name": info.name, "dtype": info.dtype.name(), "shape": info.shape,
                "rate": [info.rate.num(), info.rate.den()], "unit": info.unit,
                "time_scale": info.time_scale.name(), "scale": info.scale,
                "offset": info.offset, "stored": Stored::of(run, index)?,
            }))
        })
        .collect();
    let files: Vec<Value> = run
        .files()
        .map(|file| {
            json!({
                "path": file.path, "bytes": file.bytes, "frames": file.frames,
                "closed": file.closed, "data_lost": file.flags.map(|flags| flags.data_lost),
            })
        })
        .collect();
    Ok(json!({
        "path": run.path(), "paths": run.paths(), "ledger_path": run.ledger_path(),
        "run": header.run.to_string(),
        "run_number": header.run_number, "emulated": header.emulated,
        "writer": header.writer,
        "created_ns": header.created_ns,
        "config": run.config(),
        "closed": run.closed(),
        "ended": run.ended(),
        "events": run.event_count(),
        "frames": run.frames().len(),
        "files": files,
        "stored": stored_groups(run)?.into_iter().map(|(group, stored)| json!({
            "group": group, "raw_bytes": stored.raw_bytes, "stored_bytes": stored.stored_bytes,
            "codecs": stored.codings,
        })).collect::<Vec<_>>(),
        "sources": sources?,
        "channels": channels?,
        "channel_frames": run.channel_frames().len(),
        "books": ledger.as_ref().map(|ledger| Balance { judged: run.ended(), ..Balance::of(ledger) }),
        "problems": run.problems().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "verified": verified,
    }))
}

fn groups(run: &Run) -> Vec<(&str, usize)> {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for source in run.sources().iter().filter(|source| source.stored) {
        match groups.iter_mut().find(|(name, _)| *name == source.group) {
            Some((_, count)) => *count += 1,
            None => groups.push((&source.group, 1)),
        }
    }
    groups
}

/// How the payload of each group's sources, and the samples of its channels, are stored.
fn stored_groups(run: &Run) -> anyhow::Result<Vec<(&str, ColumnStorage)>> {
    let mut groups: Vec<(&str, ColumnStorage)> = Vec::new();
    let mut add = |name, stored: ColumnStorage| {
        if stored.raw_bytes == 0 {
            return;
        }
        let index = groups.iter().position(|(group, _)| *group == name).unwrap_or_else(|| {
            groups.push((name, ColumnStorage::default()));
            groups.len() - 1
        });
        let sum = &mut groups[index].1;
        sum.raw_bytes += stored.raw_bytes;
        sum.stored_bytes += stored.stored_bytes;
        for (coding, columns) in stored.codings {
            *sum.codings.entry(coding).or_default() += columns;
        }
    };
    for (index, source) in run.sources().iter().enumerate() {
        add(&source.group, run.stored_payload(index)?.unwrap_or_default());
    }
    for channel in run.channels() {
        let link = channel.source.and_then(|id| run.sources().iter().find(|one| one.id == id));
        add(link.map_or("channels", |link| &link.group), run.stored(channel.id)?);
    }
    Ok(groups)
}

/// What was saved, and by what: `107 MB as 64.2 MB (60 %), columns: for 30, none 2`.
fn stored_text(stored: &ColumnStorage) -> String {
    let ColumnStorage { raw_bytes, stored_bytes, codings } = stored;
    let (raw, percent) = (Bytes(*raw_bytes), *stored_bytes as f64 * 100.0 / *raw_bytes as f64);
    let codings: Vec<String> =
        codings.iter().map(|(coding, columns)| format!("{coding} {columns}")).collect();
    let (stored, codings) = (Bytes(*stored_bytes), codings.join(", "));
    format!("{raw} as {stored} ({percent:.0} %), columns: {codings}")
}

/// From the first event's arrival to the last one's.
fn seconds(run: &Run) -> f64 {
    let infos = || run.frames().iter().map(|frame| &frame.summary.info);
    let first = infos().map(|info| info.time_first_ns).min().unwrap_or(0);
    let last = infos().map(|info| info.time_last_ns).max().unwrap_or(0);
    last.saturating_sub(first) as f64 / 1e9
}

fn closing(file: &FileInfo<'_>) -> &'static str {
    match file.flags {
        None if file.locked => "not closed: it is being recorded",
        None => "NOT CLOSED: killed, truncated, or the disk was full; `catchment repair` closes it",
        Some(flags) if flags.repaired => "closed by repair",
        Some(flags) if flags.run_ended => "closed, the run's end",
        Some(_) => "closed",
    }
}

/// Printed for a run whose list of files may be incomplete.
pub(crate) const UNKNOWN_EXTENT: &str = "Whether files are missing behind the last one cannot be known: it \
     is not the run's end, and the run has no list of its files.";
