//! `vela/metrics`: queries to Prometheus. They have no effect, so they are repeated at every reconcile.

use std::time::Duration;

use futures::FutureExt;
use http::{HeaderValue, Method, Uri, header::CONTENT_TYPE};
use jiff::Timestamp;
use serde_json::Value;
use vela_workflow::{Reply, metrics};

use crate::application::workflow::error::StepError;
use crate::egress::calls::Lost;
use crate::egress::http::{HttpError, HttpRequest, reach, send};
use crate::evaluation::EvaluationScope;
use crate::messages;

use super::http::{go_method, shown};
use super::outgoing::{Outgoing, Progress};
use super::{CallOutcome, Calling, Pending, text};

impl Calling<'_, '_, '_> {
    pub(super) async fn prom_check(&mut self, call: &Pending) -> CallOutcome {
        match self.checked(call).await {
            Ok(answer) => answer,
            Err(error) => Reply::from(error).into(),
        }
    }

    async fn checked(&mut self, call: &Pending) -> Result<CallOutcome, StepError> {
        let params = &call.params;
        let endpoint = text(params, "metricEndpoint").trim_end_matches('/');
        // POST, since queries can be longer than an address may be; nothing changes by it.
        let url = format!("{endpoint}/api/v1/query");
        let parsed: Uri = url
            .parse()
            .map_err(|error: http::uri::InvalidUri| messages::bad_url(&error.to_string()))?;
        let named = go_method(&Method::POST, &shown(&parsed));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let request = HttpRequest {
            method: Method::POST,
            url: parsed,
            headers: vec![(CONTENT_TYPE, form)],
            body: format!("query={}", encoded(text(params, "query"))).into_bytes(),
            timeout: Duration::from_secs(10),
            tls: None,
        };
        let outgoing =
            Outgoing::repeatable(call, request.url.host().unwrap_or_default(), named.clone());
        let response = match self.progress(&outgoing).await {
            Progress::Answered(outcome) => return Ok(outcome),
            Progress::MayBegin => {
                let egress = self.session.ctx.workflow.egress.clone();
                let response = async move { send(reach(request, &egress).await?).await };
                let not_sent = |error: HttpError| Lost::NotSent(error.to_string());
                let work = response.map(move |sent| sent.map_err(not_sent)).boxed();
                return Ok(self.begin(outgoing, work).await);
            }
            Progress::Ended(ended) => ended,
        };
        let response = response.map_err(|lost| format!("{named}: {}", lost.text()))?;
        // What is no JSON is no Prometheus: the status code helps more than the text.
        let answer: Value = serde_json::from_str(&response.body)
            .map_err(|_| messages::prometheus_unreadable(response.status))?;
        let value = metrics::value(&answer)?;
        let [condition, duration, fail_duration] =
            ["condition", "duration", "failDuration"].map(|key| text(params, key).to_owned());
        // Copied: the judgement runs on another thread and may be dropped.
        let (id, mut notes) = (self.id.to_owned(), self.store.saved().notes.clone());
        let job = move |scope: &EvaluationScope| {
            let (duration, fail_duration) = (&*duration, &*fail_duration);
            let check = metrics::Check { condition: &condition, duration, fail_duration };
            let now = Timestamp::now();
            let result = metrics::judge(check, &value, &id, &mut notes, now, &scope.limits);
            (result, notes)
        };
        let (result, notes) = self.session.ctx.cue.run(job).await?;
        self.store.saved_mut().notes = notes;
        Ok(Reply::Returns(result?).into())
    }
}

/// A text as forms carry it.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        // Everything else is escaped: a query must not end the form field.
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}
