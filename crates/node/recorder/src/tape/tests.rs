//! The tape, compared with a plain list of all items.

use std::collections::BTreeSet;

use catchment_fixtures::Random;

use super::*;

/// An item of the log, as a plain list has it.
#[derive(Clone, Copy)]
struct Item {
    session: u64,
    sequence: u64,
    /// How many fragments were pushed before it, if it is one.
    fragment: Option<u64>,
}

#[test]
fn the_position_of_a_link_is_the_mark_of_its_first_undecided_fragment() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let lanes = [(0, SourceId(4)), (0, SourceId(5)), (0, SourceId(5)), (0, SourceId(5))];
        let mut tape = Tape::of_channels(&[false, true, true, true], &lanes, 1);
        assert_eq!((tape.links.len(), tape.links[0].logs.clone()), (1, 1..4));
        // Of each fragment its channel, and the mark that it is behind.
        let (mut marks, mut fragments) = (Vec::new(), Vec::<(usize, usize)>::new());
        let (mut session, mut sequence, mut decided) = (1, random.below(100), [0_u64; 4]);
        for step in 0..300 {
            if step == 0 || random.below(3) == 0 {
                if random.below(40) == 0 {
                    (session, sequence) = (session + 1, 0);
                }
                let note = Fragment::note(1, NoteKind::Session, session, sequence);
                assert!(tape.take(&mut &[note][..], |_, _| {}).is_empty());
                if marks.last() != Some(&(session, sequence)) {
                    marks.push((session, sequence));
                }
            }
            let channel = 1 + random.index(3);
            let fragment = Fragment::new(channel as u32, 0, 0, 0);
            assert_eq!(tape.take(&mut &[fragment][..], |_, _| {}).len(), 1);
            fragments.push((channel, marks.len() - 1));
            sequence += random.below(2);
            let channel = 1 + random.index(3);
            let pushed = fragments.iter().filter(|one| one.0 == channel).count() as u64;
            decided[channel] += random.below(pushed - decided[channel] + 1);
            let mut seen = [0; 4];
            let undecided = fragments.iter().find(|&&(channel, _)| {
                seen[channel] += 1;
                seen[channel] > decided[channel]
            });
            let expected = undecided.map_or(marks.len() - 1, |&(_, mark)| mark);
            let Tape { logs, links, .. } = &mut tape;
            let first = (1..4).filter_map(|lane| logs[lane].first_mark(decided[lane])).min();
            let mut told = Vec::new();
            links[0].decide(first, 0, &mut told);
            let now = told.last().map(|one| (one.session, one.decided));
            assert_eq!(links[0].marks.front(), Some(&marks[expected]), "seed {seed}");
            assert!(now.is_none_or(|now| now == marks[expected]), "seed {seed}");
        }
    }
}

#[test]
fn positions_are_those_of_a_plain_list_of_all_items() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (mut log, mut items) = (Log::default(), Vec::<Item>::new());
        let (mut session, mut sequence, mut pushed) = (1, random.below(100), 0);
        let mut undecided = BTreeSet::new();
        log.begin(session, sequence);
        let mut told: Vec<(u64, u64)> = Vec::new();
        for _ in 0..400 {
            match random.below(12) {
                0 => {
                    let count = 1 + random.below(3);
                    log.pass(count);
                    let passed = sequence..sequence + count;
                    let item = |sequence| Item { session, sequence, fragment: None };
                    items.extend(passed.map(item));
                    sequence += count;
                }
                1 if random.below(6) == 0 => {
                    (session, sequence) = (session + 1, random.below(100));
                    log.begin(session, sequence);
                }
                // The connection is another one, the session goes on.
                1 => log.begin(session, sequence),
                2..6 => {
                    let count = 1 + random.below(4);
                    log.push(count);
                    for fragment in pushed..pushed + count {
                        items.push(Item { session, sequence, fragment: Some(fragment) });
                        undecided.insert(fragment);
                        sequence += 1;
                    }
                    pushed += count;
                }
                6 => {
                    let keep = undecided.first().map_or(0, |first| first + random.below(20));
                    undecided.retain(|&one| one >= keep);
                }
                _ => undecided.retain(|_| random.below(4) > 0),
            }
            let first = undecided.first().copied();
            log.decide(first.unwrap_or(pushed), |session, decided| {
                told.push((session, decided));
            });
            let waiting = items.iter().find(|one| first.is_some() && one.fragment == first);
            let expected = waiting.map_or((session, sequence), |one| (one.session, one.sequence));
            assert_eq!(log.last, Some(expected), "seed {seed}");
            let behind = pushed - first.unwrap_or(pushed);
            assert!(log.pieces.len() as u64 <= behind + session, "seed {seed}");
        }
        check_told(&told, &items, seed);
    }
}

/// Each session's positions rise, and the last one of a session whose items are all decided is
/// its end, also where it has no fragments.
fn check_told(told: &[(u64, u64)], items: &[Item], seed: u64) {
    for two in told.windows(2) {
        assert!(two[0].0 < two[1].0 || two[0].0 == two[1].0 && two[0].1 < two[1].1, "{seed}");
    }
    let (newest, _) = told.last().expect("a session was told");
    for session in 1..*newest {
        let own = items.iter().filter(|one| one.session == session);
        let Some(end) = own.map(|one| one.sequence + 1).max() else { continue };
        let last = told.iter().rev().find(|(other, _)| *other == session);
        assert_eq!(last.map(|(_, decided)| *decided), Some(end), "seed {seed}, session {session}");
    }
}

#[test]
fn of_sessions_without_fragments_so_many_wait_for_what_is_undecided() {
    let mut log = Log::default();
    log.begin(1, 0);
    log.push(1);
    for session in 2..10 * SESSIONS_MAX {
        log.begin(session, 0);
        log.pass(1);
        assert!(log.pieces.len() as u64 <= SESSIONS_MAX + 2);
    }
    let mut told = Vec::new();
    log.decide(0, |session, decided| told.push((session, decided)));
    assert_eq!(std::mem::take(&mut told), [(1, 0)]);
    log.decide(1, |session, decided| told.push((session, decided)));
    // The oldest ones have their positions, and so has the newest.
    let oldest = (1..told.len() as u64).map(|session| (session, 1));
    assert!(oldest.eq(told[..told.len() - 1].iter().copied()), "{told:?}");
    assert!(told.len() as u64 > SESSIONS_MAX, "{told:?}");
    assert_eq!(told.last(), Some(&(10 * SESSIONS_MAX - 1, 1)));
}

#[test]
fn a_content_fault_is_counted_when_its_position_is_passed_and_not_with_the_next_one() {
    let mut tape = Tape::new(&[true], false, 1);
    let fault = || Fragment::passed(0, 1, Some(Entry::FragmentsDiscardedOrder));
    let fragment = |number| Fragment::new(0, number, 0, 0);
    let session = Fragment::note(0, NoteKind::Session, 7, 0);
    let ring = [session, fragment(0), fault(), fault(), fragment(1), fault(), fragment(2)];
    let mut rest = &ring[..];
    while !rest.is_empty() {
        let _fragments = tape.take(&mut rest, |_, _| {});
    }
    let log = &mut tape.logs[0];
    let mut passed = |first_undecided| {
        let (mut position, mut refused) = (None, 0);
        log.decide(first_undecided, |_, decided| position = Some(decided));
        log.take_counts(first_undecided, (0, 0), |entry, count| {
            refused += if entry == Entry::FragmentsDiscardedOrder { count } else { 0 };
        });
        (position, refused)
    };
    assert_eq!(
        [0, 1, 2, 3].map(&mut passed),
        [(Some(0), 0), (Some(3), 2), (Some(5), 1), (Some(6), 0)]
    );
}

#[test]
fn abandoned_fragments_are_counted_with_their_position_and_were_not_received() {
    let mut tape = Tape::new(&[true], false, 1);
    let abandoned = Fragment::passed(0, 5, Some(Entry::FragmentsAbandoned));
    let session = Fragment::note(0, NoteKind::Session, 7, 0);
    let ring = [session, Fragment::new(0, 0, 0, 0), abandoned, Fragment::new(0, 9, 0, 0)];
    let mut rest = &ring[..];
    while !rest.is_empty() {
        let _fragments = tape.take(&mut rest, |_, _| {});
    }
    let mut passed = |first_undecided| {
        let mut counts = Vec::new();
        let add = |entry, count| counts.push((entry, count));
        tape.logs[0].take_counts(first_undecided, (0, 0), add);
        counts
    };
    let counted = vec![(Entry::FragmentsAbandoned, 5)];
    assert_eq!([0, 1, 2].map(&mut passed), [vec![], counted, vec![]]);
}

#[test]
fn a_dense_log_is_one_piece_and_notes_are_no_fragments() {
    let mut tape = Tape::new(&[false, true], false, 1);
    let source = SourceId(1);
    let fragment = |number| Fragment::new(1, number, 0, 0);
    let note = |kind, number, value| Fragment::note(source.0, kind, number, value);
    let mut ring = vec![note(NoteKind::Session, 7, 100), Fragment::passed(source.0, 2, None)];
    ring.extend((0..1_000).map(fragment));
    ring.push(Fragment::passed(source.0, 1, None));
    ring.extend([fragment(1_000), Fragment::new(0, 5, 0, 0)]);
    let mut rest = &ring[..];
    let mut taken = Vec::new();
    while !rest.is_empty() {
        taken.push(tape.take(&mut rest, |_, _| {}).len());
    }
    assert_eq!(taken, [1_000, 2]);
    let log = &mut tape.logs[1];
    assert_eq!((log.pushed, log.pieces.len(), log.end), (1_001, 2, 1_104));
    let mut told = Vec::new();
    for first in [0, 999, 1_000, 1_001, 1_001] {
        log.decide(first, |session, decided| told.push((session, decided)));
    }
    assert_eq!(told, [(7, 102), (7, 1_101), (7, 1_103), (7, 1_104)]);
}
