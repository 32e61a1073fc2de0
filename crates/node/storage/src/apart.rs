//! Work at several places, of which those that are not required delay and stop nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::error::StorageError;

/// How much longer than the required places the others may take.
const WITHIN: Duration = Duration::from_secs(2);

/// Whether nothing waits for a place any more.
#[derive(Clone, Default)]
pub(crate) struct GivenUp(Arc<AtomicBool>);

impl GivenUp {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Does `work` at each place, of which some are required: these by this thread, each of the others
/// by a thread of its own, which is left where its disk does not answer. The results are in the
/// order of the places; a place that is not required may have the reason why it has none.
///
/// # Errors
/// That of a required place.
pub(crate) fn at_each<P: Send + 'static, R: Send + 'static>(
    places: impl IntoIterator<Item = (bool, P)>,
    work: impl Fn(P, &GivenUp) -> Result<R, StorageError> + Clone + Send + 'static,
) -> Result<Vec<Result<R, String>>, StorageError> {
    let begin = |(is_required, place)| match is_required {
        true => Ok(place),
        false => Err(Apart::begin(place, work.clone())),
    };
    // The others begin before the required ones, and end after them.
    let begun: Vec<Result<P, Apart<R>>> = places.into_iter().map(begin).collect();
    let (mut done, mut failed) = (Vec::new(), None);
    for one in begun {
        done.push(match one {
            Err(apart) => Err(apart),
            Ok(_) if failed.is_some() => continue,
            Ok(place) => match work(place, &GivenUp::default()) {
                Ok(result) => Ok(result),
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            },
        });
    }
    let within = if failed.is_some() { Duration::ZERO } else { WITHIN };
    let until = Instant::now() + within;
    let done = done.into_iter().map(|one| one.or_else(|apart| apart.end(until))).collect();
    failed.map_or(Ok(done), Err)
}

/// Work at a place by a thread of its own.
struct Apart<R> {
    result: Receiver<Result<R, StorageError>>,
    given_up: GivenUp,
}

impl<R: Send + 'static> Apart<R> {
    fn begin<P: Send + 'static>(
        place: P,
        work: impl FnOnce(P, &GivenUp) -> Result<R, StorageError> + Send + 'static,
    ) -> Self {
        let (done, result) = sync_channel(1);
        let given_up = GivenUp::default();
        let of_thread = given_up.clone();
        // Without a thread there is no result, which is said below.
        let _thread = std::thread::Builder::new().name("place".into()).spawn(move || {
            let _nothing_waits = done.send(work(place, &of_thread));
        });
        Self { result, given_up }
    }

    fn end(self, until: Instant) -> Result<R, String> {
        match self.result.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(RecvTimeoutError::Timeout) => {
                self.given_up.0.store(true, Relaxed);
                Err("its disk does not answer".to_owned())
            }
            Err(RecvTimeoutError::Disconnected) => Err("its thread has failed".to_owned()),
        }
    }
}
