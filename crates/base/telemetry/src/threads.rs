//! CPU time of the node's threads.

use parking_lot::Mutex;

/// The CPU time of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// The thread's name, such as `receive-0`.
    pub name: String,
    /// User and system time since its start.
    pub cpu_ns: u64,
}

/// The registered threads.
#[derive(Debug, Default)]
pub struct ThreadTimes {
    threads: Mutex<Vec<Thread>>,
}

#[derive(Debug)]
struct Thread {
    name: String,
    clock: libc::clockid_t,
    last_ns: u64,
    alive: bool,
}

impl ThreadTimes {
    /// Adds the calling thread; dropping the guard, at the thread's end, preserves its final time.
    pub fn register(&self, name: impl Into<String>) -> ThreadGuard<'_> {
        let mut clock = 0;
        // SAFETY: pthread_self is the live calling thread, and `clock` can be written to.
        let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
        assert_eq!(result, 0, "the calling thread has a CPU clock");
        let mut threads = self.threads.lock();
        threads.push(Thread { name: name.into(), clock, last_ns: 0, alive: true });
        ThreadGuard { times: self, index: threads.len() - 1 }
    }

    /// CPU time of every thread that ever registered, in the order of registration.
    pub fn read(&self) -> Vec<ThreadTime> {
        let mut threads = self.threads.lock();
        threads
            .iter_mut()
            .map(|thread| {
                if thread.alive {
                    thread.last_ns = clock_ns(thread.clock).unwrap_or(thread.last_ns);
                }
                ThreadTime { name: thread.name.clone(), cpu_ns: thread.last_ns }
            })
            .collect()
    }
}

/// The share of one CPU that each thread used between two readings, in percent, in the order of the
/// data flow through a recorder.
pub fn cpu_shares(before: &[ThreadTime], now: &[ThreadTime], seconds: f64) -> Vec<(String, f64)> {
    let share = |thread: &ThreadTime| {
        let then = before.iter().find(|other| other.name == thread.name);
        let spent = thread.cpu_ns.saturating_sub(then.map_or(0, |other| other.cpu_ns));
        (thread.name.clone(), spent as f64 / 1e7 / seconds.max(1e-9))
    };
    let mut shares: Vec<(String, f64)> = now.iter().map(share).collect();
    let rank = |name: &str| FLOW.iter().position(|first| name.starts_with(first));
    shares.sort_by_key(|(name, _)| rank(name).unwrap_or(FLOW.len()));
    shares
}

/// Prefixes of thread names, in the order of the data flow.
const FLOW: [&str; 7] = ["emulate", "receive", "build", "frames", "encode", "write", "trends"];

/// Marks the end of a registered thread when dropped.
#[derive(Debug)]
pub struct ThreadGuard<'a> {
    times: &'a ThreadTimes,
    index: usize,
}

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        let mut threads = self.times.threads.lock();
        let thread = &mut threads[self.index];
        thread.last_ns = clock_ns(thread.clock).unwrap_or(thread.last_ns);
        thread.alive = false;
    }
}

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` can be written to; an ended thread's clock gives an error.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_thread_keeps_its_time() {
        let times = ThreadTimes::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = times.register("work");
                std::hint::black_box((0..200_000_u64).map(std::hint::black_box).sum::<u64>());
            });
        });
        let first = times.read();
        assert_eq!(first[0].name, "work");
        assert!(first[0].cpu_ns > 0);
        assert_eq!(times.read(), first);
    }
}
