//! `catchment decode`: how a declared layout understands a packet, field by field.

use std::path::PathBuf;

use catchment_console::{Exit, Out, UsageError};
use catchment_model::limits::DATAGRAM_BYTES_MAX;
use catchment_wire::layouts::{Description, Layouts};
use serde_json::json;

/// Shows how a packet is understood by a layout of a configuration, and what was left over.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file, with [[layouts]]
    config: PathBuf,
    /// The packet's bytes as hexadecimal digits; white space between them is allowed
    #[arg(long, value_name = "BYTES")]
    hex: String,
    /// The layout, where the file has several
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let high = catchment_config::load(&arguments.config)?;
    let layouts = chosen(&high.layouts, arguments.layout.as_deref())?;
    let bytes = bytes_of(&arguments.hex).map_err(UsageError)?;
    let Description { lines, left_over, fragments, refused } = layouts.describe(&bytes);
    if out.json {
        let (reason, why) = refused.clone().unzip();
        out.object(&json!({
            "layout": layouts.layout().name,
            "lines": lines,
            "fragments": fragments,
            "left_over_bytes": left_over,
            "refused": reason,
            "why": why,
        }))?;
    } else {
        let path = match layouts.general() {
            None => "simple".to_owned(),
            Some(why) => format!("general, since {why}"),
        };
        out.say(format_args!("layout {:?}, decoded by the path: {path}", layouts.layout().name))?;
        for line in &lines {
            out.say(line)?;
        }
        match &refused {
            None => out.say(format_args!("accepted: {fragments} fragments, nothing left over"))?,
            Some((reason, why)) => {
                out.say(format_args!("refused ({reason}): {why}"))?;
                out.say(format_args!("left over: {left_over} of {} bytes", bytes.len()))?;
            }
        }
    }
    Ok(if refused.is_none() { Exit::Done } else { Exit::Loss })
}

fn chosen<'a>(all: &'a [Layouts], name: Option<&str>) -> Result<&'a Layouts, UsageError> {
    let names: Vec<&str> = all.iter().map(|one| one.layout().name.as_str()).collect();
    let names = names.join(", ");
    let found = match (all, name) {
        ([], _) => return Err(UsageError("expected a file with [[layouts]], got none".into())),
        ([only], None) => Some(only),
        (_, name) => all.iter().find(|one| Some(one.layout().name.as_str()) == name),
    };
    let got = || name.map_or_else(|| "none".to_owned(), |name| format!("{name:?}"));
    found.ok_or_else(|| UsageError(format!("expected --layout, one of {names}, got {}", got())))
}

/// The bytes, or what is wrong with the digits.
fn bytes_of(hex: &str) -> Result<Vec<u8>, String> {
    let digits = hex.chars().filter(|digit| !digit.is_whitespace());
    let digits: Option<Vec<u8>> = digits.map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let digits = digits.ok_or("expected hexadecimal digits after --hex, got others")?;
    let bytes = digits.len() / 2;
    match digits.len() % 2 {
        0 if bytes <= DATAGRAM_BYTES_MAX => {
            Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        0 => Err(format!("expected at most a datagram's {DATAGRAM_BYTES_MAX} bytes, got {bytes}")),
        _ => Err("expected two digits for each byte, got an odd number of digits".into()),
    }
}
