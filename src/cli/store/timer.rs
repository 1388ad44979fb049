//! `rmq store timer`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::interrupt;
use super::rows::{Meter, Rows};
use super::{Place, commit_log, count, int};
use crate::cli::exit::{self, Failure};
use crate::cli::output::{Cell, Column, Detail, Listing, col, wide};
use crate::cli::session::Session;
use crate::cli::time::{self, When};
use crate::inspect::{SlotRow, Store, Timer, TimerUnit, UnitCheck, UnitStep};
use crate::protocol::properties::names;

/// `rmq store timer`
#[derive(Debug, Clone, Args)]
pub struct TimerArgs {
    #[command(flatten)]
    place: Place,
    /// List the slots of the wheel that are in use, those to come first, and follow the chain of each
    #[arg(long)]
    slots: bool,
    /// List the units of the timer log and compare each with its record
    #[arg(long, conflicts_with = "slots")]
    log: bool,
    /// Only what is still to be delivered
    #[arg(long)]
    pending: bool,
    /// Only what is due at or behind this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<When>,
    /// Only what is due before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<When>,
    /// End after so many rows
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Slots shown with the overview.
const NEXT_SLOTS: usize = 10;

const SLOTS: &[Column] = &[
    col("due_at"),
    col("state"),
    col("count"),
    col("messages"),
    col("deletes"),
    col("rolls"),
    wide("slot"),
    wide("first_position"),
    wide("last_position"),
    col("note"),
];

const UNITS: &[Column] = &[
    col("position"),
    col("due_at"),
    col("state"),
    col("kind"),
    col("offset"),
    col("size"),
    col("topic"),
    col("check"),
    wide("written_at"),
    wide("delay_ms"),
    wide("previous"),
    wide("magic"),
    wide("topic_hash"),
    wide("unique_key"),
    wide("keys"),
    col("note"),
];

/// Runs `rmq store timer`.
pub fn run(session: &Session, args: &TimerArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    let Some(timer) = store.timer()? else {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("{} has no timer files", store.root().display()),
        )
        .because("A broker makes them when timerWheelEnable is on."));
    };
    let bounds = Bounds::new(session, args, &timer)?;
    if args.log {
        return units(session, args, &store, &timer, &bounds);
    }
    if args.slots {
        return slots(session, args, &timer, &bounds);
    }
    overview(session, args, &store, &timer, &bounds)
}

/// Which times are wanted.
struct Bounds {
    from: i64,
    to: i64,
    read_time: i64,
}

impl Bounds {
    fn new(session: &Session, args: &TimerArgs, timer: &Timer) -> Result<Self, Failure> {
        let point = |when: &Option<When>, open: i64| match when {
            None => Ok(open),
            Some(when) => when
                .at_ms(time::now_ms(), &session.printer.zone)
                .map(|ms| ms.unwrap_or(open))
                .map_err(Failure::usage),
        };
        let read_time = timer.check().map_or(0, |check| check.last_read_time_ms);
        let from = point(&args.from, i64::MIN)?;
        Ok(Self {
            from: if args.pending { from.max(read_time) } else { from },
            to: point(&args.to, i64::MAX)?,
            read_time,
        })
    }

    fn has(&self, ms: i64) -> bool {
        (self.from..self.to).contains(&ms)
    }
}

fn state(is_pending: bool) -> Cell {
    if is_pending { "to come" } else { "passed" }.into()
}

fn slot_row(timer: &Timer, row: &SlotRow) -> (Vec<Cell>, Option<String>) {
    let chain = timer.chain(row, |_, _| true);
    // Units of passed slots may have gone with their files.
    let problem = chain.problem.filter(|_| row.is_pending);
    let cells = vec![
        Cell::time(Some(row.time_ms)),
        state(row.is_pending),
        row.slot.count.into(),
        int(chain.messages),
        int(chain.deletes),
        int(chain.rolls),
        int(row.number),
        row.slot.first.into(),
        row.slot.last.into(),
        problem.clone().into(),
    ];
    (cells, problem)
}

fn overview(
    session: &Session,
    args: &TimerArgs,
    store: &Store,
    timer: &Timer,
    bounds: &Bounds,
) -> Result<(), Failure> {
    let wheel = timer.wheel_stats()?;
    let log = timer.log_stats();
    let mut problems: Vec<String> = timer.wheel_problem().into_iter().collect();
    if let Some((size, magic)) = log.damage {
        problems.push(format!(
            "the timer log ends at {} with what is no unit (size {size}, magic {magic:#x})",
            log.end
        ));
    }
    let mut next = Listing::new("TimerSlotList", SLOTS);
    next.ordered = true;
    let mut waiting: BTreeMap<i32, i64> = BTreeMap::new();
    let limit = args
        .limit
        .map_or(NEXT_SLOTS, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut meter = Meter::new(session, "slots", wheel.pending);
    let mut seen = 0;
    let mut is_stopped = false;
    timer.slots(|row| {
        if !row.is_pending || interrupt::asked() {
            is_stopped = interrupt::asked();
            return !is_stopped;
        }
        seen += 1;
        meter.at(seen);
        let chain = timer.chain(&row, |_, unit| {
            if unit.is_delete() {
                *waiting.entry(unit.topic_hash).or_default() -= 1;
            }
            true
        });
        for (hash, n) in chain.by_topic_hash {
            *waiting.entry(hash).or_default() += i64::try_from(n).unwrap_or(i64::MAX);
        }
        if next.rows.len() < limit && bounds.has(row.time_ms) {
            next.push(slot_row(timer, &row).0);
        }
        if let Some(problem) = chain.problem {
            problems.push(format!("slot of {}: {problem}", row.time_ms));
        }
        true
    })?;
    drop(meter);
    if is_stopped {
        return Err(interrupt::failure("the wheel was not read to its end"));
    }
    session.printer.print_detail(Detail {
        kind: "StoreTimer",
        fields: fields(store, timer, &wheel, &log, &problems)?,
        tables: vec![("next_slots", next), ("topics", topics(store, timer, &waiting)?)],
        ..Detail::default()
    })?;
    if session.is_table() && wheel.pending > limit as u64 {
        session.note(&format!(
            "{limit} of {} that are to come; all with --slots --pending",
            count(wheel.pending, "slot")
        ));
    }
    verdict(&problems)
}

fn verdict(problems: &[String]) -> Result<(), Failure> {
    match problems {
        [] => Ok(()),
        [first, ..] => Err(Failure::new(
            exit::ERRORS,
            format!(
                "{} in the timer's files; first: {first}",
                count(problems.len() as u64, "problem")
            ),
        )),
    }
}

fn fields(
    store: &Store,
    timer: &Timer,
    wheel: &crate::inspect::WheelStats,
    log: &crate::inspect::TimerLogStats,
    problems: &[String],
) -> Result<Vec<(&'static str, Cell)>, Failure> {
    let check = timer.check();
    let stored = store
        .queues_of(crate::inspect::TIMER_TOPIC, Some(0))
        .ok()
        .and_then(|found| found.into_iter().next())
        .map(|(name, kind)| store.queue(name, kind))
        .transpose()?
        .map(|queue| queue.bounds(0).max_offset);
    let behind = check
        .zip(stored)
        .map(|(check, max)| (max - check.last_timer_queue_offset).max(0));
    Ok(vec![
        (
            "wheel",
            match timer.wheel_file() {
                None => "none".into(),
                Some((path, len)) => format!("{}, {len} bytes", path.display()).into(),
            },
        ),
        ("precision_ms", timer.precision_ms().into()),
        ("slots_used", int(wheel.used)),
        ("slots_to_come", int(wheel.pending)),
        ("messages_to_come", wheel.pending_messages.into()),
        ("next_due_at", Cell::time(wheel.next_ms)),
        ("last_due_at", Cell::time(wheel.last_ms)),
        ("log_files", timer.log_files().count().into()),
        ("log_segment_size", int(timer.log_segment_size())),
        ("log_start", int(log.start)),
        ("log_end", int(log.end)),
        ("log_units", int(log.units)),
        ("log_units_to_come", int(log.pending)),
        ("log_deletes", int(log.deletes)),
        ("log_rolls", int(log.rolls)),
        ("read_up_to", Cell::time(check.map(|c| c.last_read_time_ms))),
        (
            "log_flushed_offset",
            check.map(|c| c.last_timer_log_flush_pos).into(),
        ),
        ("queue_offset", check.map(|c| c.last_timer_queue_offset).into()),
        ("queue_max_offset", stored.into()),
        ("not_in_wheel_yet", behind.into()),
        (
            "master_queue_offset",
            check.map(|c| c.master_timer_queue_offset).into(),
        ),
        ("version_counter", check.map(|c| c.counter).into()),
        ("version_at", Cell::time(check.map(|c| c.timestamp))),
        ("problems", problems.to_vec().into()),
    ])
}

/// What is to come by topic: as the wheel has it, and as the metrics say.
fn topics(store: &Store, timer: &Timer, waiting: &BTreeMap<i32, i64>) -> Result<Listing, Failure> {
    let mut listing = Listing::new(
        "TimerTopicList",
        &[
            col("topic"),
            col("in_wheel"),
            col("in_metrics"),
            col("metrics_at"),
        ],
    );
    let known = timer.topics(store)?;
    let mut rows: BTreeMap<String, (i64, Option<i64>, Option<i64>)> = BTreeMap::new();
    for (hash, n) in waiting {
        let name = known
            .get(hash)
            .cloned()
            .unwrap_or_else(|| format!("(unknown, hash {hash})"));
        rows.entry(name).or_default().0 += n;
    }
    for (topic, n, at) in timer.metrics() {
        let row = rows.entry(topic).or_default();
        (row.1, row.2) = (Some(n), Some(at));
    }
    for (topic, (wheel, metrics, at)) in rows {
        listing.push(vec![topic.into(), wheel.into(), metrics.into(), Cell::time(at)]);
    }
    Ok(listing)
}

fn slots(session: &Session, args: &TimerArgs, timer: &Timer, bounds: &Bounds) -> Result<(), Failure> {
    let mut problems: Vec<String> = timer.wheel_problem().into_iter().collect();
    let meter = Meter::new(session, "slots", timer.wheel_stats()?.used);
    let mut rows = Rows::new(session, "TimerSlotList", SLOTS, meter)?;
    let limit = args.limit.unwrap_or(u64::MAX);
    let (mut seen, mut shown, mut messages) = (0u64, 0u64, 0i64);
    let mut failed = None;
    let mut is_cut = false;
    timer.slots(|row| {
        seen += 1;
        if !bounds.has(row.time_ms) {
            return !interrupt::asked();
        }
        if shown == limit {
            is_cut = true;
            return false;
        }
        shown += 1;
        messages += i64::from(row.slot.count);
        let (cells, problem) = slot_row(timer, &row);
        problems.extend(problem.map(|problem| format!("slot of {}: {problem}", row.time_ms)));
        failed = rows.push(cells).and_then(|()| rows.at(seen)).err();
        failed.is_none() && !interrupt::asked()
    })?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    let summary =
        json!({ "slots": shown, "messages": messages, "limit_reached": is_cut, "problems": problems });
    let cut = if is_cut { ", and more" } else { "" };
    let note = format!(
        "{}{cut}, {} less deletes",
        count(shown, "slot"),
        count(messages, "message")
    );
    rows.finish(&object(summary), &note)?;
    interrupt::check("the wheel was not read to its end")?;
    verdict(&problems)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn unit_row(
    at: u64,
    unit: &TimerUnit,
    check: &UnitCheck,
    known: &BTreeMap<i32, String>,
    bounds: &Bounds,
) -> Vec<Cell> {
    let (word, note) = match check {
        UnitCheck::Agrees(_) => ("ok", None),
        UnitCheck::Expired => (
            "expired",
            Some("the record lies before the first file of the log".to_owned()),
        ),
        UnitCheck::NoRecord(kind) => ("no record", Some(format!("no valid record there: {kind}"))),
        UnitCheck::Differs(_, what) => ("differs", Some(what.join("; "))),
    };
    let view = match check {
        UnitCheck::Agrees(record) | UnitCheck::Differs(record, _) => record.view().ok(),
        UnitCheck::Expired | UnitCheck::NoRecord(_) => None,
    };
    let property = |name: &str| view.as_ref().and_then(|view| view.properties().get(name));
    let topic = property(names::REAL_TOPIC)
        .map(str::to_owned)
        .or_else(|| known.get(&unit.topic_hash).cloned());
    let deleted = property(names::TIMER_DEL_UNIQKEY).map(|key| format!("takes away {key}"));
    let kind = match (unit.is_delete(), unit.is_roll()) {
        (true, _) => "delete",
        (false, true) => "roll",
        (false, false) => "message",
    };
    vec![
        int(at),
        Cell::time(Some(unit.due_ms())),
        state(unit.due_ms() >= bounds.read_time),
        kind.into(),
        unit.offset.into(),
        unit.record_size.into(),
        topic.into(),
        word.into(),
        Cell::time(Some(unit.write_time)),
        Cell::Span(unit.delay_ms.into()),
        unit.previous.into(),
        unit.magic.into(),
        unit.topic_hash.into(),
        property(names::UNIQ_KEY).into(),
        property(names::KEYS)
            .map(|text| commit_log::keys(Some(text)))
            .into(),
        note.or(deleted).into(),
    ]
}

fn units(
    session: &Session,
    args: &TimerArgs,
    store: &Store,
    timer: &Timer,
    bounds: &Bounds,
) -> Result<(), Failure> {
    let log = store.log()?;
    let known = timer.topics(store)?;
    let total: u64 = timer.log_files().map(|file| file.len).sum();
    let start = timer.log_files().next().map_or(0, |file| file.base);
    let mut rows = Rows::new(
        session,
        "TimerUnitList",
        UNITS,
        Meter::new(session, "timer log", total),
    )?;
    let limit = args.limit.unwrap_or(u64::MAX);
    let (mut seen, mut shown, mut bad) = (0u64, 0u64, 0u64);
    let mut problems = Vec::new();
    let (mut is_cut, mut failed, mut end) = (false, None, start);
    timer.walk(0, |step| {
        if interrupt::asked() {
            return false;
        }
        match step {
            UnitStep::Unit { at, unit } => {
                seen += 1;
                end = at;
                if bounds.has(unit.due_ms()) {
                    if shown == limit {
                        is_cut = true;
                        return false;
                    }
                    shown += 1;
                    let check = timer.compare(&unit, &log);
                    // A passed unit whose record is gone needs it no more.
                    let is_bad = match &check {
                        UnitCheck::Agrees(_) => false,
                        UnitCheck::Expired => unit.due_ms() >= bounds.read_time,
                        UnitCheck::NoRecord(_) | UnitCheck::Differs(..) => true,
                    };
                    if is_bad {
                        bad += 1;
                        problems.push(format!("unit at {at}"));
                        problems.truncate(20);
                    }
                    failed = rows.push(unit_row(at, &unit, &check, &known, bounds)).err();
                }
            }
            UnitStep::Blank { .. } => {}
            UnitStep::End { at, damage } => {
                end = at;
                if let Some((size, magic)) = damage {
                    bad += 1;
                    problems.push(format!(
                        "at {at} stands what is no unit (size {size}, magic {magic:#x}); the log ends there"
                    ));
                }
            }
        }
        failed = failed.take().or_else(|| rows.at(end.saturating_sub(start)).err());
        failed.is_none()
    });
    if let Some(failure) = failed {
        return Err(failure);
    }
    let summary = json!({
        "units": seen, "shown": shown, "disagree": bad, "end": end, "limit_reached": is_cut,
    });
    let cut = if is_cut { ", and more" } else { "" };
    let note = format!(
        "{}{cut}, {bad} not as the log has them; the timer log reaches to {end}",
        count(shown, "unit")
    );
    rows.finish(&object(summary), &note)?;
    interrupt::check(&format!("the timer log was read up to {end}"))?;
    verdict(&problems)
}
