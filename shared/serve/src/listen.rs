//! Listen addresses in Go's spelling: `:9440`, `127.0.0.1:8080`, `[::1]:8080`, `0` for "off".

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// An address to listen on, or the decision not to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddr {
    /// Written as an empty string or `0`: the listener is not wanted.
    Off,
    /// One address and port.
    On {
        /// The interface; none means all of them (`:9440`).
        host: Option<IpAddr>,
        /// The port; 0 takes a free one.
        port: u16,
    },
}

impl ListenAddr {
    /// All interfaces, this port.
    pub fn any(port: u16) -> Self {
        Self::On { host: None, port }
    }

    /// Binds the address; `None` when listening is off. Without a host both IP families are
    /// served where the machine has IPv6, as Go does.
    pub async fn bind(&self) -> io::Result<Option<TcpListener>> {
        let Self::On { host, port } = self else { return Ok(None) };
        if let Some(ip) = host {
            return TcpListener::bind(SocketAddr::new(*ip, *port)).await.map(Some);
        }
        match TcpListener::bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), *port)).await {
            Ok(listener) => Ok(Some(listener)),
            // no IPv6 on this machine; an address in use stays an error of the second try
            Err(_) => TcpListener::bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port))
                .await
                .map(Some),
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::On { host: None, port } => write!(f, ":{port}"),
            Self::On { host: Some(ip), port } => SocketAddr::new(*ip, *port).fmt(f),
        }
    }
}

/// Why an address was not understood.
#[derive(Debug, thiserror::Error)]
#[error(
    "not a listen address; write \":9440\", \"127.0.0.1:9440\", \"[::1]:9440\" or \"0\" for none"
)]
pub struct ListenAddrError;

impl FromStr for ListenAddr {
    type Err = ListenAddrError;

    fn from_str(text: &str) -> Result<Self, ListenAddrError> {
        if text.is_empty() || text == "0" {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or(ListenAddrError)?;
        let port = port.parse().map_err(|_| ListenAddrError)?;
        let host = match host {
            "" => None,
            "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
            other => {
                let bare =
                    other.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(other);
                Some(bare.parse().map_err(|_| ListenAddrError)?)
            }
        };
        Ok(Self::On { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_spelling() {
        for (text, want) in [
            (":9440", Some(":9440")),
            ("127.0.0.1:0", Some("127.0.0.1:0")),
            ("[::1]:8080", Some("[::1]:8080")),
            ("localhost:1", Some("127.0.0.1:1")),
            ("0", Some("0")),
            ("", Some("0")),
            ("9440", None),
            (":x", None),
            (":70000", None),
            ("nowhere.example:1", None),
        ] {
            let got = text.parse::<ListenAddr>().ok().map(|a| a.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }
}
