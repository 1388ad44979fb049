//! Polling against servers that answer, hang or go away.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rmq::client::{Client, Options, Pace};
use rmq::tui::model::{BrokerTold, Model, ServerTold, Told, Update};
use rmq::tui::poll::Poller;
use tokio::sync::mpsc::Receiver;

use super::servers::Fake;

/// What a console may ask (specification, read list).
const READ_LIST: &[i32] = &[
    12, 14, 21, 26, 28, 29, 30, 31, 32, 33, 38, 43, 45, 60, 61, 101, 105, 106, 201, 202, 203, 204, 206, 208,
    219, 300, 303, 304, 305, 308, 311, 312, 313, 315, 317, 319, 321, 328, 343, 345, 351, 354, 402, 901, 907,
];

fn client(name_servers: Vec<String>) -> Arc<Client> {
    Arc::new(Client::new(Options {
        name_servers,
        connect_timeout: Duration::from_secs(1),
        read_only: true,
        pace: Some(Arc::new(Pace::new(NonZeroU32::new(20).unwrap()))),
        ..Options::default()
    }))
}

/// The console without its terminal: folds news, follows the roster.
struct Console {
    model: Model,
    poller: Poller,
    news: Receiver<Update>,
    interval: Duration,
}

impl Console {
    fn start(client: Arc<Client>, interval: Duration) -> Self {
        let model = Model::new(client.name_servers().to_vec());
        let (poller, news) = Poller::start(client, interval);
        Self {
            model,
            poller,
            news,
            interval,
        }
    }

    /// Folds news until `done` says so; fails after `limit`.
    async fn until(&mut self, limit: Duration, mut done: impl FnMut(&Model, &Update) -> bool) {
        let watch = async {
            loop {
                let update = self.news.recv().await.expect("the tasks run");
                let now_ms = update.at_ms;
                self.model.fold(update.clone());
                for change in self.model.settle(now_ms, self.interval) {
                    self.poller.roster(change);
                }
                if done(&self.model, &update) {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, watch).await.expect("in time");
    }
}

fn runtime_of(update: &Update, name: &str) -> Option<bool> {
    match &update.told {
        Told::Broker(id, BrokerTold::Runtime(answer)) if id.name == name => Some(answer.is_ok()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_broker_delays_no_other() {
    let good = Fake::broker(3, false).await;
    let tarpit = Fake::broker(3, true).await;
    let servers = Fake::name_server(&[("good", good.addr), ("tarpit", tarpit.addr)]).await;
    let interval = Duration::from_millis(300);
    let mut console = Console::start(client(vec![servers.addr.to_string()]), interval);
    let start = Instant::now();
    let (mut beats, mut failed) = (Vec::new(), None);
    console
        .until(Duration::from_secs(10), |_, update| {
            if runtime_of(update, "good") == Some(true) {
                beats.push(Instant::now());
            }
            if runtime_of(update, "tarpit") == Some(false) {
                failed.get_or_insert(Instant::now());
            }
            failed.is_some() && beats.len() >= 8
        })
        .await;
    // The tarpit costs one deadline, once; meanwhile the other's beat goes on.
    let failed = failed.unwrap().duration_since(start);
    assert!(failed < Duration::from_millis(3500), "{failed:?}");
    let longest = beats.windows(2).map(|w| w[1] - w[0]).max().unwrap();
    assert!(longest < Duration::from_millis(1500), "{longest:?}");
    assert!(console.model.snapshot.brokers.iter().any(|b| !b.answers()));
    assert!(console.model.put_total().partial);
    // Leaving does not wait for the hanging calls.
    let leave = Instant::now();
    drop(console);
    assert!(leave.elapsed() < Duration::from_millis(100));
    for server in [good, tarpit, servers] {
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_answers_again_is_seen_again_when_asked_for() {
    let broker = Fake::broker(1, true).await;
    let servers = Fake::name_server(&[("b", broker.addr)]).await;
    let mut console = Console::start(client(vec![servers.addr.to_string()]), Duration::from_millis(300));
    let failed = |_: &Model, update: &Update| runtime_of(update, "b") == Some(false);
    console.until(Duration::from_secs(10), failed).await;
    let resting = console.model.retry_at_ms.len();
    assert_eq!(resting, 1, "the next try is known");
    broker.fake.hangs.store(false, Ordering::SeqCst);
    console.poller.refresh();
    let back = |_: &Model, update: &Update| runtime_of(update, "b") == Some(true);
    console.until(Duration::from_secs(10), back).await;
    assert!(console.model.retry_at_ms.is_empty());
    broker.stop().await;
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_console_asks_more_than_its_budget_or_off_the_read_list() {
    let broker = Fake::broker(300, false).await;
    let servers = Fake::name_server(&[("b", broker.addr)]).await;
    let mut console = Console::start(client(vec![servers.addr.to_string()]), Duration::from_millis(500));
    let start = Instant::now();
    let refresher = async {
        // An impatient operator.
        let mut refreshed = 0;
        while refreshed < 25 {
            console.poller.refresh();
            refreshed += 1;
            let quarter = Instant::now() + Duration::from_millis(150);
            console
                .until(Duration::from_secs(5), |_, _| Instant::now() >= quarter)
                .await;
        }
    };
    refresher.await;
    let asked = broker.fake.asked();
    for (_, code) in asked.iter().chain(&servers.fake.asked()) {
        assert!(READ_LIST.contains(code), "{code}");
    }
    assert!(asked.iter().any(|(_, code)| *code == 315), "rates are asked for");
    // A full bucket and its refill.
    let allowed = 20.0 + 20.0 * start.elapsed().as_secs_f64();
    assert!(
        (asked.len() as f64) <= allowed + 1.0,
        "{} > {allowed}",
        asked.len()
    );
    broker.stop().await;
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_reachable_is_said_with_the_time_of_the_next_try() {
    // Bound and not listening: refused, and nobody else gets the port meanwhile.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = bound.local_addr().unwrap().to_string();
    let mut console = Console::start(client(vec![addr.clone()]), Duration::from_secs(1));
    console
        .until(Duration::from_secs(5), |_, update| {
            matches!(&update.told, Told::NameServer(_, ServerTold::Cluster(Err(_))))
        })
        .await;
    assert!(console.model.retry_at_ms.contains_key(&addr));
    assert!(console.model.all_down_since_ms().is_some());
    assert_eq!(console.model.findings[0].rule, "name-server-down");
    assert_eq!(
        console.model.findings[0].detail.as_deref(),
        Some("connection refused")
    );
}
