//! CL1: clocks of brokers against ours and each other.
//!
//! A broker tells when it started and for how many whole seconds it has been running: its clock reads between that sum
//! and a second more. A message that was stored later than now tells the same more sharply.

use super::{Evidence, span};
use crate::client::RuntimeInfo;
use crate::client::findings::{Finding, Severity, Subject};

/// Difference from which a warning is given, ms.
const WARN_MS: i64 = 1_000;
/// Difference from which it is an error, ms.
const ERROR_MS: i64 = 30_000;

/// CL1.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    let Some(details) = e.details else { return };
    for (broker, (sent, received, info)) in &details.clocks {
        let from_uptime = skew(info, *sent, *received);
        let newest = details
            .stats
            .values()
            .filter_map(|by_broker| by_broker.get(broker))
            .flat_map(|s| s.offset_table.values())
            .map(|range| range.last_update_timestamp)
            .max();
        // A store time ahead of the end of our look is a clock ahead of ours by at least that.
        let from_store = newest
            .map(|at| at.saturating_sub(e.snapshot.taken_at_ms))
            .filter(|d| *d > 0);
        let Some(skew) = [from_uptime, from_store]
            .into_iter()
            .flatten()
            .max_by_key(|d| d.abs())
        else {
            continue;
        };
        let severity = match skew.abs() {
            d if d > ERROR_MS => Severity::Critical,
            d if d > WARN_MS => Severity::Warning,
            _ => continue,
        };
        let way = if skew > 0 { "ahead of" } else { "behind" };
        let text = format!(
            "the clock of {broker} is at least {} {way} this host's",
            span(skew.abs())
        );
        let subject = Subject::Broker(broker.clone());
        found.push(Finding::new("CL1", "clock-skew", severity, subject, text));
    }
}

/// The smallest difference, ms, that explains what the broker said between `sent` and `received` of our clock: positive
/// when it is ahead. `None` when it did not tell.
pub(crate) fn skew(info: &RuntimeInfo, sent: i64, received: i64) -> Option<i64> {
    let uptime = uptime_ms(info.entries.get("runtime")?)?;
    let least = info.boot_ms?.checked_add(uptime)?;
    let most = least.checked_add(999)?;
    Some(if least > received {
        least - received
    } else if most < sent {
        most - sent
    } else {
        0
    })
}

/// `[ 0 days, 0 hours, 3 minutes, 50 seconds ]`, ms.
fn uptime_ms(text: &str) -> Option<i64> {
    let mut total: i64 = 0;
    let mut words = text
        .trim_matches(['[', ']', ' '])
        .split([' ', ','])
        .filter(|w| !w.is_empty());
    let mut any = false;
    while let Some(number) = words.next() {
        let number: i64 = number.parse().ok()?;
        let seconds = match words.next()? {
            "days" | "day" => 86_400,
            "hours" | "hour" => 3_600,
            "minutes" | "minute" => 60,
            "seconds" | "second" => 1,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(seconds)?)?;
        any = true;
    }
    if any { total.checked_mul(1_000) } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;

    #[test]
    fn an_uptime_is_read_as_java_writes_it() {
        let text = "[ 1 days, 2 hours, 3 minutes, 50 seconds ]";
        assert_eq!(uptime_ms(text), Some((86_400 + 7_200 + 180 + 50) * 1_000));
        for wrong in [
            "",
            "[ ]",
            "[ x days ]",
            "[ 1 weeks ]",
            "[ 9223372036854775807 days ]",
        ] {
            assert_eq!(uptime_ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_difference_is_told_only_when_nothing_else_explains_it() {
        let found = |off_ms: i64| {
            let mut c = Cluster::healthy();
            // Started 230.4 s ago by its own clock, which is off.
            let boot = NOW + off_ms - 230_400;
            let info = RuntimeInfo {
                boot_ms: Some(boot),
                entries: [(
                    "runtime".to_owned(),
                    "[ 0 days, 0 hours, 3 minutes, 50 seconds ]".to_owned(),
                )]
                .into(),
                ..RuntimeInfo::default()
            };
            c.details.clocks.insert(id("broker-a", 0), (NOW - 20, NOW, info));
            judge_of(&c).first().map(|f| (f.check, f.severity))
        };
        // 0.4 s of the last whole second hide: -600 .. +400 ms around the truth.
        assert_eq!(found(0), None);
        assert_eq!(found(1_300), None);
        assert_eq!(found(1_500), Some(("CL1", Severity::Warning)));
        assert_eq!(found(-1_500), None);
        assert_eq!(found(-1_700), Some(("CL1", Severity::Warning)));
        assert_eq!(found(31_000), Some(("CL1", Severity::Critical)));
        assert_eq!(found(-86_400_000), Some(("CL1", Severity::Critical)));
    }

    #[test]
    fn a_message_from_the_future_is_a_clock_ahead() {
        let mut c = Cluster::healthy();
        let info = RuntimeInfo::default();
        c.details.clocks.insert(id("broker-a", 0), (NOW - 20, NOW, info));
        let stats = c.details.stats.get_mut("orders").unwrap();
        let range = stats.get_mut(&id("broker-a", 0)).unwrap();
        range
            .offset_table
            .values_mut()
            .next()
            .unwrap()
            .last_update_timestamp = NOW + 5_000;
        let found = c.finds(&["CL1"]);
        assert_eq!(
            found[0].text,
            "the clock of broker-a:0 is at least 5s ahead of this host's"
        );
    }
}
