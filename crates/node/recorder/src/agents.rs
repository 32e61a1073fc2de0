//! A recorder's agents, put together from its configuration and its ports.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use catchment_agent::{Agent, FolderStore, Waker};
use catchment_encoder::Encode;

use crate::build::{Build, Pipeline};
use crate::column_bytes::ColumnBytes;
use crate::config::RecorderConfig;
use crate::file::{FirstFile, OfRun, RunIdentity};
use crate::frames::{Frames, FramesParts, Sources};
use crate::live::Live;
use crate::nothing::Nothing;
use crate::populate::Populate;
use crate::recorder::RecorderError;
use crate::run_files::RunFiles;
use crate::run_gate::RunGate;
use crate::schema::schema;
use crate::selection::Selection;
use crate::store_nodes::StoreParts;
use crate::store_target::StoreTarget;
use crate::target::Target;
use crate::target_config::thread_name;
use crate::target_ledger::TargetLedger;
use crate::target_queue::{QueueParts, target_queue};
use crate::trend_agent::TrendFeed;
use crate::wiring::{Pools, Wiring};

/// All agents of a recorder but for the one of trends.
pub(crate) struct Agents {
    pub(crate) receives: Vec<Box<dyn Agent>>,
    pub(crate) build: Build,
    pub(crate) encoders: Vec<Encode<ColumnBytes>>,
    pub(crate) frames: Frames,
    /// Each with the name of its thread.
    pub(crate) targets: Vec<(String, Box<dyn Agent>)>,
    pub(crate) populate: Populate,
}

/// Who wakes agents that others have given something to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wakers {
    pub(crate) frames: Waker,
    pub(crate) encoders: Waker,
}

/// What agents are made of.
pub(crate) struct AgentParts<S> {
    pub(crate) wired: Wiring,
    pub(crate) live: Arc<Live>,
    pub(crate) stop: Arc<AtomicBool>,
    /// In the order of the configuration.
    pub(crate) targets: Vec<TargetPart<S>>,
    pub(crate) trends: Option<TrendFeed>,
    pub(crate) wakers: Wakers,
}

/// What a target is made of.
pub(crate) struct TargetPart<S> {
    /// Wakes it.
    pub(crate) waker: Waker,
    pub(crate) way: Way<S>,
}

/// Where a target's frames go.
pub(crate) enum Way<S> {
    /// Nowhere.
    Nowhere,
    /// To files.
    Files(RunIdentity, FirstFile<S>),
    /// To a storage node.
    Node(Box<StoreParts>),
}

fn system(what: &'static str) -> impl Fn(String) -> RecorderError {
    move |error| RecorderError::System { what, source: io::Error::other(error) }
}

impl Agents {
    /// Agents of a run whose first file was just made.
    ///
    /// # Errors
    /// A schema that cannot be, or no random bits.
    pub(crate) fn new<S: FolderStore + 'static>(
        config: &RecorderConfig,
        parts: AgentParts<S>,
        now_ns: u64,
    ) -> Result<Self, RecorderError> {
        let AgentParts { wired, live, stop, targets: of_targets, trends, wakers } = parts;
        let Wiring { pipelines, receives, pools, channels } = wired;
        let waiting = |pipeline: &Pipeline| Arc::clone(&pipeline.waiting_fill);
        let sources = Sources {
            events: pools.events.clone(),
            channels,
            waiting: pipelines.iter().map(waiting).collect(),
            trends,
        };
        let queued = config.sizes.frames_queued;
        let (cuts_in, cuts) = crossbeam_channel::bounded(queued);
        let (done, done_out) = crossbeam_channel::bounded(queued + 2);
        let schema = Arc::new(schema(config)?);
        let Wakers { frames: owner, encoders } = wakers;
        let (mut queues, mut targets) = (Vec::new(), Vec::new());
        for (number, (target, part)) in config.targets().iter().zip(of_targets).enumerate() {
            let variant = &live.targets[number].variant;
            let select = || Selection::new(variant, &schema, config.sources.len());
            let selection = variant.selected.is_some().then(select);
            let of_target = Arc::clone(selection.as_ref().map_or(&schema, Selection::schema));
            let (queue, input) = target_queue(
                config,
                QueueParts {
                    live: Arc::clone(&live),
                    number,
                    selection,
                    target: part.waker,
                    frames: owner.clone(),
                },
            );
            let ledger = TargetLedger::new(&live, number);
            let agent: Box<dyn Agent> = match part.way {
                Way::Files(identity, first) => {
                    let files = RunFiles::new(config, of_target, identity, first, ledger, now_ns)
                        .map_err(system("the first file"))?;
                    Box::new(Target::new(config, input, files))
                }
                Way::Node(mut node) => {
                    let header = OfRun::of(config).header(node.run, &of_target, variant.number);
                    let begins = &live.beginning.targets[number].files;
                    node.set_header(&begins.of(header), &target.name);
                    Box::new(StoreTarget::new(input, ledger, *node, live.beginning.sequence))
                }
                Way::Nowhere => Box::new(Nothing { input, ledger }),
            };
            queues.push(queue);
            targets.push((thread_name(number, &target.name), agent));
        }
        let waker = owner.clone();
        let parts = FramesParts { schema, cuts, done, sources, queues, encoders, owner };
        let frames = Frames::new(config, parts, &live);
        let build = Build {
            live: Arc::clone(&live),
            gate: RunGate::new(&live, &stop, now_ns),
            pipelines,
            frames: Some(cuts_in),
            done: done_out,
            waker,
            status_due_ns: 0,
            discarded: Vec::new(),
        };
        let Pools { events, channels } = pools;
        Ok(Self {
            receives,
            build,
            encoders: (0..config.encode.threads).filter_map(|_| frames.encoder()).collect(),
            frames,
            targets,
            populate: Populate::new(events.into_iter().chain(channels), &live, &stop),
        })
    }
}
