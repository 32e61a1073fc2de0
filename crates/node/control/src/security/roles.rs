//! Roles, and the least one that each route asks for.

use axum::http::Method;

/// What a client may do; each role includes the one before.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// Start and stop runs, change properties, acknowledge alarms.
    Operator,
    /// Change tokens, read the audit log, end the program.
    Admin,
}

impl Role {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let roles = [Self::Viewer, Self::Operator, Self::Admin];
        let found = roles.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| format!("expected viewer, operator or admin, got {text:?}"))
    }
}

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody may, without a token.
    Public,
    /// At least that role.
    Least(Role),
}

use Access::{Least, Public};
use Role::{Admin, Operator, Viewer};

/// Every route. What is not here is refused: a route that is forgotten is closed, not open.
pub(crate) const ROUTES: &[(&str, &str, Access)] = &[
    ("GET", "/api/v1/state", Least(Viewer)),
    ("GET", "/api/v1/sources", Least(Viewer)),
    ("GET", "/api/v1/sources/{name}/sample", Least(Viewer)),
    ("GET", "/api/v1/devices", Least(Viewer)),
    ("GET", "/api/v1/devices/{*path}", Least(Viewer)),
    ("PATCH", "/api/v1/devices/{*path}", Least(Operator)),
    ("POST", "/api/v1/commands", Least(Operator)),
    ("GET", "/api/v1/commands/{request}", Least(Viewer)),
    ("GET", "/api/v1/runs", Least(Viewer)),
    ("GET", "/api/v1/runs/{number}", Least(Viewer)),
    ("PATCH", "/api/v1/runs/{number}", Least(Operator)),
    ("GET", "/api/v1/runs/{number}/configuration", Least(Viewer)),
    ("GET", "/api/v1/runs/{number}/ledger", Least(Viewer)),
    ("GET", "/api/v1/configurations", Least(Viewer)),
    ("POST", "/api/v1/configurations", Least(Operator)),
    ("GET", "/api/v1/configurations/{version}", Least(Viewer)),
    ("GET", "/api/v1/configurations/{version}/diff/{other}", Least(Viewer)),
    ("POST", "/api/v1/reload", Least(Operator)),
    ("GET", "/api/v1/logs", Least(Viewer)),
    ("GET", "/api/v1/alarms", Least(Viewer)),
    ("POST", "/api/v1/alarms/acknowledge", Least(Operator)),
    ("POST", "/api/v1/alarms/{id}/acknowledge", Least(Operator)),
    ("GET", "/api/v1/history", Least(Viewer)),
    ("GET", "/api/v1/stream", Least(Viewer)),
    ("GET", "/api/v1/session", Least(Viewer)),
    ("POST", "/api/v1/session", Public),
    ("DELETE", "/api/v1/session", Least(Viewer)),
    ("GET", "/api/v1/audit", Least(Admin)),
    ("GET", "/api/v1/tokens", Least(Admin)),
    ("POST", "/api/v1/tokens", Least(Admin)),
    ("DELETE", "/api/v1/tokens/{name}", Least(Admin)),
    ("GET", "/metrics", Least(Viewer)),
    ("GET", "/healthz", Public),
    ("GET", "/api/openapi.json", Public),
    ("GET", "/api/docs", Public),
    ("GET", "/", Public),
    ("GET", "/{*asset}", Public),
];

/// What a route asks for; none where there is no such route or method.
pub(crate) fn access(method: &Method, path: &str) -> Option<Access> {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let mut routes = ROUTES.iter();
    let found = routes.find(|(one, route, _)| *one == method && *route == path);
    found.map(|(_, _, access)| *access)
}
