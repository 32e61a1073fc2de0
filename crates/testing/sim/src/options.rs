//! Options of the command line and of the file of kept seeds.

use crate::case::Case;
use crate::fault::Faults;

/// A case, or many, and the output to print.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed, or the first of several.
    pub seed: Option<u64>,
    /// How many seeds.
    pub seeds: Option<u64>,
    /// The kinds of faults, if they are not the seed's.
    pub faults: Option<Faults>,
    /// The maximum number of sources.
    pub sources_max: Option<u32>,
    /// The maximum number of events.
    pub events_max: Option<u64>,
    /// Whether there are two targets in all runs.
    pub has_two_targets: bool,
    /// Whether events are built by time in all runs.
    pub is_by_time: bool,
    /// Whether a target is a storage node, or several, in all runs.
    pub is_stored: bool,
    /// Whether trains are sent in all cases.
    pub has_trains: bool,
    /// Whether the history of the run is printed.
    pub is_traced: bool,
    /// Whether the trace's hash is printed.
    pub shows_hash: bool,
    /// Whether to stop at the first failing seed.
    pub ends_at_first: bool,
    /// Whether a failing run is not reduced.
    pub keeps_size: bool,
    /// How many seeds run at once.
    pub threads: usize,
}

impl Options {
    /// Reads arguments; one argument may contain several, as in `SEED="7 --events 3"`.
    ///
    /// # Errors
    /// The argument that cannot be read.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seed: None,
            seeds: None,
            faults: None,
            sources_max: None,
            events_max: None,
            has_two_targets: false,
            is_by_time: false,
            is_stored: false,
            has_trains: false,
            is_traced: false,
            shows_hash: false,
            ends_at_first: false,
            keeps_size: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let words: Vec<String> = arguments
            .flat_map(|one| one.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--seeds" => options.seeds = Some(number(value()?)?),
                "--faults" => options.faults = Some(value()?.parse()?),
                "--sources" => options.sources_max = Some(number(value()?)?.max(1) as u32),
                "--events" => options.events_max = Some(number(value()?)?),
                "--two-targets" => options.has_two_targets = true,
                "--time" => options.is_by_time = true,
                "--stores" => options.is_stored = true,
                "--threads" => options.threads = number(value()?)?.max(1) as usize,
                "--trains" => options.has_trains = true,
                "--trace" => options.is_traced = true,
                "--first" => options.ends_at_first = true,
                "--hash" => options.shows_hash = true,
                "--as-it-is" => options.keeps_size = true,
                _ => options.seed = Some(number(word)?),
            }
        }
        Ok(options)
    }

    /// The case of a seed.
    pub fn case(&self, seed: u64) -> Case {
        let whole = match (self.is_by_time, self.is_stored) {
            (true, _) => Case::by_time(seed),
            (_, true) => Case::stored(seed),
            _ => Case::of(seed),
        };
        Case {
            seed,
            faults: self.faults.unwrap_or(whole.faults),
            sources_max: self.sources_max.unwrap_or(whole.sources_max),
            events_max: self.events_max.unwrap_or(whole.events_max),
            has_two_targets: self.has_two_targets,
            is_by_time: self.is_by_time,
            is_stored: self.is_stored && !self.is_by_time,
            has_trains: self.has_trains || whole.has_trains,
        }
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("cannot read `{word}`"))
}
