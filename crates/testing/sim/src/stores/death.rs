//! A recorder that dies, and the next one: it asks the node what that has of the run, and goes on
//! behind it, by the node's and the recorder's own code.

use catchment_model::{Entry, RunId};
use catchment_recorder::{NodeQuestion, RecorderConfig};
use catchment_storage::Resumable;

use super::node::SimNode;
use super::oracle::walked;
use super::world::World;
use crate::fault::Fault;
use crate::plan::{MS, S};
use crate::recorder::Recorder;
use crate::trace::Event;

/// That there is no recorder, and another one asks.
pub(super) struct Dead {
    /// When it asks, or goes on asking, and until when it tries.
    pub(super) due_ns: u64,
    until_ns: u64,
    /// The question that is under way, and when it is given up.
    question: Option<(NodeQuestion, u64)>,
}

impl World<'_> {
    /// The recorder is killed. Another one asks after so long.
    pub(super) fn die(&mut self, for_ns: u64) {
        let now_ns = self.clock.now_ns();
        *self.happened.entry(Fault::Kill).or_default() += 1;
        self.trace.push(now_ns, Event::Fault("the recorder is killed".to_owned()));
        let Recorder { observer, life, slots, .. } = &mut self.recorder;
        life.dies(observer.snapshot(), None);
        slots.clear();
        let is_silent = self.times.chance(300);
        self.leave(is_silent);
        let due_ns = now_ns + for_ns;
        self.dead = Some(Dead { due_ns, until_ns: due_ns + RESUME_NS, question: None });
    }

    /// All connections to nodes are left.
    fn leave(&mut self, is_silent: bool) {
        self.network.leave(is_silent);
        let now_ns = self.clock.now_ns();
        self.nodes.iter_mut().for_each(|node| node.wake(now_ns));
    }

    /// Asks, if that is due, and goes on with the run when there is an answer.
    ///
    /// # Errors
    /// The answer is wrong, or there is none though nothing keeps the node from it.
    pub(super) fn ask(&mut self) -> Result<(), String> {
        let now_ns = self.clock.now_ns();
        let Some(dead) = self.dead.as_mut().filter(|dead| dead.due_ns <= now_ns) else {
            return Ok(());
        };
        dead.due_ns = now_ns + MS;
        let (question, gives_up_ns) = match &mut dead.question {
            Some(question) => question,
            none => {
                let run_id = Some(RunId([1; 16]));
                let config = RecorderConfig { run_id, ..self.plan.base.config.clone() };
                let dial = self.network.dials(1).remove(0);
                let numbers = (self.times.next_u64() | 1, self.times.next_u64());
                let question = NodeQuestion::new(&config, "run", dial, numbers);
                none.insert((question.map_err(|why| why.to_string())?, now_ns + ASK_WITHIN_NS))
            }
        };
        let answer = match question.work(now_ns) {
            None if now_ns < *gives_up_ns => return Ok(()),
            None => Err(("no answer".to_owned(), true)),
            Some(answer) => answer,
        };
        let until_ns = dead.until_ns;
        dead.question = None;
        self.leave(false);
        match answer {
            Ok(from) => self.go_on(&from),
            Err((_, true)) if now_ns < until_ns => {
                self.dead.iter_mut().for_each(|dead| dead.due_ns = now_ns + S / 2);
                Ok(())
            }
            Err((why, may_pass)) => self.give_up(&why, may_pass),
        }
    }

    /// Another recorder goes on.
    fn go_on(&mut self, from: &Resumable) -> Result<(), String> {
        let durable = self.network.told()[0].durable;
        let (sequence, epoch) = (from.sequence, from.epoch);
        if sequence < durable {
            return Err(format!(
                "goes on with frame {sequence}, those below {durable} are durable"
            ));
        }
        check_left(&self.nodes[0], from)?;
        let words = format!("another recorder goes on with frame {sequence} in epoch {epoch}");
        self.trace.push(self.clock.now_ns(), Event::Told(words));
        let (base, dials) = (&self.plan.base, vec![self.network.dials(1)]);
        let left = Some((self.recorder.life.clone(), from));
        self.recorder = Recorder::begin_with(base, 0, (&self.clock, &self.files), left, dials)?;
        self.dead = None;
        Ok(())
    }

    /// Nobody goes on with the run.
    fn give_up(&mut self, why: &str, may_pass: bool) -> Result<(), String> {
        self.dead = None;
        let now_ns = self.clock.now_ns();
        self.trace.push(now_ns, Event::Told(format!("the run does not go on: {why}")));
        let has_ended = self.plan.stop_ns <= now_ns && why.contains("has ended");
        let is_kept = may_pass && self.nodes[0].may_not_answer(now_ns);
        match has_ended || is_kept {
            true => Ok(()),
            false => Err(format!("the run does not go on: {why}")),
        }
    }
}

/// What a node says of a run is what is in its files.
fn check_left(node: &SimNode, from: &Resumable) -> Result<(), String> {
    let ledger = &from.places[0].ledger;
    let mut counts = vec![0; ledger.sources.len()];
    let (mut frames, mut events) = (0, 0);
    for (_, file) in walked(&node.files)? {
        for frame in &file.frames {
            let sequence = frame.sequence;
            if let Some(damage) = file.damage(frame).first() {
                return Err(format!("asked, with frame {sequence} in its files: {damage}"));
            }
            if sequence >= from.sequence {
                return Err(format!("goes on with frame {}, {sequence} is there", from.sequence));
            }
            (frames, events) = (frames + 1, events + frame.rows);
            file.fragments(frame, |one| counts[one.source] += u64::from(one.bytes.is_some()))?;
        }
    }
    let said = ledger.sources.iter().map(|source| source[Entry::FragmentsRecorded]);
    let said: Vec<u64> = said.collect();
    if said != counts || from.places[0].events != events {
        let own = from.places[0].events;
        return Err(format!("says {said:?} in {own} events, has {counts:?} in {events}"));
    }
    match from.places[0].frames == frames {
        true => Ok(()),
        false => Err(format!("says {} frames, has {frames}", from.places[0].frames)),
    }
}

/// How long one question takes at most, and how long the next recorder asks, as `run.resume`.
const ASK_WITHIN_NS: u64 = 5 * S;
const RESUME_NS: u64 = 60 * S;
