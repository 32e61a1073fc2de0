//! NumPy's .npy files, version 1.0, written as the data come: they grow in the first dimension.
//!
//! The header keeps its length, so that the count can be put in at the end.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A file that is being written.
pub(crate) struct Npy {
    file: BufWriter<File>,
    path: PathBuf,
    dtype: String,
    /// What stands behind the count in the array's shape.
    inner: String,
    item_bytes: usize,
    bytes: u64,
}

impl Npy {
    /// A new file of one dimension; `dtype` as numpy writes it, such as `'<u8'` with its quotes.
    pub(crate) fn create(path: &Path, dtype: &str, item_bytes: usize) -> anyhow::Result<Self> {
        Self::create_of(path, dtype, &[], item_bytes)
    }

    /// A new file of items of a shape, which have that many bytes together.
    pub(crate) fn create_of(
        path: &Path,
        dtype: &str,
        shape: &[u64],
        item_bytes: usize,
    ) -> anyhow::Result<Self> {
        let file =
            File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
        let (file, path) = (BufWriter::with_capacity(1 << 20, file), path.to_owned());
        let inner = shape.iter().map(|length| format!("{length}, ")).collect();
        let mut npy = Self { file, path, dtype: dtype.to_owned(), inner, item_bytes, bytes: 0 };
        npy.header()?;
        Ok(npy)
    }

    /// Appends items, as little-endian bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Appends numbers to a file of `'<u8'`.
    pub(crate) fn numbers(&mut self, numbers: &[u64]) -> std::io::Result<()> {
        numbers.iter().try_for_each(|number| self.bytes(&number.to_le_bytes()))
    }

    /// Puts the count in and closes the file; returns its path.
    pub(crate) fn finish(mut self) -> anyhow::Result<PathBuf> {
        assert!(self.bytes.is_multiple_of(self.item_bytes as u64), "whole items");
        self.file.seek(SeekFrom::Start(0))?;
        self.header()?;
        self.file.flush()?;
        Ok(self.path)
    }

    fn header(&mut self) -> anyhow::Result<()> {
        let count = self.bytes / self.item_bytes as u64;
        // A comma is due behind the only number, and behind no other.
        let shape = match self.inner.strip_suffix(", ") {
            Some(inner) => format!("{count}, {inner}"),
            None => format!("{count},"),
        };
        let dtype = &self.dtype;
        let text = format!("{{'descr': {dtype}, 'fortran_order': False, 'shape': ({shape}), }}");
        let room = HEADER_BYTES - PREFIX_BYTES - 1;
        assert!(text.len() <= room, "a header that fits");
        self.file.write_all(b"\x93NUMPY\x01\x00")?;
        self.file.write_all(&((HEADER_BYTES - PREFIX_BYTES) as u16).to_le_bytes())?;
        writeln!(self.file, "{text:<room$}")?;
        Ok(())
    }
}

/// Magic, version and length.
const PREFIX_BYTES: usize = 10;
/// A multiple of 64, as numpy aligns its data.
const HEADER_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_stands_in_the_header() {
        let folder = tempfile::tempdir().unwrap();
        let mut npy = Npy::create(&folder.path().join("keys.npy"), "'<u8'", 8).unwrap();
        npy.numbers(&[1, 2, 3]).unwrap();
        let bytes = std::fs::read(npy.finish().unwrap()).unwrap();
        assert_eq!(bytes.len(), HEADER_BYTES + 24);
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\xf6\x00");
        let text = std::str::from_utf8(&bytes[10..HEADER_BYTES]).unwrap();
        assert!(text.starts_with("{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }"));
        assert!(text.ends_with('\n'));
        let mut npy = Npy::create_of(&folder.path().join("a.npy"), "'|u1'", &[2, 3], 6).unwrap();
        npy.bytes(&[0; 12]).unwrap();
        let bytes = std::fs::read(npy.finish().unwrap()).unwrap();
        let text = std::str::from_utf8(&bytes[10..HEADER_BYTES]).unwrap();
        assert!(text.starts_with("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 3), }"));
        assert!(Npy::create(&folder.path().join("keys.npy"), "'<u8'", 8).is_err());
    }
}
