//! Checkpoint and tables, and the comparison of all parts.

use std::ops::ControlFlow;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Asker;
use crate::inspect::{Error, Finding, Options, Progress, Store, info, verify};
use crate::tui::store::answer::{Answer, Checks, Ended, TableRow, Verifying};
use crate::tui::store::question::What;

/// Findings that are listed.
const MOST_FINDINGS: usize = 1000;

/// The small files, and what they mean.
pub fn look(store: &Store) -> Result<Checks, Error> {
    let info = info(store)?;
    Ok(Checks {
        checkpoint: info.checkpoint,
        abort: info.abort.map(|text| text.trim().to_owned()),
        holder: info.holder,
        newest_ms: info.last_time,
        log_end: info.log_end,
        recovery: info.recovery,
        tables: info
            .tables
            .iter()
            .map(|table| TableRow {
                name: table.name.clone(),
                state: table.state.name(),
                backup: table.backup.name(),
                entries: table.entries(),
                version: table.version(),
            })
            .collect(),
        queues: info.queues.len(),
        index_files: info.index.len(),
        strays: info.strays.len(),
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
    asker: &'a mut Asker<'b>,
}

impl Seen<'_, '_> {
    fn tell(&mut self) -> bool {
        self.state.elapsed_ms = ms(self.begun);
        self.asker.tell(|| Answer::Verify(Box::new(self.state.clone())))
    }

    fn found(&mut self, finding: Finding) -> bool {
        if self.state.findings.len() < MOST_FINDINGS {
            self.state.findings.push(finding);
        } else {
            self.state.more += 1;
        }
        self.tell()
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

/// Compares all parts of a store with each other. `limit` is in megabytes a second.
pub fn verify_all(
    store: &Store,
    full: bool,
    limit: Option<u64>,
    asker: &mut Asker<'_>,
) -> Result<Verifying, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seen = std::cell::RefCell::new(Seen {
        state: Verifying {
            full,
            begun_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
            ..Verifying::default()
        },
        begun: Instant::now(),
        pass_begun: Instant::now(),
        asker,
    });
    let options = Options {
        bytes_per_second: limit.map(|megabytes| megabytes.saturating_mul(1_000_000)),
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
    seen.state.report = Some(report);
    Ok(seen.state)
}
