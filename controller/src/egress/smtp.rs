//! One mail over SMTP (RFC 5321): STARTTLS where the server has it, implicit TLS on port 465, AUTH PLAIN, or LOGIN where that
//! is not offered.
//!
//! Our own and not lettre (0.11, the one kept crate that takes a connection which was checked before): it brings 27 crates to Linux,
//! 17 of them tables and parsers of international domain names, for the 200 lines here.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Egress, Stream};
use crate::messages;

/// Longest time for one answer of the server.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer of the server.
const LINE: u64 = 64 * 1024;

/// A mail.
#[derive(Debug, Clone, Default)]
pub struct Mail {
    /// Server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Address of the sender, also the user.
    pub from: String,
    /// Name of the sender.
    pub alias: String,
    /// Password; empty: no authentication.
    pub password: String,
    /// Receivers.
    pub to: Vec<String>,
    /// Subject.
    pub subject: String,
    /// HTML.
    pub body: String,
    /// `Date`, as RFC 5322 writes it.
    pub date: String,
    /// `Message-ID` without brackets: the same for a mail that is sent again.
    pub id: String,
}

/// A mail that the server does not take.
#[derive(Debug, thiserror::Error)]
pub enum SmtpError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] super::ConnectError),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The server does not answer.
    #[error("{}", messages::MAIL_SERVER_SILENT)]
    Silent,
    /// The server hung up, or answers without an end.
    #[error("{}", messages::MAIL_SERVER_GONE)]
    Gone,
    /// The server answered something else than what lets the mail go on.
    #[error("{}", messages::mail_refused(.answer))]
    Refused {
        /// What it answered.
        answer: String,
    },
    /// A password, and no TLS to send it in.
    #[error("{}", messages::MAIL_WITHOUT_TLS)]
    WithoutTls,
    /// An address that could end a line of the protocol.
    #[error("{}", messages::bad_mail_address(.address))]
    BadAddress {
        /// The address.
        address: String,
    },
    /// A mail to nobody.
    #[error("{}", messages::MAIL_TO_NOBODY)]
    ToNobody,
}

/// How far a mail came that was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The server does not have it.
    NotSent(String),
    /// The server may have it.
    Unknown(String),
}

/// A server that takes the mail: sender and receivers are accepted, the text is not sent yet.
pub struct Ready {
    talk: Talk,
    text: String,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ready")
    }
}

struct Talk(BufReader<Box<dyn Stream>>);

impl Talk {
    /// Sends a line and reads the answer, which must begin with `expected`.
    async fn say(&mut self, line: &str, expected: &str) -> Result<String, SmtpError> {
        if !line.is_empty() {
            let bytes = format!("{line}\r\n");
            let stream = self.0.get_mut();
            stream.write_all(bytes.as_bytes()).await?;
            stream.flush().await?;
        }
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let mut limited = (&mut self.0).take(LINE);
            let read = tokio::time::timeout(TIMEOUT, limited.read_line(&mut line)).await;
            let n = read.map_err(|_| SmtpError::Silent)??;
            if n == 0 {
                return Err(SmtpError::Gone);
            }
            all.push_str(&line);
            if u64::try_from(all.len()).unwrap_or(u64::MAX) > LINE {
                return Err(SmtpError::Gone);
            }
            if line.as_bytes().get(3) != Some(&b'-') {
                break;
            }
        }
        if all.starts_with(expected) { Ok(all) } else { Err(refused(&all)) }
    }
}

/// How a password is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mechanism {
    Plain,
    Login,
}

impl Mechanism {
    /// The one to use with a server that answers EHLO so; `None`: it takes no password. A server that has neither refuses PLAIN.
    fn of(offers: &str) -> Option<Self> {
        let lines = offers.lines().filter_map(|line| line.get(4..)).map(str::to_ascii_uppercase);
        let named: Vec<String> = lines
            .filter(|line| {
                line.strip_prefix("AUTH").is_some_and(|rest| rest.starts_with([' ', '=']))
            })
            .flat_map(|line| line.split([' ', '=']).skip(1).map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let has = |name: &str| named.iter().any(|known| known == name);
        match named.is_empty() {
            true => None,
            false if has("LOGIN") && !has("PLAIN") => Some(Self::Login),
            false => Some(Self::Plain),
        }
    }
}

fn refused(answer: &str) -> SmtpError {
    SmtpError::Refused { answer: answer.trim_end().to_owned() }
}

/// Reaches the server and offers the mail.
///
/// # Errors
/// The mail was not sent.
pub async fn reach(mail: &Mail, egress: &Egress) -> Result<Ready, SmtpError> {
    check(mail)?;
    let plain = super::connect(&mail.host, mail.port, egress).await?;
    let mut talk = if mail.port == 465 {
        let secure = super::encrypt(plain, &mail.host, super::usual_tls()?).await?;
        let mut talk = Talk(BufReader::new(Box::new(secure)));
        talk.say("", "220").await?;
        talk
    } else {
        begin(plain, mail).await?
    };
    let offers = talk.say("EHLO vela-controller", "250").await?;
    match Mechanism::of(&offers).filter(|_| !mail.password.is_empty()) {
        None => {}
        Some(Mechanism::Plain) => {
            let secret = BASE64.encode(format!("\0{}\0{}", mail.from, mail.password));
            talk.say(&format!("AUTH PLAIN {secret}"), "235").await?;
        }
        Some(Mechanism::Login) => {
            talk.say("AUTH LOGIN", "334").await?;
            talk.say(&BASE64.encode(&mail.from), "334").await?;
            talk.say(&BASE64.encode(&mail.password), "235").await?;
        }
    }
    talk.say(&format!("MAIL FROM:<{}>", mail.from), "250").await?;
    for to in &mail.to {
        talk.say(&format!("RCPT TO:<{to}>"), "25").await?;
    }
    talk.say("DATA", "354").await?;
    Ok(Ready { talk, text: text(mail) })
}

/// Greets on a plain connection and encrypts it if the server can. A password is never sent in the clear.
async fn begin(mut plain: TcpStream, mail: &Mail) -> Result<Talk, SmtpError> {
    // nothing may be read beyond the answers before the handshake, so this part reads byte by byte
    raw(&mut plain, "", "220").await?;
    let offers = raw(&mut plain, "EHLO vela-controller", "250").await?;
    if offers.contains("STARTTLS") {
        raw(&mut plain, "STARTTLS", "220").await?;
        let secure = super::encrypt(plain, &mail.host, super::usual_tls()?).await?;
        return Ok(Talk(BufReader::new(Box::new(secure))));
    }
    let local = plain.peer_addr().is_ok_and(|address| address.ip().is_loopback());
    if !mail.password.is_empty() && Mechanism::of(&offers).is_some() && !local {
        return Err(SmtpError::WithoutTls);
    }
    Ok(Talk(BufReader::new(Box::new(plain))))
}

async fn raw(stream: &mut TcpStream, line: &str, expected: &str) -> Result<String, SmtpError> {
    if !line.is_empty() {
        let bytes = format!("{line}\r\n");
        stream.write_all(bytes.as_bytes()).await?;
    }
    let mut all = String::new();
    let mut at = 0;
    loop {
        let byte = tokio::time::timeout(TIMEOUT, stream.read_u8()).await;
        let byte = byte.map_err(|_| SmtpError::Silent)?;
        all.push(char::from(byte.map_err(|_| SmtpError::Gone)?));
        if all.ends_with('\n') {
            let line = all.get(at..).unwrap_or_default();
            if line.as_bytes().get(3) != Some(&b'-') {
                break;
            }
            at = all.len();
        }
        if u64::try_from(all.len()).unwrap_or(u64::MAX) > LINE {
            return Err(SmtpError::Gone);
        }
    }
    if all.starts_with(expected) { Ok(all) } else { Err(refused(&all)) }
}

/// Sends the text.
///
/// # Errors
/// Whether the server may have it.
pub async fn send(ready: Ready) -> Result<(), Failure> {
    let Ready { mut talk, text } = ready;
    let sent = talk.0.get_mut().write_all(text.as_bytes()).await;
    sent.map_err(|error| Failure::Unknown(error.to_string()))?;
    match talk.say(".", "250").await {
        Ok(_) => {
            let _ = talk.say("QUIT", "").await;
            Ok(())
        }
        Err(error @ SmtpError::Refused { .. }) => Err(Failure::NotSent(error.to_string())),
        Err(error) => Err(Failure::Unknown(error.to_string())),
    }
}

/// Nothing of a mail may end a line of the protocol.
fn check(mail: &Mail) -> Result<(), SmtpError> {
    let plain = |text: &str| {
        !text.is_empty() && !text.chars().any(|c| c.is_control() || matches!(c, '<' | '>' | ' '))
    };
    let wrong = std::iter::once(&mail.from).chain(&mail.to).find(|address| !plain(address));
    match wrong {
        Some(address) => Err(SmtpError::BadAddress { address: address.clone() }),
        None if mail.to.is_empty() => Err(SmtpError::ToNobody),
        None => Ok(()),
    }
}

/// Headers and body. Everything that is not plain is encoded, so no line is longer than allowed and none begins with a dot.
fn text(mail: &Mail) -> String {
    let word = |text: &str| {
        if text.is_ascii() && !text.contains(|c: char| c.is_control()) && text.len() < 60 {
            text.to_owned()
        } else {
            // encoded words are at most 75 characters; they end between characters
            let mut words = Vec::new();
            let mut rest = text;
            while !rest.is_empty() {
                let mut end = rest.len().min(42);
                while !rest.is_char_boundary(end) {
                    end -= 1;
                }
                let (head, tail) = rest.split_at(end);
                words.push(format!("=?UTF-8?B?{}?=", BASE64.encode(head)));
                rest = tail;
            }
            words.join("\r\n ")
        }
    };
    let from = if mail.alias.is_empty() {
        mail.from.clone()
    } else {
        let alias: String =
            mail.alias.chars().filter(|c| !matches!(c, '"' | '\\' | '<' | '>')).collect();
        let alias = word(&alias);
        if alias.starts_with("=?") {
            format!("{alias} <{}>", mail.from)
        } else {
            format!("\"{alias}\" <{}>", mail.from)
        }
    };
    let mut out = String::new();
    // writing into a string cannot fail
    let _ = write!(
        out,
        "From: {from}\r\nTo: {}\r\nSubject: {}\r\nDate: {}\r\nMessage-ID: <{}>\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/html; charset=UTF-8\r\nContent-Transfer-Encoding: base64\r\n\r\n",
        mail.to.join(",\r\n "),
        word(&mail.subject),
        mail.date,
        mail.id,
    );
    let encoded = BASE64.encode(&mail.body);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(76));
        out.push_str(line);
        out.push_str("\r\n");
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::policy::open;
    use tokio::net::TcpListener;

    fn mail(port: u16) -> Mail {
        Mail {
            host: "127.0.0.1".into(),
            port,
            from: "a@example.com".into(),
            alias: "Robot".into(),
            password: "secret".into(),
            to: vec!["b@example.com".into(), "c@example.com".into()],
            subject: "Grüße".into(),
            body: "<b>hi</b>\r\n.\r\n".repeat(20),
            date: "Thu, 1 Jan 2026 00:00:00 +0000".into(),
            id: "x@example.com".into(),
        }
    }

    /// A server that says what it is told to, line by line, and gives what it heard.
    async fn server(answer_to_text: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
        server_with("250-hi\r\n250 AUTH PLAIN\r\n", answer_to_text).await
    }

    async fn server_with(
        offers: &'static str,
        answer_to_text: &'static str,
    ) -> (u16, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            stream.get_mut().write_all(b"220 hi\r\n").await.unwrap();
            let (mut heard, mut in_text) = (String::new(), false);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    return heard;
                }
                heard.push_str(&line);
                let answer = match line.split_whitespace().next().unwrap_or_default() {
                    "." if in_text => {
                        in_text = false;
                        answer_to_text
                    }
                    _ if in_text => continue,
                    "EHLO" => offers,
                    "AUTH" if line.trim_end() == "AUTH LOGIN" => "334 VXNlcm5hbWU6\r\n",
                    // the user a@example.com
                    "YUBleGFtcGxlLmNvbQ==" => "334 UGFzc3dvcmQ6\r\n",
                    "AUTH" | "c2VjcmV0" => "235 ok\r\n",
                    "DATA" => {
                        in_text = true;
                        "354 go\r\n"
                    }
                    "QUIT" => return heard,
                    _ => "250 ok\r\n",
                };
                if answer.is_empty() {
                    return heard;
                }
                stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (port, task)
    }

    #[tokio::test]
    async fn a_mail_is_sent() {
        let (port, heard) = server("250 taken\r\n").await;
        let mail = mail(port);
        send(reach(&mail, &open()).await.unwrap()).await.unwrap();
        let heard = heard.await.unwrap();
        for line in [
            "MAIL FROM:<a@example.com>\r\n",
            "RCPT TO:<c@example.com>\r\n",
            "From: \"Robot\" <a@example.com>\r\n",
            "Subject: =?UTF-8?B?R3LDvMOfZQ==?=\r\n",
        ] {
            assert!(heard.contains(line), "{line} in {heard}");
        }
        let body = heard.split("base64\r\n\r\n").nth(1).unwrap().split("\r\n.\r\n").next().unwrap();
        assert_eq!(BASE64.decode(body.replace("\r\n", "")).unwrap(), mail.body.as_bytes());
    }

    #[tokio::test]
    async fn a_server_without_plain_is_given_the_password_by_login() {
        let (port, heard) = server_with("250-hi\r\n250 AUTH LOGIN\r\n", "250 taken\r\n").await;
        send(reach(&mail(port), &open()).await.unwrap()).await.unwrap();
        let heard = heard.await.unwrap();
        let login = "AUTH LOGIN\r\nYUBleGFtcGxlLmNvbQ==\r\nc2VjcmV0\r\nMAIL FROM";
        assert!(heard.contains(login), "{heard}");
    }

    #[test]
    fn the_mechanism_is_one_that_the_server_has() {
        for (offers, expected) in [
            ("250-hi\r\n250 AUTH PLAIN LOGIN\r\n", Some(Mechanism::Plain)),
            ("250-hi\r\n250-AUTH LOGIN NTLM\r\n250 SIZE 1\r\n", Some(Mechanism::Login)),
            ("250-hi\r\n250 auth=LOGIN\r\n", Some(Mechanism::Login)),
            ("250 AUTH CRAM-MD5\r\n", Some(Mechanism::Plain)),
            ("250-AUTHORITY.example\r\n250 SIZE 1\r\n", None),
        ] {
            assert_eq!(Mechanism::of(offers), expected, "{offers}");
        }
    }

    #[tokio::test]
    async fn whether_a_mail_was_sent() {
        let (port, _heard) = server("554 no\r\n").await;
        let refused = send(reach(&mail(port), &open()).await.unwrap()).await;
        assert!(matches!(refused, Err(Failure::NotSent(text)) if text.contains("554 no")));
        let (port, _heard) = server("").await;
        let lost = send(reach(&mail(port), &open()).await.unwrap()).await;
        assert!(matches!(lost, Err(Failure::Unknown(_))));
    }

    #[tokio::test]
    async fn addresses_cannot_carry_commands() {
        for (from, to) in [("a@b\r\nRCPT TO:<x@y>", "b@c"), ("a@b", "b@c> X"), ("", "b@c")] {
            let mail = Mail { from: from.into(), to: vec![to.into()], ..mail(1) };
            assert!(reach(&mail, &open()).await.unwrap_err().to_string().contains("address"));
        }
    }
}
