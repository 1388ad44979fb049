//! Which rule decides, as a Java broker of 5.3.3 finds it (`AclAuthorizationHandler`): among the custom rules that match,
//! else among the default ones, the first one in Java's order.
//!
//! That order is not a total one: its comparison gives `-1` for a literal and a prefix in either order, prefers the shorter
//! prefix, and puts a denial last among equals. What comes first therefore depends on the sorting itself, which is repeated
//! here step by step.

use std::net::IpAddr;

use super::auth::Rule;

/// What a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named<'a> {
    /// `*`
    Everything,
    /// `Topic:*`
    All(&'a str),
    /// `Topic:prefix*`
    Prefix(&'a str, &'a str),
    /// `Topic:name`
    One(&'a str, &'a str),
}

impl<'a> Named<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Everything);
        }
        let (kind, name) = text.split_once(':')?;
        Some(match name.strip_suffix('*') {
            Some("") => Self::All(kind),
            // Java keeps what stands before the first star.
            Some(prefix) => Self::Prefix(kind, prefix.split('*').next().unwrap_or(prefix)),
            None => Self::One(kind, name),
        })
    }

    fn kind(self) -> Option<&'a str> {
        match self {
            Self::Everything => None,
            Self::All(kind) | Self::Prefix(kind, _) | Self::One(kind, _) => Some(kind),
        }
    }

    fn matches(self, kind: &str, name: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::All(own) => own.eq_ignore_ascii_case(kind),
            Self::Prefix(own, prefix) => own.eq_ignore_ascii_case(kind) && name.starts_with(prefix),
            Self::One(own, one) => own.eq_ignore_ascii_case(kind) && one == name,
        }
    }
}

/// True when `ip` lies in `range`, an address or a network.
fn in_range(ip: IpAddr, range: &str) -> bool {
    let Some((network, bits)) = range.split_once('/') else {
        return range.parse() == Ok(ip);
    };
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (ip, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) if bits <= 32 => {
            let shift = 32 - bits;
            a.to_bits().checked_shr(shift) == n.to_bits().checked_shr(shift)
        }
        (IpAddr::V6(a), IpAddr::V6(n)) if bits <= 128 => {
            let shift = 128 - bits;
            a.to_bits().checked_shr(shift) == n.to_bits().checked_shr(shift)
        }
        _ => false,
    }
}

fn matches(rule: &Rule, (kind, name): (&str, &str), action: &str, ip: Option<IpAddr>) -> bool {
    let acts = rule
        .actions
        .iter()
        .any(|own| own.eq_ignore_ascii_case(action) || own.eq_ignore_ascii_case("All"));
    let from = rule.source_ips.is_empty()
        || ip.is_some_and(|ip| rule.source_ips.iter().any(|range| in_range(ip, range)));
    acts && from && Named::parse(&rule.resource).is_some_and(|named| named.matches(kind, name))
}

/// `AclAuthorizationHandler.comparePolicyEntries`
fn compare(a: &Rule, b: &Rule) -> i32 {
    use Named::{Everything, One, Prefix};
    let order = match (Named::parse(&a.resource), Named::parse(&b.resource)) {
        (Some(x), Some(y)) if x.kind() != y.kind() => match (x, y) {
            (_, Everything) => -1,
            (Everything, _) => 1,
            _ => 0,
        },
        (Some(Prefix(_, x)), Some(Prefix(_, y))) => {
            let len = |text: &str| text.encode_utf16().count();
            match len(x).cmp(&len(y)) {
                std::cmp::Ordering::Less => -1,
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Greater => 1,
            }
        }
        (Some(One(..)), Some(One(..))) => 0,
        (Some(One(..) | Prefix(..)), _) => -1,
        _ => 0,
    };
    if order != 0 {
        return order;
    }
    let denies = |rule: &Rule| rule.decision.eq_ignore_ascii_case("Deny");
    match (denies(a), denies(b)) {
        (true, _) => 1,
        (false, true) => -1,
        (false, false) => 0,
    }
}

/// `java.util.TimSort` for fewer than 32 elements: the run at the front, then the others one by one.
fn sort(list: &mut [&Rule]) {
    if list.len() < 2 {
        return;
    }
    let mut run = 2;
    if compare(list[1], list[0]) < 0 {
        while run < list.len() && compare(list[run], list[run - 1]) < 0 {
            run += 1;
        }
        list[..run].reverse();
    } else {
        while run < list.len() && compare(list[run], list[run - 1]) >= 0 {
            run += 1;
        }
    }
    for at in run..list.len() {
        let (mut left, mut right) = (0, at);
        while left < right {
            let middle = usize::midpoint(left, right);
            if compare(list[at], list[middle]) < 0 {
                right = middle;
            } else {
                left = middle + 1;
            }
        }
        list[left..=at].rotate_right(1);
    }
}

/// The rule that decides whether `action` is allowed on `resource` (`Topic:name`) from `ip`; `None` when no rule matches,
/// which is a denial.
pub fn decide<'a>(rules: &'a [Rule], resource: &str, action: &str, ip: Option<IpAddr>) -> Option<&'a Rule> {
    let asked = resource.split_once(':')?;
    ["Custom", "Default"].into_iter().find_map(|policy| {
        let mut found: Vec<&Rule> = rules
            .iter()
            .filter(|rule| rule.policy.eq_ignore_ascii_case(policy) && matches(rule, asked, action, ip))
            .collect();
        sort(&mut found);
        found.first().copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(policy: &str, resource: &str, actions: &str, ips: &[&str], decision: &str) -> Rule {
        Rule {
            subject: "User:alice".into(),
            policy: policy.into(),
            resource: resource.into(),
            actions: actions.split(',').map(str::to_owned).collect(),
            source_ips: ips.iter().map(|ip| (*ip).to_owned()).collect(),
            decision: decision.into(),
        }
    }

    #[test]
    fn resource_action_and_address_must_match() {
        let rules = [
            rule(
                "Custom",
                "Topic:Ord*",
                "Pub",
                &["10.0.0.0/8", "192.168.0.1"],
                "Allow",
            ),
            rule("Custom", "Group:*", "All", &[], "Allow"),
        ];
        let ip = |text: &str| Some(text.parse().unwrap());
        for (resource, action, from, found) in [
            ("Topic:Orders", "Pub", ip("10.1.2.3"), true),
            ("Topic:Orders", "pub", ip("192.168.0.1"), true),
            ("Topic:Orders", "Pub", ip("192.168.0.2"), false),
            ("Topic:Orders", "Pub", None, false),
            ("Topic:Orders", "Sub", ip("10.1.2.3"), false),
            ("Topic:Payments", "Pub", ip("10.1.2.3"), false),
            ("Group:CG", "Sub", None, true),
            ("Cluster:C", "Get", None, false),
        ] {
            assert_eq!(
                decide(&rules, resource, action, from).is_some(),
                found,
                "{resource} {action} {from:?}"
            );
        }
    }

    #[test]
    fn custom_rules_hide_default_ones_and_everything_comes_last() {
        let rules = [
            rule("Default", "Topic:T", "Pub", &[], "Allow"),
            rule("Custom", "*", "Pub", &[], "Deny"),
        ];
        assert_eq!(decide(&rules, "Topic:T", "Pub", None).unwrap().decision, "Deny");
        let rules = [
            rule("Custom", "*", "Pub", &[], "Deny"),
            rule("Custom", "Topic:T", "Pub", &[], "Allow"),
        ];
        assert_eq!(
            decide(&rules, "Topic:T", "Pub", None).unwrap().resource,
            "Topic:T"
        );
    }

    /// The comparison says "first" for a literal and a prefix in either order: of two the later one wins.
    #[test]
    fn a_literal_and_a_prefix_go_by_their_place_as_in_java() {
        let literal = rule("Custom", "Topic:Orders", "Pub", &[], "Deny");
        let prefix = rule("Custom", "Topic:Ord*", "Pub", &[], "Allow");
        for (rules, wins) in [
            ([literal.clone(), prefix.clone()], "Topic:Ord*"),
            ([prefix, literal], "Topic:Orders"),
        ] {
            assert_eq!(
                decide(&rules, "Topic:Orders", "Pub", None).unwrap().resource,
                wins
            );
        }
    }
}
