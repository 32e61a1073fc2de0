//! Patterns for names of channels and sources: `L1:FAST-*`.

use std::fmt;
use std::str::FromStr;

use catchment_model::units::deserialize_text;
use globset::{Glob, GlobMatcher};
use serde::{Deserialize, Deserializer};

/// A glob in the syntax of the `globset` crate: `*` matches any characters, `?` one ASCII
/// character, `[ab]` and `[0-9]` one of a class, `{a,b}` alternatives; a backslash makes the next
/// character literal. A name that is literally equal to the pattern also matches, whatever
/// characters it has.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// None: a plain name, which matches only itself.
    glob: Option<GlobMatcher>,
}

/// A text that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a pattern of names, got {text:?}: {problem}")]
pub struct PatternError {
    /// The text.
    pub text: String,
    /// The error.
    pub problem: String,
}

impl Pattern {
    /// The pattern that matches only this name.
    pub fn name(name: impl Into<String>) -> Self {
        Self { text: name.into(), glob: None }
    }

    /// Whether a name matches.
    pub fn fits(&self, name: &str) -> bool {
        self.text == name || self.glob.as_ref().is_some_and(|glob| glob.is_match(name))
    }

    /// Whether only one name matches, as after [`Pattern::name`].
    pub fn is_name(&self) -> bool {
        self.glob.is_none()
    }

    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer, "a pattern of names such as \"L1:FAST-*\"", |_| None)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let glob = Glob::new(text).map_err(|error| PatternError {
            text: text.to_owned(),
            problem: error.kind().to_string(),
        })?;
        Ok(Self { text: text.to_owned(), glob: Some(glob.compile_matcher()) })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.glob.is_some()) == (&other.text, other.glob.is_some())
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_globs() {
        for (pattern, name, fits) in [
            ("L1:FAST-0001", "L1:FAST-0001", true),
            ("L1:FAST-0001", "L1:FAST-00010", false),
            ("*", "", true),
            ("L1:*", "L1:FAST/a", true),
            ("*-3", "L1:FAST-3", true),
            ("a*a", "a", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("L1:FAST-00??", "L1:FAST-0042", true),
            ("a?", "a", false),
            // Bytes: a letter beyond ASCII has more than one.
            ("ü??", "üß", true),
            ("ü*", "üß", true),
            ("L1:FAST-[0-3]", "L1:FAST-2", true),
            ("L1:FAST-[!0-3]", "L1:FAST-2", false),
            ("{L1,H1}:*", "H1:SLOW", true),
            ("{L1,H1}:*", "V1:SLOW", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
        ] {
            assert_eq!(pattern.parse::<Pattern>().unwrap().fits(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_name_that_looks_like_a_pattern_can_be_given_as_it_is() {
        let name = "L1:X[0]";
        let pattern: Pattern = name.parse().unwrap();
        assert!(pattern.fits(name) && pattern.fits("L1:X0"));
        assert!(Pattern::name(name).fits(name) && !Pattern::name(name).fits("L1:X0"));
    }

    #[test]
    fn what_is_no_pattern_is_named() {
        for (text, problem) in [
            ("L1:[0-", "unclosed character class; missing ']'"),
            ("L1:{a", "unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert_eq!(error, format!("expected a pattern of names, got {text:?}: {problem}"));
        }
    }
}
