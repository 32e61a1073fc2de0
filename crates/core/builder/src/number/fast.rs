//! The fast paths of the number matcher: fragments that are new and in the window, one by one.

use catchment_model::Entry;

use super::NumberMatcher;
use super::events::OpenEvents;
use super::horizon::Rules;
use crate::{Fragment, Matched};

impl NumberMatcher {
    /// Takes fragments of a source whose sender votes.
    pub(super) fn push_run(&mut self, index: usize, run: &[Fragment], matched: &mut Matched) {
        let mut rest = run;
        while !rest.is_empty() {
            let done = match self.events.owned.are_all() {
                true => self.push_fast::<true>(index, rest, matched),
                false => self.push_fast::<false>(index, rest, matched),
            };
            rest = &rest[done..];
            if let Some((first, after)) = rest.split_first() {
                let ordinal = matched.first_ordinal(index, rest);
                self.push_slow(index, ordinal, first, matched);
                rest = after;
            }
        }
    }

    /// Takes fragments of one source on the fast path, up to the first that needs the slow one.
    /// Returns how many.
    ///
    /// With runs of one fragment, to ask for each whether its key is owned would cost a tenth of
    /// the throughput, hence the parameter; and the registers are too few for this loop and that
    /// of its caller, so that it is not inlined.
    #[inline(never)]
    fn push_fast<const OWNS_ALL: bool>(
        &mut self,
        index: usize,
        run: &[Fragment],
        matched: &mut Matched,
    ) -> usize {
        let Self { horizon, events, parked, now_ns, .. } = self;
        let OpenEvents { window, seen, owned, parts, named, .. } = events;
        let source = &mut matched.sources[index];
        // What the reference source names is noted fragment by fragment.
        if source.full || parked.is_ahead(index) || named.is_reference(index) {
            return 0;
        }
        let (voter, weight) = (parts[index].voter(), parts[index].weight);
        let Some((mut newest, mut previous)) = horizon.fast_position(voter) else {
            return 0;
        };
        let Rules { numbers, near, .. } = horizon.rules();
        let (mut reached, mut bytes, mut done) = (source.reached, 0, 0);
        let mut reordered = 0;
        for fragment in run {
            let step = numbers.offset(newest, fragment.number);
            let key = newest.wrapping_add_signed(step);
            let close = step.unsigned_abs() <= near;
            let taken = close && window.contains(key) && (OWNS_ALL || owned.has(key));
            if !taken || !seen.insert(index, key) {
                break;
            }
            window.add(key, fragment, weight, *now_ns);
            source.append(key, fragment);
            if key > newest {
                (newest, previous) = (key, newest);
            } else if key < newest {
                previous = previous.max(key);
            }
            if key == reached {
                reached += 1;
            } else {
                reordered += u64::from(key < reached);
                reached = source.reach_out_of_order(reached, key);
            }
            bytes += u64::from(fragment.bytes);
            done += 1;
        }
        if done > 0 {
            source.reached = reached;
            if !OWNS_ALL {
                previous = owned.reached_before(newest, previous);
            }
            let has_claims = horizon.receive(voter, (newest, previous), *now_ns);
            events.bytes += bytes;
            matched.fragment_count += done as u64;
            if matched.has_positions() {
                matched.note_appended(index, matched.first_ordinal(index, run), done as u64);
            }
            if reordered > 0 {
                matched.count(index, Entry::FragmentsReordered, reordered);
            }
            if has_claims {
                self.refute(voter, matched);
            }
        }
        done
    }

    /// Takes fragments of one source that are new and in the window, up to the first that is not.
    /// Returns how many.
    pub(super) fn push_placed(
        &mut self,
        index: usize,
        offset: u64,
        run: &[Fragment],
        matched: &mut Matched,
    ) -> usize {
        let Self { events, parked, now_ns, .. } = self;
        let OpenEvents { window, seen, owned, parts, named, .. } = events;
        let source = &mut matched.sources[index];
        if source.full || parked.is_ahead(index) {
            return 0;
        }
        let (weight, mut reached) = (parts[index].weight, source.reached);
        let (mut bytes, mut done, mut reordered) = (0, 0, 0);
        for fragment in run {
            let key = fragment.number.wrapping_add(offset);
            let is_taken = window.contains(key) && owned.has(key) && seen.insert(index, key);
            if !is_taken {
                break;
            }
            window.add(key, fragment, weight, *now_ns);
            source.append(key, fragment);
            if key == reached {
                reached += 1;
            } else {
                reordered += u64::from(key < reached);
                reached = source.reach_out_of_order(reached, key);
            }
            bytes += u64::from(fragment.bytes);
            done += 1;
        }
        if done > 0 {
            source.reached = reached;
            events.bytes += bytes;
            matched.fragment_count += done as u64;
            let ordinal = matched.first_ordinal(index, run);
            let numbers = run[..done].iter().map(|fragment| fragment.number);
            named.accept(index, ordinal, numbers.map(|number| number.wrapping_add(offset)));
            if matched.has_positions() {
                matched.note_appended(index, ordinal, done as u64);
            }
            if reordered > 0 {
                matched.count(index, Entry::FragmentsReordered, reordered);
            }
        }
        done
    }
}
