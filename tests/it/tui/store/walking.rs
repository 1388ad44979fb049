//! Where the keys lead.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rmq::inspect::Severity;
use rmq::tui::app::{Action, Overlay, Pane, Screen};
use rmq::tui::place::Part;
use rmq::tui::store::answer::{Ended, Kind};
use rmq::tui::store::{Lookup, entry_row, index_file, log_row};

use super::console::Console;
use crate::inspect::hashes;
use crate::tui::fixture::{Look, picture, text};

const LOOK: Look = Look::of((100, 30));

fn offsets(console: &Console) -> Vec<u64> {
    console
        .golden
        .records()
        .map(|record| record["offset"].as_u64().expect("an offset"))
        .collect()
}

#[test]
fn it_opens_at_the_newest_record_and_walks_to_the_oldest() {
    let mut console = Console::new("basic", LOOK);
    let all: Vec<u64> = console.golden.expect["records"]
        .as_array()
        .expect("records")
        .iter()
        .map(|record| record["offset"].as_u64().expect("an offset"))
        .collect();
    assert_eq!(log_row(&console.app).map(|row| row.at), all.last().copied());
    console.press(&["home"]);
    let mut seen = vec![log_row(&console.app).expect("a row").at];
    while seen.len() < all.len() {
        console.press(&["j"]);
        seen.push(log_row(&console.app).expect("a row").at);
    }
    assert_eq!(seen, all);
    console.press(&["j"]);
    assert_eq!(log_row(&console.app).map(|row| row.kind), Some(Kind::Tail));
    console.press(&["j"]);
    assert_eq!(log_row(&console.app).map(|row| row.kind), Some(Kind::Tail));
    for at in all.iter().rev().take(400) {
        console.press(&["k"]);
        assert_eq!(log_row(&console.app).map(|row| row.at), Some(*at));
    }
}

#[test]
fn a_record_leads_to_its_entry_and_back() {
    let mut console = Console::new("basic", LOOK);
    let records: Vec<_> = console.golden.records().cloned().collect();
    for record in records.iter().step_by(173) {
        let at = record["offset"].as_u64().expect("an offset");
        console.press(&["c", "g"]);
        console.type_in(&at.to_string());
        assert_eq!(log_row(&console.app).map(|row| row.at), Some(at));
        console.press(&["enter"]);
        assert_eq!(console.app.place.screen, Screen::StoreQueues);
        let name = console.app.store.queue.clone().expect("a queue");
        assert_eq!(name.0, record["topic"].as_str().expect("a topic"));
        assert_eq!(i64::from(name.1), record["queueId"].as_i64().expect("a queue"));
        let entry = entry_row(&console.app).expect("an entry");
        assert_eq!(Some(entry.offset), record["queueOffset"].as_i64());
        assert_eq!(entry.record.map(|(at, _)| at.unsigned_abs()), Some(at));
        console.press(&["enter"]);
        assert_eq!(
            (console.app.place.screen, log_row(&console.app).map(|row| row.at)),
            (Screen::Store, Some(at))
        );
        console.press(&["esc"]);
        assert_eq!(console.app.place.screen, Screen::StoreQueues);
        console.press(&["esc"]);
        assert_eq!(
            (console.app.place.screen, log_row(&console.app).map(|row| row.at)),
            (Screen::Store, Some(at))
        );
    }
}

#[test]
fn a_key_leads_through_its_chain_to_the_record() {
    let mut console = Console::new("basic", LOOK);
    let record = console
        .golden
        .records()
        .find(|r| r["topic"] == "g_basic_a")
        .cloned()
        .expect("one");
    let at = record["offset"].as_u64().expect("an offset");
    console.press(&["g"]);
    console.type_in(&at.to_string());
    let key = log_row(&console.app)
        .expect("a row")
        .keys
        .split(' ')
        .next()
        .expect("a key")
        .to_owned();
    console.press(&["i"]);
    let wanted = Lookup::Key {
        topic: Some("g_basic_a".into()),
        key,
    };
    assert_eq!(console.app.store.lookup, wanted);
    // The file with the key is selected, and one of its items leads to the record.
    let found = console.app.store.key.value.clone().expect("an answer");
    assert!(found.hits > 0);
    let file = index_file(&console.app).expect("a file").name.clone();
    let chain = found
        .chains
        .iter()
        .find(|chain| chain.file == file)
        .expect("its chain");
    let n = chain
        .walk
        .items
        .iter()
        .position(|item| item.at.unsigned_abs() == at)
        .expect("the item");
    for _ in 0..n {
        console.press(&["j"]);
    }
    assert_eq!(console.app.focus(), Pane::Store(Part::Lookup));
    console.press(&["enter"]);
    assert_eq!(
        (console.app.place.screen, log_row(&console.app).map(|row| row.at)),
        (Screen::Store, Some(at))
    );
    console.press(&["esc"]);
    assert_eq!(console.app.place.screen, Screen::StoreIndex);
}

#[test]
fn a_delayed_message_leads_to_its_own_topic() {
    let mut console = Console::new("delay-tx", LOOK);
    let delayed = console
        .golden
        .records()
        .find(|r| r["topic"] == "SCHEDULE_TOPIC_XXXX")
        .cloned()
        .expect("one");
    console.press(&["g"]);
    console.type_in(&delayed["offset"].to_string());
    let real = log_row(&console.app)
        .and_then(|row| row.real.clone())
        .expect("it is delayed");
    console.press(&["T"]);
    assert_eq!(
        (console.app.place.screen, console.app.store.queue.clone()),
        (Screen::StoreQueues, Some(real))
    );
    assert!(
        console.app.store.entries.error.is_none(),
        "{:?}",
        console.app.store.entries.error
    );
}

#[test]
fn fields_and_bytes_are_in_step() {
    let mut console = Console::new("basic", LOOK);
    let fields = console
        .app
        .store
        .record
        .value
        .as_ref()
        .expect("a record")
        .fields
        .clone();
    console.press(&["tab"]);
    assert_eq!(console.app.focus(), Pane::Store(Part::Tree));
    for field in &fields[1..] {
        console.press(&["j"]);
        assert_eq!(console.app.store.spot.byte, field.at, "{}", field.name);
    }
    console.press(&["x", "home"]);
    assert_eq!(console.app.focus(), Pane::Store(Part::Hex));
    for byte in 0..60 {
        let field = &fields[console.app.store.spot.field];
        assert!(
            (field.at..field.at + field.len).contains(&byte),
            "{byte} in {}",
            field.name
        );
        console.press(&["right"]);
    }
    // The next record keeps the field.
    console.press(&["shift-tab"]);
    let field = console.app.store.spot.field;
    console.press(&["x", "x", "k"]);
    assert_eq!(console.app.store.spot.field, field);
}

#[test]
fn a_time_and_a_segment_are_gone_to() {
    let mut console = Console::new("basic", LOOK);
    let records: Vec<_> = console.golden.records().cloned().collect();
    let time = records[500]["storeTimestamp"].as_i64().expect("a time");
    let first = records
        .iter()
        .find(|r| r["storeTimestamp"].as_i64() >= Some(time))
        .expect("itself");
    console.press(&["t"]);
    console.type_in(&format!("@{time}"));
    assert_eq!(log_row(&console.app).map(|row| row.at), first["offset"].as_u64());
    console.press(&["]"]);
    assert_eq!(log_row(&console.app).map(|row| row.at), Some(1024 * 1024));
    console.press(&["["]);
    assert_eq!(log_row(&console.app).map(|row| row.at), Some(0));
    console.press(&["["]);
    assert_eq!(log_row(&console.app).map(|row| row.at), Some(0));
    console.press(&["t"]);
    console.type_in("nonsense");
    assert!(
        matches!(console.app.overlay, Some(Overlay::Store(..))),
        "it can be mended"
    );
}

#[test]
fn one_topic_can_be_listed() {
    let mut console = Console::new("basic", LOOK);
    console.press(&["/"]);
    console.type_in("g_basic_b");
    let expected = console
        .golden
        .records()
        .filter(|r| r["topic"] == "g_basic_b")
        .count();
    console.press(&["home"]);
    let mut seen = 1;
    let mut before = log_row(&console.app).expect("a row").at;
    loop {
        console.press(&["j"]);
        let row = log_row(&console.app).expect("a row");
        assert_eq!(row.topic, "g_basic_b");
        if row.at == before {
            break;
        }
        before = row.at;
        seen += 1;
    }
    assert_eq!(seen, expected);
    console.press(&["esc"]);
    assert_eq!(
        (
            console.app.store.topic.clone(),
            log_row(&console.app).map(|row| row.at)
        ),
        (None, Some(before))
    );
}

#[test]
fn a_verification_finds_what_a_byte_broke_and_leads_there() {
    use std::os::unix::fs::FileExt as _;
    let golden = crate::inspect_cli::Golden::without_wheel("basic");
    let at = golden.records().nth(77).expect("a record")["offset"]
        .as_u64()
        .expect("an offset");
    let file = std::fs::File::options()
        .write(true)
        .open(golden.root.join("commitlog/00000000000000000000"))
        .expect("the log");
    file.write_all_at(&[0], at + 4).expect("written");
    let before = hashes(&golden.root);
    let mut console = Console::on(golden, LOOK);
    console.press(&["V"]);
    let seen = console.app.store.verify.value.clone().expect("a report");
    assert_eq!(seen.ended, Some(Ended::Complete));
    assert!(console.app.store.running.is_empty());
    let found = seen
        .findings
        .iter()
        .find(|finding| finding.code == "damaged-record")
        .expect("it is found");
    assert_eq!(found.offset, Some(at));
    let table = console.app.table(Pane::Store(Part::Findings));
    let n = table
        .rows
        .iter()
        .position(|row| seen.findings[row.id.parse::<usize>().expect("a number")] == *found);
    for _ in 0..n.expect("it is listed") {
        console.press(&["j"]);
    }
    console.press(&["enter"]);
    let row = log_row(&console.app).expect("a row");
    assert_eq!((row.at, row.kind), (at, Kind::Damage("BAD MAGIC")));
    console.press(&["esc"]);
    assert_eq!(console.app.place.screen, Screen::StoreChecks);
    let actions = console.press(&["e"]);
    let Some(Action::Save(name, text)) = actions.iter().find(|action| matches!(action, Action::Save(..)))
    else {
        panic!("{actions:?}")
    };
    assert!(name.starts_with("verify-") && name.ends_with(".json"), "{name}");
    let report: serde_json::Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(
        report["summary"]["errors"].as_u64(),
        Some(seen.report.expect("it is over").errors)
    );
    assert_eq!(
        report["items"].as_array().map(Vec::len),
        Some(seen.findings.len())
    );
    assert_eq!(hashes(&console.golden.root), before, "looking changes nothing");
}

#[test]
fn a_pass_that_is_stopped_keeps_what_it_found() {
    let mut console = Console::new("basic", LOOK);
    // Not answered: it runs.
    crate::tui::fixture::press(&mut console.app, "V");
    assert_eq!(console.app.place.screen, Screen::StoreChecks);
    assert_eq!(console.app.store.running.len(), 1);
    crate::tui::fixture::press(&mut console.app, "1");
    assert_eq!(console.app.wants().len(), 1, "it goes on behind another screen");
    for key in ["9", "K", "x"] {
        crate::tui::fixture::press(&mut console.app, key);
    }
    assert!(console.app.store.running.is_empty());
}

#[test]
fn escape_leads_home() {
    let mut console = Console::new("basic", LOOK);
    console.press(&[
        "enter", "enter", "enter", "enter", "i", "enter", "enter", "tab", "K",
    ]);
    for _ in 0..6 {
        console.press(&["esc"]);
    }
    assert_eq!(console.app.place.screen, Screen::Overview);
}

#[test]
fn an_empty_and_a_missing_store_say_so() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("commitlog")).expect("made");
    let golden = crate::inspect_cli::Golden {
        root: dir.path().to_owned(),
        expect: serde_json::Value::Null,
        dir,
    };
    let mut console = Console::on(golden, LOOK);
    for keys in [&["c"][..], &["q"], &["i"], &["K"], &["v"], &["c"]] {
        console.press(keys);
        picture(&console.app);
    }
    std::fs::remove_dir_all(console.golden.root.join("commitlog")).expect("gone");
    console.press(&["r", "home"]);
    let shown = text(&picture(&console.app));
    assert!(shown.contains("is no store"), "{shown}");
}

#[test]
fn a_check_that_was_abandoned_is_not_called_complete() {
    let mut console = Console::new("basic", LOOK);
    console.press(&["q", "/"]);
    console.type_in("g_basic_a/2");
    let name = ("g_basic_a".to_owned(), 2);
    // What a pass tells on its way.
    let sums = rmq::inspect::QueueSums {
        reached: 128,
        end: 225,
        entries: 128,
        agree: 128,
        ..Default::default()
    };
    console.app.store.sums.insert(name.clone(), sums);
    let shown = text(&picture(&console.app));
    assert!(shown.contains("stopped at 128 of 225"), "{shown}");
    assert!(!shown.contains("✓ all"), "{shown}");
    console.press(&["v"]);
    let shown = text(&picture(&console.app));
    assert!(
        shown.contains("✓ all 225 entries lead to their record"),
        "{shown}"
    );
}

#[test]
fn a_key_behind_a_broken_chain_is_not_called_missing() {
    let golden = crate::inspect_cli::Golden::without_wheel("basic");
    super::asking::break_chain(&golden, "g_basic_a", "k7");
    let mut console = Console::on(golden, Look::of((200, 60)));
    console.press(&["i", "/"]);
    console.type_in("g_basic_a#k7");
    let shown = text(&picture(&console.app));
    assert!(shown.contains("not found in what could be walked"), "{shown}");
    assert!(!shown.contains("in none of"), "{shown}");
}

#[test]
fn a_verification_keeps_its_store_when_another_one_is_shown() {
    use crate::tui::fixture::press;
    let mut console = Console::new("basic", LOOK);
    let other = crate::inspect_cli::Golden::without_wheel("delay-tx");
    press(&mut console.app, "V");
    let first = console.golden.root.clone();
    console.app.store.root = Some(other.root.clone());
    console.press(&["c"]);
    assert_eq!(
        console.app.store.about.as_ref().map(|(root, _)| root),
        Some(&other.root)
    );
    assert_eq!(
        log_row(&console.app).map(|row| row.at),
        other
            .records()
            .last()
            .and_then(|record| record["offset"].as_u64())
    );
    let seen = console.app.store.verify.value.clone().expect("a report");
    assert_eq!((seen.root.clone(), seen.ended), (first, Some(Ended::Complete)));
    assert_eq!(
        seen.report.expect("it is over").records,
        console.golden.records().count() as u64
    );
    let (_, report) = rmq::tui::store::rows::report(&console.app).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["context"]["store"].as_str(), seen.root.to_str());

    // One that was stopped has counted its findings and nothing else.
    let stopped = console.app.store.verify.value.as_mut().expect("a report");
    stopped.report = None;
    stopped.counts = BTreeMap::from([(("crc", "log", Severity::Error), 300)]);
    let (_, report) = rmq::tui::store::rows::report(&console.app).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let summary = &report["summary"];
    assert_eq!(
        (&summary["errors"], &summary["warnings"]),
        (&300.into(), &0.into())
    );
    assert!(summary["records"].is_null(), "{summary}");
}

#[test]
fn a_stopped_verification_says_where_it_goes_on() {
    use crate::inspect_verify::{SEGMENT, run_until, sparse_store};
    use crate::tui::fixture::press;
    use rmq::inspect::{Depth, Options, state_file};
    let store = sparse_store(true);
    let dir = tempfile::tempdir().unwrap();
    let state = state_file(dir.path(), store.path()).unwrap();
    let options = Options {
        threads: Some(1),
        state: Some(&state),
        ..Options::from(Depth::Full)
    };
    assert!(run_until(store.path(), options, 2).0.stopped);
    let mut console = Console::new("basic", Look::of((100, 30)));
    console.app.store.root = Some(store.path().to_owned());
    console.inspector = rmq::tui::store::ask::Inspector::noting_in(Some(dir.path().to_owned()));
    console.press(&["K"]);
    let shown = text(&picture(&console.app));
    assert!(shown.contains("V goes on at 67,108,864"), "{shown}");
    // It runs, and is stopped: what was kept is asked for anew.
    press(&mut console.app, "V");
    assert!(!text(&picture(&console.app)).contains("V goes on"));
    console.press(&["x"]);
    let kept = |console: &Console| console.app.store.kept.map(|kept| kept.at);
    assert_eq!(kept(&console), Some(SEGMENT));
    // What is kept is of then, and need not be taken over.
    let shown = text(&picture(&console.app));
    assert!(shown.contains("A begins anew"), "{shown}");
    press(&mut console.app, "A");
    let anew = |question: &rmq::tui::store::question::Question| {
        matches!(
            question.what,
            rmq::tui::store::question::What::Verify {
                full: true,
                anew: true,
                ..
            }
        )
    };
    assert!(console.app.store.running.iter().any(anew));
    console.press(&["x"]);
    console.press(&["V"]);
    let shown = text(&picture(&console.app));
    assert!(shown.contains("from  67,108,864, before as of "), "{shown}");
    assert!(!shown.contains("V goes on"), "{shown}");
    let (_, report) = rmq::tui::store::rows::report(&console.app).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["summary"]["resumed_at"].as_u64(), Some(SEGMENT));
    assert_eq!(report["summary"]["complete"], true);
}

#[test]
fn the_selected_record_stays_while_the_log_grows() {
    use rmq::tui::app::{Event, update};
    use rmq::tui::model::{Told, Update};
    use rmq::tui::store::answer::{Answer, LogRow};
    use rmq::tui::store::question::{At, What};
    use rmq::tui::want::{Found, Want};

    let mut console = Console::new("basic", LOOK);
    let selected = log_row(&console.app).expect("a row").at;
    let asked = |console: &Console| {
        console
            .app
            .wants()
            .into_iter()
            .find_map(|wanted| match wanted.want {
                Want::Store(question) => match question.what {
                    What::Log { at, .. } => Some((question, at)),
                    _ => None,
                },
                _ => None,
            })
            .expect("a page is wanted")
    };
    // The newest record is not the end: the page stays around it.
    assert_eq!(asked(&console).1, At::Offset(selected));
    console.press(&["j"]);
    let (question, at) = asked(&console);
    assert_eq!(at, At::Newest, "the tail is followed");
    // More came than a page holds.
    let mut page = console.app.store.log.page.clone();
    let by = 400 * 1000;
    page.rows = page
        .rows
        .iter()
        .map(|row| LogRow {
            at: row.at + by,
            ..row.clone()
        })
        .collect();
    let tail = page.rows.last().expect("a row").at;
    page.focus = None;
    let update_of = |page| {
        let found = Found::Store(Box::new(Answer::Log(page)));
        Event::Updates(vec![Update {
            at_ms: crate::tui::fixture::NOW,
            retry_at_ms: None,
            told: Told::Found(Want::Store(question.clone()), Ok(found)),
        }])
    };
    update(
        &mut console.app,
        crate::tui::fixture::NOW,
        update_of(page.clone()),
    );
    assert_eq!(log_row(&console.app).map(|row| row.at), Some(tail));
    // One up, and the next page of the end finds nobody there.
    crate::tui::fixture::press(&mut console.app, "k");
    let row = log_row(&console.app).expect("a row").at;
    assert_eq!(asked(&console).1, At::Offset(row));
    for row in &mut page.rows {
        row.at += by;
    }
    update(&mut console.app, crate::tui::fixture::NOW, update_of(page));
    assert_eq!(log_row(&console.app).map(|row| row.at), Some(row));
}

#[test]
fn numbers_that_no_store_should_have_are_shown_as_they_are() {
    let mut console = Console::new("basic", Look::of((200, 60)));
    console.press(&["q", "/"]);
    console.type_in("g_basic_a/2");
    let queues = console.app.store.queues.value.as_mut().expect("queues");
    let positions = queues.positions.as_mut().expect("positions");
    positions.groups.insert("far".into(), [(2, i64::MIN)].into());
    // Rows are made anew after a key.
    crate::tui::fixture::press(&mut console.app, "tab");
    let shown = text(&picture(&console.app));
    assert!(shown.contains("-9,223,372,036,854,775,808"), "{shown}");
    // A time beyond the calendar is a number, and not cut like a date.
    let mut console = Console::new("basic", LOOK);
    let record = console.app.store.record.value.as_mut().expect("a record");
    for field in &mut record.fields {
        if let rmq::inspect::Value::Time(ms) = &mut field.value {
            *ms = i64::MAX;
        }
    }
    for files in console.app.store.index.value.iter_mut().flatten() {
        files.times = (i64::MIN, i64::MAX);
    }
    let shown = text(&picture(&console.app));
    assert!(shown.contains("9223372036"), "{shown}");
}

#[test]
fn what_is_known_of_a_queue_displaces_nothing() {
    let mut console = Console::new("basic", LOOK);
    console.press(&["q", "/"]);
    console.type_in("g_basic_a/2");
    // Not answered: it runs, and has told something before.
    crate::tui::fixture::press(&mut console.app, "v");
    let sums = &mut console.app.store.sums;
    for n in 0..63 {
        sums.insert((format!("a{n:02}"), 0), Default::default());
    }
    sums.insert(("g_basic_a".to_owned(), 2), Default::default());
    console.answer();
    let sums = &console.app.store.sums;
    assert_eq!(sums.len(), 64);
    assert!(sums.contains_key(&("a00".to_owned(), 0)));
    assert!(sums[&("g_basic_a".to_owned(), 2)].over);
}

const KEYS: &[&str] = &[
    "j",
    "k",
    "down",
    "up",
    "left",
    "right",
    "home",
    "end",
    "G",
    "pgdn",
    "pgup",
    "ctrl-d",
    "ctrl-u",
    "tab",
    "shift-tab",
    "enter",
    "esc",
    "c",
    "q",
    "i",
    "K",
    "v",
    "V",
    "x",
    "T",
    "H",
    "n",
    "p",
    "[",
    "]",
    "b",
    "f",
    "e",
    "z",
    "g",
    "t",
    "/",
    "1",
    "7",
    "r",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn no_walk_leaves_the_rows_or_panics(
        keys in proptest::collection::vec(0..KEYS.len(), 1..60),
        size in 0..4usize,
        store in 0..3usize,
    ) {
        let look = Look::of([(60, 16), (80, 24), (100, 30), (200, 60)][size]);
        let mut console = Console::new(["delay-tx", "torn-head", "features"][store], look);
        let offsets = offsets(&console);
        for key in keys {
            console.press(&[KEYS[key]]);
            picture(&console.app);
            if let Some(row) = log_row(&console.app)
                && matches!(row.kind, Kind::Record(_))
            {
                prop_assert!(offsets.contains(&row.at));
            }
            if let Some(record) = &console.app.store.record.value {
                prop_assert!(console.app.store.spot.field <= record.fields.len());
                prop_assert!(console.app.store.spot.byte <= record.bytes.len());
            }
        }
    }
}
