//! The one integration binary; a module per subject.

mod broker;
mod cli;
mod inspect;
mod interop_cli;
mod interop_java;
mod interop_mqadmin;
mod interop_store;
mod layers;
mod store_faults;
mod store_golden;
mod store_life;
mod support;
mod tui;
