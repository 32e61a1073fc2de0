//! A node under control in a process of its own, as `catchment run` serves it, recording at a known
//! rate.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_config::{Hades90, Rate};
use catchment_console::{Client, Target};
use serde::Serialize;
use serde_json::{Value, json};

use crate::process::Process;

/// A node that records into a scratch folder, and is gone when this is dropped.
pub(super) struct Node {
    process: Process,
    pub(super) url: String,
    client: Client,
    folder: PathBuf,
    requests: u64,
}

/// Events sent and CPU time used until some moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    at_ns: u64,
    sent: u64,
    load: Load,
    seen: Instant,
}

/// CPU time that was used, in seconds; of two moments, in percent of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Load {
    pub(super) recorder: f64,
    pub(super) emulate: f64,
    /// The control thread, the API's and those of its devices.
    pub(super) control: f64,
    /// This process: the client.
    pub(super) client: f64,
    /// Idle CPU time of this machine.
    pub(super) idle: f64,
}

/// The result of a recording.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) events_sent: u64,
    pub(super) events_recorded: u64,
    pub(super) loss_count: u64,
    pub(super) balanced: bool,
}

impl Outcome {
    /// Nothing was lost, all that was sent is on disk, and the ledger agrees.
    pub(super) fn whole(&self) -> bool {
        self.balanced && self.loss_count == 0 && self.events_sent == self.events_recorded
    }
}

impl Node {
    /// Starts a node that waits for commands.
    pub(super) fn start(folder: &Path, preset: &Hades90) -> anyhow::Result<Self> {
        let path = folder.join("node.toml");
        std::fs::write(&path, preset.text() + CONTROL)?;
        let arguments = ["run", "--listen", "127.0.0.1:0", "--manual", "--emulate", "node.toml"];
        let mut process = Process::start(&arguments, folder, folder.join("node.log"))?;
        let url = process.line("Serving ")?;
        let url = url.trim_end_matches('/').to_owned();
        let client = Client::new(&Target::of(&url))?;
        let folder = preset.folder.clone();
        Ok(Self { process, url, client, folder, requests: 0 })
    }

    /// Begins a run at a rate, and returns its number once its events are on disk.
    pub(super) fn begin(&mut self, rate: Rate) -> anyhow::Result<u64> {
        let rate_hz = rate.0.unwrap_or(0.0);
        let path = "/api/v1/devices/node/emulator/properties";
        self.client.patch(path, &json!({ "rate_hz": rate_hz }))?;
        self.command("start")?;
        let state = self.until(|state| state["run"]["events"].as_u64() > Some(0))?;
        state["run"]["number"].as_u64().context("a run without a number")
    }

    /// Events sent and CPU time used until now. The node looks at itself twice a second: all
    /// figures are of one look.
    pub(super) fn mark(&self) -> anyhow::Result<Mark> {
        let time = |state: &Value| state["time"].as_str().unwrap_or_default().to_owned();
        loop {
            let before = time(&self.client.get("/api/v1/state")?);
            let emulator = self.client.get("/api/v1/devices/node/emulator")?;
            let after = time(&self.client.get("/api/v1/state")?);
            if before == after {
                let at: catchment_model::Utc = after.parse()?;
                let sent = emulator["properties"]["event_count"].as_u64().unwrap_or_default();
                let load = load(self.process.id())?;
                return Ok(Mark { at_ns: at.0, sent, load, seen: Instant::now() });
            }
        }
    }

    /// Ends the run, returns its result, and deletes its files.
    pub(super) fn end(&mut self, number: u64) -> anyhow::Result<Outcome> {
        self.command("stop")?;
        self.until(|state| state["run"].is_null() && state["state"] == "configured")?;
        let emulator = self.client.get("/api/v1/devices/node/emulator")?;
        let run = self.client.get(&format!("/api/v1/runs/{number}"))?;
        let ledger = self.client.get(&format!("/api/v1/runs/{number}/ledger"))?;
        let folder = run["folder"].as_str().context("a run without a folder")?;
        std::fs::remove_dir_all(self.folder.join(folder))?;
        // What the disk makes of it is not the next recording's.
        // SAFETY: it takes nothing and returns nothing.
        unsafe { libc::sync() };
        let count = |value: &Value| value.as_u64().unwrap_or_default();
        Ok(Outcome {
            events_sent: count(&emulator["properties"]["event_count"]),
            events_recorded: count(&run["events"]),
            loss_count: count(&run["loss_count"]),
            balanced: ledger["balanced"] == true && run["state"] == "complete",
        })
    }

    /// Ends the node in order.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.requests += 1;
        let request = json!({ "request": format!("end-{}", self.requests), "command": "shutdown" });
        // It may be gone before it has answered.
        self.client.post("/api/v1/commands", &request).ok();
        self.process.wait().map(drop)
    }

    fn command(&mut self, name: &str) -> anyhow::Result<()> {
        self.requests += 1;
        let id = format!("bench-{}", self.requests);
        let body = json!({ "request": id, "command": name });
        let mut result = self.client.post("/api/v1/commands", &body)?;
        let start = Instant::now();
        while result["status"] == "under_way" {
            anyhow::ensure!(start.elapsed() < PATIENCE, "{name} is under way for {PATIENCE:?}");
            std::thread::sleep(ASK_EVERY);
            result = self.client.get(&format!("/api/v1/commands/{id}"))?;
        }
        Ok(())
    }

    fn until(&self, reached: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let start = Instant::now();
        loop {
            let state = self.client.get("/api/v1/state")?;
            if reached(&state) {
                return Ok(state);
            }
            anyhow::ensure!(start.elapsed() < PATIENCE, "the node does not go on: {state}");
            std::thread::sleep(ASK_EVERY);
        }
    }
}

/// Events per second that were sent between two moments, and the load on the CPUs.
pub(super) fn between(first: &Mark, last: &Mark) -> (f64, Load) {
    let seconds = last.at_ns.saturating_sub(first.at_ns).max(1) as f64 / 1e9;
    let sent_hz = last.sent.saturating_sub(first.sent) as f64 / seconds;
    let seconds = last.seen.duration_since(first.seen).as_secs_f64().max(1e-9);
    let percent = |of: fn(&Load) -> f64| (of(&last.load) - of(&first.load)) * 100.0 / seconds;
    let load = Load {
        recorder: percent(|load| load.recorder),
        emulate: percent(|load| load.emulate),
        control: percent(|load| load.control),
        client: percent(|load| load.client),
        idle: percent(|load| load.idle),
    };
    (sent_hz, load)
}

/// CPU time used until now, from the system's figures of the threads of a process.
fn load(process: u32) -> anyhow::Result<Load> {
    let mut load = Load { client: own_seconds(std::process::id())?, ..Load::default() };
    for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread that has ended since is no loss.
        let Ok(text) = std::fs::read_to_string(entry?.path().join("stat")) else { continue };
        let (name, seconds) = stat(&text).context("/proc/PID/task/TID/stat")?;
        if name.starts_with("control") || name == "tokio-rt-worker" {
            load.control += seconds;
        } else if name.starts_with("emulate") {
            load.emulate += seconds;
        } else {
            load.recorder += seconds;
        }
    }
    let machine = std::fs::read_to_string("/proc/stat")?;
    let words: Vec<&str> = machine.lines().next().unwrap_or_default().split(' ').collect();
    // "cpu", a second space, user, nice, system, idle, waiting for disks.
    let ticks = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
    let idle = ticks(5).zip(ticks(6)).map(|(idle, disk)| idle + disk).context("/proc/stat")?;
    load.idle = idle as f64 / TICKS_PER_SECOND;
    Ok(load)
}

/// CPU seconds that a process has used, with threads that have ended.
pub(crate) fn own_seconds(process: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    Ok(stat(&text).context("/proc/PID/stat")?.1)
}

/// A thread's name and the CPU seconds it used. The name stands in brackets and may have any in it.
fn stat(text: &str) -> Option<(&str, f64)> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut words = after.split_ascii_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<u64>().ok();
    Some((name, (ticks()? + ticks()?) as f64 / TICKS_PER_SECOND))
}

/// The unit of CPU time in `/proc`, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// The time between two requests for the state.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// The time that a node may take for a command.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// An alarm that is there as soon as events come, so that there is one to acknowledge. The limit of
/// requests is out of the way: one client asks here for many.
const CONTROL: &str = "
[control]
requests_per_second = 100000
log_level = \"warn\"

[[alarms]]
name = \"busy\"
quantity = \"events_per_second\"
above = 0
latch = true
severity = \"info\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_time_is_read_whatever_its_name() {
        let line = "17 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(stat(line), Some(("a) b (c)", 3.0)));
        assert_eq!(stat("17 (a"), None);
        let load = load(std::process::id()).unwrap();
        assert!(load.idle > 0.0 && load.client >= 0.0);
    }
}
