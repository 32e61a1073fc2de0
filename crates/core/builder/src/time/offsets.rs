//! How far the times of a source are from those of its events: a histogram of each source.
//!
//! Bins are a power of two of nanoseconds wide and cover the longest event, 64 to 128 of them: one
//! subtraction, one shift and two additions for each fragment of an event. Fragments that are in no
//! event are in none.

use super::beyond::Beyond;
use super::settings::{TimeConfig, WindowKind};

/// Times of a source less those of the events that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// Where the first bin begins.
    pub first_ns: i64,
    /// How wide a bin is.
    pub bin_ns: u64,
    /// How many fragments are in each bin.
    pub bins: [u64; BINS],
    /// How many of them an event can reach into.
    pub reached: u64,
    /// Fragments in all of them.
    pub count: u64,
    /// The sum of their offsets.
    pub sum_ns: i64,
    /// Whether its source may open an event.
    pub opens: bool,
    /// How far its source is from events that it is not in.
    pub beyond: Beyond,
}

/// What offsets suggest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggested {
    /// By source: what is to be added to its `time_offset`; none where no peak stands out.
    pub changes_ns: Vec<Option<i64>>,
    /// By source: how far it is from the reference, if that is beyond the window of most events.
    pub beyond_ns: Vec<Option<i64>>,
    /// The window in which 99.9 % of each source's fragments are then; none if there is none.
    pub window_ns: Option<u64>,
}

impl Offsets {
    pub(super) fn new(time: &TimeConfig, opens: bool) -> Self {
        let longest_ns = match time.kind {
            WindowKind::First => time.window_ns,
            WindowKind::Gap => time.span_ns_max,
        };
        let first_ns = -time.before_ns.cast_signed();
        let span_ns = time.before_ns + longest_ns + 1;
        let bin_ns = span_ns.div_ceil(BINS as u64).next_power_of_two();
        let reached = span_ns.div_ceil(bin_ns);
        Self {
            first_ns,
            bin_ns,
            bins: [0; BINS],
            reached,
            count: 0,
            sum_ns: 0,
            opens,
            beyond: Beyond::default(),
        }
    }

    /// Counts a fragment of an event.
    #[inline]
    pub(super) fn add(&mut self, offset_ns: i64) {
        let since_ns = (offset_ns - self.first_ns).max(0).cast_unsigned();
        let bin = (since_ns >> self.bin_ns.trailing_zeros()) as usize;
        self.bins[bin.min(BINS - 1)] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.wrapping_add(offset_ns);
    }

    /// What was counted since an earlier state of it.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (bin, before) in since.bins.iter_mut().zip(earlier.bins) {
            *bin = bin.saturating_sub(before);
        }
        since.count = self.count.saturating_sub(earlier.count);
        since.sum_ns = self.sum_ns.wrapping_sub(earlier.sum_ns);
        since.beyond = self.beyond.since(&earlier.beyond);
        since
    }

    /// The mean offset; none without fragments.
    pub fn mean_ns(&self) -> Option<i64> {
        self.sum_ns.checked_div(i64::try_from(self.count).ok()?)
    }

    /// Where the bins begin and end outside of which `out` of 2,000 fragments are on each side.
    pub fn range_ns(&self, out: u64) -> Option<(i64, i64)> {
        let most = self.count.saturating_mul(out) / 2_000;
        let first = beyond(self.bins.iter(), most)? as u64;
        let last = (BINS - 1 - beyond(self.bins.iter().rev(), most)?) as u64;
        let at = |bin: u64| self.first_ns.saturating_add_unsigned(bin * self.bin_ns);
        Some((at(first), at(last + 1)))
    }

    /// The mean offset, if a peak stands out.
    fn peak_ns(&self) -> Option<i64> {
        self.mean_ns().filter(|_| self.has_peak())
    }

    /// Whether a peak stands out of what coincidences by chance make: by five standard deviations.
    fn has_peak(&self) -> bool {
        let flat = self.count / self.reached + 1;
        let highest = self.bins.iter().copied().max().unwrap_or(0);
        let above = highest.saturating_sub(flat);
        above.saturating_mul(above) > 25 * flat
    }

    /// What the offsets of all sources suggest, relative to the *reference*: the only source that
    /// opens events, or of several the earliest one among those that are where most sources are.
    pub fn suggest(all: &[Self]) -> Suggested {
        let near: Vec<Option<i64>> = all.iter().map(Self::peak_ns).collect();
        // From the events of the measure, in which a far source is not.
        let far = all.iter().map(|one| one.beyond.peak_ns());
        let places: Vec<Option<i64>> = far.zip(&near).map(|(far, near)| far.or(*near)).collect();
        let openers = || (0..all.len()).filter(|&index| all[index].opens);
        let only = openers().next().filter(|_| openers().count() == 1);
        // Most sources may be far from the one that was the measure.
        let most_ns = only.and_then(|only| places[only]);
        let most_ns = most_ns.unwrap_or_else(|| center(places.iter().flatten().copied()));
        let is_beyond = |index: usize| {
            let width_ns = all[index].reached * all[index].bin_ns;
            places[index].is_some_and(|ns| ns.saturating_sub(most_ns).unsigned_abs() > width_ns)
        };
        let with_most = openers().filter(|&index| near[index].is_some() && !is_beyond(index));
        let reference = with_most.min_by_key(|&index| near[index]);
        let reference_ns = reference.and_then(|index| near[index]).unwrap_or(0);
        let reference_place_ns = reference.and_then(|index| places[index]).unwrap_or(most_ns);
        let beyond = |index: usize| {
            let place_ns = places[index].filter(|_| is_beyond(index))?;
            Some(place_ns.saturating_sub(reference_place_ns))
        };
        let beyond_ns: Vec<Option<i64>> = (0..all.len()).map(beyond).collect();
        let change = |(near, beyond): (&Option<i64>, &Option<i64>)| match beyond {
            Some(away_ns) => Some(away_ns.saturating_neg()),
            None => Some(reference_ns.saturating_sub((*near)?)),
        };
        let peak = |one: &&Self| one.has_peak();
        let around = |one: &Self| {
            let (mean_ns, (low_ns, high_ns)) = (one.mean_ns()?, one.range_ns(1)?);
            Some((mean_ns - low_ns, high_ns - mean_ns))
        };
        let spans = || all.iter().filter(peak).filter_map(around);
        let below_ns = spans().map(|(below_ns, _)| below_ns).max();
        let above_ns = spans().map(|(_, above_ns)| above_ns).max();
        let window_ns = below_ns.zip(above_ns).map(|(below_ns, above_ns)| below_ns + above_ns);
        Suggested {
            changes_ns: near.iter().zip(&beyond_ns).map(change).collect(),
            beyond_ns,
            window_ns: window_ns.and_then(|ns| u64::try_from(ns).ok()),
        }
    }
}

/// Where most sources are; of two halves the one that is nearer to the measure.
fn center(places_ns: impl Iterator<Item = i64>) -> i64 {
    let mut places_ns: Vec<i64> = places_ns.collect();
    places_ns.sort_unstable();
    let middle = [places_ns.len().saturating_sub(1) / 2, places_ns.len() / 2];
    let both = middle.into_iter().filter_map(|at| places_ns.get(at).copied());
    both.min_by_key(|ns| ns.unsigned_abs()).unwrap_or(0)
}

/// The first bin up to which there are more than `most`.
fn beyond<'a>(mut bins: impl Iterator<Item = &'a u64>, most: u64) -> Option<usize> {
    let mut sum = 0_u64;
    bins.position(|&bin| {
        sum += bin;
        sum > most
    })
}

/// Bins of a histogram.
const BINS: usize = 128;

#[cfg(test)]
mod tests {
    use catchment_fixtures::Random;

    use super::*;
    use crate::ClockConfig;

    fn offsets(window_ns: u64, before_ns: u64) -> Offsets {
        let time = TimeConfig::new(window_ns, vec![ClockConfig::NS], 1_000_000_000);
        Offsets::new(&TimeConfig { before_ns, ..time }, true)
    }

    #[test]
    fn every_offset_of_an_event_is_in_the_bin_in_which_it_lies() {
        for (window_ns, before_ns) in [(1, 0), (127, 0), (128, 5), (200, 200), (1_000_000_000, 7)] {
            let mut one = offsets(window_ns, before_ns);
            let (first_ns, last_ns) = (-before_ns.cast_signed(), window_ns.cast_signed());
            for offset_ns in [first_ns, 0, last_ns] {
                let before = one.bins;
                one.add(offset_ns);
                let bin = one.bins.iter().zip(before).position(|(now, then)| *now > then).unwrap();
                let begin_ns = one.first_ns + bin as i64 * one.bin_ns.cast_signed();
                let bin_ns = begin_ns..begin_ns + one.bin_ns.cast_signed();
                assert!(bin_ns.contains(&offset_ns), "{offset_ns} of {window_ns}");
            }
            assert_eq!(one.count, 3);
            assert!(one.range_ns(0).unwrap().0 <= first_ns);
            assert!(one.range_ns(0).unwrap().1 > last_ns);
        }
    }

    #[test]
    fn a_source_beyond_the_window_is_brought_to_where_most_are() {
        let missed = |one: &mut Offsets, ns: i64| {
            for event in 0..100 {
                let anchor_ns = 1_000_000_000 * event;
                one.beyond.look(
                    (anchor_ns, anchor_ns, anchor_ns + 9),
                    Some([None, Some(anchor_ns + ns)]),
                );
            }
        };
        let mut all = vec![offsets(10_000, 0); 4];
        all.iter_mut().for_each(|one| (0..100).for_each(|_| one.add(0)));
        // It opens events, in which it is alone.
        missed(&mut all[2], 50_000_000);
        let suggested = Offsets::suggest(&all);
        // Of what was counted since then nothing is left, and a peak since then stands alone.
        assert!(all[2].since(&all[2]).beyond.bins().is_empty());
        let mut mended = all[2].clone();
        missed(&mut mended, 3_000_000);
        assert_eq!(mended.since(&all[2]).beyond.peak_ns(), Some(3_000_000));
        assert_eq!(mended.since(&all[2]).count, 0);
        assert_eq!(suggested.beyond_ns, [None, None, Some(50_000_000), None]);
        assert_eq!(suggested.changes_ns, [Some(0), Some(0), Some(-50_000_000), Some(0)]);
        // All are far from the measure: it is the one that is wrong.
        [1, 3].into_iter().for_each(|index| missed(&mut all[index], 50_000_000));
        let suggested = Offsets::suggest(&all);
        assert_eq!(suggested.beyond_ns, [Some(-50_000_000), None, None, None]);
        assert_eq!(suggested.changes_ns, [Some(50_000_000), Some(0), Some(0), Some(0)]);
        // The only one that opens events is the reference, wherever the others are.
        all[1..].iter_mut().for_each(|one| one.opens = false);
        let suggested = Offsets::suggest(&all);
        let far = |ns: i64| [None, Some(ns), Some(ns), Some(ns)];
        assert_eq!(suggested.beyond_ns, far(50_000_000));
        assert_eq!(suggested.changes_ns[0], Some(0));
        assert_eq!(suggested.changes_ns[1..], far(-50_000_000)[1..]);
    }

    #[test]
    fn a_far_source_is_brought_to_the_reference_whichever_source_was_the_measure() {
        // The second is 24 ns behind the first, the third 300 us.
        let places_ns = [0, 24, 300_000];
        for measure in [0, 2] {
            let mut all = vec![offsets(10_000, 0); 3];
            let is_far = |index: usize| (index == 2) != (measure == 2);
            for (index, one) in all.iter_mut().enumerate() {
                let own_ns = if index == 2 { 0 } else { places_ns[index] };
                (0..100).for_each(|_| one.add(own_ns));
                for event in (0..100).map(|event| 1_000_000_000 * event) {
                    let ns = event + places_ns[index] - places_ns[measure];
                    let nearest =
                        [Some(ns).filter(|ns| *ns < event), Some(ns).filter(|ns| *ns > event)];
                    one.beyond.look((event, event, event + 9), is_far(index).then_some(nearest));
                }
            }
            let suggested = Offsets::suggest(&all);
            assert_eq!(suggested.beyond_ns, [None, None, Some(300_000)], "{measure}");
            assert_eq!(suggested.changes_ns, [Some(0), Some(-24), Some(-300_000)], "{measure}");
        }
    }

    #[test]
    fn offsets_and_a_window_are_suggested_where_peaks_stand_out() {
        let mut random = Random::new(3);
        let mut all = vec![offsets(10_000, 10_000); 4];
        all[0].opens = true;
        all[1..].iter_mut().for_each(|one| one.opens = false);
        for _ in 0..10_000 {
            let jitter = random.below(200).cast_signed();
            all[0].add(0);
            all[1].add(3_000 + jitter);
            all[2].add(-7_000 + jitter);
            // By chance alone.
            all[3].add(random.below(20_000).cast_signed() - 10_000);
        }
        let suggested = Offsets::suggest(&all);
        let near = |change: Option<i64>, ns: i64| change.unwrap().abs_diff(ns) < 20;
        assert_eq!(suggested.changes_ns[0], Some(0));
        assert!(near(suggested.changes_ns[1], -3_100), "{suggested:?}");
        assert!(near(suggested.changes_ns[2], 6_900), "{suggested:?}");
        assert_eq!(suggested.changes_ns[3], None);
        // The jitter, and a bin on each side.
        let window_ns = suggested.window_ns.unwrap();
        assert!((200..=200 + 2 * 512 + 2).contains(&window_ns), "{window_ns}");
        assert_eq!(suggested.beyond_ns, [None; 4]);
        assert_eq!(Offsets::suggest(&[]).window_ns, None);
        assert_eq!(Offsets::suggest(&[offsets(5, 0)]).changes_ns, [None]);
    }
}
