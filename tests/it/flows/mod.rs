//! The workflows on queues and positions: lag, offsets, scale, drain. Against servers of this process.

mod drain;
mod lag;
mod offsets;
mod scale;

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rmq::client::consume::Consumer;
use rmq::client::produce::{Outgoing, Producer};
use rmq::client::{Client, Message, Options};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cli::{Cluster, Ran, Rmq};

/// A client of the library for what the command line has no verb for.
fn library(cluster: &Cluster) -> Arc<Client> {
    Arc::new(Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        ..Options::default()
    }))
}

/// Runs a change that must succeed.
async fn done(rmq: &Rmq, line: &str) -> Ran {
    let ran = rmq.line(line).await;
    assert_eq!(ran.code, 0, "{line}: {ran:?}");
    ran
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

/// Sends one message to a queue.
async fn send(producer: &Producer, topic: &str, queue: i32, body: &str, delay_level: Option<i32>) {
    let message = Outgoing {
        topic: topic.into(),
        body: bytes::Bytes::copy_from_slice(body.as_bytes()),
        queue: Some(queue),
        delay_level,
        ..Outgoing::default()
    };
    producer.send(&message).await.unwrap();
}

/// A consumer that remembers what it got.
struct Reader {
    got: Arc<Mutex<Vec<Message>>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Reader {
    fn start(client: Arc<Client>, group: &str, topic: &str) -> Self {
        let got = Arc::new(Mutex::new(Vec::new()));
        let stop = CancellationToken::new();
        let kept = got.clone();
        let consumer = Consumer::new(client, group, topic).unwrap();
        let handler = Arc::new(move |batch: Vec<Message>| {
            kept.lock().unwrap().extend(batch);
            let ready: futures_util::future::BoxFuture<'static, ()> = Box::pin(std::future::ready(()));
            ready
        });
        let task = tokio::spawn(consumer.run(handler, stop.clone()));
        Self { got, stop, task }
    }

    fn bodies(&self) -> Vec<String> {
        let got = self.got.lock().unwrap();
        let text = |m: &Message| String::from_utf8_lossy(&m.body).into_owned();
        let mut bodies: Vec<String> = got.iter().map(text).collect();
        bodies.sort();
        bodies
    }

    async fn has(&self, count: usize) {
        until(
            "the consumer has all messages",
            Duration::from_secs(20),
            async || self.bodies().len() >= count,
        )
        .await;
    }

    async fn leave(self) -> Vec<String> {
        let bodies = self.bodies();
        self.stop.cancel();
        self.task.await.unwrap();
        bodies
    }
}

pub async fn until(what: &str, limit: Duration, mut good: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + limit;
    while !good().await {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Starts a command, presses Ctrl-C when a line on stderr begins so; its code and what it said then.
async fn interrupted(rmq: &Rmq, line: &str, begins: &str) -> (Option<i32>, String) {
    use std::io::BufRead as _;
    let mut command = rmq.command(&line.split(' ').collect::<Vec<_>>());
    command
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null());
    let begins = begins.to_owned();
    tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            // A scaling says its step of how many first.
            let text = match line.split_once(", ") {
                Some((place, text)) if place.starts_with("step ") => text,
                _ => &line,
            };
            if text.starts_with(&begins) {
                break;
            }
        }
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        (child.wait().unwrap().code(), rest.join("\n"))
    })
    .await
    .unwrap()
}
