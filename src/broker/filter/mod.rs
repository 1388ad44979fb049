//! What a subscription lets through: tags by their hash, or an SQL92 selector over the properties.

use crate::protocol::body::SubscriptionData;
use crate::protocol::message::MessageView;
use crate::protocol::model::{java_hash, tags_code};
use crate::store::MessageFilter;

mod bloom;
mod eval;
mod lexer;
mod parse;
mod saved;

pub use parse::{Expr, SyntaxError};
pub use saved::SavedFilters;

/// Selectors of more bytes are evaluated aside: one of 64 KiB has thousands of conditions, and a read looks at hundreds
/// of messages.
const LONG: usize = 256;

/// What a subscription lets through.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// Every message.
    All,
    /// Messages whose tag has one of these codes. Filtering is by the hash alone; the client compares the tags
    /// themselves.
    Codes(Box<[i64]>),
    /// Messages whose properties satisfy a selector.
    Sql {
        /// The selector.
        selector: Box<Expr>,
        /// It may ask for so much that it is evaluated aside from the threads that serve sockets.
        long: bool,
    },
    /// None: the selector cannot be read.
    Broken(SyntaxError),
    /// None: the kind of expression is not known.
    Unknown,
}

impl Filter {
    /// The filter of a subscription.
    pub fn of(subscription: &SubscriptionData) -> Self {
        if subscription.class_filter_mode {
            return Self::All;
        }
        if !subscription.is_tag() {
            if subscription.expression_type != SubscriptionData::SQL92 {
                return Self::Unknown;
            }
            return match Expr::parse(&subscription.sub_string) {
                Ok(expr) => Self::Sql {
                    selector: expr.into(),
                    long: subscription.sub_string.len() > LONG,
                },
                Err(e) => Self::Broken(e),
            };
        }
        if subscription.sub_string == SubscriptionData::ALL || subscription.sub_string.is_empty() {
            return Self::All;
        }
        if subscription.code_set.is_empty() {
            // A client that sends the tags alone.
            return Self::Codes(subscription.tags_set.iter().map(|tag| tags_code(tag)).collect());
        }
        Self::Codes(subscription.code_set.iter().map(|&code| code.into()).collect())
    }

    /// Why no message passes, for a filter that cannot be used.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Broken(e) => Some(format!("Invalid MessageSelector. {e}")),
            Self::Unknown => Some("the expression type is not known".into()),
            Self::All | Self::Codes(_) | Self::Sql { .. } => None,
        }
    }
}

impl MessageFilter for Filter {
    /// True when messages of this tag code may be wanted. Only the low 32 bits count, as in Java.
    fn passes_code(&self, code: i64) -> bool {
        match self {
            Self::All | Self::Sql { .. } => true,
            Self::Codes(codes) => codes.contains(&i64::from(code as i32)),
            Self::Broken(_) | Self::Unknown => false,
        }
    }

    fn passes_record(&self, record: &[u8]) -> bool {
        match self {
            Self::All | Self::Codes(_) => true,
            Self::Sql { selector, long } => MessageView::parse(record).is_ok_and(|view| {
                let properties = view.properties();
                if *long {
                    selector.matches_sorted(properties)
                } else {
                    selector.matches(properties)
                }
            }),
            Self::Broken(_) | Self::Unknown => false,
        }
    }

    fn is_costly(&self) -> bool {
        matches!(self, Self::Sql { long: true, .. })
    }
}

/// Reads a subscription text of a pull: `*`, nothing, tags between `||`, or an expression of another kind. `None` where
/// Java cannot split it: separators alone, or no expression. Blanks between separators ask for nothing.
pub fn parse(topic: &str, text: &str, expression_type: &str, version: i64) -> Option<SubscriptionData> {
    let mut subscription = SubscriptionData {
        topic: topic.to_owned(),
        sub_version: version,
        sub_string: text.to_owned(),
        ..SubscriptionData::default()
    };
    if !expression_type.is_empty() {
        expression_type.clone_into(&mut subscription.expression_type);
    }
    if !subscription.is_tag() {
        return (!text.is_empty()).then_some(subscription);
    }
    if text.is_empty() || text == SubscriptionData::ALL {
        SubscriptionData::ALL.clone_into(&mut subscription.sub_string);
        return Some(subscription);
    }
    if text.replace("||", "").is_empty() {
        return None;
    }
    for tag in text.split("||").map(str::trim).filter(|tag| !tag.is_empty()) {
        subscription.code_set.insert(java_hash(tag));
        subscription.tags_set.insert(tag.to_owned());
    }
    Some(subscription)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::of(&parse("t", text, "TAG", 0).unwrap())
    }

    #[test]
    fn texts_become_tag_codes() {
        assert_eq!(filter("*"), Filter::All);
        assert_eq!(filter(""), Filter::All);
        let one = filter("TagA");
        assert!(one.passes_code(2_598_919) && !one.passes_code(2_598_920));
        let either = filter(" TagA ||B|| ");
        for tag in ["TagA", "B"] {
            assert!(either.passes_code(tags_code(tag)), "{tag}");
        }
        assert!(!either.passes_code(0) && !either.passes_code(tags_code("C")));
        assert!(parse("t", "||", "TAG", 0).is_none() && parse("t", "||||", "TAG", 0).is_none());
        for nothing in [" || ", " "] {
            let filter = filter(nothing);
            assert!(
                !filter.passes_code(0) && !filter.passes_code(tags_code("A")),
                "{nothing:?}"
            );
        }
        let odd = filter("标签||a|b||TagA|| ");
        for tag in ["标签", "a|b", "TagA"] {
            assert!(odd.passes_code(tags_code(tag)), "{tag}");
        }
        assert!(!odd.passes_code(tags_code("a")));
    }

    #[test]
    fn negative_codes_pass_too() {
        let tag = "polygenelubricants";
        assert_eq!(tags_code(tag), i64::from(i32::MIN));
        assert!(filter(tag).passes_code(i64::from(i32::MIN)));
    }

    #[test]
    fn tags_of_one_hash_are_told_apart_by_the_client() {
        assert_eq!(tags_code("Aa"), tags_code("BB"));
        assert!(filter("Aa").passes_code(tags_code("BB")));
    }

    #[test]
    fn expressions_are_read_once_and_their_faults_told() {
        let subscription = |kind: &str, text: &str| SubscriptionData {
            expression_type: kind.into(),
            sub_string: text.into(),
            ..SubscriptionData::default()
        };
        assert_eq!(Filter::of(&subscription("SQL92", "a > 5")).fault(), None);
        assert_eq!(
            Filter::of(&subscription("SQL92", "a >")).fault().unwrap(),
            "Invalid MessageSelector. encountered <EOF>, expecting a literal, a property or \"(\", at line 1, column 4"
        );
        let unknown = Filter::of(&subscription("XPATH", "a"));
        assert!(unknown.fault().is_some() && !unknown.passes_code(0) && !unknown.passes_record(b""));
    }

    #[test]
    fn tags_without_codes_are_hashed_here() {
        let subscription = SubscriptionData {
            sub_string: "TagA".into(),
            tags_set: ["TagA".to_owned()].into(),
            ..SubscriptionData::default()
        };
        assert!(Filter::of(&subscription).passes_code(2_598_919));
    }

    #[test]
    fn other_expressions_are_kept_as_they_are() {
        let sql = parse("t", "a > 5", SubscriptionData::SQL92, 7).unwrap();
        assert!(!sql.is_tag());
        assert_eq!((sql.sub_string.as_str(), sql.sub_version), ("a > 5", 7));
    }
}
