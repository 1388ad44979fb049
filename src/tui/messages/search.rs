//! What can be asked of a topic's messages, as it is typed; and what came of it.

use std::sync::Arc;

use crate::client::Message;
use crate::client::content::Test;
use crate::client::time::{When, Zone};
use crate::client::way::Way;

/// Messages that are kept.
pub const ROWS: usize = 2_000;
/// Bytes of bodies that are kept.
pub const BYTES: usize = 16 * 1024 * 1024;
/// Messages that a first search looks at.
pub const BOUND: u64 = 2_000;
/// Messages that an offset search shows.
pub const PAGE: usize = 64;
/// Hits of a key that are asked for, unless the operator says how many.
pub const HITS: i32 = 64;

/// How messages are looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// The newest, and what follows.
    #[default]
    Live,
    /// Stored in a stretch of time.
    Time,
    /// With a key.
    Key,
    /// With an id.
    Id,
    /// From an offset of one queue on.
    Offset,
}

impl Mode {
    /// Its name in the title.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "tail ▸ live",
            Self::Time => "time",
            Self::Key => "key",
            Self::Id => "id",
            Self::Offset => "offset",
        }
    }
}

/// What is asked: the words of `rmq message list` or `rmq message find` that would show the same. Two that are equal
/// have the same answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Search {
    /// Topic name.
    pub topic: String,
    /// How.
    pub mode: Mode,
    /// Options such as `--key=o-7`.
    pub words: Vec<String>,
    /// Messages that are looked at, at most.
    pub bound: u64,
    /// Only messages that pass this filter are kept; see [`Sieve`]. Empty keeps all.
    pub keep: String,
    /// Counts up when the same is asked once more.
    pub round: u32,
}

impl Search {
    /// The newest of a topic, and what follows.
    pub fn live(topic: &str) -> Self {
        Self {
            topic: topic.to_owned(),
            mode: Mode::Live,
            words: Vec::new(),
            bound: BOUND,
            keep: String::new(),
            round: 0,
        }
    }

    /// The value of an option.
    pub fn value(&self, flag: &str) -> Option<&str> {
        self.words
            .iter()
            .find_map(|word| word.strip_prefix(flag)?.strip_prefix('='))
    }

    /// What was typed, for the title: `o-7 since -2h`.
    pub fn text(&self) -> String {
        let named = |word: &String| {
            let (flag, value) = word.trim_start_matches("--").split_once('=')?;
            Some(match flag {
                "key" | "id" => value.to_owned(),
                "broker" => value.to_owned(),
                "queue" => format!("/{value}"),
                "from-offset" => format!("@{value}"),
                flag => format!(" {flag} {value}"),
            })
        };
        let all: String = self.words.iter().filter_map(named).collect();
        all.trim().to_owned()
    }

    /// The stretch of time, epoch ms; `None` from the earliest message on.
    pub fn stretch(&self, now_ms: i64, zone: &Zone) -> Result<(Option<i64>, i64), String> {
        let read = |flag: &str| self.value(flag).map(str::parse::<When>).transpose();
        let from = match read("--from")?.or(read("--since")?) {
            None => None,
            Some(When::Latest) => Some(now_ms),
            Some(when) => when.at_ms(now_ms, zone)?,
        };
        let until = match read("--until")? {
            None => None,
            Some(when) => when.at_ms(now_ms, zone)?,
        };
        let until = until.unwrap_or(i64::MAX);
        if from.unwrap_or(0) > until {
            return Err("the stretch ends before it begins".into());
        }
        Ok((from, until))
    }

    /// Most hits of one broker's index.
    pub fn most(&self) -> Result<i32, String> {
        let Some(text) = self.value("--limit") else {
            return Ok(HITS);
        };
        let most = text.parse().ok().filter(|n| (1..=1000).contains(n));
        most.ok_or_else(|| format!("limit {text} is not a number from 1 to 1000"))
    }

    /// The queue and the offset in it that are meant.
    pub fn place(&self) -> Result<(i32, i64), String> {
        let number = |flag: &str| -> Result<i64, String> {
            let text = self.value(flag).unwrap_or_default();
            let digits: String = text.chars().filter(|c| *c != ',').collect();
            let n = digits.trim().parse().ok().filter(|n| *n >= 0);
            n.ok_or_else(|| format!("{} \"{text}\" is not a number", flag.trim_start_matches("--")))
        };
        let queue = i32::try_from(number("--queue")?).map_err(|_| "there is no such queue".to_owned())?;
        Ok((queue, number("--from-offset")?))
    }

    /// Why it cannot be asked; `None` when it can.
    pub fn complaint(&self, now_ms: i64, zone: &Zone) -> Option<String> {
        match self.mode {
            Mode::Live => None,
            Mode::Time => self.stretch(now_ms, zone).err(),
            Mode::Key => self.stretch(now_ms, zone).err().or_else(|| self.most().err()),
            Mode::Id => None,
            Mode::Offset => self.place().err(),
        }
    }
}

/// The filter of the screen on a message: a leading `!` inverts; see [`Test`] for the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Sieve {
    inverted: bool,
    test: Test,
}

impl Sieve {
    /// Reads what was typed; `None` when that is nothing.
    pub fn parse(text: &str) -> Option<Result<Self, String>> {
        let text = text.trim();
        let (inverted, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        if rest.trim().is_empty() {
            return None;
        }
        Some(rest.parse().map(|test| Self { inverted, test }))
    }

    /// Keeps what is not typed to its end yet from hiding everything: a text that is no test is searched for as it is.
    pub fn lenient(text: &str) -> Option<Self> {
        match Self::parse(text)? {
            Ok(sieve) => Some(sieve),
            Err(_) => Some(Self {
                inverted: text.trim().starts_with('!'),
                test: Test::Contains(text.trim().trim_start_matches('!').to_owned()),
            }),
        }
    }

    /// True for a message that passes.
    pub fn passes(&self, message: &Message) -> bool {
        self.test.passes(message) != self.inverted
    }
}

/// What stopped a search before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// As many messages were looked at as it may.
    Scanned(u64),
    /// As many are kept as may be.
    Rows(usize),
    /// As many bytes are kept as may be.
    Bytes(usize),
    /// A broker's index gave as many hits as it was asked for.
    Hits(i32),
}

/// Messages that were found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Oldest first.
    pub rows: Vec<Arc<Message>>,
    /// Messages that were looked at.
    pub scanned: u64,
    /// Messages that there were to look at, as far as offsets tell.
    pub of: Option<i64>,
    /// What stopped the search.
    pub stopped: Option<Stop>,
    /// The bound of what is kept, when older messages went because of it.
    pub cut: Option<Stop>,
    /// It is over.
    pub over: bool,
    /// Hits of an index that have another key.
    pub strangers: usize,
    /// Brokers or queues that could not be read, with the reason.
    pub failed: Vec<String>,
    /// What else the operator should know.
    pub notes: Vec<String>,
}

/// A message by its identity.
#[derive(Debug, Clone)]
pub struct Mark(pub Arc<Message>);

impl Mark {
    /// The identity of a message: where the record is, and the broker it was read from.
    pub fn id(message: &Message) -> String {
        format!("{} {}", message.offset_id, message.broker)
    }

    /// True when this is the identity of a message.
    pub fn is(id: &str, message: &Message) -> bool {
        id.strip_prefix(message.offset_id.as_str())
            .and_then(|rest| rest.strip_prefix(' '))
            .is_some_and(|rest| rest == message.broker)
    }

    fn key(&self) -> (&str, &str, i32, i64, &str) {
        let m = &self.0;
        (&m.topic, &m.broker, m.queue, m.offset, &m.offset_id)
    }
}

impl PartialEq for Mark {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Mark {}

impl PartialOrd for Mark {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Mark {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl std::hash::Hash for Mark {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// What the screen asks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// Messages of a topic.
    Search(Search),
    /// The way of a message, with trace records of this topic.
    Way(Mark, String),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Messages, so far.
    Search(Listing),
    /// The way of a message.
    Way(Box<Way>),
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_973_628_000;

    fn search(mode: Mode, words: &[&str]) -> Search {
        Search {
            mode,
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            ..Search::live("orders")
        }
    }

    #[test]
    fn stretches_are_read_as_commands_read_times() {
        let zone = Zone::new(true);
        let at = |words: &[&str]| search(Mode::Time, words).stretch(NOW, &zone);
        assert_eq!(at(&["--from=-15m"]), Ok((Some(NOW - 900_000), i64::MAX)));
        assert_eq!(
            at(&["--from=-2h", "--until=-1h"]),
            Ok((Some(NOW - 7_200_000), NOW - 3_600_000))
        );
        assert_eq!(at(&["--since=earliest"]), Ok((None, i64::MAX)));
        assert_eq!(
            at(&["--from=2026-11-29 17:33", "--until=2026-11-29 17:34"]),
            Ok((Some(NOW - 48_000), NOW + 12_000))
        );
        assert!(at(&["--from=-1h", "--until=-2h"]).is_err());
        assert!(at(&["--from=soon"]).is_err());
    }

    #[test]
    fn places_and_bounds_are_read() {
        let at = |words: &[&str]| search(Mode::Offset, words).place();
        assert_eq!(at(&["--queue=3", "--from-offset=5,512,004"]), Ok((3, 5_512_004)));
        for bad in [
            &["--queue=3"] as &[&str],
            &["--queue=x", "--from-offset=1"],
            &["--queue=1", "--from-offset=-1"],
        ] {
            assert!(at(bad).is_err(), "{bad:?}");
        }
        assert_eq!(search(Mode::Key, &["--limit=5"]).most(), Ok(5));
        assert!(search(Mode::Key, &["--limit=0"]).most().is_err());
        assert_eq!(
            search(Mode::Key, &["--key=o-7", "--since=-2h"]).text(),
            "o-7 since -2h"
        );
        assert_eq!(
            search(Mode::Offset, &["--broker=a", "--queue=3", "--from-offset=7"]).text(),
            "a/3@7"
        );
    }

    #[test]
    fn a_half_typed_filter_searches_for_itself() {
        let mut message = Message::empty();
        message.body = bytes::Bytes::from_static(b"json:or");
        assert!(Sieve::lenient("json:or").unwrap().passes(&message));
        assert!(!Sieve::lenient("!json:or").unwrap().passes(&message));
        assert!(Sieve::parse(" ! ").is_none());
    }
}
