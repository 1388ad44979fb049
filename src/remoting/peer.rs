//! A connection as seen from outside its task: [`Peer`], symmetric, cheap to clone.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{CallError, Limits, Refusal};
use crate::fields::Fields;
use crate::protocol::frame::{FLAG_ONEWAY, FLAG_RESPONSE, Frame, HeaderForm};
use crate::protocol::model::Language;
use crate::protocol::{Body, Chunks, Request, codes};

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
            fields: refusal.fields,
            ..Self::default()
        }
    }
}

/// What a role does with requests. A dropped future means that the connection closed.
pub trait Service: Send + Sync + 'static {
    /// Runs one request. Called in arrival order; polled once at once. The reply to a oneway request is dropped.
    fn handle(self: Arc<Self>, peer: Peer, request: Frame) -> impl Future<Output = Reply> + Send;
    /// A connection was accepted (and has said its first byte) or dialled.
    fn opened(&self, _peer: &Peer) {}
    /// The connection is gone; all its handlers have been dropped.
    fn closed(self: Arc<Self>, _peer: &Peer) {}
}

/// A connection, symmetric: either side may call. Cheap to clone.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
}

/// What the handles and the connection's task share.
struct Shared {
    id: u64,
    remote: SocketAddr,
    /// The other end of the socket itself: a proxy's when `remote` was announced.
    socket: SocketAddr,
    language: AtomicU8,
    version: AtomicI32,
    limits: Limits,
    /// Wakes the connection's task.
    waker: AtomicWaker,
    /// Asks the task to end.
    closing: AtomicBool,
    /// Says that `calls.outbox` is not empty, so that the task need not take the lock to see that it is.
    outbox_ready: AtomicBool,
    /// The listener's: set when it begins to stop.
    draining: CancellationToken,
    gone: CancellationToken,
    calls: Mutex<Calls>,
}

/// Our own calls on one connection. The lock is held for a few map operations, never across an await.
#[derive(Default)]
struct Calls {
    closed: bool,
    next_opaque: i32,
    waiting: HashMap<i32, oneshot::Sender<Frame>>,
    outbox: VecDeque<Outgoing>,
    outbox_bytes: usize,
}

/// An encoded request on its way to the connection's task.
pub(super) struct Outgoing {
    pub(super) head: BytesMut,
    pub(super) body: Chunks,
    length: usize,
}

/// A call that waits; forgets itself when dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    opaque: i32,
    answer: oneshot::Receiver<Frame>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.calls().waiting.remove(&self.opaque);
    }
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        // Nothing in a critical section can panic half way, so a poisoned lock is still consistent.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn addr(&self) -> String {
        self.remote.to_string()
    }

    /// Encodes a request and gives it to the task. `answer` is where its answer goes; a oneway has none.
    fn send(
        &self,
        mut request: Frame,
        body: Chunks,
        answer: Option<oneshot::Sender<Frame>>,
    ) -> Result<i32, CallError> {
        let body_length = body.iter().map(Bytes::len).sum();
        let flag = if answer.is_some() { 0 } else { FLAG_ONEWAY };
        request.flag = request.flag & !(FLAG_RESPONSE | FLAG_ONEWAY) | flag;
        let opaque = {
            let mut calls = self.calls();
            loop {
                calls.next_opaque = calls.next_opaque.wrapping_add(1);
                if !calls.waiting.contains_key(&calls.next_opaque) {
                    break calls.next_opaque;
                }
            }
        };
        request.opaque = opaque;
        let mut head = BytesMut::with_capacity(256);
        request
            .encode_head(HeaderForm::Json, body_length, &mut head)
            .map_err(|source| CallError::Unsendable {
                addr: self.addr(),
                source,
            })?;
        let length = head.len() + body_length;
        {
            let mut calls = self.calls();
            if calls.closed {
                return Err(CallError::Closed { addr: self.addr() });
            }
            // An empty outbox takes any frame; else the largest one could never be sent under a small limit.
            let full = calls.outbox_bytes > 0 && calls.outbox_bytes + length > self.limits.outbox_bytes;
            if full || calls.outbox.len() >= self.limits.calls || calls.waiting.len() >= self.limits.calls {
                return Err(CallError::Busy { addr: self.addr() });
            }
            if let Some(answer) = answer {
                calls.waiting.insert(opaque, answer);
            }
            calls.outbox_bytes += length;
            calls.outbox.push_back(Outgoing { head, body, length });
            self.outbox_ready.store(true, Ordering::Release);
        }
        self.waker.wake();
        Ok(opaque)
    }
}

impl Peer {
    /// A handle for a connection whose task is about to start.
    pub(super) fn new(
        remote: SocketAddr,
        socket: SocketAddr,
        limits: Limits,
        draining: CancellationToken,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Self {
            shared: Arc::new(Shared {
                id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                remote,
                socket,
                language: AtomicU8::new(Language::default().ordinal()),
                version: AtomicI32::new(0),
                limits,
                waker: AtomicWaker::new(),
                closing: AtomicBool::new(false),
                outbox_ready: AtomicBool::new(false),
                draining,
                gone: CancellationToken::new(),
                calls: Mutex::default(),
            }),
        }
    }

    /// A peer without a connection, already closed: for running a handler inside the process.
    pub fn detached(remote: SocketAddr) -> Self {
        let peer = Self::new(remote, remote, Limits::default(), CancellationToken::new());
        peer.mark_gone();
        peer
    }

    /// The other end (the announced source when the PROXY protocol told one).
    pub fn remote(&self) -> SocketAddr {
        self.shared.remote
    }

    /// The other end of the socket: differs from [`Peer::remote`] behind a proxy. Anyone may announce any source,
    /// so whoever grants a right by address must find both addresses good.
    pub fn socket(&self) -> SocketAddr {
        self.shared.socket
    }

    /// A number unique in this process.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// Language of the newest request on this connection.
    pub fn language(&self) -> Language {
        Language::from_ordinal(self.shared.language.load(Ordering::Relaxed).into()).unwrap_or(Language::Other)
    }

    /// Version of the newest request on this connection.
    pub fn version(&self) -> i32 {
        self.shared.version.load(Ordering::Relaxed)
    }

    /// Calls the other end and waits for its answer. Any code but 0 is [`CallError::Remote`].
    pub async fn call<R: Request>(
        &self,
        header: &R,
        body: R::Body,
        timeout: Duration,
    ) -> Result<(R::Reply, R::ReplyBody), CallError> {
        let request = self.request(header)?;
        let answer = self.round_trip(request, body.encode(), timeout).await?;
        if answer.code != codes::SUCCESS {
            return Err(CallError::Remote {
                addr: self.shared.addr(),
                code: answer.code,
                remark: answer.remark.unwrap_or_default(),
            });
        }
        let header = answer.fields.to_value().map_err(|e| self.malformed(e.into()))?;
        let body = R::ReplyBody::decode(answer.body).map_err(|e| self.malformed(e))?;
        Ok((header, body))
    }

    /// Calls the other end with a ready frame and returns its answer whatever the code. Opaque and flag of the
    /// frame are set here.
    pub async fn exchange(&self, mut request: Frame, timeout: Duration) -> Result<Frame, CallError> {
        let body = std::mem::take(&mut request.body).encode();
        self.round_trip(request, body, timeout).await
    }

    /// Sends a request that gets no answer; an error when the peer is gone or its queue is full.
    pub fn oneway<R: Request>(&self, header: &R, body: R::Body) -> Result<(), CallError> {
        let request = self.request(header)?;
        self.shared.send(request, body.encode(), None).map(drop)
    }

    /// True once the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.gone.is_cancelled()
    }

    /// Resolves when the connection is gone.
    pub async fn closed(&self) {
        self.shared.gone.cancelled().await;
    }

    /// Resolves when the listener that accepted this connection begins to stop. A handler that merely waits may
    /// answer early then; otherwise it is dropped when the grace is over.
    pub async fn draining(&self) {
        self.shared.draining.cancelled().await;
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.waker.wake();
    }

    fn request<R: Request>(&self, header: &R) -> Result<Frame, CallError> {
        let fields = Fields::from_value(header).map_err(|e| self.malformed(e.into()))?;
        Ok(Frame::request(R::CODE, fields))
    }

    fn malformed(&self, source: crate::protocol::Error) -> CallError {
        CallError::Protocol {
            addr: self.shared.addr(),
            source,
        }
    }

    async fn round_trip(&self, request: Frame, body: Chunks, timeout: Duration) -> Result<Frame, CallError> {
        let (sender, answer) = oneshot::channel();
        let opaque = self.shared.send(request, body, Some(sender))?;
        let mut waiting = Waiting {
            shared: &self.shared,
            opaque,
            answer,
        };
        match tokio::time::timeout(timeout, &mut waiting.answer).await {
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(_)) => Err(CallError::Closed {
                addr: self.shared.addr(),
            }),
            Err(_) => Err(CallError::TimedOut {
                addr: self.shared.addr(),
                after: timeout,
            }),
        }
    }
}

/// The side of the connection's task.
impl Peer {
    pub(super) fn register(&self, waker: &std::task::Waker) {
        self.shared.waker.register(waker);
    }

    pub(super) fn wake(&self) {
        self.shared.waker.wake();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.shared.draining.is_cancelled()
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    pub(super) fn saw_request(&self, request: &Frame) {
        let language = request.language.unwrap_or(Language::Other);
        self.shared.language.store(language.ordinal(), Ordering::Relaxed);
        self.shared.version.store(request.version, Ordering::Relaxed);
    }

    /// Gives an answer to the call that waits for it.
    pub(super) fn resolve(&self, answer: Frame) {
        let waiting = self.shared.calls().waiting.remove(&answer.opaque);
        match waiting {
            // The caller may have gone in between.
            Some(waiting) => drop(waiting.send(answer)),
            None => tracing::debug!(peer = %self.remote(), opaque = answer.opaque, "answer to no call"),
        }
    }

    pub(super) fn has_outgoing(&self) -> bool {
        self.shared.outbox_ready.load(Ordering::Acquire)
    }

    /// Takes requests from the outbox until `enough` bytes.
    pub(super) fn take_outgoing(&self, enough: usize, mut each: impl FnMut(Outgoing)) {
        let mut calls = self.shared.calls();
        let mut taken = 0;
        while taken <= enough {
            let Some(outgoing) = calls.outbox.pop_front() else {
                self.shared.outbox_ready.store(false, Ordering::Release);
                return;
            };
            taken += outgoing.length;
            calls.outbox_bytes -= outgoing.length;
            each(outgoing);
        }
    }

    /// The task is over: fails what waits, refuses what comes.
    pub(super) fn mark_gone(&self) {
        let (waiting, outbox) = {
            let mut calls = self.shared.calls();
            calls.closed = true;
            calls.outbox_bytes = 0;
            (
                std::mem::take(&mut calls.waiting),
                std::mem::take(&mut calls.outbox),
            )
        };
        drop((waiting, outbox));
        self.shared.gone.cancel();
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("id", &self.shared.id)
            .field("remote", &self.shared.remote)
            .field("closed", &self.is_closed())
            .finish()
    }
}
