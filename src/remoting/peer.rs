//! One connection, both directions: read, dispatch, write, pending calls.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{CallError, Refusal};
use crate::fields::Fields;
use crate::protocol::{Chunks, Request, frame::Frame, model::Language};

/// What a handler sends back.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// Response code.
    pub code: i32,
    /// Remark, if any.
    pub remark: Option<String>,
    /// Header fields.
    pub fields: Fields,
    /// Body pieces, written one after the other.
    pub body: Chunks,
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self {
            code: refusal.code,
            remark: Some(refusal.remark),
            ..Self::default()
        }
    }
}

/// What a role does with requests. A dropped future means that the connection closed.
pub trait Service: Send + Sync + 'static {
    /// Runs one request. Called in arrival order; polled once at once. The reply to a oneway request is dropped.
    fn handle(self: Arc<Self>, peer: Peer, request: Frame) -> impl Future<Output = Reply> + Send;
    /// A connection was accepted or dialled.
    fn opened(&self, _peer: &Peer) {}
    /// The connection is gone.
    fn closed(self: Arc<Self>, _peer: &Peer) {}
}

/// A connection, symmetric: either side may call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Peer {}

impl Peer {
    /// The other end (the announced source when the PROXY protocol told one).
    pub fn remote(&self) -> SocketAddr {
        unimplemented!()
    }
    /// A number unique in this process.
    pub fn id(&self) -> u64 {
        unimplemented!()
    }
    /// Language of the newest request on this connection.
    pub fn language(&self) -> Language {
        unimplemented!()
    }
    /// Version of the newest request on this connection.
    pub fn version(&self) -> i32 {
        unimplemented!()
    }
    /// Calls the other end and waits for its answer. Any code but 0 is [`CallError::Remote`].
    pub async fn call<R: Request>(
        &self,
        _header: &R,
        _body: R::Body,
        _timeout: Duration,
    ) -> Result<(R::Reply, R::ReplyBody), CallError> {
        unimplemented!()
    }
    /// Calls the other end with a ready frame and returns its answer whatever the code.
    pub async fn exchange(&self, _request: Frame, _timeout: Duration) -> Result<Frame, CallError> {
        unimplemented!()
    }
    /// Sends a request that gets no answer; an error when the peer is gone or its queue is full.
    pub fn oneway<R: Request>(&self, _header: &R, _body: R::Body) -> Result<(), CallError> {
        unimplemented!()
    }
    /// True once the connection is gone.
    pub fn is_closed(&self) -> bool {
        unimplemented!()
    }
    /// Resolves when the connection is gone.
    pub async fn closed(&self) {
        unimplemented!()
    }
    /// Closes the connection.
    pub fn close(&self) {
        unimplemented!()
    }
}
