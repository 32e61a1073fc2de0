//! Encoding one column.

use catchment_codec::{Codec, Coding, ColumnEncoder};
use catchment_frame::{Crc32c, crc32c};

use crate::rule::Ask;

/// Raw bytes that are looked at and gathered while they are in the cache.
const PIECE_BYTES: usize = 64 << 10;

/// The raw bytes of one column.
pub trait Column: Send + 'static {
    /// What [`Column::look`] finds.
    type Seen: Default + Send + 'static;

    /// How many raw bytes there are.
    fn raw_bytes(&self) -> usize;

    /// Hands out the raw bytes piece by piece: together exactly [`Column::raw_bytes`].
    fn pieces<'a>(&'a self, take: &mut dyn FnMut(&'a [u8]));

    /// The raw bytes, where they lie in one piece.
    fn whole(&self) -> Option<&[u8]> {
        None
    }

    /// Whether [`Column::look`] wants to see the bytes.
    fn looks(&self) -> bool {
        false
    }

    /// Sees every raw byte once, in order, in pieces of at most 64 KiB that never divide what
    /// [`Column::pieces`] hands out but at multiples of 16 bytes from its start.
    fn look(&self, _seen: &mut Self::Seen, _bytes: &[u8]) {}
}

impl Column for Vec<u8> {
    type Seen = ();

    fn raw_bytes(&self) -> usize {
        self.len()
    }

    fn pieces<'a>(&'a self, take: &mut dyn FnMut(&'a [u8])) {
        take(self);
    }

    fn whole(&self) -> Option<&[u8]> {
        Some(self)
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
    /// CRC-32C of the stored bytes.
    pub crc32c: u32,
    /// The stored bytes.
    pub stored: Stored,
}

/// Where a column's stored bytes are.
#[derive(Debug)]
pub enum Stored {
    /// They are the raw bytes, which the column has.
    Raw,
    /// In a buffer of the pool's.
    Encoded(Vec<u8>),
}

impl<C: Column> Done<C> {
    /// How many bytes are stored.
    pub fn stored_bytes(&self) -> usize {
        match &self.stored {
            Stored::Raw => self.column.raw_bytes(),
            Stored::Encoded(bytes) => bytes.len(),
        }
    }

    /// Hands out the stored bytes piece by piece.
    pub fn stored<'a>(&'a self, take: &mut dyn FnMut(&'a [u8])) {
        match &self.stored {
            Stored::Raw => self.column.pieces(take),
            Stored::Encoded(bytes) => take(bytes),
        }
    }
}

/// What one thread needs to encode.
pub(crate) struct Worker {
    encoder: ColumnEncoder,
    gathered: Vec<u8>,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self { encoder: ColumnEncoder::new(), gathered: Vec::new() }
    }

    /// Encodes a column. `buffer` gives memory for the result.
    pub(crate) fn encode<C: Column>(
        &mut self,
        column: C,
        ask: &Ask,
        free_cpu_share: f32,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Done<C> {
        let mut seen = C::Seen::default();
        if ask.is_raw() {
            let lowered = ask.coding(&mut self.encoder, &[], free_cpu_share).1;
            let crc32c = look_only(&column, &mut seen);
            let (codec, coding, stored) = (Codec::None, Coding::None, Stored::Raw);
            return Done { column, seen, codec, coding, lowered, crc32c, stored };
        }
        self.gather(&column, &mut seen);
        let raw = column.whole().unwrap_or(&self.gathered);
        let (coding, lowered) = ask.coding(&mut self.encoder, raw, free_cpu_share);
        let encoded = self.encoder.encode(coding, ask.element, raw);
        let (codec, crc32c) = (encoded.codec, crc32c(encoded.stored));
        let stored = if codec == Codec::None {
            Stored::Raw
        } else {
            let mut bytes = buffer(encoded.stored.len());
            bytes.extend_from_slice(encoded.stored);
            Stored::Encoded(bytes)
        };
        Done { column, seen, codec, coding, lowered, crc32c, stored }
    }

    /// Shows the column its bytes, and brings them into one piece unless they are.
    fn gather<C: Column>(&mut self, column: &C, seen: &mut C::Seen) {
        let (looks, whole) = (column.looks(), column.whole().is_some());
        self.gathered.clear();
        if !looks && whole {
            return;
        }
        if !whole {
            self.gathered.reserve(column.raw_bytes());
        }
        column.pieces(&mut |piece| {
            for part in piece.chunks(PIECE_BYTES) {
                if looks {
                    column.look(seen, part);
                }
                if !whole {
                    self.gathered.extend_from_slice(part);
                }
            }
        });
    }
}

fn look_only<C: Column>(column: &C, seen: &mut C::Seen) -> u32 {
    let mut crc = Crc32c::new();
    let looks = column.looks();
    column.pieces(&mut |piece| {
        for part in piece.chunks(PIECE_BYTES) {
            if looks {
                column.look(seen, part);
            }
            crc.update(part);
        }
    });
    crc.finish()
}
