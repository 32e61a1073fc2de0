//! Events by time that are built again, with another window, other openers or other offsets: the
//! same fragments in other rows.
//!
//! The fragments of a source stay in their order, which is that of their times, so that its payload
//! stays as it is. Late fragments, and those of clocks out of step, stay rows of their own, behind
//! the fragment that they followed.

use std::collections::VecDeque;

use catchment_builder::{Floods, Group, WindowKind};
use catchment_frame::{ColumnKind, Schema, SourceInfo};
use catchment_model::{Entry, EventFlags, Piece, SourceId};

use crate::error::StorageError;
use crate::events_buffer::{EventsBuffer, Fragments};
use crate::reframe::Rebuilt;

/// The schema of events that are built again: beside a fragment in no event nobody is expected,
/// which a column must say.
pub(crate) fn schema(schema: Schema) -> Schema {
    let says = |id| {
        let mut columns = schema.columns.iter();
        columns.any(|one| one.kind == ColumnKind::FragmentExpected && one.source == Some(id))
    };
    let is_time = |id| {
        let mut columns = schema.columns.iter();
        columns.any(|one| one.kind == ColumnKind::FragmentTime && one.source == Some(id))
    };
    let sources = schema.sources.iter().filter(|one| is_time(one.id) && !one.sparse);
    let missing: Vec<_> = sources.map(|one| one.id).filter(|&id| !says(id)).map(SourceId).collect();
    schema.with_expected(missing)
}

/// Whether a row is one fragment, beside which nobody is expected.
fn is_alone(flags: u32) -> bool {
    flags & (EventFlags::UNMATCHED | EventFlags::LATE).0 > 0
}

/// The flags of a row whose fragment's clock was out of step.
const OUT_OF_STEP: EventFlags = EventFlags(EventFlags::UNMATCHED.0 | EventFlags::LATE.0);

/// A row that is made of fragments of other rows.
struct NewRow {
    key: u64,
    flags: EventFlags,
    /// By source, ascending, its fragments, each with the row in which it was.
    fragments: Vec<(usize, Piece)>,
}

/// Rows that are made, in the order of their keys.
struct Made {
    rows: Vec<NewRow>,
    next_key: u64,
}

impl Made {
    fn put(&mut self, key: u64, flags: EventFlags, fragments: Vec<(usize, Piece)>) {
        let key = key.max(self.next_key);
        self.next_key = key + 1;
        self.rows.push(NewRow { key, flags, fragments });
    }

    /// Puts a late fragment. One whose clock was out of step has no time: its row follows the one
    /// before it, or is before the first one.
    fn put_late(&mut self, fragment: (usize, Piece), flags: EventFlags, first_key: u64) {
        let (key, flags) = match flags.contains(OUT_OF_STEP) {
            true if self.next_key == 0 => (first_key.saturating_sub(1), OUT_OF_STEP),
            true => (self.next_key, OUT_OF_STEP),
            false => (fragment.1.time_ns, EventFlags::LATE),
        };
        self.put(key, flags, vec![fragment]);
    }
}

impl EventsBuffer {
    /// Builds the events again. Returns how many of them do not change by what follows, which is
    /// not before the last event that was read; `floods` is what is known after them.
    ///
    /// # Errors
    /// A fragment without a time of its own.
    pub(crate) fn regroup(
        &mut self,
        rebuilt: &Rebuilt,
        floods: &mut Floods,
        sources: &[SourceInfo],
    ) -> Result<usize, StorageError> {
        let (time, rows) = (&rebuilt.time, 0..self.keys.len());
        let is_late = |row: usize| EventFlags(self.flags[row]).contains(EventFlags::LATE);
        let (mut waiting, mut times) = (Vec::new(), Vec::new());
        for (source, info) in self.sources.iter().zip(sources) {
            let there = rows.clone().filter(|&row| source.valid[row]);
            let own: VecDeque<Piece> = there.flat_map(|row| source.of_row(row)).collect();
            let refused =
                |problem| Err(StorageError::NotRebuilt { name: info.name.clone(), problem });
            if source.lacks_times {
                return refused("it has fragments without a time of their own");
            }
            let has_several = time.fragments_max > 1 || !source.pieces.is_empty();
            if has_several && !source.holes.is_empty() {
                return refused("its fragments have holes, and may be pieces of events");
            }
            let in_time = own.iter().filter(|piece| !is_late(piece.row as usize));
            times.push(in_time.copied().collect::<Vec<Piece>>());
            waiting.push(own);
        }
        let mut made = Made { rows: Vec::new(), next_key: self.next_key };
        let flags_of = |piece: &Piece| EventFlags(self.flags[piece.row as usize]);
        // Which groups took part in an event is known by whom it expected.
        let of_reference = time.reference.map_or(&[][..], |one| &times[one]);
        let expects = |event: usize, source: usize| {
            let piece = of_reference.get(event);
            piece.is_none_or(|piece| self.sources[source].expected[piece.row as usize])
        };
        let groups = catchment_builder::regroup(time, &times, floods, expects);
        for &Group { anchor_ns, sources: ref of, is_event } in &groups {
            let mut fragments = Vec::new();
            for &source in of {
                // Late ones before it follow what they followed.
                while let Some(piece) = waiting[source].pop_front() {
                    if !is_late(piece.row as usize) {
                        fragments.push((source, piece));
                        break;
                    }
                    made.put_late((source, piece), flags_of(&piece), anchor_ns);
                }
            }
            let flags = if is_event { EventFlags::default() } else { EventFlags::UNMATCHED };
            made.put(anchor_ns, flags, fragments);
        }
        for (source, rest) in waiting.into_iter().enumerate() {
            for piece in rest {
                let first_key = self.keys[piece.row as usize];
                made.put_late((source, piece), flags_of(&piece), first_key);
            }
        }
        self.replace(&made.rows, time.reference, sources);
        let span_ns = match time.kind {
            WindowKind::First => time.window_ns,
            WindowKind::Gap => time.span_ns_max,
        };
        // What is read next is not before the last key, but for what was recorded ahead of an
        // event's key, which may open an event now, and a source that is moved back.
        let back_ns = rebuilt.shifts_ns.iter().min().map_or(0, |ns| ns.min(&0).unsigned_abs());
        let ahead_ns = rebuilt.before_ns.saturating_add(back_ns);
        let reach_ns = time.before_ns.saturating_add(span_ns).saturating_add(ahead_ns);
        let settled_ns = self.read_key.saturating_sub(reach_ns);
        let settled = self.keys.partition_point(|&key| key < settled_ns);
        // Each group is one row, beside those of late fragments.
        let of_groups = self.flags[..settled].iter();
        let of_groups = of_groups.filter(|flags| !EventFlags(**flags).contains(EventFlags::LATE));
        groups.iter().take(of_groups.count()).for_each(|group| floods.follow(time, group));
        Ok(settled)
    }

    /// Takes note that so many events are written next: of each source, how many of its fragments
    /// are in none, and how many events did not expect it.
    pub(crate) fn settle(&mut self, rows: usize, sources: &[SourceInfo]) {
        self.next_key = self.keys[..rows].last().map_or(self.next_key, |last| last + 1);
        let counted = self.sources.iter().zip(&mut self.counted.sources);
        for ((source, counts), info) in counted.zip(sources) {
            let alone = (0..rows).filter(|&row| source.valid[row] && is_alone(self.flags[row]));
            counts[Entry::FragmentsUnmatched] = alone.count() as u64;
            let not_expected = (0..rows)
                .filter(|&row| !source.valid[row] && (info.sparse || !source.expected[row]));
            counts[Entry::FragmentsNotExpected] = not_expected.count() as u64;
        }
    }

    fn replace(&mut self, made: &[NewRow], reference: Option<usize>, sources: &[SourceInfo]) {
        self.keys.clear();
        let old_flags = std::mem::take(&mut self.flags);
        let old_times = std::mem::take(&mut self.times_ns);
        let old: Vec<_> = self.sources.iter_mut().map(Fragments::take_rows).collect();
        for row in made {
            let mut flags = row.flags;
            // Of a row that is part of an event it is known whether the others were expected: the
            // reference source alone says so, if there is one.
            let known = |&(source, piece): &(usize, Piece)| {
                let says = reference.is_none_or(|one| one == source);
                let at = piece.row as usize;
                (says && !is_alone(old_flags[at])).then_some(at)
            };
            let known: Vec<usize> = row.fragments.iter().filter_map(known).collect();
            let mut is_complete = true;
            let mut rest = &row.fragments[..];
            for (index, source) in self.sources.iter_mut().enumerate() {
                let count = rest.iter().take_while(|(source, _)| *source == index).count();
                let (mine, after) = rest.split_at(count);
                rest = after;
                let is_expected = !mine.is_empty()
                    || sources[index].sparse
                    || !is_alone(flags.0)
                        && (known.is_empty() || known.iter().any(|at| old[index].expected[*at]));
                is_complete &= !mine.is_empty()
                    || !is_expected
                    || !sources[index].required
                    || sources[index].sparse;
                source.take(&old[index], mine, is_expected);
            }
            let mut kept = EventFlags::SENDER_ERROR | EventFlags::BAD_CHECKSUM;
            if row.fragments.len() > 1 {
                kept = kept | EventFlags::TAG_MISMATCH;
            }
            for (_, piece) in &row.fragments {
                flags = flags | EventFlags(old_flags[piece.row as usize] & kept.0);
            }
            if !is_alone(flags.0) && !is_complete {
                flags = flags | EventFlags::INCOMPLETE | EventFlags::OVERTAKEN;
            }
            let arrived = row.fragments.iter().map(|(_, piece)| old_times[piece.row as usize]);
            let arrived = arrived.min();
            self.keys.push(row.key);
            self.times_ns.push(arrived.unwrap_or(0));
            self.flags.push(flags.0);
        }
    }
}
