//! The tables of a copied store: what the source says of the topics that were taken.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::copy::Numbers;
use crate::inspect::tables::tables;
use crate::inspect::{Error, Store, io_error};
use crate::protocol::model::SCHEDULE_TOPIC;
use crate::store::reader::QueueName;
use crate::store::rebuild;

/// Writes topics, subscription groups and consumer offsets. Returns how many topics there are.
pub(super) fn copy(
    source: &Store,
    dir: &Path,
    has_topic: &impl Fn(&str) -> bool,
    numbers: &HashMap<QueueName, Numbers>,
    ends: &HashMap<QueueName, i64>,
) -> Result<usize, Error> {
    std::fs::create_dir_all(dir).map_err(io_error("create", dir))?;
    let mut count = 0;
    for table in tables(source)? {
        let Some(content) = table.content() else { continue };
        let mut content = content.clone();
        match table.name.as_str() {
            "topics.json" => {
                if let Some(topics) = map(&mut content, "topicConfigTable") {
                    topics.retain(|topic, _| has_topic(topic));
                    count = topics.len();
                }
            }
            "subscriptionGroup.json" => {}
            "consumerOffset.json" => {
                if let Some(groups) = map(&mut content, "offsetTable") {
                    groups.retain(|key, _| has_topic(topic_of(key)));
                    for (key, queues) in groups.iter_mut() {
                        lower(topic_of(key), queues, numbers, ends);
                    }
                }
            }
            // Where the delivery of delayed messages stands means something only beside those messages.
            "delayOffset.json" if has_topic(SCHEDULE_TOPIC) => {}
            _ => continue,
        }
        let text = serde_json::to_vec_pretty(&content).map_err(std::io::Error::from);
        let path = dir.join(&table.name);
        rebuild::write_new(&path, &text.map_err(io_error("write", &path))?)?;
    }
    Ok(count)
}

fn map<'a>(content: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    content.get_mut(key)?.as_object_mut()
}

/// `topic@group`
fn topic_of(key: &str) -> &str {
    key.split('@').next().unwrap_or(key)
}

/// Moves committed offsets up with the records behind a hole; what was committed of records that were not taken ends
/// with the queue.
fn lower(
    topic: &str,
    queues: &mut Value,
    numbers: &HashMap<QueueName, Numbers>,
    ends: &HashMap<QueueName, i64>,
) {
    let Some(queues) = queues.as_object_mut() else {
        return;
    };
    for (queue_id, offset) in queues {
        let name = queue_id.parse().ok().map(|queue_id| QueueName {
            topic: topic.to_owned(),
            queue_id,
        });
        let (Some(name), Some(committed)) = (name, offset.as_i64()) else {
            continue;
        };
        let by = numbers
            .get(&name)
            .and_then(|numbers| numbers.lowered.range(..=committed).next_back())
            .map_or(0, |(_, by)| *by);
        *offset = json!((committed - by).min(ends.get(&name).copied().unwrap_or(0)));
    }
}
