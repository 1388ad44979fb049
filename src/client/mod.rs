//! The admin library under the CLI and the TUI: no printing, no terminal.
//!
//! A [`Client`] holds the name-server list, the connection pool and the address map. Operations return values; a
//! fan-out asks all its targets at once, gives each its own time and gives one result a target.

pub mod address_map;
pub mod admin;
mod call;
pub mod consume;
pub mod content;
pub mod declare;
pub mod dlq;
pub mod doctor;
pub mod drain;
pub mod entries;
pub mod error;
pub mod find;
pub mod findings;
pub mod follow;
pub mod lag;
pub mod letters;
pub mod liveness;
pub mod look;
pub mod merge;
pub mod message;
pub mod ordered;
pub mod pace;
pub mod positions;
pub mod produce;
pub mod record;
pub mod resent;
pub mod runtime_info;
pub mod saved_offsets;
pub mod scale;
pub mod scan;
pub mod sign;
pub mod skew;
pub mod snapshot;
pub mod static_topic;
pub mod stranded;
pub mod stretch;
pub mod stuck;
mod sweep;
pub mod time;
pub mod trace;
pub mod way;
pub mod words;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use address_map::{AddressMap, AddressRule};
pub use admin::cluster::{BrokerAt, BrokerSelector, Scope, Which};
pub use call::{Deadline, Observed, Observer, Unreadable, UnreadableListener};
pub use error::{Error, Server, similar};
pub use message::Message;
pub use pace::{Pace, Rank};
pub use runtime_info::RuntimeInfo;
pub use snapshot::{Seen, Snapshot};
pub use sweep::Parts;

use crate::protocol::body::TopicRouteData;
pub use crate::remoting::CallError;
use crate::remoting::Pool;
pub use crate::remoting::{Dial, Tls, TlsFiles};

/// How a [`Client`] behaves.
pub struct Options {
    /// Name servers, `host:port`.
    pub name_servers: Vec<String>,
    /// Limit of one request, its dial included.
    pub timeout: Duration,
    /// Limit of one dial.
    pub connect_timeout: Duration,
    /// Requests of a fan-out in flight at once.
    pub parallel: usize,
    /// Where to dial announced broker addresses.
    pub address_map: AddressMap,
    /// How servers are reached: TLS, a proxy.
    pub dial: Dial,
    /// Send nothing outside the read list.
    pub read_only: bool,
    /// How often a request is repeated that was not taken: no connection, or the server too busy. `None` is once for
    /// reads and never for the others.
    pub retries: Option<u32>,
    /// Who signs the requests.
    pub credentials: Option<sign::Credentials>,
    /// How often each server may be asked. Clients that share it share the budget.
    pub pace: Option<Arc<Pace>>,
    /// Told of every request.
    pub observer: Option<Observer>,
    /// Told of every reply that could not be read.
    pub unreadable: Option<UnreadableListener>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name_servers: Vec::new(),
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            parallel: 16,
            address_map: AddressMap::default(),
            dial: Dial::default(),
            read_only: false,
            retries: None,
            credentials: None,
            pace: None,
            observer: None,
            unreadable: None,
        }
    }
}

/// An admin client of one set of name servers. Share it in an [`Arc`].
pub struct Client {
    options: Options,
    pool: Pool<consume::Asked>,
    /// What a broker may ask of this process: nothing but its consumers' state.
    asked: Arc<consume::Asked>,
    /// Name server that the next request starts with; wraps around.
    next_name_server: AtomicUsize,
    /// Name servers that failed since they were last told: address and reason. Bounded by the list.
    dead: Mutex<HashMap<String, String>>,
    /// Routes by topic with the time they were fetched; used for sending and consuming only. Cleared at
    /// [`ROUTES_KEPT`].
    routes: Mutex<HashMap<String, (tokio::time::Instant, Arc<TopicRouteData>)>>,
}

/// Most routes kept.
const ROUTES_KEPT: usize = 1024;
/// How long a kept route is used.
const ROUTE_AGE: Duration = Duration::from_secs(30);

impl Client {
    /// A client; nothing is dialled yet.
    pub fn new(options: Options) -> Self {
        let connect = options.connect_timeout.min(options.timeout);
        // Where to start is random, so that many clients spread over the name servers.
        let start = RandomState::new().hash_one(std::process::id()) as usize;
        let asked = Arc::new(consume::Asked::default());
        Self {
            pool: Pool::new(Arc::clone(&asked), connect).dialling(options.dial.clone()),
            asked,
            next_name_server: AtomicUsize::new(start),
            dead: Mutex::default(),
            routes: Mutex::default(),
            options,
        }
    }

    /// The configured name servers.
    pub fn name_servers(&self) -> &[String] {
        &self.options.name_servers
    }

    /// Limit of one request.
    pub fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// True when nothing that changes state is sent.
    pub fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    /// Calls of a low rank that may leave for a server now; no end of them without a budget.
    pub fn room(&self, announced: &str) -> usize {
        let pace = self.options.pace.as_ref();
        pace.map_or(usize::MAX, |pace| {
            pace.room(&self.options.address_map.dial(announced))
        })
    }

    /// The address that is dialled for an announced one, when the map changes it.
    pub fn mapped(&self, announced: &str) -> Option<String> {
        let dialled = self.options.address_map.dial(announced);
        (dialled != announced).then_some(dialled)
    }

    /// What stands between this host and an announced address: a map or a proxy.
    pub fn detour(&self, announced: &str) -> Option<String> {
        let proxy = self.options.dial.proxy.as_ref();
        let proxied = proxy.map(|proxy| format!("through {proxy} (--via-proxy)"));
        proxied.or_else(|| {
            self.mapped(announced)
                .map(|addr| format!("at {addr} (--broker-map)"))
        })
    }

    /// Name servers that failed since the last call, with the reason.
    pub fn take_dead_name_servers(&self) -> Vec<(String, String)> {
        let mut dead: Vec<_> = self
            .dead
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain()
            .collect();
        dead.sort();
        dead
    }

    /// Closes every connection.
    pub fn close(&self) {
        self.pool.close();
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("name_servers", &self.options.name_servers)
            .finish_non_exhaustive()
    }
}
