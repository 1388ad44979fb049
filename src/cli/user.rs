//! `rmq user`: users of brokers. Passwords are read from elsewhere, travel to the broker, and are never shown.

use std::collections::BTreeMap;

use clap::{Args, Subcommand, ValueEnum};

use super::broker::{cluster_of, targets};
use super::change::{self, Class, Outcome, Plan, Step, Undo, Unread};
use super::exit::{self, Failure};
use super::output::{Listing, col, wide};
use super::quoted;
use super::scope::ScopeArgs;
use super::secret::Source;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::auth::{PROVIDER_KEYS, is_without_providers};
use crate::client::words::counted;
use crate::client::{BrokerAt, BrokerSelector, Error, Which, similar};
use crate::protocol::body::UserInfo;

/// What a user may do without rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UserType {
    /// What rules allow
    Normal,
    /// Everything
    Super,
}

impl UserType {
    const fn java(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Super => "Super",
        }
    }
}

/// Whether a user may sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UserStatus {
    /// May sign in
    Enable,
    /// May not
    Disable,
}

impl UserStatus {
    const fn java(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
        }
    }
}

/// Commands on users.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the users of each broker; passwords are never shown
    List {
        /// Part of the name
        #[arg(value_name = "TEXT")]
        part: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show a user on each broker
    Get {
        /// User name
        name: String,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Create a user on masters and slaves; fails where it exists
    Create(CreateArgs),
    /// Change password, type or status of a user and nothing else
    Update(UpdateArgs),
    /// Delete a user and its access rules
    Delete {
        /// User name
        name: String,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Copy users, passwords included, from one broker to another
    Copy {
        /// User names; every user when none is named
        names: Vec<String>,
        /// Broker to read: NAME, NAME:ID or HOST:PORT
        #[arg(long, value_name = "BROKER")]
        from: BrokerSelector,
        /// Broker to write
        #[arg(long, value_name = "BROKER")]
        to: BrokerSelector,
    },
}

/// `rmq user create`
#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// User name
    name: String,
    /// Where the password is: env:NAME, file:PATH (mode 600), or - for standard input
    #[arg(long, value_name = "SOURCE")]
    password_from: Source,
    /// What the user may do without rules
    #[arg(long = "type", value_enum, default_value_t = UserType::Normal)]
    user_type: UserType,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq user update`
#[derive(Debug, Clone, Args)]
#[group(id = "fields", required = true, multiple = true, args = ["password_from", "user_type", "status"])]
pub struct UpdateArgs {
    /// User name
    name: String,
    /// Where the new password is: env:NAME, file:PATH (mode 600), or - for standard input
    #[arg(long, value_name = "SOURCE")]
    password_from: Option<Source>,
    /// What the user may do without rules
    #[arg(long = "type", value_enum)]
    user_type: Option<UserType>,
    /// Whether the user may sign in
    #[arg(long, value_enum)]
    status: Option<UserStatus>,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// A failure of a request on users or rules, with what the server lacks where it keeps none.
pub fn failed(e: &Error) -> Failure {
    let mut failure = Failure::from(e);
    if is_without_providers(e) {
        failure.exit = exit::UNSUPPORTED;
        let server = failure.target.clone().unwrap_or_default();
        failure.what = format!("{server} keeps no users and access rules");
        failure.why = Some(format!(
            "A Java broker needs {} and {} in its configuration; rmq's broker does not know them yet.",
            PROVIDER_KEYS[0], PROVIDER_KEYS[1]
        ));
        failure.hint = Some(format!(
            "rmq broker get-config BROKER {}",
            PROVIDER_KEYS.join(" ")
        ));
    }
    failure
}

/// Runs a user command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { part, scope, watch } => {
            watch::print(session, &watch, || list(session, part.as_deref(), &scope)).await
        }
        Command::Get { name, scope } => get(session, &name, &scope).await,
        Command::Create(args) => create(session, args).await,
        Command::Update(args) => update(session, args).await,
        Command::Delete { name, scope } => delete(session, &name, &scope).await,
        Command::Copy { names, from, to } => copy(session, names, from, to).await,
    }
}

fn listing() -> Listing {
    Listing::new(
        "UserList",
        &[
            col("name"),
            col("type"),
            col("status"),
            col("broker"),
            wide("addr"),
            wide("cluster"),
        ],
    )
}

fn push(listing: &mut Listing, user: &UserInfo, broker: &BrokerAt) {
    listing.push(vec![
        user.username.clone().into(),
        user.user_type.clone().into(),
        user.user_status.clone().into(),
        broker.id.to_string().into(),
        broker.addr.as_str().into(),
        broker.id.cluster.as_str().into(),
    ]);
}

async fn list(session: &Session, filter: Option<&str>, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::All).await?;
    let answers = client
        .each(brokers, |broker| async move {
            let users = client.users(&broker.server(), filter, client.deadline()).await;
            (broker, users)
        })
        .await;
    let mut listing = listing();
    let mut some_answered = false;
    for (broker, users) in answers {
        match users {
            Ok(users) => {
                some_answered = true;
                users.iter().for_each(|user| push(&mut listing, user, &broker));
            }
            Err(e) => listing.errors.push(failed(&e)),
        }
    }
    Ok(Rows {
        listing,
        some_answered,
    })
}

/// A user on each broker; what a broker did not tell is a failure.
async fn on_each(
    session: &Session,
    brokers: Vec<BrokerAt>,
    name: &str,
) -> Vec<(BrokerAt, Result<Option<UserInfo>, Failure>)> {
    let client = &session.client;
    client
        .each(brokers, |broker| async move {
            let user = client.user(&broker.server(), name, client.deadline()).await;
            (broker, user.map_err(|e| failed(&e)))
        })
        .await
}

/// What to say of a user that no broker has.
async fn absent(session: &Session, name: &str, brokers: &[BrokerAt]) -> Failure {
    let client = &session.client;
    let lists = client
        .each(brokers.to_vec(), |broker| async move {
            client.users(&broker.server(), None, client.deadline()).await
        })
        .await;
    let known: Vec<String> = lists
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|u| u.username)
        .collect();
    Failure::from(Error::NotFound {
        noun: "user",
        name: name.to_owned(),
        searched: counted(brokers.len(), "broker"),
        similar: similar(name, known.iter().map(String::as_str)),
    })
}

async fn get(session: &Session, name: &str, scope: &ScopeArgs) -> Result<(), Failure> {
    let brokers = scope.brokers(session, Which::All).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let mut listing = listing();
    for (broker, user) in on_each(session, brokers.clone(), name).await {
        match user {
            Ok(Some(user)) => push(&mut listing, &user, &broker),
            Ok(None) => {}
            Err(failure) => listing.errors.push(failure),
        }
    }
    if listing.rows.is_empty() && listing.errors.is_empty() {
        return Err(absent(session, name, &brokers).await);
    }
    let verdict = Failure::over(&listing.errors, !listing.rows.is_empty());
    session.printer.print(listing)?;
    verdict
}

fn plan(action: String, name: &str, brokers: &[BrokerAt], class: Class) -> Plan {
    Plan {
        action,
        object: name.to_owned(),
        cluster: cluster_of(brokers),
        class,
        steps: Vec::new(),
        impact: Vec::new(),
    }
}

/// What is sent to a broker, and how many rows of the plan it stands for.
struct Write {
    broker: BrokerAt,
    user: UserInfo,
    create: bool,
    steps: usize,
}

/// Writes, reads back, reports. Brokers that were not read are rows that failed.
async fn carry_out(
    session: &Session,
    plan: Plan,
    work: Vec<Write>,
    unread: Vec<Unread>,
    undo: Option<String>,
) -> Result<(), Failure> {
    change::each(session, plan, ("user", unread), work, undo, |write| async move {
        vec![write_one(session, &write).await; write.steps]
    })
    .await
}

async fn write_one(session: &Session, write: &Write) -> Outcome {
    let (client, server) = (&session.client, write.broker.server());
    let name = write.user.username.clone().unwrap_or_default();
    let written = client
        .write_user(&server, write.user.clone(), write.create, client.deadline())
        .await;
    let same = |wanted: &Option<String>, now: &Option<String>| wanted.is_none() || wanted == now;
    change::proof(written.map_err(|e| failed(&e)), async {
        let Some(now) = client.user(&server, &name, client.deadline()).await? else {
            return Ok(Some("the broker does not have the user".into()));
        };
        let same = same(&write.user.user_type, &now.user_type)
            && same(&write.user.user_status, &now.user_status)
            && same(&write.user.password, &now.password);
        Ok((!same).then(|| "it reads back otherwise".into()))
    })
    .await
}

async fn create(session: &Session, args: CreateArgs) -> Result<(), Failure> {
    let name = args.name.as_str();
    if name.trim().is_empty() {
        return Err(Failure::usage("a user name is not empty"));
    }
    let brokers = args.scope.brokers(session, Which::AllToWrite).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let mut plan = plan(format!("create user {name}"), name, &brokers, Class::A);
    let (mut work, mut unread, mut there) = (Vec::new(), Vec::new(), Vec::new());
    for (broker, user) in on_each(session, brokers, name).await {
        match user {
            Ok(None) => work.push(broker),
            Ok(Some(_)) => there.push(broker.id.to_string()),
            Err(failure) => unread.push(Unread::at(broker.server(), failure)),
        }
    }
    if !there.is_empty() {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("user \"{name}\" exists already on {}", there.join(", ")),
        )
        .hint(format!("rmq user update {}", quoted(name))));
    }
    let password = args.password_from.read()?;
    let user = UserInfo {
        password: Some(password),
        user_status: Some(UserStatus::Enable.java().to_owned()),
        user_type: Some(args.user_type.java().to_owned()),
        username: Some(name.to_owned()),
    };
    for broker in &work {
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: format!("user {name}"),
            before: "absent".into(),
            after: format!("{}, enable, password ***", args.user_type.java()),
        });
    }
    let work = work
        .into_iter()
        .map(|broker| Write {
            broker,
            user: user.clone(),
            create: true,
            steps: 1,
        })
        .collect();
    let undo = format!("rmq user delete {}{}", quoted(name), scope_text(&args.scope));
    carry_out(session, plan, work, unread, Some(undo)).await
}

/// The scope flags as they were given.
pub fn scope_text(scope: &ScopeArgs) -> String {
    let mut text = String::new();
    if let Some(cluster) = &scope.cluster {
        text.push_str(&format!(" --cluster {}", quoted(cluster)));
    }
    for broker in &scope.broker {
        text.push_str(&format!(" --broker {}", quoted(&broker.0)));
    }
    text
}

async fn update(session: &Session, args: UpdateArgs) -> Result<(), Failure> {
    let name = args.name.as_str();
    let brokers = args.scope.brokers(session, Which::AllToWrite).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let mut plan = plan(format!("update user {name}"), name, &brokers, Class::B);
    let read = on_each(session, brokers.clone(), name).await;
    if read.iter().all(|(_, user)| matches!(user, Ok(None))) {
        return Err(absent(session, name, &brokers).await);
    }
    let password = args.password_from.as_ref().map(Source::read).transpose()?;
    let (mut work, mut unread, mut undo) = (Vec::new(), Vec::new(), Vec::new());
    for (broker, user) in read {
        let now = match user {
            Ok(Some(now)) => now,
            Ok(None) => {
                let failure = Failure::new(
                    exit::NOT_FOUND,
                    format!("user \"{name}\" was not found on {}", broker.server()),
                );
                unread.push(Unread::at(broker.server(), failure));
                continue;
            }
            Err(failure) => {
                unread.push(Unread::at(broker.server(), failure));
                continue;
            }
        };
        let mut user = UserInfo {
            username: Some(name.to_owned()),
            ..UserInfo::default()
        };
        let (mut steps, mut back) = (0, String::new());
        let mut step = |field: &str, before: String, after: String| {
            steps += 1;
            plan.steps.push(Step {
                target: broker.server().to_string(),
                field: field.to_owned(),
                before,
                after,
            });
        };
        let unknown = || "-".to_owned();
        if let Some(kind) = args.user_type.map(|t| t.java().to_owned())
            && now.user_type.as_ref() != Some(&kind)
        {
            step(
                "type",
                now.user_type.clone().unwrap_or_else(unknown),
                kind.clone(),
            );
            if let Some(old) = &now.user_type {
                back.push_str(&format!(" --type {}", old.to_lowercase()));
            }
            user.user_type = Some(kind);
        }
        if let Some(status) = args.status.map(|s| s.java().to_owned())
            && now.user_status.as_ref() != Some(&status)
        {
            step(
                "status",
                now.user_status.clone().unwrap_or_else(unknown),
                status.clone(),
            );
            if let Some(old) = &now.user_status {
                back.push_str(&format!(" --status {old}"));
            }
            user.user_status = Some(status);
        }
        if password.is_some() && now.password != password {
            step("password", "***".into(), "*** (new)".into());
            user.password.clone_from(&password);
        }
        if steps > 0 {
            if !back.is_empty() {
                undo.push(format!(
                    "rmq user update {}{back} --broker {}",
                    quoted(name),
                    broker.addr
                ));
            }
            work.push(Write {
                broker,
                user,
                create: false,
                steps,
            });
        }
    }
    let undo = (!undo.is_empty()).then(|| undo.join(" && "));
    carry_out(session, plan, work, unread, undo).await
}

async fn delete(session: &Session, name: &str, scope: &ScopeArgs) -> Result<(), Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::AllToWrite).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let mut plan = plan(format!("delete user {name}"), name, &brokers, Class::C);
    let (mut work, mut unread) = (Vec::new(), Vec::new());
    for (broker, user) in on_each(session, brokers.clone(), name).await {
        match user {
            Ok(Some(user)) => {
                let rules = client
                    .acl(&broker.server(), &format!("User:{name}"), client.deadline())
                    .await;
                let rules = rules.ok().flatten().map_or(0, |rules| rules.len());
                plan.steps.push(Step {
                    target: broker.server().to_string(),
                    field: format!("user {name}"),
                    before: format!(
                        "{}, {}, {}",
                        user.user_type.unwrap_or_default(),
                        user.user_status.unwrap_or_default(),
                        counted(rules, "access rule")
                    ),
                    after: "absent".into(),
                });
                work.push(broker);
            }
            Ok(None) => {}
            Err(failure) => unread.push(Unread::at(broker.server(), failure)),
        }
    }
    if work.is_empty() && unread.is_empty() {
        return Err(absent(session, name, &brokers).await);
    }
    plan.impact
        .push("its access rules go with it; the password cannot be brought back".into());
    let gone = Undo::Never(
        "neither the password nor the access rules are kept; rmq user create makes the user anew",
    );
    change::each(session, plan, ("user", unread), work, gone, |broker| async move {
        let server = broker.server();
        let deleted = client.delete_user(&server, name, client.deadline()).await;
        let read_back = async {
            let now = client.user(&server, name, client.deadline()).await?;
            Ok(now.map(|_| "the broker still has the user".into()))
        };
        vec![change::proof(deleted.map_err(|e| failed(&e)), read_back).await]
    })
    .await
}

/// The one broker that a selector means.
pub async fn one(session: &Session, selector: BrokerSelector) -> Result<BrokerAt, Failure> {
    let name = selector.0.clone();
    let brokers = targets(session, selector, Which::MastersToWrite).await?;
    brokers
        .into_iter()
        .next()
        .ok_or_else(|| Failure::new(exit::NOT_FOUND, format!("broker {name} has no master")))
}

async fn copy(
    session: &Session,
    names: Vec<String>,
    from: BrokerSelector,
    to: BrokerSelector,
) -> Result<(), Failure> {
    let client = &session.client;
    let source = one(session, from).await?;
    let target = one(session, to).await?;
    let all = |broker: &BrokerAt| {
        let server = broker.server();
        async move {
            let users = client.users(&server, None, client.deadline()).await;
            let users = users.map_err(|e| failed(&e))?;
            Ok::<_, Failure>(
                users
                    .into_iter()
                    .filter_map(|user| Some((user.username.clone()?, user)))
                    .collect::<BTreeMap<_, _>>(),
            )
        }
    };
    let mut users = all(&source).await?;
    let there = all(&target).await?;
    if let Some(name) = names.iter().find(|name| !users.contains_key(*name)) {
        return Err(Failure::from(Error::NotFound {
            noun: "user",
            name: name.clone(),
            searched: source.server().to_string(),
            similar: similar(name, users.keys().map(String::as_str)),
        }));
    }
    if !names.is_empty() {
        users.retain(|name, _| names.contains(name));
    }
    let mut plan = plan(
        format!("copy users from {} to {}", source.server(), target.server()),
        &target.id.name,
        std::slice::from_ref(&target),
        Class::B,
    );
    let (mut work, mut undo) = (Vec::new(), Vec::new());
    for (name, user) in users {
        let before = there.get(&name);
        if before == Some(&user) {
            continue;
        }
        undo.extend(copy_undo(&name, before, &user, &target));
        if before.is_some_and(|before| before.password != user.password) {
            plan.impact
                .push(format!("the password that {name} has now is kept nowhere"));
        }
        let text = |user: &UserInfo| {
            format!(
                "{}, {}, password ***",
                user.user_type.as_deref().unwrap_or("-"),
                user.user_status.as_deref().unwrap_or("-")
            )
        };
        plan.steps.push(Step {
            target: target.server().to_string(),
            field: format!("user {name}"),
            before: before.map_or_else(|| "absent".to_owned(), text),
            after: text(&user),
        });
        work.push(Write {
            broker: target.clone(),
            create: before.is_none(),
            user,
            steps: 1,
        });
    }
    let undo = (!undo.is_empty()).then(|| undo.join(" && "));
    carry_out(session, plan, work, Vec::new(), undo).await
}

/// The command that undoes the copy of one user. The password before is in no command; where nothing else was changed there
/// is none.
pub(super) fn copy_undo(
    name: &str,
    before: Option<&UserInfo>,
    after: &UserInfo,
    at: &BrokerAt,
) -> Option<String> {
    let Some(before) = before else {
        return Some(format!("rmq user delete {} --broker {}", quoted(name), at.addr));
    };
    let mut back = String::new();
    if let Some(old) = before
        .user_type
        .as_ref()
        .filter(|_| before.user_type != after.user_type)
    {
        back.push_str(&format!(" --type {}", old.to_lowercase()));
    }
    if let Some(old) = before
        .user_status
        .as_ref()
        .filter(|_| before.user_status != after.user_status)
    {
        back.push_str(&format!(" --status {old}"));
    }
    (!back.is_empty()).then(|| format!("rmq user update {}{back} --broker {}", quoted(name), at.addr))
}

#[cfg(test)]
mod copy_tests {
    use super::*;
    use crate::client::snapshot::BrokerId;

    #[test]
    fn a_copied_user_is_deleted_or_gets_its_type_and_status_back() {
        let at = BrokerAt {
            id: BrokerId {
                cluster: "c".into(),
                name: "b".into(),
                id: 0,
            },
            addr: "127.0.0.1:10911".into(),
        };
        let user = |kind: &str, status: &str, password: &str| UserInfo {
            username: Some("alice".into()),
            password: Some(password.into()),
            user_type: Some(kind.into()),
            user_status: Some(status.into()),
        };
        let after = user("Super", "enable", "new");
        let undo = |before: Option<UserInfo>| copy_undo("alice", before.as_ref(), &after, &at);
        assert_eq!(
            undo(None).as_deref(),
            Some("rmq user delete alice --broker 127.0.0.1:10911")
        );
        assert_eq!(
            undo(Some(user("Normal", "disable", "new"))).as_deref(),
            Some("rmq user update alice --type normal --status disable --broker 127.0.0.1:10911")
        );
        assert_eq!(undo(Some(user("Super", "enable", "old"))), None);
    }
}
