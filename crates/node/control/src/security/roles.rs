//! Roles, and the requirements of routes.

catchment_model::named! {
    /// What a client may do; each role includes the one before.
    #[derive(PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    Role {
        /// Deliver data as a front-end, and nothing else: no page and no request is open to it.
        Source = "source",
        /// Deliver frames to a storage node as a recorder, and nothing else.
        Node = "node",
        /// Read only.
        Viewer = "viewer",
        /// Start and stop runs, change properties, acknowledge alarms.
        Operator = "operator",
        /// Change tokens, read the audit log, end the program.
        Admin = "admin",
    }
}

impl Role {
    /// Whether it opens the page and requests: the others are of programs that deliver data.
    pub(crate) fn is_of_person(self) -> bool {
        self >= Self::Viewer
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text).ok_or_else(|| {
            format!("expected viewer, operator, admin, source or node, got {text:?}")
        })
    }
}

/// The requirement of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No token is needed.
    Public,
    /// At least that role.
    Least(Role),
}
