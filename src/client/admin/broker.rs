//! One broker: runtime, configuration, replication.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::error::{Error, Server};
use crate::client::snapshot::{BrokerConfigView, HaState, SlaveState};
use crate::client::{Client, Deadline, RuntimeInfo};
use crate::protocol::Text;
use crate::protocol::body::HaRuntimeInfo;
use crate::protocol::codes;
use crate::protocol::model::Perm;
use crate::protocol::requests::{
    GetBrokerConfig, GetBrokerHaStatus, GetBrokerRuntimeInfo, UpdateBrokerConfig,
};

/// Shortest and longest registration period; the broker clamps its setting to them.
const REGISTER_PERIOD_MS: std::ops::RangeInclusive<u64> = 10_000..=60_000;

impl Client {
    /// Runtime numbers of a broker.
    pub async fn broker_runtime(&self, broker: &Server, deadline: Deadline) -> Result<RuntimeInfo, Error> {
        match self.call(broker, &GetBrokerRuntimeInfo, (), deadline).await {
            Ok((_, info)) => Ok(RuntimeInfo::parse(info.value.table)),
            // In its first second a Java broker has no sample to compute rates from (`StoreStatsService.getPutTps`):
            // it is there, its numbers are not.
            Err(e)
                if e.remote_code() == Some(codes::SYSTEM_ERROR)
                    && e.to_string().contains("NoSuchElementException") =>
            {
                Ok(RuntimeInfo::default())
            }
            Err(e) => Err(e),
        }
    }

    /// Configuration of a broker.
    pub async fn broker_config(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<BTreeMap<String, String>, Error> {
        let (_, text) = self.call(broker, &GetBrokerConfig, (), deadline).await?;
        Ok(super::parse_config(&text.0))
    }

    /// Writes configuration keys of a broker. Its "success" proves nothing: read the configuration back.
    pub async fn set_broker_config(
        &self,
        broker: &Server,
        changes: &[(String, String)],
        deadline: Deadline,
    ) -> Result<(), Error> {
        let body = Text(super::config_text(changes));
        self.call(broker, &UpdateBrokerConfig, body, deadline)
            .await
            .map(drop)
    }

    /// Replication state of a master.
    pub async fn broker_ha(&self, broker: &Server, deadline: Deadline) -> Result<HaState, Error> {
        let (_, info) = self.call(broker, &GetBrokerHaStatus, (), deadline).await?;
        Ok(ha_state(info.value))
    }
}

fn ha_state(info: HaRuntimeInfo) -> HaState {
    HaState {
        master_offset: info.master_commit_log_max_offset,
        in_sync: info.in_sync_slave_nums.into(),
        slaves: info
            .ha_connection_info
            .into_iter()
            .map(|c| SlaveState {
                addr: c.addr.trim_start_matches('/').to_owned(),
                acked_offset: c.slave_ack_offset,
                behind_bytes: c.diff,
                in_sync: c.in_sync,
                transferred_bytes_per_s: c.transferred_byte_in_second,
            })
            .collect(),
    }
}

/// The part of a broker's configuration that a dashboard shows.
pub fn config_view(entries: BTreeMap<String, String>) -> BrokerConfigView {
    let text = |key: &str| entries.get(key).filter(|v| !v.is_empty()).cloned();
    BrokerConfigView {
        register_period: text("registerNameServerPeriod")
            .and_then(|v| v.parse::<u64>().ok())
            .map(|ms| {
                Duration::from_millis(ms.clamp(*REGISTER_PERIOD_MS.start(), *REGISTER_PERIOD_MS.end()))
            }),
        name_servers: text("namesrvAddr")
            .map(|v| {
                v.split([';', ','])
                    .map(|a| a.trim().to_owned())
                    .filter(|a| !a.is_empty())
                    .collect()
            })
            .unwrap_or_default(),
        flush: text("flushDiskType"),
        role: text("brokerRole"),
        perm: text("brokerPermission").and_then(|v| v.parse().ok()).map(Perm),
        entries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_register_period_is_clamped_as_the_broker_does() {
        let view = |ms: &str| config_view([("registerNameServerPeriod".to_owned(), ms.to_owned())].into());
        assert_eq!(view("1000").register_period, Some(Duration::from_secs(10)));
        assert_eq!(view("30000").register_period, Some(Duration::from_secs(30)));
        assert_eq!(view("x").register_period, None);
    }
}
