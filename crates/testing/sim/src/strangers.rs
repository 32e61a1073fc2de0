//! Senders that come under the name of a front-end while that is away, with keys of a kind that the
//! run does not take: they are refused, and nothing else changes.

use catchment_fixtures::Random;
use catchment_wire::session::{self, ByeReason, CONTROL, Control, Fields, Preamble};

use crate::plan::MS;
use crate::recorder::Recorder;
use crate::sessions::FrontEnd;
use crate::trace::{Event, Trace};
use crate::wires::Trouble;

/// The strangers of a run.
#[derive(Debug)]
pub(crate) struct Strangers {
    chance: Random,
    /// The connected strangers: in place of which front-end, at which recorder, and over which
    /// connection.
    here: Vec<(usize, Life, usize)>,
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
    /// It was not refused, or for another reason.
    pub(crate) fn visit(
        &mut self,
        now_ns: u64,
        (sender, front_end): (usize, &FrontEnd),
        (recorder, life): (&mut Recorder, usize),
        trace: &mut Trace,
    ) -> Result<Option<u64>, String> {
        let (source, life) = (front_end.plan.sources[0], (life, recorder.life.deaths));
        if let Some(at) = self.here.iter().position(|(of, ..)| *of == sender) {
            let (_, of, connection) = self.here.swap_remove(at);
            if of == life {
                let who = format!("a stranger in place of {}", front_end.plan.name);
                let told = refused(&recorder.answers(connection));
                let told = told.map_err(|why| format!("{who}{why}"))?;
                trace.push(now_ns, Event::Told(format!("{who} is told {told:?}")));
                recorder.close((connection, source), now_ns);
            }
            return Ok(None);
        }
        let connection = recorder.connect(source);
        let hello = front_end.hello_of_stranger(self.chance.next_u64() | 1);
        recorder.pass((connection, source), &hello, now_ns);
        self.here.push((sender, life, connection));
        Ok(Some(LOOKED_AT_NS))
    }
}

/// The only message is the reason why it is refused. Where agents are slow, nothing has come.
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
/// After how long it goes.
const LOOKED_AT_NS: u64 = 200 * MS;
