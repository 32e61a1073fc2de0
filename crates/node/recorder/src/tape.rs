//! Which items of the logs of link sources are decided.
//!
//! The builder knows how many of a source's fragments were pushed before its first undecided one
//! ([`Builder::first_undecided`]). The tape turns that count into a session and a sequence of its
//! log. It knows the sequence of each fragment by counting, since sequences of a log have no gaps:
//! a *note* between the fragments says where a session begins, and how many items are none for the
//! builder (marks, abandoned ranges, content faults). These are decided with the item before them.
//!
//! ```text
//! notes and fragments   | session 7 at 100 | f f f | passed 2 | f f | session 9 at 0 | f ...
//! sequences                                 100..103            105..107              0..
//! pieces                | 7: from 100               | 7: from 105     | 9: from 0
//! ```
//!
//! A piece ends with the next one, so that dense logs have one. There are at most as many as
//! fragments from the first undecided one on, and one more.

use std::collections::VecDeque;

use catchment_builder::{Builder, Fragment, NoteKind};
use catchment_model::SourceId;

/// How long to the next look where no position has moved since the last frame.
const LOOK_NS: u64 = 10_000_000;

/// How far a source's log was decided when a frame was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    pub(crate) source: SourceId,
    pub(crate) session: u64,
    /// Items of the session's log below this sequence are decided.
    pub(crate) decided: u64,
    /// One above the source's highest key that was decided; 0 before the first.
    pub(crate) key: u64,
}

/// The logs of a builder's sources.
pub(crate) struct Tape {
    /// By the builder's source; empty if none is a link source.
    logs: Vec<Log>,
    frame_time_ns: u64,
    /// When a frame is cut for positions alone, if one has moved.
    due_ns: u64,
}

/// The log of one source.
#[derive(Debug, Default)]
struct Log {
    /// Fragments pushed.
    pushed: u64,
    /// From that of the first undecided item on.
    pieces: VecDeque<Piece>,
    /// The sequence behind the newest item.
    end: u64,
    /// The session and the position in the newest cut that has one.
    last: Option<(u64, u64)>,
}

/// Consecutive fragments with consecutive sequences.
#[derive(Debug)]
struct Piece {
    /// How many fragments were pushed before its first.
    first: u64,
    session: u64,
    /// The sequence of its first.
    sequence: u64,
    /// Where it is the first of its session, behind pieces of another: where that one's log ended.
    end_before: u64,
}

impl Tape {
    /// For a builder of so many sources, of which some are link sources, or none.
    pub(crate) fn new(source_count: usize, has_links: bool, frame_time_ns: u64) -> Self {
        let count = if has_links { source_count } else { 0 };
        let logs = (0..count).map(|_| Log::default()).collect();
        Self { logs, frame_time_ns, due_ns: 0 }
    }

    /// Takes the notes at the beginning of `rest` and the fragments up to the next note, and
    /// returns these: they are pushed to the builder next.
    pub(crate) fn take<'a>(&mut self, rest: &mut &'a [Fragment]) -> &'a [Fragment] {
        if self.logs.is_empty() {
            return std::mem::take(rest);
        }
        let notes = rest.iter().take_while(|one| one.is_note()).count();
        let (notes, fragments) = rest.split_at(notes);
        notes.iter().for_each(|note| self.note(note));
        let count = fragments.iter().position(Fragment::is_note).unwrap_or(fragments.len());
        let (fragments, after) = fragments.split_at(count);
        for run in fragments.chunk_by(|one, other| one.source == other.source) {
            if let Some(log) = self.logs.get_mut(usize::from(run[0].source)) {
                log.push(run.len() as u64);
            }
        }
        *rest = after;
        fragments
    }

    fn note(&mut self, note: &Fragment) {
        let Some(log) = self.logs.get_mut(usize::from(note.source)) else { return };
        match note.tag {
            tag if tag == NoteKind::Session as u8 => log.begin(note.number, note.offset),
            tag if tag == NoteKind::Passed as u8 => log.pass(note.offset),
            _ => debug_assert!(false, "a note of kind {}", note.tag),
        }
    }

    /// The positions that have moved, with a frame that was just cut.
    pub(crate) fn cut(&mut self, now_ns: u64, builder: &Builder) -> Vec<SourcePosition> {
        self.due_ns = now_ns.saturating_add(self.frame_time_ns);
        self.moved(builder)
    }

    /// The positions for which a frame without rows is due: no frame was cut for its time, or none
    /// will be since the run has ended. Empty if there is none.
    pub(crate) fn cut_alone(
        &mut self,
        now_ns: u64,
        has_ended: bool,
        builder: &Builder,
    ) -> Vec<SourcePosition> {
        if self.logs.is_empty() || !(has_ended || now_ns >= self.due_ns) {
            return Vec::new();
        }
        let moved = self.moved(builder);
        let next_ns = if moved.is_empty() { LOOK_NS } else { self.frame_time_ns };
        self.due_ns = now_ns.saturating_add(next_ns);
        moved
    }

    fn moved(&mut self, builder: &Builder) -> Vec<SourcePosition> {
        let mut positions = Vec::new();
        for (index, log) in self.logs.iter_mut().enumerate() {
            if log.pieces.is_empty() {
                continue;
            }
            let (source, key) = (SourceId(index as u32), builder.decided_key(index));
            log.decide(builder.first_undecided(index), |session, decided| {
                positions.push(SourcePosition { source, session, decided, key });
            });
        }
        positions
    }
}

impl Log {
    fn push(&mut self, count: u64) {
        self.pushed += count;
        self.end += count;
    }

    /// A session begins, or goes on, with an item of that sequence.
    fn begin(&mut self, session: u64, sequence: u64) {
        if self.pieces.back().is_some_and(|last| last.session == session) {
            debug_assert!(sequence >= self.end, "repeats are dropped before");
            return self.pass(sequence.saturating_sub(self.end));
        }
        let mut end_before = self.end;
        // A piece without fragments gives way.
        if let Some(empty) = self.pieces.pop_back_if(|last| last.first == self.pushed)
            && self.pieces.back().is_none_or(|before| before.session != empty.session)
        {
            end_before = empty.end_before;
        }
        let first = self.pushed;
        self.pieces.push_back(Piece { first, session, sequence, end_before });
        self.end = sequence;
    }

    /// So many items are no fragments.
    fn pass(&mut self, count: u64) {
        let Some(last) = self.pieces.back_mut().filter(|_| count > 0) else { return };
        let sequence = self.end.saturating_add(count);
        if last.first == self.pushed {
            last.sequence = sequence;
        } else {
            let (first, session) = (self.pushed, last.session);
            self.pieces.push_back(Piece { first, session, sequence, end_before: self.end });
        }
        self.end = sequence;
    }

    /// All fragments before that one are decided. Hands each position that moved to `tell`, that of
    /// a session that has ended before that of the next.
    fn decide(&mut self, first_undecided: u64, mut tell: impl FnMut(u64, u64)) {
        let Self { pieces, last, .. } = self;
        let mut move_to = |session, decided| {
            if *last != Some((session, decided)) {
                *last = Some((session, decided));
                tell(session, decided);
            }
        };
        while let Some(next) = pieces.get(1).filter(|next| next.first <= first_undecided) {
            if next.session != pieces[0].session {
                move_to(pieces[0].session, next.end_before);
            }
            pieces.pop_front();
        }
        if let Some(front) = pieces.front() {
            let decided = match first_undecided == self.pushed {
                true => self.end,
                false => front.sequence + first_undecided.saturating_sub(front.first),
            };
            move_to(front.session, decided);
        }
    }
}

#[cfg(test)]
mod tests {
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
                let expected =
                    waiting.map_or((session, sequence), |one| (one.session, one.sequence));
                assert_eq!(log.last, Some(expected), "seed {seed}");
                let behind = pushed - first.unwrap_or(pushed);
                assert!(log.pieces.len() as u64 <= behind + 1, "seed {seed}");
            }
            check_told(&told, &items, seed);
        }
    }

    /// Each session's positions rise, and the last one of a session whose fragments are all decided
    /// is its end.
    fn check_told(told: &[(u64, u64)], items: &[Item], seed: u64) {
        for two in told.windows(2) {
            assert!(two[0].0 < two[1].0 || two[0].0 == two[1].0 && two[0].1 < two[1].1, "{seed}");
        }
        let (newest, _) = told.last().expect("a session was told");
        for session in (1..*newest).filter(|session| {
            items.iter().any(|one| one.session == *session && one.fragment.is_some())
        }) {
            let own = items.iter().filter(|one| one.session == session);
            let end = own.map(|one| one.sequence + 1).max();
            let last = told.iter().rev().find(|(other, _)| *other == session);
            assert_eq!(last.map(|(_, decided)| *decided), end, "seed {seed}, session {session}");
        }
    }

    #[test]
    fn a_dense_log_is_one_piece_and_notes_are_no_fragments() {
        let mut tape = Tape::new(2, true, 1);
        let source = SourceId(1);
        let fragment = |number| Fragment::new(1, number, 0, 0);
        let note = |kind, number, value| Fragment::note(source.0, kind, number, value);
        let mut ring = vec![note(NoteKind::Session, 7, 100), note(NoteKind::Passed, 0, 2)];
        ring.extend((0..1_000).map(fragment));
        ring.push(note(NoteKind::Passed, 0, 1));
        ring.extend([fragment(1_000), Fragment::new(0, 5, 0, 0)]);
        let mut rest = &ring[..];
        let mut taken = Vec::new();
        while !rest.is_empty() {
            taken.push(tape.take(&mut rest).len());
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
}
