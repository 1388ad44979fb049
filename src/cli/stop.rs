//! How a command ends before its end: `--deadline`, and Ctrl-C.
//!
//! Until a change is agreed to, Ctrl-C ends the program as it ends any other. From then on it is heard in one place,
//! [`Session::run`]: workflows that stop at a good place do so ([`Session::stopped`]), all other changes get the moment that
//! their writes take, and a second Ctrl-C leaves at once. Whatever may be written by then is told, with its undo line, and
//! kept in the journal.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

use super::change::{self, Plan, Undo};
use super::exit::{self, Failure};
use super::session::Session;
use super::time;

/// What is known of the change that a command makes, and of the wish to stop it.
#[derive(Default)]
pub struct UnderWay {
    /// The change that was agreed to and is not reported yet, with what undoes it.
    change: Mutex<Option<(Plan, Undo)>>,
    /// Parts of it that are done, where it counts them.
    done: AtomicU64,
    /// Ctrl-C is to be heard.
    hears: Notify,
    /// Ctrl-C was pressed.
    wanted: watch::Sender<bool>,
    /// Workflows that stop at a good place by themselves.
    listeners: AtomicUsize,
    /// Half of what the command does now must not stay.
    finishes: AtomicBool,
}

impl UnderWay {
    /// A change begins: it was agreed to.
    pub fn begin(&self, plan: &Plan) {
        self.put(Some((plan.clone(), Undo::Unsaid)));
        self.hears.notify_one();
    }

    /// What undoes the change that has begun.
    pub fn undone_by(&self, undo: impl Into<Undo>) {
        if let Ok(mut change) = self.change.lock()
            && let Some((_, known)) = change.as_mut()
        {
            *known = undo.into();
        }
    }

    /// One more part of the change is done.
    pub fn did_one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// The change is reported.
    pub fn end(&self) {
        self.put(None);
    }

    /// While this lives, whoever holds it stops at Ctrl-C by itself.
    pub fn listen(&self) -> Listener<'_> {
        self.listeners.fetch_add(1, Ordering::Relaxed);
        self.hears.notify_one();
        Listener(self)
    }

    fn put(&self, new: Option<(Plan, Undo)>) {
        if let Ok(mut change) = self.change.lock() {
            *change = new;
        }
    }

    fn take(&self) -> Option<(Plan, Undo)> {
        self.change.lock().ok()?.take()
    }
}

/// One that stops at Ctrl-C by itself.
pub struct Listener<'a>(&'a UnderWay);

impl Listener<'_> {
    /// True once somebody pressed Ctrl-C.
    pub fn is_stopped(&self) -> bool {
        *self.0.wanted.borrow()
    }

    /// Resolves when somebody presses Ctrl-C, or has pressed it before.
    async fn stopped(&self) {
        // The sender lives as long as this.
        let _ = self.0.wanted.subscribe().wait_for(|wanted| *wanted).await;
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    /// From here on the command comes to its end, whatever `--deadline` and Ctrl-C say: half of its writes must not stay.
    pub fn finish_whatever_comes(&self) {
        self.under_way.finishes.store(true, Ordering::Relaxed);
    }

    /// Resolves when the operator wants the command stopped: Ctrl-C, or the dashboard's key.
    pub async fn stopped(&self) {
        let listener = self.under_way.listen();
        match self.desk() {
            Some(desk) => desk.stopped().await,
            None => listener.stopped().await,
        }
    }

    /// Runs a command to its end, or to that of `--deadline`, or until Ctrl-C ends it in the middle of a change.
    pub async fn run(&self, command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        let mut command = std::pin::pin!(command);
        let limit = self.deadline.unwrap_or_default();
        let mut deadline = std::pin::pin!(tokio::time::sleep(limit));
        let mut is_limited = self.deadline.is_some();
        let mut signals: Option<Signal> = None;
        loop {
            tokio::select! {
                biased;
                true = interrupt(&mut signals), if signals.is_some() => {
                    let finishes = self.under_way.finishes.load(Ordering::Relaxed);
                    let again = self.under_way.wanted.send_replace(true);
                    if again && !finishes {
                        return Err(self.left(exit::INTERRUPTED, "stopped by Ctrl-C"));
                    }
                    if finishes {
                        self.talk("what is being written is finished first: half of it must not stay");
                    } else if self.under_way.listeners.load(Ordering::Relaxed) == 0 {
                        self.talk("what was sent is finished and reported; Ctrl-C again leaves now");
                    }
                }
                () = self.under_way.hears.notified(), if signals.is_none() => {
                    // Without a handler it ends the program as usual.
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
        let done = self.under_way.done.load(Ordering::Relaxed);
        let failure = Failure::new(exit, what);
        let failure = match done {
            0 => failure,
            n => failure.seen(&format!("{n} of them were done before")),
        };
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
