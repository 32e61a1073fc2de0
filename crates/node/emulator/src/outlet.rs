//! Sends packets: injects faults and counts the result of each packet.

use std::net::SocketAddr;

use catchment_net::{Datagram, NetError, Sent, UdpSender};

use crate::config::Faults;
use crate::faults::{Fault, FaultPlan};
use crate::report::SourceReport;

/// One sender for all sources, with their counts.
#[derive(Debug)]
pub(crate) struct Outlet {
    sender: UdpSender,
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

impl Outlet {
    pub fn new(
        targets: &[SocketAddr],
        seed: u64,
        faults: &Faults,
        corrupt_bit: CorruptBit,
    ) -> Result<Self, NetError> {
        Ok(Self {
            sender: UdpSender::connect(targets)?,
            plan: FaultPlan::new(seed, faults),
            sources: targets.iter().map(|_| Source::default()).collect(),
            queue: Vec::new(),
            spare: Vec::new(),
            sent: Sent::default(),
            corrupt_bit,
        })
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
    }

    fn send_whole(&mut self, source: u32, bytes: &[u8], fragments: u64) {
        self.send(source, bytes, &[Datagram { offset: 0, bytes: bytes.len() as u32 }], fragments);
    }

    fn send(&mut self, source: u32, buffer: &[u8], packets: &[Datagram], fragments: u64) {
        let sent = self.sender.send(source as usize, buffer, packets);
        let report = &mut self.sources[source as usize].report;
        report.packets_sent += sent.datagrams;
        report.fragments_sent += sent.datagrams * fragments;
        report.bytes_sent += sent.bytes;
        report.packets_unsent += sent.unsent;
        report.fragments_unsent += sent.unsent * fragments;
        self.sent.add(&sent);
    }
}
