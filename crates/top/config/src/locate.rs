//! Where in a file something stands, and messages that say so.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use catchment_model::near_matches;
use toml::de::{DeTable, DeValue};

/// A configuration that cannot be used, and where: `run.toml:12:9: frame.bytes: expected ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFileError {
    /// The file.
    pub file: PathBuf,
    /// Line and column, from 1; none where the fault is that something is not there.
    pub place: Option<(usize, usize)>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigFileError {}

/// A file's text, with the way to the places in it.
pub(crate) struct Located<'a> {
    file: &'a Path,
    text: &'a str,
    root: toml::Spanned<DeTable<'a>>,
}

impl<'a> Located<'a> {
    /// Reads the text as TOML.
    ///
    /// # Errors
    /// The place where it is none.
    pub(crate) fn parse(file: &'a Path, text: &'a str) -> Result<Self, ConfigFileError> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { file, text, root }),
            Err(error) => Err(from_toml(file, text, &error)),
        }
    }

    /// Reads a typed value from it.
    ///
    /// # Errors
    /// The place of the first key or value that does not fit.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, ConfigFileError> {
        toml::from_str(self.text).map_err(|error| from_toml(self.file, self.text, &error))
    }

    /// An error about the value at a path such as `sources[3].address`, or, where it is not
    /// written, about the innermost table of its path that is.
    pub(crate) fn error(&self, path: &str, message: impl fmt::Display) -> ConfigFileError {
        ConfigFileError {
            file: self.file.to_owned(),
            place: self.find(path).map(|span| place(self.text, span.start)),
            message: format!("{path}: {message}"),
        }
    }

    /// As [`Located::error`], of a value that its check refused.
    pub(crate) fn expected(&self, path: &str, expected: &str, got: &str) -> ConfigFileError {
        self.error(path, format_args!("expected {expected}, got {got}"))
    }

    /// Whether a table of the file has that key.
    pub(crate) fn has(&self, table: &str, key: &str) -> bool {
        let table = self.root.get_ref().get(table).and_then(|table| table.get_ref().as_table());
        table.is_some_and(|table| table.contains_key(key))
    }

    fn find(&self, path: &str) -> Option<Range<usize>> {
        let mut parts = path.split('.');
        let mut value = lookup(self.root.get_ref(), parts.next()?)?;
        for part in parts {
            match value.get_ref().as_table().and_then(|table| lookup(table, part)) {
                Some(inner) => value = inner,
                None => break,
            }
        }
        Some(value.span())
    }
}

/// `name` or `name[index]` in a table.
fn lookup<'t, 'a>(table: &'t DeTable<'a>, part: &str) -> Option<&'t toml::Spanned<DeValue<'a>>> {
    let (name, index) = match part.split_once('[') {
        Some((name, index)) => (name, index.strip_suffix(']')?.parse::<usize>().ok()),
        None => (part, None),
    };
    let value = table.get(name)?;
    match index {
        Some(index) => value.get_ref().as_array()?.get(index),
        None => Some(value),
    }
}

fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
}

fn from_toml(file: &Path, text: &str, error: &toml::de::Error) -> ConfigFileError {
    ConfigFileError {
        file: file.to_owned(),
        place: error.span().map(|span| place(text, span.start)),
        message: reword(error.message()),
    }
}

/// Serde's words for an unknown key or choice, in ours, with the probable name.
fn reword(message: &str) -> String {
    let message = message.trim_end().replace('\n', ", ");
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (kind, got, known) = match quoted.split_first() {
        Some((got, known)) if message.starts_with("unknown field") => ("key", *got, known),
        Some((got, known)) if message.starts_with("unknown variant") => ("value", *got, known),
        Some((got, _)) if message.starts_with("missing field") => {
            return format!("the key {got:?} is missing here");
        }
        _ => return with_type(&message),
    };
    let near = near_matches(got, known);
    let mut text = format!("unknown {kind} {got:?}");
    if !near.is_empty() {
        text += &format!("; did you mean {}?", near.join(" or "));
    }
    if !known.is_empty() {
        text += &format!(" (known here: {})", known.join(", "));
    }
    text
}

/// Types in the words of the people who write the file, not of the program.
fn with_type(message: &str) -> String {
    let Some((got, expected)) = message.rsplit_once(", expected ") else { return message.into() };
    let expected = match expected {
        "u32" => "an integer, 0 to 4294967295",
        "u64" | "usize" => "an integer, 0 or more",
        "i64" => "an integer",
        "f64" => "a number",
        "path string" => "a path",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    };
    format!("{got}, expected {expected}")
}
