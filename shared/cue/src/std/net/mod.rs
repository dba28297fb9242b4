//! Package `net`: addresses, host names and URLs, checked by their text.

mod url;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use num_bigint::{BigInt, Sign};
use vela_gocompat::strconv::quote;

use super::args::{Out, bigint, constant, fail, func, int, short, string, string_list, text};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;
use url::Mode;

const A: Param = Param::ANY;
const S: Param = Param::STRING;
const ONE: &[Param] = &[A];

pub(super) static PACKAGE: &[Member] = &[
    func("SplitHostPort", &[S], Kind::LIST, split_host_port),
    func("JoinHostPort", &[A, A], Kind::STRING, join_host_port),
    func("FQDN", &[S], Kind::BOOL, |a, _| Ok(is_fqdn(text(a, 0)?).into())),
    constant("IPv4len", "4"),
    constant("IPv6len", "16"),
    func("ParseIP", &[S], Kind::LIST, |a, _| match address(a, 0) {
        Some(ip) => Ok(octets(ip.ip)),
        None => fail(format!("invalid IP address {}", quote(text(a, 0)?))),
    }),
    func("IPv4", ONE, Kind::BOOL, |a, _| test(a, |ip| ip.is_ipv4())),
    func("IPv6", ONE, Kind::BOOL, |a, _| test(a, |ip| ip.is_ipv6())),
    func("IP", ONE, Kind::BOOL, |a, _| test(a, |_| true)),
    func("IPCIDR", ONE, Kind::BOOL, |a, _| prefix(a, 0).map(|_| true.into())),
    func("LoopbackIP", ONE, Kind::BOOL, |a, _| test(a, |ip| ip.to_canonical().is_loopback())),
    func("MulticastIP", ONE, Kind::BOOL, |a, _| test(a, |ip| ip.to_canonical().is_multicast())),
    func("InterfaceLocalMulticastIP", ONE, Kind::BOOL, |a, _| {
        test(
            a,
            |ip| matches!(ip, IpAddr::V6(ip) if ip.segments().first().is_some_and(|s| s & 0xff0f == 0xff01)),
        )
    }),
    func("LinkLocalMulticastIP", ONE, Kind::BOOL, |a, _| test(a, is_link_local_multicast)),
    func("LinkLocalUnicastIP", ONE, Kind::BOOL, |a, _| test(a, is_link_local)),
    func("GlobalUnicastIP", ONE, Kind::BOOL, |a, _| {
        test(a, |ip| {
            let canonical = ip.to_canonical();
            let broadcast = matches!(canonical, IpAddr::V4(ip) if ip.is_broadcast());
            !canonical.is_unspecified()
                && !broadcast
                && !canonical.is_loopback()
                && !canonical.is_multicast()
                && !is_link_local(ip)
        })
    }),
    func("UnspecifiedIP", ONE, Kind::BOOL, |a, _| test(a, |ip| ip.is_unspecified())),
    func("ToIP4", ONE, Kind::LIST, |a, _| match valid(a, 0)?.ip {
        ip @ IpAddr::V4(_) => Ok(octets(ip)),
        ip @ IpAddr::V6(_) => fail(format!("cannot convert {} to IPv4", quote(&ip.to_string()))),
    }),
    func("ToIP16", ONE, Kind::LIST, |a, _| {
        Ok(octets(IpAddr::V6(match valid(a, 0)?.ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        })))
    }),
    func("IPString", ONE, Kind::STRING, |a, b| string(valid(a, 0)?.print(), b)),
    func("AddIP", &[A, Param::INT], Kind::STRING, |a, b| {
        if let Ok((ip, bits)) = prefix(a, 0) {
            return string(format!("{}/{bits}", add(ip, &bigint(a, 1)?)?), b);
        }
        string(add(valid(a, 0)?.ip, &bigint(a, 1)?)?.to_string(), b)
    }),
    func("AddIPCIDR", &[A, Param::INT], Kind::STRING, |a, b| {
        let (ip, bits) = prefix(a, 0)?;
        let width = if ip.is_ipv4() { 32 } else { 128 };
        let step = bigint(a, 1)? << (width - bits);
        string(format!("{}/{bits}", add(ip, &step)?), b)
    }),
    func("InCIDR", &[A, A], Kind::BOOL, |a, _| {
        let ip = valid(a, 0)?;
        let (network, bits) = prefix(a, 1)?;
        let same = ip.ip.is_ipv4() == network.is_ipv4() && ip.zone.is_none();
        Ok((same && masked(ip.ip, bits) == masked(network, bits)).into())
    }),
    func("CompareIP", &[A, A], Kind::INT, |a, _| {
        let (x, y) = (valid(a, 0)?, valid(a, 1)?);
        Ok(Value::from((x.ip, x.zone).cmp(&(y.ip, y.zone)) as i64))
    }),
    func("PathEscape", &[S], Kind::STRING, |a, b| string(url::escape(text(a, 0)?, Mode::Path), b)),
    func("PathUnescape", &[S], Kind::STRING, |a, b| {
        string(url::unescape(text(a, 0)?, Mode::Path)?, b)
    }),
    func("QueryEscape", &[S], Kind::STRING, |a, b| {
        string(url::escape(text(a, 0)?, Mode::Query), b)
    }),
    func("QueryUnescape", &[S], Kind::STRING, |a, b| {
        string(url::unescape(text(a, 0)?, Mode::Query)?, b)
    }),
    func("URL", &[S], Kind::BOOL, |a, _| parse_url(text(a, 0)?).map(|_| true.into())),
    func("AbsURL", &[S], Kind::BOOL, |a, _| match parse_url(text(a, 0)?)? {
        true => Ok(true.into()),
        false => fail("URL is not absolute"),
    }),
];

/// An address with the zone that IPv6 text may have.
struct Address {
    ip: IpAddr,
    zone: Option<String>,
}

impl Address {
    fn print(&self) -> String {
        match &self.zone {
            Some(zone) => format!("{}%{zone}", self.ip),
            None => self.ip.to_string(),
        }
    }
}

/// A string, bytes with the text, or a list of 4 or 16 octets.
fn address(args: &[Value], i: usize) -> Option<Address> {
    match args.get(i)? {
        Value::String(s) => parse_address(s),
        Value::Bytes(b) => parse_address(std::str::from_utf8(b).ok()?),
        Value::List(elements) => {
            if elements.len() > 16 {
                return None;
            }
            let octets: Option<Vec<u8>> =
                elements.iter().map(|e| e.as_i64().and_then(|n| u8::try_from(n).ok())).collect();
            let octets = octets?;
            let ip = match <[u8; 4]>::try_from(&octets[..]) {
                Ok(four) => IpAddr::from(four),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(&octets[..]).ok()?),
            };
            Some(Address { ip, zone: None })
        }
        _ => None,
    }
}

fn parse_address(text: &str) -> Option<Address> {
    match text.split_once('%') {
        Some((_, "")) => None,
        Some((ip, zone)) => Some(Address {
            ip: IpAddr::V6(ip.parse::<Ipv6Addr>().ok()?),
            zone: Some(zone.to_owned()),
        }),
        None => Some(Address { ip: text.parse().ok()?, zone: None }),
    }
}

fn valid(args: &[Value], i: usize) -> Result<Address, BuiltinError> {
    match address(args, i) {
        Some(ip) => Ok(ip),
        None => fail(format!("invalid IP {}", args.get(i).map(short).unwrap_or_default())),
    }
}

fn test(args: &[Value], holds: fn(&IpAddr) -> bool) -> Out {
    Ok(address(args, 0).is_some_and(|a| holds(&a.ip)).into())
}

fn is_link_local(ip: &IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(ip: &IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => ip.segments().first().is_some_and(|s| s & 0xff0f == 0xff02),
    }
}

fn bytes_of(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn octets(ip: IpAddr) -> Value {
    Value::List(bytes_of(ip).into_iter().map(|b| Value::from(i64::from(b))).collect())
}

/// An address with the length of its prefix; errors are those of Go's `netip.ParsePrefix`.
fn prefix(args: &[Value], i: usize) -> Result<(IpAddr, u32), BuiltinError> {
    let text = match args.get(i) {
        Some(Value::String(s)) => s.as_str(),
        Some(Value::Bytes(b)) => std::str::from_utf8(b).unwrap_or_default(),
        other => {
            let shown = other.map(short).unwrap_or_default();
            return fail(format!("netip.ParsePrefix({shown}): no '/'"));
        }
    };
    let refuse = |why: &str| fail(format!("netip.ParsePrefix({}): {why}", quote(text)));
    let Some((ip, bits)) = text.rsplit_once('/') else { return refuse("no '/'") };
    let Some(address) = parse_address(ip) else {
        return refuse(&format!("ParseAddr({}): unable to parse IP", quote(ip)));
    };
    if address.zone.is_some() {
        return refuse("IPv6 zones cannot be present in a prefix");
    }
    let plain = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    if !plain || (bits.len() > 1 && bits.starts_with('0')) {
        return refuse(&format!("bad bits after slash: {}", quote(bits)));
    }
    let most = if address.ip.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u32>() {
        Ok(bits) if bits <= most => Ok((address.ip, bits)),
        _ => refuse("prefix length out of range"),
    }
}

fn masked(ip: IpAddr, bits: u32) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits().checked_shr(32 - bits).unwrap_or(0)),
        IpAddr::V6(ip) => ip.to_bits().checked_shr(128 - bits).unwrap_or(0),
    }
}

fn add(ip: IpAddr, offset: &BigInt) -> Result<IpAddr, BuiltinError> {
    let sum = BigInt::from_bytes_be(Sign::Plus, &bytes_of(ip)) + offset;
    if sum.sign() == Sign::Minus {
        return fail("IP address arithmetic resulted in out-of-range address (underflow)");
    }
    let result = match ip {
        IpAddr::V4(_) => u32::try_from(&sum).ok().map(|n| IpAddr::V4(Ipv4Addr::from_bits(n))),
        IpAddr::V6(_) => u128::try_from(&sum).ok().map(|n| IpAddr::V6(Ipv6Addr::from_bits(n))),
    };
    result.map_or_else(
        || fail("IP address arithmetic resulted in out-of-range address (overflow)"),
        Ok,
    )
}

fn split_host_port(args: &[Value], budget: &mut Budget) -> Out {
    let all = text(args, 0)?;
    let refuse = |why: &str| fail(format!("address {all}: {why}"));
    let Some((before, port)) = all.rsplit_once(':') else {
        return refuse("missing port in address");
    };
    let host = if let Some(inner) = all.strip_prefix('[') {
        let Some((host, behind)) = inner.split_once(']') else {
            return refuse("missing ']' in address");
        };
        if !behind.starts_with(':') {
            return refuse("missing port in address");
        }
        if behind.len() != port.len() + 1 {
            return refuse("too many colons in address");
        }
        if host.contains('[') {
            return refuse("unexpected '[' in address");
        }
        host
    } else {
        if before.contains(':') {
            return refuse("too many colons in address");
        }
        if before.contains('[') {
            return refuse("unexpected '[' in address");
        }
        before
    };
    if host.contains(']') || port.contains(']') {
        return refuse("unexpected ']' in address");
    }
    string_list([host, port].into_iter(), budget)
}

fn join_host_port(args: &[Value], budget: &mut Budget) -> Out {
    let plain = |i: usize| -> Result<String, BuiltinError> {
        match args.get(i) {
            Some(Value::Bytes(b)) => Ok(String::from_utf8_lossy(b).into_owned()),
            _ => text(args, i).map(str::to_owned),
        }
    };
    let host = match args.first() {
        Some(Value::List(_)) => match address(args, 0) {
            Some(ip) => ip.print(),
            None => {
                return fail(format!(
                    "invalid host {}",
                    args.first().map(short).unwrap_or_default()
                ));
            }
        },
        _ => plain(0)?,
    };
    let port = match args.get(1) {
        Some(Value::Number(_)) => int(args, 1)?.to_string(),
        _ => plain(1)?,
    };
    let joined = if host.contains([':', '%']) {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    string(joined, budget)
}

/// Letters, digits and inner hyphens, labels of at most 63, all of at most 253 characters.
fn is_fqdn(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let label_fits = |label: &str| {
        let reserved = label.get(2..4) == Some("--")
            && !label.get(..2).is_some_and(|p| p.eq_ignore_ascii_case("xn"));
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
            && !reserved
    };
    !name.is_empty() && name.len() <= 253 && name.split('.').all(label_fits)
}

/// Whether a URL has a scheme; what is wrong with it is said with its text.
fn parse_url(text: &str) -> Result<bool, BuiltinError> {
    url::parse(text).map_err(|error| match error {
        BuiltinError::Message(why) => {
            BuiltinError::Message(format!("parse {}: {why}", quote(text)))
        }
        other => other,
    })
}
