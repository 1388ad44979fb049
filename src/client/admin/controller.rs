//! Controllers: leader, replicas, elections.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::client::error::{Error, Server};
use crate::client::{Client, Deadline};
use crate::protocol::Json;
use crate::protocol::body::{BrokerEpochs, BrokerReplicas};
use crate::protocol::requests::{
    CleanBrokerData, ElectMaster, ElectMasterReply, GetBrokerEpochCache, GetControllerMetadata,
    GetControllerMetadataReply, GetSyncStateData,
};

/// Replicas to forget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forget {
    /// Cluster of the set.
    pub cluster: Option<String>,
    /// Broker set.
    pub broker: String,
    /// The controller's numbers; every replica when empty.
    pub ids: Vec<i64>,
    /// Those that are alive as well.
    pub living: bool,
}

fn now_ms() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

impl Client {
    /// Who leads the controllers, as the one at `addr` sees it.
    pub async fn controller_metadata(
        &self,
        addr: &str,
        deadline: Deadline,
    ) -> Result<GetControllerMetadataReply, Error> {
        let (reply, ()) = self
            .call(&Server::at(addr), &GetControllerMetadata, (), deadline)
            .await?;
        Ok(reply)
    }

    /// The leading controller, as the one at `addr` sees it.
    pub async fn controller_leader(&self, addr: &str, deadline: Deadline) -> Result<Server, Error> {
        let reply = self.controller_metadata(addr, deadline).await?;
        match reply.controller_leader_address.filter(|a| !a.is_empty()) {
            Some(leader) => Ok(Server::at(leader)),
            None => Err(Error::Answer {
                request: "CONTROLLER_GET_METADATA_INFO",
                server: Server::at(addr),
                reason: "the controllers have no leader".into(),
                changes: false,
            }),
        }
    }

    /// Replicas of broker sets, by the leading controller.
    pub async fn sync_states(
        &self,
        leader: &Server,
        brokers: Vec<String>,
        deadline: Deadline,
    ) -> Result<BrokerReplicas, Error> {
        let (_, body) = self
            .call(leader, &GetSyncStateData, Json::new(brokers), deadline)
            .await?;
        Ok(body.value)
    }

    /// Makes a replica the master of its set; the master afterwards.
    pub async fn elect_master(
        &self,
        leader: &Server,
        (cluster, broker, id): (&str, &str, i64),
        deadline: Deadline,
    ) -> Result<ElectMasterReply, Error> {
        let header = ElectMaster {
            cluster_name: cluster.to_owned(),
            broker_name: broker.to_owned(),
            broker_id: id,
            designate_elect: true,
            invoke_time: now_ms(),
        };
        let (reply, _) = self.call(leader, &header, (), deadline).await?;
        Ok(reply)
    }

    /// Lets the controllers forget replicas. Success also for those they do not know: look before.
    pub async fn forget_replicas(
        &self,
        leader: &Server,
        forget: &Forget,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let ids: Vec<String> = forget.ids.iter().map(ToString::to_string).collect();
        let header = CleanBrokerData {
            cluster_name: forget.cluster.clone(),
            broker_name: forget.broker.clone(),
            broker_controller_ids_to_clean: (!ids.is_empty()).then(|| ids.join(";")),
            clean_living_broker: forget.living,
            invoke_time: now_ms(),
        };
        self.call(leader, &header, (), deadline).await.map(drop)
    }

    /// The epochs that a broker in controller mode knows.
    pub async fn broker_epochs(&self, broker: &Server, deadline: Deadline) -> Result<BrokerEpochs, Error> {
        let (_, body) = self.call(broker, &GetBrokerEpochCache, (), deadline).await?;
        Ok(body.value)
    }
}
