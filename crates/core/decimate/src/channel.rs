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
        let (output, output_dtype) = match output {
            OutputType::Same => (number, dtype),
            OutputType::Float => number.float(dtype),
        };
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
        let sample_bytes = self.number.bytes() * self.numbers_per_sample;
        if !samples.len().is_multiple_of(sample_bytes) {
            return Err(DecimateError::Bytes { bytes: samples.len(), sample_bytes });
        }
        // Decimators of one channel have seen the same numbers: the first refuses, or none.
        for (place, decimator) in self.decimators.iter_mut().enumerate() {
            self.column.clear();
            self.number.read(samples, self.numbers_per_sample, place, &mut self.column);
            self.outputs[place].clear();
            decimator.push(first_sample, &self.column, &mut self.outputs[place])?;
        }
        let rows = self.outputs[0].samples().len();
        if let Some(number) = self.outputs[0].first_sample() {
            into.numbering.append(number, rows);
        }
        into.bytes.reserve(rows * self.numbers_per_sample * self.output.bytes());
        for row in 0..rows {
            for output in &self.outputs {
                into.saturated +=
                    u64::from(self.output.write(output.samples()[row], &mut into.bytes));
            }
        }
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

/// How a number stands in a sample's bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Number {
    /// The numbers of a type, and how many of them an element has.
    fn of(dtype: Dtype) -> Option<(Self, u64)> {
        Some(match dtype {
            Dtype::U8 => (Self::U8, 1),
            Dtype::U16 => (Self::U16, 1),
            Dtype::U32 => (Self::U32, 1),
            Dtype::U64 => (Self::U64, 1),
            Dtype::I8 => (Self::I8, 1),
            Dtype::I16 => (Self::I16, 1),
            Dtype::I32 => (Self::I32, 1),
            Dtype::I64 => (Self::I64, 1),
            Dtype::F32 => (Self::F32, 1),
            Dtype::F64 => (Self::F64, 1),
            Dtype::C64 => (Self::F32, 2),
            Dtype::C128 => (Self::F64, 2),
            _ => return None,
        })
    }

    /// The floating point type for these numbers.
    fn float(self, dtype: Dtype) -> (Self, Dtype) {
        match self {
            Self::F32 | Self::F64 => (self, dtype),
            Self::U8 | Self::U16 | Self::I8 | Self::I16 => (Self::F32, Dtype::F32),
            Self::U32 | Self::U64 | Self::I32 | Self::I64 => (Self::F64, Dtype::F64),
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Appends number `place` of each sample.
    fn read(self, samples: &[u8], per_sample: usize, place: usize, into: &mut Vec<f64>) {
        macro_rules! read {
            ($number:ty) => {{
                let (numbers, _) = samples.as_chunks::<{ size_of::<$number>() }>();
                let of_place = numbers.iter().skip(place).step_by(per_sample);
                into.extend(of_place.map(|raw| <$number>::from_le_bytes(*raw) as f64));
            }};
        }
        match self {
            Self::U8 => read!(u8),
            Self::U16 => read!(u16),
            Self::U32 => read!(u32),
            Self::U64 => read!(u64),
            Self::I8 => read!(i8),
            Self::I16 => read!(i16),
            Self::I32 => read!(i32),
            Self::I64 => read!(i64),
            Self::F32 => read!(f32),
            Self::F64 => read!(f64),
        }
    }

    /// Appends a number; whether it was set to a limit.
    fn write(self, value: f64, into: &mut Vec<u8>) -> bool {
        macro_rules! write {
            ($number:ty) => {{
                // The conversion sets what is beyond the type to its limit.
                let rounded = value.round_ties_even();
                let number = rounded as $number;
                into.extend_from_slice(&number.to_le_bytes());
                number as f64 != rounded
            }};
        }
        match self {
            Self::U8 => write!(u8),
            Self::U16 => write!(u16),
            Self::U32 => write!(u32),
            Self::U64 => write!(u64),
            Self::I8 => write!(i8),
            Self::I16 => write!(i16),
            Self::I32 => write!(i32),
            Self::I64 => write!(i64),
            Self::F32 => {
                into.extend_from_slice(&(value as f32).to_le_bytes());
                false
            }
            Self::F64 => {
                into.extend_from_slice(&value.to_le_bytes());
                false
            }
        }
    }
}

const NUMBERS_MAX: u64 = 4_096;
