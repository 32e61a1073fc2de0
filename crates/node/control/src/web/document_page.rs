//! `/api/docs`: the OpenAPI document as a page for people.

use std::fmt::Write as _;

use axum::http::header;
use axum::response::IntoResponse;
use serde_json::Value;

use super::document::openapi;

/// `/api/docs`.
pub(super) async fn page() -> impl IntoResponse {
    // No script and nothing from elsewhere: the page needs only its inline style.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
        frame-ancestors 'none'";
    let fields = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (fields, html())
}

fn html() -> String {
    let document = serde_json::to_value(openapi()).unwrap_or_default();
    let schemas = &document["components"]["schemas"];
    let mut text = String::from(HEAD);
    for (path, item) in members(&document["paths"]) {
        for (method, operation) in members(item) {
            operation_of(&mut text, (&method.to_uppercase(), path), operation, schemas);
        }
    }
    text += "<h1>Types</h1>";
    for (name, schema) in members(schemas) {
        let name = escape(name);
        write!(text, "<section id=\"{name}\"><h2><code>{name}</code></h2>").ok();
        write!(text, "<p>{}</p>", words(schema)).ok();
        fields_of(&mut text, schema);
        text += "</section>";
    }
    text += "<h1>Problems</h1><p>What cannot be done is answered with \
        <code>application/problem+json</code>: type, title, status, detail, instance.</p>";
    text
}

fn operation_of(
    text: &mut String,
    (method, path): (&str, &str),
    operation: &Value,
    schemas: &Value,
) {
    let summary = escape(operation["summary"].as_str().unwrap_or_default());
    let (path, about) = (escape(path), words(operation));
    write!(text, "<section><h2><b>{method}</b> <code>{path}</code></h2>").ok();
    write!(text, "<p>{summary}</p><p>{about}</p>").ok();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = escape(parameter["name"].as_str().unwrap_or_default());
        write!(text, "<p class=part><code>{name}</code> {}</p>", words(parameter)).ok();
    }
    let body = &operation["requestBody"]["content"]["application/json"];
    if !body.is_null() {
        let kind = kind(&body["schema"]);
        write!(text, "<p class=part>Takes {kind}, such as</p>").ok();
        let name = body["schema"]["$ref"].as_str().and_then(|one| one.rsplit('/').next());
        let example = name.map_or(&body["example"], |name| &schemas[name]["example"]);
        write!(text, "<pre class=part>{}</pre>", escape(&example.to_string())).ok();
    }
    for (status, response) in members(&operation["responses"]) {
        if !status.starts_with('2') {
            continue;
        }
        let contents: Vec<_> = members(&response["content"]).collect();
        let (about, status) = (words(response), escape(status));
        match contents.first() {
            Some((_, content)) => {
                let kind = kind(&content["schema"]);
                write!(text, "<p class=part>Answers {status} with {kind}: {about}</p>").ok();
            }
            None => drop(write!(text, "<p class=part>Answers {status}: {about}</p>")),
        }
    }
    text.push_str("</section>");
}

fn fields_of(text: &mut String, schema: &Value) {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().collect();
    for (name, field) in members(&schema["properties"]) {
        let must = required.iter().any(|one| one.as_str() == Some(name));
        let (name, kind, about) = (escape(name), kind(field), words(field));
        let mark = if must { "" } else { "?" };
        write!(text, "<p class=part><code>{name}{mark}</code>: {kind}. {about}</p>").ok();
    }
}

/// A schema's type, linked to its description.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let name = escape(name);
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    let choices = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    if let Some(choices) = choices {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("array of {}", kind(&schema["items"])),
        Value::String(name) => escape(name),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            if names.contains(&"array") {
                return format!("array of {}, or null", kind(&schema["items"]));
            }
            escape(&names.join(" or "))
        }
        _ => "any value".to_owned(),
    }
}

fn words(value: &Value) -> String {
    escape(value["description"].as_str().unwrap_or_default())
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8>\
    <meta name=viewport content='width=device-width'><title>Catchment API</title><style>\
    :root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;\
    margin:2rem auto;padding:0 1rem}h2{font-size:1.1rem;margin-bottom:0}section{border-top:1px \
    solid #8886;padding:.3rem 0}p{margin:.3rem 0}.part{margin-left:1.5rem}pre{overflow:auto}\
    </style><h1>Catchment API</h1><p>The same for programs: \
    <a href=/api/openapi.json>/api/openapi.json</a>. With a token: \
    <code>curl -H 'Authorization: Bearer TOKEN' ADDRESS/api/v1/state</code>; bodies are JSON, with \
    <code>Content-Type: application/json</code>. A name with a question mark may be left out.</p>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_there_and_what_is_sent_has_its_example() {
        let text = html();
        let links: Vec<&str> = text.split("href=\"#").skip(1).collect();
        assert!(links.len() > 30);
        for link in links {
            let name = link.split('"').next().unwrap();
            assert!(text.contains(&format!("id=\"{name}\"")), "{name}");
        }
        assert!(text.contains("&quot;command&quot;:&quot;start&quot;"), "no example of a command");
    }
}
