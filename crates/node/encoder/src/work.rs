//! Encoding one column.

use catchment_codec::{Codec, Coding, ColumnEncoder, Encoded};
use catchment_frame::{BlockChecksums, BlockDigest};

use crate::rule::Ask;

/// Raw bytes that are looked at and gathered while they are in the cache.
const PART_BYTES: usize = 64 << 10;

/// The raw bytes of one column.
pub trait Column: Send {
    /// What [`Column::look`] finds.
    type Seen: Default + Send;

    /// Gets the raw bytes ready, where they are made only when they are needed; `buffer` gives
    /// memory for them, in which anything may stand. Nothing else is called before. False where
    /// they cannot be made: then nothing is encoded, and the column knows why.
    fn prepare(&mut self, _buffer: &mut dyn FnMut(usize) -> Vec<u8>) -> bool {
        true
    }

    /// The column as it is stored, where it is encoded already; its raw bytes are not asked for.
    fn stored(&self) -> Option<StoredBytes<'_>> {
        None
    }

    /// How many raw bytes there are.
    fn raw_bytes(&self) -> usize;

    /// The raw bytes, piece by piece: together exactly [`Column::raw_bytes`].
    fn piece(&self, index: usize) -> Option<&[u8]>;

    /// Whether [`Column::look`] wants to see the bytes.
    fn looks(&self) -> bool {
        false
    }

    /// Sees every raw byte once, in order, in parts of at most 64 KiB, which divide a
    /// [`Column::piece`] at multiples of 16 bytes only.
    fn look(&self, _seen: &mut Self::Seen, _bytes: &[u8]) {}
}

/// The bytes of a column that was encoded before.
#[derive(Clone, Copy, Debug)]
pub struct StoredBytes<'a> {
    /// How.
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

/// A column that was encoded.
#[derive(Debug)]
pub struct Done<C: Column> {
    /// The column, as it came.
    pub column: C,
    /// What it saw of itself.
    pub seen: C::Seen,
    /// The codec of the stored bytes.
    pub codec: Codec,
    /// The coding that was tried: where the data do not compress, the codec is none all the same.
    pub coding: Coding,
    /// Whether that coding was less than the rule asked for.
    pub lowered: bool,
    /// Checksums of the stored bytes.
    pub checksums: BlockChecksums,
    /// The stored bytes.
    pub stored: Stored,
}

/// Where a column's stored bytes are.
#[derive(Debug)]
pub enum Stored {
    /// They are the column's own: its raw bytes, or what it was stored as before.
    Column,
    /// In a buffer of the pool's.
    Encoded(Vec<u8>),
    /// Nowhere: the column could not be made.
    Failed,
}

impl<C: Column> Done<C> {
    /// How many bytes are stored.
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

/// What one thread encodes with: memory that is worth keeping from one pool to the next.
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

    /// Encodes a column. `buffer` gives memory for the result. When `go_on` returns false, the
    /// column is stored as it is.
    pub(crate) fn encode<C: Column>(
        &mut self,
        mut column: C,
        ask: &Ask,
        free_cpu_share: f32,
        go_on: &dyn Fn() -> bool,
        mut buffer: impl FnMut(usize) -> Vec<u8>,
    ) -> Done<C> {
        let mut seen = C::Seen::default();
        if !column.prepare(&mut buffer) {
            let (codec, coding, checksums) = (Codec::None, Coding::None, BlockChecksums::default());
            let (lowered, stored) = (false, Stored::Failed);
            return Done { column, seen, codec, coding, lowered, checksums, stored };
        }
        if let Some(StoredBytes { codec, bytes, .. }) = column.stored() {
            let checksums = BlockChecksums::of(bytes);
            let (coding, lowered, stored) = (Coding::None, false, Stored::Column);
            return Done { column, seen, codec, coding, lowered, checksums, stored };
        }
        if ask.is_raw() {
            let lowered = ask.coding(&mut self.encoder, &[], free_cpu_share).1;
            let checksums = look_only(&column, &mut seen);
            let (codec, coding, stored) = (Codec::None, Coding::None, Stored::Column);
            return Done { column, seen, codec, coding, lowered, checksums, stored };
        }
        self.gather(&column, &mut seen);
        let raw = whole(&column).unwrap_or(&self.gathered);
        let (mut coding, mut lowered) = ask.coding(&mut self.encoder, raw, free_cpu_share);
        let encoded = self.encoder.encode_while(go_on, coding, ask.element, raw);
        let encoded = encoded.unwrap_or_else(|| {
            (coding, lowered) = (Coding::None, true);
            Encoded { codec: Codec::None, stored: raw }
        });
        let (codec, checksums) = (encoded.codec, BlockChecksums::of(encoded.stored));
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

    /// Shows the column its bytes, and brings them into one piece unless they are.
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

/// The raw bytes, where they are one piece.
fn whole<C: Column>(column: &C) -> Option<&[u8]> {
    column.piece(0).filter(|_| column.piece(1).is_none())
}

/// The raw bytes in parts that stay in the cache.
fn parts<C: Column>(column: &C) -> impl Iterator<Item = &[u8]> {
    let pieces = (0..).map_while(|index| column.piece(index));
    pieces.flat_map(|piece| piece.chunks(PART_BYTES))
}
