//! The acceptance checks of the command line: against Java's cluster and against our own, by commands one after the other.

mod commands;
mod doctor;
mod golden;
mod parity;
mod resets;
mod signing;
mod static_topics;
mod unsupported;

use std::fmt::Write as _;

use crate::support::loud;

/// Checks of one test: all are made, each is a line (at once with RMQ_ACCEPTANCE_LINES), and the test fails at the end.
pub struct Checks {
    title: String,
    lines: String,
    passed: usize,
    failed: usize,
}

impl Checks {
    pub fn new(title: &str) -> Checks {
        Checks {
            title: title.to_owned(),
            lines: String::new(),
            passed: 0,
            failed: 0,
        }
    }

    /// Notes a check, with what was wrong.
    pub fn check(&mut self, what: &str, wrong: Result<(), String>) {
        let line = match wrong {
            Ok(()) => {
                self.passed += 1;
                format!("PASS {what}")
            }
            Err(why) => {
                self.failed += 1;
                format!("FAIL {what}: {why}")
            }
        };
        if std::env::var_os("RMQ_ACCEPTANCE_LINES").is_some() {
            loud(&line);
        }
        let _ = writeln!(self.lines, "{line}");
    }

    /// Prints all, and fails the test when one failed.
    pub fn end(self) {
        let text = format!(
            "{}\n{}{} passed, {} failed",
            self.title, self.lines, self.passed, self.failed
        );
        if std::env::var_os("RMQ_ACCEPTANCE_LINES").is_some() {
            loud(&format!(
                "{}: {} passed, {} failed",
                self.title, self.passed, self.failed
            ));
        }
        assert!(self.failed == 0, "{text}");
    }
}

/// `left` and `right` are the same.
pub fn same<T: PartialEq + std::fmt::Debug>(left: &T, right: &T) -> Result<(), String> {
    if left == right {
        return Ok(());
    }
    Err(format!("\n    want {right:?}\n    have {left:?}"))
}
