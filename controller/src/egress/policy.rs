//! The addresses that steps may not reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: its address, and how many bits of it count.
type Network = (Ipv6Addr, u32);

/// Networks as a flag names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

/// Networks that are closed to steps, and those that are open all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    denied: Networks,
    allowed: Networks,
}

/// What no step has business with: the machine itself (unspecified and loopback addresses), its link, groups of machines, and
/// where clouds hand out credentials of the machine: Alibaba, Azure, Oracle, AWS, Scaleway, Google, beside the link-local
/// addresses of all others.
pub const DEFAULT_DENIED: &str = "0.0.0.0/8,127.0.0.0/8,169.254.0.0/16,224.0.0.0/4,255.255.255.255/32,\
    100.100.100.200/32,168.63.129.16/32,192.0.0.192/32,\
    ::/128,::1/128,fe80::/10,ff00::/8,fd00:ec2::/32,fd00:42::42/128,fd20:ce::254/128";

impl Default for Egress {
    fn default() -> Self {
        Self { denied: parse(DEFAULT_DENIED).unwrap_or_default(), allowed: Networks::default() }
    }
}

impl Egress {
    /// Of networks that are closed, and of those that are open even so.
    #[must_use]
    pub fn new(denied: Networks, allowed: Networks) -> Self {
        Self { denied, allowed }
    }

    /// Whether an address may be reached: it, and the IPv4 address it stands for.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let forms = [Some(wide(address)), inner(wide(address)).map(|v4| v4.to_ipv6_mapped())];
        let is_in = |networks: &Networks| {
            let mut forms = forms.iter().flatten();
            forms.any(|form| networks.0.iter().any(|network| contains(*network, *form)))
        };
        is_in(&self.allowed) || !is_in(&self.denied)
    }

    /// Whether a host may be connected to as far as its text shows: an address is checked, a name once it is resolved.
    #[must_use]
    pub fn allows_host(&self, host: &str) -> bool {
        literal(host).is_none_or(|address| self.allows(address))
    }
}

/// The address that a host is, in any of the forms in which resolvers take one: also with a zone, and IPv4 with fewer than
/// four numbers, octal or hexadecimal (`127.1`, `0x7f000001`).
fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let bare = bare.split_once('%').map_or(bare, |(address, _zone)| address);
    bare.parse().ok().or_else(|| short(bare).map(IpAddr::V4))
}

/// IPv4 as `inet_aton` reads it: the last number fills the bytes that the others leave.
fn short(text: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None if text.starts_with(|c: char| c.is_ascii_digit()) => text.parse().ok(),
        None => None,
    };
    let numbers: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, bytes) = numbers.split_last()?;
    let rest = 32_u32.checked_sub(8 * u32::try_from(bytes.len()).ok()?).filter(|bits| *bits > 0)?;
    if u64::from(*last) >> rest > 0 {
        return None;
    }
    let high = bytes.iter().try_fold(0_u32, |all, byte| {
        u8::try_from(*byte).ok().map(|byte| (all << 8) | u32::from(byte))
    })?;
    Some(Ipv4Addr::from(high.checked_shl(rest).unwrap_or(0) | last))
}

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no network, such as 10.0.0.0/8")]
pub struct NetworkError {
    text: String,
}

/// Reads networks, separated by commas; `none` for no rule.
///
/// # Errors
/// A text that is no network.
pub fn parse(text: &str) -> Result<Networks, NetworkError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "none");
    parts.map(network).collect::<Result<_, _>>().map(Networks)
}

fn contains((network, bits): Network, address: Ipv6Addr) -> bool {
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
    u128::from(network) & mask == u128::from(address) & mask
}

/// IPv4 addresses are checked as the IPv6 addresses that stand for them, so that neither spelling gets around the rule.
fn wide(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The IPv4 address that an IPv6 address leads to: as a whole (compatible, ISATAP, NAT64, the prefix for local use included),
/// 6to4, Teredo.
fn inner(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0) if g != 0 => of(g, h),
        (_, _, _, _, 0 | 0x200, 0x5efe) | (0x64, 0xff9b, 0, 0, 0, 0) | (0x64, 0xff9b, 1, ..) => {
            of(g, h)
        }
        (0x2002, ..) => of(b, c),
        (0x2001, 0, ..) => of(!g, !h),
        _ => None,
    }
}

fn network(text: &str) -> Result<Network, NetworkError> {
    let wrong = || NetworkError { text: text.to_owned() };
    let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits: u32 = bits.parse().map_err(|_| wrong())?;
    let (most, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
    if bits > most {
        return Err(wrong());
    }
    Ok((wide(address), bits + offset))
}

/// The usual rule with loopback open: servers of tests are there.
#[cfg(test)]
pub(crate) fn open() -> Egress {
    Egress { allowed: parse("127.0.0.0/8").unwrap_or_default(), ..Egress::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(denied: &str, allowed: &str) -> Egress {
        Egress::new(parse(denied).unwrap(), parse(allowed).unwrap())
    }

    #[test]
    fn the_machine_and_metadata_services_are_closed_in_every_form() {
        let egress = Egress::default();
        for closed in [
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "127.0.0.1",
            "127.255.0.3",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fe80::a9fe:a9fe",
            "ff02::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
            "::ffff:169.254.169.254",
            "::ffff:127.0.0.1",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:2:3:4:a83f:8110",
            "2002:a9fe:a9fe::",
            "2002:7f00:1::1",
            "2001:0:1:2:3:4:5601:5601",
            "2001:db8::5efe:169.254.169.254",
            "2001:db8::200:5efe:127.0.0.1",
        ] {
            assert!(!egress.allows(closed.parse().unwrap()), "{closed}");
        }
        for open in [
            "10.0.0.1",
            "192.168.1.1",
            "169.253.0.1",
            "100.100.100.201",
            "2001:db8::1",
            "fd00::1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2606:4700::a9fe:a9fe",
        ] {
            assert!(egress.allows(open.parse().unwrap()), "{open}");
        }
    }

    #[test]
    fn a_host_that_is_an_address_is_checked_before_it_is_resolved() {
        let egress = Egress::default();
        for closed in [
            "127.0.0.1",
            "[::1]",
            "::1",
            "[::ffff:169.254.169.254]",
            "fe80::1%eth0",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "169.254.0xa9fe",
            "0",
        ] {
            assert!(!egress.allows_host(closed), "{closed}");
        }
        for open in [
            "10.0.0.1",
            "[2001:db8::1]",
            "example.org",
            "localhost",
            "",
            "10.1",
            "0x0a000001",
            "127.0.0.0.1",
            "127.16777216",
            "4294967296",
            "1.127.a.1",
            "+127.1",
            "127.-1",
        ] {
            assert!(egress.allows_host(open), "{open}");
        }
    }

    #[test]
    fn rules() {
        let allows = |denied: &str, allowed: &str, address: &str| {
            of(denied, allowed).allows(address.parse().unwrap())
        };
        assert!(allows("none", "", "169.254.169.254"));
        assert!(!allows("0.0.0.0/0", "", "1.2.3.4"));
        assert!(allows("0.0.0.0/0", "", "2001:db8::1"));
        assert!(!allows("0.0.0.0/0", "", "2002:102:304::"));
        assert!(!allows("::/0", "", "1.2.3.4"));
        // What an administrator names is open.
        assert!(allows(DEFAULT_DENIED, "127.0.0.1/32", "127.0.0.1"));
        assert!(allows(DEFAULT_DENIED, "127.0.0.1/32", "::ffff:127.0.0.1"));
        assert!(!allows(DEFAULT_DENIED, "127.0.0.1/32", "127.0.0.2"));
        assert!(!allows("::/0", "10.0.0.0/8", "::1"));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129", "10.0.0.0/-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// However an IPv4 address is dressed up: it is what the rule says of it.
        #[test]
        fn no_form_gets_around_the_rule(bits: u32, prefix in 0_usize..6) {
            let plain = Ipv4Addr::from(bits);
            let [.., a, b] = plain.to_ipv6_mapped().segments();
            let dressed = match prefix {
                0 => plain.to_ipv6_mapped(),
                1 => Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
                2 => Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, a, b),
                3 => Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 1),
                4 => Ipv6Addr::new(0x2001, 0, 1, 2, 3, 4, !a, !b),
                _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0x5efe, a, b),
            };
            let egress = Egress::default();
            prop_assert_eq!(egress.allows(plain.into()), egress.allows(dressed.into()));
        }
    }
}
