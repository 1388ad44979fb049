//! Fields to fill in before a change: data that becomes a command line. Pure.

use crossterm::event::{KeyCode, KeyEvent};

use super::deed::Deed;
use super::input::Input;
use crate::client::findings::Subject;

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What it is called.
    pub label: &'static str,
    /// The option that takes it; `None` when its words stand for themselves.
    pub flag: Option<&'static str>,
    /// What was typed.
    pub input: Input,
    /// What it was at first: an unchanged field of an edit is left out.
    pub initial: String,
    /// What may be typed.
    pub hint: &'static str,
    /// It may not be empty.
    pub required: bool,
    /// How its text becomes words.
    pub takes: Takes,
}

/// How the text of a field becomes words of the command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Takes {
    /// The text as it is.
    #[default]
    Text,
    /// Several values with blanks between them: the option once for each.
    Several,
    /// `yes` is the option alone, `no` and nothing leave it out.
    YesOrNo,
}

impl Field {
    /// An empty field.
    pub fn new(label: &'static str, flag: Option<&'static str>, hint: &'static str) -> Self {
        Self {
            label,
            flag,
            input: Input::default(),
            initial: String::new(),
            hint,
            required: false,
            takes: Takes::Text,
        }
    }

    /// It takes several values, with blanks between them.
    #[must_use]
    pub fn several(mut self) -> Self {
        self.takes = Takes::Several;
        self
    }

    /// It takes yes or no.
    #[must_use]
    pub fn yes_or_no(mut self) -> Self {
        self.takes = Takes::YesOrNo;
        self
    }

    /// It has to be filled in.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// It says this until something else is typed, and is part of the command only then.
    #[must_use]
    pub fn now(mut self, value: impl Into<String>) -> Self {
        self.initial = value.into();
        self.input = Input::new(self.initial.clone());
        self
    }

    /// It begins with this.
    #[must_use]
    pub fn preset(mut self, value: impl Into<String>) -> Self {
        self.input = Input::new(value.into());
        self
    }
}

/// A form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Heading.
    pub title: String,
    /// The command's first words.
    pub base: Vec<String>,
    /// What is changed.
    pub about: Option<Subject>,
    /// The fields.
    pub fields: Vec<Field>,
    /// The field being edited.
    pub at: usize,
    /// What is to be known, one line each.
    pub notes: Vec<String>,
    /// Why the last try was no command.
    pub error: Option<String>,
}

/// What a key leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The form stays.
    Stay,
    /// It closes.
    Close,
    /// This is the command.
    Deed(Deed),
}

impl Form {
    /// A form for a command that begins with these words.
    pub fn new<W: Into<String>>(title: impl Into<String>, base: impl IntoIterator<Item = W>) -> Self {
        Self {
            title: title.into(),
            base: base.into_iter().map(Into::into).collect(),
            about: None,
            fields: Vec::new(),
            at: 0,
            notes: Vec::new(),
            error: None,
        }
    }

    /// About something.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Self {
        self.about = Some(subject);
        self
    }

    /// One more field.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }

    /// One more line that is to be known.
    #[must_use]
    pub fn note(mut self, line: impl Into<String>) -> Self {
        self.notes.push(line.into());
        self
    }

    /// The command that the fields make.
    pub fn deed(&self) -> Result<Deed, String> {
        let mut words = self.base.clone();
        let before = words.len();
        for field in &self.fields {
            // A body is sent as it is; around everything else blanks mean nothing.
            let text = match field.flag {
                Some("--body") => field.input.text(),
                _ => field.input.text().trim(),
            };
            if text == field.initial && !field.required {
                continue;
            }
            if text.is_empty() {
                if field.required {
                    return Err(format!("{} is missing", field.label));
                }
                continue;
            }
            match (field.flag, field.takes) {
                (Some(flag), Takes::Several) => {
                    words.extend(text.split_whitespace().map(|value| format!("{flag}={value}")));
                }
                (Some(flag), Takes::YesOrNo) => match text {
                    "yes" | "y" | "true" => words.push(flag.to_owned()),
                    "no" | "n" | "false" => {}
                    _ => return Err(format!("{}: yes or no", field.label)),
                },
                (None, _) => words.extend(text.split_whitespace().map(str::to_owned)),
                // So that a value may begin with a hyphen.
                (Some(flag), _) if flag.starts_with("--") => words.push(format!("{flag}={text}")),
                (Some(flag), _) => words.extend([flag.to_owned(), text.to_owned()]),
            }
        }
        if words.len() == before && !self.fields.is_empty() {
            return Err("nothing is changed yet".into());
        }
        Ok(Deed {
            words,
            about: self.about.clone(),
        })
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Answer {
        let last = self.fields.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc => return Answer::Close,
            KeyCode::Enter => match self.deed() {
                Ok(deed) => return Answer::Deed(deed),
                Err(why) => self.error = Some(why),
            },
            KeyCode::Tab | KeyCode::Down => self.at = if self.at == last { 0 } else { self.at + 1 },
            KeyCode::BackTab | KeyCode::Up => self.at = self.at.checked_sub(1).unwrap_or(last),
            _ => {
                self.error = None;
                if let Some(field) = self.fields.get_mut(self.at) {
                    field.input.key(key);
                }
            }
        }
        Answer::Stay
    }

    /// Takes a pasted text.
    pub fn paste(&mut self, text: &str) {
        self.error = None;
        if let Some(field) = self.fields.get_mut(self.at)
            && !field.input.insert(text)
        {
            self.error = Some("only a part was taken: the first line, 16 KiB at most".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyModifiers;

    use super::*;

    fn press(form: &mut Form, code: KeyCode) -> Answer {
        form.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn fields_become_words_and_what_is_unchanged_is_left_out() {
        let mut form = Form::new("reset", ["group", "reset", "g"])
            .field(Field::new("topic", Some("-t"), "").preset("orders").required())
            .field(Field::new("to", Some("--to"), "").required())
            .field(Field::new("retry", Some("--retry-max"), "").now("16"));
        assert_eq!(press(&mut form, KeyCode::Enter), Answer::Stay);
        assert_eq!(form.error.as_deref(), Some("to is missing"));
        press(&mut form, KeyCode::Tab);
        form.paste("-1h\nmore");
        let Answer::Deed(deed) = press(&mut form, KeyCode::Enter) else {
            panic!("{:?}", form.error)
        };
        assert_eq!(deed.words, ["group", "reset", "g", "-t", "orders", "--to=-1h"]);
        press(&mut form, KeyCode::Tab);
        press(&mut form, KeyCode::Backspace);
        assert_eq!(form.deed().unwrap().words.last().unwrap(), "--retry-max=1");
    }

    #[test]
    fn what_a_paste_leaves_out_is_said_and_a_body_keeps_its_blanks() {
        let body = || Field::new("body", Some("--body"), "").required();
        let mut form = Form::new("send", ["message", "send", "-t", "T"]).field(body());
        form.paste(" {\"a\": 1} ");
        assert_eq!(form.error, None);
        assert_eq!(form.deed().unwrap().words.last().unwrap(), "--body= {\"a\": 1} ");
        form.paste("one\ntwo");
        assert!(form.error.is_some(), "the second line is not taken");
        let mut long = Form::new("send", ["message", "send", "-t", "T"]).field(body());
        long.paste(&"x".repeat(20_000));
        assert!(long.error.is_some());
    }

    #[test]
    fn several_values_are_the_option_several_times_and_yes_is_the_option_alone() {
        let form = |groups: &str, order: &str| {
            Form::new("scale", ["topic", "scale", "T"])
                .field(
                    Field::new("ignore", Some("--ignore-group"), "")
                        .preset(groups)
                        .several(),
                )
                .field(Field::new("order", Some("--order"), "").preset(order).yes_or_no())
        };
        let words = |form: Form| form.deed().unwrap().words[3..].join(" ");
        assert_eq!(
            words(form("a  b", "yes")),
            "--ignore-group=a --ignore-group=b --order"
        );
        assert_eq!(words(form("a", "no")), "--ignore-group=a");
        assert_eq!(form("a", "perhaps").deed(), Err("order: yes or no".into()));
    }

    #[test]
    fn nothing_changed_is_no_command() {
        let form = Form::new("edit", ["group", "update", "g"])
            .field(Field::new("retry", Some("--retry-max"), "").now("16"));
        assert!(form.deed().is_err());
    }
}
