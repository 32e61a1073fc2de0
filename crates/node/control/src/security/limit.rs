//! Rate limits: buckets of tokens, one per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Addresses that are remembered; beyond it, those whose buckets are full again are forgotten.
const ADDRESSES_MAX: usize = 10_000;

/// So many per second on average from one address, and so many at once.
#[derive(Debug)]
pub(crate) struct Limit {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Limit {
    /// A limit.
    pub(crate) fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, buckets: Mutex::default() }
    }

    /// Takes one; false where the address had too many.
    pub(crate) fn take(&self, address: IpAddr, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let (per_second, burst) = (self.per_second, self.burst);
        let left = |bucket: &Bucket| {
            let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
            (bucket.left + seconds * per_second).min(burst)
        };
        if buckets.len() >= ADDRESSES_MAX && !buckets.contains_key(&address) {
            buckets.retain(|_, bucket| left(bucket) < burst);
            if buckets.len() >= ADDRESSES_MAX {
                return false;
            }
        }
        let bucket = buckets.entry(address).or_insert(Bucket { left: burst, at: now });
        bucket.left = left(bucket);
        bucket.at = now;
        let granted = bucket.left >= 1.0;
        if granted {
            bucket.left -= 1.0;
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_address_gets_its_burst_and_then_its_rate_and_others_are_not_concerned() {
        let limit = Limit::new(10.0, 3.0);
        let (one, other) = ([1, 2, 3, 4].into(), [1, 2, 3, 5].into());
        let start = Instant::now();
        let taken = (0..5).filter(|_| limit.take(one, start)).count();
        assert_eq!(taken, 3);
        assert!(limit.take(other, start));
        assert!(!limit.take(one, start + Duration::from_millis(50)));
        assert!(limit.take(one, start + Duration::from_millis(150)));
        assert!(!limit.take(one, start + Duration::from_millis(150)));
    }
}
