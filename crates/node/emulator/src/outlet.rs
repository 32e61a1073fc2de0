//! Sends packets: injects faults and counts the result of each packet.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use catchment_frontend::{Frontend, Release};
use catchment_net::{Datagram, NetError, Sent, UdpSender};

use crate::EmulatorError;
use crate::config::Faults;
use crate::faults::{Fault, FaultPlan};
use crate::link_config::EmulatedLink;
use crate::report::SourceReport;
use crate::stream::{BoardStream, Waits};

/// One sender for all sources, with their counts.
#[derive(Debug)]
pub(crate) struct Outlet<'a> {
    sender: UdpSender,
    /// By source, its session, if it has one; empty if none has.
    sessions: Vec<Option<Frontend>>,
    /// By source, its connection, if its packets follow each other on one; empty if none has one.
    streams: Vec<Option<BoardStream>>,
    waits: Waits<'a>,
    plan: Option<FaultPlan>,
    sources: Vec<Source>,
    // The packets of one batch being sent, with injected faults.
    queue: Vec<Datagram>,
    spare: Vec<u8>,
    sent: Sent,
    corrupt_bit: CorruptBit,
}

/// The bit of a packet to flip, counted from its beginning, for a number below
/// [`CORRUPT_BITS`](crate::faults::CORRUPT_BITS): one where the protocol must detect it.
pub(crate) type CorruptBit = fn(&[u8], usize) -> usize;

#[derive(Debug, Default)]
struct Source {
    report: SourceReport,
    packets_made: u64,
    // A packet held until the source's next one has been sent.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    fragments: u64,
}

impl<'a> Outlet<'a> {
    /// One without sessions and connections of boards. These wait less once `stop` is set.
    pub fn new(
        targets: &[SocketAddr],
        seed: u64,
        faults: &Faults,
        corrupt_bit: CorruptBit,
        stop: &'a AtomicBool,
    ) -> Result<Self, NetError> {
        Ok(Self {
            sender: UdpSender::connect(targets)?,
            sessions: Vec::new(),
            streams: Vec::new(),
            waits: Waits::new(stop),
            plan: FaultPlan::new(seed, faults),
            sources: targets.iter().map(|_| Source::default()).collect(),
            queue: Vec::new(),
            spare: Vec::new(),
            sent: Sent::default(),
            corrupt_bit,
        })
    }

    /// Connects to the targets of the sources of which that is said.
    pub fn open_streams(
        &mut self,
        targets: &[SocketAddr],
        are_streams: impl Iterator<Item = bool>,
    ) -> Result<(), NetError> {
        let open = |(target, is_stream): (&SocketAddr, bool)| {
            is_stream.then(|| BoardStream::open(*target)).transpose()
        };
        self.streams = targets.iter().zip(are_streams).map(open).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Nothing more is due: all that is left waits for recorders no longer than one packet may.
    pub fn begin_end(&mut self) {
        self.waits.end(Instant::now());
    }

    /// Ends the connections of boards, when what was sent over them has been read.
    pub fn end_streams(&mut self) {
        BoardStream::end_all(&mut self.streams);
    }

    /// Opens sessions to the targets, for the sources that have a name.
    pub fn connect(&mut self, links: &[EmulatedLink]) -> Result<(), EmulatorError> {
        let connect = |link: &EmulatedLink| {
            let Some(name) = &link.session else { return Ok(None) };
            let url = format!("catchment+tcp://{}", link.target);
            // Nobody waits until a whole frame of channels is on a disk.
            Frontend::channels(&url, name).release(Release::Taken).connect().map(Some)
        };
        if links.iter().any(|link| link.session.is_some()) {
            self.sessions = links.iter().map(connect).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Waits until all that was sent over sessions is taken. What is not was not sent.
    pub fn close(&mut self) {
        for (session, source) in self.sessions.drain(..).zip(&mut self.sources) {
            let Some(session) = session else { continue };
            let left = session.close(SESSION_WAITS).not_confirmed;
            source.report.packets_sent = source.report.packets_sent.saturating_sub(left);
            source.report.packets_unsent += left;
        }
    }

    /// Sends the packets in `buffer`, each with that many fragments, with the drawn faults.
    pub fn ship(&mut self, source: u32, buffer: &[u8], packets: &[Datagram], fragments: u64) {
        if self.plan.is_none() {
            self.send(source, buffer, packets, fragments);
            return;
        }
        let mut queue = std::mem::take(&mut self.queue);
        for &packet in packets {
            let bytes = &buffer[packet.offset as usize..][..packet.bytes as usize];
            match self.draw(source) {
                Fault::None => queue.push(packet),
                Fault::Duplicate => {
                    queue.extend([packet, packet]);
                    let report = &mut self.sources[source as usize].report;
                    report.packets_duplicated += 1;
                    report.fragments_duplicated += fragments;
                }
                Fault::Lose => {
                    let report = &mut self.sources[source as usize].report;
                    report.packets_lost += 1;
                    report.fragments_lost += fragments;
                }
                Fault::Reorder => {
                    let held = Held { bytes: bytes.to_vec(), fragments };
                    self.sources[source as usize].held = Some(held);
                    continue;
                }
                Fault::Corrupt(bit) => {
                    self.send(source, buffer, &queue, fragments);
                    queue.clear();
                    self.send_corrupted(source, bytes, bit, fragments);
                }
            }
            if let Some(held) = self.sources[source as usize].held.take() {
                self.send(source, buffer, &queue, fragments);
                queue.clear();
                let report = &mut self.sources[source as usize].report;
                report.packets_reordered += 1;
                report.fragments_reordered += held.fragments;
                self.send_whole(source, &held.bytes, held.fragments);
            }
        }
        self.send(source, buffer, &queue, fragments);
        queue.clear();
        self.queue = queue;
    }

    /// Sends the held packet of that source, if any, since no other will overtake it any more.
    pub fn release(&mut self, source: u32) {
        if let Some(held) = self.sources[source as usize].held.take() {
            self.send_whole(source, &held.bytes, held.fragments);
        }
    }

    /// Sends one packet that is in no report, without faults; returns whether the kernel accepted
    /// it.
    pub fn send_aside(&mut self, source: u32, bytes: &[u8]) -> bool {
        if self.sessions.get(source as usize).is_some_and(Option::is_some) {
            // A session says by itself that it is alive.
            return false;
        }
        let packet = Datagram { offset: 0, bytes: bytes.len() as u32 };
        let sent = self.sender.send(source as usize, bytes, &[packet]);
        self.sent.add(&sent);
        sent.datagrams == 1
    }

    /// The total sent by all sources since the last call.
    pub fn take_sent(&mut self) -> Sent {
        std::mem::take(&mut self.sent)
    }

    pub fn report(&mut self, source: u32) -> &mut SourceReport {
        &mut self.sources[source as usize].report
    }

    pub fn into_reports(self) -> Vec<SourceReport> {
        self.sources.into_iter().map(|source| source.report).collect()
    }

    fn draw(&mut self, source: u32) -> Fault {
        let state = &mut self.sources[source as usize];
        let number = state.packets_made;
        state.packets_made += 1;
        // The packet sent before a held one has already been part of a fault.
        match &self.plan {
            Some(plan) if state.held.is_none() => plan.draw(source, number),
            _ => Fault::None,
        }
    }

    fn send_corrupted(&mut self, source: u32, bytes: &[u8], bit: usize, fragments: u64) {
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        spare.extend_from_slice(bytes);
        let bit = (self.corrupt_bit)(bytes, bit);
        spare[bit / 8] ^= 1 << (bit % 8);
        let report = &mut self.sources[source as usize].report;
        report.packets_corrupted += 1;
        report.fragments_corrupted += fragments;
        self.send_whole(source, &spare, fragments);
        self.spare = spare;
        // It ends its connection: nothing is lost behind it that is in no report.
        if let Some(Some(stream)) = self.streams.get_mut(source as usize) {
            stream.end(&mut self.waits);
        }
    }

    fn send_whole(&mut self, source: u32, bytes: &[u8], fragments: u64) {
        self.send(source, bytes, &[Datagram { offset: 0, bytes: bytes.len() as u32 }], fragments);
    }

    fn send(&mut self, source: u32, buffer: &[u8], packets: &[Datagram], fragments: u64) {
        let index = source as usize;
        let sent = match (self.sessions.get(index), self.streams.get_mut(index)) {
            (Some(Some(session)), _) => send_over(session, buffer, packets),
            (_, Some(Some(stream))) => stream.send(buffer, packets, &mut self.waits),
            _ => self.sender.send(index, buffer, packets),
        };
        let report = &mut self.sources[source as usize].report;
        report.packets_sent += sent.datagrams;
        report.fragments_sent += sent.datagrams * fragments;
        report.bytes_sent += sent.bytes;
        report.packets_unsent += sent.unsent;
        report.fragments_unsent += sent.unsent * fragments;
        self.sent.add(&sent);
    }
}

/// Sends packets over a session, and waits where its recorder does not take them.
fn send_over(session: &Frontend, buffer: &[u8], packets: &[Datagram]) -> Sent {
    let mut sent = Sent::default();
    for packet in packets {
        let bytes = &buffer[packet.offset as usize..][..packet.bytes as usize];
        match session.sources()[0].send_packet_within(bytes, SESSION_WAITS) {
            Ok(true) => {
                sent.datagrams += 1;
                sent.bytes += bytes.len() as u64;
            }
            Ok(false) | Err(_) => sent.unsent += 1,
        }
    }
    sent
}

/// How long a packet waits for a recorder that takes nothing, and the end for the last one.
const SESSION_WAITS: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::stream::PATIENCE;

    #[test]
    fn once_boards_have_waited_for_the_end_none_waits_any_more_or_connects_again() {
        const BOARDS: u32 = 3;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let targets = [listener.local_addr().unwrap(); BOARDS as usize];
        let stop = AtomicBool::new(false);
        let faults = Faults::default();
        let mut outlet = Outlet::new(&targets, 1, &faults, |_, bit| bit, &stop).unwrap();
        outlet.open_streams(&targets, [true; BOARDS as usize].into_iter()).unwrap();
        outlet.waits.end(Instant::now().checked_sub(PATIENCE).unwrap());
        let (bytes, packet) = (vec![0; 1 << 20], Datagram { offset: 0, bytes: 1 << 20 });
        for board in 0..BOARDS {
            // Nobody reads, and so the sockets are full some time.
            while outlet.report(board).packets_unsent == 0 {
                outlet.ship(board, &bytes, &[packet], 1);
            }
            outlet.ship(board, &bytes, &[packet], 1);
            assert_eq!(outlet.report(board).packets_unsent, 2);
        }
        outlet.end_streams();
        let connections = listener.incoming().map_while(Result::ok).count();
        assert_eq!(connections, BOARDS as usize);
    }
}
