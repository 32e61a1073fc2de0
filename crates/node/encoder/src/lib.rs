//! A pool of threads that encode columns.
//!
//! The columns of a frame are independent of each other: they go in one after the other, are
//! encoded on all threads of the pool, and come out in the order in which they went in. What is
//! under way is bounded in bytes, and all memory is used again: once the pool has met its largest
//! columns nothing is allocated.
//!
//! A column says itself how its raw bytes are gathered ([`Column`]), and may look at them while
//! they are in the cache, which is how trends are computed without reading anything twice.
//!
//! ```
//! use catchment_encoder::{Ask, Coding, Element, EncoderPool, Level, PoolConfig, Rule};
//!
//! let mut pool = EncoderPool::new(PoolConfig { threads: 2, ..PoolConfig::default() })?;
//! let columns = (0..10_u8).map(|value| (vec![value; 100_000], Ask {
//!     element: Element::U8,
//!     rule: Rule::Fixed(Coding::Lz4),
//!     level: Level::AsAsked,
//! }));
//! let mut order = Vec::new();
//! pool.encode_all(columns, |done| order.push((done.column[0], done.stored_bytes() < 1_000)));
//! assert_eq!(order, (0..10).map(|value| (value, true)).collect::<Vec<_>>());
//! # Ok::<(), std::io::Error>(())
//! ```

mod buffers;
mod pool;
mod rule;
mod work;

#[cfg(test)]
mod tests;

pub use catchment_codec::{Coding, Element};
pub use pool::{EncoderPool, PoolConfig};
pub use rule::{Ask, AutoState, Level, Rule};
pub use work::{Column, Done, Stored};
