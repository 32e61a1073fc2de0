//! A talk with a storage node about an interrupted run (docs/spec/storage-link.md, section 5), step
//! by step, so that it goes on in virtual time, too.

use std::collections::VecDeque;

use catchment_sender::LeftOfStream;

use crate::store_feed::Held;
use crate::store_link::{Happened, StoreLink};

/// Why a node has not answered, or not taken what it was sent, and whether it may do so later.
pub(crate) type Failed = (String, bool);

/// A session that ends when it has its result.
pub(crate) struct Talk<T> {
    pub(crate) link: StoreLink,
    result: Option<T>,
    why: Option<String>,
}

impl<T> Talk<T> {
    pub(crate) fn new(link: StoreLink) -> Self {
        Self { link, result: None, why: None }
    }

    /// Does what is due: until there is a result, that is `step`, which returns how many bytes it
    /// moved. Returns the same of all, and what came of it once the session has ended.
    pub(crate) fn work(
        &mut self,
        now_ns: u64,
        step: impl FnOnce(&mut StoreLink) -> Result<(usize, Option<T>), Failed>,
    ) -> (usize, Option<Result<T, Failed>>) {
        let Self { link, result, why } = self;
        let mut moved = link.receive(now_ns);
        *why = link.take_trouble().or(why.take());
        if link.attached().is_some() {
            link.go_on(0);
        }
        let (written, happened) = link.act();
        moved += written;
        match happened {
            Some(Happened::Away(reason)) => *why = reason.or(why.take()),
            // It is not the reason of a session that has its result.
            Some(Happened::Ended(reason)) => {
                let none = || reason.unwrap_or_else(|| "it has ended the session".to_owned());
                return (moved, Some(result.take().ok_or_else(|| (none(), false))));
            }
            None => {}
        }
        if result.is_none() {
            match step(link) {
                Ok((more, outcome)) => (moved, *result) = (moved + more, outcome),
                Err(failed) => return (moved, Some(Err(failed))),
            }
        }
        if result.is_some() {
            link.session.finish();
        }
        (moved, None)
    }

    /// What came of it until now.
    pub(crate) fn give_up(&mut self) -> Result<T, Failed> {
        let why = self.why.take();
        let none = || why.unwrap_or_else(|| "it has not answered".to_owned());
        self.result.take().ok_or_else(|| (none(), true))
    }
}

/// The step of a session that asks.
pub(crate) fn answer(link: &mut StoreLink) -> Result<(usize, Option<LeftOfStream>), Failed> {
    let sent = link.send(&VecDeque::<Held>::new(), None);
    Ok((sent, link.session.take_left()))
}
