//! The name server's table of requests.

use crate::protocol::requests::*;
use crate::routes;

routes! {
    super::Namesrv;
    PutKvConfig => kv::put,
    GetKvConfig => kv::get,
    DeleteKvConfig => kv::delete,
    GetKvlistByNamespace => kv::list,
    RegisterBroker => registration::register,
    UnregisterBroker => registration::unregister,
    QueryDataVersion => registration::query_version,
    BrokerHeartbeat => registration::heartbeat,
    RegisterTopicInNamesrv => registration::register_topic,
    DeleteTopicInNamesrv => registration::delete_topic,
    WipeWritePermOfBroker => registration::wipe_write_perm,
    AddWritePermOfBroker => registration::add_write_perm,
    GetRouteinfoByTopic => query::route,
    GetBrokerClusterInfo => query::cluster_info,
    GetBrokerMemberGroup => query::member_group,
    GetAllTopicListFromNameserver => query::all_topics,
    GetTopicsByCluster => query::topics_of_cluster,
    GetSystemTopicListFromNs => query::system_topics,
    GetUnitTopicList => query::unit_topics,
    GetHasUnitSubTopicList => query::unit_sub_topics,
    GetHasUnitSubUnunitTopicList => query::unit_sub_ununit_topics,
    UpdateNamesrvConfig => config::update,
    GetNamesrvConfig => config::get,
}
