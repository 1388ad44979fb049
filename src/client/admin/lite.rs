//! Lite topics: many small topics under one parent. Brokers up to 5.4.0 know nothing of them.

use super::cluster::BrokerAt;
use crate::client::Client;
use crate::client::error::Error;
use crate::protocol::body::{BrokerLiteInfo, LiteTopicInfo, ParentTopicInfo};
use crate::protocol::codes;
use crate::protocol::requests::{GetBrokerLiteInfo, GetLiteTopicInfo, GetParentTopicInfo};

/// What a broker has of lite topics, with each parent topic's own numbers.
pub type OnBroker = (BrokerLiteInfo, Vec<ParentTopicInfo>);

/// `None` for a parent topic that a broker does not have, or has as an ordinary one.
fn known<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        // Java answers 29 for a topic of another type.
        Err(e)
            if matches!(
                e.remote_code(),
                Some(codes::TOPIC_NOT_EXIST | codes::INVALID_PARAMETER)
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

impl Client {
    /// Lite topics of each broker: one request for the broker and one for each of its parent topics.
    pub async fn lite_topics(&self, brokers: &[BrokerAt]) -> Vec<(BrokerAt, Result<OnBroker, Error>)> {
        self.each(brokers.to_vec(), |broker| async move {
            let server = broker.server();
            let look = async {
                // A limit for each call: there may be many parent topics.
                let (_, info) = self
                    .call(&server, &GetBrokerLiteInfo, (), self.deadline())
                    .await?;
                let mut parents = Vec::new();
                for topic in info.value.topic_meta.keys() {
                    let header = GetParentTopicInfo { topic: topic.clone() };
                    let answer = self.call(&server, &header, (), self.deadline()).await;
                    parents.extend(known(answer)?.map(|(_, parent)| parent.value));
                }
                Ok((info.value, parents))
            };
            let found = look.await;
            (broker, found)
        })
        .await
    }

    /// A parent topic on each broker; `None` where it is not there or of another type.
    pub async fn lite_parent(
        &self,
        topic: &str,
        brokers: &[BrokerAt],
    ) -> Vec<(BrokerAt, Result<Option<ParentTopicInfo>, Error>)> {
        let deadline = self.deadline();
        self.each(brokers.to_vec(), |broker| async move {
            let header = GetParentTopicInfo {
                topic: topic.to_owned(),
            };
            let answer = self.call(&broker.server(), &header, (), deadline).await;
            (
                broker,
                known(answer).map(|found| found.map(|(_, info)| info.value)),
            )
        })
        .await
    }

    /// A lite topic on each broker; `None` where its parent is not there or of another type.
    pub async fn lite_topic(
        &self,
        parent: &str,
        name: &str,
        brokers: &[BrokerAt],
    ) -> Vec<(BrokerAt, Result<Option<LiteTopicInfo>, Error>)> {
        let deadline = self.deadline();
        self.each(brokers.to_vec(), |broker| async move {
            let header = GetLiteTopicInfo {
                parent_topic: parent.to_owned(),
                lite_topic: name.to_owned(),
            };
            let answer = self.call(&broker.server(), &header, (), deadline).await;
            (
                broker,
                known(answer).map(|found| found.map(|(_, info)| info.value)),
            )
        })
        .await
    }
}
