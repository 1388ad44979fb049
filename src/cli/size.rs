//! Sizes on the command line: `1048576`, `64KiB`, `1GiB`.

/// Units with their bytes; the short forms mean the same, as in broker configurations.
const UNITS: &[(&str, i64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("B", 1),
];

/// Reads a size in bytes.
pub fn parse(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, bytes)| Some((text.strip_suffix(name)?, *bytes)))
        .unwrap_or((text, 1));
    number
        .trim()
        .parse::<i64>()
        .ok()
        .filter(|n| *n >= 0)
        .and_then(|n| n.checked_mul(unit))
        .ok_or_else(|| format!("\"{text}\" is not a size; use bytes, or 64KiB, 1MiB, 1GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("10B", 10),
            ("64KiB", 65_536),
            ("1 GiB", 1 << 30),
            ("2M", 1 << 21),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for bad in ["", "-1", "x", "1.5MiB", "9999999999TiB", "KiB"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
