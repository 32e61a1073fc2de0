//! The threads of a node's part.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use catchment_agent::Agent;
use catchment_telemetry::{Clock, Priority, ThreadTimes};

use crate::idle::Idle;
use crate::park::Park;

/// How an agent's thread is to run.
pub struct Plan {
    /// The thread's name.
    pub name: String,
    /// The CPU that it is pinned to, if any.
    pub cpu: Option<usize>,
    /// Its claim to the CPU, if it is not that of all others.
    pub priority: Option<Priority>,
    /// What it does while there is nothing to do.
    pub idle: Idle,
    /// What it sleeps on.
    pub park: Box<dyn Park>,
}

/// What its owner is told of threads.
pub trait ThreadEvents: Send + Sync {
    /// The thread could not be pinned, and runs on any CPU.
    fn unpinned(&self, name: &str, error: &dyn std::fmt::Display);

    /// The thread has panicked: a defect.
    fn failed(&self, name: &str);
}

/// Threads that end in the reverse order of their start.
pub struct Threads {
    clock: Clock,
    times: Arc<ThreadTimes>,
    events: Arc<dyn ThreadEvents>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// No threads yet. Their CPU time is registered with `times`.
    pub fn new(clock: Clock, times: Arc<ThreadTimes>, events: Arc<dyn ThreadEvents>) -> Self {
        Self { clock, times, events, handles: Vec::new() }
    }

    /// Starts a thread that runs an agent until the agent has ended.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub fn spawn(&mut self, mut agent: impl Agent + 'static, plan: Plan) -> io::Result<()> {
        let Plan { name, cpu, priority, idle, mut park } = plan;
        let (clock, times, events) = (self.clock, Arc::clone(&self.times), self.events.clone());
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            if let Some(Err(error)) = cpu.map(catchment_net::pin_to_cpu) {
                events.unpinned(&name, &error);
            }
            if let Some(priority) = priority {
                priority.apply();
            }
            let _failure = Failure { events: &*events, name: &name };
            let _time = times.register(name.clone());
            idle.run(&mut agent, clock, &mut *park);
        })?;
        self.handles.push(thread);
        Ok(())
    }

    /// Whether the thread of that name has ended; also if there is none.
    pub fn has_ended(&self, name: &str) -> bool {
        let named = |thread: &&JoinHandle<()>| thread.thread().name() == Some(name);
        self.handles.iter().find(named).is_none_or(JoinHandle::is_finished)
    }

    /// Waits until all threads have ended, the last one first. Returns the name of the first that
    /// had panicked, if any.
    pub fn join(&mut self) -> Option<String> {
        let mut failed = None;
        while let Some(thread) = self.handles.pop() {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                failed.get_or_insert(name);
            }
        }
        failed
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").field("count", &self.handles.len()).finish_non_exhaustive()
    }
}

/// Tells of a thread that panics.
struct Failure<'a> {
    events: &'a dyn ThreadEvents,
    name: &'a str,
}

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.events.failed(self.name);
        }
    }
}
