//! The targets of a run: `[[targets]]`, or the folder of `[run]`.

use std::path::{Path, PathBuf};

use catchment_frame::Pattern;
use catchment_model::printable::name_fault;
use catchment_model::units::Size;
use catchment_recorder::{Place, TargetConfig};

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
    pub(crate) role: Option<RoleLow>,
    pub(crate) sources: Option<Vec<Pattern>>,
    pub(crate) queue_bytes: Option<Size>,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KindLow {
    Folder,
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
    names: &[String],
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
        let target = target(located, (index, low), names)?;
        if let Some(before) = targets.iter().position(|before| before.name == target.name) {
            let message = format!("expected another name than that of targets[{before}]");
            return Err(located.error(&format!("targets[{index}].name"), message));
        }
        let is_same =
            |before: &TargetConfig| before.place != Place::None && before.place == target.place;
        if let Some(before) = targets.iter().position(is_same) {
            let message = format!("expected another folder than that of targets[{before}]");
            return Err(located.error(&format!("targets[{index}].folder"), message));
        }
        targets.push(target);
    }
    let folder = |required: bool| {
        let mut wanted = targets.iter().filter(|target| target.required || !required);
        wanted.find_map(|target| target.place.folder()).map(Path::to_owned)
    };
    match folder(true).or_else(|| folder(false)) {
        Some(folder) => Ok((folder, targets)),
        None => Err(located.error("targets", "expected a folder among them: runs are found there")),
    }
}

fn target(
    located: &Located<'_>,
    (index, low): (usize, &TargetLow),
    names: &[String],
) -> Result<TargetConfig, ConfigFileError> {
    let key = |name: &str| format!("targets[{index}].{name}");
    if let Some((expected, got)) = name_fault(&low.name) {
        return Err(located.expected(&key("name"), &expected, &got));
    }
    let place = match (low.kind, &low.folder) {
        (Some(KindLow::None), None) => Place::None,
        (Some(KindLow::None), Some(_)) => {
            return Err(located.error(&key("folder"), "expected no folder of the kind none"));
        }
        (_, Some(folder)) if folder.as_os_str().is_empty() => {
            return Err(located.error(&key("folder"), NO_FOLDER));
        }
        (_, Some(folder)) => Place::Folder(folder.clone()),
        (_, None) => return Err(located.error(&key("name"), "expected a folder for this target")),
    };
    let required = low.role != Some(RoleLow::BestEffort);
    let queue_bytes = low.queue_bytes.map(u64::from);
    if required && queue_bytes.is_some() {
        let message = "expected no queue of a required target: frames wait for it in memory";
        return Err(located.error(&key("queue_bytes"), message));
    }
    let selected = |patterns: &Vec<Pattern>| {
        let fits = |name: &&String| patterns.iter().any(|pattern| pattern.fits(name));
        names.iter().filter(fits).cloned().collect::<Vec<_>>()
    };
    let useless = |pattern: &&Pattern| !names.iter().any(|name| pattern.fits(name));
    if let Some(pattern) = low.sources.iter().flatten().find(useless) {
        let expected = "patterns of names of sources and links";
        return Err(located.expected(&key("sources"), expected, pattern.as_str()));
    }
    let sources = low.sources.as_ref().map(selected);
    Ok(TargetConfig { name: low.name.clone(), place, sources, required, queue_bytes })
}

const NO_FOLDER: &str = "expected a folder, such as \".\" for the present one, got \"\"";
