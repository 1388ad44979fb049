//! Bars of text.

/// Eighths of a column.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar for `value` where `most` fills `columns`. What is not zero shows.
pub fn bar(value: f64, most: f64, columns: usize) -> String {
    if value <= 0.0 || most <= 0.0 || columns == 0 {
        return String::new();
    }
    let eighths = (value / most * columns as f64 * 8.0).round().max(1.0) as usize;
    let eighths = eighths.min(columns * 8);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Lines of a name, a value and a bar, no wider than `width`.
pub fn lines(rows: &[(String, f64, String)], width: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr as _;
    let names = rows.iter().map(|row| row.0.width()).max().unwrap_or(0);
    let values = rows.iter().map(|row| row.2.width()).max().unwrap_or(0);
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    let columns = width.saturating_sub(names + values + 4).clamp(8, 60);
    rows.iter()
        .map(|(name, value, text)| {
            let pad = " ".repeat(names - name.width());
            let line = format!("{name}{pad}  {text:>values$}  {}", bar(*value, most, columns));
            line.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_the_length_of_their_share() {
        assert_eq!(bar(8.0, 8.0, 4), "████");
        assert_eq!(bar(3.0, 8.0, 4), "█▌");
        assert_eq!(bar(0.001, 8.0, 4), "▏");
        assert_eq!(bar(0.0, 8.0, 4), "");
        assert_eq!(bar(1.0, 0.0, 4), "");
    }

    #[test]
    fn lines_are_aligned_and_narrow() {
        let rows = [
            ("a".to_owned(), 1.0, "1".to_owned()),
            ("bcd".into(), 2.0, "20".into()),
        ];
        assert_eq!(lines(&rows, 17), ["a     1  ████", "bcd  20  ████████"]);
    }
}
