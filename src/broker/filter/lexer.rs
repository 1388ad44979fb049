//! Words of a message selector, cut off one at a time as Java's `SelectorParser` does: what stands behind the end
//! of an expression is looked at for one word and no further.

use super::parse::SyntaxError;

/// One word.
#[derive(Debug, Clone, PartialEq)]
pub enum Token<'a> {
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    Contains,
    StartsWith,
    EndsWith,
    /// A whole number as written, with its `l` if it has one.
    Decimal(&'a str),
    /// A number with point or exponent.
    Float(&'a str),
    /// What stands between the quotes, where a quote is still two.
    Text(&'a str),
    /// A property's name.
    Name(&'a str),
    /// `=`, `<>`, `<`, `<=`, `>`, `>=`, `(`, `)`, `,`, `+` or `-`.
    Sign(&'static str),
    End,
}

impl Token<'_> {
    /// The word as an error shows it.
    pub fn shown(&self) -> String {
        match self {
            Self::Decimal(text) | Self::Float(text) | Self::Name(text) => format!("\"{text}\""),
            Self::Text(text) => format!("'{text}'"),
            Self::Sign(sign) => format!("\"{sign}\""),
            Self::End => "<EOF>".into(),
            word => {
                let word = format!("{word:?}").to_ascii_uppercase();
                format!("\"{word}\"")
            }
        }
    }
}

/// Signs, longer ones before their beginnings.
const SIGNS: [&str; 11] = ["<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "+", "-"];

/// Cuts words off a text.
#[derive(Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next word and where it begins.
    pub fn next(&mut self) -> Result<(Token<'a>, usize), SyntaxError> {
        self.skip();
        let (start, rest) = (self.at, &self.text[self.at..]);
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, start));
        };
        let (token, len) = if first == '\'' {
            let len = quoted(rest).ok_or_else(|| self.error("a text without its closing quote"))?;
            (Token::Text(&rest[1..len - 1]), len)
        } else if is_name_start(first) {
            let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            (word(&rest[..len]), len)
        } else if first.is_ascii_digit() || first == '.' {
            number(rest).ok_or_else(|| self.error("\".\" that begins no number"))?
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            let shown: String = first.escape_default().collect();
            return Err(self.error(&format!("the character \"{shown}\", which begins no word")));
        };
        self.at += len;
        Ok((token, start))
    }

    fn error(&self, what: &str) -> SyntaxError {
        SyntaxError::at(self.text, self.at, format!("encountered {what}"))
    }

    /// Steps over blanks and comments. A `--` comment must end in a line end, as in Java; without one it is two
    /// minus signs.
    fn skip(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let len = if rest.starts_with([' ', '\t', '\n', '\r', '\u{c}']) {
                Some(1)
            } else if rest.starts_with("--") {
                rest.find(['\n', '\r']).map(|end| end + 1)
            } else if let Some(inside) = rest.strip_prefix("/*") {
                inside.find("*/").map(|end| end + 4)
            } else {
                None
            };
            match len {
                Some(len) => self.at += len,
                None => return,
            }
        }
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$'
}

fn is_name(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit()
}

fn word(text: &str) -> Token<'_> {
    const WORDS: [(&str, Token<'_>); 12] = [
        ("NOT", Token::Not),
        ("AND", Token::And),
        ("OR", Token::Or),
        ("BETWEEN", Token::Between),
        ("IN", Token::In),
        ("TRUE", Token::True),
        ("FALSE", Token::False),
        ("NULL", Token::Null),
        ("IS", Token::Is),
        ("CONTAINS", Token::Contains),
        ("STARTSWITH", Token::StartsWith),
        ("ENDSWITH", Token::EndsWith),
    ];
    WORDS
        .into_iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
        .map_or(Token::Name(text), |(_, token)| token)
}

/// Length of a quoted text with both quotes; two quotes inside are one.
fn quoted(text: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text[at..].find('\'')? + 1;
        if !text[at..].starts_with('\'') {
            return Some(at);
        }
        at += 1;
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Length of an exponent (`E10`, `e-3`), 0 when there is none.
fn exponent(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(['e', 'E']) else {
        return 0;
    };
    let sign = usize::from(rest.starts_with(['+', '-']));
    match digits(&rest[sign..]) {
        0 => 0,
        n => 1 + sign + n,
    }
}

/// The longest number at the start. A whole number does not begin with 0 unless it is 0.
fn number(text: &str) -> Option<(Token<'_>, usize)> {
    let whole = digits(text);
    if text[whole..].starts_with('.') {
        let part = digits(&text[whole + 1..]);
        if whole + part == 0 {
            return None;
        }
        let len = whole + 1 + part;
        let len = len + exponent(&text[len..]);
        return Some((Token::Float(&text[..len]), len));
    }
    match exponent(&text[whole..]) {
        0 if text.starts_with('0') => Some((Token::Decimal("0"), 1)),
        0 => {
            let len = whole + usize::from(text[whole..].starts_with(['l', 'L']));
            Some((Token::Decimal(&text[..len]), len))
        }
        more => Some((Token::Float(&text[..whole + more]), whole + more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text);
        let mut all = Vec::new();
        loop {
            match lexer.next().unwrap().0 {
                Token::End => return all,
                token => all.push(token),
            }
        }
    }

    #[test]
    fn words_are_cut_as_in_java() {
        assert_eq!(
            words("a<>5 and $b_1>='it''s'"),
            [
                Token::Name("a"),
                Token::Sign("<>"),
                Token::Decimal("5"),
                Token::And,
                Token::Name("$b_1"),
                Token::Sign(">="),
                Token::Text("it''s"),
            ]
        );
        for (text, number) in [
            ("5.", Token::Float("5.")),
            (".5e-3", Token::Float(".5e-3")),
            ("5E10", Token::Float("5E10")),
            ("007.5", Token::Float("007.5")),
            ("12L", Token::Decimal("12L")),
        ] {
            assert_eq!(words(text), [number]);
        }
        assert_eq!(words("07"), [Token::Decimal("0"), Token::Decimal("7")]);
        assert_eq!(words("5e"), [Token::Decimal("5"), Token::Name("e")]);
        assert_eq!(
            words("a -- b\n/* c ** */ d"),
            [Token::Name("a"), Token::Name("d")]
        );
        assert_eq!(
            words("--5"),
            [Token::Sign("-"), Token::Sign("-"), Token::Decimal("5")]
        );
    }

    #[test]
    fn what_begins_no_word_is_named_with_its_place() {
        for (text, shown) in [
            (
                "!=",
                "encountered the character \"!\", which begins no word at line 1, column 1",
            ),
            (
                " \n 'x",
                "encountered a text without its closing quote at line 2, column 2",
            ),
            (".", "encountered \".\" that begins no number at line 1, column 1"),
            (
                "/* x",
                "encountered the character \"/\", which begins no word at line 1, column 1",
            ),
        ] {
            assert_eq!(Lexer::new(text).next().unwrap_err().to_string(), shown);
        }
    }
}
