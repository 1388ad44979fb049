//! The one integration binary; a module per subject.

mod broker;
mod cli;
mod inspect;
mod layers;
mod store_faults;
mod store_golden;
mod store_life;
mod tui;
