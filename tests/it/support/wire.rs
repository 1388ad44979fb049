//! A request over a fresh connection, written from the protocol's description alone: it tells when a server is ready
//! and what it answers, without the client under test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// A response, its header parsed.
#[derive(Debug)]
pub struct Answer {
    pub code: i64,
    pub fields: Value,
    pub body: Vec<u8>,
}

/// Sends one request with a JSON header and reads its response.
pub fn ask(address: &str, code: i32, fields: Value) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let header = json!({
        "code": code, "language": "JAVA", "version": 479, "opaque": 1, "flag": 0,
        "extFields": fields, "serializeTypeCurrentRPC": "JSON",
    })
    .to_string();
    let header_length = u32::try_from(header.len()).expect("a short header");
    let mut frame = Vec::new();
    frame.extend((header_length + 4).to_be_bytes());
    frame.extend(header_length.to_be_bytes());
    frame.extend(header.as_bytes());
    stream.write_all(&frame)?;
    let mut lengths = [0; 8];
    stream.read_exact(&mut lengths)?;
    let total = u32::from_be_bytes([lengths[0], lengths[1], lengths[2], lengths[3]]) as usize;
    let header_length = u32::from_be_bytes([0, lengths[5], lengths[6], lengths[7]]) as usize;
    let mut rest = vec![0; total - 4];
    stream.read_exact(&mut rest)?;
    let body = rest.split_off(header_length);
    let header: Value = serde_json::from_slice(&rest)?;
    Ok(Answer {
        code: header["code"].as_i64().unwrap_or(-1),
        fields: header["extFields"].clone(),
        body,
    })
}

/// The name server's cluster table as text; empty while it does not answer. (Its keys are bare numbers, no JSON parser
/// of the usual kind reads it.)
pub fn cluster_info(namesrv: &str) -> String {
    ask(namesrv, 106, json!({}))
        .map(|answer| String::from_utf8_lossy(&answer.body).into_owned())
        .unwrap_or_default()
}

/// The route of a topic as text, `None` when the name server says that there is none.
pub fn route(namesrv: &str, topic: &str) -> Option<String> {
    let answer = ask(namesrv, 105, json!({ "topic": topic })).ok()?;
    (answer.code == 0).then(|| String::from_utf8_lossy(&answer.body).into_owned())
}

/// True when the name server answers at all.
pub fn namesrv_answers(namesrv: &str) -> bool {
    ask(namesrv, 106, json!({})).is_ok()
}

/// True when the name server knows the broker by this name.
pub fn is_registered(namesrv: &str, broker_name: &str) -> bool {
    cluster_info(namesrv).contains(&format!("\"{broker_name}\""))
}

/// Waits until the route of the topic holds `text`: brokers register a change after they answered it.
pub fn wait_for_route(namesrv: &str, topic: &str, text: &str) {
    let limit = Duration::from_secs(10);
    super::wait::until_true(&format!("the route of {topic} has {text}"), limit, || {
        route(namesrv, topic).is_some_and(|route| route.contains(text))
    });
}
