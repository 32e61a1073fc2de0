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
    /// It was not refused, or for another reason, or was told nothing.
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
            let Stranger { connection, came_ns, .. } = stranger;
            stranger.answers.extend(recorder.answers(connection));
            let told = refused(&stranger.answers).map_err(|why| format!("{who}{why}"))?;
            let stays_ns = (came_ns + ANSWERED_NS).saturating_sub(now_ns);
            if told.is_none() && stays_ns > 0 {
                self.here.push(stranger);
                return Ok(Some(stays_ns));
            }
            if told.is_none() && !was_hindered(&recorder.life, came_ns, now_ns) {
                return Err(format!("{who} is told nothing for {} s", ANSWERED_NS / S));
            }
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

/// Whether an agent was stopped between these times, or the run was ended, behind which no new
/// connection is read.
fn was_hindered(life: &recorder::Life, from_ns: u64, until_ns: u64) -> bool {
    let mut stalls = life.stalls.iter();
    life.stopped_ns.is_some()
        || stalls.any(|&(begin_ns, end_ns)| begin_ns < until_ns && end_ns > from_ns)
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
/// After how long it is looked at first, and then once more if it was told nothing.
const LOOKED_AT_NS: u64 = 200 * MS;
const ANSWERED_NS: u64 = 2 * S;
