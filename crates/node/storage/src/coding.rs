//! Which coding a column gets: by the names of channels and sources.

use std::fmt;
use std::str::FromStr;

use catchment_frame::Codec;

use crate::glob;

/// How one column is to be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnCoding {
    /// Always this way.
    Fixed(Codec),
    /// As suits its data: tried on samples, decided anew now and then.
    Auto,
}

/// Rules for all columns of a run: the last one whose pattern fits a name counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codings {
    default: ColumnCoding,
    rules: Vec<(String, ColumnCoding)>,
}

impl Codings {
    /// The same for all columns.
    pub fn new(default: ColumnCoding) -> Self {
        Self { default, rules: Vec::new() }
    }

    /// Another coding for channels and sources whose names fit a pattern (`*`, `?`).
    #[must_use]
    pub fn with(mut self, pattern: impl Into<String>, coding: ColumnCoding) -> Self {
        self.rules.push((pattern.into(), coding));
        self
    }

    /// The coding of a column of that channel, or that source.
    pub fn of(&self, name: &str) -> ColumnCoding {
        let fits = |(pattern, _): &&(String, ColumnCoding)| glob::matches(pattern, name);
        self.rules.iter().rev().find(fits).map_or(self.default, |(_, coding)| *coding)
    }
}

impl Default for Codings {
    /// Nothing is compressed.
    fn default() -> Self {
        Self::new(ColumnCoding::Fixed(Codec::None))
    }
}

/// A text that is no coding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no coding {got:?}")]
pub struct UnknownCoding {
    /// The text's beginning.
    pub got: String,
}

impl FromStr for ColumnCoding {
    type Err = UnknownCoding;

    fn from_str(text: &str) -> Result<Self, UnknownCoding> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::Fixed(Codec::None)),
            "lz4" => Ok(Self::Fixed(Codec::Lz4)),
            other => Err(UnknownCoding { got: other.chars().take(64).collect() }),
        }
    }
}

impl fmt::Display for ColumnCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(coding) => coding.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}
