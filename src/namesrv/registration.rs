//! What brokers tell, and what operators change in the routes.

use std::sync::Arc;

use bytes::Bytes;

use super::routes::{BrokerAddr, Leaving, Registered, Registration};
use super::{Namesrv, check_name, kv};
use crate::protocol::body::{RegisterBrokerBody, TopicConfigTable, TopicRouteData};
use crate::protocol::model::{DataVersion, Perm};
use crate::protocol::requests::{
    AddWritePermOfBroker, AddWritePermOfBrokerReply, BrokerHeartbeat, DeleteTopicInNamesrv, QueryDataVersion,
    QueryDataVersionReply, RegisterBroker, RegisterBrokerReply, RegisterTopicInNamesrv, UnregisterBroker,
    WipeWritePermOfBroker, WipeWritePermOfBrokerReply,
};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// Most bytes a deflated registration may grow to: some 200 000 topics, twice what the plain form can hold.
const INFLATED_MAX: usize = 32 * 1024 * 1024;

/// A broker is here, with these topics.
pub async fn register(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: RegisterBroker,
    body: Bytes,
) -> Handled<RegisterBroker> {
    role.may_write(peer)?;
    for (what, name) in [
        ("clusterName", &header.cluster_name),
        ("brokerName", &header.broker_name),
        ("brokerAddr", &header.broker_addr),
    ] {
        check_name(what, name)?;
    }
    if header.body_crc32 != 0 && header.body_crc32 as u32 != crc32fast::hash(&body) & 0x7FFF_FFFF {
        tracing::warn!(peer = %peer.remote(), broker = header.broker_name, "registration with a wrong checksum");
        return Err(Refusal::new(codes::SYSTEM_ERROR, "crc32 not match"));
    }
    let mut body = RegisterBrokerBody::decode(&body, header.compressed, peer.version(), INFLATED_MAX)?;
    drop_bad_topics(&header.broker_name, &mut body.topic_config_serialize_wrapper);
    let registration = Registration {
        cluster: header.cluster_name,
        addr: header.broker_addr,
        name: header.broker_name,
        id: header.broker_id,
        ha_addr: header.ha_server_addr,
        zone: header.zone_name,
        timeout_ms: header.heartbeat_timeout_millis,
        acting_master: header.enable_acting_master,
        channel: peer.id(),
        topics: body.topic_config_serialize_wrapper,
        filter_servers: Some(body.filter_server_list),
    };
    let (name, addr) = (registration.name.clone(), registration.addr.clone());
    let (replace, order) = {
        let config = role.config();
        (
            config.delete_topic_with_broker_registration,
            config.return_order_topic_config_to_broker,
        )
    };
    // The connection's own task runs this and its close, one after the other, so none is left behind.
    role.remember(peer);
    let registered = role.routes_mut().register(registration, replace, role.now_ms());
    let mut reply = RegisterBrokerReply::default();
    match registered {
        Registered::Incomplete => {
            tracing::warn!(
                broker = name,
                addr,
                "refused: a first registration with a single topic"
            );
            return Err(Refusal::new(codes::SYSTEM_ERROR, "register broker failed"));
        }
        Registered::Outdated => {
            tracing::warn!(
                broker = name,
                addr,
                "ignored: another address holds the id with a newer state"
            );
        }
        Registered::Done { master, notice } => {
            if let Some((addr, ha_addr)) = master {
                reply.master_addr = Some(addr);
                reply.ha_server_addr = ha_addr;
            }
            role.tell(notice);
        }
    }
    let order = order.then(|| role.kv.namespace(kv::ORDER_TOPIC_CONFIG)).flatten();
    Ok(Answer::ok(reply, order.map(Json::new)))
}

/// One bad name must not keep a broker with its other topics out; nobody else shall see the name.
fn drop_bad_topics(broker: &str, table: &mut TopicConfigTable) {
    table.topic_config_table.retain(|key, config| {
        let name = if config.topic_name.is_empty() {
            key
        } else {
            &config.topic_name
        };
        let good = check_name("topic", name).is_ok();
        if !good {
            tracing::warn!(broker, topic = ?name, "left out a topic whose name is not allowed");
        }
        good
    });
    if let Some(mappings) = &mut table.topic_queue_mapping_info_map {
        mappings.retain(|topic, _| check_name("topic", topic).is_ok());
    }
}

/// A broker is leaving. Java queues this and answers at once; here it is done when it is answered.
pub async fn unregister(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: UnregisterBroker,
    (): (),
) -> Handled<UnregisterBroker> {
    role.may_write(peer)?;
    let leaving = Leaving {
        broker: BrokerAddr {
            cluster: header.cluster_name,
            addr: header.broker_addr,
        },
        name: header.broker_name,
        id: header.broker_id,
    };
    role.unregister(&[leaving]);
    Ok(Answer::ok((), ()))
}

/// Is this version of a broker's topics new? Also a sign of life.
pub async fn query_version(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: QueryDataVersion,
    body: Option<Json<DataVersion>>,
) -> Handled<QueryDataVersion> {
    role.may_write(peer)?;
    let broker = BrokerAddr {
        cluster: header.cluster_name,
        addr: header.broker_addr,
    };
    let mut routes = role.routes_mut();
    let changed = body.is_none_or(|version| routes.is_changed(&broker, version.value));
    routes.touch(&broker, role.now_ms());
    let version = routes.version(&broker);
    Ok(Answer::ok(
        QueryDataVersionReply { changed },
        version.map(Json::new),
    ))
}

/// A broker is alive.
pub async fn heartbeat(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: BrokerHeartbeat,
    (): (),
) -> Handled<BrokerHeartbeat> {
    role.may_write(peer)?;
    let broker = BrokerAddr {
        cluster: header.cluster_name,
        addr: header.broker_addr,
    };
    role.routes_mut().touch(&broker, role.now_ms());
    Ok(Answer::ok((), ()))
}

/// The queues of one topic.
pub async fn register_topic(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: RegisterTopicInNamesrv,
    body: Option<Json<TopicRouteData>>,
) -> Handled<RegisterTopicInNamesrv> {
    role.may_write(peer)?;
    check_name("topic", &header.topic)?;
    let queues = body.map(|body| body.value.queue_datas).unwrap_or_default();
    if !role.routes_mut().register_topic(&header.topic, queues) {
        tracing::warn!(peer = %peer.remote(), topic = header.topic, "ignored: queues of an unknown broker");
    }
    Ok(Answer::ok((), ()))
}

/// Takes a topic off the routes.
pub async fn delete_topic(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: DeleteTopicInNamesrv,
    (): (),
) -> Handled<DeleteTopicInNamesrv> {
    role.may_write(peer)?;
    let cluster = header.cluster_name.as_deref().filter(|name| !name.is_empty());
    tracing::info!(peer = %peer.remote(), topic = header.topic, cluster, "topic deleted");
    role.routes_mut().delete_topic(&header.topic, cluster);
    Ok(Answer::ok((), ()))
}

/// Keeps producers off a set.
pub async fn wipe_write_perm(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: WipeWritePermOfBroker,
    (): (),
) -> Handled<WipeWritePermOfBroker> {
    role.may_write(peer)?;
    let wipe_topic_count = (role.routes_mut()).change_perm(&header.broker_name, |p| p.without(Perm::WRITE));
    tracing::info!(peer = %peer.remote(), broker = header.broker_name, wipe_topic_count, "write permission wiped");
    Ok(Answer::ok(WipeWritePermOfBrokerReply { wipe_topic_count }, ()))
}

/// Lets producers onto a set again: Java sets read and write, whatever a topic had before.
pub async fn add_write_perm(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: AddWritePermOfBroker,
    (): (),
) -> Handled<AddWritePermOfBroker> {
    role.may_write(peer)?;
    let add_topic_count = (role.routes_mut()).change_perm(&header.broker_name, |_| Perm::READ_WRITE);
    tracing::info!(peer = %peer.remote(), broker = header.broker_name, add_topic_count, "write permission added");
    Ok(Answer::ok(AddWritePermOfBrokerReply { add_topic_count }, ()))
}
