//! A server between the binary and a cluster that passes every frame on and keeps its code.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rmq::protocol::Request as _;
use rmq::protocol::body::ClusterInfo;
use rmq::protocol::frame::Frame;
use rmq::protocol::requests::{GetBrokerClusterInfo, GetBrokerConfig, GetBrokerRuntimeInfo};
use rmq::remoting::{Listener, NoService, Peer, Pool, Reply, Service};

/// What a recorder puts in the place of a broker's own answers.
#[derive(Default)]
pub struct Lies {
    /// Entries of GET_BROKER_RUNTIME_INFO.
    pub runtime: Vec<(&'static str, String)>,
    /// Settings of GET_BROKER_CONFIG.
    pub config: Vec<(&'static str, String)>,
    /// Time since the last registration of every broker, ms, in GET_BROKER_CLUSTER_INFO of a name server.
    pub silent_for_ms: Option<i64>,
    /// Requests that are answered with success and go no further.
    pub deaf_to: Vec<i32>,
    /// Requests that are passed on, and whose answers never come.
    pub mute_to: Vec<i32>,
    /// The first of those is the last that is passed on.
    pub dies_of_it: bool,
    /// Nothing is answered.
    pub dead: bool,
}

impl Lies {
    fn tell(&self, code: i32, body: Bytes) -> Bytes {
        match code {
            GetBrokerRuntimeInfo::CODE if !self.runtime.is_empty() => {
                let mut told: serde_json::Value = serde_json::from_slice(&body).unwrap();
                for (key, value) in &self.runtime {
                    told["table"][*key] = value.as_str().into();
                }
                told.to_string().into()
            }
            GetBrokerClusterInfo::CODE if self.silent_for_ms.is_some() => {
                let mut told: ClusterInfo = rmq::protocol::json::from_slice(&body).unwrap();
                let now = told.rmq_now.unwrap_or_default();
                for live in told
                    .rmq_live_table
                    .iter_mut()
                    .flat_map(|table| table.values_mut())
                {
                    live.last_update_timestamp = now - self.silent_for_ms.unwrap_or_default();
                }
                rmq::protocol::json::to_vec(&told).into()
            }
            GetBrokerConfig::CODE => {
                let told = std::str::from_utf8(&body).unwrap();
                let own = told.lines().filter(|line| {
                    self.config
                        .iter()
                        .all(|(key, _)| !line.starts_with(&format!("{key}=")))
                });
                let lies = self.config.iter().map(|(key, value)| format!("{key}={value}"));
                own.map(str::to_owned)
                    .chain(lies)
                    .collect::<Vec<_>>()
                    .join("\n")
                    .into()
            }
            _ => body,
        }
    }
}

/// Passes on to one server.
pub struct Recorder {
    to: String,
    pool: Pool<NoService>,
    codes: Arc<Mutex<Vec<i32>>>,
    lies: Arc<Mutex<Lies>>,
}

impl Service for Recorder {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        self.codes.lock().unwrap().push(request.code);
        if self.lies.lock().unwrap().deaf_to.contains(&request.code) {
            return Reply::default();
        }
        let answered = request.code;
        if self.lies.lock().unwrap().dead {
            std::future::pending::<()>().await;
        }
        let passed = Frame {
            code: request.code,
            fields: request.fields,
            body: request.body,
            version: request.version,
            language: request.language,
            ..Frame::default()
        };
        let answer = self
            .pool
            .exchange(&self.to, passed, Duration::from_secs(10))
            .await
            .unwrap();
        let mute = {
            let mut lies = self.lies.lock().unwrap();
            let mute = lies.mute_to.contains(&answered);
            lies.dead |= mute && lies.dies_of_it;
            mute
        };
        if mute {
            std::future::pending::<()>().await;
        }
        let body = self.lies.lock().unwrap().tell(request.code, answer.body);
        Reply {
            code: answer.code,
            remark: answer.remark,
            fields: answer.fields,
            body: vec![body],
        }
    }
}

/// Recorders before a name server and its brokers.
pub struct Wire {
    listeners: Vec<Listener>,
    codes: Arc<Mutex<Vec<i32>>>,
    /// Where the name server is seen.
    pub name_server: String,
    /// `--broker-map` for each broker.
    pub maps: Vec<String>,
    /// What is said in the place of the name server.
    pub of_name_server: Arc<Mutex<Lies>>,
    /// What is said in the place of each broker.
    pub lies: Vec<Arc<Mutex<Lies>>>,
}

impl Wire {
    /// Puts a recorder before each server.
    pub async fn tap(name_server: &str, brokers: &[String]) -> Self {
        let codes = Arc::new(Mutex::new(Vec::new()));
        let (mut listeners, mut lies) = (Vec::new(), Vec::new());
        let free: SocketAddr = ([127, 0, 0, 1], 0).into();
        for to in [name_server.to_owned()].iter().chain(brokers) {
            let recorder = Recorder {
                to: to.clone(),
                pool: Pool::new(Arc::new(NoService), Duration::from_secs(2)),
                codes: codes.clone(),
                lies: Arc::default(),
            };
            lies.push(recorder.lies.clone());
            listeners.push(Listener::start(free, Arc::new(recorder)).await.unwrap());
        }
        let maps = brokers
            .iter()
            .zip(&listeners[1..])
            .map(|(broker, at)| format!("{broker}={}", at.addr()))
            .collect();
        Self {
            name_server: listeners[0].addr().to_string(),
            listeners,
            codes,
            maps,
            of_name_server: lies[0].clone(),
            lies: lies.split_off(1),
        }
    }

    /// The codes since the last time.
    pub fn take(&self) -> Vec<i32> {
        std::mem::take(&mut *self.codes.lock().unwrap())
    }

    pub async fn stop(self) {
        for listener in self.listeners {
            listener.stop(Duration::ZERO).await;
        }
    }
}
