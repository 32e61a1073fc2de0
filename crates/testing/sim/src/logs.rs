//! What front-ends put into the logs of their sessions, and what they were told of it.

use std::collections::BTreeMap;

use catchment_wire::event_link::CommandKind;
use catchment_wire::session::{Command, Grant, GrantAnswer, LogPositions, Release};

use crate::plan::S;

/// A session, from the start of its sender to its end.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its number.
    pub number: u64,
    /// By its numbers, its logs.
    pub logs: Vec<Log>,
    /// What its sender was told to do, in order.
    pub commands: Vec<Commanded>,
    /// What it was told to set, in order.
    pub sets: Vec<Set>,
}

/// A setting that a sender was told to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// By which run, and how many recorders of that had died.
    pub life: (usize, u32),
    /// The number of the command.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// The value, as text.
    pub value: String,
    /// When it came.
    pub told_ns: u64,
    /// Whether its sender did it; none if it has not answered.
    pub done: Option<bool>,
    /// By log: items by then.
    pub made: Vec<u64>,
}

impl Set {
    /// Whether its sender has done it.
    pub(crate) fn has_done(&self) -> bool {
        self.done == Some(true)
    }

    /// Whether it has refused.
    pub(crate) fn has_refused(&self) -> bool {
        self.done == Some(false)
    }
}

/// A command that a sender was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commanded {
    /// By which run, and how many recorders of that had died.
    pub life: (usize, u32),
    /// Its number.
    pub number: u64,
    /// What it asks for.
    pub kind: CommandKind,
    /// When it came.
    pub told_ns: u64,
    /// When it was answered, and whether its sender did it.
    pub answer: Option<(u64, bool)>,
}

/// A log.
#[derive(Clone, Debug)]
pub struct Log {
    /// The source that it is of.
    pub source: usize,
    /// What was put in, in order.
    pub items: Vec<Item>,
    /// By run: what its sender was told.
    pub told: BTreeMap<usize, Told>,
    /// Position: all below was told to be durable.
    pub durable: u64,
    /// Position: its sender holds nothing below.
    pub released: u64,
    /// Items that were given up because their run had ended.
    pub given_up: u64,
    /// Whether its sender keeps items until they are taken, and not until they are durable.
    pub is_released_taken: bool,
    /// By sequence: what it has said of settings.
    pub settings: BTreeMap<u64, String>,
}

/// One entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Of its first.
    pub sequence: u64,
    /// Sequences that it takes.
    pub count: u64,
    /// What it is.
    pub kind: ItemKind,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A fragment, by its index among those that its source has sent.
    Fragment(usize),
    /// A fragment that the recorder must refuse: its key does not rise, or it is too long.
    ContentFault,
    /// Fragments that the sender has dropped.
    Abandoned,
    /// A packet of samples: its slice, and which one of that.
    Packet {
        /// The slice.
        slice: u64,
        /// Its place among the packets of that.
        part: usize,
    },
    /// The mark that the run ends: what follows is of none, unless the recorder goes on with it.
    End,
    /// Any other mark.
    Mark,
}

/// What one recorder has told of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where the log began in its run.
    pub begin: u64,
    /// The newest position of what is taken.
    pub taken: u64,
    /// The newest position of what is durable.
    pub durable: u64,
    /// How many recorders of the run had died when this was told.
    pub deaths: u32,
}

impl Session {
    /// A session of a sender of these sources.
    pub fn new(number: u64, sources: &[usize], release: Release) -> Self {
        let log = |&source: &usize| Log {
            source,
            items: Vec::new(),
            told: BTreeMap::new(),
            durable: 0,
            released: 0,
            given_up: 0,
            is_released_taken: release == Release::Taken,
            settings: BTreeMap::new(),
        };
        let (logs, commands, sets) = (sources.iter().map(log).collect(), Vec::new(), Vec::new());
        Self { number, logs, commands, sets }
    }

    /// Its sender is given a command, perhaps again.
    ///
    /// # Errors
    /// Its number, or what it asks for, is not what follows.
    pub fn commanded(
        &mut self,
        told_ns: u64,
        life: (usize, u32),
        command: &Command,
    ) -> Result<(), String> {
        let (number, kind) = (command.number, CommandKind(command.kind));
        let last = self.commands.last();
        let next = last.map_or(1, |last| last.number + 1);
        if let Some(last) = last.filter(|last| last.number == number && last.life == life) {
            return match last.kind == kind {
                true => Ok(()),
                false => Err(format!("command {number} is {:?} and then {kind:?}", last.kind)),
            };
        }
        // One that did not see the last command of a recorder that has died does not know it.
        let is_unseen = last.is_some_and(|last| last.number == number && last.answer.is_none());
        // Those between that never arrived were given up, one after the other.
        let passed_ns = told_ns - last.map_or(0, |last| last.told_ns);
        let are_given_up = number > next && passed_ns / ANSWER_NS >= number - next;
        if number != next && !is_unseen && !are_given_up {
            return Err(format!("command {number} where {next} follows"));
        }
        self.commands.push(Commanded { life, number, kind, told_ns, answer: None });
        Ok(())
    }

    /// What it is told to set now, by a command of that number. Returns whether that is new.
    pub(crate) fn told_to_set(
        &mut self,
        told_ns: u64,
        life: (usize, u32),
        (number, (name, value)): (u64, (String, String)),
    ) -> bool {
        let is_new = self.sets.last().is_none_or(|last| (last.life, last.number) != (life, number));
        if is_new {
            let (done, made) = (None, Vec::new());
            self.sets.push(Set { life, number, name, value, told_ns, done, made });
        }
        is_new
    }

    /// Its sender answers what it was told to set, before it says so in its logs.
    pub(crate) fn has_set(&mut self, number: u64, has_done: bool) -> Option<&Set> {
        let made = self.logs.iter().map(Log::made).collect();
        let last = self.sets.last_mut().filter(|last| last.number == number)?;
        (last.done, last.made) = (Some(has_done), made);
        Some(last)
    }

    /// Its sender answers a command.
    pub fn answered(&mut self, now_ns: u64, number: u64, has_done: bool) {
        if let Some(last) = self.commands.last_mut().filter(|last| last.number == number) {
            last.answer.get_or_insert((now_ns, has_done));
        }
    }
}

impl Log {
    /// Items so far.
    pub fn made(&self) -> u64 {
        self.items.last().map_or(0, |last| last.sequence + last.count)
    }

    /// Puts in an item.
    pub fn add(&mut self, count: u64, kind: ItemKind) {
        self.items.push(Item { sequence: self.made(), count, kind });
    }

    /// The item with that sequence.
    pub fn item(&self, sequence: u64) -> Option<&Item> {
        let behind = self.items.partition_point(|item| item.sequence <= sequence);
        let item = self.items.get(behind.checked_sub(1)?)?;
        (sequence < item.sequence + item.count).then_some(item)
    }

    /// The items within these positions, each with how many of its sequences are.
    pub fn within(&self, begin: u64, end: u64) -> impl Iterator<Item = (u64, ItemKind)> {
        let items = self.items.iter().map(move |item| {
            let from = item.sequence.max(begin);
            (((item.sequence + item.count).min(end)).saturating_sub(from), item.kind)
        });
        items.filter(|(count, _)| *count > 0)
    }

    /// The sequence of the first mark, behind a position, that the run ends; otherwise the last one
    /// of all.
    pub fn ended_at(&self, begin: u64) -> u64 {
        let is_end = |item: &&Item| item.kind == ItemKind::End && item.sequence >= begin;
        self.items.iter().find(is_end).map_or(u64::MAX, |end| end.sequence)
    }

    /// Its sender was granted that by a recorder of that run, before which so many had died.
    ///
    /// # Errors
    /// What the recorder must not say.
    pub fn granted(&mut self, (run, deaths): (usize, u32), grant: &Grant) -> Result<(), String> {
        let &Grant { answer, next, durable, .. } = grant;
        match answer {
            GrantAnswer::Joins | GrantAnswer::RunEnded => {}
            other => return Err(format!("it is answered {other:?}")),
        }
        let made = self.made();
        if next > made || durable > next {
            return Err(format!("next {next} and durable {durable} of {made}"));
        }
        let released = self.released;
        if durable > released && !self.told.contains_key(&run) {
            return Err(format!("{durable} of another run are durable, {released} were"));
        }
        if answer == GrantAnswer::RunEnded {
            self.given_up += next.saturating_sub(released);
            self.released = released.max(next);
        }
        // What it did not hold when it came to the run was no item of that.
        let told = Told { begin: next, taken: next, durable: next.min(durable), deaths };
        let told = self.told.entry(run).or_insert(told);
        if told.deaths < deaths {
            // What was taken and not durable is gone with the recorder that had it.
            (told.taken, told.deaths) = (told.durable, deaths);
        }
        let told = *told;
        self.tell(run, &Told { taken: next, durable, ..told })
    }

    /// Its sender was told these positions.
    ///
    /// # Errors
    /// What the recorder must not say.
    pub fn positions(&mut self, run: usize, positions: &LogPositions) -> Result<(), String> {
        let &LogPositions { taken, durable, .. } = positions;
        let Some(&told) = self.told.get(&run) else {
            return Err("positions before a grant".to_owned());
        };
        self.tell(run, &Told { taken, durable, ..told })
    }

    fn tell(&mut self, run: usize, now: &Told) -> Result<(), String> {
        let before = self.told.insert(run, *now);
        let before = before.unwrap_or(Told { begin: 0, taken: 0, durable: 0, deaths: 0 });
        if now.taken < before.taken || now.durable < before.durable || now.durable > now.taken {
            return Err(format!("{now:?} is told after {before:?}"));
        }
        if now.taken > self.made() {
            return Err(format!("{now:?} of {} items", self.made()));
        }
        self.durable = self.durable.max(now.durable);
        let released = if self.is_released_taken { now.taken } else { now.durable };
        self.released = self.released.max(released);
        Ok(())
    }
}

/// How long a recorder waits for the answer to a command.
const ANSWER_NS: u64 = 3 * S;
