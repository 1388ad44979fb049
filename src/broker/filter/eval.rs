//! Whether a message's properties satisfy a selector. The rules of Java's expressions: three-valued logic, values
//! converted to the class of the other side, and an operation that fails makes the whole selector fail, whatever
//! stands around it.

use std::cmp::Ordering;

use super::parse::{Expr, Literal, Order, Place};
use crate::protocol::properties::Properties;

/// What an expression comes to; properties are texts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'a> {
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(&'a str),
}

/// Java would throw: texts that are no numbers where numbers are wanted, for one. No message passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failed;

type Outcome<T> = Result<Option<T>, Failed>;

/// The properties of one message.
#[derive(Debug)]
struct Values<'a> {
    text: Properties<'a>,
    /// By name, those of one name in their order.
    by_name: Option<Vec<(&'a [u8], &'a [u8])>>,
}

impl<'a> Values<'a> {
    /// Looked for in the text each time.
    fn of(text: Properties<'a>) -> Self {
        Self { text, by_name: None }
    }

    /// Sorted once.
    fn sorted(text: Properties<'a>) -> Self {
        let mut by_name: Vec<_> = text.iter_bytes().collect();
        by_name.sort_by_key(|(name, _)| *name);
        let by_name = Some(by_name);
        Self { text, by_name }
    }

    /// The value of a property; the last of a name counts, one that is not UTF-8 is none.
    fn get(&self, name: &str) -> Option<&'a str> {
        let name = name.as_bytes();
        let found = match &self.by_name {
            Some(sorted) => {
                let behind = sorted.partition_point(|(n, _)| *n <= name);
                sorted[..behind].last().filter(|(n, _)| *n == name).copied()
            }
            None => self.text.iter_bytes().filter(|(n, _)| *n == name).last(),
        };
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }
}

impl Expr {
    /// True when the properties satisfy the selector; unknown and failed are no.
    pub fn matches(&self, properties: Properties<'_>) -> bool {
        self.truth(&Values::of(properties)) == Ok(Some(true))
    }

    /// The same, for a selector that names many properties.
    pub fn matches_sorted(&self, properties: Properties<'_>) -> bool {
        self.truth(&Values::sorted(properties)) == Ok(Some(true))
    }

    /// A condition's value; `None` is unknown.
    fn truth(&self, of: &Values<'_>) -> Outcome<bool> {
        match self {
            Self::Truth(value) => Ok(*value),
            Self::Not(inner) => Ok(inner.truth(of)?.map(|value| !value)),
            // A property is a text and never a boolean.
            Self::AsTruth(name) => Ok(of.get(name).map(|_| false)),
            Self::And(parts) => all(parts, of, false),
            Self::Or(parts) => all(parts, of, true),
            Self::Equal(sides) => equal(sides.0.value(of)?, sides.1.value(of)?),
            Self::Compare(order, sides) => {
                let (Some(left), Some(right)) = (sides.0.value(of)?, sides.1.value(of)?) else {
                    return Ok(None);
                };
                let found = match (left, right) {
                    (Value::Text(left), Value::Text(right)) => double(left)?.total_cmp(&double(right)?),
                    _ => compare(left, right)?,
                };
                Ok(Some(match order {
                    Order::Greater => found.is_gt(),
                    Order::GreaterOrEqual => found.is_ge(),
                    Order::Less => found.is_lt(),
                    Order::LessOrEqual => found.is_le(),
                }))
            }
            Self::Find {
                of: inner,
                place,
                not,
                text,
            } => {
                let Some(Value::Text(value)) = inner.value(of)? else {
                    return Ok(Some(false));
                };
                if text.is_empty() {
                    return Ok(Some(false));
                }
                let found = match place {
                    Place::Anywhere => value.contains(&**text),
                    Place::Start => value.starts_with(&**text),
                    Place::End => value.ends_with(&**text),
                };
                Ok(Some(found != *not))
            }
            Self::In {
                property: name,
                not,
                texts,
            } => {
                let value = of.get(name);
                Ok(value.map(|value| texts.iter().any(|text| **text == *value) != *not))
            }
            // The parser makes no condition of these.
            Self::Literal(_) | Self::Property(_) | Self::Negate(_) => Err(Failed),
        }
    }

    fn value<'a>(&'a self, of: &Values<'a>) -> Outcome<Value<'a>> {
        Ok(match self {
            Self::Literal(Literal::Int(n)) => Some(Value::Int(*n)),
            Self::Literal(Literal::Long(n)) => Some(Value::Long(*n)),
            Self::Literal(Literal::Double(n)) => Some(Value::Double(*n)),
            Self::Literal(Literal::Text(text)) => Some(Value::Text(text)),
            Self::Property(name) => of.get(name).map(Value::Text),
            Self::Negate(inner) => match inner.value(of)? {
                Some(Value::Int(n)) => Some(Value::Int(n.wrapping_neg())),
                Some(Value::Long(n)) => Some(Value::Long(n.wrapping_neg())),
                Some(Value::Double(n)) => Some(Value::Double(-n)),
                Some(Value::Bool(_) | Value::Text(_)) | None => None,
            },
            condition => condition.truth(of)?.map(Value::Bool),
        })
    }
}

/// Each part in turn until one is `ends`; unknown when one is unknown and none ends it.
fn all(parts: &[Expr], of: &Values<'_>, ends: bool) -> Outcome<bool> {
    let mut known = true;
    for part in parts {
        match part.truth(of)? {
            Some(value) if value == ends => return Ok(Some(ends)),
            Some(_) => {}
            None => known = false,
        }
    }
    Ok(known.then_some(!ends))
}

/// `=`. Two missing values are equal; a missing left side is unknown, a missing right side is no.
fn equal(left: Option<Value<'_>>, right: Option<Value<'_>>) -> Outcome<bool> {
    Ok(match (left, right) {
        (None, None) => Some(true),
        (None, Some(_)) => None,
        (Some(_), None) => Some(false),
        (Some(left), Some(right)) => Some(compare(left, right)?.is_eq()),
    })
}

/// Java's `ComparisonExpression.__compare`: numbers widen to the larger class, a text is read as the class of the
/// other side. Classes that have nothing in common compare as less.
fn compare(left: Value<'_>, right: Value<'_>) -> Result<Ordering, Failed> {
    use Value::{Bool, Double, Int, Long, Text};
    Ok(match (left, right) {
        (Bool(left), Bool(right)) => left.cmp(&right),
        (Text(left), Bool(right)) => left.eq_ignore_ascii_case("true").cmp(&right),
        // Java reads the wrong side here and throws.
        (Bool(_), Text(_)) => return Err(Failed),
        (Bool(_), _) | (_, Bool(_)) => Ordering::Less,
        (Text(left), Text(right)) => left.cmp(right),
        (Int(left), Int(right)) => left.cmp(&right),
        (Int(left), Long(right)) => i64::from(left).cmp(&right),
        (Long(left), Int(right)) => left.cmp(&i64::from(right)),
        (Long(left), Long(right)) => left.cmp(&right),
        (Int(left), Double(right)) => f64::from(left).total_cmp(&right),
        (Long(left), Double(right)) => (left as f64).total_cmp(&right),
        (Double(left), Int(right)) => left.total_cmp(&f64::from(right)),
        (Double(left), Long(right)) => left.total_cmp(&(right as f64)),
        (Double(left), Double(right)) => left.total_cmp(&right),
        (Int(left), Text(right)) => left.cmp(&whole(right)?),
        (Long(left), Text(right)) => left.cmp(&whole(right)?),
        (Double(left), Text(right)) => left.total_cmp(&double(right)?),
        (Text(left), Int(right)) => whole::<i32>(left)?.cmp(&right),
        (Text(left), Long(right)) => whole::<i64>(left)?.cmp(&right),
        (Text(left), Double(right)) => double(left)?.total_cmp(&right),
    })
}

/// A text as Java's `Integer.valueOf` and `Long.valueOf` read it: a sign and digits, nothing else.
fn whole<N: std::str::FromStr>(text: &str) -> Result<N, Failed> {
    text.parse().map_err(|_| Failed)
}

/// A text as Java's `Double.valueOf` reads it: blanks around it and a suffix `d` or `f` are allowed. Hexadecimal
/// notation is not read here.
fn double(text: &str) -> Result<f64, Failed> {
    let text = text.trim_matches(|c| c <= ' ');
    let (minus, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let value = match unsigned {
        "NaN" => return Ok(f64::NAN),
        "Infinity" => f64::INFINITY,
        _ => {
            let digits = unsigned.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(unsigned);
            if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                return Err(Failed);
            }
            digits.parse::<f64>().map_err(|_| Failed)?
        }
    };
    Ok(if minus { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(selector: &str, entries: &[(&str, &str)]) -> Outcome<bool> {
        let mut text = String::new();
        for (name, value) in entries {
            crate::protocol::properties::append(&mut text, name, value);
        }
        let (expr, text) = (
            Expr::parse(selector).expect(selector),
            Properties::from(text.as_str()),
        );
        let found = expr.truth(&Values::of(text));
        assert_eq!(expr.truth(&Values::sorted(text)), found, "{selector}");
        found
    }

    const YES: Outcome<bool> = Ok(Some(true));
    const NO: Outcome<bool> = Ok(Some(false));
    const UNKNOWN: Outcome<bool> = Ok(None);
    const FAILED: Outcome<bool> = Err(Failed);

    /// The cases of Java's `ExpressionTest` that a message, whose properties are texts, can have.
    #[test]
    fn javas_own_cases() {
        for (selector, value, expected) in [
            ("value contains 'x'", "axb", YES),
            ("value startswith 'ax'", "axb", YES),
            ("value endswith 'xb'", "axb", YES),
            ("value not contains 'x'", "axb", NO),
            ("value not startswith 'ax'", "axb", NO),
            ("value not endswith 'xb'", "axb", NO),
            ("value contains 'x'", "abb", NO),
            ("value startswith 'x'", "abb", NO),
            ("value not contains 'x'", "abb", YES),
            ("value not endswith 'x'", "abb", YES),
            ("value contains ''", "axb", NO),
            ("value not contains ''", "axb", NO),
            ("other contains 'x'", "axb", NO),
            ("other not contains 'x'", "axb", NO),
            ("'axb' contains 'x'", "", YES),
            ("'axb' not endswith 'u'", "", YES),
            ("' ' contains ' '", "", YES),
            ("'axb' contains '.'", "", NO),
            ("'s' contains '\\'", "", NO),
            ("value = '''''tag'''''", "''tag''", YES),
        ] {
            assert_eq!(
                outcome(selector, &[("value", value)]),
                expected,
                "{selector} of {value}"
            );
        }
        let rest = "and b between 3 and 10 and c not contains 'axbc'";
        let with = |a| outcome(&format!("{a} {rest}"), &[("a", "3"), ("b", "3"), ("c", "axbdc")]);
        assert_eq!(with("a not in ('4', '4', '5')"), YES);
        assert_eq!(with("a in ('4', '4', '5')"), NO);
        let between = "a between up and low";
        assert_eq!(outcome(between, &[("a", "3.14")]), UNKNOWN);
        assert_eq!(
            outcome(between, &[("a", "3.14"), ("up", "up"), ("low", "low")]),
            FAILED
        );
        assert_eq!(outcome(between, &[("a", "3.14"), ("up", "3"), ("low", "4")]), YES);
    }

    #[test]
    fn the_last_property_of_a_name_counts_sorted_or_not() {
        let text = "b\u{1}1\u{2}a\u{1}2\u{2}ab\u{1}3\u{2}a\u{1}4\u{2}";
        for values in [
            Values::of(Properties::from(text)),
            Values::sorted(Properties::from(text)),
        ] {
            let found = ["a", "ab", "b", "", "c", "aa"].map(|name| values.get(name));
            assert_eq!(found, [Some("4"), Some("3"), Some("1"), None, None, None]);
        }
    }

    #[test]
    fn three_values_follow_the_tables() {
        // T, F and U as selectors over no property at all.
        let (t, f, u) = ("TRUE", "FALSE", "x = 1");
        for (left, right, and, or) in [
            (t, t, YES, YES),
            (t, f, NO, YES),
            (t, u, UNKNOWN, YES),
            (f, t, NO, YES),
            (f, f, NO, NO),
            (f, u, NO, UNKNOWN),
            (u, t, UNKNOWN, YES),
            (u, f, NO, UNKNOWN),
            (u, u, UNKNOWN, UNKNOWN),
        ] {
            assert_eq!(
                outcome(&format!("{left} AND {right}"), &[]),
                and,
                "{left} AND {right}"
            );
            assert_eq!(
                outcome(&format!("{left} OR {right}"), &[]),
                or,
                "{left} OR {right}"
            );
        }
        assert_eq!(outcome("NOT x = 1", &[]), UNKNOWN);
        assert_eq!(outcome("NOT (x = 1)", &[]), UNKNOWN);
        assert_eq!(outcome("x <> 1", &[]), UNKNOWN);
        assert_eq!(outcome("x IS NULL AND (x = 1 OR TRUE)", &[]), YES);
        assert_eq!(outcome("x IN ('a')", &[]), UNKNOWN);
        assert_eq!(outcome("x NOT IN ('a')", &[]), UNKNOWN);
        assert_eq!(outcome("NULL", &[]), UNKNOWN);
        assert_eq!(outcome("x = y", &[]), YES, "two missing ones, as in Java");
        assert_eq!(outcome("x = y", &[("x", "1")]), NO);
        assert_eq!(outcome("x = y", &[("y", "1")]), UNKNOWN);
    }

    #[test]
    fn values_convert_to_the_class_of_the_other_side() {
        for (selector, a, expected) in [
            ("a = 5", "5", YES),
            ("a = 5", "+5", YES),
            ("a = 5", "05", YES),
            ("a = 5", "5.0", FAILED),
            ("a = 5.0", "5", YES),
            ("a = 5.0", " 5d ", YES),
            ("a = '5'", "5", YES),
            ("a = '5'", "05", NO),
            ("a = 5", "five", FAILED),
            ("NOT (a = 5)", "five", FAILED),
            ("NOT a = 5", "five", NO),
            ("a = 5 OR TRUE", "five", FAILED),
            ("TRUE OR a = 5", "five", YES),
            ("5 = a", "5", YES),
            ("a > 5", "6", YES),
            ("a > 5", "5.5", FAILED),
            ("a > 5.0", "5.5", YES),
            ("5 < a", "6", YES),
            ("a >= -5", "-5", YES),
            ("a < - -5", "4", YES),
            ("a = 3000000000", "3000000000", YES),
            ("a > 5", "3000000000", FAILED),
            ("a < 3000000000", "5", YES),
            ("a between 1 and 3", "2", YES),
            ("a between 1 and 3", "4", NO),
            ("a not between 1 and 3", "4", YES),
            ("a not between 1 and 3", "1", NO),
            ("a = TRUE", "True", YES),
            ("a = TRUE", "yes", NO),
            ("a = FALSE", "yes", YES),
            ("a", "true", NO),
            ("NOT a", "true", YES),
            ("(a = 5) = TRUE", "5", YES),
            ("a = (a = '5')", "5", NO),
            ("(a = '5') = a", "5", FAILED),
            ("a > b", "5", UNKNOWN),
            ("a > -b", "5", UNKNOWN),
            ("a IS NULL", "5", NO),
            ("a IS NOT NULL", "5", YES),
            ("A IS NULL", "5", YES),
            ("a in ('4', '5', '5')", "5", YES),
            ("a = 5 = TRUE", "5", YES),
            ("1 = 1.0", "", YES),
            ("2147483648 = 2147483648.0", "", YES),
        ] {
            assert_eq!(outcome(selector, &[("a", a)]), expected, "{selector} of {a}");
        }
        assert_eq!(
            outcome("a > b", &[("a", "10"), ("b", "9.5")]),
            YES,
            "texts as doubles"
        );
        assert_eq!(
            outcome("a = b", &[("a", "10"), ("b", "10.0")]),
            NO,
            "texts as they are"
        );
        assert_eq!(
            outcome("a = 2", &[("a", "1"), ("a", "2")]),
            YES,
            "the last one counts"
        );
    }

    #[test]
    fn doubles_are_read_as_java_reads_them() {
        for (text, value) in [
            ("1e3", Ok(1000.0)),
            (".5", Ok(0.5)),
            ("5.", Ok(5.0)),
            ("-Infinity", Ok(f64::NEG_INFINITY)),
            ("1F", Ok(1.0)),
            ("inf", Err(Failed)),
            ("nan", Err(Failed)),
            ("", Err(Failed)),
            ("--1", Err(Failed)),
            ("1 2", Err(Failed)),
            ("d", Err(Failed)),
            (".", Err(Failed)),
        ] {
            assert_eq!(double(text), value, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_a_client_writes_panics(selector in "[ab'0-9.<>=()+-]{0,30}|(a|b|=|<>|<| |NOT |AND |OR |IN |\\(|\\)|'x'|1|BETWEEN |IS |NULL|,){0,20}",
            value in ".{0,8}") {
            if let Ok(expr) = Expr::parse(&selector) {
                let mut text = String::new();
                crate::protocol::properties::append(&mut text, "a", &value);
                let _ = expr.matches(Properties::from(text.as_str()));
            }
        }
    }
}
