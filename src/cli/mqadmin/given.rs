//! The options of an old line, and the new line that is made of them.

use std::collections::BTreeMap;

use super::Old;
use crate::cli::exit::Failure;

/// What an old line says.
#[derive(Debug)]
pub struct Given<'a> {
    name: &'a str,
    /// Values by short name; a flag has an empty one.
    values: BTreeMap<&'static str, String>,
    /// `-n`.
    pub namesrv: Option<String>,
    /// Words that stand for the values of required options, where only the form of the new line is wanted.
    words: BTreeMap<&'static str, String>,
}

/// `groupName` as the word for a value in a usage: `GROUP_NAME`.
fn value_word(long: &str) -> String {
    let mut word = String::new();
    for c in long.trim().chars() {
        if c.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(if c == ' ' { '_' } else { c.to_ascii_uppercase() });
    }
    word
}

impl<'a> Given<'a> {
    /// Reads options as commons-cli does: `-t V`, `-t=V`, `-tV`, `--topic V`, `--topic=V`.
    pub fn read(old: &'a Old, words: &[String]) -> Result<Self, Failure> {
        let mut given = Self {
            name: old.name,
            values: BTreeMap::new(),
            namesrv: None,
            words: BTreeMap::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (option, mut value) = Self::option(old, word)?;
            let has_value = option.is_none_or(|(_, _, has_value)| *has_value);
            if has_value && value.is_none() {
                value =
                    Some(words.next().cloned().ok_or_else(|| {
                        Failure::usage(format!("mqadmin {}: {word} needs a value", old.name))
                    })?);
            }
            match option {
                None => given.namesrv = value,
                Some((short, _, _)) => {
                    given
                        .values
                        .insert(short, value.unwrap_or_default().trim().to_owned());
                }
            }
        }
        // Three commands declare -n as an option of their own.
        if let Some(servers) = given.values.remove("n") {
            given.namesrv = Some(servers);
        }
        Ok(given)
    }

    /// Nothing but the required options, each with a word for its value: what the new line looks like.
    pub fn form(old: &'a Old) -> Self {
        let options = old.options.iter();
        Self {
            name: old.name,
            values: BTreeMap::new(),
            namesrv: None,
            words: options
                .map(|(short, long, _)| (*short, value_word(long)))
                .collect(),
        }
    }

    /// The option that a word is, `None` for the name servers, and the value that is part of it.
    fn option(old: &Old, word: &str) -> Result<(Option<&'static super::OldOption>, Option<String>), Failure> {
        let unknown = || Failure::usage(format!("mqadmin {} has no option {word}", old.name));
        let name = word
            .strip_prefix("--")
            .or_else(|| word.strip_prefix('-'))
            .filter(|name| !name.is_empty())
            .ok_or_else(unknown)?;
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let own = |text: &str| {
            old.options
                .iter()
                .find(|(short, long, _)| *short == text || long.trim() == text)
        };
        if let Some(option) = own(name) {
            return Ok((Some(option), value));
        }
        if matches!(name, "n" | "namesrvAddr") {
            return Ok((None, value));
        }
        // -tT: a short option with its value behind it.
        let whole = word
            .strip_prefix('-')
            .filter(|w| !w.starts_with('-'))
            .ok_or_else(unknown)?;
        let (short, rest) = whole.split_at_checked(1).ok_or_else(unknown)?;
        if short == "n" && own("n").is_none() {
            return Ok((None, Some(rest.to_owned())));
        }
        match own(short).filter(|(_, _, has_value)| *has_value) {
            Some(option) => Ok((Some(option), Some(rest.to_owned()))),
            None => Err(unknown()),
        }
    }

    /// The value of an option, if it was given and is not empty.
    pub fn get(&self, short: &str) -> Option<&str> {
        self.values
            .get(short)
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// True when an option was given, with or without a value.
    pub fn has(&self, short: &str) -> bool {
        self.values.contains_key(short)
    }

    /// True when an option says `true`.
    pub fn is_true(&self, short: &str) -> bool {
        self.get(short).is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }

    /// The value of a required option.
    pub fn need(&self, short: &str) -> Result<&str, Failure> {
        self.get(short)
            .or_else(|| self.words.get(short).map(String::as_str))
            .ok_or_else(|| Failure::usage(format!("mqadmin {} needs -{short}", self.name)))
    }

    /// Refuses a line that has neither of two options.
    pub fn need_one(&self, one: &str, other: &str) -> Result<(), Failure> {
        if self.get(one).is_some() || self.get(other).is_some() || !self.words.is_empty() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "mqadmin {} needs -{one} or -{other}",
            self.name
        )))
    }

    /// A value of `true` or `false`, as the old tool read it: anything else is false.
    pub fn bool(&self, short: &str) -> Option<&'static str> {
        self.get(short).map(|v| {
            if v.eq_ignore_ascii_case("true") {
                "true"
            } else {
                "false"
            }
        })
    }
}

/// A command of `rmq` in the making.
#[derive(Debug, Default)]
pub struct Line {
    /// Its words, without `rmq`.
    pub words: Vec<String>,
    /// What of the old line has no effect, or another one.
    pub notes: Vec<String>,
    /// It changes something, so that it asks.
    pub changes: bool,
    /// A password, which the new command takes from `RMQ_MQADMIN_PASSWORD`.
    pub secret: Option<String>,
}

impl Line {
    /// A command that reads: `"topic route"`.
    pub fn read(command: &str) -> Self {
        Self {
            words: command.split(' ').map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// A command that changes something.
    pub fn change(command: &str) -> Self {
        Self {
            changes: true,
            ..Self::read(command)
        }
    }

    /// With a positional argument.
    #[must_use]
    pub fn arg(mut self, value: impl Into<String>) -> Self {
        self.words.push(value.into());
        self
    }

    /// With a flag.
    #[must_use]
    pub fn flag(mut self, flag: &str, on: bool) -> Self {
        if on {
            self.words.push(flag.to_owned());
        }
        self
    }

    /// With an option, where there is a value.
    #[must_use]
    pub fn opt(mut self, flag: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            if value.starts_with('-') {
                self.words.push(format!("{flag}={value}"));
            } else {
                self.words.extend([flag.to_owned(), value.to_owned()]);
            }
        }
        self
    }

    /// With `--cluster` of the old `-c` and `--broker` of the old `-b`, of which mqadmin wanted one: without both it printed its
    /// usage and did nothing.
    pub fn scope(self, given: &Given<'_>) -> Result<Self, Failure> {
        given.need_one("b", "c")?;
        Ok(self
            .opt("--cluster", given.get("c"))
            .opt("--broker", given.get("b")))
    }

    /// With a password.
    #[must_use]
    pub fn secret(mut self, password: &str) -> Self {
        self.secret = Some(password.to_owned());
        self
    }

    /// With a remark, when `when` holds.
    #[must_use]
    pub fn note(mut self, when: bool, text: &str) -> Self {
        if when {
            self.notes.push(text.to_owned());
        }
        self
    }
}

/// `+k=v,-k` as options of ours.
pub fn attributes(mut line: Line, text: Option<&str>) -> Result<Line, Failure> {
    for part in text
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|p| !p.is_empty())
    {
        line = match part.split_at_checked(1) {
            Some(("+", set)) if set.contains('=') => line.opt("--attr", Some(set)),
            Some(("-", key)) if !key.is_empty() => line.opt("--unset-attr", Some(key)),
            _ => {
                return Err(Failure::usage(format!(
                    "\"{part}\" is neither +KEY=VALUE nor -KEY; mqadmin's attributes carry a sign"
                )));
            }
        };
    }
    Ok(line)
}
