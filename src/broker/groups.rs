//! Consumer groups (config/subscriptionGroup.json): lookup with auto-creation, edits, and the requests for them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;

use super::config::{BrokerConfig, MAX_QUEUES};
use super::tables::{self, TableFile};
use super::topics::SCHEDULE_TOPIC;
use super::{Broker, FAQ, now_ms};
use crate::protocol::body::{
    FORBID_READ, GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupList, SubscriptionGroupTable,
};
use crate::protocol::model::{DataVersion, check_group};
use crate::protocol::requests::{
    DeleteSubscriptiongroup, GetAllSubscriptiongroupConfig, GetSubscriptiongroupConfig,
    UpdateAndCreateSubscriptiongroup, UpdateAndCreateSubscriptiongroupList, UpdateAndGetGroupForbidden,
};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// The group that tools look at messages with.
pub const TOOLS_GROUP: &str = "TOOLS_CONSUMER";

/// Groups that every broker has.
const BOOT_GROUPS: [&str; 8] = [
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// Groups of the system are made on demand even where others are not.
const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";

/// True for the broker's own groups and those of the tools, which may pull without a heartbeat.
pub fn is_system_group(group: &str) -> bool {
    group.starts_with(SYSTEM_GROUP_PREFIX)
        || BOOT_GROUPS.contains(&group)
        || matches!(group, "DEFAULT_CONSUMER" | "__MONITOR_CONSUMER")
        || group == SCHEDULE_TOPIC
}

#[derive(Debug, Default)]
struct Edited {
    version: DataVersion,
    /// Group -> topic -> bits.
    forbidden: BTreeMap<String, BTreeMap<String, i32>>,
}

/// All consumer groups of a broker.
#[derive(Debug)]
pub struct Groups {
    table: DashMap<String, Arc<SubscriptionGroupConfig>>,
    /// Held while a table changes; lookups of groups do not take it. Nothing else is locked inside.
    edited: Mutex<Edited>,
    /// Whether `edited.forbidden` holds anything, so that pulls need not lock.
    any_forbidden: AtomicBool,
    file: TableFile,
}

impl Groups {
    /// Loads the table at `path` over the groups that every broker has.
    pub fn load(path: PathBuf) -> Result<Self, tables::Error> {
        let file = TableFile::new(path);
        let table: DashMap<_, _> = BOOT_GROUPS
            .into_iter()
            .map(|name| (name.to_owned(), Arc::new(new_group(name))))
            .collect();
        let mut edited = Edited::default();
        edited.version.timestamp = now_ms();
        if let Some(saved) = file.load::<SubscriptionGroupTable>()? {
            edited.version = saved.data_version;
            edited.forbidden = saved.forbidden_table;
            for (name, group) in saved.subscription_group_table {
                table.insert(name, Arc::new(group));
            }
        }
        Ok(Self {
            table,
            any_forbidden: AtomicBool::new(!edited.forbidden.is_empty()),
            edited: Mutex::new(edited),
            file,
        })
    }

    /// True when there is such a group.
    pub fn contains(&self, group: &str) -> bool {
        self.table.contains_key(group)
    }

    /// The group, if there is one.
    pub fn find_existing(&self, group: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        self.table.get(group).map(|found| found.clone())
    }

    /// The group, made if it is missing and may be.
    pub fn find(&self, group: &str, config: &BrokerConfig) -> Option<Arc<SubscriptionGroupConfig>> {
        if let Some(found) = self.table.get(group) {
            return Some(found.clone());
        }
        if !config.auto_create_subscription_group && !group.starts_with(SYSTEM_GROUP_PREFIX) {
            return None;
        }
        check_group(group).ok()?;
        let mut edited = self.edit();
        if let Some(found) = self.table.get(group) {
            return Some(found.clone());
        }
        tracing::info!(group, "consumer group made on demand");
        Some(self.insert(&mut edited, new_group(group)))
    }

    /// Makes or changes groups; all or none.
    pub fn update(&self, groups: Vec<SubscriptionGroupConfig>) -> Result<(), Refusal> {
        for group in &groups {
            check_group(&group.group_name)
                .map_err(|e| Refusal::new(codes::INVALID_PARAMETER, e.to_string()))?;
            if group.retry_queue_nums > MAX_QUEUES {
                let (group, queues) = (&group.group_name, group.retry_queue_nums);
                let remark = format!("retryQueueNums={queues} of group[{group}]: at most {MAX_QUEUES}");
                return Err(Refusal::new(codes::INVALID_PARAMETER, remark));
            }
            // 5.3.3 knows no group attribute, and refuses each with this text.
            if let Some(key) = group.attributes.keys().next() {
                let key = key.trim_start_matches(['+', '-']);
                return Err(Refusal::new(
                    codes::SYSTEM_ERROR,
                    format!("unsupported key: {key}"),
                ));
            }
        }
        let mut edited = self.edit();
        for group in groups {
            tracing::info!(group = %group.group_name, "consumer group changed by an admin");
            self.insert(&mut edited, group);
        }
        Ok(())
    }

    /// Takes a group out of the table; true when it was there.
    pub fn remove(&self, group: &str) -> bool {
        let mut edited = self.edit();
        edited.forbidden.remove(group);
        let was_there = self.table.remove(group).is_some();
        if was_there {
            edited.version = edited.version.next(now_ms());
            self.file.mark();
            tracing::info!(group, "consumer group deleted");
        }
        was_there
    }

    /// True when the group must not read the topic.
    pub fn forbids(&self, group: &str, topic: &str) -> bool {
        if !self.any_forbidden.load(Acquire) {
            return false;
        }
        let edited = self.edit();
        edited
            .forbidden
            .get(group)
            .and_then(|topics| topics.get(topic))
            .is_some_and(|bits| bits & FORBID_READ != 0)
    }

    fn forbid(&self, group: &str, topic: &str, forbid: bool) {
        let mut edited = self.edit();
        let topics = edited.forbidden.entry(group.to_owned()).or_default();
        let bits = topics.entry(topic.to_owned()).or_default();
        *bits = if forbid {
            *bits | FORBID_READ
        } else {
            *bits & !FORBID_READ
        };
        topics.retain(|_, bits| *bits != 0);
        if topics.is_empty() {
            edited.forbidden.remove(group);
        }
        self.any_forbidden.store(!edited.forbidden.is_empty(), Release);
        edited.version = edited.version.next(now_ms());
        self.file.mark();
    }

    /// Names of all groups.
    pub fn names(&self) -> Vec<String> {
        self.table.iter().map(|entry| entry.key().clone()).collect()
    }

    /// The table with its version.
    pub fn table(&self) -> SubscriptionGroupTable {
        let edited = self.edit();
        let groups: HashMap<_, _> = self
            .table
            .iter()
            .map(|entry| (entry.key().clone(), SubscriptionGroupConfig::clone(entry.value())))
            .collect();
        SubscriptionGroupTable {
            data_version: edited.version,
            forbidden_table: edited.forbidden.clone(),
            subscription_group_table: groups.into_iter().collect(),
        }
    }

    /// True when subscriptionGroup.json is behind.
    pub fn is_behind(&self) -> bool {
        self.file.is_marked()
    }

    /// Writes subscriptionGroup.json if it is behind. Blocks on the disk.
    pub fn save(&self) -> Result<(), tables::Error> {
        self.file.save_if_marked(|| self.table())
    }

    /// Writes subscriptionGroup.json in any case, as a clean stop does.
    pub fn save_always(&self) -> Result<(), tables::Error> {
        self.file.mark();
        self.save()
    }

    fn edit(&self) -> std::sync::MutexGuard<'_, Edited> {
        self.edited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, edited: &mut Edited, group: SubscriptionGroupConfig) -> Arc<SubscriptionGroupConfig> {
        let group = Arc::new(group);
        self.table.insert(group.group_name.clone(), group.clone());
        edited.version = edited.version.next(now_ms());
        self.file.mark();
        group
    }
}

fn new_group(name: &str) -> SubscriptionGroupConfig {
    SubscriptionGroupConfig {
        group_name: name.to_owned(),
        ..SubscriptionGroupConfig::default()
    }
}

/// 200: makes or changes a group; without a body nothing happens, as in Java.
pub async fn update(
    broker: &Arc<Broker>,
    _: &Peer,
    _: UpdateAndCreateSubscriptiongroup,
    body: Option<Json<SubscriptionGroupConfig>>,
) -> Handled<UpdateAndCreateSubscriptiongroup> {
    if let Some(group) = body {
        broker.groups.update(vec![group.value])?;
        broker.kept(|broker| broker.groups.save()).await?;
    }
    Ok(Answer::ok((), ()))
}

/// 225: makes or changes several groups.
pub async fn update_list(
    broker: &Arc<Broker>,
    _: &Peer,
    _: UpdateAndCreateSubscriptiongroupList,
    body: Json<SubscriptionGroupList>,
) -> Handled<UpdateAndCreateSubscriptiongroupList> {
    broker.groups.update(body.value.group_config_list)?;
    broker.kept(|broker| broker.groups.save()).await?;
    Ok(Answer::ok((), ()))
}

/// 201: the whole table.
pub async fn all(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetAllSubscriptiongroupConfig,
    (): (),
) -> Handled<GetAllSubscriptiongroupConfig> {
    Ok(Answer::ok((), Json::new(broker.groups.table())))
}

/// 352: one group, made when it is missing and may be, as in Java.
pub async fn get(
    broker: &Arc<Broker>,
    _: &Peer,
    header: GetSubscriptiongroupConfig,
    (): (),
) -> Handled<GetSubscriptiongroupConfig> {
    let found = broker.groups.find(&header.group, &broker.config());
    let group =
        found.ok_or_else(|| Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker"))?;
    Ok(Answer::ok((), Json::new(SubscriptionGroupConfig::clone(&group))))
}

/// 207: deletes a group and, if asked, its offsets.
pub async fn delete(
    broker: &Arc<Broker>,
    _: &Peer,
    header: DeleteSubscriptiongroup,
    (): (),
) -> Handled<DeleteSubscriptiongroup> {
    broker.groups.remove(&header.group_name);
    if header.clean_offset {
        broker.offsets.remove_group(&header.group_name);
    }
    broker.stats.drop_group(&header.group_name);
    broker.pop.remove_group(&header.group_name);
    broker
        .kept(|broker| broker.groups.save().and(broker.offsets.save()))
        .await?;
    Ok(Answer::ok((), ()))
}

/// 353: takes a group's reading of a topic away or gives it back, and says how it stands.
pub async fn forbidden(
    broker: &Arc<Broker>,
    _: &Peer,
    header: UpdateAndGetGroupForbidden,
    (): (),
) -> Handled<UpdateAndGetGroupForbidden> {
    if let Some(readable) = header.readable {
        if !broker.groups.contains(&header.group) {
            let remark = format!("subscription group [{}] does not exist, {FAQ}", header.group);
            return Err(Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        }
        crate::protocol::model::check_topic(&header.topic)
            .map_err(|e| Refusal::new(codes::INVALID_PARAMETER, e.to_string()))?;
        broker.groups.forbid(&header.group, &header.topic, !readable);
        broker.kept(|broker| broker.groups.save()).await?;
    }
    let readable = Some(!broker.groups.forbids(&header.group, &header.topic));
    let body = GroupForbidden {
        group: header.group,
        readable,
        topic: header.topic,
    };
    Ok(Answer::ok((), Json::new(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> (tempfile::TempDir, Groups) {
        let dir = tempfile::tempdir().unwrap();
        let groups = Groups::load(dir.path().join("subscriptionGroup.json")).unwrap();
        (dir, groups)
    }

    #[test]
    fn groups_are_made_on_demand_if_their_names_are_legal() {
        let (_dir, groups) = groups();
        let open = BrokerConfig::default();
        let closed = BrokerConfig {
            auto_create_subscription_group: false,
            ..BrokerConfig::default()
        };
        for name in BOOT_GROUPS {
            assert!(groups.contains(name), "{name}");
        }
        assert!(groups.find("g", &closed).is_none());
        assert!(groups.find("CID_RMQ_SYS_x", &closed).is_some());
        let found = groups.find("g", &open).unwrap();
        assert_eq!((found.retry_max_times, found.retry_queue_nums), (16, 1));
        assert!(groups.find("g", &closed).is_some());
        for bad in ["", "a/b", "..", "a@b"] {
            assert!(groups.find(bad, &open).is_none(), "{bad:?}");
            let refused = groups.update(vec![new_group(bad)]).unwrap_err();
            assert_eq!(refused.code, codes::INVALID_PARAMETER);
        }
        assert!(groups.remove("g") && !groups.remove("g"));
    }

    #[test]
    fn forbidden_topics_survive_a_restart() {
        let (dir, groups) = groups();
        groups.update(vec![new_group("g")]).unwrap();
        groups.forbid("g", "t", true);
        groups.forbid("g", "u", true);
        groups.forbid("g", "u", false);
        groups.save().unwrap();
        let again = Groups::load(dir.path().join("subscriptionGroup.json")).unwrap();
        assert!(again.forbids("g", "t") && !again.forbids("g", "u"));
        assert_eq!(again.table(), groups.table());
    }
}
