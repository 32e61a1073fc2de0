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

    /// Whether the helper is making it.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self, Self::Asked(_) | Self::Unwanted(_))
    }

    /// The end of the blocks of the file that can be taken.
    pub(crate) fn blocks_bytes(&self) -> Option<u64> {
        match self {
            Self::Opened(created) => Some(created.allocated),
            _ => None,
        }
    }

    /// Takes the result. Returns the bytes that were preallocated.
    pub(crate) fn ended(&mut self, result: Result<Created, DiskError>) -> u64 {
        let unwanted = matches!(self, Self::Unwanted(_));
        *self = match result {
            Ok(created) => Self::Opened(created),
            Err(error) => Self::Failed(error),
        };
        if unwanted {
            self.discard();
        }
        self.blocks_bytes().unwrap_or(0)
    }

    /// Removes the file, now or when it has been made.
    pub(crate) fn discard(&mut self) {
        *self = match std::mem::take(self) {
            Self::Asked(path) | Self::Unwanted(path) => Self::Unwanted(path),
            Self::Opened(Created { handle, path, .. }) => {
                drop(handle);
                // It is empty. If it cannot be removed, repair recognises it by that.
                let _removed = std::fs::remove_file(path);
                Self::None
            }
            Self::None | Self::Failed(_) => Self::None,
        };
    }
}
