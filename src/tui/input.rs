//! A line of text being typed.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Bytes a line may have: a message body fits.
const MAX: usize = 16 * 1024;

/// A text and a cursor in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input {
    text: String,
    /// Byte position, on a character boundary.
    cursor: usize,
}

impl Input {
    /// A line with the cursor at its end.
    pub fn new(text: String) -> Self {
        Self {
            cursor: text.len(),
            text,
        }
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text before and after the cursor.
    pub fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    /// Inserts a text at the cursor: one line of it, without control characters. False when something was left out.
    pub fn insert(&mut self, text: &str) -> bool {
        let line = text.split(['\n', '\r']).next().unwrap_or_default();
        let room = MAX.saturating_sub(self.text.len());
        let mut fitting = String::new();
        for c in line.chars().filter(|c| !c.is_control()) {
            if fitting.len() + c.len_utf8() > room {
                break;
            }
            fitting.push(c);
        }
        self.text.insert_str(self.cursor, &fitting);
        self.cursor += fitting.len();
        fitting.len() == text.trim_end_matches(['\n', '\r']).len()
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if ctrl => {
                self.text.replace_range(..self.cursor, "");
                self.cursor = 0;
            }
            KeyCode::Char('w') if ctrl => {
                let kept = self.text[..self.cursor].trim_end();
                let from = kept.rfind(' ').map_or(0, |at| at + 1);
                self.text.replace_range(from..self.cursor, "");
                self.cursor = from;
            }
            KeyCode::Char('a') if ctrl => self.cursor = 0,
            KeyCode::Char('e') if ctrl => self.cursor = self.text.len(),
            KeyCode::Char(c) if !ctrl && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.insert(c.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace => {
                if let Some(c) = self.text[..self.cursor].chars().next_back() {
                    self.cursor -= c.len_utf8();
                    self.text.remove(self.cursor);
                }
            }
            KeyCode::Delete if self.cursor < self.text.len() => {
                self.text.remove(self.cursor);
            }
            KeyCode::Left => {
                if let Some(c) = self.text[..self.cursor].chars().next_back() {
                    self.cursor -= c.len_utf8();
                }
            }
            KeyCode::Right => {
                if let Some(c) = self.text[self.cursor..].chars().next() {
                    self.cursor += c.len_utf8();
                }
            }
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_in_any_script_keeps_the_cursor_on_a_character() {
        let mut line = Input::default();
        line.insert("订a单\x1b\nrest");
        assert_eq!(line.text(), "订a单");
        let press = |line: &mut Input, code| line.key(KeyEvent::new(code, KeyModifiers::NONE));
        press(&mut line, KeyCode::Left);
        press(&mut line, KeyCode::Backspace);
        assert_eq!(line.parts(), ("订", "单"));
        press(&mut line, KeyCode::Delete);
        press(&mut line, KeyCode::Home);
        press(&mut line, KeyCode::Left);
        press(&mut line, KeyCode::Char('x'));
        assert_eq!(line.text(), "x订");
        line.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(line.parts(), ("", "订"));
    }
}
