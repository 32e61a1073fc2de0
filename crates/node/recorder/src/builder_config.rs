//! The builders' part of a recorder's configuration.

use catchment_builder::{
    BuilderConfig, Continues, IncompletePolicy, NUMBER_BITS_MAX, NumberConfig, SourceRole,
};
use catchment_frame::Position;

use crate::beginning::Beginning;
use crate::config::{RecorderConfig, SourceConfig};
use crate::links::LinkConfig;

/// The builder's part of the configuration, whatever the rule.
pub(crate) fn builder_config(config: &RecorderConfig) -> BuilderConfig {
    let segment_bytes = config.segment_bytes();
    BuilderConfig {
        timeout_ns: config.build.timeout_ns,
        edge_ns: config.edge_ns,
        incomplete: config.build.incomplete,
        event_bytes_max: config.event_bytes_max(),
        waiting_bytes_max: (segment_bytes / 4).max(config.two_events_bytes(segment_bytes)),
        parked_max: parked_max(segment_bytes, config.sources.len()),
        frame_bytes: config.event_frame_bytes(),
        frame_time_ns: config.frame.time_ns,
        expected_in: config.sources.iter().map(|source| source.expected_in).collect(),
        pausable: config.sources.iter().map(SourceConfig::is_pausable).collect(),
        promising: config.sources.iter().map(SourceConfig::is_link).collect(),
        positions: config.sources.iter().map(SourceConfig::is_link).collect(),
        ..BuilderConfig::new(config.sources.iter().map(|source| source.role).collect())
    }
}

/// That of the rule by number.
pub(crate) fn number_config(config: &RecorderConfig) -> NumberConfig {
    NumberConfig {
        owned: config.own.clone(),
        number_bits: number_bits(&config.sources),
        reference: config.reference(),
        window_events: config.build.window_events,
        reorder_events: config.build.reorder_events,
        is_admitted: config.sources.iter().all(SourceConfig::is_of_trains),
        ..NumberConfig::default()
    }
}

/// Where the builder goes on: front-ends send again what is behind the last key of theirs.
pub(crate) fn continues(config: &RecorderConfig, beginning: &Beginning) -> Option<Continues> {
    let closed_key = beginning.closed_key()?;
    let key = |(number, source): (u32, &SourceConfig)| {
        let newest = beginning.positions.newest(number, Position::KEY);
        let key = newest.filter(|_| source.is_link())?.position;
        (key <= closed_key).then_some(key)
    };
    Some(Continues { closed_key, sources: (0..).zip(&config.sources).map(key).collect() })
}

/// The bits in which the event numbers of all sources can be compared: those of the shortest.
fn number_bits(sources: &[SourceConfig]) -> u32 {
    let bits = sources.iter().map(|source| source.protocol.number_bits()).min();
    bits.unwrap_or(NUMBER_BITS_MAX).min(NUMBER_BITS_MAX)
}

/// The configuration of the builder of channels, whose keys are slices.
pub(crate) fn link_builder_config(config: &RecorderConfig, beginning: &Beginning) -> BuilderConfig {
    let lanes = config.links.iter().map(|link| link.channels.len()).sum();
    let of_session =
        |link: &LinkConfig| std::iter::repeat_n(link.is_session(), link.channels.len());
    let are_of_session: Vec<bool> = config.links.iter().flat_map(of_session).collect();
    BuilderConfig {
        timeout_ns: config.build.timeout_ns,
        incomplete: IncompletePolicy::Keep,
        waiting_bytes_max: config.link_segment_bytes() / 4,
        parked_max: parked_max(config.link_segment_bytes(), lanes),
        frame_bytes: config.channel_frame_bytes(),
        // Fragments left by a dead link are written, too.
        frame_time_ns: config.frame.duration_ns.saturating_add(config.frame.duration_ns / 4),
        continues: continued_slices(config, beginning, &are_of_session),
        pausable: are_of_session.clone(),
        positions: are_of_session,
        ..BuilderConfig::new(vec![SourceRole::Required; lanes])
    }
}

/// That of their rule, which matches slices by number. The window is at least as long as the memory
/// for waiting fragments lasts.
pub(crate) fn link_number_config(config: &RecorderConfig) -> NumberConfig {
    let slice_ns = config.links.first().map_or(1, |link| link.slice_ns);
    // A link votes on the time, not each of its channels.
    let channels = |(link, one): (u32, &LinkConfig)| std::iter::repeat_n(link, one.channels.len());
    NumberConfig {
        number_bits: crate::slices::SLICE_BITS,
        voters: (0..).zip(&config.links).flat_map(channels).collect(),
        number_back_max: crate::slices::back_max(slice_ns, config.sizes.link_window_slices),
        window_events: config.sizes.link_window_slices,
        reorder_events: LINK_REORDER_SLICES,
        skips_are_losses: true,
        frame_keys_multiple: Some(config.frame_slices()),
        ..NumberConfig::default()
    }
}

/// Where the builder of channels goes on: links of sessions send again what is behind the slices
/// that are in frames, which were closed for all of them alike. Others go on wherever they are, and
/// lack the slices before.
fn continued_slices(
    config: &RecorderConfig,
    beginning: &Beginning,
    are_of_session: &[bool],
) -> Option<Continues> {
    let numbers = config.sources.len() as u32..config.ledger_count() as u32;
    let of_links = numbers.filter_map(|number| beginning.positions.newest(number, Position::KEY));
    let closed = of_links.chain(beginning.positions.newest(0, Position::CLOSED_SLICES));
    let closed_key = closed.map(|closed| closed.position).max()?;
    let sources = are_of_session.iter().map(|is_of_session| is_of_session.then_some(closed_key));
    Some(Continues { closed_key, sources: sources.collect() })
}

/// How many descriptors of one source may be parked: if all sources park at once, their descriptors
/// take a sixteenth of the memory that their payload may take.
fn parked_max(segment_bytes: u64, sources: usize) -> usize {
    let each = segment_bytes / (sources.max(1) as u64 * 1_024);
    each.clamp(1 << 10, 1 << 18) as usize
}

/// How many slices behind its newest one a channel's part may arrive and still be waited for.
const LINK_REORDER_SLICES: u64 = 2;
