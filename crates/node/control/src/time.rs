//! Wall-clock time as the API says it: RFC 3339 in UTC, to the millisecond.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970 (UTC).
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `2026-11-21T07:42:26.123Z`.
pub(crate) fn rfc3339(ns: u64) -> String {
    catchment_model::Utc(ns).to_string()
}
