//! Ports nobody else uses: neither another test of this process, nor another test process, nor a connection's
//! local end (which the kernel takes from 32768 on).

use std::fs::File;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u16 = 12_000;
const BLOCK: u16 = 10;
const BLOCKS: u32 = 2_000;

static LOCKS: Mutex<Vec<File>> = Mutex::new(Vec::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Ten consecutive ports, ours until the process ends: a file lock each block keeps other test processes away.
pub struct Block {
    first: u16,
}

impl Block {
    /// Finds and locks a block whose ports can all be bound.
    pub fn take() -> Block {
        let dir = std::env::temp_dir().join("rmq-it-ports");
        std::fs::create_dir_all(&dir).expect("a directory for port locks");
        for _ in 0..BLOCKS {
            // Processes start far apart, so that they rarely ask for the same block.
            let number = (std::process::id() * 37 + NEXT.fetch_add(1, Ordering::Relaxed)) % BLOCKS;
            let first = FIRST + u16::try_from(number).expect("a small number") * BLOCK;
            let Ok(lock) = File::create(dir.join(first.to_string())) else {
                continue;
            };
            if lock.try_lock().is_err() || !(first..first + BLOCK).all(is_free) {
                continue;
            }
            LOCKS.lock().expect("no holder panics").push(lock);
            return Block { first };
        }
        panic!("no ten free ports between {FIRST} and 32000");
    }

    /// A broker's port: the fast one is two below, the replication port one above, both in the block.
    pub fn broker(&self) -> u16 {
        self.first + 2
    }

    /// A name server's port.
    pub fn namesrv(&self) -> u16 {
        self.first + 5
    }

    /// A port nobody listens on.
    pub fn dead(&self) -> u16 {
        self.first + 9
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("0.0.0.0", port)).is_ok()
}
