//! A storage node: `[store]`, with `[[listen]]`, `[memory]` and `[write]` beside it, and
//! `[control]` with its alarms as of every node.

use std::path::{Path, PathBuf};

use catchment_control::Rule;
use catchment_disk::DiskConfig;
use catchment_model::units::Time;
use catchment_recorder::{
    ConfigError, LINK_SYNC_BYTES, LINK_SYNC_NS, LinkAccess, RecorderConfig, SystemMemory, TlsRule,
    WriteConfig,
};
use catchment_store::StoreConfig;

use crate::listen::{ListenLow, check_reach};
use crate::locate::{ConfigFileError, Located};
use crate::low::Low;
use crate::{Control, H, MS, control, within};

/// A storage node as it is written.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreLow {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) folders: Option<Vec<PathBuf>>,
    pub(crate) close_after: Option<Time>,
}

/// What a file says of a storage node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Where the folders of streams are.
    pub folders: Vec<PathBuf>,
    /// How long after its sender is gone a stream's files are closed.
    pub close_after_ns: u64,
}

pub(crate) fn store(located: &Located<'_>, low: &StoreLow) -> Result<Store, ConfigFileError> {
    let folders = match (&low.folder, &low.folders) {
        (Some(folder), None) => vec![folder.clone()],
        (None, Some(folders)) => folders.clone(),
        (Some(_), Some(_)) => {
            return Err(located.error("store.folders", "expected no folders beside a folder"));
        }
        (None, None) => return Err(located.error("store", "expected a folder, got none")),
    };
    let key = if low.folder.is_some() { "store.folder" } else { "store.folders" };
    if !(1..=FOLDERS_MAX).contains(&folders.len()) {
        return Err(located.error(key, "expected 1 to 16 folders"));
    }
    if folders.iter().any(|folder| folder.as_os_str().is_empty()) {
        return Err(located.error(key, "expected a folder, got \"\""));
    }
    let is_twice = |(index, folder): (usize, &PathBuf)| folders[..index].contains(folder);
    if folders.iter().enumerate().any(is_twice) {
        return Err(located.error(key, "expected each folder once"));
    }
    within(located, "store.close_after", low.close_after, MS..=24 * H)?;
    let close_after_ns = low.close_after.map_or(CLOSE_AFTER_NS, |time| time.0);
    Ok(Store { folders, close_after_ns })
}

/// The file of a storage node, checked.
#[derive(Clone, Debug)]
pub struct StoreHigh {
    /// The node.
    pub store: StoreConfig,
    /// How it is controlled, if the file says.
    pub control: Option<Control>,
    /// Rules of alarms.
    pub rules: Vec<Rule>,
}

/// Reads and checks the file of a storage node.
///
/// # Errors
/// What is wrong with it and where, or that it cannot be read.
pub fn load_store(path: &Path) -> Result<StoreHigh, ConfigFileError> {
    check_store(path, &crate::read(path)?)
}

/// Checks the text of such a file; `path` is for messages.
///
/// # Errors
/// What is wrong with it and where.
pub fn check_store(path: &Path, text: &str) -> Result<StoreHigh, ConfigFileError> {
    let located = Located::parse(path, text)?;
    let low: Low = located.read()?;
    let Some(of_file) = &low.store else {
        return Err(located.error("store", "expected [store] with a folder, got none"));
    };
    let Store { folders, close_after_ns } = store(&located, of_file)?;
    let table: toml::Table = text.parse().unwrap_or_default();
    if let Some(other) = table.keys().find(|key| !TABLES.contains(&key.as_str())) {
        let message = "expected [store], [[listen]], [memory], [write], [control], [[alarms]] and \
                       [[actions]] alone, of a storage node";
        return Err(located.error(other, message));
    }
    let (address, access) = match &low.listen[..] {
        [] => (ListenLow::default().address(), LinkAccess::default()),
        [low] => {
            let open = [
                ("from", low.from.is_some()),
                ("resume", low.resume.is_some()),
                ("skew_bytes", low.skew_bytes.is_some()),
            ];
            if let Some((key, _)) = open.iter().find(|(_, is_set)| *is_set) {
                let message = "expected none: a storage node has no such listener yet";
                return Err(located.error(&format!("listen[0].{key}"), message));
            }
            let (address, access) = (low.address(), low.access());
            check_reach(&located, "listen[0].address", address, &access)?;
            if access.tls == TlsRule::Control {
                let message = "expected \"all\" or \"none\" of a storage node, got \"control\"";
                return Err(located.error("listen[0].tls", message));
            }
            (address, access)
        }
        _ => return Err(located.error("listen[1]", "expected one listener")),
    };
    let (write, disk) = (&low.write, disk(&located, &low.write)?);
    let memory_bytes =
        low.memory.budget.map_or_else(|| SystemMemory::now().default_budget_bytes(), u64::from);
    let (file_bytes, sync_bytes) = (write.file_bytes, write.sync_bytes.unwrap_or(LINK_SYNC_BYTES));
    let actions = control::actions(&located, &low)?;
    let control = control::control(&located, &low, &actions)?;
    let rules = control::rules(&located, &low, &RecorderConfig::new(PathBuf::new(), Vec::new()))?;
    let store = StoreConfig {
        address,
        access,
        folders,
        memory_bytes,
        file_bytes,
        disk,
        sync_bytes,
        close_after_ns,
    };
    Ok(StoreHigh { store, control, rules })
}

/// The disk of a stream in each folder.
fn disk(located: &Located<'_>, write: &WriteConfig) -> Result<DiskConfig, ConfigFileError> {
    if write.file_time_ns.is_some() || write.cpu.is_some() {
        let message = "expected no file_time and no cpu: a storage node has neither yet";
        return Err(located.error("write", message));
    }
    let refused = |error: ConfigError| located.expected(&error.key, &error.expected, &error.got);
    write.check_sync_bytes().map_err(refused)?;
    let disk = DiskConfig {
        buffer_bytes: write.buffer_bytes,
        buffer_count: write.buffer_count,
        preallocate_bytes: write.preallocate_bytes,
        file_bytes: write.file_bytes,
        engine: write.engine,
        // Frames are held by their senders until they are durable.
        sync_interval_ns: match located.has("write", "sync_interval") {
            true => write.sync_interval_ns,
            false => LINK_SYNC_NS,
        },
        ..DiskConfig::default()
    };
    disk.check().map_err(|error| located.error("write", error.to_string()))?;
    Ok(disk)
}

/// As many as a target has.
const FOLDERS_MAX: usize = 16;
/// The tables of such a file.
const TABLES: [&str; 7] = ["store", "listen", "memory", "write", "control", "alarms", "actions"];
/// How long a sender may be away unless the file says otherwise.
const CLOSE_AFTER_NS: u64 = 60_000 * MS;
