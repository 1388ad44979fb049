//! Servers that speak just enough for the console, on loopback, and count what they are asked.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::protocol::frame::Frame;
use rmq::remoting::listen::Listener;
use rmq::remoting::{Peer, Reply, Service};

/// A name server or a broker, by what it answers.
pub struct Fake {
    /// Answer to (106); a broker has none.
    cluster: Mutex<String>,
    topics: usize,
    /// Accepts and reads, never answers.
    pub hangs: AtomicBool,
    /// Answers with what is no answer.
    pub babbles: AtomicBool,
    /// Requests that are being answered, and the most there were.
    flying: AtomicUsize,
    most_flying: AtomicUsize,
    asked: Mutex<Vec<(Instant, i32)>>,
}

/// A running [`Fake`].
pub struct Running {
    pub fake: Arc<Fake>,
    pub addr: SocketAddr,
    listener: Listener,
}

impl Fake {
    async fn start(self) -> Running {
        let fake = Arc::new(self);
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Listener::start(any, Arc::clone(&fake))
            .await
            .expect("a free port");
        Running {
            addr: listener.addr(),
            fake,
            listener,
        }
    }

    /// A broker with `topics` topics.
    pub async fn broker(topics: usize, hangs: bool) -> Running {
        let fake = Self {
            cluster: Mutex::default(),
            topics,
            hangs: AtomicBool::new(hangs),
            babbles: AtomicBool::new(false),
            flying: AtomicUsize::new(0),
            most_flying: AtomicUsize::new(0),
            asked: Mutex::default(),
        };
        fake.start().await
    }

    /// A name server that lists brokers by name.
    pub async fn name_server(brokers: &[(&str, SocketAddr)]) -> Running {
        let entries: Vec<String> = brokers
            .iter()
            .map(|(name, addr)| {
                format!(r#""{name}":{{"brokerAddrs":{{0:"{addr}"}},"brokerName":"{name}","cluster":"c"}}"#)
            })
            .collect();
        let names: Vec<String> = brokers.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let cluster = format!(
            r#"{{"brokerAddrTable":{{{}}},"clusterAddrTable":{{"c":[{}]}}}}"#,
            entries.join(","),
            names.join(",")
        );
        let fake = Self {
            cluster: Mutex::new(cluster),
            topics: 0,
            hangs: AtomicBool::new(false),
            babbles: AtomicBool::new(false),
            flying: AtomicUsize::new(0),
            most_flying: AtomicUsize::new(0),
            asked: Mutex::default(),
        };
        fake.start().await
    }

    /// When it was asked what.
    pub fn asked(&self) -> Vec<(Instant, i32)> {
        self.asked.lock().unwrap().clone()
    }

    /// The most requests that were answered at once.
    pub fn most_flying(&self) -> usize {
        self.most_flying.load(Ordering::SeqCst)
    }

    fn body(&self, code: i32) -> Option<String> {
        Some(match code {
            106 => self.cluster.lock().unwrap().clone(),
            206 => r#"{"topicList":["t0","t1"]}"#.to_owned(),
            319 => "scanNotActiveBrokerInterval=5000\n".to_owned(),
            28 => r#"{"table":{"brokerVersionDesc":"V5_3_3","putTps":"10.0 ","getTransferredTps":"9.0 ","msgPutTotalTodayNow":"5","msgGetTotalTodayNow":"4","commitLogDiskRatio":"0.2"}}"#.to_owned(),
            26 => "registerNameServerPeriod=30000\nflushDiskType=ASYNC_FLUSH\nbrokerRole=ASYNC_MASTER\n".to_owned(),
            907 => r#"{"haConnectionInfo":[],"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":16750}"#.to_owned(),
            21 => {
                let topics: Vec<String> = (0..self.topics)
                    .map(|i| {
                        format!(
                            r#""t{i}":{{"topicName":"t{i}","readQueueNums":8,"writeQueueNums":8,"perm":6,"topicFilterType":"SINGLE_TAG","topicSysFlag":0,"order":false}}"#
                        )
                    })
                    .collect();
                let version = r#"{"counter":1,"stateVersion":0,"timestamp":1}"#;
                format!(
                    r#"{{"dataVersion":{version},"topicConfigTable":{{{}}}}}"#,
                    topics.join(",")
                )
            }
            317 => r#"{"brokerAddr":"x","consumeStatsList":[],"totalDiff":0,"totalInflightDiff":0}"#.to_owned(),
            43 => r#"{"offsetTable":{}}"#.to_owned(),
            315 => {
                let part = r#"{"avgpt":0.0,"sum":60,"tps":1.5}"#;
                format!(r#"{{"statsDay":{part},"statsHour":{part},"statsMinute":{part}}}"#)
            }
            _ => return None,
        })
    }
}

impl Service for Fake {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        self.asked.lock().unwrap().push((Instant::now(), request.code));
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let flying = self.flying.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_flying.fetch_max(flying, Ordering::SeqCst);
        // Long enough for others to be under way.
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.flying.fetch_sub(1, Ordering::SeqCst);
        match self.body(request.code) {
            Some(_) if self.babbles.load(Ordering::SeqCst) => Reply {
                body: vec![Bytes::from_static(b"{\"table\": \x00 no answer")],
                ..Reply::default()
            },
            Some(body) => Reply {
                body: vec![Bytes::from(body)],
                ..Reply::default()
            },
            None => Reply {
                code: 3,
                remark: Some(format!("{} is not supported", request.code)),
                ..Reply::default()
            },
        }
    }
}

impl Running {
    /// Stops listening and closes all connections.
    pub async fn stop(self) {
        self.listener.stop(Duration::ZERO).await;
    }
}
