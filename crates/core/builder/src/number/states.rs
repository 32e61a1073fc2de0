//! The state of each source, where events are matched by number.

use super::NumberMatcher;
use crate::astray::Astray;
use crate::matched::Source;
use crate::status::SourceStatus;

impl NumberMatcher {
    pub(super) fn state_of(&self, index: usize, source: &Source) -> SourceStatus {
        let (voter, promises) = (self.events.voter_of(index), &self.horizon.promises);
        let (newest_key, silent, out_of_step) = match promises.has(index) {
            true => (
                source.reached.checked_sub(1).filter(|_| promises.is_followed(index)),
                promises.is_silent(index),
                !promises.is_in_step(index) || self.claimed_long_ago(index).is_some(),
            ),
            false => (
                self.horizon.position(voter),
                self.horizon.is_silent(voter),
                self.horizon.is_out_of_step(voter),
            ),
        };
        SourceStatus {
            newest_key,
            silent,
            given_up: promises.has_given_up(index),
            out_of_step,
            astray: self.astray(index, voter),
            parked: self.parked.count_of(index) as u64,
            other_sender: source.is_other_sender(),
            ..SourceStatus::default()
        }
    }

    fn astray(&self, index: usize, voter: usize) -> Option<Astray> {
        let promises = &self.horizon.promises;
        if promises.has(index) {
            let others = || promises.numbers().number_of(self.events.window.newest);
            return match promises.again(index) {
                _ if promises.is_behind(index) => Some(Astray::Missed),
                _ if promises.is_ahead(index) => Some(Astray::Early),
                Some((first, after)) => Some(Astray::Numbers { first, after, others: others() }),
                None => {
                    let first = self.claimed_long_ago(index)?.fragment.number;
                    Some(Astray::Numbers { first, after: None, others: others() })
                }
            };
        }
        if !self.horizon.is_out_of_step(voter) {
            return None;
        }
        // A single number may be garbled.
        let claims = self.horizon.claims(voter).iter().filter(|claim| claim.streak > 1);
        let first = claims.max_by_key(|claim| claim.streak)?.first;
        let placed = (0..self.horizon.voter_count()).filter_map(|one| self.horizon.position(one));
        let number = |key| self.horizon.rules().numbers.number_of(key);
        let after = self.horizon.last_position(voter).map(number);
        Some(Astray::Numbers { first, after, others: number(placed.max()?) })
    }
}
