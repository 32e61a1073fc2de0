//! The timer of a chain of detectors (docs/spec/timer.md): feeders learn from it when a train is
//! due, nodes which run they record. Lines of text over TCP.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_model::RunId;
use serde::Serialize;

/// Ticks at a steady rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickGroup {
    /// Its number, by which clients ask for it.
    pub id: u32,
    /// From one tick to the next.
    pub period: Duration,
    /// From the beginning to its first tick.
    pub phase: Duration,
    /// How many it has; without it they go on until the timer is stopped.
    pub ticks: Option<u64>,
}

/// What a timer does.
#[derive(Clone, Debug)]
pub struct TimerConfig {
    /// Its groups. Their time begins when each of them has a client.
    pub groups: Vec<TickGroup>,
    /// The number of the first run that it hands out.
    pub first_run: u64,
}

/// What a timer did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimerReport {
    /// Clients that were answered.
    pub clients: u64,
    /// Clients that asked for nothing that there is, or were too many.
    pub refused: u64,
    /// Ticks that were sent, of each client.
    pub sent: u64,
    /// Ticks that were not, since their client had not read those before.
    pub unsent: u64,
    /// Runs that were handed out.
    pub runs: u64,
}

/// A timer that accepts clients.
#[derive(Debug)]
pub struct TimerServer {
    listener: TcpListener,
    address: SocketAddr,
    config: TimerConfig,
    clients: Vec<Client>,
    begin: Option<Instant>,
    /// Of each group, the number of its next tick.
    next: Vec<u64>,
    run: Option<(RunId, u64)>,
    /// The streams that have it.
    given: BTreeSet<u32>,
    report: TimerReport,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    since: Instant,
    /// What it asked, or the rest of what it has not been able to take.
    pending: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asking,
    /// Has the ticks of that group, by its place.
    Ticking(usize),
    /// Is closed when it has been told.
    Leaving,
    Gone,
}

impl TimerServer {
    /// Listens at an address.
    ///
    /// # Errors
    /// The address is in use, or not of this machine.
    pub fn bind(address: SocketAddr, config: TimerConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            next: vec![0; config.groups.len()],
            config,
            clients: Vec::new(),
            begin: None,
            run: None,
            given: BTreeSet::new(),
            report: TimerReport::default(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ticks until every group has had all its ticks, or `stop` is set. A timer without groups
    /// hands out runs until it is stopped. `told` is called now and then with what it has done.
    ///
    /// # Errors
    /// The system refuses its socket, or has no random bits for a run.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        told: impl Fn(&TimerReport),
    ) -> io::Result<TimerReport> {
        loop {
            self.accept()?;
            self.serve()?;
            let due = self.tick();
            told(&self.report);
            let is_over = stop.load(Relaxed) || (due.is_none() && self.begin.is_some());
            if is_over {
                self.end(stop);
                return Ok(self.report);
            }
            let wait = due.map_or(LOOK_EACH, |due| due.saturating_duration_since(Instant::now()));
            std::thread::sleep(wait.min(LOOK_EACH));
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if self.clients.len() < CLIENTS_MAX => {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let (since, pending, state) = (Instant::now(), Vec::new(), State::Asking);
                    self.clients.push(Client { stream, since, pending, state });
                }
                Ok(_) => self.report.refused += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client is gone again, or there are too many descriptors: it tries again.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Reads what clients ask, and gives those that could not take everything the rest.
    fn serve(&mut self) -> io::Result<()> {
        let mut clients = std::mem::take(&mut self.clients);
        for client in &mut clients {
            match client.state {
                State::Asking => {
                    if let Some(asked) = client.asked() {
                        self.answer(client, &asked)?;
                    }
                }
                _ => client.flush(),
            }
        }
        clients.retain(|client| client.state != State::Gone);
        self.clients = clients;
        let is_ticked =
            |group| self.clients.iter().any(|client| client.state == State::Ticking(group));
        if self.begin.is_none() && !self.next.is_empty() && (0..self.next.len()).all(is_ticked) {
            self.begin = Some(Instant::now());
        }
        Ok(())
    }

    fn answer(&mut self, client: &mut Client, asked: &str) -> io::Result<()> {
        let mut words = asked.split_ascii_whitespace();
        let (what, number) = (words.next(), words.next().and_then(|word| word.parse().ok()));
        let (answer, state) = match (what, number, words.next()) {
            (Some("group"), Some(id), None) => {
                let place = self.config.groups.iter().position(|group| group.id == id);
                match place.map(|place| (place, self.config.groups[place])) {
                    Some((place, group)) => {
                        let period = group.period.as_nanos();
                        (format!("group {id} {period}\n"), State::Ticking(place))
                    }
                    None => (format!("error no group {id}\n"), State::Leaving),
                }
            }
            (Some("node"), Some(stream), None) => {
                let (id, number) = self.run_for(stream)?;
                (format!("run {id} {number}\n"), State::Leaving)
            }
            _ => ("error expected group NUMBER or node STREAM\n".to_owned(), State::Leaving),
        };
        let is_refused = answer.starts_with("error");
        *(if is_refused { &mut self.report.refused } else { &mut self.report.clients }) += 1;
        client.state = state;
        client.say(&answer);
        Ok(())
    }

    /// The run that nodes record. A stream that has it already begins the next one.
    fn run_for(&mut self, stream: u32) -> io::Result<(RunId, u64)> {
        if let Some(run) = self.run.filter(|_| self.given.insert(stream)) {
            return Ok(run);
        }
        let mut id = RunId([0; 16]);
        getrandom::fill(&mut id.0)?;
        let run = (id, self.config.first_run.saturating_add(self.report.runs));
        self.report.runs += 1;
        self.given = BTreeSet::from([stream]);
        self.run = Some(run);
        Ok(run)
    }

    /// Sends the ticks that are due; returns when the next one is, if there is one.
    fn tick(&mut self) -> Option<Instant> {
        let (begin, now) = (self.begin?, Instant::now());
        let mut soonest: Option<Instant> = None;
        for (place, group) in self.config.groups.iter().enumerate() {
            let last = group.ticks.unwrap_or(u64::MAX);
            let due = |tick: u64| {
                let nanos = group.period.as_nanos().saturating_mul(tick.into());
                let passed = u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos);
                begin.checked_add(group.phase.saturating_add(passed))
            };
            while self.next[place] < last
                && let Some(at) = due(self.next[place])
            {
                if at > now {
                    soonest = Some(soonest.map_or(at, |soonest| soonest.min(at)));
                    break;
                }
                let line = format!("tick {}\n", self.next[place]);
                for client in &mut self.clients {
                    if client.state == State::Ticking(place) {
                        let is_sent = client.pending.is_empty() && client.say(&line);
                        let report = &mut self.report;
                        *(if is_sent { &mut report.sent } else { &mut report.unsent }) += 1;
                    }
                }
                self.next[place] += 1;
            }
        }
        soonest
    }

    /// Tells clients that there is nothing more.
    fn end(&mut self, stop: &AtomicBool) {
        let since = Instant::now();
        for client in &mut self.clients {
            if matches!(client.state, State::Ticking(_)) {
                client.pending.extend(b"end\n");
                client.state = State::Leaving;
                client.flush();
            }
        }
        let is_over = || stop.load(Relaxed) || since.elapsed() > PATIENCE;
        while self.clients.iter().any(|client| client.state == State::Leaving) && !is_over() {
            std::thread::sleep(LOOK_EACH);
            let leaving = self.clients.iter_mut().filter(|one| one.state == State::Leaving);
            leaving.for_each(Client::flush);
        }
    }
}

impl Client {
    /// The line that it asks with, when it is there. One that says nothing in time is closed.
    fn asked(&mut self) -> Option<String> {
        let mut bytes = [0; LINE_MAX];
        match self.stream.read(&mut bytes[self.pending.len()..]) {
            Ok(0) => self.state = State::Gone,
            Ok(count) => {
                let end = self.pending.len() + count;
                self.pending.extend_from_slice(&bytes[self.pending.len()..end]);
            }
            Err(error) if is_for_now(&error) => {
                if self.since.elapsed() > PATIENCE {
                    self.state = State::Gone;
                }
            }
            Err(_) => self.state = State::Gone,
        }
        let end = self.pending.iter().position(|&byte| byte == b'\n');
        // A line that is too long asks for nothing that there is.
        let end = end.or((self.pending.len() == LINE_MAX).then_some(LINE_MAX))?;
        let asked = String::from_utf8_lossy(&self.pending[..end]).into_owned();
        self.pending.clear();
        Some(asked)
    }

    /// Sends a line; what does not fit waits. Whether any of it could be sent.
    fn say(&mut self, line: &str) -> bool {
        self.pending.extend(line.as_bytes());
        self.flush();
        let is_sent = self.pending.len() < line.len();
        if !is_sent {
            self.pending.clear();
        }
        is_sent
    }

    fn flush(&mut self) {
        while !self.pending.is_empty() && self.state != State::Gone {
            match self.stream.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if is_for_now(&error) => return,
                Err(_) => self.state = State::Gone,
            }
        }
        if self.state == State::Leaving {
            self.state = State::Gone;
        }
    }
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The ticks of one group, as a client hears them.
#[derive(Debug)]
pub struct Ticks {
    lines: Lines,
    period: Duration,
    /// The tick that follows the last one that was heard.
    next: Option<u64>,
    skipped: u64,
}

impl Ticks {
    /// Asks a timer for the ticks of a group.
    ///
    /// # Errors
    /// It cannot be reached, or has no such group.
    pub fn join(timer: SocketAddr, group: u32) -> io::Result<Self> {
        let mut lines = Lines::ask(timer, &format!("group {group}\n"))?;
        let line = lines.answer()?;
        let nanos = match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            ["group", id, nanos] if id.parse() == Ok(group) => nanos.parse().ok(),
            _ => None,
        };
        let period = Duration::from_nanos(nanos.ok_or_else(|| refused(&line))?);
        Ok(Self { lines, period, next: None, skipped: 0 })
    }

    /// From one tick to the next.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Ticks that came while the client was not ready for them.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Waits for a tick and returns its number: the newest, if several have come. `None`: there are
    /// no more, or `stop` is set.
    ///
    /// # Errors
    /// The timer is gone, or says what no timer says.
    pub fn wait(&mut self, stop: &AtomicBool) -> io::Result<Option<u64>> {
        let mut newest = None;
        while !stop.load(Relaxed) {
            match self.lines.next() {
                Some(line) => match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
                    ["tick", number] => newest = number.parse::<u64>().ok().or(newest),
                    // Said again after the tick before it.
                    ["end"] if newest.is_some() => {
                        self.lines.unread(&line);
                        break;
                    }
                    ["end"] => return Ok(None),
                    _ => return Err(refused(&line)),
                },
                None if newest.is_some() => break,
                None => self.lines.read()?,
            }
        }
        if let Some(number) = newest {
            self.skipped += self.next.map_or(0, |next| number.saturating_sub(next));
            self.next = Some(number.saturating_add(1));
        }
        Ok(newest.filter(|_| !stop.load(Relaxed)))
    }
}

/// Asks a timer which run a node records as that stream, and its number.
///
/// # Errors
/// It cannot be reached, or does not say.
pub fn run_of_timer(timer: SocketAddr, stream: u32) -> io::Result<(RunId, u64)> {
    let mut lines = Lines::ask(timer, &format!("node {stream}\n"))?;
    let line = lines.answer()?;
    let run = match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["run", id, number] => id.parse().ok().zip(number.parse().ok()),
        _ => None,
    };
    run.ok_or_else(|| refused(&line))
}

fn refused(line: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the timer says {line:?}"))
}

/// What a timer says, by line.
#[derive(Debug)]
struct Lines {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Lines {
    fn ask(timer: SocketAddr, question: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&timer, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(STOP_LOOKED_AT_EACH))?;
        stream.write_all(question.as_bytes())?;
        Ok(Self { stream, heard: Vec::new() })
    }

    /// The first line, which a timer has to say at once.
    fn answer(&mut self) -> io::Result<String> {
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            if let Some(line) = self.next() {
                return Ok(line);
            }
            self.read()?;
        }
        Err(io::Error::new(ErrorKind::TimedOut, "the timer does not answer"))
    }

    fn next(&mut self) -> Option<String> {
        let end = self.heard.iter().position(|&byte| byte == b'\n')?;
        let line = String::from_utf8_lossy(&self.heard[..end]).into_owned();
        self.heard.drain(..=end);
        Some(line)
    }

    fn unread(&mut self, line: &str) {
        self.heard.splice(0..0, format!("{line}\n").into_bytes());
    }

    /// Waits for more, for [`STOP_LOOKED_AT_EACH`] at most.
    fn read(&mut self) -> io::Result<()> {
        if self.heard.len() >= HEARD_MAX {
            return Err(refused("a line without an end"));
        }
        let mut bytes = [0; HEARD_MAX];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the timer is gone")),
            Ok(count) => {
                self.heard.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if is_for_now(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The longest line of a client.
const LINE_MAX: usize = 64;
/// What a client reads at once: more ticks than it can be late for.
const HEARD_MAX: usize = 4_096;
/// Further clients are closed.
const CLIENTS_MAX: usize = 256;
/// How long a peer may take for a line.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a timer looks for clients.
const LOOK_EACH: Duration = Duration::from_millis(2);
const STOP_LOOKED_AT_EACH: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread::JoinHandle;

    use super::*;

    /// A timer of groups with that period and so many ticks, until it ends or is dropped.
    struct Running {
        address: SocketAddr,
        stop: Arc<AtomicBool>,
        thread: Option<JoinHandle<io::Result<TimerReport>>>,
    }

    impl Running {
        fn new(groups: &[u32], period: Duration, ticks: Option<u64>) -> Self {
            let group = |&id| TickGroup { id, period, phase: Duration::ZERO, ticks };
            let groups = groups.iter().map(group).collect();
            let config = TimerConfig { groups, first_run: 7 };
            let server = TimerServer::bind("127.0.0.1:0".parse().unwrap(), config).unwrap();
            let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
            let stopped = Arc::clone(&stop);
            let thread = std::thread::spawn(move || server.run(&stopped, |_| {}));
            Self { address, stop, thread: Some(thread) }
        }

        /// What it did, when it has ended by itself.
        fn ended(mut self) -> TimerReport {
            self.thread.take().unwrap().join().unwrap().unwrap()
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.stop.store(true, Relaxed);
            self.thread.take().map(JoinHandle::join);
        }
    }

    static NEVER: AtomicBool = AtomicBool::new(false);
    const MS: Duration = Duration::from_millis(1);

    fn heard(ticks: &mut Ticks) -> Vec<u64> {
        std::iter::from_fn(|| ticks.wait(&NEVER).unwrap()).collect()
    }

    #[test]
    fn each_group_has_its_ticks_and_time_begins_when_all_have_clients() {
        let timer = Running::new(&[3, 8], MS, Some(5));
        let mut first = Ticks::join(timer.address, 3).unwrap();
        assert_eq!(first.period(), MS);
        let mut second = Ticks::join(timer.address, 8).unwrap();
        for ticks in [&mut first, &mut second] {
            // A client is late on a busy machine, and then says so.
            let numbers = heard(ticks);
            assert!(numbers.is_sorted() && numbers.last() == Some(&4), "{numbers:?}");
            let missed = (numbers[0] + ticks.skipped()) as usize;
            assert_eq!(numbers.len() + missed, 5);
        }
        let report = timer.ended();
        assert_eq!((report.clients, report.sent + report.unsent), (2, 10));
    }

    #[test]
    fn a_late_client_gets_the_newest_tick_and_counts_the_others() {
        let timer = Running::new(&[0], MS, Some(20));
        let address = timer.address;
        let mut ticks = Ticks::join(address, 0).unwrap();
        assert_eq!(timer.ended().sent, 20);
        // The answer may have come with the first ones of them.
        ticks.lines.read().unwrap();
        // All of them have come by now.
        assert_eq!((ticks.wait(&NEVER).unwrap(), ticks.skipped()), (Some(19), 0));
        assert_eq!(ticks.wait(&NEVER).unwrap(), None);
        assert!(Ticks::join(address, 0).is_err());
    }

    #[test]
    fn skipped_ticks_are_those_between_two_that_were_heard() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let timer = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut asked = [0; 8];
            client.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"group 5\n");
            client.write_all(b"group 5 1000\ntick 4\n").unwrap();
            client
        });
        let mut ticks = Ticks::join(address, 5).unwrap();
        let mut client = timer.join().unwrap();
        assert_eq!((ticks.wait(&NEVER).unwrap(), ticks.skipped()), (Some(4), 0));
        client.write_all(b"tick 5\ntick 6\ntick 9\n").unwrap();
        assert_eq!((ticks.wait(&NEVER).unwrap(), ticks.skipped()), (Some(9), 4));
        client.write_all(b"tock 10\n").unwrap();
        let error = ticks.wait(&NEVER).unwrap_err();
        assert_eq!(error.to_string(), "the timer says \"tock 10\"");
        drop(client);
        assert_eq!(ticks.wait(&NEVER).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn nodes_get_the_same_run_until_one_asks_again() {
        let timer = Running::new(&[], MS, None);
        let run = |stream| run_of_timer(timer.address, stream).unwrap();
        let (first, number) = run(0);
        assert_eq!((run(1), number), ((first, 7), 7));
        let (second, number) = run(1);
        assert_eq!(number, 8);
        assert_ne!(second, first);
        assert_eq!(run(0), (second, 8));
    }

    #[test]
    fn what_a_timer_does_not_understand_costs_that_client_only() {
        let timer = Running::new(&[1], MS, Some(3));
        let long = "x".repeat(200);
        for question in ["group 2\n", "group -1\n", "node\n", "node 1 2\n", "\n", &long, "\u{ff}\n"]
        {
            let mut lines = Lines::ask(timer.address, question).unwrap();
            let answer = lines.answer();
            // Of a question with more than it reads the system may drop the answer.
            let is_error = |line: &String| line.starts_with("error ");
            assert!(answer.as_ref().map_or(question == long, is_error), "{question:?}: {answer:?}");
        }
        assert_eq!(heard(&mut Ticks::join(timer.address, 1).unwrap()).last(), Some(&2));
        assert_eq!(timer.ended().refused, 7);
    }
}
