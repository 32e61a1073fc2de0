//! The choice of reference and width for a block.

use super::lanes::BLOCK;
use super::word::Word;

/// Bytes of a block's header before its reference.
pub const BLOCK_HEADER_BYTES: usize = 4;
/// Words sampled to choose between the ways: eight runs of sixteen.
const SAMPLE: usize = 128;
const RUN: usize = 16;

/// Ways to make words small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<T> {
    /// Less the block's smallest.
    Floor(T),
    /// As a distance from a middle, in either direction.
    Middle(T),
    /// As differences from the previous word, less a slope.
    Delta(T),
}

/// The way that packs a sample of the block best. `flip` is the top bit if elements are signed.
#[inline(always)]
pub fn choose<T: Word>(words: &[T; BLOCK], flip: T) -> Way<T> {
    let (mut low, mut high) = (words[0] ^ flip, words[0] ^ flip);
    for &word in words {
        low = low.min(word ^ flip);
        high = high.max(word ^ flip);
    }
    let floor = low ^ flip;
    if low == high {
        return Way::Floor(floor);
    }
    let middle = floor.plus(mean_above(words, floor));
    let rise = words[BLOCK - 1].minus(words[0]);
    let slope = rise.signed_over(BLOCK as i64 - 1);
    let mut samples = [[T::default(); SAMPLE]; 3];
    for run in 0..SAMPLE / RUN {
        let at = run * (BLOCK / (SAMPLE / RUN)) + 1;
        for i in 0..RUN {
            let (word, before) = (words[at + i], words[at + i - 1]);
            samples[0][run * RUN + i] = word.minus(floor);
            samples[1][run * RUN + i] = word.minus(middle).zigzag();
            samples[2][run * RUN + i] = word.minus(before).minus(slope).zigzag();
        }
    }
    let costs = samples.map(|sample| best_width(&sample, None).cost);
    // A delta has one more field, and takes longer to decode: it must be worth it.
    let delta = costs[2] + costs[2] / 16 + T::BYTES;
    if delta < costs[0].min(costs[1]) {
        Way::Delta(slope)
    } else if costs[1] < costs[0] {
        Way::Middle(middle)
    } else {
        Way::Floor(floor)
    }
}

/// The mean of the words' distances above `floor`, rounded down.
#[inline(always)]
fn mean_above<T: Word>(words: &[T; BLOCK], floor: T) -> T {
    // Sums of 1,024 words of 54 bits fit into 64; longer ones lose bits that the mean does not
    // need.
    let drop = if T::BITS > 32 { 10 } else { 0 };
    let mut sums = [0u64; 8];
    for run in words.as_chunks::<8>().0 {
        for (sum, word) in sums.iter_mut().zip(run) {
            *sum += word.minus(floor).wide() >> drop;
        }
    }
    T::low(sums.iter().sum::<u64>() >> (10 - drop))
}

/// A width, and the total bytes of packed words and exceptions at that width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Bits of a packed word.
    pub bits: u32,
    /// Words that do not fit.
    pub exceptions: usize,
    /// Bytes of the words and of the exceptions.
    pub cost: usize,
}

/// The width at which packed words take the least space, walking from the best one for a sample.
#[inline(always)]
pub fn best_width<T: Word, const N: usize>(words: &[T; N], start: Option<u32>) -> Width {
    let mut all = T::default();
    for &word in words {
        all |= word;
    }
    let longest = all.length();
    let at = |bits: u32| {
        let exceptions = if bits >= longest { 0 } else { longer_than(words, bits) };
        let cost = bits as usize * N / 8 + exceptions * exception_bytes::<T>();
        Width { bits, exceptions, cost }
    };
    let mut best = at(start.unwrap_or(longest).min(longest));
    let mut up = best;
    while up.bits < longest && up.exceptions > 0 {
        up = at(up.bits + 1);
        if up.cost >= best.cost {
            break;
        }
        best = up;
    }
    let mut bits = best.bits;
    while bits > 0 {
        bits -= 1;
        let down = at(bits);
        if down.cost < best.cost {
            best = down;
        } else if down.exceptions * exception_bytes::<T>() >= best.cost || down.exceptions > N / 16
        {
            break;
        }
    }
    // Far outliers can end the walk on the wrong side of a hill.
    let whole = at(longest);
    if whole.cost < best.cost { whole } else { best }
}

/// Bytes of one exception: its index and its word.
pub const fn exception_bytes<T: Word>() -> usize {
    2 + T::BYTES
}

/// How many words need more bits.
#[inline(always)]
fn longer_than<T: Word, const N: usize>(words: &[T; N], bits: u32) -> usize {
    const { assert!(N.is_multiple_of(128)) };
    // Counted in words as wide as those compared, so that both fill a vector. At most 16 per lane.
    let mut counts = [T::default(); 64];
    for run in words.as_chunks::<64>().0 {
        for (count, &word) in counts.iter_mut().zip(run) {
            let longer = word >> bits != T::default();
            *count = count.plus(T::low(u64::from(longer)));
        }
    }
    counts.iter().map(|count| count.wide() as usize).sum()
}
