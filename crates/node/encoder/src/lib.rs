//! Columns encoded by agents.
//!
//! The columns of a frame are independent of each other: they are submitted to a pool one after
//! another, its agents encode as many at a time as there are agents, and they come out in the order
//! of submission. Work in progress is bounded in bytes, and all memory is reused: once the pool has
//! seen its largest columns, it allocates nothing. A large column is encoded in pieces, by all
//! agents at once.
//!
//! A column gathers its own raw bytes ([`Column`]), and may examine them while they are in the
//! cache, so trends are computed without reading anything twice.
//!
//! ```
//! use catchment_agent::Agent;
//! use catchment_encoder::{Ask, Coding, Element, EncoderPool, Level, PoolConfig, Rule};
//!
//! let mut pool = EncoderPool::new(PoolConfig { bytes_max: 1 << 20, ..PoolConfig::default() });
//! let mut encoder = pool.encoder();
//! for value in 0..10_u8 {
//!     let (element, rule) = (Element::U8, Rule::Fixed(Coding::Lz4));
//!     pool.put(vec![value; 100_000], Ask { element, rule, level: Level::AsAsked });
//! }
//! while encoder.work(0).done > 0 {}
//! for value in 0..10 {
//!     let done = pool.take().unwrap();
//!     assert!(done.column[0] == value && done.stored_bytes() < 1_000);
//! }
//! ```

mod buffers;
mod large;
mod pool;
mod rule;
mod work;

#[cfg(test)]
mod tests;

pub use buffers::{Buffer, Buffers};
pub use catchment_codec::{Coding, Element};
pub use large::Pieces;
pub use pool::{Encode, EncoderPool, PoolConfig};
pub use rule::{Ask, AutoState, Level, Rule};
pub use work::{Column, Done, Stored, StoredBytes, Worker};
