//! Checkpoint and tables, and the comparison of all parts.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use super::Asker;
use crate::client::time::now_ms;
use crate::inspect::{
    Error, Finding, Log, LogEnd, Options, Progress, Resumable, Severity, Store, restart, resumable, tables,
    verify,
};
use crate::tui::store::answer::{Answer, Checks, Ended, TableRow, Verifying};
use crate::tui::store::question::What;

/// Findings that are listed.
const MOST_FINDINGS: usize = 1000;

/// Queues that are looked into to tell where the next start begins.
const MOST_QUEUES: usize = 256;

/// The small files, and what they mean.
pub fn look(store: &Store, log: &Log, end: LogEnd, asker: &Asker<'_>) -> Result<Checks, Error> {
    let read_ms = now_ms();
    let newest = end.last.and_then(|at| log.record_at(at).ok());
    let recovery = restart(store, end.at, MOST_QUEUES, &|| !asker.is_gone())?;
    asker.goes_on()?;
    Ok(Checks {
        read_ms,
        checkpoint: store.checkpoint()?,
        abort: store.abort()?.map(|text| text.trim().to_owned()),
        holder: store.holder(),
        newest_ms: newest.and_then(|record| Some(record.view().ok()?.store_timestamp())),
        recovery,
        tables: tables(store)?
            .iter()
            .map(|table| TableRow {
                name: table.name.clone(),
                state: table.state.name(),
                backup: table.backup.name(),
                entries: table.entries(),
                version: table.version(),
            })
            .collect(),
    })
}

fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// What has been seen, shared by the two listeners of a pass.
struct Seen<'a, 'b> {
    state: Verifying,
    begun: Instant,
    pass_begun: Instant,
    /// Listed findings that an error takes the place of.
    lesser: usize,
    asker: &'a mut Asker<'b>,
}

/// The pass that a finding comes from.
fn pass_of(subject: &str) -> &'static str {
    match subject {
        "commit log" => "commit log",
        "index" => "index",
        subject if subject.contains('@') => "queues",
        _ => "",
    }
}

impl Seen<'_, '_> {
    fn tell(&mut self) -> bool {
        self.state.elapsed_ms = ms(self.begun);
        self.asker.tell(|| Answer::Verify(Box::new(self.state.clone())))
    }

    fn found(&mut self, finding: Finding) -> bool {
        let name = (pass_of(&finding.subject), finding.code, finding.severity);
        *self.state.counts.entry(name).or_default() += 1;
        self.keep(finding);
        self.tell()
    }

    /// Lists a finding. In a full list an error takes the place of the last one that matters least.
    fn keep(&mut self, finding: Finding) {
        let is_error = finding.severity == Severity::Error;
        let found = &mut self.state.findings;
        if found.len() < MOST_FINDINGS {
            self.lesser += usize::from(!is_error);
            found.push(finding);
            return;
        }
        self.state.more += 1;
        if !is_error || self.lesser == 0 {
            return;
        }
        let least = found.iter_mut().rev().min_by_key(|other| other.severity);
        if let Some(place) = least.filter(|other| other.severity < Severity::Error) {
            *place = finding;
            self.lesser -= 1;
        }
    }

    fn at(&mut self, progress: Progress) -> bool {
        let is_new = self
            .state
            .passes
            .last()
            .is_none_or(|(last, _)| last.pass != progress.pass);
        if is_new {
            self.pass_begun = Instant::now();
            self.state.passes.push((progress, 0));
        } else if let Some(last) = self.state.passes.last_mut() {
            *last = (progress, ms(self.pass_begun));
        }
        self.tell()
    }
}

/// Compares all parts of a store with each other. `limit` is in megabytes a second, `state` the file that a full one
/// notes in how far it is, and whether it goes on with it.
pub fn verify_all(
    store: &Store,
    full: bool,
    limit: Option<u64>,
    (state, resume): (Option<&Path>, bool),
    asker: &mut Asker<'_>,
) -> Result<Verifying, Error> {
    let resumed = match state {
        Some(path) if resume => resumable(store, path)?,
        _ => None,
    };
    let seen = std::cell::RefCell::new(Seen {
        state: Verifying {
            root: store.root().to_owned(),
            full,
            resumed,
            begun_ms: now_ms(),
            ..Verifying::default()
        },
        begun: Instant::now(),
        pass_begun: Instant::now(),
        lesser: 0,
        asker,
    });
    let options = Options {
        bytes_per_second: limit.map(|megabytes| megabytes.saturating_mul(1_000_000)),
        state,
        resume,
        ..Options::from(What::depth(full))
    };
    let report = verify(
        store,
        options,
        &mut |finding| {
            if seen.borrow_mut().found(finding) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        },
        &mut |progress| seen.borrow_mut().at(progress),
    )?;
    let mut seen = seen.into_inner();
    seen.state.elapsed_ms = ms(seen.begun);
    seen.state.ended = Some(if report.stopped {
        Ended::Stopped
    } else {
        Ended::Complete
    });
    // The state file may have changed since it was looked at.
    seen.state.resumed = report.resumed_at.map(|at| Resumable {
        at,
        of_ms: report.resumed_of_ms,
    });
    seen.state.report = Some(report);
    Ok(seen.state)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn finding(severity: Severity, n: u64) -> Finding {
        Finding {
            severity,
            code: match severity {
                Severity::Error => "no-record",
                _ => "blank",
            },
            subject: "orders@0".to_owned(),
            file: None,
            offset: Some(n),
            len: None,
            what: String::new(),
            meaning: String::new(),
        }
    }

    #[test]
    fn a_full_list_makes_room_for_errors_and_counts_go_on() {
        let stop = AtomicBool::new(false);
        let mut tell = |_| {};
        let mut asker = Asker::new(&mut tell, &stop);
        let mut seen = Seen {
            state: Verifying::default(),
            begun: Instant::now(),
            pass_begun: Instant::now(),
            lesser: 0,
            asker: &mut asker,
        };
        seen.found(finding(Severity::Warning, 0));
        for n in 1..1_500 {
            seen.found(finding(Severity::Info, n));
        }
        for n in 0..1_010 {
            seen.found(finding(Severity::Error, n));
        }
        let state = seen.state;
        assert_eq!((state.findings.len(), state.more), (1000, 1510));
        assert!(
            state
                .findings
                .iter()
                .all(|found| found.severity == Severity::Error)
        );
        let counts: Vec<_> = state.counts.into_iter().collect();
        assert_eq!(
            counts,
            [
                (("queues", "blank", Severity::Info), 1499),
                (("queues", "blank", Severity::Warning), 1),
                (("queues", "no-record", Severity::Error), 1010),
            ]
        );
    }
}
