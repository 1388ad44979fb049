//! `standalone --demo`: a few producers and consumers of uneven speed, through the real client library, so that a
//! newcomer's dashboard is alive within seconds. One group is slower than its producers and one topic has no reader.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::client::consume::Consumer;
use crate::client::produce::{Outgoing, Producer};
use crate::client::{Client, Message, Options};

/// Topic, messages a second, body bytes. Names in two scripts: wide text must look right everywhere.
const PRODUCERS: &[(&str, u32, usize)] = &[
    ("demo_orders", 120, 400),
    ("demo_payments", 60, 250),
    ("demo_stock", 30, 1200),
    ("demo_audit", 5, 3000),
];

/// Group, topic, messages it can handle a second in each queue.
const CONSUMERS: &[(&str, &str, u32)] = &[
    ("CG_demo_orders", "demo_orders", 200),
    ("CG_demo_billing", "demo_orders", 12),
    ("CG_demo_payments", "demo_payments", 100),
    ("CG_demo_stock", "demo_stock", 9),
];

/// Pause between two heartbeats of a producer.
const BEAT: Duration = Duration::from_secs(30);
/// Pause after a refused send or failed heartbeat.
const REST: Duration = Duration::from_secs(1);

/// The running demo.
pub struct Demo {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Demo {
    /// Starts the demo against a name server.
    pub fn start(namesrv: String) -> anyhow::Result<Self> {
        let client = Arc::new(Client::new(Options {
            name_servers: vec![namesrv],
            ..Options::default()
        }));
        let demo = Self {
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        for &(topic, rate, size) in PRODUCERS {
            let producer = Producer::new(Arc::clone(&client), &format!("PG_{topic}"))?;
            demo.tasks
                .spawn(produce(producer, topic, rate, size, demo.stop.clone()));
        }
        for &(group, topic, rate) in CONSUMERS {
            let consumer = Consumer::new(Arc::clone(&client), group, topic)?;
            let handler = move |batch: Vec<Message>| {
                let pace = Duration::from_secs(1) * u32::try_from(batch.len()).unwrap_or(1) / rate;
                tokio::time::sleep(pace).boxed()
            };
            demo.tasks
                .spawn(consumer.run(Arc::new(handler), demo.stop.clone()));
        }
        Ok(demo)
    }

    /// Stops producers and consumers; they leave their groups.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        // A broker that hangs must not hold up the stop of this process.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.tasks.wait()).await;
    }
}

/// Sends at a steady rate with a swell of ±50 % a minute, and heartbeats, until `stop`.
async fn produce(producer: Producer, topic: &'static str, rate: u32, size: usize, stop: CancellationToken) {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut beat = tokio::time::interval(BEAT);
    let started = tokio::time::Instant::now();
    let mut number = 0u64;
    let mut debt = 0.0;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = beat.tick() => {
                if let Err(e) = producer.heartbeat(topic).await {
                    debug!(topic, error = %e, "demo producer: no heartbeat");
                }
            }
            _ = tick.tick() => {
                let phase = started.elapsed().as_secs_f64() / 60.0 * std::f64::consts::TAU;
                debt += 1.0 + 0.5 * phase.sin();
                while debt >= 1.0 {
                    debt -= 1.0;
                    number += 1;
                    if let Err(e) = producer.send(&message(topic, number, size)).await {
                        warn!(topic, error = %e, "demo producer: not sent");
                        tokio::time::sleep(REST).await;
                    }
                }
            }
        }
    }
    producer.leave(topic).await;
}

fn message(topic: &str, number: u64, size: usize) -> Outgoing {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let mut body = format!("{{\"number\":{number},\"at\":{now},\"note\":\"演示\",\"filler\":\"");
    let filler = size.saturating_sub(body.len() + 2);
    body.push_str(&"-".repeat(filler));
    body.push_str("\"}");
    Outgoing {
        topic: topic.to_owned(),
        body: Bytes::from(body),
        keys: vec![format!("{topic}-{number}")],
        tag: Some(if number.is_multiple_of(10) { "TagB" } else { "TagA" }.to_owned()),
        create_topic: true,
        ..Outgoing::default()
    }
}
