//! `rmq acl`: access rules of brokers. A rule is what one subject may do with one resource.

use std::collections::BTreeMap;
use std::net::IpAddr;

use clap::{Args, Subcommand, ValueEnum};

use super::broker::cluster_of;
use super::change::{self, Class, Outcome, Plan, Step, Unread};
use super::exit::{self, Failure};
use super::output::{Listing, col, wide};
use super::quoted;
use super::scope::ScopeArgs;
use super::session::Session;
use super::user::{failed, one};
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::auth::{CUSTOM, Rule, action, decide, resource, subject};
use crate::client::words::counted;
use crate::client::{BrokerAt, BrokerSelector, Which};

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Decision {
    /// The actions are allowed
    Allow,
    /// They are not
    Deny,
}

impl Decision {
    const fn java(self) -> &'static str {
        match self {
            Self::Allow => "Allow",
            Self::Deny => "Deny",
        }
    }
}

/// What a client asks for: one topic, group or cluster. A rule may name more than one, a request never does.
fn one_resource(text: &str) -> Result<String, String> {
    let asked = resource(text)?;
    if asked.ends_with('*') {
        return Err(format!(
            "\"{text}\" is what a rule may name; ask for one TYPE:NAME"
        ));
    }
    Ok(asked)
}

/// Commands on access rules.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the access rules of each broker
    List {
        /// Part of the subject
        #[arg(long, value_name = "TEXT")]
        subject: Option<String>,
        /// Part of the resource
        #[arg(long, value_name = "TEXT")]
        resource: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the access rules of a subject on each broker
    Get {
        /// User:NAME
        #[arg(value_parser = subject)]
        subject: String,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Add rules for resources that the subject has none for
    Create(RuleArgs),
    /// Replace the rules of a subject for resources
    Update(RuleArgs),
    /// Delete the rules of a subject for a resource, or all of them
    Delete {
        /// User:NAME
        #[arg(value_parser = subject)]
        subject: String,
        /// TYPE:NAME, TYPE:PREFIX*, TYPE:* or *; repeatable
        #[arg(long, value_name = "RESOURCE", value_parser = resource)]
        resource: Vec<String>,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Say whether a subject may do something, as each broker would decide; exit code 10 when one denies it
    Check {
        /// User:NAME
        #[arg(value_parser = subject)]
        subject: String,
        /// TYPE:NAME
        #[arg(long, value_name = "RESOURCE", value_parser = one_resource)]
        resource: String,
        /// All, Pub, Sub, Create, Update, Delete, Get or List
        #[arg(long, value_name = "ACTION", value_parser = action)]
        action: String,
        /// Address that the client comes from
        #[arg(long, value_name = "IP")]
        source_ip: Option<IpAddr>,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Copy access rules from one broker to another
    Copy {
        /// Subjects; every one when none is named
        #[arg(value_parser = subject)]
        subjects: Vec<String>,
        /// Broker to read: NAME, NAME:ID or HOST:PORT
        #[arg(long, value_name = "BROKER")]
        from: BrokerSelector,
        /// Broker to write
        #[arg(long, value_name = "BROKER")]
        to: BrokerSelector,
    },
}

/// `rmq acl create|update`
#[derive(Debug, Clone, Args)]
pub struct RuleArgs {
    /// User:NAME
    #[arg(value_parser = subject)]
    subject: String,
    /// TYPE:NAME, TYPE:PREFIX*, TYPE:* or *; repeatable
    #[arg(long, required = true, value_delimiter = ',', value_name = "RESOURCE", value_parser = resource)]
    resource: Vec<String>,
    /// All, Pub, Sub, Create, Update, Delete, Get, List; repeatable
    #[arg(long, required = true, value_delimiter = ',', value_name = "ACTION", value_parser = action)]
    action: Vec<String>,
    /// Whether the actions are allowed
    #[arg(long, value_enum)]
    decision: Decision,
    /// Address or network that this holds for [default: everywhere]; repeatable
    #[arg(long, value_delimiter = ',', value_name = "IP")]
    source_ip: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Runs a command on access rules.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List {
            subject,
            resource,
            scope,
            watch,
        } => {
            watch::print(session, &watch, || {
                list(session, subject.as_deref(), resource.as_deref(), &scope)
            })
            .await
        }
        Command::Get { subject, scope } => get(session, &subject, &scope).await,
        Command::Create(args) => write(session, args, true).await,
        Command::Update(args) => write(session, args, false).await,
        Command::Delete {
            subject,
            resource,
            scope,
        } => delete(session, &subject, resource, &scope).await,
        Command::Check {
            subject,
            resource,
            action,
            source_ip,
            scope,
        } => check(session, &subject, (&resource, &action, source_ip), &scope).await,
        Command::Copy { subjects, from, to } => copy(session, subjects, from, to).await,
    }
}

fn listing() -> Listing {
    Listing::new(
        "AclList",
        &[
            col("subject"),
            col("resource"),
            col("decision"),
            col("actions"),
            col("source_ips"),
            col("broker"),
            wide("policy"),
            wide("addr"),
        ],
    )
}

fn push(listing: &mut Listing, rule: Rule, broker: &BrokerAt) {
    listing.push(vec![
        rule.subject.into(),
        rule.resource.into(),
        rule.decision.into(),
        rule.actions.into(),
        rule.source_ips.into(),
        broker.id.to_string().into(),
        rule.policy.into(),
        broker.addr.as_str().into(),
    ]);
}

async fn list(
    session: &Session,
    subject: Option<&str>,
    resource: Option<&str>,
    scope: &ScopeArgs,
) -> Result<Rows, Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::All).await?;
    let answers = client
        .each(brokers, |broker| async move {
            let rules = client
                .acls(&broker.server(), subject, resource, client.deadline())
                .await;
            (broker, rules)
        })
        .await;
    let mut listing = listing();
    let mut some_answered = false;
    for (broker, rules) in answers {
        match rules {
            Ok(rules) => {
                some_answered = true;
                for rule in rules {
                    push(&mut listing, rule, &broker);
                }
            }
            Err(e) => listing.errors.push(failed(&e)),
        }
    }
    Ok(Rows {
        listing,
        some_answered,
    })
}

type OnBroker = (BrokerAt, Result<Option<Vec<Rule>>, Failure>);

async fn on_each(session: &Session, brokers: Vec<BrokerAt>, subject: &str) -> Vec<OnBroker> {
    let client = &session.client;
    client
        .each(brokers, |broker| async move {
            let rules = client.acl(&broker.server(), subject, client.deadline()).await;
            (broker, rules.map_err(|e| failed(&e)))
        })
        .await
}

fn absent(subject: &str) -> Failure {
    Failure::new(
        exit::NOT_FOUND,
        format!("subject \"{subject}\" has no access rules on any broker asked"),
    )
    .hint("rmq acl list, or rmq user list")
}

async fn get(session: &Session, subject: &str, scope: &ScopeArgs) -> Result<(), Failure> {
    let brokers = scope.brokers(session, Which::All).await;
    session.warn_of_dead_name_servers();
    let mut listing = listing();
    for (broker, rules) in on_each(session, brokers?, subject).await {
        match rules {
            Ok(rules) => {
                for rule in rules.unwrap_or_default() {
                    push(&mut listing, rule, &broker);
                }
            }
            Err(failure) => listing.errors.push(failure),
        }
    }
    if listing.rows.is_empty() && listing.errors.is_empty() {
        return Err(absent(subject));
    }
    let verdict = Failure::over(&listing.errors, !listing.rows.is_empty());
    session.printer.print(listing)?;
    verdict
}

fn plan(action: String, object: &str, brokers: &[BrokerAt], class: Class) -> Plan {
    Plan {
        action,
        object: object.to_owned(),
        cluster: cluster_of(brokers),
        class,
        steps: Vec::new(),
        impact: Vec::new(),
    }
}

/// What one broker is told: rules to have, or resources to have none for.
struct Work {
    broker: BrokerAt,
    subject: String,
    /// `None` deletes.
    rules: Option<Vec<Rule>>,
    resources: Vec<String>,
    create: bool,
}

async fn carry_out(
    session: &Session,
    plan: Plan,
    work: Vec<Work>,
    unread: Vec<Unread>,
    undo: Option<String>,
) -> Result<(), Failure> {
    let unread = ("access rules", unread);
    change::each(session, plan, unread, work, undo, |work| async move {
        apply(session, &work).await
    })
    .await
}

/// One outcome a resource: each is a request of its own where rules are deleted. All are read back with one look.
async fn apply(session: &Session, work: &Work) -> Vec<Outcome> {
    let (client, server, subject) = (&session.client, work.broker.server(), work.subject.as_str());
    let mut written: Vec<Option<Failure>> = Vec::new();
    match &work.rules {
        Some(rules) => {
            let deadline = client.deadline();
            let answer = client
                .write_acl(&server, subject, rules, work.create, deadline)
                .await;
            written.resize(work.resources.len(), answer.err().map(|e| failed(&e)));
        }
        None => {
            for resource in &work.resources {
                let deadline = client.deadline();
                let answer = client
                    .delete_acl(&server, subject, Some(resource), deadline)
                    .await;
                written.push(answer.err().map(|e| failed(&e)));
            }
        }
    }
    let now = client.acl(&server, subject, client.deadline()).await;
    let now = now.map(Option::unwrap_or_default);
    let mut outcomes = Vec::new();
    for (resource, failure) in work.resources.iter().zip(written) {
        let written = failure.map_or(Ok(()), Err);
        let differs = now.as_ref().map(|now| differs(work, resource, now));
        outcomes.push(change::proof(written, std::future::ready(differs.map_err(Failure::from))).await);
    }
    outcomes
}

/// What a broker with these rules has of a resource, when it is not what was wanted.
fn differs(work: &Work, resource: &str, now: &[Rule]) -> Option<String> {
    let wanted = work
        .rules
        .as_ref()
        .and_then(|rules| rules.iter().find(|rule| rule.resource == resource));
    let policy = wanted.map_or(CUSTOM, |rule| rule.policy.as_str());
    let has = now
        .iter()
        .find(|rule| rule.resource == resource && rule.policy.eq_ignore_ascii_case(policy));
    match (wanted, has) {
        (None, None) => None,
        (Some(wanted), Some(has)) if wanted.same_as(has) => None,
        (_, Some(has)) => Some(format!("reads back {}", has.text())),
        (Some(_), None) => Some("the broker does not have it".into()),
    }
}

/// The command that brings a rule back.
pub(super) fn undo_line(rule: &Rule, broker: &BrokerAt) -> String {
    let mut line = format!(
        "rmq acl update {} --resource {} --action {} --decision {} --broker {}",
        quoted(&rule.subject),
        quoted(&rule.resource),
        rule.actions.join(","),
        rule.decision.to_lowercase(),
        broker.addr
    );
    if !rule.source_ips.is_empty() {
        line.push_str(&format!(" --source-ip {}", rule.source_ips.join(",")));
    }
    line
}

/// The command that takes a rule away.
pub(super) fn delete_line(subject: &str, resource: &str, broker: &BrokerAt) -> String {
    format!(
        "rmq acl delete {} --resource {} --broker {}",
        quoted(subject),
        quoted(resource),
        broker.addr
    )
}

async fn write(session: &Session, args: RuleArgs, create: bool) -> Result<(), Failure> {
    let subject = args.subject.as_str();
    let brokers = args.scope.brokers(session, Which::AllToWrite).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let verb = if create { "create" } else { "update" };
    let mut plan = plan(
        format!("{verb} access rules of {subject}"),
        subject,
        &brokers,
        Class::B,
    );
    let rules: Vec<Rule> = args
        .resource
        .iter()
        .map(|resource| Rule {
            subject: subject.to_owned(),
            policy: CUSTOM.to_owned(),
            resource: resource.clone(),
            actions: args.action.clone(),
            source_ips: args.source_ip.clone(),
            decision: args.decision.java().to_owned(),
        })
        .collect();
    let (mut work, mut unread, mut undo, mut there) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (broker, now) in on_each(session, brokers, subject).await {
        let now = match now {
            Ok(Some(now)) => now,
            Ok(None) => {
                let failure = Failure::new(
                    exit::NOT_FOUND,
                    format!("subject \"{subject}\" was not found on {}", broker.server()),
                )
                .hint(format!("rmq user create {}", subject.trim_start_matches("User:")));
                unread.push(Unread::at(broker.server(), failure));
                continue;
            }
            Err(failure) => {
                unread.push(Unread::at(broker.server(), failure));
                continue;
            }
        };
        let mut changed = Vec::new();
        for rule in &rules {
            let before = now
                .iter()
                .find(|r| r.resource == rule.resource && r.policy.eq_ignore_ascii_case(CUSTOM));
            if before.is_some_and(|before| before.same_as(rule)) {
                continue;
            }
            if let Some(before) = before {
                if create {
                    there.push(format!("{} on {}", before.resource, broker.id));
                }
                undo.push(undo_line(before, &broker));
            } else {
                undo.push(delete_line(subject, &rule.resource, &broker));
            }
            plan.steps.push(Step {
                target: broker.server().to_string(),
                field: rule.resource.clone(),
                before: before.map_or_else(|| "absent".to_owned(), Rule::text),
                after: rule.text(),
            });
            changed.push(rule.clone());
        }
        if !changed.is_empty() {
            work.push(Work {
                broker,
                subject: subject.to_owned(),
                resources: changed.iter().map(|rule| rule.resource.clone()).collect(),
                rules: Some(changed),
                create,
            });
        }
    }
    if !there.is_empty() {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{subject} has other rules already for {}", there.join(", ")),
        )
        .hint(format!("rmq acl update {}", quoted(subject))));
    }
    carry_out(session, plan, work, unread, Some(undo.join(" && "))).await
}

async fn delete(
    session: &Session,
    subject: &str,
    resources: Vec<String>,
    scope: &ScopeArgs,
) -> Result<(), Failure> {
    let brokers = scope.brokers(session, Which::AllToWrite).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let mut plan = plan(
        format!("delete access rules of {subject}"),
        subject,
        &brokers,
        Class::B,
    );
    let (mut work, mut unread, mut undo) = (Vec::new(), Vec::new(), Vec::new());
    for (broker, now) in on_each(session, brokers, subject).await {
        let now = match now {
            Ok(now) => now.unwrap_or_default(),
            Err(failure) => {
                unread.push(Unread::at(broker.server(), failure));
                continue;
            }
        };
        let mut gone = Vec::new();
        for rule in now {
            if !rule.policy.eq_ignore_ascii_case(CUSTOM)
                || !(resources.is_empty() || resources.contains(&rule.resource))
            {
                continue;
            }
            plan.steps.push(Step {
                target: broker.server().to_string(),
                field: rule.resource.clone(),
                before: rule.text(),
                after: "absent".into(),
            });
            undo.push(undo_line(&rule, &broker));
            gone.push(rule.resource);
        }
        if !gone.is_empty() {
            work.push(Work {
                broker,
                subject: subject.to_owned(),
                rules: None,
                resources: gone,
                create: false,
            });
        }
    }
    if work.is_empty() && unread.is_empty() {
        return Err(absent(subject));
    }
    plan.impact
        .push("what no rule allows is denied to a normal user".into());
    carry_out(session, plan, work, unread, Some(undo.join(" && "))).await
}

/// What one broker decides: allowed, and why.
async fn decision(
    session: &Session,
    broker: &BrokerAt,
    subject: &str,
    (resource, action, ip): (&str, &str, Option<IpAddr>),
) -> Result<(bool, String), Failure> {
    let (client, server) = (&session.client, broker.server());
    let name = subject.trim_start_matches("User:");
    let user = client.user(&server, name, client.deadline()).await;
    let Some(user) = user.map_err(|e| failed(&e))? else {
        return Ok((false, "there is no such user".into()));
    };
    if user.user_status.as_deref() == Some("disable") {
        return Ok((false, "the user is disabled".into()));
    }
    if user.user_type.as_deref() == Some("Super") {
        return Ok((true, "a super user needs no rule".into()));
    }
    let rules = client.acl(&server, subject, client.deadline()).await;
    let rules = rules.map_err(|e| failed(&e))?.unwrap_or_default();
    Ok(match decide(&rules, resource, action, ip) {
        None => (false, "no rule matches".into()),
        Some(rule) => (
            rule.decision.eq_ignore_ascii_case("Allow"),
            format!("{} {}", rule.resource, rule.text()),
        ),
    })
}

async fn check(
    session: &Session,
    subject: &str,
    asked: (&str, &str, Option<IpAddr>),
    scope: &ScopeArgs,
) -> Result<(), Failure> {
    let brokers = scope.brokers(session, Which::All).await;
    session.warn_of_dead_name_servers();
    let answers = session
        .client
        .each(brokers?, |broker| async move {
            let decision = decision(session, &broker, subject, asked).await;
            (broker, decision)
        })
        .await;
    let mut listing = Listing::new(
        "AclCheck",
        &[col("broker"), col("allowed"), col("reason"), wide("addr")],
    );
    let mut denied = 0;
    for (broker, decision) in answers {
        match decision {
            Ok((allowed, reason)) => {
                denied += usize::from(!allowed);
                listing.push(vec![
                    broker.id.to_string().into(),
                    allowed.into(),
                    reason.into(),
                    broker.addr.as_str().into(),
                ]);
            }
            Err(failure) => listing.errors.push(failure),
        }
    }
    let verdict = Failure::over(&listing.errors, !listing.rows.is_empty());
    session.printer.print(listing)?;
    verdict?;
    if denied > 0 {
        let (resource, action, _) = asked;
        return Err(Failure::new(
            exit::WARNINGS,
            format!(
                "{subject} may not {action} on {resource} at {}",
                counted(denied, "broker")
            ),
        )
        .because("A broker asks its rules only with authorizationEnabled=true."));
    }
    Ok(())
}

async fn copy(
    session: &Session,
    subjects: Vec<String>,
    from: BrokerSelector,
    to: BrokerSelector,
) -> Result<(), Failure> {
    let client = &session.client;
    let source = one(session, from).await?;
    let target = one(session, to).await?;
    let all = |broker: &BrokerAt| {
        let server = broker.server();
        async move {
            let rules = client.acls(&server, None, None, client.deadline()).await;
            let rules = rules.map_err(|e| failed(&e))?;
            let mut by_subject: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
            for rule in rules {
                by_subject.entry(rule.subject.clone()).or_default().push(rule);
            }
            Ok::<_, Failure>(by_subject)
        }
    };
    let mut rules = all(&source).await?;
    let there = all(&target).await?;
    if let Some(subject) = subjects.iter().find(|subject| !rules.contains_key(*subject)) {
        return Err(absent(subject));
    }
    if !subjects.is_empty() {
        rules.retain(|subject, _| subjects.contains(subject));
    }
    let mut plan = plan(
        format!(
            "copy access rules from {} to {}",
            source.server(),
            target.server()
        ),
        &target.id.name,
        std::slice::from_ref(&target),
        Class::B,
    );
    let (mut work, mut undo) = (Vec::new(), Vec::new());
    for (subject, rules) in rules {
        let before = there.get(&subject);
        let mut changed = Vec::new();
        for rule in rules {
            let before = before
                .into_iter()
                .flatten()
                .find(|r| r.resource == rule.resource && r.policy == rule.policy);
            if before.is_some_and(|before| before.same_as(&rule)) {
                continue;
            }
            undo.push(match before {
                Some(before) => undo_line(before, &target),
                None => delete_line(&subject, &rule.resource, &target),
            });
            plan.steps.push(Step {
                target: target.server().to_string(),
                field: format!("{subject} {}", rule.resource),
                before: before.map_or_else(|| "absent".to_owned(), Rule::text),
                after: rule.text(),
            });
            changed.push(rule);
        }
        if !changed.is_empty() {
            work.push(Work {
                broker: target.clone(),
                create: before.is_none(),
                subject,
                resources: changed.iter().map(|rule| rule.resource.clone()).collect(),
                rules: Some(changed),
            });
        }
    }
    carry_out(session, plan, work, Vec::new(), Some(undo.join(" && "))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_actions_and_subjects_are_javas() {
        assert_eq!(resource("topic:Orders").unwrap(), "Topic:Orders");
        assert_eq!(resource("Group:CG_*").unwrap(), "Group:CG_*");
        assert_eq!(resource("*").unwrap(), "*");
        for bad in ["Orders", "Queue:x", "Topic:", ""] {
            assert!(resource(bad).is_err(), "{bad}");
        }
        assert_eq!(one_resource("topic:Orders").unwrap(), "Topic:Orders");
        for several in ["*", "Topic:*", "Topic:Ord*"] {
            assert!(
                resource(several).is_ok() && one_resource(several).is_err(),
                "{several}"
            );
        }
        assert_eq!(action("pub").unwrap(), "Pub");
        assert!(action("write").is_err());
        assert_eq!(subject("alice").unwrap(), "User:alice");
        assert_eq!(subject("user:alice").unwrap(), "User:alice");
        assert!(subject("Group:x").is_err());
    }
}
