//! `rmq broker`: list, describe, configuration.

use std::collections::BTreeMap;

use clap::Subcommand;

use super::change::{self, Class, Outcome, Plan, Step};
use super::cluster::{failure, look};
use super::drain::{self, DrainArgs, UndrainArgs};
use super::exit::{self, Failure};
use super::output::{Cell, Detail, Listing, col, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use crate::client::snapshot::{BrokerState, RegistrationAge};
use crate::client::{BrokerAt, BrokerSelector, Parts, RuntimeInfo, Scope, Which, similar};

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
    },
    /// Show a broker's configuration, whole or some keys
    GetConfig {
        /// NAME, NAME:ID or HOST:PORT
        broker: BrokerSelector,
        /// Keys to show
        keys: Vec<String>,
    },
    /// Change a broker's configuration; unknown keys and values of the wrong type are refused
    SetConfig {
        /// NAME, NAME:ID or HOST:PORT
        broker: BrokerSelector,
        /// Changes
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        changes: Vec<(String, String)>,
    },
    /// Take a broker out of service: producers leave it, what it holds is consumed, then it may stop
    Drain(DrainArgs),
    /// Let producers back on a drained broker
    Undrain(UndrainArgs),
}

/// `k=v`
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("\"{text}\" is not KEY=VALUE")),
    }
}

/// Runs a broker command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { scope, watch } => watch::print(session, &watch, || list(session, &scope)).await,
        Command::Describe { broker } => describe(session, broker).await,
        Command::GetConfig { broker, keys } => get_config(session, broker, &keys).await,
        Command::SetConfig { broker, changes } => set_config(session, broker, changes).await,
        Command::Drain(args) => drain::drain(session, args).await,
        Command::Undrain(args) => drain::undrain(session, args).await,
    }
}

async fn list(session: &Session, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let snapshot = look(session, Parts::default(), scope).await?;
    let mut listing = Listing::new(
        "BrokerList",
        &[
            col("name"),
            col("id"),
            col("role"),
            col("addr"),
            col("version"),
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

async fn describe(session: &Session, selector: BrokerSelector) -> Result<(), Failure> {
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
    session.warn_of_dead_name_servers();
    let (mut answered, mut failures) = (false, Vec::new());
    for broker in &snapshot.brokers {
        answered |= broker.answers();
        failures.extend(failure(broker).map(|f| with_registrations(f, broker)));
        let mut detail = detail(broker);
        detail.errors = failures.clone();
        session.printer.print_detail(detail)?;
    }
    Failure::over(&failures, answered)
}

fn with_registrations(failure: Failure, broker: &BrokerState) -> Failure {
    let lines: Vec<String> = broker
        .registrations
        .iter()
        .map(|r| match (r.listed, r.age) {
            (None, _) => format!("Name server {} did not answer.", r.name_server),
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

/// True for keys whose values are never printed.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["password", "secret", "accesskey", "credential", "token"]
        .iter()
        .any(|word| key.contains(word))
}

fn shown(key: &str, value: &str) -> String {
    if is_secret(key) && !value.is_empty() {
        "***".into()
    } else {
        value.to_owned()
    }
}

async fn targets(
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

fn unknown_key(key: &str, known: &BTreeMap<String, String>, broker: &BrokerAt) -> Failure {
    let near = similar(key, known.keys().map(String::as_str));
    let failure = Failure::new(
        exit::NOT_FOUND,
        format!("{} has no configuration key \"{key}\"", broker.server()),
    );
    let failure = if near.is_empty() {
        failure
    } else {
        failure.because(format!("Similar: {}.", near.join(", ")))
    };
    failure.hint(format!("rmq broker get-config {}", broker.id.name))
}

async fn get_config(session: &Session, selector: BrokerSelector, keys: &[String]) -> Result<(), Failure> {
    let brokers = targets(session, selector, Which::All).await?;
    let client = &session.client;
    let deadline = client.deadline();
    let answers = client
        .each(brokers, |broker| async move {
            let config = client.broker_config(&broker.server(), deadline).await;
            (broker, config)
        })
        .await;
    let several = answers.len() > 1;
    let mut listing = Listing::new(
        "BrokerConfig",
        &[
            col("key"),
            col("value"),
            if several { col("broker") } else { wide("broker") },
        ],
    );
    let mut answered = false;
    for (broker, config) in answers {
        match config {
            Ok(config) => {
                answered = true;
                for key in keys {
                    if !config.contains_key(key) {
                        listing.errors.push(unknown_key(key, &config, &broker));
                    }
                }
                for (key, value) in &config {
                    if keys.is_empty() || keys.contains(key) {
                        listing.push(vec![
                            key.as_str().into(),
                            shown(key, value).into(),
                            broker.id.to_string().into(),
                        ]);
                    }
                }
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    let found = !listing.rows.is_empty();
    let verdict = Failure::over(&listing.errors, answered && found);
    session.printer.print(listing)?;
    verdict
}

/// A new value must read as the old one does: brokers answer success to a word where a number belongs.
fn check_type(key: &str, before: &str, after: &str) -> Result<(), Failure> {
    let wrong = |what: &str| {
        Err(Failure::usage(format!(
            "{key} is {what} (now {before}), \"{after}\" is not"
        )))
    };
    match before {
        "true" | "false" if after != "true" && after != "false" => wrong("true or false"),
        _ if before.parse::<i64>().is_ok() && after.parse::<i64>().is_err() => wrong("a whole number"),
        _ if before.parse::<f64>().is_ok() && after.parse::<f64>().is_err() => wrong("a number"),
        _ => Ok(()),
    }
}

async fn set_config(
    session: &Session,
    selector: BrokerSelector,
    changes: Vec<(String, String)>,
) -> Result<(), Failure> {
    let name = selector.0.clone();
    let brokers = targets(session, selector, Which::MastersToWrite).await?;
    let client = &session.client;
    let mut plan = Plan {
        action: format!("set configuration of broker {name}"),
        object: name.clone(),
        cluster: brokers.first().map(|b| b.id.cluster.clone()).unwrap_or_default(),
        class: Class::B,
        steps: Vec::new(),
        impact: vec!["some keys take effect only at the broker's next start".into()],
    };
    let mut work: Vec<(BrokerAt, Vec<(String, String)>)> = Vec::new();
    let mut undo = Vec::new();
    for broker in &brokers {
        let before = client.broker_config(&broker.server(), client.deadline()).await?;
        let mut differing = Vec::new();
        let mut back = Vec::new();
        for (key, after) in &changes {
            let now = before.get(key).ok_or_else(|| unknown_key(key, &before, broker))?;
            check_type(key, now, after)?;
            if now != after {
                plan.steps.push(Step {
                    target: broker.server().to_string(),
                    field: key.clone(),
                    before: shown(key, now),
                    after: shown(key, after),
                });
                differing.push((key.clone(), after.clone()));
                back.push(super::quoted(&format!("{key}={}", shown(key, now))));
            }
        }
        if !differing.is_empty() {
            undo.push(format!(
                "rmq broker set-config {} {}",
                broker.addr,
                back.join(" ")
            ));
            work.push((broker.clone(), differing));
        }
    }
    if work.is_empty() {
        session.note("nothing to change");
        return Ok(());
    }
    if session.dry_run {
        let planned = vec![Outcome::Planned; plan.steps.len()];
        return change::report(session, &plan, planned, None);
    }
    change::confirm(session, &plan)?;
    let results = client
        .each(work, |(broker, changes)| async move {
            let server = broker.server();
            let written = client
                .set_broker_config(&server, &changes, client.deadline())
                .await;
            let read = match written {
                Ok(()) => client.broker_config(&server, client.deadline()).await,
                Err(e) => Err(e),
            };
            changes
                .iter()
                .map(|(key, wanted)| match &read {
                    Err(e) => Outcome::Failed(Failure::from(e)),
                    Ok(now) if now.get(key) == Some(wanted) => Outcome::Done,
                    Ok(now) => Outcome::Unproven(format!(
                        "reads back {}",
                        now.get(key).map_or("nothing", String::as_str)
                    )),
                })
                .collect::<Vec<_>>()
        })
        .await;
    let outcomes = results.into_iter().flatten().collect();
    change::report(session, &plan, outcomes, Some(undo.join(" && ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_the_type_of_the_key() {
        assert!(check_type("a", "5", "x").is_err());
        assert!(check_type("a", "true", "1").is_err());
        assert!(check_type("a", "0.75", "high").is_err());
        assert!(check_type("a", "5", "-1").is_ok());
        assert!(check_type("a", "1s 5s", "1s 5s 10s").is_ok());
        assert!(check_type("a", "", "x").is_ok());
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(shown("innerClientAuthenticationCredentials", "x"), "***");
        assert_eq!(shown("brokerName", "x"), "x");
    }
}
