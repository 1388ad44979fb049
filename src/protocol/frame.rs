//! The remoting frame: length words, and a header in JSON (type 0) or binary (type 1) form.
//!
//! A frame is decoded by its own type byte. We always answer JSON, as a Java 5.3.3 server does, and read both.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Chunks, Error, json, model::Language, model::VERSION};
use crate::fields::Fields;

/// Longest frame in bytes, its own length word included (Java's `NettyDecoder`).
pub const MAX_FRAME: usize = 16 * 1024 * 1024;
/// Most bytes that room is made for before they arrive.
const READ_AHEAD: usize = 64 * 1024;
/// Flag bit of a response.
pub const FLAG_RESPONSE: i32 = 1;
/// Flag bit of a request that wants no answer.
pub const FLAG_ONEWAY: i32 = 2;

/// How a header is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderForm {
    /// JSON text.
    #[default]
    Json = 0,
    /// Java's `ROCKETMQ` binary form.
    Binary = 1,
}

/// One decoded frame, request or response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Request code, or response code when [`Frame::is_response`].
    pub code: i32,
    /// Language of the sender; `None` when it names one we do not know.
    pub language: Option<Language>,
    /// `MQVersion` ordinal of the sender; 0 when absent.
    pub version: i32,
    /// Correlation id chosen by the requester.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`] and [`FLAG_ONEWAY`].
    pub flag: i32,
    /// Free text.
    pub remark: Option<String>,
    /// Header fields.
    pub fields: Fields,
    /// The body; empty when absent.
    pub body: Bytes,
}

impl Frame {
    /// A request of our own version.
    pub fn request(code: i32, fields: Fields) -> Self {
        Self {
            code,
            fields,
            language: Some(Language::Java),
            version: VERSION,
            ..Self::default()
        }
    }

    /// True for a response.
    pub const fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// True for a request that must not be answered.
    pub const fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// Cuts the next frame from the front of `input`. `Ok(None)` means more bytes are needed; an error means
    /// that the stream cannot be delimited any more and the connection must be closed.
    pub fn cut(input: &mut BytesMut) -> Result<Option<Self>, Error> {
        if input.len() < 4 {
            return Ok(None);
        }
        let length = i32::from_be_bytes([input[0], input[1], input[2], input[3]]);
        let total = usize::try_from(length).ok().and_then(|n| n.checked_add(4));
        let Some(total) = total.filter(|&t| (8..=MAX_FRAME).contains(&t)) else {
            return Err(Error::Length {
                what: "frame",
                len: length.into(),
                available: MAX_FRAME,
            });
        };
        if input.len() < total {
            // The length may be a lie: grow as bytes arrive, not by what was announced.
            input.reserve((total - input.len()).min(READ_AHEAD));
            return Ok(None);
        }
        let mut frame = input.split_to(total).freeze();
        frame.advance(4);
        Self::parse(frame).map(Some)
    }

    /// Reads a frame whose length word has been taken off.
    pub fn parse(mut frame: Bytes) -> Result<Self, Error> {
        if frame.len() < 4 {
            return Err(Error::Length {
                what: "header mark",
                len: 4,
                available: frame.len(),
            });
        }
        let mark = frame.get_u32();
        let header_length = (mark & 0x00FF_FFFF) as usize;
        if header_length > frame.len() {
            let available = frame.len();
            return Err(Error::Length {
                what: "header",
                len: i64::from(mark & 0x00FF_FFFF),
                available,
            });
        }
        let header = frame.split_to(header_length);
        let mut decoded = match mark >> 24 {
            0 => json_header(&header)?,
            1 => binary_header(header)?,
            other => return Err(Error::malformed("serialize type", other.to_string())),
        };
        decoded.body = frame;
        Ok(decoded)
    }

    /// Writes length words and header for a body of `body_length` bytes; the body follows.
    pub fn encode_head(&self, form: HeaderForm, body_length: usize, out: &mut BytesMut) -> Result<(), Error> {
        let start = out.len();
        out.put_u64(0);
        match form {
            HeaderForm::Json => self.write_json(out),
            HeaderForm::Binary => {
                if let Err(e) = self.write_binary(out) {
                    out.truncate(start);
                    return Err(e);
                }
            }
        }
        let header_length = out.len() - start - 8;
        let length = header_length + 4 + body_length;
        if header_length > 0x00FF_FFFF || length + 4 > MAX_FRAME {
            out.truncate(start);
            return Err(Error::Length {
                what: "frame",
                len: length as i64,
                available: MAX_FRAME,
            });
        }
        out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
        let mark = ((form as u32) << 24) | header_length as u32;
        out[start + 4..start + 8].copy_from_slice(&mark.to_be_bytes());
        Ok(())
    }

    /// The whole frame in one piece, for tests and small messages.
    pub fn to_bytes(&self, form: HeaderForm) -> Result<Bytes, Error> {
        let mut out = BytesMut::with_capacity(256 + self.body.len());
        self.encode_head(form, self.body.len(), &mut out)?;
        out.extend_from_slice(&self.body);
        Ok(out.freeze())
    }

    /// Keys in Java's (alphabetical) order, no white space.
    fn write_json(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"{\"code\":");
        json::write_int(out, self.code);
        out.extend_from_slice(b",\"extFields\":{");
        for (i, (name, value)) in self.fields.iter().enumerate() {
            if i > 0 {
                out.put_u8(b',');
            }
            json::write_string(out, name);
            out.put_u8(b':');
            json::write_string(out, value);
        }
        out.extend_from_slice(b"},\"flag\":");
        json::write_int(out, self.flag);
        out.extend_from_slice(b",\"language\":\"");
        out.extend_from_slice(self.language.unwrap_or_default().name().as_bytes());
        out.extend_from_slice(b"\",\"opaque\":");
        json::write_int(out, self.opaque);
        if let Some(remark) = &self.remark {
            out.extend_from_slice(b",\"remark\":");
            json::write_string(out, remark);
        }
        out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        json::write_int(out, self.version);
        out.put_u8(b'}');
    }

    fn write_binary(&self, out: &mut BytesMut) -> Result<(), Error> {
        let narrow = |what, v: i32| i16::try_from(v).map_err(|_| Error::malformed(what, v.to_string()));
        out.put_i16(narrow("code", self.code)?);
        out.put_u8(self.language.unwrap_or_default().ordinal());
        out.put_i16(narrow("version", self.version)?);
        out.put_i32(self.opaque);
        out.put_i32(self.flag);
        let remark = self.remark.as_deref().unwrap_or("");
        out.put_i32(remark.len() as i32);
        out.extend_from_slice(remark.as_bytes());
        let ext_at = out.len();
        out.put_i32(0);
        for (name, value) in self.fields.iter() {
            let length = i16::try_from(name.len())
                .map_err(|_| Error::malformed("field name", format!("{} bytes long", name.len())))?;
            out.put_i16(length);
            out.extend_from_slice(name.as_bytes());
            out.put_i32(value.len() as i32);
            out.extend_from_slice(value.as_bytes());
        }
        let ext_length = (out.len() - ext_at - 4) as u32;
        out[ext_at..ext_at + 4].copy_from_slice(&ext_length.to_be_bytes());
        Ok(())
    }
}

/// Joins body pieces to one run of bytes.
pub fn join(mut chunks: Chunks) -> Bytes {
    match chunks.len() {
        0 => Bytes::new(),
        1 => chunks.remove(0),
        _ => Bytes::from(chunks.concat()),
    }
}

fn json_header(header: &[u8]) -> Result<Frame, Error> {
    let header = json::header(header)?;
    Ok(Frame {
        code: header.code,
        language: header.language,
        version: header.version,
        opaque: header.opaque,
        flag: header.flag,
        remark: header.remark,
        fields: header.ext_fields,
        body: Bytes::new(),
    })
}

fn binary_header(mut header: Bytes) -> Result<Frame, Error> {
    let available = header.len();
    if available < 21 {
        return Err(Error::Length {
            what: "binary header",
            len: 21,
            available,
        });
    }
    let mut frame = Frame {
        code: header.get_i16().into(),
        ..Frame::default()
    };
    frame.language = Language::from_ordinal(header.get_u8().into());
    frame.version = header.get_i16().into();
    frame.opaque = header.get_i32();
    frame.flag = header.get_i32();
    let remark = take("remark", &mut header, 4)?;
    frame.remark = (!remark.is_empty()).then(|| String::from_utf8_lossy(&remark).into_owned());
    let ext_length = take_length("ext fields", &mut header, 4)?;
    let mut ext = header.split_to(ext_length);
    while !ext.is_empty() {
        let name = take("field name", &mut ext, 2)?;
        let value = take("field value", &mut ext, 4)?;
        // Length 0 means null in this form: the field is absent.
        if !value.is_empty() {
            let (name, value) = (String::from_utf8_lossy(&name), String::from_utf8_lossy(&value));
            frame.fields.push_str(&name, &value);
        }
    }
    Ok(frame)
}

/// Reads a signed length of `width` bytes and checks it against what is left behind it.
fn take_length(what: &'static str, from: &mut Bytes, width: usize) -> Result<usize, Error> {
    let available = from.len();
    if available < width {
        return Err(Error::Length {
            what,
            len: width as i64,
            available,
        });
    }
    let len = from.get_int(width);
    usize::try_from(len)
        .ok()
        .filter(|&n| n <= from.len())
        .ok_or(Error::Length {
            what,
            len,
            available: from.len(),
        })
}

/// Reads a length of `width` bytes and as many bytes behind it. Texts that are not UTF-8 get replacement
/// characters later, as in Java.
fn take(what: &'static str, from: &mut Bytes, width: usize) -> Result<Bytes, Error> {
    let length = take_length(what, from, width)?;
    Ok(from.split_to(length))
}

#[cfg(test)]
mod tests;
