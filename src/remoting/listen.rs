//! Accept loop, connection limit, graceful stop.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Service;

/// A listening socket whose connections are served.
#[derive(Debug)]
pub struct Listener {}

impl Listener {
    /// Binds and starts to accept. Port 0 picks a free one.
    pub async fn start<S: Service>(_addr: SocketAddr, _service: Arc<S>) -> std::io::Result<Self> {
        unimplemented!()
    }
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        unimplemented!()
    }
    /// Stops accepting, lets running requests finish for at most `grace`, closes all connections.
    pub async fn stop(self, _grace: std::time::Duration) {
        unimplemented!()
    }
}
