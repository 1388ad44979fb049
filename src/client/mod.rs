//! The admin library under the CLI and the TUI: no printing, no terminal.

pub mod findings;
pub mod liveness;
pub mod runtime_info;
pub mod snapshot;

pub use runtime_info::RuntimeInfo;
pub use snapshot::{Seen, Snapshot};
