//! Where to dial a broker whose announced address is not reachable from here (containers, NAT).

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// One rule `FROM=TO`.
///
/// `FROM` is `host`, `host:port`, `*:port` or a network such as `172.17.0.0/16`; `TO` is `host` or `host:port`. A
/// `TO` without a port keeps the announced one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRule {
    from: From,
    to_host: String,
    to_port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    Host(String, Option<u16>),
    AnyHost(u16),
    Net(IpAddr, u8),
}

impl std::fmt::Display for AddressRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.from {
            From::Host(host, port) => f.write_str(&join(host, *port))?,
            From::AnyHost(port) => write!(f, "*:{port}")?,
            From::Net(net, bits) => write!(f, "{net}/{bits}")?,
        }
        write!(f, "={}", join(&self.to_host, self.to_port))
    }
}

/// `host`, `host:port`, `[v6]:port`.
fn join(host: &str, port: Option<u16>) -> String {
    match port {
        Some(port) if host.contains(':') => format!("[{host}]:{port}"),
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

impl FromStr for AddressRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!("\"{text}\" is not an address rule: {why}; use FROM=TO, such as 172.17.0.0/16=127.0.0.1")
        };
        let (from, to) = text.split_once('=').ok_or_else(|| wrong("no ="))?;
        let (from, to) = (from.trim(), to.trim());
        if from.is_empty() || to.is_empty() {
            return Err(wrong("a side is empty"));
        }
        let from = if let Some((net, bits)) = from.split_once('/') {
            let net: IpAddr = net.parse().map_err(|_| wrong("the network is not an address"))?;
            let most = if net.is_ipv4() { 32 } else { 128 };
            let bits = bits
                .parse()
                .ok()
                .filter(|b| *b <= most)
                .ok_or_else(|| wrong("the prefix length is out of range"))?;
            From::Net(net, bits)
        } else if let Some(port) = from.strip_prefix("*:") {
            From::AnyHost(port.parse().map_err(|_| wrong("the port is not a number"))?)
        } else {
            let (host, port) = split(from).ok_or_else(|| wrong("the port is not a number"))?;
            From::Host(host, port)
        };
        let (to_host, to_port) = split(to).ok_or_else(|| wrong("the port is not a number"))?;
        Ok(Self {
            from,
            to_host,
            to_port,
        })
    }
}

/// `host`, `host:port` or `[v6]:port`.
fn split(text: &str) -> Option<(String, Option<u16>)> {
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Some((addr.ip().to_string(), Some(addr.port())));
    }
    if text.parse::<IpAddr>().is_ok() {
        return Some((text.to_owned(), None));
    }
    match text.rsplit_once(':') {
        Some((host, port)) => Some((host.to_owned(), Some(port.parse().ok()?))),
        None => Some((text.to_owned(), None)),
    }
}

impl AddressRule {
    fn apply(&self, host: &str, port: Option<u16>) -> Option<String> {
        let hit = match &self.from {
            From::Host(from, from_port) => {
                from.eq_ignore_ascii_case(host) && (from_port.is_none() || *from_port == port)
            }
            From::AnyHost(from_port) => Some(*from_port) == port,
            From::Net(net, bits) => host.parse().is_ok_and(|ip| in_net(ip, *net, *bits)),
        };
        if !hit {
            return None;
        }
        let host = if self.to_host.contains(':') {
            format!("[{}]", self.to_host)
        } else {
            self.to_host.clone()
        };
        Some(match self.to_port.or(port) {
            Some(port) => format!("{host}:{port}"),
            None => host,
        })
    }
}

fn in_net(ip: IpAddr, net: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(ip) & mask == u32::from(net) & mask
        }
        (IpAddr::V6(ip), IpAddr::V6(net)) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(ip) & mask == u128::from(net) & mask
        }
        _ => false,
    }
}

/// Rules in order; the first that fits wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressMap(pub Vec<AddressRule>);

impl AddressMap {
    /// The address to dial for an announced one.
    pub fn dial(&self, announced: &str) -> String {
        if self.0.is_empty() {
            return announced.to_owned();
        }
        let Some((host, port)) = split(announced) else {
            return announced.to_owned();
        };
        self.0
            .iter()
            .find_map(|rule| rule.apply(&host, port))
            .unwrap_or_else(|| announced.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dial(rules: &[&str], addr: &str) -> String {
        AddressMap(rules.iter().map(|r| r.parse().unwrap()).collect()).dial(addr)
    }

    #[test]
    fn a_rule_is_written_as_it_is_read() {
        for text in [
            "172.17.0.0/16=127.0.0.1",
            "*:10911=h:2",
            "10.0.0.1:1=h:2",
            "a=[::1]:7",
            "a=::1",
        ] {
            assert_eq!(text.parse::<AddressRule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn rules_match_host_port_and_network() {
        assert_eq!(dial(&[], "10.0.0.1:10911"), "10.0.0.1:10911");
        assert_eq!(
            dial(&["172.17.0.0/16=127.0.0.1"], "172.17.3.4:10911"),
            "127.0.0.1:10911"
        );
        assert_eq!(
            dial(&["172.17.0.0/16=127.0.0.1"], "172.18.3.4:10911"),
            "172.18.3.4:10911"
        );
        assert_eq!(dial(&["broker-a=b.example:7"], "broker-a:10911"), "b.example:7");
        assert_eq!(dial(&["10.0.0.1:1=h:2", "10.0.0.1=z"], "10.0.0.1:3"), "z:3");
        assert_eq!(
            dial(&["*:10911=localhost:20911"], "1.2.3.4:10911"),
            "localhost:20911"
        );
        assert_eq!(dial(&["0.0.0.0/0=::1"], "1.2.3.4:10911"), "[::1]:10911");
    }

    #[test]
    fn a_wrong_rule_is_refused_with_its_reason() {
        for bad in ["x", "=y", "x=", "1.2.3.4/33=x", "a/8=x", "a:b=x", "*:zz=x"] {
            assert!(bad.parse::<AddressRule>().is_err(), "{bad}");
        }
    }
}
