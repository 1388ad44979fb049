//! Sockets: one symmetric [`Peer`] a connection, an accept loop, a pool of dialled peers.

pub mod error;
pub mod listen;
pub mod peer;
pub mod pool;
pub mod routes;

pub use error::{CallError, Refusal};
pub use peer::{Peer, Reply, Service};
pub use routes::{Answer, Handled, Route};
