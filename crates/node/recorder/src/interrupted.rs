//! An interrupted run, as a recorder that goes on with it finds it.

use std::sync::Arc;

use catchment_storage::{Interrupted, Resumable, RunPlace, StorageError};

use crate::config::RecorderConfig;
use crate::recorder::{Recorder, RecorderError};
use crate::schema::schema;
use crate::selection::Selection;
use crate::target_config::{Place, TargetConfig, Variant};

impl Recorder {
    /// What is left of an interrupted run of that name with this configuration. Its files are cut,
    /// closed and durable then, and the run must go on in a new epoch, or end.
    ///
    /// # Errors
    /// A recorder still holds its files, it has another configuration, or the system refuses.
    pub fn interrupted(config: &RecorderConfig, name: &str) -> Result<Resumable, RecorderError> {
        let other = |what| Err(RecorderError::OtherRun { name: name.to_owned(), what });
        let (found, places) = find_interrupted(config, name)?;
        let header = found.header();
        if header.config != config.text || header.emulated != config.emulated {
            return other("configuration");
        }
        let schema = Arc::new(schema(config)?);
        let variants = Variant::of(config);
        let first = places.iter().position(|place| place.is_required).unwrap_or(0);
        let selection = Selection::new(&variants[first], &schema, config.sources.len());
        if header.schema != *selection.schema() {
            return other("schema, by another version of the program");
        }
        found.take().map_err(|source| no_resume(name, source))
    }

    /// The text of the configuration of an interrupted run of that name, which has the targets of
    /// this one. Nothing is changed.
    ///
    /// # Errors
    /// As [`Recorder::interrupted`].
    pub fn interrupted_text(config: &RecorderConfig, name: &str) -> Result<String, RecorderError> {
        Ok(find_interrupted(config, name)?.0.header().config.clone())
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
    let targets = config.targets();
    if targets.iter().any(|target| matches!(target.place, Place::Node(_))) {
        // What the node has is not asked for yet.
        return Err(RecorderError::NodeTarget { name: name.to_owned() });
    }
    let places: Vec<RunPlace> = targets.iter().map(place).collect();
    let found = Interrupted::find(&places).map_err(|source| no_resume(name, source))?;
    Ok((found, places))
}
