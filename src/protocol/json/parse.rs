//! The parser: UTF-8 text to a small tree, or straight to a frame header.

use std::borrow::Cow;

use super::HeaderText;
use super::read::Error;
use crate::fields::Fields;
use crate::protocol::model::Language;

/// Deepest nesting of lists and objects; the deepest known body has six levels.
const MAX_DEPTH: u32 = 64;

/// A value and the byte it begins at.
#[derive(Debug)]
pub(super) struct Value<'a> {
    pub(super) at: usize,
    pub(super) kind: Kind<'a>,
}

/// What a value is. The keys of an object may be texts, numbers or objects.
#[derive(Debug)]
pub(super) enum Kind<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
    Object(Vec<(Value<'a>, Value<'a>)>),
}

pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// One value and nothing behind it.
    pub(super) fn document(&mut self) -> Result<Value<'a>, Error> {
        self.begin();
        let value = self.value()?;
        self.end()?;
        Ok(value)
    }

    /// A frame header.
    pub(super) fn header(&mut self) -> Result<HeaderText, Error> {
        let mut header = HeaderText::default();
        self.begin();
        self.open(b'{')?;
        while !self.close(b'}')? {
            let key = self.name()?;
            self.colon()?;
            self.header_field(&key, &mut header)?;
            self.separator(b'}')?;
        }
        self.end()?;
        Ok(header)
    }

    fn header_field(&mut self, key: &str, header: &mut HeaderText) -> Result<(), Error> {
        match key {
            "code" => header.code = self.integer()?,
            "flag" => header.flag = self.integer()?,
            "opaque" => header.opaque = self.integer()?,
            "version" => header.version = self.integer()?,
            "language" => header.language = self.language()?,
            "remark" => header.remark = self.scalar()?.map(Cow::into_owned),
            "extFields" => self.ext_fields(&mut header.ext_fields)?,
            // Written by Java in every header; the frame's type byte is what counts.
            "serializeTypeCurrentRPC" => drop(self.value()?),
            _ => {
                let folded = fold(key);
                let known = [
                    "code",
                    "flag",
                    "opaque",
                    "version",
                    "language",
                    "remark",
                    "extFields",
                ];
                match known.iter().find(|k| **k != key && fold(k) == folded) {
                    Some(known) => self.header_field(known, header)?,
                    None => drop(self.value()?),
                }
            }
        }
        Ok(())
    }

    /// `name: value` pairs of scalars; a composite value is kept as its text.
    fn ext_fields(&mut self, fields: &mut Fields) -> Result<(), Error> {
        if self.peek() != Some(b'{') {
            return match self.value()?.kind {
                Kind::Null => Ok(()),
                _ => Err(self.error("extFields is not an object")),
            };
        }
        self.open(b'{')?;
        // The source is longer than the texts in it, and it is here already.
        fields.reserve(16, self.text.len() - self.at);
        while !self.close(b'}')? {
            let name = self.name()?;
            self.colon()?;
            match self.peek() {
                Some(quote @ (b'"' | b'\'')) => {
                    fields.push_with(&name, |out| self.string_into(quote, out))?;
                }
                _ => {
                    if let Some(text) = self.scalar()? {
                        fields.push_str(&name, &text);
                    }
                }
            }
            self.separator(b'}')?;
        }
        Ok(())
    }

    /// An i32, given as number or text; null is 0.
    fn integer(&mut self) -> Result<i32, Error> {
        let at = self.at;
        match self.scalar()? {
            None => Ok(0),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| Error::at(at, format!("`{text}` is not a 32-bit number"))),
        }
    }

    fn language(&mut self) -> Result<Option<Language>, Error> {
        Ok(self.scalar()?.and_then(|text| {
            Language::from_name(&text).or_else(|| text.parse().ok().and_then(Language::from_ordinal))
        }))
    }

    /// The text of a scalar, or the source of a list or object; `None` for null.
    fn scalar(&mut self) -> Result<Option<Cow<'a, str>>, Error> {
        let value = self.value()?;
        Ok(match value.kind {
            Kind::Null => None,
            Kind::Bool(true) => Some("true".into()),
            Kind::Bool(false) => Some("false".into()),
            Kind::Number(text) => Some(text.into()),
            Kind::Text(text) => Some(text),
            Kind::List(_) | Kind::Object(_) => Some(self.text[value.at..self.at].into()),
        })
    }

    fn value(&mut self) -> Result<Value<'a>, Error> {
        let Some(first) = self.peek() else {
            return Err(self.error("a value is missing"));
        };
        let at = self.at;
        let kind = match first {
            b'{' => self.object()?,
            b'[' => self.list()?,
            b'"' | b'\'' => Kind::Text(self.string(first)?),
            b'-' | b'+' | b'0'..=b'9' => Kind::Number(self.number()?),
            _ => match self.identifier() {
                "true" => Kind::Bool(true),
                "false" => Kind::Bool(false),
                // fastjson writes null for these and reads them as null.
                "null" | "undefined" | "NaN" => Kind::Null,
                _ => return Err(Error::at(at, "not a value")),
            },
        };
        Ok(Value { at, kind })
    }

    fn object(&mut self) -> Result<Kind<'a>, Error> {
        self.enter()?;
        self.open(b'{')?;
        let mut entries = Vec::new();
        while !self.close(b'}')? {
            let key = self.key()?;
            self.colon()?;
            entries.push((key, self.value()?));
            self.separator(b'}')?;
        }
        self.depth -= 1;
        Ok(Kind::Object(entries))
    }

    fn list(&mut self) -> Result<Kind<'a>, Error> {
        self.enter()?;
        self.open(b'[')?;
        let mut items = Vec::new();
        while !self.close(b']')? {
            items.push(self.value()?);
            self.separator(b']')?;
        }
        self.depth -= 1;
        Ok(Kind::List(items))
    }

    /// A key: text, number, object, or a name without quotes.
    fn key(&mut self) -> Result<Value<'a>, Error> {
        match self.peek() {
            Some(b'"' | b'\'' | b'{' | b'-' | b'0'..=b'9') => self.value(),
            _ => {
                let at = self.at;
                match self.identifier() {
                    "" => Err(Error::at(at, "a key is missing")),
                    name => Ok(Value {
                        at,
                        kind: Kind::Text(name.into()),
                    }),
                }
            }
        }
    }

    /// A key as text.
    fn name(&mut self) -> Result<Cow<'a, str>, Error> {
        if let Some(quote @ (b'"' | b'\'')) = self.peek() {
            return self.string(quote);
        }
        let key = self.key()?;
        match key.kind {
            Kind::Text(name) => Ok(name),
            Kind::Number(name) => Ok(name.into()),
            _ => Err(Error::at(key.at, "a name is missing")),
        }
    }

    fn string(&mut self, quote: u8) -> Result<Cow<'a, str>, Error> {
        let start = self.at + 1;
        let end = start + plain_run(&self.text.as_bytes()[start..], quote);
        if self.text.as_bytes().get(end) == Some(&quote) {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&self.text[start..end]));
        }
        let mut out = String::new();
        self.string_into(quote, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// Appends the unescaped string that begins at the quote here.
    fn string_into(&mut self, quote: u8, out: &mut String) -> Result<(), Error> {
        let open = self.at;
        self.at += 1;
        loop {
            let bytes = self.text.as_bytes();
            let run = plain_run(&bytes[self.at..], quote);
            out.push_str(&self.text[self.at..self.at + run]);
            self.at += run;
            match bytes.get(self.at) {
                None => return Err(Error::at(open, "the string is not closed")),
                Some(b'\\') => self.escape(out)?,
                Some(_) => {
                    self.at += 1;
                    return Ok(());
                }
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), Error> {
        let at = self.at;
        let bytes = self.text.as_bytes();
        let kind = bytes.get(at + 1).copied().unwrap_or(0);
        self.at += 2;
        let c = match kind {
            b'"' | b'\'' | b'\\' | b'/' => kind.into(),
            b'b' => '\u{8}',
            b'f' | b'F' => '\u{C}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\u{B}',
            b'0'..=b'7' => (kind - b'0').into(),
            b'x' => char::from_u32(self.hex(at, 2)?).unwrap_or(char::REPLACEMENT_CHARACTER),
            b'u' => {
                let unit = self.hex(at, 4)?;
                let low = match (unit, &bytes[self.at..]) {
                    (0xD800..=0xDBFF, [b'\\', b'u', ..]) => {
                        self.at += 2;
                        Some(self.hex(at, 4)?)
                    }
                    _ => None,
                };
                match low {
                    Some(low @ 0xDC00..=0xDFFF) => {
                        let point = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                        char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    Some(other) => {
                        // A high half alone; what follows stands for itself.
                        out.push(char::REPLACEMENT_CHARACTER);
                        char::from_u32(other).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    None => char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER),
                }
            }
            _ => return Err(Error::at(at, "unknown escape")),
        };
        out.push(c);
        Ok(())
    }

    fn hex(&mut self, at: usize, digits: usize) -> Result<u32, Error> {
        let text = self.text.as_bytes().get(self.at..self.at + digits);
        let value = text.and_then(|t| {
            t.iter().try_fold(0, |value, b| {
                char::from(*b).to_digit(16).map(|digit| value * 16 + digit)
            })
        });
        self.at += digits;
        value.ok_or_else(|| Error::at(at, "bad hexadecimal escape"))
    }

    /// The digits of a number, without the sign `+` and Java's type letter.
    fn number(&mut self) -> Result<&'a str, Error> {
        let bytes = self.text.as_bytes();
        if bytes[self.at] == b'+' {
            self.at += 1;
        }
        let start = self.at;
        let run = bytes[start..]
            .iter()
            .position(|b| !matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'))
            .unwrap_or(bytes.len() - start);
        self.at += run;
        let text = &self.text[start..self.at];
        if bytes.get(self.at).is_some_and(|b| b"LSBFDlsbfd".contains(b)) {
            self.at += 1;
        }
        let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
        if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) || text.parse::<f64>().is_ok() {
            Ok(text)
        } else {
            Err(Error::at(start, "not a number"))
        }
    }

    fn identifier(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.' | '@')))
            .unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        Ok(())
    }

    fn begin(&mut self) {
        if self.text.starts_with('\u{FEFF}') {
            self.at = '\u{FEFF}'.len_utf8();
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("more than one value")),
        }
    }

    fn open(&mut self, bracket: u8) -> Result<(), Error> {
        if self.peek() != Some(bracket) {
            return Err(self.error("an object or list is missing"));
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over spare commas, and over the closing bracket if it is next.
    fn close(&mut self, bracket: u8) -> Result<bool, Error> {
        loop {
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(next) if next == bracket => {
                    self.at += 1;
                    return Ok(true);
                }
                Some(_) => return Ok(false),
                None => return Err(self.error("an object or list is not closed")),
            }
        }
    }

    /// Checks that a comma or the closing bracket is next.
    fn separator(&mut self, bracket: u8) -> Result<(), Error> {
        match self.peek() {
            Some(next) if next == b',' || next == bracket => Ok(()),
            Some(_) => Err(self.error("a comma is missing")),
            None => Err(self.error("an object or list is not closed")),
        }
    }

    fn colon(&mut self) -> Result<(), Error> {
        if self.peek() != Some(b':') {
            return Err(self.error("a colon is missing"));
        }
        self.at += 1;
        Ok(())
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&b) = bytes.get(self.at) {
            if !matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x8 | 0xC | 0) {
                return Some(b);
            }
            self.at += 1;
        }
        None
    }

    fn error(&self, reason: &'static str) -> Error {
        Error::at(self.at, reason)
    }
}

/// How many bytes there are before the next quote or backslash.
fn plain_run(bytes: &[u8], quote: u8) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quotes = LOW * u64::from(quote);
    let backslashes = LOW * u64::from(b'\\');
    let (words, _) = bytes.as_chunks::<8>();
    let mut at = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let (a, b) = (word ^ quotes, word ^ backslashes);
        // A byte of zero in `a` or `b` borrows into its top bit. A byte above it may be marked wrongly, the
        // lowest mark never is.
        let marks = (a.wrapping_sub(LOW) & !a | b.wrapping_sub(LOW) & !b) & HIGH;
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + bytes[at..]
        .iter()
        .position(|b| *b == quote || *b == b'\\')
        .unwrap_or(bytes.len() - at)
}

/// A name without case, `_` and `-`, as fastjson compares names it does not know.
pub(super) fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .map(|c| c.to_ascii_lowercase())
        .collect()
}
