use std::path::Path;

use super::*;

fn queue(dir: &Path, state: Recovered) -> ConsumeQueue {
    let name = QueueName {
        topic: "t".into(),
        queue_id: 0,
    };
    // Five entries a segment.
    ConsumeQueue::new(name, dir.join("t/0"), 100, Arc::new(Maps::default()), state)
}

fn entry(n: i64) -> Entry {
    Entry {
        offset: 1000 + n * 10,
        size: 10,
        tags_code: n,
    }
}

#[test]
fn entries_are_read_back_across_segments_and_after_letting_go() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    for n in 0..12 {
        assert_eq!(queue.push(n, entry(n)).unwrap(), Pushed::New);
    }
    assert_eq!(queue.push(3, entry(3)).unwrap(), Pushed::Repeated);
    assert_eq!((queue.min(), queue.max(), queue.max_physic()), (0, 12, 1120));
    for hard in [false, true] {
        let found: Vec<_> = (0..12).map(|n| queue.entry(n).unwrap().tags_code).collect();
        assert_eq!(found, (0..12).collect::<Vec<_>>());
        assert_eq!(queue.run(3).unwrap().bytes().len(), 2 * LEN);
        assert_eq!(queue.run(10).unwrap().bytes().len(), 2 * LEN);
        assert!(queue.entry(12).is_none() && queue.entry(-1).is_none());
        queue.let_go(hard);
    }
    assert_eq!(queue.maps.count(), 0);
    queue.push(12, entry(12)).unwrap();
    assert_eq!(queue.entry(12).unwrap(), entry(12));
    queue.flush().unwrap();
    assert_eq!(queue.dirty_bytes(), 0);
    assert_eq!(queue.next_segment(7), 10);
}

#[test]
fn a_queue_that_begins_late_is_filled_with_blanks() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    queue.push(7, entry(7)).unwrap();
    assert_eq!((queue.min(), queue.max()), (7, 8));
    assert_eq!(queue.entry(5).unwrap(), Entry::BLANK);
    assert!(queue.entry(4).is_none());
    queue.correct_min(0).unwrap();
    assert_eq!(queue.min(), 7);
    queue.push(9, entry(9)).unwrap();
    assert_eq!(queue.entry(8).unwrap(), Entry::BLANK);
    assert_eq!(queue.entry(9).unwrap(), entry(9));
}

#[test]
fn blanks_in_the_middle_mislead_neither_minimum_nor_expiry() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    queue.push(0, entry(0)).unwrap();
    queue.push(1, entry(1)).unwrap();
    // Entries 2 to 6 are lost, the last three places of the first segment among them.
    queue.push(7, entry(7)).unwrap();
    assert_eq!(queue.expire(1010).unwrap(), 0);
    assert_eq!((queue.min(), queue.max()), (1, 8));
    assert_eq!(queue.expire(1020).unwrap(), 1);
    assert_eq!((queue.min(), queue.max()), (7, 8));
}

#[test]
fn entries_that_cannot_be_read_now_are_neither_deleted_nor_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    for n in 0..12 {
        queue.push(n, entry(n)).unwrap();
    }
    queue.let_go(true);
    // Stands for a process that has no descriptor left.
    let (all, away) = (dir.path().join("t/0"), dir.path().join("t/away"));
    std::fs::rename(&all, &away).unwrap();
    assert!(queue.expire(1030).is_err());
    assert!(queue.correct_min(1030).is_err());
    assert!(queue.truncate(1030).is_err());
    std::fs::rename(&away, &all).unwrap();
    assert_eq!((queue.min(), queue.max()), (0, 12));
    assert_eq!(queue.expire(1030).unwrap(), 0);
    assert_eq!((queue.min(), queue.max()), (3, 12));
    assert_eq!(queue.entry(11).unwrap(), entry(11));
}

#[test]
fn a_queue_that_begins_late_begins_again_after_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    // What a disk that filled up at the second blank leaves.
    queue.write(&mut queue.files(), 5, Entry::BLANK).unwrap();
    queue.push(7, entry(7)).unwrap();
    assert_eq!((queue.min(), queue.max()), (7, 8));
    assert_eq!(queue.entry(7).unwrap(), entry(7));
    assert_eq!(std::fs::read_dir(dir.path().join("t/0")).unwrap().count(), 1);
}

#[test]
fn expiry_keeps_the_last_segment_and_the_number() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    for n in 0..12 {
        queue.push(n, entry(n)).unwrap();
    }
    assert_eq!(queue.expire(1070).unwrap(), 1);
    assert_eq!((queue.min(), queue.max()), (7, 12));
    assert_eq!(queue.expire(5000).unwrap(), 1);
    assert_eq!((queue.min(), queue.max()), (12, 12));
    assert!(queue.entry(11).is_some());
    queue.push(12, entry(500)).unwrap();
    queue.correct_min(5000).unwrap();
    assert_eq!((queue.min(), queue.max()), (12, 13));
}

#[test]
fn a_cut_queue_does_not_see_its_old_entries_again() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    for n in 0..12 {
        queue.push(n, entry(n)).unwrap();
    }
    queue.truncate(1030).unwrap();
    assert_eq!((queue.max(), queue.max_physic()), (3, 1030));
    assert_eq!(std::fs::read_dir(dir.path().join("t/0")).unwrap().count(), 1);
    queue.push(3, entry(3)).unwrap();
    let bytes = std::fs::read(dir.path().join("t/0").join(file_name::segment(0))).unwrap();
    assert_eq!(bytes[80..], [0; 20]);
    queue.truncate(0).unwrap();
    assert_eq!((queue.min(), queue.max()), (0, 0));
    assert_eq!(std::fs::read_dir(dir.path().join("t/0")).unwrap().count(), 0);
}

#[test]
fn the_bell_tells_of_entries_before_and_after_it_was_hung() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    queue.push(0, entry(0)).unwrap();
    let mut bell = queue.bell();
    assert_eq!(*bell.borrow_and_update(), 1);
    queue.push(1, entry(1)).unwrap();
    queue.ring();
    assert!(bell.has_changed().unwrap());
    assert_eq!(*bell.borrow_and_update(), 2);
}

#[test]
fn a_deleted_queue_leaves_nothing_and_takes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    queue.push(0, entry(0)).unwrap();
    queue.delete().unwrap();
    assert_eq!(queue.push(1, entry(1)).unwrap(), Pushed::Repeated);
    assert!(queue.entry(0).is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn recovery_is_told_of_missing_entries_and_mends_wrong_ones() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path(), Recovered::default());
    let replay = |n, fill| queue.replay(n, entry(n), fill, |_| false).unwrap();
    assert_eq!(replay(3, false), Replayed::Missing { from_start: false });
    for n in 0..7 {
        assert_eq!(replay(n, false), Replayed::Written);
    }
    assert_eq!(replay(9, false), Replayed::Missing { from_start: false });
    assert_eq!(replay(9, true), Replayed::Written);
    assert_eq!(queue.entry(8).unwrap(), Entry::BLANK);
    // A blank gives way to its record, one that is right stays, and one that is wrong does not.
    assert_eq!(replay(8, false), Replayed::Mended);
    assert_eq!(queue.entry(8).unwrap(), entry(8));
    assert_eq!(replay(8, false), Replayed::Known);
    assert_eq!(
        queue.replay(2, entry(1), false, |_| true).unwrap(),
        Replayed::Known
    );
    assert_eq!(
        queue.replay(2, entry(1), false, |_| false).unwrap(),
        Replayed::Mended
    );
    assert_eq!(queue.entry(2).unwrap(), entry(1));
    queue.flush().unwrap();
    queue.reset().unwrap();
    assert_eq!((queue.min(), queue.max(), queue.max_physic()), (0, 0, 0));
    assert_eq!(std::fs::read_dir(dir.path().join("t/0")).unwrap().count(), 0);
    assert_eq!(replay(0, false), Replayed::Written);
    // A queue whose first file is gone is told from its start.
    let late = Recovered {
        bases: vec![100],
        min: 5,
        max: 5,
        max_physic: 1050,
        flushed: 5,
    };
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(other.path().join("t/0")).unwrap();
    std::fs::write(other.path().join("t/0").join(file_name::segment(100)), [0; 100]).unwrap();
    let queue = self::queue(other.path(), late);
    let told = queue.replay(4, entry(4), false, |_| false).unwrap();
    assert_eq!(told, Replayed::Missing { from_start: true });
}
