//! Fills a store directory with many small messages, past the network, for benchmarks of big backlogs.
//!
//! ```text
//! cargo run --release --example store_load -- DIR --messages 100000000 --body 16 --topics 4 --queues 8
//! ```
//!
//! Messages are appended in batches through `MessageStore::append_batch`, round robin over topics and queues, so
//! queues and index are built as a broker builds them. With `--kill` the store is left as a killed process leaves it.
//! With `--sparse N` an empty store first gets N segments that hold one record and a filler each, and are holes else.

#![allow(clippy::print_stdout)]

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::protocol::message::{MAGIC_BLANK, NewMessage, Stamp};
use rmq::protocol::model::SysFlag;
use rmq::store::{AppendError, MessageStore, StoreConfig};

struct Args {
    dir: PathBuf,
    messages: u64,
    body: usize,
    topics: u64,
    queues: u64,
    batch: u64,
    segment: u64,
    keys: bool,
    kill: bool,
    sparse: u64,
}

fn args() -> Result<Args, String> {
    let mut words = std::env::args().skip(1);
    let mut out = Args {
        dir: PathBuf::new(),
        messages: 1_000_000,
        body: 100,
        topics: 1,
        queues: 8,
        batch: 32,
        segment: 1 << 30,
        keys: false,
        kill: false,
        sparse: 0,
    };
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, String> {
            let text = words.next().ok_or_else(|| format!("{word} needs a number"))?;
            text.parse().map_err(|_| format!("{text} is no number"))
        };
        match word.as_str() {
            "--messages" => out.messages = number()?,
            "--body" => out.body = usize::try_from(number()?).map_err(|e| e.to_string())?,
            "--topics" => out.topics = number()?.max(1),
            "--queues" => out.queues = number()?.max(1),
            "--batch" => out.batch = number()?.max(1),
            "--sparse" => out.sparse = number()?,
            "--segment" => out.segment = number()?,
            "--keys" => out.keys = true,
            "--kill" => out.kill = true,
            dir => out.dir = dir.into(),
        }
    }
    if out.dir.as_os_str().is_empty() {
        return Err(
            "usage: store_load DIR [--messages N] [--body BYTES] [--topics N] [--queues N] [--batch N] \
                    [--segment BYTES] [--keys] [--kill] [--sparse N]"
                .into(),
        );
    }
    Ok(out)
}

/// Writes segments of one record each, and their queue.
fn write_sparse(args: &Args) -> std::io::Result<()> {
    let (log, queue) = (args.dir.join("commitlog"), args.dir.join("consumequeue/sparse/0"));
    std::fs::create_dir_all(&log)?;
    std::fs::create_dir_all(&queue)?;
    let mut entries = Vec::new();
    for n in 0..args.sparse {
        let base = n * args.segment;
        let stamp = Stamp {
            queue_offset: n as i64,
            physical_offset: base as i64,
            store_timestamp: 1_700_000_000_000 + n as i64,
        };
        let message = message("sparse", 0, Bytes::from_static(b"one"), String::new());
        let record = message.to_vec(stamp).map_err(std::io::Error::other)?;
        let file = std::fs::File::create(log.join(format!("{base:020}")))?;
        file.set_len(args.segment)?;
        file.write_all_at(&record, 0)?;
        let left = (args.segment - record.len() as u64) as u32;
        file.write_all_at(&left.to_be_bytes(), record.len() as u64)?;
        file.write_all_at(&MAGIC_BLANK.to_be_bytes(), record.len() as u64 + 4)?;
        entries.extend(base.to_be_bytes());
        entries.extend((record.len() as u32).to_be_bytes());
        entries.extend(0u64.to_be_bytes());
    }
    let file = std::fs::File::create(queue.join(format!("{:020}", 0)))?;
    file.set_len(6_000_000)?;
    file.write_all_at(&entries, 0)
}

fn message(topic: &str, queue_id: i32, body: Bytes, properties: String) -> NewMessage {
    let host = ([127, 0, 0, 1], 10911).into();
    NewMessage {
        topic: topic.to_owned(),
        queue_id,
        flag: 0,
        sys_flag: SysFlag(0),
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = args()?;
    if args.sparse > 0 {
        write_sparse(&args)?;
    }
    let store = MessageStore::open(StoreConfig {
        store_path_root_dir: args.dir.clone(),
        mapped_file_size_commit_log: args.segment,
        message_index_enable: args.keys,
        ..StoreConfig::default()
    })?;
    // Random bytes, so that nothing below the file system can make them smaller.
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut bytes = Vec::with_capacity(args.body + 8);
    while bytes.len() < args.body {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bytes.extend(seed.to_be_bytes());
    }
    bytes.truncate(args.body);
    let body = Bytes::from(bytes);
    let begun = Instant::now();
    let (mut sent, mut turn) = (0u64, 0u64);
    while sent < args.messages {
        let (topic, queue) = (turn / args.queues % args.topics, turn % args.queues);
        let count = args.batch.min(args.messages - sent);
        let batch: Vec<NewMessage> = (0..count)
            .map(|n| {
                let properties = if args.keys {
                    format!("KEYS\u{1}k{}\u{2}", sent + n)
                } else {
                    String::new()
                };
                message(&format!("load{topic}"), queue as i32, body.clone(), properties)
            })
            .collect();
        loop {
            match store.append_batch(&batch) {
                Ok(_) => break,
                Err(AppendError::Busy) => std::thread::sleep(Duration::from_millis(1)),
                Err(e) => return Err(e.into()),
            }
        }
        sent += count;
        turn += 1;
        // The build thread is slower than this one; what it has not read yet must stay in memory.
        if turn % 1024 == 0 {
            while store.figures().dispatch_behind_bytes > 64 << 20 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let appended = begun.elapsed().as_secs_f64();
    let end = store.figures().max_offset;
    println!("appended {sent} messages, {end} bytes of log in {appended:.1} s");
    while store.figures().dispatch_behind_bytes > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("dispatched after {:.1} s", begun.elapsed().as_secs_f64());
    if args.kill {
        // As after kill -9: no close, no Drop.
        std::process::exit(0);
    }
    let begun = Instant::now();
    store.close()?;
    println!("closed in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}
