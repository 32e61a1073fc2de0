//! An interrupted run, as a recorder that goes on with it finds it.

use std::sync::Arc;

use catchment_frame::FileHeader;
use catchment_storage::{Interrupted, Resumable, RunPlace, StorageError};
use catchment_telemetry::utc_now;

use crate::config::RecorderConfig;
use crate::node_left::AskedNode;
use crate::recorder::{Recorder, RecorderError};
use crate::schema::schema;
use crate::selection::Selection;
use crate::target_config::{TargetConfig, Variant};

impl Recorder {
    /// When the files of a run of that name were last written in its required targets, in
    /// nanoseconds since 1970: the last sign of life of its recorder. A storage node that is its
    /// only target is asked.
    ///
    /// # Errors
    /// The node does not say it, or something of the run is in the spill of a folder.
    pub fn last_written_ns(
        config: &RecorderConfig,
        name: &str,
    ) -> Result<Option<u64>, RecorderError> {
        let targets = config.targets();
        if let Some(asked) = AskedNode::of(config, &targets, name)? {
            let age_ns = asked.ask()?.age_ns;
            return Ok(Some(utc_now().0.saturating_sub(age_ns)));
        }
        let is_spilled = |target: &TargetConfig| {
            target.spill.as_ref().is_some_and(|spill| spill.folder.join(name).exists())
        };
        if targets.iter().any(is_spilled) {
            let why = "a part of it is in the spill of a folder, from which it is forwarded";
            return Err(RecorderError::NodeTarget { name: name.to_owned(), why });
        }
        let required = targets.iter().filter(|target| target.required);
        let folders = required.flat_map(|target| target.place.folders());
        let entries = folders.filter_map(|folder| std::fs::read_dir(folder.join(name)).ok());
        let changed = entries.flatten().flatten().filter_map(|entry| {
            let changed = entry.metadata().ok()?.modified().ok()?;
            changed.duration_since(std::time::UNIX_EPOCH).ok()
        });
        Ok(changed.max().and_then(|changed| u64::try_from(changed.as_nanos()).ok()))
    }

    /// What is left of an interrupted run of that name with this configuration. Its files are cut,
    /// closed and durable then, and the run must go on in a new epoch, or end.
    ///
    /// # Errors
    /// A recorder still holds its files, it has another configuration, or the system refuses.
    pub fn interrupted(config: &RecorderConfig, name: &str) -> Result<Resumable, RecorderError> {
        if let Some(asked) = AskedNode::of(config, &config.targets(), name)? {
            let left = asked.ask()?;
            check_header(config, name, (&left.header, 0))?;
            return Ok(left.resumable(name));
        }
        let (found, places) = find_interrupted(config, name)?;
        let first = places.iter().position(|place| place.is_required).unwrap_or(0);
        check_header(config, name, (found.header(), first))?;
        found.take().map_err(|source| no_resume(name, source))
    }

    /// The text of the configuration of an interrupted run of that name, which has the targets of
    /// this one. Nothing is changed.
    ///
    /// # Errors
    /// As [`Recorder::interrupted`].
    pub fn interrupted_text(config: &RecorderConfig, name: &str) -> Result<String, RecorderError> {
        if let Some(asked) = AskedNode::of(config, &config.targets(), name)? {
            return Ok(asked.ask()?.header.config);
        }
        Ok(find_interrupted(config, name)?.0.header().config.clone())
    }
}

/// Checks that the header of a file of that target is as this configuration writes it.
fn check_header(
    config: &RecorderConfig,
    name: &str,
    (header, target): (&FileHeader, usize),
) -> Result<(), RecorderError> {
    let other = |what| Err(RecorderError::OtherRun { name: name.to_owned(), what });
    if header.config != config.text || header.emulated != config.emulated {
        return other("configuration");
    }
    let schema = Arc::new(schema(config)?);
    let selection = Selection::new(&Variant::of(config)[target], &schema, config.sources.len());
    match header.schema == *selection.schema() {
        true => Ok(()),
        false => other("schema, by another version of the program"),
    }
}

fn no_resume(name: &str, source: StorageError) -> RecorderError {
    RecorderError::Resume { name: name.to_owned(), source: Box::new(source) }
}

/// What is left of the run, and where.
fn find_interrupted(
    config: &RecorderConfig,
    name: &str,
) -> Result<(Interrupted, Vec<RunPlace>), RecorderError> {
    let place = |target: &TargetConfig| RunPlace {
        folders: target.place.folders().iter().map(|folder| folder.join(name)).collect(),
        is_required: target.required && !target.place.folders().is_empty(),
        trusts_lists: false,
        is_dealt: false,
    };
    let places: Vec<RunPlace> = config.targets().iter().map(place).collect();
    let found = Interrupted::find(&places).map_err(|source| no_resume(name, source))?;
    Ok((found, places))
}
