//! A server between the binary and a cluster that passes every frame on and keeps its code.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmq::protocol::frame::Frame;
use rmq::remoting::{Listener, NoService, Peer, Pool, Reply, Service};

/// Passes on to one server.
pub struct Recorder {
    to: String,
    pool: Pool<NoService>,
    codes: Arc<Mutex<Vec<i32>>>,
}

impl Service for Recorder {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        self.codes.lock().unwrap().push(request.code);
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
        Reply {
            code: answer.code,
            remark: answer.remark,
            fields: answer.fields,
            body: vec![answer.body],
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
}

impl Wire {
    /// Puts a recorder before each server.
    pub async fn tap(name_server: &str, brokers: &[String]) -> Self {
        let codes = Arc::new(Mutex::new(Vec::new()));
        let mut listeners = Vec::new();
        let free: SocketAddr = ([127, 0, 0, 1], 0).into();
        for to in [name_server.to_owned()].iter().chain(brokers) {
            let recorder = Recorder {
                to: to.clone(),
                pool: Pool::new(Arc::new(NoService), Duration::from_secs(2)),
                codes: codes.clone(),
            };
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
