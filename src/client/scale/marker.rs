//! The mark that a topic is being scaled, for everybody who looks: `rmq` `scale.TOPIC` in the key-value store of each
//! name server.

use crate::client::Client;
use crate::client::error::{Error, Server};
use crate::protocol::codes;
use crate::protocol::requests::{DeleteKvConfig, GetKvConfig, PutKvConfig};

/// Namespace of rmq's own entries.
pub const NAMESPACE: &str = "rmq";

/// The key for a topic.
pub fn key(topic: &str) -> String {
    format!("scale.{topic}")
}

/// The token in a mark's text.
fn token_of(text: &str) -> Option<String> {
    let mark: serde_json::Value = serde_json::from_str(text).ok()?;
    mark["token"].as_str().map(str::to_owned)
}

impl Client {
    /// What each name server that answers has for a topic.
    pub async fn scale_marks(&self, topic: &str) -> Vec<(String, Result<Option<String>, Error>)> {
        let header = GetKvConfig {
            namespace: Some(NAMESPACE.into()),
            key: Some(key(topic)),
        };
        let answers = self.ask_each(&header, self.deadline()).await;
        answers
            .into_iter()
            .map(|(addr, answer)| {
                let mark = match answer {
                    Ok((reply, ())) => Ok(reply.value),
                    Err(e) if e.remote_code() == Some(codes::QUERY_NOT_FOUND) => Ok(None),
                    Err(e) => Err(e),
                };
                (addr, mark)
            })
            .collect()
    }

    /// Marks of others, by name server: those without this token. A name server that does not answer has none.
    pub async fn foreign_scale_marks(&self, topic: &str, token: &str) -> Vec<(String, String)> {
        let marks = self.scale_marks(topic).await.into_iter();
        marks
            .filter_map(|(addr, mark)| Some((addr, mark.ok()??)))
            .filter(|(_, text)| token_of(text).as_deref() != Some(token))
            .collect()
    }

    /// Puts a mark at every name server; one that cannot be reached fails the mark there only.
    pub async fn set_scale_mark(&self, topic: &str, text: &str) -> Vec<(String, Result<(), Error>)> {
        let header = PutKvConfig {
            namespace: Some(NAMESPACE.into()),
            key: Some(key(topic)),
            value: Some(text.to_owned()),
        };
        let servers = self.name_servers().to_vec();
        self.each(servers, |addr| {
            let header = &header;
            async move {
                let done = self.call(&Server::at(&addr), header, (), self.deadline()).await;
                (addr, done.map(drop))
            }
        })
        .await
    }

    /// Takes the mark away.
    pub async fn clear_scale_mark(&self, topic: &str) -> Vec<(String, Result<(), Error>)> {
        let header = DeleteKvConfig {
            namespace: Some(NAMESPACE.into()),
            key: Some(key(topic)),
        };
        let servers = self.name_servers().to_vec();
        self.each(servers, |addr| {
            let header = &header;
            async move {
                let done = self.call(&Server::at(&addr), header, (), self.deadline()).await;
                (addr, done.map(drop))
            }
        })
        .await
    }
}
