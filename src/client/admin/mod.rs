//! Every operation that an operator can ask for, by noun. Each is a method of [`Client`](super::Client) that returns
//! values; one that touches several servers gives one result for each of them.

pub mod allocate;
pub mod auth;
mod auth_decision;
pub mod broker;
pub mod clients;
pub mod cluster;
pub mod config;
pub mod controller;
pub mod group;
pub mod group_check;
pub mod group_config;
pub mod lite;
pub mod message;
pub mod namesrv;
pub mod topic;
pub mod topic_use;
mod touched;

/// `key=value` lines as a server answers a configuration query: nothing in them is escaped.
pub(in crate::client) fn parse_config(text: &str) -> std::collections::BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// The body of a configuration update: servers read it as a properties file in Latin-1.
fn config_text(changes: &[(String, String)]) -> String {
    let mut out = String::new();
    for (key, value) in changes {
        escape(&mut out, key, true);
        out.push('=');
        escape(&mut out, value, false);
        out.push('\n');
    }
    out
}

fn escape(out: &mut String, text: &str, key: bool) {
    for (i, c) in text.chars().enumerate() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' ' if key || i == 0 => out.push_str("\\ "),
            '=' | ':' | '#' | '!' if key => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_ascii() => out.push(c),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_blanks_and_other_letters_survives_as_a_property() {
        let text = config_text(&[("messageDelayLevel".into(), " 1s 5s\\ä".into())]);
        assert_eq!(text, "messageDelayLevel=\\ 1s 5s\\\\\\u00E4\n");
    }

    #[test]
    fn a_configuration_answer_keeps_what_follows_the_first_equals_sign() {
        let entries = parse_config("a=1\nb=x=y\\z\nbroken\nc=\n");
        assert_eq!(entries["b"], "x=y\\z");
        assert_eq!(entries["c"], "");
        assert_eq!(entries.len(), 3);
    }
}
