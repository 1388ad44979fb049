//! ST1 and ST2: disks and how long messages live.

use super::{Evidence, span};
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::snapshot::BrokerState;

/// Percent of a disk at which a broker deletes expired segments, unless it says another.
const MAX_USED: f64 = 75.0;
/// Percent of a disk at which segments are deleted regardless of age, unless it says another.
const FORCED: f64 = 85.0;
/// Percent of a disk at which a broker refuses writes, unless it says another.
const FULL: f64 = 90.0;
/// So long before a broker deletes, percent, we warn.
const AHEAD: f64 = 5.0;

/// ST1 and ST2.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    for broker in &e.snapshot.brokers {
        disk(broker, found);
        // A standing state that a dashboard would show for days.
        if e.details.is_some() {
            short_lives(broker, e.snapshot.taken_at_ms, found);
        }
    }
}

fn number(broker: &BrokerState, key: &str) -> Option<f64> {
    let config = broker.config.get()?;
    config
        .entries
        .get(key)?
        .parse()
        .ok()
        .filter(|n: &f64| n.is_finite())
}

fn disk(broker: &BrokerState, found: &mut Vec<Finding>) {
    let Some(info) = broker.runtime.fresh() else {
        return;
    };
    let used = [info.commit_log_disk_ratio, info.consume_queue_disk_ratio];
    let Some(used) = used.into_iter().flatten().reduce(f64::max) else {
        return;
    };
    let percent = used * 100.0;
    let max = number(broker, "diskMaxUsedSpaceRatio").unwrap_or(MAX_USED);
    let forced = number(broker, "diskSpaceCleanForciblyRatio").unwrap_or(FORCED);
    let full = number(broker, "diskSpaceWarningLevelRatio").unwrap_or(FULL);
    let name = &broker.broker;
    let text = format!("{name} disk {percent:.0}%");
    let subject = Subject::Broker(name.clone());
    // A broker deletes at the smaller of the two, whatever it was told to begin with.
    if percent >= forced {
        let detail = if percent >= full {
            format!("writes are refused from {full:.0}%, segments are deleted regardless of age")
        } else {
            format!("segments are deleted regardless of age, writes stop at {full:.0}%")
        };
        found.push(Finding::new("ST1", "disk", Severity::Critical, subject, text).detail(detail));
    } else if percent >= (max - AHEAD).min(forced) {
        let detail = format!("expired segments are deleted from {max:.0}%");
        found.push(Finding::new("ST1", "disk", Severity::Warning, subject, text).detail(detail));
    }
}

/// ST2: segments were deleted, and what is left is younger than messages should live.
fn short_lives(broker: &BrokerState, now_ms: i64, found: &mut Vec<Finding>) {
    let Some(info) = broker.runtime.fresh() else {
        return;
    };
    let (Some(min), Some(earliest), Some(hours)) = (
        info.commit_log_min,
        info.earliest_message_ms,
        number(broker, "fileReservedTime"),
    ) else {
        return;
    };
    let lives_ms = now_ms.saturating_sub(earliest);
    if min > 0 && hours > 0.0 && (lives_ms as f64) < hours * 3_600_000.0 {
        let text = format!(
            "{} has messages of the last {} only, fileReservedTime is {hours:.0} h",
            broker.broker,
            span(lives_ms)
        );
        let subject = Subject::Broker(broker.broker.clone());
        found.push(
            Finding::new("ST2", "short-lives", Severity::Warning, subject, text)
                .detail("older segments were deleted before their time"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;

    #[test]
    fn disks_are_judged_by_the_brokers_own_limits() {
        let severity = |used: f64, own: Option<&str>| {
            let mut c = Cluster::healthy();
            if let Some(own) = own {
                c.set_config("broker-a", "diskMaxUsedSpaceRatio", own);
                c.set_config("broker-b", "diskMaxUsedSpaceRatio", own);
            }
            c.runtime("broker-a").commit_log_disk_ratio = Some(used);
            judge_of(&c).first().map(|f| (f.check, f.severity))
        };
        assert_eq!(severity(0.69, None), None);
        assert_eq!(severity(0.71, None), Some(("ST1", Severity::Warning)));
        assert_eq!(severity(0.86, None), Some(("ST1", Severity::Critical)));
        assert_eq!(severity(0.57, Some("60")), Some(("ST1", Severity::Warning)));
        assert_eq!(severity(0.84, Some("95")), None);
    }

    #[test]
    fn lives_cut_short_are_found_only_when_something_was_deleted() {
        let mut c = Cluster::healthy();
        for broker in ["broker-a", "broker-b"] {
            c.set_config(broker, "fileReservedTime", "72");
        }
        let info = c.runtime("broker-a");
        info.earliest_message_ms = Some(NOW - 10 * 3_600_000);
        info.commit_log_min = Some(0);
        c.finds(&[]);
        c.runtime("broker-a").commit_log_min = Some(1 << 30);
        let found = c.finds(&["ST2"]);
        assert_eq!(
            found[0].text,
            "broker-a:0 has messages of the last 10h only, fileReservedTime is 72 h"
        );
        c.runtime("broker-a").earliest_message_ms = Some(NOW - 73 * 3_600_000);
        c.finds(&[]);
    }
}
