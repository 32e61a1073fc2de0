//! What a sender is made of, and what of it is refused at once.

use catchment_wire::event_link::{FRAGMENT_BYTES_MAX, KeyKind, Presence};
use catchment_wire::session::{LOGS_MAX, Release, Service, TEXT_BYTES_MAX, Text};

/// A sender. [`Default`] has everything but its name and its sources.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// 1 to 64 bytes: letters and digits of ASCII, `-`, `_`, `.`, `:`, `/`.
    pub name: String,
    /// Name and version of the program for display, at most 32 bytes.
    pub program: String,
    /// What admits it; empty: none.
    pub token: String,
    /// What it delivers: events, or channels, of which a source is a link.
    pub service: Service,
    /// Its logs, in the order of their numbers.
    pub sources: Vec<SourceConfig>,
    /// Bytes of all rings together, divided equally among sources that do not say theirs.
    pub buffer_bytes: u64,
    /// How many milliseconds its buffers last at its highest rate; 0: not known.
    pub buffer_ms: u32,
    /// How long items are kept.
    pub release: Release,
    /// How far the keys of sources that share a connection may be out of order, in bytes. A
    /// connection is shared from the 17th source on.
    pub skew_bytes: u64,
    /// Whether nothing is sent while the run is paused.
    pub stops_in_pause: bool,
    /// Whether commands are the caller's to answer. Otherwise the session agrees to all of them.
    pub has_callbacks: bool,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            program: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            token: String::new(),
            service: Service::Events,
            sources: Vec::new(),
            buffer_bytes: 64 << 20,
            buffer_ms: 0,
            release: Release::Durable,
            skew_bytes: 1 << 20,
            stops_in_pause: false,
            has_callbacks: false,
        }
    }
}

/// One source. [`Default`] is one of numbers with whole keys.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Unique among its sender's, as the sender's name; may be empty if it is the only one.
    pub name: String,
    /// Bytes of its longest fragment.
    pub fragment_bytes_max: u64,
    /// What its keys are.
    pub key_kind: KeyKind,
    /// 16 to 48: keys wrap at that width; 64: whole keys, below 2^62.
    pub key_bits: u8,
    /// Whether events wait for it.
    pub presence: Presence,
    /// Bit *i*: takes part in events of group *i*; 0: in every event.
    pub groups: u64,
    /// Whether its fragments name the groups of their event.
    pub is_reference: bool,
    /// Whether it marks begin and end of runs.
    pub marks: bool,
    /// What its payload is: a dtype of docs/spec/frame-file.md, section 4; 0: not known.
    pub dtype: u8,
    /// Bytes of its ring; `None`: its share of the sender's.
    pub buffer_bytes: Option<u64>,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            fragment_bytes_max: 1 << 20,
            key_kind: KeyKind::Number,
            key_bits: 64,
            presence: Presence::Configured,
            groups: 0,
            is_reference: false,
            marks: false,
            dtype: 0,
            buffer_bytes: None,
        }
    }
}

/// Why a sender cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A name that no recorder would admit.
    #[error(
        "the name {name:?} of the {of} is not 1 to 64 of letters, digits, `-`, `_`, `.`, `:`, `/`"
    )]
    Name {
        /// Whose name.
        of: &'static str,
        /// The name.
        name: String,
    },
    /// Two sources of one name, or one without a name among several.
    #[error("{count} sources have the name {name:?}; each of several has a name of its own")]
    Names {
        /// The name.
        name: String,
        /// How many sources have it.
        count: usize,
    },
    /// No source, or too many.
    #[error("a sender has 1 to {LOGS_MAX} sources, got {got}")]
    Sources {
        /// How many there are.
        got: usize,
    },
    /// A text that does not fit into the hello.
    #[error("the {of} has at most {bytes_max} bytes and no zero in it")]
    Text {
        /// Which text.
        of: &'static str,
        /// Its bytes at most.
        bytes_max: usize,
    },
    /// A width that keys cannot have.
    #[error("source {source_name:?}: key_bits is 16 to 48, or 64; got {got}")]
    KeyBits {
        /// The source.
        source_name: String,
        /// Its width.
        got: u8,
    },
    /// A length that fragments cannot have.
    #[error("source {source_name:?}: fragments have 1 to {FRAGMENT_BYTES_MAX} bytes, got {got}")]
    FragmentBytes {
        /// The source.
        source_name: String,
        /// Its longest fragment.
        got: u64,
    },
    /// A ring in which the longest fragment has no room.
    #[error(
        "source {source_name:?}: its buffer has {buffer_bytes} bytes, and its longest fragment \
         needs {bytes_min}"
    )]
    Buffer {
        /// The source.
        source_name: String,
        /// Bytes of its ring.
        buffer_bytes: u64,
        /// The least that it needs.
        bytes_min: u64,
    },
    /// More bytes out of order than any recorder grants.
    #[error("skew is at most 1 GiB, got {got} bytes")]
    Skew {
        /// The bytes.
        got: u64,
    },
    /// Rings that are too small or too large together.
    #[error("a sender's buffers have 64 KiB to 1 TiB together, got {got} bytes")]
    Buffers {
        /// Their bytes.
        got: u64,
    },
}

impl SenderConfig {
    /// Checks everything that would be refused later.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_name("sender", &self.name)?;
        if Text::<32>::new(&self.program).is_none() {
            return Err(ConfigError::Text { of: "program", bytes_max: 32 });
        }
        if self.token.len() > TEXT_BYTES_MAX || self.token.contains('\0') {
            return Err(ConfigError::Text { of: "token", bytes_max: TEXT_BYTES_MAX });
        }
        if self.skew_bytes > SKEW_BYTES_MAX {
            return Err(ConfigError::Skew { got: self.skew_bytes });
        }
        let got = self.sources.len();
        if got == 0 || got > LOGS_MAX as usize {
            return Err(ConfigError::Sources { got });
        }
        let mut total = 0_u64;
        for source in &self.sources {
            if got > 1 || !source.name.is_empty() {
                check_name("source", &source.name)?;
            }
            self.check_source(source)?;
            total = total.saturating_add(self.ring_bytes(source));
        }
        if !BUFFER_BYTES.contains(&total) {
            return Err(ConfigError::Buffers { got: total });
        }
        let mut names: Vec<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
        names.sort_unstable();
        for same in names.chunk_by(|one, other| one == other) {
            if same.len() > 1 {
                let name = same[0].to_owned();
                return Err(ConfigError::Names { name, count: same.len() });
            }
        }
        Ok(())
    }

    fn check_source(&self, source: &SourceConfig) -> Result<(), ConfigError> {
        let source_name = || source.name.clone();
        if !matches!(source.key_bits, 16..=48 | 64) {
            return Err(ConfigError::KeyBits { source_name: source_name(), got: source.key_bits });
        }
        let got = source.fragment_bytes_max;
        if got == 0 || got > FRAGMENT_BYTES_MAX {
            return Err(ConfigError::FragmentBytes { source_name: source_name(), got });
        }
        let buffer_bytes = self.ring_bytes(source);
        if buffer_bytes < got {
            let (source_name, bytes_min) = (source_name(), got);
            return Err(ConfigError::Buffer { source_name, buffer_bytes, bytes_min });
        }
        Ok(())
    }

    /// Bytes of a source's ring.
    pub fn ring_bytes(&self, source: &SourceConfig) -> u64 {
        source.buffer_bytes.unwrap_or(self.buffer_bytes / self.sources.len().max(1) as u64)
    }
}

fn check_name(of: &'static str, name: &str) -> Result<(), ConfigError> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    let is_name = (1..=64).contains(&name.len()) && name.bytes().all(is_letter);
    if is_name { Ok(()) } else { Err(ConfigError::Name { of, name: name.to_owned() }) }
}

/// The most skew of a connection. docs/spec/event-link.md, section 11.
const SKEW_BYTES_MAX: u64 = 1 << 30;
/// Bytes of all rings together. docs/spec/event-link.md, section 11.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 40;
