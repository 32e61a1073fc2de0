//! `catchment ctl`: a node's state and commands, for terminals and scripts.

use std::time::{Duration, Instant};

use catchment_console::{Client, Exit, Out, Table, Target, UsageError, complain};
use catchment_model::units::{Bytes, Count, grouped, percent_of};
use serde_json::{Value, json};

use crate::commands::ctl_store;

/// Queries and controls a node that `catchment run` or `catchment store` serves.
///
/// Exit codes: 0 done; 1 failed, refused, or no answer; 2 bad usage; 3 the state that was printed
/// shows that data of the run were lost.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Whether good data are being recorded, and the state
    State,
    /// Apply the configuration
    Configure(Command),
    /// Open sockets and files without recording yet
    Arm(Command),
    /// Begin a run
    Start(Command),
    /// Pause: discard and count incoming data
    Pause(Command),
    /// Resume recording after a pause
    Resume(Command),
    /// End the run
    Stop(Command),
    /// Close the sockets and files that are ready
    Disarm(Command),
    /// Clear a fault
    Reset(Command),
    /// End the run and exit the program
    Shutdown(Command),
    /// List sources, worst first
    Sources,
    /// Show the device tree
    Devices,
    /// Set properties of a device
    Set {
        /// The device's path, such as node/emulator
        device: String,
        /// What to set, NAME=VALUE
        #[arg(required = true)]
        values: Vec<String>,
    },
    /// List the last runs
    Runs {
        /// How many
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Words in comments and names
        #[arg(long, default_value = "")]
        search: String,
    },
    /// Show one run of the catalogue and its remarks
    Run {
        /// Its number
        number: u64,
    },
    /// Add a remark to a run
    Remark {
        /// The run's number
        number: u64,
        /// Its text
        text: String,
    },
    /// Show the last lines of the log
    Logs {
        /// The lowest level to show
        #[arg(long, default_value = "info")]
        level: String,
        /// Only lines that contain this text
        #[arg(long, default_value = "")]
        search: String,
        /// How many
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// List alarms
    Alarms,
    /// Acknowledge an alarm, or all of them
    Ack {
        /// Its number
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All unacknowledged alarms
        #[arg(long)]
        all: bool,
        /// Its text
        #[arg(long, short = 'm')]
        comment: Option<String>,
    },
    /// Show the versions of the configuration, one of them, or a difference
    Config {
        /// A version; two show the difference between them
        #[arg(num_args = 0..=2)]
        versions: Vec<u64>,
    },
    /// Read the configuration file again
    Reload,
}

#[derive(Debug, clap::Args)]
struct Command {
    /// The reason, stored as a remark of the run
    #[arg(long, short = 'm')]
    comment: Option<String>,
    /// The version of the configuration
    #[arg(long, value_name = "VERSION")]
    configuration: Option<u64>,
    /// The run that the command is for: refused if it is not the current run
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    run: Option<u64>,
    /// Return before the command has completed
    #[arg(long)]
    no_wait: bool,
    /// The request's id: requests with the same id are executed once
    #[arg(long)]
    request: Option<String>,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let client = Client::new(&arguments.target)?;
    let value = match arguments.action {
        Action::State => return state(&client.get("/api/v1/state")?, out),
        Action::Configure(command) => return order("configure", command, &client, out),
        Action::Arm(command) => return order("arm", command, &client, out),
        Action::Start(command) => return order("start", command, &client, out),
        Action::Pause(command) => return order("pause", command, &client, out),
        Action::Resume(command) => return order("resume", command, &client, out),
        Action::Stop(command) => return order("stop", command, &client, out),
        Action::Disarm(command) => return order("disarm", command, &client, out),
        Action::Reset(command) => return order("reset", command, &client, out),
        Action::Shutdown(command) => return order("shutdown", command, &client, out),
        Action::Sources => client.get("/api/v1/sources")?,
        Action::Devices => client.get("/api/v1/devices")?,
        Action::Set { device, values } => {
            let body = values.iter().map(|text| pair(text)).collect::<Result<_, _>>()?;
            client.patch(&format!("/api/v1/devices/{device}/properties"), &Value::Object(body))?
        }
        Action::Runs { limit, search } => {
            client.get(&format!("/api/v1/runs?limit={limit}&search={}", encoded(&search)))?
        }
        Action::Run { number } => {
            return one_run(&client.get(&format!("/api/v1/runs/{number}"))?, out);
        }
        Action::Remark { number, text } => {
            let body = json!({ "remark": text });
            return one_run(&client.patch(&format!("/api/v1/runs/{number}"), &body)?, out);
        }
        Action::Logs { level, search, limit } => {
            let search = encoded(&search);
            client.get(&format!("/api/v1/logs?level={level}&limit={limit}&search={search}"))?
        }
        Action::Alarms => client.get("/api/v1/alarms")?,
        Action::Ack { id, comment, .. } => {
            let path = match id {
                Some(id) => format!("/api/v1/alarms/{}/acknowledge", encoded(&id)),
                None => "/api/v1/alarms/acknowledge".to_owned(),
            };
            client.post(&path, &json!({ "comment": comment }))?
        }
        Action::Config { versions } => match versions[..] {
            [] => client.get("/api/v1/configurations")?,
            [version] => client.get(&format!("/api/v1/configurations/{version}"))?,
            [old, new, ..] => {
                let path = format!("/api/v1/configurations/{old}/diff/{new}");
                out.text(&client.text(&path)?)?;
                return Ok(Exit::Done);
            }
        },
        Action::Reload => client.post("/api/v1/reload", &json!({}))?,
    };
    show(&value, out)?;
    Ok(Exit::Done)
}

fn order(name: &str, command: Command, client: &Client, out: &mut Out) -> anyhow::Result<Exit> {
    let request = command.request.unwrap_or_else(request_id);
    let body = json!({
        "request": request,
        "command": name,
        "comment": command.comment,
        "configuration": command.configuration,
        "run": command.run,
    });
    let mut result = client.post("/api/v1/commands", &body)?;
    let (start, mut waits) = (Instant::now(), Value::Null);
    while result["status"] == "under_way" && !command.no_wait {
        // What waits for people is not late.
        let is_late = start.elapsed() >= PATIENCE && result["reason"].is_null();
        anyhow::ensure!(!is_late, "{name} is under way for more than 5 min");
        let why = result["reason"].as_str().filter(|_| result["reason"] != waits);
        if let Some(why) = why {
            complain(format_args!(
                "{name} is under way: {why}. (Waiting; Ctrl-C ends the waiting, not the {name})"
            ));
            waits = result["reason"].clone();
        }
        std::thread::sleep(ASK_EVERY);
        result = match client.get(&format!("/api/v1/commands/{request}")) {
            // A node that has shut down no longer answers.
            Err(_) if name == "shutdown" => {
                result["status"] = "done".into();
                result
            }
            answer => answer?,
        };
    }
    if out.json {
        out.object(&result)?;
    }
    let word = |field: &str| result[field].as_str().unwrap_or_default().to_owned();
    let run = result["run"].as_u64().map(|run| format!(", run {run}")).unwrap_or_default();
    out.say(format_args!("{name}: {}, {}{run}", word("status"), word("state")))?;
    if result["status"] == "failed" {
        anyhow::bail!("{name} failed: {}", word("reason"));
    }
    Ok(Exit::Done)
}

/// A unique id.
fn request_id() -> String {
    format!("ctl-{}-{}", std::process::id(), catchment_telemetry::utc_now().0)
}

/// Prints the state. Exit code 3 means that data of this run were lost at any time; the verdict
/// tells whether good data are recorded now.
fn state(state: &Value, out: &mut Out) -> anyhow::Result<Exit> {
    if out.json {
        out.object(state)?;
    }
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    out.say(state["verdict"]["text"].as_str().unwrap_or_default())?;
    for reason in state["verdict"]["reasons"].as_array().into_iter().flatten() {
        out.say(format_args!("  {}", reason.as_str().unwrap_or_default()))?;
    }
    out.say(format_args!("State: {}", state["state"].as_str().unwrap_or_default()))?;
    if state["emulated"] == true {
        out.say("EMULATED: the node sends these data itself, no detector does")?;
    }
    if state["store"].is_object() {
        ctl_store::say(state, out)?;
    }
    let run = &state["run"];
    if run.is_object() {
        let events = grouped(run["events"].as_u64().unwrap_or_default());
        let written = Bytes(run["bytes_written"].as_u64().unwrap_or_default());
        let seconds = number(&run["seconds"]);
        out.say(format_args!(
            "Run {}: {seconds:.0} s, {events} events, {written} in {}",
            run["number"],
            run["folder"].as_str().unwrap_or_default()
        ))?;
        let rates = &state["rates"];
        out.say(format_args!(
            "Rates: {} events/s, {}/s received, {}/s written, {} lost",
            Count(number(&rates["events_per_second"])),
            Bytes(number(&rates["bytes_per_second"]) as u64),
            Bytes(number(&rates["bytes_written_per_second"]) as u64),
            grouped(state["loss"]["count"].as_u64().unwrap_or_default())
        ))?;
        // What is to be said of a single one is said of the run.
        let targets = state["targets"].as_array();
        let are_shown = targets.is_some_and(|all| all.len() > 1);
        for target in targets.into_iter().flatten() {
            let several = |key: &str| target[key].as_array().filter(|all| all.len() > 1);
            // One folder is named while its disk is waited for.
            let folders = target["folders"].as_array();
            let folders = folders.filter(|all| all.len() > 1 || all.iter().any(waits));
            let nodes = several("nodes");
            let is_away = ["spilling", "away"].iter().any(|state| target["state"] == *state);
            if are_shown || folders.is_some() || nodes.is_some() || is_away {
                out.say(target_line(target))?;
            }
            for folder in folders.into_iter().flatten() {
                out.say(folder_line(folder))?;
            }
            for node in nodes.into_iter().flatten() {
                out.say(node_line(node))?;
            }
        }
    }
    for spill in state["spills"].as_array().into_iter().flatten() {
        out.say(spill_line(spill))?;
    }
    let some = |what: &str| state[what]["count"].as_u64().unwrap_or_default() > 0;
    let now = ["loss", "heavy_loss", "bad_data", "heavy_bad_data"];
    let is_now = now.iter().any(|level| state["verdict"]["level"] == *level);
    Ok(if some("loss") || some("bad") || is_now { Exit::Loss } else { Exit::Done })
}

/// One of a target's folders: whether it is written to, and what is free there.
fn folder_line(folder: &Value) -> String {
    let path = folder["path"].as_str().unwrap_or_default();
    let free = folder["free_bytes"].as_u64().map_or("unknown".into(), |b| Bytes(b).to_string());
    let state = match folder["away"].as_str() {
        Some(reason) => format!(", not used: {reason}"),
        None if folder["is_current"] == true => ", written now".into(),
        None => String::new(),
    };
    let waits = match waits(folder) {
        true => {
            let seconds = folder["waits_seconds"].as_f64().unwrap_or_default();
            format!(", a write, a sync or a close has not completed for {seconds:.0} s")
        }
        false => String::new(),
    };
    format!("  {path}: {free} free{state}{waits}")
}

/// Whether a folder's disk is waited for, longer than is usual.
fn waits(folder: &Value) -> bool {
    folder["waits_seconds"].as_f64().is_some_and(|seconds| seconds >= 1.0)
}

/// One of a target's storage nodes: what it has, what it has yet to acknowledge, and whether it
/// takes frames.
fn node_line(node: &Value) -> String {
    let number = |key: &str| node[key].as_u64().unwrap_or_default();
    let state = match (node["away"].as_str(), node["is_connected"] == true) {
        (Some(reason), _) => format!(", left out: {reason}"),
        (None, true) => ", connected".into(),
        (None, false) => String::new(),
    };
    format!(
        "  {}: {} durable in {} frames, {} on the way{state}",
        node["address"].as_str().unwrap_or_default(),
        Bytes(number("bytes_durable")),
        grouped(number("frames_durable")),
        Bytes(number("bytes_held")),
    )
}

/// The spill of a target: what waits there, and what was spilled and forwarded.
fn spill_line(spill: &Value) -> String {
    let number = |key: &str| spill[key].as_u64().unwrap_or_default();
    let text = |key: &str| spill[key].as_str().unwrap_or_default();
    let mut line = format!(
        "Spill of {} in {}: {} frames wait ({} of {}), {} spilled, {} forwarded",
        text("target"),
        text("folder"),
        grouped(number("frames_waiting")),
        Bytes(number("bytes_waiting")),
        Bytes(number("bytes_max")),
        grouped(number("frames_spilled")),
        grouped(number("frames_forwarded")),
    );
    for (words, key) in [("frames lost", "frames_lost"), ("files damaged", "files_damaged")] {
        if number(key) > 0 {
            line += &format!(", {} {words}", grouped(number(key)));
        }
    }
    if let Some(seconds) = spill["room_seconds"].as_f64() {
        line += &format!(", has room for {seconds:.0} s at this rate");
    }
    if waits(spill) {
        let seconds = spill["waits_seconds"].as_f64().unwrap_or_default();
        line += &format!(", its disk has not answered for {seconds:.0} s");
    }
    line
}

/// A target: its state, its speed, its queue, and what became of fragments in it.
fn target_line(target: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let role = if target["required"] == true { "required" } else { "best effort" };
    let place = match (target["folder"].as_str(), target["node"].as_str()) {
        (Some(folder), _) => format!("in {folder}"),
        (None, Some(node)) => format!("at {node}"),
        (None, None) => "nowhere".to_owned(),
    };
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let queue = &target["queue"];
    let mut line = format!(
        "Target {} ({role}): {}, {}/s, {} {place}, queue {} % of {}",
        text(&target["name"]),
        text(&target["state"]),
        Bytes(target["bytes_written_per_second"].as_f64().unwrap_or_default() as u64),
        Bytes(number(&target["bytes_written"])),
        percent_of(number(&queue["level_bytes"]), number(&queue["capacity_bytes"])),
        Bytes(number(&queue["capacity_bytes"])),
    );
    let entries = [
        ("fragments recorded", "fragments_recorded"),
        ("durable", "fragments_durable"),
        ("not taken", "fragments_not_taken"),
        ("discarded", "fragments_discarded_disk"),
        ("removed", "fragments_removed"),
        ("not confirmed", "fragments_unconfirmed"),
        ("spilled", "fragments_spilled"),
        ("forwarded", "fragments_forwarded"),
    ];
    for (words, entry) in entries {
        let count = number(&target["ledger"][entry]);
        if count > 0 || ["fragments_recorded", "fragments_durable"].contains(&entry) {
            line += &format!(", {} {words}", grouped(count));
        }
    }
    match target["reason"].as_str() {
        Some(reason) => format!("{line}; {reason}"),
        None => line,
    }
}

/// A run's facts and its remarks, a line each.
fn one_run(run: &Value, out: &mut Out) -> anyhow::Result<Exit> {
    if out.json {
        out.object(run)?;
        return Ok(Exit::Done);
    }
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.replace('\n', " "),
        other => other.to_string(),
    };
    for (name, value) in run.as_object().into_iter().flatten().filter(|(_, v)| !v.is_array()) {
        out.line(format_args!("  {name:<14} {}", text(value)))?;
    }
    for remark in run["remarks"].as_array().into_iter().flatten() {
        let [time, who, kind, remark_text] =
            ["time", "who", "kind", "text"].map(|key| text(&remark[key]));
        out.line(format_args!("  {time}  {who} ({kind}): {remark_text}"))?;
    }
    Ok(Exit::Done)
}

/// A list as a table, anything else as JSON.
fn show(value: &Value, out: &mut Out) -> anyhow::Result<()> {
    // A list comes alone, or with one number; other things may have lists in them.
    let number = |name: &String| ["next", "present"].contains(&name.as_str());
    let list = value.as_object().and_then(|object| {
        let mut others = object.iter().filter(|(name, _)| !number(name)).map(|(_, value)| value);
        others.next().and_then(Value::as_array).filter(|_| others.next().is_none())
    });
    let Some(list) = list.filter(|_| !out.json) else { return Ok(out.object(value)?) };
    let Some(first) = list.first().and_then(Value::as_object) else {
        return Ok(out.say("Nothing.")?);
    };
    // What is nested would break the lines.
    let plain = |value: &Value| !value.is_object() && !value.is_array();
    let names: Vec<&String> =
        first.iter().filter(|(_, v)| plain(v)).map(|(name, _)| name).collect();
    let mut table = Table::new(&names.iter().map(|name| name.as_str()).collect::<Vec<_>>());
    for row in list {
        table.row(names.iter().map(|name| match &row[name.as_str()] {
            Value::String(text) => text.replace('\n', " ").chars().take(CELL_CHARS_MAX).collect(),
            Value::Null => "-".to_owned(),
            Value::Number(number) if number.is_f64() => {
                format!("{:.3}", number.as_f64().unwrap_or_default())
            }
            other => other.to_string(),
        }));
    }
    for line in table.lines() {
        out.line(line)?;
    }
    Ok(())
}

fn pair(text: &str) -> Result<(String, Value), UsageError> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| UsageError(format!("expected NAME=VALUE, got {text:?}")))?;
    // What is no JSON is a text.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

/// A text as it may stand in an address.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Longer texts are truncated in tables; `--json` has them whole.
const CELL_CHARS_MAX: usize = 60;
/// Interval of polling whether a command has completed.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Time limit of a command.
const PATIENCE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_addresses_are_encoded() {
        assert_eq!(encoded("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
        assert_eq!(pair("rate_hz=100").unwrap(), ("rate_hz".into(), json!(100)));
        assert_eq!(pair("name=x=y").unwrap(), ("name".into(), json!("x=y")));
        assert!(pair("x").is_err());
    }

    #[test]
    fn a_folder_says_for_how_long_its_disk_is_waited_for() {
        let folder = |waits_seconds: f64| {
            folder_line(&json!({
                "path": "/data", "free_bytes": 1_u64 << 30, "is_current": true, "away": null,
                "waits_seconds": waits_seconds,
            }))
        };
        assert_eq!(folder(0.9), "  /data: 1.07 GB free, written now");
        let waits = ", a write, a sync or a close has not completed for 12 s";
        assert_eq!(folder(12.3), format!("{}{waits}", folder(0.0)));
    }

    #[test]
    fn a_spill_is_one_line_with_what_waits_and_what_is_damaged() {
        let mut spill = json!({
            "target": "node", "folder": "/spill", "bytes_max": 1_u64 << 30, "frames_waiting": 12,
            "bytes_waiting": 1 << 20, "frames_spilled": 40, "frames_forwarded": 28,
            "frames_lost": 0, "files_damaged": 0,
        });
        let line = "Spill of node in /spill: 12 frames wait (1.05 MB of 1.07 GB), 40 spilled, \
                    28 forwarded";
        assert_eq!(spill_line(&spill), line);
        spill["frames_lost"] = 2.into();
        assert_eq!(spill_line(&spill), format!("{line}, 2 frames lost"));
        spill["waits_seconds"] = 7.2.into();
        let waits = ", 2 frames lost, its disk has not answered for 7 s";
        assert_eq!(spill_line(&spill), format!("{line}{waits}"));
    }

    #[test]
    fn a_target_is_one_line_with_what_it_lacks() {
        let queue = json!({ "level_bytes": 1_000_000, "capacity_bytes": 4_000_000 });
        let mut target = json!({
            "name": "mirror", "required": false, "folder": "/mnt/runs", "state": "recording",
            "reason": null, "bytes_written": 2_000_000, "bytes_written_per_second": 1_000_000.0,
            "queue": queue, "ledger": { "fragments_recorded": 1_500, "fragments_durable": 1_000 },
        });
        let line = "Target mirror (best effort): recording, 1.00 MB/s, 2.00 MB in /mnt/runs, \
            queue 25 % of 4.00 MB, 1,500 fragments recorded, 1,000 durable";
        assert_eq!(target_line(&target), line);
        target["ledger"]["fragments_not_taken"] = 7.into();
        (target["state"], target["reason"]) = ("fault".into(), "disk full".into());
        let line = line.replace("recording,", "fault,") + ", 7 not taken; disk full";
        assert_eq!(target_line(&target), line);
        (target["folder"], target["required"]) = (Value::Null, true.into());
        let line = target_line(&target);
        assert!(line.starts_with("Target mirror (required): fault, "), "{line}");
        assert!(line.contains(" 2.00 MB nowhere, "), "{line}");
    }
}
