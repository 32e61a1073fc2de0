//! Which of several clocks claim times near each other.

/// Claims near each other.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub lead_ns: i64,
    pub lowest_ns: i64,
    pub members: Vec<usize>,
}

/// A claim in the cycle in which it is nearest to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claiming {
    pub lead_ns: i64,
    pub lowest_ns: i64,
    pub index: usize,
}

/// The largest set of these whose leads are within `skew_ns`, and of several the closest one, by
/// their leads.
pub fn closest(all: &mut [Claiming], skew_ns: u64) -> &[Claiming] {
    all.sort_unstable();
    let (mut best, mut first) = (0..0, 0);
    for end in 1..=all.len() {
        while span_ns(&all[first..end]) > skew_ns {
            first += 1;
        }
        if is_closer(&all[first..end], &all[best.clone()]) {
            best = first..end;
        }
    }
    &all[best]
}

/// Whether a set is larger than another one, or as large and closer.
pub fn is_closer(set: &[Claiming], other: &[Claiming]) -> bool {
    let is_as_large = set.len() == other.len() && !set.is_empty();
    set.len() > other.len() || is_as_large && span_ns(set) < span_ns(other)
}

/// How far the leads of a set are apart.
fn span_ns(set: &[Claiming]) -> u64 {
    let [first, .., last] = set else { return 0 };
    last.lead_ns.abs_diff(first.lead_ns)
}
