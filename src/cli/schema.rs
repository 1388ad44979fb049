//! `rmq schema`: what the JSON of each kind of answer looks like.
//!
//! `schemas.json` holds what the integration tests saw of every kind; `tests/it/support/schema.rs` writes it, and says
//! how. Tests compare it with what is printed and with the kinds that the source names.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::exit::{self, Failure};
use super::output::{Cell, Listing, col};
use super::session::{Global, Session};

/// Kind -> JSON schemas of an item and of the summary.
const SCHEMAS: &str = include_str!("schemas.json");

/// Prints the schema of a kind, or the kinds that there are.
pub fn run(global: &Global, kind: Option<&str>) -> Result<(), Failure> {
    let known: Map<String, Value> = serde_json::from_str(SCHEMAS).expect("a test reads the file");
    let Some(kind) = kind else {
        return list(global, &known);
    };
    let Some(parts) = known.get(kind) else {
        let similar = crate::client::similar(kind, known.keys().map(String::as_str));
        let failure = Failure::new(exit::NOT_FOUND, format!("no answer is of the kind \"{kind}\""));
        return Err(match similar.is_empty() {
            true => failure.hint("rmq schema lists the kinds"),
            false => failure.because(format!("There is: {}.", similar.join(", "))),
        });
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &document(kind, parts)).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// The schema of a whole document.
fn document(kind: &str, parts: &Value) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind,
        "description": "What -o json prints; -o jsonl prints the items alone. A field that a server does not tell is null.",
        "type": "object",
        "required": ["kind", "apiVersion", "context", "items", "summary", "errors"],
        "properties": {
            "kind": { "const": kind },
            "apiVersion": { "const": "rmq/v1" },
            "context": { "type": ["string", "null"] },
            "items": { "type": "array", "items": or_null(&parts["item"]) },
            "summary": or_null(&parts["summary"]),
            "errors": { "type": "array", "items": failure() },
        },
    })
}

/// The same with null allowed in every field, down to those of the rows within it.
fn or_null(shape: &Value) -> Value {
    let mut shape = shape.clone();
    if let Some(items) = shape.get_mut("items") {
        *items = or_null(items);
    }
    for field in shape
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(Map::values_mut)
    {
        *field = or_null(field);
        if let Some(types) = field.get_mut("type").and_then(Value::as_array_mut)
            && !types.iter().any(|t| t == "null")
        {
            types.push("null".into());
        }
    }
    shape
}

/// The schema of a failure, as [`Failure::json`] writes it.
fn failure() -> Value {
    let text = json!({ "type": ["string", "null"] });
    let mut properties = Map::new();
    for field in ["remote_code_name", "remark", "target", "request", "why", "hint"] {
        properties.insert(field.to_owned(), text.clone());
    }
    properties.insert("kind".to_owned(), json!({ "type": "string" }));
    properties.insert("message".to_owned(), json!({ "type": "string" }));
    properties.insert("code".to_owned(), json!({ "type": "integer" }));
    properties.insert("remote_code".to_owned(), json!({ "type": ["integer", "null"] }));
    properties.insert("unsettled".to_owned(), json!({ "type": "boolean" }));
    json!({ "type": "object", "properties": properties })
}

fn list(global: &Global, known: &Map<String, Value>) -> Result<(), Failure> {
    let session = Session::new(global)?;
    let mut listing = Listing::new("SchemaList", &[col("kind"), col("fields")]);
    for (kind, parts) in known {
        let fields = parts["item"]["properties"].as_object();
        let names = fields.into_iter().flat_map(Map::keys).cloned().collect();
        listing.push(vec![kind.as_str().into(), Cell::List(names)]);
    }
    session.printer.print(listing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_field_of_a_failure_is_in_its_schema() {
        let schema = failure();
        let told = Failure::new(exit::REJECTED, "no").json();
        let keys = |value: &Value| {
            value
                .as_object()
                .map(|o| o.keys().cloned().collect::<std::collections::BTreeSet<_>>())
        };
        assert_eq!(keys(&schema["properties"]), keys(&told));
    }

    /// Fields that are one thing of any type: what a broker says of each of its keys.
    const OF_ANY_TYPE: &[(&str, &str)] = &[("BrokerStats", "value")];

    /// The scalar types of every field below `shape`, with where it was seen.
    fn scalars(at: &str, shape: &Value, seen: &mut BTreeMap<String, BTreeMap<&'static str, String>>) {
        for (field, shape) in shape["properties"].as_object().into_iter().flatten() {
            for kind in shape["type"].as_array().into_iter().flatten() {
                let kind = match kind.as_str() {
                    Some("string") => "text",
                    Some("integer" | "number") => "number",
                    Some("boolean") => "boolean",
                    _ => continue,
                };
                if !OF_ANY_TYPE.contains(&(at, field.as_str())) {
                    let kinds = seen.entry(field.clone()).or_default();
                    kinds.entry(kind).or_insert_with(|| at.to_owned());
                }
            }
            scalars(&format!("{at}.{field}"), shape, seen);
            scalars(&format!("{at}.{field}[]"), &shape["items"], seen);
        }
    }

    #[test]
    fn a_field_has_one_type_in_every_answer() {
        let known: Map<String, Value> = serde_json::from_str(SCHEMAS).unwrap();
        let mut seen = BTreeMap::new();
        for (kind, parts) in &known {
            scalars(kind, &parts["item"], &mut seen);
            scalars(&format!("summary of {kind}"), &parts["summary"], &mut seen);
        }
        seen.retain(|_, kinds| kinds.len() > 1);
        assert!(seen.is_empty(), "{seen:#?}");
    }

    #[test]
    fn null_is_allowed_in_rows_within_rows() {
        let shape = json!({ "type": ["object"], "properties": { "rows": { "type": ["array"], "items": {
            "type": ["object"], "properties": { "committed": { "type": ["integer"] } } } } } });
        let known = or_null(&shape);
        let committed = &known["properties"]["rows"]["items"]["properties"]["committed"];
        assert_eq!(committed["type"], json!(["integer", "null"]));
    }
}
