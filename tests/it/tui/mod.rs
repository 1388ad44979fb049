//! The console: pictures, state, polling, and the real program in a terminal.

mod budgets;
mod changes;
mod dead;
pub mod fixture;
mod frame;
mod liars;
mod messages;
mod monkey;
mod polling;
mod program;
mod routes;
mod screens;
mod servers;
mod state;
mod store;
mod truths;
