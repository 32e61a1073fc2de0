//! The bounds of all values of a [`RecorderConfig`], each of them once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use catchment_builder::{SourceRole, TIMEOUT_NS_MIN, WINDOW_EVENTS_MIN};
use catchment_disk::DiskError;
use catchment_model::limits::{FRAGMENT_BYTES_MAX, FRAME_BYTES_MAX, SOURCES_MAX};
use catchment_model::printable::{label_fault, name_fault};
use catchment_model::units::{Bytes, Time};
use catchment_net::{Network, check_cpu};
use catchment_wire::layouts::{Layout, Layouts};
use catchment_wire::{Protocol, Transport};

use crate::budget::SystemMemory;
use crate::builder_config::{builder_config, number_config};
use crate::config::{ConfigError, RecorderConfig, SourceConfig};
use crate::links::check_links;
use crate::target_config::{NodeConfig, Place, Variant};
use crate::write_config::{WriteConfig, disk_config};

impl RecorderConfig {
    /// Checks every value against its bounds, against the others, and against the machine.
    ///
    /// # Errors
    /// The first value that is not possible, by its key in the configuration file.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_values()?;
        self.check_memory(&SystemMemory::now())
    }

    /// Checks everything that does not depend on the machine.
    pub(crate) fn check_values(&self) -> Result<(), ConfigError> {
        self.sizes.check()?;
        self.check_bounds()?;
        self.check_sources()?;
        crate::schema::schema(self)?;
        self.check_targets()?;
        let threads = self.receive.threads;
        require((1..=64).contains(&threads), "receive.threads", "1 to 64", threads)?;
        let threads = self.receive.link_threads;
        require((1..=64).contains(&threads), "receive.link_threads", "1 to 64", threads)?;
        self.check_builder()?;
        if !self.sources.is_empty() || self.accept.is_empty() {
            self.check_rule()?;
        }
        if let Some(event) = self.build.event_bytes_max {
            let event_fits = (1..=FRAME_BYTES_MAX).contains(&event);
            require(event_fits, "build.event_bytes_max", "1 B to 64 GiB", event)?;
        }
        let (reorder, half) = (self.build.reorder_events, self.build.window_events / 2);
        require(reorder <= half, "build.reorder_events", format_args!("at most {half}"), reorder)?;
        let frame = self.frame.bytes;
        let frame_fits = (4_096..=512 << 20).contains(&frame);
        require(frame_fits, "frame.bytes", "4 KiB to 512 MiB", frame)?;
        let channels = self.frame.channel_bytes;
        // A column, which may be the whole frame, is limited to 1 GiB.
        let channels_fit = (4_096..=1_000 << 20).contains(&channels);
        require(channels_fit, "frame.channel_bytes", "4 KiB to 1000 MiB", channels)?;
        let threads = self.encode.threads;
        require((1..=64).contains(&threads), "encode.threads", "1 to 64", threads)?;
        let bytes = self.encode.bytes;
        let least = self.sizes.encode_bytes_min;
        let fits = (least..=1 << 30).contains(&bytes);
        let expected = format_args!("{least} bytes to 1 GiB");
        require(fits, "encode.bytes", expected, bytes)?;
        let file = self.write.file_bytes;
        let frame = if self.links.is_empty() { frame } else { frame.max(channels) };
        // A train is a frame of its own.
        let least = frame.max(self.train_bytes()).saturating_mul(2);
        require(file >= least, "write.file_bytes", format_args!("at least {least}"), file)?;
        let buffer = self.write.buffer_bytes;
        let buffer_fits = buffer.is_multiple_of(4_096) && (65_536..=64 << 20).contains(&buffer);
        require(
            buffer_fits,
            "write.buffer_bytes",
            "a multiple of 4 KiB, 64 KiB to 64 MiB",
            buffer,
        )?;
        let header = self.frame_header_bytes_max();
        let expected = format_args!("at least {header}, a frame's header for these sources");
        require(buffer >= header, "write.buffer_bytes", expected, buffer)?;
        let count = self.write.buffer_count;
        require((3..=256).contains(&count), "write.buffer_count", "3 to 256", count)?;
        // Last, since the bounds above are narrower.
        if let Err(DiskError::Config { field, expected, got }) = disk_config(&self.write).check() {
            require(false, &format!("write.{field}"), expected, got)?;
        }
        self.check_budget()
    }

    fn check_budget(&self) -> Result<(), ConfigError> {
        let least = self.memory_bytes_min();
        let memory = self.memory_bytes;
        let two_events = self.two_events_bytes_min();
        let of_which = match two_events.saturating_mul(2) >= least {
            true => {
                let has_skew = self.set_aside_bytes_max(two_events) > 0;
                let beside = if has_skew { " and the skew of front-ends" } else { "" };
                let all = Bytes(two_events);
                format!(", of which two events of the longest fragments{beside} take {all}")
            }
            false => String::new(),
        };
        let of_spills = match self.read_back_bytes() {
            0 => String::new(),
            bytes => format!(", {} for frames read back from spills", Bytes(bytes)),
        };
        let expected = format_args!(
            "at least {least} bytes for these sources and buffers{of_which}{of_spills}"
        );
        require(memory >= least, "memory.budget", expected, memory)
    }

    fn check_targets(&self) -> Result<(), ConfigError> {
        let (half, mut all) = (self.memory_bytes / 2, 0_u64);
        for (index, target) in self.targets.iter().enumerate() {
            let key = format!("targets[{index}].queue_bytes");
            let bytes = target.queue_bytes.unwrap_or(1);
            require((1..=half).contains(&bytes), &key, "1 B to half of the memory", Bytes(bytes))?;
            let key = format!("targets[{index}].hold_bytes");
            let bytes = target.hold_bytes.unwrap_or(1);
            require((1..=half).contains(&bytes), &key, "1 B to half of the memory", Bytes(bytes))?;
            if let Some(NodeConfig { addresses, .. }) = target.place.node() {
                let key = format!("targets[{index}].nodes");
                require(!addresses.is_empty(), &key, "at least one storage node", "none")?;
            }
            let key = format!("targets[{index}].queue_bytes");
            all = all.saturating_add(target.best_effort_bytes(self));
            let expected = format_args!("{} or less for all targets", Bytes(half));
            require(all <= half, &key, expected, Bytes(all))?;
        }
        let names = self.ledger_names();
        for (index, target) in self.targets.iter().enumerate() {
            let known = |key: &str, wanted: &Option<Vec<String>>, names: BTreeSet<&str>, what| {
                let key = format!("targets[{index}].{key}");
                let Some(wanted) = wanted else { return Ok(()) };
                require(!wanted.is_empty(), &key, format_args!("at least one {what}"), "none")?;
                let unknown = wanted.iter().find(|name| !names.contains(name.as_str()));
                let unknown = unknown.map_or("", String::as_str);
                require(unknown.is_empty(), &key, format_args!("the name of a {what}"), unknown)
            };
            let sources = names.iter().map(String::as_str).collect();
            known("sources", &target.sources, sources, "source or link")?;
            let gets = |name| target.sources.as_ref().is_none_or(|names| names.contains(name));
            let links = self.links.iter().filter(|link| gets(&link.name));
            let channels = links.flat_map(|link| &link.channels);
            let channels = channels.map(|channel| channel.name.as_str()).collect();
            known("channels", &target.channels, channels, "channel of its links")?;
        }
        // What no target needs may be nowhere.
        let has_folder = self.targets.iter().any(|one| one.required && one.place != Place::None);
        let (targets, variants) = (self.targets(), Variant::of(self));
        let has_whole = |source| {
            targets.iter().zip(&variants).any(|(target, variant)| {
                let keeps = target.place != Place::None;
                target.required
                    && keeps == (has_folder || self.targets.is_empty())
                    && variant.has_whole(source)
            })
        };
        let nowhere = (0..names.len()).find(|&source| !has_whole(source));
        let expected = "a required target for each source, and for each link with all its channels";
        require(
            nowhere.is_none(),
            "targets",
            expected,
            format_args!("none for {}", nowhere.map_or("", |source| &names[source])),
        )
    }

    /// Bounds of times and sizes beyond which a value has no effect.
    fn check_bounds(&self) -> Result<(), ConfigError> {
        let (receive, frame, write) = (&self.receive, &self.frame, &self.write);
        let ns = |time: Duration| Some(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let bounds: [(&str, Option<u64>, RangeInclusive<u64>); 7] = [
            // A receive thread checks for other work every 20 ms.
            ("receive.spin", ns(receive.spin), 0..=20 * MS),
            ("receive.coalesce", ns(receive.coalesce), 0..=20 * MS),
            ("build.timeout", Some(self.build.timeout_ns), TIMEOUT_NS_MIN..=H),
            ("frame.time", Some(frame.time_ns), MS..=H),
            ("frame.duration", Some(frame.duration_ns), MS..=24 * H),
            ("write.file_time", write.file_time_ns, 100 * MS..=8_760 * H),
            // Without an interval the disk would only sync; hours of data must not be at risk.
            ("write.sync_interval", Some(write.sync_interval_ns), MS..=H),
        ];
        for (key, ns, bounds) in bounds {
            let ns = ns.unwrap_or(*bounds.start());
            let expected = format_args!("{} to {}", Time(*bounds.start()), Time(*bounds.end()));
            require(bounds.contains(&ns), key, expected, Time(ns))?;
        }
        for (number, access) in self.accesses().iter().enumerate() {
            let (key, bytes) = (format!("listen[{number}].skew_bytes"), access.skew_bytes);
            require(bytes <= SKEW_BYTES_MAX, &key, "at most 1 GiB", Bytes(bytes))?;
        }
        write.check_sync_bytes()?;
        // The kernel counts a buffer's bytes twice, in 31 bits.
        let bytes = receive.socket_buffer_bytes;
        let got = format_args!("{bytes} bytes");
        require(bytes <= 1 << 30, "receive.socket_buffer", "at most 1 GiB", got)
    }

    /// Checks that this machine has the CPUs that threads are pinned to. [`RecorderConfig::check`]
    /// does not require them: a recorder whose CPU has since been removed starts with a warning.
    ///
    /// # Errors
    /// The first CPU that the machine does not have, by its key.
    pub fn check_cpus(&self) -> Result<(), ConfigError> {
        let receive = self.receive.cpus.iter().map(|&cpu| ("receive.cpus", Some(cpu)));
        for (key, cpu) in
            receive.chain([("build.cpu", self.build.cpu), ("write.cpu", self.write.cpu)])
        {
            let Some(cpu) = cpu else { continue };
            check_cpu(cpu).or_else(|expected| require(false, key, expected, cpu))?;
        }
        Ok(())
    }

    /// Checks the budget against the available memory.
    fn check_memory(&self, system: &SystemMemory) -> Result<(), ConfigError> {
        let (memory, limit) = (self.memory_bytes, system.limit_bytes());
        // Unknown if the system does not say it.
        let fits = limit == 0 || memory <= limit;
        let words = system.limit_words();
        let expected = format_args!("at most {limit} bytes, {words}");
        require(fits, "memory.budget", expected, memory)
    }

    /// The builder's refusals, by the keys of the configuration file.
    fn check_builder(&self) -> Result<(), ConfigError> {
        use catchment_builder::ConfigError as Refused;
        let mut config = builder_config(self);
        // Its settings must be within their bounds even if there are only links.
        if config.sources.is_empty() {
            config.sources.push(SourceRole::Required);
        }
        let of_rule = || {
            let mut number = number_config(self);
            // This has a narrower bound of its own.
            number.reorder_events = number.reorder_events.min(number.window_events / 2);
            number.check(&config)
        };
        // Those of the other rule are checked with its sources.
        let checked = config.check().and_then(|()| match self.is_by_time() {
            true => Ok(()),
            false => of_rule(),
        });
        let Err(refused) = checked else { return Ok(()) };
        if let Refused::Window { got, max } = refused {
            let expected = format_args!("a power of two, {WINDOW_EVENTS_MIN} to {max}");
            return require(false, "build.window_events", expected, got);
        }
        let key = match refused {
            Refused::Sources { .. } => "sources",
            Refused::AllDisabled | Refused::Sparse { .. } => "sources.role",
            Refused::Window { .. } => "build.window_events",
            Refused::Reorder { .. } => "build.reorder_events",
            Refused::Timeout { .. } => "build.timeout",
            Refused::FrameBytes | Refused::FrameKeys => "frame.bytes",
            Refused::NumberBits { .. } | Refused::Parked { .. } | Refused::Voters { .. } => "build",
            Refused::Slices { .. } | Refused::SliceIndex { .. } | Refused::OwnedChange { .. } => {
                "build"
            }
            Refused::Continues { .. } | Refused::Time { .. } => "build",
        };
        // The builder's message says what was expected and, except for one, what was found.
        let text = refused.to_string();
        let text = text.strip_prefix("expected ").unwrap_or("a source that is not disabled");
        let (expected, got) = text.rsplit_once(", got ").unwrap_or((text, "none"));
        require(false, key, expected, got)
    }

    fn check_sources(&self) -> Result<(), ConfigError> {
        let count = self.ledger_count();
        // Those that will be admitted are not there yet: see `check_run`.
        let least = usize::from(self.accept.is_empty());
        let expected = format_args!("{least} to {SOURCES_MAX}");
        require((least..=SOURCES_MAX).contains(&count), "sources", expected, count)?;
        check_links(&self.links, self.frame.duration_ns)?;
        let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
        let mut ports = Ports::default();
        for (index, source) in self.sources.iter().enumerate() {
            let path = format!("sources[{index}]");
            let (name, address) = (&source.name, source.address);
            match check_connections(&path, source, &mut ports)? {
                true => check_name(&format!("{path}.name"), name, &mut names)?,
                false => {
                    check_endpoint(&path, name, address, &source.from, &mut names, &mut addresses)?;
                }
            }
            refuse(&format!("{path}.group"), label_fault(&source.group))?;
            for (number, field) in source.payload.iter().flat_map(|one| &one.fields).enumerate() {
                let key = format!("{path}.payload.fields[{number}].name");
                refuse(&key, name_fault(&field.name))?;
            }
            let (bytes, most) = (source.fragment_bytes_max, FRAGMENT_BYTES_MAX);
            let expected = format_args!("1 to {most} bytes ({name})");
            let fits = (1..=most).contains(&bytes);
            require(fits, &format!("{path}.fragment_bytes_max"), expected, bytes)?;
            let whole = source.protocol.fragment_bytes_max();
            if source.is_of_trains() {
                // Each of its fragments is that long.
                let (expected, most) = (format!("at least a train's {whole} bytes"), bytes);
                require(most >= whole, &format!("{path}.fragment_bytes_max"), &expected, most)?;
                let most = self.event_bytes_max();
                require(most >= whole, "build.event_bytes_max", expected, most)?;
            }
        }
        let is_link = |source: &&SourceConfig| source.is_link();
        for (index, listener) in self.listeners.iter().enumerate() {
            // The first stands with the sources.
            let key = format!("listen[{}]", index + 1);
            check_address(&format!("{key}.address"), listener.address, &mut addresses)?;
            check_from(&format!("{key}.from"), &listener.from, listener.address)?;
            let mut sources = self.sources.iter().filter(is_link);
            let first = sources.next();
            let (expected, got) = ("a source of front-ends", "none");
            let has_one = first.is_some() || !self.accept.is_empty();
            require(has_one, &key, expected, got)?;
            let other = sources.find(|one| first.is_some_and(|first| one.address != first.address));
            let expected = "one address of all sources of front-ends beside further listeners";
            let got = other.map_or(String::new(), |one| one.address.to_string());
            require(other.is_none(), &key, expected, got)?;
        }
        for (index, link) in self.links.iter().enumerate() {
            let (path, name) = (format!("links[{index}]"), &link.name);
            check_endpoint(&path, name, link.address, &link.from, &mut names, &mut addresses)?;
            refuse(&format!("{path}.group"), label_fault(&link.group))?;
        }
        Ok(())
    }
}

/// The ports of the sources of connections.
#[derive(Default)]
struct Ports<'a> {
    /// The first source of each.
    first: BTreeMap<SocketAddr, &'a SourceConfig>,
    /// The names of the sources with ids, by port and id.
    ids: BTreeMap<(SocketAddr, Option<u32>), &'a str>,
}

/// Checks a source of connections, which may share its port with others: these have its protocol
/// and its senders, and other ids. Returns whether one before it has the port.
fn check_connections<'a>(
    path: &str,
    source: &'a SourceConfig,
    ports: &mut Ports<'a>,
) -> Result<bool, ConfigError> {
    let (protocol, transport) = (source.protocol.name(), source.protocol.transport());
    if !transport.is_connections() {
        return Ok(false);
    }
    let has_id = source.id.is_some() || transport == Transport::Sessions;
    let expected = format_args!("a number: with protocol {protocol:?}, fragments carry it");
    require(has_id, &format!("{path}.id"), expected, "none")?;
    let first = ports.first.get(&source.address).copied();
    if let Some(SourceConfig { name, protocol: other, from, .. }) = first {
        let expected = format_args!("{:?}, as {name} has, which shares the port", other.name());
        require(other.name() == protocol, &format!("{path}.protocol"), expected, protocol)?;
        let (layout, theirs) = (layout_of(&source.protocol), layout_of(other));
        let name_of = |layout: Option<&'a Layout>| layout.map_or("", |layout| &layout.name);
        let expected = format_args!("{:?}, as {name} has, which shares the port", name_of(theirs));
        require(layout == theirs, &format!("{path}.layout"), expected, name_of(layout))?;
        let expected = format_args!("the networks of {name}, which shares the port");
        require(*from == source.from, &format!("{path}.from"), expected, "others")?;
    } else {
        ports.first.insert(source.address, source);
    }
    if transport != Transport::Sessions {
        let same = ports.ids.insert((source.address, source.id), &source.name);
        let name = same.unwrap_or_default();
        let expected = format_args!("an id other than that of {name} on the same port");
        require(same.is_none(), &format!("{path}.id"), expected, source.id.unwrap_or(0))?;
    }
    Ok(first.is_some())
}

/// The declaration of a protocol on connections.
fn layout_of(protocol: &Arc<dyn Protocol>) -> Option<&Layout> {
    protocol.declared().first().map(Layouts::layout)
}

/// Checks the properties common to sources and links; `path` is the key of the table.
fn check_endpoint<'a>(
    path: &str,
    name: &'a str,
    address: SocketAddr,
    from: &[Network],
    names: &mut BTreeSet<&'a str>,
    addresses: &mut BTreeSet<SocketAddr>,
) -> Result<(), ConfigError> {
    check_name(&format!("{path}.name"), name, names)?;
    check_address(&format!("{path}.address"), address, addresses)?;
    check_from(&format!("{path}.from"), from, address)
}

/// Checks that an address can be bound beside the others.
fn check_address(
    key: &str,
    address: SocketAddr,
    addresses: &mut BTreeSet<SocketAddr>,
) -> Result<(), ConfigError> {
    let same = same_port(address, addresses).filter(|_| address.port() != 0);
    addresses.insert(address);
    let own = same.is_none();
    let got = match same {
        Some(other) if other != address => format!("{address} beside {other}"),
        _ => format!("{address} again"),
    };
    require(own, key, "a port used once", got)
}

/// One of these addresses that cannot be bound together with `address`: an unspecified address
/// takes its port on all addresses of the machine.
fn same_port(address: SocketAddr, addresses: &BTreeSet<SocketAddr>) -> Option<SocketAddr> {
    let (ip, port) = (address.ip(), address.port());
    let of_all = |ip: IpAddr| SocketAddr::new(ip, port);
    // That of IPv6 takes the port for IPv4, too.
    let version_4 = of_all(Ipv4Addr::UNSPECIFIED.into());
    let version_4 = (ip.is_ipv4() || ip.is_unspecified()).then_some(version_4);
    let any = version_4.into_iter().chain([of_all(Ipv6Addr::UNSPECIFIED.into())]);
    let same = std::iter::once(address).chain(any).find(|one| addresses.contains(one));
    let covers = |one: &&SocketAddr| one.port() == port && (ip.is_ipv6() || one.is_ipv4());
    same.or_else(|| addresses.iter().find(covers).copied().filter(|_| ip.is_unspecified()))
}

/// Checks that a name is valid and not in use.
pub(crate) fn check_name<'a>(
    key: &str,
    name: &'a str,
    names: &mut BTreeSet<&'a str>,
) -> Result<(), ConfigError> {
    refuse(key, name_fault(name))?;
    require(names.insert(name), key, "a name used once", format_args!("{name:?} again"))
}

/// Checks the networks from which a source or link at that address may send: at most as many as
/// each datagram may be compared with, and at least one whose senders reach the address.
fn check_from(key: &str, from: &[Network], address: SocketAddr) -> Result<(), ConfigError> {
    let count = from.len();
    let expected = format_args!("at most {NETWORKS_MAX} networks");
    require(count <= NETWORKS_MAX, key, expected, count)?;
    let heard = count == 0 || from.iter().any(|network| network.reaches(address.ip()));
    let expected = format_args!("a network whose senders reach {address}");
    let got: Vec<String> = from.iter().map(ToString::to_string).collect();
    require(heard, key, expected, got.join(", "))
}

/// Refuses a faulty text, with the expected and the found value.
pub(crate) fn refuse(key: &str, fault: Option<(String, String)>) -> Result<(), ConfigError> {
    fault.map_or(Ok(()), |(expected, got)| require(false, key, expected, got))
}

impl WriteConfig {
    /// Checks after how many bytes a sync begins.
    ///
    /// # Errors
    /// They are out of range.
    pub fn check_sync_bytes(&self) -> Result<(), ConfigError> {
        let Some(bytes) = self.sync_bytes else { return Ok(()) };
        let fits = (4 << 10..=1 << 40).contains(&bytes);
        require(fits, "write.sync_bytes", "4 KiB to 1 TiB", Bytes(bytes))
    }
}

pub(crate) fn require(
    holds: bool,
    key: &str,
    expected: impl std::fmt::Display,
    got: impl std::fmt::Display,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError { key: key.into(), expected: expected.to_string(), got: got.to_string() })
}

/// What a welcome can grant.
const SKEW_BYTES_MAX: u64 = 1 << 30;
/// The most networks from which a source may send: each of its datagrams is compared with them.
const NETWORKS_MAX: usize = 64;
const MS: u64 = 1_000_000;
const H: u64 = 3_600_000 * MS;

#[cfg(test)]
mod tests {
    use catchment_frame::Dtype;
    use catchment_model::SampleRate;

    use super::*;
    use crate::config::SourceConfig;
    use crate::links::{ChannelConfig, LinkConfig};

    #[test]
    fn a_budget_of_any_size_is_checked_by_its_own_key() {
        let address = "127.0.0.1:0".parse().unwrap();
        let sources = RecorderConfig::new("runs".into(), vec![SourceConfig::new("s0", address)]);
        let channel = ChannelConfig::new("a", Dtype::F32, SampleRate::new(16, 1).unwrap());
        let mut links = RecorderConfig::new("runs".into(), Vec::new());
        links.links = vec![LinkConfig::new("l0", address, vec![channel])];
        for mut config in [sources, links] {
            config.memory_bytes = 1 << 40;
            assert_eq!(config.check_values(), Ok(()));
            config.memory_bytes = 1 << 20;
            let refused = config.check_values().unwrap_err().to_string();
            assert!(refused.starts_with("memory.budget: expected at least "), "{refused}");
            config.build.event_bytes_max = Some(0);
            let refused = config.check_values().unwrap_err().to_string();
            let expected = "build.event_bytes_max: expected 1 B to 64 GiB, got 0";
            assert_eq!(refused, expected);
        }
    }

    #[test]
    fn two_events_are_named_only_where_they_need_the_budget() {
        let address = "127.0.0.1:0".parse().unwrap();
        let sources = vec![SourceConfig::new("s0", address)];
        let mut config = RecorderConfig::new("runs".into(), sources);
        config.memory_bytes = 1 << 20;
        let refused = config.check_values().unwrap_err().to_string();
        assert!(!refused.contains("two events"), "{refused}");
        config.sources[0].fragment_bytes_max = 1 << 30;
        config.build.event_bytes_max = Some(1 << 30);
        let refused = config.check_values().unwrap_err().to_string();
        assert!(refused.contains("two events of the longest fragments take 2.15 GB"), "{refused}");
    }

    #[test]
    fn an_unspecified_address_uses_its_port_of_all_addresses() {
        let check = |addresses: &[&str]| {
            let sources = addresses.iter().enumerate().map(|(index, address)| {
                SourceConfig::new(format!("s{index}"), address.parse().unwrap())
            });
            RecorderConfig::new("runs".into(), sources.collect()).check_values()
        };
        for apart in [
            ["127.0.0.1:0", "127.0.0.1:0"],
            ["0.0.0.0:5000", "127.0.0.1:5001"],
            ["127.0.0.1:5000", "127.0.0.2:5000"],
            ["0.0.0.0:5000", "[::1]:5000"],
        ] {
            assert_eq!(check(&apart), Ok(()));
        }
        for both in [
            ["127.0.0.1:5000", "127.0.0.1:5000"],
            ["0.0.0.0:5000", "127.0.0.1:5000"],
            ["127.0.0.1:5000", "0.0.0.0:5000"],
            ["[::1]:5000", "[::]:5000"],
            ["[::]:5000", "127.0.0.1:5000"],
            ["0.0.0.0:5000", "[::]:5000"],
        ] {
            let refused = check(&both).unwrap_err().to_string();
            assert!(
                refused.starts_with("sources[1].address: expected a port used once"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_budget_beyond_what_the_process_may_have_is_refused() {
        let mut config = RecorderConfig::new("runs".into(), Vec::new());
        let machine =
            SystemMemory { machine_bytes: 8 << 30, group_bytes: None, available_bytes: None };
        let group = SystemMemory { group_bytes: Some(1 << 30), ..machine };
        config.memory_bytes = 1 << 30;
        assert_eq!((config.check_memory(&machine), config.check_memory(&group)), (Ok(()), Ok(())));
        config.memory_bytes = 4 << 30;
        assert_eq!(config.check_memory(&machine), Ok(()));
        let refused = |memory| config.check_memory(memory).unwrap_err().to_string();
        let expected = "memory.budget: expected at most 1073741824 bytes, the control group's limit, 1.07 GB, \
                        got 4294967296";
        assert_eq!(refused(&group), expected);
        config.memory_bytes = 10 << 40;
        let refused = config.check_memory(&machine).unwrap_err().to_string();
        assert!(refused.contains("the machine's memory, 8.59 GB"), "{refused}");
    }
}
