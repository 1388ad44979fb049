//! Users and access rules of a declaration. Each replica keeps its own, so a replica is a place like a master. A
//! password that a broker told is compared, and never printed.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Change, Field};
use super::{Declared, Held, RuleFields, Spread, UserFields};
use crate::client::admin::auth::{CUSTOM, Rule, is_without_providers};
use crate::client::admin::cluster::BrokerAt;
use crate::client::error::Error;
use crate::client::snapshot::BrokerId;
use crate::client::{Client, Deadline};
use crate::protocol::body::UserInfo;
use crate::protocol::codes;

/// What a user is without rules, and whether it may sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// `Normal` or `Super`.
    pub user_type: String,
    /// `enable` or `disable`.
    pub status: String,
}

impl Default for Account {
    /// What a broker makes of a user of which nothing is said.
    fn default() -> Self {
        Self {
            user_type: "Normal".into(),
            status: "enable".into(),
        }
    }
}

impl Account {
    fn of(user: &UserInfo) -> Self {
        let fresh = Self::default();
        Self {
            user_type: user.user_type.clone().unwrap_or(fresh.user_type),
            status: user.user_status.clone().unwrap_or(fresh.status),
        }
    }
}

/// Where the password of a user is, and the password once it was read from there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password {
    /// `env:NAME` or `file:PATH`.
    pub from: String,
    /// The password.
    pub text: Option<String>,
}

/// Without the password, so that no log gets it.
impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Password")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// What makes two rules the same rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleKey {
    /// `User:name`.
    pub subject: String,
    /// `Topic:name`.
    pub resource: String,
    /// `Custom` or `Default`.
    pub policy: String,
}

impl RuleKey {
    fn of(rule: &Rule) -> Self {
        Self {
            subject: rule.subject.clone(),
            resource: rule.resource.clone(),
            policy: rule.policy.clone(),
        }
    }
}

impl std::fmt::Display for RuleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.subject, self.resource)?;
        if self.policy != CUSTOM {
            write!(f, " ({})", self.policy)?;
        }
        Ok(())
    }
}

/// What one broker keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Users by name; `None` when the broker keeps or tells none.
    pub users: Option<BTreeMap<String, UserInfo>>,
    /// Rules; `None` when the broker keeps or tells none.
    pub rules: Option<BTreeMap<RuleKey, Rule>>,
}

/// What was read, and what was not.
#[derive(Debug, Default)]
pub struct AccountsRead {
    /// What each broker that answered keeps.
    pub held: BTreeMap<BrokerAt, Accounts>,
    /// Brokers that keep no users and rules, or do not tell them to this account.
    pub left_out: Vec<(BrokerAt, Error)>,
    /// Brokers that did not answer.
    pub failed: Vec<(BrokerAt, Error)>,
}

impl Client {
    /// Users and access rules of brokers.
    pub async fn accounts(&self, brokers: &[BrokerAt], deadline: Deadline) -> AccountsRead {
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                let server = broker.server();
                let (users, rules) = tokio::join!(
                    self.users(&server, None, deadline),
                    self.acls(&server, None, None, deadline)
                );
                (broker, users, rules)
            })
            .await;
        let mut read = AccountsRead::default();
        for (broker, users, rules) in answers {
            let mut why = Vec::new();
            let users = users.map_err(|e| why.push(e)).ok().map(|list| {
                let named = list
                    .into_iter()
                    .filter_map(|user| Some((user.username.clone()?, user)));
                named.collect()
            });
            let rules = rules.map_err(|e| why.push(e)).ok().map(|list| {
                let list = list.into_iter().map(Rule::in_order);
                list.map(|rule| (RuleKey::of(&rule), rule)).collect()
            });
            let told = |e: &Error| is_without_providers(e) || e.remote_code() == Some(codes::NO_PERMISSION);
            match why.iter().position(|e| !told(e)) {
                Some(at) => read.failed.push((broker, why.swap_remove(at))),
                None => {
                    read.left_out.extend(why.pop().map(|e| (broker.clone(), e)));
                    read.held.insert(broker, Accounts { users, rules });
                }
            }
        }
        read
    }
}

/// How a file calls a broker that keeps users: a master by its name, a replica by name and id.
pub fn place(id: &BrokerId) -> String {
    if id.is_master() {
        id.name.clone()
    } else {
        id.to_string()
    }
}

impl Held {
    /// Objects of all brokers that keep them, each said once where all have it alike.
    fn spread_out<K: Ord + Clone, V, F>(
        &self,
        kept: impl Fn(&Accounts) -> Option<&BTreeMap<K, V>>,
        fields: impl Fn(&V) -> F,
        of: impl Fn(&BTreeMap<String, F>, &BTreeSet<String>) -> Spread<F>,
    ) -> Option<BTreeMap<K, Spread<F>>> {
        let mut places = BTreeSet::new();
        let mut objects: BTreeMap<K, BTreeMap<String, F>> = BTreeMap::new();
        for (broker, accounts) in &self.accounts {
            let Some(kept) = kept(accounts) else { continue };
            places.insert(place(&broker.id));
            for (key, value) in kept {
                let on = objects.entry(key.clone()).or_default();
                on.insert(place(&broker.id), fields(value));
            }
        }
        let said = objects
            .into_iter()
            .map(|(key, on)| (key, of(&on, &places)))
            .collect();
        (!places.is_empty()).then_some(said)
    }

    pub(super) fn declared_users(&self) -> Option<BTreeMap<String, Spread<UserFields>>> {
        self.spread_out(
            |accounts| accounts.users.as_ref(),
            |user| UserFields::of(&Account::of(user)),
            Spread::<UserFields>::of,
        )
    }

    pub(super) fn declared_rules(&self) -> Option<BTreeMap<RuleKey, Spread<RuleFields>>> {
        self.spread_out(
            |accounts| accounts.rules.as_ref(),
            RuleFields::of,
            Spread::<RuleFields>::of,
        )
    }
}

fn differs(fields: &mut Vec<Field>, field: &str, before: &str, after: &str) -> bool {
    let differs = before != after;
    if differs {
        fields.push((field.into(), before.into(), after.into()));
    }
    differs
}

/// The writes of users. What a file does not say of a user that exists stays as it is.
pub(super) fn user_changes(declared: &Declared, held: &Held) -> Vec<Change> {
    let mut out = Vec::new();
    for (name, user) in declared.users.iter().flatten() {
        let password = declared.passwords.get(name).and_then(|p| p.text.clone());
        for (broker, accounts) in &held.accounts {
            let (Some(users), Some(fields)) = (&accounts.users, user.on(&place(&broker.id))) else {
                continue;
            };
            let before = users.get(name);
            let mut after = UserInfo {
                username: Some(name.clone()),
                ..UserInfo::default()
            };
            let mut changed = Vec::new();
            if let Some(before) = before {
                let (was, shall) = (Account::of(before), fields.apply(&Account::of(before)));
                if differs(&mut changed, "type", &was.user_type, &shall.user_type) {
                    after.user_type = Some(shall.user_type);
                }
                if differs(&mut changed, "status", &was.status, &shall.status) {
                    after.user_status = Some(shall.status);
                }
                if password.is_some() && before.password != password {
                    changed.push(("password".into(), "***".into(), "*** (new)".into()));
                    after.password.clone_from(&password);
                }
            } else {
                let shall = fields.apply(&Account::default());
                let text = format!("{}, {}, password ***", shall.user_type, shall.status);
                changed.push(("user".into(), "absent".into(), text));
                after.user_type = Some(shall.user_type);
                after.user_status = Some(shall.status);
                after.password.clone_from(&password);
            }
            if !changed.is_empty() {
                out.push(Change::User {
                    broker: broker.clone(),
                    before: before.cloned(),
                    after,
                    fields: changed,
                });
            }
        }
    }
    out
}

/// The writes of access rules.
pub(super) fn rule_changes(declared: &Declared, held: &Held) -> Vec<Change> {
    let mut out = Vec::new();
    for (key, rule) in declared.rules.iter().flatten() {
        for (broker, accounts) in &held.accounts {
            let (Some(rules), Some(fields)) = (&accounts.rules, rule.on(&place(&broker.id))) else {
                continue;
            };
            let before = rules.get(key);
            let fresh = Rule {
                subject: key.subject.clone(),
                policy: key.policy.clone(),
                resource: key.resource.clone(),
                actions: Vec::new(),
                source_ips: Vec::new(),
                decision: String::new(),
            };
            let after = fields.apply(before.unwrap_or(&fresh)).in_order();
            if before.is_some_and(|before| before.same_as(&after)) {
                continue;
            }
            out.push(Change::Rule {
                broker: broker.clone(),
                name: key.to_string(),
                fields: vec![(
                    "acl".into(),
                    before.map_or_else(|| "absent".into(), Rule::text),
                    after.text(),
                )],
                before: before.cloned(),
                after,
                is_first: !rules.keys().any(|other| other.subject == key.subject),
            });
        }
    }
    out
}

/// Rules and users that a file does not have, of the kinds that it has any of. Super users stay: brokers sign in with
/// them, and so does whoever prunes. So do rules that no admin made.
pub(super) fn prunings(declared: &Declared, held: &Held) -> Vec<Change> {
    let mut out = Vec::new();
    let absent = |on: Option<bool>| !on.unwrap_or(false);
    for (broker, accounts) in &held.accounts {
        let place = place(&broker.id);
        if let Some(said) = declared.rules.as_ref().filter(|said| !said.is_empty()) {
            for (key, rule) in accounts.rules.iter().flatten() {
                if key.policy == CUSTOM && absent(said.get(key).map(|rule| rule.on(&place).is_some())) {
                    out.push(Change::DeleteRule {
                        broker: broker.clone(),
                        name: key.to_string(),
                        rule: rule.clone(),
                    });
                }
            }
        }
    }
    for (broker, accounts) in &held.accounts {
        let place = place(&broker.id);
        if let Some(said) = declared.users.as_ref().filter(|said| !said.is_empty()) {
            for (name, user) in accounts.users.iter().flatten() {
                let is_super = Account::of(user).user_type.eq_ignore_ascii_case("Super");
                if !is_super && absent(said.get(name).map(|user| user.on(&place).is_some())) {
                    out.push(Change::DeleteUser {
                        broker: broker.clone(),
                        name: name.clone(),
                    });
                }
            }
        }
    }
    out
}
