//! The fields of a stored record with their places, for the view of its bytes.

use super::record::sys_flag_names;
use crate::protocol::message::{MAGIC_V2, MessageView};
use crate::protocol::model::SysFlag;
use crate::protocol::properties::{NAME_END, VALUE_END, names};

/// One field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Java's name.
    pub name: &'static str,
    /// Position in the record.
    pub at: usize,
    /// Bytes.
    pub len: usize,
    /// What they say.
    pub value: Value,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text, or a number as text.
    Text(String),
    /// Epoch ms.
    Time(i64),
    /// Bytes that are shown elsewhere.
    Bytes,
}

/// The fields of a record in their order; they cover every byte of it.
pub fn layout(view: &MessageView<'_>) -> Vec<Field> {
    let mut fields = Vec::with_capacity(20);
    let mut at = 0;
    let mut field = |name, len, value| {
        fields.push(Field { name, at, len, value });
        at += len;
    };
    let text = |value: &dyn std::fmt::Display| Value::Text(value.to_string());
    let flag = view.sys_flag();
    let host_len = |bit| if flag.has(bit) { 20 } else { 8 };
    let version = if view.magic() == MAGIC_V2 { 2 } else { 1 };
    field("totalSize", 4, text(&view.size()));
    field(
        "magicCode",
        4,
        Value::Text(format!("{:#010x} version {version}", view.magic())),
    );
    let crc = match view.check_body() {
        Ok(()) if view.body().is_empty() => "no body".to_owned(),
        Ok(()) => "as the body".to_owned(),
        Err(e) => e.to_string(),
    };
    field("bodyCRC", 4, Value::Text(format!("{} {crc}", view.body_crc())));
    field("queueId", 4, text(&view.queue_id()));
    field("flag", 4, text(&view.flag()));
    field("queueOffset", 8, text(&view.queue_offset()));
    field("physicalOffset", 8, text(&view.physical_offset()));
    let names = sys_flag_names(flag).join(" ");
    field(
        "sysFlag",
        4,
        Value::Text(format!("{:#x} {names}", flag.0).trim_end().to_owned()),
    );
    field("bornTimestamp", 8, Value::Time(view.born_timestamp()));
    field(
        "bornHost",
        host_len(SysFlag::BORN_HOST_V6),
        text(&view.born_host()),
    );
    field("storeTimestamp", 8, Value::Time(view.store_timestamp()));
    field(
        "storeHost",
        host_len(SysFlag::STORE_HOST_V6),
        text(&view.store_host()),
    );
    field("reconsumeTimes", 4, text(&view.reconsume_times()));
    field(
        "preparedTransactionOffset",
        8,
        text(&view.prepared_transaction_offset()),
    );
    field("bodyLength", 4, text(&view.body().len()));
    field("body", view.body().len(), Value::Bytes);
    field("topicLength", version, text(&view.topic().len()));
    field("topic", view.topic().len(), text(&view.topic()));
    let properties = view.properties();
    field("propertiesLength", 2, text(&properties.as_bytes().len()));
    // Each property with the byte that ends it.
    for pair in properties.as_bytes().split_inclusive(|&b| b == VALUE_END as u8) {
        let words = String::from_utf8_lossy(pair);
        let mut words = words.trim_end_matches(VALUE_END).replacen(NAME_END, "=", 1);
        if words.starts_with(names::CRC32)
            && let Some(check) = view.check_whole()
        {
            words += &match check {
                Ok(()) => " as the whole record".to_owned(),
                Err(fault) => format!(" {fault}"),
            };
        }
        field("property", pair.len(), Value::Text(words));
    }
    fields
}
