//! Words for people and for shells.

use std::fmt::Display;

/// `1 client`, `2 clients`, `0 entries`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    if n == N::from(1) {
        return format!("1 {noun}");
    }
    let stem = |ending: char| noun.strip_suffix(ending);
    match stem('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{n} {stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{n} {noun}es"),
        _ => format!("{n} {noun}s"),
    }
}

/// `text` as one word of a shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_+=./:,%@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// `8-15,20`: rising numbers, those that follow each other as one span.
pub fn spans(numbers: &[i32]) -> String {
    let mut spans: Vec<(i32, i32)> = Vec::new();
    for &n in numbers {
        match spans.last_mut() {
            Some((_, last)) if n == last.saturating_add(1) => *last = n,
            _ => spans.push((n, n)),
        }
    }
    let words: Vec<String> = spans
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::{counted, quoted, spans};

    #[test]
    fn numbers_that_follow_each_other_are_one_span() {
        assert_eq!(spans(&[8, 9, 10, 12, 14, 15]), "8-10,12,14-15");
        assert_eq!(spans(&[]), "");
    }

    #[test]
    fn a_word_is_quoted_only_when_a_shell_would_split_it() {
        assert_eq!(quoted("broker-a:0"), "broker-a:0");
        assert_eq!(quoted("1s 5s"), "'1s 5s'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn one_is_singular_and_everything_else_is_not() {
        assert_eq!(counted(1_i64, "client"), "1 client");
        assert_eq!(counted(0_usize, "entry"), "0 entries");
        assert_eq!(counted(2_u32, "copy"), "2 copies");
        assert_eq!(counted(2_u64, "key"), "2 keys");
        assert_eq!(counted(3_i32, "index"), "3 indexes");
        assert_eq!(counted(2_i64, "name server"), "2 name servers");
    }
}
