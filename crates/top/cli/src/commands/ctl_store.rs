//! What `catchment ctl state` says of a storage node.

use catchment_console::Out;
use catchment_model::units::{Bytes, counted, grouped};
use serde_json::Value;

/// Where recorders connect, and a line for each folder and stream.
pub(super) fn say(state: &Value, out: &mut Out) -> anyhow::Result<()> {
    let store = &state["store"];
    let guards = [("tls", "TLS"), ("tokens", "tokens")];
    let guards: Vec<&str> =
        guards.iter().filter(|(key, _)| store[key] == true).map(|(_, words)| *words).collect();
    let guards = if guards.is_empty() { String::new() } else { format!(", {}", guards.join(", ")) };
    let rates = &state["rates"];
    let rate = |name: &str| Bytes(rates[name].as_f64().unwrap_or_default() as u64);
    out.say(format_args!(
        "Store at {}{guards}: {}/s received, {}/s written, {} of frames wait",
        text(&store["address"]),
        rate("bytes_per_second"),
        rate("bytes_written_per_second"),
        Bytes(number(&store["waiting_bytes"])),
    ))?;
    for folder in list(&store["folders"]) {
        out.say(folder_line(folder))?;
    }
    for stream in list(&store["streams"]) {
        out.say(stream_line(stream))?;
    }
    let frames = &store["frames"];
    out.say(format_args!(
        "Frames: {} taken, {} repeated; refused: {} corrupt, {} that do not fit, {} superseded",
        grouped(number(&frames["taken"])),
        grouped(number(&frames["repeated"])),
        grouped(number(&frames["corrupt"])),
        grouped(number(&frames["unfit"])),
        grouped(number(&frames["superseded"])),
    ))?;
    let reasons = store["refusals"].as_object().into_iter().flatten();
    let reasons = reasons.map(|(reason, count)| format!("{} {reason}", grouped(number(count))));
    let mut reasons: Vec<String> = reasons.collect();
    match number(&store["connections_unopened"]) {
        0 => {}
        unopened => {
            reasons.push(format!("{} ended before they began", counted(unopened, "connection")))
        }
    }
    if !reasons.is_empty() {
        out.say(format_args!("Refused: {}", reasons.join(", ")))?;
    }
    for warning in list(&state["warnings"]) {
        out.say(format_args!("Warning: {}", text(warning)))?;
    }
    Ok(())
}

fn folder_line(folder: &Value) -> String {
    let free = folder["free_bytes"].as_u64().map_or("unknown".into(), |b| Bytes(b).to_string());
    let rate = folder["bytes_written_per_second"].as_f64().unwrap_or_default();
    let mut line = format!(
        "Folder {}: {free} free, {}/s, {}",
        text(&folder["path"]),
        Bytes(rate as u64),
        Bytes(number(&folder["bytes_written"])),
    );
    match number(&folder["failures"]) {
        0 => {}
        failures => line += &format!(", failed {}", counted(failures, "time")),
    }
    match folder["fault"].as_str() {
        Some(fault) => format!("{line}; not used: {fault}"),
        None => line,
    }
}

fn stream_line(stream: &Value) -> String {
    let rate = stream["bytes_written_per_second"].as_f64().unwrap_or_default();
    let syncs = &stream["syncs"];
    let milliseconds = |key: &str| syncs[key].as_f64().unwrap_or_default() * 1e3;
    let count = number(&syncs["count"]);
    let mean = milliseconds("total_seconds") / count.max(1) as f64;
    let line = format!(
        "Stream {}: {}, durable up to frame {} of {}, {}/s, {}, {} of {mean:.1} ms (longest {:.1}); \
         from {}",
        text(&stream["name"]),
        text(&stream["state"]).replace('_', " "),
        grouped(number(&stream["durable"])),
        grouped(number(&stream["taken"])),
        Bytes(rate as u64),
        Bytes(number(&stream["bytes_written"])),
        counted(count, "sync"),
        milliseconds("longest_seconds"),
        stream["recorder"].as_str().unwrap_or("nobody"),
    );
    match stream["reason"].as_str() {
        Some(reason) => format!("{line}; {reason}"),
        None => line,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
