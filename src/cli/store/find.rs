//! `rmq store find`.

use std::ops::ControlFlow;

use clap::Args;
use regex::bytes::{Regex, RegexBuilder};
use serde_json::json;

use super::commit_log::{Shown, columns, record_row};
use super::rows::{Meter, Rows};
use super::{Damaged, Place, count, interrupt};
use crate::cli::exit::{self, Failure};
use crate::cli::message::BodyForm;
use crate::cli::output::Cell;
use crate::cli::session::Session;
use crate::inspect::{Find, FindStep, How};

/// `rmq store find`
#[derive(Debug, Clone, Args)]
#[group(id = "what", required = true, multiple = false, args = ["key", "id", "body_contains", "body_regex"])]
pub struct FindArgs {
    #[command(flatten)]
    place: Place,
    /// A key that the producer gave, or a unique key
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// An offset id or a unique key
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Text in the body, decompressed
    #[arg(long, value_name = "TEXT")]
    body_contains: Option<String>,
    /// Regular expression for the body, decompressed
    #[arg(long, value_name = "REGEX")]
    body_regex: Option<String>,
    /// Only this topic [default: all that the store knows of]
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// Read the whole log instead of asking the index
    #[arg(long)]
    scan: bool,
    /// End after so many records
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

impl FindArgs {
    fn find(&self) -> Result<Find, Failure> {
        if let Some(key) = &self.key {
            return Ok(Find::Key {
                topic: self.topic.clone(),
                key: key.clone(),
            });
        }
        if let Some(id) = &self.id {
            return Ok(Find::Id(id.clone()));
        }
        let pattern = match (&self.body_contains, &self.body_regex) {
            (Some(text), _) => regex::escape(text),
            (None, Some(pattern)) => pattern.clone(),
            (None, None) => {
                return Err(Failure::usage(
                    "name --key, --id, --body-contains or --body-regex",
                ));
            }
        };
        let pattern: Regex = RegexBuilder::new(&pattern)
            .size_limit(16 << 20)
            .build()
            .map_err(|e| Failure::usage(format!("--body-regex: {e}")))?;
        Ok(Find::Body(pattern))
    }

    /// What was looked for, in words.
    fn words(&self) -> String {
        let quoted = |text: &Option<String>| text.as_deref().map(|text| format!("\"{text}\""));
        let what = [
            ("key", quoted(&self.key)),
            ("id", quoted(&self.id)),
            ("a body with", quoted(&self.body_contains)),
            ("a body that matches", quoted(&self.body_regex)),
        ]
        .into_iter()
        .find_map(|(what, text)| text.map(|text| format!("{what} {text}")))
        .unwrap_or_default();
        match &self.topic {
            Some(topic) => format!("{what} of topic {topic}"),
            None => what,
        }
    }
}

/// Runs `rmq store find`.
pub fn run(session: &Session, args: &FindArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    // By the index records are read here and there, by a scan one after the other.
    let by_scan = args.scan || args.key.is_none() && args.id.is_none();
    let log = if by_scan {
        store.log_streaming()?
    } else {
        store.log()?
    };
    let search = args.find()?.start(&store, &log, args.scan)?;
    let how = search.how().clone();
    let shown = Shown::body(args.body);
    let begin = log.start();
    let meter = Meter::new(session, "search", log.end().saturating_sub(begin));
    let mut rows = Rows::new(session, "CommitLogRecordList", &columns(shown), meter)?;
    let (mut hits, mut damaged) = (0u64, Damaged::default());
    let limit = args.limit.unwrap_or(u64::MAX);
    let (mut is_cut, mut failed, mut read) = (false, None, 0);
    search.run(|step| {
        let done = match step {
            FindStep::Hit(record) => {
                let is_of_topic = args
                    .topic
                    .as_deref()
                    .is_none_or(|topic| record.view().is_ok_and(|view| view.topic() == topic));
                if !is_of_topic {
                    Ok(())
                } else if hits == limit {
                    is_cut = true;
                    return ControlFlow::Break(());
                } else {
                    hits += 1;
                    rows.push(record_row(&log, &record, "record", Cell::Unknown, shown))
                }
            }
            FindStep::Gap(gap) => {
                damaged.add(&gap);
                Ok(())
            }
            FindStep::Read(bytes) => {
                read = bytes;
                rows.at(bytes)
            }
        };
        failed = done.err();
        if failed.is_some() || interrupt::asked() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if let Some(failure) = failed {
        return Err(failure);
    }
    let searched = match &how {
        How::Offset => "by the offset in the id".to_owned(),
        How::Index { files, topics } => format!(
            "by {} of the index, for {}",
            count(*files as u64, "file"),
            count(*topics as u64, "topic")
        ),
        How::Scan { from, to, readers } => format!(
            "by reading the log from {from} to {to}, {} at a time",
            count(*readers as u64, "segment")
        ),
    };
    let summary = json!({
        "records": hits,
        "searched": searched,
        "limit_reached": is_cut,
        "damaged_places": damaged.places,
        "damaged_bytes": damaged.bytes,
    });
    let cut = if is_cut { ", and more" } else { "" };
    let note = format!("{}{cut}; searched {searched}", count(hits, "record"));
    rows.finish(&summary.as_object().cloned().unwrap_or_default(), &note)?;
    interrupt::check(&format!("{} of the log were read", count(read, "byte")))?;
    damaged.verdict(&args.place)?;
    if hits > 0 {
        return Ok(());
    }
    let failure = Failure::new(
        exit::NOT_FOUND,
        format!("no record has {} (searched {searched})", args.words()),
    );
    Err(match how {
        How::Scan { .. } => failure,
        How::Offset | How::Index { .. } => failure
            .because("After a crash some records may be missing in the index.")
            .hint("the same command with --scan"),
    })
}
