//! Deletes what expired, and watches how full the disk is.
//!
//! One thread does both, but never deletes more than one file between two looks at the disk, so refusing and taking
//! writes again is not held up by a long deletion.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use super::disk;
use super::health::Block;
use super::segments::LogBytes;
use super::shared::Shared;
use super::{Error, StoreConfig};

/// The first deletions come this long after the start, as in Java.
const FIRST: Duration = Duration::from_secs(60);

/// How many rounds delete whatever the hour after an operator asked for it, as in Java.
pub const MANUAL_ROUNDS: u32 = 20;

/// The three levels of disk use, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Levels {
    clean: f64,
    force: f64,
    refuse: f64,
}

impl Levels {
    /// From the configuration, within the bounds that Java has.
    fn of(config: &StoreConfig) -> Self {
        let share = |percent: u32, low, high| f64::from(percent.clamp(low, high)) / 100.0;
        Self {
            clean: share(config.disk_max_used_space_ratio, 10, 95),
            force: share(config.disk_space_clean_forcibly_ratio, 30, 85),
            refuse: share(config.disk_space_warning_level_ratio, 35, 90),
        }
    }
}

/// Body of the thread.
pub fn run(shared: &Shared) {
    let first = Instant::now() + FIRST;
    loop {
        let config = shared.config.load_full();
        let interval = Duration::from_millis(config.clean_resource_interval.max(1));
        check_disk(shared);
        let manual = shared
            .manual_rounds
            .fetch_update(Relaxed, Relaxed, |rounds| rounds.checked_sub(1))
            .is_ok();
        if manual || Instant::now() >= first {
            let pause = Duration::from_millis(config.delete_commit_log_files_interval);
            for _ in 0..config.delete_file_batch_max {
                match delete_one(shared, SystemTime::now(), manual || is_time(&config)) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) => {
                        tracing::error!("{e}");
                        break;
                    }
                }
                if shared.stop.sleep(pause) {
                    return;
                }
                check_disk(shared);
            }
        }
        if shared.stop.sleep(interval) {
            return;
        }
    }
}

/// Refuses writes while the disk is too full, and takes them again when it is not.
pub fn check_disk(shared: &Shared) {
    reserve_rest(shared);
    let config = shared.config.load();
    let levels = Levels::of(&config);
    let mut full = None;
    for dir in [config.commit_log_dir(), config.consume_queue_dir()] {
        match disk::usage(&dir) {
            Ok(usage) if usage.ratio > levels.refuse && full.is_none() => full = Some((dir, usage)),
            Ok(_) => {}
            Err(e) => tracing::warn!("{e}"),
        }
    }
    match full {
        Some((dir, usage)) => {
            let reason = format!(
                "disk of {} is {:.1} % full, writes are refused from {:.0} % on",
                dir.display(),
                usage.ratio * 100.0,
                levels.refuse * 100.0
            );
            if shared.health.block(Block::DiskFull, reason.clone()) {
                tracing::error!("{reason}");
            }
        }
        None => {
            if shared.health.unblock(Block::DiskFull) {
                tracing::info!("the disk has room again, writes are taken");
            }
        }
    }
}

/// Gives the last segment the space that it could not get at the start, and takes writes once it has it.
fn reserve_rest(shared: &Shared) {
    let reason = match shared.log.reserve_rest() {
        Ok(true) => {
            if shared.health.unblock(Block::NoRoom) {
                tracing::info!("the commit log has room again, writes are taken");
            }
            return;
        }
        Ok(false) => "no space left for the last commit log segment".to_owned(),
        Err(e) => e.to_string(),
    };
    if shared.health.block(Block::NoRoom, reason.clone()) {
        tracing::error!("{reason}; writes are refused until there is");
    }
}

/// True during the hours in which expired files are deleted.
fn is_time(config: &StoreConfig) -> bool {
    let hour = jiff::tz::TimeZone::system()
        .to_datetime(jiff::Timestamp::now())
        .hour();
    config
        .delete_when
        .split(';')
        .any(|when| when.trim().parse() == Ok(hour))
}

/// Deletes the oldest commit log segment if it may or must go; then what only it needed. True when one was deleted.
pub fn delete_one(shared: &Shared, now: SystemTime, is_time: bool) -> Result<bool, Error> {
    let config = shared.config.load();
    let levels = Levels::of(&config);
    let ratio = disk::usage(&config.commit_log_dir())?
        .ratio
        .max(disk::usage(&config.consume_queue_dir())?.ratio);
    let force = config.clean_file_forcibly_enable && ratio > levels.force;
    if !(is_time || ratio > levels.clean || force) {
        return Ok(false);
    }
    let segments = shared.log.segments().all();
    let Some(oldest) = segments.first().filter(|_| segments.len() > 1) else {
        return Ok(false);
    };
    let expired = is_expired(oldest.path(), now, config.file_reserved_time);
    if !expired && !force {
        return Ok(false);
    }
    let path = oldest.path().to_owned();
    let Some(start) = shared.log.delete_oldest()? else {
        return Ok(false);
    };
    if expired {
        tracing::info!("{}: expired, deleted", path.display());
    } else {
        tracing::error!(
            "{}: deleted before its time, since the disk is {:.1} % full; what was not consumed of it is lost",
            path.display(),
            ratio * 100.0
        );
    }
    let gone = follow(shared, start)?;
    if !expired {
        shared.tell_of_loss(&gone);
    }
    Ok(true)
}

/// Entries of a queue whose records were deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The topic.
    pub topic: String,
    /// Number of the queue.
    pub queue_id: i32,
    /// First queue offset that is gone.
    pub from: i64,
    /// Queue offset behind the last one.
    pub to: i64,
}

/// Lets queues and index follow the new start of the log. Returns what the queues lost.
pub fn follow(shared: &Shared, start: u64) -> Result<Vec<Lost>, Error> {
    let mut gone = Vec::new();
    let pause = Duration::from_millis(shared.config.load().delete_consume_queue_files_interval);
    for queue in shared.queues.all() {
        let from = queue.min();
        let deleted = queue.expire(start as i64).unwrap_or_else(|e| {
            tracing::error!("{e}");
            0
        });
        let to = queue.min();
        if to > from {
            let name = queue.name();
            gone.push(Lost {
                topic: name.topic.clone(),
                queue_id: name.queue_id,
                from,
                to,
            });
        }
        if deleted > 0 && shared.stop.sleep(pause) {
            break;
        }
    }
    let end = shared.log.segments().end();
    shared.batches.fit(start as i64, end as i64);
    shared.index.expire(start as i64)?;
    Ok(gone)
}

/// True when the file was last written to longer ago than files are kept.
fn is_expired(path: &std::path::Path, now: SystemTime, hours: u64) -> bool {
    let kept = Duration::from_secs(hours.saturating_mul(3600));
    std::fs::metadata(path)
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|written| written.checked_add(kept))
        .is_some_and(|until| until < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_stay_within_javas_bounds() {
        let levels = Levels::of(&StoreConfig::default());
        assert_eq!((levels.clean, levels.force, levels.refuse), (0.75, 0.85, 0.9));
        let odd = StoreConfig {
            disk_max_used_space_ratio: 0,
            disk_space_clean_forcibly_ratio: 99,
            disk_space_warning_level_ratio: 99,
            ..StoreConfig::default()
        };
        let levels = Levels::of(&odd);
        assert_eq!((levels.clean, levels.force, levels.refuse), (0.1, 0.85, 0.9));
    }

    #[test]
    fn a_file_expires_by_its_modification_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let now = SystemTime::now();
        assert!(!is_expired(file.path(), now, 1));
        assert!(is_expired(file.path(), now + Duration::from_secs(3700), 1));
        assert!(!is_expired(file.path(), now, u64::MAX));
    }
}
