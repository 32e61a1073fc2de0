//! From a frame's samples of a channel to the accumulators of its seconds.

use catchment_frame::{ChannelInfo, Dtype, Span};
use catchment_model::SampleRate;

use crate::TrendError;
use crate::accumulator::Accumulator;
use crate::element::Complex;
use crate::kernel::{Values, accumulate};

/// A channel as its trend needs to know it: how samples become values, and when they are.
#[derive(Clone, Debug)]
pub struct TrendChannel {
    rate: SampleRate,
    values: Values,
    sample_bytes: usize,
    accumulate: fn(&[u8], Values, &mut Accumulator),
}

impl TrendChannel {
    /// A channel of numbers of type `dtype`, whose values are the raw samples. Of complex numbers
    /// the trend is that of the magnitude; of samples with a shape, of all their elements together.
    ///
    /// Samples at the limits of a signed type, and at the upper limit of an unsigned one, count as
    /// saturated (0 is what an idle counter says); floating point has no limits.
    ///
    /// # Errors
    /// If there is no trend of this type, or samples of that shape have no elements or too many.
    pub fn new(dtype: Dtype, shape: &[u64], rate: SampleRate) -> Result<Self, TrendError> {
        let above = |high: f64| Some((f64::NEG_INFINITY, high));
        let within = |low: f64| Some((low, -low - 1.0));
        type Kernel = fn(&[u8], Values, &mut Accumulator);
        let (element_bytes, accumulate, limits): (usize, Kernel, _) = match dtype {
            Dtype::U8 => (1, accumulate::<u8>, above(u8::MAX.into())),
            Dtype::U16 => (2, accumulate::<u16>, above(u16::MAX.into())),
            Dtype::U32 => (4, accumulate::<u32>, above(u32::MAX.into())),
            Dtype::U64 => (8, accumulate::<u64>, above(u64::MAX as f64)),
            Dtype::I8 => (1, accumulate::<i8>, within(i8::MIN.into())),
            Dtype::I16 => (2, accumulate::<i16>, within(i16::MIN.into())),
            Dtype::I32 => (4, accumulate::<i32>, within(i32::MIN.into())),
            Dtype::I64 => (8, accumulate::<i64>, within(i64::MIN as f64)),
            Dtype::F32 => (4, accumulate::<f32>, None),
            Dtype::F64 => (8, accumulate::<f64>, None),
            Dtype::C64 => (8, accumulate::<Complex<f32>>, None),
            Dtype::C128 => (16, accumulate::<Complex<f64>>, None),
            dtype => return Err(TrendError::Dtype { dtype }),
        };
        let values = Values { scale: 1.0, offset: 0.0, limits };
        let bytes = shape.iter().try_fold(element_bytes, |bytes, &extent| {
            bytes.checked_mul(usize::try_from(extent).ok()?)
        });
        let Some(sample_bytes) = bytes.filter(|bytes| *bytes > 0) else {
            return Err(TrendError::Shape { shape: shape.iter().copied().take(8).collect() });
        };
        Ok(Self { rate, values, sample_bytes, accumulate })
    }

    /// The channel of a schema, with its scale and offset and its type's limits.
    ///
    /// # Errors
    /// If there is no trend of its type or shape, or its scale or offset is not finite.
    pub fn of(channel: &ChannelInfo) -> Result<Self, TrendError> {
        Self::new(channel.dtype, &channel.shape, channel.rate)?
            .scaled(channel.scale.unwrap_or(1.0), channel.offset.unwrap_or(0.0))
    }

    /// With values that are `raw * scale + offset`; of complex numbers the magnitude of that.
    ///
    /// # Errors
    /// If one of them is not finite.
    pub fn scaled(mut self, scale: f64, offset: f64) -> Result<Self, TrendError> {
        if !(scale.is_finite() && offset.is_finite()) {
            return Err(TrendError::Values { scale, offset });
        }
        (self.values.scale, self.values.offset) = (scale, offset);
        Ok(self)
    }

    /// The seconds that the samples fall into, with their accumulators. `samples` are little-endian
    /// and need no alignment; the first has the number `first_sample`. `spans` say where the
    /// numbers jump; rows before the first span are numbered from `first_sample`.
    ///
    /// # Errors
    /// If samples, spans and numbers do not fit together. Nothing is taken then.
    pub fn partial(
        &self,
        first_sample: u64,
        spans: &[Span],
        samples: &[u8],
    ) -> Result<Partial, TrendError> {
        let mut partial = Partial::default();
        self.partial_into(first_sample, spans, samples, &mut partial)?;
        Ok(partial)
    }

    /// [`Self::partial`] into one whose memory is used again. It is emptied first.
    ///
    /// # Errors
    /// As there; the partial is empty then.
    pub fn partial_into(
        &self,
        first_sample: u64,
        spans: &[Span],
        samples: &[u8],
        partial: &mut Partial,
    ) -> Result<(), TrendError> {
        partial.seconds.clear();
        let rows = self.check(first_sample, spans, samples)?;
        let mut start = Span { row: 0, sample: first_sample };
        for span in spans.iter().copied().chain([Span { row: rows, sample: 0 }]) {
            // The check has compared all rows with the samples there are.
            let bytes =
                start.row as usize * self.sample_bytes..span.row as usize * self.sample_bytes;
            self.run(start.sample, &samples[bytes], partial);
            start = span;
        }
        Ok(())
    }

    /// Samples without a gap among them.
    fn run(&self, mut sample: u64, mut bytes: &[u8], partial: &mut Partial) {
        let end_of = |second: u64| self.rate.first_sample_at((second + 1).saturating_mul(NS_PER_S));
        let (mut second, mut end) = (0, 0);
        while !bytes.is_empty() {
            // Mostly the next second has the next sample, and that is found with fewer divisions.
            if end == sample && end > 0 {
                second += 1;
                end = end_of(second);
            }
            if end <= sample {
                second = self.rate.time_ns(sample) / NS_PER_S;
                end = end_of(second);
            }
            // A second has at least the sample that it was found by.
            let wanted = usize::try_from(end.saturating_sub(sample)).unwrap_or(usize::MAX).max(1);
            let count = wanted.min(bytes.len() / self.sample_bytes);
            let (now, rest) = bytes.split_at(count * self.sample_bytes);
            (self.accumulate)(now, self.values, partial.of_second(second));
            bytes = rest;
            sample += count as u64;
        }
    }

    /// The rows, if all fits together.
    fn check(&self, first: u64, spans: &[Span], samples: &[u8]) -> Result<u64, TrendError> {
        let (bytes, sample_bytes) = (samples.len(), self.sample_bytes);
        if !bytes.is_multiple_of(sample_bytes) {
            return Err(TrendError::Bytes { bytes, sample_bytes });
        }
        let rows = (bytes / sample_bytes) as u64;
        let mut last = Span { row: 0, sample: first };
        for (index, span) in spans.iter().copied().enumerate() {
            let end = last.sample.saturating_add(span.row.saturating_sub(last.row));
            // A first span may stand for the first sample itself.
            let follows = if index == 0 && span.row == 0 {
                span.sample >= first
            } else {
                span.row > last.row && span.sample >= end
            };
            if !follows || span.row >= rows {
                return Err(TrendError::Span { index, row: span.row, sample: span.sample });
            }
            last = span;
        }
        let end = last.sample.checked_add(rows - last.row);
        // The rate's arithmetic says the largest number where 64 bits do not hold the time.
        if end.is_some_and(|end| self.rate.time_ns(end) != u64::MAX) {
            Ok(rows)
        } else {
            Err(TrendError::Time { sample: last.sample, rows: rows - last.row })
        }
    }
}

/// What one frame says of a channel's seconds. The first and the last of them may go on in the
/// frames beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partial {
    seconds: Vec<(u64, Accumulator)>,
}

impl Partial {
    /// Seconds since the epoch of the channel's time scale, rising, with what is in them. Seconds
    /// without a sample are not there.
    pub fn seconds(&self) -> &[(u64, Accumulator)] {
        &self.seconds
    }

    /// The accumulator of a second that is not before the last one.
    fn of_second(&mut self, second: u64) -> &mut Accumulator {
        if self.seconds.last().is_none_or(|(last, _)| *last != second) {
            self.seconds.push((second, Accumulator::EMPTY));
        }
        let index = self.seconds.len() - 1;
        &mut self.seconds[index].1
    }
}

const NS_PER_S: u64 = 1_000_000_000;
