//! `rmq cluster doctor`: examines everything and says what needs a look, why, and what to do next.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::exit::{self, Failure};
use super::output::{Cell, Format, Listing, col};
use super::session::Session;
use super::time;
use crate::client::Deadline;
use crate::client::doctor::gather::Examined;
use crate::client::doctor::{CHECKS, check};
use crate::client::findings::{Finding, Severity};
use crate::client::words::counted;

/// `rmq cluster doctor`
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Only these checks, by id, such as NS1,BR6; a family such as GR means all of it
    #[arg(long, value_delimiter = ',', value_name = "ID", value_parser = checks_of)]
    checks: Vec<Chosen>,
    /// What ends with an exit code of its own: warnings with 10 and errors with 11, errors only, or nothing
    #[arg(long, value_enum, default_value_t = FailOn::Warn, value_name = "LEVEL")]
    fail_on: FailOn,
    /// Print the next command below each finding
    #[arg(long)]
    fix_hints: bool,
    /// Print every finding: without it, ten of one check and severity, and how many more there are
    #[arg(long)]
    all: bool,
    /// Print what each check looks for, and ask nothing
    #[arg(long)]
    list: bool,
    /// Limit of the whole examination
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = time::parse_duration)]
    deadline: Duration,
}

/// Ids that one word of `--checks` stands for.
#[derive(Debug, Clone)]
struct Chosen(Vec<&'static str>);

fn checks_of(text: &str) -> Result<Chosen, String> {
    let text = text.trim();
    if let Some(check) = check(text) {
        return Ok(Chosen(vec![check.id]));
    }
    let family: Vec<&'static str> = CHECKS
        .iter()
        .map(|c| c.id)
        .filter(|id| {
            id.trim_end_matches(|c: char| c.is_ascii_digit())
                .eq_ignore_ascii_case(text)
        })
        .collect();
    if family.is_empty() {
        let known: Vec<&str> = CHECKS.iter().map(|c| c.id).collect();
        return Err(format!(
            "there is no check \"{text}\"; the checks are {}",
            known.join(", ")
        ));
    }
    Ok(Chosen(family))
}

/// What a doctor's exit code tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Warnings and errors
    Warn,
    /// Errors
    Error,
    /// Nothing: 0 whatever is found
    Never,
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}

/// Runs `rmq cluster doctor`.
pub async fn run(session: &Session, args: &DoctorArgs) -> Result<(), Failure> {
    let wanted: BTreeSet<&'static str> = if args.checks.is_empty() {
        CHECKS.iter().map(|c| c.id).collect()
    } else {
        args.checks.iter().flat_map(|c| c.0.iter().copied()).collect()
    };
    if args.list {
        return list(session, &wanted);
    }
    let start = std::time::Instant::now();
    let examined = session
        .client
        .examine(&wanted, Deadline::after(args.deadline))
        .await;
    // The findings tell it.
    session.client.take_dead_name_servers();
    let found: Vec<&Finding> = examined
        .findings
        .iter()
        .filter(|f| wanted.contains(f.check))
        .collect();
    let count = |severity| found.iter().filter(|f| f.severity == severity).count();
    let (errors, warnings) = (count(Severity::Critical), count(Severity::Warning));
    let snapshot = &examined.snapshot;
    let mut listing = rows(&found);
    for (key, value) in [
        ("checks", wanted.len()),
        ("errors", errors),
        ("warnings", warnings),
        ("name_servers", snapshot.name_servers.len()),
        ("brokers", snapshot.brokers.len()),
        ("topics", snapshot.topics.len()),
        ("groups", groups(&examined)),
    ] {
        listing.summary.insert(key.into(), json!(value));
    }
    let took = start.elapsed();
    listing.summary.insert(
        "took_ms".into(),
        json!(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
    );
    let missed: Vec<String> = examined
        .details
        .missed
        .iter()
        .map(|m| format!("{} did not answer {}: {}", m.server, m.what, m.why))
        .collect();
    listing.summary.insert("not_checked".into(), json!(missed));
    for line in &missed {
        session.warn(&format!("not checked: {line}"));
    }
    print(session, listing, args)?;
    session.note(&format!(
        "{} over {}, {}, {} and {} in {}: {}",
        counted(wanted.len(), "check"),
        counted(snapshot.name_servers.len(), "name server"),
        counted(snapshot.brokers.len(), "broker"),
        counted(snapshot.topics.len(), "topic"),
        counted(groups(&examined), "group"),
        time::duration(took),
        verdict(errors, warnings)
    ));
    if !snapshot.name_servers.iter().any(|s| s.is_up()) {
        return Err(Failure::new(exit::CONNECTION, "no name server could be reached")
            .hint("rmq config test, or name one with --namesrv HOST:PORT"));
    }
    let exit = match args.fail_on {
        FailOn::Never => return Ok(()),
        _ if errors > 0 => exit::ERRORS,
        FailOn::Warn if warnings > 0 => exit::WARNINGS,
        FailOn::Warn | FailOn::Error => return Ok(()),
    };
    Err(Failure::new(
        exit,
        format!("the examination found {}", verdict(errors, warnings)),
    ))
}

fn groups(examined: &Examined) -> usize {
    let names: BTreeSet<&String> = examined
        .details
        .group_configs
        .values()
        .flat_map(|configs| configs.keys())
        .filter(|name| !crate::client::admin::group::is_system(name))
        .collect();
    names.len()
}

fn verdict(errors: usize, warnings: usize) -> String {
    let of = |n: usize, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    match (errors, warnings) {
        (0, 0) => "nothing found".into(),
        (e, 0) => of(e, "error"),
        (0, w) => of(w, "warning"),
        (e, w) => format!("{} and {}", of(e, "error"), of(w, "warning")),
    }
}

fn rows(found: &[&Finding]) -> Listing {
    let mut listing = Listing::new(
        "DoctorReport",
        &[
            col("check"),
            col("severity"),
            col("about"),
            col("evidence"),
            col("why"),
            col("next"),
        ],
    );
    listing.ordered = true;
    for finding in found {
        let check = check(finding.check);
        let evidence = match &finding.detail {
            Some(detail) => format!("{}; {detail}", finding.text),
            None => finding.text.clone(),
        };
        listing.push(vec![
            finding.check.into(),
            severity(finding.severity).into(),
            finding.subject.to_string().into(),
            evidence.into(),
            check.map(|c| c.why).into(),
            finding.command().into(),
        ]);
    }
    listing
}

/// Most findings of one check and severity that a person reads one by one.
const SHOWN: usize = 10;

/// A block a finding for a person, not more than [`SHOWN`] of a kind; every other form as it is.
fn print(session: &Session, listing: Listing, args: &DoctorArgs) -> Result<(), Failure> {
    let printer = &session.printer;
    if printer.format != Format::Table || printer.columns.is_some() || session.desk().is_some() {
        return printer.print(listing);
    }
    let listing = printer.arrange(listing)?;
    let mut told: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut out = std::io::stdout().lock();
    for row in &listing.rows {
        let text = |at: usize| match row.get(at) {
            Some(Cell::Text(text)) => super::output::printable(text),
            _ => "-".into(),
        };
        let seen = told.entry((text(0), text(1))).or_default();
        *seen += 1;
        if *seen > SHOWN && !args.all {
            continue;
        }
        writeln!(out, "{:4} {:8} {}", text(0), text(1), text(3))?;
        writeln!(out, "              {}", text(4))?;
        if args.fix_hints {
            writeln!(out, "              next: {}", text(5))?;
        }
    }
    if !args.all {
        for ((check, severity), seen) in told.into_iter().filter(|(_, seen)| *seen > SHOWN) {
            writeln!(
                out,
                "{check:4} {severity:8} and {} more: --all or -o json",
                seen - SHOWN
            )?;
        }
    }
    out.flush()?;
    Ok(())
}

fn list(session: &Session, wanted: &BTreeSet<&'static str>) -> Result<(), Failure> {
    let mut listing = Listing::new(
        "DoctorChecks",
        &[col("check"), col("what"), col("why"), col("next")],
    );
    listing.ordered = true;
    for check in CHECKS.iter().filter(|c| wanted.contains(c.id)) {
        listing.push(vec![
            check.id.into(),
            check.what.into(),
            check.why.into(),
            check.next.into(),
        ]);
    }
    session.printer.print(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_chosen_by_id_or_family() {
        assert_eq!(checks_of("ns1").unwrap().0, ["NS1"]);
        assert_eq!(checks_of("ha").unwrap().0, ["HA1", "HA2"]);
        assert_eq!(checks_of("GR").unwrap().0.len(), 7);
        for wrong in ["", "N", "NS", "NS9", "X"] {
            let is_family = wrong == "NS";
            assert_eq!(checks_of(wrong).is_ok(), is_family, "{wrong}");
        }
    }

    #[test]
    fn the_verdict_counts() {
        assert_eq!(verdict(0, 0), "nothing found");
        assert_eq!(verdict(1, 2), "1 error and 2 warnings");
    }
}
