//! The broker's own settings over the wire (25, 26), its statistics (315), and its replicas (907, 908, 1007).

use std::sync::{Arc, PoisonError};

use super::config::{self, ChangeError};
use super::{Broker, kept_changes, now_ms, suffix};
use crate::config_file;
use crate::fields::Fields;
use crate::protocol::body::{BrokerStatsData, BrokerStatsItem, HaRuntimeInfo};
use crate::protocol::requests::{
    GetBrokerConfig, GetBrokerConfigReply, GetBrokerEpochCache, GetBrokerHaStatus, ResetMasterFlushOffset,
    UpdateBrokerConfig, ViewBrokerStatsData,
};
use crate::protocol::{Json, Text, codes, json};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// 25: changes settings, all or none. What can takes effect at once; all of it is written back.
pub async fn update_config(
    broker: &Arc<Broker>,
    peer: &Peer,
    _: UpdateBrokerConfig,
    body: Text,
) -> Handled<UpdateBrokerConfig> {
    let changes = config_file::parse_properties("request", body.0.as_bytes())
        .map_err(|e| Refusal::new(codes::SYSTEM_ERROR, format!("string2Properties error: {e}")))?;
    if changes.is_empty() {
        return Ok(Answer::ok((), ()));
    }
    broker.change_config(peer, &changes)?;
    let owner = broker.clone();
    let written = tokio::task::spawn_blocking(move || {
        // One after the other, and each writes the newest state: an older one must not come last.
        let _writing = owner.config_file.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = {
            let settings = owner.settings.lock().unwrap_or_else(PoisonError::into_inner);
            settings.0.clone()
        };
        let path = newest.file.clone().unwrap_or_else(|| kept_changes(&newest));
        config_file::save(&path, &newest.file_entries)
    });
    match written.await {
        Ok(Ok(())) => Ok(Answer::ok((), ())),
        Ok(Err(e)) => Err(Refusal::new(
            codes::SYSTEM_ERROR,
            format!("in force, but lost at the next start: {e}"),
        )),
        Err(e) => Err(Refusal::new(
            codes::SYSTEM_ERROR,
            format!("writing was aborted: {e}"),
        )),
    }
}

impl Broker {
    /// The one function through which settings change at run time.
    fn change_config(&self, peer: &Peer, changes: &Fields) -> Result<(), Refusal> {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let next = settings.0.changed(changes).map_err(|e| match e {
            ChangeError::Guarded => Refusal::new(codes::NO_PERMISSION, e.to_string()),
            ChangeError::Value(_) => Refusal::new(codes::SYSTEM_ERROR, e.to_string()),
        })?;
        let old = self.config.load_full();
        let (live, waiting) = config::live_change(&old, changes)
            .map_err(|e| Refusal::new(codes::SYSTEM_ERROR, e.to_string()))?;
        for (key, value) in changes.iter() {
            let effect = if next.unknown.contains_key(key) {
                "kept, without effect in this version"
            } else if waiting.iter().any(|k| k == key) {
                "from the next start with this file on"
            } else {
                "now"
            };
            tracing::info!(key, value, peer = %peer.remote(), effect, "setting changed");
        }
        if next.store != settings.0.store {
            self.store.reconfigure(next.store.clone());
            self.delays.set_levels(&next.store.delay_levels());
            if let Some(timer) = &self.timer {
                timer.changed.notify_one();
            }
        }
        self.suffix.store(Arc::new(suffix(&live)));
        let perm_changed = live.broker_permission != old.broker_permission;
        let servers_changed = live.namesrv_addr != old.namesrv_addr;
        self.config.store(Arc::new(live));
        settings.1 = settings.1.next(now_ms());
        settings.0 = next;
        drop(settings);
        if perm_changed {
            self.topics.touch();
        }
        if perm_changed || servers_changed {
            self.registrar.wake();
        }
        Ok(())
    }
}

/// 26: every setting, sorted by key.
pub async fn get_config(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetBrokerConfig,
    (): (),
) -> Handled<GetBrokerConfig> {
    let (entries, without_effect, version) = {
        let settings = broker.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = settings.0.unknown.keys().cloned().collect::<Vec<_>>();
        (settings.0.entries(), unknown.join(";"), settings.1)
    };
    let entries = entries?;
    let waiting = config_file::waiting(config::read_at_start(), &broker.at_start.entries()?, &entries);
    let header = GetBrokerConfigReply {
        rmq_waiting: Some(waiting),
        rmq_without_effect: Some(without_effect),
        version: String::from_utf8_lossy(&json::to_vec(&version)).into_owned(),
        rmq_read_at_start: Some(config::read_at_start().collect::<Vec<_>>().join(";")),
        rmq_limits: Some(config_file::told(&[config::LIMITS, config::STORE_LIMITS])),
    };
    Ok(Answer::ok(header, Text(config_file::to_text(&entries))))
}

/// 315: one figure's last minute, hour and day.
pub async fn stats_data(
    broker: &Arc<Broker>,
    _: &Peer,
    header: ViewBrokerStatsData,
    (): (),
) -> Handled<ViewBrokerStatsData> {
    let ViewBrokerStatsData {
        stats_name,
        stats_key,
    } = header;
    let cluster = broker.config().broker_cluster_name.clone();
    let windows = broker
        .stats
        .windows(&stats_name, &stats_key, &cluster)
        .ok_or_else(|| {
            let remark = format!("The stats <{stats_name}> <{stats_key}> not exist");
            Refusal::new(codes::SYSTEM_ERROR, remark)
        })?;
    let [stats_minute, stats_hour, stats_day] = windows.map(|window| BrokerStatsItem {
        avgpt: window.avgpt,
        sum: window.sum,
        tps: window.tps,
    });
    let body = BrokerStatsData {
        stats_day,
        stats_hour,
        stats_minute,
    };
    Ok(Answer::ok((), Json::new(body)))
}

/// 907: a master without replicas.
pub async fn ha_status(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetBrokerHaStatus,
    (): (),
) -> Handled<GetBrokerHaStatus> {
    let body = HaRuntimeInfo {
        master: true,
        master_commit_log_max_offset: broker.store.log_end(),
        ..HaRuntimeInfo::default()
    };
    Ok(Answer::ok((), Json::new(body)))
}

/// 908: slaves alone have a master's flush offset; a master says yes and does nothing, as in Java.
pub async fn reset_flush_offset(
    _: &Arc<Broker>,
    _: &Peer,
    _: ResetMasterFlushOffset,
    (): (),
) -> Handled<ResetMasterFlushOffset> {
    Ok(Answer::ok((), ()))
}

/// 1007: what Java answers where no controller leads the replicas.
pub async fn epochs(
    _: &Arc<Broker>,
    _: &Peer,
    _: GetBrokerEpochCache,
    (): (),
) -> Handled<GetBrokerEpochCache> {
    Err(Refusal::new(
        codes::SYSTEM_ERROR,
        "this request only for controllerMode ",
    ))
}
