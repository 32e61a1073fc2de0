//! The coding of each column, by the name of its channel or source.

use std::fmt;
use std::str::FromStr;

use catchment_codec::{Coding, UnknownCoding};
use catchment_model::units::deserialize_text;
use serde::{Deserialize, Deserializer};

use crate::Pattern;
use crate::column_info::ColumnInfo;
use crate::kinds::ColumnKind;
use crate::schema::Schema;

/// How to encode one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnCoding {
    /// With a fixed coding.
    Fixed(Coding),
    /// With a coding that other programs can decode, by the type of the data: [`Coding::portable`].
    Portable,
    /// With the coding that suits its data: tried on samples, and decided again from time to time.
    Auto,
}

/// Rules for all columns of a run: the last rule whose pattern matches a name applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codings {
    default: ColumnCoding,
    rules: Vec<(Pattern, ColumnCoding)>,
}

impl ColumnCoding {
    /// Nothing is compressed.
    pub const NONE: Self = Self::Fixed(Coding::None);
}

impl Codings {
    /// The same for all columns.
    pub fn new(default: ColumnCoding) -> Self {
        Self { default, rules: Vec::new() }
    }

    /// Another coding for the channels and sources whose names match a pattern.
    #[must_use]
    pub fn with(mut self, pattern: Pattern, coding: ColumnCoding) -> Self {
        self.rules.push((pattern, coding));
        self
    }

    /// The coding of a column of that channel, or that source.
    pub fn of(&self, name: &str) -> ColumnCoding {
        let fits = |(pattern, _): &&(Pattern, ColumnCoding)| pattern.fits(name);
        self.rules.iter().rev().find(fits).map_or(self.default, |(_, coding)| *coding)
    }

    /// The coding of a column of a schema: by its channel's name, its source's, or its meaning.
    pub fn of_column(&self, schema: &Schema, info: &ColumnInfo) -> ColumnCoding {
        let source = info.source.and_then(|id| schema.sources.get(id as usize));
        match (&info.kind, source) {
            (ColumnKind::Channel, _) => self.of(&info.name),
            (_, Some(source)) => self.of(&source.name),
            (kind, None) => self.of(kind.name()),
        }
    }

    /// The rules, first to last.
    pub fn rules(&self) -> &[(Pattern, ColumnCoding)] {
        &self.rules
    }

    /// Whether any column may be compressed.
    pub fn compresses(&self) -> bool {
        let rules = self.rules.iter().map(|(_, coding)| *coding);
        rules.chain([self.default]).any(|coding| coding != ColumnCoding::NONE)
    }
}

impl Default for Codings {
    /// Nothing is compressed.
    fn default() -> Self {
        Self::new(ColumnCoding::NONE)
    }
}

impl From<ColumnCoding> for Codings {
    fn from(default: ColumnCoding) -> Self {
        Self::new(default)
    }
}

impl<'de> Deserialize<'de> for ColumnCoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer, "a codec such as \"lz4\"", |_| None)
    }
}

impl FromStr for ColumnCoding {
    type Err = UnknownColumnCoding;

    fn from_str(text: &str) -> Result<Self, UnknownColumnCoding> {
        match text {
            "auto" => Ok(Self::Auto),
            "portable" => Ok(Self::Portable),
            other => other
                .parse()
                .map(Self::Fixed)
                .map_err(|known| UnknownColumnCoding { known, got: other.to_owned() }),
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

/// A text that is not a coding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{known}, or portable or auto; got {got:?}")]
pub struct UnknownColumnCoding {
    known: UnknownCoding,
    got: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_that_fits_applies() {
        let [lz4, zstd] = ["lz4", "zstd:3"].map(|text| text.parse::<ColumnCoding>().unwrap());
        let codings = Codings::new(ColumnCoding::Auto)
            .with("L1:*".parse().unwrap(), lz4)
            .with("*-FAST".parse().unwrap(), zstd)
            .with(Pattern::name("L1:[x]-FAST"), ColumnCoding::NONE);
        let of = |name: &str| codings.of(name).to_string();
        let names = ["H1:A", "L1:A", "H1:A-FAST", "L1:A-FAST", "L1:[x]-FAST", "L1:x-FAST"];
        assert_eq!(names.map(of), ["auto", "lz4", "zstd:3", "zstd:3", "none", "zstd:3"]);
    }

    #[test]
    fn an_unknown_coding_names_those_that_there_are() {
        let error = "zst".parse::<ColumnCoding>().unwrap_err().to_string();
        assert!(error.ends_with(", or portable or auto; got \"zst\""), "{error}");
    }
}
