//! Settings of a configuration that do not take full effect because something else limits them, or
//! that may not be available when needed.

use std::collections::BTreeMap;

use catchment_frame::ColumnCoding;
use catchment_model::units::Bytes;

use crate::budget::SystemMemory;
use crate::config::RecorderConfig;
use crate::links::ChannelConfig;

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
        lowered.extend(self.lowered_compression());
        lowered.extend(self.lowered_events());
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
            .chain(self.codings_reordered())
            .collect()
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

    /// Whether channels have more bytes in a frame than memory allows to be compressed at once.
    fn lowered_compression(&self) -> Option<String> {
        let channels = || self.links.iter().flat_map(|link| &link.channels);
        let frame_s = self.frame.duration_ns as f64 / 1e9;
        let whole: f64 = channels().map(bytes_per_s).sum::<f64>() * frame_s;
        // Frames that are cut at their size hold less of each channel.
        let covered_s = frame_s * (self.channel_frame_bytes() as f64 / whole.max(1.0)).min(1.0);
        let most = self.compressed_bytes_max();
        let compresses = |name: &str| self.frame.codings.of(name) != ColumnCoding::NONE;
        let mut beyond = channels().filter(|channel| {
            bytes_per_s(channel) * covered_s > most as f64 && compresses(&channel.name)
        });
        let first = beyond.next()?;
        let more = match beyond.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "encode.bytes: {}{more} will not be compressed, because {} has {} in a frame, and columns of \
             more than {} are stored as they are (a shorter frame.duration, or more encode.bytes and \
             memory.budget, would do)",
            first.name,
            first.name,
            Bytes((bytes_per_s(first) * covered_s) as u64),
            Bytes(most as u64)
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

    /// Whether frames of channels reach their size before their duration is over.
    fn lowered_duration(&self) -> Option<String> {
        let channels = self.links.iter().flat_map(|link| &link.channels);
        let bytes_per_s: f64 = channels.map(bytes_per_s).sum();
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
mod tests {
    use std::path::PathBuf;

    use catchment_frame::{Codings, Dtype, Pattern};
    use catchment_model::SampleRate;

    use super::*;
    use crate::LinkConfig;

    /// A link of 4 MB/s.
    fn config(memory_bytes: u64) -> RecorderConfig {
        let mut config = RecorderConfig::new(PathBuf::from("runs"), Vec::new());
        config.memory_bytes = memory_bytes;
        let rate = SampleRate::new(10_000, 1).unwrap();
        let channel = |n: u32| ChannelConfig::new(format!("X:{n}"), Dtype::F32, rate);
        let address = "127.0.0.1:0".parse().unwrap();
        config.links = vec![LinkConfig::new("link", address, (0..100).map(channel).collect())];
        config.check_values().unwrap();
        config
    }

    #[test]
    fn frames_that_memory_makes_shorter_are_told_with_both_figures() {
        let messages = config(1 << 30).lowered();
        let expected = "frame.duration: frames of channels cover 42.5 s instead of 64.0 s, because a \
                        quarter of the memory for channels, 170 MB, is less than \
                        frame.channel_bytes, 268 MB (a memory.budget of 1.53 GB would do), and the \
                        channels bring 4.00 MB/s";
        assert_eq!(messages, [expected]);
        // With what it says it is so.
        let enough = config(1 << 30).memory_bytes_for(256_000_000);
        assert_eq!(config(enough).lowered(), Vec::<String>::new());
        assert_eq!(config(enough - 1_000_000).lowered().len(), 1);
        assert_eq!(config(16 << 30).lowered(), Vec::<String>::new());
    }

    #[test]
    fn frames_of_events_that_memory_makes_smaller_are_told_where_they_are_compressed() {
        let address = "127.0.0.1:0".parse().unwrap();
        let sources = vec![crate::config::SourceConfig::new("s0", address)];
        let mut config = RecorderConfig::new(PathBuf::from("runs"), sources);
        config.memory_bytes = 200 << 20;
        config.frame.codings = Codings::new(ColumnCoding::Auto);
        let messages = config.lowered();
        let expected = "frame.bytes: frames of events have 14.1 MB instead of 33.6 MB, an eighth \
                        of the memory for fragments, so that compression can be lowered in time (a \
                        memory.budget of 447 MB would do)";
        assert_eq!(messages, [expected]);
        // With what it says it is so.
        config.memory_bytes = config.memory_bytes_for_events();
        assert_eq!(config.lowered(), Vec::<String>::new());
        config.memory_bytes = 200 << 20;
        config.frame.codings = Codings::new(ColumnCoding::NONE);
        assert_eq!(config.lowered(), Vec::<String>::new());
    }

    #[test]
    fn frames_that_their_own_bound_makes_shorter_are_told_too() {
        let mut config = config(16 << 30);
        config.frame.channel_bytes = 64 << 20;
        let messages = config.lowered().concat();
        assert!(
            messages.contains("16.8 s instead of 64.0 s, because frame.channel_bytes is 67.1 MB")
        );
        config.frame.duration_ns = 16_000_000_000;
        assert_eq!(config.lowered(), Vec::<String>::new());
    }

    #[test]
    fn channels_that_are_too_large_to_be_compressed_are_told() {
        let mut config = config(16 << 30);
        // One of 2.56 MB/s, 164 MB in a frame of 64 s.
        config.links[0].channels[3].shape = vec![64];
        let expected = "encode.bytes: X:3 will not be compressed, because X:3 has 164 MB in a frame, and \
                        columns of more than 67.1 MB are stored as they are (a shorter \
                        frame.duration, or more encode.bytes and memory.budget, would do)";
        let told = |config: &RecorderConfig| {
            let lowered = config.lowered();
            lowered.into_iter().find(|one| one.starts_with("encode.bytes"))
        };
        config.frame.channel_bytes = 1_000 << 20;
        assert_eq!(told(&config).as_deref(), Some(expected));
        config.frame.duration_ns = 16_000_000_000;
        assert_eq!(told(&config), None);
        config.frame.duration_ns = 64_000_000_000;
        config.encode.bytes = 200 << 20;
        assert_eq!(told(&config), None);
        config.encode.bytes = 1 << 20;
        config.frame.codings = Codings::new(ColumnCoding::NONE);
        assert_eq!(told(&config), None);
    }

    #[test]
    fn a_budget_beyond_what_is_available_is_told() {
        let config = config(1 << 30);
        let system = |available_bytes| SystemMemory {
            machine_bytes: 16 << 30,
            group_bytes: None,
            available_bytes,
        };
        let messages = config.memory_short(&system(Some(300_000_000))).unwrap();
        let expected =
            "memory.budget: 300 MB are available now, less than the 1.07 GB of the budget";
        assert!(messages.starts_with(expected), "{messages}");
        assert_eq!(config.memory_short(&system(Some(2 << 30))), None);
        assert_eq!(config.memory_short(&system(None)), None);
    }

    #[test]
    fn a_codec_that_another_rule_gives_than_before_is_told() {
        let mut config = config(16 << 30);
        let rules = [("X:*", "lz4"), ("X:1?", "for"), ("X:?", "lz4")];
        let with = |rules: &[(&str, &str)]| {
            let rule = |all: Codings, (pattern, codec): &(&str, &str)| {
                all.with(pattern.parse().unwrap(), codec.parse().unwrap())
            };
            rules.iter().fold(Codings::new(ColumnCoding::Auto), rule)
        };
        config.frame.codings = with(&rules).with(Pattern::name("X:12"), "zstd:3".parse().unwrap());
        let messages = config.codings_reordered();
        let expected = "codecs[1] (X:1?) gives X:10 and 8 more for; until version 0.1, codecs[0] \
                        (X:*) gave lz4: of several rules that fit a name, the last one applies now";
        assert_eq!(messages, [expected]);
        config.frame.codings = with(&rules[1..]);
        assert_eq!(config.codings_reordered(), Vec::<String>::new());
    }

    #[test]
    fn threads_without_a_socket_are_told() {
        let mut config = config(16 << 30);
        config.receive.link_threads = 4;
        let messages = config.lowered();
        assert_eq!(messages, ["receive.link_threads: 1 instead of 4, one for each of the links"]);
    }
}
