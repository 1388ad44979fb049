//! `rmq store verify`: what it finds that a look at single files would not, and how a long run is interrupted and
//! slowed.

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rmq::inspect::{self, Depth, Finding, Options, Severity, Store};
use rmq::protocol::message::{NewMessage, Stamp, encode_blank};
use rmq::protocol::model::SysFlag;

/// Bytes of a segment: one piece of a run.
pub const SEGMENT: u64 = 64 * 1024 * 1024;
/// Bytes of a queue file.
const QUEUE_FILE: usize = 20_000;

/// A golden store that may be changed.
fn unpack(name: &str) -> (tempfile::TempDir, PathBuf) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stores");
    let path = golden.join(format!("{name}.tar.zst"));
    let tarball = zstd::stream::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut archive = tar::Archive::new(&tarball[..]);
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if !entry.path().unwrap().ends_with("timerwheel") {
            entry.unpack_in(dir.path()).unwrap();
        }
    }
    let root = dir.path().join(name);
    (dir, root)
}

fn run(root: &Path, options: Options<'_>) -> (inspect::Report, Vec<Finding>) {
    run_until(root, options, usize::MAX)
}

pub fn run_until(root: &Path, options: Options<'_>, most: usize) -> (inspect::Report, Vec<Finding>) {
    let store = Store::open(root, None).unwrap();
    let mut found = Vec::new();
    let report = inspect::verify(
        &store,
        options,
        &mut |finding| {
            found.push(finding);
            if found.len() < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        },
        &mut |_| true,
    )
    .unwrap();
    (report, found)
}

fn flip(path: &Path, at: u64) {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn only_file(dir: &Path) -> PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files.swap_remove(0)
}

#[test]
fn a_record_whose_item_is_gone_is_named() {
    let (_dir, root) = unpack("basic");
    let store = Store::open(&root, None).unwrap();
    let index = store.index().unwrap();
    let file = &index.files()[0];
    let shape = file.shape().unwrap();
    let item = file.item(shape, 2).unwrap();
    // Another hash: the key of the record leads to nothing, and the item leads to a record without such a key.
    flip(file.path(), shape.item_at(2) as u64 + 3);
    let (report, found) = run(&root, Depth::Full.into());
    let codes: Vec<_> = found.iter().map(|f| f.code).collect();
    assert!(codes.contains(&"index-other-record"), "{found:#?}");
    let missing = found.iter().find(|f| f.code == "not-indexed").unwrap();
    assert_eq!(missing.offset, u64::try_from(item.offset).ok());
    assert_eq!(missing.len, Some(1));
    assert_eq!(missing.severity, Severity::Warning);
    assert!(report.items > 0);
}

#[test]
fn a_changed_property_is_found_by_the_checksum_of_the_record() {
    let (_dir, root) = unpack("crcprop");
    let store = Store::open(&root, None).unwrap();
    let log = store.log().unwrap();
    let record = log
        .walk(log.start(), true)
        .find_map(|step| match step {
            inspect::Step::Message { record, .. } => Some(record),
            _ => None,
        })
        .unwrap();
    // The born time: no other check looks at it.
    let at = record.at + 40;
    let file = log.file_of(at).unwrap();
    flip(&file.path, at + 7 - file.base);
    let (report, found) = run(&root, Depth::Full.into());
    assert_eq!(report.errors, 1, "{found:#?}");
    assert_eq!(
        (found[0].code, found[0].offset),
        ("record-checksum", Some(record.at))
    );
}

/// Three sparse segments of three records each, in one queue; when `damaged`, the body of the first record of each is.
pub fn sparse_store(damaged: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (log, queue) = (dir.path().join("commitlog"), dir.path().join("consumequeue/t/0"));
    std::fs::create_dir_all(&log).unwrap();
    std::fs::create_dir_all(&queue).unwrap();
    let mut entries = Vec::new();
    for segment in 0..3u64 {
        let base = segment * SEGMENT;
        let path = log.join(format!("{base:020}"));
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(SEGMENT).unwrap();
        let mut at = 0u64;
        for n in 0..3 {
            let message = NewMessage {
                topic: "t".into(),
                queue_id: 0,
                flag: 0,
                sys_flag: SysFlag(0),
                born_timestamp: 1,
                born_host: ([127, 0, 0, 1], 1).into(),
                store_host: ([127, 0, 0, 1], 2).into(),
                reconsume_times: 0,
                prepared_transaction_offset: 0,
                body: Bytes::from_static(b"0123456789"),
                properties: String::new(),
            };
            let stamp = Stamp {
                queue_offset: i64::try_from(segment * 3 + n).unwrap(),
                physical_offset: i64::try_from(base + at).unwrap(),
                store_timestamp: 5,
            };
            let record = message.to_vec(stamp).unwrap();
            file.write_all_at(&record, at).unwrap();
            entries.extend((base + at).to_be_bytes());
            entries.extend(u32::try_from(record.len()).unwrap().to_be_bytes());
            entries.extend(0u64.to_be_bytes());
            if n == 0 && damaged {
                flip(&path, 88);
            }
            at += record.len() as u64;
        }
        if segment < 2 {
            let mut filler = vec![0; usize::try_from(SEGMENT - at).unwrap()];
            encode_blank(&mut filler);
            file.write_all_at(&filler[..8], at).unwrap();
        }
    }
    entries.resize(QUEUE_FILE, 0);
    std::fs::write(queue.join(format!("{:020}", 0)), entries).unwrap();
    std::fs::write(dir.path().join("checkpoint"), vec![0; 4096]).unwrap();
    dir
}

#[test]
fn an_interrupted_run_is_resumed_with_the_same_outcome() {
    let store = sparse_store(true);
    let state_dir = tempfile::tempdir().unwrap();
    let state = state_dir.path().join("deep/state.jsonl");
    let (whole, all) = run(store.path(), Depth::Full.into());
    let damaged: Vec<_> = all
        .iter()
        .filter(|f| f.code == "damaged-record")
        .map(|f| f.offset)
        .collect();
    assert_eq!(damaged, [Some(0), Some(SEGMENT), Some(2 * SEGMENT)]);
    let options = |resume| Options {
        threads: Some(1),
        state: Some(&state),
        resume,
        ..Options::from(Depth::Full)
    };
    // The second finding is of the second segment.
    let (report, first) = run_until(store.path(), options(false), 2);
    assert!(report.stopped && state.exists());
    assert_eq!(first, all[..2]);
    // A cut line is as good as none.
    let text = std::fs::read(&state).unwrap();
    std::fs::write(&state, [&text[..], b"{\"finding\":{"].concat()).unwrap();
    let (report, found) = run(store.path(), options(true));
    assert_eq!(report.resumed_at, Some(SEGMENT));
    assert_eq!(found, all);
    assert_eq!((report.records, report.errors), (whole.records, whole.errors));
    assert!(!state.exists());
}

#[test]
fn a_run_does_not_go_on_where_the_files_have_changed() {
    let store = sparse_store(true);
    let state_dir = tempfile::tempdir().unwrap();
    let state = state_dir.path().join("state.jsonl");
    let options = |resume| Options {
        threads: Some(1),
        state: Some(&state),
        resume,
        ..Options::from(Depth::Full)
    };
    assert!(run_until(store.path(), options(false), 2).0.stopped);
    let (report, _) = run_until(store.path(), options(false), 1);
    assert!(report.could_resume);
    flip(&only_file(&store.path().join("commitlog")), 89);
    let (report, found) = run(store.path(), options(true));
    assert_eq!(report.resumed_at, None);
    assert_eq!(found.iter().filter(|f| f.code == "damaged-record").count(), 3);
}

#[test]
fn two_passes_on_one_state_file_do_not_add_up() {
    let store = sparse_store(true);
    let (whole, all) = run(store.path(), Depth::Full.into());
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.jsonl");
    let options = |resume| Options {
        threads: Some(1),
        state: Some(&state),
        resume,
        ..Options::from(Depth::Full)
    };
    assert!(run_until(store.path(), options(false), 2).0.stopped);
    // As two programs without a lock left it: the same piece twice, each with its sums.
    let text = std::fs::read_to_string(&state).unwrap();
    let (head, pieces) = text.split_once('\n').unwrap();
    std::fs::write(&state, format!("{head}\n{pieces}{pieces}")).unwrap();
    let (report, found) = run(store.path(), options(true));
    assert_eq!((found, report.errors), (all.clone(), whole.errors));
    assert_eq!((report.records, report.entries), (whole.records, whole.entries));
    // While another program holds it, nobody goes on with it, writes it or takes it away.
    std::fs::write(&state, &text).unwrap();
    let held = std::fs::File::open(&state).unwrap();
    held.lock().unwrap();
    let opened = rmq::inspect::Store::open(store.path(), None).unwrap();
    let refused = rmq::inspect::verify(
        &opened,
        options(true),
        &mut |_| std::ops::ControlFlow::Continue(()),
        &mut |_| true,
    );
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("in use by another verification")
    );
    let (report, found) = run(store.path(), options(false));
    assert_eq!((found, report.stopped), (all, false));
    assert_eq!(std::fs::read_to_string(&state).unwrap(), text);
}

#[test]
fn records_without_entries_are_one_finding_across_segments() {
    let store = sparse_store(false);
    let queue = only_file(&store.path().join("consumequeue/t/0"));
    let mut bytes = std::fs::read(&queue).unwrap();
    bytes[20..].fill(0);
    std::fs::write(&queue, bytes).unwrap();
    let (_, found) = run(store.path(), Depth::Full.into());
    let missing: Vec<_> = found.iter().filter(|f| f.code == "missing-entry").collect();
    assert_eq!(
        missing.iter().map(|f| (f.offset, f.len)).collect::<Vec<_>>(),
        [(Some(1), Some(8))]
    );
}
