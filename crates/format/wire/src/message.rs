//! The framing that all messages of a session share: header, shape, fixed part, records, text and
//! body. docs/spec/session.md, section 3.
//!
//! ```text
//! header                      head                                        body
//! |marker|type|head_|body_|number|fixed_|record_|record_|fixed|records|text|body|0..7 zeros|
//! |      |    |bytes|bytes|      |bytes |bytes  |count  |part |       |    |    |          |
//! |u16   |u16 |u32  |u32  |u32   |u16   |u16    |u32    |     |       |    |    |          |
//! 0      2    4     8     12     16     18      20      24
//!                                '----------------- head_bytes --------------'
//! ```

use crate::fault::Fault;
use crate::fields::{Fields, Fixed, Records, bound, fields, unpadded};

/// Bytes of the header before each message.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the shape, with which each head begins.
pub const SHAPE_BYTES: usize = 8;
/// Bytes of the longest control message, header included.
pub const CONTROL_BYTES_MAX: u32 = 16_384;
/// Bytes of the longest head on a data connection.
pub const DATA_HEAD_BYTES_MAX: u32 = 114_688;
/// The bounds of `message_bytes_max`, the longest data message that a welcome grants, in bytes.
pub const MESSAGE_BYTES_MAX: std::ops::RangeInclusive<u32> = 65_536..=4_325_376;
/// Bytes of the longest fixed part, and of the longest record.
pub const PART_BYTES_MAX: usize = 1_024;
/// The most records of a message.
pub const RECORDS_MAX: u32 = 4_096;
/// Bytes of the longest text behind the records.
pub const TEXT_BYTES_MAX: usize = 1_024;

const MARKER: u16 = 0x4cc7;
/// Bytes of the longest record of version 1.
const RECORD_BYTES_MAX: usize = 128;
/// The bit of types that a receiver skips if it does not know them.
const SKIPPABLE: u16 = 1 << 15;

fields! {
    /// The header of every message.
    Header: 16 {
        0 marker: u16,
        2 kind: u16,
        4 head_bytes: u32,
        8 body_bytes: u32,
        12 number: u32,
    }
}

fields! {
    /// What a head consists of.
    Shape: 8 {
        0 fixed_bytes: u16,
        2 record_bytes: u16,
        4 record_count: u32,
    }
}

/// What a type of message consists of in version 1. A longer fixed part or record is one of a later
/// minor version, and its end is ignored.
#[derive(Clone, Copy, Debug)]
pub struct Type {
    number: u16,
    fixed_bytes: usize,
    record_bytes: usize,
    record_counts: (u32, u32),
    has_text: bool,
    body_bytes_min: Option<u32>,
}

impl Type {
    /// A type with a fixed part `F`, and nothing else.
    pub(crate) const fn of<F: Fixed>() -> Self {
        Self {
            number: F::TYPE,
            fixed_bytes: F::BYTES,
            record_bytes: 0,
            record_counts: (0, 0),
            has_text: false,
            body_bytes_min: None,
        }
    }

    /// It has `min` to `max` records of at least so many bytes.
    pub(crate) const fn records(self, record_bytes: usize, min: u32, max: u32) -> Self {
        Self { record_bytes, record_counts: (min, max), ..self }
    }

    /// It has a text.
    pub(crate) const fn text(self) -> Self {
        Self { has_text: true, ..self }
    }

    /// It has a body of at least so many bytes.
    pub(crate) const fn body(self, bytes_min: u32) -> Self {
        Self { body_bytes_min: Some(bytes_min), ..self }
    }
}

/// What a connection admits.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    types: &'static [Type],
    is_control: bool,
    message_bytes_max: u32,
}

impl Bounds {
    /// A control connection.
    pub(crate) const fn control(types: &'static [Type]) -> Self {
        Self { types, is_control: true, message_bytes_max: CONTROL_BYTES_MAX }
    }

    /// A data connection with these types, and messages of at most so many bytes.
    pub(crate) const fn data(types: &'static [Type], message_bytes_max: u32) -> Self {
        Self { types, is_control: false, message_bytes_max }
    }

    fn head_bytes_max(&self) -> u64 {
        let of_data = u64::from(DATA_HEAD_BYTES_MAX);
        of_data.min(u64::from(self.message_bytes_max).saturating_sub(HEADER_BYTES as u64))
    }
}

/// A message whose framing is checked. What its fields say is checked as it is read, by
/// [`Control::read`](crate::session::Control::read) or by the service.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its type. One with bit 15 that this version does not know is to be skipped.
    pub kind: u16,
    /// All its bytes from the header to the padding of the body, a multiple of 8.
    pub used: usize,
    /// The text behind the records, without padding; empty for a type without a text.
    pub text: &'a str,
    /// The body, without padding, as far as it is there.
    pub body: &'a [u8],
    /// Bytes of the whole body.
    pub body_bytes: usize,
    fixed: &'a [u8],
    records: &'a [u8],
    record_bytes: usize,
}

impl<'a> Message<'a> {
    /// Where its body begins: behind header and head.
    pub fn body_at(&self) -> usize {
        self.used - self.body_bytes.next_multiple_of(8)
    }

    /// How many records it has.
    pub fn record_count(&self) -> usize {
        self.records.len().checked_div(self.record_bytes).unwrap_or(0)
    }

    /// Its fixed part.
    pub(crate) fn fixed<F: Fields>(&self) -> Result<F, Fault> {
        F::read(self.fixed)
    }

    /// Its records, all checked.
    pub(crate) fn records<R: Fields>(&self) -> Result<Records<'a, R>, Fault> {
        Records::read(self.records, self.record_bytes)
    }
}

/// Reads the message at the beginning of `bytes`: all bytes of a connection, preamble excluded,
/// from the end of the message before on. `number` is how many messages came before it. A header or
/// shape that no further byte can mend is a fault at once.
///
/// Returns `None` while more bytes are needed. Allocates nothing, and looks at no more bytes than
/// `bounds` admit.
///
/// # Errors
/// A framing fault, by which the whole message is void; see [`Fault`].
pub fn parse(bytes: &[u8], number: u32, bounds: Bounds) -> Result<Option<Message<'_>>, Fault> {
    let message = parse_head(bytes, number, bounds)?;
    Ok(message.filter(|message| message.used <= bytes.len()))
}

/// As [`parse`], but the message is returned as soon as its head is there. Of its body nothing more
/// can be a fault; its end may be missing.
///
/// # Errors
/// As [`parse`].
pub fn parse_head(bytes: &[u8], number: u32, bounds: Bounds) -> Result<Option<Message<'_>>, Fault> {
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
    let header = Header::read(header)?;
    let known = check_header(&header, number, &bounds)?;
    let body_end = u64::from(header.head_bytes) + u64::from(header.body_bytes);
    let used = HEADER_BYTES as u64 + body_end.next_multiple_of(8);
    let (min, max) = ((HEADER_BYTES + SHAPE_BYTES) as u64, u64::from(bounds.message_bytes_max));
    if used > max {
        return Err(Fault::Length { field: "a message", min, max, got: used });
    }
    let Some(shape) = rest.get(..SHAPE_BYTES) else { return Ok(None) };
    let shape = Shape::read(shape)?;
    let (records_at, text_at) = check_shape(&shape, header.head_bytes, known)?;
    // All within `used`: 64 bits were for the checks.
    let Some((head, body)) = rest.split_at_checked(header.head_bytes as usize) else {
        return Ok(None);
    };
    let body_bytes = header.body_bytes as usize;
    let text = text(&head[text_at..], known.is_some_and(|known| known.has_text))?;
    Ok(Some(Message {
        kind: header.kind,
        used: used as usize,
        text,
        body: &body[..body_bytes.min(body.len())],
        body_bytes,
        fixed: &head[..records_at],
        records: &head[records_at..text_at],
        record_bytes: shape.record_bytes.into(),
    }))
}

/// Checks a header but for the sum of its lengths. Returns what its type consists of, or `None` for
/// a type to be skipped.
fn check_header(
    header: &Header,
    number: u32,
    bounds: &Bounds,
) -> Result<Option<&'static Type>, Fault> {
    let &Header { marker, kind, head_bytes, body_bytes, number: got } = header;
    if marker != MARKER {
        return Err(Fault::Marker { got: marker });
    }
    if got != number {
        return Err(Fault::Number { expected: number, got });
    }
    let known = bounds.types.iter().find(|known| known.number == kind);
    if known.is_none() && kind & SKIPPABLE == 0 {
        let is_data = kind == 3 || (32..128).contains(&kind);
        let is_other = kind != 0 && kind < 128 && is_data == bounds.is_control;
        let got = kind;
        return Err(if is_other { Fault::Connection { got } } else { Fault::Type { got } });
    }
    let (min, max, got) = (SHAPE_BYTES as u64, bounds.head_bytes_max(), u64::from(head_bytes));
    if !(min..=max).contains(&got) || !got.is_multiple_of(8) {
        return Err(Fault::Length { field: "a head", min, max, got });
    }
    let (min, max) = match known {
        _ if bounds.is_control => (0, 0),
        Some(Type { body_bytes_min: None, .. }) => (0, 0),
        Some(Type { body_bytes_min: Some(min), .. }) => (*min, bounds.message_bytes_max),
        None => (0, bounds.message_bytes_max),
    };
    if !(min..=max).contains(&body_bytes) {
        let (min, max, got) = (min.into(), max.into(), body_bytes.into());
        return Err(Fault::Length { field: "a body", min, max, got });
    }
    Ok(known)
}

/// Checks a shape. Returns where in the head the records begin, and where the text does.
fn check_shape(
    shape: &Shape,
    head_bytes: u32,
    known: Option<&Type>,
) -> Result<(usize, usize), Fault> {
    let fixed_bytes = usize::from(shape.fixed_bytes);
    let record_bytes = usize::from(shape.record_bytes);
    let check = |field, got: u64, min: u64, max: u64, step: u64| {
        let is_allowed = (min..=max).contains(&got) && got.is_multiple_of(step);
        if is_allowed { Ok(()) } else { Err(Fault::Shape { field, min, max, got }) }
    };
    let fixed_min = known.map_or(SHAPE_BYTES, |known| known.fixed_bytes) as u64;
    let part_max = PART_BYTES_MAX as u64;
    check("fixed_bytes", fixed_bytes as u64, fixed_min, part_max, 8)?;
    let (min, max) = known.map_or((0, RECORDS_MAX), |known| known.record_counts);
    check("record_count", shape.record_count.into(), min.into(), max.into(), 1)?;
    let (min, max) = match (known, shape.record_count) {
        (_, 0) => (0, 0),
        (Some(known), _) => (known.record_bytes as u64, part_max),
        (None, _) => (8, part_max),
    };
    check("record_bytes", record_bytes as u64, min, max, 8)?;
    let text_at = fixed_bytes as u64 + u64::from(shape.record_count) * record_bytes as u64;
    check("the end of the records", text_at, SHAPE_BYTES as u64, head_bytes.into(), 8)?;
    Ok((fixed_bytes, text_at as usize))
}

/// The text at the end of a head. That of a type without one is only bounded.
fn text(bytes: &[u8], is_used: bool) -> Result<&str, Fault> {
    let fault = Fault::Text { field: "the text", bytes_max: TEXT_BYTES_MAX };
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if end > TEXT_BYTES_MAX {
        return Err(fault);
    }
    if is_used { unpadded(&bytes[..end]).ok_or(fault) } else { Ok("") }
}

/// Writes one message into a buffer of the caller: its fixed part, its records, then the rest.
///
/// The buffer bounds the message: on control it has at most [`CONTROL_BYTES_MAX`] bytes.
#[derive(Debug)]
pub struct Encoder<'b> {
    buffer: &'b mut [u8],
    header: Header,
    shape: Shape,
    end: usize,
}

impl<'b> Encoder<'b> {
    /// A message with this fixed part. `number` is how many messages the connection had before.
    ///
    /// # Panics
    /// A buffer without room for it.
    pub fn begin<F: Fixed>(buffer: &'b mut [u8], number: u32, fixed: &F) -> Self {
        let header = Header { marker: MARKER, kind: F::TYPE, head_bytes: 0, body_bytes: 0, number };
        let shape = Shape { fixed_bytes: F::BYTES as u16, record_bytes: 0, record_count: 0 };
        let end = HEADER_BYTES + F::BYTES;
        buffer[..end].fill(0);
        fixed.write(&mut buffer[HEADER_BYTES..end]);
        Self { buffer, header, shape, end }
    }

    /// Appends a record; returns false and does nothing if there is no room.
    ///
    /// # Panics
    /// Records of different lengths.
    pub fn push<R: Fields>(&mut self, record: &R) -> bool {
        self.push_short(record, R::BYTES)
    }

    /// Appends the first `bytes` of a record, as [`push`](Self::push). The fields behind them are
    /// zero, and are read as zero.
    ///
    /// # Panics
    /// As [`push`](Self::push); fields behind `bytes` that are not zero.
    pub fn push_short<R: Fields>(&mut self, record: &R, bytes: usize) -> bool {
        let Shape { record_bytes, record_count, .. } = self.shape;
        assert!(record_count == 0 || usize::from(record_bytes) == bytes, "records are alike");
        let Some(out) = self.buffer.get_mut(self.end..self.end + bytes) else { return false };
        if record_count == RECORDS_MAX {
            return false;
        }
        let mut whole = [0; RECORD_BYTES_MAX];
        record.write(&mut whole[..R::BYTES]);
        assert!(whole[bytes..].iter().all(|&byte| byte == 0), "what is cut off is zero");
        out.copy_from_slice(&whole[..bytes]);
        (self.shape.record_bytes, self.shape.record_count) = (bytes as u16, record_count + 1);
        self.end += bytes;
        true
    }

    /// Appends all records of another message, each as long as there.
    ///
    /// # Panics
    /// A buffer without room for them.
    pub fn records<R: Fields>(mut self, records: &Records<'_, R>) -> Self {
        let bytes = records.known_bytes();
        assert!(records.iter().all(|record| self.push_short(&record, bytes)), "has room");
        self
    }

    /// Writes text and body, and returns the bytes of the whole message.
    ///
    /// # Panics
    /// As [`finish_head`](Self::finish_head).
    pub fn finish(self, text: &str, body: &[u8]) -> usize {
        let at = self.end + text.len().next_multiple_of(8);
        let end = at + body.len();
        let padded = end.next_multiple_of(8);
        self.buffer[at..end].copy_from_slice(body);
        self.buffer[end..padded].fill(0);
        self.finish_head(text, body.len() as u32);
        padded
    }

    /// Writes the text, and returns the bytes of header and head. A body of `body_bytes` and its
    /// padding follow from elsewhere.
    ///
    /// # Panics
    /// A text of more than [`TEXT_BYTES_MAX`] bytes, with a zero in it, or without room.
    pub fn finish_head(self, text: &str, body_bytes: u32) -> usize {
        let Self { buffer, mut header, shape, end: text_at } = self;
        assert!(text.len() <= TEXT_BYTES_MAX && !text.contains('\0'), "a text of a message");
        let text_end = text_at + text.len();
        let end = text_end.next_multiple_of(8);
        buffer[text_at..text_end].copy_from_slice(text.as_bytes());
        buffer[text_end..end].fill(0);
        (header.head_bytes, header.body_bytes) = ((end - HEADER_BYTES) as u32, body_bytes);
        header.write(&mut buffer[..HEADER_BYTES]);
        shape.write(&mut buffer[HEADER_BYTES..HEADER_BYTES + SHAPE_BYTES]);
        end
    }
}

/// The end of all sequences: a log that reaches it ends. docs/spec/session.md, section 1.
pub const SEQUENCE_END: u64 = 1 << 63;

/// Checks that `count` sequences from one on end where sequences do.
pub(crate) fn bound_sequences(sequence: u64, count: u64) -> Result<(), Fault> {
    bound("sequence", sequence, 0..=SEQUENCE_END.saturating_sub(count))
}
