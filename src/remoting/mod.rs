//! Sockets: one symmetric [`Peer`] a connection, an accept loop, a pool of dialled peers.
//!
//! ```text
//! Listener --accepts--> first_bytes (PROXY, TLS hello) --> connection::run --> Service::handle
//! Pool     --dials--------------------------------------> connection::run --> Service::handle
//!                                                              ^
//! Peer (a handle: call, oneway, close) ---- outbox, waker -----+
//! ```

mod connection;
pub mod dial;
pub mod error;
mod first_bytes;
pub mod listen;
mod output;
pub mod peer;
pub mod pool;
pub mod routes;
mod stream;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use dial::{Dial, Tls, TlsError, TlsFiles};
pub use error::{CallError, Refusal};
pub use listen::{Bound, Listener};
pub use peer::{Peer, Reply, Service};
pub use pool::{NoService, Pool};
pub use routes::{Answer, Handled, Route};

/// What one connection, and one listener, may cost. A frame is limited by
/// [`MAX_FRAME`](crate::protocol::frame::MAX_FRAME).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// A connection without a byte in either direction for this long is closed (Java: 120 s, both roles).
    pub idle: Duration,
    /// Requests of one connection that are being handled or held; beyond it nothing more is read.
    pub running: usize,
    /// Our own calls that wait for an answer on one connection; beyond it a call is [`CallError::Busy`].
    pub calls: usize,
    /// Bytes of our own calls that the connection has not taken over yet; beyond it [`CallError::Busy`].
    pub outbox_bytes: usize,
    /// When more bytes than this wait for the socket, nothing more is read from the peer.
    pub unsent_bytes: usize,
    /// Accepted connections of one listener; further ones are closed at once.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(120),
            running: 4096,
            calls: 16384,
            outbox_bytes: 64 * 1024 * 1024,
            unsent_bytes: 4 * 1024 * 1024,
            connections: 65536,
        }
    }
}
