//! How far the times of sources are from those of their events, as the build agent last showed it.

use catchment_builder::{Drifts, Offsets};
use parking_lot::Mutex;

/// What is shown. It is empty unless events are built by time.
#[derive(Default)]
pub(crate) struct LiveOffsets(Mutex<Shown>);

#[derive(Default)]
struct Shown {
    offsets: Vec<Offsets>,
    /// The time up to which events are built.
    at_ns: u64,
    drifts: Drifts,
}

impl LiveOffsets {
    /// Shows them, if there are any. While a reader copies them it does so the next time, but for
    /// the last.
    pub(crate) fn show(&self, offsets: &[Offsets], at_ns: u64, is_last: bool) {
        if offsets.is_empty() {
            return;
        }
        let shown = if is_last { Some(self.0.lock()) } else { self.0.try_lock() };
        if let Some(mut shown) = shown {
            shown.offsets.clear();
            shown.offsets.extend_from_slice(offsets);
            shown.at_ns = at_ns;
        }
    }

    /// Those, and by how many ppm each source's clock drifts. That is computed here, at the expense
    /// of who reads it, and not of the build agent.
    pub(crate) fn read(&self) -> (Vec<Offsets>, Vec<Option<f64>>) {
        let mut shown = self.0.lock();
        let Shown { offsets, at_ns, drifts } = &mut *shown;
        drifts.push(*at_ns, offsets);
        (offsets.clone(), drifts.ppm())
    }
}
