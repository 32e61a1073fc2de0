//! The file that is opened ahead.

use std::path::{Path, PathBuf};

use crate::error::DiskError;
use crate::files::Created;

/// The file that is opened ahead, if there is one.
#[derive(Default)]
pub(crate) enum Opening {
    #[default]
    None,
    Asked(PathBuf),
    Opened(Created),
    Failed(DiskError),
    /// Being opened, then to be removed.
    Unwanted(PathBuf),
}

impl Opening {
    /// The file that is ready.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Asked(path) | Self::Unwanted(path) | Self::Opened(Created { path, .. }) => {
                Some(path)
            }
            Self::None | Self::Failed(_) => None,
        }
    }

    /// Whether a file is being made that will be removed.
    pub(crate) fn is_unwanted(&self) -> bool {
        matches!(self, Self::Unwanted(_))
    }

    /// The end of the blocks of the file that can be taken.
    pub(crate) fn blocks_bytes(&self) -> Option<u64> {
        match self {
            Self::Opened(created) => Some(created.allocated),
            _ => None,
        }
    }

    /// Takes the result.
    pub(crate) fn ended(&mut self, result: Result<Created, DiskError>) {
        *self = match result {
            Ok(created) => Self::Opened(created),
            Err(error) => Self::Failed(error),
        };
    }

    /// Abandons the file. Returns the one that is there, and is to be removed.
    #[must_use]
    pub(crate) fn discard(&mut self) -> Option<Created> {
        match std::mem::take(self) {
            Self::Asked(path) | Self::Unwanted(path) => *self = Self::Unwanted(path),
            Self::Opened(created) => return Some(created),
            Self::None | Self::Failed(_) => {}
        }
        None
    }
}
