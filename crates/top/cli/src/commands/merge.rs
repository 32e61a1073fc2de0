//! `catchment merge`: one folder, or one file, of a run's files from several folders.

use std::path::{Path, PathBuf};

use catchment_console::{Exit, Out, Stop, UsageError, complain, progress};
use catchment_frame::Numbering;
use catchment_model::units::{counted, grouped};
use catchment_storage::{MergeReport, Run, RunOptions, WriteOptions, merge};

use crate::commands::audit::ranges_of;
use crate::commands::reframe::{Files, name_of, say};
use crate::export::part::NewFolder;
use crate::export::with_suffix;
use crate::left_out::{report_left_out, shortened};

/// Makes one folder of a run's files from several: those of a target's disks, of several targets,
/// of storage nodes, of nodes that shared the run.
///
/// Each frame is copied once and in order, its columns as they are stored, after their checksums
/// were checked; where a copy is damaged, an intact one is taken. A column that is damaged in all
/// copies is copied as it is, and named with its frame: the rest of the frame can be read, and
/// readers of the new files find the damage. Nothing is overwritten, and the folder gets its name
/// when it is whole. Exits with 3 if frames or files of the run are missing, or what is damaged has
/// no intact copy: what is there is merged all the same. The sources are not changed. Trends are
/// merged, too: each row from the first folder in which it can be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folders of one run, or .catch files of it
    #[arg(value_name = "RUN", required = true)]
    paths: Vec<PathBuf>,
    /// The new folder; it must not be there
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// Where the run is that has the payload, if events were built again without it and the run is
    /// not where the files say; the new files say that it is there
    #[arg(long, value_name = "RUN")]
    base: Option<PathBuf>,
    /// Make one file, however long
    #[arg(long, conflicts_with_all = ["file_bytes", "file_time"])]
    one_file: bool,
    #[command(flatten)]
    files: Files,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let Arguments { paths, to, base, one_file, files } = arguments;
    // Without a slash at its end.
    let to: PathBuf = to.components().collect();
    let run = Run::open_folders(&paths, RunOptions { base, ..RunOptions::default() })?;
    let options = match one_file {
        true => WriteOptions { file_bytes: UNLIMITED, toc_bytes: UNLIMITED, ..files.options() },
        false => files.options(),
    };
    if to.exists() {
        return Err(UsageError(format!("{} is there already", to.display())).into());
    }
    let part = with_suffix(&to, ".part");
    let (folder, stop) = (NewFolder::make(&part)?, Stop::listen()?);
    let bar = progress(out, "merging", 0);
    let report = merge(&run, &part, &name_of(&to), &options, |done| {
        bar.set_length(done.frames_total as u64);
        bar.set_position(done.frames as u64);
        stop.go_on()
    })?;
    folder.name(&to)?;
    bar.finish_and_clear();
    tell(&run, &to, &report, out)
}

/// Says what was merged, and what is missing.
fn tell(run: &Run, to: &Path, report: &MergeReport, out: &mut Out) -> anyhow::Result<Exit> {
    let lines = |lines: &[String]| serde_json::Value::from(lines.to_vec());
    let problems = run.problems().iter().map(ToString::to_string).collect::<Vec<_>>();
    let more = [
        ("files_read", report.files.into()),
        ("copies_left", report.copies_left.into()),
        ("replaced", lines(&report.replaced)),
        ("frames_damaged", report.frames_damaged.into()),
        ("damaged", lines(&report.damaged)),
        ("frames_missing", report.frames_missing.into()),
        ("missing", serde_json::to_value(&report.missing)?),
        ("problems", lines(&problems)),
        ("left_out", lines(&report.write.left_out)),
        ("ended", report.ended.into()),
        ("data_lost", report.data_lost.into()),
        ("trend_rows", report.trend_rows.into()),
    ];
    say(to, &report.write, &more, out)?;
    let files = counted(report.files, "file");
    let copies = grouped(report.copies_left);
    out.say(format!("  from {files}; copies of frames that were left: {copies}"))?;
    if report.trend_rows > 0 {
        out.say(format!("  and {} of trends", counted(report.trend_rows, "row")))?;
    }
    for line in shortened(&report.replaced) {
        complain(format_args!("replaced: {line}"));
    }
    for line in shortened(&report.damaged) {
        complain(format_args!("damaged, and copied as it is: {line}"));
    }
    let mut exit = report_left_out(&report.write.left_out);
    if report.frames_damaged > 0 {
        let frames = counted(report.frames_damaged, "frame");
        complain(format_args!(
            "{frames} with damage that no copy is without; the rest can be read"
        ));
        exit = exit.and(Exit::Loss);
    }
    // Where each file has numbers of its own, these do not tell of a file that is gone.
    let is_by_file = run.header().numbering == Numbering::File;
    let is_file_missing = is_by_file && !run.damage().is_empty();
    let is_missing = report.frames_missing > 0 || !report.ended || is_file_missing;
    if is_missing {
        shortened(&run.damage()).for_each(complain);
        exit = exit.and(Exit::Loss);
    }
    if report.frames_missing > 0 {
        let (frames, ranges) =
            (counted(report.frames_missing, "frame"), ranges_of(&report.missing));
        complain(format_args!("missing in all that was given: {frames} ({ranges})"));
    }
    if !report.ended {
        let why = match run.end_elsewhere() {
            Some(end) => format!(
                "its end is in {}, and not in {}, which has the most of it and whose counts are \
                 the run's",
                end.display(),
                run.ledger_path().display()
            ),
            None => "its end is in none of these files".to_owned(),
        };
        complain(format_args!("THE RUN IS NOT COMPLETE: {why}"));
    }
    Ok(exit)
}

/// More than any file has, and less than sums of sizes can hold.
const UNLIMITED: u64 = u64::MAX >> 2;
