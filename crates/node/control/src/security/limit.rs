//! Limits per address: requests per second (token buckets), and connections and streams at a time
//! (shares).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// The address under which a client is counted: a host with an IPv6 network has all addresses of
/// its last 64 bits.
fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

/// The most addresses that are remembered; beyond it, those with full buckets are forgotten.
const ADDRESSES_MAX: usize = 10_000;

/// Requests per second on average from one address, and requests at once.
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

    /// Takes one; returns false if the address had too many.
    pub(crate) fn take(&self, address: IpAddr, now: Instant) -> bool {
        let address = holder(address);
        let mut buckets = self.buckets.lock();
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

/// Shares per address: that many at a time for each.
#[derive(Debug)]
pub(crate) struct Shares {
    most: usize,
    held: Mutex<HashMap<IpAddr, usize>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    address: IpAddr,
}

impl Shares {
    /// That many for each address. The total of what is shared bounds the number of addresses.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    /// Takes one; none if the address has used its share.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Share> {
        let address = holder(address);
        let mut held = self.held.lock();
        let count = held.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Share { shares: Arc::clone(self), address })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.held.lock();
        if let Some(count) = held.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.address);
            }
        }
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
    #[test]
    fn an_address_has_its_share_at_a_time_and_others_are_not_concerned() {
        let shares = Shares::new(2);
        let (one, other) = ([1, 2, 3, 4].into(), [1, 2, 3, 5].into());
        let first = shares.take(one).unwrap();
        let _second = shares.take("::ffff:1.2.3.4".parse().unwrap()).unwrap();
        assert!(shares.take(one).is_none());
        assert!(shares.take(other).is_some());
        let network =
            |end: u16| std::net::Ipv6Addr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, end]).into();
        let both = (shares.take(network(1)).unwrap(), shares.take(network(2)).unwrap());
        assert!(shares.take(network(3)).is_none());
        drop(both);
        assert_eq!(shares.held.lock().len(), 1, "who has none is forgotten");
        drop(first);
        assert!(shares.take(one).is_some());
    }
}
