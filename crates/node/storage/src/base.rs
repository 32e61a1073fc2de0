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
    /// What the files say of it, each once: files with the payload beside others without say
    /// nothing.
    named: Vec<Named>,
    opened: Mutex<Option<Arc<Opened>>>,
}

/// What a file says of its base.
struct Named {
    /// The file that says it.
    file: PathBuf,
    path: PathBuf,
    run: RunId,
    variant: u32,
    options: RunOptions,
    /// Whether the path is relative to the file's folder, or the caller's.
    is_allowed: bool,
}

impl Named {
    fn other(&self, problem: String) -> StorageError {
        let (path, base) = (self.file.clone(), self.path.clone());
        StorageError::OtherBase { path, base, problem }
    }
}

struct Opened {
    run: Run,
    /// Frames of events by stream and number.
    frames: HashMap<(u32, u64), usize>,
}

impl Base {
    /// That of the run with those files, at least one.
    pub(crate) fn of(files: &[RunFile], options: &RunOptions) -> Self {
        let mut named: Vec<Named> = Vec::new();
        for file in files {
            let Some(BaseFiles { path, variant }) = &file.header().base else { continue };
            let beside = || file.path.parent().unwrap_or(Path::new("")).join(path);
            let is_relative = !path.is_empty() && !Path::new(path).has_root();
            let one = Named {
                file: file.path.clone(),
                path: options.base.clone().unwrap_or_else(beside),
                run: file.header().run,
                variant: *variant,
                options: RunOptions { base: None, ..options.clone() },
                is_allowed: options.base.is_some() || is_relative,
            };
            let is_known = |known: &Named| {
                (&known.path, known.variant, known.is_allowed)
                    == (&one.path, one.variant, one.is_allowed)
            };
            if !named.iter().any(is_known) {
                named.push(one);
            }
        }
        Self { named, opened: Mutex::new(None) }
    }

    /// Whether a file names a base.
    pub(crate) fn is_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// The base that is read: of several paths to it, the first that leads somewhere.
    ///
    /// # Errors
    /// Paths that files must not have, or that lead to different bases.
    fn chosen(&self) -> Result<Option<&Named>, StorageError> {
        let mut there: Option<(&Named, PathBuf)> = None;
        for named in &self.named {
            if !named.is_allowed {
                let problem = "named by an absolute or empty path, expected one relative to the \
                               folder of the file";
                return Err(named.other(problem.to_owned()));
            }
            let first = &self.named[0];
            if named.variant != first.variant {
                let problem = format!(
                    "variant {} of the run, and variant {} is the base of {}",
                    named.variant,
                    first.variant,
                    first.file.display()
                );
                return Err(named.other(problem));
            }
            let Ok(path) = std::fs::canonicalize(&named.path) else { continue };
            match &there {
                None => there = Some((named, path)),
                Some((_, known)) if *known == path => {}
                Some((other, known)) => {
                    let file = other.file.display();
                    let problem = format!("another than {}, the base of {file}", known.display());
                    return Err(named.other(problem));
                }
            }
        }
        Ok(there.map(|(named, _)| named).or(self.named.first()))
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
        // A frame's parts follow one another: it is decoded once, whatever the cache keeps.
        let mut latest = None;
        for part in parts {
            let BasePart { stream, sequence, .. } = *part;
            let Some(&frame) = base.frames.get(&(stream, sequence)) else {
                let problem = format!("its base {path} has no frame {sequence} of stream {stream}");
                return Err(wrong(&problem));
            };
            let column = match latest.take() {
                Some((of, column)) if of == frame => column,
                _ => base.run.fragments(frame, source)?,
            };
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
            latest = Some((frame, column));
        }
        Ok(payload)
    }

    /// The base, opened and compared with what the files say of it; none if they name none.
    fn open(&self) -> Result<Option<Arc<Opened>>, StorageError> {
        let mut opened = self.opened.lock();
        if let Some(opened) = &*opened {
            return Ok(Some(Arc::clone(opened)));
        }
        let Some(named) = self.chosen()? else { return Ok(None) };
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
            return Err(named.other(problem));
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
    /// Where the payload of the run's fragments is read, if a file of it does not have it.
    pub fn base_path(&self) -> Option<&Path> {
        let base = self.base();
        let chosen = base.chosen().unwrap_or(base.named.first());
        chosen.map(|named| &*named.path)
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
    let named = run.base().chosen()?;
    let variant = named.map_or(run.header().variant, |named| named.variant);
    let absolute = |path: &Path| {
        let read = |source| StorageError::Read { path: path.to_owned(), source };
        std::fs::canonicalize(path).map_err(read)
    };
    let base = absolute(named.map_or(run.path(), |named| &named.path))?;
    let path = relative(&base, &absolute(folder)?);
    match path.to_str() {
        Some("") => Ok(BaseFiles { path: ".".to_owned(), variant }),
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
