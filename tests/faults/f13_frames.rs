//! F13: frames that no peer should send, at every port of both roles.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Plan;
use super::dice::Dice;
use super::line::{Line, percentile};
use super::server::{Server, Site, Target, rss_mib};
use super::support::process::Process;
use super::support::{local, ports, rmq, scratch};
use super::wire::{Wire, frame};

/// Every code that either role knows, and some that none does.
const CODES: &[i32] = &[
    0,
    10,
    11,
    12,
    13,
    14,
    15,
    17,
    18,
    21,
    22,
    25,
    26,
    28,
    29,
    30,
    31,
    32,
    33,
    34,
    35,
    36,
    37,
    38,
    39,
    40,
    41,
    42,
    43,
    45,
    46,
    61,
    100,
    101,
    102,
    103,
    104,
    105,
    106,
    200,
    201,
    202,
    203,
    204,
    205,
    206,
    207,
    208,
    211,
    212,
    213,
    215,
    216,
    219,
    220,
    221,
    222,
    223,
    224,
    225,
    226,
    230,
    234,
    300,
    301,
    303,
    304,
    305,
    306,
    307,
    308,
    309,
    310,
    311,
    312,
    313,
    314,
    315,
    316,
    317,
    318,
    319,
    320,
    321,
    322,
    323,
    324,
    325,
    326,
    327,
    328,
    329,
    343,
    345,
    351,
    352,
    353,
    361,
    370,
    399,
    400,
    401,
    402,
    513,
    514,
    901,
    902,
    903,
    904,
    905,
    906,
    907,
    1001,
    1005,
    2001,
    3001,
    200_050,
    200_051,
    200_070,
    -1,
    i32::MAX,
    i32::MIN,
];

const NAMES: &[&str] = &[
    "topic",
    "queueId",
    "offset",
    "group",
    "consumerGroup",
    "producerGroup",
    "maxMsgNums",
    "queueOffset",
    "sysFlag",
    "commitOffset",
    "suspendTimeoutMillis",
    "subscription",
    "expressionType",
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "i",
    "j",
    "k",
    "l",
    "m",
    "key",
    "maxNum",
    "beginTimestamp",
    "endTimestamp",
    "timestamp",
    "brokerName",
    "brokerAddr",
    "clusterName",
    "haServerAddr",
    "brokerId",
    "bodyCrc32",
    "compressed",
    "namespace",
    "value",
    "properties",
    "bornTimestamp",
    "batch",
    "defaultTopic",
    "clientID",
    "attributes",
    "index",
    "count",
    "boundaryType",
    "msgId",
    "isForce",
    "lo",
    "lockOwner",
];

pub fn run(plan: &Plan) -> Result<Vec<Line>, String> {
    let seeds = plan.rounds(3, 10) as u64;
    let frames = if plan.long { 3_000 } else { 700 };
    let dir = scratch();
    let ports = ports::Block::take();
    let mut lines = Vec::new();
    {
        let site = Site::new(dir.path(), ports.broker());
        let mut server = Server::start(&plan.target, &site).expect("a broker starts");
        // The port for replicas is fuzzed from the day it is there.
        let all = [ports.broker(), ports.broker() - 2, ports.broker() + 1];
        let open: Vec<u16> = all
            .into_iter()
            .filter(|port| TcpStream::connect(local(*port)).is_ok())
            .collect();
        lines.push(hurt(
            plan,
            "broker",
            &mut server.process,
            &open,
            28,
            seeds,
            frames,
        ));
    }
    let mut process = match &plan.target {
        Target::Java(peers) => peers.namesrv(dir.path(), ports.namesrv()),
        Target::Rmq => rmq::namesrv(dir.path(), ports.namesrv()).process,
        Target::Command(_) => return Ok(lines),
    };
    lines.push(hurt(
        plan,
        "namesrv",
        &mut process,
        &[ports.namesrv()],
        106,
        seeds,
        frames,
    ));
    Ok(lines)
}

fn hurt(
    plan: &Plan,
    role: &str,
    process: &mut Process,
    ports: &[u16],
    control: i32,
    seeds: u64,
    frames: usize,
) -> Line {
    // What the first requests bring into memory is no growth.
    one_seed(&mut Dice::new(plan.seed, 999), ports, 200);
    let before = rss_mib(process.pid());
    let stop = Arc::new(AtomicBool::new(false));
    let controller = {
        let (stop, address) = (Arc::clone(&stop), local(ports[0]));
        std::thread::spawn(move || control_times(&address, control, &stop))
    };
    let mut answered = 0;
    for seed in plan.seed..plan.seed + seeds {
        answered += one_seed(&mut Dice::new(seed, 13), ports, frames);
    }
    stop.store(true, Ordering::SeqCst);
    let (mut took, failures) = controller.join().expect("the controller does not panic");
    let growth = (rss_mib(process.pid()) - before).max(0.0);
    let crashes = u64::from(!process.is_running());
    let panics = process.output().matches("panicked at").count() as u64;
    Line::new("F13", plan.seed)
        .figure("server", plan.target.name())
        .figure("role", role)
        .figure("ports", ports.len())
        .figure("seeds", seeds)
        .figure("frames", seeds as usize * frames)
        .figure("answered_bytes", answered)
        .none("crashes", crashes)
        .none("panics", panics)
        .bar("rss_growth_mib", format!("{growth:.1}"), growth < 64.0)
        .none("control_failures", failures)
        .figure("control_p99_ms", format!("{:.1}", percentile(&mut took, 0.99)))
}

/// Asks something harmless every few milliseconds; times in ms and how often there was no answer.
fn control_times(address: &str, code: i32, stop: &AtomicBool) -> (Vec<f64>, u64) {
    let (mut took, mut failures) = (Vec::new(), 0);
    let mut wire = Wire::connect(address, Duration::from_secs(10)).ok();
    while !stop.load(Ordering::SeqCst) {
        let begin = Instant::now();
        let answer = wire
            .as_mut()
            .map(|wire| wire.call(code, &serde_json::json!({}), b""));
        match answer {
            Some(Ok(answer)) if answer.code == 0 => took.push(begin.elapsed().as_secs_f64() * 1000.0),
            _ => {
                failures += 1;
                wire = Wire::connect(address, Duration::from_secs(10)).ok();
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    (took, failures)
}

/// Sends `count` frames over connections of a few frames each; how many bytes came back.
fn one_seed(dice: &mut Dice, ports: &[u16], count: usize) -> usize {
    let mut answered = 0;
    let mut left = count;
    while left > 0 {
        let port = *dice.pick(ports);
        let Ok(mut stream) = TcpStream::connect(local(port)) else {
            left -= 1;
            continue;
        };
        let _ = stream.set_write_timeout(Some(Duration::from_secs(2)));
        let _ = stream.set_read_timeout(Some(Duration::from_millis(2)));
        let mut buffer = [0; 16 * 1024];
        for _ in 0..dice.within(1, 12).min(left as u64) {
            left -= 1;
            let mut bytes = one_frame(dice);
            if dice.chance(5) {
                let cut = dice.within(0, bytes.len() as u64 + 1) as usize;
                bytes.truncate(cut);
            }
            if stream.write_all(&bytes).is_err() {
                break;
            }
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => answered += n,
                Err(_) => {}
            }
        }
    }
    answered
}

fn one_frame(dice: &mut Dice) -> Vec<u8> {
    let size = dice.within(0, 300) as usize;
    match dice.within(0, 10) {
        0 => dice.bytes(size),
        1 => {
            // Lengths that lie.
            let len = *dice.pick(&[
                0,
                1,
                3,
                4,
                5,
                0x7FFF_FFFF,
                0x8000_0000,
                0xFFFF_FFFF,
                0x0100_0001,
                1 << 20,
            ]);
            let header = *dice.pick(&[0, 1, 0xFF, 0x00FF_FFFF, 0x01FF_FFFF, 0xFFFF_FFFF, 0x0100_0000]);
            let mut out = u32::to_be_bytes(len).to_vec();
            out.extend(u32::to_be_bytes(header));
            out.extend(dice.bytes(size));
            out
        }
        2 => frame(&dice.bytes(size), 0, b""),
        3 => {
            let bytes = dice.bytes(size);
            let kind = dice.next() as u8;
            frame(&header(dice), kind, &bytes)
        }
        4 => {
            // The compact header: code, language, version, opaque, flag, remark, fields.
            let mut out = Vec::new();
            out.extend((*dice.pick(CODES) as i16).to_be_bytes());
            let fixed = dice.bytes(3 + 8);
            out.extend(fixed);
            let lie = dice.chance(40);
            for part in 0..2 {
                let bytes = dice.bytes(size % 60);
                let len = if lie {
                    dice.next() as u32
                } else {
                    bytes.len() as u32 * part
                };
                out.extend(len.to_be_bytes());
                if part == 1 {
                    out.extend(bytes);
                }
            }
            frame(&out, 1, b"body")
        }
        5 => {
            let mut text = header(dice);
            match dice.within(0, 5) {
                0 => text.truncate(size.min(text.len())),
                1 => {
                    let at = dice.next() as usize % text.len();
                    text[at] ^= 1 << dice.within(0, 8);
                }
                2 => text = "[".repeat(size * 40).into_bytes(),
                3 => text = format!("{{\"code\":{}}}", "9".repeat(size + 1)).into_bytes(),
                _ => text.extend(b",,{}"),
            }
            frame(&text, 0, b"")
        }
        6 => frame(&header(dice), 0, &body(dice)).repeat(3),
        _ => frame(&header(dice), 0, &body(dice)),
    }
}

/// A header that parses, with a code that exists and fields that may not make sense.
fn header(dice: &mut Dice) -> Vec<u8> {
    let mut fields = serde_json::Map::new();
    for _ in 0..dice.within(0, 12) {
        let name = if dice.chance(95) {
            (*dice.pick(NAMES)).to_owned()
        } else {
            "x".repeat(300)
        };
        let value = match dice.within(0, 10) {
            0 => "-1".to_owned(),
            1 => "9223372036854775807".to_owned(),
            2 => "-9223372036854775808".to_owned(),
            3 => String::new(),
            4 => "../../etc/passwd".to_owned(),
            5 => format!("fuzz-{}", dice.within(0, 20)),
            6 => "\u{1}\u{2}\u{0}\u{FFFF}".repeat(8),
            7 => "true".to_owned(),
            8 => dice.within(0, 64).to_string(),
            _ => "T".repeat(dice.within(0, 400) as usize),
        };
        fields.insert(name, value.into());
    }
    let flag = *dice.pick(&[0, 0, 0, 0, 0, 1, 2, 3, -1]);
    let mut value = serde_json::json!({
        "code": *dice.pick(CODES), "language": "JAVA", "version": dice.within(0, 600), "opaque": dice.next() as i32,
        "flag": flag, "extFields": fields, "serializeTypeCurrentRPC": "JSON",
    });
    if dice.chance(10) {
        let name = *dice.pick(&["code", "language", "version", "opaque", "flag", "extFields"]);
        value[name] = dice
            .pick(&[
                serde_json::Value::Null,
                "x".into(),
                serde_json::json!([1, {}]),
                1e300.into(),
            ])
            .clone();
    }
    value.to_string().into_bytes()
}

fn body(dice: &mut Dice) -> Vec<u8> {
    let size = dice.within(0, 2000) as usize;
    match dice.within(0, 6) {
        0 => Vec::new(),
        1 => dice.bytes(size),
        2 => b"{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"g\",\"subscriptionDataSet\":[{}]}]}"
            .to_vec(),
        3 => b"{\"topicConfigTable\":{\"t\":null},\"dataVersion\":{\"counter\":\"x\"}}".to_vec(),
        4 => "{\"a\":".repeat(size).into_bytes(),
        _ => vec![0xFF; size],
    }
}
