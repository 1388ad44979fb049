//! RocketMQ for operators: name server, broker, admin library, dashboard and store inspector.
//!
//! Layers point one way; `tests/it/layers.rs` keeps the arrows:
//!
//! ```text
//! fields, telemetry, replace -> nothing of ours; anyone may use them
//! protocol            -> fields          bytes <-> values; no I/O, no clock, no async
//! store, remoting     -> protocol        files; sockets
//! inspect             -> store           offline: StoreReader in, values out
//! client, namesrv     -> remoting        the admin library; the name server role
//! broker              -> remoting, store the broker role
//! tui                 -> client, inspect
//! cli                 -> client, inspect, tui; and namesrv, broker from serve.rs alone
//! ```

pub mod broker;
pub mod cli;
pub mod client;
pub mod config_file;
pub mod fields;
pub mod inspect;
pub mod namesrv;
pub mod protocol;
pub mod remoting;
pub mod replace;
pub mod store;
pub mod telemetry;
pub mod tui;
