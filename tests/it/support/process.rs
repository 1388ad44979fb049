//! A process a test owns: its output goes to files, it dies with its owner, and when the test fails its output is shown.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::wait;

/// How a process is ended when its owner goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// SIGTERM, and SIGKILL after three seconds.
    Term,
    /// SIGKILL at once: a Java broker takes 10 to 20 s to stop.
    Kill,
}

/// A running child.
pub struct Process {
    name: String,
    child: Child,
    end: End,
    output: PathBuf,
}

impl Process {
    /// Starts `command` with both outputs appended to `dir/NAME.out`.
    pub fn start(name: &str, dir: &Path, mut command: Command, end: End) -> Process {
        let output = dir.join(format!("{name}.out"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&output)
            .expect("the output file can be made");
        let again = file.try_clone().expect("a second handle");
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(again)
            .spawn()
            .unwrap_or_else(|e| panic!("{name}: {command:?}: {e}"));
        Process {
            name: name.to_owned(),
            child,
            end,
            output,
        }
    }

    /// As `start`, but with standard input and output piped to the owner and only standard error in the file.
    pub fn start_piped(
        name: &str,
        dir: &Path,
        mut command: Command,
        end: End,
    ) -> (Process, ChildStdin, ChildStdout) {
        let output = dir.join(format!("{name}.out"));
        let file = File::create(&output).expect("the output file can be made");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .unwrap_or_else(|e| panic!("{name}: {command:?}: {e}"));
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let process = Process {
            name: name.to_owned(),
            child,
            end,
            output,
        };
        (process, stdin, stdout)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed up to now.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for `text` in the output; fails when the process ends before.
    pub fn wait_for_line(&mut self, text: &str, limit: Duration) {
        let what = format!("{} prints {text:?}", self.name);
        wait::until_true(&what, limit, || {
            let found = self.output().contains(text);
            assert!(
                found || self.is_running(),
                "{} ended early:\n{}",
                self.name,
                self.output()
            );
            found
        });
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Stops it where it stands (SIGSTOP); its connections stay.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM; returns how it ended and how long that took. Fails the test when it does not end within `limit`.
    pub fn terminate(&mut self, limit: Duration) -> (ExitStatus, Duration) {
        let begin = Instant::now();
        self.signal(Signal::TERM);
        let what = format!("{} ends after SIGTERM", self.name);
        let status = wait::until(&what, limit, || self.child.try_wait().expect("our child"));
        (status, begin.elapsed())
    }

    #[allow(clippy::print_stdout)] // the harness shows it with the failure
    fn show(&self) {
        const LAST: u64 = 6_000;
        let mut tail = String::new();
        if let Ok(mut file) = File::open(&self.output) {
            let length = file.metadata().map_or(0, |m| m.len());
            let _ = file.seek(SeekFrom::Start(length.saturating_sub(LAST)));
            let mut bytes = Vec::new();
            let _ = file.read_to_end(&mut bytes);
            tail = String::from_utf8_lossy(&bytes).into_owned();
        }
        println!(
            "--- end of the output of {} (pid {}):\n{tail}",
            self.name,
            self.pid()
        );
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show();
        }
        if self.end == End::Term && self.is_running() {
            self.signal(Signal::TERM);
            let begin = Instant::now();
            while self.is_running() && begin.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.kill();
    }
}
