//! A body as lines: text, folded JSON or hexadecimal.

use std::borrow::Cow;
use std::collections::BTreeSet;

use unicode_width::UnicodeWidthChar;

use super::json;
use crate::tui::view::text;

/// Bytes of a body that are shown.
pub const SHOWN: usize = 64 * 1024;

/// How a body is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// JSON when it is JSON, text when it is text, else hexadecimal.
    #[default]
    Auto,
    /// Text; bytes that are none are replaced.
    Text,
    /// Folded JSON.
    Json,
    /// Hexadecimal with the printable characters beside.
    Hex,
}

/// One line of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The text, with nothing in it that a terminal would obey.
    pub text: String,
    /// The value that `enter` folds or unfolds.
    pub fold: Option<String>,
}

impl Line {
    fn plain(text: String) -> Self {
        Self { text, fold: None }
    }
}

/// The form that is really shown: what does not fit gives way.
pub fn settled(form: Form, body: &[u8]) -> Form {
    let shown = &body[..body.len().min(SHOWN)];
    let as_text = || std::str::from_utf8(body).ok();
    let is_json = || body.len() <= SHOWN && as_text().is_some_and(|t| json::parse(t).is_some());
    match form {
        Form::Hex => Form::Hex,
        Form::Auto | Form::Json if is_json() => Form::Json,
        Form::Auto if !is_readable(shown, shown.len() < body.len()) => Form::Hex,
        Form::Auto | Form::Json | Form::Text => Form::Text,
    }
}

/// The next form of the cycle JSON, text, hexadecimal.
pub fn next(form: Form, body: &[u8]) -> Form {
    match settled(form, body) {
        Form::Json => Form::Text,
        Form::Text => Form::Hex,
        Form::Hex | Form::Auto => match settled(Form::Json, body) {
            Form::Json => Form::Json,
            _ => Form::Text,
        },
    }
}

/// Mostly characters that a person reads. One that is cut may end in the middle of a character.
pub fn is_readable(body: &[u8], is_cut: bool) -> bool {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(e) if is_cut && e.error_len().is_none() => {
            std::str::from_utf8(&body[..e.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let strange = text.chars().filter(|c| c.is_control() && !"\n\r\t".contains(*c));
    strange.count() * 10 <= text.chars().count()
}

/// The lines of a body in a form, for a pane of so many columns.
pub fn lines(body: &[u8], form: Form, turned: &BTreeSet<String>, columns: usize) -> Vec<Line> {
    let shown = &body[..body.len().min(SHOWN)];
    let mut lines = match settled(form, body) {
        Form::Json => match std::str::from_utf8(body).ok().and_then(json::parse) {
            Some(root) => json::lines(&root, turned)
                .into_iter()
                .flat_map(|line| {
                    let parts = fold_line(&text::clean(&line.text), columns);
                    parts.into_iter().map(move |text| Line {
                        text,
                        fold: line.fold.clone(),
                    })
                })
                .collect(),
            None => plain(shown, columns),
        },
        Form::Hex => hex(shown, columns),
        Form::Text | Form::Auto => plain(shown, columns),
    };
    if shown.len() < body.len() {
        lines.push(Line::plain(format!(
            "… {} of {} bytes are shown; rmq message body writes all of them",
            shown.len(),
            body.len()
        )));
    }
    lines
}

fn plain(body: &[u8], columns: usize) -> Vec<Line> {
    String::from_utf8_lossy(body)
        .split('\n')
        .flat_map(|line| {
            let line = line.strip_suffix('\r').unwrap_or(line).replace('\t', "    ");
            fold_line(&text::clean(&line), columns)
        })
        .map(Line::plain)
        .collect()
}

/// Cuts a line into parts of at most so many display columns.
fn fold_line(line: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let (mut parts, mut part, mut used) = (Vec::new(), String::new(), 0);
    for c in line.chars() {
        let width = c.width().unwrap_or(0);
        if used + width > columns {
            parts.push(std::mem::take(&mut part));
            used = 0;
        }
        part.push(c);
        used += width;
    }
    parts.push(part);
    parts
}

/// `00000010  7b 22 6f 72 …  {"or…`: 16 bytes a line where they fit, else 8 or 4.
fn hex(body: &[u8], columns: usize) -> Vec<Line> {
    let per_line = [16, 8, 4]
        .into_iter()
        .find(|n| 10 + n * 3 + 1 + n <= columns)
        .unwrap_or(4);
    body.chunks(per_line)
        .enumerate()
        .map(|(i, chunk)| {
            let mut digits: Vec<Cow<'_, str>> = chunk.iter().map(|b| format!("{b:02x}").into()).collect();
            digits.resize(per_line, "  ".into());
            let letters: String = chunk
                .iter()
                .map(|b| {
                    if (0x20..0x7f).contains(b) {
                        char::from(*b)
                    } else {
                        '.'
                    }
                })
                .collect();
            Line::plain(format!("{:08x}  {}  {letters}", i * per_line, digits.join(" ")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn shown(body: &[u8], form: Form, columns: usize) -> Vec<String> {
        let lines = lines(body, form, &BTreeSet::new(), columns);
        lines.into_iter().map(|l| l.text).collect()
    }

    #[test]
    fn a_body_chooses_its_form_and_the_cycle_skips_what_it_is_not() {
        assert_eq!(settled(Form::Auto, b"{\"a\":1}"), Form::Json);
        assert_eq!(settled(Form::Auto, "订单\n".as_bytes()), Form::Text);
        assert_eq!(settled(Form::Auto, b"\x00\x01\x02"), Form::Hex);
        assert_eq!(settled(Form::Json, b"no"), Form::Text);
        assert_eq!(next(Form::Auto, b"{\"a\":1}"), Form::Text);
        assert_eq!(next(Form::Hex, b"{\"a\":1}"), Form::Json);
        assert_eq!(next(Form::Hex, b"no"), Form::Text);
        assert_eq!(next(Form::Text, b"no"), Form::Hex);
    }

    #[test]
    fn hex_lines_carry_offset_digits_and_letters() {
        assert_eq!(
            shown(b"{\"a\":1}\x1b[2J", Form::Hex, 49),
            [
                "00000000  7b 22 61 22 3a 31 7d 1b  {\"a\":1}.",
                "00000008  5b 32 4a                 [2J"
            ]
        );
        assert_eq!(
            shown(&[0xff; 16], Form::Hex, 80),
            ["00000000  ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff  ................"]
        );
    }

    #[test]
    fn text_is_cut_by_columns_and_controls_are_written_out() {
        assert_eq!(
            shown("订单中心\nb\x1b[2J\r\n".as_bytes(), Form::Text, 5),
            ["订单", "中心", "b\\u{1", "b}[2J", ""]
        );
    }

    #[test]
    fn long_bodies_say_how_much_is_shown() {
        let body = vec![b'x'; SHOWN + 10];
        let lines = shown(&body, Form::Auto, 80);
        assert!(lines.last().unwrap().contains("65536 of 65546 bytes"));
    }

    #[test]
    fn no_body_breaks_the_pane() {
        proptest!(ProptestConfig::with_cases(128), |(
            body in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                ".*".prop_map(String::into_bytes)
            ],
            columns in 30usize..120,
            form in prop_oneof![Just(Form::Auto), Just(Form::Text), Just(Form::Json), Just(Form::Hex)]
        )| {
            for line in shown(&body, form, columns) {
                prop_assert!(line.width() <= columns, "{line}");
                prop_assert!(!line.chars().any(char::is_control));
            }
        });
    }
}
