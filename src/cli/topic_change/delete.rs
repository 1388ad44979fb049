//! `rmq topic delete`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;

use super::check_name;
use crate::cli::broker::cluster_of;
use crate::cli::change::{self, Class, Outcome, Plan, Step, Undo, Unread, mention};
use crate::cli::exit::{self, Failure};
use crate::cli::scope::{ScopeArgs, unread as unread_at};
use crate::cli::session::Session;
use crate::cli::topic::{configs, not_found};
use crate::cli::{time, topic_order};
use crate::client::admin::group_check::count;
use crate::client::admin::topic::ConfigSource;
use crate::client::static_topic::is_static;
use crate::client::words::counted;
use crate::client::{BrokerAt, Which};
use crate::protocol::body::{TopicConfig, TopicRouteData};
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};

/// A topic that took a message in this time is in use.
const IN_USE: Duration = Duration::from_secs(600);

/// `rmq topic delete`
#[derive(Debug, Clone, Args)]
pub struct DeleteArgs {
    /// Topic name
    name: String,
    /// With the retry and dead-letter topics of groups that consume only this topic
    #[arg(long)]
    with_retry_dlq: bool,
    /// Delete it although a group is online on it or a message came in the last 10 minutes
    #[arg(long)]
    force: bool,
    /// Delete a system topic
    #[arg(long)]
    force_system: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq topic delete`
pub async fn delete(session: &Session, args: DeleteArgs) -> Result<(), Failure> {
    check_name(session, &args.name, args.force_system).await?;
    let client = &session.client;
    let name = args.name.as_str();
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let (mut targets, mut unread) = (Vec::new(), Vec::new());
    for (broker, answer) in configs(session, &brokers, name).await {
        match answer {
            Ok(Some((config, _))) => targets.push((broker, config)),
            Ok(None) => {}
            Err(e) => unread.push(unread_at(&broker, &e)),
        }
    }
    let cluster = cluster_of(&brokers);
    let whole_cluster = args.scope.broker.is_empty() || nowhere_else(session, name, &cluster, &brokers).await;
    let routes = client.route_each(name).await;
    let silent: Vec<Unread> = routes
        .iter()
        .filter(|_| whole_cluster)
        .filter_map(|(addr, route)| {
            let e = route.as_ref().err()?;
            Some(Unread::at(format!("name server {addr}"), Failure::from(e)))
        })
        .collect();
    let routed: Vec<String> = routes
        .iter()
        .filter(|(_, route)| {
            route.as_ref().is_ok_and(|route| {
                route
                    .as_ref()
                    .is_some_and(|r| r.broker_datas.iter().any(|set| set.cluster == cluster))
            })
        })
        .map(|(addr, _)| addr.clone())
        .collect();
    if targets.is_empty() && routed.is_empty() && unread.is_empty() {
        let searched = format!("{} of cluster {cluster}", counted(brokers.len(), "broker"));
        return Err(not_found(session, name, searched).await);
    }
    let was_static = routes
        .iter()
        .any(|(_, route)| route.as_ref().is_ok_and(|r| r.as_ref().is_some_and(is_static)));
    if was_static {
        session.warn(&format!(
            "a Java name server keeps the mapping of a static topic until its restart: it calls a topic that is made anew as \
             {name} static"
        ));
    }
    let mut impact = impact_of_delete(session, name, &targets, args.force).await?;
    let extra = if args.with_retry_dlq {
        companions(session, name, &targets).await?
    } else {
        Vec::new()
    };
    for (_, topic, messages) in &extra {
        impact.push(format!(
            "{} of {topic} will be lost",
            counted(*messages, "message")
        ));
    }
    let mut plan = Plan {
        action: format!("delete topic {name}"),
        object: name.to_owned(),
        cluster: cluster.clone(),
        class: Class::C,
        steps: Vec::new(),
        impact,
    };
    for (broker, config) in &targets {
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: "topic".into(),
            before: format!(
                "{} read and {} write queues, perm {} {}",
                config.read_queue_nums, config.write_queue_nums, config.perm.0, config.perm
            ),
            after: "absent".into(),
        });
    }
    for (broker, topic, messages) in &extra {
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: topic.clone(),
            before: counted(*messages, "message"),
            after: "absent".into(),
        });
    }
    // A name server is told of a topic of a whole cluster; see `still_routed` for the others.
    let name_servers: Vec<String> = if whole_cluster {
        routes
            .iter()
            .filter(|(_, route)| route.is_ok())
            .map(|(addr, _)| addr.clone())
            .collect()
    } else {
        Vec::new()
    };
    for addr in &name_servers {
        plan.steps.push(Step {
            target: format!("name server {addr}"),
            field: "route".into(),
            before: if routed.contains(addr) {
                "present"
            } else {
                "absent"
            }
            .into(),
            after: "absent".into(),
        });
    }
    let mut more_routes: Vec<(String, String)> = Vec::new();
    for addr in &name_servers {
        let topics: BTreeSet<&String> = extra.iter().map(|(_, topic, _)| topic).collect();
        for topic in topics {
            plan.steps.push(Step {
                target: format!("name server {addr}"),
                field: topic.clone(),
                before: "present".into(),
                after: "absent".into(),
            });
            more_routes.push((addr.clone(), topic.clone()));
        }
    }
    let mut entries: Vec<String> = Vec::new();
    if whole_cluster {
        for (addr, value) in client.order_conf_each(name).await {
            if let Ok(Some(value)) = value {
                plan.steps.push(Step {
                    target: format!("name server {addr}"),
                    field: "order_conf".into(),
                    before: value,
                    after: "absent".into(),
                });
                entries.push(addr);
            }
        }
    }
    mention(
        &mut plan,
        "topic",
        &unread,
        !targets.is_empty() || !routed.is_empty(),
    )?;
    mention(&mut plan, "route", &silent, true)?;
    unread.extend(silent);
    if session.dry_run {
        return change::rehearse(session, &plan, unread, 0);
    }
    change::confirm(session, &plan)?;
    let gone = Undo::Never("the messages are gone; rmq topic create makes the topic anew, empty");
    session.under_way.undone_by(gone.clone());
    let of_topic: Vec<String> = targets.iter().map(|(broker, _)| broker.id.name.clone()).collect();
    let places: Vec<(BrokerAt, String)> = targets
        .into_iter()
        .map(|(broker, _)| (broker, name.to_owned()))
        .chain(extra.into_iter().map(|(broker, topic, _)| (broker, topic)))
        .collect();
    let mut on_brokers = client
        .each(places, |(broker, topic)| async move {
            let server = broker.server();
            let deleted = client
                .delete_topic_on_broker(&server, &topic, client.deadline())
                .await;
            let answered = deleted.is_ok();
            change::proof(deleted, async {
                Ok(
                    match client.topic_config(&broker, &topic, client.deadline()).await? {
                        None => None,
                        // A broker too old to be asked is read through the route, which still has it now.
                        Some((_, ConfigSource::Route)) if answered => None,
                        Some(_) => Some("the broker still has the topic".into()),
                    },
                )
            })
            .await
        })
        .await;
    if !whole_cluster {
        still_routed(session, name, &of_topic, &mut on_brokers).await;
    }
    let routes: Vec<(String, String)> = name_servers
        .into_iter()
        .map(|addr| (addr, name.to_owned()))
        .chain(more_routes)
        .collect();
    let on_name_servers = client
        .each(routes, |(addr, topic)| {
            let cluster = cluster.as_str();
            async move {
                let deleted = client
                    .delete_topic_on_name_server(&addr, &topic, cluster, client.deadline())
                    .await;
                change::proof(deleted, still_at(session, &addr, &topic, cluster)).await
            }
        })
        .await;
    let on_entries = client
        .each(entries, |addr| async move {
            topic_order::write(session, &addr, name, None).await
        })
        .await;
    let not_read = unread.into_iter().map(|u| Outcome::Failed(u.failure));
    let outcomes = on_brokers
        .into_iter()
        .chain(on_name_servers)
        .chain(on_entries)
        .chain(not_read)
        .collect();
    change::report(session, &plan, outcomes, gone)
}

/// True when the other brokers of the cluster answered that they do not have a topic: its routes go with it.
async fn nowhere_else(session: &Session, name: &str, cluster: &str, brokers: &[BrokerAt]) -> bool {
    let scope = crate::client::Scope {
        cluster: Some(cluster.to_owned()),
        ..crate::client::Scope::default()
    };
    let Ok(mut others) = session.client.brokers(&scope, Which::Masters).await else {
        return false;
    };
    others.retain(|broker| !brokers.iter().any(|b| b.id.name == broker.id.name));
    let answers = configs(session, &others, name).await;
    answers.iter().all(|(_, answer)| matches!(answer, Ok(None)))
}

/// A broker that has lost a topic registers without it. What it registered before stays where deleteTopicWithBrokerRegistration
/// is not set, as it is by default with Java's name servers and ours, and no request takes the queues of one broker away.
async fn still_routed(session: &Session, topic: &str, brokers: &[String], outcomes: &mut [Outcome]) {
    let routes = session.client.route_each(topic).await;
    for (broker, outcome) in brokers.iter().zip(outcomes) {
        let lists = |route: &TopicRouteData| route.queue_datas.iter().any(|q| q.broker_name == *broker);
        let left: Vec<&str> = routes
            .iter()
            .filter(|(_, route)| route.as_ref().is_ok_and(|r| r.as_ref().is_some_and(lists)))
            .map(|(addr, _)| addr.as_str())
            .collect();
        if !left.is_empty() && matches!(outcome, Outcome::Done) {
            *outcome = Outcome::DoneBut(format!(
                "but still routed to by {}: a name server forgets it only with deleteTopicWithBrokerRegistration=true, at the \
                 broker's next registration",
                left.join(", ")
            ));
        }
    }
}

/// A name server's "success" proves nothing: a broker that still has the topic brings its route back.
pub async fn still_at(
    session: &Session,
    addr: &str,
    topic: &str,
    cluster: &str,
) -> Result<Option<String>, Failure> {
    let client = &session.client;
    let route = client.route_at(addr, topic, client.deadline()).await?;
    let sets = route.into_iter().flat_map(|route| route.broker_datas);
    let left: Vec<String> = sets
        .filter(|set| set.cluster == cluster)
        .map(|set| set.broker_name)
        .collect();
    Ok((!left.is_empty()).then(|| format!("still routed to {}", left.join(", "))))
}

/// Retry and dead-letter topics of groups that have positions in this topic and in no other, with their messages.
async fn companions(
    session: &Session,
    name: &str,
    targets: &[(BrokerAt, TopicConfig)],
) -> Result<Vec<(BrokerAt, String, i64)>, Failure> {
    let client = &session.client;
    let brokers: Vec<BrokerAt> = targets.iter().map(|(broker, _)| broker.clone()).collect();
    let known = client.known_groups(&brokers).await;
    if let Some((_, e)) = known.failed.first() {
        return Err(Failure::from(e));
    }
    let mut found = Vec::new();
    for (group, state) in &known.groups {
        let own: BTreeSet<&String> = state
            .offsets
            .values()
            .flatten()
            .filter(|topic| !topic.starts_with(RETRY_PREFIX))
            .collect();
        if own.len() != 1 || !own.iter().any(|topic| *topic == name) {
            continue;
        }
        for broker in &brokers {
            for topic in [format!("{RETRY_PREFIX}{group}"), format!("{DLQ_PREFIX}{group}")] {
                if client
                    .topic_config(broker, &topic, client.deadline())
                    .await?
                    .is_some()
                {
                    let stats = client
                        .topic_stats(&broker.server(), &topic, client.deadline())
                        .await?;
                    found.push((broker.clone(), topic, count(&stats)));
                }
            }
        }
    }
    Ok(found)
}

/// What is lost with a topic; refuses while it is in use.
async fn impact_of_delete(
    session: &Session,
    name: &str,
    targets: &[(BrokerAt, TopicConfig)],
    force: bool,
) -> Result<Vec<String>, Failure> {
    let client = &session.client;
    let (mut messages, mut last_stored) = (0_i64, 0_i64);
    let mut online = BTreeSet::new();
    for (broker, _) in targets {
        let server = broker.server();
        let stats = client.topic_stats(&server, name, client.deadline()).await?;
        for offsets in stats.offset_table.values() {
            messages += offsets.max_offset.saturating_sub(offsets.min_offset).max(0);
            last_stored = last_stored.max(offsets.last_update_timestamp);
        }
        for group in client.topic_groups(&server, name, client.deadline()).await? {
            let clients = client.group_clients(&server, &group, client.deadline()).await?;
            if clients
                .is_some_and(|c| !c.connection_set.is_empty() && c.subscription_table.contains_key(name))
            {
                online.insert(group);
            }
        }
    }
    let mut impact = vec![format!("{} will be lost", counted(messages, "message"))];
    let mut in_use = Vec::new();
    if !online.is_empty() {
        let groups: Vec<String> = online.into_iter().collect();
        in_use.push(format!("groups online on it: {}", groups.join(", ")));
    }
    let idle = u64::try_from(time::now_ms().saturating_sub(last_stored)).unwrap_or(0);
    if last_stored > 0 && Duration::from_millis(idle) < IN_USE {
        in_use.push(format!(
            "the last message came {} ago",
            time::duration(Duration::from_millis(idle))
        ));
    }
    if !in_use.is_empty() && !force {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("topic \"{name}\" is in use; nothing was changed"),
        )
        .because(in_use.join("; "))
        .hint("--force deletes it all the same"));
    }
    impact.extend(in_use);
    Ok(impact)
}
