//! Shapes are those of fastjson 1.2.83, which RocketMQ 5.3.3 uses; expected texts were written by it or captured
//! from a 5.3.3 server.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::protocol::model::MessageQueue;

fn java<T: Serialize>(value: &T) -> String {
    String::from_utf8(to_vec(value)).unwrap()
}

fn strict<T: Serialize>(value: &T) -> String {
    String::from_utf8(to_vec_strict(value)).unwrap()
}

fn pretty<T: Serialize>(value: &T) -> String {
    String::from_utf8(to_vec_pretty(value)).unwrap()
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    from_slice(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refused<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
    from_slice::<T>(text.as_bytes()).expect_err(text).to_string()
}

fn queue(id: i32) -> MessageQueue {
    MessageQueue {
        broker_name: "b".into(),
        queue_id: id,
        topic: "t".into(),
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Sample {
    zebra: i32,
    apple: Option<String>,
    rate: f64,
    order: bool,
    long_number: i64,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            zebra: 7,
            apple: None,
            rate: 0.0,
            order: false,
            long_number: 0,
        }
    }
}

#[test]
fn struct_fields_are_written_in_alphabetical_order_without_nulls() {
    let mut sample = Sample::default();
    assert_eq!(
        java(&sample),
        r#"{"longNumber":0,"order":false,"rate":0.0,"zebra":7}"#
    );
    sample.apple = Some("a".into());
    assert_eq!(
        java(&[sample.clone(), sample.clone()]),
        r#"[{"apple":"a","longNumber":0,"order":false,"rate":0.0,"zebra":7},{"apple":"a","longNumber":0,"order":false,"rate":0.0,"zebra":7}]"#
    );
    assert_eq!(
        pretty(&sample),
        "{\n\t\"apple\":\"a\",\n\t\"longNumber\":0,\n\t\"order\":false,\n\t\"rate\":0.0,\n\t\"zebra\":7\n}"
    );
}

#[test]
fn doubles_look_like_javas() {
    for (value, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1.5, "1.5"),
        (0.001, "0.001"),
        (0.000_99, "9.9E-4"),
        (1e7, "1.0E7"),
        (9_999_999.5, "9999999.5"),
        (12_345_678.9, "1.23456789E7"),
        (1e21, "1.0E21"),
        (1e-5, "1.0E-5"),
        (1.0 / 3.0, "0.3333333333333333"),
        (100.0, "100.0"),
        (f64::MAX, "1.7976931348623157E308"),
        (-123_456.789, "-123456.789"),
        (f64::NAN, "null"),
    ] {
        assert_eq!(java(&value), text);
    }
}

#[test]
fn texts_are_escaped_as_fastjson_does() {
    let text = "k/ä中\"\\\u{1}\t\u{b}\u{7f}\u{a0}\u{2028}<>&'😀";
    assert_eq!(
        java(&text),
        "\"k/ä中\\\"\\\\\\u0001\\t\\u000B\\u007F\\u00A0\\u2028<>&'😀\""
    );
    assert_eq!(
        strict(&text),
        "\"k\\/\\u00E4\\u4E2D\\\"\\\\\\u0001\\t\\u000B\\u007F\\u00A0\\u2028<>&'\\uD83D\\uDE00\""
    );
    assert_eq!(read::<String>(&java(&text)), text);
    assert_eq!(read::<String>(&strict(&text)), text);
}

#[test]
fn map_keys_are_bare_in_javas_shape_and_quoted_in_the_strict_one() {
    let numbers = BTreeMap::from([(10, "x"), (2, "y")]);
    assert_eq!(java(&numbers), r#"{2:"y",10:"x"}"#);
    assert_eq!(strict(&numbers), r#"{"2":"y","10":"x"}"#);
    let objects = BTreeMap::from([(queue(0), 5)]);
    assert_eq!(
        java(&objects),
        r#"{{"brokerName":"b","queueId":0,"topic":"t"}:5}"#
    );
    assert_eq!(
        strict(&objects),
        r#"{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}":5}"#
    );
    let nulls = BTreeMap::from([("a", None), ("b", Some(1)), ("c", None)]);
    assert_eq!(java(&nulls), r#"{"b":1}"#);
}

#[test]
fn lists_keep_nulls_and_empty_collections_are_written() {
    assert_eq!(java(&[Some(1), None]), "[1,null]");
    assert_eq!(java(&Vec::<i32>::new()), "[]");
    assert_eq!(java(&BTreeMap::<String, i32>::new()), "{}");
    assert_eq!(pretty(&BTreeMap::<String, i32>::new()), "{}");
}

#[test]
fn the_pretty_shape_breaks_lines_before_text_keys_only() {
    let table = BTreeMap::from([
        ("t@g", BTreeMap::from([(0, 10), (1, 20)])),
        ("u@g", BTreeMap::from([(0, 251)])),
    ]);
    assert_eq!(
        pretty(&table),
        "{\n\t\"t@g\":{0:10,1:20\n\t},\n\t\"u@g\":{0:251\n\t}\n}"
    );
}

#[test]
fn scalars_are_converted_to_what_the_field_asks_for() {
    let sample: Sample = read(r#"{"zebra":"12","apple":5,"rate":"1.5","order":"TRUE","longNumber":3.0}"#);
    assert_eq!(
        sample,
        Sample {
            zebra: 12,
            apple: Some("5".into()),
            rate: 1.5,
            order: true,
            long_number: 3
        }
    );
    assert_eq!(read::<i32>(" 5L "), 5);
    assert_eq!(read::<i64>("+5"), 5);
    assert_eq!(read::<f64>("1e3"), 1000.0);
    assert_eq!(read::<i64>(&i64::MIN.to_string()), i64::MIN);
    assert_eq!(read::<i32>("01"), 1);
}

#[test]
fn names_match_without_case_dashes_and_is() {
    for text in [
        "{\"longNumber\":5}",
        "{'LONG_NUMBER':5}",
        "{long-number:5}",
        "{\"longnumber\":'5',}",
        "{,\"zz\":{\"a\":[1,,2]},,\"longNumber\":5}",
        "\u{feff}{\"longNumber\":5}\0",
        "{\"longNumber\":4,\"longNumber\":5}",
        "{\"longNumber\":5,\"zebra\":null,\"apple\":null,\"rate\":NaN}",
    ] {
        let sample: Sample = read(text);
        assert_eq!(
            sample,
            Sample {
                long_number: 5,
                ..Sample::default()
            },
            "{text}"
        );
    }
    assert!(read::<Sample>("{\"isOrder\":true}").order);
    assert!(read::<Sample>("{\"order\":true}").order);
}

#[test]
fn both_forms_of_map_keys_are_read() {
    let numbers = BTreeMap::from([(0, "a".to_owned()), (1, "b".to_owned())]);
    for text in [r#"{0:"a",1:"b"}"#, r#"{"0":"a","1":"b"}"#, "{'0':'a' , 1 : 'b'}"] {
        assert_eq!(read::<BTreeMap<i64, String>>(text), numbers, "{text}");
    }
    let objects = BTreeMap::from([(queue(1), 5)]);
    for text in [
        r#"{{"brokerName":"b","queueId":1,"topic":"t"}:5}"#,
        r#"{"{\"brokerName\":\"b\",\"queueId\":1,\"topic\":\"t\"}":5}"#,
        r#"{{"topic":"t","queueId":"1","brokerName":"b"}:"5"}"#,
    ] {
        assert_eq!(read::<BTreeMap<MessageQueue, i64>>(text), objects, "{text}");
    }
}

#[test]
fn escapes_are_read_as_fastjson_reads_them() {
    assert_eq!(read::<String>(r#""\x41\v\/\'\"\u4e2d""#), "A\u{b}/'\"中");
    assert_eq!(read::<String>(r#""\ud83d\ude00""#), "😀");
    assert_eq!(read::<String>(r#""\ud83d!""#), "\u{fffd}!");
    assert_eq!(read::<String>("'a\nb\"c'"), "a\nb\"c");
    assert_eq!(from_slice::<String>(b"\"\xff\"").unwrap(), "\u{fffd}");
}

#[test]
fn an_error_names_field_and_byte() {
    assert_eq!(
        refused::<Sample>(r#"{"zebra":"x"}"#),
        "json: zebra: `x` is not a whole number at byte 9"
    );
    assert_eq!(
        refused::<BTreeMap<String, Sample>>(r#"{"k":{"rate":[]}}"#),
        "json: k.rate: a list is not a number at byte 13"
    );
    assert_eq!(
        refused::<MessageQueue>(r#" {"topic":"t"}"#),
        "json: missing field `brokerName` at byte 1"
    );
    assert_eq!(
        refused::<i32>("5000000000"),
        "json: 5000000000 is not a number of type i32 at byte 0"
    );
    assert_eq!(
        refused::<Sample>("{\"zebra\" 1}"),
        "json: a colon is missing at byte 9"
    );
}

#[test]
fn what_is_not_a_document_is_refused() {
    let deep = "[".repeat(100_000);
    let deep_objects = "{".repeat(100_000);
    for text in [
        "",
        " ",
        "{",
        "[",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1]",
        "{\"a\":1}x",
        "{\"a\":1 \"b\":2}",
        "[1 2]",
        "'",
        "\"a",
        "\"\\",
        "\"\\q\"",
        "\"\\u12\"",
        "\"\\u\u{e4}\u{e4}\"",
        "\"\\xé\"",
        "tru",
        "{:1}",
        "{\"a\":tru}",
        "1.2.3",
        "--1",
        "-",
        "}",
        "]",
        ",",
        &deep,
        &deep_objects,
    ] {
        let error = from_slice::<serde::de::IgnoredAny>(text.as_bytes())
            .expect_err(text)
            .to_string();
        assert!(error.contains("at byte"), "{error}");
    }
    // 64 levels are enough for every body and are read.
    let fine = format!("{}{}", "[".repeat(64), "]".repeat(64));
    read::<serde::de::IgnoredAny>(&fine);
}

#[test]
fn a_header_is_read_with_javas_leniency() {
    let whole = header(
        br#"{"code":105,"extFields":{"topic":"t1","n":5,"b":true,"z":null,"o":{"x":[1]}},"flag":0,"language":"GO","opaque":7,"remark":"r\u0001","serializeTypeCurrentRPC":"JSON","version":479}"#,
    )
    .unwrap();
    assert_eq!(
        (whole.code, whole.flag, whole.opaque, whole.version),
        (105, 0, 7, 479)
    );
    assert_eq!(whole.language, Some(Language::Go));
    assert_eq!(whole.remark.as_deref(), Some("r\u{1}"));
    let fields: Vec<_> = whole.ext_fields.iter().collect();
    assert_eq!(
        fields,
        [("topic", "t1"), ("n", "5"), ("b", "true"), ("o", "{\"x\":[1]}")]
    );

    let bare = header(b"{code:'34',zz:[{}],extFields:null}").unwrap();
    assert_eq!((bare.code, bare.opaque, bare.version), (34, 0, 0));
    assert_eq!(
        (bare.language, bare.remark, bare.ext_fields.len()),
        (None, None, 0)
    );
    assert_eq!(header(b"{\"language\":9}").unwrap().language, Some(Language::Go));
    assert_eq!(
        header(b"{\"language\":\"9\"}").unwrap().language,
        Some(Language::Go)
    );
    assert_eq!(header(b"{\"language\":\"COBOL\"}").unwrap().language, None);
    assert_eq!(header(b"{\"ext_fields\":{'a':'b'},\"Code\":3}").unwrap().code, 3);
}

type Everything = (Sample, BTreeMap<i64, String>, BTreeMap<MessageQueue, i64>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_text_survives_both_shapes(text in any::<String>()) {
        prop_assert_eq!(&read::<String>(&java(&text)), &text);
        prop_assert_eq!(&read::<String>(&strict(&text)), &text);
        // Both shapes are standard JSON as far as texts go.
        prop_assert_eq!(&serde_json::from_str::<String>(&java(&text)).unwrap(), &text);
        prop_assert_eq!(&serde_json::from_str::<String>(&strict(&text)).unwrap(), &text);
        let mut out = BytesMut::new();
        write_string(&mut out, &text);
        prop_assert_eq!(out.to_vec(), to_vec(&text));
    }

    #[test]
    fn every_value_survives_every_shape(
        sample in (any::<i32>(), any::<Option<String>>(), any::<f64>(), any::<bool>(), any::<i64>()),
        keys in proptest::collection::btree_map(any::<i64>(), ".*", 0..5),
        ids in proptest::collection::btree_map(any::<i32>().prop_map(queue), any::<i64>(), 0..5),
    ) {
        let (zebra, apple, rate, order, long_number) = sample;
        prop_assume!(rate.is_finite());
        let sample = Sample { zebra, apple, rate, order, long_number };
        let value = BTreeMap::from([("k".to_owned(), (sample, keys, ids))]);
        for text in [to_vec(&value), to_vec_strict(&value), to_vec_pretty(&value)] {
            let back: BTreeMap<String, Everything> =
                from_slice(&text).unwrap();
            prop_assert_eq!(&back, &value);
        }
    }

    #[test]
    fn doubles_read_back_exactly(value in any::<f64>()) {
        prop_assume!(value.is_finite());
        prop_assert_eq!(java(&value).parse::<f64>().unwrap(), value);
    }

    #[test]
    fn standard_json_is_read_as_serde_json_reads_it(text in "[\\[\\]{}:,\"0-9a-c.eE+ -]{0,40}") {
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text)
            && let Ok(ours) = from_slice::<serde_json::Value>(text.as_bytes())
        {
            prop_assert_eq!(plain(ours), plain(without_nulls(value)));
        }
    }
}

/// Java reads `-0` as the integer 0, serde_json as the double -0.0.
fn plain(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => 0.into(),
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (key, plain(value)))
            .collect(),
        other => other,
    }
}

fn without_nulls(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Array(items) => items
            .into_iter()
            .filter(|v| !v.is_null())
            .map(without_nulls)
            .collect(),
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k, without_nulls(v)))
            .collect(),
        other => other,
    }
}
