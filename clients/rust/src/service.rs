//! The client's thread: it connects, writes from the rings, reads acknowledgements, and resumes.
//!
//! It sleeps only when a pass has found nothing to do twice, the second time after saying that it
//! sleeps; so a front-end makes no system call for a fragment while it is awake. After a small
//! write it naps for 50 µs before it looks again, so that many small fragments go in one message
//! and do not wake it one by one.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use catchment_sender::{Action, Connection, RunCommand, SenderSession, SenderState};
use catchment_wire::session::AnswerKind;
use parking_lot::Mutex;

use crate::address::Address;
use crate::builder::Callbacks;
use crate::frontend::Shared;
use crate::sockets::{Socket, interest, wait};

/// The threads of a front-end.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) service: JoinHandle<()>,
    /// That of its callbacks, if it has any. It ends behind the other one.
    pub(crate) calls: Option<JoinHandle<()>>,
}

/// Starts the threads.
pub(crate) fn start(
    session: SenderSession,
    address: Address,
    sends_token: bool,
    callbacks: Option<Callbacks>,
    shared: Arc<Shared>,
) -> io::Result<Threads> {
    let calls = callbacks.map(|callbacks| Calls::start(callbacks, &shared)).transpose()?;
    let (calls, calls_thread) = calls.unzip();
    let data = (0..session.data_connections()).map(|_| None).collect();
    let service = Service {
        session,
        address,
        sends_token,
        shared,
        calls,
        begin: Instant::now(),
        control: None,
        data,
        peer: None,
        buffer: vec![0; READ_BYTES].into_boxed_slice(),
        descriptors: Vec::new(),
    };
    let service = Builder::new().name("catchment-link".to_owned()).spawn(move || service.run())?;
    Ok(Threads { service, calls: calls_thread })
}

struct Service {
    session: SenderSession,
    address: Address,
    sends_token: bool,
    shared: Arc<Shared>,
    calls: Option<Calls>,
    begin: Instant,
    control: Option<Socket>,
    data: Vec<Option<Socket>>,
    /// Where the control connection goes, and with it all others.
    peer: Option<SocketAddr>,
    buffer: Box<[u8]>,
    descriptors: Vec<libc::pollfd>,
}

impl Service {
    fn run(mut self) {
        let mut is_armed = false;
        loop {
            if let Some(deadline) = self.shared.deadline.lock().take() {
                let deadline = deadline.saturating_duration_since(self.begin).as_nanos() as u64;
                self.session.finish(deadline);
            }
            let Some(wake_at_ns) = self.act() else { break };
            let bytes = self.write() + self.read();
            if self.session.take_released() {
                self.shared.tell();
            }
            self.publish();
            let blocked = self.data.iter().flatten().any(|socket| socket.is_blocked);
            if bytes >= LARGE_WRITE_BYTES {
                is_armed = false;
            } else if bytes > 0 {
                is_armed = false;
                self.wait(NAP);
            } else if !is_armed && !blocked {
                is_armed = true;
                self.shared.is_asleep.store(true, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                continue;
            } else {
                let left = Duration::from_nanos(wake_at_ns.saturating_sub(self.now_ns()));
                // What comes for another connection is looked at while one waits for room.
                self.wait(if blocked { left.min(BLOCKED_WAIT) } else { left });
                is_armed = false;
            }
            self.shared.is_asleep.store(false, Ordering::Relaxed);
        }
        self.publish();
        self.shared.tell();
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Does what the session asks for. Returns when it has to be called again; `None` at its end.
    fn act(&mut self) -> Option<u64> {
        if let Some((number, result)) = self.calls.as_mut().and_then(Calls::answer) {
            match result {
                Ok(()) => self.session.answer(number, AnswerKind::Done, ""),
                Err(why) => self.session.answer(number, AnswerKind::Refused, &why),
            }
        }
        loop {
            let step = self.session.work(self.now_ns());
            match step.action {
                None => return Some(step.wake_at_ns),
                Some(Action::Connect(connection)) => self.connect(connection),
                Some(Action::Close) => {
                    self.control = None;
                    self.data.iter_mut().for_each(|socket| *socket = None);
                }
                Some(Action::Command(command)) => {
                    let number = command.number;
                    let is_taken = self.calls.as_mut().is_some_and(|calls| calls.call(command));
                    if !is_taken {
                        let why = "the front-end is at work on the command before";
                        self.session.answer(number, AnswerKind::Refused, why);
                    }
                }
                // It stands in the source's status, and in what `close` returns.
                Some(Action::GaveUp { .. }) => {}
                Some(Action::End) => return None,
            }
        }
    }

    fn connect(&mut self, connection: Connection) {
        let socket = match connection {
            Connection::Control => self.connect_control(),
            Connection::Data(_) => match self.peer {
                Some(peer) => Socket::connect(peer, self.address.tls(), CONNECT_TIMEOUT),
                None => Err(io::ErrorKind::NotConnected.into()),
            },
        };
        let now_ns = self.now_ns();
        match socket {
            Ok(socket) => {
                match connection {
                    Connection::Control => self.control = Some(socket),
                    Connection::Data(number) => self.data[usize::from(number)] = Some(socket),
                }
                self.session.opened(now_ns, connection);
            }
            Err(error) => self.session.closed(now_ns, connection, &error.to_string()),
        }
    }

    /// Tries the host's addresses in their order.
    fn connect_control(&mut self) -> io::Result<Socket> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for peer in self.address.resolve()? {
            if !self.sends_token && !peer.ip().is_loopback() {
                return Err(io::Error::other("a token is sent in the clear to this machine only"));
            }
            match Socket::connect(peer, self.address.tls(), CONNECT_TIMEOUT) {
                Ok(socket) => {
                    self.peer = Some(peer);
                    return Ok(socket);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Writes what the sockets take, up to a bound for each. Returns how many bytes went.
    fn write(&mut self) -> usize {
        let now_ns = self.now_ns();
        let mut all = 0;
        let data = (0..self.data.len() as u16).map(Connection::Data);
        for connection in std::iter::once(Connection::Control).chain(data) {
            let mut left = WRITE_BYTES_MAX;
            loop {
                let socket = match connection {
                    Connection::Control => self.control.as_mut(),
                    Connection::Data(number) => self.data[usize::from(number)].as_mut(),
                };
                let Some(socket) = socket.filter(|socket| left > 0 && !socket.is_blocked) else {
                    break;
                };
                let slices = self.session.transmit(now_ns, connection);
                if slices.bytes() == 0 {
                    break;
                }
                match socket.write(&slices) {
                    Ok(bytes) => {
                        self.session.sent(connection, bytes);
                        (all, left) = (all + bytes, left.saturating_sub(bytes));
                    }
                    Err(error) => {
                        self.session.closed(now_ns, connection, &error.to_string());
                        return all;
                    }
                }
            }
        }
        all
    }

    /// Reads what came on control. Returns how many bytes came.
    fn read(&mut self) -> usize {
        let now_ns = self.now_ns();
        let Some(control) = &mut self.control else { return 0 };
        match control.read(&mut self.buffer) {
            Ok(0) => 0,
            Ok(bytes) => {
                // The session keeps the fault as the reason of its break.
                let _fault = self.session.received(now_ns, &self.buffer[..bytes]);
                bytes
            }
            Err(error) => {
                self.session.closed(now_ns, Connection::Control, &error.to_string());
                0
            }
        }
    }

    /// Waits for sockets and for the front-end.
    fn wait(&mut self, timeout: Duration) {
        let descriptors = &mut self.descriptors;
        descriptors.clear();
        descriptors.push(interest(self.shared.waker.descriptor(), false));
        let sockets = std::iter::once(&self.control).chain(&self.data).flatten();
        descriptors.extend(sockets.map(|it| interest(it.descriptor(), it.is_blocked)));
        wait(descriptors, timeout);
        self.shared.waker.drain();
        let mut ready = self.descriptors[1..].iter().map(|it| it.revents);
        let control = self.control.iter_mut().map(|socket| (Connection::Control, socket));
        let data = self.data.iter_mut().enumerate().filter_map(|(number, socket)| {
            Some((Connection::Data(number as u16), socket.as_mut()?))
        });
        let mut gone = None;
        for ((connection, socket), events) in control.chain(data).zip(&mut ready) {
            if events & (libc::POLLOUT | libc::POLLERR | libc::POLLHUP) != 0 {
                gone = socket.unblock().err().map(|error| (connection, error)).or(gone);
            }
            // Nothing comes on a data connection but its end.
            if events & libc::POLLIN != 0 && connection != Connection::Control {
                let read = socket.read(&mut self.buffer);
                gone = read.err().map(|error| (connection, error)).or(gone);
            }
        }
        if let Some((connection, error)) = gone {
            let now_ns = self.now_ns();
            self.session.closed(now_ns, connection, &error.to_string());
        }
    }

    /// Tells the front-end's threads where the session stands.
    fn publish(&mut self) {
        let state: SenderState = self.session.state();
        let mut shared = self.shared.state.lock();
        if *shared != state {
            *shared = state;
            drop(shared);
            self.shared.tell();
        }
    }
}

/// The thread on which callbacks run, so that the session goes on meanwhile.
struct Calls {
    commands: SyncSender<RunCommand>,
    answer: Arc<Mutex<Option<CallAnswer>>>,
    /// Its answer is not taken yet, although the recorder may have given the command up.
    is_at_work: bool,
}

type CallAnswer = (u64, Result<(), String>);

impl Calls {
    fn start(mut callbacks: Callbacks, shared: &Arc<Shared>) -> io::Result<(Self, JoinHandle<()>)> {
        let (commands, receiver) = sync_channel::<RunCommand>(1);
        let is_at_work = false;
        let answer = Arc::new(Mutex::new(None));
        let (shared, given) = (Arc::clone(shared), Arc::clone(&answer));
        let thread = Builder::new().name("catchment-calls".to_owned()).spawn(move || {
            while let Ok(command) = receiver.recv() {
                let called = catch_unwind(AssertUnwindSafe(|| callbacks(&command)));
                let panicked = |panic: Box<dyn Any + Send>| {
                    let said = panic.downcast_ref::<String>().map(String::as_str);
                    let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
                    format!("the callback panicked: {}", said.unwrap_or("it does not say why"))
                };
                let result = called.unwrap_or_else(|panic| Err(panicked(panic)));
                *given.lock() = Some((command.number, result));
                shared.waker.wake();
            }
        })?;
        Ok((Self { commands, answer, is_at_work }, thread))
    }

    /// Has a command done, unless the one before still is.
    fn call(&mut self, command: RunCommand) -> bool {
        let is_taken = !self.is_at_work && self.commands.try_send(command).is_ok();
        self.is_at_work |= is_taken;
        is_taken
    }

    fn answer(&mut self) -> Option<CallAnswer> {
        let answer = self.answer.lock().take();
        self.is_at_work &= answer.is_none();
        answer
    }
}

/// A connection that cannot be made for so long is given up, and tried again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// After a write that was smaller than this, the thread naps so that more gathers.
const LARGE_WRITE_BYTES: usize = 64 << 10;
const NAP: Duration = Duration::from_micros(50);
const BLOCKED_WAIT: Duration = Duration::from_millis(1);
/// What one connection may write before the others, and what came, have their turn.
const WRITE_BYTES_MAX: usize = 1 << 20;
const READ_BYTES: usize = 64 << 10;
