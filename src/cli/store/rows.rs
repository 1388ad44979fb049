//! Rows printed while they are found, and a meter of how far the search is.

use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Column, Format, Listing};
use crate::cli::progress::{self, Pulse};
use crate::cli::session::Session;

/// Rows printed at once, at most.
const BATCH: usize = 500;
/// How long a row waits for others.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a pass takes before its meter shows.
const METER_AFTER: Duration = Duration::from_secs(1);

/// A listing that is printed while it grows.
pub struct Rows<'a> {
    session: &'a Session,
    batch: Listing,
    is_begun: bool,
    items: u64,
    since: Instant,
    /// How far the search is.
    pub meter: Meter,
}

impl<'a> Rows<'a> {
    /// Nothing is printed yet.
    pub fn new(
        session: &'a Session,
        kind: &'static str,
        columns: &[Column],
        meter: Meter,
    ) -> Result<Self, Failure> {
        if session.printer.sort.is_some() {
            return Err(Failure::usage(
                "--sort-by needs all rows at once; these are printed as they are found",
            )
            .hint("-o csv or -o jsonl, and sort the lines"));
        }
        let mut batch = Listing::new(kind, columns);
        batch.ordered = true;
        Ok(Self {
            session,
            batch,
            is_begun: false,
            items: 0,
            since: Instant::now(),
            meter,
        })
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Cell>) -> Result<(), Failure> {
        if self.batch.rows.is_empty() {
            self.since = Instant::now();
        }
        self.batch.push(row);
        if self.batch.rows.len() >= BATCH {
            return self.flush();
        }
        Ok(())
    }

    /// Says how far the search is; rows that waited long enough are printed.
    pub fn at(&mut self, done: u64) -> Result<(), Failure> {
        self.meter.at(done);
        if !self.batch.rows.is_empty() && self.since.elapsed() > PATIENCE {
            return self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let mut listing = self.batch.clone();
        self.batch.rows.clear();
        listing.ordered = true;
        let printer = &self.session.printer;
        let mut text = Vec::new();
        if printer.format == Format::Json {
            let mut lines = Vec::new();
            printer.rows(Format::Jsonl).write(listing, &mut lines)?;
            if !self.is_begun {
                let context = serde_json::to_string(&printer.context).map_err(std::io::Error::from)?;
                writeln!(
                    text,
                    "{{\"kind\":\"{}\",\"apiVersion\":\"rmq/v1\",\"context\":{context},\"items\":[",
                    self.batch.kind
                )?;
            }
            for line in lines.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
                if self.items > 0 {
                    text.extend_from_slice(b",\n");
                }
                self.items += 1;
                text.extend_from_slice(line);
            }
        } else {
            printer.write(listing, &mut text)?;
            let has_heading =
                printer.headers && matches!(printer.format, Format::Table | Format::Wide | Format::Csv);
            if self.is_begun && has_heading {
                let heading = text.iter().position(|&b| b == b'\n').map_or(0, |end| end + 1);
                text.drain(..heading);
            }
        }
        self.is_begun = true;
        self.meter.aside(|| {
            let mut out = std::io::stdout().lock();
            out.write_all(&text)?;
            out.flush()
        })?;
        Ok(())
    }

    /// Prints what is left; the summary goes into the document, the note to the person.
    pub fn finish(mut self, summary: &Map<String, Value>, note: &str) -> Result<(), Failure> {
        self.meter.clear();
        if !self.batch.rows.is_empty() || !self.is_begun {
            self.flush()?;
        }
        if self.session.printer.format == Format::Json {
            let mut out = std::io::stdout().lock();
            writeln!(out, "\n],\"summary\":{},\"errors\":[]}}", json!(summary))?;
            out.flush()?;
        }
        self.session.note(note);
        Ok(())
    }
}

/// Shows on stderr how far a long pass is.
pub struct Meter {
    what: String,
    total: u64,
    begun: Instant,
    bar: Option<ProgressBar>,
    pulse: Option<Pulse>,
    is_drawn: bool,
}

impl Meter {
    /// A meter of `total` bytes.
    pub fn new(session: &Session, what: &str, total: u64) -> Self {
        Self {
            what: what.to_owned(),
            total,
            begun: Instant::now(),
            bar: None,
            pulse: progress::lines(session),
            is_drawn: session.draws_progress(),
        }
    }

    /// Begins a pass of another name and length.
    pub fn pass(&mut self, what: &str, total: u64) {
        if self.what != what {
            what.clone_into(&mut self.what);
            self.total = total;
            self.begun = Instant::now();
            self.clear();
        }
    }

    /// So many bytes are done.
    pub fn at(&mut self, done: u64) {
        if self.pulse.as_mut().is_some_and(Pulse::is_due) {
            let bytes = |n| HumanBytes(n).to_string();
            let (done, total) = (done.min(self.total), Some(self.total));
            progress::say(&progress::line(
                &self.what,
                done,
                total,
                self.begun.elapsed(),
                &bytes,
            ));
        }
        if self.is_drawn && self.begun.elapsed() >= METER_AFTER {
            let bar = self.bar.get_or_insert_with(|| bar(&self.what, self.total));
            bar.set_position(done.min(self.total));
        }
    }

    /// Does something to the terminal while the bar is away.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(work),
            None => work(),
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.clear();
    }
}

fn bar(what: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    if let Ok(style) =
        ProgressStyle::with_template("{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left")
    {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
