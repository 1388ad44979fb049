//! The dead-letter screen: its pictures and its command lines.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rmq::client::consume::{Consumer, Handler};
use rmq::client::letters::{Ask, Letters};
use rmq::client::resent::entry;
use rmq::client::{Client, Message, Options};
use rmq::protocol::frame::Frame;
use rmq::protocol::model::Perm;
use rmq::remoting::listen::Listener;
use rmq::remoting::{Peer, Reply, Service};
use rmq::tui::app::{Action, App, Event, Pane, Screen, update as update_app};
use rmq::tui::dead::ask::{Answer, Found, Groups, Question, Resent};
use rmq::tui::model::{Told, Update};
use rmq::tui::want::Want;

use tokio_util::sync::CancellationToken;

use crate::cli::dlq::with_letters;

use super::fixture::{Look, NOW, Story, answer as answered, console, picture, press, text};
use super::messages::message;
use super::program::{Program, runtime};

const HOUR: i64 = 3_600_000;

fn letters(count: i64, perm: Perm) -> Letters {
    Letters {
        cluster: Some("sh-prod".into()),
        brokers: vec!["broker-a".into(), "broker-b".into()],
        missing: Vec::new(),
        count,
        since: Some(count.min(3)),
        oldest_ms: (count > 0).then_some(NOW - 49 * HOUR),
        newest_ms: (count > 0).then_some(NOW - 12 * 60_000),
        expired: false,
        per_minute: None,
        perm: Some(perm),
        clients: None,
        sources: if count > 0 {
            BTreeSet::from(["orders".into(), "refunds".into()])
        } else {
            BTreeSet::new()
        },
    }
}

fn rows(story: Story, group: &str) -> Vec<Message> {
    (0..5)
        .map(|n| {
            let mut letter = message(&format!("%DLQ%{group}"), n, b"{\"n\":1}");
            letter.stored_ms = NOW - (5 - n) * 10 * HOUR;
            letter.reconsume_times = 16;
            let origin = if n == 2 { "refunds" } else { "orders" };
            letter.properties.push(("RETRY_TOPIC".into(), origin.into()));
            letter
                .properties
                .push(("ORIGIN_MESSAGE_ID".into(), format!("0A00000B00002A9F{n:016X}")));
            if story == Story::Names && n == 4 {
                letter.properties[0].1 = "订单-二千零一\u{1b}[2J".into();
            }
            letter
        })
        .collect()
}

/// What the story's brokers answer.
pub fn answer(question: &Question, story: Story) -> Answer {
    match question {
        Question::Groups => {
            let mut pay = letters(41, Perm(6));
            if story == Story::OneDead {
                pay.missing = vec![("broker-c".into(), "no answer within 2.0s".into())];
            }
            let mut mail = letters(812, Perm(6));
            mail.expired = true;
            mail.oldest_ms = Some(NOW - 144 * HOUR);
            let first = if story == Story::Names {
                "消费组-支付"
            } else {
                "CID_pay"
            };
            let mut groups: BTreeMap<String, Option<Letters>> = BTreeMap::from([
                ("CID_bi".into(), Some(letters(0, Perm(6)))),
                ("CID_late".into(), None),
                ("CID_mail".into(), Some(mail)),
                ("CID_risk".into(), Some(letters(1, Perm(2)))),
            ]);
            groups.insert(first.into(), Some(pay));
            Answer::Groups(Groups { groups })
        }
        Question::Letters(group) => {
            let rows: Vec<Arc<Message>> = rows(story, group).into_iter().map(Arc::new).collect();
            let resent = BTreeMap::from([
                (entry(&rows[0]), Resent::Sent),
                (entry(&rows[1]), Resent::Failed),
                (entry(&rows[2]), Resent::Unknown),
            ]);
            Answer::Letters(Box::new(Found {
                rows,
                of: 5,
                resent,
                failed: Vec::new(),
            }))
        }
    }
}

#[test]
fn dead_letters_in_every_size_and_story() {
    for (name, story) in [
        ("dead_healthy", Story::Healthy),
        ("dead_one_dead", Story::OneDead),
        ("dead_names", Story::Names),
        ("dead_all_died", Story::AllDied),
        ("dead_empty", Story::Empty),
    ] {
        let pictures = [(80, 24), (100, 30), (200, 60)].map(|size| {
            let app = console(story, Screen::Dead, Look::of(size));
            format!("{}x{}\n{}", size.0, size.1, text(&picture(&app)))
        });
        insta::assert_snapshot!(name, pictures.join("\n"));
    }
    let ascii = Look {
        ascii: true,
        colour: false,
        ..Look::of((100, 30))
    };
    let app = console(Story::Healthy, Screen::Dead, ascii);
    insta::assert_snapshot!("dead_ascii", text(&picture(&app)));
}

/// The letters of CID_pay have the focus.
fn at_pay() -> App {
    let mut app = console(Story::Healthy, Screen::Dead, Look::of((100, 30)));
    for _ in 0..3 {
        press(&mut app, "j");
    }
    answered(&mut app, Story::Healthy);
    press(&mut app, "enter");
    assert_eq!(app.focus(), Pane::Letters);
    app
}

fn line(actions: &[Action]) -> String {
    match actions {
        [Action::Rehearse(_, deed), ..] => deed.line(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn letters_are_sent_again_by_the_command_that_remembers_them() {
    let mut app = at_pay();
    let id = |n: i64| format!("0A00000B00002A9F{:016X}", 31_356_766_688_i64 + n * 412);
    // The newest is selected first.
    let actions = press(&mut app, "R");
    assert_eq!(line(&actions), format!("rmq dlq resend CID_pay --id={}", id(4)));
    press(&mut app, "esc");
    press(&mut app, " ");
    press(&mut app, " ");
    press(&mut app, "t");
    let shown = text(&picture(&app));
    assert!(shown.contains("2 marked of 5"), "{shown}");
    assert!(shown.contains("(•) group's retry topic"), "{shown}");
    assert!(shown.contains("2 marked → %RETRY%CID_pay 2"), "{shown}");
    let actions = press(&mut app, "R");
    assert_eq!(
        line(&actions),
        format!("rmq dlq resend CID_pay --id={} --id={} --to-retry", id(4), id(3))
    );
    press(&mut app, "esc");
    press(&mut app, "t");
    press(&mut app, "a");
    assert!(text(&picture(&app)).contains("orders 4, refunds 1"));
    let actions = press(&mut app, "R");
    assert_eq!(line(&actions), "rmq dlq resend CID_pay --all");
}

#[test]
fn marks_belong_to_one_group() {
    let mut app = at_pay();
    press(&mut app, " ");
    assert_eq!(app.marked(Pane::Letters).map(BTreeSet::len), Some(1));
    press(&mut app, "shift-tab");
    assert_eq!(app.focus(), Pane::DeadGroups);
    assert_eq!(app.marked(Pane::Letters).map(BTreeSet::len), Some(1));
    press(&mut app, "k");
    answered(&mut app, Story::Healthy);
    assert_eq!(app.marked(Pane::Letters), None);
    press(&mut app, "j");
    answered(&mut app, Story::Healthy);
    assert_eq!(app.marked(Pane::Letters), None);
}

#[test]
fn all_letters_are_named_one_by_one_when_a_broker_was_silent() {
    let mut app = at_pay();
    let question = Question::Letters("CID_pay".into());
    let Answer::Letters(mut found) = answer(&question, Story::Healthy) else {
        panic!("letters")
    };
    found.failed.push("broker-c: no answer within 2.0s".into());
    let update = Update {
        at_ms: NOW + 1,
        retry_at_ms: None,
        told: Told::Found(
            Want::Dead(question),
            Ok(rmq::tui::want::Found::Dead(Answer::Letters(found))),
        ),
    };
    update_app(&mut app, NOW + 1, Event::Updates(vec![update]));
    press(&mut app, "a");
    let command = line(&press(&mut app, "R"));
    assert_eq!(command.matches("--id=").count(), 5, "{command}");
    assert!(!command.contains("--all"), "{command}");
}

/// A name server and a broker in one, with three letters: tells how many there are when `tells`, and who is online,
/// and nothing else.
struct Terse {
    addr: std::sync::OnceLock<SocketAddr>,
    tells: bool,
}

impl Service for Terse {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        let addr = self.addr.get().expect("set before anyone asks");
        let body = match request.code {
            105 => format!(
                r#"{{"brokerDatas":[{{"brokerAddrs":{{0:"{addr}"}},"brokerName":"b","cluster":"c"}}],"filterServerTable":{{}},"queueDatas":[{{"brokerName":"b","perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1}}]}}"#
            ),
            202 if self.tells => r#"{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"%DLQ%g"}:{"lastUpdateTimestamp":5,"maxOffset":3,"minOffset":0}}}"#.to_owned(),
            203 => r#"{"connectionSet":[{"clientAddr":"127.0.0.1:1","clientId":"x","language":"JAVA","version":479}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{}}"#.to_owned(),
            code => {
                return Reply {
                    code: 1,
                    remark: Some(format!("{code} is not told")),
                    ..Reply::default()
                };
            }
        };
        Reply {
            body: vec![Bytes::from(body)],
            ..Reply::default()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_broker_does_not_tell_is_not_zero() {
    for tells in [true, false] {
        let terse = Arc::new(Terse {
            addr: std::sync::OnceLock::new(),
            tells,
        });
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::start(any, Arc::clone(&terse)).await.unwrap();
        terse.addr.set(listener.addr()).unwrap();
        let client = Client::new(Options {
            name_servers: vec![listener.addr().to_string()],
            ..Options::default()
        });
        let ask = Ask {
            since_ms: Some(1),
            clients: true,
            ..Ask::default()
        };
        let (letters, failed) = client.letters("g", ask).await;
        assert_eq!(letters.count, if tells { 3 } else { 0 }, "{letters:?}");
        // Three letters, and nobody knows how many of them are new.
        assert_eq!(letters.since, None, "{letters:?}");
        assert_eq!(letters.missing.len(), 1, "{letters:?}");
        assert_eq!(letters.missing[0].0, "b");
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(letters.brokers.len(), usize::from(tells));
        // The number of letters is not what the clients hang on.
        assert_eq!(letters.clients, Some(1), "{letters:?}");
        listener.stop(Duration::ZERO).await;
    }
}

#[test]
fn every_letter_has_its_own_result() {
    let app = at_pay();
    let results: Vec<String> = app
        .table(Pane::Letters)
        .rows
        .iter()
        .map(|r| r.cells.last().unwrap().plain())
        .collect();
    assert_eq!(results, ["–", "–", "? no answer", "✗ refused", "✓ sent"]);
    let shown = text(&picture(&app));
    assert!(
        shown.contains("1 sent   1 refused   1 without an answer"),
        "{shown}"
    );
}

#[test]
fn closed_letters_are_opened_by_a_command_and_a_letter_leads_to_its_message() {
    let mut app = console(Story::Healthy, Screen::Dead, Look::of((100, 30)));
    let actions = press(&mut app, "P");
    assert_eq!(line(&actions), "rmq topic update %DLQ%CID_bi --perm 6");
    let mut app = at_pay();
    press(&mut app, "enter");
    assert_eq!(app.place.screen, Screen::Messages);
    assert_eq!(app.place.topic(), Some("%DLQ%CID_pay"));
    let mut app = at_pay();
    app.settings.read_only = true;
    for key in ["R", "P"] {
        assert_eq!(press(&mut app, key), [], "{key}");
    }
}

#[test]
fn a_letter_that_is_sent_again_from_the_screen_is_consumed() {
    let runtime = runtime();
    let (cluster, _) = runtime.block_on(with_letters(2));
    let mut program = Program::start(&cluster.addr.to_string(), &["--screen", "dlq"]);
    program.shows("Dead letters  1 group ");
    program.press("\r");
    // The newest letter is what the plan is about.
    program.shows("1 selected → T 1");
    program.press("R");
    program.shows("resend dead letters of g");
    program.press("\t\r");
    program.shows("✓ done");
    program.press("\r");
    program.shows("✓ sent");
    program.shows("1 sent");
    program.press("\x03");
    assert!(program.ends().0);
    runtime.block_on(async move {
        let client = Arc::new(Client::new(Options {
            name_servers: vec![cluster.addr.to_string()],
            ..Options::default()
        }));
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let handler: Handler = Arc::new(move |messages| {
            for message in messages {
                let _ = tell.send(message);
            }
            Box::pin(async {})
        });
        let consumer = Consumer::new(client, "reader", "T").unwrap();
        let reading = tokio::spawn(consumer.run(handler, stop.clone()));
        let mut bodies = Vec::new();
        while bodies.len() < 3 {
            let next = tokio::time::timeout(Duration::from_secs(30), told.recv()).await;
            let message: Message = next.expect("a message comes").expect("the consumer lives");
            let again = message.property("RMQ_RESENT_FROM").is_some();
            bodies.push((String::from_utf8(message.body.to_vec()).unwrap(), again));
        }
        bodies.sort();
        let expected = [("body-0", false), ("body-1", false), ("body-1", true)];
        assert_eq!(bodies, expected.map(|(b, again)| (b.to_owned(), again)));
        stop.cancel();
        reading.await.unwrap();
        cluster.stop().await;
    });
}
