//! Message selectors (SQL92) as trees. Grammar and refusals are those of Java's `SelectorParser`:
//!
//! ```text
//! or      = and { OR and }
//! and     = equal { AND equal }
//! equal   = compare { ("=" | "<>") compare | IS [NOT] NULL }
//! compare = unary { (">" | ">=" | "<" | "<=") unary | [NOT] BETWEEN unary AND unary | [NOT] IN (text {, text})
//!                 | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text }
//! unary   = "+" unary | "-" unary | NOT unary | literal | name | "(" or ")"
//! ```
//!
//! As in Java, what follows a complete expression is ignored.

use super::lexer::{Lexer, Token};

/// Longest selector that is read, bytes.
const LONGEST: usize = 64 * 1024;
/// Deepest nesting, so that no selector exhausts the stack.
const DEEPEST: usize = 64;

/// A selector that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at line {line}, column {column}")]
pub struct SyntaxError {
    what: String,
    line: usize,
    column: usize,
}

impl SyntaxError {
    /// An error at a byte of the text; lines and columns count from 1.
    pub(super) fn at(text: &str, at: usize, what: String) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { what, line, column }
    }
}

/// A number or text of a selector, in the class that Java gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Box<str>),
}

/// How two values stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// Where a text is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Anywhere,
    Start,
    End,
}

/// A selector or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Literal(Literal),
    /// `TRUE`, `FALSE` or `NULL`.
    Truth(Option<bool>),
    Property(Box<str>),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    /// A property where a condition is wanted.
    AsTruth(Box<str>),
    /// Each in turn, left to right.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Equal(Box<(Expr, Expr)>),
    Compare(Order, Box<(Expr, Expr)>),
    Find {
        of: Box<Expr>,
        place: Place,
        not: bool,
        text: Box<str>,
    },
    In {
        property: Box<str>,
        not: bool,
        texts: Box<[Box<str>]>,
    },
}

impl Expr {
    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.len() > LONGEST {
            let what = format!(
                "a selector of {} bytes is too long (at most {LONGEST}),",
                text.len()
            );
            return Err(SyntaxError::at("", 0, what));
        }
        let mut lexer = Lexer::new(text);
        let (token, at) = lexer.next()?;
        let mut parser = Parser {
            text,
            lexer,
            token,
            at,
            depth: 0,
        };
        let whole = parser.or()?;
        parser.truth(whole, 0)
    }

    fn is_condition(&self) -> bool {
        match self {
            Self::Literal(_) | Self::Property(_) | Self::Negate(_) => false,
            Self::Truth(_)
            | Self::Not(_)
            | Self::AsTruth(_)
            | Self::And(_)
            | Self::Or(_)
            | Self::Equal(_)
            | Self::Compare(..)
            | Self::Find { .. }
            | Self::In { .. } => true,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Literal(Literal::Int(n)) => Some(f64::from(*n)),
            Self::Literal(Literal::Long(n)) => Some(*n as f64),
            Self::Literal(Literal::Double(n)) => Some(*n),
            _ => None,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The word that comes next, and where it begins.
    token: Token<'a>,
    at: usize,
    /// Bound of the height of what was read since the last joint of a chain, so that no tree is deeper.
    depth: usize,
}

type Parsed = Result<Expr, SyntaxError>;

impl<'a> Parser<'a> {
    fn step(&mut self) -> Result<Token<'a>, SyntaxError> {
        let (next, at) = self.lexer.next()?;
        self.at = at;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn take(&mut self, wanted: &Token<'_>) -> Result<bool, SyntaxError> {
        let found = self.token == *wanted;
        if found {
            self.step()?;
        }
        Ok(found)
    }

    fn expect(&mut self, wanted: &Token<'_>) -> Result<(), SyntaxError> {
        if self.take(wanted)? {
            return Ok(());
        }
        Err(self.unexpected(&wanted.shown()))
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        let what = format!("encountered {}, expecting {wanted},", self.token.shown());
        SyntaxError::at(self.text, self.at, what)
    }

    fn refuse(&self, at: usize, what: impl Into<String>) -> SyntaxError {
        SyntaxError::at(self.text, at, what.into())
    }

    /// A condition out of any expression, as Java's `asBooleanExpression`.
    fn truth(&self, value: Expr, at: usize) -> Parsed {
        match value {
            Expr::Property(name) => Ok(Expr::AsTruth(name)),
            value if value.is_condition() => Ok(value),
            _ => Err(self.refuse(at, "this expression will not result in a boolean value")),
        }
    }

    /// Counts one level of nesting.
    fn deeper(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.refuse(self.at, format!("more than {DEEPEST} levels of nesting")));
        }
        Ok(())
    }

    fn or(&mut self) -> Parsed {
        self.chain(&Token::Or, Self::and, Expr::Or)
    }

    fn and(&mut self) -> Parsed {
        self.chain(&Token::And, Self::equal, Expr::And)
    }

    fn chain(
        &mut self,
        joint: &Token<'_>,
        part: fn(&mut Self) -> Parsed,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Parsed {
        let (mut at, depth) = (self.at, self.depth);
        let first = part(self)?;
        if self.token != *joint {
            return Ok(first);
        }
        let mut parts = vec![self.truth(first, at)?];
        // The parts lie side by side: the deepest counts.
        let mut deepest = self.depth;
        while self.take(joint)? {
            at = self.at;
            self.depth = depth;
            let next = part(self)?;
            parts.push(self.truth(next, at)?);
            deepest = deepest.max(self.depth);
        }
        self.depth = deepest;
        self.deeper()?;
        Ok(join(parts))
    }

    fn equal(&mut self) -> Parsed {
        let mut left = self.compare()?;
        loop {
            let at = self.at;
            left = match self.token {
                Token::Sign(sign @ ("=" | "<>")) => {
                    self.deeper()?;
                    self.step()?;
                    let right = self.compare()?;
                    let equal = self.equal_to(left, right, at)?;
                    if sign == "=" {
                        equal
                    } else {
                        Expr::Not(equal.into())
                    }
                }
                Token::Is => {
                    self.deeper()?;
                    self.step()?;
                    let not = self.take(&Token::Not)?;
                    self.expect(&Token::Null)?;
                    let is_null = Expr::Equal((left, Expr::Truth(None)).into());
                    if not { Expr::Not(is_null.into()) } else { is_null }
                }
                _ => return Ok(left),
            };
        }
    }

    fn equal_to(&self, left: Expr, right: Expr, at: usize) -> Parsed {
        if [&left, &right].contains(&&Expr::Truth(None)) {
            return Err(self.refuse(at, "'NULL' cannot be compared, use IS NULL"));
        }
        if matches!((&left, &right), (Expr::Truth(_), Expr::Literal(_))) {
            return Err(self.refuse(at, "a boolean cannot be compared with a literal of another kind"));
        }
        Ok(Expr::Equal((left, right).into()))
    }

    fn compare(&mut self) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let at = self.at;
            let order = match self.token {
                Token::Sign(">") => Some(Order::Greater),
                Token::Sign(">=") => Some(Order::GreaterOrEqual),
                Token::Sign("<") => Some(Order::Less),
                Token::Sign("<=") => Some(Order::LessOrEqual),
                _ => None,
            };
            if let Some(order) = order {
                self.step()?;
                let right = self.unary()?;
                left = self.ordered(order, left, right, at)?;
                continue;
            }
            let not = self.take(&Token::Not)?;
            left = match self.token {
                Token::Contains | Token::StartsWith | Token::EndsWith => {
                    self.deeper()?;
                    self.find(left, not)?
                }
                Token::Between => {
                    self.step()?;
                    let low = self.unary()?;
                    self.expect(&Token::And)?;
                    let high = self.unary()?;
                    self.between(left, low, high, not, at)?
                }
                Token::In => {
                    self.step()?;
                    self.is_in(left, not, at)?
                }
                _ if not => {
                    let wanted = "CONTAINS, STARTSWITH, ENDSWITH, BETWEEN or IN behind NOT";
                    return Err(self.unexpected(wanted));
                }
                _ => return Ok(left),
            };
        }
    }

    /// Only numbers and what is not known yet have an order (Java's `checkLessThanOperand`).
    fn ordered(&self, order: Order, left: Expr, right: Expr, at: usize) -> Parsed {
        for side in [&left, &right] {
            if side.is_condition() || matches!(side, Expr::Literal(Literal::Text(_))) {
                return Err(self.refuse(at, "a text or boolean cannot be compared by its order"));
            }
        }
        Ok(Expr::Compare(order, (left, right).into()))
    }

    fn between(&self, value: Expr, low: Expr, high: Expr, not: bool, at: usize) -> Parsed {
        if let (Some(from), Some(to)) = (low.number(), high.number())
            && from > to
        {
            let what = format!("illegal values of between, {from} must be less than or equal to {to},");
            return Err(self.refuse(at, what));
        }
        let (below, above) = if not {
            (Order::Less, Order::Greater)
        } else {
            (Order::GreaterOrEqual, Order::LessOrEqual)
        };
        let both = vec![
            self.ordered(below, value.clone(), low, at)?,
            self.ordered(above, value, high, at)?,
        ];
        Ok(if not { Expr::Or(both) } else { Expr::And(both) })
    }

    fn find(&mut self, of: Expr, not: bool) -> Parsed {
        let place = match self.step()? {
            Token::StartsWith => Place::Start,
            Token::EndsWith => Place::End,
            _ => Place::Anywhere,
        };
        Ok(Expr::Find {
            of: of.into(),
            place,
            not,
            text: self.quoted()?,
        })
    }

    fn is_in(&mut self, left: Expr, not: bool, at: usize) -> Parsed {
        self.expect(&Token::Sign("("))?;
        let mut texts = vec![self.quoted()?];
        while self.take(&Token::Sign(","))? {
            texts.push(self.quoted()?);
        }
        self.expect(&Token::Sign(")"))?;
        let Expr::Property(property) = left else {
            return Err(self.refuse(at, "expected a property for IN"));
        };
        Ok(Expr::In {
            property,
            not,
            texts: texts.into(),
        })
    }

    fn quoted(&mut self) -> Result<Box<str>, SyntaxError> {
        let Token::Text(text) = self.token else {
            return Err(self.unexpected("a text in single quotes"));
        };
        self.step()?;
        Ok(text.replace("''", "'").into())
    }

    fn unary(&mut self) -> Parsed {
        let at = self.at;
        match self.token {
            Token::Sign("+") => {
                self.step()?;
                self.nested(Self::unary)
            }
            Token::Sign("-") => {
                self.step()?;
                let value = self.nested(Self::unary)?;
                // Java takes it, and no message satisfies it. It would also be the one tree of any size that BETWEEN
                // copies.
                if value.is_condition() {
                    return Err(self.refuse(at, "a boolean cannot be negated"));
                }
                Ok(Expr::Negate(value.into()))
            }
            Token::Not => {
                self.step()?;
                let value = self.nested(Self::unary)?;
                Ok(Expr::Not(self.truth(value, at)?.into()))
            }
            Token::Sign("(") => {
                self.step()?;
                let value = self.nested(Self::or)?;
                self.expect(&Token::Sign(")"))?;
                Ok(value)
            }
            _ => self.primary(),
        }
    }

    fn nested(&mut self, part: fn(&mut Self) -> Parsed) -> Parsed {
        self.deeper()?;
        part(self)
    }

    fn primary(&mut self) -> Parsed {
        let value = match self.token {
            Token::Text(_) => return Ok(Expr::Literal(Literal::Text(self.quoted()?))),
            Token::Decimal(text) => {
                let value: i64 = text
                    .trim_end_matches(['l', 'L'])
                    .parse()
                    .map_err(|_| self.refuse(self.at, format!("{text} is beyond the range of a long")))?;
                Expr::Literal(i32::try_from(value).map_or(Literal::Long(value), Literal::Int))
            }
            Token::Float(text) => {
                let value: f64 = text
                    .parse()
                    .map_err(|_| self.refuse(self.at, format!("{text} is no number")))?;
                // Java refuses 0.0 too: it takes the smallest positive double for the smallest one.
                if !value.is_finite() || value <= 0.0 {
                    return Err(self.refuse(self.at, format!("{text} is beyond the range of a double")));
                }
                Expr::Literal(Literal::Double(value))
            }
            Token::True => Expr::Truth(Some(true)),
            Token::False => Expr::Truth(Some(false)),
            Token::Null => Expr::Truth(None),
            Token::Name(name) => Expr::Property(name.into()),
            _ => return Err(self.unexpected("a literal, a property or \"(\"")),
        };
        self.step()?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Expr::parse(text).expect_err(text).to_string()
    }

    /// The expressions of Java's `ParserTest`.
    #[test]
    fn javas_own_examples_are_taken_and_refused() {
        for text in [
            "a=3 and b<>4 And c>5 AND d<=4",
            "a=3  and    b<>4 And c>5 AND d<=4",
            "a=3 or b<>4 Or c>5 OR d<=4",
            "a in ('3', '4', '5')",
            "(a not in ('6', '4', '5')) or (b in ('3', '4', '5'))",
            "(a between 2 and 10) AND (b not between 6 and 9)",
            "a is null",
            "a is not null",
            "a <= now",
            "a=3 and b contains 'xxx' and c not contains 'xxx'",
        ] {
            Expr::parse(text).expect(text);
        }
        let overflow = format!("a > {}.{}", "1".repeat(1000), "1".repeat(1000));
        for text in [
            "a and between 2 and 10",
            " a between 10 and 0",
            "a > 100000000000000000000000",
            &overflow,
            "value contains x",
            "value not contains 123",
            "'axb' contains ",
        ] {
            refused(text);
        }
        assert_eq!(
            Expr::parse("a=3 and b<>4 And c>5 AND d<=4"),
            Expr::parse("a=3  and    b<>4 And c>5 AND d<=4"),
            "blanks and case mean nothing"
        );
    }

    #[test]
    fn positions_count_from_one() {
        for (text, shown) in [
            (
                "",
                "encountered <EOF>, expecting a literal, a property or \"(\", at line 1, column 1",
            ),
            (
                "a >\n  AND b = 1",
                "encountered \"AND\", expecting a literal, a property or \"(\", at line 2, column 3",
            ),
            (
                "(a = 1",
                "encountered <EOF>, expecting \")\", at line 1, column 7",
            ),
            (
                "a IS 5",
                "encountered \"5\", expecting \"NULL\", at line 1, column 6",
            ),
            (
                "a BETWEEN 10 AND 0",
                "illegal values of between, 10 must be less than or equal to 0, at line 1, column 3",
            ),
            (
                "a > 'x'",
                "a text or boolean cannot be compared by its order at line 1, column 3",
            ),
            (
                "1 + 1",
                "this expression will not result in a boolean value at line 1, column 1",
            ),
            ("'a' IN ('a')", "expected a property for IN at line 1, column 5"),
            (
                "a in (1)",
                "encountered \"1\", expecting a text in single quotes, at line 1, column 7",
            ),
        ] {
            assert_eq!(refused(text), shown, "{text}");
        }
    }

    #[test]
    fn operands_are_checked_as_in_java() {
        for text in [
            "a = NULL",
            "NULL = a",
            "TRUE = 'x'",
            "TRUE = 1",
            "a > TRUE",
            "(a > 1) > 2",
            "'x'",
            "5",
            "-a",
            "NOT 5",
            "a AND 5",
            "a > 0.0",
            "a NOT 5",
            "a NOT NULL",
            "(a = 1) IN ('x')",
            "a between 'a' and 'b'",
        ] {
            refused(text);
        }
        for text in [
            "TRUE",
            "a",
            "NOT a",
            "'x' = TRUE",
            "a = (b > 1)",
            "a > -5",
            "a between -1 and -5",
            "((((a))))",
            "a = b = TRUE",
            "a > 9223372036854775807",
            "a IS NULL IS NOT NULL",
            "a = 1 and /* x */ b = 2",
        ] {
            Expr::parse(text).expect(text);
        }
    }

    #[test]
    fn what_follows_an_expression_is_ignored_unless_it_is_no_word() {
        assert_eq!(Expr::parse("a = 1 b"), Expr::parse("a = 1"));
        assert_eq!(Expr::parse("a = 007"), Expr::parse("a = 0"));
        assert_eq!(refused("a = 1 ; x").split(' ').next(), Some("encountered"));
    }

    #[test]
    fn nesting_and_length_are_bounded_and_long_chains_are_not() {
        let deep = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
        // In a thread with half the stack that the broker's have.
        let small = std::thread::Builder::new().stack_size(1 << 20);
        let parsed = small
            .spawn(move || Expr::parse(&deep(DEEPEST)).map(drop))
            .unwrap();
        parsed.join().unwrap().unwrap();
        assert!(refused(&deep(1000)).contains("levels of nesting"));
        // A tree that grows a little on each level of parentheses.
        let mut slow = "a".to_owned();
        for _ in 0..50 {
            slow = format!("({slow} = a = a = a = a)");
        }
        assert!(refused(&slow).contains("levels of nesting"));
        // Each BETWEEN would double what stands before it.
        let doubled = format!(
            "{}a{} between 1 and 2",
            "-(".repeat(31),
            " between 1 and 2)".repeat(31)
        );
        assert!(refused(&doubled).contains("a boolean cannot be negated"));
        assert!(refused(&"NOT ".repeat(2000)).contains("levels of nesting"));
        assert!(refused(&format!("a{}", " = a".repeat(2000))).contains("levels of nesting"));
        assert!(refused(&format!("a{}", " IS NULL".repeat(2000))).contains("levels of nesting"));
        assert!(refused(&format!("a{}", " CONTAINS 'x'".repeat(2000))).contains("levels of nesting"));
        let chain = format!("a = 1{}", " OR a = 1".repeat(5000));
        let Expr::Or(parts) = Expr::parse(&chain).unwrap() else {
            panic!("no chain");
        };
        assert_eq!(parts.len(), 5001);
        assert!(refused(&format!("a = '{}'", "x".repeat(LONGEST))).contains("too long"));
    }
}
