//! A frame's columns on their way to a sink: encoded in parallel by the encode agents, and passed
//! on in the frame's order.
//!
//! Small columns are encoded here, in their turn. A column that there is no time to compress is
//! copied directly from its place to the sink, its only copy.

use std::collections::VecDeque;

use catchment_codec::{Codec, ColumnEncoder};
use catchment_encoder::{
    Ask, Buffers, Column, Done, Encode, EncoderPool, Level, PoolConfig, Stored, Worker,
};

use crate::frame::{ColumnForm, FrameColumn};
use crate::sink::{FrameSink, StoredColumn};

/// Encodes the columns of frames, one frame after the other.
pub struct FrameEncoder<C: Column> {
    pool: Option<EncoderPool<C>>,
    encoder: ColumnEncoder,
    /// The bytes of a small column, raw and as stored.
    raw: Vec<u8>,
    stored: Vec<u8>,
}

/// A frame on its way to a sink.
pub struct FrameUnderWay<C: Column> {
    /// Columns that the sink does not have yet.
    waiting: VecDeque<Waiting<C>>,
    /// How many of these, from the first one on, were given to the agents or need no agent.
    fed: usize,
    ready: Option<Ready<C>>,
}

/// The decisions of a frame's owner while its columns are streamed, and what it learns about them.
pub trait FrameOwner<C: Column> {
    /// How much compression there is time for now.
    fn level(&mut self) -> Level;

    /// Raw bytes of the largest column that is encoded: the memory for encoding grows with the
    /// column, and larger columns are stored as they are.
    fn compressed_bytes_max(&self) -> usize;

    /// The sink has a column. The memory in which it was encoded may be returned to the agents.
    fn streamed(&mut self, column: Streamed<C>) -> Option<Vec<u8>>;
}

/// A column that the sink has taken.
#[derive(Debug)]
pub struct Streamed<C: Column> {
    /// Its description.
    pub form: ColumnForm,
    /// The column, with its raw bytes.
    pub column: C,
    /// The results of inspecting its data while it was encoded.
    pub seen: C::Seen,
    /// Whether it was compressed less than requested.
    pub lowered: bool,
}

/// The progress of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The sink has all columns.
    Columns,
    /// The budget of bytes is spent.
    Budget,
    /// The sink has no room.
    NoRoom,
    /// The agents have the next column.
    Encoding,
    /// The last column passed to the owner could not be made; the owner knows why.
    Failed,
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

/// A column whose stored bytes are known.
struct Ready<C: Column> {
    form: ColumnForm,
    raw_bytes: usize,
    stored: ReadyBytes<C>,
}

enum ReadyBytes<C: Column> {
    /// They are in the encoder's memory.
    Small(C, Codec),
    AsItIs(C, bool),
    Encoded(Done<C>),
}

impl<C: Column> FrameUnderWay<C> {
    /// Begins with these columns.
    pub fn new(columns: Vec<FrameColumn<C>>) -> Self {
        let mut frame = Self { waiting: VecDeque::new(), fed: 0, ready: None };
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
        let pool = pool.map(EncoderPool::new);
        Self { pool, encoder: ColumnEncoder::new(), raw: Vec::new(), stored: Vec::new() }
    }

    /// An agent that encodes columns, if the encoder has agents.
    pub fn agent(&self) -> Option<Encode<C>> {
        self.pool.as_ref().map(EncoderPool::encoder)
    }

    /// As [`FrameEncoder::agent`], with the memory of an earlier agent.
    pub fn agent_with(&self, worker: Worker) -> Option<Encode<C>> {
        self.pool.as_ref().map(|pool| pool.encoder_with(worker))
    }

    /// Continues with these buffers for encoded columns, and returns the ones used so far.
    pub fn exchange_buffers(&mut self, buffers: Buffers) -> Buffers {
        match &mut self.pool {
            Some(pool) => pool.exchange_buffers(buffers),
            None => buffers,
        }
    }

    /// Sets the share of the CPUs that is free, 0 to 1.
    pub fn set_free_cpu_share(&self, share: f32) {
        if let Some(pool) = &self.pool {
            pool.set_free_cpu_share(share);
        }
    }

    /// Passes a frame's columns to the sink, as far as possible now and as the budget of bytes
    /// lasts.
    pub fn advance(
        &mut self,
        frame: &mut FrameUnderWay<C>,
        sink: &mut impl FrameSink,
        owner: &mut impl FrameOwner<C>,
        budget: &mut usize,
    ) -> Progress {
        loop {
            if let Some(ready) = &frame.ready {
                if !self.append(ready, sink, budget) {
                    return if *budget == 0 { Progress::Budget } else { Progress::NoRoom };
                }
                if let Some(ready) = frame.ready.take() {
                    self.streamed(ready, owner);
                }
            }
            self.feed(frame, owner);
            let Some(next) = frame.waiting.front() else { return Progress::Columns };
            let done = match (&next.way, &mut self.pool) {
                (Way::Agents, Some(pool)) => match pool.take() {
                    Some(done) => Some(done),
                    None => return Progress::Encoding,
                },
                _ => None,
            };
            let Some(Waiting { form, ask, way }) = frame.waiting.pop_front() else { continue };
            frame.fed -= 1;
            let (raw_bytes, stored) = match (way, done) {
                (Way::Agents, Some(done)) if matches!(done.stored, Stored::Failed) => {
                    let Done { column, seen, lowered, .. } = done;
                    owner.streamed(Streamed { form, column, seen, lowered });
                    return Progress::Failed;
                }
                (Way::Agents, Some(done)) => (done.column.raw_bytes(), ReadyBytes::Encoded(done)),
                (Way::Small(column), _) => {
                    let codec = self.encode_small(&column, &ask);
                    (column.raw_bytes(), ReadyBytes::Small(column, codec))
                }
                (Way::AsItIs(column, lowered), _) => {
                    (column.raw_bytes(), ReadyBytes::AsItIs(column, lowered))
                }
                _ => unreachable!("the first column's way is decided"),
            };
            frame.ready = Some(Ready { form, raw_bytes, stored });
        }
    }

    /// Decides how columns are encoded, and gives as many to the agents as there is room for.
    fn feed(&mut self, frame: &mut FrameUnderWay<C>, owner: &mut impl FrameOwner<C>) {
        let level = match &self.pool {
            Some(pool) => {
                let level = owner.level();
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
            let too_large = column.raw_bytes() > owner.compressed_bytes_max();
            let level = if too_large { Level::None } else { level };
            let goes_as_it_is = level == Level::None && !column.looks();
            if goes_as_it_is {
                // Except for a column that is too large, this is decided when its turn comes: there
                // may be time again.
                if frame.fed > 0 && !too_large {
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
            if goes_as_it_is && !too_large {
                return;
            }
        }
    }

    /// Encodes a small column into the encoder's memory.
    fn encode_small(&mut self, column: &C, ask: &Ask) -> Codec {
        self.raw.clear();
        let pieces = (0..).map_while(|index| column.piece(index));
        pieces.for_each(|piece| self.raw.extend_from_slice(piece));
        let encoded = self.encoder.encode(ask.fixed(), ask.element, &self.raw);
        let codec = encoded.codec;
        if codec == Codec::None {
            std::mem::swap(&mut self.raw, &mut self.stored);
        } else {
            self.stored.clear();
            self.stored.extend_from_slice(encoded.stored);
        }
        codec
    }

    fn append(&self, ready: &Ready<C>, sink: &mut impl FrameSink, budget: &mut usize) -> bool {
        let &Ready { form, raw_bytes, ref stored } = ready;
        let (codec, checksums, stored_bytes) = match stored {
            ReadyBytes::Small(_, codec) => (*codec, None, self.stored.len()),
            ReadyBytes::AsItIs(..) => (Codec::None, None, raw_bytes),
            ReadyBytes::Encoded(done) => (done.codec, Some(&done.checksums), done.stored_bytes()),
        };
        let piece = |index| match stored {
            ReadyBytes::Small(..) => (index == 0).then_some(&self.stored[..]),
            ReadyBytes::AsItIs(column, _) => column.piece(index),
            ReadyBytes::Encoded(done) => done.stored_piece(index),
        };
        let (raw_bytes, stored_bytes) = (raw_bytes as u64, stored_bytes as u64);
        sink.append(
            &StoredColumn { form, codec, checksums, raw_bytes, stored_bytes, piece: &piece },
            budget,
        )
    }

    /// Returns the remains of a column that the sink has taken to the owner.
    fn streamed(&mut self, ready: Ready<C>, owner: &mut impl FrameOwner<C>) {
        let form = ready.form;
        let (column, seen, lowered) = match ready.stored {
            ReadyBytes::Small(column, _) => (column, C::Seen::default(), false),
            ReadyBytes::AsItIs(column, lowered) => (column, C::Seen::default(), lowered),
            ReadyBytes::Encoded(done) => {
                if let Some(pool) = &mut self.pool {
                    pool.give_back(done.stored);
                }
                (done.column, done.seen, done.lowered)
            }
        };
        let memory = owner.streamed(Streamed { form, column, seen, lowered });
        if let (Some(memory), Some(pool)) = (memory, &mut self.pool) {
            pool.give_back_buffer(memory);
        }
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
