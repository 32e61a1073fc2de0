//! States and commands, and the tables of what follows what.
//!
//! ```text
//!          configure        arm          start          pause
//!   idle ───────────► configured ────► armed ────► recording ────► paused
//!    ▲ ▲                 ▲  ▲  disarm   │             │   resume     │
//!    │ │ shutdown        │  └───────────┘             │ ◄────────────┤
//!    │                   └──────── stop ──────────────┴──────────────┘
//!    │ reset
//!   safe, fault
//! ```
//!
//! `start` does the steps between by itself. `stop` is legal in *safe* and *fault* too while
//! anything is still recording, so that a shifter can end a run whose disk is full. `shutdown` is
//! always legal.

use catchment_model::named;

named! {
    /// The state of a device, or of the node.
    #[derive(PartialOrd, Ord)]
    State {
        /// Nothing is set up.
        Idle = "idle",
        /// The configuration was taken.
        Configured = "configured",
        /// Everything is open and ready; nothing is recorded.
        Armed = "armed",
        /// Data are recorded.
        Recording = "recording",
        /// Data go on being received and are discarded and counted.
        Paused = "paused",
        /// Taken out of service by control, since it could not be brought where it should be.
        Safe = "safe",
        /// It failed.
        Fault = "fault",
    }
}

named! {
    /// A command of a user or a program.
    #[derive(PartialOrd, Ord)]
    Command {
        /// Take the configuration.
        Configure = "configure",
        /// Make everything ready.
        Arm = "arm",
        /// Record; does the steps between.
        Start = "start",
        /// Discard and count what comes.
        Pause = "pause",
        /// Record again.
        Resume = "resume",
        /// End the run.
        Stop = "stop",
        /// Close what was made ready.
        Disarm = "disarm",
        /// Forget faults and configuration.
        Reset = "reset",
        /// End the run and the node.
        Shutdown = "shutdown",
    }
}

named! {
    /// One step that a device is ordered to do. [`Action::Reset`], [`Action::Safe`] and
    /// [`Action::Shutdown`] must be honoured in whatever state a device is, [`Action::Stop`] in a
    /// fault, too.
    #[derive(PartialOrd, Ord)]
    Action {
        /// idle | configured → configured.
        Configure = "configure",
        /// configured → armed.
        Arm = "arm",
        /// armed → recording.
        Start = "start",
        /// recording → paused.
        Pause = "pause",
        /// paused → recording.
        Resume = "resume",
        /// recording | paused → configured: what came in is written out first.
        Stop = "stop",
        /// armed → configured.
        Disarm = "disarm",
        /// Any → idle.
        Reset = "reset",
        /// Any → safe: end at once, whatever it costs, and touch nothing any more.
        Safe = "safe",
        /// Any → idle, for good: let go of everything.
        Shutdown = "shutdown",
    }
}

/// A command that the state does not allow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("cannot {command} while {state}: {}", self.because())]
pub struct Illegal {
    /// The state.
    pub state: State,
    /// The command.
    pub command: Command,
}

/// The state that a command leads to when nothing fails. Of *safe* and *fault*: `stop` is allowed
/// here, [`crate::Control`] allows it only while something is still recording.
///
/// # Errors
/// The command is illegal in that state.
pub fn transition(state: State, command: Command) -> Result<State, Illegal> {
    use State::{Armed, Configured, Fault, Idle, Paused, Recording, Safe};
    match (command, state) {
        (Command::Configure, Idle | Configured) => Ok(Configured),
        (Command::Arm, Configured) => Ok(Armed),
        (Command::Start, Idle | Configured | Armed) => Ok(Recording),
        (Command::Pause, Recording) => Ok(Paused),
        (Command::Resume, Paused) => Ok(Recording),
        (Command::Stop, Recording | Paused | Safe | Fault) => Ok(Configured),
        (Command::Disarm, Armed) => Ok(Configured),
        (Command::Reset, Safe | Fault) | (Command::Shutdown, _) => Ok(Idle),
        _ => Err(Illegal { state, command }),
    }
}

impl Illegal {
    fn because(&self) -> &'static str {
        use State::{Fault, Paused, Recording, Safe};
        match (self.command, self.state) {
            (Command::Reset, _) => "there is no fault to be reset",
            (Command::Stop, _) => "nothing is being recorded",
            (_, Safe | Fault) => "it must be reset first",
            (Command::Start, _) => "a run is on already",
            (Command::Pause, Paused) => "it is paused already",
            (Command::Pause, _) => "nothing is being recorded",
            (Command::Resume, _) => "it is not paused",
            (_, Recording | Paused) => "the run must be stopped first",
            (Command::Arm, State::Armed) => "it is armed already",
            (Command::Arm, _) => "it must be configured first",
            (Command::Configure, _) => "it must be disarmed first",
            (Command::Disarm | Command::Shutdown, _) => "it is not armed",
        }
    }
}

impl State {
    /// Whether data are received, to be recorded or to be discarded and counted: a run is on.
    pub fn in_run(self) -> bool {
        matches!(self, Self::Recording | Self::Paused)
    }

    /// Whether it needs a reset.
    pub fn is_broken(self) -> bool {
        matches!(self, Self::Safe | Self::Fault)
    }
}

impl Command {
    /// Whether a failure of one device takes the others back to where they were. The commands that
    /// end something go on with the others instead: a run that was stopped is not started again
    /// because one device would not stop.
    pub fn rolls_back(self) -> bool {
        matches!(self, Self::Configure | Self::Arm | Self::Start | Self::Pause | Self::Resume)
    }

    /// Where all devices are after it.
    pub(crate) fn leads_to(self) -> State {
        match self {
            Self::Configure | Self::Stop | Self::Disarm => State::Configured,
            Self::Arm => State::Armed,
            Self::Start | Self::Resume => State::Recording,
            Self::Pause => State::Paused,
            Self::Reset | Self::Shutdown => State::Idle,
        }
    }

    /// The steps that devices take for this command, one after the other through the whole line.
    /// `reconfigures`: with a configuration that the request names.
    pub(crate) fn steps(self, reconfigures: bool) -> &'static [Action] {
        match self {
            Self::Start if reconfigures => {
                &[Action::Disarm, Action::Configure, Action::Arm, Action::Resume, Action::Start]
            }
            Self::Configure => &[Action::Configure],
            Self::Arm => &[Action::Configure, Action::Arm],
            Self::Start => &[Action::Configure, Action::Arm, Action::Resume, Action::Start],
            Self::Pause => &[Action::Pause],
            Self::Resume => &[Action::Resume],
            Self::Stop | Self::Disarm => &[Action::Stop, Action::Disarm],
            Self::Reset => &[Action::Stop, Action::Disarm, Action::Reset],
            Self::Shutdown => &[Action::Stop, Action::Disarm, Action::Shutdown],
        }
    }
}

impl Action {
    /// Whether the sinks go first, so that who sends finds who takes.
    pub fn sinks_first(self) -> bool {
        matches!(self, Self::Configure | Self::Arm | Self::Start | Self::Resume)
    }

    /// Where it leads.
    pub fn target(self) -> State {
        match self {
            Self::Configure | Self::Stop | Self::Disarm => State::Configured,
            Self::Arm => State::Armed,
            Self::Start | Self::Resume => State::Recording,
            Self::Pause => State::Paused,
            Self::Reset | Self::Shutdown => State::Idle,
            Self::Safe => State::Safe,
        }
    }

    /// Whether a device in that state takes this step when its turn comes.
    pub(crate) fn begins_in(self, state: State) -> bool {
        use State::{Armed, Configured, Fault, Idle, Paused, Recording, Safe};
        match self {
            Self::Configure => matches!(state, Idle | Configured),
            Self::Arm => state == Configured,
            Self::Start => state == Armed,
            Self::Pause => state == Recording,
            Self::Resume => state == Paused,
            Self::Stop => state.in_run(),
            Self::Disarm => state == Armed,
            Self::Reset => matches!(state, Configured | Safe | Fault),
            Self::Safe => state != Safe,
            Self::Shutdown => true,
        }
    }

    /// Whether what a device says of its own faults during this step is only noted: the step leads
    /// out of them.
    pub(crate) fn ends_something(self) -> bool {
        matches!(self, Self::Stop | Self::Disarm | Self::Reset | Self::Safe | Self::Shutdown)
    }
}

/// What takes a device back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    /// It is there.
    There,
    /// This step, then look again.
    By(Action),
    /// No way leads there.
    NoWay,
}

/// The steps of going back, in the order in which the whole line does them.
pub(crate) const BACK_STEPS: &[Action] = &[
    Action::Pause,
    Action::Stop,
    Action::Disarm,
    Action::Reset,
    Action::Configure,
    Action::Arm,
    Action::Resume,
];

/// The next step of a device from where it is to where it was.
pub(crate) fn back(state: State, before: State) -> Back {
    use State::{Armed, Configured, Fault, Idle, Paused, Recording, Safe};
    match (state, before) {
        (now, then) if now == then => Back::There,
        // A broken device stays broken until a reset.
        (Safe | Fault, _) => Back::There,
        (Recording, Paused) => Back::By(Action::Pause),
        (Paused, Recording) => Back::By(Action::Resume),
        (Recording | Paused, Idle | Configured | Armed) => Back::By(Action::Stop),
        (Armed, Idle | Configured) => Back::By(Action::Disarm),
        (Configured, Idle) => Back::By(Action::Reset),
        (Configured, Armed) => Back::By(Action::Arm),
        _ => Back::NoWay,
    }
}
