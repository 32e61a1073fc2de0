//! Runs from GWF files, and GWF files from runs.
//!
//! [`import`] writes a run of the channels of GWF files (IGWD frames version 8), [`export`] GWF
//! files of a run's channels. Neither stops at damage, or at data that the other format cannot
//! hold: a vector, a second or a channel is left out, and the [`Report`] says why and counts.
//! Progress goes to a callback, which says whether to go on. One frame of the target is in memory
//! at a time.

mod error;
mod export;
mod feed;
mod import;
mod omissions;
mod report;
mod stated;
mod targets;

use std::io;
use std::path::Path;

use catchment_disk::{DiskError, ReadFile};
use catchment_frame::Dtype;
use catchment_interop::gwf::VectorType;

pub use error::ConvertError;
pub use export::{ExportOptions, export};
pub use import::{ImportOptions, import};
pub use report::Report;

/// The extension of GWF files.
pub const EXTENSION: &str = "gwf";

const NS_PER_S: u64 = 1_000_000_000;

/// Opens a file of another format.
fn open_source(path: &Path) -> Result<ReadFile, ConvertError> {
    ReadFile::open(path).map_err(|error| match error {
        DiskError::Path { path, source, .. } => ConvertError::Open { path, source },
        error => ConvertError::Open { path: path.to_owned(), source: io::Error::other(error) },
    })
}

/// The same type in both formats.
const TYPES: [(VectorType, Dtype); 12] = [
    (VectorType::I8, Dtype::I8),
    (VectorType::I16, Dtype::I16),
    (VectorType::I32, Dtype::I32),
    (VectorType::I64, Dtype::I64),
    (VectorType::U8, Dtype::U8),
    (VectorType::U16, Dtype::U16),
    (VectorType::U32, Dtype::U32),
    (VectorType::U64, Dtype::U64),
    (VectorType::F32, Dtype::F32),
    (VectorType::F64, Dtype::F64),
    (VectorType::C64, Dtype::C64),
    (VectorType::C128, Dtype::C128),
];

fn dtype_of(kind: VectorType) -> Dtype {
    let (_, dtype) = TYPES.iter().find(|(known, _)| *known == kind).expect("all are there");
    *dtype
}

fn vector_type_of(dtype: Dtype) -> Option<VectorType> {
    TYPES.iter().find(|(_, known)| *known == dtype).map(|(kind, _)| *kind)
}

/// A time as seconds, exactly.
fn seconds(time_ns: u64) -> String {
    let (whole, rest) = (time_ns / NS_PER_S, time_ns % NS_PER_S);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:09}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_like() {
        for (kind, _) in VectorType::ALL {
            let dtype = dtype_of(kind);
            assert_eq!(vector_type_of(dtype), Some(kind));
            assert_eq!(dtype.bits(), Some(kind.bytes() as u64 * 8));
        }
        assert_eq!(vector_type_of(Dtype::Opaque), None);
    }

    #[test]
    fn times_are_written_as_seconds() {
        assert_eq!(seconds(5 * NS_PER_S), "5");
        assert_eq!(seconds(5 * NS_PER_S + 7), "5.000000007");
    }
}
