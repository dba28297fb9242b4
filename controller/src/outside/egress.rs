//! Which addresses steps may not reach.

use std::net::{IpAddr, Ipv6Addr};

/// Networks that are closed to steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    denied: Vec<(Ipv6Addr, u32)>,
}

/// Where clouds hand out credentials of the machine: link-local addresses and two others.
pub const USUAL: &str = "169.254.0.0/16,fe80::/10,fd00:ec2::254/128,100.100.100.200/32";

impl Default for Egress {
    fn default() -> Self {
        Self::parse(USUAL).unwrap_or_else(|_| Self { denied: Vec::new() })
    }
}

impl Egress {
    /// Reads networks, separated by commas; `none` for no rule.
    ///
    /// # Errors
    /// A text that is no network.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts =
            text.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "none");
        let denied = parts.map(network).collect::<Result<_, _>>()?;
        Ok(Self { denied })
    }

    /// Whether an address may be reached.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = u128::from(wide(address));
        !self.denied.iter().any(|(network, bits)| {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(*bits)).unwrap_or(0);
            u128::from(*network) & mask == address & mask
        })
    }
}

/// IPv4 addresses are looked at as the IPv6 addresses that stand for them, so that neither spelling gets around the rule.
fn wide(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn network(text: &str) -> Result<(Ipv6Addr, u32), String> {
    let wrong = || format!("{text:?} is no network, such as 10.0.0.0/8");
    let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits: u32 = bits.parse().map_err(|_| wrong())?;
    let (most, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
    if bits > most {
        return Err(wrong());
    }
    Ok((wide(address), bits + offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_services_are_closed() {
        let egress = Egress::default();
        for closed in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
        ] {
            assert!(!egress.allows(closed.parse().unwrap()), "{closed}");
        }
        for open in
            ["10.0.0.1", "127.0.0.1", "::1", "2001:db8::1", "169.253.0.1", "100.100.100.201"]
        {
            assert!(egress.allows(open.parse().unwrap()), "{open}");
        }
    }

    #[test]
    fn rules() {
        assert!(Egress::parse("none").unwrap().allows("169.254.169.254".parse().unwrap()));
        assert!(!Egress::parse("0.0.0.0/0").unwrap().allows("1.2.3.4".parse().unwrap()));
        assert!(Egress::parse("0.0.0.0/0").unwrap().allows("2001:db8::1".parse().unwrap()));
        assert!(!Egress::parse("::/0").unwrap().allows("1.2.3.4".parse().unwrap()));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129"] {
            assert!(Egress::parse(wrong).is_err(), "{wrong}");
        }
    }
}
