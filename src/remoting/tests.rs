//! Peers, listeners and pools over real loopback sockets.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::{CallError, Limits, Listener, NoService, Peer, Pool, Reply, Service};
use crate::fields::Fields;
use crate::protocol::codes;
use crate::protocol::frame::{FLAG_ONEWAY, FLAG_RESPONSE, Frame, HeaderForm, MAX_FRAME};
use crate::protocol::model::{Language, VERSION};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);

const ECHO: i32 = 1;
const HOLD: i32 = 2;
const LARGE: i32 = 3;
const PANIC: i32 = 4;
const CALL_BACK: i32 = 5;
const TOO_LARGE: i32 = 6;
const DRAIN: i32 = 7;
const LATE_PANIC: i32 = 8;

/// A service that counts what happens to it.
#[derive(Default)]
struct Probe {
    opened: AtomicUsize,
    closed: AtomicUsize,
    handled: AtomicUsize,
    held: AtomicUsize,
    release: Notify,
    order: Mutex<Vec<i32>>,
    remotes: Mutex<Vec<String>>,
    held_at_close: Mutex<Vec<usize>>,
}

struct Held<'a>(&'a Probe);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Probe {
    async fn handle(self: Arc<Self>, peer: Peer, request: Frame) -> Reply {
        self.handled.fetch_add(1, Ordering::SeqCst);
        self.order.lock().unwrap().push(request.opaque);
        match request.code {
            ECHO => Reply {
                fields: request.fields,
                body: vec![request.body],
                ..Reply::default()
            },
            HOLD => {
                self.held.fetch_add(1, Ordering::SeqCst);
                let _held = Held(&self);
                self.release.notified().await;
                Reply::default()
            }
            LARGE => Reply {
                body: vec![Bytes::from(vec![7; 1024 * 1024])],
                ..Reply::default()
            },
            PANIC => panic!("as asked"),
            LATE_PANIC => {
                tokio::task::yield_now().await;
                panic!("as asked, later")
            }
            CALL_BACK => {
                let back = Frame::request(ECHO, Fields::new());
                let answer = peer.exchange(back, SECOND).await.unwrap();
                Reply {
                    remark: answer.remark,
                    ..Reply::default()
                }
            }
            TOO_LARGE => Reply {
                body: vec![Bytes::from(vec![0; MAX_FRAME])],
                ..Reply::default()
            },
            DRAIN => {
                peer.draining().await;
                Reply {
                    remark: Some("draining".into()),
                    ..Reply::default()
                }
            }
            code => super::routes::unsupported(&peer, code),
        }
    }

    fn opened(&self, peer: &Peer) {
        self.remotes.lock().unwrap().push(peer.remote().to_string());
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    fn closed(self: Arc<Self>, peer: &Peer) {
        assert!(peer.is_closed());
        self.held_at_close
            .lock()
            .unwrap()
            .push(self.held.load(Ordering::SeqCst));
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

async fn start(limits: Limits) -> (Listener, Arc<Probe>) {
    let probe = Arc::new(Probe::default());
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::start_with(any, Arc::clone(&probe), limits)
        .await
        .unwrap();
    (listener, probe)
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn frame(code: i32, opaque: i32, flag: i32, body: &[u8]) -> Bytes {
    let frame = Frame {
        opaque,
        flag,
        body: Bytes::copy_from_slice(body),
        ..Frame::request(code, Fields::new())
    };
    frame.to_bytes(HeaderForm::Json).unwrap()
}

/// A bare socket that speaks frames.
struct Raw {
    stream: TcpStream,
    input: BytesMut,
}

impl Raw {
    async fn connect(listener: &Listener) -> Self {
        Self {
            stream: TcpStream::connect(listener.addr()).await.unwrap(),
            input: BytesMut::new(),
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = Frame::cut(&mut self.input).unwrap() {
                return Some(frame);
            }
            let read = tokio::time::timeout(LONG, self.stream.read_buf(&mut self.input)).await;
            match read.expect("an answer or a close in time") {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

fn pool() -> Pool<NoService> {
    Pool::new(Arc::new(NoService), SECOND)
}

#[tokio::test]
async fn answers_come_in_completion_order_and_carry_their_opaque() {
    let (listener, probe) = start(Limits::default()).await;
    let mut raw = Raw::connect(&listener).await;
    raw.send(&[frame(HOLD, 41, 0, b""), frame(ECHO, 42, 0, b"hi")].concat())
        .await;
    let echo = raw.next().await.unwrap();
    assert_eq!((echo.opaque, echo.code, &echo.body[..]), (42, 0, &b"hi"[..]));
    assert_eq!(echo.flag, FLAG_RESPONSE);
    assert_eq!((echo.language, echo.version), (Some(Language::Java), VERSION));
    probe.release.notify_one();
    assert_eq!(raw.next().await.unwrap().opaque, 41);
}

#[tokio::test]
async fn an_unknown_code_is_answered_3_with_javas_text() {
    let (listener, _probe) = start(Limits::default()).await;
    let mut raw = Raw::connect(&listener).await;
    raw.send(&frame(9999, 5, 0, b"")).await;
    let answer = raw.next().await.unwrap();
    assert_eq!((answer.code, answer.opaque), (3, 5));
    assert_eq!(answer.remark.as_deref(), Some(" request type 9999 not supported"));
}

#[tokio::test]
async fn a_oneway_request_is_handled_and_not_answered() {
    let (listener, probe) = start(Limits::default()).await;
    let mut raw = Raw::connect(&listener).await;
    for code in [ECHO, 9999, PANIC, TOO_LARGE] {
        raw.send(&frame(code, 1, FLAG_ONEWAY, b"")).await;
    }
    raw.send(&frame(ECHO, 2, 0, b"")).await;
    assert_eq!(raw.next().await.unwrap().opaque, 2);
    assert_eq!(probe.handled.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn a_binary_request_is_answered_in_json() {
    let (listener, _probe) = start(Limits::default()).await;
    let mut raw = Raw::connect(&listener).await;
    let request = Frame {
        opaque: 9,
        ..Frame::request(ECHO, [("k", "v")].into_iter().collect())
    };
    raw.send(&request.to_bytes(HeaderForm::Binary).unwrap()).await;
    let mut head = [0; 8];
    raw.stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[4], 0, "type byte of a JSON header");
    raw.input.extend_from_slice(&head);
    assert_eq!(raw.next().await.unwrap().fields.get("k"), Some("v"));
}

#[tokio::test]
async fn a_panic_costs_the_request_and_not_the_connection() {
    let (listener, _probe) = start(Limits::default()).await;
    let mut raw = Raw::connect(&listener).await;
    raw.send(&[frame(PANIC, 1, 0, b""), frame(LATE_PANIC, 2, 0, b"")].concat())
        .await;
    for opaque in [1, 2] {
        let answer = raw.next().await.unwrap();
        assert_eq!((answer.code, answer.opaque), (codes::SYSTEM_ERROR, opaque));
        assert!(!answer.remark.unwrap().contains("as asked"));
    }
    raw.send(&frame(ECHO, 3, 0, b"")).await;
    assert_eq!(raw.next().await.unwrap().code, 0);
}

#[tokio::test]
async fn an_answer_too_large_for_a_frame_becomes_an_error() {
    let (listener, _probe) = start(Limits::default()).await;
    let mut raw = Raw::connect(&listener).await;
    raw.send(&frame(TOO_LARGE, 1, 0, b"")).await;
    let answer = raw.next().await.unwrap();
    assert_eq!((answer.code, answer.opaque), (1, 1));
    assert!(answer.remark.unwrap().contains("cannot be encoded"));
    assert!(answer.body.is_empty());
}

#[tokio::test]
async fn a_thousand_pipelined_requests_are_handled_in_arrival_order() {
    let (listener, probe) = start(Limits::default()).await;
    let pool = pool();
    let peer = pool.peer(&listener.addr().to_string()).await.unwrap();
    let calls = (0..1000).map(|i: i32| {
        let peer = peer.clone();
        async move {
            let mut request = Frame::request(ECHO, Fields::new());
            request.body = Bytes::from(i.to_string());
            let answer = peer.exchange(request, LONG).await.unwrap();
            assert_eq!(answer.body, i.to_string().as_bytes());
        }
    });
    futures_util::future::join_all(calls).await;
    let order = probe.order.lock().unwrap().clone();
    assert_eq!(order.len(), 1000);
    assert!(order.is_sorted());
}

#[tokio::test]
async fn a_server_may_call_its_client() {
    struct Client;
    impl Service for Client {
        async fn handle(self: Arc<Self>, _: Peer, _: Frame) -> Reply {
            Reply {
                remark: Some("from the client".into()),
                ..Reply::default()
            }
        }
    }
    let (listener, _probe) = start(Limits::default()).await;
    let pool = Pool::new(Arc::new(Client), SECOND);
    let request = Frame::request(CALL_BACK, Fields::new());
    let answer = pool
        .exchange(&listener.addr().to_string(), request, LONG)
        .await
        .unwrap();
    assert_eq!(answer.remark.as_deref(), Some("from the client"));
}

#[tokio::test]
async fn a_slow_reader_is_not_read_from_any_more() {
    let limits = Limits {
        unsent_bytes: 2 * 1024 * 1024,
        ..Limits::default()
    };
    let (listener, probe) = start(limits).await;
    let mut raw = Raw::connect(&listener).await;
    let all: Vec<u8> = (0..200).flat_map(|i| frame(LARGE, i, 0, b"")).collect();
    raw.send(&all).await;
    // The kernel takes some MiB; then unsent bytes pass the mark.
    let handled = || probe.handled.load(Ordering::SeqCst);
    let mut last = (handled(), Instant::now());
    until("a pause", || {
        if handled() != last.0 {
            last = (handled(), Instant::now());
        }
        last.0 > 0 && last.1.elapsed() > Duration::from_millis(100)
    })
    .await;
    assert!(
        handled() < 150,
        "{} answers of 1 MiB were made for nobody",
        handled()
    );
    for opaque in 0..200 {
        let answer = raw.next().await.unwrap();
        assert_eq!((answer.opaque, answer.body.len()), (opaque, 1024 * 1024));
    }
}

#[tokio::test]
async fn held_requests_are_limited_and_dropped_with_the_connection() {
    let limits = Limits {
        running: 8,
        ..Limits::default()
    };
    let (listener, probe) = start(limits).await;
    let mut raw = Raw::connect(&listener).await;
    let all: Vec<u8> = (0..20).flat_map(|i| frame(HOLD, i, 0, b"")).collect();
    raw.send(&all).await;
    until("eight held requests", || probe.held.load(Ordering::SeqCst) == 8).await;
    assert_eq!(probe.handled.load(Ordering::SeqCst), 8);
    probe.release.notify_waiters();
    for _ in 0..8 {
        raw.next().await.unwrap();
    }
    until("the next eight", || probe.held.load(Ordering::SeqCst) == 8).await;
    probe.release.notify_waiters();
    until("the last four", || probe.held.load(Ordering::SeqCst) == 4).await;
    drop(raw);
    until("the close", || probe.closed.load(Ordering::SeqCst) == 1).await;
    assert_eq!(*probe.held_at_close.lock().unwrap(), [0]);
    assert_eq!(probe.opened.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_used_one_is_not() {
    let limits = Limits {
        idle: Duration::from_millis(600),
        ..Limits::default()
    };
    let (listener, probe) = start(limits).await;
    let mut raw = Raw::connect(&listener).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(800) {
        raw.send(&frame(ECHO, 1, 0, b"")).await;
        raw.next().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let quiet = Instant::now();
    assert!(raw.next().await.is_none());
    assert!(
        quiet.elapsed() >= Duration::from_millis(500),
        "{:?}",
        quiet.elapsed()
    );
    // One that never says a word is closed as well.
    assert!(Raw::connect(&listener).await.next().await.is_none());
    until("the close", || probe.closed.load(Ordering::SeqCst) == 1).await;
}

/// K01: whatever cannot be delimited ends its own connection and nothing else.
#[tokio::test]
async fn broken_frames_close_only_their_connection() {
    let (listener, _probe) = start(Limits::default()).await;
    let mut healthy = Raw::connect(&listener).await;
    let json = br#"{"code":1,"opaque":7}"#;
    let head = |total: i32, mark: u32| [total.to_be_bytes(), mark.to_be_bytes()].concat();
    let mut broken: Vec<Vec<u8>> = (0..4).map(|total| head(total, 0)).collect();
    broken.extend([-1, i32::MIN, i32::MAX, MAX_FRAME as i32 - 3].map(|total| head(total, 0)));
    broken.push(head(4, 1));
    broken.push(head(4, 0x00FF_FFFF));
    broken.extend((2..=255).step_by(23).map(|kind| {
        [
            &head(4 + json.len() as i32, kind << 24 | json.len() as u32)[..],
            json,
        ]
        .concat()
    }));
    for text in [&b"{"[..], b"[]", b"nonsense", b"\xFF\xFE", b"{\"code\":}", b""] {
        broken.push([&head(4 + text.len() as i32, text.len() as u32)[..], text].concat());
    }
    let binary = |remark: i32, ext: i32, rest: &[u8]| {
        let mut header = vec![0, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0];
        header.extend(remark.to_be_bytes());
        header.extend(ext.to_be_bytes());
        header.extend(rest);
        [
            &head(4 + header.len() as i32, 1 << 24 | header.len() as u32)[..],
            &header,
        ]
        .concat()
    };
    for (remark, ext) in [(-1, 0), (i32::MAX, 0), (5, 0), (0, -1), (0, i32::MAX), (0, 3)] {
        broken.push(binary(remark, ext, b""));
    }
    for entry in [
        &b"\0"[..],
        b"\0\x05k",
        b"\x80\0k",
        b"\0\x01k\0\0",
        b"\0\x01k\0\0\0\x09v",
        b"\0\x01k\xFF\xFF\xFF\xFFv",
    ] {
        broken.push(binary(0, entry.len() as i32, entry));
    }
    broken.push([&head(4 + 20, 1 << 24 | 20)[..], &[0; 20]].concat());
    assert!(broken.len() >= 35, "{}", broken.len());
    for bytes in broken {
        let mut raw = Raw::connect(&listener).await;
        raw.send(&bytes).await;
        assert_eq!(raw.next().await, None, "{bytes:?}");
    }
    healthy.send(&frame(ECHO, 8, 0, b"")).await;
    assert_eq!(healthy.next().await.unwrap().opaque, 8);
}

#[tokio::test]
async fn the_proxy_protocol_announces_the_source() {
    let (listener, probe) = start(Limits::default()).await;
    let version_2 = [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C"[..],
        &[10, 1, 2, 3, 10, 0, 0, 1, 0x1F, 0x90, 0, 80],
    ]
    .concat();
    for (header, source) in [
        (
            &b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 9876\r\n"[..],
            "192.0.2.7:4711",
        ),
        (&version_2[..], "10.1.2.3:8080"),
    ] {
        let mut raw = Raw::connect(&listener).await;
        // Byte by byte: the header may come in any pieces.
        for byte in header {
            raw.send(&[*byte]).await;
        }
        raw.send(&frame(ECHO, 1, 0, b"")).await;
        assert_eq!(raw.next().await.unwrap().code, 0);
        assert_eq!(probe.remotes.lock().unwrap().pop().as_deref(), Some(source));
    }
    let mut bad = Raw::connect(&listener).await;
    bad.send(b"PROXY TCP4 x y 1 2\r\n").await;
    assert!(bad.next().await.is_none());
}

#[tokio::test]
async fn a_tls_hello_gets_a_clean_close() {
    let (listener, probe) = start(Limits::default()).await;
    let mut raw = Raw::connect(&listener).await;
    raw.send(&[0x16]).await;
    assert!(raw.next().await.is_none());
    assert_eq!(probe.opened.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn one_byte_of_a_frame_makes_the_peer_known() {
    let (listener, probe) = start(Limits::default()).await;
    let mut raw = Raw::connect(&listener).await;
    raw.send(&[0]).await;
    until("the opening", || probe.opened.load(Ordering::SeqCst) == 1).await;
    raw.send(&frame(ECHO, 1, 0, b"")[1..]).await;
    assert_eq!(raw.next().await.unwrap().code, 0);
}

#[tokio::test]
async fn calls_fail_when_the_peer_closes_or_stays_silent() {
    let (listener, probe) = start(Limits::default()).await;
    let pool = pool();
    let addr = listener.addr().to_string();
    let held = || Frame::request(HOLD, Fields::new());
    let timed_out = pool.exchange(&addr, held(), Duration::from_millis(30)).await;
    assert!(
        matches!(timed_out, Err(CallError::TimedOut { .. })),
        "{timed_out:?}"
    );
    let peer = pool.peer(&addr).await.unwrap();
    let (call, ()) = tokio::join!(peer.exchange(held(), LONG), async {
        until("the call", || probe.held.load(Ordering::SeqCst) == 2).await;
        listener.stop(Duration::ZERO).await;
    });
    assert!(matches!(call, Err(CallError::Closed { .. })), "{call:?}");
    peer.closed().await;
    assert!(matches!(
        peer.exchange(held(), LONG).await,
        Err(CallError::Closed { .. })
    ));
    let refused = pool.exchange(&addr, held(), LONG).await;
    assert!(matches!(refused, Err(CallError::Connect { .. })), "{refused:?}");
}

#[tokio::test]
async fn too_many_waiting_calls_are_refused() {
    let (listener, probe) = start(Limits::default()).await;
    let limits = Limits {
        calls: 2,
        ..Limits::default()
    };
    let pool = Pool::with_limits(Arc::new(NoService), SECOND, limits);
    let peer = pool.peer(&listener.addr().to_string()).await.unwrap();
    let held = || Frame::request(HOLD, Fields::new());
    let third = async {
        until("two calls", || probe.held.load(Ordering::SeqCst) == 2).await;
        let third = peer.exchange(held(), LONG).await;
        assert!(matches!(third, Err(CallError::Busy { .. })), "{third:?}");
        probe.release.notify_waiters();
    };
    let (first, second, ()) = tokio::join!(peer.exchange(held(), LONG), peer.exchange(held(), LONG), third);
    assert_eq!((first.unwrap().code, second.unwrap().code), (0, 0));
}

#[tokio::test]
async fn concurrent_callers_share_one_dial_and_a_dead_connection_is_replaced() {
    let (listener, probe) = start(Limits::default()).await;
    let pool = pool();
    let addr = listener.addr().to_string();
    let echo = || Frame::request(ECHO, Fields::new());
    let calls = (0..100).map(|_| pool.exchange(&addr, echo(), LONG));
    assert!(
        futures_util::future::join_all(calls)
            .await
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(probe.opened.load(Ordering::SeqCst), 1);
    let peer = pool.peer(&addr).await.unwrap();
    peer.close();
    peer.closed().await;
    pool.exchange(&addr, echo(), LONG).await.unwrap();
    assert_eq!(probe.opened.load(Ordering::SeqCst), 2);
    pool.close();
    until("the close", || probe.closed.load(Ordering::SeqCst) == 2).await;
    assert!(pool.peer(&addr).await.is_err());
}

#[tokio::test]
async fn a_failed_dial_names_the_address_and_fails_for_all_who_wait() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let pool = pool();
    let addr = gone.to_string();
    let dials = futures_util::future::join_all((0..10).map(|_| pool.peer(&addr))).await;
    for dial in dials {
        assert!(dial.unwrap_err().to_string().contains(&addr));
    }
    let bad = pool.peer("no such host:1").await.unwrap_err().to_string();
    assert!(bad.contains("no such host:1"), "{bad}");
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let (listener, probe) = start(Limits::default()).await;
    let e = Listener::start(listener.addr(), probe).await.unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::AddrInUse);
    assert!(e.to_string().contains(&listener.addr().to_string()), "{e}");
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let (listener, _probe) = start(limits).await;
    let mut first = Raw::connect(&listener).await;
    first.send(&frame(ECHO, 1, 0, b"")).await;
    first.next().await.unwrap();
    assert!(Raw::connect(&listener).await.next().await.is_none());
    drop(first);
    until("the end of the first", || listener.connections() == 0).await;
    let mut next = Raw::connect(&listener).await;
    next.send(&frame(ECHO, 1, 0, b"")).await;
    assert!(next.next().await.is_some());
}

#[tokio::test]
async fn a_stop_lets_running_requests_finish_and_drops_waiting_ones() {
    let (listener, probe) = start(Limits::default()).await;
    let addr = listener.addr();
    let mut ends = Raw::connect(&listener).await;
    ends.send(&frame(DRAIN, 1, 0, b"")).await;
    let mut waits = Raw::connect(&listener).await;
    waits.send(&frame(HOLD, 2, 0, b"")).await;
    let mut idle = Raw::connect(&listener).await;
    idle.send(&frame(ECHO, 3, 0, b"")).await;
    idle.next().await.unwrap();
    until("all requests", || probe.handled.load(Ordering::SeqCst) == 3).await;
    let start = Instant::now();
    listener.stop(Duration::from_millis(100)).await;
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    assert_eq!(ends.next().await.unwrap().remark.as_deref(), Some("draining"));
    assert!(ends.next().await.is_none());
    assert!(waits.next().await.is_none());
    assert!(idle.next().await.is_none());
    assert!(TcpStream::connect(addr).await.is_err());
    assert_eq!(probe.closed.load(Ordering::SeqCst), 3);
    assert_eq!(probe.held.load(Ordering::SeqCst), 0);
}

#[test]
fn random_bytes_never_harm_the_server() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (listener, probe) = runtime.block_on(start(Limits::default()));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    });
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64),
        (0..10i32, any::<i32>(), 0..4i32).prop_map(|(code, opaque, flag)| {
            let code = if code == HOLD { ECHO } else { code };
            frame(code, opaque, flag, b"x").to_vec()
        }),
        (0u8..2, 0u8..64, proptest::collection::vec(any::<u8>(), 0..64)).prop_map(|(kind, header, rest)| {
            [&[0, 0, 0, rest.len() as u8 + 4, kind, 0, 0, header][..], &rest].concat()
        }),
    ];
    runner
        .run(&proptest::collection::vec(piece, 0..6), |pieces| {
            runtime.block_on(async {
                let mut raw = Raw::connect(&listener).await;
                // The server may close in the middle.
                drop(raw.stream.write_all(&pieces.concat()).await);
                drop(raw.stream.shutdown().await);
                let mut answers = Vec::new();
                drop(
                    tokio::time::timeout(LONG, raw.stream.read_to_end(&mut answers))
                        .await
                        .unwrap(),
                );
            });
            Ok(())
        })
        .unwrap();
    runtime.block_on(async {
        until("the closes", || listener.connections() == 0).await;
        assert_eq!(
            probe.opened.load(Ordering::SeqCst),
            probe.closed.load(Ordering::SeqCst)
        );
        let mut raw = Raw::connect(&listener).await;
        raw.send(&frame(ECHO, 1, 0, b"alive")).await;
        assert_eq!(raw.next().await.unwrap().body, &b"alive"[..]);
    });
}

/// Prints requests per second of one connection: `cargo test --release -- --ignored echo_rate --nocapture`.
#[test]
#[ignore = "a measurement"]
fn echo_rate() {
    const FLIGHT: usize = 64;
    const ROUNDS: usize = 4000;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (listener, _probe) = start(Limits::default()).await;
        let mut raw = Raw::connect(&listener).await;
        let flight: Vec<u8> = (0..FLIGHT)
            .flat_map(|i| frame(ECHO, i as i32, 0, &[b'x'; 1024]))
            .collect();
        let start = Instant::now();
        for _ in 0..ROUNDS {
            raw.send(&flight).await;
            for _ in 0..FLIGHT {
                raw.next().await.unwrap();
            }
        }
        let rate = (FLIGHT * ROUNDS) as f64 / start.elapsed().as_secs_f64();
        println!("bare socket, {FLIGHT} in flight, 1 KiB bodies: {rate:.0} requests/s");

        let pool = pool();
        let peer = pool.peer(&listener.addr().to_string()).await.unwrap();
        let start = Instant::now();
        let callers = (0..FLIGHT).map(|_| {
            let peer = peer.clone();
            async move {
                for _ in 0..ROUNDS / 4 {
                    let mut request = Frame::request(ECHO, Fields::new());
                    request.body = Bytes::from_static(&[b'x'; 1024]);
                    peer.exchange(request, LONG).await.unwrap();
                }
            }
        });
        futures_util::future::join_all(callers).await;
        let rate = (FLIGHT * ROUNDS / 4) as f64 / start.elapsed().as_secs_f64();
        println!("Peer::exchange, {FLIGHT} callers, 1 KiB bodies: {rate:.0} requests/s");
    });
}
