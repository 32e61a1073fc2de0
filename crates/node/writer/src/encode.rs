//! A frame's columns, encoded: in parallel by the encode agents, and out in the frame's order.
//!
//! Small columns are encoded here, in their turn. A column that there is no time to compress comes
//! out as it is, and is copied directly from where it arrived.

use std::collections::VecDeque;

use catchment_codec::{Codec, ColumnEncoder};
use catchment_encoder::{
    Ask, Buffers, Column, Done, Encode, EncoderPool, Level, PoolConfig, Stored, Worker,
};

use crate::frame::{ColumnForm, FrameColumn};
use crate::stored::StoredColumn;

/// Encodes the columns of frames, one frame after the other.
pub struct FrameEncoder<C: Column> {
    pool: Option<EncoderPool<C>>,
    /// For small columns, and the raw bytes of one.
    encoder: ColumnEncoder,
    raw: Vec<u8>,
    /// Where the stored bytes of small columns are.
    buffers: Buffers,
}

/// A frame whose columns are being encoded: those that have not come out yet, in order.
pub struct FrameUnderWay<C: Column> {
    waiting: VecDeque<Waiting<C>>,
    /// How many of these, from the first one on, were given to the agents or need no agent.
    fed: usize,
}

/// A column of a frame, ready to be stored. It is encoded once, however often it is stored.
#[derive(Debug)]
pub struct EncodedColumn<C: Column> {
    /// Its description.
    pub form: ColumnForm,
    /// Bytes as decoded.
    pub raw_bytes: u64,
    /// The column, and its stored bytes.
    pub done: Done<C>,
}

impl<C: Column> EncodedColumn<C> {
    /// Passes the column on as it is stored.
    pub fn with_stored<T>(&self, take: impl FnOnce(&StoredColumn<'_>) -> T) -> T {
        let &Self { form, raw_bytes, ref done } = self;
        take(&StoredColumn {
            form,
            codec: done.codec,
            checksums: &done.checksums,
            raw_bytes,
            stored_bytes: done.stored_bytes() as u64,
            piece: &|index| done.stored_piece(index),
        })
    }
}

/// What comes next of a frame.
#[derive(Debug)]
pub enum Next<C: Column> {
    /// A column.
    Column(EncodedColumn<C>),
    /// The agents have the next column, and wake the owner.
    Encoding,
    /// A column that could not be made; it knows why.
    Failed(C),
    /// Nothing: all columns have come out.
    End,
}

struct Waiting<C> {
    form: ColumnForm,
    ask: Ask,
    way: Way<C>,
}

enum Way<C> {
    /// Not decided yet.
    Undecided(C),
    /// Encoded here.
    Small(C),
    /// Stored as it is; whether that is less than requested.
    AsItIs(C, bool),
    /// Given to the agents.
    Agents,
}

impl<C: Column> FrameUnderWay<C> {
    /// Begins with these columns.
    pub fn new(columns: Vec<FrameColumn<C>>) -> Self {
        let mut frame = Self { waiting: VecDeque::new(), fed: 0 };
        columns.into_iter().for_each(|column| frame.push(column));
        frame
    }

    /// Adds a last column.
    pub fn push(&mut self, column: FrameColumn<C>) {
        let FrameColumn { form, ask, is_small, bytes } = column;
        let way = if is_small { Way::Small(bytes) } else { Way::Undecided(bytes) };
        self.waiting.push_back(Waiting { form, ask, way });
    }
}

impl<C: Column> FrameEncoder<C> {
    /// An encoder with a pool of agents, or one that compresses small columns only.
    pub fn new(pool: Option<PoolConfig>) -> Self {
        let buffers = pool.as_ref().map(|pool| pool.buffers.clone()).unwrap_or_default();
        let pool = pool.map(EncoderPool::new);
        Self { pool, encoder: ColumnEncoder::new(), raw: Vec::new(), buffers }
    }

    /// An agent that encodes columns, if the encoder has agents.
    pub fn agent(&self) -> Option<Encode<C>> {
        self.pool.as_ref().map(EncoderPool::encoder)
    }

    /// As [`FrameEncoder::agent`], with the memory of an earlier agent.
    pub fn agent_with(&self, worker: Worker) -> Option<Encode<C>> {
        self.pool.as_ref().map(|pool| pool.encoder_with(worker))
    }

    /// Sets the share of the CPUs that is free, 0 to 1.
    pub fn set_free_cpu_share(&self, share: f32) {
        if let Some(pool) = &self.pool {
            pool.set_free_cpu_share(share);
        }
    }

    /// The next column of a frame, once it is encoded. `level` is how much compression there is
    /// time for.
    pub fn next(&mut self, frame: &mut FrameUnderWay<C>, level: Level) -> Next<C> {
        self.feed(frame, level);
        let Some(next) = frame.waiting.front() else { return Next::End };
        let encoded = match (&next.way, &mut self.pool) {
            (Way::Agents, Some(pool)) => match pool.take() {
                Some(done) => Some(done),
                None => return Next::Encoding,
            },
            _ => None,
        };
        let Some(Waiting { form, ask, way }) = frame.waiting.pop_front() else {
            unreachable!("there is a first column")
        };
        frame.fed -= 1;
        let done = match (way, encoded) {
            (Way::Agents, Some(Done { column, stored: Stored::Failed, .. })) => {
                return Next::Failed(column);
            }
            (Way::Agents, Some(done)) => done,
            (Way::Small(column), _) => self.encode_small(column, &ask),
            (Way::AsItIs(column, lowered), _) => Done { lowered, ..Done::as_it_is(column) },
            _ => unreachable!("the first column's way is decided"),
        };
        let raw_bytes = done.column.raw_bytes() as u64;
        Next::Column(EncodedColumn { form, raw_bytes, done })
    }

    /// Decides how columns are encoded, and gives as many to the agents as there is room for.
    fn feed(&mut self, frame: &mut FrameUnderWay<C>, level: Level) {
        let level = match &self.pool {
            Some(pool) => {
                // Also for columns that the agents have not begun.
                pool.set_level(level);
                level
            }
            None => Level::None,
        };
        while let Some(waiting) = frame.waiting.get_mut(frame.fed) {
            let Way::Undecided(column) = &waiting.way else {
                frame.fed += 1;
                continue;
            };
            let asked = waiting.ask.compresses();
            let goes_as_it_is = level == Level::None && !column.looks();
            if goes_as_it_is {
                // This is decided when the column's turn comes: there may be time again.
                if frame.fed > 0 {
                    return;
                }
            } else if self.pool.as_ref().is_some_and(|pool| !pool.has_room(column.raw_bytes())) {
                return;
            }
            let Way::Undecided(column) = std::mem::replace(&mut waiting.way, Way::Agents) else {
                unreachable!("just seen")
            };
            match &mut self.pool {
                Some(pool) if !goes_as_it_is => {
                    pool.put(column, Ask { level, ..waiting.ask.clone() });
                }
                pool => waiting.way = Way::AsItIs(column, pool.is_some() && asked),
            }
            frame.fed += 1;
            if goes_as_it_is {
                return;
            }
        }
    }

    /// Encodes a small column.
    fn encode_small(&mut self, column: C, ask: &Ask) -> Done<C> {
        self.raw.clear();
        let pieces = (0..).map_while(|index| column.piece(index));
        pieces.for_each(|piece| self.raw.extend_from_slice(piece));
        let coding = ask.fixed();
        let encoded = self.encoder.encode(coding, ask.element, &self.raw);
        if encoded.codec == Codec::None {
            return Done { coding, ..Done::as_it_is(column) };
        }
        let mut bytes = self.buffers.take(encoded.stored.len());
        bytes.clear();
        bytes.extend_from_slice(encoded.stored);
        let (codec, stored) = (encoded.codec, Stored::Encoded(bytes));
        Done { codec, coding, stored, ..Done::as_it_is(column) }
    }
}

impl<C: Column> std::fmt::Debug for FrameEncoder<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameEncoder").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl<C: Column> std::fmt::Debug for FrameUnderWay<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameUnderWay")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
