//! A recorder's agents, put together from its configuration and its ports.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use catchment_agent::{Agent, FolderStore, Waker};
use catchment_encoder::Encode;

use crate::build::{Build, Pipeline};
use crate::columns::ColumnBytes;
use crate::config::RecorderConfig;
use crate::file::{FirstFile, RunIdentity};
use crate::frame_writer::{Sources, schema};
use crate::live::Live;
use crate::populate::Populate;
use crate::recorder::RecorderError;
use crate::run_gate::RunGate;
use crate::trend_agent::TrendFeed;
use crate::wiring::{Pools, Wiring};
use crate::write::{Write, WriteParts};

/// All agents of a recorder but for the one of trends.
pub(crate) struct Agents<S: FolderStore> {
    pub(crate) receives: Vec<Box<dyn Agent>>,
    pub(crate) build: Build,
    pub(crate) encoders: Vec<Encode<ColumnBytes>>,
    pub(crate) write: Write<S>,
    pub(crate) populate: Populate,
}

/// Who wakes agents that others have given something to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wakers {
    pub(crate) writer: Waker,
    pub(crate) encoders: Waker,
}

/// What agents are made of.
pub(crate) struct AgentParts<S> {
    pub(crate) wired: Wiring,
    pub(crate) identity: RunIdentity,
    pub(crate) live: Arc<Live>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) first: FirstFile<S>,
    pub(crate) trends: Option<TrendFeed>,
    pub(crate) wakers: Wakers,
}

impl<S: FolderStore> Agents<S> {
    /// Agents of a run whose first file was just made.
    ///
    /// # Errors
    /// A schema that cannot be, or no random bits.
    pub(crate) fn new(
        config: &RecorderConfig,
        parts: AgentParts<S>,
        now_ns: u64,
    ) -> Result<Self, RecorderError> {
        let AgentParts { wired, identity, live, stop, first, trends, wakers } = parts;
        let Wiring { pipelines, receives, pools, channels } = wired;
        let waiting = |pipeline: &Pipeline| Arc::clone(&pipeline.waiting_fill);
        let sources = Sources {
            events: pools.events.clone(),
            channels,
            waiting: pipelines.iter().map(waiting).collect(),
            trends,
            encoders: wakers.encoders,
            writer: wakers.writer.clone(),
        };
        let queued = config.sizes.frames_queued;
        let (frames_in, frames) = crossbeam_channel::bounded(queued);
        let (done, done_out) = crossbeam_channel::bounded(queued + 2);
        let schema = Arc::new(schema(config)?);
        let parts = WriteParts { schema, identity, frames, done, first, sources };
        let what = "the first file";
        let write = Write::new(config, parts, &live, now_ns)
            .map_err(|error| RecorderError::System { what, source: io::Error::other(error) })?;
        let build = Build {
            live: Arc::clone(&live),
            gate: RunGate::new(&live, &stop, now_ns),
            pipelines,
            frames: Some(frames_in),
            done: done_out,
            writer: wakers.writer,
            status_due_ns: 0,
            discarded: Vec::new(),
        };
        let Pools { events, channels } = pools;
        Ok(Self {
            receives,
            build,
            encoders: (0..config.encode.threads).filter_map(|_| write.encoder()).collect(),
            write,
            populate: Populate::new(events.into_iter().chain(channels), &live, &stop),
        })
    }
}
