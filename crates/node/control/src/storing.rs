//! The storage node that the program is, in place of a recorder.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use catchment_net::LinkAccess;
use catchment_store::{
    Node, NodeObserver, NodeSnapshot, StoreConfig, StoreError, absent_folders, absent_words,
};
use parking_lot::Mutex;

use crate::lookout::Seen;
use crate::machine::{self, Space};
use crate::node::NodeError;
use crate::security::tokens::Tokens;
use crate::security::{self, roles::Role};
use crate::settings::Settings;

/// A running storage node.
pub(crate) struct Storing {
    address: SocketAddr,
    access: LinkAccess,
    memory_bytes: u64,
    observer: NodeObserver,
    /// Its folders, with the free space that was seen last.
    folders: Vec<(PathBuf, Seen)>,
    node: Mutex<Option<Node>>,
}

/// A storage node at one moment.
pub(crate) struct StoreSeen {
    pub(crate) address: SocketAddr,
    pub(crate) needs_tls: bool,
    pub(crate) needs_token: bool,
    pub(crate) memory_bytes: u64,
    pub(crate) snapshot: NodeSnapshot,
    /// By folder: its space, and how long its disk has not answered, if that is too long.
    pub(crate) spaces: Vec<(Option<Space>, Option<Duration>)>,
}

/// The folders that a storage node will make.
///
/// # Errors
/// The disk of the first one, in which the node's own files are, is not mounted.
pub(crate) fn unmade(config: &StoreConfig) -> Result<Vec<PathBuf>, NodeError> {
    let absent = absent_folders(&config.folders);
    if let Some(first) = config.folders.first().filter(|first| absent.contains(first)) {
        let resource = format!("the folder {}, which has the node's own files", first.display());
        let source = std::io::Error::other(absent_words(first));
        return Err(NodeError::System { resource, source });
    }
    let is_unmade = |folder: &&PathBuf| !folder.exists() && !absent.contains(folder);
    Ok(config.folders.iter().filter(is_unmade).cloned().collect())
}

/// Logs which folders were made, and on which file system: a disk may not be mounted.
pub(crate) fn log_made(made: &[PathBuf]) {
    for folder in made {
        let (folder, mount) = (folder.display(), machine::mount_point(folder));
        tracing::warn!(%folder, mount = %mount.display(),
            "the folder was not there and was made, on the file system of this mount point");
    }
}

impl Storing {
    /// Starts it with the tokens and the certificate of the program.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(crate) fn start(
        mut config: StoreConfig,
        settings: &Settings,
        tokens: &Arc<Tokens>,
        own_folder: &std::path::Path,
    ) -> Result<Self, NodeError> {
        let listener = &mut [(config.address, &mut config.access)];
        security::complete(listener, settings, tokens, own_folder, Role::Node)?;
        let (access, memory_bytes) = (config.access.clone(), config.memory_bytes);
        let folders = config.folders.iter().map(|folder| (folder.clone(), Seen::default()));
        let folders = folders.collect();
        let node = Node::start(config)?;
        let (address, observer) = (node.address(), node.observer());
        let node = Mutex::new(Some(node));
        Ok(Self { address, access, memory_bytes, observer, folders, node })
    }

    /// Where recorders connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its folders.
    pub(crate) fn folder_paths(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|(folder, _)| folder.clone()).collect()
    }

    pub(crate) fn folder_count(&self) -> usize {
        self.folders.len()
    }

    /// Looks at the disk of one of its folders, which may hang.
    pub(crate) fn look_at(&self, folder: usize) {
        if let Some((folder, seen)) = self.folders.get(folder) {
            seen.set(machine::space(folder));
        }
    }

    pub(crate) fn seen(&self) -> StoreSeen {
        let spaces = self.folders.iter().map(|(_, seen)| (seen.space(), seen.silent()));
        StoreSeen {
            address: self.address,
            needs_tls: self.access.tls.needs_certificate(),
            needs_token: self.access.needs_token,
            memory_bytes: self.memory_bytes,
            snapshot: self.observer.snapshot(),
            spaces: spaces.collect(),
        }
    }

    /// Whether it takes nothing more although it was not told to end.
    pub(crate) fn has_failed(&self) -> bool {
        self.node.lock().as_ref().is_some_and(Node::has_failed)
    }

    /// Ends it: senders are told, files are closed. None if it has ended before.
    pub(crate) fn stop(&self) -> Option<Result<NodeSnapshot, StoreError>> {
        let node = self.node.lock().take()?;
        Some(node.stop())
    }
}
