//! The number matcher against the model that every building rule is held to.

use crate::conformance;
use catchment_builder::{BuilderConfig, NumberConfig, NumberMatcher};
use conformance::{Limits, Owned, Rule, balances_whatever_comes, does_what_the_model_does};

struct ByNumber;

impl Rule for ByNumber {
    type Matcher = NumberMatcher;

    const COUNTS_ABSENT: bool = true;

    fn matcher(config: &BuilderConfig, limits: &Limits) -> NumberMatcher {
        let &Limits { number_bits, window_events, reorder_events, ref owned } = limits;
        let number = NumberConfig {
            number_bits,
            window_events,
            reorder_events,
            owned: owned.clone(),
            ..NumberConfig::default()
        };
        NumberMatcher::new(config, &number).expect("settings that can be")
    }

    fn number(event: u64, _source: usize) -> u64 {
        event & 0x00ff_ffff
    }

    // Numbers begin in the first cycle, and keys rise beyond it.
    fn event(key: u64) -> u64 {
        key
    }
}

#[test]
fn within_the_limits_the_number_matcher_does_what_the_model_does() {
    does_what_the_model_does::<ByNumber>(Owned::All);
}

#[test]
fn it_does_so_for_the_keys_that_it_owns_among_those_of_other_nodes() {
    does_what_the_model_does::<ByNumber>(Owned::Some);
}

#[test]
fn beyond_all_limits_its_ledger_balances_at_every_step() {
    balances_whatever_comes::<ByNumber>();
}
