//! Tests on what is in a message: its properties, its body, a value of a JSON body.

use std::str::FromStr;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::Message;

/// Compiled size an expression may have, bytes.
const PATTERN_SIZE: usize = 1 << 18;

/// A test on a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// A property has this value.
    Property(String, String),
    /// The body contains this text.
    Contains(String),
    /// A value in a JSON body.
    Json(JsonTest),
    /// It has this tag.
    Tag(String),
    /// It has this key, or it is its unique key.
    Key(String),
    /// The body as text, keys, tag or a property fits the expression.
    Regex(Pattern),
}

impl Test {
    /// True for a message that passes.
    pub fn passes(&self, message: &Message) -> bool {
        match self {
            Self::Property(name, value) => message.property(name) == Some(value),
            Self::Contains(text) => memchr(&message.body, text.as_bytes()),
            Self::Json(test) => test.passes(&message.body),
            Self::Tag(tag) => message.tag() == Some(tag),
            Self::Key(key) => message.unique_key() == Some(key) || message.keys().contains(key),
            Self::Regex(pattern) => pattern.found_in(message),
        }
    }
}

/// True when `text` is part of `body`.
fn memchr(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|part| part == text)
}

/// `order.id=7`: a value in a JSON body, by its path, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonTest {
    path: Vec<String>,
    op: &'static str,
    value: String,
}

impl FromStr for JsonTest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at, op) = ["!=", ">=", "<=", "=", "~", ">", "<"]
            .into_iter()
            .filter_map(|op| text.find(op).map(|at| (at, op)))
            .min_by_key(|(at, op)| (*at, std::cmp::Reverse(op.len())))
            .ok_or_else(|| format!("\"{text}\" is not PATH OP VALUE with = != ~ > >= < <="))?;
        let path: Vec<String> = text[..at]
            .trim()
            .trim_start_matches(['$', '.'])
            .split('.')
            .map(|part| part.trim().to_owned())
            .collect();
        if path.iter().any(String::is_empty) {
            return Err(format!("\"{text}\" names no value; use a path such as order.id"));
        }
        Ok(Self {
            path,
            op,
            value: text[at + op.len()..].trim().trim_matches(['\'', '"']).to_owned(),
        })
    }
}

impl JsonTest {
    /// True for a JSON body whose value passes.
    pub fn passes(&self, body: &[u8]) -> bool {
        let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
            return false;
        };
        for part in &self.path {
            let next = match &value {
                Value::Object(map) => map.get(part).cloned(),
                Value::Array(list) => part.parse::<usize>().ok().and_then(|i| list.get(i).cloned()),
                _ => None,
            };
            match next {
                Some(next) => value = next,
                None => return self.op == "!=",
            }
        }
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let order = match (text.parse::<f64>(), self.value.parse::<f64>()) {
            (Ok(a), Ok(b)) => a.partial_cmp(&b),
            _ => Some(text.as_str().cmp(self.value.as_str())),
        };
        use std::cmp::Ordering::{Equal, Greater, Less};
        match self.op {
            "=" => order == Some(Equal),
            "!=" => order != Some(Equal),
            "~" => text.contains(&self.value),
            ">" => order == Some(Greater),
            ">=" => matches!(order, Some(Greater | Equal)),
            "<" => order == Some(Less),
            _ => matches!(order, Some(Less | Equal)),
        }
    }
}

/// A regular expression, without regard to case.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        RegexBuilder::new(text)
            .case_insensitive(true)
            .size_limit(PATTERN_SIZE)
            .build()
            .map(Self)
            .map_err(|_| format!("\"{text}\" is not a regular expression"))
    }
}

impl Pattern {
    fn found_in(&self, message: &Message) -> bool {
        self.0.is_match(&String::from_utf8_lossy(&message.body))
            || message.properties.iter().any(|(_, value)| self.0.is_match(value))
    }
}

impl FromStr for Test {
    type Err = String;

    /// `tag:A`, `key:K`, `prop:NAME=VALUE`, `body:TEXT`, `json:PATH=VALUE` (with = != ~ > >= < <=); anything else is a
    /// regular expression.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.split_once(':') {
            Some(("tag", tag)) => Ok(Self::Tag(tag.trim().to_owned())),
            Some(("key", key)) => Ok(Self::Key(key.trim().to_owned())),
            Some(("prop", pair)) => match pair.split_once('=') {
                Some((name, value)) if !name.trim().is_empty() => {
                    Ok(Self::Property(name.trim().to_owned(), value.trim().to_owned()))
                }
                _ => Err(format!("\"{pair}\" is not NAME=VALUE")),
            },
            Some(("body", part)) => Ok(Self::Contains(part.to_owned())),
            Some(("json", test)) => test.parse().map(Self::Json),
            _ => text.parse().map(Self::Regex),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_a_json_body_is_compared_by_its_path() {
        let body = br#"{"order":{"id":7,"tags":["a","b"]},"note":"late"}"#;
        let passes = |text: &str| text.parse::<JsonTest>().unwrap().passes(body);
        for yes in [
            "order.id=7",
            "$.order.id>=7",
            "order.tags.1='b'",
            "note~at",
            "gone!=1",
            "order.id<10",
        ] {
            assert!(passes(yes), "{yes}");
        }
        for no in ["order.id=8", "order.id>7", "gone=1", "note=lat"] {
            assert!(!passes(no), "{no}");
        }
        assert!(!"a=1".parse::<JsonTest>().unwrap().passes(b"no json"));
        for bad in ["", "a", "=1", "a..b=1"] {
            assert!(bad.parse::<JsonTest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_test_is_read_as_it_is_typed() {
        let mut message = Message::empty();
        message.properties = vec![
            ("TAGS".into(), "pay".into()),
            ("KEYS".into(), "o-1 u9".into()),
            ("UNIQ_KEY".into(), "U1".into()),
            ("region".into(), "eu".into()),
        ];
        message.body = bytes::Bytes::from_static(b"{\"id\":7}");
        let passes = |text: &str| text.parse::<Test>().unwrap().passes(&message);
        for yes in [
            "tag:pay",
            "key:u9",
            "key:U1",
            "prop:region=eu",
            "body:\"id\"",
            "json:id=7",
            "ID.:7",
            "o-\\d",
        ] {
            assert!(passes(yes), "{yes}");
        }
        for no in [
            "tag:ref",
            "key:u",
            "prop:region=us",
            "prop:zone=eu",
            "body:x",
            "json:id=8",
            "o-9",
        ] {
            assert!(!passes(no), "{no}");
        }
        for bad in ["((", "json:id", "prop:x"] {
            assert!(bad.parse::<Test>().is_err(), "{bad}");
        }
    }
}
