//! The sources of a file: single ones, and groups written out.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_model::limits::SOURCES_MAX;
use catchment_model::units::Size;
use catchment_net::Network;
use catchment_recorder::SourceConfig;
use catchment_wire::hadtu::{self, Hadtu};
use catchment_wire::{Protocol, protocols};

use crate::links;
use crate::locate::{ConfigFileError, Located};
use crate::low::{Low, SourceGroupLow};

/// All sources of the file, each with a name and a port of its own, and the keys of the tables that
/// they are written in.
pub(crate) fn sources(
    located: &Located<'_>,
    low: &Low,
) -> Result<(Vec<SourceConfig>, Vec<String>), ConfigFileError> {
    let mut sources = Vec::new();
    for (index, source) in low.sources.iter().enumerate() {
        let path = format!("sources[{index}].payload");
        let payload = source.payload.as_ref().map(|low| links::payload(located, &path, low));
        let path = format!("sources[{index}]");
        let from = senders(located, &path, source.from.as_deref())?;
        let protocol = protocol(located, &path, source.protocol.as_deref())?;
        sources.push(SourceConfig {
            name: source.name.clone(),
            group: source.group.clone().unwrap_or_else(|| "sources".into()),
            address: source.address.0,
            from,
            id: sub_event_ids(located, &path, "sub_event_id", source.sub_event_id, &protocol, 1)?,
            fragment_bytes_max: longest(source.fragment_bytes_max.as_ref(), &*protocol),
            protocol,
            role: source.role,
            payload: payload.transpose()?,
            is_link: false,
        });
    }
    let singles = sources.len();
    let mut origins: Vec<String> = (0..singles).map(|index| format!("sources[{index}]")).collect();
    for (index, group) in low.source_groups.iter().enumerate() {
        let path = format!("source_groups[{index}]");
        expand(located, &path, group, &mut sources)?;
        origins.resize(sources.len(), path);
    }
    if sources.is_empty() && low.links.is_empty() {
        let expected = "expected [[sources]], [[source_groups]] or [[links]], got none";
        return Err(ConfigFileError { place: None, ..located.error("sources", expected) });
    }
    Ok((sources, origins))
}

/// Writes a group's sources out: ports and sub-event ids count up.
fn expand(
    located: &Located<'_>,
    path: &str,
    group: &SourceGroupLow,
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
    let from = senders(located, path, group.from.as_deref())?;
    let protocol = protocol(located, path, group.protocol.as_deref())?;
    let (key, first_id) = ("first_sub_event_id", group.first_sub_event_id);
    let first_id = sub_event_ids(located, path, key, first_id, &protocol, count)?;
    for index in 0..count {
        let Some(name) = numbered(pattern, index) else {
            let expected = "expected one place for the number such as \"hades-{:03}\"";
            return error("name", format!("{expected}, got {pattern:?}"));
        };
        let Some(address) = counted_up(group.address.0, index) else {
            let got = group.address.0;
            return error("address", format!("expected {count} ports up from here, got {got}"));
        };
        sources.push(SourceConfig {
            name,
            group: group.group.clone(),
            address,
            from: from.clone(),
            protocol: Arc::clone(&protocol),
            id: first_id.map(|first| first + index),
            fragment_bytes_max: longest(group.fragment_bytes_max.as_ref(), &*protocol),
            role: group.role,
            payload: payload.clone(),
            is_link: false,
        });
    }
    Ok(())
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
    name: Option<&str>,
) -> Result<Arc<dyn Protocol>, ConfigFileError> {
    let Some(name) = name else { return Ok(Arc::new(Hadtu)) };
    protocols().into_iter().find(|protocol| protocol.name() == name).ok_or_else(|| {
        let all = protocols();
        let names: Vec<&str> = all.iter().map(|protocol| protocol.name()).collect();
        let message = format!("expected {}, got {name:?}", names.join(" or "));
        located.error(&format!("{path}.protocol"), message)
    })
}

/// The first of some sources' sub-event ids, which count up: only fragments of `hadtu` have them.
fn sub_event_ids(
    located: &Located<'_>,
    path: &str,
    key: &str,
    first: Option<u32>,
    protocol: &Arc<dyn Protocol>,
    count: u32,
) -> Result<Option<u32>, ConfigFileError> {
    let Some(first) = first else { return Ok(None) };
    let name = protocol.name();
    let (end, what) = (hadtu::ID_END, if count > 1 { "ids" } else { "an id" });
    let message = match first.checked_add(count - 1) {
        _ if name != hadtu::NAME => format!("expected no such key with the protocol {name}"),
        Some(last) if last < end => return Ok(Some(first)),
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
