//! What the files answer, against the values that Java read from them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rmq::inspect::{Depth, Options, state_file};
use rmq::tui::store::answer::{Answer, Compared, Ended, Found, Kind, LogRow, Page, Verifying};
use rmq::tui::store::ask::{Asker, Inspector};
use rmq::tui::store::question::{At, Question, What};

use crate::inspect::hashes;
use crate::inspect_cli::Golden;
use crate::inspect_verify::{SEGMENT, run_until, sparse_store};

pub fn ask(inspector: &Inspector, root: &Path, what: What) -> Result<Answer, String> {
    let question = Question {
        root: root.to_owned(),
        commit_log: None,
        what,
    };
    let stop = AtomicBool::new(false);
    inspector.answer(&question, &mut Asker::new(&mut |_| {}, &stop))
}

fn log(inspector: &Inspector, root: &Path, at: At, topic: Option<&str>) -> Page<LogRow> {
    let topic = topic.map(str::to_owned);
    match ask(inspector, root, What::Log { at, topic }) {
        Ok(Answer::Log(page)) => page,
        other => panic!("{other:?}"),
    }
}

/// Every row of the log, page by page from one end to the other, each page asked around the edge of the one before.
fn walk(inspector: &Inspector, root: &Path, down: bool, topic: Option<&str>) -> Vec<u64> {
    let mut at = if down { At::Oldest } else { At::Newest };
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let page = log(inspector, root, at, topic);
        assert!(page.rows.len() <= 252, "a page is bounded");
        assert!(page.rows.is_sorted_by_key(|row| row.at));
        seen.extend(
            page.rows
                .iter()
                .filter(|row| row.kind != Kind::Tail)
                .map(|row| row.at),
        );
        let (end, edge) = if down {
            (page.is_last, page.rows.last())
        } else {
            (page.is_first, page.rows.first())
        };
        if end {
            return seen.into_iter().collect();
        }
        at = At::Offset(edge.expect("a page between the ends has rows").at);
    }
    panic!("no end");
}

#[test]
fn pages_of_the_log_hold_every_record_in_both_directions() {
    for name in ["basic", "crashed", "delay-tx", "features", "ipv6"] {
        let golden = Golden::without_wheel(name);
        let before = hashes(&golden.root);
        let inspector = Inspector::default();
        let expected: Vec<u64> = golden.expect["records"]
            .as_array()
            .expect("records")
            .iter()
            .map(|record| record["offset"].as_u64().expect("an offset"))
            .collect();
        assert_eq!(walk(&inspector, &golden.root, true, None), expected, "{name}");
        assert_eq!(walk(&inspector, &golden.root, false, None), expected, "{name}");
        assert_eq!(hashes(&golden.root), before, "{name} changed");
    }
}

#[test]
fn a_topic_has_its_own_pages() {
    let golden = Golden::without_wheel("basic");
    let inspector = Inspector::default();
    let of = |topic: &str| -> Vec<u64> {
        let records = golden.records().filter(|record| record["topic"] == topic);
        records
            .map(|record| record["offset"].as_u64().expect("an offset"))
            .collect()
    };
    for topic in ["g_basic_a", "g_basic_b", "g_big"] {
        let expected = of(topic);
        assert!(!expected.is_empty(), "{topic}");
        assert_eq!(
            walk(&inspector, &golden.root, true, Some(topic)),
            expected,
            "{topic}"
        );
        assert_eq!(
            walk(&inspector, &golden.root, false, Some(topic)),
            expected,
            "{topic}"
        );
    }
    let why = ask(&inspector, &golden.root, What::Topic("none".into())).expect_err("no such topic");
    assert!(why.contains("there is no queue of topic \"none\""), "{why}");
}

#[test]
fn a_record_is_covered_by_its_fields() {
    for name in ["basic", "ipv6", "crcprop"] {
        let golden = Golden::without_wheel(name);
        let inspector = Inspector::default();
        for record in golden.records().step_by(37) {
            let at = record["offset"].as_u64().expect("an offset");
            let Ok(Answer::Record(view)) = ask(&inspector, &golden.root, What::Record(at)) else {
                panic!("{name} {at}")
            };
            assert_eq!(view.len, record["size"].as_u64().expect("a size"));
            let mut next = 0;
            for field in &view.fields {
                assert_eq!(field.at, next, "{name} {at} {}", field.name);
                next += field.len;
            }
            assert_eq!(next as u64, view.len);
            assert!(view.bytes.len() as u64 <= view.len && view.bytes.len() <= 128 * 1024);
        }
    }
}

#[test]
fn a_time_leads_to_the_first_record_stored_then() {
    let golden = Golden::without_wheel("basic");
    let inspector = Inspector::default();
    let records: Vec<_> = golden.records().collect();
    for record in records.iter().step_by(101) {
        let time = record["storeTimestamp"].as_i64().expect("a time");
        let first = records
            .iter()
            .find(|other| other["storeTimestamp"].as_i64() >= Some(time))
            .and_then(|record| record["offset"].as_u64());
        assert_eq!(
            log(&inspector, &golden.root, At::Time(time), None).focus,
            first,
            "{time}"
        );
    }
}

#[test]
fn queues_have_javas_ends_and_entries_that_agree() {
    for name in ["basic", "features", "delay-tx"] {
        let golden = Golden::without_wheel(name);
        let inspector = Inspector::default();
        let queues = golden.expect["afterLoad"]["queues"].as_object().expect("queues");
        for (name, expected) in queues.iter().filter(|(_, queue)| queue["type"] == "SimpleCQ") {
            let (topic, queue) = name.rsplit_once('@').expect("topic@queue");
            let queue: i32 = queue.parse().expect("a number");
            let what = |at| What::Queue {
                topic: topic.into(),
                queue,
                at,
            };
            let Ok(Answer::Queue(page)) = ask(&inspector, &golden.root, what(At::Newest)) else {
                panic!("{name}")
            };
            let (min, max) = (expected["minOffset"].as_i64(), expected["maxOffset"].as_i64());
            assert_eq!((Some(page.offsets.0), Some(page.offsets.1)), (min, max), "{name}");
            assert_eq!(page.page.rows.last().map(|row| row.offset + 1), max, "{name}");
            assert!(
                page.page.rows.iter().all(|row| row.check == Compared::Good),
                "{name}"
            );
            let check = What::CheckQueue {
                topic: topic.into(),
                queue,
                run: 1,
            };
            let Ok(Answer::CheckQueue(sums)) = ask(&inspector, &golden.root, check) else {
                panic!("{name}")
            };
            assert!(sums.over && sums.wrong() == 0, "{name}: {sums:?}");
            assert_eq!(i64::try_from(sums.agree).ok(), max, "{name}");
        }
    }
}

#[test]
fn positions_and_read_queues_come_from_the_tables() {
    let golden = Golden::without_wheel("basic");
    let Ok(Answer::Topic(topic)) = ask(
        &Inspector::default(),
        &golden.root,
        What::Topic("g_basic_a".into()),
    ) else {
        panic!()
    };
    assert_eq!(topic.read_queues, Some(4));
    assert_eq!(topic.queues.len(), 4);
    let told = topic.positions.as_ref().expect("they are known");
    let positions = &told.groups["g_group_one"];
    assert_eq!(
        positions.iter().map(|(q, o)| (*q, *o)).collect::<Vec<_>>(),
        [(0, 10), (1, 20), (2, 30), (3, 40)]
    );
    assert!(topic.queues.iter().all(|line| (line.min, line.max) == (0, 225)));
}

#[test]
fn a_survey_adds_up_to_javas_headers() {
    let golden = Golden::without_wheel("basic");
    let inspector = Inspector::default();
    let Ok(Answer::Index(files)) = ask(&inspector, &golden.root, What::Index) else {
        panic!()
    };
    let expected = golden.expect["indexFilesBeforeLoad"].as_array().expect("files");
    assert_eq!(files.len(), expected.len());
    for (file, expected) in files.iter().zip(expected) {
        assert_eq!(file.name, expected["name"]);
        assert_eq!(
            file.slots,
            (expected["hashSlotCount"].as_i64().unwrap(), Some(200))
        );
        let items = expected["indexCount"].as_u64().unwrap() - 1;
        let survey = What::Survey {
            file: file.name.clone(),
            run: 0,
        };
        let Ok(Answer::Survey(seen)) = ask(&inspector, &golden.root, survey) else {
            panic!()
        };
        let survey = seen.survey.expect("it is over");
        assert_eq!((survey.items, survey.broken, survey.disordered), (items, 0, 0));
        let cells = survey.cells.iter().fold((0, 0, 0), |sum, cell| {
            (sum.0 + cell.slots, sum.1 + cell.used, sum.2 + cell.items)
        });
        assert_eq!(cells, (200, survey.used, items));
        let chains = survey.lengths.iter().enumerate();
        assert_eq!(
            chains.map(|(n, chains)| (n as u64 + 1) * chains).sum::<u64>(),
            items
        );
        assert_eq!(survey.lengths.iter().sum::<u64>(), survey.used);
        assert_eq!(survey.length_of(1000), survey.longest() as usize);
        // The longest chain is as long as a walk along it.
        let hot = &seen.hot[0];
        assert_eq!(
            (hot.items, hot.walked),
            (survey.longest(), u64::from(survey.longest()))
        );
        let slot = What::Slot {
            file: file.name.clone(),
            slot: hot.slot,
        };
        let Ok(Answer::Slot(chain)) = ask(&inspector, &golden.root, slot) else {
            panic!()
        };
        assert_eq!((chain.walk.walked, chain.walk.broken), (hot.walked, None));
    }
}

#[test]
fn a_key_leads_to_the_records_that_have_it() {
    let golden = Golden::without_wheel("basic");
    let inspector = Inspector::default();
    for query in golden.expect["indexQueries"].as_array().expect("queries") {
        let (topic, key) = (query["topic"].as_str().unwrap(), query["key"].as_str().unwrap());
        let what = What::Key {
            topic: Some(topic.into()),
            key: key.into(),
        };
        let Ok(Answer::Key(found)) = ask(&inspector, &golden.root, what) else {
            panic!()
        };
        assert_eq!(
            found.hash.map(i64::from),
            query["keyHash"].as_i64(),
            "{topic}#{key}"
        );
        let mut hits: Vec<i64> = found
            .chains
            .iter()
            .flat_map(|chain| &chain.walk.items)
            .filter(|item| matches!(item.verdict, Found::Hit | Found::OtherKey))
            .map(|item| item.at)
            .collect();
        hits.sort_unstable();
        let expected: Vec<i64> = query["hits"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|hit| hit.as_i64())
            .collect();
        // Java stops at maxNum and at a time; what it found is among ours.
        assert!(
            expected.iter().all(|hit| hits.contains(hit)),
            "{topic}#{key}: {hits:?} {expected:?}"
        );
    }
    // Without a topic every topic is tried.
    let what = What::Key {
        topic: None,
        key: "k7".into(),
    };
    let Ok(Answer::Key(found)) = ask(&inspector, &golden.root, what) else {
        panic!()
    };
    assert_eq!((found.text.as_str(), found.hits), ("g_basic_a#k7", 1));
}

#[test]
fn the_checkpoint_and_a_verification_of_a_whole_store() {
    let golden = Golden::without_wheel("basic");
    let inspector = Inspector::default();
    let Ok(Answer::Checks(checks)) = ask(&inspector, &golden.root, What::Checks) else {
        panic!()
    };
    let expected = &golden.expect["checkpointBeforeLoad"];
    let checkpoint = checks.checkpoint.expect("there is one");
    assert_eq!(
        Some(checkpoint.physic_msg_timestamp),
        expected["physicMsgTimestamp"].as_i64()
    );
    let newest = golden.records().last().expect("a record");
    assert_eq!(checks.newest_ms, newest["storeTimestamp"].as_i64());
    let end = checks.recovery.and_then(|recovery| recovery.end);
    assert_eq!(end, golden.expect["afterLoad"]["maxPhyOffset"].as_u64());
    assert_eq!(end, Some(end_of(&inspector, &golden.root)));
    let verify = What::Verify {
        full: true,
        anew: false,
        limit: None,
        run: 1,
    };
    let Ok(Answer::Verify(seen)) = ask(&inspector, &golden.root, verify) else {
        panic!()
    };
    let report = seen.report.expect("it is over");
    assert_eq!(report.records, golden.records().count() as u64);
    assert_eq!((report.errors, report.stopped), (0, false), "{:?}", seen.findings);
    assert!(
        seen.passes
            .iter()
            .all(|(progress, _)| progress.done == progress.total)
    );
}

#[test]
fn damage_is_told_apart() {
    use std::os::unix::fs::FileExt as _;
    let golden = Golden::without_wheel("crashed");
    let records: Vec<u64> = golden.records().map(|r| r["offset"].as_u64().unwrap()).collect();
    let file = std::fs::File::options()
        .write(true)
        .open(golden.root.join("commitlog/00000000000000000000"))
        .unwrap();
    // Length word, magic word, a byte of the body, a whole record, the offset it was stored at.
    file.write_all_at(&[0x7F], records[10]).unwrap();
    file.write_all_at(&[0], records[20] + 4).unwrap();
    file.write_all_at(b"\xFF\xFE", records[30] + 90).unwrap();
    let len = usize::try_from(records[41] - records[40]).unwrap();
    file.write_all_at(&vec![0; len], records[40]).unwrap();
    file.write_all_at(&[9], records[50] + 35).unwrap();
    let page = log(&Inspector::default(), &golden.root, At::Oldest, None);
    let damaged: Vec<(u64, &str)> = page
        .rows
        .iter()
        .filter_map(|row| match row.kind {
            Kind::Damage(what) => Some((row.at, what)),
            _ => None,
        })
        .collect();
    assert_eq!(
        damaged,
        [
            (records[10], "BAD SIZE"),
            (records[20], "BAD MAGIC"),
            (records[30], "BAD CRC"),
            (records[40], "HOLE"),
            (records[50], "MISPLACED"),
        ]
    );
    for (n, at) in [(10, records[10]), (20, records[20]), (40, records[40])] {
        let Ok(Answer::Record(view)) = ask(&Inspector::default(), &golden.root, What::Record(at)) else {
            panic!()
        };
        assert_eq!(view.len, records[n + 1] - at);
        assert!(!view.bytes.is_empty() && view.fields.is_empty() && !view.note.is_empty());
    }
    // The record behind a wrong checksum shows all its fields all the same.
    let Ok(Answer::Record(view)) = ask(&Inspector::default(), &golden.root, What::Record(records[30])) else {
        panic!()
    };
    assert!(view.fields.iter().any(|field| field.name == "bodyCRC"));
}

#[test]
fn a_directory_that_is_no_store_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let why = ask(&Inspector::default(), dir.path(), What::Glance).expect_err("it is empty");
    assert!(why.contains("is no store"), "{why}");
    let gone = dir.path().join("gone");
    assert!(ask(&Inspector::default(), &gone, What::Glance).is_err());
}

#[test]
fn a_verification_stops_when_asked() {
    let golden = Golden::without_wheel("basic");
    let stop = AtomicBool::new(true);
    let question = Question {
        root: golden.root.clone(),
        commit_log: None,
        what: What::Verify {
            full: true,
            anew: false,
            limit: Some(1),
            run: 1,
        },
    };
    let mut told = 0;
    let mut tell = |_| told += 1;
    let Ok(Answer::Verify(seen)) = Inspector::default().answer(&question, &mut Asker::new(&mut tell, &stop))
    else {
        panic!()
    };
    assert!(seen.report.is_some_and(|report| report.stopped));
    assert!(told > 0);
}

fn end_of(inspector: &Inspector, root: &Path) -> u64 {
    match ask(inspector, root, What::Glance) {
        Ok(Answer::Glance(glance)) => glance.end,
        other => panic!("{other:?}"),
    }
}

/// Zeros from an offset on to the end of its file, and no file behind it, as a truncation leaves them.
fn cut(root: &Path, at: u64) {
    const FILE: u64 = 1024 * 1024;
    for file in std::fs::read_dir(root.join("commitlog")).unwrap() {
        let path = file.unwrap().path();
        let base: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        if base > at {
            std::fs::remove_file(path).unwrap();
        }
    }
    let path = root.join(format!("commitlog/{:020}", at / FILE * FILE));
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(at % FILE).unwrap();
    file.set_len(FILE).unwrap();
}

#[test]
fn the_end_of_a_log_that_was_cut_is_looked_for_anew() {
    let golden = Golden::without_wheel("basic");
    let inspector = Inspector::default();
    let records: Vec<u64> = golden.records().map(|r| r["offset"].as_u64().unwrap()).collect();
    let end = golden.expect["afterLoad"]["maxPhyOffset"].as_u64();
    assert_eq!(Some(end_of(&inspector, &golden.root)), end);
    assert_eq!(Some(end_of(&inspector, &golden.root)), end, "as remembered");
    for back in [3, 8] {
        let at = records[records.len() - back];
        cut(&golden.root, at);
        assert_eq!(end_of(&inspector, &golden.root), at);
        let newest = log(&inspector, &golden.root, At::Newest, None);
        assert_eq!(newest.focus, Some(records[records.len() - back - 1]));
        assert_eq!(
            newest.rows.last().map(|row| (row.at, row.kind)),
            Some((at, Kind::Tail))
        );
    }
}

/// The number in the slot of a key's chain leads nowhere, in the file that has the key.
pub fn break_chain(golden: &Golden, topic: &str, key: &str) {
    use std::os::unix::fs::FileExt as _;
    let what = What::Key {
        topic: Some(topic.into()),
        key: key.into(),
    };
    let Ok(Answer::Key(found)) = ask(&Inspector::default(), &golden.root, what) else {
        panic!()
    };
    assert_eq!((found.cut, found.skipped.len()), (0, 0));
    for chain in found.chains.iter().filter(|chain| chain.walk.sums.1 > 0) {
        let file = std::fs::File::options()
            .write(true)
            .open(golden.root.join("index").join(&chain.file))
            .unwrap();
        // Behind a header of 40 bytes four for each slot.
        let at = 40 + u64::from(chain.walk.slot) * 4;
        file.write_all_at(&i32::MAX.to_be_bytes(), at).unwrap();
    }
}

#[test]
fn a_chain_that_is_broken_is_no_proof_that_a_key_is_not_there() {
    let golden = Golden::without_wheel("basic");
    break_chain(&golden, "g_basic_a", "k7");
    for topic in [Some("g_basic_a".to_owned()), None] {
        let what = What::Key {
            topic,
            key: "k7".into(),
        };
        let Ok(Answer::Key(found)) = ask(&Inspector::default(), &golden.root, what) else {
            panic!()
        };
        assert_eq!(found.hits, 0);
        assert!(found.cut >= 1, "{found:?}");
    }
}

#[test]
fn nothing_is_read_for_one_who_is_gone() {
    let golden = Golden::without_wheel("basic");
    let stop = AtomicBool::new(true);
    for what in [What::Glance, What::Checks, What::Topic("g_basic_a".into())] {
        let question = Question {
            root: golden.root.clone(),
            commit_log: None,
            what,
        };
        let why = Inspector::default()
            .answer(&question, &mut Asker::new(&mut |_| {}, &stop))
            .expect_err("nobody waits");
        assert!(why.contains("nobody waits"), "{why}");
    }
}

fn verified(inspector: &Inspector, root: &Path, full: bool) -> Verifying {
    let what = What::Verify {
        full,
        anew: false,
        limit: None,
        run: 1,
    };
    match ask(inspector, root, what) {
        Ok(Answer::Verify(seen)) => *seen,
        other => panic!("{other:?}"),
    }
}

fn kept(inspector: &Inspector, root: &Path) -> Option<u64> {
    match ask(inspector, root, What::Kept { run: 1 }) {
        Ok(Answer::Kept(kept)) => kept.map(|kept| kept.at),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_verification_goes_on_where_another_program_was_stopped() {
    let store = sparse_store(true);
    let dir = tempfile::tempdir().unwrap();
    let inspector = Inspector::noting_in(Some(dir.path().to_owned()));
    let whole = verified(&Inspector::default(), store.path(), true);
    assert_eq!(whole.resumed, None);
    assert_eq!(kept(&inspector, store.path()), None);
    // As `rmq store verify` leaves it when it is stopped at the damage of the second segment.
    let state = state_file(dir.path(), store.path()).expect("outside the store");
    let options = Options {
        threads: Some(1),
        state: Some(&state),
        ..Options::from(Depth::Full)
    };
    assert!(run_until(store.path(), options, 2).0.stopped);
    assert_eq!(kept(&inspector, store.path()), Some(SEGMENT));
    // A quick one has nothing to do with it.
    assert_eq!(verified(&inspector, store.path(), false).resumed, None);
    assert_eq!(kept(&inspector, store.path()), Some(SEGMENT));
    let rest = verified(&inspector, store.path(), true);
    let from = rest.resumed.expect("it goes on");
    assert_eq!(from.at, SEGMENT);
    let now = rmq::client::time::now_ms();
    let of = from.of_ms.expect("the time of the earlier run");
    assert!((now - 600_000..=now).contains(&of), "{of}");
    assert_eq!((&rest.findings, &rest.counts), (&whole.findings, &whole.counts));
    let records = |seen: &Verifying| seen.report.as_ref().map(|report| (report.records, report.errors));
    assert_eq!(records(&rest), records(&whole));
    assert_eq!(rest.report.and_then(|report| report.resumed_at), Some(SEGMENT));
    assert_eq!(kept(&inspector, store.path()), None, "it is through");
    assert!(!state.exists());
}

#[test]
fn a_verification_that_was_stopped_gives_its_state_file_back() {
    let store = sparse_store(true);
    let dir = tempfile::tempdir().unwrap();
    let inspector = Inspector::noting_in(Some(dir.path().to_owned()));
    let question = Question {
        root: store.path().to_owned(),
        commit_log: None,
        what: What::Verify {
            full: true,
            anew: false,
            limit: None,
            run: 1,
        },
    };
    let stop = AtomicBool::new(true);
    let Ok(Answer::Verify(seen)) = inspector.answer(&question, &mut Asker::new(&mut |_| {}, &stop)) else {
        panic!()
    };
    assert_eq!(seen.ended, Some(Ended::Stopped));
    assert_eq!(
        kept(&inspector, store.path()),
        None,
        "it was through with nothing"
    );
    let seen = verified(&inspector, store.path(), true);
    // Three records, and the three entries that lead to them.
    assert_eq!((seen.ended, seen.findings.len()), (Some(Ended::Complete), 6));
    // Where there is no place for a file, there is nothing to go on with.
    let inside = Inspector::noting_in(Some(store.path().to_owned()));
    assert_eq!(verified(&inside, store.path(), true).ended, Some(Ended::Complete));
    assert_eq!(std::fs::read_dir(store.path()).unwrap().count(), 3);
}

#[test]
fn two_verifications_never_write_one_state_file() {
    let store = sparse_store(false);
    let dir = tempfile::tempdir().unwrap();
    let inspector = Inspector::noting_in(Some(dir.path().to_owned()));
    let root = store.path();
    // One after the other, both are whole.
    std::thread::scope(|scope| {
        let runs = [(), ()].map(|()| scope.spawn(|| verified(&inspector, root, true)));
        for run in runs {
            let seen = run.join().expect("it ends");
            assert_eq!((seen.ended, seen.resumed), (Some(Ended::Complete), None));
        }
    });
}
