//! Rates of counters, and which stage of the way from socket to disk limits.

use std::collections::VecDeque;

/// Into how many parts a window is cut: what a rate says is up to a twentieth of a window older.
const PARTS: u64 = 20;
/// From which fill on a queue means that what empties it is slow.
const FILLED: f64 = 0.2;
/// A queue as full as this paces what fills it, so that rates before and behind it are equal.
const FULL: f64 = 0.8;
/// Rates that differ by less are the same.
const SAME: f64 = 0.98;

/// Rates of some counters over a sliding window.
///
/// A counter that falls was reset: its value is what came since. Memory: 22 samples of 8
/// bytes per counter, however often one looks.
#[derive(Clone, Debug)]
pub struct Rates {
    window_ns: u64,
    // What the counters showed last, and what they have grown in all, over their restarts.
    shown: Vec<u64>,
    totals: Vec<u64>,
    grown_ns: Vec<Option<u64>>,
    // The first is the window's beginning.
    samples: VecDeque<Sample>,
    now_ns: u64,
}

#[derive(Clone, Debug)]
struct Sample {
    now_ns: u64,
    totals: Vec<u64>,
}

impl Rates {
    /// Rates over that time, at least 20 ns. The first counters are where counting begins.
    pub fn new(window_ns: u64) -> Self {
        Self {
            window_ns: window_ns.max(PARTS),
            shown: Vec::new(),
            totals: Vec::new(),
            grown_ns: Vec::new(),
            samples: VecDeque::new(),
            now_ns: 0,
        }
    }

    /// The counters as they are now. A change of their number restarts the measurement. Time that
    /// goes back stands still.
    pub fn push(&mut self, now_ns: u64, counters: &[u64]) {
        self.now_ns = self.now_ns.max(now_ns);
        if self.samples.is_empty() || counters.len() != self.shown.len() {
            self.shown = counters.to_vec();
            self.totals = vec![0; counters.len()];
            self.grown_ns = vec![None; counters.len()];
            self.samples.clear();
        }
        for (index, (&counter, shown)) in counters.iter().zip(&mut self.shown).enumerate() {
            let grown = if counter < *shown { counter } else { counter - *shown };
            *shown = counter;
            self.totals[index] = self.totals[index].saturating_add(grown);
            if grown > 0 {
                self.grown_ns[index] = Some(self.now_ns);
            }
        }
        let due = |last: &Sample| self.now_ns - last.now_ns >= self.window_ns / PARTS;
        if self.samples.back().is_none_or(due) {
            let totals = self.totals.clone();
            self.samples.push_back(Sample { now_ns: self.now_ns, totals });
        }
        let begin_ns = self.now_ns.saturating_sub(self.window_ns);
        while self.samples.get(1).is_some_and(|second| second.now_ns <= begin_ns) {
            self.samples.pop_front();
        }
    }

    /// How much a counter grew per second. None before there are two moments to compare.
    pub fn per_second(&self, index: usize) -> Option<f64> {
        let first = self.samples.front()?;
        let elapsed_ns = self.now_ns - first.now_ns;
        let grown = self.totals.get(index)? - first.totals[index];
        (elapsed_ns > 0).then(|| grown as f64 / (elapsed_ns as f64 * 1e-9))
    }

    /// How much a counter grew within the window.
    pub fn grown(&self, index: usize) -> u64 {
        let then = self.samples.front().and_then(|first| first.totals.get(index));
        match (self.totals.get(index), then) {
            (Some(total), Some(then)) => total - then,
            _ => 0,
        }
    }

    /// How long ago a counter last grew. None: never since counting began.
    pub fn since_grown_ns(&self, index: usize, now_ns: u64) -> Option<u64> {
        self.grown_ns.get(index)?.map(|grown_ns| now_ns.saturating_sub(grown_ns))
    }

    /// How many counters there are.
    pub fn len(&self) -> usize {
        self.totals.len()
    }

    /// Whether there are none yet.
    pub fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }
}

/// One stage and the queue in front of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// How full the fullest queue in front of it is: 0 to 1.
    pub fill: f64,
    /// What comes to it, in any unit per second.
    pub input_per_second: f64,
    /// What it takes, in the same unit.
    pub output_per_second: f64,
}

/// The stage that limits, of stages in the order of the data: the one with the fullest queue in
/// front of it that it empties more slowly than it is filled, or that is nearly full. Of equally
/// full ones the last: what it does not take fills the queues before it, too. None limits if no
/// queue is filled.
pub fn bottleneck(stages: &[Stage]) -> Option<usize> {
    let mut found: Option<(usize, f64)> = None;
    for (index, stage) in stages.iter().enumerate() {
        let slower = stage.output_per_second < stage.input_per_second * SAME;
        let limits = stage.fill >= FULL || (stage.fill >= FILLED && slower);
        // A difference of less than a percent of the queue is none.
        if limits && found.is_none_or(|(_, fill)| stage.fill >= fill - 0.01) {
            found = Some((index, stage.fill));
        }
    }
    found.map(|(index, _)| index)
}
