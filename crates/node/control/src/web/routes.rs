//! The layers of every request, and the handlers of state, devices, commands, alarms, logs and
//! plots.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use catchment_telemetry::utc_now;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde::Deserialize;
use tokio::sync::watch;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};

use super::extract::{Body, Params, Place, at_most, within, written};
use super::{stream, table};
use crate::api;
use crate::configuration::Version;
use crate::front_ends::{self, FRONT_ENDS};
use crate::problem::Problem;
use crate::properties::with_emulator;
use crate::security::guard::{Who, guard};
use crate::shared::{NodeShared, Shared, View, answered};

/// A request that is not answered after this time is abandoned: slower operations report earlier
/// that they are in progress.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The result of a handler.
pub(super) type Answer<T> = Result<Json<T>, Problem>;

/// All routes, with the layers of every request.
pub(super) fn router(shared: Arc<NodeShared>, stopped: watch::Receiver<bool>) -> Router {
    let streams = stream::Streams::new(stopped);
    let compressed = DefaultPredicate::new()
        .and(NotForContentType::new("text/event-stream"))
        // Files, whose length and ranges are said.
        .and(NotForContentType::new("application/octet-stream"));
    table::router()
        .layer(Extension(streams))
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .layer(CompressionLayer::new().compress_when(compressed))
        .layer(from_fn(late))
        .layer(from_fn_with_state(Arc::clone(&shared), finish))
        .with_state(shared)
}

/// Abandons requests that take too long; streams have begun by then.
async fn late(request: Request, next: Next) -> Response {
    match tokio::time::timeout(ANSWER_WITHIN, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = "no answer within 30 s";
            Problem::new(StatusCode::GATEWAY_TIMEOUT, detail).into_response()
        }
    }
}

/// Adds headers to every answer and problem details to every failure, and counts.
async fn finish(State(shared): Shared, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    shared.counts.requests.fetch_add(1, Relaxed);
    let mut response = next.run(request).await;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        shared.counts.problems.fetch_add(1, Relaxed);
        let refused = response.extensions_mut().remove::<Problem>();
        let mut problem = refused.unwrap_or_else(|| {
            let detail = status.canonical_reason().unwrap_or("it cannot be done");
            Problem::new(status, detail.to_lowercase())
        });
        problem.instance.clone_from(&path);
        let allow = response.headers_mut().remove(header::ALLOW);
        response = problem.into_response();
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"catchment\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        // A page may have its own policy.
        let header = headers.entry(HeaderName::from_static(name));
        header.or_insert(HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// No content from elsewhere, and no framing by other sites.
const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// Whether the program is alive: its control thread observes the data flow.
#[utoipa::path(get, path = "/healthz", tag = "node",
    responses((status = 200, body = api::Health)))]
pub(super) async fn health(State(shared): Shared) -> Answer<api::Health> {
    let view = shared.view();
    if view.is_old {
        let detail = view.state.verdict.text.clone();
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    }
    Ok(Json(api::Health { status: "alive".into() }))
}

/// The node now.
#[utoipa::path(get, path = "/api/v1/state", tag = "node",
    responses((status = 200, body = api::State)))]
pub(super) async fn state(State(shared): Shared) -> Json<api::State> {
    Json(shared.view().state.clone())
}

/// All sources and links, worst first.
#[utoipa::path(get, path = "/api/v1/sources", tag = "sources",
    responses((status = 200, body = api::SourceList)))]
pub(super) async fn sources(State(shared): Shared) -> Json<api::SourceList> {
    Json(shared.view().sources.clone())
}

/// All devices.
#[utoipa::path(get, path = "/api/v1/devices", tag = "devices",
    responses((status = 200, body = api::DeviceList)))]
pub(super) async fn devices(State(shared): Shared) -> Json<api::DeviceList> {
    Json(api::DeviceList { devices: shared.view().devices.clone() })
}

/// A device; its path may have slashes.
#[utoipa::path(get, path = "/api/v1/devices/{path}", tag = "devices",
    params(("path" = String, Path, description = "such as node/recorder")),
    responses((status = 200, body = api::Device)))]
pub(super) async fn device(
    State(shared): Shared,
    Place(path): Place<String>,
) -> Result<Response, Problem> {
    let view = shared.view();
    if let Some(device) = path.strip_suffix("/schema") {
        return device_schema(&view, device).map(IntoResponse::into_response);
    }
    let found = view.devices.iter().find(|device| device.path == path);
    let found = found.ok_or_else(|| Problem::not_found(format_args!("device {path}")))?;
    Ok(Json(found.clone()).into_response())
}

/// The JSON Schema of a device's properties.
#[utoipa::path(get, path = "/api/v1/devices/{path}/schema", tag = "devices",
    params(("path" = String, Path, description = "such as node/recorder")),
    responses((status = 200, body = Object, description = "JSON Schema 2020-12")))]
pub(super) fn device_schema(view: &View, path: &str) -> Answer<serde_json::Value> {
    let schema = view.schemas.get(path).cloned();
    schema.map(Json).ok_or_else(|| Problem::not_found(format_args!("device {path}")))
}

/// Changes properties of a device: those that its schema does not mark readOnly.
#[utoipa::path(patch, path = "/api/v1/devices/{path}/properties", tag = "devices",
    params(("path" = String, Path, description = "such as node/recorder")),
    request_body(content = Object, example = json!({ "rate_hz": 200 })),
    responses((status = 200, body = api::Device)))]
pub(super) async fn change_device(
    State(shared): Shared,
    Extension(who): Extension<Who>,
    Place(path): Place<String>,
    Body(values): Body<serde_json::Map<String, serde_json::Value>>,
) -> Answer<api::Device> {
    let Some(device) = path.strip_suffix("/properties").map(str::to_owned) else {
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "change its /properties"));
    };
    let what = format!("change {device}: {}", serde_json::Value::Object(values.clone()));
    let of_front_ends = device.strip_prefix(FRONT_ENDS).and_then(|path| path.strip_prefix('/'));
    let result = match of_front_ends {
        Some(name) => front_ends::change(&shared, name, values, &who).await,
        None => change(&shared, device, values, who.clone()).await,
    };
    noted(&shared, &who, what, &result);
    result.map(Json)
}

/// The control thread says what is to be changed, and waits for no check of a configuration.
async fn change(
    shared: &Arc<NodeShared>,
    device: String,
    values: serde_json::Map<String, serde_json::Value>,
    who: Who,
) -> Result<api::Device, Problem> {
    let path = device.clone();
    let (patch, before) = shared.ask(move |conductor, _| conductor.patch(&path, &values)).await?;
    let changed = match patch.is_empty() {
        true => None,
        false => Some(
            shared
                .blocking(move |shared| {
                    let changed = with_emulator(&*shared.configure, &before, &patch)?;
                    Ok((changed, before))
                })
                .await?,
        ),
    };
    shared.ask(move |conductor, _| conductor.change(&device, changed, &who)).await
}

/// Writes an outcome to the audit log.
pub(super) fn noted<T>(shared: &NodeShared, who: &Who, what: String, result: &Result<T, Problem>) {
    let result = match result {
        Ok(_) => "done".to_owned(),
        Err(problem) => format!("refused: {}", problem.detail),
    };
    shared.note(who, what, result);
}

/// Sends a command to the node. The same request id is done once, and gets the same answer.
#[utoipa::path(post, path = "/api/v1/commands", tag = "control",
    request_body = api::CommandRequest,
    responses((status = 200, body = api::CommandResult, description = "done"),
        (status = 202, body = api::CommandResult, description = "under way: ask again")))]
pub(super) async fn command(
    State(shared): Shared,
    Extension(who): Extension<Who>,
    Body(request): Body<api::CommandRequest>,
) -> Result<Response, Problem> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    if !(1..=64).contains(&request.request.len()) || !request.request.chars().all(allowed) {
        let detail = "request: expected 1 to 64 letters, digits and . _ : - (best a UUID)";
        return Err(Problem::unprocessable(detail).with("field", "request"));
    }
    written("comment", request.comment.as_deref(), 4_000)?;
    at_most("device", request.device.as_deref(), 200)?;
    let line = api::AuditLine {
        what: request.command.clone(),
        request: Some(request.request.clone()),
        comment: request.comment.clone(),
        ..crate::shared::line(&who)
    };
    let note = |result| shared.audit.write(api::AuditLine { result, ..line.clone() });
    if request.command == "shutdown" && who.role < crate::security::roles::Role::Admin {
        let problem = Problem::new(StatusCode::FORBIDDEN, "shutdown: expected the role admin");
        note(format!("refused: {}", problem.detail));
        return Err(problem);
    }
    // The control thread logs the outcome, whether or not the client still waits for it.
    note("asked".into());
    let outcome = async {
        // Disks may be slow, and the control thread does not wait for them.
        let named = match request.configuration {
            None => None,
            Some(number) => Some(shared.blocking(move |shared| version(shared, number)).await),
        };
        let answer =
            shared.ask(move |conductor, now_ns| conductor.command(now_ns, &request, named, &who));
        answered(answer.await?).await
    };
    let result = outcome.await;
    if let Err(problem) = &result {
        note(format!("refused: {}", problem.detail));
    }
    answer(result?)
}

/// A version of the configuration, checked.
fn version(shared: &NodeShared, number: u64) -> Result<Version, Problem> {
    let text = shared.catalog.configuration(number)?.text.unwrap_or_default();
    let checked = shared.configure.check(&text).map_err(|fault| {
        Problem::unprocessable(format!("configuration {number}: {}", fault.message))
    })?;
    Ok(Version { configuration: Arc::new(checked), number: Some(number), text })
}

/// The result of a command.
#[utoipa::path(get, path = "/api/v1/commands/{request}", tag = "control",
    params(("request" = String, Path)),
    responses((status = 200, body = api::CommandResult),
        (status = 202, body = api::CommandResult, description = "under way")))]
pub(super) async fn command_result(
    State(shared): Shared,
    Place(request): Place<String>,
) -> Result<Response, Problem> {
    let result = shared.ask(move |conductor, _| conductor.result_of(&request)).await?;
    let status = if result.status == "under_way" { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(result)).into_response())
}

fn answer(result: api::CommandResult) -> Result<Response, Problem> {
    match result.status.as_str() {
        "done" => Ok(Json(result).into_response()),
        "under_way" => Ok((StatusCode::ACCEPTED, Json(result)).into_response()),
        _ => {
            let reason = result.reason.clone().unwrap_or_else(|| "it failed".into());
            let value = serde_json::to_value(&result).unwrap_or_default();
            Err(Problem::conflict(reason).with("state", result.state).with("result", value))
        }
    }
}

/// The lines of the log to return.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LogQuery {
    /// The lowest level: error, warn, info, debug or trace.
    level: Option<String>,
    /// Text that the line must contain.
    search: Option<String>,
    /// The maximum number of lines.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u64>,
    /// Older than the line with this number.
    #[param(minimum = 0)]
    before: Option<u64>,
}

/// The last lines of the log.
#[utoipa::path(get, path = "/api/v1/logs", tag = "logs", params(LogQuery),
    responses((status = 200, body = api::LogList)))]
pub(super) async fn logs(
    State(shared): Shared,
    Params(query): Params<LogQuery>,
) -> Answer<api::LogList> {
    let level = query.level.as_deref().unwrap_or("trace");
    if !["error", "warn", "info", "debug", "trace"].contains(&level) {
        let detail = format!("level: expected error, warn, info, debug or trace, got {level:?}");
        return Err(Problem::bad(detail));
    }
    let level = level.parse().map_err(|_| Problem::bad("level: expected a level"))?;
    let limit = within("limit", query.limit, (1, 500, 10_000))?;
    let search = query.search.unwrap_or_default();
    at_most("search", Some(&search), 1_000)?;
    Ok(Json(api::LogList { lines: shared.logs.find(level, &search, query.before, limit as usize) }))
}

/// Alarms.
#[utoipa::path(get, path = "/api/v1/alarms", tag = "alarms",
    responses((status = 200, body = api::AlarmList)))]
pub(super) async fn alarms(State(shared): Shared) -> Json<api::AlarmList> {
    Json(shared.view().alarms.clone())
}

/// Acknowledges an alarm.
#[utoipa::path(post, path = "/api/v1/alarms/{id}/acknowledge", tag = "alarms",
    params(("id" = String, Path)), request_body = api::Acknowledge,
    responses((status = 200, body = api::Alarm)))]
pub(super) async fn acknowledge(
    State(shared): Shared,
    Extension(who): Extension<Who>,
    Place(id): Place<String>,
    Body(said): Body<api::Acknowledge>,
) -> Answer<api::Alarm> {
    written("comment", said.comment.as_deref(), 4_000)?;
    let (asker, line) = (who.clone(), crate::shared::line(&who));
    let what = format!("acknowledge {id}");
    let comment = said.comment.clone();
    let acknowledged = shared.ask(move |conductor, now_ns| {
        conductor.acknowledge(now_ns, &id, said.comment.as_deref(), &asker)
    });
    let result = acknowledged.await;
    let refused = |problem: &Problem| format!("refused: {}", problem.detail);
    let outcome = result.as_ref().map_or_else(refused, |_| "done".into());
    shared.audit.write(api::AuditLine { what, result: outcome, comment, ..line });
    result.map(Json)
}

/// Acknowledges all unacknowledged alarms, or the named ones of them. Returns those that it
/// acknowledged.
#[utoipa::path(post, path = "/api/v1/alarms/acknowledge", tag = "alarms",
    request_body = api::AcknowledgeAll, responses((status = 200, body = api::AlarmList)))]
pub(super) async fn acknowledge_all(
    State(shared): Shared,
    Extension(who): Extension<Who>,
    Body(said): Body<api::AcknowledgeAll>,
) -> Answer<api::AlarmList> {
    written("comment", said.comment.as_deref(), 4_000)?;
    let unknown = |id: &String| {
        let detail = format!("ids: expected numbers of alarms, got {id:?}");
        Problem::unprocessable(detail).with("field", "ids")
    };
    let number = |id: &String| id.parse::<u64>().map_err(|_| unknown(id));
    let ids = said.ids.as_ref().map(|ids| ids.iter().map(number).collect::<Result<Vec<_>, _>>());
    let (ids, asker, comment) = (ids.transpose()?, who.clone(), said.comment.clone());
    let acknowledged = shared.ask(move |conductor, now_ns| {
        let comment = said.comment.as_deref();
        Ok(conductor.acknowledge_all(now_ns, ids.as_deref(), comment, &asker))
    });
    let done = acknowledged.await?;
    let numbers: Vec<&str> = done.alarms.iter().map(|alarm| alarm.id.as_str()).collect();
    let what = format!("acknowledge {}", numbers.join(" "));
    let line = crate::shared::line(&who);
    shared.audit.write(api::AuditLine { what, result: "done".into(), comment, ..line });
    Ok(Json(done))
}

/// The plots to return.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// How far back.
    #[param(minimum = 1, maximum = 86400)]
    seconds: Option<u64>,
    /// The maximum number of points.
    #[param(minimum = 1, maximum = 2000)]
    points: Option<u64>,
}

/// Rates over time: of the last 10 minutes in seconds, of the last day in minutes.
#[utoipa::path(get, path = "/api/v1/history", tag = "node", params(HistoryQuery),
    responses((status = 200, body = api::History)))]
pub(super) async fn history(
    State(shared): Shared,
    Params(query): Params<HistoryQuery>,
) -> Answer<api::History> {
    let seconds = within("seconds", query.seconds, (1, 600, 86_400))?;
    let points = within("points", query.points, (1, 300, 2_000))?;
    Ok(Json(shared.past.of(utc_now().0, seconds, points)))
}
