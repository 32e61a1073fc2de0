//! What a board's layout has beside its time: numbers of its packets, its id, a tag and a flag. It
//! is drawn apart from all else that a seed draws.

use catchment_fixtures::Random;

/// What of this a layout has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    pub sequence: Option<Sequence>,
    pub id: Option<Id>,
    pub tag_bits: Option<u32>,
    pub has_broken: bool,
}

/// Numbers that count packets.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    pub bits: u32,
    /// That of the first packet.
    pub first: u64,
}

/// What a source names itself.
#[derive(Clone, Copy, Debug)]
pub struct Id {
    pub bits: u32,
    pub value: u32,
    /// Whether each record has it, and not their packet.
    pub in_records: bool,
}

impl Marks {
    pub fn draw(chance: &mut Random) -> Self {
        let sequence = (chance.below(2) == 0).then(|| Sequence::draw(chance));
        let id = (chance.below(3) == 0).then(|| {
            let bits = 1 + chance.below(32) as u32;
            let value = (chance.next_u64() >> (64 - bits)) as u32;
            Id { bits, value, in_records: chance.below(2) == 0 }
        });
        let tag_bits = (chance.below(4) == 0).then(|| 1 + chance.below(8) as u32);
        Self { sequence, id, tag_bits, has_broken: chance.below(4) == 0 }
    }
}

impl Sequence {
    fn draw(chance: &mut Random) -> Self {
        let bits = [8, 12, 16, 16, 24, 32, 32, 48, 64][chance.index(9)];
        let whole = chance.next_u64() >> (64 - bits);
        let first = match chance.below(3) {
            0 => 0,
            // Near their end. Wide ones do not come to it.
            1 if wraps(bits) => (u64::MAX >> (64 - bits)) - chance.below(200),
            _ if wraps(bits) => whole,
            _ => whole >> 1,
        };
        Self { bits, first }
    }

    /// The number of a packet, as it stands in it.
    pub fn of(&self, packet: u64) -> u64 {
        self.first.wrapping_add(packet) & u64::MAX >> (64 - self.bits)
    }
}

/// Whether numbers of so many bits are continued over their end.
pub fn wraps(bits: u32) -> bool {
    bits <= 48
}
