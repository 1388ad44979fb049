//! CL1: clocks of brokers against ours and each other, by what they say of their time. A message that was stored later
//! than now tells the same more sharply.

use super::{Evidence, span};
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::skew::Skew;

/// Difference from which a warning is given, ms.
const WARN_MS: i64 = 1_000;
/// Difference from which it is an error, ms.
const ERROR_MS: i64 = 30_000;

/// CL1.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    for state in &e.snapshot.brokers {
        let (broker, Some(info)) = (&state.broker, state.runtime.fresh()) else {
            continue;
        };
        let from_uptime = info.clock.map(Skew::least);
        let newest = e
            .details
            .into_iter()
            .flat_map(|d| d.stats.values())
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

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;
    use crate::client::findings::{Trends, findings};

    #[test]
    fn a_difference_is_told_only_when_nothing_else_explains_it() {
        let found = |off_ms: i64| {
            let mut c = Cluster::healthy();
            // Started 230.4 s ago by its own clock, which is off.
            let boot = NOW + off_ms - 230_400;
            let uptime = "[ 0 days, 0 hours, 3 minutes, 50 seconds ]";
            c.runtime("broker-a").clock = Skew::told(Some(boot), Some(uptime), (NOW - 20, NOW));
            // A dashboard needs no more than that.
            let look = findings(&c.snapshot, &Trends::default());
            assert_eq!(look, judge_of(&c));
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
