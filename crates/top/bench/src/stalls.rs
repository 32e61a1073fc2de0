//! How long the machine itself stood still, for which no program on it can be blamed.
//!
//! On each CPU a thread that goes before all others sleeps for two milliseconds, again and again.
//! While it wakes late, no other could have run there: a virtual machine's host had taken the CPU
//! away, or the kernel kept it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_net::cpus;
use serde::Serialize;

/// How long CPUs stood still.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Stalls {
    /// The longest at once, in ms.
    pub(crate) longest_ms: f64,
    /// Of each CPU, on average, in ms. What lasted less than [`COUNTED`] is not in it.
    pub(crate) all_ms: f64,
    /// Whether the threads could go before all others. If not, some of it is what others used.
    pub(crate) real_time: bool,
}

/// Watches the CPUs while something is done.
pub(crate) fn watched<T>(work: impl FnOnce() -> T) -> (T, Stalls) {
    let (cpus, end) = (cpus(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = |&cpu: &usize| {
            scope.spawn({
                let end = &end;
                move || watch(cpu, end)
            })
        };
        let watching: Vec<_> = cpus.iter().map(watch).collect();
        let ending = Ending(&end);
        let result = work();
        drop(ending);
        let mut stalls = Stalls { real_time: true, ..Stalls::default() };
        for one in watching.into_iter().filter_map(|thread| thread.join().ok()) {
            stalls.longest_ms = stalls.longest_ms.max(one.longest_ms);
            stalls.all_ms += one.all_ms / cpus.len() as f64;
            stalls.real_time &= one.real_time;
        }
        (result, stalls)
    })
}

/// Ends the watch, also if what is watched panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn watch(cpu: usize, end: &AtomicBool) -> Stalls {
    // Where it cannot be had, it may be another CPU that is watched twice.
    catchment_net::pin_to_cpu(cpu).ok();
    let mut stalls = Stalls { real_time: prefer_to_all(), ..Stalls::default() };
    let mut last = Instant::now();
    while !end.load(Relaxed) {
        std::thread::sleep(NAP);
        let late = last.elapsed().saturating_sub(NAP);
        if late >= COUNTED {
            let ms = late.as_secs_f64() * 1e3;
            stalls.longest_ms = stalls.longest_ms.max(ms);
            stalls.all_ms += ms;
        }
        last = Instant::now();
    }
    stalls
}

/// Has the calling thread go before all that are not of real time.
fn prefer_to_all() -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the parameters are only read.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

const NAP: Duration = Duration::from_millis(2);
/// Less is what waking up takes.
const COUNTED: Duration = Duration::from_millis(2);
