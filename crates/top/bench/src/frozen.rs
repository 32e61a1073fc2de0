//! hades-90 to two folders while one of them, or both, are frozen for a while: a best-effort one
//! for a minute, the required one for five seconds of it.
//!
//! Each folder is a file system of its own in a file on the scratch disk (a loop mount), so that
//! `fsfreeze` stops it and nothing else. That needs root; without it, the rows say so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::Context;
use catchment_config::Rate;
use catchment_console::ConsoleError;
use catchment_recorder::{RecorderConfig, TargetConfig};
use catchment_storage::Run;
use serde::Serialize;

use crate::Bench;
use crate::point::{Load, Point, measure_in};
use crate::report::{Section, bytes, table};
use crate::search::{Plan, Try};
use crate::soak::{is_closed, sorted};

/// Which folders are frozen, and when: from and to, as shares of the recording's time.
#[derive(Clone, Copy, Debug)]
struct Freeze {
    name: &'static str,
    best_effort: Option<[f64; 2]>,
    required: Option<[f64; 2]>,
}

const FREEZES: [Freeze; 2] = [
    Freeze { name: "the best-effort one is frozen", best_effort: Some([0.1, 0.9]), required: None },
    Freeze {
        name: "it is frozen, and the required one stalls meanwhile",
        best_effort: Some([0.1, 0.9]),
        required: Some([0.3, 0.3 + 1.0 / 15.0]),
    },
];
/// A minute of it is frozen.
const SECONDS: f64 = 75.0;
const MEMORY_BYTES: u64 = 8 << 30;
/// What a folder may hold: files go as they are closed, but what is frozen keeps them.
const FOLDER_BYTES: u64 = 12 << 30;
const FILE_BYTES: u64 = 1 << 30;
/// How often closed files are looked for.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Serialize)]
pub(crate) struct Frozen {
    name: &'static str,
    #[serde(flatten)]
    point: Point,
}

/// Records at half of the highest rate at which both folders take everything; the search begins at
/// `hz`.
pub(crate) fn run(bench: &mut Bench<'_>, hz: f64) -> anyhow::Result<(Section, Vec<Frozen>)> {
    let made = !bench.scratch.exists();
    std::fs::create_dir_all(&bench.scratch)?;
    let mut found = Vec::new();
    let ended = record_all(bench, hz, &mut found);
    if made {
        std::fs::remove_dir(&bench.scratch).ok();
    }
    let why = match ended {
        Ok(true) => None,
        Ok(false) => Some("No rate was found at which both folders take everything.".to_owned()),
        Err(error) if error.is::<NotMounted>() || is_no_space(&error) => {
            Some(format!("Not run{}: {error}.", if found.is_empty() { "" } else { " further" }))
        }
        Err(error) => return Err(error),
    };
    let of = |one: &Frozen, name: &str, figure: fn(&crate::point::Share) -> u64| {
        let share = one.point.targets.iter().find(|target| target.name == name);
        bytes(share.map_or(0, figure) as f64)
    };
    let rows = table(
        &found,
        &[
            ("while", &|one| one.name.to_owned()),
            ("bytes/s", &|one| bytes(one.point.bytes_per_second)),
            ("required", &|one| of(one, "required", |share| share.recorded_bytes)),
            ("best effort", &|one| of(one, "best-effort", |share| share.recorded_bytes)),
            ("not taken", &|one| of(one, "best-effort", |share| share.not_taken_bytes)),
            ("memory", &|one| bytes(one.point.segments_bytes as f64)),
            ("lost", &|one| if one.point.whole { "nothing" } else { "**data**" }.to_owned()),
        ],
    );
    let mut section = Section::new("While targets are frozen", rows).note(
        "Half of the highest rate at which both folders take everything, with a memory budget of \
         8 GiB; files are removed as they are closed. The best-effort folder is frozen (fsfreeze \
         on a loop mount) for 60 of 75 s, the required one for 5 s. Not taken: what the \
         best-effort one did not get, as its ledger counts it. Memory: chunks at their fullest.",
    );
    if let Some(why) = why {
        section = section.note(why);
    }
    Ok((section, found))
}

/// Adds a row for each freeze, as long as there is room. Returns whether there is a rate for them.
fn record_all(bench: &mut Bench<'_>, hz: f64, found: &mut Vec<Frozen>) -> anyhow::Result<bool> {
    let [required, best_effort] =
        ["required", "best-effort"].map(|name| Mount::make(&bench.scratch, name, FOLDER_BYTES));
    let folders = [required?, best_effort?];
    let none = Freeze { name: "none is frozen", best_effort: None, required: None };
    let plan = Plan { quick: hz, confirmations: 1, ..Plan::from(hz) };
    let seconds = bench.seconds().min(4.0);
    let most = bench.highest(none.name, plan, |bench, hz| {
        let point = record(bench, &folders, none, (hz, seconds))?;
        let takes_all = point.targets.iter().all(|target| target.not_taken_bytes == 0);
        Ok(Try { reached: point.whole && point.rate_kept && takes_all, value: () })
    })?;
    let Some((hz, _)) = most else { return Ok(false) };
    let seconds = if bench.quick { 3.0 } else { SECONDS };
    for freeze in FREEZES {
        bench.now(freeze.name)?;
        let point = record(bench, &folders, freeze, (hz / 2.0, seconds))?;
        found.push(Frozen { name: freeze.name, point });
    }
    Ok(true)
}

fn record(
    bench: &mut Bench<'_>,
    folders: &[Mount; 2],
    frozen: Freeze,
    (hz, seconds): (f64, f64),
) -> anyhow::Result<Point> {
    let (started, start) = sync_channel(1);
    let (ended, end) = sync_channel::<()>(1);
    let times = |window: Option<[f64; 2]>| window.map(|at| at.map(|share| share * seconds));
    let [required, best_effort] = folders.each_ref().map(|mount| mount.folder.clone());
    let windows = [
        (times(frozen.best_effort), best_effort.clone()),
        (times(frozen.required), required.clone()),
    ];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mount in folders {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    remove_closed(&mount.folder);
                    std::thread::sleep(LOOK);
                }
            });
        }
        scope.spawn(move || start.recv().is_ok().then(|| freeze(windows, &end)));
        let change = |config: &mut RecorderConfig| {
            (config.memory_bytes, config.write.file_bytes) = (MEMORY_BYTES, FILE_BYTES);
            let required = TargetConfig::folder("required", required);
            let best_effort = TargetConfig::folder("best-effort", best_effort);
            let best_effort = TargetConfig { required: false, trends: false, ..best_effort };
            config.targets = vec![required, best_effort];
            started.send(()).ok();
        };
        let (rate, most) = ((Rate(Some(hz)), seconds), Some(FOLDER_BYTES));
        let point = measure_in(bench, Load::FULL, rate, most, change);
        drop(ended);
        is_over.store(true, Relaxed);
        point
    })
}

/// Removes the files of runs that are closed. What cannot be read or removed now stays.
fn remove_closed(folder: &Path) {
    let is_data = |path: &PathBuf| path.extension().is_some_and(|end| end == "catch");
    let runs = sorted(folder).unwrap_or_default().into_iter().filter(|path| path.is_dir());
    for path in runs.flat_map(|run| sorted(&run).unwrap_or_default()).filter(is_data) {
        if Run::open(&path).is_ok_and(|file| is_closed(&file)) {
            std::fs::remove_file(&path).ok();
        }
    }
}

/// Without room these rows are left out, so that the bench keeps its other results.
fn is_no_space(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ConsoleError::NoSpace { .. }))
}

/// Freezes folders at their times, until all is over or the recording has ended.
fn freeze(windows: [(Option<[f64; 2]>, PathBuf); 2], end: &Receiver<()>) {
    let mut steps: Vec<(f64, &str, &Path)> = Vec::new();
    for (window, folder) in &windows {
        let Some([from, to]) = *window else { continue };
        steps.extend([(from, "-f", folder.as_path()), (to, "-u", folder.as_path())]);
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut now = 0.0;
    let mut over = false;
    for (at, what, folder) in steps {
        let wait = Duration::from_secs_f64(at - now);
        over = over || end.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected);
        now = at;
        // What is frozen is thawed also when the recording has ended early.
        if !over || what == "-u" {
            succeeds(Command::new("fsfreeze").arg(what).arg(folder)).ok();
        }
    }
}

/// A file system in a file, unmounted and deleted at the end.
struct Mount {
    folder: PathBuf,
    /// The loop device, once there is one.
    device: Option<String>,
}

#[derive(Debug)]
struct NotMounted(String);

impl std::fmt::Display for NotMounted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "a loop mount could not be made: {}", self.0)
    }
}

impl std::error::Error for NotMounted {}

impl Mount {
    fn make(scratch: &Path, name: &str, size: u64) -> anyhow::Result<Self> {
        let folder = scratch.join(name);
        std::fs::create_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        let mut mount = Self { folder, device: None };
        let image = mount.image();
        std::fs::File::create_new(&image)?.set_len(size)?;
        let not = |why: String| anyhow::Error::new(NotMounted(why));
        // Without a journal's lazy work behind the recorder's back.
        let lazy = "lazy_itable_init=0,lazy_journal_init=0";
        let mut make = Command::new("mkfs.ext4");
        succeeds(make.args(["-q", "-F", "-E", lazy]).arg(&image)).map_err(not)?;
        // What is written to it is not copied into the page cache once more.
        let mut setup = Command::new("losetup");
        setup.args(["--find", "--show", "--direct-io=on"]).arg(&image);
        let device = mount.device.insert(succeeds(&mut setup).map_err(not)?);
        succeeds(Command::new("mount").arg(device).arg(&mount.folder)).map_err(not)?;
        Ok(mount)
    }

    fn image(&self) -> PathBuf {
        self.folder.with_extension("image")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        succeeds(Command::new("umount").arg(&self.folder)).ok();
        if let Some(device) = &self.device {
            succeeds(Command::new("losetup").arg("--detach").arg(device)).ok();
        }
        std::fs::remove_file(self.image()).ok();
        std::fs::remove_dir(&self.folder).ok();
    }
}

/// What it printed.
fn succeeds(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    output.status.success().then(|| said(&output.stdout)).ok_or_else(|| said(&output.stderr))
}
