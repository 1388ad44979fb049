//! Bytes in hexadecimal, with the names of the fields beside.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::cli::output::printable;
use crate::cli::time::Zone;
use crate::inspect::{Value, layout};
use crate::protocol::message::MessageView;

/// Most bytes shown of damage.
pub const MOST: usize = 4096;
/// Bytes of a line.
const WIDTH: usize = 16;

/// All bytes as one word.
pub fn plain(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
            let _ = write!(out, "{b:02x}");
            out
        })
}

/// Bytes in lines, numbered from `at` on.
pub fn dump(bytes: &[u8], at: u64, out: &mut impl Write) -> io::Result<()> {
    for (n, line) in bytes.chunks(WIDTH).enumerate() {
        write_line(at + (n * WIDTH) as u64, line, "", out)?;
    }
    Ok(())
}

/// The bytes of a record: a field begins on a line of its own, its name and value beside.
pub fn fields(view: &MessageView<'_>, at: u64, zone: &Zone, out: &mut impl Write) -> io::Result<()> {
    for field in layout(view) {
        let value = match &field.value {
            Value::Text(text) => printable(text),
            Value::Time(ms) => match zone.text(*ms) {
                Some(text) => format!("{ms} {text}"),
                None => ms.to_string(),
            },
            Value::Bytes => String::new(),
        };
        let mut beside = format!("{} {value}", field.name);
        beside.truncate(beside.trim_end().len());
        let bytes = view
            .bytes()
            .get(field.at..field.at + field.len)
            .unwrap_or_default();
        if bytes.is_empty() {
            write_line(at + field.at as u64, bytes, &beside, out)?;
        }
        for (n, line) in bytes.chunks(WIDTH).enumerate() {
            let beside = if n == 0 { beside.as_str() } else { "" };
            write_line(at + (field.at + n * WIDTH) as u64, line, beside, out)?;
        }
    }
    Ok(())
}

fn write_line(at: u64, bytes: &[u8], beside: &str, out: &mut impl Write) -> io::Result<()> {
    let mut hex = String::with_capacity(WIDTH * 3);
    let mut text = String::with_capacity(WIDTH);
    for &b in bytes {
        let _ = write!(hex, "{b:02x} ");
        text.push(if b.is_ascii_graphic() || b == b' ' {
            char::from(b)
        } else {
            '.'
        });
    }
    let line = format!("{at:>12}  {hex:<48} {text:<16}  {beside}");
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_numbers_bytes_and_text() {
        let mut out = Vec::new();
        dump(b"0123456789abcdef\0\xFF", 4096, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "        4096  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef"
        );
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["4112", "00", "ff", ".."]
        );
        assert_eq!(plain(&[0, 0xA7]), "00a7");
    }
}
