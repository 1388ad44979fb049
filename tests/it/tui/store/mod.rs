//! The store screens on stores that a Java broker wrote.

mod asking;
mod console;
mod keys;
mod program;
mod screens;
mod walking;
mod wire;
