//! The faults of a run, by kind. A run has a set of kinds, drawn from its seed: some of them, never
//! all, so that no fault hides another (swarm testing).

use std::fmt;
use std::str::FromStr;

use catchment_fixtures::Random;
use catchment_model::named;
use catchment_ports::StoreFault;

use crate::silences;

named! {
    /// A kind of fault, by its name on the command line and in traces.
    #[derive(PartialOrd, Ord)]
    Fault {
        /// The network loses packets.
        Loss = "loss",
        /// The network delivers packets twice.
        Duplicate = "duplicate",
        /// The network delivers packets in another order.
        Reorder = "reorder",
        /// The network is slow for a while: all packets of one source are late.
        Delay = "delay",
        /// The network changes bits.
        Corrupt = "corrupt",
        /// The buffers before the recorder hold few packets.
        SmallBuffer = "small-buffer",
        /// A source dies and returns later.
        Die = "die",
        /// A source sends events before the others do.
        Ahead = "ahead",
        /// A source is present but sends nothing for a while.
        Silent = "silent",
        /// A source sends far too much: repeated packets and garbage.
        Flood = "flood",
        /// All sources restart their numbers.
        Renumber = "renumber",
        /// One source restarts its numbers and no longer matches the others.
        Misnumber = "misnumber",
        /// A link's clock is set back or ahead.
        Clock = "clock",
        /// Sources continue to send while the run is being ended.
        SendOn = "send-on",
        /// The run is paused for a while.
        Pause = "pause",
        /// Agents are not called for a while.
        Starve = "starve",
        /// The process is stopped for a while.
        Freeze = "freeze",
        /// The memory budget is nearly too small.
        SmallMemory = "small-memory",
        /// The disk is slow.
        Slow = "slow",
        /// Operations of the disk hang.
        Hang = "hang",
        /// Writes fail.
        WriteError = "write-error",
        /// Syncs fail.
        SyncError = "sync-error",
        /// Files cannot be made.
        OpenError = "open-error",
        /// Files cannot be closed.
        FinishError = "finish-error",
        /// The list of files cannot be written.
        TextError = "text-error",
        /// The disk is full for a while.
        Full = "full",
        /// Writes are reported as complete, but parts are missing.
        Torn = "torn",
        /// Writes go to the wrong place.
        Misdirected = "misdirected",
        /// A bit of the written data is flipped.
        Flip = "flip",
        /// The power fails, and the recorder restarts.
        Crash = "crash",
        /// The recorder is killed and restarts.
        Kill = "kill",
        /// A connection delivers nothing for a while.
        Stall = "stall",
        /// A connection is cut, and opened again.
        Cut = "cut",
        /// A connection is left by its sender without a word, who opens another one.
        HalfOpen = "half-open",
        /// Bytes of a front-end's connections pass one by one.
        SingleBytes = "single-bytes",
        /// What a front-end is told comes late.
        LateAnswers = "late-answers",
        /// Bytes that are no message stand between a front-end's.
        Noise = "noise",
        /// A front-end dies, and begins again without what it held.
        SenderKill = "sender-kill",
        /// The rings of front-ends hold few fragments.
        SmallRing = "small-ring",
        /// A receive agent is not called for ten seconds.
        HoldReceive = "hold-receive",
        /// Front-ends refuse commands, answer late, or die while they prepare.
        Refuse = "refuse",
        /// Operators ask for commands at any moment, also two at once.
        Commands = "commands",
        /// A clock runs faster or slower than the others.
        Drift = "drift",
        /// A clock jumps ahead.
        JumpAhead = "jump-ahead",
        /// A clock is set back.
        SetBack = "set-back",
        /// A clock says one time for ever, or for a while.
        Stuck = "stuck",
        /// A clock is one second ahead.
        SecondAhead = "second-ahead",
        /// Clocks have so few bits that they wrap in the run.
        Wrap = "wrap",
        /// The power of a storage node fails, and it comes back, mostly.
        NodeCrash = "node-crash",
        /// A storage node is stopped for a while.
        NodeHang = "node-hang",
        /// A storage node is ended in order, and started again.
        NodeRestart = "node-restart",
        /// A connection ends behind what a storage node has taken, and before what it answered.
        LostAnswers = "lost-answers",
    }
}

impl Fault {
    /// The kind of something that a disk did wrong.
    pub fn of_store(fault: StoreFault) -> Self {
        match fault {
            StoreFault::WriteError => Self::WriteError,
            StoreFault::SyncError => Self::SyncError,
            StoreFault::OpenError => Self::OpenError,
            StoreFault::FinishError => Self::FinishError,
            StoreFault::TextError => Self::TextError,
            StoreFault::Hang => Self::Hang,
            StoreFault::TornWrite => Self::Torn,
            StoreFault::MisdirectedWrite => Self::Misdirected,
            StoreFault::Full => Self::Full,
        }
    }
}

/// Faults that do not keep sources from being heard in time. Sources that send on while a run ends
/// are not among them: its receive agents end one after the other.
pub const HARMLESS: [Fault; 13] = [
    Fault::Duplicate,
    Fault::Clock,
    Fault::Slow,
    Fault::Hang,
    Fault::WriteError,
    Fault::SyncError,
    Fault::OpenError,
    Fault::FinishError,
    Fault::TextError,
    Fault::Full,
    Fault::Torn,
    Fault::Misdirected,
    Fault::Flip,
];

/// Faults that happen only where events are built by time.
pub const BY_TIME: [Fault; 6] =
    [Fault::Drift, Fault::JumpAhead, Fault::SetBack, Fault::Stuck, Fault::SecondAhead, Fault::Wrap];

/// Faults that happen only to storage nodes.
pub const AT_STORES: [Fault; 4] =
    [Fault::NodeCrash, Fault::NodeHang, Fault::NodeRestart, Fault::LostAnswers];

/// A set of kinds of faults.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults(u64);

impl Faults {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// About every fifth kind: more would hide each other, and leave little to record. None for
    /// every sixteenth seed, and hardly more than cuts of networks for every 32nd.
    pub fn of_seed(seed: u64) -> Self {
        let mut chance = Random::new(seed ^ 0xfa17);
        if silences::is_of_cuts(seed) {
            let beside = silences::BESIDE.into_iter().filter(|_| chance.chance(200));
            return beside.fold(Self::NONE, Self::with).with(Fault::HalfOpen);
        }
        let share = [0, 30, 50, 50, 100, 100, 150, 150, 150, 200, 200, 250, 300, 400, 500, 600];
        let share = share[chance.index(share.len())];
        let others = |fault: &Fault| !BY_TIME.contains(fault) && !AT_STORES.contains(fault);
        let by_number = Fault::ALL.iter().copied().filter(others);
        let drawn = by_number.filter(|_| chance.chance(share));
        let drawn = drawn.fold(Self::NONE, Self::with);
        // How often numbers restart is known only where all sources are heard.
        let is_harmless = |fault: &Fault| *fault == Fault::Misnumber || HARMLESS.contains(fault);
        match drawn.has(Fault::Misnumber) && chance.chance(500) {
            true => drawn.iter().filter(is_harmless).fold(Self::NONE, Self::with),
            false => drawn,
        }
    }

    /// This set with one more kind.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u32)
    }

    /// This set without one kind.
    #[must_use]
    pub fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u32))
    }

    /// Whether the set contains that kind.
    pub fn has(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u32 != 0
    }

    /// Whether operations of the disk may take long: a drive also tries a write again before it
    /// fails.
    pub fn slow_disk(self) -> bool {
        [Fault::Slow, Fault::Hang, Fault::WriteError].into_iter().any(|fault| self.has(fault))
    }

    /// All kinds in the set.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.iter().copied().filter(move |&fault| self.has(fault))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let names: Vec<&str> = self.iter().map(Fault::name).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::NONE;
        for name in text.split(',').filter(|&name| name != "none") {
            let fault = Fault::from_name(name);
            faults =
                faults.with(fault.ok_or_else(|| format!("no kind of fault is called {name}"))?);
        }
        Ok(faults)
    }
}
