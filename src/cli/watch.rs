//! `--watch`: repeat a listing, or the look at an object.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;

use super::exit::Failure;
use super::output::{Cell, Detail, Filter, Format, Listing, col};
use super::session::Session;
use super::time::{self, Zone};

/// Repetition of a command that reads.
#[derive(Debug, Clone, Default, Args)]
pub struct WatchArgs {
    /// Repeat every INTERVAL: redraws on a terminal, appends JSON lines with a time on a pipe
    #[arg(short, long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true,
          default_missing_value = "2s", value_parser = interval)]
    pub watch: Option<Duration>,
    /// Watch until some row, or the object's fields, fulfil this, as --filter writes it; exit code 8 when --deadline comes first
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

/// Objects and the failures that come with them.
pub struct Objects {
    /// What to print, one object each.
    pub details: Vec<Detail>,
    /// Targets that failed.
    pub failures: Vec<Failure>,
    /// At least one target answered.
    pub some_answered: bool,
}

/// What can be looked at again and again.
pub trait Look: Sized {
    /// The targets that failed.
    fn failures(&self) -> &[Failure];
    /// What the failures come to.
    fn verdict(&self) -> Result<(), Failure>;
    /// Whether it fulfils what is waited for.
    fn is_reached(&self, wanted: &Filter, zone: &Zone) -> Result<bool, Failure>;
    /// Prints it as one look does.
    fn print(self, session: &Session) -> Result<(), Failure>;
    /// Writes it for a terminal.
    fn write(self, session: &Session, out: &mut Vec<u8>) -> Result<(), Failure>;
    /// Prints it with its time as JSON lines.
    fn append(self, session: &Session, now: i64) -> Result<(), Failure>;
}

impl Look for Rows {
    fn failures(&self) -> &[Failure] {
        &self.listing.errors
    }

    fn verdict(&self) -> Result<(), Failure> {
        Failure::over(&self.listing.errors, self.some_answered)
    }

    fn is_reached(&self, wanted: &Filter, zone: &Zone) -> Result<bool, Failure> {
        wanted.any(&self.listing, zone)
    }

    fn print(self, session: &Session) -> Result<(), Failure> {
        session.printer.print(self.listing)
    }

    fn write(self, session: &Session, out: &mut Vec<u8>) -> Result<(), Failure> {
        session.printer.write(self.listing, out)
    }

    fn append(mut self, session: &Session, now: i64) -> Result<(), Failure> {
        self.listing.columns.insert(0, col("time"));
        for row in &mut self.listing.rows {
            row.insert(0, Cell::Time(now));
        }
        let mut lines = session.printer.rows(Format::Jsonl);
        lines.sort.clone_from(&session.printer.sort);
        lines.print(self.listing)
    }
}

impl Look for Objects {
    fn failures(&self) -> &[Failure] {
        &self.failures
    }

    fn verdict(&self) -> Result<(), Failure> {
        Failure::over(&self.failures, self.some_answered)
    }

    fn is_reached(&self, wanted: &Filter, zone: &Zone) -> Result<bool, Failure> {
        for detail in &self.details {
            if wanted.any(&detail.field_row(), zone)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn print(mut self, session: &Session) -> Result<(), Failure> {
        match self.details.len() {
            1 => session.printer.print_detail(self.details.remove(0)),
            _ => session.printer.print_details(self.details),
        }
    }

    fn write(self, session: &Session, out: &mut Vec<u8>) -> Result<(), Failure> {
        session.printer.write_details(self.details, out)
    }

    fn append(mut self, session: &Session, now: i64) -> Result<(), Failure> {
        for detail in &mut self.details {
            detail.fields.insert(0, ("time", Cell::Time(now)));
        }
        session.printer.rows(Format::Jsonl).print_details(self.details)
    }
}

impl WatchArgs {
    /// How often it is looked; `None` for once.
    pub fn interval(&self) -> Option<Duration> {
        let until = self.watch_until.as_ref();
        self.watch.or(until.map(|_| Duration::from_secs(2)))
    }
}

/// Prints what `look` gives, once or again and again until the process is interrupted.
pub async fn print<L: Look, F: Future<Output = Result<L, Failure>>>(
    session: &Session,
    args: &WatchArgs,
    look: impl Fn() -> F,
) -> Result<(), Failure> {
    let Some(interval) = args.interval() else {
        let seen = look().await;
        session.warn_of_dead_name_servers();
        let seen = seen?;
        let verdict = seen.verdict();
        seen.print(session)?;
        return verdict;
    };
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let seen = look().await;
        let now = time::now_ms();
        let reached = match (&args.watch_until, &seen) {
            (Some(wanted), Ok(seen)) => seen.is_reached(wanted, &session.printer.zone)?,
            _ => false,
        };
        if session.is_live() && session.is_table() {
            redraw(session, seen, now)?;
        } else {
            append(session, seen, now)?;
        }
        if reached {
            return Ok(());
        }
    }
}

fn redraw(session: &Session, seen: Result<impl Look, Failure>, now: i64) -> Result<(), Failure> {
    let mut text = Vec::new();
    let at = session.printer.zone.text(now).unwrap_or_default();
    writeln!(text, "{at}  (ctrl-c ends)\n")?;
    match seen {
        Ok(seen) => {
            let verdict = seen.verdict();
            seen.write(session, &mut text)?;
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

fn append(session: &Session, seen: Result<impl Look, Failure>, now: i64) -> Result<(), Failure> {
    session.warn_of_dead_name_servers();
    let seen = match seen {
        Ok(seen) => seen,
        // One failed look does not end a watch; a reader of the lines sees the gap, the operator the reason.
        Err(failure) => {
            session.talk(&format!("error: {}", failure.text()));
            return Ok(());
        }
    };
    for failure in seen.failures() {
        session.talk(&format!("error: {}", failure.what));
    }
    seen.append(session, now)
}

#[cfg(test)]
mod tests {
    /// Section 2 of the specification.
    #[test]
    fn what_describes_or_counts_can_be_watched() {
        fn lacking(command: &clap::Command, path: &str, found: &mut Vec<String>) {
            for sub in command.get_subcommands() {
                let path = format!("{path} {}", sub.get_name());
                let live = ["describe", "lag", "stats"].contains(&sub.get_name());
                let has = |id: &str| sub.get_arguments().any(|arg| arg.get_id() == id);
                // A store is files.
                if live && path != " store stats" && !(has("watch") && has("watch_until")) {
                    found.push(path.clone());
                }
                lacking(sub, &path, found);
            }
        }
        let mut found = Vec::new();
        lacking(&crate::cli::command(), "", &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
