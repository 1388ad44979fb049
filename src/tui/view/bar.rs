//! Heartbeat bar, sparkline, gauge: text made of eighth blocks.

use super::theme::Role;

/// A text of one role inside a line.
pub type Piece = (String, Role);

/// Silence of a broker as its name servers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// Known lower bound, ms.
    pub low_ms: u64,
    /// Upper bound, ms; equal to the lower one when the age is exact.
    pub high_ms: u64,
    /// Registration period, ms.
    pub period_ms: u64,
    /// Age at which the name server drops the broker, ms.
    pub limit_ms: u64,
}

/// A bar of `cells` cells from 0 to the limit: `█` within the period, `▓` beyond, `▒` between two bounds, `┆` at the
/// period and at half the limit, `│` at the limit. Takes [`bar_width`] columns.
pub fn heartbeat(silence: Silence, cells: usize) -> Vec<Piece> {
    let limit = silence.limit_ms.max(1);
    let low = filled(silence.low_ms, limit, cells);
    let high = filled(silence.high_ms, limit, cells).max(low);
    let (period, half) = marks(silence, cells);
    let over = silence.low_ms > silence.period_ms;
    let data = if silence.low_ms >= silence.limit_ms {
        Role::Crit
    } else if over {
        Role::Warn
    } else {
        Role::Ok
    };
    let mut pieces: Vec<Piece> = Vec::new();
    let mut put = |c: char, role: Role| match pieces.last_mut() {
        Some((text, last)) if *last == role => text.push(c),
        _ => pieces.push((c.to_string(), role)),
    };
    for cell in 0..cells {
        if Some(cell) == period || Some(cell) == half {
            put('┆', Role::Plain);
        }
        if cell < low {
            put(
                if period.is_some_and(|p| cell >= p) {
                    '▓'
                } else {
                    '█'
                },
                data,
            );
        } else if cell < high {
            put('▒', Role::Warn);
        } else {
            put('─', Role::Plain);
        }
    }
    put('│', Role::Plain);
    pieces
}

/// Columns of a bar with `cells` cells: the cells, the marks, the limit.
pub fn bar_width(silence: Silence, cells: usize) -> usize {
    let (period, half) = marks(silence, cells);
    cells + usize::from(period.is_some()) + usize::from(half.is_some()) + 1
}

/// Columns of the period mark, the half-limit mark and the limit, for a heading above bars.
pub fn mark_columns(silence: Silence, cells: usize) -> (Option<usize>, Option<usize>, usize) {
    let (period, half) = marks(silence, cells);
    let half_column = half.map(|h| h + usize::from(period.is_some()));
    (period, half_column, bar_width(silence, cells) - 1)
}

/// Cell indexes before which the marks stand. The half-limit mark needs room of its own beside the period's.
fn marks(silence: Silence, cells: usize) -> (Option<usize>, Option<usize>) {
    let limit = silence.limit_ms.max(1);
    let at = |ms: u64| {
        let cell = usize::try_from(u128::from(ms) * cells as u128 / u128::from(limit)).unwrap_or(cells);
        (ms < silence.limit_ms && cell > 0 && cell < cells).then_some(cell)
    };
    let period = at(silence.period_ms);
    let half = at(limit / 2).filter(|h| cells >= 20 && period.is_none_or(|p| *h > p + 1));
    (period, half)
}

/// Cells that an age fills; any silence above zero shows.
fn filled(ms: u64, limit: u64, cells: usize) -> usize {
    let cells_up = (u128::from(ms) * cells as u128).div_ceil(u128::from(limit));
    usize::try_from(cells_up).unwrap_or(cells).min(cells)
}

/// Where the lowest level of a chart lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// At zero: heights compare as amounts.
    Zero,
    /// At the smallest value: the direction shows. A swing below a twentieth of the largest stays small.
    Lowest,
}

/// One character a value; the newest `columns` values, right-aligned. More values are averaged into the columns, so
/// that the whole time span stays in view.
pub fn sparkline(values: impl ExactSizeIterator<Item = f64>, columns: usize, base: Base) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let values = squeeze(&values.collect::<Vec<_>>(), columns);
    let (floor, span) = range(&values, base);
    let mut out: String = " ".repeat(columns.saturating_sub(values.len()));
    for value in values {
        out.push(LEVELS[level(value, floor, span, 7)]);
    }
    out
}

/// A sparkline of several lines, top line first.
pub fn chart(
    values: impl ExactSizeIterator<Item = f64>,
    columns: usize,
    rows: usize,
    base: Base,
) -> Vec<String> {
    const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if rows <= 1 {
        return vec![sparkline(values, columns, base)];
    }
    let values = squeeze(&values.collect::<Vec<_>>(), columns);
    let (floor, span) = range(&values, base);
    let mut lines = vec![" ".repeat(columns.saturating_sub(values.len())); rows];
    for value in values {
        let eighths = level(value, floor, span, rows * 8);
        for (i, line) in lines.iter_mut().enumerate() {
            let below = (rows - 1 - i) * 8;
            // The lowest line shows a point even for nothing, so that "zero" and "no data" differ.
            let least = usize::from(i + 1 == rows);
            line.push(LEVELS[eighths.saturating_sub(below).clamp(least, 8)]);
        }
    }
    lines
}

/// Floor and height of a chart.
fn range(values: &[f64], base: Base) -> (f64, f64) {
    let top = values.iter().copied().fold(0.0, f64::max);
    match base {
        Base::Zero => (0.0, top),
        Base::Lowest => {
            let low = values.iter().copied().fold(top, f64::min);
            let span = (top - low).max(top / 20.0);
            (low, span)
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn level(value: f64, floor: f64, span: f64, most: usize) -> usize {
    if span > 0.0 {
        ((value - floor) / span * most as f64)
            .round()
            .clamp(0.0, most as f64) as usize
    } else {
        0
    }
}

/// At most `columns` values: means of as many equal parts.
fn squeeze(values: &[f64], columns: usize) -> Vec<f64> {
    if values.len() <= columns {
        return values.to_vec();
    }
    let edge = |i: usize| i * values.len() / columns;
    (0..columns)
        .map(|i| {
            let part = &values[edge(i)..edge(i + 1)];
            #[allow(clippy::cast_precision_loss)]
            let n = part.len().max(1) as f64;
            part.iter().sum::<f64>() / n
        })
        .collect()
}

/// A bar of `columns` columns filled to `ratio` of 1, in eighths.
pub fn gauge(ratio: f64, columns: usize) -> String {
    const PART: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let eighths = (ratio.clamp(0.0, 1.0) * columns as f64 * 8.0).round() as usize;
    // Anything above nothing shows.
    let eighths = if ratio > 0.0 { eighths.max(1) } else { 0 };
    let mut out = "█".repeat(eighths / 8);
    out.push_str(PART[eighths % 8]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(low: u64, high: u64) -> String {
        let silence = Silence {
            low_ms: low,
            high_ms: high,
            period_ms: 30_000,
            limit_ms: 120_000,
        };
        let text: String = heartbeat(silence, 16).into_iter().map(|(t, _)| t).collect();
        assert_eq!(text.chars().count(), bar_width(silence, 16));
        text
    }

    #[test]
    fn the_bar_is_the_drawing_of_the_specification() {
        assert_eq!(bar(12_000, 12_000), "██──┆────────────│");
        assert_eq!(bar(19_000, 19_000), "███─┆────────────│");
        assert_eq!(bar(34_000, 34_000), "████┆▓───────────│");
        assert_eq!(bar(41_000, 41_000), "████┆▓▓──────────│");
        assert_eq!(bar(41_000, 71_000), "████┆▓▓▒▒▒▒──────│");
        assert_eq!(bar(0, 0), "────┆────────────│");
        assert_eq!(bar(500_000, u64::MAX), "████┆▓▓▓▓▓▓▓▓▓▓▓▓│");
    }

    #[test]
    fn limits_of_any_size_draw() {
        for (period, limit) in [(0, 0), (1000, 10_000), (60_000, 30_000), (u64::MAX, u64::MAX)] {
            for cells in [0, 1, 7, 40] {
                let s = Silence {
                    low_ms: 5000,
                    high_ms: 9000,
                    period_ms: period,
                    limit_ms: limit,
                };
                let text: String = heartbeat(s, cells).into_iter().map(|(t, _)| t).collect();
                assert_eq!(text.chars().count(), bar_width(s, cells));
            }
        }
    }

    #[test]
    fn sparklines_scale_to_their_peak() {
        assert_eq!(sparkline([0.0, 7.0, 14.0].into_iter(), 5, Base::Zero), "  ▁▅█");
        assert_eq!(sparkline([3.0, 3.0].into_iter(), 2, Base::Zero), "██");
        assert_eq!(sparkline([0.0, 0.0].into_iter(), 2, Base::Zero), "▁▁");
        assert_eq!(
            sparkline([100.0, 150.0, 200.0].into_iter(), 3, Base::Lowest),
            "▁▅█"
        );
        // A ripple stays a ripple.
        assert_eq!(sparkline([1000.0, 1001.0].into_iter(), 2, Base::Lowest), "▁▁");
        assert_eq!(sparkline([].into_iter(), 3, Base::Zero), "   ");
        assert_eq!(sparkline([1.0].into_iter(), 0, Base::Zero), "");
        for n in [1, 9, 10, 11, 299, 300] {
            let text = sparkline((0..n).map(f64::from), 10, Base::Zero);
            assert_eq!(text.chars().count(), 10);
        }
    }

    #[test]
    fn charts_of_several_lines_fill_from_below() {
        let lines = chart([0.0, 1.0, 2.0, 4.0].into_iter(), 5, 2, Base::Zero);
        assert_eq!(lines, ["    █", " ▁▄██"]);
    }

    #[test]
    fn gauges_fill_in_eighths() {
        assert_eq!(gauge(0.5, 4), "██");
        assert_eq!(gauge(0.001, 4), "▏");
        assert_eq!(gauge(0.0, 4), "");
        assert_eq!(gauge(7.0, 4), "████");
    }
}
