//! A recorder's agents with ports of the caller's choice, for callers that step them in one thread
//! and in virtual time. They are made and put together by the same code as those that a
//! [`Recorder`](crate::Recorder) has on threads; the trend agent, whose store makes files by
//! itself, is not among them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, Entropy, FileId, FolderStore, Waker};
use catchment_model::RunId;

use crate::agents::{AgentParts, Agents, Wakers};
use crate::config::RecorderConfig;
use crate::file::{FileMaker, FirstFile, RunIdentity};
use crate::live::{Live, Observer};
use crate::recorder::RecorderError;
use crate::wiring::{Bind, Wiring};

/// The inputs of an [`Assembly`] beside its configuration.
pub struct AssemblyParts<S> {
    /// The run's identity.
    pub run: RunId,
    /// The run's folder.
    pub folder: PathBuf,
    /// The run's name, the prefix of its files' names.
    pub name: String,
    /// The store of the run's files.
    pub store: S,
    /// The source of the files' identities.
    pub entropy: Box<dyn Entropy>,
    /// Wakes the agent that writes.
    pub writer: Waker,
    /// Wakes the agents that encode.
    pub encoders: Waker,
    /// Whether nothing is recorded until [`Assembly::pause`] ends the pause.
    pub is_paused: bool,
    /// The time at which the agents begin.
    pub now_ns: u64,
}

/// The agents of a recorder, and the handles with which they are controlled and observed.
pub struct Assembly {
    /// Each agent with the name that its thread would have, in the order of the data path.
    pub agents: Vec<(String, Box<dyn Agent>)>,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
}

impl Assembly {
    /// Makes the agents. `create` makes the run's first file.
    ///
    /// # Errors
    /// A configuration that no recorder can run, or a port that cannot be opened.
    pub fn new<S: FolderStore + 'static>(
        config: &RecorderConfig,
        parts: AssemblyParts<S>,
        bind: &mut impl Bind,
        create: impl FnOnce(&mut S, PathBuf) -> FileId,
    ) -> Result<Self, RecorderError> {
        config.check_values()?;
        let AssemblyParts { run, folder, name, mut store, entropy, now_ns, .. } = parts;
        let live = Arc::new(Live::new(config));
        live.paused.store(parts.is_paused, Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let wired = Wiring::of(config, &live, &stop, bind)?;
        let identity = RunIdentity { run, folder, name };
        let id = create(&mut store, FileMaker::first_path(&identity));
        let parts = AgentParts {
            wired,
            identity,
            live: Arc::clone(&live),
            stop: Arc::clone(&stop),
            first: FirstFile { store, id, entropy },
            trends: None,
            wakers: Wakers { writer: parts.writer, encoders: parts.encoders },
        };
        let Agents { receives, build, encoders, write, populate } =
            Agents::new(config, parts, now_ns)?;
        let mut agents: Vec<(String, Box<dyn Agent>)> = Vec::new();
        for (number, receive) in receives.into_iter().enumerate() {
            agents.push((format!("receive-{number}"), receive));
        }
        agents.push(("build".to_owned(), Box::new(build)));
        agents.push(("write".to_owned(), Box::new(write)));
        for (number, encoder) in encoders.into_iter().enumerate() {
            agents.push((format!("encode-{number}"), Box::new(encoder)));
        }
        agents.push(("memory".to_owned(), Box::new(populate)));
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
        self.stop.store(true, Relaxed);
    }
}
