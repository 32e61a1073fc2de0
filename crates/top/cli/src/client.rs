//! The way to a node's HTTP API, for `ctl`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::output::UsageError;

/// Where the node is, and who asks.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Target {
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
    /// A node that anybody may ask.
    pub(crate) fn of(url: &str) -> Self {
        Self { url: url.to_owned(), token: None, certificate: None }
    }
}

/// A node that was asked.
pub(crate) struct Client {
    agent: ureq::Agent,
    base: String,
    token: Option<String>,
}

/// A request that the node refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) detail: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the node refused ({}): {}", self.status, self.detail)
    }
}

impl std::error::Error for Refused {}

impl Client {
    /// The way to a node.
    ///
    /// # Errors
    /// A certificate that cannot be read, an address that is none.
    pub(crate) fn new(target: &Target) -> anyhow::Result<Self> {
        let base = target.url.trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            let message = format!("expected --url http://HOST:PORT or https://.., got {base:?}");
            anyhow::bail!(UsageError(message));
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
    /// The node is not there, or refuses ([`Refused`]).
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.agent.get(self.at(path));
        self.take(self.authorized(request).call())
    }

    /// Asks for a text.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn text(&self, path: &str) -> anyhow::Result<String> {
        let request = self.authorized(self.agent.get(self.at(path)));
        Ok(self.body(request.call())?.1)
    }

    /// Sends something.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.authorized(self.agent.post(self.at(path)));
        self.take(request.content_type("application/json").send(body.to_string()))
    }

    /// Changes something.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
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

    fn take(&self, sent: Result<Response<ureq::Body>, ureq::Error>) -> anyhow::Result<Value> {
        let (_, text) = self.body(sent)?;
        serde_json::from_str(&text).with_context(|| format!("{} answered no JSON", self.base))
    }

    fn body(
        &self,
        sent: Result<Response<ureq::Body>, ureq::Error>,
    ) -> anyhow::Result<(StatusCode, String)> {
        let base = &self.base;
        let mut response = sent.with_context(|| format!("no answer from {base}"))?;
        let status = response.status();
        let limit = response.body_mut().with_config().limit(64 << 20);
        let text = limit.read_to_string().with_context(|| format!("the answer of {base}"))?;
        if status.is_success() {
            return Ok((status, text));
        }
        let problem: Value = serde_json::from_str(&text).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or(text.trim()).to_owned();
        anyhow::bail!(Refused { status: status.as_u16(), detail });
    }
}

fn certificates(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let items = parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = items.collect();
    anyhow::ensure!(!certificates.is_empty(), "{name}: expected a certificate in PEM");
    Ok(certificates)
}
