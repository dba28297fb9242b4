//! Plain HTTP on loopback: what probes, metrics and the like are asked with.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One request: the status and the body of its answer.
///
/// # Errors
/// Nobody answers, or not in HTTP.
pub fn request(port: u16, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    let address = ([127, 0, 0, 1], port).into();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((code.context("not an HTTP answer")?, body.to_owned()))
}
