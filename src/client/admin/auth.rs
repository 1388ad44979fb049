//! Users and access rules of a broker. Each broker keeps its own; nothing copies them between brokers.

pub use super::auth_decision::decide;
use crate::client::error::{Error, Server};
use crate::client::{Client, Deadline};
use crate::protocol::Json;
use crate::protocol::body::{AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo};
use crate::protocol::codes;
use crate::protocol::requests::{
    CreateAcl, CreateUser, DeleteAcl, DeleteUser, GetAcl, GetUser, ListAcls, ListUsers, UpdateAcl, UpdateUser,
};

/// The broker keys without which no user and no rule can be kept.
pub const PROVIDER_KEYS: [&str; 2] = ["authenticationMetadataProvider", "authorizationMetadataProvider"];

/// Kind of the rules that admins make.
pub const CUSTOM: &str = "Custom";

/// `Action` of 5.3.3; `Unknown` and `Any` are for asking.
const ACTIONS: [&str; 8] = ["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"];
/// `ResourceType` of 5.3.3.
const RESOURCES: [&str; 4] = ["Cluster", "Namespace", "Topic", "Group"];

/// An action as Java spells it.
pub fn action(text: &str) -> Result<String, String> {
    ACTIONS
        .iter()
        .find(|name| name.eq_ignore_ascii_case(text.trim()))
        .map(|name| (*name).to_owned())
        .ok_or_else(|| format!("an action is one of {}", ACTIONS.join(", ")))
}

/// A resource that a rule may name, as Java spells it.
pub fn resource(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text == "*" {
        return Ok(text.to_owned());
    }
    let wrong = || {
        format!(
            "a resource is TYPE:NAME, TYPE:PREFIX*, TYPE:* or *, with a type of {}",
            RESOURCES.join(", ")
        )
    };
    let (kind, name) = text.split_once(':').ok_or_else(wrong)?;
    let kind = RESOURCES
        .iter()
        .find(|k| k.eq_ignore_ascii_case(kind))
        .ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok(format!("{kind}:{name}"))
}

/// A subject, `User:NAME`; the name alone stands for it.
pub fn subject(text: &str) -> Result<String, String> {
    match text.trim().split_once(':') {
        Some((kind, name)) if kind.eq_ignore_ascii_case("User") && !name.is_empty() => {
            Ok(format!("User:{name}"))
        }
        None if !text.trim().is_empty() => Ok(format!("User:{}", text.trim())),
        _ => Err("a subject is User:NAME".into()),
    }
}

/// True when a server refused since it keeps no users and rules at all.
pub fn is_without_providers(e: &Error) -> bool {
    match e.remote_code() {
        Some(codes::REQUEST_CODE_NOT_SUPPORTED) => true,
        Some(codes::SYSTEM_ERROR) => {
            let text = e.to_string();
            text.contains("An system error occurred") || text.contains("MetadataProvider is not configured")
        }
        _ => false,
    }
}

/// One access rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// `User:name`.
    pub subject: String,
    /// `Custom` or `Default`.
    pub policy: String,
    /// `Topic:name`.
    pub resource: String,
    /// `Pub`, `Sub`, …
    pub actions: Vec<String>,
    /// Addresses and networks; everywhere when empty.
    pub source_ips: Vec<String>,
    /// `Allow` or `Deny`.
    pub decision: String,
}

impl Rule {
    /// `Allow Pub,Sub from 10.0.0.0/8`: what a rule says besides its subject and resource.
    pub fn text(&self) -> String {
        let mut text = format!("{} {}", self.decision, self.actions.join(","));
        if !self.source_ips.is_empty() {
            text.push_str(&format!(" from {}", self.source_ips.join(",")));
        }
        text
    }

    /// The rule with its actions and addresses in one order, whatever order they were given in.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.actions
            .sort_by_key(|action| (ACTIONS.iter().position(|name| name == action), action.clone()));
        self.source_ips.sort();
        self
    }

    /// True for the same effect: order and case of actions do not matter.
    pub fn same_as(&self, other: &Self) -> bool {
        let set = |list: &[String]| {
            let mut list: Vec<String> = list.iter().map(|a| a.to_ascii_lowercase()).collect();
            list.sort();
            list
        };
        self.decision.eq_ignore_ascii_case(&other.decision)
            && set(&self.actions) == set(&other.actions)
            && set(&self.source_ips) == set(&other.source_ips)
    }
}

/// The rules of a subject, one a resource.
pub fn rules(acl: &AclInfo) -> Vec<Rule> {
    let mut out = Vec::new();
    for policy in acl.policies.iter().flatten() {
        for entry in policy.entries.iter().flatten() {
            out.push(Rule {
                subject: acl.subject.clone().unwrap_or_default(),
                policy: policy.policy_type.clone().unwrap_or_else(|| CUSTOM.to_owned()),
                resource: entry.resource.clone().unwrap_or_default(),
                actions: entry.actions.clone().unwrap_or_default(),
                source_ips: entry.source_ips.clone().unwrap_or_default(),
                decision: entry.decision.clone().unwrap_or_default(),
            });
        }
    }
    out
}

/// The body that carries rules of one subject.
pub fn acl(subject: &str, rules: &[Rule]) -> AclInfo {
    let mut policies: Vec<PolicyInfo> = Vec::new();
    for rule in rules {
        let entry = PolicyEntryInfo {
            actions: Some(rule.actions.clone()),
            decision: Some(rule.decision.clone()),
            resource: Some(rule.resource.clone()),
            source_ips: (!rule.source_ips.is_empty()).then(|| rule.source_ips.clone()),
        };
        let policy = policies
            .iter_mut()
            .find(|p| p.policy_type.as_deref() == Some(rule.policy.as_str()));
        match policy {
            Some(policy) => policy.entries.get_or_insert_default().push(entry),
            None => policies.push(PolicyInfo {
                entries: Some(vec![entry]),
                policy_type: Some(rule.policy.clone()),
            }),
        }
    }
    AclInfo {
        policies: Some(policies),
        subject: Some(subject.to_owned()),
    }
}

impl Client {
    /// Users of a broker whose name contains `filter`, with their passwords: never show those.
    pub async fn users(
        &self,
        broker: &Server,
        filter: Option<&str>,
        deadline: Deadline,
    ) -> Result<Vec<UserInfo>, Error> {
        let header = ListUsers {
            filter: filter.map(str::to_owned),
        };
        let (_, body) = self.call(broker, &header, (), deadline).await?;
        Ok(body.map(|list| list.value).unwrap_or_default())
    }

    /// One user of a broker.
    pub async fn user(
        &self,
        broker: &Server,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<UserInfo>, Error> {
        let username = name.to_owned();
        let (_, body) = self.call(broker, &GetUser { username }, (), deadline).await?;
        Ok(body.map(|user| user.value))
    }

    /// Makes a user, or changes the fields of one that `user` has.
    pub async fn write_user(
        &self,
        broker: &Server,
        user: UserInfo,
        create: bool,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let username = user.username.clone().unwrap_or_default();
        let body = Json::new(user);
        if create {
            self.call(broker, &CreateUser { username }, body, deadline)
                .await?;
        } else {
            self.call(broker, &UpdateUser { username }, body, deadline)
                .await?;
        }
        Ok(())
    }

    /// Deletes a user and its rules. Success also when there is none.
    pub async fn delete_user(&self, broker: &Server, name: &str, deadline: Deadline) -> Result<(), Error> {
        let username = name.to_owned();
        self.call(broker, &DeleteUser { username }, (), deadline)
            .await
            .map(drop)
    }

    /// Rules of a broker by parts of subject and resource.
    pub async fn acls(
        &self,
        broker: &Server,
        subject: Option<&str>,
        resource: Option<&str>,
        deadline: Deadline,
    ) -> Result<Vec<Rule>, Error> {
        let header = ListAcls {
            subject_filter: subject.map(str::to_owned),
            resource_filter: resource.map(str::to_owned),
        };
        let (_, body) = self.call(broker, &header, (), deadline).await?;
        let list = body.map(|list| list.value).unwrap_or_default();
        Ok(list.iter().flat_map(rules).collect())
    }

    /// Rules of one subject; `None` when the broker does not know the subject.
    pub async fn acl(
        &self,
        broker: &Server,
        subject: &str,
        deadline: Deadline,
    ) -> Result<Option<Vec<Rule>>, Error> {
        let header = GetAcl {
            subject: subject.to_owned(),
        };
        match self.call(broker, &header, (), deadline).await {
            Ok((_, body)) => Ok(Some(body.map(|acl| rules(&acl.value)).unwrap_or_default())),
            // `AuthorizationMetadataManagerImpl.getAcl`
            Err(e)
                if e.remote_code() == Some(codes::NO_PERMISSION)
                    && e.to_string().contains("is not exist") =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Adds rules to a subject, or replaces those for the same resources.
    pub async fn write_acl(
        &self,
        broker: &Server,
        subject: &str,
        rules: &[Rule],
        create: bool,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let body = Json::new(acl(subject, rules));
        let subject = subject.to_owned();
        if create {
            self.call(broker, &CreateAcl { subject }, body, deadline).await?;
        } else {
            self.call(broker, &UpdateAcl { subject }, body, deadline).await?;
        }
        Ok(())
    }

    /// Deletes the rules of a subject for one resource, or all of them.
    pub async fn delete_acl(
        &self,
        broker: &Server,
        subject: &str,
        resource: Option<&str>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = DeleteAcl {
            subject: subject.to_owned(),
            policy_type: None,
            resource: resource.map(str::to_owned),
        };
        self.call(broker, &header, (), deadline).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json;

    /// As `AclInfo` of 5.3.3 answers for golden/mqadmin/seq/120.
    const JAVA: &str = r#"{"policies":[{"entries":[{"actions":["Pub"],"decision":"Deny","resource":"Topic:OrderEvents"},{"actions":["Pub","Sub"],"decision":"Allow","resource":"Group:CG_ORDERS","sourceIps":["10.0.0.0/8"]}],"policyType":"Custom"}],"subject":"User:alice"}"#;

    #[test]
    fn rules_are_read_and_written_as_java_has_them() {
        let info: AclInfo = json::from_slice(JAVA.as_bytes()).unwrap();
        let list = rules(&info);
        assert_eq!(list[0].text(), "Deny Pub");
        assert_eq!(list[1].text(), "Allow Pub,Sub from 10.0.0.0/8");
        assert_eq!(
            String::from_utf8(json::to_vec(&acl("User:alice", &list))).unwrap(),
            JAVA
        );
    }

    #[test]
    fn order_and_case_of_actions_do_not_make_another_rule() {
        let info: AclInfo = json::from_slice(JAVA.as_bytes()).unwrap();
        let rule = rules(&info)[1].clone();
        let mut other = rule.clone();
        other.actions = vec!["sub".into(), "PUB".into()];
        assert!(rule.same_as(&other));
        other.decision = "Deny".into();
        assert!(!rule.same_as(&other));
    }

    #[test]
    fn a_password_is_not_in_the_debug_form() {
        let user = UserInfo {
            username: Some("alice".into()),
            password: Some("hunter2".into()),
            ..UserInfo::default()
        };
        assert!(!format!("{user:?}").contains("hunter2"));
    }
}
