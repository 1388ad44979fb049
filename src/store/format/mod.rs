//! Layouts of the store's files: constants, a borrowed view and a writer each. Pure functions over bytes; no I/O.
//! The commit log's record is [`crate::protocol::message`], since it travels as well.

pub mod batch_queue;
pub mod checkpoint;
pub mod consume_queue;
pub mod consume_queue_ext;
pub mod file_name;
pub mod index;
pub mod timer_check;
pub mod timer_log;
pub mod timer_wheel;

/// A big-endian word out of bytes whose length was checked.
fn i32_at(bytes: &[u8], at: usize) -> i32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |word| i32::from_be_bytes(*word))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |word| i64::from_be_bytes(*word))
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |word| i16::from_be_bytes(*word))
}
