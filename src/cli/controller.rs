//! `rmq controller`: leader, replicas, elections. Controllers are Java's; nothing of rmq is one.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::change::{self, Class, Outcome, Plan, Step, Undo};
use super::exit::{self, Failure};
use super::output::{Detail, Listing, col, wide};
use super::server_config::{self, Target, explained, pair};
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::config::ConfigOf;
use crate::client::admin::controller::Forget;
use crate::client::{Error, Scope, Server, Which};
use crate::protocol::body::ReplicasInfo;

/// Where the controllers are.
#[derive(Debug, Clone, Default, Args)]
pub struct ControllerArgs {
    /// Controllers, separated by ; [default: controllerAddr of the brokers]
    #[arg(
        short = 'a',
        long,
        env = "RMQ_CONTROLLER",
        value_name = "HOST:PORT[;…]",
        hide_env = true
    )]
    controller: Option<String>,
}

/// `NAME:ID`, the controller's number of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    name: String,
    id: i64,
}

impl std::str::FromStr for Replica {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not NAME:ID, with the controller's number of the replica");
        let (name, id) = text.rsplit_once(':').ok_or_else(wrong)?;
        let id = id.parse().ok().filter(|id| *id > 0).ok_or_else(wrong)?;
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            name: name.to_owned(),
            id,
        })
    }
}

/// Commands on controllers.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show the group of controllers and its leader
    Get {
        #[command(flatten)]
        at: ControllerArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the configuration of each controller, whole or some keys
    GetConfig {
        /// Keys to show
        keys: Vec<String>,
        #[command(flatten)]
        at: ControllerArgs,
    },
    /// Change configuration keys on every controller
    SetConfig {
        /// Changes
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        changes: Vec<(String, String)>,
        #[command(flatten)]
        at: ControllerArgs,
    },
    /// Show which replicas of broker sets are in sync
    SyncState {
        /// Broker names; every one when none is named
        brokers: Vec<String>,
        /// Only broker sets of this cluster
        #[arg(short, long, value_name = "NAME")]
        cluster: Option<String>,
        #[command(flatten)]
        at: ControllerArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Make a replica the master of its broker set
    Elect {
        /// NAME:ID, with the controller's number of the replica
        replica: Replica,
        /// Elect it although it is not in sync
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        at: ControllerArgs,
    },
    /// Let the controllers forget replicas of a broker set
    CleanBroker {
        /// Broker name
        broker: String,
        /// The controller's number of a replica; repeatable
        #[arg(long, value_name = "N", required_unless_present = "all")]
        id: Vec<i64>,
        /// Every replica of the set
        #[arg(long, conflicts_with = "id")]
        all: bool,
        /// Replicas that are alive as well: controllers then forget the whole set, whatever is named
        #[arg(long, requires = "all")]
        living: bool,
        #[command(flatten)]
        at: ControllerArgs,
    },
}

/// Runs a controller command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Get { at, watch } => get(session, &at, &watch).await,
        Command::GetConfig { keys, at } => {
            let servers = controllers(session, &at).await?.iter().map(Server::at).collect();
            let kind = (ConfigOf::Controller, "ControllerConfig", "controller");
            let rows = server_config::get(session, kind, servers, &keys).await?;
            let verdict = Failure::over(&rows.listing.errors, rows.some_answered);
            session.printer.print(rows.listing)?;
            verdict
        }
        Command::SetConfig { changes, at } => {
            let addrs = controllers(session, &at).await?;
            let targets = addrs.iter().map(|addr| Target {
                server: Server::at(addr),
                undo: format!("rmq controller set-config -a {addr}"),
            });
            let names = (
                "set configuration of the controllers".to_owned(),
                addrs.join(";"),
                session.cluster.clone().unwrap_or_default(),
            );
            server_config::set(session, ConfigOf::Controller, names, targets.collect(), &changes).await
        }
        Command::SyncState {
            brokers,
            cluster,
            at,
            watch,
        } => {
            watch::print(session, &watch, || {
                sync_state(session, &brokers, cluster.as_deref(), &at)
            })
            .await
        }
        Command::Elect { replica, force, at } => elect(session, replica, force, &at).await,
        Command::CleanBroker {
            broker,
            id,
            living,
            at,
            ..
        } => clean(session, broker, id, living, &at).await,
    }
}

fn failed(e: &Error) -> Failure {
    explained(ConfigOf::Controller, Failure::from(e))
}

/// Addresses of the controllers: as named, else as the brokers are configured.
async fn controllers(session: &Session, at: &ControllerArgs) -> Result<Vec<String>, Failure> {
    let split = |text: &str| -> Vec<String> {
        text.split([';', ','])
            .map(|a| a.trim().to_owned())
            .filter(|a| !a.is_empty())
            .collect()
    };
    if let Some(text) = &at.controller {
        let addrs = split(text);
        if addrs.is_empty() {
            return Err(Failure::usage("--controller is empty"));
        }
        return Ok(addrs);
    }
    let client = &session.client;
    let scope = Scope {
        cluster: session.cluster.clone(),
        brokers: Vec::new(),
    };
    let brokers = client.brokers(&scope, Which::Masters).await;
    session.warn_of_dead_name_servers();
    let configs = client
        .each(brokers?, |broker| async move {
            client.look_config(&broker.server(), client.deadline()).await
        })
        .await;
    configs
        .into_iter()
        .flatten()
        .filter_map(|config| config.entries.get("controllerAddr").map(|text| split(text)))
        .find(|addrs| !addrs.is_empty())
        .ok_or_else(|| {
            Failure::new(exit::UNSUPPORTED, "no broker names a controller")
                .because(
                    "Controller mode needs enableControllerMode=true and controllerAddr on Java brokers; rmq has no controller.",
                )
                .hint("--controller HOST:PORT")
        })
}

/// The leader, asked of one controller after the other.
async fn leader(session: &Session, at: &ControllerArgs) -> Result<Server, Failure> {
    let client = &session.client;
    let mut first = None;
    for addr in controllers(session, at).await? {
        match client.controller_leader(&addr, client.deadline()).await {
            Ok(leader) => return Ok(leader),
            Err(e) => {
                first.get_or_insert_with(|| failed(&e));
            }
        }
    }
    Err(first.unwrap_or_else(|| Failure::usage("no controller is named")))
}

async fn get(session: &Session, at: &ControllerArgs, watch: &WatchArgs) -> Result<(), Failure> {
    let client = &session.client;
    if watch.interval().is_none() {
        let (mut failures, mut detail) = (Vec::new(), None);
        for addr in controllers(session, at).await? {
            match client.controller_metadata(&addr, client.deadline()).await {
                Ok(meta) => {
                    detail.get_or_insert((addr, meta));
                }
                Err(e) => failures.push(failed(&e)),
            }
        }
        let verdict = Failure::over(&failures, detail.is_some());
        if let Some((addr, meta)) = detail {
            let mut peers = Listing::new("ControllerPeers", &[col("peer"), col("addr")]);
            for peer in meta
                .peers
                .iter()
                .flat_map(|p| p.split(';'))
                .filter(|p| !p.is_empty())
            {
                let (name, at) = peer.split_once([':', '-']).unwrap_or((peer, ""));
                peers.push(vec![name.into(), at.into()]);
            }
            session.printer.print_detail(Detail {
                kind: "Controller",
                fields: vec![
                    ("group", meta.group.into()),
                    ("leader_id", meta.controller_leader_id.into()),
                    ("leader_addr", meta.controller_leader_address.into()),
                    ("asked", addr.into()),
                    ("asked_leads", meta.is_leader.into()),
                ],
                tables: vec![("peers", peers)],
                errors: failures,
            })?;
        }
        return verdict;
    }
    watch::print(session, watch, || async {
        let mut listing = Listing::new(
            "ControllerList",
            &[
                col("controller"),
                col("leads"),
                col("leader_id"),
                col("leader_addr"),
            ],
        );
        let mut some_answered = false;
        for addr in controllers(session, at).await? {
            match client.controller_metadata(&addr, client.deadline()).await {
                Ok(meta) => {
                    some_answered = true;
                    listing.push(vec![
                        addr.into(),
                        meta.is_leader.into(),
                        meta.controller_leader_id.into(),
                        meta.controller_leader_address.into(),
                    ]);
                }
                Err(e) => listing.errors.push(failed(&e)),
            }
        }
        Ok(Rows {
            listing,
            some_answered,
        })
    })
    .await
}

async fn sync_state(
    session: &Session,
    brokers: &[String],
    cluster: Option<&str>,
    at: &ControllerArgs,
) -> Result<Rows, Failure> {
    let client = &session.client;
    let leader = leader(session, at).await?;
    let names = if brokers.is_empty() {
        let scope = Scope {
            cluster: cluster.map(str::to_owned).or_else(|| session.cluster.clone()),
            brokers: Vec::new(),
        };
        let all = client.brokers(&scope, Which::All).await?;
        let mut names: Vec<String> = all.into_iter().map(|b| b.id.name).collect();
        names.dedup();
        names
    } else {
        brokers.to_vec()
    };
    let states = client
        .sync_states(&leader, names.clone(), client.deadline())
        .await
        .map_err(|e| failed(&e))?;
    let mut listing = Listing::new(
        "SyncStateList",
        &[
            col("broker"),
            col("id"),
            col("role"),
            col("in_sync"),
            col("alive"),
            col("addr"),
            col("master_epoch"),
            col("sync_epoch"),
            wide("controller"),
        ],
    );
    for (name, info) in &states.replicas_info_table {
        let replicas = info.in_sync_replicas.iter().map(|r| (r, true));
        let others = info.not_in_sync_replicas.iter().map(|r| (r, false));
        for (replica, in_sync) in replicas.chain(others) {
            let master = replica.broker_id.is_some() && replica.broker_id == info.master_broker_id;
            listing.push(vec![
                name.as_str().into(),
                replica.broker_id.into(),
                if master { "master" } else { "slave" }.into(),
                in_sync.into(),
                replica.alive.into(),
                replica.broker_address.clone().into(),
                info.master_epoch.into(),
                info.sync_state_set_epoch.into(),
                leader.addr.as_str().into(),
            ]);
        }
    }
    for name in brokers {
        if !states.replicas_info_table.contains_key(name) {
            listing.errors.push(unknown(&leader, name));
        }
    }
    let some_answered = !states.replicas_info_table.is_empty() || brokers.is_empty();
    Ok(Rows {
        listing,
        some_answered,
    })
}

fn unknown(leader: &Server, name: &str) -> Failure {
    Failure::new(
        exit::NOT_FOUND,
        format!("controller {leader} does not know a broker set \"{name}\""),
    )
    .hint("rmq controller sync-state")
}

async fn replicas(session: &Session, leader: &Server, name: &str) -> Result<ReplicasInfo, Failure> {
    let client = &session.client;
    let mut states = client
        .sync_states(leader, vec![name.to_owned()], client.deadline())
        .await
        .map_err(|e| failed(&e))?;
    states
        .replicas_info_table
        .remove(name)
        .ok_or_else(|| unknown(leader, name))
}

/// The cluster of a broker name, by the name servers; empty when none lists it.
async fn cluster_of(session: &Session, name: &str) -> Result<String, Failure> {
    let all = session.client.brokers(&Scope::default(), Which::All).await?;
    let found = all.into_iter().find(|b| b.id.name == name);
    Ok(found.map(|b| b.id.cluster).unwrap_or_default())
}

async fn elect(session: &Session, replica: Replica, force: bool, at: &ControllerArgs) -> Result<(), Failure> {
    let client = &session.client;
    let leader = leader(session, at).await?;
    let Replica { name, id } = replica;
    let info = replicas(session, &leader, &name).await?;
    let known = info.in_sync_replicas.iter().map(|r| (r, true));
    let known = known.chain(info.not_in_sync_replicas.iter().map(|r| (r, false)));
    let Some((found, in_sync)) = known.into_iter().find(|(r, _)| r.broker_id == Some(id)) else {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("broker set {name} has no replica {id} at controller {leader}"),
        )
        .hint(format!("rmq controller sync-state {name}")));
    };
    let addr = found.broker_address.clone().unwrap_or_default();
    let mut plan = Plan {
        action: format!("elect {name}:{id} master"),
        object: name.clone(),
        cluster: cluster_of(session, &name).await?,
        class: Class::B,
        steps: Vec::new(),
        impact: vec!["sends to this broker fail until the name servers know the new master".into()],
    };
    let before = info.master_broker_id;
    if before != Some(id) {
        if found.alive == Some(false) {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!("{name}:{id} {addr} is not alive; nothing was changed"),
            ));
        }
        if !in_sync && !force {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!("{name}:{id} {addr} is not in sync; nothing was changed"),
            )
            .because("Messages that it has not yet would be lost.")
            .hint("--force, where the controller allows it (enableElectUncleanMaster=true)"));
        }
        if !in_sync {
            plan.class = Class::C;
            plan.impact.push("what it has not yet is lost".into());
        }
        let text = |id: Option<i64>, addr: Option<&String>| match (id, addr) {
            (Some(id), Some(addr)) => format!("{id} {addr}"),
            (Some(id), None) => id.to_string(),
            (None, _) => "none".to_owned(),
        };
        plan.steps.push(Step {
            target: format!("controller {leader}"),
            field: format!("master of {name}"),
            before: text(before, info.master_address.as_ref()),
            after: text(Some(id), Some(&addr)),
        });
        // Without a master nobody uses the set.
        if let Some(master) = &info.master_address {
            let master = Server::named(&name, master);
            plan.impact.push(client.use_of_brokers([master]).await);
        }
    }
    let undo = before.map(|old| format!("rmq controller elect {name}:{old} -a {leader}"));
    let cluster = plan.cluster.clone();
    change::execute(session, plan, undo, async |_| {
        let who = (cluster.as_str(), name.as_str(), id);
        let elected = client.elect_master(&leader, who, client.deadline()).await;
        let end = tokio::time::Instant::now() + session.timeout;
        let read_back = async {
            loop {
                let now = replicas(session, &leader, &name).await?.master_broker_id;
                if now == Some(id) {
                    return Ok(None);
                }
                if tokio::time::Instant::now() >= end {
                    let now = now.map_or_else(|| "nobody".to_owned(), |id| id.to_string());
                    return Ok(Some(format!("the master is {now}")));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        vec![change::proof(elected.map_err(|e| failed(&e)), read_back).await]
    })
    .await
}

async fn clean(
    session: &Session,
    broker: String,
    ids: Vec<i64>,
    living: bool,
    at: &ControllerArgs,
) -> Result<(), Failure> {
    let client = &session.client;
    let leader = leader(session, at).await?;
    let info = replicas(session, &leader, &broker).await?;
    let known: Vec<(i64, Option<bool>, String)> = info
        .in_sync_replicas
        .iter()
        .chain(&info.not_in_sync_replicas)
        .filter_map(|r| {
            let addr = r.broker_address.clone().unwrap_or_default();
            Some((r.broker_id?, r.alive, addr))
        })
        .collect();
    for id in &ids {
        if !known.iter().any(|(known, _, _)| known == id) {
            let all: Vec<String> = known.iter().map(|(id, _, _)| id.to_string()).collect();
            return Err(Failure::new(
                exit::NOT_FOUND,
                format!("broker set {broker} has no replica {id} at controller {leader}"),
            )
            .because(format!("It has: {}.", all.join(", "))));
        }
    }
    let chosen: Vec<&(i64, Option<bool>, String)> = known
        .iter()
        .filter(|(id, _, _)| ids.is_empty() || ids.contains(id))
        .collect();
    if let Some((id, _, addr)) = chosen
        .iter()
        .find(|(_, alive, _)| *alive == Some(true))
        .filter(|_| !living)
    {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("replica {broker}:{id} {addr} is alive; nothing was changed"),
        )
        .hint("--all --living forgets the whole set"));
    }
    let cluster = cluster_of(session, &broker).await?;
    let plan = Plan {
        action: format!("forget replicas of {broker}"),
        object: broker.clone(),
        cluster: cluster.clone(),
        class: Class::C,
        steps: chosen
            .iter()
            .map(|(id, _, addr)| Step {
                target: format!("controller {leader}"),
                field: format!("replica {broker}:{id} {addr}"),
                before: "known".into(),
                after: "absent".into(),
            })
            .collect(),
        impact: vec!["a forgotten replica gets a new number when it comes back".into()],
    };
    let ids: Vec<i64> = chosen.iter().map(|(id, _, _)| *id).collect();
    let forget = Forget {
        cluster: Some(cluster).filter(|c| !c.is_empty()),
        broker,
        ids: ids.clone(),
        living,
    };
    let gone = Undo::Never("a replica that comes back registers anew");
    change::execute(session, plan, gone, async |_| {
        let forgotten = client.forget_replicas(&leader, &forget, client.deadline()).await;
        let forgotten = forgotten.map_err(|e| failed(&e));
        let left: Result<Vec<i64>, Failure> = match &forgotten {
            Err(failure) if !failure.unsettled => return vec![Outcome::Failed(failure.clone()); ids.len()],
            _ => match replicas(session, &leader, &forget.broker).await {
                Ok(now) => Ok(now
                    .in_sync_replicas
                    .iter()
                    .chain(&now.not_in_sync_replicas)
                    .filter_map(|r| r.broker_id)
                    .collect()),
                // The whole set is gone.
                Err(failure) if failure.exit == exit::NOT_FOUND => Ok(Vec::new()),
                Err(failure) => Err(failure),
            },
        };
        let mut outcomes = Vec::new();
        for id in &ids {
            let known = |left: &Vec<i64>| {
                left.contains(id)
                    .then(|| "the controller still knows it".to_owned())
            };
            let read_back = std::future::ready(left.as_ref().map(known).map_err(Clone::clone));
            outcomes.push(change::proof(forgotten.clone(), read_back).await);
        }
        outcomes
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_a_name_and_a_number() {
        let replica: Replica = "broker-m:2".parse().unwrap();
        assert_eq!((replica.name.as_str(), replica.id), ("broker-m", 2));
        for bad in ["broker-m", "broker-m:", "broker-m:x", "broker-m:0", ":1", ""] {
            assert!(bad.parse::<Replica>().is_err(), "{bad}");
        }
    }
}
