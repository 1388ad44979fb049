//! The log: every record, and for each the queue entry that leads to it.

use std::collections::{HashMap, HashSet};

use super::{Depth, Finding, Pass, Progress, Severity, Stop};
use crate::inspect::commit_log::{Gap, Log, Step};
use crate::inspect::consume_queue::{Queue, QueueKind};
use crate::inspect::info::{Info, QueueInfo};
use crate::protocol::message::MessageView;
use crate::protocol::model::SysFlag;
use crate::protocol::properties::names;
use crate::store::reader::QueueName;

/// Queues held open at once.
const OPEN_QUEUES: usize = 256;
/// Bytes between two reports of the progress.
const REPORT_BYTES: u64 = 4 * 1024 * 1024;

/// How a queue compared with the records of the log.
#[derive(Debug, Default)]
pub(super) struct Matched {
    /// Entries that a record was found for.
    pub(super) entries: u64,
    run: Option<Run>,
}

/// Records one after the other in a queue that no entry leads to.
#[derive(Debug)]
struct Run {
    first: u64,
    count: u64,
    at: u64,
    what: String,
    code: &'static str,
    is_late: bool,
}

/// Results by queue.
pub(super) type Queues = HashMap<QueueName, Matched>;

struct Lookup<'a> {
    kinds: HashMap<QueueName, QueueKind>,
    open: HashMap<QueueName, Queue>,
    matched: Queues,
    /// Physical offset behind the last record that any queue knows of.
    reached: u64,
    known: HashMap<QueueName, &'a QueueInfo>,
    topics: Topics,
}

/// Which topics there are, and which there were.
struct Topics {
    /// Names in `topics.json`, if that can be read.
    named: Option<HashSet<String>>,
    /// End of the log when a topic was deleted.
    deleted: HashMap<String, u64>,
}

impl Topics {
    fn new(info: &Info) -> Self {
        let table = |name: &str| info.tables.iter().find(|table| table.name == name)?.content();
        let named = table("topics.json")
            .and_then(|content| content.get("topicConfigTable")?.as_object())
            .map(|topics| topics.keys().cloned().collect());
        let text = table("rmqDeletedTopics").and_then(|content| content.get("text")?.as_str());
        let deleted = text
            .unwrap_or_default()
            .lines()
            .filter_map(|line| {
                let (end, topic) = line.split_once(' ')?;
                Some((topic.to_owned(), end.parse().ok()?))
            })
            .collect();
        Self { named, deleted }
    }

    /// True when a record's topic was deleted after the record was stored, as far as the tables tell.
    fn is_gone(&self, topic: &str, at: u64) -> bool {
        self.deleted.get(topic).is_some_and(|&end| at < end)
            || self.named.as_ref().is_some_and(|named| !named.contains(topic))
    }
}

pub(super) fn check(pass: &mut Pass<'_>, log: &Log) -> Result<Queues, Stop> {
    let info = pass.info;
    let reached = info
        .queues
        .iter()
        .map(|q| q.bounds.physical_end)
        .max()
        .unwrap_or(0);
    let mut lookup = Lookup {
        kinds: info.queues.iter().map(|q| (q.name.clone(), q.kind)).collect(),
        open: HashMap::new(),
        matched: HashMap::new(),
        reached: u64::try_from(reached).unwrap_or(0),
        known: info.queues.iter().map(|q| (q.name.clone(), q)).collect(),
        topics: Topics::new(info),
    };
    let from = match pass.depth {
        Depth::Full => log.start(),
        Depth::Quick => {
            begins(pass, log)?;
            log.newest_base()
        }
    };
    let total = info.log_end.saturating_sub(from);
    let mut reported = from;
    let mut damaged = false;
    for step in log.walk(from, true) {
        pass.report.bytes = step.end().saturating_sub(from).min(total);
        if step.end() - reported > REPORT_BYTES {
            reported = step.end();
            (pass.progress)(Progress {
                pass: "commit log",
                done: pass.report.bytes,
                total,
            });
        }
        match step {
            Step::Message { record, stale } => {
                pass.report.records += 1;
                if stale && !damaged {
                    damaged = true;
                    pass.find(stale_finding(log, record.at))?;
                }
                let Ok(view) = record.view() else { continue };
                if !info.rocks_db {
                    lookup.compare(pass, &view, record.at)?;
                }
            }
            Step::Gap(gap) => pass.find(gap_finding(pass, &gap))?,
            Step::Filler { .. } | Step::Tail { .. } => {}
        }
    }
    (pass.progress)(Progress {
        pass: "commit log",
        done: total,
        total,
    });
    let mut open: Vec<(QueueName, Run)> = lookup
        .matched
        .iter_mut()
        .filter_map(|(name, matched)| matched.run.take().map(|run| (name.clone(), run)))
        .collect();
    open.sort_by_key(|(_, run)| run.at);
    for (name, run) in open {
        finish(pass, &name, run)?;
    }
    Ok(lookup.matched)
}

/// The begin of each segment but the newest.
fn begins(pass: &mut Pass<'_>, log: &Log) -> Result<(), Stop> {
    let newest = log.newest_base();
    for file in log.files().filter(|file| file.base < newest) {
        if let Err(kind) = log.record_at(file.base) {
            let gap = Gap {
                at: file.base,
                len: 0,
                kind,
                file: Some(file.path.clone()),
                record: None,
                is_last: false,
            };
            pass.find(gap_finding(pass, &gap))?;
        }
    }
    Ok(())
}

fn gap_finding(pass: &Pass<'_>, gap: &Gap) -> Finding {
    let recovery = &pass.info.recovery;
    let whose = gap
        .record
        .as_ref()
        .and_then(|record| {
            let view = record.view().ok()?;
            Some(format!(
                ", in the record of {}@{} queue offset {}",
                view.topic(),
                view.queue_id(),
                view.queue_offset()
            ))
        })
        .unwrap_or_default();
    let meaning = if gap.is_last {
        "nothing valid follows; the next start cuts the log here".to_owned()
    } else if gap.at >= recovery.from {
        format!(
            "the next start cuts the log here with the {} bytes behind it; rmq keeps the whole records of those in \
             lost/, a Java broker does not",
            pass.info.log_end.saturating_sub(gap.at)
        )
    } else {
        format!(
            "recovery begins behind it, at {}, and does not notice; consumers cannot read past it",
            recovery.from
        )
    };
    Finding {
        severity: Severity::Error,
        code: "damaged-record",
        subject: "commit log".into(),
        file: gap.file.clone(),
        offset: Some(gap.at),
        len: Some(gap.len),
        what: format!("{}{whose}", gap.kind),
        meaning,
    }
}

fn stale_finding(log: &Log, at: u64) -> Finding {
    Finding {
        severity: Severity::Warning,
        code: "stale-records",
        subject: "commit log".into(),
        file: log.file_of(at).map(|file| file.path.clone()),
        offset: Some(at),
        len: None,
        what: "records behind the damage are older than those before it".into(),
        meaning: "most likely left over from before the log was cut here; no queue should lead to them"
            .into(),
    }
}

impl Lookup<'_> {
    fn compare(&mut self, pass: &mut Pass<'_>, view: &MessageView<'_>, at: u64) -> Result<(), Stop> {
        if matches!(
            view.sys_flag().transaction(),
            SysFlag::TRANSACTION_PREPARED | SysFlag::TRANSACTION_ROLLBACK
        ) {
            return Ok(());
        }
        let home = QueueName {
            topic: view.topic().to_owned(),
            queue_id: view.queue_id(),
        };
        self.compare_in(pass, home, view.queue_offset(), view, at)?;
        let properties = view.properties();
        let (Some(queues), Some(offsets)) = (
            properties.get(names::INNER_MULTI_DISPATCH),
            properties.get(names::INNER_MULTI_QUEUE_OFFSET),
        ) else {
            return Ok(());
        };
        for (topic, offset) in queues.split(',').zip(offsets.split(',')) {
            let name = QueueName {
                topic: topic.to_owned(),
                queue_id: 0,
            };
            // Whether a broker dispatches these at all is up to its configuration.
            if let (Ok(offset), true) = (offset.parse(), self.kinds.contains_key(&name)) {
                self.compare_in(pass, name, offset, view, at)?;
            }
        }
        Ok(())
    }

    fn compare_in(
        &mut self,
        pass: &mut Pass<'_>,
        name: QueueName,
        offset: i64,
        view: &MessageView<'_>,
        at: u64,
    ) -> Result<(), Stop> {
        let wrong = self.look(pass, &name, offset, view, at)?;
        let offset = u64::try_from(offset).unwrap_or(0);
        let reached = self.reached;
        let matched = self.matched.entry(name.clone()).or_default();
        let Some((code, what)) = wrong else {
            matched.entries += 1;
            let run = matched.run.take();
            return run.map_or(Ok(()), |run| finish(pass, &name, run));
        };
        if let Some(run) = &mut matched.run
            && run.first + run.count == offset
            && run.code == code
        {
            run.count += 1;
            return Ok(());
        }
        let new = Run {
            first: offset,
            count: 1,
            at,
            what,
            code,
            is_late: at >= reached,
        };
        let run = matched.run.replace(new);
        run.map_or(Ok(()), |run| finish(pass, &name, run))
    }

    /// What is wrong with the entry for a record; `None` for nothing.
    fn look(
        &mut self,
        pass: &Pass<'_>,
        name: &QueueName,
        offset: i64,
        view: &MessageView<'_>,
        at: u64,
    ) -> Result<Option<(&'static str, String)>, Stop> {
        let Some(&kind) = self.kinds.get(name) else {
            return Ok(Some(if self.topics.is_gone(&name.topic, at) {
                ("deleted-topic", "the topic was deleted".into())
            } else {
                ("missing-queue", "there is no such queue".into())
            }));
        };
        if !self.open.contains_key(name) {
            if self.open.len() >= OPEN_QUEUES {
                self.open.clear();
            }
            self.open
                .insert(name.clone(), pass.store.queue(name.clone(), kind)?);
        }
        let Some(queue) = self.open.get_mut(name) else {
            return Ok(None);
        };
        let Ok(offset) = u64::try_from(offset) else {
            return Ok(Some((
                "missing-entry",
                format!("the record has queue offset {offset}"),
            )));
        };
        let min = self.known.get(name).map_or(0, |q| q.bounds.min_offset);
        let index = queue.index_of(offset);
        let Some(entry) = queue.entry_cached(index) else {
            return Ok(Some((
                "missing-entry",
                "no queue entry leads to the record".into(),
            )));
        };
        if entry.is_blank() || i64::try_from(offset).is_ok_and(|offset| offset < min) {
            return Ok(Some((
                "missing-entry",
                "the queue begins behind the record".into(),
            )));
        }
        if u64::try_from(entry.offset) != Ok(at) {
            return Ok(Some((
                "other-record",
                format!("the queue entry leads to {} instead", entry.offset),
            )));
        }
        let differences = queue.differences(index, &entry, view);
        Ok(if differences.is_empty() {
            None
        } else {
            Some(("entry-differs", differences.join("; ")))
        })
    }
}

fn finish(pass: &mut Pass<'_>, name: &QueueName, run: Run) -> Result<(), Stop> {
    // What the queues have not reached is dispatched at the next start, or by the running broker just now.
    let late = run.is_late && run.code.starts_with("missing");
    if late && pass.info.holder.is_some() {
        return Ok(());
    }
    let severity = match run.code {
        "deleted-topic" => Severity::Info,
        _ if late => Severity::Warning,
        _ => Severity::Error,
    };
    let meaning = if run.code == "deleted-topic" {
        "the records go with their files"
    } else if late && pass.is_unfinished() {
        "not dispatched before the crash; the next start adds the entries"
    } else if late {
        "the queues end before the log; a Java broker adds the entries at its next start, except the first"
    } else if run.code == "missing-queue" || run.code == "missing-entry" {
        "consumers do not get these messages"
    } else {
        "consumers do not get these messages at their offsets"
    };
    let last = run.first.saturating_add(run.count - 1);
    let range = if run.count == 1 {
        format!("queue offset {last}")
    } else {
        format!("queue offsets {} to {last}", run.first)
    };
    let bounds = pass
        .store
        .queues_of(&name.topic, Some(name.queue_id))
        .ok()
        .and_then(|found| found.into_iter().next())
        .and_then(|(name, kind)| pass.store.queue(name, kind).ok());
    pass.find(Finding {
        severity,
        code: run.code,
        subject: format!("{}@{}", name.topic, name.queue_id),
        file: bounds.and_then(|queue| queue.place(run.first).map(|(file, _)| file)),
        offset: Some(run.first),
        len: Some(run.count),
        what: format!("{range}: {} (first record at {})", run.what, run.at),
        meaning: meaning.into(),
    })
}
