//! Choosing a coding for a column by trying: what a byte saved is worth depends on how much CPU is
//! free.

use crate::coding::Coding;
use crate::element::Element;
use crate::encode::ColumnEncoder;

/// What a second of CPU per GB may cost in parts of the column, when all CPU is free. It grows as
/// less is.
const CPU_PRICE: f32 = 0.02;
/// Less is never assumed to be free, so that cheap codings stay worth it.
const FREE_MIN: f32 = 0.02;
/// A coding must save so much of the column, whatever it costs.
const SAVING_MIN: f32 = 0.05;
/// Another coding must be so much better than the one in use.
const BETTER_MIN: f32 = 0.03;
/// So many columns pass between two looks at how well the coding does.
const COLUMNS_BETWEEN_LOOKS: u32 = 64;
/// The stored part of a column may change by so much before codings are tried anew within a file.
const DRIFT_MAX: f32 = 0.25;

/// What one coding made of samples of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The coding.
    pub coding: Coding,
    /// Bytes stored per raw byte.
    pub stored_share: f32,
}

/// What was decided for a column, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The coding.
    pub coding: Coding,
    /// What was tried.
    pub trials: Vec<Trial>,
    /// How much CPU was free: 0 to 1.
    pub free_cpu_share: f32,
}

/// The coding of one column, chosen from samples and kept for a file: readers of references want one
/// codec per array. The same columns and shares give the same codings.
#[derive(Clone, Debug)]
pub struct Auto {
    element: Element,
    decision: Option<Decision>,
    stale: bool,
    columns_since_look: u32,
}

impl Auto {
    /// Nothing is decided before the first column.
    pub fn new(element: Element) -> Self {
        Self { element, decision: None, stale: true, columns_since_look: 0 }
    }

    /// Has the next column tried anew.
    pub fn begin_file(&mut self) {
        self.stale = true;
    }

    /// What was decided last.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The coding for this column, the next of its kind. `free_cpu_share` is how much of the CPU
    /// that encodes is idle: 0 to 1. Trials run in `encoder`'s memory.
    pub fn choose(
        &mut self,
        encoder: &mut ColumnEncoder,
        raw: &[u8],
        free_cpu_share: f32,
    ) -> Coding {
        let last = self.decision.as_ref().map_or(Coding::None, |decision| decision.coding);
        if raw.is_empty() {
            return last;
        }
        self.columns_since_look += 1;
        let look = self.columns_since_look >= COLUMNS_BETWEEN_LOOKS;
        let anew = self.stale || (look && self.drifted(encoder, raw));
        if !anew {
            return last;
        }
        self.columns_since_look = 0;
        self.stale = false;
        self.decide(encoder, raw, free_cpu_share).coding
    }

    /// Whether the coding in use does very differently from when it was chosen.
    fn drifted(&mut self, encoder: &mut ColumnEncoder, raw: &[u8]) -> bool {
        self.columns_since_look = 0;
        let Some(decision) = &self.decision else { return true };
        // Where nothing was worth it, the cheapest that was tried tells whether something is now.
        let Some(tried) = (match decision.coding {
            Coding::None => decision.trials.first(),
            used => decision.trials.iter().find(|trial| trial.coding == used),
        }) else {
            return true;
        };
        let share = stored_share(encoder, tried.coding, self.element, raw);
        (share - tried.stored_share).abs() > DRIFT_MAX * share.max(tried.stored_share)
    }

    fn decide(&mut self, encoder: &mut ColumnEncoder, raw: &[u8], free: f32) -> &Decision {
        let free = if free.is_finite() { free.clamp(0.0, 1.0) } else { 0.0 };
        let price = CPU_PRICE / free.max(FREE_MIN);
        let trials: Vec<Trial> = candidates(self.element)
            .iter()
            // What costs more than it could ever save need not be tried.
            .filter(|&&coding| price * cpu_seconds_per_gb(coding) < 1.0)
            .map(|&coding| {
                let stored_share = stored_share(encoder, coding, self.element, raw);
                Trial { coding, stored_share }
            })
            .collect();
        let score = |trial: &Trial| trial.stored_share + price * cpu_seconds_per_gb(trial.coding);
        let in_use = self.decision.as_ref().map(|decision| decision.coding);
        let mut coding = Coding::None;
        let mut best =
            if in_use.is_some_and(|used| used != Coding::None) { 1.0 + BETTER_MIN } else { 1.0 };
        for trial in &trials {
            let bonus = if in_use == Some(trial.coding) { BETTER_MIN } else { 0.0 };
            if trial.stored_share <= 1.0 - SAVING_MIN && score(trial) - bonus < best {
                best = score(trial) - bonus;
                coding = trial.coding;
            }
        }
        self.decision.insert(Decision { coding, trials, free_cpu_share: free })
    }
}

fn stored_share(encoder: &mut ColumnEncoder, coding: Coding, element: Element, raw: &[u8]) -> f32 {
    let (encoded_bytes, sample_bytes) = encoder.try_samples(coding, element, raw);
    encoded_bytes as f32 / sample_bytes.max(1) as f32
}

/// What is worth trying, the cheapest first.
fn candidates(element: Element) -> &'static [Coding] {
    const ZSTD: Coding = Coding::Zstd { level: 1 };
    const SHUFFLE_ZSTD: Coding = Coding::ShuffleZstd { level: 1 };
    const BITSHUFFLE_ZSTD: Coding = Coding::BitshuffleZstd { level: 1 };
    if element.is_integer() {
        return &[Coding::For, Coding::BitshuffleLz4, BITSHUFFLE_ZSTD, ZSTD];
    }
    match element {
        Element::Bytes => &[Coding::Lz4, ZSTD],
        Element::Record(_) => {
            &[Coding::BitshuffleLz4, Coding::Lz4, Coding::ShuffleLz4, SHUFFLE_ZSTD, ZSTD]
        }
        _ => &[Coding::BitshuffleLz4, SHUFFLE_ZSTD, ZSTD],
    }
}

/// What encoding costs one core, in round numbers, so that decisions do not hang on the machine:
/// `catchment bench codecs` measures.
fn cpu_seconds_per_gb(coding: Coding) -> f32 {
    match coding {
        Coding::None => 0.0,
        Coding::For => 0.3,
        Coding::BitshuffleLz4 => 0.5,
        Coding::ShuffleLz4 | Coding::Lz4 => 1.0,
        Coding::BitshuffleZstd { .. } => 1.2,
        Coding::ShuffleZstd { .. } => 1.8,
        Coding::Zstd { .. } => 2.8,
        Coding::Pcodec { .. } => 10.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of random numbers around a pedestal, as an ADC gives them.
    fn adc(count: usize, spread: u64, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            (state >> 33) % spread.max(1)
        };
        (0..count).flat_map(|_| ((2_000 + next() + next()) as u16).to_le_bytes()).collect()
    }

    fn floats(count: usize) -> Vec<u8> {
        let noise = adc(count, 1_000, 3);
        let (numbers, _) = noise.as_chunks::<2>();
        let value = |n: &[u8; 2]| (f32::from(u16::from_le_bytes(*n)) / 256.0).to_le_bytes();
        numbers.iter().flat_map(value).collect()
    }

    #[test]
    fn integers_get_for_and_floats_a_shuffle_where_cpu_is_short() {
        let mut encoder = ColumnEncoder::new();
        let mut auto = Auto::new(Element::U16);
        assert_eq!(auto.choose(&mut encoder, &adc(50_000, 16, 1), 0.1), Coding::For);
        let mut auto = Auto::new(Element::F32);
        let coding = auto.choose(&mut encoder, &floats(50_000), 0.5);
        assert!(matches!(coding, Coding::ShuffleZstd { .. } | Coding::BitshuffleLz4), "{coding}");
        let decision = auto.decision().expect("a decision");
        assert_eq!((decision.coding, decision.trials.len()), (coding, 3));
    }

    #[test]
    fn nothing_is_done_for_noise_whatever_is_free() {
        let mut encoder = ColumnEncoder::new();
        for element in [Element::Bytes, Element::U16, Element::F64, Element::Record(7)] {
            for free in [0.0, 0.5, 1.0, f32::NAN] {
                let mut auto = Auto::new(element);
                let raw: Vec<u8> = adc(100_000, 1 << 16, 9)
                    .iter()
                    .scan(1u32, |state, byte| {
                        *state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                        Some((*state >> 24) as u8 ^ byte)
                    })
                    .collect();
                assert_eq!(auto.choose(&mut encoder, &raw, free), Coding::None, "{element}");
            }
        }
    }

    #[test]
    fn a_file_keeps_its_coding_unless_the_data_change_much() {
        let mut encoder = ColumnEncoder::new();
        let mut auto = Auto::new(Element::U16);
        let quiet = adc(5_000, 8, 1);
        let first = auto.choose(&mut encoder, &quiet, 1.0);
        for seed in 0..200 {
            // Less CPU is free; but the file has its coding.
            assert_eq!(auto.choose(&mut encoder, &adc(5_000, 8, seed + 2), 0.01), first);
        }
        let before = auto.decision().cloned();
        let mut seen = false;
        for seed in 0..64 {
            auto.choose(&mut encoder, &adc(5_000, 8_000, seed), 0.5);
            seen |= auto.decision().cloned() != before;
        }
        assert!(seen, "noise a thousand times as strong is noticed");
    }

    #[test]
    fn the_same_columns_give_the_same_codings() {
        let mut runs = (0..2).map(|_| {
            let mut encoder = ColumnEncoder::new();
            let mut auto = Auto::new(Element::I16);
            let mut codings = Vec::new();
            for file in 0..6 {
                auto.begin_file();
                for column in 0..3 {
                    let raw = adc(20_000, 1 << (2 * file), column);
                    codings.push(auto.choose(&mut encoder, &raw, column as f32 / 3.0));
                }
                assert_eq!(
                    codings[3 * file..].iter().collect::<std::collections::HashSet<_>>().len(),
                    1
                );
            }
            codings
        });
        assert_eq!(runs.next(), runs.next());
    }
}
