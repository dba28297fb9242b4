//! One mail over SMTP (RFC 5321): STARTTLS where the server has it, implicit TLS on port 465, AUTH PLAIN, or LOGIN where that
//! is not offered.
//!
//! Mails, commands, answers and mechanisms are lettre's. The loop around them is ours: lettre's own connection keeps what a
//! server says between STARTTLS and the handshake, reads a line without a bound and ends in a panic at an empty offer.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use lettre::address::Envelope;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Mailbox, Mailboxes, SinglePart, header};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::commands::{Auth, Data, Ehlo, Mail as Sender, Quit, Rcpt, Starttls};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use lettre::{Address, Message};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{ConnectError, Egress, Stream};
use crate::messages;

/// Longest time for one answer of the server.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer of the server.
const LINE: u64 = 64 * 1024;

/// A mail.
#[derive(Debug, Clone)]
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
    /// `Date`.
    pub date: SystemTime,
    /// `Message-ID` without brackets: the same for a mail that is sent again.
    pub id: String,
}

/// A mail that the server does not take.
#[derive(Debug, thiserror::Error)]
pub enum SmtpError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
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
    /// Headers that make no mail.
    #[error(transparent)]
    Headers(#[from] lettre::error::Error),
    /// The server asks for the password in a way that nobody knows.
    #[error(transparent)]
    Password(#[from] lettre::transport::smtp::Error),
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
    talk: Talk<Box<dyn Stream>>,
    text: Vec<u8>,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ready")
    }
}

/// The end of a mail's text.
const END: &str = ".\r\n";

struct Talk<S>(BufReader<S>);

impl<S: Stream> Talk<S> {
    /// Sends a command and reads the answer, which must have a code that begins with `expected`.
    async fn say(&mut self, command: impl Display, expected: &str) -> Result<Response, SmtpError> {
        let stream = self.0.get_mut();
        stream.write_all(command.to_string().as_bytes()).await?;
        stream.flush().await?;
        self.answer(expected).await
    }

    async fn answer(&mut self, expected: &str) -> Result<Response, SmtpError> {
        let mut all = String::new();
        loop {
            let mut line = Vec::new();
            let mut limited = (&mut self.0).take(LINE);
            let read = tokio::time::timeout(TIMEOUT, limited.read_until(b'\n', &mut line)).await;
            read.map_err(|_| SmtpError::Silent)??;
            let ended = line.ends_with(b"\n");
            let line = String::from_utf8_lossy(line.trim_ascii_end());
            all.push_str(&line);
            if !ended || u64::try_from(all.len()).unwrap_or(u64::MAX) > LINE {
                return Err(SmtpError::Gone);
            }
            // a line may end with LF alone, and a code may stand alone
            all.push_str(if line.len() == 3 { " \r\n" } else { "\r\n" });
            if line.as_bytes().get(3) != Some(&b'-') {
                break;
            }
        }
        let refused = || SmtpError::Refused { answer: all.trim_end().to_owned() };
        let answer: Response = all.parse().map_err(|_| refused())?;
        if answer.code().to_string().starts_with(expected) { Ok(answer) } else { Err(refused()) }
    }

    async fn greet(&mut self) -> Result<Response, SmtpError> {
        self.say(Ehlo::new(ClientId::Domain("vela-controller".to_owned())), "250").await
    }
}

/// How to give a password to a server that answers EHLO so; `None`: it takes none. A server that knows neither way refuses PLAIN.
/// Unlike lettre's, it reads the old form `AUTH=LOGIN` and small letters.
fn mechanism(offers: &Response) -> Option<Mechanism> {
    let lines = offers.message().map(str::to_ascii_uppercase);
    let named: Vec<String> = lines
        .filter(|line| line.strip_prefix("AUTH").is_some_and(|rest| rest.starts_with([' ', '='])))
        .flat_map(|line| line.split([' ', '=']).skip(1).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let has = |name: &str| named.iter().any(|known| known == name);
    match named.is_empty() {
        true => None,
        false if has("LOGIN") && !has("PLAIN") => Some(Mechanism::Login),
        false => Some(Mechanism::Plain),
    }
}

/// Reaches the server and offers the mail.
///
/// # Errors
/// The mail was not sent.
pub async fn reach(mail: &Mail, egress: &Egress) -> Result<Ready, SmtpError> {
    let from = address(&mail.from)?;
    let to = mail.to.iter().map(|to| address(to)).collect::<Result<Vec<_>, _>>()?;
    if to.is_empty() {
        return Err(SmtpError::ToNobody);
    }
    let text = text(mail, &from, &to)?;
    let plain = super::connect(&mail.host, mail.port, egress).await?;
    let mut talk = if mail.port == 465 {
        let mut talk = encrypted(plain, mail).await?;
        talk.answer("220").await?;
        talk
    } else {
        begin(plain, mail).await?
    };
    let offers = talk.greet().await?;
    if let Some(mechanism) = mechanism(&offers).filter(|_| !mail.password.is_empty()) {
        authenticate(&mut talk, mechanism, mail).await?;
    }
    talk.say(Sender::new(Some(from), Vec::new()), "250").await?;
    for to in to {
        talk.say(Rcpt::new(to, Vec::new()), "25").await?;
    }
    talk.say(Data, "354").await?;
    Ok(Ready { talk, text })
}

/// Greets on a plain connection and encrypts it if the server can. A password is never sent in the clear.
async fn begin(plain: TcpStream, mail: &Mail) -> Result<Talk<Box<dyn Stream>>, SmtpError> {
    let local = plain.peer_addr().is_ok_and(|address| address.ip().is_loopback());
    let mut talk = Talk(BufReader::new(plain));
    talk.answer("220").await?;
    let offers = talk.greet().await?;
    if offers.message().any(|line| line.contains("STARTTLS")) {
        talk.say(Starttls, "220").await?;
        // whoever sits between could have added answers that would count as said inside of TLS
        if !talk.0.buffer().is_empty() {
            let (host, reason) = (mail.host.clone(), messages::TLS_SPOKEN_BEFORE.to_owned());
            return Err(ConnectError::Tls { host, reason }.into());
        }
        return Ok(encrypted(talk.0.into_inner(), mail).await?);
    }
    if !mail.password.is_empty() && mechanism(&offers).is_some() && !local {
        return Err(SmtpError::WithoutTls);
    }
    Ok(Talk(BufReader::new(Box::new(talk.0))))
}

async fn encrypted(plain: TcpStream, mail: &Mail) -> Result<Talk<Box<dyn Stream>>, ConnectError> {
    let secure = super::encrypt(plain, &mail.host, super::usual_tls()?).await?;
    Ok(Talk(BufReader::new(Box::new(secure))))
}

/// Gives the password: PLAIN in one line, LOGIN in answers to what the server asks.
async fn authenticate(
    talk: &mut Talk<Box<dyn Stream>>,
    mechanism: Mechanism,
    mail: &Mail,
) -> Result<(), SmtpError> {
    let credentials = Credentials::new(mail.from.clone(), mail.password.clone());
    let auth = Auth::new(mechanism, credentials.clone(), None)?;
    if mechanism == Mechanism::Plain {
        return talk.say(auth, "235").await.map(drop);
    }
    let asked = talk.say(auth, "334").await?;
    let user = Auth::new_from_response(mechanism, credentials.clone(), &asked)?;
    let asked = talk.say(user, "334").await?;
    let password = Auth::new_from_response(mechanism, credentials, &asked)?;
    talk.say(password, "235").await.map(drop)
}

/// Sends the text.
///
/// # Errors
/// Whether the server may have it.
pub async fn send(ready: Ready) -> Result<(), Failure> {
    let Ready { mut talk, text } = ready;
    let sent = talk.0.get_mut().write_all(&text).await;
    sent.map_err(|error| Failure::Unknown(error.to_string()))?;
    match talk.say(END, "250").await {
        Ok(_) => {
            let _ = talk.say(Quit, "").await;
            Ok(())
        }
        Err(error @ SmtpError::Refused { .. }) => Err(Failure::NotSent(error.to_string())),
        Err(error) => Err(Failure::Unknown(error.to_string())),
    }
}

/// An address. None ends a line of the protocol.
fn address(text: &str) -> Result<Address, SmtpError> {
    let wrong = || SmtpError::BadAddress { address: text.to_owned() };
    if text.chars().any(|c| c.is_control() || matches!(c, '<' | '>' | ' ')) {
        return Err(wrong());
    }
    text.parse().map_err(|_| wrong())
}

/// Headers and body. The body is in base64, so no line is longer than allowed and none begins with a dot.
fn text(mail: &Mail, from: &Address, to: &[Address]) -> Result<Vec<u8>, SmtpError> {
    let alias: String = mail
        .alias
        .chars()
        .filter(|c| !matches!(c, '"' | '\\' | '<' | '>'))
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let alias = Some(alias.trim().to_owned()).filter(|alias| !alias.is_empty());
    let receivers = to.iter().map(|to| Mailbox::new(None, to.clone())).collect::<Mailboxes>();
    let part = SinglePart::builder()
        .header(ContentType::TEXT_HTML)
        .header(ContentTransferEncoding::Base64)
        .body(mail.body.clone().into_bytes());
    let message = Message::builder()
        .from(Mailbox::new(alias, from.clone()))
        .header(header::To::from(receivers))
        .subject(mail.subject.clone())
        .date(mail.date)
        .message_id(Some(format!("<{}>", mail.id)))
        // who receives it is said in commands; lettre would read it from the headers again
        .envelope(Envelope::new(Some(from.clone()), to.to_vec())?)
        .singlepart(part)?;
    Ok(message.formatted())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::policy::open;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
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
            date: SystemTime::UNIX_EPOCH,
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
            "From: Robot <a@example.com>\r\n",
            "To: b@example.com, c@example.com\r\n",
            "Date: Thu, 01 Jan 1970 00:00:00 +0000\r\n",
            "Message-ID: <x@example.com>\r\n",
            "MIME-Version: 1.0\r\n",
            "Subject: =?utf-8?b?R3LDvMOfZQ==?=\r\n",
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
            assert_eq!(mechanism(&offers.parse().unwrap()), expected, "{offers}");
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

    /// Lines that end with LF, codes that stand alone, offers without a word, bytes that are no text.
    #[tokio::test]
    async fn an_answer_is_read_as_servers_write_it() {
        let (port, heard) = server_with("250-\n250-   \r\n250\n", "250\n").await;
        send(reach(&mail(port), &open()).await.unwrap()).await.unwrap();
        assert!(!heard.await.unwrap().contains("AUTH"), "no mechanism is offered");
        let mut talk = Talk(BufReader::new(std::io::Cursor::new(b"220 gr\xfc\xdfe\r\n".to_vec())));
        assert!(talk.answer("220").await.is_ok());
        let endless = vec![b'2'; 1 << 20];
        let mut talk = Talk(BufReader::new(std::io::Cursor::new(endless)));
        assert!(matches!(talk.answer("220").await, Err(SmtpError::Gone)));
    }

    /// What is said between STARTTLS and the handshake could be anybody's.
    #[tokio::test]
    async fn nothing_counts_that_is_said_before_the_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            stream.get_mut().write_all(b"220 hi\r\n").await.unwrap();
            let mut heard = String::new();
            stream.read_line(&mut heard).await.unwrap();
            stream.get_mut().write_all(b"250 STARTTLS\r\n").await.unwrap();
            stream.read_line(&mut heard).await.unwrap();
            stream.get_mut().write_all(b"220 go\r\n250 AUTH PLAIN\r\n").await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            (heard, rest)
        });
        let error = reach(&mail(port), &open()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            messages::tls_failed("127.0.0.1", messages::TLS_SPOKEN_BEFORE)
        );
        assert_eq!(
            server.await.unwrap(),
            ("EHLO vela-controller\r\nSTARTTLS\r\n".to_owned(), Vec::new())
        );
    }

    /// Whatever a name or a subject is, the mail is one with the same headers.
    #[test]
    fn names_and_subjects_add_no_line() {
        let from = address("a@example.com").unwrap();
        let long = "Grüße ".repeat(60);
        for text in [
            "",
            " ",
            "Robot",
            "a, b; (c) [d] @e: .",
            "it's \"quoted\" \\ <x@example.com>",
            "x\r\nBcc: evil@example.com\r\n\r\nbody",
            "\r\n.\r\nQUIT\r\n",
            "\0\x1b\u{2028}\u{85}",
            "日本語 テスト",
            long.as_str(),
        ] {
            let mail = Mail { alias: text.into(), subject: text.into(), ..mail(1) };
            let made = super::text(&mail, &from, std::slice::from_ref(&from));
            let made = String::from_utf8(made.unwrap_or_else(|e| panic!("{text:?}: {e}"))).unwrap();
            let (head, body) = made.split_once("\r\n\r\n").unwrap();
            assert!(head.is_ascii() && head.lines().all(|line| line.len() < 200), "{head}");
            let headers: Vec<&str> = head
                .split("\r\n")
                .filter(|line| !line.starts_with([' ', '\t']))
                .map(|line| line.split(':').next().unwrap())
                .collect();
            let expected = "From To Subject Date Message-ID MIME-Version Content-Type Content-Transfer-Encoding";
            assert_eq!(headers.join(" "), expected, "{head}");
            assert!(body.ends_with("\r\n") && !body.contains('.'), "{body}");
        }
    }

    #[tokio::test]
    async fn addresses_cannot_carry_commands() {
        for (from, to) in
            [("a@b\r\nRCPT TO:<x@y>", "b@c"), ("a@b", "b@c> X"), ("", "b@c"), ("a@b", "b")]
        {
            let mail = Mail { from: from.into(), to: vec![to.into()], ..mail(1) };
            assert!(reach(&mail, &open()).await.unwrap_err().to_string().contains("address"));
        }
    }
}
