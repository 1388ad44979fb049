//! The real program in a pseudo terminal.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::servers::{Fake, Running};

/// `rmq tui` in a terminal of its own.
pub(super) struct Program {
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn std::io::Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    /// Ends with the last byte that the program wrote.
    reader: std::thread::JoinHandle<()>,
    /// Modes of the terminal before the program started.
    before: String,
    home: tempfile::TempDir,
}

impl Program {
    pub(super) fn start(name_server: &str, more: &[&str]) -> Self {
        let interval: &[&str] = if more.contains(&"--interval") {
            &[]
        } else {
            &["--interval", "500ms"]
        };
        Self::of(&[&["-n", name_server], interval, more].concat())
    }

    /// `rmq tui` with these words behind it.
    pub(super) fn of(words: &[&str]) -> Self {
        Self::with(words, &[])
    }

    /// [`Program::of`] with more in its environment.
    pub(super) fn with(words: &[&str], env: &[(&str, &str)]) -> Self {
        let size = PtySize {
            rows: 30,
            cols: 100,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pty = native_pty_system().openpty(size).expect("a pseudo terminal");
        let before = modes(&*pty.master);
        // Another build is measured by the same tests.
        let binary = std::env::var_os("RMQ_TUI_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_rmq").into());
        let mut command = CommandBuilder::new(binary);
        command.args(["tui", "--utc"]);
        command.args(words);
        command.env("TERM", "xterm-256color");
        // Nobody's configuration.
        let home = tempfile::tempdir().expect("a directory");
        command.env("HOME", home.path());
        for name in [
            "NO_COLOR",
            "RMQ_CONFIG",
            "RMQ_CONTEXT",
            "RMQ_NAMESRV",
            "NAMESRV_ADDR",
            "TMUX",
            "STY",
            "XDG_CONFIG_HOME",
            "XDG_STATE_HOME",
        ] {
            command.env_remove(name);
        }
        for (name, value) in env {
            command.env(name, value);
        }
        let child = pty.slave.spawn_command(command).expect("the program starts");
        drop(pty.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(some(30), some(100), 0)));
        let mut output = pty.master.try_clone_reader().expect("a reader");
        let shown = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 8192];
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..n]);
            }
        });
        Self {
            keys: pty.master.take_writer().expect("a writer"),
            master: pty.master,
            child,
            screen,
            reader,
            before,
            home,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.process_id().expect("it runs")
    }

    /// A file of its state directory.
    pub(super) fn state(&self, name: &str) -> PathBuf {
        self.home.path().join(".local/state/rmq").join(name)
    }

    /// The foreground colours on the screen.
    pub(super) fn colours(&self) -> Vec<vt100::Color> {
        let screen = self.screen.lock().unwrap();
        let (rows, columns) = screen.screen().size();
        let cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        let cells = cells.filter_map(|(row, column)| screen.screen().cell(row, column));
        cells.map(vt100::Cell::fgcolor).collect()
    }

    pub(super) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the program reads");
        self.keys.flush().expect("the program reads");
    }

    pub(super) fn resize(&self, cols: u16, rows: u16) {
        self.screen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(some(rows), some(cols));
        let size = PtySize {
            rows,
            cols,
            pixel_width: 0,
            pixel_height: 0,
        };
        self.master.resize(size).expect("the terminal resizes");
    }

    pub(super) fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen shows `text`; how long that took.
    pub(super) fn shows(&self, text: &str) -> Duration {
        let start = Instant::now();
        loop {
            let contents = self.contents();
            if contents.contains(text) {
                return start.elapsed();
            }
            assert!(
                start.elapsed() < Duration::from_secs(15),
                "no \"{text}\" in\n{contents}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end; the terminal must be as it was.
    pub(super) fn ends(mut self) -> (bool, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                break status;
            }
            if start.elapsed() > Duration::from_secs(10) {
                self.child.kill().expect("it can be killed");
                panic!("the program did not end:\n{}", self.contents());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(modes(&*self.master), self.before, "terminal modes");
        let deadline = Instant::now() + Duration::from_secs(5);
        while !self.reader.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let screen = self.screen.lock().unwrap();
        assert!(
            !screen.screen().alternate_screen(),
            "still on the alternate screen"
        );
        assert!(!screen.screen().hide_cursor(), "the cursor is hidden");
        assert!(!screen.screen().bracketed_paste(), "bracketed paste is on");
        let contents = screen.screen().contents();
        drop(screen);
        (status.success(), contents)
    }
}

fn modes(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().expect("a terminal has modes"))
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn servers(runtime: &tokio::runtime::Runtime, hanging: bool) -> (Running, Vec<Running>) {
    runtime.block_on(async {
        let good = Fake::broker(3, false).await;
        let mut brokers = vec![("broker-a", good.addr)];
        let mut running = vec![good];
        if hanging {
            let tarpit = Fake::broker(3, true).await;
            brokers.push(("broker-b", tarpit.addr));
            running.push(tarpit);
        }
        (Fake::name_server(&brokers).await, running)
    })
}

#[test]
fn the_program_shows_a_cluster_and_gives_the_terminal_back() {
    let runtime = runtime();
    let (name_server, _brokers) = servers(&runtime, false);
    let mut program = Program::start(&name_server.addr.to_string(), &[]);
    program.shows("Health");
    program.shows("brokers 1/1");
    program.press("2");
    program.shows("Registrations");
    program.shows("broker-a:0");
    program.press("3");
    program.shows("Brokers 1");
    program.press("\r");
    program.shows("overview > brokers > broker-a:0");
    program.resize(80, 24);
    program.shows("broker-a:0 runtime");
    program.resize(50, 10);
    program.shows("terminal too small (50×10)");
    program.resize(120, 40);
    program.shows("replication");
    // Pasted text goes into the focused input only.
    program.press("/");
    program.press("\x1b[200~qqq\x1b[201~");
    program.shows("/qqq");
    program.press("\x1b");
    program.shows("j/k move");
    program.press("q");
    let (success, _) = program.ends();
    assert!(success);
}

#[test]
fn keys_work_and_quitting_is_quick_while_a_broker_hangs() {
    let runtime = runtime();
    let (name_server, _brokers) = servers(&runtime, true);
    let mut program = Program::start(&name_server.addr.to_string(), &["--screen", "brokers"]);
    program.shows("brokers 1/2!");
    for _ in 0..3 {
        program.press("2");
        assert!(program.shows("Registrations") < Duration::from_secs(1));
        program.press("3");
        assert!(program.shows("Brokers 2") < Duration::from_secs(1));
    }
    program.press("r");
    let leave = Instant::now();
    program.press("q");
    assert!(program.ends().0);
    assert!(leave.elapsed() < Duration::from_secs(1), "{:?}", leave.elapsed());
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let program = Program::start("127.0.0.1:1", &[]);
    program.shows("ns 0/1!");
    program.shows("next try in");
    let pid = i32::try_from(program.child.process_id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    program.ends();
}

fn some(n: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(n).expect("a terminal has cells")
}
