//! Where a copied text goes: to the terminal's clipboard (OSC 52), to a file where that cannot work, to both where nobody
//! can tell. Pure but for [`write`].

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The most that terminals take: 100,000 bytes of a sequence whose text is in base64.
pub const MOST: usize = 74_994;

/// Name of the file in the state directory.
pub const FILE: &str = "clipboard.txt";

/// Where a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the terminal.
    Terminal,
    /// To both: whether the terminal gets it is the multiplexer's decision.
    Both(&'static str),
    /// To the file, and why.
    File(&'static str),
}

/// What is known of the terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terminal {
    /// `TERM`.
    pub name: String,
    /// Inside tmux (`TMUX` is set).
    pub tmux: bool,
    /// Inside GNU screen (`STY` is set).
    pub screen: bool,
}

impl Terminal {
    /// The one we run in.
    pub fn here() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Self {
            name: std::env::var("TERM").unwrap_or_default(),
            tmux: is_set("TMUX"),
            screen: is_set("STY"),
        }
    }

    /// Where a text of so many bytes goes.
    ///
    /// tmux takes the sequence with `set-clipboard on` and drops it silently otherwise, as it does by default; GNU screen
    /// does not know it. Both pass it on only in a wrapping that has to be allowed first, and neither says so.
    pub fn way(&self, bytes: usize) -> Way {
        if bytes > MOST {
            return Way::File("it is longer than terminals take");
        }
        match self.name.as_str() {
            "" | "dumb" | "linux" => return Way::File("this terminal has no clipboard"),
            _ => {}
        }
        if self.tmux || self.name.starts_with("tmux") {
            Way::Both("tmux hands it on only with set-clipboard on")
        } else if self.screen || self.name.starts_with("screen") {
            Way::File("screen does not hand it on")
        } else {
            Way::Terminal
        }
    }
}

/// Puts a text into the file in `dir`, in the place of the one before. Only its owner may read it.
pub fn write(dir: &Path, text: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(FILE);
    write_private(&path, text.as_bytes())?;
    Ok(path)
}

/// Writes a file, in the place of the one before, that only its owner may read.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // One that was there keeps its mode otherwise.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_depends_on_the_terminal_and_the_length() {
        let terminal = |name: &str, tmux, screen| Terminal {
            name: name.into(),
            tmux,
            screen,
        };
        for (terminal, bytes, wanted) in [
            (terminal("xterm-256color", false, false), 10, "terminal"),
            (terminal("xterm-256color", false, false), 74_994, "terminal"),
            (terminal("xterm-256color", false, false), 74_995, "file"),
            (terminal("", false, false), 10, "file"),
            (terminal("dumb", false, false), 10, "file"),
            (terminal("linux", false, false), 10, "file"),
            (terminal("xterm-256color", true, false), 10, "both"),
            (terminal("tmux-256color", false, false), 10, "both"),
            (terminal("tmux-256color", true, false), 80_000, "file"),
            (terminal("screen-256color", false, true), 10, "file"),
            // tmux calls itself so as well.
            (terminal("screen-256color", true, false), 10, "both"),
        ] {
            let way = match terminal.way(bytes) {
                Way::Terminal => "terminal",
                Way::Both(_) => "both",
                Way::File(_) => "file",
            };
            assert_eq!(way, wanted, "{terminal:?} {bytes}");
        }
        // Three bytes become four signs.
        assert_eq!(MOST.div_ceil(3) * 4, 99_992);
    }

    #[test]
    fn a_new_text_takes_the_place_of_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        write(&state, "a long text").unwrap();
        #[cfg(unix)]
        {
            let wide = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(state.join(FILE), wide).unwrap();
        }
        let path = write(&state, "short").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
