//! `vela/email`: mails. Each is sent at most once: after an unknown outcome it is not sent again.

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::Value;

use crate::egress::Egress;
use crate::egress::calls::{Ended, Lost};
use crate::egress::http::HttpResponse;
use crate::egress::smtp::{Failure, Mail, reach, send};
use crate::messages;

use super::outgoing::{Outgoing, Progress};
use super::{CallOutcome, Calling, Pending, names, text};

impl Calling<'_, '_, '_> {
    pub(super) async fn mail(&mut self, call: &Pending) -> CallOutcome {
        let from = call.params.get("from").cloned().unwrap_or_default();
        let content = call.params.get("content").cloned().unwrap_or_default();
        let port = from.get("port").and_then(Value::as_u64).and_then(|p| u16::try_from(p).ok());
        let now = Timestamp::now();
        let address = text(&from, "address").to_owned();
        let domain = address.rsplit_once('@').map_or("vela", |(_, domain)| domain);
        let mail = Mail {
            host: text(&from, "host").to_owned(),
            port: port.unwrap_or(587),
            alias: text(&from, "alias").to_owned(),
            password: text(&from, "password").to_owned(),
            to: names(&call.params, "to"),
            subject: text(&content, "subject").to_owned(),
            body: text(&content, "body").to_owned(),
            date: now.into(),
            // Unique for the step and the attempt, and recognisable in the logs of a mail server.
            id: format!("{}.{}@{domain}", self.id, now.as_millisecond()),
            from: address,
        };
        self.secrets.keep(&mail.password);
        let named = messages::mail_named(&mail.to.join(", "), &mail.host);
        let outgoing = Outgoing::once(call, &mail.host, named);
        let ended = match self.progress(&outgoing).await {
            Progress::Answered(outcome) => return outcome,
            Progress::MayBegin => {
                let egress = self.session.ctx.workflow.egress.clone();
                return self.begin(outgoing, exchange(mail, egress).boxed()).await;
            }
            Progress::Ended(ended) => ended,
        };
        self.ended(&outgoing, ended, |_| Value::Null).into()
    }
}

/// Sends a mail. A mail server's answer has nothing that a step needs.
async fn exchange(mail: Mail, egress: Egress) -> Ended {
    let ready = reach(&mail, &egress).await.map_err(|error| Lost::NotSent(error.to_string()))?;
    match send(ready).await {
        Ok(()) => Ok(HttpResponse::default()),
        Err(Failure::NotSent(error)) => Err(Lost::NotSent(error)),
        Err(Failure::Unknown(error)) => Err(Lost::Unknown(error)),
    }
}
