//! Bodies of messages: how they are shown, and tests on them.

use std::str::FromStr;

use clap::ValueEnum;
use serde_json::Value;

use super::output::Cell;
use crate::protocol::base64::STANDARD;

/// How a body is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BodyForm {
    /// Text when it is UTF-8, else hexadecimal
    Auto,
    /// Text, wrong bytes replaced
    Text,
    /// JSON on one line; text when it is none
    Json,
    /// Hexadecimal
    Hex,
    /// Base64
    Base64,
    /// Not at all
    None,
}

impl BodyForm {
    /// The body in this form.
    pub fn show(self, body: &[u8]) -> Cell {
        let hex = || body.iter().map(|b| format!("{b:02x}")).collect::<String>();
        match (self, std::str::from_utf8(body)) {
            (Self::None, _) => Cell::Unknown,
            (Self::Base64, _) => STANDARD.encode(body).into(),
            (Self::Hex, _) | (Self::Auto, Err(_)) => hex().into(),
            (Self::Json, Ok(text)) => match serde_json::from_str::<Value>(text) {
                Ok(value) => value.to_string().into(),
                Err(_) => text.into(),
            },
            (Self::Auto | Self::Text, Ok(text)) => text.into(),
            (Self::Text | Self::Json, Err(_)) => String::from_utf8_lossy(body).into_owned().into(),
        }
    }
}

/// `--decode`: the charset that text bodies are in.
#[derive(Debug, Clone, Copy)]
pub struct Charset(&'static encoding_rs::Encoding);

impl FromStr for Charset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        encoding_rs::Encoding::for_label(text.trim().as_bytes())
            .map(Self)
            .ok_or_else(|| format!("\"{text}\" is not a charset; use utf-8, gbk, gb18030, big5, shift_jis, euc-kr, latin1 or another of the web's names"))
    }
}

impl Charset {
    /// The bytes as UTF-8.
    pub fn decode(self, body: &[u8]) -> Vec<u8> {
        self.0.decode(body).0.into_owned().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_shown_in_each_form() {
        assert_eq!(BodyForm::Auto.show(b"\xff"), Cell::Text("ff".into()));
        assert_eq!(
            BodyForm::Json.show(b"{\n \"a\": 1}"),
            Cell::Text("{\"a\":1}".into())
        );
        assert_eq!(BodyForm::Base64.show(b"\xff\xfe"), Cell::Text("//4=".into()));
        assert_eq!(BodyForm::None.show(b"x"), Cell::Unknown);
        let gbk: Charset = "gbk".parse().unwrap();
        assert_eq!(gbk.decode(b"\xb6\xa9\xb5\xa5"), "订单".as_bytes());
        assert!("nonsense".parse::<Charset>().is_err());
    }
}
