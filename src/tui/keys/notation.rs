//! How keys are written: `j`, `G`, `ctrl-d`, `shift-tab`, `pgdn`.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The name of a key as the table writes it; empty for keys that have none.
pub fn key_name(key: KeyEvent) -> String {
    let base = match key.code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::F(n) => format!("f{n}"),
        KeyCode::BackTab => return "shift-tab".to_owned(),
        code => match NAMED.iter().find(|(_, named)| *named == code) {
            Some((name, _)) => (*name).to_owned(),
            None => return String::new(),
        },
    };
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return format!("ctrl-{}", base.to_lowercase());
    }
    if key.modifiers.contains(KeyModifiers::ALT) {
        return format!("alt-{base}");
    }
    // A shifted letter arrives as its capital; the modifier matters for the other keys only.
    if key.modifiers.contains(KeyModifiers::SHIFT) && !matches!(key.code, KeyCode::Char(_)) {
        return format!("shift-{base}");
    }
    base
}

/// Keys with a name of several letters, beside the blank and the function keys.
const NAMED: [(&str, KeyCode); 13] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
];

/// The key of a name, or why there is none.
pub fn parse_key(name: &str) -> Result<KeyEvent, String> {
    let name = name.trim();
    let split = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    let (modifiers, rest) = if let Some(rest) = split("ctrl-") {
        (KeyModifiers::CONTROL, rest)
    } else if let Some(rest) = split("alt-") {
        (KeyModifiers::ALT, rest)
    } else if let Some(rest) = split("shift-") {
        (KeyModifiers::SHIFT, rest)
    } else {
        (KeyModifiers::NONE, name)
    };
    let code = code(rest).ok_or_else(|| {
        "a key is one character, enter, esc, tab, space, backspace, delete, an arrow (up, down, left, right), home, end, pgup, \
         pgdn or f1 to f12, with ctrl-, alt- or shift- in front where wanted"
            .to_owned()
    })?;
    if let KeyCode::Char(c) = code {
        if c.is_control() || (c.is_whitespace() && c != ' ') {
            return Err("a control character is written as ctrl- and its letter".into());
        }
        if modifiers == KeyModifiers::SHIFT {
            return Err(format!("a letter with shift is written as {}", c.to_uppercase()));
        }
        if modifiers == KeyModifiers::CONTROL {
            let letter = c.to_ascii_lowercase();
            let same = match letter {
                'i' => Some("tab"),
                'm' | 'j' => Some("enter"),
                'h' => Some("backspace"),
                '[' => Some("esc"),
                _ => None,
            };
            if let Some(same) = same {
                return Err(format!("a terminal sends the same for ctrl-{letter} and {same}"));
            }
            if !letter.is_ascii_lowercase() {
                return Err("a terminal sends ctrl- with the letters a to z only".into());
            }
            return Ok(KeyEvent::new(KeyCode::Char(letter), modifiers));
        }
    }
    if (code, modifiers) == (KeyCode::Tab, KeyModifiers::SHIFT) {
        return Ok(KeyEvent::new(KeyCode::BackTab, modifiers));
    }
    Ok(KeyEvent::new(code, modifiers))
}

fn code(name: &str) -> Option<KeyCode> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Some(KeyCode::Char(c));
    }
    if name == "space" {
        return Some(KeyCode::Char(' '));
    }
    if let Some(number) = name.strip_prefix('f').and_then(|n| n.parse::<u8>().ok()) {
        return (1..=12).contains(&number).then_some(KeyCode::F(number));
    }
    NAMED
        .iter()
        .find(|(named, _)| *named == name)
        .map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_read_is_written_alike() {
        for name in [
            "j",
            "G",
            "?",
            "订",
            "space",
            "enter",
            "shift-tab",
            "ctrl-a",
            "alt-x",
            "alt-X",
            "shift-left",
            "f1",
            "f12",
            "pgdn",
            "-",
            "ctrl-up",
        ] {
            assert_eq!(key_name(parse_key(name).unwrap()), name);
        }
        assert_eq!(key_name(parse_key("ctrl-X").unwrap()), "ctrl-x");
    }

    #[test]
    fn what_no_terminal_sends_is_refused_with_the_reason() {
        for (name, why) in [
            ("", "one character"),
            ("jj", "one character"),
            ("ctrl-", "one character"),
            ("f13", "one character"),
            ("hyper-x", "one character"),
            ("shift-a", "written as A"),
            ("ctrl-i", "ctrl-i and tab"),
            ("ctrl-[", "ctrl-[ and esc"),
            ("ctrl-1", "letters a to z"),
            ("\u{1b}", "control character"),
        ] {
            let said = parse_key(name).unwrap_err();
            assert!(said.contains(why), "{name}: {said}");
        }
    }
}
