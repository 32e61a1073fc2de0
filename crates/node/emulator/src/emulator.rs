//! Emulated sources: their events, made and sent tick by tick.

use std::sync::atomic::AtomicBool;

use catchment_model::limits::DATAGRAM_BYTES_MAX;
use catchment_net::{Datagram, NetError, Sent};
use catchment_wire::hadtu::{
    ByteOrder, PACKET_BYTES_MIN, PACKET_HEADER_BYTES, PacketEncoder, SUB_EVENT_DECODING,
    SUB_EVENT_HEADER_BYTES, SubEventHeader, TRAILER_BYTES,
};
use catchment_wire::layouts::EncodeError;

use crate::boards::{Board, Pending, Stamp, draw_groups, groups_of};
use crate::config::{ConfigError, EmulatedSource, EmulatorConfig};
use crate::content::{Content, Draw, OVERSHOOT_BYTES};
use crate::faults::CORRUPT_BITS;
use crate::outlet::Outlet;
use crate::pace::Schedule;
use crate::report::{EmulatorLive, EmulatorReport};
use crate::sender::Traffic;
use crate::thread::send;

/// Why an emulator did not run.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// Its configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its sockets could not be made, or its CPU was not available.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A front-end that the recorder does not take, or not any more.
    #[error(transparent)]
    Frontend(#[from] catchment_frontend::Error),
    /// The timer that gives the ticks cannot be reached, or is gone.
    #[error("the timer {address}: {source}")]
    Timer {
        /// Where it was looked for.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The system refused a thread.
    #[error("a thread: {0}")]
    Thread(std::io::Error),
    /// Its thread panicked: a defect.
    #[error("the emulator's thread failed")]
    Panicked,
}

/// An emulated detector, checked and ready to run.
#[derive(Clone, Debug)]
pub struct Emulator {
    config: EmulatorConfig,
    content: Content,
}

impl Emulator {
    /// Checks the configuration and computes the tables.
    ///
    /// # Errors
    /// An invalid configuration.
    pub fn new(config: EmulatorConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let content = Content::of(&config);
        Ok(Self { config, content })
    }

    /// The configuration.
    pub fn config(&self) -> &EmulatorConfig {
        &self.config
    }

    /// The content that it sends.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Its sources whose packets are declared.
    fn boards(&self) -> impl Iterator<Item = &Board> + Clone {
        self.config.sources.iter().filter_map(|source| source.board.as_ref())
    }

    /// Sends on the calling thread until the configured end, or until `stop` is set.
    ///
    /// # Errors
    /// Sockets that cannot be made, or an unavailable CPU. Later refusals by the kernel are counted
    /// in the report.
    pub fn run(
        &self,
        stop: &AtomicBool,
        live: &EmulatorLive,
    ) -> Result<EmulatorReport, EmulatorError> {
        let EmulatorConfig { targets, seed, faults, cpu, first_event, .. } = &self.config;
        let has_boards = self.boards().next().is_some();
        let corrupt_bit = if has_boards { corrupt_any_bit } else { corrupt_bit };
        let schedule = Schedule::of(&self.config);
        let mut outlet = Outlet::new(targets, *seed, faults, corrupt_bit, stop)?;
        let boards = self.config.sources.iter().map(|source| source.board.as_ref());
        outlet.open_streams(targets, boards.map(|board| board.is_some_and(Board::is_stream)))?;
        let sent = send(*cpu, &schedule, Run::new(self, outlet), stop, live)?;
        Ok(EmulatorReport {
            seed: *seed,
            first_event: *first_event,
            events: sent.events,
            seconds: sent.seconds,
            cpu_ns: sent.cpu_ns,
            refused: sent.refused,
            sources: sent.traffic.outlet.into_reports(),
        })
    }
}

/// The state of a run.
struct Run<'a> {
    config: &'a EmulatorConfig,
    content: &'a Content,
    outlet: Outlet<'a>,
    // With a water mark, one queue per source.
    queues: Vec<Queue>,
    // Without one, the packets of one source at a time, one after another: so much of the batch is
    // used, and of boards each packet has so many fragments.
    batch: Box<[u8]>,
    used: usize,
    packets: Vec<Datagram>,
    fragments: u64,
    /// By source, what waits of a board; and all groups that they are in.
    pending: Vec<Pending>,
    groups: u64,
    tags: Vec<u8>,
    /// By event of the tick, its time since the beginning, for clocks.
    times: Vec<u64>,
    /// The last of them; where the clocks began; the time at which a source restarted.
    last_ns: u64,
    first_ns: u64,
    restarted_ns: u64,
    /// The next event.
    next: u64,
}

/// A source's unfinished packet.
struct Queue {
    buffer: Box<[u8]>,
    used: usize,
    fragments: u64,
    since_ns: u64,
}

impl Queue {
    fn new() -> Self {
        let buffer = vec![0; DATAGRAM_BYTES_MAX + OVERSHOOT_BYTES].into();
        Self { buffer, used: PACKET_HEADER_BYTES, fragments: 0, since_ns: 0 }
    }
}

impl<'a> Run<'a> {
    fn new(emulator: &'a Emulator, outlet: Outlet<'a>) -> Self {
        let config = &emulator.config;
        let alone = config.water_mark_bytes == 0;
        let queues = if alone { 0 } else { config.sources.len() };
        let has_boards = emulator.boards().next().is_some();
        let has_batch = alone || has_boards;
        let pending = |source: &EmulatedSource| {
            let of_board = |board: &Board| board.pending(alone, config.first_event);
            source.board.as_ref().map_or_else(Pending::default, of_board)
        };
        Self {
            config,
            content: &emulator.content,
            outlet,
            queues: (0..queues).map(|_| Queue::new()).collect(),
            batch: vec![0; if has_batch { BATCH_BYTES } else { 0 }].into(),
            used: 0,
            packets: Vec::new(),
            fragments: 1,
            pending: config.sources.iter().map(pending).collect(),
            groups: groups_of(emulator.boards()),
            tags: Vec::new(),
            times: Vec::new(),
            last_ns: 0,
            first_ns: config.clocks.first_ns(emulator.boards()),
            restarted_ns: 0,
            next: config.first_event,
        }
    }

    /// Makes `count` events, source by source, and sends full packets.
    fn make(&mut self, first: u64, count: u64, now_ns: u64) {
        self.tags.clear();
        self.tags.extend((first..first + count).map(|event| self.content.tag(event)));
        self.pass_time(first, count, now_ns);
        for source in 0..self.config.sources.len() as u32 {
            // A source may be killed or restarted in the middle of a tick.
            let end = match self.config.faults.kill {
                Some((killed, event)) if killed == source => event.clamp(first, first + count),
                _ => first + count,
            };
            let anew = match self.config.faults.restart {
                Some((restarted, event)) if restarted == source => event.clamp(first, end),
                _ => end,
            };
            let restart_at = self.config.faults.restart.map_or(0, |(_, event)| event);
            if anew < end && anew == restart_at {
                self.restarted_ns = self.times[(anew - first) as usize];
            }
            let mut absent = [0; 2];
            let spans = [(first..anew, 0), (anew..end, restart_at)];
            for ((events, zero), absent) in spans.into_iter().zip(&mut absent) {
                if events.is_empty() {
                    continue;
                }
                let tags = (events.start - first) as usize..(events.end - first) as usize;
                let span = Span { source, first: events.start, zero, tags };
                match &self.config.sources[source as usize].board {
                    Some(board) => *absent = self.declared(&span, board, now_ns),
                    None if self.queues.is_empty() => self.alone(&span),
                    None => self.queued(&span, now_ns),
                }
            }
            let board = self.config.sources[source as usize].board.as_ref();
            let pieces = board.map_or(1, |board| board.pieces.into());
            let report = self.outlet.report(source);
            report.fragments_made += (end - first - absent[0] - absent[1]) * pieces;
            report.fragments_restarted += (end - anew - absent[1]) * pieces;
            report.fragments_killed += (first + count - end) * pieces;
            if end < first + count {
                self.flush_one(source);
                self.outlet.release(source);
            }
        }
    }

    /// Appends sub-events to their source's queue, and sends it whenever it is full.
    fn queued(&mut self, span: &Span, now_ns: u64) {
        let order = self.config.byte_order;
        let queue = &mut self.queues[span.source as usize];
        let mut header = span.header(self.config);
        for (index, &tag) in self.tags[span.tags.clone()].iter().enumerate() {
            let event = span.first + index as u64;
            let draw = self.content.draw(span.source, event);
            header.trigger_number = (event - span.zero) as u32;
            header.trigger_tag = tag;
            loop {
                let mut encoder = PacketEncoder::resume(&mut queue.buffer, order, queue.used);
                let fill = |room: &mut [u8]| self.content.fill_beyond(draw, room);
                if encoder.push_with(&header, draw.bytes, fill) {
                    queue.used = encoder.used();
                    break;
                }
                // Every payload fits into an empty packet, so this happens once.
                ship(&mut self.outlet, span.source, queue, self.config);
            }
            if queue.fragments == 0 {
                queue.since_ns = now_ns;
            }
            queue.fragments += 1;
            if queue.used >= self.config.water_mark_bytes {
                ship(&mut self.outlet, span.source, queue, self.config);
            }
        }
    }

    /// Makes a packet of every sub-event, and sends them together.
    fn alone(&mut self, span: &Span) {
        let mut header = span.header(self.config);
        let mut used = 0;
        for (index, &tag) in self.tags[span.tags.clone()].iter().enumerate() {
            let event = span.first + index as u64;
            let draw = self.content.draw(span.source, event);
            header.trigger_number = (event - span.zero) as u32;
            header.trigger_tag = tag;
            let bytes_max = PACKET_BYTES_MIN + SUB_EVENT_HEADER_BYTES + draw.bytes + 7;
            if used + bytes_max + OVERSHOOT_BYTES > self.batch.len() {
                self.outlet.ship(span.source, &self.batch, &self.packets, 1);
                self.packets.clear();
                used = 0;
            }
            let room = &mut self.batch[used..];
            let mut encoder = PacketEncoder::begin(room, self.config.byte_order);
            let fill = |room: &mut [u8]| self.content.fill_beyond(draw, room);
            assert!(encoder.push_with(&header, draw.bytes, fill), "there is room for it");
            let bytes = encoder.finish();
            self.packets.push(Datagram { offset: used as u32, bytes: bytes as u32 });
            used += bytes;
        }
        self.outlet.ship(span.source, &self.batch, &self.packets, 1);
        self.packets.clear();
    }

    /// The times of a tick's events: those of the schedule, or, without a rate, evenly up to now.
    fn pass_time(&mut self, first: u64, count: u64, now_ns: u64) {
        self.times.clear();
        let since = first - self.config.first_event;
        match self.config.rate_hz {
            Some(rate_hz) => {
                let at = |event: u64| (event as f64 * 1e9 / rate_hz) as u64;
                self.times.extend((since..since + count).map(at));
            }
            None => {
                let passed_ns = now_ns.saturating_sub(self.last_ns) / count.max(1);
                let (last_ns, step_ns) = (self.last_ns, passed_ns.max(STEP_NS_MIN));
                self.times.extend((1..=count).map(|step| last_ns + step * step_ns));
                self.last_ns += count * step_ns;
            }
        }
    }

    /// Makes the packets of a board's fragments, and sends those that are full. Returns how many it
    /// does not send, since their events are of groups that it is not in.
    fn declared(&mut self, span: &Span, board: &Board, now_ns: u64) -> u64 {
        let source = span.source as usize;
        let place = (source, self.config.sources.len());
        let is_restarted = span.zero > 0;
        let first_ns = if is_restarted { 0 } else { self.first_ns };
        let zero_ns = if is_restarted { self.restarted_ns } else { 0 };
        if is_restarted && span.first == span.zero {
            self.pack(span.source, board);
            self.pending[source].sequence = 0;
        }
        let mut absent = 0;
        for index in 0..span.tags.len() {
            let event = span.first + index as u64;
            let groups = draw_groups(self.groups, self.config.seed, event);
            if !board.takes_part(groups) {
                absent += 1;
                continue;
            }
            let draw = board.fitted(event - span.zero, self.content.draw(span.source, event));
            let mut stamp = Stamp {
                since_ns: self.times[span.tags.start + index] - zero_ns,
                clock_ns: 0,
                draw,
                position: 0,
                total: draw.bytes,
                kind: 0,
                number: event - span.zero,
                tag: self.tags[span.tags.start + index],
                id: self.config.sources[source].sub_event_id,
                groups,
                is_big: self.config.byte_order == ByteOrder::Big,
            };
            stamp.clock_ns = self.config.clocks.at(place, (board, first_ns), &stamp);
            for piece in 0..u64::from(board.pieces) {
                let draw = Draw { h: draw.h ^ piece, ..draw };
                for part in board.parts(Stamp { draw, ..stamp }) {
                    self.queue_part(span.source, board, part, now_ns);
                }
            }
        }
        self.ship_batch(span.source);
        absent
    }

    /// Has a fragment of a board, or a part of one, wait for its packet, and makes those that are
    /// full.
    fn queue_part(&mut self, source: u32, board: &Board, part: Stamp, now_ns: u64) {
        if !self.pending[source as usize].fits(board, &part) {
            self.pack(source, board);
        }
        let pending = &mut self.pending[source as usize];
        if pending.stamps.is_empty() {
            pending.since_ns = now_ns;
        }
        pending.stamps.push(part);
        pending.records_bytes += board.record_bytes(&part);
        if pending.is_full(board, self.config.water_mark_bytes) {
            self.pack(source, board);
        }
    }

    /// Makes a packet of what waits of a board, and the one without fragments that follows it.
    fn pack(&mut self, source: u32, board: &Board) {
        let stamps = &self.pending[source as usize].stamps;
        let Some(&last) = stamps.last() else { return };
        let content = self.content;
        let fill = |draw, begin, room: &mut [u8]| content.fill_from(draw, begin, room);
        let fragments = stamps.iter().filter(|stamp| stamp.is_last()).count() as u64;
        self.begin_packet(source, fragments);
        let pending = &mut self.pending[source as usize];
        let room = &mut self.batch[self.used..][..DATAGRAM_BYTES_MAX + OVERSHOOT_BYTES];
        let made = board.encode(&pending.stamps, pending.sequence, room, fill);
        pending.stamps.clear();
        pending.records_bytes = 0;
        self.end_packet(source, made);
        let sequence = self.pending[source as usize].sequence;
        let Some(layouts) = board.aside(sequence) else { return };
        self.begin_packet(source, 0);
        let room = &mut self.batch[self.used..][..DATAGRAM_BYTES_MAX + OVERSHOOT_BYTES];
        let made = last.encode_aside(layouts, sequence, room, fill);
        self.end_packet(source, made);
    }

    /// Has room for another packet in a batch of packets with that many fragments.
    fn begin_packet(&mut self, source: u32, fragments: u64) {
        let is_full = self.used + DATAGRAM_BYTES_MAX + OVERSHOOT_BYTES > self.batch.len();
        if is_full || fragments != self.fragments {
            self.ship_batch(source);
            self.fragments = fragments;
        }
    }

    fn end_packet(&mut self, source: u32, made: Result<usize, EncodeError>) {
        self.pending[source as usize].sequence += 1;
        let Ok(bytes) = made else {
            let report = self.outlet.report(source);
            report.packets_unsent += 1;
            report.fragments_unsent += self.fragments;
            return;
        };
        self.packets.push(Datagram { offset: self.used as u32, bytes: bytes as u32 });
        self.used += bytes;
    }

    /// Sends the packets that were made of a board's fragments.
    fn ship_batch(&mut self, source: u32) {
        self.outlet.ship(source, &self.batch, &self.packets, self.fragments);
        self.packets.clear();
        self.used = 0;
    }

    /// Sends every queue whose oldest sub-event has waited long enough.
    fn flush(&mut self, now_ns: u64) {
        for source in 0..self.queues.len() {
            let queue = &self.queues[source];
            if queue.fragments > 0 && now_ns - queue.since_ns >= self.config.flush_ns {
                self.flush_one(source as u32);
            }
        }
        for source in 0..self.pending.len() {
            let pending = &self.pending[source];
            let is_due = now_ns.saturating_sub(pending.since_ns) >= self.config.flush_ns;
            if !pending.stamps.is_empty() && is_due {
                self.flush_one(source as u32);
            }
        }
    }

    fn flush_one(&mut self, source: u32) {
        if let Some(board) = &self.config.sources[source as usize].board {
            self.pack(source, board);
            return self.ship_batch(source);
        }
        if let Some(queue) = self.queues.get_mut(source as usize).filter(|q| q.fragments > 0) {
            ship(&mut self.outlet, source, queue, self.config);
        }
    }
}

impl Traffic for Run<'_> {
    fn send(&mut self, due: u64, elapsed_ns: u64) -> u64 {
        self.make(self.next, due, elapsed_ns);
        self.flush(elapsed_ns);
        self.next += due;
        due
    }

    fn finish(&mut self) -> u64 {
        self.outlet.begin_end();
        for source in 0..self.config.sources.len() as u32 {
            self.flush_one(source);
            self.outlet.release(source);
        }
        self.outlet.end_streams();
        0
    }

    fn take_sent(&mut self) -> Sent {
        self.outlet.take_sent()
    }
}

fn ship(outlet: &mut Outlet<'_>, source: u32, queue: &mut Queue, config: &EmulatorConfig) {
    let encoder = PacketEncoder::resume(&mut queue.buffer, config.byte_order, queue.used);
    let packet = Datagram { offset: 0, bytes: encoder.finish() as u32 };
    outlet.ship(source, &queue.buffer, &[packet], queue.fragments);
    queue.used = PACKET_HEADER_BYTES;
    queue.fragments = 0;
}

/// Events of one source whose trigger numbers count from the same zero.
struct Span {
    source: u32,
    first: u64,
    zero: u64,
    tags: std::ops::Range<usize>,
}

impl Span {
    fn header(&self, config: &EmulatorConfig) -> SubEventHeader {
        SubEventHeader {
            decoding: SUB_EVENT_DECODING,
            id: config.sources[self.source as usize].sub_event_id,
            error: false,
            trigger_number: 0,
            trigger_tag: 0,
        }
    }
}

/// A bit of the packet's beginning, or of its trailer, which repeats it.
fn corrupt_bit(packet: &[u8], number: usize) -> usize {
    if number < TRAILER_BYTES * 8 {
        return number;
    }
    (packet.len() - 2 * TRAILER_BYTES) * 8 + number
}

/// A bit of a packet that a checksum covers whole.
fn corrupt_any_bit(packet: &[u8], number: usize) -> usize {
    number % (packet.len() * 8)
}

/// Without a rate, the least time between events.
const STEP_NS_MIN: u64 = 1_000;
/// Room for a source's packets of one tick, sent together; with the table, it fits into a
/// second-level cache.
const BATCH_BYTES: usize = 256 * 1024;

const _: () = {
    assert!(DATAGRAM_BYTES_MAX + OVERSHOOT_BYTES + 8 <= BATCH_BYTES);
    assert!(CORRUPT_BITS == 2 * TRAILER_BYTES * 8);
};

#[cfg(test)]
mod tests {
    use super::*;
    use catchment_agent::Agent;
    use catchment_net::{ReceiverConfig, UdpReceiver};

    use crate::pace::Pace;
    use crate::sender::Sender;

    /// A sender over real sockets, stepped: the time at which its thread would start does not
    /// matter.
    #[test]
    fn a_queue_that_never_fills_is_flushed_by_time() {
        let any = "127.0.0.1:0".parse().unwrap();
        let receiver = UdpReceiver::bind(&[any], ReceiverConfig::default()).unwrap();
        let emulator = Emulator::new(EmulatorConfig {
            sources: crate::hades_90()[..1].to_vec(),
            targets: vec![receiver.local_addr(0)],
            events: Some(120),
            rate_hz: Some(20_000.0),
            flush_ns: 500_000,
            water_mark_bytes: 65_000,
            ..EmulatorConfig::default()
        })
        .unwrap();
        let config = emulator.config();
        let (stop, live) = (AtomicBool::new(false), EmulatorLive::default());
        let outlet = Outlet::new(&config.targets, 1, &config.faults, corrupt_bit, &stop).unwrap();
        let pace = Pace::new(&Schedule::of(config));
        let mut sender = Sender::new(Run::new(&emulator, outlet), pace, &stop, &live);
        // Each tick's events are queued, and sent once the oldest of them has waited 0.5 ms.
        let (mut now_ns, mut queued_ns, mut packets) = (7, None, 0);
        loop {
            let work = sender.work(now_ns);
            if work.ended {
                break;
            }
            let is_due = queued_ns.is_some_and(|since_ns| now_ns - since_ns >= 500_000);
            packets += u64::from(is_due);
            assert_eq!(sender.traffic.outlet.report(0).packets_sent, packets, "at {now_ns} ns");
            if is_due {
                queued_ns = None;
            } else if work.done > 0 {
                queued_ns = queued_ns.or(Some(now_ns));
            }
            now_ns = work.wake_at_ns.max(now_ns + 1);
        }
        assert!(packets > 1);
        assert_eq!(sender.traffic.outlet.report(0).fragments_sent, 120);
    }
}
