//! Screen 3: every broker on a line.

use super::cell::{self, Grade};
use super::theme::Role;
use super::{age_ms, text};
use crate::client::RuntimeInfo;
use crate::client::findings::Subject;
use crate::client::liveness::{self, Beat};
use crate::client::skew::Skew;
use crate::client::snapshot::{BrokerState, RegistrationAge, Snapshot};
use crate::tui::app::App;
use crate::tui::history::Series;
use crate::tui::table::{Cell, Row, Table};

/// Columns of every broker table, then those of the wide one.
const COLUMNS: [(&str, bool, u8); 13] = [
    ("NAME", false, 0),
    ("ID", true, 0),
    ("ROLE", false, 7),
    ("ADDR", false, 6),
    ("VER", false, 8),
    ("IN/s", true, 0),
    ("OUT/s", true, 0),
    ("DISK", true, 1),
    ("POOL", true, 5),
    ("P99", true, 3),
    ("SYNC", false, 4),
    ("BEAT", false, 0),
    ("FLUSH", false, 9),
];
const WIDE: [(&str, bool, u8); 8] = [
    ("RTT", true, 10),
    ("BOOT", true, 10),
    ("PUT TODAY", true, 11),
    ("AVG SIZE", true, 12),
    ("MISS/s", true, 12),
    ("LOCK", true, 13),
    ("BEHIND", true, 11),
    ("CLUSTER", false, 13),
];

/// The table.
pub fn table(app: &App) -> Table {
    let snapshot = &app.shown().snapshot;
    let wide = app.wide || app.size.0 >= super::layout::WIDE;
    let mut table = if wide {
        Table::new(COLUMNS.into_iter().chain(WIDE))
    } else {
        Table::new(COLUMNS)
    };
    for broker in &snapshot.brokers {
        let mut cells = usual(app, snapshot, broker);
        if wide {
            cells.extend(more(app, broker));
        }
        table.rows.push(Row {
            id: format!("{}/{}", broker.broker.cluster, broker.broker),
            name: broker.broker.name.clone(),
            subject: Some(Subject::Broker(broker.broker.clone())),
            cells,
        });
    }
    table
}

/// `V5_3_3` as people write it.
pub fn version(info: &RuntimeInfo) -> Option<String> {
    let version = info.version.as_deref()?;
    Some(version.strip_prefix('V').unwrap_or(version).replace('_', "."))
}

fn usual(app: &App, snapshot: &Snapshot, broker: &BrokerState) -> Vec<Cell> {
    let now = app.shown_ms();
    let runtime = &broker.runtime;
    let series = app.shown().broker_series.get(&broker.broker);
    let rate = |series: Option<&Series>| {
        cell::value(runtime, now, |_| {
            let rate = series?.last()?;
            Some(Cell::count("", rate))
        })
    };
    let master = broker.broker.is_master();
    vec![
        Cell::text(&broker.broker.name),
        Cell::number(broker.broker.id.to_string(), broker.broker.id as f64),
        Cell::text(if master { "master" } else { "slave" }),
        Cell::text(&broker.addr),
        cell::value(runtime, now, |r| version(r).map(Cell::text)),
        rate(series.map(|s| &s.put)),
        rate(series.map(|s| &s.get)),
        cell::value(runtime, now, disk),
        cell::value(runtime, now, |r| {
            let (send, pull) = (r.send_pool.size?, r.pull_pool.size?);
            Some(Cell::number(format!("{send}/{pull}"), (send + pull) as f64))
        }),
        cell::value(runtime, now, |r| {
            let p99 = r.put_p99_ms?;
            Some(Cell::number(format!("{p99:.0}ms"), p99))
        }),
        sync(snapshot, broker, now),
        beat(snapshot, broker),
        cell::value(&broker.config, now, |c| {
            let flush = c.flush.as_deref()?;
            let safe = flush == "SYNC_FLUSH" && c.role.as_deref() == Some("SYNC_MASTER");
            let word = flush.strip_suffix("_FLUSH").unwrap_or(flush);
            Some(if safe {
                // Flushed and replicated before a send is acknowledged.
                Cell::of(format!("{word}+"), Role::Ok)
            } else {
                Cell::text(word)
            })
        }),
    ]
}

/// Now, by the clock of a broker.
pub fn broker_now(info: &RuntimeInfo, now_ms: i64) -> i64 {
    now_ms.saturating_add(info.clock.map_or(0, Skew::least))
}

fn more(app: &App, broker: &BrokerState) -> Vec<Cell> {
    let now = app.shown_ms();
    let runtime = &broker.runtime;
    vec![
        cell::value(&broker.rtt, now, |rtt| {
            let ms = rtt.as_secs_f64() * 1000.0;
            Some(Cell::number(text::latency(ms), ms))
        }),
        cell::value(runtime, now, |r| {
            let up = age_ms(broker_now(r, now), r.boot_ms?);
            Some(Cell::number(text::age(up), up as f64))
        }),
        cell::value(runtime, now, |r| {
            let n = r.put_today? as f64;
            Some(Cell::count("", n))
        }),
        cell::value(runtime, now, |r| {
            let n = r.put_average_bytes?;
            Some(Cell::number(text::bytes(n.max(0.0) as u64), n))
        }),
        cell::value(runtime, now, |r| {
            let n = r.miss_tps.s10?;
            Some(Cell::count("", n))
        }),
        cell::value(runtime, now, |r| {
            let ms = r.page_cache_lock_ms?;
            Some(Cell::number(format!("{ms}ms"), ms as f64))
        }),
        cell::value(runtime, now, |r| {
            let n = r.dispatch_behind_bytes?;
            Some(Cell::number(text::bytes(u64::try_from(n).unwrap_or(0)), n as f64))
        }),
        Cell::text(&broker.broker.cluster),
    ]
}

/// Fullest of the two disks, with a sign from the thresholds of the health rules on.
fn disk(info: &RuntimeInfo) -> Option<Cell> {
    let ratios = [info.commit_log_disk_ratio, info.consume_queue_disk_ratio];
    let used = ratios.into_iter().flatten().reduce(f64::max)?;
    let (sign, role) = match used {
        u if u >= 0.85 => ("✗", Role::Crit),
        u if u >= 0.70 => ("!", Role::Warn),
        _ => ("", Role::Plain),
    };
    Some(Cell::of(format!("{:.0}%{sign}", used * 100.0), role).by(used))
}

/// In-sync and known slaves of a master; bytes behind the master of a slave.
fn sync(snapshot: &Snapshot, broker: &BrokerState, now: i64) -> Cell {
    let same_name =
        |b: &&BrokerState| b.broker.cluster == broker.broker.cluster && b.broker.name == broker.broker.name;
    if broker.broker.is_master() {
        let listed = snapshot
            .brokers
            .iter()
            .filter(same_name)
            .count()
            .saturating_sub(1);
        return cell::of_broker(broker, &broker.ha, now, |ha| {
            let known = listed.max(ha.slaves.len());
            let role = if known > 0 && ha.in_sync == 0 {
                Role::Crit
            } else {
                Role::Plain
            };
            Some(Cell::of(format!("{}/{known}", ha.in_sync), role).by(ha.in_sync as f64))
        });
    }
    let Some(master) = snapshot
        .brokers
        .iter()
        .filter(same_name)
        .find(|b| b.broker.is_master())
    else {
        return Cell::of("no master", Role::Crit);
    };
    let host = |addr: &str| addr.rsplit_once(':').map_or(addr, |(h, _)| h).to_owned();
    cell::of_broker(master, &master.ha, now, |ha| {
        // A slave's connection comes from another port of its address; with two on one address we cannot tell.
        let mut same = ha.slaves.iter().filter(|s| host(&s.addr) == host(&broker.addr));
        let slave = same.next().filter(|_| same.next().is_none())?;
        let behind = u64::try_from(slave.behind_bytes).unwrap_or(0);
        Some(Cell::number(format!("Δ {}", text::bytes(behind)), behind as f64))
    })
}

/// The oldest registration any name server knows.
fn beat(snapshot: &Snapshot, broker: &BrokerState) -> Cell {
    let mut worst: Option<(f64, Cell)> = None;
    for (server, registration) in snapshot.name_servers.iter().zip(&broker.registrations) {
        let beat = liveness::beat(server, broker, registration, snapshot.taken_at_ms);
        let (sign, role) = match beat {
            Beat::Ok => ("", Role::Plain),
            Beat::Late { .. } => ("!", Role::Warn),
            Beat::Silent { .. } | Beat::Gone => ("✗", Role::Crit),
            Beat::Unknown => continue,
        };
        let (age, text) = match (beat, registration.age) {
            (Beat::Gone, _) => (f64::MAX, "GONE".to_owned()),
            (_, RegistrationAge::Exact(age)) => (age.as_secs_f64(), format!("{}s", age.as_secs())),
            (_, RegistrationAge::Between(low, _)) => (low.as_secs_f64(), format!("{}s~", low.as_secs())),
            (_, RegistrationAge::Answering) => (0.0, "~".to_owned()),
            (_, RegistrationAge::Unknown) => continue,
        };
        if worst.as_ref().is_none_or(|(w, _)| age > *w) {
            worst = Some((age, Cell::of(format!("{text}{sign}"), role).by(age)));
        }
    }
    let failed = cell::grade(&broker.runtime, snapshot.taken_at_ms) == Grade::Failed;
    match worst {
        Some((_, cell)) => cell,
        None if failed => Cell::failed(),
        None => Cell::unknown(),
    }
}
