//! Looks for records by key, id or body: by the index where it can, by reading the whole log where it must.

use std::collections::BTreeSet;

use regex::bytes::Regex;

use super::commit_log::{Gap, Log, Step, Walk};
use super::index::Verdict;
use super::record::{BODY_LIMIT, keys};
use super::tables::tables;
use super::{Error, Store};
use crate::protocol::message::MessageView;
use crate::protocol::message_id::parse_offset_id;
use crate::store::cursor::Record;

/// What is looked for.
#[derive(Debug, Clone)]
pub enum Find {
    /// A key or unique key, of one topic or of any.
    Key {
        /// The topic.
        topic: Option<String>,
        /// The key.
        key: String,
    },
    /// An offset id or a unique key.
    Id(String),
    /// A body, decompressed, that matches.
    Body(Regex),
}

/// How a search was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// By the offset in the id.
    Offset,
    /// By the index.
    Index {
        /// How many files it has.
        files: usize,
        /// How many topics were tried.
        topics: usize,
    },
    /// By reading the log.
    Scan {
        /// From this offset on.
        from: u64,
        /// To this one.
        to: u64,
    },
}

/// What a search meets.
#[derive(Debug, Clone)]
pub enum FindStep {
    /// A record that is looked for.
    Hit(Record),
    /// Damage that may hide one.
    Gap(Gap),
    /// Nothing for a while: how far the search is. Only for showing.
    At(u64),
}

/// A search under way.
pub struct Search<'a> {
    how: How,
    hits: std::vec::IntoIter<Record>,
    walk: Option<Walk<'a>>,
    find: Find,
    since_report: u64,
}

/// Bytes between two reports of the position.
const REPORT_BYTES: u64 = 16 * 1024 * 1024;

impl Find {
    /// Starts the search. With `scan` the index is not used.
    pub fn start<'a>(self, store: &Store, log: &'a Log, scan: bool) -> Result<Search<'a>, Error> {
        let found = match &self {
            _ if scan => None,
            Self::Body(_) => None,
            Self::Key { topic, key } => Some(by_index(store, log, topic.as_deref(), key)?),
            Self::Id(id) => match by_offset(log, id) {
                Some(record) => Some((How::Offset, vec![record])),
                None => Some(by_index(store, log, None, id)?),
            },
        };
        let (how, hits, walk) = match found {
            Some((how, hits)) => (how, hits, None),
            None => (
                How::Scan {
                    from: log.start(),
                    to: log.end(),
                },
                Vec::new(),
                Some(log.walk(log.start(), true)),
            ),
        };
        Ok(Search {
            how,
            hits: hits.into_iter(),
            walk,
            find: self,
            since_report: 0,
        })
    }

    fn matches(&self, view: &MessageView<'_>) -> bool {
        match self {
            Self::Key { topic, key } => {
                topic.as_deref().is_none_or(|topic| topic == view.topic()) && keys(view).any(|k| k == key)
            }
            Self::Id(id) => keys(view).any(|key| key == id) || view.offset_id().eq_ignore_ascii_case(id),
            Self::Body(pattern) => view
                .decoded_body(BODY_LIMIT)
                .is_ok_and(|body| pattern.is_match(&body)),
        }
    }
}

fn by_offset(log: &Log, id: &str) -> Option<Record> {
    let (_, offset) = parse_offset_id(id).ok()?;
    let record = log.record_at(u64::try_from(offset).ok()?).ok()?;
    let same = record.view().ok()?.offset_id().eq_ignore_ascii_case(id);
    same.then_some(record)
}

/// All topics that the store knows of, since the index holds hashes of topic and key together.
fn topics(store: &Store) -> Result<BTreeSet<String>, Error> {
    let mut topics = BTreeSet::new();
    if !store.is_rocks_db() {
        topics.extend(store.queues()?.into_iter().map(|(name, _)| name.topic));
    }
    let table = tables(store)?
        .into_iter()
        .find(|table| table.name == "topics.json");
    if let Some(named) = table
        .as_ref()
        .and_then(|table| table.content()?.get("topicConfigTable")?.as_object())
    {
        topics.extend(named.keys().cloned());
    }
    Ok(topics)
}

fn by_index(store: &Store, log: &Log, topic: Option<&str>, key: &str) -> Result<(How, Vec<Record>), Error> {
    let index = store.index()?;
    let topics = match topic {
        Some(topic) => BTreeSet::from([topic.to_owned()]),
        None => topics(store)?,
    };
    let mut hits: Vec<Record> = Vec::new();
    for file in index.files().iter().filter(|file| !file.is_empty()) {
        for topic in &topics {
            let walk = index.walk_key(file, topic, key, log, false)?;
            hits.extend(
                walk.items
                    .into_iter()
                    .filter(|item| item.verdict == Verdict::Hit)
                    .filter_map(|item| item.record),
            );
        }
    }
    hits.sort_by_key(|record| record.at);
    hits.dedup_by_key(|record| record.at);
    let how = How::Index {
        files: index.files().len(),
        topics: topics.len(),
    };
    Ok((how, hits))
}

impl Search<'_> {
    /// How it is done.
    pub fn how(&self) -> &How {
        &self.how
    }
}

impl Iterator for Search<'_> {
    type Item = FindStep;

    fn next(&mut self) -> Option<FindStep> {
        if let Some(record) = self.hits.next() {
            return Some(FindStep::Hit(record));
        }
        for step in self.walk.as_mut()? {
            self.since_report += step.end() - step.at();
            match step {
                Step::Message { record, .. } => {
                    if record.view().is_ok_and(|view| self.find.matches(&view)) {
                        return Some(FindStep::Hit(record));
                    }
                    if self.since_report > REPORT_BYTES {
                        self.since_report = 0;
                        return Some(FindStep::At(record.end()));
                    }
                }
                Step::Gap(gap) => return Some(FindStep::Gap(gap)),
                Step::Filler { .. } | Step::Tail { .. } => {}
            }
        }
        None
    }
}
