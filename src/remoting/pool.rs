//! Address -> [`Peer`], dialled on demand and shared.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{CallError, Dial, Limits, Peer, Service, connection, dial};
use crate::protocol::Request;
use crate::protocol::frame::Frame;

/// Dialled connections by address (`host:port`; a host name is resolved again on each dial).
pub struct Pool<S: Service> {
    service: Arc<S>,
    connect_timeout: Duration,
    limits: Limits,
    dial: Arc<Dial>,
    entries: Arc<Mutex<Entries>>,
}

/// The lock is held for map operations only.
#[derive(Default)]
struct Entries {
    closed: bool,
    by_addr: HashMap<String, Entry>,
}

/// One address: connected, or being dialled by a task that all callers watch.
enum Entry {
    Connected(Peer),
    Dialling(watch::Receiver<Option<Dialled>>),
}

/// How a dial ended; shared by all who waited for it.
type Dialled = Result<Peer, Arc<io::Error>>;

impl<S: Service> Pool<S> {
    /// A pool whose connections give incoming requests to `service`.
    pub fn new(service: Arc<S>, connect_timeout: Duration) -> Self {
        Self::with_limits(service, connect_timeout, Limits::default())
    }

    /// [`Pool::new`] with limits other than the default ones.
    pub fn with_limits(service: Arc<S>, connect_timeout: Duration, limits: Limits) -> Self {
        Self {
            service,
            connect_timeout,
            limits,
            dial: Arc::default(),
            entries: Arc::default(),
        }
    }

    /// The same pool, dialling another way.
    #[must_use]
    pub fn dialling(mut self, dial: Dial) -> Self {
        self.dial = Arc::new(dial);
        self
    }

    /// The connection to `addr`, dialled when there is none.
    pub async fn peer(&self, addr: &str) -> Result<Peer, CallError> {
        let mut dialling = {
            let mut entries = lock(&self.entries);
            if entries.closed {
                return Err(CallError::Closed {
                    addr: addr.to_owned(),
                });
            }
            match entries.by_addr.get(addr) {
                Some(Entry::Connected(peer)) if !peer.is_closed() => return Ok(peer.clone()),
                Some(Entry::Dialling(watch)) => watch.clone(),
                _ => self.dial(addr, &mut entries),
            }
        };
        let failed = |source| CallError::Connect {
            addr: addr.to_owned(),
            source,
        };
        match dialling.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(peer))) => Ok(peer.clone()),
            Ok(Some(Err(e))) => Err(failed(io::Error::new(e.kind(), e.to_string()))),
            // The dialling task went away with the runtime.
            Ok(None) | Err(_) => Err(failed(io::ErrorKind::Interrupted.into())),
        }
    }

    /// Dials if needed and calls; `timeout` covers both.
    pub async fn call<R: Request>(
        &self,
        addr: &str,
        header: &R,
        body: R::Body,
        timeout: Duration,
    ) -> Result<(R::Reply, R::ReplyBody), CallError> {
        let (peer, left) = self.dialled(addr, timeout).await?;
        peer.call(header, body, left).await
    }

    /// Dials if needed and sends a ready frame; the answer whatever its code. `timeout` covers both.
    pub async fn exchange(&self, addr: &str, request: Frame, timeout: Duration) -> Result<Frame, CallError> {
        let (peer, left) = self.dialled(addr, timeout).await?;
        peer.exchange(request, left).await
    }

    /// Closes every connection; the pool dials no more.
    pub fn close(&self) {
        let mut entries = lock(&self.entries);
        entries.closed = true;
        for (_, entry) in entries.by_addr.drain() {
            if let Entry::Connected(peer) = entry {
                peer.close();
            }
        }
    }

    /// The connection and what is left of `timeout`.
    async fn dialled(&self, addr: &str, timeout: Duration) -> Result<(Peer, Duration), CallError> {
        let start = tokio::time::Instant::now();
        let dialled = tokio::time::timeout(timeout, self.peer(addr)).await;
        let left = timeout.saturating_sub(start.elapsed());
        match dialled {
            Ok(peer) if !left.is_zero() => Ok((peer?, left)),
            // Nothing was sent, and a caller may rely on that.
            _ => Err(CallError::Connect {
                addr: addr.to_owned(),
                source: std::io::ErrorKind::TimedOut.into(),
            }),
        }
    }

    /// Starts to dial in a task of its own, so that a caller who gives up does not stop it for the others.
    fn dial(&self, addr: &str, entries: &mut Entries) -> watch::Receiver<Option<Dialled>> {
        // New addresses are rare: a good moment to forget the dead ones.
        entries.by_addr.retain(|_, entry| match entry {
            Entry::Connected(peer) => !peer.is_closed(),
            Entry::Dialling(_) => true,
        });
        let (report, watch) = watch::channel(None);
        (entries.by_addr).insert(addr.to_owned(), Entry::Dialling(watch.clone()));
        let (addr, service, limits) = (addr.to_owned(), Arc::clone(&self.service), self.limits.clone());
        let (timeout, shared) = (self.connect_timeout, Arc::clone(&self.entries));
        let dial = Arc::clone(&self.dial);
        tokio::spawn(async move {
            let dialled = connect(&dial, &addr, service, timeout, limits)
                .await
                .map_err(Arc::new);
            {
                let mut entries = lock(&shared);
                match &dialled {
                    Ok(peer) if entries.closed => peer.close(),
                    Ok(peer) => {
                        entries.by_addr.insert(addr, Entry::Connected(peer.clone()));
                    }
                    Err(_) => {
                        entries.by_addr.remove(&addr);
                    }
                }
            }
            report.send_replace(Some(dialled));
        });
        watch
    }
}

impl<S: Service> Drop for Pool<S> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<S: Service> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = lock(&self.entries);
        f.debug_struct("Pool")
            .field("closed", &entries.closed)
            .field("addresses", &entries.by_addr.keys())
            .finish_non_exhaustive()
    }
}

fn lock(entries: &Mutex<Entries>) -> MutexGuard<'_, Entries> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resolves and connects, trying each address of a host name, greetings included; `timeout` covers all of it.
async fn connect<S: Service>(
    dial: &Dial,
    addr: &str,
    service: Arc<S>,
    timeout: Duration,
    limits: Limits,
) -> io::Result<Peer> {
    let (stream, remote) = match tokio::time::timeout(timeout, dial::connect(dial, addr)).await {
        Ok(connected) => connected?,
        Err(_) => {
            let text = format!("no connection within {timeout:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
    };
    let peer = Peer::new(remote, remote, limits, CancellationToken::new());
    tokio::spawn(connection::run(service, peer.clone(), stream, BytesMut::new()));
    Ok(peer)
}

/// The service of a side that answers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoService;

impl Service for NoService {
    async fn handle(self: Arc<Self>, peer: Peer, request: Frame) -> super::Reply {
        super::routes::unsupported(&peer, request.code)
    }
}
