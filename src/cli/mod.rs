//! See `lib.rs`.
