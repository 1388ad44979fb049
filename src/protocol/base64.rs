//! Base64 (RFC 4648), written with padding and read with or without it.

/// One of the two alphabets.
#[derive(Debug, Clone, Copy)]
pub struct Base64(&'static [u8; 64]);

/// The standard alphabet (section 4).
pub const STANDARD: Base64 = Base64(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
/// The alphabet for URLs and file names (section 5).
pub const URL_SAFE: Base64 = Base64(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");

impl Base64 {
    /// The text of bytes, padded.
    pub fn encode(self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
        for chunk in bytes.chunks(3) {
            let word =
                chunk.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
            for n in 0..4 {
                let digit = self.0[(word >> (18 - 6 * n) & 63) as usize];
                text.push(if n <= chunk.len() { char::from(digit) } else { '=' });
            }
        }
        text
    }

    /// The bytes of a text with all of its padding or none; `None` for anything else. Bits of the last digit that make
    /// no byte are dropped.
    pub fn decode(self, text: &str) -> Option<Vec<u8>> {
        if text.ends_with('=') && !text.len().is_multiple_of(4) {
            return None;
        }
        let digits = text
            .strip_suffix("==")
            .or(text.strip_suffix('='))
            .unwrap_or(text)
            .as_bytes();
        if digits.len() % 4 == 1 {
            return None;
        }
        let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
        for chunk in digits.chunks(4) {
            let mut word = 0u32;
            for digit in chunk {
                word = word << 6 | u32::try_from(self.0.iter().position(|d| d == digit)?).ok()?;
            }
            word <<= 6 * (4 - chunk.len());
            bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
        }
        Some(bytes)
    }

    /// As [`Self::decode`], but only of the text that [`Self::encode`] writes.
    pub fn decode_canonical(self, text: &str) -> Option<Vec<u8>> {
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
