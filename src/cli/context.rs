//! The configuration file: named contexts and defaults.
//!
//! Precedence is flag, environment, context, `[defaults]`, built in. A key that this version does not act on is
//! reported, never silently accepted; one that `tls` does not know is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use serde::Deserialize;

use super::exit::Failure;
use super::reach::ContextTls;
use crate::client::AddressRule;
use crate::tui::keys::Keys;

/// Where the system-wide file is.
const SYSTEM_FILE: &str = "/etc/rmq/config.toml";

/// The file as it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Context used when none is named.
    pub current: Option<String>,
    /// `false` turns the change journal off.
    pub journal: Option<bool>,
    /// Defaults for every context.
    pub defaults: Defaults,
    /// Contexts by name.
    pub contexts: BTreeMap<String, Context>,
    /// Keys of the dashboard by action.
    keys: BTreeMap<String, OneOrMany>,
    #[serde(flatten)]
    unknown: BTreeMap<String, toml::Value>,
}

/// A text, or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a key such as \"q\", or a list of keys")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// `[defaults]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Defaults {
    /// Output form.
    pub output: Option<String>,
    /// Limit of one request.
    pub timeout: Option<String>,
    #[serde(flatten)]
    unknown: BTreeMap<String, toml::Value>,
}

/// `[contexts.NAME]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Name servers.
    pub namesrv: Vec<String>,
    /// Default for `--cluster`.
    pub cluster: Option<String>,
    /// Every change asks for the cluster name to be typed.
    pub protected: bool,
    /// No change is sent at all.
    pub read_only: bool,
    /// Where to dial announced addresses.
    pub broker_map: BTreeMap<String, String>,
    /// Speak TLS.
    pub tls: Option<ContextTls>,
    /// SOCKS5 proxy that dials for us.
    pub via_proxy: Option<String>,
    /// Output form.
    pub output: Option<String>,
    /// Limit of one request.
    pub timeout: Option<String>,
    /// Account that signs the requests.
    pub access_key: Option<String>,
    /// File with its secret.
    pub secret_key_file: Option<PathBuf>,
    /// File with a temporary token.
    pub security_token_file: Option<PathBuf>,
    /// Colour of the dashboard's badge.
    pub colour: Option<String>,
    /// Time between two looks of the dashboard.
    pub interval: Option<String>,
    #[serde(flatten)]
    unknown: BTreeMap<String, toml::Value>,
}

impl Context {
    /// The address rules, in the file's (alphabetical) order.
    pub fn address_rules(&self) -> Result<Vec<AddressRule>, Failure> {
        self.broker_map
            .iter()
            .map(|(from, to)| format!("{from}={to}").parse().map_err(Failure::usage))
            .collect()
    }
}

impl Config {
    /// Reads the file's text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|e| {
            Failure::usage(format!("{} is not a valid configuration", path.display()))
                .because(e.to_string().trim_end().replace('\n', "\n       "))
        })
    }

    /// The keys of the dashboard, with those of `[keys]` in the place of the built-in ones.
    pub fn keys(&self, path: &Path) -> Result<Keys, Failure> {
        let own = self.keys.iter().map(|(action, keys)| {
            let keys = match keys {
                OneOrMany::One(key) => vec![key.clone()],
                OneOrMany::Many(keys) => keys.clone(),
            };
            (action.clone(), keys)
        });
        Keys::with(&own.collect()).map_err(|e| Failure::usage(format!("{}: keys.{e}", path.display())))
    }

    /// Keys this version does not act on, with their place.
    pub fn unknown_keys(&self, context: Option<&str>) -> Vec<String> {
        let mut keys: Vec<String> = self.unknown.keys().cloned().collect();
        keys.extend(self.defaults.unknown.keys().map(|k| format!("defaults.{k}")));
        if let Some((name, context)) = context.and_then(|name| self.contexts.get_key_value(name)) {
            keys.extend(context.unknown.keys().map(|k| format!("contexts.{name}.{k}")));
        }
        keys
    }
}

/// The file in use: the one named, else the user's, else the system's.
pub fn path(named: Option<&Path>) -> PathBuf {
    if let Some(path) = named {
        return path.to_owned();
    }
    let own = own_path();
    let system = Path::new(SYSTEM_FILE);
    if !own.exists() && system.exists() {
        system.to_owned()
    } else {
        own
    }
}

/// The user's own file.
pub fn own_path() -> PathBuf {
    etcetera::choose_base_strategy().map_or_else(
        |_| PathBuf::from("rmq.toml"),
        |dirs| dirs.config_dir().join("rmq").join("config.toml"),
    )
}

/// The user's state directory, where the journal is kept.
pub fn state_dir() -> Option<PathBuf> {
    let dirs = etcetera::choose_base_strategy().ok()?;
    dirs.state_dir().map(|dir| dir.join("rmq"))
}

/// Reads the file; one that does not exist is empty, unless it was named.
pub fn load(named: Option<&Path>) -> Result<Config, Failure> {
    let path = path(named);
    match std::fs::read_to_string(&path) {
        Ok(text) => Config::parse(&text, &path),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && named.is_none() => Ok(Config::default()),
        Err(e) => Err(Failure::usage(format!("cannot read {}: {e}", path.display()))),
    }
}

/// The file as an editable document.
pub fn load_table(path: &Path) -> Result<toml::Table, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => text
            .parse()
            .map_err(|e| Failure::usage(format!("{} is not valid TOML: {e}", path.display()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(toml::Table::new()),
        Err(e) => Err(Failure::usage(format!("cannot read {}: {e}", path.display()))),
    }
}

/// Replaces the file; the text before stays beside it with `.bak` behind the name, since comments are not kept.
pub fn save_table(path: &Path, table: &toml::Table) -> Result<(), Failure> {
    let text = toml::to_string_pretty(table)
        .map_err(|e| Failure::usage(format!("the configuration cannot be written: {e}")))?;
    // What is saved must load again.
    Config::parse(&text, path)?;
    let failed = |e: std::io::Error| Failure::usage(format!("cannot write {}: {e}", path.display()));
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    if path.exists() {
        std::fs::copy(path, path.with_extension("toml.bak")).map_err(failed)?;
    }
    let fresh = path.with_extension("toml.new");
    std::fs::write(&fresh, text).map_err(failed)?;
    std::fs::rename(&fresh, path).map_err(failed)
}

/// `a:1;b:2` or `a:1,b:2` as addresses; a port is required.
pub fn name_servers(text: &str) -> Result<Vec<String>, String> {
    let list: Vec<String> = text
        .split([';', ','])
        .map(str::trim)
        .filter(|a| !a.is_empty())
        .map(str::to_owned)
        .collect();
    if list.is_empty() {
        return Err("no name server address is given; use HOST:PORT[;HOST:PORT]".into());
    }
    for addr in &list {
        if !is_address(addr) {
            return Err(format!(
                "\"{addr}\" is not a name server address; use HOST:PORT, such as 127.0.0.1:9876"
            ));
        }
    }
    Ok(list)
}

/// `HOST:PORT`.
pub fn is_address(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_and_unknown_keys_are_told() {
        let text = r#"
            current = "prod"
            [defaults]
            output = "table"
            [contexts.prod]
            namesrv = ["ns1:9876", "ns2:9876"]
            protected = true
            tls = { ca = "/ca.pem" }
            colour = "red"
            interval = "5s"
            shape = "round"
            broker_map = { "10.1.0.0/16" = "bastion.example" }
            [contexts.dev]
            shape = "square"
        "#;
        let config = Config::parse(text, Path::new("x")).unwrap();
        let prod = &config.contexts["prod"];
        assert!(prod.protected);
        assert_eq!(
            (prod.colour.as_deref(), prod.interval.as_deref()),
            (Some("red"), Some("5s"))
        );
        assert_eq!(prod.address_rules().unwrap().len(), 1);
        assert_eq!(config.unknown_keys(Some("prod")), ["contexts.prod.shape"]);
        assert_eq!(config.unknown_keys(Some("dev")), ["contexts.dev.shape"]);
    }

    #[test]
    fn keys_are_one_or_several_and_a_wrong_one_names_the_file() {
        let path = Path::new("c.toml");
        let keys = |text: &str| Config::parse(text, path).and_then(|config| config.keys(path));
        keys("[keys]\nquit = \"Q\"\nrefresh = [\"f5\", \"R\"]\n").unwrap_err(); // R resends letters.
        keys("[keys]\nquit = \"Q\"\nrefresh = [\"f5\", \"r\"]\n").unwrap();
        assert_eq!(keys("").unwrap(), Keys::default());
        let said = |text| keys(text).unwrap_err().what;
        assert_eq!(
            said("[keys]\nrefresh = \"z\"\n"),
            "c.toml: keys.refresh: the key z means zoom on the overview screen already"
        );
        assert!(
            keys("[keys]\nquit = 7\n")
                .unwrap_err()
                .why
                .unwrap()
                .contains("line 2")
        );
    }

    #[test]
    fn a_wrong_type_names_its_line() {
        let failure = Config::parse("[contexts.a]\nnamesrv = 7\n", Path::new("c.toml")).unwrap_err();
        assert!(failure.why.unwrap().contains("line 2"));
    }

    #[test]
    fn addresses_need_a_port() {
        assert_eq!(name_servers("a:1;b:2,c:3").unwrap(), ["a:1", "b:2", "c:3"]);
        for bad in ["", ";", "a", "a:", "a:0", ":9876", "a:99999"] {
            assert!(name_servers(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn saving_keeps_the_text_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub").join("config.toml");
        let mut table = toml::Table::new();
        table.insert("current".into(), "a".into());
        save_table(&path, &table).unwrap();
        table.insert("current".into(), "b".into());
        save_table(&path, &table).unwrap();
        assert_eq!(load(Some(&path)).unwrap().current.as_deref(), Some("b"));
        let before = std::fs::read_to_string(path.with_extension("toml.bak")).unwrap();
        assert!(before.contains("\"a\""));
    }
}
