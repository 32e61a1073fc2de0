//! Sessions, tokens, the audit log.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;

use super::extract::{Body, Params, Place, at_most, within};
use super::routes::{Answer, noted};
use crate::api;
use crate::problem::Problem;
use crate::security::guard::{Peer, Who, refused};
use crate::security::sessions::{COOKIE, LASTS};
use crate::security::tokens::TokenError;
use crate::shared::Shared;

/// How long a request for the audit log waits for unwritten lines.
const AUDIT_WAIT: Duration = Duration::from_secs(1);

/// The identity of the client.
#[utoipa::path(get, path = "/api/v1/session", tag = "session",
    responses((status = 200, body = api::Session)))]
pub(super) async fn session(Extension(who): Extension<Who>) -> Json<api::Session> {
    let csrf = who.session.map(|(_, csrf)| csrf);
    Json(api::Session { name: who.name, role: who.role.name().into(), csrf })
}

/// Opens a session for a browser: the cookie stands for the token.
#[utoipa::path(post, path = "/api/v1/session", tag = "session", request_body = api::LogIn,
    responses((status = 200, body = api::Session)))]
pub(super) async fn log_in(
    State(shared): Shared,
    peer: Option<Extension<Peer>>,
    Body(body): Body<api::LogIn>,
) -> Result<impl IntoResponse, Problem> {
    at_most("token", Some(&body.token), 200)?;
    let peer = peer.map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |Extension(Peer(peer))| peer);
    let Some(entry) = shared.tokens.find(body.token.trim()) else {
        return Err(refused(&shared, peer));
    };
    let (name, role, from) = (entry.name.clone(), entry.role, peer.to_string());
    let session = shared.sessions.open(entry).map_err(Problem::internal)?;
    let who = Who { name: name.clone(), role, from, session: None, entry: None };
    shared.note(&who, "log in", "done");
    let secure = if shared.tls { "; Secure" } else { "" };
    let age = LASTS.as_secs();
    let cookie = format!(
        "{COOKIE}{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}",
        shared.port(),
        session.id
    );
    let role = role.name().into();
    let body = api::Session { name, role, csrf: Some(session.csrf) };
    Ok(([(header::SET_COOKIE, cookie)], Json(body)))
}

/// Ends the session.
#[utoipa::path(delete, path = "/api/v1/session", tag = "session", responses((status = 204)))]
pub(super) async fn log_out(
    State(shared): Shared,
    Extension(who): Extension<Who>,
) -> impl IntoResponse {
    if let Some((id, _)) = &who.session {
        shared.sessions.close(id);
        shared.note(&who, "log out", "done");
    }
    let port = shared.port();
    let cookie = format!("{COOKIE}{port}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)])
}

/// The lines to return.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// The maximum number of lines.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u64>,
}

/// The audit log, newest last.
#[utoipa::path(get, path = "/api/v1/audit", tag = "admin", params(AuditQuery),
    responses((status = 200, body = api::Audit)))]
pub(super) async fn audit(
    State(shared): Shared,
    Params(query): Params<AuditQuery>,
) -> Answer<api::Audit> {
    let limit = within("limit", query.limit, (1, 200, 10_000))? as usize;
    let lines = shared.blocking(move |shared| {
        // If a disk hangs, the existing lines are better than nothing.
        shared.audit.flush(AUDIT_WAIT);
        shared.audit.tail(limit).map_err(Problem::internal)
    });
    let lines = lines.await?;
    Ok(Json(api::Audit { lines }))
}

/// The tokens, without their secret values.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "admin",
    responses((status = 200, body = api::TokenList)))]
pub(super) async fn tokens(State(shared): Shared) -> Answer<api::TokenList> {
    let tokens = shared.blocking(move |shared| shared.tokens.file.read().map_err(problem)).await?;
    let info = |token: crate::security::tokens::TokenEntry| api::TokenInfo {
        name: token.name,
        role: token.role.name().into(),
        created: token.created,
        senders: token.senders,
    };
    Ok(Json(api::TokenList { tokens: tokens.into_iter().map(info).collect() }))
}

/// Makes a token, which is shown only once. From the first one on, access requires a token.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "admin", request_body = api::NewToken,
    responses((status = 201, body = api::TokenMade)))]
pub(super) async fn add_token(
    State(shared): Shared,
    Extension(who): Extension<Who>,
    Body(new): Body<api::NewToken>,
) -> Result<(StatusCode, Json<api::TokenMade>), Problem> {
    let role = new
        .role
        .parse()
        .map_err(|error| Problem::unprocessable(format!("role: {error}")).with("field", "role"))?;
    let what = format!("add token {:?} as {}", new.name, new.role);
    let (name, senders) = (new.name.clone(), new.senders.clone());
    let made = shared
        .blocking(move |shared| {
            let added = shared.tokens.file.add_for(&name, role, senders.as_deref());
            let token = added.map_err(problem);
            shared.tokens.refresh();
            token
        })
        .await;
    noted(&shared, &who, what, &made);
    let made = api::TokenMade { name: new.name, role: new.role, token: made? };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Removes a token, effective at once.
#[utoipa::path(delete, path = "/api/v1/tokens/{name}", tag = "admin",
    params(("name" = String, Path)), responses((status = 204)))]
pub(super) async fn revoke_token(
    State(shared): Shared,
    Extension(who): Extension<Who>,
    Place(name): Place<String>,
) -> Result<StatusCode, Problem> {
    let what = format!("revoke token {name:?}");
    let revoked = shared
        .blocking(move |shared| {
            let revoked = shared.tokens.file.revoke(&name).map_err(problem);
            shared.tokens.refresh();
            revoked
        })
        .await;
    noted(&shared, &who, what, &revoked);
    revoked.map(|()| StatusCode::NO_CONTENT)
}

fn problem(error: TokenError) -> Problem {
    let detail = error.to_string();
    match error {
        TokenError::File { .. } | TokenError::Format { .. } => Problem::internal(detail),
        TokenError::Name { .. } => Problem::unprocessable(detail).with("field", "name"),
        TokenError::Senders(_) => Problem::unprocessable(detail).with("field", "senders"),
        TokenError::Taken { .. } | TokenError::TooMany => Problem::conflict(detail),
        TokenError::Unknown { .. } => Problem::new(StatusCode::NOT_FOUND, detail),
    }
}
