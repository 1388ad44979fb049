//! What one server told or denied so far: what is news of it, and what is worth a line of the event log.

use std::collections::{HashMap, HashSet};

/// A kind of answer and, where it is of one topic, which.
pub(super) type What = (&'static str, Option<String>);

/// When each kind of answer of one server came last, and what it denies. It goes with its server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Heard {
    newest_ms: HashMap<What, i64>,
    /// Of what is denied, the topic that was told.
    denials: HashMap<&'static str, Option<String>>,
}

impl Heard {
    /// True when nothing newer of this kind is known; remembers the time.
    pub fn is_news(&mut self, what: &What, at_ms: i64) -> bool {
        let newest = self.newest_ms.get(what);
        let news = newest.is_none_or(|newest| at_ms > *newest);
        if news {
            self.newest_ms.insert(what.clone(), at_ms);
        }
        news
    }

    /// When this kind of answer came last, epoch ms.
    pub fn of(&self, what: &'static str) -> Option<i64> {
        self.newest_ms.get(&(what, None)).copied()
    }

    /// Takes in a denial; true when it is to be told. What a server denies is told once, until it allows it; of what it
    /// denies topic by topic the first is told, until that one is allowed.
    pub fn denies(&mut self, (what, topic): &What) -> bool {
        let news = !self.denials.contains_key(what);
        if news {
            self.denials.insert(what, topic.clone());
        }
        news
    }

    /// Takes in an answer.
    pub fn allows(&mut self, (what, topic): &What) {
        if self.denials.get(what) == Some(topic) {
            self.denials.remove(what);
        }
    }

    /// Forgets topics that are gone.
    pub fn keep_topics(&mut self, there: &HashSet<&str>) {
        let kept = |topic: &Option<String>| topic.as_ref().is_none_or(|t| there.contains(t.as_str()));
        self.newest_ms.retain(|(_, topic), _| kept(topic));
        self.denials.retain(|_, topic| kept(topic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_a_topic_goes_with_it() {
        let mut heard = Heard::default();
        let what = |topic: &str| ("rate", Some(topic.to_owned()));
        for topic in ["here", "gone"] {
            assert!(heard.is_news(&what(topic), 1));
            assert!(!heard.is_news(&what(topic), 1));
        }
        assert!(heard.is_news(&("runtime", None), 5));
        assert!(heard.denies(&what("gone")));
        assert!(!heard.denies(&what("here")), "the first one stands for all");
        heard.keep_topics(&HashSet::from(["here"]));
        assert_eq!(heard.newest_ms.len(), 2);
        assert_eq!(heard.of("runtime"), Some(5));
        assert!(heard.denies(&what("here")), "the one that was told is gone");
    }
}
