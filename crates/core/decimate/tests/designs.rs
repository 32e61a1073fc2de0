//! Designs are made once: at the tests' optimisation that is most of the work.

use std::collections::BTreeMap;
use std::sync::Mutex;

use catchment_decimate::Design;

static DESIGNS: Mutex<BTreeMap<u64, Design>> = Mutex::new(BTreeMap::new());

/// The design for that factor.
pub fn design(factor: u64) -> Design {
    let mut designs = DESIGNS.lock().expect("every factor can be designed for");
    designs.entry(factor).or_insert_with(|| Design::new(factor).expect("a factor")).clone()
}
