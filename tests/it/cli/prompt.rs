//! The question before a change, on a real terminal.

use std::io::{Read as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::{Cluster, Rmq};

/// Runs the binary on a terminal of 80 columns, answers its question, and gives exit code and screen text.
async fn answer(rmq: &Rmq, args: &str, question: &str, reply: &str) -> (u32, String) {
    answer_after(rmq, args, question, reply, || {}).await
}

/// The same where something happens while the question stands.
async fn answer_after(
    rmq: &Rmq,
    args: &str,
    question: &str,
    reply: &str,
    meanwhile: impl FnOnce() + Send + 'static,
) -> (u32, String) {
    let size = PtySize {
        rows: 24,
        cols: 80,
        pixel_width: 0,
        pixel_height: 0,
    };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rmq"));
    command.args(args.split(' '));
    command.env_clear();
    command.env("HOME", &rmq.home);
    command.env("RMQ_NAMESRV", &rmq.name_server);
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut writer = pair.master.take_writer().unwrap();
    let (sender, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // Linux ends a terminal's last read with an error.
        while let Ok(n) = reader.read(&mut buffer) {
            if n == 0 || sender.send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    let (question, reply) = (question.to_owned(), format!("{reply}\n"));
    tokio::task::spawn_blocking(move || {
        let (mut bytes, mut asked, mut meanwhile) = (Vec::new(), false, Some(meanwhile));
        while let Ok(piece) = pieces.recv_timeout(Duration::from_secs(10)) {
            bytes.extend(piece);
            let text = String::from_utf8_lossy(&bytes);
            if !asked && text.contains(&question) {
                asked = true;
                if let Some(meanwhile) = meanwhile.take() {
                    meanwhile();
                }
                writer.write_all(reply.as_bytes()).unwrap();
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(asked, "{question} was not asked: {text}");
        (child.wait().unwrap().exit_code(), text)
    })
    .await
    .unwrap()
}

/// A plan is for the numbers that it was shown for, and for nobody else's way.
#[tokio::test(flavor = "multi_thread")]
async fn a_scale_looks_again_after_the_question() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let created = rmq.line("topic create T --queues 4 --yes").await;
    assert_eq!(created.code, 0, "{created:?}");
    let other = rmq.clone();
    let run = move |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let output = other.command(&words).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    };
    let change = run.clone();
    let (code, text) = answer_after(&rmq, "topic scale T --to 8", "[y/N]", "y", move || {
        change("topic update T --read-queues 5 --force --yes");
    })
    .await;
    assert_eq!(code, 9, "{text}");
    assert!(text.contains("broker-a has read 5 write 4 now"), "{text}");
    let mark = run.clone();
    let (code, text) = answer_after(&rmq, "topic scale T --to 8", "[y/N]", "y", move || {
        mark("kv set rmq scale.T elsewhere --yes");
    })
    .await;
    assert_eq!(code, 9, "{text}");
    assert!(text.contains("is being scaled"), "{text}");
    let rows = rmq.rows(&["topic", "get", "T"]).await;
    assert_eq!(
        (&rows[0]["read_queues"], &rows[0]["write_queues"]),
        (&5.into(), &4.into())
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_easy_change_takes_a_y_and_a_deletion_the_name() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let (code, text) = answer(&rmq, "topic create Orders", "[y/N]", "n").await;
    assert_eq!(code, 13, "{text}");
    assert_eq!(rmq.line("topic get Orders").await.code, 4);
    let (code, text) = answer(&rmq, "topic create Orders", "[y/N]", "y").await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("absent → 8 read and 8 write queues"), "{text}");
    let (code, text) = answer(&rmq, "topic update Orders --perm 4", "[y/N]", "y").await;
    assert_eq!(code, 0, "{text}");
    for part in [
        "6 RW- → 4 R--",
        "producers are refused",
        "undo: rmq topic update Orders",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let (code, text) = answer(&rmq, "topic delete Orders", "Type Orders", "y").await;
    assert_eq!(code, 13, "{text}");
    let (code, text) = answer(&rmq, "topic delete Orders", "Type Orders", "Orders").await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(rmq.line("topic get Orders").await.code, 4);
    cluster.stop().await;
}

/// Chinese text takes two columns a character; nothing wraps at 80.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_fits_eighty_columns() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    assert_eq!(rmq.line("topic create Orders --yes").await.code, 0);
    let body = "订单已创建，等待付款".repeat(20);
    let sent = rmq
        .run(&[
            "message", "send", "--topic", "Orders", "--body", &body, "--key", "订单-1",
        ])
        .await;
    assert_eq!(sent.code, 0, "{sent:?}");
    let (code, text) = answer(&rmq, "message tail --topic Orders", "STORED", "").await;
    assert_eq!(code, 0, "{text}");
    let row = text.lines().find(|l| l.contains("broker-a")).unwrap();
    assert!(
        unicode_width::UnicodeWidthStr::width(row.trim_end()) <= 80,
        "{row}"
    );
    assert!(row.contains('…') && row.contains("订单-1"), "{row}");
    cluster.stop().await;
}

/// Section 4 of the specification: a pipe gets no bar but a line every five seconds, and none of work that is over by then.
#[tokio::test(flavor = "multi_thread")]
async fn progress_in_a_pipe_is_a_line_every_five_seconds() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let made = rmq.line("topic create T --queues 1 --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    let body = cluster.path("body");
    std::fs::write(&body, vec![b'x'; 3_500_000]).unwrap();
    let send = format!("message send --topic T --file {} --count 2", body.display());
    let sent = rmq.line(&send).await;
    assert_eq!(sent.code, 0, "{sent:?}");
    let store = cluster.path("broker-a");
    cluster.brokers[0].stop().await.unwrap();
    // Seven megabytes at one a second: there is time for much of a bar.
    let verify = format!("store verify --throttle 1 -o json {}", store.display());
    let ran = rmq.line(&verify).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let is_line = |line: &&str| line.contains("/s, ") && line.ends_with(" left") && !line.contains('\x1b');
    assert!(
        (1..=3).contains(&lines.len()) && lines.iter().all(is_line),
        "{ran:?}"
    );
    let quiet = rmq.line(&format!("{verify} -q")).await;
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""), "{quiet:?}");
    let quick = rmq
        .line(&format!("store verify -o json {}", store.display()))
        .await;
    assert_eq!((quick.code, quick.stderr.as_str()), (0, ""), "{quick:?}");
    cluster.stop().await;
}
