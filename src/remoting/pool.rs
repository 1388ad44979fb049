//! Address -> [`Peer`], dialled on demand and shared.

use std::sync::Arc;
use std::time::Duration;

use super::{CallError, Peer, Service};
use crate::protocol::Request;

/// Dialled connections by address (`host:port`; a host name is resolved again on each dial).
#[derive(Debug)]
pub struct Pool<S: Service> {
    _service: Arc<S>,
}

impl<S: Service> Pool<S> {
    /// A pool whose connections give incoming requests to `service`.
    pub fn new(service: Arc<S>, _connect_timeout: Duration) -> Self {
        Self { _service: service }
    }
    /// The connection to `addr`, dialled when there is none.
    pub async fn peer(&self, _addr: &str) -> Result<Peer, CallError> {
        unimplemented!()
    }
    /// Dials if needed and calls; `timeout` covers both.
    pub async fn call<R: Request>(
        &self,
        _addr: &str,
        _header: &R,
        _body: R::Body,
        _timeout: Duration,
    ) -> Result<(R::Reply, R::ReplyBody), CallError> {
        unimplemented!()
    }
    /// Closes every connection.
    pub fn close(&self) {
        unimplemented!()
    }
}

/// The service of a side that answers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoService;

impl Service for NoService {
    async fn handle(self: Arc<Self>, peer: Peer, request: crate::protocol::frame::Frame) -> super::Reply {
        super::routes::unsupported(&peer, request.code)
    }
}
