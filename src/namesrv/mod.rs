//! The name server role: brokers register here, clients ask where topics are.
//!
//! ```text
//! dispatch (the table) -> registration, query, kv, config (the handlers) -> routes (plain data)
//! ```

mod config;
mod dispatch;
mod kv;
mod query;
mod registration;
pub mod routes;
#[cfg(test)]
mod routes_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio_util::sync::{CancellationToken, DropGuard};

pub use config::NamesrvConfig;
pub use dispatch::ROUTES;

use self::config::AllowList;
use self::kv::Kv;
use self::routes::{Expired, Leaving, MinIdChange, RouteTable};
use crate::protocol::frame::Frame;
use crate::protocol::requests::NotifyMinBrokerIdChange;
use crate::protocol::{self, codes};
use crate::remoting::{Listener, NoService, Peer, Pool, Refusal, Reply, Service};

/// How long running requests may take when the server stops.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// How long a notice to a broker may wait for its connection.
const NOTICE_TIMEOUT: Duration = Duration::from_millis(300);
/// Longest name or address from the wire.
const NAME_MAX: usize = 255;

/// Why a name server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] std::io::Error),
    /// A key has a value that does not fit.
    #[error("{key}={value}: {reason}")]
    Config {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        reason: &'static str,
    },
    /// The KV file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The KV file is damaged.
    #[error("{} is not a KV file: {source}", path.display())]
    Kv {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: protocol::Error,
    },
    /// Another name server of ours writes the same KV file.
    #[error("another name server keeps its KV entries in {}; give this one a kvConfigPath of its own", .0.display())]
    KvInUse(PathBuf),
}

/// A running name server.
#[derive(Debug)]
pub struct NameServer {
    listener: Listener,
    role: Arc<Namesrv>,
    /// Ends the sweep, also when the server is dropped without a stop.
    sweep: DropGuard,
}

impl NameServer {
    /// Reads the KV file, listens, and begins to look for silent brokers.
    pub async fn start(config: NamesrvConfig) -> Result<Self, StartError> {
        let ip = config
            .bind_address
            .trim()
            .parse()
            .map_err(|_| StartError::Config {
                key: "bindAddress",
                value: config.bind_address.clone(),
                reason: "an IP address such as 0.0.0.0 or 127.0.0.1",
            })?;
        let addr = SocketAddr::new(ip, config.listen_port);
        let allowed = AllowList::parse(&config.write_allow_list).map_err(|value| StartError::Config {
            key: "writeAllowList",
            value,
            reason: "addresses or networks, separated by commas",
        })?;
        let path = config.kv_path();
        // It may wait for another name server to leave the file.
        let kv = tokio::task::spawn_blocking(move || Kv::load(path))
            .await
            .map_err(std::io::Error::other)??;
        let role = Arc::new(Namesrv {
            kv,
            routes: RwLock::default(),
            registrants: Mutex::default(),
            pool: Arc::new(Pool::new(Arc::new(NoService), NOTICE_TIMEOUT)),
            started: Instant::now(),
            started_ms: wall_clock_ms(),
            allowed,
            at_start: config.clone(),
            config: RwLock::new(config),
            config_writing: Mutex::default(),
        });
        let listener = Listener::start(addr, Arc::clone(&role)).await?;
        {
            let config = role.config();
            let writers = if role.allowed.is_open() {
                "everyone (writeAllowList is empty)"
            } else {
                &config.write_allow_list
            };
            let kv = config.kv_path();
            tracing::info!(addr = %listener.addr(), kv = %kv.display(), writers, "name server started");
        }
        let stop = CancellationToken::new();
        tokio::spawn(sweep(Arc::clone(&role), stop.clone()));
        Ok(Self {
            listener,
            role,
            sweep: stop.drop_guard(),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Lets running requests finish, then closes all connections; under two seconds.
    pub async fn stop(self) {
        drop(self.sweep);
        self.listener.stop(STOP_GRACE).await;
        self.role.pool.close();
        self.role.kv.leave();
        tracing::info!("name server stopped");
    }
}

/// Takes silent brokers off the routes, again and again.
async fn sweep(role: Arc<Namesrv>, stop: CancellationToken) {
    loop {
        let interval = Duration::from_millis(role.config().scan_not_active_broker_interval.max(10));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => role.expire(),
        }
    }
}

/// What the handlers share.
#[derive(Debug)]
pub struct Namesrv {
    /// Read on every request, changed by UPDATE_NAMESRV_CONFIG. Taken before `routes` where both are.
    config: RwLock<NamesrvConfig>,
    /// What it was at the start: of keys that are read there, this is in force.
    at_start: NamesrvConfig,
    /// Held while a configuration change is written, by blocking tasks alone.
    config_writing: Mutex<()>,
    allowed: AllowList,
    /// Held for one operation on the table; answers are encoded outside.
    routes: RwLock<RouteTable>,
    kv: Kv,
    /// Connections that brokers registered over, by [`Peer::id`]; held for one map operation.
    registrants: Mutex<HashMap<u64, Peer>>,
    /// For notices to brokers.
    pool: Arc<Pool<NoService>>,
    started: Instant,
    /// Wall clock at `started`.
    started_ms: i64,
}

impl Namesrv {
    /// Milliseconds since 1970 that only move forward: a clock set by an hour must not drop every broker.
    fn now_ms(&self) -> i64 {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.started_ms.saturating_add(elapsed)
    }

    // A poisoned lock is used on: a handler that panicked has left a table of valid entries.
    fn config(&self) -> RwLockReadGuard<'_, NamesrvConfig> {
        self.config.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn config_mut(&self) -> RwLockWriteGuard<'_, NamesrvConfig> {
        self.config.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn routes(&self) -> RwLockReadGuard<'_, RouteTable> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn routes_mut(&self) -> RwLockWriteGuard<'_, RouteTable> {
        self.routes.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a writer who is not on the list.
    fn may_write(&self, peer: &Peer) -> Result<(), Refusal> {
        // An announced source proves nothing unless the proxy itself is trusted.
        if [peer.remote(), peer.socket()]
            .iter()
            .all(|a| self.allowed.allows(a.ip()))
        {
            return Ok(());
        }
        tracing::warn!(peer = %peer.remote(), "refused: not on writeAllowList");
        let remark = format!(
            "{} may not change this name server (writeAllowList)",
            peer.remote().ip()
        );
        Err(Refusal::new(codes::NO_PERMISSION, remark))
    }

    fn remember(&self, peer: &Peer) {
        let mut registrants = self.registrants.lock().unwrap_or_else(PoisonError::into_inner);
        registrants.entry(peer.id()).or_insert_with(|| peer.clone());
    }

    fn forget(&self, channel: u64) -> Option<Peer> {
        let mut registrants = self.registrants.lock().unwrap_or_else(PoisonError::into_inner);
        registrants.remove(&channel)
    }

    fn unregister(&self, leaving: &[Leaving]) {
        let notices = self.routes_mut().unregister(leaving);
        notices.into_iter().for_each(|notice| self.tell(Some(notice)));
    }

    /// Drops silent brokers and closes their connections.
    fn expire(&self) {
        if self.routes().expired(self.now_ms()).is_empty() {
            return;
        }
        // Again under the write lock: one may have come back in between.
        let (expired, notices) = {
            let mut routes = self.routes_mut();
            let expired = routes.expired(self.now_ms());
            let leaving: Vec<Leaving> = expired.iter().map(|e| e.leaving.clone()).collect();
            (expired, routes.unregister(&leaving))
        };
        for Expired {
            leaving,
            channel,
            timeout_ms,
        } in expired
        {
            let (broker, addr) = (leaving.name, leaving.broker.addr);
            tracing::warn!(broker, addr, timeout_ms, "broker was silent for too long");
            if let Some(peer) = self.forget(channel) {
                peer.close();
            }
        }
        notices.into_iter().for_each(|notice| self.tell(Some(notice)));
    }

    /// A broker whose connection is gone is gone.
    fn channel_closed(&self, peer: &Peer) {
        if self.forget(peer.id()).is_none() {
            return;
        }
        // Under one lock: a broker that registers again over another connection meanwhile stays.
        let notices = {
            let mut routes = self.routes_mut();
            let gone = routes.on_channel(peer.id());
            let leaving: Vec<Leaving> = gone.into_iter().map(|g| g.leaving).collect();
            routes.unregister(&leaving)
        };
        notices.into_iter().for_each(|notice| self.tell(Some(notice)));
    }

    /// Tells the brokers of a set about its new smallest id, without waiting.
    fn tell(&self, notice: Option<MinIdChange>) {
        let Some(notice) = notice.filter(|_| self.config().notify_min_broker_id_changed) else {
            return;
        };
        let header = NotifyMinBrokerIdChange {
            min_broker_id: Some(notice.min_id),
            min_broker_addr: Some(notice.min_addr),
            offline_broker_addr: notice.offline_addr,
            ha_broker_addr: notice.ha_addr,
            ..NotifyMinBrokerIdChange::default()
        };
        for addr in notice.notify {
            let (pool, header) = (Arc::clone(&self.pool), header.clone());
            tokio::spawn(async move {
                let told = pool.peer(&addr).await.and_then(|peer| peer.oneway(&header, ()));
                if let Err(e) = told {
                    tracing::warn!(addr, error = %e, "cannot tell a broker about the smallest id of its set");
                }
            });
        }
    }
}

impl Service for Namesrv {
    async fn handle(self: Arc<Self>, peer: Peer, request: Frame) -> Reply {
        dispatch::dispatch(self, peer, request).await
    }

    fn closed(self: Arc<Self>, peer: &Peer) {
        self.channel_closed(peer);
    }
}

/// Runs what waits for the disk on a thread that may wait, so that routes are answered meanwhile.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| {
        let remark = format!("the change was aborted: {e}");
        Err(Refusal::new(codes::SYSTEM_ERROR, remark))
    })
}

/// Checks a name or address that will be a key here and be shown by others: cluster and broker names are free in
/// RocketMQ, but not to carry control characters, blanks or path parts.
fn check_name(what: &'static str, name: &str) -> Result<(), Refusal> {
    let bad = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | '\\');
    if name.is_empty() || name.len() > NAME_MAX || name.contains(bad) || matches!(name, "." | "..") {
        let remark = format!("{what} {name:?} is empty, too long or has illegal characters");
        return Err(Refusal::new(codes::INVALID_PARAMETER, remark));
    }
    Ok(())
}

fn wall_clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
