//! The order in which the naive sender sends what shares a connection, as docs/spec/event-link.md,
//! section 5, has it: between an item and a later one of lower key are at most so many bytes.

use super::log::Log;

/// What was sent over a connection: of which log, with which key, and how many bytes.
#[derive(Clone, Default)]
pub(super) struct Order(Vec<(usize, u64, u64)>);

impl Order {
    /// Whether a log may send its next item, so that those of the connection's logs which are
    /// behind it can follow within the skew.
    pub(super) fn allows(&self, (log, skew_bytes): (usize, u64), own: &[(usize, &Log)]) -> bool {
        let next = own.iter().find(|(one, _)| *one == log).map(|(_, log)| log);
        let Some(next) = next.filter(|next| next.part.is_none()) else { return true };
        let Some((key, bytes)) = next.next_fragment() else { return true };
        own.iter().filter(|(other, _)| *other != log).all(|&(other, of_other)| {
            let low_water = of_other.low_water();
            low_water >= key
                || self.ahead_bytes(other, low_water) + bytes + HEAD_BYTES <= skew_bytes
        })
    }

    /// A log sends its next item.
    pub(super) fn sends(&mut self, log: usize, of: &Log) {
        if let Some((key, bytes)) = of.next_fragment().filter(|_| of.part.is_none()) {
            self.0.push((log, key, bytes + HEAD_BYTES));
        }
    }

    /// Bytes of other logs from the first item on that is above a key.
    fn ahead_bytes(&self, log: usize, low_water: u64) -> u64 {
        let others = self.0.iter().filter(|(other, ..)| *other != log);
        others.skip_while(|(_, key, _)| *key <= low_water).map(|(.., bytes)| bytes).sum()
    }
}

/// The most that a message takes beside the bytes of its fragment.
const HEAD_BYTES: u64 = 100;
