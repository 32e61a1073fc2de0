//! The configuration of a run's targets.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_net::{Peer, TlsClient, read_token};

use crate::config::{RecorderConfig, SourceConfig};
use crate::spill::{HOLD_BYTES, SpillConfig};
use crate::store_nodes::dealt_again_bytes;
use crate::store_target::STUCK_NS;

/// A place that gets the run's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetConfig {
    /// Its name, unique in the run.
    pub name: String,
    /// Where its frames go.
    pub place: Place,
    /// The names of the sources and links whose data it gets; none: all.
    pub sources: Option<Vec<String>>,
    /// The names of the channels that it gets of these links; none: all of them. A link of which it
    /// gets no channel is none that it gets.
    pub channels: Option<Vec<String>>,
    /// Whether trends are written to its folder, if the recorder has them: of the channels that it
    /// gets, and of the recorder's counters. Only to a required one, since they are written by one
    /// thread for all folders.
    pub trends: bool,
    /// Whether the run waits for it. Otherwise a target that is behind does not get some frames,
    /// which it counts (`fragments_not_taken`).
    pub required: bool,
    /// Bytes of columns that may wait for a target that is not required; none: a twentieth of the
    /// memory budget.
    pub queue_bytes: Option<u64>,
    /// Bytes of columns that are held for a required storage node, or a folder with a spill, until
    /// they are durable there; none: half of the chunks. Those of one frame always are.
    pub hold_bytes: Option<u64>,
    /// What takes the frames that a required storage node, or a folder, cannot take now.
    pub spill: Option<SpillConfig>,
}

/// Where a target's frames go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To files in a folder of the run, in these folders: one file after the other, each in the
    /// folder that is best when it is begun (`disks.rs`).
    Folders(Vec<PathBuf>),
    /// To a storage node, or to several that share them.
    Node(NodeConfig),
    /// Nowhere: they are counted as not taken.
    None,
}

/// A storage node, `catchment store`, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Host and port; of several nodes, those of each: they share the frames.
    pub addresses: Vec<String>,
    /// The file (PEM) of the certificate to trust: then connections are under TLS.
    pub certificate: Option<PathBuf>,
    /// The file of the token that the node wants, which is alone in it.
    pub token_file: Option<PathBuf>,
}

impl NodeConfig {
    /// A node that wants no token, in the clear.
    pub fn at(address: impl Into<String>) -> Self {
        Self { addresses: vec![address.into()], certificate: None, token_file: None }
    }

    /// Where it is, or where they are.
    pub fn shown(&self) -> String {
        self.addresses.join(", ")
    }

    /// Where and how connections to each are made.
    ///
    /// # Errors
    /// As [`NodeConfig::trusted`].
    pub(crate) fn peers(&self) -> Result<Vec<Peer>, io::Error> {
        let (tls, sends_token) = (self.trusted()?, self.token_file.is_some());
        let peer =
            |address: &String| Peer { address: address.clone(), tls: tls.clone(), sends_token };
        Ok(self.addresses.iter().map(peer).collect())
    }

    /// What is trusted, if connections are under TLS.
    ///
    /// # Errors
    /// A file that cannot be read, or has no certificate.
    pub fn trusted(&self) -> Result<Option<TlsClient>, io::Error> {
        let trusting = |path: &PathBuf| TlsClient::trusting(path).map_err(io::Error::other);
        self.certificate.as_ref().map(trusting).transpose()
    }

    /// The token that is shown; empty: none.
    ///
    /// # Errors
    /// A file that cannot be read, or has no token.
    pub fn token(&self) -> Result<String, io::Error> {
        self.token_file.as_ref().map_or(Ok(String::new()), |path| read_token(path))
    }

    /// The name of a variant of a run at a node: that of its folder and of its files there. The
    /// run's name has the stream.
    pub(crate) fn stream_name(run: &str, variant: u32) -> String {
        if variant == 0 { run.to_owned() } else { format!("{run}-v{variant}") }
    }
}

impl Place {
    /// Its folders, if it has any.
    pub fn folders(&self) -> &[PathBuf] {
        match self {
            Self::Folders(folders) => folders,
            Self::Node(_) | Self::None => &[],
        }
    }

    /// Its storage node, or several, if it has one.
    pub fn node(&self) -> Option<&NodeConfig> {
        match self {
            Self::Node(node) => Some(node),
            Self::Folders(_) | Self::None => None,
        }
    }

    /// Where it is, in messages and in a spill: of a storage node, the address or all addresses; of
    /// a folder, the absolute path.
    pub fn shown(&self) -> String {
        let absolute = |folder: &Path| std::path::absolute(folder).unwrap_or(folder.to_owned());
        match self {
            Self::Node(node) => node.shown(),
            Self::Folders(_) | Self::None => {
                self.folder().map_or(String::new(), |folder| absolute(folder).display().to_string())
            }
        }
    }

    /// The first of its folders.
    pub fn folder(&self) -> Option<&Path> {
        self.folders().first().map(PathBuf::as_path)
    }
}

impl TargetConfig {
    /// A required folder.
    pub fn folder(name: impl Into<String>, folder: PathBuf) -> Self {
        Self::folders(name, vec![folder])
    }

    /// As [`TargetConfig::folder`], with several folders.
    pub fn folders(name: impl Into<String>, folders: Vec<PathBuf>) -> Self {
        Self {
            name: name.into(),
            place: Place::Folders(folders),
            sources: None,
            channels: None,
            trends: true,
            required: true,
            queue_bytes: None,
            hold_bytes: None,
            spill: None,
        }
    }

    /// The folder to which its trends are written, if it has any: the first.
    pub(crate) fn trends_folder(&self) -> Option<&Path> {
        self.place.folder().filter(|_| self.trends && self.required)
    }

    /// Bytes of columns that may wait for it; one column always may.
    pub(crate) fn queue_bytes_max(&self, config: &RecorderConfig) -> u64 {
        match self.required {
            true if matches!(self.place, Place::Node(_)) || self.spill.is_some() => {
                self.hold_bytes.unwrap_or(config.chunk_bytes() / 2)
            }
            true => config.target_queue_bytes(),
            false => self.best_effort_bytes(config),
        }
    }

    /// Bytes of columns that may wait for it if the run does not wait for it.
    pub(crate) fn best_effort_bytes(&self, config: &RecorderConfig) -> u64 {
        match self.required {
            true => 0,
            false => self.queue_bytes.unwrap_or(config.memory_bytes / BEST_EFFORT_SHARE),
        }
    }
}

impl RecorderConfig {
    /// The memory of frames that are read back from spills: in each two for a run's target, and one
    /// that is forwarded of an earlier run; beside several storage nodes those that are dealt, too.
    /// A frame that is longer than `frame.bytes`, since one event is, is not in it.
    pub(crate) fn read_back_bytes(&self) -> u64 {
        let channels = if self.links.is_empty() { 0 } else { self.frame.channel_bytes };
        let frame = self.frame.bytes.max(channels).max(self.train_bytes());
        let of_target = |target: &TargetConfig| {
            let nodes = target.place.node().map_or(1, |node| node.addresses.len());
            let hold_bytes = target.hold_bytes.unwrap_or(self.memory_bytes / 2);
            let dealt = match nodes {
                0 | 1 => 0,
                _ => dealt_again_bytes(hold_bytes, nodes) + dealt_again_bytes(HOLD_BYTES, nodes),
            };
            dealt.saturating_add(READ_BACK_FRAMES * frame)
        };
        let spills = self.targets.iter().filter(|target| target.spill.is_some());
        spills.map(of_target).fold(0, u64::saturating_add)
    }

    /// [`end_wait_ns`](Self::end_wait_ns) of a run that may take that long to end: three quarters,
    /// so that what is given up is counted and its files are closed in the rest, and at most 10 s.
    pub fn end_wait_of(drain_ns: u64) -> u64 {
        (drain_ns / 4 * 3).min(10_000_000_000)
    }

    /// How long frames may wait in memory until they go to a spill, if a target has one.
    pub fn spill_wait_ns(&self) -> u64 {
        match self.targets.iter().any(|target| target.spill.is_some()) {
            true => STUCK_NS + self.write.sync_interval_ns,
            false => 0,
        }
    }
}

/// A selection of the run's sources, links and channels, and its number in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) number: u32,
    /// None: it has everything.
    pub(crate) selected: Option<Arc<Selected>>,
}

/// What a variant that lacks something has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    /// By number in the ledger: how much of the source or link.
    pub(crate) sources: Vec<Share>,
    /// By position among the channels of all links.
    pub(crate) channels: Vec<bool>,
}

/// How much of a source or link a variant has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Nothing.
    None,
    /// Some channels of the link.
    Part,
    /// All of it.
    Whole,
}

impl Selected {
    fn of(config: &RecorderConfig, target: &TargetConfig) -> Self {
        let named = |names: &Option<Vec<String>>| -> Option<BTreeSet<String>> {
            names.as_ref().map(|names| names.iter().cloned().collect())
        };
        let (sources, channels) = (named(&target.sources), named(&target.channels));
        let has_source = |name: &String| sources.as_ref().is_none_or(|names| names.contains(name));
        let has_channel =
            |name: &String| channels.as_ref().is_none_or(|names| names.contains(name));
        let of_source = |source: &SourceConfig| match has_source(&source.name) {
            true => Share::Whole,
            false => Share::None,
        };
        let mut selected =
            Self { sources: config.sources.iter().map(of_source).collect(), channels: Vec::new() };
        for link in &config.links {
            let all = has_source(&link.name);
            let own = link.channels.iter().map(|channel| all && has_channel(&channel.name));
            let first = selected.channels.len();
            selected.channels.extend(own);
            let own = &selected.channels[first..];
            selected.sources.push(match own.iter().filter(|&&has| has).count() {
                0 => Share::None,
                count if count == own.len() => Share::Whole,
                _ => Share::Part,
            });
        }
        selected
    }

    /// Whether it has everything.
    fn is_all(&self) -> bool {
        self.sources.iter().all(|&share| share == Share::Whole)
    }
}

impl Variant {
    /// The variant of each target. Those with the same selection share one; 0 has everything.
    pub(crate) fn of(config: &RecorderConfig) -> Vec<Self> {
        let mut selections: Vec<Arc<Selected>> = Vec::new();
        let mut of_target = |target: &TargetConfig| {
            let selected = Selected::of(config, target);
            if selected.is_all() {
                return Self::default();
            }
            let known = selections.iter().position(|other| **other == selected);
            let index = known.unwrap_or_else(|| {
                selections.push(Arc::new(selected));
                selections.len() - 1
            });
            let selected = Some(Arc::clone(&selections[index]));
            Self { number: index as u32 + 1, selected }
        };
        config.targets().iter().map(&mut of_target).collect()
    }

    /// How much of a source or link is in it.
    pub(crate) fn share(&self, source: usize) -> Share {
        self.selected.as_ref().map_or(Share::Whole, |selected| selected.sources[source])
    }

    /// Whether anything of a source or link is in it.
    pub(crate) fn has(&self, source: usize) -> bool {
        self.share(source) != Share::None
    }

    /// Whether all of a source or link is in it.
    pub(crate) fn has_whole(&self, source: usize) -> bool {
        self.share(source) == Share::Whole
    }

    /// Whether a channel, by its position among those of all links, is in it.
    pub(crate) fn has_channel(&self, channel: usize) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.channels[channel])
    }

    /// Removes what is not in it from values by source.
    pub(crate) fn mask<T: Default>(&self, of_sources: &mut [T]) {
        for (source, value) in of_sources.iter_mut().enumerate() {
            if !self.has(source) {
                *value = T::default();
            }
        }
    }
}

/// What distinguishes the threads and buffers of a target from those of others; the first one's are
/// named as those of a run that has no other.
pub(crate) fn suffix(number: usize, target: &str) -> Option<String> {
    (number > 0).then(|| target.to_owned())
}

/// The name of a target's thread.
pub(crate) fn thread_name(number: usize, target: &str) -> String {
    suffix(number, target).map_or_else(|| "write".to_owned(), |name| format!("write-{name}"))
}

/// The share of the budget that may wait for a target that is not required.
const BEST_EFFORT_SHARE: u64 = 20;
/// Frames of a spill that are in memory, beside those that are dealt to several nodes.
const READ_BACK_FRAMES: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SourceConfig;

    #[test]
    fn what_is_held_for_storage_nodes_is_in_the_one_budget_however_many_there_are() {
        let source = SourceConfig::new("source".to_owned(), "127.0.0.1:0".parse().unwrap());
        let node = |number| {
            let place = Place::Node(NodeConfig::at("there:1"));
            TargetConfig { place, ..TargetConfig::folder(format!("n{number}"), "runs".into()) }
        };
        for memory_bytes in [192 << 20, 1 << 30, 8 << 30] {
            let mut config = RecorderConfig::new("runs".into(), vec![source.clone()]);
            config.memory_bytes = memory_bytes;
            let mut held = Vec::new();
            for count in 1..=3 {
                config.targets = (0..count).map(node).collect();
                config.check_values().unwrap();
                // Columns are in memory once, whichever targets hold them; half of it stays free
                // for what arrives.
                let chunk_bytes = config.chunk_bytes();
                let of_target = |target: &TargetConfig| target.queue_bytes_max(&config);
                held.extend(config.targets.iter().map(of_target));
                assert!(held.iter().all(|bytes| 2 * bytes <= chunk_bytes), "{held:?}");
                assert!(config.memory_bytes_with(chunk_bytes) <= memory_bytes);
            }
            held.dedup();
            assert_eq!(held.len(), 1, "another target takes nothing from the others");
            // What is asked for must be in it, too.
            let half = memory_bytes / 2;
            config.targets[1].hold_bytes = Some(half);
            config.check_values().unwrap();
            config.targets[1].hold_bytes = Some(half + 1);
            let refused = config.check_values().unwrap_err().to_string();
            assert!(refused.contains("targets[1].hold_bytes"), "{refused}");
        }
    }
}
