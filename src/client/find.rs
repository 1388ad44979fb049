//! Messages by one of their names: key, unique key, offset id.

use super::admin::cluster::registered;
use super::admin::topic::masters;
use super::error::{Error, Server};
use super::{BrokerAt, Client, Message};
use crate::protocol::message_id::parse_offset_id;

/// What a message is looked for by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// A key that its producer gave.
    Key(&'a str),
    /// The unique key that its producer's client made.
    Unique(&'a str),
}

/// What the index of one broker brought.
#[derive(Debug, Clone, Default)]
pub struct Hits {
    /// Messages that have the key.
    pub messages: Vec<Message>,
    /// Messages that have another key with the same hash, or were stored outside the window; left out.
    pub strangers: usize,
}

/// What a search by name brought.
#[derive(Debug, Default)]
pub struct Found {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// Hits of the index that were not meant.
    pub strangers: usize,
    /// A broker gave as many as it was asked for: there may be more.
    pub full: bool,
    /// Brokers that could not be asked.
    pub failed: Vec<Error>,
    /// Names of all brokers that were asked.
    pub searched: Vec<String>,
}

/// Where an offset id points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The broker; by its address alone when no name server knows it.
    pub server: Server,
    /// Offset in its commit log.
    pub offset: i64,
    /// A name server knows the address. One that none does may still be right behind an address map, but more often
    /// the id is no offset id.
    pub registered: bool,
}

impl Client {
    /// Messages by a name from every master of the topic, stored within the window (epoch ms, both ends included), at
    /// most `most` of one broker. `None` when the topic has no route.
    pub async fn find_messages(
        &self,
        topic: &str,
        name: Name<'_>,
        window: (i64, i64),
        most: i32,
    ) -> Result<Option<Found>, Error> {
        let Some(route) = self.route(topic).await? else {
            return Ok(None);
        };
        let brokers = masters(&route);
        let mut found = Found {
            searched: brokers.iter().map(|b| b.id.name.clone()).collect(),
            ..Found::default()
        };
        let deadline = self.deadline();
        let answers = self
            .each(brokers, |broker| async move {
                let server = broker.server();
                match name {
                    Name::Key(key) => {
                        self.messages_by_key(&server, topic, key, window, most, deadline)
                            .await
                    }
                    Name::Unique(key) => self
                        .messages_by_unique_key(&server, topic, key, deadline)
                        .await
                        .map(|messages| Hits {
                            messages,
                            strangers: 0,
                        }),
                }
            })
            .await;
        let most = usize::try_from(most).unwrap_or(0);
        for answer in answers {
            match answer {
                Ok(hits) => {
                    found.full |= hits.messages.len() + hits.strangers >= most;
                    found.strangers += hits.strangers;
                    found.messages.extend(hits.messages);
                }
                Err(e) => found.failed.push(e),
            }
        }
        found
            .messages
            .retain(|m| (window.0..=window.1).contains(&m.stored_ms));
        found.messages.sort_by_key(|m| (m.stored_ms, m.physical_offset));
        Ok(Some(found))
    }

    /// Where an id points if it is an offset id; `None` when it cannot be one.
    pub async fn spot(&self, id: &str) -> Option<Spot> {
        let (host, offset) = parse_offset_id(id).ok()?;
        let addr = host.to_string();
        let known = self.cluster_info().await.map(|info| registered(&info));
        let at = known
            .unwrap_or_default()
            .iter()
            .find(|b| b.addr == addr)
            .map(BrokerAt::server);
        Some(Spot {
            registered: at.is_some(),
            server: at.unwrap_or_else(|| Server::at(&addr)),
            offset,
        })
    }
}
