//! JSON bodies, named after Java's classes. Every field has the default Java gives it, so an older peer that
//! leaves one out is read as Java reads it. Field names are the wire's; `isX` is accepted for a boolean `x`.

mod auth;
mod cluster;
mod connection;
mod controller;
mod group;
mod heartbeat;
mod kv;
mod lite;
mod lock;
mod offset;
mod pop;
mod register;
mod reset;
mod route;
mod running;
mod stats;
mod topic;

pub use auth::*;
pub use cluster::*;
pub use connection::*;
pub use controller::*;
pub use group::*;
pub use heartbeat::*;
pub use kv::*;
pub use lite::*;
pub use lock::*;
pub use offset::*;
pub use pop::*;
pub use register::*;
pub use reset::*;
pub use route::*;
pub use running::*;
pub use stats::*;
pub use topic::*;

use serde::{Deserialize, Deserializer};

/// An enum that peers spell in any case or as an ordinal; an unknown one becomes the default.
macro_rules! lenient_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* $variant,)* }

        impl $name {
            /// All values by Java's ordinal.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Java's constant.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// By Java's constant in any case, or by ordinal.
            pub fn from_text(text: &str) -> Option<Self> {
                let text = text.trim();
                let ordinal = text.parse::<usize>().ok();
                Self::ALL
                    .iter()
                    .enumerate()
                    .find(|(i, v)| v.name().eq_ignore_ascii_case(text) || Some(*i) == ordinal)
                    .map(|(_, v)| *v)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                // Numbers arrive as their text: the readers of this crate give any scalar as text when asked.
                let text = String::deserialize(deserializer)?;
                Ok(Self::from_text(&text).unwrap_or_default())
            }
        }
    };
}
use lenient_enum;

/// Reads a value that falls back to its default when it does not read as `T`.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

#[cfg(test)]
mod tests;
