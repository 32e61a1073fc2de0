//! Encoding columns one after another, in reused memory.

use std::cell::Cell;
use std::fmt;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use crate::blosc::{self, Filter, Inner};
use crate::codec::Codec;
use crate::coding::Coding;
use crate::cpu::Cpu;
use crate::element::Element;
use crate::{numbers, packing, sample};

/// The raw size in front of an LZ4 block.
pub(crate) const LZ4_PREFIX_BYTES: usize = 4;
/// The limit of the LZ4 format.
pub(crate) const LZ4_RAW_BYTES_MAX: usize = 0x7e00_0000;
/// A codec must save one part in this many.
pub(crate) const SAVING_MIN_DIVISOR: usize = 20;
/// Columns below this are simply encoded; above, samples are tried first.
const TRIAL_RAW_BYTES_MIN: usize = 512 * 1024;
const SAMPLE_BYTES: usize = 48 * 1024;
const SAMPLE_SAVING_MIN_DIVISOR: usize = 50;
/// From this level on zstd is so slow that it gets a column in pieces, and can be stopped between
/// them.
const ZSTD_SLOW_LEVEL: i32 = 7;
const ZSTD_PIECE_BYTES: usize = 256 * 1024;

/// A column in its stored form.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// The codec finally used.
    pub codec: Codec,
    /// The bytes to store: for [`Codec::None`] the raw bytes themselves.
    pub stored: &'a [u8],
}

/// Encodes columns one after another. It keeps its working memory, so nothing is allocated once it
/// has met the largest column; only pcodec allocates its own.
pub struct ColumnEncoder {
    cpu: Cpu,
    table: CompressTable,
    /// For blocks: half as large, for offsets below 64 KiB.
    small: CompressTable,
    zstd: Option<(CCtx<'static>, i32)>,
    filtered: Vec<u8>,
    scratch: Vec<u8>,
    sample: Vec<u8>,
}

impl ColumnEncoder {
    /// An encoder without working memory yet.
    pub fn new() -> Self {
        Self {
            cpu: Cpu::here(),
            table: CompressTable::large(),
            small: CompressTable::small(),
            zstd: None,
            filtered: Vec::new(),
            scratch: Vec::new(),
            sample: Vec::new(),
        }
    }

    /// Encodes `raw`, or leaves it raw if that saves less than 5 %. Large columns are tried on
    /// samples first, so that incompressible data cost little. If the coding does not support the
    /// elements, [`Coding::for_element`] gives the substitute.
    pub fn encode<'a>(
        &'a mut self,
        coding: impl Into<Coding>,
        element: Element,
        raw: &'a [u8],
    ) -> Encoded<'a> {
        self.encode_while(&|| true, coding.into(), element, raw).expect("nothing gives it up")
    }

    /// As [`ColumnEncoder::encode`], but stops when `go_on` returns false, and then returns `None`.
    /// Only zstd, which can take seconds for a column, calls it, between pieces.
    pub fn encode_while<'a>(
        &'a mut self,
        go_on: &dyn Fn() -> bool,
        coding: Coding,
        element: Element,
        raw: &'a [u8],
    ) -> Option<Encoded<'a>> {
        let coding = coding.for_element(element);
        let as_it_is = Encoded { codec: Codec::None, stored: raw };
        let worth_bytes = raw.len() - raw.len() / SAVING_MIN_DIVISOR;
        if coding == Coding::None
            || worth_bytes <= LZ4_PREFIX_BYTES
            || raw.len() > LZ4_RAW_BYTES_MAX
            || !self.samples_shrink(coding, element, raw)
        {
            return Some(as_it_is);
        }
        let given_up = Cell::new(false);
        let go_on = || {
            given_up.set(given_up.get() || !go_on());
            !given_up.get()
        };
        match self.encode_all(&go_on, coding, element, raw) {
            _ if given_up.get() => None,
            Some(bytes) if bytes <= worth_bytes => {
                Some(Encoded { codec: coding.codec(), stored: &self.scratch[..bytes] })
            }
            _ => Some(as_it_is),
        }
    }

    /// Encodes `raw` whether that saves anything or not, for readers that accept only one codec.
    /// `None` if the codec cannot: too many bytes for it, or `Coding::None`.
    pub fn encode_always(&mut self, coding: Coding, element: Element, raw: &[u8]) -> Option<&[u8]> {
        if coding == Coding::None || raw.len() > LZ4_RAW_BYTES_MAX {
            return None;
        }
        let bytes = self.encode_all(&|| true, coding.for_element(element), element, raw)?;
        Some(&self.scratch[..bytes])
    }

    /// Bytes of the working memory that it keeps, without the codecs' own tables.
    pub fn memory_bytes(&self) -> usize {
        self.scratch.capacity() + self.filtered.capacity() + self.sample.capacity()
    }

    pub(crate) fn samples_shrink(&mut self, coding: Coding, element: Element, raw: &[u8]) -> bool {
        if raw.len() < TRIAL_RAW_BYTES_MIN {
            return true;
        }
        let [encoded_bytes, sample_bytes] = self.try_sample(coding, element, raw, SAMPLE_BYTES);
        // Short pieces compress a little worse than the whole, so less is required of them.
        encoded_bytes < sample_bytes - sample_bytes / SAMPLE_SAVING_MIN_DIVISOR
    }

    /// The encoded bytes of a sample of a column, and its raw bytes: about `sample_bytes`.
    pub(crate) fn try_sample(
        &mut self,
        coding: Coding,
        element: Element,
        raw: &[u8],
        sample_bytes: usize,
    ) -> [usize; 2] {
        let mut memory = std::mem::take(&mut self.sample);
        let sample = sample::gather(element, raw, sample_bytes, &mut memory);
        let encoded = self.encode_all(&|| true, coding, element, sample);
        let encoded_bytes = encoded.unwrap_or(sample.len());
        let bytes = [encoded_bytes, sample.len()];
        self.sample = memory;
        bytes
    }

    /// Leaves the encoded column in the scratch and returns its length, if it could be encoded.
    /// Once `go_on` has returned false, the scratch holds nothing of use.
    pub(crate) fn encode_all(
        &mut self,
        go_on: &dyn Fn() -> bool,
        coding: Coding,
        element: Element,
        raw: &[u8],
    ) -> Option<usize> {
        match coding {
            Coding::None => None,
            Coding::Lz4 => {
                self.room(LZ4_PREFIX_BYTES + get_maximum_output_size(raw.len()));
                let (prefix, block) = self.scratch.split_at_mut(LZ4_PREFIX_BYTES);
                prefix.copy_from_slice(&(raw.len() as u32).to_le_bytes());
                lz4_block(&mut self.table, raw, block).map(|bytes| LZ4_PREFIX_BYTES + bytes)
            }
            Coding::Zstd { level } => {
                self.room(zstd_safe::compress_bound(raw.len()));
                zstd_frame(&mut self.zstd, go_on, level, raw, &mut self.scratch)
            }
            Coding::BitshuffleLz4 => self.blosc(go_on, (Filter::Bits, Inner::Lz4), 0, element, raw),
            Coding::BitshuffleZstd { level } => {
                self.blosc(go_on, (Filter::Bits, Inner::Zstd), level, element, raw)
            }
            Coding::ShuffleLz4 => self.blosc(go_on, (Filter::Bytes, Inner::Lz4), 0, element, raw),
            Coding::ShuffleZstd { level } => {
                self.blosc(go_on, (Filter::Bytes, Inner::Zstd), level, element, raw)
            }
            Coding::Pcodec { level } => numbers::encode(level, element, raw, &mut self.scratch)
                .then_some(self.scratch.len()),
            Coding::For => {
                self.room(packing::encoded_bytes_max(raw.len()));
                let (size, signed) = (element.size(), element.is_signed());
                Some(packing::encode(self.cpu, size, signed, raw, &mut self.scratch))
            }
        }
    }

    pub(crate) fn blosc(
        &mut self,
        go_on: &dyn Fn() -> bool,
        (filter, inner): (Filter, Inner),
        level: i32,
        element: Element,
        raw: &[u8],
    ) -> Option<usize> {
        let size = element.size();
        let block = get_maximum_output_size(blosc::block_bytes(size, inner));
        self.room(blosc::encoded_bytes_max(raw.len(), size) + block);
        let Self { small: table, zstd, filtered, scratch, .. } = self;
        let what = (self.cpu, filter, inner, size);
        let compress = |block: &[u8], out: &mut [u8]| match inner {
            Inner::Lz4 => lz4_block(table, block, out),
            // No more than the raw size.
            Inner::Zstd if !go_on() => None,
            Inner::Zstd => zstd_frame(zstd, go_on, level, block, &mut out[..block.len()]),
        };
        Some(blosc::encode(what, raw, filtered, scratch, compress))
    }

    /// The encoded bytes.
    pub(crate) fn scratch(&self, bytes: usize) -> &[u8] {
        &self.scratch[..bytes]
    }

    fn room(&mut self, bytes: usize) {
        if self.scratch.len() < bytes {
            self.scratch.resize(bytes, 0);
        }
    }
}

fn lz4_block(table: &mut CompressTable, raw: &[u8], out: &mut [u8]) -> Option<usize> {
    compress_into_with_table(raw, out, table).ok()
}

fn zstd_frame(
    context: &mut Option<(CCtx<'static>, i32)>,
    go_on: &dyn Fn() -> bool,
    level: i32,
    raw: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let (context, set_level) = context.get_or_insert_with(|| (CCtx::create(), i32::MIN));
    if *set_level != level {
        context.set_parameter(CParameter::CompressionLevel(level)).ok()?;
        *set_level = level;
    }
    if level < ZSTD_SLOW_LEVEL || raw.len() <= ZSTD_PIECE_BYTES {
        return context.compress2(out, raw).ok();
    }
    // A frame that did not fit leaves its state behind. `compress2` clears it, streaming does not.
    context.reset(ResetDirective::SessionOnly).ok()?;
    context.set_pledged_src_size(Some(raw.len() as u64)).ok()?;
    let bytes = zstd_pieces(context, go_on, raw, out);
    if bytes.is_none() {
        // The next frame must not continue this one.
        context.reset(ResetDirective::SessionOnly).ok()?;
    }
    bytes
}

/// Compresses a frame in pieces; `None` when `go_on` returns false, or the output is full.
fn zstd_pieces(
    context: &mut CCtx<'static>,
    go_on: &dyn Fn() -> bool,
    raw: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let mut out = OutBuffer::around(out);
    for piece in raw.chunks(ZSTD_PIECE_BYTES) {
        if !go_on() {
            return None;
        }
        let mut input = InBuffer::around(piece);
        while input.pos < piece.len() {
            let before = (input.pos, out.pos());
            context.compress_stream2(&mut out, &mut input, Directive::ZSTD_e_continue).ok()?;
            // The output is full.
            if (input.pos, out.pos()) == before {
                return None;
            }
        }
    }
    let mut nothing = InBuffer::around(&[]);
    let left = context.compress_stream2(&mut out, &mut nothing, Directive::ZSTD_e_end).ok()?;
    (left == 0).then(|| out.pos())
}

impl Default for ColumnEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ColumnEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnEncoder {{ memory_bytes: {} }}", self.memory_bytes())
    }
}
