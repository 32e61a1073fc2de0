//! Connections: what sources write comes in its order, in pieces of any size, and when there is
//! room. A connection may stall, be cut, or be forgotten by its sender without a word, who then
//! opens another one: what was on its way is lost.

use std::collections::VecDeque;

use catchment_fixtures::Random;

use crate::detector::Packet;
use crate::fault::Fault;
use crate::plan::{BEGIN_NS, DURATION_NS, MS, Plan, S, SourcePlan};
use crate::recorder::Recorder;

/// Bytes that a connection's buffer holds.
pub const BUFFER_BYTES: usize = 256 << 10;

/// What the sources of a connection have written, and how far it has come.
#[derive(Debug, Default)]
pub struct Stream {
    /// The connection at the recorder, where one is open.
    pub connection: Option<usize>,
    /// What is on its way.
    bytes: VecDeque<u8>,
    /// The messages that are not whole there yet.
    messages: VecDeque<Message>,
    /// Bytes written over this connection, and of these, bytes that have come.
    written: u64,
    come: u64,
    /// Until then nothing comes.
    stalled_ns: u64,
    /// Whether its next bytes are due at some time.
    pub is_due: bool,
}

/// A part of a fragment.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Its source.
    pub source: usize,
    /// The fragment's index in what the source has sent.
    pub fragment: usize,
    /// Which part it is, and how many there are.
    pub part: (usize, usize),
    /// Where it ends, in the bytes of its connection.
    pub end: u64,
}

impl Stream {
    /// A source writes the messages of a fragment.
    pub fn write(&mut self, source: usize, messages: &[Packet]) {
        for Packet { bytes, fragments, part } in messages {
            self.bytes.extend(bytes);
            self.written += bytes.len() as u64;
            let (fragment, part, end) = (fragments.start, *part, self.written);
            self.messages.push_back(Message { source, fragment, part, end });
        }
    }

    /// The next bytes to come, of which nothing may be left.
    pub fn piece(&mut self, chance: &mut Random) -> Vec<u8> {
        let most = [1, 100, 9_000, BUFFER_BYTES][[0, 1, 2, 2, 3, 3, 3, 3][chance.index(8)]];
        let count = self.bytes.len().min(1 + chance.index(most));
        self.bytes.iter().take(count).copied().collect()
    }

    /// So many bytes have come. Returns the messages that are whole with them.
    pub fn advance(&mut self, count: usize) -> Vec<Message> {
        self.bytes.drain(..count);
        self.come += count as u64;
        let whole = self.messages.partition_point(|message| message.end <= self.come);
        self.messages.drain(..whole).collect()
    }

    /// Whether everything has come that was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Nothing comes until then.
    pub fn stall(&mut self, until_ns: u64) {
        self.stalled_ns = self.stalled_ns.max(until_ns);
    }

    /// Until when nothing comes.
    pub fn stalled_ns(&self) -> u64 {
        self.stalled_ns
    }

    /// What is on its way is lost, and the connection with it, which is returned.
    pub fn reset(&mut self) -> Option<usize> {
        self.bytes.clear();
        self.messages.clear();
        (self.written, self.come) = (0, 0);
        self.connection.take()
    }
}

/// The connections of all sources that have one.
#[derive(Debug)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    of_source: Vec<Option<usize>>,
}

impl Streams {
    pub(crate) fn of_plan(plan: &Plan) -> Self {
        let all = plan.sources.iter().map(|_| Stream::default()).collect();
        Self { all, of_source: connections(plan) }
    }

    /// The stream of a source or link, if it has one.
    pub(crate) fn of(&self, endpoint: usize) -> Option<usize> {
        self.of_source.get(endpoint).copied().flatten()
    }

    /// A source writes the messages of a fragment.
    pub(crate) fn write(&mut self, stream: usize, source: usize, messages: &[Packet]) {
        self.all[stream].write(source, messages);
    }

    /// The next bytes of a stream are to come; whether that is news.
    pub(crate) fn is_to_advance(&mut self, stream: usize) -> bool {
        !std::mem::replace(&mut self.all[stream].is_due, true)
    }

    /// The next bytes of a stream come, if there are any, and room for them. Returns how many for
    /// which source, and when the next ones come.
    pub(crate) fn advance(
        &mut self,
        index: usize,
        now_ns: u64,
        recorder: Option<&mut Recorder>,
        chance: &mut Random,
    ) -> (Option<(usize, usize)>, Option<u64>) {
        let source = self.source(index);
        let stream = &mut self.all[index];
        stream.is_due = false;
        let Some(recorder) = recorder else {
            // Nobody listens.
            stream.reset();
            return (None, None);
        };
        if stream.is_empty() {
            return (None, None);
        }
        if stream.stalled_ns() > now_ns {
            return (None, Some(stream.stalled_ns()));
        }
        let connection = *stream.connection.get_or_insert_with(|| recorder.connect(source));
        let piece = stream.piece(chance);
        match recorder.write((connection, source), &piece, now_ns) {
            // The recorder has closed it.
            None => {
                stream.reset();
                (None, None)
            }
            Some(0) => (None, Some(now_ns + MS)),
            Some(count) => {
                for message in stream.advance(count) {
                    recorder.came(connection, message, now_ns);
                }
                (Some((source, count)), Some(now_ns + 1 + chance.below(50_000)))
            }
        }
    }

    /// Something happens to a stream.
    pub(crate) fn suffer(
        &mut self,
        index: usize,
        what: Mishap,
        now_ns: u64,
        recorder: Option<&mut Recorder>,
    ) {
        if let Mishap::Stall(until_ns) = what {
            return self.all[index].stall(until_ns);
        }
        let Some(connection) = self.all[index].reset() else { return };
        if let Some(recorder) = recorder.filter(|_| what == Mishap::Cut) {
            recorder.close((connection, self.source(index)), now_ns);
        }
    }

    /// The recorder is gone, and the connections with it.
    pub(crate) fn reset(&mut self) {
        self.all.iter_mut().for_each(|stream| _ = stream.reset());
    }

    /// The first source of a stream.
    fn source(&self, stream: usize) -> usize {
        let has_it = |of: &Option<usize>| *of == Some(stream);
        self.of_source.iter().position(has_it).expect("a source of the stream")
    }
}

/// The connection of each source; none of those that send packets.
fn connections(plan: &Plan) -> Vec<Option<usize>> {
    let mut chance = plan.case.chance("connections");
    let is_shared = chance.chance(500);
    let mut count = 0;
    let of = |source: &SourcePlan| {
        source.in_stream.then(|| {
            let index = if is_shared { 0 } else { count };
            count += 1;
            index
        })
    };
    plan.sources.iter().map(of).collect()
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Nothing comes until then.
    Stall(u64),
    /// It is cut: the recorder is told.
    Cut,
    /// Its sender has forgotten it: the recorder is told nothing.
    Forgotten,
}

impl Mishap {
    /// Its kind.
    pub fn fault(self) -> Fault {
        match self {
            Self::Stall(_) => Fault::Stall,
            Self::Cut => Fault::Cut,
            Self::Forgotten => Fault::HalfOpen,
        }
    }
}

/// What happens to the connections of a run, and when.
pub fn mishaps(plan: &Plan) -> Vec<(u64, usize, Mishap)> {
    let count = connections(plan).into_iter().flatten().max().map_or(0, |last| last + 1);
    let mut all = Vec::new();
    for stream in 0..count {
        for fault in [Fault::Stall, Fault::Cut, Fault::HalfOpen] {
            let mut chance = plan.case.chance(&format!("{} {stream}", fault.name()));
            let times = if plan.case.faults.has(fault) { chance.below(4) } else { 0 };
            for _ in 0..times {
                let at_ns = BEGIN_NS + 400 * MS + chance.below(DURATION_NS);
                let until_ns = at_ns + chance.below(3 * S);
                let mishap = match fault {
                    Fault::Stall => Mishap::Stall(until_ns),
                    Fault::Cut => Mishap::Cut,
                    _ => Mishap::Forgotten,
                };
                all.push((at_ns, stream, mishap));
            }
        }
    }
    all
}
