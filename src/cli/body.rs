//! Bodies of messages: how they are shown, and tests on them.

use std::str::FromStr;

use clap::ValueEnum;
use serde_json::Value;

use super::output::Cell;
use crate::client::Message;
use crate::protocol::base64::STANDARD;

/// How a body is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BodyForm {
    /// Text when it is UTF-8, else hexadecimal
    Auto,
    /// Text, wrong bytes replaced
    Text,
    /// JSON on one line; text when it is none
    Json,
    /// Hexadecimal
    Hex,
    /// Base64
    Base64,
    /// Not at all
    None,
}

impl BodyForm {
    /// The body in this form.
    pub fn show(self, body: &[u8]) -> Cell {
        let hex = || body.iter().map(|b| format!("{b:02x}")).collect::<String>();
        match (self, std::str::from_utf8(body)) {
            (Self::None, _) => Cell::Unknown,
            (Self::Base64, _) => STANDARD.encode(body).into(),
            (Self::Hex, _) | (Self::Auto, Err(_)) => hex().into(),
            (Self::Json, Ok(text)) => match serde_json::from_str::<Value>(text) {
                Ok(value) => value.to_string().into(),
                Err(_) => text.into(),
            },
            (Self::Auto | Self::Text, Ok(text)) => text.into(),
            (Self::Text | Self::Json, Err(_)) => String::from_utf8_lossy(body).into_owned().into(),
        }
    }
}

/// `--decode`: the charset that text bodies are in.
#[derive(Debug, Clone, Copy)]
pub struct Charset(&'static encoding_rs::Encoding);

impl FromStr for Charset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        encoding_rs::Encoding::for_label(text.trim().as_bytes())
            .map(Self)
            .ok_or_else(|| format!("\"{text}\" is not a charset; use utf-8, gbk, gb18030, big5, shift_jis, euc-kr, latin1 or another of the web's names"))
    }
}

impl Charset {
    /// The bytes as UTF-8.
    pub fn decode(self, body: &[u8]) -> Vec<u8> {
        self.0.decode(body).0.into_owned().into_bytes()
    }
}

/// A test on a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// A property has this value.
    Property(String, String),
    /// The body contains this text.
    Contains(String),
    /// A value in a JSON body.
    Json(JsonTest),
}

impl Test {
    /// True for a message that passes.
    pub fn passes(&self, message: &Message) -> bool {
        match self {
            Self::Property(name, value) => message.property(name) == Some(value),
            Self::Contains(text) => memchr(&message.body, text.as_bytes()),
            Self::Json(test) => test.passes(&message.body),
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
    fn passes(&self, body: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_shown_in_each_form() {
        assert_eq!(BodyForm::Auto.show(b"\xff"), Cell::Text("ff".into()));
        assert_eq!(
            BodyForm::Json.show(b"{\n \"a\": 1}"),
            Cell::Text("{\"a\":1}".into())
        );
        assert_eq!(BodyForm::Base64.show(b"\xff\xfe"), Cell::Text("//4=".into()));
        assert_eq!(BodyForm::None.show(b"x"), Cell::Unknown);
        let gbk: Charset = "gbk".parse().unwrap();
        assert_eq!(gbk.decode(b"\xb6\xa9\xb5\xa5"), "订单".as_bytes());
        assert!("nonsense".parse::<Charset>().is_err());
    }

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
}
