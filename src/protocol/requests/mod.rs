//! One file an area; each request is a struct with the wire's field names and one `request!` line.
//!
//! Java does not enforce its required fields, its handlers fail on a null instead. Here a field without which
//! no handler can work is plain, and its absence is an error that names it; every other field is an `Option` or
//! has a written default. A field whose absence a handler answers with a code of its own is an `Option`.

mod auth;
mod broker_admin;
mod client;
mod controller;
mod group;
mod kv;
mod lite;
mod offset;
mod pop;
mod pull;
mod query;
mod register;
mod route;
mod send;
mod stats;
mod topic;
mod transaction;

pub use auth::*;
pub use broker_admin::*;
pub use client::*;
pub use controller::*;
pub use group::*;
pub use kv::*;
pub use lite::*;
pub use offset::*;
pub use pop::*;
pub use pull::*;
pub use query::*;
pub use register::*;
pub use route::*;
pub use send::*;
pub use stats::*;
pub use topic::*;
pub use transaction::*;

#[cfg(test)]
mod tests;
