//! UDP sockets: batched receive and batched send.
//!
//! [`UdpReceiver`] takes what came for many sockets, [`UdpSender`] sends to many; both move many
//! datagrams per system call, and runs of equal datagrams as one piece (generic receive and
//! segmentation offload, GRO and GSO). Neither decides what a datagram means. Linux only.

mod arena;
mod error;
mod gauge;
mod network;
mod options;
mod receiver;
mod sender;

pub use error::NetError;
pub use gauge::SocketGauge;
pub use network::Network;
pub use options::{check_cpu, cpus, pin_to_cpu, raise_open_files};
pub use receiver::{Readiness, ReceiverConfig, UdpReceiver};
pub use sender::{Datagram, Sent, UdpSender};
