//! A headless browser, driven by WebDriver on loopback.
//!
//! Chromium and its driver are Debian's packages `chromium` and `chromium-driver`; where they are not installed there is no
//! browser, and whoever wants one says so and skips. The protocol is JSON over HTTP and this is what of it tests need: a crate for
//! it would bring a licence that deny.toml refuses (fantoccini) or turn the order of all JSON maps of the workspace (thirtyfour).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::process::{Invocation, Process, Watchdog};

/// How long a page may take to show what is waited for, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(90);

/// The key Enter, in WebDriver's code.
pub const ENTER: &str = "\u{e007}";

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    driver: Process,
    port: u16,
    session: String,
}

/// The first of these programs that is installed.
fn installed(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let of =
        |name: &&str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    names.iter().find_map(of)
}

/// A command of the protocol: the value of its answer.
async fn command(port: u16, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, format!("127.0.0.1:{port}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.map(Value::to_string).unwrap_or_default())))?;
    let answer = sender.send_request(request).await?;
    let code = answer.status();
    let bytes = answer.into_body().collect().await?.to_bytes();
    let mut answer: Value = serde_json::from_slice(&bytes)?;
    let value = answer.get_mut("value").map(Value::take).unwrap_or_default();
    if !code.is_success() {
        bail!("{path}: {value}");
    }
    Ok(value)
}

impl Browser {
    /// Starts a browser; `None` where none is installed.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(watchdog: &Watchdog, dir: &Path) -> Result<Option<Self>> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let (Some(driver), Some(browser)) = (installed(&["chromedriver"]), installed(&names))
        else {
            return Ok(None);
        };
        let port = crate::cluster::free_port()?;
        let invocation = Invocation::new(driver).args([format!("--port={port}")]);
        let driver = watchdog.spawn("chromedriver", &invocation, &dir.join("chromedriver.log"))?;
        let deadline = Instant::now() + LIMIT;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            driver.check()?;
            if Instant::now() > deadline {
                bail!("the driver does not listen");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let profile = dir.join("browser");
        let options = json!({"binary": browser, "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--window-size=1400,1000", "--no-first-run", "--disable-background-networking", "--disable-component-update",
            format!("--user-data-dir={}", profile.display())]});
        let wanted = json!({"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let body = json!({"capabilities": {"alwaysMatch": wanted}});
        let started = command(port, Method::POST, "/session", Some(&body)).await;
        let started = started.with_context(|| crate::process::tail(driver.log(), 20))?;
        let session = started.get("sessionId").and_then(Value::as_str).context("no session")?;
        Ok(Some(Self { driver, port, session: session.to_owned() }))
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let path = format!("/session/{}/{path}", self.session);
        command(self.port, Method::POST, &path, Some(body)).await
    }

    /// Goes to an address.
    ///
    /// # Errors
    /// Nobody answers there.
    pub async fn goto(&self, address: &str) -> Result<()> {
        self.post("url", &json!({ "url": address })).await.map(|_| ())
    }

    /// Loads the page again.
    ///
    /// # Errors
    /// Nobody answers there.
    pub async fn refresh(&self) -> Result<()> {
        self.post("refresh", &json!({})).await.map(|_| ())
    }

    /// Types into what has the focus.
    ///
    /// # Errors
    /// The browser is gone.
    pub async fn keys(&self, text: &str) -> Result<()> {
        let strokes: Vec<Value> = text
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|what| json!({"type": what, "value": key})))
            .collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": strokes});
        self.post("actions", &json!({ "actions": [keyboard] })).await.map(|_| ())
    }

    /// Keeps what the page looks like.
    ///
    /// # Errors
    /// The file cannot be written, or the browser is gone.
    pub async fn screenshot(&self, file: &Path) -> Result<()> {
        let path = format!("/session/{}/screenshot", self.session);
        let image = command(self.port, Method::GET, &path, None).await?;
        std::fs::write(file, BASE64_STANDARD.decode(image.as_str().unwrap_or_default())?)?;
        Ok(())
    }

    /// What a script returns.
    ///
    /// # Errors
    /// The page or the browser is gone, or the script fails.
    pub async fn eval(&self, script: &str) -> Result<Value> {
        self.post("execute/sync", &json!({"script": script, "args": []})).await
    }

    /// What a script hands to its last argument, a function.
    ///
    /// # Errors
    /// As [`Browser::eval`]; it never does.
    pub async fn eval_later(&self, script: &str) -> Result<Value> {
        self.post("execute/async", &json!({"script": script, "args": []})).await
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// It does not come true: with what the page shows.
    pub async fn until(&self, expression: &str) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if self.eval(&format!("return Boolean({expression})")).await? == json!(true) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let shown = self.eval("return document.body.innerText").await?;
                bail!("never true: {expression}\n{}", shown.as_str().unwrap_or_default());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the browser complained about since the last time: scripts that failed, what the page's policy forbade.
    ///
    /// # Errors
    /// The browser is gone.
    pub async fn complaints(&self) -> Result<Vec<String>> {
        let entries = self.post("se/log", &json!({"type": "browser"})).await?;
        let entries = entries.as_array().cloned().unwrap_or_default();
        let message = |entry: &Value| entry.get("message")?.as_str().map(str::to_owned);
        Ok(entries.iter().filter_map(message).collect())
    }

    /// Ends it.
    ///
    /// # Errors
    /// It has ended before.
    pub async fn quit(self) -> Result<()> {
        let path = format!("/session/{}", self.session);
        command(self.port, Method::DELETE, &path, None).await?;
        self.driver.stop(Duration::from_secs(5))?;
        Ok(())
    }
}
