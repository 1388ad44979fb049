//! Reading the tables that `mqadmin` prints.

/// The words of every line that is not empty, the header (a line that begins with `#`) left out.
pub fn rows(lines: &[String]) -> Vec<Vec<String>> {
    lines
        .iter()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect()
}

/// The value of `key<spaces>: value` or `key: value`.
pub fn value<'a>(lines: &'a [String], key: &str) -> Option<&'a str> {
    lines.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The columns `which` of every row, in order of text: what two clusters must print alike.
pub fn columns(rows: &[Vec<String>], which: &[usize]) -> Vec<Vec<String>> {
    let mut picked: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            which
                .iter()
                .map(|&i| row.get(i).cloned().unwrap_or_default())
                .collect()
        })
        .collect();
    picked.sort();
    picked
}
