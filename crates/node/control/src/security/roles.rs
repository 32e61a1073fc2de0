//! Roles, and what a route asks for.

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
