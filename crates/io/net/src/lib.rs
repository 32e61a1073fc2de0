//! UDP and TCP sockets: batched receive and batched send of datagrams, and receive of connections.
//!
//! [`UdpReceiver`] takes what came for many sockets, [`UdpSender`] sends to many; both move many
//! datagrams per system call, and runs of equal datagrams as one piece (generic receive and
//! segmentation offload, GRO and GSO). [`TcpReceiver`] takes connections at many ports and what
//! they bring, and leaves with the sender what there is no room for. A thread waits for any of them
//! by [`Readiness`]. None decides what the bytes mean. [`TimerServer`] tells feeders when a train
//! is due. Linux only.

mod certificates;
mod connection;
mod dialer;
mod epoll;
mod error;
mod gauge;
mod link_access;
mod network;
mod options;
mod receiver;
mod sender;
mod stream;
mod tcp;
mod timer;
mod tls_stream;

pub use certificates::{LINK_PROTOCOL, TlsClient, TlsError, TlsServer};
pub use dialer::{Dialer, Peer};
pub use epoll::Readiness;
pub use error::NetError;
pub use gauge::SocketGauge;
pub use link_access::{LinkAccess, SharedTokens, TlsRule, Tokens, read_token};
pub use network::Network;
pub use options::{check_cpu, cpus, pin_to_cpu, raise_open_files};
pub use receiver::{ReceiverConfig, UdpReceiver};
pub use sender::{Datagram, Sent, UdpSender};
pub use tcp::{TcpConfig, TcpPort, TcpReceiver};
pub use timer::{TickGroup, Ticks, TimerConfig, TimerReport, TimerServer, run_of_timer};
pub use tls_stream::Stream;
