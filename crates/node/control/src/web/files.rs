//! The page: files that were built before this program was compiled, and are part of it.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use crate::problem::Problem;

/// A file of the page.
struct File {
    path: &'static str,
    bytes: &'static [u8],
    /// Changes with the bytes.
    tag: &'static str,
}

// `FILES: &[File]`, made by build.rs from web/dist; empty if the page was not built.
include!(concat!(env!("OUT_DIR"), "/page.rs"));

const NOT_BUILT: &str = "The page was not built into this program: install Node 20, run `make web`, \
    and build it again. The API is here all the same: /api/docs\n";

/// `/`.
pub(super) async fn index(headers: HeaderMap) -> Response {
    if FILES.is_empty() {
        return ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], NOT_BUILT).into_response();
    }
    file("index.html", &headers)
}

/// Every other path outside the API.
pub(super) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&path, &headers)
}

fn file(path: &str, headers: &HeaderMap) -> Response {
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        return Problem::not_found(format_args!("page /{path}")).into_response();
    };
    let seen = headers.get(header::IF_NONE_MATCH).map(|tag| tag.as_bytes());
    if seen == Some(file.tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, file.tag)]).into_response();
    }
    // Names in assets/ change with the content; the others are requested each time.
    let caching = match path.starts_with("assets/") {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let fields = [
        (header::CONTENT_TYPE, kind(path)),
        (header::CACHE_CONTROL, caching),
        (header::ETAG, file.tag),
    ];
    (fields, file.bytes).into_response()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json" | "webmanifest") => "application/json",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}
