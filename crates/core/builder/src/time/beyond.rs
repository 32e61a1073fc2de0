//! How far a source is from the events that it is not in: a wrong `time_offset` shows there,
//! however far beyond the window.
//!
//! One of [`EVENTS_PER_LOOK`] events is looked at, if a certain opener is in it, the *measure*: it
//! was in the first event, and another one takes its place after [`WITHOUT_MAX`] events without it.
//! Of each source that the event has not, the nearest times before and behind its window are
//! counted, in four bins to each doubling of the distance, up to 10 s. The fronts of the queues and
//! the times taken last say all of this: between the looks it costs a counter.
//!
//! For a source unrelated to the events, nearest times become rarer with distance: that holds for
//! the distance to the next one of any sequence of times. So bins that rise above all nearer ones
//! are a *peak*: the source is there, and its offset is wrong by as much.
//! Between triggers of an exact period it is not known which one a fragment belongs to: the nearest
//! is taken.

use super::TimeMatcher;
use crate::Matched;

/// When an event is looked at.
#[derive(Debug)]
pub(super) struct Looks {
    /// Events until the next one.
    until: u32,
    measure: Option<usize>,
    /// Events without the measure, while one is to be looked at.
    without: u32,
}

impl Default for Looks {
    fn default() -> Self {
        Self { until: EVENTS_PER_LOOK, measure: None, without: 0 }
    }
}

/// The nearest times of a source around events without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// Events that were looked at.
    pub looked: u64,
    /// Those of them without the source.
    pub missed: u64,
    /// Before the window, and behind it.
    sides: [Side; 2],
}

/// Distances on one side of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Side {
    bins: [u32; BINS],
    /// The sum of the offsets in each bin, from the events' times.
    sums_ns: [i64; BINS],
}

/// A bin of distances that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeyondBin {
    /// Where it begins beyond the window; negative: where it ends before it.
    pub from_ns: i64,
    /// How many nearest times are in it.
    pub count: u64,
}

impl Default for Beyond {
    fn default() -> Self {
        let side = || Side { bins: [0; BINS], sums_ns: [0; BINS] };
        Self { looked: 0, missed: 0, sides: [side(), side()] }
    }
}

impl Beyond {
    /// An event at `anchor_ns` has a fragment of the source, or these are the nearest before and
    /// behind its window, if they are known.
    pub(super) fn look(
        &mut self,
        (begin_ns, anchor_ns, end_ns): (i64, i64, i64),
        nearest_ns: Option<[Option<i64>; 2]>,
    ) {
        self.looked += 1;
        let Some([before_ns, behind_ns]) = nearest_ns else { return };
        self.missed += 1;
        let distances = [
            before_ns.map(|ns| (begin_ns.saturating_sub(ns), ns)),
            behind_ns.map(|ns| (ns.saturating_sub(end_ns), ns)),
        ];
        for (side, distance) in self.sides.iter_mut().zip(distances) {
            let Some((distance_ns, ns)) = distance else { continue };
            if (1..=FAR_NS_MAX).contains(&distance_ns) {
                let bin = bin_of(distance_ns.cast_unsigned());
                side.bins[bin] = side.bins[bin].saturating_add(1);
                side.sums_ns[bin] = side.sums_ns[bin].wrapping_add(ns - anchor_ns);
            }
        }
    }

    /// What was counted since an earlier state of it.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since.looked = self.looked.saturating_sub(earlier.looked);
        since.missed = self.missed.saturating_sub(earlier.missed);
        for (side, before) in since.sides.iter_mut().zip(&earlier.sides) {
            for (bin, before) in side.bins.iter_mut().zip(before.bins) {
                *bin = bin.saturating_sub(before);
            }
            for (sum_ns, before_ns) in side.sums_ns.iter_mut().zip(before.sums_ns) {
                *sum_ns = sum_ns.wrapping_sub(before_ns);
            }
        }
        since
    }

    /// The bins that are not empty, by rising distance from the window, those before it first.
    pub fn bins(&self) -> Vec<BeyondBin> {
        let of_side = |(side, sign): (&Side, i64)| {
            let bins = side.bins.iter().enumerate().filter(|(_, count)| **count > 0);
            let shown = |(bin, &count): (usize, &u32)| BeyondBin {
                from_ns: sign * begin_of(bin).cast_signed(),
                count: count.into(),
            };
            bins.map(shown).collect::<Vec<_>>()
        };
        self.sides.iter().zip([-1, 1]).flat_map(of_side).collect()
    }

    /// Where its source is, from the events' times: if bins stand out by five standard deviations,
    /// and have more than there are events with the source.
    pub fn peak_ns(&self) -> Option<i64> {
        let met = self.looked - self.missed;
        let peaks: Vec<Peak> = self.sides.iter().flat_map(Side::peaks).collect();
        let most = peaks.iter().map(|peak| peak.excess).max().filter(|most| *most > met)?;
        // Behind the last event, and before the next one: what is nearer is meant.
        let high = peaks.iter().filter(|peak| 2 * peak.excess > most);
        high.map(|peak| peak.mean_ns).min_by_key(|ns| ns.unsigned_abs())
    }
}

struct Peak {
    excess: u64,
    mean_ns: i64,
}

impl Side {
    /// Pairs of bins that rise above what is nearer, and above what is farther.
    fn peaks(&self) -> impl Iterator<Item = Peak> + '_ {
        let count = |bins: std::ops::Range<usize>| -> u64 {
            self.bins[bins].iter().map(|&count| u64::from(count)).sum()
        };
        (0..BINS - 1).filter_map(move |bin| {
            let (own, begin, end) = (count(bin..bin + 2), begin_of(bin), begin_of(bin + 2));
            if own < COUNT_MIN {
                return None;
            }
            let behind = (bin + 6).min(BINS);
            let by_width = |count: u64, width: u64| {
                u128::from(count) * u128::from(end - begin) / u128::from(width.max(1))
            };
            let nearer = by_width(count(0..bin), begin);
            let farther = by_width(count(bin + 2..behind), begin_of(behind) - end);
            let expected = u64::try_from(nearer.max(farther)).unwrap_or(u64::MAX);
            let excess = own.saturating_sub(expected);
            let stands_out = u128::from(excess).pow(2) > 25 * (u128::from(expected) + 1);
            let sum_ns = self.sums_ns[bin].wrapping_add(self.sums_ns[bin + 1]);
            let mean_ns = sum_ns / own.cast_signed();
            (stands_out && own > 2 * expected).then_some(Peak { excess, mean_ns })
        })
    }
}

impl TimeMatcher {
    /// Looks at one of many events that are about to close, which expects these groups.
    pub(super) fn look_beyond(&mut self, event: (i64, i64, i64), groups: u64, matched: &Matched) {
        let looks = &mut self.looks;
        looks.until = looks.until.saturating_sub(1);
        if looks.until > 0 {
            return;
        }
        let (begin_ns, _, end_ns) = event;
        let is_in = |&index: &usize| self.queues.is_in(index, begin_ns, end_ns);
        // The next event that has it: those that alternate would be of one kind at each look.
        if !looks.measure.as_ref().is_some_and(is_in) {
            looks.without += 1;
            if looks.measure.is_some() && looks.without < WITHOUT_MAX {
                return;
            }
            let mut openers = (0..self.offsets.len()).filter(|&index| self.offsets[index].opens);
            looks.measure = openers.find(is_in);
        }
        *looks = Looks { measure: looks.measure, ..Looks::default() };
        for (index, offsets) in self.offsets.iter_mut().enumerate() {
            if !matched.is_expected(index, groups) {
                continue;
            }
            let nearest = || {
                let newest_ns = self.queues.newest_ns(index);
                let first = self.queues.first(index);
                [Some(newest_ns).filter(|ns| *ns > i64::MIN), first.map(super::Waiting::ns)]
            };
            let is_in = self.queues.is_in(index, begin_ns, end_ns);
            offsets.beyond.look(event, (!is_in).then(nearest));
        }
    }
}

/// The bin of a distance: four to each doubling.
fn bin_of(ns: u64) -> usize {
    match ns {
        0..4 => ns as usize,
        _ => {
            let octave = ns.ilog2();
            4 * (octave as usize - 1) + (ns >> (octave - 2) & 3) as usize
        }
    }
}

/// Where a bin begins.
fn begin_of(bin: usize) -> u64 {
    match bin {
        0..4 => bin as u64,
        _ => (4 + bin as u64 % 4) << (bin / 4 - 1),
    }
}

/// Events for each one that is looked at.
const EVENTS_PER_LOOK: u32 = 16;
/// Events without the measure until it is another source.
const WITHOUT_MAX: u32 = 64;
/// Times that are farther are counted in no bin.
const FAR_NS_MAX: i64 = 10_000_000_000;
/// A peak has as many times at least.
const COUNT_MIN: u64 = 16;
/// Of whole doublings, up to that of the farthest distance.
const BINS: usize = 132;

#[cfg(test)]
mod tests {
    use catchment_fixtures::Random;

    use super::*;

    #[test]
    fn bins_follow_each_other_up_to_the_farthest_distance() {
        for bin in 0..BINS {
            assert_eq!([bin_of(begin_of(bin)), bin_of(begin_of(bin + 1) - 1)], [bin; 2]);
        }
        assert_eq!(begin_of(BINS), 1 << (FAR_NS_MAX.ilog2() + 1));
    }

    /// Events at random times, 1 ms apart on average, and a source that is `offset_ns` behind each,
    /// or at times of its own.
    fn looked(offset_ns: Option<i64>, seed: u64) -> Beyond {
        let mut random = Random::new(seed);
        let mut times = |count: usize| {
            let mut ns = 20_000_000_000_i64;
            let mut next = || {
                // About as times that know nothing of each other.
                let halvings = (random.next_u64() | 1 << 40).trailing_zeros();
                let step = random.below(1_000_000).cast_signed();
                ns += 1 + step * i64::from(halvings) + step / 2;
                ns
            };
            (0..count).map(|_| next()).collect::<Vec<i64>>()
        };
        let (events, own) = (times(4_000), times(4_000));
        let mut jitter = Random::new(seed + 1);
        let source: Vec<i64> = match offset_ns {
            Some(offset_ns) => {
                let late = |ns: &i64| ns + offset_ns + jitter.below(200).cast_signed();
                events.iter().map(late).collect()
            }
            None => own,
        };
        let mut beyond = Beyond::default();
        for &ns in &events[..3_000] {
            let next = source.partition_point(|&own| own <= ns + 1_000);
            let before = source.partition_point(|&own| own < ns);
            let is_in = before < next;
            let before = before.checked_sub(1).map(|before| source[before]);
            let nearest = [before, source.get(next).copied()];
            beyond.look((ns, ns, ns + 1_000), (!is_in).then_some(nearest));
        }
        beyond
    }

    #[test]
    fn an_offset_far_beyond_the_window_is_a_peak_and_other_times_are_none() {
        for offset_ns in [2_000, -2_000, 31_234, -100_000, 400_000] {
            let beyond = looked(Some(offset_ns), 5);
            let peak_ns = beyond.peak_ns().unwrap_or_else(|| panic!("{offset_ns}"));
            // Nearer times that belong to other events move the mean.
            let off_ns = peak_ns.abs_diff(offset_ns + 100);
            assert!(off_ns < 100 + offset_ns.unsigned_abs() / 10, "{peak_ns} of {offset_ns}");
            let counted: u64 = beyond.bins().iter().map(|bin| bin.count).sum();
            assert!(beyond.missed > 2_000 && counted > beyond.missed, "{counted}");
        }
        for seed in 0..20 {
            assert_eq!(looked(None, seed).peak_ns(), None, "seed {seed}");
        }
        // In nearly all events: what is around the few others does not count.
        assert_eq!(looked(Some(300), 5).peak_ns(), None);
        assert_eq!(Beyond::default().peak_ns(), None);
    }
}
