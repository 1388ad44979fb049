//! Accept loop, connection limit, graceful stop.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::first_bytes::{self, FirstBytes};
use super::stream::Stream;
use super::{Limits, Peer, Service, connection};

/// Connections the kernel keeps until we accept them.
const BACKLOG: u32 = 1024;
/// Pause after a failed accept (out of file descriptors, most likely): first and longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long [`Listener::stop`] waits for connections that were told to end at once.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// TCP keepalive: silence before the first probe, time between probes.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(15));

/// A listening socket whose connections wait to be served.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Bound {
    /// Binds and listens. Port 0 picks a free one.
    pub fn to(addr: SocketAddr) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot listen on {addr}: {e}"));
        let listener = bind(addr).map_err(named)?;
        let addr = listener.local_addr().map_err(named)?;
        Ok(Self { listener, addr })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Starts to accept.
    pub fn serve<S: Service>(self, service: Arc<S>, limits: Limits) -> Listener {
        let connections = Arc::new(Connections {
            limits,
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            peers: Mutex::default(),
        });
        tokio::spawn(accept(self.listener, service, Arc::clone(&connections)));
        Listener {
            addr: self.addr,
            connections,
        }
    }
}

/// A listening socket whose connections are served.
#[derive(Debug)]
pub struct Listener {
    addr: SocketAddr,
    connections: Arc<Connections>,
}

/// The accepted connections of one listener.
#[derive(Debug)]
struct Connections {
    limits: Limits,
    stopping: CancellationToken,
    tasks: TaskTracker,
    /// Those past their first byte, by [`Peer::id`]. Held for one map operation.
    peers: Mutex<HashMap<u64, Peer>>,
}

impl Listener {
    /// Binds and starts to accept. Port 0 picks a free one.
    pub async fn start<S: Service>(addr: SocketAddr, service: Arc<S>) -> io::Result<Self> {
        Self::start_with(addr, service, Limits::default()).await
    }

    /// [`Listener::start`] with limits other than the default ones.
    pub async fn start_with<S: Service>(
        addr: SocketAddr,
        service: Arc<S>,
        limits: Limits,
    ) -> io::Result<Self> {
        Ok(Bound::to(addr)?.serve(service, limits))
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.connections.tasks.len()
    }

    /// Stops accepting, lets running requests finish for at most `grace`, closes all connections.
    ///
    /// Handlers learn of it through [`Peer::draining`]; one that still waits after `grace` is dropped.
    pub async fn stop(self, grace: Duration) {
        let connections = &self.connections;
        connections.stopping.cancel();
        connections.tasks.close();
        connections.peers().values().for_each(Peer::wake);
        if tokio::time::timeout(grace, connections.tasks.wait())
            .await
            .is_ok()
        {
            return;
        }
        connections.peers().values().for_each(Peer::close);
        if tokio::time::timeout(LAST_WAIT, connections.tasks.wait())
            .await
            .is_err()
        {
            let left = connections.tasks.len();
            tracing::warn!(addr = %self.addr, left, "connections did not end in time");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.connections.stopping.cancel();
        self.connections.peers().values().for_each(Peer::close);
    }
}

impl Connections {
    fn peers(&self) -> MutexGuard<'_, HashMap<u64, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

async fn accept<S: Service>(listener: TcpListener, service: Arc<S>, connections: Arc<Connections>) {
    let mut stopping = pin!(connections.stopping.cancelled());
    let mut pause = BACK_OFF.0;
    let mut full = false;
    loop {
        let accepted = tokio::select! {
            () = &mut stopping => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                pause = BACK_OFF.0;
                if connections.tasks.len() >= connections.limits.connections {
                    if !full {
                        let limit = connections.limits.connections;
                        tracing::warn!(peer = %remote, limit, "too many connections, closing new ones");
                    }
                    full = true;
                    continue;
                }
                full = false;
                let serving = serve(stream, remote, Arc::clone(&service), Arc::clone(&connections));
                connections.tasks.spawn(serving);
            }
            Err(e) => {
                tracing::warn!(error = %e, ?pause, "cannot accept a connection");
                tokio::select! {
                    () = &mut stopping => return,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(BACK_OFF.1),
                }
            }
        }
    }
}

/// Finds out what the connection speaks, then serves it.
async fn serve<S: Service>(
    mut stream: TcpStream,
    remote: SocketAddr,
    service: Arc<S>,
    connections: Arc<Connections>,
) {
    /// Takes the peer off the list however the task ends.
    struct Listed(Arc<Connections>, Peer);
    impl Drop for Listed {
        fn drop(&mut self) {
            self.0.peers().remove(&self.1.id());
        }
    }

    set_options(&stream);
    let idle = connections.limits.idle;
    let mut input = BytesMut::new();
    let source = tokio::select! {
        () = connections.stopping.cancelled() => return,
        begun = tokio::time::timeout(idle, begin(&mut stream, &mut input, remote)) => match begun {
            Ok(Some(source)) => source,
            Ok(None) => return,
            Err(_) => {
                tracing::debug!(peer = %remote, "closed: no first bytes");
                return;
            }
        },
    };
    let (limits, stopping) = (connections.limits.clone(), connections.stopping.clone());
    let peer = Peer::new(source, remote, limits, stopping);
    connections.peers().insert(peer.id(), peer.clone());
    let listed = Listed(connections, peer.clone());
    connection::run(service, peer, Stream::Plain(stream), input).await;
    drop(listed);
}

/// Reads until the first bytes are decided and takes a PROXY header off. The source address, or `None` when the
/// connection is to be closed.
async fn begin(stream: &mut TcpStream, input: &mut BytesMut, remote: SocketAddr) -> Option<SocketAddr> {
    loop {
        match first_bytes::look(input) {
            FirstBytes::More => {}
            FirstBytes::Frames { skip, source } => {
                input.advance(skip);
                return Some(source.unwrap_or(remote));
            }
            FirstBytes::Tls => {
                tracing::warn!(peer = %remote, "closed: TLS is not supported yet, switch it off in the client");
                return None;
            }
            FirstBytes::Broken(reason) => {
                tracing::warn!(peer = %remote, reason, "closed: bad PROXY protocol header");
                return None;
            }
        }
        match stream.read_buf(input).await {
            Ok(0) => return None,
            Ok(_) => {}
            Err(e) => {
                tracing::debug!(peer = %remote, error = %e, "connection failed");
                return None;
            }
        }
    }
}

/// `TCP_NODELAY` and keepalive. A connection on which they cannot be set is of use still.
pub(super) fn set_options(stream: &TcpStream) {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(KEEPALIVE.0)
        .with_interval(KEEPALIVE.1);
    let set = stream
        .set_nodelay(true)
        .and_then(|()| socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(e) = set {
        tracing::debug!(error = %e, "cannot set socket options");
    }
}
