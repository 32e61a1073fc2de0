//! What a thread does while its agent has nothing to do.

use std::time::Duration;

use catchment_agent::{Agent, Work};
use catchment_telemetry::Clock;

use crate::park::Park;

/// How a thread waits: it spins, then naps once, then parks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// How long it calls the agent again at once after there was work.
    pub spin: Duration,
    /// How long it then sleeps, whatever comes, so that the next cycle finds more than a little.
    pub nap: Duration,
}

impl Idle {
    /// Calls the agent until it has ended.
    pub fn run(self, agent: &mut impl Agent, clock: Clock, park: &mut dyn Park) {
        // When the last cycle that had work ended; none once spinning and napping are over.
        let mut worked_ns = None;
        loop {
            let Work { done, wake_at_ns, is_blocked, ended } = agent.work(clock.now_ns());
            if ended {
                return;
            }
            let now_ns = clock.now_ns();
            if done > 0 {
                worked_ns = Some(now_ns);
            }
            let left = Duration::from_nanos(wake_at_ns.saturating_sub(now_ns)).min(LONGEST);
            if left.is_zero() {
                continue;
            }
            if is_blocked {
                std::thread::sleep(left);
                continue;
            }
            if let Some(worked) = worked_ns {
                if Duration::from_nanos(now_ns - worked) < self.spin {
                    std::hint::spin_loop();
                    continue;
                }
                worked_ns = None;
                if !self.nap.is_zero() {
                    std::thread::sleep(self.nap.min(left));
                    continue;
                }
            }
            park.park(left);
        }
    }
}

/// The longest that a thread is parked, whatever its agent says.
const LONGEST: Duration = Duration::from_secs(10);
