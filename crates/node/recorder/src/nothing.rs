//! A target that keeps nothing: it counts frames as not taken. It shows what a node can build, and
//! replaces a best-effort folder that could not be made. What it gets is as durable as it will be.

use catchment_agent::{Agent, Work};
use crossbeam_channel::TryRecvError;

use crate::frame_counts::SourceCounts;
use crate::target_ledger::TargetLedger;
use crate::target_queue::{Answer, Item, TargetInput};

/// The longest time to the next cycle while nothing happens.
const IDLE_NS: u64 = 5_000_000;

/// A target without a place.
pub(crate) struct Nothing {
    pub(crate) input: TargetInput,
    pub(crate) ledger: TargetLedger,
}

impl Agent for Nothing {
    fn work(&mut self, now_ns: u64) -> Work {
        let mut done = 0;
        loop {
            match self.input.next() {
                Ok(Item::Begin(head)) => {
                    self.ledger.of_target().count(&head.counts, SourceCounts::of_not_taken);
                    self.ledger.settle(|one| one.kept_nowhere(&head));
                    self.input.answer(Answer::Takes { begins_file: false });
                }
                Ok(Item::Column(column)) => self.input.copied(column),
                Ok(Item::NotTaken(head)) => self.ledger.settle(|one| one.kept_nowhere(&head)),
                Ok(Item::End(_) | Item::Last(..)) => {}
                Err(TryRecvError::Empty) => return Work::until(done, now_ns + IDLE_NS),
                Err(TryRecvError::Disconnected) => {
                    self.ledger.settle(|one| one.end());
                    return Work::ended();
                }
            }
            done += 1;
        }
    }
}
