//! The tree of devices.

use serde::Serialize;
use utoipa::ToSchema;

/// All devices, flat, parents before children.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct DeviceList {
    /// Them.
    pub devices: Vec<Device>,
}

/// A device.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Device {
    /// Where it stands in the tree.
    pub path: String,
    /// What it is.
    pub kind: String,
    /// idle, configured, armed, recording, paused, safe or fault.
    pub state: String,
    /// Why it is in safe or fault.
    pub reason: Option<String>,
    /// The commands that it takes now.
    pub commands: Vec<String>,
    /// Its properties and their values.
    #[schema(value_type = Object)]
    pub properties: serde_json::Map<String, serde_json::Value>,
    /// Where their JSON Schema is.
    pub schema: String,
}
