//! Access control: roles on every route, other sites' pages, TLS, wrong and oversized requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::support::{Client, Fixed, PATIENCE, Test, settings, start};
use catchment_control::{NodeError, Settings, Tls, TokenFile, own_folder};
use serde_json::{Value, json};

/// Every documented operation: method, a possible path, and the required role.
fn operations() -> Vec<(String, String, String)> {
    let document: Value = serde_json::to_value(catchment_control::openapi()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let about = operation["description"].as_str().unwrap();
            let who = about.rsplit("For: ").next().unwrap().trim_end_matches('.');
            let mut path = path.clone();
            for (name, value) in [
                ("{path}", "node/recorder"),
                ("{name}", "none"),
                ("{number}", "1"),
                ("{version}", "1"),
                ("{other}", "1"),
                ("{request}", "none"),
                ("{id}", "1"),
                ("{file}", "none"),
                ("{frame}", "0"),
                ("{column}", "1"),
            ] {
                path = path.replace(name, value);
            }
            found.push((method.to_uppercase(), path, who.to_owned()));
        }
    }
    assert!(found.len() > 30);
    found
}

#[test]
fn every_route_asks_for_its_role() {
    let (test, tokens) = Test::with_tokens();
    let roles = ["viewer", "operator", "admin"];
    for (method, path, who) in operations() {
        // Streams do not end.
        if path.ends_with("/stream") {
            continue;
        }
        let body = (!["GET", "DELETE"].contains(&method.as_str())).then_some("{\"x\":1}");
        let anybody = test.client().ask(&method, &path, body).status;
        assert_eq!(anybody == 401, who != "anybody", "{method} {path}: {anybody}");
        for (rank, token) in tokens.iter().enumerate() {
            let status = test.client().token(token).ask(&method, &path, body).status;
            let may = who == "anybody" || roles.iter().position(|role| *role == who) <= Some(rank);
            assert_ne!(status, 401, "{method} {path}");
            assert_eq!(status != 403, may, "{method} {path} as {}: {status}", roles[rank]);
        }
    }
    let shutdown = json!({ "request": "1", "command": "shutdown" });
    let answer = test.client().token(&tokens[1]).post("/api/v1/commands", &shutdown);
    assert_eq!(answer.status, 403, "an operator does not end the program");
}

#[test]
fn a_token_of_a_front_end_opens_nothing_here() {
    let (test, tokens) = Test::with_tokens();
    let admin = test.client().token(&tokens[2]);
    let made = admin.post("/api/v1/tokens", &json!({ "name": "crate", "role": "source" })).json();
    let token = made["token"].as_str().unwrap();
    assert_eq!(test.client().token(token).get("/api/v1/state").status, 401);
    let entry = json!({ "token": token });
    assert_eq!(test.client().post("/api/v1/session", &entry).status, 401);
}

#[test]
fn wrong_and_revoked_tokens_are_refused_and_slowed_down() {
    let (test, tokens) = Test::with_tokens();
    let client = test.client();
    assert_eq!(client.token(&tokens[0]).get("/api/v1/state").status, 200);
    let admin = client.token(&tokens[2]);
    assert_eq!(admin.ask("DELETE", "/api/v1/tokens/v", None).status, 204);
    let refused = client.token(&tokens[0]).get("/api/v1/state");
    assert_eq!(refused.status, 401, "{}", refused.text);
    assert_eq!(refused.headers["www-authenticate"], "Bearer realm=\"catchment\"");
    let made = admin.post("/api/v1/tokens", &json!({ "name": "new", "role": "viewer" })).json();
    let token = made["token"].as_str().unwrap();
    assert_eq!(client.token(token).get("/api/v1/state").status, 200);
    let listed = admin.get("/api/v1/tokens").text;
    assert!(listed.contains("\"new\"") && !listed.contains(token), "{listed}");
    let guess = || client.token("wrong").get("/api/v1/state").status;
    assert_eq!(guess(), 401);
    // Sooner or later: one more guess is allowed every ten seconds.
    until_slowed_down(guess, 401);
    assert_eq!(client.token(token).get("/api/v1/state").status, 200, "right ones go on");
}

/// Sends requests until one is refused as too frequent, with no other answer before that.
fn until_slowed_down(ask: impl Fn() -> u16, before: u16) {
    loop {
        match ask() {
            429 => return,
            status => assert_eq!(status, before),
        }
    }
}

#[test]
fn the_scheme_of_a_token_is_the_same_in_any_case() {
    let (test, tokens) = Test::with_tokens();
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let client = test.client().with("Authorization", &format!("{scheme} {}", tokens[0]));
        assert_eq!(client.get("/api/v1/state").status, 200, "{scheme}");
    }
    for other in ["Basic ", "Bearers ", ""] {
        let client = test.client().with("Authorization", &format!("{other}{}", tokens[0]));
        assert_eq!(client.get("/api/v1/state").status, 401, "{other}");
    }
}

/// A stream opened with these headers, whose first event has arrived.
fn stream(test: &Test, headers: &str) -> BufReader<TcpStream> {
    let port = test.node().address().unwrap().port();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = "GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let head = format!("{head}{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while line != "event: state\n" {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
    }
    stream
}

/// Reads a stream to its end.
fn ends(stream: BufReader<TcpStream>) {
    let give_up = Instant::now() + PATIENCE;
    for line in stream.lines() {
        assert!(Instant::now() < give_up, "the stream goes on: {line:?}");
    }
}

#[test]
fn a_stream_ends_with_what_let_it_in() {
    let (test, tokens) = Test::with_tokens();
    let client = test.client();
    let admin = client.token(&tokens[2]);
    let by_token = stream(&test, &format!("Authorization: Bearer {}\r\n", tokens[0]));
    let opened = client.post("/api/v1/session", &json!({ "token": tokens[1] }));
    let cookie = opened.headers["set-cookie"].to_str().unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    let by_session = stream(&test, &format!("Cookie: {cookie}\r\n"));
    let csrf = opened.json()["csrf"].as_str().unwrap().to_owned();
    let page = client.with("Cookie", cookie).with("X-Catchment-CSRF", &csrf);
    assert_eq!(page.ask("DELETE", "/api/v1/session", None).status, 204);
    ends(by_session);
    assert_eq!(admin.ask("DELETE", "/api/v1/tokens/v", None).status, 204);
    ends(by_token);
    // Clients without a token are disconnected when there is one.
    let open = Test::start();
    let local = stream(&open, "");
    let made = open.client().post("/api/v1/tokens", &json!({ "name": "a", "role": "admin" }));
    assert_eq!(made.status, 201, "{}", made.text);
    ends(local);
}

#[test]
fn a_session_stands_for_a_token_and_changes_need_its_csrf() {
    let (test, tokens) = Test::with_tokens();
    let client = test.client();
    let opened = client.post("/api/v1/session", &json!({ "token": tokens[1] }));
    assert_eq!(opened.status, 200, "{}", opened.text);
    let cookie = opened.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let page = client.with("Cookie", cookie.split(';').next().unwrap());
    assert_eq!(page.get("/api/v1/session").json()["name"], "o");
    let command = json!({ "request": "1", "command": "start" });
    assert_eq!(page.post("/api/v1/commands", &command).status, 403);
    assert_eq!(page.with("X-Catchment-CSRF", "x").post("/api/v1/commands", &command).status, 403);
    let csrf = opened.json()["csrf"].as_str().unwrap().to_owned();
    let sure = page.with("X-Catchment-CSRF", &csrf);
    assert!([200, 202].contains(&sure.post("/api/v1/commands", &command).status));
    assert_eq!(sure.ask("DELETE", "/api/v1/session", None).status, 204);
    assert_eq!(page.get("/api/v1/state").status, 401);
    assert_eq!(client.post("/api/v1/session", &json!({ "token": "x" })).status, 401);
}

#[test]
fn pages_of_other_sites_and_rebound_names_get_nothing() {
    let test = Test::start();
    let client = test.client();
    for (name, value, status) in [
        ("Host", "evil.example", 421),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
    ] {
        let strange = client.with(name, value);
        assert_eq!(strange.get("/api/v1/state").status, status, "{name}: {value}");
        let body = json!({ "request": "1", "command": "start" });
        assert_eq!(strange.post("/api/v1/commands", &body).status, status, "{name}: {value}");
    }
    // A link from elsewhere opens the page; a form from elsewhere changes nothing.
    for site in ["cross-site", "same-site"] {
        let link = client.with("Sec-Fetch-Site", site);
        assert_eq!(link.get("/").status, 200, "{site}");
        assert_eq!(link.ask("POST", "/api/v1/reload", None).status, 403, "{site}");
        assert_eq!(link.with("Origin", "null").get("/").status, 403, "{site}");
    }
    let own = client.with("Sec-Fetch-Site", "same-origin");
    assert_eq!(own.ask("POST", "/api/v1/reload", None).status, 200);
    let form = client.with("Content-Type", "text/plain");
    let body = json!({ "request": "1", "command": "start" });
    assert_eq!(form.post("/api/v1/commands", &body).status, 415);
    assert_eq!(client.get("/api/v1/commands/1").status, 404, "nothing was begun");
}

#[test]
fn a_request_names_one_host() {
    let test = Test::start();
    let ask = |head: &str| {
        let mut stream = TcpStream::connect(test.node().address().unwrap()).unwrap();
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let host = "Host: localhost\r\n";
    assert_eq!(ask(&format!("GET /healthz HTTP/1.1\r\n{host}")), 200);
    assert_eq!(ask(&format!("GET /healthz HTTP/1.1\r\n{host}{host}")), 400);
    assert_eq!(ask(&format!("GET /healthz HTTP/1.1\r\n{host}Host: evil.example\r\n")), 400);
    assert_eq!(ask(&format!("GET http://localhost/healthz HTTP/1.1\r\n{host}")), 200);
    assert_eq!(ask(&format!("GET http://evil.example/healthz HTTP/1.1\r\n{host}")), 400);
}

#[test]
fn bad_requests_get_problem_details() {
    let test = Test::start();
    let client = test.client();
    let post = |body: &str| client.ask("POST", "/api/v1/commands", Some(body));
    let large = format!("{{\"request\":\"{}\"}}", "x".repeat(100_000));
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("[]", 422),
        ("{\"request\":\"1\"}", 422),
        ("{\"request\":1,\"command\":\"start\"}", 422),
        ("{\"request\":\"1\",\"command\":\"start\",\"colour\":1}", 422),
        ("{\"request\":\"\",\"command\":\"start\"}", 422),
        ("{\"request\":\"a b\",\"command\":\"start\"}", 422),
        ("{\"request\":\"1\",\"command\":\"fly\"}", 422),
        ("{\"request\":\"1\",\"command\":\"start\",\"device\":\"../x\"}", 422),
        ("{\"request\":\"1\",\"command\":\"start\",\"device\":\"node/none\"}", 409),
        ("{\"request\":\"1\",\"command\":\"start\",\"configuration\":-1}", 422),
        (large.as_str(), 413),
    ] {
        let answer = post(body);
        assert_eq!(answer.status, status, "{body:.80}: {}", answer.text);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        let problem = answer.json();
        assert_eq!(problem["status"], status);
        assert_eq!(problem["instance"], "/api/v1/commands");
        assert!(problem["type"].is_string() && problem["title"].is_string(), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
    }
    for (path, status) in [
        ("/api/v1/history?seconds=0", 400),
        ("/api/v1/history?seconds=x", 400),
        ("/api/v1/history?colour=1", 400),
        ("/api/v1/logs?level=loud", 400),
        ("/api/v1/runs?limit=100000", 400),
        ("/api/v1/runs?quality=x", 422),
        ("/api/v1/runs/x", 404),
        ("/api/v1/runs/18446744073709551616", 404),
        ("/api/v1/nothing", 404),
        ("/nothing", 404),
    ] {
        let answer = client.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{path}");
    }
    let wrong = client.ask("DELETE", "/api/v1/state", None);
    assert_eq!(wrong.status, 405, "{}", wrong.text);
    assert_eq!(wrong.json()["title"], "Method Not Allowed");
}

#[test]
fn every_answer_tells_the_browser_to_be_careful() {
    let test = Test::start();
    let client = test.client();
    for path in ["/", "/api/docs", "/api/v1/state", "/nothing"] {
        let headers = client.get(path).headers;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("script-src 'unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
    }
    assert_eq!(client.get("/healthz").json()["status"], "alive");
    let docs = client.get("/api/docs");
    assert!(docs.text.contains("/api/v1/commands"));
    // Its own policy, with which its style is allowed.
    let policy = docs.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("style-src 'unsafe-inline'"), "{policy}");
}

#[test]
fn a_node_is_not_open_to_the_network_by_accident() {
    let everywhere: std::net::SocketAddr = ([0, 0, 0, 0], 0).into();
    let folder = tempfile::tempdir().unwrap();
    let try_with = |tls: Tls, without_protection| {
        let settings = Settings { listen: Some(everywhere), tls, without_protection, ..settings() };
        start(settings, Fixed::new(folder.path())).map(|_| ())
    };
    let refused = |result: Result<(), NodeError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, NodeError::Unprotected { .. }), "{error}");
        error.to_string()
    };
    assert!(refused(try_with(Tls::Off, false)).contains("neither TLS nor a token"));
    assert!(refused(try_with(Tls::SelfMade, false)).contains("no token"));
    try_with(Tls::Off, true).unwrap();
    let file = TokenFile::in_folder(&own_folder(folder.path()));
    file.add("a", catchment_control::Role::Admin).unwrap();
    assert!(refused(try_with(Tls::Off, false)).contains("no TLS"));
    try_with(Tls::SelfMade, false).unwrap();
}

#[test]
fn the_last_token_that_is_revoked_leaves_the_door_closed() {
    let (test, tokens) = Test::with_tokens();
    let admin = test.client().token(&tokens[2]);
    for name in ["v", "o", "a"] {
        assert_eq!(admin.ask("DELETE", &format!("/api/v1/tokens/{name}"), None).status, 204);
    }
    assert_eq!(test.client().get("/api/v1/state").status, 401);
    // Nor does a restart open it.
    let mut test = test;
    test.node.take().unwrap().wait();
    test.node = Some(start(settings(), Fixed::new(test.folder.path())).unwrap());
    assert_eq!(test.client().get("/api/v1/state").status, 401);
}

#[test]
fn a_node_speaks_tls_with_a_certificate_that_it_made() {
    use ureq::tls::{Certificate, RootCerts, TlsConfig};
    let test = Test::with(Settings { tls: Tls::SelfMade, ..settings() }, |_| ());
    let url = test.node().url().unwrap();
    assert!(url.starts_with("https://"), "{url}");
    let path = own_folder(test.folder.path()).join("tls/certificate.pem");
    let pem = std::fs::read(&path).unwrap();
    let trusted = Certificate::from_pem(&pem).unwrap();
    let ask = |roots: RootCerts| {
        let tls = TlsConfig::builder().root_certs(roots).build();
        let agent =
            ureq::Agent::new_with_config(ureq::Agent::config_builder().tls_config(tls).build());
        agent.get(format!("{url}healthz")).call().map(|response| response.status().as_u16())
    };
    assert_eq!(ask(RootCerts::Specific(std::sync::Arc::new(vec![trusted]))).unwrap(), 200);
    ask(RootCerts::WebPki).unwrap_err();
    use std::os::unix::fs::PermissionsExt as _;
    let key = own_folder(test.folder.path()).join("tls/key.pem");
    assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    // A client without TLS gets nothing, and delays no other client.
    let mut plain = TcpStream::connect(test.node().address().unwrap()).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).ok();
    assert!(!answer.starts_with(b"HTTP"));
}

/// The certificate of a node in that folder, at that address and with these names; and whether a
/// client that has this certificate, or the given one, trusts it there.
fn trusted(
    folder: &std::path::Path,
    (listen, at): (&str, &str),
    names: &[&str],
    by: Option<&[u8]>,
) -> (Vec<u8>, bool) {
    use ureq::tls::{Certificate, RootCerts, TlsConfig};
    let settings = Settings {
        listen: Some(format!("{listen}:0").parse().unwrap()),
        tls: Tls::SelfMade,
        without_protection: true,
        names: names.iter().map(ToString::to_string).collect(),
        ..settings()
    };
    let node = start(settings, Fixed::new(folder)).unwrap();
    let pem = std::fs::read(own_folder(folder).join("tls/certificate.pem")).unwrap();
    let roots = vec![Certificate::from_pem(by.unwrap_or(&pem)).unwrap()];
    let roots = RootCerts::Specific(std::sync::Arc::new(roots));
    let tls = TlsConfig::builder().root_certs(roots).build();
    let config = ureq::Agent::config_builder().tls_config(tls).build();
    let url = format!("https://{at}:{}/healthz", node.address().unwrap().port());
    let answer = ureq::Agent::new_with_config(config).get(url).call();
    (pem, answer.is_ok())
}

#[test]
fn the_nodes_own_certificate_is_valid_where_it_listens_and_follows_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (one, other) = (("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"));
    let (first, fits) = trusted(folder, one, &[], None);
    assert!(fits);
    let (second, fits) = trusted(folder, other, &[], Some(&first));
    assert!(fits && second != first, "another address: another certificate, of the same key");
    let (named, fits) = trusted(folder, other, &["daq.example"], None);
    assert!(fits && named != second, "another name: another certificate");
    let (same, fits) = trusted(folder, ("127.0.0.1", "localhost"), &["daq.example"], None);
    assert!(fits && same == named, "one that is valid for more stays");
    // The address that this machine would use for outgoing packets, if it has one.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if socket.connect("192.0.2.1:9").is_ok() {
        let own = socket.local_addr().unwrap().ip().to_string();
        assert!(trusted(folder, ("0.0.0.0", &own), &["daq.example"], None).1, "{own}");
    }
}

#[test]
fn one_address_that_asks_too_often_is_slowed_down() {
    // One at once, and one more every five seconds.
    let slow = Settings { requests_per_second: 0.2, ..settings() };
    let test = Test::with(slow, |_| ());
    let client = test.client();
    let ask = || client.get("/healthz").status;
    assert_eq!(ask(), 200);
    until_slowed_down(ask, 200);
}

#[test]
fn who_did_what_is_in_the_audit_log() {
    let (test, tokens) = Test::with_tokens();
    let body = json!({ "request": "id-1", "command": "pause", "comment": "beam down" });
    assert_eq!(test.client().token(&tokens[1]).post("/api/v1/commands", &body).status, 409);
    let lines = test.client().token(&tokens[2]).get("/api/v1/audit").json();
    let last = lines["lines"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["who"], &last["role"]), (&json!("o"), &json!("operator")), "{last}");
    assert_eq!((&last["what"], &last["request"]), (&json!("pause"), &json!("id-1")));
    assert_eq!(last["comment"], "beam down");
    assert!(last["result"].as_str().unwrap().starts_with("refused"), "{last}");
    assert!(last["from"].as_str().unwrap().starts_with("127.0.0.1:"));
}

/// The contents of the audit log, oldest first: who, what, and the outcome.
fn audited(admin: &Client) -> Vec<[String; 3]> {
    let lines = admin.get("/api/v1/audit").json();
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let lines = lines["lines"].as_array().unwrap().iter();
    lines.map(|line| ["who", "what", "result"].map(|key| text(line, key))).collect()
}

#[test]
fn a_command_is_in_the_audit_log_though_whoever_asked_goes_away() {
    let (test, tokens) = Test::with_tokens();
    let admin = test.client().token(&tokens[2]);
    let body = json!({ "request": "gone", "command": "start" }).to_string();
    let head = format!(
        "POST /api/v1/commands HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        tokens[1],
        body.len()
    );
    let mut client = TcpStream::connect(test.node().address().unwrap()).unwrap();
    client.write_all(head.as_bytes()).unwrap();
    admin.until(|state| state["state"] == "recording");
    drop(client);
    let own = |lines: &[[String; 3]]| -> Vec<String> {
        let own = lines.iter().filter(|[who, what, _]| who == "o" && what == "start");
        own.map(|[_, _, result]| result.clone()).collect()
    };
    admin.until_of("/api/v1/commands/gone", |result| result["status"] == "done");
    assert_eq!(own(&audited(&admin)), ["asked", "done"]);
}

#[test]
fn what_is_refused_to_people_who_are_known_is_in_the_audit_log() {
    let (test, tokens) = Test::with_tokens();
    let (viewer, operator) = (test.client().token(&tokens[0]), test.client().token(&tokens[1]));
    assert_eq!(viewer.command("1", "start").status, 403);
    assert_eq!(operator.command("2", "shutdown").status, 403);
    let lines = audited(&test.client().token(&tokens[2]));
    let has = |who: &str, what: &str| {
        let mut lines = lines.iter();
        lines.any(|[one, other, result]| {
            one == who && other == what && result.contains("expected the role")
        })
    };
    assert!(has("v", "POST /api/v1/commands"), "{lines:?}");
    assert!(has("o", "shutdown"), "{lines:?}");
}

#[test]
fn an_end_by_signal_is_in_the_audit_log() {
    let mut test = Test::start();
    test.client().command("1", "start");
    test.node.take().unwrap().wait();
    let log = own_folder(test.folder.path()).join("audit.jsonl");
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends = lines.iter().filter(|line| line["who"] == "signal" && line["what"] == "shutdown");
    let results: Vec<&Value> = ends.map(|line| &line["result"]).collect();
    assert_eq!(results, ["asked", "done"], "{text}");
}

#[test]
fn one_address_cannot_take_all_connections_or_streams() {
    let everywhere = ([0, 0, 0, 0], 0).into();
    let open = Settings { listen: Some(everywhere), without_protection: true, ..settings() };
    let test = Test::with(open, |_| ());
    let port = test.node().address().unwrap().port();
    let streams: Vec<_> = (0..16).map(|_| stream(&test, "")).collect();
    let client = Client::new(&format!("http://127.0.0.1:{port}"));
    assert_eq!(client.get("/api/v1/stream").status, 429);
    let silent: Vec<TcpStream> =
        (0..560).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    // 127.0.0.2 is an address different from that of all these.
    let mut other = from_address("127.0.0.2", port);
    other
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let count = |name: &str| {
        let line = answer.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    // Those that send nothing are closed after a while, which makes room for others of them.
    assert!(count("catchment_http_connections_refused_total") > 0, "{answer}");
    assert_eq!(count("catchment_http_streams_refused_total"), 1);
    drop((streams, silent));
}

/// A connection from an address of this machine.
fn from_address(address: &str, port: u16) -> TcpStream {
    use std::net::Ipv4Addr;
    use std::os::fd::FromRawFd as _;
    let sockaddr = |ip: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    };
    let length = size_of::<libc::sockaddr_in>() as u32;
    let own = sockaddr(address.parse().unwrap(), 0);
    let node = sockaddr(Ipv4Addr::LOCALHOST, port);
    // SAFETY: the addresses live as long as the calls, and nothing else uses the socket.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        assert!(socket >= 0);
        let stream = TcpStream::from_raw_fd(socket);
        assert_eq!(libc::bind(socket, (&raw const own).cast(), length), 0);
        assert_eq!(libc::connect(socket, (&raw const node).cast(), length), 0);
        stream
    }
}

#[test]
fn a_client_that_says_nothing_or_nonsense_holds_up_nobody() {
    let test = Test::start();
    let address = test.node().address().unwrap();
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut nonsense = TcpStream::connect(address).unwrap();
    nonsense.write_all(&[0xff; 1_000]).unwrap();
    assert_eq!(Client::new(&test.node().url().unwrap()).get("/healthz").status, 200);
    drop(silent);
}
