//! The tolerant JSON that Java peers emit, and the writers for its shapes.
//!
//! fastjson writes maps with number and object keys bare, `{0:"a"}` and `{{"topic":"t"}:5}`, and reads much that
//! is not JSON: single quotes, names without quotes, spare commas, numbers as texts and texts as numbers, names
//! in another case. One hand-written parser reads it all, so there is no second path for the odd peer.
//!
//! ```text
//! bytes -> parse::Parser -> Value -> read (serde Deserializer) -> T
//! T -> write (serde Serializer) -> bytes in Java's, strict or pretty shape
//! ```

mod parse;
mod read;
mod write;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::BytesMut;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::parse::Parser;
use self::write::Shape;
use super::{Error, model::Language};
use crate::fields::{Decimal, Fields};

/// The parts of a JSON frame header.
#[derive(Debug, Default)]
pub struct HeaderText {
    /// See [`super::frame::Frame`].
    pub code: i32,
    /// See [`super::frame::Frame`].
    pub language: Option<Language>,
    /// See [`super::frame::Frame`].
    pub version: i32,
    /// See [`super::frame::Frame`].
    pub opaque: i32,
    /// See [`super::frame::Frame`].
    pub flag: i32,
    /// See [`super::frame::Frame`].
    pub remark: Option<String>,
    /// Header fields in order.
    pub ext_fields: Fields,
}

/// Reads a frame header. Bytes that are not UTF-8 become replacement characters, as in Java.
pub fn header(text: &[u8]) -> Result<HeaderText, Error> {
    let text = utf8(text);
    Parser::new(&text).header().map_err(|e| malformed("header", &e))
}

/// Reads a body leniently (bare number keys, object keys, single quotes, numbers as texts).
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    let text = utf8(text);
    let value = Parser::new(&text).document().map_err(|e| malformed("json", &e))?;
    T::deserialize(value).map_err(|e| malformed("json", &e))
}

/// The text, with replacement characters where it is not UTF-8. The check for the good case is much faster.
fn utf8(text: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed)
}

fn malformed(what: &'static str, error: &read::Error) -> Error {
    Error::malformed(what, error.to_string())
}

/// Writes Java's shape: bare number keys, object keys, nulls left out, struct fields in alphabetical order.
/// A value that serde cannot serialize at all gives no bytes; none of the bodies is one.
pub fn to_vec<T: Serialize>(value: &T) -> Vec<u8> {
    write::to_vec(value, Shape::Java)
}

/// Writes standard JSON as Java's strict route answer has it: every key quoted, `/` and non-ASCII escaped.
/// Maps are written in their own order, which is sorted for the `BTreeMap`s of the bodies.
pub fn to_vec_strict<T: Serialize>(value: &T) -> Vec<u8> {
    write::to_vec(value, Shape::Strict)
}

/// Writes the pretty form of Java's config files: a line per field, tabs, no blank after the colon; maps with
/// number keys stay on one line but for their closing brace.
pub fn to_vec_pretty<T: Serialize>(value: &T) -> Vec<u8> {
    write::to_vec(value, Shape::Pretty)
}

/// Appends an integer.
pub fn write_int(out: &mut BytesMut, value: i32) {
    out.extend_from_slice(Decimal::new(value.into()).as_str().as_bytes());
}

/// Appends a quoted, escaped text.
pub fn write_string(out: &mut BytesMut, text: &str) {
    write::string(out, text, false);
}
