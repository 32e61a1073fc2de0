//! The sources of a file: single ones, and groups written out.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_model::limits::SOURCES_MAX;
use catchment_model::units::{Offset, Size, Time};
use catchment_net::Network;
use catchment_recorder::{ADMITTED, Listener, MatchRule, SourceClock, SourceConfig};
use catchment_wire::event_link::EventLink;
use catchment_wire::hadtu;
use catchment_wire::layouts::{self, LayoutError, Layouts, Variants};
use catchment_wire::trains::Trains;
use catchment_wire::{Protocol, Transport, protocols};
use toml_edit::{ArrayOfTables, DocumentMut, Item};

use crate::layouts::LayoutNames;
use crate::links;
use crate::locate::{ConfigFileError, Located};
use crate::low::{Address, Low, SourceGroupLow, SourceLow, ViaLow};

/// All sources of the file, each with a name and a port of its own, and the keys of the tables that
/// they are written in.
pub(crate) fn sources(
    located: &Located<'_>,
    low: &Low,
    (trains, layouts): (&Trains, &[Layouts]),
    listeners: &[Listener],
    text: &str,
) -> Result<(Vec<SourceConfig>, Vec<String>), ConfigFileError> {
    let mut sources = Vec::new();
    let by_time = low.build.rule == MatchRule::Time;
    let first = listeners.first().map(|Listener { address, from, .. }| Inlet {
        address: *address,
        from: from.clone(),
        protocol: Arc::new(EventLink::SESSIONS),
    });
    let inlets = Inlets { listener: first, trains, layouts, by_time };
    for (index, source) in low.sources.iter().enumerate() {
        let path = format!("sources[{index}].payload");
        let payload = source.payload.as_ref().map(|low| links::payload(located, &path, low));
        let path = format!("sources[{index}]");
        let SourceLow { via, address, from, protocol, layout, .. } = source;
        let longest = source.fragment_bytes_max.as_ref();
        let written = Written { via: *via, address: *address, from, protocol, layout, longest };
        let Inlet { address, from, protocol } = inlet(located, &path, &written, &inlets)?;
        sources.push(SourceConfig {
            name: source.name.clone(),
            group: source.group.clone().unwrap_or_else(|| "sources".into()),
            address,
            from,
            id: sub_event_ids(located, &path, "sub_event_id", source.sub_event_id, &protocol, 1)?,
            fragment_bytes_max: self::longest(longest, &*protocol),
            protocol,
            role: source.role,
            expected_in: expected_in(located, &path, &source.expected_in)?,
            clock: clock(source.time_offset, source.reorder, source.lag),
            payload: payload.transpose()?,
        });
    }
    let singles = sources.len();
    let own = own_count(text).min(singles);
    let mut origins: Vec<String> = (0..singles).map(|index| format!("sources[{index}]")).collect();
    for (index, group) in low.source_groups.iter().enumerate() {
        let path = format!("source_groups[{index}]");
        expand(located, &path, group, &inlets, &mut sources)?;
        origins.resize(sources.len(), path);
    }
    // Of several rules that name a source the last one holds.
    for rule in &low.build.time.offsets {
        let named = sources.iter_mut().filter(|source| rule.sources.fits(&source.name));
        named.for_each(|source| source.clock.offset_ns = rule.offset_ns);
    }
    // Those that were admitted come last, so that the others have the same numbers with them.
    sources[own..].rotate_left(singles - own);
    origins[own..].rotate_left(singles - own);
    if sources.is_empty() && low.links.is_empty() && low.accept.is_empty() {
        let expected = "expected [[sources]], [[source_groups]], [[links]] or [[accept]], got none";
        return Err(ConfigFileError { place: None, ..located.error("sources", expected) });
    }
    Ok((sources, origins))
}

/// How many tables of sources are before those of front-ends that were admitted.
fn own_count(text: &str) -> usize {
    let Some((own, _)) = text.split_once(ADMITTED) else { return usize::MAX };
    let document: DocumentMut = own.parse().unwrap_or_default();
    document.get("sources").and_then(Item::as_array_of_tables).map_or(0, ArrayOfTables::len)
}

/// Writes a group's sources out: ports and sub-event ids count up.
fn expand(
    located: &Located<'_>,
    path: &str,
    group: &SourceGroupLow,
    inlets: &Inlets<'_>,
    sources: &mut Vec<SourceConfig>,
) -> Result<(), ConfigFileError> {
    let error = |key: &str, message: String| Err(located.error(&format!("{path}.{key}"), message));
    let count = group.count;
    if count == 0 || count as usize > SOURCES_MAX {
        return error("count", format!("expected 1 to {SOURCES_MAX}, got {count}"));
    }
    let default = format!("{}-{{:03}}", group.group);
    let pattern = group.name.as_ref().unwrap_or(&default);
    let payload_path = format!("{path}.payload");
    let payload = group.payload.as_ref().map(|low| links::payload(located, &payload_path, low));
    let payload = payload.transpose()?;
    let SourceGroupLow { via, address, from, protocol, layout, .. } = group;
    let longest = group.fragment_bytes_max.as_ref();
    let written = Written { via: *via, address: *address, from, protocol, layout, longest };
    let Inlet { address: first, from, protocol } = inlet(located, path, &written, inlets)?;
    let step = |index| if via.is_some() { Some(first) } else { counted_up(first, index) };
    let (key, first_id) = ("first_sub_event_id", group.first_sub_event_id);
    let first_id = sub_event_ids(located, path, key, first_id, &protocol, count)?;
    let expected_in = expected_in(located, path, &group.expected_in)?;
    for index in 0..count {
        let Some(name) = numbered(pattern, index) else {
            let expected = "expected one place for the number such as \"hades-{:03}\"";
            return error("name", format!("{expected}, got {pattern:?}"));
        };
        let Some(address) = step(index) else {
            return error("address", format!("expected {count} ports up from here, got {first}"));
        };
        sources.push(SourceConfig {
            name,
            group: group.group.clone(),
            address,
            from: from.clone(),
            protocol: Arc::clone(&protocol),
            id: first_id.map(|first| first + index),
            fragment_bytes_max: self::longest(longest, &*protocol),
            role: group.role,
            expected_in,
            clock: clock(group.time_offset, group.reorder, group.lag),
            payload: payload.clone(),
        });
    }
    Ok(())
}

fn clock(offset: Option<Offset>, reorder: Option<Time>, lag: Option<Time>) -> SourceClock {
    SourceClock {
        offset_ns: offset.map_or(0, |offset| offset.0),
        reorder_ns: reorder.map_or(0, u64::from),
        lag_ns: lag.map(u64::from),
    }
}

/// The groups of the events in which a source is expected, one in each bit.
pub(crate) fn expected_in(
    located: &Located<'_>,
    path: &str,
    groups: &[u32],
) -> Result<u64, ConfigFileError> {
    if let Some(group) = groups.iter().find(|group| **group >= u64::BITS) {
        let message = format!("expected numbers of groups from 0 to 63, got {group}");
        return Err(located.error(&format!("{path}.expected_in"), message));
    }
    Ok(groups.iter().fold(0, |all, group| all | 1 << group))
}

/// Where a source's data arrive, who may send them, and how they are written.
#[derive(Clone)]
struct Inlet {
    address: SocketAddr,
    from: Vec<Network>,
    protocol: Arc<dyn Protocol>,
}

/// What the whole file says of inlets.
struct Inlets<'a> {
    /// The first listener of front-ends, which come by any, if the file has some.
    listener: Option<Inlet>,
    /// The protocol of trains.
    trains: &'a Trains,
    /// Those of declared layouts.
    layouts: &'a [Layouts],
    /// Whether fragments are matched by their times.
    by_time: bool,
}

/// What a table of sources says of that.
struct Written<'a> {
    via: Option<ViaLow>,
    address: Option<Address>,
    from: &'a Option<Vec<Network>>,
    protocol: &'a Option<String>,
    layout: &'a Option<LayoutNames>,
    longest: Option<&'a Size>,
}

/// The inlet of the sources of a table at `path`.
fn inlet(
    located: &Located<'_>,
    path: &str,
    written: &Written<'_>,
    inlets: &Inlets<'_>,
) -> Result<Inlet, ConfigFileError> {
    let error = |key: &str, message: &str| Err(located.error(&format!("{path}.{key}"), message));
    let Some(ViaLow::Link) = written.via else {
        let Some(address) = written.address else {
            return error("address", "expected an address, or via = \"link\"");
        };
        let from = senders(located, path, written.from.as_deref())?;
        let protocol = protocol(located, path, written, inlets)?;
        return Ok(Inlet { address: address.0, from, protocol });
    };
    match &inlets.listener {
        _ if written.layout.is_some() => error("layout", "expected it with an address"),
        None => error("via", "expected [[listen]], where front-ends connect, got none"),
        _ if written.address.is_some() => {
            error("address", "expected no address: the source is delivered by a front-end")
        }
        _ if written.from.is_some() => error("from", "expected it in [[listen]]"),
        _ if written.protocol.is_some() => {
            error("protocol", "expected no protocol: the source is delivered by a front-end")
        }
        Some(listener) => Ok(listener.clone()),
    }
}

/// The networks that a source may send from; `path` is that of its table.
pub(crate) fn senders(
    located: &Located<'_>,
    path: &str,
    low: Option<&[Network]>,
) -> Result<Vec<Network>, ConfigFileError> {
    match low {
        Some([]) => {
            let message =
                "expected one or more networks (omit the key to accept any sender), got none";
            Err(located.error(&format!("{path}.from"), message))
        }
        low => Ok(low.unwrap_or_default().to_vec()),
    }
}

/// The protocol of that name, `hadtu` where there is none; `path` is that of the source's table.
fn protocol(
    located: &Located<'_>,
    path: &str,
    written: &Written<'_>,
    inlets: &Inlets<'_>,
) -> Result<Arc<dyn Protocol>, ConfigFileError> {
    let name = written.protocol.as_deref().unwrap_or(hadtu::NAME);
    if name == layouts::NAME {
        return declared(located, path, written, inlets);
    }
    if written.layout.is_some() {
        let message = format!("expected it with protocol = \"layout\", got {name:?}");
        return Err(located.error(&format!("{path}.layout"), message));
    }
    if name == inlets.trains.name() {
        return Ok(Arc::new(inlets.trains.clone()));
    }
    protocols().into_iter().find(|protocol| protocol.name() == name).ok_or_else(|| {
        let all = protocols();
        let names = all.iter().map(|protocol| protocol.name()).chain([layouts::NAME]);
        let names: Vec<&str> = names.collect();
        let message = format!("expected {}, got {name:?}", names.join(" or "));
        located.error(&format!("{path}.protocol"), message)
    })
}

/// The protocol of declared layouts.
fn declared(
    located: &Located<'_>,
    path: &str,
    written: &Written<'_>,
    inlets: &Inlets<'_>,
) -> Result<Arc<dyn Protocol>, ConfigFileError> {
    let key = format!("{path}.layout");
    let named: Vec<(String, Option<&str>)> = match written.layout.as_ref().map(|names| &*names.0) {
        None => vec![(key.clone(), None)],
        Some([only]) => vec![(key.clone(), Some(only.as_str()))],
        Some(names) => {
            let names = names.iter().map(String::as_str).enumerate();
            names.map(|(index, name)| (format!("{key}[{index}]"), Some(name))).collect()
        }
    };
    let layout = |named| layout(located, path, named, written.longest, inlets);
    let mut all = named.iter().map(layout).collect::<Result<Vec<Layouts>, _>>()?;
    if all.len() == 1 && !all[0].layout().packet.skip {
        return Ok(Arc::new(all.remove(0)));
    }
    let wrong = |error: LayoutError| located.error(&format!("{key}{}", error.key), error.message);
    Ok(Arc::new(Variants::new(all).map_err(wrong)?))
}

/// A declared layout that a source names at a key.
fn layout(
    located: &Located<'_>,
    path: &str,
    (key, name): &(String, Option<&str>),
    longest: Option<&Size>,
    inlets: &Inlets<'_>,
) -> Result<Layouts, ConfigFileError> {
    let declared = crate::layouts::of_source(located, key, *name, inlets.layouts)?;
    if declared.layout().packet.skip {
        return Ok(declared.clone());
    }
    if let (Some(bytes), Some(most)) = (declared.bytes_max(), longest)
        && bytes > most.0
    {
        let expected = format!("at least the bytes_max of its layout, {bytes}");
        let key = format!("{path}.fragment_bytes_max");
        return Err(located.expected(&key, &expected, &most.0.to_string()));
    }
    if !inlets.by_time {
        return Ok(declared.clone());
    }
    let lacks = |what: &str| {
        let got = format!("{:?}, and build.match is \"time\"", name.unwrap_or_default());
        located.expected(key, &format!("a layout with {what}"), &got)
    };
    declared.by_time().map_err(lacks)
}

/// The first of some sources' ids, which count up: only fragments of `hadtu`, and of layouts that
/// declare them, have some.
fn sub_event_ids(
    located: &Located<'_>,
    path: &str,
    key: &str,
    first: Option<u32>,
    protocol: &Arc<dyn Protocol>,
    count: u32,
) -> Result<Option<u32>, ConfigFileError> {
    let Some(first) = first else {
        // Of connections, which sources may share, fragments find their source by its id alone.
        return match protocol.transport() {
            Transport::Connections => Err(located.expected(
                &format!("{path}.{key}"),
                "the id that fragments on connections carry",
                "none",
            )),
            Transport::Datagrams | Transport::Sessions => Ok(None),
        };
    };
    let name = protocol.name();
    let what = if count > 1 { "ids" } else { "an id" };
    let bits = protocol.id_bits();
    let end = 1_u64 << bits;
    let message = match first.checked_add(count - 1) {
        _ if bits == 0 => format!("expected no such key with the protocol {name}"),
        Some(last) if u64::from(last) < end => return Ok(Some(first)),
        _ if count > 1 => format!("expected {what} below {end:#x}, got {first:#x} and up"),
        _ => format!("expected {what} below {end:#x}, got {first:#x}"),
    };
    Err(located.error(&format!("{path}.{key}"), message))
}

fn longest(low: Option<&Size>, protocol: &dyn Protocol) -> u64 {
    low.map_or_else(|| protocol.fragment_bytes_max(), |size| size.0)
}

/// `hades-{:03}` and a number; none where the pattern has not exactly one place for it.
pub(crate) fn numbered(pattern: &str, number: u32) -> Option<String> {
    let (before, rest) = pattern.split_once('{')?;
    let (format, after) = rest.split_once('}')?;
    if after.contains(['{', '}']) || before.contains('}') {
        return None;
    }
    let width = match format.strip_prefix(":0") {
        Some(width) => width.parse::<usize>().ok().filter(|width| *width <= 16)?,
        None if format.is_empty() => 0,
        None => return None,
    };
    Some(format!("{before}{number:0width$}{after}"))
}

/// The address that many ports further; port 0 stays, since the system chooses.
pub fn counted_up(address: SocketAddr, by: u32) -> Option<SocketAddr> {
    if address.port() == 0 {
        return Some(address);
    }
    let port = u32::from(address.port()).checked_add(by)?;
    Some(SocketAddr::new(address.ip(), u16::try_from(port).ok()?))
}
