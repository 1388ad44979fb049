//! Control of cold reads: a group that reads much of what lies far behind the end of the log is slowed down, so that the
//! page cache stays with the others. Off unless `coldDataFlowControlEnable`; the thresholds of groups (2001, 2002) are
//! kept in memory alone, as in Java.
//!
//! Bytes are counted by group in windows of five seconds. No task turns the window: whoever counts or asks does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::config::BrokerConfig;
use super::groups::is_system_group;
use super::{Broker, now_ms};
use crate::config_file;
use crate::protocol::body::{ColdDataAccount, ColdDataFlowInfo, ConsumeType};
use crate::protocol::message::MessageView;
use crate::protocol::model::check_group;
use crate::protocol::requests::{
    GetColdDataFlowCtrInfo, PullMessage, RemoveColdDataFlowCtrConfig, SetCommitlogReadMode,
    UpdateColdDataFlowCtrConfig,
};
use crate::protocol::{Json, Text, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::Got;

/// Length of a window, ms (Java's `ColdDataCgCtrService.run`).
const WINDOW_MS: i64 = 5000;
/// A group that reads nothing cold for this long is forgotten, ms.
const IDLE_MS: i64 = 60_000;
/// How long the pull of a group that asks for itself is held, once (Java's `ColdDataPullRequestHoldService`).
const HOLD: Duration = Duration::from_secs(3);
/// Most groups with a threshold of their own.
const MOST_GROUPS: usize = 10_000;
/// What Java answers to a push consumer that is slowed down.
const SLOWED: &str = "This consumer group is reading cold data. It has been flow control";

/// Thresholds and what was read in the present window.
#[derive(Debug, Default)]
pub(super) struct ColdFlow(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Bytes a window by group, as an admin set them.
    thresholds: BTreeMap<String, i64>,
    /// Groups that read cold data lately.
    accounts: BTreeMap<String, ColdDataAccount>,
    /// Bytes of all groups in this window.
    total: i64,
    window_end_ms: i64,
}

impl State {
    fn turn(&mut self, now_ms: i64) {
        if now_ms < self.window_end_ms && now_ms + WINDOW_MS >= self.window_end_ms {
            return;
        }
        self.window_end_ms = now_ms + WINDOW_MS;
        self.total = 0;
        self.accounts
            .retain(|_, account| now_ms < account.last_cold_read_time_mills + IDLE_MS);
        for account in self.accounts.values_mut() {
            account.cold_acc = 0;
        }
    }
}

impl ColdFlow {
    fn state(&self, now_ms: i64) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.turn(now_ms);
        state
    }

    /// Counts bytes of cold data that a group was given.
    fn count(&self, group: &str, bytes: i64, now_ms: i64) {
        let mut state = self.state(now_ms);
        state.total = state.total.saturating_add(bytes);
        let account = state
            .accounts
            .entry(group.to_owned())
            .or_insert_with(|| ColdDataAccount {
                create_time_mills: now_ms,
                ..ColdDataAccount::default()
            });
        account.cold_acc = account.cold_acc.saturating_add(bytes);
        account.last_cold_read_time_mills = now_ms;
    }

    /// True when a group has read its share of this window.
    fn is_over(&self, group: &str, config: &BrokerConfig, now_ms: i64) -> bool {
        let state = self.state(now_ms);
        let Some(account) = state.accounts.get(group) else {
            return false;
        };
        let own = state.thresholds.get(group).copied();
        account.cold_acc >= own.unwrap_or(config.cg_cold_read_threshold)
            || state.total >= config.global_cold_read_threshold
    }

    fn info(&self, config: &BrokerConfig, now_ms: i64) -> ColdDataFlowInfo {
        let state = self.state(now_ms);
        ColdDataFlowInfo {
            cg_cold_read_threshold: config.cg_cold_read_threshold,
            config_table: state.thresholds.clone(),
            global_acc: state.total,
            global_cold_read_threshold: config.global_cold_read_threshold,
            runtime_table: state.accounts.clone(),
        }
    }
}

/// What a pull of cold data may do.
pub(super) enum Cold {
    /// Read.
    Free,
    /// Wait, then read one message.
    Wait(Duration),
}

impl Broker {
    /// Whether a pull must wait since its group reads too much cold data; a push consumer is refused instead.
    pub(super) fn cold_pull(&self, peer: &Peer, header: &PullMessage, offset: i64) -> Result<Cold, Refusal> {
        let group = header.consumer_group.as_str();
        if !self.store.config().cold_data_flow_control_enable
            || is_system_group(group)
            || !self.cold_flow.is_over(group, &self.config(), now_ms())
            || !self.store.is_cold_entry(&header.topic, header.queue_id, offset)
        {
            return Ok(Cold::Free);
        }
        match self.clients.view(group, &header.topic, peer.id()) {
            Some(view) if view.consume_type == ConsumeType::Passively => {
                Err(Refusal::new(codes::SYSTEM_BUSY, SLOWED))
            }
            _ => Ok(Cold::Wait(HOLD)),
        }
    }

    /// Counts the cold part of what a group was given.
    pub(super) fn count_cold(&self, group: &str, got: &Got) {
        if !self.store.config().cold_data_flow_control_enable || is_system_group(group) {
            return;
        }
        let cold = got.records.iter().filter(|record| {
            MessageView::parse(record).is_ok_and(|view| self.store.is_cold(view.physical_offset()))
        });
        let bytes: usize = cold.map(bytes::Bytes::len).sum();
        if bytes > 0 {
            self.cold_flow.count(group, bytes as i64, now_ms());
        }
    }
}

/// 2001: sets thresholds of groups, `group=bytes` lines.
pub async fn set(
    broker: &Arc<Broker>,
    peer: &Peer,
    _: UpdateColdDataFlowCtrConfig,
    body: Text,
) -> Handled<UpdateColdDataFlowCtrConfig> {
    let entries = config_file::parse_properties("request", body.0.as_bytes())
        .map_err(|e| Refusal::new(codes::SYSTEM_ERROR, format!("string2Properties error: {e}")))?;
    let mut thresholds = Vec::new();
    for (group, value) in entries.iter() {
        let bad = |what: String| Refusal::new(codes::SYSTEM_ERROR, what);
        check_group(group).map_err(|e| bad(e.to_string()))?;
        let bytes: i64 = value
            .parse()
            .map_err(|_| bad(format!("threshold {value} of group {group} is no number")))?;
        thresholds.push((group.to_owned(), bytes));
    }
    let mut state = broker.cold_flow.state(now_ms());
    let is_new = |(group, _): &&(String, i64)| !state.thresholds.contains_key(group);
    if state.thresholds.len() + thresholds.iter().filter(is_new).count() > MOST_GROUPS {
        return Err(Refusal::new(
            codes::SYSTEM_ERROR,
            format!("at most {MOST_GROUPS} groups have a threshold of their own"),
        ));
    }
    for (group, bytes) in thresholds {
        tracing::info!(group, bytes, peer = %peer.remote(), "cold read threshold set");
        state.thresholds.insert(group, bytes);
    }
    drop(state);
    Ok(Answer::ok((), ()))
}

/// 2002: removes the threshold of the group that the body names; success also when it has none.
pub async fn unset(
    broker: &Arc<Broker>,
    peer: &Peer,
    _: RemoveColdDataFlowCtrConfig,
    body: Text,
) -> Handled<RemoveColdDataFlowCtrConfig> {
    if broker
        .cold_flow
        .state(now_ms())
        .thresholds
        .remove(&body.0)
        .is_some()
    {
        tracing::info!(group = body.0, peer = %peer.remote(), "cold read threshold removed");
    }
    Ok(Answer::ok((), ()))
}

/// 2003: thresholds, and what is read in the present window.
pub async fn info(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetColdDataFlowCtrInfo,
    (): (),
) -> Handled<GetColdDataFlowCtrInfo> {
    let info = broker.cold_flow.info(&broker.config(), now_ms());
    Ok(Answer::ok((), Json::new(info)))
}

/// 2004: whether the system reads the log ahead, until the next start.
pub async fn set_read_mode(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: SetCommitlogReadMode,
    (): (),
) -> Handled<SetCommitlogReadMode> {
    let ahead = match header.read_ahead_mode.as_deref().map(str::parse::<i32>) {
        None => {
            let remark = "set commitlog readahead mode param error";
            return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
        }
        Some(Err(_)) => {
            let remark = "set commitlog readahead mode failed";
            return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
        }
        Some(Ok(0)) => true,
        Some(Ok(1)) => false,
        Some(Ok(_)) => {
            let remark = "set commitlog readahead mode param value error";
            return Err(Refusal::new(codes::INVALID_PARAMETER, remark));
        }
    };
    {
        let mut settings = broker.settings.lock().unwrap_or_else(PoisonError::into_inner);
        settings.0.store.data_read_ahead_enable = ahead;
        broker.store.reconfigure(settings.0.store.clone());
    }
    tracing::info!(ahead, peer = %peer.remote(), "read ahead of the commit log changed");
    let mut answer = Answer::ok((), ());
    answer.remark = Some(format!(
        "set commitlog readahead mode success, mode: {}",
        i32::from(!ahead)
    ));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_over_at_its_threshold_until_the_window_turns() {
        let flow = ColdFlow::default();
        let config = BrokerConfig {
            cg_cold_read_threshold: 100,
            global_cold_read_threshold: 1000,
            ..BrokerConfig::default()
        };
        assert!(!flow.is_over("a", &config, 0));
        flow.count("a", 99, 0);
        assert!(!flow.is_over("a", &config, 1));
        flow.count("a", 1, 1);
        assert!(flow.is_over("a", &config, 2) && !flow.is_over("b", &config, 2));
        assert!(!flow.is_over("a", &config, WINDOW_MS), "the window turned");
        flow.state(WINDOW_MS).thresholds.insert("a".into(), 10);
        flow.count("a", 10, WINDOW_MS);
        assert!(flow.is_over("a", &config, WINDOW_MS + 1), "its own threshold");
        // All groups together.
        flow.count("b", 50, WINDOW_MS + 1);
        assert!(!flow.is_over("b", &config, WINDOW_MS + 2));
        flow.count("c", 940, WINDOW_MS + 2);
        assert!(flow.is_over("b", &config, WINDOW_MS + 3));
    }

    #[test]
    fn an_idle_group_is_forgotten_and_a_clock_set_back_turns_the_window() {
        let flow = ColdFlow::default();
        let config = BrokerConfig::default();
        flow.count("a", 1, 1_000_000);
        assert_eq!(flow.info(&config, 1_000_001).runtime_table["a"].cold_acc, 1);
        let later = flow.info(&config, 1_000_000 + WINDOW_MS);
        assert_eq!(later.runtime_table["a"].cold_acc, 0);
        assert!(flow.info(&config, 1_000_000 + IDLE_MS).runtime_table.is_empty());
        flow.count("b", 7, 2_000_000);
        assert_eq!(flow.info(&config, 1_000).runtime_table["b"].cold_acc, 0);
    }
}
