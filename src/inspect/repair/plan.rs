//! What is wrong with a store, as steps that mend it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Plan, PlanFinding, QueueStep, State, Step, VERSION};
use crate::inspect::commit_log::{Log, Step as LogStep};
use crate::inspect::info::{Info, info};
use crate::inspect::tables::TableState;
use crate::inspect::{Depth, Error, Finding, Options, Progress, Severity, Store, verify};

/// Findings that a plan names.
const NAMED: usize = 200;

/// What becomes of good records behind damage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// They stay: the log ends behind the last good record of all.
    #[default]
    KeepBehindDamage,
    /// The log ends at the first damage.
    CutAtFirstDamage,
}

/// What a plan does about a kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The log is cut.
    CutLog,
    /// The queue is made anew out of the log.
    Queue,
    /// The index is made anew out of the log.
    Index,
    /// The checkpoint is written anew.
    Checkpoint,
    /// The plan looks at the file itself: crash marker, tables, lengths of segments.
    File,
    /// Nothing.
    None,
}

/// What a plan does about the findings of a code that are warnings or errors.
pub fn remedy(code: &str) -> Remedy {
    match code {
        "damaged-record" | "stale-records" => Remedy::CutLog,
        "queue-file" | "beyond-log" | "no-record" | "entry-differs" | "disorder" | "missing-entry"
        | "missing-queue" | "other-record" | "hole" => Remedy::Queue,
        code if code.starts_with("index") || code == "not-indexed" => Remedy::Index,
        "checkpoint" => Remedy::Checkpoint,
        "abort" | "table" | "segment-file" => Remedy::File,
        _ => Remedy::None,
    }
}

/// How the store is now.
pub(super) fn state(info: &Info) -> State {
    State {
        log_start: info.log_start,
        log_end: info.log_end,
        segments: info.segments.iter().map(|file| (file.base, file.len)).collect(),
        queues: (
            info.queues.len() as u64,
            info.queues.iter().map(|queue| queue.bounds.end_index).sum(),
        ),
        abort: info.abort.is_some(),
    }
}

/// What was found, by what it calls for.
#[derive(Default)]
struct Found {
    named: Vec<PlanFinding>,
    problems: u64,
    first_damage: Option<u64>,
    damages: u64,
    queues: BTreeMap<String, String>,
    index: Option<String>,
    checkpoint: bool,
    others: Vec<String>,
}

impl Found {
    fn add(&mut self, finding: Finding) {
        if finding.severity == Severity::Info {
            return;
        }
        self.problems += 1;
        match remedy(finding.code) {
            Remedy::CutLog => {
                self.damages += 1;
                let at = finding.offset.unwrap_or(0);
                self.first_damage = Some(self.first_damage.map_or(at, |first| first.min(at)));
            }
            Remedy::Queue => {
                self.queues
                    .entry(finding.subject.clone())
                    .or_insert_with(|| finding.what.clone());
            }
            Remedy::Index => {
                self.index.get_or_insert_with(|| finding.what.clone());
            }
            Remedy::Checkpoint => self.checkpoint = true,
            Remedy::File => {}
            Remedy::None => self.others.push(format!("{}: {}", finding.subject, finding.what)),
        }
        if self.named.len() < NAMED {
            self.named.push(PlanFinding {
                severity: finding.severity.name().to_owned(),
                code: finding.code.to_owned(),
                subject: finding.subject,
                what: finding.what,
            });
        }
    }
}

/// Where the log should end, and what is cut off.
struct End {
    at: u64,
    records: u64,
    /// Damaged places before it that stay.
    left: u64,
    newest_ms: i64,
}

/// Makes a plan; nothing is changed. `progress` is told how far it is and ends it with false.
pub fn plan(
    store: &Store,
    choice: Choice,
    now_ms: i64,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Option<Plan>, Error> {
    if store.is_rocks_db() {
        return Err(Error::RocksDb {
            path: store.root().to_owned(),
        });
    }
    let info = info(store)?;
    let mut found = Found::default();
    let mut each = |finding| {
        found.add(finding);
        ControlFlow::Continue(())
    };
    let report = verify(store, Options::from(Depth::Full), &mut each, progress)?;
    if report.stopped {
        return Ok(None);
    }
    let log = store.log()?;
    let mut remarks = Vec::new();
    let mut steps = segment_steps(&info, &mut remarks);
    let end = find_end(&log, &info, &found, choice);
    let cut = (end.at < info.log_end).then_some(end.at);
    if let Some(at) = cut {
        steps.push(Step::CutLog {
            at,
            end: info.log_end,
            records: end.records,
            files: log
                .files()
                .filter(|file| file.base >= at && file.base > info.log_start)
                .map(|file| file.path.clone())
                .collect(),
        });
    }
    if end.left > 0 {
        remarks.push(format!(
            "{} damaged places stay in the middle of the log, with good records behind them; rmq reads past them, a \
             Java broker may end the log at the first one (--cut-at-first-damage ends it there now)",
            end.left
        ));
    }
    let queues = queue_steps(&info, &found, cut);
    if !queues.is_empty() {
        steps.push(Step::RebuildQueues { queues });
    }
    index_step(store, &info, &found, cut, &mut steps, &mut remarks)?;
    for table in &info.tables {
        match &table.state {
            TableState::Good(_) => {}
            state if table.backup.is_good() => steps.push(Step::RestoreTable {
                name: table.name.clone(),
                why: match state {
                    TableState::Broken(reason) => reason.clone(),
                    other => other.name().to_owned(),
                },
            }),
            state => remarks.push(format!(
                "config/{} is {} and has no good backup; a broker starts without it",
                table.name,
                state.name()
            )),
        }
    }
    if !steps.is_empty() || found.checkpoint || info.abort.is_some() {
        steps.push(Step::WriteCheckpoint {
            newest_ms: end.newest_ms,
        });
    }
    if info.abort.is_some() {
        steps.push(Step::RemoveAbort);
    }
    remarks.extend(found.others.into_iter().take(NAMED));
    Ok(Some(Plan {
        version: VERSION,
        store: std::path::absolute(store.root()).unwrap_or_else(|_| store.root().to_owned()),
        made_at_ms: now_ms,
        state: state(&info),
        findings: found.named,
        problems: found.problems,
        steps,
        remarks,
    }))
}

fn segment_steps(info: &Info, remarks: &mut Vec<String>) -> Vec<Step> {
    let mut steps = Vec::new();
    for segment in info.segments.iter().filter(|file| file.problem.is_some()) {
        if segment.len > 0 && segment.len < info.segment_size {
            steps.push(Step::ExtendSegment {
                file: segment.path.clone(),
                from: segment.len,
                to: info.segment_size,
            });
        } else if segment.len > 0 {
            remarks.push(format!(
                "{}: {}",
                segment.path.display(),
                segment.problem.as_deref().unwrap_or_default()
            ));
        }
    }
    steps
}

fn find_end(log: &Log, info: &Info, found: &Found, choice: Choice) -> End {
    let mut end = End {
        at: info.log_end,
        records: 0,
        left: 0,
        newest_ms: info.last_time.unwrap_or(0),
    };
    let Some(first) = found.first_damage else {
        return end;
    };
    let begin = log.file_of(first).map_or(log.start(), |file| file.base);
    let (mut good_end, mut newest_ms, mut gaps, mut gaps_before) = (begin, 0, 0, 0);
    let mut behind = 0;
    for step in log.walk(begin, true) {
        match &step {
            LogStep::Message { record, stale } => {
                let is_kept = !stale && (choice == Choice::KeepBehindDamage || gaps == 0);
                if is_kept {
                    good_end = record.end();
                    gaps_before = gaps;
                    behind = 0;
                    newest_ms = record.view().map_or(newest_ms, |view| view.store_timestamp());
                } else {
                    behind += 1;
                }
            }
            LogStep::Filler { .. } if behind == 0 && gaps == gaps_before => good_end = step.end(),
            LogStep::Gap(_) => gaps += 1,
            LogStep::Filler { .. } | LogStep::Tail { .. } => {}
        }
    }
    end.records = behind;
    end.left = gaps_before;
    if gaps > gaps_before || behind > 0 {
        end.at = good_end.min(info.log_end);
        if newest_ms > 0 {
            end.newest_ms = newest_ms;
        } else {
            end.newest_ms = last_before(log, begin).unwrap_or(0);
        }
    }
    end
}

/// Store time of the last record before a segment.
fn last_before(log: &Log, base: u64) -> Option<i64> {
    let file = log.files().rfind(|file| file.base < base)?;
    log.walk(file.base, false)
        .take_while(|step| step.at() < base)
        .filter_map(|step| match step {
            LogStep::Message { record, stale: false } => {
                record.view().ok().map(|view| view.store_timestamp())
            }
            _ => None,
        })
        .last()
}

fn queue_steps(info: &Info, found: &Found, cut: Option<u64>) -> Vec<QueueStep> {
    let mut why: BTreeMap<(String, i32), (String, i64)> = BTreeMap::new();
    for (subject, what) in &found.queues {
        if let Some((topic, number)) = subject.rsplit_once('@')
            && let Ok(queue_id) = number.parse()
        {
            why.insert((topic.to_owned(), queue_id), (what.clone(), 0));
        }
    }
    for queue in &info.queues {
        let name = (queue.name.topic.clone(), queue.name.queue_id);
        let is_beyond =
            cut.is_some_and(|cut| u64::try_from(queue.bounds.physical_end).is_ok_and(|end| end > cut));
        if is_beyond {
            why.entry(name.clone())
                .or_insert_with(|| ("leads to records that are cut off".to_owned(), 0));
        }
        if let Some(step) = why.get_mut(&name) {
            step.1 = queue.bounds.max_offset;
        }
    }
    why.into_iter()
        .map(|((topic, queue_id), (why, max_offset))| QueueStep {
            topic,
            queue_id,
            why,
            max_offset,
        })
        .collect()
}

fn index_step(
    store: &Store,
    info: &Info,
    found: &Found,
    cut: Option<u64>,
    steps: &mut Vec<Step>,
    remarks: &mut Vec<String>,
) -> Result<(), Error> {
    let is_beyond = |file: &crate::inspect::IndexFile| {
        cut.is_some_and(|cut| u64::try_from(file.header.end_offset).is_ok_and(|end| end >= cut))
    };
    let why = found.index.clone().or_else(|| {
        info.index
            .iter()
            .any(is_beyond)
            .then(|| "it has keys of records that are cut off".to_owned())
    });
    let Some(why) = why else { return Ok(()) };
    let index = store.index()?;
    match index.files().iter().find_map(crate::inspect::FileWalk::shape) {
        Some(shape) => steps.push(Step::RebuildIndex {
            why,
            files: info.index.len() as u64,
            slots: shape.slots,
            items: shape.items,
        }),
        None => remarks.push(format!(
            "the index is not made anew, since its files do not tell maxHashSlotNum and maxIndexNum: {why}"
        )),
    }
    Ok(())
}
