//! Of events by time: how far the times of sources are from those of their events, and what that
//! suggests.

use catchment_builder::Offsets;

use super::sources::Source;
use crate::api::{BeyondBin, OffsetsState};

/// Offsets as they were up to 10 s ago, so that what was counted since then is shown: a clock that
/// drifts, or an offset that was mended, is seen at once. Where events are rare it is longer ago.
#[derive(Default)]
pub(super) struct Recent {
    /// What is subtracted; empty: nothing.
    earlier: Vec<Offsets>,
    /// What is subtracted next.
    next: Vec<Offsets>,
    next_at_ns: Option<u64>,
}

impl Recent {
    /// Takes the counts of a moment, the same sources at each.
    pub(super) fn push(&mut self, now_ns: u64, all: &[Offsets]) {
        let at_ns = *self.next_at_ns.get_or_insert(now_ns);
        let before = |index: usize| self.next.get(index).map_or(0, |one| one.count);
        let grown =
            all.iter().enumerate().map(|(index, one)| one.count.saturating_sub(before(index)));
        if now_ns.saturating_sub(at_ns) >= PERIOD_NS && grown.max() >= Some(COUNT_MIN) {
            self.earlier = std::mem::replace(&mut self.next, all.to_vec());
            self.next_at_ns = Some(now_ns);
        }
    }

    /// What was counted since then.
    pub(super) fn of(&self, all: &[Offsets]) -> Vec<Offsets> {
        let since = |(index, one): (usize, &Offsets)| match self.earlier.get(index) {
            Some(earlier) => one.since(earlier),
            None => one.clone(),
        };
        all.iter().enumerate().map(since).collect()
    }
}

/// Two of them are shown at most, and one at least.
const PERIOD_NS: u64 = 5_000_000_000;
/// A source has as many fragments in a period at least, or it is longer.
const COUNT_MIN: u64 = 1_000;

/// What is shown of each source that has been in an event, or near one; of none if `all` is empty.
pub(super) fn offsets(
    all: &[Offsets],
    drifts_ppm: &[Option<f64>],
    sources: &[Source],
) -> Vec<Option<OffsetsState>> {
    let suggested = Offsets::suggest(all);
    let changes = suggested.changes_ns.iter().zip(&suggested.beyond_ns).zip(sources);
    let all = all.iter().enumerate().zip(changes);
    let shown = all.map(|((index, one), ((change_ns, beyond_ns), source))| {
        let drift_ppm = drifts_ppm.get(index).copied().flatten();
        let suggested_ns = change_ns.map(|change| source.time_offset_ns.saturating_add(change));
        let (window_ns, beyond_ns) = (suggested.window_ns, *beyond_ns);
        Some(OffsetsState { suggested_ns, window_ns, beyond_ns, drift_ppm, ..histogram(one)? })
    });
    shown.collect()
}

/// A histogram without what is empty at its ends.
fn histogram(all: &Offsets) -> Option<OffsetsState> {
    let around = all.beyond.bins();
    if all.count == 0 && around.is_empty() {
        return None;
    }
    let (count, mean_ns, bin_ns) = (all.count, all.mean_ns().unwrap_or(0), all.bin_ns);
    let (looked, missed) = (all.beyond.looked, all.beyond.missed);
    let around = around.iter().map(|bin| BeyondBin { from_ns: bin.from_ns, count: bin.count });
    let beyond = around.collect();
    let filled = |bin: &u64| *bin > 0;
    let first = all.bins.iter().position(filled).unwrap_or(0);
    let last = all.bins.iter().rposition(filled).unwrap_or(0);
    let first_ns = all.first_ns.saturating_add_unsigned(first as u64 * bin_ns);
    let bins = all.bins[first..=last].to_vec();
    let counts = OffsetsState { looked, missed, beyond, ..OffsetsState::default() };
    Some(OffsetsState { count, mean_ns, first_ns, bin_ns, bins, ..counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many fragments in each bin of 10 ns.
    fn measured(counts: &[(usize, u64)]) -> Offsets {
        let mut bins = [0; 128];
        counts.iter().for_each(|&(bin, count)| bins[bin] = count);
        let count = bins.iter().sum();
        let sum_ns = counts.iter().map(|&(bin, count)| bin as i64 * 10 * count as i64).sum();
        let beyond = catchment_builder::Beyond::default();
        Offsets { first_ns: 0, bin_ns: 10, bins, reached: 100, count, sum_ns, opens: true, beyond }
    }

    #[test]
    fn the_last_two_periods_are_shown_and_longer_ones_where_events_are_rare() {
        let mut recent = Recent::default();
        let shown = |recent: &Recent, count| recent.of(&[measured(&[(2, count)])])[0].count;
        let mut at = |seconds: u64, count| {
            recent.push(seconds * 1_000_000_000, &[measured(&[(2, count)])]);
            shown(&recent, count)
        };
        assert_eq!([at(100, 0), at(103, 3_000), at(105, 5_000)], [0, 3_000, 5_000]);
        // Since the moment at 105 s.
        assert_eq!([at(109, 9_000), at(110, 10_000), at(114, 14_000)], [9_000, 5_000, 9_000]);
        assert_eq!(at(115, 15_000), 5_000);
        // Few events: nothing is forgotten for them.
        assert_eq!([at(125, 15_100), at(200, 15_900), at(201, 16_000)], [5_100, 5_900, 1_000]);
    }

    #[test]
    fn what_offsets_suggest_is_shown_beside_them() {
        let source = |time_offset_ns| Source {
            name: String::new(),
            group: String::new(),
            kind: "events",
            required: true,
            from: Vec::new(),
            time_offset_ns,
        };
        let sources = [source(0), source(-70), source(5), source(0)];
        let flat: Vec<(usize, u64)> = (0..100).map(|bin| (bin, 10)).collect();
        let all = [
            measured(&[(2, 1_000)]),
            measured(&[(50, 500), (52, 500)]),
            measured(&flat),
            measured(&[]),
        ];
        let shown = offsets(&all, &[None, Some(0.3)], &sources);
        let suggested = |index: usize| shown[index].as_ref().map(|one| one.suggested_ns);
        // The second is 490 ns behind the first, beside what is configured.
        let expected = [Some(Some(0)), Some(Some(-560)), Some(None), None];
        assert_eq!([0, 1, 2, 3].map(suggested), expected);
        let window = |index: usize| shown[index].as_ref().map(|one| one.window_ns);
        let all_one = [Some(Some(30)), Some(Some(30)), Some(Some(30)), None];
        assert_eq!([0, 1, 2, 3].map(window), all_one);
        let second = shown[1].as_ref().unwrap();
        assert_eq!(second.drift_ppm, Some(0.3));
        assert_eq!((second.first_ns, &*second.bins), (500, &[500, 0, 500][..]));
        assert!(offsets(&[], &[], &sources).is_empty());
    }
}
