//! The index: its links, and what its items lead to.

use super::{Depth, Finding, Pass, Progress, Severity, Stop};
use crate::inspect::commit_log::Log;
use crate::inspect::index::{FileWalk, is_indexed_under};
use crate::store::cursor::Record;

/// Items that have the same thing wrong.
#[derive(Default)]
struct Wrong {
    count: u64,
    first: Option<(i32, i64)>,
    why: String,
}

impl Wrong {
    fn add(&mut self, n: i32, offset: i64, why: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((n, offset));
            self.why = why();
        }
    }
}

pub(super) fn check(pass: &mut Pass<'_>, log: &Log) -> Result<(), Stop> {
    let index = pass.store.index()?;
    let total: u64 = index.files().iter().map(FileWalk::len).sum();
    let mut done = 0;
    for file in index.files() {
        header(pass, file)?;
        if file.shape().is_some() && pass.depth == Depth::Full {
            links(pass, file)?;
            items(pass, file, log)?;
        }
        done += file.len();
        (pass.progress)(Progress {
            pass: "index",
            done,
            total,
        });
    }
    Ok(())
}

fn finding(file: &FileWalk, severity: Severity, code: &'static str, what: String, meaning: &str) -> Finding {
    Finding {
        severity,
        code,
        subject: "index".into(),
        file: Some(file.path().to_owned()),
        offset: None,
        len: None,
        what,
        meaning: meaning.into(),
    }
}

fn header(pass: &mut Pass<'_>, file: &FileWalk) -> Result<(), Stop> {
    let header = file.header();
    if file.shape().is_none() {
        let what = format!("{} bytes do not tell how many slots and items it has", file.len());
        return pass.find(finding(
            file,
            Severity::Warning,
            "index-shape",
            what,
            "it cannot be checked; a broker refuses it unless its configuration has the same sizes",
        ));
    }
    let backwards = header.begin_timestamp > header.end_timestamp || header.begin_offset > header.end_offset;
    if backwards && !file.is_empty() {
        pass.find(finding(
            file,
            Severity::Error,
            "index-header",
            format!(
                "begins at {} / {} ms and ends before, at {} / {} ms",
                header.begin_offset, header.begin_timestamp, header.end_offset, header.end_timestamp
            ),
            "queries by key pass over the file",
        ))?;
    }
    let end = i64::try_from(pass.info.log_end).unwrap_or(i64::MAX);
    if header.end_offset >= end && !file.is_empty() && !pass.store.is_live() {
        pass.find(finding(
            file,
            Severity::Warning,
            "index-beyond-log",
            format!("reaches to {}, the log ends at {end}", header.end_offset),
            "new records are not indexed until the log has grown past that",
        ))?;
    }
    Ok(())
}

fn links(pass: &mut Pass<'_>, file: &FileWalk) -> Result<(), Stop> {
    let stats = file.chains()?;
    pass.report.items += stats.items;
    let unfinished = pass.is_unfinished();
    if stats.broken > 0 {
        let (n, found, expected) = stats.broken_links.first().copied().unwrap_or_default();
        let what = format!(
            "{} links lead elsewhere than the items before call for; first at item {n}: {found} instead of {expected}",
            stats.broken
        );
        pass.find(Finding {
            offset: Some(u64::from(n)),
            len: Some(stats.broken),
            ..finding(
                file,
                if unfinished {
                    Severity::Warning
                } else {
                    Severity::Error
                },
                "index-links",
                what,
                "queries by key miss records",
            )
        })?;
    }
    if stats.slots_behind_count > 0 && !pass.store.is_live() {
        let what = format!(
            "{} slots lead to items behind the count of {}",
            stats.slots_behind_count,
            file.header().count
        );
        let meaning = "the header was not written back before a crash; a Java broker drops such a file at its next start";
        pass.find(finding(file, Severity::Warning, "index-count", what, meaning))?;
    }
    Ok(())
}

fn items(pass: &mut Pass<'_>, file: &FileWalk, log: &Log) -> Result<(), Stop> {
    let (mut gone, mut other, mut beyond) = (Wrong::default(), Wrong::default(), Wrong::default());
    let log_end = pass.info.log_end;
    let mut last: Option<Record> = None;
    file.items(|n, item| {
        let Ok(at) = u64::try_from(item.offset) else {
            gone.add(n, item.offset, || "negative offset".into());
            return true;
        };
        if at < log.start() {
            return true;
        }
        if at >= log_end {
            beyond.add(n, item.offset, String::new);
            return true;
        }
        if last.as_ref().is_none_or(|record| record.at != at) {
            last = match log.record(at, false) {
                Ok(record) => Some(record),
                Err(kind) => {
                    gone.add(n, item.offset, || kind.to_string());
                    None
                }
            };
        }
        if let Some(record) = &last
            && !record.view().is_ok_and(|view| is_indexed_under(&view, item.hash))
        {
            other.add(n, item.offset, || {
                format!("the record has no key with hash {}", item.hash)
            });
        }
        true
    })?;
    let mut report = |wrong: Wrong, code, what: &str, severity, meaning: &str| match wrong.first {
        None => Ok(()),
        Some((n, offset)) => {
            let why = if wrong.why.is_empty() {
                String::new()
            } else {
                format!(": {}", wrong.why)
            };
            pass.find(Finding {
                offset: Some(u64::from(n.unsigned_abs())),
                len: Some(wrong.count),
                ..finding(
                    file,
                    severity,
                    code,
                    format!(
                        "{} items {what}; first is item {n} for {offset}{why}",
                        wrong.count
                    ),
                    meaning,
                )
            })
        }
    };
    report(
        gone,
        "index-no-record",
        "lead to no valid record",
        Severity::Warning,
        "queries by these keys find less than was sent",
    )?;
    report(
        other,
        "index-other-record",
        "lead to a record with other keys",
        Severity::Warning,
        "queries by key return records that do not have the key",
    )?;
    // A running broker goes on indexing behind the end that was seen at the start.
    if log.is_live() {
        return Ok(());
    }
    report(
        beyond,
        "index-item-beyond-log",
        "lead behind the end of the log",
        Severity::Warning,
        "queries by these keys find less than was sent",
    )
}
