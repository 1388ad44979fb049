//! Client processes: who is connected, what a consumer holds, a message pushed to one.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::BrokerAt;
use crate::client::error::{Error, Server};
use crate::client::{Client, Deadline};
use crate::protocol::body::{
    ConsumeMessageDirectlyResult, ConsumerConnection, ConsumerRunningInfo, ProducerConnection, ProducerInfo,
};
use crate::protocol::codes;
use crate::protocol::requests::{
    ConsumeMessageDirectly, GetAllProducerInfo, GetConsumerRunningInfo, GetProducerConnectionList,
};

/// The clients of a group, over several brokers.
#[derive(Debug, Default)]
pub struct GroupClients {
    /// Each broker's answer; `None` where no client is connected.
    pub by_broker: Vec<(BrokerAt, Result<Option<ConsumerConnection>, Error>)>,
}

impl GroupClients {
    /// Client ids with the brokers they are connected to.
    pub fn ids(&self) -> BTreeMap<String, Vec<BrokerAt>> {
        let mut ids: BTreeMap<String, Vec<BrokerAt>> = BTreeMap::new();
        for (broker, connection) in &self.by_broker {
            let Ok(Some(connection)) = connection else {
                continue;
            };
            let here: BTreeSet<&String> = connection.connection_set.iter().map(|c| &c.client_id).collect();
            for id in here {
                ids.entry(id.clone()).or_default().push(broker.clone());
            }
        }
        ids
    }

    /// The answers of brokers that have clients.
    pub fn connections(&self) -> impl Iterator<Item = (&BrokerAt, &ConsumerConnection)> {
        self.by_broker
            .iter()
            .filter_map(|(broker, c)| Some((broker, c.as_ref().ok()?.as_ref()?)))
    }

    /// Brokers that did not answer.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.by_broker.iter().filter_map(|(_, c)| c.as_ref().err())
    }
}

impl Client {
    /// The clients of a group on each of `brokers`.
    pub async fn clients_of_group(&self, brokers: &[BrokerAt], group: &str) -> GroupClients {
        let deadline = self.deadline();
        let by_broker = self
            .each(brokers.to_vec(), |broker| async move {
                let connection = self.group_clients(&broker.server(), group, deadline).await;
                (broker, connection)
            })
            .await;
        GroupClients { by_broker }
    }

    /// What a consumer tells about itself. Its brokers are tried one after the other: the answer travels over the
    /// client's own connection to one of them.
    pub async fn consumer_running_info(
        &self,
        brokers: &[BrokerAt],
        group: &str,
        client: &str,
        stack: bool,
        deadline: Deadline,
    ) -> Result<ConsumerRunningInfo, Error> {
        let header = GetConsumerRunningInfo {
            consumer_group: group.to_owned(),
            client_id: client.to_owned(),
            jstack_enable: stack,
        };
        // One client costs one limit, however many of its brokers wait for it.
        let deadline = Deadline::after(deadline.left());
        let mut last = None;
        for broker in brokers {
            match self.call(&broker.server(), &header, (), deadline).await {
                Ok((_, info)) => return Ok(info.value),
                Err(e) => last = Some(e),
            }
            // The next one would only say that no time was left.
            if deadline.left().is_zero() {
                break;
            }
        }
        Err(last.unwrap_or_else(|| Error::NotFound {
            noun: "client",
            name: client.to_owned(),
            searched: format!("group {group}"),
            similar: Vec::new(),
        }))
    }

    /// Running information of every client of a group, each with its brokers.
    pub async fn running_infos(
        &self,
        clients: &GroupClients,
        group: &str,
        stack: bool,
        deadline: Deadline,
    ) -> Vec<(String, Result<ConsumerRunningInfo, Error>)> {
        let targets: Vec<(String, Vec<BrokerAt>)> = clients.ids().into_iter().collect();
        self.each(targets, |(id, brokers)| async move {
            let info = self
                .consumer_running_info(&brokers, group, &id, stack, deadline)
                .await;
            (id, info)
        })
        .await
    }

    /// The producers connected to a broker, by group.
    pub async fn broker_producers(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<BTreeMap<String, Vec<ProducerInfo>>, Error> {
        let (_, table) = self.call(broker, &GetAllProducerInfo, (), deadline).await?;
        Ok(table.value.data)
    }

    /// Clients of a producer group on one broker; `None` when none is connected.
    pub async fn producer_clients(
        &self,
        broker: &Server,
        group: &str,
        deadline: Deadline,
    ) -> Result<Option<ProducerConnection>, Error> {
        let header = GetProducerConnectionList {
            producer_group: group.to_owned(),
        };
        match self.call(broker, &header, (), deadline).await {
            Ok((_, connection)) => Ok(Some(connection.value)),
            // Java answers 1 with this remark for a group without a client.
            Err(e) if e.remote_code() == Some(codes::SYSTEM_ERROR) && e.to_string().contains("not exist") => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Has a client consume a stored message now; its verdict.
    pub async fn push_message(
        &self,
        broker: &Server,
        group: &str,
        client: &str,
        topic: &str,
        offset_id: &str,
        deadline: Deadline,
    ) -> Result<ConsumeMessageDirectlyResult, Error> {
        let header = ConsumeMessageDirectly {
            consumer_group: group.to_owned(),
            client_id: Some(client.to_owned()),
            msg_id: Some(offset_id.to_owned()),
            topic: Some(topic.to_owned()),
            ..ConsumeMessageDirectly::default()
        };
        let (_, result) = self.call(broker, &header, bytes::Bytes::new(), deadline).await?;
        Ok(result.value)
    }
}
