//! `rmq consumer`: one client process; `rmq group` is the whole group.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use clap::Subcommand;

use super::exit::{self, Failure};
use super::group::not_found;
use super::output::{Cell, Detail, Listing, PROPERTIES, col, less, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::group::is_system;
use crate::client::{BrokerAt, Which, similar};
use crate::protocol::body::ConsumerRunningInfo;
use crate::protocol::model::version_name;

/// Commands on consumer processes.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the connected consumer processes with their groups
    Clients {
        /// Only clients of this group
        #[arg(short, long, value_name = "NAME")]
        group: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the thread stacks of a consumer process
    Stack {
        /// Client id
        client: String,
        /// Its group [default: looked for in every group]
        #[arg(short, long, value_name = "NAME")]
        group: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Show the inside of a consumer process: settings, subscriptions, rates, queues
    RunningInfo {
        /// Client id
        client: String,
        /// Its group [default: looked for in every group]
        #[arg(short, long, value_name = "NAME")]
        group: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
    },
}

/// Runs a consumer command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Clients { group, scope, watch } => {
            watch::print(session, &watch, || clients(session, group.as_deref(), &scope)).await
        }
        Command::Stack { client, group, scope } => stack(session, &client, group.as_deref(), &scope).await,
        Command::RunningInfo { client, group, scope } => {
            running_info(session, &client, group.as_deref(), &scope).await
        }
    }
}

/// Each client with its groups and brokers.
#[derive(Default)]
struct Seen {
    addr: String,
    language: String,
    version: String,
    groups: BTreeSet<String>,
    brokers: BTreeSet<String>,
}

/// The connected clients of all groups, or of one.
async fn connected(
    session: &Session,
    brokers: &[BrokerAt],
    group: Option<&str>,
) -> (BTreeMap<String, Seen>, Vec<Failure>, bool) {
    let client = &session.client;
    let mut failures = Vec::new();
    let groups: Vec<String> = match group {
        Some(group) => vec![group.to_owned()],
        None => {
            let known = client.known_groups(brokers).await;
            failures.extend(known.failed.iter().map(|(_, e)| Failure::from(e)));
            known.groups.into_keys().filter(|name| !is_system(name)).collect()
        }
    };
    let answers = client
        .each(groups, |group| async move {
            let found = client.clients_of_group(brokers, &group).await;
            (group, found)
        })
        .await;
    let (mut seen, mut answered) = (BTreeMap::<String, Seen>::new(), false);
    for (group, found) in answers {
        answered |= found.by_broker.iter().any(|(_, c)| c.is_ok());
        failures.extend(found.errors().map(Failure::from));
        for (broker, connection) in found.connections() {
            for c in &connection.connection_set {
                let one = seen.entry(c.client_id.clone()).or_default();
                one.addr.clone_from(&c.client_addr);
                one.language = c.language.name().to_owned();
                one.version = version_name(c.version);
                one.groups.insert(group.clone());
                one.brokers.insert(broker.id.to_string());
            }
        }
    }
    // A failed broker is told once, not once a group.
    failures.sort_by(|a, b| a.what.cmp(&b.what));
    failures.dedup_by(|a, b| a.what == b.what);
    (seen, failures, answered)
}

async fn clients(session: &Session, group: Option<&str>, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let (seen, failures, answered) = connected(session, &brokers, group).await;
    if seen.is_empty()
        && failures.is_empty()
        && let Some(group) = group
        && let Some(failure) = not_found(session, &brokers, group).await
    {
        return Err(failure);
    }
    let mut listing = Listing::new(
        "ConsumerClients",
        &[
            col("client"),
            col("addr"),
            less("language"),
            less("version"),
            col("groups"),
            wide("broker_names"),
        ],
    );
    for (client, one) in seen {
        listing.push(vec![
            client.into(),
            one.addr.into(),
            one.language.into(),
            one.version.into(),
            one.groups.into_iter().collect::<Vec<_>>().into(),
            one.brokers.into_iter().collect::<Vec<_>>().into(),
        ]);
    }
    listing.errors = failures;
    Ok(Rows {
        some_answered: answered || listing.errors.is_empty(),
        listing,
    })
}

/// A client's group and its brokers; a client that nobody knows is a failure with the ids that are close.
async fn locate(
    session: &Session,
    client: &str,
    group: Option<&str>,
    scope: &ScopeArgs,
) -> Result<(String, Vec<BrokerAt>), Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let (seen, failures, answered) = connected(session, &brokers, group).await;
    let Some(one) = seen.get(client) else {
        Failure::over(&failures, answered)?;
        let near = similar(client, seen.keys().map(String::as_str));
        let what = match group {
            Some(group) => format!("client \"{client}\" is not connected in group {group}"),
            None => format!("client \"{client}\" is not connected in any group"),
        };
        let failure = Failure::new(exit::NOT_FOUND, what);
        let failure = if near.is_empty() {
            failure
        } else {
            failure.because(format!("Similar: {}.", near.join(", ")))
        };
        return Err(failure.hint("rmq consumer clients"));
    };
    let group = one.groups.first().cloned().unwrap_or_default();
    let brokers = brokers
        .into_iter()
        .filter(|b| one.brokers.contains(&b.id.to_string()))
        .collect();
    Ok((group, brokers))
}

async fn stack(
    session: &Session,
    client: &str,
    group: Option<&str>,
    scope: &ScopeArgs,
) -> Result<(), Failure> {
    let found = locate(session, client, group, scope).await;
    session.warn_of_dead_name_servers();
    let (group, brokers) = found?;
    let info = session
        .client
        .consumer_running_info(&brokers, &group, client, true, session.client.deadline())
        .await?;
    print_stacks(session, &group, vec![(client.to_owned(), info.jstack)])
}

/// Prints thread stacks: as they are for a person, as rows for a program.
fn print_stacks(
    session: &Session,
    group: &str,
    stacks: Vec<(String, Option<String>)>,
) -> Result<(), Failure> {
    let mut listing = Listing::new("ConsumerStack", &[col("client"), col("group"), col("stack")]);
    let none: Vec<&str> = stacks
        .iter()
        .filter(|(_, stack)| stack.as_deref().is_none_or(|s| s.trim().is_empty()))
        .map(|(client, _)| client.as_str())
        .collect();
    if !none.is_empty() {
        session.warn(&format!(
            "{} sent no stack; not every client can",
            none.join(", ")
        ));
    }
    if session.is_table() {
        let mut lines = Vec::new();
        for (client, stack) in &stacks {
            let Some(stack) = stack else { continue };
            if stacks.len() > 1 {
                lines.push(format!("== {client}"));
            }
            lines.extend((stack.lines()).map(|line| super::output::printable(&line.replace('\t', "    "))));
        }
        match session.desk() {
            Some(desk) => desk.say(&lines.join("\n")),
            None => writeln!(std::io::stdout().lock(), "{}", lines.join("\n"))?,
        }
        return Ok(());
    }
    for (client, stack) in stacks {
        listing.push(vec![client.into(), group.into(), stack.into()]);
    }
    session.printer.print(listing)
}

/// `rmq group clients --stack`
pub async fn group_stacks(session: &Session, group: &str, scope: &ScopeArgs) -> Result<(), Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let client = &session.client;
    let clients = client.clients_of_group(&brokers, group).await;
    let infos = client
        .running_infos(&clients, group, true, client.deadline())
        .await;
    let mut failures: Vec<Failure> = clients.errors().map(Failure::from).collect();
    if infos.is_empty() && failures.is_empty() {
        if let Some(failure) = not_found(session, &brokers, group).await {
            return Err(failure);
        }
        session.note(&format!("{group}: no client is online"));
    }
    let mut stacks = Vec::new();
    for (id, info) in infos {
        match info {
            Ok(info) => stacks.push((id, info.jstack)),
            Err(e) => failures.push(Failure::from(&e)),
        }
    }
    let verdict = Failure::over(&failures, !stacks.is_empty());
    print_stacks(session, group, stacks)?;
    verdict
}

fn queue_columns() -> Vec<super::output::Column> {
    vec![
        col("client"),
        col("topic"),
        col("broker"),
        col("queue"),
        col("mode"),
        col("committed"),
        col("cached"),
        col("cached_mib"),
        col("locked"),
        col("last_pull"),
        col("last_consume"),
        wide("cached_min"),
        wide("cached_max"),
        wide("wait_ack"),
        wide("in_order"),
        wide("last_lock"),
        wide("dropped"),
    ]
}

fn queue_rows(client: &str, info: &ConsumerRunningInfo, listing: &mut Listing) {
    for (queue, state) in &info.mq_table {
        let cached = state.cached_msg_count > 0;
        listing.push(vec![
            client.into(),
            queue.topic.as_str().into(),
            queue.broker_name.as_str().into(),
            queue.queue_id.into(),
            "pull".into(),
            state.commit_offset.into(),
            state.cached_msg_count.into(),
            state.cached_msg_size_in_mib.into(),
            state.locked.into(),
            Cell::time(Some(state.last_pull_timestamp)),
            Cell::time(Some(state.last_consume_timestamp)),
            cached.then_some(state.cached_msg_min_offset).into(),
            cached.then_some(state.cached_msg_max_offset).into(),
            Cell::Unknown,
            state.transaction_msg_count.into(),
            Cell::time(Some(state.last_lock_timestamp)),
            state.droped.into(),
        ]);
    }
    for (queue, state) in &info.mq_pop_table {
        listing.push(vec![
            client.into(),
            queue.topic.as_str().into(),
            queue.broker_name.as_str().into(),
            queue.queue_id.into(),
            "pop".into(),
            Cell::Unknown,
            Cell::Unknown,
            Cell::Unknown,
            Cell::Unknown,
            Cell::time(Some(state.last_pop_timestamp)),
            Cell::Unknown,
            Cell::Unknown,
            Cell::Unknown,
            state.wait_ack_count.into(),
            Cell::Unknown,
            Cell::Unknown,
            state.droped.into(),
        ]);
    }
}

/// `rmq group client-info`: what each client of a group holds.
pub async fn held_queues(
    session: &Session,
    group: &str,
    only: Option<&str>,
    scope: &ScopeArgs,
) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let client = &session.client;
    let mut clients = client.clients_of_group(&brokers, group).await;
    if let Some(only) = only {
        let ids = clients.ids();
        if !ids.contains_key(only) && clients.errors().next().is_none() {
            return Err(Failure::new(
                exit::NOT_FOUND,
                format!("client \"{only}\" is not connected in group {group}"),
            )
            .hint(format!("rmq group clients {group}")));
        }
        for (_, connection) in &mut clients.by_broker {
            if let Ok(Some(connection)) = connection {
                connection.connection_set.retain(|c| c.client_id == only);
            }
        }
    }
    let infos = client
        .running_infos(&clients, group, false, client.deadline())
        .await;
    let mut listing = Listing::new("ClientInfo", &queue_columns());
    listing.errors = clients.errors().map(Failure::from).collect();
    if infos.is_empty() && listing.errors.is_empty() {
        if let Some(failure) = not_found(session, &brokers, group).await {
            return Err(failure);
        }
        session.note(&format!("{group}: no client is online"));
    }
    let mut answered = infos.is_empty() && listing.errors.len() < brokers.len();
    for (id, info) in infos {
        match info {
            Ok(info) => {
                answered = true;
                queue_rows(&id, &info, &mut listing);
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    Ok(Rows {
        listing,
        some_answered: answered,
    })
}

async fn running_info(
    session: &Session,
    client: &str,
    group: Option<&str>,
    scope: &ScopeArgs,
) -> Result<(), Failure> {
    let found = locate(session, client, group, scope).await;
    session.warn_of_dead_name_servers();
    let (group, brokers) = found?;
    let info = session
        .client
        .consumer_running_info(&brokers, &group, client, false, session.client.deadline())
        .await?;
    let mut queues = Listing::new("ClientInfo", &queue_columns());
    queue_rows(client, &info, &mut queues);
    let mut subscriptions = Listing::new("Subscriptions", &[col("topic"), col("expression"), col("type")]);
    for s in &info.subscription_set {
        subscriptions.push(vec![
            s.topic.as_str().into(),
            s.sub_string.as_str().into(),
            s.expression_type.as_str().into(),
        ]);
    }
    let mut rates = Listing::new(
        "Rates",
        &[
            col("topic"),
            col("pull_tps"),
            col("pull_rt"),
            col("consume_ok_tps"),
            col("consume_failed_tps"),
            col("consume_rt"),
            col("failed_last_hour"),
        ],
    );
    for (topic, rate) in &info.status_table {
        rates.push(vec![
            topic.as_str().into(),
            rate.pull_tps.into(),
            rate.pull_rt.into(),
            rate.consume_ok_tps.into(),
            rate.consume_failed_tps.into(),
            rate.consume_rt.into(),
            rate.consume_failed_msgs.into(),
        ]);
    }
    let mut properties = Listing::new(PROPERTIES, &[col("property"), col("value")]);
    for (key, value) in info.properties.iter().chain(&info.user_consumer_info) {
        properties.push(vec![key.as_str().into(), value.as_str().into()]);
    }
    let started = info
        .properties
        .get("PROP_CONSUMER_START_TIMESTAMP")
        .and_then(|v| v.parse().ok());
    session.printer.print_detail(Detail {
        kind: "Consumer",
        fields: vec![
            ("client", client.into()),
            ("group", group.into()),
            (
                "broker_names",
                brokers
                    .iter()
                    .map(|b| b.id.to_string())
                    .collect::<Vec<_>>()
                    .into(),
            ),
            ("type", info.properties.get("PROP_CONSUME_TYPE").cloned().into()),
            (
                "version",
                info.properties.get("PROP_CLIENT_VERSION").cloned().into(),
            ),
            ("started", Cell::time(started)),
            ("queues", (info.mq_table.len() + info.mq_pop_table.len()).into()),
        ],
        tables: vec![
            ("held", queues),
            ("subscriptions", subscriptions),
            ("rates", rates),
            ("properties", properties),
        ],
        errors: Vec::new(),
    })
}
