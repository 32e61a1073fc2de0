//! `catchment decode`: how a declared layout understands packets, field by field: one from the
//! command line, or those of a capture file.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use catchment_config::High;
use catchment_console::{Exit, Out, UsageError};
use catchment_model::limits::DATAGRAM_BYTES_MAX;
use catchment_model::units::counted;
use catchment_wire::Protocol as _;
use catchment_wire::layouts::{Description, Layouts, Variants};
use serde_json::json;

use crate::captured_streams::{End, Stream, Streams};
use crate::captures::{Captured, Captures};

/// Shows how packets are understood by a layout of a configuration, and what was left over.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file, with [[layouts]]
    config: PathBuf,
    /// The packet's bytes as hexadecimal digits; white space between them is allowed
    #[arg(long, value_name = "BYTES", required_unless_present = "pcap")]
    hex: Option<String>,
    /// A capture file, pcap or pcapng: all UDP datagrams to --port, or what connections (TCP) bring
    /// to it if the layout has transport = "stream"
    #[arg(long, value_name = "FILE", conflicts_with = "hex", requires = "port")]
    pcap: Option<PathBuf>,
    /// The port to which the packets of --pcap go
    #[arg(long, requires = "pcap")]
    port: Option<u16>,
    /// The layout, where the file has several
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// The source whose packet it is, of whatever layout of the source's; packets with another
    /// source's id are counted by it (exit code 3)
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    source: Option<String>,
}

/// By what packets are understood.
enum By {
    Layout(Box<Layouts>),
    /// The layouts of a source that has several.
    Source(Variants),
}

/// The id that the fragments of a source carry, and the sources of other ids.
struct Ids<'a> {
    name: &'a str,
    own: u32,
    others: BTreeMap<u32, &'a str>,
}

/// Fragments of other sources, in how many packets, by their ids.
type Others = BTreeMap<u32, (u64, u64)>;

impl<'a> Ids<'a> {
    /// Of a source that has an id.
    fn of(high: &'a High, name: &'a str) -> Option<Self> {
        let sources = high.recorder.sources.iter();
        let ids = sources.filter_map(|source| Some((source.id?, &*source.name)));
        let others: BTreeMap<u32, &str> = ids.collect();
        let own = high.recorder.sources.iter().find(|source| source.name == name)?.id?;
        Some(Self { name, own, others })
    }

    /// The fragments of a packet that are of other sources.
    fn others_in(&self, description: &Description) -> Others {
        let mut others = Others::new();
        for id in description.ids.iter().filter(|id| **id != self.own) {
            others.entry(*id).or_insert((1, 0)).1 += 1;
        }
        others
    }

    /// What to say of them, a line for each id.
    fn lines(&self, others: &Others) -> impl Iterator<Item = String> {
        others.iter().map(|(id, (packets, fragments))| {
            let are = if *packets == 1 { "is" } else { "are" };
            let name = self.others.get(id).map_or(String::new(), |name| format!(" ({name:?})"));
            let (packets, fragments) =
                (counted(*packets, "packet"), counted(*fragments, "fragment"));
            let Self { name: of, own, .. } = self;
            format!(
                "{packets} {are} of source id {id:#x}{name}, with {fragments}; those of {of:?} \
                 have {own:#x}"
            )
        })
    }
}

/// Others by id, as a program reads them.
fn object_of(others: &Others) -> serde_json::Value {
    let of = |(id, (packets, fragments)): (&u32, &(u64, u64))| json!({ "id": id, "packets": packets, "fragments": fragments });
    others.iter().map(of).collect()
}

impl By {
    fn describe(&self, bytes: &[u8]) -> Description {
        match self {
            Self::Layout(layouts) => layouts.describe(bytes),
            Self::Source(variants) => variants.describe(bytes),
        }
    }

    fn layouts(&self) -> &[Layouts] {
        match self {
            Self::Layout(layouts) => layouts.declared(),
            Self::Source(variants) => variants.declared(),
        }
    }
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let high = match &arguments.source {
        None => None,
        Some(_) => Some(catchment_config::load(&arguments.config)?),
    };
    let source = high.as_ref().zip(arguments.source.as_deref());
    let ids = source.and_then(|(high, name)| Ids::of(high, name));
    let by = match source {
        None => {
            let layouts = catchment_config::load_layouts(&arguments.config)?;
            let layouts = chosen(&layouts, arguments.layout.as_deref())?;
            By::Layout(Box::new(layouts.clone()))
        }
        Some((high, name)) => of_source(high, name)?,
    };
    if !out.json {
        for layouts in by.layouts() {
            let path = match layouts.general() {
                None => "straight".to_owned(),
                Some(why) => format!("general, since {why}"),
            };
            let name = &layouts.layout().name;
            out.say(format_args!("layout {name:?}, decoded by the path: {path}"))?;
        }
    }
    if let (Some(path), Some(port)) = (&arguments.pcap, arguments.port) {
        return decode_capture((&by, ids.as_ref()), path, port, out);
    }
    let bytes = bytes_of(&arguments.hex.unwrap_or_default()).map_err(UsageError)?;
    let description = by.describe(&bytes);
    let others = show((&by, ids.as_ref()), &description, bytes.len(), out)?;
    let is_whole = description.refused.is_none() && others.is_empty();
    Ok(if is_whole { Exit::Done } else { Exit::Loss })
}

/// What was read of a capture file.
#[derive(Default)]
struct Tally {
    packets: u64,
    accepted: u64,
    fragments: u64,
    refused: BTreeMap<&'static str, u64>,
    passed: BTreeMap<&'static str, u64>,
    others: Others,
    /// Of connections: what was not read, and why.
    unread: Vec<String>,
}

impl Tally {
    fn show(
        &mut self,
        (by, ids): (&By, Option<&Ids<'_>>),
        (description, bytes): (&Description, usize),
        out: &mut Out,
    ) -> anyhow::Result<()> {
        match description.refused {
            None => self.accepted += 1,
            Some((reason, _)) => *self.refused.entry(reason).or_default() += 1,
        }
        self.fragments += description.fragments as u64;
        for (id, (_, fragments)) in show((by, ids), description, bytes, out)? {
            let sum = self.others.entry(id).or_default();
            *sum = (sum.0 + 1, sum.1 + fragments);
        }
        Ok(())
    }
}

/// Shows the packets of a capture file to a port, in datagrams or on connections, and their numbers
/// at the end.
fn decode_capture(
    (by, ids): (&By, Option<&Ids<'_>>),
    path: &Path,
    port: u16,
    out: &mut Out,
) -> anyhow::Result<Exit> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(named)?;
    let mut captures = Captures::new(file).with_context(named)?;
    let layouts = match by {
        By::Layout(layouts) if layouts.layout().is_stream => Some(layouts),
        _ => None,
    };
    let (mut tally, mut streams) = (Tally::default(), Streams::default());
    while let Some(captured) = captures.next().with_context(named)? {
        let number = tally.packets;
        tally.packets += 1;
        let why = match (captured, layouts) {
            (Captured::Datagram { port: to, payload }, None) if to == port => {
                if !out.json {
                    out.say(format_args!("packet {number} of the file"))?;
                }
                let described = by.describe(&payload);
                tally.show((by, ids), (&described, payload.len()), out)?;
                continue;
            }
            (Captured::Segment(segment), Some(layouts)) if segment.to.port() == port => {
                if let Some(stream) = streams.take(&segment) {
                    let decoded = (by, ids, &**layouts, segment.from);
                    decode_stream(decoded, stream, &mut tally, out)?;
                }
                continue;
            }
            (Captured::Segment(segment), None) if segment.to.port() == port => {
                "of TCP to the port: the layout has transport = \"datagrams\""
            }
            (Captured::Datagram { port: to, .. }, Some(_)) if to == port => {
                "of UDP to the port: the layout has transport = \"stream\""
            }
            (Captured::Datagram { .. } | Captured::Segment(_), _) => "to other ports",
            (Captured::IpFragment, _) => "that are pieces of others, which IP has cut",
            (Captured::CutShort, _) => "of which the file has only the beginning",
            (Captured::Other, _) => "that are neither UDP nor TCP",
        };
        *tally.passed.entry(why).or_default() += 1;
    }
    tally.unread = streams.into_all().filter_map(|(from, stream)| stream.ended(from)).collect();
    finish(ids, tally, out)
}

/// Shows the packets that have come whole on a connection.
fn decode_stream(
    (by, ids, layouts, from): (&By, Option<&Ids<'_>>, &Layouts, SocketAddr),
    stream: &mut Stream,
    tally: &mut Tally,
    out: &mut Out,
) -> anyhow::Result<()> {
    while let Some((used, description)) = layouts.describe_next(&stream.bytes) {
        if !out.json {
            out.say(format_args!("packet at byte {} of the connection from {from}", stream.at))?;
        }
        tally.show((by, ids), (&description, used), out)?;
        stream.advance(used);
        if description.refused.is_some() {
            // As in a run: what follows cannot be told from its bytes.
            stream.end_here(End::Refused);
        }
    }
    Ok(())
}

fn finish(ids: Option<&Ids<'_>>, tally: Tally, out: &mut Out) -> anyhow::Result<Exit> {
    let Tally { packets, accepted, fragments, refused, passed, others, unread } = tally;
    let is_whole = refused.is_empty() && unread.is_empty() && others.is_empty();
    if out.json {
        out.object(&json!({
            "packets": packets,
            "accepted": accepted,
            "fragments": fragments,
            "refused": refused,
            "not_decoded": passed,
            "connections": unread,
            "other_sources": object_of(&others),
        }))?;
    } else {
        let lost: u64 = refused.values().sum();
        let (packets, fragments) = (counted(packets, "packet"), counted(fragments, "fragment"));
        out.say(format_args!(
            "{packets} in the file: {accepted} accepted with {fragments}, {lost} refused"
        ))?;
        for (reason, count) in refused {
            out.say(format_args!("refused ({reason}): {count}"))?;
        }
        for (why, count) in passed {
            out.say(format_args!("not decoded: {} {why}", counted(count, "packet")))?;
        }
        for what in unread {
            out.say(what)?;
        }
        ids.map_or(Ok(()), |ids| ids.lines(&others).try_for_each(|line| out.say(line)))?;
    }
    Ok(if is_whole { Exit::Done } else { Exit::Loss })
}

/// Shows a packet. Returns what of it is of other sources.
fn show(
    (by, ids): (&By, Option<&Ids<'_>>),
    description: &Description,
    bytes: usize,
    out: &mut Out,
) -> anyhow::Result<Others> {
    let Description { layout, lines, left_over, fragments, refused, .. } = description;
    let others = ids.map_or(Others::new(), |ids| ids.others_in(description));
    if out.json {
        let (reason, why) = refused.clone().unzip();
        // Of several layouts none may have been chosen.
        let chosen = Some(layout).filter(|name| !name.is_empty());
        out.object(&json!({
            "layout": chosen,
            "lines": lines,
            "fragments": fragments,
            "left_over_bytes": left_over,
            "refused": reason,
            "why": why,
            "other_sources": object_of(&others),
        }))?;
        return Ok(others);
    }
    if matches!(by, By::Source(_)) && !layout.is_empty() {
        out.say(format_args!("chosen: layout {layout:?}"))?;
    }
    for line in lines {
        out.say(line)?;
    }
    match refused {
        None => {
            let fragments = counted(*fragments as u64, "fragment");
            out.say(format_args!("accepted: {fragments}, nothing left over"))?;
        }
        Some((reason, why)) => {
            out.say(format_args!("refused ({reason}): {why}"))?;
            out.say(format_args!("left over: {left_over} of {bytes} bytes"))?;
        }
    }
    ids.map_or(Ok(()), |ids| ids.lines(&others).try_for_each(|line| out.say(line)))?;
    Ok(others)
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
    let expected = format!("expected --source, or --layout, one of {names}");
    found.ok_or_else(|| UsageError(format!("{expected}, got {}", got())))
}

/// The layouts of a source of a configuration.
fn of_source(high: &High, name: &str) -> Result<By, UsageError> {
    let sources = &high.recorder.sources;
    let source = sources.iter().find(|source| source.name == name);
    let declared = source.map_or(&[][..], |source| source.protocol.declared());
    match declared {
        [] => {
            let expected = "expected --source, the name of one with protocol = \"layout\"";
            Err(UsageError(format!("{expected}, got {name:?}")))
        }
        [only] => Ok(By::Layout(Box::new(only.clone()))),
        all => Variants::new(all.to_vec())
            .map(By::Source)
            .map_err(|error| UsageError(error.to_string())),
    }
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
