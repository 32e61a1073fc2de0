//! The content of channels: a pure function of seed, channel and sample number.
//!
//! A sample is the sum of two tables of coloured Gaussian noise, whose lengths have no common
//! divisor, and a slow drift:
//!
//! ```text
//! x(n) = +-A[(n + a) mod 262,139] +- B[(n + b) mod 262,133] + drift(n)
//! ```
//!
//! The offsets *a* and *b*, the signs and the drift are drawn for each channel. Apart from its
//! drift, the sum repeats after 6.9e10 samples, so no codec finds a repetition, and no two channels
//! are copies of each other within any buffer. The tables hold white noise of variance 1/2 each,
//! and red noise of many times that: sums of one-pole low passes with time constants of 8 to 16,384
//! samples. The drift is linear between points that are 4,096 samples apart.
//!
//! A sample with a shape contains one such signal per element, in the order of its bytes, each with
//! its own offsets, signs and drift; the first equals that of a channel of single numbers with the
//! same index.
//!
//! Integers are `5 x` (16 bits), calibrated floats `gain x`, the gain drawn for each channel
//! between 1e-3 and 1. All arithmetic is exact or IEEE's, without any library's sine or logarithm:
//! the bytes are the same on every machine.

use catchment_frame::Dtype;

use crate::channels::EmulatedChannel;
use crate::content::mix;

/// The samples of many channels.
#[derive(Clone, Debug)]
pub struct ChannelContent {
    tables: Box<Tables>,
    channels: Vec<Channel>,
}

#[derive(Clone, Debug)]
struct Tables {
    // Each with its beginning repeated after its end, so that a block is always contiguous.
    float: [Vec<f32>; 2],
    short: [Vec<i16>; 2],
    // Points of the drift, and in counts.
    drift: Vec<f32>,
    drift_short: Vec<i16>,
    // Positions within a block: 0, 1/4096, .. for floats, 16 times 0, 16 times 1, .. for shorts.
    ramp: Vec<f32>,
    ramp_short: Vec<i16>,
}

#[derive(Clone, Debug)]
struct Channel {
    dtype: Dtype,
    element_bytes: usize,
    sample_bytes: usize,
    gain: f32,
    // Those of the first element; complex ones have two. The others' are drawn when needed, so a
    // channel of many elements takes no more memory.
    parts: [Part; 2],
    seed: u64,
}

/// Where a channel begins in the tables.
#[derive(Clone, Copy, Debug)]
struct Part {
    begin: [u64; 2],
    drift: u64,
    // 0 or -1.
    signs: [i16; 2],
}

/// Samples within one block of the drift.
struct Piece<'a> {
    float: [&'a [f32]; 2],
    short: [&'a [i16]; 2],
    ramp: &'a [f32],
    ramp_short: &'a [i16],
    drift: f32,
    slope: f32,
    drift_short: i16,
    slope_short: i16,
}

impl ChannelContent {
    /// The content of these channels. Channels are identified by their index.
    ///
    /// # Panics
    /// A channel whose type is not a number.
    pub fn new(seed: u64, channels: &[EmulatedChannel]) -> Self {
        let mut random = Random(mix(seed ^ SALT));
        let tables = Box::new(Tables::new(&mut random));
        let base = random.next();
        let channels = (0_u64..)
            .zip(channels)
            .map(|(number, channel)| {
                let EmulatedChannel { name, dtype, shape, .. } = channel;
                let (element_bytes, sample_bytes) =
                    (channel.element_bytes(), channel.sample_bytes());
                assert!(sample_bytes > 0, "{name}: {dtype:?} of shape {shape:?} is no number");
                let seed = mix(base ^ mix(number));
                let mut random = Random(seed);
                let parts = Part::draw_two(&mut random);
                let decade = [1.0, 1e-1, 1e-2][random.below(3) as usize];
                let gain = decade * (1.0 - 0.9 * random.uniform()) as f32;
                Channel { dtype: *dtype, element_bytes, sample_bytes, gain, parts, seed }
            })
            .collect();
        Self { tables, channels }
    }

    /// Bytes of one sample of a channel.
    ///
    /// # Panics
    /// A channel index out of range, as everywhere here.
    #[inline]
    pub fn sample_bytes(&self, channel: u32) -> usize {
        self.channels[channel as usize].sample_bytes
    }

    /// Writes samples, little-endian, from number `first_sample` on; the elements of each in order,
    /// with the last dimension of the shape varying fastest.
    ///
    /// # Panics
    /// A length that is not a whole number of samples.
    pub fn fill(&self, channel: u32, first_sample: u64, out: &mut [u8]) {
        let channel = &self.channels[channel as usize];
        assert!(out.len().is_multiple_of(channel.sample_bytes), "whole samples only");
        match channel.sample_bytes == channel.element_bytes {
            true => self.fill_element(channel, &channel.parts, first_sample, out),
            false => self.fill_shaped(channel, first_sample, out),
        }
    }

    /// Whether samples equal, in every byte, those of that channel from `first_sample` on.
    pub fn verify(&self, channel: u32, first_sample: u64, bytes: &[u8]) -> bool {
        let sample_bytes = self.sample_bytes(channel);
        if !bytes.len().is_multiple_of(sample_bytes) {
            return false;
        }
        let step = (PIECE_BYTES / sample_bytes).max(1) * sample_bytes;
        let mut expected = vec![0; step.min(bytes.len())];
        let mut number = first_sample;
        bytes.chunks(step).all(|piece| {
            let expected = &mut expected[..piece.len()];
            self.fill(channel, number, expected);
            number = number.wrapping_add((piece.len() / sample_bytes) as u64);
            expected == piece
        })
    }

    /// One sample as a number: its first element if it has several, the real part if it is complex.
    /// 64-bit integers are rounded.
    pub fn value(&self, channel: u32, sample: u64) -> f64 {
        let mut bytes = [0; 16];
        let channel = &self.channels[channel as usize];
        self.fill_element(channel, &channel.parts, sample, &mut bytes[..channel.element_bytes]);
        let word = u64::from_le_bytes(*bytes.first_chunk().expect("16 bytes hold 8"));
        match channel.dtype {
            Dtype::U8 => f64::from(word as u8),
            Dtype::I8 => f64::from(word as i8),
            Dtype::U16 => f64::from(word as u16),
            Dtype::I16 => f64::from(word as i16),
            Dtype::U32 => f64::from(word as u32),
            Dtype::I32 => f64::from(word as i32),
            Dtype::U64 => word as f64,
            Dtype::I64 => word as i64 as f64,
            Dtype::F32 | Dtype::C64 => f64::from(f32::from_bits(word as u32)),
            _ => f64::from_bits(word),
        }
    }

    /// Makes samples element by element, each element for all samples at once, and puts them in
    /// their places.
    fn fill_shaped(&self, channel: &Channel, first_sample: u64, out: &mut [u8]) {
        let Channel { element_bytes, sample_bytes, .. } = *channel;
        let mut made = [0; PIECE_BYTES];
        let step = (PIECE_BYTES / element_bytes).saturating_mul(sample_bytes);
        let mut number = first_sample;
        for area in out.chunks_mut(step) {
            let count = area.len() / sample_bytes;
            let made = &mut made[..count * element_bytes];
            for (element, at) in (0..).zip((0..sample_bytes).step_by(element_bytes)) {
                self.fill_element(channel, &channel.parts_of(element), number, made);
                let samples = area.chunks_exact_mut(sample_bytes);
                for (sample, value) in samples.zip(made.chunks_exact(element_bytes)) {
                    sample[at..][..element_bytes].copy_from_slice(value);
                }
            }
            number = number.wrapping_add(count as u64);
        }
    }

    /// Writes one element of consecutive samples.
    fn fill_element(&self, channel: &Channel, parts: &[Part; 2], first: u64, out: &mut [u8]) {
        let mut number = first;
        let mut rest = out;
        while !rest.is_empty() {
            let left = (BLOCK - number % BLOCK) as usize;
            let count = left.min(rest.len() / channel.element_bytes);
            let (area, behind) = rest.split_at_mut(count * channel.element_bytes);
            self.fill_piece(channel, parts, number, area);
            number = number.wrapping_add(count as u64);
            rest = behind;
        }
    }

    fn fill_piece(&self, channel: &Channel, parts: &[Part; 2], number: u64, out: &mut [u8]) {
        let count = out.len() / channel.element_bytes;
        let [part, imaginary] = parts;
        let piece = self.tables.piece(part, number, count);
        let gain = channel.gain;
        match channel.dtype {
            Dtype::F32 => piece.floats(part, gain, out.as_chunks_mut().0),
            Dtype::I16 => piece.shorts(part, 0, out.as_chunks_mut().0),
            Dtype::U16 => piece.shorts(part, i16::MIN, out.as_chunks_mut().0),
            Dtype::U8 => piece.each(part, out, |x| [(128.0 + x) as u8]),
            Dtype::I8 => piece.each(part, out, |x| (x as i8).to_le_bytes()),
            Dtype::U32 => piece.each(part, out, |x| ((MIDDLE_U32 + x * WIDE) as u32).to_le_bytes()),
            Dtype::I32 => piece.each(part, out, |x| ((x * WIDE) as i32).to_le_bytes()),
            Dtype::U64 => piece.each(part, out, |x| ((MIDDLE_U64 + x * WIDE) as u64).to_le_bytes()),
            Dtype::I64 => piece.each(part, out, |x| ((x * WIDE) as i64).to_le_bytes()),
            Dtype::F64 => piece.each(part, out, |x| (f64::from(gain) * x).to_le_bytes()),
            Dtype::C64 => {
                let other = self.tables.piece(imaginary, number, count);
                let gain = f64::from(gain);
                let pairs = piece.values(part).zip(other.values(imaginary));
                for (out, (re, im)) in out.as_chunks_mut::<8>().0.iter_mut().zip(pairs) {
                    let both = [re, im].map(|x| ((gain * x) as f32).to_le_bytes());
                    out.copy_from_slice(both.as_flattened());
                }
            }
            Dtype::C128 => {
                let other = self.tables.piece(imaginary, number, count);
                let gain = f64::from(gain);
                let pairs = piece.values(part).zip(other.values(imaginary));
                for (out, (re, im)) in out.as_chunks_mut::<16>().0.iter_mut().zip(pairs) {
                    let both = [re, im].map(|x| (gain * x).to_le_bytes());
                    out.copy_from_slice(both.as_flattened());
                }
            }
            Dtype::Opaque | Dtype::Bits | Dtype::Record | Dtype::Unknown(_) => {
                unreachable!("no such channel is made")
            }
        }
    }
}

impl Tables {
    fn new(random: &mut Random) -> Self {
        let float = LENGTHS.map(|length| coloured(random, length as usize));
        let counts = |table: &Vec<f32>| table.iter().map(|x| (x * COUNTS).round() as i16).collect();
        let short = float.each_ref().map(counts);
        let drift: Vec<f64> = filtered(random, DRIFT_LENGTH as usize, &[16.0, 64.0]);
        let mut drift: Vec<f32> = drift.iter().map(|x| (DRIFT_SIGMA * x) as f32).collect();
        drift.push(drift[0]);
        Self {
            float,
            short,
            drift_short: counts(&drift),
            drift,
            ramp: (0..BLOCK).map(|place| place as f32 / BLOCK as f32).collect(),
            ramp_short: (0..BLOCK).map(|place| (place * 256 / BLOCK) as i16).collect(),
        }
    }

    #[inline]
    fn piece(&self, part: &Part, number: u64, count: usize) -> Piece<'_> {
        let place = (number % BLOCK) as usize;
        let point = ((number / BLOCK + part.drift) % DRIFT_LENGTH) as usize;
        let [from_a, from_b] = [0, 1]
            .map(|table| ((number % LENGTHS[table] + part.begin[table]) % LENGTHS[table]) as usize);
        let (begin, end) = (self.drift[point], self.drift[point + 1]);
        let (begin_short, end_short) = (self.drift_short[point], self.drift_short[point + 1]);
        Piece {
            float: [&self.float[0][from_a..][..count], &self.float[1][from_b..][..count]],
            short: [&self.short[0][from_a..][..count], &self.short[1][from_b..][..count]],
            ramp: &self.ramp[place..][..count],
            ramp_short: &self.ramp_short[place..][..count],
            drift: begin,
            slope: end - begin,
            drift_short: begin_short,
            // A difference of 128 counts is more than 6 standard deviations.
            slope_short: (end_short - begin_short).clamp(-127, 127),
        }
    }
}

impl Channel {
    fn parts_of(&self, element: u64) -> [Part; 2] {
        match element {
            0 => self.parts,
            _ => Part::draw_two(&mut Random(mix(self.seed ^ mix(element)))),
        }
    }
}

impl Part {
    fn draw_two(random: &mut Random) -> [Self; 2] {
        [Self::draw(random), Self::draw(random)]
    }

    fn draw(random: &mut Random) -> Self {
        Self {
            begin: LENGTHS.map(|length| random.below(length)),
            drift: random.below(DRIFT_LENGTH),
            signs: [0, 1].map(|_| -(random.below(2) as i16)),
        }
    }
}

impl Piece<'_> {
    /// Written so that the compiler uses whole vectors: three products, three sums.
    fn floats(&self, part: &Part, gain: f32, out: &mut [[u8; 4]]) {
        let [a, b] = part.signs.map(|sign| if sign == 0 { gain } else { -gain });
        let (drift, slope) = (self.drift * gain, self.slope * gain);
        let tables = self.float[0].iter().zip(self.float[1]).zip(self.ramp);
        for (out, ((x, y), t)) in out.iter_mut().zip(tables) {
            *out = ((x * a + y * b) + (drift + slope * t)).to_le_bytes();
        }
    }

    /// In 16 bits throughout, so that a vector holds as many as possible: slope and position are
    /// below 2^7 and 2^8.
    fn shorts(&self, part: &Part, middle: i16, out: &mut [[u8; 2]]) {
        let [a, b] = part.signs;
        let drift = self.drift_short.wrapping_add(middle);
        let slope = self.slope_short;
        let tables = self.short[0].iter().zip(self.short[1]).zip(self.ramp_short);
        for (out, ((x, y), t)) in out.iter_mut().zip(tables) {
            // x or, with a sign of -1, its complement, which is 1 off -x.
            let noise = (x ^ a).wrapping_add(y ^ b);
            let way = slope.wrapping_mul(*t) >> 8;
            *out = noise.wrapping_add(drift).wrapping_add(way).to_le_bytes();
        }
    }

    /// Number by number, for rare types.
    fn each<const N: usize>(&self, part: &Part, out: &mut [u8], of: impl Fn(f64) -> [u8; N]) {
        for (out, x) in out.as_chunks_mut::<N>().0.iter_mut().zip(self.values(part)) {
            *out = of(x);
        }
    }

    fn values(&self, part: &Part) -> impl Iterator<Item = f64> {
        let [a, b] = part.signs.map(|sign| if sign == 0 { 1.0 } else { -1.0 });
        let (drift, slope) = (f64::from(self.drift), f64::from(self.slope));
        let tables = self.float[0].iter().zip(self.float[1]).zip(self.ramp);
        tables.map(move |((x, y), t)| {
            f64::from(*x) * a + f64::from(*y) * b + (drift + slope * f64::from(*t))
        })
    }
}

/// White noise and red, such that two such tables added have white noise of variance 1.
fn coloured(random: &mut Random, length: usize) -> Vec<f32> {
    let red = filtered(random, length, &TIME_CONSTANTS);
    let half = 0.5_f64.sqrt();
    let mut table: Vec<f32> =
        red.iter().map(|red| (half * (random.gaussian() + RED_SIGMA * red)) as f32).collect();
    table.extend_from_within(..BLOCK as usize);
    table
}

/// The sum of one-pole low passes of white noise, of total variance 1, each with the same share. It
/// is periodic: its end matches its beginning.
fn filtered(random: &mut Random, length: usize, time_constants: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; length];
    let share = (1.0 / time_constants.len() as f64).sqrt();
    for time_constant in time_constants {
        let pole = 1.0 - 1.0 / time_constant;
        let gain = share * (1.0 - pole * pole).sqrt();
        let white: Vec<f64> = (0..length).map(|_| random.gaussian()).collect();
        // Run once around to find the state at its end, which is its initial state.
        let mut state = white.iter().fold(0.0, |state, white| pole * state + white);
        for (out, white) in out.iter_mut().zip(&white) {
            state = pole * state + white;
            *out += gain * state;
        }
    }
    out
}

/// SplitMix64.
struct Random(u64);

impl Random {
    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Variance 1, within 6 sigma: the sum of twelve uniform 16-bit numbers.
    #[inline]
    fn gaussian(&mut self) -> f64 {
        let mut sum = 0;
        for _ in 0..3 {
            let word = self.next();
            sum += (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
        }
        (sum as f64 - 6.0 * 65_535.0) / 65_536.0
    }
}

/// Samples of the two tables: each a block longer than 2^18 would exceed one core's cache.
const LENGTHS: [u64; 2] = [262_139, 262_133];
/// Samples per step of the drift.
const BLOCK: u64 = 4_096;
const DRIFT_LENGTH: u64 = 4_093;
/// The time constants of the red noise, in samples.
const TIME_CONSTANTS: [f64; 6] = [8.0, 32.0, 128.0, 512.0, 2_048.0, 16_384.0];
/// Standard deviations, relative to 1 for the white noise.
const RED_SIGMA: f64 = 4.0;
const DRIFT_SIGMA: f64 = 12.0;
/// Counts of a converter per white standard deviation.
const COUNTS: f32 = 5.0;
/// The unit of larger integers, so that they have digits below those of 16 bits.
const WIDE: f64 = 65_536.0;
const MIDDLE_U32: f64 = 2_147_483_648.0;
const MIDDLE_U64: f64 = 9_223_372_036_854_775_808.0;
/// Made at a time if the destination is elsewhere.
const PIECE_BYTES: usize = 8 * 1024;
/// So that channels are independent of the numbers of fragments.
const SALT: u64 = 0x6368_616e_6e65_6c73;

const fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

const _: () = {
    assert!(common_divisor(LENGTHS[0], LENGTHS[1]) == 1);
    assert!(BLOCK < LENGTHS[0] && BLOCK < LENGTHS[1]);
    assert!(127 * 255 <= i16::MAX as u64);
    // No sum of shorts overflows: noise of at most 6 standard deviations, and the drift.
    assert!((6.0 * (1.0 + 2.0 * RED_SIGMA + DRIFT_SIGMA) * 5.0) < 32_767.0 / 2.0);
};
