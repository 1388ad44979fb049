use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A record as a Java broker returned it, head and body; the properties were not captured, so any 167 bytes stand
/// in for them.
fn captured() -> Vec<u8> {
    let mut record = hex(
        "0000010F daa320a7 3610a686 00000000 00000000 0000000000000000 0000000000000000 00000000 000001a2285d9cfe
         7f000001 0000ed10 000001a2285d9e5c 7f000001 000093b3 00000000 0000000000000000 00000005 68656c6c6f
         08 70726f746f5f7431 00a7",
    );
    record.extend_from_slice(b"MSG_REGION\x01DefaultRegion\x02pad\x01");
    record.resize(0x10F - 1, b'x');
    record.push(2);
    record
}

fn message() -> NewMessage {
    NewMessage {
        topic: "proto_t1".into(),
        queue_id: 0,
        flag: 0,
        sys_flag: SysFlag(0),
        born_timestamp: 0x01a2_285d_9cfe,
        born_host: "127.0.0.1:60688".parse().unwrap(),
        store_host: "127.0.0.1:37811".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: "hello".into(),
        properties: String::from_utf8(captured()[104..].to_vec()).unwrap(),
    }
}

#[test]
fn the_captured_record_reads_and_writes() {
    let record = captured();
    let view = MessageView::parse_checked(&record).unwrap();
    assert_eq!((view.topic(), view.body()), ("proto_t1", &b"hello"[..]));
    assert_eq!(view.born_host(), "127.0.0.1:60688".parse().unwrap());
    assert_eq!(view.store_host(), "127.0.0.1:37811".parse().unwrap());
    assert_eq!(view.store_timestamp(), 0x01a2_285d_9e5c);
    assert_eq!(view.properties().get("MSG_REGION"), Some("DefaultRegion"));
    assert_eq!(view.offset_id(), "7F000001000093B30000000000000000");
    let stamp = Stamp {
        queue_offset: 0,
        physical_offset: 0,
        store_timestamp: 0x01a2_285d_9e5c,
    };
    assert_eq!(message().to_vec(stamp).unwrap(), record);
}

#[test]
fn sizes_follow_hosts_and_topic_length() {
    let (v4, v6): (SocketAddr, SocketAddr) = (
        "10.0.0.1:1".parse().unwrap(),
        "[2001:db8::1]:65535".parse().unwrap(),
    );
    let size = |born, store, topic: usize| {
        let mut m = message();
        (m.born_host, m.store_host) = (born, store);
        m.topic = "t".repeat(topic);
        m.body = Bytes::new();
        m.properties.clear();
        m.measure().unwrap().len - topic
    };
    assert_eq!(size(v4, v4, 127), 91);
    assert_eq!(size(v6, v4, 127), 103);
    assert_eq!(size(v6, v6, 127), 115);
    assert_eq!(size(v4, v4, 128), 92);
}

#[test]
fn lengths_that_do_not_fit_the_layout_are_refused() {
    let mut m = message();
    m.properties = "p".repeat(MAX_PROPERTIES + 1);
    assert!(m.measure().is_err());
    m.properties.pop();
    assert!(m.measure().is_ok());
    m.topic.clear();
    assert!(m.measure().is_err());
}

#[test]
fn every_cut_and_every_zeroed_tail_is_noticed() {
    let mut m = message();
    for properties in [m.properties.clone(), String::new()] {
        m.properties = properties;
        let stamp = Stamp {
            queue_offset: 1,
            physical_offset: 2,
            store_timestamp: 3,
        };
        let record = m.to_vec(stamp).unwrap();
        for cut in 0..record.len() {
            assert!(MessageView::parse(&record[..cut]).is_err());
            let mut zeroed = record.clone();
            zeroed[cut..].fill(0);
            assert_eq!(
                MessageView::parse_checked(&zeroed).is_ok(),
                zeroed == record,
                "zeroed from {cut}"
            );
        }
        let mut flipped = record.clone();
        flipped[89] ^= 1;
        assert!(matches!(
            MessageView::parse_checked(&flipped),
            Err(Fault::BodyCrc { .. })
        ));
    }
}

#[test]
fn a_filler_is_told_from_a_record() {
    let mut rest = vec![9u8; 30];
    encode_blank(&mut rest);
    assert_eq!(rest[..8], hex("0000001E CBD43194"));
    assert_eq!(rest[8..], [9; 22]);
    assert_eq!(peek(&rest), Ok(Peek::Blank));
    assert_eq!(peek(&captured()), Ok(Peek::Message(0x10F)));
    assert!(matches!(peek(&[0; 8]), Err(Fault::Magic(0))));
    assert!(peek(&[0; 7]).is_err());
}

#[test]
fn records_of_an_answer_are_walked_to_the_first_fault() {
    let mut run = captured();
    run.extend(captured());
    run.extend([1, 2, 3]);
    let found: Vec<_> = records(&run).collect();
    assert_eq!(found.len(), 3);
    assert!(found[1].is_ok() && found[2].is_err());
}

fn any_host() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        (any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from),
        (any::<[u8; 16]>(), any::<u16>()).prop_map(SocketAddr::from),
    ]
}

proptest! {
    #[test]
    fn a_record_comes_back_as_it_was(
        topic in "[a-zA-Z0-9_%-]{1,200}",
        numbers in any::<(i32, i32, i32, i64, i32, i64)>(),
        stamp in any::<(i64, i64, i64)>(),
        born_host in any_host(),
        store_host in any_host(),
        body in proptest::collection::vec(any::<u8>(), 0..300),
        properties in "([a-z]{1,9}\u{1}[a-zä€]{1,20}\u{2}){0,9}",
    ) {
        let (queue_id, flag, sys_flag, born_timestamp, reconsume_times, prepared) = numbers;
        let m = NewMessage {
            topic, queue_id, flag, sys_flag: SysFlag(sys_flag), born_timestamp, born_host, store_host,
            reconsume_times, prepared_transaction_offset: prepared, body: body.into(), properties,
        };
        let (queue_offset, physical_offset, store_timestamp) = stamp;
        let record = m.to_vec(Stamp { queue_offset, physical_offset, store_timestamp }).unwrap();
        let view = MessageView::parse_checked(&record).unwrap();
        prop_assert_eq!(view.topic(), &m.topic);
        prop_assert_eq!(view.body(), &m.body);
        prop_assert_eq!(view.properties().as_bytes(), m.properties.as_bytes());
        prop_assert_eq!((view.born_host(), view.store_host()), (born_host, store_host));
        prop_assert_eq!((view.queue_id(), view.flag(), view.born_timestamp()), (queue_id, flag, born_timestamp));
        prop_assert_eq!(view.sys_flag().0 & !0x30, sys_flag & !0x30);
        prop_assert_eq!(view.reconsume_times(), reconsume_times);
        prop_assert_eq!(view.prepared_transaction_offset(), prepared);
        prop_assert_eq!((view.queue_offset(), view.physical_offset(), view.store_timestamp()), stamp);
        prop_assert_eq!(view.size(), record.len());
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = MessageView::parse_checked(&bytes);
    }

    #[test]
    fn a_damaged_record_never_panics(at in 0usize..0x10F, value: u8) {
        let mut record = captured();
        record[at] = value;
        if let Ok(view) = MessageView::parse_checked(&record) {
            let _ = (view.decoded_body(100), view.properties().iter().count(), view.born_host(), view.store_host());
        }
    }
}
