use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::protocol::Body;
use crate::protocol::body::{HeartbeatData, RegisterBrokerBody, TopicRouteData};
use crate::protocol::requests::{PullMessage, SendMessageV2};

/// A frame whose length words are right for what follows.
fn frame(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mark = u32::from(kind) << 24 | header.len() as u32;
    let length = (4 + header.len() + body.len()) as u32;
    [&length.to_be_bytes(), &mark.to_be_bytes(), header, body].concat()
}

/// A binary header: the fixed part, then what the test makes of remark and ext fields.
fn binary(tail: &[&[u8]]) -> Vec<u8> {
    let mut header = b"\0\x0a\x00\x01\xdf\0\0\0\x07\0\0\0\0".to_vec();
    header.extend(tail.concat());
    frame(1, &header, b"")
}

const NONE: &[u8] = &[0, 0, 0, 0];
const MINUS: &[u8] = &[0xFF; 4];
const HUGE: &[u8] = &[0x7F, 0xFF, 0xFF, 0xFF];
const ONE: &[u8] = &[0, 0, 0, 1];

/// K01: nothing here may be accepted, panic or make room for what was only announced.
#[test]
fn broken_frames_are_refused() {
    let int = |n: i32| n.to_be_bytes().to_vec();
    let mut table: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, bytes: Vec<u8>| table.push((name.to_owned(), bytes));
    for total in [0, 1, 2, 3, -1, -4, i32::MIN, i32::MAX, MAX_FRAME as i32 - 3] {
        add(&format!("total {total}"), [int(total), vec![0; 16]].concat());
    }
    for (total, header) in [(4, 1), (4, 0x00FF_FFFF), (8, 5), (8, 0x00FF_FFFF)] {
        add(
            &format!("header {header} in {total}"),
            [int(total), int(header), vec![0; total as usize - 4]].concat(),
        );
    }
    for kind in [2, 3, 0x7F, 0x80, 0xFF] {
        add(&format!("type {kind}"), frame(kind, b"{}", b""));
    }
    for header in [
        "",
        " ",
        "{",
        "}",
        "[]",
        "\"x\"",
        "1",
        "null",
        "{\"code\"}",
        "{\"code\":}",
        "{\"code\":105",
        "{\"code\":105}}",
        "{\"code\":\"x\"}",
        "{\"code\":2147483648}",
        "{\"opaque\":1.5}",
        "{\"extFields\":[]}",
        "{\"extFields\":{\"a\":\"b}}",
        "{\"extFields\":{\"a\":\"\\u00g0\"}}",
        "{\"a\":{\"b\":}}",
        "\u{0}\u{0}",
    ] {
        add(&format!("json {header}"), frame(0, header.as_bytes(), b""));
    }
    add("json nested", frame(0, &b"{\"a\":".repeat(10_000), b""));
    for length in 0..21 {
        add(&format!("binary of {length}"), frame(1, &vec![0; length], b""));
    }
    add("remark -1", binary(&[MINUS, NONE]));
    add("remark huge", binary(&[HUGE, NONE]));
    add("remark minimum", binary(&[&int(i32::MIN), NONE]));
    add("remark one too long", binary(&[&int(5), NONE]));
    add("remark cut off ext length", binary(&[&int(2), b"ab", b"\0\0"]));
    add("ext -1", binary(&[NONE, MINUS]));
    add("ext huge", binary(&[NONE, HUGE]));
    add("ext one too long", binary(&[NONE, ONE]));
    add("ext cut in key length", binary(&[NONE, ONE, b"\0"]));
    add("ext key -1", binary(&[NONE, &int(2), b"\xff\xff"]));
    add("ext key minimum", binary(&[NONE, &int(2), b"\x80\0"]));
    add("ext cut in key", binary(&[NONE, &int(3), b"\0\x02a"]));
    add(
        "ext key beyond ext, within header",
        binary(&[NONE, &int(3), b"\0\x02ab"]),
    );
    add(
        "ext cut before value length",
        binary(&[NONE, &int(3), b"\0\x01a"]),
    );
    add(
        "ext cut in value length",
        binary(&[NONE, &int(5), b"\0\x01a\0\0"]),
    );
    add("ext value -1", binary(&[NONE, &int(7), b"\0\x01a", MINUS]));
    add("ext value huge", binary(&[NONE, &int(7), b"\0\x01a", HUGE]));
    add(
        "ext cut in value",
        binary(&[NONE, &int(8), b"\0\x01a\0\0\0\x02b"]),
    );
    assert!(table.len() > 60);
    for (name, bytes) in table {
        let mut input = BytesMut::from(&bytes[..]);
        assert!(Frame::cut(&mut input).is_err(), "{name}");
        assert!(
            input.capacity() <= bytes.len().max(64) * 2,
            "{name}: {}",
            input.capacity()
        );
    }
}

#[test]
fn an_announced_length_takes_no_memory() {
    // The largest legal frame, of which twelve bytes have arrived.
    let mut input = BytesMut::from(&[0x00, 0xFF, 0xFF, 0xFC, 0, 0, 0, 2, b'{', b'}', 0, 0][..]);
    assert_eq!(Frame::cut(&mut input).unwrap(), None);
    assert!(input.capacity() <= 2 * READ_AHEAD, "{}", input.capacity());
}

#[test]
fn a_frame_is_cut_at_every_split() {
    let first = frame(0, b"{\"code\":1,\"opaque\":5}", b"body");
    let second = binary(&[&[0, 0, 0, 2], b"ok", &[0, 0, 0, 8], b"\0\x01a\0\0\0\x01b"]);
    let stream = [&first[..], &second].concat();
    for split in 0..=stream.len() {
        let mut input = BytesMut::from(&stream[..split]);
        let mut frames = Vec::new();
        while let Some(frame) = Frame::cut(&mut input).unwrap() {
            frames.push(frame);
        }
        assert_eq!(
            frames.len(),
            usize::from(split >= first.len()) + usize::from(split == stream.len())
        );
        input.extend_from_slice(&stream[split..]);
        while let Some(frame) = Frame::cut(&mut input).unwrap() {
            frames.push(frame);
        }
        assert!(input.is_empty());
        assert_eq!(
            (frames[0].code, frames[0].opaque, &frames[0].body[..]),
            (1, 5, &b"body"[..])
        );
        assert_eq!(
            (frames[1].code, frames[1].version, frames[1].opaque),
            (10, 479, 7)
        );
        assert_eq!(frames[1].remark.as_deref(), Some("ok"));
        assert_eq!(frames[1].fields.get("a"), Some("b"));
    }
}

fn java_request(header: &str) -> Frame {
    let bytes = frame(0, header.as_bytes(), b"");
    Frame::cut(&mut BytesMut::from(&bytes[..])).unwrap().unwrap()
}

#[test]
fn javas_headers_are_written_byte_for_byte() {
    for text in [
        r#"{"code":105,"extFields":{"topic":"t1"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}"#,
        r#"{"code":0,"extFields":{},"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}"#,
        r#"{"code":19,"extFields":{"suggestWhichBrokerId":"0","groupSysFlag":"0","nextBeginOffset":"2","maxOffset":"2","minOffset":"0","topicSysFlag":"0"},"flag":1,"language":"GO","opaque":-105,"remark":"OFFSET_OVERFLOW_ONE","serializeTypeCurrentRPC":"JSON","version":0}"#,
        r#"{"code":310,"extFields":{"a":"pg_proto","b":"proto_t1","i":"color\u0001red\u0002WAIT\u0001true\u0002"},"flag":2,"language":"JAVA","opaque":4,"serializeTypeCurrentRPC":"JSON","version":479}"#,
        r#"{"code":0,"extFields":{"invisibleTime":"60000","startOffsetInfo":"0 3 0","restNum":"20","popTime":"1795973716309","reviveQid":"0","msgOffsetInfo":"0 3 0,1"},"flag":1,"language":"JAVA","opaque":1,"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":479}"#,
    ] {
        let bytes = java_request(text).to_bytes(HeaderForm::Json).unwrap();
        assert_eq!(std::str::from_utf8(&bytes[8..]).unwrap(), text);
    }
}

/// Pitfall: an absent header object, and what minimal clients leave out.
#[test]
fn minimal_headers_are_served() {
    let frame = java_request("{\"code\":34}");
    assert_eq!(
        (frame.code, frame.version, frame.language, frame.is_oneway()),
        (34, 0, None, false)
    );
    assert!(frame.fields.is_empty());
    assert_eq!(java_request("{}").code, 0);
    assert_eq!(java_request("{\"code\":1,\"extFields\":{}} ").fields.len(), 0);
}

#[test]
fn flags_tell_requests_from_answers() {
    let request = Frame::request(105, Fields::new());
    assert!(!request.is_response() && !request.is_oneway());
    assert_eq!((request.version, request.language), (479, Some(Language::Java)));
    assert!(java_request("{\"flag\":1}").is_response());
    assert!(java_request("{\"flag\":2}").is_oneway());
    assert!(!java_request("{\"flag\":2}").is_response());
}

#[test]
fn what_does_not_fit_is_not_written() {
    let mut out = BytesMut::from(&b"before"[..]);
    let mut frame = Frame::request(200_050, Fields::new());
    // Pop codes do not fit the binary form's 16 bits.
    assert!(frame.encode_head(HeaderForm::Binary, 0, &mut out).is_err());
    assert_eq!(&out[..], b"before");
    frame.code = 10;
    assert!(frame.encode_head(HeaderForm::Json, MAX_FRAME, &mut out).is_err());
    assert!(
        frame
            .encode_head(HeaderForm::Json, MAX_FRAME - 8, &mut out)
            .is_err()
    );
    assert_eq!(&out[..], b"before");
    frame.encode_head(HeaderForm::Json, 100, &mut out).unwrap();
    let head = &out[6..];
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    assert_eq!(length + 4, head.len() + 100);
    frame.fields.push("k".repeat(40_000), "v");
    assert!(frame.encode_head(HeaderForm::Binary, 0, &mut out).is_err());
}

#[test]
fn the_largest_frame_is_both_written_and_read() {
    let mut frame = Frame::request(10, Fields::new());
    let head = frame.to_bytes(HeaderForm::Json).unwrap().len();
    frame.body = Bytes::from(vec![7; MAX_FRAME - head]);
    let bytes = frame.to_bytes(HeaderForm::Json).unwrap();
    assert_eq!(bytes.len(), MAX_FRAME);
    let read = Frame::cut(&mut BytesMut::from(&bytes[..])).unwrap().unwrap();
    assert!(read == frame);
}

/// A header of 200 000 fields is read in one pass.
#[test]
fn a_crowded_header_is_read_in_linear_time() {
    let mut header = b"{\"code\":310,\"extFields\":{".to_vec();
    for _ in 0..100_000 {
        header.extend_from_slice(b"\"b\":\"t\",\"zz\":\"\",");
    }
    header.extend_from_slice(b"}}");
    let bytes = frame(0, &header, b"");
    let read = Frame::cut(&mut BytesMut::from(&bytes[..])).unwrap().unwrap();
    assert_eq!(read.fields.len(), 200_000);
    assert!(read.fields.to_value::<SendMessageV2>().is_err());
    assert_eq!(
        read.fields.to_value::<BTreeMap<String, String>>().unwrap().len(),
        2
    );
}

/// Every decoder is a plain function of bytes; none may panic.
fn decode_all(bytes: &[u8]) {
    let mut input = BytesMut::from(bytes);
    while let Ok(Some(frame)) = Frame::cut(&mut input) {
        let _ = frame.fields.to_value::<SendMessageV2>();
        let _ = frame.fields.to_value::<PullMessage>();
    }
    let _ = Frame::parse(Bytes::copy_from_slice(bytes));
    let _ = json::header(bytes);
    let _ = json::from_slice::<serde::de::IgnoredAny>(bytes);
    let _ = json::from_slice::<HeartbeatData>(bytes);
    let _ = json::from_slice::<TopicRouteData>(bytes);
    let _ = json::from_slice::<BTreeMap<crate::protocol::model::MessageQueue, i64>>(bytes);
    for version in [36, 412, 479] {
        let _ = RegisterBrokerBody::decode(bytes, true, version, 4096);
        let _ = RegisterBrokerBody::decode(bytes, false, version, 4096);
    }
    let _ = crate::protocol::Text::decode(Bytes::copy_from_slice(bytes));
}

fn any_fields() -> impl Strategy<Value = Fields> {
    proptest::collection::vec(("\\PC{1,12}", "(?s:.){1,20}"), 0..8).prop_map(|v| v.into_iter().collect())
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        decode_all(&bytes);
    }

    #[test]
    fn random_headers_never_panic(kind in 0u8..3, header in proptest::collection::vec(any::<u8>(), 0..100)) {
        decode_all(&frame(kind, &header, b"x"));
    }

    #[test]
    fn random_json_never_panics(text in "[\\[\\]{}:,'\"\\\\u0-9a-f.+\u{e4}\u{1f600}\0 -]{0,80}") {
        decode_all(text.as_bytes());
        decode_all(&frame(0, text.as_bytes(), b""));
    }

    #[test]
    fn a_damaged_frame_never_panics(at in 0usize..400, value in any::<u8>(), form in any::<bool>()) {
        let mut sample = java_request(r#"{"code":310,"extFields":{"a":"pg","b":"t","i":"KEYS\u0001k\u0002"},"flag":0,"language":"JAVA","opaque":4,"remark":"r","version":479}"#);
        sample.body = Bytes::from_static(b"hello");
        let form = if form { HeaderForm::Binary } else { HeaderForm::Json };
        let mut bytes = sample.to_bytes(form).unwrap().to_vec();
        let at = at % bytes.len();
        bytes[at] = value;
        decode_all(&bytes);
        decode_all(&bytes[..at]);
    }

    #[test]
    fn frames_survive_both_forms(
        numbers in (any::<i16>(), any::<i16>(), any::<i32>(), any::<i32>()),
        language in 0i64..14,
        remark in proptest::option::of("(?s:.){1,20}"),
        fields in any_fields(),
        body in proptest::collection::vec(any::<u8>(), 0..50),
    ) {
        let (code, version, opaque, flag) = numbers;
        let sent = Frame {
            code: code.into(),
            version: version.into(),
            opaque,
            flag,
            language: Language::from_ordinal(language),
            remark,
            fields,
            body: body.into(),
        };
        for form in [HeaderForm::Json, HeaderForm::Binary] {
            let bytes = sent.to_bytes(form).unwrap();
            let mut input = BytesMut::from(&bytes[..]);
            let read = Frame::cut(&mut input).unwrap().unwrap();
            prop_assert_eq!(&read, &sent);
            prop_assert!(input.is_empty());
        }
    }
}

/// Not a test of anything: prints what a send header costs. `cargo test --lib -- --ignored --nocapture cost_of`
#[test]
#[ignore = "prints timings"]
fn cost_of_a_send_header() {
    const ROUNDS: u32 = 100_000;
    let text = r#"{"code":310,"extFields":{"a":"pg_proto","b":"proto_t1","c":"TBW102","d":"4","e":"0","f":"0","g":"1795973553406","h":"0","i":"color\u0001red\u0002KEYS\u0001k1 k2\u0002UNIQ_KEY\u0001FD00000000000000000000000000000000000000000000000000000000000000\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002","j":"0","k":"false","m":"false","n":"broker-p"},"flag":0,"language":"JAVA","opaque":4,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    let bytes = Bytes::from(frame(0, text.as_bytes(), b"hello"));
    let mut out = BytesMut::with_capacity(1024);
    let mut timed = |name: &str, round: &mut dyn FnMut(&mut BytesMut)| {
        let begin = std::time::Instant::now();
        for _ in 0..ROUNDS {
            out.clear();
            round(&mut out);
        }
        println!("{name}: {} ns", begin.elapsed().as_nanos() / u128::from(ROUNDS));
    };
    let parsed = Frame::parse(bytes.slice(4..)).unwrap();
    let header: SendMessageV2 = parsed.fields.to_value().unwrap();
    timed("frame to fields", &mut |_| {
        drop(Frame::parse(bytes.slice(4..)).unwrap())
    });
    timed("fields to header", &mut |_| {
        drop(parsed.fields.to_value::<SendMessageV2>().unwrap())
    });
    timed("header to fields", &mut |_| {
        drop(Fields::from_value(&header).unwrap())
    });
    timed("fields to frame", &mut |out| {
        parsed.encode_head(HeaderForm::Json, 5, out).unwrap()
    });
}
