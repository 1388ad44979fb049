//! The tree as a serde `Deserializer` that converts scalars to what the field asks for.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::parse::{Kind, Parser, Value, fold};

/// What was wrong, in which field and at which byte.
#[derive(Debug)]
pub(super) struct Error {
    at: Option<usize>,
    /// Field names, innermost first.
    path: Vec<String>,
    reason: String,
}

impl Error {
    pub(super) fn at(at: usize, reason: impl Into<String>) -> Self {
        Self {
            at: Some(at),
            path: Vec::new(),
            reason: reason.into(),
        }
    }

    fn within(mut self, at: usize, name: &str) -> Self {
        self.at.get_or_insert(at);
        self.path.push(name.chars().take(64).collect());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.path.iter().rev().enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { "." })?;
        }
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{colon}{} at byte {}", self.reason, self.at.unwrap_or(0))
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self {
            at: None,
            path: Vec::new(),
            reason: reason.to_string(),
        }
    }
}

impl<'a> Value<'a> {
    fn wrong(&self, wanted: &str) -> Error {
        let is = match &self.kind {
            Kind::Null => "null".to_owned(),
            Kind::Bool(b) => b.to_string(),
            Kind::Number(text) => (*text).to_owned(),
            Kind::Text(text) => format!("`{}`", text.chars().take(64).collect::<String>()),
            Kind::List(_) => "a list".to_owned(),
            Kind::Object(_) => "an object".to_owned(),
        };
        Error::at(self.at, format!("{is} is not {wanted}"))
    }

    /// A whole number, given as number or text, with or without a fraction of zeros.
    fn integer(&self) -> Result<i128, Error> {
        let text = match &self.kind {
            Kind::Number(text) => text,
            Kind::Text(text) => text.trim(),
            _ => return Err(self.wrong("a whole number")),
        };
        text.parse::<i128>()
            .ok()
            .or_else(|| {
                let float = text.parse::<f64>().ok()?;
                // Within these bounds every whole f64 is exact.
                (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i128)
            })
            .ok_or_else(|| self.wrong("a whole number"))
    }

    fn float(&self) -> Result<f64, Error> {
        match &self.kind {
            Kind::Number(text) => text.parse().map_err(|_| self.wrong("a number")),
            Kind::Text(text) => text.trim().parse().map_err(|_| self.wrong("a number")),
            _ => Err(self.wrong("a number")),
        }
    }

    fn text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            Kind::Text(text) => visitor.visit_str(&text),
            Kind::Number(text) => visitor.visit_str(text),
            Kind::Bool(true) => visitor.visit_str("true"),
            Kind::Bool(false) => visitor.visit_str("false"),
            _ => Err(self.wrong("a text")),
        }
    }

    /// An object that fastjson also accepts as a text that holds one.
    fn object_in_text(&self) -> Option<Result<Value<'_>, Error>> {
        match &self.kind {
            Kind::Text(text) if text.trim_start().starts_with('{') => Some(
                Parser::new(text)
                    .document()
                    .map_err(|e| Error::at(self.at, e.to_string())),
            ),
            _ => None,
        }
    }

    const fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }
}

macro_rules! integers {
    ($($method:ident => $visit:ident : $ty:ty),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let value = <$ty>::try_from(self.integer()?)
                .map_err(|_| self.wrong(concat!("a number of type ", stringify!($ty))))?;
            visitor.$visit(value)
        })*
    };
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.kind {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool(b) => visitor.visit_bool(*b),
            Kind::Number(text) => {
                if let Ok(number) = text.parse::<i64>() {
                    visitor.visit_i64(number)
                } else if let Ok(number) = text.parse::<u64>() {
                    visitor.visit_u64(number)
                } else {
                    visitor.visit_f64(self.float()?)
                }
            }
            Kind::Text(text) => visitor.visit_str(text),
            Kind::List(_) => self.deserialize_seq(visitor),
            Kind::Object(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.kind {
            Kind::Bool(b) => visitor.visit_bool(*b),
            Kind::Number(text) => visitor.visit_bool(*text == "1"),
            Kind::Text(text) => visitor.visit_bool(text.eq_ignore_ascii_case("true") || text == "1"),
            _ => Err(self.wrong("a boolean")),
        }
    }

    integers! {
        deserialize_i8 => visit_i8: i8, deserialize_i16 => visit_i16: i16,
        deserialize_i32 => visit_i32: i32, deserialize_i64 => visit_i64: i64,
        deserialize_u8 => visit_u8: u8, deserialize_u16 => visit_u16: u16,
        deserialize_u32 => visit_u32: u32, deserialize_u64 => visit_u64: u64,
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.float()?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.float()?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            Kind::Text(text) => visitor.visit_string(text.into_owned()),
            _ => self.text(visitor),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
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

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            Kind::List(items) => visitor.visit_seq(Items(items.into_iter())),
            _ => Err(self.wrong("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if let Some(inner) = self.object_in_text() {
            return inner?.deserialize_map(visitor);
        }
        match self.kind {
            Kind::Object(entries) => visitor.visit_map(Entries {
                entries: entries.into_iter(),
                value: None,
                name: String::new(),
            }),
            _ => Err(self.wrong("an object")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some(inner) = self.object_in_text() {
            return inner?.deserialize_struct(name, fields, visitor);
        }
        let at = self.at;
        match self.kind {
            Kind::Object(entries) => visitor
                .visit_map(Fields {
                    entries: entries.into_iter(),
                    fields,
                    seen: vec![false; fields.len()],
                    value: None,
                })
                .map_err(|mut e| {
                    // A missing field: serde knows its name, the object's begin is where it should be.
                    e.at.get_or_insert(at);
                    e
                }),
            _ => Err(self.wrong("an object")),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = match &self.kind {
            Kind::Text(text) => text.trim(),
            Kind::Number(text) => text,
            _ => return Err(self.wrong("the name of a constant")),
        };
        let named = variants.iter().find(|v| v.eq_ignore_ascii_case(text));
        let chosen = named.or_else(|| text.parse::<usize>().ok().and_then(|i| variants.get(i)));
        match chosen {
            Some(variant) => {
                let name: StrDeserializer<'_, Error> = (*variant).into_deserializer();
                visitor.visit_enum(name)
            }
            None => Err(self.wrong(&format!("one of {}", variants.join(", ")))),
        }
    }

    serde::forward_to_deserialize_any! { bytes byte_buf }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }
}

/// A list; null elements are stepped over.
struct Items<'a>(std::vec::IntoIter<Value<'a>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.0.find(|item| !item.is_null()) {
            Some(item) => {
                let at = item.at;
                seed.deserialize(item).map(Some).map_err(|mut e| {
                    e.at.get_or_insert(at);
                    e
                })
            }
            None => Ok(None),
        }
    }
}

/// An object as a map; entries with a null value are stepped over, as Java leaves them out when it writes.
struct Entries<'a> {
    entries: std::vec::IntoIter<(Value<'a>, Value<'a>)>,
    value: Option<Value<'a>>,
    /// The key as text, for errors.
    name: String,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((key, value)) = self.entries.find(|(_, value)| !value.is_null()) else {
            return Ok(None);
        };
        self.value = Some(value);
        self.name.clear();
        match &key.kind {
            Kind::Text(text) => self.name.push_str(text),
            Kind::Number(text) => self.name.push_str(text),
            _ => self.name.push_str("{…}"),
        }
        let at = key.at;
        seed.deserialize(key)
            .map(Some)
            .map_err(|e| e.within(at, &self.name))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some(value) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let at = value.at;
        seed.deserialize(value).map_err(|e| e.within(at, &self.name))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// An object as a struct: the last of equal names wins, unknown names and nulls are stepped over.
struct Fields<'a> {
    entries: std::vec::IntoIter<(Value<'a>, Value<'a>)>,
    fields: &'static [&'static str],
    seen: Vec<bool>,
    value: Option<(&'static str, Value<'a>)>,
}

impl Fields<'_> {
    /// Index of the field that a key means: by its exact name, else without case, `_`, `-` and a leading `is`.
    fn find(&self, key: &Value<'_>) -> Option<usize> {
        let name = match &key.kind {
            Kind::Text(text) => text.as_ref(),
            Kind::Number(text) => text,
            _ => return None,
        };
        let exact = self.fields.iter().position(|f| *f == name);
        exact.or_else(|| {
            let folded = fold(name);
            let find = |name: &str| self.fields.iter().position(|f| fold(f) == name);
            find(&folded).or_else(|| folded.strip_prefix("is").and_then(find))
        })
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        while let Some((key, value)) = self.entries.next_back() {
            if value.is_null() {
                continue;
            }
            let Some(index) = self.find(&key) else { continue };
            if std::mem::replace(&mut self.seen[index], true) {
                continue;
            }
            let name = self.fields[index];
            self.value = Some((name, value));
            let name: StrDeserializer<'_, Error> = name.into_deserializer();
            return seed.deserialize(name).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some((name, value)) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let at = value.at;
        seed.deserialize(value).map_err(|e| e.within(at, name))
    }
}
