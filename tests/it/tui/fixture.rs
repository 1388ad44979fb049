//! A cluster that exists only as updates: what the servers of a story say at each moment.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rmq::client::RuntimeInfo;
use rmq::client::admin::namesrv::Difference;
use rmq::client::lag::{GroupKind, Waiting};
use rmq::client::snapshot::{
    BrokerConfigView, BrokerId, ClusterTable, GroupLag, HaState, Listed, LiveBroker, NameServerConfig,
    SlaveState, TopicOnBroker,
};
use rmq::protocol::model::{DataVersion, Perm};
use rmq::tui::app::{self, Action, App, Event, Screen, Settings};
use rmq::tui::deed::{Sheet, SheetCell};
use rmq::tui::model::{BrokerTold, ServerTold, Told, Update};
use rmq::tui::routes::Compared;
use rmq::tui::view;
use rmq::tui::want::{
    ClientDetail, ClientLine, ClientTold, Found, GroupBrief, GroupDetail, GroupOnTopic, QueueEnds,
    TopicBrief, TopicDetail, Want,
};

/// 2026-11-29 12:04:31 UTC: the end of every story.
pub const NOW: i64 = 1_795_953_871_000;
/// Seconds a story takes.
const LENGTH: i64 = 240;

/// What happens in a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Story {
    /// All is well.
    Healthy,
    /// broker-c was stopped 41 s ago; the disk of broker-a fills; ns2 misses a topic.
    OneDead,
    /// Nothing ever answered.
    Unreachable,
    /// Everything died 41 s ago.
    AllDied,
    /// Name servers answer, nothing is registered.
    Empty,
    /// Names in other scripts, and hostile ones.
    Names,
}

struct Cast {
    id: BrokerId,
    addr: String,
    java: bool,
    silent_s: i64,
    age_s: u64,
}

fn id(cluster: &str, name: &str, id: i64) -> BrokerId {
    BrokerId {
        cluster: cluster.into(),
        name: name.into(),
        id,
    }
}

fn cast(story: Story) -> Vec<Cast> {
    let one = |name: &str, number, host: u8, java, age_s| Cast {
        id: id("sh-prod", name, number),
        addr: format!("10.0.0.{host}:10911"),
        java,
        silent_s: 0,
        age_s,
    };
    let mut cast = match story {
        Story::Unreachable | Story::Empty => Vec::new(),
        Story::Names => vec![
            one("订单-broker-上海一号机房", 0, 11, true, 12),
            one("plain\u{1b}[2J\u{202e}x", 0, 12, false, 5),
        ],
        Story::Healthy | Story::OneDead | Story::AllDied => vec![
            one("broker-a", 0, 11, true, 12),
            one("broker-a", 1, 12, true, 19),
            one(
                "broker-b",
                0,
                14,
                false,
                if story == Story::OneDead { 34 } else { 21 },
            ),
            one("broker-c", 0, 13, true, 2),
        ],
    };
    for member in &mut cast {
        let dead = match story {
            Story::OneDead => member.id.name == "broker-c",
            Story::AllDied => true,
            _ => false,
        };
        if dead {
            member.silent_s = 41;
            member.age_s = 41;
        }
    }
    cast
}

fn topics(story: Story) -> &'static [(&'static str, f64)] {
    match story {
        Story::Names => &[
            ("订单中心-支付完成通知", 4100.0),
            ("プロモーション", 310.0),
            ("bad\u{7}name", 2.0),
        ],
        _ => &[
            ("orders", 4100.0),
            ("payments", 3200.0),
            ("stock-sync", 1900.0),
            ("audit", 84.0),
        ],
    }
}

fn update(at_ms: i64, told: Told) -> Update {
    Update {
        at_ms,
        retry_at_ms: None,
        told,
    }
}

fn table(story: Story, cast: &[Cast], live: bool, t: i64) -> ClusterTable {
    let exact = |c: &Cast| {
        // An age grows by the second and falls at each beat, unless the broker is dead.
        let back = u64::try_from(LENGTH - t).unwrap();
        let age = if c.age_s >= back {
            c.age_s - back
        } else {
            30 - (back - c.age_s) % 30
        };
        Duration::from_secs(age)
    };
    ClusterTable {
        listed: cast
            .iter()
            .map(|c| Listed {
                broker: c.id.clone(),
                addr: c.addr.clone(),
            })
            .collect(),
        live: live.then(|| {
            cast.iter()
                .map(|c| LiveBroker {
                    cluster: c.id.cluster.clone(),
                    addr: c.addr.clone(),
                    age: exact(c),
                    limit: Some(Duration::from_secs(120)),
                    data_version: Some(DataVersion {
                        counter: if story == Story::OneDead { 118 } else { 77 },
                        ..DataVersion::default()
                    }),
                })
                .collect()
        }),
    }
}

fn runtime(c: &Cast, story: Story, t: i64) -> RuntimeInfo {
    let wave = 1000 + (t * 37 % 400) * 10 + t * 11;
    let put = if c.id.id == 0 { wave * t } else { 0 };
    let disk = if story == Story::OneDead && c.id.name == "broker-a" {
        "0.71"
    } else {
        "0.38"
    };
    let boot = (NOW - 2_433_600_000).to_string();
    let earliest = (NOW - 198_000_000).to_string();
    let entries = [
        ("brokerVersionDesc", "V5_3_3"),
        ("brokerActive", "true"),
        ("bootTimestamp", boot.as_str()),
        ("putTps", "6214.0 6190.0 6002.0"),
        ("getTransferredTps", "6000.5 5990.0"),
        ("getFoundTps", "190.0 188.0 170.0"),
        ("getMissTps", "21.0 20.0 22.0"),
        ("msgPutTotalTodayMorning", "0"),
        ("msgGetTotalTodayMorning", "0"),
        ("putMessageAverageSize", "812.4"),
        ("putLatency99", "4.00"),
        ("putLatency999", "18.00"),
        ("putMessageEntireTimeMax", "412"),
        (
            "putMessageDistributeTime",
            "[<=0ms]:912000 [0~10ms]:81000 [10~50ms]:6000 [50~100ms]:700 [100~200ms]:200 [200~500ms]:100 \
             [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 ",
        ),
        ("commitLogDiskRatio", disk),
        ("consumeQueueDiskRatio", "0.20"),
        ("commitLogMinOffset", "442381631488"),
        ("commitLogMaxOffset", "535475519488"),
        ("earliestMessageTimeStamp", earliest.as_str()),
        ("dispatchBehindBytes", "0"),
        ("remainHowManyDataToFlush", "0 B"),
        ("pageCacheLockTimeMills", "0"),
        ("sendThreadPoolQueueSize", "0"),
        ("sendThreadPoolQueueCapacity", "10000"),
        ("sendThreadPoolQueueHeadWaitTimeMills", "0"),
        ("pullThreadPoolQueueSize", "3"),
        ("pullThreadPoolQueueCapacity", "100000"),
        ("queryThreadPoolQueueSize", "0"),
        ("queryThreadPoolQueueCapacity", "20000"),
        ("EndTransactionQueueSize", "0"),
        ("EndTransactionThreadPoolQueueCapacity", "100000"),
        ("scheduleMessageOffset_4", "100,114"),
        ("scheduleMessageOffset_17", "8000,11200"),
        ("timerReadBehind", "0"),
    ];
    let mut entries: BTreeMap<String, String> = entries.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    entries.insert("msgPutTotalTodayNow".into(), put.to_string());
    entries.insert("msgGetTotalTodayNow".into(), (put / 20 * 19).to_string());
    RuntimeInfo::parse(entries)
}

fn config(c: &Cast) -> BrokerConfigView {
    let entries = [
        ("brokerName", c.id.name.as_str()),
        ("brokerClusterName", "sh-prod"),
        ("deleteWhen", "04"),
        ("diskMaxUsedSpaceRatio", "75"),
        ("fileReservedTime", "72"),
        ("flushDiskType", "ASYNC_FLUSH"),
        ("namesrvAddr", "10.0.0.1:9876;10.0.0.2:9876"),
        ("registerNameServerPeriod", "30000"),
        ("storePathRootDir", "/data/rocketmq/store"),
        ("aclSecretKey", "hunter2"),
    ];
    BrokerConfigView {
        register_period: Some(Duration::from_secs(30)),
        name_servers: vec!["10.0.0.1:9876".into(), "10.0.0.2:9876".into()],
        flush: Some(if c.java { "ASYNC_FLUSH" } else { "SYNC_FLUSH" }.into()),
        role: Some(if c.java { "ASYNC_MASTER" } else { "SYNC_MASTER" }.into()),
        perm: Some(Perm::READ_WRITE),
        entries: entries.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
    }
}

fn ha(c: &Cast) -> HaState {
    let slave = SlaveState {
        addr: "10.0.0.12:40110".into(),
        acked_offset: 535_475_519_488,
        behind_bytes: 0,
        in_sync: true,
        transferred_bytes_per_s: 5_242_880,
    };
    let slaves = if c.id.name == "broker-a" {
        vec![slave]
    } else {
        Vec::new()
    };
    HaState {
        master_offset: 535_475_519_488,
        in_sync: i64::try_from(slaves.len()).unwrap(),
        slaves,
    }
}

fn lag(c: &Cast, story: Story, t: i64) -> Vec<GroupLag> {
    let group = |name: &str, lag: i64, read_s: i64| GroupLag {
        group: name.into(),
        topic: "orders".into(),
        broker: c.id.name.clone(),
        queue: 0,
        max: 10_000_000,
        committed: Some(10_000_000 - lag),
        inflight: None,
        last_consumed_ms: Some(NOW - read_s * 1000),
        hole: 0,
    };
    match story {
        Story::Names => vec![group("CID-消费者", 1200, 90)],
        _ => vec![
            group("CID_pay", 300_000 + t * 310, 760),
            group("CID_audit", 30_000 - t * 60, 65),
            group("CID_stock", 2800, 3),
        ],
    }
}

/// The news of second `t` of a story.
fn news(story: Story, t: i64) -> Vec<Update> {
    let at = NOW - (LENGTH - t) * 1000;
    let cast = cast(story);
    let mut out = Vec::new();
    let gone = |silent_s: i64| t > LENGTH - silent_s;
    for (index, addr) in ["10.0.0.1:9876", "10.0.0.2:9876"].into_iter().enumerate() {
        let told = |told| Told::NameServer(addr.to_owned(), told);
        let down = match story {
            Story::Unreachable => Some("connection refused"),
            Story::AllDied if gone(41) => Some("no answer within 2.0s"),
            _ => None,
        };
        if let Some(why) = down {
            let mut failed = update(at, told(ServerTold::Cluster(Err(why.into()))));
            failed.retry_at_ms = Some(NOW + 8_000);
            out.push(failed);
            continue;
        }
        let table = table(story, &cast, index == 0, t);
        out.push(update(
            at,
            told(ServerTold::Cluster(Ok((table, Duration::from_micros(900))))),
        ));
        let mut names: Vec<String> = topics(story).iter().map(|(name, _)| (*name).to_owned()).collect();
        if story == Story::OneDead && index == 1 {
            names.pop();
        }
        out.push(update(at, told(ServerTold::Topics(Ok(names)))));
        let limits = NameServerConfig {
            scan_interval: Some(Duration::from_secs(5)),
            ..NameServerConfig::default()
        };
        out.push(update(at, told(ServerTold::Config(Ok(limits)))));
    }
    for c in &cast {
        let told = |told| Told::Broker(c.id.clone(), told);
        if gone(c.silent_s) {
            let mut failed = update(at, told(BrokerTold::Runtime(Err("no answer within 2.0s".into()))));
            failed.retry_at_ms = Some(NOW + 6_000);
            out.push(failed);
            continue;
        }
        let rtt = Duration::from_millis(if c.java { 1 } else { 2 });
        let info = Box::new(runtime(c, story, t));
        out.push(update(at, told(BrokerTold::Runtime(Ok((info, rtt))))));
        out.push(update(at, told(BrokerTold::Config(Ok(config(c))))));
        if c.id.id != 0 {
            continue;
        }
        out.push(update(at, told(BrokerTold::Ha(Ok(ha(c))))));
        let on_broker = topics(story).iter().map(|(name, _)| {
            let on = TopicOnBroker {
                broker: c.id.clone(),
                read_queues: 16,
                write_queues: if story == Story::OneDead && *name == "orders" {
                    8
                } else {
                    16
                },
                perm: Perm::READ_WRITE,
                ..TopicOnBroker::default()
            };
            ((*name).to_owned(), on)
        });
        let on_broker = (on_broker.collect(), Some(DataVersion::default()));
        out.push(update(at, told(BrokerTold::Topics(Ok(on_broker)))));
        for (index, (name, rate)) in topics(story).iter().enumerate() {
            let swing = 1.0 + f64::from(i32::try_from((t / 10 + index as i64) % 4).unwrap()) / 8.0;
            out.push(update(
                at,
                told(BrokerTold::TopicRate((*name).to_owned(), Ok(rate * swing / 4.0))),
            ));
        }
        out.push(update(at, told(BrokerTold::Lag(Ok(lag(c, story, t))))));
        out.push(update(at, told(BrokerTold::Half(Ok(4)))));
    }
    out
}

/// How a console is set up for a picture.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub size: (u16, u16),
    pub colour: bool,
    pub ascii: bool,
}

impl Look {
    pub const fn of(size: (u16, u16)) -> Self {
        Self {
            size,
            colour: true,
            ascii: false,
        }
    }
}

/// A console at the end of a story.
pub fn console(story: Story, screen: Screen, look: Look) -> App {
    static ENDS: Mutex<Vec<(Story, App)>> = Mutex::new(Vec::new());
    let mut ends = ENDS.lock().unwrap();
    let end = match ends.iter().find(|(s, _)| *s == story) {
        Some((_, app)) => app.clone(),
        None => {
            let app = told(story);
            ends.push((story, app.clone()));
            app
        }
    };
    drop(ends);
    let mut app = end;
    app.settings.colour = look.colour;
    app.settings.ascii = look.ascii;
    app::update(&mut app, NOW, Event::Resize(look.size.0, look.size.1));
    match screen {
        Screen::Overview => {}
        Screen::Heartbeats => drop(press(&mut app, "2")),
        Screen::Brokers => drop(press(&mut app, "3")),
        Screen::Broker => {
            press(&mut app, "3");
            press(&mut app, "enter");
        }
        Screen::Topics => drop(press(&mut app, "4")),
        Screen::Topic => {
            press(&mut app, "4");
            press(&mut app, "enter");
        }
        Screen::Groups => drop(press(&mut app, "5")),
        Screen::Group => {
            press(&mut app, "5");
            press(&mut app, "enter");
            press(&mut app, "i");
        }
        Screen::Store => drop(press(&mut app, "9")),
        Screen::StoreQueues => {
            press(&mut app, "9");
            press(&mut app, "q");
        }
        Screen::StoreIndex => {
            press(&mut app, "9");
            press(&mut app, "i");
        }
        Screen::StoreChecks => {
            press(&mut app, "9");
            press(&mut app, "K");
        }
        Screen::Messages => {
            press(&mut app, "6");
            press(&mut app, "enter");
        }
        Screen::Dead => drop(press(&mut app, "7")),
        Screen::Offsets => {
            press(&mut app, "8");
            if story != Story::Empty && story != Story::Unreachable {
                press(&mut app, "enter");
                press(&mut app, "tab");
                type_text(&mut app, "-1h");
                press(&mut app, "enter");
            }
        }
    }
    answer(&mut app, story);
    if screen == Screen::Messages {
        press(&mut app, "T");
    }
    if matches!(screen, Screen::Messages | Screen::Dead) {
        // What is asked next depends on what was found.
        answer(&mut app, story);
    }
    app
}

/// Answers what the screen wants to know, where the story's servers can.
pub fn answer(app: &mut App, story: Story) {
    if story == Story::Unreachable || story == Story::Empty {
        return;
    }
    let of_servers = app
        .wants()
        .into_iter()
        .filter(|wanted| !matches!(wanted.want, Want::Store(_) | Want::Wire(_)));
    let updates = of_servers.map(|wanted| {
        let found = if story == Story::AllDied {
            Err("no answer within 2.0s".to_owned())
        } else {
            Ok(found(&wanted.want, story))
        };
        update(NOW, Told::Found(wanted.want, found))
    });
    let updates = updates.collect();
    app::update(app, NOW, Event::Updates(updates));
}

/// Ten thousand topics and as many groups on broker-a, a second later.
pub fn flood(app: &mut App) {
    let broker = id("sh-prod", "broker-a", 0);
    let topics = (0..10_000).map(|i| {
        let on = TopicOnBroker {
            broker: broker.clone(),
            read_queues: 8,
            write_queues: 8,
            perm: Perm::READ_WRITE,
            ..TopicOnBroker::default()
        };
        (format!("t-{i:05}"), on)
    });
    let lag = (0..10_000).map(|i| GroupLag {
        group: format!("g-{i:05}"),
        topic: format!("t-{i:05}"),
        broker: broker.name.clone(),
        queue: 0,
        max: 1_000_000,
        committed: Some(1_000_000 - i * 7),
        hole: 0,
        inflight: None,
        last_consumed_ms: Some(NOW - 5_000),
    });
    let at = NOW + 1_000;
    let told = [
        BrokerTold::Topics(Ok((topics.collect(), Some(DataVersion::default())))),
        BrokerTold::Lag(Ok(lag.collect())),
    ];
    let updates = told.map(|told| update(at, Told::Broker(broker.clone(), told)));
    app::update(app, at, Event::Updates(updates.into()));
    answer(app, Story::Healthy);
}

/// What a story's servers answer.
pub fn found(want: &Want, story: Story) -> Found {
    let failed = if story == Story::OneDead {
        BTreeMap::from([("broker-c".to_owned(), "no answer within 2.0s".to_owned())])
    } else {
        BTreeMap::new()
    };
    match want {
        Want::TopicBrief(name) => Found::TopicBrief(TopicBrief {
            messages: 88_100_000 / i64::try_from(name.len()).unwrap(),
            last_ms: NOW - 1_200,
            last_on: "broker-b".into(),
            partial: !failed.is_empty(),
        }),
        Want::GroupBrief(name) => Found::GroupBrief(GroupBrief {
            kind: if name == "CID_stock" {
                GroupKind::Offline
            } else {
                GroupKind::Clustering
            },
            takes: "push",
            oldest: Some(Waiting {
                broker: "broker-a".into(),
                stored_ms: NOW - if name == "CID_pay" { 760_000 } else { 65_000 },
                sure: name == "CID_pay",
            }),
            clients: 2,
            versions: 1,
            inflight: 0,
            tps: 1500.0,
            partial: !failed.is_empty(),
        }),
        Want::Topic(_) => Found::Topic(Box::new(topic_detail(failed))),
        Want::Group(name) => Found::Group(Box::new(group_detail(name, failed))),
        Want::Clients(_) => Found::Clients(vec![
            ClientDetail {
                id: "10.0.1.5@8812".into(),
                told: Ok(ClientTold {
                    queues: vec![("orders".into(), "broker-a".into(), 0)],
                    cached: 2000,
                    cached_mib: 12,
                    held_back: 1,
                    last_pull_ms: Some(NOW - 400),
                    consume_rt_ms: Some(3.1),
                    ok_tps: Some(410.0),
                    failed_tps: Some(0.2),
                    ..ClientTold::default()
                }),
            },
            ClientDetail {
                id: "10.0.1.7@9021".into(),
                told: Err("no answer within 2.0s".into()),
            },
        ]),
        Want::Sheet(_) => Found::Sheet(Box::new(sheet())),
        Want::Store(_) | Want::Wire(_) => unreachable!("no store is asked for by a story"),
        Want::Messages(question) => Found::Messages(super::messages::answer(question, story)),
        Want::Dead(question) => Found::Dead(super::dead::answer(question, story)),
        Want::Ways => Found::Ways(Vec::new()),
        Want::Routes => Found::Routes(Box::new(routes(story))),
    }
}

/// A wipe of the write permission that reached one of the name servers, where one broker is dead.
fn routes(story: Story) -> Compared {
    let said = |perm: &str| format!("16/16 {perm}");
    let wiped = Difference {
        kind: "topic",
        name: "orders".into(),
        field: "broker-b".into(),
        values: vec![
            ("10.0.0.1:9876".into(), said("R--")),
            ("10.0.0.2:9876".into(), said("RW-")),
        ],
    };
    let differs = story == Story::OneDead;
    let hashes = [
        ("10.0.0.1:9876", 7),
        ("10.0.0.2:9876", if differs { 8 } else { 7 }),
    ];
    Compared {
        differences: differs.then_some(wiped).into_iter().collect(),
        hashes: hashes.map(|(addr, hash)| (addr.to_owned(), hash)).into(),
        topics: 3,
        of: if differs { 4 } else { 3 },
    }
}

fn topic_detail(failed: BTreeMap<String, String>) -> TopicDetail {
    let queue = |broker: &str, queue: i32, max: i64| QueueEnds {
        broker: broker.into(),
        queue,
        min: 0,
        max,
        last_ms: NOW - 200,
        in_tps: Some(262.0),
    };
    TopicDetail {
        queues: (0..16)
            .map(|q| queue("broker-a", q, 5_512_004 - i64::from(q)))
            .chain((0..4).map(|q| queue("broker-b", q, 4_981_220)))
            .collect(),
        groups: [
            ("CID_pay", Some(310_000), 12),
            ("CID_bi", Some(3110), 0),
            ("CID_new", None, 1),
        ]
        .into_iter()
        .map(|(name, lag, clients)| GroupOnTopic {
            name: name.into(),
            lag,
            clients,
            out_tps: 390.0,
            expressions: vec!["*".into()],
        })
        .collect(),
        in_tps: 4100.0,
        day: 88_000_000,
        messages: 88_100_000,
        last_stored_ms: NOW - 200,
        failed,
    }
}

fn group_detail(name: &str, failed: BTreeMap<String, String>) -> GroupDetail {
    let row = |queue: i32, committed: Option<i64>| GroupLag {
        group: name.into(),
        topic: "orders".into(),
        broker: "broker-a".into(),
        queue,
        max: 5_512_004,
        committed,
        inflight: Some(8),
        last_consumed_ms: Some(NOW - 1000),
        hole: 0,
    };
    let age = |q: i32, age| (("orders".to_owned(), "broker-a".to_owned(), q), age);
    GroupDetail {
        kind: GroupKind::Clustering,
        queues: vec![
            row(0, Some(5_470_884)),
            row(1, Some(5_512_002)),
            row(2, Some(5_512_004)),
            row(3, None),
        ],
        oldest: BTreeMap::from([
            age(0, Ok(NOW - 760_000)),
            age(1, Err("no answer within 2.0s".into())),
        ]),
        clients: ["10.0.1.5@8812", "10.0.1.7@9021"]
            .into_iter()
            .map(|id| ClientLine {
                id: id.into(),
                addr: format!("{}:50112", id.split('@').next().unwrap()),
                language: "JAVA".into(),
                version: "V5_3_3".into(),
                version_code: 479,
            })
            .collect(),
        subscriptions: BTreeMap::from([("orders".to_owned(), "*".to_owned())]),
        tps: 3900.0,
        configs: BTreeMap::from([(
            "broker-a".to_owned(),
            vec![("consume-enable".to_owned(), "true".to_owned())],
        )]),
        failed,
    }
}

/// What `rmq group reset` shows.
fn sheet() -> Sheet {
    let columns = [
        "broker",
        "queue",
        "min",
        "max",
        "committed",
        "new_offset",
        "delta",
        "would",
        "target_time",
    ];
    let row = |cells: [&str; 9]| {
        cells
            .map(|text| SheetCell {
                text: text.into(),
                number: text.parse().ok(),
            })
            .into()
    };
    let at = "2026-11-29 11:04:31.000";
    Sheet {
        columns: columns.map(str::to_owned).into(),
        rows: vec![
            row([
                "broker-a",
                "0",
                "0",
                "5512004",
                "5470884",
                "5120400",
                "-350484",
                "replay 350484",
                at,
            ]),
            row([
                "broker-a", "1", "0", "5512003", "5512001", "5512003", "2", "skip 2", "-",
            ]),
            row([
                "broker-a",
                "2",
                "4900000",
                "5510900",
                "5401000",
                "4900000",
                "-501000",
                "replay 501000",
                at,
            ]),
            row([
                "broker-b",
                "0",
                "0",
                "4981219",
                "-",
                "4630118",
                "-",
                "begin here",
                at,
            ]),
        ],
        summary: serde_json::from_str(
            r#"{"replays": 851484, "skips": 2, "clients": 12,
                "brokers": [{"broker":"broker-a","version":"V5_3_3","server_side_reset":true,"means":"server-side reset on: right for offline groups too"},
                    {"broker":"broker-b","version":"V5_3_3","server_side_reset":true,"means":"server-side reset on: right for offline groups too"}],
                "popping": false, "consume_tps": 2700.0, "replay_seconds": 316,
                "undo_file": "/home/op/.local/state/rmq/offsets/CID_audit-TIME.json"}"#,
        )
        .expect("JSON"),
        lines: Vec::new(),
        failed: Vec::new(),
    }
}

/// Tells a whole story to a new console.
fn told(story: Story) -> App {
    let settings = Settings {
        context: "PROD sh-prod".into(),
        badge: None,
        interval: Duration::from_secs(2),
        read_only: false,
        colour: true,
        may_colour: true,
        palette: rmq::tui::view::theme::Palette::Default,
        themes: Vec::new(),
        contexts: vec!["staging".into()],
        serving: false,
        ascii: false,
        keys: rmq::tui::keys::Keys::default(),
        zone: jiff::tz::TimeZone::UTC,
    };
    let servers = vec!["10.0.0.1:9876".into(), "10.0.0.2:9876".into()];
    let mut app = App::new(settings, servers, Screen::Overview, NOW - LENGTH * 1000);
    for t in (0..=LENGTH).step_by(2) {
        let now = NOW - (LENGTH - t) * 1000;
        // Twice: the brokers become known with the first name server's answer.
        app::update(&mut app, now, Event::Updates(news(story, t)));
        if t == 0 {
            app::update(&mut app, now, Event::Updates(news(story, t)));
        }
    }
    app
}

/// Presses a key by its name in the key table.
pub fn press(app: &mut App, key: &str) -> Vec<Action> {
    let (modifiers, name) = match key.split_once('-') {
        Some(("ctrl", name)) => (KeyModifiers::CONTROL, name),
        Some(("shift", name)) => (KeyModifiers::SHIFT, name),
        _ => (KeyModifiers::NONE, key),
    };
    let code = match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" if modifiers == KeyModifiers::SHIFT => KeyCode::BackTab,
        "tab" => KeyCode::Tab,
        "down" => KeyCode::Down,
        "up" => KeyCode::Up,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pgup" => KeyCode::PageUp,
        "pgdn" => KeyCode::PageDown,
        "backspace" => KeyCode::Backspace,
        c => KeyCode::Char(c.chars().next().expect("a key")),
    };
    let now = app.now_ms;
    app::update(app, now, Event::Key(KeyEvent::new(code, modifiers)))
}

/// Types a text, key by key.
pub fn type_text(app: &mut App, text: &str) {
    for c in text.chars() {
        let now = app.now_ms;
        app::update(
            app,
            now,
            Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)),
        );
    }
}

/// What is on the screen.
pub fn picture(app: &App) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, app.size.0, app.size.1));
    view::draw(app, &mut buffer);
    buffer
}

/// The characters of a picture, without blanks at line ends.
pub fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            if skip > 0 {
                skip -= 1;
                continue;
            }
            skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
