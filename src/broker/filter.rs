//! Tag filters: what a subscription text asks for, and which tag codes pass.

use crate::protocol::body::SubscriptionData;
use crate::protocol::model::{java_hash, tags_code};

/// Which consume-queue tag codes a subscription lets through. Filtering is by the hash alone; the client compares
/// the tags themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagFilter {
    /// Every message.
    All,
    /// Messages with one of these codes.
    Codes(Box<[i64]>),
}

impl TagFilter {
    /// The filter of a subscription.
    pub fn of(subscription: &SubscriptionData) -> Self {
        if subscription.sub_string == SubscriptionData::ALL
            || subscription.sub_string.is_empty()
            || subscription.class_filter_mode
        {
            return Self::All;
        }
        if subscription.code_set.is_empty() {
            // A client that sends the tags alone.
            return Self::Codes(subscription.tags_set.iter().map(|tag| tags_code(tag)).collect());
        }
        Self::Codes(subscription.code_set.iter().map(|&code| code.into()).collect())
    }

    /// True when messages of this tag code are wanted. Only the low 32 bits count, as in Java.
    pub fn passes(&self, code: i64) -> bool {
        match self {
            Self::All => true,
            Self::Codes(codes) => codes.contains(&i64::from(code as i32)),
        }
    }
}

/// Reads a subscription text of a pull: `*`, nothing, or tags between `||`. `None` when no tag is left.
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
        return (!text.trim().is_empty()).then_some(subscription);
    }
    if text.is_empty() || text == SubscriptionData::ALL {
        SubscriptionData::ALL.clone_into(&mut subscription.sub_string);
        return Some(subscription);
    }
    for tag in text.split("||").map(str::trim).filter(|tag| !tag.is_empty()) {
        subscription.code_set.insert(java_hash(tag));
        subscription.tags_set.insert(tag.to_owned());
    }
    (!subscription.tags_set.is_empty()).then_some(subscription)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> TagFilter {
        TagFilter::of(&parse("t", text, "TAG", 0).unwrap())
    }

    #[test]
    fn texts_become_tag_codes() {
        assert_eq!(filter("*"), TagFilter::All);
        assert_eq!(filter(""), TagFilter::All);
        let one = filter("TagA");
        assert!(one.passes(2_598_919) && !one.passes(2_598_920));
        let either = filter(" TagA ||B|| ");
        for tag in ["TagA", "B"] {
            assert!(either.passes(tags_code(tag)), "{tag}");
        }
        assert!(!either.passes(0) && !either.passes(tags_code("C")));
        assert!(parse("t", " || ", "TAG", 0).is_none());
    }

    #[test]
    fn negative_codes_pass_too() {
        let tag = "polygenelubricants";
        assert_eq!(tags_code(tag), i64::from(i32::MIN));
        assert!(filter(tag).passes(i64::from(i32::MIN)));
    }

    #[test]
    fn tags_without_codes_are_hashed_here() {
        let subscription = SubscriptionData {
            sub_string: "TagA".into(),
            tags_set: ["TagA".to_owned()].into(),
            ..SubscriptionData::default()
        };
        assert!(TagFilter::of(&subscription).passes(2_598_919));
    }

    #[test]
    fn other_expressions_are_kept_as_they_are() {
        let sql = parse("t", "a > 5", SubscriptionData::SQL92, 7).unwrap();
        assert!(!sql.is_tag());
        assert_eq!((sql.sub_string.as_str(), sql.sub_version), ("a > 5", 7));
    }
}
