//! Bodies, queries and paths as types; a mismatch is a problem that names the error and its place.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

/// The query.
pub(crate) struct Params<T>(pub(crate) T);

/// The path's variable parts.
pub(crate) struct Place<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        // This also keeps forms of other sites from being accepted as commands.
        if !essence.eq_ignore_ascii_case("application/json") {
            let detail = format!("expected Content-Type: application/json, got {kind:?}");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let detail = rejection.body_text();
            Problem::new(rejection.status(), detail)
        })?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            let problem = match error.classify() {
                serde_json::error::Category::Data => Problem::unprocessable(error.to_string()),
                _ => Problem::bad(format!("the body is no JSON: {error}")),
            };
            problem.with("line", error.line()).with("column", error.column())
        })
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(value)| Self(value)).map_err(|error| Problem::bad(error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Place<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(value)| Self(value)).map_err(|error| {
            // An invalid number names nothing.
            Problem::new(StatusCode::NOT_FOUND, error.body_text())
        })
    }
}

/// Checks that a text is at most that long.
///
/// # Errors
/// It is longer.
pub(crate) fn at_most(field: &str, text: Option<&str>, bytes: usize) -> Result<(), Problem> {
    let got = text.map_or(0, str::len);
    if got <= bytes {
        return Ok(());
    }
    let detail = format!("{field}: expected at most {bytes} bytes, got {got}");
    Err(Problem::unprocessable(detail).with("field", field))
}

/// Checks that text from people is not too long, and cannot control a terminal: the catalogue and
/// `ctl` show it.
///
/// # Errors
/// It is longer, or has control characters other than line ends and tabs.
pub(crate) fn written(field: &str, text: Option<&str>, bytes: usize) -> Result<(), Problem> {
    at_most(field, text, bytes)?;
    let obeyed = |&c: &char| c.is_control() && !['\n', '\t'].contains(&c);
    match text.and_then(|text| text.chars().find(obeyed)) {
        None => Ok(()),
        Some(bad) => {
            let detail = format!("{field}: expected text without control characters, got {bad:?}");
            Err(Problem::unprocessable(detail).with("field", field))
        }
    }
}

/// Checks that a number is within bounds.
///
/// # Errors
/// It is not.
pub(crate) fn within(
    field: &str,
    value: Option<u64>,
    (least, default, most): (u64, u64, u64),
) -> Result<u64, Problem> {
    match value {
        None => Ok(default),
        Some(value) if (least..=most).contains(&value) => Ok(value),
        Some(value) => {
            let detail = format!("{field}: expected {least} to {most}, got {value}");
            Err(Problem::bad(detail).with("field", field))
        }
    }
}
