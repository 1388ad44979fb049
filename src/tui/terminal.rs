//! The terminal as we found it: taken over for drawing, given back on every way out.

use std::io::{self, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::clipboard::CopyToClipboard;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

type PanicHook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync>;

/// A terminal in raw mode on its alternate screen. Dropping it gives the terminal back.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    /// Set by the panic hook: the terminal is given back already.
    panicked: Arc<AtomicBool>,
    hook: Arc<PanicHook>,
}

impl Screen {
    /// Takes the terminal over. The report of a panic goes into the state directory.
    pub fn enter(state_dir: Option<PathBuf>) -> io::Result<Self> {
        let panicked = Arc::new(AtomicBool::new(false));
        let hook: Arc<PanicHook> = Arc::new(std::panic::take_hook());
        let (flag, before) = (Arc::clone(&panicked), Arc::clone(&hook));
        std::panic::set_hook(Box::new(move |info| {
            // The report must not land on the alternate screen, which vanishes.
            if !flag.swap(true, Ordering::SeqCst) {
                give_back();
            }
            before(info);
            let told = match report(state_dir.as_deref(), &info.to_string()) {
                Ok(path) => format!("the report is in {}", path.display()),
                Err(why) => format!("there is no file with the report: {why}"),
            };
            // Whether it can be told makes no difference any more.
            let _ = writeln!(io::stderr(), "rmq: {told}");
        }));
        let screen = take_over().and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match screen {
            Ok(terminal) => Ok(Self {
                terminal,
                panicked,
                hook,
            }),
            Err(e) => {
                give_back();
                Err(e)
            }
        }
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        crossterm::terminal::size()
    }

    /// Draws what `render` puts into the buffer.
    pub fn draw(&mut self, render: impl FnOnce(&mut ratatui::buffer::Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| render(frame.buffer_mut()))?;
        Ok(())
    }

    /// Asks the terminal to take a text into its clipboard.
    pub fn copy(&self, text: &str) -> io::Result<()> {
        execute!(stdout(), CopyToClipboard::to_clipboard_from(text))
    }

    /// Takes the mouse, or gives it back to the terminal.
    pub fn mouse(&self, ours: bool) -> io::Result<()> {
        if ours {
            execute!(stdout(), EnableMouseCapture)
        } else {
            execute!(stdout(), DisableMouseCapture)
        }
    }

    /// True when some part of the program panicked.
    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::SeqCst)
    }

    /// Gives the terminal back, stops the process until the shell continues it, takes the terminal again.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        #[cfg(unix)]
        {
            use rustix::process::{Signal, getpid, kill_process};
            kill_process(getpid(), Signal::TSTP)?;
        }
        take_over()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if !self.has_panicked() {
            give_back();
        }
        // A hook may not be changed by a thread that panics; the process ends then anyway.
        if !std::thread::panicking() {
            let before = Arc::clone(&self.hook);
            drop(std::panic::take_hook());
            std::panic::set_hook(Box::new(move |info| before(info)));
        }
    }
}

/// Writes what is known of a panic into a file of its own.
fn report(state_dir: Option<&Path>, what: &str) -> io::Result<PathBuf> {
    let dir = state_dir.ok_or_else(|| io::Error::other("there is no state directory"))?;
    let text = format!(
        "rmq {}\n{}\n{:?}\n{what}\n\n{}\n",
        env!("CARGO_PKG_VERSION"),
        jiff::Timestamp::now(),
        std::env::args_os().next().unwrap_or_default(),
        std::backtrace::Backtrace::force_capture()
    );
    let name = format!("panic-{}-{}.txt", super::now_ms(), std::process::id());
    let path = dir.join(name);
    std::fs::create_dir_all(dir)?;
    std::fs::write(&path, text)?;
    Ok(path)
}

fn take_over() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)
}

/// Undoes [`take_over`] as far as possible: there is nobody to tell of a failure.
fn give_back() {
    let mut out = stdout();
    let _ = execute!(
        out,
        DisableMouseCapture,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_a_report() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("not made yet");
        let path = report(Some(&state), "panicked at src/x.rs:1: it broke").unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("it broke"), "{text}");
        assert!(text.starts_with(concat!("rmq ", env!("CARGO_PKG_VERSION"))));
        assert!(text.contains("a_panic_leaves_a_report"), "where it was: {text}");
        assert!(report(None, "x").is_err());
    }
}
