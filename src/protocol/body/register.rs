//! What a broker registers at a name server: JSON, or the deflated binary form of old brokers.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use super::{TopicConfig, TopicConfigTable, TopicQueueMappingInfo};
use crate::protocol::model::{Perm, TopicFilterType};
use crate::protocol::{Error, json};

/// Brokers before this version (`V3_0_11`) send a bare topic table.
const VERSION_REGISTER_BODY: i32 = 37;
/// From this version on (`V5_0_0`) the deflated form ends with the topic queue mappings.
const VERSION_MAPPINGS: i32 = 413;

/// Body of REGISTER_BROKER.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegisterBrokerBody {
    /// Filter servers, empty since 4.x.
    pub filter_server_list: Vec<String>,
    /// The broker's topics.
    pub topic_config_serialize_wrapper: TopicConfigTable,
}

impl RegisterBrokerBody {
    /// Reads the body as the header's `compressed` flag and the broker's version say. A deflated body may not
    /// grow beyond `limit` bytes. An empty body registers no topics.
    pub fn decode(bytes: &[u8], compressed: bool, version: i32, limit: usize) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        if version < VERSION_REGISTER_BODY {
            return Ok(Self {
                topic_config_serialize_wrapper: json::from_slice(bytes)?,
                ..Self::default()
            });
        }
        if compressed {
            Self::decode_compressed(bytes, version, limit)
        } else {
            json::from_slice(bytes)
        }
    }

    /// Reads the deflated form of a broker of `version`; more than `limit` inflated bytes are refused.
    pub fn decode_compressed(bytes: &[u8], version: i32, limit: usize) -> Result<Self, Error> {
        let mut inflated = Vec::new();
        ZlibDecoder::new(bytes)
            .take((limit as u64).saturating_add(1))
            .read_to_end(&mut inflated)
            .map_err(|e| Error::malformed("deflated register body", e.to_string()))?;
        if inflated.len() > limit {
            return Err(Error::malformed(
                "deflated register body",
                format!("inflates to more than {limit} bytes"),
            ));
        }
        let mut pieces = Pieces(&inflated);
        let mut table = TopicConfigTable {
            data_version: json::from_slice(pieces.next("data version")?)?,
            ..TopicConfigTable::default()
        };
        for _ in 0..pieces.count("topic count")? {
            let topic = topic_from_text(pieces.next("topic")?)?;
            table.topic_config_table.insert(topic.topic_name.clone(), topic);
        }
        // Java logs an unreadable filter server list and goes on.
        let filter_server_list = json::from_slice(pieces.next("filter server list")?).unwrap_or_default();
        if version >= VERSION_MAPPINGS {
            let mut mappings = BTreeMap::new();
            for _ in 0..pieces.count("mapping count")? {
                let mapping: TopicQueueMappingInfo = json::from_slice(pieces.next("mapping")?)?;
                mappings.insert(mapping.topic.clone(), mapping);
            }
            table.topic_queue_mapping_info_map = Some(mappings);
        }
        Ok(Self {
            filter_server_list,
            topic_config_serialize_wrapper: table,
        })
    }

    /// Writes the deflated form, as a broker of `version` does.
    pub fn encode_compressed(&self, version: i32) -> std::io::Result<Vec<u8>> {
        let table = &self.topic_config_serialize_wrapper;
        let mut out = ZlibEncoder::new(Vec::new(), Compression::best());
        write_piece(&mut out, &json::to_vec(&table.data_version))?;
        out.write_all(&(table.topic_config_table.len() as u32).to_be_bytes())?;
        for topic in table.topic_config_table.values() {
            write_piece(&mut out, topic_to_text(topic).as_bytes())?;
        }
        write_piece(&mut out, &json::to_vec(&self.filter_server_list))?;
        if version >= VERSION_MAPPINGS {
            let none = BTreeMap::new();
            let mappings = table.topic_queue_mapping_info_map.as_ref().unwrap_or(&none);
            out.write_all(&(mappings.len() as u32).to_be_bytes())?;
            for mapping in mappings.values() {
                write_piece(&mut out, &json::to_vec(mapping))?;
            }
        }
        out.finish()
    }
}

fn write_piece(out: &mut impl Write, piece: &[u8]) -> std::io::Result<()> {
    out.write_all(&(piece.len() as u32).to_be_bytes())?;
    out.write_all(piece)
}

/// Pieces that each follow their i32 length.
struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    fn length(&mut self, what: &'static str) -> Result<usize, Error> {
        let Some((length, rest)) = self.0.split_first_chunk::<4>() else {
            return Err(Error::Length {
                what,
                len: 4,
                available: self.0.len(),
            });
        };
        self.0 = rest;
        let len = i32::from_be_bytes(*length);
        usize::try_from(len)
            .ok()
            .filter(|&n| n <= rest.len())
            .ok_or(Error::Length {
                what,
                len: len.into(),
                available: rest.len(),
            })
    }

    /// A number of pieces; each takes at least its length word, so a count beyond the bytes left is refused.
    fn count(&mut self, what: &'static str) -> Result<usize, Error> {
        self.length(what)
    }

    fn next(&mut self, what: &'static str) -> Result<&'a [u8], Error> {
        let length = self.length(what)?;
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(piece)
    }
}

/// `name read write perm filterType [attributesJson]`, split at single spaces. System flag and order are lost.
fn topic_from_text(text: &[u8]) -> Result<TopicConfig, Error> {
    let text = String::from_utf8_lossy(text);
    let bad = || Error::malformed("topic text", format!("`{text}`"));
    let mut parts = text.splitn(6, ' ');
    let mut part = || parts.next().ok_or_else(bad);
    let number = |text: &str| text.parse::<i32>().map_err(|_| bad());
    let mut topic = TopicConfig {
        topic_name: part()?.to_owned(),
        read_queue_nums: number(part()?)?,
        write_queue_nums: number(part()?)?,
        perm: Perm(number(part()?)?),
        topic_filter_type: match part()? {
            "SINGLE_TAG" => TopicFilterType::SingleTag,
            "MULTI_TAG" => TopicFilterType::MultiTag,
            _ => return Err(bad()),
        },
        ..TopicConfig::default()
    };
    if let Some(attributes) = parts.next() {
        // Java ignores attributes that it cannot read.
        topic.attributes = json::from_slice(attributes.as_bytes()).unwrap_or_default();
    }
    Ok(topic)
}

fn topic_to_text(topic: &TopicConfig) -> String {
    let filter = match topic.topic_filter_type {
        TopicFilterType::SingleTag => "SINGLE_TAG",
        TopicFilterType::MultiTag => "MULTI_TAG",
    };
    let attributes = json::to_vec(&topic.attributes);
    format!(
        "{} {} {} {} {filter} {}",
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.perm.0,
        String::from_utf8_lossy(&attributes),
    )
}
