//! Fragments whose times are known, grouped as a matcher by time would have grouped them with all
//! of them at hand: with another window, for instance.

use catchment_model::Piece;
use catchment_model::limits::COLUMN_BYTES_MAX;

use super::TimeConfig;
use super::flood::Floods;
use super::group::{Next, Put, Queues, Waiting};
use crate::{Fragment, FragmentFlags};

/// Fragments that are an event together, or one that is in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The time of its anchor, or of its one fragment, in ns.
    pub anchor_ns: u64,
    /// The sources of its fragments, ascending: of each, the first that is in no group before. A
    /// source is there as often as it has pieces.
    pub sources: Vec<usize>,
    /// Whether it is an event.
    pub is_event: bool,
}

/// The groups of fragments, by the times of each source in ns; rows are not looked at. `floods` is
/// what was known before them. It is not changed, since the last groups may still change: it
/// [follows](Floods::follow) those that stand. `expects` says whether the event of a fragment of
/// the reference source, by its index, expects another source. The order of a source's fragments is
/// kept: a time that is not above the one before it, and not that of one more piece, counts as 1 ns
/// above that.
pub fn regroup(
    time: &TimeConfig,
    fragments: &[Vec<Piece>],
    floods: &Floods,
    expects: impl Fn(usize, usize) -> bool,
) -> Vec<Group> {
    let (mut queues, mut floods) = (Queues::new(time, fragments.len()), floods.clone());
    floods.apply(&mut queues);
    for (index, of_source) in fragments.iter().enumerate() {
        let mut last_ns = -1;
        for &Piece { time_ns, bytes, .. } in of_source {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let fragment =
                Fragment { bytes, flags: FragmentFlags::SENT_ONCE, ..Fragment::default() };
            let mut put = |ns| queues.put(index, ns, Waiting { fragment, arrived_ns: 0 }, (0, 0));
            let ns = time_ns.min(NS_MAX).cast_signed();
            if ns < last_ns || put(ns) != Put::Waits {
                // It is no piece of those before it.
                last_ns += 1;
                let put = put(last_ns);
                debug_assert_eq!(put, Put::Waits, "times rise");
                continue;
            }
            last_ns = ns;
        }
    }
    let mut groups = Vec::new();
    while let Some(next) = queues.next() {
        let (begin_ns, anchor_ns, end_ns) = match next {
            Next::Event { begin_ns, anchor_ns, end_ns, openers }
                if openers >= floods.coincidence() =>
            {
                (begin_ns, anchor_ns, end_ns)
            }
            Next::Event { anchor_ns, .. } => {
                let Some(index) = queues.anchor(anchor_ns) else { break };
                alone((&mut queues, &mut floods), index, &mut groups);
                continue;
            }
            Next::Lone { index, .. } => {
                alone((&mut queues, &mut floods), index, &mut groups);
                continue;
            }
        };
        queues.close(end_ns);
        floods.drain(&mut queues);
        let event = time.reference.map(|one| (one, fragments[one].len() - queues.len(one)));
        let expected = |index| event.is_none_or(|(one, at)| index == one || expects(at, index));
        let mut sources = Vec::new();
        for index in (0..fragments.len()).filter(|&index| expected(index)) {
            let mut bytes = 0;
            for number in 0..queues.pieces.max {
                let next = queues.first(index).filter(|_| queues.is_in(index, begin_ns, end_ns));
                let Some(next) = next else { break };
                bytes += u64::from(next.fragment.bytes);
                if number > 0 && bytes > COLUMN_BYTES_MAX {
                    break;
                }
                queues.pop(index);
                sources.push(index);
            }
        }
        groups.push(Group { anchor_ns: anchor_ns.cast_unsigned(), sources, is_event: true });
    }
    groups
}

/// Windows on both sides of it are times, too.
const NS_MAX: u64 = 1 << 62;

fn alone((queues, floods): (&mut Queues, &mut Floods), index: usize, groups: &mut Vec<Group>) {
    let anchor_ns = queues.pop(index).map_or(0, |waiting| waiting.fragment.number);
    floods.note_stray(index, anchor_ns.cast_signed(), queues);
    groups.push(Group { anchor_ns, sources: vec![index], is_event: false });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockConfig, WindowKind};

    fn time(window_ns: u64) -> TimeConfig {
        TimeConfig::new(window_ns, vec![ClockConfig::NS; 3], 1_000_000_000)
    }

    fn built(
        time: &TimeConfig,
        fragments: &[Vec<Piece>],
        expects: impl Fn(usize, usize) -> bool,
    ) -> Vec<Group> {
        let floods = Floods::new(time, fragments.len() as u32, 1_000_000_000);
        regroup(time, fragments, &floods, expects)
    }

    /// Fragments without bytes, of these times.
    fn fragments<const SOURCES: usize>(times: [Vec<u64>; SOURCES]) -> Vec<Vec<Piece>> {
        let piece = |time_ns| Piece { row: 0, time_ns, bytes: 0 };
        times.into_iter().map(|times| times.into_iter().map(piece).collect()).collect()
    }

    fn sources(groups: &[Group]) -> Vec<(u64, Vec<usize>, bool)> {
        groups.iter().map(|one| (one.anchor_ns, one.sources.clone(), one.is_event)).collect()
    }

    #[test]
    fn a_wider_window_joins_what_a_narrow_one_parts() {
        let times = fragments([vec![100, 1_100], vec![130, 1_130], vec![180]]);
        let narrow = built(&time(40), &times, |_, _| true);
        let expected = [(100, vec![0, 1], true), (180, vec![2], true), (1_100, vec![0, 1], true)];
        assert_eq!(sources(&narrow), expected);
        let wide = built(&time(100), &times, |_, _| true);
        let expected = [(100, vec![0, 1, 2], true), (1_100, vec![0, 1], true)];
        assert_eq!(sources(&wide), expected);
        let by_gaps = TimeConfig { kind: WindowKind::Gap, ..time(50) };
        assert_eq!(built(&by_gaps, &times, |_, _| true), wide);
    }

    #[test]
    fn without_an_opener_or_enough_of_them_a_fragment_is_alone() {
        let times = fragments([vec![100], vec![110, 500], vec![120]]);
        let reference = TimeConfig { openers: vec![true, false, false], ..time(50) };
        let expected = [(100, vec![0, 1, 2], true), (500, vec![1], false)];
        assert_eq!(sources(&built(&reference, &times, |_, _| true)), expected);
        let two = TimeConfig { coincidence: 2, ..time(50) };
        assert_eq!(sources(&built(&two, &times, |_, _| true)), expected);
    }

    #[test]
    fn an_event_takes_no_fragment_of_a_source_that_it_does_not_expect() {
        let times = fragments([vec![100, 200], vec![110, 210], vec![105, 205]]);
        let openers = vec![true, false, false];
        let time = TimeConfig { openers, reference: Some(0), ..time(50) };
        let groups = built(&time, &times, |event, source| event == 1 || source == 1);
        let expected = [(100, vec![0, 1], true), (105, vec![2], false), (200, vec![0, 1, 2], true)];
        assert_eq!(sources(&groups), expected);
    }

    #[test]
    fn no_fragment_is_lost_whatever_its_time() {
        let times = fragments([vec![0, 0, 0, u64::MAX, u64::MAX], vec![5, 4, 3], vec![]]);
        for fragments_max in 1..4 {
            let groups = built(&TimeConfig { fragments_max, ..time(1) }, &times, |_, _| true);
            let all: Vec<usize> = groups.iter().flat_map(|group| group.sources.clone()).collect();
            let of = |index| all.iter().filter(|&&one| one == index).count();
            assert_eq!([of(0), of(1), of(2)], [5, 3, 0]);
        }
    }

    #[test]
    fn an_event_takes_so_many_pieces_of_a_source_and_the_next_one_what_it_leaves() {
        let times = fragments([vec![100, 110, 110, 110], vec![105]]);
        let two = TimeConfig { fragments_max: 2, ..time(50) };
        let expected = [(100, vec![0, 0, 1], true), (110, vec![0, 0], true)];
        assert_eq!(sources(&built(&two, &times, |_, _| true)), expected);
        // What a column cannot hold waits for the next event.
        let mut large = fragments([vec![100, 110, 120], vec![105]]);
        large[0][1].bytes = COLUMN_BYTES_MAX;
        let four = TimeConfig { fragments_max: 4, ..time(50) };
        assert_eq!(sources(&built(&four, &large, |_, _| true))[0].1, [0, 0, 0, 1]);
        large[0][0].bytes = 1;
        let expected = [(100, vec![0, 1], true), (110, vec![0, 0], true)];
        assert_eq!(sources(&built(&four, &large, |_, _| true)), expected);
    }
}
