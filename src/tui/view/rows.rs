//! What the rows of each pane say, as values; drawing them is [`super::grid`]'s job.

use std::time::Duration;

use super::bar::{self, Base, Silence};
use super::text;
use super::theme::Role;
use super::{age_ms, cell, groups};
use crate::client::admin::group::is_system;
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::liveness::{self, Beat};
use crate::client::snapshot::{
    BrokerState, NameServerState, Registration, RegistrationAge, Snapshot, TopicKind, TopicState,
};
use crate::tui::app::{App, Pane};
use crate::tui::history;
use crate::tui::model::Model;
use crate::tui::table::{Cell, Key, Row, Table};
use crate::tui::{dead, messages};

/// Values of a configuration whose names contain one of these are not shown.
const SECRETS: [&str; 4] = ["secret", "password", "accesskey", "credential"];

/// Rows of a pane in their natural order; panes of free text have none.
pub fn of(app: &App, pane: Pane) -> Table {
    match pane {
        Pane::Health => health(app),
        Pane::Beats => beats(app),
        Pane::TopTopics => top_topic_rows(app),
        Pane::WorstLag => worst_lag(app),
        Pane::NameServers => name_servers(app),
        Pane::Registrations => registrations(app),
        Pane::Log => log(app),
        Pane::Brokers => super::brokers::table(app),
        Pane::Replication => super::broker_detail::slaves(app),
        Pane::Config => config(app),
        Pane::Topics => super::topics::table(app),
        Pane::TopicQueues => super::topic::queues(app),
        Pane::TopicGroups => super::topic::groups(app),
        Pane::Groups => super::groups::table(app),
        Pane::GroupQueues => super::group::queues(app),
        Pane::GroupClients => super::group::clients(app),
        Pane::Messages => messages::rows::messages(app),
        Pane::Detail => messages::rows::detail(app),
        Pane::Body => messages::rows::body(app),
        Pane::Way => messages::rows::way(app),
        Pane::DeadGroups => dead::rows::groups(app),
        Pane::Letters => dead::rows::letters(app),
        Pane::Positions => super::offsets::positions(app),
        Pane::Preview => super::offsets::preview(app),
        Pane::Traffic
        | Pane::Runtime
        | Pane::Latency
        | Pane::Flows
        | Pane::Scaling
        | Pane::GroupChart
        | Pane::Plan
        | Pane::Effect => Table::default(),
        Pane::Store(_) => crate::tui::store::rows::of(app, pane),
    }
}

/// True for the panes that the filter of their screen applies to. That of messages looks into them, not at their rows.
pub fn filtered(app: &App, pane: Pane) -> bool {
    match pane {
        // It is about the rows of the list, not about what lies beside it.
        _ if !app.place.screen.panes().contains(&pane) => false,
        Pane::Health | Pane::NameServers | Pane::DeadGroups => false,
        Pane::Detail | Pane::Body | Pane::Way | Pane::Letters => false,
        Pane::Messages => app.place.topic().is_none(),
        _ => true,
    }
}

/// Glyph and role of a severity.
pub const fn severity(severity: Severity) -> (&'static str, Role) {
    match severity {
        Severity::Critical => ("✗", Role::Crit),
        Severity::Warning => ("!", Role::Warn),
        Severity::Info => ("·", Role::Plain),
    }
}

fn health(app: &App) -> Table {
    let mut table = Table::new([("", false, 0), ("WHAT", false, 0), ("DETAIL", false, 1)]);
    let model = app.shown();
    for finding in &model.findings {
        let (text, detail) = finding_texts(&model.snapshot, finding);
        let (glyph, role) = severity(finding.severity);
        let rank = match finding.severity {
            Severity::Critical => 0.0,
            Severity::Warning => 1.0,
            Severity::Info => 2.0,
        };
        table.rows.push(Row {
            id: format!("{}{:?}", finding.rule, finding.subject),
            name: finding.text.clone(),
            subject: Some(finding.subject.clone()),
            cells: vec![
                Cell::of(glyph, role).by(rank),
                Cell::of(text, role),
                Cell::text(detail.unwrap_or_default()),
            ],
        });
    }
    table
}

/// Text and detail of a finding, with the short names that the tables have for the name servers.
pub fn finding_texts(snapshot: &Snapshot, finding: &Finding) -> (String, Option<String>) {
    // What a finding is about keeps its address.
    let about = match &finding.subject {
        Subject::NameServer(addr) => addr.as_str(),
        _ => "",
    };
    let short = |text: &str| {
        let servers = snapshot.name_servers.iter().enumerate();
        servers
            .filter(|(_, s)| s.addr != about)
            .fold(text.to_owned(), |text, (i, s)| {
                text.replace(&s.addr, &format!("ns{}", i + 1))
            })
    };
    (short(&finding.text), finding.detail.as_deref().map(short))
}

/// What a name server is: only ours tells exact ages.
pub fn kind(server: &NameServerState) -> &'static str {
    match server.cluster.get() {
        Some(table) if table.live.is_some() => "rmq",
        Some(_) => "java",
        None => "?",
    }
}

/// The silence that a registration stands for, as a bar draws it.
fn silence(broker: &BrokerState, registration: &Registration) -> Option<Silence> {
    let (low, high) = match registration.age {
        RegistrationAge::Exact(age) => (age, age),
        RegistrationAge::Between(low, high) => (low, high),
        RegistrationAge::Answering | RegistrationAge::Unknown => return None,
    };
    Some(Silence {
        low_ms: ms(low),
        high_ms: ms(high),
        period_ms: ms(liveness::period(broker)),
        limit_ms: ms(liveness::limit(registration)),
    })
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `12 =`, `~`, `41..71~`, `?`, `–`.
fn age(registration: &Registration) -> Cell {
    if registration.listed == Some(false) {
        return Cell::none();
    }
    match registration.age {
        RegistrationAge::Exact(age) => Cell::number(format!("{} =", age.as_secs()), age.as_secs_f64()),
        RegistrationAge::Answering => Cell::text("~").by(0.0),
        RegistrationAge::Between(low, high) => Cell::number(
            format!("{}..{}~", low.as_secs(), high.as_secs()),
            low.as_secs_f64(),
        ),
        RegistrationAge::Unknown => Cell::unknown(),
    }
}

/// Cells of a bar in the overview: what is left beside the fixed columns, shared by the name servers.
fn beat_cells(columns: usize, servers: usize) -> usize {
    let each = columns.saturating_sub(44) / servers.max(1);
    match each.saturating_sub(9) {
        0..8 => 0,
        room => room.min(32) / 4 * 4,
    }
}

fn role_name(broker: &BrokerState) -> &'static str {
    if broker.broker.is_master() {
        "master"
    } else {
        "slave"
    }
}

fn beats(app: &App) -> Table {
    let snapshot = &app.shown().snapshot;
    let servers = &snapshot.name_servers;
    let cells = beat_cells(usize::from(app.size.0).saturating_sub(4), servers.len());
    let mut columns = vec![
        ("BROKER".to_owned(), false, 0),
        ("ID".to_owned(), true, 0),
        ("ROLE".to_owned(), false, 5),
    ];
    for (index, server) in servers.iter().enumerate() {
        let name = if app.size.0 < 96 {
            format!("ns{} ({})", index + 1, kind(server))
        } else {
            format!("ns{} {} ({})", index + 1, server.addr, kind(server))
        };
        columns.push((name, false, 0));
    }
    columns.push(("DIRECT".to_owned(), true, 1));
    columns.push(("ROUTES".to_owned(), false, 3));
    let mut table = Table::new(columns);
    for broker in &snapshot.brokers {
        let mut row = vec![
            Cell::text(&broker.broker.name),
            Cell::number(broker.broker.id.to_string(), broker.broker.id as f64),
            Cell::text(role_name(broker)),
        ];
        for (server, registration) in servers.iter().zip(&broker.registrations) {
            row.push(beat_cell(
                broker,
                server,
                registration,
                cells,
                snapshot.taken_at_ms,
            ));
        }
        row.push(direct(app, broker));
        row.push(routes(broker));
        table.rows.push(Row {
            id: format!("{}/{}", broker.broker.cluster, broker.broker),
            name: broker.broker.name.clone(),
            subject: Some(Subject::Broker(broker.broker.clone())),
            cells: row,
        });
    }
    table
}

fn beat_cell(
    broker: &BrokerState,
    server: &NameServerState,
    registration: &Registration,
    cells: usize,
    now_ms: i64,
) -> Cell {
    let beat = liveness::beat(server, broker, registration, now_ms);
    let role = beat_role(beat);
    match registration.listed {
        None if server.cluster.is_unasked() => return Cell::unknown(),
        None => return Cell::failed(),
        Some(false) => return Cell::of("✗ not listed", Role::Crit),
        Some(true) => {}
    }
    match (silence(broker, registration), registration.age) {
        (Some(silence), RegistrationAge::Exact(age)) => {
            let mut pieces = if cells > 0 {
                bar::heartbeat(silence, cells)
            } else {
                Vec::new()
            };
            pieces.push((format!("{:>4} =", age.as_secs()), role));
            if let Beat::Late { .. } = beat {
                pieces.push((" !".to_owned(), role));
            } else if let Beat::Silent { .. } = beat {
                pieces.push((" ✗".to_owned(), role));
            }
            Cell {
                pieces,
                key: Key::Number(age.as_secs_f64()),
            }
        }
        (Some(_), RegistrationAge::Between(low, high)) => {
            let text = format!("listed, silent {}..{}s ~", low.as_secs(), high.as_secs());
            Cell::of(text, role).by(low.as_secs_f64())
        }
        (_, RegistrationAge::Answering) => Cell::of("listed, answers ✓", role).by(0.0),
        _ => Cell::of("listed, never answered ?", Role::Warn),
    }
}

/// Our own probe: round trip, or how long there was no answer.
fn direct(app: &App, broker: &BrokerState) -> Cell {
    if let Some(rtt) = broker.rtt.fresh() {
        let ms = rtt.as_secs_f64() * 1000.0;
        return Cell::number(text::latency(ms), ms);
    }
    if broker.runtime.is_unasked() {
        return Cell::unknown();
    }
    if broker.refusal().is_some() {
        return super::cell::failure(broker.runtime.error.as_deref());
    }
    match broker.last_answer_ms {
        Some(at) => {
            let silent = age_ms(app.shown_ms(), at);
            Cell::of(format!("✗ {}", text::age(silent)), Role::Crit).by(silent as f64)
        }
        None => Cell::failed(),
    }
}

/// Do the name servers route the broker alike?
fn routes(broker: &BrokerState) -> Cell {
    let asked: Vec<(usize, &Registration)> = broker
        .registrations
        .iter()
        .enumerate()
        .filter(|(_, r)| r.listed.is_some())
        .collect();
    if broker.registrations.len() < 2 {
        return Cell::none();
    }
    if asked.len() < 2 {
        return Cell::unknown();
    }
    if let Some((index, _)) = asked.iter().find(|(_, r)| r.listed == Some(false)) {
        return Cell::of(format!("not on ns{}", index + 1), Role::Crit);
    }
    let older = asked
        .iter()
        .find(|(index, _)| liveness::behind(&broker.registrations, *index).is_some());
    match older {
        Some((index, _)) => Cell::of(format!("ns{} older", index + 1), Role::Warn),
        None => Cell::text("same"),
    }
}

const fn beat_role(beat: Beat) -> Role {
    match beat {
        Beat::Ok => Role::Ok,
        Beat::Late { .. } => Role::Warn,
        Beat::Silent { .. } | Beat::Gone => Role::Crit,
        Beat::Unknown => Role::Plain,
    }
}

/// Cells of a bar on the heartbeats screen.
fn registration_cells(columns: u16) -> usize {
    match columns {
        0..76 => 0,
        76..100 => 12,
        100..110 => 20,
        110..150 => 32,
        _ => 60,
    }
}

fn registrations(app: &App) -> Table {
    let snapshot = &app.shown().snapshot;
    let cells = registration_cells(app.size.0);
    let mut table = Table::new([
        ("BROKER".to_owned(), false, 0),
        ("ADDR".to_owned(), false, 5),
        ("NS".to_owned(), false, 0),
        ("AGE".to_owned(), true, 0),
        (scale(snapshot, cells), false, 3),
        ("DVER".to_owned(), true, 4),
        ("STATE".to_owned(), false, 0),
    ]);
    for broker in &snapshot.brokers {
        for (index, (server, registration)) in snapshot
            .name_servers
            .iter()
            .zip(&broker.registrations)
            .enumerate()
        {
            let beat = liveness::beat(server, broker, registration, snapshot.taken_at_ms);
            let role = beat_role(beat);
            let bar = match (silence(broker, registration), registration.age) {
                (Some(silence), _) if registration.listed == Some(true) => Cell {
                    pieces: if cells > 0 {
                        bar::heartbeat(silence, cells)
                    } else {
                        Vec::new()
                    },
                    key: Key::Number(silence.low_ms as f64),
                },
                (_, RegistrationAge::Answering) => Cell::text("listed, answers").by(0.0),
                _ => Cell::none(),
            };
            let version = match registration.data_version {
                Some(version) => Cell::number(format!("c{}", version.counter), version.counter as f64),
                None => Cell::unknown(),
            };
            table.rows.push(Row {
                id: format!("{}/{} {}", broker.broker.cluster, broker.broker, server.addr),
                name: broker.broker.name.clone(),
                subject: Some(Subject::Broker(broker.broker.clone())),
                cells: vec![
                    Cell::text(broker.broker.to_string()),
                    Cell::text(&broker.addr),
                    Cell::text(format!("ns{}", index + 1)),
                    age(registration),
                    bar,
                    version,
                    Cell::of(state(snapshot, broker, index, beat), role),
                ],
            });
        }
    }
    table
}

/// The heading above the bars: seconds at the marks.
fn scale(snapshot: &Snapshot, cells: usize) -> String {
    let first = snapshot.brokers.first();
    let registration = first.and_then(|b| b.registrations.first());
    let period = first.map_or(liveness::DEFAULT_PERIOD, liveness::period);
    let limit = registration.map_or(liveness::DEFAULT_LIMIT, liveness::limit);
    if cells == 0 {
        return "BAR".to_owned();
    }
    let silence = Silence {
        low_ms: 0,
        high_ms: 0,
        period_ms: ms(period),
        limit_ms: ms(limit),
    };
    let (period_at, half_at, limit_at) = bar::mark_columns(silence, cells);
    let mut line = "0".to_owned();
    let marks = [
        (period_at, period.as_secs()),
        (half_at, limit.as_secs() / 2),
        (Some(limit_at), limit.as_secs()),
    ];
    for (at, seconds) in marks {
        let Some(at) = at else { continue };
        let label = seconds.to_string();
        // Centred under nothing: a label ends at its mark, so that the last one does not stick out.
        let from = (at + 1).saturating_sub(label.len());
        if from > line.len() {
            line.push_str(&" ".repeat(from - line.len()));
            line.push_str(&label);
        }
    }
    line
}

/// `✓ ok`, `! LATE 1 missed`, `✗ SILENT out 49..84s`, `✗ GONE`, `! BEHIND ns1`.
fn state(snapshot: &Snapshot, broker: &BrokerState, index: usize, beat: Beat) -> String {
    let newer = liveness::behind(&broker.registrations, index)
        .and_then(|addr| snapshot.name_servers.iter().position(|s| s.addr == addr));
    match (beat, newer) {
        (Beat::Ok, Some(newer)) => format!("! BEHIND ns{}", newer + 1),
        (Beat::Ok, None) if broker.is_silent() => "! ok, no direct answer".to_owned(),
        (Beat::Ok, None) => "✓ ok".to_owned(),
        (Beat::Late { missed }, _) => format!("! LATE {missed} missed"),
        (Beat::Silent { out_from, out_to }, _) => {
            let age = match broker.registrations.get(index).map(|r| r.age) {
                Some(RegistrationAge::Exact(age)) => Some(age),
                _ => None,
            };
            match age {
                // One beat is missing so far, and nobody answers.
                Some(age) if age < liveness::period(broker).saturating_mul(2) => {
                    format!("✗ LATE 1 missed, out in {}s", out_from.as_secs())
                }
                Some(_) => format!("✗ SILENT out in {}s", out_from.as_secs()),
                None => format!("✗ SILENT out {}..{}s", out_from.as_secs(), out_to.as_secs()),
            }
        }
        (Beat::Gone, _) => "✗ GONE".to_owned(),
        (Beat::Unknown, _) => match snapshot.name_servers.get(index) {
            Some(server) if server.cluster.is_failed() => "? name server down".to_owned(),
            Some(server) if server.cluster.is_unasked() => "?".to_owned(),
            _ => "? never answered".to_owned(),
        },
    }
}

fn name_servers(app: &App) -> Table {
    let model = app.shown();
    let snapshot = &model.snapshot;
    let mut table = Table::new([
        ("NS", false, 0),
        ("ADDRESS", false, 0),
        ("KIND", false, 3),
        ("UP", false, 0),
        ("RTT", true, 2),
        ("BROKERS", true, 1),
        ("TOPICS", true, 4),
        ("SCAN", true, 6),
        ("LIMIT", true, 6),
        ("ROUTE HASH", false, 5),
        ("DISAGREES", false, 0),
    ]);
    for (index, server) in snapshot.name_servers.iter().enumerate() {
        let now = app.shown_ms();
        let up = if server.is_up() {
            Cell::of("✓ yes", Role::Ok)
        } else if server.cluster.is_unasked() {
            Cell::unknown()
        } else {
            let why = server.cluster.error.as_deref().unwrap_or("no answer");
            let retry = model
                .retry_at_ms
                .get(&server.addr)
                .map_or_else(String::new, |at| {
                    format!(", retry in {}s", (at.saturating_sub(now).max(0) + 999) / 1000)
                });
            Cell::of(format!("✗ {why}{retry}"), Role::Crit)
        };
        let brokers = cell::value(&server.cluster, now, |t| {
            Some(Cell::number(t.listed.len().to_string(), t.listed.len() as f64))
        });
        let topics = cell::value(&server.topics, now, |t| {
            Some(Cell::number(t.len().to_string(), t.len() as f64))
        });
        let scan = cell::value(&server.config, now, |c| {
            c.scan_interval
                .map(|s| Cell::number(format!("{}s", s.as_secs()), s.as_secs_f64()))
        });
        table.rows.push(Row {
            id: server.addr.clone(),
            name: server.addr.clone(),
            subject: Some(Subject::NameServer(server.addr.clone())),
            cells: vec![
                Cell::text(format!("ns{}", index + 1)),
                Cell::text(&server.addr),
                Cell::text(kind(server)),
                up,
                cell::value(&server.rtt, now, |rtt| {
                    let ms = rtt.as_secs_f64() * 1000.0;
                    Some(Cell::number(text::latency(ms), ms))
                }),
                brokers,
                topics,
                scan,
                server_limit(server),
                route_hash(app, server),
                disagrees(app, index),
            ],
        });
    }
    table
}

/// The shortest limit the name server told; the usual one is marked as an assumption.
fn server_limit(server: &NameServerState) -> Cell {
    let live = server.cluster.get().and_then(|t| t.live.as_ref());
    match live.into_iter().flatten().filter_map(|l| l.limit).min() {
        Some(limit) => Cell::number(format!("{}s", limit.as_secs()), limit.as_secs_f64()),
        None if server.is_up() => {
            let limit = liveness::DEFAULT_LIMIT.as_secs();
            Cell::number(format!("~{limit}s"), limit as f64)
        }
        None => Cell::unknown(),
    }
}

/// A hash of what the name server lists and, as far as that was looked at, routes; equal on two servers that do the same.
fn route_hash(app: &App, server: &NameServerState) -> Cell {
    let (Some(table), Some(topics)) = (server.cluster.fresh(), server.topics.fresh()) else {
        return Cell::unknown();
    };
    let mut lines: Vec<String> = table
        .listed
        .iter()
        .map(|l| format!("{} {} {}", l.broker.cluster, l.broker, l.addr))
        .collect();
    lines.extend(topics.iter().map(|t| format!("topic {t}")));
    lines.sort_unstable();
    lines.extend(
        app.compared()
            .and_then(|compared| compared.hashes.get(&server.addr))
            .map(|hash| format!("{hash:08x}")),
    );
    let hash = crc32fast::hash(lines.join("\n").as_bytes());
    Cell::text(format!("{hash:08x}"))
}

/// Brokers and topics of one name server that another does not list, and the other way round.
pub fn differences(a: &NameServerState, b: &NameServerState) -> Vec<(bool, String)> {
    let names = |server: &NameServerState| {
        let brokers = server.cluster.fresh().into_iter().flat_map(|t| &t.listed);
        let brokers = brokers.map(|l| format!("broker {} {}", l.broker, l.addr));
        brokers.collect::<std::collections::BTreeSet<_>>()
    };
    let topics = |server: &NameServerState| {
        let topics = server.topics.fresh().into_iter().flatten().cloned();
        topics.collect::<std::collections::BTreeSet<_>>()
    };
    let mut out = Vec::new();
    if a.cluster.fresh().is_some() && b.cluster.fresh().is_some() {
        let (left, right) = (names(a), names(b));
        out.extend(left.difference(&right).map(|n| (true, n.clone())));
        out.extend(right.difference(&left).map(|n| (false, n.clone())));
    }
    if a.topics.fresh().is_some() && b.topics.fresh().is_some() {
        let (left, right) = (topics(a), topics(b));
        out.extend(left.difference(&right).map(|n| (true, format!("topic {n}"))));
        out.extend(right.difference(&left).map(|n| (false, format!("topic {n}"))));
    }
    out
}

/// What two name servers say differently, with what each says: brokers and topics that only one lists, then routes.
pub fn disagreements(
    app: &App,
    (i, a): (usize, &NameServerState),
    (j, b): (usize, &NameServerState),
) -> Vec<(String, String)> {
    let only = |left: bool| format!("only on ns{}", if left { i } else { j } + 1);
    let mut found: Vec<(String, String)> = differences(a, b)
        .into_iter()
        .map(|(left, what)| (what, only(left)))
        .collect();
    if let Some(compared) = app.compared() {
        let says = |left, right| format!("ns{} {left}, ns{} {right}", i + 1, j + 1);
        let routes = compared.between(&a.addr, &b.addr);
        found.extend(routes.map(|(what, left, right)| (what, says(left, right))));
    }
    found
}

fn disagrees(app: &App, index: usize) -> Cell {
    let servers = &app.shown().snapshot.name_servers;
    let server = &servers[index];
    if servers.len() < 2 {
        return Cell::none();
    }
    if !server.is_up() {
        return Cell::unknown();
    }
    let others = servers
        .iter()
        .enumerate()
        .filter(|(i, s)| *i != index && s.is_up());
    let found = others
        .map(|other| (other.0, disagreements(app, (index, server), other)))
        .find(|(_, lines)| !lines.is_empty());
    match (found, app.compared()) {
        (Some((other, lines)), _) => {
            let text = format!("! {} with ns{}: {}", lines.len(), other + 1, lines[0].0);
            Cell::of(text, Role::Warn).by(lines.len() as f64)
        }
        (None, Some(compared)) if compared.is_whole() => Cell::of("✓ no", Role::Ok),
        (None, Some(compared)) => Cell::text(format!("no, {} of {} routes", compared.topics, compared.of)),
        (None, None) => Cell::text("no, routes ?"),
    }
}

fn log(app: &App) -> Table {
    let mut table = Table::new([("TIME", false, 0), ("EVENT", false, 0)]);
    for line in app.shown().log.iter() {
        let (glyph, role) = severity(line.severity);
        table.rows.push(Row {
            id: format!("{} {}", line.at_ms, line.text),
            name: line.text.clone(),
            subject: None,
            cells: vec![
                Cell::text(super::clock(app, line.at_ms)).by(line.at_ms as f64),
                Cell::of(format!("{glyph} {}", line.text), role),
            ],
        });
    }
    table
}

/// User topics by their rate, busiest first; `None` for those of silent brokers alone, which come last.
pub fn top_topics(model: &Model) -> Vec<(&TopicState, Option<f64>)> {
    let topics = model.snapshot.topics.iter().filter(|t| t.kind == TopicKind::User);
    let mut rates: Vec<(&TopicState, Option<f64>)> = topics
        .filter(|t| t.brokers.iter().any(|b| !b.in_tps.is_unasked()))
        .map(|t| {
            let known = t.brokers.iter().filter_map(|b| b.in_tps.fresh());
            (t, known.copied().reduce(|a, b| a + b))
        })
        .collect();
    let rank = |rate: Option<f64>| rate.unwrap_or(-1.0);
    rates.sort_by(|a, b| {
        rank(b.1)
            .total_cmp(&rank(a.1))
            .then_with(|| a.0.name.cmp(&b.0.name))
    });
    rates
}

/// Rows of a ranking that are built at most.
const RANKED: usize = 200;

fn top_topic_rows(app: &App) -> Table {
    let model = app.shown();
    let mut table = Table::new([("TOPIC", false, 0), ("IN/s", true, 0), ("10 MIN", false, 1)]);
    let columns = spark_columns(app, 20);
    for (topic, _) in top_topics(model).into_iter().take(RANKED) {
        let name = &topic.name;
        let series = model.topic_series.get(name);
        let spark = series.map_or_else(String::new, |s| {
            bar::sparkline(s.within(history::TEN_MINUTES_MS), columns, Base::Zero)
        });
        table.rows.push(Row {
            id: name.clone(),
            name: name.clone(),
            subject: Some(Subject::Topic(name.clone())),
            cells: vec![
                Cell::text(name),
                super::topics::rate(topic, app.shown_ms()),
                Cell::of(spark, Role::Data),
            ],
        });
    }
    table
}

fn spark_columns(app: &App, other: u16) -> usize {
    usize::from((app.size.0 / 2).saturating_sub(other + 20).clamp(8, 40))
}

fn worst_lag(app: &App) -> Table {
    let model = app.shown();
    let mut table = Table::new([
        ("GROUP", false, 0),
        ("LAG", true, 0),
        ("TREND", false, 3),
        ("OLDEST", true, 2),
        ("ETA TO ZERO", false, 1),
    ]);
    let mut lagging: Vec<_> = model
        .snapshot
        .groups
        .iter()
        .filter(|g| !is_system(&g.name))
        .filter_map(|g| g.total_lag().map(|lag| (g, lag)))
        .collect();
    lagging.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.name.cmp(&b.0.name)));
    let columns = spark_columns(app, 30);
    for (group, lag) in lagging.into_iter().take(RANKED) {
        table.rows.push(Row {
            id: group.name.clone(),
            name: group.name.clone(),
            subject: Some(Subject::Group(group.name.clone())),
            cells: vec![
                Cell::text(&group.name),
                groups::lag_cell(group, false, app.shown_ms()),
                groups::spark(model, &group.name, columns),
                groups::oldest(app, group, Some(lag)),
                groups::eta(model, &group.name, Some(lag)),
            ],
        });
    }
    table
}

fn config(app: &App) -> Table {
    let mut table = Table::new([("KEY", false, 0), ("VALUE", false, 0)]);
    let Some(config) = app.broker().and_then(|b| b.config.get()) else {
        return table;
    };
    for (key, value) in &config.entries {
        let lower = key.to_lowercase();
        let secret = SECRETS.iter().any(|s| lower.contains(s)) && !value.is_empty();
        let shown = if secret { "***" } else { value.as_str() };
        table.rows.push(Row {
            id: key.clone(),
            name: key.clone(),
            subject: None,
            cells: vec![Cell::of(key, Role::Label), Cell::text(shown)],
        });
    }
    table
}
