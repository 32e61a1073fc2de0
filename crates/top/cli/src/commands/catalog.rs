//! `catchment catalog`: the runs of a data folder.

use std::path::{Path, PathBuf};

use catchment_catalog::{
    Catalog, CatalogError, Quality, RebuildReport, Remark, RunDetail, RunRow, RunState, Search,
    TargetSource, rebuild,
};
use catchment_console::{Exit, Out, Table, UsageError, progress};
use catchment_frame::{FileFrames, LocationKind, RunLocation};
use catchment_model::Utc;
use catchment_model::units::{Bytes, counted, grouped};
use catchment_session::who;
use catchment_telemetry::utc_now;

/// Lists, shows and searches the runs of a folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the runs
    #[arg(long, value_name = "FOLDER", default_value = "runs", global = true)]
    folder: PathBuf,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the newest runs
    Ls {
        #[command(flatten)]
        page: Page,
    },
    /// Show a run: its ledger, files and remarks
    Show {
        /// The run's number
        number: u64,
        /// Show the configuration of the run as written
        #[arg(long)]
        configuration: bool,
    },
    /// Find runs by words, time, quality, state or person
    Search(SearchArguments),
    /// Add a remark to a run, or set its quality
    Set {
        /// The run's number
        number: u64,
        /// A remark to add
        #[arg(long, value_name = "TEXT", alias = "comment")]
        remark: Option<String>,
        /// The quality of its data: unknown, good, questionable, bad, test
        #[arg(long, value_parser = quality)]
        quality: Option<Quality>,
    },
    /// Rebuild the catalogue from the runs' files; remarks and quality are preserved
    Rebuild,
}

#[derive(Debug, clap::Args)]
struct Page {
    /// The maximum number of runs
    #[arg(long, value_name = "COUNT", default_value_t = 25)]
    limit: usize,
    /// Only runs with lower numbers
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct SearchArguments {
    /// Words in remarks, comment, person, folder, identity or reason; a number finds that run
    words: Vec<String>,
    /// Only runs that had not ended before this time (UTC), such as 2026-11-21 or 2026-11-21T07:42
    #[arg(long, value_name = "TIME")]
    since: Option<Utc>,
    /// Only runs that began before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Utc>,
    /// Only runs from this number on
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// unknown, good, questionable, bad, test
    #[arg(long, value_parser = quality)]
    quality: Option<Quality>,
    /// starting, recording, complete, fault, interrupted, failed
    #[arg(long, value_parser = state)]
    state: Option<RunState>,
    /// Exactly this person
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    #[command(flatten)]
    page: Page,
}

fn quality(text: &str) -> Result<Quality, String> {
    let words = Quality::ALL.iter().map(|quality| quality.name()).collect::<Vec<_>>().join(", ");
    Quality::from_name(text).ok_or_else(|| format!("expected {words}"))
}

fn state(text: &str) -> Result<RunState, String> {
    let words = RunState::ALL.iter().map(|state| state.name()).collect::<Vec<_>>().join(", ");
    RunState::from_name(text).ok_or_else(|| format!("expected {words}"))
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let folder = arguments.folder.as_path();
    match arguments.action {
        Action::Ls { page } => list(folder, Search::default(), page, out),
        Action::Search(SearchArguments {
            words,
            since,
            until,
            from,
            quality,
            state,
            who,
            page,
        }) => {
            let text = words.join(" ");
            let search =
                Search { text, since, until, from, quality, state, who, ..Search::default() };
            list(folder, search, page, out)
        }
        Action::Show { number, configuration } => show(folder, number, configuration, out),
        Action::Set { number, remark, quality } => set(folder, number, remark, quality, out),
        Action::Rebuild => again(folder, out),
    }
}

fn list(folder: &Path, search: Search, page: Page, out: &mut Out) -> anyhow::Result<Exit> {
    if page.limit == 0 {
        anyhow::bail!(UsageError("expected --limit of at least 1, got 0".into()));
    }
    let search = Search { limit: Some(page.limit), before: page.before, ..search };
    Catalog::settle(folder);
    let (runs, next) = Catalog::open_read_only(folder)?.page(&search)?;
    if out.json {
        out.object(&serde_json::json!({ "runs": runs, "next": next }))?;
        return Ok(Exit::Done);
    }
    let mut table =
        Table::new(&["run", "state", "started", "seconds", "events", "bytes", "lost", "quality"]);
    for run in &runs {
        table.row(cells(run));
    }
    // Behind the table, since words stand to the left.
    let comment = |run: &RunRow| match (run.emulated, first_line(&run.comment)) {
        (true, line) => format!("EMULATED {line}"),
        (false, line) => line,
    };
    let words = runs.iter().map(|run| (run.who.as_str(), comment(run)));
    let words = std::iter::once(("who", "comment".to_owned())).chain(words);
    let width = words.clone().map(|(who, _)| who.chars().count()).max().unwrap_or(0);
    for (line, (who, comment)) in table.lines().into_iter().zip(words) {
        out.line(format!("{line}  {who:<width$}  {comment}").trim_end())?;
    }
    if runs.is_empty() {
        out.line("  no run is like that")?;
    }
    if let Some(next) = next {
        out.line(format_args!("  more: --before {next}"))?;
    }
    Ok(Exit::Done)
}

fn cells(run: &RunRow) -> [String; 8] {
    let count = |count: Option<u64>| count.map_or("-".to_owned(), grouped);
    let seconds = run.started.zip(run.ended).map_or("-".to_owned(), |(start, end)| {
        grouped(end.0.saturating_sub(start.0) / 1_000_000_000)
    });
    [
        run.number.to_string(),
        run.outcome().to_owned(),
        run.started.or(Some(run.taken)).map(moment).unwrap_or_default(),
        seconds,
        count(run.events),
        run.bytes.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string()),
        lost(run).map_or("-".to_owned(), |(count, more)| format!("{count}{more}")),
        run.quality.name().to_owned(),
    ]
}

/// What a run lost; with a plus where that is a lower bound, since the last packets that an
/// interrupted recorder received were not counted.
fn lost(run: &RunRow) -> Option<(String, &'static str)> {
    let interrupted = run.state == RunState::Interrupted;
    run.loss_count.map(|count| (grouped(count), if interrupted { "+" } else { "" }))
}

/// A time as people read it: `2026-11-21 07:42:23`.
fn moment(time: Utc) -> String {
    let text = time.to_string();
    text.split('.').next().unwrap_or_default().replace('T', " ")
}

fn first_line(comment: &str) -> String {
    let line = comment.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(COMMENT_CHARS_SHOWN).collect();
    if short.len() < comment.len() {
        short.push_str(" ...");
    }
    short.replace('\t', " ")
}

fn show(folder: &Path, number: u64, text: bool, out: &mut Out) -> anyhow::Result<Exit> {
    Catalog::settle(folder);
    let mut catalog = Catalog::open_read_only(folder)?;
    let mut detail = catalog.run(number)?;
    if detail.run.state == RunState::Interrupted && detail.run.events.is_none() {
        // The run's outcome has not been determined yet. If it cannot be entered, it stays unknown.
        drop(catalog);
        Catalog::open(folder).ok();
        catalog = Catalog::open_read_only(folder)?;
        detail = catalog.run(number)?;
    }
    if text {
        let version = detail.run.configuration;
        let Some(version) = version else {
            anyhow::bail!("run {number} has no configuration in the catalogue")
        };
        let configuration = catalog.configuration(version)?;
        if out.json {
            out.object(&configuration)?;
        } else {
            out.text(&configuration.text)?;
        }
        return Ok(Exit::Done);
    }
    let (frames, copies) = (catalog.frames(number)?, catalog.copies(number)?);
    if out.json {
        let mut object = serde_json::to_value(&detail)?;
        object["frame_list"] = serde_json::to_value(&frames)?;
        object["copies"] = serde_json::to_value(&copies)?;
        out.object(&object)?;
        return Ok(Exit::Done);
    }
    say(&catalog, &detail, out)?;
    for copy in &copies {
        out.line(format_args!(
            "  copy of file {}: {}, {}, {}",
            copy.file,
            copy.location,
            Bytes(copy.bytes),
            copy.checksum
        ))?;
    }
    Ok(Exit::Done)
}

fn say(catalog: &Catalog, detail: &RunDetail, out: &mut Out) -> anyhow::Result<()> {
    let run = &detail.run;
    let reason = run.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    out.line(format_args!("run {} ({}{reason})", run.number, run.outcome()))?;
    let time = |time: Option<Utc>| time.map_or("-".to_owned(), moment);
    out.line(format_args!("  time           {} to {} UTC", time(run.started), time(run.ended)))?;
    if let Some(folder) = catalog.folder_of(run) {
        out.line(format_args!("  folder         {}", folder.display()))?;
    }
    if let Some(id) = run.id {
        out.line(format_args!("  identity       {id}"))?;
    }
    if let Some(number) = run.number_in_files {
        out.line(format_args!("  in its files   number {number}"))?;
    }
    if run.emulated {
        out.line("  EMULATED       these are no detector's data")?;
    }
    out.line(format_args!("  who            {}", run.who))?;
    out.line(format_args!("  quality        {}", run.quality))?;
    if let Some(version) = run.configuration {
        out.line(format_args!("  configuration  {version}"))?;
    }
    for (index, line) in run.comment.lines().enumerate() {
        let what = if index == 0 { "comment" } else { "" };
        out.line(format_args!("  {what:<13}  {line}"))?;
    }
    for remark in &detail.remarks {
        let kind = Some(remark.kind.as_str()).filter(|&kind| kind != Remark::ALONE);
        let source = [Some(remark.who.as_str()).filter(|who| !who.is_empty()), kind];
        let source = source.into_iter().flatten().collect::<Vec<_>>().join(", ");
        out.line(format_args!("  remark         {} UTC, {source}", moment(remark.time)))?;
        for line in remark.text.lines() {
            out.line(format_args!("                   {line}"))?;
        }
    }
    if let Some((count, more)) = lost(run) {
        let words = match more {
            "" => "",
            _ => ": at least, since what its recorder received last was not counted",
        };
        out.line(format_args!("  lost           {count}{more}{words}"))?;
    }
    for (entry, count) in &detail.ledger {
        out.line(format_args!("  {entry:<32} {:>18}", grouped(*count)))?;
    }
    for location in &detail.locations {
        out.line(format_args!("  at             {}", location_line(location)))?;
        for files in &location.file_frames {
            out.line(format_args!("                 {}", files_line(&location.name, files)))?;
        }
    }
    for line in target_lines(&detail.targets) {
        out.line(line)?;
    }
    if !detail.file_rows.is_empty() {
        let mut table = Table::new(&["file", "bytes", "frames", "events", "closed"]);
        for file in &detail.file_rows {
            let closed = if file.closed { "yes" } else { "no" };
            let bytes = Bytes(file.bytes).to_string();
            let (frames, events) = (grouped(file.frames), grouped(file.events));
            table.row([file.name.clone(), bytes, frames, events, closed.to_owned()]);
        }
        for line in table.lines() {
            out.line(line)?;
        }
    }
    Ok(())
}

/// What became of each source's fragments in each target, if that is known.
fn target_lines(targets: &[TargetSource]) -> Vec<String> {
    const RECORDED: &str = "fragments_recorded";
    const DURABLE: &str = "fragments_durable";
    let mut table = Table::new(&["target", "source", "recorded", "durable", "other"]);
    for TargetSource { target, source, entries } in targets {
        let count = |entry: &str| grouped(entries.get(entry).copied().unwrap_or(0));
        let others =
            entries.iter().filter(|(entry, _)| ![RECORDED, DURABLE].contains(&entry.as_str()));
        let others = others.map(|(entry, count)| format!("{entry} {}", grouped(*count)));
        let others = others.collect::<Vec<_>>().join(", ");
        table.row([target.clone(), source.clone(), count(RECORDED), count(DURABLE), others]);
    }
    if targets.is_empty() { Vec::new() } else { table.lines() }
}

/// Which frames are in a file of a storage node, or in several.
fn files_line(name: &str, files: &FileFrames) -> String {
    let FileFrames { first_file, last_file, files, first_frame, last_frame } = files;
    let mut line = format!("{name}-{first_file:05}.catch");
    if first_file != last_file {
        line += &format!(" to {last_file:05}, {}", counted(u64::from(*files), "file"));
    }
    line + &format!(": frames {} to {}", grouped(*first_frame), grouped(*last_frame))
}

/// Where frames of a run were sent, and what is there.
fn location_line(location: &RunLocation) -> String {
    let RunLocation { target, address, name, frames, bytes, .. } = location;
    let mut line = match location.kind {
        LocationKind::Folder => format!("{target}: {address}/{name}"),
        LocationKind::Node => format!("{target}: storage node {address}, {name}"),
        LocationKind::Spill => format!("{target}: spill {address}/{name}"),
    };
    if !location.required {
        line += ", best effort";
    }
    if let Some(frames) = frames {
        line += &format!(", {}", counted(*frames, "frame"));
    }
    if let Some((first, last)) = location.first_frame.zip(location.last_frame) {
        line += &format!(" from {} to {}", grouped(first), grouped(last));
    }
    if let Some(bytes) = bytes {
        line += &format!(", {}", Bytes(*bytes));
    }
    if location.kind == LocationKind::Spill && frames.is_some() {
        line += ", which waited there when the run ended";
    }
    let ranges = location.files.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    let ranges: Vec<String> = ranges.collect();
    if ranges.is_empty() { line } else { line + ", files " + &ranges.join(", ") }
}

fn set(
    folder: &Path,
    number: u64,
    remark: Option<String>,
    quality: Option<Quality>,
    out: &mut Out,
) -> anyhow::Result<Exit> {
    if remark.is_none() && quality.is_none() {
        anyhow::bail!(UsageError("expected --remark or --quality".into()));
    }
    let usage = |error: CatalogError| match error {
        CatalogError::Text { .. } => anyhow::Error::new(UsageError(error.to_string())),
        error => error.into(),
    };
    // To change what is there, not to make a catalogue where there is none.
    drop(Catalog::open_read_only(folder)?);
    let mut catalog = Catalog::open(folder)?;
    if let Some(text) = remark {
        let remark = Remark { time: utc_now(), kind: Remark::ALONE.into(), who: who(), text };
        catalog.add_remark(number, &remark).map_err(usage)?;
    }
    if let Some(quality) = quality {
        catalog.set_quality(number, quality)?;
    }
    if out.json {
        out.object(&catalog.run(number)?)?;
    }
    Ok(Exit::Done)
}

fn again(folder: &Path, out: &mut Out) -> anyhow::Result<Exit> {
    let bar = progress(out, "reading runs", 0);
    let report = rebuild(folder, |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    if out.json {
        out.object(&report)?;
    } else {
        say_rebuilt(&report, out)?;
    }
    // Remarks of some runs may be lost.
    let whole = report.old_catalog.is_none() && report.problems.is_empty();
    Ok(if whole { Exit::Done } else { Exit::Loss })
}

fn say_rebuilt(report: &RebuildReport, out: &mut Out) -> anyhow::Result<()> {
    out.line(format_args!(
        "{} runs, {} of them with files here; the highest number is {}.",
        grouped(report.runs as u64),
        grouped(report.runs_with_files as u64),
        report.highest_number
    ))?;
    for number in &report.interrupted {
        out.line(format_args!("  run {number} was interrupted"))?;
    }
    for run in &report.renumbered {
        let number = match run.number_in_files {
            0 => "have no number".to_owned(),
            number => format!("say {number}, which is another run's"),
        };
        out.line(format_args!("  run {} is {}: its files {number}", run.number, run.folder))?;
    }
    for problem in &report.problems {
        out.line(format_args!("  {problem}"))?;
    }
    if let Some(problem) = &report.old_catalog {
        out.line(format_args!("  the old catalogue could not be read in full: {problem}"))?;
    }
    if let Some(path) = &report.kept_as {
        out.line(format_args!("  the old catalogue is kept as {}", path.display()))?;
    }
    Ok(())
}

const COMMENT_CHARS_SHOWN: usize = 40;
