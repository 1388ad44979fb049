//! The program on a store, in a terminal, without any network.

use crate::inspect::hashes;
use crate::inspect_cli::Golden;
use crate::tui::program::Program;

#[test]
fn a_store_is_looked_into_without_any_network() {
    let golden = Golden::without_wheel("basic");
    let before = hashes(&golden.root);
    let mut program = Program::of(&["--store", golden.root.to_str().expect("a path")]);
    program.shows("no network");
    program.shows("READ-ONLY, no broker runs");
    program.press("\x1b[H");
    // The first record, and what it says.
    program.shows("commitlog > 0");
    let first = golden.records().next().expect("a record");
    program.shows(first["topic"].as_str().expect("a topic"));
    program.shows("MAGICCODE");
    program.shows("0000▸");
    program.press("q");
    program.shows("ConsumeQueue");
    program.press("V");
    program.shows("nothing is wrong");
    program.press("\x03");
    assert!(program.ends().0);
    assert_eq!(hashes(&golden.root), before, "looking changed the store");
}

#[test]
fn a_directory_that_is_no_store_is_refused_before_the_terminal_is_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Program::of(&["--store", dir.path().to_str().expect("a path")]);
    program.shows("is no store");
    assert!(!program.ends().0);
}
