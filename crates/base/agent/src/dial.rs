//! The port through which an agent makes connections, to one peer.

use std::io;

/// Connections to one peer, by numbers of the agent's: 0, 1, ... Nothing here waits. The agent is
/// woken when a connection is there or could not be made, when one has something to read, and when
/// one that took less than it was given has room again.
pub trait Dial: Send {
    /// Begins to make a connection. One of that number that is there is closed before.
    fn connect(&mut self, number: usize);

    /// The outcome of the attempt, once.
    fn take_outcome(&mut self, number: usize) -> Option<io::Result<()>>;

    /// Writes what there is room for, and returns how many bytes: 0 if there is none now.
    ///
    /// # Errors
    /// The connection's end.
    fn write(&mut self, number: usize, slices: &[&[u8]]) -> io::Result<usize>;

    /// Reads what there is, and returns how many bytes: 0 if there is nothing now.
    ///
    /// # Errors
    /// The connection's end.
    fn read(&mut self, number: usize, buffer: &mut [u8]) -> io::Result<usize>;

    /// Closes a connection, or gives up making it.
    fn close(&mut self, number: usize);
}
