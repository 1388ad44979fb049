//! What a fresh connection begins with: a frame, a PROXY protocol header, or a TLS hello.
//!
//! A frame's first byte is 0 because a frame is shorter than 16 MiB, so one byte decides. PROXY protocol versions 1
//! and 2 are described in `proxy-protocol.txt` of HAProxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// First byte of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 0x16;
/// Longest version 1 line, CR LF included.
const V1_MAX: usize = 107;
const V2_SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Fixed part of a version 2 header; the last two bytes are the length of what follows.
const V2_HEAD: usize = 16;
/// Longest variable part of a version 2 header that we take.
const V2_MAX: usize = 4096;

/// What the bytes so far say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FirstBytes {
    /// Not decided yet.
    More,
    /// Frames follow after `skip` bytes; the announced source, if there was one.
    Frames {
        /// Length of the PROXY header.
        skip: usize,
        /// The announced source.
        source: Option<SocketAddr>,
    },
    /// A TLS hello.
    Tls,
    /// A PROXY header that cannot be read.
    Broken(&'static str),
}

/// Looks at the bytes received so far.
pub(super) fn look(bytes: &[u8]) -> FirstBytes {
    match bytes {
        [] => FirstBytes::More,
        [TLS_HANDSHAKE, ..] => FirstBytes::Tls,
        [b'P', ..] if starts(bytes, b"PROXY ") => version_1(bytes),
        [b'\r', ..] if starts(bytes, &V2_SIGNATURE) => version_2(bytes),
        _ => FirstBytes::Frames {
            skip: 0,
            source: None,
        },
    }
}

/// True when as much of `bytes` as there is agrees with `mark`.
fn starts(bytes: &[u8], mark: &[u8]) -> bool {
    let n = bytes.len().min(mark.len());
    bytes[..n] == mark[..n]
}

fn version_1(bytes: &[u8]) -> FirstBytes {
    let head = &bytes[..bytes.len().min(V1_MAX)];
    let Some(end) = head.windows(2).position(|w| w == b"\r\n") else {
        return if bytes.len() < V1_MAX {
            FirstBytes::More
        } else {
            FirstBytes::Broken("PROXY line without an end")
        };
    };
    let Ok(line) = std::str::from_utf8(&head[..end]) else {
        return FirstBytes::Broken("PROXY line is not text");
    };
    let words: Vec<&str> = line.split(' ').collect();
    let source = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family @ ("TCP4" | "TCP6"), source, _, port, _] => {
            let (Ok(ip), Ok(port)) = (source.parse::<IpAddr>(), port.parse::<u16>()) else {
                return FirstBytes::Broken("PROXY line with a bad source address");
            };
            if ip.is_ipv4() != (family == "TCP4") {
                return FirstBytes::Broken("PROXY line with an address of the other family");
            }
            Some(SocketAddr::new(ip, port))
        }
        _ => return FirstBytes::Broken("PROXY line with a wrong number of words"),
    };
    FirstBytes::Frames {
        skip: end + 2,
        source,
    }
}

fn version_2(bytes: &[u8]) -> FirstBytes {
    let Some(head) = bytes.get(..V2_HEAD) else {
        return FirstBytes::More;
    };
    let (version, command, family) = (head[12] >> 4, head[12] & 0x0F, head[13]);
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if version != 2 || command > 1 {
        return FirstBytes::Broken("PROXY header with an unknown version or command");
    }
    if length > V2_MAX {
        return FirstBytes::Broken("PROXY header too long");
    }
    let Some(rest) = bytes.get(V2_HEAD..V2_HEAD + length) else {
        return FirstBytes::More;
    };
    let source = match (command, family >> 4) {
        // LOCAL: the proxy itself, as for health checks.
        (0, _) => None,
        (_, 1) => match rest.get(..12) {
            Some(a) => Some(SocketAddr::new(
                Ipv4Addr::new(a[0], a[1], a[2], a[3]).into(),
                u16::from_be_bytes([a[8], a[9]]),
            )),
            None => return FirstBytes::Broken("PROXY header with a short address"),
        },
        (_, 2) => match (rest.first_chunk::<16>(), rest.get(32..34), rest.len() >= 36) {
            (Some(ip), Some(port), true) => Some(SocketAddr::new(
                Ipv6Addr::from(*ip).into(),
                u16::from_be_bytes([port[0], port[1]]),
            )),
            _ => return FirstBytes::Broken("PROXY header with a short address"),
        },
        // Unspecified and UNIX sockets carry no address that we could show.
        _ => None,
    };
    FirstBytes::Frames {
        skip: V2_HEAD + length,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(skip: usize, source: Option<&str>) -> FirstBytes {
        FirstBytes::Frames {
            skip,
            source: source.map(|s| s.parse().unwrap()),
        }
    }

    #[test]
    fn one_byte_of_a_frame_is_enough() {
        assert_eq!(look(b""), FirstBytes::More);
        assert_eq!(look(b"\0"), frames(0, None));
        assert_eq!(look(b"GET / HTTP/1.1\r\n"), frames(0, None));
        assert_eq!(look(b"PUT /"), frames(0, None));
        assert_eq!(look(b"\x16\x03\x01"), FirstBytes::Tls);
    }

    #[test]
    fn version_1_lines() {
        let line = b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n\0\0";
        assert_eq!(look(line), frames(line.len() - 2, Some("192.0.2.1:56324")));
        for cut in 1..line.len() - 3 {
            assert_eq!(look(&line[..cut]), FirstBytes::More, "{cut}");
        }
        let six = b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n";
        assert_eq!(look(six), frames(six.len(), Some("[2001:db8::1]:1")));
        assert_eq!(look(b"PROXY UNKNOWN\r\n"), frames(15, None));
        for bad in [
            &b"PROXY TCP4 a b 1 2\r\n"[..],
            b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 70000 2\r\n",
            b"PROXY TCP4 1.2.3.4\r\n",
            b"PROXY \xFF\r\n",
            &[b"PROXY ", &[b' '; V1_MAX][..]].concat(),
        ] {
            assert!(matches!(look(bad), FirstBytes::Broken(_)), "{bad:?}");
        }
    }

    #[test]
    fn version_2_headers() {
        let mut four = V2_SIGNATURE.to_vec();
        four.extend([0x21, 0x11, 0, 12, 10, 1, 2, 3, 10, 0, 0, 1, 0x1F, 0x90, 0, 80]);
        assert_eq!(look(&four), frames(28, Some("10.1.2.3:8080")));
        for cut in 1..four.len() {
            assert_eq!(look(&four[..cut]), FirstBytes::More, "{cut}");
        }
        let mut local = V2_SIGNATURE.to_vec();
        local.extend([0x20, 0, 0, 0]);
        assert_eq!(look(&local), frames(16, None));
        let mut six = V2_SIGNATURE.to_vec();
        six.extend([0x21, 0x21, 0, 36]);
        six.extend(Ipv6Addr::LOCALHOST.octets());
        six.extend(Ipv6Addr::LOCALHOST.octets());
        six.extend([0, 7, 0, 8]);
        assert_eq!(look(&six), frames(52, Some("[::1]:7")));
        for tail in [
            [0x31, 0x11, 0, 0],
            [0x22, 0x11, 0, 0],
            [0x21, 0x11, 0, 0],
            [0x21, 0x11, 0xFF, 0],
        ] {
            let bad = [&V2_SIGNATURE[..], &tail].concat();
            assert!(matches!(look(&bad), FirstBytes::Broken(_)), "{tail:?}");
        }
    }
}
