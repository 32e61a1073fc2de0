//! `[[listen]]`: where the senders of sessions connect, and what they need.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use catchment_model::units::Time;
use catchment_net::Network;
use catchment_recorder::{LinkAccess, Listener, TlsRule};
use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::locate::{ConfigFileError, Located};
use crate::low::Address;
use crate::sources::senders;

/// A listener as it is written.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListenLow {
    address: Option<Address>,
    pub(crate) from: Option<Vec<Network>>,
    /// Which connections are under TLS, with the node's certificate.
    tls: Option<TlsLow>,
    /// A front-end shows a token of the role source.
    tokens: bool,
    pub(crate) resume: Option<Time>,
    without_protection: bool,
}

/// `"all"`, `"control"` or `"none"`; also true for all, and false for none.
#[derive(Clone, Copy, Debug)]
struct TlsLow(TlsRule);

impl ListenLow {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.map_or(LISTEN_DEFAULT, |address| address.0)
    }

    pub(crate) fn access(&self) -> LinkAccess {
        let &Self { tokens: needs_token, without_protection, resume, .. } = self;
        let is_open = self.address().ip().is_loopback() || without_protection;
        let default = if is_open { TlsRule::None } else { TlsRule::All };
        let tls = self.tls.map_or(default, |low| low.0);
        let new = LinkAccess::default();
        let resume_ns = resume.map_or(new.resume_ns, |time| time.0);
        LinkAccess { tls, needs_token, without_protection, resume_ns, ..new }
    }

    /// As the recorder wants it; `path` is that of its table.
    fn high(&self, located: &Located<'_>, path: &str) -> Result<Listener, ConfigFileError> {
        let (address, access) = (self.address(), self.access());
        check_reach(located, &format!("{path}.address"), address, &access)?;
        let from = senders(located, path, self.from.as_deref())?;
        Ok(Listener { address, from, access })
    }
}

/// The listeners of a file; the first one says how long front-ends are waited for.
pub(crate) fn listeners(
    located: &Located<'_>,
    low: &[ListenLow],
) -> Result<Vec<Listener>, ConfigFileError> {
    if low.len() > LISTENERS_MAX {
        let message = format!("expected at most {LISTENERS_MAX} listeners, got {}", low.len());
        return Err(located.error(&format!("listen[{LISTENERS_MAX}]"), message));
    }
    if let Some(index) = (1..low.len()).find(|&index| low[index].resume.is_some()) {
        let expected = "expected it in the first [[listen]], for all of them";
        return Err(located.error(&format!("listen[{index}].resume"), expected));
    }
    let listeners = low.iter().enumerate();
    listeners.map(|(index, low)| low.high(located, &format!("listen[{index}]"))).collect()
}

/// Checks where senders of sessions connect; `key` is that of the address.
pub(crate) fn check_reach(
    located: &Located<'_>,
    key: &str,
    address: SocketAddr,
    access: &LinkAccess,
) -> Result<(), ConfigFileError> {
    let is_protected = !access.is_open() || access.without_protection;
    if address.ip().is_loopback() || is_protected {
        return Ok(());
    }
    let message = format!(
        "expected a loopback address, or tls = \"all\" or \"control\" and tokens = true in \
         [[listen]], or without_protection = true where everybody on the network may send, got \
         {address}"
    );
    Err(located.error(key, message))
}

impl<'de> Deserialize<'de> for TlsLow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TlsVisitor;
        impl Visitor<'_> for TlsVisitor {
            type Value = TlsLow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\", \"control\" or \"none\"")
            }

            fn visit_bool<E: de::Error>(self, is_all: bool) -> Result<TlsLow, E> {
                Ok(TlsLow(if is_all { TlsRule::All } else { TlsRule::None }))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<TlsLow, E> {
                let rules = [TlsRule::All, TlsRule::Control, TlsRule::None];
                let rule = rules.into_iter().find(|rule| rule.word() == word);
                let unknown = || E::unknown_variant(word, &["all", "control", "none"]);
                rule.map(TlsLow).ok_or_else(unknown)
            }
        }
        deserializer.deserialize_any(TlsVisitor)
    }
}

/// Where front-ends connect unless the file says otherwise.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7_100);
/// Listeners of one node.
const LISTENERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use catchment_recorder::TlsRule;

    use crate::check;

    fn listeners(tables: &str) -> Result<Vec<(String, TlsRule, bool)>, String> {
        let text = format!("{tables}\n[[sources]]\nname = \"camera\"\nvia = \"link\"\n");
        let recorder = check(Path::new("run.toml"), &text).map_err(|error| error.to_string())?;
        let recorder = recorder.recorder;
        let own = (recorder.sources[0].address, &recorder.access);
        let further = recorder.listeners.iter().map(|one| (one.address, &one.access));
        let all = std::iter::once(own).chain(further);
        Ok(all.map(|(at, access)| (at.to_string(), access.tls, access.needs_token)).collect())
    }

    #[test]
    fn each_listener_has_its_own_rule() {
        let all = listeners(
            "[[listen]]\n[[listen]]\naddress = \"10.0.0.1:7100\"\ntokens = true\n\
             [[listen]]\naddress = \"10.0.0.2:7100\"\ntls = \"control\"\ntokens = true\n\
             [[listen]]\naddress = \"10.0.0.3:7100\"\nwithout_protection = true\n\
             [[listen]]\naddress = \"127.0.0.1:7101\"\ntls = true",
        );
        let expected = [
            ("127.0.0.1:7100", TlsRule::None, false),
            ("10.0.0.1:7100", TlsRule::All, true),
            ("10.0.0.2:7100", TlsRule::Control, true),
            ("10.0.0.3:7100", TlsRule::None, false),
            ("127.0.0.1:7101", TlsRule::All, false),
        ];
        let expected = expected.map(|(at, tls, tokens)| (at.to_owned(), tls, tokens));
        assert_eq!(all.unwrap(), expected);
    }

    #[test]
    fn listeners_that_cannot_be_are_refused_by_name() {
        let first = "[[listen]]\naddress = \"127.0.0.1:7200\"\n";
        for (second, expected) in [
            ("address = \"127.0.0.1:7200\"", "listen[1].address: expected a port used once"),
            ("address = \"0.0.0.0:7200\"\ntokens = true", "0.0.0.0:7200 beside 127.0.0.1:7200"),
            ("address = \"10.0.0.1:7200\"", "listen[1].address: expected a loopback address, or"),
            (
                "address = \"10.0.0.1:7200\"\ntls = \"none\"\ntokens = true",
                "listen[1].address: expected a loopback address, or",
            ),
            ("resume = \"1 s\"", "listen[1].resume: expected it in the first [[listen]]"),
            ("tls = \"some\"", "\"some\""),
            ("from = []", "listen[1].from: expected one or more networks"),
        ] {
            let refused = listeners(&format!("{first}[[listen]]\n{second}")).unwrap_err();
            assert!(refused.contains(expected), "{second}: {refused}");
        }
        let alone = "[[listen]]\n[[listen]]\naddress = \"127.0.0.1:1\"\n[[sources]]\nname = \"a\"\n\
                     address = \"127.0.0.1:2\"\nsub_event_id = 1\n";
        let refused = check(Path::new("run.toml"), alone).unwrap_err().to_string();
        assert!(refused.contains("listen[1]: expected a source of front-ends"), "{refused}");
        let many = (1..=17).map(|port| format!("[[listen]]\naddress = \"127.0.0.1:{port}\"\n"));
        let refused = listeners(&many.collect::<String>()).unwrap_err();
        assert!(refused.contains("expected at most 16 listeners, got 17"), "{refused}");
    }
}
