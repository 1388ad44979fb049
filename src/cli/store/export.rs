//! `rmq store export`.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::rows::Meter;
use super::{Damaged, Place, count, int, interrupt, not_inside, path};
use crate::cli::exit::{self, Failure};
use crate::cli::output::{Cell, Detail, Listing, col};
use crate::cli::session::Session;
use crate::cli::time::{self, When};
use crate::inspect::export::{Copied, Passed, Selection, StoreCopy, Taken, Target, line, select};
use crate::inspect::{Depth, Log, Point, Severity, Store, Wanted};

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// One JSON object a line, the body in base64
    Jsonl,
    /// A store directory
    Store,
}

/// `rmq store export`
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    place: Place,
    /// New file, or new directory of a store; - writes lines to stdout
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// What to make: jsonl or store [default: store for a PATH that ends in / or is an empty directory, else jsonl]
    #[arg(long = "as", value_enum, value_name = "FORM", hide_possible_values = true)]
    form: Option<Form>,
    /// Only these topics, separated by commas; repeatable [default: all but those a broker acts on by itself]
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    topic: Vec<String>,
    /// Also delayed, timed and half messages (SCHEDULE_TOPIC_XXXX, rmq_sys_*, RMQ_SYS_*)
    #[arg(long, conflicts_with = "topic")]
    system: bool,
    /// Only this queue number
    #[arg(long, value_name = "N")]
    queue: Option<i32>,
    /// Only this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only records with this key or unique key
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// Only what was stored at or behind this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<When>,
    /// Only what was stored up to this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<When>,
    /// End after so many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Lines: bodies as stored, not decompressed
    #[arg(long)]
    raw: bool,
}

impl ExportArgs {
    fn form(&self) -> Form {
        let text = self.out.to_string_lossy();
        self.form.unwrap_or(if text.ends_with('/') || self.out.is_dir() {
            Form::Store
        } else {
            Form::Jsonl
        })
    }

    fn selection(&self, session: &Session) -> Result<Selection, Failure> {
        let at = |when: &Option<When>| {
            when.as_ref()
                .map(|when| {
                    when.at_ms(time::now_ms(), &session.printer.zone)
                        .map_err(Failure::usage)
                })
                .transpose()
                .map(Option::flatten)
        };
        Ok(Selection {
            topics: self.topic.iter().cloned().collect(),
            wanted: Wanted {
                topic: None,
                queue_id: self.queue,
                tag: self.tag.clone(),
                key: self.key.clone(),
            },
            from_ms: at(&self.from)?,
            to_ms: at(&self.to)?,
            system: self.system,
        })
    }
}

/// Runs `rmq store export`.
pub fn run(session: &Session, args: &ExportArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    let log = store.log_streaming()?;
    let selection = args.selection(session)?;
    let to_stdout = args.out == Path::new("-");
    if !to_stdout {
        not_inside(store.root(), &args.out, "--out")?;
    }
    let begin = match selection.from_ms {
        Some(ms) => log.begin_of(Point::Time(ms))?,
        None => log.start(),
    };
    match args.form() {
        Form::Jsonl => lines(session, args, &log, &selection, begin, to_stdout),
        Form::Store if to_stdout => Err(Failure::usage("--as store needs a directory for --out")),
        Form::Store => copy(session, args, &store, &log, &selection, begin),
    }
}

/// Walks the log and hands chosen records to `each`.
fn walk(
    session: &Session,
    args: &ExportArgs,
    log: &Log,
    selection: &Selection,
    begin: u64,
    damaged: &mut Damaged,
    each: &mut dyn FnMut(&Taken<'_>) -> Result<(), Failure>,
) -> Result<Passed, Failure> {
    let mut meter = Meter::new(session, "export", log.end().saturating_sub(begin));
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut taken = 0;
    select(log.walk(begin, true), selection, |step| {
        match &step {
            Taken::Record(..) => {
                if taken == limit {
                    return Ok(false);
                }
                taken += 1;
                each(&step)?;
            }
            Taken::Gap(gap) => damaged.add(gap),
            Taken::At(at) => meter.at(at.saturating_sub(begin)),
        }
        Ok(!interrupt::asked())
    })
}

fn lines(
    session: &Session,
    args: &ExportArgs,
    log: &Log,
    selection: &Selection,
    begin: u64,
    to_stdout: bool,
) -> Result<(), Failure> {
    let mut out: BufWriter<Box<dyn Write>> = BufWriter::with_capacity(
        256 * 1024,
        if to_stdout {
            Box::new(std::io::stdout())
        } else {
            Box::new(File::create_new(&args.out).map_err(|e| create_failure(&args.out, &e))?)
        },
    );
    let mut damaged = Damaged::default();
    let passed = walk(session, args, log, selection, begin, &mut damaged, &mut |step| {
        if let Taken::Record(record, view) = step {
            serde_json::to_writer(&mut out, &line(record, view, args.raw)).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    out.flush()?;
    let to = if to_stdout {
        String::new()
    } else {
        format!(" in {}", args.out.display())
    };
    note(session, &passed, &to);
    interrupt::check(&format!("the log was read up to {}", passed.reached))?;
    end(args, &passed, &damaged)
}

fn create_failure(out: &Path, e: &std::io::Error) -> Failure {
    if e.kind() == std::io::ErrorKind::AlreadyExists {
        Failure::new(exit::PRECONDITION, format!("{} exists already", out.display()))
            .because("An export never writes over a file.")
    } else {
        Failure::new(
            exit::INTERNAL,
            format!("{} cannot be created: {e}", out.display()),
        )
    }
}

/// What was taken, for a person; stdout may be the export itself.
fn note(session: &Session, passed: &Passed, to: &str) {
    if session.is_quiet() {
        return;
    }
    let mut text = format!(
        "{}, {}{to}",
        count(passed.taken, "record"),
        count(passed.bytes, "byte")
    );
    for (n, what) in [
        (
            passed.internal,
            "that a broker acts on by itself (--system takes them)",
        ),
        (passed.stale, "left over from before the log was cut"),
    ] {
        if n > 0 {
            text += &format!("; left out {} {what}", count(n, "record"));
        }
    }
    if passed.is_cut && !interrupt::asked() {
        text += "; there are more";
    }
    session.talk(&text);
}

fn end(args: &ExportArgs, passed: &Passed, damaged: &Damaged) -> Result<(), Failure> {
    damaged.verdict(&args.place)?;
    if passed.taken == 0 {
        return Err(Failure::new(
            exit::NOT_FOUND,
            "no record is as wanted; nothing was exported",
        ));
    }
    Ok(())
}

fn copy(
    session: &Session,
    args: &ExportArgs,
    store: &Store,
    log: &Log,
    selection: &Selection,
    begin: u64,
) -> Result<(), Failure> {
    let target = Target::like(store)?;
    let light: HashSet<String> = if store.is_rocks_db() {
        HashSet::new()
    } else {
        let queues = store.queues()?.into_iter().map(|(name, _)| name.topic);
        queues.filter(|topic| topic.starts_with("%LMQ%")).collect()
    };
    let mut copy = StoreCopy::create(&args.out, target, light)?;
    let mut damaged = Damaged::default();
    let passed = walk(session, args, log, selection, begin, &mut damaged, &mut |step| {
        if let Taken::Record(record, view) = step {
            copy.push(record, view)?;
        }
        Ok(())
    })?;
    if passed.taken == 0 {
        copy.abandon();
        interrupt::check(&format!("the log was read up to {}", passed.reached))?;
        return end(args, &passed, &damaged);
    }
    let copied = copy.finish(store, |topic| selection.has_topic(topic))?;
    let problems = look_back(&args.out)?;
    print(session, args, &target, &copied, &passed, problems.len())?;
    note(session, &passed, "");
    for (name, by) in &copied.moved {
        session.warn(&format!(
            "queue {}@{}: {} missing in its middle, so the later records have lower offsets",
            name.topic,
            name.queue_id,
            count(by.unsigned_abs(), "message")
        ));
    }
    interrupt::check(&format!(
        "the log was read up to {}, and the new store is whole as far as that",
        passed.reached
    ))?;
    if let Some(first) = problems.first() {
        return Err(Failure::new(
            exit::ERRORS,
            format!(
                "{} in the new store; first: {first}",
                count(problems.len() as u64, "problem")
            ),
        ));
    }
    end(args, &passed, &damaged)
}

/// What a quick look at the new store finds wrong.
fn look_back(root: &Path) -> Result<Vec<String>, Failure> {
    let made = Store::open(root, None)?;
    let mut problems = Vec::new();
    super::verify::quietly(&made, Depth::Quick, &mut |finding| {
        if finding.severity >= Severity::Warning {
            problems.push(format!("{}: {}", finding.subject, finding.what));
        }
    })?;
    Ok(problems)
}

fn print(
    session: &Session,
    args: &ExportArgs,
    target: &Target,
    copied: &Copied,
    passed: &Passed,
    problems: usize,
) -> Result<(), Failure> {
    let mut queues = Listing::new(
        "StoreQueueList",
        &[col("topic"), col("queue_id"), col("max_offset")],
    );
    for (name, max) in &copied.queues {
        queues.push(vec![
            name.topic.as_str().into(),
            name.queue_id.into(),
            Cell::Int(*max),
        ]);
    }
    let keys = target
        .keys()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_string()))
        .collect();
    session.printer.print_detail(Detail {
        kind: "StoreExport",
        fields: vec![
            ("store", path(&args.out)),
            ("records", int(copied.records)),
            ("bytes", int(passed.bytes)),
            ("log_end", int(copied.log_end)),
            ("queues", copied.queues.len().into()),
            ("topics", copied.topics.into()),
            ("index_files", copied.index_files.into()),
            ("broker_needs", Cell::Pairs(keys)),
            ("problems", problems.into()),
        ],
        tables: vec![("queues_made", queues)],
        ..Detail::default()
    })
}
