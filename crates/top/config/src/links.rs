//! Channel links, typed payload and codec rules: as they are written, and as the recorder wants
//! them.

use catchment_emulator::{EmulatedChannel, EmulatedLink, LinkEmulatorConfig};
use catchment_frame::{
    Codings, ColumnCoding, Dtype, FieldInfo, Pattern, PayloadType, Schema, SchemaError, SourceInfo,
};
use catchment_model::units::{Time, deserialize_text};
use catchment_model::{SampleRate, SourceId, TimeScale};
use catchment_net::Network;
use catchment_recorder::{ChannelConfig, LinkAccess, LinkConfig, slice_ns_default};
use catchment_wire::Transport;
use serde::{Deserialize, Deserializer};

use crate::listen::{ListenLow, check_reach};
use crate::locate::{ConfigFileError, Located};
use crate::low::{Address, Low};
use crate::sources::senders;

/// A link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkLow {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) address: Address,
    #[serde(default)]
    pub(crate) transport: TransportLow,
    pub(crate) from: Option<Vec<Network>>,
    pub(crate) slice: Option<Time>,
    pub(crate) time_scale: Option<TimeScale>,
    /// A named set of channels, before those that are written out.
    pub(crate) preset: Option<String>,
    #[serde(default)]
    pub(crate) channels: Vec<ChannelLow>,
}

/// What carries a link's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TransportLow {
    /// UDP.
    #[default]
    Datagrams,
    /// A session over TCP.
    Session,
}

/// A channel of a link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelLow {
    pub(crate) name: String,
    pub(crate) dtype: String,
    #[serde(deserialize_with = "sample_rate")]
    pub(crate) rate: SampleRate,
    #[serde(default)]
    pub(crate) shape: Vec<u64>,
    #[serde(default)]
    pub(crate) unit: String,
    pub(crate) scale: Option<f64>,
    pub(crate) offset: Option<f64>,
    pub(crate) codec: Option<ColumnCoding>,
}

/// `"16384 Hz"`, `"1/60 Hz"`, or a number of Hz.
fn sample_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SampleRate, D::Error> {
    let expected = "a sample rate such as \"16384 Hz\" or \"1/60 Hz\"";
    deserialize_text(deserializer, expected, |hz| SampleRate::new(u64::try_from(hz).ok()?, 1).ok())
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
    pub(crate) columns: Pattern,
    pub(crate) codec: ColumnCoding,
}

/// The links of a file. All have slices of the same length, so that a length that one link has
/// applies to all.
pub(crate) fn links(located: &Located<'_>, low: &Low) -> Result<Vec<LinkConfig>, ConfigFileError> {
    let links = low.links.iter().enumerate();
    let links = links.map(|(index, link)| one_link(located, index, link, &low.listen));
    let mut links = links.collect::<Result<Vec<_>, _>>()?;
    let given_ns = low.links.iter().find_map(|link| link.slice).map(|slice| slice.0);
    let slice_ns = given_ns.unwrap_or_else(|| slice_ns_default(&links, low.frame.duration_ns));
    for (link, low) in links.iter_mut().zip(&low.links) {
        link.slice_ns = low.slice.map_or(slice_ns, |slice| slice.0);
    }
    Ok(links)
}

/// A link whose slices have no length yet.
fn one_link(
    located: &Located<'_>,
    index: usize,
    low: &LinkLow,
    listen: &[ListenLow],
) -> Result<LinkConfig, ConfigFileError> {
    let path = format!("links[{index}]");
    let mut channels = Vec::new();
    if let Some(preset) = &low.preset {
        let Some(emulated) = catchment_emulator::channel_preset(preset) else {
            let message = format!("expected a preset of channels (ligo-1000), got {preset:?}");
            return Err(located.error(&format!("{path}.preset"), message));
        };
        channels.extend(emulated.into_iter().map(|channel| ChannelConfig {
            unit: channel.unit,
            ..ChannelConfig::new(channel.name, channel.dtype, channel.rate)
        }));
    }
    for (number, channel) in low.channels.iter().enumerate() {
        let path = format!("{path}.channels[{number}]");
        let dtype = number_dtype(located, &format!("{path}.dtype"), &channel.dtype)?;
        channels.push(ChannelConfig {
            shape: channel.shape.clone(),
            unit: channel.unit.clone(),
            scale: channel.scale,
            offset: channel.offset,
            ..ChannelConfig::new(channel.name.clone(), dtype, channel.rate)
        });
    }
    let mut link = LinkConfig::new(low.name.clone(), low.address.0, channels);
    if low.transport == TransportLow::Session {
        link.transport = Transport::Sessions;
        let access = listen.first().map_or_else(LinkAccess::default, ListenLow::access);
        check_reach(located, &format!("{path}.address"), low.address.0, &access)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        if !link.name.bytes().all(is_name) || link.name.len() > 64 {
            let expected = "at most 64 letters, digits and -_.:/ with transport = \"session\"";
            return Err(located.expected(&format!("{path}.name"), expected, &link.name));
        }
    }
    link.from = senders(located, &path, low.from.as_deref())?;
    link.group = low.group.clone().unwrap_or_else(|| "links".into());
    link.time_scale = low.time_scale.unwrap_or(link.time_scale);
    Ok(link)
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
        stored: true,
        sparse: false,
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
        let session = link.is_session().then(|| link.name.clone());
        config.links.push(EmulatedLink { number, target: link.address, session, channels });
    }
    config.make_room();
    config
}

/// The rules for codecs: those of single sources and channels last, so that they apply.
pub(crate) fn codings(low: &Low) -> Codings {
    let patterns = low.codecs.iter().map(|one| (one.columns.clone(), one.codec));
    let own = |name: &str, codec: Option<ColumnCoding>| Some((Pattern::name(name), codec?));
    let sources = low.sources.iter().filter_map(|one| own(&one.name, one.codec));
    let channels = low.links.iter().flat_map(|link| &link.channels);
    let channels = channels.filter_map(|one| own(&one.name, one.codec));
    let rules = patterns.chain(sources).chain(channels);
    let default = low.frame.codings.clone();
    rules.fold(default, |all, (pattern, codec)| all.with(pattern, codec))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use catchment_wire::Transport;

    use crate::check;

    #[test]
    fn a_link_says_what_carries_its_packets() {
        let file = |more: &str, listen: &str| {
            format!(
                "[[links]]\nname = \"magnets\"\n{more}\n[[links.channels]]\nname = \"B\"\n\
                 dtype = \"f32\"\nrate = \"1 kHz\"\n{listen}"
            )
        };
        let transport = |more: &str, listen: &str| {
            let high = check(Path::new("run.toml"), &file(more, listen));
            high.map(|high| high.recorder.links[0].transport).map_err(|error| error.to_string())
        };
        let (own, open) = ("address = \"127.0.0.1:1\"", "address = \"0.0.0.0:1\"");
        let session = |address: &str| format!("{address}\ntransport = \"session\"");
        assert_eq!(transport(own, ""), Ok(Transport::Datagrams));
        assert_eq!(transport(&session(own), ""), Ok(Transport::Sessions));
        let protected = "[[listen]]\ntls = true\ntokens = true";
        assert_eq!(transport(&session(open), protected), Ok(Transport::Sessions));
        let refused = transport(&session(open), "").unwrap_err();
        assert!(refused.contains("links[0].address: expected a loopback address"), "{refused}");
        let refused = transport(&format!("{own}\ntransport = \"tcp\""), "").unwrap_err();
        assert!(refused.ends_with("\"tcp\" (known here: datagrams, session)"), "{refused}");
    }
}
