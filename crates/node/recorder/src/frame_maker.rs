//! Turns cuts into frames: one maker for each group of sources that share a builder.

use catchment_builder::Cut;
use catchment_encoder::Coding;
use catchment_writer::Frame;

use crate::columns::ColumnBytes;

/// Makes frames of one group's cuts.
pub(crate) trait FrameMaker: Send {
    /// Makes a frame from a cut and takes its payload.
    fn frame(&mut self, cut: &mut Cut) -> Frame<ColumnBytes>;

    /// The ledger's number of the source of a cut's column.
    fn source_of(&self, index: usize) -> usize;

    /// How the column of increments is encoded.
    fn small_coding(&self) -> Coding;

    /// The next frame is the first of a file.
    fn begin_file(&self) {}
}
