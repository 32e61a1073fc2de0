//! Outputs with their numbers.

use catchment_frame::Span;

/// Decimated samples and how they are numbered, as a frame has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    samples: Vec<f64>,
    numbering: Numbering,
}

impl Runs {
    /// The samples.
    pub fn samples(&self) -> &[f64] {
        &self.samples
    }

    /// The number of the first sample, if there is one.
    pub fn first_sample(&self) -> Option<u64> {
        self.numbering.first_sample
    }

    /// From which row on samples are numbered otherwise than from the first one on.
    pub fn spans(&self) -> &[Span] {
        &self.numbering.spans
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.numbering.clear();
    }

    pub(crate) fn append(&mut self, number: u64, samples: &[f64]) {
        self.numbering.append(number, samples.len());
        self.samples.extend_from_slice(samples);
    }
}

/// Numbers of samples that are appended piece by piece.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Numbering {
    pub first_sample: Option<u64>,
    pub spans: Vec<Span>,
    pub rows: u64,
    next: u64,
}

impl Numbering {
    /// So many samples more, numbered from `number`.
    pub fn append(&mut self, number: u64, rows: usize) {
        if rows == 0 {
            return;
        }
        if self.first_sample.is_none() {
            self.first_sample = Some(number);
        } else if number != self.next {
            self.spans.push(Span { row: self.rows, sample: number });
        }
        self.rows += rows as u64;
        self.next = number + rows as u64;
    }

    pub fn clear(&mut self) {
        self.spans.clear();
        *self = Self { spans: std::mem::take(&mut self.spans), ..Self::default() };
    }
}
