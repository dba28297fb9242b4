//! `vela/metrics`: a question to Prometheus. Asking changes nothing, so it is asked at every look.

use std::time::Duration;

use futures::FutureExt;
use http::{HeaderValue, Method, Uri, header::CONTENT_TYPE};
use jiff::Timestamp;
use serde_json::Value;
use vela_workflow::{Reply, metrics};

use crate::evaluation::Lent;
use crate::messages;
use crate::outside::beside::{Call, Lost};
use crate::outside::http::{Ask, reach, send};

use super::http::{go_method, shown};
use super::{Answer, Calling, Pending, text};

impl Calling<'_, '_, '_> {
    pub(super) async fn prom_check(&mut self, call: &Pending) -> Answer {
        match self.checked(call).await {
            Ok(answer) => answer,
            Err(text) => Reply::Error(text).into(),
        }
    }

    async fn checked(&mut self, call: &Pending) -> Result<Answer, String> {
        let params = &call.params;
        let endpoint = text(params, "metricEndpoint").trim_end_matches('/');
        let url = format!("{endpoint}/api/v1/query");
        let parsed: Uri = url
            .parse()
            .map_err(|error: http::uri::InvalidUri| messages::bad_url(&error.to_string()))?;
        let named = go_method(&Method::POST, &shown(&parsed));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let ask = Ask {
            method: Method::POST,
            url: parsed,
            headers: vec![(CONTENT_TYPE, form)],
            body: format!("query={}", encoded(text(params, "query"))).into_bytes(),
            timeout: Duration::from_secs(10),
            tls: None,
        };
        let ctx = self.session.ctx;
        let slot = self.slot(call);
        let told = match ctx.beside.find(&slot) {
            Some(Call::UnderWay) => return Ok(Answer::Waits(named)),
            Some(Call::Ended(ended)) => ended,
            None if !ctx.beside.has_room(&slot.app.namespace) => return Ok(Answer::NoRoom),
            None => {
                let egress = ctx.workflow.egress.clone();
                let told = async move { send(reach(ask, &egress).await?).await };
                ctx.beside.begin(
                    &slot,
                    false,
                    told.map(|told| told.map_err(Lost::NotSent)).boxed(),
                );
                return Ok(Answer::Waits(named));
            }
        };
        let told = told.map_err(|lost| format!("{named}: {}", lost.text()))?;
        let answer: Value = serde_json::from_str(&told.body)
            .map_err(|_| messages::prometheus_unreadable(told.status))?;
        let value = metrics::value(&answer)?;
        let [condition, duration, fail_duration] =
            ["condition", "duration", "failDuration"].map(|key| text(params, key).to_owned());
        let (id, mut notes) = (self.id.to_owned(), self.store.saved().notes.clone());
        let job = move |lent: &Lent| {
            let (duration, fail_duration) = (&*duration, &*fail_duration);
            let check = metrics::Check { condition: &condition, duration, fail_duration };
            let now = Timestamp::now();
            let result = metrics::judge(check, &value, &id, &mut notes, now, &lent.limits);
            (result, notes)
        };
        let judged = self.session.ctx.cue.run(job).await.map_err(|error| error.to_string());
        let (result, notes) = judged?;
        self.store.saved_mut().notes = notes;
        result.map(|value| Reply::Returns(value).into())
    }
}

/// A text as forms carry it.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}
