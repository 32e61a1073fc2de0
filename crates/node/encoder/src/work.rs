//! Encoding one column.

use std::sync::OnceLock;

use catchment_codec::{Codec, Coding, ColumnEncoder, Encoded};
use catchment_frame::{BlockChecksums, BlockDigest};

use crate::buffers::{Buffer, Buffers};
use crate::large::{Large, Pieces};
use crate::rule::Ask;

/// Raw bytes that are examined and gathered while they are in the cache.
const PART_BYTES: usize = 64 << 10;
/// A column of so many pieces is large.
const PIECES_MIN: usize = 4;

/// The raw bytes of one column. Several agents read those of a large one at the same time.
pub trait Column: Send + Sync {
    /// The result of [`Column::look`].
    type Seen: Default + Send + Sync + std::fmt::Debug;

    /// Prepares the raw bytes, if they are only made when needed; `buffer` supplies memory for
    /// them, with arbitrary contents. It is called before all other methods. Returns false if they
    /// cannot be made: then nothing is encoded, and the column keeps the reason.
    fn prepare(&mut self, _buffer: &mut dyn FnMut(usize) -> Buffer) -> bool {
        true
    }

    /// The stored form of a column that is already encoded; its raw bytes are then not requested.
    fn stored(&self) -> Option<StoredBytes<'_>> {
        None
    }

    /// The number of raw bytes.
    fn raw_bytes(&self) -> usize;

    /// The raw bytes, piece by piece: together exactly [`Column::raw_bytes`].
    fn piece(&self, index: usize) -> Option<&[u8]>;

    /// Whether [`Column::look`] needs the bytes.
    fn looks(&self) -> bool {
        false
    }

    /// Receives every raw byte once, in order, in parts of at most 64 KiB, which split a
    /// [`Column::piece`] only at multiples of 16 bytes.
    fn look(&self, _seen: &mut Self::Seen, _bytes: &[u8]) {}
}

/// The bytes of a column that was encoded before.
#[derive(Clone, Copy, Debug)]
pub struct StoredBytes<'a> {
    /// Its codec.
    pub codec: Codec,
    /// Bytes as decoded.
    pub raw_bytes: u64,
    /// The stored bytes.
    pub bytes: &'a [u8],
    /// Their checksums, if they are not to be computed: those of a column that is damaged, so that
    /// the damage is found in a copy, too.
    pub checksums: Option<&'a BlockChecksums>,
}

impl Column for Vec<u8> {
    type Seen = ();

    fn raw_bytes(&self) -> usize {
        self.len()
    }

    fn piece(&self, index: usize) -> Option<&[u8]> {
        (index == 0).then_some(self)
    }
}

/// An encoded column.
#[derive(Debug)]
pub struct Done<C: Column> {
    /// The submitted column.
    pub column: C,
    /// The result of examining its own bytes.
    pub seen: C::Seen,
    /// The codec of the stored bytes.
    pub codec: Codec,
    /// The coding that was tried: if the data do not compress, the codec is none nevertheless.
    pub coding: Coding,
    /// Whether that coding was less than the rule requested.
    pub lowered: bool,
    /// Checksums of the stored bytes, once they are known.
    pub checksums: OnceLock<BlockChecksums>,
    /// The stored bytes.
    pub stored: Stored,
}

/// Where a column's stored bytes are.
#[derive(Debug)]
pub enum Stored {
    /// In the column: its raw bytes, or its existing stored form.
    Column,
    /// In a buffer of the pool.
    Encoded(Buffer),
    /// In several buffers: a large column.
    Pieces(Pieces),
    /// Nowhere: the column could not be made.
    Failed,
}

impl<C: Column> Done<C> {
    /// A column that is stored as it is, and was not examined.
    pub fn as_it_is(column: C) -> Self {
        Self {
            column,
            seen: C::Seen::default(),
            codec: Codec::None,
            coding: Coding::None,
            lowered: false,
            checksums: OnceLock::new(),
            stored: Stored::Column,
        }
    }

    /// The number of stored bytes.
    pub fn stored_bytes(&self) -> usize {
        match &self.stored {
            Stored::Column => match self.column.stored() {
                Some(stored) => stored.bytes.len(),
                None => self.column.raw_bytes(),
            },
            Stored::Encoded(bytes) => bytes.len(),
            Stored::Pieces(pieces) => pieces.bytes(),
            Stored::Failed => 0,
        }
    }

    /// Whether the stored bytes are in buffers of the pool, so that the column's are not needed.
    pub fn is_encoded(&self) -> bool {
        matches!(self.stored, Stored::Encoded(_) | Stored::Pieces(_))
    }

    /// The memory that the stored bytes take.
    pub fn memory_bytes(&self) -> usize {
        match &self.stored {
            Stored::Encoded(buffer) => buffer.capacity(),
            Stored::Pieces(pieces) => pieces.memory_bytes(),
            Stored::Column | Stored::Failed => self.stored_bytes(),
        }
    }

    /// The stored bytes, piece by piece.
    pub fn stored_piece(&self, index: usize) -> Option<&[u8]> {
        match &self.stored {
            Stored::Column => match self.column.stored() {
                Some(stored) => (index == 0).then_some(stored.bytes),
                None => self.column.piece(index),
            },
            Stored::Encoded(bytes) => (index == 0).then_some(bytes),
            Stored::Pieces(pieces) => pieces.get(index),
            Stored::Failed => None,
        }
    }
}

/// One thread's working memory for encoding, worth keeping from one pool to the next.
pub struct Worker {
    pub(crate) encoder: ColumnEncoder,
    pub(crate) gathered: Vec<u8>,
}

/// What agents of a pool have in common.
pub(crate) struct Means<'a> {
    /// The share of the CPUs that is free, 0 to 1.
    pub(crate) free_cpu_share: f32,
    /// When it returns false, columns are stored as they are.
    pub(crate) go_on: &'a dyn Fn() -> bool,
    /// Memory for results.
    pub(crate) buffers: &'a Buffers,
    /// Raw bytes of a large column that are encoded at a time.
    pub(crate) piece_bytes: usize,
}

/// A column that an agent has taken.
pub(crate) enum Taken<C: Column> {
    Done(Done<C>),
    /// Its pieces are to be encoded.
    Large(Large<C>),
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker without memory yet.
    pub fn new() -> Self {
        Self { encoder: ColumnEncoder::new(), gathered: Vec::new() }
    }

    /// Encodes a column, or prepares a large one.
    pub(crate) fn encode<C: Column>(
        &mut self,
        mut column: C,
        ask: &Ask,
        means: &Means<'_>,
    ) -> Taken<C> {
        let &Means { free_cpu_share, go_on, buffers, piece_bytes } = means;
        let mut seen = C::Seen::default();
        if !column.prepare(&mut |bytes| buffers.take(bytes)) {
            return Taken::Done(Done { stored: Stored::Failed, ..Done::as_it_is(column) });
        }
        if let Some(StoredBytes { codec, bytes, checksums, .. }) = column.stored() {
            let checksums = checksums.cloned().unwrap_or_else(|| BlockChecksums::of(bytes)).into();
            return Taken::Done(Done { codec, checksums, ..Done::as_it_is(column) });
        }
        if ask.is_raw() {
            let lowered = ask.coding(&mut self.encoder, &[], free_cpu_share).1;
            let checksums = look_only(&column, &mut seen).into();
            return Taken::Done(Done { seen, lowered, checksums, ..Done::as_it_is(column) });
        }
        if column.raw_bytes() / PIECES_MIN >= piece_bytes {
            return self.begin(column, ask, means);
        }
        self.gather(&column, &mut seen);
        let raw = whole(&column).unwrap_or(&self.gathered);
        let (mut coding, mut lowered) = ask.coding(&mut self.encoder, raw, free_cpu_share);
        let encoded = self.encoder.encode_while(go_on, coding, ask.element, raw);
        let encoded = encoded.unwrap_or_else(|| {
            (coding, lowered) = (Coding::None, true);
            Encoded { codec: Codec::None, stored: raw }
        });
        let (codec, checksums) = (encoded.codec, BlockChecksums::of(encoded.stored).into());
        let stored = if codec == Codec::None {
            Stored::Column
        } else {
            let mut bytes = buffers.take(encoded.stored.len());
            bytes.clear();
            bytes.extend_from_slice(encoded.stored);
            Stored::Encoded(bytes)
        };
        Taken::Done(Done { column, seen, codec, coding, lowered, checksums, stored })
    }

    /// Shows the column its bytes, and joins them into one piece unless they are.
    fn gather<C: Column>(&mut self, column: &C, seen: &mut C::Seen) {
        let (looks, is_whole) = (column.looks(), whole(column).is_some());
        self.gathered.clear();
        if !looks && is_whole {
            return;
        }
        if !is_whole {
            self.gathered.reserve(column.raw_bytes());
        }
        for part in parts(column) {
            if looks {
                column.look(seen, part);
            }
            if !is_whole {
                self.gathered.extend_from_slice(part);
            }
        }
    }
}

fn look_only<C: Column>(column: &C, seen: &mut C::Seen) -> BlockChecksums {
    let mut digest = BlockDigest::default();
    let looks = column.looks();
    for part in parts(column) {
        if looks {
            column.look(seen, part);
        }
        digest.update(part);
    }
    digest.finish()
}

/// The raw bytes, if they are one piece.
fn whole<C: Column>(column: &C) -> Option<&[u8]> {
    column.piece(0).filter(|_| column.piece(1).is_none())
}

/// The raw bytes in parts that fit into the cache.
pub(crate) fn parts<C: Column>(column: &C) -> impl Iterator<Item = &[u8]> {
    let pieces = (0..).map_while(|index| column.piece(index));
    pieces.flat_map(|piece| piece.chunks(PART_BYTES))
}
