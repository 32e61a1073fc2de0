//! Responses to failed requests: problem details as in RFC 9457.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A request that was not carried out, and why. Small, since it is the error type of nearly
/// everything here.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Problem(Box<Details>);

/// A request that was not carried out, and why (RFC 9457).
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct Details {
    /// The kind of problem: a path below `/api/docs`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The error in this request.
    pub detail: String,
    /// The requested path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// Further fields, by kind: the position in a file, the state, the accepted values.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

impl Problem {
    /// A problem with that status, which determines the kind.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        let kind = title.to_ascii_lowercase().replace(' ', "-");
        Self(Box::new(Details {
            kind: format!("/api/docs#problem-{kind}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            instance: String::new(),
            more: serde_json::Map::new(),
        }))
    }

    /// 400: the request makes no sense.
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 404: it does not exist.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {what}"))
    }

    /// 409: not allowed in this state.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// 422: the request can be read, but is impossible.
    pub fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// 500: an internal error.
    pub fn internal(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail.to_string())
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<serde_json::Value>) -> Self {
        self.more.insert(field.to_owned(), value.into());
        self
    }
}

impl std::ops::Deref for Problem {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl std::ops::DerefMut for Problem {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_string(&self).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
        // The last layer adds the path.
        response.extensions_mut().insert(self);
        response
    }
}
