//! Continuous channels that can be emulated.

use catchment_frame::Dtype;
use catchment_model::SampleRate;

/// One continuous channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatedChannel {
    /// Its name.
    pub name: String,
    /// The type of its samples' elements, any number type.
    pub dtype: Dtype,
    /// The shape of one sample; empty for single numbers.
    pub shape: Vec<u64>,
    /// Its sample rate.
    pub rate: SampleRate,
    /// The unit of its samples.
    pub unit: String,
}

impl EmulatedChannel {
    /// Bytes of one sample; 0 if its type is not a number.
    pub fn sample_bytes(&self) -> usize {
        let elements = self.shape.iter().fold(1_u64, |all, &one| all.saturating_mul(one));
        usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(self.element_bytes())
    }

    /// Bytes of one element of a sample; 0 if its type is not a number.
    pub(crate) fn element_bytes(&self) -> usize {
        match self.dtype {
            Dtype::Opaque | Dtype::Bits | Dtype::Record | Dtype::Unknown(_) => 0,
            number => number.bits().unwrap_or(0) as usize / 8,
        }
    }

    /// Mean bytes per second.
    pub fn byte_rate(&self) -> f64 {
        self.rate.hz() * self.sample_bytes() as f64
    }
}

/// A gravitational-wave detector's thousand channels: 50 of 16,384 Hz, 150 of 2,048 Hz, 300 of 256
/// Hz and 500 of 16 Hz; for each rate, the even ones are calibrated float32, the odd ones a
/// converter's counts in int16. 3.63 MB/s in all.
pub fn ligo_1000() -> Vec<EmulatedChannel> {
    [("FAST", 50, 16_384), ("MEDIUM", 150, 2_048), ("SLOW", 300, 256), ("STATE", 500, 16)]
        .into_iter()
        .flat_map(|(group, count, hz)| (0..count).map(move |number| (group, hz, number)))
        .map(|(group, hz, number)| {
            let (dtype, unit) =
                if number % 2 == 0 { (Dtype::F32, "strain") } else { (Dtype::I16, "ct") };
            EmulatedChannel {
                name: format!("L1:{group}-{number:04}"),
                dtype,
                shape: Vec::new(),
                rate: SampleRate::new(hz, 1).expect("a rate within bounds"),
                unit: unit.to_owned(),
            }
        })
        .collect()
}

/// The channels of a preset; empty if there is none of that name.
pub fn channel_preset(name: &str) -> Option<Vec<EmulatedChannel>> {
    (name == "ligo-1000").then(ligo_1000)
}
