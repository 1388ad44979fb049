//! Name servers: the KV store, write permissions, registrations, and what two of them disagree about.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::BrokerAt;
use super::topic::route_header;
use crate::client::error::{Error, Server};
use crate::client::snapshot::BrokerId;
use crate::client::{Client, Deadline};
use crate::protocol::body::{QueueData, TopicRouteData};
use crate::protocol::codes;
use crate::protocol::model::Perm;
use crate::protocol::requests::{
    AddWritePermOfBroker, DeleteKvConfig, GetKvConfig, GetKvlistByNamespace, PutKvConfig, UnregisterBroker,
    WipeWritePermOfBroker,
};

/// Namespace of the order configuration of topics, the only one that servers use themselves.
pub const ORDER_NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

/// What one name server knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NameServerView {
    /// Its address.
    pub addr: String,
    /// Registered brokers with their addresses.
    pub brokers: BTreeMap<BrokerId, String>,
    /// Routes by topic.
    pub routes: BTreeMap<String, TopicRouteData>,
    /// Entries of the KV store by namespace and key, of the namespaces that were asked for.
    pub kv: BTreeMap<String, BTreeMap<String, String>>,
}

impl NameServerView {
    fn kv(&self, namespace: &str, key: &str) -> Option<&String> {
        self.kv.get(namespace)?.get(key)
    }
}

/// One thing that name servers do not agree about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// `broker`, `topic`, `kv`.
    pub kind: &'static str,
    /// Name of it; of a KV entry its namespace.
    pub name: String,
    /// What of it; of a KV entry its key.
    pub field: String,
    /// What each name server says, in their order.
    pub values: Vec<(String, String)>,
}

/// One broker's part of a route, as text: read/write queues, permission.
fn queues_text(queues: &QueueData) -> String {
    format!(
        "{}/{} {}",
        queues.read_queue_nums, queues.write_queue_nums, queues.perm
    )
}

/// What the views do not agree about, by kind and name. A single view agrees with itself.
pub fn differences(views: &[NameServerView]) -> Vec<Difference> {
    let mut out = Vec::new();
    let mut compare = |kind, name: &str, field: &str, value: &dyn Fn(&NameServerView) -> String| {
        let values: Vec<(String, String)> = views.iter().map(|v| (v.addr.clone(), value(v))).collect();
        if values.iter().any(|(_, v)| *v != values[0].1) {
            out.push(Difference {
                kind,
                name: name.to_owned(),
                field: field.to_owned(),
                values,
            });
        }
    };
    let brokers: BTreeSet<&BrokerId> = views.iter().flat_map(|v| v.brokers.keys()).collect();
    for broker in brokers {
        compare("broker", &broker.to_string(), "addr", &|view| {
            let addr = view.brokers.get(broker);
            addr.map_or_else(|| "absent".to_owned(), |addr| addr.clone())
        });
    }
    let topics: BTreeSet<&String> = views.iter().flat_map(|v| v.routes.keys()).collect();
    for topic in topics {
        let names: BTreeSet<&String> = views
            .iter()
            .filter_map(|v| v.routes.get(topic))
            .flat_map(|route| route.queue_datas.iter().map(|q| &q.broker_name))
            .collect();
        for broker in names {
            compare("topic", topic, broker, &|view| {
                view.routes
                    .get(topic)
                    .and_then(|route| route.queue_datas.iter().find(|q| q.broker_name == *broker))
                    .map_or_else(|| "absent".to_owned(), queues_text)
            });
        }
        // Routes carry the order entry, which is told as such where it is what differs.
        let entry = views.first().and_then(|v| v.kv(ORDER_NAMESPACE, topic));
        if views.iter().all(|v| v.kv(ORDER_NAMESPACE, topic) == entry) {
            compare("topic", topic, "order_conf", &|view| {
                let conf = view.routes.get(topic).and_then(|r| r.order_topic_conf.clone());
                conf.unwrap_or_else(|| "-".to_owned())
            });
        }
    }
    let of_view = |view: &NameServerView| -> Vec<(String, String)> {
        let keys = view.kv.iter();
        keys.flat_map(|(namespace, table)| table.keys().map(|key| (namespace.clone(), key.clone())))
            .collect()
    };
    let entries: BTreeSet<(String, String)> = views.iter().flat_map(of_view).collect();
    for (namespace, key) in &entries {
        compare("kv", namespace, key, &|view| {
            view.kv(namespace, key)
                .cloned()
                .unwrap_or_else(|| "absent".to_owned())
        });
    }
    out.sort();
    out
}

impl Client {
    /// The route of a topic at one name server; `None` when it has none.
    pub async fn route_at(
        &self,
        addr: &str,
        topic: &str,
        deadline: Deadline,
    ) -> Result<Option<TopicRouteData>, Error> {
        match self
            .call(&Server::at(addr), &route_header(topic), (), deadline)
            .await
        {
            Ok((_, route)) => Ok(Some(route.value)),
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Routes of several topics at one name server. One that is gone meanwhile is left out.
    pub async fn routes_at(
        &self,
        addr: &str,
        topics: impl IntoIterator<Item = String>,
    ) -> Result<BTreeMap<String, TopicRouteData>, Error> {
        let answers = self
            .each(topics.into_iter().collect(), |topic| async move {
                let route = self.route_at(addr, &topic, self.deadline()).await;
                (topic, route)
            })
            .await;
        let mut routes = BTreeMap::new();
        for (topic, route) in answers {
            if let Some(route) = route? {
                routes.insert(topic, route);
            }
        }
        Ok(routes)
    }

    /// What one name server knows: its brokers, the routes of `topics` or of all its topics, and its entries in these
    /// namespaces (no request lists the namespaces).
    pub async fn name_server_view(
        &self,
        addr: &str,
        topics: Option<&[String]>,
        namespaces: &[&str],
    ) -> Result<NameServerView, Error> {
        let (table, _) = self.look_cluster(addr, self.deadline()).await?;
        let topics = match topics {
            Some(topics) => topics.to_vec(),
            None => self.look_topic_names(addr, self.deadline()).await?,
        };
        let mut kv = BTreeMap::new();
        for namespace in namespaces {
            let table = self.kv_list(addr, namespace, self.deadline()).await?;
            kv.insert((*namespace).to_owned(), table.unwrap_or_default());
        }
        Ok(NameServerView {
            kv,
            addr: addr.to_owned(),
            brokers: table
                .listed
                .into_iter()
                .map(|listed| (listed.broker, listed.addr))
                .collect(),
            routes: self.routes_at(addr, topics).await?,
        })
    }

    /// Permission of a broker's part of each of its `topics` at one name server.
    pub async fn perms_at(
        &self,
        addr: &str,
        broker: &str,
        topics: impl IntoIterator<Item = String>,
    ) -> Result<BTreeMap<String, Perm>, Error> {
        let routes = self.routes_at(addr, topics).await?;
        let perm = |route: &TopicRouteData| {
            let queues = route.queue_datas.iter().find(|q| q.broker_name == broker)?;
            Some(queues.perm)
        };
        Ok(routes
            .into_iter()
            .filter_map(|(topic, route)| Some((topic, perm(&route)?)))
            .collect())
    }

    /// All values of a namespace at one name server; `None` when it has no such namespace.
    pub async fn kv_list(
        &self,
        addr: &str,
        namespace: &str,
        deadline: Deadline,
    ) -> Result<Option<BTreeMap<String, String>>, Error> {
        let header = GetKvlistByNamespace {
            namespace: Some(namespace.to_owned()),
        };
        match self.call(&Server::at(addr), &header, (), deadline).await {
            Ok((_, table)) => Ok(Some(table.value.table)),
            Err(e) if e.remote_code() == Some(codes::QUERY_NOT_FOUND) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// One value at one name server.
    pub async fn kv_get(
        &self,
        addr: &str,
        namespace: &str,
        key: &str,
        deadline: Deadline,
    ) -> Result<Option<String>, Error> {
        let header = GetKvConfig {
            namespace: Some(namespace.to_owned()),
            key: Some(key.to_owned()),
        };
        match self.call(&Server::at(addr), &header, (), deadline).await {
            Ok((reply, ())) => Ok(reply.value),
            Err(e) if e.remote_code() == Some(codes::QUERY_NOT_FOUND) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Sets one value at one name server, or removes it.
    pub async fn kv_set(
        &self,
        addr: &str,
        (namespace, key): (&str, &str),
        value: Option<&str>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let (server, namespace, key) = (Server::at(addr), Some(namespace.to_owned()), Some(key.to_owned()));
        match value {
            Some(value) => {
                let header = PutKvConfig {
                    namespace,
                    key,
                    value: Some(value.to_owned()),
                };
                self.call(&server, &header, (), deadline).await.map(drop)
            }
            None => {
                let header = DeleteKvConfig { namespace, key };
                self.call(&server, &header, (), deadline).await.map(drop)
            }
        }
    }

    /// Takes the write permission of a broker's topics away at one name server, or gives read and write to all of them.
    /// How many topics it changed. The name server keeps it in memory alone.
    pub async fn set_write_perm(
        &self,
        addr: &str,
        broker: &str,
        writable: bool,
        deadline: Deadline,
    ) -> Result<i32, Error> {
        let (server, broker_name) = (Server::at(addr), broker.to_owned());
        if writable {
            let header = AddWritePermOfBroker { broker_name };
            let (reply, ()) = self.call(&server, &header, (), deadline).await?;
            Ok(reply.add_topic_count)
        } else {
            let header = WipeWritePermOfBroker { broker_name };
            let (reply, ()) = self.call(&server, &header, (), deadline).await?;
            Ok(reply.wipe_topic_count)
        }
    }

    /// Removes a registration from one name server.
    pub async fn unregister_broker(
        &self,
        addr: &str,
        broker: &BrokerAt,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = UnregisterBroker {
            broker_name: broker.id.name.clone(),
            broker_addr: broker.addr.clone(),
            cluster_name: broker.id.cluster.clone(),
            broker_id: broker.id.id,
        };
        self.call(&Server::at(addr), &header, (), deadline)
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(addr: &str, broker: &str, topic: &str, perm: i32) -> NameServerView {
        let id = BrokerId {
            cluster: "c".into(),
            name: "b".into(),
            id: 0,
        };
        let route = TopicRouteData {
            queue_datas: vec![QueueData {
                broker_name: "b".into(),
                perm: Perm(perm),
                read_queue_nums: 8,
                write_queue_nums: 8,
                ..QueueData::default()
            }],
            ..TopicRouteData::default()
        };
        NameServerView {
            addr: addr.into(),
            brokers: [(id, broker.to_owned())].into(),
            routes: [(topic.to_owned(), route)].into(),
            kv: BTreeMap::new(),
        }
    }

    #[test]
    fn name_servers_that_agree_have_no_differences() {
        assert!(differences(&[view("n1", "a:1", "t", 6), view("n2", "a:1", "t", 6)]).is_empty());
        assert!(differences(&[view("n1", "a:1", "t", 6)]).is_empty());
        assert!(differences(&[]).is_empty());
    }

    #[test]
    fn each_disagreement_is_told_with_what_everyone_says() {
        let found = differences(&[view("n1", "a:1", "t", 6), view("n2", "a:2", "t", 4)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].kind, found[0].name.as_str()), ("broker", "b:0"));
        assert_eq!(found[0].values[1], ("n2".into(), "a:2".into()));
        assert_eq!(found[1].values[0].1, format!("8/8 {}", Perm(6)));
        let missing = differences(&[view("n1", "a:1", "t", 6), view("n2", "a:1", "u", 6)]);
        let names: Vec<&str> = missing.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["t", "u"]);
        assert_eq!(missing[0].values[1].1, "absent");
    }

    #[test]
    fn an_entry_that_differs_is_told_once() {
        let with = |addr: &str, entry: Option<&str>| {
            let mut view = view(addr, "a:1", "t", 6);
            let entries = entry.map(|value| ("t".to_owned(), value.to_owned()));
            view.kv
                .insert(ORDER_NAMESPACE.to_owned(), entries.into_iter().collect());
            // A name server with orderMessageEnable hands it out with the route.
            view.routes.get_mut("t").unwrap().order_topic_conf = entry.map(str::to_owned);
            view
        };
        let same = [with("n1", Some("b:8")), with("n2", Some("b:8"))];
        assert_eq!(differences(&same), []);
        let found = differences(&[with("n1", Some("b:8")), with("n2", None)]);
        let values = [("n1", "b:8"), ("n2", "absent")].map(|(a, v)| (a.to_owned(), v.to_owned()));
        let wanted = Difference {
            kind: "kv",
            name: ORDER_NAMESPACE.to_owned(),
            field: "t".to_owned(),
            values: values.to_vec(),
        };
        assert_eq!(found, [wanted]);
        // The same entry, handed out by one of them alone.
        let mut silent = with("n2", Some("b:8"));
        silent.routes.get_mut("t").unwrap().order_topic_conf = None;
        let found = differences(&[with("n1", Some("b:8")), silent]);
        assert_eq!((found.len(), found[0].field.as_str()), (1, "order_conf"));
    }
}
