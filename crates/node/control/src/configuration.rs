//! The parts of a configuration file for a node under control. The command line reads and checks
//! it.

use std::sync::Arc;

use catchment_emulator::{EmulatorConfig, LinkEmulatorConfig};
use catchment_recorder::{AdmittedSource, RecorderConfig};
use catchment_store::StoreConfig;
use catchment_watch::Rule;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The number for the next run, if it is higher than all numbers used.
    pub number: Option<u64>,
    /// How old an interrupted run may be to go on when the program starts, by the last write to its
    /// files; 0: none does.
    pub resume_ns: u64,
    /// The recorder.
    pub recorder: RecorderConfig,
    /// The emulator of its sources, if requested.
    pub emulator: Option<EmulatorConfig>,
    /// The emulator of its links, if requested: links in the recorder's order, from its first on.
    pub link_emulator: Option<LinkEmulatorConfig>,
    /// The storage node that the program is, in place of a recorder.
    pub store: Option<StoreConfig>,
    /// Rules of alarms.
    pub rules: Vec<Rule>,
    /// The contents of `[control]` in comparable form: changes require a restart.
    pub control: String,
}

/// A checked version of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) configuration: Arc<Configuration>,
    /// Its number in the catalogue; none if it has none yet.
    pub(crate) number: Option<u64>,
    pub(crate) text: String,
}

impl Configuration {
    /// That of a storage node. `control` is the contents of `[control]` in comparable form.
    pub fn of_store(store: StoreConfig, rules: Vec<Rule>, control: String) -> Self {
        let folder = store.folders.first().cloned().unwrap_or_default();
        Self {
            number: None,
            resume_ns: 0,
            recorder: RecorderConfig::new(folder, Vec::new()),
            emulator: None,
            link_emulator: None,
            store: Some(store),
            rules,
            control,
        }
    }

    /// Whether anything is emulated: its runs are marked.
    pub(crate) fn emulates(&self) -> bool {
        self.emulator.is_some() || self.link_emulator.is_some()
    }
}

/// An error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationFault {
    /// The message.
    pub message: String,
    /// Line and column, from 1.
    pub position: Option<(usize, usize)>,
}

/// Reads and checks configurations.
pub trait Configure: Send + Sync {
    /// The file's present text.
    ///
    /// # Errors
    /// It cannot be read; the message.
    fn read(&self) -> Result<String, String>;

    /// Checks a text.
    ///
    /// # Errors
    /// The error, with its position.
    fn check(&self, text: &str) -> Result<Configuration, ConfigurationFault>;

    /// The text with a different rate, 0 for the highest, and a different seed of the emulators, so
    /// that a run can be repeated from it.
    ///
    /// # Errors
    /// The text cannot express this; the message.
    fn with_emulator(
        &self,
        _text: &str,
        _rate_hz: Option<f64>,
        _seed: Option<u64>,
    ) -> Result<String, String> {
        Err("what is emulated cannot be changed here".into())
    }

    /// The text with sources of front-ends that were admitted to a run, behind `ADMITTED`.
    ///
    /// # Errors
    /// The text has no such entries; the message.
    fn with_admitted(&self, _text: &str, _sources: &[AdmittedSource]) -> Result<String, String> {
        Err("no front-end is admitted here".into())
    }
}
