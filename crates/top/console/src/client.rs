//! A client of a node's HTTP API, for `ctl` and the benches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::error::{ConsoleError, UsageError};

/// Where the node is, and who asks.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// Where the node listens
    #[arg(long, global = true, env = "CATCHMENT_URL", default_value = "http://127.0.0.1:8750")]
    url: String,
    /// The token; best given by the environment, where others do not see it
    #[arg(long, global = true, env = "CATCHMENT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The certificate to trust (PEM), for a node that made its own:
    /// RUNS/.catchment/tls/certificate.pem
    #[arg(long, global = true, env = "CATCHMENT_CERTIFICATE", value_name = "FILE")]
    certificate: Option<PathBuf>,
}

impl Target {
    /// A node that requires no token.
    pub fn of(url: &str) -> Self {
        Self { url: url.to_owned(), token: None, certificate: None }
    }
}

/// A node that was asked.
pub struct Client {
    agent: ureq::Agent,
    base: String,
    token: Option<String>,
}

impl Client {
    /// The way to a node.
    ///
    /// # Errors
    /// A certificate that cannot be read, an address that is none.
    pub fn new(target: &Target) -> Result<Self, ConsoleError> {
        let base = target.url.trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            let message = format!("expected --url http://HOST:PORT or https://.., got {base:?}");
            return Err(ConsoleError::Address { source: UsageError(message) });
        }
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(30)))
            .http_status_as_error(false);
        if let Some(path) = &target.certificate {
            let roots = RootCerts::Specific(Arc::new(certificates(path)?));
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let agent = ureq::Agent::new_with_config(config.build());
        Ok(Self { agent, base, token: target.token.clone() })
    }

    /// Asks for something.
    ///
    /// # Errors
    /// The node is not there, or refuses ([`ConsoleError::Refused`]).
    pub fn get(&self, path: &str) -> Result<Value, ConsoleError> {
        let request = self.agent.get(self.at(path));
        self.take(self.authorized(request).call())
    }

    /// Asks for a text.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn text(&self, path: &str) -> Result<String, ConsoleError> {
        let request = self.authorized(self.agent.get(self.at(path)));
        Ok(self.body(request.call())?.1)
    }

    /// Sends something.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, ConsoleError> {
        let request = self.authorized(self.agent.post(self.at(path)));
        self.take(request.content_type("application/json").send(body.to_string()))
    }

    /// Changes something.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn patch(&self, path: &str, body: &Value) -> Result<Value, ConsoleError> {
        let request = self.authorized(self.agent.patch(self.at(path)));
        self.take(request.content_type("application/json").send(body.to_string()))
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn take(&self, sent: Result<Response<ureq::Body>, ureq::Error>) -> Result<Value, ConsoleError> {
        let (_, text) = self.body(sent)?;
        serde_json::from_str(&text)
            .map_err(|source| ConsoleError::NotJson { url: self.base.clone(), source })
    }

    fn body(
        &self,
        sent: Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<(StatusCode, String), ConsoleError> {
        let url = || self.base.clone();
        let no_answer = |error| ConsoleError::NoAnswer { url: url(), source: Box::new(error) };
        let mut response = sent.map_err(no_answer)?;
        let status = response.status();
        let limit = response.body_mut().with_config().limit(64 << 20);
        let broken = |error| ConsoleError::Answer { url: url(), source: Box::new(error) };
        let text = limit.read_to_string().map_err(broken)?;
        if status.is_success() {
            return Ok((status, text));
        }
        let problem: Value = serde_json::from_str(&text).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or(text.trim()).to_owned();
        Err(ConsoleError::Refused { status: status.as_u16(), detail })
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, ConsoleError> {
    let bytes = std::fs::read(path)
        .map_err(|source| ConsoleError::Certificate { path: path.to_owned(), source })?;
    let items = parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = items.collect();
    if certificates.is_empty() {
        return Err(ConsoleError::NoCertificate { path: path.to_owned() });
    }
    Ok(certificates)
}
