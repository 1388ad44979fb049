//! The broker's table of requests. A code that is not here is answered 3.

use crate::protocol::requests::{
    AckMessage, BatchAckMessage, ChangeMessageInvisibletime, CheckClientConfig, CleanExpiredConsumequeue,
    CleanUnusedTopic, CloneGroupOffset, ConsumerSendMsgBack, DeleteExpiredCommitlog, DeleteSubscriptiongroup,
    DeleteTopicInBroker, EndTransaction, GetAllConsumerOffset, GetAllDelayOffset, GetAllMessageRequestMode,
    GetAllProducerInfo, GetAllSubscriptiongroupConfig, GetAllTopicConfig, GetBrokerConfig,
    GetBrokerConsumeStats, GetBrokerEpochCache, GetBrokerHaStatus, GetBrokerRuntimeInfo,
    GetColdDataFlowCtrInfo, GetConsumeStats, GetConsumerConnectionList, GetConsumerListByGroup,
    GetEarliestMsgStoretime, GetMaxOffset, GetMinOffset, GetProducerConnectionList,
    GetSubscriptiongroupConfig, GetSystemTopicListFromBroker, GetTopicConfig, GetTopicStatsInfo, HeartBeat,
    InvokeBrokerToGetConsumerStatus, InvokeBrokerToResetOffset, LitePullMessage, LockBatchMq, Notification,
    PeekMessage, PollingInfo, PopMessage, PullMessage, QueryAssignment, QueryConsumeQueue,
    QueryConsumeTimeSpan, QueryConsumerOffset, QueryCorrectionOffset, QueryMessage,
    QuerySubscriptionByConsumer, QueryTopicConsumeByWho, QueryTopicsByConsumer, RecallMessage,
    RemoveColdDataFlowCtrConfig, ResetMasterFlushOffset, ResumeCheckHalfMessage, SearchOffsetByTimestamp,
    SendBatchMessage, SendMessage, SendMessageV2, SendReplyMessage, SendReplyMessageV2, SetCommitlogReadMode,
    SetMessageRequestMode, UnlockBatchMq, UnregisterClient, UpdateAndCreateSubscriptiongroup,
    UpdateAndCreateSubscriptiongroupList, UpdateAndCreateTopic, UpdateAndCreateTopicList,
    UpdateAndGetGroupForbidden, UpdateBrokerConfig, UpdateColdDataFlowCtrConfig, UpdateConsumerOffset,
    ViewBrokerStatsData, ViewMessageById,
};
use crate::routes;

use super::Broker;
use super::forward::{PassDirectConsumption, PassRunningInfo};

routes! {
    Broker;
    SendMessageV2 => send::send_message_v2,
    SendBatchMessage => send::send_batch,
    SendMessage => send::send_message,
    RecallMessage => recall::recall_message,
    ConsumerSendMsgBack => send_back::send_back,
    SendReplyMessageV2 => reply::send_reply_v2,
    SendReplyMessage => reply::send_reply,
    EndTransaction => transactions::end,
    ResumeCheckHalfMessage => transactions::resume,
    PullMessage => pull::pull_message,
    LitePullMessage => pull::lite_pull_message,
    PopMessage => pop::pop_message,
    AckMessage => pop::ack,
    BatchAckMessage => pop::batch_ack,
    PeekMessage => pop::peek,
    ChangeMessageInvisibletime => pop::change_invisible_time,
    Notification => pop::notification,
    PollingInfo => pop::polling_info,
    QueryAssignment => pop::query_assignment,
    SetMessageRequestMode => pop::set_mode,
    GetAllMessageRequestMode => pop::modes,
    QueryMessage => query::by_key,
    ViewMessageById => query::by_offset,
    QueryConsumeQueue => query::consume_queue,
    QueryConsumerOffset => offset_requests::query,
    UpdateConsumerOffset => offset_requests::commit,
    SearchOffsetByTimestamp => offset_requests::by_time,
    GetMaxOffset => offset_requests::max,
    GetMinOffset => offset_requests::min,
    GetEarliestMsgStoretime => offset_requests::earliest_time,
    GetAllConsumerOffset => offset_requests::all,
    InvokeBrokerToResetOffset => offset_requests::reset,
    InvokeBrokerToGetConsumerStatus => forward::consumer_status,
    PassRunningInfo => forward::running_info,
    PassDirectConsumption => forward::consume_directly,
    QueryCorrectionOffset => offset_requests::correction,
    CloneGroupOffset => offset_requests::clone_group,
    GetAllDelayOffset => offset_requests::delays,
    CleanExpiredConsumequeue => cleanup::expired_queues,
    CleanUnusedTopic => cleanup::unused_topics,
    DeleteExpiredCommitlog => cleanup::expired_log,
    HeartBeat => client_requests::heartbeat,
    UnregisterClient => client_requests::unregister,
    CheckClientConfig => client_requests::check_config,
    GetConsumerListByGroup => client_requests::consumer_list,
    LockBatchMq => client_requests::lock,
    UnlockBatchMq => client_requests::unlock,
    GetConsumerConnectionList => client_requests::consumer_connection,
    GetProducerConnectionList => client_requests::producer_connection,
    GetAllProducerInfo => client_requests::all_producers,
    UpdateAndCreateTopic => topic_requests::update,
    UpdateAndCreateTopicList => topic_requests::update_list,
    DeleteTopicInBroker => topic_requests::delete,
    GetAllTopicConfig => topic_requests::all,
    GetTopicConfig => topic_requests::get,
    GetSystemTopicListFromBroker => topic_requests::system_names,
    UpdateAndCreateSubscriptiongroup => groups::update,
    UpdateAndCreateSubscriptiongroupList => groups::update_list,
    GetAllSubscriptiongroupConfig => groups::all,
    GetSubscriptiongroupConfig => groups::get,
    DeleteSubscriptiongroup => groups::delete,
    UpdateAndGetGroupForbidden => groups::forbidden,
    GetTopicStatsInfo => consume_stats::topic_stats,
    GetConsumeStats => consume_stats::consume_stats,
    GetBrokerConsumeStats => consume_stats::broker_consume_stats,
    QueryConsumeTimeSpan => consume_stats::time_span,
    QueryTopicConsumeByWho => consume_stats::groups_of_topic,
    QueryTopicsByConsumer => consume_stats::topics_of_group,
    QuerySubscriptionByConsumer => consume_stats::subscription,
    GetBrokerRuntimeInfo => runtime_info::get,
    UpdateBrokerConfig => admin::update_config,
    GetBrokerConfig => admin::get_config,
    ViewBrokerStatsData => admin::stats_data,
    GetBrokerHaStatus => admin::ha_status,
    ResetMasterFlushOffset => admin::reset_flush_offset,
    GetBrokerEpochCache => admin::epochs,
    UpdateColdDataFlowCtrConfig => cold_flow::set,
    RemoveColdDataFlowCtrConfig => cold_flow::unset,
    GetColdDataFlowCtrInfo => cold_flow::info,
    SetCommitlogReadMode => cold_flow::set_read_mode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_one_checked_in() {
        let mut lines: Vec<String> = ROUTES
            .iter()
            .map(|route| format!("{} {} {}\n", route.code, route.name, route.handler))
            .collect();
        lines.sort_by_key(|line| line.split(' ').next().and_then(|code| code.parse::<i32>().ok()));
        let table = lines.concat();
        assert_eq!(table, include_str!("../../tests/golden/routes-broker.txt"));
    }
}
