//! The tolerant JSON that Java peers emit, and the writer for its shapes.

use std::borrow::Cow;

use bytes::BytesMut;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Error, model::Language};

/// The parts of a JSON frame header.
#[derive(Debug, Default)]
pub struct HeaderText<'a> {
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
    pub remark: Option<Cow<'a, str>>,
    /// Header fields in order.
    pub ext_fields: Vec<(String, String)>,
}

/// Reads a frame header; strict JSON fast, fastjson's leniency as the fallback.
pub fn header(_text: &[u8]) -> Result<HeaderText<'_>, Error> {
    unimplemented!()
}
/// Reads a body leniently (bare number keys, object keys, single quotes, numbers as texts).
pub fn from_slice<T: DeserializeOwned>(_text: &[u8]) -> Result<T, Error> {
    unimplemented!()
}
/// Writes Java's shape: bare number keys, object keys, nulls left out.
pub fn to_vec<T: Serialize>(_value: &T) -> Vec<u8> {
    unimplemented!()
}
/// Writes standard JSON: quoted keys, non-ASCII escaped.
pub fn to_vec_strict<T: Serialize>(_value: &T) -> Vec<u8> {
    unimplemented!()
}
/// Writes the pretty form of Java's config files (tabs, no blank after the colon).
pub fn to_vec_pretty<T: Serialize>(_value: &T) -> Vec<u8> {
    unimplemented!()
}
/// Appends an integer.
pub fn write_int(_out: &mut BytesMut, _value: i32) {
    unimplemented!()
}
/// Appends a quoted, escaped text.
pub fn write_string(_out: &mut BytesMut, _text: &str) {
    unimplemented!()
}
