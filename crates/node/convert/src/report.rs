//! The result of a conversion, and the channels that were asked for.

use std::path::PathBuf;

use catchment_storage::Pattern;

use crate::ConvertError;

/// What was converted.
#[derive(Debug, Default, serde::Serialize)]
pub struct Report {
    /// The files written.
    pub files: Vec<PathBuf>,
    /// Channels in them.
    pub channels: usize,
    /// Frames in them.
    pub frames: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes of the samples.
    pub sample_bytes: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
    /// Data that were not taken along, and why.
    pub left_out: Vec<String>,
    /// Channels with scale or offset, written as FrAdcData with slope and bias: many readers of GWF
    /// give their samples as they were recorded.
    pub channels_scaled: usize,
    /// Remarks on the data that the other format cannot hold: no sample is missing for them.
    pub notes: Vec<String>,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

/// The channels that were asked for: those that fit one of the patterns, or all without one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'a>(pub(crate) &'a [Pattern]);

impl Chosen<'_> {
    pub(crate) fn is_all(self) -> bool {
        self.0.is_empty()
    }

    /// Refuses patterns that fit none of these channels.
    pub(crate) fn check(self, channels: &[&str]) -> Result<(), ConvertError> {
        let fits_none = |pattern: &&Pattern| !channels.iter().any(|name| pattern.fits(name));
        match self.0.iter().find(fits_none) {
            None => Ok(()),
            Some(pattern) => Err(ConvertError::UnknownChannel {
                pattern: pattern.as_str().to_owned(),
                channels: channels.iter().map(|&name| name.to_owned()).collect(),
            }),
        }
    }

    pub(crate) fn has(self, name: &str) -> bool {
        self.is_all() || self.0.iter().any(|pattern| pattern.fits(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_chosen_by_pattern_and_all_without_one() {
        assert!(Chosen(&[]).has("L1:A"));
        let patterns = ["L1:*", "H1:B"].map(|text| text.parse().unwrap());
        let chosen = Chosen(&patterns);
        assert!(chosen.has("L1:A") && chosen.has("H1:B") && !chosen.has("H1:C"));
        assert!(chosen.check(&["L1:A", "H1:B"]).is_ok());
        let error = chosen.check(&["L1:A"]).unwrap_err();
        assert_eq!(error.to_string(), "no channel matches \"H1:B\" (the input has 1)");
    }
}
