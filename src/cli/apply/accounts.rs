//! Users and access rules of a declaration: what brokers keep, where passwords are, and the way back.

use super::super::acl;
use super::super::change::{Class, Plan};
use super::super::exit::{self, Failure};
use super::super::secret::Source;
use super::super::session::Session;
use super::super::user;
use crate::client::admin::auth::{CUSTOM, is_without_providers};
use crate::client::declare::Declared;
pub use crate::client::declare::accounts::place;
use crate::client::declare::accounts::{Accounts, AccountsRead};
use crate::client::declare::plan::Change;
use crate::client::{BrokerAt, Deadline};

/// What must be told for the work to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// A broker that keeps no users and rules, or does not tell them, is left out.
    WhatIsKept,
    /// Somebody must keep users.
    Users,
    /// Somebody must keep users and rules.
    All,
}

impl Reach {
    /// What a file is about.
    pub fn of(declared: &Declared) -> Self {
        let has_rules = declared.rules.as_ref().is_some_and(|rules| !rules.is_empty());
        if has_rules { Self::All } else { Self::Users }
    }

    fn is_met_by(self, accounts: &Accounts) -> bool {
        match self {
            Self::WhatIsKept => true,
            Self::Users => accounts.users.is_some(),
            Self::All => accounts.users.is_some() && accounts.rules.is_some(),
        }
    }
}

/// What brokers keep. Those that keep nothing, or do not tell it, are left out with one note; one that does not answer is a
/// failure, unless no other keeps any: then it is no loss.
pub async fn read_accounts(
    session: &Session,
    brokers: &[BrokerAt],
    reach: Reach,
) -> Result<AccountsRead, Failure> {
    let deadline = Deadline::after(session.timeout);
    let mut read = session.client.accounts(brokers, deadline).await;
    let is_kept = (read.held.values()).any(|accounts| accounts.users.is_some() || accounts.rules.is_some());
    if reach == Reach::WhatIsKept {
        // A replica that is down is no reason to have no file: what its master keeps is in it.
        let failed = std::mem::take(&mut read.failed).into_iter();
        let (masters, replicas): (Vec<_>, Vec<_>) = failed.partition(|(broker, _)| broker.id.is_master());
        read.failed = masters;
        read.left_out.extend(replicas.into_iter().filter(|_| is_kept));
    }
    let failures: Vec<Failure> = read.failed.iter().map(|(_, e)| Failure::from(e)).collect();
    Failure::over(&failures, false).map_err(Failure::unchanged)?;
    if !read.held.values().any(|accounts| reach.is_met_by(accounts))
        && let Some((_, e)) = read.left_out.first()
    {
        return Err(user::failed(e).unchanged());
    }
    if let Some(text) = left_out(&read) {
        session.note(&format!("{text}: left out"));
    }
    Ok(read)
}

/// Which brokers are left out, and why.
pub fn left_out(read: &AccountsRead) -> Option<String> {
    let names = |without: bool| {
        let brokers = read.left_out.iter();
        let brokers = brokers.filter(|(_, e)| is_without_providers(e) == without);
        brokers
            .map(|(broker, _)| broker.id.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let texts = [
        (names(true), "no users and access rules are kept by"),
        (names(false), "users and access rules are not told by"),
    ];
    let texts = texts.into_iter().filter(|(names, _)| !names.is_empty());
    let texts: Vec<String> = texts.map(|(names, what)| format!("{what} {names}")).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Reads the passwords that the file points to. Only a change needs them: a comparison goes without one that is not there.
pub fn read_passwords(session: &Session, declared: &mut Declared, will_write: bool) -> Result<(), Failure> {
    for (name, password) in &mut declared.passwords {
        let source: Source = password.from.parse().map_err(Failure::usage)?;
        match source.read() {
            Ok(text) => password.text = Some(text),
            Err(mut failure) if will_write => {
                failure.what = format!("the password of user {name} cannot be read: {}", failure.what);
                return Err(failure.unchanged());
            }
            Err(failure) => session.warn(&format!(
                "the password of user {name} is not compared: {}",
                failure.what
            )),
        }
    }
    Ok(())
}

/// No broker makes a user without a password, which no export has, or a rule that says nothing.
pub fn refuse_incomplete(changes: &[Change]) -> Result<(), Failure> {
    for change in changes {
        let (lacks, hint) = match change {
            Change::User {
                before: None, after, ..
            } if after.password.is_none() => (
                "where its password is",
                "password_from = \"env:NAME\" or \"file:PATH\" in the file; an export has no passwords",
            ),
            Change::Rule {
                before: None, after, ..
            } if after.actions.is_empty() => ("its actions", "actions = [\"Pub\"] in the file"),
            Change::Rule {
                before: None, after, ..
            } if after.decision.is_empty() => {
                ("its decision", "decision = \"allow\" or \"deny\" in the file")
            }
            _ => continue,
        };
        let what = format!(
            "{} {} is new on {} and the file does not say {lacks}; nothing was changed",
            change.noun(),
            change.name(),
            change.broker().server()
        );
        return Err(Failure::new(exit::PRECONDITION, what).hint(hint));
    }
    Ok(())
}

/// Adds what a change of users or rules means.
pub fn weigh(plan: &mut Plan, change: &Change) {
    let at = &change.broker().id;
    match change {
        Change::DeleteUser { name, .. } => {
            plan.class = Class::C;
            plan.impact.push(format!(
                "user {name} on {at}: its password cannot be brought back, its access rules go with it"
            ));
        }
        Change::User { after, .. } => {
            plan.class = plan.class.max(Class::B);
            if after.password.is_some() {
                plan.impact.push(format!(
                    "the password that {} has now on {at} is kept nowhere",
                    change.name()
                ));
            }
        }
        Change::DeleteRule { .. } => {
            plan.class = plan.class.max(Class::B);
            let impact = "what no rule allows is denied to a normal user";
            if !plan.impact.iter().any(|told| told == impact) {
                plan.impact.push(impact.into());
            }
        }
        Change::Rule { .. } => plan.class = plan.class.max(Class::B),
        Change::Topic { .. }
        | Change::Group { .. }
        | Change::DeleteTopic { .. }
        | Change::DeleteGroup { .. } => {}
    }
}

/// True for a change that no command takes back.
pub fn is_final(change: &Change) -> bool {
    match change {
        Change::DeleteUser { .. } => true,
        Change::Rule { after, .. } => after.policy != CUSTOM,
        _ => false,
    }
}

/// The command that takes a change of a user or a rule back.
pub fn undo_line(change: &Change) -> Option<String> {
    match change {
        Change::User {
            broker,
            before,
            after,
            ..
        } => {
            // What the write does not name stays as it was.
            let mut shall = after.clone();
            if let Some(before) = before {
                shall.user_type = shall.user_type.or_else(|| before.user_type.clone());
                shall.user_status = shall.user_status.or_else(|| before.user_status.clone());
            }
            user::copy_undo(change.name(), before.as_ref(), &shall, broker)
        }
        Change::Rule {
            broker,
            before: Some(before),
            ..
        } => Some(acl::undo_line(before, broker)),
        Change::Rule { broker, after, .. } => Some(acl::delete_line(&after.subject, &after.resource, broker)),
        Change::DeleteRule { broker, rule, .. } => Some(acl::undo_line(rule, broker)),
        _ => None,
    }
}
