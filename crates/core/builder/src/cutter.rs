//! What one frame will hold, and how it is cut.
//!
//! Released events are rows; each source's queue has the fragments of these rows in the same order.
//! A cut takes rows up to its size and then walks them once per source, which is why a column's
//! lengths and byte ranges come out in one piece. It ends before a row with which its payload, and
//! so perhaps one of its columns, would exceed `COLUMN_BYTES_MAX`.

use std::collections::VecDeque;

use catchment_model::Piece;
use catchment_model::limits::COLUMN_BYTES_MAX;

use crate::expected::row_expects;
use crate::matched::Accepted;
use crate::tags::EventTags;
use crate::{BuilderConfig, KeyBlocks, Matched, Needs, Row, SourceRole};

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
    /// Bytes of each row's fragment, or of all of its pieces; 0 where it is missing.
    pub lengths: Vec<u32>,
    /// One bit per row, lowest bit of the first byte first: set where the fragment is there. None
    /// when all are.
    pub validity: Option<Vec<u8>>,
    /// Each row's own time, in ns, 0 where its fragment is missing; empty where there are none.
    pub times: Vec<u64>,
    /// One bit per row, as above: set where the source is expected. None when it is in all, and of
    /// sparse sources.
    pub expected: Option<Vec<u8>>,
    /// The pieces of rows that have several fragments of this source; no others.
    pub pieces: Vec<Piece>,
    /// Where the payload is: the rows' fragments in their order, neighbours joined.
    pub spans: Vec<Span>,
    /// How many fragments there are, each piece counted, and in how many rows.
    pub fragments: u64,
    /// See [`fragments`](Self::fragments).
    pub rows: u64,
    /// Their bytes.
    pub payload_bytes: u64,
    /// Rows without this source in which it is expected, if it is required; otherwise 0.
    pub missing: u64,
    /// Rows without this source in which it was not expected.
    pub not_expected: u64,
    /// Of the missing, the rows whose keys the source has passed, and whose fragments are not known
    /// to have been abandoned or to have come late.
    pub not_sent: u64,
    /// Fragments that their sender marked as broken.
    pub bad_sender: u64,
    /// Fragments with another tag than their event's.
    pub bad_tag: u64,
}

/// A range of bytes in one source's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub offset: u64,
    /// How long it is; never 0.
    pub bytes: u64,
}

/// Decides when a frame is due, and cuts it from what was matched. It knows nothing of the rule by
/// which that was done.
#[derive(Debug)]
pub struct Cutter {
    rules: CutRules,
    spare: Option<Cut>,
}

/// When frames are cut.
#[derive(Clone, Copy, Debug)]
struct CutRules {
    /// Payload bytes of a frame that is due.
    frame_bytes: u64,
    frame_time_ns: u64,
    /// The most rows of a frame.
    rows_max: usize,
    blocks: Option<KeyBlocks>,
}

impl Cutter {
    pub fn new(config: &BuilderConfig, needs: &Needs) -> Self {
        let rules = CutRules {
            frame_bytes: config.frame_bytes.min(COLUMN_BYTES_MAX),
            frame_time_ns: config.frame_time_ns,
            rows_max: needs.rows_max as usize,
            blocks: needs.blocks,
        };
        Self { rules, spare: None }
    }

    /// A frame's worth of events, if one is due; when the run has `finished`, all that is there
    /// is due. `reuse` is an earlier cut whose memory may be used; it is held until needed.
    pub fn cut(
        &mut self,
        now_ns: u64,
        finished: bool,
        matched: &mut Matched,
        reuse: Option<Cut>,
    ) -> Option<Cut> {
        self.spare = reuse.or(self.spare.take());
        while finished && !matched.rows.is_empty() || self.rules.is_cut_due(now_ns, matched) {
            let mut cut = self.spare.take().unwrap_or_default();
            let range = self.rules.rows_of_one_frame(matched);
            cut.take_rows(&range, matched);
            matched.rows_since_ns = now_ns;
            cut.end_of_run = finished && matched.rows.iter().all(|row| row.dropped.is_some());
            if !cut.keys.is_empty() {
                return Some(cut);
            }
            self.spare = Some(cut); // All its events were dropped.
        }
        None
    }
}

// The rows that one frame takes from the front.
#[derive(Clone, Copy, Debug, Default)]
struct FrameRows {
    count: usize,
    bytes: u64,
    some_dropped: bool,
}

impl CutRules {
    fn is_cut_due(&self, now_ns: u64, matched: &Matched) -> bool {
        let rows = matched.rows.len();
        rows > 0
            && (matched.released_bytes >= self.frame_bytes
                || rows >= self.rows_max
                || self.has_whole_block(matched)
                || now_ns - matched.rows_since_ns >= self.frame_time_ns)
    }

    // Whether released rows reach the end of the first one's block.
    fn has_whole_block(&self, matched: &Matched) -> bool {
        let Some(blocks) = self.blocks else { return false };
        let (Some(first), Some(last)) = (matched.rows.front(), matched.rows.back()) else {
            return false;
        };
        blocks.of(first.key) != blocks.of(last.key + 1)
    }

    fn rows_of_one_frame(&self, matched: &Matched) -> FrameRows {
        let mut taken = FrameRows::default();
        let block_of = |row: &Row| self.blocks.map(|blocks| blocks.of(row.key));
        let block = matched.rows.front().map(block_of);
        for row in matched.rows.iter().take(self.rows_max) {
            let ended = Some(block_of(row)) != block;
            let exceeds = taken.count > 0 && taken.bytes + row.bytes > COLUMN_BYTES_MAX;
            if taken.bytes >= self.frame_bytes || ended || exceeds {
                break;
            }
            taken.count += 1;
            taken.bytes += row.bytes;
            taken.some_dropped |= row.dropped.is_some();
        }
        taken
    }
}

impl Cut {
    // Becomes the columns of these rows, which leave `matched`.
    fn take_rows(&mut self, taken: &FrameRows, matched: &mut Matched) {
        self.clear(matched.sources.len());
        let rows = matched.rows.range(..taken.count);
        let mut named = Vec::new();
        for row in rows.filter(|row| row.dropped.is_none()) {
            if row.named() != Some(0) {
                named.push((self.keys.len(), row.named()));
            }
            self.keys.push(row.key);
            self.times_ns.push(row.first_ns);
            self.flags.push(row.flags);
        }
        if let Some(last) = taken.count.checked_sub(1) {
            matched.close(matched.rows[last].key);
        }
        let mut tags = EventTags::of(&self.keys, &self.flags, &matched.sources);
        let mut fragments = 0;
        for (index, column) in self.columns.iter_mut().enumerate() {
            if taken.some_dropped {
                fragments += matched.drop_fragments(index, taken.count);
            }
            let source = &mut matched.sources[index];
            column.bad_tag = tags.bad_of(source);
            column.fill(&self.keys, &mut source.accepted);
            if let Some(times) = matched.times.get_mut(index) {
                column.take_times(times);
            }
            // Of a sparse source no column says it.
            if source.role != SourceRole::Sparse {
                column.expect(matched.expected_in[index], &named, self.keys.len());
            }
            let absent = column.absent(self.keys.len());
            column.missing = if source.is_required() { absent } else { 0 };
            let lacking = self.keys.len() as u64 - column.rows;
            column.not_expected =
                lacking - if source.role == SourceRole::Sparse { 0 } else { absent };
            fragments += column.fragments;
        }
        matched.rows.drain(..taken.count);
        matched.released_bytes -= taken.bytes;
        matched.fragment_count -= fragments;
        self.payload_bytes = self.columns.iter().map(|column| column.payload_bytes).sum();
    }

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
        self.times.clear();
        (self.validity, self.expected) = (None, None);
        self.pieces.clear();
        self.spans.clear();
        (self.fragments, self.rows, self.payload_bytes, self.missing) = (0, 0, 0, 0);
        (self.not_expected, self.not_sent, self.bad_sender, self.bad_tag) = (0, 0, 0, 0);
    }

    // Moves the fragments of the rows `keys` out of a source's queue, where none is before them.
    fn fill(&mut self, keys: &[u64], accepted: &mut VecDeque<Accepted>) {
        self.lengths.reserve(keys.len());
        let mut fragments = accepted.iter();
        let mut next = fragments.next();
        let mut span = Span { offset: 0, bytes: 0 };
        let (mut rows, mut pieces) = (0, 0);
        for (row, &key) in keys.iter().enumerate() {
            let mut found = next.filter(|fragment| fragment.key == key);
            if found.is_none() {
                // What is before it are pieces of the row before.
                while let Some(piece) = next.filter(|fragment| fragment.key < key) {
                    self.add_piece(row - 1, piece.bytes);
                    self.extend(&mut span, piece);
                    pieces += 1;
                    next = fragments.next();
                }
                found = next.filter(|fragment| fragment.key == key);
            }
            let Some(fragment) = found else {
                self.mark_missing(row, keys.len());
                continue;
            };
            rows += 1;
            self.lengths.push(fragment.bytes);
            self.extend(&mut span, fragment);
            next = fragments.next();
        }
        while let Some(piece) = next.filter(|fragment| Some(&fragment.key) == keys.last()) {
            self.add_piece(keys.len() - 1, piece.bytes);
            self.extend(&mut span, piece);
            pieces += 1;
            next = fragments.next();
        }
        self.end_span(span);
        (self.rows, self.fragments) = (rows, rows + pieces);
        accepted.drain(..self.fragments as usize);
    }

    // Takes the bytes of the next fragment.
    #[inline]
    fn extend(&mut self, span: &mut Span, fragment: &Accepted) {
        let bytes = u64::from(fragment.bytes);
        self.payload_bytes += bytes;
        self.bad_sender += u64::from(fragment.bad_sender);
        if fragment.offset == span.offset.wrapping_add(span.bytes) {
            span.bytes += bytes;
        } else if bytes > 0 {
            self.end_span(*span);
            *span = Span { offset: fragment.offset, bytes };
        }
    }

    // One more fragment of a row; the matcher sees to it that the sum fits.
    #[inline(never)]
    fn add_piece(&mut self, row: usize, bytes: u32) {
        let piece = |bytes: u32| Piece { row: row as u64, time_ns: 0, bytes: bytes.into() };
        if self.pieces.last().is_none_or(|last| last.row != row as u64) {
            self.pieces.push(piece(self.lengths[row]));
        }
        self.pieces.push(piece(bytes));
        self.lengths[row] += bytes;
    }

    /// Moves the times of the fragments that are there out of their queue. A row's is that of its
    /// first piece.
    fn take_times(&mut self, times: &mut VecDeque<u64>) {
        if self.fragments == 0 {
            return;
        }
        let mut times = times.drain(..self.fragments as usize);
        let is_there = |row: usize| {
            let is_set = |bits: &Vec<u8>| bits[row / 8] & 1 << (row % 8) != 0;
            self.validity.as_ref().is_none_or(is_set)
        };
        let mut pieces = self.pieces.iter_mut().peekable();
        let of_row = |row| {
            let own_ns = if is_there(row) { times.next() } else { None };
            if let Some(first) = pieces.next_if(|piece| piece.row == row as u64) {
                first.time_ns = own_ns.unwrap_or_default();
                while let Some(piece) = pieces.next_if(|piece| piece.row == row as u64) {
                    piece.time_ns = times.next().unwrap_or_default();
                }
            }
            own_ns.unwrap_or_default()
        };
        self.times = (0..self.lengths.len()).map(of_row).collect();
    }

    #[cold]
    fn mark_missing(&mut self, row: usize, row_count: usize) {
        self.lengths.push(0);
        clear_bit(&mut self.validity, row, row_count);
    }

    // Says in which rows a source of these groups is expected. Some rows have named groups.
    fn expect(&mut self, expected_in: u64, named: &[(usize, Option<u64>)], row_count: usize) {
        for &(row, _) in named.iter().filter(|(_, groups)| !row_expects(expected_in, *groups)) {
            clear_bit(&mut self.expected, row, row_count);
        }
    }

    /// Whether it is expected in a row and not there.
    pub fn lacks(&self, row: usize) -> bool {
        let is_set = |bits: &Vec<u8>| bits[row / 8] & 1 << (row % 8) != 0;
        !self.validity.as_ref().is_none_or(is_set) && self.expected.as_ref().is_none_or(is_set)
    }

    // Rows in which it is expected and not there.
    fn absent(&self, row_count: usize) -> u64 {
        match (&self.validity, &self.expected) {
            (Some(validity), Some(expected)) => {
                let bytes = validity.iter().zip(expected);
                bytes.map(|(valid, expected)| u64::from((expected & !valid).count_ones())).sum()
            }
            _ => row_count as u64 - self.rows,
        }
    }

    fn end_span(&mut self, span: Span) {
        if span.bytes > 0 {
            self.spans.push(span);
        }
    }
}

// Clears the bit of a row; without bits all are set.
fn clear_bit(bits: &mut Option<Vec<u8>>, row: usize, row_count: usize) {
    let bits = bits.get_or_insert_with(|| {
        let mut all = vec![0xff; row_count.div_ceil(8)];
        if let Some(last) = all.last_mut().filter(|_| !row_count.is_multiple_of(8)) {
            *last = (1 << (row_count % 8)) - 1;
        }
        all
    });
    bits[row / 8] &= !(1 << (row % 8));
}
