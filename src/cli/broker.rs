//! `rmq broker`: the commands, the list, the description, the configuration. Other looks are in `broker_look`, changes in
//! `broker_change`, `broker_clean`, `cold_flow` and `container`.

use clap::Subcommand;

use super::broker_change::{self, PermArgs};
use super::broker_clean::{self, CleanArgs};
use super::broker_look::{self, LagArgs};
use super::cluster::{failure, look};
use super::cluster_look::finding_rows;
use super::cold_flow;
use super::container;
use super::drain::{self, DrainArgs, UndrainArgs};
use super::exit::Failure;
use super::output::{Cell, Detail, Listing, col, less, wide};
use super::scope::ScopeArgs;
pub use super::server_config::pair;
use super::server_config::{self, Target};
use super::session::Session;
use super::watch::{self, Objects, Rows, WatchArgs};
use crate::client::admin::broker::CleanUp;
use crate::client::admin::config::ConfigOf;
use crate::client::findings::{Subject, Trends, findings};
use crate::client::snapshot::{BrokerState, RegistrationAge};
use crate::client::{BrokerAt, BrokerSelector, Parts, RuntimeInfo, Scope, Which};

/// Commands on brokers.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the brokers with role, version, rates and disk use
    List {
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show one broker: registrations, runtime, replication, configuration in short
    Describe {
        /// NAME, NAME:ID or HOST:PORT
        broker: BrokerSelector,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show a broker's configuration, whole or some keys
    GetConfig {
        /// NAME, NAME:ID or HOST:PORT
        broker: BrokerSelector,
        /// Keys to show
        keys: Vec<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Change configuration keys; unknown keys and values of the wrong type are refused
    SetConfig {
        /// Brokers (NAME, NAME:ID or HOST:PORT; every master when none is named) and changes
        #[arg(required = true, value_name = "BROKER|KEY=VALUE")]
        words: Vec<String>,
        /// Masters of this cluster
        #[arg(short, long, value_name = "NAME")]
        cluster: Option<String>,
        /// Slaves as well
        #[arg(long)]
        replicas: bool,
    },
    /// Take a broker out of service: producers leave it, what it holds is consumed, then it may stop
    Drain(DrainArgs),
    /// Let producers back on a drained broker
    Undrain(UndrainArgs),
    /// Show every runtime figure of a broker
    Stats {
        /// NAME, NAME:ID or HOST:PORT; every broker when none is named
        broker: Vec<BrokerSelector>,
        /// Only this cluster
        #[arg(short, long, value_name = "NAME")]
        cluster: Option<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show how far every group is on a broker
    ConsumeStats(LagArgs),
    /// Show replication: the slaves of a master, or how far a slave is
    Ha {
        /// NAME, NAME:ID or HOST:PORT; every master when none is named
        broker: Vec<BrokerSelector>,
        /// Only this cluster
        #[arg(short, long, value_name = "NAME")]
        cluster: Option<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the epochs of a broker in controller mode
    Epoch {
        /// NAME, NAME:ID or HOST:PORT; every broker when none is named
        broker: Vec<BrokerSelector>,
        /// Only this cluster
        #[arg(short, long, value_name = "NAME")]
        cluster: Option<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Set what the broker itself allows: reads, writes, both
    SetPermission(PermArgs),
    /// Take a broker's write permission away at the name servers; the broker itself goes on taking sends
    WipeWrite {
        /// Broker name
        broker: BrokerSelector,
    },
    /// Give read and write permission back at the name servers, to all topics of a broker
    RestoreWrite {
        /// Broker name
        broker: BrokerSelector,
    },
    /// Delete consume queue files whose messages have left the log
    CleanCq(CleanArgs),
    /// Delete expired segments of the commit log now
    CleanCommitlog(CleanArgs),
    /// Delete consume queues of topics that a broker does not know
    CleanUnusedTopics(CleanArgs),
    /// Let the system read the commit log ahead, or page by page, until the next start
    SetReadahead {
        /// normal: ahead; random: page by page
        mode: broker_change::ReadAhead,
        /// NAME, NAME:ID or HOST:PORT; every broker of the cluster when none is named
        broker: Vec<BrokerSelector>,
        /// Brokers of this cluster
        #[arg(short, long, value_name = "NAME")]
        cluster: Option<String>,
    },
    /// Thresholds of groups that read what lies far behind the end of the log
    #[command(subcommand)]
    ColdFlow(cold_flow::Command),
    /// Tell a slave how far its master has flushed
    ResetFlushOffset {
        /// A slave: NAME:ID or HOST:PORT
        broker: BrokerSelector,
        /// Offset in the commit log; -1 is what a slave has before its master told one
        #[arg(long, value_name = "OFFSET", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
        to: i64,
    },
    /// Brokers inside a broker container
    #[command(subcommand)]
    Container(container::Command),
    /// Move POP records from RocksDB to the store's own files
    PopRollback(CleanArgs),
    /// Let brokers compare their RocksDB queues with their file queues; the result stands in their own logs
    CheckCq(broker_look::CheckCqArgs),
    /// Let brokers write their RocksDB tables as JSON files, on their own machines
    ExportConfig(broker_clean::ExportArgs),
}

/// Runs a broker command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { scope, watch } => watch::print(session, &watch, || list(session, &scope)).await,
        Command::Describe { broker, watch } => {
            watch::print(session, &watch, || describe(session, broker.clone())).await
        }
        Command::Drain(args) => drain::drain(session, args).await,
        Command::Undrain(args) => drain::undrain(session, args).await,
        Command::GetConfig { broker, keys, watch } => {
            watch::print(session, &watch, || get_config(session, broker.clone(), &keys)).await
        }
        Command::SetConfig {
            words,
            cluster,
            replicas,
        } => set_config(session, words, cluster, replicas).await,
        Command::Stats {
            broker,
            cluster,
            watch,
        } => {
            let scope = named(broker, cluster);
            watch::print(session, &watch, || broker_look::stats(session, &scope)).await
        }
        Command::ConsumeStats(args) => {
            watch::print(session, &args.watch, || {
                broker_look::consume_stats(session, &args)
            })
            .await
        }
        Command::Ha {
            broker,
            cluster,
            watch,
        } => {
            let scope = named(broker, cluster);
            watch::print(session, &watch, || broker_look::ha(session, &scope)).await
        }
        Command::Epoch {
            broker,
            cluster,
            watch,
        } => {
            let scope = named(broker, cluster);
            watch::print(session, &watch, || broker_look::epochs(session, &scope)).await
        }
        Command::SetPermission(args) => broker_change::set_permission(session, args).await,
        Command::WipeWrite { broker } => broker_change::set_write(session, broker, false).await,
        Command::RestoreWrite { broker } => broker_change::set_write(session, broker, true).await,
        Command::CleanCq(args) => broker_clean::clean(session, args, CleanUp::ExpiredQueues).await,
        Command::CleanCommitlog(args) => broker_clean::clean(session, args, CleanUp::ExpiredLog).await,
        Command::CleanUnusedTopics(args) => broker_clean::clean(session, args, CleanUp::UnusedTopics).await,
        Command::SetReadahead {
            mode,
            broker,
            cluster,
        } => broker_change::set_readahead(session, mode, named(broker, cluster)).await,
        Command::ColdFlow(command) => cold_flow::run(session, command).await,
        Command::ResetFlushOffset { broker, to } => {
            broker_change::reset_flush_offset(session, broker, to).await
        }
        Command::Container(command) => container::run(session, command).await,
        Command::PopRollback(args) => broker_clean::pop_rollback(session, args).await,
        Command::CheckCq(args) => broker_look::check_queues(session, args).await,
        Command::ExportConfig(args) => broker_clean::export_tables(session, args).await,
    }
}

/// Brokers that were named, or those of a cluster.
pub fn named(broker: Vec<BrokerSelector>, cluster: Option<String>) -> ScopeArgs {
    ScopeArgs { cluster, broker }
}

async fn list(session: &Session, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let snapshot = look(session, Parts::default(), scope).await?;
    let mut listing = Listing::new(
        "BrokerList",
        &[
            col("name"),
            less("id"),
            less("role"),
            col("addr"),
            less("version"),
            col("in_tps_10s"),
            col("out_tps_10s"),
            col("disk"),
            col("state"),
            wide("cluster"),
            wide("put_today"),
            wide("get_today"),
            wide("put_p99_ms"),
            wide("send_queue"),
            wide("pull_queue"),
            wide("send_head_wait_ms"),
            wide("page_cache_lock_ms"),
            wide("dispatch_behind_bytes"),
            wide("flush_behind_bytes"),
            wide("earliest_message"),
            wide("booted"),
            wide("rtt_us"),
        ],
    );
    let mut answered = 0;
    for broker in &snapshot.brokers {
        let unknown = RuntimeInfo::default();
        let info = broker.runtime.fresh().unwrap_or(&unknown);
        answered += usize::from(broker.answers());
        listing.push(vec![
            broker.broker.name.as_str().into(),
            broker.broker.id.into(),
            role(broker).into(),
            broker.addr.as_str().into(),
            info.version.clone().into(),
            info.put_tps.s10.into(),
            info.transferred_tps.s10.into(),
            info.commit_log_disk_ratio.map_or(Cell::Unknown, Cell::Ratio),
            broker.runtime.error.as_deref().unwrap_or("ok").into(),
            broker.broker.cluster.as_str().into(),
            info.put_today.into(),
            info.get_today.into(),
            info.put_p99_ms.into(),
            info.send_pool.size.into(),
            info.pull_pool.size.into(),
            info.send_pool.head_wait_ms.map_or(Cell::Unknown, Cell::Span),
            info.page_cache_lock_ms.map_or(Cell::Unknown, Cell::Span),
            info.dispatch_behind_bytes.into(),
            info.flush_behind_bytes.into(),
            Cell::time(info.earliest_message_ms),
            Cell::time(info.boot_ms),
            broker
                .rtt
                .fresh()
                .map(|rtt| i64::try_from(rtt.as_micros()).unwrap_or(i64::MAX))
                .into(),
        ]);
        listing.errors.extend(failure(broker));
    }
    Ok(Rows {
        some_answered: answered > 0,
        listing,
    })
}

fn role(broker: &BrokerState) -> &'static str {
    if broker.broker.is_master() {
        "master"
    } else {
        "slave"
    }
}

async fn describe(session: &Session, selector: BrokerSelector) -> Result<Objects, Failure> {
    let scope = ScopeArgs {
        cluster: None,
        broker: vec![selector],
    };
    let parts = Parts {
        configs: true,
        ha: true,
        ..Parts::default()
    };
    let snapshot = look(session, parts, &scope).await?;
    let found = findings(&snapshot, &Trends::default());
    let (mut answered, mut failures, mut details) = (false, Vec::new(), Vec::new());
    for broker in &snapshot.brokers {
        answered |= broker.answers();
        let own_failure = failure(broker).map(|f| {
            if broker.refusal().is_some() {
                return f;
            }
            // Its own hint is this command.
            with_registrations(f, broker).hint(format!(
                "the broker's process and log at {}; a container's address is mapped with --broker-map FROM=TO",
                broker.addr
            ))
        });
        let mut detail = detail(broker);
        let own = found
            .iter()
            .filter(|f| f.subject == Subject::Broker(broker.broker.clone()));
        detail.tables.push(("findings", finding_rows(own)));
        detail.errors = own_failure.clone().into_iter().collect();
        details.push(detail);
        failures.extend(own_failure);
    }
    Ok(Objects {
        details,
        failures,
        some_answered: answered,
    })
}

fn with_registrations(failure: Failure, broker: &BrokerState) -> Failure {
    let lines: Vec<String> = broker
        .registrations
        .iter()
        .map(|r| match (r.listed, r.age) {
            (None, _) => format!("Name server {} did not tell.", r.name_server),
            (Some(false), _) => format!("Name server {} does not list it.", r.name_server),
            (Some(true), RegistrationAge::Exact(age)) => format!(
                "Its last heartbeat reached name server {} {} ago.",
                r.name_server,
                super::time::duration(age)
            ),
            (Some(true), _) => format!("Name server {} still lists it.", r.name_server),
        })
        .collect();
    failure.because(lines.join("\n       "))
}

fn detail(broker: &BrokerState) -> Detail {
    let unknown = RuntimeInfo::default();
    let info = broker.runtime.fresh().unwrap_or(&unknown);
    let config = broker.config.fresh();
    let mut registrations = Listing::new(
        "RegistrationList",
        &[col("namesrv"), col("listed"), col("age_ms"), col("limit_ms")],
    );
    registrations.ordered = true;
    for r in &broker.registrations {
        registrations.push(vec![
            r.name_server.as_str().into(),
            r.listed.into(),
            match r.age {
                RegistrationAge::Exact(age) => Cell::span(Some(age)),
                _ => Cell::Unknown,
            },
            Cell::span(r.limit),
        ]);
    }
    let mut slaves = Listing::new(
        "SlaveList",
        &[
            col("addr"),
            col("in_sync"),
            col("behind_bytes"),
            col("acked_offset"),
        ],
    );
    for slave in broker
        .ha
        .fresh()
        .map(|ha| ha.slaves.as_slice())
        .unwrap_or_default()
    {
        slaves.push(vec![
            slave.addr.as_str().into(),
            slave.in_sync.into(),
            slave.behind_bytes.into(),
            slave.acked_offset.into(),
        ]);
    }
    let mut latency = Listing::new("LatencyList", &[col("put_latency"), col("count")]);
    latency.ordered = true;
    for bucket in info.put_latency.iter().filter(|b| b.count > 0) {
        latency.push(vec![bucket.range.as_str().into(), bucket.count.into()]);
    }
    let mut delays = Listing::new(
        "DelayLevelList",
        &[col("level"), col("delivered"), col("max"), col("pending")],
    );
    delays.ordered = true;
    for level in &info.delay_levels {
        delays.push(vec![
            level.level.into(),
            level.delivered.into(),
            level.max.into(),
            level.max.saturating_sub(level.delivered).into(),
        ]);
    }
    Detail {
        kind: "Broker",
        fields: vec![
            ("name", broker.broker.name.as_str().into()),
            ("id", broker.broker.id.into()),
            ("role", role(broker).into()),
            ("cluster", broker.broker.cluster.as_str().into()),
            ("addr", broker.addr.as_str().into()),
            ("dialled", broker.dialled.clone().into()),
            ("state", broker.runtime.error.as_deref().unwrap_or("ok").into()),
            ("version", info.version.clone().into()),
            ("booted", Cell::time(info.boot_ms)),
            ("in_tps_10s", info.put_tps.s10.into()),
            ("in_tps_1m", info.put_tps.m1.into()),
            ("in_tps_10m", info.put_tps.m10.into()),
            ("out_tps_10s", info.transferred_tps.s10.into()),
            ("miss_tps_10s", info.miss_tps.s10.into()),
            ("put_today", info.put_today.into()),
            ("put_yesterday", info.put_yesterday.into()),
            ("get_today", info.get_today.into()),
            ("get_yesterday", info.get_yesterday.into()),
            ("put_total", info.put_total.into()),
            ("put_average_bytes", info.put_average_bytes.into()),
            ("put_p99_ms", info.put_p99_ms.into()),
            ("put_p999_ms", info.put_p999_ms.into()),
            ("put_max_ms", info.put_max_ms.map_or(Cell::Unknown, Cell::Span)),
            (
                "disk",
                info.commit_log_disk_ratio.map_or(Cell::Unknown, Cell::Ratio),
            ),
            ("commit_log_min", info.commit_log_min.into()),
            ("commit_log_max", info.commit_log_max.into()),
            ("earliest_message", Cell::time(info.earliest_message_ms)),
            ("dispatch_behind_bytes", info.dispatch_behind_bytes.into()),
            ("flush_behind_bytes", info.flush_behind_bytes.into()),
            (
                "page_cache_lock_ms",
                info.page_cache_lock_ms.map_or(Cell::Unknown, Cell::Span),
            ),
            ("send_queue", info.send_pool.size.into()),
            ("pull_queue", info.pull_pool.size.into()),
            ("flush", config.and_then(|c| c.flush.clone()).into()),
            ("broker_role", config.and_then(|c| c.role.clone()).into()),
            ("perm", config.and_then(|c| c.perm).map(|p| p.to_string()).into()),
            ("in_sync_slaves", broker.ha.fresh().map(|ha| ha.in_sync).into()),
        ],
        tables: vec![
            ("registrations", registrations),
            ("slaves", slaves),
            ("put_latency", latency),
            ("delay_levels", delays),
        ],
        errors: Vec::new(),
    }
}

/// The brokers that a selector means.
pub async fn targets(
    session: &Session,
    selector: BrokerSelector,
    which: Which,
) -> Result<Vec<BrokerAt>, Failure> {
    let scope = Scope {
        cluster: None,
        brokers: vec![selector],
    };
    let brokers = session.client.brokers(&scope, which).await;
    session.warn_of_dead_name_servers();
    Ok(brokers?)
}

async fn get_config(session: &Session, selector: BrokerSelector, keys: &[String]) -> Result<Rows, Failure> {
    let brokers = targets(session, selector, Which::All).await?;
    let servers = brokers.iter().map(BrokerAt::server).collect();
    let kind = (ConfigOf::Broker, "BrokerConfig", "broker");
    server_config::get(session, kind, servers, keys).await
}

async fn set_config(
    session: &Session,
    words: Vec<String>,
    cluster: Option<String>,
    replicas: bool,
) -> Result<(), Failure> {
    let (mut brokers, mut changes) = (Vec::new(), Vec::new());
    for word in words {
        if word.contains('=') {
            changes.push(pair(&word).map_err(Failure::usage)?);
        } else if changes.is_empty() {
            brokers.push(word.parse::<BrokerSelector>().map_err(Failure::usage)?);
        } else {
            return Err(Failure::usage(format!("\"{word}\" is not KEY=VALUE")));
        }
    }
    if changes.is_empty() {
        return Err(Failure::usage("no KEY=VALUE is given; name what to change"));
    }
    let name = match brokers.as_slice() {
        [] => "every master".to_owned(),
        some => some.iter().map(|b| b.0.as_str()).collect::<Vec<_>>().join(", "),
    };
    let which = if replicas {
        Which::AllToWrite
    } else {
        Which::MastersToWrite
    };
    let scope = named(brokers, cluster);
    let brokers = scope.brokers(session, which).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let cluster = cluster_of(&brokers);
    let object = scope
        .broker
        .first()
        .map_or_else(|| cluster.clone(), |b| b.0.clone());
    let targets = brokers.iter().map(|broker| Target {
        server: broker.server(),
        undo: format!("rmq broker set-config {}", broker.addr),
    });
    server_config::set(
        session,
        ConfigOf::Broker,
        (format!("set configuration of {name}"), object, cluster),
        targets.collect(),
        &changes,
    )
    .await
}

/// The clusters of some brokers, as the line above a plan names them.
pub fn cluster_of(brokers: &[BrokerAt]) -> String {
    let mut names: Vec<&str> = brokers.iter().map(|b| b.id.cluster.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(",")
}
