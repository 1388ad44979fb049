//! `rmq store stats`.

use std::io::Write as _;

use clap::Args;

use super::rows::{Meter, Rows};
use super::{Damaged, Place, chart, count, int, interrupt};
use crate::cli::exit::{self, Failure};
use crate::cli::output::{Cell, Column, Detail, Format, Listing, col, wide};
use crate::cli::session::Session;
use crate::cli::time::{self, When};
use crate::inspect::{Point, Sizes, Stats, StatsQuery, Sums, Wanted, size_limit};

/// `rmq store stats`
#[derive(Debug, Clone, Args)]
pub struct StatsArgs {
    #[command(flatten)]
    place: Place,
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// Only this queue number
    #[arg(long, value_name = "N")]
    queue: Option<i32>,
    /// Only what was stored at or behind this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<When>,
    /// Only what was stored up to this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<When>,
    /// Length of the spans of time that are told apart
    #[arg(long, default_value = "1h", value_name = "DURATION")]
    every: String,
    /// No charts below the tables
    #[arg(long)]
    no_chart: bool,
}

/// Spans that a chart shows at most.
const MOST_LINES: usize = 100;
/// Width of a chart that goes into a file.
const USUAL_WIDTH: usize = 80;

const CELLS: &[Column] = &[
    col("topic"),
    col("begins_at"),
    col("messages"),
    col("rate"),
    col("bytes"),
    col("mean_size"),
    col("largest"),
    wide("median_up_to"),
    wide("p99_up_to"),
    wide("records"),
    wide("body_bytes"),
    wide("first_stored_at"),
    wide("last_stored_at"),
    wide("sizes"),
];

/// Runs `rmq store stats`.
pub fn run(session: &Session, args: &StatsArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    let log = store.log_streaming()?;
    let every_ms = time::parse_duration(&args.every)
        .map_err(|e| Failure::usage(format!("--every: {e}")))?
        .as_millis();
    let every_ms = i64::try_from(every_ms).unwrap_or(i64::MAX);
    if every_ms < 1000 {
        return Err(Failure::usage("--every: at least 1s"));
    }
    let zone = &session.printer.zone;
    let at = |when: &Option<When>| {
        when.as_ref()
            .map(|when| when.at_ms(time::now_ms(), zone).map_err(Failure::usage))
            .transpose()
            .map(Option::flatten)
    };
    let query = StatsQuery {
        wanted: Wanted {
            topic: args.topic.clone(),
            queue_id: args.queue,
            ..Wanted::default()
        },
        from_ms: at(&args.from)?,
        to_ms: at(&args.to)?,
        every_ms,
    };
    let begin = match query.from_ms {
        Some(ms) => log.begin_of(Point::Time(ms))?,
        None => log.start(),
    };
    let mut meter = Meter::new(session, "commit log", log.end().saturating_sub(begin));
    let mut stats = Stats::default();
    let mut reached = begin;
    stats.read(log.walk(begin, true), &query, |at| {
        reached = at;
        meter.at(at.saturating_sub(begin));
        !interrupt::asked()
    });
    drop(meter);
    print(session, args, &stats, every_ms)?;
    interrupt::check(&format!("counted from {begin} to {reached}"))?;
    let mut damaged = Damaged::default();
    for gap in &stats.gaps {
        damaged.add(gap);
    }
    if stats.is_crowded() {
        session.warn("more topics and spans than are told apart; a longer --every helps");
    }
    damaged.verdict(&args.place)?;
    if stats.all.records == 0 {
        return Err(Failure::new(
            exit::NOT_FOUND,
            "no record was stored there and then",
        ));
    }
    Ok(())
}

fn print(session: &Session, args: &StatsArgs, stats: &Stats, every_ms: i64) -> Result<(), Failure> {
    let cells = stats.cells().map(|cell| {
        let span = stats.covered_ms(cell.begin_ms, every_ms);
        cell_row(cell.topic.into(), cell.begin_ms, &cell.sums, span)
    });
    match session.printer.format {
        Format::Csv | Format::Jsonl => {
            let mut rows = Rows::new(session, "StoreStatsList", CELLS, Meter::new(session, "", 0))?;
            for row in cells {
                rows.push(row)?;
            }
            return rows.finish(&serde_json::Map::new(), "");
        }
        Format::Table | Format::Wide | Format::Json | Format::Name | Format::Prometheus => {}
    }
    let mut by_cell = Listing::new("StoreStatsList", CELLS);
    by_cell.ordered = true;
    let mut by_span = Listing::new("StoreSpanList", &CELLS[1..]);
    by_span.ordered = true;
    for (begin_ms, sums) in stats.spans() {
        let span = stats.covered_ms(begin_ms, every_ms);
        by_span.push(cell_row(Cell::Unknown, begin_ms, &sums, span).split_off(1));
    }
    let by_span_count = by_span.rows.len();
    let mut tables = vec![("topics", topics(stats)), ("spans", by_span)];
    let topic_count = stats.topics().len();
    if topic_count > 1 && by_span_count > 1 {
        by_cell.rows.extend(cells);
        tables.push(("topics_and_spans", by_cell));
    }
    if session.printer.format == Format::Json {
        tables.push(("sizes", sizes(&stats.all.sizes)));
    }
    let all = &stats.all;
    session.printer.print_detail(Detail {
        kind: "StoreStats",
        fields: vec![
            ("topic_count", topic_count.into()),
            ("messages", int(all.messages)),
            ("records", int(all.records)),
            ("bytes", int(all.bytes)),
            ("body_bytes", int(all.body_bytes)),
            ("mean_size", all.mean().map_or(Cell::Unknown, int)),
            ("largest", int(all.largest)),
            ("first_stored_at", Cell::time(all.first_ms)),
            ("last_stored_at", Cell::time(all.last_ms)),
            ("every_ms", every_ms.into()),
            ("damaged_places", stats.gaps.len().into()),
        ],
        tables,
        ..Detail::default()
    })?;
    if session.is_table() && !args.no_chart {
        charts(session, stats, every_ms)?;
    }
    Ok(())
}

fn limit_text(limit: Option<u64>) -> String {
    match limit {
        None => format!("> {} MiB", (128u64 << 16) >> 20),
        Some(bytes) if bytes >= 1 << 20 => format!("≤ {} MiB", bytes >> 20),
        Some(bytes) if bytes >= 1 << 10 => format!("≤ {} KiB", bytes >> 10),
        Some(bytes) => format!("≤ {bytes}"),
    }
}

fn quantile(sizes: &Sizes, share: f64) -> Cell {
    match sizes.quantile(share) {
        None | Some(u64::MAX) => Cell::Unknown,
        Some(limit) => int(limit),
    }
}

fn cell_row(topic: Cell, begin_ms: i64, sums: &Sums, span_ms: i64) -> Vec<Cell> {
    vec![
        topic,
        Cell::Time(begin_ms),
        int(sums.messages),
        Cell::Float(sums.rate(span_ms)),
        int(sums.bytes),
        sums.mean().map_or(Cell::Unknown, int),
        int(sums.largest),
        quantile(&sums.sizes, 0.5),
        quantile(&sums.sizes, 0.99),
        int(sums.records),
        int(sums.body_bytes),
        Cell::time(sums.first_ms),
        Cell::time(sums.last_ms),
        Cell::Pairs(
            sums.sizes
                .classes()
                .filter(|(_, n)| *n > 0)
                .map(|(class, n)| {
                    let limit = size_limit(class).map_or("more".to_owned(), |limit| limit.to_string());
                    (limit, n.to_string())
                })
                .collect(),
        ),
    ]
}

fn topics(stats: &Stats) -> Listing {
    let mut listing = Listing::new(
        "StoreTopicList",
        &[
            col("topic"),
            col("messages"),
            col("share"),
            col("bytes"),
            col("rate"),
            col("mean_size"),
            col("median_up_to"),
            col("largest"),
            wide("p99_up_to"),
            wide("records"),
            wide("body_bytes"),
            wide("first_stored_at"),
            wide("last_stored_at"),
            wide("sizes"),
        ],
    );
    listing.ordered = true;
    let all = stats.all.bytes.max(1) as f64;
    for (topic, sums) in stats.topics() {
        // From the first to the last record of the topic.
        let span = sums.last_ms.unwrap_or(0) - sums.first_ms.unwrap_or(0);
        let sizes = cell_row(Cell::Unknown, 0, &sums, span);
        listing.push(vec![
            topic.into(),
            int(sums.messages),
            Cell::Ratio(sums.bytes as f64 / all),
            int(sums.bytes),
            Cell::Float(sums.rate(span)),
            sums.mean().map_or(Cell::Unknown, int),
            quantile(&sums.sizes, 0.5),
            int(sums.largest),
            quantile(&sums.sizes, 0.99),
            int(sums.records),
            int(sums.body_bytes),
            Cell::time(sums.first_ms),
            Cell::time(sums.last_ms),
            sizes.last().cloned().unwrap_or(Cell::Unknown),
        ]);
    }
    listing
}

fn sizes(sizes: &Sizes) -> Listing {
    let mut listing = Listing::new("SizeList", &[col("up_to_bytes"), col("records")]);
    listing.ordered = true;
    for (class, n) in sizes.classes() {
        listing.push(vec![size_limit(class).map_or(Cell::Unknown, int), int(n)]);
    }
    listing
}

fn charts(session: &Session, stats: &Stats, every_ms: i64) -> Result<(), Failure> {
    let width = session.printer.width.unwrap_or(USUAL_WIDTH);
    let mut out = std::io::stdout().lock();
    let spans = stats.spans();
    if let (Some(first), Some(last)) = (spans.keys().next(), spans.keys().next_back()) {
        let mut rows = Vec::new();
        let mut begin = *first;
        // Spans without a message show as such.
        while begin <= *last && rows.len() < MOST_LINES {
            let messages = spans.get(&begin).map_or(0, |sums| sums.messages);
            let name = session
                .printer
                .zone
                .text(begin)
                .unwrap_or_else(|| begin.to_string());
            let name = name.trim_end_matches(".000").to_owned();
            rows.push((name, messages as f64, messages.to_string()));
            begin = begin.saturating_add(every_ms);
        }
        let more = if begin <= *last { ", the first ones" } else { "" };
        let every = time::duration(std::time::Duration::from_millis(every_ms.unsigned_abs()));
        writeln!(out, "\nmessages every {every}{more}")?;
        for line in chart::lines(&rows, width) {
            writeln!(out, "{line}")?;
        }
    }
    let rows: Vec<(String, f64, String)> = stats
        .all
        .sizes
        .classes()
        .map(|(class, n)| (limit_text(size_limit(class)), n as f64, n.to_string()))
        .collect();
    if !rows.is_empty() {
        writeln!(out, "\nsizes of {} in bytes", count(stats.all.records, "record"))?;
        for line in chart::lines(&rows, width) {
            writeln!(out, "{line}")?;
        }
    }
    out.flush()?;
    Ok(())
}
