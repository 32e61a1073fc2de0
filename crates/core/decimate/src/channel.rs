//! Channels of any type: bytes in, bytes out.

use catchment_frame::{Dtype, Span};

use crate::DecimateError;
use crate::decimator::Decimator;
use crate::design::Design;
use crate::runs::{Numbering, Runs};

/// The type of decimated samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputType {
    /// Floating point, which keeps what averaging gains: `f32` of integers of up to 16 bits, `f64`
    /// of wider ones; floating point and complex types stay.
    #[default]
    Float,
    /// The type of the input. Integers are rounded to the nearest, halves to even, and set to the
    /// type's limit where they are beyond it.
    Same,
}

/// Decimates one channel of any type of numbers, across frames. Real and imaginary part, and each
/// number of a sample that has several, are decimated by themselves.
///
/// The filters are linear and keep constants: scale and offset of the channel stay what they are.
#[derive(Clone, Debug)]
pub struct ChannelDecimator {
    number: Number,
    output: Number,
    output_dtype: Dtype,
    numbers_per_sample: usize,
    decimators: Vec<Decimator>,
    column: Vec<f64>,
    outputs: Vec<Runs>,
}

/// Decimated samples of a channel as a frame has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decimated {
    bytes: Vec<u8>,
    numbering: Numbering,
    saturated: u64,
}

impl ChannelDecimator {
    /// One that has seen nothing yet, of a channel's samples of type and shape.
    ///
    /// # Errors
    /// If samples have no numbers, or more than 4,096.
    pub fn new(
        design: &Design,
        dtype: Dtype,
        shape: &[u64],
        output: OutputType,
    ) -> Result<Self, DecimateError> {
        let (number, parts) = Number::of(dtype).ok_or(DecimateError::Dtype { dtype })?;
        let of_shape = shape.iter().try_fold(parts, |product: u64, n| product.checked_mul(*n));
        let numbers_per_sample = match of_shape {
            Some(numbers @ 1..=NUMBERS_MAX) => numbers as usize,
            _ => {
                let shape = shape.iter().copied().take(8).collect();
                return Err(DecimateError::Shape { shape });
            }
        };
        let output_dtype = match output {
            OutputType::Same => dtype,
            OutputType::Float => float(dtype),
        };
        let (output, _) = Number::of(output_dtype).ok_or(DecimateError::Dtype { dtype })?;
        Ok(Self {
            number,
            output,
            output_dtype,
            numbers_per_sample,
            decimators: vec![Decimator::new(design); numbers_per_sample],
            column: Vec::new(),
            outputs: vec![Runs::default(); numbers_per_sample],
        })
    }

    /// The type of the decimated samples. Their shape is the input's.
    pub fn output_dtype(&self) -> Dtype {
        self.output_dtype
    }

    /// Takes samples, little-endian, the first of which has the number `first_sample`, and appends
    /// what comes out. A frame with gaps is one call per run of samples.
    ///
    /// # Errors
    /// As [`Decimator::push`], and if the bytes end within a sample. Nothing is taken then.
    pub fn push(
        &mut self,
        first_sample: u64,
        samples: &[u8],
        into: &mut Decimated,
    ) -> Result<(), DecimateError> {
        let sample_bytes = self.number.bytes * self.numbers_per_sample;
        if !samples.len().is_multiple_of(sample_bytes) {
            return Err(DecimateError::Bytes { bytes: samples.len(), sample_bytes });
        }
        // Decimators of one channel have seen the same numbers: the first refuses, or none.
        for (place, decimator) in self.decimators.iter_mut().enumerate() {
            self.column.clear();
            (self.number.read)(samples, self.numbers_per_sample, place, &mut self.column);
            self.outputs[place].clear();
            decimator.push(first_sample, &self.column, &mut self.outputs[place])?;
        }
        let rows = self.outputs[0].samples().len();
        if let Some(number) = self.outputs[0].first_sample() {
            into.numbering.append(number, rows);
        }
        into.bytes.reserve(rows * self.numbers_per_sample * self.output.bytes);
        into.saturated += (self.output.write)(&self.outputs, rows, &mut into.bytes);
        Ok(())
    }
}

impl Decimated {
    /// The samples, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many samples there are.
    pub fn rows(&self) -> u64 {
        self.numbering.rows
    }

    /// The number of the first sample, if there is one.
    pub fn first_sample(&self) -> Option<u64> {
        self.numbering.first_sample
    }

    /// From which row on samples are numbered otherwise than from the first one on.
    pub fn spans(&self) -> &[Span] {
        &self.numbering.spans
    }

    /// Numbers that were set to a limit of their type.
    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.numbering.clear();
        self.saturated = 0;
    }
}

/// How the numbers of a type stand in samples' bytes.
#[derive(Clone, Copy, Debug)]
struct Number {
    bytes: usize,
    /// Appends one number of each sample: of samples with so many numbers that at this place.
    read: fn(&[u8], usize, usize, &mut Vec<f64>),
    /// Appends rows of outputs; how many numbers were set to a limit.
    write: fn(&[Runs], usize, &mut Vec<u8>) -> u64,
}

macro_rules! number {
    ($number:ty, integer: $integer:literal) => {
        Number {
            bytes: size_of::<$number>(),
            read: |samples, per_sample, place, into| {
                let (numbers, _) = samples.as_chunks::<{ size_of::<$number>() }>();
                let of_place = numbers.iter().skip(place).step_by(per_sample);
                into.extend(of_place.map(|raw| <$number>::from_le_bytes(*raw) as f64));
            },
            write: |outputs, rows, into| {
                let mut saturated = 0;
                for row in 0..rows {
                    for output in outputs {
                        let value = output.samples()[row];
                        let value = if $integer { value.round_ties_even() } else { value };
                        // The conversion sets what is beyond the type to its limit.
                        let number = value as $number;
                        into.extend_from_slice(&number.to_le_bytes());
                        saturated += u64::from($integer && number as f64 != value);
                    }
                }
                saturated
            },
        }
    };
}

impl Number {
    /// The numbers of a type, and how many of them an element has.
    fn of(dtype: Dtype) -> Option<(Self, u64)> {
        Some(match dtype {
            Dtype::U8 => (number!(u8, integer: true), 1),
            Dtype::U16 => (number!(u16, integer: true), 1),
            Dtype::U32 => (number!(u32, integer: true), 1),
            Dtype::U64 => (number!(u64, integer: true), 1),
            Dtype::I8 => (number!(i8, integer: true), 1),
            Dtype::I16 => (number!(i16, integer: true), 1),
            Dtype::I32 => (number!(i32, integer: true), 1),
            Dtype::I64 => (number!(i64, integer: true), 1),
            Dtype::F32 => (number!(f32, integer: false), 1),
            Dtype::F64 => (number!(f64, integer: false), 1),
            Dtype::C64 => (number!(f32, integer: false), 2),
            Dtype::C128 => (number!(f64, integer: false), 2),
            _ => return None,
        })
    }
}

/// The floating point type for numbers of a type.
fn float(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::U8 | Dtype::U16 | Dtype::I8 | Dtype::I16 => Dtype::F32,
        Dtype::U32 | Dtype::U64 | Dtype::I32 | Dtype::I64 => Dtype::F64,
        floating => floating,
    }
}

const NUMBERS_MAX: u64 = 4_096;
