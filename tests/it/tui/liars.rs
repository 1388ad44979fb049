//! Servers that reset, cut frames, send garbage or lie about lengths: the console keeps its screen and its other rows.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::program::Program;
use super::servers::Fake;

/// What a liar does with a connection.
#[derive(Debug, Clone, Copy)]
enum Lie {
    /// Closes it at once, with a reset.
    Reset,
    /// The first half of a frame, and nothing more.
    HalfFrame,
    /// Bytes that are no frame.
    Garbage,
    /// A frame that says it is 2 GiB.
    Huge,
    /// A frame whose header is cut JSON.
    CutHeader,
}

async fn liar(lie: Lie) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Lie::Reset = lie {
                    socket.set_zero_linger().unwrap();
                    return;
                }
                let mut request = [0; 4096];
                let _ = socket.read(&mut request).await;
                let answer: &[u8] = match lie {
                    Lie::Reset => &[],
                    Lie::HalfFrame => b"\0\0\0\x40\0\0\0\x20{\"code\":0",
                    Lie::Garbage => b"HTTP/1.1 400 Bad Request\r\n\r\n\x1b[2J\x1b]0;owned\x07",
                    Lie::Huge => b"\x7f\xff\xff\xff\0\0\0\x10",
                    Lie::CutHeader => b"\0\0\0\x0e\0\0\0\x0a{\"code\":0,",
                };
                let _ = socket.write_all(answer).await;
                // Held open: a half frame is an answer that never ends.
                tokio::time::sleep(Duration::from_secs(60)).await;
            });
        }
    });
    (addr, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lying_broker_is_one_bad_row() {
    for lie in [
        Lie::Reset,
        Lie::HalfFrame,
        Lie::Garbage,
        Lie::Huge,
        Lie::CutHeader,
    ] {
        let good = Fake::broker(3, false).await;
        let (bad, task) = liar(lie).await;
        let servers = Fake::name_server(&[("good", good.addr), ("liar", bad)]).await;
        let addr = servers.addr.to_string();
        tokio::task::spawn_blocking(move || {
            let mut program = Program::start(&addr, &["--screen", "brokers"]);
            program.shows("brokers 1/2!");
            program.shows("good");
            let began = Instant::now();
            program.press("2");
            program.shows("Registrations");
            assert!(began.elapsed() < Duration::from_secs(1), "{lie:?}");
            // Nothing of what it sent got to the terminal.
            assert!(!program.contents().contains("owned"), "{lie:?}");
            program.press("q");
            assert!(program.ends().0, "{lie:?}");
        })
        .await
        .unwrap();
        task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lying_name_server_is_one_of_two() {
    let good = Fake::broker(3, false).await;
    let servers = Fake::name_server(&[("good", good.addr)]).await;
    let (bad, task) = liar(Lie::Garbage).await;
    let both = format!("{bad};{}", servers.addr);
    tokio::task::spawn_blocking(move || {
        let mut program = Program::start(&both, &[]);
        program.shows("ns 1/2!");
        program.shows("brokers 1/1");
        program.press("q");
        assert!(program.ends().0);
    })
    .await
    .unwrap();
    task.abort();
}
