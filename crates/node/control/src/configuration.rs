//! What a configuration file says, as far as a node under control needs it. Reading and checking it
//! is the command line's.

use catchment_emulator::{EmulatorConfig, LinkEmulatorConfig};
use catchment_recorder::RecorderConfig;
use catchment_watch::Rule;

/// A configuration that was checked.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The number that the next run is to have, if it is higher than all that were given.
    pub number: Option<u64>,
    /// The recorder.
    pub recorder: RecorderConfig,
    /// The emulator of its sources, if it is asked for.
    pub emulator: Option<EmulatorConfig>,
    /// The emulator of its links, if it is asked for: links in the recorder's order, from its first
    /// on.
    pub link_emulator: Option<LinkEmulatorConfig>,
    /// Rules of alarms.
    pub rules: Vec<Rule>,
    /// What `[control]` says, in a form that can be compared: changes need a new start.
    pub control: String,
}

impl Configuration {
    /// Whether anything is emulated: its runs say so.
    pub(crate) fn emulates(&self) -> bool {
        self.emulator.is_some() || self.link_emulator.is_some()
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationFault {
    /// In words.
    pub message: String,
    /// Line and column, from 1.
    pub position: Option<(usize, usize)>,
}

/// Reads and checks configurations.
pub trait Configure: Send + Sync {
    /// The file's text now.
    ///
    /// # Errors
    /// It cannot be read, in words.
    fn read(&self) -> Result<String, String>;

    /// Checks a text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    fn check(&self, text: &str) -> Result<Configuration, ConfigurationFault>;

    /// The text with another rate, 0 for the highest, and another seed of what is emulated, so that
    /// a run can be repeated from it.
    ///
    /// # Errors
    /// This cannot be said in the text, in words.
    fn with_emulator(
        &self,
        _text: &str,
        _rate_hz: Option<f64>,
        _seed: Option<u64>,
    ) -> Result<String, String> {
        Err("what is emulated cannot be changed here".into())
    }
}
