//! The OpenAPI document, made from the handlers and types, and a page of it for people.

use std::fmt::Write as _;

use axum::Json;
use axum::http::header;
use axum::response::IntoResponse;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder, SecurityRequirement};

use super::{metrics, routes, routes_runs, routes_tokens, sample, stream};
use crate::api;
use crate::problem::Details;
use crate::security::roles::{Access, ROUTES};
use crate::security::sessions::COOKIE;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Catchment",
        description = "Control of a node: state, commands, runs, alarms, logs. Times are RFC 3339 \
            in UTC, durations are seconds. What cannot be done is told as problem details (RFC 9457)."
    ),
    paths(
        routes::health,
        routes::state,
        routes::sources,
        routes::devices,
        routes::device,
        routes::device_schema,
        routes::change_device,
        routes::command,
        routes::command_result,
        routes::logs,
        routes::alarms,
        routes::acknowledge,
        routes::acknowledge_all,
        routes::history,
        sample::sample,
        stream::stream,
        metrics::metrics,
        routes_runs::runs,
        routes_runs::run,
        routes_runs::change_run,
        routes_runs::run_configuration,
        routes_runs::run_ledger,
        routes_runs::configurations,
        routes_runs::configuration,
        routes_runs::add_configuration,
        routes_runs::difference,
        routes_runs::reload,
        routes_tokens::session,
        routes_tokens::log_in,
        routes_tokens::log_out,
        routes_tokens::audit,
        routes_tokens::tokens,
        routes_tokens::add_token,
        routes_tokens::revoke_token,
    ),
    components(schemas(Details, api::State))
)]
struct Document;

/// The OpenAPI document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document.info.license = None;
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let cookie = ApiKey::Cookie(ApiKeyValue::new(format!("{COOKIE}PORT")));
    components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            complete(path, method, operation);
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("GET", &mut item.get),
        ("POST", &mut item.post),
        ("PATCH", &mut item.patch),
        ("DELETE", &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, slot)| Some((method, slot.as_mut()?)))
}

/// What every operation has: who may, and the problems.
fn complete(path: &str, method: &str, operation: &mut Operation) {
    let access = documented_access(path, method);
    let (who, extra): (&str, &[&str]) = match access {
        Some(Access::Least(role)) => (role.name(), &["403"]),
        _ => ("anybody", &[]),
    };
    if who != "anybody" {
        let none: [&str; 0] = [];
        operation.security = Some(vec![
            SecurityRequirement::new("token", none),
            SecurityRequirement::new("session", none),
        ]);
    }
    let description = operation.description.take().unwrap_or_default();
    operation.description = Some(format!("{description}\n\nFor: {who}.").trim().to_owned());
    let problem = || {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        ResponseBuilder::new()
            .description("A problem")
            .content("application/problem+json", content)
            .build()
    };
    let always = ["400", "401", "421", "422", "429", "500", "503", "504"];
    let with_parts: &[&str] = if path.contains('{') { &["404"] } else { &[] };
    let changes: &[&str] = if method == "GET" { &[] } else { &["405", "409", "413", "415"] };
    for status in always.iter().chain(with_parts).chain(changes).chain(extra) {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).to_owned()).or_insert_with(|| problem().into());
    }
}

/// What a documented path asks for: paths of devices are one route.
pub(crate) fn documented_access(path: &str, method: &str) -> Option<Access> {
    let path = match path.strip_prefix("/api/v1/devices/") {
        Some(_) => "/api/v1/devices/{*path}",
        None => path,
    };
    let found = ROUTES.iter().find(|(one, route, _)| *one == method && *route == path);
    found.map(|(_, _, access)| *access)
}

/// `/api/openapi.json`.
pub(super) async fn json() -> impl IntoResponse {
    Json(openapi())
}

/// `/api/docs`.
pub(super) async fn page() -> impl IntoResponse {
    // No script and nothing from elsewhere: a style in the page is all that it needs.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
        frame-ancestors 'none'";
    let fields = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (fields, html())
}

fn html() -> String {
    let mut document = openapi();
    let mut text = String::from(HEAD);
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let summary = operation.summary.as_deref().unwrap_or_default();
            let description = operation.description.as_deref().unwrap_or_default();
            write!(
                text,
                "<section><h2><b>{method}</b> <code>{}</code></h2><p>{}</p><p>{}</p>",
                escape(path),
                escape(summary),
                escape(description)
            )
            .ok();
            for parameter in operation.parameters.iter().flatten() {
                let RefOr::T(parameter) = parameter else { continue };
                let about = parameter.description.as_deref().unwrap_or_default();
                let (name, about) = (escape(&parameter.name), escape(about));
                write!(text, "<p class=part><code>{name}</code> {about}</p>").ok();
            }
            text += "</section>";
        }
    }
    text += "<h1>What is said and taken</h1>";
    let components = document.components.unwrap_or_default();
    for (name, schema) in &components.schemas {
        let json = serde_json::to_string_pretty(schema).unwrap_or_default();
        let (name, json) = (escape(name), escape(&json));
        write!(text, "<details><summary>{name}</summary><pre>{json}</pre></details>").ok();
    }
    text += "<h1>Problems</h1><p>What cannot be done is answered with \
        <code>application/problem+json</code>: type, title, status, detail, instance.</p>";
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8>\
    <meta name=viewport content='width=device-width'><title>Catchment API</title><style>\
    :root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;\
    margin:2rem auto;padding:0 1rem}h2{font-size:1.1rem;margin-bottom:0}section{border-top:1px \
    solid #8886;padding:.3rem 0}p{margin:.3rem 0}.part{padding-left:1.5rem}pre{overflow:auto}\
    </style><h1>Catchment API</h1><p>The same for programs: \
    <a href=/api/openapi.json>/api/openapi.json</a>.</p>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_documented_is_routed_and_what_is_routed_is_documented() {
        let mut document = openapi();
        let mut documented = Vec::new();
        for (path, item) in &mut document.paths.paths {
            for (method, _) in operations(item) {
                assert!(documented_access(path, method).is_some(), "{method} {path}");
                documented.push((method, path.clone()));
            }
        }
        for (method, path, _) in ROUTES.iter().filter(|(_, path, _)| path.starts_with("/api/v1")) {
            let path = path.replace("{*path}", "{path}");
            let found = documented.iter().any(|(one, other)| {
                one == method && (*other == path || other.starts_with(&format!("{path}/")))
            });
            assert!(found, "{method} {path} is not documented");
        }
    }
}
