//! Files, their lengths, and the marks of a stop.

use super::{Finding, Pass, Severity, Stop};

pub(super) fn check(pass: &mut Pass<'_>) -> Result<(), Stop> {
    let info = pass.info;
    if info.rocks_db {
        pass.find(Finding {
            severity: Severity::Info,
            code: "rocksdb",
            subject: "queues".into(),
            file: Some(info.root.join("consumequeue")),
            offset: None,
            len: None,
            what: "the queues lie in RocksDB".into(),
            meaning: "they are not compared with the log".into(),
        })?;
    }
    for (n, segment) in info.segments.iter().enumerate() {
        let Some(problem) = &segment.problem else { continue };
        // Java's load deletes an empty file at the end and refuses any other size.
        let is_spare = segment.len == 0 && n + 1 == info.segments.len();
        pass.find(Finding {
            severity: if is_spare { Severity::Info } else { Severity::Error },
            code: "segment-file",
            subject: "commit log".into(),
            file: Some(segment.path.clone()),
            offset: Some(segment.base),
            len: Some(segment.len),
            what: problem.clone(),
            meaning: if is_spare {
                "an empty last file is removed at the next start".into()
            } else if segment.len == info.segment_size {
                "the records between the files are lost".into()
            } else {
                "a broker refuses to start with files of different sizes".into()
            },
        })?;
    }
    for stray in &info.strays {
        pass.find(Finding {
            severity: Severity::Info,
            code: "stray-file",
            subject: "files".into(),
            file: Some(stray.clone()),
            offset: None,
            len: None,
            what: "a name that means nothing here".into(),
            meaning: "it is passed over; a Java broker may refuse to start over it".into(),
        })?;
    }
    let stopped = info.abort.as_ref().filter(|_| info.holder.is_none());
    if let (Some(pid), Some(recovery)) = (stopped, &info.recovery) {
        pass.find(Finding {
            severity: Severity::Warning,
            code: "abort",
            subject: "abort".into(),
            file: Some(info.root.join("abort")),
            offset: None,
            len: None,
            what: format!(
                "the broker with process id {} was not stopped cleanly",
                pid.trim()
            ),
            meaning: format!("the next start recovers from {}: {}", recovery.from, recovery.why),
        })?;
    }
    if info.checkpoint.is_none() && info.log_end > info.log_start {
        pass.find(Finding {
            severity: Severity::Warning,
            code: "checkpoint",
            subject: "checkpoint".into(),
            file: Some(info.root.join("checkpoint")),
            offset: None,
            len: None,
            what: "there is no checkpoint".into(),
            meaning: "after a crash the whole log is read".into(),
        })?;
    }
    Ok(())
}
