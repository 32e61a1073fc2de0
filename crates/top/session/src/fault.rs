//! `--fault`: what an emulator of sources does wrong on request.

use catchment_console::UsageError;
use catchment_emulator::Faults;

/// One `--fault`.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Packets that are not sent, as a share.
    Lose(f64),
    /// Packets that are sent twice, as a share.
    Duplicate(f64),
    /// Packets that are sent after their successor, as a share.
    Reorder(f64),
    /// Packets of which one bit is flipped, as a share.
    Corrupt(f64),
    /// A source that sends nothing from an event on.
    Kill(FaultTarget),
    /// A source that restarts its event numbers at an event.
    Restart(FaultTarget),
}

/// A source, by name or number, and an event.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultTarget {
    source: String,
    event: u64,
}

impl FaultTarget {
    /// The source's number among those of these names, and the event.
    fn find_in(&self, names: &[String]) -> Result<(u32, u64), UsageError> {
        if names.is_empty() {
            let message = "kill and restart are for sources of events, not for channels";
            return Err(UsageError(message.into()));
        }
        // As `read --source` has it: a name comes before a number.
        let named = names.iter().position(|name| *name == self.source);
        let index = named.or_else(|| self.source.parse().ok()).filter(|index| *index < names.len());
        let expected = || {
            let count = names.len();
            UsageError(format!("expected a source below {count} or its name, got {}", self.source))
        };
        index.map(|index| (index as u32, self.event)).ok_or_else(expected)
    }
}

impl std::str::FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE such as lose=1e-3")?;
        let share = || match value.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(format!("expected a share of the packets, 0 to 1, got {value:?}")),
        };
        let location = || {
            let parsed = value.rsplit_once('@').and_then(|(source, event)| {
                let (source, event) = (source.to_owned(), event.parse().ok()?);
                (!source.is_empty()).then_some(FaultTarget { source, event })
            });
            parsed.ok_or_else(|| {
                format!("expected SOURCE@EVENT such as 3@1000 or rich-07@1000, got {value:?}")
            })
        };
        match name {
            "lose" => share().map(Self::Lose),
            "duplicate" => share().map(Self::Duplicate),
            "reorder" => share().map(Self::Reorder),
            "corrupt" => share().map(Self::Corrupt),
            "kill" => location().map(Self::Kill),
            "restart" => location().map(Self::Restart),
            _ => Err(format!(
                "expected lose, duplicate, reorder, corrupt, kill or restart, got {name:?}"
            )),
        }
    }
}

impl Fault {
    /// Adds this fault to those of an emulator of sources of these names; links have none.
    ///
    /// # Errors
    /// A source that is not among the names.
    pub fn apply(&self, faults: &mut Faults, names: &[String]) -> Result<(), UsageError> {
        match self {
            Self::Lose(share) => faults.lose = *share,
            Self::Duplicate(share) => faults.duplicate = *share,
            Self::Reorder(share) => faults.reorder = *share,
            Self::Corrupt(share) => faults.corrupt = *share,
            Self::Kill(location) => faults.kill = Some(location.find_in(names)?),
            Self::Restart(location) => faults.restart = Some(location.find_in(names)?),
        }
        Ok(())
    }
}
