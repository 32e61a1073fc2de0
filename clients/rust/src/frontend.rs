//! A front-end: where fragments go in, and how it ends.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use catchment_sender::{
    Fragment, Push, PushError, Reports, SenderConfig, SenderSession, SenderState, Source,
    SourceStatus,
};
use catchment_wire::event_link::AbandonReason;
use parking_lot::{Condvar, Mutex};

use crate::address::Address;
use crate::builder::Callbacks;
use crate::service::Threads;
use crate::sockets::Waker;
use crate::{Error, service};

/// A front-end, connected to a recorder or on its way to be. See the [crate's page](crate).
///
/// Any thread may use it. It is closed by [`close`](Self::close); when it is dropped, what was not
/// acknowledged is lost.
#[derive(Debug)]
pub struct Frontend {
    shared: Arc<Shared>,
    sources: Vec<SourceHandle>,
    reports: Reports,
    threads: Option<Threads>,
}

/// One source of a front-end. Any thread may use it; keys rise over all threads.
#[derive(Clone, Debug)]
pub struct SourceHandle {
    source: Source,
    shared: Arc<Shared>,
}

/// How a front-end ended.
#[must_use = "what is not confirmed may be lost"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Fragments, marks and abandoned ones that were in the ring, and not confirmed.
    pub not_confirmed: u64,
    /// Of all that was sent: what a run has ended without.
    pub held_at_run_end: u64,
}

impl Closed {
    /// Whether everything is confirmed.
    pub fn is_confirmed(&self) -> bool {
        *self == Self::default()
    }
}

/// What the threads of a front-end and of the client share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub waker: Waker,
    /// The client's thread sleeps until it is woken.
    pub is_asleep: AtomicBool,
    /// When it is to end, once that is known.
    pub deadline: Mutex<Option<Instant>>,
    pub state: Mutex<SenderState>,
    /// Threads that wait for room, or for another state.
    waiting: AtomicUsize,
    changed: Condvar,
    lock: Mutex<()>,
}

impl Shared {
    /// Has the client's thread look at what there is, if it sleeps.
    pub fn wake(&self) {
        // Either that thread sees what was pushed before it sleeps, or this one sees that it
        // sleeps.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Wakes those who wait for room, or for another state.
    pub fn tell(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            let _lock = self.lock.lock();
            self.changed.notify_all();
        }
    }

    /// Waits until `look` finds something, or the deadline is there. `look` is called again after
    /// each change.
    fn wait<T>(&self, deadline: Option<Instant>, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let mut lock = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Either what changes from here on is seen by `look`, or `tell` sees who waits.
        fence(Ordering::SeqCst);
        let found = loop {
            if let Some(found) = look() {
                break Some(found);
            }
            match deadline {
                None => self.changed.wait(&mut lock),
                Some(deadline) => {
                    if self.changed.wait_until(&mut lock, deadline).timed_out() {
                        break look();
                    }
                }
            }
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

impl Frontend {
    pub(crate) fn start(
        address: Address,
        config: SenderConfig,
        callbacks: Option<Callbacks>,
        sends_token: bool,
        wait: Duration,
    ) -> Result<Self, Error> {
        let system = |what| move |source| Error::System { what, source };
        let random = || {
            getrandom::u64().map_err(|error| Error::System {
                what: "random numbers",
                source: std::io::Error::other(error),
            })
        };
        let (session, seed) = (random()?.max(1), random()?);
        let session = SenderSession::new(config, session, seed)?;
        let shared = Arc::new(Shared {
            waker: Waker::new().map_err(system("a descriptor"))?,
            is_asleep: AtomicBool::new(false),
            deadline: Mutex::new(None),
            state: Mutex::new(session.state()),
            waiting: AtomicUsize::new(0),
            changed: Condvar::new(),
            lock: Mutex::new(()),
        });
        let sources: Vec<SourceHandle> = (session.sources().cloned())
            .map(|source| SourceHandle { source, shared: Arc::clone(&shared) })
            .collect();
        let (url, reports) = (address.url.clone(), session.reports().clone());
        let threads = service::start(session, address, sends_token, callbacks, Arc::clone(&shared))
            .map_err(system("a thread"))?;
        let frontend = Self { shared, sources, reports, threads: Some(threads) };
        if !wait.is_zero() {
            frontend.wait_until_open(&url, Instant::now() + wait)?;
        }
        Ok(frontend)
    }

    fn wait_until_open(&self, url: &str, deadline: Instant) -> Result<(), Error> {
        let shared = &*self.shared;
        let state = shared.wait(Some(deadline), || {
            let state = shared.state.lock().clone();
            matches!(state, SenderState::Open | SenderState::Ended(_)).then_some(state)
        });
        let why = match state {
            Some(SenderState::Open) => {
                let refused = self.sources.iter().map(|source| source.source.end_reason());
                match refused.collect::<Option<Vec<_>>>() {
                    Some(reasons) => reasons[0].to_string(),
                    None => return Ok(()),
                }
            }
            Some(SenderState::Ended(why)) => why.as_deref().unwrap_or("it has ended").to_owned(),
            _ => self.status_line(),
        };
        Err(Error::NotConnected { url: url.to_owned(), why })
    }

    /// Appends a fragment to the first source; see [`SourceHandle::send`].
    ///
    /// # Errors
    /// As [`SourceHandle::send`].
    pub fn send(&self, key: u64, bytes: &[u8]) -> Result<(), Error> {
        self.sources[0].send(key, bytes)
    }

    /// Appends a fragment to the first source if there is room; see [`SourceHandle::try_send`].
    ///
    /// # Errors
    /// As [`SourceHandle::try_send`].
    pub fn try_send(&self, key: u64, bytes: &[u8]) -> Result<Push, PushError> {
        self.sources[0].try_send(key, bytes)
    }

    /// Appends a packet to the only link; see [`SourceHandle::send_packet`].
    ///
    /// # Errors
    /// As [`SourceHandle::send_packet`].
    ///
    /// # Panics
    /// As [`SourceHandle::send_packet`].
    pub fn send_packet(&self, packet: &[u8]) -> Result<(), Error> {
        self.sources[0].send_packet(packet)
    }

    /// The source of a name; of the only one, it may be empty.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn source(&self, name: &str) -> Result<&SourceHandle, Error> {
        let found = self.sources.iter().find(|source| source.name() == name);
        found.ok_or_else(|| Error::NoSource { name: name.to_owned() })
    }

    /// What the front-end reports of itself: counters, settings, alarms, a line of status. They are
    /// shown on the page, beside the node's own devices.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// All sources, in the order in which they were added.
    pub fn sources(&self) -> &[SourceHandle] {
        &self.sources
    }

    /// Where the front-end stands, in one line for a person.
    pub fn status(&self) -> String {
        let mut line = self.status_line();
        for handle in &self.sources {
            let SourceStatus { made, taken, durable, held_bytes, full, .. } = handle.status();
            let name = if handle.name().is_empty() { "fragments" } else { handle.name() };
            line += &format!(
                "; {name}: {made} made, {taken} taken, {durable} durable, {held_bytes} bytes held, \
                 {full} times full"
            );
        }
        line
    }

    fn status_line(&self) -> String {
        match &*self.shared.state.lock() {
            SenderState::Open => "connected".to_owned(),
            SenderState::Opening => "connecting".to_owned(),
            SenderState::Away(why) => format!("not connected: {why}"),
            SenderState::Ended(None) => "ended".to_owned(),
            SenderState::Ended(Some(why)) => format!("ended: {why}"),
        }
    }

    /// Waits until everything is confirmed, at most for so long, ends the session, and waits until
    /// a callback that runs has returned, however long that takes, unless it is called by that.
    /// Nothing can be sent meanwhile.
    ///
    /// A front-end that is dropped instead ends at once, and does not wait for a callback.
    pub fn close(mut self, timeout: Duration) -> Closed {
        let calls = self.end(timeout);
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        if let Some(calls) = calls.filter(is_other) {
            // The panics of callbacks are caught.
            let _ended = calls.join();
        }
        let mut closed = Closed::default();
        for source in &self.sources {
            closed.not_confirmed += source.source.unconfirmed();
            closed.held_at_run_end += source.status().held_at_run_end;
        }
        closed
    }

    /// Ends the session. Returns the thread of the callbacks, which ends when the one that runs
    /// has returned.
    fn end(&mut self, timeout: Duration) -> Option<JoinHandle<()>> {
        let Threads { service, calls } = self.threads.take()?;
        *self.shared.deadline.lock() = Some(Instant::now() + timeout);
        self.shared.is_asleep.store(false, Ordering::Relaxed);
        self.shared.waker.wake();
        // It ends by a panic only if it is broken, which its message has said.
        let _ended = service.join();
        calls
    }
}

impl Drop for Frontend {
    fn drop(&mut self) {
        drop(self.end(Duration::ZERO));
    }
}

impl SourceHandle {
    /// Its name, without the front-end's.
    pub fn name(&self) -> &str {
        &self.source.config().name
    }

    /// Appends a fragment, and waits while there is no room for it.
    ///
    /// # Errors
    /// A key that does not rise, a fragment that is too long, or a front-end that has ended.
    pub fn send(&self, key: u64, bytes: &[u8]) -> Result<(), Error> {
        self.send_fragment(Fragment::new(key, bytes))
    }

    /// As [`send`](Self::send), with tag, flags and groups.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_fragment(&self, fragment: Fragment<'_>) -> Result<(), Error> {
        self.wait_for_room(|| self.source.push(fragment))
    }

    /// As [`send_fragment`](Self::send_fragment), but waits at most for a time. Returns whether the
    /// fragment was accepted.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_within(&self, fragment: Fragment<'_>, time: Duration) -> Result<bool, Error> {
        self.wait_until(Some(Instant::now() + time), || self.source.push(fragment))
    }

    /// Appends a packet of samples of a channel link, and waits while there is no room for it.
    ///
    /// # Errors
    /// A heartbeat, of which the client has its own, a packet that is longer than a datagram, or a
    /// link that has ended.
    ///
    /// # Panics
    /// A source of events.
    pub fn send_packet(&self, packet: &[u8]) -> Result<(), Error> {
        self.wait_for_room(|| self.source.push_packet(packet))
    }

    /// As [`send_packet`](Self::send_packet), but waits at most for a time. Returns whether the
    /// packet was accepted.
    ///
    /// # Errors
    /// As [`send_packet`](Self::send_packet).
    ///
    /// # Panics
    /// As [`send_packet`](Self::send_packet).
    pub fn send_packet_within(&self, packet: &[u8], time: Duration) -> Result<bool, Error> {
        self.wait_until(Some(Instant::now() + time), || self.source.push_packet(packet))
    }

    /// Appends a packet of samples of a channel link if there is room.
    ///
    /// # Errors
    /// A heartbeat, or a packet that is longer than a datagram.
    ///
    /// # Panics
    /// As [`send_packet`](Self::send_packet).
    pub fn try_send_packet(&self, packet: &[u8]) -> Result<Push, PushError> {
        let push = self.source.push_packet(packet);
        self.shared.wake();
        push
    }

    /// Appends a fragment if there is room.
    ///
    /// # Errors
    /// A key that does not rise, or a fragment that is too long.
    pub fn try_send(&self, key: u64, bytes: &[u8]) -> Result<Push, PushError> {
        self.try_send_fragment(Fragment::new(key, bytes))
    }

    /// As [`try_send`](Self::try_send), with tag, flags and groups.
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send).
    pub fn try_send_fragment(&self, fragment: Fragment<'_>) -> Result<Push, PushError> {
        let push = self.source.push(fragment);
        self.shared.wake();
        push
    }

    /// Says that `count` fragments were made and dropped, with their lowest and highest key if they
    /// are known. Waits while there is no room even for that.
    ///
    /// # Errors
    /// Keys that do not rise, no fragments or too many, or a front-end that has ended.
    pub fn abandon(
        &self,
        count: u64,
        reason: AbandonReason,
        keys: Option<(u64, u64)>,
    ) -> Result<(), Error> {
        self.wait_for_room(|| self.source.abandon(count, reason, keys))
    }

    /// Says that a setting has changed before the next fragment.
    ///
    /// # Errors
    /// A front-end that has ended.
    ///
    /// # Panics
    /// A name and a value of more than 1,023 bytes together, or with a zero.
    pub fn setting(&self, name: &str, value: &str) -> Result<(), Error> {
        self.wait_for_room(|| Ok(self.source.setting(name, value)))
    }

    /// Says that numbers begin again, with `key`.
    ///
    /// # Errors
    /// A front-end that has ended.
    pub fn renumber(&self, key: u64) -> Result<(), Error> {
        self.wait_for_room(|| Ok(self.source.renumber(key)))
    }

    /// Promises that no fragment with a lower key will follow, and whether the source may now be
    /// silent for long: events then do not wait for it until its next fragment.
    pub fn low_water(&self, key: Option<u64>, is_idle: bool) {
        self.source.low_water(key, is_idle);
        self.shared.wake();
    }

    /// What happened to it so far.
    pub fn status(&self) -> SourceStatus {
        self.source.status()
    }

    fn wait_for_room(&self, push: impl Fn() -> Result<Push, PushError>) -> Result<(), Error> {
        self.wait_until(None, push).map(|_accepted| ())
    }

    /// Tries until there is room, or the deadline is there: then it is false.
    fn wait_until(
        &self,
        deadline: Option<Instant>,
        push: impl Fn() -> Result<Push, PushError>,
    ) -> Result<bool, Error> {
        let mut pushed = push()?;
        self.shared.wake();
        if pushed == Push::Full {
            let (begin, answers) = (Instant::now(), Cell::new(1));
            let waited = self.shared.wait(deadline, || match push() {
                Ok(Push::Full) => {
                    answers.set(answers.get() + 1);
                    None
                }
                pushed => Some(pushed),
            });
            self.source.waited(begin.elapsed().as_nanos() as u64, answers.get());
            let Some(waited) = waited else { return Ok(false) };
            pushed = waited?;
            self.shared.wake();
        }
        if pushed == Push::Accepted {
            return Ok(true);
        }
        let why = self.source.end_reason().unwrap_or_else(|| "it has ended".into());
        Err(Error::Ended { why: why.to_string() })
    }
}
