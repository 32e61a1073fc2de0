//! Shared by the tests of a node under control: a node of few emulated sources, and its client.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_control::{
    Configuration, ConfigurationFault, Configure, LogFormat, LogLevel, Logs, Node, NodeError, Rule,
    Settings, Start, TokenFile, own_folder,
};
use catchment_disk::FaultPlan;
use catchment_emulator::{
    EmulatedChannel, EmulatedLink, EmulatedSource, EmulatorConfig, LinkEmulatorConfig,
};
use catchment_recorder::{LinkConfig, RecorderConfig, SourceConfig, TargetConfig};
use serde_json::{Value, json};

/// Nothing takes that long: a missing event fails its test instead of blocking the rest.
pub const PATIENCE: Duration = Duration::from_secs(1_200);

/// Configurations that tests change: a text of `key = number` lines.
#[derive(Clone, Debug)]
pub struct Fixed {
    pub folder: PathBuf,
    pub sources: u32,
    /// The first source's address; port 0 lets the system choose.
    pub address: SocketAddr,
    pub rules: Vec<Rule>,
    pub kill: Option<(u32, u64)>,
    pub trends: bool,
    pub links: Vec<LinkConfig>,
    pub targets: Vec<TargetConfig>,
    /// Of the disks of targets.
    pub faults: Option<FaultPlan>,
    /// Channels of which the first link is emulated.
    pub emulated: Vec<EmulatedChannel>,
    /// Whether the sources are elsewhere, and not emulated.
    pub elsewhere: bool,
}

impl Fixed {
    pub fn new(folder: &Path) -> Self {
        let address = ([127, 0, 0, 1], 0).into();
        Self {
            folder: folder.to_owned(),
            sources: 3,
            address,
            rules: Vec::new(),
            kill: None,
            trends: false,
            links: Vec::new(),
            targets: Vec::new(),
            faults: None,
            emulated: Vec::new(),
            elsewhere: false,
        }
    }
}

impl Configure for Fixed {
    fn read(&self) -> Result<String, String> {
        std::fs::read_to_string(self.folder.join("test.toml")).or(Ok("rate = 200".into()))
    }

    fn with_emulator(
        &self,
        text: &str,
        rate_hz: Option<f64>,
        seed: Option<u64>,
    ) -> Result<String, String> {
        let rate = rate_hz.map(|rate| ("rate", rate.to_string()));
        let seed = seed.map(|seed| ("seed", seed.to_string()));
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        for (key, value) in rate.into_iter().chain(seed) {
            lines.retain(|line| !line.starts_with(key));
            lines.push(format!("{key} = {value}"));
        }
        Ok(lines.join("\n"))
    }

    fn check(&self, text: &str) -> Result<Configuration, ConfigurationFault> {
        let fault =
            |message: &str, position| ConfigurationFault { message: message.into(), position };
        let (mut rate, mut seed) = (200.0, 1);
        for (line, words) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let position = Some((line + 1, 1));
            match words.split_once(" = ") {
                Some(("rate", value)) => {
                    let parsed = value.parse::<f64>().ok().filter(|rate| *rate > 0.0);
                    rate = parsed.ok_or_else(|| fault("expected a rate above 0", position))?;
                }
                Some(("seed", value)) => {
                    seed = value.parse().map_err(|_| fault("expected a seed", position))?;
                }
                _ => return Err(fault("unknown key", position)),
            }
        }
        let sources = (0..self.sources).map(|source| {
            let address = if source == 0 { self.address } else { ([127, 0, 0, 1], 0).into() };
            let config = SourceConfig::new(format!("s{source}"), address);
            SourceConfig { id: Some(0x8000 + source), group: "test".into(), ..config }
        });
        let mut recorder = RecorderConfig::new(self.folder.clone(), sources.collect());
        recorder.memory_bytes = 256 << 20;
        recorder.write.buffer_bytes = 1 << 20;
        recorder.write.preallocate_bytes = 4 << 20;
        recorder.write.faults.clone_from(&self.faults);
        recorder.frame.time_ns = 20_000_000;
        recorder.frame.duration_ns = 1_000_000_000;
        recorder.links.clone_from(&self.links);
        recorder.targets.clone_from(&self.targets);
        recorder.text = text.into();
        recorder.trends = self.trends;
        let emulated = (0..self.sources).map(|source| EmulatedSource {
            group: "test".into(),
            mean_bytes: 100.0,
            sigma: 0.2,
            sub_event_id: 0x8000 + source,
            board: None,
        });
        let mut emulator = EmulatorConfig {
            sources: emulated.collect(),
            rate_hz: Some(rate),
            seed,
            ..EmulatorConfig::default()
        };
        emulator.water_mark_bytes = 0;
        emulator.huge_every = 0;
        emulator.faults.kill = self.kill;
        let channels = self.emulated.clone();
        let links = EmulatedLink::dealt(channels.len(), &[self.address]);
        let link_emulator = (!channels.is_empty()).then(|| LinkEmulatorConfig {
            channels,
            links,
            seed,
            ..LinkEmulatorConfig::default()
        });
        let (number, rules, control) = (None, self.rules.clone(), String::new());
        let emulator = (self.sources > 0 && !self.elsewhere).then_some(emulator);
        Ok(Configuration {
            number,
            resume_ns: 0,
            recorder,
            store: None,
            emulator,
            link_emulator,
            rules,
            control,
        })
    }
}

/// A node in its own folder.
pub struct Test {
    pub folder: tempfile::TempDir,
    pub node: Option<Node>,
}

/// Settings that tests begin with.
pub fn settings() -> Settings {
    let listen = ([127, 0, 0, 1], 0).into();
    let mut settings = Settings { start: Start::Manual, ..Settings::new(Some(listen)) };
    // No machine, fast or slow, reaches these.
    settings.requests_per_second = 1e6;
    settings.drain = Duration::from_secs(3_600);
    settings.device_patience = Duration::from_secs(3_600);
    settings
}

impl Test {
    /// A node that waits for commands.
    pub fn start() -> Self {
        Self::with(settings(), |_| ())
    }

    pub fn with(settings: Settings, change: impl FnOnce(&mut Fixed)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut fixed = Fixed::new(folder.path());
        change(&mut fixed);
        let node = start(settings, fixed).unwrap();
        Self { folder, node: Some(node) }
    }

    /// One with tokens: viewer, operator, admin.
    pub fn with_tokens() -> (Self, [String; 3]) {
        use catchment_control::Role::{Admin, Operator, Viewer};
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(&own_folder(folder.path()));
        let roles = [("v", Viewer), ("o", Operator), ("a", Admin)];
        let tokens = roles.map(|(name, role)| file.add(name, role).unwrap());
        let node = start(settings(), Fixed::new(folder.path())).unwrap();
        (Self { folder, node: Some(node) }, tokens)
    }

    pub fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    pub fn client(&self) -> Client {
        Client::new(&self.node().url().unwrap())
    }
}

/// Starts a node without logs on stderr.
pub fn start(settings: Settings, fixed: Fixed) -> Result<Node, NodeError> {
    Node::start(settings, Arc::new(fixed), Logs::start(LogFormat::None, LogLevel::DEBUG))
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

/// Sends requests to a node over a real socket.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    headers: Vec<(String, String)>,
}

impl Client {
    pub fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            // A connection whose request was refused unread is closed, at any time.
            .max_idle_connections(0)
            .build();
        let base = url.trim_end_matches('/').to_owned();
        Self { agent: ureq::Agent::new_with_config(config), base, headers: Vec::new() }
    }

    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.into(), value.into()));
        client
    }

    pub fn token(&self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    pub fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        if body.is_some() && !self.headers.iter().any(|(name, _)| name == "Content-Type") {
            request = request.header("Content-Type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let sent = match body {
            Some(body) => self.agent.run(request.body(body.to_owned()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let mut response = sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.body_mut().read_to_string().unwrap_or_default() }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    /// The status, the headers and the bytes of an answer.
    pub fn bytes(&self, path: &str) -> (u16, ureq::http::HeaderMap, Vec<u8>) {
        let mut request = ureq::http::Request::builder().uri(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let sent = self.agent.run(request.body(()).unwrap());
        let mut response = sent.unwrap_or_else(|error| panic!("{path}: {error}"));
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        (status, headers, response.body_mut().read_to_vec().unwrap())
    }

    /// Sends the request until the answer is no longer that the sample is being read.
    pub fn settled(&self, path: &str) -> Answer {
        loop {
            let answer = self.get(path);
            if answer.status != 503 {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, Some(&body.to_string()))
    }

    /// Gives a command and waits for its end.
    pub fn command(&self, request: &str, command: &str) -> Answer {
        self.command_with(request, json!({ "request": request, "command": command }))
    }

    /// Gives a command that is meant for one run, and waits for its end.
    pub fn command_for(&self, request: &str, command: &str, run: u64) -> Answer {
        self.command_with(request, json!({ "request": request, "command": command, "run": run }))
    }

    /// Gives a command with all its fields, and waits for its end.
    pub fn command_with(&self, request: &str, body: Value) -> Answer {
        let mut answer = self.post("/api/v1/commands", &body);
        loop {
            answer = match answer.status {
                202 => self.get(&format!("/api/v1/commands/{request}")),
                // On a machine that is slower than the node's patience: the same request is done
                // once.
                503 | 504 => self.post("/api/v1/commands", &body),
                _ => return answer,
            };
        }
    }

    pub fn state(&self) -> Value {
        self.get("/api/v1/state").json()
    }

    /// Polls until a condition holds.
    pub fn until(&self, reached: impl Fn(&Value) -> bool) -> Value {
        self.until_of("/api/v1/state", reached)
    }

    /// The same for any resource.
    pub fn until_of(&self, path: &str, reached: impl Fn(&Value) -> bool) -> Value {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let seen = self.get(path).json();
            if reached(&seen) {
                return seen;
            }
            assert!(Instant::now() < give_up, "{path} stayed {seen}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
