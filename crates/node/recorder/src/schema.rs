//! The schema of a run's files.

use catchment_builder::SourceRole;
use catchment_frame::{ChannelInfo, Schema, SourceInfo};
use catchment_model::SourceId;

use crate::config::{ConfigError, RecorderConfig, SourceConfig};
use crate::links::LinkConfig;

/// Sources and columns of the run's files: the sources' events, then the links' channels.
pub(crate) fn schema(config: &RecorderConfig) -> Result<Schema, ConfigError> {
    let refused = |key: &str, error: &dyn std::fmt::Display| ConfigError {
        key: key.into(),
        expected: "what the file format has".into(),
        got: error.to_string(),
    };
    let all_reasons = config.ledger_reasons();
    let reasons = |id: usize| all_reasons[id].iter().map(|&name| name.to_owned()).collect();
    let source = |(id, source): (usize, &SourceConfig)| SourceInfo {
        id: id as u32,
        name: source.name.clone(),
        group: source.group.clone(),
        protocol: source.protocol.name().to_owned(),
        required: source.role == SourceRole::Required,
        malformed_reasons: reasons(id),
        stored: true,
        sparse: source.role == SourceRole::Sparse,
    };
    let sources: Vec<SourceInfo> = config.sources.iter().enumerate().map(source).collect();
    let mut schema = match sources.is_empty() {
        true => Schema::new(Vec::new()),
        false => Schema::events(sources),
    };
    for (id, source) in (0..).map(SourceId).zip(&config.sources) {
        if let Some(payload) = &source.payload {
            schema = schema
                .with_payload_type(id, payload.clone())
                .map_err(|error| refused("sources.payload", &error))?;
        }
    }
    let keeps = |source: &SourceConfig| source.protocol.holes_bytes_max().is_some();
    let with_holes = (0..).map(SourceId).zip(&config.sources).filter(|(_, source)| keeps(source));
    schema = schema.with_holes(with_holes.map(|(id, _)| id));
    if config.is_by_time() {
        schema = by_time(schema, config);
    }
    let has_positions = config.session_addresses().next().is_some();
    // Behind all other columns. A front-end may say what is in groups.
    let may_have_groups = has_positions || config.reference().is_some();
    let has_groups = may_have_groups && !config.is_by_time();
    let with_positions = |schema: Schema| {
        let schema = if has_positions { schema.with_positions() } else { schema };
        let sources = (0..).map(SourceId).zip(&config.sources);
        let unexpected = sources.filter(|(_, source)| has_groups && source.may_be_unexpected());
        schema.with_expected(unexpected.map(|(id, _)| id))
    };
    if config.links.is_empty() {
        return Ok(with_positions(schema));
    }
    let mut channels = Vec::new();
    for (id, link) in (schema.sources.len() as u32..).zip(&config.links) {
        schema.sources.push(SourceInfo {
            id,
            name: link.name.clone(),
            group: link.group.clone(),
            protocol: catchment_wire::link::NAME.to_owned(),
            // Events are complete without this source.
            required: false,
            malformed_reasons: reasons(id as usize),
            stored: true,
            sparse: false,
        });
        channels.extend(channels_of(link, id));
    }
    let schema = schema.with_channels(channels);
    schema.map(with_positions).map_err(|error| refused("links.channels", &error))
}

/// With the columns of events by time.
fn by_time(schema: Schema, config: &RecorderConfig) -> Schema {
    let sources = || (0..).map(SourceId).zip(&config.sources);
    // A row of one fragment expects none of them.
    let is_said = |source: &SourceConfig| match config.has_rows_of_one() {
        true => source.role != SourceRole::Sparse,
        false => config.reference().is_some() && source.may_be_unexpected(),
    };
    let said = sources().filter(|(_, source)| is_said(source));
    let ids = || sources().map(|(id, _)| id);
    let schema = schema.with_times(ids()).with_expected(said.map(|(id, _)| id));
    if config.has_pieces() { schema.with_pieces(ids()) } else { schema }
}

fn channels_of(link: &LinkConfig, source: u32) -> impl Iterator<Item = ChannelInfo> + '_ {
    link.channels.iter().map(move |channel| ChannelInfo {
        shape: channel.shape.clone(),
        time_scale: link.time_scale,
        unit: channel.unit.clone(),
        scale: channel.scale,
        offset: channel.offset,
        source: Some(source),
        ..ChannelInfo::new(channel.name.clone(), channel.dtype, channel.rate)
    })
}
