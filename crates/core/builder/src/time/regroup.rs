//! Fragments whose times are known, grouped as a matcher by time would have grouped them with all
//! of them at hand: with another window, for instance.

use super::TimeConfig;
use super::group::{Next, Put, Queues, Waiting};
use crate::Fragment;

/// Fragments that are an event together, or one that is in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The time of its anchor, or of its one fragment, in ns.
    pub anchor_ns: u64,
    /// The sources of its fragments, ascending: of each, the first that is in no group before.
    pub sources: Vec<usize>,
    /// Whether it is an event.
    pub is_event: bool,
}

/// The groups of fragments, by the times of each source in ns. `expects` says whether the event of
/// a fragment of the reference source, by its index, expects another source. The order of a
/// source's fragments is kept: a time that is not above the one before it counts as 1 ns above
/// that.
pub fn regroup(
    time: &TimeConfig,
    times: &[Vec<u64>],
    expects: impl Fn(usize, usize) -> bool,
) -> Vec<Group> {
    let mut queues = Queues::new(time, times.len());
    let fragment = Fragment::default();
    for (index, times) in times.iter().enumerate() {
        let mut last_ns = -1;
        for &ns in times {
            last_ns = ns.min(NS_MAX).cast_signed().max(last_ns + 1);
            let put = queues.put(index, last_ns, Waiting { fragment, arrived_ns: 0 }, (0, 0));
            debug_assert_eq!(put, Put::Waits, "times rise");
        }
    }
    let mut groups = Vec::new();
    while let Some(next) = queues.next() {
        let (begin_ns, anchor_ns, end_ns) = match next {
            Next::Event { begin_ns, anchor_ns, end_ns, openers } if openers >= time.coincidence => {
                (begin_ns, anchor_ns, end_ns)
            }
            Next::Event { anchor_ns, .. } => {
                let Some(index) = queues.anchor(anchor_ns) else { break };
                alone(&mut queues, index, &mut groups);
                continue;
            }
            Next::Lone { index, .. } => {
                alone(&mut queues, index, &mut groups);
                continue;
            }
        };
        queues.close(end_ns);
        let is_in = |&index: &usize| {
            let expected = time.reference.is_none_or(|one| {
                index == one || expects(times[one].len() - queues.len(one), index)
            });
            expected && queues.is_in(index, begin_ns, end_ns)
        };
        let sources: Vec<usize> = (0..times.len()).filter(is_in).collect();
        for &index in &sources {
            queues.pop(index);
        }
        groups.push(Group { anchor_ns: anchor_ns.cast_unsigned(), sources, is_event: true });
    }
    groups
}

/// Windows on both sides of it are times, too.
const NS_MAX: u64 = 1 << 62;

fn alone(queues: &mut Queues, index: usize, groups: &mut Vec<Group>) {
    let anchor_ns = queues.pop(index).map_or(0, |waiting| waiting.fragment.number);
    groups.push(Group { anchor_ns, sources: vec![index], is_event: false });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockConfig, WindowKind};

    fn time(window_ns: u64) -> TimeConfig {
        TimeConfig::new(window_ns, vec![ClockConfig::NS; 3], 1_000_000_000)
    }

    fn sources(groups: &[Group]) -> Vec<(u64, Vec<usize>, bool)> {
        groups.iter().map(|one| (one.anchor_ns, one.sources.clone(), one.is_event)).collect()
    }

    #[test]
    fn a_wider_window_joins_what_a_narrow_one_parts() {
        let times = [vec![100, 1_100], vec![130, 1_130], vec![180]];
        let narrow = regroup(&time(40), &times, |_, _| true);
        let expected = [(100, vec![0, 1], true), (180, vec![2], true), (1_100, vec![0, 1], true)];
        assert_eq!(sources(&narrow), expected);
        let wide = regroup(&time(100), &times, |_, _| true);
        let expected = [(100, vec![0, 1, 2], true), (1_100, vec![0, 1], true)];
        assert_eq!(sources(&wide), expected);
        let by_gaps = TimeConfig { kind: WindowKind::Gap, ..time(50) };
        assert_eq!(regroup(&by_gaps, &times, |_, _| true), wide);
    }

    #[test]
    fn without_an_opener_or_enough_of_them_a_fragment_is_alone() {
        let times = [vec![100], vec![110, 500], vec![120]];
        let reference = TimeConfig { openers: vec![true, false, false], ..time(50) };
        let expected = [(100, vec![0, 1, 2], true), (500, vec![1], false)];
        assert_eq!(sources(&regroup(&reference, &times, |_, _| true)), expected);
        let two = TimeConfig { coincidence: 2, ..time(50) };
        assert_eq!(sources(&regroup(&two, &times, |_, _| true)), expected);
    }

    #[test]
    fn an_event_takes_no_fragment_of_a_source_that_it_does_not_expect() {
        let times = [vec![100, 200], vec![110, 210], vec![105, 205]];
        let openers = vec![true, false, false];
        let time = TimeConfig { openers, reference: Some(0), ..time(50) };
        let groups = regroup(&time, &times, |event, source| event == 1 || source == 1);
        let expected = [(100, vec![0, 1], true), (105, vec![2], false), (200, vec![0, 1, 2], true)];
        assert_eq!(sources(&groups), expected);
    }

    #[test]
    fn no_fragment_is_lost_whatever_its_time() {
        let times = [vec![0, 0, 0, u64::MAX, u64::MAX], vec![5, 4, 3], vec![]];
        let groups = regroup(&time(1), &times, |_, _| true);
        let of = |index| groups.iter().filter(|group| group.sources.contains(&index)).count();
        assert_eq!([of(0), of(1), of(2)], [5, 3, 0]);
    }
}
