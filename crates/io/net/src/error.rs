//! What can go wrong with sockets.

use std::io;
use std::net::SocketAddr;

/// An operating error of the network.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// A socket could not be bound to its address.
    #[error("cannot receive on {address}: {source}")]
    Bind {
        /// The address as configured.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A socket could not be connected to its target.
    #[error("cannot send to {target}: {source}")]
    Connect {
        /// The address to send to.
        target: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A socket option that nothing works without was refused.
    #[error("the socket option {option} was refused: {source}")]
    Option {
        /// The option's name in the system's manual.
        option: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Waiting for sockets failed.
    #[error("epoll: {source}")]
    Epoll {
        /// The system's reason.
        source: io::Error,
    },
    /// A port could not take a connection. The connection waits.
    #[error("port {address}: {source}")]
    Accept {
        /// The port's address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A connection came when there was no room for one more.
    // Without the peers' ports, which are others each time: an operator's list of warnings is
    // bounded.
    #[error(
        "{address}: limit of {connections} connections reached: closed one from {}",
        sender.ip()
    )]
    Connections {
        /// The port's address.
        address: SocketAddr,
        /// Connections that are open.
        connections: usize,
        /// Who wanted another one.
        sender: SocketAddr,
    },
    /// A connection was lost.
    #[error("connection from {}: {source}", sender.ip())]
    Connection {
        /// The peer.
        sender: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A connection brought as many bytes as its buffer holds, and nothing could be taken of them.
    #[error("connection from {}: no message in {bytes} bytes", sender.ip())]
    NoMessage {
        /// The peer.
        sender: SocketAddr,
        /// The buffer's bytes.
        bytes: usize,
    },
    /// A text that names no network of senders.
    #[error("expected a network such as \"10.1.0.0/16\" or an IP address, got {got:?}{hint}")]
    Network {
        /// The text.
        got: String,
        /// What was probably meant, as the rest of the sentence; may be empty.
        hint: String,
    },
    /// A thread could not be bound to a CPU.
    #[error("cannot run on CPU {cpu}: {source}")]
    Cpu {
        /// The CPU's number, from 0.
        cpu: usize,
        /// The system's reason.
        source: io::Error,
    },
}
