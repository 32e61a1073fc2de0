//! The base of a run whose events were built again: the run with the payload of their fragments.
//!
//! It is opened when a payload is first read, beside the run or where the caller says that it is.
//! The other columns are read without it.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use catchment_frame::{BaseFiles, BasePart};
use catchment_model::{RunId, SourceId};
use parking_lot::Mutex;

use crate::error::StorageError;
use crate::open::RunFile;
use crate::run::{Run, RunOptions};

/// Where a run's base is, and the base once it was read.
pub(crate) struct Base {
    named: Option<Named>,
    opened: Mutex<Option<Arc<Opened>>>,
}

/// What the files say of their base.
struct Named {
    /// The file that says it.
    file: PathBuf,
    path: PathBuf,
    run: RunId,
    variant: u32,
    options: RunOptions,
}

struct Opened {
    run: Run,
    /// Frames of events by stream and number.
    frames: HashMap<(u32, u64), usize>,
}

impl Base {
    /// That of the run with those files, at least one.
    pub(crate) fn of(files: &[RunFile], options: &RunOptions) -> Self {
        let file = &files[0];
        let named = file.header().base.as_ref().map(|BaseFiles { path, variant }| {
            let beside = || file.path.parent().unwrap_or(Path::new("")).join(path);
            Named {
                file: file.path.clone(),
                path: options.base.clone().unwrap_or_else(beside),
                run: file.header().run,
                variant: *variant,
                options: RunOptions { base: None, ..options.clone() },
            }
        });
        Self { named, opened: Mutex::new(None) }
    }

    /// The parts of a source's payload, one after another. `wrong` makes an error of what is wrong
    /// with them.
    pub(crate) fn payload(
        &self,
        source: SourceId,
        parts: &[BasePart],
        wrong: impl Fn(&str) -> StorageError,
    ) -> Result<Vec<u8>, StorageError> {
        let Some(base) = self.open()? else {
            return Err(wrong("its bytes are in a base, and its file names none"));
        };
        let path = base.run.path().display();
        let mut payload = Vec::new();
        for part in parts {
            let BasePart { stream, sequence, .. } = *part;
            let Some(&frame) = base.frames.get(&(stream, sequence)) else {
                let problem = format!("its base {path} has no frame {sequence} of stream {stream}");
                return Err(wrong(&problem));
            };
            let column = base.run.fragments(frame, source)?;
            let info = base.run.frames()[frame].summary.info;
            let (got, expected) = (column.payload().len() as u64, part.raw_bytes);
            if (info.key_first, got) != (part.key_first, expected) {
                return Err(wrong(&format!(
                    "frame {sequence} of stream {stream} of its base {path} has first key {} and \
                     {got} bytes of the source, expected {} and {expected}: it is another frame",
                    info.key_first, part.key_first
                )));
            }
            let end = part.offset + part.bytes;
            payload.extend_from_slice(&column.payload()[part.offset as usize..end as usize]);
        }
        Ok(payload)
    }

    /// The base, opened and compared with what the files say of it; none if they name none.
    fn open(&self) -> Result<Option<Arc<Opened>>, StorageError> {
        let Some(named) = &self.named else { return Ok(None) };
        let mut opened = self.opened.lock();
        if let Some(opened) = &*opened {
            return Ok(Some(Arc::clone(opened)));
        }
        let run = Run::open_with(&named.path, named.options.clone()).map_err(|source| {
            let (path, base, source) = (named.file.clone(), named.path.clone(), Box::new(source));
            StorageError::NoBase { path, base, run: named.run, source }
        })?;
        let got = run.header();
        let differs = [
            (got.run != named.run, format!("of run {}, expected {}", got.run, named.run)),
            (
                got.variant != named.variant,
                format!("variant {} of the run, expected {}", got.variant, named.variant),
            ),
            (got.base.is_some(), "itself without the payload".to_owned()),
        ];
        if let Some((_, problem)) = differs.into_iter().find(|(differs, _)| *differs) {
            let (path, base) = (named.file.clone(), named.path.clone());
            return Err(StorageError::OtherBase { path, base, problem });
        }
        let frames = run.frames().iter().enumerate();
        let frames = frames.map(|(index, frame)| {
            let info = frame.summary.info;
            ((info.origin.stream, info.sequence), index)
        });
        let frames = frames.collect();
        let base = Arc::new(Opened { run, frames });
        *opened = Some(Arc::clone(&base));
        Ok(Some(base))
    }
}

impl Run {
    /// Where the payload of the run's fragments is read, if its files do not have it.
    pub fn base_path(&self) -> Option<&Path> {
        self.base().named.as_ref().map(|named| &*named.path)
    }

    /// Checks that the run's base, if it has one, is there and is that of its files.
    ///
    /// # Errors
    /// [`StorageError::NoBase`] or [`StorageError::OtherBase`].
    pub fn check_base(&self) -> Result<(), StorageError> {
        self.base().open().map(drop)
    }
}

/// What the files in `folder`, which is there, say of a base: this run, or where that one's payload
/// is.
pub(crate) fn naming(run: &Run, folder: &Path) -> Result<BaseFiles, StorageError> {
    let variant = run.header().base.as_ref().map_or(run.header().variant, |base| base.variant);
    let absolute = |path: &Path| {
        let read = |source| StorageError::Read { path: path.to_owned(), source };
        std::fs::canonicalize(path).map_err(read)
    };
    let base = absolute(run.base_path().unwrap_or(run.path()))?;
    let path = relative(&base, &absolute(folder)?);
    match path.to_str() {
        Some(path) => Ok(BaseFiles { path: path.to_owned(), variant }),
        None => Err(crate::write::unwritable(
            "index columns alone",
            "the path of the run is not UTF-8, and the new files name it",
        )),
    }
}

/// The path from a folder to a file or folder, both absolute.
fn relative(to: &Path, from: &Path) -> PathBuf {
    let common = to.components().zip(from.components()).take_while(|(to, from)| to == from).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_named_relative_to_the_folder_of_the_files() {
        let named = |to: &str, from: &str| {
            relative(Path::new(to), Path::new(from)).to_str().unwrap().to_owned()
        };
        assert_eq!(named("/data/run", "/data/wide"), "../run");
        assert_eq!(named("/data/run", "/data/deep/wide"), "../../run");
        assert_eq!(named("/run", "/data/wide"), "../../run");
        assert_eq!(named("/data/run/run-00000.catch", "/data/run/wide"), "../run-00000.catch");
    }
}
