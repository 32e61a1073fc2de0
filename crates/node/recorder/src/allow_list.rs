//! Who may send to an endpoint.

use std::net::SocketAddr;

use catchment_net::Network;

/// The networks that an endpoint takes datagrams from; without any, it takes them from everybody.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowList(Box<[Network]>);

impl AllowList {
    pub(crate) fn new(networks: &[Network]) -> Self {
        Self(networks.into())
    }

    /// Whether senders must be known.
    pub(crate) fn restricts(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a datagram of that sender is taken. One that is not known is allowed nothing where
    /// senders must be known.
    #[inline]
    pub(crate) fn allows(&self, sender: Option<SocketAddr>) -> bool {
        let within =
            |sender: SocketAddr| self.0.iter().any(|network| network.contains(sender.ip()));
        !self.restricts() || sender.is_some_and(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_networks_everybody_may_send_and_with_them_nobody_else() {
        let address = |text: &str| Some(SocketAddr::new(text.parse().ok()?, 5_000));
        assert!(AllowList::default().allows(None));
        let networks = ["10.0.0.0/8", "127.0.0.2"].map(|text| text.parse().unwrap());
        let list = AllowList::new(&networks);
        for (sender, allowed) in [("10.9.8.7", true), ("127.0.0.2", true), ("127.0.0.3", false)] {
            assert_eq!(list.allows(address(sender)), allowed, "{sender}");
        }
        assert!(!list.allows(None));
    }
}
