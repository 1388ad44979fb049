//! What clients and tools ask: routes, clusters, topic lists.

use std::sync::Arc;

use super::{Namesrv, kv, routes};
use crate::protocol::body::{BrokerMemberGroupAnswer, TopicList};
use crate::protocol::model::VERSION_STRICT_JSON;
use crate::protocol::requests::{
    GetAllTopicListFromNameserver, GetBrokerClusterInfo, GetBrokerMemberGroup, GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList, GetRouteinfoByTopic, GetSystemTopicListFromNs, GetTopicsByCluster,
    GetUnitTopicList,
};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// What Java appends to the remark of a missing topic.
const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

/// Where a topic's queues are.
pub async fn route(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: GetRouteinfoByTopic,
    (): (),
) -> Handled<GetRouteinfoByTopic> {
    let (acting_master, with_order) = {
        let config = role.config();
        let wait_ms = i64::from(config.wait_seconds_for_service) * 1000;
        if config.need_wait_for_service && role.now_ms() - role.started_ms < wait_ms {
            return Err(Refusal::new(codes::SYSTEM_ERROR, "name server not ready"));
        }
        (config.support_acting_master, config.order_message_enable)
    };
    let route = role.routes().route(&header.topic, acting_master);
    let Some(mut route) = route else {
        let remark = format!(
            "No topic route info in name server for the topic: {}{FAQ}",
            header.topic
        );
        return Err(Refusal::new(codes::TOPIC_NOT_EXIST, remark));
    };
    if with_order {
        route.order_topic_conf = role.kv.get(kv::ORDER_TOPIC_CONFIG, &header.topic);
    }
    let mut strict =
        peer.version() >= VERSION_STRICT_JSON || header.accept_standard_json_only.unwrap_or(false);
    let zone_mode = header
        .zone_mode
        .is_some_and(|mode| mode.eq_ignore_ascii_case("true"));
    if let Some(zone) = header
        .zone_name
        .filter(|zone| zone_mode && !zone.trim().is_empty())
    {
        routes::keep_zone(&mut route, &zone);
        // Java's zone hook decodes the finished answer and encodes it the default way.
        strict = false;
    }
    Ok(Answer::ok((), Json { value: route, strict }))
}

/// All clusters and sets. The form is never strict, whatever the requester's version.
pub async fn cluster_info(
    role: &Arc<Namesrv>,
    _: &Peer,
    header: GetBrokerClusterInfo,
    (): (),
) -> Handled<GetBrokerClusterInfo> {
    let live = header.rmq_live.is_some_and(|flag| flag == "1");
    let now_ms = role.now_ms();
    let info = role.routes().cluster_info(live.then_some(now_ms));
    Ok(Answer::ok((), Json::new(info)))
}

/// Addresses of one set.
pub async fn member_group(
    role: &Arc<Namesrv>,
    _: &Peer,
    header: GetBrokerMemberGroup,
    (): (),
) -> Handled<GetBrokerMemberGroup> {
    let group = role
        .routes()
        .member_group(&header.cluster_name, &header.broker_name);
    Ok(Answer::ok(
        (),
        Json::new(BrokerMemberGroupAnswer {
            broker_member_group: Some(group),
        }),
    ))
}

/// All topics.
pub async fn all_topics(
    role: &Arc<Namesrv>,
    _: &Peer,
    _: GetAllTopicListFromNameserver,
    (): (),
) -> Handled<GetAllTopicListFromNameserver> {
    if !role.config().enable_all_topic_list {
        return Err(disabled());
    }
    Ok(Answer::ok((), Json::new(role.routes().all_topics())))
}

/// Topics of one cluster.
pub async fn topics_of_cluster(
    role: &Arc<Namesrv>,
    _: &Peer,
    header: GetTopicsByCluster,
    (): (),
) -> Handled<GetTopicsByCluster> {
    let list = listed(role, |routes| routes.topics_of_cluster(&header.cluster))?;
    Ok(Answer::ok((), list))
}

/// Names of clusters and sets.
pub async fn system_topics(
    role: &Arc<Namesrv>,
    _: &Peer,
    _: GetSystemTopicListFromNs,
    (): (),
) -> Handled<GetSystemTopicListFromNs> {
    Ok(Answer::ok((), Json::new(role.routes().system_topics())))
}

/// Topics of a unit.
pub async fn unit_topics(
    role: &Arc<Namesrv>,
    _: &Peer,
    _: GetUnitTopicList,
    (): (),
) -> Handled<GetUnitTopicList> {
    let list = listed(role, routes::RouteTable::unit_topics)?;
    Ok(Answer::ok((), list))
}

/// Topics a unit subscribes to.
pub async fn unit_sub_topics(
    role: &Arc<Namesrv>,
    _: &Peer,
    _: GetHasUnitSubTopicList,
    (): (),
) -> Handled<GetHasUnitSubTopicList> {
    let list = listed(role, routes::RouteTable::unit_sub_topics)?;
    Ok(Answer::ok((), list))
}

/// Topics a unit subscribes to that are of no unit.
pub async fn unit_sub_ununit_topics(
    role: &Arc<Namesrv>,
    _: &Peer,
    _: GetHasUnitSubUnunitTopicList,
    (): (),
) -> Handled<GetHasUnitSubUnunitTopicList> {
    let list = listed(role, routes::RouteTable::unit_sub_ununit_topics)?;
    Ok(Answer::ok((), list))
}

fn listed(
    role: &Namesrv,
    list: impl FnOnce(&routes::RouteTable) -> TopicList,
) -> Result<Json<TopicList>, Refusal> {
    if role.config().enable_topic_list {
        Ok(Json::new(list(&role.routes())))
    } else {
        Err(disabled())
    }
}

fn disabled() -> Refusal {
    Refusal::new(codes::SYSTEM_ERROR, "disable")
}
