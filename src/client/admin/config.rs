//! Configuration of brokers, name servers and controllers: read, checked, written.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::error::{Error, Server};
use crate::client::{Client, Deadline};
use crate::protocol::Text;
use crate::protocol::requests::{
    GetBrokerConfig, GetControllerConfig, GetNamesrvConfig, UpdateBrokerConfig, UpdateControllerConfig,
    UpdateNamesrvConfig,
};

/// Whose configuration is meant: each kind of server has requests of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOf {
    /// A broker.
    Broker,
    /// A name server.
    NameServer,
    /// A controller.
    Controller,
}

impl ConfigOf {
    /// `broker`, `namesrv` or `controller`: the noun of the command line.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::NameServer => "namesrv",
            Self::Controller => "controller",
        }
    }
}

/// A server's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Whose it is.
    pub of: ConfigOf,
    /// Every key it answered.
    pub entries: BTreeMap<String, String>,
    /// Keys that it reads at its start alone, where it tells (an `rmq` server does).
    told_at_start: Option<BTreeSet<String>>,
    /// Keys whose value waits for the next start, where it tells.
    told_waiting: Option<BTreeSet<String>>,
    /// Keys that it keeps and does not know, where it tells.
    told_without_effect: BTreeSet<String>,
    /// What keys may be set to, where it tells.
    limits: BTreeMap<String, String>,
}

/// Keys that a Java server reads when it is constructed (`BrokerController`, `DefaultMessageStore`, `NamesrvController`
/// of 5.3.3), besides those of [`AT_START_PARTS`].
const AT_START: &[&str] = &[
    "autoCreateTopicEnable",
    "bindAddress",
    "brokerClusterName",
    "brokerHeartbeatInterval",
    "brokerIP1",
    "brokerIP2",
    "brokerId",
    "brokerName",
    "brokerRole",
    "clientHousekeepingInterval",
    "controllerAddr",
    "controllerDLegerGroup",
    "controllerDLegerPeers",
    "controllerDLegerSelfId",
    "controllerType",
    "defaultTopicQueueNums",
    "duplicationEnable",
    "enableControllerInNamesrv",
    "enableControllerMode",
    "enableDLegerCommitLog",
    "flushConsumerFilterInterval",
    "flushConsumerOffsetInterval",
    "flushDelayOffsetInterval",
    "flushDiskType",
    "haListenPort",
    "listenPort",
    "maxHashSlotNum",
    "maxIndexNum",
    "messageDelayLevel",
    "metricsExporterType",
    "msgTraceTopicName",
    "registerNameServerPeriod",
    "scanNotActiveBrokerInterval",
    "storeType",
    "timerPrecisionMs",
    "timerRollWindowSlot",
    "timerWheelEnable",
    "traceTopicEnable",
    "transientStorePoolEnable",
    "transientStorePoolSize",
    "useEpollNativeSelector",
];

/// Parts of such keys: pools, queues, sockets, files.
const AT_START_PARTS: &[&str] = &[
    "ThreadPoolNums",
    "ThreadPoolQueueCapacity",
    "PoolQueueCapacity",
    "mappedFileSize",
    "storePath",
    "serverSelectorThreads",
    "serverWorkerThreads",
    "serverCallbackExecutorThreads",
    "serverSocket",
    "SemaphoreValue",
    "writeBuffer",
    "StorePath",
];

impl ServerConfig {
    /// True when a change of `key` waits for the server's next start. Exact where the server tells; for a Java server by
    /// what its sources read at the start.
    pub fn waits_for_start(&self, key: &str) -> bool {
        match &self.told_at_start {
            Some(keys) => keys.contains(key),
            None => AT_START.contains(&key) || AT_START_PARTS.iter().any(|part| key.contains(part)),
        }
    }

    /// True when another value than the one in [`Self::entries`] is in force until the server's next start; `None` where
    /// the server does not tell, as a Java one.
    pub fn is_waiting(&self, key: &str) -> Option<bool> {
        self.told_waiting.as_ref().map(|keys| keys.contains(key))
    }

    /// True when the server tells that it keeps `key` and does nothing by it: a key of a Java broker that it does not know.
    pub fn is_without_effect(&self, key: &str) -> bool {
        self.told_without_effect.contains(key)
    }

    /// True when a change is gone after the server's next start: a name server that has no file for it. A Java one always
    /// has one.
    pub fn forgets(&self) -> bool {
        self.of == ConfigOf::NameServer && self.entries.get("configStorePath").is_some_and(String::is_empty)
    }

    /// Checks a new value: its type is that of the present one, and it lies within what the server takes. The error is the
    /// sentence that says what the key takes.
    pub fn check(&self, key: &str, before: &str, after: &str) -> Result<(), String> {
        check_type(key, before, after)?;
        let Some(limit) = self.limits.get(key) else {
            return Ok(());
        };
        let after = after.trim();
        let (fits, takes) = match limit.split_once("..") {
            Some((from, to)) => {
                let range = from.parse::<i64>().ok().zip(to.parse::<i64>().ok());
                let takes = if to == i64::MAX.to_string() {
                    format!("a whole number from {from}")
                } else {
                    format!("a whole number from {from} to {to}")
                };
                let fits = |(from, to)| after.parse::<i64>().is_ok_and(|n| (from..=to).contains(&n));
                (range.is_none_or(fits), takes)
            }
            None => (
                limit.split('|').any(|word| word == after),
                limit.replace('|', " or "),
            ),
        };
        if fits {
            Ok(())
        } else {
            Err(format!("{key} takes {takes}, not {}", shown(key, after)))
        }
    }
}

/// True for keys whose values are never shown.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    [
        "password",
        "secret",
        "accesskey",
        "credential",
        "token",
        "initauthenticationuser",
        "exporterheader",
    ]
    .iter()
    .any(|word| key.contains(word))
}

/// The value of a key as it may be shown.
pub fn shown(key: &str, value: &str) -> String {
    if is_secret(key) && !value.is_empty() {
        "***".into()
    } else {
        value.to_owned()
    }
}

/// A new value must read as the old one does: servers answer success to a word where a number belongs. The error is the
/// sentence that says what the key takes.
pub fn check_type(key: &str, before: &str, after: &str) -> Result<(), String> {
    let wrong = |what: &str| {
        let (before, after) = (shown(key, before), shown(key, after));
        Err(format!("{key} is {what} (now {before}), \"{after}\" is not"))
    };
    match before {
        "true" | "false" if after != "true" && after != "false" => wrong("true or false"),
        _ if before.parse::<i64>().is_ok() && after.parse::<i64>().is_err() => wrong("a whole number"),
        _ if before.parse::<f64>().is_ok() && after.parse::<f64>().is_err() => wrong("a number"),
        _ => Ok(()),
    }
}

impl Client {
    /// A server's configuration.
    pub async fn server_config(
        &self,
        of: ConfigOf,
        server: &Server,
        deadline: Deadline,
    ) -> Result<ServerConfig, Error> {
        let mut without_effect = None;
        let (text, at_start, waiting, limits) = match of {
            ConfigOf::Broker => {
                let (told, text) = self.call(server, &GetBrokerConfig, (), deadline).await?;
                without_effect = told.rmq_without_effect;
                (text, told.rmq_read_at_start, told.rmq_waiting, told.rmq_limits)
            }
            ConfigOf::NameServer => {
                let (told, text) = self.call(server, &GetNamesrvConfig, (), deadline).await?;
                (text, told.rmq_read_at_start, told.rmq_waiting, told.rmq_limits)
            }
            ConfigOf::Controller => {
                let (_, text) = self.call(server, &GetControllerConfig, (), deadline).await?;
                (text, None, None, None)
            }
        };
        let list = |keys: String| -> BTreeSet<String> {
            let keys = keys.split(';').filter(|key| !key.is_empty());
            keys.map(str::to_owned).collect()
        };
        Ok(ServerConfig {
            of,
            entries: super::parse_config(&text.0),
            told_at_start: at_start.map(list),
            told_waiting: waiting.map(list),
            told_without_effect: without_effect.map(list).unwrap_or_default(),
            limits: limits
                .unwrap_or_default()
                .split(';')
                .filter_map(|pair| pair.split_once('='))
                .map(|(key, limit)| (key.to_owned(), limit.to_owned()))
                .collect(),
        })
    }

    /// Writes configuration keys. A server's "success" proves nothing: read the configuration back.
    pub async fn set_server_config(
        &self,
        of: ConfigOf,
        server: &Server,
        changes: &[(String, String)],
        deadline: Deadline,
    ) -> Result<(), Error> {
        let body = Text(super::config_text(changes));
        match of {
            ConfigOf::Broker => self.call(server, &UpdateBrokerConfig, body, deadline).await?,
            ConfigOf::NameServer => self.call(server, &UpdateNamesrvConfig, body, deadline).await?,
            ConfigOf::Controller => self.call(server, &UpdateControllerConfig, body, deadline).await?,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_the_type_of_the_key() {
        assert!(check_type("a", "5", "x").is_err());
        assert!(check_type("a", "true", "1").is_err());
        assert!(check_type("a", "0.75", "high").is_err());
        assert!(check_type("a", "5", "-1").is_ok());
        assert!(check_type("a", "1s 5s", "1s 5s 10s").is_ok());
        assert!(check_type("a", "", "x").is_ok());
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(shown("innerClientAuthenticationCredentials", "x"), "***");
        assert_eq!(shown("initAuthenticationUser", "{}"), "***");
        assert_eq!(shown("metricsGrpcExporterHeader", "token:x"), "***");
        assert_eq!(shown("brokerName", "x"), "x");
        let wrong = check_type("tokenNumber", "4711", "hunter2").unwrap_err();
        assert!(!wrong.contains("4711") && !wrong.contains("hunter2"), "{wrong}");
    }

    #[test]
    fn a_value_lies_within_what_the_server_takes() {
        let limits = [
            ("listenPort", "0..65535"),
            ("flushDiskType", "ASYNC_FLUSH|SYNC_FLUSH"),
            ("interval", "1..9223372036854775807"),
        ];
        let config = ServerConfig {
            of: ConfigOf::NameServer,
            entries: [("configStorePath".to_owned(), String::new())].into(),
            told_at_start: None,
            told_waiting: None,
            told_without_effect: BTreeSet::new(),
            limits: limits
                .map(|(key, limit)| (key.to_owned(), limit.to_owned()))
                .into(),
        };
        assert!(config.forgets());
        for (key, before, fits, wrong) in [
            ("listenPort", "9876", "65535", "65536"),
            ("flushDiskType", "ASYNC_FLUSH", "SYNC_FLUSH", "FLUSH"),
            ("interval", "5", "9000000000", "0"),
        ] {
            assert_eq!(config.check(key, before, fits), Ok(()), "{key}");
            assert!(
                config.check(key, before, wrong).unwrap_err().contains("takes"),
                "{key}"
            );
        }
        assert!(config.check("listenPort", "9876", "x").is_err());
        assert!(config.check("other", "5", "-1").is_ok());
    }

    #[test]
    fn a_server_that_tells_is_believed_and_javas_sources_speak_for_java() {
        let config = |told: Option<&[&str]>| ServerConfig {
            of: ConfigOf::Broker,
            entries: BTreeMap::new(),
            told_at_start: told.map(|keys| keys.iter().map(|k| (*k).to_owned()).collect()),
            told_waiting: None,
            told_without_effect: BTreeSet::new(),
            limits: BTreeMap::new(),
        };
        let java = config(None);
        for key in [
            "listenPort",
            "sendMessageThreadPoolNums",
            "mappedFileSizeCommitLog",
            "brokerRole",
        ] {
            assert!(java.waits_for_start(key), "{key}");
        }
        for key in ["fileReservedTime", "brokerPermission", "maxMessageSize"] {
            assert!(!java.waits_for_start(key), "{key}");
        }
        let ours = config(Some(&["maxMessageSize"]));
        assert!(ours.waits_for_start("maxMessageSize") && !ours.waits_for_start("listenPort"));
    }
}
