//! Small vocabulary of the protocol: permission bits, message system flag, language, names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The protocol version we answer with: the ordinal of Java's `V5_3_3`.
pub const VERSION: i32 = 479;
/// The name behind [`VERSION`].
pub const VERSION_NAME: &str = "V5_3_3";
/// From this requester version on (`V4_9_4`) routes are written as strict JSON.
pub const VERSION_STRICT_JSON: i32 = 401;

/// Topic permission bits (Java's `PermName`): 1 inherit, 2 write, 4 read, 8 priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Perm(pub i32);

impl Perm {
    /// Other topics may inherit from this one on auto-create.
    pub const INHERIT: Self = Self(1);
    /// Producers may write.
    pub const WRITE: Self = Self(2);
    /// Consumers may read.
    pub const READ: Self = Self(4);
    /// Read and write.
    pub const READ_WRITE: Self = Self(6);

    /// True when consumers may read.
    pub const fn readable(self) -> bool {
        self.0 & 4 != 0
    }

    /// True when producers may write.
    pub const fn writable(self) -> bool {
        self.0 & 2 != 0
    }

    /// True when auto-created topics may inherit from this one.
    pub const fn inherited(self) -> bool {
        self.0 & 1 != 0
    }

    /// This permission with the bits of `other` added.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This permission with the bits of `other` removed.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The bits that both have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Default for Perm {
    fn default() -> Self {
        Self::READ_WRITE
    }
}

/// `RWX`, with `-` for a bit that is not set.
impl fmt::Display for Perm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bit = |on, name| if on { name } else { '-' };
        write!(
            f,
            "{}{}{}",
            bit(self.readable(), 'R'),
            bit(self.writable(), 'W'),
            bit(self.inherited(), 'X')
        )
    }
}

/// Bit of a topic's system flag: a topic of a unit (Java's `TopicSysFlag.FLAG_UNIT`).
pub const UNIT: i32 = 1;
/// Bit of a topic's system flag: units subscribe to it, as to a group's retry topic (`FLAG_UNIT_SUB`).
pub const UNIT_SUB: i32 = 2;

/// Message system flag (Java's `MessageSysFlag`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SysFlag(pub i32);

impl SysFlag {
    /// The body is compressed.
    pub const COMPRESSED: i32 = 0x1;
    /// The topic uses the multi-tag filter.
    pub const MULTI_TAGS: i32 = 0x2;
    /// Both transaction bits.
    pub const TRANSACTION_MASK: i32 = 0xC;
    /// Half message.
    pub const TRANSACTION_PREPARED: i32 = 0x4;
    /// Committed message.
    pub const TRANSACTION_COMMIT: i32 = 0x8;
    /// Rolled back.
    pub const TRANSACTION_ROLLBACK: i32 = 0xC;
    /// The born host has 16 address bytes.
    pub const BORN_HOST_V6: i32 = 0x10;
    /// The store host has 16 address bytes.
    pub const STORE_HOST_V6: i32 = 0x20;
    /// A consumer must unwrap an inner batch.
    pub const NEED_UNWRAP: i32 = 0x40;
    /// The body is an inner batch.
    pub const INNER_BATCH: i32 = 0x80;
    /// Compression type bits.
    pub const COMPRESSION_MASK: i32 = 0x700;

    /// True when all bits of `mask` are set.
    pub const fn has(self, mask: i32) -> bool {
        self.0 & mask == mask
    }

    /// The transaction bits.
    pub const fn transaction(self) -> i32 {
        self.0 & Self::TRANSACTION_MASK
    }

    /// How the body is compressed, if it is. Type 0 is zlib, as old clients write it.
    pub const fn compression(self) -> Option<Compression> {
        if self.0 & Self::COMPRESSED == 0 {
            return None;
        }
        match (self.0 & Self::COMPRESSION_MASK) >> 8 {
            1 => Some(Compression::Lz4),
            2 => Some(Compression::Zstd),
            0 | 3 => Some(Compression::Zlib),
            _ => Some(Compression::Unknown),
        }
    }
}

/// Body compression of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// LZ4 frame format.
    Lz4,
    /// Zstandard frame.
    Zstd,
    /// RFC 1950 stream.
    Zlib,
    /// A type number nobody has defined.
    Unknown,
}

/// Language of a peer (Java's `LanguageCode`), by ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub enum Language {
    #[default]
    Java,
    Cpp,
    Dotnet,
    Python,
    Delphi,
    Erlang,
    Ruby,
    Other,
    Http,
    Go,
    Php,
    Oms,
    Rust,
    NodeJs,
}

impl Language {
    /// All languages by ordinal.
    pub const ALL: [Self; 14] = [
        Self::Java,
        Self::Cpp,
        Self::Dotnet,
        Self::Python,
        Self::Delphi,
        Self::Erlang,
        Self::Ruby,
        Self::Other,
        Self::Http,
        Self::Go,
        Self::Php,
        Self::Oms,
        Self::Rust,
        Self::NodeJs,
    ];

    /// Java's constant.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Java => "JAVA",
            Self::Cpp => "CPP",
            Self::Dotnet => "DOTNET",
            Self::Python => "PYTHON",
            Self::Delphi => "DELPHI",
            Self::Erlang => "ERLANG",
            Self::Ruby => "RUBY",
            Self::Other => "OTHER",
            Self::Http => "HTTP",
            Self::Go => "GO",
            Self::Php => "PHP",
            Self::Oms => "OMS",
            Self::Rust => "RUST",
            Self::NodeJs => "NODE_JS",
        }
    }

    /// By Java's constant, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|l| l.name().eq_ignore_ascii_case(name))
    }

    /// By ordinal.
    pub fn from_ordinal(ordinal: i64) -> Option<Self> {
        usize::try_from(ordinal)
            .ok()
            .and_then(|i| Self::ALL.get(i).copied())
    }

    /// The ordinal, as the binary header has it.
    pub const fn ordinal(self) -> u8 {
        self as u8
    }
}

/// Name of a protocol version number (`MQVersion`): every release takes two ordinals, snapshot first.
pub fn version_name(version: i32) -> String {
    if (213..=612).contains(&version) {
        let release = (version - 213) / 2;
        let (major, minor, patch) = (release / 100 + 4, release / 10 % 10, release % 10);
        let snapshot = if (version - 213) % 2 == 0 {
            ""
        } else {
            "_NEXT_SNAPSHOT"
        };
        if major <= 5 {
            return format!("V{major}_{minor}_{patch}{snapshot}");
        }
    }
    format!("version {version}")
}

/// One queue of a topic on one broker; also the object key of Java's statistics bodies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageQueue {
    /// Broker name.
    pub broker_name: String,
    /// Queue number.
    pub queue_id: i32,
    /// Topic name.
    pub topic: String,
}

/// Version of a table (topics, groups, offsets). Peers compare all three numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Counts the changes.
    pub counter: i64,
    /// Version of the state machine (controller mode), else 0.
    pub state_version: i64,
    /// Time of the last change, ms.
    pub timestamp: i64,
}

impl DataVersion {
    /// The version after one more change at `now_ms`. Never goes back in time.
    #[must_use]
    pub fn next(self, now_ms: i64) -> Self {
        Self {
            counter: self.counter + 1,
            timestamp: now_ms.max(self.timestamp),
            ..self
        }
    }
}

/// Filter type of a topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicFilterType {
    /// One tag a message.
    #[default]
    #[serde(rename = "SINGLE_TAG")]
    SingleTag,
    /// Several tags a message.
    #[serde(rename = "MULTI_TAG")]
    MultiTag,
}

/// Broker id of a master.
pub const MASTER_ID: i64 = 0;
/// Prefix of a group's retry topic.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Delayed messages wait here, a queue for each level; the tags code of its entries is the time of delivery.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Tags codes up to this are addresses of extension units of a consume queue (Java: `ConsumeQueueExt.MAX_ADDR`).
pub const MAX_EXT_ADDRESS: i64 = i32::MIN as i64 - 1;
/// Prefix of a group's dead-letter topic.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Topic that auto-created topics inherit from.
pub const TBW102: &str = "TBW102";
/// Longest topic name, in characters.
pub const TOPIC_MAX_CHARS: usize = 127;
/// Longest consumer group name, in characters.
pub const GROUP_MAX_CHARS: usize = 255;

/// Why a topic or group name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty or white space.
    #[error("The specified {0} is blank.")]
    Blank(&'static str),
    /// A character outside `[%|a-zA-Z0-9_-]`.
    #[error("The specified {0} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")]
    Illegal(&'static str),
    /// Too many characters.
    #[error("The specified {0} is longer than {0} max length.")]
    TooLong(&'static str),
}

fn check_name(name: &str, what: &'static str, max: usize) -> Result<(), NameError> {
    if name.trim().is_empty() {
        return Err(NameError::Blank(what));
    }
    if !name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'%' | b'|' | b'_' | b'-'))
    {
        return Err(NameError::Illegal(what));
    }
    if name.len() > max {
        Err(NameError::TooLong(what))
    } else {
        Ok(())
    }
}

/// Checks a topic name as Java's `TopicValidator.validateTopic` does, with its texts.
/// A name that passes is safe as a path part.
pub fn check_topic(name: &str) -> Result<(), NameError> {
    // A retry topic of a legal group may be longer (stored as a version 2 record).
    let max = if name.starts_with(RETRY_PREFIX) {
        255
    } else {
        TOPIC_MAX_CHARS
    };
    check_name(name, "topic", max)
}

/// Checks a consumer or producer group name.
pub fn check_group(name: &str) -> Result<(), NameError> {
    check_name(name, "group", GROUP_MAX_CHARS)
}

/// Java's `String.hashCode`: 31·h + c over UTF-16 units, wrapping at 32 bits.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16()
        .fold(0i32, |h, c| h.wrapping_mul(31).wrapping_add(i32::from(c)))
}

/// Consume-queue tag code of a tag: its hash, sign-extended.
pub fn tags_code(tag: &str) -> i64 {
    i64::from(java_hash(tag))
}

impl FromStr for Language {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::from_name(text)
            .or_else(|| text.parse().ok().and_then(Self::from_ordinal))
            .unwrap_or(Self::Other))
    }
}

impl Serialize for Language {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Language {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrOrdinal;
        impl serde::de::Visitor<'_> for NameOrOrdinal {
            type Value = Language;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a language name or ordinal")
            }
            fn visit_str<E>(self, v: &str) -> Result<Language, E> {
                Ok(v.parse().unwrap_or_default())
            }
            fn visit_i64<E>(self, v: i64) -> Result<Language, E> {
                Ok(Language::from_ordinal(v).unwrap_or(Language::Other))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Language, E> {
                Ok(i64::try_from(v)
                    .ok()
                    .and_then(Language::from_ordinal)
                    .unwrap_or(Language::Other))
            }
        }
        deserializer.deserialize_any(NameOrOrdinal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_hash_matches_java() {
        // "TagA" from a real broker's consume queue; "polygenelubricants" is the well-known minimum value.
        assert_eq!(tags_code("TagA"), 2_598_919);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(java_hash("Aa"), java_hash("BB"));
    }

    #[test]
    fn version_names_follow_the_two_ordinals_a_release_rule() {
        assert_eq!(version_name(401), "V4_9_4");
        assert_eq!(version_name(413), "V5_0_0");
        assert_eq!(version_name(VERSION), VERSION_NAME);
    }

    #[test]
    fn names_with_path_parts_are_refused() {
        for bad in ["a/b", "..", ".", "a b", "a\0", "ä", ""] {
            assert!(check_topic(bad).is_err(), "{bad:?}");
            assert!(check_group(bad).is_err(), "{bad:?}");
        }
        assert!(check_topic(&"t".repeat(127)).is_ok());
        assert!(check_topic(&"t".repeat(128)).is_err());
        assert!(check_topic(&format!("%RETRY%{}", "g".repeat(200))).is_ok());
    }

    #[test]
    fn perm_text_shows_unset_bits_as_dashes() {
        assert_eq!(Perm(6).to_string(), "RW-");
        assert_eq!(Perm(0).to_string(), "---");
        assert_eq!(Perm(7).to_string(), "RWX");
    }
}
