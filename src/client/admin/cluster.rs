//! Clusters and the brokers in them.

use std::str::FromStr;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::error::{Error, Server, similar};
use crate::client::snapshot::BrokerId;
use crate::client::{Client, Deadline};
use crate::protocol::body::ClusterInfo;
use crate::protocol::requests::{GetBrokerClusterInfo, GetNamesrvConfig};
use std::collections::BTreeMap;

/// A broker and where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokerAt {
    /// Which broker.
    pub id: BrokerId,
    /// Its announced address.
    pub addr: String,
}

impl BrokerAt {
    /// The broker as a server to call. Its name is bare for a master, `name:id` for a slave.
    pub fn server(&self) -> Server {
        let name = if self.id.name.is_empty() {
            return Server::at(&self.addr);
        } else if self.id.is_master() {
            self.id.name.clone()
        } else {
            self.id.to_string()
        };
        Server::named(name, &self.addr)
    }
}

/// How an operator names a broker: `broker-a`, `broker-a:1` or `10.0.0.1:10911`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSelector(pub String);

impl FromStr for BrokerSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("a broker is NAME, NAME:ID or HOST:PORT".into());
        }
        Ok(Self(text.trim().to_owned()))
    }
}

/// Which brokers an operation is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only this cluster.
    pub cluster: Option<String>,
    /// Only these brokers.
    pub brokers: Vec<BrokerSelector>,
}

/// What a bare broker name, or no name, stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Masters, in one cluster: for changes.
    MastersToWrite,
    /// Every replica, in one cluster: for changes that replicas do not copy from each other.
    AllToWrite,
    /// Masters of every cluster.
    Masters,
    /// Every replica of every cluster.
    All,
}

/// All registered brokers of a cluster table, by cluster, name and id.
pub fn registered(info: &ClusterInfo) -> Vec<BrokerAt> {
    let mut list: Vec<BrokerAt> = info
        .broker_addr_table
        .values()
        .flat_map(|set| {
            set.broker_addrs.iter().map(|(id, addr)| BrokerAt {
                id: BrokerId {
                    cluster: cluster_of(info, &set.broker_name, &set.cluster),
                    name: set.broker_name.clone(),
                    id: *id,
                },
                addr: addr.clone(),
            })
        })
        .collect();
    list.sort();
    list
}

/// A broker set says its cluster; the cluster table is the fallback for old name servers that leave it out.
fn cluster_of(info: &ClusterInfo, name: &str, said: &str) -> String {
    if !said.is_empty() {
        return said.to_owned();
    }
    info.cluster_addr_table
        .iter()
        .find(|(_, names)| names.contains(name))
        .map(|(cluster, _)| cluster.clone())
        .unwrap_or_default()
}

/// Cluster names of a cluster table.
pub fn clusters(info: &ClusterInfo) -> Vec<&str> {
    info.cluster_addr_table.keys().map(String::as_str).collect()
}

/// The brokers of `info` that `scope` means. A `HOST:PORT` that nobody registered is taken as it is.
pub fn select(info: &ClusterInfo, scope: &Scope, which: Which) -> Result<Vec<BrokerAt>, Error> {
    let mut all = registered(info);
    if let Some(cluster) = &scope.cluster {
        if !info.cluster_addr_table.contains_key(cluster) {
            return Err(Error::NotFound {
                noun: "cluster",
                name: cluster.clone(),
                searched: String::new(),
                similar: similar(cluster, clusters(info)),
            });
        }
        all.retain(|b| b.id.cluster == *cluster);
    }
    if scope.brokers.is_empty() {
        let writes = matches!(which, Which::MastersToWrite | Which::AllToWrite);
        if writes && scope.cluster.is_none() && info.cluster_addr_table.len() > 1 {
            return Err(Error::Ambiguous {
                what: "there are several clusters",
                names: clusters(info).into_iter().map(str::to_owned).collect(),
            });
        }
        if !matches!(which, Which::All | Which::AllToWrite) {
            all.retain(|b| b.id.is_master());
        }
        return Ok(all);
    }
    let mut chosen: Vec<BrokerAt> = Vec::new();
    for selector in &scope.brokers {
        let found = named(&all, &selector.0, which);
        if found.is_empty() {
            let mut names: Vec<&str> = all.iter().map(|b| b.id.name.as_str()).collect();
            names.dedup();
            return Err(Error::NotFound {
                noun: "broker",
                name: selector.0.clone(),
                searched: scope
                    .cluster
                    .as_ref()
                    .map_or_else(String::new, |c| format!("cluster {c}")),
                similar: similar(&selector.0, names.iter().copied())
                    .into_iter()
                    .chain(names.iter().take(5).map(|n| (*n).to_owned()))
                    .fold(Vec::new(), |mut out, name| {
                        if !out.contains(&name) {
                            out.push(name);
                        }
                        out
                    }),
            });
        }
        for broker in found {
            if !chosen.contains(&broker) {
                chosen.push(broker);
            }
        }
    }
    Ok(chosen)
}

fn named(all: &[BrokerAt], text: &str, which: Which) -> Vec<BrokerAt> {
    let by_addr: Vec<BrokerAt> = all.iter().filter(|b| b.addr == text).cloned().collect();
    if !by_addr.is_empty() {
        return by_addr;
    }
    let by_name: Vec<BrokerAt> = all.iter().filter(|b| b.id.name == text).cloned().collect();
    if !by_name.is_empty() {
        let masters: Vec<BrokerAt> = by_name.iter().filter(|b| b.id.is_master()).cloned().collect();
        let all = matches!(which, Which::All | Which::AllToWrite);
        return if all { by_name } else { masters };
    }
    let Some((name, number)) = text.rsplit_once(':') else {
        return Vec::new();
    };
    let by_id: Vec<BrokerAt> = all
        .iter()
        .filter(|b| b.id.name == name && number.parse() == Ok(b.id.id))
        .cloned()
        .collect();
    let known_name = all.iter().any(|b| b.id.name == name);
    if by_id.is_empty() && !known_name && number.parse::<u16>().is_ok_and(|port| port > 0) {
        return vec![BrokerAt {
            id: BrokerId::default(),
            addr: text.to_owned(),
        }];
    }
    by_id
}

impl Client {
    /// The cluster table of one name server.
    pub async fn cluster_info(&self) -> Result<ClusterInfo, Error> {
        let (_, _, info) = self
            .ask(&GetBrokerClusterInfo::default(), self.deadline())
            .await?;
        Ok(info.value)
    }

    /// The cluster table of every name server with the time of the call.
    pub async fn cluster_info_each(&self) -> Vec<(String, Result<(Duration, ClusterInfo), Error>)> {
        self.cluster_info_each_by(self.deadline()).await
    }

    /// [`Client::cluster_info_each`] with a deadline. Asks for exact liveness, which only an rmq name server answers.
    pub(in crate::client) async fn cluster_info_each_by(
        &self,
        deadline: Deadline,
    ) -> Vec<(String, Result<(Duration, ClusterInfo), Error>)> {
        let header = GetBrokerClusterInfo {
            rmq_live: Some("1".into()),
        };
        self.each(self.name_servers().to_vec(), |addr| {
            let header = &header;
            async move {
                let start = Instant::now();
                let answer = self.call(&Server::at(&addr), header, (), deadline).await;
                if let Err(Error::Call { source, .. }) = &answer {
                    self.mark_dead(&addr, source);
                }
                (addr, answer.map(|(_, info)| (start.elapsed(), info.value)))
            }
        })
        .await
    }

    /// The brokers that `scope` means.
    pub async fn brokers(&self, scope: &Scope, which: Which) -> Result<Vec<BrokerAt>, Error> {
        select(&self.cluster_info().await?, scope, which)
    }

    /// The configuration of every name server.
    pub async fn name_server_configs(&self) -> Vec<(String, Result<BTreeMap<String, String>, Error>)> {
        self.ask_each(&GetNamesrvConfig, self.deadline())
            .await
            .into_iter()
            .map(|(addr, answer)| (addr, answer.map(|(_, text)| super::parse_config(&text.0))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::body::BrokerData;

    fn info() -> ClusterInfo {
        let mut info = ClusterInfo::default();
        for (cluster, name, id, addr) in [
            ("c1", "broker-a", 0, "10.0.0.1:10911"),
            ("c1", "broker-a", 1, "10.0.0.2:10911"),
            ("c2", "broker-b", 0, "10.0.0.3:10911"),
        ] {
            let set = info
                .broker_addr_table
                .entry(name.into())
                .or_insert_with(|| BrokerData {
                    broker_name: name.into(),
                    cluster: cluster.into(),
                    ..BrokerData::default()
                });
            set.broker_addrs.insert(id, addr.into());
            info.cluster_addr_table
                .entry(cluster.into())
                .or_default()
                .insert(name.into());
        }
        info
    }

    fn chosen(cluster: Option<&str>, brokers: &[&str], which: Which) -> Result<Vec<String>, Error> {
        let scope = Scope {
            cluster: cluster.map(str::to_owned),
            brokers: brokers.iter().map(|b| b.parse().unwrap()).collect(),
        };
        select(&info(), &scope, which).map(|list| list.into_iter().map(|b| b.id.to_string()).collect())
    }

    #[test]
    fn a_write_without_a_scope_needs_a_single_cluster() {
        assert!(matches!(
            chosen(None, &[], Which::MastersToWrite),
            Err(Error::Ambiguous { .. })
        ));
        assert_eq!(
            chosen(Some("c1"), &[], Which::MastersToWrite).unwrap(),
            ["broker-a:0"]
        );
        assert_eq!(chosen(None, &[], Which::All).unwrap().len(), 3);
    }

    #[test]
    fn brokers_are_named_by_name_id_or_address() {
        assert_eq!(
            chosen(None, &["broker-a"], Which::MastersToWrite).unwrap(),
            ["broker-a:0"]
        );
        assert_eq!(chosen(None, &["broker-a"], Which::All).unwrap().len(), 2);
        assert_eq!(
            chosen(None, &["broker-a:1"], Which::Masters).unwrap(),
            ["broker-a:1"]
        );
        assert_eq!(
            chosen(None, &["10.0.0.3:10911"], Which::Masters).unwrap(),
            ["broker-b:0"]
        );
        // Not registered: taken as an address.
        assert_eq!(chosen(None, &["9.9.9.9:1"], Which::Masters).unwrap(), [":0"]);
    }

    #[test]
    fn what_does_not_exist_is_told_with_what_does() {
        let Err(Error::NotFound { noun, similar, .. }) = chosen(None, &["broker-z"], Which::All) else {
            panic!("found");
        };
        assert_eq!((noun, similar[0].as_str()), ("broker", "broker-a"));
        assert!(matches!(
            chosen(None, &["broker-a:7"], Which::All),
            Err(Error::NotFound { .. })
        ));
        assert!(matches!(
            chosen(Some("c3"), &[], Which::All),
            Err(Error::NotFound { .. })
        ));
    }
}
