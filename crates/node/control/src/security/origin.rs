//! The Host and Origin of a browser's requests: its target, and the page on whose behalf it acts.
//!
//! A foreign page can make a browser send requests here, and by giving its own name our address
//! (DNS rebinding) even read the answers. Names are therefore accepted only if they are configured
//! or belong to the machine; addresses and `localhost` cannot be rebound. An Origin other than this
//! host is refused.

use std::net::IpAddr;

use axum::http::{Method, Request, StatusCode, header};

use crate::problem::Problem;

/// Checks both.
///
/// # Errors
/// 400 without one usable Host, 421 for another's name, 403 for another's page.
pub(crate) fn check<T>(request: &Request<T>, names: &[String]) -> Result<(), Problem> {
    let (method, headers) = (request.method(), request.headers());
    let text = |name| headers.get(name).map(|value: &header::HeaderValue| value.to_str());
    let Some(Ok(host)) = text(header::HOST) else {
        return Err(Problem::bad("missing or invalid Host header"));
    };
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts != 1 {
        return Err(Problem::bad(format!("expected one Host header, got {hosts}")));
    }
    // As sent through a proxy (`GET http://host/ HTTP/1.1`): it would take precedence over the
    // header.
    if let Some(target) = request.uri().authority()
        && !target.as_str().eq_ignore_ascii_case(host)
    {
        let detail = format!("expected the Host {host:?} in the target, too, got {target}");
        return Err(Problem::bad(detail));
    }
    let name = without_port(host);
    let known = name.eq_ignore_ascii_case("localhost")
        || address(name).is_some()
        || names.iter().any(|one| one.eq_ignore_ascii_case(name));
    if !known {
        let detail = format!(
            "expected an address, localhost, this machine's name or one in control.names as the \
             Host, got {host:?}"
        );
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail));
    }
    let same = match text(header::ORIGIN) {
        None => true,
        // No browser sends two.
        Some(_) if headers.get_all(header::ORIGIN).iter().count() > 1 => false,
        Some(Ok(origin)) => {
            let plain = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            plain.is_some_and(|plain| plain.eq_ignore_ascii_case(host))
        }
        Some(Err(_)) => false,
    };
    let cross = text(header::HeaderName::from_static("sec-fetch-site"))
        .is_some_and(|site| !matches!(site, Ok("same-origin" | "none")));
    // Without an Origin, a link from another site may open the page, but nothing more.
    let looks = matches!(*method, Method::GET | Method::HEAD);
    if !same || (cross && (!looks || headers.contains_key(header::ORIGIN))) {
        let detail = "requests from pages of other sites are refused";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(())
}

fn without_port(host: &str) -> &str {
    if host.starts_with('[') {
        return host.find(']').map_or(host, |end| &host[..=end]);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

fn address(name: &str) -> Option<IpAddr> {
    let plain = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    plain.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(target: &str, headers: &[(header::HeaderName, &str)]) -> u16 {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let checked = check(&request.body(()).unwrap(), &["daq.example".into()]);
        checked.map_or_else(|problem| problem.status, |()| 200)
    }

    fn status(host: &str, origin: Option<&str>) -> u16 {
        let origin = origin.map(|origin| (header::ORIGIN, origin));
        let headers: Vec<_> = std::iter::once((header::HOST, host)).chain(origin).collect();
        checked("/", &headers)
    }

    #[test]
    fn names_that_nobody_configured_are_refused() {
        for host in ["127.0.0.1:7000", "localhost:7000", "[::1]:7000", "10.1.2.3", "DAQ.example:1"]
        {
            assert_eq!(status(host, None), 200, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:7000", "localhost.evil", ""] {
            assert_eq!(status(host, None), 421, "{host}");
        }
        assert_eq!(checked("/", &[]), 400);
    }

    #[test]
    fn there_is_one_host_and_the_target_names_no_other() {
        let (host, port) = (header::HOST, "localhost:7000");
        assert_eq!(checked("/", &[(host.clone(), port), (host.clone(), port)]), 400);
        assert_eq!(checked("/", &[(host.clone(), port), (host.clone(), "evil.example")]), 400);
        for (target, status) in [
            ("http://localhost:7000/api/v1/state", 200),
            ("http://LOCALHOST:7000/", 200),
            ("http://localhost/", 400),
            ("http://evil.example/", 400),
            ("http://evil.example@localhost:7000/", 400),
        ] {
            assert_eq!(checked(target, &[(host.clone(), port)]), status, "{target}");
        }
        assert_eq!(checked("http://evil.example/", &[(host, "evil.example")]), 421);
    }

    #[test]
    fn pages_of_others_are_refused() {
        assert_eq!(status("localhost:7000", Some("http://localhost:7000")), 200);
        for origin in ["http://localhost:7001", "https://evil.example", "null", "localhost:7000"] {
            assert_eq!(status("localhost:7000", Some(origin)), 403, "{origin}");
        }
        let host = (header::HOST, "localhost:7000");
        let own = (header::ORIGIN, "http://localhost:7000");
        for second in ["https://evil.example", "http://localhost:7000"] {
            let headers = [host.clone(), own.clone(), (header::ORIGIN, second)];
            assert_eq!(checked("/", &headers), 403, "{second}");
        }
    }
}
