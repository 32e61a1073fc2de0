//! Which coding a column gets: by the names of channels and sources.

use std::fmt;
use std::str::FromStr;

use catchment_frame::{Coding, UnknownCoding};

use crate::glob;

/// How one column is to be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnCoding {
    /// Always this way.
    Fixed(Coding),
    /// As other programs decode it, too, by the type of the data: [`Coding::portable`].
    Portable,
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
        Self::new(ColumnCoding::Fixed(Coding::None))
    }
}

impl FromStr for ColumnCoding {
    type Err = UnknownCoding;

    fn from_str(text: &str) -> Result<Self, UnknownCoding> {
        match text {
            "auto" => Ok(Self::Auto),
            "portable" => Ok(Self::Portable),
            other => other.parse().map(Self::Fixed),
        }
    }
}

impl fmt::Display for ColumnCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(coding) => coding.fmt(f),
            Self::Portable => f.write_str("portable"),
            Self::Auto => f.write_str("auto"),
        }
    }
}
