//! Text for a terminal: names made harmless, widths by display column, numbers an operator reads at a glance.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `text` with every character escaped that would move the cursor, change the terminal or turn the reading order.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_hostile(c) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Control characters, bidi controls, combining marks and other characters without a width of their own.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || c.width().is_none_or(|w| w == 0)
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Display columns of a text.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The start of `text` that fits `columns`; `…` stands for what is cut.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    if columns == 0 {
        return Cow::Borrowed("");
    }
    let mut used = 0;
    let mut out = String::new();
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w > columns - 1 {
            break;
        }
        used += w;
        out.push(c);
    }
    out.push('…');
    Cow::Owned(out)
}

/// `text` in lines of at most `columns`, broken at blanks; a word that is too long is left to be cut.
pub fn wrap(text: &str, columns: usize) -> Vec<Cow<'_, str>> {
    let mut lines = Vec::new();
    let mut line = String::new();
    if text.width() <= columns {
        return vec![Cow::Borrowed(text)];
    }
    for word in text.split(' ') {
        if !line.is_empty() && line.width() + 1 + word.width() > columns {
            lines.push(Cow::Owned(std::mem::take(&mut line)));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(Cow::Owned(line));
    lines
}

/// A count in three or four characters: `950`, `4.1k`, `61.2k`, `1.28M`.
pub fn count(value: f64) -> String {
    // No minus before nothing.
    let value = if value == 0.0 { 0.0 } else { value };
    let magnitude = value.abs();
    let (scaled, unit) = match magnitude {
        m if m < 999.5 => (value, ""),
        m if m < 999_500.0 => (value / 1e3, "k"),
        m if m < 999_500_000.0 => (value / 1e6, "M"),
        m if m < 999_500_000_000.0 => (value / 1e9, "G"),
        _ => (value / 1e12, "T"),
    };
    if unit.is_empty() {
        // A rate below ten keeps one digit, so that 0.3/s does not read as none.
        if scaled != scaled.trunc() && magnitude < 9.95 {
            return format!("{scaled:.1}");
        }
        return format!("{scaled:.0}");
    }
    if scaled.abs() < 9.995 {
        trim_zeros(format!("{scaled:.2}"), unit)
    } else if scaled.abs() < 99.95 {
        trim_zeros(format!("{scaled:.1}"), unit)
    } else {
        format!("{scaled:.0}{unit}")
    }
}

fn trim_zeros(mut text: String, unit: &str) -> String {
    if text.contains('.') {
        while text.ends_with('0') {
            text.pop();
        }
        if text.ends_with('.') {
            text.pop();
        }
    }
    text.push_str(unit);
    text
}

/// A number with its thousands apart: `5,512,004`.
pub fn grouped(value: impl Into<i128>) -> String {
    let value: i128 = value.into();
    let digits = value.unsigned_abs().to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    if value < 0 {
        out.push('-');
    }
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Bytes in binary units: `0 B`, `4.0 KiB`, `498.7 GiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    #[allow(clippy::cast_precision_loss)]
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// An age in two units at most: `12s`, `12m40s`, `3h05m`, `2d07h`.
pub fn age(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

/// A round-trip time: `<1 ms`, `12 ms`, `1.2 s`.
pub fn latency(ms: f64) -> String {
    if ms < 1.0 {
        "<1 ms".to_owned()
    } else if ms < 1000.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.1} s", ms / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_reach_the_terminal() {
        assert_eq!(clean("orders"), "orders");
        assert_eq!(clean("a\x1b[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(clean("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(clean("e\u{301}"), "e\\u{301}");
        assert_eq!(clean("订单"), "订单");
    }

    #[test]
    fn cuts_by_display_column() {
        assert_eq!(fit("订单中心", 8), "订单中心");
        assert_eq!(fit("订单中心", 7), "订单中…");
        assert_eq!(fit("订单中心", 6), "订单…");
        assert_eq!(fit("订单", 1), "…");
        assert_eq!(fit("订单", 0), "");
    }

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrap("one two three", 20), ["one two three"]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensibilities a", 5), ["incomprehensibilities", "a"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn counts_stay_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.3, "0.3"),
            (84.0, "84"),
            (999.4, "999"),
            (999.6, "1k"),
            (4_100.0, "4.1k"),
            (61_200.0, "61.2k"),
            (1_280_000.0, "1.28M"),
            (88_100_000.0, "88.1M"),
            (-310.0, "-310"),
        ] {
            assert_eq!(count(value), text);
        }
    }

    #[test]
    fn thousands_stand_apart() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (-5_512_004, "-5,512,004"),
            (i64::MIN, "-9,223,372,036,854,775,808"),
        ] {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn bytes_and_ages() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(4096), "4.0 KiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(age(41_900), "41s");
        assert_eq!(age(760_000), "12m40s");
        assert_eq!(age(11_100_000), "3h05m");
        assert_eq!(age(198_000_000), "2d07h");
    }
}
