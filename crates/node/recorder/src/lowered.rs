//! Settings of a configuration that do not take full effect because something else limits them, or
//! that may not be available when needed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use catchment_model::units::Bytes;
use catchment_net::{LinkAccess, TlsRule};

use crate::budget::SystemMemory;
use crate::config::RecorderConfig;
use crate::links::ChannelConfig;
use crate::target_config::TargetConfig;

/// Trains that there should be memory for.
const TRAINS_AT_START: u64 = 4;

impl RecorderConfig {
    /// The settings that will be lower than configured, with both figures and the reason, one
    /// sentence each. A recorder issues them as warnings when it starts.
    pub fn lowered(&self) -> Vec<String> {
        let mut lowered = Vec::new();
        let (sources, links) = (self.sources.len(), self.links.len());
        for (key, threads, count, what) in [
            ("receive.threads", self.receive.threads, sources, "sources"),
            ("receive.link_threads", self.receive.link_threads, links, "links"),
        ] {
            if count > 0 && threads > count {
                lowered.push(format!(
                    "{key}: {count} instead of {threads}, one for each of the {what}"
                ));
            }
        }
        lowered.extend(self.lowered_event_frames());
        lowered.extend(self.lowered_duration());
        lowered.extend(self.lowered_events());
        lowered.extend(self.lowered_skew());
        lowered
    }

    /// Whether the sources' fragments can add up to events that are refused.
    fn lowered_events(&self) -> Option<String> {
        let longest: u64 = self.sources.iter().map(|source| source.fragment_bytes_max).sum();
        let most = self.event_bytes_max();
        (most < longest && self.build.event_bytes_max.is_none()).then(|| {
            format!(
                "build.event_bytes_max: events of more than {}, a quarter of the memory for \
                 fragments, are refused, although the sources' longest fragments add up to {}",
                Bytes(most),
                Bytes(longest)
            )
        })
    }

    /// The possible problems of this configuration on this machine now, one sentence each. A
    /// recorder issues them when it starts.
    pub fn warnings(&self) -> Vec<String> {
        self.memory_short(&SystemMemory::now())
            .into_iter()
            .chain(self.trains_short())
            .chain(self.trends_beside_spills())
            .chain(self.codings_reordered())
            .chain(self.listens_unprotected())
            .chain(self.takes_clear_data())
            .collect()
    }

    /// How many trains the memory holds, as a sentence; none without sources of trains.
    pub fn trains_held(&self) -> Option<String> {
        let (bytes, held) = self.trains()?;
        Some(format!("Trains of {}: the memory for fragments holds {held}.", Bytes(bytes)))
    }

    /// A train's bytes in all sources, and how many trains the memory holds.
    fn trains(&self) -> Option<(u64, u64)> {
        let bytes = Some(self.train_bytes()).filter(|&bytes| bytes > 0)?;
        Some((bytes, self.segment_bytes() / bytes))
    }

    /// Whether the memory does not hold the trains that wait for each other when a lone feeder
    /// begins: three, and one that arrives.
    fn trains_short(&self) -> Option<String> {
        let (bytes, held) = self.trains().filter(|&(_, held)| held < TRAINS_AT_START)?;
        let shares = if self.links.is_empty() { 1 } else { 2 };
        let chunks = bytes.saturating_mul(TRAINS_AT_START * shares);
        let enough = self.memory_bytes_with(chunks.div_ceil(3).saturating_mul(4) + (8 << 20));
        Some(format!(
            "memory.budget: it holds {held} trains of {}; at the start three wait for each other \
             while the next one arrives, and without memory whole trains are dropped (a budget of \
             {} would do)",
            Bytes(bytes),
            Bytes(enough)
        ))
    }

    /// Folders for which the end of a run waits although they have a spill.
    fn trends_beside_spills(&self) -> impl Iterator<Item = String> {
        let has_both = |one: &&TargetConfig| one.spill.is_some() && one.trends_folder().is_some();
        let targets = self.targets.iter().filter(|_| self.trends).filter(has_both);
        targets.map(|TargetConfig { name, .. }| {
            format!(
                "targets.trends: {name} has a spill and trends, which are not spilled: if its \
                 folder hangs, no trends are written, and the run's end waits until it answers \
                 (trends = false)"
            )
        })
    }

    /// The listener of front-ends that everybody on the network can reach.
    fn listens_unprotected(&self) -> Option<String> {
        let (address, _) = self.listeners_beyond().find(|(_, access)| access.is_open())?;
        Some(format!(
            "front-ends connect to {address} without protection: everybody on the network can \
             deliver data as any source"
        ))
    }

    /// The listener beyond this machine, otherwise protected, whose data connections are not.
    fn takes_clear_data(&self) -> Option<String> {
        let is_in_part = |(_, access): &(SocketAddr, &LinkAccess)| {
            access.tls == TlsRule::Control && !access.is_open()
        };
        let (address, _) = self.listeners_beyond().find(is_in_part)?;
        Some(format!(
            "front-ends may send data to {address} in the clear (tls = \"control\"): whoever can \
             read the network between can see the data, and whoever can write to it can change the \
             data"
        ))
    }

    /// The listeners that others than this machine can reach.
    fn listeners_beyond(&self) -> impl Iterator<Item = (SocketAddr, &LinkAccess)> {
        let own = self.session_addresses().chain(self.first_listener());
        let own = own.map(|address| (address, &self.access));
        let further = self.listeners.iter().map(|one| (one.address, &one.access));
        own.chain(further).filter(|(address, _)| !address.ip().is_loopback())
    }

    /// Columns to which another rule applies now than under the order until version 0.1, in which
    /// the first matching rule applied: a sentence for each pair of rules.
    fn codings_reordered(&self) -> Vec<String> {
        let rules = self.frame.codings.rules();
        let channels = self.links.iter().flat_map(|link| &link.channels).map(|one| &one.name);
        let names = self.sources.iter().map(|source| &source.name).chain(channels);
        let mut reordered: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
        for name in names {
            let mut fitting = (0..rules.len()).filter(|&rule| rules[rule].0.fits(name));
            let Some(first) = fitting.next() else { continue };
            let last = fitting.next_back().unwrap_or(first);
            // A column's own codec, listed after the patterns, also took precedence before.
            if !rules[last].0.is_name() && rules[first].1 != rules[last].1 {
                reordered.entry((first, last)).or_default().push(name);
            }
        }
        let sentence = |((first, last), names): (&(usize, usize), &Vec<&str>)| {
            let more = match names.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "codecs[{last}] ({}) gives {}{more} {}; until version 0.1, codecs[{first}] ({}) \
                 gave {}: of several rules that fit a name, the last one applies now",
                rules[*last].0, names[0], rules[*last].1, rules[*first].0, rules[*first].1,
            )
        };
        reordered.iter().map(sentence).collect()
    }

    /// Whether the budget exceeds the memory available now. Other processes may free some.
    fn memory_short(&self, system: &SystemMemory) -> Option<String> {
        let available = system.available_bytes.filter(|bytes| *bytes < self.memory_bytes)?;
        Some(format!(
            "memory.budget: {} are available now, less than the {} of the budget; the system kills \
             processes when there is no more",
            Bytes(available),
            Bytes(self.memory_bytes)
        ))
    }

    /// Whether frames of events are cut before they have the size that is asked for.
    fn lowered_event_frames(&self) -> Option<String> {
        let (asked, bytes) = (self.frame.bytes, self.event_frame_bytes());
        (bytes < asked && !self.sources.is_empty()).then(|| {
            format!(
                "frame.bytes: frames of events have {} instead of {}, an eighth of the memory for \
                 fragments, so that compression can be lowered in time (a memory.budget of {} \
                 would do)",
                Bytes(bytes),
                Bytes(asked),
                Bytes(self.memory_bytes_for_events())
            )
        })
    }

    /// The data time that a frame of channels covers at most, if all of them deliver: it may reach
    /// its size before.
    pub(crate) fn channel_frame_ns(&self) -> u64 {
        match self.channel_bytes_per_s() {
            bytes_per_s if bytes_per_s > 0.0 => {
                let covered_ns = self.channel_frame_bytes() as f64 / bytes_per_s * 1e9;
                self.frame.duration_ns.min(covered_ns as u64)
            }
            _ => self.frame.duration_ns,
        }
    }

    fn channel_bytes_per_s(&self) -> f64 {
        self.links.iter().flat_map(|link| &link.channels).map(bytes_per_s).sum()
    }

    /// Whether frames of channels reach their size before their duration is over.
    fn lowered_duration(&self) -> Option<String> {
        let bytes_per_s = self.channel_bytes_per_s();
        let (asked_bytes, bytes) = (self.frame.channel_bytes, self.channel_frame_bytes());
        let (asked_s, covered_s) =
            (self.frame.duration_ns as f64 / 1e9, bytes as f64 / bytes_per_s);
        if bytes_per_s <= 0.0 || covered_s >= asked_s {
            return None;
        }
        let bound = match bytes < asked_bytes {
            true => format!(
                "a quarter of the memory for channels, {}, is less than frame.channel_bytes, {} \
                 (a memory.budget of {} would do), and",
                Bytes(bytes),
                Bytes(asked_bytes),
                Bytes(self.memory_bytes_for(asked_bytes.min((asked_s * bytes_per_s) as u64)))
            ),
            false => format!("frame.channel_bytes is {} and", Bytes(bytes)),
        };
        Some(format!(
            "frame.duration: frames of channels cover {covered_s:.1} s instead of {asked_s:.1} s, because \
             {bound} the channels bring {}/s",
            Bytes(bytes_per_s as u64)
        ))
    }
}

/// The data rate of a channel.
fn bytes_per_s(channel: &ChannelConfig) -> f64 {
    channel.rate.num() as f64 / channel.rate.den() as f64 * channel.sample_bytes() as f64
}

#[cfg(test)]
mod tests;
