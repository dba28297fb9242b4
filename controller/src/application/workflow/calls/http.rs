//! `vela/http`: requests. A POST must not be repeated.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, Uri};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use vela_cluster::Target;
use vela_workflow::Reply;

use crate::application::workflow::error::StepError;
use crate::egress::calls::{Ended, Lost};
use crate::egress::http::{
    DEFAULT_TIMEOUT, HttpError, HttpRequest, HttpResponse, MAX_TIMEOUT, get, reach, send,
};
use crate::messages;

use super::outgoing::{Outgoing, Progress};
use super::{CallOutcome, Calling, Pending, text};

impl Calling<'_, '_, '_> {
    pub(super) async fn request(&mut self, call: &Pending) -> CallOutcome {
        match self.requested(call).await {
            Ok(outcome) => outcome,
            Err(error) => Reply::from(error).into(),
        }
    }

    async fn requested(&mut self, call: &Pending) -> Result<CallOutcome, StepError> {
        let (method, url) = (method(&call.params)?, url(&call.params)?);
        let named = go_method(&method, &shown(&url));
        let host = url.host().unwrap_or_default();
        // A POST may have effects; every other method may be repeated.
        let once = method == Method::POST;
        let outgoing = if once {
            Outgoing::once(call, host, named)
        } else {
            Outgoing::repeatable(call, host, named)
        };
        let ended = match self.progress(&outgoing).await {
            Progress::Answered(outcome) => return Ok(outcome),
            Progress::MayBegin => {
                // Read and checked before the intent is stored: a request that cannot be made
                // leaves no trace.
                let http_request = self.parsed_request(&call.params).await?;
                self.admit(&http_request, &call.params)?;
                let work = self.exchange(http_request, once);
                return Ok(self.begin(outgoing, work).await);
            }
            Progress::Ended(ended) => ended,
        };
        // What it was asked with is taken out of what is shown of the answer.
        if reads_secrets(&call.params) {
            let _ = self.parsed_request(&call.params).await;
        }
        let reply = self.ended(&outgoing, ended, |response| match call.provider.as_str() {
            "op" => json!({ "response": returned(&response) }),
            _ => returned(&response),
        });
        Ok(reply.into())
    }

    /// The request itself; one that must not be repeated follows no redirects.
    fn exchange(&self, http_request: HttpRequest, once: bool) -> BoxFuture<'static, Ended> {
        // Not sent: certain to have had no effect.
        let egress = self.session.ctx.workflow.egress.clone();
        let not_sent = |error: HttpError| Lost::NotSent(error.to_string());
        let work = async move {
            if !once {
                return get(http_request, &egress).await.map_err(not_sent);
            }
            let ready = reach(http_request, &egress).await.map_err(not_sent)?;
            send(ready).await.map_err(|error| Lost::Unknown(error.to_string()))
        };
        work.boxed()
    }

    fn admit(&self, http_request: &HttpRequest, params: &Value) -> Result<(), StepError> {
        let Some(limiter) = params.pointer("/request/ratelimiter") else { return Ok(()) };
        let limit = limiter.get("limit").and_then(Value::as_u64).unwrap_or(0);
        let period = text(limiter, "period");
        let length = period.parse::<vela_gocompat::duration::Duration>().ok();
        let length = length.and_then(vela_gocompat::duration::Duration::to_std);
        let length = length.ok_or_else(|| messages::bad_duration(period))?;
        // By method and address: the limit is about the server, whoever asks.
        let key = format!("{}-{}", http_request.method, shown(&http_request.url));
        let admitted = self.session.ctx.workflow.rates.lock().take(&key, limit, length);
        if admitted { Ok(()) } else { Err(messages::RATE_EXCEEDED.into()) }
    }

    async fn parsed_request(&mut self, params: &Value) -> Result<HttpRequest, StepError> {
        let request = params.get("request").cloned().unwrap_or_default();
        let (method, url) = (method(params)?, url(params)?);
        let mut headers = Vec::new();
        for (name, value) in request.get("header").and_then(Value::as_object).into_iter().flatten()
        {
            headers.push(header(name, value.as_str().unwrap_or_default())?);
        }
        let wanted = request.get("headersFromSecret").and_then(Value::as_array).cloned();
        for item in wanted.into_iter().flatten() {
            let (name, secret, key) =
                (text(&item, "header"), text(&item, "secret"), text(&item, "key"));
            let found = self.secret(&self.session.owner.namespace.clone(), secret).await;
            let found = found.map_err(|e| messages::header_secret(secret, name, &e.to_string()))?;
            let value = secret_value(&found, key)
                .ok_or_else(|| messages::header_secret_key(key, secret, name))?;
            headers.push(header(name, &String::from_utf8_lossy(&value))?);
        }
        // A password in the address is sent as a header and shown nowhere.
        if let Some(auth) = url.authority().and_then(|a| a.as_str().rsplit_once('@')) {
            let value = format!("Basic {}", BASE64.encode(auth.0));
            headers.push(header("authorization", &value)?);
        }
        let timeout = match text(&request, "timeout") {
            "" => DEFAULT_TIMEOUT,
            wanted => {
                let length = wanted.parse::<vela_gocompat::duration::Duration>().ok();
                let length = length.and_then(vela_gocompat::duration::Duration::to_std);
                length.ok_or_else(|| messages::bad_duration(wanted))?.min(MAX_TIMEOUT)
            }
        };
        let tls = match params.get("tls_config") {
            Some(config) => Some(self.tls(config).await?),
            None => None,
        };
        let body = text(&request, "body").as_bytes().to_vec();
        Ok(HttpRequest {
            method,
            url,
            headers,
            body,
            // Zero would be no time at all.
            timeout: timeout.max(Duration::from_millis(1)),
            tls,
        })
    }

    async fn secret(&mut self, namespace: &str, name: &str) -> Result<Value, StepError> {
        let target = Target { api_version: "v1", kind: "Secret", namespace, name };
        let session = &*self.session;
        let found = session.io().get(&target).await;
        let found = found?;
        self.keep_secret(&found);
        Ok(found)
    }

    async fn tls(
        &mut self,
        config: &Value,
    ) -> Result<std::sync::Arc<rustls::ClientConfig>, StepError> {
        let own = self.session.owner.namespace.clone();
        let namespace = match text(config, "namespace") {
            "" => own.as_str(),
            namespace => namespace,
        };
        let name = text(config, "secret");
        let secret = self.secret(namespace, name).await?;
        // the reference wants the content encoded once more; plain PEM is what people store
        let pem = |key: &str| {
            let bytes = secret_value(&secret, key)?;
            if bytes.starts_with(b"-----") {
                return Some(bytes);
            }
            let text: Vec<u8> = bytes.into_iter().filter(|b| !b.is_ascii_whitespace()).collect();
            BASE64.decode(text).ok()
        };
        let wrong = |key: &str| messages::tls_secret(name, key);
        let mut roots = rustls::RootCertStore::empty();
        let authorities = pem("ca.crt").ok_or_else(|| wrong("ca.crt"))?;
        for certificate in CertificateDer::pem_slice_iter(&authorities) {
            roots.add(certificate.map_err(|_| wrong("ca.crt"))?).map_err(|_| wrong("ca.crt"))?;
        }
        // A client certificate is optional, and needs its key.
        let own = match (pem("client.crt"), pem("client.key")) {
            (Some(chain), Some(key)) => {
                let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
                let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| wrong("client.key"))?;
                Some((chain.map_err(|_| wrong("client.crt"))?, key))
            }
            _ => None,
        };
        crate::egress::tls(roots, own).map_err(|error| error.to_string().into())
    }
}

fn method(params: &Value) -> Result<Method, StepError> {
    match text(params, "method") {
        "" => Ok(Method::GET),
        method => Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string().into()),
    }
}

fn url(params: &Value) -> Result<Uri, StepError> {
    let url = text(params, "url").parse();
    url.map_err(|error: http::uri::InvalidUri| messages::bad_url(&error.to_string()).into())
}

fn reads_secrets(params: &Value) -> bool {
    params.pointer("/request/headersFromSecret").is_some() || params.get("tls_config").is_some()
}

fn secret_value(secret: &Value, key: &str) -> Option<Vec<u8>> {
    // Data of Secrets is base64 in JSON.
    let encoded = secret.get("data")?.get(key)?.as_str()?;
    BASE64.decode(encoded).ok()
}

// Whatever a header value contains, it cannot smuggle in another header.
fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), StepError> {
    let key = name.parse().map_err(|_| messages::bad_header(name))?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| messages::bad_header(name))?;
    Ok((key, value))
}

fn returned(response: &HttpResponse) -> Value {
    json!({
        "body": response.body, "header": response.headers, "trailer": response.trailers,
        "statusCode": response.status,
    })
}

/// An address without user, password and query: those may be secret.
pub(super) fn shown(url: &Uri) -> String {
    let host = url.authority().map(|a| a.as_str()).unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{}://{host}{}", url.scheme_str().unwrap_or_default(), url.path())
}

/// How Go begins the error of a request: `Post "http://..."`.
pub(super) fn go_method(method: &Method, url: &str) -> String {
    let (first, rest) = method.as_str().split_at(method.as_str().len().min(1));
    format!("{first}{} {url:?}", rest.to_lowercase())
}
