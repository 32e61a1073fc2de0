//! An interrupted run, as a recorder that goes on with it finds it.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use catchment_disk::{last_written, list_files};
use catchment_frame::{FileHeader, Position};
use catchment_storage::{
    EXTENSION, Elsewhere, Interrupted, Resumable, ResumedPlace, RunPlace, StorageError,
};
use catchment_telemetry::utc_now;

use crate::config::RecorderConfig;
use crate::forward_wait::ForwardWait;
use crate::node_left::{AskedNode, NodeLeft, needs_folders};
use crate::recorder::{Recorder, RecorderError};
use crate::schema::schema;
use crate::selection::Selection;
use crate::target_config::{TargetConfig, Variant};

impl Recorder {
    /// When the frame files of a run of that name were last written in its required targets, in
    /// nanoseconds since 1970: the last sign of life of its recorder. Storage nodes that it needs
    /// are asked, once all that is in their spills is forwarded. None: nothing of it is anywhere.
    ///
    /// # Errors
    /// A node does not say it, or something of the run is in a spill.
    pub fn last_written_ns(
        config: &RecorderConfig,
        name: &str,
        wait: &ForwardWait<'_>,
    ) -> Result<Option<u64>, RecorderError> {
        let targets = config.targets();
        let mut newest = None;
        for asked in AskedNode::all_of(config, &targets, name, Some(wait))? {
            let left = asked.look()?;
            let left_ns = left.map(|(_, age_ns)| utc_now().0.saturating_sub(age_ns));
            // What was forwarded since then was not sent by its recorder.
            newest = newest.max(asked.spilled_ns.or(left_ns));
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
        let written = folders.filter_map(|folder| written_ns(&folder.join(name))).max();
        Ok(newest.max(written))
    }

    /// What is left of an interrupted run of that name with this configuration. Its files are cut,
    /// closed and durable then, each required target has the frames of all, and the run must go on
    /// in a new epoch, or end.
    ///
    /// # Errors
    /// A recorder still holds its files, it has another configuration, or the system refuses.
    pub fn interrupted(config: &RecorderConfig, name: &str) -> Result<Resumable, RecorderError> {
        let targets = config.targets();
        let nodes = AskedNode::all_of(config, &targets, name, None)?;
        let mut left = Vec::with_capacity(nodes.len());
        // Several that share frames cut off what stands behind a hole.
        for node in nodes.iter().filter(|node| node.is_dealt()) {
            if let Some((header, _)) = node.look()? {
                check_header(config, name, (&header, node.target))?;
            }
        }
        for node in nodes {
            let of_node = node.ask(u64::MAX)?;
            if let Some(header) = &of_node.header {
                check_header(config, name, (header, node.target))?;
            }
            left.push((node, of_node));
        }
        if !needs_folders(&targets) && !left.is_empty() {
            return at_nodes(left, &targets);
        }
        let elsewhere: Vec<Elsewhere> =
            left.iter().map(|(node, of_node)| node.elsewhere(of_node)).collect();
        let (found, places) = find_interrupted(config, name, &elsewhere)?;
        let first = places.iter().position(|place| place.is_required).unwrap_or(0);
        check_header(config, name, (found.header(), first))?;
        let mut from = found.take().map_err(|source| no_resume(name, source))?;
        for (node, of_node) in left {
            node.bring(&mut from, of_node)?;
        }
        for (target, place) in targets.iter().zip(&mut from.places) {
            if !target.required && target.place.node().is_some() {
                let why = "a storage node that a run does not need is not asked what it has of it";
                *place = ResumedPlace::left_out(why.to_owned());
            }
        }
        Ok(from)
    }

    /// The text of the configuration of an interrupted run of that name, which has the targets of
    /// this one; none if nothing of it is anywhere. Nothing is changed.
    ///
    /// # Errors
    /// As [`Recorder::interrupted`].
    pub fn interrupted_text(
        config: &RecorderConfig,
        name: &str,
    ) -> Result<Option<String>, RecorderError> {
        let targets = config.targets();
        if needs_folders(&targets) {
            return Ok(Some(find_interrupted(config, name, &[])?.0.header().config.clone()));
        }
        let nodes = AskedNode::all_of(config, &targets, name, None)?;
        for node in nodes {
            if let Some((header, _)) = node.look()? {
                return Ok(Some(header.config));
            }
        }
        Ok(None)
    }
}

/// When the frame files in a folder were last written, in nanoseconds since 1970.
pub(crate) fn written_ns(folder: &Path) -> Option<u64> {
    let written = last_written(list_files(folder, EXTENSION).ok()?)?;
    let since_1970 = written.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_nanos()).ok()
}

/// How a run goes on that needs storage nodes alone, which this recorder cannot read: at the lowest
/// of their ends. What the others have beyond is cut off there, since it is not durable in all of
/// them: front-ends send it again.
fn at_nodes(
    mut left: Vec<(AskedNode, NodeLeft)>,
    targets: &[TargetConfig],
) -> Result<Resumable, RecorderError> {
    let synced = left.iter().filter_map(|(_, of)| of.positions.newest(0, Position::SYNCED));
    let synced = synced.map(|synced| synced.position).max().unwrap_or(0);
    let end = loop {
        let ends = left.iter().enumerate().map(|(index, (_, of_node))| (of_node.sequence, index));
        let (end, lowest) = ends.min().expect("a storage node");
        if end < synced {
            let why = format!("frames below {synced} were durable, and it has those below {end}");
            return Err(left[lowest].0.failed(0, (why, false)));
        }
        let beyond = left.iter_mut().find(|(_, of_node)| of_node.sequence > end);
        let Some((node, of_node)) = beyond else { break end };
        // It may have less then, where a frame stands for several.
        *of_node = node.ask(end)?;
        if of_node.sequence > end {
            let got = of_node.sequence;
            let why = format!("it has frames up to {got}, and the run goes on at {end}");
            return Err(node.failed(0, (why, true)));
        }
    };
    let mut left = left.into_iter();
    let (first, of_first) = left.next().expect("a storage node");
    let mut from = first.resumable(of_first, targets);
    left.for_each(|(node, of_node)| node.join(&mut from, of_node));
    assert_eq!(from.sequence, end, "all nodes end there");
    Ok(from)
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
    elsewhere: &[Elsewhere],
) -> Result<(Interrupted, Vec<RunPlace>), RecorderError> {
    let place = |target: &TargetConfig| RunPlace {
        folders: target.place.folders().iter().map(|folder| folder.join(name)).collect(),
        is_required: target.required && !target.place.folders().is_empty(),
        trusts_lists: false,
        is_dealt: false,
    };
    let places: Vec<RunPlace> = config.targets().iter().map(place).collect();
    let found =
        Interrupted::find_beside(&places, elsewhere).map_err(|source| no_resume(name, source))?;
    Ok((found, places))
}
