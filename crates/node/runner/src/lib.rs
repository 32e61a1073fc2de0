//! Agents on threads.
//!
//! A thread calls its agent's duty cycle again and again. While there is work it goes on at once;
//! then it spins for a while, naps once so that more than a little gathers, and parks until it is
//! woken or the agent's time has come ([`Idle`], [`Park`]). Names, CPUs, priorities and CPU time of
//! threads are here and nowhere else.

mod idle;
mod park;
mod threads;

pub use idle::Idle;
pub use park::{Park, Signal, Sleep};
pub use threads::{Joined, Plan, ThreadEvents, Threads};

use std::io;

use catchment_agent::Entropy;

/// The system's random bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn random_u64(&mut self) -> io::Result<u64> {
        Ok(getrandom::u64()?)
    }
}
