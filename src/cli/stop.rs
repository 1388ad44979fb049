//! How a command ends before its end: `--deadline`, and Ctrl-C.
//!
//! Until a change is agreed to, Ctrl-C ends the program as it ends any other. From then on it is heard: workflows that
//! stop at a good place do so ([`Session::stopped`]), all other changes get the moment that their writes take, and a second
//! Ctrl-C leaves at once. Whatever may be written by then is told, with its undo line, and kept in the journal.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::change::{self, Plan};
use super::exit::{self, Failure};
use super::session::Session;
use super::time;

/// What is known of the change that a command makes.
#[derive(Default)]
pub struct UnderWay {
    /// The change that was agreed to and is not reported yet, with the line that undoes it.
    change: Mutex<Option<(Plan, Option<String>)>>,
    begun: Notify,
    /// Workflows that wait for Ctrl-C themselves.
    listeners: AtomicUsize,
    /// Half of what the command does now must not stay.
    finishes: AtomicBool,
}

impl UnderWay {
    /// A change begins: it was agreed to.
    pub fn begin(&self, plan: &Plan) {
        self.put(Some((plan.clone(), None)));
        self.begun.notify_one();
    }

    /// What undoes the change that has begun.
    pub fn undone_by(&self, undo: Option<&str>) {
        if let Ok(mut change) = self.change.lock()
            && let Some((_, line)) = change.as_mut()
        {
            *line = undo.map(str::to_owned);
        }
    }

    /// The change is reported.
    pub fn end(&self) {
        self.put(None);
    }

    /// While this lives, whoever holds it stops at Ctrl-C by itself.
    pub fn listen(&self) -> Listener<'_> {
        self.listeners.fetch_add(1, Ordering::Relaxed);
        Listener(&self.listeners)
    }

    fn put(&self, new: Option<(Plan, Option<String>)>) {
        if let Ok(mut change) = self.change.lock() {
            *change = new;
        }
    }

    fn take(&self) -> Option<(Plan, Option<String>)> {
        self.change.lock().ok()?.take()
    }
}

/// One that waits for Ctrl-C itself.
pub struct Listener<'a>(&'a AtomicUsize);

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    /// From here on the command comes to its end, whatever `--deadline` and Ctrl-C say: half of its writes must not stay.
    pub fn finish_whatever_comes(&self) {
        self.under_way.finishes.store(true, Ordering::Relaxed);
    }

    /// Resolves when the operator wants the command stopped: Ctrl-C, or the dashboard's key.
    pub async fn stopped(&self) {
        let _listener = self.under_way.listen();
        match self.desk() {
            Some(desk) => desk.stopped().await,
            // Without a signal handler it is not stoppable, and goes on.
            None => {
                if tokio::signal::ctrl_c().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Runs a command to its end, or to that of `--deadline`, or until Ctrl-C ends it in the middle of a change.
    pub async fn run(&self, command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        let mut command = std::pin::pin!(command);
        let limit = self.deadline.unwrap_or_default();
        let mut deadline = std::pin::pin!(tokio::time::sleep(limit));
        let mut is_limited = self.deadline.is_some();
        let mut signals: Option<Signal> = None;
        let mut told = false;
        loop {
            tokio::select! {
                // A workflow that hears the same signal ends by it: who listens is looked at before it does.
                biased;
                true = interrupt(&mut signals), if signals.is_some() => {
                    let finishes = self.under_way.finishes.load(Ordering::Relaxed);
                    if self.under_way.listeners.load(Ordering::Relaxed) > 0 {
                        continue;
                    }
                    if told && !finishes {
                        return Err(self.left(exit::INTERRUPTED, "stopped by Ctrl-C"));
                    }
                    told = true;
                    self.talk(match finishes {
                        true => "what is being written is finished first: half of it must not stay",
                        false => "what was sent is finished and reported; Ctrl-C again leaves now",
                    });
                }
                () = self.under_way.begun.notified(), if signals.is_none() => {
                    signals = signal(SignalKind::interrupt()).ok();
                }
                done = &mut command => return done,
                () = &mut deadline, if is_limited => {
                    if !self.under_way.finishes.load(Ordering::Relaxed) {
                        return Err(self.left(exit::TIMEOUT, &format!("not done within {}", time::duration(limit))));
                    }
                    is_limited = false;
                    self.talk("--deadline has passed: what is being written is finished first, half of it must not stay");
                }
            }
        }
    }

    /// The command was left: a change in its middle is reported as far as it is known.
    fn left(&self, exit: u8, what: &str) -> Failure {
        let failure = Failure::new(exit, what);
        match self.under_way.take() {
            Some((plan, undo)) => change::left(self, &plan, undo, failure),
            None if exit == exit::TIMEOUT => {
                failure.because("--deadline limits the whole command; what was sent before stays done.")
            }
            None => failure,
        }
    }
}

/// True when Ctrl-C comes; without a handler it never does.
async fn interrupt(signals: &mut Option<Signal>) -> bool {
    match signals {
        Some(signals) => signals.recv().await.is_some(),
        None => std::future::pending().await,
    }
}
