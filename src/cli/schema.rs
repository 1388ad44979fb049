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
            "errors": { "type": "array", "items": { "type": "object" } },
        },
    })
}

/// The same with null allowed in every field.
fn or_null(shape: &Value) -> Value {
    let mut shape = shape.clone();
    for field in shape["properties"]
        .as_object_mut()
        .into_iter()
        .flat_map(Map::values_mut)
    {
        if let Some(types) = field["type"].as_array_mut()
            && !types.iter().any(|t| t == "null")
        {
            types.push("null".into());
        }
    }
    shape
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
