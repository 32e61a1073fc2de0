//! A recorder's agents with ports of the caller's choice, for callers that step them in one thread
//! and in virtual time. They are made and put together by the same code as those that a
//! [`Recorder`](crate::Recorder) has on threads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, Dial, Entropy, FileId, FolderStore, Waker};
use catchment_frame::ChannelInfo;
use catchment_model::RunId;
use catchment_storage::Resumable;

use crate::agents::{AgentParts, Agents, TargetPart, Wakers, Way};
use crate::beginning::{Beginning, FileBeginning};
use crate::config::RecorderConfig;
use crate::file::{FileMaker, FirstFile, RunIdentity};
use crate::frame_feed::store_parts;
use crate::live::{Live, Observer};
use crate::live_target::LiveTarget;
use crate::recorder::RecorderError;
use crate::sessions::OfRun;
use crate::target_config::Place;
use crate::trend_agent::{TrendFeed, TrendPlan, TrendStore, Trends};
use crate::wiring::{Bind, Wiring};

/// The inputs of an [`Assembly`] beside its configuration.
pub struct AssemblyParts<S> {
    /// The run's identity.
    pub run: RunId,
    /// The run's name, the prefix of its files' names.
    pub name: String,
    /// Where the run's files are, by target.
    pub targets: Vec<TargetStore<S>>,
    /// Makes a source of random bits.
    pub entropy: fn() -> Box<dyn Entropy>,
    /// Wakes the agent that makes frames.
    pub frames: Waker,
    /// Wakes the agents that encode.
    pub encoders: Waker,
    /// Where trends go, if there are to be any.
    pub trends: Option<TrendParts>,
    /// Whether nothing is recorded until [`Assembly::pause`] ends the pause.
    pub is_paused: bool,
    /// The time at which the agents begin.
    pub now_ns: u64,
}

/// What the trend agent is made of.
pub struct TrendParts {
    /// Wakes it.
    pub waker: Waker,
    /// Makes the store of a target's channels, or of its counters, in the folder of that name.
    pub store: Box<dyn Fn(PathBuf, Vec<ChannelInfo>) -> Box<dyn TrendStore>>,
}

/// Where a target's files are.
pub struct TargetStore<S> {
    /// The folders of the run, with the store of the files in each.
    pub folders: Vec<(PathBuf, S)>,
    /// Where the target is a storage node, or several: the connections to each. It has no folder.
    pub nodes: Vec<Box<dyn Dial>>,
    /// The source of their identities.
    pub entropy: Box<dyn Entropy>,
    /// Wakes the target's agent.
    pub waker: Waker,
}

/// The agents of a recorder, and the handles with which they are controlled and observed.
pub struct Assembly {
    /// Each agent with the name that its thread would have, in the order of the data path.
    pub agents: Vec<(String, Box<dyn Agent>)>,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
}

impl Assembly {
    /// Makes the agents. `create` makes the first file of each target.
    ///
    /// # Errors
    /// A configuration that no recorder can run, or a port that cannot be opened.
    pub fn new<S: FolderStore + 'static>(
        config: &RecorderConfig,
        parts: AssemblyParts<S>,
        bind: &mut impl Bind,
        create: impl Fn(&mut S, PathBuf) -> FileId,
    ) -> Result<Self, RecorderError> {
        Self::begin(config, parts, None, bind, create)
    }

    /// As [`Assembly::new`], to go on with a run whose recorder has died. `run` and `name` are that
    /// one's.
    ///
    /// # Errors
    /// As [`Assembly::new`].
    pub fn resume<S: FolderStore + 'static>(
        config: &RecorderConfig,
        parts: AssemblyParts<S>,
        from: &Resumable,
        bind: &mut impl Bind,
        create: impl Fn(&mut S, PathBuf) -> FileId,
    ) -> Result<Self, RecorderError> {
        Self::begin(config, parts, Some(from), bind, create)
    }

    fn begin<S: FolderStore + 'static>(
        config: &RecorderConfig,
        parts: AssemblyParts<S>,
        from: Option<&Resumable>,
        bind: &mut impl Bind,
        create: impl Fn(&mut S, PathBuf) -> FileId,
    ) -> Result<Self, RecorderError> {
        config.check_values()?;
        let AssemblyParts { run, now_ns, .. } = parts;
        let live = Arc::new(Live::begin(config, Beginning::of(config, from)));
        live.paused.store(parts.is_paused, Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let of_run = || OfRun {
            is_standby: false,
            run,
            number: config.run_number,
            epoch: live.beginning.epoch,
            entropy: (parts.entropy)(),
            access: config.accesses(),
            live: Arc::clone(&live),
        };
        let wired = Wiring::of(config, &live, &stop, &of_run, bind)?;
        let begins = live.beginning.targets.iter().map(|target| target.files.clone());
        let configured = config.targets();
        let target = |(number, ((target, begins), store)): (usize, ((&LiveTarget, _), _))| {
            let TargetStore { folders, nodes, entropy, waker } = store;
            if let Place::Node(node) = &target.place {
                let of_target = (number, &configured[number], node);
                let of_run = (run, &*parts.name);
                let node = store_parts(config, of_target, of_run, &live, (nodes, parts.entropy))?;
                return Ok(TargetPart { waker, way: Way::Node(Box::new(node)) });
            }
            let (folders, mut stores): (_, Vec<S>) = folders.into_iter().unzip();
            let (name, target) = (parts.name.clone(), target.name.clone());
            let identity = RunIdentity { run, folders, name, target, begins };
            let id = create(&mut stores[0], FileMaker::first_path(&identity, 0));
            let first = FirstFile { stores, disk: 0, id, entropy, spill: None };
            Ok(TargetPart { waker, way: Way::Files(identity, first) })
        };
        let targets = live.targets.iter().zip(begins).zip(parts.targets).enumerate().map(target);
        let targets = targets.collect::<Result<Vec<_>, RecorderError>>()?;
        let (feed, trends) = trends(config, (run, &parts.name), &live, parts.trends)?.unzip();
        let parts = AgentParts {
            wired,
            live: Arc::clone(&live),
            stop: Arc::clone(&stop),
            targets,
            trends: feed,
            wakers: Wakers { frames: parts.frames, encoders: parts.encoders },
        };
        let Agents { receives, build, frames, encoders, targets, populate } =
            Agents::new(config, parts, now_ns)?;
        let mut agents: Vec<(String, Box<dyn Agent>)> = Vec::new();
        for (number, receive) in receives.into_iter().enumerate() {
            agents.push((format!("receive-{number}"), receive));
        }
        agents.push(("build".to_owned(), Box::new(build)));
        agents.push(("frames".to_owned(), Box::new(frames)));
        agents.extend(targets);
        for (number, encoder) in encoders.into_iter().enumerate() {
            agents.push((format!("encode-{number}"), Box::new(encoder)));
        }
        agents.push(("memory".to_owned(), Box::new(populate)));
        if let Some(trends) = trends {
            agents.push(("trends".to_owned(), Box::new(trends)));
        }
        Ok(Self { agents, live, stop })
    }

    /// A handle with which others observe it.
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.live))
    }

    /// As [`Recorder::pause`](crate::Recorder::pause).
    pub fn pause(&self, is_paused: bool) {
        self.live.pause(is_paused);
    }

    /// As [`Recorder::begin_between_events`](crate::Recorder::begin_between_events), without the
    /// wait for it.
    pub fn begin_between_events(&self) {
        self.live.begin.store(true, Relaxed);
    }

    /// Tells the agents to end the run, as [`Recorder::stop`](crate::Recorder::stop) does.
    pub fn stop(&self) {
        self.live.is_ending.store(true, Relaxed);
        self.stop.store(true, Relaxed);
    }
}

/// The trend agent, and its queue.
type OfTrends = (TrendFeed, Trends<Box<dyn TrendStore>>);

/// The trend agent of a configuration, if it has trends and there is where they go.
fn trends(
    config: &RecorderConfig,
    (run, name): (RunId, &str),
    live: &Arc<Live>,
    parts: Option<TrendParts>,
) -> Result<Option<OfTrends>, RecorderError> {
    let Some(parts) = parts.filter(|_| config.trends) else { return Ok(None) };
    let (folders, target) = (Vec::new(), String::new());
    let begins = FileBeginning::default();
    let identity = RunIdentity { run, folders, name: name.to_owned(), target, begins };
    let plan = TrendPlan::of(config, &identity, live.beginning.epoch > 0)?;
    if !plan.has_folders() {
        return Ok(None);
    }
    let (feed, frames) = TrendFeed::new(live, parts.waker);
    let make = |folder, series| Ok::<_, RecorderError>((parts.store)(folder, series));
    Ok(Some((feed, Trends::new(&plan, live, frames, make)?)))
}
