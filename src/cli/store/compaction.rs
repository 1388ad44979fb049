//! `rmq store dump-compaction`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, json};

use super::commit_log::{Shown, columns, row};
use super::rows::{Meter, Rows};
use super::{Damaged, count, interrupt};
use crate::cli::exit::{self, Failure};
use crate::cli::message::BodyForm;
use crate::cli::session::Session;
use crate::inspect::{Step, Wanted, compaction_log};

/// `rmq store dump-compaction`
#[derive(Debug, Clone, Args)]
pub struct CompactionArgs {
    /// File of a compaction log, or a directory of them: STORE/compaction/compactionLog/TOPIC/QUEUE
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// Only messages with this key
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// End after so many messages
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Show bodies, decompressed: auto, text or hex
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto",
        value_name = "FORM"
    )]
    body: Option<BodyForm>,
}

/// Runs `rmq store dump-compaction`.
pub fn run(session: &Session, args: &CompactionArgs) -> Result<(), Failure> {
    let log = compaction_log(&args.path)?;
    if log.files().next().is_none() {
        let what = format!("{} has no files of a compaction log", args.path.display());
        return Err(Failure::new(exit::NOT_FOUND, what).because(
            "They are in STORE/compaction/compactionLog/TOPIC/QUEUE, and have names of 20 digits.",
        ));
    }
    let wanted = Wanted {
        key: args.key.clone(),
        ..Wanted::default()
    };
    let shown = Shown::body(args.body);
    let begin = log.start();
    let meter = Meter::new(session, "compaction log", log.end().saturating_sub(begin));
    let mut rows = Rows::new(session, "CompactionLogRecordList", &columns(shown), meter)?;
    let (mut messages, mut damaged, mut end, mut more) = (0, Damaged::default(), begin, None);
    let mut first = None;
    for step in log.walk(begin, true) {
        match &step {
            Step::Message { record, .. } => {
                if record.view().is_ok_and(|view| wanted.matches(&view)) {
                    if Some(messages) == args.limit {
                        more = Some(record.at);
                        break;
                    }
                    messages += 1;
                    rows.push(row(&log, &step, shown))?;
                }
            }
            Step::Gap(gap) => {
                damaged.add(gap);
                if first.is_none() {
                    let file = log.file_of(gap.at);
                    first =
                        Some(file.map_or((args.path.clone(), gap.at), |f| (f.path.clone(), gap.at - f.base)));
                }
                rows.push(row(&log, &step, shown))?;
            }
            Step::Filler { .. } | Step::Tail { .. } => {}
        }
        end = step.end();
        rows.at(end.saturating_sub(begin))?;
        if interrupt::asked() {
            more = Some(end);
            break;
        }
    }
    let summary = Map::from_iter([
        ("records".to_owned(), json!(messages)),
        ("damaged_places".to_owned(), json!(damaged.places)),
        ("damaged_bytes".to_owned(), json!(damaged.bytes)),
        ("from_offset".to_owned(), json!(begin)),
        ("to_offset".to_owned(), json!(end)),
        ("next_offset".to_owned(), json!(more)),
    ]);
    let mut note = format!("{} from {begin} to {end}", count(messages, "message"));
    if let Some(at) = more {
        note.push_str(&format!("; there is more from {at} on"));
    }
    rows.finish(&summary, &note)?;
    interrupt::check(&format!("the log was read up to {end}"))?;
    let (Some((file, at)), Some((offset, why))) = (first, &damaged.first) else {
        return Ok(());
    };
    let what = format!(
        "the compaction log is damaged in {}, {} in all; first in {} at byte {at} (offset {offset}): {why}",
        count(damaged.places, "place"),
        count(damaged.bytes, "byte"),
        file.display()
    );
    Err(Failure::new(exit::ERRORS, what))
}
