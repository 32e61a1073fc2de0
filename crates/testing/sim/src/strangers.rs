//! Senders that come under the name of a front-end while that is away, with keys of a kind that the
//! run does not take: they are refused, and nothing else changes.

use catchment_fixtures::Random;
use catchment_wire::session::{self, ByeReason, CONTROL, Control, Fields, Preamble};

use crate::plan::{MS, S};
use crate::recorder::{self, Recorder};
use crate::sessions::FrontEnd;
use crate::trace::{Event, Trace};
use crate::wires::Trouble;

/// The strangers of a run.
#[derive(Debug)]
pub(crate) struct Strangers {
    chance: Random,
    here: Vec<Stranger>,
}

/// A connected stranger.
#[derive(Debug)]
struct Stranger {
    /// In place of which front-end it came.
    sender: usize,
    at: Life,
    connection: usize,
    came_ns: u64,
    /// What it was answered.
    answers: Vec<u8>,
}

/// A recorder: the number of its run, and how many of that had died.
type Life = (usize, u32);

impl Strangers {
    /// With these random numbers.
    pub(crate) fn new(chance: Random) -> Self {
        Self { chance, here: Vec::new() }
    }

    /// After what time a stranger connects once this has happened to a front-end; none if no
    /// stranger does.
    pub(crate) fn come_ns(&mut self, what: Trouble) -> Option<u64> {
        let is_away = matches!(what, Trouble::Cut | Trouble::Death);
        (is_away && self.chance.chance(300)).then(|| MS + self.chance.below(49 * MS))
    }

    /// One comes in place of a front-end, or is looked at and goes. Returns in how long it is to be
    /// looked at.
    ///
    /// # Errors
    /// It was not refused, or for another reason, or is told nothing.
    pub(crate) fn visit(
        &mut self,
        now_ns: u64,
        (sender, front_end): (usize, &FrontEnd),
        (recorder, life): (&mut Recorder, usize),
        trace: &mut Trace,
    ) -> Result<Option<u64>, String> {
        let (source, life) = (front_end.plan.sources[0], (life, recorder.life.deaths));
        if let Some(at) = self.here.iter().position(|one| one.sender == sender) {
            let mut stranger = self.here.swap_remove(at);
            if stranger.at != life {
                return Ok(None);
            }
            let who = format!("a stranger in place of {}", front_end.plan.name);
            let connection = stranger.connection;
            stranger.answers.extend(recorder.answers(connection));
            let told = refused(&stranger.answers);
            let Some(told) = told.map_err(|why| format!("{who}{why}"))? else {
                if is_late(&recorder.life, stranger.came_ns, now_ns) {
                    return Err(format!("{who} has been told nothing for {ANSWERED_NS} ns"));
                }
                self.here.push(stranger);
                return Ok(Some(LOOKED_AT_NS));
            };
            trace.push(now_ns, Event::Told(format!("{who} is told {told:?}")));
            recorder.close((connection, source), now_ns);
            return Ok(None);
        }
        let connection = recorder.connect(source);
        let hello = front_end.hello_of_stranger(self.chance.next_u64() | 1);
        recorder.pass((connection, source), &hello, now_ns);
        let (at, came_ns, answers) = (life, now_ns, Vec::new());
        self.here.push(Stranger { sender, at, connection, came_ns, answers });
        Ok(Some(LOOKED_AT_NS))
    }
}

/// Whether somebody who came then should have been answered, though agents may have been stopped
/// meanwhile. When a run has ended no new connection is read any more.
fn is_late(life: &recorder::Life, came_ns: u64, now_ns: u64) -> bool {
    let stalled = life
        .stalls
        .iter()
        .map(|&(from_ns, until_ns)| until_ns.min(now_ns).saturating_sub(from_ns.max(came_ns)));
    let waited_ns = (now_ns - came_ns).saturating_sub(stalled.sum());
    life.stopped_ns.is_none() && waited_ns >= ANSWERED_NS
}

/// The only message is the reason why it is refused; none: nothing has come.
fn refused(answers: &[u8]) -> Result<Option<ByeReason>, String> {
    let Some(message) = answers.get(Preamble::BYTES..) else { return Ok(None) };
    let message = session::parse(message, 0, CONTROL).map_err(|fault| format!(": {fault}"))?;
    match message.map(|message| Control::read(&message)) {
        None => Ok(None),
        Some(Ok(Some(Control::Bye(bye, _)))) if REASONS.contains(&bye.reason) => {
            Ok(Some(bye.reason))
        }
        Some(other) => Err(format!(" is told {other:?}")),
    }
}

/// Its keys are no numbers; the front-end is back; the run goes on and is not asked yet.
const REASONS: [ByeReason; 3] = [ByeReason::MIXED, ByeReason::NAME_IN_USE, ByeReason::LATER];
/// After how long it is looked at, and goes if it was told why.
const LOOKED_AT_NS: u64 = 200 * MS;
/// The longest time until it is told, in which agents are called.
const ANSWERED_NS: u64 = 5 * S;
