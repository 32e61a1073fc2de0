//! The simulator's own tests, and a number of seeds.

mod mutants;
mod seeds;
