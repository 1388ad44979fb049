//! The name server's configuration: Java's key names, and the two requests that read and change it.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Namesrv, blocking};
use crate::config_file::{self, Allowed, Limits};
use crate::fields::Fields;
use crate::protocol::requests::{GetNamesrvConfig, GetNamesrvConfigReply, UpdateNamesrvConfig};
use crate::protocol::{Text, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// Settings of a name server. `conf/namesrv.conf` lists them all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamesrvConfig {
    /// Port to listen on; 0 takes a free one. Read at start.
    pub listen_port: u16,
    /// Address to listen on. Read at start.
    pub bind_address: String,
    /// File that keeps the KV store; empty is Java's place, `~/namesrv/kvConfig.json`. Read at start, and
    /// locked against a second name server of ours.
    pub kv_config_path: String,
    /// File that a remote configuration change is written to; `namesrv start -c FILE` makes it that file when it is empty.
    /// Empty otherwise: a change is kept in memory, and one that waits for the next start is refused.
    pub config_store_path: String,
    /// Give clients the order configuration of a topic with its route.
    pub order_message_enable: bool,
    /// Give brokers the order configuration of all topics when they register.
    pub return_order_topic_config_to_broker: bool,
    /// Show the slave with the smallest id as the master of a set that has none.
    pub support_acting_master: bool,
    /// Answer the list of all topics.
    pub enable_all_topic_list: bool,
    /// Answer the topic lists by cluster and by unit.
    pub enable_topic_list: bool,
    /// Tell the brokers of a set when its smallest id changes.
    pub notify_min_broker_id_changed: bool,
    /// Time between two looks for silent brokers, ms.
    pub scan_not_active_broker_interval: u64,
    /// A registration removes the topics it does not list.
    pub delete_topic_with_broker_registration: bool,
    /// Answer no routes for the first `waitSecondsForService` seconds.
    pub need_wait_for_service: bool,
    /// See `needWaitForService`.
    pub wait_seconds_for_service: u32,
    /// Keys that cannot be changed remotely, separated by `;`, besides those that never can.
    pub config_black_list: String,
    /// Who may register brokers and change topics, KV and configuration: addresses or networks (`10.0.0.0/8`),
    /// separated by `,` or `;`. Empty is everyone. Ours, not Java's.
    pub write_allow_list: String,
    /// Keys that stood on the command line: at the next start they win over what a change wrote to the file. Not a key.
    #[serde(skip)]
    pub on_command_line: Vec<String>,
}

impl Default for NamesrvConfig {
    fn default() -> Self {
        Self {
            listen_port: 9876,
            bind_address: "0.0.0.0".into(),
            kv_config_path: String::new(),
            config_store_path: String::new(),
            order_message_enable: false,
            return_order_topic_config_to_broker: true,
            support_acting_master: false,
            enable_all_topic_list: true,
            enable_topic_list: true,
            notify_min_broker_id_changed: false,
            scan_not_active_broker_interval: 5000,
            delete_topic_with_broker_registration: false,
            need_wait_for_service: false,
            wait_seconds_for_service: 45,
            config_black_list: "configBlackList;configStorePath;kvConfigPath".into(),
            write_allow_list: String::new(),
            on_command_line: Vec::new(),
        }
    }
}

/// Keys whose change waits for the next start.
const AT_START: &[&str] = &["listenPort", "bindAddress", "kvConfigPath", "writeAllowList"];

/// Keys that no request may change, whatever the black list says: a path or a right from the wire is a way in.
const GUARDED: &[&str] = &[
    "configBlackList",
    "configStorePath",
    "kvConfigPath",
    "rocketmqHome",
    "writeAllowList",
];

impl NamesrvConfig {
    /// Keys with a narrower choice than their type.
    pub const LIMITS: Limits = &[
        ("listenPort", Allowed::Range(0, 65535)),
        ("scanNotActiveBrokerInterval", Allowed::Range(10, 3_600_000)),
        ("waitSecondsForService", Allowed::Range(0, 86_400)),
    ];

    /// Where the KV store is kept.
    pub fn kv_path(&self) -> PathBuf {
        if !self.kv_config_path.is_empty() {
            return PathBuf::from(&self.kv_config_path);
        }
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
        home.join("namesrv").join("kvConfig.json")
    }

    /// The first key of `changes` that must not be changed remotely.
    fn guarded<'a>(&self, changes: &'a Fields) -> Option<&'a str> {
        let listed = |key: &str| self.config_black_list.split(';').any(|k| k.trim() == key);
        changes
            .iter()
            .map(|(key, _)| key)
            .find(|key| GUARDED.contains(key) || listed(key))
    }
}

/// Addresses and networks that may write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AllowList(Vec<(IpAddr, u8)>);

impl AllowList {
    /// Reads `10.0.0.1, 10.1.0.0/16; ::1`; the error is the part that does not read.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        text.split([',', ';'])
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (addr, bits) = part.split_once('/').map_or((part, None), |(a, b)| (a, Some(b)));
                let addr: IpAddr = addr.parse().map_err(|_| part.to_owned())?;
                let width = if addr.is_ipv4() { 32 } else { 128 };
                let bits = bits.map_or(Ok(width), str::parse).map_err(|_| part.to_owned())?;
                if bits > width {
                    return Err(part.to_owned());
                }
                Ok((addr, bits))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// True when everyone may write.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// True when `addr` may write.
    pub(super) fn allows(&self, addr: IpAddr) -> bool {
        let addr = addr.to_canonical();
        self.is_open() || self.0.iter().any(|&(network, bits)| within(addr, network, bits))
    }
}

fn within(addr: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (addr, network.to_canonical()) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            let shift = 32u32.saturating_sub(bits.into());
            a.to_bits().checked_shr(shift) == n.to_bits().checked_shr(shift)
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => {
            let shift = 128u32.saturating_sub(bits.into());
            a.to_bits().checked_shr(shift) == n.to_bits().checked_shr(shift)
        }
        _ => false,
    }
}

/// The configuration as properties text, keys sorted.
pub async fn get(role: &Arc<Namesrv>, _: &Peer, _: GetNamesrvConfig, (): ()) -> Handled<GetNamesrvConfig> {
    let entries = Fields::from_value(&*role.config()).map_err(Refusal::from)?;
    let at_start = Fields::from_value(&role.at_start).map_err(Refusal::from)?;
    let told = GetNamesrvConfigReply {
        rmq_read_at_start: Some(AT_START.join(";")),
        rmq_waiting: Some(config_file::waiting(
            AT_START.iter().copied(),
            &at_start,
            &entries,
        )),
        rmq_limits: Some(config_file::told(&[NamesrvConfig::LIMITS])),
    };
    Ok(Answer::ok(told, Text(config_file::to_text(&entries))))
}

/// Changes the configuration. Unknown keys are ignored, as in Java; a value that does not fit changes nothing.
pub async fn update(
    role: &Arc<Namesrv>,
    peer: &Peer,
    _: UpdateNamesrvConfig,
    body: Text,
) -> Handled<UpdateNamesrvConfig> {
    role.may_write(peer)?;
    let changes = config_file::parse_properties("configuration", body.0.as_bytes())
        .map_err(|e| Refusal::new(codes::SYSTEM_ERROR, e.to_string()))?;
    let (owner, remote) = (Arc::clone(role), peer.remote());
    blocking(move || owner.change_config(remote, &changes)).await?;
    Ok(Answer::ok((), ()))
}

impl Namesrv {
    /// Checks, keeps and applies changes, all or none. Blocks on the disk.
    fn change_config(&self, peer: SocketAddr, changes: &Fields) -> Result<(), Refusal> {
        let _writing = self.config_writing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.config().clone();
        if let Some(key) = present.guarded(changes) {
            tracing::warn!(%peer, key, "refused to change a guarded configuration key");
            return Err(Refusal::new(
                codes::NO_PERMISSION,
                "Can not update config in black list.",
            ));
        }
        let mut changed = config_file::merge(&present, changes, NamesrvConfig::LIMITS)
            .map_err(|e| Refusal::new(codes::INVALID_PARAMETER, e.to_string()))?;
        changed.on_command_line.clone_from(&present.on_command_line);
        // Neither in force now nor at the next start.
        let lost = |key: &str| AT_START.contains(&key) && present.on_command_line.iter().any(|k| k == key);
        if let Some((key, _)) = changes.iter().find(|(key, _)| lost(key)) {
            return Err(Refusal::new(
                codes::INVALID_PARAMETER,
                format!(
                    "{key} is read at the start and set on the command line, which wins: the change would be lost"
                ),
            ));
        }
        if changed.config_store_path.is_empty() {
            // Success would be a lie: neither in force now nor there at the next start.
            if let Some((key, _)) = changes.iter().find(|(key, _)| AT_START.contains(key)) {
                return Err(Refusal::new(
                    codes::INVALID_PARAMETER,
                    format!(
                        "{key} is read at the start, and configStorePath is empty: the change would be lost"
                    ),
                ));
            }
        } else {
            keep(Path::new(&changed.config_store_path), changes)?;
        }
        let keys: Vec<&str> = changes.iter().map(|(key, _)| key).collect();
        tracing::info!(%peer, ?keys, "configuration changed");
        *self.config_mut() = changed;
        Ok(())
    }
}

/// Lays changes over what the file says; what stood on the command line alone stays out of it. Blocks on the disk.
fn keep(path: &Path, changes: &Fields) -> Result<(), Refusal> {
    let failed = |e: config_file::Error| Refusal::new(codes::SYSTEM_ERROR, e.to_string());
    let there = path.exists().then_some(path);
    let file = config_file::ConfigFile::load(there, &[]).map_err(failed)?;
    let mut entries = file.file_entries().clone();
    let known = config_file::keys::<NamesrvConfig>();
    for (key, value) in changes.iter().filter(|(key, _)| known.contains(key)) {
        entries.push(key.to_owned(), value.trim());
    }
    config_file::save(path, &entries).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_file_lists_every_key_with_its_default() {
        let text = include_str!("../../conf/namesrv.conf");
        let uncommented: String = text
            .lines()
            .filter_map(|line| line.strip_prefix('#').filter(|l| !l.starts_with([' ', '#'])))
            .map(|line| format!("{line}\n"))
            .collect();
        let entries = config_file::parse_properties("conf/namesrv.conf", uncommented.as_bytes()).unwrap();
        let listed: Vec<&str> = entries.iter().map(|(key, _)| key).collect();
        let mut known = config_file::keys::<NamesrvConfig>().to_vec();
        assert_eq!(listed.len(), known.len());
        known.retain(|key| !listed.contains(key));
        assert!(known.is_empty(), "{known:?}");
        assert_eq!(
            entries.to_value::<NamesrvConfig>().unwrap(),
            NamesrvConfig::default()
        );
    }

    #[test]
    fn an_allow_list_takes_addresses_and_networks() {
        let list = AllowList::parse("10.1.0.0/16, 127.0.0.1; 2001:db8::/32").unwrap();
        for (addr, allowed) in [
            ("10.1.2.3", true),
            ("10.2.0.0", false),
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("127.0.0.2", false),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(list.allows(addr.parse().unwrap()), allowed, "{addr}");
        }
        assert!(AllowList::parse("").unwrap().allows("192.0.2.1".parse().unwrap()));
        let all = AllowList::parse("0.0.0.0/0").unwrap();
        assert!(all.allows("192.0.2.1".parse().unwrap()) && !all.allows("::1".parse().unwrap()));
        for bad in ["10.0.0.0/33", "host", "1.2.3.4/x", "1.2.3.4/-1"] {
            assert_eq!(AllowList::parse(bad), Err(bad.to_owned()));
        }
    }

    #[test]
    fn path_keys_are_guarded_whatever_the_black_list_says() {
        let config = NamesrvConfig {
            config_black_list: "enableTopicList".into(),
            ..NamesrvConfig::default()
        };
        for key in GUARDED.iter().chain(&["enableTopicList"]) {
            let changes: Fields = [(*key, "x")].into_iter().collect();
            assert_eq!(config.guarded(&changes), Some(*key));
        }
        let fine: Fields = [("orderMessageEnable", "true")].into_iter().collect();
        assert_eq!(config.guarded(&fine), None);
    }
}
