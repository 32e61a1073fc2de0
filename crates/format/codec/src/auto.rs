//! Chooses a column's coding by trying: the value of a saved byte depends on how much CPU is free.
//! See docs/decisions/compression.md.

use crate::coding::Coding;
use crate::element::Element;
use crate::encode::ColumnEncoder;

/// The price of a CPU second per GB, in parts of the column, if all CPU is free. It grows faster
/// than the free share shrinks: without spare CPU, twice the work is unaffordable.
const CPU_PRICE: f32 = 0.01;
/// The free share is never assumed to be less, so that cheap codings remain worthwhile.
const FREE_MIN: f32 = 0.05;
/// The part of the column that a coding must save, whatever it costs.
const SAVING_MIN: f32 = 0.05;
/// How much better another coding must be than the present one, as a part of the present one's
/// total.
const BETTER_MIN: f32 = 0.06;
/// The most columns between two checks of how well the coding does: after a decision first 1, then
/// 2, 4 and so on, since a run's first column may be unlike all others.
const COLUMNS_BETWEEN_LOOKS: u32 = 64;
/// The change of a column's stored part at which codings are tried again within a file; and the
/// change as a part of the column, so that a doubling of almost nothing does not count.
const DRIFT_MAX: f32 = 0.25;
const DRIFT_MAX_OF_COLUMN: f32 = 0.02;
/// Trials use one byte in this many, between these bounds.
const SAMPLE_DIVISOR: usize = 16;
const SAMPLE_BYTES_MIN: usize = 32 * 1024;
const SAMPLE_BYTES_MAX: usize = 128 * 1024;

/// The result of one coding on samples of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The coding.
    pub coding: Coding,
    /// Bytes stored per raw byte.
    pub stored_share: f32,
}

/// The decision for a column, and its basis.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The coding.
    pub coding: Coding,
    /// The trials.
    pub trials: Vec<Trial>,
    /// How much CPU was free: 0 to 1.
    pub free_cpu_share: f32,
}

/// The coding of one column, chosen from samples and used for a whole file: readers of references
/// need one codec per array. The same columns and shares give the same codings.
#[derive(Clone, Debug)]
pub struct Auto {
    element: Element,
    decision: Option<Decision>,
    stale: bool,
    columns_since_look: u32,
    columns_to_look: u32,
}

impl Auto {
    /// Nothing is decided before the first column.
    pub fn new(element: Element) -> Self {
        let (columns_since_look, columns_to_look) = (0, 1);
        Self { element, decision: None, stale: true, columns_since_look, columns_to_look }
    }

    /// Makes the next column try the codings again.
    pub fn begin_file(&mut self) {
        self.stale = true;
    }

    /// The coding for this column, the next of its kind. `free_cpu_share` is the idle share, 0 to
    /// 1, of the CPU that encodes. Trials run in `encoder`'s memory.
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
        if !self.stale {
            self.columns_since_look += 1;
            if self.columns_since_look < self.columns_to_look {
                return last;
            }
            self.columns_since_look = 0;
            self.columns_to_look = (self.columns_to_look * 2).min(COLUMNS_BETWEEN_LOOKS);
            if !self.drifted(encoder, raw) {
                return last;
            }
        }
        self.stale = false;
        (self.columns_since_look, self.columns_to_look) = (0, 1);
        self.decide(encoder, raw, free_cpu_share).coding
    }

    /// Whether the next column stays raw whatever its bytes: nothing was worthwhile at the last
    /// check, and no check is due. It then counts as chosen.
    pub fn stays_raw(&mut self) -> bool {
        let none = self.decision.as_ref().is_some_and(|decision| decision.coding == Coding::None);
        let passes = none && !self.stale && self.columns_since_look + 1 < self.columns_to_look;
        self.columns_since_look += u32::from(passes);
        passes
    }

    /// Whether the present coding does very differently from when it was chosen.
    fn drifted(&self, encoder: &mut ColumnEncoder, raw: &[u8]) -> bool {
        let Some(decision) = &self.decision else { return true };
        // If nothing was worthwhile, the cheapest tried coding shows whether something is now.
        let Some(tried) = (match decision.coding {
            Coding::None => decision.trials.first(),
            used => decision.trials.iter().find(|trial| trial.coding == used),
        }) else {
            return true;
        };
        let share = stored_share(encoder, tried.coding, self.element, raw);
        let limit = (DRIFT_MAX * share.max(tried.stored_share)).max(DRIFT_MAX_OF_COLUMN);
        (share - tried.stored_share).abs() > limit
    }

    fn decide(&mut self, encoder: &mut ColumnEncoder, raw: &[u8], free: f32) -> &Decision {
        let free = if free.is_finite() { free.clamp(0.0, 1.0) } else { 0.0 };
        let spare = free.max(FREE_MIN);
        let price = CPU_PRICE / (spare * spare.sqrt());
        let in_use = self.decision.as_ref().map(|decision| decision.coding);
        // The present coding stays unless another is better by more than the noise of samples.
        let favour = |coding: Coding, score: f32| match in_use {
            Some(used) if used == coding => score * (1.0 - BETTER_MIN),
            _ => score,
        };
        let mut trials = Vec::new();
        let mut coding = Coding::None;
        let mut best = favour(Coding::None, 1.0);
        for &candidate in candidates(self.element) {
            // A coding that cannot win, whatever it saves, need not be tried.
            if favour(candidate, price * cpu_seconds_per_gb(candidate, 0.0)) >= best {
                continue;
            }
            let stored_share = stored_share(encoder, candidate, self.element, raw);
            trials.push(Trial { coding: candidate, stored_share });
            let cost = price * cpu_seconds_per_gb(candidate, stored_share);
            let score = favour(candidate, stored_share + cost);
            if stored_share <= 1.0 - SAVING_MIN && score < best {
                best = score;
                coding = candidate;
            }
        }
        self.decision.insert(Decision { coding, trials, free_cpu_share: free })
    }
}

fn stored_share(encoder: &mut ColumnEncoder, coding: Coding, element: Element, raw: &[u8]) -> f32 {
    let bytes = (raw.len() / SAMPLE_DIVISOR).clamp(SAMPLE_BYTES_MIN, SAMPLE_BYTES_MAX);
    let [encoded_bytes, sample_bytes] = encoder.try_sample(coding, element, raw, bytes);
    encoded_bytes as f32 / sample_bytes.max(1) as f32
}

/// The codings worth trying, the cheapest first.
fn candidates(element: Element) -> &'static [Coding] {
    const ZSTD: Coding = Coding::Zstd { level: 1 };
    const SHUFFLE_ZSTD: Coding = Coding::ShuffleZstd { level: 1 };
    const BITSHUFFLE_ZSTD: Coding = Coding::BitshuffleZstd { level: 1 };
    const PCODEC: Coding = Coding::Pcodec { level: 8 };
    match element {
        Element::Bytes => &[Coding::Lz4, ZSTD],
        Element::U8 | Element::I8 => {
            &[Coding::For, Coding::BitshuffleLz4, Coding::Lz4, BITSHUFFLE_ZSTD, ZSTD]
        }
        Element::Record(_) => {
            &[Coding::BitshuffleLz4, Coding::Lz4, BITSHUFFLE_ZSTD, SHUFFLE_ZSTD, ZSTD]
        }
        Element::F32 | Element::F64 => {
            &[Coding::BitshuffleLz4, Coding::Lz4, BITSHUFFLE_ZSTD, SHUFFLE_ZSTD, ZSTD, PCODEC]
        }
        _ => &[
            Coding::For,
            Coding::BitshuffleLz4,
            Coding::Lz4,
            BITSHUFFLE_ZSTD,
            SHUFFLE_ZSTD,
            ZSTD,
            PCODEC,
        ],
    }
}

/// The cost of encoding on one core, in round numbers, so that decisions do not depend on the
/// machine: `catchment bench codecs` measures it. Codecs that search for repeats are faster the
/// more they find.
fn cpu_seconds_per_gb(coding: Coding, stored_share: f32) -> f32 {
    let repeats = (0.15 + 4.0 * stored_share).min(1.0);
    match coding {
        Coding::None => 0.0,
        Coding::For => 0.3,
        Coding::BitshuffleLz4 => 0.5,
        Coding::ShuffleLz4 | Coding::Lz4 => 1.0 * repeats,
        Coding::BitshuffleZstd { .. } => 1.0,
        Coding::ShuffleZstd { .. } => 2.0 * repeats,
        Coding::Zstd { .. } => 2.8 * repeats,
        Coding::Pcodec { .. } => 8.0,
    }
}

#[cfg(test)]
mod tests;
