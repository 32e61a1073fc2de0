//! Periodic queries of disks, each folder on its own thread: a hanging network file system delays
//! neither the control thread nor the server, nor the queries of other folders, nor the revocation
//! of tokens.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::machine::{self, Space};
use crate::shared::NodeShared;
use crate::web::sample;

/// How often to query.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Older results are no longer valid.
const AGE_MAX: Duration = Duration::from_secs(10);

/// The latest results.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Option<(Instant, Option<Space>)>>);

impl Seen {
    /// The free space on the disk, unless its last answer is too old.
    pub(crate) fn space(&self) -> Option<Space> {
        let (at, space) = (*self.0.lock())?;
        space.filter(|_| at.elapsed() <= AGE_MAX)
    }

    /// How long the disk has not answered, if that is too long.
    pub(crate) fn silent(&self) -> Option<Duration> {
        let (at, _) = (*self.0.lock())?;
        Some(at.elapsed()).filter(|age| *age > AGE_MAX)
    }

    pub(crate) fn set(&self, space: Option<Space>) {
        *self.0.lock() = Some((Instant::now(), space));
    }
}

/// Queries once, and then on threads that end with the node.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn start(shared: &Arc<NodeShared>, folder: PathBuf) -> std::io::Result<()> {
    // A storage node has its own folder in the first of those for streams: one disk.
    let look_at_own = move |shared: &NodeShared| {
        shared.disk.set(machine::space(&folder));
        shared.storing.iter().for_each(|storing| storing.look_at(0));
    };
    look_at_own(shared);
    repeat("control-disk", shared, look_at_own)?;
    let folders = shared.storing.as_ref().map_or(0, |storing| storing.folder_count());
    for folder in 1..folders {
        let look_at = move |shared: &NodeShared| {
            shared.storing.iter().for_each(|storing| storing.look_at(folder));
        };
        look_at(shared);
        repeat("control-disk", shared, look_at)?;
    }
    repeat("control-lookout", shared, |shared| {
        shared.tokens.refresh();
        sample::close_unused();
        shared.catalog.close_if_wanted();
    })
}

/// Does it again and again, on a thread that ends with the node.
fn repeat(
    name: &str,
    shared: &Arc<NodeShared>,
    act: impl Fn(&NodeShared) + Send + 'static,
) -> std::io::Result<()> {
    let shared = Arc::downgrade(shared);
    let repeat = move || {
        while let Some(shared) = shared.upgrade() {
            act(&shared);
            drop(shared);
            std::thread::sleep(LOOK_EVERY);
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(repeat)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_has_not_answered_for_long_has_no_room_that_is_known() {
        let space = Space { free_bytes: 1, total_bytes: 2, file_system: 3 };
        let seen = Seen::default();
        assert_eq!((seen.space(), seen.silent()), (None, None));
        seen.set(Some(space));
        assert_eq!((seen.space(), seen.silent()), (Some(space), None));
        let long_ago = Instant::now().checked_sub(AGE_MAX * 2).unwrap();
        *seen.0.lock() = Some((long_ago, Some(space)));
        assert_eq!(seen.space(), None);
        assert!(seen.silent().unwrap() >= AGE_MAX * 2);
    }
}
