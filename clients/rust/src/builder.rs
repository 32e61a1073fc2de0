//! How a front-end is made, where its defaults are not what is wanted.

use std::path::PathBuf;
use std::time::Duration;

use catchment_net::TlsClient;
use catchment_sender::{RunCommand, SenderConfig, SourceConfig};
use catchment_wire::session::{Release, Service};

use crate::address::Address;
use crate::{Error, Frontend};

/// What a front-end does when the recorder commands: agrees, or refuses with a reason; a panic
/// refuses, too. It runs on a thread of its own, and may take its time: the recorder is told each
/// second that the front-end is at work.
pub type Callbacks = Box<dyn FnMut(&RunCommand) -> Result<(), String> + Send>;

/// A front-end that is not connected yet.
pub struct Builder {
    url: String,
    index: Option<u32>,
    config: SenderConfig,
    wait: Duration,
    callbacks: Option<Callbacks>,
    sends_token_in_clear: bool,
    certificate: Option<PathBuf>,
}

impl Frontend {
    /// A front-end `name` at a recorder, to be made by [`Builder::connect`].
    pub fn builder(url: &str, name: &str) -> Builder {
        let program = concat!("catchment-frontend ", env!("CARGO_PKG_VERSION")).to_owned();
        let config = SenderConfig { name: name.to_owned(), program, ..SenderConfig::default() };
        Builder {
            url: url.to_owned(),
            index: None,
            config,
            wait: CONNECT_WAIT,
            callbacks: None,
            sends_token_in_clear: false,
            certificate: None,
        }
    }

    /// A link of channels `name` at a recorder whose configuration has it with `transport =
    /// "session"`, to be made by [`Builder::connect`]. Packets go in by
    /// [`send_packet`](Self::send_packet), as docs/spec/link.md has them.
    pub fn channels(url: &str, name: &str) -> Builder {
        let mut builder = Self::builder(url, name);
        builder.config.service = Service::Channels;
        builder
    }

    /// Connects a front-end with one source, which has the front-end's name.
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub fn connect(url: &str, name: &str) -> Result<Self, Error> {
        Self::builder(url, name).connect()
    }
}

impl Builder {
    /// Adds a source, called `NAME/SOURCE`, which marks begin and end of runs. Without any, there
    /// is one with the front-end's name.
    #[must_use]
    pub fn source(self, name: &str) -> Self {
        self.source_of(SourceConfig {
            name: name.to_owned(),
            marks: true,
            ..SourceConfig::default()
        })
    }

    /// Adds a source with all that it has.
    #[must_use]
    pub fn source_of(mut self, source: SourceConfig) -> Self {
        self.config.sources.push(source);
        self
    }

    /// This is the `index`-th copy of the program: its name ends in `-INDEX`.
    #[must_use]
    pub fn index(self, index: u32) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Bytes of all rings together; 64 MiB unless set.
    #[must_use]
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.config.buffer_bytes = bytes;
        self
    }

    /// How many milliseconds the buffer lasts at the highest rate; not known unless set. Where that
    /// is too short the recorder raises an alarm, `buffer_short`.
    #[must_use]
    pub fn buffer_ms(mut self, ms: u32) -> Self {
        self.config.buffer_ms = ms;
        self
    }

    /// Of more than 16 sources, which share connections: the bytes by which keys may be out of
    /// order on one; 1 MiB unless set, at most 1 GiB. The recorder may grant less.
    #[must_use]
    pub fn skew(mut self, bytes: u64) -> Self {
        self.config.skew_bytes = bytes;
        self
    }

    /// Nothing is sent while the run is paused: what is made waits in the ring. Otherwise the
    /// recorder discards and counts it.
    #[must_use]
    pub fn stops_in_pause(mut self) -> Self {
        self.config.stops_in_pause = true;
        self
    }

    /// Bytes of the longest fragment of each source that is added so far, or of the only one; 1 MiB
    /// unless set.
    #[must_use]
    pub fn fragment_bytes_max(mut self, bytes: u64) -> Self {
        if self.config.sources.is_empty() {
            self = self.source("");
        }
        for source in &mut self.config.sources {
            source.fragment_bytes_max = bytes;
        }
        self
    }

    /// When fragments leave the ring: when they are durable, unless set. What is released when it
    /// is taken is lost if the recorder dies before it is durable.
    #[must_use]
    pub fn release(mut self, release: Release) -> Self {
        self.config.release = release;
        self
    }

    /// The file (PEM) of the certificate to trust: the recorder's own, which its node keeps as
    /// `RUNS/.catchment/tls/certificate.pem`, or its authority's. For addresses `catchment://`.
    #[must_use]
    pub fn certificate(self, path: impl Into<PathBuf>) -> Self {
        Self { certificate: Some(path.into()), ..self }
    }

    /// The token that admits the front-end. In the clear it is sent to this machine only.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.config.token = token.to_owned();
        self
    }

    /// The token may be sent in the clear to any machine: for a network that is trusted.
    #[must_use]
    pub fn send_token_in_clear(self) -> Self {
        Self { sends_token_in_clear: true, ..self }
    }

    /// What is done when the recorder commands. Without it, everything is agreed to.
    #[must_use]
    pub fn callbacks(mut self, callbacks: Callbacks) -> Self {
        self.config.has_callbacks = true;
        Self { callbacks: Some(callbacks), ..self }
    }

    /// How long [`connect`](Self::connect) waits for the recorder; 10 s unless set. With no time it
    /// returns at once: fragments wait in the ring until the recorder is there.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Takes the memory, starts the client's thread, and waits until the recorder admits the
    /// front-end.
    ///
    /// # Errors
    /// An address or a configuration that is wrong, a recorder that refuses, or none within the
    /// time.
    pub fn connect(self) -> Result<Frontend, Error> {
        let Self { url, index, mut config, wait, callbacks, sends_token_in_clear, certificate } =
            self;
        let mut address = Address::parse(&url)?;
        if address.has_tls {
            let certificate = certificate.ok_or(Error::NoCertificate { url })?;
            address.trusted = Some(TlsClient::trusting(&certificate)?);
        }
        if let Some(index) = index {
            config.name = format!("{}-{index}", config.name);
        }
        if config.sources.is_empty() {
            config.sources.push(SourceConfig { marks: true, ..SourceConfig::default() });
        }
        let sends_token = sends_token_in_clear || address.has_tls || config.token.is_empty();
        Frontend::start(address, config, callbacks, sends_token, wait)
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, config, wait, .. } = self;
        f.debug_struct("Builder")
            .field("url", url)
            .field("name", &config.name)
            .field("wait", wait)
            .finish_non_exhaustive()
    }
}

const CONNECT_WAIT: Duration = Duration::from_secs(10);
