//! `catchment ctl`: a node's state and commands, from a terminal or a script.

use std::time::{Duration, Instant};

use catchment_console::{Client, Exit, Out, Table, Target, UsageError};
use catchment_model::units::{Bytes, Count, grouped};
use serde_json::{Value, json};

/// Asks a node that `catchment run` serves.
///
/// Exit codes: 0 done; 1 failed, refused, or no answer; 2 bad usage; 3 the state that was printed
/// shows that data of the run were lost.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Whether good data are being recorded, and the state
    State,
    /// Take the configuration
    Configure(Command),
    /// Open sockets and files; nothing is recorded yet
    Arm(Command),
    /// Begin a run
    Start(Command),
    /// Discard what comes, countedly
    Pause(Command),
    /// Record again
    Resume(Command),
    /// End the run
    Stop(Command),
    /// Close what was made ready
    Disarm(Command),
    /// Forget a fault
    Reset(Command),
    /// End the run and the program
    Shutdown(Command),
    /// Sources, worst first
    Sources,
    /// The tree of devices
    Devices,
    /// Change a device's properties
    Set {
        /// The device's path, such as node/emulator
        device: String,
        /// What to set, NAME=VALUE
        #[arg(required = true)]
        values: Vec<String>,
    },
    /// The last runs
    Runs {
        /// How many
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Words in comments and names
        #[arg(long, default_value = "")]
        search: String,
    },
    /// One run of the catalogue, with its remarks
    Run {
        /// Its number
        number: u64,
    },
    /// Add a remark to a run
    Remark {
        /// The run's number
        number: u64,
        /// What to say
        text: String,
    },
    /// The last lines of the log
    Logs {
        /// The least level
        #[arg(long, default_value = "info")]
        level: String,
        /// What must be in the line
        #[arg(long, default_value = "")]
        search: String,
        /// How many
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Alarms
    Alarms,
    /// Acknowledge an alarm, or all of them
    Ack {
        /// Its number
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All alarms that nobody has acknowledged
        #[arg(long)]
        all: bool,
        /// What to say
        #[arg(long, short = 'm')]
        comment: Option<String>,
    },
    /// Configurations: the versions, one of them, or what differs
    Config {
        /// A version; two show what differs
        #[arg(num_args = 0..=2)]
        versions: Vec<u64>,
    },
    /// Read the configuration file again
    Reload,
}

#[derive(Debug, clap::Args)]
struct Command {
    /// Why: kept as a remark of the run
    #[arg(long, short = 'm')]
    comment: Option<String>,
    /// The version of the configuration
    #[arg(long, value_name = "VERSION")]
    configuration: Option<u64>,
    /// The run that it is meant for: refused if that is not the current run
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    run: Option<u64>,
    /// Do not wait for the end
    #[arg(long)]
    no_wait: bool,
    /// The request's id: the same is done once
    #[arg(long)]
    request: Option<String>,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let client = Client::new(&arguments.target)?;
    let value = match arguments.what {
        What::State => return state(&client.get("/api/v1/state")?, out),
        What::Configure(command) => return order("configure", command, &client, out),
        What::Arm(command) => return order("arm", command, &client, out),
        What::Start(command) => return order("start", command, &client, out),
        What::Pause(command) => return order("pause", command, &client, out),
        What::Resume(command) => return order("resume", command, &client, out),
        What::Stop(command) => return order("stop", command, &client, out),
        What::Disarm(command) => return order("disarm", command, &client, out),
        What::Reset(command) => return order("reset", command, &client, out),
        What::Shutdown(command) => return order("shutdown", command, &client, out),
        What::Sources => client.get("/api/v1/sources")?,
        What::Devices => client.get("/api/v1/devices")?,
        What::Set { device, values } => {
            let body = values.iter().map(|text| pair(text)).collect::<Result<_, _>>()?;
            client.patch(&format!("/api/v1/devices/{device}/properties"), &Value::Object(body))?
        }
        What::Runs { limit, search } => {
            client.get(&format!("/api/v1/runs?limit={limit}&search={}", encoded(&search)))?
        }
        What::Run { number } => {
            return one_run(&client.get(&format!("/api/v1/runs/{number}"))?, out);
        }
        What::Remark { number, text } => {
            let body = json!({ "remark": text });
            return one_run(&client.patch(&format!("/api/v1/runs/{number}"), &body)?, out);
        }
        What::Logs { level, search, limit } => {
            let search = encoded(&search);
            client.get(&format!("/api/v1/logs?level={level}&limit={limit}&search={search}"))?
        }
        What::Alarms => client.get("/api/v1/alarms")?,
        What::Ack { id, comment, .. } => {
            let path = match id {
                Some(id) => format!("/api/v1/alarms/{}/acknowledge", encoded(&id)),
                None => "/api/v1/alarms/acknowledge".to_owned(),
            };
            client.post(&path, &json!({ "comment": comment }))?
        }
        What::Config { versions } => match versions[..] {
            [] => client.get("/api/v1/configurations")?,
            [version] => client.get(&format!("/api/v1/configurations/{version}"))?,
            [old, new, ..] => {
                let path = format!("/api/v1/configurations/{old}/diff/{new}");
                out.bytes(client.text(&path)?.as_bytes())?;
                return Ok(Exit::Done);
            }
        },
        What::Reload => client.post("/api/v1/reload", &json!({}))?,
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
    let start = Instant::now();
    while result["status"] == "under_way" && !command.no_wait {
        anyhow::ensure!(start.elapsed() < PATIENCE, "{name} is under way for more than 5 min");
        std::thread::sleep(ASK_EVERY);
        result = match client.get(&format!("/api/v1/commands/{request}")) {
            // A node that has shut down answers nobody any more.
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

/// An id that nobody else has chosen.
fn request_id() -> String {
    format!("ctl-{}-{}", std::process::id(), catchment_telemetry::utc_now().0)
}

/// Says the state. As everywhere, 3 says that it is done and data were lost: in this run, be it
/// long ago. Whether good data are recorded now is the verdict's to say.
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
    }
    let lost = state["loss"]["count"].as_u64().unwrap_or_default() > 0;
    let losing = ["loss", "heavy_loss"].iter().any(|level| state["verdict"]["level"] == *level);
    Ok(if lost || losing { Exit::Loss } else { Exit::Done })
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
        let [time, who, kind, said] = ["time", "who", "kind", "text"].map(|key| text(&remark[key]));
        out.line(format_args!("  {time}  {who} ({kind}): {said}"))?;
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

/// Longer texts are cut in tables; `--json` has them whole.
const CELL_CHARS_MAX: usize = 60;
/// How often one asks whether a command is done.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// How long one waits for a command.
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
}
