//! How far sources were decided: the records of `source_positions` in frames, and of column 7 in
//! tables of contents.
//!
//! ```text
//!  0        4      6       8         16         24
//! +--------+------+-------+---------+----------+
//! | source | what | zeros | session | position |
//! +--------+------+-------+---------+----------+
//! ```

use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::error::ColumnProblem;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The source; 0 in records that are of none.
    pub source: u32,
    /// What it is a position of: [`Position::LINK`] and the like. Others are passed over.
    pub what: u16,
    /// The session of the source's sender; 0 in records that are of none.
    pub session: u64,
    /// The position, which never falls for one source, `what` and session.
    pub position: u64,
}

impl Position {
    /// Items of the source's log below this sequence are decided.
    pub const LINK: u16 = 0;
    /// Added to a number to give its key.
    pub const BASE: u16 = 1;
    /// Keys of the source below this one are decided.
    pub const KEY: u16 = 2;
    /// Events below this key are closed.
    pub const CLOSED: u16 = 3;
    /// Frames of the stream below this number were settled in each required place.
    pub const SYNCED: u16 = 4;

    /// Slices of channels below this number are closed.
    pub const CLOSED_SLICES: u16 = 5;

    /// A record that is of no source.
    pub fn of_run(what: u16, position: u64) -> Self {
        Self { source: 0, what, session: 0, position }
    }
}

/// Appends records.
pub fn encode_positions(positions: &[Position], out: &mut Vec<u8>) {
    out.reserve(positions.len() * POSITION_BYTES);
    for &Position { source, what, session, position } in positions {
        let mut record = [0; POSITION_BYTES];
        put(&mut record, 0, source.to_le_bytes());
        put(&mut record, 4, what.to_le_bytes());
        put(&mut record, 8, session.to_le_bytes());
        put(&mut record, 16, position.to_le_bytes());
        out.extend_from_slice(&record);
    }
}

/// Reads records.
///
/// # Errors
/// A length that is not a multiple of 24.
pub fn decode_positions(bytes: &[u8]) -> Result<Vec<Position>, ColumnProblem> {
    if !bytes.len().is_multiple_of(POSITION_BYTES) {
        let (field, expected) = ("raw_bytes", "a multiple of 24");
        return Err(ColumnProblem::Field { field, expected, got: bytes.len() as u64 });
    }
    let record = |record: &[u8]| Position {
        source: u32_at(record, 0),
        what: u16_at(record, 4),
        session: u64_at(record, 8),
        position: u64_at(record, 16),
    };
    Ok(bytes.chunks_exact(POSITION_BYTES).map(record).collect())
}

/// The newest positions of a run: of each source those of its newest [`SESSIONS_MAX`] sessions. A
/// session that another one has followed does not come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// By source and `what`, then in the order in which the sessions came.
    records: Vec<Position>,
}

impl Positions {
    /// Adds newer records, in the order of their frames.
    pub fn add(&mut self, newer: &[Position]) {
        for &record in newer {
            let kind = |one: &Position| (one.source, one.what);
            let begin = self.records.partition_point(|one| kind(one) < kind(&record));
            let count = self.records[begin..].partition_point(|one| kind(one) == kind(&record));
            let known = &mut self.records[begin..begin + count];
            match known.iter_mut().find(|one| one.session == record.session) {
                Some(one) => one.position = one.position.max(record.position),
                None => {
                    self.records.insert(begin + count, record);
                    if count == SESSIONS_MAX {
                        self.records.remove(begin);
                    }
                }
            }
        }
    }

    /// Raises each record to that of others, where it is lower, and leaves out those of sessions
    /// that the others have forgotten: how far these came is not known any more.
    pub fn raise_to(&mut self, newer: &Self) {
        self.records.retain_mut(|record| {
            let Position { source, what, session, .. } = *record;
            let newest = newer.of(source, what, session);
            record.position = record.position.max(newest.unwrap_or(0));
            let is_like = |one: &&Position| (one.source, one.what) == (source, what);
            newest.is_some() || newer.records.iter().filter(is_like).count() < SESSIONS_MAX
        });
    }

    /// The position of a session of a source, if it is known.
    pub fn of(&self, source: u32, what: u16, session: u64) -> Option<u64> {
        let is_it =
            |one: &&Position| (one.source, one.what, one.session) == (source, what, session);
        self.records.iter().find(is_it).map(|one| one.position)
    }

    /// The record of a source's newest session.
    pub fn newest(&self, source: u32, what: u16) -> Option<&Position> {
        self.records.iter().rfind(|one| (one.source, one.what) == (source, what))
    }

    /// All records.
    pub fn records(&self) -> &[Position] {
        &self.records
    }
}

/// Sessions of a source whose newest positions are kept.
pub const SESSIONS_MAX: usize = 4;

/// Bytes of one record.
pub(crate) const POSITION_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn link(source: u32, session: u64, position: u64) -> Position {
        Position { source, what: Position::LINK, session, position }
    }

    #[test]
    fn records_survive_and_a_part_of_one_is_an_error() {
        let records = [link(3, u64::MAX, 1 << 63), Position::of_run(Position::CLOSED, 7)];
        let mut bytes = Vec::new();
        encode_positions(&records, &mut bytes);
        assert_eq!(decode_positions(&bytes).as_deref(), Ok(&records[..]));
        assert!(decode_positions(&bytes[1..]).is_err());
    }

    #[test]
    fn the_newest_of_each_session_is_kept_and_of_many_sessions_the_last_ones() {
        let mut newest = Positions::default();
        newest.add(&[link(2, 9, 5), link(1, 8, 1), Position::of_run(Position::CLOSED, 3)]);
        newest.add(&[link(1, 8, 4), link(1, 7, 0), link(2, 9, 2)]);
        let closed = Position::of_run(Position::CLOSED, 3);
        assert_eq!(newest.records(), [closed, link(1, 8, 4), link(1, 7, 0), link(2, 9, 5)]);
        (100..110).for_each(|session| newest.add(&[link(1, session, 1)]));
        let sessions = newest.records().iter().filter(|one| one.source == 1);
        let sessions: Vec<u64> = sessions.map(|one| one.session).collect();
        assert_eq!(sessions, [106, 107, 108, 109]);
    }

    #[test]
    fn what_is_stated_again_does_not_fall_and_brings_no_forgotten_session_back() {
        let (mut newest, mut again) = (Positions::default(), Positions::default());
        newest.add(&[link(1, 1, 24), link(2, 5, 7)]);
        again.add(&[link(1, 1, 15), link(2, 5, 3), link(3, 9, 2)]);
        again.raise_to(&newest);
        assert_eq!(again.records(), [link(1, 1, 24), link(2, 5, 7), link(3, 9, 2)]);
        (2..6).for_each(|session| newest.add(&[link(1, session, 1)]));
        let mut again = Positions::default();
        again.add(&[link(1, 1, 15), link(1, 4, 0), link(2, 5, 3)]);
        again.raise_to(&newest);
        assert_eq!(again.records(), [link(1, 4, 1), link(2, 5, 7)]);
    }
}
