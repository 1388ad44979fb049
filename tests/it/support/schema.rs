//! What `rmq schema` says of the JSON that the tests see.
//!
//! With `RMQ_SCHEMAS=FILE` what any test sees is appended there, a line a document, and
//! `RMQ_SCHEMAS=FILE cargo test --test it schemas_are_written -- --ignored` adds it to `src/cli/schemas.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON schema, as much of it as is needed here. Objects below a field have keys of any name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Shape {
    #[serde(rename = "type", skip_serializing_if = "BTreeSet::is_empty")]
    types: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Box<Shape>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, Shape>,
}

/// What `rmq schema` knows of a kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Parts {
    item: Shape,
    summary: Shape,
}

impl Shape {
    fn of(value: &Value, named: bool) -> Self {
        let mut shape = Self::default();
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(n) if n.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(values) => {
                // Rows of a table within an object have named fields.
                let items = values.iter().map(|v| Self::of(v, true));
                shape.items = items.reduce(Self::and).map(Box::new);
                "array"
            }
            Value::Object(fields) => {
                if named {
                    let fields = fields.iter();
                    shape.properties = fields.map(|(k, v)| (k.clone(), Self::of(v, false))).collect();
                }
                "object"
            }
        };
        shape.types.insert(kind.to_owned());
        shape
    }

    fn and(mut self, other: Self) -> Self {
        self.types.extend(other.types);
        self.items = match (self.items, other.items) {
            (Some(a), Some(b)) => Some(Box::new(a.and(*b))),
            (a, b) => a.or(b),
        };
        for (key, shape) in other.properties {
            let known = self.properties.remove(&key).unwrap_or_default();
            self.properties.insert(key, known.and(shape));
        }
        self
    }

    /// What `seen` has and this does not.
    fn lacks(&self, seen: &Self, at: &str) -> Option<String> {
        // Nothing but null was seen of it: anything may come.
        let anything = self.types.is_empty();
        let types = seen.types.iter();
        let mut others = types.filter(|t| *t != "null" && !anything && !self.types.contains(*t));
        if let Some(kind) = others.next() {
            return Some(format!("{at} is {kind}"));
        }
        if let (Some(known), Some(items)) = (&self.items, &seen.items)
            && let Some(lack) = known.lacks(items, &format!("{at}[]"))
        {
            return Some(lack);
        }
        seen.properties.iter().find_map(|(key, shape)| {
            let at = format!("{at}.{key}");
            match self.properties.get(key) {
                Some(known) => known.lacks(shape, &at),
                None => Some(format!("{at} is not known")),
            }
        })
    }

    /// Null alone says nothing.
    fn settled(mut self) -> Self {
        if self.types.len() == 1 && self.types.contains("null") {
            self.types.clear();
        }
        self.items = self.items.map(|items| Box::new(items.settled()));
        let properties = std::mem::take(&mut self.properties).into_iter();
        self.properties = properties.map(|(k, v)| (k, v.settled())).collect();
        self
    }
}

impl Parts {
    /// Of a document, when the text is one.
    fn of(text: &str) -> Option<(String, Self)> {
        if !text.starts_with('{') {
            return None;
        }
        let document: Value = serde_json::from_str(text).ok()?;
        let kind = document["kind"].as_str()?.to_owned();
        let items = document["items"].as_array()?.iter();
        let parts = Self {
            item: items
                .map(|item| Shape::of(item, true))
                .reduce(Shape::and)
                .unwrap_or_default(),
            summary: Shape::of(&document["summary"], true),
        };
        Some((kind, parts))
    }
}

static KNOWN: LazyLock<BTreeMap<String, Parts>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../src/cli/schemas.json")).expect("src/cli/schemas.json is JSON")
});

/// Notes what a command printed, where that is collected.
pub fn collect(stdout: &str) {
    let Some(file) = std::env::var_os("RMQ_SCHEMAS") else {
        return;
    };
    let Some(seen) = Parts::of(stdout) else { return };
    let line = serde_json::to_string(&seen).unwrap() + "\n";
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    file.unwrap().write_all(line.as_bytes()).unwrap();
}

/// What the schema of its kind lacks of a document.
pub fn lack(stdout: &str) -> Option<String> {
    let Some((kind, seen)) = Parts::of(stdout) else {
        return Some(format!("no document: {stdout}"));
    };
    let Some(known) = KNOWN.get(&kind) else {
        return Some(format!("the kind {kind} is not known"));
    };
    let item = known.item.lacks(&seen.item, &kind);
    item.or_else(|| known.summary.lacks(&seen.summary, &format!("{kind}.summary")))
}

/// True for a kind that has a schema.
pub fn knows(kind: &str) -> bool {
    KNOWN.contains_key(kind)
}

#[test]
#[ignore = "writes src/cli/schemas.json of what RMQ_SCHEMAS holds"]
fn schemas_are_written() {
    let seen = std::fs::read_to_string(std::env::var("RMQ_SCHEMAS").expect("RMQ_SCHEMAS=FILE")).unwrap();
    let mut known = KNOWN.clone();
    for line in seen.lines() {
        let (kind, parts): (String, Parts) = serde_json::from_str(line).unwrap();
        let before = known.remove(&kind).unwrap_or_default();
        let both = Parts {
            item: before.item.and(parts.item),
            summary: before.summary.and(parts.summary),
        };
        known.insert(kind, both);
    }
    let settled = known.into_iter().map(|(kind, parts)| {
        let parts = Parts {
            item: parts.item.settled(),
            summary: parts.summary.settled(),
        };
        (kind, parts)
    });
    let settled: BTreeMap<String, Parts> = settled.collect();
    // A line a kind.
    let lines = settled
        .iter()
        .map(|(kind, parts)| format!("{}:{}", serde_json::json!(kind), serde_json::json!(parts)));
    let text = format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"));
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/schemas.json"), text).unwrap();
}
