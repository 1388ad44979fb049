//! Every table three times on one quiet cluster, Java's and our own: stock mqadmin, `rmq ... -o json`, and the console,
//! which runs here without its terminal.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmq::client::snapshot::BrokerId;
use rmq::client::{Client, Message, Options};
use rmq::tui::app::{self, Action, App, Event, Pane, Screen, Settings};
use rmq::tui::ask::{Asker, Ground};
use rmq::tui::messages;
use rmq::tui::model::Update;
use rmq::tui::poll::Poller;
use rmq::tui::view::theme::Palette;
use rmq::tui::want::{Found, Want};
use serde_json::Value;

use super::golden::{Table, instance, of_mqadmin, plain, sorted, state};
use super::{Checks, same};
use crate::support::nodes::{Kind, Nodes};
use crate::support::session::Session;
use crate::support::{java, scratch, text};
use crate::tui::fixture;

/// How long the console may take to show what the others say.
const LIMIT: Duration = Duration::from_secs(40);

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// The console without its terminal.
struct Console {
    app: App,
    poller: Poller,
    asker: Asker,
    news: tokio::sync::mpsc::Receiver<Update>,
    runtime: tokio::runtime::Runtime,
}

impl Console {
    fn start(namesrv: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let inside = runtime.enter();
        let client = Arc::new(Client::new(Options {
            name_servers: namesrv.split(';').map(str::to_owned).collect(),
            read_only: true,
            ..Options::default()
        }));
        let interval = Duration::from_secs(1);
        let settings = Settings {
            context: String::new(),
            badge: None,
            interval,
            read_only: true,
            colour: false,
            may_colour: false,
            palette: Palette::Mono,
            themes: Vec::new(),
            contexts: Vec::new(),
            serving: false,
            ascii: false,
            keys: rmq::tui::keys::Keys::default(),
            zone: jiff::tz::TimeZone::UTC,
        };
        let mut app = App::new(
            settings,
            client.name_servers().to_vec(),
            Screen::Overview,
            now_ms(),
        );
        let (poller, news) = Poller::start(Arc::clone(&client), interval);
        let ground = Ground {
            zone: jiff::tz::TimeZone::UTC,
            state_dir: None,
        };
        let asker = Asker::new(client, None, poller.updates(), ground);
        // Wide enough for every column.
        app::update(&mut app, now_ms(), Event::Resize(240, 60));
        drop(inside);
        Self {
            app,
            poller,
            asker,
            news,
            runtime,
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        // The tasks of the questions are started in here.
        let _inside = self.runtime.enter();
        for action in actions {
            match action {
                Action::Roster(change) => self.poller.roster(change),
                Action::Interest(topics) => self.poller.set_interest(topics),
                Action::Versions(versions) => self.poller.set_versions(versions),
                Action::Revived(brokers) => self.poller.set_revived(brokers),
                Action::Wants(wanted, masters) => self.asker.set(wanted, &masters),
                other => panic!("{other:?}"),
            }
        }
    }

    fn press(&mut self, keys: &[&str]) {
        for key in keys {
            let actions = fixture::press(&mut self.app, key);
            self.carry_out(actions);
        }
    }

    fn type_in(&mut self, text: &str) {
        for c in text.chars() {
            self.press(&[c.to_string().as_str()]);
        }
        self.press(&["enter"]);
    }

    /// From a list, to the one of this name.
    fn open(&mut self, list: &str, name: &str) {
        self.press(&["esc", "esc", list]);
        self.until(|app| !app.table(app.focus()).rows.is_empty());
        self.press(&["/"]);
        self.type_in(&format!("^{name}$"));
        self.press(&["enter"]);
    }

    /// Takes news until `done`, or until the limit.
    fn until(&mut self, mut done: impl FnMut(&App) -> bool) {
        let end = tokio::time::Instant::now() + LIMIT;
        while !done(&self.app) {
            let news = &mut self.news;
            // The timer must be made where the runtime is.
            let next = async { tokio::time::timeout_at(end, news.recv()).await };
            let Ok(Some(update)) = self.runtime.block_on(next) else {
                return;
            };
            let actions = app::update(&mut self.app, now_ms(), Event::Updates(vec![update]));
            self.carry_out(actions);
        }
    }

    /// What the console shows: read until it is `want`.
    fn shows(&mut self, want: &Table, mut read: impl FnMut(&App) -> Table) -> Table {
        self.until(|app| read(app) == *want);
        read(&self.app)
    }
}

/// Columns of a table by their names, its numbers without separators.
fn columns(app: &App, pane: Pane, names: &[&str]) -> Table {
    let table = app.table(pane);
    let at = |name: &&str| {
        let found = table.columns.iter().position(|c| c.name == *name);
        found.unwrap_or_else(|| panic!("{pane:?} has no column {name}"))
    };
    let at: Vec<usize> = names.iter().map(at).collect();
    let cell = |cells: &[rmq::tui::table::Cell], i: usize| cells[i].plain().replace(',', "");
    let rows = table.rows.iter();
    sorted(
        rows.map(|row| at.iter().map(|&i| cell(&row.cells, i)).collect())
            .collect(),
    )
}

/// `V5_3_3` and `5.3.3` are the same version.
fn version(name: &str) -> String {
    name.trim_start_matches('V').replace('_', ".")
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).into()
}

struct Parity<'a> {
    nodes: &'a Nodes,
    session: &'a mut Session,
    console: Console,
    checks: Checks,
}

impl Parity<'_> {
    fn mqadmin(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        self.session.mqadmin(&self.nodes.namesrv, &words).ok().out
    }

    fn items(&self, line: &str) -> Vec<Value> {
        let json = self.nodes.ok(&format!("{line} -o json")).json();
        json["items"].as_array().cloned().unwrap_or_default()
    }

    fn pick(&self, line: &str, keys: &[&str]) -> Table {
        pick(&self.items(line), keys)
    }

    /// One line for a table: what mqadmin says, and who says something else.
    fn table(&mut self, name: &str, mqadmin: &Table, rmq: &Table, shown: Option<&Table>) {
        let mut wrong = String::new();
        if mqadmin.is_empty() {
            wrong += "mqadmin says nothing";
        }
        let sides = [("rmq", Some(rmq)), ("the console", shown)];
        for (who, table) in sides.into_iter().filter_map(|(who, table)| Some((who, table?))) {
            if let Err(why) = same(table, mqadmin) {
                wrong += &format!(" {who}: {why}");
            }
        }
        let rows = mqadmin.len();
        let who = if shown.is_some() {
            "mqadmin = rmq = console"
        } else {
            "mqadmin = rmq, not on the console"
        };
        let result = if wrong.is_empty() { Ok(()) } else { Err(wrong) };
        self.checks.check(&format!("{name}: {rows} rows, {who}"), result);
    }

    fn clusters(&mut self) {
        let lines = self.mqadmin("clusterList");
        let mut told = of_mqadmin("001", &lines);
        told.iter_mut().for_each(|r| {
            r.truncate(5);
            r[4] = version(&r[4]);
        });
        let mut rmq = self.pick("broker list", &["cluster", "name", "id", "addr", "version"]);
        rmq.iter_mut().for_each(|r| r[4] = version(&r[4]));
        self.console.press(&["3"]);
        let shown = self.console.shows(&told, |app| {
            columns(app, Pane::Brokers, &["CLUSTER", "NAME", "ID", "ADDR", "VER"])
        });
        self.table("cluster list", &told, &rmq, Some(&shown));
    }

    fn status(&mut self) {
        let lines = self.mqadmin(&format!("brokerStatus -b {}", self.nodes.broker_a));
        let told = status(|key| text::value(&lines, key).map(str::to_owned));
        let items = self.items("broker stats broker-a");
        let rmq = status(|key| {
            let of = |item: &&Value| item["broker"] == "broker-a:0" && item["key"] == *key;
            items.iter().find(of).map(|item| plain(&item["value"]))
        });
        let shown = self.console.shows(&told, |app| {
            let brokers = app.model.snapshot.brokers.iter();
            let id = BrokerId {
                cluster: "C1".into(),
                name: "broker-a".into(),
                id: 0,
            };
            let mut here = brokers.filter(|b| b.broker == id);
            let Some(info) = here.next().and_then(|b| b.runtime.get()) else {
                return Table::new();
            };
            let number = |n: Option<i64>| n.map_or_else(|| "absent".to_owned(), |n| n.to_string());
            [
                ("version", info.version.clone().unwrap_or_default()),
                ("boot", number(info.boot_ms)),
                ("put today", number(info.put_today)),
                ("put yesterday", number(info.put_yesterday)),
                ("get today", number(info.get_today)),
                ("commit log", number(info.commit_log_min)),
                ("up to", number(info.commit_log_max)),
                ("behind", number(info.dispatch_behind_bytes)),
                ("earliest", number(info.earliest_message_ms)),
                ("send room", number(info.send_pool.capacity)),
                ("pull room", number(info.pull_pool.capacity)),
                ("query waits", number(info.query_pool.size)),
            ]
            .map(|(key, value)| row([key, &value]))
            .into()
        });
        self.table("broker status", &told, &rmq, Some(&shown));
    }

    fn topics(&mut self) {
        let told = of_mqadmin("003", &self.mqadmin("topicList"));
        let rmq = self.pick("topic list --all", &["name"]);
        self.console.press(&["4", "R", "D", "Y"]);
        let shown = self.console.shows(&told, |app| {
            let table = app.table(Pane::Topics);
            sorted(table.rows.iter().map(|row| vec![row.name.clone()]).collect())
        });
        self.table("topic list", &told, &rmq, Some(&shown));
        self.console.press(&["R", "D", "Y"]);

        let told = of_mqadmin("005", &self.mqadmin("topicRoute -t OrderEvents"));
        let rmq = self.pick(
            "topic route OrderEvents",
            &["broker", "perm_bits", "read_queues", "write_queues"],
        );
        let shown = self.console.shows(&told, |app| {
            let topics = &app.model.snapshot.topics;
            let topic = topics.iter().find(|t| t.name == "OrderEvents");
            let on = topic.into_iter().flat_map(|t| &t.brokers).map(|on| {
                let numbers = [
                    i64::from(on.perm.0),
                    on.read_queues.into(),
                    on.write_queues.into(),
                ];
                let numbers = numbers.map(|n| n.to_string());
                [std::slice::from_ref(&on.broker.name), numbers.as_slice()].concat()
            });
            sorted(on.collect())
        });
        self.table("topic route", &told, &rmq, Some(&shown));

        let told = of_mqadmin("007", &self.mqadmin("topicStatus -t OrderEvents"));
        let rmq = self.pick("topic status OrderEvents", &["broker", "queue", "min", "max"]);
        self.console.open("4", "OrderEvents");
        let shown = self.console.shows(&told, |app| {
            let rows = columns(app, Pane::TopicQueues, &["BROKER/Q", "MIN", "MAX"]).into_iter();
            sorted(rows.map(|r| apart(&r, 0)).collect())
        });
        self.table("topic status", &told, &rmq, Some(&shown));
    }

    fn progress(&mut self) {
        let told = of_mqadmin("018", &self.mqadmin("consumerProgress"));
        let rmq = self.pick("group lag", &["group", "clients", "lag"]);
        self.console.press(&["esc", "esc", "5"]);
        let shown = self
            .console
            .shows(&told, |app| columns(app, Pane::Groups, &["GROUP", "MEMB", "LAG"]));
        self.table("consumer progress", &told, &rmq, Some(&shown));

        // Broker, queue, end, position, backlog; then the sum.
        let mut told = of_mqadmin("019", &self.mqadmin("consumerProgress -g CG_LAG"));
        told.iter_mut().for_each(|r| r.truncate(5));
        let told = sorted(told);
        let line = "group lag CG_LAG --by queue";
        let mut items = self.items(line);
        items.retain(|item| item["topic"] == "OrderEvents");
        let mut rmq = pick(&items, &["broker", "queue", "max", "committed", "lag"]);
        let total = &self.nodes.ok(&format!("{line} -o json")).json()["summary"]["total_lag"];
        rmq.push(vec![plain(total)]);
        let rmq = sorted(rmq);
        self.console.open("5", "CG_LAG");
        let shown = self.console.shows(&told, |app| {
            let rows = columns(
                app,
                Pane::GroupQueues,
                &["TOPIC/QUEUE", "BROKER", "MAX", "COMMIT", "LAG"],
            );
            let rows = rows.into_iter().map(|r| apart(&r, 0));
            let rows = rows.filter(|r| r[0] == "OrderEvents");
            let mut rows: Table = rows.map(|r| [&r[2..3], &r[1..2], &r[3..]].concat()).collect();
            let lag = app.model.snapshot.groups.iter().find(|g| g.name == "CG_LAG");
            rows.push(vec![
                lag.and_then(rmq::client::snapshot::GroupState::total_lag)
                    .map_or_else(|| "?".to_owned(), |n| n.to_string()),
            ]);
            sorted(rows)
        });
        self.table("consumer progress of a group", &told, &rmq, Some(&shown));
    }

    fn offsets(&mut self) {
        // Of a group and a topic: queues, and what is not read.
        let lines = self.mqadmin("consumerProgress -g CG_LAG -t OrderEvents");
        let mut queues = of_mqadmin("021", &lines);
        queues.pop();
        let told = vec![of_group(queues.iter().map(|r| (number(&r[2]), number(&r[3]))))];
        let mut items = self.items("offset get CG_LAG");
        items.retain(|item| item["topic"] == "OrderEvents");
        let ends = pick(&items, &["max", "committed"]);
        let rmq = vec![of_group(ends.iter().map(|r| (number(&r[0]), number(&r[1]))))];
        self.console.press(&["esc", "esc", "8"]);
        let shown = self.console.shows(&told, |app| {
            let mut rows = columns(app, Pane::Positions, &["GROUP", "TOPIC", "QUEUES", "LAG"]);
            rows.retain(|r| r[0] == "CG_LAG" && r[1] == "OrderEvents");
            rows
        });
        self.table("offsets", &told, &rmq, Some(&shown));
    }

    fn connections(&mut self) {
        let lines = self.mqadmin("consumerConnection -g CG_ORDERS");
        let mut told = of_mqadmin("016", &lines);
        // Clients, and what they subscribe to.
        told.retain(|r| r.len() > 1);
        let json = self.nodes.ok("group clients CG_ORDERS -o json").json();
        let mut rmq = of_clients(&pick(
            json["items"].as_array().map_or(&[], Vec::as_slice),
            &["client", "language", "version"],
        ));
        for subscription in json["summary"]["subscriptions"].as_array().into_iter().flatten() {
            rmq.push(plain(subscription).split(' ').map(str::to_owned).collect());
        }
        let rmq = sorted(rmq);
        self.console.open("5", "CG_ORDERS");
        let shown = self.console.shows(&told, |app| {
            let mut rows = of_clients(&columns(app, Pane::GroupClients, &["CLIENT", "LANG", "VER"]));
            if let Some(Found::Group(detail)) = app.found(&Want::Group("CG_ORDERS".into())).get() {
                rows.extend(
                    detail
                        .subscriptions
                        .iter()
                        .map(|(topic, text)| row([topic, text])),
                );
            }
            sorted(rows)
        });
        self.table("consumer connections", &told, &rmq, Some(&shown));

        let told = sorted(of_mqadmin(
            "015",
            &self.mqadmin("producerConnection -g PG_ORDERS -t OrderEvents"),
        ));
        let rmq = of_clients(&self.pick("producer clients PG_ORDERS", &["client", "language", "version"]));
        self.table("producer connections", &told, &sorted(rmq), None);
    }

    /// Fills in the first field of a form of the console, and reads what the search brings.
    fn search(&mut self, key: &str, text: &str, told: &Table, width: usize) -> Table {
        // What the form proposes is typed over.
        self.console.press(&[key, "ctrl-u"]);
        self.console.type_in(text);
        self.console.shows(told, |app| cut(listed(app), width))
    }

    fn messages(&mut self, unique: &str, offset_id: &str) {
        const KEYS: &[&str] = &["unique_key", "queue", "offset", "tag", "keys"];
        self.console.open("6", "OrderEvents");
        // mqadmin's list by key has neither tag nor keys.
        let lines = self.mqadmin("queryMsgByKey -t OrderEvents -k K-3");
        let told = text::columns(&text::rows(&lines), &[0, 1, 2]);
        let found = self.pick("message find --topic OrderEvents --key K-3", KEYS);
        let shown = self.search("k", "K-3", &told, 3);
        self.table("message by key", &told, &cut(found, 3), Some(&shown));

        for (name, command, id) in [
            ("message by id", "queryMsgByUniqueKey", unique),
            ("message by offset id", "queryMsgById", offset_id),
        ] {
            let lines = self.mqadmin(&format!("{command} -t OrderEvents -i {id}"));
            let value = |key| {
                text::value(&lines, key)
                    .unwrap_or("absent")
                    .trim_matches(['[', ']'])
            };
            let told = vec![row([
                unique,
                value("Queue ID"),
                value("Queue Offset"),
                value("Tags"),
                value("Keys"),
            ])];
            let got = self.pick(&format!("message get {id} --topic OrderEvents"), KEYS);
            let shown = self.search("i", id, &told, 5);
            self.table(name, &told, &got, Some(&shown));
        }

        // From the longest pause between two messages on: nobody's rounding matters there.
        let all = self.items("message list --topic OrderEvents --from earliest --limit 1000");
        let mut times: Vec<i64> = all.iter().filter_map(|m| m["stored_ms"].as_i64()).collect();
        times.sort_unstable();
        let pause = times.windows(2).max_by_key(|pair| pair[1] - pair[0]);
        let pause = pause.expect("there are messages");
        let from = pause[0] + (pause[1] - pause[0]) / 2;
        let lines = self.mqadmin(&format!("printMsg -t OrderEvents -b {from} -d true"));
        let ids = lines.iter().filter_map(|line| line.strip_prefix("MSGID:"));
        let ids = ids.filter_map(|line| line.split_whitespace().next());
        let told = sorted(ids.map(|id| row([id])).collect());
        let line = format!("message list --topic OrderEvents --from {from} --limit 1000");
        let got = sorted(cut(self.pick(&line, KEYS), 1));
        let shown = self.search("t", &from.to_string(), &told, 1);
        self.table("messages by time", &told, &got, Some(&shown));
    }
}

/// Messages of the console's list.
fn listed(app: &App) -> Table {
    match messages::listing(app) {
        Ok(Some(listing)) => {
            let of = |m: &Arc<Message>| {
                let (queue, offset) = (m.queue.to_string(), m.offset.to_string());
                let (id, tag) = (m.unique_key().unwrap_or_default(), m.tag().unwrap_or_default());
                row([id, &queue, &offset, tag, &m.keys().join(" ")])
            };
            sorted(listing.rows.iter().map(of).collect())
        }
        Ok(None) => Table::new(),
        Err(why) => vec![row([why])],
    }
}

/// What a broker says of itself, out of its texts.
fn status(text: impl Fn(&str) -> Option<String>) -> Table {
    let text = |key: &str| text(key).unwrap_or_else(|| "absent".to_owned());
    let since = |now: &str, then: &str| (number(&text(now)) - number(&text(then))).to_string();
    [
        ("version", text("brokerVersionDesc")),
        ("boot", text("bootTimestamp")),
        (
            "put today",
            since("msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        ),
        (
            "put yesterday",
            since("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"),
        ),
        (
            "get today",
            since("msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
        ),
        ("commit log", text("commitLogMinOffset")),
        ("up to", text("commitLogMaxOffset")),
        ("behind", text("dispatchBehindBytes")),
        ("earliest", text("earliestMessageTimeStamp")),
        ("send room", text("sendThreadPoolQueueCapacity")),
        ("pull room", text("pullThreadPoolQueueCapacity")),
        ("query waits", text("queryThreadPoolQueueSize")),
    ]
    .map(|(key, value)| row([key, &value]))
    .into()
}

fn number(text: &str) -> i64 {
    text.trim().parse().unwrap_or(i64::MIN)
}

/// The row of CG_LAG among the offsets: its queues, and the sum of what is not read, from ends and positions.
fn of_group(queues: impl Iterator<Item = (i64, i64)>) -> Vec<String> {
    let (mut count, mut lag) = (0, 0);
    for (end, position) in queues {
        count += 1;
        lag += end - position;
    }
    row(["CG_LAG", "OrderEvents", &count.to_string(), &lag.to_string()])
}

/// Clients without their address, as mqadmin's table was cut.
fn of_clients(rows: &Table) -> Table {
    let clients = rows
        .iter()
        .map(|r| vec![instance(&r[0]), r[1].clone(), r[2].clone()]);
    clients.collect()
}

/// `broker-a/3` as two cells.
fn apart(row: &[String], at: usize) -> Vec<String> {
    let mut row = row.to_vec();
    if let Some((first, second)) = row[at].rsplit_once('/') {
        let pair = [first.to_owned(), second.to_owned()];
        row.splice(at..=at, pair);
    }
    row
}

fn cut(mut table: Table, width: usize) -> Table {
    table.iter_mut().for_each(|row| row.truncate(width));
    table
}

fn pick(items: &[Value], keys: &[&str]) -> Table {
    let cell = |value: &Value| match value {
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Null => String::new(),
        value => plain(value),
    };
    sorted(
        items
            .iter()
            .map(|item| keys.iter().map(|key| cell(&item[*key])).collect())
            .collect(),
    )
}

fn parity(test: &str, kind: Kind) {
    let Some(peers) = java::peers(test) else { return };
    let dir = scratch();
    let mut session = Session::start(peers, dir.path());
    let nodes = Nodes::start(kind, peers, dir.path(), &[]);
    let (orders, unique, offset_id) = state(&nodes, peers, &mut session, &dir.path().join("orders"));
    let mut parity = Parity {
        console: Console::start(&nodes.namesrv),
        nodes: &nodes,
        session: &mut session,
        checks: Checks::new(test),
    };
    parity.clusters();
    parity.status();
    parity.topics();
    parity.progress();
    parity.offsets();
    parity.connections();
    parity.messages(&unique, &offset_id);
    let Parity { console, checks, .. } = parity;
    drop(console);
    orders.end();
    checks.end();
}

#[test]
#[ignore = "half a minute: cargo test --test it parity -- --ignored"]
fn every_table_three_times_on_our_cluster() {
    parity("every_table_three_times_on_our_cluster", Kind::Ours);
}

#[test]
#[ignore = "starts five Java servers: cargo test --test it parity -- --ignored"]
fn every_table_three_times_on_javas_cluster() {
    parity("every_table_three_times_on_javas_cluster", Kind::Java);
}
