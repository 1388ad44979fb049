//! `rmq broker set-permission|wipe-write|restore-write|set-readahead|reset-flush-offset`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::time::Instant;

use super::broker::{cluster_of, named, targets};
use super::change::{self, Class, Outcome, Plan, Step, Unread};
use super::exit::{self, Failure};
use super::scope::ScopeArgs;
use super::session::Session;
use crate::client::admin::config::{ConfigOf, ServerConfig};
use crate::client::admin::topic::{PermChange, kind};
use crate::client::snapshot::TopicKind;
use crate::client::{BrokerAt, BrokerSelector, Client, Error, Which};
use crate::protocol::model::Perm;

/// Key of the broker's own permission.
const PERMISSION: &str = "brokerPermission";
/// Key of reading ahead.
const READ_AHEAD: &str = "dataReadAheadEnable";

/// `rmq broker set-permission`
#[derive(Debug, Clone, Args)]
pub struct PermArgs {
    /// NAME, NAME:ID or HOST:PORT
    broker: BrokerSelector,
    /// 2 or W, 4 or R, 6 or RW, 0 or none; +W -W +R -R change one bit
    #[arg(allow_hyphen_values = true)]
    perm: PermChange,
}

/// How the system reads the commit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReadAhead {
    /// Ahead of what is asked for
    Normal,
    /// Page by page
    Random,
}

impl ReadAhead {
    fn word(ahead: bool) -> &'static str {
        if ahead { "normal" } else { "random" }
    }
}

/// `rmq broker set-permission`
pub async fn set_permission(session: &Session, args: PermArgs) -> Result<(), Failure> {
    let brokers = targets(session, args.broker.clone(), Which::MastersToWrite).await?;
    let client = &session.client;
    let mut plan = Plan {
        action: format!("set permission of broker {}", args.broker.0),
        object: args.broker.0.clone(),
        cluster: cluster_of(&brokers),
        class: Class::B,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let (mut work, mut undo, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for (broker, config) in configs(client, brokers).await {
        let config = match config {
            Ok(config) => config,
            Err(failure) => {
                unread.push(Unread::at(broker.server(), failure));
                continue;
            }
        };
        let before = config.entries.get(PERMISSION).and_then(|v| v.parse().ok());
        let before = Perm(before.ok_or_else(|| {
            Failure::new(
                exit::UNSUPPORTED,
                format!("{} does not tell its {PERMISSION}", broker.server()),
            )
        })?);
        let after = args.perm.apply(before);
        if before == after {
            continue;
        }
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: PERMISSION.into(),
            before: format!("{} {before}", before.0),
            after: format!("{} {after}", after.0),
        });
        if before.writable() && !after.writable() {
            plan.impact
                .push(format!("{}: producers are refused", broker.server()));
        }
        if before.readable() && !after.readable() {
            plan.impact
                .push(format!("{}: consumers are refused", broker.server()));
        }
        undo.push(format!("rmq broker set-permission {} {}", broker.addr, before.0));
        work.push((broker, after));
    }
    touched(session, &mut plan, work.iter().map(|(broker, _)| broker)).await;
    let undo = Some(undo.join(" && "));
    let unread = (PERMISSION, unread);
    change::each(session, plan, unread, work, undo, |(broker, after)| async move {
        vec![write_permission(session, &broker, after).await]
    })
    .await
}

/// Counts what is on the brokers that a change is about to be made to.
async fn touched<'a>(session: &Session, plan: &mut Plan, brokers: impl Iterator<Item = &'a BrokerAt>) {
    let servers: Vec<_> = brokers.map(BrokerAt::server).collect();
    if !servers.is_empty() {
        plan.impact.push(session.client.use_of_brokers(servers).await);
    }
}

/// The configuration of each broker.
async fn configs(client: &Client, brokers: Vec<BrokerAt>) -> Vec<(BrokerAt, Result<ServerConfig, Failure>)> {
    client
        .each(brokers, |broker| async move {
            let deadline = client.deadline();
            let config = client
                .server_config(ConfigOf::Broker, &broker.server(), deadline)
                .await;
            (broker, config.map_err(|e| Failure::from(&e)))
        })
        .await
}

async fn write_permission(session: &Session, broker: &BrokerAt, after: Perm) -> Outcome {
    let (client, server) = (&session.client, broker.server());
    let change = [(PERMISSION.to_owned(), after.0.to_string())];
    let of = ConfigOf::Broker;
    let written = client
        .set_server_config(of, &server, &change, client.deadline())
        .await;
    let outcome = change::proof(written, async {
        let config = client.server_config(of, &server, client.deadline()).await?;
        let shown = config.entries.get(PERMISSION) == Some(&change[0].1);
        Ok((!shown).then(|| "the broker's configuration does not show it".into()))
    })
    .await;
    if !outcome.is_done() {
        return outcome;
    }
    // It is written; what follows from it can only be late.
    change::proof(Ok::<_, Failure>(()), perms_follow(session, broker, after)).await
}

/// Waits until every name server shows each topic of the broker with its own permission cut down to the
/// broker's; what is still wrong at the end.
async fn perms_follow(session: &Session, broker: &BrokerAt, perm: Perm) -> Result<Option<String>, Failure> {
    let client = &session.client;
    if broker.id.name.is_empty() {
        return Ok(None);
    }
    let own = client.broker_topics(&broker.server(), client.deadline()).await?;
    let wanted: BTreeMap<String, Perm> = own
        .topic_config_table
        .into_iter()
        .map(|(topic, config)| (topic, config.perm.and(perm).and(Perm::READ_WRITE)))
        .collect();
    let end = Instant::now() + session.timeout;
    let wanted = &wanted;
    let wrong = client
        .each(client.name_servers().to_vec(), |addr| async move {
            perms_follow_at(client, &addr, &broker.id.name, wanted, end).await
        })
        .await;
    Ok(wrong.into_iter().flatten().next())
}

/// The same at one name server. A broker tells all its topics in one registration, so a single topic is asked for until
/// that has come, and each of the others once.
async fn perms_follow_at(
    client: &Client,
    addr: &str,
    broker: &str,
    wanted: &BTreeMap<String, Perm>,
    end: Instant,
) -> Option<String> {
    let mut pending: Vec<&String> = wanted.keys().collect();
    let (mut pause, mut probe) = (Duration::from_millis(10), true);
    while !pending.is_empty() {
        let asked = if probe { &pending[..1] } else { &pending[..] };
        let shown = client
            .perms_at(addr, broker, asked.iter().map(|topic| (*topic).clone()))
            .await;
        let why = match shown {
            // It learns from the broker when it is back, but what it hands out until then nobody has seen.
            Err(e) => format!("written; name server {addr} could not be asked: {}", e.reason()),
            Ok(shown) => {
                let asked = asked.len();
                // What a name server does not route shows nothing wrong.
                let is_wrong = |topic: &String| {
                    let perm = shown.get(topic)?.and(Perm::READ_WRITE);
                    (wanted.get(topic) != Some(&perm)).then_some(perm)
                };
                let wrong = pending[..asked]
                    .iter()
                    .find_map(|topic| Some((topic.as_str(), is_wrong(topic)?)))
                    .map(|(topic, perm)| {
                        format!("name server {addr} still shows perm {perm} for topic {topic}")
                    });
                let mut place = 0;
                pending.retain(|topic| {
                    place += 1;
                    place > asked || is_wrong(topic).is_some()
                });
                match wrong {
                    // The probe is right: now the others.
                    None => {
                        probe = false;
                        continue;
                    }
                    Some(why) => why,
                }
            }
        };
        if Instant::now() + pause >= end {
            return Some(why);
        }
        tokio::time::sleep(pause).await;
        (pause, probe) = ((pause * 2).min(Duration::from_millis(250)), true);
    }
    None
}

/// What one name server shows of a broker's topics.
struct Shown {
    addr: String,
    writable: usize,
    topics: Vec<String>,
    /// Topics that lack a permission.
    closed: Vec<String>,
}

async fn shown(client: &Client, addr: &str, broker: &str, topics: Vec<String>) -> Result<Shown, Error> {
    let perms = client.perms_at(addr, broker, topics).await?;
    Ok(Shown {
        addr: addr.to_owned(),
        writable: perms.values().filter(|perm| perm.writable()).count(),
        closed: perms
            .iter()
            .filter(|(topic, perm)| {
                // Nobody sends to the brokers' own topics; one of them is never writable.
                perm.and(Perm::READ_WRITE) != Perm::READ_WRITE
                    && kind(topic, &BTreeSet::new()) != TopicKind::System
            })
            .map(|(topic, _)| topic.clone())
            .collect(),
        topics: perms.into_keys().collect(),
    })
}

/// `rmq broker wipe-write|restore-write`
pub async fn set_write(session: &Session, selector: BrokerSelector, writable: bool) -> Result<(), Failure> {
    let client = &session.client;
    let brokers = targets(session, selector, Which::MastersToWrite).await?;
    let Some(broker) = brokers.into_iter().next().filter(|b| !b.id.name.is_empty()) else {
        return Err(Failure::usage(
            "the name servers know permissions by broker name; name one that is registered",
        )
        .hint("rmq broker list"));
    };
    if broker.id.id != 0 {
        return Err(Failure::usage(format!(
            "{} is a slave; the name servers know permissions by broker name, and this would change all of {}",
            broker.addr, broker.id.name
        )));
    }
    let name = broker.id.name.clone();
    let (mut plan, impact) = write_plan(session, &broker, writable).await;
    plan.impact = impact;
    let answers = client
        .each(client.name_servers().to_vec(), |addr| {
            let name = name.as_str();
            async move {
                let topics = client.look_topic_names(&addr, client.deadline()).await;
                let view = match topics {
                    Ok(topics) => shown(client, &addr, name, topics).await,
                    Err(e) => Err(e),
                };
                (addr, view)
            }
        })
        .await;
    let (mut work, mut unread) = (Vec::new(), Vec::new());
    for (addr, view) in answers {
        match view {
            Ok(view) => {
                let all = view.topics.len();
                let after = if writable { all } else { 0 };
                if view.writable != after {
                    plan.steps.push(Step {
                        target: format!("name server {addr}"),
                        field: "writable topics".into(),
                        before: format!("{} of {all}", view.writable),
                        after: format!("{after} of {all}"),
                    });
                    work.push(view);
                }
            }
            Err(e) => unread.push(Unread::at(format!("name server {addr}"), Failure::from(&e))),
        }
    }
    client.take_dead_name_servers();
    let other = if writable { "wipe-write" } else { "restore-write" };
    // Restoring gives every topic both permissions, so it undoes only what had both. The broker's own topics do not count:
    // one of them never has any permission, and nobody sends to it.
    let servers = BTreeSet::from([name.clone(), broker.id.cluster.clone()]);
    let closed: BTreeSet<&str> = work
        .iter()
        .filter(|_| !writable)
        .flat_map(|view| view.closed.iter().map(String::as_str))
        .filter(|topic| kind(topic, &servers) != TopicKind::System)
        .collect();
    let undo = closed.is_empty().then(|| format!("rmq broker {other} {name}"));
    if !closed.is_empty() {
        plan.impact.push(format!(
            "there is no undo line: restore-write would open these as well: {}",
            closed.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    let name = name.as_str();
    let unread = ("writable topics", unread);
    change::each(session, plan, unread, work, undo, |view| async move {
        let written = client
            .set_write_perm(&view.addr, name, writable, client.deadline())
            .await;
        let read_back = async {
            let now = shown(client, &view.addr, name, view.topics).await?;
            let (found, all) = (now.writable, now.topics.len());
            let differs = found != if writable { all } else { 0 };
            Ok(differs.then(|| format!("{found} of {all} are writable afterwards")))
        };
        vec![change::proof(written, read_back).await]
    })
    .await
}

async fn write_plan(session: &Session, broker: &BrokerAt, writable: bool) -> (Plan, Vec<String>) {
    let client = &session.client;
    let name = &broker.id.name;
    let mut impact = Vec::new();
    if writable {
        let own = client.broker_topics(&broker.server(), client.deadline()).await;
        let closed: BTreeSet<String> = own
            .map(|table| table.topic_config_table)
            .unwrap_or_default()
            .into_values()
            .filter(|config| config.perm.and(Perm::READ_WRITE) != Perm::READ_WRITE)
            .map(|config| config.topic_name)
            .collect();
        if !closed.is_empty() {
            let closed: Vec<String> = closed.into_iter().collect();
            impact.push(format!(
                "the name servers open every topic; on the broker these are not open: {}",
                closed.join(", ")
            ));
        }
    } else {
        impact.push(client.use_of_brokers([broker.server()]).await);
        impact.push(format!(
            "it is lost when {name} or a name server starts anew, and {name} itself goes on taking sends; \
             rmq broker drain {name} keeps"
        ));
    }
    let plan = Plan {
        action: if writable {
            format!("restore write permission of broker {name}")
        } else {
            format!("wipe write permission of broker {name}")
        },
        object: name.clone(),
        cluster: broker.id.cluster.clone(),
        class: Class::B,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    (plan, impact)
}

/// `rmq broker set-readahead`
pub async fn set_readahead(session: &Session, mode: ReadAhead, scope: ScopeArgs) -> Result<(), Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::AllToWrite).await?;
    session.warn_of_dead_name_servers();
    let ahead = mode == ReadAhead::Normal;
    let cluster = cluster_of(&brokers);
    let mut plan = Plan {
        action: format!(
            "read the commit log {}",
            if ahead { "ahead" } else { "page by page" }
        ),
        object: scope
            .broker
            .first()
            .map_or_else(|| cluster.clone(), |b| b.0.clone()),
        cluster,
        class: Class::B,
        steps: Vec::new(),
        impact: vec!["until the next start of the broker; dataReadAheadEnable in its file keeps".into()],
    };
    let (mut work, mut undo, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for (broker, config) in configs(client, brokers).await {
        let config = match config {
            Ok(config) => config,
            Err(failure) => {
                unread.push(Unread::at(broker.server(), failure));
                continue;
            }
        };
        let before = config
            .entries
            .get(READ_AHEAD)
            .and_then(|v| v.parse::<bool>().ok());
        if before == Some(ahead) {
            continue;
        }
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: "readahead".into(),
            before: before.map_or("unknown", ReadAhead::word).into(),
            after: ReadAhead::word(ahead).into(),
        });
        if before.is_some() {
            undo.push(format!(
                "rmq broker set-readahead {} {}",
                ReadAhead::word(!ahead),
                broker.addr
            ));
        }
        work.push(broker);
    }
    touched(session, &mut plan, work.iter()).await;
    let undo = (!undo.is_empty()).then(|| undo.join(" && "));
    let unread = ("readahead", unread);
    change::each(session, plan, unread, work, undo, |broker| async move {
        let server = broker.server();
        let written = client.set_read_ahead(&server, ahead, client.deadline()).await;
        let read_back = async {
            let deadline = client.deadline();
            let config = client.server_config(ConfigOf::Broker, &server, deadline).await?;
            let differs = config.entries.get(READ_AHEAD) != Some(&ahead.to_string());
            Ok(differs.then(|| format!("{READ_AHEAD} does not show it")))
        };
        vec![change::proof(written, read_back).await]
    })
    .await
}

/// `rmq broker reset-flush-offset`
pub async fn reset_flush_offset(session: &Session, selector: BrokerSelector, to: i64) -> Result<(), Failure> {
    let client = &session.client;
    let name = selector.0.clone();
    let brokers = targets(session, selector, Which::MastersToWrite).await?;
    let Some(broker) = brokers.into_iter().next() else {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("broker {name} has no master"),
        ));
    };
    let server = broker.server();
    let info = client.ha_status(&server, client.deadline()).await?;
    if info.master {
        let all = named(Vec::new(), None).brokers(session, Which::All).await?;
        let slaves: Vec<String> = all
            .iter()
            .filter(|b| b.id.name == broker.id.name && !b.id.is_master())
            .map(|b| b.id.to_string())
            .collect();
        let failure = Failure::new(
            exit::PRECONDITION,
            format!("{server} is a master; only a slave has its master's flush offset, nothing was changed"),
        );
        return Err(match slaves.first() {
            Some(slave) => failure.hint(format!("rmq broker reset-flush-offset {slave} --to {to}")),
            None => failure.because("It has no slave."),
        });
    }
    let before = info.ha_client_runtime_info.master_flush_offset;
    let mut plan = Plan {
        action: format!("reset the master flush offset of broker {name}"),
        object: name,
        cluster: broker.id.cluster.clone(),
        class: Class::C,
        steps: Vec::new(),
        impact: vec!["a slave behind it may cut off what it holds beyond".into()],
    };
    if before != to {
        plan.steps.push(Step {
            target: server.to_string(),
            field: "master_flush_offset".into(),
            before: before.to_string(),
            after: to.to_string(),
        });
    }
    let undo = Some(format!(
        "rmq broker reset-flush-offset {} --to {before}",
        broker.addr
    ));
    change::execute(session, plan, undo, async |_| {
        let written = client.reset_flush_offset(&server, to, client.deadline()).await;
        let read_back = async {
            let now = client.ha_status(&server, client.deadline()).await?;
            let now = now.ha_client_runtime_info.master_flush_offset;
            // A slave that hears from its master takes the master's word again at once.
            Ok((now != to).then(|| format!("reads back {now}: the slave hears from its master")))
        };
        vec![change::proof(written, read_back).await]
    })
    .await
}
