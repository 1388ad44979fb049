//! `--watch`: repeat a listing.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;

use super::exit::Failure;
use super::output::{Cell, Filter, Format, Listing, col};
use super::session::Session;
use super::time;

/// Repetition of a command that reads.
#[derive(Debug, Clone, Default, Args)]
pub struct WatchArgs {
    /// Repeat every INTERVAL: redraws on a terminal, appends JSON lines with a time on a pipe
    #[arg(short, long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true,
          default_missing_value = "2s", value_parser = interval)]
    pub watch: Option<Duration>,
    /// Watch until some row fulfils this, as --filter writes it; exit code 8 when --deadline comes first
    #[arg(long, value_name = "EXPR")]
    pub watch_until: Option<Filter>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match time::parse_duration(text)? {
        short if short < Duration::from_millis(100) => Err("the shortest interval is 100ms".into()),
        good => Ok(good),
    }
}

/// A listing and the failure that comes with it.
pub struct Rows {
    /// What to print.
    pub listing: Listing,
    /// At least one target answered.
    pub some_answered: bool,
}

impl From<Listing> for Rows {
    fn from(listing: Listing) -> Self {
        Self {
            listing,
            some_answered: true,
        }
    }
}

/// Prints what `look` gives, once or again and again until the process is interrupted.
pub async fn print<F: Future<Output = Result<Rows, Failure>>>(
    session: &Session,
    args: &WatchArgs,
    look: impl Fn() -> F,
) -> Result<(), Failure> {
    let interval = args
        .watch
        .or(args.watch_until.as_ref().map(|_| Duration::from_secs(2)));
    let Some(interval) = interval else {
        let rows = look().await;
        session.warn_of_dead_name_servers();
        let rows = rows?;
        let verdict = Failure::over(&rows.listing.errors, rows.some_answered);
        session.printer.print(rows.listing)?;
        return verdict;
    };
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let rows = look().await;
        let now = time::now_ms();
        let reached = match (&args.watch_until, &rows) {
            (Some(wanted), Ok(rows)) => wanted.any(&rows.listing, &session.printer.zone)?,
            _ => false,
        };
        if session.is_live() && session.is_table() {
            redraw(session, rows, now)?;
        } else {
            append(session, rows, now)?;
        }
        if reached {
            return Ok(());
        }
    }
}

fn redraw(session: &Session, rows: Result<Rows, Failure>, now: i64) -> Result<(), Failure> {
    let mut text = Vec::new();
    let at = session.printer.zone.text(now).unwrap_or_default();
    writeln!(text, "{at}  (ctrl-c ends)\n")?;
    match rows {
        Ok(rows) => {
            let verdict = Failure::over(&rows.listing.errors, rows.some_answered);
            session.printer.write(rows.listing, &mut text)?;
            if let Err(failure) = verdict {
                writeln!(text, "\n{}", failure.text())?;
            }
        }
        Err(failure) => writeln!(text, "{}", failure.text())?,
    }
    for (addr, why) in session.client.take_dead_name_servers() {
        writeln!(text, "\nname server {addr}: {why}")?;
    }
    let mut out = std::io::stdout().lock();
    out.write_all(b"\x1b[H\x1b[2J")?;
    out.write_all(&text)?;
    out.flush()?;
    Ok(())
}

fn append(session: &Session, rows: Result<Rows, Failure>, now: i64) -> Result<(), Failure> {
    session.warn_of_dead_name_servers();
    let mut rows = match rows {
        Ok(rows) => rows,
        // One failed look does not end a watch; a reader of the lines sees the gap, the operator the reason.
        Err(failure) => {
            session.talk(&format!("error: {}", failure.text()));
            return Ok(());
        }
    };
    for failure in &rows.listing.errors {
        session.talk(&format!("error: {}", failure.what));
    }
    rows.listing.columns.insert(0, col("time"));
    for row in &mut rows.listing.rows {
        row.insert(0, Cell::Time(now));
    }
    let mut lines = session.printer.rows(Format::Jsonl);
    lines.sort.clone_from(&session.printer.sort);
    lines.print(rows.listing)
}
