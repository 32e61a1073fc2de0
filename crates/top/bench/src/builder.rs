//! The builder alone: descriptors in, frames out, no sockets and no payload.

use std::time::{Duration, Instant};

use catchment_builder::{Builder, BuilderConfig, Discard, Fragment, NumberConfig, SourceRole};
use serde::Serialize;

/// What the builder did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Built {
    pub(crate) sources: usize,
    pub(crate) fragments: u64,
    pub(crate) fragments_per_second: f64,
    pub(crate) nanoseconds_per_fragment: f64,
    /// Every event came out complete.
    pub(crate) whole: bool,
}

/// Builds about that many fragments of 260 bytes, which arrive in runs of 64 per source as receive
/// threads deliver them. Only the builder's own time counts.
pub(crate) fn measure(source_count: usize, fragments_wanted: u64) -> anyhow::Result<Built> {
    let config = BuilderConfig::new(vec![SourceRole::Required; source_count]);
    let mut builder = Builder::new(&config, &NumberConfig::default())?;
    let rounds = fragments_wanted.div_ceil(RUN_EVENTS * source_count as u64);
    let mut spent = Duration::ZERO;
    let mut discarded: Vec<Discard> = Vec::new();
    let (mut rows, mut reuse, mut counted) = (0, None, 0);
    let mut batch = Vec::with_capacity(RUN_EVENTS as usize * source_count);
    for round in 0..=rounds {
        batch.clear();
        for source in (0..source_count as u32).take(if round < rounds { source_count } else { 0 }) {
            batch.extend((0..RUN_EVENTS).map(|row| {
                let event = round * RUN_EVENTS + row;
                Fragment::new(source, event & 0x00ff_ffff, event * 260, 260)
            }));
        }
        let now_ns = round * 1_000_000;
        let start = Instant::now();
        builder.push(now_ns, &batch);
        builder.poll(now_ns);
        if round == rounds {
            builder.finish(now_ns);
        }
        while let Some(cut) = builder.cut(now_ns, reuse.take()) {
            rows += cut.keys.len() as u64;
            reuse = Some(cut);
        }
        builder.discarded(&mut discarded);
        builder.counts(|_, _, count| counted += count);
        spent += start.elapsed();
    }
    let fragments = rounds * RUN_EVENTS * source_count as u64;
    let status = builder.status();
    let whole =
        rows == rounds * RUN_EVENTS && discarded.is_empty() && status.events_incomplete == 0;
    let seconds = spent.as_secs_f64().max(1e-9);
    Ok(Built {
        sources: source_count,
        fragments,
        fragments_per_second: fragments as f64 / seconds,
        nanoseconds_per_fragment: seconds * 1e9 / fragments as f64,
        whole,
    })
}

/// Fragments that one source delivers in a row.
const RUN_EVENTS: u64 = 64;
