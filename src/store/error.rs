//! What goes wrong with a store directory, always with the path.

use std::path::PathBuf;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a file failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb: `open`, `map`, `flush`…
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Another process owns the store.
    #[error("{} is locked: a broker is running on this store", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A file has another size than the configuration says.
    #[error("{}: {found} bytes, but {key} says {expected}; `rmq store info` shows the files", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The length asked for.
        expected: u64,
        /// The config key to look at.
        key: &'static str,
    },
    /// The content is not what it should be.
    #[error("{} at {offset}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Position in the file.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// A store of a kind that is not supported.
    #[error("{}: {reason}", path.display())]
    Unsupported {
        /// The directory or file.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
}

impl From<crate::replace::Error> for Error {
    fn from(e: crate::replace::Error) -> Self {
        let crate::replace::Error { what, path, source } = e;
        Self::Io { what, path, source }
    }
}
