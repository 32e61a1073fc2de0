//! What goes in, and what comes back unused.

use catchment_model::{Entry, SourceId};

/// One fragment's descriptor. 24 bytes:
///
/// ```text
/// 0        8       12       16      20    21     22    24
/// | offset | source | number | bytes | tag | flags | pad |
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Where its bytes begin in the source's own segment. The builder only carries it.
    pub offset: u64,
    /// The source's number ([`SourceId`]).
    pub source: u32,
    /// The event number as on the wire, not yet unwrapped.
    pub number: u32,
    /// How many bytes it has, its header included. May be 0.
    pub bytes: u32,
    /// The trigger tag: the same for all fragments of one event.
    pub tag: u8,
    /// Conditions, see [`FragmentFlags`].
    pub flags: u8,
    /// Unused, 0.
    pub pad: u16,
}

const _: () = assert!(size_of::<Fragment>() == 24);

impl Fragment {
    /// A fragment with tag 0 and without flags.
    pub fn new(source: u32, number: u32, offset: u64, bytes: u32) -> Self {
        Self { offset, source, number, bytes, tag: 0, flags: 0, pad: 0 }
    }

    /// Whether its source marked it as broken.
    #[inline]
    pub fn is_flagged(&self) -> bool {
        self.flags & FragmentFlags::SENDER_ERROR != 0
    }
}

/// The bits of [`Fragment::flags`].
pub struct FragmentFlags;

impl FragmentFlags {
    /// The source marked its own data as broken.
    pub const SENDER_ERROR: u8 = 1;
}

/// A fragment that will be in no frame, so that its memory can be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discard {
    /// The source that it came from; as pushed, so that it may be a number that no source has.
    pub source: SourceId,
    /// Its offset, as pushed.
    pub offset: u64,
    /// Its bytes, as pushed.
    pub bytes: u32,
    /// Why, by the ledger's entry that counts it.
    pub reason: Entry,
}
