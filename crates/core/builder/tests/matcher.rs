//! The interface of a building rule fits one that matches by time: the key of an event is known
//! only when it closes, and its fragments are handed over then.

use std::collections::BTreeMap;

use crate::support;
use catchment_builder::{
    BuilderConfig, BuilderStatus, Fragment, Matched, Matcher, Needs, Row, SourceRole,
};
use catchment_model::Entry;
use support::{MS, Rig, S};

/// Fragments whose times differ by at most this from the earliest are one event.
const WINDOW: u64 = 100;

/// The smallest rule by time: an event closes when each source has delivered it, or one has gone on
/// to a time far beyond it. Its key is the time of its earliest fragment.
struct ByTime {
    source_count: usize,
    /// By the time at which they were opened. An earlier fragment may come later.
    open: BTreeMap<u64, Open>,
    closed_below: u64,
    now_ns: u64,
}

struct Open {
    first_ns: u64,
    fragments: Vec<Option<Fragment>>,
}

impl ByTime {
    fn close_head(&mut self, matched: &mut Matched) {
        let Some((_, Open { first_ns, fragments })) = self.open.pop_first() else { return };
        let present = || fragments.iter().flatten();
        let key = present().map(|fragment| fragment.number).min().expect("one opened it");
        for fragment in present() {
            matched.append(fragment.source as usize, key, fragment, 0);
        }
        let bytes = present().map(|fragment| u64::from(fragment.bytes)).sum();
        matched
            .release(Row { key, first_ns, bytes, flags: 0, groups: 0, dropped: None }, self.now_ns);
        self.closed_below = key + WINDOW;
    }

    fn place(&mut self, index: usize, fragment: &Fragment, matched: &mut Matched) {
        let time = fragment.number;
        if time < self.closed_below {
            return matched.discard(index, 0, fragment, Entry::FragmentsLate);
        }
        let near = time.saturating_sub(WINDOW)..=time + WINDOW;
        let known = self.open.range(near).next().map(|(&opened, _)| opened);
        let (first_ns, fragments) = (self.now_ns, vec![None; self.source_count]);
        let open = self.open.entry(known.unwrap_or(time)).or_insert(Open { first_ns, fragments });
        if open.fragments[index].is_some() {
            return matched.discard(index, 0, fragment, Entry::FragmentsDuplicate);
        }
        open.fragments[index] = Some(*fragment);
    }
}

impl Matcher for ByTime {
    fn needs(&self) -> Needs {
        Needs::rows(1 << 18)
    }

    fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    fn resume(&mut self, _now_ns: u64) {}

    fn push(&mut self, fragments: &[Fragment], matched: &mut Matched) {
        for run in fragments.chunk_by(|one, other| one.source == other.source) {
            let Some(index) = matched.usable(run) else { continue };
            run.iter().for_each(|fragment| self.place(index, fragment, matched));
        }
    }

    fn poll(&mut self, matched: &mut Matched) {
        let newest = self.open.last_key_value().map_or(0, |(&opened, _)| opened);
        while let Some((&opened, open)) = self.open.first_key_value() {
            let complete = open.fragments.iter().all(Option::is_some);
            if !complete && opened + 10 * WINDOW > newest {
                break;
            }
            self.close_head(matched);
        }
    }

    fn finish(&mut self, matched: &mut Matched) {
        while !self.open.is_empty() {
            self.close_head(matched);
        }
    }

    fn set_recording(&mut self, _wanted: bool) {}

    fn hold(&mut self, _source: usize, _matched: &Matched) {}

    fn parked(&self, _source: usize) -> usize {
        0
    }

    fn first_parked(&self, _source: usize) -> Option<u64> {
        None
    }

    fn is_drained(&mut self) -> bool {
        true
    }

    fn status(&self, _matched: &Matched) -> BuilderStatus {
        let of_event = |open: &Open| open.fragments.iter().flatten().count() as u64;
        BuilderStatus {
            fragments_held: self.open.values().map(of_event).sum(),
            ..BuilderStatus::default()
        }
    }
}

#[test]
fn a_rule_by_time_builds_rows_whose_keys_are_known_when_they_close() {
    const SOURCES: usize = 3;
    let mut config = BuilderConfig::new(vec![SourceRole::Required; SOURCES]);
    config.frame_bytes = 2_000;
    let open = BTreeMap::new();
    let matcher = ByTime { source_count: SOURCES, open, closed_below: 0, now_ns: 0 };
    let mut rig = Rig::with_matcher(&config, matcher);
    let number = |event: u64, source: usize| 1_000_000 + event * 250 + 20 * (2 - source as u64);
    for event in 0..200 {
        for source in 0..SOURCES {
            // The second source misses every tenth event.
            if source == 1 && event % 10 == 5 {
                continue;
            }
            let mut fragment = rig.fragment(source, 0, 100);
            fragment.number = number(event, source);
            rig.push(event * MS, &[fragment, fragment][..1 + usize::from(event % 50 == 7)]);
        }
        rig.poll(event * MS);
    }
    rig.finish(S);
    // The key is the time of the last source's fragment, which is the earliest.
    let expected: Vec<u64> = (0..200).map(|event| number(event, 2)).collect();
    assert_eq!(rig.rows.keys().copied().collect::<Vec<_>>(), expected);
    for (event, row) in (0_u64..).zip(rig.rows.values()) {
        assert_eq!(row.present(), if event % 10 == 5 { 2 } else { 3 });
    }
    assert_eq!(rig.total(Entry::FragmentsDuplicate), 4 * SOURCES as u64);
    assert_eq!(rig.total(Entry::FragmentsMissing), 20);
    let (_, full) = rig.frame_bytes.split_last().unwrap();
    assert!(full.iter().all(|bytes| (2_000..2_300).contains(bytes)), "{full:?}");
}
