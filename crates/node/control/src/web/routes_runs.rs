//! Runs and configurations from the catalogue.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};

use super::extract::{Body, Params, Place, at_most, within, written};
use super::routes::{Answer, noted};
use crate::api;
use crate::catalog_client::api_ledger;
use crate::configuration::{ConfigurationFault, Version};
use crate::problem::Problem;
use crate::security::guard::Who;
use crate::shared::Shared;

/// The runs to return.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RunQuery {
    /// The maximum number of runs.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// Older than the run with this number.
    #[param(minimum = 0)]
    before: Option<u64>,
    /// Words in comments and names, or a number.
    search: Option<String>,
    /// With this quality.
    quality: Option<String>,
}

/// Runs, newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", params(RunQuery),
    responses((status = 200, body = api::RunList)))]
pub(super) async fn runs(
    State(shared): Shared,
    Params(query): Params<RunQuery>,
) -> Answer<api::RunList> {
    let limit = within("limit", query.limit, (1, 50, 500))?;
    at_most("search", query.search.as_deref(), 1_000)?;
    let search = query.search.unwrap_or_default();
    let quality = query.quality;
    let list = shared.blocking(move |shared| {
        shared.catalog.list(&search, query.before, limit as usize, quality.as_deref())
    });
    let mut list = list.await?;
    list.runs.iter_mut().for_each(|run| show_live(run, &shared.view().state));
    Ok(Json(list))
}

/// The catalogue has a run's figures when it is over; until then they come from the recorder.
fn show_live(run: &mut api::Run, state: &api::State) {
    let Some(now) = state.run.as_ref().filter(|now| now.number == run.number) else { return };
    (run.events, run.frames, run.files) = (now.events, now.frames, now.files);
    (run.bytes, run.loss_count) = (now.bytes_written, state.loss.count);
    run.bad_count = state.bad.count;
}

/// A run.
#[utoipa::path(get, path = "/api/v1/runs/{number}", tag = "runs",
    params(("number" = u64, Path)), responses((status = 200, body = api::Run)))]
pub(super) async fn run(State(shared): Shared, Place(number): Place<u64>) -> Answer<api::Run> {
    let mut run = shared.blocking(move |shared| shared.catalog.run(number)).await?;
    show_live(&mut run, &shared.view().state);
    Ok(Json(run))
}

/// Adds a remark to a run, or sets the quality of its data.
#[utoipa::path(patch, path = "/api/v1/runs/{number}", tag = "runs",
    params(("number" = u64, Path)), request_body = api::RunChange,
    responses((status = 200, body = api::Run)))]
pub(super) async fn change_run(
    State(shared): Shared,
    Extension(who): Extension<Who>,
    Place(number): Place<u64>,
    Body(change): Body<api::RunChange>,
) -> Answer<api::Run> {
    written("remark", change.remark.as_deref(), 4_000)?;
    let quality = change.quality.as_deref().map(|q| format!(", quality {q:?}"));
    let remark = change.remark.as_deref().map(|text| format!(", remark {text:?}"));
    let what =
        format!("change run {number}{}{}", quality.unwrap_or_default(), remark.unwrap_or_default());
    let name = who.name.clone();
    let result = shared
        .blocking(move |shared| {
            let (remark, quality) = (change.remark.as_deref(), change.quality.as_deref());
            shared.catalog.change(number, &name, remark, quality)?;
            shared.catalog.run(number)
        })
        .await;
    noted(&shared, &who, what, &result);
    result.map(Json)
}

/// The configuration that a run was recorded with.
#[utoipa::path(get, path = "/api/v1/runs/{number}/configuration", tag = "runs",
    params(("number" = u64, Path)),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn run_configuration(
    State(shared): Shared,
    Place(number): Place<u64>,
) -> Result<impl IntoResponse, Problem> {
    shared.blocking(move |shared| shared.catalog.configuration_of(number)).await.map(plain)
}

/// A run's ledger, the sum over all sources and each source, without zeros; for a run in progress,
/// the present one.
#[utoipa::path(get, path = "/api/v1/runs/{number}/ledger", tag = "runs",
    params(("number" = u64, Path)), responses((status = 200, body = api::RunLedger)))]
pub(super) async fn run_ledger(
    State(shared): Shared,
    Place(number): Place<u64>,
) -> Answer<api::RunLedger> {
    let view = shared.view();
    let live = view.state.run.as_ref().is_some_and(|run| run.number == number);
    if let Some(snapshot) = view.snapshot.as_ref().filter(|_| live) {
        return Ok(Json(api_ledger(&snapshot.ledger, view.by_index())));
    }
    shared.blocking(move |shared| shared.catalog.ledger(number)).await.map(Json)
}

/// Versions of the configuration, newest first.
#[utoipa::path(get, path = "/api/v1/configurations", tag = "configurations",
    responses((status = 200, body = api::ConfigurationList)))]
pub(super) async fn configurations(State(shared): Shared) -> Answer<api::ConfigurationList> {
    let present = shared.present().0;
    let configurations = shared.blocking(move |shared| shared.catalog.configurations()).await?;
    Ok(Json(api::ConfigurationList { configurations, present }))
}

/// A version of the configuration.
#[utoipa::path(get, path = "/api/v1/configurations/{version}", tag = "configurations",
    params(("version" = u64, Path)), responses((status = 200, body = api::ConfigurationVersion)))]
pub(super) async fn configuration(
    State(shared): Shared,
    Place(version): Place<u64>,
) -> Answer<api::ConfigurationVersion> {
    shared.blocking(move |shared| shared.catalog.configuration(version)).await.map(Json)
}

/// Checks a configuration and keeps it as a version. The next run uses it if a command says so.
#[utoipa::path(post, path = "/api/v1/configurations", tag = "configurations",
    request_body = api::NewConfiguration,
    responses((status = 201, body = api::ConfigurationVersion)))]
pub(super) async fn add_configuration(
    State(shared): Shared,
    Extension(who): Extension<Who>,
    Body(new): Body<api::NewConfiguration>,
) -> Result<(StatusCode, Json<api::ConfigurationVersion>), Problem> {
    let asker = who.name.clone();
    let result = shared
        .blocking(move |shared| {
            shared.configure.check(&new.text).map_err(fault)?;
            let version = shared.catalog.post_configuration(&new.text, &asker)?;
            shared.catalog.configuration(version)
        })
        .await;
    noted(&shared, &who, "add a configuration".into(), &result);
    result.map(|version| (StatusCode::CREATED, Json(version)))
}

/// The error in a configuration, with its position.
pub(super) fn fault(fault: ConfigurationFault) -> Problem {
    let position = fault.position;
    let problem = Problem::unprocessable(match position {
        Some((line, column)) => format!("line {line}, column {column}: {}", fault.message),
        None => fault.message,
    });
    match position {
        Some((line, column)) => problem.with("line", line).with("column", column),
        None => problem,
    }
}

/// The changes from one version of the configuration to another, as from `diff -u`.
#[utoipa::path(get, path = "/api/v1/configurations/{version}/diff/{other}",
    tag = "configurations", params(("version" = u64, Path), ("other" = u64, Path)),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn difference(
    State(shared): Shared,
    Place((version, other)): Place<(u64, u64)>,
) -> Result<impl IntoResponse, Problem> {
    let text = shared.blocking(move |shared| {
        let text = |version| Ok::<_, Problem>(shared.catalog.configuration(version)?.text);
        let (old, new) = (text(version)?.unwrap_or_default(), text(other)?.unwrap_or_default());
        let names = (format!("configuration {version}"), format!("configuration {other}"));
        let mut config = similar::TextDiff::configure();
        // Two large texts without a common line would take minutes.
        config.timeout(std::time::Duration::from_secs(2));
        let difference = config.diff_lines(&old, &new);
        Ok(difference.unified_diff().header(&names.0, &names.1).to_string())
    });
    text.await.map(plain)
}

/// The result of a reload.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Reloaded {
    /// The version for the next run.
    configuration: Option<u64>,
    /// The parts that were not applied, and when they will be.
    notes: Vec<String>,
}

/// Reads the configuration file again. Alarm rules apply at once, the rest from the next run on;
/// parts that require a restart of the program are named.
#[utoipa::path(post, path = "/api/v1/reload", tag = "configurations",
    responses((status = 200, body = Reloaded)))]
pub(super) async fn reload(
    State(shared): Shared,
    Extension(who): Extension<Who>,
) -> Answer<Reloaded> {
    let name = who.name.clone();
    let read = shared
        .blocking(move |shared| {
            let text = shared.configure.read().map_err(Problem::unprocessable)?;
            let checked = shared.configure.check(&text).map_err(fault)?;
            let number = shared.catalog.add_configuration(&text, &name).ok();
            Ok(Version { configuration: Arc::new(checked), number, text })
        })
        .await;
    let result = match read {
        Err(problem) => Err(problem),
        Ok(version) => {
            let configuration = version.number;
            let notes = shared.ask(|conductor, _| conductor.configure(version)).await;
            notes.map(|notes| Reloaded { configuration, notes })
        }
    };
    noted(&shared, &who, "reload".into(), &result);
    result.map(Json)
}

fn plain(text: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text)
}
