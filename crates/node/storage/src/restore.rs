//! Rebuilding the header of a file, if it is lost and frames follow it.
//!
//! A file that was closed and not cut has a copy in its TOC. Otherwise another file is needed: all
//! files of a run have the same header except for three things: the index, which the run's list
//! of files or the file's name gives; the random number, which is in every frame; and the time at
//! which the file was begun, which is set to its first frame's time. The rest comes from another
//! file of the run.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use catchment_disk::{EditFile, ReadFile};
use catchment_frame::{
    ColumnKind, FILE_LIST_NAME, FileHeader, FileReader, FrameError, FrameKind, Headless, Numbering,
    Rewrite, header_of_uncut,
};

use crate::error::StorageError;
use crate::open;
use crate::repair::{FileRepair, Outcome, rows_of};
use crate::whole::any_list;

/// A file with a lost header.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) path: PathBuf,
    /// The error in its header.
    pub(crate) problem: FrameError,
    /// The contents after it.
    pub(crate) found: Headless,
}

/// Another file of the run, with an intact header.
pub(crate) struct Sibling<'a> {
    path: &'a Path,
    reader: &'a FileReader<ReadFile>,
    header: &'a FileHeader,
    /// Numbers of its frames.
    sequences: Option<RangeInclusive<u64>>,
}

impl<'a> Sibling<'a> {
    pub(crate) fn of(path: &'a Path, reader: &'a FileReader<ReadFile>) -> Self {
        let frames = reader.frames();
        let ends = frames.first().zip(frames.last());
        Self {
            path,
            reader,
            header: reader.header(),
            sequences: ends.map(|(first, last)| first.info.sequence..=last.info.sequence),
        }
    }
}

impl Lost {
    /// Writes the header again. Returns the file from which it was made, which may be this one, or
    /// why it cannot be made; then nothing was written.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn restore(
        &self,
        siblings: &[Sibling<'_>],
    ) -> Result<Result<PathBuf, String>, StorageError> {
        let file = ReadFile::open(&self.path)?;
        let of_siblings = || -> Result<_, String> {
            let (bytes, from) = self.header(&file, siblings)?;
            Ok((vec![Rewrite { offset: 0, bytes }], from))
        };
        let own = header_of_uncut(&file).map(|rewrites| (rewrites, self.path.clone()));
        let (rewrites, from) = match own.map_or_else(of_siblings, Ok) {
            Ok(made) => made,
            Err(why) => return Ok(Err(self.say(&why))),
        };
        drop(file);
        let file = EditFile::open(&self.path)?;
        for Rewrite { offset, bytes } in rewrites {
            let written = file.written();
            file.write_at(offset, &bytes)?;
            file.keep_written(written);
            file.sync()?;
        }
        Ok(Ok(from))
    }

    /// The file unchanged, and why nothing can be done.
    pub(crate) fn left(&self, why: String) -> FileRepair {
        let left = FileRepair::left(self.path.clone(), Outcome::Unreadable(why));
        let frames = self.found.frames.len() as u64;
        FileRepair {
            frames,
            events: self.rows(FrameKind::Events),
            samples: self.rows(FrameKind::Channels),
            ..left
        }
    }

    /// Events, or samples, in its frames.
    fn rows(&self, kind: FrameKind) -> u64 {
        rows_of(self.found.frames.iter().map(|frame| frame.info), kind)
    }

    fn header(
        &self,
        file: &ReadFile,
        siblings: &[Sibling<'_>],
    ) -> Result<(Vec<u8>, PathBuf), String> {
        let Some(sibling) = siblings.first() else {
            return Err("there is no other file of the run here to take them from".into());
        };
        let run = sibling.header.run;
        if let Some(other) = siblings.iter().find(|other| other.header.run != run) {
            let (one, other) = (sibling.path.display(), other.path.display());
            return Err(format!("{one} and {other} are of two runs, and either may be this one's"));
        }
        let lost = sibling.reader.header_key_lost().map_err(|error| error.to_string())?;
        if let Some(key) = lost {
            let from = sibling.path.display();
            return Err(format!(
                "the header of {from} has {key:?}, which this program does not write"
            ));
        }
        let index = self.index(siblings)?;
        let created_ns = self.begun_ns(sibling.header);
        let made = self.found.header(sibling.reader, (index, created_ns));
        let from = sibling.path.display();
        let header = made
            .ok_or_else(|| format!("the header of {from} does not fit before its first frame"))?;
        if !self.found.fits(file, &header) {
            return Err(format!("its frames have columns that {from} does not describe"));
        }
        Ok((header, sibling.path.to_owned()))
    }

    /// Its index among the run's files: from the list, or from its name if that fits between the
    /// others.
    fn index(&self, siblings: &[Sibling<'_>]) -> Result<u32, String> {
        let taken = |index| siblings.iter().any(|other| other.header.file_index == index);
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let list = any_list(folder).filter(|list| list.run == siblings[0].header.run);
        let own = Some(self.found.file_id);
        let mut listed = list.iter().flat_map(|list| &list.files);
        let found = listed.find(|(_, file)| file.file_id == own);
        if let Some((&index, _)) = found.filter(|(index, _)| !taken(**index)) {
            return Ok(index);
        }
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let index = open::index_of_name(&stem).filter(|index| !taken(*index));
        let unknown = || "neither a list of files nor its name says which file of the run it is";
        let index = index.ok_or_else(unknown)?;
        let listed = list.as_ref().and_then(|list| list.files.get(&index)?.file_id);
        if listed.is_some() && listed != own {
            return Err(format!(
                "its name says that it is file {index}, for which {FILE_LIST_NAME} has another id"
            ));
        }
        let (first, last) = match &*self.found.frames {
            [] => return Ok(index),
            [first, .., last] => (first.info.sequence, last.info.sequence),
            [only] => (only.info.sequence, only.info.sequence),
        };
        // Numbers that restart in each file do not determine the order of files.
        if siblings[0].header.numbering == Numbering::File {
            return Ok(index);
        }
        let fits = siblings.iter().all(|other| {
            let before = other.header.file_index < index;
            other.sequences.as_ref().is_none_or(|numbers| match before {
                true => *numbers.end() < first,
                false => last < *numbers.start(),
            })
        });
        let other = || format!("its name says that it is file {index}, and its frames are others");
        fits.then_some(index).ok_or_else(other)
    }

    /// The time of its first frame (UTC).
    fn begun_ns(&self, header: &FileHeader) -> u64 {
        let Some(first) = self.found.frames.first() else { return header.created_ns };
        let channel = header.schema.columns.iter().find(|info| info.kind == ColumnKind::Channel);
        let scale = channel.map(|channel| channel.time_scale);
        match (first.info.kind, scale) {
            _ if first.info.rows == 0 => header.created_ns,
            (FrameKind::Channels, Some(scale)) => scale.to_utc_ns(first.info.time_first_ns),
            _ => first.info.time_first_ns,
        }
    }

    fn say(&self, why: &str) -> String {
        let (frames, events) = (self.found.frames.len(), self.rows(FrameKind::Events));
        let start = self.found.frames.first().map_or(0, |first| first.offset);
        let end = self.found.frames.last().map_or(0, |last| last.offset + last.frame_bytes);
        format!(
            "{}; but {frames} whole frames with {events} events stand behind it, from {start} to {end}: \
             keep the file. With the header are lost: the run's identity and number, its configuration, \
             the names of its sources, and what each column is; {why}",
            self.problem
        )
    }
}
