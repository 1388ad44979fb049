//! `rmq namesrv`: configuration, routes, disagreements, registrations that are left over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::change::{self, Class, Plan, Step, Undo, Unread};
use super::cluster;
use super::exit::{self, Failure};
use super::output::{Cell, Listing, col, wide};
use super::quoted;
use super::server_config::{self, Target, pair};
use super::session::Session;
use super::time::parse_duration;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::config::ConfigOf;
use crate::client::admin::namesrv::{Difference, NameServerView, ORDER_NAMESPACE, differences};
use crate::client::admin::topic::kind;
use crate::client::snapshot::TopicKind;
use crate::client::words::counted;
use crate::client::{BrokerAt, BrokerSelector, CallError, Deadline, Error, Server, similar};

/// How long a broker that is to be dropped has for an answer.
const ANSWER: Duration = Duration::from_secs(3);

/// Commands on name servers.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the name servers with what they know and where they disagree
    List {
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the configuration of each name server, whole or some keys
    GetConfig {
        /// Keys to show
        keys: Vec<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Change configuration keys on every name server; unknown keys and values of the wrong type are refused
    SetConfig {
        /// Changes
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        changes: Vec<(String, String)>,
    },
    /// List the routes that the name servers hand out
    Routes(RoutesArgs),
    /// Show what the name servers do not agree about; exit code 10 when there is something
    Diff(DiffArgs),
    /// Remove the registration of a broker that no longer accepts connections
    DropBroker {
        /// NAME, NAME:ID or HOST:PORT
        broker: BrokerSelector,
    },
}

/// `rmq namesrv routes`
#[derive(Debug, Clone, Args)]
pub struct RoutesArgs {
    /// Topics; all when none is named
    topics: Vec<String>,
    /// Retry, dead-letter and system topics as well
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    watch: WatchArgs,
}

/// `rmq namesrv diff`
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// Topics to compare, with their order entries; all when none is named
    topics: Vec<String>,
    /// Compare this namespace of the KV store, too; name servers have no list of these. Repeatable
    #[arg(long, value_name = "NAMESPACE", conflicts_with = "topics")]
    kv: Vec<String>,
    /// Look twice, so far apart, and tell only what differs both times
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    settle: Option<Duration>,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Runs a name server command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { watch } => cluster::name_servers(session, &watch).await,
        Command::GetConfig { keys, watch } => {
            watch::print(session, &watch, || {
                let kind = (ConfigOf::NameServer, "NameServerConfig", "namesrv");
                server_config::get(session, kind, servers(session), &keys)
            })
            .await
        }
        Command::SetConfig { changes } => set_config(session, &changes).await,
        Command::Routes(args) => watch::print(session, &args.watch, || routes(session, &args)).await,
        Command::Diff(args) => diff(session, args).await,
        Command::DropBroker { broker } => drop_broker(session, &broker.0).await,
    }
}

fn servers(session: &Session) -> Vec<Server> {
    session.client.name_servers().iter().map(Server::at).collect()
}

async fn set_config(session: &Session, changes: &[(String, String)]) -> Result<(), Failure> {
    let all = session.name_servers.join(";");
    let targets = servers(session).into_iter().map(|server| Target {
        undo: format!("rmq -n {} namesrv set-config", server.addr),
        server,
    });
    // A change of name servers concerns every cluster they know; it is confirmed by their address list.
    server_config::set(
        session,
        ConfigOf::NameServer,
        (
            "set configuration of the name servers".into(),
            all,
            session.cluster.clone().unwrap_or_default(),
        ),
        targets.collect(),
        changes,
    )
    .await
}

/// Each name server that answers with what it knows; failures of the others.
async fn views(
    session: &Session,
    topics: &[String],
    namespaces: &[&str],
) -> (Vec<NameServerView>, Vec<Failure>) {
    let client = &session.client;
    let named = (!topics.is_empty()).then_some(topics);
    let answers = client
        .each(client.name_servers().to_vec(), |addr| async move {
            client.name_server_view(&addr, named, namespaces).await
        })
        .await;
    let (mut views, mut failures) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(view) => views.push(view),
            Err(e) => failures.push(Failure::from(&e)),
        }
    }
    // The failures tell it.
    client.take_dead_name_servers();
    (views, failures)
}

/// Topic, broker, read queues, write queues, permission bits.
type RouteKey = (String, String, i32, i32, i32);

async fn routes(session: &Session, args: &RoutesArgs) -> Result<Rows, Failure> {
    let (views, failures) = views(session, &args.topics, &[]).await;
    let mut listing = Listing::new(
        "RouteTable",
        &[
            col("topic"),
            col("broker"),
            col("read_queues"),
            col("write_queues"),
            col("perm"),
            col("namesrv"),
            wide("perm_bits"),
            wide("cluster"),
            wide("master"),
            wide("order_conf"),
        ],
    );
    let servers: BTreeSet<String> = views
        .iter()
        .flat_map(|view| view.brokers.keys())
        .flat_map(|broker| [broker.name.clone(), broker.cluster.clone()])
        .collect();
    // One row for what several name servers say alike.
    let mut rows: BTreeMap<RouteKey, (Vec<String>, Vec<Cell>)> = BTreeMap::new();
    for view in &views {
        for (topic, route) in &view.routes {
            if args.topics.is_empty() && !args.all && kind(topic, &servers) != TopicKind::User {
                continue;
            }
            for queues in &route.queue_datas {
                let set = route
                    .broker_datas
                    .iter()
                    .find(|b| b.broker_name == queues.broker_name);
                let key = (
                    topic.clone(),
                    queues.broker_name.clone(),
                    queues.read_queue_nums,
                    queues.write_queue_nums,
                    queues.perm.0,
                );
                let row = rows.entry(key).or_insert_with(|| {
                    let more = vec![
                        queues.perm.to_string().into(),
                        set.map(|s| s.cluster.clone()).into(),
                        set.and_then(|s| s.master().map(str::to_owned)).into(),
                        route.order_topic_conf.clone().into(),
                    ];
                    (Vec::new(), more)
                });
                row.0.push(view.addr.clone());
            }
        }
    }
    let found: BTreeSet<&String> = rows.keys().map(|key| &key.0).collect();
    let missing: Vec<&String> = args.topics.iter().filter(|t| !found.contains(t)).collect();
    listing.errors = failures;
    for topic in missing {
        listing.errors.push(
            Failure::new(
                exit::NOT_FOUND,
                format!("no name server has a route for topic \"{topic}\""),
            )
            .hint("rmq topic list --all"),
        );
    }
    let some_answered = if args.topics.is_empty() {
        !views.is_empty()
    } else {
        !rows.is_empty()
    };
    for ((topic, broker, read, write, perm), (addrs, more)) in rows {
        let mut more = more.into_iter();
        let mut row = vec![topic.into(), broker.into(), read.into(), write.into()];
        row.extend(more.next());
        row.push(addrs.into());
        row.push(perm.into());
        row.extend(more);
        listing.push(row);
    }
    Ok(Rows {
        listing,
        some_answered,
    })
}

/// What is compared: of named topics nothing but their routes and order entries.
async fn comparable(session: &Session, args: &DiffArgs) -> (Vec<NameServerView>, Vec<Failure>) {
    let more = args.kv.iter().map(String::as_str);
    let namespaces: Vec<&str> = [ORDER_NAMESPACE].into_iter().chain(more).collect();
    let (mut views, failures) = views(session, &args.topics, &namespaces).await;
    if !args.topics.is_empty() {
        for table in views.iter_mut().flat_map(|view| view.kv.values_mut()) {
            table.retain(|key, _| args.topics.contains(key));
        }
    }
    (views, failures)
}

async fn look_for_differences(
    session: &Session,
    args: &DiffArgs,
) -> Result<(Vec<Difference>, Vec<Failure>), Failure> {
    let (views, failures) = comparable(session, args).await;
    if views.is_empty() {
        return Err(failures
            .into_iter()
            .next()
            .unwrap_or_else(|| Failure::usage("there is no name server to ask")));
    }
    let mut found = differences(&views);
    if let Some(settle) = args.settle.filter(|_| !found.is_empty()) {
        tokio::time::sleep(settle).await;
        let again = differences(&comparable(session, args).await.0);
        found.retain(|d| {
            again
                .iter()
                .any(|a| (a.kind, &a.name, &a.field) == (d.kind, &d.name, &d.field))
        });
    }
    Ok((found, failures))
}

async fn diff_rows(session: &Session, args: &DiffArgs) -> Result<Rows, Failure> {
    let (found, failures) = look_for_differences(session, args).await?;
    Ok(difference_rows(&found, failures))
}

fn difference_rows(found: &[Difference], failures: Vec<Failure>) -> Rows {
    let mut listing = Listing::new(
        "NameServerDiff",
        &[col("kind"), col("name"), col("field"), col("values")],
    );
    listing
        .summary
        .insert("differences".into(), serde_json::json!(found.len()));
    for difference in found {
        listing.push(vec![
            difference.kind.into(),
            difference.name.as_str().into(),
            difference.field.as_str().into(),
            Cell::Pairs(difference.values.clone()),
        ]);
    }
    listing.errors = failures;
    Rows {
        listing,
        some_answered: true,
    }
}

/// The first of these topics that no broker of its routes has any more, with a cluster that it is routed in. Its routes stay
/// until they are deleted: no registration mentions it.
async fn left_over(session: &Session, topics: BTreeSet<String>) -> Option<(String, String)> {
    let client = &session.client;
    for topic in topics {
        let mut brokers: BTreeSet<BrokerAt> = BTreeSet::new();
        for (_, route) in client.route_each(&topic).await {
            for set in route.ok().flatten().into_iter().flat_map(|r| r.broker_datas) {
                brokers.extend(set.master().map(|addr| BrokerAt {
                    id: crate::client::snapshot::BrokerId {
                        cluster: set.cluster.clone(),
                        name: set.broker_name.clone(),
                        id: 0,
                    },
                    addr: addr.to_owned(),
                }));
            }
        }
        let cluster = brokers.first().map(|b| b.id.cluster.clone());
        let brokers: Vec<BrokerAt> = brokers.into_iter().collect();
        let answers = super::topic::configs(session, &brokers, &topic).await;
        if let Some(cluster) = cluster
            && answers.iter().all(|(_, answer)| matches!(answer, Ok(None)))
        {
            return Some((topic, cluster));
        }
    }
    None
}

async fn diff(session: &Session, args: DiffArgs) -> Result<(), Failure> {
    if args.watch.interval().is_some() {
        return watch::print(session, &args.watch, || diff_rows(session, &args)).await;
    }
    if session.name_servers.len() < 2 {
        session.warn("one name server alone agrees with itself; name all of them with --namesrv");
    }
    let (found, failures) = look_for_differences(session, &args).await?;
    let rows = difference_rows(&found, failures);
    let verdict = Failure::over(&rows.listing.errors, true);
    let differences = rows.listing.rows.len();
    let topics: BTreeSet<String> = found
        .into_iter()
        .filter(|d| d.kind == "topic")
        .map(|d| d.name)
        .collect();
    session.printer.print(rows.listing)?;
    verdict?;
    match differences {
        0 => {
            session.note("the name servers agree");
            Ok(())
        }
        n => Err(match left_over(session, topics).await {
            Some((topic, cluster)) => differ(n)
                .because(format!(
                    "No broker has topic {topic} any more: the route is left over, and time does not remove it."
                ))
                .hint(session.for_same_servers(&format!(
                    "rmq topic delete {topic} --cluster {}",
                    quoted(&cluster)
                ))),
            None => differ(n).because("Brokers register with each name server for itself; a difference that stays means that one does not reach one of them.")
            .hint("rmq namesrv diff --settle 30s"),
        }),
    }
}

fn differ(points: usize) -> Failure {
    Failure::new(
        exit::WARNINGS,
        format!("the name servers differ in {}", counted(points, "point")),
    )
}

/// What a name server lists that `text` names.
fn listed(view: &crate::client::snapshot::ClusterTable, text: &str) -> Vec<BrokerAt> {
    view.listed
        .iter()
        .filter(|l| l.broker.name == text || l.broker.to_string() == text || l.addr == text)
        .map(|l| BrokerAt {
            id: l.broker.clone(),
            addr: l.addr.clone(),
        })
        .collect()
}

async fn drop_broker(session: &Session, text: &str) -> Result<(), Failure> {
    let client = &session.client;
    let tables = client
        .each(client.name_servers().to_vec(), |addr| async move {
            let table = client.look_cluster(&addr, client.deadline()).await;
            (addr, table.map(|(table, _)| table))
        })
        .await;
    client.take_dead_name_servers();
    let mut found: BTreeMap<BrokerAt, Vec<String>> = BTreeMap::new();
    let (mut unread, mut names) = (Vec::new(), BTreeSet::new());
    for (addr, table) in tables {
        match table {
            Ok(table) => {
                names.extend(table.listed.iter().map(|l| l.broker.name.clone()));
                for broker in listed(&table, text) {
                    found.entry(broker).or_default().push(addr.clone());
                }
            }
            Err(e) => unread.push(Unread::at(format!("name server {addr}"), Failure::from(&e))),
        }
    }
    if found.is_empty() {
        if let Some(first) = unread.first().filter(|_| names.is_empty()) {
            return Err(first.failure.clone());
        }
        return Err(Failure::from(Error::NotFound {
            noun: "broker",
            name: text.to_owned(),
            searched: "the name servers".into(),
            similar: similar(text, names.iter().map(String::as_str)),
        }));
    }
    let alive = client
        .each(found.keys().cloned().collect(), |broker| async move {
            let deadline = Deadline::after(ANSWER);
            let answer = client.broker_runtime(&broker.server(), deadline).await;
            let dead = matches!(
                &answer,
                Err(Error::Call {
                    source: CallError::Connect { .. },
                    ..
                })
            );
            (broker, dead)
        })
        .await;
    if let Some((broker, _)) = alive.iter().find(|(_, dead)| !dead) {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{} accepts connections; nothing was changed", broker.server()),
        )
        .because(
            "A broker that runs registers again within 30 s; only the registration of a dead one is removed.",
        )
        .hint(format!("rmq broker describe {}", broker.id)));
    }
    let mut plan = Plan {
        action: format!("drop the registration of broker {text}"),
        object: text.to_owned(),
        cluster: alive
            .first()
            .map(|(broker, _)| broker.id.cluster.clone())
            .unwrap_or_default(),
        class: Class::B,
        steps: Vec::new(),
        impact: vec![
            "if it still runs behind an address that cannot be reached from here, it registers again".into(),
        ],
    };
    let mut work = Vec::new();
    for (broker, addrs) in found {
        for addr in addrs {
            plan.steps.push(Step {
                target: format!("name server {addr}"),
                field: format!("broker {} {}", broker.id, broker.addr),
                before: "registered".into(),
                after: "absent".into(),
            });
            work.push((addr, broker.clone()));
        }
    }
    let field = format!("broker {text}");
    let unread = (field.as_str(), unread);
    let gone = Undo::Never("a broker that runs registers again by itself");
    change::each(session, plan, unread, work, gone, |(addr, broker)| async move {
        let written = client.unregister_broker(&addr, &broker, client.deadline()).await;
        // A Java name server answers first, and forgets from a queue afterwards.
        let until = std::time::Instant::now() + session.timeout;
        let read_back = async {
            loop {
                let (table, _) = client.look_cluster(&addr, client.deadline()).await?;
                if listed(&table, &broker.addr).is_empty() {
                    return Ok(None);
                }
                if std::time::Instant::now() >= until {
                    return Ok(Some("it is still listed".into()));
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        vec![change::proof(written, read_back).await]
    })
    .await
}
