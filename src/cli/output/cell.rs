//! One value, in each of the forms that it is printed in.

use serde_json::{Map, Value, json};

use crate::cli::time::{self, Zone};

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nobody said: `-` and `null`.
    Unknown,
    /// A text.
    Text(String),
    /// A number.
    Int(i64),
    /// A number with one decimal in tables.
    Float(f64),
    /// A part of one, shown as a percentage.
    Ratio(f64),
    /// `yes` or `no`.
    Bool(bool),
    /// Epoch ms.
    Time(i64),
    /// A span in ms; the column's key ends in `_ms`.
    Span(i64),
    /// Several texts.
    List(Vec<String>),
    /// Names and values.
    Pairs(Vec<(String, String)>),
    /// What brokers say differently, for a person. In JSON it is null: a field has one type there.
    Differs(String),
}

impl From<&str> for Cell {
    fn from(v: &str) -> Self {
        Self::Text(v.to_owned())
    }
}
impl From<String> for Cell {
    fn from(v: String) -> Self {
        Self::Text(v)
    }
}
impl From<i64> for Cell {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}
impl From<i32> for Cell {
    fn from(v: i32) -> Self {
        Self::Int(v.into())
    }
}
impl From<usize> for Cell {
    fn from(v: usize) -> Self {
        Self::Int(i64::try_from(v).unwrap_or(i64::MAX))
    }
}
impl From<f64> for Cell {
    fn from(v: f64) -> Self {
        Self::Float(v)
    }
}
impl From<bool> for Cell {
    fn from(v: bool) -> Self {
        Self::Bool(v)
    }
}
impl From<Vec<String>> for Cell {
    fn from(v: Vec<String>) -> Self {
        Self::List(v)
    }
}
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(v: Option<T>) -> Self {
        v.map_or(Self::Unknown, Into::into)
    }
}

impl Cell {
    /// A point in time, if there is one.
    pub fn time(ms: Option<i64>) -> Self {
        ms.filter(|ms| *ms > 0).map_or(Self::Unknown, Self::Time)
    }

    /// A span, if there is one.
    pub fn span(span: Option<std::time::Duration>) -> Self {
        span.map_or(Self::Unknown, |s| {
            Self::Span(i64::try_from(s.as_millis()).unwrap_or(i64::MAX))
        })
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Int(_) | Self::Float(_) | Self::Ratio(_) | Self::Span(_)
        )
    }

    pub(in crate::cli) fn number(&self) -> Option<f64> {
        match self {
            Self::Int(v) | Self::Time(v) | Self::Span(v) => Some(*v as f64),
            Self::Float(v) | Self::Ratio(v) => Some(*v),
            _ => None,
        }
    }

    /// For a person. Control characters are escaped: a message body must not drive the terminal.
    pub(super) fn text(&self, zone: &Zone) -> String {
        match self {
            Self::Unknown => "-".into(),
            Self::Text(v) | Self::Differs(v) => printable(v),
            Self::Int(v) => v.to_string(),
            Self::Float(v) => format!("{v:.1}"),
            Self::Ratio(v) => format!("{:.0}%", v * 100.0),
            Self::Bool(v) => if *v { "yes" } else { "no" }.into(),
            Self::Time(ms) => zone.text(*ms).unwrap_or_else(|| ms.to_string()),
            Self::Span(ms) => time::duration(std::time::Duration::from_millis(ms.unsigned_abs())),
            Self::List(v) if v.is_empty() => "-".into(),
            Self::List(v) => printable(&v.join(",")),
            Self::Pairs(v) if v.is_empty() => "-".into(),
            Self::Pairs(v) => printable(&joined(v, ",")),
        }
    }

    /// For a program that reads text: full precision, no units.
    pub(in crate::cli) fn raw(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Text(v) | Self::Differs(v) => v.clone(),
            Self::Int(v) | Self::Span(v) => v.to_string(),
            Self::Float(v) | Self::Ratio(v) => v.to_string(),
            Self::Bool(v) => v.to_string(),
            Self::Time(ms) => time::rfc3339(*ms).unwrap_or_else(|| ms.to_string()),
            Self::List(v) => v.join(";"),
            Self::Pairs(v) => joined(v, ";"),
        }
    }

    pub(super) fn json(&self, key: &str, out: &mut Map<String, Value>) {
        let value = match self {
            Self::Unknown | Self::Differs(_) => Value::Null,
            Self::Text(v) => json!(v),
            Self::Int(v) | Self::Span(v) => json!(v),
            Self::Float(v) | Self::Ratio(v) => json!(v),
            Self::Bool(v) => json!(v),
            Self::Time(ms) => {
                out.insert(key.to_owned(), json!(time::rfc3339(*ms)));
                out.insert(format!("{key}_ms"), json!(ms));
                return;
            }
            Self::List(v) => json!(v),
            // Of several values of one name the last one counts, as in Java.
            Self::Pairs(v) => Value::Object(v.iter().map(|(k, v)| (k.clone(), json!(v))).collect()),
        };
        out.insert(key.to_owned(), value);
    }
}

fn joined(pairs: &[(String, String)], between: &str) -> String {
    let words: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
    words.join(between)
}

/// `text` with control characters as escapes.
pub fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> = if c.is_control() {
                Box::new(c.escape_default())
            } else {
                Box::new(std::iter::once(c))
            };
            escaped
        })
        .collect()
}

/// Numbers by their size, all else by its text.
pub(super) fn compare(a: &Cell, b: &Cell) -> std::cmp::Ordering {
    match (a.number(), b.number()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.raw().cmp(&b.raw()),
    }
}
