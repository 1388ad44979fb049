//! The console: pictures, state, polling, and the real program in a terminal.

mod budgets;
mod changes;
mod fixture;
mod liars;
mod monkey;
mod polling;
mod program;
mod screens;
mod servers;
mod state;
mod store;
