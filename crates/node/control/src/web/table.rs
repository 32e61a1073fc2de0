//! The table of routes. The router, the role that each route needs, and the OpenAPI document are
//! made from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Method;
use axum::routing::{MethodFilter, on};
use utoipa::OpenApi;

use super::{
    document, document_page, files, metrics, routes, routes_runs, routes_tokens, sample, stored,
    stream,
};
use crate::api;
use crate::problem::Details;
use crate::security::roles::Access::{self, Least, Public};
use crate::security::roles::Role::{Admin, Operator, Viewer};
use crate::shared::NodeShared;

/// The most bytes of a request's body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a configuration.
const CONFIGURATION_BYTES_MAX: usize = 4 << 20;

macro_rules! routes {
    (
        documented { $($method:ident $path:literal $access:expr, $module:ident::$handler:ident;)* }
        others { $($o_method:ident $o_path:literal $o_access:expr, $o_module:ident::$o_handler:ident;)* }
    ) => {
        /// Every route. Other paths are refused: a forgotten route is closed, not open.
        pub(super) const ROUTES: &[(&str, &str, Access)] = &[
            $((stringify!($method), $path, $access),)*
            $((stringify!($o_method), $o_path, $o_access),)*
        ];

        pub(super) fn router() -> Router<Arc<NodeShared>> {
            Router::new()
                $(.route($path, on(MethodFilter::$method, $module::$handler).layer(limit($path))))*
                $(.route($o_path, on(MethodFilter::$o_method, $o_module::$o_handler)))*
        }

        #[derive(OpenApi)]
        #[openapi(
            info(
                title = "Catchment",
                description = "Control of a node: state, commands, runs, alarms, logs. Times are \
                    RFC 3339 in UTC, durations are seconds. What cannot be done is told as problem \
                    details (RFC 9457)."
            ),
            // The schema of a device is below the device's own path.
            paths(routes::device_schema, $($module::$handler,)*),
            components(schemas(Details, api::State))
        )]
        pub(super) struct Document;
    };
}

routes! {
    documented {
        GET "/api/v1/state" Least(Viewer), routes::state;
        GET "/api/v1/sources" Least(Viewer), routes::sources;
        GET "/api/v1/sources/{name}/sample" Least(Viewer), sample::sample;
        GET "/api/v1/devices" Least(Viewer), routes::devices;
        GET "/api/v1/devices/{*path}" Least(Viewer), routes::device;
        PATCH "/api/v1/devices/{*path}" Least(Operator), routes::change_device;
        POST "/api/v1/commands" Least(Operator), routes::command;
        GET "/api/v1/commands/{request}" Least(Viewer), routes::command_result;
        GET "/api/v1/runs" Least(Viewer), routes_runs::runs;
        GET "/api/v1/runs/{number}" Least(Viewer), routes_runs::run;
        PATCH "/api/v1/runs/{number}" Least(Operator), routes_runs::change_run;
        GET "/api/v1/runs/{number}/configuration" Least(Viewer), routes_runs::run_configuration;
        GET "/api/v1/runs/{number}/ledger" Least(Viewer), routes_runs::run_ledger;
        GET "/api/v1/stored" Least(Viewer), stored::stored_runs;
        GET "/api/v1/stored/{name}" Least(Viewer), stored::stored_files;
        GET "/api/v1/stored/{name}/{file}" Least(Viewer), stored::stored_file;
        GET "/api/v1/stored/{name}/{file}/frames" Least(Viewer), stored::stored_frames;
        GET "/api/v1/stored/{name}/{file}/frames/{frame}" Least(Viewer), stored::stored_columns;
        GET "/api/v1/stored/{name}/{file}/frames/{frame}/columns/{column}" Least(Viewer),
            stored::stored_column;
        GET "/api/v1/configurations" Least(Viewer), routes_runs::configurations;
        POST "/api/v1/configurations" Least(Operator), routes_runs::add_configuration;
        GET "/api/v1/configurations/{version}" Least(Viewer), routes_runs::configuration;
        GET "/api/v1/configurations/{version}/diff/{other}" Least(Viewer), routes_runs::difference;
        POST "/api/v1/reload" Least(Operator), routes_runs::reload;
        GET "/api/v1/logs" Least(Viewer), routes::logs;
        GET "/api/v1/alarms" Least(Viewer), routes::alarms;
        POST "/api/v1/alarms/acknowledge" Least(Operator), routes::acknowledge_all;
        POST "/api/v1/alarms/{id}/acknowledge" Least(Operator), routes::acknowledge;
        GET "/api/v1/history" Least(Viewer), routes::history;
        GET "/api/v1/stream" Least(Viewer), stream::stream;
        GET "/api/v1/session" Least(Viewer), routes_tokens::session;
        POST "/api/v1/session" Public, routes_tokens::log_in;
        DELETE "/api/v1/session" Least(Viewer), routes_tokens::log_out;
        GET "/api/v1/audit" Least(Admin), routes_tokens::audit;
        GET "/api/v1/tokens" Least(Admin), routes_tokens::tokens;
        POST "/api/v1/tokens" Least(Admin), routes_tokens::add_token;
        DELETE "/api/v1/tokens/{name}" Least(Admin), routes_tokens::revoke_token;
        GET "/metrics" Least(Viewer), metrics::metrics;
        GET "/healthz" Public, routes::health;
    }
    others {
        GET "/api/openapi.json" Public, document::json;
        GET "/api/docs" Public, document_page::page;
        GET "/" Public, files::index;
        GET "/{*asset}" Public, files::asset;
    }
}

/// The role that a route requires; none if there is no such route or method.
pub(crate) fn access(method: &Method, path: &str) -> Option<Access> {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let found = ROUTES.iter().find(|(one, route, _)| *one == method && *route == path);
    found.map(|(_, _, access)| *access)
}

fn limit(path: &str) -> DefaultBodyLimit {
    DefaultBodyLimit::max(match path {
        "/api/v1/configurations" => CONFIGURATION_BYTES_MAX,
        _ => BODY_BYTES_MAX,
    })
}
