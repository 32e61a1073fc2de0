//! What GWF files say and a run cannot keep, counted by channel.

use std::collections::BTreeMap;

use catchment_interop::gwf::{self, Auxiliary, GwfError};

use crate::commands::convert::Report;
use crate::gwf::stated::Stated;
use crate::gwf::targets::{InputFrame, seconds};
use crate::output::grouped;

/// What frames and vectors say that a run has no place for, and vectors that could not be taken.
#[derive(Default)]
pub(super) struct Unkept {
    /// Frames whose dataQuality is not 0, and all bits that were set.
    frames_doubtful: u64,
    data_quality: u32,
    /// Frames of another run than the first.
    frames_of_other_runs: u64,
    channels: BTreeMap<String, OfChannel>,
}

/// The same of one channel.
#[derive(Default)]
struct OfChannel {
    /// Vectors whose dataValid is not 0, the samples in them for which it is not.
    invalid: (u64, u64),
    unread: Lost,
    unfit: Lost,
    auxiliary_unread: Lost,
    /// Vectors with auxiliary vectors that are not dataValid.
    with_auxiliary: u64,
    /// Vectors with a comment that is not ours.
    commented: u64,
}

/// Vectors that were not taken: how many, and of the first of them when it is and why.
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

    fn say(&self, name: &str, what: &str, report: &mut Report) {
        if self.vectors > 0 {
            let vectors = grouped(self.vectors);
            report.left_out.push(format!("{name}: {vectors} vectors {what}, {}", self.first));
        }
    }
}

impl Unkept {
    pub(super) fn frame(&mut self, frame: &InputFrame, run_number: u64) {
        self.frames_doubtful += u64::from(frame.data_quality != 0);
        self.data_quality |= frame.data_quality;
        self.frames_of_other_runs += u64::from(frame.run != run_number);
    }

    /// A vector that was taken, with what its auxiliary vectors say.
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
        channel.invalid.0 += u64::from(all || invalid > 0);
        channel.invalid.1 += invalid;
    }

    /// A vector that cannot be read.
    pub(super) fn unread(&mut self, name: &str, frame: &InputFrame, error: &GwfError) {
        self.channel(name).unread.add(frame, error);
    }

    /// A vector that does not fit what was taken before.
    pub(super) fn unfit(&mut self, name: &str, frame: &InputFrame, reason: &anyhow::Error) {
        self.channel(name).unfit.add(frame, reason);
    }

    /// A vector of which it is not known which samples are valid.
    pub(super) fn auxiliary_unread(&mut self, name: &str, frame: &InputFrame, error: &GwfError) {
        self.channel(name).auxiliary_unread.add(frame, error);
    }

    /// Flags are a loss: who reads the run cannot know them. Words about data are none.
    pub(super) fn say(self, report: &mut Report) {
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
            channel.unread.say(&name, "that cannot be read", report);
            channel.unfit.say(&name, "that do not fit", report);
            let what = "whose auxiliary vectors cannot be read";
            channel.auxiliary_unread.say(&name, what, report);
            if channel.invalid.0 > 0 {
                let (vectors, samples) = (grouped(channel.invalid.0), grouped(channel.invalid.1));
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

    fn channel(&mut self, name: &str) -> &mut OfChannel {
        if !self.channels.contains_key(name) {
            self.channels.insert(name.to_owned(), OfChannel::default());
        }
        self.channels.get_mut(name).expect("it was just put there")
    }
}
