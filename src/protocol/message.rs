//! The stored message record: what is appended, and a borrowed view of what was.

use std::net::SocketAddr;

use bytes::Bytes;

use super::model::SysFlag;

/// A message to be appended. The store adds queue offset, physical offset and store time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Topic it is stored under.
    pub topic: String,
    /// Queue it is stored in.
    pub queue_id: i32,
    /// User flag, opaque.
    pub flag: i32,
    /// System flag; the host bits are set by the encoder from the addresses.
    pub sys_flag: SysFlag,
    /// Client clock, ms.
    pub born_timestamp: i64,
    /// Client address as the broker saw it.
    pub born_host: SocketAddr,
    /// Broker address as clients reach it (brokerIP1 and listen port).
    pub store_host: SocketAddr,
    /// How often it was given back.
    pub reconsume_times: i32,
    /// Physical offset of the half message, or 0.
    pub prepared_transaction_offset: i64,
    /// Body as the client sent it.
    pub body: Bytes,
    /// Properties in their text form.
    pub properties: String,
}
