//! Which items of the logs of link sources are decided.
//!
//! The builder knows how many of a source's fragments were pushed before its first undecided one
//! ([`first_undecided`](catchment_builder::Builder::first_undecided)). The tape turns that count
//! into a session and a sequence of its log. It knows the sequence of each fragment by counting,
//! since sequences of a log have no gaps: a *note* between the fragments says where a session
//! begins, and how many items are none for the builder (marks, abandoned ranges, content faults).
//! These are decided with the item before them.
//!
//! ```text
//! notes and fragments   | session 7 at 100 | f f f | passed 2 | f f | session 9 at 0 | f ...
//! sequences                                 100..103            105..107              0..
//! pieces                | 7: from 100               | 7: from 105     | 9: from 0
//! ```
//!
//! The tape also keeps the ledger's counts of link sources until a cut decides them: increments of
//! a frame count what it decides, and nothing that waits, so that the sums over the frames up to
//! any frame balance. A fragment that is counted out ahead of undecided ones is counted once the
//! position has passed it: after a crash its sender sends it again. Receipts are among these
//! counts, so that receive agents do not count fragments of link sources.
//!
//! A piece ends with the next one, so that dense logs have one. There are at most as many as
//! fragments from the first undecided one on, and one more; and behind these, of each session that
//! brought no fragment while one was undecided, one, up to a bound.
//!
//! # Channels
//!
//! An item of a channel link is a packet, which has fragments of many sources, its channels. Notes
//! of a session are *marks* between packets: one wherever the slice changes. Pieces of a channel
//! have the numbers of marks in place of sequences, so that a channel with one fragment in each
//! slice has one piece. A link's position is that of the mark which the first undecided fragment of
//! any of its channels is behind: whole slices, as frames have them.

use std::collections::VecDeque;
use std::ops::Range;

use catchment_builder::{Cut, Discard, Fragment, NoteKind, SourceNote};
use catchment_model::ledger::Role;
use catchment_model::{Entry, SourceId};

use crate::match_rule::RuledBuilder;

/// Marks of a link that are kept. Where there are more, fragments count as behind the last one.
const MARKS_MAX: usize = 1 << 16;
/// Sessions of a log that have no fragments and wait for their positions. Where there are more, all
/// but the oldest ones and the newest get none.
const SESSIONS_MAX: u64 = 64;
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

/// What is decided with a cut.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    /// Positions that have moved since the cut before.
    pub(crate) positions: Vec<SourcePosition>,
    /// Counts of link sources, which are in no ledger yet.
    pub(crate) counts: Vec<SourceCount>,
    /// The key below which all events are in this cut or an earlier one, or were dropped; 0 if the
    /// builder has no link sources.
    pub(crate) closed_key: u64,
    /// The same of slices, of cuts of channels.
    pub(crate) closed_slice: u64,
}

/// A count of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceCount {
    pub(crate) source: SourceId,
    pub(crate) entry: Entry,
    pub(crate) count: u64,
}

impl Decided {
    pub(crate) fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.counts.is_empty()
    }
}

/// The logs of a builder's sources.
pub(crate) struct Tape {
    /// By the builder's source; empty if none is a link source.
    logs: Vec<Log>,
    /// The links, if the sources are channels.
    links: Vec<Link>,
    is_of_channels: bool,
    /// Whether there are notes between the fragments.
    has_notes: bool,
    frame_time_ns: u64,
    /// When a frame is cut for positions alone, if one has moved.
    due_ns: u64,
}

/// A channel link.
#[derive(Debug)]
struct Link {
    source: SourceId,
    /// Its channels.
    logs: Range<usize>,
    /// A session and a sequence: all items before it were pushed before the next fragment.
    marks: VecDeque<(u64, u64)>,
    /// How many marks were before those.
    before: u64,
    /// The position and the closed key in the newest cut that has one.
    last: Option<((u64, u64), u64)>,
}

/// The log of one source.
#[derive(Debug, Default)]
struct Log {
    /// The source's number in the ledger.
    number: SourceId,
    /// The index of its link, if it is a channel.
    link: Option<usize>,
    /// Fragments pushed.
    pushed: u64,
    /// From that of the first undecided item on.
    pieces: VecDeque<Piece>,
    /// The sequence behind the newest item.
    end: u64,
    /// The session and the position in the newest cut that has one.
    last: Option<(u64, u64)>,
    /// Whether it is that of a link source.
    is_link: bool,
    /// What no cut has decided: fragments that were counted out, and other counts.
    out: Vec<Out>,
    counts: Vec<(Entry, u64)>,
}

/// Fragments that were counted out.
#[derive(Debug)]
struct Out {
    reason: Entry,
    count: u64,
    bytes: u64,
    /// The first of them. Content faults stand before a fragment, and have its number here.
    from: u64,
    /// They are passed once all fragments before this one are decided.
    until: u64,
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
    /// For a builder's sources, of which these are link sources; empty: none are. One of a port may
    /// have notes, too.
    pub(crate) fn new(links: &[bool], has_notes: bool, frame_time_ns: u64) -> Self {
        let count = if links.contains(&true) { links.len() } else { 0 };
        let log = |(number, &is_link)| Log { number: SourceId(number), is_link, ..Log::default() };
        let logs = (0..).zip(&links[..count]).map(log);
        let has_notes = has_notes || count > 0;
        Self {
            logs: logs.collect(),
            links: Vec::new(),
            is_of_channels: false,
            has_notes,
            frame_time_ns,
            due_ns: 0,
        }
    }

    /// For a builder of channels: whether each is one of a session, and the number in the ledger of
    /// its link. Those of a link are neighbours.
    pub(crate) fn of_channels(
        of_sessions: &[bool],
        lanes: &[(u32, SourceId)],
        frame_time_ns: u64,
    ) -> Self {
        let mut tape = Self::new(of_sessions, false, frame_time_ns);
        tape.is_of_channels = true;
        for (index, log) in tape.logs.iter_mut().enumerate() {
            log.number = lanes[index].1;
            if !log.is_link {
                continue;
            }
            if tape.links.last().is_none_or(|link| link.source != log.number) {
                tape.links.push(Link {
                    source: log.number,
                    logs: index..index,
                    marks: VecDeque::new(),
                    before: 0,
                    last: None,
                });
            }
            let link = tape.links.len() - 1;
            (log.link, tape.links[link].logs.end) = (Some(link), index + 1);
        }
        tape
    }

    /// Takes the notes at the beginning of `rest` and the fragments up to the next note, and
    /// returns these: they are pushed to the builder next. What sources say of themselves is handed
    /// to `tell`.
    pub(crate) fn take<'a>(
        &mut self,
        rest: &mut &'a [Fragment],
        mut tell: impl FnMut(usize, SourceNote),
    ) -> &'a [Fragment] {
        if !self.has_notes {
            return std::mem::take(rest);
        }
        let notes = rest.iter().take_while(|one| one.is_note()).count();
        let (notes, fragments) = rest.split_at(notes);
        for note in notes {
            match note.source_note() {
                Some(said) => tell(note.source.into(), said),
                None => self.note(note),
            }
        }
        let count = fragments.iter().position(Fragment::is_note).unwrap_or(fragments.len());
        let (fragments, after) = fragments.split_at(count);
        for run in fragments.chunk_by(|one, other| one.source == other.source) {
            if let Some(log) = self.logs.get_mut(usize::from(run[0].source)) {
                if let Some(link) = log.link {
                    log.push_behind(self.links[link].mark(), run.len() as u64);
                } else {
                    log.push(run.len() as u64);
                }
            }
        }
        *rest = after;
        fragments
    }

    fn note(&mut self, note: &Fragment) {
        let Some(log) = self.logs.get_mut(usize::from(note.source)) else { return };
        match note.tag {
            tag if tag == NoteKind::Session as u8 && log.link.is_some() => {
                let link = log.link.and_then(|link| self.links.get_mut(link));
                link.into_iter().for_each(|link| link.put(note.number, note.offset));
            }
            tag if tag == NoteKind::Session as u8 => log.begin(note.number, note.offset),
            tag if tag == NoteKind::Passed as u8 => {
                log.pass(note.offset);
                let entry =
                    note.number.checked_sub(1).and_then(|entry| usize::try_from(entry).ok());
                if let Some(&reason) = entry.and_then(|entry| Entry::ALL.get(entry)) {
                    let (count, bytes, at) = (note.offset, 0, log.pushed);
                    log.count_out(Out { reason, count, bytes, from: at, until: at });
                }
            }
            _ => debug_assert!(false, "a note of kind {}", note.tag),
        }
    }

    /// Keeps a count of a source until a cut decides it; returns whether it does.
    pub(crate) fn keep(&mut self, source: usize, entry: Entry, count: u64) -> bool {
        let Some(log) = self.logs.get_mut(source).filter(|log| log.is_link) else { return false };
        match entry {
            Entry::FragmentsMissingUnrecorded | Entry::FragmentsSkipped => {
                log.counts.push((entry, count));
                true
            }
            // Each of these fragments is discarded by itself.
            _ => matches!(entry.role(), Role::FragmentsOut | Role::FragmentsLost),
        }
    }

    /// A fragment was discarded.
    pub(crate) fn discarded(&mut self, discard: &Discard) {
        if let Some(log) = self.logs.get_mut(discard.source.index()).filter(|log| log.is_link) {
            let (reason, bytes, from) = (discard.reason, discard.bytes.into(), discard.ordinal);
            log.count_out(Out { reason, count: 1, bytes, from, until: from + 1 });
        }
    }

    /// What is decided with a frame that was just cut.
    pub(crate) fn cut(&mut self, now_ns: u64, builder: &RuledBuilder, cut: &Cut) -> Decided {
        self.due_ns = now_ns.saturating_add(self.frame_time_ns);
        self.decide(builder, Some(cut))
    }

    /// What is decided without a frame: one without rows is due, since none was cut for its time,
    /// or none will be because the run has ended. None if there is nothing, and no target wants a
    /// frame.
    pub(crate) fn cut_alone(
        &mut self,
        now_ns: u64,
        (has_ended, is_wanted): (bool, bool),
        builder: &RuledBuilder,
    ) -> Option<Decided> {
        if self.logs.is_empty() || !(has_ended || now_ns >= self.due_ns) {
            return None;
        }
        let decided = Some(self.decide(builder, None)).filter(|one| is_wanted || !one.is_empty());
        let next_ns = if decided.is_some() { self.frame_time_ns } else { LOOK_NS };
        self.due_ns = now_ns.saturating_add(next_ns);
        decided
    }

    fn decide(&mut self, builder: &RuledBuilder, cut: Option<&Cut>) -> Decided {
        let mut decided = Decided::default();
        if self.is_of_channels {
            decided.closed_slice = builder.closed_key();
        } else if !self.logs.is_empty() {
            decided.closed_key = builder.closed_key();
        }
        for link in &mut self.links {
            let logs = self.logs[link.logs.clone()].iter_mut().zip(link.logs.clone());
            let undecided =
                logs.filter_map(|(log, index)| log.first_mark(builder.first_undecided(index)));
            let first_undecided = undecided.min();
            link.decide(first_undecided, builder.closed_key(), &mut decided.positions);
        }
        for (index, log) in self.logs.iter_mut().enumerate().filter(|(_, log)| log.is_link) {
            let (source, key) = (log.number, builder.decided_key(index));
            let first_undecided = builder.first_undecided(index);
            if log.link.is_none() {
                log.decide(first_undecided, |session, position| {
                    let moved = SourcePosition { source, session, decided: position, key };
                    decided.positions.push(moved);
                });
            }
            let column = cut.map(|cut| &cut.columns[index]);
            let recorded = column.map_or((0, 0), |column| (column.fragments, column.payload_bytes));
            let not_sent = column.map_or(0, |column| column.not_sent);
            if not_sent > 0 {
                log.counts.push((Entry::FragmentsNotSent, not_sent));
            }
            log.take_counts(first_undecided, recorded, |entry, count| {
                decided.counts.push(SourceCount { source, entry, count });
            });
        }
        decided
    }
}

impl Link {
    /// The number of the newest mark.
    fn mark(&self) -> u64 {
        (self.before + self.marks.len() as u64).saturating_sub(1)
    }

    /// The next item is of that session and sequence.
    fn put(&mut self, session: u64, sequence: u64) {
        if self.marks.back() != Some(&(session, sequence)) && self.marks.len() < MARKS_MAX {
            self.marks.push_back((session, sequence));
        }
    }

    /// Adds the position if it has moved, behind those of sessions that have ended. `mark` is that
    /// of the first undecided fragment; none: all are decided.
    fn decide(&mut self, mark: Option<u64>, key: u64, positions: &mut Vec<SourcePosition>) {
        let newest = self.mark();
        let passed = mark.unwrap_or(newest).min(newest).saturating_sub(self.before);
        self.before += passed;
        let source = self.source;
        let mut tell = |(session, decided)| {
            positions.push(SourcePosition { source, session, decided, key });
        };
        let mut passed: Vec<_> = self.marks.drain(..passed as usize).collect();
        let Some(&now) = self.marks.front() else { return };
        passed.push(now);
        for pair in passed.windows(2).filter(|pair| pair[0].0 != pair[1].0) {
            tell(pair[0]);
        }
        if self.last.replace((now, key)) != Some((now, key)) {
            tell(now);
        }
    }
}

impl Log {
    /// Fragments behind the mark of that number.
    fn push_behind(&mut self, mark: u64, count: u64) {
        for _ in 0..count {
            if self.pieces.is_empty() || self.end != mark {
                let last = self.pieces.back_mut().filter(|last| last.first == self.pushed);
                let (first, session, end_before) = (self.pushed, 0, 0);
                let piece = Piece { first, session, sequence: mark, end_before };
                match last {
                    Some(last) => *last = piece,
                    None => self.pieces.push_back(piece),
                }
                self.end = mark;
            }
            self.push(1);
        }
    }

    /// The mark of the first undecided fragment; none if all are decided.
    fn first_mark(&mut self, first_undecided: u64) -> Option<u64> {
        while self.pieces.get(1).is_some_and(|next| next.first <= first_undecided) {
            self.pieces.pop_front();
        }
        let front = self.pieces.front().filter(|_| first_undecided < self.pushed)?;
        Some(front.sequence + first_undecided.saturating_sub(front.first))
    }

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
        let fragments = self.pieces.front().map_or(0, |front| self.pushed - front.first);
        // One without fragments has a position all the same, unless there are too many.
        if self.pieces.len() as u64 > fragments + SESSIONS_MAX
            && let Some(empty) = self.pieces.pop_back_if(|last| last.first == self.pushed)
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

    /// Joins neighbours, if no fragment is between them: the position may stand there.
    fn count_out(&mut self, out: Out) {
        match self.out.last_mut() {
            Some(last)
                if last.reason == out.reason && [out.from, out.until].contains(&last.until) =>
            {
                last.count += out.count;
                last.bytes += out.bytes;
                last.until = out.until;
            }
            _ => self.out.push(out),
        }
    }

    /// Hands the counts of what is decided to `add`: fragments in the cut, with their bytes, those
    /// that were counted out, and other counts.
    fn take_counts(
        &mut self,
        first_undecided: u64,
        (mut fragments, mut bytes): (u64, u64),
        mut add: impl FnMut(Entry, u64),
    ) {
        for out in self.out.extract_if(.., |out| out.until <= first_undecided) {
            // What its sender has abandoned was not received.
            if out.reason != Entry::FragmentsAbandoned {
                (fragments, bytes) = (fragments + out.count, bytes + out.bytes);
            }
            add(out.reason, out.count);
        }
        let received =
            [(Entry::FragmentsReceived, fragments), (Entry::FragmentBytesReceived, bytes)];
        let counts = received.into_iter().chain(self.counts.drain(..));
        counts.filter(|(_, count)| *count > 0).for_each(|(entry, count)| add(entry, count));
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
mod tests;
