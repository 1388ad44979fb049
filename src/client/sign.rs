//! Signed requests: Java's first access control (`AclClientRPCHook`), which a 5.x broker still reads.
//!
//! The signature is HMAC-SHA1 of the header values in the order of their names, and the body.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use crate::fields::Fields;
use crate::protocol::base64::STANDARD;

/// Header names of a signed request.
const ACCESS_KEY: &str = "AccessKey";
const SIGNATURE: &str = "Signature";
const SECURITY_TOKEN: &str = "SecurityToken";

/// Who signs.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the account.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// A temporary token, if the account has one.
    pub security_token: Option<String>,
}

impl std::fmt::Debug for Credentials {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Adds the account and the signature to a header.
    pub fn sign(&self, fields: &mut Fields, body: &[u8]) {
        fields.push(ACCESS_KEY, self.access_key.clone());
        if let Some(token) = &self.security_token {
            fields.push(SECURITY_TOKEN, token.clone());
        }
        let sorted: BTreeMap<&str, &str> = fields.iter().collect();
        let mut mac =
            Hmac::<Sha1>::new_from_slice(self.secret_key.as_bytes()).expect("HMAC takes a key of any length");
        for value in sorted.values() {
            mac.update(value.as_bytes());
        }
        mac.update(body);
        let signature = STANDARD.encode(&mac.finalize().into_bytes());
        fields.push(SIGNATURE, signature);
    }
}

/// True for a header value that is not shown.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [SIGNATURE, SECURITY_TOKEN]
        .iter()
        .any(|s| name == s.to_ascii_lowercase())
        || name.contains("password")
        || name.contains("secret")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_signed_in_the_order_of_their_names() {
        let credentials = Credentials {
            access_key: "what do ya want ".into(),
            secret_key: "Jefe".into(),
            security_token: None,
        };
        let mut fields = Fields::new();
        // Behind "AccessKey": the text of RFC 2202's second case in two parts and the body.
        fields.push("b", "nothing");
        fields.push("a", "for ");
        credentials.sign(&mut fields, b"?");
        // HMAC-SHA1("Jefe", "what do ya want for nothing?") = effcdf6ae5eb2fa2d27416d5f184df9c259a7c79
        assert_eq!(fields.get(SIGNATURE), Some("7/zfauXrL6LSdBbV8YTfnCWafHk="));
        assert!(is_secret("Signature") && is_secret("userPassword") && !is_secret("topic"));
        assert!(!format!("{credentials:?}").contains("Jefe"));
    }
}
