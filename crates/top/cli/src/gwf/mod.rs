//! GWF files and runs, one into the other: what `catchment convert` does.

mod export;
mod feed;
mod import;
mod stated;
mod targets;
mod unkept;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Context;
use catchment_frame::Dtype;
use catchment_interop::ReadAt;
use catchment_interop::gwf::VectorType;

pub(crate) use export::{ExportOptions, export};
pub(crate) use import::{ImportOptions, import};

/// The extension of GWF files.
pub(crate) const EXTENSION: &str = "gwf";

const NS_PER_S: u64 = 1_000_000_000;

/// A file that is read at offsets.
#[derive(Debug)]
struct Source(File);

impl Source {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let file = catchment_disk::open_regular(path, OpenOptions::new().read(true))
            .with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self(file))
    }
}

impl ReadAt for Source {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
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

/// What was left out, as the end of a sentence.
fn why_not(left_out: &[String]) -> String {
    if left_out.is_empty() { String::new() } else { format!(": {}", left_out.join("; ")) }
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
}
