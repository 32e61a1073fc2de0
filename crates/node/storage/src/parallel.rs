//! Work on many items by a few threads, including the caller's.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::error::StorageError;

/// Does `work` for every item; the results are in the order of the items. After an error no further
/// item is begun.
pub(crate) fn map<T: Send, R: Send>(
    items: Vec<T>,
    threads: usize,
    work: impl Fn(T) -> Result<R, StorageError> + Sync,
) -> Result<Vec<R>, StorageError> {
    let mut slots: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let threads = threads.clamp(1, items.len().max(1));
    let queue = Mutex::new((items.into_iter().zip(&mut slots), None));
    let run = || {
        loop {
            let next = {
                // A thread that panicked with the lock held has not broken the iterator.
                let mut queue = queue.lock();
                if queue.1.is_some() { None } else { queue.0.next() }
            };
            let Some((item, slot)) = next else { break };
            match work(item) {
                Ok(result) => *slot = Some(result),
                Err(error) => {
                    let mut queue = queue.lock();
                    queue.1.get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let (_, error) = queue.into_inner();
    if let Some(error) = error {
        return Err(error);
    }
    Ok(slots.into_iter().map(|slot| slot.expect("every item was taken")).collect())
}

/// As many threads as CPUs, up to a bound. Queried once: the query takes longer than a small read.
pub(crate) fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    let ask = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    *THREADS.get_or_init(|| ask().min(THREADS_MAX))
}

const THREADS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_and_the_first_error_is_told() {
        let double = |n: u64| Ok(2 * n);
        assert_eq!(map((0..100).collect(), 4, double).expect("works").len(), 100);
        assert_eq!(map(vec![1, 2, 3], 2, double).expect("works"), [2, 4, 6]);
        assert!(map(Vec::new(), 2, double).expect("works").is_empty());
        let fails = |n: u64| match n {
            50 => Err(StorageError::NoEvent { key: n }),
            n => Ok(n),
        };
        let error = map((0..100).collect(), 3, fails).expect_err("fails");
        assert!(matches!(error, StorageError::NoEvent { key: 50 }));
    }
}
