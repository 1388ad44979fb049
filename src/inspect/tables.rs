//! The small files under `config/`: which of them can be read, and which copy a broker would take.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Error, Store, io_error};
use crate::protocol::json;
use crate::store::format::timer_check;

/// Largest table that is read.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// Tables in JSON whose name does not say so; every other one is text.
const JSON_NAMES: [&str; 2] = ["timermetrics", "transactionMetrics"];
/// What a save leaves behind when it is cut short.
const LEFTOVERS: [&str; 2] = [".tmp", ".old"];

/// How one copy of a table is.
#[derive(Debug, Clone, PartialEq)]
pub enum TableState {
    /// There is none.
    Missing,
    /// It has no bytes, or only blanks and zeros.
    Empty,
    /// It can be read.
    Good(Value),
    /// It cannot be read.
    Broken(String),
}

impl TableState {
    /// True when a broker can load it.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Good(_))
    }

    /// One word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Empty => "empty",
            Self::Good(_) => "good",
            Self::Broken(_) => "broken",
        }
    }
}

/// One table and its backup.
#[derive(Debug, Clone, PartialEq)]
pub struct TableFile {
    /// Name of the file.
    pub name: String,
    /// Its bytes; `None` when it is missing.
    pub bytes: Option<u64>,
    /// How it is.
    pub state: TableState,
    /// How `<name>.bak` is.
    pub backup: TableState,
}

impl TableFile {
    /// What a broker would load: the file, else its backup, else nothing.
    pub fn content(&self) -> Option<&Value> {
        match (&self.state, &self.backup) {
            (TableState::Good(value), _) | (_, TableState::Good(value)) => Some(value),
            _ => None,
        }
    }

    /// How many entries its main map has.
    pub fn entries(&self) -> Option<usize> {
        let content = self.content()?.as_object()?;
        let key = [
            "topicConfigTable",
            "subscriptionGroupTable",
            "offsetTable",
            "filterDataByTopic",
            "table",
            "timingCount",
            "transactionCount",
            "messageRequestModeMap",
        ]
        .into_iter()
        .find(|key| content.contains_key(*key))?;
        content.get(key)?.as_object().map(Map::len)
    }

    /// The counter of its version.
    pub fn version(&self) -> Option<i64> {
        self.content()?.get("dataVersion")?.get("counter")?.as_i64()
    }
}

/// The tables of a store, by name.
pub fn tables(store: &Store) -> Result<Vec<TableFile>, Error> {
    let dir = store.root().join("config");
    let entries = match std::fs::read_dir(&dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_error("list", &dir))?,
    };
    let mut names = std::collections::BTreeSet::new();
    for entry in entries {
        let entry = entry.map_err(io_error("list", &dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && !LEFTOVERS.iter().any(|end| name.ends_with(end)) {
            names.insert(name.strip_suffix(".bak").unwrap_or(&name).to_owned());
        }
    }
    Ok(names.into_iter().map(|name| read(&dir, name)).collect())
}

/// One table of a store by the name of its file; `None` when there is neither it nor its backup.
pub fn table(store: &Store, name: &str) -> Option<TableFile> {
    let table = read(&store.root().join("config"), name.to_owned());
    let is_there = table.state != TableState::Missing || table.backup != TableState::Missing;
    is_there.then_some(table)
}

fn read(dir: &Path, name: String) -> TableFile {
    let read = |file: &str| match std::fs::metadata(dir.join(file)) {
        Err(_) => None,
        Ok(meta) if meta.len() > MOST_BYTES => Some((
            meta.len(),
            TableState::Broken(format!("more than {MOST_BYTES} bytes")),
        )),
        Ok(meta) => Some(match std::fs::read(dir.join(file)) {
            Ok(bytes) => (bytes.len() as u64, parse(&name, &bytes)),
            Err(e) => (meta.len(), TableState::Broken(e.to_string())),
        }),
    };
    let (bytes, state) = read(&name).map_or((None, TableState::Missing), |(n, s)| (Some(n), s));
    let backup = read(&format!("{name}.bak")).map_or(TableState::Missing, |(_, s)| s);
    TableFile {
        name,
        bytes,
        state,
        backup,
    }
}

fn parse(name: &str, bytes: &[u8]) -> TableState {
    if name == "timercheck" {
        return timer_check_table(bytes);
    }
    if bytes.iter().all(|&b| b == 0 || b.is_ascii_whitespace()) {
        return TableState::Empty;
    }
    if !name.ends_with(".json") && !JSON_NAMES.contains(&name) {
        return match std::str::from_utf8(bytes) {
            Ok(text) => TableState::Good(json!({ "text": text })),
            Err(e) => TableState::Broken(e.to_string()),
        };
    }
    match json::from_slice(bytes) {
        Ok(value) => TableState::Good(value),
        Err(e) => TableState::Broken(e.to_string()),
    }
}

fn timer_check_table(bytes: &[u8]) -> TableState {
    let (words, _) = bytes.as_chunks::<8>();
    if words.len() < timer_check::NAMES.len() {
        return TableState::Broken(format!("{} bytes", bytes.len()));
    }
    let values = timer_check::NAMES
        .iter()
        .zip(words)
        .map(|(name, word)| ((*name).to_owned(), json!(i64::from_be_bytes(*word))))
        .collect();
    TableState::Good(Value::Object(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_tables_with_bare_numbers_are_good() {
        let state = parse(
            "consumerOffset.json",
            b"{\"offsetTable\":{\"t@g\":{0:12,1:5\n\t\t}}}",
        );
        let TableState::Good(value) = state else {
            panic!("{state:?}")
        };
        assert_eq!(value["offsetTable"]["t@g"]["1"], 5);
    }

    #[test]
    fn what_cannot_be_loaded_is_told_apart() {
        assert_eq!(parse("topics.json", b"\0\0"), TableState::Empty);
        assert!(matches!(parse("topics.json", b"{\"a\":"), TableState::Broken(_)));
        assert!(matches!(parse("timercheck", &[0; 55]), TableState::Broken(_)));
        let TableState::Good(value) = parse("timercheck", &[1; 4096]) else {
            panic!("56 bytes are enough")
        };
        assert_eq!(value["counter"], 0x0101_0101_0101_0101_i64);
    }
}
