//! `vela/http`: requests. One that must not be repeated (POST) notes its intent before it is sent.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, Uri};
use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use vela_cluster::Target;
use vela_workflow::{Reply, effects};

use crate::egress::calls::{Call, Ended, Lost, Slot};
use crate::egress::http::{HttpError, HttpRequest, HttpResponse, LONGEST, USUAL, get, reach, send};
use crate::messages;

use super::{CallOutcome, Calling, Pending, text};

/// A call to a server outside the cluster that is ready to begin.
pub(super) struct Outgoing {
    /// Which call.
    pub(super) slot: Slot,
    /// Host as the step names it: an address or a name.
    pub(super) host: String,
    /// The call in messages.
    pub(super) named: String,
    /// Must not be repeated.
    pub(super) once: bool,
    /// The call itself.
    pub(super) work: BoxFuture<'static, Ended>,
}

impl Calling<'_, '_, '_> {
    pub(super) async fn request(&mut self, call: &Pending) -> CallOutcome {
        let legacy = call.provider == "op";
        let wrap = |value: Value| if legacy { json!({ "response": value }) } else { value };
        let (method, url) = match (method(&call.params), url(&call.params)) {
            (Ok(method), Ok(url)) => (method, url),
            (Err(error), _) | (_, Err(error)) => return Reply::Error(error).into(),
        };
        let named = go_method(&method, &shown(&url));
        let once = method == Method::POST;
        let slot = self.slot(call);
        let ended = match self.session.ctx.calls.find(&slot) {
            Some(Call::InFlight) => return CallOutcome::Waits(named),
            Some(Call::Ended(ended)) => ended,
            None => return self.begin(call, slot, named, once).await,
        };
        if once {
            self.settle(&call.path, &ended, |response| wrap(returned(response)));
        }
        // What it was asked with is taken out of what is shown of the answer.
        if reads_secrets(&call.params) {
            let _ = self.parsed_request(&call.params).await;
        }
        match ended {
            Ok(response) => Reply::Returns(wrap(returned(&response))),
            Err(Lost::Unknown(error)) if once => Reply::Fail(messages::effect_lost(&named, &error)),
            Err(lost) => Reply::Error(format!("{named}: {}", lost.text())),
        }
        .into()
    }

    /// Starts a request that was not started before.
    async fn begin(
        &mut self,
        call: &Pending,
        slot: Slot,
        named: String,
        once: bool,
    ) -> CallOutcome {
        if let Some(answer) = self.before_call(&slot, &named, once).await {
            return answer;
        }
        let http_request = match self.parsed_request(&call.params).await {
            Ok(http_request) => http_request,
            Err(error) => return Reply::Error(error).into(),
        };
        if let Err(error) = self.admit(&http_request, &call.params) {
            return Reply::Error(error).into();
        }
        let egress = self.session.ctx.workflow.egress.clone();
        let host = http_request.url.host().unwrap_or_default().to_owned();
        let not_sent = |error: HttpError| Lost::NotSent(error.to_string());
        let work = async move {
            if !once {
                return get(http_request, &egress).await.map_err(not_sent);
            }
            let ready = reach(http_request, &egress).await.map_err(not_sent)?;
            send(ready).await.map_err(|error| Lost::Unknown(error.to_string()))
        };
        self.call_out(Outgoing { slot, host, named, once, work: work.boxed() }).await
    }

    /// What answers a step before its call begins: how an earlier attempt at it ended, or that there is no room yet.
    pub(super) async fn before_call(
        &mut self,
        slot: &Slot,
        named: &str,
        once: bool,
    ) -> Option<CallOutcome> {
        if once {
            match self.effect(&slot.path, named).await {
                Ok(Some(done)) => return Some(done),
                Ok(None) => {}
                Err(error) => return Some(Reply::Error(error).into()),
            }
        }
        let has_room = self.session.ctx.calls.has_room(&slot.app.namespace);
        (!has_room).then_some(CallOutcome::NoRoom)
    }

    /// Begins a call, unless the egress rule refuses its host. The intent of one that must not be repeated is noted first.
    pub(super) async fn call_out(&mut self, call: Outgoing) -> CallOutcome {
        let Outgoing { slot, host, named, once, work } = call;
        let ctx = self.session.ctx;
        // A name is checked again when it is resolved; an address needs no connection to be refused.
        if !ctx.workflow.egress.allows_host(&host) {
            return Reply::Error(messages::egress_denied(&host)).into();
        }
        if once && let Err(error) = self.intend(&slot.path).await {
            return Reply::Error(error).into();
        }
        ctx.calls.begin(&slot, once, work);
        CallOutcome::Waits(named)
    }

    /// The key of a call among the calls in flight.
    pub(super) fn slot(&self, call: &Pending) -> Slot {
        Slot { app: self.session.key(), step: self.id.to_owned(), path: call.path.clone() }
    }

    /// Notes how an effect ended.
    pub(super) fn settle(
        &mut self,
        path: &str,
        ended: &Ended,
        value: impl Fn(&HttpResponse) -> Value,
    ) {
        let notes = &mut self.store.saved_mut().notes;
        match ended {
            Ok(response) => effects::end(notes, self.id, path, &value(response)),
            Err(Lost::NotSent(_)) => effects::withdraw(notes, self.id, path),
            Err(Lost::Unknown(_)) => {}
        }
    }

    /// The state of an effect: its result, or that the result is unknown. `None`: it was not started.
    async fn effect(&mut self, path: &str, what: &str) -> Result<Option<CallOutcome>, String> {
        self.store.load().await?;
        let notes = &self.store.saved().notes;
        if let Some(outcome) = effects::finished(notes, self.id) {
            return Ok(Some(CallOutcome::Finished(outcome)));
        }
        Ok(match effects::known(notes, self.id, path) {
            effects::Known::Nothing => None,
            effects::Known::Done(value) => Some(Reply::Returns(value).into()),
            effects::Known::Started(at) => Some(Reply::Fail(effects::unknown(what, &at)).into()),
        })
    }

    /// Notes an effect before it happens.
    async fn intend(&mut self, path: &str) -> Result<(), String> {
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        effects::begin(&mut self.store.saved_mut().notes, self.id, path, &now);
        let stored = self.store.commit(true).await;
        stored.map_err(|error| {
            effects::withdraw(&mut self.store.saved_mut().notes, self.id, path);
            messages::intent_not_stored(&error.to_string())
        })
    }

    fn admit(&self, http_request: &HttpRequest, params: &Value) -> Result<(), String> {
        let Some(limiter) = params.pointer("/request/ratelimiter") else { return Ok(()) };
        let limit = limiter.get("limit").and_then(Value::as_u64).unwrap_or(0);
        let period = text(limiter, "period");
        let length = period.parse::<vela_gocompat::duration::Duration>().ok();
        let length = length.and_then(vela_gocompat::duration::Duration::to_std);
        let length = length.ok_or_else(|| messages::bad_duration(period))?;
        let key = format!("{}-{}", http_request.method, shown(&http_request.url));
        let admitted = self.session.ctx.workflow.rates.lock().take(&key, limit, length);
        if admitted { Ok(()) } else { Err(messages::RATE_EXCEEDED.to_owned()) }
    }

    async fn parsed_request(&mut self, params: &Value) -> Result<HttpRequest, String> {
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
            let found = found.map_err(|e| messages::header_secret(secret, name, &e))?;
            let value = secret_value(&found, key)
                .ok_or_else(|| messages::header_secret_key(key, secret, name))?;
            headers.push(header(name, &String::from_utf8_lossy(&value))?);
        }
        if let Some(auth) = url.authority().and_then(|a| a.as_str().rsplit_once('@')) {
            let value = format!("Basic {}", BASE64.encode(auth.0));
            headers.push(header("authorization", &value)?);
        }
        let timeout = match text(&request, "timeout") {
            "" => USUAL,
            wanted => {
                let length = wanted.parse::<vela_gocompat::duration::Duration>().ok();
                let length = length.and_then(vela_gocompat::duration::Duration::to_std);
                length.ok_or_else(|| messages::bad_duration(wanted))?.min(LONGEST)
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
            timeout: timeout.max(Duration::from_millis(1)),
            tls,
        })
    }

    async fn secret(&mut self, namespace: &str, name: &str) -> Result<Value, String> {
        let target = Target { api_version: "v1", kind: "Secret", namespace, name };
        let session = &*self.session;
        let found = session.io().get(&target).await;
        let found = found.map_err(|error| error.to_string())?;
        self.keep_secret(&found);
        Ok(found)
    }

    async fn tls(
        &mut self,
        config: &Value,
    ) -> Result<std::sync::Arc<rustls::ClientConfig>, String> {
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
        let own = match (pem("client.crt"), pem("client.key")) {
            (Some(chain), Some(key)) => {
                let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
                let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| wrong("client.key"))?;
                Some((chain.map_err(|_| wrong("client.crt"))?, key))
            }
            _ => None,
        };
        crate::egress::tls(roots, own).map_err(|error| error.to_string())
    }
}

fn method(params: &Value) -> Result<Method, String> {
    match text(params, "method") {
        "" => Ok(Method::GET),
        method => Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string()),
    }
}

fn url(params: &Value) -> Result<Uri, String> {
    let url = text(params, "url").parse();
    url.map_err(|error: http::uri::InvalidUri| messages::bad_url(&error.to_string()))
}

fn reads_secrets(params: &Value) -> bool {
    params.pointer("/request/headersFromSecret").is_some() || params.get("tls_config").is_some()
}

fn secret_value(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let encoded = secret.get("data")?.get(key)?.as_str()?;
    BASE64.decode(encoded).ok()
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
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
