//! Requests, and their results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A command to the node.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "request": "6f9d1c2e", "command": "start", "comment": "beam at 1.2 GeV" }))]
pub struct CommandRequest {
    /// Chosen by the client, preferably a UUID: a request with the same id is done once and always
    /// gets the same answer.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._:-]{1,64}$")]
    pub request: String,
    /// configure, arm, start, pause, resume, stop, disarm, reset or shutdown.
    #[schema(max_length = 32)]
    pub command: String,
    /// The device; if absent, the whole node.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub device: Option<String>,
    /// The reason: a remark of the run that the command begins, changes or ends.
    #[serde(default)]
    #[schema(max_length = 4000)]
    pub comment: Option<String>,
    /// The configuration's version; if absent, the present one.
    #[serde(default)]
    pub configuration: Option<u64>,
    /// The number of the run for which the command is meant. If another run, or none, is the
    /// current one when the command arrives, nothing is done and the answer is 409. If absent, the
    /// command applies to any current run.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub run: Option<u64>,
}

/// The result of a command.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CommandResult {
    /// The request's id.
    pub request: String,
    /// The command.
    pub command: String,
    /// done, failed or under_way.
    pub status: String,
    /// The node's state after it.
    pub state: String,
    /// Why it failed; while it is under way what it waits for, where somebody must do something.
    pub reason: Option<String>,
    /// The run that it began or ended.
    pub run: Option<u64>,
    /// Who requested it.
    pub who: String,
    /// When it was requested.
    pub time: String,
    /// How long it took, or has taken so far.
    pub seconds: f64,
}

/// A change to a run's entry in the catalogue.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "remark": "target moved at 03:10", "quality": "good" }))]
pub struct RunChange {
    /// A remark to append to the existing ones.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 4000)]
    pub remark: Option<String>,
    /// unknown, good, bad, or a value of the experiment's own.
    #[serde(default)]
    #[schema(max_length = 64)]
    pub quality: Option<String>,
}

/// A configuration to keep.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "text": "[run]\nfolder = \"runs\"\n" }))]
pub struct NewConfiguration {
    /// The TOML text.
    pub text: String,
}

/// An acknowledgement.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "comment": "board 7 is being exchanged" }))]
pub struct Acknowledge {
    /// The comment.
    #[serde(default)]
    #[schema(max_length = 4000)]
    pub comment: Option<String>,
}

/// An acknowledgement of many alarms.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ids": ["3", "5"], "comment": "the crate has no power" }))]
pub struct AcknowledgeAll {
    /// The alarms to acknowledge; null: all.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub ids: Option<Vec<String>>,
    /// The comment.
    #[serde(default)]
    #[schema(max_length = 4000)]
    pub comment: Option<String>,
}

/// A token, to open a session.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "token": "catchment_..." }))]
pub struct LogIn {
    /// As `catchment token add` showed it.
    #[schema(max_length = 200)]
    pub token: String,
}

impl std::fmt::Debug for LogIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogIn(..)")
    }
}

/// The identity of the client.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Session {
    /// The token's name; `local` if there are no tokens.
    pub name: String,
    /// viewer, operator or admin.
    pub role: String,
    /// The value to send as `X-Catchment-CSRF` with changes, if the session is a cookie.
    pub csrf: Option<String>,
}

/// A token to make.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "name": "shift", "role": "operator" }))]
pub struct NewToken {
    /// Its name.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// viewer, operator, admin or source.
    pub role: String,
    /// Of the role source: a pattern of the front-ends that it admits; all without one.
    pub senders: Option<String>,
}

/// A new token, shown only this once.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TokenMade {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// The token itself.
    pub token: String,
}

/// The tokens, without their secret values.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TokenList {
    /// The tokens.
    pub tokens: Vec<TokenInfo>,
}

/// A token, without its secret value.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TokenInfo {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// When it was made.
    pub created: String,
    /// Of the role source: a pattern of the front-ends that it admits; all without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub senders: Option<String>,
}
