//! The bytes of connections in a capture file, in the order in which they were sent: of each, what
//! goes to the port.
//!
//! Segments may be in any order, and come again. What is behind a gap is held, up to
//! [`AHEAD_BYTES_MAX`]; a gap that is not filled ends the reading of its connection. Each
//! connection holds a packet beside that.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A part of a connection's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The number of its first byte; with `begins` that of the byte before.
    pub(crate) sequence: u32,
    /// Whether the connection begins with it.
    pub(crate) begins: bool,
    pub(crate) payload: Vec<u8>,
}

/// Why nothing more is read of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A packet was refused.
    Refused,
    /// So many bytes are missing.
    Gap(u64),
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Bytes in order that were not taken out, and which byte of the connection is the first.
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: u64,
    /// Whether the file has its beginning.
    has_begin: bool,
    /// The sequence number of the next byte.
    next: u32,
    /// What is behind a gap, by the byte of the connection.
    ahead: BTreeMap<u64, Vec<u8>>,
    ahead_bytes: usize,
    end: Option<End>,
    unread_bytes: usize,
}

/// The connections of a capture.
#[derive(Debug, Default)]
pub(crate) struct Streams(BTreeMap<(SocketAddr, SocketAddr), Vec<Stream>>);

/// Bytes of a connection that are held behind a gap.
const AHEAD_BYTES_MAX: usize = 4 << 20;

impl Streams {
    /// Takes a segment. Returns its connection, which may have more bytes now.
    pub(crate) fn take(&mut self, segment: &Segment) -> Option<&mut Stream> {
        let Segment { from, to, sequence, begins, ref payload } = *segment;
        let all = self.0.entry((from, to)).or_default();
        let first = sequence.wrapping_add(u32::from(begins));
        // The same addresses may have one connection after another.
        let is_new = |last: &Stream| begins && !(last.has_begin && last.begins_at(first));
        if all.last().is_none_or(is_new) {
            all.push(Stream { has_begin: begins, next: first, ..Stream::default() });
        }
        let stream = all.last_mut()?;
        stream.take(first, payload);
        Some(stream)
    }

    /// All of them, by their senders.
    pub(crate) fn into_all(self) -> impl Iterator<Item = (SocketAddr, Stream)> {
        let of_sender = |((from, _), all): ((SocketAddr, SocketAddr), Vec<Stream>)| {
            all.into_iter().map(move |stream| (from, stream))
        };
        self.0.into_iter().flat_map(of_sender)
    }
}

impl Stream {
    /// Takes its first bytes out.
    pub(crate) fn advance(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.at += count as u64;
    }

    /// Nothing more is read of it.
    pub(crate) fn end_here(&mut self, end: End) {
        self.unread_bytes += self.bytes.len() + self.ahead_bytes;
        self.end = Some(end);
        (self.bytes, self.ahead, self.ahead_bytes) = (Vec::new(), BTreeMap::new(), 0);
    }

    /// What was not read of it, and why, at the file's end.
    pub(crate) fn ended(mut self, from: SocketAddr) -> Option<String> {
        let (at, begun) = (self.at, self.bytes.len());
        if let Some((&first, _)) = self.ahead.first_key_value() {
            self.end_here(End::Gap(first - self.known()));
        }
        let unread = self.unread_bytes + self.bytes.len();
        let why = match self.end {
            Some(End::Gap(missing)) => format!("the file lacks {missing} bytes of it"),
            Some(End::Refused) => "they follow a packet that was refused".to_owned(),
            None => format!("a packet that has begun at byte {at} has only {begun} of its bytes"),
        };
        // Where it begins for the file, a packet need not.
        let within = if self.has_begin { "" } else { ", and lacks its beginning" };
        (unread > 0).then(|| format!("not read: {unread} bytes from {from}: {why}{within}"))
    }

    /// Behind its last byte in order.
    fn known(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Whether that is the sequence number of its first byte.
    fn begins_at(&self, sequence: u32) -> bool {
        u64::from(self.next.wrapping_sub(sequence)) == self.known() & u64::from(u32::MAX)
    }

    fn take(&mut self, sequence: u32, payload: &[u8]) {
        // Up to 2 GiB ahead or behind.
        let ahead = i64::from(sequence.wrapping_sub(self.next).cast_signed());
        let behind = usize::try_from(-ahead).unwrap_or(0);
        let Some(new) = payload.get(behind..).filter(|new| !new.is_empty()) else { return };
        if self.end.is_some() {
            self.unread_bytes += new.len();
            return;
        }
        if ahead > 0 {
            let held = self.ahead.entry(self.known() + ahead.cast_unsigned()).or_default();
            if held.len() < new.len() {
                self.ahead_bytes += new.len() - held.len();
                *held = new.to_vec();
            }
            if self.ahead_bytes > AHEAD_BYTES_MAX
                && let Some((&first, _)) = self.ahead.first_key_value()
            {
                self.end_here(End::Gap(first - self.known()));
            }
            return;
        }
        self.append(new);
        while let Some((&place, _)) = self.ahead.first_key_value()
            && place <= self.known()
            && let Some(held) = self.ahead.remove(&place)
        {
            self.ahead_bytes -= held.len();
            let known = (self.known() - place) as usize;
            self.append(held.get(known..).unwrap_or_default());
        }
    }

    fn append(&mut self, new: &[u8]) {
        self.bytes.extend(new);
        self.next = self.next.wrapping_add(new.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: ([u8; 4], u16) = ([127, 0, 0, 1], 4_000);

    fn read(segments: &[(u32, bool, &[u8])]) -> Vec<(Vec<u8>, Option<String>)> {
        let mut streams = Streams::default();
        for &(sequence, begins, payload) in segments {
            let [from, to] = [FROM, ([127, 0, 0, 1], 20_100)].map(SocketAddr::from);
            let payload = payload.to_vec();
            streams.take(&Segment { from, to, sequence, begins, payload });
        }
        let ended = |(from, mut stream): (SocketAddr, Stream)| {
            let bytes = stream.bytes.clone();
            stream.advance(bytes.len());
            (bytes, stream.ended(from))
        };
        streams.into_all().map(ended).collect()
    }

    #[test]
    fn segments_are_put_in_order_over_the_wrap_and_what_comes_again_is_dropped() {
        let begin = u32::MAX - 3;
        let sent = [
            (begin, true, &b""[..]),
            (begin, true, b""),
            (2, false, b"fghi"),
            (begin + 1, false, b"abc"),
            (begin + 2, false, b"bcde"),
            (4, false, b"hi"),
            (6, false, b"j"),
        ];
        assert_eq!(read(&sent), [(b"abcdefghij".to_vec(), None)]);
    }

    #[test]
    fn a_gap_is_said_and_a_new_connection_of_the_same_addresses_is_another_one() {
        let sent =
            [(9, false, &b"ab"[..]), (15, false, b"xyz"), (100, true, b""), (101, false, b"c")];
        let said = "not read: 3 bytes from 127.0.0.1:4000: the file lacks 4 bytes of it, and lacks \
                    its beginning";
        let first = (b"ab".to_vec(), Some(said.to_owned()));
        assert_eq!(read(&sent), [first, (b"c".to_vec(), None)]);
    }
}
