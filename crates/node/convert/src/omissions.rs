//! Flags and comments of GWF files that a run cannot hold, and vectors that were left out, counted
//! by channel.

use std::collections::BTreeMap;

use catchment_interop::gwf::{self, Auxiliary, GwfError};
use catchment_model::units::grouped;

use crate::Report;
use crate::error::Misfit;
use crate::seconds;
use crate::stated::Stated;
use crate::targets::InputFrame;

/// Statements of frames and vectors that a run cannot hold, and vectors that were left out.
#[derive(Default)]
pub(super) struct Omissions {
    /// Frames whose dataQuality is not 0, and all bits that were set.
    frames_doubtful: u64,
    data_quality: u32,
    /// Frames of another run than the first.
    frames_of_other_runs: u64,
    channels: BTreeMap<String, ChannelOmissions>,
}

/// The same of one channel.
#[derive(Default)]
struct ChannelOmissions {
    /// Vectors whose dataValid is not 0.
    invalid_vectors: u64,
    /// The samples in them for which it is not 0.
    invalid_samples: u64,
    unread: Lost,
    unfit: Lost,
    auxiliary_unread: Lost,
    /// Vectors with auxiliary vectors that are not dataValid.
    with_auxiliary: u64,
    /// Vectors with a comment that is not ours.
    commented: u64,
}

/// Vectors that were left out: how many, and the time of the first and the reason.
#[derive(Default)]
struct Lost {
    vectors: u64,
    first: String,
}

impl Lost {
    fn add(&mut self, frame: &InputFrame, reason: impl std::fmt::Display) {
        if self.vectors == 0 {
            self.first = format!("from GPS {} on: {reason}", seconds(frame.start_ns));
        }
        self.vectors += 1;
    }

    fn add_to(&self, report: &mut Report, name: &str, fault: &str) {
        if self.vectors > 0 {
            let vectors = grouped(self.vectors);
            report.left_out.push(format!("{name}: {vectors} vectors {fault}, {}", self.first));
        }
    }
}

impl Omissions {
    pub(super) fn frame(&mut self, frame: &InputFrame, run_number: u64) {
        self.frames_doubtful += u64::from(frame.data_quality != 0);
        self.data_quality |= frame.data_quality;
        self.frames_of_other_runs += u64::from(frame.run != run_number);
    }

    /// Counts a vector that was taken, with the facts from its auxiliary vectors.
    pub(super) fn vector(&mut self, name: &str, read: &gwf::ChannelInfo, auxiliary: Auxiliary) {
        let commented = !read.comment.is_empty() && Stated::parse(&read.comment).is_none();
        let all = read.data_valid != 0;
        let invalid = if all { read.samples } else { auxiliary.samples_invalid };
        if !(commented || all || invalid > 0 || auxiliary.others > 0) {
            return;
        }
        let channel = self.channel(name);
        channel.commented += u64::from(commented);
        channel.with_auxiliary += u64::from(auxiliary.others > 0);
        channel.invalid_vectors += u64::from(all || invalid > 0);
        channel.invalid_samples += invalid;
    }

    /// Counts a vector that cannot be read.
    pub(super) fn unread(&mut self, name: &str, frame: &InputFrame, error: &GwfError) {
        self.channel(name).unread.add(frame, error);
    }

    /// Counts a vector that does not fit the ones before it.
    pub(super) fn unfit(&mut self, name: &str, frame: &InputFrame, reason: &Misfit) {
        self.channel(name).unfit.add(frame, reason);
    }

    /// Counts a vector whose valid samples are not known.
    pub(super) fn auxiliary_unread(&mut self, name: &str, frame: &InputFrame, error: &GwfError) {
        self.channel(name).auxiliary_unread.add(frame, error);
    }

    /// Adds all to the report. Flags are a loss: a reader of the run cannot know them. Comments are
    /// none.
    pub(super) fn add_to(self, report: &mut Report) {
        if self.frames_doubtful > 0 {
            let (frames, bits) = (grouped(self.frames_doubtful), self.data_quality);
            let message = format!("dataQuality of {frames} frames that is not 0: bits {bits:#x}");
            report.left_out.push(message);
        }
        if self.frames_of_other_runs > 0 {
            let frames = grouped(self.frames_of_other_runs);
            report.notes.push(format!("run number of {frames} frames, another than the first's"));
        }
        for (name, channel) in self.channels {
            channel.unread.add_to(report, &name, "that cannot be read");
            channel.unfit.add_to(report, &name, "that do not fit");
            let fault = "whose auxiliary vectors cannot be read";
            channel.auxiliary_unread.add_to(report, &name, fault);
            if channel.invalid_vectors > 0 {
                let vectors = grouped(channel.invalid_vectors);
                let samples = grouped(channel.invalid_samples);
                let message = format!("{name}: dataValid of {vectors} vectors, {samples} samples");
                report.left_out.push(format!("{message}, that is not 0"));
            }
            if channel.with_auxiliary > 0 {
                let vectors = grouped(channel.with_auxiliary);
                report.notes.push(format!("{name}: auxiliary vectors of {vectors} vectors"));
            }
            if channel.commented > 0 {
                let vectors = grouped(channel.commented);
                report.notes.push(format!("{name}: comments of {vectors} vectors"));
            }
        }
    }

    fn channel(&mut self, name: &str) -> &mut ChannelOmissions {
        if !self.channels.contains_key(name) {
            self.channels.insert(name.to_owned(), ChannelOmissions::default());
        }
        self.channels.get_mut(name).expect("it was just put there")
    }
}
