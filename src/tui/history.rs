//! Series of the last 300 points, rates from counters, slope of a line through them.

use std::collections::VecDeque;

/// Points a series keeps: ten minutes at two seconds.
pub const POINTS: usize = 300;

/// What a column that is headed `10 MIN` shows.
pub const TEN_MINUTES_MS: u64 = 10 * 60 * 1000;

/// A rate covers at least this much: over less, one message more or less is a large number.
pub const RATE_LEAST_MS: u64 = 1000;

/// Points that lie further apart belong to different sessions.
const GAP_MS: u64 = 5 * 60 * 1000;

/// Share of a rising value that it may lose in between.
const DIP: f64 = 0.01;

/// Values over time, oldest first, at most [`POINTS`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    points: VecDeque<(u64, f64)>,
}

impl Series {
    /// Adds a value at `at_ms`. A point that is not newer than the last one is dropped, so that late or repeated
    /// updates change nothing.
    pub fn push(&mut self, at_ms: u64, value: f64) {
        if !value.is_finite() || self.points.back().is_some_and(|(last, _)| at_ms <= *last) {
            return;
        }
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back((at_ms, value));
    }

    /// Puts points of earlier in front; those that are not older than the first one are dropped.
    pub fn precede(&mut self, earlier: &[(u64, f64)]) {
        let first = self.points.front().map_or(u64::MAX, |(at, _)| *at);
        for &(at, value) in earlier.iter().rev() {
            let next = self.points.front().map_or(u64::MAX, |(at, _)| *at);
            if self.points.len() == POINTS {
                return;
            }
            if value.is_finite() && at < first && at < next {
                self.points.push_front((at, value));
            }
        }
    }

    /// Every point, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = (u64, f64)> + '_ {
        self.points.iter().copied()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.points.clear();
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// True without a point.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The newest value.
    pub fn last(&self) -> Option<f64> {
        self.points.back().map(|(_, v)| *v)
    }

    /// The largest value.
    pub fn peak(&self) -> Option<f64> {
        self.points.iter().map(|(_, v)| *v).reduce(f64::max)
    }

    /// Time from the oldest to the newest point.
    pub fn span_ms(&self) -> u64 {
        match (self.points.front(), self.points.back()) {
            (Some((first, _)), Some((last, _))) => last - first,
            _ => 0,
        }
    }

    /// The newest `n` values, oldest first.
    pub fn tail(&self, n: usize) -> impl ExactSizeIterator<Item = f64> + '_ {
        let skip = self.points.len().saturating_sub(n);
        self.points.range(skip..).map(|(_, v)| *v)
    }

    /// The values of the last `window_ms` before the newest one, oldest first.
    pub fn within(&self, window_ms: u64) -> impl ExactSizeIterator<Item = f64> + '_ {
        let from = self
            .points
            .back()
            .map_or(0, |(newest, _)| newest.saturating_sub(window_ms));
        let skip = self.points.partition_point(|(at, _)| *at < from);
        self.points.range(skip..).map(|(_, v)| *v)
    }

    /// The line by least squares through the points of the last `window_ms`; needs five points.
    pub fn course(&self, window_ms: u64) -> Option<Course> {
        let (newest, _) = *self.points.back()?;
        let from = newest.saturating_sub(window_ms);
        #[allow(clippy::cast_precision_loss)]
        let seconds = |at: u64| (newest - at) as f64 / -1000.0;
        let points = || {
            let inside = self.points.iter().rev().take_while(move |(at, _)| *at >= from);
            inside.map(move |&(at, y)| (seconds(at), y))
        };
        #[allow(clippy::cast_precision_loss)]
        let n = points().count() as f64;
        let (sum_x, sum_y) = points().fold((0.0, 0.0), |(x, y), (px, py)| (x + px, y + py));
        let (mean_x, mean_y) = (sum_x / n, sum_y / n);
        let sum =
            |of: &dyn Fn(f64, f64) -> f64| points().map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>();
        let spread = sum(&|x, _| x * x);
        if n < 5.0 || spread <= 0.0 {
            return None;
        }
        let slope = sum(&|x, y| x * y) / spread;
        let beside = sum(&|x, y| (y - slope * x).powi(2));
        let span = points().last().map_or(0.0, |(x, _)| -x);
        Some(Course {
            slope,
            moved: slope * span,
            error: (beside / (n - 2.0) / spread).sqrt() * span,
        })
    }

    /// Since when the value has not fallen and is above where it was; `None` when it is not rising. A hundredth less is no
    /// fall: consumers and producers come in bursts. What was between two points that lie far apart, when nobody looked,
    /// is not known.
    pub fn rising_since(&self) -> Option<u64> {
        let mut points = self.points.iter().rev();
        let &(newest, last) = points.next()?;
        // The lowest value since.
        let mut bound = last;
        let mut since = None;
        let mut later = newest;
        for &(at, value) in points {
            if value > bound * (1.0 + DIP) || later - at > GAP_MS {
                break;
            }
            later = at;
            if value < last {
                since = Some(at);
            }
            bound = bound.min(value);
        }
        since
    }
}

/// Turns a counter into a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counter {
    last: Option<(u64, u64)>,
}

impl Counter {
    /// The value of the last reading that counted.
    pub fn value(&self) -> Option<u64> {
        self.last.map(|(_, value)| value)
    }

    /// Change a second since an earlier reading, at least [`RATE_LEAST_MS`] ago. A counter that went back (restart) starts
    /// anew.
    pub fn rate(&mut self, at_ms: u64, value: u64) -> Reading {
        let Some((at, before)) = self.last else {
            self.last = Some((at_ms, value));
            return Reading::First;
        };
        let Some(change) = value.checked_sub(before) else {
            if at_ms <= at {
                return Reading::TooSoon;
            }
            self.last = Some((at_ms, value));
            return Reading::First;
        };
        let passed = at_ms.saturating_sub(at);
        if passed < RATE_LEAST_MS {
            return Reading::TooSoon;
        }
        self.last = Some((at_ms, value));
        #[allow(clippy::cast_precision_loss)]
        Reading::Rate(change as f64 * 1000.0 / passed as f64)
    }
}

/// What a reading of a [`Counter`] says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// It is the first one, or the first after a restart.
    First,
    /// The one before is too near: what was known stays.
    TooSoon,
    /// Change a second.
    Rate(f64),
}

/// When a backlog is empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Eta {
    /// In so many seconds.
    Seconds(f64),
    /// It grows.
    Never,
    /// It neither grows nor shrinks.
    Flat,
    /// Too few points.
    Unknown,
    /// It is empty.
    Done,
}

/// Which way a backlog goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// More.
    Rising,
    /// Less.
    Falling,
    /// Neither.
    Flat,
}

/// A backlog that moved by fewer messages within the window does not move.
const HANDFUL: f64 = 5.0;
/// Nor one that moved by less than so many standard errors of its line: what swings is somewhere at the end of any window.
const SURE: f64 = 3.0;

/// A line through the points of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// Change a second.
    pub slope: f64,
    /// Change from the first point to the last, along the line.
    moved: f64,
    /// Standard error of that: from how far the points lie off the line, and how many they are.
    error: f64,
}

impl Course {
    /// True when the line may as well be level: it moves by less than a handful of messages, or by no more than the swinging
    /// of the points explains.
    pub fn is_noise(&self) -> bool {
        self.moved.abs() < HANDFUL.max(SURE * self.error)
    }
}

/// The direction of a backlog of `lag`: less than 1 % of it a minute is none, and noise is none.
pub fn trend(lag: f64, course: Course) -> Trend {
    let threshold = lag / 100.0 / 60.0;
    if course.is_noise() || course.slope.abs() <= threshold {
        Trend::Flat
    } else if course.slope > 0.0 {
        Trend::Rising
    } else {
        Trend::Falling
    }
}

/// When `lag` is gone on this course.
pub fn eta(lag: f64, course: Option<Course>) -> Eta {
    if lag <= 0.0 {
        return Eta::Done;
    }
    let Some(course) = course else {
        return Eta::Unknown;
    };
    match trend(lag, course) {
        Trend::Rising => Eta::Never,
        Trend::Falling => Eta::Seconds(lag / -course.slope),
        Trend::Flat => Eta::Flat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_keeps_the_newest_points_in_order() {
        let mut s = Series::default();
        for i in 0..400u32 {
            s.push(u64::from(i) * 2000, f64::from(i));
        }
        s.push(10, 5.0);
        s.push(399 * 2000, 5.0);
        assert_eq!(s.len(), POINTS);
        assert_eq!(s.last(), Some(399.0));
        assert_eq!(s.tail(2).collect::<Vec<_>>(), [398.0, 399.0]);
        assert_eq!(s.peak(), Some(399.0));
    }

    #[test]
    fn earlier_points_go_in_front() {
        let mut s = Series::default();
        s.push(400_000, 4.0);
        s.precede(&[(1000, 1.0), (2000, 2.0), (400_000, 9.0), (500_000, 9.0)]);
        assert_eq!(
            s.points().collect::<Vec<_>>(),
            [(1000, 1.0), (2000, 2.0), (400_000, 4.0)]
        );
        assert_eq!(s.span_ms(), 399_000);
        // Nobody looked for six minutes: whether it rose all the time is not known.
        assert_eq!(s.rising_since(), None);
        s.push(401_000, 5.0);
        assert_eq!(s.rising_since(), Some(400_000));
        let many: Vec<(u64, f64)> = (0..400u32).map(|i| (u64::from(i), f64::from(i))).collect();
        s.precede(&many);
        assert_eq!((s.len(), s.last()), (POINTS, Some(5.0)));
        let mut empty = Series::default();
        empty.precede(&many);
        assert_eq!((empty.len(), empty.last()), (POINTS, Some(399.0)));
    }

    #[test]
    fn slope_is_the_change_a_second_within_the_window() {
        let mut s = Series::default();
        // Falling long ago, then rising by 310/s.
        for i in 0..10u32 {
            s.push(u64::from(i) * 1000, 1e6 - f64::from(i) * 5000.0);
        }
        for i in 0..31u32 {
            s.push(100_000 + u64::from(i) * 2000, f64::from(i) * 620.0);
        }
        assert!((s.course(60_000).unwrap().slope - 310.0).abs() < 1e-6);
        let mut few = Series::default();
        for i in 0..4u32 {
            few.push(u64::from(i), 1.0);
        }
        assert_eq!(few.course(60_000), None);
    }

    #[test]
    fn a_restart_starts_a_new_rate() {
        let mut c = Counter::default();
        assert_eq!(c.rate(1000, 500), Reading::First);
        assert_eq!(c.rate(3000, 700), Reading::Rate(100.0));
        assert_eq!(c.rate(3000, 900), Reading::TooSoon);
        assert_eq!(c.rate(2000, 10), Reading::TooSoon);
        assert_eq!(c.rate(5000, 10), Reading::First);
        assert_eq!(c.rate(6000, 30), Reading::Rate(20.0));
    }

    #[test]
    fn a_rate_covers_a_second_however_short_the_beat() {
        let mut c = Counter::default();
        // A burst of 100 in one half second of three.
        let readings: Vec<Reading> = [(0, 0), (500, 100), (1000, 100), (1500, 100), (2000, 100)]
            .map(|(at, value)| c.rate(at, value))
            .into();
        assert_eq!(
            readings,
            [
                Reading::First,
                Reading::TooSoon,
                Reading::Rate(100.0),
                Reading::TooSoon,
                Reading::Rate(0.0)
            ]
        );
    }

    #[test]
    fn ten_minutes_are_ten_minutes_however_often_was_asked() {
        let mut s = Series::default();
        for i in 0..200u32 {
            s.push(u64::from(i) * 10_000, f64::from(i));
        }
        let shown: Vec<f64> = s.within(TEN_MINUTES_MS).collect();
        assert_eq!((shown.len(), shown[0], shown[60]), (61, 139.0, 199.0));
        let mut young = Series::default();
        young.push(5, 1.0);
        assert_eq!(young.within(TEN_MINUTES_MS).collect::<Vec<_>>(), [1.0]);
    }

    /// A minute of looks at a pause of ten seconds.
    fn minute(values: [f64; 7]) -> Option<Course> {
        let mut s = Series::default();
        for (at, value) in (1..).zip(values) {
            s.push(at * 10_000, value);
        }
        s.course(60_000)
    }

    #[test]
    fn eta_follows_the_one_percent_rule() {
        // Exactly so many a second.
        let steady = |from: f64, slope: f64| minute(std::array::from_fn(|i| from + slope * 10.0 * i as f64));
        assert_eq!(eta(0.0, None), Eta::Done);
        assert_eq!(eta(100.0, None), Eta::Unknown);
        assert_eq!(eta(6000.0, steady(6060.0, -1.0)), Eta::Flat);
        assert_eq!(eta(6000.0, steady(6120.0, -2.0)), Eta::Seconds(3000.0));
        assert_eq!(eta(6000.0, steady(5880.0, 2.0)), Eta::Never);
    }

    #[test]
    fn a_backlog_that_swings_is_flat() {
        for swings in [
            [0.0, 3.0, 1.0, 0.0, 2.0, 3.0, 2.0],
            [0.0, 0.0, 1.0, 0.0, 2.0, 3.0, 3.0],
            [3.0, 3.0, 2.0, 1.0, 1.0, 0.0, 1.0],
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0],
            [0.0, 120.0, 40.0, 180.0, 20.0, 160.0, 110.0],
            [190.0, 20.0, 150.0, 60.0, 170.0, 10.0, 90.0],
        ] {
            let lag = swings[6];
            assert_eq!(eta(lag, minute(swings)), Eta::Flat, "{swings:?}");
        }
        // One that grows or shrinks by more than it swings does so, however small.
        assert_eq!(
            eta(33.0, minute([3.0, 9.0, 13.0, 17.0, 24.0, 27.0, 33.0])),
            Eta::Never
        );
        assert_eq!(
            eta(90.0, minute([0.0, 0.0, 0.0, 0.0, 30.0, 60.0, 90.0])),
            Eta::Never
        );
        let falls = eta(
            600.0,
            minute([3600.0, 3200.0, 2500.0, 2150.0, 1500.0, 1100.0, 600.0]),
        );
        assert!(
            matches!(falls, Eta::Seconds(s) if (9.0..15.0).contains(&s)),
            "{falls:?}"
        );
    }

    #[test]
    fn the_error_of_a_line_is_that_of_the_books() {
        // Slope 1/7 a step of 10 s, variance of the residuals 92/35, error of the slope √(92/35 / 28) a step; six steps.
        let course = minute([1.0, 3.0, 2.0, 5.0, 1.0, 4.0, 2.0]).unwrap();
        assert!((course.slope - 0.014_285_714).abs() < 1e-6, "{course:?}");
        assert!((course.moved - 0.857_142_857).abs() < 1e-6, "{course:?}");
        assert!((course.error - 1.838_367).abs() < 1e-6, "{course:?}");
    }

    #[test]
    fn rising_counts_from_the_last_fall() {
        let mut s = Series::default();
        for (i, v) in [5.0, 9.0, 3.0, 4.0, 4.0, 6.0].into_iter().enumerate() {
            s.push(i as u64 * 1000 + 1, v);
        }
        assert_eq!(s.rising_since(), Some(2001));
        s.push(9000, 1.0);
        assert_eq!(s.rising_since(), None);
        // Looked at often, a backlog that grows by 60 a second is a little smaller now and then.
        let mut s = Series::default();
        for (i, v) in [9_000.0, 1_000.0, 2_000.0, 1_990.0, 3_000.0]
            .into_iter()
            .enumerate()
        {
            s.push(i as u64 * 1000 + 1, v);
        }
        assert_eq!(s.rising_since(), Some(1001));
        // One that goes down slowly does not rise.
        let mut s = Series::default();
        for i in 0..20u32 {
            s.push(u64::from(i) * 1000 + 1, 1e6 - f64::from(i) * 1e3);
        }
        assert_eq!(s.rising_since(), None);
    }
}
