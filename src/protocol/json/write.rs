//! serde `Serializer` for Java's, the strict and the pretty shape.

use std::fmt;

use bytes::{BufMut, BytesMut};
use serde::ser::{self, Serialize, Serializer};

use crate::fields::Decimal;

/// How a document is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// fastjson's default.
    Java,
    /// fastjson's `BrowserCompatible` with quoted names.
    Strict,
    /// fastjson's `PrettyFormat`.
    Pretty,
}

pub(super) fn to_vec<T: Serialize + ?Sized>(value: &T, shape: Shape) -> Vec<u8> {
    let mut writer = Writer {
        out: Vec::with_capacity(128),
        shape,
        depth: 0,
        marks: Vec::new(),
    };
    match value.serialize(&mut writer) {
        Ok(true) => writer.out,
        Ok(false) => b"null".to_vec(),
        Err(_) => Vec::new(),
    }
}

struct Writer {
    out: Vec<u8>,
    shape: Shape,
    depth: usize,
    /// Begin of each field of the structs being written, by name; an inner struct's lie above its outer's.
    marks: Vec<(&'static str, usize)>,
}

/// Only a `Serialize` that refuses its own value makes one.
#[derive(Debug)]
pub(super) struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value refuses to be written")
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// True when something was written, false for a null.
type Written = Result<bool, Refused>;

impl Writer {
    fn new_line(&mut self) {
        if self.shape == Shape::Pretty {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + self.depth, b'\t');
        }
    }

    fn text(&mut self, text: &str) {
        string(&mut self.out, text, self.shape == Shape::Strict);
    }

    fn integer(&mut self, value: i64) -> Written {
        self.out
            .extend_from_slice(Decimal::new(value).as_str().as_bytes());
        Ok(true)
    }

    fn raw(&mut self, text: &str) -> Written {
        self.out.extend_from_slice(text.as_bytes());
        Ok(true)
    }

    /// One value of a list, where a null keeps its place.
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        if !value.serialize(&mut *self)? {
            self.out.extend_from_slice(b"null");
        }
        Ok(())
    }

    /// Begins `{"variant":`, as serde's own JSON writes a variant with data.
    fn variant(&mut self, name: &str) {
        self.out.push(b'{');
        self.text(name);
        self.out.push(b':');
    }
}

/// `Double.toString` (and `Float.toString`): a fraction always, an exponent outside 10⁻³ ≤ |v| < 10⁷.
fn java_double(shortest: &str, scientific: &str, magnitude: f64) -> String {
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        let fraction = if shortest.contains('.') { "" } else { ".0" };
        return format!("{shortest}{fraction}");
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let fraction = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{fraction}E{exponent}")
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = bool;
    type Error = Refused;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = List<'a>;
    type SerializeMap = Map<'a>;
    type SerializeStruct = Struct<'a>;
    type SerializeStructVariant = Struct<'a>;

    fn serialize_bool(self, v: bool) -> Written {
        self.raw(if v { "true" } else { "false" })
    }

    fn serialize_i8(self, v: i8) -> Written {
        self.integer(v.into())
    }

    fn serialize_i16(self, v: i16) -> Written {
        self.integer(v.into())
    }

    fn serialize_i32(self, v: i32) -> Written {
        self.integer(v.into())
    }

    fn serialize_i64(self, v: i64) -> Written {
        self.integer(v)
    }

    fn serialize_u8(self, v: u8) -> Written {
        self.integer(v.into())
    }

    fn serialize_u16(self, v: u16) -> Written {
        self.integer(v.into())
    }

    fn serialize_u32(self, v: u32) -> Written {
        self.integer(v.into())
    }

    fn serialize_u64(self, v: u64) -> Written {
        self.raw(&v.to_string())
    }

    fn serialize_f32(self, v: f32) -> Written {
        if !v.is_finite() {
            return Ok(false);
        }
        self.raw(&java_double(&v.to_string(), &format!("{v:e}"), v.abs().into()))
    }

    fn serialize_f64(self, v: f64) -> Written {
        if !v.is_finite() {
            return Ok(false);
        }
        self.raw(&java_double(&v.to_string(), &format!("{v:e}"), v.abs()))
    }

    fn serialize_char(self, v: char) -> Written {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Written {
        self.text(v);
        Ok(true)
    }

    fn serialize_bytes(self, v: &[u8]) -> Written {
        self.collect_seq(v)
    }

    fn serialize_none(self) -> Written {
        Ok(false)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        Ok(false)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        Ok(false)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        self.variant(variant);
        self.item(value)?;
        self.raw("}")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, Refused> {
        self.out.push(b'[');
        Ok(List {
            writer: self,
            first: true,
            close: "]",
        })
    }

    fn serialize_tuple(self, n: usize) -> Result<List<'a>, Refused> {
        self.serialize_seq(Some(n))
    }

    fn serialize_tuple_struct(self, _: &'static str, n: usize) -> Result<List<'a>, Refused> {
        self.serialize_seq(Some(n))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        n: usize,
    ) -> Result<List<'a>, Refused> {
        self.variant(variant);
        let list = self.serialize_seq(Some(n))?;
        Ok(List { close: "]}", ..list })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Map<'a>, Refused> {
        self.out.push(b'{');
        self.depth += 1;
        Ok(Map {
            writer: self,
            first: true,
            entry_at: 0,
        })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Struct<'a>, Refused> {
        self.out.push(b'{');
        self.depth += 1;
        let base = self.marks.len();
        Ok(Struct {
            writer: self,
            base,
            sorted: true,
            close: "}",
        })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        n: usize,
    ) -> Result<Struct<'a>, Refused> {
        self.variant(variant);
        let fields = self.serialize_struct(variant, n)?;
        Ok(Struct {
            close: "}}",
            ..fields
        })
    }
}

struct List<'a> {
    writer: &'a mut Writer,
    first: bool,
    close: &'static str,
}

impl List<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        if !std::mem::take(&mut self.first) {
            self.writer.out.push(b',');
        }
        self.writer.item(value)
    }
}

impl ser::SerializeSeq for List<'_> {
    type Ok = bool;
    type Error = Refused;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.push(value)
    }

    fn end(self) -> Written {
        self.writer.raw(self.close)
    }
}

impl ser::SerializeTuple for List<'_> {
    type Ok = bool;
    type Error = Refused;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.push(value)
    }

    fn end(self) -> Written {
        self.writer.raw(self.close)
    }
}

impl ser::SerializeTupleStruct for List<'_> {
    type Ok = bool;
    type Error = Refused;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.push(value)
    }

    fn end(self) -> Written {
        self.writer.raw(self.close)
    }
}

impl ser::SerializeTupleVariant for List<'_> {
    type Ok = bool;
    type Error = Refused;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.push(value)
    }

    fn end(self) -> Written {
        self.writer.raw(self.close)
    }
}

/// A map. Its keys are written as values; the strict shape then quotes those that are not texts.
struct Map<'a> {
    writer: &'a mut Writer,
    first: bool,
    /// Where the entry being written begins, for the case that its value is a null.
    entry_at: usize,
}

impl ser::SerializeMap for Map<'_> {
    type Ok = bool;
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        let writer = &mut *self.writer;
        self.entry_at = writer.out.len();
        if !self.first {
            writer.out.push(b',');
        }
        let line_at = writer.out.len();
        writer.new_line();
        let key_at = writer.out.len();
        let (shape, depth) = (writer.shape, writer.depth);
        if shape == Shape::Pretty {
            // A key that is an object stays on one line.
            writer.shape = Shape::Java;
        }
        writer.item(key)?;
        (writer.shape, writer.depth) = (shape, depth);
        if writer.out[key_at] != b'"' {
            match shape {
                Shape::Java => {}
                Shape::Strict => {
                    let key = String::from_utf8_lossy(&writer.out[key_at..]).into_owned();
                    writer.out.truncate(key_at);
                    writer.text(&key);
                }
                // Java begins a line for text keys only.
                Shape::Pretty => drop(writer.out.drain(line_at..key_at)),
            }
        }
        writer.out.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        if value.serialize(&mut *self.writer)? {
            self.first = false;
        } else {
            self.writer.out.truncate(self.entry_at);
        }
        Ok(())
    }

    fn end(self) -> Written {
        self.writer.depth -= 1;
        if !self.first {
            self.writer.new_line();
        }
        self.writer.raw("}")
    }
}

/// A struct. Fields are put in alphabetical order afterwards if they were not declared in it.
struct Struct<'a> {
    writer: &'a mut Writer,
    /// Where this struct's marks begin.
    base: usize,
    sorted: bool,
    close: &'static str,
}

impl Struct<'_> {
    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Refused> {
        let writer = &mut *self.writer;
        let before = writer.out.len();
        let last = writer.marks.get(self.base..).and_then(<[_]>::last).copied();
        if last.is_some() {
            writer.out.push(b',');
        }
        writer.new_line();
        let start = writer.out.len();
        writer.out.push(b'"');
        writer.out.extend_from_slice(name.as_bytes());
        writer.out.extend_from_slice(b"\":");
        if value.serialize(&mut *writer)? {
            self.sorted &= last.is_none_or(|(last, _)| last < name);
            writer.marks.push((name, start));
        } else {
            writer.out.truncate(before);
        }
        Ok(())
    }

    fn finish(self) -> Written {
        let writer = self.writer;
        if !self.sorted {
            let marks = &writer.marks[self.base..];
            // Between two fields lie a comma and, in the pretty shape, a line break and tabs.
            let gap = if writer.shape == Shape::Pretty {
                2 + writer.depth
            } else {
                1
            };
            let begin = marks[0].1;
            let written = writer.out.split_off(begin);
            let ends = marks[1..]
                .iter()
                .map(|(_, start)| start - gap)
                .chain([begin + written.len()]);
            let mut fields: Vec<_> = marks.iter().zip(ends).collect();
            fields.sort_unstable();
            for (i, ((_, start), end)) in fields.into_iter().enumerate() {
                if i > 0 {
                    writer.out.push(b',');
                    if writer.shape == Shape::Pretty {
                        writer.out.push(b'\n');
                        writer.out.resize(writer.out.len() + writer.depth, b'\t');
                    }
                }
                writer.out.extend_from_slice(&written[start - begin..end - begin]);
            }
        }
        let empty = writer.marks.len() == self.base;
        writer.marks.truncate(self.base);
        writer.depth -= 1;
        if !empty {
            writer.new_line();
        }
        writer.raw(self.close)
    }
}

impl ser::SerializeStruct for Struct<'_> {
    type Ok = bool;
    type Error = Refused;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.field(name, value)
    }

    fn end(self) -> Written {
        self.finish()
    }
}

impl ser::SerializeStructVariant for Struct<'_> {
    type Ok = bool;
    type Error = Refused;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.field(name, value)
    }

    fn end(self) -> Written {
        self.finish()
    }
}

/// Where texts go: a frame being written, or a document.
pub(super) trait Sink {
    fn append(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for BytesMut {
    fn append(&mut self, bytes: &[u8]) {
        self.put_slice(bytes);
    }
}

/// Appends a quoted text, escaped as fastjson does: control characters, U+007F..U+00A0 and the line separators;
/// the strict form also escapes `/` and everything beyond ASCII.
pub(super) fn string(out: &mut impl Sink, text: &str, strict: bool) {
    out.append(b"\"");
    let mut rest = text;
    loop {
        let run = plain_run(rest.as_bytes(), strict);
        let (plain, tail) = rest.split_at(run);
        out.append(plain.as_bytes());
        let Some(c) = tail.chars().next() else { break };
        rest = &tail[c.len_utf8()..];
        match c {
            '"' => out.append(b"\\\""),
            '\\' => out.append(b"\\\\"),
            '\u{8}' => out.append(b"\\b"),
            '\t' => out.append(b"\\t"),
            '\n' => out.append(b"\\n"),
            '\u{C}' => out.append(b"\\f"),
            '\r' => out.append(b"\\r"),
            '/' if strict => out.append(b"\\/"),
            '\0'..='\u{1F}' | '\u{7F}'..='\u{A0}' | '\u{2028}' | '\u{2029}' => escape(out, c),
            '\u{80}'.. if strict => escape(out, c),
            _ => out.append(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.append(b"\"");
}

/// Appends `\uXXXX` for each UTF-16 unit.
fn escape(out: &mut impl Sink, c: char) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for unit in c.encode_utf16(&mut [0; 2]) {
        let digit = |shift: u16| DIGITS[usize::from(*unit >> shift & 0xF)];
        out.append(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
    }
}

/// Marks the bytes at which [`string`] must look closer.
const SPECIAL: [bool; 256] = specials(false);
const SPECIAL_STRICT: [bool; 256] = specials(true);

const fn specials(strict: bool) -> [bool; 256] {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        // 0xC2 begins U+0080..U+00BF, 0xE2 begins the line separators' range.
        table[b] = b < 0x20 || matches!(b as u8, b'"' | b'\\' | 0x7F | 0xC2 | 0xE2);
        table[b] |= strict && (b >= 0x80 || b as u8 == b'/');
        b += 1;
    }
    table
}

/// How many bytes may be copied as they are.
fn plain_run(bytes: &[u8], strict: bool) -> usize {
    let table = if strict { &SPECIAL_STRICT } else { &SPECIAL };
    bytes
        .iter()
        .position(|b| table[usize::from(*b)])
        .unwrap_or(bytes.len())
}
