//! The mark that a topic is being scaled, for everybody who looks: `rmq` `scale.TOPIC` in the key-value store of each
//! name server.

use crate::client::Client;
use crate::client::error::Error;
use crate::protocol::codes;
use crate::protocol::requests::GetKvConfig;

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

    /// True when a name server has the mark with this token.
    pub async fn has_scale_mark(&self, topic: &str, token: &str) -> bool {
        let marks = self.scale_marks(topic).await;
        let texts = marks.into_iter().filter_map(|(_, mark)| mark.ok().flatten());
        texts
            .into_iter()
            .any(|text| token_of(&text).as_deref() == Some(token))
    }

    /// Puts a mark at every name server; one that cannot be reached fails the mark there only.
    pub async fn set_scale_mark(&self, topic: &str, text: &str) -> Vec<(String, Result<(), Error>)> {
        let servers = self.name_servers().to_vec();
        self.put_scale_mark(servers, topic, Some(text)).await
    }

    /// Takes the marks with this token away; what could not be seen or done, by name server.
    pub async fn clear_scale_mark(&self, topic: &str, token: &str) -> Vec<(String, Result<(), Error>)> {
        let (mut servers, mut done) = (Vec::new(), Vec::new());
        for (addr, mark) in self.scale_marks(topic).await {
            match mark {
                Ok(Some(text)) if token_of(&text).as_deref() == Some(token) => servers.push(addr),
                Ok(_) => {}
                Err(e) => done.push((addr, Err(e))),
            }
        }
        done.extend(self.put_scale_mark(servers, topic, None).await);
        done
    }

    async fn put_scale_mark(
        &self,
        servers: Vec<String>,
        topic: &str,
        text: Option<&str>,
    ) -> Vec<(String, Result<(), Error>)> {
        let key = key(topic);
        self.each(servers, |addr| {
            let at = (NAMESPACE, key.as_str());
            async move {
                let done = self.kv_set(&addr, at, text, self.deadline()).await;
                (addr, done)
            }
        })
        .await
    }
}
