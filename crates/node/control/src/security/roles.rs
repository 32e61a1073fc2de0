//! Roles, and what a route asks for.

catchment_model::named! {
    /// What a client may do; each role includes the one before.
    #[derive(PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    Role {
        /// Look.
        Viewer = "viewer",
        /// Start and stop runs, change properties, acknowledge alarms.
        Operator = "operator",
        /// Change tokens, read the audit log, end the program.
        Admin = "admin",
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text)
            .ok_or_else(|| format!("expected viewer, operator or admin, got {text:?}"))
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
