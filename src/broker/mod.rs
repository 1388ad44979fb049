//! The broker role: takes messages, hands them out, knows its topics, groups, clients and offsets, and tells the
//! name servers. Plain handlers over the message store; nothing here blocks on the disk but the store's own threads
//! and the table writer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config_file::{self, ConfigFile};
use crate::protocol::Request;
use crate::protocol::frame::Frame;
use crate::protocol::message_id::UniqueKeys;
use crate::protocol::model::{DataVersion, check_topic};
use crate::protocol::properties::{self, names};
use crate::protocol::requests::{
    LitePullMessage, Notification, NotifyConsumerIdsChanged, PeekMessage, PollingInfo, PopMessage,
    PullMessage,
};
use crate::remoting::{Bound, Limits, Listener, Peer, Reply, Service, routes};
use crate::store::{self, MessageStore, StoreConfig};

mod admin;
mod aside;
mod attributes;
mod cleanup;
mod client_requests;
mod clients;
mod cold_flow;
mod config;
mod consume_stats;
mod delay;
pub mod dispatch;
mod filter;
mod forward;
mod groups;
mod locks;
mod offset_requests;
mod offsets;
mod pop;
mod pull;
mod put;
mod query;
mod recall;
mod register;
mod reply;
mod runtime_info;
mod send;
mod send_back;
mod stats;
mod tables;
mod timer;
mod topic_requests;
mod topics;
mod transactions;
mod waiting;

pub use config::{BrokerConfig, Settings};

/// What Java appends to remarks about missing topics and groups.
const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

/// How long running requests may take to finish at stop, and the name servers to hear of it.
const STOP_GRACE: Duration = Duration::from_millis(800);

/// Why a broker does not start, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be opened or closed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// One of the tables beside the store cannot be used.
    #[error(transparent)]
    Table(#[from] tables::Error),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] config_file::Error),
    /// A port cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
}

fn bad_value(key: &str, value: &str, allowed: impl Into<String>) -> Error {
    Error::Config(config_file::Error::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        allowed: allowed.into(),
    })
}

/// Epoch milliseconds.
fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// The local date, by which the figures of a day are kept.
fn today() -> jiff::civil::Date {
    jiff::tz::TimeZone::system()
        .to_datetime(jiff::Timestamp::now())
        .date()
}

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    /// What a config query shows, and the version of it. Taken by config requests alone.
    settings: Mutex<(Settings, DataVersion)>,
    /// What they were at the start: of keys that are read there, this is in force.
    at_start: Settings,
    /// Held while a config update is written to its file, by blocking tasks alone.
    config_file: Mutex<()>,
    /// What the broker runs with.
    config: ArcSwap<BrokerConfig>,
    /// Properties appended to every stored message.
    suffix: ArcSwap<String>,
    store: Arc<MessageStore>,
    topics: topics::Topics,
    groups: groups::Groups,
    offsets: offsets::Offsets,
    filters: filter::SavedFilters,
    delays: delay::Delays,
    /// `None` without `timerWheelEnable`.
    timer: Option<timer::Timer>,
    clients: clients::Clients,
    locks: locks::QueueLocks,
    pop: pop::Pop,
    stats: stats::Stats,
    transactions: transactions::Transactions,
    aside: aside::Aside,
    cold_flow: cold_flow::ColdFlow,
    registrar: register::Registrar,
    unique_keys: UniqueKeys,
    utc_offset_s: i32,
    /// `brokerIP1:port`, as clients reach it.
    addr: String,
    store_host: SocketAddr,
    listen: SocketAddr,
    boot_ms: i64,
    /// Messages that forced clean-up took from groups that had not read them.
    lost_unread: AtomicU64,
    stopping: CancellationToken,
    tasks: TaskTracker,
    listeners: Mutex<Vec<Listener>>,
}

/// One of the broker's two ports.
struct Port {
    broker: Arc<Broker>,
    /// Pulls, pops and what waits like them are served on the main port alone.
    main: bool,
}

impl Service for Port {
    async fn handle(self: Arc<Self>, peer: Peer, request: Frame) -> Reply {
        let waits = matches!(
            request.code,
            PullMessage::CODE
                | LitePullMessage::CODE
                | PopMessage::CODE
                | PeekMessage::CODE
                | Notification::CODE
                | PollingInfo::CODE
        );
        if !self.main && waits {
            return routes::unsupported(&peer, request.code);
        }
        dispatch::dispatch(self.broker.clone(), peer, request).await
    }

    fn opened(&self, _: &Peer) {
        self.broker
            .stats
            .count(stats::Named::ChannelActivity, "CONNECT", 1);
    }

    fn closed(self: Arc<Self>, peer: &Peer) {
        self.broker.stats.count(stats::Named::ChannelActivity, "CLOSE", 1);
        if self.broker.stopping.is_cancelled() {
            // Everybody goes, so nobody needs to hear of it; at every close it would be work for all groups.
            return;
        }
        let changed = self.broker.clients.disconnected(peer.id());
        self.broker.notify(changed);
    }
}

impl Broker {
    /// Opens the store, listens, and begins to register at the name servers.
    pub async fn start(broker: BrokerConfig, store: StoreConfig) -> Result<Arc<Self>, Error> {
        Self::start_with(Settings {
            broker,
            store,
            ..Settings::default()
        })
        .await
    }

    /// As [`Self::start`], with settings read from a file.
    pub async fn start_with(mut settings: Settings) -> Result<Arc<Self>, Error> {
        if settings.file.is_none() {
            settings = with_kept_changes(settings)?;
        }
        let mut config = config::resolved(settings.broker.clone());
        for (key, name) in [
            ("brokerName", &config.broker_name),
            ("brokerClusterName", &config.broker_cluster_name),
        ] {
            check_topic(name).map_err(|e| bad_value(key, name, e.to_string()))?;
        }
        let bind: IpAddr = config
            .bind_address
            .parse()
            .map_err(|_| bad_value("bindAddress", &config.bind_address, "an IP address"))?;
        let (port, held) = free_ports(bind, config.listen_port)?;
        config.listen_port = port;
        let listen = SocketAddr::new(bind, config.listen_port);
        let store_host = resolve(&config.broker_ip1, config.listen_port).await?;
        settings.broker = config.clone();

        let store_config = settings.store.clone();
        let opened = tokio::task::spawn_blocking(move || MessageStore::open(store_config));
        let store = opened.await.map_err(|e| Error::Listen {
            addr: listen,
            source: io::Error::other(format!("the store's start was aborted: {e}")),
        })??;
        match Self::with_store(settings, config, store.clone(), listen, held, store_host).await {
            Ok(broker) => Ok(broker),
            Err(e) => {
                let closed = tokio::task::spawn_blocking(move || store.close()).await;
                if let Ok(Err(e)) = closed {
                    tracing::error!(error = %e, "store did not close cleanly");
                }
                Err(e)
            }
        }
    }

    async fn with_store(
        settings: Settings,
        config: BrokerConfig,
        store: Arc<MessageStore>,
        listen: SocketAddr,
        held: Option<[Bound; 2]>,
        store_host: SocketAddr,
    ) -> Result<Arc<Self>, Error> {
        let timed = store.clone();
        let timer = tokio::task::spawn_blocking(move || timer::Timer::load(&timed));
        let timer = timer.await.map_err(|e| Error::Listen {
            addr: listen,
            source: io::Error::other(format!("the timer's start was aborted: {e}")),
        })??;
        let boot_ms = now_ms();
        let version = DataVersion {
            timestamp: boot_ms,
            ..DataVersion::default()
        };
        let broker = Arc::new(Self {
            topics: topics::Topics::load(store.table_path("topics.json"), &config)?,
            groups: groups::Groups::load(store.table_path("subscriptionGroup.json"))?,
            offsets: offsets::Offsets::load(store.table_path("consumerOffset.json"))?,
            filters: filter::SavedFilters::load(store.table_path("consumerFilter.json"), boot_ms)?,
            delays: delay::Delays::load(store.table_path("delayOffset.json"), &store)?,
            timer,
            clients: clients::Clients::default(),
            locks: locks::QueueLocks::default(),
            pop: pop::Pop::load(&store)?,
            stats: stats::Stats::default(),
            transactions: transactions::Transactions::new(&store),
            aside: aside::Aside::default(),
            cold_flow: cold_flow::ColdFlow::default(),
            registrar: register::Registrar::new(),
            unique_keys: UniqueKeys::new(store_host.ip(), std::process::id(), boot_ms as i32),
            utc_offset_s: jiff::tz::TimeZone::system()
                .to_offset(jiff::Timestamp::now())
                .seconds(),
            addr: format!("{}:{}", config.broker_ip1, config.listen_port),
            store_host,
            listen,
            boot_ms,
            suffix: ArcSwap::from_pointee(suffix(&config)),
            config: ArcSwap::from_pointee(config),
            at_start: settings.clone(),
            settings: Mutex::new((settings, version)),
            config_file: Mutex::default(),
            store,
            lost_unread: AtomicU64::new(0),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            listeners: Mutex::default(),
        });
        let recovering = broker.clone();
        let recovered = tokio::task::spawn_blocking(move || recovering.recover_pop_offsets()).await;
        if let Err(e) = recovered {
            tracing::error!(error = %e, "looking for pop offsets was aborted");
        }
        if broker.store.was_recovered() {
            // Before the first consumer asks.
            broker
                .offsets
                .cut(|topic, queue_id| broker.store.next_offset(topic, queue_id));
        }
        let [fast, main] = match held {
            Some(held) => held,
            None => [
                bound(SocketAddr::new(listen.ip(), listen.port() - 2))?,
                bound(listen)?,
            ],
        };
        for (bound, main) in [(fast, false), (main, true)] {
            let port = Arc::new(Port {
                broker: broker.clone(),
                main,
            });
            broker.listeners().push(bound.serve(port, Limits::default()));
        }
        broker.watch_losses();
        broker.spawn_background();
        tracing::info!("{}", broker.start_line());
        for (key, value) in &broker
            .settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .unknown
        {
            tracing::warn!(key, value, "config key has no effect in this version; it is kept");
        }
        Ok(broker)
    }

    /// Where the main port listens.
    pub fn addr(&self) -> SocketAddr {
        self.listen
    }

    /// One line that says what runs and what is open to whom.
    pub fn start_line(&self) -> String {
        let config = self.config();
        let store = self.store.config();
        let name_servers = match config.namesrv_addr.as_str() {
            "" => "none",
            list => list,
        };
        let reach = if self.listen.ip().is_loopback() {
            "this machine only"
        } else {
            "everyone who can reach these ports"
        };
        format!(
            "broker {} of cluster {} on {} and {} (fast port), announced as {}; store {} ({:?}); name servers {}; \
             messages and admin requests are open to {reach}, without credentials",
            config.broker_name,
            config.broker_cluster_name,
            self.listen,
            self.listen.port() - 2,
            self.addr,
            store.store_path_root_dir.display(),
            store.flush_disk_type,
            name_servers,
        )
    }

    /// Leaves the name servers, stops serving, writes the tables and closes the store. Idempotent.
    pub async fn stop(self: &Arc<Self>) -> Result<(), Error> {
        self.stopping.cancel();
        let listeners: Vec<Listener> = std::mem::take(&mut *self.listeners());
        let serving = async {
            futures_util::future::join_all(listeners.into_iter().map(|l| l.stop(STOP_GRACE))).await;
        };
        tokio::join!(self.unregister(STOP_GRACE), serving);
        self.tasks.close();
        if tokio::time::timeout(STOP_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("background tasks did not end in time");
        }
        self.registrar.close();
        let broker = self.clone();
        tokio::task::spawn_blocking(move || {
            broker.store_last_marks();
            // Each table is written even when another cannot be.
            let saved = (broker.topics.save_always())
                .and(broker.groups.save_always())
                .and(broker.offsets.save_always())
                .and(broker.save_filters())
                .and(broker.delays.save())
                .and(broker.save_pop_always());
            if let Some(Err(e)) = broker.timer.as_ref().map(timer::Timer::close) {
                tracing::error!(error = %e, "the timer did not close cleanly; the next start repeats some messages");
            }
            // The store is closed even when a table could not be written.
            broker.store.close()?;
            saved.map_err(Error::from)
        })
        .await
        .unwrap_or_else(|e| {
            tracing::error!(error = %e, "stopping was aborted");
            Ok(())
        })
    }

    fn config(&self) -> arc_swap::Guard<Arc<BrokerConfig>> {
        self.config.load()
    }

    /// Writes consumerFilter.json if it is behind. Blocks on the disk.
    fn save_filters(&self) -> Result<(), tables::Error> {
        self.filters
            .save(now_ms(), self.config().filter_data_clean_time_span)
    }

    fn listeners(&self) -> std::sync::MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the members of changed groups, where that is wanted.
    fn notify(&self, changed: clients::Changed) {
        let config = self.config();
        for (group, _) in &changed {
            if !self.clients.has_group(group) {
                self.filters.left(group, now_ms());
            }
        }
        if !config.notify_consumer_ids_changed_enable {
            return;
        }
        for (group, peers) in changed {
            let wanted = self
                .groups
                .find_existing(&group)
                .is_none_or(|g| g.notify_consumer_ids_changed_enable);
            if !wanted || peers.is_empty() {
                continue;
            }
            let header = NotifyConsumerIdsChanged {
                consumer_group: group,
            };
            for peer in peers {
                if let Err(e) = peer.oneway(&header, ()) {
                    tracing::debug!(group = %header.consumer_group, error = %e, "client not told of a change");
                }
            }
        }
    }

    /// Counts, by topic and group, what forced clean-up takes from those who have not read it.
    fn watch_losses(self: &Arc<Self>) {
        let broker = Arc::downgrade(self);
        self.store.on_loss(move |lost| {
            let Some(broker) = broker.upgrade() else { return };
            for ((topic, group), count) in broker.offsets.unread_of(lost) {
                tracing::error!(
                    topic,
                    group,
                    count,
                    "messages deleted before the group read them, since the disk is full"
                );
                broker.lost_unread.fetch_add(count.unsigned_abs(), Relaxed);
            }
        });
    }

    fn spawn_background(self: &Arc<Self>) {
        let broker = self.clone();
        self.every(Duration::from_secs(1), move || {
            broker.stats.tick(now_ms(), today());
            if let Some(timer) = &broker.timer {
                timer.tick();
            }
        });
        let broker = self.clone();
        let silence = Duration::from_millis(self.config().channel_expired_timeout);
        self.every(silence.min(Duration::from_secs(10)), move || {
            let now = Instant::now();
            broker.locks.expire(now);
            let config = broker.config();
            let after = Duration::from_millis(config.channel_expired_timeout);
            let pulled_after = Duration::from_millis(config.subscription_expired_timeout);
            let changed = broker.clients.expire(now, after, pulled_after);
            broker.notify(changed);
        });
        let broker = self.clone();
        self.tasks.spawn(async move { broker.write_tables().await });
        let broker = self.clone();
        self.tasks.spawn(async move { broker.keep_registered().await });
        let broker = self.clone();
        self.tasks.spawn(async move { broker.deliver_delayed().await });
        self.tasks.spawn(self.clone().run_transactions());
        if self.timer.is_some() {
            let broker = self.clone();
            self.tasks.spawn(async move { broker.run_timer().await });
            let broker = self.clone();
            self.tasks.spawn(async move { broker.flush_timer().await });
        }
        self.start_revive();
    }

    /// Runs `work` in a task until the broker stops.
    fn every(self: &Arc<Self>, period: Duration, work: impl Fn() + Send + 'static) {
        let stopping = self.stopping.clone();
        self.tasks.spawn(async move {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while stopping.run_until_cancelled(ticks.tick()).await.is_some() {
                work();
            }
        });
    }

    /// Saves what changed: topics and groups within a second, offsets and delay progress at their own pace.
    async fn write_tables(self: Arc<Self>) {
        let (mut offsets_at, mut delays_at) = (Instant::now(), Instant::now());
        loop {
            let pause = tokio::time::sleep(Duration::from_secs(1));
            if self.stopping.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let interval = Duration::from_millis(self.config().flush_consumer_offset_interval);
            let offsets_due = offsets_at.elapsed() >= interval;
            if offsets_due {
                offsets_at = Instant::now();
            }
            let offsets_behind = offsets_due && self.offsets.is_behind();
            let filters_behind = offsets_due && self.filters.is_behind();
            let delays_interval = Duration::from_millis(self.store.config().flush_delay_offset_interval);
            let delays_behind = delays_at.elapsed() >= delays_interval && self.delays.is_behind();
            if delays_behind {
                delays_at = Instant::now();
            }
            let tables_behind = self.topics.is_behind() || self.groups.is_behind() || self.pop.is_behind();
            if !(tables_behind || offsets_behind || filters_behind || delays_behind) {
                continue;
            }
            let broker = self.clone();
            // A table that cannot be written keeps none of the others back.
            let written = tokio::task::spawn_blocking(move || {
                [
                    broker.topics.save(),
                    broker.groups.save(),
                    if offsets_behind {
                        broker.offsets.save()
                    } else {
                        Ok(())
                    },
                    if filters_behind {
                        broker.save_filters()
                    } else {
                        Ok(())
                    },
                    if delays_behind {
                        broker.delays.save()
                    } else {
                        Ok(())
                    },
                    broker.save_pop(),
                ]
            });
            match written.await {
                Ok(results) => {
                    for e in results.into_iter().filter_map(Result::err) {
                        tracing::error!(error = %e, "a table was not written; it will be tried again");
                    }
                }
                Err(e) => tracing::error!(error = %e, "writing the tables was aborted"),
            }
        }
    }
}

/// Properties that every stored message ends with.
fn suffix(config: &BrokerConfig) -> String {
    let mut text = String::new();
    properties::append(&mut text, names::MSG_REGION, &config.region_id);
    properties::append(
        &mut text,
        names::TRACE_ON,
        if config.trace_on { "true" } else { "false" },
    );
    properties::append(&mut text, names::CLUSTER, &config.broker_cluster_name);
    text
}

/// The settings with what earlier config updates left beside the store.
fn with_kept_changes(settings: Settings) -> Result<Settings, Error> {
    let path = kept_changes(&settings);
    if !path.exists() {
        return Ok(settings);
    }
    tracing::info!(file = %path.display(), "using the settings that earlier config updates left");
    Ok(settings.with_kept(&ConfigFile::load(Some(&path), &[])?)?)
}

/// Where config updates are kept when no file was given.
fn kept_changes(settings: &Settings) -> std::path::PathBuf {
    let root: &Path = &settings.store.store_path_root_dir;
    root.join("config").join("broker.properties")
}

/// The main port to use: the wanted one if it and the fast port are free, or any such pair for 0. That pair is listened on
/// from here on, fast port first, or another process would get it; a port that clients know refuses them until it serves.
fn free_ports(bind: IpAddr, wanted: u16) -> Result<(u16, Option<[Bound; 2]>), Error> {
    if wanted != 0 {
        if wanted < 3 {
            return Err(bad_value("listenPort", &wanted.to_string(), "0 or 3 to 65534"));
        }
        bound(SocketAddr::new(bind, wanted))?;
        bound(SocketAddr::new(bind, wanted - 2))?;
        return Ok((wanted, None));
    }
    let mut last = None;
    for _ in 0..64 {
        let main = bound(SocketAddr::new(bind, 0))?;
        let port = main.addr().port();
        if port > 3 {
            match bound(SocketAddr::new(bind, port - 2)) {
                Ok(fast) => return Ok((port, Some([fast, main]))),
                Err(e) => last = Some(e),
            }
        }
    }
    Err(last.unwrap_or_else(|| bad_value("listenPort", "0", "a port with a free one two below it")))
}

fn bound(addr: SocketAddr) -> Result<Bound, Error> {
    Bound::to(addr).map_err(|source| Error::Listen { addr, source })
}

/// The address that message ids carry.
async fn resolve(host: &str, port: u16) -> Result<SocketAddr, Error> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let found = tokio::net::lookup_host((host, port)).await;
    found
        .ok()
        .and_then(|mut all| all.next())
        .ok_or_else(|| bad_value("brokerIP1", host, "an IP address or a name that resolves to one"))
}
