//! A real broker in this process, driven over sockets.

mod admin;
mod bad_input;
mod consumers;
mod delay;
mod filters;
mod groups;
mod known_faults;
mod pop;
mod pop_crash;
mod pop_interop;
mod pull;
mod register;
mod reply;
mod retry;
mod send;
mod statistics;
mod support;
mod timer;
mod timer_interop;
mod transactions;
