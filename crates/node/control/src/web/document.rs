//! The OpenAPI document, made from the table of routes, the handlers and the types.

use axum::Json;
use axum::response::IntoResponse;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder, SecurityRequirement};

use super::table::{Document, ROUTES};
use crate::security::roles::Access;
use crate::security::sessions::COOKIE;

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

pub(super) fn operations(
    item: &mut PathItem,
) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("GET", &mut item.get),
        ("POST", &mut item.post),
        ("PATCH", &mut item.patch),
        ("DELETE", &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, slot)| Some((method, slot.as_mut()?)))
}

/// Common parts of all operations: the required role, and the problems.
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
    // A response without a description is not valid; its meaning is in its schema.
    for response in operation.responses.responses.values_mut() {
        match response {
            RefOr::T(response) if response.description.is_empty() => {
                response.description = "Done".to_owned();
            }
            _ => {}
        }
    }
    let always = ["400", "401", "421", "422", "429", "500", "503", "504"];
    let with_parts: &[&str] = if path.contains('{') { &["404"] } else { &[] };
    let changes: &[&str] = if method == "GET" { &[] } else { &["405", "409", "413", "415"] };
    for status in always.iter().chain(with_parts).chain(changes).chain(extra) {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).to_owned()).or_insert_with(|| problem().into());
    }
}

/// The requirement of a documented path: paths of devices are one route.
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

    #[test]
    fn every_response_has_a_description_and_every_body_that_is_sent_an_example() {
        let document = serde_json::to_value(openapi()).unwrap();
        let mut bodies = 0;
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let description = response["description"].as_str().unwrap_or_default();
                    assert!(!description.is_empty(), "{method} {path} {status}");
                }
                let body = &operation["requestBody"]["content"]["application/json"];
                let Some(name) = body["schema"]["$ref"].as_str() else { continue };
                let name = name.trim_start_matches("#/components/schemas/");
                let schema = &document["components"]["schemas"][name];
                let example = schema["example"].as_object().expect(name);
                for (key, _) in example {
                    assert!(schema["properties"].get(key).is_some(), "{name}: {key}");
                }
                for key in schema["required"].as_array().into_iter().flatten() {
                    assert!(example.contains_key(key.as_str().unwrap()), "{name}: {key}");
                }
                bodies += 1;
            }
        }
        assert!(bodies > 5);
    }
}
