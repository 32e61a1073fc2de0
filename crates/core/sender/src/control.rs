//! The control connection's bytes: what came and is not a whole message yet, and the messages that
//! the socket has not taken yet.

use catchment_wire::session::{
    CONTROL, CONTROL_BYTES_MAX, Control, Encoder, Fault, Fields, Fixed, Preamble, parse,
};

/// What came.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// Bytes of it that were messages.
    used: usize,
    has_preamble: bool,
    /// Messages that came.
    pub messages: u32,
}

/// What came, in order.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    Preamble(Preamble),
    Message(Control<'a>),
    /// A type that may be skipped.
    Skipped,
}

impl Inbox {
    /// Whether nothing has come.
    pub fn is_empty(&self) -> bool {
        !self.has_preamble && self.bytes.is_empty()
    }

    /// Whether its preamble has come.
    pub fn has_begun(&self) -> bool {
        self.has_preamble
    }

    /// Takes as many bytes as there is room for, and returns how many.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        self.bytes.drain(..self.used);
        self.used = 0;
        let taken = bytes.len().min(INBOX_BYTES.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// The preamble, or the next message that is whole.
    pub fn next(&mut self) -> Result<Option<Incoming<'_>>, Fault> {
        let bytes = &self.bytes[self.used..];
        if !self.has_preamble {
            let Some(preamble) = Preamble::parse(bytes)? else { return Ok(None) };
            (self.has_preamble, self.used) = (true, self.used + Preamble::BYTES);
            return Ok(Some(Incoming::Preamble(preamble)));
        }
        let Some(message) = parse(bytes, self.messages, CONTROL)? else { return Ok(None) };
        self.used += message.used;
        self.messages = self.messages.wrapping_add(1);
        let control = Control::read(&message)?;
        Ok(Some(control.map_or(Incoming::Skipped, Incoming::Message)))
    }
}

/// What goes. Messages are made when the socket has taken those before, so that newer state
/// replaces older one.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// Bytes of it that the socket took.
    done: usize,
    /// Messages that were made.
    messages: u32,
    /// For how long the socket took nothing although there was something.
    stalled_ns: u64,
}

impl Outbox {
    /// Forgets everything but its memory.
    pub fn reset(&mut self) {
        self.bytes.clear();
        (self.done, self.messages, self.stalled_ns) = (0, 0, 0);
    }

    /// Whether the socket has taken everything.
    pub fn is_flushed(&self) -> bool {
        self.done == self.bytes.len()
    }

    /// What the socket has to take next.
    pub fn outgoing(&self) -> &[u8] {
        &self.bytes[self.done..]
    }

    /// Takes note of what the socket took.
    ///
    /// # Panics
    /// More than it was given.
    pub fn sent(&mut self, bytes: usize) {
        self.done += bytes;
        assert!(self.done <= self.bytes.len(), "no more is sent than there is");
        if bytes > 0 {
            self.stalled_ns = 0;
        }
        if self.is_flushed() {
            self.bytes.clear();
            self.done = 0;
        }
    }

    /// Adds time in which the session polled. Returns how long the socket has taken nothing.
    pub fn stalled(&mut self, polled_ns: u64) -> u64 {
        self.stalled_ns = if self.is_flushed() { 0 } else { self.stalled_ns + polled_ns };
        self.stalled_ns
    }

    pub fn preamble(&mut self, preamble: &Preamble) {
        self.bytes.extend_from_slice(&preamble.encode());
    }

    /// Appends a message with records, as many as the caller has bounded.
    pub fn records<F: Fixed, R: Fields>(&mut self, fixed: &F, records: impl Iterator<Item = R>) {
        self.message(|number, out| {
            let mut encoder = Encoder::begin(out, number, fixed);
            for record in records {
                let has_room = encoder.push(&record);
                assert!(has_room, "the caller bounds the records");
            }
            encoder.finish("", &[])
        });
    }

    /// Appends a message with one record and its text.
    pub fn record<F: Fixed, R: Fields>(&mut self, fixed: &F, record: &R, text: &str) {
        self.message(|number, out| {
            let mut encoder = Encoder::begin(out, number, fixed);
            assert!(encoder.push(record), "one record fits");
            encoder.finish(text, &[])
        });
    }

    /// Appends a message without records.
    pub fn send(&mut self, message: &Control<'_>) {
        self.message(|number, out| message.encode(number, out));
    }

    fn message(&mut self, write: impl FnOnce(u32, &mut [u8]) -> usize) {
        let begin = self.bytes.len();
        self.bytes.resize(begin + CONTROL_BYTES_MAX as usize, 0);
        let bytes = write(self.messages, &mut self.bytes[begin..]);
        self.bytes.truncate(begin + bytes);
        self.messages = self.messages.wrapping_add(1);
    }
}

/// Room for two messages, so that one is whole whatever was before.
const INBOX_BYTES: usize = 2 * CONTROL_BYTES_MAX as usize;
