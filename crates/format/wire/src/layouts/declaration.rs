//! A layout as it is declared: plain values, not checked yet ([`Layouts::new`](super::Layouts::new)
//! checks them).

use catchment_model::limits::DATAGRAM_BYTES_MAX;

/// The most bytes of a packet on a connection: a receiver's buffer holds it whole.
pub const STREAM_PACKET_BYTES_MAX: u64 = (128 << 10) - 1;

/// A board's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name in a configuration.
    pub name: String,
    /// Whether packets follow each other on a connection, rather than being datagrams.
    pub is_stream: bool,
    /// The order of the bytes in its words.
    pub order: Order,
    /// The datagram.
    pub packet: Block,
    /// The kinds of records in it, in the order in which they are tried. Without any, the packet is
    /// the fragment.
    pub records: Vec<Block>,
    /// What of a record, or of a packet without records, is recorded.
    pub recorded: Recorded,
}

/// The order of the bytes in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
    /// For each block, the order in which a word of 4 bytes of it fits.
    Detected {
        /// The word's first byte in each block.
        at: u32,
        /// The bits that are compared.
        mask: u32,
        /// Their value.
        equals: u32,
    },
}

/// What is recorded of a record, or of a packet without records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Head, body and, if there is a tail, padding and tail.
    Whole,
    /// The body.
    Body,
}

/// A packet or a record: a head, a body, padding and a tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its name in messages; empty if it has none.
    pub name: String,
    /// Bytes before the body.
    pub head: u32,
    /// Bytes behind the padding.
    pub tail: u32,
    /// Head and body are padded to a multiple of this.
    pub align: u32,
    /// Bytes of head and body, if these are always as many.
    pub bytes: Option<u64>,
    /// The most bytes of the whole block.
    pub bytes_max: Option<u64>,
    /// Whether such a record, or such a packet without records, is no fragment.
    pub skip: bool,
    /// Of a packet: whether what stands behind its counted records is passed over.
    pub skip_rest: bool,
    /// Its fields.
    pub fields: Vec<Field>,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            name: String::new(),
            head: 0,
            tail: 0,
            align: 1,
            bytes: None,
            bytes_max: None,
            skip: false,
            skip_rest: false,
            fields: Vec::new(),
        }
    }
}

/// Bits of a word at a fixed place of a block's head or tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The word's first byte: in the head, or, if negative, from the block's end.
    pub at: i64,
    /// Bytes of the word.
    pub width: u32,
    /// The first and the last bit; 0 is the least significant one. None: all.
    pub bits: Option<[u32; 2]>,
    /// What they are.
    pub kind: FieldKind,
}

/// What a field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A value, or a part of one.
    Is(Role),
    /// A constant that must hold.
    Equals(u64),
    /// A constant that selects its kind of record, or in a packet its layout among those of its
    /// source.
    Choose(u64),
    /// A constant that must hold in every word of the body.
    Each(u64),
}

/// The meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Bytes of head and body: the value times `unit`, plus `plus`.
    Length {
        /// Bytes in which it counts.
        unit: u64,
        /// Bytes that it does not count, or, if negative, that are neither of head nor of body.
        plus: i64,
    },
    /// The number of the packet's records.
    Count,
    /// Packets sent before.
    Sequence,
    /// The source's id.
    Source,
    /// The trigger's type.
    Tag,
    /// Whether the source says that its data are broken.
    Broken,
    /// The groups that took part in the event, one in each bit.
    Groups,
    /// The event number.
    Key,
    /// Clock ticks.
    Time {
        /// Ticks per second, in the first part alone.
        rate_hz: Option<u64>,
    },
    /// Seconds, beside ticks that begin again with each.
    Seconds,
    /// Where in its fragment the body belongs.
    Position {
        /// Bytes in which it counts.
        unit: u64,
    },
    /// Bytes of the fragment of which the body is a part.
    Total {
        /// Bytes in which it counts.
        unit: u64,
    },
    /// A checksum.
    Checksum {
        /// How it is computed.
        kind: ChecksumKind,
        /// The first byte that it covers; negative: from the block's end.
        from: i64,
        /// The end of these bytes; where the checksum stands unless set.
        to: Option<i64>,
    },
}

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-32 as Ethernet has it.
    Crc32,
    /// The sum of words of 4 bytes in the block's order, modulo 2^32; the last one is filled with
    /// zeros.
    Sum32,
    /// The same words, exclusive or.
    Xor32,
    /// The bytes again.
    Copy,
}

impl Layout {
    /// The most bytes of a packet that its transport takes.
    pub(super) fn packet_bytes_most(&self) -> u64 {
        if self.is_stream { STREAM_PACKET_BYTES_MAX } else { DATAGRAM_BYTES_MAX as u64 }
    }

    /// Whether bodies are parts of longer fragments.
    pub fn has_parts(&self) -> bool {
        std::iter::once(&self.packet).chain(&self.records).any(|block| block.has("total"))
    }

    /// Whether times have seconds beside their ticks.
    pub fn has_seconds(&self) -> bool {
        std::iter::once(&self.packet).chain(&self.records).any(|block| block.has("seconds"))
    }

    /// Whether all times have seconds of 32 bits or more beside their ticks.
    pub(super) fn has_long_seconds(&self) -> bool {
        let mut blocks = std::iter::once(&self.packet).chain(&self.records);
        blocks.all(|block| !block.has("time") || block.bits_of("seconds") >= 32)
    }

    /// Whether every fragment names the groups that took part in its event.
    pub fn has_groups(&self) -> bool {
        let mut kinds = self.records.iter().filter(|one| !one.skip);
        let of_records = !self.records.is_empty() && kinds.all(|one| one.has("groups"));
        self.packet.has("groups") || of_records
    }

    /// Whether fragments have a tag.
    pub(super) fn has_tags(&self) -> bool {
        self.packet.has("tag") || self.records.iter().any(|one| one.has("tag"))
    }

    /// Bits of the times, and their ticks in a second, if every fragment has one of them, and all
    /// are of one clock.
    pub fn clock(&self) -> Option<(u32, u64)> {
        let of_block = |block: &Block| {
            let rate = block.with("time").find_map(|field| match field.role() {
                Some(Role::Time { rate_hz }) => rate_hz,
                _ => None,
            });
            Some((block.bits_of("time"), rate?))
        };
        let kinds = self.records.iter().filter(|one| !one.skip);
        let clock = |block: &Block| of_block(block).or_else(|| of_block(&self.packet));
        let mut clocks = kinds.map(clock);
        let first = clocks.next().unwrap_or_else(|| of_block(&self.packet))?;
        clocks.all(|other| other == Some(first)).then_some(first)
    }

    /// Whether its fragments have keys; otherwise they have times.
    pub fn has_keys(&self) -> bool {
        let kinds = self.records.iter().filter(|one| !one.skip);
        self.packet.has("key") || kinds.into_iter().any(|one| one.has("key"))
    }
}

impl Field {
    /// The first bit and the number of bits.
    pub(super) fn range(&self) -> (u32, u32) {
        let [first, last] = self.bits.unwrap_or([0, 8 * self.width - 1]);
        (first, last - first + 1)
    }

    pub(super) fn role(&self) -> Option<Role> {
        match self.kind {
            FieldKind::Is(role) => Some(role),
            _ => None,
        }
    }
}

impl Block {
    /// The fields of a role, in their order.
    pub(super) fn with(&self, name: &str) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.role().is_some_and(|one| one.name() == name))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.with(name).next().is_some()
    }

    /// The fields by which it is chosen.
    pub(super) fn choice(&self) -> Vec<Field> {
        let chooses = |field: &&Field| matches!(field.kind, FieldKind::Choose(_));
        self.fields.iter().filter(chooses).copied().collect()
    }

    /// Whether a checksum covers all of it, but for that itself.
    pub fn is_checked(&self) -> bool {
        self.with("checksum").any(|field| match field.role() {
            Some(Role::Checksum { kind, from: 0, to: None }) => {
                kind != ChecksumKind::Copy && field.at == -i64::from(field.width)
            }
            _ => false,
        })
    }

    /// Bits of the value of a role.
    pub(super) fn bits_of(&self, name: &str) -> u32 {
        self.with(name).map(|field| field.range().1).sum()
    }

    /// The fewest bytes that such a block has.
    pub(super) fn bytes_min(&self) -> u64 {
        let body_end = u64::from(self.head).max(self.bytes.unwrap_or(0));
        match self.tail {
            0 => body_end,
            tail => body_end.next_multiple_of(self.align.into()) + u64::from(tail),
        }
    }
}

impl Role {
    /// Its name in a configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Length { .. } => "length",
            Self::Count => "count",
            Self::Sequence => "sequence",
            Self::Source => "source",
            Self::Tag => "tag",
            Self::Broken => "broken",
            Self::Groups => "groups",
            Self::Key => "key",
            Self::Time { .. } => "time",
            Self::Seconds => "seconds",
            Self::Position { .. } => "position",
            Self::Total { .. } => "total",
            Self::Checksum { .. } => "checksum",
        }
    }

    /// The fewest and the most bits of its value.
    pub(super) fn bits(&self) -> (u32, u32) {
        match self {
            Self::Length { .. } => (1, 64),
            Self::Count | Self::Source => (1, 32),
            Self::Sequence => (8, 64),
            Self::Tag => (1, 8),
            Self::Broken => (1, 1),
            Self::Groups => (1, 16),
            Self::Key | Self::Time { .. } | Self::Seconds => (16, 64),
            Self::Position { .. } | Self::Total { .. } => (8, 64),
            Self::Checksum { kind: ChecksumKind::Copy, .. } => (1, 64),
            Self::Checksum { .. } => (32, 32),
        }
    }
}
