//! What a recorder for tests took of a log, and what it checks of each item.

use catchment_wire::event_link::{MarkKind, Part};

/// What it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A fragment, whole.
    Fragment {
        /// Its key.
        key: u64,
        /// Its bytes.
        bytes: Vec<u8>,
        /// Its tag.
        tag: u8,
        /// Its flags.
        flags: u8,
        /// The groups that it names.
        groups: u64,
    },
    /// A mark, with its text.
    Mark {
        /// What it says.
        kind: MarkKind,
        /// Sequences that it takes.
        count: u64,
        /// Its keys.
        keys: (u64, u64),
        /// Its text.
        text: String,
    },
}

/// One source's log as the recorder has it.
#[derive(Clone, Debug, Default)]
pub struct TakenLog {
    /// Of the source.
    pub name: String,
    /// Position: items below are taken.
    pub taken: u64,
    /// Position: items below are durable.
    pub durable: u64,
    /// What was taken: the first sequence of each item, and the item.
    pub items: Vec<(u64, Taken)>,
    /// Items that came again, and were dropped.
    pub repeated: u64,
    /// What was promised last: low-water key, and whether it is idle.
    pub promised: Option<(Option<u64>, bool)>,
    /// What the last ping said: items so far, flags.
    pub pinged: Option<(u64, u32)>,
    pub(super) connection: u16,
    pub(super) fragment_bytes_max: u64,
    pub(super) part: Option<(Part, Vec<u8>)>,
}

impl TakenLog {
    /// The keys and bytes of its fragments.
    pub fn fragments(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.items.iter().filter_map(|(_, taken)| match taken {
            Taken::Fragment { key, bytes, .. } => Some((*key, bytes.as_slice())),
            Taken::Mark { .. } => None,
        })
    }

    pub(super) fn push(&mut self, sequence: u64, count: u64, taken: Taken) -> Result<(), String> {
        let end = sequence + count;
        if end <= self.taken {
            self.repeated += 1;
            return Ok(());
        }
        if sequence > self.taken {
            return Err(format!("{}: item {sequence} after {}", self.name, self.taken));
        }
        if self.part.is_some() {
            return Err(format!("{}: an item between parts", self.name));
        }
        self.items.push((sequence, taken));
        self.taken = end;
        Ok(())
    }

    pub(super) fn part(&mut self, part: &Part, body: &[u8]) -> Result<(), String> {
        let mut bytes = match self.part.take() {
            None if part.position == 0 => Vec::new(),
            Some((first, bytes)) if is_next(&first, part, bytes.len()) => bytes,
            other => return Err(format!("{}: {part:?} behind {other:?}", self.name)),
        };
        bytes.extend_from_slice(body);
        if (bytes.len() as u64) < part.fragment_bytes {
            if part.sequence > self.taken {
                return Err(format!("{}: part {} after {}", self.name, part.sequence, self.taken));
            }
            self.part = Some((*part, bytes));
            return Ok(());
        }
        let Part { sequence, key, tag, flags, groups, .. } = *part;
        self.push(sequence, 1, Taken::Fragment { key, bytes, tag, flags, groups })
    }
}

fn is_next(first: &Part, part: &Part, bytes: usize) -> bool {
    let expected = Part { position: bytes as u64, ..*first };
    *part == expected
}
