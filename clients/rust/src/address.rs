//! Addresses of recorders: `catchment://HOST[:PORT]` under TLS, `catchment+tcp://` in the clear.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use catchment_net::TlsClient;

use crate::Error;

/// Where a recorder listens.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub url: String,
    pub host: String,
    port: u16,
    /// It is under TLS; then, what is trusted.
    pub has_tls: bool,
    pub trusted: Option<TlsClient>,
}

impl Address {
    pub fn parse(url: &str) -> Result<Self, Error> {
        let none = || Error::Address { url: url.to_owned() };
        let (rest, has_tls) = match url.strip_prefix("catchment://") {
            Some(rest) => (rest, true),
            None => (url.strip_prefix("catchment+tcp://").ok_or_else(none)?, false),
        };
        // An address of IP version 6 stands in brackets.
        let host_end = rest.rfind(']').map_or(0, |bracket| bracket + 1);
        let (host, port) = match rest[host_end..].rfind(':') {
            Some(colon) => {
                let colon = host_end + colon;
                (&rest[..colon], rest[colon + 1..].parse().map_err(|_| none())?)
            }
            None => (rest, PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || host.contains(['/', '@', '[', ']']) {
            return Err(none());
        }
        Ok(Self { url: url.to_owned(), host: host.to_owned(), port, has_tls, trusted: None })
    }

    /// By which a connection is made to be under TLS.
    pub fn tls(&self) -> Option<(&TlsClient, &str)> {
        self.trusted.as_ref().map(|trusted| (trusted, self.host.as_str()))
    }

    /// All addresses of the host, asked for now.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

const PORT: u16 = 7100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_maybe_a_port() {
        let parsed = |url: &str| Address::parse(url).ok().map(|it| (it.host, it.port));
        assert_eq!(parsed("catchment+tcp://daq1"), Some(("daq1".to_owned(), 7100)));
        assert_eq!(parsed("catchment+tcp://daq1:7"), Some(("daq1".to_owned(), 7)));
        assert_eq!(parsed("catchment+tcp://[::1]:7"), Some(("::1".to_owned(), 7)));
        assert_eq!(parsed("catchment+tcp://[::1]"), Some(("::1".to_owned(), 7100)));
        for url in ["daq1:7100", "catchment+tcp://", "catchment+tcp://a:b", "catchment+tcp://a/b"] {
            assert!(matches!(Address::parse(url), Err(Error::Address { .. })), "{url}");
        }
        assert!(Address::parse("catchment://daq1").unwrap().has_tls);
    }
}
