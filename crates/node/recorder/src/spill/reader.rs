//! Reading spilled frames back, as they are stored: each is checked before it is sent.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use catchment_disk::ReadFile;
use catchment_encoder::Done;
use catchment_frame::{
    BlockChecksums, FileHeader, FileReader, FrameError, OpenOptions, ReadAt, encode_ledger_total,
    find_headless, frame_ledger, unqualified,
};
use catchment_model::RunId;
use catchment_writer::{ColumnForm, EncodedColumn};

use crate::column_bytes::ColumnBytes;
use crate::store_feed::{HeldColumn, Outgoing};

/// A file, with a header made again if its own is damaged.
#[derive(Debug)]
struct WithHeader {
    file: ReadFile,
    header: Vec<u8>,
}

impl ReadAt for WithHeader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(offset, buffer)?;
        if let Some(rest) = usize::try_from(offset).ok().and_then(|at| self.header.get(at..)) {
            let bytes = rest.len().min(read);
            buffer[..bytes].copy_from_slice(&rest[..bytes]);
        }
        Ok(read)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        ReadAt::next_data(&self.file, offset)
    }
}

/// Why a file, or a frame in it, cannot be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The system, or this version of the program, cannot read what may be whole.
    Unavailable(String),
    Damaged(String),
}

impl Unread {
    fn of(error: &FrameError, text: String) -> Self {
        match error {
            FrameError::Read { .. } | FrameError::Length(_) | FrameError::Version { .. } => {
                Self::Unavailable(text)
            }
            _ => Self::Damaged(text),
        }
    }
}

/// A file of spilled frames.
#[derive(Debug)]
pub(crate) struct SpillReader {
    reader: FileReader<WithHeader>,
    has_own_header: bool,
}

impl SpillReader {
    /// Opens a file of a stream with that header. Where frames are damaged, all of the rest is
    /// searched for others.
    ///
    /// # Errors
    /// Why nothing in it can be read.
    pub(crate) fn open(path: &Path, of_stream: &FileHeader) -> Result<Self, Unread> {
        let said = |error: &FrameError| Unread::of(error, format!("{}: {error}", path.display()));
        let damaged = |text: &str| Unread::Damaged(format!("{}: {text}", path.display()));
        let file = || {
            ReadFile::open(path).map_err(|error| match error.io().map(io::Error::kind) {
                // Its stream is locked, and with it the file system: it was not unmounted.
                Some(io::ErrorKind::NotFound) => damaged("it was removed"),
                _ => Unread::Unavailable(error.to_string()),
            })
        };
        let options = OpenOptions { search_bytes_max: u64::MAX, ..OpenOptions::default() };
        let open = |header| -> Result<_, Unread> {
            Ok(FileReader::open_with(WithHeader { file: file()?, header }, &options))
        };
        let (reader, has_own_header) = match open(Vec::new())? {
            Ok(reader) => (reader, true),
            Err(problem) => {
                if let unavailable @ Unread::Unavailable(_) = said(&problem) {
                    return Err(unavailable);
                }
                let found = find_headless(&file()?, u64::MAX).map_err(|error| said(&error))?;
                let Some(found) = found else { return Err(said(&problem)) };
                let header = FileHeader { file_id: found.file_id, ..of_stream.clone() }.encode();
                let first = found.frames.first().map_or(0, |frame| frame.offset);
                if header.len() as u64 > first {
                    return Err(said(&problem));
                }
                (open(header)?.map_err(|error| said(&error))?, false)
            }
        };
        let header = reader.header();
        let key = |header: &FileHeader| -> (RunId, u32, u32) {
            (header.run, header.stream, header.variant)
        };
        if key(header) != key(of_stream) || header.schema != of_stream.schema {
            return Err(damaged("it has frames of another stream"));
        }
        Ok(Self { reader, has_own_header })
    }

    /// The first number, and the one behind the last, of each frame.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (u64, u64)> {
        let numbers = |(first, last): (u64, u64)| (first, last.saturating_add(1));
        self.reader.frames().iter().map(move |frame| numbers(frame.info.numbers()))
    }

    /// What is damaged in it, as far as it is known without reading columns.
    pub(crate) fn damage(&self) -> Option<String> {
        if !self.has_own_header || self.reader.header_problem().is_some() {
            return Some("its header is damaged".to_owned());
        }
        let skipped = self.reader.skipped().iter().find(|one| one.reason.is_damage());
        skipped.map(ToString::to_string)
    }

    /// The frame that begins with that number, as a whole.
    ///
    /// # Errors
    /// What is damaged in it, or that the system does not read it.
    pub(crate) fn read(&self, number: u64) -> Result<Outgoing, Unread> {
        let mut frames = self.reader.frames().iter();
        let frame = frames.position(|frame| frame.info.sequence == number);
        let gone = || Unread::Damaged(format!("frame {number} is not where it was"));
        outgoing(&self.reader, frame.ok_or_else(gone)?)
            .map_err(|error| Unread::of(&error, format!("frame {number}: {error}")))
    }
}

/// A frame of a file, as a whole.
///
/// # Errors
/// What is damaged in it, or that the system does not read it.
pub(crate) fn outgoing<R: ReadAt>(
    reader: &FileReader<R>,
    frame: usize,
) -> Result<Outgoing, FrameError> {
    let entries = reader.columns(frame)?;
    let mut columns = Vec::with_capacity(entries.len());
    for entry in &entries {
        let stored = reader.stored_column(frame, entry)?;
        stored.check()?;
        let mut bytes = vec![0; entry.stored_bytes as usize];
        let (summary, checksums) = (&reader.frames()[frame], OnceLock::new());
        stored.read_bytes(summary.offset.saturating_add(entry.offset), &mut bytes)?;
        let of_bytes = BlockChecksums::of(&bytes);
        if of_bytes.crc32c() != entry.crc32c {
            // Which says what was expected.
            stored.check_stored(&bytes)?;
        }
        let _new = checksums.set(of_bytes);
        let own = unqualified(entry.codec);
        let form = ColumnForm {
            first_sample: entry.first_sample,
            start_ns: entry.start_ns,
            is_qualified: own.is_some(),
            ..ColumnForm::new(entry.id, entry.dtype, entry.rows)
        };
        let codec = own.unwrap_or(entry.codec);
        let done = Done { codec, checksums, ..Done::as_it_is(ColumnBytes::Own(bytes)) };
        let column = Arc::new(EncodedColumn { form, raw_bytes: entry.raw_bytes, done });
        columns.push(HeldColumn { column, is_counted: false });
    }
    let (ledger, problems) = frame_ledger(reader, frame);
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem);
    }
    let mut records = Vec::new();
    encode_ledger_total(&ledger, &mut records);
    let info = reader.frames()[frame].info;
    let bytes_max = columns.iter().map(|one| one.column.done.stored_bytes() as u64).sum();
    let columns_max = columns.len() as u32;
    Ok(Outgoing { info, item: None, columns_max, bytes_max, columns, ledger: Some(records) })
}
