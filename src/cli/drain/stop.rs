//! Ending the process of a drained broker.
//!
//! RocketMQ has no request that ends a broker (`mqshutdown` kills a process by its id as well). So the process must be
//! one that can be told for certain: on this host, listening on the broker's address, and running `rmq broker start`.
//! It gets SIGTERM, on which it flushes and unregisters.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::super::exit::{self, Failure};
use super::super::session::Session;
use super::super::time;
use crate::client::BrokerAt;

/// Pause between two looks at a process that ends.
const PAUSE: Duration = Duration::from_millis(100);
/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The process of a broker.
#[derive(Debug)]
pub struct Own {
    broker: BrokerAt,
    addr: SocketAddr,
    pid: Pid,
}

impl Own {
    /// The process that listens on a broker's address; anything but an `rmq broker start` of this host is a failure. So is
    /// an address that is reached another way: then the broker is not the process that has it here.
    pub fn find(broker: &BrokerAt, detour: Option<String>) -> Result<Self, Failure> {
        let no = |why: &str| {
            Failure::new(
                exit::PRECONDITION,
                format!(
                    "{} cannot be stopped from here; nothing was changed",
                    broker.server()
                ),
            )
            .because(why.to_owned())
            .hint("drain it without --then-stop and stop it on its host")
        };
        if let Some(way) = detour {
            return Err(no(&format!(
                "It is reached {way}: the process at its own address on this host is another one."
            )));
        }
        let addr: SocketAddr = broker
            .addr
            .parse()
            .map_err(|_| no("Its address is no number: which host that is cannot be told for certain."))?;
        if !is_local(addr.ip()) {
            return Err(no(
                "It is not on this host. No request of RocketMQ ends a broker.",
            ));
        }
        let pid = listener(addr).ok_or_else(|| {
            no("No process of this user listens on its address (this needs Linux's /proc).")
        })?;
        if !is_broker_start(pid) {
            return Err(no(
                "The process that listens there is not run by `rmq broker start`.",
            ));
        }
        Ok(Self {
            broker: broker.clone(),
            addr,
            pid,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Asks it to end and waits until it has. It is looked up again: long ago another process may have taken its place.
    pub async fn end(self, session: &Session, limit: Duration) -> Result<(), Failure> {
        let server = self.broker.server();
        if listener(self.addr) != Some(self.pid) || !is_broker_start(self.pid) {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!(
                    "process {} does not run {server} any more; it was not stopped",
                    self.pid()
                ),
            ));
        }
        kill_process(self.pid, Signal::TERM).map_err(|e| {
            Failure::new(
                exit::REFUSED,
                format!("process {} of {server} cannot be stopped: {e}", self.pid()),
            )
        })?;
        let end = tokio::time::Instant::now() + limit;
        while is_broker_start(self.pid) {
            if tokio::time::Instant::now() >= end {
                return Err(Failure::new(
                    exit::TIMEOUT,
                    format!(
                        "process {} of {server} has not ended after {}",
                        self.pid(),
                        time::duration(limit)
                    ),
                ));
            }
            tokio::time::sleep(PAUSE).await;
        }
        session.talk(&format!("stopped {server}: process {} has ended", self.pid()));
        Ok(())
    }
}

/// True when this host has the address: a socket can be bound to it.
fn is_local(ip: IpAddr) -> bool {
    !ip.is_unspecified() && std::net::UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok()
}

/// The process that listens on an address, where this user may see that.
fn listener(addr: SocketAddr) -> Option<Pid> {
    let mut sockets = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        sockets.extend(listening(&text, addr));
    }
    let wanted: BTreeSet<String> = sockets.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(open) = std::fs::read_dir(entry.path().join("fd")) else {
            continue;
        };
        let holds = open
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| wanted.contains(link)));
        if holds {
            found.insert(pid);
        }
    }
    // One on the address and one on all addresses: which of them is meant cannot be told.
    match found.into_iter().collect::<Vec<_>>().as_slice() {
        [pid] => Pid::from_raw(*pid),
        _ => None,
    }
}

/// Inodes of the sockets that listen on an address, or on its port of all addresses, from the text of `/proc/net/tcp` or
/// `tcp6`.
fn listening(text: &str, addr: SocketAddr) -> BTreeSet<u64> {
    let takes = |ip: IpAddr| {
        let covers = ip.is_unspecified() && (ip.is_ipv6() || addr.is_ipv4());
        covers || ip.to_canonical() == addr.ip().to_canonical()
    };
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (ip, port) = fields.get(1)?.rsplit_once(':')?;
            let is_it = u16::from_str_radix(port, 16).ok()? == addr.port()
                && *fields.get(3)? == LISTENING
                && takes(local(ip)?);
            is_it.then(|| fields.get(9)?.parse().ok()).flatten()
        })
        .collect()
}

/// An address as `/proc/net/tcp` has it: hexadecimal words of 32 bits, each in the byte order of this machine.
fn local(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        u32::from_str_radix(text.get(at..at + 8)?, 16)
            .ok()
            .map(u32::to_ne_bytes)
    };
    match text.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at * 8)?);
            }
            Some(IpAddr::from(bytes))
        }
        _ => None,
    }
}

/// True for a running `rmq broker start`.
fn is_broker_start(pid: Pid) -> bool {
    let dir = format!("/proc/{}", pid.as_raw_nonzero());
    let line = std::fs::read(Path::new(&dir).join("cmdline")).unwrap_or_default();
    runs_broker(&line)
}

fn runs_broker(command_line: &[u8]) -> bool {
    let words: Vec<&[u8]> = command_line.split(|b| *b == 0).collect();
    let program = words
        .first()
        .and_then(|word| std::str::from_utf8(word).ok())
        .and_then(|word| Path::new(word).file_name())
        .is_some_and(|name| name == "rmq");
    program
        && words
            .windows(2)
            .any(|pair| pair == [b"broker".as_slice(), b"start".as_slice()])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux writes it: 10911 is 2A9F.
    #[test]
    fn a_listening_socket_is_found_by_its_port() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:2A9F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0\n   \
             1: 0100007F:2A9F 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0\n   \
             2: 0100007F:2AA0 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0\n";
        let at = |addr: &str| addr.parse::<SocketAddr>().unwrap();
        assert_eq!(listening(text, at("127.0.0.1:10911")), [4711].into());
        assert!(listening(text, at("127.0.0.1:1")).is_empty());
        assert!(listening("", at("127.0.0.1:10911")).is_empty());
    }

    /// The same port of another address is another broker. As Linux writes them on a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn a_socket_of_another_address_is_not_meant() {
        let line = |local: &str, inode: u32| {
            format!(
                "  0: {local}:2A9F 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 {inode} 1 0 100 0\n"
            )
        };
        let at = |addr: &str| addr.parse::<SocketAddr>().unwrap();
        let one = |local: &str, addr: &str| {
            let text = format!("heading\n{}", line(local, 7));
            !listening(&text, at(addr)).is_empty()
        };
        assert!(one("0100007F", "127.0.0.1:10911"));
        assert!(!one("0200007F", "127.0.0.1:10911"));
        assert!(one("00000000", "127.0.0.2:10911"));
        let (any, mapped, own) = (
            "00000000000000000000000000000000",
            "0000000000000000FFFF00000100007F",
            "00000000000000000000000001000000",
        );
        assert!(one(any, "127.0.0.1:10911") && one(any, "[::1]:10911"));
        assert!(one(mapped, "127.0.0.1:10911") && !one(mapped, "127.0.0.2:10911"));
        assert!(one(own, "[::1]:10911") && !one(own, "[::2]:10911"));
        assert!(!one("00000000", "[::1]:10911"));
        assert!(!one("zz", "127.0.0.1:10911"));
    }

    #[test]
    fn a_broker_behind_an_address_map_is_not_stopped() {
        let broker = BrokerAt {
            id: crate::client::snapshot::BrokerId {
                cluster: "c".into(),
                name: "b".into(),
                id: 0,
            },
            addr: "127.0.0.1:10911".into(),
        };
        let refused = Own::find(&broker, Some("10.0.0.1:10911".into())).unwrap_err();
        assert_eq!(refused.exit, exit::PRECONDITION);
        assert!(refused.why.unwrap().contains("10.0.0.1:10911"));
    }

    #[test]
    fn only_an_rmq_that_runs_a_broker_is_meant() {
        assert!(runs_broker(b"/opt/rmq\0broker\0start\0-c\0b.conf\0"));
        assert!(runs_broker(b"rmq\0-v\0broker\0start\0"));
        assert!(!runs_broker(b"/opt/rmq\0standalone\0"));
        assert!(!runs_broker(b"/usr/bin/java\0broker\0start\0"));
        assert!(!runs_broker(b""));
    }
}
