//! The tables under `config/`: can they be loaded, and do the offsets in them lie within their queues.

use std::collections::HashMap;

use serde_json::Value;

use super::{Finding, Pass, Severity, Stop};
use crate::inspect::tables::{TableFile, TableState};

pub(super) fn check(pass: &mut Pass<'_>) -> Result<(), Stop> {
    let info = pass.info;
    for table in &info.tables {
        loadable(pass, table)?;
    }
    if info.rocks_db {
        return Ok(());
    }
    let max: HashMap<(&str, i64), i64> = info
        .queues
        .iter()
        .map(|q| {
            (
                (q.name.topic.as_str(), i64::from(q.name.queue_id)),
                q.bounds.max_offset,
            )
        })
        .collect();
    for table in &info.tables {
        let Some(offsets) = table
            .content()
            .and_then(|content| content.get("offsetTable")?.as_object())
        else {
            continue;
        };
        match table.name.as_str() {
            "consumerOffset.json" | "lmqConsumerOffset.json" => {
                for (key, queues) in offsets {
                    let topic = key.split('@').next().unwrap_or(key);
                    match queues {
                        Value::Object(queues) => {
                            for (queue, offset) in queues {
                                within(pass, table, key, topic, queue.parse().ok(), offset.as_i64(), &max)?;
                            }
                        }
                        // The table of light queues has one number a row.
                        other => within(pass, table, key, topic, Some(0), other.as_i64(), &max)?,
                    }
                }
            }
            "delayOffset.json" => {
                for (level, offset) in offsets {
                    let queue = level.parse::<i64>().ok().map(|level| level - 1);
                    let key = format!("level {level}");
                    within(
                        pass,
                        table,
                        &key,
                        "SCHEDULE_TOPIC_XXXX",
                        queue,
                        offset.as_i64(),
                        &max,
                    )?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn loadable(pass: &mut Pass<'_>, table: &TableFile) -> Result<(), Stop> {
    let reason = match &table.state {
        TableState::Good(_) => return Ok(()),
        TableState::Missing => "it is missing, its .bak is there".to_owned(),
        TableState::Empty => "it is empty".to_owned(),
        TableState::Broken(reason) => reason.clone(),
    };
    let (severity, meaning) = match &table.backup {
        TableState::Good(_) => (
            Severity::Warning,
            "a broker loads the .bak, which is one change older",
        ),
        TableState::Missing | TableState::Empty | TableState::Broken(_) => (
            Severity::Error,
            "there is no good .bak either; a broker starts without this table or not at all",
        ),
    };
    pass.find(Finding {
        severity,
        code: "table",
        subject: table.name.clone(),
        file: Some(pass.info.root.join("config").join(&table.name)),
        offset: None,
        len: table.bytes,
        what: reason,
        meaning: meaning.into(),
    })
}

fn within(
    pass: &mut Pass<'_>,
    table: &TableFile,
    key: &str,
    topic: &str,
    queue: Option<i64>,
    offset: Option<i64>,
    max: &HashMap<(&str, i64), i64>,
) -> Result<(), Stop> {
    let (Some(queue), Some(offset)) = (queue, offset) else {
        return Ok(());
    };
    let end = max.get(&(topic, queue)).copied().unwrap_or(0);
    if offset <= end || pass.info.holder.is_some() {
        return Ok(());
    }
    pass.find(Finding {
        severity: Severity::Warning,
        code: "offset-beyond-queue",
        subject: table.name.clone(),
        file: Some(pass.info.root.join("config").join(&table.name)),
        offset: u64::try_from(offset).ok(),
        len: None,
        what: format!("{key}: offset {offset} of queue {queue}, which ends at {end}"),
        meaning: "the consumer gets nothing until its offset is corrected".into(),
    })
}
