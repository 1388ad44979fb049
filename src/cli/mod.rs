//! The command line: grammar, output, exit codes.

pub mod exit;
pub mod output;
pub mod time;
