//! The queues: order, holes, and entries that no record of the log answers to.

use std::fs::File;

use super::log::Matched;
use super::{Depth, Finding, Pass, Severity, Stop};
use crate::inspect::commit_log::Log;
use crate::inspect::consume_queue::{Check, Queue, QueueKind, QueueStep};
use crate::inspect::info::QueueInfo;
use crate::inspect::io_error;
use crate::store::segments::Pieces;

/// Bytes of the log read at once for an entry.
const READ_AHEAD: usize = 16 * 1024;

/// Entries between two looks at whether the caller wants more.
const STRIDE: u64 = 4096;

/// Entries one after the other with the same thing wrong.
struct Run {
    first: u64,
    count: u64,
    code: &'static str,
    what: String,
}

pub(super) fn check(pass: &mut Pass<'_>, matched: &Matched) -> Result<(), Stop> {
    let info = pass.info;
    let log = &pass.store.log_reading(READ_AHEAD)?;
    let total: u64 = info.queues.iter().map(|queue| queue.bytes).sum();
    let mut done = 0;
    for queue_info in &info.queues {
        pass.report.queues += 1;
        let queue = pass.store.queue(queue_info.name.clone(), queue_info.kind)?;
        sizes(pass, &queue, queue_info)?;
        let bounds = queue_info.bounds;
        let entries = bounds.end_index.saturating_sub(bounds.first_index);
        pass.report.entries += entries;
        match pass.depth {
            Depth::Quick => ends(pass, log, &queue, queue_info)?,
            Depth::Full => {
                // When each record found its entry and there are no others, the queue is as the log has it.
                let found = matched.get(&queue_info.name).copied().unwrap_or(0);
                if found != entries {
                    walk(pass, log, &queue, queue_info, (done, total))?;
                }
                behind_end(pass, &queue, queue_info)?;
            }
        }
        done += queue_info.bytes;
        pass.at("queues", done, total)?;
    }
    Ok(())
}

fn finding(queue: &Queue, severity: Severity, run: Run, meaning: &str) -> Finding {
    let unit = if queue.kind == QueueKind::Simple {
        "queue offset"
    } else {
        "entry"
    };
    let last = run.first.saturating_add(run.count.saturating_sub(1));
    let range = if run.count <= 1 {
        format!("{unit} {}", run.first)
    } else {
        format!("{unit}s {} to {last}", run.first)
    };
    Finding {
        severity,
        code: run.code,
        subject: format!("{}@{}", queue.name.topic, queue.name.queue_id),
        file: queue.place(run.first).map(|(file, _)| file),
        offset: Some(run.first),
        len: Some(run.count),
        what: format!("{range}: {}", run.what),
        meaning: meaning.into(),
    }
}

fn sizes(pass: &mut Pass<'_>, queue: &Queue, info: &QueueInfo) -> Result<(), Stop> {
    let usual = crate::inspect::commit_log::usual_size(&queue.files().cloned().collect::<Vec<_>>());
    let mut expected = None;
    for (n, file) in queue.files().enumerate() {
        let what = if file.len != usual {
            format!("{} bytes, the others have {usual}", file.len)
        } else if expected.is_some_and(|base| base != file.base) {
            "a file is missing before it".to_owned()
        } else {
            expected = file.base.checked_add(file.len);
            continue;
        };
        expected = file.base.checked_add(file.len);
        let is_spare = file.len == 0 && n + 1 == info.files;
        pass.find(Finding {
            severity: if is_spare { Severity::Info } else { Severity::Error },
            code: "queue-file",
            subject: format!("{}@{}", queue.name.topic, queue.name.queue_id),
            file: Some(file.path.clone()),
            offset: None,
            len: Some(file.len),
            what,
            meaning: if is_spare {
                "an empty last file is removed at the next start".into()
            } else {
                "rmq makes the queue again at its next start, a Java broker refuses to start".into()
            },
        })?;
    }
    Ok(())
}

/// The first and the last entry.
fn ends(pass: &mut Pass<'_>, log: &Log, queue: &Queue, info: &QueueInfo) -> Result<(), Stop> {
    let bounds = info.bounds;
    let mut indices = vec![bounds.first_index];
    indices.extend(
        bounds
            .end_index
            .checked_sub(1)
            .filter(|&last| last > bounds.first_index),
    );
    for index in indices {
        let Some(entry) = queue.entry(index) else { continue };
        let (check, _) = queue.check(index, &entry, log, pass.info.log_end);
        if let Some((run, severity, meaning)) = judge(index, &check) {
            pass.find(finding(queue, severity, run, meaning))?;
        }
    }
    Ok(())
}

fn judge(index: u64, check: &Check) -> Option<(Run, Severity, &'static str)> {
    let (code, what, severity, meaning) = match check {
        Check::Agrees | Check::Blank | Check::Expired => return None,
        Check::BeyondLog => (
            "beyond-log",
            "the record would lie behind the end of the log".to_owned(),
            Severity::Error,
            "these messages are lost; the next start cuts the queue here",
        ),
        Check::NoRecord(kind) => (
            "no-record",
            format!("no valid record: {kind}"),
            Severity::Error,
            "consumers cannot read these messages",
        ),
        Check::Differs(differences) => (
            "entry-differs",
            differences.join("; "),
            Severity::Error,
            "consumers get other messages than they should, or none",
        ),
    };
    let run = Run {
        first: index,
        count: 1,
        code,
        what,
    };
    Some((run, severity, meaning))
}

/// `done` is how many bytes of queues are through, of how many.
fn walk(
    pass: &mut Pass<'_>,
    log: &Log,
    queue: &Queue,
    info: &QueueInfo,
    done: (u64, u64),
) -> Result<(), Stop> {
    let log_end = pass.info.log_end;
    let mut open: Option<(Run, Severity, &'static str)> = None;
    for step in queue.walk(info.bounds.first_index, Some(log), log_end) {
        let row = match step {
            QueueStep::Entry(row) if row.index < info.bounds.end_index => row,
            QueueStep::Disorder {
                index,
                before,
                offset,
            } if index < info.bounds.end_index => {
                let run = Run {
                    first: index,
                    count: 1,
                    code: "disorder",
                    what: format!("leads to {offset}, the entry before ends at {before}"),
                };
                pass.find(finding(
                    queue,
                    Severity::Error,
                    run,
                    "the queue is not in the order of the log",
                ))?;
                continue;
            }
            _ => break,
        };
        if row.index.is_multiple_of(STRIDE) {
            pass.at("queues", done.0, done.1)?;
        }
        let judged = judge(row.index, &row.check);
        if let (Some((run, ..)), Some((new, ..))) = (&mut open, &judged)
            && run.code == new.code
            && run.first + run.count == new.first
        {
            run.count += 1;
            continue;
        }
        if let Some((run, severity, meaning)) = std::mem::replace(&mut open, judged) {
            pass.find(finding(queue, severity, run, meaning))?;
        }
    }
    if let Some((run, severity, meaning)) = open {
        pass.find(finding(queue, severity, run, meaning))?;
    }
    Ok(())
}

/// Entries behind places that were never written.
fn behind_end(pass: &mut Pass<'_>, queue: &Queue, info: &QueueInfo) -> Result<(), Stop> {
    let end = info.bounds.end_index;
    // A running broker may have gone on meanwhile.
    if pass.info.holder.is_some() {
        return Ok(());
    }
    let Some(next) = written_behind(queue, end)? else {
        return Ok(());
    };
    let run = Run {
        first: end,
        count: next - end,
        code: "hole",
        what: "no entries, although there are some behind".into(),
    };
    pass.find(finding(
        queue,
        Severity::Error,
        run,
        "the queue ends here for a broker; what is behind is lost to consumers",
    ))
}

/// Number of the first entry behind the end. What was never written is not read.
fn written_behind(queue: &Queue, end: u64) -> Result<Option<u64>, Stop> {
    let len = queue.kind.entry_len() as u64;
    let begin = end.saturating_mul(len);
    for file in queue
        .files()
        .filter(|file| file.base.saturating_add(file.len) > begin)
    {
        let failed = |e| io_error("read", &file.path)(e);
        let handle = File::open(&file.path).map_err(failed)?;
        let mut pieces = Pieces::of_tail(&handle, begin.saturating_sub(file.base), file.len);
        while let Some((at, piece)) = pieces.read().map_err(failed)? {
            if let Some(first) = piece.iter().position(|&b| b != 0) {
                let index = ((file.base + at + first as u64) / len).max(end);
                let found = match queue.walk(index, None, 0).next() {
                    Some(QueueStep::Entry(row)) => Some(row.index),
                    Some(QueueStep::Gap { index, count, .. }) => Some(index.saturating_add(count)),
                    Some(QueueStep::Disorder { .. }) | None => None,
                };
                return Ok(found.filter(|&found| found > end));
            }
        }
    }
    Ok(None)
}
