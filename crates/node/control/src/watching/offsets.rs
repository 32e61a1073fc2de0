//! Of events by time: how far the times of sources are from those of their events, and what that
//! suggests.

use catchment_builder::Offsets;

use super::sources::Source;
use crate::api::OffsetsState;

/// What is shown of each source that has been in an event; of none if `all` is empty.
pub(super) fn offsets(all: &[Offsets], sources: &[Source]) -> Vec<Option<OffsetsState>> {
    let suggested = Offsets::suggest(all);
    let changes = suggested.changes_ns.iter().zip(sources);
    let shown = all.iter().zip(changes).map(|(one, (change_ns, source))| {
        let suggested_ns = change_ns.map(|change| source.time_offset_ns.saturating_add(change));
        Some(OffsetsState { suggested_ns, window_ns: suggested.window_ns, ..histogram(one)? })
    });
    shown.collect()
}

/// A histogram without what is empty at its ends.
fn histogram(all: &Offsets) -> Option<OffsetsState> {
    let (count, mean_ns, bin_ns) = (all.count, all.mean_ns()?, all.bin_ns);
    let filled = |bin: &u64| *bin > 0;
    let first = all.bins.iter().position(filled)?;
    let last = all.bins.iter().rposition(filled)?;
    let first_ns = all.first_ns.saturating_add_unsigned(first as u64 * bin_ns);
    let bins = all.bins[first..=last].to_vec();
    Some(OffsetsState { count, mean_ns, first_ns, bin_ns, bins, ..OffsetsState::default() })
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
        Offsets { first_ns: 0, bin_ns: 10, bins, reached: 100, count, sum_ns, opens: true }
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
        let shown = offsets(&all, &sources);
        let suggested = |index: usize| shown[index].as_ref().map(|one| one.suggested_ns);
        // The second is 490 ns behind the first, beside what is configured.
        let expected = [Some(Some(0)), Some(Some(-560)), Some(None), None];
        assert_eq!([0, 1, 2, 3].map(suggested), expected);
        let window = |index: usize| shown[index].as_ref().map(|one| one.window_ns);
        let all_one = [Some(Some(30)), Some(Some(30)), Some(Some(30)), None];
        assert_eq!([0, 1, 2, 3].map(window), all_one);
        let second = shown[1].as_ref().unwrap();
        assert_eq!((second.first_ns, &*second.bins), (500, &[500, 0, 500][..]));
        assert!(offsets(&[], &sources).is_empty());
    }
}
