//! The checked settings of a node's control.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How a node is controlled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's name, shown on the page.
    pub name: String,
    /// The address on which the API and the page are served; none: not served.
    pub listen: Option<SocketAddr>,
    /// Whether the API and the page are read-only.
    pub read_only: bool,
    /// Names by which browsers may address it, besides addresses and `localhost`.
    pub names: Vec<String>,
    /// How connections are protected.
    pub tls: Tls,
    /// Whether it may listen beyond this machine without TLS or without tokens.
    pub without_protection: bool,
    /// Whether the first run begins at once.
    pub start: Start,
    /// Whether the first run may be an interrupted one that goes on.
    pub resume: bool,
    /// Who starts the first run.
    pub who: String,
    /// Purpose of the first run.
    pub comment: Option<String>,
    /// How long a run may take to end when the program is told to end.
    pub drain: Duration,
    /// The shortest time-out of every device for each step of a run.
    pub device_patience: Duration,
    /// Requests per second that one address may make; five times as many at once.
    pub requests_per_second: f64,
    /// The lost share of the data, 0 to 1, from which on loss is heavy: the verdict is red, and the
    /// alarm about loss is critical.
    pub heavy_loss_share: f64,
    /// The actions of alarms.
    pub actions: Vec<Action>,
}

/// How connections are protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Unprotected.
    #[default]
    Off,
    /// With a self-made certificate.
    SelfMade,
    /// With these files, in PEM.
    Files {
        /// The chain of certificates.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

/// Whether the first run begins at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// At once.
    #[default]
    Auto,
    /// On command.
    Manual,
}

/// An action of an alarm besides being shown and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its name in rules.
    pub name: String,
    /// The action itself.
    pub kind: ActionKind,
    /// How long it may take.
    pub timeout: Duration,
}

/// The kind of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// Starts a program, with the alarm as JSON on its standard input.
    Command(Vec<String>),
    /// Sends the alarm as JSON by POST.
    Webhook(String),
}

impl Settings {
    /// A node that listens there, if anywhere, with defaults for everything else.
    pub fn new(listen: Option<SocketAddr>) -> Self {
        Self {
            name: "catchment".into(),
            listen,
            read_only: false,
            names: Vec::new(),
            tls: Tls::Off,
            without_protection: false,
            start: Start::Auto,
            resume: true,
            who: "catchment".into(),
            comment: None,
            drain: Duration::from_secs(10),
            device_patience: Duration::ZERO,
            requests_per_second: 100.0,
            heavy_loss_share: catchment_watch::HEAVY_LOSS_SHARE,
            actions: Vec::new(),
        }
    }
}
