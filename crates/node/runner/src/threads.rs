//! The threads of a node's part.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    /// Whether [`Threads::join`] leaves it behind if it has not ended by then: it ends by itself.
    pub may_be_left: bool,
}

/// What its owner is told of threads.
pub trait ThreadEvents: Send + Sync {
    /// The thread could not be pinned, and runs on any CPU.
    fn unpinned(&self, name: &str, error: &dyn std::fmt::Display);

    /// The thread has panicked: a defect.
    fn failed(&self, name: &str);
}

struct Handle {
    thread: JoinHandle<()>,
    may_be_left: bool,
}

/// How the threads ended.
#[derive(Debug, Default)]
pub struct Joined {
    /// The name of the first that had panicked, if any.
    pub failed: Option<String>,
    /// The names of those that were left behind.
    pub left: Vec<String>,
}

/// Threads that end in the reverse order of their start.
pub struct Threads {
    clock: Clock,
    times: Arc<ThreadTimes>,
    events: Arc<dyn ThreadEvents>,
    handles: Vec<Handle>,
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
        let Plan { name, cpu, priority, idle, mut park, may_be_left } = plan;
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
        self.handles.push(Handle { thread, may_be_left });
        Ok(())
    }

    /// Whether the thread of that name has ended; also if there is none.
    pub fn has_ended(&self, name: &str) -> bool {
        let named = |handle: &&Handle| handle.thread.thread().name() == Some(name);
        self.handles.iter().find(named).is_none_or(|handle| handle.thread.is_finished())
    }

    /// Waits until all threads have ended, the last one first; but for those that may be left, and
    /// do not end within a second.
    pub fn join(&mut self) -> Joined {
        let mut joined = Joined::default();
        while let Some(Handle { thread, may_be_left }) = self.handles.pop() {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if may_be_left && !ends_soon(&thread) {
                joined.left.push(name);
            } else if thread.join().is_err() {
                joined.failed.get_or_insert(name);
            }
        }
        joined
    }
}

fn ends_soon(thread: &JoinHandle<()>) -> bool {
    let deadline = Instant::now() + LEFT_AFTER;
    while !thread.is_finished() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    thread.is_finished()
}

const LEFT_AFTER: Duration = Duration::from_secs(1);

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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use catchment_agent::Work;

    use super::*;
    use crate::park::Sleep;

    struct Ignored;

    impl ThreadEvents for Ignored {
        fn unpinned(&self, _name: &str, _error: &dyn std::fmt::Display) {}

        fn failed(&self, _name: &str) {}
    }

    /// Waits for a word, as for a disk, and ends.
    struct Stuck(Receiver<()>);

    impl Agent for Stuck {
        fn work(&mut self, _now_ns: u64) -> Work {
            let _word = self.0.recv();
            Work::ended()
        }
    }

    #[test]
    fn a_thread_that_may_be_left_is_not_waited_for() {
        let mut threads = Threads::new(Clock::start(), Arc::default(), Arc::new(Ignored));
        let (ends, ended) = sync_channel(1);
        let (stays, stuck) = sync_channel(1);
        for (name, word, may_be_left) in [("ends", ended, false), ("stays", stuck, true)] {
            let (name, idle, park) = (name.to_owned(), Idle::default(), Box::new(Sleep));
            let plan = Plan { name, cpu: None, priority: None, idle, park, may_be_left };
            threads.spawn(Stuck(word), plan).expect("a thread");
        }
        ends.send(()).expect("it listens");
        let Joined { failed, left } = threads.join();
        assert_eq!((failed, left), (None, vec!["stays".to_owned()]));
        // It listens to the end.
        stays.send(()).expect("it listens");
    }
}
