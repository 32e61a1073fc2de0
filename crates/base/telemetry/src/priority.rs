//! Priorities of threads.

/// A thread's priority for the CPU. Without the right to a lower nice value (CAP_SYS_NICE), threads
/// of [`Priority::Data`] and [`Priority::Control`] run like all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Threads that receive, build and write: data cannot wait, and most other programs can.
    Data,
    /// Threads that control the node and serve the page: they have little to do, and must respond
    /// on a fully loaded machine.
    Control,
    /// Threads that use free CPU: compression (docs/decisions/compression.md).
    Background,
}

impl Priority {
    /// Gives the calling thread this priority, unless it is not permitted or the thread already has
    /// a higher one.
    pub fn apply(self) {
        let value = self.nice();
        if value > 0 || nice() > value {
            set_nice(value);
        }
    }

    fn nice(self) -> i32 {
        match self {
            Self::Data => -10,
            Self::Control => -5,
            Self::Background => 5,
        }
    }
}

/// The nice value of the calling thread.
pub fn nice() -> i32 {
    // SAFETY: numbers only; 0 is the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Sets the calling thread's nice value; a lower one may be refused.
pub fn set_nice(value: i32) {
    // SAFETY: numbers only; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_asks_gets_a_priority() {
        let before = nice();
        let on_another = |change: fn()| std::thread::spawn(move || (change(), nice()).1).join();
        let allowed = on_another(|| set_nice(-5)).expect("ends");
        let control = on_another(|| Priority::Control.apply()).expect("ends");
        assert_eq!(control, allowed.min(before));
        let background = on_another(|| Priority::Background.apply()).expect("ends");
        assert_eq!(background, before.max(5));
        assert_eq!(nice(), before);
    }
}
