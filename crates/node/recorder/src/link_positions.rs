//! What is durable of the logs of link sources, for the receive agents that tell the senders.
//!
//! Each target publishes the positions of its settled frames (`settlement.rs`): about one call per
//! sync. Of a source the position counts that the slowest of the required targets has which get its
//! data, up to the last frame that is settled in every required target: a run whose recorder dies
//! goes on behind that one where the others' frames cannot be copied. A required target that keeps
//! nothing publishes frames as it gets them: recorded is as good as durable there. Of a source
//! whose data no required target gets, what was cut into a frame or counted out is durable: nobody
//! promises more. Readers and writers hold a lock for some copies of numbers; no frame or fragment
//! waits for them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use catchment_frame::Position;
use catchment_model::SourceId;
use parking_lot::Mutex;

use crate::beginning::Beginning;
use crate::config::{RecorderConfig, SourceConfig};
use crate::links::LinkConfig;
use crate::target_config::Variant;

/// The newest durable positions.
#[derive(Debug)]
pub(crate) struct LinkPositions {
    /// The link sources, each with the places that it must be durable in: indices of `places`.
    sources: Vec<(SourceId, Vec<usize>)>,
    /// By target; the last is the frames agent, which has what is decided.
    places: Mutex<Vec<PlacePositions>>,
    decided: usize,
    /// How often any of them has changed.
    version: AtomicU64,
    /// Whether some required target does not get all link sources, so that it may be behind those
    /// that a source must be durable in.
    are_selected: bool,
}

/// What one target has.
#[derive(Clone, Debug)]
struct PlacePositions {
    is_required: bool,
    newest: Settled,
    /// What was settled before, for as long as required targets are behind: no more frames than in
    /// any of these, and what follows.
    common: Settled,
    next: Settled,
    has_ended: bool,
}

#[derive(Clone, Debug)]
struct Settled {
    /// The number of the stream's frames that are settled, from the first on.
    frames: u64,
    /// By source: its newest session, and the position in it.
    positions: Vec<Option<(u64, u64)>>,
}

impl PlacePositions {
    /// In each required target so many frames are settled.
    fn advance(&mut self, frames: u64) {
        if self.next.frames <= frames {
            self.common = self.next.clone();
            self.next = self.newest.clone();
        }
        if self.newest.frames <= frames {
            self.common = self.newest.clone();
        }
    }
}

impl LinkPositions {
    pub(crate) fn new(config: &RecorderConfig, beginning: &Beginning) -> Self {
        let (targets, variants) = (config.targets(), Variant::of(config));
        let decided = targets.len();
        let sources = config.sources.iter().map(SourceConfig::is_link);
        let links = sources.chain(config.links.iter().map(LinkConfig::is_session));
        let links = links.enumerate().filter(|(_, is_link)| *is_link);
        let of_source = |(source, _): (usize, bool)| {
            let gets = |target: &usize| targets[*target].required && variants[*target].has(source);
            let mut needed: Vec<usize> = (0..targets.len()).filter(gets).collect();
            if needed.is_empty() {
                needed.push(decided);
            }
            (SourceId(source as u32), needed)
        };
        let newest = |source: u32| {
            let newest = beginning.positions.newest(source, Position::LINK)?;
            Some((newest.session, newest.position))
        };
        let positions = (0..config.ledger_count() as u32).map(newest).collect();
        let begun = Settled { frames: beginning.sequence, positions };
        let place = |is_required| PlacePositions {
            is_required,
            newest: begun.clone(),
            common: begun.clone(),
            next: begun.clone(),
            has_ended: false,
        };
        let required = targets.iter().map(|target| target.required);
        let count = required.clone().filter(|required| *required).count();
        let sources: Vec<_> = links.map(of_source).collect();
        Self {
            are_selected: sources.iter().any(|(_, needed)| needed.len() < count),
            sources,
            places: Mutex::new(required.chain([true]).map(place).collect()),
            decided,
            version: AtomicU64::new(0),
        }
    }

    /// Which changes a [`read`](Self::read) behind this call has at least.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Whether there are link sources.
    pub(crate) fn has_links(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Hands each link source with its newest session of which anything is durable, and the
    /// position in it, to `tell`. A position never falls; a session that another has followed is
    /// not told any more.
    pub(crate) fn read(&self, tell: &mut dyn FnMut(SourceId, u64, u64)) {
        let places = self.places.lock();
        for (source, needed) in &self.sources {
            // What no required target gets is not held by any.
            let is_held = self.are_selected && *needed != [self.decided];
            let settled = needed.iter().map(|&place| match is_held {
                true => &places[place].common,
                false => &places[place].newest,
            });
            let slowest = settled.min_by_key(|one| one.frames);
            let position = slowest.and_then(|one| one.positions[source.index()]);
            if let Some((session, position)) = position {
                tell(*source, session, position);
            }
        }
    }

    /// Whether positions will not change any more: all required targets have ended. Without link
    /// sources there are none.
    pub(crate) fn are_final(&self) -> bool {
        let is_final = |place: &PlacePositions| place.has_ended || !place.is_required;
        !self.has_links() || self.places.lock().iter().all(is_final)
    }

    /// How many of the stream's frames are settled in each required target.
    pub(crate) fn frames_settled(&self) -> u64 {
        self.settled_in(&self.places.lock())
    }

    fn settled_in(&self, places: &[PlacePositions]) -> u64 {
        let required = places[..self.decided].iter().filter(|place| place.is_required);
        required.map(|place| place.newest.frames).min().unwrap_or(0)
    }

    /// The stream's frames below `frames` are settled in a target, with these positions since it
    /// was last said.
    pub(crate) fn settled(&self, target: usize, frames: u64, positions: &[Position]) {
        let places = &mut *self.places.lock();
        let Settled { frames: so_far, positions: newest } = &mut places[target].newest;
        *so_far = frames.max(*so_far);
        for position in positions.iter().filter(|one| one.what == Position::LINK) {
            if let Some(newest) = newest.get_mut(position.source as usize) {
                *newest = Some((position.session, position.position));
            }
        }
        if self.are_selected && target != self.decided {
            let common = self.settled_in(places);
            places.iter_mut().for_each(|place| place.advance(common));
        }
        self.version.fetch_add(1, Release);
    }

    /// The positions of a frame that was just made.
    pub(crate) fn made(&self, frames: u64, positions: &[Position]) {
        self.settled(self.decided, frames, positions);
    }

    /// A target settles no further frames.
    pub(crate) fn ended(&self, target: usize) {
        self.places.lock()[target].has_ended = true;
    }

    /// No further frames are made.
    pub(crate) fn made_all(&self) {
        self.ended(self.decided);
    }
}

#[cfg(test)]
mod tests;
