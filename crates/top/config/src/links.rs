//! Channel links, typed payload and codec rules: as they are written, and as the recorder wants
//! them.

use catchment_emulator::{EmulatedChannel, EmulatedLink, LinkEmulatorConfig};
use catchment_frame::{
    Codings, ColumnCoding, Dtype, FieldInfo, Pattern, PayloadType, Schema, SchemaError, SourceInfo,
};
use catchment_model::{SampleRate, SourceId, TimeScale};
use catchment_recorder::{ChannelConfig, LinkConfig, slice_ns_default};
use serde::Deserialize;

use crate::locate::{ConfigFileError, Located};
use crate::low::{Address, CodecLow, Low, PatternLow, Sender, Time};
use crate::sources::senders;

/// A link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkLow {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) address: Address,
    pub(crate) from: Option<Vec<Sender>>,
    pub(crate) slice: Option<Time>,
    pub(crate) time_scale: Option<TimeScale>,
    /// A named set of channels, before those that are written out.
    pub(crate) preset: Option<String>,
    #[serde(default)]
    pub(crate) channels: Vec<ChannelLow>,
}

/// A channel of a link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelLow {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) rate: RateLow,
    #[serde(default)]
    pub(crate) shape: Vec<u64>,
    #[serde(default)]
    pub(crate) unit: String,
    pub(crate) scale: Option<f64>,
    pub(crate) offset: Option<f64>,
    pub(crate) codec: Option<CodecLow>,
}

/// `"16384 Hz"`, `"1/60 Hz"`, or a number of Hz.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateLow(pub(crate) SampleRate);

impl std::str::FromStr for RateLow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: catchment_model::RateError| error.to_string())
    }
}

impl RateLow {
    /// So many Hz.
    pub(crate) fn of_hz(hz: i64) -> Option<Self> {
        SampleRate::new(u64::try_from(hz).ok()?, 1).ok().map(Self)
    }
}

/// The type of a source's payload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PayloadLow {
    pub(crate) dtype: String,
    #[serde(default)]
    pub(crate) shape: Vec<u64>,
    #[serde(default)]
    pub(crate) skip: u32,
    #[serde(default)]
    pub(crate) record_bytes: u32,
    #[serde(default)]
    pub(crate) fields: Vec<FieldLow>,
}

/// A field of a record.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldLow {
    pub(crate) name: String,
    pub(crate) dtype: String,
    #[serde(default)]
    pub(crate) shape: Vec<u64>,
    pub(crate) offset: u64,
}

/// A codec for the columns whose names fit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodecRuleLow {
    pub(crate) columns: PatternLow,
    pub(crate) codec: CodecLow,
}

/// The links of a file, each channel checked where it is written.
pub(crate) fn links(located: &Located<'_>, low: &Low) -> Result<Vec<LinkConfig>, ConfigFileError> {
    let all = low.links.iter().enumerate();
    let all: Result<Vec<_>, _> = all.map(|(index, link)| one_link(located, index, link)).collect();
    let (mut links, origins): (Vec<LinkConfig>, Vec<_>) = all?.into_iter().unzip();
    // All links have slices of the same length, so that one that is said is said for all.
    let given_ns = low.links.iter().find_map(|link| link.slice).map(|slice| slice.0);
    let slice_ns =
        given_ns.unwrap_or_else(|| slice_ns_default(&links, crate::frame(low).duration_ns));
    for ((link, low), origins) in links.iter_mut().zip(&low.links).zip(&origins) {
        link.slice_ns = low.slice.map_or(slice_ns, |slice| slice.0);
        check_channels(located, link, origins)?;
    }
    Ok(links)
}

/// A link whose slices have no length yet, and where each of its channels is written.
fn one_link(
    located: &Located<'_>,
    index: usize,
    low: &LinkLow,
) -> Result<(LinkConfig, Vec<String>), ConfigFileError> {
    let path = format!("links[{index}]");
    let mut channels = Vec::new();
    let mut origins = Vec::new();
    if let Some(preset) = &low.preset {
        let Some(emulated) = catchment_emulator::channel_preset(preset) else {
            let message = format!("expected a preset of channels (ligo-1000), got {preset:?}");
            return Err(located.error(&format!("{path}.preset"), message));
        };
        origins.resize(emulated.len(), format!("{path}.preset"));
        channels.extend(emulated.into_iter().map(|channel| ChannelConfig {
            unit: channel.unit,
            ..ChannelConfig::new(channel.name, channel.dtype, channel.rate)
        }));
    }
    for (number, channel) in low.channels.iter().enumerate() {
        let path = format!("{path}.channels[{number}]");
        let dtype = number_dtype(located, &format!("{path}.dtype"), &channel.dtype)?;
        origins.push(path);
        channels.push(ChannelConfig {
            shape: channel.shape.clone(),
            unit: channel.unit.clone(),
            scale: channel.scale,
            offset: channel.offset,
            ..ChannelConfig::new(channel.name.clone(), dtype, channel.rate.0)
        });
    }
    let mut link = LinkConfig::new(low.name.clone(), low.address.0, channels);
    link.from = senders(located, &path, low.from.as_deref(), low.address.0)?;
    link.group = low.group.clone().unwrap_or_else(|| "links".into());
    link.time_scale = low.time_scale.unwrap_or(link.time_scale);
    Ok((link, origins))
}

fn check_channels(
    located: &Located<'_>,
    link: &LinkConfig,
    origins: &[String],
) -> Result<(), ConfigFileError> {
    for (channel, origin) in link.channels.iter().zip(origins) {
        if let Err(error) = channel.check(link.slice_ns) {
            let key = error.key.rsplit('.').next().unwrap_or_default();
            // A preset's channel is not written in the file.
            let path = match origin.ends_with(".preset") {
                true => origin.clone(),
                false => format!("{origin}.{key}"),
            };
            let message = format!("expected {}, got {}", error.expected, error.got);
            return Err(located.error(&path, message));
        }
    }
    Ok(())
}

/// A type of numbers, by its name.
fn number_dtype(located: &Located<'_>, path: &str, name: &str) -> Result<Dtype, ConfigFileError> {
    let dtype = Dtype::from_name(name);
    if matches!(dtype, Dtype::Opaque | Dtype::Bits | Dtype::Record | Dtype::Unknown(_)) {
        let message = format!("expected u8 to u64, i8 to i64, f32, f64, c64 or c128, got {name:?}");
        return Err(located.error(path, message));
    }
    Ok(dtype)
}

/// The type of a source's payload; `path` is that of its table.
pub(crate) fn payload(
    located: &Located<'_>,
    path: &str,
    low: &PayloadLow,
) -> Result<PayloadType, ConfigFileError> {
    let dtype = match low.dtype.as_str() {
        "record" => Dtype::Record,
        name => number_dtype(located, &format!("{path}.dtype"), name)?,
    };
    let mut fields = Vec::new();
    for (index, field) in low.fields.iter().enumerate() {
        let field_path = format!("{path}.fields[{index}].dtype");
        fields.push(FieldInfo {
            name: field.name.clone(),
            dtype: number_dtype(located, &field_path, &field.dtype)?,
            shape: field.shape.clone(),
            offset: field.offset,
        });
    }
    let (shape, skip, record_bytes) = (low.shape.clone(), low.skip, low.record_bytes);
    let payload = PayloadType { dtype, shape, skip, record_bytes, fields };
    // The format's own rules, asked of a schema with this source alone.
    let source = SourceInfo {
        id: 0,
        name: "source".into(),
        group: String::new(),
        protocol: String::new(),
        required: true,
        malformed_reasons: Vec::new(),
    };
    match Schema::events(vec![source]).with_payload_type(SourceId(0), payload.clone()) {
        Ok(_) => Ok(payload),
        Err(SchemaError::ColumnKey { key, expected, .. }) => {
            // The format has the file's names for its keys, but for one.
            let key = if key == "fragment_shape" { "shape" } else { key };
            Err(located.error(&format!("{path}.{key}"), format!("expected it to be {expected}")))
        }
        Err(error) => Err(located.error(path, error)),
    }
}

/// An emulator of what these links receive.
pub fn emulated(links: &[LinkConfig]) -> LinkEmulatorConfig {
    let mut config = LinkEmulatorConfig::default();
    for (number, link) in (0..).zip(links) {
        config.slice_ns = link.slice_ns;
        config.time_scale = link.time_scale;
        let first = config.channels.len() as u32;
        for channel in &link.channels {
            config.channels.push(EmulatedChannel {
                name: channel.name.clone(),
                dtype: channel.dtype,
                shape: channel.shape.clone(),
                rate: channel.rate,
                unit: channel.unit.clone(),
            });
        }
        let channels = (first..config.channels.len() as u32).collect();
        config.links.push(EmulatedLink { number, target: link.address, channels });
    }
    config.make_room();
    config
}

/// The rules for codecs: those of single sources and channels last, so that they apply.
pub(crate) fn codings(low: &Low, default: ColumnCoding) -> Codings {
    let patterns = low.codecs.iter().map(|one| (one.columns.0.clone(), one.codec));
    let own = |name: &str, codec: Option<CodecLow>| Some((Pattern::name(name), codec?));
    let sources = low.sources.iter().filter_map(|one| own(&one.name, one.codec));
    let channels = low.links.iter().flat_map(|link| &link.channels);
    let channels = channels.filter_map(|one| own(&one.name, one.codec));
    let default = low.frame.codec.map_or(default, |codec| codec.0);
    let rules = patterns.chain(sources).chain(channels);
    rules.fold(Codings::new(default), |all, (pattern, codec)| all.with(pattern, codec.0))
}
