//! A long message of items, which are taken while its end is still to come: the bytes of a long
//! fragment go straight to their place.
//!
//! Nothing is taken before the whole head is there, which shows every fault of the message. A
//! message without long fragments that the connection's buffer holds is not of this kind: it is
//! taken when it is whole.
//!
//! Limits: the records of a message that is under way, 4,096 of 24 bytes for each connection, which
//! are not in the budget. Those of more than 128 are given back with the message.

use catchment_agent::{Incoming, STREAM_BYTES_MIN};
use catchment_model::Entry;
use catchment_wire::event_link::{Data, FragmentRecord, Part};
use catchment_wire::session::{Fault, Message};

use crate::destinations::Destination;
use crate::ingest::Ingest;
use crate::link_log::Log;
use crate::link_session::Session;

/// Fragments from that length on are long, in bytes.
const LONG_BYTES: usize = 64 << 10;
/// Records whose memory is kept for the next message: as many as there are of long fragments.
const RECORDS_KEPT: usize = 128;

/// Whether a message of which the end is missing is taken while it comes.
pub(crate) fn is_long(message: &Message<'_>) -> bool {
    message.used >= STREAM_BYTES_MIN
        || message.record_count() <= 1 && message.body_bytes >= LONG_BYTES
}

/// The long message of a connection, if one is under way.
#[derive(Default)]
pub(crate) struct LongMessage {
    is_under_way: bool,
    /// Its log; none of a type that is skipped.
    log: Option<u32>,
    /// All its bytes.
    bytes: usize,
    /// Bytes that are dropped before the next item: of repeats, and the padding.
    dropped: usize,
    padding: usize,
    /// The part that it is, with its bytes, until it is begun.
    part: Option<(Part, usize)>,
    /// Its fragments. Those before `next` were taken, or begun.
    records: Vec<FragmentRecord>,
    next: usize,
    /// The sequence of the first one.
    sequence: u64,
    /// Bytes of the item that was begun which are still to come.
    open: Option<usize>,
}

/// What a long message needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: it has ended.
    Ended,
    /// More bytes in the buffer.
    Bytes,
    /// The next bytes where they belong.
    Into,
    /// Memory.
    Memory,
}

impl LongMessage {
    /// Whether one is under way.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Begins with the items of a message whose head is there.
    fn begin(
        &mut self,
        ingest: &mut Ingest,
        message: &Message<'_>,
        data: Option<Data<'_>>,
        of: Option<(&Log, Destination)>,
    ) -> Result<(), Fault> {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        let mut begun = Self {
            is_under_way: true,
            bytes: message.used,
            padding: message.used - message.body_at() - message.body_bytes,
            ..Self::default()
        };
        let mut repeated = 0;
        match (data, of) {
            (Some(Data::Fragments(fixed, all, _)), Some((log, _))) => {
                repeated = log.check_fragments(fixed.sequence, all.len() as u64)?;
                begun.next = repeated as usize;
                records.extend(all.iter());
                let bytes = |record: &FragmentRecord| record.bytes as usize;
                begun.dropped = records[..begun.next].iter().map(bytes).sum();
                (begun.log, begun.sequence) = (Some(fixed.log), fixed.sequence);
            }
            (Some(Data::Part(part, _)), Some((log, _))) => {
                begun.log = Some(part.log);
                match log.is_repeat(&part)? {
                    true => {
                        let end = part.position + message.body_bytes as u64;
                        repeated = u64::from(end == part.fragment_bytes);
                        begun.dropped = message.body_bytes;
                    }
                    false => begun.part = Some((part, message.body_bytes)),
                }
            }
            // No other type that is known has a body.
            _ => begun.dropped = message.body_bytes,
        }
        if let Some((_, destination)) = of {
            ingest.count(destination.account as usize, Entry::FragmentsRepeated, repeated);
        }
        *self = Self { records, ..begun };
        Ok(())
    }

    /// Takes what there is. Returns how many bytes were used, and what it needs next.
    fn take(
        &mut self,
        ingest: &mut Ingest,
        mut of: Option<(&mut Log, Destination)>,
        bytes: &[u8],
    ) -> (usize, Next) {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            if self.dropped > 0 {
                let now = self.dropped.min(rest.len());
                (used, self.dropped) = (used + now, self.dropped - now);
                if self.dropped > 0 {
                    return (used, Next::Bytes);
                }
                continue;
            }
            let Some((log, destination)) = &mut of else {
                self.dropped = std::mem::take(&mut self.padding);
                if self.dropped > 0 {
                    continue;
                }
                return (used, Next::Ended);
            };
            if let Some(left) = self.open {
                let now = left.min(rest.len());
                log.put(ingest, &rest[..now]);
                used += now;
                if !self.came(ingest, log, *destination, now) {
                    let is_kept = log.room(ingest).is_some();
                    return (used, if is_kept { Next::Into } else { Next::Bytes });
                }
                continue;
            }
            match self.begin_item(ingest, (log, *destination), rest) {
                Some(Ok(now)) => used += now,
                Some(Err(next)) => return (used, next),
                None if self.padding > 0 => self.dropped = std::mem::take(&mut self.padding),
                None => return (used, Next::Ended),
            }
        }
    }

    /// Takes the next item, if all of it is there, or begins it. Returns how many bytes were used,
    /// or what it needs; nothing behind the last one.
    fn begin_item(
        &mut self,
        ingest: &mut Ingest,
        (log, destination): (&mut Log, Destination),
        rest: &[u8],
    ) -> Option<Result<usize, Next>> {
        let (part, bytes) = match (self.part, self.records.get(self.next)) {
            (Some(part), _) => part,
            (None, Some(record)) => {
                let bytes = record.bytes as usize;
                if let Some(payload) = rest.get(..bytes) {
                    let item = (record, payload);
                    if log.take_fragment(ingest, destination, item, 0).is_break() {
                        return Some(Err(Next::Memory));
                    }
                    self.next += 1;
                    return Some(Ok(bytes));
                }
                (self.as_part(record), bytes)
            }
            (None, None) => return None,
        };
        if rest.len() < bytes && bytes < LONG_BYTES {
            return Some(Err(Next::Bytes));
        }
        if log.open_fragment(ingest, destination, &part).is_break() {
            return Some(Err(Next::Memory));
        }
        self.next += usize::from(self.part.take().is_none());
        self.open = Some(bytes);
        Some(Ok(0))
    }

    /// The next fragment as the only part of itself.
    fn as_part(&self, record: &FragmentRecord) -> Part {
        let &FragmentRecord { key, bytes, tag, flags, groups } = record;
        Part {
            log: self.log.unwrap_or_default(),
            tag,
            flags,
            sequence: self.sequence + self.next as u64,
            key,
            groups,
            position: 0,
            fragment_bytes: bytes.into(),
        }
    }

    /// So many bytes of the open item have come. Returns whether all have.
    fn came(
        &mut self,
        ingest: &mut Ingest,
        log: &mut Log,
        destination: Destination,
        bytes: usize,
    ) -> bool {
        self.open = self.open.map(|left| left - bytes).filter(|left| *left > 0);
        if self.open.is_none() {
            log.finish_fragment(ingest, destination);
        }
        self.open.is_none()
    }

    /// Reads bytes of the open item to their place, or drops them if it is of no run any more.
    /// Returns how many; none if no item is open.
    fn fill(
        &mut self,
        ingest: &mut Ingest,
        (log, destination): (&mut Log, Destination),
        source: &mut dyn Incoming,
    ) -> Option<usize> {
        let left = self.open?;
        let bytes = match log.room(ingest) {
            Some(room) => {
                let most = room.len().min(left);
                source.read(&mut room[..most])
            }
            None => drop_bytes(source, left),
        };
        log.filled(ingest, bytes);
        self.came(ingest, log, destination, bytes);
        Some(bytes)
    }
}

/// Reads bytes that nobody wants, at most so many.
#[cold]
fn drop_bytes(source: &mut dyn Incoming, most: usize) -> usize {
    let mut bytes = [0; 4_096];
    let most = most.min(bytes.len());
    source.read(&mut bytes[..most])
}

impl Session {
    /// Begins with a long message whose head is there.
    pub(crate) fn begin_long(
        &mut self,
        ingest: &mut Ingest,
        connection: u16,
        (message, data): (&Message<'_>, Option<Data<'_>>),
        long: &mut LongMessage,
    ) -> Result<(), Fault> {
        let number = match data {
            Some(Data::Fragments(fixed, ..)) => Some(fixed.log),
            Some(Data::Part(part, _)) => Some(part.log),
            _ => None,
        };
        let of = match number {
            None => None,
            Some(number) => {
                let log = self.log(number, connection)?;
                let refused = |_| Fault::UnknownLog { got: number };
                let destination = log.destination.map_err(refused)?;
                Some((&*log, destination))
            }
        };
        long.begin(ingest, message, data, of)
    }

    /// Takes what there is of a long message. Returns how many bytes were used, and what it needs
    /// next.
    pub(crate) fn take_long(
        &mut self,
        ingest: &mut Ingest,
        long: &mut LongMessage,
        bytes: &[u8],
    ) -> (usize, Next) {
        let of = self.log_of(long);
        let (used, next) = long.take(ingest, of, bytes);
        if next == Next::Ended {
            long.is_under_way = false;
            if long.records.capacity() > RECORDS_KEPT {
                long.records = Vec::new();
            }
            if let Some((_, destination)) = self.log_of(long) {
                let counts = ingest.counts(destination.account as usize);
                counts[Entry::PacketsReceived] += 1;
                counts[Entry::PacketBytesReceived] += long.bytes as u64;
                counts[Entry::PacketsAccepted] += 1;
            }
        }
        (used, next)
    }

    /// Reads bytes of a long message to their place. Returns how many; none if they have no place.
    pub(crate) fn fill_long(
        &mut self,
        ingest: &mut Ingest,
        long: &mut LongMessage,
        source: &mut dyn Incoming,
    ) -> Option<usize> {
        let of = self.log_of(long)?;
        long.fill(ingest, of, source)
    }

    /// The log of a long message, and where its fragments go.
    fn log_of(&mut self, long: &LongMessage) -> Option<(&mut Log, Destination)> {
        let log = self.logs.get_mut(long.log? as usize)?;
        let destination = log.destination.ok()?;
        Some((log, destination))
    }
}
