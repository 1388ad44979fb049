//! One broker: runtime, configuration, replication.

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::ConfigOf;
use crate::client::error::{Error, Server};
use crate::client::produce::now_ms;
use crate::client::snapshot::{BrokerConfigView, HaState, SlaveState};
use crate::client::{Client, Deadline, RuntimeInfo};
use crate::protocol::Text;
use crate::protocol::body::{ColdDataFlowInfo, HaRuntimeInfo};
use crate::protocol::codes;
use crate::protocol::model::Perm;
use crate::protocol::requests::{
    AddBroker, CheckRocksdbCqWriteProgress, CleanExpiredConsumequeue, CleanUnusedTopic,
    DeleteExpiredCommitlog, ExportRocksdbConfigToJson, GetBrokerHaStatus, GetBrokerRuntimeInfo,
    GetColdDataFlowCtrInfo, PopRollback, RemoveBroker, RemoveColdDataFlowCtrConfig, ResetMasterFlushOffset,
    SetCommitlogReadMode, UpdateColdDataFlowCtrConfig,
};

/// Shortest and longest registration period; the broker clamps its setting to them.
const REGISTER_PERIOD_MS: std::ops::RangeInclusive<u64> = 10_000..=60_000;

impl Client {
    /// Runtime numbers of a broker.
    pub async fn broker_runtime(&self, broker: &Server, deadline: Deadline) -> Result<RuntimeInfo, Error> {
        let sent = now_ms();
        match self.call(broker, &GetBrokerRuntimeInfo, (), deadline).await {
            Ok((_, info)) => Ok(RuntimeInfo::between(info.value.table, (sent, now_ms()))),
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
        let config = self.server_config(ConfigOf::Broker, broker, deadline).await?;
        Ok(config.entries)
    }

    /// Writes configuration keys of a broker. Its "success" proves nothing: read the configuration back.
    pub async fn set_broker_config(
        &self,
        broker: &Server,
        changes: &[(String, String)],
        deadline: Deadline,
    ) -> Result<(), Error> {
        self.set_server_config(ConfigOf::Broker, broker, changes, deadline)
            .await
    }

    /// Replication state of a broker: a master's connections, or where a slave is.
    pub async fn ha_status(&self, broker: &Server, deadline: Deadline) -> Result<HaRuntimeInfo, Error> {
        let (_, info) = self.call(broker, &GetBrokerHaStatus, (), deadline).await?;
        Ok(info.value)
    }

    /// Replication state of a master.
    pub async fn broker_ha(&self, broker: &Server, deadline: Deadline) -> Result<HaState, Error> {
        let (_, info) = self.call(broker, &GetBrokerHaStatus, (), deadline).await?;
        Ok(ha_state(info.value))
    }
}

/// What a broker can be told to clean up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanUp {
    /// Consume queue files whose messages have left the log.
    ExpiredQueues,
    /// Expired segments of the log, whatever the hour.
    ExpiredLog,
    /// Consume queues of topics that the broker does not know.
    UnusedTopics,
}

impl Client {
    /// Cleans up. Expired segments go at the broker's next round, after the answer.
    pub async fn clean(&self, broker: &Server, what: CleanUp, deadline: Deadline) -> Result<(), Error> {
        match what {
            CleanUp::ExpiredQueues => self.call(broker, &CleanExpiredConsumequeue, (), deadline).await?,
            CleanUp::ExpiredLog => self.call(broker, &DeleteExpiredCommitlog, (), deadline).await?,
            CleanUp::UnusedTopics => self.call(broker, &CleanUnusedTopic, (), deadline).await?,
        };
        Ok(())
    }

    /// Lets the system read the commit log ahead, or page by page, until the broker's next start.
    pub async fn set_read_ahead(
        &self,
        broker: &Server,
        ahead: bool,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = SetCommitlogReadMode {
            read_ahead_mode: Some(if ahead { "0" } else { "1" }.to_owned()),
        };
        self.call(broker, &header, (), deadline).await.map(drop)
    }

    /// Thresholds and accounts of cold reads.
    pub async fn cold_flow(&self, broker: &Server, deadline: Deadline) -> Result<ColdDataFlowInfo, Error> {
        let (_, info) = self.call(broker, &GetColdDataFlowCtrInfo, (), deadline).await?;
        Ok(info.value)
    }

    /// Sets how many bytes a group may read cold in a window of five seconds, or removes that. Any group name is taken.
    pub async fn set_cold_flow(
        &self,
        broker: &Server,
        group: &str,
        bytes: Option<i64>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        match bytes {
            Some(bytes) => {
                let body = Text(super::config_text(&[(group.to_owned(), bytes.to_string())]));
                self.call(broker, &UpdateColdDataFlowCtrConfig, body, deadline)
                    .await?;
            }
            None => {
                let body = Text(group.to_owned());
                self.call(broker, &RemoveColdDataFlowCtrConfig, body, deadline)
                    .await?;
            }
        }
        Ok(())
    }

    /// Tells a slave how far its master has flushed. A master says yes and does nothing.
    pub async fn reset_flush_offset(
        &self,
        broker: &Server,
        offset: i64,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = ResetMasterFlushOffset {
            master_flush_offset: Some(offset),
        };
        self.call(broker, &header, (), deadline).await.map(drop)
    }

    /// Starts a broker inside a container, from a configuration file on the container's machine.
    pub async fn add_to_container(
        &self,
        container: &Server,
        config_path: &str,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = AddBroker {
            config_path: Some(config_path.to_owned()),
        };
        self.call(container, &header, (), deadline).await.map(drop)
    }

    /// Stops a broker inside a container.
    pub async fn remove_from_container(
        &self,
        container: &Server,
        (cluster, broker, id): (&str, &str, i64),
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = RemoveBroker {
            broker_name: broker.to_owned(),
            broker_cluster_name: cluster.to_owned(),
            broker_id: id,
        };
        self.call(container, &header, (), deadline).await.map(drop)
    }

    /// Moves POP records from RocksDB to the store's own files.
    pub async fn roll_back_pop(&self, broker: &Server, deadline: Deadline) -> Result<(), Error> {
        self.call(broker, &PopRollback, (), deadline).await.map(drop)
    }

    /// Lets a broker compare its RocksDB queues with its file queues, for one topic or all, from a store time on. The
    /// result stands in the broker's own log; the answer has the text that it gives meanwhile.
    pub async fn check_rocksdb_queues(
        &self,
        broker: &Server,
        topic: Option<&str>,
        from_ms: i64,
        deadline: Deadline,
    ) -> Result<Option<String>, Error> {
        let header = CheckRocksdbCqWriteProgress {
            topic: topic.unwrap_or_default().to_owned(),
            check_store_time: Some(from_ms),
        };
        let (_, answer) = self.call(broker, &header, (), deadline).await?;
        Ok(answer.value.check_result)
    }

    /// Lets a broker write its RocksDB tables as JSON files on its own machine.
    pub async fn export_rocksdb_tables(
        &self,
        broker: &Server,
        tables: &[String],
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = ExportRocksdbConfigToJson {
            config_type: tables.join(";"),
        };
        self.call(broker, &header, (), deadline).await.map(drop)
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
