//! Flat text maps <-> structs: request headers on the wire and `.properties` files.
//!
//! Both are one flat map of texts, so one small serde format serves both. Numbers and booleans are written as
//! text and parsed back, `None` is absent, unknown names are ignored. A missing or wrong value is an error that
//! names the field. Booleans follow Java's `Boolean.parseBoolean`: `true` in any case, anything else is false.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::{Display, Write as _};

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, Visitor};
use serde::ser::{self, Impossible, Serialize};

/// A flat map of texts in arrival order. On a repeated name the last one wins.
///
/// All texts lie in one buffer, so a header of a dozen fields costs two allocations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// Name, value, name, value…
    text: String,
    /// End of each name and of its value in `text`; a name begins where the value before it ends.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// An empty map.
    pub const fn new() -> Self {
        Self {
            text: String::new(),
            ends: Vec::new(),
        }
    }

    /// An empty map with room for `n` entries.
    pub fn with_capacity(n: usize) -> Self {
        Self {
            text: String::with_capacity(n * 24),
            ends: Vec::with_capacity(n),
        }
    }

    /// Makes room for `n` more entries of `bytes` in all.
    pub fn reserve(&mut self, n: usize, bytes: usize) {
        self.text.reserve(bytes);
        self.ends.reserve(n);
    }

    /// The text under `name`, if any.
    pub fn get(&self, name: &str) -> Option<&str> {
        (0..self.ends.len())
            .rev()
            .map(|i| self.entry(i))
            .find(|(k, _)| *k == name)
            .map(|(_, v)| v)
    }

    /// Adds an entry; an earlier one of the same name is shadowed.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.push_str(&name.into(), &value.into());
    }

    /// Adds an entry from borrowed texts.
    pub fn push_str(&mut self, name: &str, value: &str) {
        self.text.push_str(name);
        let name_end = self.text.len();
        self.text.push_str(value);
        self.ends.push((name_end, self.text.len()));
    }

    /// Adds an entry whose value is appended by `write`; an error leaves the map as it was.
    pub fn push_with<E>(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut String) -> Result<(), E>,
    ) -> Result<(), E> {
        let begin = self.text.len();
        self.text.push_str(name);
        let name_end = self.text.len();
        let written = write(&mut self.text);
        match written {
            Ok(()) => self.ends.push((name_end, self.text.len())),
            Err(_) => self.text.truncate(begin),
        }
        written
    }

    /// Entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.ends.len()).map(|i| self.entry(i))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there is no entry.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Writes a flat struct (or string map) as texts.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        let mut fields = Self::with_capacity(16);
        value.serialize(Writer { out: &mut fields })?;
        Ok(fields)
    }

    /// Reads a flat struct from the texts.
    pub fn to_value<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(Reader { fields: self })
    }

    fn entry(&self, i: usize) -> (&str, &str) {
        let begin = if i == 0 { 0 } else { self.ends[i - 1].1 };
        let (name_end, value_end) = self.ends[i];
        (&self.text[begin..name_end], &self.text[name_end..value_end])
    }
}

impl<K: Into<Cow<'static, str>>, V: Into<String>> FromIterator<(K, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut fields = Self::new();
        for (name, value) in entries {
            fields.push(name, value);
        }
        fields
    }
}

/// An integer as decimal text without an allocation.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    digits: [u8; 20],
    begin: usize,
}

impl Decimal {
    /// The digits of `value`.
    pub const fn new(value: i64) -> Self {
        let mut digits = [0; 20];
        let mut begin = digits.len();
        let mut rest = value.unsigned_abs();
        loop {
            begin -= 1;
            digits[begin] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            begin -= 1;
            digits[begin] = b'-';
        }
        Self { digits, begin }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.digits[self.begin..]).unwrap_or_default()
    }
}

/// A field that is missing or that does not read as its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The named field has a value that does not fit.
    #[error("field `{name}`: {reason}")]
    Field {
        /// Name on the wire or in the file.
        name: String,
        /// What was wrong with the value.
        reason: String,
    },
    /// Anything serde reports without a field, such as a missing one.
    #[error("{0}")]
    Other(String),
}

impl de::Error for Error {
    fn custom<T: Display>(msg: T) -> Self {
        Self::Other(msg.to_string())
    }
}

impl ser::Error for Error {
    fn custom<T: Display>(msg: T) -> Self {
        Self::Other(msg.to_string())
    }
}

struct Reader<'a> {
    fields: &'a Fields,
}

impl<'de> de::Deserializer<'de> for Reader<'de> {
    type Error = Error;

    /// Every entry that no later one of the same name shadows: serde refuses duplicates.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut names = HashSet::with_capacity(self.fields.len());
        let mut entries: Vec<_> = (0..self.fields.len())
            .rev()
            .map(|i| self.fields.entry(i))
            .filter(|(name, _)| names.insert(*name))
            .collect();
        entries.reverse();
        visitor.visit_map(Entries {
            entries: entries.into_iter(),
            current: ("", ""),
        })
    }

    /// Looks each field up, so entries that nobody asked for cost nothing.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let entries = fields
            .iter()
            .filter_map(|name| self.fields.get(name).map(|value| (*name, value)));
        visitor.visit_map(Entries {
            entries,
            current: ("", ""),
        })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Names and texts, one after the other.
struct Entries<'a, I> {
    entries: I,
    current: (&'a str, &'a str),
}

impl<'de, I: Iterator<Item = (&'de str, &'de str)>> MapAccess<'de> for Entries<'de, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.current = entry;
        let name: StrDeserializer<'_, Error> = entry.0.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (name, value) = self.current;
        seed.deserialize(Text(value)).map_err(|e| match e {
            Error::Other(reason) => Error::Field {
                name: name.to_owned(),
                reason,
            },
            named @ Error::Field { .. } => named,
        })
    }
}

/// One text, parsed into whatever the field asks for.
struct Text<'a>(&'a str);

macro_rules! parse {
    ($($method:ident => $visit:ident : $ty:ty),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let value = self.0.trim().parse::<$ty>()
                .map_err(|e| Error::Other(format!("`{}` is not a {}: {e}", self.0, stringify!($ty))))?;
            visitor.$visit(value)
        })*
    };
}

impl<'de> de::Deserializer<'de> for Text<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.0.trim().eq_ignore_ascii_case("true"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let name: StrDeserializer<'_, Error> = self.0.into_deserializer();
        visitor.visit_enum(name)
    }

    parse! {
        deserialize_i8 => visit_i8: i8, deserialize_i16 => visit_i16: i16,
        deserialize_i32 => visit_i32: i32, deserialize_i64 => visit_i64: i64,
        deserialize_u8 => visit_u8: u8, deserialize_u16 => visit_u16: u16,
        deserialize_u32 => visit_u32: u32, deserialize_u64 => visit_u64: u64,
        deserialize_f32 => visit_f32: f32, deserialize_f64 => visit_f64: f64,
    }

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

struct Writer<'a> {
    out: &'a mut Fields,
}

macro_rules! not_flat {
    ($($method:ident($($ty:ty),*)),* $(,)?) => {
        $(fn $method(self, $(_: $ty),*) -> Result<(), Error> { Err(flat_only()) })*
    };
}

fn flat_only() -> Error {
    Error::Other("only a flat struct or string map can be written as fields".into())
}

impl ser::Serializer for Writer<'_> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Impossible<(), Error>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = MapWriter<Self>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<MapWriter<Self>, Error> {
        Ok(MapWriter {
            writer: self,
            key: String::new(),
        })
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, v: &T) -> Result<(), Error> {
        v.serialize(self)
    }

    not_flat! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_f32(f32),
        serialize_f64(f64), serialize_char(char), serialize_str(&str), serialize_bytes(&[u8]),
        serialize_none(), serialize_unit_variant(&'static str, u32, &'static str),
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<(), Error> {
        Err(flat_only())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        Err(flat_only())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        Err(flat_only())
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        Err(flat_only())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Error> {
        Err(flat_only())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(flat_only())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(flat_only())
    }
}

impl ser::SerializeStruct for Writer<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.out.entry_of(name, value)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

impl Fields {
    /// Adds an entry unless the value is absent.
    fn entry_of<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        let begin = self.text.len();
        self.text.push_str(name);
        let name_end = self.text.len();
        let present = value.serialize(TextWriter(&mut self.text));
        if let Ok(true) = present {
            self.ends.push((name_end, self.text.len()));
        } else {
            self.text.truncate(begin);
        }
        present.map(drop)
    }
}

/// Writes a string-keyed map entry by entry.
struct MapWriter<W> {
    writer: W,
    key: String,
}

impl ser::SerializeMap for MapWriter<Writer<'_>> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key.clear();
        if key.serialize(TextWriter(&mut self.key))? {
            Ok(())
        } else {
            Err(flat_only())
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.out.entry_of(&self.key, value)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

/// Appends one value as text; false for an absent option.
struct TextWriter<'a>(&'a mut String);

macro_rules! decimal {
    ($($method:ident($ty:ty)),* $(,)?) => {
        $(fn $method(self, v: $ty) -> Result<bool, Error> {
            self.0.push_str(Decimal::new(v.into()).as_str());
            Ok(true)
        })*
    };
}

macro_rules! display {
    ($($method:ident($ty:ty)),* $(,)?) => {
        $(fn $method(self, v: $ty) -> Result<bool, Error> {
            write!(self.0, "{v}").map_err(ser::Error::custom)?;
            Ok(true)
        })*
    };
}

impl ser::Serializer for TextWriter<'_> {
    type Ok = bool;
    type Error = Error;
    type SerializeSeq = Impossible<Self::Ok, Error>;
    type SerializeTuple = Impossible<Self::Ok, Error>;
    type SerializeTupleStruct = Impossible<Self::Ok, Error>;
    type SerializeTupleVariant = Impossible<Self::Ok, Error>;
    type SerializeMap = Impossible<Self::Ok, Error>;
    type SerializeStruct = Impossible<Self::Ok, Error>;
    type SerializeStructVariant = Impossible<Self::Ok, Error>;

    decimal! {
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32),
    }

    display! { serialize_bool(bool), serialize_u64(u64), serialize_f32(f32), serialize_f64(f64), serialize_char(char) }

    fn serialize_str(self, v: &str) -> Result<bool, Error> {
        self.0.push_str(v);
        Ok(true)
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<Self::Ok, Error> {
        Err(flat_only())
    }

    fn serialize_none(self) -> Result<Self::Ok, Error> {
        Ok(false)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Self::Ok, Error> {
        Ok(false)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Self::Ok, Error> {
        Ok(false)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Self::Ok, Error> {
        self.0.push_str(variant);
        Ok(true)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Self::Ok, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Self::Ok, Error> {
        Err(flat_only())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        Err(flat_only())
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        Err(flat_only())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Error> {
        Err(flat_only())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(flat_only())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Error> {
        Err(flat_only())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Error> {
        Err(flat_only())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(flat_only())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Header {
        topic: String,
        queue_id: i32,
        offset: Option<i64>,
        #[serde(default)]
        order: bool,
    }

    #[test]
    fn a_flat_struct_survives_the_round_trip() {
        let header = Header {
            topic: "t".into(),
            queue_id: -1,
            offset: None,
            order: true,
        };
        let fields = Fields::from_value(&header).unwrap();
        assert_eq!(fields.get("queueId"), Some("-1"));
        assert_eq!(fields.get("offset"), None);
        assert_eq!(fields.to_value::<Header>().unwrap(), header);
    }

    #[test]
    fn unknown_names_are_ignored_and_the_last_of_a_name_wins() {
        let fields: Fields = [("topic", "a"), ("queueId", "1"), ("zz", "?"), ("topic", "b")]
            .into_iter()
            .collect();
        let header: Header = fields.to_value().unwrap();
        assert_eq!(
            (header.topic.as_str(), header.queue_id, header.order),
            ("b", 1, false)
        );
    }

    #[test]
    fn an_error_names_the_field() {
        let missing: Fields = [("topic", "a")].into_iter().collect();
        assert!(
            missing
                .to_value::<Header>()
                .unwrap_err()
                .to_string()
                .contains("queueId")
        );
        let wrong: Fields = [("topic", "a"), ("queueId", "x")].into_iter().collect();
        assert!(
            wrong
                .to_value::<Header>()
                .unwrap_err()
                .to_string()
                .contains("queueId")
        );
    }

    #[test]
    fn entries_keep_their_order_and_a_failed_one_leaves_no_trace() {
        let mut fields = Fields::new();
        fields.push("a", "1");
        fields.push_str("", "");
        let failed: Result<(), &str> = fields.push_with("b", |out| {
            out.push_str("half");
            Err("no")
        });
        assert_eq!(failed, Err("no"));
        fields.push("a", "2");
        assert_eq!(
            fields.iter().collect::<Vec<_>>(),
            [("a", "1"), ("", ""), ("a", "2")]
        );
        assert_eq!(
            (fields.get("a"), fields.get("b"), fields.get("")),
            (Some("2"), None, Some(""))
        );
        let map: std::collections::BTreeMap<String, i32> = [("x", "1"), ("y", "2"), ("x", "3")]
            .into_iter()
            .collect::<Fields>()
            .to_value()
            .unwrap();
        assert_eq!(map, [("x".to_owned(), 3), ("y".to_owned(), 2)].into());
    }

    #[test]
    fn decimals_are_those_of_display() {
        for value in [0, 7, -7, 10, i64::MAX, i64::MIN, 1_795_973_553_406] {
            assert_eq!(Decimal::new(value).as_str(), value.to_string());
        }
    }
}
