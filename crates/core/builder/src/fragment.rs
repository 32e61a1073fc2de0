//! What goes in, and what comes back unused.

use catchment_model::{Entry, SourceId};

/// One fragment's descriptor. 24 bytes:
///
/// ```text
/// 0        8        16      20       22    23      24
/// | offset | number | bytes | source | tag | flags |
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Where its bytes begin in the source's own segment. The builder only carries it.
    pub offset: u64,
    /// The event number as on the wire, not yet unwrapped.
    pub number: u64,
    /// How many bytes it has, its header included. May be 0.
    pub bytes: u32,
    /// The source's number ([`SourceId`]).
    pub source: u16,
    /// The trigger tag: the same for all fragments of one event that have one.
    pub tag: u8,
    /// Conditions, see [`FragmentFlags`].
    pub flags: u8,
}

const _: () = assert!(size_of::<Fragment>() == 24);
// What is no source's number in more bits is none in 16.
const _: () = assert!(catchment_model::limits::SOURCES_MAX < u16::MAX as usize);

impl Fragment {
    /// A fragment with tag 0 and without flags.
    #[inline]
    pub fn new(source: u32, number: u64, offset: u64, bytes: u32) -> Self {
        let source = u16::try_from(source).unwrap_or(u16::MAX);
        Self { offset, number, bytes, source, tag: 0, flags: 0 }
    }

    /// A note of that kind, which stands between a source's fragments and is none.
    pub fn note(source: u32, kind: NoteKind, number: u64, value: u64) -> Self {
        let (tag, flags) = (kind as u8, FragmentFlags::NOTE);
        Self { tag, flags, ..Self::new(source, number, value, 0) }
    }

    /// What a source that promises says of itself, behind the fragments before it.
    pub fn said(source: u32, note: SourceNote) -> Self {
        let (which, value) = match note {
            SourceNote::LowWater(number) => (0, number),
            SourceNote::Idle(is_idle) => (1, is_idle.into()),
            SourceNote::Numbering => (2, 0),
            SourceNote::Session { key_bits } => (3, key_bits.into()),
            SourceNote::Attached => (4, 0),
            SourceNote::Waited => (5, 0),
            SourceNote::Gone => (6, 0),
            SourceNote::ExpectedIn(groups) => (7, groups),
            SourceNote::Named(groups) => (8, groups),
            SourceNote::Excused(number) => (9, number),
            SourceNote::Begin => (10, 0),
            SourceNote::End(behind) => (11, behind),
            SourceNote::Behind(of) => (12, of),
            SourceNote::Quiet => (13, 0),
        };
        Self::note(source, NoteKind::Said, which, value)
    }

    /// The note of a source that promises, if it is one.
    pub fn source_note(&self) -> Option<SourceNote> {
        let is_said = self.is_note() && self.tag == NoteKind::Said as u8;
        Some(match self.number {
            _ if !is_said => return None,
            0 => SourceNote::LowWater(self.offset),
            1 => SourceNote::Idle(self.offset > 0),
            2 => SourceNote::Numbering,
            3 => SourceNote::Session { key_bits: u32::try_from(self.offset).unwrap_or(u32::MAX) },
            4 => SourceNote::Attached,
            5 => SourceNote::Waited,
            6 => SourceNote::Gone,
            7 => SourceNote::ExpectedIn(self.offset),
            8 => SourceNote::Named(self.offset),
            9 => SourceNote::Excused(self.offset),
            10 => SourceNote::Begin,
            11 => SourceNote::End(self.offset),
            12 => SourceNote::Behind(self.offset),
            13 => SourceNote::Quiet,
            _ => return None,
        })
    }

    /// The note that so many items of a source's log are no fragments for the builder. They are
    /// counted by that entry if they are fragments.
    pub fn passed(source: u32, count: u64, reason: Option<Entry>) -> Self {
        let number = reason.map_or(0, |reason| 1 + reason as u64);
        Self::note(source, NoteKind::Passed, number, count)
    }

    /// Whether its source marked it as broken.
    #[inline]
    pub fn is_flagged(&self) -> bool {
        self.flags & FragmentFlags::SENDER_ERROR != 0
    }

    /// Whether it has a trigger tag.
    #[inline]
    pub fn has_tag(&self) -> bool {
        self.flags & FragmentFlags::UNTAGGED == 0
    }

    /// Whether it is a note for who pushes fragments, and none itself.
    #[inline]
    pub fn is_note(&self) -> bool {
        self.flags & FragmentFlags::NOTE != 0
    }

    /// Whether its packet is known not to be one that came twice.
    #[inline]
    pub(crate) fn is_sent_once(&self) -> bool {
        self.flags & FragmentFlags::SENT_ONCE != 0
    }

    /// Which of two senders to its source's port it came from.
    #[inline]
    pub(crate) fn is_of_other_sender(&self) -> bool {
        self.flags & FragmentFlags::OTHER_SENDER != 0
    }

    /// What counts it where its source has delivered the event before.
    pub(crate) fn repeated(&self) -> Entry {
        if self.is_sent_once() { Entry::FragmentsTimeRepeated } else { Entry::FragmentsDuplicate }
    }
}

/// The bits of [`Fragment::flags`].
pub struct FragmentFlags;

impl FragmentFlags {
    /// The source marked its own data as broken.
    pub const SENDER_ERROR: u8 = 1;
    /// Its packet is known not to be one that came twice: if its event was delivered before, its
    /// source counts the same numbers again.
    pub const SENT_ONCE: u8 = 2;
    /// Of two senders to its source's port it came from the one that was not heard first.
    pub const OTHER_SENDER: u8 = 4;
    /// Its sender is the source's own now, since the one before is gone. Which of the two it is
    /// still depends on [`FragmentFlags::OTHER_SENDER`], which a sender's fragments keep.
    pub const NEW_SENDER: u8 = 8;
    /// It is not the first of its packet.
    pub const CONTINUES: u8 = 16;
    /// It is a [`NoteKind`], which never reaches the builder.
    pub const NOTE: u8 = 32;
    /// It has no trigger tag, as by its protocol or its sender's word: it is compared with no other
    /// fragment.
    pub const UNTAGGED: u8 = 64;
}

/// What stands between the fragments of a source that comes over a session, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NoteKind {
    /// The next item is of the session in `number`, and has the sequence in `offset`.
    Session = 1,
    /// As many items as `offset` says are none for the builder: fragments that are counted by the
    /// entry before the number, or, with 0, marks and ranges.
    Passed = 2,
    /// A [`SourceNote`], for the builder ([`Builder::note`](crate::Builder::note)).
    Said = 3,
}

/// What is known of a source that promises, beside its fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceNote {
    /// No fragment with a lower number will follow.
    LowWater(u64),
    /// As a low-water mark, and of the numbers since the last one its fragments are counted
    /// otherwise: its sender dropped them and said so, or they were content faults.
    Excused(u64),
    /// Whether it may be silent for long: events do not wait for it until its next fragment.
    Idle(bool),
    /// Its numbers begin again.
    Numbering,
    /// Another session delivers it from here on, with numbers of so many bits.
    Session {
        /// Their width.
        key_bits: u32,
    },
    /// Its session goes on.
    Attached,
    /// Its connection is gone without a word: a required source is waited for until another note.
    Waited,
    /// It has said nothing for a time-out in which its connection brought messages, so that it is
    /// silent and not cut off. Until then a required source that is attached is waited for.
    Quiet,
    /// Nothing of it will come until its session goes on, or another one begins.
    Gone,
    /// It is expected in events of these groups alone, one in each bit; 0: in all. No sparse source
    /// says so.
    ExpectedIn(u64),
    /// In the events of its fragments that follow these groups took part; 0: it names none, and
    /// every source is expected. Heard of the first source that names any.
    Named(u64),
    /// What it sends next stands behind what there is no memory for, and that memory will not come
    /// while events wait for it: they wait for it no more, until it speaks. The number is for who
    /// pushes fragments.
    Behind(u64),
    /// By its mark, what follows is of the run. If it is required, the run begins at the first key
    /// that it delivers or drops, unless that of another is later.
    Begin,
    /// By its mark, nothing more of it is of the run, nor a number below that one. If it is
    /// required, the run ends with the last key that it has passed, unless that of another is
    /// earlier.
    End(u64),
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
    /// How many of its source's fragments were pushed before it, if the settings ask for the
    /// source's positions; otherwise, and where it was dropped with its row, 0.
    pub ordinal: u64,
}
