//! Fragments that span many packets, assembled in their final place.
//!
//! The first part of a fragment takes chunks for the whole; each part is copied once, to its place,
//! in any order. A descriptor is made when all bytes have arrived. A fragment that lacks parts is
//! given up after a time-out, or when too many others have begun: where its protocol keeps holes,
//! and few bytes are missing, it is described with them; otherwise it is abandoned. One whose end
//! has come waits for an eighth of the time-out only.
//!
//! Limits: [`OPEN_MAX`] fragments of a source at a time, in [`GAPS_MAX`] pieces each.

use std::collections::VecDeque;
use std::ops::Range;

use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::Entry;
use catchment_wire::{Part, PartFlags};

use crate::ingest::Ingest;
use crate::pool::Chunk;

/// Fragments of one source that are assembled at a time.
const OPEN_MAX: usize = 16;
/// Pieces without a gap that one fragment may have before it is abandoned.
const GAPS_MAX: usize = 4_096;
/// Of the time-out, the share that a fragment with an end waits for what it lacks, one to so many.
const END_SHARE: u64 = 8;
/// How long one that will be kept waits once the run is to end: its event has to begin in time
/// (`run_gate.rs`).
const END_STOPPING_NS: u64 = 50_000_000;
/// Closed fragments that are remembered, since parts of them may arrive again.
const CLOSED_MAX: usize = 64;
/// Of a port whose fragments are kept with holes, as trains are: for [`CLOSED_NS`], if all its
/// sources together close a hundred a second.
const CLOSED_TRAINS_MAX: usize = 1_024;
/// And for how long, of packets without a number of their own: what comes later with the number of
/// a closed fragment is of a sender that began again.
const CLOSED_NS: u64 = 10_000_000_000;

/// The unfinished fragments of one sender's sources.
#[derive(Default)]
pub(crate) struct Parts {
    open: Vec<Open>,
    closed: VecDeque<Closed>,
    /// The closed fragments.
    spare: Vec<Open>,
    /// The most bytes that a fragment may lack and be kept; none is kept that lacks any.
    holes_bytes_max: Option<u64>,
}

/// A part that has arrived.
pub(crate) struct Arrived<'a> {
    pub(crate) part: &'a Part,
    /// Its source's number in the builder.
    pub(crate) source: u32,
    pub(crate) bytes: &'a [u8],
    /// [`FragmentFlags::SENT_ONCE`] if its packet is known not to be a repetition; or 0.
    pub(crate) packet_flags: u8,
    /// Whether the part can wait where it is while there is no memory for its fragment.
    pub(crate) may_wait: bool,
}

/// There is no memory for the fragment of a part that waits.
pub(crate) struct NoRoom;

#[derive(Default)]
struct Open {
    /// Where it is counted.
    account: usize,
    source: u32,
    number: u64,
    fragment_bytes: u64,
    chunks: Vec<Chunk>,
    /// The ranges that have arrived, in order; adjacent ones are merged.
    pieces: Vec<Range<u64>>,
    tag: u8,
    flags: u8,
    packet_flags: u8,
    /// When a new part of it last arrived.
    touched_ns: u64,
}

struct Closed {
    source: u32,
    number: u64,
    /// Whether it was given up or had no memory: parts of it that arrive now are new.
    dropped: bool,
    closed_ns: u64,
}

impl Parts {
    /// None yet. Fragments that lack at most so many bytes are kept, if any are.
    pub(crate) fn new(holes_bytes_max: Option<u64>) -> Self {
        Self { holes_bytes_max, ..Self::default() }
    }

    /// Whether no fragment lacks parts.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The index of a fragment that lacks parts.
    fn find(&self, source: u32, number: u64) -> Option<usize> {
        self.open.iter().position(|open| (open.source, open.number) == (source, number))
    }

    /// Whether a fragment lacks parts.
    pub(crate) fn has(&self, source: u32, number: u64) -> bool {
        self.find(source, number).is_some()
    }

    /// Whether a part contradicts those before it.
    pub(crate) fn contradicts(&self, part: &Part, source: u32) -> bool {
        let open = self.find(source, part.number);
        open.is_some_and(|index| self.open[index].fragment_bytes != part.fragment_bytes)
    }

    /// Takes a part that has passed all checks. Returns the fragment's descriptor if it is now
    /// complete.
    ///
    /// # Errors
    /// The part must wait: nothing has changed.
    pub(crate) fn take(
        &mut self,
        ingest: &mut Ingest,
        account: usize,
        arrived: &Arrived<'_>,
    ) -> Result<Option<Fragment>, NoRoom> {
        let (part, source) = (arrived.part, arrived.source);
        let index = match self.find(source, part.number) {
            Some(index) => index,
            None => match self.begin(ingest, account, arrived)? {
                Some(index) => index,
                None => return Ok(None),
            },
        };
        Ok(self.put(ingest, index, arrived))
    }

    /// Puts a part into its fragment. Returns the descriptor if the fragment is now complete.
    fn put(
        &mut self,
        ingest: &mut Ingest,
        index: usize,
        &Arrived { part, source, bytes, .. }: &Arrived<'_>,
    ) -> Option<Fragment> {
        let open = &mut self.open[index];
        let range = part.position..part.position + u64::from(part.bytes);
        if part.fragment_bytes != open.fragment_bytes || range.end > open.fragment_bytes {
            // The parts of a message are checked before the first of them is here.
            ingest.counts(open.account)[Entry::FragmentBytesReceived] += bytes.len() as u64;
            self.abandon(ingest, index);
            return None;
        }
        let new = add_piece(&mut open.pieces, range);
        let counts = ingest.counts(open.account);
        counts[Entry::FragmentBytesReceived] += new;
        if new == 0 && !bytes.is_empty() {
            counts[Entry::FragmentPartsRepeated] += 1;
            return None;
        }
        ingest.pool().put_part(&open.chunks, part.position, bytes);
        open.touched_ns = ingest.now_ns();
        open.flags |= part.flags;
        if open.pieces.len() > GAPS_MAX {
            self.give_up(ingest, index);
            return None;
        }
        if open.pieces.first() != Some(&(0..open.fragment_bytes)) {
            return None;
        }
        debug_assert_eq!(open.source, source);
        let fragment = open.described(ingest, Vec::new());
        self.close(ingest.now_ns(), index, false);
        Some(fragment)
    }

    /// Gives up the fragments of which nothing has arrived for that long. What is to be in a run
    /// that ends must be whole soon.
    pub(crate) fn expire(&mut self, ingest: &mut Ingest, timeout_ns: u64, is_stopping: bool) {
        let (now_ns, most) = (ingest.now_ns(), self.holes_bytes_max);
        let is_due = |open: &Open| {
            let is_kept = most.is_some_and(|most| open.lacks() <= most);
            let waits_ns = match most.is_some() && open.has_end() {
                _ if is_stopping && is_kept => timeout_ns.min(END_STOPPING_NS),
                true => timeout_ns / END_SHARE,
                // It is to be there before its event is closed without it.
                false if most.is_some() => timeout_ns / 2,
                false => timeout_ns,
            };
            open.touched_ns < now_ns.saturating_sub(waits_ns)
        };
        while let Some(index) = self.oldest(is_due) {
            self.give_up(ingest, index);
        }
    }

    /// The fragment, of those of that kind, of which nothing has come for longest.
    fn oldest(&self, is_one: impl Fn(&Open) -> bool) -> Option<usize> {
        let of_kind = self.open.iter().enumerate().filter(|(_, open)| is_one(open));
        of_kind.min_by_key(|(_, open)| open.touched_ns).map(|(index, _)| index)
    }

    /// Gives up all fragments: nothing more will arrive.
    pub(crate) fn end(&mut self, ingest: &mut Ingest) {
        while let Some(index) = self.oldest(|_| true) {
            self.give_up(ingest, index);
        }
    }

    /// Begins a fragment with its first part, unless the part belongs to a closed fragment or there
    /// is no memory.
    fn begin(
        &mut self,
        ingest: &mut Ingest,
        account: usize,
        &Arrived { part, source, bytes, packet_flags, may_wait }: &Arrived<'_>,
    ) -> Result<Option<usize>, NoRoom> {
        let now_ns = ingest.now_ns();
        let counts = ingest.counts(account);
        // A new packet that carries the number of a completed fragment: the source has restarted
        // its numbering, and the builder decides what follows.
        let is_it = |closed: &Closed| (closed.source, closed.number) == (source, part.number);
        let for_good = self.holes_bytes_max.is_none();
        let closed = self
            .closed
            .iter_mut()
            .rev()
            .find(|closed| is_it(closed))
            .filter(|closed| for_good || now_ns.saturating_sub(closed.closed_ns) < CLOSED_NS);
        let sent_once = packet_flags & FragmentFlags::SENT_ONCE != 0;
        if let Some(closed) = closed.filter(|closed| closed.dropped || !sent_once) {
            if closed.dropped {
                counts[Entry::FragmentBytesReceived] += bytes.len() as u64;
                // The rest of it is dropped, too, however slowly it comes.
                closed.closed_ns = now_ns;
            } else {
                counts[Entry::FragmentPartsRepeated] += 1;
            }
            return Ok(None);
        }
        let mut open = self.spare.pop().unwrap_or_default();
        let take = |ingest: &mut Ingest, open: &mut Open| {
            let wanted = (part.number, part.fragment_bytes);
            ingest.take_chain_of(account, wanted, &mut open.chunks)
        };
        let mut has_room = may_wait && take(ingest, &mut open);
        while may_wait && !has_room {
            if !self.waits_for_itself(ingest, account, (source, part.fragment_bytes)) {
                self.spare.push(open);
                return Err(NoRoom);
            }
            self.give_up_oldest(ingest, source);
            has_room = take(ingest, &mut open);
        }
        if self.open.iter().filter(|open| open.source == source).count() >= OPEN_MAX {
            self.give_up_oldest(ingest, source);
        }
        has_room = has_room || take(ingest, &mut open);
        let counts = ingest.counts(account);
        counts[Entry::FragmentsReceived] += 1;
        if !has_room {
            counts[Entry::FragmentsDiscardedMemory] += 1;
            counts[Entry::FragmentBytesReceived] += bytes.len() as u64;
            self.spare.push(open);
            self.remember(now_ns, source, part.number, true);
            return Ok(None);
        }
        (open.account, open.source, open.number) = (account, source, part.number);
        open.fragment_bytes = part.fragment_bytes;
        (open.tag, open.flags, open.packet_flags) = (part.tag, 0, packet_flags);
        self.open.push(open);
        Ok(Some(self.open.len() - 1))
    }

    /// Whether a fragment of a connection has no room because of others of its source that the same
    /// connection has begun: what they lack stands behind it.
    fn waits_for_itself(
        &self,
        ingest: &Ingest,
        account: usize,
        (source, bytes): (u32, u64),
    ) -> bool {
        let of_source = self.open.iter().filter(|open| open.source == source);
        let chunks: usize = of_source.map(|open| open.chunks.len()).sum();
        chunks > 0 && !ingest.has_share(account, chunks as u64, bytes)
    }

    fn give_up_oldest(&mut self, ingest: &mut Ingest, source: u32) {
        let oldest = self.oldest(|open| open.source == source);
        oldest.into_iter().for_each(|index| self.give_up(ingest, index));
    }

    /// Describes a fragment with its holes, if it may have so many, or abandons it.
    fn give_up(&mut self, ingest: &mut Ingest, index: usize) {
        let open = &mut self.open[index];
        if self.holes_bytes_max.is_none_or(|most| open.lacks() > most) {
            return self.abandon(ingest, index);
        }
        let fragment = open.described(ingest, open.gaps());
        self.close(ingest.now_ns(), index, true);
        ingest.describe(fragment);
    }

    fn abandon(&mut self, ingest: &mut Ingest, index: usize) {
        let open = &mut self.open[index];
        ingest.counts(open.account)[Entry::FragmentsDiscardedUnfinished] += 1;
        ingest.give_back_chain(open.account, &mut open.chunks);
        self.close(ingest.now_ns(), index, true);
    }

    fn close(&mut self, now_ns: u64, index: usize, dropped: bool) {
        let mut open = self.open.swap_remove(index);
        open.pieces.clear();
        self.remember(now_ns, open.source, open.number, dropped);
        self.spare.push(open);
    }

    fn remember(&mut self, closed_ns: u64, source: u32, number: u64, dropped: bool) {
        let for_good = self.holes_bytes_max.is_none();
        let most = if for_good { CLOSED_MAX } else { CLOSED_TRAINS_MAX };
        // Each new train looks through all that are remembered.
        let is_over = |closed: &Closed| closed_ns.saturating_sub(closed.closed_ns) >= CLOSED_NS;
        while !for_good && self.closed.front().is_some_and(is_over) {
            self.closed.pop_front();
        }
        if self.closed.len() == most {
            self.closed.pop_front();
        }
        self.closed.push_back(Closed { source, number, dropped, closed_ns });
    }
}

impl Open {
    /// Whether its last bytes have arrived.
    fn has_end(&self) -> bool {
        self.pieces.last().is_some_and(|last| last.end == self.fragment_bytes)
    }

    /// Bytes that have not arrived.
    fn lacks(&self) -> u64 {
        self.pieces
            .iter()
            .fold(self.fragment_bytes, |lacks, piece| lacks - (piece.end - piece.start))
    }

    /// The ranges that have not arrived, in order.
    fn gaps(&self) -> Vec<Range<u64>> {
        let begins = std::iter::once(0).chain(self.pieces.iter().map(|piece| piece.end));
        let ends = self.pieces.iter().map(|piece| piece.start).chain([self.fragment_bytes]);
        begins.zip(ends).filter(|(begin, end)| begin < end).map(|(begin, end)| begin..end).collect()
    }

    /// Its descriptor. Its chunks are a chain from now on.
    fn described(&mut self, ingest: &Ingest, holes: Vec<Range<u64>>) -> Fragment {
        let offset = ingest.pool().link_with_holes(&mut self.chunks, holes);
        let error = self.flags & PartFlags::SENDER_ERROR != 0;
        let flags = if error { FragmentFlags::SENDER_ERROR } else { 0 } | self.packet_flags;
        let length = self.fragment_bytes as u32;
        let fragment = Fragment::new(self.source, self.number, offset, length);
        Fragment { tag: self.tag, flags, ..fragment }
    }
}

/// Adds a range to those that have arrived, and returns how many of its bytes are new.
fn add_piece(pieces: &mut Vec<Range<u64>>, range: Range<u64>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    // In order, as they nearly always arrive: the last piece grows.
    if let Some(last) = pieces.last_mut()
        && last.end == range.start
    {
        last.end = range.end;
        return range.end - range.start;
    }
    let first = pieces.partition_point(|piece| piece.end < range.start);
    let end = pieces.partition_point(|piece| piece.start <= range.end);
    let met = &pieces[first..end];
    let bytes = |range: &Range<u64>| range.end - range.start;
    let had: u64 = met.iter().map(bytes).sum();
    let joined = Range {
        start: met.first().map_or(range.start, |piece| piece.start.min(range.start)),
        end: met.last().map_or(range.end, |piece| piece.end.max(range.end)),
    };
    let new = bytes(&joined) - had;
    pieces.splice(first..end, [joined]);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_in_any_order_and_count_each_byte_once() {
        let mut pieces = Vec::new();
        let mut add = |range| add_piece(&mut pieces, range);
        assert_eq!([add(10..20), add(30..40), add(0..10), add(35..50)], [10, 10, 10, 10]);
        assert_eq!([add(12..18), add(20..20), add(15..32), add(0..50)], [0, 0, 10, 0]);
        assert!(pieces.len() == 1 && pieces[0] == (0..50), "{pieces:?}");
    }

    #[test]
    fn closed_trains_are_remembered_for_so_long_and_other_fragments_for_good() {
        for (holes_bytes_max, left) in [(Some(0), 100), (None, CLOSED_MAX)] {
            let mut parts = Parts::new(holes_bytes_max);
            for number in 0..200 {
                parts.remember(number * CLOSED_NS / 100, 0, number, false);
            }
            assert_eq!(parts.closed.len(), left);
            assert_eq!(parts.closed.back().map(|closed| closed.number), Some(199));
        }
        let mut parts = Parts::new(Some(0));
        (0..2_000).for_each(|number| parts.remember(0, 0, number, false));
        assert_eq!(parts.closed.len(), CLOSED_TRAINS_MAX);
    }

    #[test]
    fn gaps_and_pieces_are_all_of_a_fragment() {
        let mut open = Open { fragment_bytes: 50, ..Open::default() };
        let gaps = |open: &Open| -> Vec<(u64, u64)> {
            open.gaps().iter().map(|gap| (gap.start, gap.end)).collect()
        };
        assert_eq!((gaps(&open), open.lacks(), open.has_end()), (vec![(0, 50)], 50, false));
        for (range, left, lacks) in [
            (10..20, vec![(0, 10), (20, 50)], 40),
            (0..5, vec![(5, 10), (20, 50)], 35),
            (40..50, vec![(5, 10), (20, 40)], 25),
            (5..10, vec![(20, 40)], 20),
            (15..45, vec![], 0),
        ] {
            add_piece(&mut open.pieces, range);
            assert_eq!((gaps(&open), open.lacks()), (left, lacks));
        }
        assert!(open.has_end());
    }

    #[test]
    fn every_order_of_parts_covers_the_fragment_exactly_once() {
        let bytes = 1_000_u64;
        for step in [7, 64, 333] {
            for stride in [1, 3, 11] {
                let starts: Vec<u64> = (0..bytes).step_by(step).collect();
                let mut order: Vec<u64> = (0..starts.len() * stride)
                    .filter(|index| index % stride == 0)
                    .map(|index| starts[(index / stride * 5 + stride) % starts.len()])
                    .collect();
                order.extend(&starts);
                let mut pieces = Vec::new();
                let add = |start| add_piece(&mut pieces, start..bytes.min(start + step as u64));
                assert_eq!(order.into_iter().map(add).sum::<u64>(), bytes, "{step}, {stride}");
                assert!(pieces.len() == 1 && pieces[0] == (0..bytes), "{pieces:?}");
            }
        }
    }
}
