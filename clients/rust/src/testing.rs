//! A recorder for the tests of front-ends: it accepts, pauses, cuts, restarts, says what is
//! durable, and keeps what it took. No node is needed, and nothing is written.
//!
//! ```
//! use std::time::Duration;
//!
//! use catchment_frontend::{Frontend, testing::Recorder};
//!
//! let recorder = Recorder::start()?;
//! let camera = Frontend::connect(&recorder.url(), "camera")?;
//! camera.send(1, b"first")?;
//! recorder.cut();
//! camera.send(2, b"second")?;
//! assert!(camera.close(Duration::from_secs(10)).is_confirmed());
//! assert_eq!(recorder.taken("camera"), [(1, b"first".to_vec()), (2, b"second".to_vec())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

pub use catchment_sender::testing::{Taken, TakenLog, TestRecorder};

use crate::sockets::{Waker, interest, wait};

/// A recorder at a port of this machine. It ends when it is dropped.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    recorder: TestRecorder,
    /// Bytes that are read of each connection in each millisecond, if that is slow.
    pace: Option<usize>,
    ends: bool,
}

impl Recorder {
    /// Listens at a free port of the loopback interface. What is taken is durable at once, unless
    /// [`durable_at_once`](Self::durable_at_once) says otherwise.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = State { recorder: TestRecorder::default(), pace: None, ends: false };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { state, changed, waker: Waker::new()? });
        let mut service =
            Service { shared: Arc::clone(&shared), listener, sockets: BTreeMap::new(), next: 0 };
        let thread =
            Builder::new().name("test-recorder".to_owned()).spawn(move || service.run())?;
        Ok(Self { shared, address, thread: Some(thread) })
    }

    /// Where front-ends connect.
    pub fn url(&self) -> String {
        format!("catchment+tcp://{}", self.address)
    }

    /// Changes anything of the recorder, or looks at it.
    pub fn with<T>(&self, change: impl FnOnce(&mut TestRecorder) -> T) -> T {
        let result = change(&mut self.shared.state.lock().recorder);
        self.shared.waker.wake();
        result
    }

    /// Waits until what it has is as wanted.
    pub fn wait_until(&self, is_so: impl Fn(&TestRecorder) -> bool) {
        let mut state = self.shared.state.lock();
        while !is_so(&state.recorder) {
            self.shared.changed.wait(&mut state);
        }
    }

    /// Reads no data until [`go_on`](Self::go_on).
    pub fn pause(&self) {
        self.with(|recorder| recorder.is_held = true);
    }

    /// Reads data again.
    pub fn go_on(&self) {
        self.with(|recorder| recorder.is_held = false);
    }

    /// Reads at most so many bytes of each connection in a millisecond; `None`: all.
    pub fn read_slowly(&self, bytes: Option<usize>) {
        self.shared.state.lock().pace = bytes;
        self.shared.waker.wake();
    }

    /// Cuts all connections. Front-ends may come back at once.
    pub fn cut(&self) {
        self.with(TestRecorder::cut);
    }

    /// Dies and comes back at once: what was not durable is forgotten.
    pub fn restart(&self) {
        self.with(TestRecorder::restart);
    }

    /// Whether what is taken is durable at once, or when [`tell_durable`](Self::tell_durable) says
    /// so.
    pub fn durable_at_once(&self, is_at_once: bool) {
        self.with(|recorder| recorder.is_durable_at_once = is_at_once);
    }

    /// All items of a source below a position are durable, as far as they are taken.
    pub fn tell_durable(&self, source: &str, position: u64) {
        self.with(|recorder| recorder.tell_durable(source, position));
    }

    /// Keys and bytes of the fragments that it took of a source, in their order.
    pub fn taken(&self, source: &str) -> Vec<(u64, Vec<u8>)> {
        let state = self.shared.state.lock();
        let log = state.recorder.log(source);
        let fragments = log.into_iter().flat_map(TakenLog::fragments);
        fragments.map(|(key, bytes)| (key, bytes.to_vec())).collect()
    }

    /// What front-ends did wrong, in words.
    pub fn faults(&self) -> Vec<String> {
        self.shared.state.lock().recorder.faults.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.state.lock().ends = true;
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It ends by a panic only if it is broken, which its message has said.
            let _ended = thread.join();
        }
    }
}

struct Service {
    shared: Arc<Shared>,
    listener: TcpListener,
    sockets: BTreeMap<usize, TcpStream>,
    next: usize,
}

impl Service {
    fn run(&mut self) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let shared = Arc::clone(&self.shared);
            let mut state = shared.state.lock();
            if state.ends {
                return;
            }
            self.accept(&mut state.recorder);
            let pace = state.pace;
            let recorder = &mut state.recorder;
            let is_read = |recorder: &TestRecorder, id| !(recorder.is_held && recorder.is_data(id));
            self.sockets.retain(|id, socket| {
                let bytes = pace.unwrap_or(READ_BYTES).min(READ_BYTES);
                let bytes = bytes.min(recorder.read_bytes_max(*id));
                let reads = is_read(recorder, *id);
                let is_alive = serve(recorder, *id, socket, reads, &mut buffer[..bytes]);
                if !is_alive {
                    recorder.closed(*id);
                }
                is_alive
            });
            // What one connection brought may have answers on another: all are asked afterwards.
            let mut descriptors = vec![
                interest(shared.waker.descriptor(), false),
                interest(self.listener.as_raw_fd(), false),
            ];
            for (id, socket) in &self.sockets {
                let has_more = recorder.outgoing(*id).is_some_and(|out| !out.is_empty());
                let mut descriptor = interest(socket.as_raw_fd(), has_more);
                if pace.is_some() || !is_read(recorder, *id) {
                    descriptor.events &= !libc::POLLIN;
                }
                descriptors.push(descriptor);
            }
            drop(state);
            shared.changed.notify_all();
            let timeout = if pace.is_some() { PACE } else { WAIT };
            wait(&mut descriptors, timeout);
            shared.waker.drain();
        }
    }

    fn accept(&mut self, recorder: &mut TestRecorder) {
        while let Ok((socket, _)) = self.listener.accept() {
            if socket.set_nonblocking(true).is_ok() && socket.set_nodelay(true).is_ok() {
                recorder.opened(self.next);
                self.sockets.insert(self.next, socket);
                self.next += 1;
            }
        }
    }
}

/// Reads and writes what there is. Returns whether the connection lives on.
fn serve(
    recorder: &mut TestRecorder,
    id: usize,
    socket: &mut TcpStream,
    is_read: bool,
    buffer: &mut [u8],
) -> bool {
    if is_read && !recorder.is_closing(id) {
        match socket.read(buffer) {
            Ok(0) => return false,
            Ok(bytes) => recorder.received(id, &buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    let is_closing = recorder.is_closing(id);
    let Some(out) = recorder.outgoing(id) else { return false };
    while !out.is_empty() {
        match socket.write(out) {
            Ok(bytes) => drop(out.drain(..bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => return false,
        }
    }
    !(is_closing && out.is_empty())
}

const READ_BYTES: usize = 256 << 10;
const PACE: Duration = Duration::from_millis(1);
const WAIT: Duration = Duration::from_secs(60);
