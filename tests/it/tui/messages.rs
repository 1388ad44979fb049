//! The message screen: its pictures, its keys, and a real broker behind it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use rmq::client::admin::message::Pull;
use rmq::client::record::Record;
use rmq::client::trace::{Event, GroupCopy, Standing, TraceRecord, Track};
use rmq::client::way::{Missing, Way};
use rmq::client::{Client, Message, Options, Server};
use rmq::protocol::model::SysFlag;
use rmq::tui::app::{Action, App, Event as AppEvent, Pane, Screen, update as update_app};
use rmq::tui::messages::search::{Answer, Listing, Mark, Mode, Question, Search, Stop};
use rmq::tui::messages::{self, body};
use rmq::tui::model::{Told, Update};
use rmq::tui::store::State;
use rmq::tui::store::ask::{Asker, Inspector};
use rmq::tui::want::{Found, Want};

use crate::cli::Cluster;

use super::fixture::{Look, NOW, Story, answer as answered, console, picture, press, text, type_text};

/// Number `n` of the messages of a story, oldest first.
pub fn message(topic: &str, n: i64, body: &[u8]) -> Message {
    let queue = i32::try_from(n % 4).unwrap();
    let born_ms = NOW - 5_000 + n * 13;
    Message {
        broker: if n % 2 == 0 { "broker-a" } else { "broker-b" }.into(),
        topic: topic.into(),
        queue,
        offset: 5_512_000 + n,
        physical_offset: 31_356_766_688 + n * 412,
        offset_id: format!("0A00000B00002A9F{:016X}", 31_356_766_688_i64 + n * 412),
        stored_ms: born_ms + 2,
        store_host: "10.0.0.11:10911".into(),
        born_ms,
        born_host: "10.0.1.5:51234".into(),
        reconsume_times: 0,
        sys_flag: SysFlag(0),
        flag: 0,
        size: 380 + body.len(),
        properties: [
            ("KEYS", format!("o-7788{n:02}")),
            ("TAGS", if n % 3 == 2 { "ref" } else { "pay" }.to_owned()),
            ("UNIQ_KEY", format!("0A00010522B418B4AAC23F0A{n:08X}")),
            ("CLUSTER", "sh-prod".to_owned()),
            ("region", "eu-1".to_owned()),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into(),
        stored_size: body.len(),
        intact: true,
        body: Bytes::copy_from_slice(body),
        body_error: None,
    }
}

const ORDER: &[u8] = br#"{"orderId":"o-778812","amount":129.00,"currency":"CNY","items":[{"sku":"a-1","n":2},{"sku":"b","n":1},7],"note":null}"#;

fn rows(story: Story, topic: &str) -> Vec<Message> {
    let mut rows: Vec<Message> = (0..5).map(|n| message(topic, n, ORDER)).collect();
    // Bytes that are no text, and a compressed body: 120 bytes that were stored as 57.
    rows[3].body = Bytes::from((0..=255u8).collect::<Vec<u8>>());
    rows[2].sys_flag = SysFlag(SysFlag::COMPRESSED | 0x100);
    rows[2].stored_size = 57;
    rows[1].intact = false;
    if story == Story::Names {
        let newest = &mut rows[4];
        newest.body =
            "{\"订单\":\"已支付\",\"备注\":\"清屏\u{1b}[2J然后\u{202e}倒写\"}\n第二行 プロモーション".into();
        newest.properties[0].1 = "订单-二千零一 \u{7}bell".into();
        newest.properties[1].1 = "支付".into();
    }
    rows
}

/// What the story's brokers answer.
pub fn answer(question: &Question, story: Story) -> Answer {
    match question {
        Question::Search(search) => {
            let rows: Vec<Arc<Message>> = rows(story, &search.topic).into_iter().map(Arc::new).collect();
            Answer::Search(Listing {
                scanned: 412,
                of: Some(88_100_000),
                stopped: (search.mode == Mode::Time).then_some(Stop::Scanned(search.bound)),
                cut: None,
                over: search.mode != Mode::Live,
                strangers: usize::from(search.mode == Mode::Key) * 3,
                failed: if story == Story::OneDead {
                    vec!["PULL_MESSAGE to broker-c 10.0.0.13:10911: no answer within 2.0s".into()]
                } else {
                    Vec::new()
                },
                notes: Vec::new(),
                rows,
            })
        }
        Question::Way(mark, _) => Answer::Way(Box::new(way(&mark.0))),
    }
}

fn way(message: &Message) -> Way {
    let id = message.unique_key().unwrap().to_owned();
    let record = |event, at_ms, group: &str, client: &str, cost_ms| TraceRecord {
        event,
        at_ms: Some(at_ms),
        group: Some(group.into()),
        topic: Some(message.topic.clone()),
        id: id.clone(),
        cost_ms,
        ok: Some(true),
        retry: None,
        request: Some("r".into()),
        note: None,
        client: client.into(),
    };
    let track = |group: &str, standing, committed, clients| Track {
        group: group.into(),
        standing,
        committed,
        clients,
        expression: Some("pay".into()),
        note: None,
    };
    let mut missing = Missing::default();
    missing.add("copies", "no answer within 2.0s");
    Way {
        records: vec![
            record(Event::Sent, message.born_ms, "PID_orders", "10.0.1.5", Some(2)),
            record(
                Event::Delivered,
                message.born_ms + 30,
                "CID_audit",
                "10.0.1.6",
                None,
            ),
            record(
                Event::Handled,
                message.born_ms + 38,
                "CID_audit",
                "10.0.1.6",
                Some(8),
            ),
        ],
        tracks: vec![
            track("CID_audit", Standing::Consumed, Some(message.offset + 40), 2),
            track("CID_pay", Standing::NotYet, Some(message.offset - 41_120), 12),
            track("CID_bi", Standing::Offline, None, 0),
            track("CID_ref", Standing::Filtered, Some(message.offset + 1), 1),
        ],
        copies: vec![GroupCopy {
            group: "CID_pay".into(),
            dead: false,
            message: Message {
                topic: "%RETRY%CID_pay".into(),
                stored_ms: message.stored_ms + 1200,
                reconsume_times: 1,
                ..message.clone()
            },
        }],
        missing,
    }
}

fn pictures(story: Story, screen: Screen) -> String {
    let pictures = [(80, 24), (100, 30), (200, 60)].map(|size| {
        let app = console(story, screen, Look::of(size));
        format!("{}x{}\n{}", size.0, size.1, text(&picture(&app)))
    });
    pictures.join("\n")
}

/// The screen with the messages of `orders`.
fn screen(size: (u16, u16)) -> App {
    let mut app = console(Story::Healthy, Screen::Overview, Look::of(size));
    press(&mut app, "6");
    press(&mut app, "/");
    type_text(&mut app, "^orders$");
    press(&mut app, "enter");
    press(&mut app, "enter");
    assert_eq!(app.filter(), None);
    answered(&mut app, Story::Healthy);
    app
}

#[test]
fn messages_in_every_size_and_story() {
    for (name, story) in [
        ("messages_healthy", Story::Healthy),
        ("messages_one_dead", Story::OneDead),
        ("messages_names", Story::Names),
        ("messages_all_died", Story::AllDied),
        ("messages_empty", Story::Empty),
    ] {
        insta::assert_snapshot!(name, pictures(story, Screen::Messages));
    }
    let ascii = Look {
        ascii: true,
        colour: false,
        ..Look::of((100, 30))
    };
    let app = console(Story::Healthy, Screen::Messages, ascii);
    insta::assert_snapshot!("messages_ascii", text(&picture(&app)));
}

fn asked(app: &App) -> Search {
    messages::search(app).unwrap()
}

#[test]
fn each_way_to_search_is_a_form_and_then_a_question() {
    let mut app = screen((100, 30));
    assert_eq!(
        (asked(&app).mode, asked(&app).topic.as_str()),
        (Mode::Live, "orders")
    );
    press(&mut app, "k");
    insta::assert_snapshot!("messages_form", text(&picture(&app)));
    type_text(&mut app, "o-7");
    press(&mut app, "tab");
    type_text(&mut app, "-2h");
    press(&mut app, "enter");
    let search = asked(&app);
    assert_eq!(
        (search.mode, search.value("--key"), search.value("--since")),
        (Mode::Key, Some("o-7"), Some("-2h"))
    );
    assert!(
        app.wants()
            .iter()
            .any(|w| w.want == Want::Messages(Question::Search(search.clone())))
    );
    answered(&mut app, Story::Healthy);
    let shown = text(&picture(&app));
    assert!(
        shown.contains("key o-7 since -2h limit 64  scanned 412 of ~88.1M"),
        "{shown}"
    );
    assert!(shown.contains("3 hits of other keys dropped"), "{shown}");
    press(&mut app, "t");
    press(&mut app, "enter");
    assert_eq!(
        (asked(&app).mode, asked(&app).value("--from")),
        (Mode::Time, Some("-15m"))
    );
    answered(&mut app, Story::Healthy);
    assert!(text(&picture(&app)).contains("stopped at the bound of 2,000: + goes on"));
    press(&mut app, "+");
    assert_eq!(asked(&app).bound, 10_000);
    press(&mut app, "t");
    press(&mut app, "ctrl-u");
    type_text(&mut app, "soon");
    press(&mut app, "enter");
    assert!(
        app.notice.as_ref().unwrap().1.contains("not a time"),
        "{:?}",
        app.notice
    );
    press(&mut app, "i");
    type_text(&mut app, "0A00010522B418B4AAC23F0A00000001");
    press(&mut app, "enter");
    assert_eq!(asked(&app).mode, Mode::Id);
    answered(&mut app, Story::Healthy);
    // The place of the selected message is offered.
    press(&mut app, "o");
    press(&mut app, "enter");
    let search = asked(&app);
    assert_eq!(
        (
            search.value("--broker"),
            search.value("--queue"),
            search.value("--from-offset")
        ),
        (Some("broker-a"), Some("0"), Some("5512004"))
    );
    press(&mut app, "L");
    assert_eq!(asked(&app).mode, Mode::Live);
    // Leaving the screen ends the tail; the topic is remembered.
    press(&mut app, "1");
    assert!(app.wants().iter().all(|w| !matches!(w.want, Want::Messages(_))));
    press(&mut app, "6");
    assert_eq!(asked(&app).topic, "orders");
    press(&mut app, "c");
    assert_eq!(messages::search(&app), None);
}

#[test]
fn filters_look_into_messages() {
    let mut app = screen((100, 30));
    let mut rows = |filter: &str| {
        press(&mut app, "/");
        press(&mut app, "ctrl-u");
        type_text(&mut app, filter);
        press(&mut app, "enter");
        let n = app.table(Pane::Messages).rows.len();
        (n, text(&picture(&app)))
    };
    // Tags by number: pay pay ref pay pay; one body is no JSON.
    for (filter, left) in [
        ("tag:ref", 1),
        ("!tag:ref", 4),
        ("key:o-778803", 1),
        ("prop:region=eu-1", 5),
        ("prop:region=us", 0),
        ("body:CNY", 4),
        ("json:items.0.sku=a-1", 4),
        ("json:amount>129.5", 0),
        ("o-77880[12]", 2),
    ] {
        let (n, shown) = rows(filter);
        assert_eq!(n, left, "{filter}\n{shown}");
        assert!(
            shown.contains(&format!("filter {left} of 5")) || left == 5,
            "{filter}\n{shown}"
        );
    }
}

#[test]
fn a_body_is_folded_cycled_and_never_breaks_the_screen() {
    let mut app = screen((100, 30));
    let body = |app: &App| -> Vec<String> {
        let table = app.table(Pane::Body);
        table.rows.iter().map(|r| r.cells[0].plain()).collect()
    };
    assert!(
        body(&app).contains(&"  \"items\": [ 3 items ],".to_owned()),
        "{:?}",
        body(&app)
    );
    assert!(body(&app).contains(&"  \"amount\": 129.00,".to_owned()));
    press(&mut app, "tab");
    press(&mut app, "tab");
    assert_eq!(app.focus(), Pane::Body);
    for _ in 0..4 {
        press(&mut app, "j");
    }
    press(&mut app, "enter");
    assert!(
        body(&app).contains(&"  \"items\": [".to_owned()),
        "{:?}",
        body(&app)
    );
    press(&mut app, "b");
    assert_eq!(app.messages.form, body::Form::Text);
    press(&mut app, "x");
    assert!(
        body(&app)[0].starts_with("00000000  7b 22 6f 72"),
        "{:?}",
        body(&app)
    );
    press(&mut app, "x");
    // The second newest is 256 bytes of everything, the third was compressed.
    press(&mut app, "shift-tab");
    press(&mut app, "shift-tab");
    press(&mut app, "j");
    assert!(body(&app)[0].starts_with("00000000  00 01 02 03"));
    press(&mut app, "j");
    let shown = text(&picture(&app));
    let sizes = format!("lz4 57 B of {} B", ORDER.len());
    assert!(shown.contains(&sizes), "{sizes}\n{shown}");
    press(&mut app, "j");
    assert!(text(&picture(&app)).contains("crc WRONG"));
}

#[test]
fn the_way_is_asked_for_by_key_and_belongs_to_its_message() {
    let mut app = screen((100, 30));
    assert!(
        app.wants()
            .iter()
            .all(|w| !matches!(w.want, Want::Messages(Question::Way(..))))
    );
    press(&mut app, "enter");
    answered(&mut app, Story::Healthy);
    // Born, sent, stored, delivered, handled and the copy; four groups; one gap.
    assert_eq!(app.table(Pane::Way).rows.len(), 11);
    let shown = text(&picture(&app));
    assert!(shown.contains("delivered"), "{shown}");
    let way: Vec<String> = app
        .table(Pane::Way)
        .rows
        .iter()
        .map(|r| r.cells.iter().map(|c| c.plain()).collect::<Vec<_>>().join(" "))
        .collect();
    let way = way.join("\n");
    for part in [
        "! NOT YET – CID_pay commit 5,470,884 ≤ 5,512,004 in retry, 1 copies; 12 online",
        "✓ CONSUMED – CID_audit commit 5,512,044 > 5,512,004",
        "! OFFLINE – CID_bi no commit",
        "– FILTERED – CID_ref",
        "? missing – copies",
        "given back",
    ] {
        assert!(way.contains(part), "{part}\n{way}");
    }
    press(&mut app, "j");
    assert!(text(&picture(&app)).contains("T asks for its trace"));
}

#[test]
fn sending_again_is_a_command_line_and_absent_where_nothing_may_be_changed() {
    let mut app = screen((100, 30));
    press(&mut app, "enter");
    answered(&mut app, Story::Healthy);
    press(&mut app, "R");
    let actions = press(&mut app, "enter");
    let line = |actions: &[Action]| match actions {
        [Action::Rehearse(_, deed), ..] => deed.line(),
        other => panic!("{other:?}"),
    };
    // The group that does not have it yet is offered.
    let id = messages::selected(&app).unwrap().offset_id.clone();
    assert_eq!(
        line(&actions),
        format!("rmq message push {id} -t orders --group=CID_pay")
    );
    press(&mut app, "esc");
    press(&mut app, "R");
    press(&mut app, "ctrl-u");
    type_text(&mut app, "*");
    let actions = press(&mut app, "enter");
    assert_eq!(line(&actions), format!("rmq message resend {id} -t orders"));
    press(&mut app, "esc");
    app.settings.read_only = true;
    assert_eq!(press(&mut app, "R"), []);
    assert_eq!(app.overlay, None);
    assert!(!text(&picture(&app)).contains("resend"));
}

#[test]
fn marked_messages_are_written_whole() {
    let mut app = screen((100, 30));
    press(&mut app, " ");
    press(&mut app, " ");
    press(&mut app, "e");
    press(&mut app, "j");
    let actions = press(&mut app, "enter");
    let Some(Action::Save(name, lines)) = actions.first() else {
        panic!("{actions:?}")
    };
    assert!(name.ends_with(".jsonl"), "{name}");
    let records: Vec<Record> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let offsets: Vec<i64> = records.iter().map(|r| r.offset).collect();
    assert_eq!(offsets, [5_512_004, 5_512_003]);
    // Bytes that are no text survive.
    assert_eq!(records[1].outgoing(None).unwrap().body.len(), 256);
}

/// What a search brings from a real broker.
async fn asks(client: &Arc<Client>, mode: Mode, words: &[String]) -> Listing {
    let search = Search {
        mode,
        words: words.to_vec(),
        ..Search::live("T")
    };
    let zone = jiff::tz::TimeZone::UTC;
    let answer = messages::ask::answer(Arc::clone(client), Question::Search(search), zone, |_| {});
    match answer.await.unwrap() {
        Answer::Search(listing) => listing,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_find_messages_on_a_broker_and_commit_nothing() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let made = rmq.line("topic create T --queues 3 --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    for n in 0..7 {
        let sent = rmq
            .line(&format!(
                "message send --topic T --body {{\"n\":{n}}} --key K-{n} --tag Tag{}",
                n % 2
            ))
            .await;
        assert_eq!(sent.code, 0, "{sent:?}");
    }
    let client = Arc::new(Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        read_only: true,
        ..Options::default()
    }));
    // The index is written behind the log.
    let found = loop {
        let found = asks(&client, Mode::Key, &["--key=K-3".to_owned()]).await;
        if !found.rows.is_empty() {
            break found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((found.rows.len(), found.over), (1, true));
    let message = &found.rows[0];
    assert_eq!(
        (message.keys(), message.tag()),
        (vec!["K-3".to_owned()], Some("Tag1"))
    );
    // Both ids lead to it.
    for id in [message.unique_key().unwrap(), &message.offset_id] {
        let by_id = asks(&client, Mode::Id, &[format!("--id={id}")]).await;
        assert_eq!(by_id.rows, found.rows, "{id}");
        assert!(by_id.notes[0].starts_with("as a"), "{:?}", by_id.notes);
    }
    // By time: all of them, oldest first, over three queues; by a tag only its own.
    let all = asks(&client, Mode::Time, &["--from=-1h".to_owned()]).await;
    assert_eq!(
        (all.rows.len(), all.scanned, all.of, all.stopped),
        (7, 7, Some(7), None)
    );
    assert!(all.rows.is_sorted_by_key(|m| m.stored_ms));
    let tagged = asks(
        &client,
        Mode::Time,
        &["--from=-1h".to_owned(), "--tag=Tag1".to_owned()],
    )
    .await;
    // What the broker passed over was looked at, too.
    assert_eq!((tagged.rows.len(), tagged.scanned, tagged.of), (3, 7, Some(7)));
    let past = asks(
        &client,
        Mode::Time,
        &["--from=-2h".to_owned(), "--until=-1h".to_owned()],
    )
    .await;
    assert_eq!((past.rows.len(), past.of), (0, Some(0)));
    let place = [
        format!("--broker={}", message.broker),
        format!("--queue={}", message.queue),
        format!("--from-offset={}", message.offset),
    ];
    assert_eq!(asks(&client, Mode::Offset, &place).await.rows[0], *message);
    // A search that is told to stop says so.
    let short = Search {
        mode: Mode::Time,
        words: vec!["--from=earliest".into()],
        bound: 2,
        ..Search::live("T")
    };
    let zone = jiff::tz::TimeZone::UTC;
    let short =
        messages::ask::answer(Arc::clone(&client), Question::Search(short), zone.clone(), |_| {}).await;
    let Ok(Answer::Search(short)) = short else {
        panic!("{short:?}")
    };
    assert_eq!((short.rows.len(), short.stopped), (2, Some(Stop::Scanned(2))));
    // A tail begins with what is there and goes on.
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let question = Question::Search(Search::live("T"));
    let tail = tokio::spawn(messages::ask::answer(
        Arc::clone(&client),
        question,
        zone.clone(),
        move |answer| {
            let _ = tell.send(answer);
        },
    ));
    let mut sent = false;
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), told.recv()).await;
        let Ok(Some(Answer::Search(listing))) = next else {
            panic!("{next:?}")
        };
        match listing.rows.len() {
            7 if !sent => {
                sent = true;
                let more = rmq.line("message send --topic T --body more --key K-more").await;
                assert_eq!(more.code, 0, "{more:?}");
            }
            8 => {
                assert_eq!(listing.rows[7].keys(), ["K-more"]);
                break;
            }
            _ => {}
        }
    }
    tail.abort();
    // The way says who has it and what is missing.
    let way = messages::ask::answer(
        Arc::clone(&client),
        Question::Way(Mark(Arc::clone(message)), "RMQ_SYS_TRACE_TOPIC".into()),
        zone,
        |_| {},
    )
    .await;
    let Ok(Answer::Way(way)) = way else {
        panic!("{way:?}")
    };
    let parts: Vec<&str> = way.missing.0.iter().map(|gap| gap.part).collect();
    assert_eq!(parts, ["trace", "groups"], "{way:?}");
    let broker = Server::at(cluster.brokers[0].addr().to_string());
    let groups = client
        .broker_offset_groups(&broker, client.deadline())
        .await
        .unwrap();
    assert!(groups.is_empty(), "looking has moved {groups:?}");
    cluster.stop().await;
}

/// Answers what is asked of a store, once each.
fn dig(app: &mut App) {
    let inspector = Inspector::default();
    let mut asked = Vec::new();
    loop {
        let mut wanted = app.wants().into_iter().map(|wanted| wanted.want);
        let next = wanted.find(|want| matches!(want, Want::Store(_)) && !asked.contains(want));
        let Some(Want::Store(question)) = next else { return };
        let want = Want::Store(question.clone());
        asked.push(want.clone());
        let stop = AtomicBool::new(false);
        let answer = inspector.answer(&question, &mut Asker::new(&mut |_| {}, &stop));
        let told = Told::Found(want, answer.map(|answer| Found::Store(Box::new(answer))));
        let update = Update {
            at_ms: app.now_ms,
            retry_at_ms: None,
            told,
        };
        update_app(app, app.now_ms, AppEvent::Updates(vec![update]));
    }
}

/// The messages of the screen, instead of the story's.
fn brought(app: &mut App, rows: Vec<Arc<Message>>) {
    let listing = Listing {
        rows,
        over: true,
        ..Listing::default()
    };
    let want = Want::Messages(Question::Search(asked(app)));
    let at_ms = app.now_ms + 1;
    let update = Update {
        at_ms,
        retry_at_ms: None,
        told: Told::Found(want, Ok(Found::Messages(Answer::Search(listing)))),
    };
    update_app(app, at_ms, AppEvent::Updates(vec![update]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_leads_to_its_bytes_in_a_store_that_has_it() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    for line in [
        "topic create orders --queues 1 --yes",
        "message send --topic orders --body first",
        "message send --topic orders --body second --key K-2",
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let client = Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        ..Options::default()
    });
    let broker = Server::at(cluster.brokers[0].addr().to_string());
    let pull = Pull {
        topic: "orders",
        queue: 0,
        offset: 1,
        most: 1,
        tags: "*",
        hold: None,
    };
    let pulled = client.pull(&broker, &pull, client.deadline()).await.unwrap();
    let mut second = pulled.messages[0].clone();
    second.broker = "broker-a".into();
    let second = Arc::new(second);

    // The directory that the broker names is another machine's.
    let said = |app: &App| app.notice.clone().map(|(_, text)| text).unwrap_or_default();
    let mut app = screen((100, 30));
    brought(&mut app, vec![Arc::clone(&second)]);
    press(&mut app, "B");
    dig(&mut app);
    assert_eq!(app.place.screen, Screen::Messages);
    assert!(
        said(&app).contains("broker-a:0's: copy it here"),
        "{}",
        said(&app)
    );

    // The store that is named has it.
    app.store = State::new(Some(cluster.path("broker-a")), None);
    press(&mut app, "B");
    dig(&mut app);
    assert_eq!(app.place.screen, Screen::Store, "{}", said(&app));
    let record = app.store.record.value.as_ref().expect("its record is shown");
    assert_eq!(i64::try_from(record.at).unwrap(), second.physical_offset);
    assert_eq!(record.body, "second");
    press(&mut app, "esc");
    assert_eq!(app.place.screen, Screen::Messages);
    assert_eq!(app.place.topic(), Some("orders"));

    // It has nothing of another broker's message at that place, not even of one with the same queue and offset.
    let spoils: [fn(&mut Message); 2] = [|m| m.offset += 1, |m| m.stored_ms += 1];
    for spoil in spoils {
        let mut other = Message::clone(&second);
        spoil(&mut other);
        brought(&mut app, vec![Arc::new(other)]);
        press(&mut app, "B");
        dig(&mut app);
        assert_eq!(app.place.screen, Screen::Messages);
        assert!(said(&app).contains("does not have it"), "{}", said(&app));
    }

    // Who went elsewhere meanwhile is not led to it later.
    brought(&mut app, vec![Arc::clone(&second)]);
    press(&mut app, "B");
    assert!(app.messages.bytes.is_some());
    press(&mut app, "1");
    assert!(app.messages.bytes.is_none());
    cluster.stop().await;
}

#[test]
fn a_filter_that_a_search_kept_by_is_told_and_ends_with_the_filter() {
    let mut app = screen((200, 60));
    press(&mut app, "t");
    press(&mut app, "enter");
    press(&mut app, "/");
    type_text(&mut app, "tag:ref");
    press(&mut app, "enter");
    press(&mut app, "+");
    assert_eq!(
        (asked(&app).keep.as_str(), asked(&app).bound),
        ("tag:ref", 10_000)
    );
    answered(&mut app, Story::Healthy);
    let shown = text(&picture(&app));
    assert!(shown.contains("kept only tag:ref"), "{shown}");
    press(&mut app, "esc");
    assert_eq!(app.filter(), None);
    let search = asked(&app);
    assert_eq!((search.keep.as_str(), search.bound), ("", 10_000));
    let wanted = Want::Messages(Question::Search(search));
    assert!(app.wants().iter().any(|w| w.want == wanted));
    answered(&mut app, Story::Healthy);
    assert!(!text(&picture(&app)).contains("kept only"));
    // Another filter does not bring the former one back.
    press(&mut app, "/");
    type_text(&mut app, "tag:pay");
    press(&mut app, "enter");
    assert_eq!(asked(&app).keep, "");
}

#[test]
fn a_search_is_asked_once_more_by_key_and_a_tail_goes_on() {
    let mut app = screen((100, 30));
    let before = asked(&app);
    let actions = press(&mut app, "r");
    assert!(actions.contains(&Action::Refresh));
    assert_eq!((before.mode, asked(&app)), (Mode::Live, before));
    press(&mut app, "t");
    press(&mut app, "enter");
    let before = asked(&app);
    press(&mut app, "r");
    let after = asked(&app);
    assert_ne!(after, before);
    assert_eq!((after.words, after.bound), (before.words, before.bound));
}

#[test]
fn the_selected_message_is_where_an_offset_search_begins() {
    let mut app = screen((100, 30));
    let place = |app: &App| {
        let search = asked(app);
        ["--broker", "--queue", "--from-offset"].map(|flag| search.value(flag).unwrap().to_owned())
    };
    press(&mut app, "o");
    press(&mut app, "enter");
    assert_eq!(place(&app), ["broker-a", "0", "5512004"]);
    answered(&mut app, Story::Healthy);
    press(&mut app, "j");
    press(&mut app, "o");
    press(&mut app, "enter");
    assert_eq!(place(&app), ["broker-b", "3", "5512003"]);
}

#[test]
fn a_line_that_folds_is_copied_as_it_is_shown() {
    let mut app = screen((100, 30));
    press(&mut app, "tab");
    press(&mut app, "tab");
    assert_eq!(app.focus(), Pane::Body);
    for _ in 0..4 {
        press(&mut app, "j");
    }
    let actions = press(&mut app, "y");
    assert_eq!(actions, [Action::Copy("  \"items\": [ 3 items ],".to_owned())]);
}
