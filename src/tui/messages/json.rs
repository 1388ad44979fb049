//! A JSON body as lines that can be folded. Numbers and the order of keys stay as the application wrote them.

use std::collections::BTreeSet;

/// Deepest nesting that is read; what lies deeper is shown as text.
const DEPTH: usize = 100;

/// A value as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node<'a> {
    /// A number, string, `true`, `false` or `null`.
    Leaf(&'a str),
    /// The values of an array.
    Array(Vec<Node<'a>>),
    /// The keys and values of an object.
    Object(Vec<(&'a str, Node<'a>)>),
}

/// One line of the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The text, indented.
    pub text: String,
    /// Path of the array or object that begins or is folded here: `/"items"/0`.
    pub fold: Option<String>,
}

/// Reads a body; `None` when it is no JSON array or object.
pub fn parse(text: &str) -> Option<Node<'_>> {
    // One strict reader decides what JSON is; the walk below only cuts it up.
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let mut reader = Reader { text, at: 0 };
    let node = reader.node(0)?;
    (!matches!(node, Node::Leaf(_))).then_some(node)
}

/// The lines of a value. Arrays and objects inside the outermost are folded, except those in `turned`, and the
/// outermost is open unless it is.
pub fn lines(root: &Node<'_>, turned: &BTreeSet<String>) -> Vec<Line> {
    let mut out = Vec::new();
    push(root, "", "", 0, true, turned, &mut out);
    out
}

fn push(
    node: &Node<'_>,
    label: &str,
    path: &str,
    depth: usize,
    last: bool,
    turned: &BTreeSet<String>,
    out: &mut Vec<Line>,
) {
    let indent = "  ".repeat(depth);
    let comma = if last { "" } else { "," };
    let (open, close, count, noun) = match node {
        Node::Leaf(text) => {
            out.push(Line {
                text: format!("{indent}{label}{}{comma}", readable(text)),
                fold: None,
            });
            return;
        }
        Node::Array(items) => (
            '[',
            ']',
            items.len(),
            if items.len() == 1 { "item" } else { "items" },
        ),
        Node::Object(entries) => (
            '{',
            '}',
            entries.len(),
            if entries.len() == 1 { "key" } else { "keys" },
        ),
    };
    if count == 0 {
        out.push(Line {
            text: format!("{indent}{label}{open}{close}{comma}"),
            fold: None,
        });
        return;
    }
    let is_folded = (depth > 0) != turned.contains(path);
    if is_folded {
        out.push(Line {
            text: format!("{indent}{label}{open} {count} {noun} {close}{comma}"),
            fold: Some(path.to_owned()),
        });
        return;
    }
    out.push(Line {
        text: format!("{indent}{label}{open}"),
        fold: Some(path.to_owned()),
    });
    match node {
        Node::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let path = format!("{path}/{i}");
                push(item, "", &path, depth + 1, i + 1 == count, turned, out);
            }
        }
        Node::Object(entries) => {
            for (i, (key, value)) in entries.iter().enumerate() {
                let path = format!("{path}/{key}");
                let label = format!("{}: ", readable(key));
                push(value, &label, &path, depth + 1, i + 1 == count, turned, out);
            }
        }
        Node::Leaf(_) => {}
    }
    out.push(Line {
        text: format!("{indent}{close}{comma}"),
        fold: None,
    });
}

/// A string with its `\u` escapes of letters read; control characters stay escaped. Anything else as it is.
fn readable(token: &str) -> String {
    if !token.contains("\\u") {
        return token.to_owned();
    }
    serde_json::from_str::<String>(token)
        .ok()
        .and_then(|text| serde_json::to_string(&text).ok())
        .unwrap_or_else(|| token.to_owned())
}

/// Cuts up a text that is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let blank = rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
        self.at += blank;
        rest.get(blank).copied()
    }

    fn token(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let rest = self.text.get(self.at..)?;
        let length = if first == b'"' {
            let mut escaped = false;
            let end = rest.bytes().skip(1).position(|b| {
                let end = b == b'"' && !escaped;
                escaped = b == b'\\' && !escaped;
                end
            })?;
            end + 2
        } else {
            rest.bytes()
                .take_while(|b| !b.is_ascii_whitespace() && !b",]}:".contains(b))
                .count()
        };
        self.at += length;
        rest.get(..length)
    }

    fn node(&mut self, depth: usize) -> Option<Node<'a>> {
        if depth > DEPTH {
            return None;
        }
        match self.peek()? {
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                loop {
                    match self.peek()? {
                        b']' => break,
                        b',' => self.at += 1,
                        _ => items.push(self.node(depth + 1)?),
                    }
                }
                self.at += 1;
                Some(Node::Array(items))
            }
            b'{' => {
                self.at += 1;
                let mut entries = Vec::new();
                loop {
                    match self.peek()? {
                        b'}' => break,
                        b',' => self.at += 1,
                        _ => {
                            let key = self.token()?;
                            if self.peek()? == b':' {
                                self.at += 1;
                            }
                            entries.push((key, self.node(depth + 1)?));
                        }
                    }
                }
                self.at += 1;
                Some(Node::Object(entries))
            }
            _ => self.token().map(Node::Leaf),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(json: &str, turned: &[&str]) -> Vec<String> {
        let turned = turned.iter().map(|t| (*t).to_owned()).collect();
        let root = parse(json).unwrap();
        lines(&root, &turned).into_iter().map(|l| l.text).collect()
    }

    #[test]
    fn numbers_and_order_stay_and_inner_values_are_folded() {
        let json = r#"{"orderId":"o-778812","amount": 129.00,"items":[1,{"a":2},"x"],"empty":{},"one":[7]}"#;
        assert_eq!(
            texts(json, &[]),
            [
                "{",
                "  \"orderId\": \"o-778812\",",
                "  \"amount\": 129.00,",
                "  \"items\": [ 3 items ],",
                "  \"empty\": {},",
                "  \"one\": [ 1 item ]",
                "}"
            ]
        );
        assert_eq!(
            texts(json, &["/\"items\"", "/\"items\"/1"])[3..8],
            ["  \"items\": [", "    1,", "    {", "      \"a\": 2", "    },"]
        );
        assert_eq!(texts(json, &[""]), ["{ 5 keys }"]);
    }

    #[test]
    fn letters_are_read_and_controls_are_not() {
        assert_eq!(
            texts(r#"["\u8ba2\u5355", "\u001b[2J", "a\"]b\\"]"#, &[]),
            ["[", "  \"订单\",", "  \"\\u001b[2J\",", "  \"a\\\"]b\\\\\"", "]"]
        );
    }

    #[test]
    fn what_is_no_json_is_none() {
        for text in ["", "x", "7", "\"x\"", "[1,]", "{\"a\":}", "[1] 2"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("{}{}", "[".repeat(120), "]".repeat(120))), None);
    }

    #[test]
    fn unfolded_lines_are_the_value_again() {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        let value = leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::hash_map("[a-z/\"\\\\]{0,4}", inner, 0..5)
                    .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
            ]
        });
        proptest!(ProptestConfig::with_cases(64), |(value in value, pretty in any::<bool>())| {
            let text = if pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            };
            match parse(&text) {
                None => prop_assert!(!value.is_array() && !value.is_object()),
                Some(root) => {
                    // Unfold until nothing is folded.
                    let mut turned = BTreeSet::new();
                    loop {
                        let all = lines(&root, &turned);
                        let more: Vec<String> = all
                            .iter()
                            .filter(|l| l.text.ends_with(" ]") || l.text.ends_with(" ],") || l.text.ends_with(" }") || l.text.ends_with(" },"))
                            .filter_map(|l| l.fold.clone())
                            .filter(|f| !turned.contains(f))
                            .collect();
                        if more.is_empty() {
                            let whole: String = all.into_iter().map(|l| l.text + "\n").collect();
                            let back: serde_json::Value = serde_json::from_str(&whole).unwrap();
                            prop_assert_eq!(&back, &value);
                            break;
                        }
                        turned.extend(more);
                    }
                }
            }
        });
    }
}
