//! The networks that a socket takes datagrams from.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use catchment_model::units::deserialize_text;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

use crate::NetError;

/// A network or a single address: `10.1.0.0/16`, `192.168.3.7`, `fe80::/10`.
///
/// A socket of IP version 6 may hear senders of version 4 too, as `::ffff:10.1.0.1`. Such addresses
/// and networks are those of version 4 here, however they are written, so that `::/0` holds none of
/// them. An interface (`%eth0`) is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Whether the address is one of the network's.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether a socket that is bound to that address can hear the network's senders.
    pub fn reaches(&self, bound: IpAddr) -> bool {
        match (bound.to_canonical(), self.0) {
            (IpAddr::V4(_), IpNet::V4(_)) => true,
            // Bound to no address in particular it hears both.
            (IpAddr::V6(bound), IpNet::V4(_)) => bound.is_unspecified(),
            (bound, IpNet::V6(_)) => bound.is_ipv6(),
        }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a network such as \"10.1.0.0/16\" or an IP address";
        deserialize_text(deserializer, expected, |_| None)
    }
}

impl FromStr for Network {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        let refuse = |hint: String| NetError::Network { got: text.into(), hint };
        let network = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse::<IpNet>().map_err(|_| refuse(String::new()))?,
        };
        if network.addr() != network.network() {
            let network = network.trunc();
            return Err(refuse(format!(", which is an address within {network}")));
        }
        Ok(Self(canonical(network)))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            self.0.addr().fmt(f)
        } else {
            self.0.fmt(f)
        }
    }
}

/// A network of addresses that stand for those of version 4, as one of version 4.
fn canonical(network: IpNet) -> IpNet {
    let within = network.prefix_len().checked_sub(MAPPED_BITS);
    match (network.addr().to_canonical(), within) {
        (address @ IpAddr::V4(_), Some(prefix)) if network.addr().is_ipv6() => {
            IpNet::new(address, prefix).unwrap_or(network)
        }
        _ => network,
    }
}

/// Bits of `::ffff:0:0`, behind which an address of version 4 stands.
const MAPPED_BITS: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_in_the_networks_that_hold_it_however_it_is_written() {
        for (of, address, holds) in [
            ("10.1.0.0/16", "10.1.255.255", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.0.0/16", "::ffff:10.1.2.3", true),
            ("::ffff:10.1.0.0/112", "10.1.2.3", true),
            ("::ffff:10.1.0.0/112", "::ffff:10.2.2.3", false),
            ("192.168.3.7", "192.168.3.7", true),
            ("192.168.3.7", "192.168.3.8", false),
            ("fe80::/10", "fe80::1", true),
            ("fe80::/10", "fec0::1", false),
            ("0.0.0.0/0", "::ffff:1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "::ffff:1.2.3.4", false),
            ("::/0", "2001:db8::1", true),
        ] {
            assert_eq!(network(of).contains(address.parse().unwrap()), holds, "{address} in {of}");
        }
    }

    #[test]
    fn a_text_that_is_no_network_is_refused_and_one_that_is_nearly_one_explained() {
        for bad in ["", "10.1", "10.1.0.0/33", "10.0.0.1:80", "localhost", "fe80::1%eth0", "::/-1"]
        {
            let error = bad.parse::<Network>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("got {bad:?}")), "{error}");
        }
        let error = "10.1.2.3/16".parse::<Network>().unwrap_err().to_string();
        assert!(error.ends_with("got \"10.1.2.3/16\", which is an address within 10.1.0.0/16"));
    }

    #[test]
    fn networks_are_shown_as_they_are_written() {
        for text in ["10.1.0.0/16", "192.168.3.7", "fe80::/10", "::1", "0.0.0.0/0"] {
            assert_eq!(network(text).to_string(), text);
        }
        assert_eq!(network("::ffff:10.1.0.0/112").to_string(), "10.1.0.0/16");
    }

    #[test]
    fn a_socket_hears_networks_of_its_own_version_and_both_where_it_is_bound_to_no_address() {
        for (bound, of, reaches) in [
            ("127.0.0.1", "10.0.0.0/8", true),
            ("127.0.0.1", "::/0", false),
            ("::1", "10.0.0.0/8", false),
            ("::", "10.0.0.0/8", true),
            ("::1", "fe80::/10", true),
        ] {
            assert_eq!(network(of).reaches(bound.parse().unwrap()), reaches, "{bound} {of}");
        }
    }
}
