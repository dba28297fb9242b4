//! HTTP/1.1 as it is on the wire: headers, and bodies by length, in chunks or until the end. For tests of what lies between a client
//! and a server, where a library would put right what shall be seen.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A body and what came after it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Body {
    /// Without what frames it.
    pub bytes: Vec<u8>,
    /// The fields after the last chunk, a line each.
    pub trailers: String,
    /// Whether it broke off before its end.
    pub is_cut: bool,
}

/// What says where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// There is no body: requests.
    Body,
    /// The end of the connection: answers.
    Connection,
}

/// Reads from a stream to the empty line that ends a header.
///
/// # Errors
/// When the stream ends before.
pub async fn header(stream: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        header.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&header).into_owned())
}

/// Reads a message whose length its header says: header and body.
///
/// # Errors
/// When the stream ends before.
pub async fn message(stream: &mut (impl AsyncRead + Unpin)) -> Result<(String, Vec<u8>)> {
    let header = header(stream).await?;
    let body = body(stream, &header, Without::Body).await;
    if body.is_cut { Err(Error::from(ErrorKind::UnexpectedEof)) } else { Ok((header, body.bytes)) }
}

/// The value of a field of a header.
#[must_use]
pub fn field<'h>(header: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = header.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

/// Reads the body that a header announces, as far as it comes.
pub async fn body(stream: &mut (impl AsyncRead + Unpin), header: &str, without: Without) -> Body {
    let mut body = Body::default();
    let is_chunked = field(header, "transfer-encoding")
        .is_some_and(|coding| coding.to_ascii_lowercase().ends_with("chunked"));
    let length = field(header, "content-length").and_then(|length| length.parse().ok());
    let read = match length {
        _ if is_chunked => chunks(stream, &mut body).await,
        Some(length) => part(stream, length, &mut body.bytes).await,
        None if without == Without::Connection => {
            // Whether a connection ends in order is not the body's affair.
            let _ = stream.read_to_end(&mut body.bytes).await;
            Ok(())
        }
        None => Ok(()),
    };
    body.is_cut = read.is_err();
    body
}

async fn chunks(stream: &mut (impl AsyncRead + Unpin), body: &mut Body) -> Result<()> {
    loop {
        let size = line(stream).await?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16)
            .map_err(|_| Error::new(ErrorKind::InvalidData, "no size of a chunk"))?;
        if size == 0 {
            break;
        }
        part(stream, size, &mut body.bytes).await?;
        line(stream).await?;
    }
    loop {
        let trailer = line(stream).await?;
        if trailer.is_empty() {
            return Ok(());
        }
        body.trailers.push_str(&trailer);
        body.trailers.push('\n');
    }
}

/// So many bytes, or those that come.
async fn part(stream: &mut (impl AsyncRead + Unpin), size: u64, to: &mut Vec<u8>) -> Result<()> {
    let read = stream.take(size).read_to_end(to).await?;
    let is_all = u64::try_from(read).is_ok_and(|read| read == size);
    if is_all { Ok(()) } else { Err(Error::from(ErrorKind::UnexpectedEof)) }
}

async fn line(stream: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await?);
    }
    line.truncate(line.len() - 2);
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_end_where_their_header_says() {
        let chunked = "Transfer-Encoding: chunked\r\n\r\n";
        for (header, wire, without, bytes, trailers, is_cut) in [
            ("Content-Length: 2\r\n\r\n", "okay", Without::Connection, "ok", "", false),
            ("Content-Length: 5\r\n\r\n", "ok", Without::Connection, "ok", "", true),
            ("\r\n", "all of it", Without::Connection, "all of it", "", false),
            ("\r\n", "next", Without::Body, "", "", false),
            (chunked, "2\r\nok\r\n1;x=y\r\n!\r\n0\r\n\r\n", Without::Body, "ok!", "", false),
            (chunked, "2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n", Without::Body, "ok", "X-Sum: 2\n", false),
            (chunked, "2\r\nok\r\n9\r\nbroken", Without::Body, "okbroken", "", true),
            (chunked, "no size\r\n", Without::Body, "", "", true),
        ] {
            let found = body(&mut wire.as_bytes(), header, without).await;
            let expected = Body { bytes: bytes.into(), trailers: trailers.to_owned(), is_cut };
            assert_eq!(found, expected, "{header}{wire}");
        }
    }
}
