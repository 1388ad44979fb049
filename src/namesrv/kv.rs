//! The KV store, kept in a JSON file, and the four requests on it. Its best known tenant is the order
//! configuration of topics.

use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Namesrv, StartError, blocking, check_name};
use crate::config_file;
use crate::protocol::body::KvTable;
use crate::protocol::requests::{
    DeleteKvConfig, GetKvConfig, GetKvConfigReply, GetKvlistByNamespace, PutKvConfig,
};
use crate::protocol::{Json, codes, json};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::replace;

/// Namespace of the order configuration: `broker-a:4;broker-b:4` by topic.
pub(super) const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";
/// Most bytes of keys and values together: a namespace must fit into one answer.
const MAX_BYTES: usize = 8 * 1024 * 1024;

type Table = BTreeMap<String, BTreeMap<String, String>>;

/// The file, as Java writes it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    config_table: Table,
}

/// Values by namespace and key.
#[derive(Debug)]
pub(super) struct Kv {
    path: PathBuf,
    /// Held for one map operation or a swap; the disk is written outside.
    file: RwLock<File>,
    /// Held while a change is written, by blocking tasks alone.
    writing: Mutex<()>,
    /// Two name servers with one file would lose each other's entries. `None` where no file can be made beside it.
    alone: Mutex<Option<std::fs::File>>,
}

/// How long a name server that ends may hold its file.
const IN_USE: Duration = Duration::from_secs(2);

/// Locks the file beside the table until it is dropped. Java's name servers take no notice of it.
fn alone(path: &Path) -> Result<Option<std::fs::File>, StartError> {
    let mark = replace::beside(path, ".lock");
    if let Some(dir) = path.parent() {
        let _ = replace::create_dir(dir);
    }
    let Ok(file) = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(mark)
    else {
        return Ok(None);
    };
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if begin.elapsed() < IN_USE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(TryLockError::WouldBlock) => return Err(StartError::KvInUse(path.to_owned())),
            // A file system without locks.
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

impl Kv {
    /// Reads the file; one that is not there yet is an empty store.
    pub(super) fn load(path: PathBuf) -> Result<Self, StartError> {
        let alone = alone(&path)?;
        let file = match std::fs::read(&path) {
            Ok(bytes) if bytes.is_empty() => File::default(),
            Ok(bytes) => json::from_slice(&bytes).map_err(|source| StartError::Kv {
                path: path.clone(),
                source,
            })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => File::default(),
            Err(source) => return Err(StartError::Io { path, source }),
        };
        Ok(Self {
            path,
            file: RwLock::new(file),
            writing: Mutex::default(),
            alone: Mutex::new(alone),
        })
    }

    /// Another name server may have the file from now on: nothing is written any more.
    pub(super) fn leave(&self) {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// One value.
    pub(super) fn get(&self, namespace: &str, key: &str) -> Option<String> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        file.config_table.get(namespace)?.get(key).cloned()
    }

    /// All values of a namespace.
    pub(super) fn namespace(&self, namespace: &str) -> Option<KvTable> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let table = file.config_table.get(namespace)?.clone();
        Some(KvTable { table })
    }

    /// Changes the table: on disk first, so that an answered change is a kept one. Blocks on the disk.
    fn change(&self, change: impl FnOnce(&mut Table)) -> Result<(), Refusal> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = File::default();
        {
            let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
            changed.config_table.clone_from(&file.config_table);
            change(&mut changed.config_table);
            if changed.config_table == file.config_table {
                return Ok(());
            }
        }
        let entries = changed.config_table.values().flatten();
        if entries.map(|(key, value)| key.len() + value.len()).sum::<usize>() > MAX_BYTES {
            let text = format!("the KV store may hold {MAX_BYTES} bytes");
            return Err(Refusal::new(codes::SYSTEM_ERROR, text));
        }
        config_file::replace(&self.path, &json::to_vec(&changed))
            .map_err(|e| Refusal::new(codes::SYSTEM_ERROR, e.to_string()))?;
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = changed;
        Ok(())
    }
}

/// Sets one value.
pub async fn put(role: &Arc<Namesrv>, peer: &Peer, header: PutKvConfig, (): ()) -> Handled<PutKvConfig> {
    role.may_write(peer)?;
    let (Some(namespace), Some(key)) = (header.namespace, header.key) else {
        return Err(Refusal::new(codes::SYSTEM_ERROR, "namespace or key is null"));
    };
    check_name("namespace", &namespace)?;
    check_name("key", &key)?;
    // Java's map takes a null value, which then reads as absent.
    let value = header.value.unwrap_or_default();
    tracing::info!(peer = %peer.remote(), namespace, key, value, "KV set");
    let owner = Arc::clone(role);
    blocking(move || {
        owner
            .kv
            .change(|table| drop(table.entry(namespace).or_default().insert(key, value)))
    })
    .await?;
    Ok(Answer::ok((), ()))
}

/// One value.
pub async fn get(role: &Arc<Namesrv>, _: &Peer, header: GetKvConfig, (): ()) -> Handled<GetKvConfig> {
    let (namespace, key) = (header.namespace.as_deref(), header.key.as_deref());
    let value = namespace.zip(key).and_then(|(n, k)| role.kv.get(n, k));
    if value.is_some() {
        return Ok(Answer::ok(GetKvConfigReply { value }, ()));
    }
    let (namespace, key) = (namespace.unwrap_or("null"), key.unwrap_or("null"));
    let remark = format!("No config item, Namespace: {namespace} Key: {key}");
    Err(Refusal::new(codes::QUERY_NOT_FOUND, remark))
}

/// Removes one value; success also when there is none.
pub async fn delete(
    role: &Arc<Namesrv>,
    peer: &Peer,
    header: DeleteKvConfig,
    (): (),
) -> Handled<DeleteKvConfig> {
    role.may_write(peer)?;
    if let (Some(namespace), Some(key)) = (header.namespace, header.key) {
        tracing::info!(peer = %peer.remote(), namespace, key, "KV removed");
        let owner = Arc::clone(role);
        blocking(move || {
            owner.kv.change(|table| {
                if let Some(values) = table.get_mut(&namespace) {
                    values.remove(&key);
                }
            })
        })
        .await?;
    }
    Ok(Answer::ok((), ()))
}

/// All values of a namespace.
pub async fn list(
    role: &Arc<Namesrv>,
    _: &Peer,
    header: GetKvlistByNamespace,
    (): (),
) -> Handled<GetKvlistByNamespace> {
    let namespace = header.namespace.as_deref();
    if let Some(table) = namespace.and_then(|n| role.kv.namespace(n)) {
        return Ok(Answer::ok((), Json::new(table)));
    }
    let remark = format!("No config item, Namespace: {}", namespace.unwrap_or("null"));
    Err(Refusal::new(codes::QUERY_NOT_FOUND, remark))
}
