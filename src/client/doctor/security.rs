//! SE1: who may talk to a broker. Only a doctor tells: a dashboard would show it for ever.

use std::net::IpAddr;

use super::Evidence;
use crate::client::findings::{Finding, Severity, Subject};

/// The password of the example in Java's documentation.
const DOCUMENTED_PASSWORD: &str = "12345678";

/// SE1.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    if e.details.is_none() {
        return;
    }
    let mut open = Vec::new();
    for broker in &e.snapshot.brokers {
        let Some(config) = broker.config.fresh() else {
            continue;
        };
        let is = |key: &str| config.entries.get(key).is_some_and(|v| v == "true");
        let subject = || Subject::Broker(broker.broker.clone());
        let name = &broker.broker;
        // `aclEnable` is what brokers before 5.3 have instead.
        let asks = (is("authenticationEnabled") && is("authorizationEnabled")) || is("aclEnable");
        if !asks && !is_loopback(&broker.addr) {
            open.push(name.to_string());
        }
        if !asks {
            continue;
        }
        if is("autoCreateSubscriptionGroup") {
            let text = format!("{name} checks rights and makes any group that a client names");
            found.push(
                Finding::new("SE1", "auto-group-with-auth", Severity::Warning, subject(), text).next(
                    format!(
                        "rmq broker set-config {} autoCreateSubscriptionGroup=false",
                        name.name
                    ),
                ),
            );
        }
        let first = config.entries.get("initAuthenticationUser");
        if first.is_some_and(|user| user.contains(DOCUMENTED_PASSWORD)) {
            let text = format!("{name} has the first user of the documentation, with its password");
            found.push(Finding::new(
                "SE1",
                "default-password",
                Severity::Warning,
                subject(),
                text,
            ));
        }
    }
    if !open.is_empty() {
        let text = format!(
            "{} brokers ask nobody who they are and listen on an address that others can reach: {}{}",
            open.len(),
            open[..open.len().min(5)].join(" "),
            if open.len() > 5 { " …" } else { "" }
        );
        found.push(Finding::new(
            "SE1",
            "open-broker",
            Severity::Warning,
            Subject::Cluster,
            text,
        ));
    }
}

fn is_loopback(addr: &str) -> bool {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;

    #[test]
    fn a_broker_on_the_loopback_may_be_open() {
        let mut c = Cluster::healthy();
        c.finds(&[]);
        c.snapshot.brokers[1].addr = "10.0.0.2:10911".into();
        c.settle();
        assert_eq!(judge_of(&c).iter().filter(|f| f.check == "SE1").count(), 1);
    }

    #[test]
    fn rights_are_checked_without_gaps() {
        let mut c = Cluster::healthy();
        for broker in ["broker-a", "broker-b"] {
            c.set_config(broker, "authenticationEnabled", "true");
            c.set_config(broker, "authorizationEnabled", "true");
        }
        c.finds(&[]);
        c.set_config(
            "broker-a",
            "initAuthenticationUser",
            "{\"username\":\"rocketmq\",\"password\":\"12345678\"}",
        );
        assert_eq!(c.finds(&["SE1"])[0].rule, "default-password");
        for broker in ["broker-a", "broker-b"] {
            c.set_config(broker, "initAuthenticationUser", "{}");
            c.set_config(broker, "autoCreateSubscriptionGroup", "true");
        }
        assert_eq!(c.finds(&["SE1"]).len(), 2);
    }
}
