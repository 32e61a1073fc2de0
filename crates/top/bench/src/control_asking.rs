//! A client that asks a node at a steady pace, whatever the answers take.
//!
//! Each request has a time at which it is due, and its latency counts from then: a node that stalls
//! for a second is late for every request that was due in that second, not only for the one that
//! happened to be sent. (A client that waits for one answer before it sends the next would leave
//! out what it did not ask meanwhile.)

use std::io::{BufRead as _, BufReader};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use catchment_console::{Client, ConsoleError, Target};
use serde_json::json;

/// The pace of the requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Requests per second, of all routes in turn.
    pub(super) per_second: f64,
    /// Clients that read the stream besides.
    pub(super) streams: usize,
    pub(super) seconds: f64,
    /// The run that is asked for.
    pub(super) run: u64,
}

/// The latencies of the answers, and the requests that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// The route's index in [`ROUTES`], and milliseconds from when the request was due until the
    /// answer was there as a whole.
    pub(super) answered: Vec<(usize, f64)>,
    /// Requests that got no answer, or one that says that the node could not.
    pub(super) failed: Vec<String>,
    /// How much later than half a second after the one before a state came through a stream, in ms.
    pub(super) pushed_late: Vec<f64>,
    /// How old it was then, in ms: the node looks at itself twice a second.
    pub(super) pushed_age: Vec<f64>,
}

impl Answers {
    /// Adds those of another client, or of another time.
    pub(super) fn add(&mut self, other: Self) {
        self.answered.extend(other.answered);
        self.failed.extend(other.failed);
        self.pushed_late.extend(other.pushed_late);
        self.pushed_age.extend(other.pushed_age);
    }
}

/// The one route whose answer may be to ask again.
const SAMPLE: &str = "GET a source's sample";
/// The names of the routes that are requested in turn.
pub(super) const ROUTES: [&str; 17] = [
    "GET state",
    "GET sources",
    "GET devices",
    "GET runs",
    "GET run",
    "GET run's ledger",
    "GET history, 10 min",
    "GET history, a day",
    "GET metrics",
    "GET logs",
    "GET alarms",
    SAMPLE,
    "GET the page",
    "PATCH run (quality)",
    "PATCH properties",
    "POST command (refused)",
    "POST acknowledge",
];

/// How often a stream brings the state.
const EVERY: Duration = Duration::from_millis(500);
/// Connections that ask.
const CLIENTS: usize = 8;

/// Asks for as long as the pace says.
///
/// # Errors
/// The node cannot be reached at all.
pub(super) fn ask(url: &str, pace: &Pace) -> anyhow::Result<Answers> {
    let (next, end) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| {
        let streams: Vec<_> =
            (0..pace.streams).map(|_| scope.spawn(|| read_stream(url, &end))).collect();
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| ask_in_turn(url, pace, start, &next))).collect();
        let mut all = Answers::default();
        let asked: Vec<_> = clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        end.store(true, Relaxed);
        let read: Vec<_> = streams.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        for answers in asked.into_iter().chain(read) {
            all.add(answers.map_err(|_| anyhow::anyhow!("a client's thread failed"))??);
        }
        Ok(all)
    })
}

/// One connection's share: whichever request is due next.
fn ask_in_turn(
    url: &str,
    pace: &Pace,
    start: Instant,
    next: &AtomicU64,
) -> anyhow::Result<Answers> {
    let client = Client::new(&Target::of(url))?;
    let mut answers = Answers::default();
    loop {
        let number = next.fetch_add(1, Relaxed);
        let due = Duration::from_secs_f64(number as f64 / pace.per_second);
        if due.as_secs_f64() >= pace.seconds {
            return Ok(answers);
        }
        let due = start + due;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let route = number as usize % ROUTES.len();
        let answer = request(&client, route, pace.run, number);
        answers.answered.push((route, due.elapsed().as_secs_f64() * 1e3));
        match answer {
            // What is not legal now was looked at and answered.
            Ok(()) | Err(ConsoleError::Refused { status: 409, .. }) => {}
            // A sample that is being read is to be asked for again; from other routes it is a
            // failure.
            Err(ConsoleError::Refused { status: 503, .. }) if ROUTES[route] == SAMPLE => {}
            Err(error) => {
                let error = anyhow::Error::from(error);
                answers.failed.push(format!("{}: {error:#}", ROUTES[route]));
            }
        }
    }
}

fn request(client: &Client, route: usize, run: u64, number: u64) -> Result<(), ConsoleError> {
    let get = |path: &str| client.text(path).map(|_| ());
    match ROUTES[route] {
        "GET state" => get("/api/v1/state"),
        "GET sources" => get("/api/v1/sources"),
        "GET devices" => get("/api/v1/devices"),
        "GET runs" => get("/api/v1/runs?limit=50"),
        "GET run" => get(&format!("/api/v1/runs/{run}")),
        "GET run's ledger" => get(&format!("/api/v1/runs/{run}/ledger")),
        "GET history, 10 min" => get("/api/v1/history?seconds=600&points=300"),
        "GET history, a day" => get("/api/v1/history?seconds=86400&points=300"),
        "GET metrics" => get("/metrics"),
        "GET logs" => get("/api/v1/logs?limit=500"),
        "GET alarms" => get("/api/v1/alarms"),
        SAMPLE => get(&format!("/api/v1/sources/small-{:02}/sample", number % 60)),
        "GET the page" => get("/"),
        "PATCH run (quality)" => {
            let quality = if number.is_multiple_of(2) { "good" } else { "unknown" };
            let quality = json!({ "quality": quality });
            client.patch(&format!("/api/v1/runs/{run}"), &quality).map(|_| ())
        }
        "PATCH properties" => {
            let seed = json!({ "seed": number });
            client.patch("/api/v1/devices/node/emulator/properties", &seed).map(|_| ())
        }
        "POST command (refused)" => {
            // It goes the whole way to the state machine: a run that records cannot be armed.
            let command = json!({ "request": format!("ask-{run}-{number}"), "command": "arm" });
            client.post("/api/v1/commands", &command).map(|_| ())
        }
        _ => client.post("/api/v1/alarms/1/acknowledge", &json!({})).map(|_| ()),
    }
}

/// Reads the stream until it is enough; how late each state came.
fn read_stream(url: &str, end: &AtomicBool) -> anyhow::Result<Answers> {
    let agent = ureq::Agent::new_with_defaults();
    let response = agent.get(format!("{url}/api/v1/stream")).call().context("the stream")?;
    let mut answers = Answers::default();
    let (mut state, mut before) = (false, None);
    for line in BufReader::new(response.into_body().into_reader()).lines() {
        let Ok(line) = line else {
            answers.failed.push("the stream broke off".into());
            break;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        if let Some(data) = line.strip_prefix("data:").filter(|_| state) {
            let value: serde_json::Value = serde_json::from_str(data)?;
            let taken: catchment_model::Utc =
                value["time"].as_str().context("a state without a time")?.parse()?;
            answers.pushed_age.push((now.as_nanos() as f64 - taken.0 as f64) / 1e6);
            if let Some(before) = before.replace(now) {
                let gap = now.saturating_sub(before);
                answers.pushed_late.push(gap.saturating_sub(EVERY).as_secs_f64() * 1e3);
            }
        }
        state = if line.starts_with("event:") { line.ends_with("state") } else { state };
        if end.load(Relaxed) {
            break;
        }
    }
    Ok(answers)
}
