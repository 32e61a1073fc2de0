//! What a storage node is sent on the data connection, message by message: the header of the
//! stream's files, frames, their columns, and the stream's end. docs/spec/storage-link.md.
//!
//! Stored bytes go from where they are to the socket: heads are made here, bodies are slices of
//! columns. A column's checksum is computed on the way, message by message, while its bytes are in
//! the cache, unless it is known.

use std::collections::VecDeque;
use std::io;
use std::iter::Rev;
use std::sync::Arc;
use std::vec::IntoIter;

use catchment_agent::Dial;
use catchment_frame::{BlockDigest, FrameInfo, FrameKind, qualified};
use catchment_wire::storage_link::{Close, Column, Data, End, FRAME_BYTES_MAX, Frame, Open};
use catchment_writer::FrameEncoder;

use crate::column_bytes::ColumnBytes;
use crate::frames::{FrameHead, SharedColumn};
use crate::target::encode_own;
use crate::target_ledger::{FrameTag, TargetLedger};

/// The data connection's number.
pub(crate) const DATA: usize = 1;
/// The longest body: large enough for the system, small enough for the cache.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Slices of a body in one write.
const SLICES_MAX: usize = 60;
/// Beside its columns, what a frame's increments and the growth of incompressible columns take.
const OWN_BYTES: u64 = 1 << 20;
const OWN_BYTES_PER_SOURCE: u64 = 2 << 10;

/// A frame on its way to the node.
pub(crate) struct Outgoing {
    pub(crate) info: FrameInfo,
    /// Its sequence at one of several nodes, where that is not its number.
    pub(crate) item: Option<u64>,
    /// No more columns, and no more stored bytes, come.
    pub(crate) columns_max: u32,
    pub(crate) bytes_max: u64,
    pub(crate) columns: Vec<HeldColumn>,
    /// What it adds to the ledger; none until it has all its columns.
    pub(crate) ledger: Option<Vec<u8>>,
}

/// A column, and whether it counts in the queue.
pub(crate) struct HeldColumn {
    pub(crate) column: SharedColumn,
    pub(crate) is_counted: bool,
}

/// A frame that is held until it is durable.
pub(crate) struct Held {
    /// None of one that was read back from a spill: it counted as durable when it was spilled.
    pub(crate) tag: Option<FrameTag>,
    pub(crate) frame: Outgoing,
}

impl Held {
    /// A frame of which the columns come later.
    pub(crate) fn begin(head: Arc<FrameHead>, ledger: &mut TargetLedger) -> Self {
        let (counts, increment) = (head.counts.clone(), ledger.begin(&head));
        let begun = ledger.begin_positions(&head);
        let frame = Outgoing::begin(&head);
        Self { tag: Some(FrameTag { head, counts, increment, begun }), frame }
    }

    /// All columns are there but for the target's own. Returns these, and what the frame adds to
    /// the ledger.
    pub(crate) fn own(
        &mut self,
        lowered: &[u64],
        encoder: &mut FrameEncoder<ColumnBytes>,
    ) -> (Rev<IntoIter<SharedColumn>>, Vec<u8>) {
        let Some(tag) = &mut self.tag else { unreachable!("a spilled frame has all its columns") };
        for (counts, &bytes) in tag.counts.iter_mut().zip(lowered) {
            counts.lowered += bytes;
        }
        let own = encode_own(encoder, tag);
        (own.into_iter().rev(), ledger_of(tag))
    }
}

/// Frames to be sent, the next ones first or behind others that are sent.
pub(crate) trait Frames {
    fn at(&self, index: usize) -> Option<&Outgoing>;
}

impl Frames for VecDeque<Held> {
    fn at(&self, index: usize) -> Option<&Outgoing> {
        self.get(index).map(|held| &held.frame)
    }
}

impl Frames for VecDeque<Outgoing> {
    fn at(&self, index: usize) -> Option<&Outgoing> {
        self.get(index)
    }
}

impl Outgoing {
    /// One of which the columns come later.
    pub(crate) fn begin(head: &FrameHead) -> Self {
        // Each column of the schema is there once at most.
        let columns_max = head.columns.min(head.schema.columns.len()) as u32;
        let (columns, ledger) = (Vec::new(), None);
        Self {
            info: head.info,
            item: None,
            columns_max,
            bytes_max: bytes_max(head),
            columns,
            ledger,
        }
    }

    /// One above the last number that it takes.
    pub(crate) fn end(&self) -> u64 {
        self.info.numbers().1.saturating_add(1)
    }

    /// One above the last sequence that it takes in the stream's log.
    pub(crate) fn item_end(&self) -> u64 {
        self.item.map_or_else(|| self.end(), |item| item.saturating_add(1))
    }

    /// Its stored bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().map(|one| one.column.done.stored_bytes() as u64).sum()
    }

    fn message(&self, generation: u64) -> Frame {
        let Self { info, item, columns_max, bytes_max, .. } = self;
        let (first, last) = info.numbers();
        Frame {
            log: 0,
            kind: info.kind.number(),
            flags: info.flags,
            sequence: info.sequence,
            generation,
            rows: info.rows,
            time_first_ns: info.time_first_ns,
            time_last_ns: info.time_last_ns,
            key_first: info.key_first,
            key_last: info.key_last,
            first_slice: info.origin.first_slice,
            slice_count: info.origin.slice_count,
            epoch: info.origin.epoch,
            columns_max: *columns_max,
            // The low bits tell whether both sides count alike.
            item: item.unwrap_or(0) as u32,
            numbers: last - first + 1,
            bytes_max: *bytes_max,
        }
    }
}

/// The most stored bytes of a frame, all that it may add included.
pub(crate) fn bytes_max(head: &FrameHead) -> u64 {
    let positions = size_of_val(&*head.positions) as u64;
    let own = OWN_BYTES + OWN_BYTES_PER_SOURCE * head.counts.len() as u64 + positions;
    (head.bytes_max + head.bytes_max / 8 + own).min(FRAME_BYTES_MAX)
}

/// The data connection of a session.
pub(crate) struct Feed {
    /// Whether the connection is there.
    is_open: bool,
    /// Messages that were made.
    number: u32,
    /// Preamble, header and head, and how much of it is sent.
    head: Vec<u8>,
    head_sent: usize,
    body: Body,
    padding: usize,
    /// How much of the header of files is sent.
    header: usize,
    /// The frame whose turn it is, by its place among those held.
    frame: usize,
    step: Step,
    is_closed: bool,
    digest: BlockDigest,
    /// When a message was made last.
    made_ns: u64,
}

/// What comes next of a frame.
enum Step {
    Begin,
    /// So many bytes of the column with that index were sent.
    Column {
        index: usize,
        sent: usize,
    },
}

/// The rest of a message's body.
enum Body {
    None,
    Header {
        begin: usize,
        end: usize,
    },
    /// Of a column of the frame whose turn it is: the piece, the offset in it, and the bytes left.
    Column {
        index: usize,
        piece: usize,
        at: usize,
        left: usize,
    },
    /// Of the ledger's records of the frame before.
    Ledger {
        at: usize,
    },
}

/// What is sent, beside the state of the feed.
pub(crate) struct Stream<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) frames: &'a dyn Frames,
    /// The number of the stream's end, once all frames are there.
    pub(crate) close: Option<u64>,
    pub(crate) generation: u64,
    pub(crate) alive_ns: u64,
}

impl Stream<'_> {
    /// A column that is being sent.
    fn column(&self, frame: usize, index: usize) -> &SharedColumn {
        &self.frames.at(frame).expect("frames stay until they are sent").columns[index].column
    }
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            is_open: false,
            number: 0,
            head: Vec::new(),
            head_sent: 0,
            body: Body::None,
            padding: 0,
            header: 0,
            frame: 0,
            step: Step::Begin,
            is_closed: false,
            digest: BlockDigest::default(),
            made_ns: 0,
        }
    }

    /// The connection is there: `attach` are its first bytes. It goes on with that frame.
    pub(crate) fn open(&mut self, attach: Vec<u8>, frame: usize, now_ns: u64) {
        let (is_open, number, head, made_ns) = (true, 1, attach, now_ns);
        *self = Self { is_open, number, head, frame, made_ns, ..Self::new() };
    }

    /// The connection is gone.
    pub(crate) fn close(&mut self) {
        *self = Self::new();
    }

    /// Whether a part of the frame behind those that are sent is under way.
    pub(crate) fn is_within_frame(&self) -> bool {
        matches!(self.body, Body::Ledger { .. }) || matches!(self.step, Step::Column { .. })
    }

    /// How many of the oldest frames are sent, or need not be.
    pub(crate) fn sent_frames(&self) -> usize {
        match self.body {
            Body::Ledger { .. } => self.frame - 1,
            _ => self.frame,
        }
    }

    /// The next frame is the one of that index: none is under way.
    pub(crate) fn go_to(&mut self, frame: usize) {
        self.frame = frame;
    }

    /// So many of the oldest frames, which are sent, are held no longer.
    pub(crate) fn released(&mut self, frames: usize) {
        self.frame = self.frame.saturating_sub(frames);
    }

    /// When a sign of life is due.
    pub(crate) fn wake_at_ns(&self, alive_ns: u64) -> u64 {
        if self.is_open { self.made_ns + alive_ns } else { u64::MAX }
    }

    /// Sends what there is room for, within the budget of bytes. Returns how many bytes went.
    ///
    /// # Errors
    /// The connection's end.
    pub(crate) fn send(
        &mut self,
        dial: &mut dyn Dial,
        stream: &Stream<'_>,
        now_ns: u64,
        budget: &mut usize,
    ) -> io::Result<usize> {
        let mut all = 0;
        while self.is_open && *budget > 0 {
            if self.is_sent() && !self.compose(stream, now_ns) {
                break;
            }
            let sent = self.write(dial, stream)?;
            if sent == 0 {
                break;
            }
            all += sent;
            *budget = budget.saturating_sub(sent);
        }
        Ok(all)
    }

    fn is_sent(&self) -> bool {
        self.head_sent == self.head.len() && matches!(self.body, Body::None) && self.padding == 0
    }

    fn write(&mut self, dial: &mut dyn Dial, stream: &Stream<'_>) -> io::Result<usize> {
        let mut slices: [&[u8]; SLICES_MAX + 2] = [&[]; SLICES_MAX + 2];
        slices[0] = &self.head[self.head_sent..];
        let (mut count, mut is_all) = (1, true);
        match self.body {
            Body::None => {}
            Body::Header { begin, end } => {
                slices[1] = &stream.header[begin..end];
                count = 2;
            }
            Body::Ledger { at } => {
                let frame = stream.frames.at(self.frame - 1);
                let records = frame.and_then(|frame| frame.ledger.as_deref());
                slices[1] = &records.unwrap_or_default()[at..];
                count = 2;
            }
            Body::Column { index, mut piece, mut at, mut left } => {
                let done = &stream.column(self.frame, index).done;
                while left > 0 && count <= SLICES_MAX {
                    let rest = &done.stored_piece(piece).unwrap_or_default()[at..];
                    slices[count] = &rest[..rest.len().min(left)];
                    left -= slices[count].len();
                    (piece, at, count) = (piece + 1, 0, count + 1);
                }
                is_all = left == 0;
            }
        }
        if is_all && self.padding > 0 {
            slices[count] = &[0; 8][..self.padding];
            count += 1;
        }
        let sent = dial.write(DATA, &slices[..count])?;
        self.was_sent(sent, stream);
        Ok(sent)
    }

    /// Takes note of what the connection took.
    fn was_sent(&mut self, mut sent: usize, stream: &Stream<'_>) {
        let of_head = sent.min(self.head.len() - self.head_sent);
        self.head_sent += of_head;
        sent -= of_head;
        match &mut self.body {
            Body::None => {}
            Body::Header { begin, end } => {
                let now = sent.min(*end - *begin);
                *begin += now;
                sent -= now;
                if begin == end {
                    self.body = Body::None;
                }
            }
            Body::Ledger { at } => {
                let frame = stream.frames.at(self.frame - 1);
                let records = frame.and_then(|frame| frame.ledger.as_ref());
                let bytes = records.map_or(0, Vec::len);
                let now = sent.min(bytes - *at);
                *at += now;
                sent -= now;
                if *at == bytes {
                    self.body = Body::None;
                }
            }
            Body::Column { index, piece, at, left } => {
                let done = &stream.column(self.frame, *index).done;
                while sent > 0 && *left > 0 {
                    let rest = done.stored_piece(*piece).unwrap_or_default().len() - *at;
                    let now = sent.min(rest).min(*left);
                    (*at, *left, sent) = (*at + now, *left - now, sent - now);
                    if now == rest {
                        (*piece, *at) = (*piece + 1, 0);
                    }
                }
                if *left == 0 {
                    self.body = Body::None;
                }
            }
        }
        self.padding -= sent;
    }

    /// Makes the next message, if there is one.
    fn compose(&mut self, stream: &Stream<'_>, now_ns: u64) -> bool {
        let made = if self.header < stream.header.len() {
            self.compose_header(stream.header);
            true
        } else if let Some(frame) = stream.frames.at(self.frame) {
            self.compose_frame(frame, stream.generation)
        } else if let Some(sequence) = stream.close.filter(|_| !self.is_closed) {
            self.is_closed = true;
            self.put(&Data::Close(Close { log: 0, sequence }), 0);
            true
        } else {
            false
        };
        if !made && now_ns.saturating_sub(self.made_ns) < stream.alive_ns {
            return false;
        }
        if !made {
            self.put(&Data::Alive, 0);
        }
        self.made_ns = now_ns;
        true
    }

    fn compose_header(&mut self, header: &[u8]) {
        let begin = self.header;
        let end = header.len().min(begin + BODY_BYTES_MAX);
        let open = Open { log: 0, header_bytes: header.len() as u32, offset: begin as u32 };
        self.put(&Data::Open(open, &[]), end - begin);
        (self.header, self.body) = (end, Body::Header { begin, end });
    }

    fn compose_frame(&mut self, frame: &Outgoing, generation: u64) -> bool {
        let Step::Column { index, sent } = self.step else {
            self.put(&Data::Frame(frame.message(generation)), 0);
            self.step = Step::Column { index: 0, sent: 0 };
            return true;
        };
        if let Some(one) = frame.columns.get(index) {
            self.compose_column(frame.info.sequence, index, &one.column, sent);
            return true;
        }
        let Some(ledger) = &frame.ledger else { return false };
        let columns = frame.columns.len() as u32;
        let end = End { log: 0, columns, sequence: frame.info.sequence };
        self.put(&Data::End(end, &[]), ledger.len());
        self.body = if ledger.is_empty() { Body::None } else { Body::Ledger { at: 0 } };
        (self.frame, self.step) = (self.frame + 1, Step::Begin);
        true
    }

    /// A column's next bytes, with the checksum of all if these are the last.
    fn compose_column(&mut self, sequence: u64, index: usize, column: &SharedColumn, sent: usize) {
        let (form, done) = (&column.form, &column.done);
        let stored_bytes = done.stored_bytes();
        let left = (stored_bytes - sent).min(BODY_BYTES_MAX);
        if sent == 0 {
            self.digest = BlockDigest::default();
        }
        let (piece, at) = place_of(column, sent);
        let is_known = done.checksums.get().is_some();
        if !is_known {
            self.digest_part(column, (piece, at), left);
        }
        let is_last = sent + left == stored_bytes;
        // Another target may have set them since the column was begun here.
        let crc32c = match is_last {
            true => done.checksums.get_or_init(|| self.digest.finish()).crc32c(),
            false => 0,
        };
        let codec = if form.is_qualified { qualified(done.codec) } else { done.codec };
        let of_column = Column {
            log: 0,
            id: form.id,
            sequence,
            offset: sent as u64,
            stored_bytes: stored_bytes as u64,
            raw_bytes: column.raw_bytes,
            rows: form.rows,
            first_sample: form.first_sample,
            start_ns: form.start_ns,
            crc32c,
            codec: codec.number(),
            dtype: form.dtype.number(),
        };
        self.put(&Data::Column(of_column, &[]), left);
        self.body = match left {
            0 => Body::None,
            left => Body::Column { index, piece, at, left },
        };
        self.step = match is_last {
            true => Step::Column { index: index + 1, sent: 0 },
            false => Step::Column { index, sent: sent + left },
        };
    }

    fn digest_part(
        &mut self,
        column: &SharedColumn,
        (mut piece, mut at): (usize, usize),
        mut left: usize,
    ) {
        while left > 0 {
            let Some(bytes) = column.done.stored_piece(piece) else { return };
            let now = &bytes[at..bytes.len().min(at + left)];
            self.digest.update(now);
            left -= now.len();
            (piece, at) = (piece + 1, 0);
        }
    }

    fn put(&mut self, data: &Data<'_>, body_bytes: usize) {
        self.head.resize(catchment_wire::storage_link::HEAD_BYTES_MAX, 0);
        let bytes = data.encode_head(self.number, body_bytes, &mut self.head);
        self.head.truncate(bytes);
        (self.head_sent, self.number) = (0, self.number.wrapping_add(1));
        self.padding = body_bytes.next_multiple_of(8) - body_bytes;
    }
}

/// The piece of a column in which an offset of its stored bytes is, and the offset in that.
fn place_of(column: &SharedColumn, mut offset: usize) -> (usize, usize) {
    let mut piece = 0;
    while offset > 0 {
        let bytes = column.done.stored_piece(piece).map_or(0, <[u8]>::len);
        if offset < bytes || bytes == 0 {
            break;
        }
        (piece, offset) = (piece + 1, offset - bytes);
    }
    (piece, offset)
}

/// What a frame adds to the ledger of the files that have it.
fn ledger_of(tag: &FrameTag) -> Vec<u8> {
    let mut sum = tag.increment.clone();
    // One that stands for others has none of their fragments.
    if tag.head.info.kind != FrameKind::SKIPPED {
        for (sum, counts) in sum.sources.iter_mut().zip(&tag.counts) {
            let own = counts.of_recorded().into_iter().chain(counts.of_frame());
            own.for_each(|(entry, count)| sum[entry] += count);
        }
    }
    let mut records = Vec::new();
    catchment_frame::encode_ledger_total(&sum, &mut records);
    records
}
