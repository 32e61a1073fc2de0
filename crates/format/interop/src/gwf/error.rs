//! Errors in a GWF file: the part, the field, what was expected and found.

use std::fmt;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The file header.
    Header,
    /// The structure FrEndOfFile.
    EndOfFile,
    /// The table of contents.
    Toc,
    /// The whole file.
    File,
    /// The structure at that offset.
    Structure {
        /// Its class, or "structure" while it is not known.
        class: &'static str,
        /// Its offset.
        offset: u64,
    },
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("file header"),
            Self::EndOfFile => f.write_str("FrEndOfFile"),
            Self::Toc => f.write_str("FrTOC"),
            Self::File => f.write_str("file"),
            Self::Structure { class, offset } => write!(f, "{class} at offset {offset}"),
        }
    }
}

/// An error in a GWF file, or in reading or writing it.
#[derive(Debug, thiserror::Error)]
pub enum GwfError {
    /// The system could not read.
    #[error("cannot read {bytes} bytes at offset {offset}: {source}")]
    Read {
        /// The offset.
        offset: u64,
        /// The length.
        bytes: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system could not return the file's length.
    #[error("cannot get the file's length: {0}")]
    Length(std::io::Error),
    /// The system could not write.
    #[error("cannot write: {0}")]
    Write(#[from] std::io::Error),
    /// The file or a structure ends within a part.
    #[error("{part}: ends early: expected {expected} bytes at {offset}, got {got}")]
    Truncated {
        /// The part to be read.
        part: Part,
        /// Its offset, in the file or in the structure.
        offset: u64,
        /// Its length.
        expected: u64,
        /// The available length.
        got: u64,
    },
    /// Not a GWF file.
    #[error("not a GWF file: it begins with {got:02x?}, not with \"IGWD\"")]
    Magic {
        /// The actual first bytes.
        got: [u8; 5],
    },
    /// A version of the format that this crate does not read.
    #[error("the file has version {got} of the IGWD format; this program reads version 8")]
    Version {
        /// The version.
        got: u8,
    },
    /// A file from a machine with another byte order.
    #[error("the file is not of a little-endian machine with IEEE numbers, which alone are read")]
    Machine,
    /// An impossible field.
    #[error("{part}: {field} is {got}, expected {expected}")]
    Field {
        /// The part.
        part: Part,
        /// The field.
        field: &'static str,
        /// The possible values.
        expected: &'static str,
        /// The actual value.
        got: u64,
    },
    /// A damaged part.
    #[error("{part}: checksum is {got:#010x}, expected {expected:#010x}")]
    Checksum {
        /// The part.
        part: Part,
        /// The stored checksum.
        expected: u32,
        /// The checksum of the bytes.
        got: u32,
    },
    /// A structure named by another one is missing.
    #[error("{part}: names an FrVect number {instance} that does not follow it in the frame")]
    MissingVector {
        /// The structure that names it.
        part: Part,
        /// Its number.
        instance: u32,
    },
    /// The table of contents and a structure disagree.
    #[error("{part}: is of channel {got:?}, the FrTOC says {expected:?}")]
    Name {
        /// The structure.
        part: Part,
        /// The value in the table.
        expected: String,
        /// The value in the structure.
        got: String,
    },
    /// A feature of the format that this program does not read.
    #[error("{part}: {what} cannot be read by this program")]
    Unsupported {
        /// The part.
        part: Part,
        /// The feature.
        what: String,
    },
    /// A vector's bytes do not decode.
    #[error("{part}: samples cannot be decoded: {reason}")]
    Decode {
        /// The vector.
        part: Part,
        /// The contradiction.
        reason: &'static str,
    },
    /// Data that cannot be written.
    #[error("{what}: {field} is {got}, expected {expected}")]
    Refused {
        /// The channel or frame.
        what: String,
        /// The field.
        field: &'static str,
        /// The possible values.
        expected: &'static str,
        /// The actual value.
        got: String,
    },
    /// An earlier write failed; the file cannot be finished.
    #[error("an earlier write failed, the file is not whole")]
    Broken,
}
