//! Fill levels of bounded queues and pools.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A bounded queue or pool as two counters, in and out, in bytes or items.
#[derive(Debug)]
pub struct FillLevel {
    name: String,
    capacity: u64,
    put: AtomicU64,
    taken: AtomicU64,
    highest: AtomicU64,
}

impl FillLevel {
    /// An empty one that holds at most `capacity`.
    pub fn new(name: impl Into<String>, capacity: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self { name: name.into(), capacity, put: zero(), taken: zero(), highest: zero() }
    }

    /// Its name on the page.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its capacity.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Records that `amount` went in.
    pub fn put(&self, amount: u64) {
        let put = self.put.fetch_add(amount, Relaxed) + amount;
        let level = put.saturating_sub(self.taken.load(Relaxed));
        self.highest.fetch_max(level, Relaxed);
    }

    /// Records that `amount` came out.
    pub fn take(&self, amount: u64) {
        self.taken.fetch_add(amount, Relaxed);
    }

    /// The current content, at most the capacity.
    pub fn level(&self) -> u64 {
        self.content().min(self.capacity)
    }

    /// The current content, also where one large thing exceeds the capacity.
    pub fn content(&self) -> u64 {
        // Read first: reading the two in the other order could show more than was ever inside.
        let taken = self.taken.load(Relaxed);
        self.put.load(Relaxed).saturating_sub(taken)
    }

    /// The highest content so far.
    pub fn highest(&self) -> u64 {
        self.highest.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_is_kept_after_it_has_fallen() {
        let fill = FillLevel::new("chunks", 10);
        fill.put(4);
        fill.put(3);
        fill.take(6);
        assert_eq!((fill.level(), fill.highest(), fill.capacity()), (1, 7, 10));
    }
}
