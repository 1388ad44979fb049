//! The task of one connection: reads frames, resolves our calls, drives the handlers, writes what is ready.
//!
//! One pass of [`Connection::poll`]: handlers of all frames at hand are polled once, in arrival order; those that
//! are not ready stay in a set; everything that is ready is written with one system call; then more is read.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, Sleep};

use super::output::Output;
use super::stream::Stream;
use super::{Peer, Refusal, Reply, Service};
use crate::protocol::frame::{FLAG_RESPONSE, Frame};
use crate::protocol::model::{Language, VERSION};
use crate::protocol::{self, codes};

/// Room for one read, at first and when reads come in full.
const READ_MIN: usize = 8 * 1024;
const READ_MAX: usize = 64 * 1024;
/// Emptied handler slots kept for the next requests: a slot is as large as the largest handler.
const SPARE_SLOTS: usize = 1;

/// Why a connection ended.
#[derive(Debug)]
enum Ended {
    /// The peer closed it.
    Eof,
    /// [`Peer::close`], or the grace of a stop is over.
    Closed,
    /// The listener stops and nothing is left to do.
    Drained,
    /// Nothing came or went for too long.
    Idle,
    /// The stream cannot be delimited any more.
    Broken(protocol::Error),
    /// The socket failed.
    Io(io::Error),
}

/// Serves one connection until it ends. `input` holds what has been read already.
pub(super) async fn run<S: Service>(service: Arc<S>, peer: Peer, stream: Stream, input: BytesMut) {
    /// Runs also when the task is dropped or panics; declared before the handlers, so dropped after them.
    struct Closing<S: Service>(Arc<S>, Peer);
    impl<S: Service> Drop for Closing<S> {
        fn drop(&mut self) {
            self.1.mark_gone();
            Arc::clone(&self.0).closed(&self.1);
        }
    }

    let closing = Closing(Arc::clone(&service), peer.clone());
    service.opened(&peer);
    let idle = peer.limits().idle;
    let mut connection = Connection {
        handle: {
            let peer = peer.clone();
            move |request| Arc::clone(&service).handle(peer.clone(), request)
        },
        peer,
        stream,
        input,
        read_size: READ_MIN,
        more: true,
        running: FuturesUnordered::new(),
        spare: Vec::new(),
        output: Output::default(),
        active: Instant::now(),
        idle: Box::pin(tokio::time::sleep(idle)),
    };
    let ended = poll_fn(|cx| connection.poll(cx)).await;
    let remote = connection.peer.remote();
    match ended {
        Ended::Eof | Ended::Closed | Ended::Drained => tracing::debug!(peer = %remote, ?ended, "closed"),
        Ended::Idle => tracing::info!(peer = %remote, ?idle, "closed an idle connection"),
        Ended::Io(e) => tracing::debug!(peer = %remote, error = %e, "connection failed"),
        Ended::Broken(e) => tracing::warn!(peer = %remote, error = %e, "closed: frames cannot be delimited"),
    }
    drop(connection);
    drop(closing);
}

/// State of the task. `H` makes the future `F` of a request.
struct Connection<H, F> {
    handle: H,
    peer: Peer,
    stream: Stream,
    input: BytesMut,
    read_size: usize,
    /// `input` may hold another whole frame.
    more: bool,
    running: FuturesUnordered<Running<F>>,
    spare: Vec<Slot<F>>,
    output: Output,
    /// Last byte in or out.
    active: Instant,
    /// Goes off `limits.idle` after some earlier `active`; it is moved only then, not with every message.
    idle: Pin<Box<Sleep>>,
}

type Slot<F> = Pin<Box<Option<F>>>;

impl<H, F> Connection<H, F>
where
    H: Fn(Frame) -> F,
    F: Future<Output = Reply>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.peer.register(cx.waker());
        let ended = loop {
            if self.peer.is_closing() {
                break Ended::Closed;
            }
            match self.pass(cx) {
                Ok(true) => {}
                Ok(false) => match self.poll_idle(cx) {
                    Poll::Ready(()) => break Ended::Idle,
                    Poll::Pending => return Poll::Pending,
                },
                Err(ended) => break ended,
            }
        };
        Poll::Ready(ended)
    }

    /// One round of everything; true when another may find more to do.
    fn pass(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        if self.peer.has_outgoing() && self.may_send() {
            let (output, room) = (&mut self.output, self.peer.limits().unsent_bytes);
            self.peer
                .take_outgoing(room, |o| output.push_encoded(&o.head, o.body));
        }
        self.take_frames().map_err(Ended::Broken)?;
        while let Poll::Ready(Some(done)) = self.running.poll_next_unpin(cx) {
            self.finish(done);
        }
        let mut written = 0;
        let flushed = match self.output.poll_write(&mut self.stream, cx, &mut written) {
            Poll::Ready(result) => {
                result.map_err(Ended::Io)?;
                true
            }
            Poll::Pending => false,
        };
        if written > 0 {
            self.active = Instant::now();
        }
        if self.peer.is_draining() && flushed && self.running.is_empty() && !self.peer.has_outgoing() {
            return Err(Ended::Drained);
        }
        if self.peer.has_outgoing() && self.may_send() {
            return Ok(true);
        }
        if !self.may_read() {
            return Ok(false);
        }
        if self.more {
            return Ok(true);
        }
        self.read(cx)
    }

    fn may_send(&self) -> bool {
        self.output.unsent() <= self.peer.limits().unsent_bytes
    }

    fn may_read(&self) -> bool {
        self.may_send() && self.running.len() < self.peer.limits().running
    }

    /// Cuts and dispatches frames as long as the limits allow.
    fn take_frames(&mut self) -> Result<(), protocol::Error> {
        while self.more && self.may_read() {
            match Frame::cut(&mut self.input)? {
                None => self.more = false,
                Some(frame) if frame.is_response() => self.peer.resolve(frame),
                // The listener stops: what was not begun is not begun any more, the peer sees the close.
                Some(_) if self.peer.is_draining() => {}
                Some(request) => self.begin(request),
            }
        }
        Ok(())
    }

    /// Polls the handler of a request once, at once.
    fn begin(&mut self, request: Frame) {
        self.peer.saw_request(&request);
        let (code, opaque, oneway) = (request.code, request.opaque, request.is_oneway());
        let mut slot = self.spare.pop().unwrap_or_else(|| Box::pin(None));
        let handle = &self.handle;
        let begun = catch_unwind(AssertUnwindSafe(|| slot.as_mut().set(Some(handle(request)))));
        let mut running = Running {
            slot: Some(slot),
            code,
            opaque,
            oneway,
        };
        if let Err(panic) = begun {
            let done = running.panicked(&*panic);
            return self.finish(done);
        }
        // The set polls it again with a waker of its own when it is not ready now.
        match Pin::new(&mut running).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => self.finish(done),
            Poll::Pending => self.running.push(running),
        }
    }

    /// Encodes the answer of a handler that is done.
    fn finish(&mut self, done: Done<F>) {
        if let Some(slot) = done.slot
            && self.spare.len() < SPARE_SLOTS
        {
            self.spare.push(slot);
        }
        if done.oneway {
            return;
        }
        let mut head = Frame {
            code: done.reply.code,
            language: Some(Language::Java),
            version: VERSION,
            opaque: done.opaque,
            flag: FLAG_RESPONSE,
            remark: done.reply.remark,
            fields: done.reply.fields,
            ..Frame::default()
        };
        if let Err(e) = self.output.push(&head, done.reply.body) {
            tracing::error!(peer = %self.peer.remote(), code = done.code, error = %e, "answer cannot be encoded");
            head.code = codes::SYSTEM_ERROR;
            head.remark = Some(format!("the answer cannot be encoded: {e}"));
            head.fields = crate::fields::Fields::new();
            // A head with one short remark always fits.
            drop(self.output.push(&head, Vec::new()));
        }
    }

    /// Reads once; true when something came.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        if self.input.is_empty() && self.input.capacity() > READ_MAX {
            self.input = BytesMut::new();
        }
        if self.input.capacity() - self.input.len() < READ_MIN / 2 {
            self.input.reserve(self.read_size);
        }
        let room = self.input.capacity() - self.input.len();
        let poll = pin!(self.stream.read_buf(&mut self.input)).poll(cx);
        match poll {
            Poll::Ready(Ok(0)) => Err(Ended::Eof),
            Poll::Ready(Ok(n)) => {
                self.read_size = if n == room { READ_MAX } else { READ_MIN };
                self.active = Instant::now();
                self.more = true;
                Ok(true)
            }
            Poll::Ready(Err(e)) => Err(Ended::Io(e)),
            Poll::Pending => Ok(false),
        }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.idle.as_mut().poll(cx).is_ready() {
            let due = self.active + self.peer.limits().idle;
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            self.idle.as_mut().reset(due);
        }
        Poll::Pending
    }
}

/// A request being handled.
struct Running<F> {
    /// `Some` until done.
    slot: Option<Slot<F>>,
    code: i32,
    opaque: i32,
    oneway: bool,
}

/// A handler that is done, with its emptied slot for reuse.
struct Done<F> {
    reply: Reply,
    slot: Option<Slot<F>>,
    code: i32,
    opaque: i32,
    oneway: bool,
}

impl<F> Running<F> {
    fn done(&mut self, reply: Reply) -> Done<F> {
        let mut slot = self.slot.take();
        if let Some(slot) = &mut slot {
            slot.as_mut().set(None);
        }
        Done {
            reply,
            slot,
            code: self.code,
            opaque: self.opaque,
            oneway: self.oneway,
        }
    }

    /// A panic costs its request, not the connection.
    fn panicked(&mut self, panic: &(dyn Any + Send)) -> Done<F> {
        let text = (panic.downcast_ref::<&str>().copied())
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        tracing::error!(code = self.code, panic = text, "a request handler panicked");
        let remark = format!("internal error while handling request {}", self.code);
        self.done(Refusal::new(codes::SYSTEM_ERROR, remark).into())
    }
}

impl<F: Future<Output = Reply>> Future for Running<F> {
    type Output = Done<F>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done<F>> {
        let this = self.get_mut();
        let Some(future) = this.slot.as_mut().and_then(|s| s.as_mut().as_pin_mut()) else {
            // Polled after it was done; the set does not do that.
            return Poll::Pending;
        };
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(reply)) => Poll::Ready(this.done(reply)),
            Err(panic) => Poll::Ready(this.panicked(&*panic)),
        }
    }
}
