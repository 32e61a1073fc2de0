//! How a node is controlled, checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How a node is controlled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's name, shown on the page.
    pub name: String,
    /// Where the API and the page are served; without it nowhere.
    pub listen: Option<SocketAddr>,
    /// Whether the API and the page are for looking only: nothing can be changed by them.
    pub read_only: bool,
    /// Names by which browsers may call it, beside addresses and `localhost`.
    pub names: Vec<String>,
    /// How connections are protected.
    pub tls: Tls,
    /// Whether it may listen beyond this machine without TLS or without tokens.
    pub without_protection: bool,
    /// Whether the first run begins at once.
    pub start: Start,
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
    /// From this share of the data on, 0 to 1, loss is heavy: the verdict is red, and the alarm
    /// about loss is critical.
    pub heavy_loss_share: f64,
    /// What alarms do.
    pub actions: Vec<Action>,
}

/// How connections are protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Not.
    #[default]
    Off,
    /// By a certificate that the node makes for itself.
    SelfMade,
    /// By these, in PEM.
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
    /// Yes.
    #[default]
    Auto,
    /// On command.
    Manual,
}

/// What an alarm does beside being shown and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The name that rules use.
    pub name: String,
    /// What it does.
    pub kind: ActionKind,
    /// How long it may take.
    pub timeout: Duration,
}

/// What an action does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// Starts a program, with the alarm as JSON on its standard input.
    Command(Vec<String>),
    /// Sends the alarm as JSON by POST.
    Webhook(String),
}

impl Settings {
    /// A node that listens there, if anywhere, with everything else as it is by default.
    pub fn new(listen: Option<SocketAddr>) -> Self {
        Self {
            name: "catchment".into(),
            listen,
            read_only: false,
            names: Vec::new(),
            tls: Tls::Off,
            without_protection: false,
            start: Start::Auto,
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
