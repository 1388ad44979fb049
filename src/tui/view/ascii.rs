//! `--ascii`: every sign of our own that is not ASCII is replaced after drawing, one column for one column.
//! Names and other data keep their characters.

use ratatui::buffer::Buffer;

/// The ASCII stand-in for a sign of ours.
fn stand_in(symbol: &str) -> Option<&'static str> {
    Some(match symbol {
        "│" | "▏" => "|",
        "─" => "-",
        "┌" | "┐" | "└" | "┘" | "├" | "┤" | "┬" | "┴" | "┼" => "+",
        "┆" => ":",
        "█" => "#",
        "▓" => "%",
        "▁" => "_",
        "▂" => ".",
        "▃" => ":",
        "▄" => "-",
        "▅" => "=",
        "▆" => "+",
        "▇" => "*",
        "▌" => "]",
        "▐" => "[",
        "●" => "*",
        "○" => "o",
        "◀" => "<",
        "▶" | "▸" => ">",
        "✓" => "+",
        "✗" => "x",
        "–" => "-",
        "…" => "~",
        "≥" => ">",
        "·" => ".",
        "▲" => "^",
        "▼" => "v",
        "↻" => "@",
        "→" => ">",
        "Δ" => "d",
        "▒" => "=",
        "░" => ".",
        "≠" => "!",
        "≈" => "~",
        "▎" | "▍" => ".",
        "▋" | "▊" | "▉" => "#",
        "×" => "x",
        "↑" => "^",
        "↓" => "v",
        "•" => "*",
        "≤" => "<",
        _ => return None,
    })
}

/// Replaces our signs in the whole buffer.
pub fn degrade(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if let Some(plain) = stand_in(cell.symbol()) {
            cell.set_symbol(plain);
        }
    }
}
