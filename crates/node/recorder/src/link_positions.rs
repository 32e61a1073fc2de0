//! What is durable of the logs of link sources, for the receive agents that tell the senders.
//!
//! Each target publishes the positions of its settled frames (`settlement.rs`): about one call per
//! sync. Of a source the position counts that the slowest of the required targets has which get its
//! data. A required target that keeps nothing publishes frames as it gets them: recorded is as good
//! as durable there. Of a source whose data no required target gets, what was cut into a frame or
//! counted out is durable: nobody promises more. Readers and writers hold a lock for some copies of
//! numbers; no frame or fragment waits for them.

use catchment_frame::Position;
use catchment_model::SourceId;
use parking_lot::Mutex;

use crate::beginning::Beginning;
use crate::config::RecorderConfig;
use crate::target_config::Variant;

/// The newest durable positions.
#[derive(Debug)]
pub(crate) struct LinkPositions {
    /// The link sources, each with the places that it must be durable in: indices of `places`.
    sources: Vec<(SourceId, Vec<usize>)>,
    /// By target; the last is the frames agent, which has what is decided.
    places: Mutex<Vec<PlacePositions>>,
    decided: usize,
}

/// What one target has.
#[derive(Clone, Debug)]
struct PlacePositions {
    is_required: bool,
    /// The number of the stream's frames that are settled, from the first on.
    frames: u64,
    /// By source: its newest session, and the position in it.
    newest: Vec<Option<(u64, u64)>>,
    has_ended: bool,
}

impl LinkPositions {
    pub(crate) fn new(config: &RecorderConfig, beginning: &Beginning) -> Self {
        let (targets, variants) = (config.targets(), Variant::of(config));
        let decided = targets.len();
        let links = config.sources.iter().enumerate().filter(|(_, source)| source.is_link());
        let of_source = |(source, _): (usize, &_)| {
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
        let newest: Vec<_> = (0..config.sources.len() as u32).map(newest).collect();
        let place = |is_required| PlacePositions {
            is_required,
            frames: beginning.sequence,
            newest: newest.clone(),
            has_ended: false,
        };
        let required = targets.iter().map(|target| target.required).chain([true]);
        Self {
            sources: links.map(of_source).collect(),
            places: Mutex::new(required.map(place).collect()),
            decided,
        }
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
            let slowest = needed.iter().map(|&place| &places[place]).min_by_key(|one| one.frames);
            if let Some((session, position)) = slowest.and_then(|one| one.newest[source.index()]) {
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
        let places = self.places.lock();
        let required = places[..self.decided].iter().filter(|place| place.is_required);
        required.map(|place| place.frames).min().unwrap_or(0)
    }

    /// The stream's frames below `frames` are settled in a target, with these positions since it
    /// was last said.
    pub(crate) fn settled(&self, target: usize, frames: u64, positions: &[Position]) {
        let place = &mut self.places.lock()[target];
        place.frames = place.frames.max(frames);
        for position in positions.iter().filter(|one| one.what == Position::LINK) {
            if let Some(newest) = place.newest.get_mut(position.source as usize) {
                *newest = Some((position.session, position.position));
            }
        }
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
