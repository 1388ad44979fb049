//! The one integration binary; a module per subject.

// Fixtures are not test functions, but they may fail a test as one does.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod acceptance;
mod broker;
mod cli;
mod cli_servers;
mod flows;
mod inspect;
mod inspect_cli;
mod inspect_compaction;
mod inspect_verify;
mod interop_cli;
mod interop_flows;
mod interop_java;
mod interop_mqadmin;
mod interop_store;
mod interop_transactions;
mod layers;
mod store_faults;
mod store_golden;
mod store_life;
mod store_look;
mod store_recovery;
mod store_repair;
mod store_rot;
mod store_tools;
mod support;
mod tui;
