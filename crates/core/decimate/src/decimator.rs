//! All stages of one channel, sample by sample in `f64`.

use crate::DecimateError;
use crate::design::Design;
use crate::runs::Runs;
use crate::stage::Stage;

/// Samples that go through all stages at a time: what is kept between them stays in the cache.
const STEP_SAMPLES: usize = 4_096;

/// Sample numbers end far enough below 64 bits that no filter's support passes them.
const NUMBER_MAX: u64 = 1 << 62;

/// Decimates one channel of `f64`, across frames.
///
/// Sample numbers are absolute, and output sample `n` is at the time of input sample `n * factor`:
/// the filters' delay is taken out. It is there only if all [`Design::half_support`] input samples
/// before and behind that one are, without a gap among them; so an output never mixes what a gap
/// separates, and no edge is made up. NaN and infinities make every output of which they are part
/// NaN or infinite.
#[derive(Clone, Debug)]
pub struct Decimator {
    stages: Vec<Stage>,
    /// Number of the next input sample and of the next output, once there was a sample.
    due: Option<(u64, u64)>,
    between: [Vec<f64>; 2],
}

impl Decimator {
    /// One that has seen nothing yet.
    pub fn new(design: &Design) -> Self {
        let stages = design.stage_designs().iter().cloned().map(Stage::new).collect();
        Self { stages, due: None, between: [Vec::new(), Vec::new()] }
    }

    /// Takes samples, the first of which has the number `first_sample`. If that is not the one
    /// after the last, there was a gap.
    ///
    /// # Errors
    /// If the number is one of samples that were there before, or numbers are beyond 2^62. Nothing
    /// is taken then.
    pub fn push(
        &mut self,
        first_sample: u64,
        samples: &[f64],
        outputs: &mut Runs,
    ) -> Result<(), DecimateError> {
        let rows = samples.len() as u64;
        let number = DecimateError::Number { sample: first_sample, rows };
        let end = first_sample.checked_add(rows).filter(|end| *end <= NUMBER_MAX);
        let end = end.ok_or(number.clone())?;
        let mut next = match self.due {
            Some((expected, next)) if expected == first_sample => next,
            Some((expected, _)) if expected > first_sample => {
                return Err(DecimateError::Order { sample: first_sample, expected });
            }
            _ => self.restart(first_sample).ok_or(number)?,
        };
        for samples in samples.chunks(STEP_SAMPLES) {
            let [from, to] = &mut self.between;
            from.clear();
            from.extend_from_slice(samples);
            for stage in &mut self.stages {
                to.clear();
                stage.push(from, to);
                std::mem::swap(from, to);
            }
            outputs.append(next, from);
            next += from.len() as u64;
        }
        self.due = Some((end, next));
        Ok(())
    }

    /// Begins anew behind a gap; says the number of the first output.
    fn restart(&mut self, first_sample: u64) -> Option<u64> {
        self.due = None;
        self.stages.iter_mut().try_fold(first_sample, |first, stage| stage.restart(first))
    }
}
