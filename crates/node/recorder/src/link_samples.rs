//! The log of a channel link: its items are packets, each with parts of many channels
//! (docs/spec/session.md, section 11).
//!
//! Repeats are dropped by their sequence before they are decoded. Parts go to chunks as those of
//! datagrams do, but nothing is lost for want of memory: the connection is held, and the rest of
//! the packet is taken when there is memory. A *mark* goes to the build agent wherever the slice
//! changes, so that it knows the sequences of whole slices (`tape.rs`).

use std::sync::Arc;

use catchment_builder::{Fragment, FragmentFlags, NoteKind};
use catchment_model::Entry;
use catchment_wire::channel_link::Samples;
use catchment_wire::session::Fault;
use catchment_wire::{Decoder, Part, Protocol};

use crate::destinations::Destination;
use crate::ingest::{Ingest, Refused};
use crate::link_log::{HELD, Log, TAKEN, Taken, store_long};
use crate::link_session::Session;

/// What the log of a channel link has beside its sequences.
pub(crate) struct SampleLog {
    pub(crate) session: u64,
    protocol: Arc<dyn Protocol>,
    decoder: Box<dyn Decoder>,
    /// By channel.
    lanes: Arc<[Destination]>,
    /// The parts of the packet that was decoded last; if some wait for memory, its sequence, and
    /// how many were taken.
    parts: Vec<Part>,
    held: Option<(u64, usize)>,
    flags: u8,
    /// The slice of the last mark.
    slice: Option<u64>,
}

impl SampleLog {
    pub(crate) fn new(protocol: &Arc<dyn Protocol>, lanes: &Arc<[Destination]>) -> Self {
        Self {
            session: 0,
            decoder: protocol.decoder(),
            protocol: Arc::clone(protocol),
            lanes: Arc::clone(lanes),
            parts: Vec::new(),
            held: None,
            flags: 0,
            slice: None,
        }
    }

    /// Decodes a packet. Returns false if it is malformed, and counted as that.
    fn decode(&mut self, ingest: &mut Ingest, account: usize, packet: &[u8]) -> bool {
        self.parts.clear();
        let decoded = match self.decoder.decode(ingest.now_ns(), packet, &mut self.parts) {
            Ok(decoded) => decoded,
            Err(index) => {
                self.parts.clear();
                let refused = Refused { index, reason: self.protocol.reasons()[index] };
                ingest.malformed(account, refused, || self.decoder.explain(packet), packet);
                return false;
            }
        };
        ingest.count(account, Entry::PacketsMissing, decoded.missing);
        self.flags = if decoded.sent_once { FragmentFlags::SENT_ONCE } else { 0 };
        true
    }

    /// Takes a part that lies within the packet.
    fn take_part(&self, ingest: &mut Ingest, part: &Part, packet: &[u8], flags: u8) -> Taken {
        let Destination { source, account, chunk, align, .. } = self.lanes[part.lane as usize];
        let account = account as usize;
        if !ingest.has_place(account) {
            return HELD;
        }
        let begin = part.offset as usize;
        let stored = match &packet[begin..begin + part.bytes as usize] {
            // A channel without samples in the slice is recorded as such, and takes no memory.
            [] => Some(0),
            bytes if bytes.len() > ingest.pool().chunk_bytes() => {
                store_long(ingest, account, bytes)
            }
            bytes => ingest.store(account, chunk as usize, bytes, align as usize),
        };
        let Some(offset) = stored else { return HELD };
        let fragment = Fragment::new(source, part.number, offset, part.bytes);
        // It is counted when a frame decides it (`tape.rs`).
        ingest.describe_waiting(account, Fragment { flags, ..fragment });
        TAKEN
    }
}

impl Log {
    /// Says to the build agent which item of a channel link is the next.
    pub(crate) fn mark(&self, ingest: &mut Ingest) {
        if let (Some(samples), Ok(destination)) = (&self.samples, self.destination) {
            let (source, kind) = (destination.source, NoteKind::Session);
            ingest.describe(Fragment::note(source, kind, samples.session, self.taken));
        }
    }

    /// Takes a packet, of which parts may have been taken when it was held. What is in a packet
    /// costs the packet and not its connection.
    fn take_samples(
        &mut self,
        ingest: &mut Ingest,
        account: usize,
        (fixed, packet): (&Samples, &[u8]),
    ) -> Result<Taken, Fault> {
        let is_item = Samples::is_item(packet);
        let is_repeat = self.repeats(fixed.sequence, is_item.into())? > 0;
        if self.is_outside() && !is_repeat {
            if is_item {
                self.pass_outside(ingest, packet.len() as u64);
            }
            // It is durable when the build agent has come here, though no slice begins.
            self.mark(ingest);
            ingest.count(account, Entry::PacketsAccepted, 1);
            return Ok(TAKEN);
        }
        let Some(samples) = &mut self.samples else { return Ok(TAKEN) };
        if is_repeat || fixed.sequence < self.taken {
            ingest.count(account, Entry::FragmentsRepeated, is_item.into());
            ingest.count(account, Entry::PacketsAccepted, 1);
            return Ok(TAKEN);
        }
        if !is_item && samples.held.is_some() {
            // A sign of life before the packet that was held, which comes again after a break.
            ingest.count(account, Entry::PacketsAccepted, 1);
            return Ok(TAKEN);
        }
        let held = samples.held.take().filter(|(sequence, _)| *sequence == fixed.sequence);
        let is_good =
            held.is_some() || packet.is_empty() || samples.decode(ingest, account, packet);
        let first = held.map_or(0, |(_, taken)| taken);
        if packet.is_empty() {
            samples.parts.clear();
        }
        let slice = samples.parts.first().map(|part| part.number);
        let is_next = slice.is_some() && slice != samples.slice;
        samples.slice = slice.or(samples.slice);
        if is_next && held.is_none() || is_good && !is_item {
            self.mark(ingest);
        }
        let Some(samples) = &mut self.samples else { return Ok(TAKEN) };
        let mut before = None;
        for index in first..samples.parts.len() {
            let part = samples.parts[index];
            let continues = if before == Some(part.lane) { FragmentFlags::CONTINUES } else { 0 };
            before = Some(part.lane);
            let flags = samples.flags | continues;
            if samples.take_part(ingest, &part, packet, flags).is_break() {
                samples.held = Some((fixed.sequence, index));
                return Ok(HELD);
            }
        }
        self.taken += u64::from(is_item);
        ingest.count(account, Entry::PacketsAccepted, is_good.into());
        Ok(TAKEN)
    }
}

impl Session {
    /// Takes a packet of a channel link, in a message of `used` bytes.
    pub(crate) fn take_samples(
        &mut self,
        ingest: &mut Ingest,
        connection: u16,
        (fixed, packet): (&Samples, &[u8]),
        used: usize,
    ) -> Result<Taken, Fault> {
        let log = self.log(fixed.log, connection)?;
        let Ok(destination) = log.destination else {
            return Err(Fault::UnknownLog { got: fixed.log });
        };
        let account = destination.account as usize;
        let taken = log.take_samples(ingest, account, (fixed, packet))?;
        if taken.is_continue() {
            let counts = ingest.counts(account);
            counts[Entry::PacketsReceived] += 1;
            counts[Entry::PacketBytesReceived] += used as u64;
        }
        Ok(taken)
    }

    /// Says to the build agent where its logs end.
    pub(crate) fn mark(&self, ingest: &mut Ingest) {
        self.logs.iter().for_each(|log| log.mark(ingest));
    }
}
