//! A storage node is asked what it has of an interrupted run (docs/spec/storage-link.md, section
//! 5), step by step: by `node_left.rs` over sockets, and by callers of virtual time over
//! connections of their own.

use std::collections::VecDeque;

use catchment_agent::Dial;
use catchment_sender::LeftOfStream;
use catchment_storage::Resumable;

use crate::config::RecorderConfig;
use crate::node_left::AskedNode;
use crate::recorder::RecorderError;
use crate::store_feed::Held;
use crate::store_link::{Happened, StoreLink};

/// What came of a question; otherwise why there is no answer, and whether there may be one later.
pub(crate) type Answer = Result<LeftOfStream, (String, bool)>;

/// A node that is being asked.
pub(crate) struct Asking {
    pub(crate) link: StoreLink,
    left: Option<LeftOfStream>,
    why: Option<String>,
}

impl Asking {
    pub(crate) fn new(link: StoreLink) -> Self {
        Self { link, left: None, why: None }
    }

    /// Does what is due. Returns how many bytes it moved, and what came of it once the session has
    /// ended.
    pub(crate) fn work(&mut self, now_ns: u64) -> (usize, Option<Answer>) {
        let Self { link, left, why } = self;
        let mut moved = link.receive(now_ns);
        *why = link.take_trouble().or(why.take());
        if link.attached().is_some() {
            link.go_on(0);
        }
        let (written, happened) = link.act();
        moved += written + link.send(&VecDeque::<Held>::new(), None);
        match happened {
            Some(Happened::Away(reason)) => *why = reason.or(why.take()),
            // It is not the reason of a session that has its answer.
            Some(Happened::Ended(reason)) => {
                let none = || reason.unwrap_or_else(|| "it has ended the session".to_owned());
                return (moved, Some(left.take().ok_or_else(|| (none(), false))));
            }
            None => {}
        }
        *left = left.take().or_else(|| link.session.take_left());
        if left.is_some() {
            link.session.finish();
        }
        (moved, None)
    }

    /// What came of it until now.
    pub(crate) fn give_up(&mut self) -> Answer {
        let mut none = || self.why.take().unwrap_or_else(|| "it has not answered".to_owned());
        self.left.take().ok_or_else(|| (none(), true))
    }
}

/// The same for a caller that steps it.
pub struct NodeQuestion {
    asked: AskedNode,
    name: String,
    asking: Asking,
}

impl NodeQuestion {
    /// Asks for the run of that name and of the configuration's identity, over connections to the
    /// node that is its only target. The session has that number; `seed` draws its waits.
    ///
    /// # Errors
    /// Other targets have a part of the run.
    ///
    /// # Panics
    /// No target is a storage node.
    pub fn new(
        config: &RecorderConfig,
        name: &str,
        dial: Box<dyn Dial>,
        (session, seed): (u64, u64),
    ) -> Result<Self, RecorderError> {
        let asked = AskedNode::of(config, &config.targets(), name)?.expect("a storage node");
        let asking = Asking::new(asked.link(dial, (session, seed))?);
        Ok(Self { asked, name: name.to_owned(), asking })
    }

    /// Does what is due. Returns how the run goes on, once the node has said it; or why it does
    /// not, and whether it may later.
    pub fn work(&mut self, now_ns: u64) -> Option<Result<Resumable, (String, bool)>> {
        let (_, answer) = self.asking.work(now_ns);
        let session = &self.asking.link.session;
        let left = answer?.and_then(|of_stream| self.asked.read(of_stream, session));
        Some(left.map(|left| left.resumable(&self.name)))
    }
}
