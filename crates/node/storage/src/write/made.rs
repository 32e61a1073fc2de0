//! Frames of channels whose samples a function makes.

use std::ops::Range;

use catchment_frame::ChannelColumns;

use super::{ChannelColumn, ChannelFrame, ColumnData, Make, RunWriter};
use crate::error::StorageError;

/// Fills in samples of a channel: its index in the schema, the number of the first sample, and room
/// for the bytes.
pub type MakeSamples<'a> = dyn Fn(usize, u64, &mut [u8]) + Sync + 'a;

impl RunWriter {
    /// Writes a frame of all samples that the schema's channels have in that time. They are made on
    /// the threads that encode them.
    ///
    /// # Errors
    /// A disk error.
    pub fn write_made(
        &mut self,
        time_ns: Range<u64>,
        make: &MakeSamples<'_>,
    ) -> Result<(), StorageError> {
        let channels = ChannelColumns::of(&self.run.schema).channels;
        let samples = channels.iter().map(|channel| {
            let at = |time_ns| channel.rate.first_sample_at(time_ns);
            at(time_ns.start)..at(time_ns.end)
        });
        let samples: Vec<Range<u64>> = samples.collect();
        let makers = samples.iter().enumerate().map(|(index, samples)| {
            let first = samples.start;
            move |bytes: &mut [u8]| {
                make(index, first, bytes);
                Ok(())
            }
        });
        let makers: Vec<_> = makers.collect();
        let columns =
            channels.iter().zip(&samples).zip(&makers).map(|((channel, samples), make)| {
                let raw_bytes = (samples.end - samples.start) * channel.sample_bytes();
                let made = Make { raw_bytes: raw_bytes as usize, make };
                let (id, first_sample) = (channel.id, samples.start);
                ChannelColumn { id, first_sample, spans: &[], samples: ColumnData::Make(made) }
            });
        self.write_channels(ChannelFrame {
            start_ns: time_ns.start,
            end_ns: time_ns.end,
            columns: columns.filter(|column| column.samples.raw_bytes() > 0).collect(),
            keys: (0, 0),
            increments: None,
        })
    }
}
