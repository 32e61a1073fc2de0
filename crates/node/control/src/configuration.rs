//! What a configuration file says, as far as a node under control needs it. Reading and checking it is
//! the command line's.

use catchment_emulator::EmulatorConfig;
use catchment_recorder::RecorderConfig;
use catchment_watch::Rule;

/// A configuration that was checked.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The number that the next run is to have, if it is higher than all that were given.
    pub number: Option<u64>,
    /// The recorder.
    pub recorder: RecorderConfig,
    /// The emulator of its sources, if it has one.
    pub emulator: Option<EmulatorConfig>,
    /// Rules of alarms.
    pub rules: Vec<Rule>,
    /// What `[control]` says, in a form that can be compared: changes need a new start.
    pub control: String,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationFault {
    /// In words.
    pub message: String,
    /// Line and column, from 1.
    pub place: Option<(usize, usize)>,
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
}
