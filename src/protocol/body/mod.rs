//! JSON bodies.
