//! The README's list of requests that are answered "not supported" is true for every request of mqadmin 5.3.3.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::ports::Block;
use crate::support::{local, rmq, scratch, wire};

const NOT_SUPPORTED: i64 = 3;
/// What mqadmin asks of name servers.
const OF_NAME_SERVERS: &[i32] = &[100, 101, 102, 105, 106, 205, 206, 216, 318, 319, 327];
/// What it asks of brokers, containers and controllers: it finds all of them at a broker's address.
const OF_BROKERS: &[i32] = &[
    11, 12, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 33, 34, 35, 38, 200, 201, 202, 203, 204, 207, 208, 215,
    222, 223, 225, 300, 305, 306, 307, 309, 310, 315, 316, 317, 321, 328, 329, 351, 354, 355, 401, 513, 902,
    903, 907, 908, 1002, 1005, 1006, 1007, 1009, 1010, 1011, 2001, 2002, 2003, 2004, 3001, 3002, 3003, 3004,
    3005, 3006, 3007, 3008, 3009, 3010, 200056,
];

/// The codes of the README's section, its ranges written out.
fn listed() -> BTreeSet<i32> {
    let readme = include_str!("../../../README.md");
    let section = readme
        .split("### Requests that are answered \"not supported\"")
        .nth(1)
        .expect("the section");
    let lists: String = section
        .lines()
        .skip_while(|l| !l.starts_with('-'))
        .take_while(|l| !l.is_empty())
        .collect();
    let words: Vec<&str> = lists
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect();
    let mut codes = BTreeSet::new();
    for (i, word) in words.iter().enumerate() {
        let Ok(code) = word.parse::<i32>() else { continue };
        let from = i.checked_sub(2).and_then(|j| words[j].parse::<i32>().ok());
        match from {
            Some(from) if words[i - 1] == "to" => codes.extend(from..=code),
            _ => {
                codes.insert(code);
            }
        }
    }
    codes
}

#[test]
fn the_readme_lists_what_is_not_supported() {
    let (dir, ports) = (scratch(), Block::take());
    let _servers = rmq::standalone(dir.path(), ports.namesrv(), ports.broker(), &[]);
    let refuses = |addr: &str, code: i32| {
        let answer = wire::ask(addr, code, json!({})).unwrap_or_else(|e| panic!("code {code}: {e}"));
        answer.code == NOT_SUPPORTED
    };
    let wrong: Vec<&i32> = OF_NAME_SERVERS
        .iter()
        .filter(|code| refuses(&local(ports.namesrv()), **code))
        .collect();
    assert!(wrong.is_empty(), "the name server does not know {wrong:?}");
    let refused: BTreeSet<i32> = OF_BROKERS
        .iter()
        .copied()
        .filter(|code| refuses(&local(ports.broker()), *code))
        .collect();
    let told: BTreeSet<i32> = listed()
        .into_iter()
        .filter(|code| OF_BROKERS.contains(code))
        .collect();
    assert_eq!(refused, told);
    let silent: Vec<i32> = listed()
        .into_iter()
        .filter(|code| !refuses(&local(ports.broker()), *code))
        .collect();
    assert!(
        silent.is_empty(),
        "the README lists {silent:?}, which the broker answers"
    );
}
