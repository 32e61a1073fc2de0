//! The run that is open, as the node shows it.

use std::net::SocketAddr;
use std::path::PathBuf;

use catchment_recorder::{Observer, Recorder};
use catchment_telemetry::utc_now;

/// The run that is open.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    pub(crate) observer: Observer,
    pub(crate) number: u64,
    pub(crate) id: String,
    pub(crate) folder: PathBuf,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) granted_bytes_min: usize,
    /// How often it went on after its recorder's death.
    pub(crate) epoch: u32,
    pub(crate) started_ns: u64,
    /// Since when this program records it: later than it was started if it went on after a death.
    pub(crate) recorded_since_ns: u64,
    pub(crate) who: String,
    pub(crate) comment: String,
    /// Whether its data are emulated.
    pub(crate) emulated: bool,
    /// Whether it is being ended: nothing is received any more.
    pub(crate) ending: bool,
    /// Whether it has ended.
    pub(crate) ended: bool,
}

impl Active {
    /// A run that begins now.
    pub(crate) fn of(recorder: &Recorder, number: u64) -> Self {
        // Sources of connections share no buffer that is asked for at the start.
        let granted = recorder.granted_socket_bytes().iter().copied().filter(|&bytes| bytes > 0);
        let now_ns = utc_now().0;
        Self {
            observer: recorder.observer(),
            number,
            id: recorder.run().to_string(),
            folder: recorder.folder().to_owned(),
            addresses: recorder.addresses().to_vec(),
            granted_bytes_min: granted.min().unwrap_or(0),
            epoch: recorder.epoch(),
            started_ns: now_ns,
            recorded_since_ns: now_ns,
            who: String::new(),
            comment: String::new(),
            emulated: false,
            ending: false,
            ended: false,
        }
    }
}
