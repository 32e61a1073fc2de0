//! The configuration as it is written: every key that a file may have, none required here.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use catchment_frame::{ColumnCoding, Pattern, PatternError, UnknownColumnCoding};
use catchment_model::units::{parse_bytes, parse_duration_ns};
use catchment_net::Network;
use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::control::{ActionLow, AlarmLow, ControlLow};
use crate::links::{CodecRuleLow, LinkLow, PayloadLow, RateLow};

/// A file.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Low {
    pub(crate) run: RunLow,
    pub(crate) memory: MemoryLow,
    pub(crate) receive: ReceiveLow,
    pub(crate) build: BuildLow,
    pub(crate) frame: FrameLow,
    pub(crate) write: WriteLow,
    pub(crate) encode: EncodeLow,
    pub(crate) codecs: Vec<CodecRuleLow>,
    pub(crate) trends: TrendsLow,
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
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MemoryLow {
    pub(crate) budget: Option<Size>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReceiveLow {
    pub(crate) threads: Option<usize>,
    pub(crate) link_threads: Option<usize>,
    pub(crate) cpus: Option<Vec<usize>>,
    pub(crate) spin: Option<Time>,
    pub(crate) coalesce: Option<Time>,
    pub(crate) socket_buffer: Option<Size>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BuildLow {
    pub(crate) timeout: Option<Time>,
    pub(crate) window_events: Option<u64>,
    pub(crate) reorder_events: Option<u64>,
    pub(crate) incomplete: Option<Incomplete>,
    pub(crate) cpu: Option<usize>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Incomplete {
    Keep,
    Drop,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FrameLow {
    pub(crate) bytes: Option<Size>,
    pub(crate) time: Option<Time>,
    pub(crate) duration: Option<Time>,
    pub(crate) channel_bytes: Option<Size>,
    pub(crate) codec: Option<CodecLow>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EncodeLow {
    pub(crate) threads: Option<usize>,
    pub(crate) bytes: Option<Size>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrendsLow {
    pub(crate) enabled: Option<bool>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WriteLow {
    pub(crate) file_bytes: Option<Size>,
    pub(crate) file_time: Option<Time>,
    pub(crate) sync_interval: Option<Time>,
    pub(crate) engine: Option<EngineLow>,
    pub(crate) buffer_bytes: Option<Size>,
    pub(crate) buffer_count: Option<usize>,
    pub(crate) preallocate_bytes: Option<Size>,
    pub(crate) cpu: Option<usize>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EngineLow {
    Auto,
    Uring,
    Portable,
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RoleLow {
    #[default]
    Required,
    Optional,
    Disabled,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceLow {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) address: Address,
    pub(crate) from: Option<Vec<Sender>>,
    pub(crate) protocol: Option<String>,
    pub(crate) fragment_bytes_max: Option<Size>,
    pub(crate) sub_event_id: Option<u32>,
    #[serde(default)]
    pub(crate) role: RoleLow,
    pub(crate) payload: Option<PayloadLow>,
    pub(crate) codec: Option<CodecLow>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceGroupLow {
    pub(crate) group: String,
    pub(crate) count: u32,
    pub(crate) address: Address,
    pub(crate) from: Option<Vec<Sender>>,
    pub(crate) protocol: Option<String>,
    pub(crate) fragment_bytes_max: Option<Size>,
    pub(crate) first_sub_event_id: Option<u32>,
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) role: RoleLow,
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
    pub(crate) sizes: Vec<SizesLow>,
    pub(crate) faults: FaultsLow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) enum Preset {
    #[serde(rename = "hades-90")]
    Hades90,
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

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SizesLow {
    pub(crate) group: String,
    pub(crate) mean: Size,
    pub(crate) sigma: Option<f64>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FaultsLow {
    pub(crate) lose: f64,
    pub(crate) duplicate: f64,
    pub(crate) reorder: f64,
    pub(crate) corrupt: f64,
    pub(crate) kill: Option<SourceEvent>,
    pub(crate) restart: Option<SourceEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceEvent {
    pub(crate) source: u32,
    pub(crate) event: u64,
}

/// Bytes: `"32 MiB"` or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// How columns are encoded: `"none"`, `"lz4"` and so on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CodecLow(pub(crate) ColumnCoding);

/// Names of sources and channels: `"L1:FAST-*"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PatternLow(pub(crate) Pattern);

/// Nanoseconds: `"1 s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

/// Events per second: `"4 kHz"`, a number of Hz, or `"max"` (none).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub Option<f64>);

/// An IP address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// A network that a source may send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender(pub(crate) Network);

impl std::str::FromStr for Sender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: catchment_net::NetError| error.to_string())
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(Self).map_err(|error| error.to_string())
    }
}

impl std::str::FromStr for CodecLow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: UnknownColumnCoding| error.to_string())
    }
}

impl std::str::FromStr for PatternLow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: PatternError| error.to_string())
    }
}

impl std::str::FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration_ns(text).map(Self).map_err(|error| error.to_string())
    }
}

/// In the largest unit in which it is a whole number: `20 ms`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 5] = [
            ("h", 3_600_000_000_000),
            ("min", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1_000),
        ];
        let whole = UNITS.iter().find(|(_, ns)| self.0 > 0 && self.0.is_multiple_of(*ns));
        let (unit, ns) = *whole.unwrap_or(&("ns", 1));
        write!(f, "{} {unit}", self.0 / ns)
    }
}

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

macro_rules! from_text {
    ($type:ident, $expected:literal, integer: $integer:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$type, E> {
                        let convert: fn(i64) -> Option<$type> = $integer;
                        convert(number)
                            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }
    };
}

from_text!(Size, "a size such as \"32 MiB\", or a number of bytes", integer: |bytes| {
    u64::try_from(bytes).ok().map(Size)
});
from_text!(CodecLow, "a codec such as \"lz4\"", integer: |_| None);
from_text!(PatternLow, "a pattern of names such as \"L1:FAST-*\"", integer: |_| None);
from_text!(Time, "a duration with its unit, such as \"500 ms\"", integer: |_| None);
from_text!(Rate, "a rate such as \"4 kHz\", a number of Hz, or \"max\"", integer: |hz| {
    let rate = Rate(Some(hz as f64));
    (1..=1_000_000_000).contains(&hz).then_some(rate)
});
from_text!(RateLow, "a sample rate such as \"16384 Hz\" or \"1/60 Hz\"", integer: RateLow::of_hz);
from_text!(Sender, "a network such as \"10.1.0.0/16\" or an IP address", integer: |_| None);
from_text!(Address, "an IP address and a port such as \"127.0.0.1:50000\"", integer: |_| None);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_are_read_and_shown_as_people_write_them() {
        for (text, hz) in [("4kHz", 4e3), ("4 kHz", 4e3), ("4000", 4e3), ("0.5 MHz", 5e5)] {
            assert_eq!(text.parse(), Ok(Rate(Some(hz))), "{text}");
        }
        let times = [0, 1_500, 20_000_000, 90_000_000_000, 7_200_000_000_000];
        let shown = times.map(|ns| Time(ns).to_string());
        assert_eq!(shown, ["0 ns", "1500 ns", "20 ms", "90 s", "2 h"]);
        assert_eq!("max".parse(), Ok(Rate(None)));
        for bad in ["", "kHz", "-1", "0", "NaN", "inf", "4 khz", "1e300"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad:?}");
        }
    }
}
