//! Which stage of the way from socket to disk limits.

/// From which fill on a queue means that what empties it is slow.
const FILLED: f64 = 0.2;
/// A queue as full as this paces what fills it, so that rates before and behind it are equal.
const FULL: f64 = 0.8;
/// Rates that differ by less are the same.
const SAME: f64 = 0.98;

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
