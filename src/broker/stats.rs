//! Figures of a running broker: what was put and got by topic and group, rates, and how long sends took.
//!
//! Counters are plain atomics on the hot path. A sampler reads them: once a second for the rates of the runtime
//! info, every ten seconds for the windows of the statistics query (315). Time comes in as an argument.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

mod named;

pub use named::Named;
use named::NamedCounts;

/// Number of messages put, by topic.
pub const TOPIC_PUT_NUMS: &str = "TOPIC_PUT_NUMS";
/// Bytes put, by topic.
pub const TOPIC_PUT_SIZE: &str = "TOPIC_PUT_SIZE";
/// Number of messages got, by `topic@group`.
pub const GROUP_GET_NUMS: &str = "GROUP_GET_NUMS";
/// Bytes got, by `topic@group`.
pub const GROUP_GET_SIZE: &str = "GROUP_GET_SIZE";
/// Number of messages given back, by `topic@group`.
pub const SNDBCK_PUT_NUMS: &str = "SNDBCK_PUT_NUMS";
/// Number of messages that became dead letters, by `owner@topic@group@SEND_BACK_TO_DLQ`; the owner is always `null`.
pub const SNDBCK2DLQ_TIMES: &str = "SNDBCK2DLQ_TIMES";
/// Number of messages put, by cluster.
pub const BROKER_PUT_NUMS: &str = "BROKER_PUT_NUMS";
/// Number of messages got, by cluster.
pub const BROKER_GET_NUMS: &str = "BROKER_GET_NUMS";
/// Number of messages put into topics of users, by cluster.
pub const BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC: &str = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC";
/// Number of messages got from topics of users, by cluster.
pub const BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC: &str = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC";

/// What happened within a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// How many.
    pub sum: i64,
    /// How many a second.
    pub tps: f64,
    /// How many a call.
    pub avgpt: f64,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at_ms: i64,
    times: i64,
    value: i64,
}

/// One counted thing with its last minute, hour and day.
#[derive(Debug, Default)]
pub struct Counted {
    value: AtomicI64,
    times: AtomicI64,
    /// Samples of the minute (10 s apart), the hour (10 min) and the day (1 h).
    samples: Mutex<[VecDeque<Sample>; 3]>,
}

/// Distance of the samples of each window, ms, and how many are kept.
const WINDOWS: [(i64, usize); 3] = [(10_000, 7), (600_000, 7), (3_600_000, 25)];

impl Counted {
    fn add(&self, value: i64) {
        self.value.fetch_add(value, Relaxed);
        self.times.fetch_add(1, Relaxed);
    }

    /// As [`Self::add`] without a call: Java keeps no average of what it counts for the whole broker.
    fn add_only(&self, value: i64) {
        self.value.fetch_add(value, Relaxed);
    }

    fn total(&self) -> i64 {
        self.value.load(Relaxed)
    }

    fn sample(&self, window: usize, now_ms: i64) {
        let (step, keep) = WINDOWS[window];
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let list = &mut samples[window];
        if list.is_empty() {
            // As if it had begun to count one step ago: the first window is not empty then.
            list.push_back(Sample {
                at_ms: now_ms - step,
                times: 0,
                value: 0,
            });
        }
        list.push_back(Sample {
            at_ms: now_ms,
            times: self.times.load(Relaxed),
            value: self.value.load(Relaxed),
        });
        if list.len() > keep {
            list.pop_front();
        }
    }

    /// The last minute and hour as far as they were sampled, and the sum of the last day up to now. Java's day ends
    /// with its newest hourly sample: a topic of this hour has none, and `statsAll` prints the last minute for it.
    pub fn windows(&self) -> [Window; 3] {
        const DAY: usize = 2;
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let mut windows = std::array::from_fn(|i| {
            let ends = samples[i].front().zip(samples[i].back());
            ends.map_or_else(Window::default, |(first, last)| Window::between(first, last))
        });
        windows[DAY].sum = self.total() - samples[DAY].front().map_or(0, |first| first.value);
        windows
    }
}

impl Window {
    fn between(first: &Sample, last: &Sample) -> Self {
        let sum = last.value - first.value;
        let (ms, times) = (last.at_ms - first.at_ms, last.times - first.times);
        Self {
            sum,
            tps: if ms > 0 {
                sum as f64 * 1000.0 / ms as f64
            } else {
                0.0
            },
            avgpt: if times > 0 { sum as f64 / times as f64 } else { 0.0 },
        }
    }
}

/// Messages and bytes of one topic or group.
#[derive(Debug, Default)]
struct Flow {
    nums: Counted,
    size: Counted,
}

/// Upper bounds of Java's put-time classes in ms, with their names.
const PUT_TIMES: [(u64, &str); 12] = [
    (0, "<=0ms"),
    (10, "0~10ms"),
    (50, "10~50ms"),
    (100, "50~100ms"),
    (200, "100~200ms"),
    (500, "200~500ms"),
    (1000, "500ms~1s"),
    (2000, "1~2s"),
    (3000, "2~3s"),
    (4000, "3~4s"),
    (5000, "4~5s"),
    (10_000, "5~10s"),
];

/// Classes of the latency histogram: four to each power of two of microseconds.
const LATENCY_CLASSES: usize = 128;

/// Every figure of a broker.
#[derive(Debug)]
pub struct Stats {
    topics: DashMap<String, Arc<Flow>>,
    /// Key `topic@group`.
    groups: DashMap<String, Arc<Flow>>,
    /// Key `topic@group`.
    sent_back: DashMap<String, Arc<Counted>>,
    /// Key `null@topic@group@SEND_BACK_TO_DLQ`.
    died: DashMap<String, Arc<Counted>>,
    put: Flow,
    got: Flow,
    put_user: Counted,
    got_user: Counted,
    named: NamedCounts,
    put_failed: AtomicU64,
    busy: AtomicU64,
    pulls_found: AtomicU64,
    pulls_missed: AtomicU64,
    put_times: [AtomicU64; PUT_TIMES.len() + 1],
    put_max_us: AtomicU64,
    get_max_us: AtomicU64,
    latency: [AtomicU64; LATENCY_CLASSES],
    sampled: Mutex<Sampled>,
}

#[derive(Debug, Default)]
struct Sampled {
    /// One entry a second: put, found pulls, missed pulls, messages transferred.
    rates: VecDeque<(i64, [u64; 4])>,
    ticks: u64,
    /// Latency classes at the start of the present and of the last minute.
    latency_marks: [Option<Box<[u64; LATENCY_CLASSES]>>; 2],
    day: Option<jiff::civil::Date>,
    put_today_morning: i64,
    put_yesterday_morning: i64,
    got_today_morning: i64,
    got_yesterday_morning: i64,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            topics: DashMap::new(),
            groups: DashMap::new(),
            sent_back: DashMap::new(),
            died: DashMap::new(),
            put: Flow::default(),
            got: Flow::default(),
            put_user: Counted::default(),
            got_user: Counted::default(),
            named: NamedCounts::default(),
            put_failed: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            pulls_found: AtomicU64::new(0),
            pulls_missed: AtomicU64::new(0),
            put_times: [const { AtomicU64::new(0) }; PUT_TIMES.len() + 1],
            put_max_us: AtomicU64::new(0),
            get_max_us: AtomicU64::new(0),
            latency: [const { AtomicU64::new(0) }; LATENCY_CLASSES],
            sampled: Mutex::new(Sampled::default()),
        }
    }
}

fn entry<T: Default>(table: &DashMap<String, Arc<T>>, key: &str) -> Arc<T> {
    if let Some(found) = table.get(key) {
        return found.clone();
    }
    table.entry(key.to_owned()).or_default().clone()
}

/// Key of a consumer group's figures on a topic.
fn group_key(topic: &str, group: &str) -> String {
    format!("{topic}@{group}")
}

/// Key of the dead letters of a group from a topic, as Java's `buildCommercialStatsKey` makes it.
fn died_key(topic: &str, group: &str) -> String {
    format!("null@{topic}@{group}@SEND_BACK_TO_DLQ")
}

impl Stats {
    /// Counts a message that a group gave back; `topic` is where it was first read.
    pub fn sent_back(&self, group: &str, topic: &str) {
        entry(&self.sent_back, &group_key(topic, group)).add(1);
    }

    /// Counts a message that became a dead letter.
    pub fn died(&self, group: &str, topic: &str) {
        entry(&self.died, &died_key(topic, group)).add(1);
    }

    /// Counts messages stored in a topic.
    pub fn put(&self, topic: &str, system: bool, messages: i64, bytes: i64, took: Duration) {
        let flow = entry(&self.topics, topic);
        flow.nums.add(messages);
        flow.size.add(bytes);
        self.put.nums.add_only(messages);
        self.put.size.add_only(bytes);
        if !system {
            self.put_user.add_only(messages);
        }
        let ms = took.as_millis() as u64;
        let class = PUT_TIMES
            .iter()
            .position(|&(to, _)| ms <= to)
            .unwrap_or(PUT_TIMES.len());
        self.put_times[class].fetch_add(1, Relaxed);
        let us = took.as_micros() as u64;
        self.put_max_us.fetch_max(us, Relaxed);
        self.latency[latency_class(us)].fetch_add(1, Relaxed);
    }

    /// Counts a message that the broker stored in a topic of its own for a client: with the topic, not among the messages
    /// put today (`AbstractSendMessageProcessor.consumerSendMsgBack`).
    pub fn put_aside(&self, topic: &str, bytes: i64) {
        let flow = entry(&self.topics, topic);
        flow.nums.add(1);
        flow.size.add(bytes);
    }

    /// Counts one call under one of the names that have no field of their own.
    pub fn count(&self, named: Named, key: &str, value: i64) {
        self.named.add(named, key, value);
    }

    /// Counts a send that was not stored.
    pub fn put_failed(&self, busy: bool) {
        self.put_failed.fetch_add(1, Relaxed);
        if busy {
            self.busy.fetch_add(1, Relaxed);
        }
    }

    /// Counts messages given to a group.
    pub fn got(&self, group: &str, topic: &str, system: bool, messages: i64, bytes: i64) {
        let flow = entry(&self.groups, &group_key(topic, group));
        flow.nums.add(messages);
        flow.size.add(bytes);
        self.got.nums.add_only(messages);
        self.got.size.add_only(bytes);
        if !system {
            self.got_user.add_only(messages);
        }
        self.pulls_found.fetch_add(1, Relaxed);
    }

    /// Notes how long a read of the store took.
    pub fn get_took(&self, took: Duration) {
        self.get_max_us.fetch_max(took.as_micros() as u64, Relaxed);
    }

    /// Counts a pull without a message.
    pub fn got_nothing(&self) {
        self.pulls_missed.fetch_add(1, Relaxed);
    }

    /// Forgets a topic.
    pub fn drop_topic(&self, topic: &str) {
        self.topics.remove(topic);
        let prefix = group_key(topic, "");
        self.groups.retain(|key, _| !key.starts_with(&prefix));
        self.sent_back.retain(|key, _| !key.starts_with(&prefix));
        self.named.drop_topic(topic);
        let prefix = format!("null@{topic}@");
        self.died.retain(|key, _| !key.starts_with(&prefix));
    }

    /// Forgets a group.
    pub fn drop_group(&self, group: &str) {
        let others = |key: &str| key.split_once('@').is_none_or(|(_, g)| g != group);
        self.groups.retain(|key, _| others(key));
        self.sent_back.retain(|key, _| others(key));
        self.died.retain(|key, _| key.split('@').nth(2) != Some(group));
        self.named.drop_group(group);
    }

    /// Messages a second put into a topic during the last minute.
    pub fn topic_put_tps(&self, topic: &str) -> f64 {
        self.topics.get(topic).map_or(0.0, |f| f.nums.windows()[0].tps)
    }

    /// Messages a second a group got from a topic during the last minute.
    pub fn group_get_tps(&self, group: &str, topic: &str) -> f64 {
        self.groups
            .get(&group_key(topic, group))
            .map_or(0.0, |f| f.nums.windows()[0].tps)
    }

    /// Minute, hour and day of one figure by its Java name and key; `None` when nothing was counted under it.
    pub fn windows(&self, name: &str, key: &str, cluster: &str) -> Option<[Window; 3]> {
        match name {
            TOPIC_PUT_NUMS => self.topics.get(key).map(|f| f.nums.windows()),
            TOPIC_PUT_SIZE => self.topics.get(key).map(|f| f.size.windows()),
            GROUP_GET_NUMS => self.groups.get(key).map(|f| f.nums.windows()),
            GROUP_GET_SIZE => self.groups.get(key).map(|f| f.size.windows()),
            SNDBCK_PUT_NUMS => self.sent_back.get(key).map(|c| c.windows()),
            SNDBCK2DLQ_TIMES => self.died.get(key).map(|c| c.windows()),
            BROKER_PUT_NUMS if key == cluster => Some(self.put.nums.windows()),
            BROKER_GET_NUMS if key == cluster => Some(self.got.nums.windows()),
            BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC if key == cluster => Some(self.put_user.windows()),
            BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC if key == cluster => Some(self.got_user.windows()),
            _ => self.named.windows(name, key),
        }
    }

    /// Takes one second's sample; every tenth also feeds the windows.
    pub fn tick(&self, now_ms: i64, today: jiff::civil::Date) {
        let mut sampled = self.sampled.lock().unwrap_or_else(PoisonError::into_inner);
        let now = [
            self.put.nums.value.load(Relaxed) as u64,
            self.pulls_found.load(Relaxed),
            self.pulls_missed.load(Relaxed),
            self.got.nums.value.load(Relaxed) as u64,
        ];
        sampled.rates.push_back((now_ms, now));
        if sampled.rates.len() > 601 {
            sampled.rates.pop_front();
        }
        let ticks = sampled.ticks;
        sampled.ticks += 1;
        if ticks.is_multiple_of(60) {
            let present = Box::new(std::array::from_fn(|i| self.latency[i].load(Relaxed)));
            sampled.latency_marks[1] = sampled.latency_marks[0].replace(present);
        }
        if sampled.day != Some(today) {
            if sampled.day.is_some() {
                sampled.put_yesterday_morning = sampled.put_today_morning;
                sampled.got_yesterday_morning = sampled.got_today_morning;
                sampled.put_today_morning = self.put_user.total();
                sampled.got_today_morning = self.got_user.total();
            }
            sampled.day = Some(today);
        }
        drop(sampled);
        for (window, (step, _)) in WINDOWS.iter().enumerate() {
            if !ticks.is_multiple_of(*step as u64 / 1000) {
                continue;
            }
            for table in [&self.topics, &self.groups] {
                for flow in table {
                    flow.nums.sample(window, now_ms);
                    flow.size.sample(window, now_ms);
                }
            }
            for table in [&self.sent_back, &self.died] {
                for counted in table {
                    counted.sample(window, now_ms);
                }
            }
            for counted in [&self.put.nums, &self.got.nums, &self.put_user, &self.got_user] {
                counted.sample(window, now_ms);
            }
            self.named.sample(window, now_ms);
        }
    }

    /// The store's and the broker's own figures under the names of the runtime info (28).
    pub fn runtime_info(&self, out: &mut Vec<(String, String)>) {
        let mut put = |name: &str, value: String| out.push((name.to_owned(), value));
        let times: Vec<u64> = self.put_times.iter().map(|n| n.load(Relaxed)).collect();
        let times_total: u64 = times.iter().sum();
        let size_total = self.put.size.value.load(Relaxed);
        put("putMessageTimesTotal", times_total.to_string());
        put("putMessageFailedTimes", self.put_failed.load(Relaxed).to_string());
        put("putMessageSizeTotal", size_total.to_string());
        put(
            "putMessageAverageSize",
            format!("{:?}", size_total as f64 / times_total.max(1) as f64),
        );
        let names = PUT_TIMES.iter().map(|&(_, name)| name).chain(["10s~"]);
        put(
            "putMessageDistributeTime",
            names
                .zip(&times)
                .map(|(name, n)| format!("[{name}]:{n} "))
                .collect(),
        );
        put(
            "putMessageEntireTimeMax",
            (self.put_max_us.load(Relaxed) / 1000).to_string(),
        );
        put(
            "getMessageEntireTimeMax",
            (self.get_max_us.load(Relaxed) / 1000).to_string(),
        );
        put("rmqBusySendsTotal", self.busy.load(Relaxed).to_string());

        let sampled = self.sampled.lock().unwrap_or_else(PoisonError::into_inner);
        put("putTps", sampled.tps(|n| n[0]) + " ");
        put("getFoundTps", sampled.tps(|n| n[1]) + " ");
        put("getMissTps", sampled.tps(|n| n[2]) + " ");
        put("getTotalTps", sampled.tps(|n| n[1] + n[2]));
        put("getTransferredTps", sampled.tps(|n| n[3]) + " ");
        let since: [u64; LATENCY_CLASSES] = std::array::from_fn(|i| {
            let mark = sampled.latency_marks[1]
                .as_ref()
                .or(sampled.latency_marks[0].as_ref());
            self.latency[i].load(Relaxed) - mark.map_or(0, |m| m[i])
        });
        put("putLatency99", format!("{:.2}", percentile_ms(&since, 0.99)));
        put("putLatency999", format!("{:.2}", percentile_ms(&since, 0.999)));
        put("msgPutTotalTodayNow", self.put_user.total().to_string());
        put("msgPutTotalTodayMorning", sampled.put_today_morning.to_string());
        put(
            "msgPutTotalYesterdayMorning",
            sampled.put_yesterday_morning.to_string(),
        );
        put("msgGetTotalTodayNow", self.got_user.total().to_string());
        put("msgGetTotalTodayMorning", sampled.got_today_morning.to_string());
        put(
            "msgGetTotalYesterdayMorning",
            sampled.got_yesterday_morning.to_string(),
        );
    }
}

impl Sampled {
    /// Rates over 10, 60 and 600 s, separated by spaces: one value on a young broker, then two, then three.
    fn tps(&self, of: impl Fn(&[u64; 4]) -> u64) -> String {
        let Some((last_ms, last)) = self.rates.back() else {
            return "0.0".into();
        };
        let rate = |seconds: usize| {
            let first = self.rates.len().saturating_sub(seconds + 1);
            let (first_ms, first) = &self.rates[first];
            let ms = last_ms - first_ms;
            if ms > 0 {
                (of(last) - of(first)) as f64 * 1000.0 / ms as f64
            } else {
                0.0
            }
        };
        let mut text = format!("{:?}", rate(10));
        for seconds in [60, 600] {
            if self.rates.len() > seconds {
                text += &format!(" {:?}", rate(seconds));
            }
        }
        text
    }
}

fn latency_class(us: u64) -> usize {
    if us < 4 {
        return us as usize;
    }
    let power = us.ilog2() as usize;
    let quarter = (us >> (power - 2)) as usize & 3;
    (power * 4 + quarter - 4).min(LATENCY_CLASSES - 1)
}

/// Upper bound of a class, µs.
fn class_end_us(class: usize) -> u64 {
    if class < 4 {
        return class as u64;
    }
    let (power, quarter) = ((class + 4) / 4, (class + 4) % 4);
    ((4 + quarter as u64 + 1) << (power - 2)) - 1
}

fn percentile_ms(classes: &[u64; LATENCY_CLASSES], share: f64) -> f64 {
    let total: u64 = classes.iter().sum();
    let wanted = (total as f64 * share).ceil() as u64;
    let mut seen = 0;
    for (class, n) in classes.iter().enumerate() {
        seen += n;
        if *n > 0 && seen >= wanted {
            return class_end_us(class) as f64 / 1000.0;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: jiff::civil::Date = jiff::civil::date(2026, 11, 29);

    fn info(stats: &Stats) -> std::collections::HashMap<String, String> {
        let mut out = Vec::new();
        stats.runtime_info(&mut out);
        out.into_iter().collect()
    }

    #[test]
    fn windows_follow_the_samples() {
        let stats = Stats::default();
        stats.put("t", false, 20, 400, Duration::ZERO);
        let [minute, hour, day] = stats.windows(TOPIC_PUT_NUMS, "t", "c").unwrap();
        assert_eq!([minute, hour], [Window::default(); 2]);
        assert_eq!(day.sum, 20, "nothing is sampled yet, and it has happened");
        for second in 0..=60 {
            stats.tick(second * 1000, TODAY);
            stats.put("t", false, 2, 2, Duration::ZERO);
        }
        let [minute, hour, day] = stats.windows(TOPIC_PUT_NUMS, "t", "c").unwrap();
        assert_eq!(day.sum, 20 + 61 * 2);
        // Seven samples kept: 0 s .. 60 s, with 2 messages a second between them.
        assert_eq!(minute.sum, 120);
        assert!((minute.tps - 2.0).abs() < 1e-9);
        assert!((minute.avgpt - 2.0).abs() < 1e-9);
        assert_eq!(hour.sum, 20, "sampled once, at the first tick");
        assert!((stats.topic_put_tps("t") - 2.0).abs() < 1e-9);
        assert!(stats.windows(TOPIC_PUT_NUMS, "other", "c").is_none());
        assert!(stats.windows("NONSENSE", "t", "c").is_none());
        assert!(stats.windows(BROKER_PUT_NUMS, "c", "c").is_some());
        stats.drop_topic("t");
        assert!(stats.windows(TOPIC_PUT_NUMS, "t", "c").is_none());
    }

    #[test]
    fn a_young_broker_shows_fewer_rates() {
        let stats = Stats::default();
        assert_eq!(info(&stats)["putTps"], "0.0 ");
        for second in 0..=5 {
            stats.tick(second * 1000, TODAY);
            stats.put("t", false, 10, 10, Duration::ZERO);
        }
        assert_eq!(info(&stats)["putTps"], "10.0 ");
        for second in 6..=60 {
            stats.tick(second * 1000, TODAY);
        }
        let text = &info(&stats)["putTps"];
        assert_eq!(text.split(' ').filter(|t| !t.is_empty()).count(), 2, "{text:?}");
        assert!(text.starts_with("0.0 "), "{text:?}");
    }

    #[test]
    fn times_fall_into_javas_classes() {
        let stats = Stats::default();
        for ms in [0, 1, 10, 11, 500, 20_000] {
            stats.put("t", false, 1, 100, Duration::from_millis(ms));
        }
        let info = info(&stats);
        let text = &info["putMessageDistributeTime"];
        assert!(
            text.starts_with("[<=0ms]:1 [0~10ms]:2 [10~50ms]:1 [50~100ms]:0 "),
            "{text}"
        );
        assert!(
            text.ends_with(
                "[200~500ms]:1 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 "
            )
        );
        assert_eq!(info["putMessageEntireTimeMax"], "20000");
        assert_eq!(info["putMessageAverageSize"], "100.0");
    }

    #[test]
    fn latency_classes_do_not_overlap() {
        let mut last = 0;
        for us in 0..100_000u64 {
            let class = latency_class(us);
            assert!(class == last || class == last + 1, "{us}: {last} -> {class}");
            assert!(us <= class_end_us(class), "{us} in {class}");
            last = class;
        }
        let mut classes = [0; LATENCY_CLASSES];
        classes[latency_class(1000)] = 99;
        classes[latency_class(8000)] = 1;
        assert!((0.99..1.3).contains(&percentile_ms(&classes, 0.99)));
        assert!((7.9..10.0).contains(&percentile_ms(&classes, 0.999)));
    }

    #[test]
    fn mornings_move_at_midnight() {
        let stats = Stats::default();
        stats.tick(0, TODAY);
        stats.put("t", false, 3, 3, Duration::ZERO);
        stats.put("system", true, 100, 3, Duration::ZERO);
        stats.tick(1000, TODAY);
        assert_eq!(info(&stats)["msgPutTotalTodayMorning"], "0");
        stats.tick(2000, TODAY.tomorrow().unwrap());
        let info = info(&stats);
        assert_eq!(info["msgPutTotalTodayMorning"], "3");
        assert_eq!(info["msgPutTotalTodayNow"], "3");
    }
}
