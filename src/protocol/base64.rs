//! Base64 (RFC 4648), written with padding and read with or without it.

use base64::Engine as _;
use base64::alphabet::{self, Alphabet};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// One of the two alphabets.
#[derive(Debug)]
pub struct Base64(GeneralPurpose);

/// The standard alphabet (section 4).
pub static STANDARD: Base64 = Base64::of(&alphabet::STANDARD);
/// The alphabet for URLs and file names (section 5).
pub static URL_SAFE: Base64 = Base64::of(&alphabet::URL_SAFE);

impl Base64 {
    const fn of(alphabet: &Alphabet) -> Self {
        let lenient = GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true);
        Self(GeneralPurpose::new(alphabet, lenient))
    }

    /// The text of bytes, padded.
    pub fn encode(&self, bytes: &[u8]) -> String {
        self.0.encode(bytes)
    }

    /// The bytes of a text with all of its padding or none; `None` for anything else. Bits of the last digit that make
    /// no byte are dropped.
    pub fn decode(&self, text: &str) -> Option<Vec<u8>> {
        if text.ends_with('=') && !text.len().is_multiple_of(4) {
            return None;
        }
        self.0.decode(text).ok()
    }

    /// As [`Self::decode`], but only of the text that [`Self::encode`] writes.
    pub fn decode_canonical(&self, text: &str) -> Option<Vec<u8>> {
        self.decode(text).filter(|bytes| self.encode(bytes) == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_those_of_the_rfc() {
        // RFC 4648, section 10.
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(STANDARD.encode(plain.as_bytes()), text);
            for text in [text, text.trim_end_matches('=')] {
                assert_eq!(STANDARD.decode(text).unwrap(), plain.as_bytes());
            }
            assert_eq!(STANDARD.decode_canonical(text).unwrap(), plain.as_bytes());
        }
        assert_eq!(STANDARD.encode(&[0xFB, 0xFF]), "+/8=");
        assert_eq!(URL_SAFE.encode(&[0xFB, 0xFF]), "-_8=");
        assert_eq!(STANDARD.encode(&[0xFF, 0xFE]), "//4=");
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for wrong in ["Z", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9%", "a b", "\u{e4}"] {
            assert_eq!(STANDARD.decode(wrong), None, "{wrong}");
            assert_eq!(STANDARD.decode_canonical(wrong), None, "{wrong}");
        }
        for not_canonical in ["Zh==", "Zg", "Zm8"] {
            assert!(STANDARD.decode(not_canonical).is_some());
            assert_eq!(STANDARD.decode_canonical(not_canonical), None, "{not_canonical}");
        }
        assert_eq!((STANDARD.decode("-_8="), URL_SAFE.decode("+/8=")), (None, None));
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..99)) {
            prop_assert_eq!(URL_SAFE.decode(&URL_SAFE.encode(&bytes)), Some(bytes));
        }
    }
}
