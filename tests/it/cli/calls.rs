//! How often a request is made, how many are made at once, and of whom: `--retries`, `--parallel`, `--prefer-slave`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmq::protocol::frame::Frame;
use rmq::protocol::{Request as _, codes, requests};
use rmq::remoting::{Peer, Refusal, Reply, Service};

use super::Rmq;
use super::fakes::{FakeNameServer, listen};

/// Tells its configuration; says that it is too busy for anything else, or for anything at all.
struct Busy {
    always: bool,
    codes: Arc<Mutex<Vec<i32>>>,
}

impl Service for Busy {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        self.codes.lock().unwrap().push(request.code);
        if request.code == requests::GetBrokerConfig::CODE && !self.always {
            return Reply {
                body: vec!["flushDiskType=ASYNC_FLUSH\n".into()],
                ..Reply::default()
            };
        }
        Refusal::new(codes::SYSTEM_BUSY, "too busy").into()
    }
}

/// A read is made once more when a server was too busy for it, a change is not; `--retries` says otherwise for both
/// (admin.md §2).
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_not_taken_is_repeated_as_often_as_asked() {
    let home = tempfile::tempdir().unwrap();
    let read = "broker get-config broker-a";
    let change = "broker set-config broker-a flushDiskType=SYNC_FLUSH --yes";
    for (always, line, code, expected) in [
        (true, read.to_owned(), requests::GetBrokerConfig::CODE, 2),
        (
            true,
            format!("{read} --retries 0"),
            requests::GetBrokerConfig::CODE,
            1,
        ),
        (
            true,
            format!("{read} --retries 3"),
            requests::GetBrokerConfig::CODE,
            4,
        ),
        (false, change.to_owned(), requests::UpdateBrokerConfig::CODE, 1),
        (
            false,
            format!("{change} --retries 2"),
            requests::UpdateBrokerConfig::CODE,
            3,
        ),
    ] {
        let codes = Arc::<Mutex<Vec<i32>>>::default();
        let busy = listen(Busy {
            always,
            codes: Arc::clone(&codes),
        })
        .await;
        let brokers = vec![("broker-a", 0, busy.addr().to_string())];
        let name_server = listen(FakeNameServer { brokers }).await;
        let ran = Rmq::new(&name_server.addr().to_string(), home.path())
            .line(&line)
            .await;
        assert_eq!(ran.code, 6, "{line}: {ran:?}");
        assert!(ran.stderr.contains("2 SYSTEM_BUSY"), "{line}: {ran:?}");
        let made = codes.lock().unwrap().iter().filter(|c| **c == code).count();
        assert_eq!(made, expected, "{line}: {ran:?}");
        for listener in [busy, name_server] {
            listener.stop(Duration::ZERO).await;
        }
    }
}

/// Answers a call only when `together` of them are there.
struct Together {
    together: usize,
    here: tokio::sync::watch::Sender<usize>,
    most: Arc<AtomicUsize>,
}

impl Service for Together {
    async fn handle(self: Arc<Self>, _: Peer, _: Frame) -> Reply {
        self.here.send_modify(|here| *here += 1);
        self.most.fetch_max(*self.here.borrow(), Ordering::SeqCst);
        let mut here = self.here.subscribe();
        let all = here.wait_for(|here| *here >= self.together);
        let met = tokio::time::timeout(Duration::from_secs(10), all).await.is_ok();
        // Whoever comes too many has come by now.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let code = if met {
            codes::NO_PERMISSION
        } else {
            codes::SYSTEM_ERROR
        };
        self.here.send_modify(|here| *here -= 1);
        Refusal::new(code, "no").into()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_calls_are_under_way_as_may_be() {
    let home = tempfile::tempdir().unwrap();
    for (line, together) in [
        ("broker list", 6),
        ("broker list --parallel 1", 1),
        ("broker list --parallel 6", 6),
    ] {
        let most = Arc::<AtomicUsize>::default();
        let server = listen(Together {
            together,
            here: tokio::sync::watch::Sender::new(0),
            most: Arc::clone(&most),
        })
        .await;
        let names = ["a", "b", "c", "d", "e", "f"];
        let brokers = names.map(|name| (name, 0, server.addr().to_string())).to_vec();
        let name_server = listen(FakeNameServer { brokers }).await;
        let ran = Rmq::new(&name_server.addr().to_string(), home.path())
            .line(line)
            .await;
        assert_eq!(ran.code, 5, "{line}: {ran:?}");
        assert_eq!(most.load(Ordering::SeqCst), together, "{line}: {ran:?}");
        for listener in [server, name_server] {
            listener.stop(Duration::ZERO).await;
        }
    }
}

/// Slaves are read where there are any; a change goes to the master whatever is preferred.
#[tokio::test(flavor = "multi_thread")]
async fn slaves_are_preferred_for_reads_and_never_for_changes() {
    let home = tempfile::tempdir().unwrap();
    let read = requests::GetAllSubscriptiongroupConfig::CODE;
    let config = requests::GetBrokerConfig::CODE;
    for (line, code, expected) in [
        ("group list", read, [true, false, true]),
        ("group list --prefer-slave", read, [false, true, true]),
        (
            "broker set-config flushDiskType=SYNC_FLUSH --yes --prefer-slave",
            config,
            [true, false, true],
        ),
    ] {
        let mut asked = Vec::new();
        let mut listeners = Vec::new();
        let mut brokers = Vec::new();
        // The second set has no slave.
        for (name, id) in [("broker-a", 0), ("broker-a", 1), ("broker-b", 0)] {
            let codes = Arc::<Mutex<Vec<i32>>>::default();
            let server = listen(Busy {
                always: true,
                codes: Arc::clone(&codes),
            })
            .await;
            brokers.push((name, id, server.addr().to_string()));
            listeners.push(server);
            asked.push(codes);
        }
        listeners.push(listen(FakeNameServer { brokers }).await);
        let at = listeners[3].addr().to_string();
        let ran = Rmq::new(&at, home.path()).line(line).await;
        assert_eq!(ran.code, 6, "{line}: {ran:?}");
        let met: Vec<bool> = asked
            .iter()
            .map(|codes| codes.lock().unwrap().contains(&code))
            .collect();
        assert_eq!(met, expected, "{line}: {ran:?}");
        for listener in listeners {
            listener.stop(Duration::ZERO).await;
        }
    }
}
