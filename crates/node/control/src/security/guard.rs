//! What every request passes before its handler sees it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::origin;
use super::roles::{Access, Role, access};
use super::sessions::COOKIE;
use crate::desk::Desk;
use crate::problem::Problem;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Who is asking.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) from: String,
    /// The session's id and CSRF token, where it is a cookie.
    pub(crate) session: Option<(String, String)>,
}

/// Lets a request through, or says why not.
pub(crate) async fn guard(
    State(desk): State<Arc<Desk>>,
    mut request: Request,
    next: Next,
) -> Response {
    match admit(&desk, &mut request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn admit(desk: &Desk, request: &mut Request) -> Result<(), Problem> {
    origin::check(request.headers(), &desk.settings.names)?;
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |Peer(address)| address);
    if !desk.requests.take(peer.ip(), Instant::now()) {
        let detail = "too many requests from this address; wait a second";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail));
    }
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let Some(needed) = path.and_then(|path| access(request.method(), &path)) else {
        // No such route or method: the router says so.
        return Ok(());
    };
    let who = identify(desk, request.headers(), peer)?;
    if let Access::Least(role) = needed {
        let Some(who) = &who else {
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "expected a token or a session"));
        };
        if desk.watched && role > Role::Viewer {
            let detail = "this node is only looked at: whoever started the recorder ends it";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        if who.role < role {
            let detail = format!(
                "expected the role {}, got {} ({})",
                role.name(),
                who.role.name(),
                who.name
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        if let Some((_, csrf)) = who.session.as_ref().filter(|_| changes) {
            let sent = request.headers().get("x-catchment-csrf").map(|value| value.as_bytes());
            if sent != Some(csrf.as_bytes()) {
                let detail = "expected the session's csrf in the header X-Catchment-CSRF";
                return Err(Problem::new(StatusCode::FORBIDDEN, detail));
            }
        }
    }
    if let Some(who) = who {
        request.extensions_mut().insert(who);
    }
    Ok(())
}

/// Who asks: by token, by session, or, where there are no tokens, anybody that can reach the node.
fn identify(desk: &Desk, headers: &HeaderMap, peer: SocketAddr) -> Result<Option<Who>, Problem> {
    let from = peer.to_string();
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        if let Some(entry) = token.and_then(|token| desk.tokens.find(token.trim())) {
            return Ok(Some(Who { name: entry.name, role: entry.role, from, session: None }));
        }
        return Err(refused(desk, peer));
    }
    if let Some(session) = cookie(headers).and_then(|id| desk.sessions.find(id))
        && desk.tokens.stands(&session.entry)
    {
        let entry = session.entry;
        let session = Some((session.id, session.csrf));
        return Ok(Some(Who { name: entry.name, role: entry.role, from, session }));
    }
    if desk.tokens.any() {
        return Ok(None);
    }
    let role = if desk.watched { Role::Viewer } else { Role::Admin };
    Ok(Some(Who { name: "local".into(), role, from, session: None }))
}

/// A token that is none: told, and slowed down.
pub(crate) fn refused(desk: &Desk, peer: SocketAddr) -> Problem {
    desk.counts.refused_tokens.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    if !desk.guesses.take(peer.ip(), Instant::now()) {
        let detail = "too many wrong tokens from this address; wait a minute";
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
    }
    Problem::new(StatusCode::UNAUTHORIZED, "the token is not known, or was revoked")
}

/// The session's id in the cookies.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|one| one.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|one| one.split_once('='));
    pairs.find(|(name, _)| name.trim() == COOKIE).map(|(_, value)| value.trim())
}
