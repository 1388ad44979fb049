//! Names of segment files: the offset of their first byte in 20 decimal digits. Index files are named by the local
//! time of their creation, `yyyyMMddHHmmssSSS`.

/// Digits of a segment's name.
const DIGITS: usize = 20;

/// The name of the segment that starts at `base`.
pub fn segment(base: u64) -> String {
    format!("{base:020}")
}

/// The offset in a segment's name; `None` for any other name.
pub fn parse_segment(name: &str) -> Option<u64> {
    if name.len() != DIGITS || !name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // What does not fit a signed word cannot be an offset.
    name.parse().ok().filter(|&base| i64::try_from(base).is_ok())
}

/// The number in an index file's name; files are ordered by it. `None` for any other name.
pub fn parse_index(name: &str) -> Option<u64> {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // As Java: a number that a signed word holds.
    name.parse().ok().filter(|&number| i64::try_from(number).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_have_20_digits_and_read_back() {
        assert_eq!(segment(1_048_576), "00000000000001048576");
        for base in [0, 1, 1 << 30, i64::MAX as u64] {
            assert_eq!(parse_segment(&segment(base)), Some(base));
        }
        for stray in [
            "",
            "lost+found",
            ".nfs0001",
            "0",
            "+0000000000000000001",
            "99999999999999999999",
        ] {
            assert_eq!(parse_segment(stray), None, "{stray}");
        }
    }

    #[test]
    fn index_names_are_plain_numbers() {
        assert_eq!(parse_index("20261129174757416"), Some(20_261_129_174_757_416));
        assert_eq!(parse_index("20261129174757416.tmp"), None);
        assert_eq!(parse_index(""), None);
        assert_eq!(parse_index("18446744073709551615"), None);
    }
}
