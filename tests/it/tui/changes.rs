//! Changes made on the screen, against servers of this process: what the CLI then reads is what the screen said.

use rmq::client::findings::Subject;
use rmq::client::scale::Progress;
use rmq::client::scale::kept::{KeptWay, Stopped};
use rmq::tui::app::{self, Action, App, Event, Overlay, Pane, Screen};
use rmq::tui::deed::{Deed, DeedTold, Level, Rehearsal, Report, StepLine};
use rmq::tui::keys::Command;
use rmq::tui::model::{Told, Update};
use rmq::tui::want::{Found, Want};
use rmq::tui::work::{Stage, Work};

use super::fixture::{Look, NOW, Story, console, picture, press, text};
use super::program::Program;
use crate::cli::{Cluster, Rmq};

async fn perm(rmq: &Rmq, topic: &str) -> Vec<String> {
    let rows = rmq.rows(&["topic", "get", topic]).await;
    rows.iter().map(|r| r["perm"].to_string()).collect()
}

/// The program on a thread that may block.
async fn on_screen<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_made_and_closed_to_producers_on_the_screen() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let addr = cluster.addr.to_string();
    let program = on_screen(move || {
        let mut program = Program::start(&addr, &["--screen", "topics"]);
        program.shows("brokers 2/2");
        program.press("n");
        program.shows("New topic");
        program.press("ScreenTopic\t\x154\r");
        // Nothing is done before it is shown and agreed to.
        program.shows("Apply? create topic ScreenTopic");
        program.shows("▸Cancel");
        program.press("\t");
        program.shows("▸Apply");
        program.press("\r");
        program.shows("✓ done");
        program.shows("rmq topic delete ScreenTopic");
        program.press("\r");
        // Its row, not the name on the dialog that closes: keys work on rows.
        program.shows("Topics 1 of ");
        program
    })
    .await;
    let made = rmq.rows(&["topic", "get", "ScreenTopic"]).await;
    let numbers: Vec<_> = (made.iter())
        .map(|r| (r["read_queues"].as_i64(), r["write_queues"].as_i64()))
        .collect();
    assert_eq!(numbers, [(Some(4), Some(4)); 2]);

    let before = perm(&rmq, "ScreenTopic").await;
    let mut program = on_screen(move || {
        let mut program = program;
        program.press("P");
        program.shows("Permission of ScreenTopic");
        program.press("4\r");
        program.shows("Type the name to apply: update topic ScreenTopic");
        // The name is wanted; a press of enter is nothing.
        program.press("\r");
        program.shows("Type ScreenTopic to go on");
        program.press("Screen");
        program.shows("Screen▏");
        program
    })
    .await;
    assert_eq!(perm(&rmq, "ScreenTopic").await, before);
    // Somebody else changes it meanwhile: what was shown is not what would be done.
    let ran = rmq
        .line("topic update ScreenTopic --perm 2 --broker broker-a --yes")
        .await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut program = on_screen(move || {
        program.press("Topic\r");
        program.shows("it is not what was shown any more");
        program.press("r");
        program.shows("Type ScreenTopic to go on");
        program.press("ScreenTopic\r");
        program.shows("✓ done");
        program
    })
    .await;
    let closed = perm(&rmq, "ScreenTopic").await;
    assert!(
        closed.iter().all(|p| p.contains('R') || p.contains('4')),
        "{closed:?}"
    );
    assert!(
        closed.iter().all(|p| !p.contains('W') && !p.contains('6')),
        "{closed:?}"
    );
    on_screen(move || {
        program.press("\x03");
        assert!(program.ends().0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_move_as_the_preview_says_and_back() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    for line in [
        "topic create T --queues 1 --yes",
        "group create CG --yes",
        "message send -t T --body x --count 10",
        "offset set CG -t T broker-a/0=7 --yes",
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    let committed = async || {
        let rows = rmq.rows(&["offset", "get", "CG", "-t", "T"]).await;
        rows.first()
            .and_then(|r| r["committed"].as_i64().or(r["offset"].as_i64()))
    };
    assert_eq!(committed().await, Some(7));
    let addr = cluster.addr.to_string();
    let program = on_screen(move || {
        let mut program = Program::start(&addr, &["--screen", "groups"]);
        program.shows("CG");
        program.press("o");
        program.shows("Move offsets of CG");
        program.press("\tearliest\r");
        program.shows("replay 7");
        program.shows("7 messages");
        program
    })
    .await;
    // A preview moves nothing.
    assert_eq!(committed().await, Some(7));
    let program = on_screen(move || {
        let mut program = program;
        program.press("\x01");
        program.shows("Type CG");
        let wanted = program.contents();
        let (wanted, _) = wanted.split_once(" to go on").unwrap();
        let (_, wanted) = wanted.rsplit_once("Type ").unwrap();
        let text = format!("{wanted}\r");
        program.press(&text);
        program.shows("✓ done");
        program
    })
    .await;
    assert_eq!(committed().await, Some(0));
    on_screen(move || {
        let mut program = program;
        program.press("\x03");
        assert!(program.ends().0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_console_offers_no_change() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let addr = cluster.addr.to_string();
    on_screen(move || {
        let mut program = Program::start(&addr, &["--screen", "topics", "--read-only"]);
        program.shows("brokers 1/1");
        program.shows(" RO ");
        program.press("n");
        program.press("?");
        program.shows("Keys on topics");
        let help = program.contents();
        assert!(!help.contains("a new topic"), "{help}");
        assert!(!help.contains("New topic"), "{help}");
        program.press("\x1b");
        program.press("\x03");
        assert!(program.ends().0);
    })
    .await;
}

#[test]
fn a_scaling_says_which_step_it_is_at_while_it_runs_and_when_it_was_interrupted() {
    let mut app = console(Story::Healthy, Screen::Topic, Look::of((100, 30)));
    let topic = app.place.topic().expect("it is about a topic").to_owned();
    let progress = Progress {
        at: 3,
        of: 5,
        done: false,
        step: "drain queues 8-15".into(),
        since_ms: NOW - 80_000,
        seen_ms: NOW - 1_000,
        waits: vec!["CID_pay (clustering) has 92354 unread".into()],
        met: Vec::new(),
        left: vec!["read 16 → 8 on broker-a".into(), "name servers show it".into()],
    };
    let says = |app: &rmq::tui::app::App, parts: &[&str]| {
        let shown = text(&picture(app));
        for part in parts {
            assert!(shown.contains(part), "no \"{part}\" in\n{shown}");
        }
    };
    let step = [
        "step 3 of 5, since 1m20s: drain queues 8-15",
        "waits for CID_pay (clustering) has 92354 unread",
        "then 4 read 16 → 8 on broker-a",
        "then 5 name servers show it",
    ];
    let deed = Deed::new(["topic", "scale", &topic, "--to=8"]).about(Subject::Topic(topic.clone()));
    let mut work = Work::new(100, deed, NOW - 120_000);
    work.stage = Stage::Running(Box::new(Rehearsal {
        action: format!("scale topic {topic}"),
        object: topic.clone(),
        cluster: "c".into(),
        level: Level::Name,
        steps: Vec::new(),
        impact: Vec::new(),
        lines: Vec::new(),
    }));
    app.works.push(work);
    let told = DeedTold::Way(Box::new(progress.clone()));
    app::update(&mut app, NOW, Event::Deed(100, told));
    says(&app, &step);
    press(&mut app, "4");
    says(&app, &["~ scale step 3 of 5"]);
    let changes = app.key(Command::Works);
    press(&mut app, &changes);
    says(&app, &step);
    press(&mut app, "esc");
    // Of another session, whose file tells: while it goes on, and after it was interrupted.
    app.works.clear();
    let mut way = KeptWay {
        cluster: "other".into(),
        topic: topic.clone(),
        undoing: false,
        progress,
        stopped: None,
    };
    let hear = |app: &mut rmq::tui::app::App, way: &KeptWay, at_ms| {
        let update = Update {
            at_ms,
            retry_at_ms: None,
            told: Told::Found(Want::Ways, Ok(Found::Ways(vec![way.clone()]))),
        };
        app::update(app, NOW, Event::Updates(vec![update]));
    };
    // A topic of that name in another cluster is another topic.
    hear(&mut app, &way, NOW + 1);
    assert_eq!(app.kept_way(&topic), None);
    assert!(!text(&picture(&app)).contains("scale step"));
    way.cluster = "sh-prod".into();
    hear(&mut app, &way, NOW + 2);
    says(&app, &["~ scale step 3 of 5"]);
    press(&mut app, "[");
    says(&app, &step);
    says(
        &app,
        &["~ somebody scales it, looked 1s ago", "scaling: step 3 of 5"],
    );
    way.stopped = Some(Stopped {
        at_ms: NOW - 30_000,
        why: "Ctrl-C".into(),
    });
    hear(&mut app, &way, NOW + 3);
    says(&app, &[step[0], step[2], step[3]]);
    let waited = "waited for CID_pay (clustering) has 92354 unread";
    says(&app, &["✗ interrupted 30s ago: q goes on, u goes back", waited]);
    let resumes = press(&mut app, "q").into_iter().find_map(|action| match action {
        Action::Rehearse(_, deed) => Some(deed.words.join(" ")),
        _ => None,
    });
    let line = format!("topic scale {topic} --resume");
    assert!(resumes.is_some_and(|words| words.starts_with(&line)));
    press(&mut app, "esc");
    press(&mut app, "4");
    says(&app, &["! scale stopped at step 3 of 5"]);
}

#[test]
fn an_interrupted_scaling_is_taken_back_and_not_the_change_before_it() {
    let mut app = console(Story::Healthy, Screen::Topic, Look::of((100, 30)));
    let topic = app.place.topic().expect("it is about a topic").to_owned();
    let done = |app: &mut App, words: &[&str], report: Report| {
        let deed = Deed::new(words.iter().copied()).about(Subject::Topic(topic.clone()));
        let id = u64::try_from(app.works.len()).unwrap() + 100;
        app.works.push(Work::new(id, deed, NOW));
        app::update(app, NOW, Event::Deed(id, DeedTold::Done(Box::new(report))));
    };
    let step = StepLine {
        target: "broker-a".into(),
        field: "perm".into(),
        before: "6".into(),
        after: "4".into(),
        result: "changed".into(),
        good: true,
    };
    let perm = Report {
        steps: vec![step],
        undo: Some(format!("rmq topic update {topic} --perm 6")),
        failure: None,
    };
    let taken_back = |app: &mut App| {
        let actions = press(app, "u");
        press(app, "esc");
        let words = actions.into_iter().find_map(|action| match action {
            Action::Rehearse(_, deed) => Some(deed.words.join(" ")),
            _ => None,
        });
        words.unwrap_or_default()
    };
    done(&mut app, &["topic", "update", &topic, "--perm", "4"], perm);
    assert!(taken_back(&mut app).starts_with(&format!("topic update {topic} --perm 6")));
    // One that was refused has changed nothing.
    let refused = Report {
        failure: Some("it is not what was shown any more".into()),
        ..Report::default()
    };
    done(&mut app, &["topic", "scale", &topic, "--to=8"], refused);
    assert!(taken_back(&mut app).starts_with(&format!("topic update {topic} --perm 6")));
    // One that was interrupted may have; its own file knows what it has written.
    let interrupted = Report {
        steps: Vec::new(),
        undo: Some(format!("rmq topic scale {topic} --undo")),
        failure: Some("scaling was interrupted".into()),
    };
    done(&mut app, &["topic", "scale", &topic, "--to=8"], interrupted);
    assert!(taken_back(&mut app).starts_with(&format!("topic scale {topic} --undo")));
}

/// The command that a key began, if any.
fn begun(actions: &[Action]) -> Option<String> {
    actions.iter().find_map(|action| match action {
        Action::Rehearse(_, deed) => Some(deed.words.join(" ")),
        _ => None,
    })
}

#[test]
fn configuration_and_pause_work_on_the_row_of_the_list() {
    let mut app = console(Story::Healthy, Screen::Groups, Look::of((100, 30)));
    let row = app.visible(Pane::Groups)[1].clone();
    press(&mut app, "j");
    for (key, wanted) in [("c", None), ("f", Some(format!("group pause {row}")))] {
        // Nothing that was known before is fresh: it is asked for now.
        press(&mut app, key);
        let want = Want::Group(row.clone());
        assert!(
            app.wants().iter().any(|w| w.want == want && w.every.is_none()),
            "{key}"
        );
        assert_eq!(app.overlay, None, "{key}");
        let actions = answered(&mut app, &want);
        match (&app.overlay, wanted) {
            (Some(Overlay::Form(form)), None) => {
                assert_eq!(form.base, ["group", "update", row.as_str()]);
                assert_eq!(form.fields[0].input.text(), "true");
            }
            (Some(Overlay::Work(_)), Some(line)) => assert_eq!(begun(&actions), Some(line)),
            other => panic!("{key}: {other:?}"),
        }
        press(&mut app, "esc");
        assert!(
            app.wants().iter().all(|w| w.want != want),
            "{key}: it waits no more"
        );
    }
    // Another key is another wish.
    press(&mut app, "c");
    press(&mut app, "k");
    answered(&mut app, &Want::Group(row));
    assert_eq!(app.overlay, None);
}

/// The story's answer to one question.
fn answered(app: &mut App, want: &Want) -> Vec<Action> {
    let update = Update {
        at_ms: app.now_ms + 1,
        retry_at_ms: None,
        told: Told::Found(want.clone(), Ok(super::fixture::found(want, Story::Healthy))),
    };
    let now = app.now_ms + 1;
    app::update(app, now, Event::Updates(vec![update]))
}

#[test]
fn a_group_goes_one_way_and_single_queues_may_be_several() {
    let mut app = console(Story::Healthy, Screen::Offsets, Look::of((100, 30)));
    let fill = |app: &mut App, fields: &[(usize, &str)]| {
        press(app, "t");
        for (at, text) in fields {
            let Some(Overlay::Form(form)) = &mut app.overlay else {
                panic!("no form")
            };
            form.at = *at;
            form.paste(text);
        }
        press(app, "enter");
    };
    let goal = |app: &App| app.reset.as_ref().unwrap().words().join(" ");
    fill(&mut app, &[(3, "broker-a/0=7 broker-b/1=9")]);
    assert_eq!(
        goal(&app),
        "group reset CID_audit -t orders --queue=broker-a/0=7 --queue=broker-b/1=9"
    );
    assert!(text(&picture(&app)).contains("queue broker-a/0=7  queue broker-b/1=9"));
    fill(&mut app, &[(4, "CID_pay")]);
    assert_eq!(goal(&app), "group reset CID_audit -t orders --from-group=CID_pay");
    fill(&mut app, &[(5, "before.json")]);
    assert_eq!(
        goal(&app),
        "group reset CID_audit -t orders --from-file=before.json"
    );
    // Two ways at once are none, and the form stays.
    fill(&mut app, &[(1, "latest"), (2, "-5")]);
    assert!(matches!(app.overlay, Some(Overlay::Form(_))));
    assert!(goal(&app).ends_with("before.json"));
}

#[test]
fn offsets_go_into_a_file_and_the_last_move_of_another_session_is_taken_back() {
    let mut app = console(Story::Healthy, Screen::Overview, Look::of((100, 30)));
    press(&mut app, "8");
    press(&mut app, "j");
    press(&mut app, "e");
    assert!(matches!(&app.overlay, Some(Overlay::Form(_))));
    press(&mut app, "enter");
    let Some(Overlay::Sheet(words, _)) = &app.overlay else {
        panic!("{:?}", app.overlay)
    };
    assert_eq!(
        words.join(" "),
        "offset export CID_pay -t orders --out=offsets-CID_pay-20261129-120431.json"
    );
    assert!(
        Want::Sheet(words.clone()).is_long(),
        "it is not written again by itself"
    );
    press(&mut app, "esc");
    // Nothing was moved from this console.
    assert_eq!(begun(&press(&mut app, "u")), Some("offset undo CID_pay".into()));
}

#[test]
fn a_preview_says_how_long_a_replay_takes_and_what_each_broker_does() {
    let app = console(Story::Healthy, Screen::Offsets, Look::of((100, 30)));
    let shown = text(&picture(&app));
    for part in [
        "851,484 messages, ~5m 16s at 2.7k/s",
        "broker-a broker-b V5_3_3, server-side reset on",
        "offsets/CID_audit-TIME.json",
    ] {
        assert!(shown.contains(part), "no \"{part}\" in\n{shown}");
    }
}

#[test]
fn a_scaling_and_a_new_topic_take_what_their_commands_take() {
    let mut app = console(Story::Healthy, Screen::Topics, Look::of((100, 30)));
    let fill = |app: &mut App, key: &str, fields: &[(&str, &str)]| {
        press(app, key);
        for (label, text) in fields {
            let Some(Overlay::Form(form)) = &mut app.overlay else {
                panic!("no form")
            };
            form.at = form.fields.iter().position(|f| f.label == *label).expect(label);
            form.paste(text);
        }
        begun(&press(app, "enter")).expect("a command")
    };
    let scale = fill(
        &mut app,
        "q",
        &[
            ("read to", "16"),
            ("write to", "8"),
            ("brokers", "broker-a broker-b"),
            ("ignore groups", "G1 G2"),
        ],
    );
    let topic = scale.split(' ').nth(2).unwrap().to_owned();
    assert_eq!(
        scale,
        format!(
            "topic scale {topic} --read-to=16 --write-to=8 --broker=broker-a --broker=broker-b --ignore-group=G1 \
             --ignore-group=G2"
        )
    );
    press(&mut app, "esc");
    let made = fill(
        &mut app,
        "n",
        &[
            ("name", "fresh"),
            ("read queues", "8"),
            ("write queues", "4"),
            ("order", "yes"),
            ("brokers", "broker-b"),
        ],
    );
    assert_eq!(
        made,
        "topic create fresh --read-queues=8 --write-queues=4 --perm=6 --type=normal --order --broker=broker-b"
    );
}
