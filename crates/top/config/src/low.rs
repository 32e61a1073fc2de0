//! The configuration as it is written, where it is not read straight into the types of the recorder
//! and of the emulator: groups, presets, and tables that become several values, or a part of one.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use catchment_builder::SourceRole;
use catchment_emulator::{Clocks, EmulatedSource, Faults};
use catchment_frame::ColumnCoding;
use catchment_model::units::{Offset, Size, Time, deserialize_text};
use catchment_net::Network;
use catchment_recorder::{BuildConfig, EncodeConfig, FrameConfig, ReceiveConfig, WriteConfig};
use catchment_wire::hadtu::ByteOrder;
use serde::de::{Deserialize, Deserializer};

use crate::accept::AcceptLow;
use crate::control::{ActionLow, AlarmLow, ControlLow};
use crate::layouts::{LayoutLow, LayoutNames};
use crate::links::{CodecRuleLow, LinkLow, PayloadLow};
use crate::listen::ListenLow;
use crate::store::StoreLow;
use crate::targets::TargetLow;
use crate::trains::TrainsLow;

/// A file.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Low {
    pub(crate) run: RunLow,
    pub(crate) memory: MemoryLow,
    pub(crate) receive: ReceiveConfig,
    pub(crate) build: BuildConfig,
    pub(crate) frame: FrameConfig,
    pub(crate) write: WriteConfig,
    pub(crate) encode: EncodeConfig,
    pub(crate) codecs: Vec<CodecRuleLow>,
    pub(crate) trends: TrendsLow,
    pub(crate) targets: Vec<TargetLow>,
    pub(crate) store: Option<StoreLow>,
    pub(crate) listen: Vec<ListenLow>,
    pub(crate) accept: Vec<AcceptLow>,
    pub(crate) trains: TrainsLow,
    pub(crate) layouts: Vec<LayoutLow>,
    pub(crate) sources: Vec<SourceLow>,
    pub(crate) source_groups: Vec<SourceGroupLow>,
    pub(crate) links: Vec<LinkLow>,
    pub(crate) emulator: Option<EmulatorLow>,
    pub(crate) control: Option<ControlLow>,
    pub(crate) alarms: Vec<AlarmLow>,
    pub(crate) actions: Vec<ActionLow>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunLow {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) number: Option<u64>,
    pub(crate) id: Option<String>,
    pub(crate) timer: Option<Address>,
    pub(crate) stream: Option<u32>,
    pub(crate) resume: Option<Time>,
    pub(crate) edge: Option<Time>,
    pub(crate) own: OwnLow,
}

/// Which events a node builds, where several share those of a run.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OwnLow {
    pub(crate) modulo: u32,
    pub(crate) remainder: u32,
}

impl Default for OwnLow {
    fn default() -> Self {
        Self { modulo: 1, remainder: 0 }
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MemoryLow {
    pub(crate) budget: Option<Size>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrendsLow {
    pub(crate) enabled: Option<bool>,
}

/// How a source that has no address of its own is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ViaLow {
    Link,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceLow {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) via: Option<ViaLow>,
    pub(crate) address: Option<Address>,
    pub(crate) from: Option<Vec<Network>>,
    pub(crate) protocol: Option<String>,
    pub(crate) layout: Option<LayoutNames>,
    pub(crate) fragment_bytes_max: Option<Size>,
    pub(crate) sub_event_id: Option<u32>,
    #[serde(default)]
    pub(crate) role: SourceRole,
    #[serde(default)]
    pub(crate) expected_in: Vec<u32>,
    pub(crate) time_offset: Option<Offset>,
    pub(crate) reorder: Option<Time>,
    pub(crate) lag: Option<Time>,
    pub(crate) payload: Option<PayloadLow>,
    pub(crate) codec: Option<ColumnCoding>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceGroupLow {
    pub(crate) group: String,
    pub(crate) count: u32,
    pub(crate) via: Option<ViaLow>,
    pub(crate) address: Option<Address>,
    pub(crate) from: Option<Vec<Network>>,
    pub(crate) protocol: Option<String>,
    pub(crate) layout: Option<LayoutNames>,
    pub(crate) fragment_bytes_max: Option<Size>,
    pub(crate) first_sub_event_id: Option<u32>,
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) role: SourceRole,
    #[serde(default)]
    pub(crate) expected_in: Vec<u32>,
    pub(crate) time_offset: Option<Offset>,
    pub(crate) reorder: Option<Time>,
    pub(crate) lag: Option<Time>,
    pub(crate) payload: Option<PayloadLow>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EmulatorLow {
    pub(crate) preset: Option<Preset>,
    pub(crate) seed: Option<u64>,
    pub(crate) rate: Option<Rate>,
    pub(crate) water_mark: Option<Size>,
    pub(crate) huge_every: Option<u64>,
    pub(crate) huge_bytes: Option<Size>,
    pub(crate) equal_bursts: Option<u32>,
    pub(crate) first_event: Option<u64>,
    pub(crate) events: Option<u64>,
    pub(crate) byte_order: Option<ByteOrderLow>,
    pub(crate) cpu: Option<usize>,
    /// Of the sources of a group.
    pub(crate) sizes: Vec<EmulatedSource>,
    pub(crate) faults: Faults,
    pub(crate) clocks: Clocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) enum Preset {
    #[serde(rename = "hades-90")]
    Hades90,
    #[serde(rename = "alpha-72")]
    Alpha72,
    /// The links, with whatever channels they have.
    #[serde(rename = "ligo-1000")]
    Ligo1000,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ByteOrderLow {
    Little,
    Big,
}

impl From<ByteOrderLow> for ByteOrder {
    fn from(low: ByteOrderLow) -> Self {
        match low {
            ByteOrderLow::Little => Self::Little,
            ByteOrderLow::Big => Self::Big,
        }
    }
}

/// Events per second: `"4 kHz"`, a number of Hz, or `"max"` (none).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub Option<f64>);

/// An IP address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        if trimmed == "max" {
            return Ok(Self(None));
        }
        let (number, scale) = [("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0), ("", 1.0)]
            .into_iter()
            .find_map(|(unit, scale)| Some((trimmed.strip_suffix(unit)?, scale)))
            .expect("every text ends with nothing");
        match number.trim().parse::<f64>() {
            Ok(value) if (1e-3..=1e9).contains(&(value * scale)) => Ok(Self(Some(value * scale))),
            _ => Err(format!("expected a rate such as \"4 kHz\", or \"max\", got {text:?}")),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("max"),
            Some(hz) => write!(f, "{} Hz", hz),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            format!("expected an IP address and a port such as \"127.0.0.1:50000\", got {text:?}")
        })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a rate such as \"4 kHz\", a number of Hz, or \"max\"";
        deserialize_text(deserializer, expected, |hz| {
            (1..=1_000_000_000).contains(&hz).then_some(Self(Some(hz as f64)))
        })
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "an IP address and a port such as \"127.0.0.1:50000\"";
        deserialize_text(deserializer, expected, |_| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, hz) in [("4kHz", 4e3), ("4 kHz", 4e3), ("4000", 4e3), ("0.5 MHz", 5e5)] {
            assert_eq!(text.parse(), Ok(Rate(Some(hz))), "{text}");
        }
        assert_eq!("max".parse(), Ok(Rate(None)));
        for bad in ["", "kHz", "-1", "0", "NaN", "inf", "4 khz", "1e300"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad:?}");
        }
    }
}
