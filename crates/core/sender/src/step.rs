//! What a session asks of its caller.

use std::sync::Arc;

/// A connection of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Connection {
    /// The control connection.
    Control,
    /// A data connection, by its number from 0.
    Data(u16),
}

/// What the caller has to do now, and when to call again.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The next thing to do. If there is one, [`work`](crate::SenderSession::work) is called again
    /// after it.
    pub action: Option<Action>,
    /// When to call again at the latest, in nanoseconds.
    pub wake_at_ns: u64,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Connect to the recorder, and say how it went:
    /// [`opened`](crate::SenderSession::opened) or [`closed`](crate::SenderSession::closed).
    Connect(Connection),
    /// Close all connections. Nothing is to be said about it.
    Close,
    /// Answer a command by [`answer`](crate::SenderSession::answer).
    Command(RunCommand),
    /// The run ended without so many items of a source, which are given up.
    GaveUp {
        /// The source's log.
        log: u32,
        /// Items that were held.
        items: u64,
    },
    /// The session has ended; nothing follows.
    End,
}

/// A command of the recorder.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCommand {
    /// By which it is answered.
    pub number: u64,
    /// What is asked for: [`CommandKind`](catchment_wire::event_link::CommandKind).
    pub kind: u16,
    /// Number of the run.
    pub run_number: u64,
    /// Of *set*: names and values, as text.
    pub settings: Vec<(String, String)>,
}

/// Where a session stands.
#[derive(Clone, Debug, PartialEq)]
pub enum SenderState {
    /// Not connected; why not.
    Away(Arc<str>),
    /// Connected, not admitted yet.
    Opening,
    /// Admitted.
    Open,
    /// Ended; why. `None`: in order.
    Ended(Option<Arc<str>>),
}
