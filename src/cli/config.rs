//! `rmq config`: contexts in the configuration file.

use std::collections::{BTreeMap, BTreeSet};

use clap::Subcommand;

use super::change::{self, Class, Outcome, Plan, Step};
use super::context::{self, Config};
use super::exit::{self, Failure};
use super::output::{Cell, Detail, Listing, col, less, wide};
use super::reach;
use super::session::{Global, Session};
use super::time;
use crate::client::Server;
use crate::tui::view::own_theme::named as badge_colour;

/// Commands on the configuration file.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show the settings that are in effect
    Get,
    /// List the contexts
    List,
    /// Make a context the current one
    Use {
        /// Context name
        name: String,
    },
    /// Set a key of a context (made if absent), or `journal on|off`
    Set {
        /// Context name, or `journal`
        context: String,
        /// Key, such as namesrv, cluster, protected, read_only, output, timeout, broker_map, tls.ca, via_proxy
        key: String,
        /// Value; several name servers are separated by ;
        value: Option<String>,
    },
    /// Delete a context; the file as it was stays beside it as .bak
    Delete {
        /// Context name
        name: String,
    },
    /// Print the path of the file in use
    Path,
    /// Dial every name server and show latency, brokers and clusters
    Test,
}

/// Runs a configuration command. Only `test` touches the network.
pub async fn run(global: &Global, command: Command) -> Result<(), Failure> {
    let path = context::path(global.config.as_deref());
    match command {
        Command::Path => {
            use std::io::Write as _;
            writeln!(std::io::stdout().lock(), "{}", path.display())?;
            Ok(())
        }
        Command::Use { name } => {
            let before = context::load_table(&path)?;
            let mut table = before.clone();
            if context_table(&mut table, &name).is_none() {
                return Err(unknown(&table, &name));
            }
            table.insert("current".into(), name.clone().into());
            let action = format!("use context {name}");
            Edit::new(global, &path, action, &name).save(&before, &table, false)
        }
        Command::Set { context, key, value } => {
            let before = context::load_table(&path)?;
            let mut table = before.clone();
            set(&mut table, &context, &key, value.as_deref())?;
            let action = format!("set {key} of {context}");
            Edit::new(global, &path, action, &context).save(&before, &table, false)
        }
        Command::Delete { name } => {
            let before = context::load_table(&path)?;
            let mut table = before.clone();
            let gone = table
                .get_mut("contexts")
                .and_then(toml::Value::as_table_mut)
                .and_then(|contexts| contexts.remove(&name));
            if gone.is_none() {
                return Err(unknown(&table, &name));
            }
            if table.get("current").and_then(toml::Value::as_str) == Some(name.as_str()) {
                table.remove("current");
            }
            let action = format!("delete context {name}");
            Edit::new(global, &path, action, &name).save(&before, &table, true)
        }
        Command::List => list(global),
        Command::Get => get(&Session::new(global)?, &path),
        Command::Test => test(&Session::new(global)?).await,
    }
}

/// A change of the configuration file.
struct Edit<'a> {
    global: &'a Global,
    path: &'a std::path::Path,
    action: String,
    /// What it is about.
    object: &'a str,
}

impl<'a> Edit<'a> {
    fn new(global: &'a Global, path: &'a std::path::Path, action: String, object: &'a str) -> Self {
        Self {
            global,
            path,
            action,
            object,
        }
    }

    /// Writes the file; a dry run prints what would change in it.
    fn save(self, before: &toml::Table, after: &toml::Table, ask: bool) -> Result<(), Failure> {
        if ask || self.global.dry_run {
            let session = bare(self.global)?;
            let (before, after) = (flat(before), flat(after));
            let text = |side: &BTreeMap<String, String>, key: &String| {
                side.get(key).cloned().unwrap_or_else(|| "absent".into())
            };
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let plan = Plan {
                action: self.action,
                object: self.object.to_owned(),
                cluster: String::new(),
                class: Class::A,
                steps: keys
                    .into_iter()
                    .filter(|key| before.get(*key) != after.get(*key))
                    .map(|key| Step {
                        target: self.path.display().to_string(),
                        field: key.clone(),
                        before: text(&before, key),
                        after: text(&after, key),
                    })
                    .collect(),
                impact: Vec::new(),
            };
            if self.global.dry_run {
                let planned = vec![Outcome::Planned; plan.steps.len()];
                return change::report(&session, &plan, planned, None);
            }
            change::confirm(&session, &plan)?;
        }
        context::save_table(self.path, after)
    }
}

/// Every value of a table under its whole key; a table without any is a value too.
fn flat(table: &toml::Table) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => {
                let inner = flat(inner).into_iter();
                out.extend(inner.map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            toml::Value::String(text) => {
                out.insert(key.clone(), text.clone());
            }
            other => {
                out.insert(key.clone(), other.to_string());
            }
        }
    }
    out
}

fn context_table<'a>(table: &'a mut toml::Table, name: &str) -> Option<&'a mut toml::Table> {
    table.get_mut("contexts")?.get_mut(name)?.as_table_mut()
}

fn unknown(table: &toml::Table, name: &str) -> Failure {
    let known: Vec<&str> = table
        .get("contexts")
        .and_then(toml::Value::as_table)
        .map(|contexts| contexts.keys().map(String::as_str).collect())
        .unwrap_or_default();
    Failure::new(exit::NOT_FOUND, format!("there is no context \"{name}\""))
        .because(format!("The file has: {}.", known.join(", ")))
}

fn set(table: &mut toml::Table, context: &str, key: &str, value: Option<&str>) -> Result<(), Failure> {
    let Some(value) = value else {
        let on = match (context, key) {
            ("journal", "on") => true,
            ("journal", "off") => false,
            _ => return Err(Failure::usage("a value is missing").hint("rmq config set CONTEXT KEY VALUE")),
        };
        table.insert("journal".into(), on.into());
        return Ok(());
    };
    let parsed: toml::Value = match key {
        "namesrv" => context::name_servers(value).map_err(Failure::usage)?.into(),
        "protected" | "read_only" | "tls.insecure" => value
            .parse::<bool>()
            .map_err(|_| Failure::usage(format!("{key} is true or false, not \"{value}\"")))?
            .into(),
        "timeout" => {
            time::parse_duration(value).map_err(Failure::usage)?;
            value.into()
        }
        "interval" => {
            super::dashboard::interval(value).map_err(Failure::usage)?;
            value.into()
        }
        "colour" => {
            badge_colour(value).map_err(Failure::usage)?;
            value.into()
        }
        "output" => {
            <super::output::Format as clap::ValueEnum>::from_str(value, true).map_err(Failure::usage)?;
            value.into()
        }
        "via_proxy" if !context::is_address(value) => {
            return Err(Failure::usage(format!("via_proxy is HOST:PORT, not \"{value}\"")));
        }
        key if key.strip_prefix("tls.").is_some_and(reach::names_a_file) => value.into(),
        "via_proxy" | "cluster" | "access_key" | "secret_key_file" | "security_token_file" => value.into(),
        "broker_map" => {
            let mut map = toml::Table::new();
            for rule in value.split([';', ',']) {
                rule.parse::<crate::client::AddressRule>()
                    .map_err(Failure::usage)?;
                if let Some((from, to)) = rule.split_once('=') {
                    map.insert(from.trim().into(), to.trim().into());
                }
            }
            map.into()
        }
        _ => {
            return Err(Failure::usage(format!("\"{key}\" is not a key of a context")).because(
                "The keys are namesrv, cluster, protected, read_only, output, timeout, broker_map, tls.ca, tls.cert, tls.key, \
                 tls.insecure, via_proxy, access_key, secret_key_file, security_token_file, colour and interval.",
            ));
        }
    };
    let contexts = table
        .entry("contexts")
        .or_insert_with(|| toml::Table::new().into())
        .as_table_mut()
        .ok_or_else(|| Failure::usage("contexts is not a table"))?;
    let mut place = contexts
        .entry(context)
        .or_insert_with(|| toml::Table::new().into());
    let mut key = key;
    if let Some((table, rest)) = key.split_once('.') {
        let tables = place.as_table_mut();
        let tables = tables.ok_or_else(|| Failure::usage(format!("contexts.{context} is not a table")))?;
        place = tables.entry(table).or_insert_with(|| toml::Table::new().into());
        key = rest;
    }
    place
        .as_table_mut()
        .ok_or_else(|| Failure::usage(format!("contexts.{context} is not a table")))?
        .insert(key.into(), parsed);
    Ok(())
}

/// A session without a context: a broken one must not hide the list that shows it, nor keep it from being deleted.
fn bare(global: &Global) -> Result<Session, Failure> {
    let mut bare = global.clone();
    bare.context = None;
    bare.config = None;
    bare.no_context = true;
    Session::new(&bare).or_else(|_| {
        Session::new(&Global {
            config: Some("/dev/null".into()),
            ..bare
        })
    })
}

fn list(global: &Global) -> Result<(), Failure> {
    let config: Config = context::load(global.config.as_deref())?;
    let session = bare(global)?;
    let mut listing = Listing::new(
        "ContextList",
        &[
            col("name"),
            col("current"),
            col("namesrv"),
            col("cluster"),
            col("protected"),
            wide("read_only"),
        ],
    );
    for (name, context) in &config.contexts {
        listing.push(vec![
            name.as_str().into(),
            (config.current.as_ref() == Some(name)).into(),
            context.namesrv.clone().into(),
            context.cluster.clone().into(),
            context.protected.into(),
            context.read_only.into(),
        ]);
    }
    session.printer.print(listing)
}

fn get(session: &Session, path: &std::path::Path) -> Result<(), Failure> {
    session.printer.print_detail(Detail {
        kind: "Config",
        fields: vec![
            ("context", session.context.clone().into()),
            ("namesrv", session.name_servers.clone().into()),
            ("cluster", session.cluster.clone().into()),
            ("access_key", session.access_key.clone().into()),
            ("timeout_ms", Cell::span(Some(session.timeout))),
            ("protected", session.protected.into()),
            ("read_only", session.read_only.into()),
            ("journal", session.journal.into()),
            ("file", path.display().to_string().into()),
        ],
        ..Detail::default()
    })
}

async fn test(session: &Session) -> Result<(), Failure> {
    let mut listing = Listing::new(
        "NameServerList",
        &[
            col("addr"),
            col("state"),
            less("rtt_ms"),
            col("kind"),
            col("brokers"),
            less("clusters"),
        ],
    );
    listing.ordered = true;
    let mut up = 0;
    for (addr, answer) in session.client.cluster_info_each().await {
        match answer {
            Ok((rtt, info)) => {
                up += 1;
                listing.push(vec![
                    addr.into(),
                    "up".into(),
                    Cell::Float(rtt.as_secs_f64() * 1000.0),
                    info.rmq_version
                        .as_ref()
                        .map_or_else(|| "java".to_owned(), |v| format!("rmq {v}"))
                        .into(),
                    info.broker_addr_table
                        .values()
                        .map(|b| b.broker_addrs.len())
                        .sum::<usize>()
                        .into(),
                    info.cluster_addr_table.keys().cloned().collect::<Vec<_>>().into(),
                ]);
            }
            Err(e) => {
                let failure = Failure::from(&e);
                listing.push(vec![
                    Server::at(&addr).to_string().into(),
                    failure.what.clone().into(),
                    Cell::Unknown,
                    Cell::Unknown,
                    Cell::Unknown,
                    Cell::Unknown,
                ]);
                listing.errors.push(failure);
            }
        }
    }
    let failed = listing.errors.first().cloned();
    session.printer.print(listing)?;
    match failed {
        None => Ok(()),
        Some(failure) if up == 0 => Err(failure),
        Some(failure) => Err(Failure {
            exit: exit::PARTIAL,
            ..failure
        }),
    }
}
