//! Where a run's bytes go: to files that are seen when they are closed, or while they grow.

use std::path::PathBuf;

use catchment_disk::DiskConfig;

use crate::error::StorageError;
use crate::write::growing::GrowingOutput;
use crate::write::output::Output;
use crate::write::parts::WriteOptions;

/// One of the two.
pub(super) enum Sink {
    Whole(Box<Output>),
    Growing(GrowingOutput),
}

impl Sink {
    pub(super) fn new(options: &WriteOptions) -> Result<Self, StorageError> {
        if let Some(growing) = &options.growing {
            return Ok(Self::Growing(GrowingOutput::new(growing.clone())));
        }
        let output = Output::new(DiskConfig {
            buffer_bytes: options.buffer_bytes,
            buffer_count: options.buffers,
            preallocate_bytes: PREALLOCATE_BYTES.min(options.file_bytes.next_multiple_of(4_096)),
            ..DiskConfig::default()
        })?;
        Ok(Self::Whole(Box::new(output)))
    }

    /// The output of files that grow.
    pub(super) fn growing(&mut self) -> Option<&mut GrowingOutput> {
        match self {
            Self::Whole(_) => None,
            Self::Growing(output) => Some(output),
        }
    }

    /// Begins a file with its header.
    pub(super) fn create(&mut self, path: PathBuf, header: &[u8]) -> Result<(), StorageError> {
        match self {
            Self::Whole(output) => {
                output.create(path)?;
                output.append(header)
            }
            Self::Growing(output) => output.create(&path, header),
        }
    }

    pub(super) fn position(&self) -> u64 {
        match self {
            Self::Whole(output) => output.position(),
            Self::Growing(output) => output.position(),
        }
    }

    /// As [`Output::can_hold`]; a file that grows has its header written in its place at last.
    pub(super) fn can_hold(&self, bytes: usize) -> bool {
        match self {
            Self::Whole(output) => output.can_hold(bytes),
            Self::Growing(_) => false,
        }
    }

    /// As [`Output::hold`].
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), StorageError> {
        match self {
            Self::Whole(output) => output.hold(bytes),
            Self::Growing(_) => unreachable!("a file that grows cannot hold"),
        }
    }

    /// As [`Output::fill_held`].
    pub(super) fn fill_held(&mut self, bytes: &[u8]) {
        match self {
            Self::Whole(output) => output.fill_held(bytes),
            Self::Growing(_) => unreachable!("a file that grows cannot hold"),
        }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match self {
            Self::Whole(output) => output.append(bytes),
            Self::Growing(output) => output.append(bytes),
        }
    }

    pub(super) fn pad_to(&mut self, position: u64) -> Result<(), StorageError> {
        match self {
            Self::Whole(output) => output.pad_to(position),
            Self::Growing(output) => output.pad_to(position),
        }
    }

    pub(super) fn close(&mut self) -> Result<(), StorageError> {
        match self {
            Self::Whole(output) => output.close(),
            Self::Growing(output) => output.close(),
        }
    }

    /// Waits until every file is closed and durable; returns those that came since last time.
    pub(super) fn wait(&mut self) -> Result<Vec<PathBuf>, StorageError> {
        match self {
            Self::Whole(output) => output.wait(),
            Self::Growing(output) => Ok(output.finished()),
        }
    }
}

/// Blocks asked for at a time.
const PREALLOCATE_BYTES: u64 = 256 << 20;
