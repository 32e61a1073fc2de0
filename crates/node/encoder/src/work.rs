//! Encoding one column.

use std::sync::OnceLock;

use catchment_codec::{Codec, Coding, ColumnEncoder, Encoded};
use catchment_frame::{BlockChecksums, BlockDigest};

use crate::buffers::Buffer;
use crate::rule::Ask;

/// Raw bytes that are examined and gathered while they are in the cache.
const PART_BYTES: usize = 64 << 10;

/// The raw bytes of one column.
pub trait Column: Send {
    /// The result of [`Column::look`].
    type Seen: Default + Send + std::fmt::Debug;

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
            Stored::Failed => 0,
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
            Stored::Failed => None,
        }
    }
}

/// One thread's working memory for encoding, worth keeping from one pool to the next.
pub struct Worker {
    encoder: ColumnEncoder,
    gathered: Vec<u8>,
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

    /// Encodes a column. `buffer` supplies memory for the result. When `go_on` returns false, the
    /// column is stored as it is.
    pub(crate) fn encode<C: Column>(
        &mut self,
        mut column: C,
        ask: &Ask,
        free_cpu_share: f32,
        go_on: &dyn Fn() -> bool,
        mut buffer: impl FnMut(usize) -> Buffer,
    ) -> Done<C> {
        let mut seen = C::Seen::default();
        if !column.prepare(&mut buffer) {
            return Done { stored: Stored::Failed, ..Done::as_it_is(column) };
        }
        if let Some(StoredBytes { codec, bytes, .. }) = column.stored() {
            let checksums = BlockChecksums::of(bytes).into();
            return Done { codec, checksums, ..Done::as_it_is(column) };
        }
        if ask.is_raw() {
            let lowered = ask.coding(&mut self.encoder, &[], free_cpu_share).1;
            let checksums = look_only(&column, &mut seen).into();
            return Done { seen, lowered, checksums, ..Done::as_it_is(column) };
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
            let mut bytes = buffer(encoded.stored.len());
            bytes.clear();
            bytes.extend_from_slice(encoded.stored);
            Stored::Encoded(bytes)
        };
        Done { column, seen, codec, coding, lowered, checksums, stored }
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
fn parts<C: Column>(column: &C) -> impl Iterator<Item = &[u8]> {
    let pieces = (0..).map_while(|index| column.piece(index));
    pieces.flat_map(|piece| piece.chunks(PART_BYTES))
}
