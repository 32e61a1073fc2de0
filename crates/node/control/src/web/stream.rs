//! The stream of updates: server-sent events, pushed to every client.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::problem::Problem;
use crate::security::guard::{Peer, Who};
use crate::security::limit::{Share, Shares};
use crate::shared::{NodeShared, Shared};

/// Streams at a time.
const STREAMS_MAX: usize = 100;
/// Streams at a time from one address.
const STREAMS_EACH: usize = 16;
/// How often the state is sent; the sources are sent every second time.
const EVERY: Duration = Duration::from_millis(500);
/// The most log lines sent per tick; a client that wants all requests the log.
const LINES_MAX: usize = 50;

/// The number of streams, and their end.
#[derive(Clone)]
pub(super) struct Streams {
    free: Arc<Semaphore>,
    shares: Arc<Shares>,
    stopped: watch::Receiver<bool>,
}

impl Streams {
    pub(super) fn new(stopped: watch::Receiver<bool>) -> Self {
        let free = Arc::new(Semaphore::new(STREAMS_MAX));
        Self { free, shares: Shares::new(STREAMS_EACH), stopped }
    }
}

/// One client's stream.
struct Reader {
    shared: Arc<NodeShared>,
    who: Who,
    ticks: Interval,
    count: u64,
    line: u64,
    alarms: Option<u64>,
    stopped: watch::Receiver<bool>,
    waiting: std::collections::VecDeque<Event>,
    _held: (OwnedSemaphorePermit, Share),
}

/// Updates as server-sent events: `state` every 0.5 s, `sources` every second, `log` and `alarm`
/// when there are new ones. It ends with the token or the session with which it was opened.
#[utoipa::path(get, path = "/api/v1/stream", tag = "node",
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub(super) async fn stream(
    State(shared): Shared,
    Extension(streams): Extension<Streams>,
    Extension(who): Extension<Who>,
    Extension(Peer(peer)): Extension<Peer>,
) -> Result<impl IntoResponse, Problem> {
    let permit = streams
        .free
        .try_acquire_owned()
        .map_err(|_| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many streams are open"))?;
    let Some(share) = streams.shares.take(peer.ip()) else {
        shared.counts.refused_streams.fetch_add(1, Relaxed);
        let detail = format!("expected at most {STREAMS_EACH} streams from one address");
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail));
    };
    shared.counts.streams.fetch_add(1, Relaxed);
    let mut ticks = interval(EVERY);
    // A client that did not read gets the present state, not the past.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let first = Event::default().retry(Duration::from_secs(1)).comment("catchment");
    let reader = Reader {
        line: shared.logs.count(),
        shared,
        who,
        ticks,
        count: 0,
        alarms: None,
        stopped: streams.stopped,
        waiting: [first].into(),
        _held: (permit, share),
    };
    let events = unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Ok(([("x-accel-buffering", "no")], Sse::new(events)))
}

impl Reader {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let stopped = tokio::select! {
                _ = self.ticks.tick() => false,
                _ = self.stopped.wait_for(|stop| *stop) => true,
            };
            if stopped || !self.who.stands(&self.shared) {
                return None;
            }
            self.look();
        }
    }

    fn look(&mut self) {
        let view = self.shared.view();
        let event = |name: &str, json: &str| Event::default().event(name).data(json);
        self.waiting.push_back(event("state", &view.state_json));
        if self.count.is_multiple_of(2) {
            self.waiting.push_back(event("sources", &view.sources_json));
        }
        self.count += 1;
        if self.alarms != Some(view.alarms_changed) {
            self.alarms = Some(view.alarms_changed);
            let json = serde_json::to_string(&view.alarms).unwrap_or_default();
            self.waiting.push_back(event("alarm", &json));
        }
        let (lines, next) = self.shared.logs.since(self.line);
        self.line = next;
        for line in lines.iter().rev().take(LINES_MAX).rev() {
            let json = serde_json::to_string(line).unwrap_or_default();
            self.waiting.push_back(event("log", &json));
        }
    }
}
