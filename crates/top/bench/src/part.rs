//! A part of a bench in a process of its own: this program once more, with `--part`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use catchment_console::Out;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::front_ends::{self, Order};
use crate::loopback;
use crate::process::Process;

/// What such a process does.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Sends bytes to an address until nobody reads them.
    Bytes(SocketAddr),
    FrontEnds(Order),
}

/// Such a process, which is gone with its log when this is dropped.
pub(crate) struct Beside {
    process: Process,
    log: PathBuf,
}

/// Does a part, given in JSON.
pub(crate) fn run(json: &str, out: &mut Out) -> anyhow::Result<()> {
    match serde_json::from_str(json)? {
        Part::Bytes(address) => loopback::send(address),
        Part::FrontEnds(order) => front_ends::send(&order, out),
    }
}

impl Part {
    pub(crate) fn start(&self) -> anyhow::Result<Beside> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("catchment-bench-{}-{number}.log", std::process::id());
        let log = std::env::temp_dir().join(name);
        let json = serde_json::to_string(self)?;
        let arguments = ["bench", "midas-dummy", "--part", &json];
        let process = Process::start(&arguments, Path::new("."), log.clone())?;
        Ok(Beside { process, log })
    }
}

impl Beside {
    /// Whether it still runs.
    ///
    /// # Errors
    /// It has ended: with what it logged.
    pub(crate) fn ensure_runs(&mut self) -> anyhow::Result<()> {
        let has_ended = self.process.has_ended()?;
        anyhow::ensure!(!has_ended, "ended too soon: {}", self.process.logged());
        Ok(())
    }

    /// The next thing that it says.
    ///
    /// # Errors
    /// It has ended before: with what it logged.
    pub(crate) fn says<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        Ok(serde_json::from_value(self.process.object()?)?)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.process.kill();
        std::fs::remove_file(&self.log).ok();
    }
}
