//! Ctrl-C: a pass ends at the next record, prints what it has, and the program ends with code 130.
//!
//! A pass that does not look is ended after a moment: nothing that is read here is left half done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cli::exit::{self, Failure};

static ASKED: AtomicBool = AtomicBool::new(false);
/// Set while something is written that must not be left half done.
static IN_CHANGE: AtomicBool = AtomicBool::new(false);

/// How long a pass may take to its next record.
const GRACE: Duration = Duration::from_secs(1);

/// Begins to listen for Ctrl-C. Without a listener the signal ends the program as usual.
pub fn watch() {
    let listen = || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            ASKED.store(true, Ordering::Relaxed);
            tokio::select! {
                () = tokio::time::sleep(GRACE) => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            // What was begun is brought to an end; a change is short.
            while IN_CHANGE.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            std::process::exit(exit::INTERRUPTED.into());
        });
    };
    // Without a thread to spare Ctrl-C still works, only less politely.
    let _ = std::thread::Builder::new()
        .name("rmq-signal".into())
        .spawn(listen);
}

/// True when the operator wants it to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// A failure with code 130 when the operator wanted it to end; `reached` says how far it came.
pub fn check(reached: &str) -> Result<(), Failure> {
    if asked() { Err(failure(reached)) } else { Ok(()) }
}

/// The failure of an interrupted command.
pub fn failure(reached: &str) -> Failure {
    Failure::new(exit::INTERRUPTED, format!("interrupted; {reached}"))
}

/// Keeps the program from ending in the middle of a change.
#[derive(Debug)]
pub struct Change(());

impl Change {
    /// Begins one.
    pub fn begin() -> Self {
        IN_CHANGE.store(true, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        IN_CHANGE.store(false, Ordering::Relaxed);
    }
}
