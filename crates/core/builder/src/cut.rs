//! What one frame will hold, and how it is cut.
//!
//! Released events are rows; each source's queue has the fragments of these rows in the same order.
//! A cut takes rows up to its size and then walks them once per source, which is why a column's
//! lengths and byte ranges come out in one piece.

use std::collections::VecDeque;

use catchment_model::Entry;

use crate::Builder;
use crate::builder::Row;
use crate::source::Accepted;

/// Consecutive events, cut into columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The events' keys, ascending.
    pub keys: Vec<u64>,
    /// When each event's first fragment was pushed.
    pub times_ns: Vec<u64>,
    /// Each event's [`EventFlags`](catchment_model::EventFlags).
    pub flags: Vec<u32>,
    /// One column per source, by the source's number.
    pub columns: Vec<ColumnCut>,
    /// Bytes of all columns' payload.
    pub payload_bytes: u64,
    /// Whether nothing comes after it.
    pub end_of_run: bool,
}

/// One source's part of a [`Cut`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnCut {
    /// Bytes of each row's fragment; 0 where it is missing.
    pub lengths: Vec<u32>,
    /// One bit per row, lowest bit of the first byte first: set where the fragment is there. None
    /// when all are.
    pub validity: Option<Vec<u8>>,
    /// Where the payload is: the rows' fragments in their order, neighbours joined.
    pub spans: Vec<Span>,
    /// How many fragments there are.
    pub fragments: u64,
    /// Their bytes.
    pub payload_bytes: u64,
    /// Rows without this source, if it is required; otherwise 0.
    pub missing: u64,
}

/// A range of bytes in one source's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub offset: u64,
    /// How long it is; never 0.
    pub bytes: u64,
}

impl Builder {
    /// A frame's worth of events, when size or time or the end of the run say so. Call it until it
    /// returns none. `reuse` is an earlier cut whose memory may be used; it is kept until needed.
    ///
    /// A frame has at least one row, at most as many as the window, and its payload exceeds
    /// `frame_bytes` by less than one event. Where `frame_keys_multiple` is set, its keys lie
    /// between two multiples.
    pub fn cut(&mut self, now_ns: u64, reuse: Option<Cut>) -> Option<Cut> {
        self.advance_time(now_ns);
        self.spare = reuse.or(self.spare.take());
        while self.is_cut_due() {
            let cut = self.cut_rows();
            if !cut.keys.is_empty() {
                return Some(cut);
            }
            self.spare = Some(cut); // All its events were dropped.
        }
        None
    }

    fn is_cut_due(&self) -> bool {
        let rows = self.rows.len() as u64;
        rows > 0
            && (self.finished
                || self.status.released_bytes >= self.config.frame_bytes
                || rows >= self.window.events()
                || self.has_whole_block()
                || self.now_ns - self.rows_since_ns >= self.config.frame_time_ns)
    }

    // Whether released rows reach the multiple of keys at which the first one's frame ends.
    fn has_whole_block(&self) -> bool {
        if self.config.frame_keys_multiple.is_none() {
            return false;
        }
        let (Some(first), Some(last)) = (self.rows.front(), self.rows.back()) else { return false };
        self.block_of(first.key) != self.block_of(last.key + 1)
    }

    // The frame that a key belongs to where frames end at multiples: the cycle of the numbers, and
    // the multiple within it.
    fn block_of(&self, key: u64) -> (u64, u64) {
        let Some(multiple) = self.config.frame_keys_multiple else { return (0, 0) };
        let bits = self.config.number_bits;
        (key >> bits, (key & ((1 << bits) - 1)) / multiple)
    }

    fn cut_rows(&mut self) -> Cut {
        let mut cut = self.spare.take().unwrap_or_default();
        cut.clear(self.sources.len());
        let (row_count, bytes, some_dropped) = self.rows_of_one_frame();
        for row in self.rows.range(..row_count).filter(|row| row.dropped.is_none()) {
            cut.keys.push(row.key);
            cut.times_ns.push(row.first_ns);
            cut.flags.push(row.flags);
        }
        let mut fragments_dropped = 0;
        for (index, column) in cut.columns.iter_mut().enumerate() {
            if some_dropped {
                fragments_dropped += self.drop_fragments(index, row_count);
            }
            let source = &mut self.sources[index];
            column.fill(&cut.keys, &mut source.accepted);
            let missing = cut.keys.len() as u64 - column.fragments;
            column.missing = if source.required { missing } else { 0 };
        }
        self.rows.drain(..row_count);
        self.rows_since_ns = self.now_ns;
        self.status.released_bytes -= bytes;
        let fragments: u64 = cut.columns.iter().map(|column| column.fragments).sum();
        self.status.fragments_held -= fragments + fragments_dropped;
        cut.payload_bytes = cut.columns.iter().map(|column| column.payload_bytes).sum();
        cut.end_of_run = self.finished && self.rows.iter().all(|row| row.dropped.is_some());
        cut
    }

    // How many rows one frame takes, their bytes, and whether some of them are dropped.
    fn rows_of_one_frame(&self) -> (usize, u64, bool) {
        let rows_max = self.window.events() as usize;
        let (mut count, mut bytes, mut some_dropped) = (0, 0, false);
        let block = self.rows.front().map(|row| self.block_of(row.key));
        for row in self.rows.iter().take(rows_max) {
            let ended = Some(self.block_of(row.key)) != block;
            if bytes >= self.config.frame_bytes || ended {
                break;
            }
            count += 1;
            bytes += row.bytes;
            some_dropped |= row.dropped.is_some();
        }
        (count, bytes, some_dropped)
    }

    // Takes a source's fragments of dropped rows out of its queue.
    fn drop_fragments(&mut self, index: usize, row_count: usize) -> u64 {
        let Self { rows, sources, tally, .. } = self;
        let source = &mut sources[index];
        let dropped = |row: &Row| row.dropped.map(|reason| (row.key, reason));
        let mut rows = rows.range(..row_count).filter_map(dropped).peekable();
        let gap = |reason| u64::from(reason == Entry::FragmentsDiscardedIncomplete);
        let (mut found, mut gaps) = (0, 0);
        source.accepted.retain(|accepted| {
            while let Some((_, reason)) = rows.next_if(|(key, _)| *key < accepted.key) {
                gaps += gap(reason);
            }
            let drop = rows.next_if(|(key, _)| *key == accepted.key);
            if let Some((_, reason)) = drop {
                found += 1;
                tally.discard(index, accepted.offset, accepted.bytes, reason);
            }
            drop.is_none()
        });
        gaps += rows.map(|(_, reason)| gap(reason)).sum::<u64>();
        if source.required {
            tally.add(index, Entry::FragmentsMissingUnrecorded, gaps);
        }
        found
    }
}

impl Cut {
    // Empties it, keeping its memory.
    fn clear(&mut self, source_count: usize) {
        self.keys.clear();
        self.times_ns.clear();
        self.flags.clear();
        self.columns.resize_with(source_count, ColumnCut::default);
        self.columns.iter_mut().for_each(ColumnCut::clear);
        self.payload_bytes = 0;
        self.end_of_run = false;
    }
}

impl ColumnCut {
    fn clear(&mut self) {
        self.lengths.clear();
        self.validity = None;
        self.spans.clear();
        (self.fragments, self.payload_bytes, self.missing) = (0, 0, 0);
    }

    // Moves the fragments of the rows `keys` out of a source's queue, where none is before them.
    fn fill(&mut self, keys: &[u64], accepted: &mut VecDeque<Accepted>) {
        self.lengths.reserve(keys.len());
        let mut fragments = accepted.iter();
        let mut next = fragments.next();
        let mut taken = 0;
        let mut span = Span { offset: 0, bytes: 0 };
        for (row, &key) in keys.iter().enumerate() {
            let Some(fragment) = next.filter(|fragment| fragment.key == key) else {
                self.mark_missing(row, keys.len());
                continue;
            };
            taken += 1;
            self.lengths.push(fragment.bytes);
            self.payload_bytes += u64::from(fragment.bytes);
            if fragment.offset == span.offset.wrapping_add(span.bytes) {
                span.bytes += u64::from(fragment.bytes);
            } else if fragment.bytes > 0 {
                self.end_span(span);
                span = Span { offset: fragment.offset, bytes: u64::from(fragment.bytes) };
            }
            next = fragments.next();
        }
        self.end_span(span);
        self.fragments = taken as u64;
        accepted.drain(..taken);
    }

    #[cold]
    fn mark_missing(&mut self, row: usize, row_count: usize) {
        self.lengths.push(0);
        let validity = self.validity.get_or_insert_with(|| {
            let mut all = vec![0xff; row_count.div_ceil(8)];
            if let Some(last) = all.last_mut().filter(|_| !row_count.is_multiple_of(8)) {
                *last = (1 << (row_count % 8)) - 1;
            }
            all
        });
        validity[row / 8] &= !(1 << (row % 8));
    }

    fn end_span(&mut self, span: Span) {
        if span.bytes > 0 {
            self.spans.push(span);
        }
    }
}
