//! The two message ids, both upper-case hex.
//!
//! ```text
//! offset id   | store address 4 or 16 bytes | port i32 | physical offset i64 |            32 or 56 digits
//! unique key  | client address 4 or 16 | pid u16 | hash i32 | ms in month i32 | counter u16 |  same lengths
//! ```

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use super::Error;

/// Longest id in bytes: 16 of an address and 12 more.
const MAX_BYTES: usize = 28;
/// Bytes behind the address, in both ids.
const TAIL: usize = 12;

/// The offset id of a record.
pub fn offset_id(store_host: &SocketAddr, offset: i64) -> String {
    let mut tail = [0; TAIL];
    tail[..4].copy_from_slice(&u32::from(store_host.port()).to_be_bytes());
    tail[4..].copy_from_slice(&offset.to_be_bytes());
    to_hex(store_host.ip(), tail)
}

/// Reads an offset id: broker address and physical offset.
pub fn parse_offset_id(id: &str) -> Result<(SocketAddr, i64), Error> {
    let (ip, tail) = from_hex("offset message id", id)?;
    let port = u32::from_be_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let port = u16::try_from(port)
        .map_err(|_| Error::malformed("offset message id", format!("`{id}`: no port {port}")))?;
    let offset = tail[4..]
        .iter()
        .fold(0u64, |n, b| (n << 8) | u64::from(*b))
        .cast_signed();
    if offset < 0 {
        return Err(Error::malformed(
            "offset message id",
            format!("`{id}`: offset below 0"),
        ));
    }
    Ok((SocketAddr::new(ip, port), offset))
}

/// The parts of a unique key, as a Java client makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniqueKey {
    /// Client address.
    pub ip: IpAddr,
    /// Client process id, low 16 bits.
    pub pid: u16,
    /// A number of the process.
    pub hash: i32,
    /// Time since the start of the month in the client's time zone, ms.
    pub month_ms: i32,
    /// Counts the messages.
    pub counter: u16,
}

impl UniqueKey {
    /// Reads a unique key; those of other clients may have any form.
    pub fn parse(id: &str) -> Result<Self, Error> {
        let (ip, t) = from_hex("unique key", id)?;
        Ok(Self {
            ip,
            pid: u16::from_be_bytes([t[0], t[1]]),
            hash: i32::from_be_bytes([t[2], t[3], t[4], t[5]]),
            month_ms: i32::from_be_bytes([t[6], t[7], t[8], t[9]]),
            counter: u16::from_be_bytes([t[10], t[11]]),
        })
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let mut tail = [0; TAIL];
        tail[..2].copy_from_slice(&self.pid.to_be_bytes());
        tail[2..6].copy_from_slice(&self.hash.to_be_bytes());
        tail[6..10].copy_from_slice(&self.month_ms.to_be_bytes());
        tail[10..].copy_from_slice(&self.counter.to_be_bytes());
        to_hex(self.ip, tail)
    }
}

/// Makes the unique keys of one process.
#[derive(Debug)]
pub struct UniqueKeys {
    ip: IpAddr,
    pid: u16,
    hash: i32,
    counter: AtomicU16,
}

impl UniqueKeys {
    /// For a process: its address, its id, and a number that another start will not repeat.
    pub fn new(ip: IpAddr, pid: u32, hash: i32) -> Self {
        Self {
            ip,
            pid: pid as u16,
            hash,
            counter: AtomicU16::new(0),
        }
    }

    /// The next key at `now_ms` (Unix time), in a zone `utc_offset_s` east of Greenwich.
    pub fn next(&self, now_ms: i64, utc_offset_s: i32) -> String {
        let key = UniqueKey {
            ip: self.ip,
            pid: self.pid,
            hash: self.hash,
            month_ms: month_ms(now_ms, utc_offset_s),
            counter: self.counter.fetch_add(1, Ordering::Relaxed),
        };
        key.to_text()
    }
}

/// Milliseconds since the start of the month. A month has fewer than 2^32 of them; Java lets them wrap too.
fn month_ms(now_ms: i64, utc_offset_s: i32) -> i32 {
    const DAY_MS: i64 = 86_400_000;
    let local = now_ms.saturating_add(i64::from(utc_offset_s) * 1000);
    let (days, in_day) = (local.div_euclid(DAY_MS), local.rem_euclid(DAY_MS));
    // Day of the month, from the days since 0000-03-01 in eras of 400 years.
    let era_day = (days + 719_468).rem_euclid(146_097);
    let era_year = (era_day - era_day / 1460 + era_day / 36_524 - era_day / 146_096) / 365;
    let year_day = era_day - (365 * era_year + era_year / 4 - era_year / 100);
    let month = (5 * year_day + 2) / 153;
    let month_day = year_day - (153 * month + 2) / 5;
    (month_day * DAY_MS + in_day) as i32
}

fn to_hex(ip: IpAddr, tail: [u8; TAIL]) -> String {
    let mut id = String::with_capacity(2 * MAX_BYTES);
    let mut push = |bytes: &[u8]| {
        for b in bytes {
            let _ = write!(id, "{b:02X}");
        }
    };
    match ip {
        IpAddr::V4(ip) => push(&ip.octets()),
        IpAddr::V6(ip) => push(&ip.octets()),
    }
    push(&tail);
    id
}

fn from_hex(what: &'static str, id: &str) -> Result<(IpAddr, [u8; TAIL]), Error> {
    let bad = || {
        Error::malformed(
            what,
            format!("`{}` is not 32 or 56 hex digits", id.escape_debug()),
        )
    };
    if id.len() != 32 && id.len() != 56 {
        return Err(bad());
    }
    let mut bytes = [0; MAX_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(id.as_bytes().chunks_exact(2)) {
        let digit = |d: u8| char::from(d).to_digit(16);
        match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => *byte = (high * 16 + low) as u8,
            _ => return Err(bad()),
        }
    }
    let address_len = id.len() / 2 - TAIL;
    let (address, tail) = bytes[..id.len() / 2].split_at(address_len);
    let ip = match (address.first_chunk::<16>(), address.first_chunk::<4>()) {
        (Some(v6), _) => IpAddr::from(*v6),
        (None, Some(v4)) => IpAddr::from(*v4),
        (None, None) => return Err(bad()),
    };
    Ok((ip, *tail.first_chunk().ok_or_else(bad)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_id_matches_the_captured_one() {
        let host = "127.0.0.1:37811".parse().unwrap();
        let id = "7F000001000093B30000000000000346";
        assert_eq!(offset_id(&host, 0x346), id);
        assert_eq!(parse_offset_id(id).unwrap(), (host, 0x346));
        assert_eq!(parse_offset_id(&id.to_lowercase()).unwrap(), (host, 0x346));
    }

    #[test]
    fn a_version_6_address_makes_56_digits() {
        let host = "[2001:db8::9]:10911".parse().unwrap();
        let id = offset_id(&host, i64::MAX);
        assert_eq!(id.len(), 56);
        assert_eq!(parse_offset_id(&id).unwrap(), (host, i64::MAX));
    }

    #[test]
    fn other_texts_are_refused() {
        let good = "7F000001000093B30000000000000346";
        for bad in [
            "",
            &good[1..],
            &good.replace('B', "G"),
            &good.replace("000093B3", "000193B3"),
            &good.replace("00000000000", "F0000000000"),
            "äöüäöüäöüäöüäöüä",
        ] {
            assert!(parse_offset_id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_unique_key_of_a_java_client_has_its_parts() {
        let text = "FD0000000000000000000000000000022F3A4E0E2F2A9403CCB00000";
        let key = UniqueKey::parse(text).unwrap();
        assert_eq!(key.ip, "fd00::2".parse::<IpAddr>().unwrap());
        assert_eq!((key.pid, key.counter), (0x2F3A, 0));
        assert_eq!(key.to_text(), text);
    }

    #[test]
    fn month_time_starts_at_midnight_of_the_first() {
        // 2026-11-29T17:47:56.978Z
        let now = 1_795_974_476_978;
        let in_day = ((17 * 60 + 47) * 60 + 56) * 1000 + 978;
        assert_eq!(month_ms(now, 0), (28i64 * 86_400_000 + in_day) as i32);
        assert_eq!(month_ms(0, 0), 0);
        assert_eq!(month_ms(-1, 0), (31i64 * 86_400_000 - 1) as i32);
        assert_eq!(month_ms(0, 3600), 3_600_000);
        // 2024-02-29T00:00:00Z and the day after.
        assert_eq!(month_ms(1_709_164_800_000, 0), (28i64 * 86_400_000) as i32);
        assert_eq!(month_ms(1_709_251_200_000, 0), 0);
    }

    #[test]
    fn keys_of_a_process_differ() {
        let keys = UniqueKeys::new("10.0.0.1".parse().unwrap(), 70_000, 5);
        let (a, b) = (keys.next(0, 0), keys.next(0, 0));
        assert_ne!(a, b);
        assert_eq!(a.len(), 32);
        assert_eq!(UniqueKey::parse(&b).unwrap().counter, 1);
    }
}
