//! What an operator asks of a record: which ones, and what is in the body.

use std::borrow::Cow;

use crate::protocol::message::MessageView;
use crate::protocol::model::SysFlag;
use crate::protocol::properties::names;

/// Most bytes of a decoded body.
pub const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// Which records are wanted; what is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Topic it is stored under.
    pub topic: Option<String>,
    /// Queue it is stored in.
    pub queue_id: Option<i32>,
    /// Its tag.
    pub tag: Option<String>,
    /// One of its keys, or its unique key.
    pub key: Option<String>,
}

impl Wanted {
    /// True when every record is.
    pub fn all(&self) -> bool {
        *self == Self::default()
    }

    /// True when the record is.
    pub fn matches(&self, view: &MessageView<'_>) -> bool {
        self.topic.as_deref().is_none_or(|topic| topic == view.topic())
            && self.queue_id.is_none_or(|id| id == view.queue_id())
            && self
                .tag
                .as_deref()
                .is_none_or(|tag| view.properties().get(names::TAGS) == Some(tag))
            && self.key.as_deref().is_none_or(|key| keys(view).any(|k| k == key))
    }
}

/// What a record is indexed under: its unique key, then its other keys.
pub(super) fn keys<'a>(view: &MessageView<'a>) -> impl Iterator<Item = &'a str> {
    let properties = view.properties();
    let words = properties
        .get(names::KEYS)
        .unwrap_or("")
        .split(' ')
        .filter(|key| !key.is_empty());
    properties.get(names::UNIQ_KEY).into_iter().chain(words)
}

/// A body as the application sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body<'a> {
    /// Readable text.
    Text(Cow<'a, str>),
    /// Anything else.
    Binary(Cow<'a, [u8]>),
    /// It does not decompress.
    Broken(String),
}

/// The body of a record, decompressed up to `limit` bytes.
pub fn body<'a>(view: &MessageView<'a>, limit: usize) -> Body<'a> {
    match view.decoded_body(limit) {
        Err(e) => Body::Broken(e.to_string()),
        Ok(Cow::Borrowed(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Body::Text(text.into()),
            Err(_) => Body::Binary(bytes.into()),
        },
        Ok(Cow::Owned(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Body::Text(text.into()),
            Err(e) => Body::Binary(e.into_bytes().into()),
        },
    }
}

/// What the bits of a system flag say.
pub fn sys_flag_names(flag: SysFlag) -> Vec<&'static str> {
    let mut out = Vec::new();
    match flag.compression() {
        None => {}
        Some(kind) => out.push(match kind {
            crate::protocol::model::Compression::Lz4 => "lz4",
            crate::protocol::model::Compression::Zstd => "zstd",
            crate::protocol::model::Compression::Zlib => "zlib",
            crate::protocol::model::Compression::Unknown => "compressed-unknown",
        }),
    }
    match flag.transaction() {
        SysFlag::TRANSACTION_PREPARED => out.push("prepared"),
        SysFlag::TRANSACTION_COMMIT => out.push("commit"),
        SysFlag::TRANSACTION_ROLLBACK => out.push("rollback"),
        _ => {}
    }
    for (bit, name) in [
        (SysFlag::MULTI_TAGS, "multi-tags"),
        (SysFlag::BORN_HOST_V6, "born-host-v6"),
        (SysFlag::STORE_HOST_V6, "store-host-v6"),
        (SysFlag::NEED_UNWRAP, "need-unwrap"),
        (SysFlag::INNER_BATCH, "inner-batch"),
    ] {
        if flag.has(bit) {
            out.push(name);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_flag_is_spelled_out() {
        assert_eq!(sys_flag_names(SysFlag(0)), Vec::<&str>::new());
        assert_eq!(sys_flag_names(SysFlag(0x301)), ["zlib"]);
        assert_eq!(sys_flag_names(SysFlag(0x8 | 0x10)), ["commit", "born-host-v6"]);
        assert_eq!(
            sys_flag_names(SysFlag(0xC0 | 0xC)),
            ["rollback", "need-unwrap", "inner-batch"]
        );
    }
}
