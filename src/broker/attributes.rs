//! Topic attributes and their edits: `+key=value` sets, `-key` removes (Java's `AttributeUtil`).

use std::collections::{BTreeMap, BTreeSet};

/// The attribute that says what messages a topic is for.
pub const MESSAGE_TYPE: &str = "message.type";

/// What one attribute may be.
struct Attribute {
    name: &'static str,
    changeable: bool,
    allowed: Allowed,
}

enum Allowed {
    OneOf(&'static [&'static str]),
    From(i64),
}

/// What this version can serve: batch queues and compaction are refused rather than stored without effect.
const ATTRIBUTES: &[Attribute] = &[
    Attribute {
        name: "queue.type",
        changeable: false,
        allowed: Allowed::OneOf(&["SimpleCQ"]),
    },
    Attribute {
        name: "cleanup.policy",
        changeable: false,
        allowed: Allowed::OneOf(&["DELETE"]),
    },
    Attribute {
        name: MESSAGE_TYPE,
        changeable: true,
        allowed: Allowed::OneOf(&["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]),
    },
    Attribute {
        name: "reserve.time",
        changeable: true,
        allowed: Allowed::From(-1),
    },
];

/// What a topic that another broker made asks for and this version does not do, if anything.
pub fn unsupported(attributes: &BTreeMap<String, String>) -> Option<(&str, &str)> {
    ATTRIBUTES.iter().filter(|a| !a.changeable).find_map(|attribute| {
        let (key, value) = attributes.get_key_value(attribute.name)?;
        match attribute.allowed {
            Allowed::OneOf(words) if !words.contains(&value.as_str()) => Some((key.as_str(), value.as_str())),
            _ => None,
        }
    })
}

/// Reads the text of an edit: `+a=1,-b`.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut edits = BTreeMap::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = match part.split_once('=') {
            Some((key, _)) if !key.contains('+') => {
                return Err(format!("add/alter attribute format is wrong: {key}"));
            }
            Some((key, value)) => (key, value),
            None if !part.contains('-') => {
                return Err(format!("delete attribute format is wrong: {part}"));
            }
            None => (part, ""),
        };
        if edits.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("key duplication: {key}"));
        }
    }
    Ok(edits)
}

/// `present` (`None` for a new topic) after the edits; the error is Java's text.
pub fn alter(
    present: Option<&BTreeMap<String, String>>,
    edits: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    let mut after = present.cloned().unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (edit, value) in edits {
        let mut chars = edit.chars();
        let sign = chars.next();
        let key = chars.as_str();
        if key.is_empty() || key.contains(['+', '-']) {
            return Err("kv string format wrong.".into());
        }
        if !seen.insert(key) {
            return Err(format!("alter duplication key. key: {key}"));
        }
        let remove = match sign {
            Some('+') => false,
            _ if present.is_none() => {
                return Err(format!(
                    "only add attribute is supported while creating topic. key: {key}"
                ));
            }
            Some('-') => true,
            _ => return Err(format!("wrong format key: {key}")),
        };
        if remove && !after.contains_key(key) {
            return Err(format!("attempt to delete a nonexistent key: {key}"));
        }
        let attribute = ATTRIBUTES
            .iter()
            .find(|a| a.name == key)
            .ok_or_else(|| format!("unsupported key: {key}"))?;
        if present.is_some() && !attribute.changeable {
            return Err(format!("attempt to update an unchangeable attribute. key: {key}"));
        }
        if remove {
            after.remove(key);
            continue;
        }
        match attribute.allowed {
            Allowed::OneOf(words) if !words.contains(&value.as_str()) => {
                return Err(format!("value is not in set: [{}]", words.join(", ")));
            }
            Allowed::From(least) if !value.parse::<i64>().is_ok_and(|n| n >= least) => {
                return Err(format!("value is not in range({least}, {})", i64::MAX));
            }
            _ => {}
        }
        after.insert(key.to_owned(), value.clone());
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    #[test]
    fn topics_of_other_kinds_are_noticed() {
        assert_eq!(
            unsupported(&map(&[("message.type", "FIFO"), ("queue.type", "SimpleCQ")])),
            None
        );
        assert_eq!(
            unsupported(&map(&[("cleanup.policy", "COMPACTION")])),
            Some(("cleanup.policy", "COMPACTION"))
        );
    }

    #[test]
    fn edits_follow_javas_rules() {
        assert_eq!(
            parse("+message.type=FIFO,-reserve.time"),
            Ok(map(&[("+message.type", "FIFO"), ("-reserve.time", "")]))
        );
        assert_eq!(parse(""), Ok(map(&[])));
        assert!(parse("message.type=FIFO").is_err());
        assert!(parse("message.type").is_err());

        let fifo = map(&[("message.type", "FIFO")]);
        assert_eq!(alter(None, &map(&[("+message.type", "FIFO")])), Ok(fifo.clone()));
        assert_eq!(alter(Some(&fifo), &map(&[("-message.type", "")])), Ok(map(&[])));
        assert_eq!(
            alter(Some(&fifo), &map(&[("+message.type", "NORMAL")])),
            Ok(map(&[("message.type", "NORMAL")]))
        );
        for (present, edit, says) in [
            (None, "+zz", "unsupported key: zz"),
            (
                None,
                "-message.type",
                "only add attribute is supported while creating topic. key: message.type",
            ),
            (
                Some(&fifo),
                "-reserve.time",
                "attempt to delete a nonexistent key: reserve.time",
            ),
            (
                Some(&fifo),
                "+queue.type",
                "attempt to update an unchangeable attribute. key: queue.type",
            ),
            (Some(&fifo), "message.type", "wrong format key: essage.type"),
        ] {
            assert_eq!(alter(present, &map(&[(edit, "x")])), Err(says.into()), "{edit}");
        }
        assert!(alter(None, &map(&[("+queue.type", "BatchCQ")])).is_err());
        assert!(alter(None, &map(&[("+reserve.time", "-2")])).is_err());
        assert!(alter(None, &map(&[("+reserve.time", "-1")])).is_ok());
    }
}
