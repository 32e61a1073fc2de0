//! The checks on every request before its handler runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::origin;
use super::roles::{Access, Role};
use super::sessions::COOKIE;
use super::tokens::TokenEntry;
use crate::problem::Problem;
use crate::shared::NodeShared;
use crate::web::access;

/// How much of a refused request's path the audit log contains.
const NOTED_MAX: usize = 200;

/// The origin of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The identity of the client.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) from: String,
    /// The session's id and CSRF token, if it is a cookie.
    pub(crate) session: Option<(String, String)>,
    /// The token's entry; none if there are no tokens.
    pub(crate) entry: Option<TokenEntry>,
}

impl Who {
    /// Whether the client would still be admitted: the session is valid, the token was not revoked,
    /// and a client without one is still allowed.
    pub(crate) fn stands(&self, shared: &NodeShared) -> bool {
        let session = |(id, _): &(String, String)| shared.sessions.find(id).is_some();
        self.session.as_ref().is_none_or(session)
            && match &self.entry {
                Some(entry) => shared.tokens.stands(entry),
                None => !shared.tokens.any(),
            }
    }
}

/// Admits a request, or returns the reason against it.
pub(crate) async fn guard(
    State(shared): State<Arc<NodeShared>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = admit(&shared, &mut request) {
        return problem.into_response();
    }
    if !changes(&request) {
        return next.run(request).await;
    }
    // A request once begun is completed and logged, even if the client disconnects meanwhile.
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(error) => Problem::internal(format_args!("it failed: {error}")).into_response(),
    }
}

fn changes(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}

fn admit(shared: &NodeShared, request: &mut Request) -> Result<(), Problem> {
    origin::check(request, &shared.settings.names)?;
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |Peer(address)| address);
    if !shared.requests.take(peer.ip(), Instant::now()) {
        let detail = "too many requests from this address; wait a second";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail));
    }
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(needed) = path.and_then(|path| access(request.method(), &path)) else {
        // No such route or method: the router reports it.
        return Ok(());
    };
    let who = identify(shared, request.headers(), peer)?;
    if let Access::Least(role) = needed {
        let Some(who) = &who else {
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "expected a token or a session"));
        };
        if let Err(problem) = permit(shared, who, role, request) {
            let what = format!("{} {}", request.method(), request.uri().path());
            let what: String = what.chars().take(NOTED_MAX).collect();
            shared.note(who, what, format!("refused: {}", problem.detail));
            return Err(problem);
        }
    }
    if let Some(who) = who {
        request.extensions_mut().insert(who);
    }
    Ok(())
}

/// Whether an identified client may do that.
fn permit(shared: &NodeShared, who: &Who, role: Role, request: &Request) -> Result<(), Problem> {
    let forbidden = |detail: &str| Err(Problem::new(StatusCode::FORBIDDEN, detail));
    if shared.settings.read_only && role > Role::Viewer {
        return forbidden("this node is only looked at: whoever started the recorder ends it");
    }
    if who.role < role {
        let (expected, got) = (role.name(), who.role.name());
        return forbidden(&format!("expected the role {expected}, got {got} ({})", who.name));
    }
    if let Some((_, csrf)) = who.session.as_ref().filter(|_| changes(request)) {
        let sent = request.headers().get("x-catchment-csrf").map(|value| value.as_bytes());
        if sent != Some(csrf.as_bytes()) {
            return forbidden("expected the session's csrf in the header X-Catchment-CSRF");
        }
    }
    Ok(())
}

/// Identifies the client: by token, by session or, if there are no tokens, as any client that can
/// reach the node.
fn identify(
    shared: &NodeShared,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<Option<Who>, Problem> {
    let from = peer.to_string();
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token = value.to_str().ok().and_then(bearer);
        if let Some(entry) = token.and_then(|token| shared.tokens.find(token.trim())) {
            return Ok(Some(known(entry, from, None)));
        }
        return Err(refused(shared, peer));
    }
    let id = cookie(headers, shared.port());
    if let Some(session) = id.and_then(|id| shared.sessions.find(id))
        && shared.tokens.stands(&session.entry)
    {
        return Ok(Some(known(session.entry, from, Some((session.id, session.csrf)))));
    }
    if shared.tokens.any() {
        return Ok(None);
    }
    let role = if shared.settings.read_only { Role::Viewer } else { Role::Admin };
    Ok(Some(Who { name: "local".into(), role, from, session: None, entry: None }))
}

/// The token of an `Authorization: Bearer TOKEN`; a scheme is the same in any case (RFC 9110).
fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

fn known(entry: TokenEntry, from: String, session: Option<(String, String)>) -> Who {
    Who { name: entry.name.clone(), role: entry.role, from, session, entry: Some(entry) }
}

/// An invalid token: it is reported, and after a few, not even that.
pub(crate) fn refused(shared: &NodeShared, peer: SocketAddr) -> Problem {
    shared.counts.refused_tokens.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    if !shared.guesses.take(peer.ip(), Instant::now()) {
        let detail = "too many wrong tokens from this address; wait a minute";
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
    }
    Problem::new(StatusCode::UNAUTHORIZED, "the token is not known, or was revoked")
}

/// The session's id in the cookies.
fn cookie(headers: &HeaderMap, port: u16) -> Option<&str> {
    let ours = format!("{COOKIE}{port}");
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|one| one.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|one| one.split_once('='));
    pairs.find(|(name, _)| name.trim() == ours).map(|(_, value)| value.trim())
}
