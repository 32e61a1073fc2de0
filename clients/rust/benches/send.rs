//! What a front-end sends through loopback to a recorder that counts and discards: GB/s, fragments
//! per second, and core-seconds of the sender.
//!
//! `cargo bench -p catchment-frontend [-- --quick]`. The recorder reads each data connection on a
//! thread of its own, parses every message, and says every 10 ms that all is durable; so the ring
//! of 64 MiB wraps many times. The last column is the CPU time of all threads of the sender (the
//! caller's and the client's) per GB.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catchment_frontend::Frontend;
use catchment_wire::event_link::{self, Data, SourceGrant};
use catchment_wire::session::{
    ByeReason, CONTROL, Control, Encoder, Fields, Grant, GrantAnswer, Grants, LogPositions,
    Positions, Preamble, RunState, Welcome, parse,
};

fn main() {
    // The test command runs benches too, small: only `cargo bench` says `--bench`.
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let quick = has("--quick") || !has("--bench");
    println!("| bytes | GB/s | fragments/s | sender, core-s per GB |");
    println!("|---:|---:|---:|---:|");
    for bytes in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let count = if quick { 1_000 } else { (4_000_000_000 / bytes).min(8_000_000) };
        let mut rounds: Vec<(f64, f64)> =
            (0..if quick { 1 } else { 3 }).map(|_| round(bytes, count)).collect();
        rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (seconds, cpu) = rounds[rounds.len() / 2];
        let gb = (bytes * count) as f64 / 1e9;
        println!(
            "| {bytes} | {:.2} | {:.0} | {:.2} |",
            gb / seconds,
            count as f64 / seconds,
            cpu / gb
        );
    }
}

/// Sends so many fragments, and returns seconds and the sender's CPU seconds.
fn round(bytes: usize, count: usize) -> (f64, f64) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("a port");
    let recorder = std::thread::spawn(move || record(&listener));
    let frontend = Frontend::connect(&format!("catchment+tcp://{address}"), "bench");
    let frontend = frontend.expect("the recorder is there");
    let payload = vec![7; bytes];
    let (begin, cpu) = (Instant::now(), process_cpu());
    for key in 0..count as u64 {
        frontend.send(key, &payload).expect("it is accepted");
    }
    let closed = frontend.close(Duration::from_secs(600));
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), process_cpu() - cpu);
    assert!(closed.is_confirmed(), "{closed:?}");
    let received = recorder.join().expect("no panic");
    (seconds, cpu - received)
}

/// Takes one session of one source to its end. Returns the CPU seconds of its threads.
fn record(listener: &TcpListener) -> f64 {
    let begin = thread_cpu();
    let (mut control, _) = listener.accept().expect("a sender");
    let mut inbox = Inbox::default();
    let session = loop {
        inbox.read(&mut control);
        if let Some(Control::Hello(hello, _)) = inbox.next() {
            break hello.session;
        }
    };
    answer(&mut control, session);
    let (data, _) = listener.accept().expect("a data connection");
    let (taken, received) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&taken), Arc::clone(&received));
    let reader = std::thread::spawn(move || discard(data, &counts));
    control.set_read_timeout(Some(Duration::from_millis(10))).expect("an option");
    let (mut number, mut out) = (2, vec![0; 16_384]);
    loop {
        inbox.read(&mut control);
        while let Some(message) = inbox.next() {
            if let Control::Bye(bye, _) = message {
                let bytes = Control::Bye(bye, "").encode(number, &mut out);
                control.write_all(&out[..bytes]).expect("the sender is there");
                return thread_cpu() - begin + reader.join().expect("no panic");
            }
        }
        let mut counts = [0; 16];
        counts[0] = received.load(Ordering::Relaxed);
        let positions = Positions { cookie: 0, epoch: 0, unread: 0, received: counts };
        let taken = taken.load(Ordering::Relaxed);
        let mut encoder = Encoder::begin(&mut out, number, &positions);
        assert!(encoder.push(&LogPositions { log: 0, flags: 0, taken, durable: taken }));
        let bytes = encoder.finish("", &[]);
        number += 1;
        if control.write_all(&out[..bytes]).is_err() {
            return thread_cpu() - begin + reader.join().expect("no panic");
        }
    }
}

fn answer(control: &mut TcpStream, session: u64) {
    let preamble = Preamble {
        session_min: 1,
        session_max: 1,
        service: catchment_wire::session::Service::Events,
        service_min: 1,
        service_max: 1,
        connection: catchment_wire::session::Connection::Control,
    };
    let welcome = Welcome {
        session,
        run: [1; 16],
        ticket: [2; 16],
        run_number: 1,
        stream: 0,
        epoch: 0,
        state: RunState::Recording,
        features: 0,
        command: 0,
        ping_ms: 500,
        silence_ms: 2_500,
        skew_bytes: 0,
        message_bytes_max: 131_064,
        log_count: 1,
    };
    let mut service = [0; SourceGrant::BYTES];
    SourceGrant { fragment_bytes_max: 1 << 20 }.write(&mut service);
    let (answer, reason, source) = (GrantAnswer::Joins, ByeReason::DONE, 0);
    let grant = Grant { log: 0, answer, reason, next: 0, durable: 0, source, service };
    let mut out = vec![0; 16_384];
    control.write_all(&preamble.encode()).expect("the sender is there");
    let bytes = Control::Welcome(welcome).encode(0, &mut out);
    control.write_all(&out[..bytes]).expect("the sender is there");
    let mut encoder = Encoder::begin(&mut out, 1, &Grants {});
    assert!(encoder.push(&grant));
    let bytes = encoder.finish("", &[]);
    control.write_all(&out[..bytes]).expect("the sender is there");
}

/// What came on control.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    used: usize,
    number: u32,
    has_preamble: bool,
}

impl Inbox {
    fn read(&mut self, control: &mut TcpStream) {
        self.bytes.drain(..std::mem::take(&mut self.used));
        let mut buffer = [0; 16_384];
        // A time-out brings nothing; so does an end.
        let bytes = control.read(&mut buffer).unwrap_or(0);
        self.bytes.extend_from_slice(&buffer[..bytes]);
    }

    fn next(&mut self) -> Option<Control<'_>> {
        if !self.has_preamble {
            Preamble::parse(&self.bytes).expect("a preamble")?;
            (self.has_preamble, self.used) = (true, Preamble::BYTES);
        }
        let message = parse(&self.bytes[self.used..], self.number, CONTROL).expect("a message")?;
        self.used += message.used;
        self.number += 1;
        Control::read(&message).expect("a message")
    }
}

/// Parses and discards all that comes. Returns the thread's CPU seconds.
fn discard(mut data: TcpStream, counts: &(Arc<AtomicU64>, Arc<AtomicU64>)) -> f64 {
    let begin = thread_cpu();
    let bounds = event_link::bounds(131_064);
    let mut buffer = vec![0; 1 << 20];
    let (mut end, mut number, mut parts, mut is_attached) = (0, 0, BTreeMap::new(), false);
    loop {
        let bytes = data.read(&mut buffer[end..]).unwrap_or(0);
        if bytes == 0 {
            return thread_cpu() - begin;
        }
        counts.1.fetch_add(bytes as u64, Ordering::Relaxed);
        end += bytes;
        let mut used = 0;
        if !is_attached && end >= Preamble::BYTES {
            (is_attached, used) = (true, Preamble::BYTES);
        }
        while let Some(message) = parse(&buffer[used..end], number, bounds).expect("a message") {
            let taken = match Data::read(&message).expect("a message") {
                Some(Data::Fragments(fixed, records, _)) => fixed.sequence + records.len() as u64,
                Some(Data::Part(part, body)) => {
                    let got = parts.entry(part.sequence).or_insert(0);
                    *got += body.len() as u64;
                    part.sequence + u64::from(*got == part.fragment_bytes)
                }
                _ => 0,
            };
            counts.0.fetch_max(taken, Ordering::Relaxed);
            (used, number) = (used + message.used, number + 1);
        }
        buffer.copy_within(used..end, 0);
        end -= used;
    }
}

fn process_cpu() -> f64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn thread_cpu() -> f64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is on the stack.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0, "the clock exists");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
