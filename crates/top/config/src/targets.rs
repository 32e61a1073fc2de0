//! The targets of a run: `[[targets]]`, or the folder of `[run]`.

use std::path::{Path, PathBuf};

use catchment_frame::Pattern;
use catchment_model::printable::name_fault;
use catchment_model::units::Size;
use catchment_recorder::{LinkConfig, NodeConfig, Place, SourceConfig, SpillConfig, TargetConfig};

use crate::ConfigFileError;
use crate::locate::Located;
use crate::low::Low;

/// A target as it is written.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetLow {
    pub(crate) name: String,
    pub(crate) kind: Option<KindLow>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) folders: Option<Vec<PathBuf>>,
    pub(crate) role: Option<RoleLow>,
    pub(crate) sources: Option<Vec<Pattern>>,
    pub(crate) channels: Option<Vec<Pattern>>,
    pub(crate) trends: Option<bool>,
    pub(crate) queue_bytes: Option<Size>,
    pub(crate) address: Option<String>,
    pub(crate) nodes: Option<Vec<String>>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) hold_bytes: Option<Size>,
    pub(crate) spill: Option<PathBuf>,
    pub(crate) spill_bytes: Option<Size>,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KindLow {
    Folder,
    Store,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RoleLow {
    Required,
    BestEffort,
}

/// The folder of the run's own, and its targets: none if that folder is the only one.
///
/// # Errors
/// What is wrong with them, and where.
pub(crate) fn targets(
    located: &Located<'_>,
    low: &Low,
    sources: &[SourceConfig],
    links: &[LinkConfig],
) -> Result<(PathBuf, Vec<TargetConfig>), ConfigFileError> {
    let own = low.run.folder.clone();
    if own.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
        return Err(located.error("run.folder", NO_FOLDER));
    }
    if low.targets.is_empty() {
        return Ok((own.unwrap_or_else(|| PathBuf::from("runs")), Vec::new()));
    }
    if own.is_some() {
        let message = "expected no folder beside [[targets]], which have folders of their own";
        return Err(located.error("run.folder", message));
    }
    let mut targets: Vec<TargetConfig> = Vec::new();
    for (index, low) in low.targets.iter().enumerate() {
        let target = target(located, (index, low), sources, links)?;
        if let Some(before) = targets.iter().position(|before| before.name == target.name) {
            let message = format!("expected another name than that of targets[{before}]");
            return Err(located.error(&format!("targets[{index}].name"), message));
        }
        let spills = |target: &TargetConfig| target.spill.as_ref().map(|one| one.folder.clone());
        let own = spills(&target);
        let is_spill_of = |before: &TargetConfig| own.is_some() && spills(before) == own;
        if let Some(before) = targets.iter().position(is_spill_of) {
            let message = format!("expected another folder than that of targets[{before}]");
            return Err(located.error(&format!("targets[{index}].spill"), message));
        }
        let folders = target.place.folders();
        let shares = |before: &TargetConfig| {
            before.place.folders().iter().any(|folder| folders.contains(folder))
        };
        if let Some(before) = targets.iter().position(shares) {
            let message = format!("expected another folder than that of targets[{before}]");
            let key = if low.folders.is_some() { "folders" } else { "folder" };
            return Err(located.error(&format!("targets[{index}].{key}"), message));
        }
        targets.push(target);
    }
    let folder = |required: bool| {
        let mut wanted = targets.iter().filter(|target| target.required || !required);
        wanted.find_map(|target| target.place.folder()).map(Path::to_owned)
    };
    let is_node = |target: &TargetConfig| matches!(target.place, Place::Node(_));
    match folder(true).or_else(|| folder(false)) {
        Some(folder) => Ok((folder, targets)),
        // The catalogue is there, and nothing else.
        None if targets.iter().any(is_node) => Ok((PathBuf::from("runs"), targets)),
        None => Err(located.error("targets", "expected a folder among them: runs are found there")),
    }
}

fn target(
    located: &Located<'_>,
    (index, low): (usize, &TargetLow),
    sources: &[SourceConfig],
    links: &[LinkConfig],
) -> Result<TargetConfig, ConfigFileError> {
    let key = |name: &str| format!("targets[{index}].{name}");
    if let Some((expected, got)) = name_fault(&low.name) {
        return Err(located.expected(&key("name"), &expected, &got));
    }
    let place = place(located, index, low)?;
    let required = low.role != Some(RoleLow::BestEffort);
    let queue_bytes = low.queue_bytes.map(u64::from);
    if required && queue_bytes.is_some() {
        let message = "expected no queue of a required target: frames wait for it in memory";
        return Err(located.error(&key("queue_bytes"), message));
    }
    let hold_bytes = low.hold_bytes.map(u64::from);
    let is_node = matches!(place, Place::Node(_));
    let may_spill = required && (is_node || place.folders().len() == 1);
    let spill = spill(located, (index, low), may_spill)?;
    if hold_bytes.is_some() && !(required && (is_node || spill.is_some())) {
        let message =
            "expected it only for a required target that is of kind = \"store\" or has a spill";
        return Err(located.error(&key("hold_bytes"), message));
    }
    if let (Some(spill), Some(folder)) = (&spill, place.folder()) {
        if folder.to_string_lossy().contains('\n') {
            let message = "expected a path without line breaks: the spill says whose frames it has";
            return Err(located.error(&key("folder"), message));
        }
        if spill.folder.starts_with(folder) || folder.starts_with(&spill.folder) {
            let message = "expected a folder apart from the target's own, on another disk";
            return Err(located.error(&key("spill"), message));
        }
    }
    let has_trends = required && place != Place::None && !is_node;
    if low.trends == Some(true) && !has_trends {
        let message = "expected false, or a required folder: trends of all folders are written by \
                       one thread, which would wait for this target";
        return Err(located.error(&key("trends"), message));
    }
    let names = sources.iter().map(|source| &source.name);
    let names = names.chain(links.iter().map(|link| &link.name));
    let expected = "patterns of names of sources and links";
    let sources = selected(low.sources.as_deref(), names)
        .map_err(|pattern| located.expected(&key("sources"), expected, pattern.as_str()))?;
    let gets = |link: &&LinkConfig| sources.as_ref().is_none_or(|all| all.contains(&link.name));
    let names = links.iter().filter(gets).flat_map(|link| &link.channels);
    let expected = "patterns of names of channels of the links that it gets";
    let channels = selected(low.channels.as_deref(), names.map(|channel| &channel.name))
        .map_err(|pattern| located.expected(&key("channels"), expected, pattern.as_str()))?;
    // A folder that hangs would hold up the end of the run, which a spill is to spare it.
    let trends = low.trends.unwrap_or(has_trends && spill.is_none());
    let name = low.name.clone();
    Ok(TargetConfig {
        name,
        place,
        sources,
        channels,
        trends,
        required,
        queue_bytes,
        hold_bytes,
        spill,
    })
}

/// Where a target spills; `may_spill` says whether it can.
fn spill(
    located: &Located<'_>,
    (index, low): (usize, &TargetLow),
    may_spill: bool,
) -> Result<Option<SpillConfig>, ConfigFileError> {
    let error = |name: &str, message: &str| {
        Err(located.error(&format!("targets[{index}].{name}"), message))
    };
    let (folder, bytes_max) = match (&low.spill, low.spill_bytes) {
        (None, None) => return Ok(None),
        (None, Some(_)) => return error("spill_bytes", "expected spill = \"FOLDER\" beside it"),
        (Some(_), None) => {
            return error("spill", "expected spill_bytes beside it: the most bytes in the folder");
        }
        (Some(folder), Some(bytes)) => (folder.clone(), u64::from(bytes)),
    };
    if !may_spill {
        let message =
            "expected it only for a required target of kind = \"store\" or of one folder alone";
        return error("spill", message);
    }
    if folder.as_os_str().is_empty() {
        return error("spill", NO_FOLDER);
    }
    if bytes_max < SPILL_BYTES_MIN {
        return error("spill_bytes", "expected at least 16 MiB");
    }
    Ok(Some(SpillConfig { folder, bytes_max }))
}

/// The names that match one of the patterns; none if there are no patterns.
///
/// # Errors
/// A pattern that matches none.
fn selected<'a, 'b>(
    patterns: Option<&'a [Pattern]>,
    names: impl Iterator<Item = &'b String>,
) -> Result<Option<Vec<String>>, &'a Pattern> {
    let Some(patterns) = patterns else { return Ok(None) };
    let names: Vec<&String> = names.collect();
    let useless = |pattern: &&Pattern| !names.iter().any(|name| pattern.fits(name));
    match patterns.iter().find(useless) {
        Some(pattern) => Err(pattern),
        None => {
            let fits = |name: &&&String| patterns.iter().any(|pattern| pattern.fits(name));
            Ok(Some(names.iter().filter(fits).map(|&name| name.clone()).collect()))
        }
    }
}

/// Where a target's frames go.
fn place(located: &Located<'_>, index: usize, low: &TargetLow) -> Result<Place, ConfigFileError> {
    let error = |name: &str, message: &str| {
        Err(located.error(&format!("targets[{index}].{name}"), message))
    };
    if low.kind == Some(KindLow::Store) {
        if low.folder.is_some() || low.folders.is_some() {
            return error("kind", "expected no folder of the kind store");
        }
        let (name, addresses) = match (&low.address, &low.nodes) {
            (Some(_), Some(_)) => return error("nodes", "expected no nodes beside an address"),
            (Some(address), None) => ("address", std::slice::from_ref(address)),
            (None, Some(nodes)) => ("nodes", &nodes[..]),
            (None, None) => {
                let message = "expected address = \"HOST:PORT\" of the storage node beside it, or \
                               nodes";
                return error("kind", message);
            }
        };
        if !(1..=NODES_MAX).contains(&addresses.len()) {
            return error(name, "expected 1 to 16 storage nodes");
        }
        for (at, address) in addresses.iter().enumerate() {
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            let is_number = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
            let is_port = port.is_some_and(|(_, port)| is_number(port));
            if !is_port || address.len() > ADDRESS_BYTES_MAX {
                let key = format!("targets[{index}].{name}");
                return Err(located.expected(&key, "HOST:PORT", address));
            }
            if addresses[..at].contains(address) {
                return error(name, "expected each storage node once");
            }
        }
        let node = NodeConfig {
            addresses: addresses.to_vec(),
            certificate: low.certificate.clone(),
            token_file: low.token_file.clone(),
        };
        return Ok(Place::Node(node));
    }
    let of_node = [("certificate", &low.certificate), ("token_file", &low.token_file)];
    if let Some((key, _)) = of_node.iter().find(|(_, path)| path.is_some()) {
        return error(key, "expected kind = \"store\" beside it");
    }
    if low.address.is_some() {
        return error("address", "expected kind = \"store\" beside it");
    }
    if low.nodes.is_some() {
        return error("nodes", "expected kind = \"store\" beside it");
    }
    let (name, folders) = match (&low.folder, &low.folders) {
        (Some(_), Some(_)) => return error("folders", "expected no folders beside a folder"),
        (Some(folder), None) => ("folder", std::slice::from_ref(folder)),
        (None, Some(folders)) => ("folders", &folders[..]),
        (None, None) if low.kind == Some(KindLow::None) => return Ok(Place::None),
        (None, None) => return error("name", "expected a folder for this target"),
    };
    if low.kind == Some(KindLow::None) {
        return error(name, "expected no folder of the kind none");
    }
    if !(1..=FOLDERS_MAX).contains(&folders.len()) {
        return error(name, "expected 1 to 16 folders");
    }
    if folders.iter().any(|folder| folder.as_os_str().is_empty()) {
        return error(name, NO_FOLDER);
    }
    let is_twice = |(index, folder): (usize, &PathBuf)| folders[..index].contains(folder);
    if folders.iter().enumerate().any(is_twice) {
        return error(name, "expected each folder once");
    }
    Ok(Place::Folders(folders.to_vec()))
}

const FOLDERS_MAX: usize = 16;
const NODES_MAX: usize = 16;
const SPILL_BYTES_MIN: u64 = 16 << 20;
const ADDRESS_BYTES_MAX: usize = 255;
const NO_FOLDER: &str = "expected a folder, such as \".\" for the present one, got \"\"";
