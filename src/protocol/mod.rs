//! Bytes <-> values of the RocketMQ remoting protocol. No I/O, no clock, no async.
//!
//! ```text
//! 0              4              8                8+H            4+length
//! | frameLength  | type | H     | header (H)     | body         |
//! | i32          | u8   | u24   | JSON or binary | opaque bytes |
//! ```
//!
//! A request is declared once, as a struct with the wire's own field names and one [`request!`] line that ties
//! it to its code, body and reply; the server that answers it, the client that asks it, the CLI and the TUI all
//! use that declaration.

pub mod base64;
pub mod body;
pub mod codes;
pub mod frame;
pub mod json;
pub mod message;
pub mod message_id;
pub mod model;
pub mod properties;
pub mod requests;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What makes bytes from a peer or a file unreadable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A length word does not fit what is there.
    #[error("{what}: length {len} does not fit, {available} bytes available")]
    Length {
        /// Which length.
        what: &'static str,
        /// Its value.
        len: i64,
        /// How many bytes there are.
        available: usize,
    },
    /// A field has a value that is not allowed.
    #[error("{what}: {reason}")]
    Malformed {
        /// Which field or part.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A header field is missing or wrong.
    #[error(transparent)]
    Fields(#[from] crate::fields::Error),
}

impl Error {
    /// A [`Error::Malformed`] with its reason.
    pub fn malformed(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Malformed {
            what,
            reason: reason.into(),
        }
    }
}

/// One request of the protocol: the struct that implements it is the header.
pub trait Request: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Java's number for the request.
    const CODE: i32;
    /// Java's name for the request.
    const NAME: &'static str;
    /// The request's body.
    type Body: Body;
    /// The header of a successful answer.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
    /// The body of a successful answer.
    type ReplyBody: Body;
}

/// A frame body as the pieces that will be written one after the other.
pub type Chunks = Vec<Bytes>;

/// Something that travels as the body of a frame.
pub trait Body: Sized + Send + 'static {
    /// Reads the whole body.
    fn decode(bytes: Bytes) -> Result<Self, Error>;
    /// The body in pieces; an empty body has none.
    fn encode(self) -> Chunks;
}

impl Body for () {
    fn decode(_: Bytes) -> Result<Self, Error> {
        Ok(())
    }

    fn encode(self) -> Chunks {
        Vec::new()
    }
}

impl Body for Bytes {
    fn decode(bytes: Bytes) -> Result<Self, Error> {
        Ok(bytes)
    }

    fn encode(self) -> Chunks {
        if self.is_empty() { Vec::new() } else { vec![self] }
    }
}

/// Records of a pull answer: written as slices of the mapped log, read as one run of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records(pub Chunks);

impl Body for Records {
    fn decode(bytes: Bytes) -> Result<Self, Error> {
        Ok(Self(bytes.encode()))
    }

    fn encode(self) -> Chunks {
        self.0
    }
}

/// UTF-8 text, as in the configuration requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub String);

impl Body for Text {
    fn decode(bytes: Bytes) -> Result<Self, Error> {
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(Self(text.to_owned())),
            Err(e) => Err(Error::malformed("text body", e.to_string())),
        }
    }

    fn encode(self) -> Chunks {
        Bytes::from(self.0).encode()
    }
}

/// A JSON body, written in Java's shape unless the strict form is asked for; read in either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Json<T> {
    /// The value.
    pub value: T,
    /// Write quoted keys and escaped text, for the peers that ask for standard JSON.
    pub strict: bool,
}

impl<T> Json<T> {
    /// A body in Java's shape.
    pub fn new(value: T) -> Self {
        Self { value, strict: false }
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Body for Json<T> {
    fn decode(bytes: Bytes) -> Result<Self, Error> {
        json::from_slice(&bytes).map(Self::new)
    }

    fn encode(self) -> Chunks {
        let text = if self.strict {
            json::to_vec_strict(&self.value)
        } else {
            json::to_vec(&self.value)
        };
        Bytes::from(text).encode()
    }
}

/// A body that may be absent: zero bytes are `None`.
impl<B: Body> Body for Option<B> {
    fn decode(bytes: Bytes) -> Result<Self, Error> {
        if bytes.is_empty() {
            Ok(None)
        } else {
            B::decode(bytes).map(Some)
        }
    }

    fn encode(self) -> Chunks {
        self.map_or_else(Vec::new, B::encode)
    }
}

/// Ties a header struct to its code, name, body and reply:
///
/// `request!(UpdateTopic = 17 "UPDATE_AND_CREATE_TOPIC" (()) -> (), ());` reads
/// header = code name (request body) -> reply header, reply body.
#[macro_export]
macro_rules! request {
    ($header:ty = $code:literal $name:literal ($body:ty) -> $reply:ty, $reply_body:ty) => {
        impl $crate::protocol::Request for $header {
            const CODE: i32 = $code;
            const NAME: &'static str = $name;
            type Body = $body;
            type Reply = $reply;
            type ReplyBody = $reply_body;
        }
    };
}
