//! Checks of a cluster: what each looks for and why, and the evidence they look at.
//!
//! A check is a pure function over [`Evidence`]. A dashboard gives it a snapshot and a history; `rmq cluster doctor`
//! gathers [`Details`] as well ([`gather`]). A check that lacks its evidence rests: it never guesses.

mod backlog;
mod broker;
mod clients;
mod clock;
mod details;
pub mod gather;
mod gone;
mod groups;
mod name_servers;
mod replication;
mod security;
mod store;
mod topics;

#[cfg(test)]
mod made_up;

pub use broker::{AGREED_SETTINGS, is_old_client};
pub use clients::expressions;
pub use details::{ControllerView, Details, Half, Later, Missed, Offsets};

use super::findings::{Finding, Severity, Subject, Trends};
use super::snapshot::Snapshot;

/// One check of the doctor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Id, as an operator names it.
    pub id: &'static str,
    /// What must hold.
    pub what: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// Command that looks further or mends.
    pub next: &'static str,
}

macro_rules! checks {
    ($($id:literal $what:literal $why:literal $next:literal;)*) => {
        /// Every check, in the order in which an operator reads them.
        pub const CHECKS: &[Check] = &[$(Check { id: $id, what: $what, why: $why, next: $next }),*];
    };
}

checks! {
    "NS1" "each name server answers"
        "Clients that ask this one get no routes; with the last one gone, no client can start."
        "rmq namesrv list";
    "NS2" "all name servers list the same brokers"
        "A client sees the brokers of the name server it asks, and no others."
        "rmq namesrv list";
    "NS3" "all name servers have the same route and order configuration of each topic"
        "Producers and consumers of one topic work on different queues, by the name server they ask."
        "rmq topic route NAME --each-namesrv";
    "NS4" "all name servers have the same settings"
        "They drop silent brokers at different times and serve topics differently."
        "rmq namesrv list";
    "BR1" "each registered broker answers"
        "Routes lead clients to a broker that does not serve them until the name servers drop it."
        "rmq broker list";
    "BR2" "each broker registers in time"
        "A name server drops a broker that has been silent for its limit; its topics lose their queues then."
        "rmq namesrv list";
    "BR3" "each broker is registered at every name server in its own namesrvAddr"
        "Clients of the name server that lacks it do not see its queues."
        "rmq broker get-config NAME namesrvAddr";
    "BR4" "each broker name has a master"
        "Without a master its queues take no messages, and positions are not kept."
        "rmq broker list";
    "BR5" "brokers of a cluster run one version, and clients are not too old for it"
        "Features and formats differ between versions; a rolling upgrade should end."
        "rmq broker list -o wide";
    "BR6" "brokers and topics have the permissions that they were given"
        "Write permission that was taken away for a restart and never given back keeps producers out."
        "rmq broker get-config NAME brokerPermission";
    "BR7" "brokers of a cluster agree on their settings"
        "The same message is kept, flushed or refused differently by the broker it happens to reach."
        "rmq broker get-config NAME";
    "BR8" "requests do not wait and the store keeps up"
        "Senders are refused once the queue is full; messages not dispatched yet cannot be consumed."
        "rmq broker describe NAME";
    "BR9" "each broker that others speak of is registered"
        "A broker that is gone takes its queues with it; no name server remembers it."
        "rmq broker list";
    "HA1" "slaves are connected and in sync"
        "Messages that no slave has are lost with their master."
        "rmq broker describe NAME";
    "HA2" "the controller has a leader and every replica is in sync"
        "No master can be elected without a leader, and none but an in-sync replica may become one."
        "rmq broker list";
    "ST1" "disks have room"
        "A broker deletes expired segments early, then any segment, then refuses writes."
        "rmq broker describe NAME";
    "ST2" "messages live as long as they should"
        "Segments were deleted before their time because the disk was full; consumers that lag lose messages."
        "rmq broker get-config NAME fileReservedTime diskMaxUsedSpaceRatio";
    "TP1" "a topic has as many read as write queues, the same on every broker"
        "Messages in queues that nobody reads are not consumed; uneven queues load brokers unevenly."
        "rmq topic get NAME";
    "TP2" "topics are not made by their first message"
        "A topic that its first message made exists on the broker that took it, and on no other."
        "rmq broker set-config NAME autoCreateTopicEnable=false";
    "TP3" "topics that are written to are consumed"
        "Messages are stored until they expire and nobody reads them."
        "rmq topic status NAME";
    "TP4" "the order configuration of ordered topics fits their route"
        "Clients of an ordered topic follow the configuration and miss queues that it leaves out."
        "rmq topic route NAME";
    "GR1" "all clients of a group have the same subscription"
        "Brokers keep one subscription a group: messages are filtered by the wrong one and lost to the group."
        "rmq group clients NAME";
    "GR2" "each online group has a configuration on every broker that it needs, and the same one"
        "Retries and dead letters of the group fail on a broker that does not know it, and differ where it is set differently."
        "rmq group list -o wide";
    "GR3" "each queue has an owner and each client has a queue"
        "Messages in a queue without an owner wait for ever; a client without a queue does nothing."
        "rmq group clients NAME";
    "GR4" "client ids are unique"
        "Two clients with one id take the same queues: messages are consumed twice, others not at all."
        "rmq group clients NAME";
    "GR5" "groups keep up and their positions lie within their queues"
        "Messages behind the beginning are lost to the group; a position beyond the end skips new ones."
        "rmq group lag NAME";
    "GR6" "no message died lately"
        "Messages in a dead-letter topic were given up by their group and wait for a person."
        "rmq dlq list";
    "GR7" "all clients of a group consume in the same way"
        "Brokers keep one mode a group; clients of another mode get the wrong messages."
        "rmq group clients NAME";
    "CL1" "clocks agree"
        "Store times, delays and resets by time are off by the difference."
        "rmq broker describe NAME";
    "TR1" "half transactions are decided"
        "Producers do not answer the broker's questions; the messages are dropped in the end."
        "rmq broker describe NAME";
    "TM1" "timed messages are delivered in time"
        "Timed messages come late."
        "rmq broker describe NAME";
    "SE1" "brokers that others can reach ask who they are"
        "Whoever reaches the port may read, write and delete."
        "rmq broker get-config NAME authenticationEnabled authorizationEnabled";
}

/// Checks that rest without [`Details`]: a dashboard does not run them.
pub const RESTING: &[&str] = &[
    "HA2", "ST2", "TP2", "TP3", "TP4", "GR1", "GR2", "GR3", "GR4", "GR6", "GR7", "TR1", "SE1",
];

/// The check with this id, in any case.
pub fn check(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|c| c.id.eq_ignore_ascii_case(id))
}

/// Everything that the checks look at.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// One look at the servers.
    pub snapshot: &'a Snapshot,
    /// What several looks have shown.
    pub trends: &'a Trends,
    /// What a doctor asks beyond that; `None` for a dashboard.
    pub details: Option<&'a Details>,
}

/// Every finding, worst first, then by subject.
pub fn judge(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    name_servers::check(evidence, &mut found);
    broker::check(evidence, &mut found);
    gone::check(evidence, &mut found);
    replication::check(evidence, &mut found);
    store::check(evidence, &mut found);
    topics::check(evidence, &mut found);
    groups::check(evidence, &mut found);
    clients::check(evidence, &mut found);
    clock::check(evidence, &mut found);
    backlog::check(evidence, &mut found);
    security::check(evidence, &mut found);
    found.sort_by(|a, b| (a.severity, &a.subject, a.rule).cmp(&(b.severity, &b.subject, b.rule)));
    found
}

/// Most subjects that one rule names one by one in a dashboard, which judges again and again; what is beyond is counted.
const NAMED: usize = 10;

/// Adds findings of one rule that may be as many as there are topics or groups: all of them for a doctor, the first
/// [`NAMED`] and one that counts the rest for a dashboard.
fn add_many(e: &Evidence<'_>, found: &mut Vec<Finding>, mut more: Vec<Finding>) {
    if e.details.is_none() && more.len() > NAMED {
        let rest = more.split_off(NAMED);
        if let Some(first) = rest.first() {
            let subjects: Vec<String> = rest.iter().take(5).map(|f| f.subject.to_string()).collect();
            let text = format!(
                "the same of {} more: {}{}",
                rest.len(),
                subjects.join(", "),
                if rest.len() > 5 { ", …" } else { "" }
            );
            more.push(Finding::new(
                first.check,
                first.rule,
                first.severity,
                Subject::Cluster,
                text,
            ));
        }
    }
    found.extend(more);
}

/// `1,110,180`
fn grouped(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if n < 0 { format!("-{out}") } else { out }
}

/// `5s`, `12m`, `3h`, `2d`: one unit is enough to judge by.
fn span(ms: i64) -> String {
    match ms.max(0) / 1000 {
        s @ 0..120 => format!("{s}s"),
        s @ 120..7_200 => format!("{}m", s / 60),
        s @ 7_200..172_800 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

/// Warning from the limit on, error from five times the limit on.
fn by_limit(value: i64, limit: i64) -> Option<Severity> {
    if value > limit.saturating_mul(5) {
        Some(Severity::Critical)
    } else if value > limit {
        Some(Severity::Warning)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_found_in_any_case() {
        let mut ids: Vec<&str> = CHECKS.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CHECKS.len());
        assert_eq!(check("br6").map(|c| c.id), Some("BR6"));
        assert_eq!(check("BR66"), None);
        assert!(RESTING.iter().all(|id| check(id).is_some()));
    }

    #[test]
    fn large_numbers_are_grouped() {
        let texts = [0, 999, 1_000, 1_110_180, -12_345].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,110,180", "-12,345"]);
    }

    #[test]
    fn a_dashboard_counts_what_a_doctor_names() {
        let one = |i: usize| {
            Finding::new(
                "TP1",
                "r",
                Severity::Warning,
                Subject::Topic(format!("T{i:02}")),
                "uneven",
            )
        };
        let mut e = Evidence {
            snapshot: &Snapshot::default(),
            trends: &Trends::default(),
            details: None,
        };
        let mut found = Vec::new();
        add_many(&e, &mut found, (0..NAMED).map(one).collect());
        assert_eq!(found.len(), NAMED);
        found.clear();
        add_many(&e, &mut found, (0..NAMED + 2).map(one).collect());
        assert_eq!(found.len(), NAMED + 1);
        assert_eq!(found[NAMED].text, "the same of 2 more: topic T10, topic T11");
        // A doctor names every one.
        let details = Details::default();
        e.details = Some(&details);
        found.clear();
        add_many(&e, &mut found, (0..NAMED + 2).map(one).collect());
        assert_eq!(found.len(), NAMED + 2);
    }
}
