//! Configuration files of the server roles: Java's `.properties` form, or TOML with the same flat keys.
//!
//! A file and its `--set key=value` overrides are one flat map of texts. [`ConfigFile::merge`] lays the keys that a
//! struct knows over its present values and refuses a value that does not fit with an error that names key, value
//! and what is allowed. Keys nobody knows are kept: they are reported once and written back.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{self, DeserializeOwned, Visitor};

use crate::fields::{self, Fields};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The text is neither properties nor TOML.
    #[error("{origin}: {reason}")]
    Syntax {
        /// The file or override.
        origin: String,
        /// What is wrong, with the line where there is one.
        reason: String,
    },
    /// A key has a value that does not fit.
    #[error("{key}={value}: allowed is {allowed}")]
    Value {
        /// The key.
        key: String,
        /// The value given.
        value: String,
        /// The range or the values it may have.
        allowed: String,
    },
}

/// What a key may be set to, where its type alone does not say.
#[derive(Debug, Clone, Copy)]
pub enum Allowed {
    /// A whole number from..=to.
    Range(i64, i64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Permission bits.
    Perm,
    /// What a check accepts, and how that is described.
    Checked(fn(&str) -> bool, &'static str),
}

impl Allowed {
    fn accepts(self, value: &str) -> bool {
        let number = value.trim().parse::<i64>();
        match self {
            Self::Range(from, to) => number.is_ok_and(|n| (from..=to).contains(&n)),
            Self::OneOf(words) => words.contains(&value.trim()),
            Self::Perm => number.is_ok_and(|n| matches!(n, 0 | 2 | 4 | 6)),
            Self::Checked(check, _) => check(value),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(from, i64::MAX) => write!(f, "a whole number from {from}"),
            Self::Range(from, to) if from == to => write!(f, "{from}"),
            Self::Range(from, to) => write!(f, "a whole number from {from} to {to}"),
            Self::OneOf(words) => f.write_str(&words.join(" or ")),
            Self::Perm => f.write_str("0, 2 (write), 4 (read) or 6 (both)"),
            Self::Checked(_, described) => f.write_str(described),
        }
    }
}

impl Allowed {
    /// For a program: `0..65535`, or words joined by `|`; `None` for what only a check of its own decides.
    fn told(self) -> Option<String> {
        match self {
            Self::Range(from, to) => Some(format!("{from}..{to}")),
            Self::OneOf(words) => Some(words.join("|")),
            Self::Perm => Some("0|2|4|6".into()),
            Self::Checked(..) => None,
        }
    }
}

/// What keys may be set to, as a server tells it: `listenPort=0..65535;flushDiskType=ASYNC_FLUSH|SYNC_FLUSH`.
pub fn told(limits: &[Limits]) -> String {
    let pairs = limits.iter().copied().flatten();
    let told = pairs.filter_map(|(key, allowed)| Some(format!("{key}={}", allowed.told()?)));
    told.collect::<Vec<_>>().join(";")
}

/// Those of the `keys` whose value has changed since the start, as a server tells it: separated by `;`.
pub fn waiting<'a>(keys: impl Iterator<Item = &'a str>, at_start: &Fields, now: &Fields) -> String {
    keys.filter(|key| at_start.get(key) != now.get(key))
        .collect::<Vec<_>>()
        .join(";")
}

/// Keys with a narrower choice than their type.
pub type Limits = &'static [(&'static str, Allowed)];

/// Where the settings of a role came from: a file (or none) and its entries, overrides included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigFile {
    path: Option<PathBuf>,
    /// What the file says.
    file: Fields,
    /// That with the overrides.
    entries: Fields,
}

impl ConfigFile {
    /// Reads `path`, if any, and lays the `key=value` overrides over it.
    pub fn load(path: Option<&Path>, overrides: &[String]) -> Result<Self, Error> {
        let mut entries = Fields::new();
        if let Some(path) = path {
            let bytes = fs::read(path).map_err(|source| Error::Io {
                what: "read",
                path: path.to_owned(),
                source,
            })?;
            entries = parse(path, &bytes)?;
        }
        let file = entries.clone();
        for text in overrides {
            let (key, value) = text.split_once('=').ok_or_else(|| Error::Syntax {
                origin: format!("--set {text}"),
                reason: "write it as key=value".into(),
            })?;
            entries.push(key.trim().to_owned(), value.trim());
        }
        Ok(Self {
            path: path.map(Path::to_owned),
            file,
            entries,
        })
    }

    /// The file, if one was given.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The entries of the file alone, which a change is written back with.
    pub fn file_entries(&self) -> &Fields {
        &self.file
    }

    /// Every entry, overrides last.
    pub fn entries(&self) -> &Fields {
        &self.entries
    }

    /// `base` with the entries it knows laid over it.
    pub fn merge<T: Serialize + DeserializeOwned>(&self, base: &T, limits: Limits) -> Result<T, Error> {
        merge(base, &self.entries, limits)
    }

    /// The entries that none of the `known` key lists names, by key.
    pub fn unknown(&self, known: &[&[&str]]) -> BTreeMap<String, String> {
        self.entries
            .iter()
            .filter(|(key, _)| !known.iter().any(|keys| keys.contains(key)))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }
}

/// `base` with the entries it knows laid over it. Entries it does not know are left alone.
pub fn merge<T: Serialize + DeserializeOwned>(
    base: &T,
    entries: &Fields,
    limits: Limits,
) -> Result<T, Error> {
    let known = keys::<T>();
    let mut merged = Fields::from_value(base).map_err(|e| Error::Syntax {
        origin: "configuration".into(),
        reason: e.to_string(),
    })?;
    for (key, value) in entries.iter().filter(|(key, _)| known.contains(key)) {
        check(key, value, merged.get(key), limits)?;
        merged.push(key.to_owned(), value.trim());
    }
    merged.to_value::<T>().map_err(|e| match e {
        fields::Error::Field { name, reason } => Error::Value {
            value: merged.get(&name).unwrap_or_default().to_owned(),
            key: name,
            allowed: format!("a value of its type ({reason})"),
        },
        fields::Error::Other(reason) => Error::Syntax {
            origin: "configuration".into(),
            reason,
        },
    })
}

/// Checks one value against its limit, or against the shape of the present value.
fn check(key: &str, value: &str, present: Option<&str>, limits: Limits) -> Result<(), Error> {
    let refuse = |allowed: String| Error::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        allowed,
    };
    if let Some((_, allowed)) = limits.iter().find(|(name, _)| *name == key) {
        return if allowed.accepts(value) {
            Ok(())
        } else {
            Err(refuse(allowed.to_string()))
        };
    }
    let text = value.trim();
    match present {
        Some("true" | "false")
            if !text.eq_ignore_ascii_case("true") && !text.eq_ignore_ascii_case("false") =>
        {
            Err(refuse("true or false".into()))
        }
        Some(number) if number.parse::<i64>().is_ok() && text.parse::<i64>().is_err() => {
            Err(refuse("a whole number".into()))
        }
        _ => Ok(()),
    }
}

/// Field names of a flat struct as they are written in a file.
pub fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
    match T::deserialize(FieldNames) {
        Err(Names(names)) => names,
        Ok(_) => &[],
    }
}

/// A deserializer whose only answer is the field list it was asked for.
struct FieldNames;

#[derive(Debug)]
struct Names(&'static [&'static str]);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("field names")
    }
}

impl std::error::Error for Names {}

impl de::Error for Names {
    fn custom<M: fmt::Display>(_: M) -> Self {
        Self(&[])
    }
}

impl<'de> de::Deserializer<'de> for FieldNames {
    type Error = Names;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Names> {
        Err(Names(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Names> {
        Err(Names(names))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Reads a file: TOML by its extension, or when the text is TOML with a quoted value; else properties.
fn parse(path: &Path, bytes: &[u8]) -> Result<Fields, Error> {
    let origin = path.display().to_string();
    let is_toml = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"));
    let table = std::str::from_utf8(bytes)
        .map_err(|e| e.to_string())
        .and_then(|text| text.parse::<toml::Table>().map_err(|e| e.to_string()));
    match table {
        Ok(table) if is_toml || table.values().any(toml::Value::is_str) => flatten(&origin, table),
        Err(reason) if is_toml => Err(Error::Syntax { origin, reason }),
        _ => parse_properties(&origin, bytes),
    }
}

fn flatten(origin: &str, table: toml::Table) -> Result<Fields, Error> {
    table
        .into_iter()
        .map(|(key, value)| {
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(n) => n.to_string(),
                toml::Value::Float(n) => n.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                other => {
                    return Err(Error::Syntax {
                        origin: origin.to_owned(),
                        reason: format!("`{key}` is a {}, but keys are flat", other.type_str()),
                    });
                }
            };
            Ok((key, text))
        })
        .collect()
}

/// Reads Java's properties form: comments, escapes, `key=value`, `key: value`, continued lines. Text is UTF-8, or
/// Latin-1 when it is not valid UTF-8.
pub fn parse_properties(origin: &str, bytes: &[u8]) -> Result<Fields, Error> {
    // The properties reader wants Latin-1; anything outside goes in as the escapes it understands.
    let latin: Vec<u8> = match std::str::from_utf8(bytes) {
        Ok(text) => {
            let mut out = Vec::with_capacity(text.len());
            for c in text.chars() {
                push_latin(&mut out, c);
            }
            out
        }
        Err(_) => bytes.to_vec(),
    };
    let mut entries = Fields::new();
    java_properties::PropertiesIter::new(latin.as_slice())
        .read_into(|key, value| {
            if !key.is_empty() {
                entries.push(key, value.trim());
            }
        })
        .map_err(|e| Error::Syntax {
            origin: origin.to_owned(),
            reason: e.to_string(),
        })?;
    Ok(entries)
}

fn push_latin(out: &mut Vec<u8>, c: char) {
    if c.is_ascii() {
        out.push(c as u8);
    } else {
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            out.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
        }
    }
}

/// The entries as Java answers a config query: `key=value` lines, sorted by key, nothing escaped.
pub fn to_text(entries: &Fields) -> String {
    let sorted: BTreeMap<&str, &str> = entries.iter().collect();
    sorted
        .into_iter()
        .fold(String::new(), |out, (key, value)| out + key + "=" + value + "\n")
}

/// Writes the entries to `path`, keeping what was there as `<path>.bak`. A TOML file stays TOML.
pub fn save(path: &Path, entries: &Fields) -> Result<(), Error> {
    let sorted: BTreeMap<&str, &str> = entries.iter().collect();
    let mut text = String::new();
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml")) {
        let table: toml::Table = sorted
            .into_iter()
            .map(|(key, value)| (key.to_owned(), toml_value(value)))
            .collect();
        text = table.to_string();
    } else {
        for (key, value) in sorted {
            let mut line = Vec::new();
            for (i, c) in value.char_indices() {
                match c {
                    '\\' => line.extend_from_slice(b"\\\\"),
                    '\n' => line.extend_from_slice(b"\\n"),
                    '\r' => line.extend_from_slice(b"\\r"),
                    ' ' if i == 0 => line.extend_from_slice(b"\\ "),
                    c => push_latin(&mut line, c),
                }
            }
            text.extend(key.chars().map(|c| if is_key_char(c) { c } else { '_' }));
            text.push('=');
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
        }
    }
    replace(path, text.as_bytes())
}

/// True for a key that every file form can carry as it is.
pub fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(is_key_char)
}

fn is_key_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// A number or flag stays one in TOML when writing it back gives the same text.
fn toml_value(text: &str) -> toml::Value {
    match text.parse::<i64>() {
        Ok(n) if n.to_string() == text => toml::Value::Integer(n),
        _ => match text {
            "true" => toml::Value::Boolean(true),
            "false" => toml::Value::Boolean(false),
            _ => toml::Value::String(text.to_owned()),
        },
    }
}

/// [`crate::replace::replace`], for those whose errors are of a configuration or a table.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    Ok(crate::replace::replace(path, bytes)?)
}

impl From<crate::replace::Error> for Error {
    fn from(e: crate::replace::Error) -> Self {
        let crate::replace::Error { what, path, source } = e;
        Self::Io { what, path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Sample {
        broker_name: String,
        listen_port: u16,
        perm: i32,
        long_polling: bool,
        path: Option<String>,
    }

    impl Default for Sample {
        fn default() -> Self {
            Self {
                broker_name: "b".into(),
                listen_port: 10911,
                perm: 6,
                long_polling: true,
                path: None,
            }
        }
    }

    const LIMITS: Limits = &[("listenPort", Allowed::Range(1, 65535)), ("perm", Allowed::Perm)];

    fn load(name: &str, text: &str, overrides: &[&str]) -> Result<ConfigFile, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|&s| s.to_owned()).collect();
        ConfigFile::load(Some(&path), &overrides)
    }

    #[test]
    fn properties_and_toml_mean_the_same() {
        let properties = "# a comment\nbrokerName = x\\u00e9\nlistenPort:20911\nlongPolling=TRUE\nother=1\n";
        let toml = "brokerName = \"xé\"\nlistenPort = 20911\nlongPolling = true\nother = 1\n";
        for (name, text) in [("a.conf", properties), ("a.toml", toml), ("b.conf", toml)] {
            let file = load(name, text, &[]).unwrap();
            let merged = file.merge(&Sample::default(), LIMITS).unwrap();
            assert_eq!(merged.broker_name, "xé", "{name}");
            assert_eq!(merged.listen_port, 20911, "{name}");
            let unknown = file.unknown(&[keys::<Sample>()]);
            assert_eq!(unknown, BTreeMap::from([("other".into(), "1".into())]), "{name}");
        }
    }

    #[test]
    fn an_override_wins_over_the_file() {
        let file = load("a.conf", "listenPort=1\n", &["listenPort=2", "path=/x=y"]).unwrap();
        let merged = file.merge(&Sample::default(), LIMITS).unwrap();
        assert_eq!((merged.listen_port, merged.path.as_deref()), (2, Some("/x=y")));
        assert!(load("a.conf", "", &["nonsense"]).is_err());
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_allowed() {
        for (text, says) in [
            (
                "listenPort=0",
                "listenPort=0: allowed is a whole number from 1 to 65535",
            ),
            (
                "listenPort=ten",
                "listenPort=ten: allowed is a whole number from 1 to 65535",
            ),
            ("perm=5", "perm=5: allowed is 0, 2 (write), 4 (read) or 6 (both)"),
            ("longPolling=maybe", "longPolling=maybe: allowed is true or false"),
        ] {
            let error = load("a.conf", text, &[])
                .unwrap()
                .merge(&Sample::default(), LIMITS)
                .unwrap_err();
            assert_eq!(error.to_string(), says);
        }
    }

    #[test]
    fn a_saved_file_reads_back_and_keeps_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.conf", "a.toml"] {
            let path = dir.path().join("config").join(name);
            let entries: Fields = [
                ("path", "C:\\x é\n"),
                ("listenPort", "7"),
                ("longPolling", "false"),
            ]
            .into_iter()
            .collect();
            let old: Fields = [("listenPort", "6")].into_iter().collect();
            save(&path, &old).unwrap();
            save(&path, &entries).unwrap();
            let read = ConfigFile::load(Some(&path), &[]).unwrap();
            assert_eq!(read.entries().get("listenPort"), Some("7"));
            assert_eq!(
                read.entries().get("path").map(str::trim),
                Some("C:\\x é"),
                "{name}"
            );
            assert!(dir.path().join("config").join(format!("{name}.bak")).exists());
        }
    }
}
